//! A wheel that one thread owns: the messages of other threads, while the owner drives, sleeps,
//! drains, and gives the wheel up. The owner is the thread 0.

use super::{
    after, drained, duel, explore, explore_stops, report, with_two_others, Part, Plain, World,
};
use crate::core::life::Spec;
use crate::core::state::Handle;
use crate::core::ticks::AUTO;
use crate::core::wheel::Config;
use crate::core::Error;
use crate::core::Thread;
use crate::sync::{AtomicU64, Ordering};
use crate::tests::cases;
use crate::tests::checker::{at, shape, TICK_BITS};
use loom::sync::Arc;
use loom::thread;

/// A wheel that the thread 0 owns, with room for this number of timers.
fn of(limit: u32) -> World {
    World::of(Config {
        limit,
        owner: Some(1),
        ..shape(2, 1, 0)
    })
}

fn owned() -> World {
    of(u32::MAX)
}

/// With a timer of the owner's.
fn with_timer(due: Option<u64>) -> (World, Handle) {
    let w = owned();
    let t = w.timer(due);
    (w, t)
}

/// Nobody owns it.
fn disowned() -> World {
    after(owned(), |w| w.disown(0))
}

/// A wheel in which a message gets the node of a timer that the owner has freed, whose entry is
/// still in a bucket.
fn with_an_entry(tick: u64) -> World {
    let w = of(1);
    let t = w.timer(Some(tick));
    assert!(w.free(0, t));
    w
}

impl World {
    /// The thread `n` sends the owner a timer.
    fn send(&self, n: Thread, due: u64) -> Result<Handle, Error> {
        let spec = Spec {
            kind: AUTO,
            ..Spec::default()
        };
        self.wheel.setup(&self.own(n), spec, Some(at(due)))
    }

    /// The thread `n` takes the wheel when nobody owns it.
    fn take(&self, n: Thread) {
        while self.wheel.own(&self.own(n), |_| false).is_err() {
            thread::yield_now();
        }
    }

    fn disown(&self, n: Thread) {
        self.wheel.disown(&self.own(n)).unwrap();
    }

    /// The tick that the wheel has reached.
    fn hand(&self) -> u64 {
        self.wheel.hand_ns() >> TICK_BITS
    }

    /// All that is pending fires by that tick, and none of it early.
    fn all_fire(&self, number: u64, by: u64) {
        for tick in self.hand()..=by {
            self.advance(tick);
        }
        assert_eq!(self.fired(), number, "lost or twice");
        assert_eq!(drained(self), 0, "forgotten");
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Advance(u64),
    Sleep,
    AdvanceAndSleep(u64),
}
use Does::{Advance, AdvanceAndSleep, Sleep};

impl Does {
    fn run(self, w: &World) {
        match self {
            Advance(tick) => _ = w.advance(tick),
            Sleep => w.sleep(),
            AdvanceAndSleep(tick) => {
                w.advance(tick);
                w.sleep();
            }
        }
    }

    /// What the owner sleeps until is not later than a tick, which may have passed before the
    /// message was sent.
    fn check(self, w: &World, tick: u64) {
        if !matches!(self, Advance(_)) && w.fired() == 0 {
            w.wakes_by(tick.max(w.hand() + 1));
        }
    }
}

fn message_against(make: impl Fn() -> World + Part, due: u64, does: Does) {
    duel(
        make,
        move |w| w.send(1, due).unwrap(),
        move |w| does.run(w),
        move |w, _, ()| {
            does.check(w, due);
            w.all_fire(1, due + 3);
        },
    );
}

/// Races 2 and 3: the note, against the owner that takes it, and goes to sleep.
#[test]
fn owned_message_against_a_drive_and_a_sleep() {
    for does in [Advance(1), Advance(3), Sleep, AdvanceAndSleep(1)] {
        message_against(owned, 2, does);
    }
}

/// The node of a message has an entry of an earlier life, that the owner visits or drops.
#[test]
fn owned_message_in_a_node_with_an_entry() {
    for does in [Advance(1), Advance(2), Sleep, AdvanceAndSleep(2)] {
        for due in [2, 3] {
            message_against(|| with_an_entry(2), due, does);
        }
    }
}

/// The node of a message has an entry of an earlier life, and a cascade of the owner moves or drops
/// that entry.
#[test]
fn owned_message_in_a_node_with_an_entry_that_cascades() {
    for due in [2, 3, 4] {
        message_against(|| with_an_entry(3), due, Advance(2));
    }
}

/// The owner arms a timer of its own meanwhile, and moves it, and fires it.
#[test]
fn owned_message_against_arms_of_the_owner() {
    for short in [false, true] {
        for (first, then) in [(3, 1), (1, 3), (2, 2)] {
            duel(
                || with_timer(None),
                |(w, _)| w.send(1, 2).unwrap(),
                move |(w, t)| {
                    assert_eq!(w.arm_either_way(0, *t, first, short), 0);
                    assert_eq!(w.arm_either_way(0, *t, then, short), 1);
                    w.sleep();
                },
                move |(w, _), _, ()| {
                    w.wakes_by(then.min(2));
                    w.all_fire(2, 4);
                },
            );
        }
    }
}

/// The owner sleeps, and arms a timer for an earlier time, which wakes it, as a message does.
#[test]
fn owned_message_against_an_earlier_arm_of_an_owner_that_sleeps() {
    duel(
        || {
            let (w, t) = with_timer(Some(4));
            w.sleep();
            assert_eq!(w.alarm.get(), 4);
            (w, t)
        },
        |(w, _)| w.send(1, 3).unwrap(),
        |(w, t)| {
            assert!(w.short_arm(0, *t, 2));
            w.wakes_by(2);
        },
        |(w, _), _, ()| {
            w.wakes_by(2);
            w.all_fire(2, 4);
        },
    );
}

/// Race 4: the message is handed back, or its sender is refused.
#[test]
fn owned_message_against_a_drain() {
    for entry in [false, true] {
        duel(
            move || if entry { with_an_entry(2) } else { owned() },
            |w| w.send(1, 2),
            drained,
            |w, sent, handed| {
                let handed = handed + drained(w);
                match sent {
                    Ok(_) => assert_eq!(handed, 1, "sent and forgotten"),
                    Err(Error::Shutdown) => assert_eq!(handed, 0, "refused and handed back"),
                    Err(other) => panic!("{other:?}"),
                }
                assert_eq!(w.wheel.live(4), 0, "a node is lost");
                assert!(w.send(1, 3).is_err());
            },
        );
    }
}

/// The owner has drained the wheel, and finds a message in a list: either it frees the message, or
/// the sender takes it back.
#[test]
fn owned_message_against_a_drain_and_a_free() {
    duel(
        owned,
        |w| w.send(1, 2).is_ok(),
        |w| {
            let handed = drained(w);
            let found = w.wheel.next_pending(0);
            let freed = found.map(|(_, f)| w.wheel.free(&w.own(0), f.handle));
            handed + u64::from(freed == Some(Ok(true)))
        },
        |w, sent, ended| {
            let ended = ended + drained(w);
            assert_eq!(ended, u64::from(sent), "twice, or forgotten");
            assert_eq!(w.wheel.live(4), 0, "a node is lost");
        },
    );
}

/// The owner finds a message that is being sent in a list, and cancels, moves or frees it. The
/// node has its next life at once.
#[test]
fn owned_message_against_an_owner_that_finds_it() {
    // Each says that the message is pending. Two of them end it.
    type Call = fn(&World, Handle) -> bool;
    let calls: [(Call, bool); 3] = [
        (|w, found| w.cancel(0, found), true),
        (|w, found| w.free(0, found), true),
        (|w, found| w.arm(0, found, 3), false),
    ];
    for (call, ends) in calls {
        duel(
            owned,
            |w| w.send(1, 2).unwrap(),
            move |w| {
                let Some((_, found)) = w.wheel.next_pending(0) else {
                    return 0;
                };
                assert!(call(w, found.handle));
                if ends {
                    w.timer(Some(1));
                }
                u64::from(ends)
            },
            |w, _, ended| {
                // Either the message or the timer that the owner has made instead.
                w.all_fire(1, 4);
                assert_eq!(w.wheel.live(4), ended);
            },
        );
    }
}

/// What others ask about the owner's timers while it changes them.
#[test]
fn owned_arm_against_asking() {
    for short in [false, true] {
        duel(
            || with_timer(Some(3)),
            |(w, t)| {
                let next = w.wheel.next_expiry().unwrap();
                let listed = w.wheel.next_pending(0).unwrap().1;
                assert_eq!(listed.handle, *t);
                (next, w.wheel.due(*t).unwrap().unwrap())
            },
            move |(w, t)| {
                assert_eq!(w.arm_either_way(0, *t, 2, short), 1);
                assert_eq!(w.arm_either_way(0, *t, 3, short), 1);
            },
            |(w, _), (next, due), ()| {
                assert!(next <= at(3));
                assert!([at(2), at(3)].contains(&due));
                assert!(w.wheel.next_expiry().unwrap() <= at(3));
                w.all_fire(1, 4);
            },
        );
    }
}

/// A thread that asks about a timer sees what the owner did before it changed the timer.
#[test]
fn owned_change_seen_by_asking() {
    for [armed, short] in cases() {
        duel(
            move || (with_timer(armed.then_some(3)), Plain::default()),
            move |((w, t), plain)| {
                plain.set(1);
                match (armed, short) {
                    (true, true) => assert!(w.short_cancel(0, *t)),
                    (true, false) => assert!(w.cancel(0, *t)),
                    (false, _) => assert_eq!(w.arm_either_way(0, *t, 2, short), 0),
                }
            },
            move |((w, t), plain)| {
                if w.wheel.due(*t).unwrap().is_some() != armed {
                    assert_eq!(plain.get(), 1);
                }
            },
            move |((w, _), _), (), ()| w.all_fire(u64::from(!armed), 4),
        );
    }
}

/// Two senders, and an owner that drives and sleeps.
#[test]
fn owned_messages_of_two_threads() {
    for does in [Advance(2), Sleep, AdvanceAndSleep(1)] {
        report(with_two_others(
            Some(2),
            owned,
            |w| w.send(1, 2).unwrap(),
            |w| w.send(2, 3).unwrap(),
            move |w| does.run(w),
            move |w, _, _, ()| {
                does.check(w, 2);
                w.all_fire(2, 5);
            },
        ));
    }
}

/// A thread has lowered the time of the next visit after its message was taken. Another one finds
/// that time early enough, while the owner drives. What the owner then announces is not late.
#[test]
fn owned_message_against_a_drive_that_forgets_an_early_visit() {
    for early in [1, 2, 3] {
        duel(
            move || {
                after(owned(), |w| {
                    w.wheel.alarm.lower(w.wheel.ticks.at_or_after(at(early)));
                })
            },
            |w| w.send(1, 3).unwrap(),
            |w| _ = w.advance(1),
            |w, _, ()| {
                let next = w.wheel.next_expiry();
                assert!(next.is_some_and(|next| next <= at(3)), "late: {next:?}");
                w.all_fire(1, 6);
            },
        );
    }
}

/// The owner gives the wheel up while a thread sends, and another one takes it. The checker sees
/// that plain memory is handed over.
#[test]
fn owned_hand_over_while_a_thread_sends() {
    for does in [Advance(2), AdvanceAndSleep(1)] {
        report(with_two_others(
            Some(2),
            || with_timer(Some(3)),
            |(w, _)| w.send(1, 2).unwrap(),
            move |(w, t)| {
                w.take(2);
                does.run(w);
                // As the last owner has armed it.
                assert!(w.cancel(2, *t));
                assert_eq!(w.due(*t), 0);
                w.disown(2);
            },
            |(w, t)| {
                w.arm(0, *t, 4);
                w.disown(0);
                let refused = w.arm_either_way(0, *t, 5, true);
                assert_eq!(refused, Error::NotOwner as i32);
            },
            move |(w, _), _, (), ()| {
                w.wheel.own(&w.own(0), |_| false).unwrap();
                does.check(w, 2);
                w.all_fire(1, 5);
            },
        ));
    }
}

/// Of two threads that want it, one gets it.
#[test]
fn owned_by_one_of_two_that_want_it() {
    duel(
        disowned,
        |w| w.wheel.own(&w.own(1), |_| false),
        |w| w.wheel.own(&w.own(2), |_| false),
        |_, a, b| {
            let got = [a, b].map(|got| got == Ok(()));
            assert!(got[0] != got[1], "{a:?} {b:?}");
        },
    );
}

/// Two threads own it in turn. One of them may find that nobody owns it, before the other one takes
/// it, drives and gives it up.
#[test]
fn owned_by_two_in_turn() {
    let turn = |w: &World, n| {
        w.take(n);
        w.advance(1);
        w.disown(n);
    };
    duel(
        disowned,
        move |w| turn(w, 1),
        move |w| turn(w, 2),
        |_, (), ()| {},
    );
}

/// The thread that owned it has ended, and left what it wrote.
#[test]
fn owned_by_a_thread_that_has_ended() {
    report(explore(None, || {
        let w = Arc::new(owned());
        let v = w.clone();
        let ended = Arc::new(AtomicU64::new(0));
        let ends = ended.clone();
        let owner = thread::spawn(move || {
            v.timer(Some(2));
            v.advance(1);
            ends.store(1, Ordering::Release);
        });
        let own = w.own(1);
        let has_ended = |_| ended.load(Ordering::Acquire) == 1;
        while let Err(e) = w.wheel.own(&own, has_ended) {
            assert_eq!(e, Error::Busy);
            thread::yield_now();
        }
        assert_eq!((w.advance(1), w.advance(2)), (0, 1));
        owner.join().unwrap();
    }));
}

/// A timer that rests in the bucket: not what a message relies on.
#[test]
fn owned_message_beside_a_timer_that_rests() {
    duel(
        || after(with_timer(Some(2)), |(w, t)| w.cancel(0, *t)),
        |(w, _)| w.send(1, 2).unwrap(),
        |(w, t)| {
            w.sleep();
            assert!(!w.short_arm(0, *t, 2));
        },
        |(w, t), _, ()| {
            w.wakes_by(2);
            assert_eq!(w.due(*t), 2);
            assert_eq!(w.advance(2), 2);
        },
    );
}

/// Threads that are stopped for good. `make loom` runs these apart.
mod stopped {
    use super::*;

    /// A sender is stopped for good before each of its accesses in turn. The message of another one
    /// and the owner's timer fire in time, and the owner is not asleep over them. The message of the
    /// stopped sender fires once, or is handed back once, or never was there.
    fn beside_a_stopped_sender(owner: fn(&World) -> u64, sleeps: bool) {
        report(explore_stops(Some(2), move |stop| {
            let w = Arc::new(owned());
            let (v, x) = (w.clone(), w.clone());
            let first = thread::spawn(move || stop.run(|| v.send(1, 3).is_ok()));
            let second = thread::spawn(move || x.send(2, 3).is_ok());
            let ended = owner(&w);
            let first = first.join().unwrap();
            let second = second.join().unwrap();
            if sleeps {
                w.wakes_by(3);
            }
            // Those that have ended, and those that fire in the next ticks or are handed back then.
            for tick in w.hand()..6 {
                w.advance(tick);
            }
            let ended = ended + w.fired() + drained(&w);
            let most = u64::from(second) + u64::from(first.unwrap_or(true));
            let least = u64::from(second) + u64::from(first.unwrap_or(false));
            assert!((least..=most).contains(&ended), "{least} {ended} {most}");
        }));
    }

    /// The owner drives, and hands no timer back.
    fn drive(w: &World) -> u64 {
        w.advance(1);
        0
    }

    fn sleep(w: &World) -> u64 {
        w.sleep();
        0
    }

    fn hand_over_and_sleep(w: &World) -> u64 {
        w.disown(0);
        w.wheel.own(&w.own(0), |_| false).unwrap();
        sleep(w)
    }

    tests! { beside_a_stopped_sender:
        owned_stopped_sender_against_a_sender_and_a_drive(drive, false);
        owned_stopped_sender_against_a_sender_and_a_sleep(sleep, true);
        owned_stopped_sender_against_a_sender_and_a_drain(drained, false);
        /// The wheel changes hands while a sender is stopped.
        owned_stopped_sender_against_a_sender_and_a_hand_over(hand_over_and_sleep, true);
    }
}
