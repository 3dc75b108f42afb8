//! Memory that one thread makes and another uses: blocks of the slab, inboxes, and the chunks
//! of notes. The checker refuses a load that is not ordered after the making of what it reads.

use super::{
    after, duel, duels_of_arms, explore, one, report, running, two, with_another, with_two_others,
    World,
};
use crate::core::arm::How;
use crate::core::state::{index_of, Handle};
use crate::core::Error;
use crate::core::Thread;
use crate::sync::{AtomicU32, Ordering};
use crate::tests::checker::at;
use crate::tests::{scarce, NUMBERS};

/// The thread 2 comes, with an inbox that the driver has never seen.
#[test]
fn new_inbox_against_sweep() {
    duel(
        || noted(1),
        |(w, t)| assert!(!w.arm(2, *t, 2)),
        |(w, _)| w.advance(2),
        |(w, _), (), _| w.have_fired(2, 3),
    );
}

/// The threads 1 and 2 come: they need the same new block of chunks.
#[test]
fn new_inbox_against_new_inbox() {
    duel(
        two,
        |(w, t, _)| w.arm(1, *t, 2),
        |(w, _, u)| w.arm(2, *u, 1),
        |(w, _, _), _, _| assert_eq!(w.advance(2), 2),
    );
}

/// Two threads need the same new block of the slab.
#[test]
fn fresh_block_against_fresh_block() {
    duel(
        || World::new(2, 1, 0),
        |w| w.timer_of(1, 1),
        |w| w.timer(Some(2)),
        |w, theirs, mine| {
            assert_ne!(index_of(mine), index_of(theirs));
            assert_eq!(w.advance(2), 2);
        },
    );
}

/// A timer of a new block fires while the thread that made it still arms it.
#[test]
fn fresh_block_against_sweep() {
    duel(
        || after(one(Some(1)).0, |w| w.timer(None)),
        |w| w.timer_of(1, 1),
        |w| w.advance(1),
        |w, _, _| w.have_fired(2, 3),
    );
}

/// A world whose thread 0 has written `n` notes, of timers that are due at tick 1, and a timer
/// that rests.
fn noted(n: u64) -> (World, Handle) {
    after(one(None), |(w, _)| {
        (0..n).for_each(|_| _ = w.timer(Some(1)))
    })
}

/// The driver comes to the end of a chunk, and gives it back to the inbox, while its thread
/// runs out of places: the last chunk is full, or has one place left.
#[test]
fn spare_chunk_against_append() {
    for n in [2, 3, 4] {
        duel(
            move || {
                let (w, t) = noted(n);
                let u = w.timer(None);
                (w, t, u)
            },
            |(w, t, u)| {
                w.arm(0, *t, 3);
                w.arm(0, *u, 2);
            },
            |(w, _, _)| w.advance(1),
            move |(w, t, u), (), _| {
                w.advance(2);
                w.have_fired(n + 2, 3);
                // What was given back is good for other notes.
                for tick in [9, 8] {
                    w.arm(0, *t, tick);
                    w.arm(0, *u, tick - 2);
                    w.collect();
                }
                assert_eq!(w.advance(9), 2);
            },
        );
    }
}

/// Repeats of an append within one arm: the driver takes each note before the thread sees to
/// it, and another thread takes the reason out of the link. The thread has one spare chunk and
/// gets no memory. At four preemptions.
#[test]
fn spare_chunk_against_repeats_of_an_append() {
    for (notes, drives) in [(1, 2), (2, 3), (3, 3)] {
        for short in [false, true] {
            report(with_another(
                Some(4),
                move || after(noted(notes), |(w, _)| w.collect()),
                move |(w, t)| w.arm_either_way(0, *t, 2, short),
                move |(w, t)| {
                    // It rests for the driver, which then drops the entry.
                    for _ in 0..drives {
                        w.collect();
                        w.cancel(1, *t);
                        w.sleep();
                    }
                },
                move |(w, t), was, ()| {
                    assert_eq!(was, 0);
                    w.advance(1);
                    _ = w.arm(0, *t, 3);
                    w.have_fired(notes + 1, 3);
                },
            ));
        }
    }
}

/// All chunks go through the stack of free ones: two threads take from it, and the driver
/// gives back to it.
#[test]
fn stack_of_chunks_against_give_back() {
    duel(
        || {
            let (w, t) = noted(7);
            let u = w.timer(None);
            // Gives two back, besides the spare one.
            w.collect();
            (w, t, u)
        },
        |(w, t, _)| assert!(!w.arm(1, *t, 2)),
        |(w, _, u)| {
            w.arm(2, *u, 3);
            w.collect();
        },
        |(w, t, u), (), ()| {
            w.have_fired(7, 1);
            assert_eq!((w.due(*t), w.due(*u)), (2, 3));
            assert_eq!((w.advance(2), w.advance(3)), (1, 1), "late or lost");
        },
    );
}

/// A word that hands a number over, as the bit map does.
#[derive(Default)]
struct Number(AtomicU32);

impl Number {
    fn hand_over(&self) {
        self.0.store(1, Ordering::Release);
    }

    /// The next thread has that number, or another one.
    fn next(&self) -> Thread {
        match self.0.load(Ordering::Acquire) {
            1 => 1,
            _ => 2,
        }
    }
}

/// A number goes from a thread that ends to one that begins, with a note that is left in the
/// inbox, and another that the driver takes.
#[test]
fn number_handed_over_with_a_note_in_the_inbox() {
    duel(
        || (two(), Number::default()),
        |((w, t, _), number)| {
            w.arm(1, *t, 2);
            number.hand_over();
        },
        |((w, _, u), number)| {
            w.collect();
            w.arm(number.next(), *u, 2)
        },
        |((w, _, _), _), (), _| assert_eq!(w.advance(2), 2),
    );
}

/// Chunks that the driver has given back go on with their inbox.
#[test]
fn number_handed_over_with_returned_chunks() {
    duel(
        || {
            let (w, t, u) = two();
            for timer in [t, u, w.timer(None)] {
                w.arm(1, timer, 1);
            }
            (w, t, u, Number::default())
        },
        |(w, _, u, number)| {
            w.arm(1, *u, 5);
            number.hand_over();
        },
        |(w, t, _, number)| {
            let fired = w.advance(1);
            w.arm(number.next(), *t, 7);
            fired
        },
        |(w, _, _, _), (), fired| {
            let rest = w.advance(9);
            // The ones that are armed meanwhile have fired before, or not.
            assert!((3..=5).contains(&(fired + rest)), "{fired} {rest}");
            assert_eq!(w.wheel.pending(NUMBERS), 0);
        },
    );
}

/// Dirty bits: two threads whose bits share a word, and the driver that takes them.
#[test]
fn dirty_bits_of_two_threads_against_take() {
    report(with_two_others(
        Some(3),
        two,
        |(w, t, _)| w.arm(0, *t, 1),
        |(w, _, u)| w.arm(1, *u, 1),
        |(w, _, _)| w.collect(),
        |(w, _, _), _, _, ()| assert_eq!(w.advance(1), 2, "late or lost"),
    ));
}

/// Dirty bits: the bit of a thread is set by its arm before, and the driver takes it in the
/// middle of the next.
#[test]
fn dirty_bit_that_is_set_already_against_take() {
    for thread in [0, 1] {
        duel(
            || {
                let (w, t, u) = two();
                w.arm(0, u, 1);
                (w, t)
            },
            move |(w, t)| w.arm(thread, *t, 1),
            |(w, _)| {
                w.collect();
                w.collect();
            },
            |(w, _), _, ()| assert_eq!(w.advance(1), 2, "late or lost"),
        );
    }
}

/// Dirty bits: the bit of the word is set, and the word is 0, as a thread leaves them that sets
/// both while the driver takes them. Another thread sets its bit in the word.
#[test]
fn dirty_word_whose_bit_is_set_already_against_take() {
    duels_of_arms(
        || after(one(None), |(w, _)| w.wheel.inboxes.mark_top()),
        |w, t, arm| arm(w, 1, t, 1),
        |w, _| w.collect(),
        |w, _, _, ()| w.have_fired(1, 1),
    );
}

/// A callback ends in a thread that gets no note for its timer.
fn finish_without_a_note(w: &World, timer: Handle) {
    w.wheel.finish(&w.stranger(), timer, || ());
}

/// A wheel with a timer that has come due again at tick 2 while its callback runs.
fn due_again() -> (World, Handle) {
    let (w, [t]) = running();
    w.arm(0, t, 2);
    w.advance(2);
    (w, t)
}

/// A callback ends in a thread that gets no note for its timer, which is due. The driver is
/// about to look at every timer, for another one or not.
#[test]
fn look_at_all_against_finish() {
    for other in [false, true] {
        duel(
            move || {
                let (w, [t, u]) = running();
                w.arm(0, t, 2);
                w.arm(0, u, 2);
                if other {
                    w.advance(2);
                    finish_without_a_note(&w, u);
                }
                (w, t, u)
            },
            |(w, t, _)| finish_without_a_note(w, *t),
            |(w, _, _)| w.advance(2),
            move |(w, t, u), (), early| {
                let rest = w.advance(2);
                assert_eq!(early + rest, 1 + u64::from(other), "late or lost");
                assert_eq!(w.due(*t), 0);
                assert_eq!(w.due(*u), if other { 0 } else { 2 });
            },
        );
    }
}

/// A request to look at every timer, against a driver that goes to sleep.
#[test]
fn look_at_all_against_sleep() {
    duel(
        due_again,
        |(w, t)| finish_without_a_note(w, *t),
        |(w, _)| w.sleep(),
        |(w, _), (), ()| {
            assert_eq!(w.alarm.get(), 0, "asleep");
            assert_eq!(w.advance(2), 1);
        },
    );
}

/// A request to look at every timer, against a driver that is awake for another thread's request.
/// An earlier sweep has served that one before the thread lowered the next visit. So the driver
/// wakes, and does not know of this request.
#[test]
fn look_at_all_against_a_request_that_wakes_late() {
    duel(
        || after(due_again(), |(w, _)| w.wheel.alarm.lower(0)),
        |(w, t)| finish_without_a_note(w, *t),
        |(w, _)| w.advance(2),
        |(w, _), (), early| assert_eq!(early + w.advance(2), 1, "late or lost"),
    );
}

/// No memory is left for the chunks of one more thread. Its arm is refused and changes nothing. The
/// end of a callback has the driver look at every timer.
#[test]
fn no_memory_for_a_chunk() {
    report(explore(None, || {
        let (w, [t, u]) = running();
        let others = [(); 10].map(|()| w.timer(None));
        w.arm(0, t, 2);
        assert_eq!(w.advance(2), 0);
        others.iter().for_each(|timer| _ = w.arm(0, *timer, 9));
        let third = &w.own(NUMBERS - 2);
        scarce(0, || {
            for _ in 0..2 {
                let refused = w.wheel.arm(third, u, at(3), How::Always);
                assert_eq!(refused, Err(Error::Memory));
                assert_eq!(w.wheel.arm_at(third, u, at(3)), Error::Memory as i32);
                assert_eq!(w.due(u), 0);
            }
            w.wheel.finish(third, t, || ());
            assert_eq!(w.advance(2), 1);
        });
        assert_eq!(w.wheel.arm(third, u, at(3), How::Always), Ok(false));
        scarce(0, || {
            assert_eq!(w.advance(8), 0);
            w.wheel.finish(third, u, || ());
            assert_eq!(w.advance(8), 1);
            assert_eq!(w.advance(9), others.len() as u64);
        });
    }));
}
