-- The tables of version 1. src/main.rs explains the protocol that uses them, and
-- src/install.rs the numbered files.

CREATE SCHEMA IF NOT EXISTS hwheel;

-- One row. Nodes read it when they start.
CREATE TABLE IF NOT EXISTS hwheel.settings (
	single        boolean  PRIMARY KEY DEFAULT true CHECK (single),
	version       int      NOT NULL,
	window_length interval NOT NULL DEFAULT '10 seconds'
		CHECK (window_length BETWEEN '100 ms' AND '1 hour'),
	lease_length  interval NOT NULL DEFAULT '15 seconds'
		CHECK (lease_length BETWEEN '500 ms' AND '1 hour'),
	payload_limit int      NOT NULL DEFAULT 65536 -- bytes, as text
);

-- A process that runs jobs. Its lease covers all jobs that it owns.
CREATE TABLE IF NOT EXISTS hwheel.node (
	id           bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	name         text        NOT NULL,
	entered_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
	lease_until  timestamptz NOT NULL,
	left_at      timestamptz, -- set when the node leaves or is expelled, for good
	clock_offset interval,    -- the database's clock less the node's
	failed       bigint      NOT NULL DEFAULT 0,
	lateness     bigint[]    NOT NULL DEFAULT '{}' -- a histogram: src/metrics.rs
);

CREATE TABLE IF NOT EXISTS hwheel.job (
	id           bigint      PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
	key          text        NOT NULL,
	-- waiting: no node has it. claimed: it is armed in the wheel of its owner.
	-- running: its owner has started the command or request. done, dead: over.
	state        text        NOT NULL DEFAULT 'waiting'
		CHECK (state IN ('waiting', 'claimed', 'running', 'done', 'dead')),

	-- When: the next attempt, and the run that the attempt is for. A job with a
	-- cron expression is due at -infinity until a node has computed its first run.
	due          timestamptz NOT NULL,
	occurrence   timestamptz NOT NULL,
	every        interval,
	cron         text,
	zone         text,
	missed       text        NOT NULL CHECK (missed IN ('skip', 'once', 'all')),
	grace        interval    NOT NULL,

	-- What.
	kind         text        NOT NULL CHECK (kind IN ('sql', 'command', 'http')),
	target       text        NOT NULL,
	payload      jsonb,
	max_attempts int         NOT NULL,
	backoff      interval    NOT NULL,
	timeout      interval    NOT NULL,

	-- Who: the fence grows with every claim and every change. A node may act on
	-- a job only with the fence that its claim returned.
	owner        bigint,
	fence        bigint      NOT NULL DEFAULT 0,

	-- What happened.
	attempts     int         NOT NULL DEFAULT 0, -- failed ones of this occurrence
	runs         bigint      NOT NULL DEFAULT 0,
	skipped      bigint      NOT NULL DEFAULT 0,
	created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
	fired_at     timestamptz, -- when the last attempt started
	finished_at  timestamptz,
	last_error   text,
	CHECK ((owner IS NOT NULL) = (state IN ('claimed', 'running')))
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE UNIQUE INDEX IF NOT EXISTS job_key ON hwheel.job (key)
	WHERE state IN ('waiting', 'claimed', 'running');
CREATE INDEX IF NOT EXISTS job_due ON hwheel.job (due) WHERE state = 'waiting';
CREATE INDEX IF NOT EXISTS job_owner ON hwheel.job (owner) WHERE owner IS NOT NULL;
CREATE INDEX IF NOT EXISTS job_dead ON hwheel.job (key) WHERE state = 'dead';

INSERT INTO hwheel.settings (version) VALUES (1) ON CONFLICT DO NOTHING;

-- Tells the nodes of a job that is due within the window. The trigger is deferred:
-- the window begins when the transaction commits. The payload is the due time in
-- milliseconds, rounded down to 100, so that PostgreSQL merges the notifications of
-- a transaction.
CREATE OR REPLACE FUNCTION hwheel._announce() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.due < clock_timestamp() + (SELECT window_length FROM hwheel.settings) THEN
		PERFORM pg_notify('hwheel', CASE WHEN NEW.due = '-infinity' THEN '0'
			ELSE (floor(extract(epoch FROM NEW.due) * 10) * 100)::bigint::text END);
	END IF;
	RETURN NULL;
END $$;

DROP TRIGGER IF EXISTS announce ON hwheel.job;
CREATE CONSTRAINT TRIGGER announce AFTER INSERT OR UPDATE OF due ON hwheel.job
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 'waiting')
	EXECUTE FUNCTION hwheel._announce();
