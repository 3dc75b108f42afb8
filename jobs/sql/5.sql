-- The tables of version 5: what a role has written runs as it, a process proves its number,
-- queues have gates, no node trips over a row, and claims are fair.

-- A word that only the process knows that has entered under this number: two processes may have
-- one number after a backup was restored under nodes that run.
ALTER TABLE hwheel.node ADD COLUMN word text;

-- What a job becomes when the run that is under way has ended: the columns that change. NULL: it
-- stays what it is.
ALTER TABLE hwheel.job ADD COLUMN next jsonb;
CREATE FUNCTION hwheel._follow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER follow AFTER UPDATE ON hwheel.job FOR EACH ROW
	WHEN (OLD.state = 'running' AND NEW.state <> 'running' AND NEW.next IS NOT NULL)
	EXECUTE FUNCTION hwheel._follow();
CREATE TRIGGER follow_end AFTER DELETE ON hwheel.job FOR EACH ROW
	WHEN (OLD.state = 'running' AND OLD.next IS NOT NULL)
	EXECUTE FUNCTION hwheel._follow();

-- A job with a role: whoever writes what it runs, or revives it, is a member of the role.
DROP TRIGGER check_role ON hwheel.job;
CREATE TRIGGER check_role
	BEFORE INSERT OR UPDATE OF kind, key, target, payload, run_as, state, next ON hwheel.job
	FOR EACH ROW WHEN (NEW.run_as IS NOT NULL OR NEW.next IS NOT NULL) EXECUTE FUNCTION hwheel._check_role();

-- A publication of all tables needs a way to name a row that is deleted.
DO $$ BEGIN
	FOR slot IN 0..31 LOOP
		EXECUTE format('ALTER TABLE hwheel.history_%s REPLICA IDENTITY FULL', slot);
	END LOOP;
	ALTER TABLE hwheel.history REPLICA IDENTITY FULL;
END $$;

-- The gate of a queue. A transaction that changes the queue holds the row. A transaction that
-- claims or takes shares it, and passes by a gate that somebody holds. Nodes and applications
-- make the row when they first see the queue.
CREATE TABLE hwheel.gate (
	queue      text COLLATE "C" PRIMARY KEY,
	changed_at timestamptz
);

-- The kinds of jobs that a node runs. NULL: its program is older.
ALTER TABLE hwheel.node ADD COLUMN kinds text[];

-- When the nodes had no start left, by the rate of the queue. Its holder writes this down.
ALTER TABLE hwheel.queue ADD COLUMN paced_at timestamptz;

-- Rows that no function makes. Whoever may write the table could make them, and a node cannot
-- read or run them. Those that are there are dead from now on.
UPDATE hwheel.job SET lease_until = NULL WHERE lease_until IS NOT NULL AND state <> 'running';
DO $$
DECLARE
	-- What makes a value fit, for each column that a check looks at.
	fit constant text[] := ARRAY[
		'key = left(coalesce(nullif(key, ''''), ''?''), 50)',
		'due = least(greatest(due, ''1900-01-01 UTC''), ''9000-01-01 UTC'')',
		'occurrence = least(greatest(occurrence, ''1900-01-01 UTC''), ''9000-01-01 UTC'')',
		'paused_due = NULL', 'every = NULL', 'cron = NULL', 'zone = NULL',
		'grace = least(greatest(grace, ''0''), ''1 year'')',
		'max_attempts = least(greatest(max_attempts, 1), 100)',
		'backoff = least(greatest(backoff, ''1 ms''), ''1 hour'')',
		'timeout = least(greatest(timeout, ''1 ms''), ''1 day'')',
		'queue = CASE WHEN queue ~ ''^[A-Za-z0-9_][A-Za-z0-9_.-]{0,49}$'' THEN queue ELSE ''default'' END',
		'priority = least(greatest(priority, 0), 9)',
		'attempts = least(greatest(attempts, 0), 100)',
		'headers = NULL'];
	checks constant text[] := ARRAY[
		'octet_length(key) BETWEEN 1 AND 255',
		'due IN (''-infinity'', ''infinity'') OR due BETWEEN ''1900-01-01 UTC'' AND ''9000-01-01 UTC''',
		'paused_due IN (''-infinity'', ''infinity'')
			OR paused_due BETWEEN ''1900-01-01 UTC'' AND ''9000-01-01 UTC''',
		'occurrence BETWEEN ''1900-01-01 UTC'' AND ''9000-01-01 UTC''',
		'every BETWEEN ''1 ms'' AND ''10 years''
			AND extract(year FROM every) = 0 AND extract(month FROM every) = 0',
		'(cron IS NULL) = (zone IS NULL) AND num_nonnulls(every, cron) < 2',
		'due <> ''-infinity'' OR num_nonnulls(every, cron) = 1',
		'grace BETWEEN ''0'' AND ''1 year''',
		'max_attempts BETWEEN 1 AND 100 AND attempts BETWEEN 0 AND 100',
		'backoff BETWEEN ''1 ms'' AND ''1 hour''',
		'timeout BETWEEN ''1 ms'' AND ''1 day''',
		'queue ~ ''^[A-Za-z0-9_][A-Za-z0-9_.-]{0,49}$''',
		'priority BETWEEN 0 AND 9',
		'jsonb_typeof(headers) = ''object'''];
	names constant text[] := '{key,due,paused,occurrence,every,recurrence,first,grace,attempts,backoff,timeout,queue,priority,headers}';
BEGIN
	EXECUTE format('UPDATE hwheel.job SET state = CASE state WHEN ''done'' THEN state ELSE ''dead'' END, owner = NULL, fence = fence + 1,
			finished_at = clock_timestamp(),
			last_error = ''the row had a value that no function of hwheel writes'', %s
		WHERE ((%s)) IS FALSE', array_to_string(fit, ', '), array_to_string(checks, ') AND ('));
	FOR n IN 1 .. cardinality(checks) LOOP
		EXECUTE format('ALTER TABLE hwheel.job ADD CONSTRAINT job_%s_fits CHECK (%s)',
			names[n], checks[n]);
	END LOOP;
END $$;

-- By job_next a node finds the jobs that are due soon, whatever their queues. If there are many,
-- it goes from queue to queue by job_turn. id > 0 says nothing of a job: it keeps statements that
-- do not say it, and look at one queue, from this index and from job_bell.
DROP INDEX hwheel.job_due;
CREATE INDEX job_next ON hwheel.job (due)
	WHERE state = 'waiting' AND (kind <> 'app' OR due = '-infinity') AND id > 0;
CREATE INDEX job_turn ON hwheel.job (queue, priority, due)
	WHERE state = 'waiting' AND (kind <> 'app' OR due = '-infinity');
-- When applications have to be woken.
CREATE INDEX job_bell ON hwheel.job (due)
	WHERE state = 'waiting' AND kind = 'app' AND due > '-infinity' AND id > 0;
-- No statement that looks for a job by its number can use this one, however empty the
-- statistics say that it is.
DROP INDEX hwheel.job_lease;
CREATE INDEX job_lease ON hwheel.job (lease_until) WHERE lease_until IS NOT NULL;

-- A grant on the table of queues becomes a grant on their gates.
DO $$
DECLARE
	g record;
BEGIN
	FOR g IN SELECT DISTINCT privilege_type AS privilege,
			CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS grantee
		FROM pg_class, aclexplode(relacl) WHERE oid = 'hwheel.queue'::regclass
			AND privilege_type IN ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
	LOOP
		EXECUTE format('GRANT %s ON hwheel.gate TO %s', g.privilege, g.grantee);
	END LOOP;
END $$;

-- What nothing calls any more. A call of an older node that is under way may fail, and is made
-- again.
DROP FUNCTION IF EXISTS hwheel._end_leases(), hwheel._share_queues(),
	hwheel._lock_queues(), hwheel._hold_queues(bigint, text[], timestamptz),
	hwheel._claim_near(bigint, int, text[], text[], timestamptz);

UPDATE hwheel.settings SET version = 5;
