//! Clocks that differ and clocks that are set. The real server and real nodes, with
//! Debian's library that tells a program another time.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;
use support::{database, skip, Server};
use tempfile::TempDir;

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// The REALTIME clock of some programs: this machine's and an offset.
struct Clock(TempDir);

impl Clock {
    /// None, and a line that says so, without the library.
    fn new(offset: &str) -> Option<Clock> {
        if !Path::new(LIBRARY).exists() {
            skip(&format!(
                "no {LIBRARY}; on Debian: apt-get install libfaketime"
            ));
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let clock = Clock(dir);
        clock.set(offset);
        Some(clock)
    }

    fn set(&self, offset: &str) {
        let new = self.0.path().join("new");
        fs::write(&new, offset).unwrap();
        fs::rename(&new, self.file()).unwrap();
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("time")
    }

    /// Runs a function with the variables for the programs.
    fn env<T>(&self, run: impl FnOnce(&[(&str, &str)]) -> T) -> T {
        run(&[
            ("LD_PRELOAD", LIBRARY),
            ("FAKETIME_TIMESTAMP_FILE", self.file().to_str().unwrap()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ])
    }
}

#[test]
fn the_clock_of_the_database_decides_and_may_step() {
    let Some(clock) = Clock::new("+90s") else {
        return;
    };
    let server = clock.env(|env| Server::start_with(&[], env));
    let db = server.database().with_functions();
    let there: f64 = db.value("SELECT extract(epoch FROM clock_timestamp())::float8");
    let here = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let ahead = there - here.unwrap().as_secs_f64();
    assert!((ahead - 90.0).abs() < 1.0, "{ahead} s ahead, not 90");

    let node = db.node("a");
    db.all_claim();
    db.spread(50, 1.5);
    db.all_done_once();
    db.none_later_than(1.0);
    db.wait("SELECT abs(extract(epoch FROM clock_offset) - 90) < 1 FROM hwheel.node");

    // Back by two seconds: what was due soon is due later, and is not fired early.
    db.execute("TRUNCATE run; DELETE FROM hwheel.history; DELETE FROM hwheel.job");
    db.execute("SELECT hwheel.schedule('k', now() + interval '1500 ms', sql => 'note')");
    db.wait("SELECT state = 'claimed' FROM hwheel.all_jobs");
    clock.set("+88s");
    db.all_done_once();
    db.none_later_than(1.0);

    // Forward by an hour: what became due fires at the next turn.
    db.execute("TRUNCATE run; DELETE FROM hwheel.history; DELETE FROM hwheel.job");
    db.execute("SELECT hwheel.schedule('k', now() + interval '30 min', sql => 'note')");
    clock.set("+3690s");
    db.all_done_once();
    node.wait_for_log("ahead of this one's");
}

#[test]
fn the_clock_of_a_node_may_be_wrong_and_may_step() {
    let Some(clock) = Clock::new("-1h") else {
        return;
    };
    let db = database();
    let _node = clock.env(|env| db.spawn_in("a", &[], env));
    let is_behind = |seconds: i32| {
        db.wait(&format!(
            "SELECT count(*) = 1 FROM hwheel.node WHERE abs(extract(epoch FROM clock_offset) - {seconds}) < 1"
        ));
    };
    is_behind(3600);
    // Forward, back by a day, forward. A node's clock stays behind the true one here: the
    // library would turn a timerfd's "at once" into a time before 1970, an error.
    for (offset, seconds) in [("-30m", 1800), ("-1d", 86400), ("-1m", 60)] {
        db.execute("TRUNCATE run; DELETE FROM hwheel.history; DELETE FROM hwheel.job");
        db.spread(100, 3.0);
        db.wait("SELECT count(*) > 10 FROM hwheel.all_jobs WHERE state = 'claimed'");
        clock.set(offset);
        db.all_done_once();
        // The node measures at its next turn, which is within half a second.
        db.none_later_than(1.5);
        is_behind(seconds);
    }
    // It kept its lease all the time.
    assert_eq!(db.number("SELECT count(*) FROM hwheel.node"), 1);
}

/// README.md has a statement for jobs that ran or failed while the clock was ahead: it makes them due.
#[test]
fn what_ran_while_the_clock_was_ahead_is_found_by_its_last_start() {
    let Some(clock) = Clock::new("+0s") else {
        return;
    };
    let server = clock.env(|env| Server::start_with(&[], env));
    let db = server.database().with_functions();
    let _node = db.node("a");
    db.execute(
        "SELECT hwheel.schedule('every', every => '1 s', sql => 'note'),
            hwheel.schedule('failed', now() + interval '1 h', sql => 'fail', backoff => '1 s'),
            hwheel.schedule('later', now() + interval '3 days', sql => 'note')",
    );
    db.wait("SELECT runs > 1 FROM hwheel.job WHERE key = 'every'");
    clock.set("+1d");
    db.wait("SELECT attempts > 0 FROM hwheel.job WHERE key = 'failed'");
    db.wait("SELECT due > now() - interval '5 s' FROM hwheel.job WHERE key = 'every'");
    clock.set("+0s");
    let is_away = "SELECT count(*) = 2 FROM hwheel.job
        WHERE key <> 'later' AND due BETWEEN now() + interval '23 h' AND now() + interval '25 h'";
    db.wait(is_away);
    db.execute("SELECT hwheel.move(key, now()) FROM hwheel.job WHERE fired_at > now()");
    let runs = db.number("SELECT runs FROM hwheel.job WHERE key = 'every'");
    db.wait(&format!(
        "SELECT runs > {runs} + 2 FROM hwheel.job WHERE key = 'every'"
    ));
    db.wait("SELECT fired_at < now() FROM hwheel.job WHERE key = 'failed'");
    assert!(db.is("SELECT due > now() + interval '2 days' FROM hwheel.job WHERE key = 'later'"));
}
