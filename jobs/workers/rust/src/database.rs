//! The connections of a worker, and what its threads share.

use crate::job::{Job, JobResult, Report, Stopped};
use crate::{Config, Failure, Options};
use log::warn;
use postgres::tls::{MakeTlsConnect, TlsConnect};
use postgres::{Client, Socket};
use std::collections::HashMap;
use std::future::{poll_fn, Future};
use std::hash::{BuildHasher, RandomState};
use std::net::ToSocketAddrs;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{mpsc, Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::{spawn_blocking, JoinHandle};
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts};
use tokio_postgres::{AsyncMessage, Notification};

/// A call that takes longer loses its connection, as does a host that takes longer to let the
/// worker in.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

const SESSION: &str = "SET search_path = pg_catalog, pg_temp; SET lock_timeout = '100 ms';
    SET statement_timeout = '10 s'; SET idle_session_timeout = 0;
    SET default_transaction_isolation = 'read committed'";

const PROCESS: &str = "SELECT pg_catalog.pg_backend_pid()";

pub(crate) type Hear = Arc<dyn Fn(&Notification) + Send + Sync>;
type Dialled = Pin<Box<dyn Future<Output = Result<Link, Failure>> + Send>>;

/// A connection of the worker, which ends with this.
pub(crate) struct Link {
    pub client: tokio_postgres::Client,
    pub task: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A run that is under way, or that has not been reported.
pub(crate) struct Run {
    pub job: Arc<Job>,
    pub queue: usize,
}

/// The number of a job, and its lease.
pub(crate) type Name = (i64, i64);

/// A run whose function is over.
#[derive(Clone)]
pub(crate) struct Over {
    pub name: Name,
    pub report: Report,
    pub error: Option<String>,
    /// When it is reported, if that was not possible before.
    pub again: Instant,
}

pub(crate) struct State {
    pub runs: HashMap<Name, Run>,
    pub over: Vec<Over>,
    pub running: Vec<usize>,
    pub may_have_more: Vec<bool>,
    pub next_look: Instant,
    pub next_beat: Instant,
    pub last: Option<JobResult>,
    /// All runs are asked to end, also those that begin.
    pub ends: bool,
}

impl State {
    pub fn new(queues: usize) -> State {
        let now = Instant::now();
        State {
            runs: HashMap::new(),
            over: Vec::new(),
            running: vec![0; queues],
            may_have_more: vec![true; queues],
            next_look: now,
            next_beat: now,
            last: None,
            ends: false,
        }
    }
}

pub(crate) struct Shared {
    pub options: Options,
    pub wake: Notify,
    pub stopping: Notify,
    pub is_busy: AtomicBool,
    pub is_quiet: AtomicBool,
    pub is_stopped: AtomicBool,
    state: Mutex<State>,
    /// The statements are the first that a connection executes.
    dial: Box<dyn Fn(Hear, &'static str) -> Dialled + Send + Sync>,
    open: Box<dyn Fn() -> Result<Client, Failure> + Send + Sync>,
    kept: Mutex<Vec<Client>>,
}

impl Shared {
    pub fn new<T>(mut config: Config, tls: T, options: Options) -> Result<Shared, Failure>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::TlsConnect: Send,
        T::Stream: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        complete(&mut config)?;
        let hosts = each_host(&config);
        let (hosts_for_functions, tls_for_functions) = (hosts.clone(), tls.clone());
        let open = move || open_one(&hosts_for_functions, &tls_for_functions);
        let dial = move |hear: Hear, statements: &'static str| -> Dialled {
            let (hosts, tls) = (hosts.clone(), tls.clone());
            Box::pin(async move {
                let mut why = SILENT.into();
                for host in hosts {
                    let (limit, looked) = (time(&host), spawn_blocking(move || addresses(&host)));
                    let Ok(Ok(places)) = timeout(limit, looked).await else {
                        continue;
                    };
                    for place in places {
                        match timeout(
                            limit,
                            dial_one(&place, tls.clone(), hear.clone(), statements),
                        )
                        .await
                        {
                            Ok(Ok(link)) => return Ok(link),
                            Ok(Err(error)) => why = error,
                            Err(_) => why = SILENT.into(),
                        }
                    }
                }
                Err(why)
            })
        };
        Ok(Shared {
            options,
            wake: Notify::new(),
            stopping: Notify::new(),
            is_busy: AtomicBool::new(false),
            is_quiet: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            state: Mutex::new(State::new(0)),
            dial: Box::new(dial),
            open: Box::new(open),
            kept: Mutex::new(Vec::new()),
        })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// A connection of the worker itself.
    pub async fn link(&self, hear: Hear) -> Result<Link, Failure> {
        (self.dial)(hear, SESSION).await
    }

    /// The connection for calls. A pooler in transaction mode lets clients take turns in its sessions, and a
    /// setting of a worker would stay there for the next client. Two connections show this: without a pooler
    /// the server has a process for each, which stays the same. Both are made at once, because a host may not
    /// answer. The second one is not worth an error: it may be one too many.
    pub async fn first_link(&self) -> Result<Link, Failure> {
        let hear: Hear = Arc::new(|_| {});
        let there = tokio::spawn((self.dial)(hear.clone(), PROCESS));
        let here = (self.dial)(hear, PROCESS).await;
        let there = there.await?;
        let here = here?;
        if let Ok(there) = there {
            if timeout(PATIENCE, is_shared(&here, &there)).await?? {
                let why = "a pooler in transaction mode is before the database: \
                    a worker needs session mode, or none";
                return Err(why.into());
            }
        }
        timeout(PATIENCE, here.client.batch_execute(SESSION)).await??;
        Ok(here)
    }

    /// A connection for a transaction of a function. One that was kept may be lost.
    pub fn client(&self) -> Result<Client, Failure> {
        loop {
            let Some(mut kept) = lock(&self.kept).pop() else {
                return (self.open)();
            };
            if kept.is_valid(PATIENCE).is_ok() {
                return Ok(kept);
            }
        }
    }

    pub fn keep(&self, client: Client) {
        lock(&self.kept).push(client);
    }

    /// Ends what the worker has kept. Not in an asynchronous function: postgres panics there.
    pub fn close(&self) {
        let kept = std::mem::take(&mut *lock(&self.kept));
        drop(kept);
    }

    /// The function of a job is over.
    pub fn over(&self, job: &Job, report: Report, error: Option<String>) {
        let has_failed = matches!(report, Report::Committed | Report::Fail(..));
        if let (true, Some(error)) = (has_failed, &error) {
            let (queue, key) = (&job.queue, &job.key);
            warn!(
                "{queue}: attempt {} at {key:?} failed: {error}",
                job.attempt
            );
        }
        let name = (job.id, job.lease);
        let mut state = self.state();
        // The worker may have ended without it.
        if state.runs.contains_key(&name) {
            let over = Over {
                name,
                report,
                error,
                again: Instant::now(),
            };
            state.over.push(over);
        }
        drop(state);
        self.wake.notify_one();
    }

    pub fn stop(&self) {
        self.is_quiet.store(true, SeqCst);
        self.is_stopped.store(true, SeqCst);
        self.stopping.notify_one();
    }

    /// Asks all runs to end, also those of a take that is under way.
    pub fn stop_all(&self) {
        let mut state = self.state();
        state.ends = true;
        for run in state.runs.values() {
            run.job.stop.set(Stopped::Ends);
        }
    }
}

/// A panic with a lock leaves nothing half done: no code of others runs there.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const SILENT: &str = "the database does not answer";

/// How long a host has to let the worker in.
fn time(host: &Config) -> Duration {
    host.get_connect_timeout().copied().unwrap_or(PATIENCE)
}

async fn dial_one<T>(host: &Config, tls: T, hear: Hear, statements: &str) -> Result<Link, Failure>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, mut connection) = host.connect(tls).await?;
    let task = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notice) = message {
                hear(&notice);
            }
        }
    });
    let link = Link { client, task };
    link.client.batch_execute(statements).await?;
    Ok(link)
}

/// Whether connections take turns in sessions. They may do so in any order, so one of them keeps its
/// session for a while.
async fn is_shared(here: &Link, there: &Link) -> Result<bool, Failure> {
    async fn process(link: &Link) -> Result<i32, Failure> {
        let rows = link.client.query_typed(PROCESS, &[]).await?;
        Ok(rows[0].try_get(0)?)
    }
    let (mine, other) = (process(here).await?, process(there).await?);
    let mut is_shared = mine == other;
    for _ in 0..3 {
        if is_shared {
            break;
        }
        here.client.batch_execute("BEGIN").await?;
        is_shared = process(here).await? != mine || process(there).await? != other;
        here.client.batch_execute("COMMIT").await?;
        is_shared |= process(here).await? != mine;
    }
    Ok(is_shared)
}

/// Each address has the time of its host.
fn open_one<T>(hosts: &[Config], tls: &T) -> Result<Client, Failure>
where
    T: MakeTlsConnect<Socket> + Clone + Send + 'static,
    T::TlsConnect: Send,
    T::Stream: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    let mut why = SILENT.into();
    for host in hosts {
        let (limit, host) = (time(host), host.clone());
        let places = within(limit, move || addresses(&host));
        for place in places.unwrap_or_default() {
            let (config, tls) = (postgres::Config::from(place), tls.clone());
            match within(limit, move || config.connect(tls)) {
                Ok(Ok(client)) => return Ok(client),
                Ok(Err(error)) => why = error.into(),
                Err(error) => why = error,
            }
        }
    }
    Err(why)
}

/// A thread does the work, because postgres itself waits for a silent host without an end. The thread
/// of such a host ends with its connection.
fn within<R: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Failure> {
    let (give, take) = mpsc::channel();
    std::thread::Builder::new().spawn(move || give.send(work()))?;
    take.recv_timeout(limit).map_err(|_| SILENT.into())
}

/// A configuration for each address of a host. The resolver may take its time. If it finds none, the
/// client says why.
fn addresses(host: &Config) -> Vec<Config> {
    let ([Host::Tcp(name)], []) = (host.get_hosts(), host.get_hostaddrs()) else {
        return vec![host.clone()];
    };
    let port = host.get_ports().first().copied().unwrap_or(5432);
    let found = (name.as_str(), port).to_socket_addrs();
    let mut each: Vec<Config> = found
        .into_iter()
        .flatten()
        .map(|address| {
            let mut one = host.clone();
            one.hostaddr(address.ip());
            one
        })
        .collect();
    if each.is_empty() {
        each.push(host.clone());
    }
    balance(host, &mut each);
    each
}

fn balance(all: &Config, each: &mut [Config]) {
    if all.get_load_balance_hosts() == LoadBalanceHosts::Random {
        each.sort_by_cached_key(|_| RandomState::new().hash_one(()));
    }
}

/// A configuration for each host, because the client has no limit for all that one host takes.
fn each_host(all: &Config) -> Vec<Config> {
    let (hosts, addresses, ports) = (all.get_hosts(), all.get_hostaddrs(), all.get_ports());
    let count = hosts.len().max(addresses.len());
    let fits = |length: usize| length == 0 || length == count;
    if !fits(hosts.len()) || !fits(addresses.len()) || ports.len() > 1 && !fits(ports.len()) {
        // The client says what is wrong.
        return vec![all.clone()];
    }
    let one_of = |n: usize| {
        let mut one = Config::new();
        match hosts.get(n) {
            Some(Host::Tcp(name)) => _ = one.host(name),
            Some(Host::Unix(path)) => _ = one.host_path(path),
            None => {}
        }
        addresses.get(n).map(|address| one.hostaddr(*address));
        ports.get(n).or(ports.first()).map(|port| one.port(*port));
        all.get_user().map(|user| one.user(user));
        all.get_password().map(|password| one.password(password));
        all.get_dbname().map(|name| one.dbname(name));
        all.get_options().map(|options| one.options(options));
        all.get_application_name()
            .map(|name| one.application_name(name));
        all.get_connect_timeout()
            .map(|time| one.connect_timeout(*time));
        all.get_tcp_user_timeout()
            .map(|time| one.tcp_user_timeout(*time));
        all.get_keepalives_interval()
            .map(|time| one.keepalives_interval(time));
        all.get_keepalives_retries()
            .map(|count| one.keepalives_retries(count));
        one.keepalives(all.get_keepalives())
            .keepalives_idle(all.get_keepalives_idle())
            .ssl_mode(all.get_ssl_mode())
            .ssl_negotiation(all.get_ssl_negotiation())
            .target_session_attrs(all.get_target_session_attrs())
            .channel_binding(all.get_channel_binding())
            .load_balance_hosts(all.get_load_balance_hosts());
        one
    };
    let mut each: Vec<Config> = (0..count).map(one_of).collect();
    balance(all, &mut each);
    each
}

/// Sets what libpq sets, and this client does not.
fn complete(config: &mut Config) -> Result<(), Failure> {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        let hosts = variable("PGHOST").unwrap_or_else(|| "/var/run/postgresql".to_owned());
        hosts.split(',').for_each(|host| {
            config.host(host);
        });
    }
    if let (true, Some(ports)) = (config.get_ports().is_empty(), variable("PGPORT")) {
        for port in ports.split(',') {
            config.port(
                port.parse()
                    .map_err(|_| format!("PGPORT={ports} is no port"))?,
            );
        }
    }
    if let (None, Some(user)) = (config.get_user(), variable("PGUSER")) {
        config.user(user);
    }
    if let (None, Some(name)) = (config.get_dbname(), variable("PGDATABASE")) {
        config.dbname(name);
    }
    if let (None, Some(password)) = (config.get_password(), variable("PGPASSWORD")) {
        config.password(password);
    }
    if config.get_application_name().is_none() {
        config.application_name("hwheel-worker");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(10));
    }
    if config.get_keepalives_interval().is_none() {
        config
            .keepalives_idle(Duration::from_secs(30))
            .keepalives_interval(Duration::from_secs(5));
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(30));
    }
    Ok(())
}
