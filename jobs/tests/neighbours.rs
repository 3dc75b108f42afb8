//! Others who use the same database: what they leave open, lock, send and write stops no job
//! but their own.

mod support;

use postgres::{Client, NoTls};
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::{database, skip, Database, Server, Sql as _};

/// A connection of a role without any grant.
fn stranger(db: &Database) -> Client {
    db.execute(
        "DO $$ BEGIN CREATE ROLE stranger LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$",
    );
    Client::connect(&db.url.replace("user=postgres", "user=stranger"), NoTls).unwrap()
}

/// The usual window and lease: turns are rare.
fn with_long_turns(db: &Database) {
    db.execute("UPDATE hwheel.settings SET window_length = DEFAULT, lease_length = DEFAULT");
}

#[test]
fn a_command_whose_job_is_locked_delays_the_end_of_no_other() {
    let db = database();
    let node = db.node("one");
    db.execute("SELECT hwheel.schedule('held', now(), command => 'sleep 1')");
    db.wait("SELECT state = 'running' FROM hwheel.job WHERE key = 'held'");
    let mut other = db.client_after("BEGIN; SELECT hwheel.move('held', now() + interval '1 h')");
    sleep(Duration::from_millis(1500));
    db.execute(
        "SELECT hwheel.schedule('c' || i, now(), command => 'true') FROM generate_series(1, 10) i",
    );
    db.wait("SELECT count(*) = 10 FROM hwheel.history WHERE kind = 'command'");
    other.run("ROLLBACK");
    db.wait("SELECT count(*) = 11 FROM hwheel.history WHERE runs = 1");
    assert!(!node.log().contains("ERROR"), "{}", node.log());
}

#[test]
fn a_locked_job_delays_only_those_that_wait_for_it() {
    let db = database();
    let node = db.node("one");
    let has_run = |key: &str| {
        db.is(&format!(
            "SELECT EXISTS (SELECT FROM run WHERE key = '{key}')"
        ))
    };
    let mut other = db.client();
    db.execute(
        "SELECT hwheel.schedule('m', now() + interval '1 h', sql => 'note');
        SELECT hwheel.schedule('c', now(), command => 'sleep 1');
        SELECT hwheel.schedule(k, after => ARRAY[m], sql => 'note')
            FROM (VALUES ('f', 'm'), ('g', 'm'), ('h', 'c')) v (k, m)",
    );
    db.wait("SELECT state = 'running' FROM hwheel.job WHERE key = 'c'");
    // One that waits, and one that others wait for.
    other.run("BEGIN; SELECT FROM hwheel.job WHERE key IN ('f', 'c') FOR UPDATE");
    db.execute("SELECT hwheel.move('m', now())");
    db.wait("SELECT count(*) = 1 FROM run WHERE key = 'g'");
    sleep(Duration::from_millis(1500));
    assert!(!has_run("f") && !has_run("h"));
    other.run("ROLLBACK");
    db.wait("SELECT count(*) = 2 FROM run WHERE key IN ('f', 'h')");

    // A job that somebody is cancelling has not ended.
    db.execute(
        "SELECT hwheel.schedule('m', now() + interval '1 h', sql => 'note');
        SELECT hwheel.schedule('i', after => '{m}', sql => 'note')",
    );
    other.run("BEGIN; SELECT hwheel.cancel('m')");
    sleep(Duration::from_secs(1));
    other.run("ROLLBACK; BEGIN; SELECT hwheel.cancel('m')");
    sleep(Duration::from_secs(1));
    assert!(!has_run("i"));
    other.run("COMMIT");
    db.wait("SELECT count(*) = 1 FROM run WHERE key = 'i'");
    assert!(!node.log().contains("ERROR"), "{}", node.log());
}

#[test]
fn neighbours_lose_no_job_that_waits_for_others() {
    let db = database();
    let _nodes = [db.node("one"), db.node("two")];
    let neighbour = db.neighbour();
    let mut stranger = stranger(&db);
    assert!(stranger.execute("SELECT hwheel._unblock(1)", &[]).is_err());
    // Each waits for three others, which wait for three, and so on.
    db.execute(
        "SELECT hwheel.schedule('a' || i, now() + i * interval '30 ms', sql => 'note') FROM generate_series(0, 39) i;
        SELECT hwheel.schedule(k || i, after => ARRAY[b || i, b || (i + 1) % 40, b || (i * 7) % 40], sql => 'note')
            FROM generate_series(0, 39) i, (VALUES ('b', 'a'), ('c', 'b'), ('d', 'c')) v (k, b)",
    );
    db.wait("SELECT count(*) = 160 FROM run");
    drop(neighbour);
    db.all_done_once();
    assert!(db.is(
        "SELECT bool_and(later.at > earlier.at) FROM run later JOIN run earlier
        ON ascii(later.key) = ascii(earlier.key) + 1 AND substr(earlier.key, 2)::int IN (substr(later.key, 2)::int,
            (substr(later.key, 2)::int + 1) % 40, substr(later.key, 2)::int * 7 % 40)"
    ));
}

#[test]
fn a_run_that_is_skipped_waits_alone_for_its_lock() {
    let db = database();
    let _node = db.node_with("one", &["--connections", "1"]);
    db.execute(
        "SELECT hwheel.schedule('skip' || i, now() + interval '1500 ms', sql => 'note', every => '1 h',
            missed => 'skip', grace => '500 ms') FROM generate_series(1, 3) i",
    );
    let mut other = db.client();
    sleep(Duration::from_millis(500));
    other.run("BEGIN; SELECT FROM hwheel.job FOR UPDATE");
    sleep(Duration::from_secs(3));
    db.execute("SELECT hwheel.schedule('free', now(), sql => 'note')");
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'free'");
    other.run("ROLLBACK");
    db.wait("SELECT bool_and(skipped = 1 AND due > now()) FROM hwheel.job");
}

#[test]
fn a_queue_that_somebody_is_changing_delays_no_other() {
    let db = database();
    let _node = db.node("one");
    let mut other = db.client();
    // One of the queues has jobs already, and the other is new.
    db.execute("SELECT hwheel.schedule('before', now(), sql => 'note', queue => 'old')");
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'before'");
    other.run("BEGIN; SELECT hwheel.pause_queue('old'), hwheel.pause_queue('new')");
    db.execute(
        "SELECT hwheel.schedule('free', now(), sql => 'note'), hwheel.schedule('app', now(), queue => 'mail'),
            hwheel.schedule(q, now(), sql => 'note', queue => q), hwheel.schedule(q || '-app', now(), queue => q)
        FROM unnest('{old,new}'::text[]) q",
    );
    let begin = Instant::now();
    let taken = |queue: &str| {
        db.rows(&format!("SELECT id FROM hwheel.take('{queue}')"))
            .len()
    };
    assert_eq!((taken("mail"), taken("old"), taken("new")), (1, 0, 0));
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'free'");
    assert!(begin.elapsed() < Duration::from_secs(3));
    let waiting =
        "SELECT count(*) FROM hwheel.job WHERE state = 'waiting' AND queue IN ('old', 'new')";
    assert_eq!(db.number(waiting), 4);
    other.run("ROLLBACK");
    db.wait("SELECT count(*) = 2 FROM hwheel.history WHERE key IN ('old', 'new')");
    assert_eq!((taken("old"), taken("new")), (1, 1));
}

#[test]
fn a_lease_is_renewed_while_the_table_of_jobs_is_locked() {
    let db = database();
    let node = db.node("one");
    db.all_claim();
    let mut other = db.client_after("BEGIN; LOCK TABLE hwheel.job IN ACCESS EXCLUSIVE MODE");
    sleep(Duration::from_secs(4)); // The lease is 1.5 s.
    other.run("ROLLBACK");
    db.execute("SELECT hwheel.schedule('after', now(), sql => 'note')");
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'after'");
    assert!(db.is("SELECT count(*) = 1 AND bool_and(left_at IS NULL) FROM hwheel.node"));
    assert!(!node.log().contains("expelled"), "{}", node.log());
}

/// The functions of these jobs have not begun, or are rolled back with the call.
#[test]
fn a_table_that_is_locked_costs_no_attempt() {
    let db = database();
    let _node = db.node_with("one", &["--connections", "1"]);
    for table in ["job", "history"] {
        db.execute(&format!(
            "SELECT hwheel.schedule('{table}', now() + interval '1.5 s', sql => 'note', timeout => '1 s',
                max_attempts => 1)"
        ));
        db.wait(&format!(
            "SELECT state = 'claimed' FROM hwheel.job WHERE key = '{table}'"
        ));
        let mut other = db.client_after(&format!(
            "BEGIN; LOCK TABLE hwheel.{table} IN EXCLUSIVE MODE"
        ));
        sleep(Duration::from_secs(5));
        other.run("ROLLBACK");
        db.wait(&format!(
            "SELECT state IN ('done', 'dead') FROM hwheel.all_jobs WHERE key = '{table}'"
        ));
    }
    db.all_done_once();
}

/// The locked jobs were due first. The node tries them again and again.
#[test]
fn a_locked_job_uses_no_start_of_its_queue() {
    let db = database();
    let _node = db.node("one");
    db.execute(
        "BEGIN;
        SELECT hwheel.set_queue(queue, rate => 0.5) FROM unnest('{s,c}'::text[]) queue;
        SELECT hwheel.schedule('s' || i, d + i * interval '1 ms', sql => 'note', queue => 's'),
                hwheel.schedule('c' || i, d + i * interval '1 ms', command => 'true', queue => 'c')
            FROM (SELECT now() + interval '1.5 s' AS d) x, generate_series(1, 3) i;
        COMMIT",
    );
    db.wait("SELECT count(*) = 6 FROM hwheel.job WHERE state = 'claimed'");
    let _other =
        db.client_after("BEGIN; SELECT FROM hwheel.job WHERE key IN ('s1', 'c1') FOR UPDATE");
    db.wait("SELECT count(*) = 4 FROM hwheel.history");
}

#[test]
fn a_notification_of_a_stranger_drops_no_claim_and_costs_few_calls() {
    let db = database();
    with_long_turns(&db);
    let _node = db.node("one");
    db.execute(
        "ALTER TABLE hwheel.job ALTER COLUMN fence SET DEFAULT 0; -- The stranger guesses fences.
        SELECT hwheel.schedule('k' || i, now() + interval '6 s', sql => 'note') FROM generate_series(1, 5) i",
    );
    db.wait("SELECT count(*) = 5 FROM hwheel.job WHERE state = 'claimed'");
    let mut stranger = stranger(&db);
    assert!(stranger.execute("SELECT FROM hwheel.job", &[]).is_err());
    for id in 1..9 {
        for fence in 0..4 {
            let text = format!("NOTIFY hwheel_1, '{id} {fence}'; NOTIFY hwheel_1, 'x'");
            stranger.run(&text);
        }
    }
    db.wait("SELECT count(*) = 5 FROM hwheel.history");
    db.none_later_than(1.0);

    let calls = "SELECT calls::bigint FROM pg_stat_user_functions WHERE funcname = '_turn5'";
    db.execute("ALTER ROLE postgres SET track_functions = 'pl'");
    let _two = db.node("two"); // Its calls are counted, and it is as new to all this.
    db.all_claim();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(6) {
        stranger.run("NOTIFY hwheel, '0'");
        sleep(Duration::from_millis(10));
    }
    db.execute("ALTER ROLE postgres RESET track_functions");
    sleep(Duration::from_millis(1500)); // The server counts with a delay.
    db.wait("SELECT EXISTS (SELECT FROM pg_stat_user_functions WHERE funcname = '_turn5')");
    let calls = db.number(calls);
    assert!((10..130).contains(&calls), "{calls} calls in 6 s");
}

#[test]
fn a_lock_of_a_stranger_stops_nobody() {
    let db = database();
    let _node = db.node("one");
    let mut stranger = stranger(&db);
    stranger.run(
        "SELECT pg_advisory_lock(hashtext('hwheel'), hashtext('queues'));
            SELECT pg_advisory_lock(hashtext('hwheel')), pg_advisory_lock(hashtext('queues'))",
    );
    db.execute(
        "SELECT hwheel.schedule('k', now(), sql => 'note'), hwheel.schedule('a', now(), queue => 'q')",
    );
    assert_eq!(db.rows("SELECT FROM hwheel.take('q')").len(), 1);
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'k'");
    db.execute("SELECT hwheel.pause_queue('q')");
}

#[test]
fn a_backlog_delays_no_other_queue_and_no_higher_priority() {
    let db = database();
    db.execute(
        "SELECT hwheel.set_queue('slow', rate => 1);
        SELECT hwheel.schedule_many(ARRAY(SELECT 's' || i FROM generate_series(1, 3000) i), ARRAY[now()],
            sql => 'note', queue => 'slow');
        CREATE FUNCTION nap(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql
        AS 'SELECT pg_sleep(0.02)';
        SELECT hwheel.schedule_many(ARRAY(SELECT 'n' || i FROM generate_series(1, 3000) i), ARRAY[now()],
            sql => 'nap', queue => 'naps')",
    );
    let _node = db.node_with("one", &["--capacity", "1000"]);
    db.wait("SELECT count(*) > 20 FROM hwheel.history WHERE queue = 'naps'");
    sleep(Duration::from_secs(2));
    db.execute(
        "SELECT hwheel.schedule('other', now(), sql => 'note'),
            hwheel.schedule('high', now(), sql => 'note', queue => 'naps', priority => 9),
            hwheel.schedule('next', now(), sql => 'note', queue => 'slow', priority => 5)",
    );
    db.wait("SELECT count(*) = 3 FROM run WHERE key IN ('other', 'high', 'next')");
    let late: f64 = db.value(
        "SELECT max(extract(epoch FROM at - due))::float8 FROM run WHERE key IN ('other', 'high', 'next')",
    );
    assert!(late < 4.0, "late by {late} s"); // Two windows.
    let left = "SELECT count(*) > 500 FROM hwheel.job WHERE queue = 'naps'";
    assert!(db.is(left), "the backlog was too short");
    let held = "SELECT count(*) < 100 FROM hwheel.job WHERE queue = 'slow' AND state = 'claimed'";
    assert!(db.is(held), "a node holds what its rate lets run");
}

#[test]
fn a_rate_survives_the_restart_of_its_node() {
    let db = database();
    db.execute(
        "SELECT hwheel.set_queue('slow', rate => 0.02);
        SELECT hwheel.schedule('s' || i, now(), sql => 'note', queue => 'slow') FROM generate_series(1, 9) i",
    );
    let mut node = db.node("one");
    db.wait("SELECT count(*) = 1 FROM hwheel.history");
    sleep(Duration::from_millis(1500)); // It is written down with a turn.
    for kill in [false, true, false] {
        if kill {
            node.kill();
        } else {
            node.end();
        }
        node = db.node("one");
        sleep(Duration::from_secs(3));
    }
    assert_eq!(db.number("SELECT count(*) FROM hwheel.history"), 1);
}

#[test]
fn a_queue_whose_kinds_no_node_runs_is_named() {
    let db = database();
    let sql = db.node_with("sql", &["--kinds", "sql"]);
    let _command = db.node_with("command", &["--kinds", "command"]);
    db.execute(
        "SELECT hwheel.set_queue('both', max_running => 2);
        SELECT hwheel.schedule('s', now(), sql => 'note', queue => 'both'),
            hwheel.schedule('c', now(), command => 'true', queue => 'both')",
    );
    let line =
        "the queue \"both\" waits: it has a limit, so one node runs all of its jobs, and no \
        node runs all their kinds: command, sql";
    sql.wait_for_log(line);
    let output = db.program(&["queues"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("no node runs command, sql"), "{text}");
    let _both = db.node("both");
    db.wait("SELECT count(*) = 2 FROM hwheel.history");
}

/// Somebody listens in a transaction that stays open, so that the server keeps all notifications.
#[test]
fn a_full_queue_of_notifications_fails_no_commit() {
    let full = "max_notify_queue_pages = 64";
    let version = database().number("SELECT current_setting('server_version_num')::bigint");
    if version < 170_000 {
        return skip(&format!("{full} needs PostgreSQL 17"));
    }
    let server = Server::start_with(&[full], &[]);
    let db = server.database().with_functions();
    let (mut one, _two) = (db.node("one"), db.node("two"));
    db.execute(
        "SELECT hwheel.schedule('rec', now() + interval '1 s', every => '1 s', sql => 'note')",
    );
    let mut listener = db.client_after("LISTEN other");
    listener.run("BEGIN; SELECT 1");
    let mut flood = db.client();
    let send = "SELECT pg_notify('flood', repeat('x', 7000) || g) FROM generate_series(1, 20) g";
    while flood.execute(send, &[]).is_ok() {}
    db.execute(
        "SELECT hwheel.schedule('now', now(), sql => 'note'), hwheel.schedule('app', now(), queue => 'q', every => '1 h'),
            hwheel.pause_queue('other'), hwheel.resume_queue('other')",
    );
    db.execute("SELECT hwheel.move('rec', now() + interval '1 s')");
    let taken = &db.rows("SELECT id, lease FROM hwheel.take('q')")[0];
    let (id, lease): (i64, i64) = (taken.get(0), taken.get(1));
    db.execute(&format!("SELECT hwheel.done({id}, {lease})"));
    one.kill();
    db.wait("SELECT count(*) = 1 FROM run WHERE key = 'now'");
    db.wait("SELECT count(*) > 5 FROM run WHERE key = 'rec'");
    db.wait("SELECT due > now() FROM hwheel.job WHERE key = 'app'");
    db.wait("SELECT count(*) = 1 FROM hwheel.node WHERE left_at IS NULL");
}

/// A database in another encoding. The server is shared.
fn encoded(db: &Database, encoding: &str) -> (String, std::process::Output) {
    let name = format!(
        "{}_{}",
        db.text("SELECT current_database()::text"),
        encoding.to_lowercase()
    );
    db.execute(&format!(
        "CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'"
    ));
    let (words, _) = db.url.rsplit_once(" dbname=").unwrap();
    let url = format!("{words} dbname={name}");
    let output = support::program_in(&["install"], &[("DATABASE_URL", &url)]);
    (url, output)
}

/// Such a database, with the schema.
fn database_in(encoding: &str) -> Database<'static> {
    let shared = database();
    let (url, output) = encoded(&shared, encoding);
    assert!(output.status.success(), "{output:?}");
    Database {
        server: shared.server,
        url,
    }
}

#[test]
fn a_text_that_the_database_cannot_store_costs_no_attempt_and_no_other_job() {
    let db = database_in("LATIN1");
    let _node = db.node("one");
    db.execute(
        r"SELECT hwheel.schedule('euro', now(), command => $$printf '\342\202\254'; exit 1$$, max_attempts => 2, backoff => '50 ms'),
            hwheel.schedule('bytes', now(), command => $$printf '\377\001\000'; exit 1$$, max_attempts => 2, backoff => '50 ms'),
            hwheel.schedule('plain', now(), command => 'echo no; exit 1', max_attempts => 2, backoff => '50 ms')",
    );
    db.wait("SELECT count(*) = 3 FROM hwheel.job WHERE state = 'dead' AND attempts = 2");
    let error = |key: &str| {
        db.text(&format!(
            "SELECT last_error FROM hwheel.job WHERE key = '{key}'"
        ))
    };
    assert_eq!(error("euro"), r"exit status 1: \u{20ac}");
    assert_eq!(error("plain"), "exit status 1: no");
}

/// Such a database looks at the characters of all texts.
#[test]
fn arrays_may_have_any_dimensions_in_any_encoding() {
    let db = database_in("LATIN1");
    let sql =
        "SELECT hwheel.schedule_many('{{a,b},{c,d}}', ARRAY[now()], '{1,2,3,4}', queue => 'q')";
    assert_eq!(db.number(sql), 4);
}

/// Not each character of EUC_JP is one of UTF-8, which nodes and workers speak.
#[test]
fn a_text_that_no_node_could_read_is_refused() {
    let db = database_in("EUC_JP").with_functions();
    let _node = db.node("one");
    let odd = r"convert_from('\xa9a1', 'EUC_JP')";
    for call in [
        format!("hwheel.schedule({odd}, now(), sql => 'note')"),
        format!("hwheel.schedule('k', now(), sql => 'note', payload => to_jsonb({odd}))"),
        format!("hwheel.schedule('k', now(), command => 'true ' || {odd})"),
        format!("hwheel.schedule('k', after => ARRAY['a', {odd}], sql => 'note')"),
        format!("hwheel.schedule('k', now(), queue => 'q', tenant => {odd})"),
        format!("hwheel.schedule_many(ARRAY['k', {odd}], ARRAY[now()], sql => 'note')"),
        format!(
            "hwheel.schedule_many('{{k}}', ARRAY[now()], ARRAY[to_jsonb({odd})], queue => 'q')"
        ),
    ] {
        let refusal = db.refusal(&format!("SELECT {call}"));
        assert!(
            refusal.contains("has no equivalent in encoding"),
            "{call}: {refusal}"
        );
    }
    // The table refuses a row that somebody writes by hand, too. One such row would stop the node.
    db.execute("SELECT hwheel.schedule('k', now() + interval '1 h', queue => 'q', every => '1 h')");
    for set in [
        format!("key = {odd}"),
        format!("target = {odd}"),
        format!("payload = to_jsonb({odd})"),
        format!("traceparent = {odd}"),
        format!("tenant = {odd}"),
        format!("cron = {odd}, zone = 'UTC', every = NULL"),
        format!("cron = '* * * * *', zone = {odd}, every = NULL"),
        format!("after_keys = ARRAY['a', {odd}]"),
        format!("after_key = {odd}"),
        format!("next = jsonb_build_object('target', {odd})"),
    ] {
        let refusal = db.refusal(&format!("UPDATE hwheel.job SET {set}"));
        assert!(
            refusal.contains("has no equivalent in encoding"),
            "{set}: {refusal}"
        );
    }
    // Headers are ASCII.
    let refusal = db.refusal(&format!(
        "UPDATE hwheel.job SET headers = jsonb_build_object('a', {odd})"
    ));
    assert!(refusal.contains("job_headers_fits"), "{refusal}");
    let refusal = db.refusal(&format!(
        "INSERT INTO hwheel.job (key, due, occurrence, missed, grace, kind, target, max_attempts, backoff, timeout)
            SELECT {odd}, now(), now(), missed, grace, 'sql', 'note', max_attempts, backoff, timeout FROM hwheel.job"
    ));
    assert!(
        refusal.contains("has no equivalent in encoding"),
        "{refusal}"
    );
    db.execute("SELECT hwheel.cancel('k')");
    // An error is stored so that each can read it.
    db.execute(&format!(
        "CREATE FUNCTION odd(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'no %', {odd}; END $$;
        SELECT hwheel.schedule('odd', now(), sql => 'odd', max_attempts => 1), hwheel.schedule('app', now(), queue => 'app')"
    ));
    db.execute(&format!(
        "SELECT hwheel.fail(id, lease, 'no ' || {odd}, is_final => true) FROM hwheel.take('app')"
    ));
    db.wait("SELECT count(*) = 2 FROM hwheel.job WHERE state = 'dead'");
    assert!(db.is(
        r"SELECT bool_and(last_error LIKE 'no \\251\\241%' AND tried IS NOT NULL) FROM hwheel.job WHERE state = 'dead'"
    ));
    assert!(db.program(&["list"]).status.success());
    for set in ["last_error =", "tried = jsonb_build_array"] {
        let refusal = db.refusal(&format!("UPDATE hwheel.job SET {set} ({odd})"));
        assert!(
            refusal.contains("has no equivalent in encoding"),
            "{set}: {refusal}"
        );
    }
    db.execute("DELETE FROM hwheel.job");
    // Others go their way: here a key has 255 bytes in the database, and both have quotes.
    let (long, short) = (format!("{}''", "あ".repeat(127)), r#"f"\,{}"#);
    db.execute(&format!(
        r#"SELECT hwheel.schedule('{long}', now() + interval '1 h', sql => 'note');
        SELECT hwheel.schedule('{short}', after => ARRAY['{long}', 'x"\,{{}}'], sql => 'note', payload => '"あ"')"#
    ));
    db.wait(&format!(
        "SELECT count(*) = 1 FROM hwheel.job WHERE after_key = '{long}'"
    ));
    db.execute(&format!("SELECT hwheel.move('{long}', now())"));
    db.wait("SELECT count(*) = 2 FROM run");
    assert_eq!(
        db.text("SELECT string_agg(octet_length(key)::text, ' ' ORDER BY at) FROM run"),
        "255 6"
    );
}

#[test]
fn a_database_that_stores_any_bytes_is_refused() {
    let (_, output) = encoded(&database(), "SQL_ASCII");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && text.contains("SQL_ASCII"),
        "{text}"
    );
}

#[test]
fn the_table_refuses_rows_that_no_function_writes() {
    let db = database();
    db.execute("SELECT hwheel.schedule('k', now() + interval '1 h', sql => 'note')");
    for what in [
        "key = ''",
        "due = '9999-12-31'",
        "due = '-infinity'",
        "occurrence = 'infinity'",
        "occurrence = '-infinity'",
        "paused_due = '200000-01-01'",
        "every = '0'",
        "every = '-1 s'",
        "every = '1 month'",
        "cron = '* * * * *', zone = NULL",
        "zone = 'UTC'",
        "grace = '178000000 years'",
        "timeout = '100000000 years'",
        "backoff = '-1 s'",
        "max_attempts = -1",
        "attempts = 101",
        "queue = E'a\"\\n'",
        "priority = 2147483647",
        "headers = '[]'",
        r#"headers = '{"Content-Length": "3"}'"#,
        r#"headers = '{"a": 1}'"#,
        "tenant = ''",
        "tried = '{}'",
        "state = 'late'",
        "state = 'running'",
        "owner = 1",
        "fence = 9223372036854775807",
        "fence = -1",
        "runs = 9223372036854775807",
        "skipped = 9223372036854775807",
        "losses = 2147483647",
        "fired_at = 'infinity'",
        "lease_until = '-infinity'",
        "created_at = '200000-01-01'",
        "finished_at = '-infinity'",
    ] {
        let why = db.refusal(&format!("UPDATE hwheel.job SET {what}"));
        assert!(why.contains("violates check constraint"), "{what}: {why}");
    }
    let why = db.refusal(
        "INSERT INTO hwheel.job (id, key, due, occurrence, missed, grace, kind, target, max_attempts, backoff, timeout)
            OVERRIDING SYSTEM VALUE SELECT 0, 'j', due, occurrence, missed, grace, kind, target, max_attempts,
                backoff, timeout FROM hwheel.job",
    );
    assert!(why.contains("violates check constraint"), "{why}");
}

/// The end of a run writes the `next` of several jobs at once. So the table refuses a `next` that does
/// not fit, when somebody writes it.
#[test]
fn what_a_job_is_to_become_fits() {
    let db = database();
    db.execute("SELECT hwheel.schedule(k, now(), queue => 'q', timeout => '1 s') FROM unnest('{bad,good}'::text[]) k");
    assert_eq!(db.rows("SELECT FROM hwheel.take('q', 2)").len(), 2);
    let long = format!(
        r#"{{"after_keys": ["{0}"], "after_key": "{0}"}}"#,
        "k".repeat(256)
    );
    for (next, problem) in [
        (r#"{"backoff": "-1 s"}"#, "job_backoff_fits"),
        (r#"{"due": "-infinity"}"#, "job_first_fits"),
        (r#"{"queue": ""}"#, "job_queue_fits"),
        (r#"{"paused_due": "9999-01-01"}"#, "job_paused_fits"),
        (r#"{"kind": null}"#, "job_next_fits"),
        (r#"{"headers": {"Host": "a"}}"#, "job_headers_fits"),
        (long.as_str(), "job_next_fits"),
        // The session of the writer may read dates in another order than that of a node.
        (
            r#"{"due": "31/12/2030"}"#,
            "date/time field value out of range",
        ),
        (r#"{"due": "noon"}"#, "invalid input syntax"),
        ("[]", "cannot call"),
        ("1", "cannot delete from scalar"),
    ] {
        let update = format!(
            "SET DateStyle = 'DMY'; UPDATE hwheel.job SET next = '{next}' WHERE key = 'bad'"
        );
        let why = db.refusal(&update);
        assert!(why.contains(problem), "{next}: {why}");
    }
    let insert = "INSERT INTO hwheel.job (key, due, occurrence, missed, grace, kind, target, max_attempts, backoff,
            timeout, next) SELECT 'new', due, occurrence, missed, grace, kind, target, max_attempts, backoff, timeout,
            '{\"timeout\": \"0\"}' FROM hwheel.job WHERE key = 'bad'";
    assert!(db.refusal(insert).contains("job_timeout_fits"));
    db.execute("SELECT hwheel.schedule('bad', now(), queue => 'q'), hwheel.move('good', now())");
    let _node = db.node("one");
    db.wait("SELECT bool_and(state = 'waiting' AND next IS NULL) FROM hwheel.job");
}

/// Changes of a queue that the table refuses. An administrator may try to stop a queue by a rate of 0.
const QUEUES: [&str; 12] = [
    "rate = 0",
    "rate = -1",
    "rate = 'NaN'",
    "rate = 'infinity'",
    "max_running = 0",
    "max_running_per = -1",
    "paced_at = '-infinity'",
    "refilled_at = '-infinity'",
    "paused_at = 'infinity'",
    "tokens = 'NaN'",
    "last_tenant = ''",
    "name = E'a\"\\n'",
];

#[test]
fn the_table_of_queues_refuses_rows_that_no_function_writes() {
    let db = database();
    db.execute("SELECT hwheel.set_queue('q', 1, 1, 1)");
    for what in QUEUES {
        let why = db.refusal(&format!("UPDATE hwheel.queue SET {what}"));
        assert!(why.contains("violates check constraint"), "{what}: {why}");
    }
}

/// An upgrade finds rows that are older than the checks.
#[test]
fn an_upgrade_repairs_rows_that_no_function_writes() {
    let db = database();
    db.execute(
        "DO $$ DECLARE t record; BEGIN
            FOR t IN SELECT tgname, tgrelid::regclass AS place FROM pg_trigger WHERE tgname ~ '_fits?$' LOOP
                EXECUTE format('DROP TRIGGER %I ON %s', t.tgname, t.place);
            END LOOP;
        END $$;
        CREATE TRIGGER job_attempts_fits AFTER INSERT ON hwheel.job FOR EACH ROW WHEN (false)
            EXECUTE FUNCTION hwheel._refuse_row();
        DROP FUNCTION hwheel._refuse_errors(), hwheel._readable(text), hwheel._refuse_misfit(), hwheel._misfit(hwheel.job),
            hwheel._run_fits;
        DROP INDEX hwheel.job_over;
        UPDATE hwheel.settings SET version = 9;
        SELECT hwheel.schedule('fence', now(), sql => 'note'), hwheel.schedule('app', now(), queue => 'q');
        UPDATE hwheel.job SET fence = 9223372036854775807, losses = 2147483647, fired_at = 'infinity';
        DROP TRIGGER check_role_again ON hwheel.job;
        CREATE TRIGGER check_role_again AFTER UPDATE ON hwheel.job FOR EACH ROW WHEN (false)
            EXECUTE FUNCTION hwheel._check_role()",
    );
    for (n, headers) in (1..).zip([
        r#"{"Content-Length": "5", "Authorization": "x"}"#,
        "[1]",
        r#"{"A": "5", "a": "5"}"#,
        r#"{"a": 5}"#,
    ]) {
        db.execute(&format!(
            "SELECT hwheel.schedule('headers{n}', now() + interval '1 h', http => 'http://127.0.0.1:1/');
            UPDATE hwheel.job SET headers = '{headers}' WHERE key = 'headers{n}'"
        ));
    }
    for (n, next) in (1..).zip([
        r#"{"due": "when"}"#,
        "5",
        "[1]",
        r#"{"target": null}"#,
        r#"{"headers": {"Host": "x"}}"#,
        r#"{"payload": 7}"#,
    ]) {
        db.execute(&format!(
            "SELECT hwheel.schedule('next{n}', now() + interval '1 h', queue => 'r');
            UPDATE hwheel.job SET state = 'running', owner = 0, lease_until = now() + interval '1 h', next = '{next}'
                WHERE key = 'next{n}'"
        ));
    }
    for (n, what) in (0..).zip(QUEUES) {
        db.execute(&format!(
            "INSERT INTO hwheel.queue (name) VALUES ('q{n}');
            UPDATE hwheel.queue SET {what} WHERE name = 'q{n}'"
        ));
    }
    let output = db.program(&["install"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(db.number("SELECT count(*) FROM hwheel.queue"), 11);
    // The other headers stay, and so does what a job is to become if it fits.
    assert_eq!(
        db.text(
            "SELECT string_agg(concat(key, headers, next), ' ' ORDER BY key) FROM hwheel.job
            WHERE num_nonnulls(headers, next) > 0"
        ),
        r#"headers1{"Authorization": "x"} next6{"payload": 7}"#
    );
    let _node = db.node("one");
    db.wait("SELECT count(*) = 1 FROM hwheel.history WHERE key = 'fence'");
    assert_eq!(db.rows("SELECT FROM hwheel.take('q')").len(), 1);
    // A limit does not vanish.
    assert_eq!(
        db.text("SELECT string_agg(coalesce(rate, max_running, max_running_per)::text, ' ' ORDER BY name) FROM hwheel.queue
            WHERE num_nonnulls(rate, max_running, max_running_per) > 0"),
        "0.001 0.001 100000 100000 1 1"
    );
}

/// There are 8000 live jobs, of which 6000 are due tomorrow. The statistics of the server say that
/// there is none.
#[test]
fn no_call_reads_all_live_jobs() {
    let db = database();
    db.execute(
        "ALTER TABLE hwheel.job SET (autovacuum_enabled = off); ALTER TABLE hwheel.stop SET (autovacuum_enabled = off);
        ANALYZE hwheel.job; ANALYZE hwheel.stop;
        SELECT hwheel.set_queue('q', max_running => 3000), hwheel.set_queue('r', max_running => 3000);
        SELECT hwheel.schedule('r', now(), queue => 'r');
        SELECT hwheel.schedule_many(array_agg('a' || i), ARRAY[now() + interval '1 day'], queue => 'a'),
            hwheel.schedule_many(array_agg('s' || i), ARRAY[now() + interval '1 day'], sql => 'note')
            FROM generate_series(1, 3000) i;
        SELECT hwheel.schedule_many(array_agg('q' || i), ARRAY[now()], queue => 'q', timeout => '1 h')
            FROM generate_series(1, 2010) i;
        UPDATE hwheel.node SET left_at = now() - interval '2 days';
        INSERT INTO hwheel.node (name, lease_until, version, kinds)
            VALUES ('n', now() + interval '1 day', 10, '{sql}')",
    );
    assert_eq!(db.rows("SELECT FROM hwheel.take('q', 2000)").len(), 2000);
    db.execute("INSERT INTO hwheel.stop SELECT id FROM hwheel.job WHERE key IN ('q1', 's1')");
    let node = db.number("SELECT max(id) FROM hwheel.node");
    let turn = "hwheel._turn5($1, 100, '{sql}', $2, 1000, 1000, '{}', '{}', '{}', '{}')";
    let mut client = db.client();
    for (call, limit) in [
        (turn.replace("$2", "NULL").as_str(), 200),
        (turn.replace("$2", "''").as_str(), 200),
        ("hwheel._bells(now() + interval '10 s')", 200),
        ("hwheel._expire()", 200),
        ("hwheel._stopping($1)", 200),
        ("hwheel._tend()", 200),
        ("hwheel._enter('m', 10)", 200),
        ("hwheel.pause_queue('a')", 200),
        ("hwheel.take('r', 10)", 200),
        // These read all leases, or those of the queue, and no other job.
        ("hwheel.take('q', 10)", 2200),
        ("hwheel._renew5($1, '{sql}', 0, 0, '{}')", 4200),
    ] {
        let read = read_by(&mut client, &call.replace("$1", &node.to_string()));
        assert!(read <= limit, "{call}: {read}");
    }
}

/// A session may be older than the jobs: it has planned its calls while there were few.
#[test]
fn a_session_that_is_older_than_the_jobs_reads_few_of_them() {
    let db = database();
    db.execute(
        "ALTER TABLE hwheel.job SET (autovacuum_enabled = off);
        SELECT hwheel.schedule(k, now() + interval '1 day', sql => 'note')
            FROM unnest('{one,two,three,dead}'::text[]) k;
        UPDATE hwheel.job SET state = 'dead' WHERE key = 'dead';
        SELECT hwheel.schedule(k, now(), queue => 'q', timeout => '1 h') FROM unnest('{end,fail,snooze,extend}'::text[]) k;
        ANALYZE hwheel.job",
    );
    assert_eq!(db.rows("SELECT FROM hwheel.take('q', 4)").len(), 4);
    let of = |key: &str| {
        db.text(&format!(
            "SELECT id || ', ' || fence FROM hwheel.job WHERE key = '{key}'"
        ))
    };
    let calls = [
        "hwheel.schedule('one', now(), sql => 'note')".to_owned(),
        "hwheel.schedule('one', now(), sql => 'note', if_exists => 'keep')".to_owned(),
        "hwheel.schedule('one', now(), sql => 'note', if_exists => 'keep_time')".to_owned(),
        "hwheel.schedule('new', after => '{one,two}', sql => 'note')".to_owned(),
        "hwheel.schedule('end', now(), sql => 'note')".to_owned(),
        "hwheel.schedule_many('{one,two,end}', ARRAY[now()], sql => 'note')".to_owned(),
        "hwheel.move('one', now())".to_owned(),
        "hwheel.pause('one')".to_owned(),
        "hwheel.resume('one')".to_owned(),
        "hwheel.cancel('one')".to_owned(),
        "hwheel.cancel('end')".to_owned(),
        "hwheel.revive('dead')".to_owned(),
        "hwheel.revive_many(key => 'dead')".to_owned(),
        format!("hwheel.done({})", of("end")),
        format!("hwheel.fail({})", of("fail")),
        format!("hwheel.snooze({}, '1 s')", of("snooze")),
        format!("hwheel.extend({}, '1 h')", of("extend")),
    ];
    let mut client = db.client();
    for call in &calls {
        for _ in 0..7 {
            read_by(&mut client, call);
        }
    }
    db.execute(
        "SELECT hwheel.schedule_many(array_agg('k' || i), ARRAY[now() + interval '1 day'], sql => 'note')
        FROM generate_series(1, 3000) i",
    );
    // A call also reads the rows that earlier calls have left behind.
    for call in &calls {
        let read = read_by(&mut client, call);
        assert!(read <= 60, "{call}: {read}");
    }
}

/// The number of rows of jobs that a call reads. The call is rolled back.
fn read_by(client: &mut Client, call: &str) -> i64 {
    let mut transaction = client.transaction().unwrap();
    // The counters of the session may still include earlier transactions.
    let sql = "SELECT (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint
        FROM pg_stat_xact_user_tables WHERE relid = 'hwheel.job'::regclass";
    let before: i64 = transaction.one(sql);
    transaction.run(&format!("SELECT * FROM {call}"));
    let after: i64 = transaction.one(sql);
    transaction.rollback().unwrap();
    after - before
}

#[test]
fn a_row_that_a_node_cannot_read_is_dead_and_stops_no_other() {
    let db = database();
    let node = db.node("one");
    // As if somebody had dropped the check.
    db.execute(
        "DROP TRIGGER job_occurrence_fits ON hwheel.job;
        SELECT hwheel.schedule('bad', now() + interval '1 s', sql => 'note'),
            hwheel.schedule('good', now() + interval '1 s', sql => 'note');
        UPDATE hwheel.job SET occurrence = 'infinity', state = 'waiting', owner = NULL, fence = fence + 1,
            due = now() + interval '1 s' WHERE key = 'bad'",
    );
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'good'");
    db.wait("SELECT state = 'dead' FROM hwheel.job WHERE key = 'bad'");
    node.wait_for_log("\"bad\" is dead: the row cannot be read");
    let output = db.program(&["list", "--state", "dead"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("the row cannot be read"), "{text}");
}

/// A zone may go with an upgrade of the server's system, and the run of an application's job be planned then.
#[test]
fn a_job_whose_first_run_cannot_be_computed_is_dead_and_ends_no_node() {
    let db = database();
    let _node = db.node("one");
    db.execute(
        "BEGIN;
        SELECT hwheel.schedule('sql', cron => '0 4 * * *', sql => 'note'),
            hwheel.schedule('app', cron => '0 4 * * *', queue => 'q'),
            hwheel.schedule('cron', cron => '0 4 * * *', sql => 'note');
        UPDATE hwheel.job SET zone = 'Mars/Phobos' WHERE key <> 'cron';
        UPDATE hwheel.job SET cron = 'nonsense' WHERE key = 'cron';
        COMMIT",
    );
    db.wait("SELECT bool_and(state = 'dead') FROM hwheel.job");
    db.execute("SELECT hwheel.schedule('good', now(), sql => 'note')");
    db.wait("SELECT count(*) = 1 FROM hwheel.history");
}

/// Whoever may write the table may write the highest number that it takes, and a node adds to it.
#[test]
fn the_highest_numbers_of_a_row_stop_no_node() {
    let db = database();
    let highest = "UPDATE hwheel.job SET fence = 1000000000000000, runs = 1000000000000000, skipped = 1000000000000000";
    db.execute(&format!(
        "SELECT hwheel.schedule('sql', now(), sql => 'note'), hwheel.schedule('command', now(), command => 'true'),
            hwheel.schedule('app', now(), queue => 'q'),
            hwheel.schedule('series', due => now(), every => '1 h', missed => 'skip', grace => '0', sql => 'note');
        {highest}"
    ));
    let (id, lease): (i64, i64) = {
        let row = &db.rows("SELECT id, lease FROM hwheel.take('q')")[0];
        (row.get(0), row.get(1))
    };
    db.execute(&format!(
        "SELECT hwheel.extend({id}, {lease}, '1 s'), hwheel.done({id}, {lease})"
    ));
    let _node = db.node("one");
    db.wait("SELECT count(*) = 3 FROM hwheel.history");
    db.wait("SELECT due > now() + interval '50 min' FROM hwheel.job");
    let refusal = db.refusal("UPDATE hwheel.job SET fence = fence + 3000000000");
    assert!(refusal.contains("job_run_fits"), "{refusal}");
}

#[test]
fn a_job_of_a_node_that_never_was_runs() {
    let db = database();
    db.execute(
        "SELECT hwheel.schedule('k', now(), sql => 'note');
        UPDATE hwheel.job SET state = 'claimed', owner = 99",
    );
    let _node = db.node("one");
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs");
}

#[test]
fn a_node_that_ends_kills_commands_after_its_grace() {
    let db = database();
    let mut one = db.node_with("one", &["--grace", "1"]);
    db.execute(
        "SELECT hwheel.schedule('once', now(), command => 'sleep 77', max_attempts => 1),
            hwheel.schedule('twice', now(), command => 'test $HWHEEL_ATTEMPT = 2 || sleep 77', max_attempts => 2)",
    );
    db.wait("SELECT count(*) = 2 FROM hwheel.job WHERE state = 'running'");
    let begin = Instant::now();
    assert!(one.end());
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert!(one.log().contains("2 commands are killed"), "{}", one.log());
    let once = "SELECT state || ': ' || last_error FROM hwheel.job WHERE key = 'once'";
    assert_eq!(db.text(once), "dead: killed: its node ended");
    let _two = db.node("two");
    db.wait("SELECT EXISTS (SELECT FROM hwheel.history WHERE key = 'twice' AND attempts = 1)");
}

#[test]
fn a_node_that_ends_keeps_its_lease_during_its_grace() {
    let db = database();
    let mut one = db.node("one");
    let _two = db.node("two");
    db.execute("SELECT hwheel.schedule('long', now(), command => 'sleep 4', max_attempts => 1)");
    db.wait("SELECT state = 'running' FROM hwheel.job");
    let owner = db.text("SELECT n.name FROM hwheel.job j JOIN hwheel.node n ON n.id = j.owner");
    if owner == "one" {
        assert!(one.end()); // The lease is 1.5 s.
        assert!(db.is("SELECT state = 'done' AND attempts = 0 FROM hwheel.all_jobs"));
    }
}

#[test]
fn a_command_ends_with_its_node() {
    let db = database();
    let mut node = db.node("one");
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().display();
    db.execute(&format!(
        "SELECT hwheel.schedule('k', now(), command => 'echo begin >> {path}; sleep 2; echo end >> {path}')"
    ));
    let text = || std::fs::read_to_string(file.path()).unwrap();
    while text() != "begin\n" {
        sleep(Duration::from_millis(10));
    }
    node.kill();
    sleep(Duration::from_secs(3));
    assert_eq!(text(), "begin\n");
}

#[test]
fn many_leases_end_at_once_and_no_call_is_slow() {
    let db = database();
    db.execute(
        "SELECT hwheel.schedule_many(ARRAY(SELECT 'k' || i FROM generate_series(1, 10000) i), ARRAY[now()], queue => 'q')",
    );
    assert_eq!(
        db.rows("SELECT FROM hwheel.take('q', 10000, '2 s')").len(),
        10000
    );
    let node = db.node("one");
    sleep(Duration::from_secs(2));
    let begin = Instant::now();
    db.wait("SELECT count(*) = 10000 FROM hwheel.job WHERE state = 'waiting' AND attempts = 1");
    assert!(
        begin.elapsed() < Duration::from_secs(15),
        "{:?}",
        begin.elapsed()
    );
    assert!(!node.log().contains("ERROR"), "{}", node.log());
}
