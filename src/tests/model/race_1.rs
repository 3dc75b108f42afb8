//! Race 1: a timer is armed, relying on a tick, while the driver moves, drops or
//! visits the entry of that tick.

use super::{after, duel_to, duels_of_arms, placed, resting, yes, World};
use crate::core::arm::How;
use crate::core::state::{index_of, Handle};
use crate::sync::Ordering;
use crate::tests::checker::at;
use crate::tests::Inside;

/// Race 1: a timer is moved later, relying on its tick, while the driver
/// visits its entry.
#[test]
fn race_1_rearm_later_against_visit() {
    duels_of_arms(
        || placed(1),
        |w, t, arm| arm(w, 0, t, 3),
        |w, _| w.advance(1),
        |w, t, was, _| {
            w.have_fired(if was { 1 } else { 2 }, 3);
            assert_eq!(w.due(t), 0);
        },
    );
}

/// Race 1: a timer is cancelled and armed again while its entry is visited.
#[test]
fn race_1_cancel_and_arm_against_visit() {
    duels_of_arms(
        || placed(1),
        |w, t, arm| {
            let cancelled = w.cancel(0, t);
            assert!(!arm(w, 0, t, 2));
            cancelled
        },
        |w, _| w.advance(2),
        // What has passed during a sweep is due at the next tick.
        |w, _, cancelled, _| w.have_fired(if cancelled { 1 } else { 2 }, 3),
    );
}

/// Race 1: a timer that rests is armed, relying on the tick of its last
/// deadline, while the driver passes that and goes on.
#[test]
fn race_1_rely_against_visit() {
    for tick in [1, 2] {
        duels_of_arms(
            || resting(1),
            move |w, t, arm| assert!(!arm(w, 1, t, tick)),
            |w, _| w.advance(2),
            |w, _, (), _| w.have_fired(1, 3),
        );
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
    let cases = [
        (true, 3, 0),
        (false, 3, 1),
        (true, 4, 2),
        (false, 4, 2),
        (false, 6, 2),
    ];
    for (published, asked, goal) in cases {
        duels_of_arms(
            move || noted(published),
            move |w, t, arm| arm(w, 1, t, asked),
            move |w, _| match goal {
                0 => {
                    w.collect();
                    0
                }
                goal => w.advance(goal),
            },
            move |w, t, was, fired| {
                assert_eq!(was, fired == 0);
                assert_eq!(w.due(t), asked);
                w.fires_at(asked);
            },
        );
    }
}

/// Race 1b: the driver takes a note, moves the entry to tick 1, and visits the timer there,
/// behind one fence. Meanwhile a thread cancels the timer and arms it, relying on the tick that
/// the link had before.
#[test]
fn race_1b_cancel_and_rely_against_a_look_and_a_visit() {
    duels_of_arms(
        || noted(false),
        |w, t, arm| {
            let cancelled = w.cancel(1, t);
            assert!(!arm(w, 1, t, 4));
            cancelled
        },
        |w, _| w.advance(2),
        |w, t, cancelled, fired| {
            assert_eq!(cancelled, fired == 0);
            assert_eq!(w.due(t), 4);
            w.fires_at(4);
        },
    );
}

/// Race 1b: the driver takes a note and moves the entry earlier. It goes on to the visit,
/// behind one fence, while the thread relies on the later tick that it has read.
#[test]
fn race_1b_rely_against_a_look_and_a_visit() {
    for arm in [World::arm, World::short_arm] {
        duel_to(
            Some(3),
            || after(placed(2), |(w, t)| (w.arm(0, *t, 1), w.cancel(0, *t))),
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
    for due in [3, 4] {
        duels_of_arms(
            // Without a timer that is due the driver would not come to the slot.
            || with_one_before(3, 2, true),
            move |w, t, arm| assert!(!arm(w, 1, t, due)),
            |w, _| w.advance(2),
            move |w, t, (), fired| {
                assert_eq!((fired, w.due(t)), (1, due));
                w.fires_at(due);
            },
        );
    }
}

/// A timer with an entry at a tick, which perhaps rests, and another one that is due before.
fn with_one_before(tick: u64, before: u64, rests: bool) -> (World, Handle) {
    let (w, t) = placed(tick);
    w.timer(Some(before));
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
    for (short, sleeps, rests, to) in [
        (true, false, true, 2),
        (false, false, false, 2),
        (true, true, false, 3),
        (false, true, true, 2),
    ] {
        duels_of_arms(
            move || with_one_before(4, 1, rests),
            move |w, t, arm| (w.cancel(1, t), arm(w, 1, t, 4)),
            move |w, t| {
                let inside = Inside::<false>(1);
                let was = w.wheel.told(at(1), |_| match short {
                    true => yes(w.wheel.arm_at(&inside, t, at(to))),
                    false => w.wheel.arm(&inside, t, at(to), How::Always).unwrap(),
                });
                if sleeps {
                    w.sleep();
                }
                was
            },
            move |w, t, (cancelled, was), was_inside| {
                // Each call found the timer pending, or at rest. One arm is still pending.
                let ended = u64::from(cancelled) + u64::from(was) + u64::from(was_inside[0]);
                assert_eq!(ended, 1 + u64::from(!rests));
                let due = w.due(t);
                assert!(due == to || due == 4);
                w.fires_at(due);
                w.names_no_taken_note(t);
            },
        );
    }
}
