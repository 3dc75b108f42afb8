//! What the nodes and the program do with their rights, in a database whose other users are
//! careless or hostile.

mod support;

use support::{database, Database, Server};

/// A function of the schema finds nothing by a search_path that somebody else has set: it pins
/// its own, or its body was read when it was created. The few that run the functions of users
/// can do neither. The traps below are for them.
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
        "_call _call_of _cleaned _fire _full_name _run _until as pinned"
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
