//! Connections to the database: statements, deadlines, errors, back-off.

use crate::connect::Config;
use jiff::Timestamp;
use std::collections::HashMap;
use std::error::Error as _;
use std::fmt::Write as _;
use std::future::{poll_fn, Future as _};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{channel, error::TrySendError, Receiver};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use tokio_postgres::error::{DbError, Severity, SqlState};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Notification, Row, Statement, ToStatement};

/// The protocol needs statements that see what others have committed. A pooler refuses
/// this as an option of the start.
/// A session waits for the next job, which may take long. The functions of the schema catch errors, which
/// must not end the session. The last setting is one of PostgreSQL 17: each
/// call has a limit, and the node knows it. Without the triggers a run whose job was scheduled again
/// meanwhile would lose the new one. Only a superuser may switch them on again. A job with a role begins
/// with the rights of the user of the session, who may have another role by default.
const SETTINGS: &str = "DO $$ BEGIN
        IF pg_catalog.current_setting('session_replication_role') OPERATOR(pg_catalog.=) 'replica' THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE =
                'hwheel: session_replication_role is replica, so the triggers of the jobs are off';
        END IF;
    END $$;
    SET ROLE NONE;
    SET default_transaction_isolation = 'read committed';
    SET idle_session_timeout = 0;
    SET exit_on_error = off;
    SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings
    WHERE name OPERATOR(pg_catalog.=) 'transaction_timeout'";

/// What a statement calls is what PostgreSQL has. The owner of the database may have written
/// functions and operators with the same names, and sets the `search_path` of its sessions.
pub const PATH: &str = "search_path = pg_catalog, pg_temp";

/// The server ends a call after this time. A function of a job has its own limit.
const CALL: Duration = Duration::from_secs(10);

/// The longest limit of a call. A limit that was too short doubles.
const LONGEST_CALL: Duration = Duration::from_secs(160);

/// A server that should have ended a call, and has been silent for this time since, is
/// not there any more.
const SILENCE: Duration = Duration::from_secs(5);

/// How long one of several hosts may take to let a user in, if `connect_timeout` is not given. The
/// minimum of that time is as in libpq.
const WAIT_FOR_ONE_OF_SEVERAL: Duration = Duration::from_secs(5);
const SHORTEST_WAIT: Duration = Duration::from_secs(2);

/// How many connections have become silent. Each one casts doubt on all that were made
/// before: what lies between has perhaps forgotten them all. No other memory depends on
/// it, so relaxed is enough.
static SILENT: AtomicU64 = AtomicU64::new(0);

/// While the server is at work on this number of calls that were given up and that no limit ends, a link
/// makes no new connection. A call that waits for a synchronous standby, or for a disk, has no limit of time,
/// and the end of its connection does not end it.
const MOST_GIVEN_UP: usize = 4;

/// A message that was under way when its connection ended has mostly reached the server after this time. A
/// message that a proxy has kept may come at any later time.
const UNDER_WAY: Duration = Duration::from_secs(15);

/// How long a call waits for the end of a process of the server that it ends.
const END_MS: i64 = 100;

/// A process of the server whose connection has ended with a call.
struct GivenUp {
    process: Process,
    /// The name of the link that gave it up. The server may have another one: a pooler may add the port of
    /// the connection, and the server cuts long names.
    link: String,
    at: Instant,
    /// By then the limit of the call has ended it, unless no limit does.
    over: Instant,
    /// The state of the process at the last look; `None` before the first one.
    seen: Option<Seen>,
    /// The server has been asked to end the process.
    is_ending: bool,
}

enum Seen {
    AtWork {
        for_standby: bool,
    },
    /// Since that time. The message of the call may still be under way.
    Idle(Instant),
}

impl GivenUp {
    /// Whether the process is to be ended: it waits for a message that would be a surprise, or its function
    /// has caught the end of its limit and goes on. A process that waits for a disk or for a standby may be
    /// about to commit. Its end would show the commit before the standby has it.
    fn is_to_end(&self, wait: Option<&str>) -> bool {
        match self.seen {
            _ if self.is_ending => false,
            Some(Seen::Idle(since)) => since.elapsed() >= UNDER_WAY,
            Some(Seen::AtWork { for_standby }) => {
                let may_commit = for_standby || matches!(wait, Some("IO" | "LWLock"));
                !may_commit && Instant::now() >= self.over
            }
            None => false,
        }
    }
}

/// The processes that may still be at work on a call.
static GIVEN_UP: Mutex<Vec<GivenUp>> = Mutex::new(Vec::new());

fn given_up() -> MutexGuard<'static, Vec<GivenUp>> {
    GIVEN_UP.lock().expect("no code panics with the lock")
}

/// The connection of a process ends. The limit of its call ends it within a time.
fn give_up(process: Process, link: &str, left: Duration) {
    let now = Instant::now();
    given_up().push(GivenUp {
        process,
        link: link.to_owned(),
        at: now,
        over: now + left,
        seen: None,
        is_ending: false,
    });
}

/// The number of calls that were given up, that the server was at work on at the last look, and that no limit
/// ends.
pub fn calls_given_up() -> usize {
    let has_no_limit = |one: &&GivenUp| match one.seen {
        Some(Seen::AtWork { for_standby }) => for_standby || Instant::now() >= one.over,
        _ => false,
    };
    given_up().iter().filter(has_no_limit).count()
}

/// Why a call has no answer.
#[derive(Debug)]
pub enum Error {
    Postgres(tokio_postgres::Error),
    /// The server has been silent for this time.
    Silent(Duration),
    /// The server is at work on this number of calls that were given up, so there is no new connection.
    Crowded(usize),
}

impl Error {
    pub fn code(&self) -> Option<&SqlState> {
        match self {
            Error::Postgres(e) => e.code(),
            Error::Silent(_) | Error::Crowded(_) => None,
        }
    }
}

/// How many notifications wait at most. Anybody may send them.
const NOTIFICATIONS: usize = 1024;

/// The messages that have come while a client waited.
pub enum Heard {
    Nothing,
    One(Notification),
    /// More than there was room for.
    Many,
}

/// A connection. Each call has a deadline.
pub struct Client {
    /// None only while it is dropped.
    runtime: Option<Runtime>,
    client: tokio_postgres::Client,
    /// Ends with the connection, and returns why that ended. None: a call has said why.
    reader: Option<JoinHandle<Option<tokio_postgres::Error>>>,
    notifications: Receiver<Notification>,
    /// There was no room for a notification. Nothing else depends on it.
    were_many: Arc<AtomicBool>,
    /// How long a call may take.
    deadline: Duration,
}

pub fn connect(config: &Config, name: &str) -> Result<Client, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime needs an epoll instance and memory");
    let places = runtime.block_on(async {
        let mut places = Vec::new();
        for place in config.named(name) {
            places.extend(addresses(place).await);
        }
        places
    });
    let several = places.len() > 1;
    let mut last = None;
    for place in places {
        // One that accepts connections and never answers must not keep the others out.
        let deadline = match config.patience {
            Some(patience) if !patience.is_zero() => patience.max(SHORTEST_WAIT),
            _ if several => WAIT_FOR_ONE_OF_SEVERAL,
            _ => CALL + SILENCE,
        };
        let tls = config.tls.clone();
        match runtime.block_on(async { tokio::time::timeout(deadline, place.connect(tls)).await }) {
            Ok(Ok(both)) => {
                last = Some(Ok(both));
                break;
            }
            Ok(Err(e)) => last = Some(Err(Error::Postgres(e))),
            Err(_) => last = Some(Err(Error::Silent(deadline))),
        }
    }
    let (client, mut connection) = match last.expect("there is a host") {
        Ok(both) => both,
        Err(e) => {
            // A resolver that hangs is not waited for.
            runtime.shutdown_background();
            return Err(e);
        }
    };
    let deadline = CALL + SILENCE;
    let (send, notifications) = channel(NOTIFICATIONS);
    let were_many = Arc::new(AtomicBool::new(false));
    let overflow = were_many.clone();
    let reader = runtime.spawn(poll_fn(move |context| loop {
        match std::task::ready!(connection.poll_message(context)) {
            // Nobody listens any more if the client is dropped.
            Some(Ok(AsyncMessage::Notification(notification))) => {
                if let Err(TrySendError::Full(_)) = send.try_send(notification) {
                    overflow.store(true, Relaxed);
                }
            }
            Some(Ok(_)) => {}
            Some(Err(e)) => return Some(e).into(),
            None => return None.into(),
        }
    }));
    Ok(Client {
        runtime: Some(runtime),
        client,
        reader: Some(reader),
        notifications,
        were_many,
        deadline,
    })
}

/// A configuration for each address of a host.
async fn addresses(place: tokio_postgres::Config) -> Vec<tokio_postgres::Config> {
    if let ([Host::Tcp(name)], []) = (place.get_hosts(), place.get_hostaddrs()) {
        let port = place.get_ports().first().copied().unwrap_or(5432);
        let found = tokio::net::lookup_host((name.as_str(), port));
        if let Ok(Ok(found)) = tokio::time::timeout(WAIT_FOR_ONE_OF_SEVERAL, found).await {
            let each: Vec<_> = found
                .map(|address| {
                    let mut one = place.clone();
                    one.hostaddr(address.ip());
                    one
                })
                .collect();
            if !each.is_empty() {
                return each;
            }
        }
    }
    vec![place]
}

impl Client {
    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("not dropped yet")
    }

    fn wait<T>(
        &mut self,
        call: impl AsyncFnOnce(&tokio_postgres::Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, Error> {
        let answer = self
            .runtime()
            .block_on(async { tokio::time::timeout(self.deadline, call(&self.client)).await });
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(e)) if e.is_closed() => {
                Err(self.end().map_or(Error::Postgres(e), Error::Postgres))
            }
            Ok(Err(e)) => Err(Error::Postgres(e)),
            Err(_) => {
                SILENT.fetch_add(1, Relaxed);
                Err(Error::Silent(self.deadline))
            }
        }
    }

    /// Why the connection has ended, as the server said it.
    fn end(&mut self) -> Option<tokio_postgres::Error> {
        let reader = self.reader.take()?;
        let end = self
            .runtime()
            .block_on(async { tokio::time::timeout(SILENCE, reader).await });
        end.ok()?.ok()?
    }

    /// Lets each call take longer.
    pub fn allow(&mut self, time: Duration) {
        self.deadline = time;
    }

    pub fn batch_execute(&mut self, statements: &str) -> Result<(), Error> {
        self.wait(async |client| client.batch_execute(statements).await)
    }

    pub fn prepare(&mut self, statement: &str) -> Result<Statement, Error> {
        self.wait(async |client| client.prepare(statement).await)
    }

    /// A call with a statement that is prepared, or whose text is prepared for this call alone.
    pub fn query<T: ?Sized + ToStatement>(
        &mut self,
        statement: &T,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        self.wait(async |client| client.query(statement, parameters).await)
    }

    /// A call without a prepared statement: a pooler in transaction mode would lose it.
    pub fn query_once(
        &mut self,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Error> {
        self.wait(async |client| client.query_typed(statement, parameters).await)
    }

    /// Waits for a notification, a call of `wake`, or the end of the time.
    pub fn heard(&mut self, time: Duration, wake: &Notify) -> Result<Heard, Error> {
        if self.were_many.swap(false, Relaxed) {
            return Ok(Heard::Many);
        }
        let runtime = self.runtime.as_ref().expect("not dropped yet");
        let notifications = &mut self.notifications;
        let heard = runtime.block_on(async {
            let mut woken = pin!(wake.notified());
            let next = poll_fn(|context| match notifications.poll_recv(context) {
                Poll::Ready(next) => Poll::Ready(next.map(Heard::One)),
                Poll::Pending => woken.as_mut().poll(context).map(|()| Some(Heard::Nothing)),
            });
            tokio::time::timeout(time, next).await
        });
        match heard {
            Ok(Some(heard)) => Ok(heard),
            Err(_) => Ok(Heard::Nothing),
            // The connection has ended. The next call says why.
            Ok(None) => self.batch_execute("").map(|()| Heard::Nothing),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A resolver that hangs is not waited for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The length of an error that is stored and logged, in characters. sql/node.sql has it too.
const LONGEST_TEXT: usize = 10_000;

/// An error with its causes, in one line.
pub fn describe(error: &Error) -> String {
    let error = match error {
        Error::Postgres(error) => error,
        Error::Silent(time) => return format!("the database has been silent for {time:?}"),
        Error::Crowded(calls) => {
            return format!(
                "the server is still at work on {calls} calls that this node has given up"
            )
        }
    };
    if let Some(db) = error.as_db_error() {
        let message: String = db.message().chars().take(LONGEST_TEXT).collect();
        return format!("{}: {message} ({})", db.severity(), db.code().code());
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            let _ = write!(text, ": {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// How to treat an error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Failure {
    /// The connection is lost, and the answer may be too.
    Connection,
    /// The server cannot work now, as with a full disk, or has broken a deadlock.
    Server,
    /// The statement is wrong.
    Statement,
}

pub fn failure(error: &Error) -> Failure {
    let db = match error {
        Error::Postgres(error) => error.as_db_error(),
        Error::Silent(_) | Error::Crowded(_) => None,
    };
    let Some(db) = db else {
        return Failure::Connection;
    };
    // After a fatal error the server closes the connection.
    if matches!(
        db.parsed_severity(),
        Some(Severity::Fatal | Severity::Panic)
    ) {
        return Failure::Connection;
    }
    match &db.code().code()[..2] {
        // Resources; errors of the system; a standby; deadlocks.
        "53" | "58" | "25" | "40" => Failure::Server,
        // The call took too long, as one that waits for a lock.
        "57" => Failure::Server,
        "55" if db.code() == &SqlState::LOCK_NOT_AVAILABLE => Failure::Server,
        _ => Failure::Statement,
    }
}

/// Whether the same connection will fail again: a password, a name or a certificate is
/// wrong.
pub fn is_refused(error: &Error) -> bool {
    let Error::Postgres(error) = error else {
        return false;
    };
    if let Some(db) = error.as_db_error() {
        return is_stranger(db) || db.code() == &SqlState::INVALID_CATALOG_NAME;
    }
    // The library has no other way to tell its errors apart.
    let text = error.to_string();
    let is_mine = ["authentication error", "invalid configuration"];
    if is_mine.iter().any(|kind| text.starts_with(kind)) {
        return true;
    }
    let is_tls = text.starts_with("error performing TLS handshake");
    let io = error
        .source()
        .and_then(|e| e.downcast_ref::<std::io::Error>());
    // A server that has just gone away ends a handshake too.
    is_tls && io.is_none_or(|e| e.get_ref().is_some_and(|e| e.is::<rustls::Error>()))
}

/// Whether the server does not let this user in.
fn is_stranger(error: &DbError) -> bool {
    // Some poolers report a wrong password as a violation of the protocol.
    let is_password = error.message().contains("password authentication failed");
    error.code() == &SqlState::INVALID_PASSWORD
        || error.code() == &SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        || error.code() == &SqlState::PROTOCOL_VIOLATION && is_password
}

/// Waits longer each time, up to five seconds.
pub struct Backoff(Duration);

impl Backoff {
    const SHORTEST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(5);

    pub fn new() -> Backoff {
        Backoff(Backoff::SHORTEST)
    }

    pub fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(Backoff::LONGEST);
        now
    }

    pub fn reset(&mut self) {
        self.0 = Backoff::SHORTEST;
    }
}

/// A connection with the statements that it has prepared.
pub struct Session {
    pub client: Client,
    /// None: it keeps none.
    statements: Option<HashMap<&'static str, Statement>>,
    /// The current value of `statement_timeout`.
    limit: Option<Duration>,
    /// The value of SILENT before this connection was made.
    silent: u64,
    process: Process,
}

/// A process of the server: its number, when it began, and the name of its client, as the server has it.
#[derive(Clone, PartialEq)]
struct Process {
    number: i32,
    start: Timestamp,
    name: Option<String>,
}

impl Session {
    /// The number of the process of the server.
    pub fn process(&self) -> i32 {
        self.process.number
    }

    /// Finds the calls that were given up and that the server may still be at work on.
    fn look_at_given_up(&mut self) -> Result<(), Error> {
        let processes: Vec<Process> = given_up().iter().map(|one| one.process.clone()).collect();
        if processes.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i32> = processes.iter().map(|process| process.number).collect();
        // Without an operator: the session may have the path of the database.
        let sql = "SELECT a.pid, a.backend_start, a.state, a.wait_event, a.wait_event_type, a.application_name
            FROM pg_catalog.unnest($1) p, LATERAL pg_catalog.pg_stat_get_activity(p) a";
        let rows = self
            .client
            .query_once(sql, &[(&numbers, Type::INT4_ARRAY)])?;
        let rows: HashMap<i32, &Row> = rows.iter().map(|row| (row.get(0), row)).collect();
        let (mut numbers, mut began) = (Vec::new(), Vec::new());
        // Those that were given up meanwhile are not among them.
        given_up().retain_mut(|one| {
            if !processes.contains(&one.process) {
                return true;
            }
            let number = one.process.number;
            let Some(row) = rows.get(&number) else {
                return false;
            };
            let (start, state): (Option<Timestamp>, Option<&str>) = (row.get(1), row.get(2));
            let (event, wait): (Option<&str>, Option<&str>) = (row.get(3), row.get(4));
            // A function may change the name. An idle process with another one has another client.
            let is_mine = one.process.name.as_deref() == row.get::<_, Option<&str>>(5);
            // The state says less if the server does not track it, in a transaction, or amid a message.
            let is_idle = state == Some("idle") || event == Some("ClientRead");
            let since = match &one.seen {
                Some(Seen::Idle(since)) if is_idle => Some(*since),
                _ => is_idle.then(Instant::now),
            };
            let for_standby = event == Some("SyncRep");
            one.seen = Some(since.map_or(Seen::AtWork { for_standby }, Seen::Idle));
            // The node may have no right to end an idle process, which does no harm after this time.
            let is_left =
                one.is_ending && since.is_some_and(|since| since.elapsed() >= 2 * UNDER_WAY);
            let stays =
                start == Some(one.process.start) && (is_mine || since.is_none()) && !is_left;
            if stays && is_mine && one.is_to_end(wait) {
                numbers.push(number);
                began.push(one.process.start);
            }
            stays
        });
        if numbers.is_empty() {
            return Ok(());
        }
        let sql = "SELECT pg_catalog.pg_terminate_backend(a.pid, $3) FROM ROWS FROM (
                pg_catalog.unnest($1), pg_catalog.unnest($2)) p (pid, start),
            LATERAL pg_catalog.pg_stat_get_activity(p.pid) a
            WHERE a.backend_start OPERATOR(pg_catalog.=) p.start";
        let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
            (&numbers, Type::INT4_ARRAY),
            (&began, Type::TIMESTAMPTZ_ARRAY),
            (&END_MS, Type::INT8),
        ];
        match self.client.query_once(sql, &parameters) {
            Err(e) if failure(&e) == Failure::Connection => return Err(e),
            // Without the right to end them, the node waits.
            Err(e) => log::warn!("lost connections stay at the server: {}", describe(&e)),
            Ok(_) => log::warn!("the server ends {} lost connections", numbers.len()),
        }
        // Only once the server has answered: otherwise the next look tries again.
        for one in given_up().iter_mut() {
            let is_asked =
                |(number, start)| one.process.number == number && one.process.start == start;
            one.is_ending |= numbers
                .iter()
                .copied()
                .zip(began.iter().copied())
                .any(is_asked);
        }
        Ok(())
    }

    /// Looks again which of these calls the server may still be at work on, and ends those that nothing else
    /// ends. True if there is none.
    pub fn has_ended_all(&mut self) -> Result<bool, Error> {
        self.look_at_given_up()?;
        Ok(given_up().is_empty())
    }

    /// Limits the time of each statement.
    fn limit(&mut self, limit: Duration) -> Result<(), Error> {
        if self.limit != Some(limit) {
            let ms = limit.as_millis().max(1);
            self.client
                .batch_execute(&format!("SET statement_timeout = {ms}"))?;
            self.limit = Some(limit);
            self.client.allow(limit + SILENCE);
        }
        Ok(())
    }

    pub fn query(
        &mut self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let Some(statements) = &mut self.statements else {
            return self.client.query(sql, parameters);
        };
        let statement = match statements.get(sql) {
            Some(prepared) => prepared.clone(),
            None => {
                let prepared = self.client.prepare(sql)?;
                statements.insert(sql, prepared.clone());
                prepared
            }
        };
        self.client.query(&statement, parameters)
    }
}

/// A word that no other process has. With it a node proves that its number is its own.
fn word() -> &'static str {
    static WORD: OnceLock<String> = OnceLock::new();
    WORD.get_or_init(|| {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system has random numbers");
        format!("{:032x}", u128::from_ne_bytes(bytes))
    })
}

/// A connection that is made when it is needed, and again when it is lost.
pub struct Link {
    config: Config,
    name: String,
    /// The SQL that every new connection runs first.
    preparation: String,
    keeps_statements: bool,
    session: Option<Session>,
    /// The session was made after the last call of the function of this name.
    is_another: bool,
    backoff: Backoff,
    /// The limit of a call.
    patience: Duration,
}

impl Link {
    pub fn new(config: &Config, name: String) -> Link {
        let config = config.clone();
        Link {
            config,
            name,
            preparation: String::new(),
            keeps_statements: true,
            session: None,
            is_another: false,
            backoff: Backoff::new(),
            patience: CALL,
        }
    }

    /// Keeps no prepared statements. So the functions of jobs may prepare theirs, and all are
    /// dropped after each.
    pub fn without_statements(self) -> Link {
        let keeps_statements = false;
        Link {
            keeps_statements,
            ..self
        }
    }

    /// Executes statements on this connection and on those that follow it.
    pub fn prepare(&mut self, statements: String) -> Result<(), Error> {
        self.preparation = statements.clone();
        self.ask(|session| session.client.batch_execute(&statements))
    }

    /// Calls `ask` with a session. After an error of the connection the next call
    /// makes a new one.
    pub fn ask<T>(
        &mut self,
        ask: impl FnMut(&mut Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.ask_within(self.patience, ask)
    }

    /// Calls `ask` like the function of that name, and limits the time of each statement. A limit
    /// that differs from that of the call before costs a query.
    pub fn ask_within<T>(
        &mut self,
        limit: Duration,
        mut ask: impl FnMut(&mut Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let silent = SILENT.load(Relaxed);
        let is_new = self.session.as_ref().is_none_or(|s| s.silent != silent);
        if is_new {
            let doubted = self.session.take();
            self.session = Some(match (self.make(silent), doubted) {
                // The doubted session may still work, and adds no process to the server.
                (Err(Error::Crowded(_)), Some(doubted)) => Session { silent, ..doubted },
                (made, doubted) => {
                    // The server may not learn that this connection has ended.
                    if let Some(doubted) = doubted {
                        give_up(doubted.process, &self.name, Duration::ZERO);
                    }
                    self.is_another |= made.is_ok();
                    made?
                }
            });
        }
        let session = self.session.as_mut().expect("just made");
        let answer = session.limit(limit).and_then(|()| ask(session));
        match &answer {
            // The connection was the trouble, and it works again.
            Ok(_) if is_new => self.backoff.reset(),
            Err(e) if failure(e) == Failure::Connection => {
                // A server is silent after the limit.
                let left = match e {
                    Error::Silent(_) => Duration::ZERO,
                    _ => limit + SILENCE,
                };
                give_up(session.process.clone(), &self.name, left);
                self.session = None;
            }
            // Another server may be the one that accepts writes now.
            Err(e) if e.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => self.session = None,
            _ => {}
        }
        answer
    }

    /// Makes a connection, unless the server is at work on too many calls.
    fn make(&self, silent: u64) -> Result<Session, Error> {
        let mut client = connect(&self.config, &self.name)?;
        client.batch_execute(SETTINGS)?;
        let sql = "SELECT a.pid, a.backend_start, a.application_name
            FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) a";
        let rows = client.query_once(sql, &[])?;
        let mut session = Session {
            client,
            statements: self.keeps_statements.then(HashMap::new),
            limit: None,
            silent,
            process: Process {
                number: rows[0].get(0),
                start: rows[0].get(1),
                name: rows[0].get(2),
            },
        };
        // A pooler may have passed a process on that has ended its call.
        given_up().retain(|one| {
            let (old, new) = (&one.process, &session.process);
            (old.number, old.start) != (new.number, new.start)
        });
        session.look_at_given_up()?;
        let calls = calls_given_up();
        if calls >= MOST_GIVEN_UP {
            return Err(Error::Crowded(calls));
        }
        // The functions of jobs have the path of the session, and the calls that run them
        // need none.
        if self.keeps_statements {
            session.client.batch_execute(&format!(
                "SET {PATH}; SET jit = off; SET hwheel.word = '{}'",
                word()
            ))?;
        }
        session.client.batch_execute(&self.preparation)?;
        Ok(session)
    }

    /// Makes a connection if there is none. True if the connection was made after the last call of this
    /// function.
    pub fn is_another(&mut self) -> Result<bool, Error> {
        self.ask(|_| Ok(()))?;
        Ok(std::mem::take(&mut self.is_another))
    }

    /// Whether the server was at work, at the last look, on a call that this link has given up since a time.
    pub fn is_at_work_since(&self, time: Instant) -> bool {
        let is_mine = |one: &GivenUp| {
            one.link == self.name && one.at >= time && !matches!(one.seen, Some(Seen::Idle(_)))
        };
        given_up().iter().any(is_mine)
    }

    /// The link does its work: the next wait is short again.
    pub fn works(&mut self) {
        self.backoff.reset();
        self.patience = CALL;
    }

    /// The next call makes a new connection.
    pub fn reconnect(&mut self) {
        self.session = None;
    }

    /// Logs an error and waits, longer each time until the link works.
    pub fn back_off(&mut self, error: &Error) {
        if let Error::Postgres(e) = error {
            if e.as_db_error().is_some_and(is_stranger) {
                crate::node::give_up(&describe(error));
            }
        }
        // A slow server gets more time, so that the call ends at last.
        let is_slow =
            matches!(error, Error::Silent(_)) || error.code() == Some(&SqlState::QUERY_CANCELED);
        if is_slow {
            self.patience = (self.patience * 2).min(LONGEST_CALL);
        }
        let pause = self.backoff.next();
        log::error!("{}: {}; again in {pause:?}", self.name, describe(error));
        thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_limit_and_starts_again() {
        let mut backoff = Backoff::new();
        let waits: Vec<u128> = (0..8).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        backoff.reset();
        assert_eq!(backoff.next().as_millis(), 100);
    }

    /// A server that accepts a session and then goes away.
    #[test]
    fn a_connection_that_has_ended_fails_each_call() {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 8]).unwrap();
            // AuthenticationOk, ReadyForQuery.
            stream
                .write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")
                .unwrap();
        });
        let words = format!("host=127.0.0.1 port={port} user=nobody sslmode=disable");
        let mut client = connect(&Config::new(&words).unwrap(), "test").unwrap();
        server.join().unwrap();
        for _ in 0..3 {
            let error = client.batch_execute("SELECT 1").unwrap_err();
            assert_eq!(failure(&error), Failure::Connection);
        }
    }

    #[test]
    fn a_refused_connection_is_named_with_its_cause() {
        let config = Config::new("host=127.0.0.1 port=1 user=nobody").unwrap();
        let error = connect(&config, "test").err().unwrap();
        assert_eq!(failure(&error), Failure::Connection);
        assert!(describe(&error).contains("refused"), "{}", describe(&error));
    }
}
