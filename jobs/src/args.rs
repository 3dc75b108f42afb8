//! The command line.

use crate::job::Kind;
use clap::{Parser, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Durable timers in PostgreSQL, fired by timing wheels on any number of machines.
#[derive(Parser)]
#[command(version)]
pub struct Args {
    /// The database: a URL, or words such as "host=/run/postgresql dbname=app". What is not
    /// given comes from PGHOST, PGUSER, PGPASSFILE and the other variables of libpq. Other
    /// users can see a password that stands here.
    #[arg(
        long,
        env = "DATABASE_URL",
        hide_env_values = true,
        global = true,
        default_value = ""
    )]
    pub db: String,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Create or update the schema hwheel in the database.
    Install(Install),
    /// Run jobs until SIGTERM or SIGINT.
    Run(Run),
    /// Show jobs, the next ones first.
    List(List),
    /// Show all about the jobs of a key.
    Show(Show),
    /// Show the number of jobs in each state and how late they fire.
    Stats(Stats),
    /// Cancel the job of a key, which is deleted.
    Cancel(Key),
    /// Move the job of a key to another time.
    Move(Move),
    /// Let no run of the job of a key start until it is resumed.
    Pause(Key),
    /// Let the paused job of a key run again. What was due meanwhile was missed.
    Resume(Key),
    /// Give the last dead job of a key another life, from now, or all that the options name.
    Revive(Revive),
    /// Delete the jobs that ended at least this long ago. Nodes do this by themselves, as
    /// hwheel.settings says.
    Prune(Prune),
    /// Show the queues, their limits and the number of their jobs.
    Queues(Queues),
    /// Set the limits of a queue, pause or resume it, or show its limits.
    Queue(Queue),
    /// Serve a page that shows the jobs, and cancels and revives them, until SIGTERM.
    Web(Web),
}

#[derive(clap::Args)]
pub struct Queues {
    /// As JSON, an object in each line.
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct Queue {
    /// The name of the queue.
    pub name: String,

    /// Runs at once, over all nodes.
    #[arg(long)]
    pub max_running: Option<u32>,

    /// Runs at once of each tenant, of the jobs that applications take.
    #[arg(long)]
    pub max_running_per: Option<u32>,

    /// Starts per second, over all nodes.
    #[arg(long)]
    pub rate: Option<f64>,

    /// Remove the limits that are not given.
    #[arg(long)]
    pub unlimited: bool,

    /// Let no run of the queue start until it is resumed.
    #[arg(long, conflicts_with = "resume")]
    pub pause: bool,

    /// Let the runs of a paused queue start again.
    #[arg(long)]
    pub resume: bool,
}

#[derive(clap::Args)]
pub struct Key {
    /// The key of the job.
    pub key: String,
}

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true)))]
pub struct Revive {
    /// The key of the job.
    #[arg(group = "which", conflicts_with_all = ["queue", "like", "error"])]
    pub key: Option<String>,

    /// The dead jobs of this queue.
    #[arg(long, group = "which")]
    pub queue: Option<String>,

    /// The dead jobs whose keys match this pattern of LIKE, such as 'mail-%'; '%' for all.
    #[arg(long, group = "which")]
    pub like: Option<String>,

    /// The dead jobs whose errors match this pattern of LIKE.
    #[arg(long, group = "which")]
    pub error: Option<String>,
}

#[derive(clap::Args)]
pub struct Move {
    /// The key of the job.
    pub key: String,

    /// "2026-12-24 18:00+01", "tomorrow 06:00" or "+90 min", as PostgreSQL reads it.
    pub time: String,
}

#[derive(clap::Args)]
pub struct Show {
    /// The key of the jobs.
    pub key: String,

    /// As JSON, an object in each line.
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct Prune {
    /// "30 days", as PostgreSQL reads it.
    pub age: String,
}

#[derive(clap::Args)]
pub struct Install {
    /// Print SQL for three roles with the rights that they need, and change nothing.
    #[arg(long)]
    pub grants: bool,
}

#[derive(clap::Args)]
pub struct Run {
    /// The node's name in tables and logs; by default host:pid.
    #[arg(long)]
    pub name: Option<String>,

    /// The kinds of jobs to run, separated by commas: sql, command, http. Whoever may
    /// schedule a command may do what the user of this node may do.
    #[arg(long, value_delimiter = ',', default_value = "sql")]
    pub kinds: Vec<Kind>,

    /// Connections that fire SQL jobs; the number of batches at once.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub connections: u16,

    /// Commands and requests that run at once.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: u16,

    /// Seconds that the end of the node waits for commands and requests. Commands that run then
    /// are killed, and their attempts have failed.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub grace: u32,

    /// Jobs that the node holds at most.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub capacity: u32,

    /// Serve Prometheus text over HTTP on this address, such as 127.0.0.1:9187.
    #[arg(long)]
    pub metrics: Option<SocketAddr>,
}

#[derive(clap::Args)]
pub struct Web {
    /// The address of the page. It has no TLS: let a proxy face the network.
    #[arg(long, default_value = "127.0.0.1:9188")]
    pub listen: SocketAddr,

    /// A name by which browsers reach the page, such as jobs.example.org; several times if
    /// there are several. IP addresses and localhost need none.
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,

    /// A file with the token that the page asks for as a password. Without it the variable
    /// HWHEEL_WEB_TOKEN has it; without both the log has a new one.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Show payloads. Without it the page shows their sizes.
    #[arg(long)]
    pub payloads: bool,
}

#[derive(clap::Args)]
pub struct List {
    /// Only jobs in this state.
    #[arg(long)]
    pub state: Option<State>,

    /// Only jobs whose key matches, as with SQL's LIKE: report-%.
    #[arg(long)]
    pub key: Option<String>,

    /// The number of jobs to show.
    #[arg(long, default_value_t = 50)]
    pub limit: u32,

    /// As JSON, an object in each line.
    #[arg(long)]
    pub json: bool,
}

#[derive(clap::Args)]
pub struct Stats {
    /// As text for Prometheus.
    #[arg(long, conflicts_with = "json")]
    pub prometheus: bool,

    /// As JSON, one object.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum State {
    Waiting,
    Claimed,
    Running,
    Blocked,
    Paused,
    Done,
    Dead,
}
