//! The connections of a worker, and what its threads share.

use crate::job::{Job, JobResult, Report, Stopped};
use crate::{Config, Failure, Options};
use log::warn;
use postgres::tls::{MakeTlsConnect, TlsConnect};
use postgres::{Client, Error, Socket};
use std::collections::HashMap;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Notification};

/// A call that takes longer loses its connection.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

const SESSION: &str = "SET search_path = pg_catalog, pg_temp; SET lock_timeout = '100 ms';
    SET statement_timeout = '10 s'; SET idle_session_timeout = 0;
    SET default_transaction_isolation = 'read committed'";

pub(crate) type Hear = Box<dyn Fn(&Notification) + Send>;
type Dialled = Pin<Box<dyn Future<Output = Result<Link, Error>> + Send>>;

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
}

pub(crate) struct State {
    pub runs: HashMap<Name, Run>,
    pub over: Vec<Over>,
    pub running: Vec<usize>,
    pub may_have_more: Vec<bool>,
    pub next_look: Instant,
    pub next_beat: Instant,
    pub last: Option<JobResult>,
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
    dial: Box<dyn Fn(Hear) -> Dialled + Send + Sync>,
    open: Box<dyn Fn() -> Result<Client, Error> + Send + Sync>,
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
        let (for_functions, tls_for_functions) = (config.clone(), tls.clone());
        let open = move || {
            postgres::Config::from(for_functions.clone()).connect(tls_for_functions.clone())
        };
        let dial = move |hear: Hear| -> Dialled {
            let (config, tls) = (config.clone(), tls.clone());
            Box::pin(async move {
                let (client, mut connection) = config.connect(tls).await?;
                let task = tokio::spawn(async move {
                    while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                        if let AsyncMessage::Notification(notice) = message {
                            hear(&notice);
                        }
                    }
                });
                Ok(Link { client, task })
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
        let connecting = async {
            let link = (self.dial)(hear).await?;
            link.client.batch_execute(SESSION).await?;
            Ok(link)
        };
        match timeout(PATIENCE, connecting).await {
            Ok(link) => link,
            Err(_) => Err("the database does not answer".into()),
        }
    }

    /// A connection for a transaction of a function. One that was kept may be lost.
    pub fn client(&self) -> Result<Client, Error> {
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

    pub fn stop_all(&self, why: Stopped) {
        for run in self.state().runs.values() {
            run.job.stop.set(why);
        }
    }
}

/// A panic with a lock leaves nothing half done: no code of others runs there.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
