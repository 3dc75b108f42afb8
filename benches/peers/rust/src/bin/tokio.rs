//! tokio's Sleep, reset in place: what select loops and idle timeouts do. It
//! has no cancel short of a drop, and a reset is cheaper than a drop and a new
//! one, so "pair" and "rearm" are the same call; "drop" is "pair" by a drop. Each
//! takes an instant: no call reads a clock. One thread runs on the paused clock;
//! several, and "lateness", on a runtime of one worker that drives the real one.

use peers::{Args, Peer, Rng, MS, OPS, SEC, SEED};
use std::future::Future;
use std::pin::{pin, Pin};
use std::ptr::null;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, RawWaker, RawWakerVTable, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{advance, sleep_until, Instant, Sleep};

/// Counts the timers that fired, as the cheapest of wakers.
static FIRED: AtomicUsize = AtomicUsize::new(0);

fn count(_: *const ()) {
    FIRED.fetch_add(1, Ordering::Relaxed);
}

static COUNTER: RawWakerVTable =
    RawWakerVTable::new(|_| RawWaker::new(null(), &COUNTER), count, count, |_| ());

fn counter() -> Waker {
    // SAFETY: nothing is owned, and all four functions may run in any thread.
    unsafe { Waker::new(null(), &COUNTER) }
}

struct Sleeps {
    all: Pin<Box<[Sleep]>>,
    now: Instant,
}

impl Sleeps {
    /// Timers registered with the runtime that the caller is inside of.
    fn new(delays: impl Iterator<Item = u64>) -> Self {
        let now = Instant::now();
        let all: Box<[Sleep]> = delays
            .map(|delay| sleep_until(now + Duration::from_nanos(delay)))
            .collect();
        let mut sleeps = Sleeps {
            all: all.into(),
            now,
        };
        let waker = counter();
        let mut context = Context::from_waker(&waker);
        for i in 0..sleeps.all.len() {
            // The first poll registers it.
            let _ = sleeps.nth(i).poll(&mut context);
        }
        sleeps
    }

    fn nth(&mut self, i: usize) -> Pin<&mut Sleep> {
        // SAFETY: the slice is pinned, and no Sleep is moved out of it.
        unsafe { self.all.as_mut().map_unchecked_mut(|all| &mut all[i]) }
    }

    fn reset(&mut self, i: usize, delay: u64) {
        let at = self.now + Duration::from_nanos(delay);
        self.nth(i).reset(at);
    }
}

fn paused_runtime() -> Runtime {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    builder.build().expect("a runtime")
}

struct Paused {
    sleeps: Sleeps,
    runtime: Runtime,
}

impl Peer for Paused {
    const MOVES: bool = true;

    fn armed(delays: impl Iterator<Item = u64>) -> Self {
        let runtime = paused_runtime();
        let sleeps = {
            let _inside = runtime.enter();
            Sleeps::new(delays)
        };
        Paused { sleeps, runtime }
    }

    fn pair(&mut self, i: usize, delay: u64) {
        self.sleeps.reset(i, delay);
    }

    fn rearm(&mut self, i: usize, delay: u64) {
        self.sleeps.reset(i, delay);
    }

    fn tick(&mut self) -> usize {
        let before = FIRED.load(Ordering::Relaxed);
        self.sleeps.now += Duration::from_millis(1);
        self.runtime.block_on(advance(Duration::from_millis(1)));
        FIRED.load(Ordering::Relaxed) - before
    }
}

fn real_runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .expect("a runtime")
}

/// "pair" by dropping a Sleep and making a new one in its place.
fn drop_and_make(n: usize) {
    let runtime = paused_runtime();
    let _inside = runtime.enter();
    let mut uniform = Rng(SEED);
    let mut sleeps = Sleeps::new((0..n).map(|_| uniform.delay()));
    let waker = counter();
    let mut context = Context::from_waker(&waker);
    let mut rng = Rng(SEED);
    peers::each(|| {
        let i = rng.below(n as u64) as usize;
        let at = sleeps.now + Duration::from_nanos(rng.delay());
        sleeps.nth(i).set(sleep_until(at));
        let _ = sleeps.nth(i).poll(&mut context);
    });
}

fn churn(n: usize, threads: usize) {
    let runtime = real_runtime();
    let _inside = runtime.enter();
    let mut uniform = Rng(SEED);
    let sleeps: Vec<_> = (0..threads)
        .map(|_| std::sync::Mutex::new(Sleeps::new((0..n).map(|_| uniform.delay()))))
        .collect();
    peers::threads(threads, |thread| {
        // Each thread has its own; the lock is taken once.
        let mut sleeps = sleeps[thread].lock().expect("not poisoned");
        let mut rng = Rng(SEED + thread as u64);
        for _ in 0..OPS {
            sleeps.reset(rng.below(n as u64) as usize, rng.delay());
        }
    });
}

/// To cancel is to drop, so each time a Sleep is made, registered, dropped.
fn constant(threads: usize) {
    let runtime = real_runtime();
    let at = Instant::now() + Duration::from_secs(30);
    peers::threads(threads, |_| {
        let _inside = runtime.enter();
        for _ in 0..OPS {
            let mut sleep = pin!(sleep_until(at));
            sleep.as_mut().reset(at);
        }
    });
}

/// A task for each timer, which notes how late it is woken.
fn lateness() {
    let mut rng = Rng(SEED);
    let late = real_runtime().block_on(async {
        let tasks: Vec<_> = (0..1000)
            .map(|_| {
                let due = Instant::now() + Duration::from_nanos(MS + rng.below(SEC - MS));
                tokio::spawn(async move {
                    sleep_until(due).await;
                    let now = Instant::now();
                    (now - due).as_nanos() as i64
                        - due.saturating_duration_since(now).as_nanos() as i64
                })
            })
            .collect();
        let mut late = Vec::new();
        for task in tasks {
            late.push(task.await.expect("a task panicked"));
        }
        late
    });
    peers::quantiles(late);
}

fn main() {
    let args = Args::read();
    match args.workload.as_str() {
        "drop" => drop_and_make(args.n),
        "pair" if args.threads > 1 => churn(args.n, args.threads),
        "constant" => constant(args.threads),
        "lateness" => lateness(),
        _ => peers::run::<Paused>(args),
    }
}
