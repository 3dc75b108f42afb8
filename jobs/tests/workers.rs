//! The workers to import, one for each language. tests/workers has a program for each that does
//! the same: its functions have effects, wait, throw and hang.

mod support;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::{database, skip, Database, Node, Pooler, Server};

struct Language {
    name: &'static str,
    command: Vec<PathBuf>,
    /// The queues whose jobs insert into `sent`, and those whose jobs wait.
    sends: &'static [&'static str],
    slow: &'static [&'static str],
    deaf: &'static [&'static str],
    odd: &'static [&'static str],
}

/// `make jobs-workers` builds the programs.
fn languages() -> Vec<Language> {
    let tools = PathBuf::from(std::env::var_os("HWHEEL_WORKERS").unwrap_or_default());
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workers");
    let usual = |name, command| Language {
        name,
        command,
        sends: &["mail"],
        slow: &["slow"],
        deaf: &["deaf"],
        odd: &["odd"],
    };
    let python = Language {
        sends: &["mail", "send-async"],
        slow: &["slow", "slow-async"],
        deaf: &["deaf", "deaf-async"],
        odd: &["odd", "odd-async"],
        ..usual(
            "python",
            vec![tools.join("venv/bin/python"), here.join("program.py")],
        )
    };
    let all = vec![
        python,
        usual("node", vec!["node".into(), tools.join("program.mjs")]),
        usual("go", vec![tools.join("program-go")]),
        usual("rust", vec![tools.join("program-rust")]),
    ];
    let is_there = |language: &Language| {
        let last = language
            .command
            .iter()
            .find(|part| part.starts_with(&tools));
        let is_there = last.is_some_and(|part| part.exists());
        if !is_there {
            let name = language.name;
            skip(&format!(
                "the worker in {name}: make jobs-workers has not built it"
            ));
        }
        is_there
    };
    all.into_iter().filter(is_there).collect()
}

/// A value of the connection string, by a name such as `host=`.
fn word_of<'d>(db: &'d Database, name: &str) -> &'d str {
    let at = db.url.split(' ').find_map(|word| word.strip_prefix(name));
    at.expect("it is there")
}

impl Language {
    fn command(&self, db: &Database, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).args(arguments);
        // pg for Node knows no other way to name a database in one word.
        let word = |name| word_of(db, name);
        let url = match self.name {
            "node" => format!(
                "postgres://{}@/{}?host={}&port={}",
                word("user="),
                word("dbname="),
                word("host="),
                word("port=")
            ),
            _ => db.url.clone(),
        };
        command.env("DATABASE_URL", url).env("LEASE", "30");
        command
    }

    fn start(&self, db: &Database, env: &[(&str, &str)]) -> Node {
        let mut command = self.command(db, &["mail"]);
        Node::start(command.envs(env.iter().copied()), self.name)
    }

    fn output(&self, db: &Database, what: &str) -> String {
        let output = self.command(db, &["mail", what]).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}: {output:?}", self.name);
        text
    }
}

/// A database for each language, with a node.
fn for_each(scenario: impl Fn(&Language, &Database)) {
    for language in languages() {
        let db = database();
        db.execute("CREATE TABLE sent (key text)");
        let _node = db.node("one");
        scenario(&language, &db);
    }
}

fn schedule(db: &Database, key: &str, queue: &str, options: &str) {
    db.execute(&format!(
        "SELECT hwheel.schedule('{key}', now(), queue => '{queue}'{options})"
    ));
}

/// Waits until all jobs have ended, and checks that each of `sent` has its one effect.
fn all_sent_once(db: &Database, count: i64) {
    db.wait(&format!(
        "SELECT count(*) >= {count} FROM hwheel.history WHERE key LIKE 's-%'"
    ));
    let row = &db.rows("SELECT count(*), count(DISTINCT key) FROM sent")[0];
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (count, count));
}

fn count(text: &str, what: &str) -> usize {
    text.lines().filter(|line| line.starts_with(what)).count()
}

#[test]
fn each_job_has_one_effect_though_workers_are_killed() {
    for_each(|language, db| {
        for queue in language.sends {
            db.execute(&format!(
                "SELECT hwheel.schedule('s-{queue}-' || i, now() + i * interval '30 ms', queue => '{queue}', backoff => '50 ms')
                FROM generate_series(1, 100) i"
            ));
        }
        for queue in language.slow {
            schedule(
                db,
                &format!("slow-{queue}"),
                queue,
                ", payload => '60', backoff => '50 ms'",
            );
        }
        schedule(
            db,
            "bad",
            "mail",
            ", payload => '\"fail\"', max_attempts => 4, backoff => '50 ms'",
        );
        let start = || language.start(db, &[("LEASE", "1")]);
        let mut first = start();
        let mut second = start();
        db.wait("SELECT count(*) > 30 FROM sent");
        let begun = |queue| {
            let what = format!("begin slow-{queue} ");
            count(&first.log(), &what) + count(&second.log(), &what)
        };
        while !language.slow.iter().all(|queue| begun(queue) > 0) {
            sleep(Duration::from_millis(50));
        }
        // Before a kill, which would be one of its attempts.
        db.wait("SELECT state = 'dead' AND attempts = 4 AND last_error LIKE '%it does not work' FROM hwheel.job WHERE key = 'bad'");
        first.kill();
        let mut third = start();
        sleep(Duration::from_millis(500));
        third.kill();
        let fourth = start();
        all_sent_once(db, 100 * language.sends.len() as i64);
        second.kill();
        for queue in language.slow {
            fourth.wait_for_log(&format!("begin slow-{queue}"));
        }
    });
}

#[test]
fn a_worker_outlives_its_server_and_forgets_no_outcome() {
    for language in languages() {
        let server = Server::start();
        let db = server.database();
        db.execute("CREATE TABLE sent (key text)");
        let _node = db.node("one");
        let mut worker = language.start(&db, &[]);
        for queue in language.slow {
            schedule(&db, queue, queue, ", payload => '2'");
            worker.wait_for_log(&format!("begin {queue} 1"));
        }
        for mode in ["immediate", "fast", "immediate"] {
            server.down(mode);
            sleep(Duration::from_secs(1));
            server.up();
        }
        db.wait(&format!(
            "SELECT count(*) = {} FROM hwheel.history WHERE attempts = 0 AND queue LIKE 'slow%'",
            language.slow.len()
        ));
        for queue in language.sends {
            schedule(&db, &format!("s-{queue}"), queue, "");
        }
        all_sent_once(&db, language.sends.len() as i64);
        assert_eq!(count(&worker.log(), "begin"), language.slow.len());
        assert!(worker.end(), "{}", worker.log());
    }
}

#[test]
fn connections_that_are_killed_lose_no_job_and_double_no_effect() {
    for_each(|language, db| {
        let mut worker = language.start(db, &[("LEASE", "1")]);
        schedule(db, "s-killed", "killed", ", backoff => '10 ms'");
        for queue in language.sends {
            db.execute(&format!(
                "SELECT hwheel.schedule('s-{queue}-' || i, now() + i * interval '10 ms', queue => '{queue}', backoff => '10 ms', max_attempts => 100)
                FROM generate_series(1, 300) i"
            ));
        }
        db.wait("SELECT EXISTS (SELECT FROM sent)");
        // Its second attempt is not to be hit, too.
        db.wait("SELECT EXISTS (SELECT FROM hwheel.history WHERE key = 's-killed')");
        let mut client = db.client();
        for _ in 0..30 {
            let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE application_name = 'hwheel-worker' AND datname = current_database() AND random() < 0.3";
            client.query(kill, &[]).expect(kill);
            sleep(Duration::from_millis(100));
        }
        all_sent_once(db, 300 * language.sends.len() as i64 + 1);
        assert!(db.is("SELECT attempts = 1 FROM hwheel.history WHERE key = 's-killed'"));
        assert!(worker.end(), "{}", worker.log());
    });
}

#[test]
fn a_function_learns_that_its_job_is_cancelled() {
    for_each(|language, db| {
        let worker = language.start(db, &[]);
        for queue in language.slow {
            schedule(db, queue, queue, ", payload => '60', every => '1 h'");
            worker.wait_for_log(&format!("begin {queue} 1"));
            let begin = Instant::now();
            assert_eq!(
                db.text(&format!("SELECT hwheel.cancel('{queue}')")),
                "stopping"
            );
            worker.wait_for_log(&format!("stop {queue} 1 the job is cancelled"));
            // Long before the next extension.
            assert!(
                begin.elapsed() < Duration::from_secs(5),
                "{:?}",
                begin.elapsed()
            );
            db.wait("SELECT NOT EXISTS (SELECT FROM hwheel.job)");
        }
    });
}

#[test]
fn a_function_learns_that_its_lease_is_lost_and_may_not_end_its_job() {
    for_each(|language, db| {
        let worker = language.start(db, &[("LEASE", "3")]);
        for queue in language.slow {
            schedule(db, queue, queue, ", payload => '60', max_attempts => 1");
            worker.wait_for_log(&format!("begin {queue} 1"));
            db.execute("SELECT hwheel.fail(id, fence, 'taken away') FROM hwheel.job WHERE state = 'running'");
            worker.wait_for_log(&format!("stop {queue} 1 the lease has ended"));
            db.wait(
                "SELECT bool_and(state = 'dead' AND last_error = 'taken away') FROM hwheel.job",
            );
        }
    });
}

#[test]
fn a_process_that_was_frozen_learns_that_its_lease_has_ended() {
    for_each(|language, db| {
        let mut worker = language.start(db, &[("LEASE", "1")]);
        for queue in language.slow {
            schedule(db, queue, queue, ", payload => '60', max_attempts => 1");
            worker.wait_for_log(&format!("begin {queue} 1"));
        }
        worker.signal(libc::SIGSTOP);
        db.wait(
            "SELECT bool_and(state = 'dead' AND last_error = 'the lease ran out') FROM hwheel.job",
        );
        worker.signal(libc::SIGCONT);
        for queue in language.slow {
            worker.wait_for_log(&format!("stop {queue} 1 the lease has ended"));
        }
        // It goes on, and what it says of the old runs changes nothing.
        for queue in language.sends {
            schedule(db, &format!("s-{queue}"), queue, "");
        }
        all_sent_once(db, language.sends.len() as i64);
        assert!(worker.end(), "{}", worker.log());
        assert!(db.is(&format!(
            "SELECT count(*) = {} AND bool_and(state = 'dead' AND last_error = 'the lease ran out') FROM hwheel.job",
            language.slow.len()
        )));
    });
}

#[test]
fn a_lease_lasts_as_long_as_its_function_and_up_to_the_timeout() {
    for_each(|language, db| {
        let worker = language.start(db, &[("LEASE", "0.6")]);
        for queue in language.slow {
            schedule(db, &format!("long-{queue}"), queue, ", payload => '3'");
            schedule(
                db,
                &format!("{queue}-late"),
                queue,
                ", payload => '60', timeout => '2 s', max_attempts => 1",
            );
        }
        for queue in language.slow {
            worker.wait_for_log(&format!(
                "stop {queue}-late 1 the run took longer than the timeout of the job"
            ));
            db.wait(&format!(
                "SELECT state = 'dead' AND last_error LIKE 'the run took longer than the timeout%' FROM hwheel.job WHERE key = '{queue}-late'"
            ));
            db.wait(&format!(
                "SELECT EXISTS (SELECT FROM hwheel.history WHERE key = 'long-{queue}' AND attempts = 0)"
            ));
            assert!(db.is(&format!(
                "SELECT finished_at - fired_at < '5 s' FROM hwheel.history WHERE key = 'long-{queue}'"
            )));
        }
    });
}

/// A take is under way when the worker is asked to end.
#[test]
fn what_is_taken_while_a_worker_ends_comes_back() {
    for_each(|language, db| {
        db.execute(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN PERFORM pg_sleep(1); RETURN NULL; END';
            CREATE TRIGGER slow AFTER UPDATE ON hwheel.job FOR EACH ROW
                WHEN (NEW.state = 'running') EXECUTE FUNCTION slow()",
        );
        let mut worker = language.start(db, &[("GRACE", "0")]);
        let queue = language.slow[0];
        db.execute(&format!(
            "SELECT hwheel.schedule('k', now(), payload => '60', queue => '{queue}')"
        ));
        db.wait(
            "SELECT EXISTS (SELECT FROM pg_stat_activity
                WHERE wait_event = 'PgSleep' AND datname = current_database())",
        );
        let begin = Instant::now();
        assert!(worker.end(), "{}", worker.log());
        assert!(begin.elapsed() < Duration::from_secs(5), "{}", worker.log());
        assert!(db.is("SELECT state = 'waiting' AND attempts = 0 FROM hwheel.job"));
    });
}

#[test]
fn sigterm_lets_functions_end_and_gives_back_what_does_not() {
    for_each(|language, db| {
        // Five at once, and no more.
        for queue in language.slow {
            db.execute(&format!(
                "SELECT hwheel.schedule('{queue}-' || i, now(), payload => '2', queue => '{queue}') FROM generate_series(1, 7) i"
            ));
        }
        let running = 5 * language.slow.len();
        let is_running =
            format!("SELECT count(*) = {running} FROM hwheel.job WHERE state = 'running'");
        let mut worker = language.start(db, &[]);
        db.wait(&is_running);
        sleep(Duration::from_millis(300));
        assert!(db.is(&is_running));
        assert!(worker.end(), "{}", worker.log());
        assert_eq!(count(&worker.log(), "end"), running, "{}", worker.log());
        assert_eq!(
            db.number("SELECT count(*) FROM hwheel.history"),
            running as i64
        );

        let mut worker = language.start(db, &[("GRACE", "0")]);
        db.execute("UPDATE hwheel.job SET payload = '60'");
        let left = 2 * language.slow.len();
        let end = Instant::now() + Duration::from_secs(20);
        while count(&worker.log(), "begin") < left {
            assert!(Instant::now() < end, "{}", worker.log());
            sleep(Duration::from_millis(50));
        }
        assert!(worker.end(), "{}", worker.log());
        assert_eq!(
            worker.log().matches("the worker ends").count(),
            left,
            "{}",
            worker.log()
        );
        // No attempt is counted.
        assert!(db.is("SELECT bool_and(state = 'waiting' AND attempts = 0) FROM hwheel.job"));

        // A function that never returns keeps no process, and its job comes back.
        db.execute("TRUNCATE hwheel.job");
        let mut worker = language.start(db, &[("GRACE", "0"), ("LEASE", "2")]);
        for queue in language.deaf {
            schedule(db, queue, queue, "");
            worker.wait_for_log(&format!("begin {queue} 1"));
        }
        worker.signal(libc::SIGTERM);
        worker.ends();
        db.wait("SELECT bool_and(state = 'waiting' AND last_error = 'the lease ran out') FROM hwheel.job");
    });
}

#[test]
fn whatever_a_function_throws_is_a_failure() {
    for_each(|language, db| {
        let mut worker = language.start(db, &[]);
        let kinds: i64 = language.output(db, "odd").trim().parse().expect("a number");
        assert!(kinds > 3);
        for queue in language.odd {
            db.execute(&format!(
                "SELECT hwheel.schedule('{queue}-' || i, now(), queue => '{queue}', payload => to_jsonb(i), max_attempts => 1)
                FROM generate_series(0, {kinds}) i"
            ));
        }
        let all = (kinds + 1) * language.odd.len() as i64;
        db.wait(&format!(
            "SELECT count(*) = {all} FROM hwheel.job WHERE state = 'dead' AND last_error <> ''"
        ));
        schedule(db, "s-after", "mail", "");
        all_sent_once(db, 1);
        assert!(worker.end(), "{}", worker.log());
    });
}

#[test]
fn a_job_that_snoozes_uses_no_attempt() {
    for_each(|language, db| {
        let dir = tempfile::tempdir().expect("a directory");
        let worker = language.start(db, &[]);
        let payload = format!(
            ", max_attempts => 1, payload => '\"{}\"'",
            dir.path().join("it").display()
        );
        schedule(db, "sleepy", "snooze", &payload);
        db.wait("SELECT EXISTS (SELECT FROM hwheel.history WHERE key = 'sleepy' AND attempts = 0)");
        assert_eq!(
            count(&worker.log(), "begin sleepy 1"),
            2,
            "{}",
            worker.log()
        );
    });
}

#[test]
fn a_drain_runs_what_is_due_and_needs_no_node() {
    for language in languages() {
        let db = database();
        db.execute("CREATE TABLE sent (key text)");
        for queue in language.sends {
            schedule(&db, &format!("s-{queue}"), queue, "");
        }
        schedule(&db, "bad", "mail", ", payload => '\"fail\"'");
        db.execute("SELECT hwheel.schedule('later', now() + interval '1 h', queue => 'mail')");
        let said = language.output(&db, "drain");
        for queue in language.sends {
            assert!(said.contains(&format!("s-{queue} 1 done sent")), "{said}");
        }
        assert!(
            said.contains("bad 1 retry ") && !said.contains("later"),
            "{said}"
        );
        all_sent_once(&db, language.sends.len() as i64);
    }
}

#[test]
fn a_quiet_worker_finishes_what_runs_and_takes_nothing() {
    for_each(|language, db| {
        let mut worker = language.start(db, &[]);
        schedule(db, "long", "slow", ", payload => '1.5'");
        worker.wait_for_log("begin long 1");
        schedule(db, "hush", "plain", ", payload => '\"quiet\"'");
        worker.wait_for_log("begin hush 1");
        // A call that has begun before may still take jobs.
        sleep(Duration::from_millis(200));
        schedule(db, "left", "mail", "");
        worker.wait_for_log("end long 1");
        db.wait("SELECT count(*) = 2 FROM hwheel.history");
        sleep(Duration::from_millis(500));
        assert!(db.is("SELECT state = 'waiting' FROM hwheel.job"));
        assert!(worker.end(), "{}", worker.log());
    });
}

/// A machine that is frozen accepts connections, and nobody answers.
#[test]
fn a_host_that_never_answers_is_left_for_the_next() {
    for_each(|language, db| {
        // pg for Node knows one host.
        if language.name == "node" {
            return;
        }
        let frozen = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = frozen.local_addr().unwrap().port();
        let both = db
            .url
            .replace("host=", "host=127.0.0.1,")
            .replace("port=", &format!("port={port},"));
        let usual = Database {
            server: db.server,
            url: both.clone(),
        };
        let both = Database {
            server: db.server,
            url: format!("{both} connect_timeout=2"),
        };
        schedule(db, "s-1", "mail", "");
        let mut worker = language.start(&both, &[]);
        all_sent_once(db, 1);
        assert!(worker.end(), "{}", worker.log());
        // Without a limit of the user the worker has one.
        schedule(db, "p-1", "plain", "");
        let worker = language.start(&usual, &[]);
        worker.wait_for_log("begin p-1");
    });
}

/// The first address of a name is that of a machine that is frozen.
#[test]
fn an_address_that_never_answers_is_left_for_the_next() {
    let frozen = TcpListener::bind("127.0.0.1:0").unwrap();
    frozen.set_nonblocking(true).unwrap();
    let port = frozen.local_addr().unwrap().port();
    let settings = [
        format!("port = {port}"),
        "listen_addresses = '127.0.0.2'".into(),
    ];
    let server = Server::start_with(&settings.each_ref().map(String::as_str), &[]);
    std::fs::write(
        server.dir().join("data/pg_hba.conf"),
        "local all all trust\nhost all all all trust\n",
    )
    .expect("a file");
    server
        .client()
        .execute("SELECT pg_reload_conf()", &[])
        .unwrap();
    let dir = tempfile::tempdir().expect("a directory");
    let hosts = dir.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 two-addresses\n127.0.0.2 two-addresses\n").expect("a file");
    let alone = |command: &str| {
        let mut alone = Command::new("unshare");
        let mount = format!("mount --bind {} /etc/hosts && {command}", hosts.display());
        alone.args(["-m", "sh", "-c", &mount, "sh"]);
        alone
    };
    if !alone("true").status().is_ok_and(|status| status.success()) {
        return skip("no name with two addresses: unshare -m needs root");
    }
    for language in languages() {
        // pg for Node goes on to the next address only if the first refuses the connection.
        if language.name == "node" {
            continue;
        }
        let db = server.database();
        db.execute("CREATE TABLE sent (key text)");
        let name = db.text("SELECT current_database()::text");
        let by_name = Database {
            server: &server,
            url: format!(
                "host=two-addresses port={port} user=postgres dbname={name} connect_timeout=2"
            ),
        };
        schedule(&db, "s-1", "mail", "");
        let command = language.command(&by_name, &["mail"]);
        let mut both = alone("exec \"$@\"");
        both.arg(command.get_program()).args(command.get_args());
        both.envs(
            command
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let worker = Node::start(&mut both, language.name);
        all_sent_once(&db, 1);
        assert!(
            frozen.accept().is_ok(),
            "{}: {}",
            language.name,
            worker.log()
        );
        while frozen.accept().is_ok() {}
    }
}

#[test]
fn a_worker_that_cannot_work_says_so_and_ends() {
    for language in languages() {
        let db = database();
        let name = "CREATE ROLE stranger_to_hwheel LOGIN";
        let _ = db.client().batch_execute(name); // Another language may have made it.
        let strangers = |url: &str| url.replace("user=postgres", "user=stranger_to_hwheel");
        for (url, why) in [
            (db.url.replace("dbname=", "dbname=no_"), "does not exist"),
            (strangers(&db.url), "permission denied"),
        ] {
            let db = Database {
                server: db.server,
                url,
            };
            let mut command = language.command(&db, &["mail"]);
            let mut worker = Node::start(&mut command, language.name);
            assert!(!worker.ends());
            assert!(worker.log().contains(why), "{}", worker.log());
        }
    }
}

/// In transaction mode a worker would lose its notifications, and its settings would stay for others.
#[test]
fn a_worker_at_a_pooler_in_transaction_mode_says_so_and_ends() {
    let server = Server::start();
    let db = server.database();
    db.execute("CREATE ROLE app LOGIN SUPERUSER; CREATE TABLE sent (key text)");
    for settings in ["auth_type = any", "auth_type = any\nserver_round_robin = 1"] {
        let Some(pooler) = Pooler::new(&db, settings) else {
            return;
        };
        let at = |name: &str| Database {
            server: &server,
            url: format!(
                "host={} port={} user=app dbname={name}",
                pooler.dir.display(),
                pooler.port
            ),
        };
        for language in languages() {
            pooler.is_as_new();
            let mut worker = language.start(&at("part"), &[]);
            assert!(!worker.ends());
            let log = worker.log();
            assert!(log.contains("a pooler in transaction mode is before the database: a worker needs session mode, or none"), "{log}");
            pooler.is_as_new();
            let worker = language.start(&at("whole"), &[]);
            let key = format!("{} {settings}", language.name);
            schedule(&db, &key, "mail", "");
            db.wait(&format!(
                "SELECT count(*) = 1 FROM hwheel.history WHERE key = '{key}'"
            ));
            drop(worker);
        }
    }
}

#[test]
fn a_job_that_somebody_has_locked_delays_no_other() {
    for_each(|language, db| {
        let worker = language.start(db, &[]);
        schedule(db, "locked", "slow", ", payload => '1'");
        worker.wait_for_log("begin locked 1");
        let mut client = db.client();
        let mut transaction = client.transaction().expect("BEGIN");
        transaction
            .execute(
                "SELECT FROM hwheel.job WHERE key = 'locked' FOR UPDATE",
                &[],
            )
            .expect("a lock");
        worker.wait_for_log("end locked 1");
        for i in 0..20 {
            schedule(db, &format!("s-{i}"), "mail", "");
        }
        let begin = Instant::now();
        all_sent_once(db, 20);
        assert!(
            begin.elapsed() < Duration::from_secs(3),
            "{:?}",
            begin.elapsed()
        );
        transaction.rollback().expect("ROLLBACK");
        db.wait("SELECT EXISTS (SELECT FROM hwheel.history WHERE key = 'locked')");
        assert_eq!(count(&worker.log(), "begin locked"), 1);
    });
}

/// A trigger of somebody refuses what the end of one job writes.
#[test]
fn a_job_whose_end_is_refused_delays_no_other() {
    for_each(|language, db| {
        db.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.key = 'bad' THEN RAISE 'no'; END IF; RETURN NEW; END $$;
            CREATE TRIGGER refuse BEFORE INSERT ON hwheel.history FOR EACH ROW EXECUTE FUNCTION refuse()",
        );
        let worker = language.start(db, &[("LEASE", "2")]);
        schedule(db, "long", "slow", ", payload => '5'");
        schedule(db, "bad", "plain", "");
        worker.wait_for_log("begin bad 1");
        for i in 0..20 {
            schedule(db, &format!("s-{i}"), "mail", "");
            schedule(db, &format!("p-{i}"), "plain", "");
        }
        let begin = Instant::now();
        all_sent_once(db, 20);
        db.wait("SELECT count(*) = 20 FROM hwheel.history WHERE key LIKE 'p-%'");
        assert!(
            begin.elapsed() < Duration::from_secs(4),
            "{:?}",
            begin.elapsed()
        );
        worker.wait_for_log("end long 1");
        db.wait("SELECT EXISTS (SELECT FROM hwheel.history WHERE key = 'long' AND attempts = 0)");
        db.execute("DROP TRIGGER refuse ON hwheel.history");
        db.wait("SELECT EXISTS (SELECT FROM hwheel.history WHERE key = 'bad')");
    });
}

#[test]
fn a_job_for_which_there_is_no_thread_uses_no_attempt() {
    for language in languages().iter().filter(|l| l.name == "python") {
        let db = database();
        schedule(&db, "k", "mail", ", max_attempts => 1");
        let code = "import asyncio, threading, hwheel_worker\n\
            def start(self): raise RuntimeError(\"can't start new thread\")\n\
            worker = hwheel_worker.Worker()\n\
            worker.queue('mail')(print)\n\
            threading.Thread.start = start\n\
            print([r.outcome for r in asyncio.run(worker.drain())])";
        let mut command = Command::new(&language.command[0]);
        for (variable, word) in [
            ("PGHOST", "host="),
            ("PGPORT", "port="),
            ("PGUSER", "user="),
            ("PGDATABASE", "dbname="),
        ] {
            command.env(variable, word_of(&db, word));
        }
        let output = command.args(["-c", code]).output().expect("it runs");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "['snoozed']\n",
            "{output:?}"
        );
        assert!(db.is("SELECT state = 'waiting' AND attempts = 0 FROM hwheel.job"));
    }
}

/// Go cannot fork, Node starts another program, and in Rust a process that is forked may do next to
/// nothing.
#[test]
fn a_process_that_a_function_forks_is_no_worker() {
    for_each(|language, db| {
        if language.name != "python" {
            return;
        }
        let mut worker = language.start(db, &[("LEASE", "2")]);
        // Its lease is extended meanwhile, and its connections are used.
        schedule(db, "long", "slow", ", payload => '8'");
        worker.wait_for_log("begin long 1");
        let mut effects = 0;
        for round in 0..3 {
            for (way, status) in [
                ("return", 0),
                ("exit", 3),
                ("raise", 1),
                ("in", 1),
                ("in-exit", 3),
                ("own", 0),
            ] {
                for queue in ["fork", "fork-async"] {
                    if (way, queue) == ("own", "fork-async") {
                        continue; // An event loop cannot be forked.
                    }
                    let has_effect = way.starts_with("in") || way == "own";
                    effects += i64::from(has_effect);
                    let begin = if has_effect { "s-" } else { "" };
                    let key = format!("{begin}{round}-{queue}-{way}");
                    schedule(db, &key, queue, &format!(", payload => '\"{way}\"'"));
                    worker.wait_for_log(&format!("forked {key} 1 {status}\n"));
                }
            }
            schedule(db, &format!("p{round}"), "multiprocessing", "");
            worker.wait_for_log(&format!("forked p{round} 1 10\n"));
        }
        all_sent_once(db, effects);
        db.wait("SELECT count(*) = 37 FROM hwheel.history WHERE attempts = 0");
        assert_eq!(db.number("SELECT count(*) FROM hwheel.job"), 0);
        assert_eq!(count(&worker.log(), "forked"), 36);
        assert!(worker.end(), "{}", worker.log());
    });
}

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_flood_of_notifications_costs_looks_and_nothing_else() {
    for_each(|language, db| {
        let mut worker = language.start(db, &[]);
        schedule(db, "long", "slow", ", payload => '60'");
        worker.wait_for_log("begin long 1");
        let id = db.number("SELECT id FROM hwheel.job");
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = db.client();
                let flood = format!(
                    "SELECT pg_notify('hwheel:mail', i::text), pg_notify('hwheel:slow', 'cancel {id}')
                    FROM generate_series(1, 20) i"
                );
                while !ends.load(Ordering::Relaxed) {
                    client.query(&flood, &[]).expect("notifications");
                }
            });
            // Also when this test fails.
            let _end = End(&ends);
            for i in 0..100 {
                schedule(db, &format!("s-{i}"), "mail", "");
                sleep(Duration::from_millis(20));
            }
            all_sent_once(db, 100);
            assert_eq!(count(&worker.log(), "stop"), 0, "{}", worker.log());
            db.execute("SELECT hwheel.cancel('long')");
            worker.wait_for_log("stop long 1 the job is cancelled");
            assert!(worker.end(), "{}", worker.log());
        });
    });
}
