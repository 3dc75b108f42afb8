//! A thread is stopped for good before any of its accesses: what the others
//! were promised holds. The stopped call has happened or not; whatever the
//! others have armed fires in time, and the driver's alarm is early enough.

use super::{explore, report, running, two, Alarm, Explored, World};
use crate::core::arm::How;
use crate::core::driver::{Fired, Sink};
use crate::core::error::Error;
use crate::core::inbox::Thread;
use crate::core::life::Spec;
use crate::core::period::AUTO;
use crate::core::state::{index_of, Handle, StateWord, STEP};
use crate::sync::{stopped_before, Ordering::Relaxed};
use crate::tests::checker::{at, called, TICK_BITS};
use crate::tests::{Collect, Waking, NUMBERS};
use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::{AtomicBool, Ordering};

struct Scene {
    world: World,
    t: Handle,
    u: Handle,
    alarm: Alarm,
}

impl Scene {
    fn new() -> Scene {
        let (world, t, u) = two();
        Scene {
            world,
            t,
            u,
            alarm: Alarm::new(),
        }
    }

    /// The callback of the first timer runs in another thread.
    fn running() -> Scene {
        let (world, [t]) = running();
        let u = world.timer(None);
        Scene {
            world,
            t,
            u,
            alarm: Alarm::new(),
        }
    }

    fn arm(&self, n: Thread, timer: Handle, tick: u64) -> bool {
        let caller = self.alarm.caller(n);
        self.world
            .wheel
            .arm(&caller, timer, at(tick), How::Always)
            .unwrap()
    }

    /// What another has armed fires in time, unless it is moved.
    fn fires(&self, timer: Handle, tick: u64) {
        let fired = |timer| matches!(self.world.wheel.due(timer), Ok(None));
        self.world.advance(tick);
        assert!(fired(timer), "late or lost");
    }
}

/// `maker` is stopped before each of its accesses in turn, concurrently with `other` and
/// `driver`, to at most the given number of preemptions; then `end` judges.
fn beside_a_stopped_thread<A: Send + 'static>(
    preemptions: usize,
    make: impl Fn() -> Scene + Copy + Send + Sync + 'static,
    maker: impl Fn(&Scene) + Copy + Send + Sync + 'static,
    other: impl Fn(&Scene) -> A + Copy + Send + Sync + 'static,
    driver: impl Fn(&Scene) + Copy + Send + Sync + 'static,
    end: impl Fn(&Scene, A) + Copy + Send + Sync + 'static,
) {
    report(stopped_beside(
        preemptions,
        make,
        maker,
        other,
        driver,
        move |s, _, a| end(s, a),
    ));
}

/// `beside_a_stopped_thread`, whose `end` also gets whether the stopped call has returned.
fn stopped_beside<A: Send + 'static>(
    preemptions: usize,
    make: impl Fn() -> Scene + Copy + Send + Sync + 'static,
    maker: impl Fn(&Scene) + Copy + Send + Sync + 'static,
    other: impl Fn(&Scene) -> A + Copy + Send + Sync + 'static,
    driver: impl Fn(&Scene) + Copy + Send + Sync + 'static,
    end: impl Fn(&Scene, bool, A) + Copy + Send + Sync + 'static,
) -> Explored {
    let mut explored = None;
    for n in 0.. {
        let stopped = std::sync::Arc::new(AtomicBool::new(false));
        let was_stopped = stopped.clone();
        let more = explore(Some(preemptions), move || {
            let s = Arc::new(make());
            let (v, x) = (s.clone(), s.clone());
            let stopped = was_stopped.clone();
            let first = thread::spawn(move || {
                let returned = stopped_before(n, || maker(&v)).is_some();
                if !returned {
                    stopped.store(true, Ordering::Relaxed);
                }
                returned
            });
            let second = thread::spawn(move || other(&x));
            driver(&s);
            let returned = first.join().unwrap();
            let done = second.join().unwrap();
            end(&s, returned, done);
        });
        explored = Some(explored.map_or(more, |all| all + more));
        if !stopped.load(Ordering::Relaxed) {
            break;
        }
    }
    explored.unwrap()
}

/// Race 3: another timer is armed for the same tick, or a later one, while the
/// driver goes to sleep.
#[test]
fn stopped_arm_against_arm_and_sleep() {
    beside_a_stopped_thread(
        2,
        Scene::new,
        |s| _ = s.arm(1, s.t, 3),
        |s| s.arm(0, s.u, 4),
        |s| s.world.sleep(&s.alarm),
        |s, _| {
            assert!(s.alarm.get() <= 4, "asleep over a deadline");
            s.fires(s.u, 4);
        },
    );
}

/// Race 3: the other relies on a note of the one that is stopped, of the same
/// timer.
#[test]
fn stopped_arm_against_a_thread_that_relies_and_sleep() {
    beside_a_stopped_thread(
        2,
        Scene::new,
        |s| _ = s.arm(1, s.t, 3),
        |s| s.arm(0, s.t, 4),
        |s| s.world.sleep(&s.alarm),
        |s, _| {
            assert!(s.alarm.get() <= 4, "asleep over a deadline");
            s.fires(s.t, 4);
        },
    );
}

/// Races 1 and 2: the timer is armed by both, while the driver sweeps.
#[test]
fn stopped_arm_against_arm_and_sweep() {
    beside_a_stopped_thread(
        2,
        || {
            let s = Scene::new();
            s.arm(1, s.t, 1);
            s
        },
        |s| _ = s.arm(1, s.t, 2),
        |s| s.arm(0, s.u, 1),
        |s| _ = s.world.advance(1),
        |s, _| {
            s.fires(s.u, 2);
            // For the deadline before, or for that of the stopped thread.
            s.world.advance(3);
            assert!(s.world.fired() >= 2, "late or lost");
        },
    );
}

/// Inboxes: the other one has its bit in the same word, which the thread that is stopped has
/// set, or not; the bit of the word likewise. A driver that goes to sleep finds no bit, or a
/// thread that relies on the bits wakes it.
#[test]
fn stopped_arm_against_an_arm_that_shares_its_word() {
    for drives in [Nobody, To(0), Sleep] {
        beside_a_stopped_thread(
            2,
            Scene::new,
            |s| _ = s.arm(1, s.t, 3),
            |s| s.arm(0, s.u, 3),
            move |s| match drives {
                To(_) => s.world.collect(),
                Sleep => s.world.sleep(&s.alarm),
                _ => {}
            },
            move |s, _| {
                if drives == Sleep {
                    assert!(s.alarm.get() <= 3, "asleep over a deadline");
                }
                s.fires(s.u, 3);
            },
        );
    }
}

/// Race 2: the other relies on a note of the one that is stopped, while the driver takes it.
#[test]
fn stopped_arm_against_a_thread_that_relies_on_its_note_and_sweep() {
    for tick in [1, 2, 3] {
        beside_a_stopped_thread(
            2,
            Scene::new,
            |s| _ = s.arm(1, s.t, 2),
            move |s| s.arm(0, s.t, tick),
            |s| _ = s.world.advance(1),
            |s, _| {
                // If the timer has fired, the stopped thread may have armed it again after that:
                // its call has not returned, so nothing is promised for it.
                if s.world.fired() == 0 {
                    s.fires(s.t, 3);
                }
            },
        );
    }
}

/// Race 1b: the thread that is stopped has a note for an earlier tick. The driver takes it, and
/// moves the entry, while another thread relies on the later tick.
#[test]
fn stopped_arm_that_is_earlier_against_a_thread_that_relies_and_sweep() {
    beside_a_stopped_thread(
        2,
        || {
            let s = Scene::new();
            s.arm(1, s.t, 3);
            s.world.collect();
            s
        },
        |s| _ = s.arm(1, s.t, 1),
        |s| s.arm(0, s.t, 3),
        |s| _ = s.world.advance(2),
        |s, _| s.fires(s.t, 3),
    );
}

/// Race 3b: the thread that is stopped cancels, or moves to later, or arms; the driver settles
/// before a sleep; and another thread relies on the tick.
#[test]
fn stopped_call_against_a_thread_that_relies_and_settle() {
    let stopped: [fn(&Scene); 3] = [
        |s| _ = s.world.wheel.cancel(&s.world.own(1), s.t, false),
        |s| _ = s.arm(1, s.t, 4),
        |s| _ = s.arm(1, s.t, 1),
    ];
    for stopped in stopped {
        for rests in [false, true] {
            beside_a_stopped_thread(
                2,
                move || {
                    let s = Scene::new();
                    s.arm(1, s.t, 2);
                    s.world.collect();
                    if rests {
                        s.world.cancel(1, s.t);
                    }
                    s
                },
                stopped,
                |s| s.arm(0, s.t, 3),
                |s| s.world.sleep(&s.alarm),
                |s, _| {
                    let Ok(Some(due)) = s.world.wheel.due(s.t) else {
                        return;
                    };
                    // The last arm that has happened.
                    let tick = (due >> TICK_BITS).max(3);
                    assert!(s.alarm.get() <= tick, "asleep over a deadline");
                    s.fires(s.t, tick);
                },
            );
        }
    }
}

/// An arm that leaves the timer where it is, while another arm is stopped and has moved it
/// there; the driver sweeps over an earlier tick, or settles.
#[test]
fn stopped_arm_against_a_stay_and_a_driver() {
    for how in [How::Earlier, How::Pending] {
        for sleeps in [false, true] {
            beside_a_stopped_thread(
                2,
                || {
                    let s = Scene::new();
                    s.arm(1, s.t, 1);
                    s.world.collect();
                    s.world.cancel(1, s.t);
                    s
                },
                |s| _ = s.arm(1, s.t, 3),
                move |s| {
                    let caller = s.alarm.caller(0);
                    s.world.wheel.arm(&caller, s.t, at(3), how).unwrap()
                },
                move |s| match sleeps {
                    true => s.world.sleep(&s.alarm),
                    false => _ = s.world.advance(1),
                },
                move |s, was| {
                    // It has seen to the timer, unless that was not pending.
                    if how == How::Earlier || was {
                        assert!(!sleeps || s.alarm.get() <= 3, "asleep over a deadline");
                        s.fires(s.t, 3);
                    }
                },
            );
        }
    }
}

/// A collection that stops in the middle: the notes of a thread that is stopped block no
/// other, and what the others have armed before fires in the order of its ticks, whichever
/// inbox comes first.
#[test]
fn stopped_arm_and_a_collection_that_stops() {
    struct Parts<'a>(&'a Scene, u64);
    impl Sink for Parts<'_> {
        fn fire(&mut self, fired: &Fired) -> bool {
            // The hand may have passed that of the thread that is stopped.
            if fired.handle != self.0.t {
                assert!(fired.deadline_ns >= self.1, "out of order");
                self.1 = fired.deadline_ns;
            }
            true
        }
        fn is_enough(&mut self) -> bool {
            true
        }
        fn wake(&self) {}
    }
    beside_a_stopped_thread(
        1,
        || {
            let s = Scene::new();
            s.world.timer_of(1, 3);
            s.world.timer_of(1, 1);
            s.world.arm(2, s.u, 2);
            s
        },
        |s| _ = s.arm(0, s.t, 2),
        |s| s.world.timer_of(1, 9),
        |s| {
            let mut drive = s.world.wheel.drive(0).unwrap();
            for _ in 0..2 {
                drive.advance(at(5), Parts(s, 0));
            }
        },
        |s, timer| {
            let mut drive = s.world.wheel.drive(0).unwrap();
            while !drive.advance(at(9), Parts(s, 0)) {}
            drop(drive);
            assert_eq!(s.world.wheel.due(s.u), Ok(None), "late or lost");
            assert_eq!(s.world.wheel.due(timer), Ok(None), "late or lost");
            let t = u64::from(matches!(s.world.wheel.due(s.t), Ok(Some(_))));
            assert!(s.world.wheel.pending(NUMBERS) <= t, "late or lost");
        },
    );
}

/// A thread is stopped at the end of a callback that has come due again, with a note, or for
/// lack of one: the other's timers fire.
#[test]
fn stopped_finish_against_arm_and_sweep() {
    beside_a_stopped_thread(
        2,
        || {
            let s = Scene::running();
            s.world.arm(0, s.t, 2);
            s
        },
        |s| s.world.wheel.finish(&s.world.own(1), s.t, || ()),
        |s| s.arm(0, s.u, 2),
        |s| _ = s.world.advance(2),
        |s, _| s.fires(s.u, 3),
    );
}

/// A timer is freed or made by a thread that is stopped: others can still make
/// theirs, which are no one else's.
#[test]
fn stopped_free_and_setup_against_setup() {
    beside_a_stopped_thread(
        2,
        Scene::new,
        |s| {
            let own = Waking(Ok(2), || ());
            s.world.wheel.free(&own, s.t).unwrap();
            s.world
                .wheel
                .setup(&own, Default::default(), Some(at(2)))
                .unwrap();
        },
        |s| [s.world.timer(Some(1)), s.world.timer(None)],
        |s| _ = s.world.advance(1),
        |s, [a, b]| {
            assert_ne!(a, b);
            s.fires(a, 2);
            assert_eq!(s.world.due(b), 0);
        },
    );
}

/// The other finds the timer that is being armed early enough, and leaves it alone.
#[test]
fn stopped_arm_against_an_arm_that_leaves_it_alone() {
    for how in [How::Earlier, How::Within(at(4) - at(2))] {
        beside_a_stopped_thread(
            1,
            Scene::new,
            |s| _ = s.arm(1, s.t, 3),
            move |s| {
                let caller = s.alarm.caller(0);
                let tick = if how == How::Earlier { 4 } else { 2 };
                let arm = s.world.wheel.arm(&caller, s.t, at(tick), how);
                arm.unwrap()
            },
            |_| (),
            |s, _| s.fires(s.t, 4),
        );
    }
}

/// Race 1: the same, where the one that is stopped relies on a tick that the driver visits.
#[test]
fn stopped_arm_that_relies_against_one_that_leaves_it_alone() {
    beside_a_stopped_thread(
        1,
        || {
            let s = Scene::new();
            s.arm(1, s.t, 1);
            s.world.collect();
            _ = s.world.wheel.cancel(&s.world.own(1), s.t, false);
            s
        },
        |s| _ = s.arm(1, s.t, 3),
        |s| {
            let caller = s.alarm.caller(0);
            s.world
                .wheel
                .arm(&caller, s.t, at(4), How::Earlier)
                .unwrap()
        },
        |s| _ = s.world.advance(1),
        |s, _| s.fires(s.t, 4),
    );
}

/// What a thread does to a timer while another is stopped in a call on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Always(u64),
    Short(u64),
    Earlier(u64),
    Within(u64, u64),
    Pending(u64),
    Cancel,
    Shut,
    Free,
    Period(u64),
}

/// What the driver does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drives {
    Nobody,
    To(u64),
    Sleep,
    Drain,
}

use Call::*;
use Drives::*;

impl Call {
    /// The last tick of an arm.
    fn tick(self) -> Option<u64> {
        match self {
            Always(tick) | Short(tick) | Earlier(tick) | Within(_, tick) => Some(tick),
            _ => None,
        }
    }
    /// The last tick to which it may move.
    fn moves(self) -> Option<u64> {
        match self {
            Pending(tick) => Some(tick),
            _ => self.tick(),
        }
    }
    fn ends(self) -> bool {
        matches!(self, Cancel | Shut | Free)
    }
    fn act(self, s: &Scene, n: Thread) -> Result<bool, Error> {
        let (wheel, t) = (&s.world.wheel, s.t);
        let caller = s.alarm.caller(n);
        let arm = |tick, how| wheel.arm(&caller, t, at(tick), how);
        match self {
            Always(tick) => arm(tick, How::Always),
            Short(tick) => match wheel.arm_at(&caller, t, at(tick)) {
                n @ 0..=1 => Ok(n == 1),
                n if n == Error::Stale as i32 => Err(Error::Stale),
                n if n == Error::Shutdown as i32 => Err(Error::Shutdown),
                n => panic!("{n}"),
            },
            Earlier(tick) => arm(tick, How::Earlier),
            Within(first, last) => arm(first, How::Within(at(last) - at(first))),
            Pending(tick) => arm(tick, How::Pending),
            Cancel => wheel.cancel(&caller, t, false),
            Shut => wheel.cancel(&caller, t, true),
            Free => wheel.free(&caller, t),
            Period(ticks) => wheel.set_period(t, at(ticks)).map(|()| false),
        }
    }
}

/// `first` is stopped, while `other` and a driver run.
fn meet(
    first: Call,
    other: Call,
    (armed, placed, cancelled): (&'static [u64], bool, bool),
    drives: Drives,
) -> Explored {
    stopped_beside(
        0,
        move || {
            let s = Scene::new();
            for tick in armed {
                s.arm(1, s.t, *tick);
                if placed {
                    s.world.collect();
                }
            }
            if cancelled {
                _ = s.world.wheel.cancel(&s.world.own(1), s.t, false);
            }
            s
        },
        move |s| _ = first.act(s, 1),
        move |s| other.act(s, 0),
        move |s| match drives {
            Nobody => {}
            To(tick) => _ = s.world.advance(tick),
            Sleep => s.world.sleep(&s.alarm),
            Drain => _ = super::drained(&s.world),
        },
        move |s, returned, result| {
            let what = (first, other, armed, cancelled, drives, returned, result);
            let wheel = &s.world.wheel;
            let due = wheel.due(s.t);
            match result {
                Err(Error::Stale) => assert_eq!(first, Free, "{what:?}"),
                Err(Error::Shutdown) => {
                    assert!(first == Shut || drives == Drain, "{what:?}")
                }
                Err(e) => panic!("{what:?} {e:?}"),
                Ok(_) => {}
            }
            if drives == Drain {
                assert!(matches!(due, Ok(None) | Err(Error::Stale)), "left {what:?}");
                return;
            }
            // The last tick at which it is due by any call.
            let mut last = other.tick().filter(|_| result.is_ok());
            if other == Pending(4) && result == Ok(true) {
                last = Some(4);
            }
            if let (Some(tick), Some(moved)) = (last, first.moves()) {
                last = Some(tick.max(moved));
            }
            let surely = last.is_some();
            // Without an arm of the other: where it was, if it is there yet.
            if last.is_none()
                && !other.ends()
                && first.moves().is_none()
                && !cancelled
                && s.world.fired() == 0
            {
                last = armed.last().copied();
            }
            if returned && last.is_none() {
                last = wheel.due(s.t).ok().flatten().map(|ns| ns >> TICK_BITS);
            }
            if other.ends() && first.moves().is_none() {
                assert!(
                    matches!(due, Ok(None) | Err(Error::Stale)),
                    "pending {what:?}"
                );
            }
            if other.ends() && result.is_ok() && other != Cancel {
                assert!(!matches!(due, Ok(Some(_))), "pending {what:?}");
            }
            let Some(last) = last else { return };
            if let Ok(Some(_)) = due {
                let hand = wheel.hand_ns();
                let next = wheel.next_expiry();
                assert!(
                    next.is_some_and(|ns| ns <= at(last).max(hand)),
                    "expiry {next:?} {what:?}"
                );
                if drives == Sleep {
                    assert!(s.alarm.get() <= last, "asleep over it {what:?}");
                }
            }
            s.world.advance(last);
            let due = wheel.due(s.t);
            let again = [first, other].iter().any(|c| matches!(c, Period(_)));
            match due {
                Ok(Some(due)) if again => assert!(due > at(last), "late {what:?}"),
                Ok(None) | Err(Error::Stale) => {}
                _ => panic!("late or lost {due:?} {what:?}"),
            }
            if surely && !first.ends() {
                assert!(s.world.fired() > 0, "lost {what:?}");
            }
        },
    )
}

const CALLS: [Call; 9] = [
    Always(4),
    Short(4),
    Earlier(4),
    Within(2, 4),
    Pending(4),
    Cancel,
    Shut,
    Free,
    Period(9),
];

/// Where the timer was armed before, one after another; whether the driver has made entries;
/// and whether the timer was cancelled then.
const STARTS: [(&[u64], bool, bool); 6] = [
    (&[], false, false),
    (&[1], true, false),
    (&[2], true, true),
    (&[2], false, true),
    (&[2, 5], true, false),
    (&[2, 5], false, false),
];

/// A call is stopped before each of its accesses; the others run one after the other, in
/// every order.
fn stopped_against_all(first: Call) {
    let mut explored = None;
    for other in CALLS {
        for start in STARTS {
            for drives in [Nobody, To(2), Sleep, Drain] {
                let more = meet(first, other, start, drives);
                explored = Some(explored.map_or(more, |all| all + more));
            }
        }
    }
    report(explored.unwrap());
}

macro_rules! stopped {
    ($($name:ident: $call:expr,)*) => {
        $(#[test]
        fn $name() {
            stopped_against_all($call);
        })*
    };
}

stopped! {
    stopped_always_against_all: Always(3),
    stopped_short_against_all: Short(3),
    stopped_within_against_all: Within(3, 4),
    stopped_pending_against_all: Pending(3),
    stopped_cancel_against_all: Cancel,
    stopped_shutdown_against_all: Shut,
    stopped_free_against_all: Free,
    stopped_period_against_all: Period(2),
}

/// Drives to a tick. A thread that is stopped there keeps the lock.
fn drive(s: &Scene, tick: u64) {
    let mut drive = std::mem::ManuallyDrop::new(s.world.wheel.drive(0).unwrap());
    drive.advance(at(tick), Collect(|_: &Fired| true));
    drop(std::mem::ManuallyDrop::into_inner(drive));
}

/// A driver is stopped in a sweep, or in a long one: the others arm, cancel, free and make
/// timers, and the next expiry is not after any of them.
#[test]
fn stopped_driver_against_calls_on_timers() {
    let mut explored = None;
    for (armed, target) in [(Some(1), 1), (Some(2), 3), (None, 2 * STEP)] {
        let more = stopped_beside(
            0,
            move || {
                let s = Scene::new();
                if let Some(tick) = armed {
                    s.arm(1, s.t, tick);
                    s.world.called(tick);
                    s.world.make(
                        Spec {
                            period: at(1),
                            kind: AUTO,
                            ..called(2)
                        },
                        Some(tick),
                    );
                }
                s
            },
            move |s| drive(s, target),
            move |s| {
                let wheel = &s.world.wheel;
                let own = Waking(Ok(1), || ());
                assert!(!s.arm(0, s.u, 4));
                assert_eq!(wheel.is_pending(s.u), Ok(true));
                let next = wheel.next_expiry();
                assert!(
                    next.is_some_and(|ns| ns <= at(4).max(wheel.hand_ns() + at(1))),
                    "{next:?}"
                );
                assert_eq!(wheel.arm(&own, s.u, at(5), How::Earlier), Ok(true));
                assert!(wheel
                    .due(s.u)
                    .unwrap()
                    .is_some_and(|ns| ns <= at(4).max(wheel.hand_ns() + at(1))));
                assert!(s.world.short_cancel(0, s.u));
                assert_eq!(wheel.free(&own, s.u), Ok(false));
                wheel.setup(&own, Default::default(), Some(at(2))).unwrap()
            },
            |_| (),
            |s, returned, made| {
                if let Ok(drive) = s.world.wheel.drive(0) {
                    drive.leave();
                    s.world.advance(2 * STEP + 3);
                    assert!(matches!(s.world.wheel.due(made), Ok(None)), "late or lost");
                } else {
                    assert!(!returned);
                    assert!(s.world.wheel.next_expiry().is_some());
                }
            },
        );
        explored = Some(explored.map_or(more, |all| all + more));
    }
    report(explored.unwrap());
}

/// Race 6: a worker is stopped at the end of a callback. Others arm the timer again, or
/// leave it as it is: it fires unless the callback is not over, or comes due before.
#[test]
fn stopped_finish_against_arms() {
    let mut explored = None;
    for other in CALLS {
        for armed in [&[][..], &[2], &[5]] {
            for to in [0, 1, 2] {
                let more = stopped_beside(
                    0,
                    move || {
                        let s = Scene::running();
                        for tick in armed {
                            s.arm(1, s.t, *tick);
                        }
                        s
                    },
                    |s| s.world.wheel.finish(&s.world.own(1), s.t, || ()),
                    move |s| other.act(s, 0),
                    move |s| {
                        if to == 0 {
                            s.world.sleep(&s.alarm)
                        } else {
                            s.world.advance(to);
                        }
                    },
                    move |s, returned, result| {
                        let what = (other, armed, to, returned, result);
                        let due = s.world.wheel.due(s.t);
                        if other.ends() {
                            assert!(matches!(due, Ok(None) | Err(Error::Stale)), "{what:?}");
                        }
                        let Ok(Some(due)) = due else { return };
                        let tick = due >> TICK_BITS;
                        if to == 0 {
                            assert!(s.alarm.get() <= tick, "asleep {what:?}");
                        }
                        // A worker that is stopped has not ended the callback, and the timer
                        // waits for that.
                        let hand = s.world.wheel.hand_ns();
                        let next = s.world.wheel.next_expiry();
                        assert!(
                            !returned && due <= hand || next.is_some_and(|ns| ns <= due.max(hand)),
                            "{next:?} {what:?}"
                        );
                        // Not if its next callback runs, nor if the first one has not ended. A
                        // worker that is stopped behind its exchange has ended it, but for the
                        // note of a timer that had come due by then.
                        let state = s.world.wheel.slab.hot(index_of(s.t)).state.load(Relaxed);
                        if !StateWord(state).is_running() && (returned || due > hand) {
                            s.world.advance(tick);
                            let fired = s.world.wheel.due(s.t);
                            assert!(fired != Ok(Some(due)), "late or lost {what:?}");
                        }
                    },
                );
                explored = Some(explored.map_or(more, |all| all + more));
            }
        }
    }
    report(explored.unwrap());
}
