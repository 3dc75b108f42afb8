-- The tables of version 2: jobs that run alone or as a role, jobs under suspicion, and
-- nodes of several versions side by side.

-- Nodes whose version is lower are refused.
ALTER TABLE hwheel.settings ADD COLUMN oldest_node int NOT NULL DEFAULT 1;

-- Time zones of the server that the node does not know.
ALTER TABLE hwheel.node ADD COLUMN unknown_zones text[] NOT NULL DEFAULT '{}';

ALTER TABLE hwheel.job
	ADD COLUMN alone  boolean NOT NULL DEFAULT false, -- in a transaction of its own
	ADD COLUMN run_as name, -- the role whose rights its function has
	-- How often the job was due when its node or its connection was lost. With the
	-- second time the job is under suspicion.
	ADD COLUMN losses int NOT NULL DEFAULT 0;

UPDATE hwheel.settings SET version = 2;

-- Who writes a job that names a role has to be a member of the role, or may run jobs as
-- that role anyway, as a node does.
CREATE FUNCTION hwheel._wrapper(role name) RETURNS name LANGUAGE sql IMMUTABLE AS $$
	SELECT ('as ' || role)::name;
$$;

CREATE FUNCTION hwheel._check_role() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	wrapper oid := to_regprocedure(
		format('hwheel.%I(text, text, timestamptz, jsonb)', hwheel._wrapper(NEW.run_as)));
BEGIN
	IF wrapper IS NULL OR NOT EXISTS (SELECT FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner
		WHERE p.oid = wrapper AND p.prosecdef AND r.rolname = NEW.run_as) THEN
		RAISE EXCEPTION 'hwheel: no node may run jobs as "%": see hwheel.allow_role()', NEW.run_as
			USING ERRCODE = 'invalid_parameter_value';
	ELSIF NOT pg_has_role(NEW.run_as, 'MEMBER')
		AND NOT has_function_privilege(wrapper, 'EXECUTE') THEN
		RAISE EXCEPTION 'hwheel: % is no member of the role "%"', current_user, NEW.run_as
			USING ERRCODE = 'insufficient_privilege';
	END IF;
	RETURN NEW;
END $$;

CREATE TRIGGER check_role BEFORE INSERT OR UPDATE OF kind, target, payload, run_as ON hwheel.job
	FOR EACH ROW WHEN (NEW.run_as IS NOT NULL) EXECUTE FUNCTION hwheel._check_role();
