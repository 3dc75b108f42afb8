-- The tables of version 5: what a role has written runs as it, and a process proves its number.

-- A word that only the process knows that has entered under this number: two processes may have
-- one number after a backup was restored under nodes that run.
ALTER TABLE hwheel.node ADD COLUMN word text;

-- A job with a role: whoever writes what it runs, or revives it, is a member of the role.
DROP TRIGGER check_role ON hwheel.job;
CREATE TRIGGER check_role
	BEFORE INSERT OR UPDATE OF kind, key, target, payload, run_as, state ON hwheel.job
	FOR EACH ROW WHEN (NEW.run_as IS NOT NULL) EXECUTE FUNCTION hwheel._check_role();

-- A publication of all tables needs a way to name a row that is deleted.
DO $$ BEGIN
	FOR slot IN 0..31 LOOP
		EXECUTE format('ALTER TABLE hwheel.history_%s REPLICA IDENTITY FULL', slot);
	END LOOP;
	ALTER TABLE hwheel.history REPLICA IDENTITY FULL;
END $$;

UPDATE hwheel.settings SET version = 5;
