//! A thread is stopped for good before any of its accesses: what the others
//! were promised holds. The stopped call has happened or not; whatever the
//! others have armed fires in time, and the driver's alarm is early enough.

use super::{after, drained, explore_stops, report, running, two, Explored, Left, Part, World};
use crate::core::arm::How;
use crate::core::driver::{Fired, Sink};
use crate::core::life::Spec;
use crate::core::state::{index_of, Handle, StateWord, STEP};
use crate::core::ticks::AUTO;
use crate::core::Error;
use crate::core::Thread;
use crate::sync::Ordering::Relaxed;
use crate::tests::checker::{at, called, TICK_BITS};
use crate::tests::{awake, result, NUMBERS};
use loom::sync::Arc;
use loom::thread;

/// A world with two timers.
struct Scene {
    world: World,
    t: Handle,
    u: Handle,
}

impl std::ops::Deref for Scene {
    type Target = World;
    fn deref(&self) -> &World {
        &self.world
    }
}

impl Scene {
    fn new() -> Scene {
        let (world, t, u) = two();
        Scene { world, t, u }
    }

    /// The first timer is armed, and has an entry.
    fn placed(due: u64) -> Scene {
        let s = Scene::new();
        s.arm(1, s.t, due);
        s.collect();
        s
    }

    /// The first timer rests then.
    fn resting(due: u64) -> Scene {
        after(Scene::placed(due), |s| s.cancel(1, s.t))
    }

    /// The callback of the first timer runs in another thread.
    fn running() -> Scene {
        let (world, [t]) = running();
        let u = world.timer(None);
        Scene { world, t, u }
    }

    /// What another has armed fires in time, unless it is moved.
    fn fires(&self, timer: Handle, tick: u64) {
        self.advance(tick);
        assert_eq!(self.wheel.due(timer), Ok(None), "late or lost");
    }

    /// The thread 0 arms the first timer.
    fn arm_how(&self, tick: u64, how: How) -> bool {
        self.wheel.arm(&self.own(0), self.t, at(tick), how).unwrap()
    }
}

/// `maker` is stopped before each of its accesses in turn, concurrently with `other` and
/// `driver`, to at most the given number of preemptions; then `end` judges.
fn beside_a_stopped_thread<A: Left>(
    preemptions: usize,
    make: impl Fn() -> Scene + Part,
    maker: impl Fn(&Scene) + Part,
    other: impl Fn(&Scene) -> A + Part,
    driver: impl Fn(&Scene) + Part,
    end: impl Fn(&Scene, A) + Part,
) {
    let end = move |s: &Scene, _, a| end(s, a);
    report(stopped_beside(preemptions, make, maker, other, driver, end));
}

/// `beside_a_stopped_thread`, whose `end` also gets whether the stopped call has returned.
fn stopped_beside<A: Left>(
    preemptions: usize,
    make: impl Fn() -> Scene + Part,
    maker: impl Fn(&Scene) + Part,
    other: impl Fn(&Scene) -> A + Part,
    driver: impl Fn(&Scene) + Part,
    end: impl Fn(&Scene, bool, A) + Part,
) -> Explored {
    explore_stops(Some(preemptions), move |stop| {
        let s = Arc::new(make());
        let (v, x) = (s.clone(), s.clone());
        let first = thread::spawn(move || stop.run(|| maker(&v)).is_some());
        let second = thread::spawn(move || other(&x));
        driver(&s);
        let returned = first.join().unwrap();
        let done = second.join().unwrap();
        end(&s, returned, done);
    })
}

/// A timer is armed, perhaps the one of the thread that is stopped, while the driver goes to sleep.
fn stopped_arm_against_a_sleep(timer: fn(&Scene) -> Handle) {
    beside_a_stopped_thread(
        2,
        Scene::new,
        |s| _ = s.arm(1, s.t, 3),
        move |s| s.arm(0, timer(s), 4),
        |s| s.sleep(),
        move |s, _| {
            s.wakes_by(4);
            s.fires(timer(s), 4);
        },
    );
}

tests! { stopped_arm_against_a_sleep:
    /// Race 3: another timer is armed for the same tick, or a later one, while the
    /// driver goes to sleep.
    stopped_arm_against_arm_and_sleep(|s| s.u);
    /// Race 3: the other relies on a note of the one that is stopped, of the same
    /// timer.
    stopped_arm_against_a_thread_that_relies_and_sleep(|s| s.t);
}

/// Races 1 and 2: the timer is armed by both, while the driver sweeps.
#[test]
fn stopped_arm_against_arm_and_sweep() {
    beside_a_stopped_thread(
        2,
        || after(Scene::new(), |s| s.arm(1, s.t, 1)),
        |s| _ = s.arm(1, s.t, 2),
        |s| s.arm(0, s.u, 1),
        |s| _ = s.advance(1),
        |s, _| {
            s.fires(s.u, 2);
            // For the deadline before, or for that of the stopped thread.
            s.advance(3);
            assert!(s.fired() >= 2, "late or lost");
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
                To(_) => s.collect(),
                Sleep => s.sleep(),
                _ => {}
            },
            move |s, _| {
                if drives == Sleep {
                    s.wakes_by(3);
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
            |s| _ = s.advance(1),
            |s, _| {
                // If the timer has fired, the stopped thread may have armed it again after that:
                // its call has not returned, so nothing is promised for it.
                if s.fired() == 0 {
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
        || Scene::placed(3),
        |s| _ = s.arm(1, s.t, 1),
        |s| s.arm(0, s.t, 3),
        |s| _ = s.advance(2),
        |s, _| s.fires(s.t, 3),
    );
}

/// Race 3b: the thread that is stopped cancels, or moves to later, or arms; the driver settles
/// before a sleep; and another thread relies on the tick.
#[test]
fn stopped_call_against_a_thread_that_relies_and_settle() {
    let stopped: [fn(&Scene); 3] = [
        |s| _ = s.try_cancel(1, s.t),
        |s| _ = s.arm(1, s.t, 4),
        |s| _ = s.arm(1, s.t, 1),
    ];
    for stopped in stopped {
        for rests in [false, true] {
            beside_a_stopped_thread(
                2,
                move || match rests {
                    true => Scene::resting(2),
                    false => Scene::placed(2),
                },
                stopped,
                |s| s.arm(0, s.t, 3),
                |s| s.sleep(),
                |s, _| {
                    let Ok(Some(due)) = s.wheel.due(s.t) else {
                        return;
                    };
                    // The last arm that has happened.
                    let tick = (due >> TICK_BITS).max(3);
                    s.wakes_by(tick);
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
                || Scene::resting(1),
                |s| _ = s.arm(1, s.t, 3),
                move |s| s.arm_how(3, how),
                move |s| match sleeps {
                    true => s.sleep(),
                    false => _ = s.advance(1),
                },
                move |s, was| {
                    // It has seen to the timer, unless that was not pending.
                    if how == How::Earlier || was {
                        if sleeps {
                            s.wakes_by(3);
                        }
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
            s.timer_of(1, 3);
            s.timer_of(1, 1);
            s.arm(2, s.u, 2);
            s
        },
        |s| _ = s.arm(0, s.t, 2),
        |s| s.timer_of(1, 9),
        |s| {
            let mut drive = s.wheel.drive(0).unwrap();
            for _ in 0..2 {
                drive.advance(at(5), Parts(s, 0));
            }
        },
        |s, timer| {
            let mut drive = s.wheel.drive(0).unwrap();
            while !drive.advance(at(9), Parts(s, 0)) {}
            drop(drive);
            assert_eq!(s.wheel.due(s.u), Ok(None), "late or lost");
            assert_eq!(s.wheel.due(timer), Ok(None), "late or lost");
            let t = u64::from(matches!(s.wheel.due(s.t), Ok(Some(_))));
            assert!(s.wheel.pending(NUMBERS) <= t, "late or lost");
        },
    );
}

/// A thread is stopped at the end of a callback that has come due again, with a note, or for
/// lack of one: the other's timers fire.
#[test]
fn stopped_finish_against_arm_and_sweep() {
    beside_a_stopped_thread(
        2,
        || after(Scene::running(), |s| s.arm(0, s.t, 2)),
        |s| s.finish(1, s.t),
        |s| s.arm(0, s.u, 2),
        |s| _ = s.advance(2),
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
            s.free(1, s.t);
            s.timer_of(1, 2);
        },
        |s| [s.timer(Some(1)), s.timer(None)],
        |s| _ = s.advance(1),
        |s, [a, b]| {
            assert_ne!(a, b);
            s.fires(a, 2);
            assert_eq!(s.due(b), 0);
        },
    );
}

/// The other finds the timer that is being armed early enough, and leaves it alone.
#[test]
fn stopped_arm_against_an_arm_that_leaves_it_alone() {
    for (tick, how) in [(4, How::Earlier), (2, How::Within(at(4) - at(2)))] {
        beside_a_stopped_thread(
            1,
            Scene::new,
            |s| _ = s.arm(1, s.t, 3),
            move |s| s.arm_how(tick, how),
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
        || Scene::resting(1),
        |s| _ = s.arm(1, s.t, 3),
        |s| s.arm_how(4, How::Earlier),
        |s| _ = s.advance(1),
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
        let (wheel, t) = (&s.wheel, s.t);
        let caller = s.own(n);
        let arm = |tick, how| wheel.arm(&caller, t, at(tick), how);
        match self {
            Always(tick) => arm(tick, How::Always),
            Short(tick) => result(wheel.arm_at(&caller, t, at(tick))),
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

/// A timer is not pending, or it is gone.
fn is_over(due: Result<Option<u64>, Error>) -> bool {
    matches!(due, Ok(None) | Err(Error::Stale))
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
                    s.collect();
                }
            }
            if cancelled {
                _ = s.try_cancel(1, s.t);
            }
            s
        },
        move |s| _ = first.act(s, 1),
        move |s| other.act(s, 0),
        move |s| match drives {
            Nobody => {}
            To(tick) => _ = s.advance(tick),
            Sleep => s.sleep(),
            Drain => _ = drained(s),
        },
        move |s, returned, result| {
            let what = (first, other, armed, cancelled, drives, returned, result);
            let wheel = &s.wheel;
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
                assert!(is_over(due), "left {what:?}");
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
                && s.fired() == 0
            {
                last = armed.last().copied();
            }
            if returned && last.is_none() {
                last = wheel.due(s.t).ok().flatten().map(|ns| ns >> TICK_BITS);
            }
            if other.ends() && first.moves().is_none() {
                assert!(is_over(due), "pending {what:?}");
            }
            if other.ends() && result.is_ok() && other != Cancel {
                assert!(!matches!(due, Ok(Some(_))), "pending {what:?}");
            }
            let Some(last) = last else { return };
            if let Ok(Some(_)) = due {
                let hand = wheel.hand_ns();
                let next = wheel.next_expiry();
                let is_in_time = next.is_some_and(|ns| ns <= at(last).max(hand));
                assert!(is_in_time, "expiry {next:?} {what:?}");
                if drives == Sleep {
                    assert!(s.alarm.get() <= last, "asleep over it {what:?}");
                }
            }
            s.advance(last);
            let due = wheel.due(s.t);
            let again = [first, other].iter().any(|c| matches!(c, Period(_)));
            match due {
                Ok(Some(due)) if again => assert!(due > at(last), "late {what:?}"),
                Ok(None) | Err(Error::Stale) => {}
                _ => panic!("late or lost {due:?} {what:?}"),
            }
            if surely && !first.ends() {
                assert!(s.fired() > 0, "lost {what:?}");
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
    let mut explored = Explored::default();
    for other in CALLS {
        for start in STARTS {
            for drives in [Nobody, To(2), Sleep, Drain] {
                explored = explored + meet(first, other, start, drives);
            }
        }
    }
    report(explored);
}

tests! { stopped_against_all:
    stopped_always_against_all(Always(3));
    stopped_short_against_all(Short(3));
    stopped_within_against_all(Within(3, 4));
    stopped_pending_against_all(Pending(3));
    stopped_cancel_against_all(Cancel);
    stopped_shutdown_against_all(Shut);
    stopped_free_against_all(Free);
    stopped_period_against_all(Period(2));
}

/// Drives to a tick. A thread that is stopped there keeps the lock.
fn drive(s: &Scene, tick: u64) {
    let mut drive = std::mem::ManuallyDrop::new(s.wheel.drive(0).unwrap());
    drive.told(at(tick), |_| ());
    drop(std::mem::ManuallyDrop::into_inner(drive));
}

/// A driver is stopped in a sweep, or in a long one: the others arm, cancel, free and make
/// timers, and the next expiry is not after any of them.
#[test]
fn stopped_driver_against_calls_on_timers() {
    let mut explored = Explored::default();
    for (armed, target) in [(Some(1), 1), (Some(2), 3), (None, 2 * STEP)] {
        let more = stopped_beside(
            0,
            move || {
                let s = Scene::new();
                if let Some(tick) = armed {
                    s.arm(1, s.t, tick);
                    s.called(tick);
                    let periodic = Spec {
                        period: at(1),
                        kind: AUTO,
                        ..called(2)
                    };
                    s.make(periodic, Some(tick));
                }
                s
            },
            move |s| drive(s, target),
            move |s| {
                let wheel = &s.wheel;
                let is_in_time = |due: Option<u64>| {
                    due.is_some_and(|ns| ns <= at(4).max(wheel.hand_ns() + at(1)))
                };
                assert!(!s.arm(0, s.u, 4));
                assert_eq!(wheel.is_pending(s.u), Ok(true));
                let next = wheel.next_expiry();
                assert!(is_in_time(next), "{next:?}");
                let was = wheel.arm(&s.own(0), s.u, at(5), How::Earlier);
                assert_eq!(was, Ok(true));
                assert!(is_in_time(wheel.due(s.u).unwrap()));
                assert!(s.short_cancel(0, s.u));
                assert!(!s.free(0, s.u));
                s.timer(Some(2))
            },
            |_| (),
            |s, returned, made| {
                if let Ok(drive) = s.wheel.drive(0) {
                    drive.leave();
                    s.advance(2 * STEP + 3);
                    assert!(matches!(s.wheel.due(made), Ok(None)), "late or lost");
                } else {
                    assert!(!returned);
                    assert!(s.wheel.next_expiry().is_some());
                }
            },
        );
        explored = explored + more;
    }
    report(explored);
}

/// Race 6: a worker is stopped at the end of a callback. Others arm the timer again, or
/// leave it as it is: it fires unless the callback is not over, or comes due before.
#[test]
fn stopped_finish_against_arms() {
    let mut explored = Explored::default();
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
                    // It wakes nobody.
                    |s| s.wheel.finish(&awake(2), s.t, || ()),
                    move |s| other.act(s, 0),
                    move |s| {
                        if to == 0 {
                            s.sleep()
                        } else {
                            s.advance(to);
                        }
                    },
                    move |s, returned, result| {
                        let what = (other, armed, to, returned, result);
                        let due = s.wheel.due(s.t);
                        if other.ends() {
                            assert!(is_over(due), "{what:?}");
                        }
                        let Ok(Some(due)) = due else { return };
                        let tick = due >> TICK_BITS;
                        if to == 0 {
                            assert!(s.alarm.get() <= tick, "asleep {what:?}");
                        }
                        // A worker that is stopped has not ended the callback, and the timer
                        // waits for that.
                        let hand = s.wheel.hand_ns();
                        let next = s.wheel.next_expiry();
                        assert!(
                            !returned && due <= hand || next.is_some_and(|ns| ns <= due.max(hand)),
                            "{next:?} {what:?}"
                        );
                        // Not if its next callback runs, nor if the first one has not ended. A
                        // worker that is stopped behind its exchange has ended it, but for the
                        // note of a timer that had come due by then.
                        let state = s.wheel.slab.hot(index_of(s.t)).state.load(Relaxed);
                        if !StateWord(state).is_running() && (returned || due > hand) {
                            s.advance(tick);
                            let fired = s.wheel.due(s.t);
                            assert!(fired != Ok(Some(due)), "late or lost {what:?}");
                        }
                    },
                );
                explored = explored + more;
            }
        }
    }
    report(explored);
}
