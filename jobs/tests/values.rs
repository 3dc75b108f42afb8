//! Values, locales, settings and neighbours that a database may have.

mod support;

use std::net::TcpListener;
use std::time::{Duration, Instant};
use support::{database, program_in, Database, Server};

/// In Turkish the letter i has a dot as a capital, too. What is ASCII follows no locale.
#[test]
fn a_turkish_database_reads_ascii() {
    let server = Server::start();
    let db = server.database();
    let version: i32 = db.value("SELECT current_setting('server_version_num')::int");
    if version < 150_000 {
        return support::skip("a database with the locale of a library needs PostgreSQL 15");
    }
    db.execute(
        "CREATE DATABASE turkish TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C.UTF-8'
            LOCALE_PROVIDER icu ICU_LOCALE 'tr-TR'",
    );
    let turkish = Database {
        server: &server,
        url: db.url.replace("dbname=db0", "dbname=turkish"),
    };
    assert!(turkish.program(&["install"]).status.success());
    let db = turkish.with_functions();
    assert!(db.is("SELECT upper('i') <> 'I'"));
    let _node = db.node("n");
    for cron in ["@daily", "@midnight", "0 0 * * fri", "0 0 * apr-jul *"] {
        db.execute(&format!(
            "SELECT hwheel.schedule('{cron}', cron => '{cron}', sql => 'note')"
        ));
    }
    db.wait("SELECT count(*) = 4 FROM hwheel.job WHERE due > now() AND isfinite(due)");
    for (call, why) in [
        (
            "cron => '0 0 * * fr\u{131}', sql => 'note'",
            "is no day of the week",
        ),
        (
            "cron => '0 0 * * \u{17f}un', sql => 'note'",
            "is no day of the week",
        ),
        ("cron => '\u{663} 0 * * *', sql => 'note'", "is no minute"),
        ("cron => E'0\\x1c0 * * *', sql => 'note'", "4 fields"),
        (
            "now(), http => 'http://a/', headers => '{\"TRANSFER-ENCODING\": \"x\"}'",
            "is set by the node",
        ),
        (
            "now(), http => 'http://a/', headers => '{\"Idempotency-Key\": \"x\"}'",
            "is set by the node",
        ),
        (
            "now(), http => 'http://a/', headers => '{\"TRAILER\": \"x\"}'",
            "is set by the node",
        ),
        (
            "now(), http => 'http://a/', headers => '{\"via\": \"x\", \"VIA\": \"x\"}'",
            "two texts",
        ),
        ("now(), http => 'http://a/\u{663}'", "no URL"),
    ] {
        let refusal = db.refusal(&format!("SELECT hwheel.schedule('x', {call})"));
        assert!(refusal.contains(why), "{call}: {refusal}");
    }
}

/// The setting of old programs changes what a backslash means in a function's text.
#[test]
fn no_function_depends_on_standard_conforming_strings() {
    let db = database();
    db.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET standard_conforming_strings = off',
            current_database()); END $$",
    );
    let _node = db.node("n");
    db.execute(
        "SELECT hwheel.schedule('a', cron => '*/5 1,2 1-7 jan mon', sql => 'note'),
            hwheel.schedule('b', now() + interval '1 h', http => 'http://u:p@a.example:80/b',
                headers => '{\"A\": \"b\"}')",
    );
    db.wait("SELECT isfinite(due) FROM hwheel.job WHERE key = 'a'");
    let list = String::from_utf8(db.program(&["list"]).stdout).unwrap();
    assert!(list.contains("http://***@a.example:80/b"), "{list}");
}

/// A run that failed for good can be made again while its series goes on.
#[test]
fn a_dead_run_lives_again_beside_its_series() {
    let db = database();
    let _node = db.node("n");
    db.execute(
        "SELECT hwheel.schedule('r', now(), every => '1 h', sql => 'fail', max_attempts => 1)",
    );
    db.wait("SELECT count(*) = 1 FROM hwheel.job WHERE state = 'dead'");
    let id = db.number("SELECT id FROM hwheel.job WHERE state = 'dead'");
    db.execute(
        "CREATE OR REPLACE FUNCTION fail(key text, due timestamptz, payload jsonb) RETURNS void
            LANGUAGE sql AS 'INSERT INTO run VALUES (key, due, payload)'",
    );
    assert!(db.program(&["revive", "r"]).status.success());
    db.wait(&format!(
        "SELECT count(*) = 1 FROM hwheel.history WHERE key = 'r ({id})'"
    ));
    assert!(db.is("SELECT key = 'r' AND due > now() FROM hwheel.job"));
    assert!(!db.program(&["revive", "r"]).status.success());
}

/// A snapshot from before a change of the queue would break its limits.
#[test]
fn take_needs_the_level_read_committed() {
    let db = database();
    db.execute("SELECT hwheel.schedule('a', now(), queue => 'q')");
    for (level, is_right) in [
        ("read committed", true),
        ("repeatable read", false),
        ("serializable", false),
    ] {
        let sql = format!("BEGIN ISOLATION LEVEL {level}; SELECT hwheel.take('q'); ROLLBACK");
        assert_eq!(db.client().batch_execute(&sql).is_ok(), is_right, "{level}");
    }
}

/// An error of any length is stored and logged as far as a person reads it.
#[test]
fn a_long_error_is_cut() {
    let db = database();
    db.execute(
        "CREATE FUNCTION long(key text, due timestamptz, payload jsonb) RETURNS void
        LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '%', repeat('x', 1000000); END $$;
        SELECT hwheel.schedule('long', now(), sql => 'long', max_attempts => 1, alone => true),
            hwheel.schedule('short', now(), sql => 'fail', max_attempts => 1)",
    );
    db.execute(
        "CREATE OR REPLACE FUNCTION fail(key text, due timestamptz, payload jsonb) RETURNS void
        LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING MESSAGE = E'a\\x07\\xe2\\x80\\xaeb'; END $$",
    );
    let node = db.node("n");
    db.wait("SELECT count(*) = 2 FROM hwheel.job WHERE state = 'dead'");
    assert!(db
        .is("SELECT length(last_error) BETWEEN 9999 AND 10020 FROM hwheel.job WHERE key = 'long'"));
    node.wait_for_log("job 2 \"short\" is dead");
    assert!(node.log().len() < 30_000, "{}", node.log().len());
    // A mark that turns the direction of writing reorders what follows it on a terminal.
    for text in [
        node.log(),
        String::from_utf8(db.program(&["list"]).stdout).unwrap(),
    ] {
        assert!(
            text.contains("a \\u{202e}b") && !text.contains('\u{202e}'),
            "{text}"
        );
    }
}

/// A publication of all tables refuses to delete from a table whose rows have no identity.
#[test]
fn a_publication_of_all_tables_does_not_keep_the_history() {
    let server = Server::start_with(&["wal_level = logical"], &[]);
    let db = server.database().with_functions();
    db.execute("CREATE PUBLICATION everything FOR ALL TABLES");
    db.execute("SELECT hwheel.schedule('a', now(), sql => 'note')");
    let _node = db.node("n");
    db.wait("SELECT count(*) = 1 FROM hwheel.history");
    assert_eq!(db.number("SELECT hwheel.prune('0')"), 1);
}

/// Days of the history come round again after 32 days, also if no node ran in between.
#[test]
fn the_history_of_a_month_ago_does_not_stay() {
    let db = database();
    let fill = "INSERT INTO hwheel.history SELECT i, 'k' || i, 'default', 0, t, t, 'sql', 'note', NULL,
            5, 0, 1, 0, t, t, t, NULL, NULL, (floor(extract(epoch FROM t) / 86400)::bigint % 32)::int
        FROM generate_series(40, 0, -1) i, LATERAL (SELECT now() - i * interval '1 day' AS t) x";
    db.execute(fill);
    db.execute("SELECT hwheel._tend()");
    let left = db.text("SELECT string_agg(id::text, ' ' ORDER BY id) FROM hwheel.history");
    assert_eq!(left, "0 1 2 3 4 5 6 7");
}

/// A machine that is frozen accepts connections, and nobody answers.
#[test]
fn a_host_that_never_answers_is_left_for_the_next() {
    let db = database();
    let frozen = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = frozen.local_addr().unwrap().port();
    let (host, name) = (
        db.server.dir().display(),
        db.text("SELECT current_database()::text"),
    );
    for (wait, least, most) in [("connect_timeout=2", 2, 5), ("", 5, 9)] {
        let url = format!(
            "host=127.0.0.1,{host} port={port},{} user=postgres dbname={name} {wait}",
            db.server.port
        );
        let begin = Instant::now();
        let output = program_in(&["list"], &[("DATABASE_URL", &url)]);
        let time = begin.elapsed();
        assert!(output.status.success(), "{output:?}");
        let range = Duration::from_secs(least)..Duration::from_secs(most);
        assert!(range.contains(&time), "{wait}: {time:?}");
    }
    let url = format!(
        "host=127.0.0.1,{host} port={port},{} user=postgres dbname={name} connect_timeout=2",
        db.server.port
    );
    db.execute("SELECT hwheel.schedule('a', now(), sql => 'note')");
    let _node = db.spawn_in("n", &[], &[("DATABASE_URL", &url)]);
    db.wait("SELECT count(*) = 1 FROM run");
}

/// The server that a node has is still there, and accepts writes no more.
#[test]
fn a_server_that_becomes_read_only_is_left_for_another() {
    let (first, second) = (Server::start(), Server::start());
    let (old, new) = (
        first.database().with_functions(),
        second.database().with_functions(),
    );
    let url = format!(
        "host={},{} port={},{} user=postgres dbname=db0",
        first.dir().display(),
        second.dir().display(),
        first.port,
        second.port
    );
    let _node = old.spawn_in("n", &[], &[("DATABASE_URL", &url)]);
    old.wait("SELECT EXISTS (SELECT FROM hwheel.node)");
    new.execute("SELECT hwheel.schedule('a', now(), sql => 'note')");
    old.execute("ALTER SYSTEM SET default_transaction_read_only = on");
    old.execute("SELECT pg_reload_conf()");
    new.wait("SELECT count(*) = 1 FROM run");
}

/// A command that runs is not stopped. The job becomes what it is scheduled as when it ends.
#[test]
fn a_key_has_one_run_at_a_time() {
    let db = database();
    let _node = db.node("n");
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let command = |word: &str, code: i32| {
        format!(
            "command => 'echo begin {word} >> {0}; sleep 0.7; echo end {word} >> {0}; exit {code}', max_attempts => 1",
            log.display()
        )
    };
    for (code, change, runs) in [
        (
            0,
            format!("schedule('k', now(), {})", command("b", 0)),
            "aabb",
        ),
        (
            1,
            format!("schedule('k', now(), {})", command("b", 0)),
            "aabb",
        ),
        (0, "move('k', now())".to_owned(), "aaaa"),
        (
            0,
            format!(
                "schedule('k', now(), {}, if_exists => 'keep_time')",
                command("b", 0)
            ),
            "aa",
        ),
        (
            0,
            format!(
                "schedule('k', now(), {}, if_exists => 'keep')",
                command("b", 0)
            ),
            "aa",
        ),
    ] {
        let _ = std::fs::remove_file(&log);
        db.execute(&format!(
            "SELECT hwheel.schedule('k', now(), {})",
            command("a", code)
        ));
        db.wait("SELECT state = 'running' FROM hwheel.job");
        for _ in 0..3 {
            db.execute(&format!("SELECT hwheel.{change}"));
        }
        db.wait("SELECT count(*) = 0 FROM hwheel.job WHERE state <> 'dead'");
        let text = std::fs::read_to_string(&log).unwrap();
        let (mut seen, mut under_way) = (String::new(), 0);
        for line in text.lines() {
            under_way += if line.starts_with("begin") { 1 } else { -1 };
            assert!(under_way < 2, "{change}: {text}");
            seen.push_str(&line[line.len() - 1..]);
        }
        assert_eq!(seen, runs, "{change}");
        // Each run has left its end: in the history, or as a dead job.
        assert_eq!(
            db.number("SELECT count(*) FROM hwheel.all_jobs WHERE state IN ('done', 'dead')"),
            runs.len() as i64 / 2,
            "{change}"
        );
        assert_eq!(
            db.number(
                "SELECT count(*) FROM hwheel.all_jobs WHERE last_error LIKE 'exit status 1%'"
            ),
            i64::from(code)
        );
        db.execute("DELETE FROM hwheel.job; DELETE FROM hwheel.history");
    }
}

/// A limit of the database for the transactions of others is none for jobs, which have their own.
#[test]
fn a_job_outlives_the_transaction_timeout_of_the_database() {
    let db = database();
    if db.value::<i32>("SELECT current_setting('server_version_num')::int") < 170_000 {
        return support::skip("transaction_timeout needs PostgreSQL 17");
    }
    db.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET transaction_timeout = 700',
            current_database()); END $$",
    );
    db.execute(
        "CREATE FUNCTION nap(key text, due timestamptz, payload jsonb) RETURNS void
        LANGUAGE sql AS 'SELECT pg_sleep(1.5); INSERT INTO run VALUES (key)'",
    );
    let _node = db.node("n");
    db.execute(
        "SELECT hwheel.schedule('alone', now(), sql => 'nap', alone => true, max_attempts => 1),
            hwheel.schedule('batch', now(), sql => 'note')",
    );
    db.wait("SELECT count(*) = 2 FROM hwheel.history");
}

fn set(db: &Database, setting: &str) {
    db.execute(&format!(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET {setting}', current_database()); END $$"
    ));
}

/// Settings of the database change neither the meaning of the statements that install the schema, nor
/// their time, nor the place of the tables.
#[test]
fn an_installation_depends_on_no_setting_of_the_database() {
    let server = Server::start();
    let mut client = server.client();
    for sql in [
        "SET allow_in_place_tablespaces = on",
        "CREATE TABLESPACE fast LOCATION ''",
    ] {
        client.batch_execute(sql).unwrap();
    }
    for setting in [
        "standard_conforming_strings = off",
        "statement_timeout = 300",
        "default_tablespace = pg_default",
        "default_tablespace = fast",
        "quote_all_identifiers = on",
        "IntervalStyle = sql_standard",
        "DateStyle = German",
    ] {
        let db = server.database();
        // As with a large table.
        db.execute(
            "CREATE FUNCTION public.nap() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_catalog.pg_sleep(0.5); END';
            CREATE EVENT TRIGGER nap ON ddl_command_end WHEN TAG IN ('CREATE VIEW') EXECUTE FUNCTION public.nap()",
        );
        let definitions = "SELECT string_agg(d, ' ' ORDER BY d) FROM (
                SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'hwheel'::regnamespace
                    AND proname <> '_misfit' -- whose conditions have no order
                UNION ALL SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
                    WHERE relnamespace = 'hwheel'::regnamespace
                UNION ALL SELECT pg_get_constraintdef(oid) FROM pg_constraint
                    WHERE connamespace = 'hwheel'::regnamespace) x (d)";
        let expected = db.text(definitions);
        for is_upgrade in [false, true] {
            db.execute("DROP SCHEMA hwheel CASCADE");
            if is_upgrade {
                db.execute(include_str!("../sql/1.sql"));
                db.execute(include_str!("support/version-1.sql"));
            }
            set(&db, setting);
            let output = db.program(&["install"]);
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{setting}: {error}");
            let name = setting.split(' ').next().expect("a name");
            db.execute(&format!(
                "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET {name}', current_database()); END $$"
            ));
            if !is_upgrade {
                assert_eq!(db.text(definitions), expected, "{setting}");
            }
        }
    }
    let db = server.database();
    db.execute(
        "CREATE FUNCTION public.log_ddl() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO ddl_log VALUES (now()); END';
        CREATE TABLE ddl_log (at timestamptz);
        CREATE EVENT TRIGGER log_ddl ON ddl_command_end EXECUTE FUNCTION public.log_ddl()",
    );
    let output = db.program(&["install"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("\"ddl_log\" does not exist (42P01): PL/pgSQL function public.log_ddl()"),
        "{error}"
    );
}

/// A program that loads data may switch triggers off. A job that is scheduled while its run is under way
/// would be lost at the end of the run.
#[test]
fn a_session_without_triggers_is_refused() {
    let db = database();
    db.execute("SELECT hwheel.schedule('a', now(), queue => 'q')");
    let row = &db.rows("SELECT id, lease FROM hwheel.take('q')")[0];
    let job = format!("{}, {}", row.get::<_, i64>(0), row.get::<_, i64>(1));
    db.execute("SELECT hwheel.schedule('a', '2999-01-01', queue => 'q', payload => '1')");
    let calls = [
        format!("done({job})"),
        format!("fail({job})"),
        format!("snooze({job}, '1 s')"),
        "schedule('b', now(), sql => 'note')".to_owned(),
        "schedule_many('{b}', ARRAY[now()], sql => 'note')".to_owned(),
    ];
    let why = "session_replication_role is replica";
    for call in &calls {
        let refusal = db.refusal(&format!(
            "SET session_replication_role = replica; SELECT hwheel.{call}"
        ));
        assert!(refusal.contains(why), "{call}: {refusal}");
    }
    set(&db, "session_replication_role = replica");
    let mut node = db.spawn("n", &[]);
    assert!(!node.ends());
    assert!(node.log().contains(why), "{}", node.log());
    db.execute(&format!(
        "SET session_replication_role = origin; SELECT hwheel.{}",
        calls[0]
    ));
    assert!(db.is("SELECT payload = '1' AND due > now() FROM hwheel.job"));
}

/// With a kind of plan switched off, queries look so expensive to the planner that it compiles them. That
/// would take longer than a batch may.
#[test]
fn no_setting_of_the_planner_delays_a_job() {
    for setting in ["enable_nestloop = off", "enable_sort = off"] {
        let db = database();
        set(&db, setting);
        let node = db.node("n");
        for n in 0..30 {
            db.execute(&format!(
                "SELECT hwheel.schedule('a{n}', now(), sql => 'note'),
                    hwheel.schedule('b{n}', now(), sql => 'note', alone => true),
                    hwheel.schedule('c{n}', now(), sql => 'fail', max_attempts => 1)"
            ));
        }
        db.wait("SELECT count(*) = 90 FROM hwheel.all_jobs WHERE state IN ('done', 'dead')");
        let log = node.log();
        assert!(!log.contains("a batch of"), "{setting}: {log}");
        // The job has the settings of the database.
        db.execute(
            "CREATE FUNCTION look(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql
                AS 'INSERT INTO run VALUES (key, due, to_jsonb(current_setting(''jit'')))';
            SELECT hwheel.schedule('look' || n, now(), sql => 'look') FROM generate_series(1, 2) n",
        );
        db.wait("SELECT count(*) = 2 FROM run WHERE key LIKE 'look%' AND payload = to_jsonb(current_setting('jit'))");
    }
}

/// The triggers of the schema keep out what does not fit. So an installation of the same version reads no
/// jobs.
#[test]
fn an_installation_of_the_same_version_leaves_jobs_alone() {
    let db = database();
    db.execute("SELECT hwheel.schedule('a', '2999-01-01', http => 'http://a.example/')");
    db.execute(
        "SET session_replication_role = replica; UPDATE hwheel.job SET headers = '{\"Host\": \"b\"}'",
    );
    assert!(db.program(&["install"]).status.success());
    assert!(db.is("SELECT headers ? 'Host' FROM hwheel.job"));
}
