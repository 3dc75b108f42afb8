//! Each function of the library under criterion, by the C functions and by the interface for
//! Rust, with 1,000 to 1,000,000 timers: `make bench WHAT=criterion`. The wheel has a manual clock
//! with ticks of 1 ms; delays are random, up to 60 s, unless a name says otherwise.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion};
use criterion_benches::hwheel::{Clock, Event, Options, Time, Timer, Wheel};
use criterion_benches::{
    hwheel_advance, hwheel_create, hwheel_destroy, hwheel_drain, hwheel_every, hwheel_key_set,
    hwheel_once, hwheel_timer_delete, hwheel_timer_mod, hwheel_timer_mod_many, hwheel_timer_setup,
    CEvent, COptions, ABS, MANUAL,
};
use hwheel_async::WheelExt;
use std::ffi::{c_int, c_void};
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;
const LONGEST: u64 = 60_000 * MS;
const TIMEOUT: u64 = 30_000 * MS;
const PERIOD: u64 = 10 * MS;
const SIXTEEN: usize = 16;
/// Events that a call hands out.
const EVENTS: usize = 32;
const POPULATIONS: [usize; 3] = [1_000, 100_000, 1_000_000];

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(n)) >> 64) as u64
    }

    fn of(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    fn delay(&mut self) -> u64 {
        MS + self.below(LONGEST - MS)
    }
}

/// An interface of the library. Times are on the wheel's clock.
trait Interface: Send + Sync + 'static {
    const NAME: &'static str;
    type Name: Copy + Send + Sync;
    fn new() -> Self;
    fn setup(&self, cookie: u64) -> Self::Name;
    fn arm(&self, timer: Self::Name, at: u64);
    fn arm_sixteen(&self, timers: &[Self::Name; SIXTEEN], at: &[u64; SIXTEEN]);
    fn cancel(&self, timer: Self::Name);
    fn once(&self, at: u64) -> Self::Name;
    fn every(&self, first: u64);
    fn key(&self, key: u64, at: u64);
    /// The number of timers that fired.
    fn advance(&self, now: u64) -> usize;
    /// The number of timers handed back.
    fn drain(&self) -> usize;
}

struct C(*mut c_void);

// SAFETY: any thread may use a wheel.
unsafe impl Send for C {}
// SAFETY: as above.
unsafe impl Sync for C {}

fn good(result: c_int) -> usize {
    usize::try_from(result).expect("a call has failed")
}

impl Interface for C {
    const NAME: &'static str = "C";
    type Name = u64;

    fn new() -> Self {
        let options = COptions {
            size: size_of::<COptions>() as u32,
            clock: MANUAL,
            rest: [0; 9],
        };
        let mut wheel = std::ptr::null_mut();
        // SAFETY: as the header says; so below.
        good(unsafe { hwheel_create(&options, &mut wheel) });
        C(wheel)
    }

    fn setup(&self, cookie: u64) -> u64 {
        let mut timer = 0;
        good(unsafe { hwheel_timer_setup(self.0, None, cookie, &mut timer) });
        timer
    }

    #[inline]
    fn arm(&self, timer: u64, at: u64) {
        good(unsafe { hwheel_timer_mod(self.0, timer, at, ABS) });
    }

    #[inline]
    fn arm_sixteen(&self, timers: &[u64; SIXTEEN], at: &[u64; SIXTEEN]) {
        let (timers, at) = (timers.as_ptr(), at.as_ptr());
        let none = std::ptr::null_mut();
        good(unsafe { hwheel_timer_mod_many(self.0, timers, at, SIXTEEN as u32, ABS, none) });
    }

    #[inline]
    fn cancel(&self, timer: u64) {
        good(unsafe { hwheel_timer_delete(self.0, timer) });
    }

    #[inline]
    fn once(&self, at: u64) -> u64 {
        let mut timer = 0;
        good(unsafe { hwheel_once(self.0, at, None, 0, ABS, &mut timer) });
        timer
    }

    fn every(&self, first: u64) {
        let mut timer = 0;
        good(unsafe { hwheel_every(self.0, first, PERIOD, 0, None, 0, ABS, &mut timer) });
    }

    #[inline]
    fn key(&self, key: u64, at: u64) {
        let bytes = (&raw const key).cast();
        good(unsafe { hwheel_key_set(self.0, bytes, 8, at, None, 0, ABS) });
    }

    fn advance(&self, now: u64) -> usize {
        let mut events = [CEvent::default(); EVENTS];
        let (mut all, run) = (0, std::ptr::null_mut());
        loop {
            let n = good(unsafe {
                hwheel_advance(self.0, now, events.as_mut_ptr(), EVENTS as u32, run)
            });
            all += n;
            if n < EVENTS {
                return all;
            }
        }
    }

    fn drain(&self) -> usize {
        let mut events = [CEvent::default(); EVENTS];
        let mut all = 0;
        loop {
            let n = good(unsafe { hwheel_drain(self.0, events.as_mut_ptr(), EVENTS as u32) });
            all += n;
            if n < EVENTS {
                return all;
            }
        }
    }
}

impl Drop for C {
    fn drop(&mut self) {
        good(unsafe { hwheel_destroy(self.0) });
    }
}

struct Rust(Arc<Wheel>);

impl Interface for Rust {
    const NAME: &'static str = "Rust";
    type Name = Timer;

    fn new() -> Self {
        let wheel = Options::new().clock(Clock::Manual).create();
        Rust(Arc::new(wheel.expect("a wheel")))
    }

    fn setup(&self, cookie: u64) -> Timer {
        self.0.setup(cookie).expect("a timer")
    }

    #[inline]
    fn arm(&self, timer: Timer, at: u64) {
        self.0.arm(timer, Time::from_nanos(at)).expect("armed");
    }

    #[inline]
    fn arm_sixteen(&self, timers: &[Timer; SIXTEEN], at: &[u64; SIXTEEN]) {
        let both =
            std::array::from_fn::<_, SIXTEEN, _>(|i| (timers[i], Time::from_nanos(at[i]).into()));
        self.0.arm_many(&both).expect("armed");
    }

    #[inline]
    fn cancel(&self, timer: Timer) {
        self.0.delete(timer).expect("cancelled");
    }

    #[inline]
    fn once(&self, at: u64) -> Timer {
        self.0.once(Time::from_nanos(at), 0).expect("a timer")
    }

    fn every(&self, first: u64) {
        let period = Duration::from_nanos(PERIOD);
        self.0
            .every(Time::from_nanos(first), period, 0)
            .expect("a timer");
    }

    #[inline]
    fn key(&self, key: u64, at: u64) {
        self.0
            .key_set(&key.to_ne_bytes(), Time::from_nanos(at), 0)
            .expect("set");
    }

    fn advance(&self, now: u64) -> usize {
        let mut events = [Event::default(); EVENTS];
        let mut all = 0;
        loop {
            let n = self
                .0
                .advance(Time::from_nanos(now), &mut events)
                .expect("advanced")
                .len();
            all += n;
            if n < events.len() {
                return all;
            }
        }
    }

    fn drain(&self) -> usize {
        let mut events = [Event::default(); EVENTS];
        let mut all = 0;
        loop {
            let n = self.0.drain(&mut events).expect("drained").len();
            all += n;
            if n < events.len() {
                return all;
            }
        }
    }
}

fn timers<I: Interface>(n: usize) -> (I, Vec<I::Name>) {
    let wheel = I::new();
    let timers = (0..n as u64).map(|i| wheel.setup(i)).collect();
    (wheel, timers)
}

fn armed<I: Interface>(n: usize, rng: &mut Rng) -> (I, Vec<I::Name>) {
    let (wheel, timers) = timers::<I>(n);
    for timer in &timers {
        wheel.arm(*timer, rng.delay());
    }
    wheel.advance(MS);
    (wheel, timers)
}

/// The time of some turns; in each, `turn` is done for as many as it likes, and times itself.
fn turns(times: u64, mut turn: impl FnMut() -> (u64, Duration)) -> Duration {
    let (mut done, mut all) = (0, Duration::ZERO);
    while done < times {
        let (n, time) = turn();
        done += n;
        all += time;
    }
    all.mul_f64(times as f64 / done as f64)
}

fn timed(n: usize, work: impl FnOnce()) -> (u64, Duration) {
    let start = Instant::now();
    work();
    (n as u64, start.elapsed())
}

type Group<'c> = BenchmarkGroup<'c, WallTime>;

fn all<I: Interface>(criterion: &mut Criterion) {
    for n in POPULATIONS {
        let mut group = criterion.benchmark_group(I::NAME);
        let id = |what: &str| BenchmarkId::new(what, n);
        calls::<I>(&mut group, n, &id);
        turns_of_all::<I>(&mut group, n, &id);
        group.bench_function(id("rearm, two threads"), |b| {
            b.iter_custom(|times| two_threads::<I>(n, times));
        });
        group.finish();
    }
}

/// Measures a call in a wheel with n timers.
fn calls<I: Interface>(group: &mut Group<'_>, n: usize, id: &impl Fn(&str) -> BenchmarkId) {
    let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
    group.bench_function(id("rearm"), |b| {
        let (wheel, timers) = armed::<I>(n, &mut rng);
        b.iter(|| wheel.arm(timers[rng.of(n)], MS + rng.delay()));
    });
    group.bench_function(id("cancel and arm"), |b| {
        let (wheel, timers) = armed::<I>(n, &mut rng);
        b.iter(|| {
            let timer = timers[rng.of(n)];
            wheel.cancel(timer);
            wheel.arm(timer, MS + rng.delay());
        });
    });
    group.bench_function(id("refresh to 30 s, a tick for each 1,000"), |b| {
        let (wheel, timers) = armed::<I>(n, &mut rng);
        let (mut now, mut calls) = (MS, 0);
        b.iter(|| {
            wheel.arm(timers[rng.of(n)], now + TIMEOUT);
            calls += 1;
            if calls % 1000 == 0 {
                now += MS;
                wheel.advance(now);
            }
        });
    });
    group.bench_function(id("batch of sixteen"), |b| {
        let (wheel, timers) = armed::<I>(n, &mut rng);
        b.iter(|| {
            let some = std::array::from_fn(|_| timers[rng.of(n)]);
            let at = std::array::from_fn(|_| MS + rng.delay());
            wheel.arm_sixteen(&some, &at);
        });
    });
    group.bench_function(id("once and cancel"), |b| {
        let (wheel, _timers) = armed::<I>(n, &mut rng);
        b.iter(|| wheel.cancel(black_box(wheel.once(MS + rng.delay()))));
    });
    group.bench_function(id("key: move"), |b| {
        let wheel = I::new();
        for key in 0..n as u64 {
            wheel.key(key, rng.delay());
        }
        b.iter(|| wheel.key(rng.below(n as u64), MS + rng.delay()));
    });
}

/// Measures the time for each of n timers of a call, or of calls, on all of them.
fn turns_of_all<I: Interface>(group: &mut Group<'_>, n: usize, id: &impl Fn(&str) -> BenchmarkId) {
    let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
    group.bench_function(id("arm"), |b| {
        let (wheel, timers) = timers::<I>(n);
        let mut now = 0;
        b.iter_custom(|times| {
            turns(times, || {
                let time = timed(n, || {
                    timers.iter().for_each(|t| wheel.arm(*t, now + rng.delay()));
                });
                timers.iter().for_each(|t| wheel.cancel(*t));
                // The entries go, so that the next turn begins like the first.
                now += LONGEST + MS;
                wheel.advance(now);
                time
            })
        });
    });
    group.bench_function(id("cancel"), |b| {
        let (wheel, timers) = timers::<I>(n);
        b.iter_custom(|times| {
            turns(times, || {
                timers.iter().for_each(|t| wheel.arm(*t, rng.delay()));
                timed(n, || timers.iter().for_each(|t| wheel.cancel(*t)))
            })
        });
    });
    group.bench_function(id("fire, tick by tick"), |b| {
        let (wheel, timers) = timers::<I>(n);
        let mut now = 0;
        b.iter_custom(|times| {
            turns(times, || {
                timers.iter().for_each(|t| wheel.arm(*t, now + rng.delay()));
                let mut fired = 0;
                let time = timed(n, || {
                    for _ in 0..=LONGEST / MS {
                        now += MS;
                        fired += wheel.advance(now);
                    }
                });
                assert_eq!(fired, n);
                time
            })
        });
    });
    group.bench_function(id("period of 10 ms"), |b| {
        let wheel = I::new();
        for i in 0..n as u64 {
            wheel.every(MS + i % (PERIOD / MS) * MS);
        }
        let mut now = 0;
        b.iter_custom(|times| {
            turns(times, || {
                now += MS;
                let start = Instant::now();
                let fired = wheel.advance(now);
                (fired as u64, start.elapsed())
            })
        });
    });
    group.bench_function(id("drain"), |b| {
        b.iter_custom(|times| {
            turns(times, || {
                let (wheel, _timers) = armed::<I>(n, &mut rng);
                timed(n, || {
                    black_box(wheel.drain());
                })
            })
        });
    });
}

/// Two threads on one wheel, each with n timers: the time of the slower one.
fn two_threads<I: Interface>(n: usize, times: u64) -> Duration {
    let (wheel, barrier) = (I::new(), Barrier::new(2));
    let work = |seed: u64| {
        let mut rng = Rng(seed);
        let timers: Vec<_> = (0..n as u64).map(|i| wheel.setup(i)).collect();
        timers.iter().for_each(|t| wheel.arm(*t, rng.delay()));
        barrier.wait();
        let start = Instant::now();
        for _ in 0..times {
            wheel.arm(timers[rng.of(n)], rng.delay());
        }
        start.elapsed()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| work(1));
        work(2).max(other.join().expect("no panic"))
    })
}

/// A future that is made, polled once and dropped, with n others that wait.
fn futures(criterion: &mut Criterion) {
    for n in POPULATIONS {
        let Rust(wheel) = Rust::new();
        let mut rng = Rng(1);
        for _ in 0..n {
            wheel
                .once(Time::from_nanos(rng.delay()), 0)
                .expect("a timer");
        }
        let mut context = Context::from_waker(Waker::noop());
        criterion.bench_function(&format!("Rust/sleep, polled and dropped/{n}"), |b| {
            b.iter(|| {
                let sleep = pin!(wheel.sleep(Time::from_nanos(rng.delay())));
                assert!(sleep.poll(&mut context).is_pending());
            });
        });
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300))
        .configure_from_args();
    all::<C>(&mut criterion);
    all::<Rust>(&mut criterion);
    futures(&mut criterion);
    criterion.final_summary();
}
