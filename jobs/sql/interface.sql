-- The functions for users. Each works inside the caller's transaction: what is
-- rolled back never happened. sql/node.sql says why each pins its search_path.

-- The numbers of a field of a cron expression, or what is wrong with it. Letters and digits are
-- those of ASCII, whatever the locale of the database. A range that runs backwards has no
-- number, and a step beyond the range leaves its first.
CREATE OR REPLACE FUNCTION hwheel._cron_numbers(field text, lowest int, highest int, names text[],
	meaning text, OUT numbers int[], OUT problem text)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	item  text COLLATE "C";
	part  text[] COLLATE "C";
	ends  int[];
BEGIN
	numbers := '{}';
	FOREACH item IN ARRAY string_to_array(upper(field COLLATE "C"), ',') LOOP
		part := regexp_match(item, '^(?:[*]|([0-9]+|[A-Z]{3})(?:-([0-9]+|[A-Z]{3}))?)(?:/([0-9]+))?$');
		IF part IS NULL THEN
			problem := format('"%s" is no %s', item, meaning);
			RETURN;
		END IF;
		ends := ARRAY[lowest, highest];
		FOR i IN 1..2 LOOP
			CONTINUE WHEN part[i] IS NULL;
			ends[i] := CASE
				WHEN ltrim(part[i], '0') ~ '^[0-9]{0,4}$' THEN ('0' || ltrim(part[i], '0'))::int
				ELSE array_position(names, part[i]) - 1 + lowest END;
			IF ends[i] IS NULL OR ends[i] NOT BETWEEN lowest AND highest THEN
				problem := format('"%s" is no %s', part[i], meaning);
				RETURN;
			END IF;
		END LOOP;
		IF part[1] IS NOT NULL AND part[2] IS NULL THEN
			ends[2] := ends[1];
			IF part[3] IS NOT NULL THEN
				problem := format('"%s" has a step but no range', item);
				RETURN;
			END IF;
		END IF;
		part[3] := coalesce(ltrim(part[3], '0'), '1');
		IF part[3] = '' THEN
			problem := format('"%s" has a step out of range', item);
			RETURN;
		END IF;
		numbers := numbers || ARRAY(SELECT generate_series(ends[1], ends[2], left(part[3], 4)::int));
	END LOOP;
END $$;

-- Says why a cron expression is wrong, or NULL. Five fields: minute, hour, day of
-- the month, month, day of the week; each a list of *, N or N-N, the first and the
-- last with /step; names of months and days. Or @hourly and the like. The nodes compute
-- the times (src/cron.rs); a test checks that they accept what this accepts, and that it means
-- what it means to Debian's cron.
CREATE OR REPLACE FUNCTION hwheel._cron_error(cron text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	fields  text[] COLLATE "C" := hwheel._cron_fields(cron);
	minutes record;
	hours   record;
	days    record;
	months  record;
	week    record;
	problem text;
BEGIN
	IF upper(fields[1]) IN ('@YEARLY', '@ANNUALLY', '@MONTHLY', '@WEEKLY', '@DAILY', '@MIDNIGHT',
		'@HOURLY') AND cardinality(fields) = 1 THEN
		RETURN NULL;
	ELSIF cardinality(fields) <> 5 THEN
		RETURN format('it has %s fields instead of five', cardinality(fields));
	END IF;
	minutes := hwheel._cron_numbers(fields[1], 0, 59, '{}', 'minute');
	hours := hwheel._cron_numbers(fields[2], 0, 23, '{}', 'hour');
	days := hwheel._cron_numbers(fields[3], 1, 31, '{}', 'day of the month');
	months := hwheel._cron_numbers(fields[4], 1, 12,
		'{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}', 'month');
	week := hwheel._cron_numbers(fields[5], 0, 7, '{SUN,MON,TUE,WED,THU,FRI,SAT}',
		'day of the week');
	problem := coalesce(minutes.problem, hours.problem, days.problem, months.problem, week.problem);
	IF problem IS NOT NULL THEN
		RETURN problem;
	END IF;
	-- A day of the week comes in every month, and so a date comes on each day of the week.
	IF minutes.numbers = '{}' OR hours.numbers = '{}' OR months.numbers = '{}' OR (CASE
		WHEN week.numbers = '{}' AND (fields[3] ~ '^[*]' OR fields[5] ~ '^[*]') THEN true
		WHEN week.numbers <> '{}' AND fields[3] !~ '^[*]' AND fields[5] !~ '^[*]' THEN false
		ELSE NOT EXISTS (SELECT FROM unnest(days.numbers) day, unnest(months.numbers) month
			WHERE day <= ('{31,29,31,30,31,30,31,31,30,31,30,31}'::int[])[month]) END) THEN
		RETURN 'it never occurs';
	END IF;
	RETURN NULL;
END $$;

-- The fields of a cron expression. Only the white space of ASCII divides them.
CREATE OR REPLACE FUNCTION hwheel._cron_fields(cron text) RETURNS text[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
	SELECT string_to_array(btrim(regexp_replace(cron, E'[ \t\n\r\f]+', ' ', 'g')), ' ');
$$;

-- The time zones for cron expressions. The server has others, which no node knows.
CREATE OR REPLACE FUNCTION hwheel._zones() RETURNS SETOF text LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp AS $$
	SELECT name FROM pg_timezone_names WHERE name !~ '^(posix|right)/'
		AND name NOT IN ('Factory', 'localtime', 'posixrules');
$$;

CREATE OR REPLACE FUNCTION hwheel._check_zone(zone text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	node text;
BEGIN
	IF zone NOT IN (SELECT hwheel._zones()) THEN
		PERFORM hwheel._refuse(format('there is no time zone "%s"', zone));
	END IF;
	SELECT name INTO node FROM hwheel.node WHERE left_at IS NULL AND zone = ANY (unknown_zones);
	IF FOUND THEN
		PERFORM hwheel._refuse(format('the node "%s" does not know the time zone "%s"', node, zone));
	END IF;
END $$;

-- Says why a request cannot have these headers, or NULL. Messages have no text of one. The names
-- are ASCII, whatever the locale of the database.
CREATE OR REPLACE FUNCTION hwheel._headers_error(headers jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	header record;
BEGIN
	IF headers IS NULL THEN
		RETURN NULL;
	ELSIF jsonb_typeof(headers) <> 'object' THEN
		RETURN 'headers are an object with names and texts';
	ELSIF octet_length(headers::text) > 8192 THEN
		RETURN 'the headers have more than 8192 bytes';
	END IF;
	FOR header IN SELECT key AS name, value, value #>> '{}' AS text FROM jsonb_each(headers) LOOP
		IF header.name !~ '^[A-Za-z0-9!#$%&''*+.^_`|~-]+$' THEN
			RETURN format('"%s" is no name of a header', header.name);
		ELSIF lower(header.name COLLATE "C") IN ('host', 'connection', 'content-length', 'transfer-encoding',
			'expect', 'upgrade', 'te', 'trailer', 'idempotency-key', 'traceparent', 'hwheel-due',
			'hwheel-attempt') THEN
			RETURN format('the header "%s" is set by the node', header.name);
		ELSIF jsonb_typeof(header.value) <> 'string' OR header.text !~ '^[ -~]*$' THEN
			RETURN format('the header "%s" is no text of ASCII', header.name);
		END IF;
	END LOOP;
	IF (SELECT count(*) <> count(DISTINCT lower(name COLLATE "C")) FROM jsonb_object_keys(headers) name) THEN
		RETURN 'a header has two texts';
	END IF;
	RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION hwheel._refuse(message text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RAISE EXCEPTION 'hwheel: %', message USING ERRCODE = 'invalid_parameter_value';
END $$;

-- Refuses to write jobs in a session without triggers. There a job that is scheduled while its run is under
-- way would be lost at the end of that run, and no trigger would check new jobs.
CREATE OR REPLACE FUNCTION hwheel._need_triggers() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RAISE object_not_in_prerequisite_state USING
		MESSAGE = 'hwheel: session_replication_role is replica, so the triggers of the jobs are off',
		HINT = 'SET session_replication_role = origin';
END $$;

-- Refuses a text that no node and no worker could read: they use UTF-8, and other encodings have
-- characters that it lacks.
CREATE OR REPLACE FUNCTION hwheel._check_texts(texts text[]) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT convert_to(t, 'UTF8') FROM unnest(texts) t;
$$;

-- The text of an error in characters that nodes, workers and the program can read. A character that
-- UTF-8 lacks shows as bytes.
CREATE OR REPLACE FUNCTION hwheel._readable(error text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF getdatabaseencoding() <> 'UTF8' THEN
		PERFORM convert_to(error, 'UTF8');
	END IF;
	RETURN error;
EXCEPTION WHEN untranslatable_character THEN
	RETURN encode(convert_to(error, getdatabaseencoding()), 'escape');
END $$;

-- A due time has to be finite. One in the past means now: the clocks of clients differ.
CREATE OR REPLACE FUNCTION hwheel._due_time(INOUT due timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF due IS NULL OR NOT isfinite(due) OR due > '4999-01-01' THEN
		PERFORM hwheel._refuse(format('%s is no due time', coalesce(due::text, 'NULL')));
	END IF;
	due := greatest(due, now());
END $$;

-- Notifies, if there is room. The server has one queue of notifications for all databases, and
-- keeps it while somebody who listens has a transaction open. If it is full each commit fails
-- that notifies. Nodes and applications look by themselves, too, so a notification may be
-- missing.
CREATE OR REPLACE FUNCTION hwheel._notify(channel text, payload text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT pg_notify(channel, payload) WHERE pg_notification_queue_usage() <= 0.5;
$$;

-- Tells a node that a job is no longer its own. Correctness does not need it: the
-- fence has changed.
CREATE OR REPLACE FUNCTION hwheel._revoke(owner bigint, id bigint, fence bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	SELECT hwheel._notify('hwheel_' || owner, id || ' ' || fence) WHERE owner IS NOT NULL;
$$;

-- Tells the nodes that jobs may end for which others wait, when the transaction commits. For each key it
-- names one job that waits: a key may be a secret, and whoever may connect can listen. A node looks
-- by itself, too. A call costs more than to ask before whether any job waits for others.
CREATE OR REPLACE FUNCTION hwheel._tell_followers(ids bigint[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	keys constant text[] := ARRAY(SELECT j.key FROM hwheel.job j WHERE j.id = ANY (ids));
BEGIN
	IF EXISTS (SELECT FROM hwheel.job f WHERE f.after_keys && keys) THEN
		PERFORM hwheel._notify('hwheel', 'after ' || f.id) FROM unnest(keys) k, LATERAL (
			SELECT f.id FROM hwheel.job f WHERE f.after_keys @> ARRAY[k] LIMIT 1) f;
	END IF;
END $$;

-- Whether a job of a key is still to run.
CREATE OR REPLACE FUNCTION hwheel._is_live(key text) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RETURN EXISTS (SELECT FROM hwheel.job j WHERE j.key = _is_live.key
		AND j.state IN ('waiting', 'claimed', 'running'));
END $$;

-- Tells the nodes of a job that is due within the window. The trigger is deferred: the window
-- begins when the transaction commits. The payload is the due time in milliseconds, rounded
-- down to 100, so that PostgreSQL merges the notifications of a transaction. A job that an
-- application takes wakes the applications if it is due, and otherwise the nodes, which wake
-- them later. A job that waits for others makes the nodes look whether it still has to wait. If the key
-- that it waits for has no job any more, the payload names the job that waits.
CREATE OR REPLACE FUNCTION hwheel._announce() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF pg_notification_queue_usage() > 0.5 THEN -- See _notify().
	ELSIF NEW.kind = 'app' AND NEW.due <= clock_timestamp() AND NEW.due > '-infinity' THEN
		PERFORM pg_notify('hwheel:' || NEW.queue, '');
	ELSIF NEW.after_key IS NOT NULL THEN
		PERFORM pg_notify('hwheel', CASE WHEN hwheel._is_live(NEW.after_key) THEN '0' ELSE 'after ' || NEW.id END);
	ELSIF NEW.due < clock_timestamp() + (SELECT window_length FROM hwheel.settings) THEN
		PERFORM pg_notify('hwheel', CASE WHEN NEW.due = '-infinity' THEN '0'
			ELSE (floor(extract(epoch FROM NEW.due) * 10) * 100)::bigint::text END);
	END IF;
	RETURN NULL;
END $$;

-- The full name of a function for jobs, so that the caller's search_path decides which one it
-- is, and not a node's.
CREATE OR REPLACE FUNCTION hwheel._full_name(function text) RETURNS text
LANGUAGE plpgsql STRICT AS $$
DECLARE
	found_name pg_catalog.text := (SELECT pg_catalog.format('%I.%I', n.nspname, p.proname)
		FROM pg_catalog.pg_proc p
		JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.pronamespace
		WHERE p.oid OPERATOR(pg_catalog.=) pg_catalog.to_regprocedure(pg_catalog.concat(function,
				'(pg_catalog.text, pg_catalog.timestamptz, pg_catalog.jsonb)'))::pg_catalog.oid
			AND p.prokind OPERATOR(pg_catalog.=) 'f');
BEGIN
	IF found_name IS NULL THEN
		PERFORM hwheel._refuse(pg_catalog.format(
			'there is no function %s(text, timestamptz, jsonb)', function));
	END IF;
	RETURN found_name;
END $$;

-- A run has ended, and its job was scheduled or moved meanwhile: it becomes what it was scheduled
-- as. What the run left of it, as a dead job, stays. It runs as the owner of the schema:
-- _check_role() has looked at `next` when that was written. So it serves the table of jobs alone.
-- Somebody else may have written the rows of another table, and the casts of their type.
CREATE OR REPLACE FUNCTION hwheel._follow() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	plan hwheel.job;
BEGIN
	IF TG_RELID <> 'hwheel.job'::regclass THEN
		RAISE insufficient_privilege USING MESSAGE = 'hwheel: this trigger is for the table of jobs';
	ELSIF OLD.state <> 'running' OR TG_OP = 'UPDATE' AND NEW.state = 'running' THEN
		RETURN NULL;
	END IF;
	plan := hwheel._becomes(OLD);
	IF OLD.paused_due IS NOT NULL THEN
		plan.paused_due := plan.due;
		plan.due := 'infinity';
	END IF;
	IF TG_OP = 'UPDATE' AND NEW.state NOT IN ('done', 'dead') THEN
		UPDATE hwheel.job SET due = plan.due, paused_due = plan.paused_due,
			occurrence = plan.occurrence, every = plan.every, cron = plan.cron, zone = plan.zone,
			missed = plan.missed, grace = plan.grace, kind = plan.kind, target = plan.target,
			payload = plan.payload, max_attempts = plan.max_attempts, backoff = plan.backoff,
			timeout = plan.timeout, alone = plan.alone, run_as = plan.run_as, headers = plan.headers,
			traceparent = plan.traceparent, queue = plan.queue, priority = plan.priority,
			tenant = plan.tenant, after_keys = plan.after_keys, after_key = plan.after_key, tried = NULL,
			state = 'waiting', owner = NULL, fence = fence + 1, attempts = 0, losses = 0,
			fired_at = NULL, lease_until = NULL, last_error = NULL, next = NULL
		WHERE id = OLD.id;
		PERFORM hwheel._revoke(NEW.owner, NEW.id, NEW.fence);
		RETURN NULL;
	ELSIF TG_OP = 'UPDATE' THEN
		UPDATE hwheel.job SET next = NULL WHERE id = OLD.id;
	END IF;
	INSERT INTO hwheel.job (key, due, paused_due, occurrence, every, cron, zone, missed, grace,
		kind, target, payload, max_attempts, backoff, timeout, alone, run_as, headers,
		traceparent, queue, priority, tenant, after_keys, after_key)
	VALUES (OLD.key, plan.due, plan.paused_due, plan.occurrence, plan.every, plan.cron, plan.zone,
		plan.missed, plan.grace, plan.kind, plan.target, plan.payload, plan.max_attempts, plan.backoff,
		plan.timeout, plan.alone, plan.run_as, plan.headers, plan.traceparent, plan.queue, plan.priority,
		plan.tenant, plan.after_keys, plan.after_key);
	RETURN NULL;
END $$;
-- Otherwise anybody may make it the trigger of a table.
REVOKE EXECUTE ON FUNCTION hwheel._follow() FROM PUBLIC;

-- The last ten attempts that failed, with one more.
CREATE OR REPLACE FUNCTION hwheel._tried(tried jsonb, began timestamptz, said text) RETURNS jsonb
LANGUAGE sql STABLE
	RETURN CASE WHEN jsonb_array_length(tried) >= 10 THEN tried - 0 ELSE coalesce(tried, '[]') END
		|| jsonb_build_array(jsonb_build_object('began', began, 'ended', clock_timestamp(),
			'said', left(said, 1000)));

-- Whether a job ends with its run, because somebody has cancelled it, and nobody has scheduled it
-- again since. A job that does not run is deleted soon.
CREATE OR REPLACE FUNCTION hwheel._is_over(job hwheel.job) RETURNS boolean LANGUAGE sql STABLE
	RETURN (job).next IS NULL AND EXISTS (SELECT FROM hwheel.stop s WHERE s.id = (job).id);

-- Says why a job cannot wait for the jobs of these keys, or NULL.
CREATE OR REPLACE FUNCTION hwheel._after_error(key text, keys text[]) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	wrong text;
BEGIN
	IF cardinality(keys) > 1000 THEN
		RETURN format('after has %s keys, more than 1000', cardinality(keys));
	ELSIF array_position(keys, NULL) IS NOT NULL THEN
		RETURN 'after has a key that is NULL';
	ELSIF key = ANY (keys) THEN
		RETURN format('the job "%s" cannot wait for itself', key);
	END IF;
	SELECT left(k, 50) INTO wrong FROM unnest(keys) k WHERE octet_length(k) NOT BETWEEN 1 AND 255 LIMIT 1;
	IF FOUND THEN
		RETURN format('after has "%s", and a key has 1 to 255 bytes', wrong);
	END IF;
	-- If a run is under way, the job as it is scheduled for the time after that run counts.
	SELECT k INTO wrong FROM unnest(keys) k, LATERAL (SELECT FROM hwheel.job j
		WHERE j.key = k AND j.state IN ('waiting', 'claimed', 'running')
			AND CASE WHEN j.next ? 'kind' THEN num_nonnulls(j.next ->> 'every', j.next ->> 'cron')
				ELSE num_nonnulls(j.every, j.cron) END > 0
			AND NOT hwheel._is_over(j) OFFSET 0) j LIMIT 1; -- No join: see take().
	IF FOUND THEN
		RETURN format('the job "%s" recurs, so it does not end', wrong);
	END IF;
	RETURN NULL;
END $$;

-- schedule() without the defaults. `sql` is a full name.
CREATE OR REPLACE FUNCTION hwheel._schedule(
	key          text,
	due          timestamptz,
	sql          text,
	command      text,
	http         text,
	payload      jsonb,
	every        interval,
	cron         text,
	zone         text,
	missed       text,
	grace        interval,
	max_attempts int,
	backoff      interval,
	timeout      interval,
	if_exists    text,
	alone        boolean,
	run_as       name,
	headers      jsonb,
	traceparent  text,
	queue        text,
	priority     int,
	tenant       text,
	after        text[]
) RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	first   timestamptz := _schedule.due;
	new_due timestamptz;
	target  text := coalesce(_schedule.sql, _schedule.command, _schedule.http, '');
	is_app  boolean := _schedule.queue IS NOT NULL
		AND num_nonnulls(_schedule.sql, _schedule.command, _schedule.http) = 0;
	maximum int := (SELECT payload_limit FROM hwheel.settings);
	problem text;
	old     hwheel.job;
	is_over boolean;
	becomes jsonb;
	new_id  bigint;
	others  text[]; -- the keys of the jobs that it waits for
	trace   text := coalesce(_schedule.traceparent,
		nullif(current_setting('hwheel.traceparent', true), ''));
BEGIN
	IF current_setting('session_replication_role') = 'replica' THEN
		PERFORM hwheel._need_triggers();
	ELSIF _schedule.key IS NULL OR octet_length(_schedule.key) NOT BETWEEN 1 AND 255 THEN
		PERFORM hwheel._refuse('a key has 1 to 255 bytes');
	ELSIF num_nonnulls(_schedule.sql, _schedule.command, _schedule.http) <> 1 AND NOT is_app THEN
		PERFORM hwheel._refuse('a job is one of sql, command and http, or has a queue');
	ELSIF _schedule.priority IS NULL OR _schedule.priority NOT BETWEEN 0 AND 9 THEN
		PERFORM hwheel._refuse('priority is from 0 to 9');
	ELSIF is_app AND _schedule.missed = 'skip' THEN
		PERFORM hwheel._refuse('missed => ''skip'' needs sql, command or http');
	ELSIF num_nonnulls(_schedule.every, _schedule.cron) > 1 THEN
		PERFORM hwheel._refuse('a job has every or cron, not both');
	ELSIF octet_length(_schedule.payload::text) > maximum THEN
		PERFORM hwheel._refuse(format('the payload has %s bytes, more than %s',
			octet_length(_schedule.payload::text), maximum));
	ELSIF _schedule.missed IS NULL OR _schedule.missed NOT IN ('skip', 'once', 'all') THEN
		PERFORM hwheel._refuse(format('missed is "%s", not skip, once or all', _schedule.missed));
	ELSIF _schedule.missed <> 'once' AND num_nonnulls(_schedule.every, _schedule.cron) = 0 THEN
		PERFORM hwheel._refuse('missed needs every or cron');
	ELSIF _schedule.grace IS NULL OR _schedule.grace NOT BETWEEN '0' AND '1 year' THEN
		PERFORM hwheel._refuse('grace is from 0 to 1 year');
	ELSIF _schedule.max_attempts IS NULL OR _schedule.max_attempts NOT BETWEEN 1 AND 100 THEN
		PERFORM hwheel._refuse('max_attempts is from 1 to 100');
	ELSIF _schedule.backoff IS NULL OR _schedule.backoff NOT BETWEEN '1 ms' AND '1 hour' THEN
		PERFORM hwheel._refuse('backoff is from 1 ms to 1 hour');
	ELSIF _schedule.timeout IS NULL OR _schedule.timeout NOT BETWEEN '1 ms' AND '1 day' THEN
		PERFORM hwheel._refuse('timeout is from 1 ms to 1 day');
	ELSIF _schedule.http !~ '^https?://[!-.0-~][!-~]*$' THEN
		PERFORM hwheel._refuse(format('"%s" is no URL of http or https', _schedule.http));
	ELSIF substring(_schedule.http FROM '^https?://[^/?#]*:([^]:@/?#]+)(?:[/?#]|$)')
		!~ '^(?!0+$)0*([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$' THEN
		PERFORM hwheel._refuse(format('"%s" has a port that is not from 1 to 65535', _schedule.http));
	ELSIF btrim(target) = '' AND NOT is_app THEN
		PERFORM hwheel._refuse('the command is empty');
	ELSIF _schedule.zone IS NOT NULL AND _schedule.cron IS NULL THEN
		PERFORM hwheel._refuse('a zone needs cron');
	ELSIF _schedule.if_exists IS NULL OR _schedule.if_exists NOT IN ('replace', 'keep', 'keep_time') THEN
		PERFORM hwheel._refuse(format('if_exists is "%s", not replace, keep or keep_time',
			_schedule.if_exists));
	ELSIF _schedule.alone IS NULL OR (_schedule.alone OR _schedule.run_as IS NOT NULL)
		AND _schedule.sql IS NULL THEN
		PERFORM hwheel._refuse('alone and run_as need sql');
	ELSIF _schedule.headers IS NOT NULL AND _schedule.http IS NULL THEN
		PERFORM hwheel._refuse('headers need http');
	ELSIF _schedule.tenant IS NOT NULL AND NOT is_app THEN
		PERFORM hwheel._refuse('only a job that an application takes has a tenant: one with a '
			'queue, and without sql, command and http');
	ELSIF octet_length(_schedule.tenant) NOT BETWEEN 1 AND 255 THEN
		PERFORM hwheel._refuse('a tenant has 1 to 255 bytes');
	ELSIF trace !~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$' THEN
		IF _schedule.traceparent IS NOT NULL THEN
			PERFORM hwheel._refuse(format('"%s" is no traceparent', trace));
		END IF;
		trace := NULL; -- The caller may not know of the setting.
	END IF;
	-- A call that has nothing to do would be a tenth of the work.
	IF NOT hwheel._is_queue(_schedule.queue) THEN
		PERFORM hwheel._check_queue(_schedule.queue);
	END IF;
	IF getdatabaseencoding() <> 'UTF8' THEN
		PERFORM hwheel._check_texts(ARRAY[_schedule.key, target, _schedule.payload::text, _schedule.headers::text,
			_schedule.tenant] || _schedule.after);
	END IF;
	IF _schedule.headers IS NOT NULL THEN
		problem := hwheel._headers_error(_schedule.headers);
		IF problem IS NOT NULL THEN
			PERFORM hwheel._refuse(problem);
		END IF;
	END IF;
	IF _schedule.after IS NOT NULL THEN
		IF num_nonnulls(_schedule.every, _schedule.cron) > 0 THEN
			PERFORM hwheel._refuse('a job with after has neither every nor cron');
		END IF;
		problem := hwheel._after_error(_schedule.key, _schedule.after);
		IF problem IS NOT NULL THEN
			PERFORM hwheel._refuse(problem);
		END IF;
		others := nullif(ARRAY(SELECT DISTINCT unnest(_schedule.after)), '{}');
		first := coalesce(first, now());
	END IF;

	IF _schedule.cron IS NOT NULL THEN
		problem := hwheel._cron_error(_schedule.cron);
		IF problem IS NOT NULL THEN
			PERFORM hwheel._refuse(format('the cron expression "%s": %s', _schedule.cron, problem));
		END IF;
		IF _schedule.zone IS NOT NULL THEN
			PERFORM hwheel._check_zone(_schedule.zone);
		END IF;
		first := coalesce(first, now());
	ELSIF _schedule.every IS NOT NULL THEN
		IF NOT _schedule.every BETWEEN '1 ms' AND '10 years'
			OR extract(year FROM _schedule.every) <> 0 OR extract(month FROM _schedule.every) <> 0 THEN
			PERFORM hwheel._refuse(format(
				'every is %s, not 1 ms to 3600 days without months and years', _schedule.every));
		END IF;
		first := coalesce(first, now() + make_interval(secs => extract(epoch FROM _schedule.every)::float8));
	END IF;
	IF first IS NULL THEN
		PERFORM hwheel._refuse('a job needs due, every, cron or after');
	END IF;
	first := hwheel._due_time(first);
	new_due := CASE WHEN others IS NOT NULL THEN 'infinity' WHEN _schedule.cron IS NULL THEN first
		ELSE '-infinity' END;

	LOOP
		-- To keep a job does not wait for its function.
		IF _schedule.if_exists = 'keep' THEN
			SELECT id INTO new_id FROM hwheel.job j
				WHERE key = _schedule.key AND state IN ('waiting', 'claimed', 'running')
					AND NOT hwheel._is_over(j);
			IF FOUND THEN
				RETURN new_id;
			END IF;
		END IF;
		SELECT * INTO old FROM hwheel.job
			WHERE key = _schedule.key AND state IN ('waiting', 'claimed', 'running') FOR UPDATE;
		is_over := old.id IS NOT NULL AND hwheel._is_over(old);
		IF is_over AND old.state <> 'running' THEN
			DELETE FROM hwheel.job WHERE id = old.id;
			PERFORM hwheel._revoke(old.owner, old.id, old.fence);
			old := NULL;
		END IF;
		IF old.id IS NOT NULL AND NOT is_over AND _schedule.if_exists = 'keep_time' AND old.every IS NOT DISTINCT FROM _schedule.every
			AND old.cron IS NOT DISTINCT FROM _schedule.cron AND (_schedule.cron IS NULL
				OR old.zone = coalesce(_schedule.zone, 'UTC')) THEN
			IF old.state <> 'running' THEN
				first := old.occurrence;
				new_due := CASE WHEN others IS NOT NULL THEN 'infinity'
					WHEN old.after_key IS NOT NULL THEN greatest(first, now())
					ELSE coalesce(old.paused_due, old.due) END;
			ELSIF _schedule.every IS NOT NULL THEN
				first := greatest(now(), old.occurrence
					+ make_interval(secs => extract(epoch FROM _schedule.every)::float8));
				new_due := first;
			ELSIF _schedule.cron IS NULL THEN
				-- Its time is that of the run.
				RETURN old.id;
			END IF;
		END IF;
		IF old.state = 'running' AND (is_over OR _schedule.if_exists <> 'keep') THEN
			becomes := jsonb_build_object('due', new_due, 'occurrence', first,
				'every', _schedule.every, 'cron', _schedule.cron,
				'zone', CASE WHEN _schedule.cron IS NOT NULL THEN coalesce(_schedule.zone, 'UTC') END,
				'missed', _schedule.missed, 'grace', _schedule.grace,
				'kind', CASE WHEN _schedule.sql IS NOT NULL THEN 'sql'
					WHEN _schedule.command IS NOT NULL THEN 'command'
					WHEN _schedule.http IS NOT NULL THEN 'http' ELSE 'app' END,
				'target', target, 'payload', _schedule.payload,
				'max_attempts', _schedule.max_attempts, 'backoff', _schedule.backoff,
				'timeout', _schedule.timeout, 'alone', _schedule.alone, 'run_as', _schedule.run_as,
				'headers', _schedule.headers, 'traceparent', trace,
				'queue', coalesce(_schedule.queue, 'default'), 'priority', _schedule.priority,
				'tenant', _schedule.tenant, 'after_keys', others, 'after_key', others[1]);
			UPDATE hwheel.job SET next = becomes WHERE id = old.id;
			RETURN old.id;
		END IF;
		INSERT INTO hwheel.job AS j (key, due, occurrence, every, cron, zone, missed, grace,
			kind, target, payload, max_attempts, backoff, timeout, alone, run_as, headers,
			traceparent, queue, priority, tenant, after_keys, after_key)
		VALUES (_schedule.key, new_due, first, _schedule.every, _schedule.cron,
			CASE WHEN _schedule.cron IS NOT NULL THEN coalesce(_schedule.zone, 'UTC') END,
			_schedule.missed, _schedule.grace,
			CASE WHEN _schedule.sql IS NOT NULL THEN 'sql'
				WHEN _schedule.command IS NOT NULL THEN 'command'
				WHEN _schedule.http IS NOT NULL THEN 'http' ELSE 'app' END,
			target, _schedule.payload, _schedule.max_attempts, _schedule.backoff, _schedule.timeout,
			_schedule.alone, _schedule.run_as, _schedule.headers, trace,
			coalesce(_schedule.queue, 'default'), _schedule.priority, _schedule.tenant, others, others[1])
		ON CONFLICT (key) WHERE state IN ('waiting', 'claimed', 'running') DO UPDATE SET
			-- A job that is paused stays so: an application may register it at each start.
			due = CASE WHEN j.paused_due IS NULL THEN excluded.due ELSE 'infinity' END,
			paused_due = CASE WHEN j.paused_due IS NOT NULL THEN excluded.due END,
			occurrence = excluded.occurrence, every = excluded.every,
			cron = excluded.cron, zone = excluded.zone, missed = excluded.missed,
			grace = excluded.grace, kind = excluded.kind, target = excluded.target,
			payload = excluded.payload, max_attempts = excluded.max_attempts,
			backoff = excluded.backoff, timeout = excluded.timeout, alone = excluded.alone,
			run_as = excluded.run_as, headers = excluded.headers,
			traceparent = excluded.traceparent, queue = excluded.queue,
			priority = excluded.priority, tenant = excluded.tenant, after_keys = excluded.after_keys,
			after_key = excluded.after_key, tried = NULL, state = 'waiting', owner = NULL, fence = j.fence + 1,
			attempts = 0, losses = 0, last_error = NULL, fired_at = NULL, lease_until = NULL
		-- Otherwise somebody else has just scheduled it: look again.
		WHERE (_schedule.if_exists = 'replace' OR _schedule.if_exists = 'keep_time' AND old.id = j.id)
			AND j.state <> 'running'
		RETURNING id INTO new_id;
		EXIT WHEN new_id IS NOT NULL;
	END LOOP;
	IF old.owner IS NOT NULL THEN
		PERFORM hwheel._revoke(old.owner, old.id, old.fence);
	END IF;
	RETURN new_id;
END $$;

-- Schedules a job. Returns its id.
--
-- if_exists says what happens to a job that has this key and is still to run:
-- replace    it becomes the new job
-- keep       it stays as it is
-- keep_time  it becomes the new job, but its time stays, unless every, cron or zone
--            change. A run that has started counts as made.
-- While a run of the job is under way it is not stopped: the job becomes the new one when the
-- run has ended, and the new time counts from then on. So a key has one run at a time.
--
-- when:  due                    once
--        every [, due]          at due (by default after one interval), and so on
--        cron [, zone] [, due]  first at due or later; zone is UTC by default
--        after [, due]          once, at due or later, when no job with one of these keys, 1000 at
--                               most, is still to run. A job that recurs is refused. Jobs that wait
--                               for each other wait until one of them is cancelled, moved, or
--                               scheduled anew.
-- what:  sql       the name of a function (key text, due timestamptz, payload jsonb)
--        command   for /bin/sh -c, with the payload on its standard input
--        http      a URL; the payload is sent to it as JSON by POST
-- how:   alone     the function gets a transaction of its own
--        run_as    the role whose rights the function has; see allow_role()
--        headers   of the request: '{"Authorization": "Bearer ..."}'
--        traceparent  the trace that the job belongs to, by default the setting
--                  hwheel.traceparent. A request gets it as a header, a command as the
--                  variable TRACEPARENT, a function as that setting.
--        queue     whose limits the job keeps: see set_queue(). With a queue and without
--                  sql, command and http, an application takes the job: see take().
--        priority  from 0 to 9; of the jobs of a queue that are due, the highest runs first
--        tenant    of a job that an application takes: see max_running_per of set_queue()
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
	timeout      interval    DEFAULT '1 minute',
	if_exists    text        DEFAULT 'replace',
	alone        boolean     DEFAULT false,
	run_as       name        DEFAULT NULL,
	headers      jsonb       DEFAULT NULL,
	traceparent  text        DEFAULT NULL,
	queue        text        DEFAULT NULL,
	priority     int         DEFAULT 0,
	tenant       text        DEFAULT NULL,
	after        text[]      DEFAULT NULL
) RETURNS bigint LANGUAGE sql
	-- The collation is that of the index. A name, as of run_as, would bring that of names.
	RETURN hwheel._schedule(key COLLATE "default", due, hwheel._full_name(sql), command, http,
		payload, every, cron, zone, missed, grace, max_attempts, backoff, timeout, if_exists, alone,
		run_as, headers, traceparent, queue, priority, tenant, after COLLATE "default");

-- Moves a job. Returns false if no job that is still to run has the key. A
-- recurrence goes on from the new time: an interval from there, cron after it.
-- A run that is under way is not stopped: the new time counts after its end. A job that waits for
-- others waits for none any more.
CREATE OR REPLACE FUNCTION hwheel.move(key text, due timestamptz) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	wanted constant text COLLATE "default" := move.key; -- The collation is that of the index.
	old hwheel.job;
BEGIN
	move.due := hwheel._due_time(move.due);
	SELECT * INTO old FROM hwheel.job
		WHERE key = wanted AND state IN ('waiting', 'claimed', 'running') FOR UPDATE;
	IF NOT FOUND OR hwheel._is_over(old) THEN
		RETURN false;
	ELSIF old.state = 'running' THEN
		UPDATE hwheel.job SET next = coalesce(next, '{}')
			|| jsonb_build_object('due', move.due, 'occurrence', move.due, 'after_keys', NULL, 'after_key', NULL)
			WHERE id = old.id;
		RETURN true;
	END IF;
	UPDATE hwheel.job SET occurrence = move.due, state = 'waiting',
		due = CASE WHEN paused_due IS NULL THEN move.due ELSE 'infinity' END,
		paused_due = CASE WHEN paused_due IS NOT NULL THEN move.due END,
		owner = NULL, fence = fence + 1, attempts = 0, losses = 0, lease_until = NULL,
		after_keys = NULL, after_key = NULL
	WHERE id = old.id;
	PERFORM hwheel._revoke(old.owner, old.id, old.fence);
	RETURN true;
END $$;

-- Locks a job, if that is possible within the time of a batch of SQL jobs.
CREATE OR REPLACE FUNCTION hwheel._lock_soon(id bigint) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '1 s' SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM FROM hwheel.job j WHERE j.id = _lock_soon.id FOR UPDATE;
	RETURN true;
EXCEPTION WHEN lock_not_available THEN
	RETURN false;
END $$;

-- Asks the run of a job to end. The transaction has locked the job, or its function runs.
CREATE OR REPLACE FUNCTION hwheel._ask_to_end(job hwheel.job) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	INSERT INTO hwheel.stop (id)
		SELECT job.id WHERE NOT EXISTS (SELECT FROM hwheel.stop s WHERE s.id = job.id);
	IF job.kind = 'app' THEN
		PERFORM hwheel._notify('hwheel:' || job.queue, 'cancel ' || job.id);
	ELSE
		PERFORM hwheel._revoke(job.owner, job.id, job.fence);
	END IF;
END $$;

-- Cancels a job, and says what it did:
-- cancelled  no run is under way, and there will be none. The job is deleted.
-- stopping   a run is under way. It is asked to end, and the job is deleted when it has ended. If
--            the run ends well before it is stopped, it counts. A command and its children get
--            SIGTERM, and SIGKILL 5 s later; a function is cancelled by the server; the connection
--            of a request is closed; an application is notified: see extend_many().
-- NULL       no job that is still to run has the key.
-- A job that is scheduled under the key meanwhile begins when that run has ended.
CREATE OR REPLACE FUNCTION hwheel.cancel(key text) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	wanted constant text COLLATE "default" := cancel.key; -- The collation is that of the index.
BEGIN
	RETURN (SELECT hwheel._cancel(id) FROM hwheel.job
		WHERE key = wanted AND state IN ('waiting', 'claimed', 'running'));
END $$;

-- Cancels the job with this number.
CREATE OR REPLACE FUNCTION hwheel._cancel(id bigint) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	old hwheel.job;
BEGIN
	SELECT * INTO old FROM hwheel.job j WHERE j.id = _cancel.id;
	IF old.kind = 'sql' AND old.owner IS NOT NULL AND NOT hwheel._lock_soon(old.id) THEN
		PERFORM hwheel._ask_to_end(old);
		RETURN 'stopping';
	END IF;
	SELECT * INTO old FROM hwheel.job j WHERE j.id = _cancel.id
		AND state IN ('waiting', 'claimed', 'running') FOR UPDATE;
	IF NOT FOUND THEN
		RETURN NULL;
	ELSIF old.state = 'running' THEN
		UPDATE hwheel.job SET next = NULL, paused_due = NULL
			WHERE id = old.id AND num_nonnulls(next, paused_due) > 0;
		-- The function of an SQL job whose row is not locked does not run.
		IF old.kind <> 'sql' THEN
			PERFORM hwheel._ask_to_end(old);
			RETURN 'stopping';
		END IF;
	END IF;
	IF EXISTS (SELECT FROM hwheel.job WHERE after_key IS NOT NULL) THEN
		PERFORM hwheel._tell_followers(ARRAY[old.id]);
	END IF;
	DELETE FROM hwheel.job WHERE id = old.id;
	PERFORM hwheel._revoke(old.owner, old.id, old.fence);
	RETURN 'cancelled';
END $$;

-- Pauses a job: no run starts until resume(). A command or request that has started is
-- not stopped, and its outcome counts. Returns false if no job that is still to run has
-- the key.
CREATE OR REPLACE FUNCTION hwheel.pause(key text) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	wanted constant text COLLATE "default" := pause.key; -- The collation is that of the index.
	old hwheel.job;
BEGIN
	SELECT * INTO old FROM hwheel.job
		WHERE key = wanted AND state IN ('waiting', 'claimed', 'running') FOR UPDATE;
	IF NOT FOUND OR hwheel._is_over(old) THEN
		RETURN false;
	ELSIF old.paused_due IS NOT NULL THEN
		RETURN true;
	ELSIF old.state = 'running' THEN
		UPDATE hwheel.job SET paused_due = 'infinity' WHERE id = old.id;
	ELSE
		UPDATE hwheel.job SET paused_due = due, due = 'infinity', state = 'waiting',
			owner = NULL, fence = fence + 1 WHERE id = old.id;
		PERFORM hwheel._revoke(old.owner, old.id, old.fence);
	END IF;
	RETURN true;
END $$;

-- Lets a paused job run again. Runs that were due meanwhile were missed. Returns false if
-- no paused job has the key.
CREATE OR REPLACE FUNCTION hwheel.resume(key text) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	wanted constant text COLLATE "default" := resume.key; -- The collation is that of the index.
BEGIN
	UPDATE hwheel.job SET paused_due = NULL,
		due = CASE WHEN state = 'running' THEN due ELSE paused_due END
	WHERE key = wanted AND state IN ('waiting', 'claimed', 'running')
		AND paused_due IS NOT NULL;
	RETURN FOUND;
END $$;

-- Gives the last dead job of a key another life, from now. Returns false if there is none. If
-- another job with this key is still to run, as the series whose run the dead job was, the job
-- gets a key with its number: "report (7)".
CREATE OR REPLACE FUNCTION hwheel.revive(key text) RETURNS boolean
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	wanted constant text COLLATE "default" := revive.key; -- The collation is that of the index.
BEGIN
	UPDATE hwheel.job d SET state = 'waiting', fence = fence + 1, attempts = 0, losses = 0,
		due = CASE WHEN due = '-infinity' THEN due ELSE clock_timestamp() END, finished_at = NULL,
		key = CASE WHEN EXISTS (SELECT FROM hwheel.job j WHERE j.key = d.key
				AND state IN ('waiting', 'claimed', 'running'))
			THEN hwheel._other_key(d.key, d.id) ELSE d.key END
	WHERE id = (SELECT max(id) FROM hwheel.job WHERE key = wanted AND state = 'dead');
	RETURN FOUND;
END $$;

-- A key with a number. A key that is long is cut, so that it fits.
CREATE OR REPLACE FUNCTION hwheel._other_key(key text, id bigint) RETURNS text LANGUAGE sql IMMUTABLE
	RETURN CASE WHEN octet_length(key) > 230 THEN left(key, 50) ELSE key END || ' (' || id || ')';

-- Gives dead jobs another life, from now, 10000 at most, and returns their number. It passes by what
-- somebody has locked, and a job whose key somebody is scheduling. queue, key and error say which: NULL
-- means any; key and error are patterns of LIKE. If several have one key, or it is in use, they get keys
-- with their numbers.
CREATE OR REPLACE FUNCTION hwheel.revive_many(queue text DEFAULT NULL, key text DEFAULT NULL,
	error text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	ids   bigint[];
	count bigint;
BEGIN
	ids := ARRAY(SELECT j.id FROM hwheel.job j WHERE j.state = 'dead'
		AND (revive_many.queue IS NULL OR j.queue = revive_many.queue COLLATE "C")
		AND (revive_many.key IS NULL OR j.key LIKE revive_many.key COLLATE "C")
		AND (revive_many.error IS NULL OR j.last_error LIKE revive_many.error COLLATE "C")
		ORDER BY j.id LIMIT 10000 FOR UPDATE SKIP LOCKED);
	count := hwheel._revive(ids);
	IF count < 0 THEN
		-- One by one. The newest of a key keeps it.
		SELECT coalesce(sum(greatest(0, hwheel._revive(ARRAY[d.id]))), 0) INTO count
			FROM (SELECT id FROM unnest(ids) id ORDER BY id DESC) d;
	END IF;
	RETURN count;
END $$;

-- Gives dead jobs that the transaction has locked another life. -1: somebody is scheduling one of
-- their keys, and none has changed.
CREATE OR REPLACE FUNCTION hwheel._revive(ids bigint[]) RETURNS bigint
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET lock_timeout = '100 ms'
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	count bigint;
BEGIN
	UPDATE hwheel.job d SET state = 'waiting', fence = fence + 1, attempts = 0, losses = 0,
		due = CASE WHEN due = '-infinity' THEN due ELSE clock_timestamp() END, finished_at = NULL,
		key = CASE WHEN w.nth > 1 OR EXISTS (SELECT FROM hwheel.job j WHERE j.key = d.key
				AND j.state IN ('waiting', 'claimed', 'running'))
			THEN hwheel._other_key(d.key, d.id) ELSE d.key END
	FROM (SELECT j.id, row_number() OVER (PARTITION BY j.key ORDER BY j.id DESC) AS nth
		FROM hwheel.job j WHERE j.id = ANY (ids)) w
	WHERE d.id = w.id AND d.state = 'dead';
	GET DIAGNOSTICS count = ROW_COUNT;
	RETURN count;
EXCEPTION WHEN unique_violation OR lock_not_available THEN
	RETURN -1;
END $$;

-- Deletes the jobs that ended at least this long ago. Returns their number. Nodes do this
-- by themselves: see settings.keep_done and keep_dead.
CREATE OR REPLACE FUNCTION hwheel.prune(older interval) RETURNS bigint
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
	WITH gone AS (DELETE FROM hwheel.job WHERE state IN ('done', 'dead')
		AND finished_at <= clock_timestamp() - older RETURNING 1
	), past AS (DELETE FROM hwheel.history
		WHERE finished_at <= clock_timestamp() - older RETURNING 1)
	SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM past);
$$;

-- Queues. A queue exists by its name; set_queue() gives it limits over all nodes.

-- Whether a text is the name of a queue. The planner puts this test into the expression of the caller. A
-- call of _check_queue() costs more.
CREATE OR REPLACE FUNCTION hwheel._is_queue(name text) RETURNS boolean LANGUAGE sql IMMUTABLE
	RETURN name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,49}$';

CREATE OR REPLACE FUNCTION hwheel._check_queue(name text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF NOT hwheel._is_queue(name) THEN
		PERFORM hwheel._refuse(format('"%s" is no name of a queue: 1 to 50 letters, digits, _ . -',
			name));
	END IF;
END $$;

-- Takes the claims of a queue back and tells the nodes to look again. The caller holds the gate
-- of the queue, and has changed it.
CREATE OR REPLACE FUNCTION hwheel._requeue(name text) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	-- With the state in this query, the planner would use the index of all live jobs.
	ids constant bigint[] := ARRAY(SELECT o.id FROM (SELECT j.id, j.queue FROM hwheel.job j
		WHERE j.owner > 0 OFFSET 0) o WHERE o.queue = name);
BEGIN
	-- A job that is locked has started.
	UPDATE hwheel.job SET state = 'waiting', owner = NULL, fence = fence + 1
		WHERE id = ANY (ARRAY(SELECT j.id FROM hwheel.job j WHERE j.id = ANY (ids) AND j.owner > 0
			AND j.state = 'claimed' AND j.queue = name FOR UPDATE SKIP LOCKED));
	PERFORM hwheel._notify('hwheel', '0');
END $$;

-- Sets the limits of a queue: the number of runs at once, and the number of starts per
-- second, each over all nodes; NULL is no limit. Runs that have started go on. One node at
-- a time runs the jobs of a queue with a limit. Jobs that applications take and jobs that
-- nodes run count separately.
--
-- max_running_per limits the runs at once of each tenant, of the jobs that applications take.
-- Jobs without a tenant do not count.
CREATE OR REPLACE FUNCTION hwheel.set_queue(name text, max_running int DEFAULT NULL,
	rate float8 DEFAULT NULL, max_running_per int DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	IF set_queue.name IS NULL THEN
		PERFORM hwheel._refuse('a queue has a name');
	ELSIF set_queue.max_running NOT BETWEEN 1 AND 100000 THEN
		PERFORM hwheel._refuse('max_running is from 1 to 100000');
	ELSIF set_queue.max_running_per NOT BETWEEN 1 AND 100000 THEN
		PERFORM hwheel._refuse('max_running_per is from 1 to 100000');
	ELSIF NOT set_queue.rate BETWEEN 0.001 AND 100000 THEN
		PERFORM hwheel._refuse('rate is from 0.001 to 100000 per second');
	END IF;
	PERFORM hwheel._check_queue(set_queue.name);
	PERFORM hwheel._hold_gate(set_queue.name);
	INSERT INTO hwheel.queue (name, max_running, rate, max_running_per)
		VALUES (set_queue.name, set_queue.max_running, set_queue.rate, set_queue.max_running_per)
	ON CONFLICT (name) DO UPDATE SET max_running = excluded.max_running, rate = excluded.rate,
		max_running_per = excluded.max_running_per;
	PERFORM hwheel._requeue(set_queue.name);
END $$;

-- Pauses a queue: when the transaction has committed no run of the queue starts until
-- resume_queue(). Runs that have started go on. Returns false if the queue is paused.
CREATE OR REPLACE FUNCTION hwheel.pause_queue(name text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	is_changed boolean;
BEGIN
	IF pause_queue.name IS NULL THEN
		PERFORM hwheel._refuse('a queue has a name');
	END IF;
	PERFORM hwheel._check_queue(pause_queue.name);
	PERFORM hwheel._hold_gate(pause_queue.name);
	INSERT INTO hwheel.queue AS q (name, paused_at) VALUES (pause_queue.name, clock_timestamp())
	ON CONFLICT (name) DO UPDATE SET paused_at = excluded.paused_at WHERE q.paused_at IS NULL;
	is_changed := FOUND;
	PERFORM hwheel._requeue(pause_queue.name);
	RETURN is_changed;
END $$;

-- Returns false if the queue is not paused. What was due meanwhile was missed.
CREATE OR REPLACE FUNCTION hwheel.resume_queue(name text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	IF NOT EXISTS (SELECT FROM hwheel.gate WHERE queue = resume_queue.name) THEN
		RETURN false;
	END IF;
	PERFORM hwheel._hold_gate(resume_queue.name);
	UPDATE hwheel.queue SET paused_at = NULL
		WHERE name = resume_queue.name AND paused_at IS NOT NULL;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	PERFORM hwheel._notify('hwheel', '0'), hwheel._notify('hwheel:' || resume_queue.name, '');
	RETURN true;
END $$;

-- Jobs that an application takes and runs itself.
--
-- An application listens, takes what is due, and ends each job in the transaction that has
-- the effect of the job, so that both commit together:
--
--   SELECT hwheel.listen('mail');
--   SELECT * FROM hwheel.take('mail', 10);        -- a transaction of its own
--   BEGIN; ...; SELECT hwheel.done(id, lease); COMMIT;
--   SELECT hwheel.fail(id, lease, 'no such address');   -- or this, after a rollback
--
-- When take() returns nothing the application waits for a notification, for some seconds at
-- most. It is woken when the next job is due.

-- Makes the session listen to a queue.
CREATE OR REPLACE FUNCTION hwheel.listen(queue text) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM hwheel._check_queue(queue);
	EXECUTE format('LISTEN %I', 'hwheel:' || queue);
END $$;

-- Locks the limits of a queue for a short call. NULL: somebody holds them for long.
CREATE OR REPLACE FUNCTION hwheel._lock_queue(name text) RETURNS hwheel.queue
LANGUAGE plpgsql SET lock_timeout = '500 ms' SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	q hwheel.queue;
BEGIN
	SELECT * INTO q FROM hwheel.queue WHERE name = _lock_queue.name FOR UPDATE;
	RETURN q;
EXCEPTION WHEN lock_not_available THEN
	RETURN NULL;
END $$;

-- The priorities that the jobs of a queue may have that applications take, the highest first. Most queues
-- use one. The planner puts the query into that of the caller.
CREATE OR REPLACE FUNCTION hwheel._priorities(queue text) RETURNS SETOF int LANGUAGE sql STABLE BEGIN ATOMIC
	SELECT p FROM generate_series(CASE WHEN EXISTS (SELECT FROM hwheel.job j WHERE j.state = 'waiting'
		AND j.kind = 'app' AND j.queue = _priorities.queue COLLATE "C" AND j.priority > 0)
		THEN 9 ELSE 0 END, 0, -1) p;
END;

-- Locks the jobs of a queue that an application takes next, up to a number, and returns their
-- numbers. The caller has set how plans are made.
CREATE OR REPLACE FUNCTION hwheel._lock_due(name text, room bigint, at timestamptz)
RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	RETURN ARRAY(SELECT j.id FROM hwheel._priorities(_lock_due.name) p, LATERAL (
			SELECT j.id FROM hwheel.job j
			WHERE j.state = 'waiting' AND j.kind = 'app' AND j.queue = _lock_due.name
				AND j.priority = p AND j.due <= at AND j.due > '-infinity'
			ORDER BY j.due LIMIT room FOR UPDATE SKIP LOCKED) j
		LIMIT room);
END $$;

-- Locks the jobs of a queue with a limit for each tenant that an application takes next, up to a
-- number, and returns their numbers. The transaction has locked the queue, so that nobody else
-- begins a run of it.
--
-- It looks at the jobs that were due first. If there are more, those of a few tenants may hide any
-- number of others. Then the tenants take turns: in half of the calls, by chance, before that look,
-- which may find enough each time, and otherwise behind it.
CREATE OR REPLACE FUNCTION hwheel._fair(name text, per int, last_tenant text, room bigint,
	at timestamptz) RETURNS bigint[]
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	jobs      constant bigint := 100 + 2 * room; -- that it looks at
	has_more  constant boolean := hwheel._has_due(name, jobs, at);
	is_before constant boolean := has_more AND random() < 0.5;
	ids       bigint[] := '{}';
BEGIN
	IF is_before THEN
		ids := hwheel._fair_turns(name, per, last_tenant, room, at, ids);
	END IF;
	ids := hwheel._fair_first(name, per, jobs, room, at, ids);
	IF has_more AND NOT is_before THEN
		ids := hwheel._fair_turns(name, per, last_tenant, room, at, ids);
	END IF;
	RETURN ids;
END $$;

-- Whether a queue has that number of jobs that are due. The caller has set how plans are made, as for
-- the next ones.
CREATE OR REPLACE FUNCTION hwheel._has_due(name text, jobs bigint, at timestamptz) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RETURN (SELECT count(*) >= jobs FROM (SELECT FROM hwheel._priorities(_has_due.name) p, LATERAL (
			SELECT FROM hwheel.job j WHERE j.state = 'waiting' AND j.kind = 'app' AND j.queue = name
				AND j.priority = p AND j.due <= at AND j.due > '-infinity' LIMIT jobs) j
		LIMIT jobs) n);
END $$;

-- Locks jobs besides these, of those that were due first, and returns all.
CREATE OR REPLACE FUNCTION hwheel._fair_first(name text, per int, jobs bigint, room bigint,
	at timestamptz, ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	passed bigint[] := ids; -- and those that somebody else has locked
	chosen bigint[];
	theirs text[];
	locked bigint[];
BEGIN
	FOR try IN 1..3 LOOP
		EXIT WHEN cardinality(ids) >= room;
		WITH near AS MATERIALIZED (
			SELECT n.id, n.tenant, row_number() OVER () AS place
			FROM hwheel._priorities(_fair_first.name) p, LATERAL (
				SELECT j.id, j.tenant FROM hwheel.job j
				WHERE j.state = 'waiting' AND j.kind = 'app' AND j.queue = _fair_first.name
					AND j.priority = p AND j.due <= at AND j.due > '-infinity' AND j.id <> ALL (passed)
				ORDER BY j.due LIMIT jobs) n
			LIMIT jobs
		), free AS MATERIALIZED (
			SELECT t.tenant, hwheel._free(_fair_first.name, t.tenant, per, ids) AS free
			FROM (SELECT DISTINCT n.tenant FROM near n WHERE n.tenant IS NOT NULL) t
		), ranked AS (
			SELECT n.*, row_number() OVER (PARTITION BY n.tenant ORDER BY n.place) AS nth FROM near n
		), first AS (
			SELECT r.id, r.tenant FROM ranked r LEFT JOIN free f ON f.tenant = r.tenant
			WHERE r.tenant IS NULL OR r.nth <= f.free
			ORDER BY r.place LIMIT room - cardinality(ids)
		)
		SELECT coalesce(array_agg(f.id), '{}'), coalesce(array_agg(f.tenant), '{}')
			INTO chosen, theirs FROM first f;
		locked := ARRAY(SELECT j.id FROM unnest(chosen, theirs) AS c (id, tenant)
			JOIN hwheel.job j ON j.id = c.id AND j.tenant IS NOT DISTINCT FROM c.tenant
			WHERE j.state = 'waiting' AND j.kind = 'app' AND j.queue = _fair_first.name AND j.due <= at
			FOR UPDATE OF j SKIP LOCKED);
		ids := ids || locked;
		passed := passed || chosen;
		EXIT WHEN cardinality(locked) = cardinality(chosen);
	END LOOP;
	RETURN ids;
END $$;

-- Locks jobs besides these, of up to a thousand tenants from the one after the last on, and returns all.
CREATE OR REPLACE FUNCTION hwheel._fair_turns(name text, per int, last_tenant text, room bigint,
	at timestamptz, ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	who  text COLLATE "C" := coalesce(_fair_turns.last_tenant, '');
	free bigint;
BEGIN
	IF cardinality(ids) >= room THEN
		RETURN ids;
	END IF;
	FOR tenants IN 1..1000 LOOP
		SELECT j.tenant INTO who FROM hwheel.job j WHERE j.state = 'waiting' AND j.kind = 'app'
			AND j.tenant IS NOT NULL AND j.queue = _fair_turns.name AND j.tenant > who
			ORDER BY j.queue, j.tenant LIMIT 1;
		IF who IS NULL THEN
			EXIT WHEN _fair_turns.last_tenant IS NULL;
			_fair_turns.last_tenant := NULL; -- From the first one on, once.
			who := '';
			CONTINUE;
		END IF;
		free := hwheel._free(_fair_turns.name, who, per, ids);
		CONTINUE WHEN free < 1;
		ids := ids || ARRAY(SELECT j.id FROM hwheel.job j
			WHERE j.state = 'waiting' AND j.kind = 'app' AND j.queue = _fair_turns.name
				AND j.tenant = who AND j.due <= at AND j.due > '-infinity' AND j.id <> ALL (ids)
			ORDER BY j.priority DESC, j.due LIMIT least(free, room - cardinality(ids))
			FOR UPDATE SKIP LOCKED);
		EXIT WHEN cardinality(ids) >= room;
	END LOOP;
	UPDATE hwheel.queue q SET last_tenant = nullif(who, '') WHERE q.name = _fair_turns.name;
	RETURN ids;
END $$;

-- How many runs a tenant may begin, if these jobs begin as well. As in take(), the inner query says no more
-- than the index has.
CREATE OR REPLACE FUNCTION hwheel._free(name text, tenant text, per int, ids bigint[])
RETURNS bigint LANGUAGE sql STABLE
	RETURN per - (SELECT count(r.lease_until) FROM (SELECT r.lease_until FROM hwheel.job r WHERE r.owner = 0
			AND r.queue = name COLLATE "C" AND r.tenant = _free.tenant COLLATE "C" OFFSET 0) r)
		- (SELECT count(*) FROM hwheel.job a WHERE a.id = ANY (ids) AND a.tenant = _free.tenant COLLATE "C");

-- Leases jobs of a queue that are due, the highest priority first, and counts an attempt at
-- each. With a limit for each tenant it leases 200 at most. A lease lasts for the time that is
-- given, by default the timeout of the job. A lease that runs out is an attempt that failed. The
-- call needs a transaction of its own: if it is rolled back, so are the leases and the attempts. A
-- test that schedules, runs and rolls back in one transaction wants just that: SET LOCAL
-- hwheel.test = on.
CREATE OR REPLACE FUNCTION hwheel.take(queue text, at_most int DEFAULT 1,
	lease_length interval DEFAULT NULL)
RETURNS TABLE (id bigint, lease bigint, key text, due timestamptz, payload jsonb, attempt int,
	lease_until timestamptz, traceparent text)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	q     hwheel.queue;
	time  timestamptz;
	room  bigint := at_most;
	ids   bigint[];
	count bigint;
	is_paused boolean; -- NULL: the queue has no limits either
	is_open   boolean;
BEGIN
	IF take.queue IS NULL OR at_most IS NULL OR at_most NOT BETWEEN 1 AND 10000 THEN
		PERFORM hwheel._refuse('take() needs a queue, and a number from 1 to 10000');
	ELSIF lease_length NOT BETWEEN '1 ms' AND '1 day' THEN
		PERFORM hwheel._refuse('a lease is from 1 ms to 1 day');
	ELSIF pg_current_xact_id_if_assigned() IS NOT NULL
		AND current_setting('hwheel.test', true) IS DISTINCT FROM 'on' THEN
		RAISE EXCEPTION 'hwheel: take() needs a transaction of its own'
			USING ERRCODE = 'active_sql_transaction';
	END IF;
	-- Another one sees what the queue was before its limits changed.
	IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
		RAISE EXCEPTION 'hwheel: take() needs the isolation level "read committed"'
			USING ERRCODE = 'active_sql_transaction', HINT = 'BEGIN ISOLATION LEVEL READ COMMITTED';
	END IF;
	IF NOT hwheel._is_queue(take.queue) THEN
		PERFORM hwheel._check_queue(take.queue);
	END IF;
	IF current_setting('hwheel.test', true) = 'on' THEN
		PERFORM hwheel._unblock(1000); -- No node sees what is rolled back.
	END IF;
	-- Each statement has a price, also if it finds nothing. So one statement reads whether the queue is paused
	-- or has limits. If it is neither, the statement locks what is due, as _lock_due() does, and shares the
	-- gate, as _pass() does. A call that locks no job writes nothing: one job wakes all who listen.
	time := clock_timestamp();
	SELECT d.is_paused, d.ids, (SELECT true FROM hwheel.gate g WHERE g.queue = take.queue
			AND g.slot = pg_backend_pid() % 16 AND d.ids <> '{}' FOR SHARE SKIP LOCKED)
		INTO is_paused, ids, is_open
		FROM (SELECT l.is_paused, CASE WHEN l.is_paused IS NULL THEN ARRAY(
				SELECT j.id FROM hwheel._priorities(take.queue) p, LATERAL (
					SELECT j.id FROM hwheel.job j
					WHERE j.state = 'waiting' AND j.kind = 'app' AND j.queue = take.queue
						AND j.priority = p AND j.due <= time AND j.due > '-infinity'
					ORDER BY j.due LIMIT room FOR UPDATE SKIP LOCKED) j
				LIMIT room) END AS ids
			FROM (SELECT (SELECT q.paused_at IS NOT NULL FROM hwheel.queue q WHERE q.name = take.queue
					AND num_nonnulls(q.paused_at, q.max_running, q.rate, q.max_running_per) > 0)
				AS is_paused OFFSET 0) l OFFSET 0) d;
	IF is_paused OR ids = '{}' THEN
		RETURN;
	ELSIF is_open IS NULL AND NOT hwheel._pass(take.queue) THEN
		RETURN; -- Somebody is changing the queue.
	END IF;
	IF is_paused IS NOT NULL THEN
		SELECT * INTO q FROM hwheel.queue WHERE name = take.queue;
		IF num_nonnulls(q.max_running, q.rate, q.max_running_per) > 0 THEN
			q := hwheel._lock_queue(take.queue);
			IF q.name IS NULL THEN
				RETURN; -- Somebody has taken jobs, and has not committed that.
			END IF;
		END IF;
	END IF;
	IF q.max_running IS NOT NULL THEN
		-- With more in the inner query, the planner might use the index of all leases, or of all live jobs.
		room := least(room, q.max_running - (SELECT count(*) FROM (SELECT j.state, j.kind, j.lease_until
				FROM hwheel.job j WHERE j.owner = 0 AND j.queue = take.queue OFFSET 0) j
			WHERE j.state = 'running' AND j.kind = 'app' AND j.lease_until IS NOT NULL));
	END IF;
	-- After the count: a job begins after those that made room for it have ended.
	time := clock_timestamp();
	IF q.rate IS NOT NULL AND q.refilled_at > time THEN
		-- The clock of the server went back. Starts are counted from now on.
		UPDATE hwheel.queue SET refilled_at = time WHERE name = take.queue;
		q.refilled_at := time;
	END IF;
	IF q.rate IS NOT NULL THEN
		-- A twentieth of a second's starts at most are saved.
		q.tokens := least(greatest(1, q.rate / 20),
			q.tokens + q.rate * greatest(0, extract(epoch FROM time - q.refilled_at)));
		room := least(room, floor(q.tokens));
	END IF;
	IF q.paused_at IS NOT NULL OR room < 1 THEN
		RETURN;
	END IF;
	IF q.max_running_per IS NOT NULL THEN
		room := least(room, 200); -- A call is short: it goes from tenant to tenant.
		ids := hwheel._fair(take.queue, q.max_running_per, q.last_tenant, room, time);
		time := clock_timestamp(); -- After that count, too.
	ELSIF ids IS NULL THEN
		ids := hwheel._lock_due(take.queue, room, time);
	END IF;
	RETURN QUERY
		WITH taken AS (
			UPDATE hwheel.job j SET state = 'running', owner = 0, fence = j.fence + 1,
				attempts = least(j.attempts + 1, 100), fired_at = time,
				lease_until = time + coalesce(take.lease_length, j.timeout)
			WHERE j.id = ANY (ids) -- A join may read all live jobs, which can be many more.
				-- Somebody may have changed the queue before this transaction shared its gate.
				AND (is_paused IS NOT NULL OR NOT EXISTS (SELECT FROM hwheel.queue c WHERE c.name = take.queue
					AND num_nonnulls(c.paused_at, c.max_running, c.rate, c.max_running_per) > 0))
			RETURNING j.id, j.fence, j.key, j.occurrence, j.payload, j.attempts, j.lease_until,
				j.traceparent, j.priority, j.due
		)
		SELECT t.id, t.fence, t.key, t.occurrence, t.payload, t.attempts, t.lease_until,
			t.traceparent
		FROM taken t ORDER BY t.priority DESC, t.due;
	GET DIAGNOSTICS count = ROW_COUNT;
	IF q.rate IS NOT NULL AND count > 0 THEN
		UPDATE hwheel.queue SET tokens = q.tokens - count, refilled_at = time
			WHERE name = take.queue;
	END IF;
END $$;

-- take() for the workers in jobs/workers: it also says how many seconds an attempt may take.
CREATE OR REPLACE FUNCTION hwheel._take_for_worker(queue text, at_most int, lease_length interval)
RETURNS TABLE (id bigint, lease bigint, key text, due timestamptz, payload jsonb, attempt int,
	traceparent text, timeout float8)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	-- The next statement sees them, however new they are.
	ids bigint[] := ARRAY(SELECT t.id FROM hwheel.take(_take_for_worker.queue, at_most, lease_length) t);
BEGIN
	RETURN QUERY SELECT j.id, j.fence, j.key, j.occurrence, j.payload, j.attempts, j.traceparent,
			extract(epoch FROM j.timeout)::float8
		FROM unnest(ids) WITH ORDINALITY AS w (id, n) JOIN hwheel.job j ON j.id = w.id ORDER BY w.n;
END $$;

-- Says that a lease is not there any more: it ran out, its job ended, or somebody has cancelled
-- the job meanwhile.
CREATE OR REPLACE FUNCTION hwheel._stale(id bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	RAISE EXCEPTION 'hwheel: the lease of job % has ended', id USING ERRCODE = 'HW003';
END $$;

-- Ends jobs, and returns those whose lease was still there. The others have not changed. An
-- application that has effects to roll back uses done().
CREATE OR REPLACE FUNCTION hwheel.done_many(ids bigint[], leases bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	locked bigint[];
	recurring bigint[] := '{}';
	any_recurs boolean;
	is_awaited boolean;
BEGIN
	IF current_setting('session_replication_role') = 'replica' THEN
		PERFORM hwheel._need_triggers();
	ELSIF cardinality(ids) <> cardinality(leases) THEN
		PERFORM hwheel._refuse('each job has a lease');
	END IF;
	-- No join, and few statements: see take().
	SELECT array_agg(j.id), bool_or(j.recurs), EXISTS (SELECT FROM hwheel.job WHERE after_key IS NOT NULL)
		INTO locked, any_recurs, is_awaited
		FROM (SELECT DISTINCT w.id, w.lease FROM unnest(ids, leases) AS w (id, lease) ORDER BY w.id) w,
			LATERAL (SELECT j.id, num_nonnulls(j.every, j.cron) > 0 AS recurs FROM hwheel.job j WHERE j.id = w.id
				AND j.fence = w.lease AND j.state = 'running' AND j.kind = 'app' FOR UPDATE) j;
	IF locked IS NULL THEN
		RETURN;
	ELSIF is_awaited THEN
		PERFORM hwheel._tell_followers(locked);
	END IF;
	IF any_recurs THEN
		-- Whether somebody has cancelled a job is read when it is locked, by a statement that begins then.
		recurring := ARRAY(SELECT j.id FROM hwheel.job j WHERE j.id = ANY (locked)
			AND num_nonnulls(j.every, j.cron) > 0 AND NOT EXISTS (SELECT FROM hwheel.stop s WHERE s.id = j.id));
	END IF;
	RETURN QUERY WITH ended AS (
		DELETE FROM hwheel.job j WHERE j.id = ANY (locked) AND j.id <> ALL (recurring)
		RETURNING j.id, j.key, j.queue, j.priority, j.due, j.occurrence, j.kind, j.target, j.payload,
			j.max_attempts, j.attempts - 1, j.runs + 1, j.skipped, j.created_at, j.fired_at,
			clock_timestamp(), j.run_as, j.traceparent, hwheel._today(), j.tenant, j.tried
	), history AS (
		INSERT INTO hwheel.history SELECT e.* FROM ended e, hwheel.settings s WHERE s.keep_done > '0'
	)
	SELECT unnest(locked);
	IF cardinality(recurring) > 0 THEN
		-- A node computes the next run.
		UPDATE hwheel.job j SET state = 'waiting', owner = NULL, fence = j.fence + 1,
			due = CASE WHEN j.paused_due IS NULL THEN '-infinity'::timestamptz ELSE 'infinity' END,
			paused_due = CASE WHEN j.paused_due IS NOT NULL THEN '-infinity'::timestamptz END,
			attempts = 0, runs = j.runs + 1, lease_until = NULL, last_error = NULL
		WHERE j.id = ANY (recurring);
	END IF;
END $$;

-- Ends a job. If its lease is not there any more the call is an error (HW003), so that the
-- transaction with the effect of the job is rolled back.
CREATE OR REPLACE FUNCTION hwheel.done(id bigint, lease bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	PERFORM hwheel.done_many(ARRAY[id], ARRAY[lease]);
	IF NOT FOUND THEN
		PERFORM hwheel._stale(id);
	END IF;
END $$;

-- Says that an attempt has failed. Returns retry or dead, or cancelled if somebody has asked the
-- run to end. The next attempt is after the
-- backoff of the job, or after the time that is given. is_final: there is no next one.
CREATE OR REPLACE FUNCTION hwheel.fail(id bigint, lease bigint, error text DEFAULT NULL,
	retry_after interval DEFAULT NULL, is_final boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF retry_after NOT BETWEEN '0' AND '366 days' OR is_final IS NULL THEN
		PERFORM hwheel._refuse('retry_after is from 0 to 366 days');
	END IF;
	PERFORM hwheel._lock_lease(id, lease);
	RETURN hwheel._app_failed(ARRAY[id], ARRAY[lease],
		left(hwheel._readable(coalesce(error, 'the application says that it failed')), 10000),
		retry_after, is_final);
END $$;

-- Locks a job whose run is about to end, and tells those who wait for it. Whether somebody has
-- cancelled it is read by a statement that begins then.
CREATE OR REPLACE FUNCTION hwheel._lock_lease(id bigint, lease bigint) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF current_setting('session_replication_role') = 'replica' THEN
		PERFORM hwheel._need_triggers();
	END IF;
	PERFORM FROM hwheel.job j WHERE j.id = _lock_lease.id AND j.fence = _lock_lease.lease
		AND j.state = 'running' AND j.kind = 'app' FOR UPDATE;
	IF NOT FOUND THEN
		PERFORM hwheel._stale(id);
	END IF;
	IF EXISTS (SELECT FROM hwheel.job WHERE after_key IS NOT NULL) THEN
		PERFORM hwheel._tell_followers(ARRAY[id]);
	END IF;
END $$;

-- Runs a job later, and counts no attempt. Returns snoozed, or cancelled if somebody has asked the
-- run to end. HW003: the lease has ended.
CREATE OR REPLACE FUNCTION hwheel.snooze(id bigint, lease bigint, wait interval) RETURNS text
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF wait IS NULL OR wait NOT BETWEEN '0' AND '366 days' THEN
		PERFORM hwheel._refuse('a job snoozes from 0 to 366 days');
	END IF;
	PERFORM hwheel._lock_lease(id, lease);
	DELETE FROM hwheel.job j USING hwheel.stop s WHERE j.id = snooze.id AND s.id = snooze.id;
	IF FOUND THEN
		RETURN 'cancelled';
	END IF;
	UPDATE hwheel.job j SET state = 'waiting', owner = NULL, fence = j.fence + 1,
		lease_until = NULL, attempts = greatest(0, j.attempts - 1),
		due = CASE WHEN j.paused_due IS NULL THEN clock_timestamp() + wait ELSE 'infinity' END,
		paused_due = CASE WHEN j.paused_due IS NOT NULL THEN clock_timestamp() + wait END
	WHERE j.id = snooze.id;
	RETURN 'snoozed';
END $$;

-- Makes a lease last for this time from now on. HW003: it has ended. HW004: somebody has asked the
-- run to end, and the lease stays as it is.
CREATE OR REPLACE FUNCTION hwheel.extend(id bigint, lease bigint, lease_length interval)
RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
	IF lease_length IS NULL OR lease_length NOT BETWEEN '1 ms' AND '1 day' THEN
		PERFORM hwheel._refuse('a lease is from 1 ms to 1 day');
	END IF;
	UPDATE hwheel.job j SET lease_until = clock_timestamp() + lease_length
		WHERE j.id = extend.id AND j.fence = extend.lease AND j.state = 'running' AND j.kind = 'app';
	IF NOT FOUND THEN
		PERFORM hwheel._stale(id);
	ELSIF EXISTS (SELECT FROM hwheel.stop s WHERE s.id = extend.id) THEN
		RAISE EXCEPTION 'hwheel: somebody has cancelled job %', id USING ERRCODE = 'HW004';
	END IF;
END $$;

-- Makes leases last for this time from now on, by default for the timeout of each job. It waits for
-- nobody, and says what has become of each:
-- extended   the lease is longer.
-- cancelled  the lease is longer. Somebody has cancelled the job: its run is asked to end, and to
--            say so with fail() or done(). A notification 'cancel <id>' to whoever listens to the
--            queue says when to look.
-- busy       somebody has locked the job, such as the transaction that is about to end it. The lease
--            stays as it is, and does not run out meanwhile.
-- gone       the lease has ended. Another run may be under way.
CREATE OR REPLACE FUNCTION hwheel.extend_many(ids bigint[], leases bigint[],
	lease_length interval DEFAULT NULL) RETURNS TABLE (id bigint, outcome text)
LANGUAGE plpgsql SET enable_seqscan = off SET jit = off
SET plan_cache_mode = force_generic_plan SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
	IF cardinality(ids) IS DISTINCT FROM cardinality(leases) THEN
		PERFORM hwheel._refuse('each job has a lease');
	ELSIF lease_length NOT BETWEEN '1 ms' AND '1 day' THEN
		PERFORM hwheel._refuse('a lease is from 1 ms to 1 day');
	END IF;
	RETURN QUERY WITH want AS (
		SELECT DISTINCT w.id, w.lease FROM unnest(ids, leases) AS w (id, lease)
	), seen AS MATERIALIZED (
		-- No join: see take().
		SELECT j.* FROM want w, LATERAL (SELECT j.id, j.fence FROM hwheel.job j
			WHERE j.id = w.id AND j.fence = w.lease AND j.state = 'running' AND j.kind = 'app'
			OFFSET 0) j
	), mine AS MATERIALIZED (
		SELECT j.* FROM want w, LATERAL (SELECT j.id, j.fence FROM hwheel.job j
			WHERE j.id = w.id AND j.fence = w.lease AND j.state = 'running' AND j.kind = 'app'
			FOR UPDATE SKIP LOCKED) j
	), extended AS (
		UPDATE hwheel.job j SET lease_until = clock_timestamp()
			+ coalesce(extend_many.lease_length, j.timeout)
		WHERE j.id = ANY (ARRAY(SELECT m.id FROM mine m))
	)
	SELECT w.id, CASE WHEN s.id IS NULL THEN 'gone' WHEN m.id IS NULL THEN 'busy'
		WHEN EXISTS (SELECT FROM hwheel.stop t WHERE t.id = w.id) THEN 'cancelled'
		ELSE 'extended' END
	FROM want w LEFT JOIN seen s ON s.id = w.id AND s.fence = w.lease
	LEFT JOIN mine m ON m.id = w.id AND m.fence = w.lease;
END $$;

-- Ends attempts of applications that have failed. Returns the outcome of one of them, or
-- NULL if no lease is there any more.
CREATE OR REPLACE FUNCTION hwheel._app_failed(ids bigint[], leases bigint[], error text,
	retry_after interval, is_final boolean) RETURNS text
LANGUAGE sql SET enable_seqscan = off SET jit = off SET search_path = pg_catalog, pg_temp AS $$
	WITH plan AS (
		SELECT j.*, num_nonnulls(j.every, j.cron) > 0 AS recurs,
			is_final OR j.attempts >= j.max_attempts AS is_over,
			clock_timestamp() + coalesce(retry_after, (0.8 + 0.4 * random())
				* least(j.backoff * power(2, least(j.attempts - 1, 22)), '1 hour')) AS retry,
			EXISTS (SELECT FROM hwheel.stop s WHERE s.id = j.id) AS is_stopped
		FROM unnest(ids, leases) AS w (id, lease), LATERAL (SELECT j.* FROM hwheel.job j
			WHERE j.id = w.id AND j.fence = w.lease AND j.state = 'running' AND j.kind = 'app'
			FOR UPDATE) j
	), verdict AS (
		SELECT *, CASE WHEN NOT is_over THEN retry WHEN recurs THEN '-infinity' END AS planned
		FROM plan
	), settled AS (
		UPDATE hwheel.job j SET
			state = CASE WHEN v.planned IS NULL THEN 'dead' ELSE 'waiting' END,
			owner = NULL, fence = j.fence + 1, lease_until = NULL,
			due = CASE WHEN v.planned IS NULL THEN j.due
				WHEN j.paused_due IS NULL THEN v.planned ELSE 'infinity' END,
			paused_due = CASE WHEN j.paused_due IS NOT NULL THEN v.planned END,
			attempts = CASE WHEN v.is_over AND v.recurs THEN 0 ELSE j.attempts END,
			finished_at = CASE WHEN v.planned IS NULL THEN clock_timestamp() END,
			last_error = error, tried = hwheel._tried(j.tried, j.fired_at, error)
		FROM verdict v WHERE j.id = v.id AND NOT v.is_stopped
	), stopped AS (
		DELETE FROM hwheel.job j USING verdict v WHERE j.id = v.id AND v.is_stopped
	), dead_runs AS (
		INSERT INTO hwheel.job (key, state, due, occurrence, missed, grace, kind, target,
			payload, max_attempts, backoff, timeout, traceparent, queue, priority, tenant,
			attempts, fired_at, finished_at, last_error, tried)
		SELECT key, 'dead', due, occurrence, 'once', grace, kind, target,
			payload, max_attempts, backoff, timeout, traceparent, queue, priority, tenant,
			attempts, fired_at, clock_timestamp(), error, hwheel._tried(tried, fired_at, error)
		FROM verdict WHERE is_over AND recurs AND NOT is_stopped
	)
	SELECT CASE WHEN is_stopped THEN 'cancelled' WHEN is_over THEN 'dead' ELSE 'retry' END
	FROM verdict LIMIT 1;
$$;

CREATE OR REPLACE FUNCTION hwheel._wrapper(role name) RETURNS name LANGUAGE sql IMMUTABLE
	RETURN ('as ' || role)::name;

-- Whoever writes a job that names a role, or revives one, has to be a member of the role. A node
-- is none, and writes one dead run of a job after the other. The function checks the row itself
-- and its `next`, because a statement may write either of them, or both.
CREATE OR REPLACE FUNCTION hwheel._check_role() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	job hwheel.job;
	wrapper oid;
	-- A row that _follow() writes was checked as a `next`. The role may be gone since then. In that case the
	-- node that runs the job says so.
	is_follow constant boolean := pg_trigger_depth() > 1
		AND current_user = (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID);
BEGIN
	FOREACH job IN ARRAY ARRAY[NEW, hwheel._becomes(NEW)] LOOP
		CONTINUE WHEN job.run_as IS NULL OR is_follow OR TG_OP = 'UPDATE'
			AND (hwheel._is_same_call(job, OLD) OR hwheel._is_same_call(job, hwheel._becomes(OLD)))
			AND (OLD.state NOT IN ('done', 'dead') OR NEW.state = OLD.state);
		wrapper := to_regprocedure(
			format('hwheel.%I(text, text, timestamptz, jsonb)', hwheel._wrapper(job.run_as)));
		IF wrapper IS NULL OR NOT EXISTS (SELECT FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
			WHERE p.oid = wrapper AND p.prosecdef AND r.rolname = job.run_as) THEN
			-- A node still writes the dead run of a series. If somebody revives that run, this check follows.
			CONTINUE WHEN TG_OP = 'INSERT' AND NEW.state = 'dead' AND has_table_privilege('hwheel.node', 'UPDATE');
			RAISE EXCEPTION 'hwheel: no node may run jobs as "%": see hwheel.allow_role()', job.run_as
				USING ERRCODE = 'invalid_parameter_value';
		-- The owner of the table may do everything.
		ELSIF NOT pg_has_role(job.run_as, 'MEMBER') AND NOT (TG_OP = 'INSERT' AND NEW.state = 'dead'
			AND has_function_privilege(wrapper, 'EXECUTE'))
			AND current_user <> (SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = TG_RELID) THEN
			RAISE EXCEPTION 'hwheel: % is no member of the role "%"', current_user, job.run_as
				USING ERRCODE = 'insufficient_privilege';
		END IF;
	END LOOP;
	RETURN NEW;
END $$;

-- The job that follows when the run of a job has ended: the same one, or the one in `next`, which
-- somebody has scheduled meanwhile. By the settings here a text in `next` means the same to its writer
-- and to the node that reads it.
CREATE OR REPLACE FUNCTION hwheel._becomes(job hwheel.job) RETURNS hwheel.job LANGUAGE sql STABLE
SET DateStyle = 'ISO, MDY' SET IntervalStyle = 'postgres' SET TimeZone = 'UTC'
SET timezone_abbreviations = 'Default'
	RETURN jsonb_populate_record(job, coalesce((job).next, '{}') - '{id,key,next}'::text[]);

-- The name of the check by which the table would refuse the `next` of a job, or NULL. An index cannot
-- take very long keys.
CREATE OR REPLACE FUNCTION hwheel._next_misfit(job hwheel.job) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	plan constant hwheel.job := hwheel._becomes(job);
BEGIN
	IF num_nulls(plan.due, plan.occurrence, plan.missed, plan.grace, plan.kind, plan.target, plan.max_attempts,
			plan.backoff, plan.timeout, plan.alone, plan.queue, plan.priority) > 0
		OR octet_length(plan.after_key) > 255
		OR EXISTS (SELECT FROM unnest(plan.after_keys) k WHERE octet_length(k) > 255) THEN
		RETURN 'job_next_fits';
	ELSIF hwheel._headers_error(plan.headers) IS NOT NULL THEN
		RETURN 'job_headers_fits';
	END IF;
	RETURN hwheel._misfit(plan);
END $$;

-- Whether two jobs call the same function in the same way, and as often.
CREATE OR REPLACE FUNCTION hwheel._is_same_call(one hwheel.job, other hwheel.job) RETURNS boolean
LANGUAGE sql IMMUTABLE
	RETURN ((one).run_as, (one).kind, (one).key, (one).target, (one).payload, (one).every, (one).cron)
		IS NOT DISTINCT FROM
		((other).run_as, (other).kind, (other).key, (other).target, (other).payload, (other).every, (other).cron);

-- Lets a node run jobs as a role. The wrapper is a function of that role that runs with
-- its rights: unlike after SET ROLE, the job cannot return to the rights of the node. See
-- _call(). Only a superuser, or a member of the role that may create functions here, may call it.
CREATE OR REPLACE FUNCTION hwheel.allow_role(role name, node name) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	wrapper text := format('hwheel.%I(text, text, timestamptz, jsonb)', hwheel._wrapper(role));
BEGIN
	PERFORM quote_ident(role)::regrole, quote_ident(node)::regrole; -- They exist.
	IF octet_length(role) > 60 THEN
		PERFORM hwheel._refuse('the name of the role has more than 60 bytes');
	END IF;
	EXECUTE format('CREATE OR REPLACE FUNCTION hwheel.%I(target text, key text,
			due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS
		$f$ BEGIN PERFORM hwheel._call(target, key, due, payload); END $f$',
		hwheel._wrapper(role));
	EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', wrapper);
	EXECUTE format('ALTER FUNCTION %s OWNER TO %I', wrapper, role);
	EXECUTE format('GRANT USAGE ON SCHEMA hwheel TO %I', role);
	EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', wrapper, node);
END $$;

-- schedule_many() without the defaults. `sql` is a full name.
CREATE OR REPLACE FUNCTION hwheel._schedule_many(
	keys         text[],
	due          timestamptz[],
	payloads     jsonb[],
	sql          text,
	command      text,
	http         text,
	max_attempts int,
	backoff      interval,
	timeout      interval,
	if_exists    text,
	alone        boolean,
	run_as       name,
	headers      jsonb,
	traceparent  text,
	queue        text,
	priority     int,
	tenant       text
) RETURNS bigint LANGUAGE plpgsql SET enable_seqscan = off SET jit = off
SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
	maximum  int := (SELECT payload_limit FROM hwheel.settings);
	count    int := cardinality(keys);
	longest  int;
	model    bigint;
	begun    text[];
	written  int;
	t        hwheel.job;
	-- Of the first job, or of all. An array may begin with any subscript, and may have any dimensions.
	first    constant timestamptz := (SELECT d FROM unnest(_schedule_many.due) d LIMIT 1);
BEGIN
	IF current_setting('session_replication_role') = 'replica' THEN
		PERFORM hwheel._need_triggers();
	ELSIF count IS NULL OR _schedule_many.due IS NULL OR cardinality(_schedule_many.due) NOT IN (1, count)
		OR payloads IS NOT NULL AND cardinality(payloads) <> count THEN
		PERFORM hwheel._refuse('there is a key for each job, one due time or one for each job, '
			'and no payload or one for each job');
	ELSIF if_exists IS NULL OR if_exists NOT IN ('replace', 'keep') THEN
		PERFORM hwheel._refuse(format('if_exists is "%s", not replace or keep', if_exists));
	ELSIF EXISTS (SELECT FROM unnest(keys) k WHERE k IS NULL OR octet_length(k) NOT BETWEEN 1 AND 255) THEN
		PERFORM hwheel._refuse('a key has 1 to 255 bytes');
	ELSIF count <> (SELECT count(DISTINCT k) FROM unnest(keys) k) THEN
		PERFORM hwheel._refuse('a key is there twice');
	END IF;
	IF getdatabaseencoding() <> 'UTF8' THEN
		-- Each alone: they may have different dimensions.
		PERFORM hwheel._check_texts(keys), hwheel._check_texts(payloads::text[]);
	END IF;
	SELECT max(octet_length(p::text)) INTO longest FROM unnest(payloads) p;
	IF longest > maximum THEN
		PERFORM hwheel._refuse(format('a payload has %s bytes, more than %s', longest, maximum));
	END IF;
	PERFORM hwheel._due_time(d) FROM unnest(_schedule_many.due) d;
	IF count = 0 THEN
		RETURN 0;
	END IF;
	-- This one is checked, and shows what the others are like.
	model := hwheel.schedule('hwheel.schedule_many ' || gen_random_uuid(), now() + interval '1 year',
		_schedule_many.sql, _schedule_many.command, _schedule_many.http,
		max_attempts => _schedule_many.max_attempts, backoff => _schedule_many.backoff,
		timeout => _schedule_many.timeout, alone => _schedule_many.alone,
		run_as => _schedule_many.run_as, headers => _schedule_many.headers,
		traceparent => _schedule_many.traceparent, queue => _schedule_many.queue,
		priority => _schedule_many.priority, tenant => _schedule_many.tenant);
	DELETE FROM hwheel.job WHERE id = model RETURNING * INTO t;
	IF EXISTS (SELECT FROM hwheel.stop) THEN
		DELETE FROM hwheel.job j WHERE j.key = ANY (keys) AND j.state IN ('waiting', 'claimed')
			AND j.id = ANY (ARRAY(SELECT s.id FROM hwheel.stop s));
	END IF;
	LOOP
		IF _schedule_many.if_exists = 'replace' OR EXISTS (SELECT FROM hwheel.stop) THEN
			-- A job whose run is under way becomes the new one when that has ended.
			WITH under_way AS (
				-- No join, here and below: see take().
				SELECT j.id, j.key, w.p, greatest(coalesce(w.d, first), now()) AS d
				FROM (SELECT * FROM unnest(keys, _schedule_many.due, payloads) AS u (k, d, p) ORDER BY k) w,
					LATERAL (SELECT j.id, j.key FROM hwheel.job j WHERE j.key = w.k AND j.state = 'running'
						AND (_schedule_many.if_exists = 'replace' OR hwheel._is_over(j)) FOR UPDATE) j
			), later AS (
				UPDATE hwheel.job j SET next = to_jsonb(t) - '{id,key,state,owner,fence,attempts,runs,skipped,created_at,fired_at,finished_at,last_error,losses,paused_due,lease_until,next}'::text[]
					|| jsonb_build_object('due', u.d, 'occurrence', u.d, 'payload', u.p)
				FROM under_way u WHERE j.id = u.id RETURNING j.key
			)
			SELECT array_agg(key) INTO begun FROM later;
		END IF;
		WITH want AS (
			SELECT k, p, greatest(coalesce(d, first), now()) AS d
			FROM unnest(keys, _schedule_many.due, payloads) AS w (k, d, p)
			WHERE (k = ANY (begun)) IS NOT true
		), old AS (
			SELECT j.id, j.owner, j.fence FROM (SELECT k FROM want ORDER BY k) w,
				LATERAL (SELECT j.id, j.owner, j.fence FROM hwheel.job j WHERE j.key = w.k
					AND j.state = 'claimed' AND _schedule_many.if_exists = 'replace' FOR UPDATE) j
		), revoked AS (
			SELECT count(hwheel._revoke(owner, id, fence)) AS n FROM old
		)
		INSERT INTO hwheel.job AS j (key, due, occurrence, missed, grace, kind, target, payload,
			max_attempts, backoff, timeout, alone, run_as, headers, traceparent, queue, priority, tenant)
		SELECT w.k, w.d, w.d, t.missed, t.grace, t.kind, t.target, w.p,
			t.max_attempts, t.backoff, t.timeout, t.alone, t.run_as, t.headers, t.traceparent,
			t.queue, t.priority, t.tenant
		FROM want w, revoked r WHERE r.n >= 0 ORDER BY w.k
		ON CONFLICT (key) WHERE state IN ('waiting', 'claimed', 'running') DO UPDATE SET
			due = CASE WHEN j.paused_due IS NULL THEN excluded.due ELSE 'infinity' END,
			paused_due = CASE WHEN j.paused_due IS NOT NULL THEN excluded.due END,
			occurrence = excluded.occurrence, every = NULL, cron = NULL, zone = NULL,
			missed = excluded.missed, grace = excluded.grace, kind = excluded.kind,
			target = excluded.target, payload = excluded.payload,
			max_attempts = excluded.max_attempts, backoff = excluded.backoff,
			timeout = excluded.timeout, alone = excluded.alone, run_as = excluded.run_as,
			headers = excluded.headers, traceparent = excluded.traceparent, queue = excluded.queue,
			priority = excluded.priority, tenant = excluded.tenant, after_keys = NULL, after_key = NULL,
			tried = NULL, state = 'waiting', owner = NULL, fence = j.fence + 1,
			attempts = 0, losses = 0, last_error = NULL, fired_at = NULL, lease_until = NULL
		WHERE _schedule_many.if_exists = 'replace' AND j.state <> 'running';
		-- A run that has begun between these statements has kept its job from becoming the new one: look again.
		GET DIAGNOSTICS written = ROW_COUNT;
		EXIT WHEN _schedule_many.if_exists = 'keep' OR written + coalesce(cardinality(begun), 0) = count;
	END LOOP;
	RETURN count;
END $$;

-- Schedules many jobs that differ in their key, their due time and their payload. due is
-- one time for all, or one for each. Returns their number. The other parameters mean what
-- they mean to schedule().
CREATE OR REPLACE FUNCTION hwheel.schedule_many(
	keys         text[],
	due          timestamptz[],
	payloads     jsonb[]     DEFAULT NULL,
	sql          text        DEFAULT NULL,
	command      text        DEFAULT NULL,
	http         text        DEFAULT NULL,
	max_attempts int         DEFAULT 5,
	backoff      interval    DEFAULT '1 second',
	timeout      interval    DEFAULT '1 minute',
	if_exists    text        DEFAULT 'replace',
	alone        boolean     DEFAULT false,
	run_as       name        DEFAULT NULL,
	headers      jsonb       DEFAULT NULL,
	traceparent  text        DEFAULT NULL,
	queue        text        DEFAULT NULL,
	priority     int         DEFAULT 0,
	tenant       text        DEFAULT NULL
) RETURNS bigint LANGUAGE sql
	RETURN hwheel._schedule_many(keys COLLATE "default", due, payloads, hwheel._full_name(sql),
		command, http, max_attempts, backoff, timeout, if_exists, alone, run_as, headers,
		traceparent, queue, priority, tenant);

-- Older versions of these functions have fewer parameters. Their grants pass on.
DO $$
DECLARE
	old pg_proc;
	new regprocedure;
	grantee oid;
BEGIN
	FOR old IN SELECT * FROM pg_proc WHERE oid IN (
		to_regprocedure('hwheel.schedule(text, timestamptz, text, text, text, jsonb, interval,
			text, text, text, interval, int, interval, interval)'),
		to_regprocedure('hwheel.schedule(text, timestamptz, text, text, text, jsonb, interval,
			text, text, text, interval, int, interval, interval, text, boolean, name, jsonb, text)'),
		to_regprocedure('hwheel.schedule(text, timestamptz, text, text, text, jsonb, interval,
			text, text, text, interval, int, interval, interval, text, boolean, name, jsonb, text,
			text, int)'),
		to_regprocedure('hwheel.schedule(text, timestamptz, text, text, text, jsonb, interval,
			text, text, text, interval, int, interval, interval, text, boolean, name, jsonb, text,
			text, int, text)'),
		to_regprocedure('hwheel.schedule_many(text[], timestamptz[], jsonb[], text, text, text, int,
			interval, interval, text, boolean, name, jsonb, text, text, int)'),
		to_regprocedure('hwheel.set_queue(text, int, float8)'))
	LOOP
		SELECT oid INTO new FROM pg_proc WHERE pronamespace = 'hwheel'::regnamespace
			AND proname = old.proname AND proowner = old.proowner AND oid <> old.oid
			ORDER BY pronargs DESC LIMIT 1;
		IF old.proacl IS NOT NULL THEN
			EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', new);
			FOR grantee IN SELECT a.grantee FROM aclexplode(old.proacl) a LOOP
				EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', new,
					CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END);
			END LOOP;
		END IF;
		EXECUTE format('DROP FUNCTION %s', old.oid::regprocedure);
	END LOOP;
END $$;
DROP FUNCTION IF EXISTS
	hwheel._schedule(text, timestamptz, text, text, text, jsonb, interval, text, text, text, interval,
		int, interval, interval, text, boolean, name, jsonb, text, text, int),
	hwheel._schedule(text, timestamptz, text, text, text, jsonb, interval, text, text, text, interval,
		int, interval, interval, text, boolean, name, jsonb, text, text, int, text),
	hwheel._schedule_many(text[], timestamptz[], jsonb[], text, text, text, int, interval, interval,
		text, boolean, name, jsonb, text, text, int);

-- Headers and `next` that the table refuses now may be there since a version before 10. A request goes without
-- the headers that schedule() refuses, and a job stays what it is. A row that does not fit otherwise stays.
DO $$
DECLARE
	job hwheel.job;
	is_misfit boolean;
BEGIN
	FOR job IN SELECT j.* FROM hwheel.job j WHERE num_nonnulls(j.headers, j.next) > 0
		AND current_setting('hwheel.version_before')::int < 10
	LOOP
		BEGIN
			is_misfit := job.next IS NOT NULL AND hwheel._next_misfit(job) IS NOT NULL;
		EXCEPTION WHEN data_exception THEN
			is_misfit := true;
		END;
		CONTINUE WHEN NOT is_misfit AND hwheel._headers_error(job.headers) IS NULL;
		BEGIN
			UPDATE hwheel.job j SET next = CASE WHEN NOT is_misfit THEN j.next END, headers = (
					SELECT CASE WHEN hwheel._headers_error(f.headers) IS NULL THEN f.headers END FROM (
						SELECT jsonb_object_agg(h.key, h.value) AS headers
						FROM jsonb_each(CASE jsonb_typeof(j.headers) WHEN 'object' THEN j.headers END) h
						WHERE hwheel._headers_error(jsonb_build_object(h.key, h.value)) IS NULL) f)
				WHERE j.id = job.id;
		EXCEPTION WHEN data_exception OR integrity_constraint_violation THEN
		END;
	END LOOP;
END $$;
