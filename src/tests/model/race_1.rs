//! Race 1: a timer is armed, relying on a tick, while the driver moves, drops or
//! visits the entry of that tick.

use super::{duel, duel_to, placed, yes, World};
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::state::{index_of, Handle};
use crate::sync::Ordering;
use crate::tests::checker::at;
use crate::tests::{Collect, Inside};

/// Race 1: a timer is moved later, relying on its tick, while the driver
/// visits its entry.
#[test]
fn race_1_rearm_later_against_visit() {
    for arm in [World::arm, World::short_arm] {
        duel(
            || placed(1),
            move |(w, t)| arm(w, 0, *t, 3),
            |(w, _)| w.advance(1),
            |(w, t), was, _| {
                w.advance(3);
                assert_eq!(w.fired(), if was { 1 } else { 2 });
                assert_eq!(w.due(*t), 0);
            },
        );
    }
}

/// Race 1: a timer is cancelled and armed again while its entry is visited.
#[test]
fn race_1_cancel_and_arm_against_visit() {
    for arm in [World::arm, World::short_arm] {
        duel(
            || placed(1),
            move |(w, t)| {
                let cancelled = w.cancel(0, *t);
                assert!(!arm(w, 0, *t, 2));
                cancelled
            },
            |(w, _)| w.advance(2),
            |(w, _), cancelled, _| {
                // What has passed during a sweep is due at the next tick.
                w.advance(3);
                assert_eq!(w.fired(), if cancelled { 1 } else { 2 }, "late or lost");
            },
        );
    }
}

/// Race 1: a timer that rests is armed, relying on the tick of its last
/// deadline, while the driver passes that and goes on.
#[test]
fn race_1_rely_against_visit() {
    for arm in [World::arm, World::short_arm] {
        for tick in [1, 2] {
            duel(
                || {
                    let (w, t) = placed(1);
                    w.cancel(0, t);
                    (w, t)
                },
                move |(w, t)| arm(w, 1, *t, tick),
                |(w, _)| w.advance(2),
                |(w, _), was, _| {
                    assert!(!was);
                    w.advance(3);
                    assert_eq!(w.fired(), 1, "late or lost");
                },
            );
        }
    }
}

/// A timer with an entry at tick 3, and a note for tick 1. The thread that has written it was
/// stopped before it published it, or not.
fn noted(published: bool) -> (World, Handle) {
    let (w, t) = placed(3);
    let link = &w.wheel.slab.hot(index_of(t)).link;
    let before = link.load(Ordering::Relaxed);
    w.arm(0, t, 1);
    if !published {
        link.store(before, Ordering::Relaxed);
    }
    (w, t)
}

/// Race 1b: a timer is armed, relying on a tick, while the driver takes a note of another
/// thread for an earlier deadline and moves the entry there. The timer that is moved is
/// cancelled, or moved later, by the thread that relies.
#[test]
fn race_1b_rely_against_an_entry_that_is_moved() {
    for arm in [World::arm, World::short_arm] {
        for (published, asked, goal) in [
            (true, 3, 0),
            (false, 3, 1),
            (true, 4, 2),
            (false, 4, 2),
            (false, 6, 2),
        ] {
            duel(
                move || noted(published),
                move |(w, t)| arm(w, 1, *t, asked),
                move |(w, _)| match goal {
                    0 => {
                        w.collect();
                        0
                    }
                    goal => w.advance(goal),
                },
                move |(w, t), was, fired| {
                    assert_eq!(was, fired == 0);
                    assert_eq!(w.due(*t), asked);
                    w.advance(asked - 1);
                    assert_eq!(w.fired(), fired, "early");
                    w.advance(asked);
                    assert_eq!(w.fired(), fired + 1, "late or lost");
                },
            );
        }
    }
}

/// Race 1b: the driver takes a note, moves the entry to tick 1, and visits the timer there,
/// behind one fence. Meanwhile a thread cancels the timer and arms it, relying on the tick that
/// the link had before.
#[test]
fn race_1b_cancel_and_rely_against_a_look_and_a_visit() {
    for arm in [World::arm, World::short_arm] {
        duel(
            || noted(false),
            move |(w, t)| {
                let cancelled = w.cancel(1, *t);
                assert!(!arm(w, 1, *t, 4));
                cancelled
            },
            |(w, _)| w.advance(2),
            |(w, t), cancelled, fired| {
                assert_eq!(cancelled, fired == 0);
                assert_eq!((w.due(*t), w.advance(3)), (4, 0));
                assert_eq!(w.advance(4), 1, "late or lost");
            },
        );
    }
}

/// Race 1b: the driver takes a note and moves the entry earlier. It goes on to the visit,
/// behind one fence, while the thread relies on the later tick that it has read.
#[test]
fn race_1b_rely_against_a_look_and_a_visit() {
    for arm in [World::arm, World::short_arm] {
        duel_to(
            Some(3),
            || {
                let (w, t) = placed(2);
                w.arm(0, t, 1);
                w.cancel(0, t);
                (w, t)
            },
            move |(w, t)| arm(w, 1, *t, 2),
            |(w, t)| {
                // To an earlier tick, from another thread.
                w.wheel.arm(&w.own(2), *t, at(1), How::Earlier).unwrap();
                w.advance(2)
            },
            |(w, _), _, _| {
                // What is armed during the sweep is due at the next tick.
                w.advance(4);
                assert!((1..=2).contains(&w.fired()), "late or lost");
                assert_eq!(w.wheel.pending(crate::tests::NUMBERS), 0);
            },
        );
    }
}

/// Race 1b: the entry of a timer that rests goes to a lower level, while a thread relies on it.
#[test]
fn race_1b_rely_against_a_cascade() {
    for arm in [World::arm, World::short_arm] {
        for due in [3, 4] {
            duel(
                || {
                    let (w, t) = placed(3);
                    // Without a timer that is due the driver would not come to the slot.
                    w.timer(Some(2));
                    w.collect();
                    w.cancel(0, t);
                    (w, t)
                },
                move |(w, t)| arm(w, 1, *t, due),
                |(w, _)| w.advance(2),
                move |(w, t), was, fired| {
                    assert_eq!((was, fired), (false, 1));
                    assert_eq!((w.due(*t), w.advance(due - 1)), (due, 0));
                    assert_eq!(w.advance(due), 1, "late or lost");
                },
            );
        }
    }
}

/// A wheel with a timer that is due at tick 1, and another one that has an entry at tick 4, and
/// perhaps rests.
fn one_that_arms_another(rests: bool) -> (World, Handle) {
    let (w, t) = placed(4);
    w.timer(Some(1));
    w.collect();
    if rests {
        w.cancel(0, t);
    }
    (w, t)
}

/// Race 1b: a callback moves the entry of a timer from tick 4 to tick 2 or 3. The driver goes on
/// to the next goal, or to a sleep. Meanwhile a thread relies on the entry at tick 4.
#[test]
fn race_1b_rely_against_an_arm_in_a_callback() {
    for arm in [World::arm, World::short_arm] {
        for (short, sleeps, rests, to) in [
            (true, false, true, 2),
            (false, false, false, 2),
            (true, true, false, 3),
            (false, true, true, 2),
        ] {
            duel(
                move || one_that_arms_another(rests),
                move |(w, t)| {
                    let cancelled = w.cancel(1, *t);
                    (cancelled, arm(w, 1, *t, 4))
                },
                move |(w, t)| {
                    let inside = Inside::<false>(1);
                    let mut was = false;
                    let callback = |_: &Fired| {
                        was = match short {
                            true => yes(w.wheel.arm_at(&inside, *t, at(to))),
                            false => w.wheel.arm(&inside, *t, at(to), How::Always).unwrap(),
                        };
                        true
                    };
                    w.wheel.advance(at(1), Collect(callback)).unwrap();
                    if sleeps {
                        w.sleep();
                    }
                    was
                },
                move |(w, t), (cancelled, was), was_inside| {
                    // Each call found the timer pending, or at rest. One arm is still pending.
                    let ended = u64::from(cancelled) + u64::from(was) + u64::from(was_inside);
                    assert_eq!(ended, 1 + u64::from(!rests));
                    let due = w.due(*t);
                    assert!(due == to || due == 4);
                    assert_eq!(w.advance(due - 1), 0, "early");
                    assert_eq!(w.advance(due), 1, "late or lost");
                    w.names_no_taken_note(*t);
                },
            );
        }
    }
}
