-- Version 10 refuses rows of queues, and numbers and times of jobs, that no function writes. One such
-- row stopped all nodes.

-- A limit becomes the nearest one that the table accepts. No job can be in a queue whose name does
-- not fit.
DELETE FROM hwheel.queue WHERE name !~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,49}$';
UPDATE hwheel.queue SET max_running = least(greatest(max_running, 1), 100000)
	WHERE max_running NOT BETWEEN 1 AND 100000;
UPDATE hwheel.queue SET max_running_per = least(greatest(max_running_per, 1), 100000)
	WHERE max_running_per NOT BETWEEN 1 AND 100000;
UPDATE hwheel.queue SET rate = least(greatest(rate, 0.001), 100000)
	WHERE rate NOT BETWEEN 0.001 AND 100000;
UPDATE hwheel.queue SET tokens = 1 WHERE tokens NOT BETWEEN 0 AND 100000;
UPDATE hwheel.queue SET last_tenant = NULL WHERE octet_length(last_tenant) NOT BETWEEN 1 AND 255;
-- A node or an application that holds such a job has to claim or take the job again.
UPDATE hwheel.job SET fence = 0, runs = least(greatest(runs, 0), 1000000000000000),
		skipped = least(greatest(skipped, 0), 1000000000000000), losses = least(greatest(losses, 0), 100)
	WHERE fence NOT BETWEEN 0 AND 1000000000000000 OR runs NOT BETWEEN 0 AND 1000000000000000
		OR skipped NOT BETWEEN 0 AND 1000000000000000 OR losses NOT BETWEEN 0 AND 100;
DO $$
DECLARE
	what text;
	name text;
	becomes text;
BEGIN
	FOR what, name, becomes IN VALUES ('queue', 'refilled_at', 'now()'), ('queue', 'paced_at', 'NULL'),
		('queue', 'paused_at', 'now()'), ('job', 'created_at', 'now()'), ('job', 'fired_at', 'now()'),
		('job', 'finished_at', 'now()'), ('job', 'lease_until', 'now()')
	LOOP
		EXECUTE format('UPDATE hwheel.%I SET %I = %s
			WHERE %2$I NOT BETWEEN ''1900-01-01 UTC'' AND ''9000-01-01 UTC''', what, name, becomes);
	END LOOP;
END $$;

CREATE FUNCTION hwheel._refuse_errors() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM convert_to(concat_ws(' ', NEW.last_error, NEW.tried), 'UTF8');
	RETURN NULL;
END $$;

-- As in version 9: a condition that is NULL fits.
DO $$
DECLARE
	what text;
	name text;
	columns text;
	fits text;
	time constant text := 'BETWEEN ''1900-01-01 UTC'' AND ''9000-01-01 UTC''';
	number constant text := 'BETWEEN 0 AND 1000000000000000';
BEGIN
	DROP TRIGGER job_attempts_fits ON hwheel.job;
	FOR what, name, columns, fits IN VALUES
		('job', 'counts_fit', 'runs, skipped, losses, finished_at',
			'NEW.runs ' || number || ' AND NEW.skipped ' || number
			|| ' AND NEW.losses BETWEEN 0 AND 100 AND NEW.finished_at ' || time),
		('job', 'id_fits', 'id', 'NEW.id > 0'),
		('job', 'created_fits', 'created_at', 'NEW.created_at ' || time),
		('job', 'max_attempts_fits', 'max_attempts', 'NEW.max_attempts BETWEEN 1 AND 100'),
		('queue', 'name_fits', 'name', 'NEW.name ~ ''^[A-Za-z0-9_][A-Za-z0-9_.-]{0,49}$'''),
		('queue', 'limits_fit', 'max_running, max_running_per, rate',
			'NEW.max_running BETWEEN 1 AND 100000 AND NEW.max_running_per BETWEEN 1 AND 100000
			AND NEW.rate BETWEEN 0.001 AND 100000'),
		('queue', 'pace_fits', 'tokens, refilled_at, paced_at, paused_at, last_tenant',
			'NEW.tokens BETWEEN 0 AND 100000 AND NEW.refilled_at ' || time || ' AND NEW.paced_at ' || time
			|| ' AND NEW.paused_at ' || time || ' AND octet_length(NEW.last_tenant) BETWEEN 1 AND 255')
	LOOP
		EXECUTE format('CREATE TRIGGER %1$s_%2$s AFTER INSERT OR UPDATE OF %3$s ON hwheel.%1$s
			FOR EACH ROW WHEN ((%4$s) IS FALSE) EXECUTE FUNCTION hwheel._refuse_row()', what, name, columns, fits);
	END LOOP;
END $$;

-- PostgreSQL reads and prepares the condition of each trigger for each statement that inserts a row. For
-- the conditions here, that was a third of the work of schedule(). A function keeps what it has
-- prepared: one has all conditions, and looks at each new row. It also looks at a row in which a column
-- changes that no run changes. The other columns keep their triggers: for a statement that changes many
-- rows a condition costs less than a function.
--
-- Headers are those that schedule() takes. With a wrong Content-Length, a server would take a part of
-- this request for the next one, and another job would get that answer.
--
-- The `next` of a job fits as well. The end of a run writes the `next` of several jobs at once.
--
-- A new job has a number from the sequence. If somebody could choose a later number, the job that gets
-- that number from the sequence could not be scheduled. Only the owner of the table chooses numbers, for
-- example to restore a backup. A backup may be restored without grants. Then nobody may read the
-- sequence, and the function does not look at the number.
CREATE FUNCTION hwheel._refuse_misfit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	misfit pg_catalog.text := hwheel._misfit(NEW);
BEGIN
	IF misfit IS NULL AND NEW.headers IS NOT NULL AND hwheel._headers_error(NEW.headers) IS NOT NULL THEN
		misfit := 'job_headers_fits';
	END IF;
	IF misfit IS NULL AND NEW.next IS NOT NULL THEN
		misfit := hwheel._next_misfit(NEW);
	END IF;
	-- A change may let the highest fence grow.
	IF misfit IS NULL AND TG_OP OPERATOR(pg_catalog.=) 'INSERT'
		AND NEW.fence OPERATOR(pg_catalog.>) 1000000000000000 THEN
		misfit := 'job_run_fits';
	END IF;
	IF misfit IS NULL AND TG_OP OPERATOR(pg_catalog.=) 'INSERT' AND NEW.id OPERATOR(pg_catalog.>)
		(CASE WHEN pg_catalog.has_sequence_privilege('hwheel.job_id_seq'::pg_catalog.regclass::pg_catalog.oid, 'SELECT')
			THEN coalesce(pg_catalog.pg_sequence_last_value('hwheel.job_id_seq'::pg_catalog.regclass), 0) END) THEN
		-- A condition with a query costs more, so it stands by itself.
		IF NOT pg_catalog.pg_has_role((SELECT c.relowner FROM pg_catalog.pg_class c
			WHERE c.oid OPERATOR(pg_catalog.=) TG_RELID), 'USAGE') THEN
			misfit := 'job_id_fits';
		END IF;
	END IF;
	IF misfit IS NOT NULL THEN
		RAISE check_violation USING SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, CONSTRAINT = misfit,
			MESSAGE = pg_catalog.format('new row for relation "%s" violates check constraint "%s"', TG_TABLE_NAME,
				misfit);
	END IF;
	RETURN NEW;
END $$;
GRANT SELECT ON SEQUENCE hwheel.job_id_seq TO PUBLIC;

-- Whether the columns fit that a run changes. A fence that has the highest value still grows: otherwise a
-- row with it would stop each call that claims it with others. The condition is the call of a function,
-- because PostgreSQL reads the text of a condition and of a constraint for each statement. That was a sixth
-- of the work of a take. The function names the schema of everything.
ALTER TABLE hwheel.job DROP CONSTRAINT IF EXISTS job_check,
	DROP CONSTRAINT IF EXISTS job_state_check;
CREATE FUNCTION hwheel._run_fits(state text, owner bigint, attempts int, fence bigint, fired_at timestamptz,
	lease_until timestamptz, fence_before bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RETURN (CASE WHEN owner IS NULL THEN state OPERATOR(pg_catalog.=) ANY ('{waiting,done,dead}'::pg_catalog.text[])
			ELSE state OPERATOR(pg_catalog.=) ANY ('{claimed,running}'::pg_catalog.text[]) END
		AND attempts OPERATOR(pg_catalog.>=) 0 AND attempts OPERATOR(pg_catalog.<=) 100
		AND fence OPERATOR(pg_catalog.>=) 0 AND fence OPERATOR(pg_catalog.<=)
			greatest(1000000000000000, fence_before OPERATOR(pg_catalog.+) 2147483647)
		AND fired_at OPERATOR(pg_catalog.>=) '1900-01-01 00:00:00+00'::pg_catalog.timestamptz
		AND fired_at OPERATOR(pg_catalog.<=) '9000-01-01 00:00:00+00'::pg_catalog.timestamptz
		AND lease_until OPERATOR(pg_catalog.>=) '1900-01-01 00:00:00+00'::pg_catalog.timestamptz
		AND lease_until OPERATOR(pg_catalog.<=) '9000-01-01 00:00:00+00'::pg_catalog.timestamptz) IS NOT FALSE;
END $$;

DO $$
DECLARE
	name text;
	definition text;
	misfits text := ' WHEN NOT hwheel._run_fits(new.state, new.owner, new.attempts, new.fence, new.fired_at,
		new.lease_until, new.fence) THEN ''job_run_fits''';
BEGIN
	-- The new function reads the times in these definitions again.
	PERFORM set_config('DateStyle', 'ISO', true), set_config('IntervalStyle', 'postgres', true),
		set_config('TimeZone', 'UTC', true), set_config('quote_all_identifiers', 'off', true);
	FOR name, definition IN SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger
		WHERE tgrelid = 'hwheel.job'::regclass AND tgfoid = 'hwheel._refuse_row()'::regprocedure
	LOOP
		misfits := misfits || format(' WHEN %s THEN %L',
			substring(definition FROM ' WHEN (\(.*\)) EXECUTE FUNCTION '), name);
		EXECUTE format('DROP TRIGGER %I ON hwheel.job', name);
		IF name IN ('job_counts_fit', 'job_due_fits', 'job_paused_fits', 'job_occurrence_fits',
			'job_first_fits', 'job_tried_fits') THEN
			-- A number of runs that has the highest value still grows, too.
			EXECUTE regexp_replace(replace(definition, ' AFTER INSERT OR UPDATE OF ', ' AFTER UPDATE OF '),
				'new[.](runs|skipped) <= (''[0-9]+''::bigint)', 'new.\1 <= GREATEST(\2, old.\1 + 2147483647)', 'g');
		END IF;
	END LOOP;
	EXECUTE format('CREATE FUNCTION hwheel._misfit(new hwheel.job) RETURNS text LANGUAGE sql IMMUTABLE
		RETURN CASE%s END', misfits);
END $$;
CREATE TRIGGER job_new_fits BEFORE INSERT ON hwheel.job
	FOR EACH ROW EXECUTE FUNCTION hwheel._refuse_misfit();
CREATE TRIGGER job_changed_fits AFTER UPDATE OF id, key, every, cron, zone, missed, grace, kind, max_attempts,
		backoff, timeout, created_at, queue, priority, headers, tenant, next ON hwheel.job
	FOR EACH ROW EXECUTE FUNCTION hwheel._refuse_misfit();

CREATE TRIGGER job_run_fits AFTER UPDATE OF state, owner, attempts, fence, fired_at, lease_until ON hwheel.job
	FOR EACH ROW WHEN (NOT hwheel._run_fits(NEW.state, NEW.owner, NEW.attempts, NEW.fence, NEW.fired_at,
		NEW.lease_until, OLD.fence))
	EXECUTE FUNCTION hwheel._refuse_row();

-- A job with a role runs no more often than a member of the role has said.
DROP TRIGGER check_role_again ON hwheel.job;
CREATE TRIGGER check_role_again
	AFTER UPDATE OF kind, key, target, payload, run_as, every, cron, state, next ON hwheel.job
	FOR EACH ROW WHEN (NEW.run_as IS NOT NULL OR NEW.next IS NOT NULL) EXECUTE FUNCTION hwheel._check_role();

-- PostgreSQL reads these conditions for each statement as well, so they are short. _follow() looks whether a run has ended.
DROP TRIGGER follow ON hwheel.job;
DROP TRIGGER follow_end ON hwheel.job;
CREATE TRIGGER follow AFTER UPDATE ON hwheel.job
	FOR EACH ROW WHEN (NEW.next IS NOT NULL) EXECUTE FUNCTION hwheel._follow();
CREATE TRIGGER follow_end AFTER DELETE ON hwheel.job
	FOR EACH ROW WHEN (OLD.next IS NOT NULL) EXECUTE FUNCTION hwheel._follow();

-- An error is a text as well. The functions store it in characters that UTF-8 has. They use this
-- function, which sql/interface.sql replaces.
CREATE FUNCTION hwheel._readable(error text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM convert_to(error, 'UTF8');
	RETURN error;
EXCEPTION WHEN untranslatable_character THEN
	RETURN encode(convert_to(error, getdatabaseencoding()), 'escape');
END $$;
DO $$ BEGIN
	IF getdatabaseencoding() <> 'UTF8' THEN
		UPDATE hwheel.job SET last_error = hwheel._readable(last_error)
			WHERE last_error <> hwheel._readable(last_error);
		UPDATE hwheel.job SET tried = NULL WHERE tried::text <> hwheel._readable(tried::text);
		CREATE TRIGGER job_errors_fit AFTER INSERT OR UPDATE OF last_error, tried ON hwheel.job
			FOR EACH ROW WHEN (NEW.last_error IS NOT NULL OR NEW.tried IS NOT NULL)
			EXECUTE FUNCTION hwheel._refuse_errors();
	END IF;
END $$;

-- The jobs that applications run have the owner 0. take() counts those of a queue, or of one of its tenants.
DROP INDEX hwheel.job_owner;
DROP INDEX IF EXISTS hwheel.job_tenant_run;
CREATE INDEX job_owner ON hwheel.job (owner, queue, tenant) WHERE owner IS NOT NULL;

-- The fences of a job begin with the time in milliseconds. After the restore of a backup, or the loss of
-- the last commits with a server, a job may get a number that another one had. A node or an application
-- may still hold that one, with a fence that is lower.
ALTER TABLE hwheel.job ALTER COLUMN fence SET DEFAULT date_part('epoch', clock_timestamp()) * 1000;

-- By this index a node finds the jobs that ended long ago. Without the index, its hourly look for them
-- read all live jobs.
CREATE INDEX job_over ON hwheel.job (state, finished_at) WHERE state IN ('done', 'dead');

-- Nothing calls this function any more. If a call of an older node fails, the node repeats the call.
DROP FUNCTION IF EXISTS hwheel._deferrable_writes();

UPDATE hwheel.settings SET version = 10;
