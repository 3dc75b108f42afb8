//! The worker of the tests, in Rust. See program.py.

use hwheel_worker::{Fail, Failure, Job, Options, Snooze, Worker};
use std::error::Error;
use std::fmt;
use std::io::Write;
use std::panic::panic_any;
use std::path::Path;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::Duration;

#[derive(Debug)]
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter) -> fmt::Result {
        panic!("no text")
    }
}

impl Error for Unspeakable {}

/// Its end is a panic.
#[derive(Debug)]
struct Undying;

impl Drop for Undying {
    fn drop(&mut self) {
        panic!("it does not go");
    }
}

impl fmt::Display for Undying {
    fn fmt(&self, _: &mut fmt::Formatter) -> fmt::Result {
        Err(fmt::Error)
    }
}

impl Error for Undying {}

/// Its source is itself.
#[derive(Debug)]
struct Circle;

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("around")
    }
}

impl Error for Circle {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self)
    }
}

#[derive(Debug)]
struct Wrapped(Failure);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "wrapped: {}", self.0)
    }
}

impl Error for Wrapped {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

const ODD: &[fn() -> Result<(), Failure>] = &[
    || panic!("a text"),
    || panic!("a number: {}", 1),
    || panic_any(1),
    || panic_any(Undying),
    || panic_any(Unspeakable),
    || Err(Unspeakable.into()),
    || Err(Undying.into()),
    || Err(Circle.into()),
    || Err("".into()),
    || Err(fmt::Error.into()),
    || Err(format!("\0 \u{1f600}{}", "x".repeat(20000)).into()),
    || Err(Snooze(Duration::MAX).into()),
    || Err(Wrapped(Snooze(Duration::MAX).into()).into()),
    || Err(Fail::RetryAfter(Duration::MAX, "later".into()).into()),
    || Err(Wrapped(Fail::Final("no more".into()).into()).into()),
    || Err(Fail::RetryAfter(Duration::ZERO, Fail::Final("no more".into()).into()).into()),
    || Ok(String::from_utf8(vec![0xff]).map(drop)?),
    || {
        Err(Vec::<String>::new()[std::env::args().count()]
            .clone()
            .into())
    },
];

fn say(what: &str, job: &Job, more: &str) {
    // At once: there are threads.
    let line = format!("{what} {} {} {more}\n", job.key, job.attempt);
    std::io::stdout()
        .write_all(line.as_bytes())
        .expect("a line");
}

fn seconds(name: &str) -> Duration {
    let text = std::env::var(name).unwrap_or("30".into());
    Duration::from_secs_f64(text.parse().expect("a number of seconds"))
}

fn payload(job: &Job) -> &str {
    job.payload.as_deref().unwrap_or("null").trim_matches('"')
}

fn send(job: &Job) -> Result<(), Failure> {
    if payload(job) == "fail" {
        return Err("it does not work".into());
    }
    job.transaction(|transaction| {
        transaction.execute("INSERT INTO sent (key) VALUES ($1)", &[&job.key])?;
        Ok(())
    })
}

static WORKER: OnceLock<Worker> = OnceLock::new();

fn plain(job: &Job) -> Result<(), Failure> {
    if let ("quiet", Some(worker)) = (payload(job), WORKER.get()) {
        worker.quiet();
    }
    say("begin", job, "");
    sleep(Duration::from_millis(20));
    Ok(())
}

fn slow(job: &Job) -> Result<(), Failure> {
    say("begin", job, "");
    let time = Duration::from_secs_f64(payload(job).parse()?);
    job.stop
        .wait(time)
        .inspect_err(|why| say("stop", job, &why.to_string()))?;
    say("end", job, "");
    Ok(())
}

fn killed(job: &Job) -> Result<(), Failure> {
    job.transaction(|transaction| {
        transaction.execute("INSERT INTO sent (key) VALUES ($1)", &[&job.key])?;
        if job.attempt == 1 {
            let _ = transaction.execute("SELECT pg_terminate_backend(pg_backend_pid())", &[]);
        }
        Ok(())
    })
}

fn deaf(job: &Job) -> Result<(), Failure> {
    say("begin", job, "");
    loop {
        std::thread::park();
    }
}

fn snooze(job: &Job) -> Result<(), Failure> {
    say("begin", job, "");
    let path = Path::new(payload(job));
    if path.exists() {
        return Ok(());
    }
    std::fs::write(path, "")?;
    Err(Snooze(Duration::from_millis(200)).into())
}

fn main() -> Result<(), Failure> {
    let level = env_logger::Env::default().default_filter_or("warn");
    env_logger::Builder::from_env(level).init();
    let arguments: Vec<String> = std::env::args().collect();
    let options = Options {
        lease: seconds("LEASE"),
        grace: seconds("GRACE"),
    };
    let config = std::env::var("DATABASE_URL")?.parse()?;
    let mut worker = Worker::new(config, postgres::NoTls, options)?;
    worker
        .queue(&arguments[1], 10, send)?
        .queue("plain", 5, plain)?
        .queue("slow", 5, slow)?
        .queue("killed", 1, killed)?
        .queue("deaf", 1, deaf)?
        .queue("snooze", 1, snooze)?
        .queue("odd", 20, |job| ODD[payload(job).parse::<usize>()?]())?;
    match arguments.get(2).map(String::as_str) {
        Some("odd") => println!("{}", ODD.len()),
        Some(_) => {
            for ran in worker.drain(1000)? {
                let said = ran.error.as_deref().unwrap_or("sent");
                println!("{} {} {} {said}", ran.key, ran.attempt, ran.outcome);
            }
        }
        None => WORKER.get_or_init(|| worker).run()?,
    }
    Ok(())
}
