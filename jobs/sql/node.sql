-- The functions for nodes, one for each step of the protocol in src/main.rs.
-- All decisions about time use clock_timestamp(): the database's clock.
--
-- A function that nodes call keeps its name, its parameters and the columns of its
-- result as long as settings.oldest_node admits such nodes: an upgrade replaces it under
-- nodes that run. One that needs others gets a new name or more parameters, and the
-- old one stays, at the end of this file.
--
-- No function trusts the search_path: any owner of the database may change it, and may write
-- functions and operators that fit a call better than those of PostgreSQL do. A function pins
-- its search_path, or its body is read when it is created, which the planner can inline. The
-- functions that run the functions of users can do neither. They name the schema of
-- everything, operators and types too. A test puts a trap for each function and operator
-- of PostgreSQL in front.
--
-- Most functions switch sequential scans off. They read a few jobs among many, and
-- must not keep a plan that was made while the table was small. The switch makes
-- queries look expensive to the planner, so the functions switch its compiler off as
-- well. The functions of users, which _fire() runs, have the settings of the database.

-- The word of the process that calls, which nobody else has. NULL: its program is older.
CREATE OR REPLACE FUNCTION hwheel._word() RETURNS text LANGUAGE sql STABLE
	RETURN nullif(current_setting('hwheel.word', true), '');

-- Returns the node's id. HW002: this program and this schema do not fit.
CREATE OR REPLACE FUNCTION hwheel._enter(name text, version int,
	OUT id bigint, OUT window_ms bigint, OUT lease_ms bigint)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	s hwheel.settings := (SELECT s FROM hwheel.settings s);
BEGIN
	IF s.version < _enter.version OR s.oldest_node > _enter.version THEN
		RAISE EXCEPTION 'hwheel: the schema has version %, the program %',
			s.version, _enter.version USING ERRCODE = 'HW002';
	END IF;
	-- No join: see take().
	DELETE FROM hwheel.node n WHERE n.left_at < clock_timestamp() - interval '1 day'
		AND (SELECT j.owner FROM hwheel.job j WHERE j.owner = n.id LIMIT 1) IS NULL;
	INSERT INTO hwheel.node AS n (name, lease_until, version, word)
		VALUES (_enter.name, clock_timestamp() + s.lease_length, _enter.version, hwheel._word())
		RETURNING n.id INTO _enter.id;
	window_ms := extract(epoch FROM s.window_length) * 1000;
	lease_ms := extract(epoch FROM s.lease_length) * 1000;
END $$;

-- Stores which time zones of the server a node does not know.
CREATE OR REPLACE FUNCTION hwheel._unknown_zones(node_id bigint, zones text[]) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	UPDATE hwheel.node SET unknown_zones = zones WHERE id = node_id;
$$;

-- Says that jobs wait. If that fails, the nodes see them with their next turns.
CREATE OR REPLACE FUNCTION hwheel._hint() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT hwheel._notify('hwheel', '0');
$$;

-- Which of these claims are no longer a node's.
CREATE OR REPLACE FUNCTION hwheel._not_mine(node_id bigint, ids bigint[], fences bigint[])
RETURNS TABLE (id bigint, fence bigint)
LANGUAGE sql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
	SELECT w.id, w.fence FROM unnest(ids, fences) AS w (id, fence)
	WHERE NOT EXISTS (SELECT FROM hwheel.job j
		WHERE j.id = w.id AND j.fence = w.fence AND j.owner = node_id);
$$;

-- What a node has to know of a job in order to arm it.
DO $$ BEGIN
	IF to_regtype('hwheel.claim') IS NULL THEN -- for nodes of version 1
		CREATE TYPE hwheel.claim AS (
			id bigint, fence bigint, kind text,
			due timestamptz, -- NULL: the first run is still to be computed
			occurrence timestamptz, every_us bigint, cron text, zone text,
			missed text, grace_us bigint, timeout_ms bigint, exhausted boolean
		);
	END IF;
	IF to_regtype('hwheel.claim2') IS NULL THEN
		CREATE TYPE hwheel.claim2 AS (
			id bigint, fence bigint, kind text, key text,
			due timestamptz, -- NULL: the first run is still to be computed
			occurrence timestamptz, every_us bigint, cron text, zone text,
			missed text, grace_us bigint, timeout_ms bigint, exhausted boolean,
			function int, -- a number for each SQL function
			alone boolean, suspect boolean
		);
	END IF;
	IF to_regtype('hwheel.claim3') IS NULL THEN
		CREATE TYPE hwheel.claim3 AS (
			what text, -- job, or something else: see _turn3()
			id bigint, fence bigint, kind text, key text,
			due timestamptz, -- NULL: the next run is still to be computed
			occurrence timestamptz, every_us bigint, cron text, zone text,
			missed text, grace_us bigint, timeout_ms bigint, exhausted boolean,
			function int, alone boolean, suspect boolean,
			queue text, priority int,
			ran boolean, -- the run of this occurrence was made
			max_running int, rate float8
		);
	END IF;
END $$;

CREATE OR REPLACE FUNCTION hwheel._as_claim2(j hwheel.job) RETURNS hwheel.claim2
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
	SELECT j.id, j.fence, j.kind, j.key, nullif(j.due, '-infinity'), j.occurrence,
		(extract(epoch FROM j.every) * 1000000)::bigint, j.cron, j.zone, j.missed,
		(extract(epoch FROM j.grace) * 1000000)::bigint,
		(extract(epoch FROM j.timeout) * 1000)::bigint, j.attempts >= j.max_attempts,
		hashtext(j.target), j.alone OR j.run_as IS NOT NULL, j.losses >= 2;
$$;

-- A set, so that the planner puts the columns into the query of the caller.
CREATE OR REPLACE FUNCTION hwheel._claims3(j hwheel.job) RETURNS SETOF hwheel.claim3
LANGUAGE sql STABLE BEGIN ATOMIC
	SELECT 'job', j.id, j.fence, j.kind, j.key, nullif(j.due, '-infinity'), j.occurrence,
		(date_part('epoch', j.every) * 1000000)::bigint, j.cron, j.zone, j.missed,
		(date_part('epoch', j.grace) * 1000000)::bigint,
		(date_part('epoch', j.timeout) * 1000)::bigint, j.attempts >= j.max_attempts,
		-- In the role of a job, nothing of another job may be checked.
		hashtext(j.target), j.alone OR j.run_as IS NOT NULL, j.losses >= 2 OR j.state = 'running', j.queue, j.priority,
		j.fired_at IS NOT NULL, NULL::int, NULL::float8;
END;

-- Whether a node may claim jobs of a queue.
CREATE OR REPLACE FUNCTION hwheel._may_claim(queue text, node_id bigint) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
	SELECT NOT EXISTS (SELECT FROM hwheel.queue q WHERE q.name = queue AND (q.paused_at IS NOT NULL
		OR num_nonnulls(q.max_running, q.rate) > 0 AND q.holder IS DISTINCT FROM node_id));
$$;

-- When applications have to be woken: the due times of their jobs up to the horizon. Of
-- those within 10 ms only the first and the last. A queue whose rate has left jobs behind
-- wakes them again and again.
CREATE OR REPLACE FUNCTION hwheel._bells(horizon timestamptz)
RETURNS TABLE (queue text, due timestamptz)
LANGUAGE sql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
	-- The time is read once, as in _turn5(). So each job is either late or near.
	WITH RECURSIVE start AS MATERIALIZED (
		SELECT clock_timestamp() AS at
	), sample AS MATERIALIZED (
		SELECT j.queue FROM hwheel.job j WHERE state = 'waiting' AND kind = 'app' AND j.id > 0
			AND j.due > '-infinity' AND j.due <= (SELECT at FROM start) ORDER BY j.due LIMIT 1001
	), first AS (
		-- If more are late than these, their queues are found one by one.
		(SELECT j.queue, j.priority FROM hwheel.job j WHERE state = 'waiting' AND kind = 'app'
				AND (SELECT count(*) > 1000 FROM sample)
			ORDER BY j.queue, j.priority LIMIT 1)
		UNION ALL
		SELECT n.queue, n.priority FROM first, LATERAL (
			SELECT j.queue, j.priority FROM hwheel.job j WHERE state = 'waiting' AND kind = 'app'
				AND (j.queue, j.priority) > (first.queue, first.priority)
			ORDER BY j.queue, j.priority LIMIT 1) n
	), near AS (
		SELECT j.queue, j.due FROM hwheel.job j WHERE state = 'waiting' AND kind = 'app' AND j.id > 0
			AND j.due > '-infinity' AND j.due > (SELECT at FROM start) AND j.due < horizon
			AND NOT EXISTS (SELECT FROM hwheel.queue q
				WHERE q.name = j.queue AND q.paused_at IS NOT NULL)
	), late AS (
		SELECT l.queue, q.rate FROM (
			SELECT queue FROM sample WHERE (SELECT count(*) <= 1000 FROM sample)
			UNION
			SELECT f.queue FROM first f WHERE EXISTS (SELECT FROM hwheel.job j
				WHERE state = 'waiting' AND kind = 'app' AND j.queue = f.queue
					AND j.priority = f.priority AND j.due > '-infinity'
					AND j.due <= (SELECT at FROM start))
		) l LEFT JOIN hwheel.queue q ON q.name = l.queue WHERE q.paused_at IS NULL
	)
	SELECT queue, unnest(ARRAY[min(due), max(due)]) FROM near
		GROUP BY queue, floor(extract(epoch FROM due) * 100)
	UNION
	SELECT queue, clock_timestamp() FROM late
	UNION
	SELECT l.queue, t FROM late l, generate_series(clock_timestamp(), horizon,
		make_interval(secs => greatest(1 / l.rate, 0.05))) t WHERE l.rate IS NOT NULL;
$$;

-- Wakes the applications that wait for jobs of some queues, and not before a time.
CREATE OR REPLACE FUNCTION hwheel._ring(queues text[], at timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF at > clock_timestamp() THEN
		PERFORM pg_sleep(least(extract(epoch FROM at - clock_timestamp()), 0.1));
	END IF;
	PERFORM hwheel._notify('hwheel:' || name, '') FROM unnest(queues) name;
END $$;

-- Empties the days of the history that are too old, and deletes dead jobs that are. A
-- partition that somebody reads has to wait. It runs as the owner of the schema.
CREATE OR REPLACE FUNCTION hwheel._tend() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET search_path = pg_catalog, pg_temp SET lock_timeout = '100 ms' AS $$
DECLARE
	s hwheel.settings := (SELECT s FROM hwheel.settings s);
	now    timestamptz := clock_timestamp();
	today  int := extract(epoch FROM now + interval '1 minute')::bigint / 86400;
	oldest int := today - ceil(extract(epoch FROM s.keep_done) / 86400);
	is_old boolean;
BEGIN
	-- The nodes may have been off for so long that a day has jobs of 32 days before. These are
	-- its first rows.
	FOR day IN oldest .. today LOOP
		EXECUTE format('SELECT finished_at < to_timestamp($1) FROM hwheel.history_%s LIMIT 1', day % 32)
			INTO is_old USING day * 86400::float8 - 86400;
		IF is_old THEN
			EXECUTE format('DELETE FROM hwheel.history_%s WHERE finished_at < to_timestamp($1)', day % 32)
				USING day * 86400::float8 - 86400;
		END IF;
	END LOOP;
	FOR day IN today - 31 .. oldest - 1 LOOP
		EXECUTE format('SELECT EXISTS (SELECT FROM hwheel.history_%s)', day % 32) INTO is_old;
		CONTINUE WHEN NOT is_old;
		BEGIN
			EXECUTE format('TRUNCATE hwheel.history_%s', day % 32);
		EXCEPTION WHEN lock_not_available THEN
			EXIT; -- The next call tries again.
		END;
	END LOOP;
	-- Whoever needs a gate makes it again. No join: see take().
	DELETE FROM hwheel.gate WHERE ctid = ANY (ARRAY(SELECT g.ctid FROM hwheel.gate g
		WHERE (SELECT q.name FROM hwheel.queue q WHERE q.name = g.queue) IS NULL
			AND (SELECT j.queue FROM hwheel.job j WHERE j.queue = g.queue AND state = 'waiting'
				AND (kind <> 'app' OR due = '-infinity') LIMIT 1) IS NULL
			AND (SELECT j.queue FROM hwheel.job j WHERE j.queue = g.queue AND state = 'waiting'
				AND kind = 'app' LIMIT 1) IS NULL
		LIMIT 10000 FOR UPDATE SKIP LOCKED));
	-- Jobs that were done before there was a history are in the table of jobs.
	DELETE FROM hwheel.job WHERE id = ANY (ARRAY(SELECT j.id FROM hwheel.job j WHERE j.state = 'done'
		AND j.finished_at < now - s.keep_done LIMIT 10000 FOR UPDATE SKIP LOCKED));
	DELETE FROM hwheel.job WHERE id = ANY (ARRAY(SELECT j.id FROM hwheel.job j WHERE j.state = 'dead'
		AND j.finished_at < now - s.keep_dead LIMIT 10000 FOR UPDATE SKIP LOCKED));
END $$;

-- Returns the limits of the queues that a node holds.
CREATE OR REPLACE FUNCTION hwheel._limits(node_id bigint) RETURNS SETOF hwheel.claim3
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	answer hwheel.claim3;
BEGIN
	answer.what := 'limit';
	FOR answer.key, answer.max_running, answer.rate, answer.due IN
		SELECT name, max_running, rate, paced_at FROM hwheel.queue
		WHERE holder = node_id AND num_nonnulls(max_running, rate) > 0
	LOOP
		RETURN NEXT answer;
	END LOOP;
END $$;

-- Returns the jobs that a node has claimed, and the SQL jobs under suspicion that it has begun.
-- After a lost connection it may have missed an answer.
CREATE OR REPLACE FUNCTION hwheel._held3(node_id bigint) RETURNS SETOF hwheel.claim3
LANGUAGE sql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
	SELECT a.* FROM hwheel.job j, LATERAL hwheel._claims3(j) a
	WHERE j.owner = node_id AND (j.state = 'claimed' OR j.state = 'running' AND j.kind = 'sql');
$$;

-- Returns the commands and requests that a node has begun. The end of one may have been written down and
-- lost again, if the server has crashed, or another one goes on without its last commits.
CREATE OR REPLACE FUNCTION hwheel._begun(node_id bigint) RETURNS SETOF hwheel.claim3
LANGUAGE sql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
	SELECT a.* FROM hwheel.job j, LATERAL hwheel._claims3(j) a
	WHERE j.owner = node_id AND j.state = 'running' AND j.kind <> 'sql';
$$;

-- Gives jobs of a node fences above those that it has known. A server that lacks the last commits has lower
-- ones. A job that somebody has locked, or whose fence has changed, stays as it is.
CREATE OR REPLACE FUNCTION hwheel._refence(node_id bigint, ids bigint[], fences bigint[], known bigint[])
RETURNS SETOF hwheel.claim3
LANGUAGE sql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
	WITH mine AS MATERIALIZED (
		SELECT j.id, w.known FROM unnest(ids, fences, known) AS w (id, fence, known)
			JOIN hwheel.job j ON j.id = w.id AND j.fence = w.fence AND j.owner = node_id
		FOR UPDATE OF j SKIP LOCKED
	), raised AS (
		UPDATE hwheel.job j SET fence = m.known + 1 FROM mine m WHERE j.id = m.id RETURNING j AS job
	)
	SELECT a.* FROM raised r, LATERAL hwheel._claims3(r.job) a;
$$;

-- Locks the jobs that are due and whose fence is as claimed. Waits for nobody, and
-- answers once for a job that is named twice. n is the place of a job in the arrays.
-- taken: locked. early: not due yet. busy: locked by another. gone: not the node's.
CREATE OR REPLACE FUNCTION hwheel._take(ids bigint[], fences bigint[], states text[])
RETURNS TABLE (n bigint, id bigint, fence bigint, outcome text, key text,
	occurrence timestamptz, target text, payload jsonb, attempts int)
LANGUAGE sql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
	WITH want AS (
		SELECT DISTINCT ON (id) * FROM unnest(ids, fences) WITH ORDINALITY AS w (id, fence, n)
		ORDER BY id, fence DESC, n
	), seen AS MATERIALIZED (
		SELECT j.* FROM want w JOIN hwheel.job j
			ON j.id = w.id AND j.fence = w.fence AND j.state = ANY (states)
	), taken AS MATERIALIZED (
		SELECT j.id FROM want w JOIN hwheel.job j
			ON j.id = w.id AND j.fence = w.fence AND j.state = ANY (states)
		WHERE j.due <= clock_timestamp() AND isfinite(j.due) FOR UPDATE OF j SKIP LOCKED
	)
	SELECT w.n, w.id, w.fence,
		CASE WHEN t.id IS NOT NULL THEN 'taken' WHEN s.id IS NULL THEN 'gone'
			WHEN s.due > clock_timestamp() THEN 'early' ELSE 'busy' END,
		s.key, s.occurrence, s.target, s.payload, s.attempts
	FROM want w LEFT JOIN seen s ON s.id = w.id LEFT JOIN taken t ON t.id = w.id
	ORDER BY w.n;
$$;

-- The partition of the history for jobs that end today.
CREATE OR REPLACE FUNCTION hwheel._today() RETURNS int LANGUAGE sql
	RETURN (date_part('epoch', clock_timestamp())::bigint / 86400 % 32)::int;

-- Ends attempts: see _settle_mine(). A job that somebody has locked stays as it is, and is busy.
CREATE OR REPLACE FUNCTION hwheel._settle(ids bigint[], fences bigint[], errors text[],
	nexts timestamptz[], skips int[], started timestamptz[], lost boolean, waits_ms bigint[])
RETURNS TABLE (id bigint, outcome text, fence bigint, due timestamptz,
	occurrence timestamptz, late_us bigint, error text)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET lock_timeout = '500 ms'
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	mine bigint[] := ARRAY(SELECT j.id FROM unnest(ids, fences) AS w (id, fence)
		JOIN hwheel.job j ON j.id = w.id AND j.fence = w.fence AND j.state IN ('claimed', 'running')
		FOR UPDATE OF j SKIP LOCKED);
	busy bigint[] := ARRAY(SELECT j.id FROM unnest(ids, fences) AS w (id, fence)
		JOIN hwheel.job j ON j.id = w.id AND j.fence = w.fence AND j.state IN ('claimed', 'running')
		WHERE j.id <> ALL (mine));
BEGIN
	IF busy = '{}' THEN
		RETURN QUERY SELECT * FROM hwheel._settle_mine(ids, fences, errors, nexts, skips, started,
			lost, waits_ms);
		RETURN;
	END IF;
	RETURN QUERY SELECT DISTINCT b, 'busy', NULL::bigint, NULL::timestamptz, NULL::timestamptz,
		NULL::bigint, NULL FROM unnest(busy) b;
	RETURN QUERY SELECT s.* FROM (SELECT array_agg(w.id) AS ids, array_agg(w.fence) AS fences,
			array_agg(w.error) AS errors, array_agg(w.next) AS nexts, array_agg(w.skip) AS skips,
			array_agg(w.started) AS started, array_agg(w.wait) AS waits
		FROM unnest(ids, fences, errors, nexts, skips, started, waits_ms)
			AS w (id, fence, error, next, skip, started, wait) WHERE w.id <> ALL (busy)) r,
		hwheel._settle_mine(r.ids, r.fences, r.errors, r.nexts, r.skips, r.started, lost, r.waits) s
		WHERE r.ids IS NOT NULL;
END $$;

-- Ends attempts at jobs that the transaction has locked. A job that is done, and has no next
-- run, goes into the history. One that failed is deleted if somebody has cancelled it. nexts has the times at which recurring jobs run next. A job whose
-- next run or attempt is within the window stays claimed by its owner, and is returned with its
-- new fence. lost: the connection ended while they ran. waits_ms: how long the next attempt
-- waits at least.
CREATE OR REPLACE FUNCTION hwheel._settle_mine(ids bigint[], fences bigint[], errors text[],
	nexts timestamptz[], skips int[], started timestamptz[], lost boolean, waits_ms bigint[])
RETURNS TABLE (id bigint, outcome text, fence bigint, due timestamptz,
	occurrence timestamptz, late_us bigint, error text)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	open    text[];
	stopped bigint[];
BEGIN
	IF EXISTS (SELECT FROM hwheel.job WHERE after_key IS NOT NULL) THEN
		PERFORM hwheel._tell_followers(ids);
	END IF;
	IF num_nonnulls(VARIADIC errors) > 0 OR num_nonnulls(VARIADIC nexts) > 0 THEN
		stopped := ARRAY(SELECT s.id FROM hwheel.stop s WHERE s.id = ANY (ids));
	END IF;
	IF cardinality(stopped) > 0 THEN
		-- Somebody has asked these runs to end. Nothing follows one that failed, or has ended well.
		RETURN QUERY WITH want AS (
			SELECT * FROM unnest(ids, fences, errors, started) AS w (id, fence, error, started)
			WHERE w.error IS NOT NULL AND w.id = ANY (stopped)
		), ended AS (
			DELETE FROM hwheel.job j USING want w
			WHERE j.id = w.id AND j.fence = w.fence AND j.state IN ('claimed', 'running')
			RETURNING j.id, j.due, j.occurrence, coalesce(w.started, j.fired_at) AS start
		)
		SELECT w.id, CASE WHEN e.id IS NULL THEN 'gone' ELSE 'cancelled' END, NULL::bigint, e.due,
			e.occurrence, (date_part('epoch', e.start - e.due) * 1000000)::bigint, w.error
		FROM want w LEFT JOIN ended e ON e.id = w.id;
		SELECT array_agg(w.id), array_agg(w.fence), array_agg(w.error),
			array_agg(CASE WHEN w.id <> ALL (stopped) THEN w.next END), array_agg(w.skip),
			array_agg(w.started), array_agg(w.wait)
		INTO ids, fences, errors, nexts, skips, started, waits_ms
		FROM unnest(ids, fences, errors, nexts, skips, started, waits_ms)
			AS w (id, fence, error, next, skip, started, wait)
		WHERE w.error IS NULL OR w.id <> ALL (stopped);
		IF ids IS NULL THEN
			RETURN;
		END IF;
	END IF;
	RETURN QUERY WITH want AS (
		SELECT * FROM unnest(ids, fences, errors, nexts, skips, started)
			AS w (id, fence, error, next, skip, started)
		WHERE error IS NULL AND next IS NULL
	), ended AS (
		DELETE FROM hwheel.job j USING want w
		WHERE j.id = w.id AND j.fence = w.fence AND j.state IN ('claimed', 'running')
		RETURNING j.id, j.key, j.queue, j.priority, j.due, j.occurrence, j.kind, j.target, j.payload,
			j.max_attempts, j.attempts, j.runs + 1 AS runs, j.skipped + w.skip AS skipped, j.created_at,
			coalesce(w.started, j.fired_at) AS start, j.run_as, j.traceparent, j.tried
	), history AS (
		INSERT INTO hwheel.history
		SELECT e.id, e.key, e.queue, e.priority, e.due, e.occurrence, e.kind, e.target, e.payload,
			e.max_attempts, e.attempts, e.runs, e.skipped, e.created_at, e.start,
			clock_timestamp(), e.run_as, e.traceparent, (SELECT hwheel._today()), NULL, e.tried
		FROM ended e WHERE (SELECT keep_done > '0' FROM hwheel.settings)
	)
	SELECT w.id, CASE WHEN e.id IS NULL THEN 'gone' ELSE 'done' END, NULL::bigint, e.due,
		e.occurrence, (date_part('epoch', e.start - e.due) * 1000000)::bigint, NULL
	FROM want w FULL JOIN ended e ON e.id = w.id; -- The planner cannot loop over this one.
	IF num_nulls(VARIADIC errors) = cardinality(ids) AND num_nulls(VARIADIC nexts) = cardinality(ids) THEN
		RETURN;
	END IF;

	-- The next statement sees what the queues are then.
	open := hwheel._passed(ARRAY(SELECT j.queue FROM unnest(ids) w JOIN hwheel.job j ON j.id = w));
	RETURN QUERY WITH want AS (
		SELECT * FROM unnest(ids, fences, errors, nexts, skips, started, waits_ms)
			AS w (id, fence, error, next, skip, started, wait_ms)
		WHERE error IS NOT NULL OR next IS NOT NULL
	), plan AS (
		SELECT w.*, j.due AS was_due, j.occurrence AS was_for, w.error IS NULL AS ok,
			w.error IS NULL OR j.attempts + 1 >= j.max_attempts AS is_over,
			CASE WHEN w.error IS NULL OR j.attempts + 1 >= j.max_attempts THEN w.next
				ELSE clock_timestamp() + greatest(w.wait_ms * interval '1 ms',
					(0.8 + 0.4 * random())
					* least(j.backoff * power(2, least(j.attempts, 22)), '1 hour'))
				END AS planned,
			j.paused_due IS NOT NULL AS is_paused, j.queue, j.owner
		FROM want w JOIN hwheel.job j ON j.id = w.id AND j.fence = w.fence
			AND j.state IN ('claimed', 'running')
		FOR UPDATE OF j
	), verdict AS (
		SELECT *, CASE WHEN is_paused AND planned IS NOT NULL THEN 'infinity' ELSE planned END
				AS new_due,
			CASE WHEN NOT is_paused
				AND planned < clock_timestamp() + (SELECT window_length FROM hwheel.settings)
				THEN queue = ANY (open) AND hwheel._may_claim(queue, owner) END AS is_near
		FROM plan
	), settled AS (
		UPDATE hwheel.job j SET
			state = CASE WHEN v.new_due IS NULL THEN 'dead' WHEN v.is_near THEN 'claimed' ELSE 'waiting' END,
			owner = CASE WHEN v.is_near THEN j.owner END,
			fence = j.fence + 1,
			due = coalesce(v.new_due, j.due),
			paused_due = CASE WHEN v.is_paused THEN v.planned END,
			occurrence = CASE WHEN v.is_over THEN coalesce(v.planned, j.occurrence)
				ELSE j.occurrence END,
			attempts = CASE WHEN v.ok OR v.is_over AND v.new_due IS NOT NULL THEN 0
				ELSE least(j.attempts + 1, j.max_attempts) END,
			losses = CASE WHEN lost THEN 2 ELSE 0 END,
			runs = j.runs + v.ok::int,
			skipped = j.skipped + CASE WHEN v.is_over THEN v.skip ELSE 0 END,
			fired_at = coalesce(v.started, j.fired_at),
			finished_at = CASE WHEN v.new_due IS NULL THEN clock_timestamp() END,
			last_error = v.error,
			tried = CASE WHEN v.ok THEN j.tried
				ELSE hwheel._tried(j.tried, coalesce(v.started, j.fired_at), v.error) END
		FROM verdict v WHERE j.id = v.id
		RETURNING j.*, v.ok, v.is_over, v.was_due, v.was_for
	), dead_runs AS (
		-- A run of a recurring job that failed for good becomes a dead job of its
		-- own. The series goes on.
		INSERT INTO hwheel.job (key, state, due, occurrence, missed, grace, kind, target,
			payload, max_attempts, backoff, timeout, alone, run_as, headers, traceparent,
			queue, priority, attempts, fired_at, finished_at, last_error, tried)
		SELECT key, 'dead', was_due, was_for, 'once', grace, kind, target, payload,
			max_attempts, backoff, timeout, alone, run_as, headers, traceparent,
			queue, priority, max_attempts, fired_at, clock_timestamp(), last_error, tried
		FROM settled WHERE NOT ok AND is_over AND state <> 'dead'
	)
	SELECT w.id,
		CASE WHEN j.id IS NULL THEN 'gone' WHEN j.ok THEN 'done' WHEN j.is_over THEN 'dead'
			ELSE 'retry' END,
		CASE WHEN j.state = 'claimed' THEN j.fence END, j.due, j.occurrence,
		(extract(epoch FROM j.fired_at - j.was_due) * 1000000)::bigint, w.error
	FROM want w LEFT JOIN settled j ON j.id = w.id;
END $$;

-- Gives the session the state of a new one, apart from its settings and its role. is_bare: the
-- client has prepared nothing. It runs for each job. A condition or an assignment costs a
-- tenth of a statement, and PERFORM costs as much as any other statement.
CREATE OR REPLACE FUNCTION hwheel._cleaned(is_bare boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	prepared pg_catalog.text;
	unlocked constant boolean := pg_catalog.pg_advisory_unlock_all() IS NULL;
BEGIN
	EXECUTE 'CLOSE ALL';
	IF pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0 THEN
		DISCARD TEMP;
	END IF;
	DISCARD SEQUENCES;
	IF is_bare THEN
		DEALLOCATE ALL;
	ELSE
		FOR prepared IN SELECT name FROM pg_catalog.pg_prepared_statement() WHERE from_sql LOOP
			EXECUTE pg_catalog.format('DEALLOCATE %I', prepared);
		END LOOP;
	END IF;
	RETURN true;
END $$;

-- The call of the function of a job. What is not the name of a function is not run. The
-- lookup of a name that is not overloaded costs less.
CREATE OR REPLACE FUNCTION hwheel._call_of(target text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	function pg_catalog.regproc := coalesce(pg_catalog.to_regproc(target),
		pg_catalog.to_regprocedure(pg_catalog.concat(target,
			'(pg_catalog.text, pg_catalog.timestamptz, pg_catalog.jsonb)'))::pg_catalog.oid);
BEGIN
	IF function IS NULL THEN
		RAISE undefined_function USING MESSAGE = pg_catalog.format(
			'there is no function %s(text, timestamptz, jsonb)', target);
	END IF;
	RETURN pg_catalog.concat('SELECT ', function, '($1, $2, $3)');
END $$;

-- Whether a job that is under way has the rights of a role. Whoever has written such a job is a
-- member of the role: see _check_role(). It reads the table with the rights of its owner.
CREATE OR REPLACE FUNCTION hwheel._runs_as(role name, target text, key text, due timestamptz,
	payload jsonb) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	SELECT EXISTS (SELECT FROM hwheel.job j WHERE j.key = _runs_as.key COLLATE "default"
		AND j.state IN ('claimed', 'running') AND j.run_as = role AND j.target = _runs_as.target
		AND j.occurrence = _runs_as.due AND j.payload IS NOT DISTINCT FROM _runs_as.payload);
$$;

-- The number of the transaction's current command. It grows with each command that writes, and with
-- this call. Nothing makes it smaller: statistics of tables do not have that property, because a table
-- may be truncated or dropped. Only a row that the transaction has written shows the number. The row
-- is rolled back.
CREATE OR REPLACE FUNCTION hwheel._command() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	place  tid;
	number bigint;
BEGIN
	-- A job with a role runs in the session of a node. Other sessions may not write here.
	IF NOT has_table_privilege(session_user, 'hwheel.node', 'UPDATE') THEN
		RAISE insufficient_privilege USING MESSAGE = 'hwheel: this function is for nodes';
	END IF;
	INSERT INTO hwheel.stop AS s (id) VALUES (0) RETURNING s.ctid INTO place;
	SELECT s.cmin::text::bigint INTO number FROM hwheel.stop s WHERE s.ctid = place;
	RAISE 'rolled back' USING ERRCODE = 'HW005';
EXCEPTION WHEN SQLSTATE 'HW005' THEN
	RETURN number;
END $$;

-- Calls the function of a job in a role: a wrapper of hwheel.allow_role() has called this with
-- the rights of the role, and the function must not get back to those of the node.
--
-- The role owns the wrapper, and may let others call it, or make it run with the rights of the
-- caller. So this function does only what a job says that has the rights of the current user.
--
-- Up to version 17 PostgreSQL runs a deferred trigger with the rights of the user who commits,
-- so none may be left. What fires now may defer again what it writes. If the last firing has
-- written nothing, nothing is left.
CREATE OR REPLACE FUNCTION hwheel._call(target text, key text, due timestamptz, payload jsonb)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	first  pg_catalog.int8;
	second pg_catalog.int8;
BEGIN
	IF pg_catalog.current_setting('role') OPERATOR(pg_catalog.<>) 'none'
		OR NOT hwheel._runs_as(current_user, target, key, due, payload) THEN
		RAISE insufficient_privilege USING MESSAGE = pg_catalog.format(
			'hwheel: no job that is under way runs this function as "%s"', current_user);
	END IF;
	EXECUTE hwheel._call_of(target) USING key, due, payload;
	FOR i IN 1..10 LOOP
		first := hwheel._command();
		second := hwheel._command();
		SET CONSTRAINTS ALL IMMEDIATE;
		IF hwheel._command() OPERATOR(pg_catalog.-) second
			OPERATOR(pg_catalog.=) (second OPERATOR(pg_catalog.-) first) THEN
			RETURN;
		END IF;
	END LOOP;
	RAISE insufficient_privilege USING
		MESSAGE = 'hwheel: deferred triggers of the job defer others again and again';
END $$;

-- Runs a job: NULL if that succeeds, otherwise later, slow, or the error, which ends with its
-- code. A job that fails is rolled back alone. See _fire().
CREATE OR REPLACE FUNCTION hwheel._run(target text, key text, due timestamptz, payload jsonb,
	run_as name, traceparent text, until timestamptz, is_bare boolean)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	problem pg_catalog.text;
	cleaned boolean;
	my_name constant pg_catalog.name := session_user;
BEGIN
	IF pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>) until THEN
		RETURN 'later';
	END IF;
	BEGIN
		IF traceparent IS NOT NULL THEN
			PERFORM pg_catalog.set_config('hwheel.traceparent', traceparent, true);
		END IF;
		IF run_as IS NULL THEN
			EXECUTE hwheel._call_of(target) USING key, due, payload;
		ELSE
			EXECUTE pg_catalog.format('SELECT hwheel.%I($1, $2, $3, $4)', hwheel._wrapper(run_as))
				USING target, key, due, payload;
		END IF;
		RESET ALL;
		IF pg_catalog.current_setting('transaction_timeout', true) OPERATOR(pg_catalog.<>) '0' THEN
			PERFORM hwheel._no_transaction_timeout();
		END IF;
		IF pg_catalog.current_setting('exit_on_error') OPERATOR(pg_catalog.<>) 'off' THEN
			PERFORM pg_catalog.set_config('exit_on_error', 'off', false);
		END IF;
		-- Its own role may not call the next one.
		IF session_user OPERATOR(pg_catalog.<>) my_name
			OR pg_catalog.current_setting('role') OPERATOR(pg_catalog.<>) 'none' THEN
			RESET SESSION AUTHORIZATION;
		END IF;
		cleaned := hwheel._cleaned(is_bare);
		IF pg_catalog.current_setting('transaction_read_only') OPERATOR(pg_catalog.=) 'on' THEN
			-- Nothing else undoes this.
			RAISE read_only_sql_transaction USING MESSAGE = 'the job made its transaction read-only';
		END IF;
		RETURN NULL;
	EXCEPTION
		WHEN disk_full OR io_error THEN
			RAISE;
		WHEN query_canceled THEN
			problem := CASE WHEN until IS NULL
				THEN pg_catalog.format('%s (%s)', pg_catalog.left(hwheel._readable(sqlerrm), 10000), sqlstate)
				ELSE 'slow' END;
		WHEN OTHERS OR assert_failure THEN
			problem := pg_catalog.format('%s (%s)', pg_catalog.left(hwheel._readable(sqlerrm), 10000), sqlstate);
	END;
	cleaned := hwheel._cleaned(is_bare);
	RETURN problem;
END $$;

-- Lets a transaction last as long as the timeouts of its jobs say. The database may have a limit
-- for the transactions of others, from PostgreSQL 17 on.
CREATE OR REPLACE FUNCTION hwheel._no_transaction_timeout() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF pg_catalog.current_setting('transaction_timeout', true) OPERATOR(pg_catalog.<>) '0' THEN
		PERFORM pg_catalog.set_config('transaction_timeout', '0', false);
	END IF;
END $$;

-- Begins a batch, and returns the time until which its jobs may start.
CREATE OR REPLACE FUNCTION hwheel._until(budget interval, over timestamptz) RETURNS timestamptz
LANGUAGE plpgsql AS $$
BEGIN
	RESET ALL; -- What _fire() has set for itself.
	-- An error of a job ends no session, whatever the database says.
	PERFORM hwheel._no_transaction_timeout(), pg_catalog.set_config('exit_on_error', 'off', false);
	RETURN CASE WHEN budget IS NOT NULL
		THEN least(pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) budget, over) END;
END $$;

-- Fires SQL jobs: the effects of all and their completion are one transaction. One
-- that fails is rolled back alone and tried again. Each finds the session as new. A
-- server that cannot work, as with a full disk, fails them all, and no attempt is
-- counted.
--
-- Each job is locked from its start to the end of the transaction. A budget keeps that
-- short: after this time no more job is started (later), and a job that statement_timeout
-- ends is rolled back (slow). Without a budget such a job has failed.
--
-- begun: the job was marked as running before, so that the attempt counts if it takes
-- the connection, the server or the node with it.
CREATE OR REPLACE FUNCTION hwheel._fire(ids bigint[], fences bigint[],
	nexts timestamptz[], skips int[], begun boolean, budget_ms float8)
RETURNS TABLE (id bigint, outcome text, fence bigint, due timestamptz,
	occurrence timestamptz, late_us bigint, error text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	wanted     constant pg_catalog.text := CASE WHEN begun THEN 'running' ELSE 'claimed' END;
	time_limit constant pg_catalog.text := pg_catalog.current_setting('statement_timeout');
	budget     constant interval := pg_catalog.make_interval(
		secs => budget_ms OPERATOR(pg_catalog./) 1000);
	-- statement_timeout ends one job at most, and no other starts after that.
	over       constant pg_catalog.timestamptz := CASE WHEN time_limit OPERATOR(pg_catalog.<>) '0'
		THEN pg_catalog.statement_timestamp() OPERATOR(pg_catalog.+) time_limit::interval END;
	-- Then it costs less to clean up. Older nodes prepare this call.
	is_bare    constant boolean := NOT EXISTS (SELECT FROM pg_catalog.pg_prepared_statement());
	places   bigint[]; -- in the arrays
	outcomes pg_catalog.text[];
	started  pg_catalog.timestamptz[];
BEGIN
	PERFORM pg_catalog.set_config('enable_seqscan', 'off', true), pg_catalog.set_config('jit', 'off', true),
		pg_catalog.set_config('plan_cache_mode', 'force_generic_plan', true),
		-- Somebody may have locked the table. No function has begun then, and no attempt counts.
		pg_catalog.set_config('lock_timeout', '500 ms', true),
		hwheel._no_transaction_timeout();
	-- Each row is locked when it is its turn, unless a job before it has changed it. The inner
	-- SELECT runs once, when the first job begins.
	SELECT pg_catalog.array_agg(r.n), pg_catalog.array_agg(r.outcome), pg_catalog.array_agg(r.began)
		INTO places, outcomes, started
		FROM (SELECT j.n, pg_catalog.clock_timestamp() AS began,
				hwheel._run(j.target, j.key, j.occurrence, j.payload, j.run_as, j.traceparent,
					(SELECT hwheel._until(budget, over)), is_bare) AS outcome
			FROM (SELECT w.n, j.target, j.key, j.occurrence, j.payload, j.run_as, j.traceparent
				FROM (SELECT DISTINCT ON (id) *
						FROM ROWS FROM (pg_catalog.unnest(ids), pg_catalog.unnest(fences))
						WITH ORDINALITY AS w (id, fence, n) ORDER BY id, fence DESC, n) w
				JOIN hwheel.job j ON j.id OPERATOR(pg_catalog.=) w.id
					AND j.fence OPERATOR(pg_catalog.=) w.fence
					AND j.state OPERATOR(pg_catalog.=) wanted
					AND j.due OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()
					AND pg_catalog.isfinite(j.due)
				ORDER BY w.n FOR UPDATE OF j SKIP LOCKED) j) r;
	UNLISTEN *; -- LISTEN takes effect at the commit, so once is enough.
	-- The node's own settings.
	RESET ALL;
	PERFORM pg_catalog.set_config('statement_timeout', time_limit, false),
		pg_catalog.set_config('default_transaction_isolation', 'read committed', false),
		pg_catalog.set_config('idle_session_timeout', '0', false), pg_catalog.set_config('jit', 'off', true),
		pg_catalog.set_config('exit_on_error', 'off', false), hwheel._no_transaction_timeout();
	RETURN QUERY SELECT * FROM hwheel._fired(ids, fences, nexts, skips, wanted, places, outcomes,
		started);
END $$;

-- Settles what _fire() has fired, and says why it has not fired the others. If somebody has locked a table,
-- the whole call fails, and no attempt counts.
CREATE OR REPLACE FUNCTION hwheel._fired(ids bigint[], fences bigint[], nexts timestamptz[],
	skips int[], wanted text, places bigint[], outcomes text[], started timestamptz[])
RETURNS TABLE (id bigint, outcome text, fence bigint, due timestamptz,
	occurrence timestamptz, late_us bigint, error text)
LANGUAGE plpgsql SET lock_timeout = '500 ms' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	IF 'later' = ANY (outcomes) OR 'slow' = ANY (outcomes)
		OR cardinality(places) IS DISTINCT FROM cardinality(ids) THEN
		RETURN QUERY SELECT * FROM hwheel._unfired(ids, fences, wanted, places, outcomes);
	END IF;
	RETURN QUERY SELECT s.* FROM (SELECT array_agg(ids[n]) AS ids, array_agg(fences[n]) AS fences,
				array_agg(o) AS errors, array_agg(nexts[n]) AS nexts, array_agg(skips[n]) AS skips,
				array_agg(began) AS started
			FROM unnest(places, outcomes, started) AS r (n, o, began)
			WHERE o IS NULL OR o NOT IN ('later', 'slow')) r,
		hwheel._settle_mine(r.ids, r.fences, r.errors, r.nexts, r.skips, r.started, false, NULL) s
		WHERE r.ids IS NOT NULL OR ids = '{}'; -- So a call without jobs plans all.
END $$;

-- Why jobs were not fired.
CREATE OR REPLACE FUNCTION hwheel._unfired(ids bigint[], fences bigint[], wanted text,
	places bigint[], outcomes text[])
RETURNS TABLE (id bigint, outcome text, fence bigint, due timestamptz,
	occurrence timestamptz, late_us bigint, error text)
LANGUAGE plpgsql SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	RETURN QUERY SELECT DISTINCT ON (w.id) w.id, CASE WHEN r.n IS NOT NULL THEN r.outcome
			WHEN j.id IS NULL THEN 'gone' WHEN j.due > clock_timestamp() THEN 'early'
			ELSE 'busy' END,
			NULL::bigint, NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::text
		FROM unnest(ids, fences) WITH ORDINALITY AS w (id, fence, n)
		LEFT JOIN unnest(places, outcomes) AS r (n, outcome) ON r.n = w.n
		LEFT JOIN hwheel.job j ON j.id = w.id AND j.fence = w.fence AND j.state = wanted
		WHERE NOT EXISTS (SELECT FROM unnest(places, outcomes) AS e (n, outcome)
			WHERE ids[e.n] = w.id AND (e.outcome IN ('later', 'slow')) IS NOT true)
		ORDER BY w.id, r.n, w.fence DESC;
END $$;

-- Stores why a job waits for a server that works.
CREATE OR REPLACE FUNCTION hwheel._note(id bigint, fence bigint, error text) RETURNS void
LANGUAGE sql SET lock_timeout = '500 ms' SET search_path = pg_catalog, pg_temp AS $$
	UPDATE hwheel.job j SET last_error = _note.error WHERE j.id IN (SELECT m.id FROM hwheel.job m
		WHERE m.id = _note.id AND m.fence = _note.fence FOR UPDATE SKIP LOCKED);
$$;

-- Marks jobs as running: commands, requests, and SQL jobs under suspicion. To ask again
-- for one that runs already gives the same answer: the first may have been lost.
CREATE OR REPLACE FUNCTION hwheel._start(ids bigint[], fences bigint[])
RETURNS TABLE (id bigint, outcome text, key text, occurrence timestamptz, target text,
	payload text, attempt int, header_names text[], header_texts text[], traceparent text)
LANGUAGE sql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
	WITH taken AS MATERIALIZED (
		SELECT * FROM hwheel._take(ids, fences, '{claimed,running}')
	), begun AS (
		UPDATE hwheel.job j SET state = 'running', fired_at = clock_timestamp()
		FROM taken t WHERE j.id = t.id AND t.outcome = 'taken'
		RETURNING j.id, j.headers, j.traceparent
	)
	SELECT t.id, t.outcome, t.key, t.occurrence, t.target, t.payload::text, t.attempts + 1,
		ARRAY(SELECT h.key FROM jsonb_each_text(b.headers) h ORDER BY h.key),
		ARRAY(SELECT coalesce(h.value, '') FROM jsonb_each_text(b.headers) h ORDER BY h.key),
		b.traceparent
	FROM taken t LEFT JOIN begun b ON b.id = t.id;
$$;

-- Gives a job back that its node could not begin: see _start(). False: somebody has locked it, or it is
-- not the node's.
CREATE OR REPLACE FUNCTION hwheel._put_off(id bigint, fence bigint, error text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	soon constant timestamptz := clock_timestamp() + interval '2 s';
BEGIN
	UPDATE hwheel.job j SET state = 'waiting', owner = NULL, fence = j.fence + 1,
		due = CASE WHEN j.paused_due IS NULL THEN soon ELSE 'infinity' END,
		paused_due = CASE WHEN j.paused_due IS NOT NULL THEN soon END, last_error = error
	WHERE j.id IN (SELECT m.id FROM hwheel.job m WHERE m.id = _put_off.id AND m.fence = _put_off.fence
		AND m.state = 'running' FOR UPDATE SKIP LOCKED);
	RETURN FOUND;
END $$;

-- Gives the jobs of a node another run without an attempt at this one: the first run of
-- a cron expression, or one that was missed and is skipped. With an error the job
-- is dead; with neither time nor error its recurrence is over.
-- kept: the job stays claimed by its owner, with a new fence. planned: it does not. busy: somebody
-- has locked it, and it stays as it is. gone: not the node's.
CREATE OR REPLACE FUNCTION hwheel._plan5(ids bigint[], fences bigint[],
	nexts timestamptz[], skips int[], errors text[])
RETURNS TABLE (id bigint, outcome text, fence bigint, due timestamptz)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET lock_timeout = '500 ms'
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	mine bigint[] := ARRAY(SELECT j.id FROM unnest(ids, fences) AS w (id, fence)
		JOIN hwheel.job j ON j.id = w.id AND j.fence = w.fence AND j.state IN ('claimed', 'running')
		FOR UPDATE OF j SKIP LOCKED);
	open text[] := hwheel._passed(ARRAY(SELECT j.queue FROM unnest(mine) m
		JOIN hwheel.job j ON j.id = m));
BEGIN
	RETURN QUERY WITH want AS (
		SELECT w.*, w.next < clock_timestamp() + (SELECT window_length FROM hwheel.settings) AS is_near
		FROM unnest(ids, fences, nexts, skips, errors) AS w (id, fence, next, skip, error)
	), seen AS (
		SELECT w.id, bool_or(j.id IS NOT NULL) AS is_there FROM want w LEFT JOIN hwheel.job j
			ON j.id = w.id AND j.fence = w.fence AND j.state IN ('claimed', 'running') GROUP BY w.id
	), verdict AS (
		SELECT w.*, w.error IS NULL AND w.is_near AND j.kind <> 'app' AND j.paused_due IS NULL
			AND j.queue = ANY (open) AND hwheel._may_claim(j.queue, j.owner) AS keeps
		FROM want w JOIN hwheel.job j ON j.id = w.id AND j.fence = w.fence
			AND j.state IN ('claimed', 'running') AND j.id = ANY (mine)
	), planned AS (
		UPDATE hwheel.job j SET
			state = CASE WHEN w.error IS NOT NULL THEN 'dead' WHEN w.next IS NULL THEN 'done'
				WHEN w.keeps THEN 'claimed' ELSE 'waiting' END,
			owner = CASE WHEN w.keeps THEN j.owner END,
			fence = j.fence + 1, attempts = 0,
			due = CASE WHEN j.paused_due IS NULL THEN coalesce(w.next, j.due) ELSE 'infinity' END,
			paused_due = CASE WHEN j.paused_due IS NOT NULL THEN w.next END,
			occurrence = coalesce(w.next, j.occurrence), skipped = j.skipped + w.skip,
			finished_at = CASE WHEN w.next IS NULL OR w.error IS NOT NULL
				THEN clock_timestamp() END,
			last_error = coalesce(w.error, j.last_error)
		FROM verdict w WHERE j.id = w.id
		RETURNING j.id, j.fence, j.due, j.state
	)
	SELECT s.id, CASE WHEN p.state = 'claimed' THEN 'kept' WHEN p.id IS NOT NULL THEN 'planned'
			WHEN s.is_there THEN 'busy' ELSE 'gone' END, p.fence, p.due
	FROM seen s LEFT JOIN planned p ON p.id = s.id;
END $$;
