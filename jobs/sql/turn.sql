-- What a node does again and again: it renews its lease, claims jobs, gives back what lost
-- nodes had, and ends the leases of applications. Each is a call, and none needs another.
--
-- No call waits for what somebody else holds. It passes by a row that is locked, and leaves it
-- for the next call. A lock on a whole table ends the call after half a second.

-- Whether runs of a queue may begin. If so, nobody changes the queue before the transaction
-- has ended, and its next statement sees what the queue is. False: somebody is changing it.
-- Of the rows of a gate it shares the one of its process: where many share a row, PostgreSQL keeps
-- a list of them, and each pays for the list.
CREATE OR REPLACE FUNCTION hwheel._pass(name text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	mine constant int := pg_backend_pid() % 16;
BEGIN
	PERFORM FROM hwheel.gate g WHERE g.queue = name AND g.slot = mine FOR SHARE SKIP LOCKED;
	IF FOUND THEN
		RETURN true;
	ELSIF EXISTS (SELECT FROM hwheel.gate g WHERE g.queue = name AND g.slot = mine) THEN
		RETURN false;
	END IF;
	RETURN hwheel._make_gate(name, mine);
END $$;

-- Makes a row of the gate of a queue, and shares it. False: a transaction that is open has made it.
CREATE OR REPLACE FUNCTION hwheel._make_gate(name text, slot int) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '200 ms' SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	INSERT INTO hwheel.gate (queue, slot) VALUES (name, _make_gate.slot) ON CONFLICT DO NOTHING;
	PERFORM FROM hwheel.gate g WHERE g.queue = name AND g.slot = _make_gate.slot
		FOR SHARE SKIP LOCKED;
	RETURN FOUND;
EXCEPTION WHEN lock_not_available THEN
	RETURN false;
END $$;

-- Which of these queues may be passed.
CREATE OR REPLACE FUNCTION hwheel._passed(names text[]) RETURNS text[]
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT ARRAY(SELECT n FROM (SELECT DISTINCT unnest(names) AS n) d
		WHERE n IS NOT NULL AND hwheel._pass(n));
$$;

-- Holds the gate of a queue until the end of the transaction: all its rows, in their order, so
-- that two who hold it wait for each other at the first.
CREATE OR REPLACE FUNCTION hwheel._hold_gate(name text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	INSERT INTO hwheel.gate (queue, slot, changed_at)
		SELECT name, slot, clock_timestamp() FROM generate_series(0, 15) slot ORDER BY slot
	ON CONFLICT (queue, slot) DO UPDATE SET changed_at = excluded.changed_at;
$$;

-- The clock of the server went back: a lease ends later than any that begins now. It lasts as long
-- as if it began now, and so the jobs of nodes and applications that are lost do not wait until
-- the clock is there again.
CREATE OR REPLACE FUNCTION hwheel._shorten_leases() RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET lock_timeout = '500 ms'
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	UPDATE hwheel.node n SET lease_until = clock_timestamp() + s.lease_length FROM hwheel.settings s
		WHERE n.id IN (SELECT m.id FROM hwheel.node m WHERE m.left_at IS NULL
			AND m.lease_until > clock_timestamp() + s.lease_length FOR NO KEY UPDATE SKIP LOCKED);
	UPDATE hwheel.job j SET fired_at = clock_timestamp(),
			lease_until = j.lease_until - (j.fired_at - clock_timestamp())
		WHERE j.id = ANY (ARRAY(SELECT i.id FROM hwheel.job i WHERE i.lease_until IS NOT NULL
			AND i.fired_at > clock_timestamp() + interval '1 s' FOR NO KEY UPDATE SKIP LOCKED))
			AND j.state = 'running';
END $$;

-- Renews the lease, and expels nodes whose lease has run out. HW001: this node was expelled
-- itself. renewed is false if somebody has locked the node's row: nobody else can expel it then.
CREATE OR REPLACE FUNCTION hwheel._renew5(node_id bigint, kinds text[], clock_offset_us bigint,
	failed bigint, lateness bigint[],
	OUT renewed boolean, OUT expelled bigint, OUT until timestamptz, OUT at timestamptz)
LANGUAGE plpgsql SET lock_timeout = '500 ms' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	-- Before this node renews its lease, which may be the only one that shows it.
	IF EXISTS (SELECT FROM hwheel.node n, hwheel.settings s WHERE n.left_at IS NULL
		AND n.lease_until > clock_timestamp() + s.lease_length + interval '1 s') THEN
		PERFORM hwheel._shorten_leases();
	END IF;
	UPDATE hwheel.node n SET
		lease_until = clock_timestamp() + (SELECT lease_length FROM hwheel.settings),
		clock_offset = make_interval(secs => clock_offset_us / 1e6),
		failed = _renew5.failed, lateness = _renew5.lateness, kinds = _renew5.kinds
	-- After a backup was restored under nodes that run, another process may have this number.
	WHERE n.id = (SELECT m.id FROM hwheel.node m WHERE m.id = node_id AND m.left_at IS NULL
		AND m.word IS NOT DISTINCT FROM hwheel._word() FOR NO KEY UPDATE SKIP LOCKED);
	renewed := FOUND;
	IF NOT renewed AND NOT EXISTS (SELECT FROM hwheel.node n WHERE n.id = node_id
		AND n.left_at IS NULL AND n.word IS NOT DISTINCT FROM hwheel._word()) THEN
		RAISE EXCEPTION 'hwheel: node % was expelled: its lease ran out, or another process has its number',
			node_id USING ERRCODE = 'HW001';
	END IF;
	UPDATE hwheel.node n SET left_at = clock_timestamp() WHERE n.id IN (
		SELECT m.id FROM hwheel.node m WHERE m.left_at IS NULL AND m.id <> node_id
			AND m.lease_until < clock_timestamp() FOR NO KEY UPDATE SKIP LOCKED);
	GET DIAGNOSTICS expelled = ROW_COUNT;
	SELECT min(n.lease_until) INTO until FROM hwheel.node n
		WHERE n.left_at IS NULL AND n.id <> node_id;
	at := clock_timestamp();
END $$;

-- The numbers of the nodes that have jobs, and are not there.
CREATE OR REPLACE FUNCTION hwheel._lost_owners() RETURNS SETOF bigint
LANGUAGE sql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
	WITH RECURSIVE o AS (
		(SELECT j.owner FROM hwheel.job j WHERE j.owner > 0 ORDER BY j.owner LIMIT 1)
		UNION ALL
		SELECT (SELECT j.owner FROM hwheel.job j WHERE j.owner > o.owner ORDER BY j.owner LIMIT 1)
		FROM o WHERE o.owner IS NOT NULL
	)
	SELECT o.owner FROM o WHERE o.owner IS NOT NULL
		AND NOT EXISTS (SELECT FROM hwheel.node n WHERE n.id = o.owner AND n.left_at IS NULL);
$$;

-- Takes jobs from nodes that have left, up to a number, so that the call is short. Returns
-- their number. A job that is locked is being fired, or changed by a user; the next call looks
-- again. It notifies nobody, so that it works when the queue of notifications is full: the due
-- time of a job that is not paused stays, and the trigger looks at that column alone.
CREATE OR REPLACE FUNCTION hwheel._give_back() RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET lock_timeout = '500 ms'
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	lost  bigint;
	ids   bigint[];
	total bigint := 0;
BEGIN
	FOR lost IN SELECT hwheel._lost_owners() LOOP
		ids := ARRAY(SELECT id FROM hwheel.job WHERE owner = lost
			LIMIT 10000 FOR UPDATE SKIP LOCKED);
		-- Nobody runs them any more, and nobody shall.
		DELETE FROM hwheel.job j USING hwheel.stop s WHERE j.id = ANY (ids) AND s.id = j.id;
		UPDATE hwheel.job SET paused_due = due, due = 'infinity'
			WHERE id = ANY (ids) AND paused_due IS NOT NULL;
		UPDATE hwheel.job SET state = 'waiting', owner = NULL, fence = fence + 1,
			attempts = least(attempts + (state = 'running')::int, 100),
			losses = least(losses + (kind = 'sql' AND coalesce(paused_due, due) <= clock_timestamp())::int,
				100),
			last_error = CASE WHEN state = 'running'
				THEN 'the node was lost while the job ran' ELSE last_error END,
			tried = CASE WHEN state = 'running'
				THEN hwheel._tried(tried, fired_at, 'the node was lost while the job ran') ELSE tried END
		WHERE id = ANY (ids);
		total := total + cardinality(ids);
	END LOOP;
	RETURN total;
END $$;

-- Which jobs of a node somebody has asked to end. Deletes those that have not begun, or have
-- failed meanwhile, and forgets those that have ended.
CREATE OR REPLACE FUNCTION hwheel._stopping(node_id bigint) RETURNS TABLE (id bigint, fence bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET lock_timeout = '500 ms'
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	PERFORM hwheel._tell_followers(ARRAY(SELECT s.id FROM hwheel.stop s));
	-- No join, here and below: see take().
	DELETE FROM hwheel.job j WHERE j.id = ANY (ARRAY(SELECT i.id FROM hwheel.job i
		WHERE i.id = ANY (ARRAY(SELECT s.id FROM hwheel.stop s)) AND i.state IN ('waiting', 'claimed')
		FOR UPDATE SKIP LOCKED));
	DELETE FROM hwheel.stop s WHERE s.ctid = ANY (ARRAY(SELECT t.ctid FROM hwheel.stop t
		WHERE (SELECT j.id FROM hwheel.job j WHERE j.id = t.id
			AND j.state IN ('waiting', 'claimed', 'running')) IS NULL FOR UPDATE SKIP LOCKED));
	RETURN QUERY SELECT j.id, j.fence FROM hwheel.job j
		WHERE j.id = ANY (ARRAY(SELECT s.id FROM hwheel.stop s)) AND j.owner = node_id;
END $$;

-- Ends leases of applications that have run out, up to a number: each is an attempt that
-- failed. Returns their number.
CREATE OR REPLACE FUNCTION hwheel._expire() RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET lock_timeout = '500 ms'
-- As in _turn5().
SET enable_bitmapscan = off SET enable_sort = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	-- The time is read once, as in _turn5().
	at     constant timestamptz := clock_timestamp();
	ids    bigint[];
	fences bigint[];
BEGIN
	SELECT array_agg(j.id), array_agg(j.fence) INTO ids, fences FROM (
		SELECT id, fence FROM hwheel.job WHERE lease_until < at
			AND state = 'running' AND kind = 'app'
		ORDER BY lease_until LIMIT 1000 FOR UPDATE SKIP LOCKED) j;
	IF ids IS NOT NULL THEN
		PERFORM hwheel._tell_followers(ids);
		PERFORM hwheel._app_failed(ids, fences, 'the lease ran out', NULL, false);
	END IF;
	RETURN coalesce(cardinality(ids), 0);
END $$;

-- Gives jobs that wait for others their due time, if no job of their keys is still to run. One that has
-- to wait gets another after_key. `number` counts both. However many jobs wait, a call is short: it looks
-- at these keys, and at the jobs that wait for those of them that have ended.
--
-- named    jobs that wait: it looks at their keys
-- rows     the number of other jobs whose after_key it looks at, in the order of these keys from `after`
--          on. `next` is where the next call goes on. NULL: at the beginning. Both are the bytes of a
--          key: a database may have characters that UTF-8 lacks
-- at_most  the number of jobs that it changes at most. After a call that has changed that many, the next
--          one needs the same arguments
--
-- One statement sees all keys of a job at the same time, after the locks. So it does not matter in
-- which order the others have ended, and which transaction has seen which.
CREATE OR REPLACE FUNCTION hwheel._unblock8(named bigint[], after bytea, rows bigint, at_most bigint,
	OUT number bigint, OUT next bytea)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET lock_timeout = '500 ms'
-- As in _turn5().
SET enable_bitmapscan = off SET enable_sort = off
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	last constant text := coalesce(convert_from(after, getdatabaseencoding()), '');
	near constant text[] := ARRAY(SELECT f.after_key FROM hwheel.job f
		WHERE f.after_key > last ORDER BY f.after_key LIMIT rows);
	-- Those that have no job. No join: it may read all live jobs. See take().
	ended constant text[] := ARRAY(SELECT w.key FROM (
			SELECT unnest(near) UNION
			SELECT k FROM unnest(named) n, LATERAL (SELECT unnest(f.after_keys) AS k FROM hwheel.job f
				WHERE f.id = n) f) w (key)
		WHERE (SELECT m.id FROM hwheel.job m WHERE m.key = w.key
			AND m.state IN ('waiting', 'claimed', 'running')) IS NULL);
	ids bigint[] := ARRAY(SELECT f.id FROM unnest(ended) k, LATERAL (SELECT f.id FROM hwheel.job f
			WHERE f.after_key = k AND f.due = 'infinity' AND f.id <> ALL (named)
			LIMIT at_most FOR UPDATE SKIP LOCKED) f
		LIMIT at_most);
	at  constant timestamptz := clock_timestamp();
BEGIN
	IF cardinality(near) = rows THEN
		next := convert_to(near[rows], getdatabaseencoding());
	END IF;
	IF ended <> '{}' THEN
		-- They come last: if there are too many jobs, the next call finds their keys again.
		ids := ids || ARRAY(SELECT f.id FROM unnest(named) n, LATERAL (SELECT f.id FROM hwheel.job f
				WHERE f.id = n AND f.after_key = ANY (ended) AND f.due = 'infinity' FOR UPDATE SKIP LOCKED) f
			LIMIT at_most - cardinality(ids));
	END IF;
	number := cardinality(ids);
	IF number > 0 THEN
		WITH seen AS MATERIALIZED (
			SELECT f.id, (SELECT m.key FROM unnest(f.after_keys) k, LATERAL (SELECT m.key FROM hwheel.job m
				WHERE m.key = k AND m.state IN ('waiting', 'claimed', 'running') OFFSET 0) m LIMIT 1) AS key
			FROM hwheel.job f WHERE f.id = ANY (ids)
		), still AS (
			UPDATE hwheel.job f SET after_key = (SELECT s.key FROM seen s WHERE s.id = f.id)
			WHERE f.id = ANY (ARRAY(SELECT s.id FROM seen s WHERE s.key IS NOT NULL))
		)
		UPDATE hwheel.job f SET after_keys = NULL, after_key = NULL,
			occurrence = greatest(f.occurrence, at),
			due = CASE WHEN f.paused_due IS NULL THEN greatest(f.occurrence, at) ELSE 'infinity' END,
			paused_due = CASE WHEN f.paused_due IS NOT NULL THEN greatest(f.occurrence, at) END
		WHERE f.id = ANY (ARRAY(SELECT s.id FROM seen s WHERE s.key IS NULL));
	END IF;
END $$;

-- The same for all keys, one part after the other. For tests, and for nodes of version 7.
CREATE OR REPLACE FUNCTION hwheel._unblock(at_most bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	after bytea;
	part  bigint;
	total bigint := 0;
BEGIN
	LOOP
		SELECT u.number, u.next INTO part, after
			FROM hwheel._unblock8('{}', after, 1000, at_most - total) u;
		total := total + part;
		IF total >= at_most OR after IS NULL THEN
			RETURN total;
		END IF;
	END LOOP;
END $$;

-- The kinds of the jobs of a queue that are due next.
CREATE OR REPLACE FUNCTION hwheel._kinds_near(name text, horizon timestamptz) RETURNS text[]
LANGUAGE sql STABLE SET enable_seqscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
	SELECT array_agg(DISTINCT k.kind ORDER BY k.kind) FROM generate_series(0, 9) p, LATERAL (
		SELECT j.kind FROM hwheel.job j WHERE j.state = 'waiting'
			AND (j.kind <> 'app' OR j.due = '-infinity')
			AND j.queue = name AND j.priority = p AND j.due < horizon
		ORDER BY j.due LIMIT 100) k;
$$;

-- Leases the limits of queues to a node. One that does not run a kind of job that is due next
-- leaves the queue to another node. Returns the queues that no node can take, and their kinds.
--
-- A rate goes on where it was. If a holder was lost, it may have started a job that it has not
-- written down: then the next start waits.
CREATE OR REPLACE FUNCTION hwheel._hold5(node_id bigint, kinds text[], horizon timestamptz)
RETURNS TABLE (queue text, needed text[])
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	q record;
BEGIN
	FOR q IN SELECT name, holder FROM hwheel.queue
		WHERE num_nonnulls(max_running, rate) > 0 AND (holder = node_id OR paused_at IS NULL)
	LOOP
		needed := hwheel._kinds_near(q.name, horizon);
		CONTINUE WHEN needed IS NULL OR needed <@ kinds AND q.holder = node_id;
		IF NOT needed <@ kinds AND q.holder IS DISTINCT FROM node_id THEN
			queue := q.name;
			IF NOT EXISTS (SELECT FROM hwheel.node n WHERE n.left_at IS NULL
				AND (n.kinds IS NULL OR needed <@ n.kinds)) THEN
				RETURN NEXT;
			END IF;
			CONTINUE;
		END IF;
		-- What decides is read when the row is locked, by a statement that begins then.
		PERFORM FROM hwheel.queue u WHERE u.name = q.name FOR NO KEY UPDATE SKIP LOCKED;
		CONTINUE WHEN NOT FOUND;
		UPDATE hwheel.queue u SET
			holder = CASE WHEN needed <@ kinds THEN node_id END,
			paced_at = CASE
				-- The clock of the server went back.
				WHEN u.paced_at - make_interval(secs => 1 / u.rate) > clock_timestamp()
					THEN clock_timestamp()
				WHEN u.holder IS NULL
					OR u.paced_at + make_interval(secs => 1 / u.rate) > clock_timestamp()
					THEN u.paced_at
				ELSE clock_timestamp() END
		WHERE u.name = q.name
			AND NOT EXISTS (SELECT FROM hwheel.node n WHERE n.id = u.holder AND n.left_at IS NULL
				AND n.id <> node_id)
			-- The runs of a node that was lost count until they are given back.
			AND NOT EXISTS (SELECT FROM hwheel.job j WHERE j.owner = u.holder AND j.queue = u.name);
	END LOOP;
END $$;

-- Locks the jobs of a queue that a node claims next, and returns the places of their rows: those that
-- are due, the highest priority first, up to a number for each priority from 0 to 9, and then those
-- that will be due, up to another number.
CREATE OR REPLACE FUNCTION hwheel._find(name text, at_most bigint, rooms bigint[], ahead bigint,
	kinds text[], zones text[], at timestamptz, horizon timestamptz) RETURNS tid[]
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	places tid[];
BEGIN
	places := ARRAY(SELECT n.ctid FROM generate_series(9, 0, -1) p, LATERAL (
			SELECT j.ctid FROM hwheel.job j WHERE j.state = 'waiting'
				AND (j.kind <> 'app' OR j.due = '-infinity')
				AND j.queue = name AND j.priority = p AND j.due <= at
				AND j.kind = ANY (kinds) AND (j.zone = ANY (zones)) IS NOT true
			ORDER BY j.due LIMIT rooms[p + 1] FOR UPDATE SKIP LOCKED) n
		LIMIT at_most);
	ahead := least(ahead, at_most - cardinality(places));
	IF ahead > 0 THEN
		places := places || ARRAY(SELECT n.ctid FROM generate_series(9, 0, -1) p, LATERAL (
				SELECT j.ctid FROM hwheel.job j WHERE j.state = 'waiting'
					AND (j.kind <> 'app' OR j.due = '-infinity')
					AND j.queue = name AND j.priority = p AND j.due > at AND j.due < horizon
					AND j.kind = ANY (kinds) AND (j.zone = ANY (zones)) IS NOT true
				ORDER BY j.due LIMIT ahead FOR UPDATE SKIP LOCKED) n
			LIMIT ahead);
	END IF;
	RETURN places;
END $$;

-- Claims jobs that are due within the window. If they are few the node gets all of them.
-- Otherwise it goes from queue to queue, and a queue gives it a number that does not depend on
-- the size of its backlog: so no queue delays another, and a high priority does not wait for
-- what was due before.
--
-- after    NULL; '' if the round before left jobs behind; or the `key` of the last row of the call
--          before: the queue to go on after
-- cap      how many jobs that are due the node holds of a queue and a priority, at most
-- ahead    how many jobs that will be due it takes from a queue, at most
-- held     queues of which it holds jobs. counts has eleven numbers for each: of the jobs that
--          are due with a priority of 0 or more, of 1 or more ... of 9, and of those that will be
-- paced    queues whose rate this node keeps, and when each had no start left
--
-- what: job    as in the type
--       limit  of the queue `key`, which is leased to this node; `due` as in `paced`
--       bell   at `due` the applications of the queue `key` have to be woken. One node
--              gets these.
--       stuck  no node runs all kinds of jobs that are due in the queue `key`: see `kind`
--       more   the queue `key` has more; `id` is what the node holds of it at most
--       turn   the last row: `due` is the time; `ran`: lost nodes have jobs; `alone`: leases of
--              applications have run out; `suspect`: somebody has asked runs to end;
--              `exhausted`: jobs wait for others
-- The rows limit, bell and stuck come with the first call of a round.
CREATE OR REPLACE FUNCTION hwheel._turn5(node_id bigint, at_most bigint, kinds text[], after text,
	cap bigint, ahead bigint, held text[], counts bigint[],
	paced text[], paced_at timestamptz[]) RETURNS SETOF hwheel.claim3
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET lock_timeout = '500 ms'
-- To sort, or to look at pages instead of rows, is to read a whole backlog for its first jobs.
SET enable_bitmapscan = off SET enable_sort = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	s        hwheel.settings := (SELECT s FROM hwheel.settings s);
	-- Read once: an index is no help with a clock that moves while it is scanned.
	start    timestamptz := clock_timestamp();
	horizon  timestamptz := start + s.window_length;
	is_first boolean := coalesce(after, '') = '';
	is_calm  constant boolean := after IS NULL;
	zones    text[];
	room     bigint := at_most;
	looked   int := 0;
	-- A row that is locked keeps its place. To find it costs less than to find a number.
	places   tid[] := '{}';
	names    text[];
	found_   tid[];
	this     text;
	soonest  timestamptz; -- of its lowest priority
	place    int;
	rooms    bigint[];
	limit_   bigint;
	next     bigint;
	answer   hwheel.claim3;
BEGIN
	SELECT unknown_zones INTO zones FROM hwheel.node WHERE id = node_id AND left_at IS NULL;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'hwheel: node % was expelled: its lease ran out', node_id
			USING ERRCODE = 'HW001';
	END IF;

	IF is_first THEN
		UPDATE hwheel.queue q SET paced_at = p.at FROM unnest(_turn5.paced, _turn5.paced_at) AS p (name, at)
			WHERE q.name = p.name AND q.holder = node_id AND q.paced_at IS DISTINCT FROM p.at
				AND q.name IN (SELECT l.name FROM hwheel.queue l WHERE l.name = ANY (paced)
					FOR NO KEY UPDATE SKIP LOCKED);
		answer.what := 'stuck';
		FOR answer.key, answer.kind IN
			SELECT queue, array_to_string(needed, ', ') FROM hwheel._hold5(node_id, kinds, horizon)
		LOOP
			RETURN NEXT answer;
		END LOOP;
		RETURN QUERY SELECT * FROM hwheel._limits(node_id);
	END IF;

	IF room > 0 AND after IS NULL THEN
		SELECT array_agg(DISTINCT n.queue), count(*) INTO names, next FROM (
			SELECT j.queue FROM hwheel.job j WHERE j.state = 'waiting'
				AND (j.kind <> 'app' OR j.due = '-infinity') AND j.id > 0 AND j.due < horizon
			ORDER BY j.due LIMIT at_most + 1) n;
		IF next > at_most THEN
			names := NULL;
		ELSE
			-- A queue of which the node holds too much takes its turn below.
			names := ARRAY(SELECT n FROM unnest(names) n WHERE hwheel._may_claim(n, node_id)
				AND coalesce(counts[11 * array_position(held, n) - 10] < cap, true));
			names := hwheel._passed(names);
			-- The next statement sees what the queues are now.
			names := ARRAY(SELECT n FROM unnest(names) n WHERE hwheel._may_claim(n, node_id));
			places := ARRAY(SELECT j.ctid FROM hwheel.job j WHERE j.state = 'waiting'
					AND (j.kind <> 'app' OR j.due = '-infinity') AND j.id > 0 AND j.due < horizon
					AND j.queue = ANY (names) AND j.kind = ANY (kinds)
					AND (j.zone = ANY (zones)) IS NOT true
				ORDER BY j.due LIMIT room FOR UPDATE SKIP LOCKED);
			room := room - cardinality(places);
			looked := -1;
		END IF;
	END IF;

	answer := NULL;
	answer.what := 'more';
	WHILE room > 0 LOOP
		IF looked >= 500 THEN
			EXIT;
		ELSIF looked < 0 THEN
			-- All that is near is known. Only what the node holds too much of is left.
			SELECT min(h) INTO this FROM unnest(held) WITH ORDINALITY AS h (h, n)
				WHERE counts[11 * n - 10] >= cap AND (after IS NULL OR h > after COLLATE "C");
		ELSE
			looked := looked + 1;
			SELECT j.queue, j.due INTO this, soonest FROM hwheel.job j WHERE j.state = 'waiting'
					AND (j.kind <> 'app' OR j.due = '-infinity') AND j.queue > coalesce(after, '')
				ORDER BY j.queue, j.priority, j.due LIMIT 1;
		END IF;
		after := this;
		EXIT WHEN this IS NULL;
		CONTINUE WHEN NOT hwheel._may_claim(this, node_id);
		CONTINUE WHEN coalesce(soonest >= horizon, true)
			AND NOT EXISTS (SELECT FROM generate_series(0, 9) p, LATERAL (
			SELECT FROM hwheel.job j WHERE j.state = 'waiting'
				AND (j.kind <> 'app' OR j.due = '-infinity')
				AND j.queue = this AND j.priority = p AND j.due < horizon LIMIT 1) n);
		CONTINUE WHEN NOT hwheel._pass(this);
		CONTINUE WHEN NOT hwheel._may_claim(this, node_id);

		place := 11 * array_position(held, this) - 10;
		-- What the rate lets run within two windows is enough.
		limit_ := least(cap, (SELECT greatest(1, ceil(2 * q.rate * extract(epoch FROM s.window_length)))
			FROM hwheel.queue q WHERE q.name = this));
		rooms := ARRAY(SELECT greatest(0, limit_ - coalesce(counts[place + p], 0))
			FROM generate_series(0, 9) p ORDER BY p);
		next := least(room, ahead, CASE WHEN limit_ < cap
			THEN greatest(0, rooms[1] - coalesce(counts[place + 10], 0)) END);
		found_ := hwheel._find(this, room, rooms, next, kinds, zones, start, horizon);
		places := places || found_;
		IF cardinality(found_) >= least(room, rooms[1]) THEN
			answer.key := this;
			answer.id := limit_;
			RETURN NEXT answer;
		END IF;
		room := room - cardinality(found_);
	END LOOP;
	IF looked < 0 OR this IS NULL THEN
		after := NULL;
	END IF;

	RETURN QUERY WITH claimed AS (
		UPDATE hwheel.job j SET state = 'claimed', owner = node_id, fence = j.fence + 1
		WHERE j.ctid = ANY (places) RETURNING j AS job
	)
	SELECT a.* FROM claimed c, LATERAL hwheel._claims3(c.job) a;

	IF is_first AND EXISTS (SELECT FROM hwheel.job WHERE state = 'waiting' AND kind = 'app')
		AND node_id = (SELECT min(id) FROM hwheel.node WHERE left_at IS NULL AND version >= 4) THEN
		answer := NULL;
		answer.what := 'bell';
		FOR answer.key, answer.due IN SELECT * FROM hwheel._bells(horizon) LOOP
			RETURN NEXT answer;
		END LOOP;
	END IF;
	answer := NULL;
	answer.what := 'turn';
	answer.key := after;
	-- While there is a backlog the index of owners begins with many dead entries.
	answer.ran := CASE WHEN is_calm THEN EXISTS (SELECT hwheel._lost_owners())
		ELSE EXISTS (SELECT FROM hwheel.node n WHERE n.left_at IS NOT NULL
			AND EXISTS (SELECT FROM hwheel.job j WHERE j.owner = n.id)) END;
	-- With the state in this query, the planner would use the index of all live jobs.
	answer.alone := EXISTS (SELECT FROM hwheel.job WHERE lease_until < start);
	answer.suspect := EXISTS (SELECT FROM hwheel.stop);
	answer.exhausted := EXISTS (SELECT FROM hwheel.job WHERE after_key IS NOT NULL);
	answer.due := clock_timestamp();
	RETURN NEXT answer;
END $$;

CREATE OR REPLACE FUNCTION hwheel._leave(node_id bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	UPDATE hwheel.node SET left_at = clock_timestamp() WHERE id = node_id AND left_at IS NULL
		AND word IS NOT DISTINCT FROM hwheel._word();
	SELECT hwheel._give_back();
$$;

-- Leaves, and writes down when queues had no start left whose rate this node kept. Their next
-- holder goes on from there.
CREATE OR REPLACE FUNCTION hwheel._leave5(node_id bigint, paced text[], paced_at timestamptz[])
RETURNS void LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT hwheel._leave(node_id);
	-- The server may still run a function of this node. Then the queue waits for the end of that: see _hold5().
	UPDATE hwheel.queue q SET paced_at = p.at,
			holder = (SELECT j.owner FROM hwheel.job j WHERE j.owner = node_id AND j.queue = q.name LIMIT 1)
		FROM (SELECT l.name, p.at FROM hwheel.queue l
			LEFT JOIN unnest(_leave5.paced, _leave5.paced_at) AS p (name, at) ON p.name = l.name
			WHERE l.holder = node_id FOR NO KEY UPDATE OF l SKIP LOCKED) p
		WHERE q.name = p.name AND p.at IS NOT NULL;
$$;

-- What calls of older versions call that are under way during an upgrade.
CREATE OR REPLACE FUNCTION hwheel._release() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT hwheel._give_back();
$$;

-- The calls of nodes of version 4.

CREATE OR REPLACE FUNCTION hwheel._plan(ids bigint[], fences bigint[],
	nexts timestamptz[], skips int[], errors text[])
RETURNS TABLE (id bigint, fence bigint, due timestamptz)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT p.id, p.fence, p.due FROM hwheel._plan5(ids, fences, nexts, skips, errors) p
	WHERE p.outcome = 'kept';
$$;

CREATE OR REPLACE FUNCTION hwheel._renew(node_id bigint, clock_offset_us bigint, failed bigint,
	lateness bigint[]) RETURNS text[]
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT hwheel._renew5(node_id, NULL, clock_offset_us, failed, lateness);
	SELECT hwheel._give_back();
	SELECT unknown_zones FROM hwheel.node WHERE id = node_id;
$$;

CREATE OR REPLACE FUNCTION hwheel._turn3(node_id bigint, at_most int, kinds text[],
	clock_offset_us bigint, failed bigint, lateness bigint[]) RETURNS SETOF hwheel.claim3
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT hwheel._renew(node_id, clock_offset_us, failed, lateness);
	SELECT hwheel._expire();
	SELECT t.* FROM hwheel._turn5(node_id, at_most, kinds, NULL, at_most, at_most, '{}', '{}',
			'{}', '{}') t
		WHERE t.what IN ('job', 'limit', 'bell', 'turn');
$$;

-- The calls of nodes of version 2 and 3.

CREATE OR REPLACE FUNCTION hwheel._turn(node_id bigint, at_most int, kinds text[],
	clock_offset_us bigint, failed bigint, lateness bigint[]) RETURNS SETOF hwheel.claim2
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT hwheel._renew(node_id, clock_offset_us, failed, lateness);
	SELECT t.id, t.fence, t.kind, t.key, t.due, t.occurrence, t.every_us, t.cron, t.zone, t.missed,
		t.grace_us, t.timeout_ms, t.exhausted, t.function, t.alone, t.suspect
	FROM hwheel._turn5(node_id, at_most, kinds, NULL, at_most, at_most, '{}', '{}', '{}', '{}') t
	WHERE t.what = 'job';
$$;

-- Returns the jobs that a node has claimed. After a lost connection it may have
-- missed an answer.
CREATE OR REPLACE FUNCTION hwheel._held(node_id bigint) RETURNS SETOF hwheel.claim2
LANGUAGE sql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
	SELECT a.* FROM hwheel.job j, LATERAL hwheel._as_claim2(j) a
	WHERE j.owner = node_id AND j.state = 'claimed';
$$;

-- The calls of nodes of version 1.

CREATE OR REPLACE FUNCTION hwheel._as_claim(c hwheel.claim2) RETURNS hwheel.claim
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
	SELECT c.id, c.fence, c.kind, c.due, c.occurrence, c.every_us, c.cron, c.zone, c.missed,
		c.grace_us, c.timeout_ms, c.exhausted;
$$;

CREATE OR REPLACE FUNCTION hwheel._claim(node_id bigint, at_most int, kinds text[],
	clock_offset_us bigint, failed bigint, lateness bigint[]) RETURNS SETOF hwheel.claim
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT a.* FROM hwheel._turn(node_id, at_most, kinds, clock_offset_us, failed, lateness) c,
		LATERAL hwheel._as_claim(c) a;
$$;

CREATE OR REPLACE FUNCTION hwheel._owned(node_id bigint) RETURNS SETOF hwheel.claim
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT a.* FROM hwheel._held(node_id) c, LATERAL hwheel._as_claim(c) a;
$$;

CREATE OR REPLACE FUNCTION hwheel._settle(ids bigint[], fences bigint[], errors text[],
	nexts timestamptz[], skips int[], started timestamptz[])
RETURNS TABLE (id bigint, outcome text, fence bigint, due timestamptz,
	occurrence timestamptz, late_us bigint, error text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT * FROM hwheel._settle(ids, fences, errors, nexts, skips, started, false, NULL);
$$;

CREATE OR REPLACE FUNCTION hwheel._fire(ids bigint[], fences bigint[],
	nexts timestamptz[], skips int[])
RETURNS TABLE (id bigint, outcome text, fence bigint, due timestamptz,
	occurrence timestamptz, late_us bigint, error text)
LANGUAGE sql BEGIN ATOMIC
	SELECT * FROM hwheel._fire(ids, fences, nexts, skips, false, NULL);
END;

CREATE OR REPLACE FUNCTION hwheel._begin(ids bigint[], fences bigint[])
RETURNS TABLE (id bigint, outcome text, key text, occurrence timestamptz, target text,
	payload text, attempt int)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT id, outcome, key, occurrence, target, payload, attempt FROM hwheel._start(ids, fences);
$$;
