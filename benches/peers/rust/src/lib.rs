//! The workloads of docs/PERFORMANCE.md for peers in Rust, with the same
//! pseudo-random sequence as benches/bench.h. Prints lines of "name value".

use std::sync::Barrier;
use std::time::Instant;

pub const MS: u64 = 1_000_000;
pub const SEC: u64 = 1_000_000_000;
pub const LONGEST: u64 = 60 * SEC;
pub const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// A fifth of what the wheels in C do: SLOW in workloads.c.
pub const OPS: usize = 400_000;
const CONNECTIONS: usize = 100_000;

pub struct Rng(pub u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    pub fn delay(&mut self) -> u64 {
        MS + self.below(LONGEST - MS)
    }
}

pub fn figure(name: &str, value: f64) {
    println!("{name} {value:.4}");
}

/// Stands still while the machine runs something else, as in bench.h.
struct Stopwatch(f64);

impl Stopwatch {
    fn now() -> f64 {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the clock exists, and the time is written to.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    }

    fn start() -> Self {
        Stopwatch(Self::now())
    }

    fn ns_each(&self, times: usize) -> f64 {
        (Self::now() - self.0) / times as f64
    }
}

/// Nanoseconds for each of `OPS` operations.
pub fn each(mut operation: impl FnMut()) {
    let start = Stopwatch::start();
    for _ in 0..OPS {
        operation();
    }
    figure("ns", start.ns_each(OPS));
}

fn resident() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let pages = statm.split(' ').nth(1).and_then(|s| s.parse::<f64>().ok());
    pages.expect("statm has a second number") * 4096.0
}

/// Lateness in nanoseconds, below zero if early.
pub fn quantiles(mut late: Vec<i64>) {
    late.sort_unstable();
    figure("min", late[0] as f64);
    for (name, mille) in [
        ("p10", 100),
        ("p25", 250),
        ("p50", 500),
        ("p75", 750),
        ("p90", 900),
        ("p99", 990),
        ("p999", 999),
    ] {
        figure(name, late[late.len() * mille / 1000] as f64);
    }
    figure("max", late[late.len() - 1] as f64);
}

/// Runs `work(thread)` in `count` threads at once. The time of the slowest thread,
/// in nanoseconds for each operation of all threads.
pub fn threads(count: usize, work: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(count);
    let longest = std::thread::scope(|scope| {
        let running: Vec<_> = (0..count)
            .map(|thread| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    work(thread);
                    start.elapsed()
                })
            })
            .collect();
        running
            .into_iter()
            .map(|t| t.join().expect("a thread panicked"))
            .max()
    });
    let longest = longest.expect("at least one thread");
    figure("ns", longest.as_nanos() as f64 / (OPS * count) as f64);
}

/// A timer queue whose time is moved by hand.
pub trait Peer {
    /// Whether a pending timer can be armed anew in place.
    const MOVES: bool;
    /// With timers armed by these delays.
    fn armed(delays: impl Iterator<Item = u64>) -> Self;
    /// Cancels timer `i` and arms it again.
    fn pair(&mut self, i: usize, delay: u64);
    /// Arms the pending timer `i` in place, if that can be done.
    fn rearm(&mut self, i: usize, delay: u64);
    /// A millisecond passes. How many timers fired.
    fn tick(&mut self) -> usize;
}

/// The command line: a workload, n, and how many threads.
pub struct Args {
    pub workload: String,
    pub n: usize,
    pub threads: usize,
}

impl Args {
    pub fn read() -> Self {
        let mut args = std::env::args().skip(1);
        let workload = args.next().unwrap_or_default();
        let mut number = || args.next().map_or(1, |n| n.parse().expect("a number"));
        Args {
            workload,
            n: number(),
            threads: number(),
        }
    }
}

/// Runs a workload of one thread.
pub fn run<P: Peer>(Args { workload, n, .. }: Args) {
    let mut rng = Rng(SEED);
    let mut uniform = Rng(SEED);
    let delays = (0..n).map(|_| uniform.delay());
    match workload.as_str() {
        "pair" => {
            let mut peer = P::armed(delays);
            each(|| peer.pair(rng.below(n as u64) as usize, rng.delay()));
        }
        "rearm" if P::MOVES => {
            let mut peer = P::armed(delays);
            each(|| peer.rearm(rng.below(n as u64) as usize, rng.delay()));
        }
        "refresh" => {
            let mut peer = P::armed((0..CONNECTIONS).map(|_| 30 * SEC));
            let mut events = 0;
            each(|| {
                peer.rearm(rng.below(CONNECTIONS as u64) as usize, 30 * SEC);
                events += 1;
                if events % 1000 == 0 {
                    peer.tick();
                }
            });
        }
        "cycle" => {
            let start = Stopwatch::start();
            let mut peer = P::armed(delays);
            figure("arm", start.ns_each(n));
            let start = Stopwatch::start();
            // Rounded up to its millisecond, a timer may be one tick later.
            let fired: usize = (0..=LONGEST / MS).map(|_| peer.tick()).sum();
            figure("fire", start.ns_each(n));
            assert_eq!(fired, n);
        }
        "memory" => {
            let before = resident();
            let _peer = P::armed(delays);
            figure("bytes", (resident() - before) / n as f64);
        }
        _ => std::process::exit(2),
    }
}
