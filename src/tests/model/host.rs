//! Whole wheels: who may drive, how the tick thread sleeps and ends, and who waits for it.
//! The code is what ships; clock, alarm, threads and futex are those of the tests (`sys`).

use super::{after, duel, duel_to, report, with_another, with_two_others, Part, Plain};
use crate::core::driver::Fired;
use crate::core::life::Spec;
use crate::core::state::NEVER;
use crate::runtime::drive::Bounds;
use crate::runtime::options::WheelInC;
use crate::runtime::{Errno, Host, Options};
use crate::sync::AtomicU64 as Tracked;
use crate::sys::clock::Clock;
use crate::sys::end;
use crate::tests::checker::{at, func, Hosted, TICK_BITS};
use crate::tests::system::{system, BEGIN};
use loom::sync::{Condvar, Mutex};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// When the timer of a test is due.
const DUE: u64 = BEGIN + at(1);
/// Later than that.
const LATER: u64 = BEGIN + at(2);

/// A wheel, and what its callbacks leave behind.
struct World {
    host: Hosted,
    written: Plain,
    ran: AtomicU64,
    /// The second function has run.
    fired: (Mutex<bool>, Condvar),
    /// The wheel's own thread has been started.
    started: AtomicBool,
    /// The callback has begun, in an order that the checker knows.
    begun: Tracked,
    /// Timers have been armed, in such an order.
    armed: Tracked,
    /// The latest timer.
    handle: AtomicU64,
}

/// The callback of the timers of a world, which is their cookie.
unsafe fn callback(_: &Host, fired: &Fired) {
    let w: *const World = std::ptr::with_exposed_provenance(fired.cookie as usize);
    // SAFETY: it outlives its wheel.
    let w = unsafe { &*w };
    w.begun.store(1, Ordering::Release);
    w.written.set(w.written.get() + 1);
    w.ran.fetch_add(1, Ordering::Relaxed);
    if fired.func == func(2) {
        *w.fired.0.lock().unwrap() = true;
        w.fired.1.notify_all();
    }
    if fired.func == func(3) {
        let handle = w.handle.load(Ordering::Relaxed);
        assert_eq!(w.host.arm_at(handle, LATER), 0);
    }
}

/// The options of a small wheel.
fn options(clock: Clock) -> Options {
    Options {
        clock: clock as u32,
        tick_ns: 1 << TICK_BITS,
        levels: 1,
        slots: 2,
        start_ns: if clock == Clock::Manual { BEGIN } else { 0 },
        ..Options::default()
    }
}

impl World {
    fn new(clock: Clock, workers: u32) -> Box<World> {
        let options = Options {
            workers,
            queue: 1,
            ..options(clock)
        };
        Box::new(World {
            host: Hosted::new(options, callback),
            written: Plain::default(),
            ran: AtomicU64::new(0),
            fired: Default::default(),
            started: AtomicBool::new(false),
            begun: Tracked::new(0),
            armed: Tracked::new(0),
            handle: AtomicU64::new(0),
        })
    }

    /// A timer that is due at DUE, and the latest.
    fn timer(&self, function: usize) {
        self.handle.store(self.due(function), Ordering::Relaxed);
    }

    /// A timer that is due at DUE.
    fn due(&self, function: usize) -> u64 {
        let spec = Spec {
            func: function,
            cookie: std::ptr::from_ref(self).expose_provenance() as u64,
            ..Spec::default()
        };
        self.host.setup(spec, Some(DUE)).unwrap()
    }

    /// A timer that is due, as time has passed.
    fn overdue(&self, function: usize) {
        self.timer(function);
        system().pass(LATER - BEGIN);
    }

    fn poll(&self) -> Result<bool, Errno> {
        Ok(self.host.poll(Bounds::default(), None)?.done)
    }

    fn advance(&self) -> Result<bool, Errno> {
        Ok(self.host.advance(DUE, Bounds::default(), None)?.done)
    }

    /// What edge-triggered epoll reports: true once each time the descriptor becomes ready.
    fn edge(&self) -> bool {
        let fd = self.host.descriptor().unwrap() as usize;
        system().bell(fd).edge()
    }

    /// Waits for the second function.
    fn wait(&self) {
        let mut fired = self.fired.0.lock().unwrap();
        while !*fired {
            fired = self.fired.1.wait(fired).unwrap();
        }
    }

    /// The last call on it.
    fn end(&self) {
        self.host.destroy();
        end::now();
    }

    fn ran(&self) -> u64 {
        self.ran.load(Ordering::Relaxed)
    }

    /// What the callbacks wrote. The checker fails if no order puts that before this read.
    fn wrote(&self) -> u64 {
        self.written.get()
    }
}

/// A duel in a wheel, and the end of it.
fn duel_of<A: Send + 'static, B: Send + 'static>(
    make: impl Fn() -> Box<World> + Part,
    f: impl Fn(&World) -> A + Part,
    g: impl Fn(&World) -> B + Part,
    judge: impl Fn(&World, A, B) + Part,
) {
    duel(
        make,
        move |w| ended(|| f(w)),
        move |w| ended(|| g(w)),
        move |w, a, b| {
            judge(w, a, b);
            w.end();
        },
    );
}

/// Runs `f` to the end of a thread.
fn ended<R>(f: impl FnOnce() -> R) -> R {
    let result = f();
    end::now();
    result
}

/// The descriptor, which this thread then uses.
fn first_edge(w: &World) -> i32 {
    let fd = w.host.descriptor().unwrap();
    system().bell(fd as usize).edge();
    fd
}

/// Done, or refused for what another thread does.
fn is_done<T>(result: Result<T, Errno>) -> bool {
    match result {
        Ok(_) => true,
        Err(e) => {
            assert_eq!(e, -libc::EBUSY);
            false
        }
    }
}

/// A wheel with the tick thread's clock.
fn on_a_clock() -> Box<World> {
    after(World::new(Clock::Monotonic, 0), |w| {
        w.host.descriptor().unwrap()
    })
}

/// A wheel with a timer that was armed.
fn armed(clock: Clock, workers: u32) -> Box<World> {
    after(World::new(clock, workers), |w| w.timer(func(1)))
}

/// A wheel with the tick thread's clock, and with a timer that is due.
fn on_a_clock_with_one() -> Box<World> {
    after(on_a_clock(), |w| w.overdue(func(1)))
}

/// A wheel with a timer that was due before its tick thread started.
fn started_late() -> Box<World> {
    after(on_a_clock_with_one(), |w| w.host.start().unwrap())
}

/// A thread that waits for edges of the descriptor, and polls at each.
fn polls_at_edges(w: &World) {
    while w.edge() {
        is_done(w.poll());
    }
}

/// Cancels the timer and waits: all of its callback is seen, or none of it runs.
fn cancels_and_waits(w: &World) {
    let timer = w.handle.load(Ordering::Relaxed);
    let was = w.host.cancel_sync(timer, false).unwrap();
    assert_eq!(w.wrote(), u64::from(!was));
}

/// The timer that was due has fired, or an edge is to come.
fn has_fired(w: &World) {
    have_fired(w, 1);
}

fn have_fired(w: &World, number: u64) {
    polls_at_edges(w);
    assert_eq!((w.ran(), w.wrote()), (number, number), "sleeps");
}

/// A poll ends before a start succeeds, or is refused.
#[test]
fn start_against_poll() {
    duel_of(
        || after(on_a_clock(), |w| w.overdue(0)),
        |w| {
            let started = is_done(w.host.start());
            w.started.store(started, Ordering::Relaxed);
        },
        |w| {
            let mut event = |_: &Fired| {
                assert!(
                    !w.started.load(Ordering::Relaxed),
                    "drives concurrently with the thread"
                );
                true
            };
            is_done(w.host.poll(Bounds::default(), Some(&mut event)));
        },
        |w, (), ()| assert_eq!(w.host.stop(), Ok(())),
    );
}

/// A start that is refused has not used up the edge of a poll.
#[test]
fn start_against_poll_at_an_edge() {
    duel_of(
        on_a_clock_with_one,
        |w| {
            if is_done(w.host.start()) {
                assert_eq!(w.host.stop(), Ok(()));
            }
        },
        polls_at_edges,
        |w, (), ()| has_fired(w),
    );
}

/// Of two threads that wait for edges of the descriptor, one is refused.
#[test]
fn poll_against_a_refused_poll() {
    duel_of(
        || after(on_a_clock(), |w| polls_at_edges(w)),
        |w| _ = is_done(w.poll()),
        |w| {
            w.overdue(func(1));
            polls_at_edges(w);
        },
        |w, (), ()| has_fired(w),
    );
}

/// Three threads wait for edges of the descriptor, and two are refused: a timer that comes due
/// afterwards still makes an edge.
#[test]
fn poll_against_two_refused_polls() {
    report(with_two_others(
        Some(2),
        on_a_clock,
        |w| ended(|| polls_at_edges(w)),
        |w| ended(|| polls_at_edges(w)),
        |w| {
            w.timer(func(1));
            polls_at_edges(w);
        },
        |w, (), (), ()| {
            system().pass(LATER - BEGIN);
            has_fired(w);
            w.end();
        },
    ));
}

/// Two threads whose polls end after one timer each: a poll that leaves something has an
/// edge behind it.
#[test]
fn poll_with_bounds_against_itself() {
    let poll_one = |w: &World| {
        let one = Bounds { items: 1, ns: 0 };
        while w.edge() {
            is_done(w.host.poll(one, None));
        }
    };
    duel_of(
        || {
            let w = on_a_clock_with_one();
            w.timer(func(1));
            system().pass(at(1));
            w
        },
        poll_one,
        poll_one,
        |w, (), ()| have_fired(w, 2),
    );
}

/// A drain and a poll, or the tick thread: a timer fires or is handed back.
#[test]
fn drain_against_poll() {
    let drain = |w: &World| {
        let mut handed = 0;
        is_done(w.host.drain(|_| {
            handed += 1;
            true
        }));
        handed
    };
    let has_ended = move |w: &World, handed, ()| {
        polls_at_edges(w);
        assert_eq!(handed + w.ran(), 1);
        assert_eq!(drain(w), 0);
    };
    duel_of(on_a_clock_with_one, drain, polls_at_edges, has_ended);
    duel_of(
        on_a_clock_with_one,
        drain,
        |w| match w.host.start() {
            Err(e) => assert!([libc::EBUSY, libc::ESHUTDOWN].contains(&-e)),
            Ok(()) => assert_eq!(w.host.stop(), Ok(())),
        },
        has_ended,
    );
}

/// The tick thread sleeps past nothing, and ends.
#[test]
fn tick_thread_against_arm() {
    duel_of(
        || after(on_a_clock(), |w| w.host.start().unwrap()),
        |w| w.timer(func(2)),
        |_| system().pass(LATER - BEGIN),
        |w, (), ()| {
            // It may be due in the tick after the one that had passed.
            system().pass(at(1));
            w.wait();
            assert_eq!((w.ran(), w.wrote()), (1, 1));
            assert_eq!(w.host.stop(), Ok(()));
        },
    );
}

/// A stop ends the tick thread, however that goes to sleep; what it leaves is polled.
#[test]
fn stop_against_tick_thread() {
    duel_of(
        started_late,
        |w| assert_eq!(w.host.stop(), Ok(())),
        polls_at_edges,
        |w, (), ()| has_fired(w),
    );
}

/// A stop of a wheel with a worker, against its tick thread and a thread that waits for the
/// callback.
#[test]
fn stop_against_tick_thread_and_worker() {
    duel_of(
        || {
            let w = World::new(Clock::Monotonic, 1);
            w.overdue(func(1));
            w.host.start().unwrap();
            w
        },
        |w| assert_eq!(w.host.stop(), Ok(())),
        cancels_and_waits,
        |w, (), ()| assert_eq!(w.ran(), w.wrote()),
    );
}

/// A thread whose stop succeeds sees what the callbacks did, even if another thread
/// stopped the wheel.
#[test]
fn stop_against_stop() {
    let stop = |w: &World| {
        if is_done(w.host.stop()) && w.ran() == 1 {
            assert_eq!(w.wrote(), 1);
        }
    };
    duel_of(started_late, stop, stop, |w, (), ()| has_fired(w));
}

/// Two threads that start and stop, each after the other or refused.
#[test]
fn start_and_stop_against_start_and_stop() {
    let start_and_stop = |w: &World| {
        is_done(w.host.start());
        is_done(w.host.stop());
    };
    duel_of(on_a_clock, start_and_stop, start_and_stop, |w, (), ()| {
        assert_eq!(w.host.stop(), Ok(()));
    });
}

/// Two threads are the first to ask for the descriptor: it is one.
#[test]
fn descriptor_against_descriptor() {
    duel_of(
        || World::new(Clock::Monotonic, 0),
        first_edge,
        first_edge,
        |w, a, b| {
            assert_eq!(a, b);
            assert_eq!(w.poll(), Ok(true));
        },
    );
}

/// The descriptor is made while another thread polls: it shows what is armed.
#[test]
fn descriptor_against_poll() {
    duel_of(
        || armed(Clock::Monotonic, 0),
        |w| {
            w.host.descriptor().unwrap();
            polls_at_edges(w);
        },
        |w| _ = is_done(w.poll()),
        |w, (), ()| {
            system().pass(LATER - BEGIN);
            has_fired(w);
        },
    );
}

/// The descriptor is made while another thread polls with a bound: it shows the timer that the
/// poll leaves.
#[test]
fn descriptor_against_poll_with_bounds() {
    duel_of(
        || after(armed(Clock::Monotonic, 0), |w| w.overdue(func(1))),
        |w| _ = w.host.descriptor().unwrap(),
        |w| {
            let one = Bounds { items: 1, ns: 0 };
            assert_eq!(w.host.poll(one, None).map(|d| d.done), Ok(false));
        },
        |w, (), ()| have_fired(w, 2),
    );
}

/// A thread that reads the new time sees everything that was written before the advance.
#[test]
fn now_against_advance() {
    duel_of(
        || World::new(Clock::Manual, 0),
        |w| {
            w.written.set(1);
            assert_eq!(w.advance(), Ok(true));
        },
        |w| {
            if w.host.now() == DUE {
                assert_eq!(w.wrote(), 1);
            }
        },
        |_, (), ()| (),
    );
}

/// A cancel that waits sees all of a callback, or none of it runs.
#[test]
fn cancel_sync_against_callback() {
    for workers in [0, 1] {
        duel_of(
            move || armed(Clock::Manual, workers),
            |w| assert_eq!(w.advance(), Ok(true)),
            cancels_and_waits,
            |w, (), ()| assert_eq!(w.ran(), w.wrote()),
        );
    }
}

/// A stop waits for the callbacks that have begun.
#[test]
fn stop_against_callback() {
    for workers in [0, 1] {
        duel_of(
            move || armed(Clock::Manual, workers),
            |w| assert_eq!(w.advance(), Ok(true)),
            |w| {
                let has_begun = w.begun.load(Ordering::Acquire) != 0;
                assert_eq!(w.host.stop(), Ok(()));
                if has_begun {
                    assert_eq!(w.wrote(), 1);
                }
            },
            |w, (), ()| {
                assert_eq!(w.host.stop(), Ok(()));
                assert_eq!((w.ran(), w.wrote()), (1, 1));
            },
        );
    }
}

/// Times of timers in the wheel of such a loop: ticks 1, 3 and 5.
const SOON: u64 = BEGIN + at(1);
const NEAR: u64 = BEGIN + at(3);
const FAR: u64 = BEGIN + at(5);

/// A wheel whose loop sleeps in its own call. The loop is woken by a count that stays until
/// the loop takes it, like that of an eventfd.
struct Looping {
    host: Hosted,
    woken: Box<Tracked>,
    /// Those of `with_timers`.
    timers: [u64; 2],
}

/// The wake function. Its read makes it slow: others may do anything between its two steps.
extern "C-unwind" fn wake(_: *mut WheelInC, woken: Option<NonNull<WheelInC>>) {
    // SAFETY: the count outlives the wheel.
    let woken = unsafe { woken.unwrap().cast::<Tracked>().as_ref() };
    woken.load(Ordering::Relaxed);
    woken.fetch_add(1, Ordering::AcqRel);
}

impl Looping {
    fn new() -> Looping {
        let woken = Box::new(Tracked::new(0));
        let options = Options {
            wake: Some(wake),
            wake_arg: Some(NonNull::from(&*woken).cast()),
            ..options(Clock::Manual)
        };
        Looping {
            host: Hosted::new(options, callback),
            woken,
            timers: [0; 2],
        }
    }

    /// A loop that sleeps. Two threads have a timer each, and memory to arm it.
    fn with_timers() -> Looping {
        let mut w = Looping::new();
        w.host.wheel.inboxes.reserve(2).unwrap();
        w.timers = [(); 2].map(|()| w.host.setup(Spec::default(), None).unwrap());
        w.turn();
        w
    }

    /// Makes a timer that is due at a time. Its event is discarded.
    fn arm(&self, due: u64) {
        self.host.setup(Spec::default(), Some(due)).unwrap();
    }

    /// Arms a timer of `with_timers`.
    fn arm_one(&self, n: usize, due: u64) {
        assert_eq!(self.host.arm_at(self.timers[n], due), 0);
    }

    /// One turn of the loop: when it sleeps until, unless it is woken.
    fn turn(&self) -> u64 {
        self.woken.swap(0, Ordering::AcqRel);
        let driven = self.host.advance(BEGIN, Bounds::default(), None);
        driven.unwrap().next_ns
    }

    /// The loop, which would sleep until `next`, comes in time for a timer. Ends the wheel.
    fn comes_by(&self, due: u64, next: u64) {
        let woken = self.woken.load(Ordering::Acquire);
        assert!(woken > 0 || next <= due, "sleeps until {next}");
        let next = self.turn();
        assert!(next <= due);
        // Two earlier arms wake it once, unless it comes by then anyway.
        self.arm(SOON);
        self.arm(SOON);
        let woken = self.woken.load(Ordering::Acquire);
        assert_eq!(woken, u64::from(next > SOON), "comes at {next}");
        self.host.destroy();
        end::now();
    }
}

/// Each execution makes the same wheel, with the same handles. The steps of an arm depend on
/// them, and the checker repeats the steps of an execution to come to the next one.
#[test]
fn a_wheel_is_the_same_in_each_execution() {
    static FIRST: std::sync::OnceLock<[u64; 2]> = std::sync::OnceLock::new();
    duel_to(
        Some(1),
        Looping::with_timers,
        |w| ended(|| w.arm_one(0, NEAR)),
        |w| ended(|| w.turn()),
        |w, (), next| {
            assert_eq!(*FIRST.get_or_init(|| w.timers), w.timers);
            w.comes_by(NEAR, next);
        },
    );
}

/// An arm, whose wake is slow, against a loop that turns once, and one that was woken and
/// turns again while the wake still runs.
#[test]
fn wake_against_a_loop_that_goes_to_sleep() {
    for turns in [1, 2] {
        duel(
            Looping::new,
            |w| ended(|| w.arm(NEAR)),
            move |w| ended(|| (1..turns).fold(w.turn(), |_, _| w.turn())),
            |w, (), next| w.comes_by(NEAR, next),
        );
    }
}

/// Arms that come earlier and earlier. One wake serves them until the loop turns. The first
/// one after that wakes the loop again.
#[test]
fn wake_by_arms_that_come_earlier_and_earlier() {
    duel(
        || after(Looping::new(), Looping::turn),
        |w| ended(|| [FAR, NEAR].map(|due| w.arm(due))),
        |w| ended(|| w.turn()),
        |w, _, next| w.comes_by(NEAR, next),
    );
}

/// Two threads arm concurrently while the loop sleeps, one earlier than the other. Each has
/// woken the loop when its arm returns, or finds that the other thread has: a wake that is
/// still to come does not serve both.
#[test]
fn wake_by_two_threads_of_a_loop_that_sleeps() {
    let arm = |w: &Looping, n: usize, due| {
        w.arm_one(n, due);
        assert_ne!(w.woken.load(Ordering::Acquire), 0, "sleeps");
    };
    for (due, other) in [(FAR, NEAR), (NEAR, FAR)] {
        report(with_another(
            Some(2),
            Looping::with_timers,
            move |w| ended(|| arm(w, 0, due)),
            move |w| arm(w, 1, other),
            |w, (), ()| w.comes_by(NEAR, NEVER),
        ));
    }
}

/// Two threads arm concurrently with a turn of the loop. The test goes to one preemption. With two,
/// each half has more than 30,000 executions.
#[test]
fn wake_by_two_threads_against_a_loop() {
    for (due, other) in [(FAR, NEAR), (NEAR, FAR)] {
        report(with_two_others(
            Some(1),
            Looping::with_timers,
            move |w| ended(|| w.arm_one(0, due)),
            // The loop arms nothing, so it needs no number.
            Looping::turn,
            move |w| w.arm_one(1, other),
            |w, (), next, ()| w.comes_by(NEAR, next),
        ));
    }
}
