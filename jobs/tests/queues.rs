//! Queues, jobs that applications take, many jobs in a call, and the history.

mod support;

use postgres::fallible_iterator::FallibleIterator;
use postgres::{Client, GenericClient};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};
use support::{database, skip, Database, Sql as _, PROGRAM};

/// The largest number of runs of a queue at the same time, of those that are done.
fn most_at_once(db: &Database, queue: &str) -> i64 {
    db.number(&format!(
        "SELECT max(n) FROM hwheel.history a, LATERAL (SELECT count(*) AS n FROM hwheel.history b
            WHERE b.queue = a.queue AND b.fired_at <= a.fired_at AND b.finished_at > a.fired_at) x
        WHERE a.queue = '{queue}'"
    ))
}

fn code(error: &postgres::Error) -> String {
    let code = error.code().map(|code| code.code().to_owned());
    code.unwrap_or_else(|| panic!("not an error of the database: {error:?}"))
}

/// Takes jobs as an application does: id, lease, key and attempt of each.
fn take(
    client: &mut impl GenericClient,
    queue: &str,
    at_most: i32,
) -> Vec<(i64, i64, String, i32)> {
    let rows = client.query(
        "SELECT id, lease, key, attempt FROM hwheel.take($1, $2)",
        &[&queue, &at_most],
    );
    let row = |row: &postgres::Row| (row.get(0), row.get(1), row.get(2), row.get(3));
    rows.unwrap().iter().map(row).collect()
}

fn done(client: &mut Client, id: i64, lease: i64) -> Result<(), postgres::Error> {
    let row = client.query_one("SELECT hwheel.done($1, $2)", &[&id, &lease]);
    row.map(|_| ())
}

/// A call of an application reads the jobs that it names, not the backlog. The server has made no
/// statistics of the table yet.
#[test]
fn a_call_of_an_application_does_not_read_the_backlog() {
    let db = database();
    db.execute("ALTER TABLE hwheel.job SET (autovacuum_enabled = off)");
    db.execute(
        "SELECT hwheel.schedule_many(array_agg('k' || i), array_agg(now()), queue => 'mail')
        FROM generate_series(1, 5000) i",
    );
    let mut client = db.client();
    let taken = take(&mut client, "mail", 40);
    assert_eq!(taken.len(), 40);
    let ids: Vec<i64> = taken.iter().map(|job| job.0).collect();
    let leases: Vec<i64> = taken.iter().map(|job| job.1).collect();
    let calls = [
        "SELECT id FROM hwheel.take('mail', 40) WHERE $1::bigint[] <> $2::bigint[]",
        "SELECT id FROM hwheel.extend_many($1, $2) WHERE outcome = 'extended'",
        "SELECT id FROM hwheel.done_many(($1::bigint[])[:20], ($2::bigint[])[:20]) id",
        "SELECT hwheel._app_failed(($1::bigint[])[21:], ($2::bigint[])[21:], 'no', NULL, false)",
    ];
    for call in calls {
        let mut transaction = client.transaction().unwrap();
        let rows = transaction.query(call, &[&ids, &leases]).unwrap();
        let read: i64 = transaction.one(
            "SELECT (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint
                FROM pg_stat_xact_user_tables WHERE relid = 'hwheel.job'::regclass",
        );
        transaction.commit().unwrap();
        assert!(!rows.is_empty(), "{call}");
        assert!(read <= 400, "{call}: {read}");
    }
}

/// All applications that listen are woken for one job, and most of them find it taken.
#[test]
fn a_take_that_finds_nothing_writes_nothing() {
    let db = database();
    db.execute(
        "SELECT hwheel.schedule('one', now(), queue => 'mail'), hwheel.schedule('two', now(), queue => 'held');
        SELECT hwheel.pause_queue('held')",
    );
    let mut first = db.client();
    let mut first = first.transaction().unwrap();
    assert_eq!(take(&mut first, "mail", 40).len(), 1);
    for queue in ["mail", "held", "empty"] {
        let mut second = db.client();
        let mut second = second.transaction().unwrap();
        assert_eq!(take(&mut second, queue, 40).len(), 0);
        let sql = "SELECT pg_current_xact_id_if_assigned() IS NULL";
        assert!(second.one::<bool>(sql), "{queue}");
    }
}

#[test]
fn a_limit_of_a_queue_holds_over_two_nodes_and_the_death_of_one() {
    let db = database();
    db.execute(
        "SELECT hwheel.set_queue('c', max_running => 2); SELECT hwheel.set_queue('s', max_running => 1);
        CREATE FUNCTION nap(key text, due timestamptz, payload jsonb) RETURNS void
        LANGUAGE sql AS 'SELECT pg_sleep(0.02); INSERT INTO run VALUES (key, due, payload)'",
    );
    let mut nodes = [db.node("a"), db.node("b")];
    db.execute(
        "SELECT hwheel.schedule('c' || i, now(), command => 'sleep 0.1', queue => 'c') FROM generate_series(1, 20) i;
        SELECT hwheel.schedule('s' || i, now(), sql => 'nap', queue => 's', alone => true) FROM generate_series(1, 20) i;
        SELECT hwheel.schedule('n' || i, now(), sql => 'note') FROM generate_series(1, 20) i",
    );
    db.wait("SELECT count(*) > 3 FROM hwheel.history WHERE queue = 'c'");
    // The one that has the queue.
    let holder = db.text(
        "SELECT n.name FROM hwheel.queue q JOIN hwheel.node n ON n.id = q.holder WHERE q.name = 'c'",
    );
    nodes[usize::from(holder == "b")].kill();
    db.wait("SELECT count(*) = 60 FROM hwheel.history");
    assert_eq!((most_at_once(&db, "c"), most_at_once(&db, "s")), (2, 1));
    assert!(db.is("SELECT count(*) = 20 FROM run WHERE key LIKE 's%'"));
}

/// These runs have begun before the queue had a limit. They count, so their ends let no others begin too early.
#[test]
fn runs_from_before_a_limit_count() {
    let db = database();
    db.execute(
        "CREATE FUNCTION nap(key text, due timestamptz, payload jsonb) RETURNS void
        LANGUAGE sql AS 'SELECT pg_sleep(2); INSERT INTO run VALUES (key, due, payload)'",
    );
    let _node = db.node("one");
    let schedule = |name: &str| {
        db.execute(&format!(
            "SELECT hwheel.schedule('s {name} ' || i, now(), sql => 'nap', queue => 's', alone => true),
                hwheel.schedule('c {name} ' || i, now(), command => 'sleep 2', queue => 'c')
                FROM generate_series(1, 2) i"
        ));
    };
    schedule("old");
    db.wait(
        "SELECT (SELECT count(*) = 2 FROM hwheel.job WHERE state = 'running')
            AND (SELECT count(*) = 2 FROM pg_stat_activity
                WHERE wait_event = 'PgSleep' AND datname = current_database())",
    );
    db.execute(
        "SELECT hwheel.set_queue('s', max_running => 1), hwheel.set_queue('c', max_running => 1)",
    );
    schedule("new");
    db.wait("SELECT count(*) = 8 FROM hwheel.history");
    db.execute("DELETE FROM hwheel.history WHERE key LIKE '% old %'");
    assert_eq!((most_at_once(&db, "s"), most_at_once(&db, "c")), (1, 1));
}

#[test]
fn a_rate_spaces_the_starts() {
    let db = database();
    db.execute("SELECT hwheel.set_queue('r', rate => 20)");
    let (_a, _b) = (db.node("a"), db.node("b"));
    db.execute("SELECT hwheel.schedule('k' || i, now(), sql => 'note', queue => 'r') FROM generate_series(1, 50) i");
    db.wait("SELECT count(*) = 50 FROM hwheel.history");
    let most = db.number(
        "SELECT max(n) FROM run a, LATERAL (SELECT count(*) AS n FROM run b
            WHERE b.at >= a.at AND b.at < a.at + interval '1 s') x",
    );
    // One may have been saved. A batch that begins late is as if the next ones were early.
    assert!((10..=25).contains(&most), "{most}");
}

#[test]
fn the_highest_priority_of_a_queue_runs_first() {
    let db = database();
    db.execute(
        "SELECT hwheel.schedule('low' || i, now(), sql => 'note', queue => 'q') FROM generate_series(1, 200) i;
        SELECT hwheel.schedule('high' || i, now(), sql => 'note', queue => 'q', priority => 9) FROM generate_series(1, 20) i",
    );
    // One after the other: the node has claimed all before it has the limit of the other one.
    let _node = db.node_with("one", &["--connections", "1"]);
    db.wait("SELECT count(*) = 220 FROM hwheel.history");
    let late = db.number(
        "SELECT count(*) FROM (SELECT key FROM run ORDER BY at LIMIT 80) x WHERE key LIKE 'high%'",
    );
    assert_eq!(late, 20);
    // Applications: strictly.
    db.execute(
        "SELECT hwheel.schedule('a' || p, now(), queue => 'app', priority => p) FROM unnest('{3,0,9,5}'::int[]) p",
    );
    let keys: Vec<String> = take(&mut db.client(), "app", 3)
        .into_iter()
        .map(|job| job.2)
        .collect();
    assert_eq!(keys, ["a9", "a5", "a3"]);
}

#[test]
fn no_run_of_a_paused_queue_starts_and_none_is_lost() {
    let db = database();
    let (_a, _b) = (db.node("a"), db.node("b"));
    db.execute(
        "BEGIN; SELECT hwheel.schedule('running', now(), command => 'sleep 1', queue => 'q');
        SELECT hwheel.schedule('app', now() + interval '600 ms', queue => 'q');
        SELECT hwheel.schedule('k' || i, now() + i * interval '10 ms', sql => 'note', queue => 'q')
            FROM generate_series(60, 120) i;
        SELECT hwheel.schedule('tick', every => '100 ms', sql => 'note', queue => 'q', missed => 'all');
        SELECT hwheel.schedule('other', now() + interval '1200 ms', sql => 'note', queue => 'p'); COMMIT",
    );
    db.wait("SELECT state = 'running' FROM hwheel.job WHERE key = 'running'");
    assert!(db.is("SELECT hwheel.pause_queue('q')"));
    // A run that began before is seen only when its batch has ended.
    db.execute("CREATE TABLE paused AS SELECT clock_timestamp() AS at");
    db.wait("SELECT count(*) = 2 FROM hwheel.history WHERE key IN ('running', 'other')");
    let after = "SELECT count(*) FROM run, paused WHERE key <> 'other' AND run.at > paused.at";
    assert_eq!(db.number(after), 0);
    assert_eq!(take(&mut db.client(), "q", 5), []);
    assert!(!db.is("SELECT hwheel.pause_queue('q')"));
    assert!(db.is("SELECT hwheel.resume_queue('q')"));
    assert!(!db.is("SELECT hwheel.resume_queue('q')"));
    db.wait("SELECT count(*) = 61 FROM hwheel.history WHERE key LIKE 'k%'");
    assert!(db.is("SELECT count(*) = count(DISTINCT key) FROM run WHERE key LIKE 'k%'"));
    assert_eq!(take(&mut db.client(), "q", 5).len(), 1);
    db.execute("SELECT hwheel.cancel('tick')");
}

/// Each taker uses a different row of the gate.
#[test]
fn a_queue_is_changed_when_all_who_take_from_it_have_ended() {
    let db = database();
    db.execute(
        "SELECT hwheel.schedule('k' || i, now(), queue => 'q') FROM generate_series(1, 5) i",
    );
    let (mut takers, mut slots) = (Vec::new(), std::collections::BTreeSet::new());
    while takers.len() < 4 {
        let mut taker = db.client();
        let slot: i32 = taker.one("SELECT pg_backend_pid() % 16");
        // The first taker of a row makes it. Others can use it when that transaction has ended.
        if slots.insert(slot) {
            taker.run("BEGIN");
            assert_eq!(take(&mut taker, "q", 1).len(), 1);
            takers.push(taker);
        }
    }
    while let Some(mut taker) = takers.pop() {
        let why = db.refusal("SET lock_timeout = '100 ms'; SELECT hwheel.pause_queue('q')");
        assert!(why.contains("lock timeout"), "{why}");
        taker.run("COMMIT");
    }
    let rows = db.rows("SELECT slot FROM hwheel.gate WHERE queue = 'q' ORDER BY slot");
    let rows: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(rows, slots.into_iter().collect::<Vec<_>>());
    let mut other = db.client_after("BEGIN; SELECT hwheel.pause_queue('q')");
    // Whatever their rows, nobody passes.
    for _ in 0..17 {
        assert_eq!(take(&mut db.client(), "q", 1).len(), 0);
    }
    other.run("ROLLBACK");
    assert_eq!(take(&mut db.client(), "q", 1).len(), 1);
}

/// The effect of a job and its end are one transaction.
#[test]
fn an_application_ends_a_job_with_its_effect_once() {
    let db = database();
    let mut client = db.client();
    db.execute(
        "SELECT hwheel.schedule('a', now(), queue => 'q', payload => '[1]');
        SELECT hwheel.schedule('later', now() + interval '1 h', queue => 'q');
        SELECT hwheel.schedule('other', now(), queue => 'p')",
    );
    let jobs = take(&mut client, "q", 10);
    let [(id, lease, key, attempt)] = &jobs[..] else {
        panic!("{jobs:?}")
    };
    assert_eq!((key.as_str(), *attempt), ("a", 1));
    assert_eq!(take(&mut db.client(), "q", 10), []);
    // Rolled back: the job is still leased.
    let mut transaction = client.transaction().unwrap();
    transaction.run("INSERT INTO run VALUES ('a')");
    transaction
        .query_one("SELECT hwheel.done($1, $2)", &[id, lease])
        .unwrap();
    transaction.rollback().unwrap();
    assert!(db.is("SELECT state = 'running' AND owner = 0 FROM hwheel.all_jobs WHERE key = 'a'"));
    let mut end = || -> Result<(), postgres::Error> {
        let mut transaction = client.transaction()?;
        transaction.batch_execute("INSERT INTO run VALUES ('a')")?;
        transaction.query_one("SELECT hwheel.done($1, $2)", &[id, lease])?;
        transaction.commit()
    };
    end().unwrap();
    assert_eq!(code(&end().unwrap_err()), "HW003");
    assert_eq!(db.number("SELECT count(*) FROM run"), 1);
    let row = &db
        .rows("SELECT state, runs, attempts, payload::text FROM hwheel.all_jobs WHERE key = 'a'")
        [0];
    assert_eq!(
        (row.get(0), row.get(1), row.get(2), row.get(3)),
        ("done", 1i64, 0, "[1]")
    );
}

#[test]
fn a_lease_that_somebody_has_ended_ends_nothing() {
    let db = database();
    let mut client = db.client();
    for change in [
        "DELETE FROM hwheel.job",
        "UPDATE hwheel.job SET lease_until = now() - interval '1 s'; SELECT hwheel._expire()",
    ] {
        db.execute("DELETE FROM hwheel.job; SELECT hwheel.schedule('a', now(), queue => 'q')");
        let (id, lease, ..) = take(&mut client, "q", 1)[0];
        db.execute(change);
        for sql in [
            "SELECT hwheel.done($1, $2)",
            "SELECT hwheel.fail($1, $2, 'why')",
            "SELECT hwheel.extend($1, $2, '1 min')",
        ] {
            let error = client.query_one(sql, &[&id, &lease]).unwrap_err();
            assert_eq!(code(&error), "HW003", "{change}: {sql}");
        }
        let ended = client.query(
            "SELECT hwheel.done_many($1, $2)",
            &[&vec![id], &vec![lease]],
        );
        assert_eq!(ended.unwrap().len(), 0);
        assert!(db.is("SELECT count(*) = 0 FROM hwheel.history"), "{change}");
    }
    // Until then a lease that has run out ends its job.
    db.execute("DELETE FROM hwheel.job; SELECT hwheel.schedule('a', now(), queue => 'q')");
    let (id, lease, ..) = take(&mut client, "q", 1)[0];
    db.execute("UPDATE hwheel.job SET lease_until = now() - interval '1 s'");
    done(&mut client, id, lease).unwrap();
}

/// The application ends what it has taken, and then the job is what it was scheduled as.
/// An application goes on while a backup is restored, or another server that lacks the last commits.
#[test]
fn a_lease_from_before_a_restore_ends_no_other_job() {
    let db = database();
    let mut client = db.client();
    db.execute("SELECT hwheel.schedule('lost', now(), queue => 'q')");
    let (id, lease, ..) = take(&mut client, "q", 1)[0];
    db.execute(
        "TRUNCATE hwheel.job RESTART IDENTITY; SELECT hwheel.schedule('other', now(), queue => 'q')",
    );
    assert_eq!(take(&mut client, "q", 1)[0].0, id);
    for call in [
        "done($1, $2)",
        "fail($1, $2)",
        "snooze($1, $2, '1 s')",
        "extend($1, $2, '1 s')",
    ] {
        let sql = format!("SELECT hwheel.{call}");
        assert_eq!(
            code(&client.query(&sql, &[&id, &lease]).unwrap_err()),
            "HW003"
        );
    }
    assert_eq!(extend(&mut client, &[(id, lease)]), ["gone"]);
    assert!(db.is("SELECT state = 'running' FROM hwheel.job"));
}

#[test]
fn a_job_that_is_scheduled_while_it_is_taken_follows() {
    let db = database();
    let mut client = db.client();
    for (change, payload) in [
        (
            "SELECT hwheel.schedule('a', now(), queue => 'q', payload => '2')",
            "2",
        ),
        ("SELECT hwheel.move('a', now())", "1"),
        (
            "SELECT hwheel.schedule_many('{a}', ARRAY[now()], '{2}', queue => 'q')",
            "2",
        ),
    ] {
        for end in [
            "done($1, $2)",
            "fail($1, $2, 'no')",
            "fail($1, $2, 'no', is_final => true)",
        ] {
            db.execute(
                "DELETE FROM hwheel.job; DELETE FROM hwheel.history;
                SELECT hwheel.schedule('a', now(), queue => 'q', payload => '1')",
            );
            let (id, lease, ..) = take(&mut client, "q", 1)[0];
            for _ in 0..3 {
                db.execute(change);
                assert_eq!(take(&mut client, "q", 5).len(), 0);
            }
            client
                .query_one(&format!("SELECT hwheel.{end}"), &[&id, &lease])
                .unwrap();
            // The run that has ended, and one that follows.
            assert!(db.is(&format!(
                "SELECT count(*) = 1 AND bool_and(attempts = 0 AND payload = '{payload}' AND next IS NULL)
                FROM hwheel.job WHERE state = 'waiting'"
            )), "{change}: {end}");
            assert_eq!(take(&mut client, "q", 5).len(), 1);
            let others = db.number("SELECT count(*) FROM hwheel.all_jobs WHERE state IN ('done', 'dead') AND payload = '1'");
            assert_eq!(
                others,
                i64::from(!end.ends_with("'no')")),
                "{change}: {end}"
            );
        }
    }
    // To cancel it forgets what was to follow.
    db.execute("DELETE FROM hwheel.job; SELECT hwheel.schedule('a', now(), queue => 'q')");
    let (id, lease, ..) = take(&mut client, "q", 1)[0];
    db.execute("SELECT hwheel.move('a', now()); SELECT hwheel.cancel('a')");
    assert!(db.is("SELECT state = 'running' AND next IS NULL FROM hwheel.job"));
    client
        .query_one("SELECT hwheel.done($1, $2)", &[&id, &lease])
        .unwrap();
    assert!(db.is("SELECT count(*) = 0 FROM hwheel.job"));
}

/// What an application reads when it extends its leases.
fn extend(client: &mut Client, leases: &[(i64, i64)]) -> Vec<String> {
    let (ids, leases): (Vec<i64>, Vec<i64>) = leases.iter().copied().unzip();
    let sql = "SELECT e.outcome FROM hwheel.extend_many($1, $2, '1 min') e
        JOIN unnest($1) WITH ORDINALITY AS w (id, n) USING (id) ORDER BY n";
    let rows = client.query(sql, &[&ids, &leases]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

#[test]
fn a_run_that_is_cancelled_keeps_its_key_until_it_ends() {
    let db = database();
    let mut client = db.client();
    // How the run ends, and what is left: jobs that are to run, and that are done.
    for (end, answer, done) in [
        ("SELECT hwheel.fail($1, $2, 'stopped')", "cancelled", 0i64),
        ("SELECT hwheel.snooze($1, $2, '1 s')", "cancelled", 0),
        ("SELECT hwheel.done($1, $2)::text", "", 1),
        (
            "WITH t AS (UPDATE hwheel.job SET lease_until = now() - interval '1 s' WHERE id = $1 AND fence = $2 RETURNING 1)
            SELECT count(*)::text FROM t",
            "1",
            0,
        ),
    ] {
        for what in ["NULL", "'1 h'"] {
            db.execute("TRUNCATE hwheel.job, hwheel.history, hwheel.stop");
            let schedule = |payload: i32, more: &str| {
                db.execute(&format!("SELECT hwheel.schedule('a', now(), every => {what}, queue => 'q', payload => '{payload}'{more})"));
            };
            schedule(1, "");
            let (id, lease, ..) = take(&mut client, "q", 1)[0];
            assert_eq!(extend(&mut client, &[(id, lease), (id + 1, 1)]), ["extended", "gone"]);
            assert_eq!(db.text("SELECT hwheel.cancel('a')"), "stopping");
            assert_eq!(db.text("SELECT hwheel.cancel('a')"), "stopping");
            assert_eq!(extend(&mut client, &[(id, lease)]), ["cancelled"]);
            let error = client.query_one("SELECT hwheel.extend($1, $2, '1 min')", &[&id, &lease]);
            assert_eq!(code(&error.unwrap_err()), "HW004");
            // For a user the job is not there any more.
            assert!(!db.is("SELECT hwheel.move('a', now()) OR hwheel.pause('a')"));
            schedule(2, ", if_exists => 'keep'");
            schedule(3, ", if_exists => 'keep'");
            assert_eq!(take(&mut client, "q", 5).len(), 0, "{end}: two runs of a key");
            let said: Option<String> = client.query_one(end, &[&id, &lease]).unwrap().get(0);
            assert_eq!(said.as_deref().unwrap_or_default(), answer, "{end}");
            if answer == "1" {
                db.execute("SELECT hwheel._expire()");
            }
            assert_eq!(db.number("SELECT count(*) FROM hwheel.history"), done, "{end}");
            let left = "SELECT count(*) = 1 AND bool_and(payload = '2' AND attempts = 0 AND state = 'waiting') FROM hwheel.job";
            assert!(db.is(left), "{end}");
            // Nobody has cancelled the new one.
            assert_eq!(take(&mut client, "q", 5).len(), 1);
            db.execute("SELECT hwheel._stopping(0)");
            assert!(db.is("SELECT count(*) = 0 FROM hwheel.stop"), "{end}");
            assert!(db.is("SELECT state = 'running' FROM hwheel.job"));
        }
    }
}

/// Somebody cancels a job, and perhaps schedules it again, in a transaction for which the call waits
/// that ends the run.
#[test]
fn a_run_that_ends_while_its_job_is_cancelled_comes_back_only_as_what_was_scheduled() {
    let db = database();
    for end in [
        "SELECT hwheel.fail($1, $2, 'no', '0')",
        "SELECT hwheel.snooze($1, $2, '0')",
        "SELECT hwheel.done($1, $2)::text",
    ] {
        for (what, is_again) in [
            ("NULL", false),
            ("NULL", true),
            ("'1 h'", false),
            ("'1 h'", true),
        ] {
            db.execute(&format!(
                "TRUNCATE hwheel.job, hwheel.history, hwheel.stop;
                SELECT hwheel.schedule('a', now(), every => {what}, queue => 'q', payload => '1')"
            ));
            let mut client = db.client();
            let (id, lease, ..) = take(&mut client, "q", 1)[0];
            let mut other = db.client();
            let mut transaction = other.transaction().unwrap();
            let said = transaction
                .query_one("SELECT hwheel.cancel('a')", &[])
                .unwrap();
            assert_eq!(said.get::<_, &str>(0), "stopping");
            if is_again {
                transaction.run(&format!(
                        "SELECT hwheel.schedule('a', now(), every => {what}, queue => 'q', payload => '2')"
                    ));
            }
            std::thread::scope(|scope| {
                scope.spawn(move || client.query_one(end, &[&id, &lease]).unwrap());
                db.wait("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())");
                transaction.commit().unwrap();
            });
            let left = i64::from(is_again);
            let is_right = format!(
                "SELECT count(*) = {left} AND count(*) FILTER (WHERE payload = '2' AND attempts = 0 AND state = 'waiting') = {left} FROM hwheel.job"
            );
            assert!(db.is(&is_right), "{end}, {what}, {is_again}");
            // Nobody has cancelled the new one.
            db.execute("SELECT hwheel._stopping(0)");
            assert!(db.is(&is_right), "{end}, {what}, {is_again}");
            assert!(db.is("SELECT count(*) = 0 FROM hwheel.stop"));
        }
    }
}

#[test]
fn an_application_is_notified_of_what_is_cancelled_and_extends_without_waiting() {
    let db = database();
    db.execute("SELECT hwheel.schedule(k, now(), queue => 'q') FROM unnest('{a,b,c}'::text[]) k");
    let mut client = db.client_after("SELECT hwheel.listen('q')");
    let taken: Vec<(i64, i64)> = take(&mut client, "q", 3)
        .into_iter()
        .map(|(id, lease, ..)| (id, lease))
        .collect();
    let b = taken[1].0;
    let key = db.text(&format!("SELECT key FROM hwheel.job WHERE id = {b}"));
    assert_eq!(
        db.text(&format!("SELECT hwheel.cancel('{key}')")),
        "stopping"
    );
    let mut heard = Vec::new();
    while heard.last().is_none_or(String::is_empty) {
        let mut notifications = client.notifications();
        let next = notifications.timeout_iter(Duration::from_secs(5)).next();
        let next = next.unwrap().expect("a notification within 5 s");
        heard.push(next.payload().to_owned());
    }
    assert!(heard.contains(&format!("cancel {b}")), "{heard:?}");
    // The transaction that is about to end a job holds it.
    let mut ending = db.client();
    let mut transaction = ending.transaction().unwrap();
    let (id, lease) = taken[2];
    transaction
        .query_one("SELECT hwheel.done($1, $2)", &[&id, &lease])
        .unwrap();
    assert_eq!(
        extend(&mut client, &taken),
        ["extended", "cancelled", "busy"]
    );
    transaction.commit().unwrap();
    assert_eq!(
        extend(&mut client, &taken),
        ["extended", "cancelled", "gone"]
    );
    for wrong in [
        "hwheel.extend_many('{1}', '{}')",
        "hwheel.extend_many('{1}', NULL)",
        "hwheel.extend_many('{1}', '{1}', '0')",
        "hwheel.snooze(1, 1, '-1 s')",
        "hwheel.snooze(1, 1, '367 days')",
        "hwheel.fail(1, 1, 'no', '367 days')",
        "hwheel.snooze(1, 1, NULL)",
    ] {
        assert!(db
            .refusal(&format!("SELECT {wrong}"))
            .starts_with("hwheel: "));
    }
    assert_eq!(
        db.number("SELECT count(*) FROM hwheel.extend_many('{}', '{}')"),
        0
    );
}

#[test]
fn a_job_that_snoozes_uses_no_attempt() {
    let db = database();
    db.execute("SELECT hwheel.schedule('a', now(), queue => 'q', max_attempts => 2)");
    let mut client = db.client();
    for _ in 0..5 {
        let (id, lease, ..) = take(&mut client, "q", 1)[0];
        assert!(db.is("SELECT attempts = 1 FROM hwheel.job"));
        let snooze = "SELECT hwheel.snooze($1, $2, '1 h')";
        let said: String = client.query_one(snooze, &[&id, &lease]).unwrap().get(0);
        assert_eq!(said, "snoozed");
        assert!(db.is("SELECT attempts = 0 AND state = 'waiting' AND owner IS NULL AND due > now() + interval '59 min' FROM hwheel.job"));
        assert_eq!(
            code(&client.query_one(snooze, &[&id, &lease]).unwrap_err()),
            "HW003"
        );
        assert_eq!(take(&mut client, "q", 1).len(), 0);
        db.execute("SELECT hwheel.move('a', now())");
    }
    // It stays paused, and becomes what it is scheduled as.
    let (id, lease, ..) = take(&mut client, "q", 1)[0];
    db.execute("SELECT hwheel.pause('a')");
    client
        .query_one("SELECT hwheel.snooze($1, $2, '0')", &[&id, &lease])
        .unwrap();
    assert!(db.is("SELECT due = 'infinity' AND isfinite(paused_due) FROM hwheel.job"));
    db.execute("SELECT hwheel.resume('a')");
    let (id, lease, ..) = take(&mut client, "q", 1)[0];
    db.execute("SELECT hwheel.schedule('a', now(), queue => 'q', payload => '2')");
    client
        .query_one("SELECT hwheel.snooze($1, $2, '1 h')", &[&id, &lease])
        .unwrap();
    assert!(db.is("SELECT due <= now() AND payload = '2' FROM hwheel.job"));
}

/// A test of an application runs what is due in the transaction that it rolls back.
/// The workers let a function wait for a year of seconds. An interval of a year has 360 days.
#[test]
fn a_job_may_wait_for_a_year() {
    let db = database();
    let mut client = db.client();
    for call in ["hwheel.snooze($1, $2, ", "hwheel.fail($1, $2, 'no', "] {
        db.execute("SELECT hwheel.schedule('a', now(), queue => 'q')");
        let (id, lease, ..) = take(&mut client, "q", 1)[0];
        let sql = format!("SELECT {call} make_interval(secs => 365 * 86400))");
        client.query_one(&sql, &[&id, &lease]).unwrap();
        assert!(db.is("SELECT due - now() BETWEEN '364 days' AND '366 days' FROM hwheel.job"));
    }
}

#[test]
fn a_test_schedules_takes_and_rolls_back_in_one_transaction() {
    let db = database();
    let mut client = db.client();
    let mut test = client.transaction().unwrap();
    test.run("SET LOCAL hwheel.test = on; SELECT hwheel.schedule('a', now(), queue => 'q')");
    let rows = test
        .query("SELECT id, lease FROM hwheel.take('q', 10)", &[])
        .unwrap();
    assert_eq!(rows.len(), 1);
    let (id, lease): (i64, i64) = (rows[0].get(0), rows[0].get(1));
    test.query_one("SELECT hwheel.done($1, $2)", &[&id, &lease])
        .unwrap();
    test.rollback().unwrap();
    assert_eq!(db.number("SELECT count(*) FROM hwheel.all_jobs"), 0);
    db.execute("SELECT hwheel.schedule('a', now(), queue => 'q')");
    let refused = db.refusal(
        "BEGIN; SELECT hwheel.schedule('b', now(), queue => 'q'); SELECT hwheel.take('q')",
    );
    assert!(refused.contains("a transaction of its own"), "{refused}");
}

#[test]
fn an_application_that_dies_or_fails_costs_attempts_and_no_job() {
    let db = database();
    let _node = db.node("one");
    db.execute(
        "SELECT hwheel.schedule('dies', now(), queue => 'q', timeout => '200 ms', max_attempts => 2, backoff => '20 ms');
        SELECT hwheel.schedule('fails', now(), queue => 'p', max_attempts => 2, backoff => '20 ms');
        SELECT hwheel.schedule('final', now(), queue => 'f');
        SELECT hwheel.schedule('waits', now(), queue => 'w')",
    );
    for attempt in 1..=2 {
        // The connection ends after the call.
        let jobs = take(&mut db.client(), "q", 1);
        assert_eq!(jobs[0].3, attempt);
        let mut client = db.client();
        let (id, lease, ..) = take(&mut client, "p", 1)[0];
        let outcome = client.query_one("SELECT hwheel.fail($1, $2, 'no')", &[&id, &lease]);
        let outcome: String = outcome.unwrap().get(0);
        assert_eq!(outcome, ["retry", "dead"][attempt as usize - 1]);
        if attempt == 1 {
            db.wait("SELECT bool_and(state = 'waiting' AND due <= clock_timestamp()) FROM hwheel.job WHERE key IN ('dies', 'fails')");
        }
    }
    db.wait(
        "SELECT count(*) = 2 FROM hwheel.job WHERE state = 'dead' AND attempts = 2
        AND last_error = CASE key WHEN 'dies' THEN 'the lease ran out' ELSE 'no' END",
    );
    let mut client = db.client();
    let (id, lease, ..) = take(&mut client, "f", 1)[0];
    let fail = "SELECT hwheel.fail($1, $2, is_final => true)";
    assert_eq!(
        client
            .query_one(fail, &[&id, &lease])
            .unwrap()
            .get::<_, &str>(0),
        "dead"
    );
    let (id, lease, ..) = take(&mut client, "w", 1)[0];
    let fail = "SELECT hwheel.fail($1, $2, retry_after => '1 h')";
    client.query_one(fail, &[&id, &lease]).unwrap();
    assert!(db.is("SELECT due > now() + interval '50 min' FROM hwheel.job WHERE key = 'waits'"));
    // A dead one lives again.
    assert!(db.is("SELECT hwheel.revive('final')"));
    assert_eq!(take(&mut client, "f", 1)[0].3, 1);
}

#[test]
fn a_lease_may_be_extended() {
    let db = database();
    let _node = db.node("one");
    db.execute("SELECT hwheel.schedule('a', now(), queue => 'q', timeout => '700 ms')");
    let mut client = db.client();
    let (id, lease, ..) = take(&mut client, "q", 1)[0];
    client
        .query_one("SELECT hwheel.extend($1, $2, '1 min')", &[&id, &lease])
        .unwrap();
    sleep(Duration::from_secs(3));
    done(&mut client, id, lease).unwrap();
}

#[test]
fn waiting_applications_are_woken_when_a_job_is_due() {
    let db = database();
    let (_a, _b) = (db.node("a"), db.node("b"));
    let mut client = db.client();
    client.query("SELECT hwheel.listen('q')", &[]).unwrap();
    // Due at once, within the window, and beyond it. The last one is due again and again.
    // A turn of a node may wake them once more for jobs that nobody has taken yet.
    for (schedule, most) in [
        ("SELECT hwheel.schedule('k' || i, now(), queue => 'q') FROM generate_series(1, 100) i", 2),
        ("SELECT hwheel.schedule_many(array_agg('k' || i), ARRAY[now() + interval '1 s'], queue => 'q') FROM generate_series(1, 100) i", 2),
        ("SELECT hwheel.schedule('k' || i, now() + interval '3 s', queue => 'q') FROM generate_series(1, 100) i", 2),
        ("SELECT hwheel.schedule('tick', every => '1 s', queue => 'q')", 3),
    ] {
        db.execute(schedule);
        let written = Instant::now();
        let late = loop {
            let woken = {
                let mut notifications = client.notifications();
                let mut iterator = notifications.timeout_iter(Duration::from_secs(10));
                iterator.next().unwrap().expect("no notification")
            };
            assert_eq!(woken.channel(), "hwheel:q");
            let late: f64 = db.value(
                "SELECT extract(epoch FROM clock_timestamp() - min(due))::float8 FROM hwheel.job WHERE queue = 'q'",
            );
            // Otherwise it was for the jobs before, which have been taken since.
            if late >= 0.0 {
                // Those that are due at once were not there before.
                break late.min(written.elapsed().as_secs_f64());
            }
        };
        // This machine may be busy. The benchmark measures how late it is.
        assert!(late < 1.5, "{schedule}: {late}");
        let jobs = take(&mut client, "q", 1000);
        assert!(matches!(jobs.len(), 1 | 100), "{}", jobs.len());
        let (ids, leases): (Vec<i64>, Vec<i64>) = jobs.iter().map(|job| (job.0, job.1)).unzip();
        let ended = client
            .query("SELECT hwheel.done_many($1, $2)", &[&ids, &leases])
            .unwrap();
        assert_eq!(ended.len(), jobs.len());
        sleep(Duration::from_millis(300));
        let more = client.notifications().iter().count().unwrap();
        assert!(more < most, "{schedule}: {more} more notifications");
    }
}

#[test]
fn a_job_of_an_application_recurs() {
    let db = database();
    let _node = db.node("one");
    db.execute(
        "SELECT hwheel.schedule('tick', now(), every => '300 ms', queue => 'q', missed => 'all', max_attempts => 1);
        SELECT hwheel.schedule('daily', cron => '30 2 * * *', queue => 'd')",
    );
    db.wait("SELECT due > now() AND state = 'waiting' FROM hwheel.job WHERE key = 'daily'");
    let mut client = db.client();
    for n in 0..4 {
        db.wait("SELECT EXISTS (SELECT FROM hwheel.job WHERE key = 'tick' AND state = 'waiting' AND due <= clock_timestamp() AND isfinite(due))");
        let (id, lease, ..) = take(&mut client, "q", 1)[0];
        let is_right = format!(
            "SELECT occurrence = created_at_first + {n} * interval '300 ms' FROM (SELECT occurrence,
                (SELECT min(due) FROM run WHERE key = 'first') AS created_at_first FROM hwheel.job WHERE key = 'tick' AND state <> 'dead') x"
        );
        if n == 0 {
            db.execute(
                "INSERT INTO run SELECT 'first', occurrence FROM hwheel.job WHERE key = 'tick'",
            );
        }
        assert!(db.is(&is_right), "{n}");
        if n == 2 {
            // A run that is dead does not end the series.
            client
                .query_one("SELECT hwheel.fail($1, $2)", &[&id, &lease])
                .unwrap();
        } else {
            done(&mut client, id, lease).unwrap();
        }
    }
    assert!(db.is("SELECT count(*) = 1 FROM hwheel.job WHERE key = 'tick' AND state = 'dead' AND every IS NULL"));
    db.wait("SELECT EXISTS (SELECT FROM hwheel.job WHERE key = 'tick' AND state = 'waiting' AND runs = 3)");
}

#[test]
fn many_applications_take_each_job_once_within_the_limits() {
    let db = database();
    db.execute(
        "SELECT hwheel.schedule_many(array_agg('k' || i), ARRAY[now()], queue => 'q') FROM generate_series(1, 500) i;
        SELECT hwheel.schedule_many(array_agg('l' || i), ARRAY[now()], queue => 'l') FROM generate_series(1, 20) i;
        SELECT hwheel.schedule_many(array_agg('r' || i), ARRAY[now()], queue => 'r') FROM generate_series(1, 90) i;
        SELECT hwheel.set_queue('l', max_running => 3); SELECT hwheel.set_queue('r', rate => 100)",
    );
    let begin = Instant::now();
    let starts: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let db = &db;
                scope.spawn(move || {
                    let (mut client, mut starts) = (db.client(), 0);
                    loop {
                        let jobs = take(&mut client, "q", 7);
                        for (id, lease, key, _) in &jobs {
                            let mut transaction = client.transaction().unwrap();
                            transaction
                                .execute("INSERT INTO run VALUES ($1)", &[key])
                                .unwrap();
                            transaction
                                .query_one("SELECT hwheel.done($1, $2)", &[id, lease])
                                .unwrap();
                            transaction.commit().unwrap();
                        }
                        let limited = take(&mut client, "l", 2);
                        for (id, lease, ..) in &limited {
                            done(&mut client, *id, *lease).unwrap();
                        }
                        starts += take(&mut client, "r", 50).len();
                        if jobs.is_empty() && limited.is_empty() {
                            return starts;
                        }
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .sum()
    });
    let most = 6.0 + 100.0 * begin.elapsed().as_secs_f64();
    assert!(starts > 0 && starts as f64 <= most, "{starts} {most}");
    assert!(db.is("SELECT count(*) = 500 AND count(DISTINCT key) = 500 FROM run"));
    assert!(db.is("SELECT count(*) = 520 FROM hwheel.history"));
    assert!(most_at_once(&db, "l") <= 3);
}

#[test]
fn many_jobs_are_scheduled_by_one_call() {
    let db = database();
    db.execute("UPDATE hwheel.settings SET window_length = '60 s'");
    let _node = db.node("one");
    db.execute("SELECT hwheel.schedule('b', now() + interval '50 s', sql => 'fail')");
    db.wait("SELECT state = 'claimed' FROM hwheel.job WHERE key = 'b'");
    let count = db.number(
        "SELECT hwheel.schedule_many('{a,b,c}', ARRAY[now(), now() + interval '1 s', now() - interval '1 h'],
            '{1,NULL,3}', sql => 'note', queue => 'q', priority => 2)",
    );
    assert_eq!(count, 3);
    db.wait("SELECT count(*) = 3 FROM hwheel.history WHERE queue = 'q' AND priority = 2");
    db.all_done_once();
    assert!(db.is("SELECT bool_and(payload IS NOT DISTINCT FROM CASE key WHEN 'a' THEN '1'::jsonb WHEN 'c' THEN '3' END) FROM run"));
    // With if_exists => keep, jobs that exist stay as they are.
    db.execute(
        "SELECT hwheel.schedule_many('{x,y}', ARRAY[now() + interval '1 h'], sql => 'note')",
    );
    db.execute("SELECT hwheel.schedule_many('{x,y,z}', ARRAY[now() + interval '2 h'], sql => 'fail', if_exists => 'keep')");
    assert!(db.is("SELECT count(*) = 3 AND count(*) FILTER (WHERE target = 'public.note') = 2 FROM hwheel.job"));
    assert_eq!(
        db.number("SELECT hwheel.schedule_many('{}', ARRAY[now()], sql => 'note')"),
        0
    );
}

/// The run of a job begins while the call waits for the lock of another one.
#[test]
fn a_job_that_begins_while_many_are_scheduled_becomes_the_new_one() {
    let db = database();
    let _node = db.node("one");
    db.execute("SELECT hwheel.schedule('z', now(), command => 'sleep 5')");
    db.wait("SELECT state = 'running' FROM hwheel.job WHERE key = 'z'");
    db.execute("SELECT hwheel.schedule('b', now() + interval '1.5 s', command => 'sleep 5')");
    db.wait("SELECT state = 'claimed' FROM hwheel.job WHERE key = 'b'");
    let mut other = db.client_after("BEGIN; SELECT FROM hwheel.job WHERE key = 'z' FOR UPDATE");
    let mut client = db.client();
    let many = spawn(move || {
        client.one::<i64>(
            "SELECT hwheel.schedule_many('{b,z}', ARRAY[now() + interval '1 h'], command => 'true')",
        )
    });
    db.wait("SELECT state = 'running' FROM hwheel.job WHERE key = 'b'");
    other.run("ROLLBACK");
    assert_eq!(many.join().unwrap(), 2);
    assert!(db.is("SELECT count(*) = 2 AND bool_and(next IS NOT NULL) FROM hwheel.job"));
}

#[test]
fn one_due_time_counts_for_all_jobs_whatever_array_has_it() {
    let db = database();
    for due in ["[0:0]={2030-01-01}", "{{2030-01-01}}"] {
        db.execute(&format!(
            "SELECT hwheel.schedule_many('{{a,b,c}}', '{due}', sql => 'note')"
        ));
        assert!(
            db.is("SELECT count(*) = 3 AND bool_and(due = '2030-01-01' AND occurrence = due) FROM hwheel.job"),
            "{due}"
        );
    }
    // A job whose run is under way has that time afterwards.
    db.execute(
        "DELETE FROM hwheel.job; SELECT hwheel.schedule_many('{a,b}', ARRAY[now()], queue => 'q')",
    );
    db.execute("SELECT hwheel.take('q', 2)");
    db.execute("SELECT hwheel.schedule_many('{a,b}', '[0:0]={2030-01-01}', queue => 'q')");
    assert!(db.is("SELECT count(*) = 2 AND bool_and((next->>'due')::timestamptz = '2030-01-01') FROM hwheel.job"));
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    let db = database();
    for (sql, message) in [
        ("SELECT hwheel.schedule('a', now(), queue => '')", "\"\" is no name of a queue"),
        ("SELECT hwheel.schedule('a', now(), queue => 'a\"; DROP TABLE run')", "is no name of a queue"),
        ("SELECT hwheel.schedule('a', now(), queue => repeat('x', 51))", "is no name of a queue"),
        ("SELECT hwheel.schedule('a', now(), queue => 'q', priority => 10)", "priority is from 0 to 9"),
        ("SELECT hwheel.schedule('a', now(), queue => 'q', priority => NULL)", "priority is from 0 to 9"),
        ("SELECT hwheel.schedule('a', every => '1 h', queue => 'q', missed => 'skip')", "needs sql, command or http"),
        ("SELECT hwheel.schedule('a', now(), queue => 'q', run_as => 'postgres')", "need sql"),
        ("SELECT hwheel.take(NULL)", "take() needs a queue"),
        ("SELECT hwheel.take('q', 0)", "a number from 1 to 10000"),
        ("SELECT hwheel.take('q', NULL)", "a number from 1 to 10000"),
        ("SELECT hwheel.take('q', 1, '-1 s')", "a lease is from 1 ms to 1 day"),
        ("SELECT hwheel.take('q'';--')", "is no name of a queue"),
        ("SELECT hwheel.listen('q\"; NOTIFY x; --')", "is no name of a queue"),
        ("SELECT hwheel.done(NULL, NULL)", "the lease of job"),
        ("SELECT hwheel.done(1, 1)", "the lease of job 1 has ended"),
        ("SELECT hwheel.done_many('{1,2}', '{1}')", "each job has a lease"),
        ("SELECT hwheel.fail(1, 1, retry_after => '-1 s')", "retry_after is from 0"),
        ("SELECT hwheel.extend(1, 1, NULL)", "a lease is from 1 ms to 1 day"),
        ("SELECT hwheel.set_queue(NULL)", "a queue has a name"),
        ("SELECT hwheel.set_queue('q', 0)", "max_running is from 1"),
        ("SELECT hwheel.set_queue('q', rate => 'NaN')", "rate is from 0.001"),
        ("SELECT hwheel.set_queue('q', rate => -1)", "rate is from 0.001"),
        ("SELECT hwheel.pause_queue(NULL)", "a queue has a name"),
        ("SELECT hwheel.pause_queue('a b')", "is no name of a queue"),
        ("SELECT hwheel.schedule_many('{a,a}', ARRAY[now()], sql => 'note')", "a key is there twice"),
        ("SELECT hwheel.schedule_many('{a,NULL}', ARRAY[now()], sql => 'note')", "a key has 1 to 255 bytes"),
        ("SELECT hwheel.schedule_many('{a,b,c}', ARRAY[now(), now()], sql => 'note')", "one due time or one for each job"),
        ("SELECT hwheel.schedule_many('{a,b}', ARRAY[now(), 'infinity'], sql => 'note')", "infinity is no due time"),
        ("SELECT hwheel.schedule_many('{a,b}', ARRAY[now()], '{1}', sql => 'note')", "no payload or one for each job"),
        ("SELECT hwheel.schedule_many('{a,b}', ARRAY[now()], ARRAY['1', to_jsonb(repeat('x', 65536))], sql => 'note')", "more than 65536"),
        ("SELECT hwheel.schedule_many('{a,b}', ARRAY[now()], sql => 'nothing')", "there is no function nothing"),
        ("SELECT hwheel.schedule_many(NULL, NULL)", "there is a key for each job"),
    ] {
        let refusal = db.refusal(sql);
        assert!(refusal.contains(message), "{sql}: {refusal}");
    }
    // Its attempts would be rolled back with it.
    let refusal = db.refusal("BEGIN; INSERT INTO run VALUES ('a'); SELECT hwheel.take('q')");
    assert!(
        refusal.contains("take() needs a transaction of its own"),
        "{refusal}"
    );
    assert!(db.is("SELECT count(*) = 0 FROM hwheel.job"));
    assert!(db.is("SELECT count(*) = 0 FROM hwheel.queue"));
}

/// A job is written twice: by its claim and by its end.
#[test]
fn old_jobs_are_deleted_and_a_run_costs_two_writes() {
    let db = database();
    {
        let _node = db.node("one");
        db.execute("SELECT hwheel.schedule_many(array_agg('k' || i), ARRAY[now() + interval '500 ms'], sql => 'note') FROM generate_series(1, 100) i");
        db.wait("SELECT count(*) = 100 FROM hwheel.history");
        db.execute("SELECT hwheel.schedule_many(array_agg('k' || i), ARRAY[now()], queue => 'q') FROM generate_series(1, 100) i");
        let mut client = db.client();
        for (id, lease, ..) in take(&mut client, "q", 100) {
            done(&mut client, id, lease).unwrap();
        }
    }
    // Each call of schedule_many() has written and deleted one more.
    db.wait(
        "SELECT n_tup_ins = 202 AND n_tup_upd = 200 AND n_tup_del = 202
        FROM pg_stat_user_tables WHERE schemaname = 'hwheel' AND relname = 'job'",
    );
    assert_eq!(db.number("SELECT count(*) FROM hwheel.job"), 0);

    db.execute(
        "INSERT INTO hwheel.history SELECT (h).* FROM (SELECT jsonb_populate_record(NULL::hwheel.history,
                to_jsonb(h) || jsonb_build_object('slot', (h.slot + 32 - days) % 32,
                    'finished_at', h.finished_at - days * interval '1 day')) AS h
            FROM (SELECT * FROM hwheel.history LIMIT 1) h, generate_series(1, 30) days) x;
        INSERT INTO hwheel.job (key, state, due, occurrence, missed, grace, kind, target, max_attempts, backoff,
            timeout, finished_at) SELECT 'd', 'dead', now(), now(), 'once', '0', 'sql', 'note', 1, '1 s', '1 s',
            now() - days * interval '1 day' FROM generate_series(1, 10) days;
        UPDATE hwheel.settings SET keep_done = '3 days', keep_dead = '5 days';
        SELECT hwheel._tend()",
    );
    assert_eq!(db.number("SELECT count(*) FROM hwheel.history"), 203);
    assert!(db.is("SELECT bool_and(finished_at > now() - interval '4 days') FROM hwheel.history"));
    assert_eq!(db.number("SELECT count(*) FROM hwheel.job"), 4);
    // A reader delays it, and it delays nobody.
    let mut reader = db.client_after("BEGIN; SELECT count(*) FROM hwheel.history");
    db.execute("UPDATE hwheel.settings SET keep_done = '0'; SELECT hwheel._tend()");
    reader.run("COMMIT");
    db.execute("SELECT hwheel._tend()");
    assert!(db.is("SELECT bool_and(finished_at > now() - interval '1 day') FROM hwheel.history"));
    db.execute("DELETE FROM hwheel.history; SELECT hwheel.schedule('a', now(), sql => 'note')");
    let _node = db.node("two");
    db.wait("SELECT EXISTS (SELECT FROM run WHERE key = 'a')");
    db.wait("SELECT NOT EXISTS (SELECT FROM hwheel.all_jobs WHERE key = 'a')");
}

#[test]
fn the_program_shows_and_changes_queues() {
    let db = database();
    let run = |arguments: &[&str]| {
        let output = db.program(arguments);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.success(), text)
    };
    db.execute("SELECT hwheel.schedule('a', now(), queue => 'mail')");
    let (ok, text) = run(&["queue", "mail", "--max-running", "3", "--pause"]);
    assert!(ok && text == "\"mail\": paused, 3 at once\n", "{text}");
    let (ok, text) = run(&["queue", "mail", "--rate", "2.5", "--resume"]);
    assert!(
        ok && text == "\"mail\": 3 at once, 2.5 per second\n",
        "{text}"
    );
    let (ok, text) = run(&["queues"]);
    assert!(ok && text.contains("mail   3      2.5/s"), "{text}");
    let (ok, text) = run(&["queues", "--json"]);
    assert!(
        ok && text.contains("\"queue\":\"mail\",\"max_running\":3"),
        "{text}"
    );
    let (ok, text) = run(&["queue", "mail", "--unlimited"]);
    assert!(ok && text == "\"mail\": no limit\n", "{text}");
    let (ok, text) = run(&["queue", "no name", "--pause"]);
    assert!(!ok && text.contains("is no name of a queue"), "{text}");
    let (ok, text) = run(&["queue", "mail", "--max-running", "0"]);
    assert!(!ok && text.contains("max_running is from 1"), "{text}");
}

struct Application(Child);

impl Drop for Application {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn each_client_to_copy_runs_each_job_once_and_may_be_killed() {
    let db = database();
    let _node = db.node("one");
    db.execute("CREATE TABLE sent (key text)");
    let rust = Path::new(PROGRAM).with_file_name("examples").join("take");
    for (language, program) in [("rust", rust)] {
        if !program.exists() {
            skip(&format!("the client in {language}: cargo has not built it"));
            continue;
        }
        db.execute(&format!(
            "TRUNCATE sent;
            SELECT hwheel.schedule('{language}' || i, now() + i * interval '50 ms', queue => '{language}', timeout => '1 s')
            FROM generate_series(1, 30) i;
            SELECT hwheel.schedule('{language}-bad', now(), queue => '{language}', payload => '\"fail\"', timeout => '1 s',
                max_attempts => 4, backoff => '50 ms')"
        ));
        let run = || {
            let mut client = Command::new(&program);
            client.arg(language).env("DATABASE_URL", &db.url);
            Application(client.stderr(Stdio::null()).spawn().unwrap())
        };
        let first = run();
        db.wait("SELECT count(*) > 3 FROM sent");
        drop(first);
        let _second = run();
        db.wait(&format!(
            "SELECT count(*) = 30 FROM hwheel.history WHERE queue = '{language}'"
        ));
        db.wait(&format!(
            "SELECT state = 'dead' AND attempts = 4 AND last_error = 'it does not work'
            FROM hwheel.job WHERE key = '{language}-bad'"
        ));
        assert!(
            db.is("SELECT count(*) = 30 AND count(DISTINCT key) = 30 FROM sent"),
            "{language}"
        );
    }
}

/// The largest number of runs of a tenant at the same time, of those that are done.
fn most_of_a_tenant(db: &Database, queue: &str) -> i64 {
    db.number(&format!(
        "SELECT max(n) FROM (SELECT sum(step) OVER (PARTITION BY tenant ORDER BY at, step) AS n FROM (
            SELECT tenant, fired_at AS at, 1 AS step FROM hwheel.history WHERE queue = '{queue}'
            UNION ALL SELECT tenant, finished_at, -1 FROM hwheel.history WHERE queue = '{queue}') e) s"
    ))
}

#[test]
fn the_limit_of_each_tenant_is_exact_over_all_applications() {
    let db = database();
    db.execute(
        "SELECT hwheel.set_queue('q', max_running_per => 2);
        SELECT hwheel.schedule_many(array_agg('big' || i), ARRAY[now()], queue => 'q', tenant => 'big')
            FROM generate_series(1, 120) i;
        SELECT hwheel.schedule_many(array_agg('s' || t || '-' || i), ARRAY[now()], queue => 'q', tenant => 's' || t)
            FROM generate_series(1, 12) t, generate_series(1, 10) i GROUP BY t",
    );
    std::thread::scope(|scope| {
        for n in 0..4u64 {
            let mut client = db.client();
            scope.spawn(move || {
                let end = Instant::now() + Duration::from_secs(60);
                while Instant::now() < end {
                    let some = take(&mut client, "q", 7);
                    if some.is_empty() && client.one::<i64>("SELECT count(*) FROM hwheel.job") == 0
                    {
                        return;
                    }
                    for (id, lease, ..) in some {
                        sleep(Duration::from_millis(2 + n));
                        done(&mut client, id, lease).unwrap();
                    }
                }
                panic!("the jobs are not done");
            });
        }
    });
    assert_eq!(db.number("SELECT count(*) FROM hwheel.history"), 240);
    assert_eq!(most_of_a_tenant(&db, "q"), 2);
}

#[test]
fn a_tenant_with_a_backlog_hides_no_other_tenant() {
    let db = database();
    // More jobs of tenants that may begin nothing than one call looks at.
    db.execute(
        "SELECT hwheel.set_queue('q', max_running_per => 1);
        SELECT hwheel.schedule_many(array_agg('big' || i), ARRAY[now()], queue => 'q', tenant => 'big', priority => 9)
            FROM generate_series(1, 2000) i;
        SELECT hwheel.schedule_many(array_agg('more' || i), ARRAY[now()], queue => 'q', tenant => 'more', priority => 9)
            FROM generate_series(1, 2000) i;
        SELECT hwheel.schedule(t, now(), queue => 'q', tenant => t) FROM unnest('{a,b,m,z}'::text[]) t;
        SELECT hwheel.schedule('late', now() + interval '1 h', queue => 'q', tenant => 'c')",
    );
    let mut client = db.client();
    let mut keys: Vec<String> = Vec::new();
    for _ in 0..6 {
        let some = take(&mut client, "q", 1);
        assert_eq!(some.len(), 1, "{keys:?}");
        keys.push(some[0].2.clone());
    }
    assert!(take(&mut client, "q", 10).is_empty());
    keys.sort();
    let tenants: Vec<&str> = keys
        .iter()
        .map(|key| key.trim_end_matches(char::is_numeric))
        .collect();
    assert_eq!(tenants, ["a", "b", "big", "m", "more", "z"]);
    // Whose run ends may begin the next one.
    db.execute(
        "SELECT hwheel.done(id, fence) FROM hwheel.job WHERE state = 'running' AND tenant = 'more'",
    );
    assert!(take(&mut client, "q", 10)[0].2.starts_with("more"));
    assert!(take(&mut client, "q", 10).is_empty());
    // With several runs of a tenant at once, a call takes them together, its highest priority first.
    db.execute(
        "SELECT hwheel.set_queue('q', max_running_per => 3);
        SELECT hwheel.schedule('a-low', now(), queue => 'q', tenant => 'a');
        SELECT hwheel.schedule('a-high', now(), queue => 'q', tenant => 'a', priority => 3);
        SELECT hwheel.schedule('a-late', now() + interval '1 h', queue => 'q', tenant => 'a', priority => 3);
        SELECT hwheel.schedule('none-' || i, now(), queue => 'q') FROM generate_series(1, 5) i",
    );
    let some = take(&mut client, "q", 50);
    let count = |begin: &str| some.iter().filter(|job| job.2.starts_with(begin)).count();
    assert_eq!((count("big"), count("more"), count("a-")), (2, 2, 2));
    assert!(
        some.iter().position(|job| job.2 == "a-high")
            < some.iter().position(|job| job.2 == "a-low")
    );
}

/// The applications run no more at once than a tenant may, so its limit leaves no room for others.
#[test]
fn a_tenant_with_a_backlog_delays_no_other_tenant_though_there_is_room_for_it_alone() {
    let db = database();
    db.execute(
        "SELECT hwheel.set_queue('q', max_running_per => 5);
        SELECT hwheel.schedule_many(array_agg('big' || i), ARRAY[now()], queue => 'q', tenant => 'big')
            FROM generate_series(1, 2000) i;
        SELECT hwheel.schedule(k, now(), queue => 'q', tenant => t)
            FROM (VALUES ('small', 'small'), ('other', 'other'), ('none', NULL)) v (k, t)",
    );
    let mut client = db.client();
    let mut begun = 0;
    for at_most in [1, 5] {
        for _ in 0..60 {
            for (id, lease, ..) in take(&mut client, "q", at_most) {
                done(&mut client, id, lease).unwrap();
                begun += 1;
            }
        }
    }
    assert_eq!(begun, 360);
    let others = "SELECT count(*) FROM hwheel.history WHERE key IN ('small', 'other')";
    assert_eq!(db.number(others), 2);
}

/// Somebody holds a transaction open that has changed the first job of a tenant.
#[test]
fn a_locked_job_costs_its_tenant_no_run() {
    let db = database();
    db.execute(
        "SELECT hwheel.set_queue('q', max_running_per => 1);
        SELECT hwheel.schedule(k, now(), queue => 'q', tenant => 't') FROM unnest('{a,b,c}'::text[]) k",
    );
    let mut other = db.client();
    let mut held = other.transaction().unwrap();
    held.run("SELECT hwheel.move('a', now() + interval '1 h')");
    let mut client = db.client();
    assert_eq!(take(&mut client, "q", 5)[0].2, "b");
    assert!(take(&mut client, "q", 5).is_empty());
    held.rollback().unwrap();
    db.execute("SELECT hwheel.done(id, fence) FROM hwheel.job WHERE state = 'running'");
    assert_eq!(take(&mut client, "q", 5)[0].2, "a");
}

#[test]
fn a_tenant_is_a_text_of_a_job_that_an_application_takes() {
    let db = database();
    for (call, why) in [
        (
            "now(), sql => 'note', tenant => 't'",
            "an application takes",
        ),
        (
            "now(), queue => 'q', sql => 'note', tenant => 't'",
            "an application takes",
        ),
        ("now(), tenant => 't'", "a job is one of"),
        ("now(), queue => 'q', tenant => ''", "1 to 255 bytes"),
        (
            "now(), queue => 'q', tenant => repeat('ä', 128)",
            "1 to 255 bytes",
        ),
    ] {
        let refused = db.refusal(&format!("SELECT hwheel.schedule('x', {call})"));
        assert!(refused.contains(why), "{call}: {refused}");
    }
    for wrong in ["0", "100001"] {
        db.refusal(&format!(
            "SELECT hwheel.set_queue('q', max_running_per => {wrong})"
        ));
    }
    db.execute("SELECT hwheel.set_queue('q', max_running_per => 1)");
    let mut client = db.client();
    for tenant in [
        "repeat('ä', 127)",
        "E'\\n\\t''\"\\\\'",
        "'T' COLLATE \"C\"",
        "'t' COLLATE \"POSIX\"",
        "NULL",
    ] {
        db.execute(&format!(
            "SELECT hwheel.schedule('1', now(), queue => 'q', tenant => {tenant}), hwheel.schedule('2', now(), queue => 'q', tenant => {tenant})"
        ));
        let some = take(&mut client, "q", 5);
        assert_eq!(some.len(), if tenant == "NULL" { 2 } else { 1 }, "{tenant}");
        // The job that replaces a run has its own tenant.
        db.execute("SELECT hwheel.schedule(key, now(), queue => 'q', tenant => 'next') FROM hwheel.job WHERE state = 'running'");
        for (id, lease, ..) in some {
            done(&mut client, id, lease).unwrap();
        }
        assert!(db.is("SELECT bool_or(tenant = 'next') FROM hwheel.job"));
        assert!(db.is(&format!(
            "SELECT bool_and(tenant IS NOT DISTINCT FROM ({tenant})::text COLLATE \"C\") FROM hwheel.history"
        )));
        db.execute("TRUNCATE hwheel.job, hwheel.history");
    }
    let said = db.program(&["queue", "q", "--max-running-per", "4"]);
    assert!(String::from_utf8_lossy(&said.stdout).contains("4 at once per tenant"));
    let said = db.program(&["queues"]);
    assert!(String::from_utf8_lossy(&said.stdout).contains("4 each"));
    let said = db.program(&["queue", "q", "--max-running", "9"]);
    assert!(String::from_utf8_lossy(&said.stdout).contains("9 at once, 4 at once per tenant"));
}

/// What a job says of its attempts that failed: the texts of the last ten, in their order.
fn tried(db: &Database, key: &str) -> Vec<String> {
    let rows = db.rows(&format!(
        "SELECT a ->> 'said', (a ->> 'began')::timestamptz <= (a ->> 'ended')::timestamptz
            AND (a ->> 'ended')::timestamptz <= now()
        FROM hwheel.all_jobs, jsonb_array_elements(tried) WITH ORDINALITY AS t (a, n)
        WHERE key = '{key}' ORDER BY id DESC, n"
    ));
    rows.iter()
        .map(|row| {
            assert!(row.get::<_, bool>(1));
            row.get(0)
        })
        .collect()
}

#[test]
fn a_job_keeps_its_last_ten_attempts_that_failed() {
    let db = database();
    let _node = db.node("one");
    db.execute(
        "CREATE TABLE turn (key text PRIMARY KEY, n int);
        CREATE FUNCTION third(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            IF (SELECT count(*) FROM hwheel.job j, jsonb_array_elements(j.tried) WHERE j.key = third.key) < 2 THEN
                RAISE 'not yet';
            END IF;
        END $$;
        SELECT hwheel.schedule('third', now(), sql => 'third', backoff => '10 ms');
        SELECT hwheel.schedule('c', now(), command => 'echo no; exit 4', max_attempts => 2, backoff => '10 ms');
        SELECT hwheel.schedule('series', now(), every => '1 h', sql => 'fail', max_attempts => 2, backoff => '10 ms');
        SELECT hwheel.schedule('app', now(), queue => 'q', max_attempts => 20, backoff => '1 ms')",
    );
    let mut client = db.client();
    for n in 1..=12 {
        let end = Instant::now() + Duration::from_secs(20);
        db.execute("SELECT hwheel.move('app', now())");
        let (id, lease) = loop {
            if let Some((id, lease, ..)) = take(&mut client, "q", 1).first() {
                break (*id, *lease);
            }
            assert!(Instant::now() < end, "not taken");
        };
        let sql = "SELECT hwheel.fail($1, $2, $3)";
        let why = format!("no {n} {}", "x".repeat(2000));
        client.query_one(sql, &[&id, &lease, &why]).unwrap();
    }
    let said = tried(&db, "app");
    assert_eq!(said.len(), 10);
    assert!(said[0].starts_with("no 3 x") && said[9].starts_with("no 12 x"));
    assert!(said.iter().all(|text| text.len() == 1000));
    db.wait("SELECT count(*) = 1 FROM hwheel.history WHERE key = 'third'");
    assert_eq!(tried(&db, "third"), ["not yet (P0001)", "not yet (P0001)"]);
    db.wait("SELECT count(*) = 2 FROM hwheel.job WHERE state = 'dead'");
    assert_eq!(tried(&db, "c"), ["exit status 4: no", "exit status 4: no"]);
    assert_eq!(
        tried(&db, "series")[..2],
        ["it does not work (P0001)", "it does not work (P0001)"]
    );
    let shown = db.program(&["show", "c"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert_eq!(shown.matches("\nfailed        2").count(), 2, "{shown}");
    assert_eq!(shown.matches(": exit status 4: no").count(), 2, "{shown}");
    // It is another job that is scheduled under the key.
    db.execute("SELECT hwheel.schedule('app', now() + interval '1 h', queue => 'q')");
    assert!(db.is("SELECT tried IS NULL FROM hwheel.job WHERE key = 'app'"));
}

/// Transactions are open that schedule the keys of dead jobs.
#[test]
fn many_dead_jobs_are_revived_and_keys_of_open_transactions_are_passed_by() {
    let db = database();
    db.execute(
        "SELECT hwheel.schedule('k' || i, now(), queue => 'q', max_attempts => 1) FROM generate_series(1, 20) i",
    );
    let mut client = db.client();
    for (id, lease, ..) in take(&mut client, "q", 20) {
        client
            .query_one("SELECT hwheel.fail($1, $2)", &[&id, &lease])
            .unwrap();
    }
    let mut other = db.client();
    let mut open = other.transaction().unwrap();
    open.run("SELECT hwheel.schedule('k7', now(), queue => 'q')");
    let begin = Instant::now();
    assert_eq!(db.number("SELECT hwheel.revive_many()"), 19);
    assert!(
        begin.elapsed() < Duration::from_secs(3),
        "{:?}",
        begin.elapsed()
    );
    open.commit().unwrap();
    assert_eq!(db.number("SELECT hwheel.revive_many()"), 1);
    assert!(db.is("SELECT count(*) = 21 AND count(*) FILTER (WHERE key LIKE 'k7 (%)') = 1 FROM hwheel.job WHERE state = 'waiting'"));
}

#[test]
fn many_dead_jobs_are_revived_by_what_they_are() {
    let db = database();
    let long = "ä".repeat(127);
    db.execute(&format!(
        "SELECT hwheel.schedule(k, now(), queue => q, max_attempts => 1) FROM (VALUES
            ('a1', 'q'), ('a2', 'q'), ('b1', 'q'), ('a3', 'p'), ('{long}', 'q')) AS v (k, q);
        SELECT hwheel.schedule('series', now(), every => '1 h', queue => 'r', max_attempts => 1)"
    ));
    let mut client = db.client();
    let mut kill = |queue: &str| {
        for (id, lease, key, _) in take(&mut client, queue, 10) {
            let why = format!("no {key}");
            let sql = "SELECT hwheel.fail($1, $2, $3)";
            client.query_one(sql, &[&id, &lease, &why]).unwrap();
        }
    };
    ["q", "p", "r"].iter().for_each(|queue| kill(queue));
    let revive = |arguments: &[&str]| {
        let output = db.program(&[&["revive"], arguments].concat());
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8(text).unwrap()
    };
    assert!(revive(&[]).contains("required"));
    assert!(revive(&["a1", "--queue", "q"]).contains("cannot be used"));
    assert_eq!(
        revive(&["--queue", "q", "--like", "a%"]),
        "2 jobs live again\n"
    );
    assert_eq!(revive(&["--error", "%b1"]), "1 jobs live again\n");
    assert_eq!(revive(&["--error", "%b1"]), "0 jobs live again\n");
    // A job that somebody has locked stays dead.
    let mut other = db.client();
    let mut held = other.transaction().unwrap();
    held.run("SELECT FROM hwheel.job WHERE key = 'a3' FOR UPDATE");
    assert_eq!(revive(&["--like", "a%"]), "0 jobs live again\n");
    held.rollback().unwrap();
    // The keys of a series, and of a job that has been scheduled again, are in use.
    db.execute(&format!(
        "SELECT hwheel.schedule('{long}', now(), queue => 'q')"
    ));
    assert_eq!(revive(&["--like", "%"]), "3 jobs live again\n");
    assert_eq!(
        db.number("SELECT count(*) FROM hwheel.job WHERE state = 'dead'"),
        0
    );
    assert_eq!(db.number("SELECT count(*) FROM hwheel.job WHERE key ~ '^series \\([0-9]+\\)$' OR key ~ '^ä{50} \\([0-9]+\\)$'"), 2);
    let stats = db.program(&["stats", "--prometheus"]);
    let stats = String::from_utf8(stats.stdout).unwrap();
    assert!(
        stats.contains("hwheel_jobs_of_queue{queue=\"p\",kind=\"app\",state=\"late\"} 1\n"),
        "{stats}"
    );
}
