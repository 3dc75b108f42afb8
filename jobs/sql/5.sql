-- The tables of version 5: what a role has written runs as it, and a process proves its number.

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

UPDATE hwheel.settings SET version = 5;
