//! A wheel that one thread owns: the messages of other threads, while the owner drives, sleeps,
//! drains, and gives the wheel up. The owner is the thread 0.

use super::{drained, duel, explore, report, Alarm, Plain, World};
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::error::Error;
use crate::core::inbox::Thread;
use crate::core::life::Spec;
use crate::core::period::AUTO;
use crate::core::state::Handle;
use crate::core::wheel::Config;
use crate::sync::{stopped_before, AtomicU64, Ordering::*};
use crate::tests::checker::{at, shape, TICK_BITS};
use crate::tests::Collect;
use loom::sync::Arc;
use loom::thread;
use std::sync::atomic::AtomicBool;

/// A wheel with room for this number of timers, and its alarm.
struct Scene {
    world: World,
    alarm: Alarm,
}

fn of(limit: u32) -> Scene {
    Scene {
        world: World::of(Config {
            limit,
            owner: Some(1),
            ..shape(2, 1, 0)
        }),
        alarm: Alarm::new(),
    }
}

fn scene() -> Scene {
    of(u32::MAX)
}

impl Scene {
    /// The thread `n` sends the owner a timer.
    fn send(&self, n: Thread, due: u64) -> Result<Handle, Error> {
        let spec = Spec {
            kind: AUTO,
            ..Spec::default()
        };
        self.world
            .wheel
            .setup(&self.alarm.caller(n), spec, Some(at(due)))
    }

    /// The owner arms a timer of its own, by the short way or the long one.
    fn arm(&self, timer: Handle, tick: u64, short: bool) -> i32 {
        let caller = self.alarm.caller(0);
        if short {
            return self.world.wheel.arm_at(&caller, timer, at(tick));
        }
        let armed = self.world.wheel.arm(&caller, timer, at(tick), How::Always);
        armed.map_or_else(|e| e as i32, i32::from)
    }

    fn sleep(&self) {
        self.world.sleep(&self.alarm);
    }

    /// The tick that the wheel has reached.
    fn hand(&self) -> u64 {
        self.world.wheel.hand_ns() >> TICK_BITS
    }

    /// All that is pending fires by that tick, and none of it early.
    fn fires(&self, number: u64, by: u64) {
        for tick in self.hand()..=by {
            self.world.advance(tick);
        }
        assert_eq!(self.world.fired(), number, "lost or twice");
        assert_eq!(drained(&self.world), 0, "forgotten");
    }
}

/// A scene in which a message gets the node of a timer that the owner has freed, whose entry is
/// still in a bucket.
fn with_an_entry(tick: u64) -> Scene {
    let s = of(1);
    let t = s.world.timer(Some(tick));
    assert!(s.world.wheel.free(&s.world.own(0), t).unwrap());
    s
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Advance(u64),
    Sleep,
    AdvanceAndSleep(u64),
}
use Does::{Advance, AdvanceAndSleep, Sleep};

impl Does {
    fn run(self, s: &Scene) {
        match self {
            Advance(tick) => _ = s.world.advance(tick),
            Sleep => s.sleep(),
            AdvanceAndSleep(tick) => {
                s.world.advance(tick);
                s.sleep();
            }
        }
    }

    /// What the owner sleeps until is not later than a tick, which may have passed before the
    /// message was sent.
    fn check(self, s: &Scene, tick: u64) {
        let tick = tick.max(s.hand() + 1);
        if !matches!(self, Advance(_)) && s.world.fired() == 0 {
            assert!(s.alarm.get() <= tick, "asleep until {}", s.alarm.get());
        }
    }
}

fn message_against(make: impl Fn() -> Scene + Copy + Send + Sync + 'static, due: u64, does: Does) {
    duel(
        make,
        move |s| s.send(1, due).unwrap(),
        move |s| does.run(s),
        move |s, _, ()| {
            does.check(s, due);
            s.fires(1, due + 3);
        },
    );
}

/// Races 2 and 3: the note, against the owner that takes it, and goes to sleep.
#[test]
fn owned_message_against_a_drive_and_a_sleep() {
    for does in [Advance(1), Advance(3), Sleep, AdvanceAndSleep(1)] {
        message_against(scene, 2, does);
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
                || {
                    let s = scene();
                    let t = s.world.timer(None);
                    (s, t)
                },
                |(s, _)| s.send(1, 2).unwrap(),
                move |(s, t)| {
                    assert_eq!(s.arm(*t, first, short), 0);
                    assert_eq!(s.arm(*t, then, short), 1);
                    s.sleep();
                },
                move |(s, _), _, ()| {
                    assert!(
                        s.alarm.get() <= then.min(2),
                        "asleep until {}",
                        s.alarm.get()
                    );
                    s.fires(2, 4);
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
            let s = scene();
            let t = s.world.timer(Some(4));
            s.sleep();
            assert_eq!(s.alarm.get(), 4);
            (s, t)
        },
        |(s, _)| s.send(1, 3).unwrap(),
        |(s, t)| {
            assert_eq!(s.arm(*t, 2, true), 1);
            assert!(s.alarm.get() <= 2, "asleep until {}", s.alarm.get());
        },
        |(s, _), _, ()| {
            assert!(s.alarm.get() <= 2, "asleep until {}", s.alarm.get());
            s.fires(2, 4);
        },
    );
}

/// Race 4: the message is handed back, or its sender is refused.
#[test]
fn owned_message_against_a_drain() {
    for entry in [false, true] {
        duel(
            move || match entry {
                true => with_an_entry(2),
                false => scene(),
            },
            |s| s.send(1, 2),
            |s| drained(&s.world),
            |s, sent, handed| {
                let handed = handed + drained(&s.world);
                match sent {
                    Ok(_) => assert_eq!(handed, 1, "sent and forgotten"),
                    Err(Error::Shutdown) => assert_eq!(handed, 0, "refused and handed back"),
                    Err(other) => panic!("{other:?}"),
                }
                assert_eq!(s.world.wheel.live(4), 0, "a node is lost");
                assert!(s.send(1, 3).is_err());
            },
        );
    }
}

/// The owner has drained the wheel, and finds a message in a list: either it frees the message, or
/// the sender takes it back.
#[test]
fn owned_message_against_a_drain_and_a_free() {
    duel(
        scene,
        |s| s.send(1, 2).is_ok(),
        |s| {
            let handed = drained(&s.world);
            let found = s.world.wheel.next_pending(0);
            let freed = found.map(|(_, f)| s.world.wheel.free(&s.world.own(0), f.handle));
            handed + u64::from(freed == Some(Ok(true)))
        },
        |s, sent, ended| {
            let ended = ended + drained(&s.world);
            assert_eq!(ended, u64::from(sent), "twice, or forgotten");
            assert_eq!(s.world.wheel.live(4), 0, "a node is lost");
        },
    );
}

/// The owner finds a message that is being sent in a list, and cancels, moves or frees it. The
/// node has its next life at once.
#[test]
fn owned_message_against_an_owner_that_finds_it() {
    for does in 0..3 {
        duel(
            scene,
            |s| s.send(1, 2).unwrap(),
            move |s| {
                let (wheel, own) = (&s.world.wheel, s.world.own(0));
                let Some((_, found)) = wheel.next_pending(0) else {
                    return 0;
                };
                if does == 2 {
                    assert_eq!(s.arm(found.handle, 3, false), 1);
                    return 0;
                }
                let ended = match does {
                    0 => wheel.cancel(&own, found.handle, false),
                    _ => wheel.free(&own, found.handle),
                };
                assert_eq!(ended, Ok(true));
                s.world.timer(Some(1));
                1
            },
            |s, _, ended| {
                // Either the message or the timer that the owner has made instead.
                s.fires(1, 4);
                assert_eq!(s.world.wheel.live(4), ended);
            },
        );
    }
}

/// What others ask about the owner's timers while it changes them.
#[test]
fn owned_arm_against_asking() {
    for short in [false, true] {
        duel(
            || {
                let s = scene();
                let t = s.world.timer(Some(3));
                (s, t)
            },
            |(s, t)| {
                let next = s.world.wheel.next_expiry().unwrap();
                let listed = s.world.wheel.next_pending(0).unwrap().1;
                assert_eq!(listed.handle, *t);
                (next, s.world.wheel.due(*t).unwrap().unwrap())
            },
            move |(s, t)| {
                assert_eq!(s.arm(*t, 2, short), 1);
                assert_eq!(s.arm(*t, 3, short), 1);
            },
            |(s, _), (next, due), ()| {
                assert!(next <= at(3));
                assert!([at(2), at(3)].contains(&due));
                assert!(s.world.wheel.next_expiry().unwrap() <= at(3));
                s.fires(1, 4);
            },
        );
    }
}

/// A thread that asks about a timer sees what the owner did before it changed the timer.
#[test]
fn owned_change_seen_by_asking() {
    for (armed, short) in [(false, false), (false, true), (true, false), (true, true)] {
        duel(
            move || {
                let s = scene();
                let t = s.world.timer(armed.then_some(3));
                (s, t, Plain::default())
            },
            move |(s, t, plain)| {
                plain.set(1);
                match (armed, short) {
                    (true, true) => assert!(s.world.short_cancel(0, *t)),
                    (true, false) => assert!(s.world.cancel(0, *t)),
                    (false, _) => assert_eq!(s.arm(*t, 2, short), 0),
                }
            },
            move |(s, t, plain)| {
                if s.world.wheel.due(*t).unwrap().is_some() != armed {
                    assert_eq!(plain.get(), 1);
                }
            },
            move |(s, _, _), (), ()| s.fires(u64::from(!armed), 4),
        );
    }
}

/// Two senders, and an owner that drives and sleeps.
#[test]
fn owned_messages_of_two_threads() {
    for does in [Advance(2), Sleep, AdvanceAndSleep(1)] {
        report(explore(Some(2), move || {
            let s = Arc::new(scene());
            let senders = [1, 2].map(|n| {
                let s = s.clone();
                thread::spawn(move || s.send(n, 1 + u64::from(n)).unwrap())
            });
            does.run(&s);
            for sender in senders {
                sender.join().unwrap();
            }
            does.check(&s, 2);
            s.fires(2, 5);
        }));
    }
}

/// A thread has lowered the time of the next visit after its message was taken. Another one finds
/// that time early enough, while the owner drives. What the owner then announces is not late.
#[test]
fn owned_message_against_a_drive_that_forgets_an_early_visit() {
    for (early, due, to) in [(2, 3, 1), (1, 3, 1), (3, 3, 1)] {
        duel(
            move || {
                let s = scene();
                s.world
                    .wheel
                    .alarm
                    .lower(s.world.wheel.ticks.at_or_after(at(early)));
                s
            },
            move |s| s.send(1, due).unwrap(),
            move |s| _ = s.world.advance(to),
            move |s, _, ()| {
                let next = s.world.wheel.next_expiry();
                assert!(next.is_some_and(|next| next <= at(due)), "late: {next:?}");
                s.fires(1, due + 3);
            },
        );
    }
}

/// The owner gives the wheel up while a thread sends, and another one takes it. The checker sees
/// that plain memory is handed over.
#[test]
fn owned_hand_over_while_a_thread_sends() {
    for does in [Advance(2), AdvanceAndSleep(1)] {
        report(explore(Some(2), move || {
            let s = Arc::new(scene());
            let t = s.world.timer(Some(3));
            let (v, x) = (s.clone(), s.clone());
            let sender = thread::spawn(move || v.send(1, 2).unwrap());
            let next = thread::spawn(move || {
                let own = x.world.own(2);
                while x.world.wheel.own(&own, |_| false).is_err() {
                    thread::yield_now();
                }
                does.run(&x);
                // As the last owner has armed it.
                let was = x.world.wheel.cancel(&own, t, false);
                assert_eq!((was, x.world.due(t)), (Ok(true), 0));
                x.world.wheel.disown(&own).unwrap();
            });
            s.world.arm(0, t, 4);
            s.world.wheel.disown(&s.world.own(0)).unwrap();
            assert_eq!(s.arm(t, 5, true), Error::NotOwner as i32);
            sender.join().unwrap();
            next.join().unwrap();
            s.world.wheel.own(&s.world.own(0), |_| false).unwrap();
            does.check(&s, 2);
            s.fires(1, 5);
        }));
    }
}

/// Of two threads that want it, one gets it.
#[test]
fn owned_by_one_of_two_that_want_it() {
    duel(
        || {
            let s = scene();
            s.world.wheel.disown(&s.world.own(0)).unwrap();
            s
        },
        |s| s.world.wheel.own(&s.world.own(1), |_| false),
        |s| s.world.wheel.own(&s.world.own(2), |_| false),
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
    let turn = |s: &Scene, n| {
        let own = s.world.own(n);
        while s.world.wheel.own(&own, |_| false).is_err() {
            thread::yield_now();
        }
        s.world.advance(1);
        s.world.wheel.disown(&own).unwrap();
    };
    duel(
        || {
            let s = scene();
            s.world.wheel.disown(&s.world.own(0)).unwrap();
            s
        },
        move |s| turn(s, 1),
        move |s| turn(s, 2),
        |_, (), ()| {},
    );
}

/// The thread that owned it has ended, and left what it wrote.
#[test]
fn owned_by_a_thread_that_has_ended() {
    report(explore(None, || {
        let s = Arc::new(scene());
        let v = s.clone();
        let ended = Arc::new(AtomicU64::new(0));
        let ends = ended.clone();
        let owner = thread::spawn(move || {
            v.world.timer(Some(2));
            v.world.advance(1);
            ends.store(1, Release);
        });
        let own = s.world.own(1);
        let has_ended = |_| ended.load(Acquire) == 1;
        while let Err(e) = s.world.wheel.own(&own, has_ended) {
            assert_eq!(e, Error::Busy);
            thread::yield_now();
        }
        assert_eq!((s.world.advance(1), s.world.advance(2)), (0, 1));
        owner.join().unwrap();
    }));
}

/// A timer that rests in the bucket: not what a message relies on.
#[test]
fn owned_message_beside_a_timer_that_rests() {
    duel(
        || {
            let s = scene();
            let t = s.world.timer(Some(2));
            s.world.cancel(0, t);
            (s, t)
        },
        |(s, _)| s.send(1, 2).unwrap(),
        |(s, t)| {
            s.sleep();
            assert_eq!(s.arm(*t, 2, true), 0);
        },
        |(s, t), _, ()| {
            assert!(s.alarm.get() <= 2, "asleep until {}", s.alarm.get());
            assert_eq!(s.world.wheel.due(*t).unwrap().unwrap() >> TICK_BITS, 2);
            let mut fired = 0;
            let all = |_: &Fired| {
                fired += 1;
                true
            };
            s.world.wheel.advance(at(2), Collect(all)).unwrap();
            assert_eq!(fired, 2);
        },
    );
}

/// Threads that are stopped for good. `make loom` runs these apart.
mod stopped {
    use super::*;

    /// How many have fired by a tick, or are handed back then.
    fn drained_after(s: &Scene, by: u64) -> u64 {
        for tick in s.hand()..by {
            s.world.advance(tick);
        }
        s.world.fired() + drained(&s.world)
    }

    /// A sender is stopped for good before each of its accesses in turn. The message of another one
    /// and the owner's timer fire in time, and the owner is not asleep over them. The message of the
    /// stopped sender fires once, or is handed back once, or never was there.
    fn beside_a_stopped_sender(
        make: impl Fn() -> Scene + Copy + Send + Sync + 'static,
        owner: impl Fn(&Scene) -> u64 + Copy + Send + Sync + 'static,
        judge: impl Fn(&Scene) + Copy + Send + Sync + 'static,
    ) {
        let mut explored = None;
        for n in 0.. {
            let stopped = std::sync::Arc::new(AtomicBool::new(false));
            let was_stopped = stopped.clone();
            let more = explore(Some(2), move || {
                let s = Arc::new(make());
                let (v, x) = (s.clone(), s.clone());
                let stopped = was_stopped.clone();
                let first = thread::spawn(move || {
                    let sent = stopped_before(n, || v.send(1, 3));
                    stopped.fetch_or(sent.is_none(), std::sync::atomic::Ordering::Relaxed);
                    sent.map(|sent| sent.is_ok())
                });
                let second = thread::spawn(move || x.send(2, 3).is_ok());
                let ended = owner(&s);
                let first = first.join().unwrap();
                let second = second.join().unwrap();
                judge(&s);
                // Those that have ended, and those that end in the next ticks.
                let ended = ended + drained_after(&s, 6);
                let most = u64::from(second) + u64::from(first.unwrap_or(true));
                let least = u64::from(second) + u64::from(first.unwrap_or(false));
                assert!((least..=most).contains(&ended), "{least} {ended} {most}");
            });
            explored = Some(explored.map_or(more, |all| all + more));
            if !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
        }
        report(explored.unwrap());
    }

    #[test]
    fn owned_stopped_sender_against_a_sender_and_a_drive() {
        beside_a_stopped_sender(
            scene,
            |s| {
                s.world.advance(1);
                0
            },
            |_| {},
        );
    }

    #[test]
    fn owned_stopped_sender_against_a_sender_and_a_sleep() {
        beside_a_stopped_sender(
            scene,
            |s| {
                s.sleep();
                0
            },
            |s| assert!(s.alarm.get() <= 3, "asleep until {}", s.alarm.get()),
        );
    }

    #[test]
    fn owned_stopped_sender_against_a_sender_and_a_drain() {
        beside_a_stopped_sender(scene, |s| drained(&s.world), |_| {});
    }

    /// The wheel changes hands while a sender is stopped.
    #[test]
    fn owned_stopped_sender_against_a_sender_and_a_hand_over() {
        beside_a_stopped_sender(
            scene,
            |s| {
                let own = s.world.own(0);
                s.world.wheel.disown(&own).unwrap();
                s.world.wheel.own(&own, |_| false).unwrap();
                s.sleep();
                0
            },
            |s| assert!(s.alarm.get() <= 3, "asleep until {}", s.alarm.get()),
        );
    }
}
