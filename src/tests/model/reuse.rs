//! Nodes that are freed, and used again by the same thread or by another.

use super::{
    after, assert_apart, duel, duel_to, marked, one, one_of, placed, report, with_two_others,
    World, NO_BOUND,
};
use crate::core::life::first_generation;
use crate::core::life::Spec;
use crate::core::state::{handle_of, high_of, index_of, Handle, GEN_BITS, GEN_HIGH_BITS};
use crate::core::wheel::Config;
use crate::core::Error;
use crate::core::Thread;
use crate::core::RUN;
use crate::tests::checker::{at, shape};
use crate::tests::NUMBERS;

/// A stale cancel does not touch the next user of the node, nor its entry.
#[test]
fn free_and_reuse_against_stale_cancel() {
    duel(
        || one(Some(2)),
        |(w, t)| w.try_cancel(1, *t),
        |(w, t)| {
            w.free(0, *t);
            w.timer(Some(2))
        },
        |(w, t), cancelled, next| {
            assert_ne!(next, *t);
            assert_eq!(index_of(next), index_of(*t));
            assert!(matches!(cancelled, Ok(true) | Err(Error::Stale)));
            assert_eq!(w.advance(2), 1);
        },
    );
}

/// A timer is moved while it is freed: the node is handed out once, and its next
/// timer stays where it is.
#[test]
fn free_and_reuse_against_an_arm() {
    for short in [true, false] {
        duel(
            || one(Some(2)),
            move |(w, t)| w.arm_either_way(1, *t, 3, short),
            |(w, t)| {
                w.free(0, *t);
                [w.timer(None), w.timer(Some(2))]
            },
            |(w, _), moved, [a, b]| {
                assert!(moved == 1 || moved == Error::Stale as i32);
                assert_ne!(index_of(a), index_of(b));
                assert_eq!(w.wheel.live(NUMBERS), 2);
                assert_eq!((w.due(a), w.due(b)), (0, 2), "a stale arm has moved it");
                assert_eq!(w.advance(2), 1);
            },
        );
    }
}

/// A period that comes too late does not change the next user of the node, which has none. The
/// model checker cannot judge one that has: it knows no order between the store of a new timer's
/// period and the exchange of a call.
#[test]
fn free_and_reuse_against_a_stale_period() {
    duel(
        || one(Some(2)),
        |(w, t)| w.wheel.set_period(*t, at(5)),
        |(w, t)| {
            w.free(0, *t);
            w.timer(Some(2))
        },
        |(w, _), set, next| {
            assert!(matches!(set, Ok(()) | Err(Error::Stale)));
            assert_eq!(w.advance(2), 1);
            assert_eq!(w.due(next), 0, "a stale call has set its period");
        },
    );
}

/// A walk over the pending timers shows each life of a node with its own cookie, not with
/// a link of the free list.
#[test]
fn free_and_reuse_against_a_walk() {
    duel(
        || one_of(marked(1), Some(2)),
        |(w, t)| {
            assert!(w.free(0, *t));
            w.make(marked(2), Some(3))
        },
        |(w, _)| w.wheel.next_pending(0),
        |(_, t), made, seen| {
            if let Some((_, seen)) = seen {
                let life = [(*t, 1), (made, 2)];
                let is_one = life.contains(&(seen.handle, seen.cookie));
                assert!(is_one, "of two lives: {seen:?} of {life:?}");
            }
        },
    );
}

/// A timer relies on the tick that its node's last user has left, while the
/// driver visits that: it is fired, as itself and not as the one before.
#[test]
fn free_and_reuse_against_the_visit_of_an_old_entry() {
    duel(
        || after(placed(1), |(w, old)| w.free(0, *old)).0,
        |w| w.make(marked(2), Some(1)),
        |w| fired_by(w, 1),
        |w, made, mut fired| {
            fired.extend(fired_by(w, 9));
            assert_eq!(fired, [(made, 2)], "lost, or taken for another");
        },
    );
}

/// A node goes from an armed timer to a new one while the driver visits its tick: the visit
/// fires one of the two.
#[test]
fn free_and_reuse_against_visit() {
    duel(
        || one(Some(1)),
        |(w, t)| (w.free(0, *t), w.make(marked(2), Some(1))),
        |(w, _)| fired_by(w, 1),
        |(w, t), (was, made), mut fired| {
            fired.extend(fired_by(w, 9));
            let expected = &[(*t, 0), (made, 2)][usize::from(was)..];
            assert_eq!(fired, expected, "lost, or taken for another");
        },
    );
}

/// What an advance to a tick says of those that it fires.
fn fired_by(w: &World, target: u64) -> Vec<(Handle, u64)> {
    let mut drive = w.wheel.drive(0).unwrap();
    drive.told(at(target), |f| (f.handle, f.cookie))
}

/// A world for at most two timers, which has both.
fn full() -> (World, Handle, Handle) {
    let w = World::of(Config {
        limit: 2,
        ..shape(2, 1, 0)
    });
    let [t, u] = [(); 2].map(|()| w.timer(None));
    (w, t, u)
}

fn free_both((w, t, u): &(World, Handle, Handle)) {
    w.free(0, *t);
    w.free(0, *u);
}

/// A thread makes `most` timers, or as many as the limit on live timers allows.
fn make(w: &World, thread: Thread, most: usize) -> Vec<Handle> {
    let make = |_| {
        let made = w.wheel.setup(&w.own(thread), Spec::default(), None);
        assert!(matches!(made, Ok(_) | Err(Error::Limit)));
        made.ok()
    };
    (0..most).map_while(make).collect()
}

/// At the limit nodes go from the thread that frees them to another that takes its list or its
/// run: the next timers have other handles, and no node is lost.
#[test]
fn free_against_steal() {
    duel(
        full,
        free_both,
        |(w, _, _)| make(w, 1, 2),
        |(w, t, u), (), mut made| {
            assert!([*t, *u].iter().all(|old| w.wheel.due(*old).is_err()));
            made.extend(make(w, 0, 3));
            assert_eq!(made.len(), 2, "lost or doubled");
            assert_apart(w, &made);
        },
    );
}

/// A thread frees timers while a second and a third one take its nodes.
#[test]
fn free_against_steal_and_steal_again() {
    report(with_two_others(
        None,
        full,
        |(w, _, _)| make(w, 1, 1),
        |(w, _, _)| make(w, 2, 1),
        free_both,
        |(w, _, _), first, second, ()| {
            let made = [first, second, make(w, 0, 3)].concat();
            assert_eq!(made.len(), 2, "lost or doubled");
            assert_apart(w, &made);
        },
    ));
}

/// A run goes to the stack while another thread looks for a node there. No node is lost: the
/// first thread can take all free nodes but those that the other thread has at hand.
#[test]
fn free_against_a_run_of_the_stack() {
    duel(
        || {
            let w = World::new(2, 1, 0);
            let all = [(); 4].map(|()| w.timer(None));
            (w, all)
        },
        |(w, all)| {
            for t in &all[..3] {
                w.free(0, *t);
            }
            make(w, 0, 1)
        },
        |(w, _)| make(w, 1, 2),
        |(w, all), mut made, theirs| {
            made.extend(theirs);
            made.push(all[3]);
            assert_apart(w, &made);
            let before = w.wheel.nodes();
            made.extend(make(w, 0, before as usize - made.len()));
            assert_apart(w, &made);
            assert!(w.wheel.nodes() <= before + 2 * u64::from(RUN), "lost");
        },
    );
}

/// A handle that was guessed, of a timer that another thread is making in the
/// first block of all.
#[test]
fn setup_against_a_guessed_handle() {
    let first = handle_of(1, first_generation(shape(2, 1, 0).salt as u32, 1));
    duel(
        || World::new(2, 1, 0),
        |w| w.timer(None),
        move |w| w.wheel.due(first),
        move |_, made, guessed| {
            assert_eq!(made, first);
            assert!(matches!(guessed, Ok(None) | Err(Error::Stale)));
        },
    );
}

/// At the limit one thread takes the list of another thread, which uses the list and may take
/// it back: that ends.
#[test]
fn steal_against_setup() {
    duel_to(
        NO_BOUND,
        || {
            let (w, t, u) = full();
            w.free(0, u);
            (w, t)
        },
        |(w, _)| make(w, 1, 1),
        |(w, _)| make(w, 0, 1),
        |(w, t), theirs, mine| {
            let all = [vec![*t], theirs, mine].concat();
            assert_eq!(all.len(), 2, "lost or doubled");
            assert_apart(w, &all);
        },
    );
}

/// A periodic timer is freed while it fires, and its node becomes another one, whose exact
/// time the driver does not touch.
#[test]
fn free_and_reuse_against_the_next_period() {
    let spec = Spec {
        period: at(2) + 3,
        ..Spec::default()
    };
    duel(
        move || one_of(spec, Some(1)),
        move |(w, t)| {
            w.free(0, *t);
            let due = Some(at(4) - 5);
            w.wheel.setup(&w.own(0), spec, due).unwrap()
        },
        |(w, _)| w.advance(1),
        |(w, _), made, _| {
            let seen = w.wheel.told(at(4), |f| (f.handle, f.deadline_ns));
            assert_eq!(seen, [(made, at(4) - 5)]);
        },
    );
}

/// The last generation before the wrap.
const LAST: u32 = (1 << (GEN_BITS - GEN_HIGH_BITS)) - 1;

/// A timer of that generation.
fn last() -> (World, Handle) {
    let w = World::of(Config {
        salt: u64::from(LAST.wrapping_sub(first_generation(0, 1))),
        ..shape(2, 1, 0)
    });
    let t = w.timer(Some(5));
    assert_eq!(t, handle_of(1, LAST));
    (w, t)
}

/// Frees it, and makes another, perhaps of the same node.
fn free_and_reuse((w, t): &(World, Handle)) -> (bool, Handle) {
    (w.free(0, *t), w.timer(Some(4)))
}

fn judge(w: &World, t: Handle, made: Handle) {
    assert_ne!(t, made);
    assert_eq!(w.wheel.due(t), Err(Error::Stale));
    let due = w.wheel.due(made);
    assert_eq!(due, Ok(Some(at(4))), "the high part was written over");
    w.fires_at(4);
    assert_eq!(w.advance(9), 0);
    w.free(0, made);
}

/// An arm with a note writes a reason into the link while the low part of a generation wraps.
#[test]
fn high_part_against_publish() {
    for short in [false, true] {
        duel(
            || after(last(), |(w, _)| w.collect()),
            move |(w, t)| w.arm_either_way(1, *t, 3, short),
            free_and_reuse,
            |(w, t), armed, (was, made)| {
                assert!(was, "armed before and after");
                assert!(armed == 1 || armed == Error::Stale as i32);
                judge(w, *t, made);
            },
        );
    }
}

/// The driver has taken a note, and makes an entry for the node of the life before.
#[test]
fn high_part_against_look() {
    duel(
        last,
        |(w, _)| w.advance(1),
        free_and_reuse,
        |(w, t), fired, (was, made)| {
            assert!(was && fired == 0);
            judge(w, *t, made);
        },
    );
}

/// The driver drops or moves the entry before it sleeps.
#[test]
fn high_part_against_settle() {
    for cancels in [true, false] {
        duel(
            move || {
                after(last(), |(w, t)| {
                    w.collect();
                    assert!(if cancels {
                        w.cancel(0, *t)
                    } else {
                        w.arm(0, *t, 6)
                    });
                })
            },
            |(w, _)| w.sleep(),
            free_and_reuse,
            |(w, t), (), (_, made)| {
                w.wakes_by(4);
                judge(w, *t, made);
            },
        );
    }
}

/// The driver makes an entry for the node of the life before.
#[test]
fn high_part_against_visit() {
    duel(
        || {
            after(last(), |(w, t)| {
                w.arm(0, *t, 1);
                w.collect();
                w.arm(0, *t, 5)
            })
        },
        |(w, _)| w.advance(1),
        free_and_reuse,
        |(w, t), fired, (was, made)| {
            assert!(was && fired == 0);
            assert_ne!(high_of(*t), high_of(made));
            judge(w, *t, made);
        },
    );
}
