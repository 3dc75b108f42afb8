//! What the nodes and the program do with their rights, in a database whose other users are
//! careless or hostile.

mod support;

use support::{database, Database, Server};

/// A function of the schema finds nothing by a search_path that somebody else has set: it pins
/// its own, or its body was read when it was created. `_refuse_misfit` and `_run_fits`, which look at each
/// new row and at each run, name the schema of everything, because that costs less. The few that run the functions
/// of users can do neither. The traps below are for them.
#[test]
fn every_function_pins_its_search_path() {
    let db = database();
    db.execute("CREATE ROLE pinned; SELECT hwheel.allow_role('pinned', node => current_user)");
    let loose = db.text(
        "SELECT coalesce(string_agg(proname, ' ' ORDER BY proname), '') FROM pg_proc
        WHERE pronamespace = 'hwheel'::regnamespace AND prosqlbody IS NULL
            AND (proconfig @> '{\"search_path=pg_catalog, pg_temp\"}') IS NOT true",
    );
    assert_eq!(
        loose,
        "_call _call_of _cleaned _fire _full_name _no_transaction_timeout _refuse_misfit _run _run_fits _until as pinned"
    );
}

/// A schema `trap` that comes before pg_catalog: whatever PostgreSQL has is there too, with the
/// same name and the same parameters, and fails.
const TRAPS: &str = r#"
CREATE SCHEMA trap;
DO $do$
DECLARE
    f record;
    arguments text;
    made int := 0;
BEGIN
    FOR f IN SELECT p.*, format_type(prorettype, NULL) AS result FROM pg_proc p
        WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND NOT proretset
    LOOP
        arguments := (SELECT string_agg(CASE WHEN n = f.pronargs AND f.provariadic <> 0
                THEN CASE f.provariadic WHEN '"any"'::regtype THEN 'VARIADIC text[]'
                    ELSE 'VARIADIC ' || format_type(t, NULL) END
                ELSE format_type(t, NULL) END, ', ' ORDER BY n)
            FROM unnest(f.proargtypes::oid[]) WITH ORDINALITY AS a (t, n));
        BEGIN
            EXECUTE format('CREATE FUNCTION trap.%I(%s) RETURNS %s LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION ''the trap %s''; END $$',
                f.proname, arguments, f.result, f.proname);
            made := made + 1;
        EXCEPTION WHEN OTHERS THEN -- Types that only C functions have.
        END;
    END LOOP;
    ASSERT made > 2000, made;
    made := 0;
    FOR f IN SELECT o.*, p.proname FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode
        WHERE oprnamespace = 'pg_catalog'::regnamespace
    LOOP
        BEGIN
            EXECUTE format('CREATE OPERATOR trap.%s (FUNCTION = trap.%I, %s RIGHTARG = %s)',
                f.oprname, f.proname,
                CASE WHEN f.oprleft <> 0 THEN format('LEFTARG = %s,', format_type(f.oprleft, NULL)) END,
                format_type(f.oprright, NULL));
            made := made + 1;
        EXCEPTION WHEN undefined_function THEN
        END;
    END LOOP;
    ASSERT made > 600, made;
    FOR f IN SELECT unnest('{text,name,timestamptz,jsonb,float8,int4,int8,bool,oid,regproc,record}'::text[]) AS type LOOP
        EXECUTE format('CREATE DOMAIN trap.%I AS bytea CHECK (false)', f.type);
    END LOOP;
END $do$;
"#;

/// The owner of the database writes functions, operators and types that come before those of
/// PostgreSQL. Nodes, users and commands go on as if they were not there.
#[test]
fn functions_of_the_owner_of_the_database_catch_no_call() {
    let server = Server::start();
    let db = server.database().with_functions();
    db.execute(&String::from_utf8(db.program(&["install", "--grants"]).stdout).unwrap());
    db.execute(TRAPS);
    db.execute(
        "ALTER FUNCTION note SET search_path = public;
        CREATE ROLE boss; GRANT INSERT ON run TO boss; GRANT CREATE ON SCHEMA hwheel TO boss;
        DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = trap, public, pg_catalog',
            current_database()); END $$",
    );
    let is_set = db.refusal("SELECT octet_length('a'::pg_catalog.text)");
    assert_eq!(is_set, "the trap octet_length");
    // The eyes of this test.
    let calm = Database {
        server: &server,
        url: format!("{} options='-c search_path=public'", db.url),
    };
    let again = db.program(&["install"]);
    assert!(again.status.success(), "{again:?}");
    let node = db.spawn("n", &[]);
    for sql in [
        "hwheel.allow_role('boss', node => 'postgres')",
        "hwheel.schedule('sql', pg_catalog.now(), sql => 'note', payload => '1')",
        "hwheel.schedule('role', pg_catalog.now(), sql => 'note', run_as => 'boss')",
        "hwheel.schedule('alone', pg_catalog.now(), sql => 'note', alone => true)",
        "hwheel.schedule('trace', pg_catalog.now(), sql => 'note', traceparent =>
            '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01')",
        "hwheel.schedule('often', every => '200 ms', sql => 'note')",
        "hwheel.schedule('cron', cron => '0 0 1 1 *', zone => 'Europe/Berlin', sql => 'note')",
        "hwheel.schedule('bad', pg_catalog.now(), sql => 'fail', max_attempts => 2, backoff => '1 ms')",
        "hwheel.schedule('command', pg_catalog.now(), command => 'true')",
        "hwheel.schedule('http', pg_catalog.now(), http => 'http://127.0.0.1:9/', max_attempts => 1,
            headers => '{\"A\": \"b\"}')",
        "hwheel.schedule('limit', pg_catalog.now(), sql => 'note', queue => 'few')",
        "hwheel.set_queue('few', max_running => 1, rate => 10)",
        "hwheel.schedule_many('{m,n}', ARRAY[pg_catalog.now()], sql => 'note')",
        "hwheel.schedule('moved', pg_catalog.now(), sql => 'note', queue => 'later')",
        "hwheel.pause_queue('later')",
        "hwheel.pause('moved')",
        "hwheel.move('moved', pg_catalog.now())",
        "hwheel.resume('moved')",
        "hwheel.resume_queue('later')",
        "hwheel.listen('mail')",
        "hwheel.schedule('app', pg_catalog.now(), queue => 'mail', max_attempts => 2, backoff => '1 ms')",
        "hwheel.schedule('app2', pg_catalog.now(), queue => 'mail')",
        "hwheel.schedule('lost', pg_catalog.now(), queue => 'mail2', max_attempts => 1)",
        "hwheel.schedule('gone', '2999-01-01', sql => 'note', queue => 'never')",
        "hwheel.cancel('gone')",
    ] {
        db.execute(&format!("SELECT {sql}"));
    }
    let mut app = db.client();
    let mut take = |queue: &str, time: &str| -> (i64, i64) {
        let sql = format!("SELECT id, lease FROM hwheel.take('{queue}', 1, '{time}')");
        let row = app.query_one(&sql, &[]).unwrap();
        (row.get(0), row.get(1))
    };
    take("mail2", "1 ms");
    let (first, second) = (take("mail", "1 min"), take("mail", "1 min"));
    db.execute(&format!(
        "SELECT hwheel.extend({0}, {1}, '1 min'); SELECT hwheel.done({0}, {1});
        SELECT hwheel.fail({2}, {3}, 'no', is_final => true)",
        first.0, first.1, second.0, second.1
    ));
    let keys = |state: &str| {
        format!("(SELECT string_agg(key, ' ' ORDER BY key) FROM hwheel.all_jobs WHERE state = '{state}')")
    };
    calm.wait(&format!(
        "SELECT {} = 'alone app command limit m moved n role sql trace'
            AND {} = 'app2 bad http lost'
            AND (SELECT count(*) > 2 FROM run WHERE key = 'often')",
        keys("done"),
        keys("dead")
    ));
    for arguments in [
        &["list"][..],
        &["list", "--json"],
        &["show", "bad"],
        &["show", "bad", "--json"],
        &["stats"],
        &["stats", "--prometheus"],
        &["queues"],
        &["queue", "few", "--rate", "5"],
        &["pause", "often"],
        &["resume", "often"],
        &["move", "often", "+1 h"],
        &["cancel", "often"],
        &["revive", "bad"],
        &["prune", "0 s"],
    ] {
        let output = db.program(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
    assert!(!node.log().contains("trap"), "{}", node.log());
}

/// A database with roles: app schedules, node runs, boss is a role of jobs, mallory schedules too.
fn with_roles(server: &Server) -> Database<'_> {
    let db = server.database().with_functions();
    db.execute(&String::from_utf8(db.program(&["install", "--grants"]).stdout).unwrap());
    db.execute(
        "CREATE ROLE node LOGIN IN ROLE hwheel_node; CREATE ROLE boss LOGIN IN ROLE hwheel_app;
        CREATE ROLE mallory LOGIN IN ROLE hwheel_app; GRANT INSERT ON run TO PUBLIC;
        CREATE TABLE secret (text text); INSERT INTO secret VALUES ('of the node');
        GRANT SELECT ON secret TO node;
        CREATE TABLE loot (name text, text text); GRANT INSERT ON loot TO PUBLIC;
        CREATE SCHEMA boss AUTHORIZATION boss; GRANT USAGE ON SCHEMA boss TO PUBLIC;
        CREATE SCHEMA evil AUTHORIZATION mallory; GRANT USAGE ON SCHEMA evil TO PUBLIC;
        SELECT hwheel.allow_role('boss', node => 'hwheel_node')",
    );
    db
}

fn url(db: &Database, role: &str) -> String {
    db.url.replace("user=postgres", &format!("user={role}"))
}

fn execute_as(db: &Database, role: &str, sql: &str) -> Result<(), String> {
    let mut client = postgres::Client::connect(&url(db, role), postgres::NoTls).unwrap();
    client
        .batch_execute(sql)
        .map_err(|e| e.as_db_error().unwrap().message().to_owned())
}

/// The database refuses a statement of a role, and says why.
fn refused(db: &Database, role: &str, sql: &str, why: &str) {
    let refusal = execute_as(db, role, sql).expect_err(sql);
    assert!(refusal.contains(why), "{sql}: {refusal}");
}

const NO_MEMBER: &str = "is no member of the role";

/// A function of boss that tries to read what only the node may read.
const SPY: &str = "CREATE FUNCTION boss.spy() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    found text;
BEGIN
    BEGIN
        SELECT text INTO found FROM public.secret;
    EXCEPTION WHEN insufficient_privilege THEN
    END;
    INSERT INTO public.loot VALUES (current_user, found);
END $$;
CREATE FUNCTION boss.look(key text, due timestamptz, payload jsonb) RETURNS void
LANGUAGE sql AS 'SELECT boss.spy()';";

/// A database with roles and a job that runs as boss in an hour.
fn with_a_job_of_boss(server: &Server) -> Database<'_> {
    let db = with_roles(server);
    let schedule = "SELECT hwheel.schedule('boss', now() + interval '1 h', sql => 'boss.look', run_as => 'boss')";
    execute_as(&db, "boss", &format!("{SPY} {schedule}")).unwrap();
    db
}

/// A function of mallory that says which role runs it.
const EVIL: &str = "CREATE FUNCTION evil.f(key text, due timestamptz, payload jsonb) RETURNS void
    LANGUAGE sql AS 'INSERT INTO public.loot VALUES (current_user, NULL)';";

/// The role owns the wrapper, and may drop it.
#[test]
fn a_series_whose_wrapper_is_gone_has_dead_runs_and_goes_on() {
    let server = Server::start();
    let db = with_roles(&server);
    let schedule = "SELECT hwheel.schedule('series', every => '1 h', due => now(), sql => 'boss.look', run_as => 'boss',
            max_attempts => 1)";
    execute_as(&db, "boss", &format!("{SPY} {schedule}")).unwrap();
    let drop = "DROP FUNCTION hwheel.\"as boss\"(text, text, timestamptz, jsonb)";
    execute_as(&db, "boss", drop).unwrap();
    let dead = "INSERT INTO hwheel.job (key, state, due, occurrence, missed, grace, kind, target, max_attempts,
            backoff, timeout, run_as)
        VALUES ('forged', 'dead', now(), now(), 'once', '0', 'sql', 'evil.f', 1, '1 s', '1 s', 'boss')";
    let why = "no node may run jobs as \"boss\"";
    refused(&db, "mallory", dead, why);
    let _node = db.spawn_in("n", &[], &[("DATABASE_URL", &url(&db, "node"))]);
    db.wait("SELECT count(*) = 1 FROM hwheel.job WHERE key = 'series' AND state = 'dead'");
    db.wait("SELECT due > now() + interval '50 min' FROM hwheel.job WHERE key = 'series' AND state = 'waiting'");
    refused(&db, "boss", "SELECT hwheel.revive('series')", why);
}

/// The role owns the wrapper, and may have it run with the rights of the node.
#[test]
fn the_owner_of_a_wrapper_gets_no_right_of_the_node() {
    let server = Server::start();
    let db = with_roles(&server);
    execute_as(&db, "boss", SPY).unwrap();
    let _node = db.spawn_in("n", &[], &[("DATABASE_URL", &url(&db, "node"))]);
    let wrapper = "ALTER FUNCTION hwheel.\"as boss\"(text, text, timestamptz, jsonb)";
    let schedule = |key: &str| {
        let sql = format!(
            "SELECT hwheel.schedule('{key}', now() + interval '500 ms', sql => 'boss.look',
                run_as => 'boss', max_attempts => 1)"
        );
        execute_as(&db, "boss", &sql).unwrap();
    };
    schedule("before");
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'before'");
    db.execute("GRANT boss TO node"); // So that the node could set this role.
    for change in ["SECURITY INVOKER", "SET role = 'boss'"] {
        schedule("after");
        execute_as(&db, "boss", &format!("{wrapper} {change}")).unwrap();
        db.wait(
            "SELECT state IN ('done', 'dead') FROM hwheel.all_jobs WHERE key = 'after'
            ORDER BY id DESC LIMIT 1",
        );
        execute_as(
            &db,
            "boss",
            &format!("{wrapper} SECURITY DEFINER RESET ALL"),
        )
        .unwrap();
    }
    assert_eq!(
        db.number("SELECT count(*) FROM loot WHERE text IS NOT NULL"),
        0
    );
    assert_eq!(
        db.number("SELECT count(*) FROM loot WHERE name = 'boss'"),
        1
    );
}

/// PostgreSQL up to 17 runs a deferred trigger as the user who commits.
#[test]
fn a_deferred_trigger_gets_no_right_of_the_node() {
    let server = Server::start();
    let db = with_roles(&server);
    execute_as(
        &db,
        "boss",
        &format!(
            "{SPY} CREATE TABLE boss.honest (x int); CREATE TABLE boss.endless (x int);
            CREATE FUNCTION boss.bite() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM boss.spy(); RETURN NULL; END $$;
            CREATE FUNCTION boss.again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                PERFORM boss.spy();
                SET CONSTRAINTS ALL DEFERRED;
                INSERT INTO boss.endless VALUES (1);
                RETURN NULL;
            END $$;
            CREATE CONSTRAINT TRIGGER bite AFTER INSERT ON boss.honest DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION boss.bite();
            CREATE CONSTRAINT TRIGGER again AFTER INSERT ON boss.endless DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION boss.again();
            CREATE FUNCTION boss.honest(key text, due timestamptz, payload jsonb) RETURNS void
                LANGUAGE sql AS 'INSERT INTO boss.honest VALUES (1)';
            CREATE FUNCTION boss.endless(key text, due timestamptz, payload jsonb) RETURNS void
                LANGUAGE sql AS 'INSERT INTO boss.endless VALUES (1)';
            SELECT hwheel.schedule(f, now(), sql => 'boss.' || f, run_as => 'boss', max_attempts => 1)
                FROM unnest('{{honest,endless}}'::text[]) f"
        ),
    )
    .unwrap();
    let _node = db.spawn_in("n", &[], &[("DATABASE_URL", &url(&db, "node"))]);
    db.wait("SELECT bool_and(state IN ('done', 'dead')) FROM hwheel.all_jobs");
    assert_eq!(
        db.number("SELECT count(*) FROM loot WHERE text IS NOT NULL"),
        0
    );
    assert_eq!(
        db.number("SELECT count(*) FROM loot WHERE name = 'boss'"),
        1
    );
    assert!(db.is("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'honest'"));
    assert!(db.is("SELECT last_error LIKE '%defer others%' FROM hwheel.job WHERE key = 'endless'"));
}

/// A trigger may empty or drop a table that the job has written before. The node still notices that the
/// trigger has written.
#[test]
fn a_deferred_trigger_hides_no_write_behind_a_table_that_is_emptied() {
    let server = Server::start();
    let db = with_roles(&server);
    let ways = [
        ("empties", "TRUNCATE boss.empties_before"),
        ("drops", "DROP TABLE boss.drops_before"),
        ("disarms", "DROP TRIGGER nothing ON boss.disarms_before"),
    ];
    execute_as(
        &db,
        "boss",
        &format!(
            "{SPY} CREATE FUNCTION boss.nothing() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RETURN NULL; END $$;
            CREATE FUNCTION boss.bite() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM boss.spy(); RETURN NULL; END $$;"
        ),
    )
    .unwrap();
    for (way, hide) in ways {
        execute_as(
            &db,
            "boss",
            &format!(
                "CREATE TABLE boss.{way}_before (x int); CREATE TABLE boss.{way}_first (x int);
                CREATE TABLE boss.{way}_second (x int);
                CREATE FUNCTION boss.{way}_again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    SET CONSTRAINTS ALL DEFERRED;
                    INSERT INTO boss.{way}_second VALUES (1);
                    {hide};
                    RETURN NULL;
                END $$;
                CREATE CONSTRAINT TRIGGER nothing AFTER INSERT ON boss.{way}_before DEFERRABLE
                    FOR EACH ROW EXECUTE FUNCTION boss.nothing();
                CREATE CONSTRAINT TRIGGER again AFTER INSERT ON boss.{way}_first
                    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION boss.{way}_again();
                CREATE CONSTRAINT TRIGGER bite AFTER INSERT ON boss.{way}_second
                    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION boss.bite();
                CREATE FUNCTION boss.{way}(key text, due timestamptz, payload jsonb) RETURNS void
                    LANGUAGE sql AS 'INSERT INTO boss.{way}_before VALUES (1);
                        INSERT INTO boss.{way}_first VALUES (1)';
                SELECT hwheel.schedule('{way}', now(), sql => 'boss.{way}', run_as => 'boss', max_attempts => 1)"
            ),
        )
        .unwrap();
    }
    let _node = db.spawn_in("n", &[], &[("DATABASE_URL", &url(&db, "node"))]);
    db.wait("SELECT bool_and(state IN ('done', 'dead')) FROM hwheel.all_jobs");
    let spies =
        "SELECT coalesce(string_agg(name || ' ' || coalesce(text, '-'), ', '), '') FROM loot";
    assert_eq!(db.text(spies), "boss -, boss -, boss -");
    assert!(db.is("SELECT count(*) = 3 FROM hwheel.history"));
}

/// Another user brings no function of his into the role: not by a search_path, not through a
/// plain job, which may call the wrapper, and not by a dead job that somebody revives.
#[test]
fn only_a_member_of_a_role_runs_anything_in_it() {
    let server = Server::start();
    let db = with_roles(&server);
    execute_as(
        &db,
        "mallory",
        &format!(
            "{EVIL}
        CREATE FUNCTION evil.pg_has_role(name, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE FUNCTION evil.call(key text, due timestamptz, payload jsonb) RETURNS void
            LANGUAGE plpgsql AS
            $$ BEGIN PERFORM hwheel.\"as boss\"('evil.f', key, due, payload); END $$;
        CREATE FUNCTION evil.dead(key text, due timestamptz, payload jsonb) RETURNS void
            LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO hwheel.job (key, state, due, occurrence, missed, grace, kind, target,
                    max_attempts, backoff, timeout, run_as, finished_at)
                VALUES ('zombie', 'dead', now(), now(), 'once', '1 min', 'sql', 'evil.f', 1, '1 s',
                    '1 min', 'boss', now());
            END $$;
        SELECT hwheel.schedule('call', now(), sql => 'evil.call', max_attempts => 1),
            hwheel.schedule('dead', now(), sql => 'evil.dead', max_attempts => 1)"
        ),
    )
    .unwrap();
    let by_path = "SET search_path = evil, pg_catalog;
        SELECT hwheel.schedule('path', now(), sql => 'evil.f', run_as => 'boss')";
    refused(&db, "mallory", by_path, NO_MEMBER);
    let _node = db.spawn_in("n", &[], &[("DATABASE_URL", &url(&db, "node"))]);
    db.wait("SELECT count(*) = 3 AND bool_and(state IN ('done', 'dead')) FROM hwheel.all_jobs");
    refused(&db, "mallory", "SELECT hwheel.revive('zombie')", NO_MEMBER);
    execute_as(&db, "boss", "SELECT hwheel.revive('zombie')").unwrap();
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'zombie'");
    assert!(db.is("SELECT last_error LIKE '%no job that is under way%' FROM hwheel.job"));
    assert_eq!(db.number("SELECT count(*) FROM loot"), 1);
}

/// A row names its call in its columns and in `next`. Neither of them hides the other from the check.
#[test]
fn only_a_member_of_a_role_writes_what_a_job_is_to_become() {
    let server = Server::start();
    let db = with_a_job_of_boss(&server);
    execute_as(
        &db,
        "mallory",
        &format!("{EVIL} SELECT hwheel.schedule('mine', now() + interval '1 h', sql => 'evil.f')"),
    )
    .unwrap();
    let insert = |run_as: &str, next: &str| {
        format!(
            "INSERT INTO hwheel.job (key, due, occurrence, missed, grace, kind, target, max_attempts, backoff,
                timeout, run_as, next) VALUES ('new', now(), now(), 'once', '1 min', 'sql', 'evil.f', 1, '1 s',
                '1 min', {run_as}, '{next}')"
        )
    };
    let update = |key: &str, set: &str| format!("UPDATE hwheel.job SET {set} WHERE key = '{key}'");
    // This `next` repeats the row, so anybody may write it. Then the rest of the row must not change.
    execute_as(
        &db,
        "mallory",
        &update("boss", r#"next = '{"run_as": "boss"}'"#),
    )
    .unwrap();
    for sql in [
        update("mine", r#"run_as = 'boss', next = '{"run_as": null}'"#),
        update("mine", r#"next = '{"run_as": "boss"}'"#),
        update("boss", "run_as = NULL, target = 'evil.f'"),
        update("boss", r#"next = '{"target": "evil.f"}'"#),
        insert("'boss'", r#"{"run_as": null}"#),
        insert("NULL", r#"{"run_as": "boss"}"#),
    ] {
        refused(&db, "mallory", &sql, NO_MEMBER);
    }
    let _node = db.spawn_in("n", &[], &[("DATABASE_URL", &url(&db, "node"))]);
    execute_as(
        &db,
        "mallory",
        "SELECT hwheel.move('boss', now()), hwheel.move('mine', now())",
    )
    .unwrap();
    db.wait("SELECT count(*) = 2 FROM hwheel.history");
    let loot = "SELECT string_agg(name, ' ' ORDER BY name) FROM loot";
    assert_eq!(db.text(loot), "boss node");
}

/// A superuser who installs leaves nothing that runs as a superuser.
#[test]
fn the_schema_belongs_to_a_role_that_can_do_nothing_else() {
    let server = Server::start();
    let owners = "SELECT string_agg(DISTINCT o::regrole::text, ' ') FROM (
            SELECT relowner FROM pg_class WHERE relnamespace = 'hwheel'::regnamespace
            UNION ALL SELECT typowner FROM pg_type WHERE typnamespace = 'hwheel'::regnamespace
            UNION ALL SELECT proowner FROM pg_proc WHERE pronamespace = 'hwheel'::regnamespace
                AND proname <> 'mine'
            UNION ALL SELECT nspowner FROM pg_namespace WHERE nspname = 'hwheel'
        ) x (o)";
    let db = server.database();
    assert_eq!(db.text(owners), "hwheel_owner");
    // An older program has installed as a superuser, and the superuser has a function there.
    db.execute("DROP SCHEMA hwheel CASCADE");
    db.execute(include_str!("../sql/1.sql"));
    db.execute(include_str!("support/version-1.sql"));
    db.execute(
        "CREATE FUNCTION hwheel.mine() RETURNS text LANGUAGE sql SECURITY DEFINER
            AS 'SELECT current_user::text'",
    );
    assert_eq!(db.text(owners), "postgres");
    assert!(db.program(&["install"]).status.success());
    assert_eq!(db.text(owners), "hwheel_owner");
    assert_eq!(db.text("SELECT hwheel.mine()"), "postgres");
    assert!(db.is("SELECT NOT rolsuper AND NOT rolcanlogin
            AND NOT has_database_privilege(oid, current_database(), 'CREATE')
        FROM pg_roles WHERE rolname = 'hwheel_owner'"));
    let node = db.node("n");
    node.wait_for_log("is a superuser of the database");
    // The owner of a database, who is no superuser, installs and runs as himself.
    db.execute("CREATE ROLE shop LOGIN");
    db.execute("CREATE DATABASE shop OWNER shop");
    let shop = Database {
        server: &server,
        url: url(&db, "shop").replace("dbname=db0", "dbname=shop"),
    };
    assert!(shop.program(&["install"]).status.success());
    assert_eq!(shop.text(owners), "shop");
    let node = shop.with_functions().node("n");
    db.execute("SELECT pg_sleep(0.3)");
    assert!(!node.log().contains("superuser"), "{}", node.log());
}

/// A trigger function with the rights of the owner of the schema serves its own table alone. A role that
/// may only read the schema can have temporary tables, and types with casts.
#[test]
fn no_trigger_of_the_schema_serves_the_table_of_somebody_else() {
    let server = Server::start();
    let db = with_roles(&server);
    db.execute("CREATE ROLE watcher LOGIN IN ROLE hwheel_reader");
    let columns = db.text(
        "SELECT string_agg(format('%I %s', attname, format_type(atttypid, NULL)), ', ' ORDER BY attnum)
        FROM pg_attribute WHERE attrelid = 'hwheel.job'::regclass AND attnum > 0 AND NOT attisdropped",
    );
    let functions = db.text(
        "SELECT string_agg(proname, ' ') FROM pg_proc WHERE pronamespace = 'hwheel'::regnamespace
            AND prosecdef AND prorettype = 'trigger'::regtype",
    );
    assert_eq!(functions, "_follow");
    let row = "INSERT INTO pg_temp.mine (id, key, state, next, due, occurrence, missed, grace, kind, target,
            max_attempts, backoff, timeout, alone, run_as, queue, priority)
        VALUES (1, 'mine', 'running', '{}', now(), now(), 'once', '1 min', 'sql', 'boss.look', 1, '1 s', '1 min',
            false, 'boss', 'default', 0);
        DELETE FROM pg_temp.mine";
    let table = format!("CREATE TEMP TABLE mine ({columns});");
    let trigger =
        "CREATE TRIGGER t AFTER DELETE ON mine FOR EACH ROW EXECUTE FUNCTION hwheel._follow();";
    refused(
        &db,
        "watcher",
        &format!("{table} {trigger} {row}"),
        "permission denied for function hwheel._follow",
    );
    // The trigger may be older than the refusal. A cast would run with the rights of the function.
    db.execute("GRANT EXECUTE ON FUNCTION hwheel._follow() TO watcher");
    let cast = "CREATE FUNCTION pg_temp.cast(mine) RETURNS hwheel.job LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'the cast runs as %', current_user; END $$;
        CREATE CAST (mine AS hwheel.job) WITH FUNCTION pg_temp.cast(mine) AS IMPLICIT;";
    for cast in ["", cast] {
        refused(
            &db,
            "watcher",
            &format!("{table} {cast} {trigger} {row}"),
            "this trigger is for the table of jobs",
        );
    }
    assert_eq!(db.number("SELECT count(*) FROM hwheel.job"), 0);
}

/// The members of a role decide how often its job runs.
#[test]
fn only_a_member_of_a_role_makes_its_job_recur() {
    let server = Server::start();
    let db = with_a_job_of_boss(&server);
    for set in [
        "every = '1 s'",
        "cron = '* * * * *', zone = 'UTC'",
        r#"next = '{"every": "1 s"}'"#,
    ] {
        let sql = format!("UPDATE hwheel.job SET {set}");
        refused(&db, "mallory", &sql, NO_MEMBER);
    }
    execute_as(
        &db,
        "mallory",
        "SELECT hwheel.move('boss', now() + interval '2 h')",
    )
    .unwrap();
    execute_as(&db, "boss", "UPDATE hwheel.job SET every = '1 s'").unwrap();
}

/// A role owns its wrapper, and may drop it at any time.
#[test]
fn a_role_that_is_gone_keeps_no_lease_of_others_from_running_out() {
    let server = Server::start();
    let db = with_roles(&server);
    db.execute(
        "SELECT hwheel.schedule(k, now(), queue => 'q', max_attempts => 1) FROM unnest('{theirs,other}'::text[]) k",
    );
    assert_eq!(db.rows("SELECT FROM hwheel.take('q', 2, '1 s')").len(), 2);
    execute_as(
        &db,
        "boss",
        &format!(
            "{SPY} SELECT hwheel.schedule('theirs', now(), sql => 'boss.look', run_as => 'boss');
            DROP FUNCTION hwheel.\"as boss\"(text, text, timestamptz, jsonb)"
        ),
    )
    .unwrap();
    let _node = db.spawn_in("n", &[], &[("DATABASE_URL", &url(&db, "node"))]);
    db.wait("SELECT count(*) = 2 FROM hwheel.job WHERE state = 'dead' AND last_error = 'the lease ran out'");
    db.wait("SELECT count(*) = 1 FROM hwheel.job WHERE run_as = 'boss' AND last_error LIKE '%does not exist%'");
}

/// A role that may insert rows cannot choose the number of a later job. That job could not be scheduled.
#[test]
fn nobody_takes_the_numbers_of_jobs_to_come() {
    let server = Server::start();
    let db = with_roles(&server);
    let row = |what: &str, id: &str| {
        format!(
            "INSERT INTO hwheel.job ({what} key, due, occurrence, missed, grace, kind, target, max_attempts, backoff,
                timeout) OVERRIDING SYSTEM VALUE SELECT {id} 'k' || g, now() + interval '1 h', now(), 'once', '1 min',
                'sql', 'note', 1, '1 s', '1 min' FROM generate_series(1, 3) g"
        )
    };
    refused(
        &db,
        "mallory",
        &row("id,", "g,"),
        "violates check constraint \"job_id_fits\"",
    );
    execute_as(&db, "mallory", &row("", "")).unwrap();
    // As when a backup is restored.
    db.execute("DELETE FROM hwheel.job");
    db.execute(&row("id,", "100 + g,"));
    execute_as(
        &db,
        "boss",
        "SELECT hwheel.schedule('k', now(), sql => 'note')",
    )
    .unwrap();
    assert_eq!(
        db.number("SELECT count(*) FROM hwheel.job WHERE id < 100"),
        1
    );
    // A restore may lose grants.
    db.execute("REVOKE SELECT ON SEQUENCE hwheel.job_id_seq FROM PUBLIC");
    execute_as(
        &db,
        "boss",
        "SELECT hwheel.schedule('l', now(), sql => 'note')",
    )
    .unwrap();
}

/// A user may have another role by default, so that what it makes belongs to that role.
#[test]
fn a_node_runs_jobs_with_roles_though_its_user_has_a_role_by_default() {
    let server = Server::start();
    let db = with_roles(&server);
    db.execute(
        "CREATE ROLE team; GRANT hwheel_node TO team; GRANT team TO node; ALTER ROLE node SET role = team;
        CREATE FUNCTION boss.look(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql
            AS 'INSERT INTO public.loot VALUES (key, current_user)';",
    );
    let _node = Database {
        server: &server,
        url: url(&db, "node"),
    }
    .node("n");
    for key in ["a", "b"] {
        db.execute(&format!(
            "SELECT hwheel.schedule('{key}', now(), sql => 'boss.look', max_attempts => 1),
                hwheel.schedule('{key} boss', now(), sql => 'boss.look', run_as => 'boss', max_attempts => 1)"
        ));
        db.wait("SELECT count(*) = 0 FROM hwheel.job");
    }
    assert_eq!(
        db.text("SELECT string_agg(name || ': ' || text, ', ' ORDER BY name) FROM loot"),
        "a: node, a boss: boss, b: node, b boss: boss"
    );
}

/// The node catches errors, and such a setting makes each error the end of its session.
#[test]
fn an_error_ends_no_session_of_a_node_whatever_the_database_says() {
    let server = Server::start();
    let db = with_roles(&server);
    db.execute(
        "CREATE FUNCTION boss.look(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql
            AS 'INSERT INTO public.loot VALUES (key, current_user)';
        CREATE FUNCTION boss.fail(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql
            AS $$ BEGIN RAISE 'no'; END $$;
        DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET exit_on_error = on', current_database()); END $$;",
    );
    let node = Database {
        server: &server,
        url: url(&db, "node"),
    }
    .node("n");
    for key in ["a", "b"] {
        db.execute(&format!(
            "SELECT hwheel.schedule('{key} boss ' || f, now(), sql => 'boss.' || f, run_as => 'boss',
                max_attempts => 1) FROM unnest('{{look,fail}}'::text[]) f;
            SELECT hwheel.schedule('{key} ' || f, now(), sql => 'boss.' || f, max_attempts => 1)
                FROM unnest('{{look,fail}}'::text[]) f"
        ));
        db.wait("SELECT count(*) = 0 FROM hwheel.job WHERE state <> 'dead'");
    }
    let errors = "SELECT string_agg(DISTINCT last_error, ' ') || count(*) FROM hwheel.job";
    assert_eq!(db.text(errors), "no (P0001)4");
    assert_eq!(db.number("SELECT count(*) FROM loot"), 4);
    assert!(!node.log().contains("FATAL"), "{}", node.log());
}
