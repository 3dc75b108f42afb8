//! A real PostgreSQL server and real nodes, for tests and the benchmark.
#![allow(dead_code)] // Not every file uses all of it.

use postgres::{Client, GenericClient, NoTls, Row, SimpleQueryMessage};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{chown, MetadataExt as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_hwheel-jobs");

/// A server of its own in a temporary directory. It ends with this process, however
/// that ends: a shell waits for the end of a pipe, stops it and removes the directory.
pub struct Server {
    dir: PathBuf,
    pub port: u16,
    /// Variables for the processes of the server, such as LD_PRELOAD.
    env: Vec<(String, String)>,
    databases: AtomicU32,
    _pipe: std::process::ChildStdin,
}

/// A new database with functions for jobs, on the server that the tests of a file share.
pub fn database() -> Database<'static> {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER
        .get_or_init(Server::start)
        .database()
        .with_functions()
}

/// Says that a test is skipped. The test harness would hide the line of a macro.
pub fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// The directory with initdb and pg_ctl.
pub fn server_programs() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let mut dirs: Vec<PathBuf> = std::env::split_paths(&paths).collect();
        let versions = fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .flatten();
        dirs.extend(versions.map(|version| version.path().join("bin")));
        dirs.into_iter()
            .find(|dir| dir.join("initdb").exists())
            .unwrap_or_else(|| {
                eprintln!(
                    "no PostgreSQL server is installed; on Debian: apt-get install postgresql"
                );
                std::process::exit(1);
            })
    })
}

impl Server {
    pub fn start() -> Server {
        Server::start_with(&[], &[])
    }

    /// A directory for a server, which is stopped when this process ends.
    #[allow(clippy::zombie_processes)] // The shell outlives this process.
    fn place(port: u16, env: &[(String, String)]) -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("hwheel-jobs-{}-{count}", std::process::id()));
        fs::create_dir(&dir).expect("a directory for the server");
        if let Some((uid, gid)) = other_user() {
            chown(&dir, Some(uid), Some(gid)).expect("chown");
        }
        let shell = format!(
            "trap '' INT; read x; {}/pg_ctl -D {dir}/data -m immediate -w stop; rm -rf {dir}",
            server_programs().display(),
            dir = dir.display(),
        );
        let mut watcher = as_server_user("sh");
        watcher
            .args(["-c", &shell])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut watcher = watcher.process_group(0).spawn().expect("a shell");
        let pipe = watcher.stdin.take().expect("piped");
        Server {
            dir,
            port,
            env: env.to_vec(),
            databases: AtomicU32::new(0),
            _pipe: pipe,
        }
    }

    /// With lines for postgresql.conf, and variables of the environment.
    pub fn start_with(settings: &[&str], env: &[(&str, &str)]) -> Server {
        let env: Vec<_> = env
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        let port = settings
            .iter()
            .find_map(|line| line.strip_prefix("port = "));
        let server = Server::place(
            port.map_or(5432, |port| port.parse().expect("a port")),
            &env,
        );
        server.command(
            "initdb",
            "-D data -U postgres -A trust -N -E UTF8 --no-instructions",
        );
        let mut conf = format!(
            "listen_addresses = ''\nunix_socket_directories = '{}'\n",
            server.dir.display()
        );
        conf += "max_connections = 200\nfsync = off\nlog_min_messages = fatal\nshared_buffers = '256MB'\n";
        for line in settings {
            conf += &format!("{line}\n");
        }
        fs::write(server.dir.join("data/postgresql.auto.conf"), conf).expect("settings");
        server.up();
        server
    }

    /// Runs a program of the server in its directory, and panics with its output if it fails.
    fn command(&self, program: &str, arguments: &str) {
        let log = self.dir.join("command");
        let output = fs::File::create(&log).expect("a log");
        // The programs of a client may be elsewhere.
        let path = server_programs().join(program);
        let path = if path.exists() { path } else { program.into() };
        let mut command = as_server_user(path.to_str().expect("UTF-8"));
        command
            .args(arguments.split_whitespace())
            .current_dir(&self.dir)
            .stdin(Stdio::null());
        if program == "pg_ctl" {
            command.envs(self.env.iter().cloned());
        }
        command
            .stdout(output.try_clone().expect("dup"))
            .stderr(output);
        let status = command.status().expect(program);
        assert!(
            status.success(),
            "{program}: {}",
            fs::read_to_string(&log).unwrap_or_default()
        );
    }

    pub fn up(&self) {
        self.command("pg_ctl", "-D data -l log -w -t 60 start");
    }

    /// `mode` is fast, or immediate, which is a crash for the server.
    pub fn down(&self, mode: &str) {
        self.command("pg_ctl", &format!("-D data -m {mode} -w stop"));
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A server that follows this one, as a standby, and has the same settings.
    pub fn standby(&self) -> Server {
        let standby = Server::place(self.port, &self.env);
        standby.follow(self);
        standby
    }

    /// Makes this server a standby of another one, with a copy of its data.
    pub fn follow(&self, primary: &Server) {
        let data = self.dir.join("data");
        let _ = fs::remove_dir_all(&data);
        let (host, port) = (primary.dir.display(), primary.port);
        let copy = format!("-D data -h {host} -p {port} -U postgres -R -c fast");
        self.command("pg_basebackup", &copy);
        // The last line of a setting counts.
        let conf = data.join("postgresql.auto.conf");
        let text = fs::read_to_string(&conf).expect("settings");
        let mine = format!(
            "{text}unix_socket_directories = '{}'\nsynchronous_standby_names = ''\n",
            self.dir.display()
        );
        fs::write(conf, mine).expect("settings");
        self.up();
    }

    pub fn promote(&self) {
        self.command("pg_ctl", "-D data -w promote");
    }

    /// A database of this server by its name.
    pub fn database_named(&self, name: &str) -> Database<'_> {
        Database {
            server: self,
            url: self.url(name),
        }
    }

    /// A client of the database postgres.
    pub fn client(&self) -> Client {
        Client::connect(&self.url("postgres"), NoTls).expect("the server")
    }

    fn url(&self, database: &str) -> String {
        format!(
            "host={} port={} user=postgres dbname={database}",
            self.dir.display(),
            self.port
        )
    }

    /// A new database with the schema, a window of 2 s and a lease of 1.5 s.
    pub fn database(&self) -> Database<'_> {
        let name = format!("db{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.client()
            .batch_execute(&format!("CREATE DATABASE {name}"))
            .expect("a database");
        let database = Database {
            server: self,
            url: self.url(&name),
        };
        let output = database.program(&["install"]);
        assert!(
            output.status.success(),
            "install: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        database
            .execute("UPDATE hwheel.settings SET window_length = '2 s', lease_length = '1.5 s'");
        database
    }
}

/// PostgreSQL does not run as root. Root runs it as the user postgres.
fn other_user() -> Option<(u32, u32)> {
    // SAFETY: it only returns a number.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("/etc/passwd");
    let user = users
        .lines()
        .find(|line| line.starts_with("postgres:"))
        .expect("a user postgres");
    let numbers: Vec<u32> = user
        .split(':')
        .skip(2)
        .take(2)
        .map(|n| n.parse().expect("a number"))
        .collect();
    Some((numbers[0], numbers[1]))
}

pub fn as_server_user(program: &str) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = other_user() {
        command.uid(uid).gid(gid);
    }
    command.env("LC_ALL", "C");
    command
}

/// Runs the program with variables of the environment.
pub fn program_in(arguments: &[&str], env: &[(&str, &str)]) -> std::process::Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env_remove("DATABASE_URL");
    command.envs(env.iter().copied());
    command.output().expect(PROGRAM)
}

/// Statements of a client or of a transaction, which panic where they fail.
pub trait Sql: GenericClient {
    fn run(&mut self, sql: &str) {
        self.batch_execute(sql)
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }

    /// The first value of the only row.
    fn one<T: for<'a> postgres::types::FromSql<'a>>(&mut self, sql: &str) -> T {
        self.query_one(sql, &[])
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"))
            .get(0)
    }
}

impl<C: GenericClient> Sql for C {}

pub struct Database<'s> {
    pub server: &'s Server,
    pub url: String,
}

impl Database<'_> {
    pub fn client(&self) -> Client {
        Client::connect(&self.url, NoTls).expect("the database")
    }

    /// A client that has run something, as the beginning of a transaction.
    pub fn client_after(&self, sql: &str) -> Client {
        let mut client = self.client();
        client.run(sql);
        client
    }

    pub fn execute(&self, sql: &str) {
        self.client().run(sql);
    }

    pub fn rows(&self, sql: &str) -> Vec<Row> {
        self.client()
            .query(sql, &[])
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"))
    }

    /// The first value of the first row.
    pub fn value<T: for<'a> postgres::types::FromSql<'a>>(&self, sql: &str) -> T {
        self.rows(sql)[0].get(0)
    }

    pub fn is(&self, sql: &str) -> bool {
        self.value(sql)
    }

    pub fn number(&self, sql: &str) -> i64 {
        self.value(sql)
    }

    pub fn text(&self, sql: &str) -> String {
        self.value(sql)
    }

    /// Jobs that note(), evenly over the next seconds.
    pub fn spread(&self, count: i32, seconds: f64) {
        self.execute(&format!(
            "SELECT hwheel.schedule('k' || i, now() + i * interval '1 s' * {seconds} / {count}, sql => 'note')
            FROM generate_series(1, {count}) i"
        ));
    }

    /// Waits until all jobs are done, and checks that each ran once and not early.
    pub fn all_done_once(&self) {
        self.wait("SELECT bool_and(state = 'done') FROM hwheel.all_jobs");
        let row = &self.rows(
            "SELECT (SELECT count(*) FROM hwheel.all_jobs WHERE kind = 'sql'), count(*),
            count(DISTINCT key), bool_and(at >= due) FROM run",
        )[0];
        let (jobs, runs, keys, in_time): (i64, i64, i64, bool) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        assert_eq!((runs, keys, in_time), (jobs, jobs, true));
    }

    /// Checks that each job f... ran after the job m... that it waits for.
    pub fn followers_ran_last(&self) {
        assert!(self.is(
            "SELECT bool_and(f.at > m.at) FROM run f JOIN run m ON m.key = replace(f.key, 'f', 'm')
            WHERE f.key LIKE 'f%'"
        ));
    }

    /// Checks that no run was later than this.
    pub fn none_later_than(&self, seconds: f64) {
        let late: f64 = self.value("SELECT max(extract(epoch FROM at - due))::float8 FROM run");
        assert!(late < seconds, "late by {late} s");
    }

    /// The message of a statement that has to fail.
    pub fn refusal(&self, sql: &str) -> String {
        let error = self.client().batch_execute(sql).expect_err(sql);
        error
            .as_db_error()
            .expect("an error of the database")
            .message()
            .to_owned()
    }

    /// Waits until a query returns true, 30 s at most.
    pub fn wait(&self, sql: &str) {
        let mut client = self.client();
        let end = Instant::now() + Duration::from_secs(30);
        while !client.one::<bool>(sql) {
            if Instant::now() > end {
                let jobs = client
                    .query("SELECT j::text FROM hwheel.all_jobs j LIMIT 20", &[])
                    .expect("jobs");
                let jobs: Vec<String> = jobs.iter().map(|row| row.get(0)).collect();
                panic!("never true: {sql}\n{}", jobs.join("\n"));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// A table `run`, and functions for jobs: note() records a run; fail() fails.
    pub fn with_functions(self) -> Self {
        self.execute(
            "CREATE TABLE run (key text, due timestamptz, payload jsonb,
                at timestamptz DEFAULT clock_timestamp());
            CREATE FUNCTION note(key text, due timestamptz, payload jsonb) RETURNS void
            LANGUAGE sql AS 'INSERT INTO run VALUES (key, due, payload)';
            CREATE FUNCTION fail(key text, due timestamptz, payload jsonb) RETURNS void
            LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO run VALUES (key, due, payload);
                RAISE EXCEPTION 'it does not work';
            END $$;",
        );
        self
    }

    pub fn program(&self, arguments: &[&str]) -> std::process::Output {
        program_in(arguments, &[("DATABASE_URL", &self.url)])
    }

    pub fn node(&self, name: &str) -> Node {
        self.node_with(name, &[])
    }

    /// A node that has entered.
    pub fn node_with(&self, name: &str, arguments: &[&str]) -> Node {
        let node = self.spawn(name, arguments);
        self.wait(&format!(
            "SELECT EXISTS (SELECT FROM hwheel.node WHERE name = '{name}')"
        ));
        node
    }

    /// Waits until all nodes have claimed: on a busy machine a second after they entered.
    pub fn all_claim(&self) {
        self.wait("SELECT bool_and(clock_offset IS NOT NULL) FROM hwheel.node");
    }

    /// A node that may still have to wait for the server.
    pub fn spawn(&self, name: &str, arguments: &[&str]) -> Node {
        self.spawn_in(name, arguments, &[])
    }

    /// With variables of the environment.
    pub fn spawn_in(&self, name: &str, arguments: &[&str], env: &[(&str, &str)]) -> Node {
        let mut command = Command::new(PROGRAM);
        command
            .args(["run", "--name", name])
            .args(if arguments.contains(&"--kinds") {
                &[][..]
            } else {
                &["--kinds", "sql,command,http"]
            })
            .args(arguments)
            .env("DATABASE_URL", &self.url)
            .envs(env.iter().copied());
        Node::start(&mut command, name)
    }
}

/// The answer to a request of a path.
pub fn get(address: &str, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub fn metrics_address(node: &Node) -> String {
    node.wait_for_log("metrics on http://127.0.0.1:");
    let log = node.log();
    let (_, rest) = log.split_once("metrics on http://").unwrap();
    rest.split('/').next().unwrap().to_owned()
}

pub const PASSWORD: &str = "wrzl prmpft";

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A pooler with two names for a database: `whole` in session mode, `part` in transaction
/// mode.
pub struct Pooler {
    child: Child,
    pub dir: PathBuf,
    pub port: u16,
}

impl Pooler {
    /// None, and a line that says so, without pgbouncer.
    pub fn new(db: &Database, settings: &str) -> Option<Pooler> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];
        let Some(program) = program.into_iter().find(|file| Path::new(file).exists()) else {
            skip("no pgbouncer; on Debian: apt-get install pgbouncer");
            return None;
        };
        let dir = db.server.dir().join(format!("pooler-{}", free_port()));
        fs::create_dir(&dir).unwrap();
        let owner = fs::metadata(db.server.dir()).unwrap();
        let (uid, gid) = (Some(owner.uid()), Some(owner.gid()));
        chown(&dir, uid, gid).unwrap();
        let port = free_port();
        let name = db.text("SELECT current_database()");
        let server = format!(
            "host={} port={} dbname={name} user=postgres",
            db.server.dir().display(),
            db.server.port
        );
        let path = dir.display();
        let ini = format!(
            "[databases]\nwhole = {server} pool_mode=session\npart = {server} pool_mode=transaction pool_size=3\n
            [pgbouncer]\nlisten_port = {port}\nunix_socket_dir = {path}\nauth_type = md5\nauth_file = {path}/users\nlogfile = {path}/log\n{settings}\n"
        );
        fs::write(dir.join("ini"), ini).unwrap();
        fs::write(dir.join("users"), format!("\"app\" \"{PASSWORD}\"\n")).unwrap();
        let mut command = as_server_user(program);
        command
            .arg(dir.join("ini"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // SAFETY: the call only sets a property of the new process.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let pooler = Pooler {
            child: command.spawn().unwrap(),
            dir,
            port,
        };
        for _ in 0..500 {
            if pooler.dir.join(format!(".s.PGSQL.{port}")).exists() {
                return Some(pooler);
            }
            thread::sleep(Duration::from_millis(20));
        }
        panic!(
            "{}",
            fs::read_to_string(pooler.dir.join("log")).unwrap_or_default()
        );
    }

    pub fn url(&self, name: &str) -> String {
        format!(
            "host={} port={} user=app password='{PASSWORD}' dbname={name}",
            self.dir.display(),
            self.port
        )
    }

    /// Checks that no session in transaction mode has anything of whoever had it before.
    pub fn is_as_new(&self) {
        let sql = "SELECT concat_ws(' ', current_setting('search_path'), current_setting('statement_timeout'),
                current_setting('lock_timeout'), current_setting('hwheel.word', true),
                (SELECT string_agg(name, ' ') FROM pg_listening_channels() name),
                (SELECT string_agg(name, ' ') FROM pg_prepared_statements))";
        let mut clients: Vec<Client> = (0..3)
            .map(|_| Client::connect(&self.url("part"), NoTls).unwrap())
            .collect();
        for client in &mut clients {
            client.batch_execute("BEGIN").unwrap(); // So each has a session.
            let messages = client.simple_query(sql).unwrap();
            let texts: Vec<_> = messages
                .iter()
                .filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => row.get(0),
                    _ => None,
                })
                .collect();
            assert_eq!(texts, ["\"$user\", public 0 0"]);
        }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Somebody who uses the same database, carelessly and with bad intent, until it is dropped:
///
/// - transactions that lock jobs at random, or change them by the functions for users, stay open
///   for a while, and are rolled back
/// - a transaction that pauses a queue stays open
/// - a role without any grant takes advisory locks, and notifies all channels of nodes
///
/// It holds a job for 150 ms at most, so that tests may say how late the job is.
pub struct Neighbour {
    ends: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Database<'_> {
    pub fn neighbour(&self) -> Neighbour {
        self.neighbour_for("true", Duration::from_millis(150))
    }

    /// One who holds jobs for seconds, and only those that a condition names.
    pub fn neighbour_of(&self, jobs: &'static str) -> Neighbour {
        self.neighbour_for(jobs, Duration::from_secs(3))
    }

    fn neighbour_for(&self, jobs: &'static str, longest: Duration) -> Neighbour {
        self.execute(
            "DO $$ BEGIN CREATE ROLE stranger LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$",
        );
        let ends = Arc::new(AtomicBool::new(false));
        let stranger = self.url.replace("user=postgres", "user=stranger");
        let urls = [&self.url, &self.url, &self.url, &stranger, &stranger];
        let threads = urls.into_iter().cloned().zip(0u64..);
        let threads = threads.map(|(url, kind)| {
            let ends = ends.clone();
            thread::spawn(move || {
                let mut dice = Dice(kind + 1);
                while !ends.load(Ordering::Relaxed) {
                    // Servers of tests stop and break connections.
                    let _ = Client::connect(&url, NoTls).and_then(|mut client| {
                        client.batch_execute("SET lock_timeout = '1 s'")?;
                        while !ends.load(Ordering::Relaxed) {
                            match kind {
                                0 | 1 => hold_jobs(&mut client, &mut dice, jobs, longest)?,
                                2 => hold_queue(&mut client, longest)?,
                                3 => notify(&mut client, &mut dice)?,
                                _ => take_locks(&mut client, longest)?,
                            }
                        }
                        Ok(())
                    });
                    thread::sleep(Duration::from_millis(20));
                }
            })
        });
        Neighbour {
            threads: threads.collect(),
            ends,
        }
    }
}

/// Small random numbers. Each thread has others.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

type Outcome = Result<(), postgres::Error>;

/// An error of a statement is none of the neighbour: the transaction is rolled back anyway.
fn rolled_back(client: &mut Client, statements: &str, time: Duration) -> Outcome {
    client.batch_execute("BEGIN")?;
    let done = client.batch_execute(statements);
    if done.is_ok() {
        thread::sleep(time);
    }
    client.batch_execute("ROLLBACK")
}

fn hold_jobs(client: &mut Client, dice: &mut Dice, jobs: &str, longest: Duration) -> Outcome {
    let some = format!("(SELECT id FROM hwheel.job WHERE {jobs} ORDER BY random() LIMIT 3)");
    let key = format!(
        "(SELECT key FROM hwheel.job WHERE {jobs} AND state IN ('waiting', 'claimed', 'running')
        ORDER BY random() LIMIT 1)"
    );
    let what = match dice.below(6) {
        0 | 1 => format!("SELECT FROM hwheel.job WHERE id IN {some} FOR UPDATE SKIP LOCKED"),
        2 => format!("SELECT FROM hwheel.job WHERE id IN {some} FOR KEY SHARE SKIP LOCKED"),
        3 => format!("SELECT hwheel.move({key}, now() + interval '1 h')"),
        4 => format!("SELECT hwheel.cancel({key})"),
        _ => format!("SELECT hwheel.pause({key})"),
    };
    let time = longest.mul_f64(dice.below(100) as f64 / 100.0);
    rolled_back(client, &what, time)?;
    // If there is one job, it has some time for itself.
    thread::sleep(time * 3 + Duration::from_millis(20));
    Ok(())
}

fn hold_queue(client: &mut Client, longest: Duration) -> Outcome {
    let what = "SELECT hwheel.pause_queue('of-the-neighbour'), hwheel.set_queue('new-' || gen_random_uuid())";
    rolled_back(client, what, longest * 10)
}

fn notify(client: &mut Client, dice: &mut Dice) -> Outcome {
    let mut text = String::new();
    for _ in 0..20 {
        let (node, id, fence) = (dice.below(9), dice.below(500), dice.below(4));
        text += &format!(
            "NOTIFY hwheel, '{}'; NOTIFY hwheel_{node}, '{id} {fence}';",
            dice.below(9)
        );
    }
    client.batch_execute(&text)?;
    thread::sleep(Duration::from_millis(5));
    Ok(())
}

fn take_locks(client: &mut Client, longest: Duration) -> Outcome {
    let what = "SELECT pg_advisory_lock(hashtext('hwheel'), hashtext('queues')),
        pg_advisory_lock(hashtext('hwheel')), pg_advisory_lock(1), pg_advisory_lock(1, 1)";
    rolled_back(client, what, longest * 10)?;
    client.batch_execute("SELECT pg_advisory_unlock_all()")
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A process that runs jobs: a node or a worker. It is killed when it is dropped.
pub struct Node {
    child: Child,
    log: PathBuf,
}

impl Node {
    pub fn start(command: &mut Command, name: &str) -> Node {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = format!("hwheel-node-{}-{count}-{name}.log", std::process::id());
        let log = std::env::temp_dir().join(log);
        let output = fs::File::create(&log).expect("a log");
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("dup"))
            .stderr(output)
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Node { child, log }
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: the child has not been waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Ends it as a crash or a power failure does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until it ends by itself, 20 s at most, and returns whether without an error.
    pub fn ends(&mut self) -> bool {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = self.child.try_wait().expect("wait") {
                return status.success();
            }
            assert!(Instant::now() < end, "it does not end:\n{}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks it to end, and returns whether it ended without an error.
    pub fn end(&mut self) -> bool {
        self.signal(libc::SIGTERM);
        self.child.wait().expect("wait").success()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the log has some text, 30 s at most.
    pub fn wait_for_log(&self, text: &str) {
        let end = Instant::now() + Duration::from_secs(30);
        while !self.log().contains(text) {
            assert!(
                Instant::now() < end,
                "no \"{text}\" in the log:\n{}",
                self.log()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            eprintln!("--- {}\n{}", self.log.display(), self.log());
        }
        let _ = fs::remove_file(&self.log);
    }
}
