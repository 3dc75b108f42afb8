//! A wheel that one thread owns: others send it messages, and each of them owns the wheel for a
//! while.

use super::{add, at, awake, check, shape, together, DRIVER, TICK_BITS};
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::life::Spec;
use crate::core::state::Handle;
use crate::core::ticks::AUTO;
use crate::core::wheel::Config;
use crate::core::Error;
use crate::core::Thread;
use crate::tests::checker::thread;
use crate::tests::{Collect, Everywhere, Rng, NUMBERS};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

/// Messages of each thread.
const EACH: u64 = 12;

struct Owned {
    wheel: Everywhere,
    /// The time, which the owner moves.
    now: AtomicU64,
    /// Of each message that was sent: its tick. It ends once.
    open: Mutex<Vec<Option<u64>>>,
    /// Timers that every owner uses, and the tick for which each is armed.
    timers: Mutex<Vec<(Handle, Option<u64>)>>,
}

impl Owned {
    fn new(rng: &mut Rng) -> Owned {
        let (levels, slot_bits) = [(1, 1), (2, 1), (1, 2)][rng.below(3) as usize];
        let start = [0, (1 << 35) - 8][rng.below(2) as usize];
        let wheel = Everywhere::new(Config {
            owner: Some(DRIVER.into()),
            ..shape(levels, slot_bits, start)
        })
        .unwrap();
        let own = awake(DRIVER);
        let timer = || (wheel.setup(&own, Spec::default(), None).unwrap(), None);
        let timers = (0..4).map(|_| timer()).collect();
        Owned {
            wheel,
            now: AtomicU64::new(start),
            open: Mutex::default(),
            timers: Mutex::new(timers),
        }
    }

    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn send(&self, number: Thread, rng: &mut Rng) -> Result<(), Error> {
        let tick = self.now() + rng.below(6);
        let mut open = self.open.lock().unwrap();
        let cookie = open.len() as u64;
        open.push(Some(tick));
        drop(open);
        let spec = Spec {
            cookie,
            kind: AUTO,
            ..Spec::default()
        };
        let sent = self.wheel.setup(&awake(number), spec, Some(at(tick)));
        if sent.is_err() {
            self.ends(cookie, None);
        }
        sent.map(|_| ())
    }

    fn ends(&self, cookie: u64, fired: Option<u64>) {
        let due = self.open.lock().unwrap()[cookie as usize].take();
        let due = due.expect("it ends twice");
        assert!(fired.is_none_or(|tick| due <= tick), "early");
    }

    /// A turn of the thread that owns the wheel.
    fn turn(&self, number: Thread, rng: &mut Rng) {
        let own = awake(number);
        let mut timers = self.timers.lock().unwrap();
        for (timer, due) in timers.iter_mut() {
            let tick = self.now() + 1 + rng.below(4);
            let was = match rng.below(4) {
                0 => {
                    let was = self.wheel.cancel(&own, *timer, false);
                    assert_eq!(was, Ok(due.is_some()));
                    *due = None;
                    continue;
                }
                1 => self.wheel.arm_at(&own, *timer, at(tick)),
                2 => {
                    let was = self.wheel.arm(&own, *timer, at(tick), How::Always);
                    was.unwrap().into()
                }
                _ => continue,
            };
            assert_eq!(was == 1, due.is_some());
            *due = Some(tick);
        }
        let to = self.now() + rng.below(3);
        let mut most = [u64::MAX, 1, 2][rng.below(3) as usize];
        let mut drive = self.wheel.drive(number).unwrap();
        self.now.store(to, Ordering::Relaxed);
        let take = |f: &Fired| {
            self.fires(&mut timers, f);
            most -= 1;
            most > 0
        };
        if drive.advance(at(to), Collect(take)) {
            let is_late = |due: &Option<u64>| due.is_some_and(|due| due <= to);
            let late = timers.iter().any(|(_, due)| is_late(due));
            assert!(!late, "late, or lost");
            if rng.below(2) == 0 {
                drive.fall_asleep(|_| ());
            }
        }
    }

    fn fires(&self, timers: &mut [(Handle, Option<u64>)], f: &Fired) {
        let tick = f.deadline_ns >> TICK_BITS;
        match timers.iter_mut().find(|(timer, _)| *timer == f.handle) {
            Some((_, due)) => assert_eq!(due.take(), Some(tick)),
            None => self.ends(f.cookie, Some(tick)),
        }
    }

    /// Takes the wheel when nobody has it.
    fn take(&self, number: Thread) {
        while let Err(e) = self.wheel.own(&awake(number), |_| false) {
            assert_eq!(e, Error::Busy);
            thread::yield_now();
        }
    }

    fn disown(&self, number: Thread) {
        self.wheel.disown(&awake(number)).unwrap();
    }

    fn drain(&self) -> u64 {
        let mut timers = self.timers.lock().unwrap();
        let mut drive = self.wheel.drive(DRIVER).unwrap();
        let handed =
            drive.handed(
                |f| match timers.iter_mut().find(|(timer, _)| *timer == f.handle) {
                    Some((_, due)) => assert!(due.take().is_some()),
                    None => self.ends(f.cookie, None),
                },
            );
        handed.len() as u64
    }
}

/// Each message ends once, whoever owns the wheel when it comes; the owner's timers are not late.
/// A drain in the end hands back what is left, or its sender is refused.
#[test]
fn messages_to_a_wheel_that_changes_hands() {
    check(|rng, tally| {
        let w = Owned::new(rng);
        let body = |n: usize, rng: &mut Rng| {
            let number = n as Thread + 1;
            for _ in 0..EACH {
                if let Err(e) = w.send(number, rng) {
                    return assert_eq!(e, Error::Shutdown);
                }
                if rng.below(6) == 0 && !w.wheel.gate.is_closed() {
                    // Nobody may have it for a while: then this thread gives up.
                    if w.wheel.own(&awake(number), |_| false) == Ok(()) {
                        if !w.wheel.gate.is_closed() {
                            w.turn(number, rng);
                        }
                        w.disown(number);
                    }
                }
            }
        };
        together(rng, body, |rng| {
            for _ in 0..15 {
                w.turn(DRIVER, rng);
                if rng.below(2) == 0 {
                    w.disown(DRIVER);
                    thread::yield_now();
                    w.take(DRIVER);
                }
            }
            w.drain();
        });
        assert_eq!(w.drain(), 0, "left to a second drain");
        let open = w.open.lock().unwrap();
        assert!(open.iter().all(Option::is_none), "lost");
        for (timer, due) in w.timers.lock().unwrap().iter() {
            assert_eq!(*due, None);
            assert_eq!(w.wheel.free(&awake(DRIVER), *timer), Ok(false));
        }
        assert_eq!(w.wheel.live(NUMBERS), 0);
        add(&tally.ended, open.len() as u64);
    });
}
