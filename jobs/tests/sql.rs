//! The SQL interface: what it accepts, what it refuses, and its transactions. No node
//! runs here.

mod support;

use postgres::fallible_iterator::FallibleIterator;
use std::thread::sleep;
use std::time::Duration;
use support::database;

const NOTE: &str = "now() + interval '1 h', sql => 'note'";

#[test]
fn a_job_that_is_rolled_back_never_existed() {
    let db = database();
    db.execute(&format!("SELECT hwheel.schedule('kept', {NOTE})"));
    db.execute(&format!(
        "BEGIN; SELECT hwheel.schedule('a', {NOTE}); SELECT hwheel.cancel('kept'); ROLLBACK"
    ));
    db.execute("BEGIN; SELECT hwheel.move('kept', now() + interval '2 h'); ROLLBACK");
    let row = &db.rows("SELECT key, due < now() + interval '1 h' FROM hwheel.job")[0];
    assert_eq!((row.get("key"), row.get(1)), ("kept", true));
    assert_eq!(db.number("SELECT count(*) FROM hwheel.job"), 1);
}

#[test]
fn a_key_names_one_live_job() {
    let db = database();
    let first: i64 = db.value(&format!("SELECT hwheel.schedule('a', {NOTE})"));
    let second: i64 =
        db.value("SELECT hwheel.schedule('a', now() + interval '2 h', command => 'true')");
    assert_eq!(first, second);
    let row =
        &db.rows("SELECT kind, target, fence, due > now() + interval '90 min' FROM hwheel.job")[0];
    assert_eq!(
        (row.get(0), row.get(1), row.get(2), row.get(3)),
        ("command", "true", 1i64, true)
    );
}

#[test]
fn move_and_cancel_say_whether_there_was_a_job() {
    let db = database();
    db.execute(&format!("SELECT hwheel.schedule('a', {NOTE})"));
    assert!(db.is("SELECT hwheel.move('a', now() + interval '3 h')"));
    assert!(!db.is("SELECT hwheel.move('b', now())"));
    assert!(db.is("SELECT hwheel.cancel('a')"));
    assert!(!db.is("SELECT hwheel.cancel('a')"));
    assert_eq!(db.number("SELECT count(*) FROM hwheel.job"), 0);
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
        db.text("SELECT target FROM hwheel.job"),
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
        ("'a', sql => 'note'", "a job needs due, every or cron"),
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
            "every is 00:00:00, not 1 ms or more",
        ),
        ("'a', every => '-1 h', sql => 'note'", "not 1 ms or more"),
        (
            "'a', every => '1 month', sql => 'note'",
            "every is 1 mon, not 1 ms or more without months and years",
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
    assert_eq!(db.number("SELECT count(*) FROM hwheel.job"), 0);
}

#[test]
fn a_wrong_cron_expression_is_refused_with_the_reason() {
    let db = database();
    for (cron, reason) in [
        ("", "it has 1 fields instead of five"),
        ("* * * *", "it has 4 fields instead of five"),
        ("0 * * * * *", "it has 6 fields instead of five"),
        ("60 * * * *", "\"60\" is no minute"),
        ("* 24 * * *", "\"24\" is no hour"),
        ("* * 0 * *", "\"0\" is no day of the month"),
        ("* * * 13 *", "\"13\" is no month"),
        ("* * * * 8", "\"8\" is no day of the week"),
        ("* * * * MOO", "\"MOO\" is no day of the week"),
        ("5-1 * * * *", "the range \"5-1\" runs backwards"),
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
    let mut listener = db.client();
    listener.batch_execute("LISTEN hwheel").unwrap();
    let mut announced = || {
        listener.batch_execute("SELECT").unwrap();
        listener.notifications().iter().count().unwrap()
    };
    let mut client = db.client();
    let mut transaction = client.transaction().unwrap();
    // The window is 2 s. These are beyond it now, and one is within it at the commit.
    transaction
        .batch_execute(
            "SELECT hwheel.schedule('soon', now() + interval '2300 ms', sql => 'note');
            SELECT hwheel.schedule('later', now() + interval '10 min', sql => 'note')",
        )
        .unwrap();
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
    assert_eq!(db.number("SELECT count(*) FROM hwheel.job"), 1);
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
    assert!(error(&["install"]).contains("the schema has version 99, newer than 3"));
    db.execute("UPDATE hwheel.settings SET version = 1");
    assert!(error(&["run"]).contains("the schema has version 1, the program 3"));
}
