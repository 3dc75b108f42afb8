//! Jobs that wait until others have ended.

mod support;

use postgres::fallible_iterator::FallibleIterator;
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::{database, Database, Sql as _};

const SOON: Duration = Duration::from_secs(1);

/// With the usual window a node claims every 6.5 s, unless a notification asks for it.
fn with_long_turns(db: &Database) {
    db.execute("UPDATE hwheel.settings SET window_length = DEFAULT, lease_length = DEFAULT");
}

/// Whether a job still waits for others, after a time in which a node has looked.
fn waits(db: &Database, key: &str) -> bool {
    sleep(Duration::from_millis(300));
    db.is(&format!(
        "SELECT coalesce(bool_and(after_key IS NOT NULL AND state = 'waiting'), false)
        FROM hwheel.job WHERE key = '{key}'"
    ))
}

/// Waits until the function of a job has run, and returns how long that took.
fn runs(db: &Database, key: &str) -> Duration {
    let begin = Instant::now();
    db.wait(&format!("SELECT count(*) = 1 FROM run WHERE key = '{key}'"));
    begin.elapsed()
}

#[test]
fn a_job_begins_when_the_last_of_others_has_ended() {
    let db = database();
    with_long_turns(&db);
    let node = db.node("one");
    db.all_claim();
    db.execute(
        "SELECT hwheel.schedule('done', now() + interval '1 h', sql => 'note');
        SELECT hwheel.schedule('dead', now() + interval '1 h', sql => 'fail', max_attempts => 2, backoff => '1 s');
        SELECT hwheel.schedule('cancelled', now() + interval '1 h', sql => 'note');
        SELECT hwheel.schedule('f', after => '{dead,done,cancelled,never,done}', sql => 'note')",
    );
    assert!(waits(&db, "f"));
    db.execute("SELECT hwheel.move('done', now())");
    runs(&db, "done");
    assert!(waits(&db, "f"));
    db.execute("SELECT hwheel.move('dead', now())");
    db.wait("SELECT attempts = 1 FROM hwheel.job WHERE key = 'dead'");
    assert!(waits(&db, "f"));
    db.wait("SELECT state = 'dead' FROM hwheel.job WHERE key = 'dead'");
    assert!(waits(&db, "f"));
    db.execute("SELECT hwheel.cancel('cancelled')");
    let took = runs(&db, "f");
    assert!(took < SOON, "{took:?}");
    // It is on time by its new due time, which the function gets.
    assert!(db.is("SELECT at >= due AND at - due < interval '1 s' FROM run WHERE key = 'f'"));
    assert!(db.is(
        "SELECT runs = 1 AND due = occurrence AND fired_at - created_at > interval '1 s'
        FROM hwheel.history WHERE key = 'f'"
    ));
    // A job that has run does not run again when a dead job is revived.
    db.execute("SELECT hwheel.revive('dead')");
    sleep(Duration::from_millis(500));
    assert_eq!(db.number("SELECT count(*) FROM run WHERE key = 'f'"), 1);
    assert!(!node.log().contains("_unblock"), "{}", node.log());
}

/// However a job ends, those that wait for it do not wait for the next turn.
#[test]
fn each_way_to_end_is_noticed_at_once() {
    let db = database();
    with_long_turns(&db);
    let _node = db.node("one");
    db.all_claim();
    let take = "SELECT hwheel.schedule('m', now(), queue => 'q', max_attempts => 1)";
    let later = "SELECT hwheel.schedule('m', now() + interval '1 h', sql => 'note')";
    let long = "SELECT hwheel.schedule('m', now(), command => 'sleep 60')";
    let lease = |call: &str| {
        format!("SELECT {call} FROM hwheel.job j WHERE key = 'm' AND state = 'running'")
    };
    let stopped = |call: &str| format!("SELECT hwheel.cancel('m'); {}", lease(call));
    for (name, first, last) in [
        ("sql", later, "SELECT hwheel.move('m', now())".to_owned()),
        (
            "command",
            "SELECT hwheel.schedule('m', now() + interval '1 h', command => 'true')",
            "SELECT hwheel.move('m', now())".to_owned(),
        ),
        (
            "dead",
            "SELECT hwheel.schedule('m', now() + interval '1 h', sql => 'fail', max_attempts => 1)",
            "SELECT hwheel.move('m', now())".to_owned(),
        ),
        ("cancelled", later, "SELECT hwheel.cancel('m')".to_owned()),
        ("stopped", long, "SELECT hwheel.cancel('m')".to_owned()),
        ("taken", take, lease("hwheel.done(j.id, j.fence)")),
        (
            "given up",
            take,
            lease("hwheel.fail(j.id, j.fence, is_final => true)"),
        ),
        (
            "failed and stopped",
            take,
            stopped("hwheel.fail(j.id, j.fence)"),
        ),
        (
            "snoozed and stopped",
            take,
            stopped("hwheel.snooze(j.id, j.fence, '1 h')"),
        ),
        (
            "deleted",
            later,
            "SELECT hwheel.schedule('m', now() + interval '1 h', sql => 'note'); SELECT hwheel.cancel('m')".to_owned(),
        ),
    ] {
        db.execute(first);
        if first == take {
            assert_eq!(db.rows("SELECT id FROM hwheel.take('q')").len(), 1);
        } else if first == long {
            db.wait("SELECT count(*) = 1 FROM hwheel.job WHERE key = 'm' AND state = 'running'");
        }
        let f = format!("f {name}");
        db.execute(&format!(
            "SELECT hwheel.schedule('{f}', after => '{{m}}', sql => 'note')"
        ));
        assert!(waits(&db, &f), "{name}");
        db.execute(&last);
        let took = runs(&db, &f);
        assert!(took < SOON, "{name}: {took:?}");
    }
}

/// Two transactions that do not see each other each end a job. The follower sees both.
#[test]
fn ends_in_two_open_transactions_leave_no_job_behind() {
    let db = database();
    with_long_turns(&db);
    let _node = db.node("one");
    db.all_claim();
    db.execute(
        "SELECT hwheel.schedule(k, now(), queue => 'q') FROM unnest('{a,b}'::text[]) k;
        SELECT hwheel.schedule('f', after => '{a,b}', sql => 'note')",
    );
    let taken = db.rows("SELECT id, lease FROM hwheel.take('q', 2, '1 min')");
    let mut clients = [db.client(), db.client()];
    for (client, row) in clients.iter_mut().zip(&taken) {
        let (id, lease): (i64, i64) = (row.get(0), row.get(1));
        client.run(&format!("BEGIN; SELECT hwheel.done({id}, {lease})"));
    }
    assert!(waits(&db, "f"));
    clients[0].batch_execute("COMMIT").unwrap();
    assert!(waits(&db, "f"));
    clients[1].batch_execute("COMMIT").unwrap();
    let took = runs(&db, "f");
    assert!(took < SOON, "{took:?}");

    // This end could not know of the follower, which is committed meanwhile. A turn finds it.
    db.execute("SELECT hwheel.schedule('c', now(), queue => 'q')");
    let row = &db.rows("SELECT id, lease FROM hwheel.take('q')")[0];
    let (id, lease): (i64, i64) = (row.get(0), row.get(1));
    clients[0]
        .batch_execute(&format!("BEGIN; SELECT hwheel.done({id}, {lease})"))
        .unwrap();
    db.execute("SELECT hwheel.schedule('g', after => '{c}', sql => 'note')");
    assert!(waits(&db, "g"));
    clients[0].batch_execute("COMMIT").unwrap();
    let took = runs(&db, "g");
    assert!(took < Duration::from_secs(8), "{took:?}");
}

/// Many transactions on many connections end jobs at the same time, on two nodes, in each round.
#[test]
fn ends_at_the_same_time_lose_no_follower() {
    let db = database();
    let _nodes = [db.node("one"), db.node("two")];
    db.all_claim();
    for round in 0..20 {
        db.execute(&format!(
            "WITH at AS (SELECT now() + interval '300 ms' AS at)
            SELECT hwheel.schedule('m{round}-' || i, at, sql => 'note', alone => i % 2 = 0), hwheel.schedule(
                'f{round}-' || i, after => ARRAY['m{round}-' || i, 'm{round}-' || (i % 8 + 1)], sql => 'note')
            FROM generate_series(1, 8) i, at"
        ));
    }
    db.wait("SELECT count(*) = 320 FROM run");
    db.all_done_once();
    db.followers_ran_last();
}

#[test]
fn a_job_may_wait_for_a_thousand_and_a_thousand_for_one() {
    let db = database();
    let _node = db.node("one");
    db.execute(
        "SELECT hwheel.schedule_many(ARRAY(SELECT 'm' || i FROM generate_series(1, 1000) i),
            ARRAY[now() + interval '1 s'], sql => 'note');
        SELECT hwheel.schedule('f', after => ARRAY(SELECT 'm' || i FROM generate_series(1, 1000) i), sql => 'note');
        SELECT hwheel.schedule('g' || i, after => '{f}', sql => 'note') FROM generate_series(1, 1000) i",
    );
    db.wait("SELECT count(*) = 2001 FROM run");
    db.all_done_once();
    assert!(db.is(
        "SELECT bool_and(at <= (SELECT at FROM run WHERE key = 'f')) FROM run WHERE key LIKE 'm%'"
    ));
    assert!(db.is(
        "SELECT bool_and(at > (SELECT at FROM run WHERE key = 'f')) FROM run WHERE key LIKE 'g%'"
    ));
    let spread: f64 = db.value(
        "SELECT extract(epoch FROM max(at) - (SELECT max(at) FROM run WHERE key LIKE 'm%'))::float8 FROM run",
    );
    assert!(spread < 5.0, "{spread} s");
}

#[test]
fn a_chain_runs_in_order() {
    let db = database();
    with_long_turns(&db);
    let _node = db.node("one");
    db.all_claim();
    // The last one is scheduled first, in the same transaction.
    db.execute(
        "SELECT hwheel.schedule('k' || i, after => ARRAY['k' || i + 1], sql => 'note') FROM generate_series(1, 19) i;
        SELECT hwheel.schedule('k20', now(), sql => 'note')",
    );
    db.wait("SELECT count(*) = 20 FROM run");
    assert!(db.is(
        "SELECT array_agg(substr(key, 2)::int ORDER BY at) = ARRAY(SELECT generate_series(20, 1, -1)) FROM run"
    ));
    db.all_done_once();
    let took: f64 = db.value("SELECT extract(epoch FROM max(at) - min(at))::float8 FROM run");
    println!("a chain of 20: {took:.2} s");
    assert!(took < 6.0, "{took} s");
}

#[test]
fn a_job_without_live_others_is_due_at_its_time() {
    let db = database();
    let _node = db.node("one");
    db.execute(
        "SELECT hwheel.schedule('none', after => '{}', sql => 'note');
        SELECT hwheel.schedule('never', after => '{x,y}', sql => 'note');
        SELECT hwheel.schedule('later', now() + interval '2 s', after => '{x}', sql => 'note');
        SELECT hwheel.schedule('past', now() - interval '1 h', after => '{x}', sql => 'note');
        SELECT hwheel.schedule('much later', now() + interval '1 h', after => '{x}', sql => 'note')",
    );
    db.wait("SELECT count(*) = 4 FROM run");
    assert!(db.is("SELECT bool_and(at >= due) FROM run"));
    assert!(
        db.is("SELECT at - created_at BETWEEN '1500 ms' AND '4 s' FROM run JOIN hwheel.history USING (key)
        WHERE key = 'later'")
    );
    assert!(db
        .is("SELECT after_key IS NULL AND due - now() BETWEEN '59 min' AND '1 h' FROM hwheel.job"));
}

#[test]
fn jobs_that_wait_for_each_other_wait_until_one_is_moved() {
    let db = database();
    let node = db.node("one");
    db.execute(
        "SELECT hwheel.schedule('a', after => '{b}', sql => 'note');
        SELECT hwheel.schedule('b', after => '{c}', sql => 'note');
        SELECT hwheel.schedule('c', after => '{a}', sql => 'note')",
    );
    sleep(Duration::from_secs(2)); // Some turns.
    for key in ["a", "b", "c"] {
        assert!(waits(&db, key));
    }
    db.execute("SELECT hwheel.move('a', now())");
    db.wait("SELECT count(*) = 3 FROM run");
    assert_eq!(
        db.text("SELECT string_agg(key, '' ORDER BY at) FROM run"),
        "acb"
    );
    assert!(!node.log().contains("_unblock"), "{}", node.log());
}

#[test]
fn a_job_that_waits_is_changed_like_any_other() {
    let db = database();
    let _node = db.node("one");
    let follow = |more: &str| {
        db.execute(&format!(
            "SELECT hwheel.schedule('f', after => '{{m}}', sql => 'note'{more})"
        ));
        assert!(waits(&db, "f"));
    };
    let again = || db.execute("DELETE FROM run");
    db.execute("SELECT hwheel.schedule('m', now() + interval '1 h', sql => 'note')");

    follow("");
    assert_eq!(db.text("SELECT hwheel.cancel('f')"), "cancelled");
    follow("");
    assert!(db.is("SELECT hwheel.move('f', now())"));
    runs(&db, "f");
    again();
    follow("");
    db.execute("SELECT hwheel.schedule('f', now(), sql => 'note')");
    runs(&db, "f");
    again();
    follow("");
    db.execute("SELECT hwheel.schedule_many('{f}', ARRAY[now()], sql => 'note')");
    runs(&db, "f");
    again();
    // It stays as it is, or gets other keys, or none.
    follow(", due => now() + interval '1 h'");
    db.execute("SELECT hwheel.schedule('f', now(), sql => 'note', if_exists => 'keep')");
    assert!(waits(&db, "f"));
    db.execute(
        "SELECT hwheel.schedule('f', after => '{m,n}', sql => 'note', if_exists => 'keep_time')",
    );
    assert!(db.is("SELECT occurrence > now() + interval '59 min' AND after_keys = '{m,n}' FROM hwheel.job WHERE key = 'f'"));
    db.execute("SELECT hwheel.schedule('f', now(), sql => 'note', if_exists => 'keep_time')");
    assert!(db.is("SELECT due > now() + interval '59 min' AND after_key IS NULL FROM hwheel.job WHERE key = 'f'"));
    follow("");
    db.execute("SELECT hwheel.schedule('f', now() + interval '1 h', sql => 'note', if_exists => 'keep_time')");
    runs(&db, "f");
    again();
    // A paused job goes on waiting, and is due when it is resumed.
    follow("");
    assert!(db.is("SELECT hwheel.pause('f')"));
    assert!(waits(&db, "f"));
    assert!(db.is("SELECT hwheel.resume('f')"));
    assert!(waits(&db, "f"));
    assert!(db.is("SELECT hwheel.pause('f')"));
    db.execute("SELECT hwheel.move('m', now())");
    runs(&db, "m");
    db.wait(
        "SELECT after_key IS NULL AND due = 'infinity' AND isfinite(paused_due) FROM hwheel.job",
    );
    sleep(Duration::from_millis(500));
    assert_eq!(db.number("SELECT count(*) FROM run WHERE key = 'f'"), 0);
    assert!(db.is("SELECT hwheel.resume('f')"));
    runs(&db, "f");
}

/// A run that is under way ends first. Then its job becomes the one that waits.
#[test]
fn a_job_whose_run_is_under_way_waits_afterwards() {
    let db = database();
    let _node = db.node("one");
    for last in ["true", "false"] {
        db.execute(&format!(
            "DELETE FROM run; DELETE FROM hwheel.job;
            SELECT hwheel.schedule('m', now() + interval '1 h', sql => 'note');
            SELECT hwheel.schedule('f', now(), command => 'sleep 1; {last}')"
        ));
        db.wait("SELECT count(*) = 1 FROM hwheel.job WHERE key = 'f' AND state = 'running'");
        db.execute("SELECT hwheel.schedule('f', after => '{m}', sql => 'note')");
        assert!(db.is("SELECT state = 'running' FROM hwheel.job WHERE key = 'f'"));
        db.wait("SELECT count(*) = 1 FROM hwheel.job WHERE key = 'f' AND after_key = 'm'");
        // A follower of the follower waits for what that has become.
        db.execute("SELECT hwheel.schedule('g', after => '{f}', sql => 'note')");
        assert!(waits(&db, "f") && waits(&db, "g"));
        db.execute("SELECT hwheel.cancel('m')");
        runs(&db, "g");
        assert!(db.is("SELECT count(*) = 2 AND array_agg(key ORDER BY at) = '{f,g}' FROM run"));
    }
    // Moved meanwhile, it does not wait any more.
    db.execute(
        "DELETE FROM run; SELECT hwheel.schedule('m', now() + interval '1 h', sql => 'note');
        SELECT hwheel.schedule('f', now(), command => 'sleep 1')",
    );
    db.wait("SELECT count(*) = 1 FROM hwheel.job WHERE key = 'f' AND state = 'running'");
    db.execute(
        "SELECT hwheel.schedule('f', after => '{m}', sql => 'note'); SELECT hwheel.move('f', now())",
    );
    runs(&db, "f");

    // The other job is scheduled anew while its run is under way. It has ended when that has.
    db.execute("DELETE FROM run; SELECT hwheel.schedule('m', now(), command => 'sleep 1')");
    db.wait("SELECT count(*) = 1 FROM hwheel.job WHERE key = 'm' AND state = 'running'");
    db.execute(
        "SELECT hwheel.schedule('h', after => '{m}', sql => 'note');
        SELECT hwheel.schedule('m', now() + interval '1 h', sql => 'note')",
    );
    // No node claims it before it is moved.
    db.wait("SELECT count(*) = 1 FROM hwheel.job WHERE key = 'm' AND state = 'waiting' AND kind = 'sql'");
    assert!(waits(&db, "h"));
    db.execute("SELECT hwheel.move('m', now())");
    runs(&db, "h");
    assert!(db.is("SELECT array_agg(key ORDER BY at) = '{m,h}' FROM run"));
}

#[test]
fn an_application_takes_a_job_that_has_waited() {
    let db = database();
    with_long_turns(&db);
    let _node = db.node("one");
    db.all_claim();
    let mut app = db.client_after(
        "SELECT hwheel.listen('q');
        SELECT hwheel.schedule('m', now(), queue => 'q'), hwheel.schedule('f', after => '{m}', queue => 'q')",
    );
    let take = |app: &mut postgres::Client| {
        app.query("SELECT id, lease, key FROM hwheel.take('q', 10)", &[])
            .unwrap()
    };
    let rows = take(&mut app);
    assert_eq!(rows.len(), 1);
    assert!(waits(&db, "f"));
    let (id, lease): (i64, i64) = (rows[0].get(0), rows[0].get(1));
    // Somebody has asked this run to end. It ends well, and counts.
    app.query("SELECT hwheel.cancel('m')", &[]).unwrap();
    assert!(waits(&db, "f"));
    app.query("SELECT hwheel.done($1, $2)", &[&id, &lease])
        .unwrap();
    let begin = Instant::now();
    let taken = loop {
        let rows = take(&mut app);
        if let [row] = &rows[..] {
            break row.get::<_, String>(2);
        }
        assert!(begin.elapsed() < SOON);
        sleep(Duration::from_millis(20));
    };
    assert_eq!(taken, "f");

    // A test that rolls back needs no node.
    let mut test = app.transaction().unwrap();
    test.run(
        "SET LOCAL hwheel.test = on;
        SELECT hwheel.schedule('b', after => '{a}', queue => 't'), hwheel.schedule('a', now(), queue => 't')",
    );
    for key in ["a", "b"] {
        let rows = test
            .query("SELECT id, lease, key FROM hwheel.take('t', 10)", &[])
            .unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].get::<_, &str>(2), key);
        let (id, lease): (i64, i64) = (rows[0].get(0), rows[0].get(1));
        test.query("SELECT hwheel.done($1, $2)", &[&id, &lease])
            .unwrap();
    }
    test.rollback().unwrap();
}

/// How many rows of jobs a session has read. It forgets this when no transaction is open.
fn read(transaction: &mut postgres::Transaction<'_>) -> i64 {
    let sql = "SELECT (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint
        FROM pg_stat_xact_user_tables WHERE relid = 'hwheel.job'::regclass";
    transaction.one(sql)
}

/// Jobs f1, f2 ... that wait, each for another job, which is due in an hour.
fn pairs(db: &Database, count: i32) {
    db.execute(&format!(
        "SELECT hwheel.schedule_many(array_agg('m' || i), ARRAY[now() + interval '1 h'], sql => 'note')
            FROM generate_series(1, {count}) i;
        SELECT hwheel.schedule('f' || i, after => ARRAY['m' || i], sql => 'note') FROM generate_series(1, {count}) i"
    ));
}

/// However many jobs wait. The server has made no statistics of the table yet.
#[test]
fn a_look_at_jobs_that_wait_reads_a_part_of_them() {
    let db = database();
    db.execute("ALTER TABLE hwheel.job SET (autovacuum_enabled = off)");
    pairs(&db, 5000);
    db.execute(
        "SELECT hwheel.schedule('g' || i, after => '{m5}', sql => 'note') FROM generate_series(1, 2000) i;
        SELECT hwheel.cancel('m4'), hwheel.cancel('m5')",
    );
    let id = |key: &str| db.number(&format!("SELECT id FROM hwheel.job WHERE key = '{key}'"));
    let (f4, f5, f6) = (id("f4"), id("f5"), id("f6"));
    let mut client = db.client();
    let mut look = |named: &[i64], after: Option<&[u8]>, rows: i64, limit: i64| {
        let mut transaction = client.transaction().unwrap();
        let before = read(&mut transaction);
        let sql = "SELECT number, next FROM hwheel._unblock8($1, $2, $3, 100)";
        let row = transaction
            .query_one(sql, &[&named, &after, &rows])
            .unwrap();
        let read = read(&mut transaction) - before;
        transaction.commit().unwrap();
        assert!(read <= limit, "{named:?} {after:?} {rows}: {read}");
        (row.get::<_, i64>(0), row.get::<_, Option<Vec<u8>>>(1))
    };
    // One that is named, and one that still waits.
    assert_eq!(look(&[f4, f6], None, 0, 20), (1, None));
    // All who wait for the same key, in several calls: the one that is named comes last.
    for _ in 0..20 {
        assert_eq!(look(&[f5], None, 0, 600), (100, None));
    }
    assert_eq!(look(&[f5], None, 0, 20), (1, None));
    assert_eq!(look(&[f5], None, 0, 20), (0, None));
    // The others, in the order of their keys.
    db.execute("DELETE FROM hwheel.job WHERE key IN ('m1', 'm3333', 'm999')");
    let (mut after, mut found, mut calls) = (None::<Vec<u8>>, 0, 0);
    loop {
        let (number, next) = look(&[], after.as_deref(), 1000, 2200);
        (found, calls) = (found + number, calls + 1);
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((found, calls), (3, 5));
}

/// Nothing tells the node. It looks at all in the end, and not before the jobs that are due.
#[test]
fn a_node_goes_round_the_jobs_that_wait() {
    let db = database();
    pairs(&db, 5000);
    let node = db.node("one");
    db.all_claim();
    for key in ["1", "3333", "999", "5000"] {
        db.execute(&format!("DELETE FROM hwheel.job WHERE key = 'm{key}'"));
        runs(&db, &format!("f{key}"));
    }
    assert!(!node.log().contains("_unblock"), "{}", node.log());
}

/// With the usual window, a round of many keys begins every 6.5 s.
#[test]
fn an_end_is_noticed_at_once_among_many_jobs_that_wait() {
    let db = database();
    with_long_turns(&db);
    pairs(&db, 5000);
    let _node = db.node("one");
    db.all_claim();
    for i in (100..5000).step_by(700) {
        db.execute(&format!("SELECT hwheel.cancel('m{i}')"));
        let took = runs(&db, &format!("f{i}"));
        assert!(took < SOON, "{took:?}");
    }
}

/// Whoever may connect can listen.
#[test]
fn a_notification_has_no_key() {
    let db = database();
    let mut listener = db.client_after("LISTEN hwheel");
    let mut heard = || {
        listener.run("SELECT");
        let mut all = listener.notifications();
        let texts = all.iter().map(|n| Ok(n.payload().to_owned()));
        texts.collect::<Vec<String>>().unwrap()
    };
    db.execute("SELECT hwheel.schedule(k, now() + interval '1 h', sql => 'note') FROM unnest('{m,n}'::text[]) k");
    let f = db.number("SELECT hwheel.schedule('f', after => '{m,n}', sql => 'note')");
    db.execute("SELECT hwheel.schedule('g' || i, after => '{m}', sql => 'note') FROM generate_series(1, 100) i");
    assert_eq!(heard(), ["0", "0"]);
    db.execute("SELECT hwheel.cancel('n')");
    assert_eq!(heard(), [format!("after {f}")]);
    db.execute("SELECT hwheel.cancel('m')");
    let [one] = &heard()[..] else {
        panic!("more than one notification")
    };
    assert!(
        one.strip_prefix("after ")
            .is_some_and(|id| id.parse::<i64>().is_ok()),
        "{one}"
    );
    let h = db.number("SELECT hwheel.schedule('h', after => '{never}', sql => 'note')");
    assert_eq!(heard(), [format!("after {h}")]);
}

#[test]
fn the_program_shows_what_a_job_waits_for() {
    let db = database();
    let _node = db.node("one");
    db.execute(
        "SELECT hwheel.schedule('m' || i, now() + interval '1 h', sql => 'note') FROM generate_series(1, 3) i;
        SELECT hwheel.schedule('f', after => '{m1,m2,m3}', sql => 'note', queue => 'q')",
    );
    assert!(waits(&db, "f"));
    let run = |arguments: &[&str]| {
        let output = db.program(arguments);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{text}");
        text
    };
    let list = run(&["list", "--state", "blocked"]);
    assert!(
        list.lines().count() == 2 && list.contains("f    blocked  after m"),
        "{list}"
    );
    assert_eq!(run(&["list", "--state", "waiting"]).lines().count(), 4);
    db.execute("SELECT hwheel.cancel('m2')");
    let show = run(&["show", "f"]);
    assert!(
        show.contains("state         blocked\n") && show.contains("after_keys    m1, m3\n"),
        "{show}"
    );
    let stats = run(&["stats"]);
    assert!(
        stats.contains("waiting   2\n") && stats.contains("blocked   1\n"),
        "{stats}"
    );
    assert!(run(&["stats", "--json"]).contains("\"blocked\":1"));
    let stats = run(&["stats", "--prometheus"]);
    for line in [
        "hwheel_jobs{state=\"blocked\"} 1\n",
        "hwheel_jobs_of_queue{queue=\"q\",kind=\"sql\",state=\"blocked\"} 1\n",
        "hwheel_jobs_late 0\n",
    ] {
        assert!(stats.contains(line), "{stats}");
    }
    let queues = run(&["queues", "--json"]);
    assert!(
        queues.contains("\"queue\":\"q\"") && queues.contains("\"waiting\":1"),
        "{queues}"
    );
    run(&["pause", "f"]);
    assert!(run(&["list", "--state", "paused"]).contains("f    paused  after m"));
    run(&["cancel", "f"]);
    assert!(run(&["stats"]).contains("blocked   0\n"));
}

#[test]
fn what_a_job_cannot_wait_for_is_refused_and_changes_nothing() {
    let db = database();
    db.execute(
        "SELECT hwheel.schedule('series', every => '1 h', sql => 'note');
        SELECT hwheel.schedule('daily', cron => '0 3 * * *', sql => 'note')",
    );
    let call = |arguments: &str| {
        db.refusal(&format!(
            "SELECT hwheel.schedule('f', {arguments}, sql => 'note')"
        ))
    };
    for (arguments, message) in [
        (
            "after => ARRAY(SELECT i::text FROM generate_series(1, 1001) i)",
            "after has 1001 keys, more than 1000",
        ),
        ("after => '{a,NULL}'", "after has a key that is NULL"),
        (
            "after => '{a,\"\"}'",
            "after has \"\", and a key has 1 to 255 bytes",
        ),
        (
            "after => ARRAY[repeat('x', 256)]",
            "after has \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\", and a key has",
        ),
        ("after => '{a,f}'", "the job \"f\" cannot wait for itself"),
        (
            "after => '{a,series}'",
            "the job \"series\" recurs, so it does not end",
        ),
        ("after => '{daily}'", "the job \"daily\" recurs"),
        (
            "after => '{a}', every => '1 h'",
            "a job with after has neither every nor cron",
        ),
        (
            "after => '{a}', cron => '* * * * *'",
            "a job with after has neither every nor cron",
        ),
        ("'infinity', after => '{a}'", "infinity is no due time"),
    ] {
        let refusal = call(arguments);
        assert!(refusal.contains(message), "{arguments}: {refusal}");
    }
    assert_eq!(db.number("SELECT count(*) FROM hwheel.all_jobs"), 2);
    // A series that is cancelled during its last run ends with it.
    let _node = db.node("one");
    db.execute("SELECT hwheel.schedule('long', now(), every => '1 h', command => 'sleep 60')");
    db.wait("SELECT count(*) = 1 FROM hwheel.job WHERE key = 'long' AND state = 'running'");
    assert!(call("after => '{long}'").contains("recurs"));
    db.execute("SELECT hwheel.cancel('long'); SELECT hwheel.schedule('f', after => '{long}', sql => 'note')");
    runs(&db, "f");
    assert!(db.is("SELECT NOT EXISTS (SELECT FROM hwheel.job WHERE key = 'long')"));
}
