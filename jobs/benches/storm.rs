//! A million jobs, 100,000 of them due within a minute, on three nodes: undisturbed,
//! and with a node killed and the server restarted. Plain pollers then run the same
//! jobs of the same table. Prints the last section of the README, and replaces it in
//! the file that is named.
//!
//! With HWHEEL_PEERS, a directory with the programs of peers.js and peers.go, it also runs
//! jobs that do nothing, and graphile-worker, pg-boss and River, each with one process.
//!
//! Then four applications take the jobs of ten thousand tenants, one of which has a backlog.
//!
//! HWHEEL_JOBS, HWHEEL_DUE and HWHEEL_SECONDS set smaller numbers for a trial. HWHEEL_ONLY
//! is million, peers or tenants.

#[path = "../tests/support/mod.rs"]
mod support;

use postgres::Client;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::{Database, Server};

struct Size {
    jobs: i64,
    due: i64,
    seconds: i64,
}

const NODES: usize = 3;

/// The line with which the section begins.
const HEADING: &str = "## A million jobs\n";
const PEERS: &str = "## Compared with graphile-worker, pg-boss and River\n";

/// The figures of one run.
struct Figures {
    name: String,
    done: i64,
    twice: i64,
    early: i64,
    /// The median, the 99th percentile and the maximum.
    late_ms: [f64; 3],
    /// The number of runs in the second with the most.
    per_second: i64,
    queries: i64,
    /// Per minute, while nothing was due. None: not measured.
    idle_queries: Option<i64>,
    took: Duration,
}

fn main() {
    // cargo passes --bench.
    let readme = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with("--"));
    let number = |name: &str, usual| {
        std::env::var(name).map_or(usual, |text| text.parse().expect("a number"))
    };
    let size = Size {
        jobs: number("HWHEEL_JOBS", 1_000_000),
        due: number("HWHEEL_DUE", 100_000),
        seconds: number("HWHEEL_SECONDS", 60),
    };
    let only = std::env::var("HWHEEL_ONLY").unwrap_or_default();
    let server = Server::start_with(
        // A server that keeps its data, and memory for a million jobs.
        &[
            "fsync = on",
            "shared_buffers = '1GB'",
            "max_wal_size = '4GB'",
            "checkpoint_timeout = '15min'",
        ],
        &[],
    );
    if only.is_empty() || only == "million" {
        let section = million(&server, &size);
        publish(readme.as_deref(), HEADING, &section);
    }
    match std::env::var_os("HWHEEL_PEERS") {
        Some(tools) if only.is_empty() || only == "peers" => {
            let section = peers(&server, &size, Path::new(&tools));
            publish(readme.as_deref(), PEERS, &section);
        }
        _ => eprintln!("SKIPPED: the peers"),
    }
    if only.is_empty() || only == "tenants" {
        let section = tenants(&server);
        publish(readme.as_deref(), TENANTS, &section);
    }
}

const TENANTS: &str = "## Ten thousand tenants\n";

/// How many tenants, how many jobs each of them has, and how many one of them has besides.
const CROWD: [i64; 3] = [10_000, 6, 40_000];

/// Applications, and the jobs that each takes with one call.
const TAKERS: usize = 4;
const TAKEN: i32 = 20;

/// The section about limits of tenants.
fn tenants(server: &Server) -> String {
    let load = self::load();
    let [count, each, backlog] = CROWD;
    let mut section = format!(
        "{TENANTS}\n\
        `make bench-jobs` measured this, too. {count} tenants have {each} jobs each, and one more has\n\
        {backlog}, which were due before. {TAKERS} applications take {TAKEN} jobs with each call, and end\n\
        them with another.\n\n\
        | | take() p50 | p99 | worst | jobs per second | runs of a tenant at once | done of the backlog | Jain's index |\n\
        | --- | --- | --- | --- | --- | --- | --- | --- |\n"
    );
    for (name, limit) in [("no limit", "NULL"), ("2 runs of each at once", "2")] {
        let db = server.database();
        db.execute(&format!(
            "SELECT hwheel.set_queue('q', max_running_per => {limit});
            SELECT hwheel.schedule_many(array_agg('big' || i), ARRAY[now()], queue => 'q', tenant => 'big')
                FROM generate_series(1, {backlog}) i;
            SELECT hwheel.schedule(t || '-' || i, now(), queue => 'q', tenant => 't' || t)
                FROM generate_series(1, {each}) i, generate_series(1, {count}) t"
        ));
        db.execute("VACUUM ANALYZE hwheel.job");
        // Until half of the jobs of the many are done.
        let half = count * each / 2;
        let begin = Instant::now();
        let ended = std::sync::atomic::AtomicI64::new(0);
        let take = || {
            let mut client = db.client();
            let mut times = Vec::new();
            while ended.load(Ordering::Relaxed) < half {
                let start = Instant::now();
                let sql = "SELECT id, lease, key FROM hwheel.take('q', $1)";
                let rows = client.query(sql, &[&TAKEN]).expect("take()");
                times.push(start.elapsed().as_secs_f64() * 1000.0);
                let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
                let leases: Vec<i64> = rows.iter().map(|row| row.get(1)).collect();
                let sql = "SELECT hwheel.done_many($1, $2)";
                client.query(sql, &[&ids, &leases]).expect("done_many()");
                let of_many = rows
                    .iter()
                    .filter(|row| !row.get::<_, &str>(2).starts_with("big"));
                ended.fetch_add(of_many.count() as i64, Ordering::Relaxed);
            }
            times
        };
        let mut times: Vec<f64> = thread::scope(|scope| {
            let takers: Vec<_> = (0..TAKERS).map(|_| scope.spawn(take)).collect();
            takers
                .into_iter()
                .flat_map(|taker| taker.join().expect("a taker"))
                .collect()
        });
        let took = begin.elapsed().as_secs_f64();
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
        let row = &db.rows(&format!(
            "WITH runs AS (SELECT tenant, count(*)::float8 AS n FROM hwheel.history GROUP BY 1),
                steps AS (SELECT tenant, fired_at AS at, 1 AS step FROM hwheel.history
                    UNION ALL SELECT tenant, finished_at, -1 FROM hwheel.history)
            SELECT (SELECT sum(n) FROM runs),
                (SELECT max(n) FROM (SELECT sum(step) OVER (PARTITION BY tenant ORDER BY at, step) AS n FROM steps) s),
                (SELECT power(sum(n), 2) / (count(*) * sum(n * n)) FROM (
                    SELECT coalesce(r.n, 0) AS n FROM (SELECT 't' || generate_series(1, {count})) t (tenant)
                    LEFT JOIN runs r USING (tenant)) f),
                coalesce((SELECT n FROM runs WHERE tenant = 'big'), 0)"
        ))[0];
        let (done, at_once, fairness): (f64, i64, f64) = (row.get(0), row.get(1), row.get(2));
        let of_backlog: f64 = row.get(3);
        let _ = writeln!(
            section,
            "| {name} | {:.1} ms | {:.1} ms | {:.1} ms | {:.0} | {at_once} | {of_backlog:.0} | {fairness:.3} |",
            at(0.5),
            at(0.99),
            at(1.0),
            done / took,
        );
    }
    let _ = write!(
        section,
        "\nThe figures count until half of the jobs of the many tenants are done. Jain's index of the\n\
        runs of these tenants is 1 if each has had as many. The load average was {load} before and {} at\n\
        the end.\n",
        self::load()
    );
    section
}

/// Prints a section, and writes it into the README in place of the old one.
fn publish(readme: Option<&str>, heading: &str, section: &str) {
    println!("{section}");
    let Some(file) = readme else {
        return;
    };
    let text = std::fs::read_to_string(file).expect("the README");
    let (before, rest) = text.split_once(heading).unwrap_or((&text, ""));
    let after = rest.find("\n## ").map_or("", |at| &rest[at..]);
    let before = before.trim_end();
    std::fs::write(file, format!("{before}\n\n{section}{after}")).expect("the README");
    eprintln!("written to {file}");
}

/// The figures of a peer, in milliseconds.
struct Peer {
    name: String,
    late: [f64; 2],
    queries: f64,
    /// Jobs a second: alone, and during an open transaction.
    speeds: [f64; 2],
}

/// Seconds of jobs that are due one after the other.
const STORM: i64 = 30;

/// Jobs that are due at once.
const BURST: i64 = 20_000;

fn peers(server: &Server, size: &Size, tools: &Path) -> String {
    let load = load();
    let go = tools.join("peers-go").display().to_string();
    let js = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers.js");
    let js = js.display().to_string();
    let systems: [(&str, Vec<&str>); 6] = [
        ("hwheel-jobs, SQL jobs", vec![]),
        ("hwheel-jobs, taken by Node", vec!["node", &js, "take"]),
        ("hwheel-jobs, taken by Go", vec![&go, "take"]),
        ("graphile-worker", vec!["node", &js, "graphile"]),
        ("pg-boss", vec!["node", &js, "boss"]),
        ("River", vec![&go, "river"]),
    ];
    let storm = STORM * size.due / size.seconds;
    let mut all = Vec::new();
    for (name, command) in systems {
        eprintln!("{name}");
        let run = |jobs: i64, seconds: i64, hold: bool| -> [f64; 4] {
            let db = server.database();
            db.execute(
                "UPDATE hwheel.settings SET window_length = DEFAULT, lease_length = DEFAULT",
            );
            let mut other = db.client();
            if hold {
                other
                    .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
                    .expect("a transaction");
            }
            let figures = match &command[..] {
                [] => sql_jobs(&db, jobs, seconds),
                command => peer(&db, tools, command, jobs, seconds),
            };
            eprintln!("  {jobs} jobs in {seconds} s: {figures:.1?}");
            figures
        };
        let [p50, p99, _, queries] = run(storm, STORM, false);
        let speed = |hold| BURST as f64 * 1000.0 / run(BURST, 0, hold)[2];
        all.push(Peer {
            name: name.to_owned(),
            late: [p50, p99],
            queries: queries / storm as f64,
            speeds: [speed(false), speed(true)],
        });
    }
    let version = |path: &str| {
        let text = std::fs::read_to_string(tools.join(path)).unwrap_or_default();
        let at = text
            .split_once("\"version\": \"")
            .map_or("?", |(_, rest)| rest);
        at.split('"').next().unwrap_or("?").to_owned()
    };
    let river = std::fs::read_to_string(tools.join("go/go.mod")).unwrap_or_default();
    let river = river
        .lines()
        .find_map(|line| line.trim().strip_prefix("github.com/riverqueue/river v"))
        .unwrap_or("?");
    let mut section = format!(
        "{PEERS}\n\
        `make bench-jobs` measured this too. The jobs do nothing. {storm} of them are due evenly\n\
        within {STORM} s, and then {BURST} at once. Each system has one process with ten\n\
        connections at most, and the same server with fsync. graphile-worker {} has the settings\n\
        of its page on performance and looks every 100 ms, pg-boss {} every 500 ms, which is its\n\
        least, in batches of 500. River {} looks every 100 ms for jobs, and every 5 s, which cannot\n\
        be changed, for those that have become due. The load average was {load} before and {} at\n\
        the end.\n\n\
        | | late p50 | p99 | queries per job | jobs per second, all due at once | during an open transaction |\n\
        | --- | --- | --- | --- | --- | --- |\n",
        version("node_modules/graphile-worker/package.json"),
        version("node_modules/pg-boss/package.json"),
        river,
        self::load(),
    );
    for p in all {
        let _ = writeln!(
            section,
            "| {} | {:.1} ms | {:.1} ms | {:.3} | {:.0} | {:.0} |",
            p.name, p.late[0], p.late[1], p.queries, p.speeds[0], p.speeds[1],
        );
    }
    section += "\nA SQL job is late until its function starts, by the database's clock; another one until its\n\
        handler starts, by the clock of its process. An open transaction keeps the server from\n\
        removing dead rows. The speed counts from the start of the process to the end of the last job.\n";
    section
}

/// Runs SQL jobs on one node. Returns the median and the 99th percentile of lateness, how
/// long it took, and the number of queries.
fn sql_jobs(db: &Database, jobs: i64, seconds: i64) -> [f64; 4] {
    db.execute(
        "CREATE FUNCTION nothing(key text, due timestamptz, payload jsonb) RETURNS void
        LANGUAGE sql AS ''",
    );
    let ahead = if seconds > 0 { 30 } else { -1 };
    db.execute(&format!(
        "SELECT hwheel.schedule_many(array_agg('k' || i), array_agg(now() + interval '1 s' * ({ahead} + i * {seconds} / {jobs}::float8)), sql => 'nothing')
        FROM generate_series(1, {jobs}) i"
    ));
    let mut client = db.client();
    let mut before = 0;
    if seconds > 0 {
        thread::sleep(Duration::from_secs(11));
        before = queries(&mut client);
    }
    let begin: f64 = db.value("SELECT extract(epoch FROM clock_timestamp())::float8");
    let _node = db.node("bench");
    let mut asked = 0;
    while client
        .query_one("SELECT count(*) FROM hwheel.job", &[])
        .expect("a count")
        .get::<_, i64>(0)
        > 0
    {
        thread::sleep(Duration::from_millis(100));
        asked += 1;
    }
    let end: f64 =
        db.value("SELECT extract(epoch FROM max(finished_at))::float8 FROM hwheel.history");
    let took = (end - begin) * 1000.0;
    let mut count = 0;
    if seconds > 0 {
        thread::sleep(Duration::from_secs(11));
        count = queries(&mut client) - before - asked;
    }
    let late: Vec<f64> = db.value(
        "SELECT percentile_disc(ARRAY[0.5, 0.99]) WITHIN GROUP
            (ORDER BY extract(epoch FROM fired_at - due)::float8 * 1000) FROM hwheel.history",
    );
    [late[0], late[1], took, count as f64]
}

/// Runs the program of a peer, and reads its figures.
fn peer(db: &Database, tools: &Path, command: &[&str], jobs: i64, seconds: i64) -> [f64; 4] {
    let _node = command.contains(&"take").then(|| db.node("bench"));
    let name = db.text("SELECT current_database()::text");
    let url = format!(
        "postgres://postgres@/{name}?host={}",
        db.server.dir().display()
    );
    let output = Command::new(command[0])
        .args(&command[1..])
        .args([&url, &jobs.to_string(), &seconds.to_string()])
        .env("NODE_PATH", tools.join("node_modules"))
        .stderr(Stdio::inherit())
        .output()
        .expect("a program");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {text}");
    let figure = |name: &str| -> f64 {
        let (_, rest) = text.split_once(&format!("\"{name}\":")).expect("a figure");
        let end = rest.find([',', '}']).expect("an end");
        rest[..end].parse().expect("a number")
    };
    assert_eq!(figure("done"), jobs as f64);
    ["p50", "p99", "took", "queries"].map(figure)
}

/// The section about a million jobs.
fn million(server: &Server, size: &Size) -> String {
    let (begin, load) = (Instant::now(), load());
    let db = server.database();
    db.execute("UPDATE hwheel.settings SET window_length = DEFAULT, lease_length = DEFAULT");
    prepare(&db, size);
    eprintln!(
        "{} jobs in the table after {:.0?}",
        size.jobs,
        begin.elapsed()
    );

    let mut all = vec![
        hwheel_jobs(&db, size, "hwheel-jobs", false),
        hwheel_jobs(
            &db,
            size,
            "hwheel-jobs, a node killed, the server restarted",
            true,
        ),
    ];
    for (name, period) in [("poller, 1 s", 1000), ("poller, 100 ms", 100)] {
        all.push(poller(&db, size, name, Duration::from_millis(period)));
    }
    let section = section(&db, size, &all, begin.elapsed(), &load);
    let is_right = |f: &Figures| f.done == size.due && f.twice == 0 && f.early == 0;
    assert!(
        all.iter().all(is_right),
        "a job was not done, done twice or early"
    );
    section
}

/// Fills the table with jobs that are due tomorrow, and creates the functions.
fn prepare(db: &Database, size: &Size) {
    db.execute(
        "CREATE TABLE run (key text, at timestamptz);
        CREATE FUNCTION note(key text, due timestamptz, payload jsonb) RETURNS void
        LANGUAGE sql AS 'INSERT INTO run VALUES (key, clock_timestamp())';

        -- A plain poller takes jobs that are due, runs them and writes that they are done.
        CREATE FUNCTION poll(at_most int) RETURNS bigint LANGUAGE plpgsql AS $$
        DECLARE
            j hwheel.job;
            ids bigint[] := '{}';
            fired timestamptz[] := '{}';
            until timestamptz := clock_timestamp();
        BEGIN
            FOR j IN SELECT * FROM hwheel.job WHERE state = 'waiting' AND due <= until
                ORDER BY due LIMIT at_most FOR UPDATE SKIP LOCKED
            LOOP
                fired := fired || clock_timestamp();
                EXECUTE 'SELECT ' || j.target || '($1, $2, $3)' USING j.key, j.occurrence, j.payload;
                ids := ids || j.id;
            END LOOP;
            UPDATE hwheel.job SET state = 'done', fired_at = f.at, finished_at = clock_timestamp()
                FROM unnest(ids, fired) AS f (id, at) WHERE job.id = f.id;
            RETURN cardinality(ids);
        END $$",
    );
    db.execute(&format!(
        "SET session_replication_role = replica; -- No trigger: none of them is due soon.
        INSERT INTO hwheel.job (key, due, occurrence, missed, grace, kind, target, payload, max_attempts, backoff, timeout)
        SELECT 'k' || i, d, d, 'once', '1 min', 'sql', 'public.note', '{{\"a\": 1}}', 5, '1 s', '1 min'
        FROM generate_series(1, {}) i, LATERAL (SELECT now() + interval '1 day' + i * interval '1 ms' AS d) x",
        size.jobs
    ));
}

/// Makes some of the jobs due within the next minute, evenly, and waits until the
/// first is due.
fn make_due(db: &Database, size: &Size) {
    let mut client = db.client();
    let mut ahead = 15.0;
    // Starts again with more time if the machine needs more to write them.
    loop {
        let begin = Instant::now();
        let mut transaction = client.transaction().expect("a transaction");
        let update = format!(
            "TRUNCATE run, hwheel.history;
            DELETE FROM hwheel.job WHERE id <= {due};
            INSERT INTO hwheel.job (id, key, due, occurrence, missed, grace, kind, target, payload, max_attempts, backoff, timeout)
            OVERRIDING SYSTEM VALUE
            SELECT i, 'k' || i, d, d, 'once', '1 min', 'sql', 'public.note', '{{\"a\": 1}}', 5, '1 s', '1 min'
            FROM generate_series(1, {due}) i,
                LATERAL (SELECT now() + interval '1 s' * ({ahead} + (i - 1) * {} / {due}::float8) AS d) x;
            SET CONSTRAINTS ALL IMMEDIATE",
            size.seconds,
            due = size.due,
        );
        transaction.batch_execute(&update).expect("the update");
        let left = Duration::from_secs_f64(ahead).saturating_sub(begin.elapsed());
        if left > Duration::from_secs(5) {
            transaction.commit().expect("the commit");
            let left = Duration::from_secs_f64(ahead).saturating_sub(begin.elapsed());
            thread::sleep(left);
            return;
        }
        eprintln!("  the machine is slow: again with more time");
        ahead *= 2.0;
    }
}

/// The number of calls of clients so far: each is a transaction of its own.
fn queries(client: &mut Client) -> i64 {
    let sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    client.query_one(sql, &[]).expect("statistics").get(0)
}

/// Queries per minute while nothing is due. A node sends two every 6.5 s, so a few seconds more or
/// less would change the result of a shorter measurement. The server also counts the transactions
/// of autovacuum, up to twenty in this minute. So autovacuum is off meanwhile.
fn idle_queries(db: &Database) -> i64 {
    let mut client = db.client();
    let autovacuum = |client: &mut Client, value: &str| {
        let setting = format!("ALTER SYSTEM SET autovacuum = {value}");
        client.batch_execute(&setting).expect("a setting");
        client
            .batch_execute("SELECT pg_reload_conf()")
            .expect("a reload");
    };
    autovacuum(&mut client, "off");
    // The server counts the calls of a session up to ten seconds later.
    thread::sleep(Duration::from_secs(11));
    let before = queries(&mut client);
    thread::sleep(Duration::from_secs(60));
    let count = queries(&mut client) - before - 1;
    autovacuum(&mut client, "on");
    count.max(0)
}

fn hwheel_jobs(db: &Database, size: &Size, name: &str, disturb: bool) -> Figures {
    eprintln!("{name}");
    db.execute("VACUUM ANALYZE hwheel.job");
    let node = |n: usize| db.node_with(&format!("node-{n}-{disturb}"), &["--capacity", "1000000"]);
    let mut nodes: Vec<_> = (0..NODES).map(node).collect();
    let idle_queries = (!disturb).then(|| idle_queries(db));
    make_due(db, size);
    let (before, begin) = (queries(&mut db.client()), Instant::now());
    if disturb {
        thread::sleep(Duration::from_secs(size.seconds as u64 / 4));
        nodes[0].kill();
        eprintln!("  a node was killed");
        thread::sleep(Duration::from_secs(size.seconds as u64 / 4));
        db.server.down("fast");
        db.server.up();
        eprintln!("  the server was restarted");
    }
    let took = wait_until_done(db, size, begin);
    let queries = queries(&mut db.client()) - before;
    for node in &mut nodes[usize::from(disturb)..] {
        assert!(node.end());
    }
    figures(db, name, queries, idle_queries, took)
}

fn poller(db: &Database, size: &Size, name: &str, period: Duration) -> Figures {
    eprintln!("{name}");
    db.execute("VACUUM ANALYZE hwheel.job");
    let is_over = AtomicBool::new(false);
    let poll = || {
        let mut client: Client = db.client();
        let statement = client.prepare("SELECT poll(1000)").expect("poll()");
        let mut next = Instant::now();
        while !is_over.load(Ordering::Relaxed) {
            while client
                .query_one(&statement, &[])
                .expect("poll()")
                .get::<_, i64>(0)
                == 1000
            {}
            next += period;
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    };
    thread::scope(|scope| {
        for _ in 0..NODES {
            // Pollers on several machines do not keep step either.
            thread::sleep(period / NODES as u32);
            scope.spawn(poll);
        }
        let idle_queries = Some(idle_queries(db));
        make_due(db, size);
        let before = queries(&mut db.client());
        let took = wait_until_done(db, size, Instant::now());
        let queries = queries(&mut db.client()) - before;
        is_over.store(true, Ordering::Relaxed);
        figures(db, name, queries, idle_queries, took)
    })
}

fn wait_until_done(db: &Database, size: &Size, begin: Instant) -> Duration {
    thread::sleep(Duration::from_secs(size.seconds as u64).saturating_sub(begin.elapsed()));
    let end = Instant::now() + Duration::from_secs(90);
    let mut client = db.client();
    loop {
        let row = client.query_one("SELECT count(*) FROM hwheel.job WHERE state <> 'done' AND due < now() + interval '12 h'", &[]);
        let left: i64 = row.expect("count").get(0);
        if left == 0 {
            return begin.elapsed();
        }
        assert!(
            Instant::now() < end,
            "{left} of {} jobs were not done",
            size.due
        );
        thread::sleep(Duration::from_millis(500));
    }
}

fn figures(
    db: &Database,
    name: &str,
    queries: i64,
    idle_queries: Option<i64>,
    took: Duration,
) -> Figures {
    let row = &db.rows(
        "WITH late AS (SELECT extract(epoch FROM fired_at - due)::float8 * 1000 AS ms
            FROM hwheel.all_jobs WHERE state = 'done')
        SELECT (SELECT count(*) FROM hwheel.all_jobs WHERE state = 'done'),
            (SELECT count(*) - count(DISTINCT key) FROM run),
            (SELECT count(*) FROM late WHERE ms < 0),
            percentile_disc(ARRAY[0.5, 0.99, 1]) WITHIN GROUP (ORDER BY ms),
            (SELECT max(n) FROM (SELECT count(*) AS n FROM run GROUP BY date_trunc('second', at)) s)
        FROM late",
    )[0];
    let late: Vec<f64> = row.get(3);
    let counted: i64 = db.value("SELECT count(*) FROM run");
    let figures = Figures {
        name: name.to_owned(),
        done: row.get::<_, i64>(0).min(counted),
        twice: row.get(1),
        early: row.get(2),
        late_ms: [late[0], late[1], late[2]],
        per_second: row.get(4),
        queries,
        idle_queries,
        took,
    };
    eprintln!(
        "  {} done, lateness {:?} ms, {} queries",
        figures.done, figures.late_ms, figures.queries
    );
    figures
}

/// The number of processes that ran or wanted to, on average over the last minute.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

fn section(
    db: &Database,
    size: &Size,
    all: &[Figures],
    took: Duration,
    load_before: &str,
) -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name\t: "))
        .unwrap_or("unknown");
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let version: String = db.value("SHOW server_version");
    let version = version.split(' ').next().unwrap_or_default();
    let mut section = format!(
        "{HEADING}\n\
        `make bench-jobs` measured this in {:.0} s and wrote this section. The table has {}\n\
        jobs. {} of them are due within {} s, evenly; each is a SQL function that inserts a\n\
        row. PostgreSQL {version} with fsync, {NODES} nodes or pollers, and the benchmark share\n\
        {cores} cores ({cpu}).\n\
        The load average of the machine was {load_before} before and {} at the end.\n\n\
        | | done | twice | early | late p50 | p99 | worst | runs in the busiest second | queries per minute | when idle |\n\
        | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        took.as_secs_f64(), size.jobs, size.due, size.seconds, load(),
    );
    for f in all {
        let ms = |ms: f64| {
            if ms < 100.0 {
                format!("{ms:.1} ms")
            } else {
                format!("{:.2} s", ms / 1000.0)
            }
        };
        let idle = f.idle_queries.map_or("-".to_owned(), |n| n.to_string());
        let per_minute = f.queries as f64 * 60.0 / f.took.as_secs_f64();
        let _ = writeln!(
            section,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {per_minute:.0} | {idle} |",
            f.name,
            f.done,
            f.twice,
            f.early,
            ms(f.late_ms[0]),
            ms(f.late_ms[1]),
            ms(f.late_ms[2]),
            f.per_second,
        );
    }
    section += "\nA job is late from its due time to the start of its function, by the database's clock.\n\
        The killed node holds jobs of the next 10 s. They pass on when its lease of 15 s has run\n\
        out. A poller takes up to 1,000 jobs per query, and asks again at once if it gets 1,000.\n\
        A node has four connections that fire, a poller one. A query is a call of a client,\n\
        which is a transaction. Autovacuum is off while idle queries are counted, because the\n\
        server counts its transactions too.\n";
    section
}
