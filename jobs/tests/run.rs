//! Jobs that run: both kinds, recurrence, and changes inside and outside the window.

mod support;

use std::time::{Duration, Instant};
use support::{database, get, metrics_address, Database, Server, Sql as _, PROGRAM};

/// Runs of the job that are recorded in the table `run`.
fn runs(db: &Database, key: &str) -> i64 {
    db.value(&format!("SELECT count(*) FROM run WHERE key = '{key}'"))
}

#[test]
fn a_function_gets_its_job_and_runs_once_and_never_early() {
    let db = database();
    let _node = db.node("one");
    db.all_claim();
    // Within the window, beyond it, and due at once.
    db.execute(
        "SELECT hwheel.schedule('near', now() + interval '700 ms', sql => 'note', payload => '{\"a\": 1}');
        SELECT hwheel.schedule('far', now() + interval '3 s', sql => 'note');
        SELECT hwheel.schedule('now', now(), sql => 'note')",
    );
    db.wait("SELECT count(*) = 3 FROM hwheel.all_jobs WHERE state = 'done'");
    for key in ["near", "far", "now"] {
        assert_eq!(runs(&db, key), 1);
    }
    let exact = "SELECT bool_and(r.due = j.due AND r.at >= j.due AND j.fired_at >= j.due
        AND r.payload IS NOT DISTINCT FROM j.payload) FROM run r JOIN hwheel.all_jobs j USING (key)";
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
    db.wait("SELECT count(*) = 3000 FROM hwheel.all_jobs WHERE state = 'done'");
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
    db.wait("SELECT count(*) = 20 FROM hwheel.all_jobs WHERE state = 'done'");
    db.wait("SELECT state = 'dead' FROM hwheel.all_jobs WHERE key = 'bad'");
    let row = &db.rows(
        "SELECT attempts, last_error, finished_at - created_at FROM hwheel.all_jobs WHERE key = 'bad'",
    )[0];
    assert_eq!((row.get(0), row.get(1)), (3, "it does not work (P0001)"));
    assert_eq!(runs(&db, "bad"), 0);
    // 100 ms and 200 ms, each less a fifth at most.
    assert!(db.is(
        "SELECT fired_at - created_at > interval '240 ms' FROM hwheel.all_jobs WHERE key = 'bad'"
    ));

    // The cause is repaired, and the job is revived.
    db.execute(
        "CREATE OR REPLACE FUNCTION fail(key text, due timestamptz, payload jsonb) RETURNS void
        LANGUAGE sql AS 'INSERT INTO run VALUES (key, due, payload)'",
    );
    assert!(db.is("SELECT hwheel.revive('bad')"));
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'bad'");
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
    db.wait("SELECT bool_and(state = 'done') FROM hwheel.all_jobs");
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
    db.wait("SELECT count(*) = 2 FROM hwheel.all_jobs WHERE state IN ('done', 'dead')");
    let error: String = db.value("SELECT last_error FROM hwheel.all_jobs WHERE key = 'hang'");
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
    transaction.run("SELECT hwheel.cancel('locked')");
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'free'");
    transaction.rollback().unwrap();
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'locked'");
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
    db.wait("SELECT count(*) = 3 FROM hwheel.all_jobs WHERE state IN ('done', 'dead')");
    assert_eq!(
        std::fs::read_to_string(dir.path().join("out")).unwrap(),
        "[1]"
    );
    let rows = db.rows("SELECT key, state, runs, last_error FROM hwheel.all_jobs ORDER BY key");
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
    db.wait("SELECT count(*) = 4 FROM hwheel.all_jobs WHERE state = 'claimed'");
    let changed = "SELECT hwheel.cancel('in-cancel') = 'cancelled' AND hwheel.cancel('out-cancel') = 'cancelled'
        AND hwheel.move('in-earlier', now() + interval '100 ms')
        AND hwheel.move('out-in', now() + interval '1 s')
        AND hwheel.move('in-later', now() + interval '7 s')
        AND hwheel.move('in-out', now() + interval '60 s')
        AND hwheel.move('out-out', now() + interval '120 s')";
    assert!(db.is(changed));
    db.wait("SELECT count(*) = 3 FROM hwheel.all_jobs WHERE state = 'done'");

    let ran = db.rows(
        "SELECT r.key, r.due = j.due AND r.at >= j.due AND r.at < j.due + interval '2 s'
        FROM run r JOIN hwheel.all_jobs j USING (key) ORDER BY r.at",
    );
    let ran: Vec<(String, bool)> = ran.iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = ["in-earlier", "out-in", "in-later"].map(|key| (key.to_owned(), true));
    assert_eq!(ran, expected);
    let left = db.rows("SELECT key, state FROM hwheel.all_jobs WHERE state <> 'done' ORDER BY key");
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
    assert!(db.is("SELECT hwheel.cancel('tick') = 'cancelled'"));
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
    db.wait("SELECT bool_and(due > now()) FROM hwheel.all_jobs");
    for (key, ran, skipped) in [("skip", 0, 6), ("once", 1, 5), ("all", 6, 0)] {
        assert_eq!(runs(&db, key), ran, "{key}");
        assert_eq!(
            db.number(&format!(
                "SELECT skipped FROM hwheel.all_jobs WHERE key = '{key}'"
            )),
            skipped
        );
    }
    // The rhythm is kept.
    assert!(db.is(
        "SELECT bool_and(due - created_at BETWEEN '29 min' AND '31 min') FROM hwheel.all_jobs"
    ));
}

#[test]
fn a_run_that_fails_for_good_does_not_end_its_series() {
    let db = database();
    let _node = db.node("one");
    db.execute("SELECT hwheel.schedule('bad', now(), every => '1 h', sql => 'fail', max_attempts => 2, backoff => '20 ms')");
    db.wait("SELECT count(*) = 1 FROM hwheel.all_jobs WHERE state = 'dead'");
    let row = &db.rows(
        "SELECT s.state, s.due - d.occurrence = '1 h', d.every IS NULL, s.attempts
        FROM hwheel.all_jobs s, hwheel.job d WHERE s.state <> 'dead' AND d.state = 'dead'",
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
            "SELECT due > '-infinity' FROM hwheel.all_jobs WHERE key = '{key}'"
        ));
        db.value(&format!("SELECT to_char(due AT TIME ZONE 'UTC', 'MM-DD HH24:MI') FROM hwheel.all_jobs WHERE key = '{key}'"))
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
    db.wait("SELECT runs = 1 FROM hwheel.all_jobs WHERE key = 'daily'");
    assert!(db.is(
        "SELECT to_char(due AT TIME ZONE 'Europe/Berlin', 'HH24:MI') = '02:30' AND due > now() FROM hwheel.all_jobs WHERE key = 'daily'"
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
            '  0   12 * * 1-5 ', '0 0 13 * FRI', '0 0 * JAN,MAR-MAY,DEC MON,WED-FRI', '*/1 * * * *', '5-5 * * * *', '@daily', '@Hourly', '@weekly', '@monthly', '@yearly', '@annually', '@midnight'])
            WITH ORDINALITY AS x (e, n)",
    );
    db.wait("SELECT bool_and(due > '-infinity' OR state = 'dead') FROM hwheel.all_jobs");
    let refused = db.rows("SELECT cron, last_error FROM hwheel.all_jobs WHERE state = 'dead'");
    let refused: Vec<(String, String)> =
        refused.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(refused, []);
}

#[test]
fn a_node_runs_only_the_kinds_that_it_is_told_to() {
    let db = database();
    let _node = db.node_with("one", &["--kinds", "sql"]);
    db.execute("SELECT hwheel.schedule('c', now(), command => 'true'); SELECT hwheel.schedule('s', now(), sql => 'note')");
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 's'");
    assert_eq!(
        db.text("SELECT state FROM hwheel.all_jobs WHERE key = 'c'"),
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
    db.wait("SELECT count(*) = 50 FROM hwheel.all_jobs WHERE state = 'done'");
    assert_eq!(db.number("SELECT count(*) FROM run"), 50);
}

/// What the program prints, and whether it succeeds.
fn run_program(db: &Database, arguments: &[&str]) -> (bool, String) {
    let output = db.program(arguments);
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.success(), text)
}

#[test]
fn the_program_shows_and_changes_a_job() {
    let db = database();
    let run = |arguments: &[&str]| run_program(&db, arguments);
    db.execute(
        "SELECT hwheel.schedule('a', now() + interval '1 h', sql => 'note', payload => '{\"to\": 7}');
        SELECT hwheel.schedule('a \"b\"', every => '1 h', http => 'https://u:secret@x/y', headers => '{\"X-Key\": \"secret\"}');
        INSERT INTO hwheel.job (key, state, due, occurrence, missed, grace, kind, target, max_attempts,
            backoff, timeout, attempts, finished_at, last_error) VALUES ('a', 'dead', now(), now(), 'once',
            '0', 'sql', 'note', 1, '1 s', '1 s', 1, now(), E'two\nlines')",
    );
    // Live ones first, then what has ended.
    let (ok, shown) = run(&["show", "a"]);
    assert!(ok);
    for line in [
        "key           a\n",
        "state         waiting\n",
        "payload       {\"to\": 7}\n",
        "\n\nid  ",
        "last_error    two lines\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let (_, shown) = run(&["show", "a \"b\""]);
    assert!(
        shown.contains("https://***@x/y") && shown.contains("X-Key") && !shown.contains("secret"),
        "{shown}"
    );
    let jsons = [
        &["show", "a \"b\"", "--json"][..],
        &["list", "--json"],
        &["stats", "--json"],
        &["show", "a", "--json"],
    ];
    for arguments in jsons {
        let (ok, text) = run(arguments);
        assert!(ok && !text.contains("secret"), "{text}");
        // The database can read each line.
        for line in text.lines() {
            let object = db.value::<String>(&format!("SELECT jsonb_typeof($j${line}$j$)"));
            assert_eq!(object, "object", "{line}");
        }
    }
    let (_, list) = run(&["list", "--json", "--key", "a %"]);
    let field = |name: &str| db.text(&format!("SELECT $j${list}$j$::jsonb ->> '{name}'"));
    assert_eq!(
        (field("key"), field("every"), field("state")),
        ("a \"b\"".into(), "01:00:00".into(), "waiting".into())
    );

    // Every change says what it did, and fails without a job.
    for (arguments, ok, text) in [
        (&["move", "a", "+90 min"][..], true, "\"a\" is due at "),
        (&["move", "a", "soon"], false, "invalid input syntax"),
        (
            &["move", "b", "+1 h"],
            false,
            "no job that is still to run has the key \"b\"",
        ),
        (&["pause", "a"], true, "\"a\" is paused"),
        (
            &["pause", "b"],
            false,
            "no job that is still to run has the key \"b\"",
        ),
        (&["list", "--state", "paused"], true, "a    paused"),
        (&["stats"], true, "paused    1"),
        (&["resume", "a"], true, "\"a\" runs again"),
        (&["resume", "a"], false, "no paused job has the key \"a\""),
        (&["cancel", "a"], true, "\"a\" is cancelled"),
        (
            &["cancel", "a"],
            false,
            "no job that is still to run has the key \"a\"",
        ),
        (&["revive", "a"], true, "\"a\" lives again"),
        (&["revive", "a"], false, "no dead job has the key \"a\""),
        (&["prune", "0"], true, "0 jobs are deleted"),
        (
            &["show", "nothing"],
            false,
            "there is no job with the key \"nothing\"",
        ),
    ] {
        let (was_ok, seen) = run(arguments);
        assert!(was_ok == ok && seen.contains(text), "{arguments:?}: {seen}");
        if arguments == ["move", "a", "+90 min"] {
            assert!(db.is("SELECT due - now() BETWEEN '89 min' AND '90 min' FROM hwheel.all_jobs WHERE key = 'a' AND state = 'waiting'"));
        }
    }
}

#[test]
fn a_paused_job_runs_when_it_is_resumed() {
    let db = database();
    db.execute("UPDATE hwheel.settings SET window_length = '10 s'");
    let _node = db.node_with("one", &["--kinds", "sql,command"]);
    db.execute(
        "SELECT hwheel.schedule('claimed', now() + interval '4 s', sql => 'note');
        SELECT hwheel.schedule('tick', every => '100 ms', sql => 'note');
        SELECT hwheel.schedule('far', now() + interval '1 h', sql => 'note');
        SELECT hwheel.schedule('running', now(), every => '1 s', command => 'sleep 1')",
    );
    db.wait("SELECT count(*) = 2 FROM hwheel.all_jobs WHERE key IN ('claimed', 'tick') AND state = 'claimed'");
    db.wait("SELECT state = 'running' FROM hwheel.all_jobs WHERE key = 'running'");
    assert!(db.is("SELECT bool_and(hwheel.pause(key)) FROM hwheel.job"));
    // A run that has started ends, and counts.
    db.wait(
        "SELECT state = 'waiting' AND runs = 1 AND attempts = 0 AND due = 'infinity'
        AND isfinite(paused_due) FROM hwheel.all_jobs WHERE key = 'running'",
    );
    let ticks = runs(&db, "tick");
    db.wait(
        "SELECT now() > paused_due + interval '500 ms' FROM hwheel.all_jobs WHERE key = 'claimed'",
    );
    assert_eq!((runs(&db, "claimed"), runs(&db, "tick")), (0, ticks));
    // A move and an application that registers its job again leave it paused.
    db.execute("SELECT hwheel.move('far', now()); SELECT hwheel.schedule('tick', every => '100 ms', sql => 'note');
        SELECT hwheel.schedule('claimed', now(), sql => 'note', if_exists => 'keep_time')");
    assert!(
        db.is("SELECT bool_and(due = 'infinity' AND isfinite(paused_due)) FROM hwheel.all_jobs")
    );
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!((runs(&db, "far"), runs(&db, "tick")), (0, ticks));

    assert!(db.is("SELECT bool_and(hwheel.resume(key)) FROM hwheel.job"));
    db.wait(
        "SELECT count(*) = 2 FROM hwheel.all_jobs WHERE key IN ('claimed', 'far') AND state = 'done'",
    );
    db.wait(&format!(
        "SELECT count(*) > {ticks} FROM run WHERE key = 'tick'"
    ));
    db.wait("SELECT runs = 2 FROM hwheel.all_jobs WHERE key = 'running'");
    assert_eq!((runs(&db, "claimed"), runs(&db, "far")), (1, 1));
}

/// A job that is paused while it runs stays paused when its node is lost.
#[test]
fn a_job_that_is_paused_while_it_runs_outlives_its_node() {
    let db = database();
    let mut a = db.node_with("a", &["--kinds", "command"]);
    db.execute("SELECT hwheel.schedule('c', now(), command => 'sleep 5')");
    db.wait("SELECT state = 'running' FROM hwheel.all_jobs");
    assert!(db.is("SELECT hwheel.pause('c')"));
    a.kill();
    let _b = db.node_with("b", &["--kinds", "command"]);
    db.wait(
        "SELECT state = 'waiting' AND due = 'infinity' AND isfinite(paused_due) FROM hwheel.all_jobs",
    );
    assert!(db.is("SELECT hwheel.resume('c')"));
    db.wait("SELECT state = 'running' FROM hwheel.all_jobs");
}

#[test]
fn each_line_about_a_job_has_its_number_and_its_key() {
    let db = database();
    let node = db.node_with("one", &["--kinds", "sql,command"]);
    db.execute(
        "CREATE FUNCTION lines(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql
            AS $$ BEGIN RAISE EXCEPTION E'one\n[2026] forged'; END $$;
        SELECT hwheel.schedule('retry', now(), sql => 'fail', max_attempts => 2, backoff => '10 ms');
        SELECT hwheel.schedule(E'odd\nkey', now(), sql => 'lines', max_attempts => 1);
        SELECT hwheel.schedule('c', now(), command => 'exit 3', max_attempts => 1);
        SELECT hwheel.schedule('series', now(), every => '1 h', sql => 'fail', max_attempts => 1)",
    );
    // As if a node of another version had stored it.
    db.execute("INSERT INTO hwheel.job (key, due, occurrence, missed, grace, kind, target, max_attempts, backoff, timeout, cron, zone)
        VALUES ('cron', '-infinity', now(), 'once', '1 min', 'sql', 'note', 1, '1 s', '1 s', 'x', 'UTC');
        SELECT pg_notify('hwheel', '0')");
    db.wait("SELECT count(*) = 5 FROM hwheel.all_jobs WHERE state = 'dead'");
    for text in [
        "job 1 \"retry\" failed and is tried again: it does not work (P0001)",
        "job 1 \"retry\" is dead: it does not work (P0001)",
        "job 2 \"odd\\nkey\" is dead: one [2026] forged (P0001)",
        "job 3 \"c\" is dead: exit status 3",
        "job 4 \"series\" is dead: it does not work (P0001)",
        "\"cron\" is dead: \"x\": it has 1 fields instead of five",
    ] {
        node.wait_for_log(text);
    }
}

#[test]
fn healthz_says_whether_the_node_can_run_jobs() {
    let server = Server::start();
    let db = server.database();
    server.down("fast");
    let node = db.spawn("one", &["--metrics", "127.0.0.1:0"]);
    let address = metrics_address(&node);
    let health = || get(&address, "/healthz");
    let wait = |text: &str| {
        let end = Instant::now() + Duration::from_secs(20);
        while !health().contains(text) {
            assert!(Instant::now() < end, "{text}: {}", health());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    assert!(health().starts_with("HTTP/1.1 503 "));
    wait("the node has not entered");
    server.up();
    wait("node 1 holds 0 jobs");
    assert!(health().starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(get(&address, "/other").starts_with("HTTP/1.1 404 "));
    assert!(get(&address, "/metrics").contains("hwheel_jobs_held 0"));
    // Longer than the lease.
    server.down("fast");
    wait("node 1 last renewed its lease of 1.5s");
    assert!(health().starts_with("HTTP/1.1 503 "));
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let db = database();
    db.execute("SELECT hwheel.schedule('k' || i, now() + interval '1 h', sql => 'note', payload => to_jsonb(repeat('x', 1000)))
        FROM generate_series(1, 500) i");
    for arguments in [
        "stats",
        "stats --prometheus",
        "stats --json",
        "list --limit 500",
        "list --limit 500 --json",
        "show k1",
        "install",
        "--help",
    ] {
        let output = std::process::Command::new("/bin/sh")
            .args([
                "-c",
                &format!("{{ sleep 0.3; {PROGRAM} {arguments}; echo $? >&2; }} | true"),
            ])
            .env("DATABASE_URL", &db.url)
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            "0\n",
            "{arguments}"
        );
    }
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
    db.wait("SELECT count(*) = 2 FROM hwheel.all_jobs WHERE state IN ('done', 'dead')");
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
    let answer = get(&metrics_address(&node), "/metrics");
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

/// Each job looks at what the one before it has left, in a batch and one after another.
#[test]
fn a_function_finds_the_session_as_new() {
    let db = database();
    db.execute(
        "CREATE ROLE guest; CREATE SEQUENCE counter;
        CREATE TABLE seen (key text, what text);
        CREATE FUNCTION spoil(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            SET timezone = 'Asia/Tokyo';
            SET LOCAL search_path = pg_catalog;
            SET default_transaction_isolation = 'serializable';
            PERFORM set_config('app.tenant', 'A', payload IS NOT DISTINCT FROM 'true');
            CREATE TEMP TABLE scratch (x int);
            PERFORM pg_advisory_lock(7), pg_advisory_lock_shared(7, 7), nextval('public.counter');
            EXECUTE 'PREPARE mine AS SELECT 1';
            EXECUTE 'DECLARE it CURSOR WITH HOLD FOR SELECT 1';
            LISTEN something;
            SET ROLE guest;
            IF payload = 'false' THEN RAISE EXCEPTION 'as it happens'; END IF;
        END $$;
        CREATE FUNCTION look(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql AS $$
        DECLARE
            last text := 'none';
        BEGIN
            BEGIN last := lastval()::text; EXCEPTION WHEN object_not_in_prerequisite_state THEN NULL; END;
            INSERT INTO public.seen VALUES (key, concat_ws(' ', current_setting('timezone'), current_setting('search_path'),
                current_setting('default_transaction_isolation'), nullif(current_setting('app.tenant', true), ''), current_user, last,
                (SELECT count(*) FROM pg_class WHERE relname = 'scratch' AND pg_table_is_visible(oid)),
                (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
                (SELECT count(*) FROM pg_prepared_statements WHERE from_sql), (SELECT count(*) FROM pg_cursors WHERE is_holdable),
                (SELECT count(*) FROM pg_listening_channels())));
        END $$;
        BEGIN;
        -- In a batch, with some that fail and all twice; and each alone.
        SELECT hwheel.schedule(format('%s %s', how, n), d + n * interval '1 ms', sql => CASE n % 2 WHEN 0 THEN 'spoil' ELSE 'look' END,
            payload => (CASE n % 6 WHEN 2 THEN 'true' WHEN 4 THEN 'false' END)::jsonb, max_attempts => 1, alone => how = 'alone')
        FROM (SELECT now() + interval '1 s' AS d) x, generate_series(1, 13) n, unnest('{batch,alone}'::text[]) how;
        COMMIT",
    );
    let fresh: String = db.value(
        "SELECT concat_ws(' ', current_setting('timezone'), current_setting('search_path'), 'read committed', current_user, 'none', 0, 0, 0, 0, 0)",
    );
    let _node = db.node_with("one", &["--connections", "1"]);
    db.wait("SELECT count(*) = 14 FROM seen");
    db.wait("SELECT bool_and(state IN ('done', 'dead')) FROM hwheel.all_jobs");
    for row in db.rows("SELECT key, what FROM seen ORDER BY key") {
        let (key, what): (&str, &str) = (row.get(0), row.get(1));
        assert_eq!(what, fresh, "{key}");
    }
    assert_eq!(
        db.number("SELECT count(*) FROM hwheel.all_jobs WHERE state = 'dead'"),
        4
    );
    assert!(db.is(
        "SELECT bool_and(last_error LIKE 'as it happens%') FROM hwheel.all_jobs WHERE state = 'dead'"
    ));
    // Nodes have such locks for a moment. Those of a session would stay.
    db.wait(
        "SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))",
    );
}

/// Each of these jobs would harm those that follow it in its batch.
#[test]
fn a_job_harms_no_other_job_of_its_batch() {
    let db = database();
    db.execute(
        "CREATE FUNCTION harm(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            EXECUTE payload->>0;
            IF NOT starts_with(key, 'reads') THEN PERFORM public.note(key, due, payload); END IF;
        END $$;
        CREATE SCHEMA evil;
        CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;
        CREATE FUNCTION evil.pg_advisory_unlock_all() RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;
        CREATE FUNCTION evil.pg_my_temp_schema() RETURNS oid LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;
        CREATE TABLE harms (i int, key text, what text, error text); -- NULL: it is done
        INSERT INTO harms (i, key, what) VALUES
            (1, 'cancels', $q$ DO 'BEGIN PERFORM hwheel.cancel(''victim''); END' $q$),
            (2, 'moves', $q$ DO 'BEGIN PERFORM hwheel.move(''moved'', now() + interval ''1 hour''); END' $q$),
            (3, 'commits', 'COMMIT'),
            (4, 'rolls back', 'ROLLBACK'),
            (5, 'discards', 'DISCARD ALL'),
            (6, 'is short', $q$ SET statement_timeout = '1 ms' $q$),
            (7, 'sleeps', 'SELECT pg_sleep(0.02)'),
            (8, 'declares', 'DECLARE it CURSOR FOR SELECT 1'), (9, 'closes', 'CLOSE ALL'),
            (10, 'prepares', 'PREPARE mine AS SELECT 1'), (11, 'deallocates', 'DEALLOCATE ALL'),
            (12, 'creates', 'CREATE TEMP TABLE job (x int)'),
            (13, 'shadows', 'SET search_path = pg_temp'),
            (14, 'locks', $q$ SELECT pg_advisory_lock(9) $q$),
            (15, 'is other', 'SET ROLE pg_monitor'),
            (16, 'listens', 'LISTEN hwheel'),
            (17, 'reads', 'SET transaction_read_only = on'),
            (18, 'is replica', 'SET session_replication_role = replica'),
            (19, 'asserts', $q$ DO 'BEGIN ASSERT false; END' $q$),
            (20, 'hides', 'SET search_path = evil, pg_catalog, public'),
            (21, 'stops', 'SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(1)');
        UPDATE harms h SET error = e.error FROM (VALUES
            ('commits', 'EXECUTE of transaction commands is not implemented (0A000)'),
            ('rolls back', 'EXECUTE of transaction commands is not implemented (0A000)'),
            ('discards', 'DISCARD ALL cannot run inside a transaction block (25001)'),
            ('shadows', 'relation \"run\" does not exist (42P01)'),
            ('is other', 'permission denied for table run (42501)'),
            ('reads', 'the job made its transaction read-only (25006)'),
            ('asserts', 'assertion failed (P0004)'),
            ('stops', 'canceling statement due to user request (57014)')) AS e (key, error) WHERE e.key = h.key;
        BEGIN;
        SELECT hwheel.schedule(key || n, d + n * interval '1 ms' + i * interval '1 us', sql => 'harm',
            payload => jsonb_build_array(what), max_attempts => 1)
        FROM (SELECT now() + interval '1 s' AS d) x, generate_series(1, 2) n, harms;
        SELECT hwheel.schedule(key, now() + interval '1010 ms', sql => 'note') FROM unnest('{victim,moved,last}'::text[]) key;
        COMMIT",
    );
    let node = db.node_with("one", &["--connections", "1"]);
    db.wait("SELECT bool_and(state IN ('done', 'dead') OR key = 'moved') FROM hwheel.all_jobs");
    let wrong = "SELECT h.key || ': ' || concat_ws(' ', state, last_error) FROM harms h CROSS JOIN generate_series(1, 2) n
        JOIN hwheel.all_jobs j ON j.key = h.key || n
        WHERE last_error IS DISTINCT FROM error OR state <> CASE WHEN error IS NULL THEN 'done' ELSE 'dead' END";
    let wrong = db.rows(wrong);
    let wrong: Vec<&str> = wrong.iter().map(|row| row.get(0)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(db.is("SELECT due > now() FROM hwheel.all_jobs WHERE key = 'moved'"));
    let ran = "SELECT array_agg(key ORDER BY key) = ARRAY(SELECT key FROM hwheel.history ORDER BY key) FROM run";
    assert!(db.is(ran));
    assert!(db.is("SELECT NOT EXISTS (SELECT FROM run WHERE key IN ('victim', 'moved'))"));
    // No batch failed as a whole.
    assert!(
        !node.log().contains("each is tried alone"),
        "{}",
        node.log()
    );
}

/// Two transactions, one for each job, lock the same two rows in opposite orders.
#[test]
fn two_jobs_that_deadlock_are_both_done() {
    let db = database();
    db.execute(
        "CREATE TABLE side (id int PRIMARY KEY, n int); INSERT INTO side VALUES (1, 0), (2, 0);
        CREATE FUNCTION pair(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            UPDATE side SET n = n + 1 WHERE id = (payload->>0)::int; PERFORM pg_sleep(0.5);
            UPDATE side SET n = n + 1 WHERE id = (payload->>1)::int;
        END $$;
        BEGIN;
        SELECT hwheel.schedule(k, now() + interval '1 s', sql => 'pair', payload => p, alone => true, backoff => '100 ms')
        FROM (VALUES ('a', jsonb '[1, 2]'), ('b', '[2, 1]')) j (k, p);
        COMMIT",
    );
    let node = db.node_with("one", &["--connections", "2"]);
    db.wait("SELECT bool_and(state = 'done') FROM hwheel.all_jobs");
    assert!(node.log().contains("deadlock detected"), "{}", node.log());
    assert!(db.is("SELECT bool_and(n = 2) FROM side"));
}

/// Locks and what else lasts to the end of the transaction pass from job to job in a
/// batch, but not to or from one that is alone.
#[test]
fn a_job_that_is_alone_has_a_transaction_of_its_own() {
    let db = database();
    db.execute(
        "CREATE TABLE seen (key text, transaction text);
        CREATE FUNCTION look(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql AS
        'INSERT INTO seen VALUES (key, pg_current_xact_id()::text)';
        BEGIN;
        SELECT hwheel.schedule('k' || n, d + n * interval '1 us', sql => 'look', alone => n = 4)
        FROM (SELECT now() + interval '1 s' AS d) x, generate_series(1, 7) n;
        COMMIT",
    );
    let _node = db.node_with("one", &["--connections", "1"]);
    db.wait("SELECT count(*) = 7 FROM seen");
    assert!(db.is("SELECT count(*) = 1 FROM seen WHERE transaction = (SELECT transaction FROM seen WHERE key = 'k4')"));
    assert!(db.is("SELECT count(DISTINCT transaction) < 7 FROM seen"));
}

/// A user changes jobs that are due together with a slow function of somebody else.
#[test]
fn a_slow_function_delays_no_cancel_and_no_other_job() {
    let db = database();
    let schedule = |n: i32| {
        db.execute(&format!(
            "BEGIN; SELECT hwheel.schedule('first' || {n}, d, sql => 'note'), hwheel.schedule('slow' || {n}, d + interval '1 us', sql => 'slow')
            FROM (SELECT now() + interval '1 s' AS d) x;
            SELECT hwheel.schedule('k{n}-' || i, now() + interval '1 s' + interval '2 us', sql => 'note') FROM generate_series(1, 20) i; COMMIT"
        ));
    };
    db.execute(
        "CREATE FUNCTION slow(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql AS
        'SELECT note(key, due, payload), pg_sleep(3)'",
    );
    let _node = db.node_with("one", &["--connections", "2"]);
    for n in 1..=2 {
        schedule(n);
        db.wait(&format!("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database() AND {n} = {n}"));
        for key in [format!("first{n}"), format!("k{n}-20"), format!("k{n}-1")] {
            let begin = std::time::Instant::now();
            db.execute(&format!("SELECT hwheel.cancel('{key}')"));
            let took = begin.elapsed();
            assert!(took < Duration::from_secs(1), "{key}: {took:?}");
        }
        db.wait(&format!(
            "SELECT count(*) = 1 FROM hwheel.all_jobs WHERE key = 'slow{n}' AND state = 'done'"
        ));
        db.wait("SELECT bool_and(state = 'done') FROM hwheel.all_jobs");
        let late: f64 = db.value(&format!(
            "SELECT max(extract(epoch FROM at - due))::float8 FROM run WHERE key LIKE 'k{n}-%'"
        ));
        assert!(late < 1.5, "{late}");
    }
    // A job that ran twice was rolled back once.
    assert!(db.is("SELECT count(*) = count(DISTINCT key) FROM run"));
}

/// A node knows each zone that can be scheduled, or says that it does not know it.
/// Debian has moved old names of zones to another package.
#[test]
fn a_node_knows_zones_that_its_system_has_no_more() {
    let db = database();
    let dir = db.server.dir().join("zones");
    std::fs::create_dir_all(dir.join("Europe")).expect("a directory");
    let Ok(_) = std::fs::copy(
        "/usr/share/zoneinfo/Europe/Berlin",
        dir.join("Europe/Berlin"),
    ) else {
        return support::skip("the system has no time zones");
    };
    let node = db.spawn_in("one", &[], &[("TZDIR", &dir.display().to_string())]);
    db.wait("SELECT EXISTS (SELECT FROM hwheel.node WHERE clock_offset IS NOT NULL)");
    db.execute(
        "SELECT hwheel.schedule('a', cron => '0 4 * * *', zone => 'Asia/Tokyo', sql => 'note')",
    );
    db.wait("SELECT due > now() FROM hwheel.job");
    assert!(
        !node.log().contains("time zones that only"),
        "{}",
        node.log()
    );
}

#[test]
fn no_zone_is_accepted_that_a_node_does_not_know() {
    let db = database();
    let _node = db.node("one");
    db.wait("SELECT EXISTS (SELECT FROM hwheel.node)");
    for zone in [
        "posix/Europe/Berlin",
        "right/UTC",
        "Factory",
        "localtime",
        "europe/berlin",
    ] {
        let refusal = db.refusal(&format!(
            "SELECT hwheel.schedule('z', cron => '0 4 * * *', zone => '{zone}', sql => 'note')"
        ));
        assert!(
            refusal.contains(&format!("there is no time zone \"{zone}\"")),
            "{refusal}"
        );
    }
    // As pg_timezone_names is slow, without schedule().
    db.execute(
        "SELECT hwheel.schedule('z', now(), cron => '0 4 * * *', sql => 'note');
        INSERT INTO hwheel.job (key, due, occurrence, cron, zone, missed, grace, kind, target, max_attempts, backoff, timeout)
        SELECT z, '-infinity', now(), cron, z, missed, grace, kind, target, max_attempts, backoff, timeout FROM hwheel.all_jobs, hwheel._zones() z",
    );
    db.wait("SELECT bool_and(due > '-infinity' OR zone = ANY (unknown_zones)) FROM hwheel.all_jobs, hwheel.node");
    assert!(db.is("SELECT count(*) > 300 AND bool_and(state <> 'dead') FROM hwheel.all_jobs"));

    // A node with older zones is asked when a job is scheduled, and leaves those that are
    // there to others.
    db.execute("UPDATE hwheel.node SET unknown_zones = '{Asia/Tokyo}'");
    let schedule =
        "SELECT hwheel.schedule('t', cron => '0 4 * * *', zone => 'Asia/Tokyo', sql => 'note')";
    assert!(db
        .refusal(schedule)
        .contains("the node \"one\" does not know the time zone \"Asia/Tokyo\""));
    db.execute("UPDATE hwheel.node SET unknown_zones = '{}'");
    db.execute(&format!(
        "BEGIN; {schedule}; UPDATE hwheel.node SET unknown_zones = '{{Asia/Tokyo}}'; COMMIT"
    ));
    std::thread::sleep(Duration::from_millis(1500));
    assert!(db
        .is("SELECT due = '-infinity' AND state = 'waiting' FROM hwheel.all_jobs WHERE key = 't'"));
}

#[test]
fn the_last_missed_run_within_the_grace_is_made() {
    let db = database();
    db.execute(
        "SELECT hwheel.schedule(k, every => '20 s', sql => 'note', missed => 'skip', grace => '15 s') FROM unnest('{one,two}'::text[]) k;
        UPDATE hwheel.job SET due = now() - ago, occurrence = now() - ago
        FROM (SELECT CASE key WHEN 'one' THEN interval '4 s' ELSE '24 s' END AS ago, id AS i FROM hwheel.all_jobs) x WHERE id = i",
    );
    let _node = db.node("one");
    db.wait("SELECT bool_and(due > now()) FROM hwheel.all_jobs");
    for (key, skipped) in [("one", 0), ("two", 1)] {
        assert_eq!(runs(&db, key), 1, "{key}");
        let is = format!("SELECT skipped = {skipped} AND due < now() + interval '20 s' FROM hwheel.all_jobs WHERE key = '{key}'");
        assert!(db.is(&is), "{key}");
    }
}

/// An application that starts often does not put off its job.
#[test]
fn a_job_that_is_registered_again_and_again_runs() {
    let db = database();
    let _node = db.node("one");
    for _ in 0..10 {
        db.execute("SELECT hwheel.schedule('keep', every => '1 s', sql => 'note', if_exists => 'keep');
            SELECT hwheel.schedule('keep_time', every => '1 s', sql => 'note', if_exists => 'keep_time')");
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(runs(&db, "keep") >= 3 && runs(&db, "keep_time") >= 3);
}

#[test]
fn a_node_runs_no_command_unless_it_is_told_to() {
    let node = std::process::Command::new(env!("CARGO_BIN_EXE_hwheel-jobs"))
        .args(["run", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(node.stdout).unwrap();
    assert!(help.contains("[default: sql]"), "{help}");
}
