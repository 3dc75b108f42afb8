//! A node: it enters, claims what is due within the window, and listens.

use crate::args::Run;
use crate::clock::{self, Bounds};
use crate::connect::Config;
use crate::db::{self, Error, Failure, Heard, Link};
use crate::held::Held;
use crate::install::{any_bytes, ANY_BYTES, SCHEMA};
use crate::job::{self, word, Job, Kind};
use crate::outcome::plan;
use crate::recur::{self, Step};
use crate::serve::{self, of_type, plain, Request};
use crate::stop::Way;
use crate::{command, outside, sql_jobs};
use hyper::StatusCode;
use jiff::Timestamp;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::{HashMap, HashSet};
use std::net::TcpListener;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};
use tokio_postgres::Row;

/// Jobs claimed by one call.
const BATCH: i64 = 1000;

/// Jobs claimed by the first call of a node that holds none. They fire while it claims the others.
const FIRST_BATCH: i64 = 100;

/// Time between two claims that notifications ask for.
const PAUSE: Duration = Duration::from_millis(20);

/// Time between two notifications to applications.
const GATHER: Duration = Duration::from_millis(10);

/// Time between two lines in the log about a queue that waits for a node.
const SAY_AGAIN: Duration = Duration::from_secs(600);

/// How long a node that ends waits until it has written down what became of the commands that it
/// has killed.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Time between two looks at what is too old.
const TEND: Duration = Duration::from_secs(3600);

/// Time between two looks at claims that somebody says are no longer this node's.
const DOUBT: Duration = Duration::from_millis(50);

/// Claims that notifications ask for, and that find nothing, take this much longer at most.
const DULL: u32 = 4;

/// Time until a node plans jobs again that somebody had locked.
const REPLAN: Duration = Duration::from_millis(250);

/// One call makes this number of jobs due that have waited for others. Each may have a thousand keys.
const UNBLOCK: i64 = 100;

/// One call looks at the keys of this number of jobs that wait for others.
const UNBLOCK_ROWS: i64 = 1000;

/// One call looks at the keys of this number of jobs that notifications have named. Each may have a
/// thousand.
const NAMED: usize = 20;

/// A node remembers this number of them. It finds the others by itself.
const MOST_NAMED: usize = 1000;

/// The time between two looks at jobs that wait for others is this multiple of the time of a look.
const UNBLOCK_PAUSE: u32 = 3;

/// Leases of applications that have run out are ended in this many calls at most between two
/// claims.
const TIDY: usize = 10;

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
    let is_mistake = |e: &Error| db::failure(e) == Failure::Statement || db::is_refused(e);
    loop {
        match is_shared(&config) {
            Ok(false) => break,
            Ok(true) => return Err(POOLER.to_owned()),
            Err(e) if is_mistake(&e) => return Err(explain(&e)),
            Err(e) => node.link.back_off(&e),
        }
        if signals.pending().next().is_some() {
            return Ok(());
        }
    }
    if let Err(e) = node.enter() {
        if is_mistake(&e) {
            return Err(explain(&e));
        }
        node.link.back_off(&e);
    }
    node.warn_of_rights();
    let any_bytes = node.link.ask(|session| any_bytes(&mut session.client));
    if matches!(any_bytes, Ok(true)) {
        leave(link(" leave"), &held)?;
        return Err(ANY_BYTES.to_owned());
    }
    {
        let (held, link) = (held.clone(), link(" lease"));
        let kinds = node.kinds.clone();
        thread::spawn(move || keep(&held, link, &kinds));
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
    let grace = Duration::from_secs(options.grace.into());
    log::info!("closing: running jobs may end within {grace:?}");
    held.close();
    thread::spawn(move || {
        signals.forever().next();
        std::process::exit(1);
    });
    let wait = |time: Duration| {
        let end = Instant::now() + time;
        while workers.iter().any(|worker| !worker.is_finished()) && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
    };
    wait(grace);
    // Whoever gets the jobs next may run them at once.
    let killed = command::kill_all();
    if killed > 0 {
        log::warn!("{killed} commands are killed: they did not end within {grace:?}");
        wait(LAST_WORDS);
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

/// Whether a pooler lets clients take turns in its sessions. A setting of a node would stay in the session
/// for the next client, so a node looks before it sets one. Two connections show this: without a pooler the
/// server has a process for each, which stays the same. A pooler may take its sessions in any order, so one
/// of the connections keeps its session for a while.
fn is_shared(config: &Config) -> Result<bool, Error> {
    let process = |client: &mut db::Client| -> Result<i32, Error> {
        let rows = client.query_once("SELECT pg_catalog.pg_backend_pid()", &[])?;
        Ok(rows[0].get(0))
    };
    let mut here = db::connect(config, "hwheel-jobs start")?;
    let mine = process(&mut here)?;
    // The second one is not worth an error: it may be one too many.
    let Ok(mut there) = db::connect(config, "hwheel-jobs start") else {
        return Ok(false);
    };
    let Ok(other) = process(&mut there) else {
        return Ok(false);
    };
    let mut is_shared = mine == other;
    for _ in 0..3 {
        if is_shared {
            break;
        }
        here.batch_execute("BEGIN")?;
        is_shared = process(&mut here)? != mine || process(&mut there)? != other;
        here.batch_execute("COMMIT")?;
        is_shared |= process(&mut here)? != mine;
    }
    Ok(is_shared)
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

/// So a node can miss one turn, and looks at the database less than ten times a minute.
fn turn_of(window: Duration, lease: Duration) -> Duration {
    window.min(lease * 2 / 3) * 13 / 20
}

/// Renews the lease, whatever else the node waits for.
fn keep(held: &Held, mut link: Link, kinds: &[String]) {
    let mut is_again = false;
    loop {
        let Some(id) = held.node() else {
            thread::sleep(PAUSE); // The node enters.
            continue;
        };
        let metrics = &held.metrics;
        let offset = held.offset().as_micros() as i64;
        let (failed, lateness) = (metrics.failed(), metrics.lateness());
        let sql = "SELECT r.*,
                (SELECT date_part('epoch', window_length) FROM hwheel.settings) AS window_s,
                (SELECT date_part('epoch', lease_length) FROM hwheel.settings) AS lease_s
            FROM hwheel._renew5($1, $2, $3, $4, $5) r";
        let asked = Instant::now();
        let answer =
            link.ask(|session| session.query(sql, &[&id, &kinds, &offset, &failed, &lateness]));
        match answer {
            Ok(rows) => {
                link.works();
                is_again = false;
                let row = &rows[0];
                let renewed: bool = row.get("renewed");
                let seconds = |column| Duration::from_secs_f64(row.get(column));
                // Somebody may have changed the length. The lease that was renewed has the new one.
                let lease = seconds("lease_s");
                let turn = turn_of(seconds("window_s"), lease);
                held.renewed(id, renewed.then_some(asked), lease);
                if row.get::<_, i64>("expelled") > 0 {
                    held.wake.notify_one();
                }
                // The jobs of a node that is lost are taken at once when its lease ends.
                let ends: Option<Timestamp> = row.get("until");
                let left = ends.map_or(turn, |end| {
                    let left = end.duration_since(row.get("at"));
                    Duration::try_from(left).unwrap_or_default() + PAUSE
                });
                let longest = if renewed { turn } else { lease / 10 };
                thread::sleep(left.min(longest));
            }
            Err(e) if e.code().is_some_and(|code| code.code() == "HW001") => {
                if held.expelled(id) {
                    log::warn!("{}; it enters again", db::describe(&e));
                }
            }
            // A connection that has ended since the last call costs no time.
            Err(e) if !is_again && db::failure(&e) == Failure::Connection => is_again = true,
            Err(e) => link.back_off(&e),
        }
    }
}

fn is(row: &Row, what: &str) -> bool {
    row.get::<_, &str>("what") == what
}

fn is_job(row: &Row) -> bool {
    is(row, "job")
}

/// Gives the jobs back.
fn leave(mut link: Link, held: &Held) -> Result<(), String> {
    let Some(id) = held.node() else {
        return Ok(());
    };
    let (paced, at) = held.paced();
    let sql = "SELECT hwheel._leave5($1, $2, $3)";
    let answer = link.ask(|session| session.query(sql, &[&id, &paced, &at]));
    match answer {
        Ok(_) => {
            log::info!("node {id} has left");
            // Without it others see the jobs with their next turns.
            let _ = link.ask(|session| session.query("SELECT hwheel._hint()", &[]));
        }
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
    /// Time between two claims without notifications.
    turn: Duration,
    /// Claims that somebody says are no longer this node's.
    doubted: HashSet<(i64, i64)>,
    /// Somebody says that a run is to be stopped.
    must_stop: bool,
    /// The claims in a row that notifications asked for, and that found nothing.
    dull: u32,
    /// The last claim has left jobs behind for which there is room.
    is_hungry: bool,
    /// Queues with jobs that no node runs, which the log has named, and when.
    stuck: HashMap<String, Instant>,
    /// Jobs that wait for others, and somebody says that one of these has ended.
    named: HashSet<i64>,
    /// How far it has looked at the others.
    unblock: Round,
}

/// A round through the jobs that wait for others, in the order of their keys.
struct Round {
    began: Instant,
    /// The key after which it goes on. None: it begins.
    after: Option<Vec<u8>>,
    /// When it goes on.
    at: Instant,
}

impl Round {
    /// A part has been looked at. A round of many parts begins once per turn at most.
    fn goes_on(&mut self, begin: Instant, next: Option<Vec<u8>>, turn: Duration) {
        let is_first = self.after.is_none();
        if is_first {
            self.began = begin;
        }
        self.at = begin + turn.min(begin.elapsed() * UNBLOCK_PAUSE);
        if next.is_none() && !is_first {
            self.at = self.at.max(self.began + turn);
        }
        self.after = next;
    }
}

/// When a node claims next.
struct Next {
    at: Instant,
    /// A notification has asked for it.
    is_hinted: bool,
}

impl Node {
    fn new(held: Arc<Held>, link: Link, name: String, options: &Run) -> Node {
        let mut kinds: Vec<String> = options.kinds.iter().copied().map(word).collect();
        kinds.dedup();
        kinds.push("app".to_owned()); // Only to compute their runs.
        let capacity = options.capacity as usize;
        let [window, turn] = [Duration::ZERO; 2];
        Node {
            held,
            link,
            name,
            is_new: true,
            kinds,
            capacity,
            window,
            turn,
            doubted: HashSet::new(),
            must_stop: false,
            dull: 0,
            is_hungry: false,
            stuck: HashMap::new(),
            named: HashSet::new(),
            unblock: Round {
                began: Instant::now(),
                after: None,
                at: Instant::now(),
            },
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
        self.turn = turn_of(window, lease);
        self.link
            .prepare(format!("UNLISTEN *; LISTEN hwheel; LISTEN hwheel_{id}"))?;
        self.is_new = true;
        self.doubted.clear();
        self.held.forget();
        self.held.entered(id, lease);
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
        let unknown: Vec<String> = zones.filter(|name| recur::zone(name).is_err()).collect();
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
                continue; // The node was expelled, or it closes.
            };
            if self.held.is_closing() {
                return;
            }
            if e.code().is_some_and(|code| code.code() == "HW001") {
                if self.held.node().is_some_and(|id| self.held.expelled(id)) {
                    log::warn!("{}; it enters again", db::describe(&e));
                }
                continue;
            }
            // The node cannot know what a call that failed has claimed.
            self.held.unsure();
            self.link.back_off(&e);
        }
    }

    /// Claims once per turn, and earlier when a notification asks for it. Returns when the node
    /// is no longer the same.
    fn turns(&mut self) -> Result<(), Error> {
        let id = match self.held.node() {
            Some(id) => id,
            None => self.enter()?,
        };
        if self.is_new {
            self.compare_zones(id)?;
        }
        let now = Instant::now();
        let mut next = Next {
            at: now,
            is_hinted: false,
        };
        let (mut next_tend, mut next_look, mut next_watch) = (now, now, now);
        while !self.held.is_closing() && self.held.node() == Some(id) {
            let now = Instant::now();
            if now >= next.at {
                let (found, wait) = self.claim(id)?;
                self.link.works();
                self.dull = match (found, next.is_hinted) {
                    (true, _) => 0,
                    (false, true) => self.dull.saturating_add(1),
                    (false, false) => self.dull,
                };
                next = Next {
                    at: now + wait,
                    is_hinted: false,
                };
            }
            // Behind the claim: what is due comes first.
            if now >= next_tend {
                self.tend();
                next_tend = now + TEND;
            }
            if now >= next_watch {
                self.link.ask(|session| session.has_ended_all())?;
                next_watch = now + self.turn;
            }
            if self.must_look() && now >= next_look {
                self.look(id)?;
                next_look = Instant::now() + DOUBT;
            }
            let until = if !self.must_look() {
                next.at
            } else {
                next.at.min(next_look)
            };
            if let Some(near) = self.listen(until)? {
                // Anybody may notify. If nothing comes of it the node looks less often.
                let pause = PAUSE * (1 + (self.dull / 4).min(DULL));
                let at = near.max(now + pause);
                if at < next.at {
                    let is_hinted = true;
                    next = Next { at, is_hinted };
                }
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

    fn must_look(&self) -> bool {
        self.must_stop || !self.doubted.is_empty()
    }

    /// Asks runs to end whose jobs are cancelled.
    fn stop(&mut self, id: i64) -> Result<(), Error> {
        self.must_stop = false;
        let sql = "SELECT * FROM hwheel._stopping($1)";
        let rows = self.link.ask(|session| session.query(sql, &[&id]))?;
        for row in rows {
            let (id, fence): (i64, i64) = (row.get("id"), row.get("fence"));
            match self.held.stops.ask(id, fence) {
                Some(Way::Asked { is_first: true }) => {
                    log::info!("job {id} is cancelled: its run is asked to end");
                }
                Some(Way::Server(firing)) => {
                    // While it is locked the session does nothing else.
                    let process = firing.lock().expect("no code panics with the lock");
                    if let Some(process) = *process {
                        log::info!("job {id} is cancelled: the server cancels its function");
                        // To cancel a commit that waits for a standby would not undo the commit, and would
                        // show it before the standby has it.
                        let sql = "SELECT pg_cancel_backend(a.pid) FROM pg_stat_get_activity($1) a
                            WHERE a.wait_event IS DISTINCT FROM 'SyncRep'";
                        self.link.ask(|session| session.query(sql, &[&process]))?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Drops the claims that are in fact no longer this node's, and stops what is cancelled.
    fn look(&mut self, id: i64) -> Result<(), Error> {
        if self.must_stop {
            self.stop(id)?;
        }
        if self.doubted.is_empty() {
            return Ok(());
        }
        let (ids, fences): (Vec<i64>, Vec<i64>) = self.doubted.drain().unzip();
        let sql = "SELECT * FROM hwheel._not_mine($1, $2, $3)";
        let rows = self
            .link
            .ask(|session| session.query(sql, &[&id, &ids, &fences]))?;
        for row in rows {
            self.held.revoke(row.get("id"), row.get("fence"));
        }
        Ok(())
    }

    /// Claims what is due within the window, in one round through the queues. Returns whether
    /// there was anything, and the longest time until the next claim.
    fn claim(&mut self, id: i64) -> Result<(bool, Duration), Error> {
        // The new connection may lead to another server, which lacks the last commits.
        if self.link.is_another()? {
            self.held.unsure();
        }
        if self.held.must_ask(self.turn) {
            self.ask_for_all(id)?;
        }
        let unplanned = self.held.take_unplanned();
        self.first_runs(unplanned);
        let sql = "SELECT * FROM hwheel._turn5($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        let mut batch = if self.held.len() == 0 && !self.is_hungry {
            FIRST_BATCH
        } else {
            BATCH
        };
        // If the round before has left jobs behind there are many.
        let mut after = self.is_hungry.then(String::new);
        let mut is_first = true;
        let mut more: Vec<(String, i64)> = Vec::new();
        let (mut count, mut found) = (0, false);
        let (are_lost, have_expired, are_blocked, is_full) = loop {
            let rooms = self.held.rooms(self.capacity);
            let at_most = rooms.at_most.min(batch);
            let (paced, paced_at) = self.held.paced();
            let asked = Timestamp::now();
            let rows = self.link.ask(|session| {
                session.query(
                    sql,
                    &[
                        &id,
                        &at_most,
                        &self.kinds,
                        &after,
                        &rooms.cap,
                        &rooms.ahead,
                        &rooms.queues,
                        &rooms.counts,
                        &paced,
                        &paced_at,
                    ],
                )
            })?;
            let answered = Timestamp::now();
            let of = |what| rows.iter().filter(move |row| is(row, what));
            let turn = of("turn").next().expect("the last row");
            // That call may have taken long. So it does not correct the clock itself.
            if !Bounds::new(asked, turn.get("due"), answered).contains(self.held.offset()) {
                let bounds = self.link.ask(clock::measure)?;
                self.held.measured(bounds);
            }
            if std::mem::take(&mut is_first) {
                self.set_limits(&rows);
                found |= self
                    .held
                    .set_bells(of("bell").map(|row| (row.get("key"), row.get("due"))));
                self.say_stuck(of("stuck"));
            }
            more.extend(of("more").map(|row| (row.get("key"), row.get("id"))));
            let (are_lost, have_expired) = (turn.get("ran"), turn.get("alone"));
            let are_blocked: bool = turn.get("exhausted");
            self.must_stop |= turn.get::<_, bool>("suspect");
            after = turn.get("key");
            let jobs: Vec<Row> = rows.into_iter().filter(is_job).collect();
            count += jobs.len();
            let metrics = &self.held.metrics;
            metrics.claimed.fetch_add(jobs.len() as u64, Relaxed);
            self.arm(&jobs);
            let is_full = at_most <= jobs.len() as i64 && rooms.at_most <= at_most;
            batch = BATCH;
            if after.is_none() || is_full || self.held.is_closing() {
                break (are_lost, have_expired, are_blocked, is_full);
            }
        };
        // Behind the claim, and alone: what is due does not wait for them.
        let is_tidy = self.tidy(are_lost, have_expired);
        let is_hungry = self.held.set_hungry(more.into_iter());
        self.is_hungry = is_hungry;
        let wait = if !is_tidy || is_hungry && count > 0 {
            Duration::ZERO
        } else if is_full || is_hungry {
            self.turn / 20
        } else if self.held.has_unplanned() {
            REPLAN.min(self.turn)
        } else {
            self.turn
        };
        if are_blocked {
            let (unblocked, longest) = self.unblock();
            return Ok((found || count > 0 || unblocked, wait.min(longest)));
        }
        self.named.clear();
        Ok((found || count > 0, wait))
    }

    /// Takes in the limits of all queues that the node holds.
    fn set_limits(&self, rows: &[Row]) {
        let limits = rows.iter().filter(|row| is(row, "limit")).map(|row| {
            let (max, rate) = (row.get("max_running"), row.get("rate"));
            (row.get("key"), max, rate, row.get("due"))
        });
        self.held.set_limits(limits);
    }

    /// Asks for all that the node owns, because an answer was lost, and arms what it does not know. The
    /// server may commit that call later than it answers this one, as when its disk or a synchronous
    /// standby is slow. So the node asks again until the server is at work on no call that was given up.
    fn ask_for_all(&mut self, id: i64) -> Result<(), Error> {
        let asked = Instant::now();
        // Before the next call, which then sees the commits of the calls that have ended.
        let have_ended = self.link.ask(|session| session.has_ended_all())?;
        let sql = "SELECT * FROM hwheel._limits($1) UNION ALL SELECT * FROM hwheel._held3($1)
            UNION ALL SELECT * FROM hwheel._begun($1)";
        let rows = self.link.ask(|session| session.query(sql, &[&id]))?;
        // Behind the answer of a first claim, the node does not know the limits of these jobs yet.
        self.set_limits(&rows);
        let rows: Vec<Row> = rows.into_iter().filter(is_job).collect();
        let is_all = self.refence(id, &rows)?;
        let known = self.held.fences();
        let is_new = |row: &Row| {
            let this = (row.get("fence"), row.get("suspect"));
            known
                .get(&row.get("id"))
                .is_none_or(|latest| this > *latest)
        };
        let rows: Vec<Row> = rows.into_iter().filter(is_new).collect();
        self.arm(&rows);
        self.held.asked(asked, have_ended && is_all);
        Ok(())
    }

    /// A server that lacks the last commits may have jobs with lower fences than this node knows. They get
    /// higher ones. False if somebody has locked such a job, or has changed it meanwhile.
    fn refence(&mut self, id: i64, rows: &[Row]) -> Result<bool, Error> {
        let known = self.held.fences();
        let lower = rows.iter().filter_map(|row| {
            let (job, fence): (i64, i64) = (row.get("id"), row.get("fence"));
            let (known, _) = *known.get(&job)?;
            (known > fence).then_some((job, (fence, known)))
        });
        let (ids, fences): (Vec<i64>, Vec<(i64, i64)>) = lower.unzip();
        if ids.is_empty() {
            return Ok(true);
        }
        let (fences, known): (Vec<i64>, Vec<i64>) = fences.into_iter().unzip();
        let sql = "SELECT * FROM hwheel._refence($1, $2, $3, $4)";
        let rows = self
            .link
            .ask(|session| session.query(sql, &[&id, &ids, &fences, &known]))?;
        self.arm(&rows);
        Ok(rows.len() == ids.len())
    }

    /// Makes jobs due that have waited for others: those that are named, and those that the round
    /// finds. Returns whether there were any, and the longest time until the next look.
    fn unblock(&mut self) -> (bool, Duration) {
        let begin = Instant::now();
        let named: Vec<i64> = self.named.iter().copied().take(NAMED).collect();
        let goes_on = begin >= self.unblock.at;
        if named.is_empty() && !goes_on {
            return (false, self.unblock.at - begin);
        }
        let rows = if goes_on { UNBLOCK_ROWS } else { 0 };
        let after = &self.unblock.after;
        let sql = "SELECT * FROM hwheel._unblock8($1, $2, $3, $4)";
        let answer = self
            .link
            .ask(|session| session.query(sql, &[&named, after, &rows, &UNBLOCK]));
        let (count, next): (i64, _) = match answer {
            Ok(rows) => (rows[0].get("number"), rows[0].get("next")),
            Err(e) => {
                log::error!("{sql}: {}", db::describe(&e));
                // One of the named jobs may be the cause. The round finds these jobs, too.
                self.named.retain(|id| !named.contains(id));
                self.unblock.at = begin + self.turn;
                return (false, self.turn);
            }
        };
        // One that leaves some behind is made again and again.
        if count < UNBLOCK {
            self.named.retain(|id| !named.contains(id));
            if goes_on {
                self.unblock.goes_on(begin, next, self.turn);
            }
        }
        let is_waiting = !goes_on || self.unblock.after.is_some();
        let longest = if count > 0 || !self.named.is_empty() {
            Duration::ZERO
        } else if is_waiting {
            self.unblock.at.saturating_duration_since(Instant::now())
        } else {
            self.turn
        };
        (count > 0, longest)
    }

    /// Gives back what lost nodes had, and ends leases of applications. False: there is more.
    fn tidy(&mut self, are_lost: bool, have_expired: bool) -> bool {
        let mut call = |sql| {
            let rows = self.link.ask(|session| session.query(sql, &[]));
            rows.map(|rows| rows[0].get::<_, i64>(0))
                .unwrap_or_else(|e| {
                    log::error!("{sql}: {}", db::describe(&e));
                    0
                })
        };
        let released = if are_lost {
            call("SELECT hwheel._give_back()")
        } else {
            0
        };
        let calls = if have_expired { TIDY } else { 0 };
        let expired = (0..calls).take_while(|_| call("SELECT hwheel._expire()") > 0);
        let is_tidy = expired.count() < TIDY;
        if released > 0 {
            // Other nodes may have room, or other kinds.
            let _ = self
                .link
                .ask(|session| session.query("SELECT hwheel._hint()", &[]));
        }
        is_tidy && released == 0
    }

    /// Names queues whose jobs no node can run, now and then.
    fn say_stuck<'r>(&mut self, rows: impl Iterator<Item = &'r Row>) {
        let now = Instant::now();
        self.stuck.retain(|_, at| now - *at < SAY_AGAIN);
        for row in rows {
            let queue: String = row.get("key");
            let kinds: &str = row.get("kind");
            self.stuck.entry(queue).or_insert_with_key(|queue| {
                log::warn!(
                    "the queue {queue:?} waits: it has a limit, so one node runs all of its jobs, \
                     and no node runs all their kinds: {kinds}"
                );
                now
            });
        }
    }

    /// Arms claimed jobs. Those without a due time get their first run. One that cannot be read
    /// is dead.
    fn arm(&mut self, rows: &[Row]) {
        let (jobs, unreadable) = job::read(rows);
        let (planned, new): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| job.due.is_some());
        self.held.arm(planned);
        self.first_runs(new);
        let unreadable: Vec<_> = unreadable
            .into_iter()
            .map(|(job, why)| (job, Err(why)))
            .collect();
        plan(&self.held, &mut self.link, &unreadable);
    }

    /// Gives jobs their first run, or their next.
    fn first_runs(&mut self, jobs: Vec<Job>) {
        let now = self.held.now();
        let first = |job: Job| {
            let step = match &job.recurrence {
                None => Err("it has neither a due time nor a recurrence".to_owned()),
                Some(recurrence) if job.ran && job.kind == Kind::App => {
                    recurrence.step(job.occurrence, now)
                }
                Some(recurrence) => recurrence.first(job.occurrence).map(|next| Step {
                    next: Some(next),
                    skipped: 0,
                }),
            };
            (job, step)
        };
        let new: Vec<_> = jobs.into_iter().map(first).collect();
        plan(&self.held, &mut self.link, &new);
    }

    /// Waits for a notification. Returns when it asks for a claim.
    fn listen(&mut self, until: Instant) -> Result<Option<Instant>, Error> {
        let timeout = until.saturating_duration_since(Instant::now());
        let wake = &self.held.wake;
        let notification = match self
            .link
            .ask(|session| session.client.heard(timeout, wake))?
        {
            Heard::Nothing if Instant::now() < until => return Ok(Some(Instant::now())),
            Heard::Nothing => return Ok(None),
            Heard::Many => return Ok(Some(Instant::now())),
            Heard::One(notification) => notification,
        };
        let text = notification.payload();
        if notification.channel() != "hwheel" {
            let numbers = text
                .split_once(' ')
                .map(|(id, fence)| (id.parse(), fence.parse()));
            // Anybody may send this. So it only makes the node look.
            if let Some((Ok(id), Ok(fence))) = numbers {
                if self.held.is_armed(id, fence) {
                    self.doubted.insert((id, fence));
                } else {
                    self.must_stop |= self.held.stops.has(id, fence);
                }
            }
            return Ok(None);
        }
        // A job waits for another one, which may have ended.
        if let Some(Ok(id)) = text.strip_prefix("after ").map(str::parse) {
            if self.named.len() < MOST_NAMED {
                self.named.insert(id);
            }
        }
        // A claim that can wait a little may find more jobs.
        let due_ms = text.parse().unwrap_or(0);
        let due = Timestamp::from_millisecond(due_ms).unwrap_or(Timestamp::MIN);
        let ahead = Duration::try_from(due.duration_since(self.held.now())).unwrap_or_default();
        Ok(Some(Instant::now() + ahead.saturating_sub(self.window / 4)))
    }
}
