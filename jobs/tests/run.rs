//! Jobs that run: both kinds, recurrence, and changes inside and outside the window.

mod support;

use std::io::{Read, Write};
use std::time::Duration;
use support::{database, Database};

/// Runs of the job that are recorded in the table `run`.
fn runs(db: &Database, key: &str) -> i64 {
    db.value(&format!("SELECT count(*) FROM run WHERE key = '{key}'"))
}

#[test]
fn a_function_gets_its_job_and_runs_once_and_never_early() {
    let db = database();
    let _node = db.node("one");
    // Within the window, beyond it, and due at once.
    db.execute(
        "SELECT hwheel.schedule('near', now() + interval '700 ms', sql => 'note', payload => '{\"a\": 1}');
        SELECT hwheel.schedule('far', now() + interval '3 s', sql => 'note');
        SELECT hwheel.schedule('now', now(), sql => 'note')",
    );
    db.wait("SELECT count(*) = 3 FROM hwheel.job WHERE state = 'done'");
    for key in ["near", "far", "now"] {
        assert_eq!(runs(&db, key), 1);
    }
    let exact = "SELECT bool_and(r.due = j.due AND r.at >= j.due AND j.fired_at >= j.due
        AND r.payload IS NOT DISTINCT FROM j.payload) FROM run r JOIN hwheel.job j USING (key)";
    assert!(db.is(exact));
    db.none_later_than(1.0);
}

#[test]
fn many_jobs_run_once_each_on_two_nodes() {
    let db = database();
    let (_a, _b) = (db.node("a"), db.node("b"));
    db.execute(
        "SELECT hwheel.schedule('k' || i, now() + i * interval '1 ms', sql => 'note')
        FROM generate_series(1, 3000) i",
    );
    db.wait("SELECT count(*) = 3000 FROM hwheel.job WHERE state = 'done'");
    let row = &db.rows("SELECT count(*), count(DISTINCT key), bool_and(at >= due) FROM run")[0];
    assert_eq!(
        (row.get(0), row.get(1), row.get(2)),
        (3000i64, 3000i64, true)
    );
}

#[test]
fn a_function_that_fails_leaves_nothing_and_is_dead_in_the_end() {
    let db = database();
    let _node = db.node("one");
    db.execute(
        "SELECT hwheel.schedule('bad', now(), sql => 'fail', max_attempts => 3, backoff => '100 ms');
        SELECT hwheel.schedule('good' || i, now(), sql => 'note') FROM generate_series(1, 20) i",
    );
    db.wait("SELECT count(*) = 20 FROM hwheel.job WHERE state = 'done'");
    db.wait("SELECT state = 'dead' FROM hwheel.job WHERE key = 'bad'");
    let row = &db.rows(
        "SELECT attempts, last_error, finished_at - created_at FROM hwheel.job WHERE key = 'bad'",
    )[0];
    assert_eq!((row.get(0), row.get(1)), (3, "it does not work (P0001)"));
    assert_eq!(runs(&db, "bad"), 0);
    // 100 ms and 200 ms, each less a fifth at most.
    assert!(
        db.is("SELECT fired_at - created_at > interval '240 ms' FROM hwheel.job WHERE key = 'bad'")
    );

    // The cause is repaired, and the job is revived.
    db.execute(
        "CREATE OR REPLACE FUNCTION fail(key text, due timestamptz, payload jsonb) RETURNS void
        LANGUAGE sql AS 'INSERT INTO run VALUES (key, due, payload)'",
    );
    assert!(db.is("SELECT hwheel.revive('bad')"));
    db.wait("SELECT state = 'done' FROM hwheel.job WHERE key = 'bad'");
    assert_eq!(runs(&db, "bad"), 1);
    assert!(!db.is("SELECT hwheel.revive('bad')"));
    assert_eq!(db.number("SELECT hwheel.prune('0')"), 21);
}

#[test]
fn a_function_may_schedule_move_and_cancel_jobs_its_own_too() {
    let db = database();
    db.execute(
        "CREATE FUNCTION chain(key text, due timestamptz, payload jsonb) RETURNS void
        LANGUAGE plpgsql AS $$ BEGIN
            PERFORM note(key, due, payload);
            IF payload::int < 3 THEN
                PERFORM hwheel.schedule(key, now(), sql => 'chain', payload => to_jsonb(payload::int + 1));
            ELSE
                PERFORM hwheel.cancel('victim');
            END IF;
        END $$;
        CREATE FUNCTION nap(key text, due timestamptz, payload jsonb) RETURNS void
        LANGUAGE sql AS 'SELECT pg_sleep(0.5)';
        BEGIN;
        SELECT hwheel.schedule('chain', now() + interval '300 ms', sql => 'chain', payload => '1');
        -- While one connection naps the two after it become a batch.
        SELECT hwheel.schedule('nap', now() + interval '1500 ms', sql => 'nap');
        SELECT hwheel.schedule('killer', now() + interval '1600 ms', sql => 'chain', payload => '3');
        SELECT hwheel.schedule('victim', now() + interval '1610 ms', sql => 'note');
        COMMIT",
    );
    let _node = db.node_with("one", &["--connections", "1"]);
    db.wait("SELECT count(*) = 4 FROM run");
    db.wait("SELECT bool_and(state = 'done') FROM hwheel.job");
    assert_eq!(
        (runs(&db, "chain"), runs(&db, "killer"), runs(&db, "victim")),
        (3, 1, 0)
    );
}

#[test]
fn a_function_that_takes_too_long_fails_alone() {
    let db = database();
    let _node = db.node("one");
    db.execute(
        "CREATE FUNCTION hang(key text, due timestamptz, payload jsonb) RETURNS void
        LANGUAGE sql AS 'SELECT pg_sleep(60)';
        BEGIN;
        SELECT hwheel.schedule('hang', now() + interval '500 ms', sql => 'hang', timeout => '300 ms', max_attempts => 1);
        SELECT hwheel.schedule('good', now() + interval '500 ms', sql => 'note', timeout => '300 ms');
        COMMIT",
    );
    db.wait("SELECT count(*) = 2 FROM hwheel.job WHERE state IN ('done', 'dead')");
    let error: String = db.value("SELECT last_error FROM hwheel.job WHERE key = 'hang'");
    assert!(error.contains("statement timeout"), "{error}");
    assert_eq!(runs(&db, "good"), 1);
}

#[test]
fn a_job_that_somebody_has_locked_waits_and_holds_up_no_other() {
    let db = database();
    let _node = db.node("one");
    db.execute(
        "SELECT hwheel.schedule(key, now() + interval '800 ms', sql => 'note') FROM unnest('{locked,free}'::text[]) key",
    );
    let mut other = db.client();
    let mut transaction = other.transaction().unwrap();
    transaction
        .batch_execute("SELECT hwheel.cancel('locked')")
        .unwrap();
    db.wait("SELECT state = 'done' FROM hwheel.job WHERE key = 'free'");
    transaction.rollback().unwrap();
    db.wait("SELECT state = 'done' FROM hwheel.job WHERE key = 'locked'");
    assert_eq!((runs(&db, "locked"), runs(&db, "free")), (1, 1));
}

#[test]
fn a_command_is_retried_and_then_dead() {
    let db = database();
    let _node = db.node("one");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display();
    db.execute(&format!(
        "SELECT hwheel.schedule('good', now(), command => 'cat > {path}/out', payload => '[1]');
        SELECT hwheel.schedule('second', now(), command => 'test $HWHEEL_ATTEMPT = 2', backoff => '50 ms');
        SELECT hwheel.schedule('bad', now(), command => 'echo why >&2; exit 7', max_attempts => 2, backoff => '50 ms')"
    ));
    db.wait("SELECT count(*) = 3 FROM hwheel.job WHERE state IN ('done', 'dead')");
    assert_eq!(
        std::fs::read_to_string(dir.path().join("out")).unwrap(),
        "[1]"
    );
    let rows = db.rows("SELECT key, state, runs, last_error FROM hwheel.job ORDER BY key");
    let rows: Vec<(String, String, i64, Option<String>)> = rows
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2), row.get(3)))
        .collect();
    let row = |key: &str, state: &str, runs, error: Option<&str>| {
        (
            key.to_owned(),
            state.to_owned(),
            runs,
            error.map(str::to_owned),
        )
    };
    assert_eq!(rows[0], row("bad", "dead", 0, Some("exit status 7: why")));
    assert_eq!(rows[1], row("good", "done", 1, None));
    assert_eq!(rows[2], row("second", "done", 1, None));
}

#[test]
fn moves_and_cancels_count_inside_and_outside_the_window() {
    let db = database();
    db.execute("UPDATE hwheel.settings SET window_length = '10 s'");
    let _node = db.node("one");
    db.execute(
        "SELECT hwheel.schedule('in-' || key, now() + interval '5 s', sql => 'note')
        FROM unnest('{cancel,earlier,later,out}'::text[]) key;
        SELECT hwheel.schedule('out-' || key, now() + interval '60 s', sql => 'note')
        FROM unnest('{cancel,in,out}'::text[]) key",
    );
    db.wait("SELECT count(*) = 4 FROM hwheel.job WHERE state = 'claimed'");
    let changed = "SELECT hwheel.cancel('in-cancel') AND hwheel.cancel('out-cancel')
        AND hwheel.move('in-earlier', now() + interval '100 ms')
        AND hwheel.move('out-in', now() + interval '1 s')
        AND hwheel.move('in-later', now() + interval '7 s')
        AND hwheel.move('in-out', now() + interval '60 s')
        AND hwheel.move('out-out', now() + interval '120 s')";
    assert!(db.is(changed));
    db.wait("SELECT count(*) = 3 FROM hwheel.job WHERE state = 'done'");

    let ran = db.rows(
        "SELECT r.key, r.due = j.due AND r.at >= j.due AND r.at < j.due + interval '2 s'
        FROM run r JOIN hwheel.job j USING (key) ORDER BY r.at",
    );
    let ran: Vec<(String, bool)> = ran.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = ["in-earlier", "out-in", "in-later"].map(|key| (key.to_owned(), true));
    assert_eq!(ran, expected);
    let left = db.rows("SELECT key, state FROM hwheel.job WHERE state <> 'done' ORDER BY key");
    let left: Vec<(String, String)> = left.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(
        left,
        ["in-out", "out-out"].map(|key| (key.to_owned(), "waiting".to_owned()))
    );
}

#[test]
fn an_interval_keeps_its_rhythm() {
    let db = database();
    let _node = db.node("one");
    db.execute("SELECT hwheel.schedule('tick', every => '250 ms', sql => 'note', missed => 'all')");
    db.wait("SELECT count(*) >= 12 FROM run");
    let rhythm = "SELECT bool_and(step = interval '250 ms') FROM
        (SELECT due - lag(due) OVER (ORDER BY due) AS step FROM run) s WHERE step IS NOT NULL";
    assert!(db.is(rhythm));
    assert!(db.is("SELECT hwheel.cancel('tick')"));
    let count = runs(&db, "tick");
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(runs(&db, "tick"), count);
}

#[test]
fn missed_runs_are_skipped_made_up_for_by_one_or_all_made() {
    let db = database();
    db.execute(
        "SELECT hwheel.schedule(m, now(), every => '1 h', sql => 'note', missed => m, grace => '10 s')
        FROM unnest('{skip,once,all}'::text[]) m;
        UPDATE hwheel.job SET due = due - interval '330 min', occurrence = occurrence - interval '330 min'",
    );
    let _node = db.node("one");
    db.wait("SELECT bool_and(due > now()) FROM hwheel.job");
    for (key, ran, skipped) in [("skip", 0, 6), ("once", 1, 5), ("all", 6, 0)] {
        assert_eq!(runs(&db, key), ran, "{key}");
        assert_eq!(
            db.number(&format!(
                "SELECT skipped FROM hwheel.job WHERE key = '{key}'"
            )),
            skipped
        );
    }
    // The rhythm is kept.
    assert!(
        db.is("SELECT bool_and(due - created_at BETWEEN '29 min' AND '31 min') FROM hwheel.job")
    );
}

#[test]
fn a_run_that_fails_for_good_does_not_end_its_series() {
    let db = database();
    let _node = db.node("one");
    db.execute("SELECT hwheel.schedule('bad', now(), every => '1 h', sql => 'fail', max_attempts => 2, backoff => '20 ms')");
    db.wait("SELECT count(*) = 1 FROM hwheel.job WHERE state = 'dead'");
    let row = &db.rows(
        "SELECT s.state, s.due - d.occurrence = '1 h', d.every IS NULL, s.attempts
        FROM hwheel.job s, hwheel.job d WHERE s.state <> 'dead' AND d.state = 'dead'",
    )[0];
    assert_eq!(
        (row.get(0), row.get(1), row.get(2), row.get(3)),
        ("waiting", true, true, 0)
    );
}

/// The rules for daylight saving in tests of src/recur.rs hold from end to end. Berlin
/// sets its clocks forward on 28 March 2027 and back on 31 October.
#[test]
fn a_cron_job_goes_through_a_change_of_daylight_saving() {
    let db = database();
    let _node = db.node("one");
    let local = |key: &str| -> String {
        db.wait(&format!(
            "SELECT due > '-infinity' FROM hwheel.job WHERE key = '{key}'"
        ));
        db.value(&format!("SELECT to_char(due AT TIME ZONE 'UTC', 'MM-DD HH24:MI') FROM hwheel.job WHERE key = '{key}'"))
    };
    for (key, cron, from, first) in [
        ("gap", "30 2 * * *", "2027-03-28 00:00+00", "03-28 01:00"),
        ("after", "30 2 * * *", "2027-03-28 01:30+00", "03-29 00:30"),
        ("twice", "30 2 * * *", "2027-10-31 00:31+00", "11-01 01:30"),
        (
            "rhythm",
            "*/30 * * * *",
            "2027-10-31 00:31+00",
            "10-31 01:00",
        ),
    ] {
        db.execute(&format!(
            "SELECT hwheel.schedule('{key}', '{from}', cron => '{cron}', zone => 'Europe/Berlin', sql => 'note')"
        ));
        assert_eq!(local(key), first, "{key}");
    }
    // A run that was due yesterday: the job runs, and its next time is that of Berlin.
    db.execute(
        "SELECT hwheel.schedule('daily', cron => '30 2 * * *', zone => 'Europe/Berlin', sql => 'note')",
    );
    local("daily");
    db.execute("UPDATE hwheel.job SET due = due - interval '1 day', occurrence = due - interval '1 day' WHERE key = 'daily'");
    db.wait("SELECT runs = 1 FROM hwheel.job WHERE key = 'daily'");
    assert!(db.is(
        "SELECT to_char(due AT TIME ZONE 'Europe/Berlin', 'HH24:MI') = '02:30' AND due > now() FROM hwheel.job WHERE key = 'daily'"
    ));
}

/// What SQL accepts as a cron expression, the nodes' library does too.
#[test]
fn both_readers_of_cron_expressions_agree() {
    let db = database();
    let _node = db.node("one");
    db.execute(
        "SELECT hwheel.schedule('c' || n, cron => e, sql => 'note', zone => 'America/New_York')
        FROM unnest(ARRAY['* * * * *', '*/7 */5 */3 */2 */2', '0-59/59 0,23 1-31 1-12 0-7', '5 4 * * SUN', '5 4 * * sun-sat',
            '0 0 1 JAN-DEC/3 *', '00 09 01 01 07', '59 23 31 12 *', '1,2,3-5,10-20/3 * * feb *', '*/59 */23 */31 */12 */7',
            '  0   12 * * 1-5 ', '0 0 13 * FRI', '0 0 * JAN,MAR-MAY,DEC MON,WED-FRI', '*/1 * * * *', '5-5 * * * *'])
            WITH ORDINALITY AS x (e, n)",
    );
    db.wait("SELECT bool_and(due > '-infinity' OR state = 'dead') FROM hwheel.job");
    let refused = db.rows("SELECT cron, last_error FROM hwheel.job WHERE state = 'dead'");
    let refused: Vec<(String, String)> =
        refused.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(refused, []);
}

#[test]
fn a_node_runs_only_the_kinds_that_it_is_told_to() {
    let db = database();
    let _node = db.node_with("one", &["--kinds", "sql"]);
    db.execute("SELECT hwheel.schedule('c', now(), command => 'true'); SELECT hwheel.schedule('s', now(), sql => 'note')");
    db.wait("SELECT state = 'done' FROM hwheel.job WHERE key = 's'");
    assert_eq!(
        db.text("SELECT state FROM hwheel.job WHERE key = 'c'"),
        "waiting"
    );
}

#[test]
fn a_node_with_little_room_runs_everything() {
    let db = database();
    let _node = db.node_with("one", &["--capacity", "7"]);
    db.execute(
        "SELECT hwheel.schedule('k' || i, now(), sql => 'note') FROM generate_series(1, 50) i",
    );
    db.wait("SELECT count(*) = 50 FROM hwheel.job WHERE state = 'done'");
    assert_eq!(db.number("SELECT count(*) FROM run"), 50);
}

#[test]
fn list_and_stats_show_what_there_is() {
    let db = database();
    let mut node = db.node_with("one", &["--kinds", "sql", "--metrics", "127.0.0.1:0"]);
    db.execute(
        "SELECT hwheel.schedule('done', now(), sql => 'note');
        SELECT hwheel.schedule('stuck', now(), command => 'true');
        SELECT hwheel.schedule('bad', now(), sql => 'fail', max_attempts => 1);
        SELECT hwheel.schedule('daily', cron => '0 3 * * *', zone => 'Asia/Tokyo', sql => 'note');
        SELECT hwheel.schedule('later', now() + interval '1 h', http => 'http://x/', every => '1 h')",
    );
    db.wait("SELECT count(*) = 2 FROM hwheel.job WHERE state IN ('done', 'dead')");
    db.wait("SELECT (SELECT sum(l) FROM unnest(lateness) l) = 2 FROM hwheel.node");
    let output = |arguments: &[&str]| {
        let output = db.program(arguments);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let list = output(&["list"]);
    for text in [
        "cron 0 3 * * * Asia/Tokyo",
        "every 01:00:00",
        "http http://x/",
        "it does not work (P0001)",
    ] {
        assert!(list.contains(text), "{list}");
    }
    assert_eq!(output(&["list", "--state", "dead"]).lines().count(), 2);
    assert_eq!(output(&["list", "--key", "la%"]).lines().count(), 2);
    let stats = output(&["stats"]);
    for text in [
        "waiting   3",
        "done      1",
        "dead      1",
        "due       1 within the window",
        "late      1",
        "failed    1",
        "node      one: clock ",
    ] {
        assert!(stats.contains(text), "{stats}");
    }
    let text = output(&["stats", "--prometheus"]);
    for line in [
        "hwheel_jobs{state=\"waiting\"} 3",
        "hwheel_jobs_due 1",
        "hwheel_jobs_late 1",
        "hwheel_jobs_lateness_seconds_count 2",
    ] {
        assert!(text.contains(line), "{text}");
    }
    // The node has bound a free port and said which.
    node.wait_for_log("metrics on http://127.0.0.1:");
    let log = node.log();
    let address = log
        .split("metrics on http://")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    for line in [
        "HTTP/1.1 200 OK",
        "hwheel_jobs_done_total 1",
        "hwheel_jobs_dead_total 1",
        "hwheel_jobs_lateness_seconds_count 2",
    ] {
        assert!(answer.contains(line), "{answer}");
    }
    assert!(node.end());
    assert!(db.is("SELECT left_at IS NOT NULL FROM hwheel.node"));
}
