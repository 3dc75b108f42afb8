-- The functions for nodes, one for each step of the protocol in src/main.rs.
-- All decisions about time use clock_timestamp(): the database's clock.
--
-- A function that nodes call keeps its name, its parameters and the columns of its
-- result as long as settings.oldest_node admits such nodes: an upgrade replaces it under
-- nodes that run. One that needs others gets a new name or more parameters, and the
-- old one stays, at the end of this file.
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
	IF s.version < _enter.version OR s.oldest_node > _enter.version THEN
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

-- Stores which time zones of the server a node does not know.
CREATE OR REPLACE FUNCTION hwheel._unknown_zones(node_id bigint, zones text[]) RETURNS void
LANGUAGE sql AS $$
	UPDATE hwheel.node SET unknown_zones = zones WHERE id = node_id;
$$;

-- Takes jobs from nodes that have left, up to a number, so that the call is short. A
-- job that is locked is being fired, or changed by a user; the next call looks again.
CREATE OR REPLACE FUNCTION hwheel._release() RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
DECLARE
	lost bigint;
	any_released boolean := false;
BEGIN
	FOR lost IN SELECT id FROM hwheel.node WHERE left_at IS NOT NULL LOOP
		UPDATE hwheel.job SET state = 'waiting', owner = NULL, fence = fence + 1,
			attempts = attempts + (state = 'running')::int,
			losses = losses + (kind = 'sql' AND due <= clock_timestamp())::int,
			due = CASE WHEN paused_due IS NULL THEN due ELSE 'infinity' END,
			paused_due = CASE WHEN paused_due IS NOT NULL THEN due END,
			last_error = CASE WHEN state = 'running'
				THEN 'the node was lost while the job ran' ELSE last_error END
		WHERE id IN (SELECT id FROM hwheel.job WHERE owner = lost
			LIMIT 10000 FOR UPDATE SKIP LOCKED);
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
END $$;

CREATE OR REPLACE FUNCTION hwheel._as_claim2(j hwheel.job) RETURNS hwheel.claim2
LANGUAGE sql STABLE AS $$
	SELECT j.id, j.fence, j.kind, j.key, nullif(j.due, '-infinity'), j.occurrence,
		(extract(epoch FROM j.every) * 1000000)::bigint, j.cron, j.zone, j.missed,
		(extract(epoch FROM j.grace) * 1000000)::bigint,
		(extract(epoch FROM j.timeout) * 1000)::bigint, j.attempts >= j.max_attempts,
		hashtext(j.target), j.alone, j.losses >= 2;
$$;

-- Renews the lease, expels nodes whose lease has run out, and claims jobs that are
-- due within the window. HW001: this node was expelled itself.
CREATE OR REPLACE FUNCTION hwheel._turn(node_id bigint, at_most int, kinds text[],
	clock_offset_us bigint, failed bigint, lateness bigint[]) RETURNS SETOF hwheel.claim2
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
	s hwheel.settings := (SELECT s FROM hwheel.settings s);
	-- Read once: an index is no help with a clock that moves while it is scanned.
	horizon timestamptz := clock_timestamp() + s.window_length;
	zones text[]; -- that the node does not know
BEGIN
	UPDATE hwheel.node SET lease_until = clock_timestamp() + s.lease_length,
		clock_offset = make_interval(secs => clock_offset_us / 1e6),
		failed = _turn.failed, lateness = _turn.lateness
	WHERE id = node_id AND left_at IS NULL RETURNING unknown_zones INTO zones;
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
				AND kind = ANY (kinds) AND (zone = ANY (zones)) IS NOT true
			ORDER BY due LIMIT at_most FOR UPDATE SKIP LOCKED
		), claimed AS (
			UPDATE hwheel.job j SET state = 'claimed', owner = node_id, fence = j.fence + 1
			FROM near WHERE j.id = near.id RETURNING j AS job
		)
		SELECT a.* FROM claimed c, LATERAL hwheel._as_claim2(c.job) a;
END $$;

-- Returns the jobs that a node has claimed. After a lost connection it may have
-- missed an answer.
CREATE OR REPLACE FUNCTION hwheel._held(node_id bigint) RETURNS SETOF hwheel.claim2
LANGUAGE sql SET enable_seqscan = off SET jit = off AS $$
	SELECT a.* FROM hwheel.job j, LATERAL hwheel._as_claim2(j) a
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

-- The same for one job, which then is locked until the end of the transaction.
CREATE OR REPLACE FUNCTION hwheel._lock(id bigint, fence bigint, state text, OUT outcome text,
	OUT key text, OUT occurrence timestamptz, OUT target text, OUT payload jsonb, OUT run_as name,
	OUT traceparent text)
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
	SELECT 'taken', j.key, j.occurrence, j.target, j.payload, j.run_as, j.traceparent
		INTO outcome, key, occurrence, target, payload, run_as, traceparent
		FROM hwheel.job j
		WHERE j.id = _lock.id AND j.fence = _lock.fence AND j.state = _lock.state
			AND j.due <= clock_timestamp() AND isfinite(j.due) FOR UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		SELECT CASE WHEN j.due > clock_timestamp() THEN 'early' ELSE 'busy' END
			INTO outcome FROM hwheel.job j
			WHERE j.id = _lock.id AND j.fence = _lock.fence AND j.state = _lock.state;
		outcome := coalesce(outcome, 'gone');
	END IF;
END $$;

-- Ends attempts. nexts has the times at which recurring jobs run next. A job whose
-- next run or attempt is within the window stays claimed by its owner, and is
-- returned with its new fence. lost: the connection ended while they ran. waits_ms:
-- how long the next attempt waits at least.
CREATE OR REPLACE FUNCTION hwheel._settle(ids bigint[], fences bigint[], errors text[],
	nexts timestamptz[], skips int[], started timestamptz[], lost boolean, waits_ms bigint[])
RETURNS TABLE (id bigint, outcome text, fence bigint, due timestamptz,
	occurrence timestamptz, late_us bigint, error text)
LANGUAGE sql SET enable_seqscan = off SET jit = off AS $$
	WITH want AS (
		SELECT * FROM unnest(ids, fences, errors, nexts, skips, started, waits_ms)
			AS w (id, fence, error, next, skip, started, wait_ms)
	), plan AS (
		SELECT w.*, j.due AS was_due, j.occurrence AS was_for, w.error IS NULL AS ok,
			w.error IS NULL OR j.attempts + 1 >= j.max_attempts AS is_over,
			CASE WHEN w.error IS NULL OR j.attempts + 1 >= j.max_attempts THEN w.next
				ELSE clock_timestamp() + greatest(w.wait_ms * interval '1 ms',
					(0.8 + 0.4 * random())
					* least(j.backoff * power(2, least(j.attempts, 22)), '1 hour'))
				END AS planned,
			j.paused_due IS NOT NULL AS is_paused
		FROM want w JOIN hwheel.job j ON j.id = w.id AND j.fence = w.fence
			AND j.state IN ('claimed', 'running')
		FOR UPDATE OF j
	), verdict AS (
		SELECT *, CASE WHEN is_paused AND planned IS NOT NULL THEN 'infinity' ELSE planned END
			AS new_due FROM plan
	), settled AS (
		UPDATE hwheel.job j SET
			state = CASE WHEN v.new_due IS NULL THEN CASE WHEN v.ok THEN 'done' ELSE 'dead' END
				WHEN v.new_due < clock_timestamp() + s.window_length THEN 'claimed'
				ELSE 'waiting' END,
			owner = CASE WHEN v.new_due < clock_timestamp() + s.window_length THEN j.owner END,
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
			last_error = v.error
		FROM verdict v, hwheel.settings s WHERE j.id = v.id
		RETURNING j.*, v.ok, v.is_over, v.was_due, v.was_for
	), dead_runs AS (
		-- A run of a recurring job that failed for good becomes a dead job of its
		-- own. The series goes on.
		INSERT INTO hwheel.job (key, state, due, occurrence, missed, grace, kind, target,
			payload, max_attempts, backoff, timeout, alone, run_as, headers, traceparent,
			attempts, fired_at, finished_at, last_error)
		SELECT key, 'dead', was_due, was_for, 'once', grace, kind, target, payload,
			max_attempts, backoff, timeout, alone, run_as, headers, traceparent,
			max_attempts, fired_at, clock_timestamp(), last_error
		FROM settled WHERE NOT ok AND is_over AND state <> 'dead'
	)
	SELECT w.id,
		CASE WHEN j.id IS NULL THEN 'gone' WHEN j.ok THEN 'done'
			WHEN j.is_over THEN 'dead' ELSE 'retry' END,
		CASE WHEN j.state = 'claimed' THEN j.fence END, j.due, j.occurrence,
		(extract(epoch FROM j.fired_at - j.was_due) * 1000000)::bigint, w.error
	FROM want w LEFT JOIN settled j ON j.id = w.id;
$$;

-- Gives the session the state of a new one, and back the node's own settings.
CREATE OR REPLACE FUNCTION hwheel._clean(time_limit text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	prepared text;
BEGIN
	RESET ALL;
	PERFORM set_config('statement_timeout', time_limit, false),
		set_config('default_transaction_isolation', 'read committed', false),
		pg_advisory_unlock_all();
	EXECUTE 'CLOSE ALL';
	UNLISTEN *;
	DISCARD TEMP;
	DISCARD SEQUENCES;
	FOR prepared IN SELECT name FROM pg_prepared_statement() WHERE from_sql LOOP
		EXECUTE format('DEALLOCATE %I', prepared);
	END LOOP;
END $$;

-- Calls the function of a job. What is not the name of a function is not run.
CREATE OR REPLACE FUNCTION hwheel._call(target text, key text, due timestamptz, payload jsonb)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	function regproc := to_regprocedure(target || '(text, timestamptz, jsonb)')::oid;
BEGIN
	IF function IS NULL THEN
		RAISE undefined_function
			USING MESSAGE = format('there is no function %s(text, timestamptz, jsonb)', target);
	END IF;
	EXECUTE format('SELECT %s($1, $2, $3)', function) USING key, due, payload;
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
	time_limit constant text := current_setting('statement_timeout');
	until constant timestamptz := clock_timestamp() + make_interval(secs => budget_ms / 1000);
	is_over  boolean := false;
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
	FOR i IN 1 .. cardinality(ids) LOOP
		CONTINUE WHEN ids[i] = ANY (t_ids);
		id := ids[i];
		IF is_over THEN
			outcome := 'later';
			RETURN NEXT;
			CONTINUE;
		END IF;
		SELECT * INTO j FROM hwheel._lock(ids[i], fences[i],
			CASE WHEN begun THEN 'running' ELSE 'claimed' END);
		IF j.outcome <> 'taken' THEN
			outcome := j.outcome;
			RETURN NEXT;
			CONTINUE;
		END IF;
		problem := NULL;
		outcome := NULL;
		began := clock_timestamp();
		BEGIN
			IF j.traceparent IS NOT NULL THEN
				PERFORM set_config('hwheel.traceparent', j.traceparent, true);
			END IF;
			IF j.run_as IS NULL THEN
				PERFORM hwheel._call(j.target, j.key, j.occurrence, j.payload);
			ELSE
				EXECUTE format('SELECT hwheel.%I($1, $2, $3, $4)', hwheel._wrapper(j.run_as))
					USING j.target, j.key, j.occurrence, j.payload;
			END IF;
			RESET SESSION AUTHORIZATION; -- Its own role may not call the next one.
			PERFORM hwheel._clean(time_limit);
		EXCEPTION
			WHEN disk_full OR io_error THEN
				RAISE;
			WHEN query_canceled THEN
				problem := format('%s (%s)', sqlerrm, sqlstate);
				outcome := CASE WHEN budget_ms IS NOT NULL THEN 'slow' END;
			WHEN OTHERS THEN
				problem := format('%s (%s)', sqlerrm, sqlstate);
		END;
		IF problem IS NOT NULL THEN
			PERFORM hwheel._clean(time_limit);
		END IF;
		is_over := clock_timestamp() > until OR outcome IS NOT NULL;
		IF outcome IS NOT NULL THEN
			RETURN NEXT;
			CONTINUE;
		END IF;
		t_ids := t_ids || ids[i];
		t_fences := t_fences || fences[i];
		t_errors := t_errors || problem;
		t_nexts := t_nexts || nexts[i];
		t_skips := t_skips || skips[i];
		t_began := t_began || began;
	END LOOP;
	RETURN QUERY SELECT * FROM hwheel._settle(t_ids, t_fences, t_errors, t_nexts, t_skips,
		t_began, false, NULL);
END $$;

-- Stores why a job waits for a server that works.
CREATE OR REPLACE FUNCTION hwheel._note(id bigint, fence bigint, error text) RETURNS void
LANGUAGE sql AS $$
	UPDATE hwheel.job j SET last_error = _note.error WHERE j.id = _note.id AND j.fence = _note.fence;
$$;

-- Marks jobs as running: commands, requests, and SQL jobs under suspicion. To ask again
-- for one that runs already gives the same answer: the first may have been lost.
CREATE OR REPLACE FUNCTION hwheel._start(ids bigint[], fences bigint[])
RETURNS TABLE (id bigint, outcome text, key text, occurrence timestamptz, target text,
	payload text, attempt int, header_names text[], header_texts text[], traceparent text)
LANGUAGE sql SET enable_seqscan = off SET jit = off AS $$
	WITH taken AS MATERIALIZED (
		SELECT * FROM hwheel._take(ids, fences, '{claimed,running}')
	), begun AS (
		UPDATE hwheel.job j SET state = 'running', fired_at = clock_timestamp()
		FROM taken t WHERE j.id = t.id AND t.outcome = 'taken'
		RETURNING j.id, j.headers, j.traceparent
	)
	SELECT t.id, t.outcome, t.key, t.occurrence, t.target, t.payload::text, t.attempts + 1,
		ARRAY(SELECT h.key FROM jsonb_each_text(b.headers) h ORDER BY h.key),
		ARRAY(SELECT h.value FROM jsonb_each_text(b.headers) h ORDER BY h.key), b.traceparent
	FROM taken t LEFT JOIN begun b ON b.id = t.id;
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

-- The calls of nodes of version 1.

CREATE OR REPLACE FUNCTION hwheel._as_claim(c hwheel.claim2) RETURNS hwheel.claim
LANGUAGE sql IMMUTABLE AS $$
	SELECT c.id, c.fence, c.kind, c.due, c.occurrence, c.every_us, c.cron, c.zone, c.missed,
		c.grace_us, c.timeout_ms, c.exhausted;
$$;

CREATE OR REPLACE FUNCTION hwheel._claim(node_id bigint, at_most int, kinds text[],
	clock_offset_us bigint, failed bigint, lateness bigint[]) RETURNS SETOF hwheel.claim
LANGUAGE sql AS $$
	SELECT a.* FROM hwheel._turn(node_id, at_most, kinds, clock_offset_us, failed, lateness) c,
		LATERAL hwheel._as_claim(c) a;
$$;

CREATE OR REPLACE FUNCTION hwheel._owned(node_id bigint) RETURNS SETOF hwheel.claim
LANGUAGE sql AS $$
	SELECT a.* FROM hwheel._held(node_id) c, LATERAL hwheel._as_claim(c) a;
$$;

CREATE OR REPLACE FUNCTION hwheel._settle(ids bigint[], fences bigint[], errors text[],
	nexts timestamptz[], skips int[], started timestamptz[])
RETURNS TABLE (id bigint, outcome text, fence bigint, due timestamptz,
	occurrence timestamptz, late_us bigint, error text)
LANGUAGE sql AS $$
	SELECT * FROM hwheel._settle(ids, fences, errors, nexts, skips, started, false, NULL);
$$;

CREATE OR REPLACE FUNCTION hwheel._fire(ids bigint[], fences bigint[],
	nexts timestamptz[], skips int[])
RETURNS TABLE (id bigint, outcome text, fence bigint, due timestamptz,
	occurrence timestamptz, late_us bigint, error text)
LANGUAGE sql AS $$
	SELECT * FROM hwheel._fire(ids, fences, nexts, skips, false, NULL);
$$;

CREATE OR REPLACE FUNCTION hwheel._begin(ids bigint[], fences bigint[])
RETURNS TABLE (id bigint, outcome text, key text, occurrence timestamptz, target text,
	payload text, attempt int)
LANGUAGE sql AS $$
	SELECT id, outcome, key, occurrence, target, payload, attempt FROM hwheel._start(ids, fences);
$$;
