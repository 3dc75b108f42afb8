//! Nodes, connections, servers and clocks that fail. Each test has a server of its own
//! if it does something to the server.

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;
use support::{Database, Server};

fn shared() -> Database<'static> {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER
        .get_or_init(Server::start)
        .database()
        .with_functions()
}

/// So many jobs, evenly over the next seconds.
fn spread(db: &Database, count: i32, seconds: f64) {
    db.execute(&format!(
        "SELECT hwheel.schedule('k' || i, now() + i * interval '1 s' * {seconds} / {count}, sql => 'note')
        FROM generate_series(1, {count}) i"
    ));
}

/// Waits until all jobs are done, and checks that each ran once and not early.
fn all_done_once(db: &Database) {
    db.wait("SELECT bool_and(state = 'done') FROM hwheel.job");
    let row = &db.rows(
        "SELECT (SELECT count(*) FROM hwheel.job WHERE kind = 'sql'), count(*),
        count(DISTINCT key), bool_and(at >= due) FROM run",
    )[0];
    let (jobs, runs, keys, in_time): (i64, i64, i64, bool) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    assert_eq!((runs, keys, in_time), (jobs, jobs, true));
}

#[test]
fn a_node_that_is_killed_passes_its_jobs_on() {
    let db = shared();
    let mut a = db.node("a");
    spread(&db, 400, 4.0);
    db.wait("SELECT count(*) > 20 FROM hwheel.job WHERE state = 'claimed'");
    let _b = db.node("b");
    sleep(Duration::from_millis(700));
    a.kill();
    assert!(db.value::<bool>("SELECT EXISTS (SELECT FROM hwheel.job j JOIN hwheel.node n ON n.id = j.owner WHERE n.name = 'a')"));
    all_done_once(&db);
    assert!(db.value::<bool>("SELECT left_at IS NOT NULL FROM hwheel.node WHERE name = 'a'"));
}

#[test]
fn a_command_whose_node_is_killed_runs_again_and_the_attempt_counts() {
    let db = shared();
    let mut a = db.node("a");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display();
    db.execute(&format!(
        "SELECT hwheel.schedule('again', now(), command => 'echo $HWHEEL_ATTEMPT $HWHEEL_RUN >> {path}/again; test $HWHEEL_ATTEMPT = 2 || sleep 8');
        SELECT hwheel.schedule('once', now(), command => 'sleep 8', max_attempts => 1)"
    ));
    db.wait("SELECT count(*) = 2 FROM hwheel.job WHERE state = 'running'");
    // The state is written before the command starts.
    while !dir.path().join("again").exists() {
        sleep(Duration::from_millis(10));
    }
    a.kill();
    let _b = db.node("b");
    db.wait("SELECT count(*) = 2 FROM hwheel.job WHERE state IN ('done', 'dead')");
    let runs = std::fs::read_to_string(dir.path().join("again")).unwrap();
    let runs: Vec<Vec<&str>> = runs.lines().map(|line| line.split(' ').collect()).collect();
    assert_eq!((runs[0][0], runs[1][0], runs.len()), ("1", "2", 2));
    assert_eq!(runs[0][1], runs[1][1], "all attempts have the same name");
    let row = &db.rows("SELECT state, last_error FROM hwheel.job WHERE key = 'once'")[0];
    assert_eq!(
        (row.get(0), row.get(1)),
        ("dead", "the node was lost while the job ran")
    );
}

#[test]
fn a_node_that_is_stopped_for_longer_than_its_lease_completes_nothing_that_passed_on() {
    let db = shared();
    let a = db.node("a");
    let dir = tempfile::tempdir().unwrap();
    // The command ends while its node is stopped.
    db.execute(&format!(
        "SELECT hwheel.schedule('c', now(), command => 'echo x >> {}/c; sleep 1')",
        dir.path().display()
    ));
    spread(&db, 100, 2.5);
    db.wait("SELECT state = 'running' FROM hwheel.job WHERE key = 'c'");
    db.wait("SELECT count(*) > 5 FROM hwheel.job WHERE state = 'done'");
    a.signal(libc::SIGSTOP);
    let _b = db.node("b");
    all_done_once(&db);
    assert_eq!(
        std::fs::read_to_string(dir.path().join("c"))
            .unwrap()
            .lines()
            .count(),
        2
    );
    let owner_and_fence = "SELECT j.fence FROM hwheel.job j WHERE key = 'c'";
    let fence: i64 = db.value(owner_and_fence);

    // It wakes with timers that expired long ago and a command to settle.
    a.signal(libc::SIGCONT);
    a.wait_for_log("was expelled");
    db.wait("SELECT count(*) = 2 FROM hwheel.node WHERE name = 'a'");
    sleep(Duration::from_millis(300));
    assert_eq!(db.value::<i64>(owner_and_fence), fence);
    all_done_once(&db);

    // Both work on.
    spread(&db, 50, 1.0);
    db.wait("SELECT bool_and(state = 'done') FROM hwheel.job");
}

#[test]
fn a_batch_whose_node_is_stopped_or_killed_is_committed_once() {
    let db = shared();
    db.execute(
        "CREATE FUNCTION slow(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql
        AS 'SELECT note(key, due, payload), pg_sleep(3)'",
    );
    for end in [libc::SIGSTOP, libc::SIGKILL] {
        db.execute("TRUNCATE run; DELETE FROM hwheel.job; SELECT hwheel.schedule('slow', now(), sql => 'slow')");
        let a = db.node(&format!("a{end}"));
        db.wait("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%_fire%' AND state = 'active'
            AND wait_event = 'PgSleep' AND datname = current_database())");
        a.signal(end);
        let _b = db.node(&format!("b{end}"));
        all_done_once(&db);
        sleep(Duration::from_secs(1));
        all_done_once(&db);
    }
}

#[test]
fn a_lost_connection_loses_no_job_and_doubles_none() {
    let db = shared();
    let (a, _b) = (db.node("a"), db.node("b"));
    spread(&db, 600, 4.0);
    db.execute("SELECT hwheel.schedule('tick', every => '100 ms', sql => 'note', missed => 'all')");
    for _ in 0..8 {
        sleep(Duration::from_millis(400));
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name LIKE 'hwheel-jobs %' AND datname = current_database()",
        );
    }
    db.wait("SELECT bool_and(state = 'done') FROM hwheel.job WHERE key <> 'tick'");
    db.wait("SELECT runs > 40 FROM hwheel.job WHERE key = 'tick'");
    assert!(
        a.log()
            .contains("terminating connection due to administrator command"),
        "{}",
        a.log()
    );
    let row = &db.rows("SELECT count(*), count(DISTINCT (key, due)),
        count(*) FILTER (WHERE key = 'tick') = (SELECT runs FROM hwheel.job WHERE key = 'tick') FROM run")[0];
    let (runs, distinct, as_counted): (i64, i64, bool) = (row.get(0), row.get(1), row.get(2));
    assert_eq!((runs, as_counted), (distinct, true));
    // None of its runs is missing.
    assert!(db.value::<bool>("SELECT bool_and(step = '100 ms') FROM
        (SELECT due - lag(due) OVER (ORDER BY due) AS step FROM run WHERE key = 'tick') s WHERE step IS NOT NULL"));
    // No node has lost its lease over it.
    assert_eq!(db.value::<i64>("SELECT count(*) FROM hwheel.node"), 2);
}

/// After a lost answer a node may hold a job twice. The calls of a node, by hand.
#[test]
fn a_job_that_a_node_fires_twice_runs_once() {
    let db = shared();
    db.execute("SELECT hwheel.schedule('a', now(), sql => 'note'); SELECT hwheel.schedule('c', now(), command => 'true')");
    let node: i64 = db.value("SELECT id FROM hwheel._enter('by hand', 1)");
    let claimed = db.rows(&format!("SELECT id, fence FROM hwheel._claim({node}, 10, '{{sql,command}}', 0, 0, '{{}}') ORDER BY id"));
    let (id, fence): (i64, i64) = (claimed[0].get(0), claimed[0].get(1));
    let fire = format!("SELECT outcome FROM hwheel._fire('{{{id},{id}}}', '{{{fence},{fence}}}', '{{NULL,NULL}}', '{{0,0}}')");
    let outcomes: Vec<String> = db.rows(&fire).iter().map(|row| row.get(0)).collect();
    assert_eq!(outcomes, ["done"]);
    assert_eq!(db.value::<String>(&fire), "gone");
    // With an old fence nothing is begun, and nothing settled.
    let (id, fence): (i64, i64) = (claimed[1].get(0), claimed[1].get(1));
    let begin = |fence: i64| {
        db.value::<String>(&format!(
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
    all_done_once(&db);
}

#[test]
fn the_server_may_restart_or_crash() {
    let server = Server::start();
    let db = server.database().with_functions();
    let (a, _b) = (db.node("a"), db.node("b"));
    spread(&db, 600, 6.0);
    for mode in ["fast", "immediate"] {
        sleep(Duration::from_millis(1000));
        server.down(mode);
        sleep(Duration::from_millis(300));
        server.up();
    }
    all_done_once(&db);
    assert!(a.log().contains("again in"), "{}", a.log());
}

#[test]
fn a_node_waits_for_a_server_that_is_not_there_yet() {
    let server = Server::start();
    let db = server.database().with_functions();
    spread(&db, 10, 0.1);
    server.down("fast");
    let node = db.spawn("a", &[]);
    node.wait_for_log("No such file or directory");
    node.wait_for_log("again in 200ms");
    server.up();
    all_done_once(&db);
}

#[test]
fn a_node_that_ends_gives_its_jobs_back_at_once() {
    let db = shared();
    db.execute("UPDATE hwheel.settings SET lease_length = '1 hour'");
    let (mut a, _b) = (db.node("a"), db.node("b"));
    db.execute("SELECT hwheel.schedule('c', now(), command => 'sleep 0.7')");
    db.wait("SELECT state = 'running' FROM hwheel.job");
    spread(&db, 200, 2.0);
    sleep(Duration::from_millis(300));
    assert!(a.end());
    all_done_once(&db);
    assert_eq!(
        db.value::<i64>("SELECT runs FROM hwheel.job WHERE key = 'c'"),
        1
    );
    let late: f64 = db.value("SELECT max(extract(epoch FROM at - due))::float8 FROM run");
    assert!(late < 3.0, "late by {late} s");
}

/// A server whose clock is set while nodes run. The real server, with Debian's library
/// that tells a program another time.
#[test]
fn the_clock_of_the_database_decides_and_may_step() {
    let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    if !Path::new(library).exists() {
        eprintln!("SKIPPED: no {library}; on Debian: apt-get install libfaketime");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("time");
    let set = |offset: &str| {
        let new = dir.path().join("new");
        std::fs::write(&new, offset).unwrap();
        std::fs::rename(&new, &file).unwrap();
    };
    set("+90s");
    Command::new("chmod")
        .args(["-R", "a+rX"])
        .arg(dir.path())
        .status()
        .unwrap();
    let server = Server::start_with(
        &[],
        &[
            ("LD_PRELOAD", library),
            ("FAKETIME_TIMESTAMP_FILE", file.to_str().unwrap()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ],
    );
    let db = server.database().with_functions();
    let offset: f64 = db.value("SELECT extract(epoch FROM clock_timestamp())::float8");
    let here = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    assert!(
        (offset - here.as_secs_f64() - 90.0).abs() < 1.0,
        "the clock is not 90 s ahead"
    );

    let node = db.node("a");
    let latest =
        || -> f64 { db.value("SELECT max(extract(epoch FROM at - due))::float8 FROM run") };
    spread(&db, 50, 1.5);
    all_done_once(&db);
    assert!(latest() < 1.0, "late by {}", latest());
    db.wait("SELECT abs(extract(epoch FROM clock_offset) - 90) < 1 FROM hwheel.node");

    // Back by two seconds: what was due soon is due later, and is not fired early.
    db.execute("TRUNCATE run; DELETE FROM hwheel.job");
    db.execute("SELECT hwheel.schedule('k', now() + interval '1500 ms', sql => 'note')");
    db.wait("SELECT state = 'claimed' FROM hwheel.job");
    set("+88s");
    all_done_once(&db);
    assert!(latest() < 1.0, "late by {}", latest());

    // Forward by an hour: what became due fires at the next turn.
    db.execute("TRUNCATE run; DELETE FROM hwheel.job");
    db.execute("SELECT hwheel.schedule('k', now() + interval '30 min', sql => 'note')");
    set("+3690s");
    all_done_once(&db);
    node.wait_for_log("ahead of this one's");
}

/// The tables lie on a file system of 16 MB, which is filled.
#[test]
fn a_full_disk_costs_no_attempt_and_no_job() {
    // SAFETY: it only returns a number.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("SKIPPED: only root can mount a small file system");
        return;
    }
    let server = Server::start();
    let small = Mount::new(&server.dir().join("small"), "16m");
    let db = server.database().with_functions();
    db.execute(&format!(
        "CREATE TABLESPACE small LOCATION '{}'",
        small.0.display()
    ));
    db.execute("CREATE TABLE effect (text text) TABLESPACE small;
        CREATE FUNCTION fill(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql AS
        'INSERT INTO run VALUES (key, due, payload); INSERT INTO effect SELECT repeat(md5(i::text), 200) FROM generate_series(1, 200) i;
         ALTER TABLE effect ALTER text SET STORAGE PLAIN'");
    std::fs::write(small.0.join("filler"), vec![0; 15 << 20]).expect("a filler");
    let node = db.node("a");
    db.execute(
        "SELECT hwheel.schedule('f' || i, now(), sql => 'fill') FROM generate_series(1, 5) i",
    );
    db.execute("SELECT hwheel.schedule('n', now(), sql => 'note')");
    node.wait_for_log("No space left on device");
    db.wait("SELECT state = 'done' FROM hwheel.job WHERE key = 'n'");
    assert!(db.value::<bool>("SELECT bool_and(attempts = 0) FROM hwheel.job"));
    std::fs::remove_file(small.0.join("filler")).unwrap();
    all_done_once(&db);
}

struct Mount(std::path::PathBuf);

impl Mount {
    fn new(path: &Path, size: &str) -> Mount {
        std::fs::create_dir(path).unwrap();
        let options = format!("size={size},mode=0777");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(path)
            .status();
        assert!(status.expect("mount").success());
        let own = path.join("own");
        std::fs::create_dir(&own).unwrap();
        Command::new("chown")
            .arg("postgres")
            .arg(&own)
            .status()
            .unwrap();
        Mount(own)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.0.parent().unwrap())
            .status();
    }
}
