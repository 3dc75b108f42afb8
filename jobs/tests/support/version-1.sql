-- The functions of version 1, for the test of an upgrade.
-- The functions for users. Each works inside the caller's transaction: what is
-- rolled back never happened.

-- Says why a cron expression is wrong, or NULL. Five fields: minute, hour, day of
-- the month, month, day of the week; each a list of *, N or N-N, the first and the
-- last with /step; names of months and days. The nodes compute the times with a
-- library (src/recur.rs); a test checks that the library accepts what this accepts.
CREATE OR REPLACE FUNCTION hwheel._cron_error(cron text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	field_names constant text[] := '{minute,hour,day of the month,month,day of the week}';
	lowest  constant int[] := '{0,0,1,1,0}';
	highest constant int[] := '{59,23,31,12,7}';
	months  constant text[] := '{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}';
	days    constant text[] := '{SUN,MON,TUE,WED,THU,FRI,SAT}';
	fields  text[] := regexp_split_to_array(btrim(upper(cron)), '\s+');
	item    text;
	part    text[];
	numbers int[];
BEGIN
	IF cardinality(fields) <> 5 THEN
		RETURN format('it has %s fields instead of five', cardinality(fields));
	END IF;
	FOR f IN 1..5 LOOP
		FOREACH item IN ARRAY string_to_array(fields[f], ',') LOOP
			part := regexp_match(item, '^(?:\*|(\d{1,2}|[A-Z]{3})(?:-(\d{1,2}|[A-Z]{3}))?)(?:/(\d{1,4}))?$');
			IF part IS NULL THEN
				RETURN format('"%s" is no %s', item, field_names[f]);
			END IF;
			FOR i IN 1..2 LOOP
				CONTINUE WHEN part[i] IS NULL;
				numbers[i] := CASE
					WHEN part[i] ~ '^\d' THEN part[i]::int
					WHEN f = 4 THEN array_position(months, part[i])
					WHEN f = 5 THEN array_position(days, part[i]) - 1 END;
				IF numbers[i] IS NULL OR numbers[i] NOT BETWEEN lowest[f] AND highest[f] THEN
					RETURN format('"%s" is no %s', part[i], field_names[f]);
				END IF;
			END LOOP;
			IF part[2] IS NOT NULL AND numbers[2] < numbers[1] THEN
				RETURN format('the range "%s" runs backwards', item);
			END IF;
			IF part[3] IS NOT NULL THEN
				IF part[1] IS NOT NULL AND part[2] IS NULL THEN
					RETURN format('"%s" has a step but no range', item);
				ELSIF part[3]::int NOT BETWEEN 1 AND highest[f] THEN
					RETURN format('"%s" has a step out of range', item);
				END IF;
			END IF;
		END LOOP;
	END LOOP;
	RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION hwheel._refuse(message text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'hwheel: %', message USING ERRCODE = 'invalid_parameter_value';
END $$;

-- A due time has to be finite and not before the caller's transaction.
CREATE OR REPLACE FUNCTION hwheel._check_due(due timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	IF due IS NULL OR NOT isfinite(due) OR due > '4999-01-01' THEN
		PERFORM hwheel._refuse(format('%s is no due time', coalesce(due::text, 'NULL')));
	ELSIF due < now() THEN
		PERFORM hwheel._refuse(format('the due time %s is in the past: it is %s', due, now()));
	END IF;
END $$;

-- Tells a node that a job is no longer its own. Correctness does not need it: the
-- fence has changed.
CREATE OR REPLACE FUNCTION hwheel._revoke(owner bigint, id bigint, fence bigint) RETURNS void
LANGUAGE sql AS $$
	SELECT pg_notify('hwheel_' || owner, id || ' ' || fence) WHERE owner IS NOT NULL;
$$;

-- Schedules a job, or replaces the one that has this key. Returns its id.
--
-- when:  due                    once
--        every [, due]          at due (by default after one interval), and so on
--        cron [, zone] [, due]  first at due or later; zone is UTC by default
-- what:  sql       the name of a function (key text, due timestamptz, payload jsonb)
--        command   for /bin/sh -c, with the payload on its standard input
--        http      a URL; the payload is sent to it as JSON by POST
CREATE OR REPLACE FUNCTION hwheel.schedule(
	key          text,
	due          timestamptz DEFAULT NULL,
	sql          text        DEFAULT NULL,
	command      text        DEFAULT NULL,
	http         text        DEFAULT NULL,
	payload      jsonb       DEFAULT NULL,
	every        interval    DEFAULT NULL,
	cron         text        DEFAULT NULL,
	zone         text        DEFAULT NULL,
	missed       text        DEFAULT 'once',
	grace        interval    DEFAULT '1 minute',
	max_attempts int         DEFAULT 5,
	backoff      interval    DEFAULT '1 second',
	timeout      interval    DEFAULT '1 minute'
) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	first   timestamptz := schedule.due;
	target  text := coalesce(schedule.sql, schedule.command, schedule.http);
	maximum int := (SELECT payload_limit FROM hwheel.settings);
	problem text;
	old     record;
	new_id  bigint;
BEGIN
	IF schedule.key IS NULL OR octet_length(schedule.key) NOT BETWEEN 1 AND 255 THEN
		PERFORM hwheel._refuse('a key has 1 to 255 bytes');
	ELSIF num_nonnulls(schedule.sql, schedule.command, schedule.http) <> 1 THEN
		PERFORM hwheel._refuse('a job is one of sql, command and http');
	ELSIF num_nonnulls(schedule.every, schedule.cron) > 1 THEN
		PERFORM hwheel._refuse('a job has every or cron, not both');
	ELSIF octet_length(schedule.payload::text) > maximum THEN
		PERFORM hwheel._refuse(format('the payload has %s bytes, more than %s',
			octet_length(schedule.payload::text), maximum));
	ELSIF schedule.missed IS NULL OR schedule.missed NOT IN ('skip', 'once', 'all') THEN
		PERFORM hwheel._refuse(format('missed is "%s", not skip, once or all', schedule.missed));
	ELSIF schedule.missed <> 'once' AND num_nonnulls(schedule.every, schedule.cron) = 0 THEN
		PERFORM hwheel._refuse('missed needs every or cron');
	ELSIF schedule.grace IS NULL OR schedule.grace NOT BETWEEN '0' AND '1 year' THEN
		PERFORM hwheel._refuse('grace is from 0 to 1 year');
	ELSIF schedule.max_attempts IS NULL OR schedule.max_attempts NOT BETWEEN 1 AND 100 THEN
		PERFORM hwheel._refuse('max_attempts is from 1 to 100');
	ELSIF schedule.backoff IS NULL OR schedule.backoff NOT BETWEEN '1 ms' AND '1 hour' THEN
		PERFORM hwheel._refuse('backoff is from 1 ms to 1 hour');
	ELSIF schedule.timeout IS NULL OR schedule.timeout NOT BETWEEN '1 ms' AND '1 day' THEN
		PERFORM hwheel._refuse('timeout is from 1 ms to 1 day');
	ELSIF schedule.http !~ '^https?://[^/\s]\S*$' THEN
		PERFORM hwheel._refuse(format('"%s" is no URL of http or https', schedule.http));
	ELSIF btrim(target) = '' THEN
		PERFORM hwheel._refuse('the command is empty');
	ELSIF schedule.zone IS NOT NULL AND schedule.cron IS NULL THEN
		PERFORM hwheel._refuse('a zone needs cron');
	END IF;

	-- The function is stored by its full name, so that the caller's search path
	-- decides and not a node's.
	IF schedule.sql IS NOT NULL THEN
		SELECT format('%I.%I', n.nspname, p.proname) INTO target
		FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE p.oid = to_regprocedure(schedule.sql || '(text, timestamptz, jsonb)')
			AND p.prokind = 'f';
		IF NOT FOUND THEN
			PERFORM hwheel._refuse(format(
				'there is no function %s(text, timestamptz, jsonb)', schedule.sql));
		END IF;
	END IF;

	IF schedule.cron IS NOT NULL THEN
		problem := hwheel._cron_error(schedule.cron);
		IF problem IS NOT NULL THEN
			PERFORM hwheel._refuse(format('the cron expression "%s": %s', schedule.cron, problem));
		ELSIF schedule.zone IS NOT NULL AND NOT EXISTS
			(SELECT FROM pg_timezone_names WHERE name = schedule.zone) THEN
			PERFORM hwheel._refuse(format('there is no time zone "%s"', schedule.zone));
		END IF;
		first := coalesce(first, now());
	ELSIF schedule.every IS NOT NULL THEN
		IF NOT schedule.every BETWEEN '1 ms' AND '10 years'
			OR extract(year FROM schedule.every) <> 0 OR extract(month FROM schedule.every) <> 0 THEN
			PERFORM hwheel._refuse(format(
				'every is %s, not 1 ms or more without months and years', schedule.every));
		END IF;
		first := coalesce(first, now() + make_interval(secs => extract(epoch FROM schedule.every)::float8));
	END IF;
	IF first IS NULL THEN
		PERFORM hwheel._refuse('a job needs due, every or cron');
	END IF;
	PERFORM hwheel._check_due(first);

	SELECT id, owner, fence INTO old FROM hwheel.job
		WHERE key = schedule.key AND state IN ('waiting', 'claimed', 'running') FOR UPDATE;
	INSERT INTO hwheel.job AS j (key, due, occurrence, every, cron, zone, missed, grace,
		kind, target, payload, max_attempts, backoff, timeout)
	VALUES (schedule.key, CASE WHEN schedule.cron IS NULL THEN first ELSE '-infinity' END,
		first, schedule.every, schedule.cron,
		CASE WHEN schedule.cron IS NOT NULL THEN coalesce(schedule.zone, 'UTC') END,
		schedule.missed, schedule.grace,
		CASE WHEN schedule.sql IS NOT NULL THEN 'sql'
			WHEN schedule.command IS NOT NULL THEN 'command' ELSE 'http' END,
		target, schedule.payload, schedule.max_attempts, schedule.backoff, schedule.timeout)
	ON CONFLICT (key) WHERE state IN ('waiting', 'claimed', 'running') DO UPDATE SET
		due = excluded.due, occurrence = excluded.occurrence, every = excluded.every,
		cron = excluded.cron, zone = excluded.zone, missed = excluded.missed,
		grace = excluded.grace, kind = excluded.kind, target = excluded.target,
		payload = excluded.payload, max_attempts = excluded.max_attempts,
		backoff = excluded.backoff, timeout = excluded.timeout, state = 'waiting',
		owner = NULL, fence = j.fence + 1, attempts = 0, last_error = NULL
	RETURNING id INTO new_id;
	PERFORM hwheel._revoke(old.owner, old.id, old.fence);
	RETURN new_id;
END $$;

-- Moves a job. Returns false if no job that is still to run has the key. A
-- recurrence goes on from the new time: an interval from there, cron after it.
-- A command or request that has started is not stopped.
CREATE OR REPLACE FUNCTION hwheel.move(key text, due timestamptz) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	old record;
BEGIN
	PERFORM hwheel._check_due(move.due);
	SELECT id, owner, fence INTO old FROM hwheel.job
		WHERE key = move.key AND state IN ('waiting', 'claimed', 'running') FOR UPDATE;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	UPDATE hwheel.job SET due = move.due, occurrence = move.due, state = 'waiting',
		owner = NULL, fence = fence + 1, attempts = 0 WHERE id = old.id;
	PERFORM hwheel._revoke(old.owner, old.id, old.fence);
	RETURN true;
END $$;

-- Cancels a job, which is deleted. Returns false if no job that is still to run has
-- the key. A command or request that has started is not stopped.
CREATE OR REPLACE FUNCTION hwheel.cancel(key text) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	old record;
BEGIN
	DELETE FROM hwheel.job
		WHERE key = cancel.key AND state IN ('waiting', 'claimed', 'running')
		RETURNING id, owner, fence INTO old;
	PERFORM hwheel._revoke(old.owner, old.id, old.fence);
	RETURN old.id IS NOT NULL;
END $$;

-- Gives the last dead job of a key another life, from now. Returns false if there
-- is none. A live job with the same key is a unique violation.
CREATE OR REPLACE FUNCTION hwheel.revive(key text) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	UPDATE hwheel.job SET state = 'waiting', fence = fence + 1, attempts = 0,
		due = CASE WHEN due = '-infinity' THEN due ELSE clock_timestamp() END,
		finished_at = NULL
	WHERE id = (SELECT max(id) FROM hwheel.job WHERE key = revive.key AND state = 'dead');
	RETURN FOUND;
END $$;

-- Deletes the jobs that ended at least this long ago. Returns their number.
CREATE OR REPLACE FUNCTION hwheel.prune(older interval) RETURNS bigint
LANGUAGE sql AS $$
	WITH gone AS (DELETE FROM hwheel.job WHERE state IN ('done', 'dead')
		AND finished_at <= clock_timestamp() - older RETURNING 1)
	SELECT count(*) FROM gone;
$$;
-- The functions for nodes, one for each step of the protocol in src/main.rs.
-- All decisions about time use clock_timestamp(): the database's clock.
--
-- Some functions switch sequential scans off. They read a few jobs among many, and
-- must not keep a plan that was made while the table was small. The switch makes
-- queries look expensive to the planner, so the functions switch its compiler off as
-- well. _fire() does neither, because it runs the user's functions.

-- Returns the node's id. HW002: this program and this schema do not fit.
CREATE OR REPLACE FUNCTION hwheel._enter(name text, version int,
	OUT id bigint, OUT window_ms bigint, OUT lease_ms bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	s hwheel.settings := (SELECT s FROM hwheel.settings s);
BEGIN
	IF s.version IS DISTINCT FROM _enter.version THEN
		RAISE EXCEPTION 'hwheel: the schema has version %, the program %',
			s.version, _enter.version USING ERRCODE = 'HW002';
	END IF;
	DELETE FROM hwheel.node n WHERE n.left_at < clock_timestamp() - interval '1 day'
		AND NOT EXISTS (SELECT FROM hwheel.job j WHERE j.owner = n.id);
	INSERT INTO hwheel.node AS n (name, lease_until)
		VALUES (_enter.name, clock_timestamp() + s.lease_length)
		RETURNING n.id INTO _enter.id;
	window_ms := extract(epoch FROM s.window_length) * 1000;
	lease_ms := extract(epoch FROM s.lease_length) * 1000;
END $$;

-- Takes the jobs from nodes that have left. A job that is locked is being fired, or
-- changed by a user; the next call looks at it again.
CREATE OR REPLACE FUNCTION hwheel._release() RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
	lost bigint;
	any_released boolean := false;
BEGIN
	FOR lost IN SELECT id FROM hwheel.node WHERE left_at IS NOT NULL LOOP
		UPDATE hwheel.job SET state = 'waiting', owner = NULL, fence = fence + 1,
			attempts = attempts + (state = 'running')::int,
			last_error = CASE WHEN state = 'running'
				THEN 'the node was lost while the job ran' ELSE last_error END
		WHERE id IN (SELECT id FROM hwheel.job WHERE owner = lost FOR UPDATE SKIP LOCKED);
		any_released := any_released OR FOUND;
	END LOOP;
	IF any_released THEN
		PERFORM pg_notify('hwheel', '0');
	END IF;
END $$;

CREATE OR REPLACE FUNCTION hwheel._leave(node_id bigint) RETURNS void
LANGUAGE sql AS $$
	UPDATE hwheel.node SET left_at = clock_timestamp() WHERE id = node_id AND left_at IS NULL;
	SELECT hwheel._release();
$$;

-- What a node has to know of a job in order to arm it.
DO $$ BEGIN
	IF to_regtype('hwheel.claim') IS NULL THEN
		CREATE TYPE hwheel.claim AS (
			id bigint, fence bigint, kind text,
			due timestamptz, -- NULL: the first run is still to be computed
			occurrence timestamptz, every_us bigint, cron text, zone text,
			missed text, grace_us bigint, timeout_ms bigint, exhausted boolean
		);
	END IF;
END $$;

CREATE OR REPLACE FUNCTION hwheel._as_claim(j hwheel.job) RETURNS hwheel.claim
LANGUAGE sql STABLE AS $$
	SELECT j.id, j.fence, j.kind, nullif(j.due, '-infinity'), j.occurrence,
		(extract(epoch FROM j.every) * 1000000)::bigint, j.cron, j.zone, j.missed,
		(extract(epoch FROM j.grace) * 1000000)::bigint,
		(extract(epoch FROM j.timeout) * 1000)::bigint, j.attempts >= j.max_attempts;
$$;

-- Renews the lease, expels nodes whose lease has run out, and claims jobs that are
-- due within the window. HW001: this node was expelled itself.
CREATE OR REPLACE FUNCTION hwheel._claim(node_id bigint, at_most int, kinds text[],
	clock_offset_us bigint, failed bigint, lateness bigint[]) RETURNS SETOF hwheel.claim
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
	s hwheel.settings := (SELECT s FROM hwheel.settings s);
	-- Read once: an index is no help with a clock that moves while it is scanned.
	horizon timestamptz := clock_timestamp() + s.window_length;
BEGIN
	UPDATE hwheel.node SET lease_until = clock_timestamp() + s.lease_length,
		clock_offset = make_interval(secs => clock_offset_us / 1e6),
		failed = _claim.failed, lateness = _claim.lateness
	WHERE id = node_id AND left_at IS NULL;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'hwheel: node % was expelled: its lease ran out', node_id
			USING ERRCODE = 'HW001';
	END IF;

	UPDATE hwheel.node SET left_at = clock_timestamp() WHERE id IN (
		SELECT id FROM hwheel.node WHERE left_at IS NULL
			AND lease_until < clock_timestamp() FOR UPDATE SKIP LOCKED);
	PERFORM hwheel._release();

	RETURN QUERY
		WITH near AS (
			SELECT id FROM hwheel.job
			WHERE state = 'waiting' AND due < horizon
				AND kind = ANY (kinds)
			ORDER BY due LIMIT at_most FOR UPDATE SKIP LOCKED
		), claimed AS (
			UPDATE hwheel.job j SET state = 'claimed', owner = node_id, fence = j.fence + 1
			FROM near WHERE j.id = near.id RETURNING j AS job
		)
		SELECT a.* FROM claimed c, LATERAL hwheel._as_claim(c.job) a;
END $$;

-- Returns the jobs that a node has claimed. After a lost connection it may have
-- missed an answer.
CREATE OR REPLACE FUNCTION hwheel._owned(node_id bigint) RETURNS SETOF hwheel.claim
LANGUAGE sql SET enable_seqscan = off SET jit = off AS $$
	SELECT a.* FROM hwheel.job j, LATERAL hwheel._as_claim(j) a
	WHERE j.owner = node_id AND j.state = 'claimed';
$$;

-- Locks the jobs that are due and whose fence is as claimed. Waits for nobody, and
-- answers once for a job that is named twice. n is the place of a job in the arrays.
-- taken: locked. early: not due yet. busy: locked by another. gone: not the node's.
CREATE OR REPLACE FUNCTION hwheel._take(ids bigint[], fences bigint[], states text[])
RETURNS TABLE (n bigint, id bigint, fence bigint, outcome text, key text,
	occurrence timestamptz, target text, payload jsonb, attempts int)
LANGUAGE sql SET enable_seqscan = off SET jit = off AS $$
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

-- Whether a job is still as it was claimed.
CREATE OR REPLACE FUNCTION hwheel._valid(id bigint, fence bigint) RETURNS boolean
LANGUAGE sql SET enable_seqscan = off SET jit = off AS $$
	SELECT EXISTS (SELECT FROM hwheel.job j WHERE j.id = _valid.id AND j.fence = _valid.fence);
$$;

-- Ends attempts. nexts has the times at which recurring jobs run next. A job whose
-- next run or attempt is within the window stays claimed by its owner, and is
-- returned with its new fence.
CREATE OR REPLACE FUNCTION hwheel._settle(ids bigint[], fences bigint[], errors text[],
	nexts timestamptz[], skips int[], started timestamptz[])
RETURNS TABLE (id bigint, outcome text, fence bigint, due timestamptz,
	occurrence timestamptz, late_us bigint, error text)
LANGUAGE sql SET enable_seqscan = off SET jit = off AS $$
	WITH want AS (
		SELECT * FROM unnest(ids, fences, errors, nexts, skips, started)
			AS w (id, fence, error, next, skip, started)
	), verdict AS (
		SELECT w.*, j.due AS was_due, j.occurrence AS was_for, w.error IS NULL AS ok,
			w.error IS NULL OR j.attempts + 1 >= j.max_attempts AS is_over,
			CASE WHEN w.error IS NULL OR j.attempts + 1 >= j.max_attempts THEN w.next
				ELSE clock_timestamp() + (0.8 + 0.4 * random())
					* least(j.backoff * power(2, least(j.attempts, 22)), '1 hour')
				END AS new_due
		FROM want w JOIN hwheel.job j ON j.id = w.id AND j.fence = w.fence
			AND j.state IN ('claimed', 'running')
		FOR UPDATE OF j
	), settled AS (
		UPDATE hwheel.job j SET
			state = CASE WHEN v.new_due IS NULL THEN CASE WHEN v.ok THEN 'done' ELSE 'dead' END
				WHEN v.new_due < clock_timestamp() + s.window_length THEN 'claimed'
				ELSE 'waiting' END,
			owner = CASE WHEN v.new_due < clock_timestamp() + s.window_length THEN j.owner END,
			fence = j.fence + 1,
			due = coalesce(v.new_due, j.due),
			occurrence = CASE WHEN v.is_over THEN coalesce(v.new_due, j.occurrence)
				ELSE j.occurrence END,
			attempts = CASE WHEN v.ok OR v.is_over AND v.new_due IS NOT NULL THEN 0
				ELSE least(j.attempts + 1, j.max_attempts) END,
			runs = j.runs + v.ok::int,
			skipped = j.skipped + CASE WHEN v.is_over THEN v.skip ELSE 0 END,
			fired_at = coalesce(v.started, j.fired_at),
			finished_at = CASE WHEN v.new_due IS NULL THEN clock_timestamp() END,
			last_error = v.error
		FROM verdict v, hwheel.settings s WHERE j.id = v.id
		RETURNING j.*, v.ok, v.is_over, v.was_due, v.was_for
	), dead_runs AS (
		-- A run of a recurring job that failed for good becomes a dead job of its
		-- own. The series goes on.
		INSERT INTO hwheel.job (key, state, due, occurrence, missed, grace, kind, target,
			payload, max_attempts, backoff, timeout, attempts, fired_at, finished_at, last_error)
		SELECT key, 'dead', was_due, was_for, 'once', grace, kind, target, payload,
			max_attempts, backoff, timeout, max_attempts, fired_at, clock_timestamp(), last_error
		FROM settled WHERE NOT ok AND is_over AND state <> 'dead'
	)
	SELECT w.id,
		CASE WHEN j.id IS NULL THEN 'gone' WHEN j.ok THEN 'done'
			WHEN j.is_over THEN 'dead' ELSE 'retry' END,
		CASE WHEN j.state = 'claimed' THEN j.fence END, j.due, j.occurrence,
		(extract(epoch FROM j.fired_at - j.was_due) * 1000000)::bigint, w.error
	FROM want w LEFT JOIN settled j ON j.id = w.id;
$$;

-- Fires SQL jobs: the effects of all and their completion are one transaction. One
-- that fails is rolled back alone and tried again. A server that cannot work, as
-- with a full disk, fails them all, and no attempt is counted.
CREATE OR REPLACE FUNCTION hwheel._fire(ids bigint[], fences bigint[],
	nexts timestamptz[], skips int[])
RETURNS TABLE (id bigint, outcome text, fence bigint, due timestamptz,
	occurrence timestamptz, late_us bigint, error text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	j        record;
	problem  text;
	began    timestamptz;
	t_ids    bigint[] := '{}';
	t_fences bigint[] := '{}';
	t_errors text[] := '{}';
	t_nexts  timestamptz[] := '{}';
	t_skips  int[] := '{}';
	t_began  timestamptz[] := '{}';
BEGIN
	FOR j IN SELECT * FROM hwheel._take(ids, fences, '{claimed}') LOOP
		IF j.outcome = 'taken' AND NOT hwheel._valid(j.id, j.fence) THEN
			j.outcome := 'gone'; -- One of the batch has just cancelled or moved it.
		END IF;
		IF j.outcome <> 'taken' THEN
			id := j.id; outcome := j.outcome;
			RETURN NEXT;
			CONTINUE;
		END IF;
		problem := NULL;
		began := clock_timestamp();
		BEGIN
			EXECUTE 'SELECT ' || j.target || '($1, $2, $3)' USING j.key, j.occurrence, j.payload;
		EXCEPTION
			WHEN insufficient_resources OR operator_intervention THEN
				RAISE;
			WHEN OTHERS THEN
				problem := format('%s (%s)', sqlerrm, sqlstate);
		END;
		t_ids := t_ids || j.id;
		t_fences := t_fences || j.fence;
		t_errors := t_errors || problem;
		t_nexts := t_nexts || nexts[j.n];
		t_skips := t_skips || skips[j.n];
		t_began := t_began || began;
	END LOOP;
	RETURN QUERY SELECT * FROM hwheel._settle(t_ids, t_fences, t_errors, t_nexts, t_skips, t_began);
END $$;

-- Marks commands and requests as running. To ask again for one that runs already
-- gives the same answer: the first may have been lost.
CREATE OR REPLACE FUNCTION hwheel._begin(ids bigint[], fences bigint[])
RETURNS TABLE (id bigint, outcome text, key text, occurrence timestamptz, target text,
	payload text, attempt int)
LANGUAGE sql SET enable_seqscan = off SET jit = off AS $$
	WITH taken AS MATERIALIZED (
		SELECT * FROM hwheel._take(ids, fences, '{claimed,running}')
	), begun AS (
		UPDATE hwheel.job j SET state = 'running', fired_at = clock_timestamp()
		FROM taken t WHERE j.id = t.id AND t.outcome = 'taken'
	)
	SELECT id, outcome, key, occurrence, target, payload::text, attempts + 1 FROM taken;
$$;

-- Gives claimed jobs another run without an attempt at this one: the first run of
-- a cron expression, or one that was missed and is skipped. With an error the job
-- is dead; with neither time nor error its recurrence is over.
CREATE OR REPLACE FUNCTION hwheel._plan(ids bigint[], fences bigint[],
	nexts timestamptz[], skips int[], errors text[])
RETURNS TABLE (id bigint, fence bigint, due timestamptz)
LANGUAGE sql SET enable_seqscan = off SET jit = off AS $$
	WITH want AS (
		SELECT * FROM unnest(ids, fences, nexts, skips, errors)
			AS w (id, fence, next, skip, error)
	), planned AS (
		UPDATE hwheel.job j SET
			state = CASE WHEN w.error IS NOT NULL THEN 'dead' WHEN w.next IS NULL THEN 'done'
				WHEN w.next < clock_timestamp() + s.window_length THEN 'claimed'
				ELSE 'waiting' END,
			owner = CASE WHEN w.error IS NULL
				AND w.next < clock_timestamp() + s.window_length THEN j.owner END,
			fence = j.fence + 1, attempts = 0,
			due = coalesce(w.next, j.due), occurrence = coalesce(w.next, j.occurrence),
			skipped = j.skipped + w.skip,
			finished_at = CASE WHEN w.next IS NULL OR w.error IS NOT NULL
				THEN clock_timestamp() END,
			last_error = coalesce(w.error, j.last_error)
		FROM want w, hwheel.settings s
		WHERE j.id = w.id AND j.fence = w.fence AND j.state = 'claimed'
		RETURNING j.id, j.fence, j.due, j.state
	)
	SELECT id, fence, due FROM planned WHERE state = 'claimed';
$$;
