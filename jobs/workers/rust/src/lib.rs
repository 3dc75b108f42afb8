//! Runs the jobs of hwheel's queues in functions of this program.
//!
//! ```no_run
//! use hwheel_worker::{Failure, Job, Options, Worker};
//!
//! fn send(job: &Job) -> Result<(), Failure> {
//!     job.transaction(|transaction| {
//!         transaction.execute("INSERT INTO sent VALUES ($1)", &[&job.key])?;
//!         Ok(())
//!     })
//! }
//!
//! let mut worker = Worker::new("dbname=app".parse()?, postgres::NoTls, Options::default())?;
//! worker.queue("mail", 10, send)?;
//! worker.run()?;
//! # Ok::<(), Failure>(())
//! ```
//!
//! A function runs in a thread. The job is done when the function returns `Ok`, or when its
//! transaction commits. An error or a panic is an attempt that failed. A program that is built
//! with `panic = "abort"` ends with the first panic.

mod calls;
mod database;
mod job;
mod turn;

pub use job::{Fail, Failure, Job, JobResult, Snooze, Stop, Stopped};
pub use tokio_postgres::Config;

use database::Shared;
use postgres::tls::{MakeTlsConnect, TlsConnect};
use postgres::Socket;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, iterator::Signals};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use turn::{Function, Session};

/// How a worker works.
#[derive(Clone, Debug)]
pub struct Options {
    /// A lease lasts for this time, from 0.1 s to a day. The worker extends it while the function
    /// runs, up to the timeout of the job.
    pub lease: Duration,
    /// At the end of the worker the functions that run have this time, a day at most, before they
    /// have to end.
    pub grace: Duration,
}

impl Default for Options {
    /// Both are 30 s.
    fn default() -> Options {
        let time = Duration::from_secs(30);
        Options {
            lease: time,
            grace: time,
        }
    }
}

struct Queue {
    name: String,
    concurrency: usize,
    function: Arc<Function>,
}

/// Takes jobs. Any thread may call its methods.
pub struct Worker {
    shared: Arc<Shared>,
    queues: Vec<Queue>,
}

impl Worker {
    /// Makes a worker, which connects when it runs. What the configuration lacks comes from
    /// `PGHOST`, `PGPORT`, `PGUSER`, `PGDATABASE` and `PGPASSWORD`. Each address of
    /// each host has the `connect_timeout`, by default 10 s, to let the worker in.
    pub fn new<T>(config: Config, tls: T, options: Options) -> Result<Worker, Failure>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::TlsConnect: Send,
        T::Stream: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        const DAY: Duration = Duration::from_secs(86400);
        if options.lease < Duration::from_millis(100) || options.lease.max(options.grace) > DAY {
            return Err("a lease is from 0.1 s to a day, and a grace is a day at most".into());
        }
        Ok(Worker {
            shared: Arc::new(Shared::new(config, tls, options)?),
            queues: Vec::new(),
        })
    }

    /// Gives the jobs of a queue to a function. `concurrency` of them run at once, from 1 to
    /// 10000, in a thread each.
    pub fn queue(
        &mut self,
        name: &str,
        concurrency: usize,
        function: impl Fn(&Job) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> Result<&mut Worker, Failure> {
        if self.queues.iter().any(|queue| queue.name == name) {
            return Err(format!("the queue {name:?} has a function already").into());
        } else if !(1..=10000).contains(&concurrency) {
            return Err("concurrency is from 1 to 10000".into());
        }
        self.queues.push(Queue {
            name: name.to_owned(),
            concurrency,
            function: Arc::new(function),
        });
        Ok(self)
    }

    /// Runs jobs until the process gets SIGTERM or SIGINT, or a thread calls [`Worker::stop`]. A
    /// second signal ends the process at once. It returns an error if it cannot work when it
    /// starts, or if functions do not end; they end with the process.
    pub fn run(&self) -> Result<(), Failure> {
        // Whether a signal does what it does to a process without a worker.
        static HAS_ENDED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
        if HAS_ENDED.get().is_none() {
            let has_ended = Arc::new(AtomicBool::new(true));
            for signal in [SIGTERM, SIGINT] {
                flag::register_conditional_default(signal, has_ended.clone())?;
            }
            let _ = HAS_ENDED.set(has_ended);
        }
        let has_ended = HAS_ENDED.get().expect("it is set");
        let mut signals = Signals::new([SIGTERM, SIGINT])?;
        let handle = signals.handle();
        let shared = self.shared.clone();
        has_ended.store(false, SeqCst);
        std::thread::Builder::new().spawn(move || {
            for _ in signals.forever() {
                has_ended.store(true, SeqCst);
                shared.stop();
            }
        })?;
        let result = self.serve();
        has_ended.store(true, SeqCst);
        handle.close();
        result
    }

    /// [`Worker::run`] without signals: until a thread calls [`Worker::stop`].
    pub fn serve(&self) -> Result<(), Failure> {
        if self.queues.is_empty() {
            return Err("no queue has a function".into());
        }
        self.during(async |session| session.serve().await)
    }

    /// For tests: runs the jobs that are due, one after the other, until none is due or `limit`
    /// have run. It needs no node.
    pub fn drain(&self, limit: usize) -> Result<Vec<JobResult>, Failure> {
        self.during(async |session| session.drain(limit).await)
    }

    /// Takes no more jobs. What runs goes on.
    pub fn quiet(&self) {
        self.shared.is_quiet.store(true, SeqCst);
    }

    /// Ends [`Worker::run`] and [`Worker::serve`]: takes no more jobs, and waits for those that run.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// In another thread, so that a thread of an asynchronous runtime may call it, too.
    fn during<T: Send>(
        &self,
        work: impl AsyncFnOnce(&mut Session) -> Result<T, Failure> + Send,
    ) -> Result<T, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        if self.shared.is_busy.swap(true, SeqCst) {
            return Err("the worker runs already".into());
        }
        let in_thread = || {
            let mut session = Session::new(&self.shared, &self.queues);
            let result = runtime.block_on(work(&mut session));
            session.close();
            // A host name may still be looked up.
            runtime.shutdown_background();
            result
        };
        let result = std::thread::scope(|scope| scope.spawn(in_thread).join());
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
