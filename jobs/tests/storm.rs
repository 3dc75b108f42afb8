//! Everything at once: three nodes, four queues with limits, applications in three languages,
//! nodes and applications that are killed, a server that crashes, a primary that is lost, and a
//! neighbour who holds transactions open, notifies and locks. A fifth queue has no limit, and the
//! neighbour leaves its jobs alone.
//!
//! HWHEEL_STORM_SECONDS says how long; `make storm-jobs` takes half an hour.

mod support;

use postgres::{Client, NoTls};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::{skip, Database, Node, Server};

struct Application {
    command: Vec<PathBuf>,
    queue: &'static str,
    url: String,
    child: Option<Child>,
}

impl Application {
    fn start(&mut self) {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).arg(self.queue);
        command.env("DATABASE_URL", &self.url).env("LEASE", "2");
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.child = Some(child.expect("an application"));
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// It ends if it cannot connect when it starts. A supervisor starts it again.
    fn keep(&mut self) {
        let has_ended = match &mut self.child {
            Some(child) => child.try_wait().expect("wait").is_some(),
            None => true,
        };
        if has_ended {
            self.start();
        }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Schedules jobs of all queues in one transaction, and notes their keys in it.
fn schedule(url: &str, round: u32, log: &Path) -> Result<(), postgres::Error> {
    let mut client = Client::connect(url, NoTls)?;
    client.batch_execute("SET lock_timeout = '5 s'")?;
    let log = log.display();
    client.batch_execute(&format!(
        "BEGIN;
        INSERT INTO planned SELECT q || '-{round}-' || i, q FROM unnest('{{quiet,sql,command,go,python,after}}'::text[]) q,
            generate_series(1, CASE q WHEN 'command' THEN 3 ELSE 12 END) i;
        SELECT hwheel.schedule(key, now() + random() * interval '3 s', sql => 'effect', queue => queue)
            FROM planned WHERE key LIKE '%-{round}-%' AND queue IN ('quiet', 'sql');
        SELECT hwheel.schedule(key, after => ARRAY[replace(key, queue, 'sql'), replace(key, queue, 'go'),
            'command-{round}-1'], sql => 'effect', queue => queue)
            FROM planned WHERE key LIKE '%-{round}-%' AND queue = 'after';
        SELECT hwheel.schedule(key, now() + random() * interval '3 s', queue => queue, max_attempts => 100,
            backoff => '100 ms', timeout => '2 s')
            FROM planned WHERE key LIKE '%-{round}-%' AND queue IN ('go', 'python');
        SELECT hwheel.schedule(key, now() + random() * interval '3 s', queue => queue, max_attempts => 100,
            backoff => '100 ms', command => 'echo $HWHEEL_KEY $HWHEEL_ATTEMPT >> {log}')
            FROM planned WHERE key LIKE '%-{round}-%' AND queue = 'command';
        COMMIT"
    ))
}

#[test]
fn a_storm_loses_no_job_and_doubles_none() {
    let seconds = std::env::var("HWHEEL_STORM_SECONDS");
    let seconds: u64 = seconds.map_or(45, |text| text.parse().expect("a number of seconds"));
    if std::env::var_os("HWHEEL_WORKERS").is_none() {
        return skip("a storm: it needs the workers of make jobs-workers");
    }
    let settings = [
        "wal_level = replica",
        "max_wal_senders = 5",
        "hot_standby = on",
        "synchronous_commit = on",
    ];
    let first = Server::start_with(&settings, &[]);
    let name = {
        let db = first.database();
        db.execute(
            "CREATE TABLE planned (key text PRIMARY KEY, queue text);
            CREATE TABLE sent (key text, at timestamptz DEFAULT clock_timestamp());
            CREATE TABLE outage (began timestamptz, ended timestamptz);
            CREATE FUNCTION effect(key text, due timestamptz, payload jsonb) RETURNS void
            LANGUAGE sql AS 'INSERT INTO public.sent VALUES (key)';
            SELECT hwheel.set_queue('sql', max_running => 2, rate => 40), hwheel.set_queue('command', max_running => 3),
                hwheel.set_queue('go', max_running => 4), hwheel.set_queue('python', rate => 40)",
        );
        db.text("SELECT current_database()::text")
    };
    let second = first.standby();
    let servers = [&first, &second];
    let both = format!(
        "host={},{} port={},{} user=postgres dbname={name} connect_timeout=3 target_session_attrs=read-write",
        first.dir().display(),
        second.dir().display(),
        first.port,
        second.port
    );
    let at = |primary: usize| Database {
        server: servers[primary],
        url: servers[primary].database_named(&name).url,
    };
    let everywhere = Database {
        server: servers[0],
        url: both.clone(),
    };

    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("commands");
    let start = |n: usize| everywhere.spawn(&format!("n{n}"), &[]);
    let mut nodes: Vec<Node> = (0..3).map(start).collect();
    let tools = PathBuf::from(std::env::var_os("HWHEEL_WORKERS").unwrap_or_default());
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workers/program.py");
    let python = vec![tools.join("venv/bin/python"), program];
    let mut programs = vec![
        python,
        vec![tools.join("program-go")],
        vec![tools.join("program-rust")],
    ];
    // If a program is not there, the others take its jobs.
    programs.retain(|command| {
        let is_there = tools.is_absolute() && command[0].exists();
        if !is_there {
            skip(&format!("make jobs-workers has not built {command:?}"));
        }
        is_there
    });
    let application = |(n, queue): (usize, &'static str)| Application {
        command: programs[n % programs.len()].clone(),
        queue,
        url: both.clone(),
        child: None,
    };
    let mut applications: Vec<_> = (0..)
        .zip(["python", "go", "go", "python"])
        .map(application)
        .collect();

    let replicate = |primary: usize, is_on: bool| {
        let names = if is_on { "*" } else { "" };
        at(primary).execute(&format!(
            "ALTER SYSTEM SET synchronous_standby_names = '{names}'"
        ));
        at(primary).execute("SELECT pg_reload_conf()");
    };
    replicate(0, true);
    let mut primary = 0;
    let (mut round, mut kills, mut crashes, mut failovers) = (0, 0, 0, 0);
    let begin = Instant::now();
    let mut next_kill = begin + Duration::from_secs(3);
    let mut next_crash = begin + Duration::from_secs(6);
    let mut neighbour = Some(at(primary).neighbour_of("queue <> 'quiet'"));
    while begin.elapsed() < Duration::from_secs(seconds) {
        round += 1;
        if let Err(e) = schedule(&at(primary).url, round, &log) {
            panic!("cannot schedule: {e:?}");
        }
        for application in &mut applications {
            application.keep();
        }
        if Instant::now() > next_kill {
            let which = kills % nodes.len();
            nodes[which].kill();
            nodes[which] = start(which);
            let which = kills % applications.len();
            applications[which].kill();
            kills += 1;
            next_kill += Duration::from_secs(7);
        }
        if Instant::now() > next_crash {
            // In a transaction whose commit was answered, so it is never in doubt.
            let began = at(primary).text("SELECT clock_timestamp()::text");
            if (crashes + failovers) % 2 == 1 {
                crashes += 1;
                servers[primary].down("immediate");
                servers[primary].up();
            } else {
                failovers += 1;
                drop(neighbour.take());
                at(primary).wait(
                    "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming')",
                );
                servers[primary].down("immediate");
                primary = 1 - primary;
                servers[primary].promote();
                replicate(primary, false);
                servers[1 - primary].follow(servers[primary]);
                replicate(primary, true);
                neighbour = Some(at(primary).neighbour_of("queue <> 'quiet'"));
            }
            at(primary).execute(&format!(
                "INSERT INTO outage VALUES ('{began}', clock_timestamp())"
            ));
            next_crash = Instant::now() + Duration::from_secs(25);
        }
        sleep(Duration::from_millis(900));
    }
    let db = at(primary);
    let all = "SELECT NOT EXISTS (SELECT FROM hwheel.job WHERE state <> 'dead')";
    let end = Instant::now() + Duration::from_secs(120);
    while !db.is(all) && Instant::now() < end {
        applications.iter_mut().for_each(Application::keep);
        sleep(Duration::from_millis(200));
    }
    drop(neighbour);

    let commands = std::fs::read_to_string(&log).unwrap_or_default();
    let mut attempts: Vec<&str> = commands.lines().collect();
    let command_runs = attempts.len();
    attempts.sort_unstable();
    attempts.dedup();
    let distinct_attempts = attempts.len();
    let mut keys: Vec<_> = attempts
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    keys.dedup();
    let count = |sql: &str| db.number(&format!("SELECT count(*) FROM {sql}"));
    let planned = count("planned WHERE queue <> 'command'");
    let planned_commands = count("planned WHERE queue = 'command'");
    let (effects, distinct) = (
        count("sent"),
        db.number("SELECT count(DISTINCT key) FROM sent"),
    );
    let late: Vec<f64> = db.value(
        "SELECT percentile_disc(ARRAY[0.5, 0.99, 1]) WITHIN GROUP (ORDER BY extract(epoch FROM fired_at - due)::float8)
        FROM hwheel.history WHERE queue = 'quiet'",
    );
    // A server that is away, and the leases of nodes that were killed meanwhile.
    let between: f64 = db.value(
        "SELECT coalesce(max(extract(epoch FROM fired_at - due)), 0)::float8 FROM hwheel.history h
        WHERE queue = 'quiet' AND NOT EXISTS (SELECT FROM outage
            WHERE h.due BETWEEN began - interval '2 s' AND ended + interval '5 s')",
    );
    println!(
        "{seconds} s, {kills} nodes and as many applications killed, {crashes} crashes of the server, {failovers} failovers
{planned} SQL jobs and jobs of applications: {effects} effects of {distinct}
{planned_commands} commands: {} run, {command_runs} runs, {distinct_attempts} attempts
the quiet queue: late p50 {:.1} ms, p99 {:.2} s, worst {:.2} s; worst while the server was there {between:.2} s
left {}, dead {}, late starts of attempts {}",
        keys.len(),
        late[0] * 1000.0,
        late[1],
        late[2],
        count("hwheel.job WHERE state <> 'dead'"),
        count("hwheel.job WHERE state = 'dead'"),
        count("hwheel.history WHERE attempts > 0"),
    );
    assert_eq!(
        (effects, distinct),
        (planned, planned),
        "effects of jobs with one effect"
    );
    assert_eq!(keys.len() as i64, planned_commands, "commands that ran");
    assert_eq!(
        command_runs, distinct_attempts,
        "an attempt of a command ran twice"
    );
    assert_eq!(count("hwheel.job"), 0, "jobs that are left");
    assert!(
        between < 10.0,
        "a job of the quiet queue was late by {between} s"
    );
    assert!(failovers > 0 && kills > 0, "the storm was too short");
}
