//! Nodes, connections, disks and servers that fail. A test that stops or fills its
//! server has one of its own. Most have a neighbour, too, who locks jobs and sends notifications.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};
use support::{database, get, metrics_address, skip, Database, Node, Server, Sql as _};

#[test]
fn a_node_that_is_killed_passes_its_jobs_on() {
    let db = database();
    let _neighbour = db.neighbour();
    let mut a = db.node("a");
    db.spread(400, 4.0);
    db.wait("SELECT count(*) > 20 FROM hwheel.all_jobs WHERE state = 'claimed'");
    let _b = db.node("b");
    sleep(Duration::from_millis(700));
    a.kill();
    assert!(db.is("SELECT EXISTS (SELECT FROM hwheel.all_jobs j JOIN hwheel.node n ON n.id = j.owner WHERE n.name = 'a')"));
    db.all_done_once();
    assert!(db.is("SELECT left_at IS NOT NULL FROM hwheel.node WHERE name = 'a'"));
}

/// The node dies after the end of the last job that another one waits for, and before that one starts.
#[test]
fn a_node_that_is_killed_loses_no_job_that_waits_for_others() {
    let db = database();
    let mut node = db.node("first");
    db.execute(
        "SELECT hwheel.schedule('m', now() + interval '1 s', sql => 'note');
        SELECT hwheel.schedule('f', after => '{m}', sql => 'note')",
    );
    let mut other = db.client_after("BEGIN; SELECT FROM hwheel.job WHERE key = 'f' FOR UPDATE");
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'm'");
    sleep(Duration::from_millis(300));
    node.kill();
    other.run("ROLLBACK");
    assert!(db.is("SELECT after_key = 'm' FROM hwheel.job"));
    node = db.node("second");
    db.all_done_once();
    for round in 0..8 {
        db.execute(&format!(
            "SELECT hwheel.schedule('m{round}', now() + interval '300 ms', sql => 'note');
            SELECT hwheel.schedule('f{round}', after => '{{m{round}}}', sql => 'note')"
        ));
        sleep(Duration::from_millis(250 + 25 * round));
        node.kill();
        node = db.node(&format!("node {round}"));
    }
    db.all_done_once();
    db.followers_ran_last();
}

#[test]
fn a_command_whose_node_is_killed_runs_again_and_the_attempt_counts() {
    let db = database();
    let _neighbour = db.neighbour();
    let mut a = db.node("a");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display();
    db.execute(&format!(
        "SELECT hwheel.schedule('again', now(), command => 'echo $HWHEEL_ATTEMPT $HWHEEL_RUN >> {path}/again; test $HWHEEL_ATTEMPT = 2 || sleep 8');
        SELECT hwheel.schedule('once', now(), command => 'sleep 8', max_attempts => 1)"
    ));
    db.wait("SELECT count(*) = 2 FROM hwheel.all_jobs WHERE state = 'running'");
    // The state is written before the command starts.
    while !dir.path().join("again").exists() {
        sleep(Duration::from_millis(10));
    }
    a.kill();
    let _b = db.node("b");
    db.wait("SELECT count(*) = 2 FROM hwheel.all_jobs WHERE state IN ('done', 'dead')");
    let runs = std::fs::read_to_string(dir.path().join("again")).unwrap();
    let runs: Vec<Vec<&str>> = runs.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!((runs[0][0], runs[1][0], runs.len()), ("1", "2", 2));
    assert_eq!(runs[0][1], runs[1][1], "all attempts have the same name");
    let once = "SELECT state, last_error, attempts FROM hwheel.all_jobs WHERE key = 'once'";
    let row = &db.rows(once)[0];
    assert_eq!(
        (row.get(0), row.get(1), row.get(2)),
        ("dead", "the node was lost while the job ran", 1)
    );
}

#[test]
fn a_node_that_is_stopped_for_longer_than_its_lease_completes_nothing_that_passed_on() {
    let db = database();
    let _neighbour = db.neighbour();
    let a = db.node("a");
    let dir = tempfile::tempdir().unwrap();
    // The command ends while its node is stopped.
    db.execute(&format!(
        "SELECT hwheel.schedule('c', now(), command => 'echo x >> {}/c; sleep 1')",
        dir.path().display()
    ));
    db.spread(100, 2.5);
    db.wait("SELECT state = 'running' FROM hwheel.all_jobs WHERE key = 'c'");
    db.wait("SELECT count(*) > 5 FROM hwheel.all_jobs WHERE state = 'done'");
    a.signal(libc::SIGSTOP);
    let _b = db.node("b");
    db.all_done_once();
    assert_eq!(
        std::fs::read_to_string(dir.path().join("c"))
            .unwrap()
            .lines()
            .count(),
        2
    );
    let end = "SELECT extract(epoch FROM finished_at)::float8 FROM hwheel.history WHERE key = 'c'";
    let ended: f64 = db.value(end);

    // It wakes with timers that expired long ago and a command to settle.
    a.signal(libc::SIGCONT);
    a.wait_for_log("was expelled");
    db.wait("SELECT count(*) = 2 FROM hwheel.node WHERE name = 'a'");
    sleep(Duration::from_millis(300));
    assert_eq!(db.value::<f64>(end), ended);
    db.all_done_once();

    // Both work on.
    db.spread(50, 1.0);
    db.wait("SELECT bool_and(state = 'done') FROM hwheel.all_jobs");
}

/// With the window and the lease of a new installation.
#[test]
#[ignore = "it takes 80 s"]
fn a_node_that_is_stopped_for_a_minute_loses_no_job_and_doubles_none() {
    let db = database();
    let _neighbour = db.neighbour();
    db.execute("UPDATE hwheel.settings SET window_length = DEFAULT, lease_length = DEFAULT");
    let a = db.node("a");
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    db.execute(&format!(
        "SELECT hwheel.schedule('c', now(), command => 'echo $HWHEEL_ATTEMPT >> {}; sleep 10')",
        runs.display()
    ));
    db.wait("SELECT state = 'running' FROM hwheel.all_jobs WHERE key = 'c'");
    db.spread(1400, 70.0);
    let _b = db.node("b");
    db.wait("SELECT bool_or(n.name = 'a' AND j.state = 'claimed') FROM hwheel.all_jobs j JOIN hwheel.node n ON n.id = j.owner");
    a.signal(libc::SIGSTOP);
    sleep(Duration::from_secs(60));
    // Another node has made up for all that it held.
    assert!(db.is(
        "SELECT bool_and(state = 'done') FROM hwheel.all_jobs WHERE due < now() - interval '5 s'"
    ));
    a.signal(libc::SIGCONT);
    a.wait_for_log("was expelled");
    db.all_done_once();
    assert_eq!(std::fs::read_to_string(runs).unwrap(), "1\n2\n");
    // The lease, a third of it, and a second for the machine.
    db.none_later_than(21.0);
    assert_eq!(
        db.number("SELECT count(*) FROM hwheel.node WHERE name = 'a'"),
        2
    );
}

#[test]
fn a_batch_whose_node_is_stopped_or_killed_is_committed_once() {
    let db = database();
    let _neighbour = db.neighbour();
    db.execute(
        "CREATE FUNCTION slow(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql
        AS 'SELECT note(key, due, payload), pg_sleep(3)'",
    );
    for end in [libc::SIGSTOP, libc::SIGKILL] {
        db.execute("TRUNCATE run; DELETE FROM hwheel.history; DELETE FROM hwheel.job; SELECT hwheel.schedule('slow', now(), sql => 'slow')");
        let a = db.node(&format!("a{end}"));
        db.wait("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%_fire%' AND state = 'active'
            AND wait_event = 'PgSleep' AND datname = current_database())");
        a.signal(end);
        let _b = db.node(&format!("b{end}"));
        db.all_done_once();
        sleep(Duration::from_secs(1));
        db.all_done_once();
    }
}

#[test]
fn a_lost_connection_loses_no_job_and_doubles_none() {
    let db = database();
    let _neighbour = db.neighbour();
    let (a, _b) = (db.node("a"), db.node("b"));
    db.spread(600, 4.0);
    db.execute("SELECT hwheel.schedule('tick', every => '100 ms', sql => 'note', missed => 'all')");
    for _ in 0..8 {
        sleep(Duration::from_millis(400));
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name LIKE 'hwheel-jobs %' AND datname = current_database()",
        );
    }
    db.wait("SELECT bool_and(state = 'done') FROM hwheel.all_jobs WHERE key <> 'tick'");
    db.wait("SELECT runs > 40 FROM hwheel.all_jobs WHERE key = 'tick'");
    assert!(
        a.log()
            .contains("terminating connection due to administrator command"),
        "{}",
        a.log()
    );
    let row = &db.rows("SELECT count(*), count(DISTINCT (key, due)),
        count(*) FILTER (WHERE key = 'tick') = (SELECT runs FROM hwheel.all_jobs WHERE key = 'tick') FROM run")[0];
    let (runs, distinct, as_counted): (i64, i64, bool) = (row.get(0), row.get(1), row.get(2));
    assert_eq!((runs, as_counted), (distinct, true));
    // None of its runs is missing.
    assert!(db.is("SELECT bool_and(step = '100 ms') FROM
        (SELECT due - lag(due) OVER (ORDER BY due) AS step FROM run WHERE key = 'tick') s WHERE step IS NOT NULL"));
    // No node has lost its lease over it.
    assert_eq!(db.number("SELECT count(*) FROM hwheel.node"), 2);
}

#[test]
fn a_refused_connection_costs_no_attempt_and_no_job() {
    let db = database();
    let node = db.node("a");
    db.spread(100, 1.5);
    let mut other = db.server.client();
    let name = db.text("SELECT current_database()");
    let mut allow = |is_allowed: bool| {
        let sql = format!(
            "ALTER DATABASE {name} ALLOW_CONNECTIONS {is_allowed};
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        );
        other.run(&sql);
    };
    allow(false);
    node.wait_for_log("is not currently accepting connections");
    node.wait_for_log("again in 800ms");
    allow(true);
    db.all_done_once();
    // A batch that was on a connection that is gone is fired one by one, which is no error.
    let erred = "SELECT count(*) FROM hwheel.all_jobs WHERE last_error IS NOT NULL OR attempts > 1";
    assert_eq!(db.number(erred), 0);
}

/// Two users lock two jobs in opposite orders. A node waits for none of them, so that its call is
/// no part of the deadlock.
#[test]
fn users_that_deadlock_delay_the_end_of_their_jobs_alone() {
    let db = database();
    let node = db.node("a");
    db.execute(
        "SELECT hwheel.schedule(key, now(), command => 'sleep 1') FROM unnest('{first,second,third}'::text[]) key",
    );
    db.wait("SELECT bool_and(state = 'running') FROM hwheel.all_jobs");
    let lock = |key: &str| format!("SELECT FROM hwheel.job WHERE key = '{key}' FOR UPDATE");
    let (mut one, mut two) = (db.client(), db.client());
    one.run(&format!("BEGIN; {}", lock("first")));
    two.run(&format!(
        "SET deadlock_timeout = '1 min'; BEGIN; {}",
        lock("second")
    ));
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'third'");
    let waiter = lock("first");
    let two = spawn(move || {
        two.run(&waiter);
        two.run("ROLLBACK");
    });
    sleep(Duration::from_millis(300));
    assert!(one.batch_execute(&lock("second")).is_err(), "no deadlock");
    one.run("ROLLBACK");
    two.join().unwrap();
    db.wait("SELECT bool_and(state = 'done' AND runs = 1 AND attempts = 0) FROM hwheel.all_jobs");
    assert!(!node.log().contains("deadlock"), "{}", node.log());
}

/// It goes with a batch of good jobs, and again when it is fired alone.
#[test]
fn a_job_that_ends_its_connection_is_dead_in_the_end_and_stops_no_other() {
    let db = database();
    let _neighbour = db.neighbour();
    db.execute(
        "CREATE FUNCTION ends(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(5); END $$",
    );
    let _node = db.node_with("a", &["--connections", "1"]);
    let schedule = "SELECT hwheel.schedule('bad', d, sql => 'ends', max_attempts => 2, backoff => '100 ms'),
        hwheel.schedule('series', d, sql => 'ends', max_attempts => 1, every => '1 h') FROM (SELECT now() + interval '1 s' AS d) x;
        SELECT hwheel.schedule('n' || i, now() + interval '1 s', sql => 'note') FROM generate_series(1, 20) i";
    db.execute(&format!("BEGIN; {schedule}; COMMIT"));
    db.wait("SELECT count(*) = 20 FROM hwheel.all_jobs WHERE state = 'done'");
    db.wait("SELECT count(*) = 2 FROM hwheel.all_jobs WHERE state = 'dead'");
    for (key, attempts) in [("bad", 2), ("series", 1)] {
        let dead = format!(
            "SELECT attempts, last_error FROM hwheel.all_jobs WHERE key = '{key}' AND state = 'dead'"
        );
        let row = &db.rows(&dead)[0];
        let error: &str = row.get(1);
        assert_eq!(row.get::<_, i32>(0), attempts);
        assert!(
            error.starts_with("the connection was lost while the job ran: FATAL"),
            "{error}"
        );
    }
    assert!(
        db.is("SELECT due > now() FROM hwheel.all_jobs WHERE key = 'series' AND state = 'waiting'")
    );
    assert_eq!(db.number("SELECT count(DISTINCT key) FROM run"), 20);
    assert_eq!(db.number("SELECT count(*) FROM run"), 20);
    assert_eq!(db.number("SELECT count(*) FROM hwheel.node"), 1);
}

/// As when the kernel kills a backend because memory runs out: all processes of the
/// server start again each time.
#[test]
fn a_job_that_crashes_the_server_is_dead_in_the_end() {
    let server = Server::start();
    let db = server.database().with_functions();
    let _neighbour = db.neighbour();
    db.execute(
        "CREATE FUNCTION crash(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            EXECUTE format('COPY (SELECT 1) TO PROGRAM %L', 'kill -9 ' || pg_backend_pid());
            PERFORM pg_sleep(5);
        END $$",
    );
    let _node = db.node("a");
    db.execute("SELECT hwheel.schedule('bad', now(), sql => 'crash', max_attempts => 2, backoff => '100 ms')");
    let end = Instant::now() + Duration::from_secs(30);
    let state = || -> Option<(String, i32)> {
        let mut client = postgres::Client::connect(&db.url, postgres::NoTls).ok()?;
        let row = client
            .query_one("SELECT state, attempts FROM hwheel.all_jobs", &[])
            .ok()?;
        Some((row.get(0), row.get(1)))
    };
    while state() != Some(("dead".to_owned(), 2)) {
        assert!(Instant::now() < end, "{:?}", state());
        sleep(Duration::from_millis(100));
    }
    db.execute("SELECT hwheel.schedule('good', now(), sql => 'note')");
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'good'");
}

/// A job may end its own node. Then another node must suspect the job.
#[test]
fn a_job_that_takes_its_nodes_down_is_dead_in_the_end() {
    let db = database();
    let _neighbour = db.neighbour();
    db.execute(
        "CREATE FUNCTION hang(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql AS
        'SELECT pg_sleep(60)'; SELECT hwheel.schedule('bad', now(), sql => 'hang', max_attempts => 1)",
    );
    for n in 1..=3 {
        let mut node = db.node(&format!("a{n}"));
        let running = "FROM pg_stat_activity WHERE query LIKE '%_fire%' AND state = 'active'
            AND wait_event = 'PgSleep' AND datname = current_database()";
        db.wait(&format!("SELECT EXISTS (SELECT {running})"));
        let state = db.text("SELECT state FROM hwheel.all_jobs");
        assert_eq!(state, if n == 3 { "running" } else { "claimed" });
        node.kill();
        db.execute(&format!("SELECT pg_terminate_backend(pid) {running}"));
    }
    let _node = db.node("b");
    db.wait("SELECT state = 'dead' FROM hwheel.all_jobs");
    let error = db.text("SELECT last_error FROM hwheel.all_jobs");
    assert_eq!(error, "the node was lost while the job ran");
}

/// Errors with the codes of a server that lacks something, which the job itself makes.
#[test]
fn a_limit_that_a_job_exceeds_is_its_own_error() {
    let db = database();
    db.execute(
        "CREATE FUNCTION sorts(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql
        SET temp_file_limit = '1MB' SET work_mem = '64kB' AS $$ BEGIN
            PERFORM x FROM generate_series(1, 300000) x ORDER BY md5(x::text) OFFSET 299999;
        END $$;
        CREATE FUNCTION raises(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'no more of it' USING ERRCODE = payload->>0; END $$;
        SELECT hwheel.schedule('sort', now(), sql => 'sorts', max_attempts => 2, backoff => '100 ms');
        SELECT hwheel.schedule(code, now(), sql => 'raises', payload => jsonb_build_array(code),
            max_attempts => 2, backoff => '100 ms') FROM unnest('{53000,53200,53300,53400,58000,58P01,57014,57P03,40001,25006}'::text[]) code",
    );
    let _node = db.node("a");
    db.wait("SELECT count(*) = 11 FROM hwheel.all_jobs WHERE state = 'dead' AND attempts = 2 AND last_error <> ''");
}

/// Passes connections on to the server. Those that are open when it must forget
/// them stay open, and pass nothing any more. `passes_on` passes what they have kept.
struct Proxy {
    port: u16,
    forgotten: Arc<AtomicU64>,
    passes_on: Arc<AtomicBool>,
    clients: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    fn new(server: &Server) -> Proxy {
        let socket = server.dir().join(".s.PGSQL.5432");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let forgotten = Arc::new(AtomicU64::new(0));
        let generation = forgotten.clone();
        let passes_on = Arc::new(AtomicBool::new(false));
        let is_open = passes_on.clone();
        let clients = Arc::new(Mutex::new(Vec::new()));
        let all = clients.clone();
        spawn(move || {
            for client in listener.incoming() {
                let client: TcpStream = client.unwrap();
                all.lock().unwrap().push(client.try_clone().unwrap());
                let server = UnixStream::connect(&socket).unwrap();
                let born = generation.load(Ordering::SeqCst);
                let now = generation.clone();
                let open = is_open.clone();
                let passes =
                    move || now.load(Ordering::SeqCst) == born || open.load(Ordering::SeqCst);
                let too = passes.clone();
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                spawn(move || pass(from, to, passes));
                spawn(move || pass(server, client, too));
            }
        });
        Proxy {
            port,
            forgotten,
            passes_on,
            clients,
        }
    }

    /// A node whose connections pass here.
    fn node(&self, db: &Database, arguments: &[&str]) -> Node {
        let name = db.text("SELECT current_database()");
        let url = format!(
            "host=127.0.0.1 port={} user=postgres dbname={name}",
            self.port
        );
        let node = db.spawn_in("a", arguments, &[("DATABASE_URL", &url)]);
        db.wait("SELECT EXISTS (SELECT FROM hwheel.node)");
        node
    }

    /// The connections end for the clients, and not for the server.
    fn end_all(&self) {
        for client in self.clients.lock().unwrap().drain(..) {
            // The connection may have ended before.
            let _ = client.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: impl Read, mut to: impl Write, passes: impl Fn() -> bool) {
    let mut buffer = [0; 65536];
    while let Ok(length) = from.read(&mut buffer) {
        while !passes() {
            sleep(Duration::from_millis(200));
        }
        if length == 0 || to.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}

#[test]
fn a_connection_that_has_become_silent_is_replaced() {
    let db = database();
    let proxy = Proxy::new(db.server);
    let node = proxy.node(&db, &[]);
    db.execute(
        "CREATE FUNCTION nap(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql AS
        'SELECT note(key, due, payload), pg_sleep(2)';
        SELECT hwheel.schedule('middle', now(), sql => 'nap', timeout => '3 s')",
    );
    db.wait("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database())");
    proxy.forgotten.fetch_add(1, Ordering::SeqCst);
    // The function ends, and its answer is lost. The next jobs find dead connections.
    db.spread(8, 1.0);
    node.wait_for_log("the database has been silent for");
    db.all_done_once();
}

/// Each series runs more often than this number of times from now on.
fn all_run_on(db: &Database, more: i64) {
    let runs = db.number("SELECT min(runs) FROM hwheel.job") + more;
    db.wait(&format!("SELECT min(runs) > {runs} FROM hwheel.job"));
}

/// A function that sleeps for 8 s after its note.
const NAP: &str =
    "CREATE FUNCTION nap(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql AS
    'SELECT note(key, due, payload), pg_sleep(8)'";
/// Whether such a function sleeps.
const NAPS: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')";

/// The server does not look for the end of a connection while a function runs.
#[test]
fn functions_that_may_take_long_keep_no_connection_from_being_made() {
    let server = Server::start();
    let db = server.database().with_functions();
    let proxy = Proxy::new(&server);
    let _node = proxy.node(&db, &["--connections", "8"]);
    db.execute(
        "CREATE FUNCTION nap(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql AS
        'SELECT note(key, due, payload), pg_sleep(300)';
        SELECT hwheel.schedule('k' || i, now(), sql => 'nap', alone => true, timeout => '10 min')
            FROM generate_series(1, 5) i",
    );
    let run = "SELECT count(*) = 5 FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    db.wait(run);
    proxy.end_all();
    db.execute("SELECT hwheel.schedule('next', now(), sql => 'note')");
    db.wait("SELECT EXISTS (SELECT FROM run WHERE key = 'next')");
    assert!(db.is(run), "the server has ended functions");
}

/// PL/pgSQL lets a function catch the end of its time. The server ends the function with its process.
#[test]
fn a_function_that_catches_the_end_of_its_time_is_dead_in_the_end_and_stops_no_other() {
    let db = database();
    let _node = db.node("one");
    db.execute(
        "CREATE FUNCTION goes_on(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
            LOOP
                BEGIN
                    PERFORM pg_sleep(600);
                EXCEPTION WHEN query_canceled THEN
                    CONTINUE;
                END;
            END LOOP;
        END $$;
        SELECT hwheel.schedule('k' || i, now(), sql => 'goes_on', timeout => '1 s', max_attempts => 1)
            FROM generate_series(1, 5) i;
        SELECT hwheel.schedule('next', now() + interval '9 s', sql => 'note')",
    );
    db.wait("SELECT EXISTS (SELECT FROM run WHERE key = 'next')");
    db.wait("SELECT count(*) = 5 FROM hwheel.job WHERE state = 'dead'");
    db.wait("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database())");
}

/// A proxy keeps a call of a node, passes it on much later, and the answer goes nowhere.
#[test]
fn a_claim_that_reaches_the_server_late_hides_no_job() {
    let server = Server::start();
    let db = server.database().with_functions();
    db.execute("UPDATE hwheel.settings SET lease_length = '1 min'");
    let proxy = Proxy::new(&server);
    let node = proxy.node(&db, &[]);
    // The node listens, and its next call is a claim.
    db.wait(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'hwheel-jobs a'
            AND query LIKE '%hwheel._tend(%' AND state = 'idle')",
    );
    proxy.forgotten.fetch_add(1, Ordering::SeqCst);
    node.wait_for_log("hwheel-jobs a: the database has been silent for");
    // The server's process of that connection is idle for longer than a message is under way.
    sleep(Duration::from_secs(25));
    // The node itself claims nothing meanwhile.
    node.signal(libc::SIGSTOP);
    db.execute(
        "SELECT hwheel.schedule('k' || i, now(), sql => 'note') FROM generate_series(1, 10) i",
    );
    proxy.passes_on.store(true, Ordering::SeqCst);
    sleep(Duration::from_secs(2));
    node.signal(libc::SIGCONT);
    db.wait("SELECT count(*) = 10 FROM run");
    db.all_done_once();
}

/// The server does not look for the end of a connection while a function runs.
#[test]
fn a_run_whose_connection_is_lost_counts_until_it_ends() {
    let server = Server::start();
    let db = server.database().with_functions();
    let proxy = Proxy::new(&server);
    let _node = proxy.node(&db, &[]);
    db.execute(NAP);
    db.execute(
        "SELECT hwheel.set_queue('one', max_running => 1);
        SELECT hwheel.schedule('first', now(), sql => 'nap', alone => true, queue => 'one');
        SELECT hwheel.schedule('second', now() + interval '1 s', sql => 'nap', alone => true, queue => 'one')",
    );
    db.wait(NAPS);
    proxy.end_all();
    assert_eq!(most_at_once(&db), 1, "runs at once");
    db.all_done_once();
}

/// The claim waits for a lock until the node has lost the connection.
#[test]
fn jobs_of_a_claim_whose_answer_is_lost_keep_the_limit_of_their_queue() {
    let server = Server::start();
    let db = server.database().with_functions();
    let proxy = Proxy::new(&server);
    db.execute(NAP);
    db.execute(
        "SELECT hwheel.set_queue('one', max_running => 1);
        SELECT hwheel.schedule(key, now(), sql => 'nap', alone => true, queue => 'one')
            FROM unnest('{first,second}'::text[]) key",
    );
    let mut neighbour = db.client();
    neighbour
        .batch_execute("BEGIN; LOCK TABLE hwheel.job IN SHARE MODE")
        .unwrap();
    let node = proxy.node(&db, &[]);
    db.wait(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'
            AND query LIKE '%hwheel._turn5(%' AND query NOT LIKE '%pg_stat_activity%')",
    );
    node.signal(libc::SIGSTOP);
    proxy.end_all();
    neighbour.batch_execute("COMMIT").unwrap();
    db.wait("SELECT count(*) = 2 FROM hwheel.job WHERE state = 'claimed'");
    node.signal(libc::SIGCONT);
    assert_eq!(most_at_once(&db), 1, "runs at once");
    db.all_done_once();
}

/// How many functions sleep at once, until no job is left.
fn most_at_once(db: &Database) -> i64 {
    let mut client = db.client();
    let mut most = 0;
    while client.one::<i64>("SELECT count(*) FROM hwheel.job") > 0 {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        most = client.one::<i64>(sql).max(most);
        sleep(Duration::from_millis(50));
    }
    most
}

/// The run of another queue was lost on the connection that fires these jobs.
#[test]
fn a_lost_run_stops_no_queue_with_a_limit_but_its_own() {
    let server = Server::start();
    let db = server.database().with_functions();
    let proxy = Proxy::new(&server);
    let _node = proxy.node(&db, &["--connections", "1"]);
    db.execute(NAP);
    db.execute(
        "SELECT hwheel.set_queue('one', max_running => 1);
        SELECT hwheel.schedule('long', now(), sql => 'nap', alone => true)",
    );
    db.wait(NAPS);
    proxy.end_all();
    for key in ["first", "second"] {
        db.execute(&format!(
            "SELECT hwheel.schedule('{key}', now(), sql => 'note', queue => 'one')"
        ));
        db.wait(&format!(
            "SELECT EXISTS (SELECT FROM run WHERE key = '{key}')"
        ));
        assert!(db.is(NAPS), "{key} has waited for the lost run");
    }
    db.all_done_once();
}

/// The proxy forgets all connections again and again. The server does not learn that these connections have
/// ended.
#[test]
fn lost_connections_do_not_stay_at_the_server() {
    let server = Server::start();
    let db = server.database().with_functions();
    let proxy = Proxy::new(&server);
    let node = proxy.node(&db, &[]);
    db.all_claim();
    let mine = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'hwheel-jobs a%'";
    proxy.forgotten.fetch_add(1, Ordering::SeqCst);
    node.wait_for_log("the database has been silent for");
    db.spread(8, 1.0);
    db.all_done_once();
    // As many as README.md says.
    db.wait(&format!("SELECT ({mine}) <= 8"));
}

/// The processes of such a server wait for clients that are gone, and the server does not say that these
/// processes are idle.
#[test]
fn a_server_that_tracks_no_state_may_keep_lost_connections() {
    let server = Server::start_with(&["track_activities = off"], &[]);
    let db = server.database().with_functions();
    let proxy = Proxy::new(&server);
    let _node = proxy.node(&db, &[]);
    db.execute("SELECT hwheel.schedule('series', every => '100 ms', sql => 'note')");
    all_run_on(&db, 1);
    proxy.end_all();
    // Meanwhile the limits of the lost calls end.
    all_run_on(&db, 130);
    proxy.end_all();
    all_run_on(&db, 3);
}

/// After a lost answer a node may hold a job twice. The calls of a node of version 1, by
/// hand.
#[test]
fn a_job_that_a_node_fires_twice_runs_once() {
    let db = database();
    db.execute("SELECT hwheel.schedule('a', now(), sql => 'note'); SELECT hwheel.schedule('c', now(), command => 'true')");
    let node: i64 = db.value("SELECT id FROM hwheel._enter('by hand', 1)");
    let claimed = db.rows(&format!("SELECT id, fence FROM hwheel._claim({node}, 10, '{{sql,command}}', 0, 0, '{{}}') ORDER BY id"));
    let (id, fence): (i64, i64) = (claimed[0].get(0), claimed[0].get(1));
    let fire = format!("SELECT outcome FROM hwheel._fire('{{{id},{id}}}', '{{{fence},{fence}}}', '{{NULL,NULL}}', '{{0,0}}')");
    let outcomes: Vec<String> = db.rows(&fire).iter().map(|row| row.get(0)).collect();
    assert_eq!(outcomes, ["done"]);
    assert_eq!(db.text(&fire), "gone");
    // With an old fence nothing is begun, and nothing settled.
    let (id, fence): (i64, i64) = (claimed[1].get(0), claimed[1].get(1));
    let begin = |fence: i64| {
        db.text(&format!(
            "SELECT outcome FROM hwheel._begin('{{{id}}}', '{{{fence}}}')"
        ))
    };
    let settle = |fence: i64| -> String {
        db.value(&format!("SELECT outcome FROM hwheel._settle('{{{id}}}', '{{{fence}}}', '{{NULL}}', '{{NULL}}', '{{0}}', '{{NULL}}')"))
    };
    assert_eq!(
        (begin(fence - 1), begin(fence), begin(fence)),
        ("gone".into(), "taken".into(), "taken".into())
    );
    assert_eq!(
        (settle(fence - 1), settle(fence), settle(fence)),
        ("gone".into(), "done".into(), "gone".into())
    );
    db.all_done_once();
}

#[test]
fn the_server_may_restart_or_crash() {
    let server = Server::start();
    let db = server.database().with_functions();
    let _neighbour = db.neighbour();
    let (a, _b) = (db.node("a"), db.node("b"));
    db.spread(600, 6.0);
    for mode in ["fast", "immediate"] {
        sleep(Duration::from_millis(1000));
        server.down(mode);
        sleep(Duration::from_millis(300));
        server.up();
    }
    db.all_done_once();
    assert!(a.log().contains("again in"), "{}", a.log());
}

/// From now on a commit waits for a standby with this name, whatever limit of time it has.
fn commits_wait_for(db: &Database, standby: &str) {
    db.execute(&format!(
        "ALTER SYSTEM SET synchronous_standby_names = '{standby}'"
    ));
    db.execute("SELECT pg_reload_conf()");
}

/// While a synchronous standby or a disk is slow, the node gives connections up. It asks for all that it owns
/// before the server has committed the calls of these connections.
#[test]
fn what_the_server_commits_after_its_connection_was_given_up_is_found() {
    let server = Server::start();
    let db = server.database().with_functions();
    let node = db.node("one");
    db.execute(
        "SELECT hwheel.schedule('series', every => '300 ms', sql => 'note', timeout => '1 s')",
    );
    db.wait("SELECT runs > 1 FROM hwheel.job");
    commits_wait_for(&db, "nobody");
    let waits = |call: &str| {
        db.wait(&format!(
            "SELECT count(*) > 0 FROM pg_stat_activity
            WHERE wait_event = 'SyncRep' AND query LIKE '%hwheel.{call}(%'"
        ));
    };
    waits("_fire");
    db.execute(
        "SET synchronous_commit = local;
        SELECT hwheel.schedule('k' || i, now() + interval '100 ms', sql => 'note') FROM generate_series(1, 10) i",
    );
    waits("_turn5");
    node.wait_for_log("hwheel-jobs one: the database has been silent");
    assert!(node.log().contains("fire"), "{}", node.log());
    // On its next connection the node asks for what it owns before anything else.
    db.wait(
        "SELECT count(*) > 1 FROM pg_stat_activity
        WHERE application_name = 'hwheel-jobs one' AND query LIKE '%hwheel.\\_%'",
    );
    commits_wait_for(&db, "");
    db.wait("SELECT count(*) = 10 FROM hwheel.history");
    all_run_on(&db, 3);
    assert!(db.is("SELECT count(*) = count(DISTINCT (key, due)) FROM run"));
}

/// The end of a connection does not end a commit that waits.
#[test]
fn the_server_is_at_work_on_few_calls_that_a_node_has_given_up() {
    let server = Server::start();
    let db = server.database().with_functions();
    let node = db.node_with("one", &["--connections", "8", "--metrics", "127.0.0.1:0"]);
    db.execute(
        "SELECT hwheel.schedule('k' || i, every => '100 ms', sql => 'note', alone => true,
            timeout => '1 s', max_attempts => 100) FROM generate_series(1, 16) i",
    );
    db.wait("SELECT bool_and(runs > 1) FROM hwheel.job");
    commits_wait_for(&db, "nobody");
    let mut client = db.client();
    let end = Instant::now() + Duration::from_secs(25);
    let mut most = 0;
    while Instant::now() < end {
        let sql = "SELECT count(*) FROM pg_stat_activity
            WHERE wait_event = 'SyncRep' AND application_name LIKE 'hwheel-jobs one%'";
        most = client.one::<i64>(sql).max(most);
        sleep(Duration::from_millis(100));
    }
    // One of each of 12 connections, and 3 more.
    assert!(most <= 15, "{most} calls");
    let health = get(&metrics_address(&node), "/healthz");
    assert!(health.starts_with("HTTP/1.1 503 "), "{health}");
    for text in [&health, &node.log()] {
        assert!(text.contains("the server is still at work on "), "{text}");
    }
    commits_wait_for(&db, "");
    all_run_on(&db, 3);
    assert!(db.is("SELECT count(*) = count(DISTINCT (key, due)) FROM run"));
    db.wait(
        "SELECT count(*) <= 12 FROM pg_stat_activity WHERE application_name LIKE 'hwheel-jobs %'",
    );
}

/// A cancel of the server's process would end the wait, and would not undo the commit.
#[test]
fn a_cancelled_job_whose_commit_waits_for_a_standby_waits_on() {
    let server = Server::start();
    let db = server.database().with_functions();
    let node = db.node("one");
    db.execute(
        "CREATE FUNCTION nap(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql AS
        'SELECT note(key, due, payload), pg_sleep(2)';
        SELECT hwheel.schedule('k', now(), sql => 'nap', alone => true)",
    );
    db.wait("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')");
    commits_wait_for(&db, "nobody");
    let waits = "SELECT count(*) = 1 FROM pg_stat_activity
        WHERE wait_event = 'SyncRep' AND query LIKE '%hwheel._fire(%'";
    db.wait(waits);
    db.execute("SET synchronous_commit = local; SELECT hwheel.cancel('k')");
    node.wait_for_log("the server cancels its function");
    sleep(Duration::from_millis(500));
    assert!(db.is(waits), "the commit does not wait");
    assert_eq!(db.number("SELECT count(*) FROM run"), 0);
    commits_wait_for(&db, "");
    db.all_done_once();
}

/// The server answers before it has written a commit, and then it crashes.
#[test]
fn a_run_whose_end_the_server_has_lost_is_made_again() {
    let server = Server::start_with(
        &[
            "synchronous_commit = off",
            "wal_writer_delay = 10s",
            "autovacuum = off",
        ],
        &[],
    );
    let db = server.database().with_functions();
    let _node = db.node("one");
    let path = server.dir().join("may-end").display().to_string();
    // The server may have written the end all the same.
    for n in 0.. {
        let _ = std::fs::remove_file(&path);
        db.execute(&format!(
            "SELECT hwheel.schedule('once-{n}', now(), command => 'until test -e {path}; do sleep 0.02; done'),
                hwheel.schedule('skip-{n}', now(), every => '1 h', missed => 'skip',
                    command => 'until test -e {path}; do sleep 0.02; done')"
        ));
        db.wait("SELECT count(*) = 2 FROM hwheel.job WHERE state = 'running'");
        db.execute("SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'all', 'is written')");
        std::fs::write(&path, "").expect("a file");
        db.wait("SELECT count(*) = 1 FROM hwheel.history WHERE key LIKE 'once-%'");
        db.wait("SELECT count(*) = 0 FROM hwheel.job WHERE state = 'running'");
        server.down("immediate");
        server.up();
        if db.is("SELECT count(*) = 2 FROM hwheel.job WHERE state = 'running'") {
            // That run is late now.
            db.execute("UPDATE hwheel.job SET due = due - interval '1 h' WHERE missed = 'skip'");
            break;
        }
        assert!(n < 20, "no end was lost");
        db.execute("DELETE FROM hwheel.job; TRUNCATE hwheel.history");
    }
    db.wait("SELECT count(*) = 1 FROM hwheel.history WHERE key LIKE 'once-%'");
    db.wait("SELECT state = 'waiting' AND due > now() + interval '50 min' FROM hwheel.job");
}

/// As after a standby has become the server that lacks the last commits.
#[test]
fn a_series_goes_on_at_a_server_that_lacks_the_last_commits() {
    let db = database();
    let _node = db.node("one");
    db.execute(
        "SELECT hwheel.schedule('sql', every => '700 ms', sql => 'note'),
            hwheel.schedule('command', every => '700 ms', command => 'true')",
    );
    for state in ["claimed", "running"] {
        db.wait("SELECT bool_and(runs > 1 AND state = 'claimed') FROM hwheel.job");
        db.execute(&format!(
            "UPDATE hwheel.job SET fence = fence - 5, runs = 0, due = now(), state = '{state}' WHERE state = 'claimed';
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE application_name = 'hwheel-jobs one' AND datname = current_database()"
        ));
    }
    db.wait("SELECT bool_and(runs > 3) FROM hwheel.job");
}

/// A standby has become the server, and the node has lost another connection than that on which it claims.
#[test]
fn a_series_goes_on_at_another_server_that_no_call_of_a_claim_has_missed() {
    let db = database();
    let _node = db.node("one");
    db.execute("SELECT hwheel.schedule('sql', every => '700 ms', sql => 'note')");
    db.wait("SELECT bool_and(runs > 1 AND state = 'claimed') FROM hwheel.job");
    let process: i32 = db.value(
        "SELECT pid FROM pg_stat_activity
        WHERE application_name = 'hwheel-jobs one lease' AND datname = current_database()",
    );
    // SAFETY: no memory is passed.
    let signal = |signal| assert_eq!(unsafe { libc::kill(process, signal) }, 0);
    signal(libc::SIGSTOP);
    // Only a job that is armed may be changed like that.
    db.wait(
        "WITH lacks AS (UPDATE hwheel.job SET fence = fence - 5, runs = 0
            WHERE state = 'claimed' AND due > now() + interval '200 ms' RETURNING 1)
        SELECT count(*) = 1 FROM lacks",
    );
    // The node has given that call up.
    db.wait(&format!(
        "SELECT count(*) = 1 FROM pg_stat_activity WHERE pid <> {process}
            AND application_name = 'hwheel-jobs one lease' AND datname = current_database()"
    ));
    signal(libc::SIGCONT);
    db.wait("SELECT bool_and(runs > 3) FROM hwheel.job");
}

#[test]
fn a_lease_may_become_shorter_under_nodes_that_run() {
    let db = database();
    db.execute("UPDATE hwheel.settings SET window_length = DEFAULT, lease_length = DEFAULT");
    let (one, _two) = (db.node("one"), db.node("two"));
    db.all_claim();
    db.execute("UPDATE hwheel.settings SET lease_length = '4 s'");
    sleep(Duration::from_secs(16));
    assert_eq!(
        db.number("SELECT count(*) FROM hwheel.node WHERE left_at IS NULL"),
        2
    );
    assert!(!one.log().contains("expelled"), "{}", one.log());
}

#[test]
fn a_session_of_a_node_may_be_idle_for_long() {
    let db = database();
    db.execute(
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET idle_session_timeout = 300', current_database()); END $$",
    );
    let node = db.node("one");
    for key in ["a", "b"] {
        db.execute(&format!(
            "SELECT hwheel.schedule('{key}', now(), sql => 'note')"
        ));
        db.wait(&format!(
            "SELECT count(*) = 1 FROM hwheel.history WHERE key = '{key}'"
        ));
        sleep(Duration::from_millis(1000));
    }
    assert!(!node.log().contains("again in"), "{}", node.log());
}

#[test]
fn a_node_waits_for_a_server_that_is_not_there_yet() {
    let server = Server::start();
    let db = server.database().with_functions();
    db.spread(10, 0.1);
    server.down("fast");
    let node = db.spawn("a", &[]);
    node.wait_for_log("No such file or directory");
    node.wait_for_log("again in 200ms");
    server.up();
    db.all_done_once();
}

#[test]
fn a_node_that_ends_gives_its_jobs_back_at_once() {
    let db = database();
    db.execute("UPDATE hwheel.settings SET lease_length = '1 hour'");
    let (mut a, _b) = (db.node("a"), db.node("b"));
    db.execute("SELECT hwheel.schedule('c', now(), command => 'sleep 0.7')");
    db.wait("SELECT state = 'running' FROM hwheel.all_jobs");
    db.spread(200, 2.0);
    sleep(Duration::from_millis(300));
    assert!(a.end());
    db.all_done_once();
    assert_eq!(
        db.number("SELECT runs FROM hwheel.all_jobs WHERE key = 'c'"),
        1
    );
    db.none_later_than(3.0);
}

/// The server runs the function of a node that has left.
#[test]
fn a_run_that_outlasts_its_node_counts_until_it_ends() {
    let server = Server::start();
    let db = server.database().with_functions();
    db.execute(NAP);
    let mut a = db.node_with("a", &["--grace", "1"]);
    db.execute(
        "SELECT hwheel.set_queue('one', max_running => 1, rate => 10);
        SELECT hwheel.schedule(key, now(), sql => 'nap', alone => true, queue => 'one')
            FROM unnest('{first,second}'::text[]) key",
    );
    db.wait(NAPS);
    let _b = db.node("b");
    assert!(a.end());
    assert_eq!(most_at_once(&db), 1, "runs at once");
}

/// The functions of the jobs write to a file system that is full.
#[test]
fn a_full_disk_costs_no_attempt_and_no_job() {
    let server = Server::start();
    let Some(disk) = SmallDisk::new(&server) else {
        return;
    };
    let db = server.database().with_functions();
    disk.tablespace(&db);
    db.execute(
        "CREATE TABLE effect (text text) TABLESPACE small;
        ALTER TABLE effect ALTER text SET STORAGE PLAIN;
        CREATE FUNCTION fill(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql AS
        'INSERT INTO run VALUES (key, due, payload);
        INSERT INTO effect SELECT repeat(md5(i::text), 200) FROM generate_series(1, 200) i'",
    );
    disk.fill();
    let node = db.node("a");
    db.execute(
        "SELECT hwheel.schedule('f' || i, now(), sql => 'fill') FROM generate_series(1, 5) i",
    );
    db.execute("SELECT hwheel.schedule('n', now(), sql => 'note')");
    node.wait_for_log("No space left on device");
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs WHERE key = 'n'");
    assert!(db.is("SELECT bool_and(attempts = 0) FROM hwheel.all_jobs"));
    disk.make_room();
    db.all_done_once();
}

/// The jobs themselves lie on it.
#[test]
fn a_command_that_its_node_cannot_start_uses_no_attempt() {
    let db = database();
    let dir = db.server.dir().join("of-commands");
    let place = dir.display().to_string();
    let node = db.spawn_in("one", &[], &[("TMPDIR", &place)]);
    db.execute(
        "SELECT hwheel.schedule('c', now(), command => 'true', max_attempts => 1),
            hwheel.schedule('series', now(), every => '1 h', command => 'true', max_attempts => 1)",
    );
    node.wait_for_log("\"c\" waits: cannot start: No such file");
    node.wait_for_log("\"series\" waits: cannot start: No such file");
    db.wait("SELECT bool_and(last_error LIKE 'cannot start%' AND attempts = 0) FROM hwheel.job");
    std::fs::create_dir(&dir).expect("a directory");
    db.wait("SELECT count(*) = 1 FROM hwheel.history");
    db.wait("SELECT runs = 1 AND last_error IS NULL FROM hwheel.job");
}

/// A machine may have no descriptor left, or refuse the call.
#[test]
fn a_command_that_its_node_cannot_wait_for_is_killed() {
    let db = database();
    let place = db.server.dir().join("run").display().to_string();
    let mut command = Command::new(support::PROGRAM);
    command
        .args(["run", "--name", "one", "--kinds", "command"])
        .env("DATABASE_URL", &db.url);
    // SAFETY: the closure makes two system calls, and needs no memory.
    unsafe { command.pre_exec(refuse_pidfd_open) };
    let node = support::Node::start(&mut command, "one");
    db.execute(&format!(
        "SELECT hwheel.schedule('c', now(), max_attempts => 3, backoff => '100 ms',
            command => 'exec 9>>{place}; flock -n 9 || echo twice >&9; sleep 3')"
    ));
    node.wait_for_log("\"c\" is dead: killed, because the node cannot wait for it");
    assert_eq!(std::fs::read_to_string(&place).unwrap_or_default(), "");
}

fn refuse_pidfd_open() -> std::io::Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let (equal, back) = (libc::BPF_JMP | libc::BPF_JEQ, libc::BPF_RET);
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0), // The number of the call.
        step(equal, 0, 1, libc::SYS_pidfd_open as u32),
        step(back, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EMFILE as u32),
        step(back, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the filter lives as long as the call.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) == 0
    };
    done.then_some(()).ok_or_else(std::io::Error::last_os_error)
}

#[test]
fn a_full_disk_refuses_users_and_makes_nodes_wait() {
    let server = Server::start();
    let Some(disk) = SmallDisk::new(&server) else {
        return;
    };
    let db = server.database().with_functions();
    disk.tablespace(&db);
    db.execute("ALTER TABLE hwheel.job SET TABLESPACE small");
    // Four fill a page, so that a changed one needs another page.
    let schedule = "SELECT hwheel.schedule('k' || i, now() + interval '1 s', sql => 'note', payload =>
        to_jsonb((SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 50) WHERE i > 0)))
        FROM generate_series(1, 40) i";
    db.execute(schedule);
    disk.fill();
    let refusal = db.refusal(&schedule.replace("'k'", "'more'"));
    assert!(refusal.contains("No space left on device"), "{refusal}");
    let node = db.node("a");
    node.wait_for_log("No space left on device");
    node.wait_for_log("again in 800ms");
    disk.make_room();
    db.all_done_once();
    assert_eq!(db.number("SELECT count(*) FROM run"), 40);
}

/// A file system of 16 MB.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None, and a line that says so, for others than root.
    fn new(server: &Server) -> Option<SmallDisk> {
        // SAFETY: it only returns a number.
        if unsafe { libc::geteuid() } != 0 {
            skip("only root can mount a small file system");
            return None;
        }
        let path = server.dir().join("small");
        let run = |program: &str, arguments: &[&str], path: &Path| {
            let status = Command::new(program).args(arguments).arg(path).status();
            assert!(status.expect(program).success(), "{program}");
        };
        std::fs::create_dir(&path).unwrap();
        run(
            "mount",
            &["-t", "tmpfs", "-o", "size=16m,mode=0777", "tmpfs"],
            &path,
        );
        let disk = SmallDisk(path);
        std::fs::create_dir(disk.0.join("own")).unwrap();
        run("chown", &["postgres"], &disk.0.join("own"));
        Some(disk)
    }

    fn tablespace(&self, db: &Database) {
        let own = self.0.join("own");
        db.execute(&format!(
            "CREATE TABLESPACE small LOCATION '{}'",
            own.display()
        ));
    }

    fn fill(&self) {
        let mut filler = std::fs::File::create(self.0.join("filler")).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A backup was restored under nodes that run, and the sequence of their numbers went back: a
/// process that enters gets the number of another one.
#[test]
fn a_number_belongs_to_one_process() {
    let server = Server::start();
    let db = server.database().with_functions();
    let first = db.node("first");
    db.all_claim();
    // The numbers begin again, and the first row is gone. The first node does not enter again
    // before the second one has its number.
    first.signal(libc::SIGSTOP);
    db.execute("DELETE FROM hwheel.node; ALTER TABLE hwheel.node ALTER id RESTART");
    let second = db.node("second");
    db.wait("SELECT id = 1 FROM hwheel.node WHERE name = 'second'");
    first.signal(libc::SIGCONT);
    // Whose number it was enters anew.
    first.wait_for_log("another process has its number");
    db.wait("SELECT count(*) = 2 FROM hwheel.node WHERE left_at IS NULL AND lease_until > now()");
    assert!(
        !second.log().contains("another process"),
        "{}",
        second.log()
    );
    db.spread(100, 2.0);
    db.all_done_once();
}

/// The clock of the server goes back by an hour under the only node, after an application was lost.
#[test]
fn the_lease_of_an_application_ends_though_the_clock_goes_back_under_the_only_node() {
    let server = Server::start();
    let db = server.database();
    db.execute("SELECT hwheel.schedule('b', now(), queue => 'q', max_attempts => 1)");
    db.execute("SELECT hwheel.take('q')");
    let node = db.node("n");
    db.all_claim();
    node.signal(libc::SIGSTOP);
    db.execute(
        "UPDATE hwheel.node SET lease_until = lease_until + interval '1 h';
        UPDATE hwheel.job SET lease_until = clock_timestamp() + interval '1 h 1 s',
            fired_at = clock_timestamp() + interval '1 h' WHERE key = 'b'",
    );
    node.signal(libc::SIGCONT);
    db.wait("SELECT state = 'dead' AND last_error = 'the lease ran out' FROM hwheel.job");
}

/// The clock of the server went back by an hour after a queue with a rate had no start left.
#[test]
fn a_rate_goes_on_though_the_clock_goes_back() {
    let server = Server::start();
    let db = server.database().with_functions();
    db.execute(
        "SELECT hwheel.set_queue('q', rate => 20);
        UPDATE hwheel.queue SET tokens = 0, refilled_at = now() + interval '1 h', paced_at = now() + interval '1 h';
        SELECT hwheel.schedule('a' || i, now(), queue => 'q'), hwheel.schedule('n' || i, now(), sql => 'note', queue => 'q')
            FROM generate_series(1, 5) i",
    );
    let _node = db.node("n");
    db.wait("SELECT count(*) = 5 FROM run");
    let mut client = db.client();
    let end = Instant::now() + Duration::from_secs(5);
    let mut taken = 0;
    while taken < 5 {
        assert!(Instant::now() < end, "{taken} taken");
        taken += client.query("SELECT hwheel.take('q')", &[]).unwrap().len();
        sleep(Duration::from_millis(20));
    }
}

/// The clock of the server went back by an hour after a node and an application were lost.
#[test]
fn leases_that_the_clock_has_left_behind_end() {
    let server = Server::start();
    let db = server.database().with_functions();
    // A node claims the job long before it is due.
    db.execute("UPDATE hwheel.settings SET window_length = '1 h'");
    let mut lost = db.node("lost");
    db.execute(
        "SELECT hwheel.schedule('a', now() + interval '30 min', sql => 'note');
        SELECT hwheel.schedule('b', now(), queue => 'q', timeout => '1 s', max_attempts => 1)",
    );
    db.execute("SELECT hwheel.take('q')");
    db.wait("SELECT state = 'claimed' FROM hwheel.job WHERE key = 'a'");
    lost.kill();
    db.execute(
        "UPDATE hwheel.job SET due = now() WHERE key = 'a';
        UPDATE hwheel.node SET lease_until = lease_until + interval '1 h';
        UPDATE hwheel.job SET lease_until = lease_until + interval '1 h',
            fired_at = fired_at + interval '1 h' WHERE key = 'b'",
    );
    let _node = db.node("n");
    db.wait("SELECT count(*) = 1 FROM run");
    db.wait("SELECT last_error = 'the lease ran out' FROM hwheel.job WHERE key = 'b' AND state = 'dead'");
}
