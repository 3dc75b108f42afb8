-- The functions for users. Each works inside the caller's transaction: what is
-- rolled back never happened.

-- Says why a cron expression is wrong, or NULL. Five fields: minute, hour, day of
-- the month, month, day of the week; each a list of *, N or N-N, the first and the
-- last with /step; names of months and days. Or @hourly and the like. The nodes compute
-- the times (src/cron.rs); a test checks that they accept what this accepts.
CREATE OR REPLACE FUNCTION hwheel._cron_error(cron text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	field_names constant text[] := '{minute,hour,day of the month,month,day of the week}';
	lowest  constant int[] := '{0,0,1,1,0}';
	highest constant int[] := '{59,23,31,12,7}';
	months  constant text[] := '{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}';
	days    constant text[] := '{SUN,MON,TUE,WED,THU,FRI,SAT}';
	fields  text[] := regexp_split_to_array(btrim(upper(cron)), '\s+');
	item    text;
	part    text[];
	numbers int[];
BEGIN
	IF fields[1] IN ('@YEARLY', '@ANNUALLY', '@MONTHLY', '@WEEKLY', '@DAILY', '@MIDNIGHT', '@HOURLY')
		AND cardinality(fields) = 1 THEN
		RETURN NULL;
	ELSIF cardinality(fields) <> 5 THEN
		RETURN format('it has %s fields instead of five', cardinality(fields));
	END IF;
	FOR f IN 1..5 LOOP
		FOREACH item IN ARRAY string_to_array(fields[f], ',') LOOP
			part := regexp_match(item, '^(?:\*|(\d{1,2}|[A-Z]{3})(?:-(\d{1,2}|[A-Z]{3}))?)(?:/(\d{1,4}))?$');
			IF part IS NULL THEN
				RETURN format('"%s" is no %s', item, field_names[f]);
			END IF;
			FOR i IN 1..2 LOOP
				CONTINUE WHEN part[i] IS NULL;
				numbers[i] := CASE
					WHEN part[i] ~ '^\d' THEN part[i]::int
					WHEN f = 4 THEN array_position(months, part[i])
					WHEN f = 5 THEN array_position(days, part[i]) - 1 END;
				IF numbers[i] IS NULL OR numbers[i] NOT BETWEEN lowest[f] AND highest[f] THEN
					RETURN format('"%s" is no %s', part[i], field_names[f]);
				END IF;
			END LOOP;
			IF part[2] IS NOT NULL AND numbers[2] < numbers[1] THEN
				RETURN format('the range "%s" runs backwards', item);
			END IF;
			IF part[3] IS NOT NULL THEN
				IF part[1] IS NOT NULL AND part[2] IS NULL THEN
					RETURN format('"%s" has a step but no range', item);
				ELSIF part[3]::int NOT BETWEEN 1 AND highest[f] THEN
					RETURN format('"%s" has a step out of range', item);
				END IF;
			END IF;
		END LOOP;
	END LOOP;
	RETURN NULL;
END $$;

-- Whether no date matches a cron expression that is right, as with 30 February. A day
-- of the week that is not * matches in every month.
CREATE OR REPLACE FUNCTION hwheel._cron_never(cron text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	months  constant text[] := '{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}';
	lengths constant int[] := '{31,29,31,30,31,30,31,31,30,31,30,31}';
	fields  text[] := regexp_split_to_array(btrim(upper(cron)), '\s+');
	earliest int := 31;
	longest  int := 0;
	item     text;
	part     text[];
BEGIN
	IF cardinality(fields) <> 5 OR fields[5] !~ '^\*' THEN
		RETURN false;
	END IF;
	FOREACH item IN ARRAY string_to_array(fields[3], ',') LOOP
		earliest := least(earliest, coalesce(substring(item FROM '^\d+')::int, 1));
	END LOOP;
	FOREACH item IN ARRAY string_to_array(fields[4], ',') LOOP
		part := regexp_match(item, '^(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?$');
		FOR i IN 1..2 LOOP
			part[i] := coalesce(array_position(months, part[i])::text, part[i]);
		END LOOP;
		FOR m IN coalesce(part[1], '1')::int .. coalesce(part[2], part[1], '12')::int
			BY coalesce(part[3], '1')::int
		LOOP
			longest := greatest(longest, lengths[m]);
		END LOOP;
	END LOOP;
	RETURN earliest > longest;
END $$;

-- The time zones for cron expressions. The server has others, which no node knows.
CREATE OR REPLACE FUNCTION hwheel._zones() RETURNS SETOF text LANGUAGE sql STABLE AS $$
	SELECT name FROM pg_timezone_names WHERE name !~ '^(posix|right)/'
		AND name NOT IN ('Factory', 'localtime', 'posixrules');
$$;

CREATE OR REPLACE FUNCTION hwheel._check_zone(zone text) RETURNS void LANGUAGE plpgsql AS $$
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

-- Says why a request cannot have these headers, or NULL. Messages have no text of one.
CREATE OR REPLACE FUNCTION hwheel._headers_error(headers jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
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
		ELSIF lower(header.name) IN ('host', 'connection', 'content-length', 'transfer-encoding',
			'expect', 'upgrade', 'te', 'trailer', 'idempotency-key', 'traceparent', 'hwheel-due',
			'hwheel-attempt') THEN
			RETURN format('the header "%s" is set by the node', header.name);
		ELSIF jsonb_typeof(header.value) <> 'string' OR header.text !~ '^[\x20-\x7e]*$' THEN
			RETURN format('the header "%s" is no text of ASCII', header.name);
		END IF;
	END LOOP;
	IF (SELECT count(*) <> count(DISTINCT lower(name)) FROM jsonb_object_keys(headers) name) THEN
		RETURN 'a header has two texts';
	END IF;
	RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION hwheel._refuse(message text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'hwheel: %', message USING ERRCODE = 'invalid_parameter_value';
END $$;

-- A due time has to be finite. One in the past means now: the clocks of clients differ.
CREATE OR REPLACE FUNCTION hwheel._due_time(INOUT due timestamptz)
LANGUAGE plpgsql AS $$
BEGIN
	IF due IS NULL OR NOT isfinite(due) OR due > '4999-01-01' THEN
		PERFORM hwheel._refuse(format('%s is no due time', coalesce(due::text, 'NULL')));
	END IF;
	due := greatest(due, now());
END $$;

-- Tells a node that a job is no longer its own. Correctness does not need it: the
-- fence has changed.
CREATE OR REPLACE FUNCTION hwheel._revoke(owner bigint, id bigint, fence bigint) RETURNS void
LANGUAGE sql AS $$
	SELECT pg_notify('hwheel_' || owner, id || ' ' || fence) WHERE owner IS NOT NULL;
$$;

-- Schedules a job. Returns its id.
--
-- if_exists says what happens to a job that has this key and is still to run:
-- replace    it becomes the new job
-- keep       it stays as it is
-- keep_time  it becomes the new job, but its time stays, unless every, cron or zone
--            change. A run that has started counts as made.
--
-- when:  due                    once
--        every [, due]          at due (by default after one interval), and so on
--        cron [, zone] [, due]  first at due or later; zone is UTC by default
-- what:  sql       the name of a function (key text, due timestamptz, payload jsonb)
--        command   for /bin/sh -c, with the payload on its standard input
--        http      a URL; the payload is sent to it as JSON by POST
-- how:   alone     the function gets a transaction of its own
--        run_as    the role whose rights the function has; see allow_role()
--        headers   of the request: '{"Authorization": "Bearer ..."}'
--        traceparent  the trace that the job belongs to, by default the setting
--                  hwheel.traceparent. A request gets it as a header, a command as the
--                  variable TRACEPARENT, a function as that setting.
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
	traceparent  text        DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	first   timestamptz := schedule.due;
	new_due timestamptz;
	target  text := coalesce(schedule.sql, schedule.command, schedule.http);
	maximum int := (SELECT payload_limit FROM hwheel.settings);
	problem text;
	old     hwheel.job;
	new_id  bigint;
	trace   text := coalesce(schedule.traceparent,
		nullif(current_setting('hwheel.traceparent', true), ''));
BEGIN
	IF schedule.key IS NULL OR octet_length(schedule.key) NOT BETWEEN 1 AND 255 THEN
		PERFORM hwheel._refuse('a key has 1 to 255 bytes');
	ELSIF num_nonnulls(schedule.sql, schedule.command, schedule.http) <> 1 THEN
		PERFORM hwheel._refuse('a job is one of sql, command and http');
	ELSIF num_nonnulls(schedule.every, schedule.cron) > 1 THEN
		PERFORM hwheel._refuse('a job has every or cron, not both');
	ELSIF octet_length(schedule.payload::text) > maximum THEN
		PERFORM hwheel._refuse(format('the payload has %s bytes, more than %s',
			octet_length(schedule.payload::text), maximum));
	ELSIF schedule.missed IS NULL OR schedule.missed NOT IN ('skip', 'once', 'all') THEN
		PERFORM hwheel._refuse(format('missed is "%s", not skip, once or all', schedule.missed));
	ELSIF schedule.missed <> 'once' AND num_nonnulls(schedule.every, schedule.cron) = 0 THEN
		PERFORM hwheel._refuse('missed needs every or cron');
	ELSIF schedule.grace IS NULL OR schedule.grace NOT BETWEEN '0' AND '1 year' THEN
		PERFORM hwheel._refuse('grace is from 0 to 1 year');
	ELSIF schedule.max_attempts IS NULL OR schedule.max_attempts NOT BETWEEN 1 AND 100 THEN
		PERFORM hwheel._refuse('max_attempts is from 1 to 100');
	ELSIF schedule.backoff IS NULL OR schedule.backoff NOT BETWEEN '1 ms' AND '1 hour' THEN
		PERFORM hwheel._refuse('backoff is from 1 ms to 1 hour');
	ELSIF schedule.timeout IS NULL OR schedule.timeout NOT BETWEEN '1 ms' AND '1 day' THEN
		PERFORM hwheel._refuse('timeout is from 1 ms to 1 day');
	ELSIF schedule.http !~ '^https?://[^/\s]\S*$' THEN
		PERFORM hwheel._refuse(format('"%s" is no URL of http or https', schedule.http));
	ELSIF btrim(target) = '' THEN
		PERFORM hwheel._refuse('the command is empty');
	ELSIF schedule.zone IS NOT NULL AND schedule.cron IS NULL THEN
		PERFORM hwheel._refuse('a zone needs cron');
	ELSIF schedule.if_exists IS NULL OR schedule.if_exists NOT IN ('replace', 'keep', 'keep_time') THEN
		PERFORM hwheel._refuse(format('if_exists is "%s", not replace, keep or keep_time',
			schedule.if_exists));
	ELSIF schedule.alone IS NULL OR (schedule.alone OR schedule.run_as IS NOT NULL)
		AND schedule.sql IS NULL THEN
		PERFORM hwheel._refuse('alone and run_as need sql');
	ELSIF schedule.headers IS NOT NULL AND schedule.http IS NULL THEN
		PERFORM hwheel._refuse('headers need http');
	ELSIF trace !~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$' THEN
		PERFORM hwheel._refuse(format('"%s" is no traceparent', trace));
	END IF;
	problem := hwheel._headers_error(schedule.headers);
	IF problem IS NOT NULL THEN
		PERFORM hwheel._refuse(problem);
	END IF;

	-- The function is stored by its full name, so that the caller's search path
	-- decides and not a node's.
	IF schedule.sql IS NOT NULL THEN
		SELECT format('%I.%I', n.nspname, p.proname) INTO target
		FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE p.oid = to_regprocedure(schedule.sql || '(text, timestamptz, jsonb)')
			AND p.prokind = 'f';
		IF NOT FOUND THEN
			PERFORM hwheel._refuse(format(
				'there is no function %s(text, timestamptz, jsonb)', schedule.sql));
		END IF;
	END IF;

	IF schedule.cron IS NOT NULL THEN
		problem := hwheel._cron_error(schedule.cron);
		IF problem IS NOT NULL THEN
			PERFORM hwheel._refuse(format('the cron expression "%s": %s', schedule.cron, problem));
		ELSIF hwheel._cron_never(schedule.cron) THEN
			PERFORM hwheel._refuse(format('the cron expression "%s": it never occurs', schedule.cron));
		END IF;
		IF schedule.zone IS NOT NULL THEN
			PERFORM hwheel._check_zone(schedule.zone);
		END IF;
		first := coalesce(first, now());
	ELSIF schedule.every IS NOT NULL THEN
		IF NOT schedule.every BETWEEN '1 ms' AND '10 years'
			OR extract(year FROM schedule.every) <> 0 OR extract(month FROM schedule.every) <> 0 THEN
			PERFORM hwheel._refuse(format(
				'every is %s, not 1 ms or more without months and years', schedule.every));
		END IF;
		first := coalesce(first, now() + make_interval(secs => extract(epoch FROM schedule.every)::float8));
	END IF;
	IF first IS NULL THEN
		PERFORM hwheel._refuse('a job needs due, every or cron');
	END IF;
	first := hwheel._due_time(first);
	new_due := CASE WHEN schedule.cron IS NULL THEN first ELSE '-infinity' END;

	LOOP
		-- To keep a job does not wait for its function.
		IF schedule.if_exists = 'keep' THEN
			SELECT id INTO new_id FROM hwheel.job
				WHERE key = schedule.key AND state IN ('waiting', 'claimed', 'running');
			IF FOUND THEN
				RETURN new_id;
			END IF;
		END IF;
		SELECT * INTO old FROM hwheel.job
			WHERE key = schedule.key AND state IN ('waiting', 'claimed', 'running') FOR UPDATE;
		IF FOUND AND schedule.if_exists = 'keep_time' AND old.every IS NOT DISTINCT FROM schedule.every
			AND old.cron IS NOT DISTINCT FROM schedule.cron AND (schedule.cron IS NULL
				OR old.zone = coalesce(schedule.zone, 'UTC')) THEN
			IF old.state <> 'running' THEN
				first := old.occurrence;
				new_due := coalesce(old.paused_due, old.due);
			ELSIF schedule.every IS NOT NULL THEN
				first := greatest(now(), old.occurrence
					+ make_interval(secs => extract(epoch FROM schedule.every)::float8));
				new_due := first;
			END IF;
		END IF;
		INSERT INTO hwheel.job AS j (key, due, occurrence, every, cron, zone, missed, grace,
			kind, target, payload, max_attempts, backoff, timeout, alone, run_as, headers,
			traceparent)
		VALUES (schedule.key, new_due, first, schedule.every, schedule.cron,
			CASE WHEN schedule.cron IS NOT NULL THEN coalesce(schedule.zone, 'UTC') END,
			schedule.missed, schedule.grace,
			CASE WHEN schedule.sql IS NOT NULL THEN 'sql'
				WHEN schedule.command IS NOT NULL THEN 'command' ELSE 'http' END,
			target, schedule.payload, schedule.max_attempts, schedule.backoff, schedule.timeout,
			schedule.alone, schedule.run_as, schedule.headers, trace)
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
			traceparent = excluded.traceparent, state = 'waiting', owner = NULL, fence = j.fence + 1,
			attempts = 0, losses = 0, last_error = NULL
		-- Otherwise somebody else has just scheduled it: look again.
		WHERE schedule.if_exists = 'replace' OR schedule.if_exists = 'keep_time' AND old.id = j.id
		RETURNING id INTO new_id;
		EXIT WHEN new_id IS NOT NULL;
	END LOOP;
	PERFORM hwheel._revoke(old.owner, old.id, old.fence);
	RETURN new_id;
END $$;

-- Moves a job. Returns false if no job that is still to run has the key. A
-- recurrence goes on from the new time: an interval from there, cron after it.
-- A command or request that has started is not stopped.
CREATE OR REPLACE FUNCTION hwheel.move(key text, due timestamptz) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	old record;
BEGIN
	move.due := hwheel._due_time(move.due);
	SELECT id, owner, fence INTO old FROM hwheel.job
		WHERE key = move.key AND state IN ('waiting', 'claimed', 'running') FOR UPDATE;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	UPDATE hwheel.job SET occurrence = move.due, state = 'waiting',
		due = CASE WHEN paused_due IS NULL THEN move.due ELSE 'infinity' END,
		paused_due = CASE WHEN paused_due IS NOT NULL THEN move.due END,
		owner = NULL, fence = fence + 1, attempts = 0, losses = 0 WHERE id = old.id;
	PERFORM hwheel._revoke(old.owner, old.id, old.fence);
	RETURN true;
END $$;

-- Cancels a job, which is deleted. Returns false if no job that is still to run has
-- the key. A command or request that has started is not stopped.
CREATE OR REPLACE FUNCTION hwheel.cancel(key text) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	old record;
BEGIN
	DELETE FROM hwheel.job
		WHERE key = cancel.key AND state IN ('waiting', 'claimed', 'running')
		RETURNING id, owner, fence INTO old;
	PERFORM hwheel._revoke(old.owner, old.id, old.fence);
	RETURN old.id IS NOT NULL;
END $$;

-- Pauses a job: no run starts until resume(). A command or request that has started is
-- not stopped, and its outcome counts. Returns false if no job that is still to run has
-- the key.
CREATE OR REPLACE FUNCTION hwheel.pause(key text) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	old hwheel.job;
BEGIN
	SELECT * INTO old FROM hwheel.job
		WHERE key = pause.key AND state IN ('waiting', 'claimed', 'running') FOR UPDATE;
	IF NOT FOUND THEN
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
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	UPDATE hwheel.job SET paused_due = NULL,
		due = CASE WHEN state = 'running' THEN due ELSE paused_due END
	WHERE key = resume.key AND state IN ('waiting', 'claimed', 'running')
		AND paused_due IS NOT NULL;
	RETURN FOUND;
END $$;

-- Gives the last dead job of a key another life, from now. Returns false if there
-- is none. A live job with the same key is a unique violation.
CREATE OR REPLACE FUNCTION hwheel.revive(key text) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	UPDATE hwheel.job SET state = 'waiting', fence = fence + 1, attempts = 0, losses = 0,
		due = CASE WHEN due = '-infinity' THEN due ELSE clock_timestamp() END,
		finished_at = NULL
	WHERE id = (SELECT max(id) FROM hwheel.job WHERE key = revive.key AND state = 'dead');
	RETURN FOUND;
END $$;

-- Deletes the jobs that ended at least this long ago. Returns their number.
CREATE OR REPLACE FUNCTION hwheel.prune(older interval) RETURNS bigint
LANGUAGE sql AS $$
	WITH gone AS (DELETE FROM hwheel.job WHERE state IN ('done', 'dead')
		AND finished_at <= clock_timestamp() - older RETURNING 1)
	SELECT count(*) FROM gone;
$$;

-- Lets a node run jobs as a role. The wrapper is a function of that role that runs with
-- its rights: unlike after SET ROLE, the job cannot return to the rights of the node.
-- Only a superuser, or a member of the role that may create functions here, may call it.
CREATE OR REPLACE FUNCTION hwheel.allow_role(role name, node name) RETURNS void
LANGUAGE plpgsql AS $$
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

-- An older version of schedule() has fewer parameters. Its grants pass on.
DO $$
DECLARE
	old pg_proc;
	new regprocedure;
	grantee oid;
BEGIN
	SELECT * INTO old FROM pg_proc WHERE oid = to_regprocedure('hwheel.schedule(text, timestamptz,
		text, text, text, jsonb, interval, text, text, text, interval, int, interval, interval)');
	IF NOT FOUND THEN
		RETURN;
	END IF;
	SELECT oid INTO new FROM pg_proc WHERE pronamespace = 'hwheel'::regnamespace
		AND proname = 'schedule' AND proowner = old.proowner AND oid <> old.oid
		ORDER BY pronargs DESC LIMIT 1;
	IF old.proacl IS NOT NULL THEN
		EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', new);
		FOR grantee IN SELECT a.grantee FROM aclexplode(old.proacl) a LOOP
			EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', new,
				CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END);
		END LOOP;
	END IF;
	EXECUTE format('DROP FUNCTION %s', old.oid::regprocedure);
END $$;
