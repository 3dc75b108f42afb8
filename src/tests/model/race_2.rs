//! Race 2: a note is written, or relied on, while the driver takes it.

use super::{
    after, duel, duels_of_arms, one, placed, report, resting, two, with_chunks, with_two_others,
    World, STARTS,
};
use crate::core::record::{Link, Reason};
use crate::core::state::{index_of, Handle};
use crate::sync::Ordering;
use crate::tests::checker::at;

/// Race 2: the first note of a timer while the hand passes its tick.
#[test]
fn race_2_arm_against_sweep() {
    for tick in [1, 2, 3] {
        duel(
            || one(None),
            move |(w, t)| assert!(!w.arm(0, *t, tick)),
            |(w, _)| w.advance(2),
            |(w, t), (), _| {
                w.names_no_taken_note(*t);
                w.have_fired(1, 8);
            },
        );
    }
}

/// Race 2: the hand has passed the tick of a note when the driver takes it, so that the driver
/// leaves the link as it is.
#[test]
fn race_2_publish_against_take_of_what_is_overdue() {
    duels_of_arms(
        || one(None),
        |w, t, arm| assert!(!arm(w, 0, t, 1)),
        |w, _| {
            w.advance(2);
            w.advance(2);
        },
        |w, t, (), ()| {
            w.names_no_taken_note(t);
            w.have_fired(1, 3);
        },
    );
}

/// Race 2: the timer was cancelled when the driver takes its note, so that the driver leaves the
/// link as it is, too.
#[test]
fn race_2_publish_against_take_of_what_was_cancelled() {
    // Without an entry, or with one that stays: the driver then finds the link as it is to be.
    let makes: [fn() -> (World, Handle); 2] = [|| one(None), || resting(3)];
    for make in makes {
        duels_of_arms(
            make,
            |w, t, arm| assert!(!arm(w, 0, t, 2)),
            |w, t| {
                let was = w.cancel(1, t);
                w.collect();
                was
            },
            |w, t, (), cancelled| {
                w.names_no_taken_note(t);
                assert_eq!(w.advance(2), u64::from(!cancelled), "late or lost");
            },
        );
    }
}

/// A timer that is not armed, and others that are due at these ticks.
fn beside_others(due: &[u64]) -> (World, Handle) {
    let w = World::new(1, 2, 0);
    let t = w.timer(None);
    for tick in due {
        w.timer(Some(*tick));
    }
    (w, t)
}

/// Race 2 with another timer due, noted by the same thread or by another one, or placed
/// already: so the driver is sweeping indeed, and perhaps takes notes of the very inbox.
#[test]
fn race_2_arm_against_sweep_under_way() {
    for (thread, tick, placed) in [(0, 1, true), (0, 2, false), (1, 1, true), (1, 2, false)] {
        duels_of_arms(
            move || after(beside_others(&[1, 2]), |(w, _)| placed.then(|| w.collect())),
            move |w, t, arm| assert!(!arm(w, thread, t, tick)),
            |w, _| w.advance(2),
            |w, _, (), _| w.have_fired(3, 3),
        );
    }
}

/// Race 2: the driver takes the note and fires nothing, and wakes early enough for another
/// timer. So nothing but its place tells the thread that the note is gone.
#[test]
fn race_2_arm_against_a_collection() {
    duels_of_arms(
        || beside_others(&[1]),
        |w, t, arm| assert!(!arm(w, 0, t, 2)),
        |w, _| w.collect(),
        |w, _, (), ()| {
            w.advance(1);
            w.have_fired(2, 2);
        },
    );
}

/// Race 2 with another timer due behind: the first slot that the driver finds is not that
/// of the arm.
#[test]
fn race_2_arm_before_the_first_slot_of_a_sweep() {
    duels_of_arms(
        || beside_others(&[2]),
        |w, t, arm| assert!(!arm(w, 1, t, 1)),
        |w, _| w.advance(2),
        |w, _, (), _| w.have_fired(2, 3),
    );
}

/// Race 2: a thread arms a timer while the driver cascades another one out of the slot above.
#[test]
fn race_2_arm_against_cascade_under_way() {
    for thread in [0, 1] {
        duel(
            || {
                after(one(None), |(w, _)| {
                    w.timer(Some(2));
                    w.collect();
                })
            },
            move |(w, t)| assert!(!w.arm(thread, *t, 3)),
            |(w, _)| w.advance(2),
            |(w, _), (), _| w.have_fired(2, 3),
        );
    }
}

/// Race 2 over the wrap of the lowest level, with another timer pending.
#[test]
fn race_2_arm_against_sweep_over_the_wrap() {
    const BASE: u64 = (1 << 32) - 1;
    duel(
        || {
            let w = World::new(1, 1, BASE);
            w.timer(Some(BASE + 3));
            let t = w.timer(None);
            (w, t)
        },
        |(w, t)| assert!(!w.arm(1, *t, BASE + 2)),
        |(w, _)| w.advance(BASE + 3),
        |(w, _), (), _| w.have_fired(2, BASE + 9),
    );
}

/// Race 2: a thread relies on the note of another one, for an earlier or a later deadline,
/// while the driver takes that note, and its link goes through arm.publish and arm.again.
#[test]
fn race_2_rely_on_a_note_against_take() {
    for asked in [1, 2, 3] {
        duels_of_arms(
            || with_chunks(one(Some(2))),
            move |w, t, arm| {
                let cancelled = w.cancel(1, t);
                assert!(!arm(w, 1, t, asked));
                cancelled
            },
            |w, _| w.advance(2),
            |w, _, cancelled, _| w.have_fired(if cancelled { 1 } else { 2 }, 3),
        );
    }
}

/// A timer that rests, with a note for tick 3.
fn noted_and_cancelled() -> (World, Handle) {
    after(with_chunks(one(Some(3))), |(w, t)| assert!(w.cancel(0, *t)))
}

/// Race 2: an arm of a timer that rests relies on a note, while the driver takes it. The entry that
/// the driver makes is for the last deadline, which is too late for this arm.
#[test]
fn race_2_rely_on_a_note_of_a_timer_that_rests_against_take() {
    duels_of_arms(
        noted_and_cancelled,
        |w, t, arm| assert!(!arm(w, 1, t, 1)),
        |w, _| w.collect(),
        |w, _, (), ()| w.have_fired(1, 1),
    );
}

/// Race 2: the same by the short way, while the hand stays where it is, and another thread lowers
/// the next visit: neither the gate nor the alarm shows that the note is taken. The entry that
/// the driver makes is for the last deadline, which is too late for this arm.
#[test]
fn race_2_rely_on_a_note_against_take_and_wake() {
    report(with_two_others(
        Some(2),
        noted_and_cancelled,
        |(w, t)| assert!(!w.short_arm(1, *t, 2)),
        |(w, _)| w.wheel.alarm.lower(1),
        |(w, _)| w.collect(),
        |(w, _), (), (), ()| w.fires_at(2),
    ));
}

/// Race 2: another thread changes the timer behind a note, so that the exchange fails, and the
/// arm relies on that note. The bit of the inbox is set, for another note.
#[test]
fn race_2_arm_whose_exchange_fails_against_take() {
    for short in [false, true] {
        report(with_two_others(
            Some(2),
            || after(placed(3), |(w, _)| w.timer(Some(4))),
            move |(w, t)| w.arm_either_way(0, *t, 2, short),
            |(w, t)| w.cancel(1, *t),
            |(w, _)| w.collect(),
            |(w, t), _, cancelled, ()| {
                assert_eq!(w.advance(1), 0, "early");
                let fires = w.advance(2) == 1;
                assert!(fires || cancelled && w.due(*t) == 0, "late or lost");
            },
        ));
    }
}

/// Race 2: the thread publishes a note while the driver takes it, and another thread relies
/// on what the link says. Afterwards the link names nothing that was taken.
#[test]
fn race_2_publish_and_rely_against_take() {
    for short in [false, true] {
        report(with_two_others(
            Some(3),
            || one(None),
            move |(w, t)| w.arm_either_way(0, *t, 2, short),
            move |(w, t)| w.arm_either_way(1, *t, 3, short),
            |(w, _)| w.collect(),
            |(w, t), first, second, ()| {
                assert_eq!(first + second, 1);
                let due = w.due(*t);
                // A place repeats: the link must not name one that was taken.
                w.collect();
                let link = Link(w.wheel.slab.hot(index_of(*t)).link.load(Ordering::Relaxed));
                let tick = w.wheel.ticks.at_or_after(at(due));
                let reason = link.reason();
                assert!(matches!(reason, Reason::Tick(k) if k <= tick), "{link:?}");
                w.fires_at(due);
            },
        ));
    }
}

/// A timer is moved earlier while the driver sweeps over both deadlines.
#[test]
fn race_2_rearm_earlier_against_sweep() {
    for start in STARTS {
        duel(
            move || start(3),
            |(w, t)| w.arm(1, *t, 1),
            |(w, _)| w.advance(3),
            |(w, _), was, _| w.have_fired(if was { 1 } else { 2 }, 8),
        );
    }
}

/// Two threads move one timer; the driver sweeps afterwards.
#[test]
fn race_2_two_threads_arm_one_timer() {
    duel(
        || one(None),
        |(w, t)| w.arm(0, *t, 2),
        |(w, t)| w.arm(1, *t, 1),
        |(w, t), a, b| {
            assert!(a != b);
            w.fires_at(w.due(*t));
            assert_eq!(w.advance(9), 0);
        },
    );
}

/// Two threads arm one timer for the same tick, and one of them then drives: it
/// relies on a note of the other only once the driver can take it.
#[test]
fn race_2_arm_and_sweep_against_arm_for_the_same_tick() {
    duel(
        || one(None),
        |(w, t)| w.arm(0, *t, 2),
        |(w, t)| {
            let was = w.arm(1, *t, 2);
            // During the sweep the other arms for the next tick.
            assert!(w.advance(2) == 1 || w.due(*t) > 2, "relied on and not met");
            was
        },
        |(w, _), a, b| w.have_fired(if a || b { 1 } else { 2 }, 9),
    );
}

/// Three threads: two arm timers of their own, one of which is cascaded, while
/// the driver sweeps. At three preemptions.
#[test]
fn race_2_two_arms_against_sweep() {
    type Two = (World, Handle, Handle);
    let arm = |(w, t, _): &Two| _ = w.arm(0, *t, 1);
    let arm_another = |(w, _, u): &Two| _ = w.arm(1, *u, 2);
    let sweep = |(w, _, _): &Two| _ = w.advance(2);
    let end = |(w, _, _): &Two, (), (), ()| w.have_fired(2, 8);
    let first = with_two_others(Some(3), two, arm, arm_another, sweep, end);
    let second = with_two_others(Some(3), two, sweep, arm_another, arm, end);
    report(first + second);
}
