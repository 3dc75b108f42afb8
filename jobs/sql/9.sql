-- The checks of version 9: triggers in place of constraints, and one for texts.

-- PostgreSQL reads and prepares each constraint of a table for each statement that updates the table.
-- For the constraints here, that was half of the work of a take. PostgreSQL prepares a trigger only if
-- the statement sets one of its columns. The condition of a trigger is true only for a row that does
-- not fit, so the function only has to refuse.
CREATE FUNCTION hwheel._refuse_row() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RAISE check_violation USING SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME, CONSTRAINT = TG_NAME,
		MESSAGE = format('new row for relation "%s" violates check constraint "%s"', TG_TABLE_NAME, TG_NAME);
END $$;

DO $$
DECLARE
	name text;
	columns text;
	fits text;
BEGIN
	FOR name, columns, fits IN VALUES
		('kind_check', 'kind', 'NEW.kind IN (''sql'', ''command'', ''http'', ''app'')'),
		('missed_check', 'missed', 'NEW.missed IN (''skip'', ''once'', ''all'')'),
		('key_fits', 'key', 'octet_length(NEW.key) BETWEEN 1 AND 255'),
		('due_fits', 'due', 'NEW.due IN (''-infinity'', ''infinity'')
			OR NEW.due BETWEEN ''1900-01-01 UTC'' AND ''9000-01-01 UTC'''),
		('paused_fits', 'paused_due', 'NEW.paused_due IN (''-infinity'', ''infinity'')
			OR NEW.paused_due BETWEEN ''1900-01-01 UTC'' AND ''9000-01-01 UTC'''),
		('occurrence_fits', 'occurrence',
			'NEW.occurrence BETWEEN ''1900-01-01 UTC'' AND ''9000-01-01 UTC'''),
		('every_fits', 'every', 'NEW.every BETWEEN ''1 ms'' AND ''10 years''
			AND extract(year FROM NEW.every) = 0 AND extract(month FROM NEW.every) = 0'),
		('recurrence_fits', 'every, cron, zone',
			'(NEW.cron IS NULL) = (NEW.zone IS NULL) AND num_nonnulls(NEW.every, NEW.cron) < 2'),
		('first_fits', 'due, every, cron',
			'NEW.due <> ''-infinity'' OR num_nonnulls(NEW.every, NEW.cron) = 1'),
		('grace_fits', 'grace', 'NEW.grace BETWEEN ''0'' AND ''1 year'''),
		('attempts_fits', 'attempts, max_attempts',
			'NEW.max_attempts BETWEEN 1 AND 100 AND NEW.attempts BETWEEN 0 AND 100'),
		('backoff_fits', 'backoff', 'NEW.backoff BETWEEN ''1 ms'' AND ''1 hour'''),
		('timeout_fits', 'timeout', 'NEW.timeout BETWEEN ''1 ms'' AND ''1 day'''),
		('queue_fits', 'queue', 'NEW.queue = ''default'' OR octet_length(NEW.queue) BETWEEN 1 AND 50
			AND left(NEW.queue, 1) NOT IN (''.'', ''-'') AND btrim(NEW.queue,
			''ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-'') = '''''),
		('priority_fits', 'priority', 'NEW.priority BETWEEN 0 AND 9'),
		('headers_fits', 'headers', 'jsonb_typeof(NEW.headers) = ''object'''),
		('tenant_fits', 'tenant', 'octet_length(NEW.tenant) BETWEEN 1 AND 255'),
		('tried_fits', 'tried', 'jsonb_typeof(NEW.tried) = ''array''')
	LOOP
		EXECUTE format('ALTER TABLE hwheel.job DROP CONSTRAINT IF EXISTS job_%s', name);
		EXECUTE format('CREATE TRIGGER job_%s AFTER INSERT OR UPDATE OF %s ON hwheel.job
			FOR EACH ROW WHEN ((%s) IS FALSE) EXECUTE FUNCTION hwheel._refuse_row()', name, columns, fits);
	END LOOP;
END $$;

-- Refuses a text that no node and no worker could read: they use UTF-8, and other encodings have
-- characters that it lacks. A node asks for many rows at once, and gets none if it cannot read one.
CREATE FUNCTION hwheel._refuse_texts() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM convert_to(concat_ws(' ', NEW.key, NEW.cron, NEW.zone, NEW.target, NEW.payload, NEW.run_as,
		NEW.headers, NEW.traceparent, NEW.next, NEW.queue, NEW.tenant, NEW.after_keys, NEW.after_key), 'UTF8');
	RETURN NULL;
END $$;

DO $$ BEGIN
	IF getdatabaseencoding() <> 'UTF8' THEN
		CREATE TRIGGER job_texts_fit AFTER INSERT OR UPDATE OF key, cron, zone, target, payload, run_as,
				headers, traceparent, next, queue, tenant, after_keys, after_key ON hwheel.job
			FOR EACH ROW EXECUTE FUNCTION hwheel._refuse_texts();
	END IF;
END $$;

UPDATE hwheel.settings SET version = 9;
