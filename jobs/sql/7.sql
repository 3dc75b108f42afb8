-- The tables of version 7: jobs that wait for others.

-- A job that waits for others is due at infinity, and its occurrence is the time before which it
-- does not run. A node looks for those whose after_key has no job that is still to run. A constraint
-- would be a tenth of the work of each update of a job, and a node can read all values.
ALTER TABLE hwheel.job
	ADD COLUMN after_keys text[], -- of the jobs that it waits for
	ADD COLUMN after_key  text;   -- one of them
CREATE INDEX job_after ON hwheel.job (after_key) WHERE after_key IS NOT NULL;
-- Who waits for a key. A list of what is still to be put into the index would be read each time.
CREATE INDEX job_after_keys ON hwheel.job USING gin (after_keys) WITH (fastupdate = off)
	WHERE after_keys IS NOT NULL;

DO $$
DECLARE
	grantee oid;
BEGIN
	FOR grantee IN SELECT DISTINCT a.grantee FROM pg_attribute t, aclexplode(t.attacl) a
		WHERE t.attrelid = 'hwheel.job'::regclass AND t.attname = 'last_error'
			AND a.privilege_type = 'SELECT'
	LOOP
		EXECUTE format('GRANT SELECT (after_keys, after_key) ON hwheel.job TO %s',
			CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END);
	END LOOP;
END $$;

CREATE OR REPLACE VIEW hwheel.all_jobs AS
	SELECT id, key, queue, priority, state, due, occurrence, every, cron, zone, missed, grace,
		kind, target, payload, max_attempts, backoff, timeout, alone, run_as, owner, attempts,
		runs, skipped, created_at, fired_at, finished_at, last_error, traceparent, paused_due,
		lease_until, (SELECT min(s.asked_at) FROM hwheel.stop s WHERE s.id = j.id
			AND j.state IN ('waiting', 'claimed', 'running')) AS stopping_since, tenant, tried,
		after_keys, after_key
	FROM hwheel.job j
	UNION ALL
	SELECT id, key, queue, priority, 'done', due, occurrence, NULL, NULL, NULL, NULL, NULL,
		kind, target, payload, max_attempts, NULL, NULL, NULL, run_as, NULL, attempts,
		runs, skipped, created_at, fired_at, finished_at, NULL, traceparent, NULL, NULL, NULL, tenant, tried,
		NULL, NULL
	FROM hwheel.history;

UPDATE hwheel.settings SET version = 7;
