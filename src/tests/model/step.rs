//! The hand goes a long way while timers are armed: in steps, after each of which the words of
//! the timers under way may read wrong.

use super::{duel, duel_to, one, resting, two, Arm, World};
use crate::core::arm::How;
use crate::core::state::{Handle, STEP};
use crate::tests::checker::at;

/// Its deadline has passed, and it fires at the next tick, or it fires at its deadline.
fn judge(w: &World, t: Handle, tick: u64, hand: u64) {
    let mut fired = w.fired() + w.advance(hand) + w.advance(hand + 1);
    if tick > hand + 1 {
        assert_eq!(w.due(t), tick);
        fired += w.advance(tick - 1);
        assert_eq!(fired, 0, "early");
        fired += w.advance(tick);
    }
    assert_eq!(fired, 1, "late or lost: due {:x}", w.due(t));
}

/// A timer is armed for each of these ticks while the hand goes to `target`.
fn armed_while_it_goes_to(target: u64, preemptions: Option<usize>, arm: Arm, ticks: &[u64]) {
    for tick in ticks.iter().copied() {
        duel_to(
            preemptions,
            || one(None),
            move |(w, t)| arm(w, 1, *t, tick),
            move |(w, _)| _ = w.advance(target),
            move |(w, t), _, ()| judge(w, *t, tick, target),
        );
    }
}

/// A timer is armed for a tick that the hand passes, or beyond.
#[test]
fn step_against_arm() {
    let ticks = [3, STEP + 3, 2 * STEP + 3, 4 * STEP];
    armed_while_it_goes_to(2 * STEP, None, World::arm, &ticks);
}

/// The hand goes over more than half the range of a state word, so that a word from
/// before no longer reads right. At one preemption.
#[test]
fn step_over_half_the_range_against_arm() {
    let ticks = [3, STEP + 3, 4 * STEP, 16 * STEP];
    armed_while_it_goes_to(5 * STEP, Some(1), World::arm, &ticks);
}

/// The short way to arm.
#[test]
fn step_against_short_arm() {
    armed_while_it_goes_to(5 * STEP, None, World::short_arm, &[3, STEP / 2]);
}

/// A timer is set up while the hand goes a long way.
#[test]
fn step_against_setup() {
    duel(
        || one(None).0,
        |w| w.make(Default::default(), Some(3)),
        |w| _ = w.advance(5 * STEP),
        |w, t, ()| judge(w, t, 3, 5 * STEP),
    );
}

/// With a timer that is due on the way.
#[test]
fn steps_and_a_visit_against_arm() {
    for tick in [3, 4 * STEP + 3] {
        duel(
            || {
                let (w, t, u) = two();
                w.arm(0, u, 4 * STEP);
                (w, t)
            },
            move |(w, t)| w.arm(1, *t, tick),
            |(w, _)| _ = w.advance(8 * STEP),
            |(w, _), _, ()| w.have_fired(2, 8 * STEP + 1),
        );
    }
}

/// A thread reads a timer's word, and then a hand from which that no longer reads right.
#[test]
fn step_against_a_thread_that_asks() {
    const FAR: u64 = 8 * STEP - 10;
    duel(
        || one(Some(3)),
        |(w, t)| w.due(*t),
        |(w, _)| _ = w.advance(FAR),
        |_, due, ()| assert!(due == 3 || due == 0, "due {due:x}"),
    );
    duel(
        || one(Some(3)),
        |(w, _)| w.wheel.next_pending(0),
        |(w, _)| _ = w.advance(FAR),
        |_, next, ()| assert!(next.is_none_or(|(_, f)| f.deadline_ns == at(3)), "{next:?}"),
    );
}

/// An arm reads a timer's word. Then it reads a hand that is so far on that the word seems to have
/// another deadline, and the arm seems to change nothing.
#[test]
fn step_against_an_arm_that_changes_nothing() {
    const FAR: u64 = 8 * STEP - 10;
    duel_to(
        Some(2),
        || one(Some(3)),
        |(w, t)| {
            // The old word seems to be due there.
            let how = How::Within(at(20));
            w.wheel.arm(&w.own(1), *t, at(FAR + 5), how).unwrap()
        },
        |(w, _)| w.advance(FAR),
        |(w, t), was, fired| {
            // The arm came first and moved it, or it has fired and was armed again.
            assert_eq!(was, fired == 0, "fired {fired}");
            assert_ne!(w.due(*t), 0);
        },
    );
}

/// A thread relies on a tick. Before its exchange the hand passes the tick and goes a long way.
/// So its word does not give the right deadline.
#[test]
fn step_against_an_arm_that_relies() {
    for short in [false, true] {
        duel_to(
            Some(2),
            || resting(3),
            move |(w, t)| assert_eq!(w.arm_either_way(1, *t, 4, short), 0),
            |(w, _)| {
                w.advance(3);
                w.advance(3 + 5 * STEP);
            },
            |(w, _), (), ()| {
                w.advance(4 + 5 * STEP);
                w.have_fired(1, 5 + 5 * STEP);
            },
        );
    }
}
