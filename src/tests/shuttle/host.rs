//! A wheel on a clock, from its beginning to its end: what starts, stops, drives, asks,
//! arms, waits, drains and destroys, in three threads, with the tick thread, workers
//! or an executor. The code is what ships; clock, alarm, threads and futex are those of
//! the test (`sys`), and adversaries: the system refuses, alarms go off for nothing, time
//! leaps and steps back; the executor works late, inside of the call, or not at all, calls
//! back, and drives, stops and arms from the thread that runs its callbacks.
//!
//! That a call does not return is seen as well: a thread that never stops waiting is a
//! deadlock, and one that never stops running takes too many steps.

mod bytes;
mod life;
mod waits;
mod woken;

use super::{add, check, numbers, thread, Rng, Tally};
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::life::Spec;
use crate::core::state::Handle;
use crate::core::ticks::{AUTO, KEYED};
use crate::runtime::drive::Bounds;
use crate::runtime::options::{Overload, WakeFn, WheelInC};
use crate::runtime::{Errno, Host, Options};
use crate::sys::clock::Clock;
use crate::tests::checker::Hosted;
use crate::tests::system::{one_in, system, System, BEGIN};
use crate::tests::NUMBERS;
use shuttle::sync::{Condvar, Mutex};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

impl System {
    /// The clock does what no clock should.
    fn misbehave(&self, rng: &mut Rng) {
        match rng.below(3) {
            0 => self.pass(TICK << rng.below(30)),
            _ => self.step_back(rng.below(2 * SOON)),
        }
    }
}

// State that the tests share.

const TICK: u64 = 1000;
/// Delays are below this.
const SOON: u64 = 10 * TICK;
/// Later than everything.
const FAR: u64 = TICK << 12;
const SHARED: usize = 3;

/// How an executor behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Nothing, and it stays so.
    Refuses,
    /// Refuses each callback, and takes a lock in the call.
    Locks,
    /// Runs it inside of the call.
    Inside,
    /// Has a thread run it, some time.
    Late,
    /// Has a thread run it, some time, and that thread makes any other call as well.
    Meddles,
}

/// One wheel and its books.
struct World {
    host: Hosted,
    clock: Clock,
    manner: Manner,
    /// The threads of the test that have not ended.
    busy: AtomicU64,
    /// The executor's thread has not ended.
    works: AtomicBool,
    /// Timers that all threads use.
    shared: [AtomicU64; SHARED],
    /// Arms less how they have ended.
    books: AtomicI64,
    ended: AtomicU64,
    /// Deletes that have said that they ended an arm.
    said: AtomicU64,
    /// Callbacks that ran, and events.
    fired: AtomicU64,
    /// Callbacks that ran.
    called: AtomicU64,
    /// Drains that are under way, or were not refused.
    drains: AtomicU64,
    /// The requests to the executor's thread, and whether it is to end.
    asked: Mutex<(u64, bool)>,
    ask: Condvar,
}

std::thread_local! {
    /// That of the execution: the threads of one run in one of the system's.
    static WORLD: Cell<*const World> = const { Cell::new(std::ptr::null()) };
}

shuttle::thread_local! {
    /// A bit for each of the shared timers whose callback the thread is in.
    static INSIDE: Cell<u64> = Cell::new(0);
}

fn world<'a>() -> &'a World {
    // SAFETY: set for as long as there are threads.
    unsafe { &*WORLD.get() }
}

/// A result that one of these errors is among the right ones.
#[track_caller]
fn right(result: Result<impl Into<i32>, Errno>, errors: &[i32]) -> i32 {
    match result {
        Ok(n) => n.into(),
        Err(e) if errors.contains(&-e) => e,
        Err(e) => panic!("error {e}"),
    }
}

const STOPPED: [i32; 3] = [libc::EBUSY, libc::EAGAIN, libc::ESHUTDOWN];

/// Calls that are wrong inside of a callback or the executor.
fn is_refused_inside(host: &Host) {
    assert_eq!(host.stop(), Err(-libc::EDEADLK));
    assert_eq!(host.drain(|_| true), Err(-libc::EDEADLK));
    let driven = match world().is_manual() {
        true => host.advance(FAR << 20, Bounds::default(), None),
        false => host.poll(Bounds::default(), None),
    };
    assert_eq!(driven, Err(-libc::EBUSY));
}

/// The callback of all timers: now and then it calls back.
unsafe fn callback(host: &Host, fired: &Fired) {
    let w = world();
    w.fires(fired);
    add(&w.called, 1);
    assert!(fired.func != 0 && (fired.handle == 0) == (fired.kind & KEYED != 0));
    let mut rng = numbers();
    let outer = INSIDE.with(Cell::get);
    let mine = (0..SHARED).find(|n| fired.handle == w.shared[*n].load(Ordering::Relaxed));
    INSIDE.with(|inside| inside.set(outer | mine.map_or(0, |n| 1 << n)));
    match rng.below(10) {
        0 => is_refused_inside(host),
        1 => w.wait_for_another(&mut rng),
        2 => w.arm(&mut rng),
        3 => _ = host.next_expiry().unwrap(),
        4 => _ = host.work(),
        5 => w.arm_one_call(&mut rng),
        _ => thread::yield_now(),
    }
    INSIDE.with(|inside| inside.set(outer));
}

unsafe extern "C-unwind" fn execute(host: *mut WheelInC, _: Option<NonNull<WheelInC>>) {
    // SAFETY: the wheel that calls it.
    let host = unsafe { &*host.cast::<Host>() };
    let w = world();
    if one_in(4) {
        is_refused_inside(host);
        host.next_expiry().unwrap();
    }
    match w.manner {
        Manner::Refuses => {}
        Manner::Locks => drop(w.asked.lock().unwrap()),
        Manner::Inside => _ = host.work().unwrap(),
        Manner::Late | Manner::Meddles => {
            w.asked.lock().unwrap().0 += 1;
            w.ask.notify_all();
        }
    }
}

impl World {
    fn new(clock: Clock, crew: Option<Options>, manner: Manner) -> World {
        World::of(clock, crew, manner, None)
    }

    /// With a function that wakes the driver.
    fn of(clock: Clock, crew: Option<Options>, manner: Manner, wake: WakeFn) -> World {
        let executor = crew.is_some_and(|crew| crew.workers == 0);
        let options = Options {
            clock: clock as u32,
            tick_ns: TICK,
            levels: 2,
            slots: 2,
            start_ns: if clock == Clock::Manual { BEGIN } else { 0 },
            executor: executor.then_some(execute),
            wake,
            ..crew.unwrap_or_default()
        };
        let w = World {
            host: Hosted::new(options, callback),
            clock,
            manner,
            busy: AtomicU64::new(0),
            works: AtomicBool::new(false),
            shared: Default::default(),
            books: AtomicI64::new(0),
            ended: AtomicU64::new(0),
            said: AtomicU64::new(0),
            fired: AtomicU64::new(0),
            called: AtomicU64::new(0),
            drains: AtomicU64::new(0),
            asked: Mutex::new((0, false)),
            ask: Condvar::new(),
        };
        for timer in &w.shared {
            timer.store(w.host.setup(kept(), None).unwrap(), Ordering::Relaxed);
        }
        w
    }

    /// With a tick thread.
    fn started(crew: Option<Options>, manner: Manner) -> World {
        let w = World::new(Clock::Monotonic, crew, manner);
        w.host.start().unwrap();
        w
    }

    fn is_manual(&self) -> bool {
        self.clock == Clock::Manual
    }

    /// For a message: what is pending, and when the driver wakes.
    fn describe(&self) -> String {
        let fd = self.host.descriptor();
        let alarm = fd.map(|fd| system().bell(fd as usize).seen());
        let wheel = super::describe(&self.host.wheel);
        format!("{wheel}, now {}, alarm {alarm:?}", self.host.now())
    }

    fn book(&self, by: i64) {
        self.books.fetch_add(by, Ordering::Relaxed);
    }

    fn fires(&self, fired: &Fired) {
        let latest = match self.clock {
            Clock::Manual => self.host.now(),
            _ => system().latest(),
        };
        assert!(fired.deadline_ns <= latest, "early");
        add(&self.fired, 1);
        self.ends();
    }

    fn ends(&self) {
        self.book(-1);
        add(&self.ended, 1);
    }

    /// A delete says whether it has ended an arm.
    fn says(&self, ended: bool) {
        self.book(-i64::from(ended));
        add(&self.said, ended.into());
        add(&self.ended, ended.into());
    }

    fn pick(&self, rng: &mut Rng) -> Handle {
        self.shared[rng.below(SHARED as u64) as usize].load(Ordering::Relaxed)
    }

    fn arm(&self, rng: &mut Rng) {
        let host = &self.host;
        let due = host.after(rng.below(SOON));
        let timer = self.pick(rng);
        // Before it can end.
        self.book(1);
        let armed = match rng.below(3) {
            0 => host.arm(timer, due, How::Within(rng.below(SOON))),
            _ => host.arm(timer, due, How::Always),
        };
        if right(armed, &[libc::ESHUTDOWN]) != 0 {
            self.book(-1);
        }
    }

    fn arm_one_call(&self, rng: &mut Rng) {
        let spec = Spec {
            kind: AUTO,
            func: rng.below(2) as usize,
            ..kept()
        };
        self.book(1);
        let due = self.host.after(rng.below(SOON));
        let made = self.host.setup(spec, Some(due));
        // There is not always room in so small a slab.
        if right(made.map(|_| 0), &[libc::ESHUTDOWN, libc::ENOSPC]) != 0 {
            self.book(-1);
        }
    }

    fn key(&self, rng: &mut Rng) {
        let host = &self.host;
        let key = [rng.below(2) as u8];
        let due = host.after(rng.below(SOON));
        match rng.below(3) {
            0 => _ = right(host.key_move(&key, due), &[libc::ESHUTDOWN]),
            1 => self.says(host.key_delete(&key).unwrap()),
            _ => {
                self.book(1);
                let set = host.key_set(&key, 1, 0, due);
                if right(set, &[libc::ESHUTDOWN, libc::ENOSPC]) != 0 {
                    self.book(-1);
                }
            }
        }
    }

    /// Waits for one of the shared timers. In the callback of one, only for a later one, so that
    /// no two wait for each other, or for itself, which is refused.
    fn wait_for_another(&self, rng: &mut Rng) {
        let n = rng.below(SHARED as u64);
        let inside = INSIDE.with(Cell::get);
        if inside >> n > 1 {
            return;
        }
        let was = self.await_end(self.shared[n as usize].load(Ordering::Relaxed));
        assert_eq!(was == -libc::EDEADLK, inside >> n == 1);
    }

    fn await_end(&self, timer: Handle) -> i32 {
        let was = right(self.host.cancel_sync(timer, false), &[libc::EDEADLK]);
        self.says(was == 1);
        was
    }

    /// Drives; false if that was refused.
    fn drive(&self, rng: &mut Rng) -> bool {
        let host = &self.host;
        let mut room = 1 + rng.below(3);
        let goal = rng.below(SOON);
        let mut event = |fired: &Fired| {
            self.fires(fired);
            room -= 1;
            room != 0
        };
        let bounds = Bounds {
            items: rng.below(4),
            ns: 0,
        };
        let driven = match self.is_manual() {
            true => host.advance(host.now() + goal, bounds, Some(&mut event)),
            false => host.poll(bounds, Some(&mut event)),
        };
        right(driven.map(|d| d.done), &[libc::EBUSY]) >= 0
    }

    fn drain(&self) {
        self.drains.fetch_add(1, Ordering::Relaxed);
        let done = self.host.drain(|_| {
            self.ends();
            true
        });
        if right(done, &[libc::EBUSY]) < 0 {
            self.drains.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Any call by any thread.
    fn call(&self, rng: &mut Rng) {
        let host = &self.host;
        match rng.below(20) {
            0 | 1 if !self.is_manual() => {
                let started = right(host.start().map(|()| 0), &STOPPED);
                assert!(started != -libc::ESHUTDOWN || self.drains.load(Ordering::Relaxed) != 0);
            }
            2 | 3 => _ = right(host.stop().map(|()| 0), &[libc::EBUSY]),
            4..=7 => _ = self.drive(rng),
            8 => _ = host.next_expiry().unwrap(),
            9 | 10 => self.key(rng),
            11 => self.wait_for_another(rng),
            12 => self.arm_one_call(rng),
            13 if rng.below(8) == 0 => self.drain(),
            14 => _ = right(host.work(), &[libc::EINVAL]),
            15 => {
                let was = host.wheel.cancel(&**host, self.pick(rng), false).unwrap();
                self.says(was);
            }
            16 if system().hostile.load(Ordering::Relaxed) && rng.below(4) == 0 => {
                system().misbehave(rng);
            }
            16 => system().pass(rng.below(2 * TICK)),
            17 => system().pass(SOON),
            _ => self.arm(rng),
        }
    }

    /// The executor's thread; it may tire of its work.
    fn work_late(&self, rng: &mut Rng) {
        let mut left = rng.below(12);
        loop {
            let mut asked = self.asked.lock().unwrap();
            while asked.0 == 0 && !asked.1 {
                asked = self.ask.wait(asked).unwrap();
            }
            if asked.0 == 0 || left == 0 {
                return;
            }
            asked.0 -= 1;
            left -= 1;
            drop(asked);
            self.host.work().unwrap();
            if self.manner == Manner::Meddles {
                self.call(rng);
            }
        }
    }

    fn dismiss_executor(&self) {
        self.asked.lock().unwrap().1 = true;
        self.ask.notify_all();
    }

    /// The end: no thread still waits, and the books balance.
    fn close(&self, tally: &Tally, rng: &mut Rng) {
        let host = &self.host;
        system().hostile.store(false, Ordering::Relaxed);
        system().pass(FAR);
        // To be stopped at any point of what is due.
        for _ in 0..rng.below(300) {
            thread::yield_now();
        }
        assert_eq!(host.stop(), Ok(()));
        let drains = rng.below(2) == 0;
        if !drains {
            // Callbacks may arm again, a few times. What is periodic does not end.
            let mut rounds = 0..50;
            while host.wheel.pending(NUMBERS) != 0
                && self.drains.load(Ordering::Relaxed) == 0
                && rounds.next().is_some()
            {
                system().pass(FAR);
                let driven = match self.is_manual() {
                    true => host.advance(host.now() + FAR, Bounds::default(), None),
                    false => host.poll(Bounds::default(), None),
                };
                driven.unwrap();
                assert_eq!(host.stop(), Ok(()));
            }
            host.next_expiry().unwrap();
        }
        if drains || host.wheel.pending(NUMBERS) != 0 {
            let all = |_: &Fired| {
                self.ends();
                true
            };
            while !host.drain(all).unwrap() {}
        }
        assert_eq!(host.stop(), Ok(()));
        let (queued, dropped, revoked) = host.queue();
        assert_eq!(queued, 0);
        let lost = host.unclaimed.get() + dropped;
        let fired = self.fired.load(Ordering::Relaxed) + lost + revoked;
        assert_eq!(host.wheel.shared.count.fired.get(), fired, "fired");
        // A sync delete that waits for a callback also ends what is armed meanwhile,
        // each time that it waits, and says so once.
        let ended = host.wheel.total(NUMBERS, |c| &c.cancels) + revoked;
        let unsaid = ended - self.said.load(Ordering::Relaxed);
        let open = self.books.load(Ordering::Relaxed) - lost as i64;
        assert_eq!(open, unsaid as i64, "books");
        self.host.destroy();
        add(&tally.ended, self.ended.load(Ordering::Relaxed) + lost);
        add(&tally.called, self.called.load(Ordering::Relaxed));
    }
}

/// A timer that is kept, with a callback.
fn kept() -> Spec {
    Spec {
        func: 1,
        ..Spec::default()
    }
}

/// An executor behind a queue of this size, without workers.
fn executor(queue: u32) -> Options {
    Options {
        workers: 0,
        queue,
        ..Options::default()
    }
}

/// A pool of some kind, or none.
fn crew(rng: &mut Rng) -> Option<Options> {
    (rng.below(4) != 0).then(|| {
        let mut crew = crew_that_drops_none(rng);
        crew.overload = [Overload::Run, Overload::Drop][rng.below(2) as usize] as u32;
        crew
    })
}

/// One that runs callbacks itself if its queue is full.
fn crew_that_drops_none(rng: &mut Rng) -> Options {
    Options {
        workers: rng.below(3) as u32,
        queue: 1 << rng.below(2),
        ..Options::default()
    }
}

fn manner(rng: &mut Rng) -> Manner {
    use Manner::{Inside, Late, Meddles, Refuses};
    [Refuses, Inside, Late, Meddles][rng.below(4) as usize]
}

/// Checks lives of worlds of `make`, in each of which a number of threads run `body`.
fn lives(
    threads: usize,
    make: impl Fn(&mut Rng) -> World + Send + Sync + 'static,
    body: impl Fn(&World, usize, &mut Rng) + Send + Sync + 'static,
) {
    check(move |rng, tally| {
        let w = make(rng);
        together(&w, rng, threads, |n, rng| body(&w, n, rng));
        w.close(tally, rng);
    });
}

/// Runs `body` in threads, each with numbers of its own, with the world as theirs; and
/// the executor's, if that has one.
fn together(w: &World, rng: &mut Rng, threads: usize, body: impl Fn(usize, &mut Rng) + Sync) {
    WORLD.set(w);
    let body = &body;
    w.busy.store(threads as u64, Ordering::Relaxed);
    // The caller's thread may wait for nothing else in here.
    thread::scope(|s| {
        if matches!(w.manner, Manner::Late | Manner::Meddles) {
            let mut rng = Rng(rng.next() | 1);
            w.works.store(true, Ordering::Relaxed);
            s.spawn(move || {
                w.work_late(&mut rng);
                w.works.store(false, Ordering::Relaxed);
            });
        }
        for n in 0..threads {
            let mut rng = Rng(rng.next() | 1);
            s.spawn(move || {
                body(n, &mut rng);
                if w.busy.fetch_sub(1, Ordering::Relaxed) == 1 {
                    w.dismiss_executor();
                }
            });
        }
    });
}
