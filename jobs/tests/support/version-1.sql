-- The functions of version 1, for the tests of an upgrade. Those that its nodes call for SQL jobs are as they
-- were, and schedule() checks nothing. An upgrade meets the others only by their names and arguments.

DO $do$
DECLARE
	its text;
BEGIN
	FOREACH its IN ARRAY ARRAY[
		'_cron_error(cron text) RETURNS text',
		'_refuse(message text) RETURNS void',
		'_check_due(due timestamptz) RETURNS void',
		'_revoke(owner bigint, id bigint, fence bigint) RETURNS void',
		'move(key text, due timestamptz) RETURNS boolean',
		'cancel(key text) RETURNS boolean',
		'revive(key text) RETURNS boolean',
		'prune(older interval) RETURNS bigint',
		'_leave(node_id bigint) RETURNS void',
		'_begin(ids bigint[], fences bigint[]) RETURNS TABLE (id bigint, outcome text, key text,
			occurrence timestamptz, target text, payload text, attempt int)',
		'_plan(ids bigint[], fences bigint[], nexts timestamptz[], skips int[], errors text[])
			RETURNS TABLE (id bigint, fence bigint, due timestamptz)'
	] LOOP
		EXECUTE format('CREATE FUNCTION hwheel.%s LANGUAGE plpgsql AS $$BEGIN END$$', its);
	END LOOP;
END $do$;

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
) RETURNS bigint LANGUAGE sql AS $$
	INSERT INTO hwheel.job (key, due, occurrence, missed, grace, kind, target, max_attempts,
		backoff, timeout)
	VALUES (key, due, due, missed, grace, 'sql', 'public.' || sql, max_attempts, backoff, timeout)
	RETURNING id;
$$;

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
