//! Jobs that somebody cancels while their run is under way.

mod support;

use std::io::Read as _;
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};
use support::{database, Database};

/// Cancels a job whose run is under way, and waits until it is gone.
fn stop(db: &Database, key: &str) -> Duration {
    let begin = Instant::now();
    assert_eq!(
        db.text(&format!("SELECT hwheel.cancel('{key}')")),
        "stopping"
    );
    db.wait(&format!(
        "SELECT NOT EXISTS (SELECT FROM hwheel.job WHERE key = '{key}')"
    ));
    begin.elapsed()
}

fn running(db: &Database, key: &str) {
    db.wait(&format!(
        "SELECT EXISTS (SELECT FROM hwheel.job WHERE key = '{key}' AND state = 'running')"
    ));
    // The shell has set its traps.
    thread::sleep(Duration::from_millis(300));
}

#[test]
fn a_command_gets_a_signal_and_then_a_kill() {
    let db = database();
    let node = db.node("one");
    let file = std::env::temp_dir().join(format!("hwheel-cancel-{}", std::process::id()));
    let path = file.display();
    for (key, command, is_killed) in [
        (
            "soft",
            format!("trap 'echo bye > {path}; exit 3' TERM; sleep 133 & wait"),
            false,
        ),
        (
            "hard",
            format!(
                "trap '' TERM; (trap '' TERM; sleep 130; echo late > {path}) & sleep 131; sleep 132"
            ),
            true,
        ),
    ] {
        let _ = std::fs::remove_file(&file);
        db.execute(&format!(
            "SELECT hwheel.schedule('{key}', now(), every => '1 h', command => $c${command}$c$)"
        ));
        running(&db, key);
        let took = stop(&db, key);
        assert_eq!(file.exists(), !is_killed, "{key}");
        let expected = if is_killed { 5..8 } else { 0..3 };
        assert!(expected.contains(&took.as_secs()), "{key}: {took:?}");
    }
    let _ = std::fs::remove_file(&file);
    // Nothing of a group lives on.
    for seconds in [130, 131, 132, 133] {
        let found = std::process::Command::new("pgrep")
            .args(["-fx", &format!("sleep {seconds}")])
            .output();
        let found = found.expect("pgrep");
        assert_eq!(
            String::from_utf8_lossy(&found.stdout),
            "",
            "sleep {seconds}"
        );
    }
    let log = node.log();
    assert!(
        log.contains("\"soft\" is cancelled: exit status 3"),
        "{log}"
    );
    assert!(
        log.contains("\"hard\" is cancelled: killed 5s after its job was cancelled"),
        "{log}"
    );
    assert_eq!(db.number("SELECT count(*) FROM hwheel.history"), 0);
    db.wait("SELECT count(*) = 0 FROM hwheel.stop");
}

#[test]
fn a_job_that_is_scheduled_meanwhile_begins_when_the_run_has_ended() {
    let db = database();
    let _node = db.node("one");
    let file = std::env::temp_dir().join(format!("hwheel-meanwhile-{}", std::process::id()));
    let path = file.display();
    db.execute(&format!(
        "SELECT hwheel.schedule('a', now(), command => $c$mkdir {path} || exit 1; trap 'sleep 1; rmdir {path}; exit 1' TERM; sleep 100 & wait$c$)"
    ));
    running(&db, "a");
    assert_eq!(db.text("SELECT hwheel.cancel('a')"), "stopping");
    // It fails if the directory of the first run is there.
    db.execute(&format!("SELECT hwheel.schedule('a', now(), command => 'mkdir {path} && rmdir {path}', max_attempts => 1, if_exists => 'keep')"));
    db.wait(
        "SELECT EXISTS (SELECT FROM hwheel.all_jobs WHERE key = 'a' AND state IN ('done', 'dead'))",
    );
    assert!(db.is("SELECT state = 'done' AND attempts = 0 FROM hwheel.all_jobs WHERE key = 'a'"));
}

#[test]
fn the_connection_of_a_request_is_closed() {
    let db = database();
    let node = db.node("one");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // It reads the request, and then waits for the end of the connection.
    let (is_connected, connected) = channel();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        is_connected.send(()).unwrap();
        let mut bytes = Vec::new();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.read_to_end(&mut bytes).map(|_| bytes.len())
    });
    db.execute(&format!(
        "SELECT hwheel.schedule('a', now(), http => 'http://127.0.0.1:{port}/')"
    ));
    running(&db, "a");
    // A run that is stopped before makes no connection.
    connected.recv_timeout(Duration::from_secs(20)).unwrap();
    let took = stop(&db, "a");
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert!(server.join().unwrap().expect("the end of the connection") > 0);
    let log = node.log();
    assert!(
        log.contains("the connection was closed: somebody has cancelled the job"),
        "{log}"
    );
}

#[test]
fn the_server_cancels_a_function_and_rolls_it_back() {
    let db = database();
    db.execute(
        "CREATE FUNCTION slow(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql AS
        'SELECT note(key, due, payload), pg_sleep(60)';
        CREATE FUNCTION stubborn(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            PERFORM pg_sleep(60); EXCEPTION WHEN query_canceled THEN PERFORM note(key, due, payload); END $$",
    );
    let node = db.node_with("one", &["--connections", "1"]);
    for key in ["slow", "stubborn"] {
        // It runs alone from the start, and holds its row.
        db.execute(&format!("SELECT hwheel.schedule('{key}', now(), every => '1 h', sql => '{key}', timeout => '2 min', alone => true)"));
        db.wait("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()");
        // Others go on meanwhile, before and after.
        let took = stop(&db, key);
        assert!(took < Duration::from_secs(4), "{key}: {took:?}");
        db.execute(&format!(
            "SELECT hwheel.schedule('after-{key}', now(), sql => 'note')"
        ));
        db.wait(&format!(
            "SELECT count(*) = 1 FROM run WHERE key = 'after-{key}'"
        ));
    }
    // A cancelled job leaves no row. A run that ended well nevertheless counts, and none follows it.
    assert_eq!(db.number("SELECT count(*) FROM run WHERE key = 'slow'"), 0);
    assert_eq!(
        db.number("SELECT count(*) FROM run WHERE key = 'stubborn'"),
        1
    );
    assert!(db.is("SELECT count(*) = 3 AND bool_and(attempts = 0) FROM hwheel.history"));
    let log = node.log();
    assert!(
        log.contains("\"slow\" is cancelled: canceling statement due to user request (57014)"),
        "{log}"
    );
}

/// What a node runs that is lost is cancelled with it.
#[test]
fn a_run_that_is_lost_with_its_node_does_not_come_back() {
    let db = database();
    let mut first = db.node("one");
    db.execute(
        "SELECT hwheel.schedule('a', now(), command => 'sleep 100');
        SELECT hwheel.schedule('b', now(), command => 'sleep 100')",
    );
    db.wait("SELECT count(*) = 2 FROM hwheel.job WHERE state = 'running'");
    first.signal(libc::SIGSTOP);
    assert_eq!(db.text("SELECT hwheel.cancel('a')"), "stopping");
    first.kill();
    let _second = db.node("two");
    db.wait("SELECT count(*) = 1 AND bool_and(key = 'b' AND state = 'running' AND attempts = 1) FROM hwheel.job");
    db.wait("SELECT count(*) = 0 FROM hwheel.stop");
    assert_eq!(db.number("SELECT count(*) FROM hwheel.history"), 0);
    stop(&db, "b");
}
