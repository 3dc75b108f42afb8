//! What a thread did before it changed a timer is seen by the callback, and by
//! whoever finds the timer so and changes it next: plain memory may be handed
//! over with it. In each test the entry is there already, so that nothing but
//! the state word orders the two threads.

use super::{drained, duel, placed, resting, spin, Part, Plain, World};
use crate::core::arm::How;
use crate::core::state::Handle;
use crate::sync::{AtomicU32, Ordering};
use crate::tests::checker::at;

/// `f` changes a timer after a write; if `g` says that it has found it changed,
/// it sees what was written.
fn seen_by(
    armed: bool,
    f: impl Fn(&World, Handle) + Part,
    g: impl Fn(&World, Handle) -> bool + Part,
) {
    duel(
        move || {
            let start = if armed { placed(1) } else { resting(1) };
            (start, Plain::default())
        },
        move |((w, t), plain)| {
            plain.set(1);
            f(w, *t);
        },
        move |((w, t), plain)| {
            if g(w, *t) {
                assert_eq!(plain.get(), 1);
            }
        },
        |((w, t), _), (), ()| judge(w, *t),
    );
}

/// The timer fires if it is armed.
fn judge(w: &World, t: Handle) {
    let armed = matches!(w.wheel.due(t), Ok(Some(_)));
    assert_eq!(w.advance(9), u64::from(armed), "lost");
}

/// A timer is cancelled, and armed for the same tick after a write. If `g` says
/// that it has found it armed, although it was cancelled, it sees that: the state
/// word is the same as before, but later.
fn again_seen_by(g: impl Fn(&World, Handle) -> bool + Part) {
    duel(
        || (placed(1), AtomicU32::new(0)),
        |((w, t), written)| {
            let cancelled = w.try_cancel(0, *t) == Ok(true);
            written.store(1, Ordering::Relaxed);
            arm(w, *t, 1);
            cancelled
        },
        move |((w, t), written)| (g(w, *t), written.load(Ordering::Relaxed)),
        |((w, t), _), cancelled, (ended, seen)| {
            if cancelled && ended {
                assert_eq!(seen, 1);
            }
            judge(w, *t);
        },
    );
}

fn arm(w: &World, t: Handle, tick: u64) {
    // Refused if it was freed or drained.
    _ = w.wheel.arm(&w.own(0), t, at(tick), How::Always);
}

fn arm_to_2(w: &World, t: Handle) {
    arm(w, t, 2);
}

fn short_arm(w: &World, t: Handle) {
    w.short_arm(0, t, 2);
}

fn cancel(w: &World, t: Handle) {
    w.cancel(0, t);
}

fn is_sync_deleted(w: &World, t: Handle) -> bool {
    w.wheel.cancel_sync(&w.own(1), t, false, spin) == Ok(true)
}

fn is_freed(w: &World, t: Handle) -> bool {
    w.wheel.free(&w.own(1), t) == Ok(true)
}

fn is_armed(w: &World, t: Handle) -> bool {
    w.wheel.due(t).unwrap().is_some()
}

tests! { seen_by:
    arm_seen_by_callback(false, arm_to_2, |w, _| w.advance(2) == 1);
    arm_seen_by_drain(false, arm_to_2, |w, _| drained(w) == 1);
    arm_seen_by_arm(false, arm_to_2, |w, t| w.arm(1, t, 3));
    arm_seen_by_an_arm_that_is_not_earlier(false, arm_to_2,
        |w, t| w.wheel.arm(&w.own(1), t, at(3), How::Earlier) == Ok(true));
    arm_seen_by_cancel(false, arm_to_2, |w, t| w.cancel(1, t));
    arm_seen_by_sync_delete(false, arm_to_2, is_sync_deleted);
    arm_seen_by_free(false, arm_to_2, is_freed);
    arm_seen_by_asking(false, arm_to_2, is_armed);
    cancel_seen_by_arm(true, cancel, |w, t| !w.arm(1, t, 2));
    cancel_seen_by_an_arm_of_what_is_pending(true, cancel,
        |w, t| w.wheel.arm(&w.own(1), t, at(2), How::Pending) == Ok(false));
    cancel_seen_by_cancel(true, cancel, |w, t| !w.cancel(1, t));
    cancel_seen_by_asking(true, cancel, |w, t| !is_armed(w, t));
    short_arm_seen_by_callback(false, short_arm, |w, _| w.advance(2) == 1);
    short_arm_seen_by_short_arm(false, short_arm, |w, t| w.short_arm(1, t, 3));
    short_arm_seen_by_short_cancel(false, short_arm, |w, t| w.short_cancel(1, t));
    short_cancel_seen_by_short_arm(true, |w, t| _ = w.short_cancel(0, t),
        |w, t| !w.short_arm(1, t, 2));
}

tests! { again_seen_by:
    arm_again_seen_by_callback(|w, _| w.advance(2) == 1);
    arm_again_seen_by_drain(|w, _| drained(w) == 1);
    arm_again_seen_by_cancel(|w, t| w.cancel(1, t));
    arm_again_seen_by_short_cancel(|w, t| w.short_cancel(1, t));
    arm_again_seen_by_sync_delete(is_sync_deleted);
    arm_again_seen_by_free(is_freed);
}
