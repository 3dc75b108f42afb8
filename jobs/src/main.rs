//! hwheel-jobs: timers that outlive the process and the machine.
//!
//! PostgreSQL keeps the jobs. Nodes, which are processes on any number of machines,
//! claim the jobs that are due soon and arm each in a timing wheel. So the nodes query
//! the table a few times per window, and a job fires to the millisecond.
//!
//! # Vocabulary
//!
//! - *job*: a row of `hwheel.job`. Its `occurrence` is the time that its user or its
//!   recurrence asked for, its `due` the time of the next attempt.
//! - *window*: how far ahead nodes claim, 10 s by default.
//! - *lease*: how long a node may be silent, 15 s by default. It belongs to the node
//!   and covers all its jobs, so that to renew it is one update.
//! - *fence*: a number in the job that grows with every claim and every change. It begins with the
//!   time, so it also tells the job from one that had the same number before a backup was restored.
//!
//! # The life of a job
//!
//! ```text
//!             claim                  begin                settle
//!   waiting ---------> claimed -------------> running ------------> done, dead
//!    ^  ^ ^               |  \ fire (SQL: run and settle in one)  /
//!    |  | |               |   `------------------------------>---'|
//!    |  | `- move, release'                                       |
//!    |  `---- release (the node was lost) ------------------------|
//!    `------- next run, or retry, beyond the window --------------'
//! ```
//!
//! # The protocol
//!
//! The statements are in `sql/node.sql`, one function for each step. Each call is a
//! transaction of one statement, so a node that stops between two calls holds no lock.
//!
//! 1. *Enter.* A node gets a number that is never used again, and a lease.
//! 2. *Renew.* A few times per window, in a thread and on a connection that do nothing else,
//!    the node renews its lease, and expels the nodes whose lease has run out.
//! 3. *Claim.* A few times per window the node claims what is due within the window with
//!    `FOR UPDATE SKIP LOCKED`, and arms what it gets in its wheel. Behind that, in other
//!    calls, it gives back the jobs of nodes that have left, and ends leases of applications.
//!    If much is due the node goes from queue to queue. What it holds of a queue and a
//!    priority is limited, and it claims again when it has run half of that.
//! 4. *Listen.* A trigger notifies all nodes when a transaction commits that leaves a
//!    waiting job due within the window; they claim again. A user who moves or cancels
//!    a claimed job notifies its owner, which looks whether that is so, and drops the timer.
//! 5. *Fire.* SQL jobs: one call for a batch of those that are due. It locks the row of
//!    each whose fence is as claimed, runs its function, and settles them all. If the
//!    connection is lost with a batch, each job is marked as running and fired alone.
//!    Commands and requests: one call marks a batch as running, the node runs them, and
//!    one call settles those that have ended.
//! 6. *Settle.* A job is done, or dead, or gets the time of its next run or attempt.
//!    Its fence grows. If that time is within the window its owner keeps the claim.
//!
//! # Why no job is lost
//!
//! A job that is not over is `waiting`, or its owner has to act on it. An owner that
//! stays silent for a lease is expelled by the next claim of any node, and its jobs
//! become `waiting`. An owner that lives may have missed the answer of a call, and a server that has
//! crashed may have lost its last commits: after every lost connection a node asks for all that it owns
//! and arms what it does not know. The server may commit the lost call later than it answers that, so the
//! node asks again once per turn, until the server's processes of the lost connections have ended.
//! The notifications only make a node look earlier than at its next turn: whoever may connect
//! can send them, so a node believes none.
//!
//! # Why nobody waits
//!
//! Whoever uses the database may lock a job and keep the transaction open. No call of a node
//! waits for that. It passes by a row that is locked, and the job is claimed, planned or settled
//! by a later call. The end of a command waits in the memory of its node (`held.rs`), and the
//! job stays `running`. Locks are rows of the schema, which need a right; an advisory lock needs
//! none. A lock of a whole table ends a call after half a second, and the lease is renewed
//! meanwhile. A call that is wrong is asked again for each job alone, so it costs one job.
//!
//! # Why no SQL job runs twice
//!
//! Its effect, the check of the fence and the new fence are one transaction, and the
//! row is locked from the check to the commit. Two transactions with the same fence
//! cannot both commit. So a node that was stopped for a minute, or does not know
//! whether its call was committed, just calls again: what has passed on, or is done,
//! is `gone`. For the same reason a stale timer, a lost or a doubled notification, and
//! a job that is armed twice are harmless.
//!
//! # Commands and requests run at least once
//!
//! They are recorded as running before they start and settled when they end. If their
//! node is lost in between they run again, and the attempt counts. A node that was
//! expelled meanwhile cannot settle them: the fence has changed.
//!
//! # Cancelled runs
//!
//! `hwheel.cancel` of a job whose run is under way writes a row of `hwheel.stop`, and notifies the
//! owner. The owner looks, also once per turn, and asks the run to end (`stop.rs`). The call that
//! ends the run deletes the job: the call that settles it, the one that gives the jobs of a lost
//! node back, or the one that ends leases. So the key is in use until no run is under way. A run that ends well
//! counts.
//!
//! # Whose clock
//!
//! The database's. A node measures the offset of its own clock (`clock.rs`) and arms
//! its wheel, which follows the REALTIME clock, accordingly. If it is wrong, or either
//! clock is set, the database refuses a job that is early, and the node measures
//! again. A measurement that differs makes a new wheel (`held.rs`).
//!
//! # Queues
//!
//! A queue is a name, and perhaps limits. The claim of a node takes no job of a queue that
//! is paused. The limits of a queue are leased to one node with the node's own lease: no
//! other node claims its jobs, and that node keeps them without a further query
//! (`queues.rs`). Each queue has a gate: 16 rows, of which each process that claims shares one. A
//! user who pauses the queue or changes its limits holds all of them until the transaction ends,
//! and takes the claims of the queue back. A claim passes by a queue whose gate is held.
//!
//! The holder of a rate writes down when the queue had no start left, with each turn and when it
//! leaves. So a rate goes on where it was.
//!
//! # Jobs that wait for others
//!
//! Such a job is `waiting`, due at infinity, and `after_keys` has the keys that it waits for. A node
//! asks for those none of whose keys has a job that is still to run, and gives them a due time
//! (`_unblock8`). One statement sees all keys of a job, so the answer does not depend on the order of
//! ends, nor on what their transactions have seen. A job that still waits for one key is not looked at
//! further: `after_key` is that key, until its job has ended.
//!
//! A node goes round these keys with each claim, and looks at the jobs of a thousand in a call. So a
//! call is short, and with many keys a round takes many. A job that has ended does not wait for that:
//! the call that ends it notifies the nodes if another job names its key, also when that one waits for
//! more. The commit of a job that waits notifies them, too. So a node looks after the last of these
//! commits. The notification names one job that waits for the key, and the node looks at all keys of
//! that one.
//!
//! A notification may be missing: that of an end whose transaction had ended the job before the other
//! one was committed, and is committed after the look. If the job that it names is cancelled meanwhile,
//! it says nothing of others that wait for the key. The round finds them.
//!
//! # Jobs that applications take
//!
//! A node does not claim them. The node with the lowest number reads their due times in its
//! turn, and at each of them it notifies the channel of the queue. An application then takes
//! what is due: the job is `running`, its owner is 0, and its fence is the lease. The
//! transaction that has the effect of the job also ends it, if the fence is still the same.
//! The turns of nodes end the leases that have run out. If a job recurs, a node claims it
//! after each run, only to compute the next one.
//!
//! # The history
//!
//! A job that is done is deleted, and a row goes into the history, in the same statement. A
//! partition of the history is a day, and an old one is emptied at once.
//!
//! # Recurrence
//!
//! A node computes the next run (`recur.rs`) from the occurrence and not from the time
//! of firing, so there is no drift. The call that settles one run sets the next.
//!
//! # Where to find what
//!
//! | file          | what                                                       |
//! |---------------|------------------------------------------------------------|
//! | `sql/*.sql`   | tables, the functions for users, the functions for nodes   |
//! | `node.rs`     | enter, claim, listen                                       |
//! | `held.rs`     | the jobs of this node: armed, due, ended                   |
//! | `queues.rs`   | queues: jobs that are due, limits, when to wake apps       |
//! | `wheel.rs`    | the only place that knows the timing wheel                 |
//! | `clock.rs`    | the offset between the database's clock and this one       |
//! | `recur.rs`    | intervals, missed runs                                     |
//! | `cron.rs`     | cron expressions                                           |
//! | `sql_jobs.rs` | firing of SQL jobs                                         |
//! | `outside.rs`  | begin and end of commands and requests                     |
//! | `outcome.rs`  | the outcome of a job that is due, for both kinds           |
//! | `command.rs`, `http.rs` | how one of them runs                             |
//! | `stop.rs`     | asks runs to end whose jobs are cancelled                  |
//! | `connect.rs`  | where the database is, passwords, TLS                      |
//! | `db.rs`       | connections: statements, errors, back-off                  |
//! | `metrics.rs`  | counters, the histogram of lateness, Prometheus text       |
//! | `install.rs`  | the schema, its migrations, rights for roles                |
//! | `look.rs`     | list, show, stats, and commands that change one job        |
//! | `web.rs`      | the page: who may ask, what is asked for, what is changed  |
//! | `page.rs`     | the page as HTML                                           |
//! | `serve.rs`    | HTTP for the page and the metrics                          |

mod args;
mod clock;
mod command;
mod connect;
mod cron;
mod db;
mod held;
mod http;
mod install;
mod job;
mod look;
mod metrics;
mod node;
mod outcome;
mod outside;
mod page;
mod queues;
mod recur;
mod serve;
mod sql_jobs;
mod stop;
mod web;
mod wheel;

use args::{Args, Command};
use clap::Parser;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    // A node without one of its threads must not keep its lease.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
    let filter = env_logger::Env::default().default_filter_or("info");
    env_logger::Builder::from_env(filter)
        // These would log the headers of requests, which may be secrets.
        .filter_module("ureq", log::LevelFilter::Warn)
        .filter_module("ureq_proto", log::LevelFilter::Warn)
        .init();

    let config = match connect::Config::new(&args.db) {
        Ok(config) => config,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "hwheel-jobs: --db: {why}");
            return ExitCode::from(2);
        }
    };
    let outcome = match args.command {
        Command::Install(options) if options.grants => look::print(install::GRANTS),
        Command::Install(_) => install::install(&config),
        Command::Run(options) => node::run(config, options),
        Command::List(options) => look::list(&config, &options),
        Command::Show(options) => look::show(&config, &options),
        Command::Stats(options) => look::stats(&config, &options),
        Command::Cancel(key) => look::act(&config, "cancel", &key, "is cancelled"),
        Command::Pause(key) => look::act(&config, "pause", &key, "is paused"),
        Command::Resume(key) => look::act(&config, "resume", &key, "runs again"),
        Command::Revive(options) => look::revive(&config, &options),
        Command::Move(options) => look::move_to(&config, &options),
        Command::Prune(options) => look::prune(&config, &options),
        Command::Queues(options) => look::queues(&config, &options),
        Command::Queue(options) => look::queue(&config, &options),
        Command::Web(options) => web::run(config, &options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "hwheel-jobs: {why}");
            ExitCode::FAILURE
        }
    }
}
