//! The SQL interface: what it accepts, what it refuses, its transactions, its upgrades and
//! its rights.

mod support;

use postgres::fallible_iterator::FallibleIterator;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Barrier;
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::{database, Database, Server, Sql as _, PROGRAM};

const NOTE: &str = "now() + interval '1 h', sql => 'note'";

#[test]
fn a_job_that_is_rolled_back_never_existed() {
    let db = database();
    db.execute(&format!("SELECT hwheel.schedule('kept', {NOTE})"));
    db.execute(&format!(
        "BEGIN; SELECT hwheel.schedule('a', {NOTE}); SELECT hwheel.cancel('kept'); ROLLBACK"
    ));
    db.execute("BEGIN; SELECT hwheel.move('kept', now() + interval '2 h'); ROLLBACK");
    let row = &db.rows("SELECT key, due < now() + interval '1 h' FROM hwheel.all_jobs")[0];
    assert_eq!((row.get("key"), row.get(1)), ("kept", true));
    assert_eq!(db.number("SELECT count(*) FROM hwheel.all_jobs"), 1);
}

#[test]
fn a_key_names_one_live_job() {
    let db = database();
    let first: i64 = db.value(&format!("SELECT hwheel.schedule('a', {NOTE})"));
    let fence = db.number("SELECT fence FROM hwheel.job");
    let second: i64 =
        db.value("SELECT hwheel.schedule('a', now() + interval '2 h', command => 'true')");
    assert_eq!(first, second);
    assert_eq!(db.number("SELECT fence FROM hwheel.job"), fence + 1);
    let row = &db.rows("SELECT kind, target, due > now() + interval '90 min' FROM hwheel.job")[0];
    assert_eq!(
        (row.get(0), row.get(1), row.get(2)),
        ("command", "true", true)
    );
}

#[test]
fn move_and_cancel_say_whether_there_was_a_job() {
    let db = database();
    db.execute(&format!("SELECT hwheel.schedule('a', {NOTE})"));
    assert!(db.is("SELECT hwheel.move('a', now() + interval '3 h')"));
    assert!(!db.is("SELECT hwheel.move('b', now())"));
    assert!(db.is("SELECT hwheel.cancel('a') = 'cancelled'"));
    assert!(db.is("SELECT hwheel.cancel('a') IS NULL"));
    assert_eq!(db.number("SELECT count(*) FROM hwheel.all_jobs"), 0);
}

#[test]
fn a_function_is_stored_by_its_full_name() {
    let db = database();
    db.execute(
        "CREATE SCHEMA \"My app\";
        CREATE FUNCTION \"My app\".\"Do\"(text, timestamptz, jsonb) RETURNS int LANGUAGE sql AS 'SELECT 1';
        SET search_path = \"My app\"; SELECT hwheel.schedule('a', now(), sql => '\"Do\"')",
    );
    assert_eq!(
        db.text("SELECT target FROM hwheel.all_jobs"),
        "\"My app\".\"Do\""
    );
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let db = database();
    let call = |arguments: &str| db.refusal(&format!("SELECT hwheel.schedule({arguments})"));
    for (arguments, message) in [
        ("NULL, now(), sql => 'note'", "a key has 1 to 255 bytes"),
        ("'', now(), sql => 'note'", "a key has 1 to 255 bytes"),
        ("'a', now()", "a job is one of sql, command and http"),
        (
            "'a', now(), sql => 'note', http => 'http://x/'",
            "a job is one of sql, command and http",
        ),
        (
            "'a', sql => 'note'",
            "a job needs due, every, cron or after",
        ),
        ("'a', 'infinity', sql => 'note'", "infinity is no due time"),
        ("'a', '9999-01-01', sql => 'note'", "is no due time"),
        (
            "'a', now(), sql => 'nothing'",
            "there is no function nothing(text, timestamptz, jsonb)",
        ),
        ("'a', now(), sql => 'now(); DROP TABLE run; --'", ""),
        ("'a', now(), command => ' '", "the command is empty"),
        (
            "'a', now(), http => 'ftp://x'",
            "\"ftp://x\" is no URL of http or https",
        ),
        (
            "'a', now(), sql => 'note', payload => to_jsonb(repeat('x', 65536))",
            "the payload has 65538 bytes, more than 65536",
        ),
        (
            "'a', every => '0', sql => 'note'",
            "every is 00:00:00, not 1 ms to 3600 days",
        ),
        (
            "'a', every => '-1 h', sql => 'note'",
            "not 1 ms to 3600 days",
        ),
        (
            "'a', every => '3601 days', sql => 'note'",
            "not 1 ms to 3600 days",
        ),
        (
            "'a', every => '1 month', sql => 'note'",
            "every is 1 mon, not 1 ms to 3600 days without months and years",
        ),
        (
            "'a', every => '1 h', cron => '* * * * *', sql => 'note'",
            "a job has every or cron, not both",
        ),
        (
            "'a', cron => '* * * * *', zone => 'Europe/Atlantis', sql => 'note'",
            "there is no time zone \"Europe/Atlantis\"",
        ),
        (
            "'a', now(), zone => 'UTC', sql => 'note'",
            "a zone needs cron",
        ),
        (
            "'a', now(), sql => 'note', missed => 'all'",
            "missed needs every or cron",
        ),
        (
            "'a', every => '1 h', sql => 'note', missed => 'some'",
            "missed is \"some\", not skip, once or all",
        ),
        (
            "'a', now(), sql => 'note', max_attempts => 0",
            "max_attempts is from 1 to 100",
        ),
        (
            "'a', now(), sql => 'note', backoff => '2 h'",
            "backoff is from 1 ms to 1 hour",
        ),
        (
            "'a', now(), sql => 'note', timeout => '0'",
            "timeout is from 1 ms to 1 day",
        ),
        (
            "'a', every => '1 h', sql => 'note', grace => '-1 s'",
            "grace is from 0 to 1 year",
        ),
    ] {
        let refusal = call(arguments);
        assert!(refusal.contains(message), "{arguments}: {refusal}");
    }
    assert!(db
        .refusal("SELECT hwheel.move('a', 'infinity')")
        .contains("is no due time"));
    assert_eq!(db.number("SELECT count(*) FROM hwheel.all_jobs"), 0);
}

#[test]
fn a_wrong_cron_expression_is_refused_with_the_reason() {
    let db = database();
    for (cron, reason) in [
        ("", "it has 0 fields instead of five"),
        ("* * * *", "it has 4 fields instead of five"),
        ("0 * * * * *", "it has 6 fields instead of five"),
        ("60 * * * *", "\"60\" is no minute"),
        ("* 24 * * *", "\"24\" is no hour"),
        ("* * 0 * *", "\"0\" is no day of the month"),
        ("* * * 13 *", "\"13\" is no month"),
        ("* * * * 8", "\"8\" is no day of the week"),
        ("* * * * MOO", "\"MOO\" is no day of the week"),
        ("5-1 * * * *", "it never occurs"),
        ("0 0 * * fri-sun", "it never occurs"),
        ("0 0 * 12-1 */2", "it never occurs"),
        ("+5 * * * *", "\"+5\" is no minute"),
        ("\u{663} * * * *", "\"\u{663}\" is no minute"),
        ("0\u{a0}0 * * *", "it has 4 fields instead of five"),
        ("5/10 * * * *", "\"5/10\" has a step but no range"),
        ("*/0 * * * *", "\"*/0\" has a step out of range"),
        ("1,,2 * * * *", "\"\" is no minute"),
        ("* * L * *", "\"L\" is no day of the month"),
        ("* * * * 5#2", "\"5#2\" is no day of the week"),
        ("; * * * *", "\";\" is no minute"),
    ] {
        let refusal = db.refusal(&format!(
            "SELECT hwheel.schedule('a', cron => '{cron}', sql => 'note')"
        ));
        assert!(
            refusal.ends_with(&format!("the cron expression \"{cron}\": {reason}")),
            "{refusal}"
        );
    }
}

#[test]
fn what_is_due_soon_is_announced_when_the_transaction_commits() {
    let db = database();
    let mut listener = db.client_after("LISTEN hwheel");
    let mut announced = || {
        listener.run("SELECT");
        listener.notifications().iter().count().unwrap()
    };
    let mut client = db.client();
    let mut transaction = client.transaction().unwrap();
    // The window is 2 s. These are beyond it now, and one is within it at the commit.
    transaction.run(
        "SELECT hwheel.schedule('soon', now() + interval '2300 ms', sql => 'note');
            SELECT hwheel.schedule('later', now() + interval '10 min', sql => 'note')",
    );
    sleep(Duration::from_millis(500));
    assert_eq!(announced(), 0);
    transaction.commit().unwrap();
    assert_eq!(announced(), 1);
    db.execute("SELECT hwheel.move('later', now() + interval '9 min')");
    assert_eq!(announced(), 0);
    db.execute("SELECT hwheel.schedule('daily', cron => '0 3 * * *', sql => 'note')");
    assert_eq!(announced(), 1);
    // One notification for all that a transaction schedules at about the same time.
    db.execute("SELECT hwheel.schedule('k' || i, date_trunc('hour', now()) + interval '1 h', sql => 'note')
        FROM generate_series(1, 100) i");
    db.execute("SELECT hwheel.move('k' || i, now()) FROM generate_series(1, 100) i");
    assert_eq!(announced(), 1);
}

#[test]
fn the_schema_is_installed_again_without_harm() {
    let db = database();
    db.execute(&format!("SELECT hwheel.schedule('a', {NOTE})"));
    let output = db.program(&["install"]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(db.number("SELECT count(*) FROM hwheel.all_jobs"), 1);
    assert_eq!(
        db.text("SELECT window_length::text FROM hwheel.settings"),
        "00:00:02"
    );
}

#[test]
fn the_program_says_what_is_wrong_with_its_arguments() {
    let db = database();
    let error = |arguments: &[&str]| {
        let output = db.program(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(error(&["run", "--connections", "0"]).contains("0 is not in 1..=100"));
    assert!(error(&["run", "--kinds", "sql,ftp"]).contains("ftp"));
    assert!(error(&["--db", "host", "list"]).contains("--db"));
    assert!(error(&["--db", "host=/nowhere user=x", "list"]).contains("No such file"));
    db.execute("DROP SCHEMA hwheel CASCADE");
    assert!(error(&["run"]).contains("run hwheel-jobs install"));
    assert!(error(&["stats"]).contains("run hwheel-jobs install"));
    db.program(&["install"]);
    db.execute("UPDATE hwheel.settings SET version = 99");
    assert!(error(&["install"]).contains("the schema has version 99, newer than 10"));
    db.execute("UPDATE hwheel.settings SET version = 1");
    assert!(error(&["run"]).contains("the schema has version 1, the program 10"));
}

#[test]
fn a_time_in_the_past_means_now() {
    let db = database();
    for sql in [
        "SELECT hwheel.schedule('a', now() - interval '3 ms', sql => 'note')",
        "SELECT hwheel.schedule('a', '2020-01-01', sql => 'note', every => '1 h')",
        "SELECT hwheel.move('a', 'yesterday')",
    ] {
        db.execute(sql);
        assert!(db.is("SELECT due BETWEEN now() - interval '5 s' AND now() AND due = occurrence FROM hwheel.all_jobs"), "{sql}");
    }
}

/// As an application does each time it starts.
#[test]
fn a_job_that_is_registered_again_may_keep_its_time() {
    let db = database();
    let schedule = |arguments: &str, if_exists: &str| {
        db.execute(&format!(
            "SELECT hwheel.schedule('a', {arguments}, if_exists => '{if_exists}')"
        ));
    };
    let due = || db.text("SELECT due::text FROM hwheel.all_jobs");
    for (if_exists, target, is_kept) in [
        ("keep", "public.note", true),
        ("keep_time", "public.fail", true),
        ("replace", "public.fail", false),
    ] {
        db.execute("DELETE FROM hwheel.history; DELETE FROM hwheel.job");
        schedule("every => '3 h', sql => 'note'", if_exists);
        let first = due();
        schedule("every => '3 h', sql => 'fail'", if_exists);
        assert_eq!(due() == first, is_kept, "{if_exists}");
        assert_eq!(db.text("SELECT target FROM hwheel.all_jobs"), target);
    }
    // The missed run of a cron expression is kept too. Another rhythm has another time.
    db.execute("DELETE FROM hwheel.history; DELETE FROM hwheel.job");
    schedule("cron => '0 3 * * *', sql => 'note'", "keep_time");
    db.execute("UPDATE hwheel.job SET due = '2026-01-01', occurrence = '2026-01-01'");
    schedule(
        "cron => '0 3 * * *', zone => 'UTC', sql => 'note'",
        "keep_time",
    );
    assert!(db.is("SELECT due = '2026-01-01' FROM hwheel.all_jobs"));
    schedule("cron => '0 4 * * *', sql => 'note'", "keep_time");
    assert!(db.is("SELECT due = '-infinity' FROM hwheel.all_jobs"));
    schedule("every => '1 h', sql => 'note'", "keep_time");
    assert!(db.is("SELECT due > now() FROM hwheel.all_jobs"));
    // A command that has started has been made.
    db.execute(
        "UPDATE hwheel.job SET state = 'running', owner = 1, due = now(), occurrence = now()",
    );
    schedule("every => '1 h', command => 'true'", "keep_time");
    assert!(db.is("SELECT state = 'running' AND due <= now() FROM hwheel.all_jobs"));
    db.execute("UPDATE hwheel.job SET state = 'waiting', owner = NULL");
    assert!(
        db.is("SELECT due > now() + interval '50 min' AND state = 'waiting' FROM hwheel.all_jobs")
    );
    assert!(db
        .refusal("SELECT hwheel.schedule('a', now(), sql => 'note', if_exists => 'fail')")
        .contains("if_exists is \"fail\", not replace, keep or keep_time"));
}

#[test]
fn many_that_register_a_job_at_once_keep_one() {
    let db = database();
    for if_exists in ["keep", "keep_time"] {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| db.execute(&format!("SELECT hwheel.schedule('{if_exists}', every => '1 h', sql => 'note', if_exists => '{if_exists}')")));
            }
        });
    }
    assert_eq!(db.number("SELECT count(*) FROM hwheel.all_jobs"), 2);
    // Each change makes the fence grow. At first it is the time in milliseconds.
    assert!(db.is(
        "SELECT fence - date_part('epoch', created_at) * 1000 BETWEEN -1 AND 1 FROM hwheel.job WHERE key = 'keep'"
    ));
}

#[test]
fn a_cron_expression_that_never_occurs_is_refused() {
    let db = database();
    for cron in [
        "0 0 30 2 *",
        "0 0 31 FEB,APR,6-11/5 *",
        "0 0 31 */2,feb */2",
    ] {
        // In every other month there is a day 31: January, March and so on.
        let is_right = cron.contains("*/2,feb");
        let schedule = format!("SELECT hwheel.schedule('a', cron => '{cron}', sql => 'note')");
        if is_right {
            db.execute(&schedule);
        } else {
            assert!(db
                .refusal(&schedule)
                .ends_with(&format!("the cron expression \"{cron}\": it never occurs")));
        }
    }
    // The 29th comes in leap years, and a day of the week in every month.
    for cron in [
        "0 0 29 2 *",
        "0 0 30,1 2 *",
        "0 0 30 2 1",
        "0 0 31 2-3 *",
        "0 0 */31 2 *",
        // What Debian's cron accepts: steps beyond the range, zeros in front, white space around,
        // and a range that runs backwards next to one that does not.
        "0 */24 * * *",
        "*/60 * * * *",
        "0 0 */32 * *",
        "007 000 * * *",
        "\t0 0 * * *\n",
        "0 0 * * mon,fri-sun",
        "0 0 13 * fri-sun",
    ] {
        db.execute(&format!(
            "SELECT hwheel.schedule('a', cron => '{cron}', sql => 'note')"
        ));
    }
}

#[test]
fn six_installations_at_once_succeed() {
    let db = database();
    db.execute("DROP SCHEMA hwheel CASCADE");
    for _ in 0..2 {
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| install(&db));
            }
        });
        assert!(db.is("SELECT version = 10 FROM hwheel.settings"));
    }
}

fn install(db: &Database) {
    let output = db.program(&["install"]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
}

/// A database with the schema of version 1.
fn version_1() -> Database<'static> {
    let db = database();
    db.execute("DROP SCHEMA hwheel CASCADE");
    db.execute(include_str!("../sql/1.sql"));
    db.execute(include_str!("support/version-1.sql"));
    db
}

#[test]
fn an_installation_waits_though_nobody_can_read_that() {
    let db = database();
    let mut client = db.client();
    let mut other = client.transaction().unwrap();
    other.run("COMMENT ON SCHEMA hwheel IS 'mine'");
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut install = Command::new(PROGRAM)
        .arg("install")
        .env("DATABASE_URL", &db.url)
        .stderr(full)
        .spawn()
        .unwrap();
    sleep(Duration::from_millis(1500));
    other.rollback().unwrap();
    assert!(install.wait().unwrap().success());
}

/// The roles of a server are not in a backup of a database, so the superuser who restores it owns all.
#[test]
fn a_backup_that_was_restored_without_its_roles_is_upgraded() {
    let server = Server::start();
    let db = server.database().with_functions();
    db.execute(&format!("SELECT hwheel.schedule('before', {NOTE})"));
    server.client().run("CREATE DATABASE copy");
    let copy = server.database_named("copy");
    let restore = format!(
        "pg_dump --no-owner -d '{}' | psql -qX -v ON_ERROR_STOP=1 -d '{}'",
        db.url, copy.url
    );
    let output = Command::new("sh").args(["-c", &restore]).output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let output = copy.program(&["install"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(
        copy.text(
            "SELECT string_agg(DISTINCT proowner::regrole::text, ' ') FROM pg_proc
            WHERE pronamespace = 'hwheel'::regnamespace"
        ),
        "hwheel_owner"
    );
    let _node = copy.node("one");
    copy.execute(
        "SELECT hwheel.move('before', now()), hwheel.schedule('after', now(), sql => 'note')",
    );
    copy.wait("SELECT count(*) = 2 FROM hwheel.history");
}

#[test]
fn an_upgrade_keeps_jobs_settings_grants_and_the_functions_of_users() {
    let db = version_1();
    let role = db.text("SELECT 'upgrade_' || current_database()");
    db.execute(&format!(
        "CREATE ROLE {role} LOGIN;
        GRANT USAGE ON SCHEMA hwheel TO {role};
        REVOKE EXECUTE ON FUNCTION hwheel.cancel FROM PUBLIC;
        REVOKE EXECUTE ON FUNCTION hwheel.schedule FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION hwheel.schedule TO {role};
        CREATE FUNCTION hwheel.mine(interval) RETURNS int LANGUAGE sql AS 'SELECT 7';
        UPDATE hwheel.settings SET window_length = '3 s';
        SELECT hwheel.schedule('a', {NOTE})"
    ));
    for _ in 0..2 {
        install(&db);
        assert_eq!(
            db.number("SELECT count(*) FROM hwheel.all_jobs WHERE key = 'a'"),
            1
        );
        assert!(db.is("SELECT window_length = '3 s' AND version = 10 FROM hwheel.settings"));
        assert_eq!(db.value::<i32>("SELECT hwheel.mine('1 s')"), 7);
        assert!(db.is("SELECT count(*) = 1 FROM pg_proc WHERE proname = 'schedule' AND pronamespace = 'hwheel'::regnamespace"));
        let may = |role: &str, function: &str| {
            db.is(&format!(
                "SELECT has_function_privilege('{role}', oid, 'EXECUTE') FROM pg_proc
                WHERE proname = '{function}' AND pronamespace = 'hwheel'::regnamespace"
            ))
        };
        assert!(may(&role, "schedule"));
        assert!(!may("pg_monitor", "schedule") && !may(&role, "cancel"));
        db.execute(&format!("SELECT hwheel.schedule('b', {NOTE})"));
    }
}

/// A backup holds its lock on the tables until it ends.
#[test]
fn an_upgrade_beside_a_backup_waits_and_makes_nobody_wait_for_it() {
    let db = version_1();
    let mut backup = db.client_after("BEGIN; LOCK TABLE hwheel.job IN ACCESS SHARE MODE");
    let mut worst = Duration::ZERO;
    std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| install(&db));
        for i in 0..30 {
            let begin = Instant::now();
            db.execute(&format!("SELECT hwheel.schedule('k{i}', {NOTE})"));
            worst = worst.max(begin.elapsed());
            sleep(Duration::from_millis(100));
        }
        assert!(!upgrade.is_finished());
        backup.run("COMMIT");
    });
    assert!(worst < Duration::from_secs(1), "{worst:?}");
    assert!(db.is("SELECT count(*) = 30 AND bool_and(NOT alone) FROM hwheel.all_jobs"));

    // A database that needs no migration needs no lock on the tables.
    backup.run("BEGIN; LOCK TABLE hwheel.job IN ACCESS SHARE MODE");
    install(&db);
    backup.run("COMMIT");
}

/// Nodes of version 1 run while others schedule, the schema is upgraded, and a node of
/// version 2 enters. All of them go on.
#[test]
fn old_and_new_nodes_run_side_by_side_during_an_upgrade() {
    let db = version_1();
    db.execute("UPDATE hwheel.settings SET window_length = '2 s', lease_length = '3 s'");
    let is_over = AtomicBool::new(false);
    let half = Barrier::new(4);
    let counts: Vec<i64> = std::thread::scope(|scope| {
        let old: Vec<_> = (1..=2)
            .map(|n| {
                scope.spawn({
                    let (db, is_over) = (&db, &is_over);
                    move || old_node(db, n, is_over)
                })
            })
            .collect();
        let users: Vec<_> = (0..3)
            .map(|n| {
                let (db, half) = (&db, &half);
                scope.spawn(move || {
                    let mut client = db.client();
                    let schedule = client
                        .prepare("SELECT hwheel.schedule(key => $1, due => now(), sql => 'note')")
                        .unwrap();
                    for i in 0..700 {
                        if i == 350 {
                            half.wait();
                        }
                        client.execute(&schedule, &[&format!("u{n}-{i}")]).unwrap();
                        sleep(Duration::from_millis(5));
                    }
                })
            })
            .collect();
        sleep(Duration::from_secs(1));
        for _ in 0..4 {
            install(&db);
        }
        let _new = db.node("new");
        sleep(Duration::from_secs(1));
        // An old node may enter after the upgrade.
        let late = {
            let (db, is_over) = (&db, &is_over);
            scope.spawn(move || old_node(db, 3, is_over))
        };
        db.wait("SELECT count(*) = 4 FROM hwheel.node");
        half.wait();
        for user in users {
            user.join().unwrap();
        }
        db.wait("SELECT bool_and(state = 'done') AND count(*) = 2100 FROM hwheel.all_jobs");
        is_over.store(true, Ordering::Relaxed);
        let mut counts: Vec<i64> = old.into_iter().map(|node| node.join().unwrap()).collect();
        counts.push(late.join().unwrap());
        counts
    });
    db.all_done_once();
    let by_old: i64 = counts.iter().sum();
    assert!(
        counts.iter().all(|count| *count > 0) && by_old < 2100,
        "{counts:?}"
    );
}

/// Does with prepared statements what a node of version 1 does. Returns how many jobs it
/// has fired.
fn old_node(db: &Database, n: i32, is_over: &AtomicBool) -> i64 {
    let mut client = db.client();
    let enter = client
        .prepare("SELECT * FROM hwheel._enter($1, $2)")
        .unwrap();
    let id: i64 = client
        .query_one(&enter, &[&format!("old-{n}"), &1i32])
        .unwrap()
        .get("id");
    let claim = client
        .prepare("SELECT * FROM hwheel._claim($1, $2, $3, $4, $5, $6)")
        .unwrap();
    let fire = client
        .prepare("SELECT * FROM hwheel._fire($1, $2, $3, $4)")
        .unwrap();
    let owned = client.prepare("SELECT * FROM hwheel._owned($1)").unwrap();
    let kinds = vec!["sql".to_owned()];
    let (zero, none) = (0i64, Vec::<i64>::new());
    let mut done = 0;
    // A test that fails does not stop it.
    let end = Instant::now() + Duration::from_secs(60);
    while !is_over.load(Ordering::Relaxed) && Instant::now() < end {
        client
            .query(&claim, &[&id, &10i32, &kinds, &zero, &zero, &none])
            .unwrap();
        let jobs = client.query(&owned, &[&id]).unwrap();
        let ids: Vec<i64> = jobs.iter().map(|row| row.get("id")).collect();
        let fences: Vec<i64> = jobs.iter().map(|row| row.get("fence")).collect();
        let nexts = vec![None::<std::time::SystemTime>; ids.len()];
        let skips = vec![0i32; ids.len()];
        let rows = client
            .query(&fire, &[&ids, &fences, &nexts, &skips])
            .unwrap();
        done += rows
            .iter()
            .filter(|row| row.get::<_, &str>("outcome") == "done")
            .count() as i64;
        sleep(Duration::from_millis(20));
    }
    done
}

/// The three roles have what they need, and the block that gives it to them is the one
/// that `install --grants` prints.
#[test]
fn three_roles_can_do_their_work_and_no_more() {
    let server = Server::start();
    let db = server.database().with_functions();
    let grants = db.program(&["install", "--grants"]);
    assert!(grants.status.success());
    let grants = String::from_utf8(grants.stdout).unwrap();
    db.execute(&grants);
    db.execute(
        "CREATE ROLE app LOGIN IN ROLE hwheel_app; CREATE ROLE node LOGIN IN ROLE hwheel_node;
        CREATE ROLE reader LOGIN IN ROLE hwheel_reader; CREATE ROLE stranger LOGIN;
        REVOKE ALL ON SCHEMA public FROM PUBLIC; GRANT USAGE ON SCHEMA public TO app, node;
        GRANT INSERT ON run TO node",
    );
    let url = |role: &str| db.url.replace("user=postgres", &format!("user={role}"));
    let client = |role: &str| postgres::Client::connect(&url(role), postgres::NoTls).unwrap();
    let node = db.spawn_in("n", &[], &[("DATABASE_URL", &url("node"))]);
    db.wait("SELECT EXISTS (SELECT FROM hwheel.node)");
    client("app")
        .batch_execute(
            "SELECT hwheel.schedule('a', now(), sql => 'note');
            SELECT hwheel.schedule('b', now(), sql => 'fail', every => '1 h', max_attempts => 2, backoff => '1 ms');
            SELECT hwheel.schedule('c', now(), command => 'exit 1', max_attempts => 1);
            SELECT hwheel.schedule('d', cron => '* * * * *', zone => 'Asia/Tokyo', sql => 'note');
            SELECT hwheel.schedule('e', now() + interval '1 h', sql => 'note');
            SELECT hwheel.schedule('f', after => '{e,a}', sql => 'note');
            SELECT hwheel.schedule('g', after => '{d0}', sql => 'note'), hwheel.schedule('d0', after => '{g}', sql => 'note');
            SELECT hwheel.move('e', now() + interval '2 h'); SELECT hwheel.cancel('e')",
        )
        .unwrap();
    db.wait("SELECT count(*) = 2 FROM hwheel.all_jobs WHERE state = 'dead'");
    db.wait("SELECT count(*) = 2 FROM hwheel.history WHERE key IN ('a', 'f')");
    db.wait("SELECT due > '-infinity' FROM hwheel.all_jobs WHERE key = 'd'");
    client("app")
        .batch_execute("SELECT hwheel.revive('c'); SELECT hwheel.prune('0')")
        .unwrap();
    for arguments in [&["list"][..], &["stats"], &["show", "d"], &["show", "g"]] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_hwheel-jobs"))
            .args(arguments)
            .env("DATABASE_URL", url("reader"))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    for (role, sql) in [
        (
            "stranger",
            "SELECT hwheel.schedule('x', now(), sql => 'note')",
        ),
        (
            "reader",
            "SELECT hwheel.schedule('x', now(), sql => 'pg_catalog.now')",
        ),
        ("reader", "SELECT hwheel.cancel('d')"),
        ("reader", "SELECT headers FROM hwheel.job"),
        ("app", "UPDATE hwheel.settings SET payload_limit = 7"),
        ("app", "SELECT hwheel._enter('x', 2)"),
        ("reader", "SELECT hwheel._unblock(1)"),
        ("stranger", "SELECT hwheel._unblock(1)"),
        // What an installation locks.
        ("app", "COMMENT ON SCHEMA hwheel IS 'mine'"),
        ("node", "COMMENT ON SCHEMA hwheel IS 'mine'"),
        ("stranger", "COMMENT ON SCHEMA hwheel IS 'mine'"),
        ("node", "UPDATE hwheel.settings SET payload_limit = 7"),
    ] {
        let error = client(role).batch_execute(sql).unwrap_err();
        let code = error.code().map(|code| code.code().to_owned());
        // Denied, or the function is not to be seen.
        assert!(
            matches!(code.as_deref(), Some("42501" | "22023")),
            "{role}: {sql}: {error:?}"
        );
    }
    drop(node);
}

/// A job with a role has its rights, and cannot get back to those of the node.
#[test]
fn a_job_runs_as_the_role_that_it_names() {
    let server = Server::start();
    let db = server.database();
    db.execute(&String::from_utf8(db.program(&["install", "--grants"]).stdout).unwrap());
    db.execute(
        "CREATE ROLE app LOGIN IN ROLE hwheel_app; CREATE ROLE other LOGIN IN ROLE hwheel_app;
        CREATE ROLE node LOGIN IN ROLE hwheel_node;
        GRANT CREATE, USAGE ON SCHEMA public TO PUBLIC;
        CREATE TABLE run (key text, who text); GRANT INSERT ON run TO PUBLIC;
        CREATE TABLE secret (); GRANT SELECT ON secret TO node;
        CREATE FUNCTION who(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql AS
            'INSERT INTO run VALUES (key, current_user)';
        CREATE FUNCTION escape(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql AS
            $$ BEGIN EXECUTE payload->>0; PERFORM count(*) FROM secret; END $$;",
    );
    let url = |role: &str| db.url.replace("user=postgres", &format!("user={role}"));
    let client = |role: &str| postgres::Client::connect(&url(role), postgres::NoTls).unwrap();
    let refused = |role: &str, sql: &str| {
        let error = client(role).batch_execute(sql).unwrap_err();
        error.as_db_error().unwrap().message().to_owned()
    };
    let schedule = "SELECT hwheel.schedule('a', now(), sql => 'who', run_as => 'app')";
    assert!(refused("app", schedule).contains("no node may run jobs as \"app\""));
    db.execute("SELECT hwheel.allow_role('app', node => 'hwheel_node'); SELECT hwheel.allow_role('app', 'hwheel_node')");
    client("app").batch_execute(schedule).unwrap();
    // Another role cannot name it, nor change what runs as it.
    for sql in [
        schedule,
        "UPDATE hwheel.job SET target = 'public.evil'",
        "UPDATE hwheel.job SET payload = '{}'",
        "INSERT INTO hwheel.job SELECT (jsonb_populate_record(j, '{\"id\": 7, \"key\": \"b\"}')).* FROM hwheel.job j",
    ] {
        let message = refused("other", sql);
        assert!(message.contains("member of the role") || message.contains("column \"id\""), "{message}");
    }
    assert!(refused(
        "app",
        "SELECT hwheel.schedule('a', now(), command => 'x', run_as => 'app')"
    )
    .contains("run_as need sql"));
    client("app")
        .batch_execute(
            "SELECT hwheel.schedule('e' || n, now(), sql => 'escape', run_as => 'app', max_attempts => 1, payload => jsonb_build_array(s))
            FROM unnest('{RESET ROLE,SET ROLE node,RESET SESSION AUTHORIZATION,SELECT 1}'::text[]) WITH ORDINALITY AS x (s, n)",
        )
        .unwrap();
    client("app")
        .batch_execute(
            "SELECT hwheel.schedule('s', now(), sql => 'who', run_as => 'app', every => '1 h')",
        )
        .unwrap();
    client("other")
        .batch_execute("SELECT hwheel.schedule('n', now(), sql => 'who')")
        .unwrap();
    let _node = db.spawn_in("n", &[], &[("DATABASE_URL", &url("node"))]);
    db.wait("SELECT count(*) = 3 FROM run");
    let who = db.rows("SELECT key, who FROM run ORDER BY key");
    let who: Vec<(String, String)> = who.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [("a", "app"), ("n", "node"), ("s", "app")];
    assert_eq!(
        who,
        expected.map(|(key, who)| (key.to_owned(), who.to_owned()))
    );
    db.wait("SELECT count(*) = 4 FROM hwheel.all_jobs WHERE state = 'dead' AND key LIKE 'e%' AND last_error LIKE '%(42501)'");
}
