-- The tables of version 4: queues, jobs that applications take, and a history of the jobs
-- that are done.

-- The limits of a queue, and the node that holds them. A queue without a row has no limit.
CREATE TABLE hwheel.queue (
	name        text COLLATE "C" PRIMARY KEY,
	max_running int,    -- runs at once, over all nodes; NULL: no limit
	rate        float8, -- starts per second, over all nodes; NULL: no limit
	paused_at   timestamptz,
	-- The node to which the limits are leased: it alone runs jobs of the queue. A node that
	-- has left holds nothing.
	holder      bigint,
	-- The starts that applications have left.
	tokens      float8      NOT NULL DEFAULT 1,
	refilled_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

ALTER TABLE hwheel.settings
	-- How long a job that is done stays in the history, in days; 0: there is no history.
	ADD COLUMN keep_done interval NOT NULL DEFAULT '7 days'
		CHECK (keep_done BETWEEN '0' AND '30 days'),
	-- How long a dead job stays; NULL: until it is revived or pruned.
	ADD COLUMN keep_dead interval CHECK (keep_dead >= '0');

ALTER TABLE hwheel.node ADD COLUMN version int NOT NULL DEFAULT 1; -- of its program

-- The kind app: an application takes it. Then the job is running, its owner is 0, its fence
-- is the lease, and its attempt is counted.
ALTER TABLE hwheel.job
	ADD COLUMN queue       text COLLATE "C" NOT NULL DEFAULT 'default',
	ADD COLUMN priority    int  NOT NULL DEFAULT 0, -- from 0 to 9; the highest runs first
	ADD COLUMN lease_until timestamptz, -- when the lease of an application ends
	DROP CONSTRAINT job_kind_check,
	ADD CONSTRAINT job_kind_check CHECK (kind IN ('sql', 'command', 'http', 'app')) NOT VALID;

-- Nodes claim by this index, queue by queue. It has jobs of applications, too, until a node
-- has computed their next run.
DROP INDEX hwheel.job_due;
CREATE INDEX job_due ON hwheel.job (queue, due)
	WHERE state = 'waiting' AND (kind <> 'app' OR due = '-infinity');
-- By these indexes applications take jobs, and nodes find leases that have run out.
CREATE INDEX job_app ON hwheel.job (queue, priority, due) WHERE state = 'waiting' AND kind = 'app';
CREATE INDEX job_lease ON hwheel.job (lease_until) WHERE state = 'running' AND kind = 'app';

-- Jobs that are done leave the table of jobs. The partition is the day on which the job
-- ended, modulo 32: a day is emptied at once and leaves no dead rows.
CREATE TABLE hwheel.history (
	id           bigint      NOT NULL,
	key          text        NOT NULL,
	queue        text        COLLATE "C" NOT NULL,
	priority     int         NOT NULL,
	due          timestamptz NOT NULL,
	occurrence   timestamptz NOT NULL,
	kind         text        NOT NULL,
	target       text        NOT NULL,
	payload      jsonb,
	max_attempts int         NOT NULL,
	attempts     int         NOT NULL,
	runs         bigint      NOT NULL,
	skipped      bigint      NOT NULL,
	created_at   timestamptz NOT NULL,
	fired_at     timestamptz,
	finished_at  timestamptz NOT NULL,
	run_as       name,
	traceparent  text,
	slot         int         NOT NULL
) PARTITION BY LIST (slot);
CREATE INDEX history_key ON hwheel.history (key);
DO $$ BEGIN
	FOR slot IN 0..31 LOOP
		EXECUTE format('CREATE TABLE hwheel.history_%s PARTITION OF hwheel.history
			FOR VALUES IN (%s)', slot, slot);
	END LOOP;
END $$;

-- All jobs, with those that are done, without headers, which may be secrets.
CREATE VIEW hwheel.all_jobs AS
	SELECT id, key, queue, priority, state, due, occurrence, every, cron, zone, missed, grace,
		kind, target, payload, max_attempts, backoff, timeout, alone, run_as, owner, attempts,
		runs, skipped, created_at, fired_at, finished_at, last_error, traceparent, paused_due,
		lease_until
	FROM hwheel.job
	UNION ALL
	SELECT id, key, queue, priority, 'done', due, occurrence, NULL, NULL, NULL, NULL, NULL,
		kind, target, payload, max_attempts, NULL, NULL, NULL, run_as, NULL, attempts,
		runs, skipped, created_at, fired_at, finished_at, NULL, traceparent, NULL, NULL
	FROM hwheel.history;

-- Is replaced by sql/node.sql, and keeps its rights.
CREATE FUNCTION hwheel._tend() RETURNS void LANGUAGE sql AS '';
REVOKE EXECUTE ON FUNCTION hwheel._tend() FROM PUBLIC;

-- A grant on the table of jobs becomes a grant on these as well.
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
		EXECUTE format('GRANT %s ON hwheel.queue, hwheel.history TO %s', g.privilege, g.grantee);
		IF g.privilege = 'SELECT' THEN
			EXECUTE format('GRANT SELECT ON hwheel.all_jobs TO %s', g.grantee);
		END IF;
	END LOOP;
	FOR g IN SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS grantee
		FROM pg_class, aclexplode(relacl)
		WHERE oid = 'hwheel.node'::regclass AND privilege_type = 'INSERT'
	LOOP
		EXECUTE format('GRANT EXECUTE ON FUNCTION hwheel._tend() TO %s', g.grantee);
	END LOOP;
END $$;

-- A job that an application takes wakes the applications if it is due, and otherwise the
-- nodes, which wake them later.
CREATE OR REPLACE FUNCTION hwheel._announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.kind = 'app' AND NEW.due <= clock_timestamp() AND NEW.due > '-infinity' THEN
		PERFORM pg_notify('hwheel:' || NEW.queue, '');
	ELSIF NEW.due < clock_timestamp() + (SELECT window_length FROM hwheel.settings) THEN
		PERFORM pg_notify('hwheel', CASE WHEN NEW.due = '-infinity' THEN '0'
			ELSE (floor(extract(epoch FROM NEW.due) * 10) * 100)::bigint::text END);
	END IF;
	RETURN NULL;
END $$;

UPDATE hwheel.settings SET version = 4;
