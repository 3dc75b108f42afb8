//! The core under the randomized model checker: four threads of some tens of
//! operations each, in one order of their steps after another, on a wheel of
//! shrunken constants. Each step of an order is drawn anew, or each thread has a
//! priority, which changes twice in a run (Burckhardt and others, *A Randomized
//! Scheduler with Probabilistic Guarantees of Finding Bugs*, 2010).
//!
//! `make check CHECK=shuttle` runs them, each `SHUTTLE_ITERATIONS` times in either way. A
//! failure prints its order. If `HWHEEL_SCHEDULE` names a file with that, a test
//! runs once, in that order.
//!
//! Every atomic access is sequentially consistent here, which the tests in
//! `model` see to; what comes of many steps of many threads is seen here.

mod callbacks;
pub(crate) mod host;
mod owned;
mod sleep;
mod storm;
mod watch;

use super::checker::{at, called, func, shape, thread, Futex, Waker, TICK_BITS};
use super::{awake, result, Everywhere, Rng, Waking, NUMBERS};
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::life::Spec;
use crate::core::state::Handle;
use crate::core::ticks::AUTO;
use crate::core::wheel::{Caller, Config, Wheel};
use crate::core::Error;
use crate::core::Thread;
use shuttle::rand::RngCore;
use shuttle::scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler};
use std::collections::BTreeMap;
use std::env;
// Of the standard library: to keep books is no step of an order.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use watch::{Promise, Watch};

/// The number of the thread that drives.
const DRIVER: Thread = NUMBERS - 1;
/// The threads that arm; the fourth drives.
const THREADS: usize = 3;
/// How many times a priority changes, and one.
const DEPTH: usize = 3;
/// Delays are shorter than this, in ticks, and what may be added to one.
const LONGEST: u64 = 8;
const SLACK: u64 = 4;

/// The sums over all executions of a test.
#[derive(Default)]
struct Tally {
    executions: AtomicU64,
    ended: AtomicU64,
    /// Callbacks, of whole wheels.
    called: AtomicU64,
}

impl Tally {
    /// Says of the test that ends what it has had since `begin`.
    fn say(&self, begin: std::time::Instant) {
        let [executions, ended] =
            [&self.executions, &self.ended].map(|count| count.load(Ordering::Relaxed));
        assert!(ended > 0, "nothing was tried");
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("?").rsplit("::").next();
        println!(
            "{}: {executions} executions, {ended} timers ended, {:.1} s",
            name.unwrap_or("?"),
            begin.elapsed().as_secs_f64()
        );
    }
}

fn add(to: &AtomicU64, n: u64) {
    to.fetch_add(n, Ordering::Relaxed);
}

fn run(scheduler: impl Scheduler + 'static, f: &Arc<impl Fn() + Send + Sync + 'static>) {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 17;
    config.silence_warnings = true;
    let f = f.clone();
    shuttle::Runner::new(scheduler, config).run(move || f());
}

/// Numbers that belong to the order.
fn numbers() -> Rng {
    Rng(shuttle::rand::thread_rng().next_u64() | 1)
}

/// Runs `f`, with numbers that belong to the order, in the orders that were
/// asked for.
fn check(f: impl Fn(&mut Rng, &Tally) + Send + Sync + 'static) {
    let tally = Arc::new(Tally::default());
    let counts = tally.clone();
    let f = Arc::new(move || {
        add(&counts.executions, 1);
        f(&mut numbers(), &counts);
    });
    if let Ok(file) = env::var("HWHEEL_SCHEDULE") {
        let order = ReplayScheduler::new_from_file(file).expect("a file with an order");
        // If it does not fail, the order ends early, or does not fit: panics as well.
        return run(order, &f);
    }
    let n = iterations();
    let begin = std::time::Instant::now();
    run(RandomScheduler::new(n), &f);
    run(PctScheduler::new(DEPTH, n), &f);
    tally.say(begin);
}

/// How often a test is run in either way.
fn iterations() -> usize {
    env::var("SHUTTLE_ITERATIONS").map_or(500, |n| n.parse().expect("a number"))
}

/// A wheel, its clock, and the books of its timers.
struct World {
    wheel: Everywhere,
    pooled: bool,
    /// The numbers that no thread has.
    numbers: Mutex<Vec<Thread>>,
    /// Where threads wait for the end of a callback.
    futex: Futex,
    now: AtomicU64,
    closing: AtomicBool,
    /// Timers that every thread uses, and replaces.
    shared: [AtomicU64; 4],
    watches: [Mutex<Watch>; THREADS],
    /// How often each of the others was armed and has not ended. Zero at last.
    books: Mutex<BTreeMap<Handle, i64>>,
    ended: AtomicU64,
}

impl World {
    /// Of any shape, before a wrap of anything.
    fn new(rng: &mut Rng) -> World {
        World::of(rng, false)
    }

    fn of(rng: &mut Rng, pooled: bool) -> World {
        let (levels, slot_bits) = [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2)][rng.below(5) as usize];
        let start = [0, (1 << 29) - 8, (1 << 32) - 8, (1 << 35) - 8][rng.below(4) as usize];
        let config = Config {
            pooled,
            ..shape(levels, slot_bits, start)
        };
        let wheel = Everywhere::new(config).unwrap();
        let w = World {
            wheel,
            numbers: Mutex::new((1..DRIVER).collect()),
            pooled,
            futex: Futex::default(),
            now: AtomicU64::new(start),
            closing: AtomicBool::new(false),
            shared: Default::default(),
            watches: Default::default(),
            books: Mutex::default(),
            ended: AtomicU64::new(0),
        };
        for watch in &w.watches {
            watch.lock().unwrap().timer =
                w.wheel.setup(&w.driver(), Spec::default(), None).unwrap();
        }
        for n in 0..w.shared.len() {
            // Nothing is there yet.
            assert_eq!(w.replace(rng, &w.driver(), n), Err(Error::Stale));
        }
        w
    }

    /// A thread begins, perhaps with the number of one that has ended.
    fn take_number(&self) -> Thread {
        let number = self.numbers.lock().unwrap().pop();
        number.expect("there are few threads")
    }

    /// It ends.
    fn give_back(&self, number: Thread) {
        self.numbers.lock().unwrap().push(number);
    }

    /// The driver as a caller.
    fn driver(&self) -> Waking<fn()> {
        awake(DRIVER)
    }

    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn soon(&self, rng: &mut Rng) -> u64 {
        self.now() + rng.below(LONGEST)
    }

    fn book(&self, timer: Handle, by: i64) {
        *self.books.lock().unwrap().entry(timer).or_default() += by;
    }

    /// A timer has fired, or was handed back.
    fn ends(&self, timer: Handle, fired_ns: Option<u64>) {
        let tick = fired_ns.map(|ns| ns >> TICK_BITS);
        add(&self.ended, 1);
        for watch in &self.watches {
            let mut watch = watch.lock().unwrap();
            if watch.timer == timer {
                return watch.ends(tick);
            }
        }
        self.book(timer, -1);
    }

    /// Arms a timer, by the short way.
    fn arm(&self, caller: &impl Caller, timer: Handle, tick: u64) -> Result<bool, Error> {
        result(self.wheel.arm_at(caller, timer, at(tick)))
    }

    /// Cancels it, by the short way.
    fn cancel(&self, caller: &impl Caller, timer: Handle) -> Result<bool, Error> {
        result(self.wheel.cancel_plain(caller, timer))
    }

    /// A new timer in the place of a shared one, which is freed.
    fn replace(&self, rng: &mut Rng, caller: &impl Caller, n: usize) -> Result<(), Error> {
        let spec = Spec {
            func: func(rng.below(2) as usize),
            kind: rng.below(2) as u16 * AUTO,
            ..Spec::default()
        };
        let due = (spec.kind == AUTO).then(|| at(self.soon(rng)));
        let fresh = self.wheel.setup(caller, spec, due)?;
        self.book(fresh, i64::from(due.is_some()));
        let old = self.shared[n].swap(fresh, Ordering::Relaxed);
        let was = self.wheel.free(caller, old)?;
        self.book(old, -i64::from(was));
        Ok(())
    }

    /// A call on a timer that others use at the same time.
    fn share(&self, rng: &mut Rng, caller: &impl Caller) {
        let n = rng.below(self.shared.len() as u64) as usize;
        let timer = self.shared[n].load(Ordering::Relaxed);
        let tick = self.soon(rng);
        let arm = |how| {
            let was = self.wheel.arm(caller, timer, at(tick), how)?;
            let armed = !was && how != How::Pending;
            self.book(timer, i64::from(armed));
            Ok(())
        };
        let done = match rng.below(12) {
            0..=2 => self.replace(rng, caller, n),
            3 => arm(How::Earlier),
            4 => arm(How::Pending),
            5 => arm(How::Within(at(rng.below(SLACK)))),
            6..=8 => self
                .arm(caller, timer, tick)
                .map(|was| self.book(timer, i64::from(!was))),
            _ => self
                .cancel(caller, timer)
                .map(|was| self.book(timer, -i64::from(was))),
        };
        match done {
            Ok(()) | Err(Error::Stale) => {}
            Err(Error::Shutdown) if self.closing.load(Ordering::Relaxed) => {}
            Err(e) => panic!("{e:?}"),
        }
    }

    /// Cancels one of those, and waits for the end of its callback.
    fn await_end(&self, rng: &mut Rng, caller: &impl Caller) {
        let n = rng.below(self.shared.len() as u64) as usize;
        let timer = self.shared[n].load(Ordering::Relaxed);
        let own = self.wheel.inboxes.of(caller.thread_at_hand());
        let cancels = || own.count.cancels.get();
        let before = cancels();
        let waits = self.futex.waits();
        match self.wheel.cancel_sync(caller, timer, false, waits) {
            Ok(was) => {
                // It may also end what another thread arms meanwhile, and says so once.
                let ended = cancels() - before;
                assert_eq!(was, ended != 0);
                self.book(timer, -(ended as i64));
            }
            Err(e) => assert_eq!(e, Error::Stale),
        }
    }

    /// A call of thread `n`.
    fn call(&self, n: usize, rng: &mut Rng, caller: &impl Caller) {
        if rng.below(2) == 0 {
            return self.share(rng, caller);
        }
        let next = (rng.below(5) < 3).then(|| self.soon(rng));
        let mut watch = self.watches[n].lock().unwrap();
        let timer = watch.timer;
        watch.begin(next);
        drop(watch);
        let was = match next {
            Some(tick) => self.arm(caller, timer, tick),
            None => self.cancel(caller, timer),
        };
        self.watches[n].lock().unwrap().end(was, self.now());
    }

    /// A thread that begins, uses the wheel and ends, `lives` times.
    fn live(&self, n: usize, rng: &mut Rng, lives: u64, calls: u64) {
        for _ in 0..lives {
            let number = self.take_number();
            for _ in 0..calls {
                self.call(n, rng, &awake(number));
            }
            self.give_back(number);
        }
    }

    /// What must have fired by `target`.
    fn promises(&self, target: u64) -> Vec<Promise> {
        let all = self.watches.iter();
        all.filter_map(|watch| watch.lock().unwrap().promise())
            .filter(|promise| promise.due.latest <= target)
            .collect()
    }

    /// Time goes on to `target`, and all that is due fires.
    fn fire_all(&self, target: u64) {
        self.advance(target, |f| self.fire(f));
    }

    /// Time goes on to `target`, and all that is due is handed to `fire`.
    fn advance(&self, target: u64, mut fire: impl FnMut(&Fired)) {
        self.sweep(target, false, |f| {
            fire(f);
            true
        });
    }

    /// Time goes on to `target`: what fires is handed to `fire`, which may say stop; then nothing
    /// is demanded. With `always` it sweeps even if nothing is due, as a driver does before it
    /// sleeps.
    fn sweep(&self, target: u64, always: bool, mut fire: impl FnMut(&Fired) -> bool) {
        self.now.store(target, Ordering::Relaxed);
        let due = self.promises(target);
        let mut last = 0;
        let take = |f: &Fired| {
            let tick = f.deadline_ns >> TICK_BITS;
            assert!(tick <= target, "early");
            // One that was armed for a tick gone by fires in a later one.
            let exact = |p: &Promise| p.timer == f.handle && p.due.tick == p.due.latest;
            let promises = self.promises(target);
            if promises.iter().any(|p| due.contains(p) && exact(p)) {
                assert!(last <= tick, "not in order");
                last = tick;
            }
            fire(f)
        };
        let sink = Waker(&self.futex, take);
        let done = match always {
            true => self.wheel.drive(0).unwrap().advance(at(target), sink),
            false => self.wheel.advance(at(target), sink).unwrap(),
        };
        let late = self.promises(target);
        let is_late = done && late.iter().any(|p| due.contains(p));
        assert!(!is_late, "late, or lost");
    }

    /// Fires one, callback and all.
    fn fire(&self, f: &Fired) {
        self.ends(f.handle, Some(f.deadline_ns));
        if self.pooled && f.func != 0 {
            self.wheel
                .finish(&self.driver(), f.handle, || self.futex.wake());
        }
    }

    /// Hands back what is armed; how much that was.
    fn drain(&self) -> u64 {
        let mut drive = self.wheel.drive(0).unwrap();
        drive.handed(|f| self.ends(f.handle, None)).len() as u64
    }

    /// The threads are gone: what is still armed fires, and the books balance.
    fn close(&self, tally: &Tally) {
        self.fire_all(self.now() + LONGEST + SLACK);
        assert_eq!(self.drain(), 0, "armed, and never due");
        for watch in &self.watches {
            let watch = watch.lock().unwrap();
            assert!(!watch.is_open(), "lost");
            assert_eq!(self.wheel.free(&self.driver(), watch.timer), Ok(false));
        }
        for timer in &self.shared {
            let timer = timer.load(Ordering::Relaxed);
            let freed = self.wheel.free(&self.driver(), timer);
            assert!(matches!(freed, Ok(false) | Err(Error::Stale)));
        }
        let books = self.books.lock().unwrap();
        assert!(books.values().all(|open| *open == 0), "{books:?}");
        assert_eq!(self.wheel.live(NUMBERS), 0);
        add(&tally.ended, self.ended.load(Ordering::Relaxed));
    }
}

/// For a message: what is pending in a wheel, and when its driver wakes.
fn describe(w: &Wheel) -> String {
    let mut at = 0;
    let mut due = Vec::new();
    while let Some((next, pending)) = w.next_pending(at) {
        due.push(pending.deadline_ns);
        at = next;
    }
    format!(
        "{} pending, due {due:?}, hand {}, next {:?}, dirty {}, {} entries",
        w.pending(NUMBERS),
        w.hand_ns(),
        w.next_expiry(),
        w.inboxes.are_dirty(),
        w.entries(),
    )
}

/// Runs `body` in three threads and `driver` in a fourth, each with numbers of its
/// own. The caller's, where the world is, does nothing meanwhile: if one fails,
/// the others may go on.
fn together(
    rng: &mut Rng,
    body: impl Fn(usize, &mut Rng) + Sync,
    driver: impl FnOnce(&mut Rng) + Send,
) {
    let body = &body;
    thread::scope(|s| {
        for n in 0..THREADS {
            let mut rng = Rng(rng.next() | 1);
            s.spawn(move || body(n, &mut rng));
        }
        let mut rng = Rng(rng.next() | 1);
        s.spawn(move || driver(&mut rng));
    });
}
