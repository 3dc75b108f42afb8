//! A node: it enters, claims what is due within the window, and listens.

use crate::args::Run;
use crate::clock::{self, Bounds};
use crate::connect::Config;
use crate::db::{self, Error, Failure, Link};
use crate::held::Held;
use crate::install::SCHEMA;
use crate::job::{word, Job, Kind};
use crate::outcome::plan;
use crate::recur::Step;
use crate::serve::{self, of_type, plain, Request};
use crate::{outside, sql_jobs};
use hyper::StatusCode;
use jiff::tz::TimeZone;
use jiff::Timestamp;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::TcpListener;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Jobs claimed by one call.
const BATCH: usize = 1000;

/// Jobs claimed by the first call of a node that holds none. They fire while it claims the others.
const FIRST_BATCH: usize = 100;

/// Time between two claims that notifications ask for.
const PAUSE: Duration = Duration::from_millis(20);

/// Time between two notifications to applications.
const GATHER: Duration = Duration::from_millis(10);

/// Time between two looks at what is too old.
const TEND: Duration = Duration::from_secs(3600);

/// How long the end of a node waits for commands and requests.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs jobs until a signal ends the node.
pub fn run(config: Config, options: Run) -> Result<(), String> {
    let config = config.for_writes();
    let name = options.name.clone().unwrap_or_else(default_name);
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(|e| format!("signals: {e}"))?;
    let held = Held::new();
    if let Some(address) = options.metrics {
        let listener =
            TcpListener::bind(address).map_err(|e| format!("--metrics {address}: {e}"))?;
        let address = listener
            .local_addr()
            .map_err(|e| format!("--metrics {address}: {e}"))?;
        log::info!("metrics on http://{address}/metrics, health on /healthz");
        serve_metrics(held.clone(), listener);
    }

    let link = |purpose: &str| Link::new(&config, format!("hwheel-jobs {name}{purpose}"));
    let mut node = Node::new(held.clone(), link(""), name.clone(), &options);
    // A mistake in the command line or the schema ends the program now. A server that
    // cannot be reached does not.
    if let Err(e) = node.enter() {
        if db::failure(&e) == Failure::Statement || db::is_refused(&e) {
            return Err(explain(&e));
        }
        node.link.back_off(&e);
    }
    node.warn_of_rights();
    if is_shared(&config, &mut node.link) {
        leave(link(" leave"), &held)?;
        return Err(POOLER.to_owned());
    }
    let mut workers = Vec::new();
    for n in 1..=options.connections {
        let (held, link) = (held.clone(), link(&format!(" fire {n}")));
        workers.push(thread::spawn(move || sql_jobs::work(&held, link)));
    }
    let (others, runs) = ((held.clone(), link(" run")), usize::from(options.runs));
    workers.push(thread::spawn(move || {
        outside::work(&others.0, others.1, runs)
    }));
    {
        let (held, link) = (held.clone(), link(" wake"));
        thread::spawn(move || ring(&held, link));
    }
    let control = thread::spawn(move || node.work());

    signals.forever().next();
    log::info!("closing: running jobs may end within {PATIENCE:?}");
    held.close();
    thread::spawn(move || {
        signals.forever().next();
        std::process::exit(1);
    });
    let end = Instant::now() + PATIENCE;
    while workers.iter().any(|worker| !worker.is_finished()) && Instant::now() < end {
        thread::sleep(Duration::from_millis(10));
    }
    // That thread ends at its next turn. The node leaves before.
    drop(control);
    leave(link(" leave"), &held)?;
    match REASON.get() {
        Some(why) => Err(why.clone()),
        None => Ok(()),
    }
}

const POOLER: &str =
    "a pooler in transaction mode is before the database: a node needs session mode, or none";

/// Why the node ends without having been asked to.
static REASON: OnceLock<String> = OnceLock::new();

/// Ends the node as a signal does. Others may run its jobs, and its supervisor may start
/// it again.
pub fn give_up(why: &str) {
    if REASON.set(why.to_owned()).is_ok() {
        // SAFETY: no memory is passed.
        unsafe { libc::kill(libc::getpid(), SIGTERM) };
    }
}

/// Whether two connections take turns in one session. The second one is not worth an
/// error: it may be one too many.
fn is_shared(config: &Config, link: &mut Link) -> bool {
    let Ok(mut other) = db::connect(config, "hwheel-jobs start") else {
        return false;
    };
    let sql = "SELECT pg_catalog.pg_backend_pid()";
    (0..3).any(|_| {
        let here = link.ask(|session| session.client.query_once(sql, &[]));
        let there = other.query_once(sql, &[]);
        match (here, there) {
            (Ok(here), Ok(there)) => here[0].get::<_, i32>(0) == there[0].get::<_, i32>(0),
            _ => false,
        }
    })
}

fn default_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

/// An error at the start, with advice for the user.
pub fn explain(error: &Error) -> String {
    use tokio_postgres::error::SqlState;
    match error.code() {
        Some(
            &SqlState::UNDEFINED_FUNCTION
            | &SqlState::INVALID_SCHEMA_NAME
            | &SqlState::UNDEFINED_TABLE,
        ) => "the schema hwheel is not there: run hwheel-jobs install".to_owned(),
        // Another client has the session in which the statement was prepared.
        Some(&SqlState::INVALID_SQL_STATEMENT_NAME | &SqlState::DUPLICATE_PSTATEMENT) => {
            POOLER.to_owned()
        }
        _ if db::is_refused(error) => {
            let why = db::describe(error);
            // Debian's servers ask this of those who come through the socket.
            let hint = if why.contains("eer authentication failed") {
                ": through its socket the server lets a user of the system in as the role of the \
                 same name"
            } else {
                ""
            };
            format!("the database refuses the connection: {why}{hint}")
        }
        _ => db::describe(error),
    }
}

fn serve_metrics(held: Arc<Held>, listener: TcpListener) {
    let answer = move |request: &Request| match request.uri().path() {
        "/" | "/metrics" => {
            let (count, offset) = (held.len(), held.offset().as_secs_f64());
            let text = held.metrics.prometheus(count, offset);
            of_type("text/plain; version=0.0.4", StatusCode::OK, text)
        }
        "/healthz" => match held.health() {
            Ok(line) => plain(StatusCode::OK, line + "\n"),
            Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
        },
        _ => plain(StatusCode::NOT_FOUND, "/metrics or /healthz\n"),
    };
    thread::spawn(move || {
        if let Err(e) = serve::serve(listener, answer) {
            log::error!("no metrics: {e}");
        }
    });
}

/// Wakes applications whose jobs are due, each queue once in a while at most.
fn ring(held: &Held, mut link: Link) {
    while let Some((queues, at)) = held.take_bells() {
        // It has a connection before it is in a hurry, and only if there are applications.
        let sql = "SELECT hwheel._ring($1, $2)";
        let rung = Instant::now();
        match link.ask(|session| session.query(sql, &[&queues, &at])) {
            Ok(_) => link.works(),
            // The next turn wakes applications that have work.
            Err(e) => link.back_off(&e),
        }
        thread::sleep(GATHER.saturating_sub(rung.elapsed()));
    }
}

/// Gives the jobs back.
fn leave(mut link: Link, held: &Held) -> Result<(), String> {
    let Some(id) = held.node() else {
        return Ok(());
    };
    let answer = link.ask(|session| session.query("SELECT hwheel._leave($1)", &[&id]));
    match answer {
        Ok(_) => log::info!("node {id} has left"),
        Err(e) => log::warn!(
            "node {id} leaves its jobs to its lease: {}",
            db::describe(&e)
        ),
    }
    Ok(())
}

struct Node {
    held: Arc<Held>,
    link: Link,
    name: String,
    /// It has entered, and has not compared its time zones.
    is_new: bool,
    kinds: Vec<String>,
    capacity: usize,
    window: Duration,
    lease: Duration,
    /// Time between two claims without notifications.
    turn: Duration,
}

impl Node {
    fn new(held: Arc<Held>, link: Link, name: String, options: &Run) -> Node {
        let mut kinds: Vec<String> = options.kinds.iter().copied().map(word).collect();
        kinds.dedup();
        kinds.push("app".to_owned()); // Only to compute their runs.
        let capacity = options.capacity as usize;
        let [window, lease, turn] = [Duration::ZERO; 3];
        Node {
            held,
            link,
            name,
            is_new: true,
            kinds,
            capacity,
            window,
            lease,
            turn,
        }
    }

    /// Gets a number and a lease.
    fn enter(&mut self) -> Result<i64, Error> {
        let sql = "SELECT * FROM hwheel._enter($1, $2)";
        let rows = self
            .link
            .ask(|session| session.query(sql, &[&self.name, &SCHEMA]))?;
        let ms = |column| Duration::from_millis(rows[0].get::<_, i64>(column).unsigned_abs());
        let (window, lease) = (ms("window_ms"), ms("lease_ms"));
        let id: i64 = rows[0].get("id");
        self.window = window;
        self.lease = lease;
        // So it can miss one turn, and looks at the database less than ten times a minute.
        self.turn = window.min(lease * 2 / 3) * 13 / 20;
        self.link
            .prepare(format!("UNLISTEN *; LISTEN hwheel; LISTEN hwheel_{id}"))?;
        self.is_new = true;
        self.held.forget();
        self.held.set_node(Some(id));
        self.held.renewed(lease);
        log::info!(
            "node {id} ({}): window {window:?}, lease {lease:?}",
            self.name
        );
        Ok(id)
    }

    /// Says that every job can do everything.
    fn warn_of_rights(&mut self) {
        let sql = "SELECT rolsuper FROM pg_roles WHERE rolname = session_user";
        let rows = self.link.ask(|session| session.query(sql, &[]));
        if rows.is_ok_and(|rows| rows[0].get(0)) {
            log::warn!(
                "this node is a superuser of the database, and so is each of its SQL jobs: \
                 hwheel-jobs install --grants prints roles that may do less"
            );
        }
    }

    /// Stores which time zones this node does not know: it must not claim their jobs. The server
    /// reads a file for each zone, so at the start of the program the other connections are made
    /// meanwhile.
    fn compare_zones(&mut self, id: i64) -> Result<(), Error> {
        let sql = "SELECT * FROM hwheel._zones()";
        let zones = self.link.ask(|session| session.query(sql, &[]))?;
        let zones = zones.iter().map(|row| row.get::<_, String>(0));
        let unknown: Vec<String> = zones.filter(|zone| TimeZone::get(zone).is_err()).collect();
        if !unknown.is_empty() {
            log::warn!("time zones that only the database knows: {unknown:?}");
            let sql = "SELECT hwheel._unknown_zones($1, $2)";
            self.link
                .ask(|session| session.query(sql, &[&id, &unknown]))?;
        }
        self.is_new = false;
        Ok(())
    }

    /// Claims and listens until the node closes.
    fn work(&mut self) {
        while !self.held.is_closing() {
            let Err(e) = self.turns() else {
                return;
            };
            if self.held.is_closing() {
                return;
            }
            if e.code().is_some_and(|code| code.code() == "HW001") {
                log::warn!("{}; it enters again", db::describe(&e));
                self.held.set_node(None);
                continue;
            }
            // The node cannot know what a call that failed has claimed.
            self.held.unsure();
            self.link.back_off(&e);
        }
    }

    /// Claims once per turn, and earlier when a notification asks for it.
    fn turns(&mut self) -> Result<(), Error> {
        let id = match self.held.node() {
            Some(id) => id,
            None => self.enter()?,
        };
        if self.is_new {
            self.compare_zones(id)?;
        }
        let mut next_claim = Instant::now();
        let mut next_tend = next_claim;
        while !self.held.is_closing() {
            let now = Instant::now();
            if now >= next_claim {
                let (is_full, turn) = self.claim(id)?;
                self.link.works();
                next_claim = now + if is_full { self.turn / 20 } else { turn };
            }
            // Behind the claim, which renews the lease of a node that has lost its connection.
            if now >= next_tend {
                self.tend();
                next_tend = now + TEND;
            }
            if let Some(near) = self.listen(next_claim)? {
                next_claim = next_claim.min(near.max(now + PAUSE));
            }
        }
        Ok(())
    }

    /// Has the database delete what is too old.
    fn tend(&mut self) {
        let tended = self
            .link
            .ask(|session| session.query("SELECT hwheel._tend()", &[]));
        if let Err(e) = tended {
            log::warn!("what is too old stays: {}", db::describe(&e));
        }
    }

    /// Claims what is due within the window. True if the node had room for no more. The time
    /// is the longest until the next claim.
    fn claim(&mut self, id: i64) -> Result<(bool, Duration), Error> {
        if self.held.was_unsure() {
            let sql = "SELECT * FROM hwheel._held3($1)";
            let rows = self.link.ask(|session| session.query(sql, &[&id]))?;
            self.arm(rows.iter().map(Job::from));
        }
        let sql = "SELECT * FROM hwheel._turn3($1, $2, $3, $4, $5, $6)";
        let mut batch = if self.held.len() == 0 {
            FIRST_BATCH
        } else {
            BATCH
        };
        loop {
            let room = self.capacity.saturating_sub(self.held.len());
            let at_most = room.min(batch) as i32;
            let metrics = &self.held.metrics;
            let offset = self.held.offset().as_micros() as i64;
            let (failed, lateness) = (metrics.failed(), metrics.lateness());
            let asked = Timestamp::now();
            let rows = self.link.ask(|session| {
                session.query(
                    sql,
                    &[&id, &at_most, &self.kinds, &offset, &failed, &lateness],
                )
            })?;
            let answered = Timestamp::now();
            self.held.renewed(self.lease);
            let what = |what: &'static str| {
                rows.iter()
                    .filter(move |row| row.get::<_, &str>("what") == what)
            };
            let turn = what("turn").next().expect("the last row");
            let time: Timestamp = turn.get("due");
            // That call may have taken long. So it does not correct the clock itself.
            if !Bounds::new(asked, time, answered).contains(self.held.offset()) {
                let bounds = self.link.ask(clock::measure)?;
                self.held.measured(bounds);
            }
            self.held.set_limits(what("limit").map(|row| {
                let (max, rate) = (row.get("max_running"), row.get("rate"));
                (row.get("key"), max, rate)
            }));
            self.held
                .set_bells(what("bell").map(|row| (row.get("key"), row.get("due"))));
            let jobs: Vec<Job> = what("job").map(Job::from).collect();
            let count = jobs.len();
            metrics.claimed.fetch_add(count as u64, Relaxed);
            self.arm(jobs.into_iter());
            if count < batch {
                // The jobs of a node that is lost are taken at once when its lease ends.
                let lease_ends: Option<Timestamp> = turn.get("occurrence");
                let left = lease_ends.map_or(self.turn, |end| {
                    Duration::try_from(end.duration_since(time)).unwrap_or_default() + PAUSE
                });
                return Ok((count == room, left.min(self.turn)));
            }
            batch = BATCH;
        }
    }

    /// Arms claimed jobs. Those without a due time get their first run.
    fn arm(&mut self, jobs: impl Iterator<Item = Job>) {
        let (planned, new): (Vec<Job>, Vec<Job>) = jobs.partition(|job| job.due.is_some());
        self.held.arm(planned);
        let now = self.held.now();
        let first = |job: Job| {
            let recurrence = job
                .recurrence
                .clone()
                .expect("only jobs that recur have no due time");
            let step = if job.ran && job.kind == Kind::App {
                recurrence.step(job.occurrence, now)
            } else {
                recurrence.first(job.occurrence).map(|next| Step {
                    next: Some(next),
                    skipped: 0,
                })
            };
            (job, step)
        };
        let new: Vec<_> = new.into_iter().map(first).collect();
        plan(&self.held, &mut self.link, &new);
    }

    /// Waits for one notification. Returns when it asks for a claim.
    fn listen(&mut self, until: Instant) -> Result<Option<Instant>, Error> {
        let timeout = until.saturating_duration_since(Instant::now());
        let notification = self
            .link
            .ask(|session| session.client.notification(timeout))?;
        let Some(notification) = notification else {
            return Ok(None);
        };
        let text = notification.payload();
        if notification.channel() != "hwheel" {
            let numbers = text
                .split_once(' ')
                .map(|(id, fence)| (id.parse(), fence.parse()));
            if let Some((Ok(id), Ok(fence))) = numbers {
                self.held.revoke(id, fence);
            }
            return Ok(None);
        }
        // A claim that can wait a little may find more jobs.
        let due_ms = text.parse().unwrap_or(0);
        let due = Timestamp::from_millisecond(due_ms).unwrap_or(Timestamp::MIN);
        let ahead = Duration::try_from(due.duration_since(self.held.now())).unwrap_or_default();
        Ok(Some(Instant::now() + ahead.saturating_sub(self.window / 4)))
    }
}
