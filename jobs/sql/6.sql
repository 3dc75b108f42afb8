-- The tables of version 6: runs that are asked to end, limits for each tenant of a
-- queue, and the attempts that have failed.

-- The jobs whose run somebody has asked to end, by hwheel.cancel(). The job is deleted when the
-- run has ended. A row stays until then, and a little longer. A job may have several, so that
-- nobody waits for the transaction of somebody else who cancels it.
CREATE TABLE hwheel.stop (
	id       bigint      NOT NULL, -- of the job
	asked_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX stop_id ON hwheel.stop (id);
-- A publication of all tables needs a way to name a row that is deleted.
ALTER TABLE hwheel.stop REPLICA IDENTITY FULL;

-- Jobs that applications take may name a tenant, and a queue may limit the runs of each of its
-- tenants. Such a queue remembers which tenant had the last turn.
ALTER TABLE hwheel.job ADD COLUMN tenant text COLLATE "C",
	ADD CONSTRAINT job_tenant_fits CHECK (octet_length(tenant) BETWEEN 1 AND 255);
ALTER TABLE hwheel.history ADD COLUMN tenant text COLLATE "C";
ALTER TABLE hwheel.queue ADD COLUMN max_running_per int, ADD COLUMN last_tenant text COLLATE "C";
CREATE INDEX job_tenant_due ON hwheel.job (queue, tenant, priority DESC, due)
	WHERE state = 'waiting' AND kind = 'app' AND tenant IS NOT NULL;
CREATE INDEX job_tenant_run ON hwheel.job (queue, tenant)
	WHERE lease_until IS NOT NULL AND tenant IS NOT NULL;

-- The last ten attempts that failed: when each began and ended, and what it said.
ALTER TABLE hwheel.job ADD COLUMN tried jsonb,
	ADD CONSTRAINT job_tried_fits CHECK (jsonb_typeof(tried) = 'array');
ALTER TABLE hwheel.history ADD COLUMN tried jsonb;
DO $$
DECLARE
	grantee oid;
BEGIN
	FOR grantee IN SELECT DISTINCT a.grantee FROM pg_attribute t, aclexplode(t.attacl) a
		WHERE t.attrelid = 'hwheel.job'::regclass AND t.attname = 'last_error'
			AND a.privilege_type = 'SELECT'
	LOOP
		EXECUTE format('GRANT SELECT (tenant, tried) ON hwheel.job TO %s',
			CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END);
	END LOOP;
END $$;

-- The view of all jobs says since when a run is asked to end, and the tenant.
CREATE OR REPLACE VIEW hwheel.all_jobs AS
	SELECT id, key, queue, priority, state, due, occurrence, every, cron, zone, missed, grace,
		kind, target, payload, max_attempts, backoff, timeout, alone, run_as, owner, attempts,
		runs, skipped, created_at, fired_at, finished_at, last_error, traceparent, paused_due,
		lease_until, (SELECT min(s.asked_at) FROM hwheel.stop s WHERE s.id = j.id
			AND j.state IN ('waiting', 'claimed', 'running')) AS stopping_since, tenant, tried
	FROM hwheel.job j
	UNION ALL
	SELECT id, key, queue, priority, 'done', due, occurrence, NULL, NULL, NULL, NULL, NULL,
		kind, target, payload, max_attempts, NULL, NULL, NULL, run_as, NULL, attempts,
		runs, skipped, created_at, fired_at, finished_at, NULL, traceparent, NULL, NULL, NULL, tenant, tried
	FROM hwheel.history;

-- A grant on the table of jobs becomes a grant on this one.
DO $$
DECLARE
	g record;
BEGIN
	FOR g IN SELECT DISTINCT privilege_type AS privilege,
			CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS grantee
		FROM (
			SELECT (aclexplode(relacl)).* FROM pg_class WHERE oid = 'hwheel.job'::regclass
			UNION ALL
			SELECT (aclexplode(attacl)).* FROM pg_attribute WHERE attrelid = 'hwheel.job'::regclass
		) a WHERE privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
	LOOP
		EXECUTE format('GRANT %s ON hwheel.stop TO %s', g.privilege, g.grantee);
	END LOOP;
END $$;

-- cancel() says what it did, instead of true or false. It keeps its rights. Its body is in
-- sql/interface.sql.
DO $$
DECLARE
	old pg_proc := (SELECT p FROM pg_proc p WHERE oid = to_regprocedure('hwheel.cancel(text)'));
	grantee oid;
BEGIN
	IF old.oid IS NULL THEN
		RETURN;
	END IF;
	DROP FUNCTION hwheel.cancel(text);
	CREATE FUNCTION hwheel.cancel(key text) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
	IF old.proacl IS NOT NULL THEN
		REVOKE ALL ON FUNCTION hwheel.cancel(text) FROM PUBLIC;
		FOR grantee IN SELECT a.grantee FROM aclexplode(old.proacl) a LOOP
			EXECUTE format('GRANT EXECUTE ON FUNCTION hwheel.cancel(text) TO %s',
				CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END);
		END LOOP;
	END IF;
END $$;

-- Every update of a row checks all constraints, and a regular expression was half of that work. The
-- name of most queues is the default, which needs no look at its letters. A trigger before an update
-- costs a lock of the row, also for updates that it does not look at.
ALTER TABLE hwheel.job DROP CONSTRAINT job_queue_fits;
ALTER TABLE hwheel.job ADD CONSTRAINT job_queue_fits CHECK (queue = 'default'
	OR octet_length(queue) BETWEEN 1 AND 50 AND left(queue, 1) NOT IN ('.', '-') AND btrim(queue,
		'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-') = '');
DROP TRIGGER check_role ON hwheel.job;
CREATE TRIGGER check_role BEFORE INSERT ON hwheel.job
	FOR EACH ROW WHEN (NEW.run_as IS NOT NULL OR NEW.next IS NOT NULL) EXECUTE FUNCTION hwheel._check_role();
CREATE TRIGGER check_role_again
	AFTER UPDATE OF kind, key, target, payload, run_as, state, next ON hwheel.job
	FOR EACH ROW WHEN (NEW.run_as IS NOT NULL OR NEW.next IS NOT NULL) EXECUTE FUNCTION hwheel._check_role();

-- What nothing calls any more. A call of an older node that is under way may fail, and is made
-- again.
DROP FUNCTION IF EXISTS hwheel._pick(text, bigint, bigint[], bigint, text[], text[], timestamptz,
	timestamptz);

UPDATE hwheel.settings SET version = 6;
