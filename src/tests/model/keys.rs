//! Timers by name: sets, moves and deletions of a key against its firing.

use super::{after, duel, report, with_two_others, World};
use crate::core::Thread;
use crate::runtime::keys::Keys;
use crate::sync::{AtomicU64, Ordering};
use crate::tests::checker::{at, func};
use crate::tests::NUMBERS;

/// A keyed timer in a world, and what came of the cookies that were set.
struct Keyed {
    world: World,
    keys: Keys,
    ended: AtomicU64,
}

impl Keyed {
    /// With a key that is due at tick 1, and has cookie 1.
    fn new() -> Keyed {
        let fresh = Keyed {
            world: World::new(2, 1, 0),
            keys: Keys::new(0),
            ended: AtomicU64::new(0),
        };
        after(fresh, |k| assert!(!k.set(0, 0, 1, 1)))
    }

    fn set(&self, n: Thread, number: usize, cookie: u64, tick: u64) -> bool {
        let (func, w, due) = (func(number), &self.world, at(tick));
        let set = self.keys.set(&w.wheel, &w.own(n), b"k", func, cookie, due);
        set.unwrap()
    }

    fn shift(&self, n: Thread, tick: u64) -> bool {
        let w = &self.world;
        let moved = self.keys.shift(&w.wheel, &w.own(n), b"k", at(tick));
        moved.unwrap()
    }

    fn delete(&self, n: Thread) -> bool {
        let w = &self.world;
        self.keys.cancel(&w.wheel, &w.own(n), b"k")
    }

    fn pending(&self) -> bool {
        self.keys.pending(&self.world.wheel, b"k")
    }

    fn advance(&self, target: u64) {
        let mut drive = self.world.wheel.drive(0).unwrap();
        drive.told(at(target), |f| {
            let fired = self.keys.release(f).expect("each has its entry");
            let bit = 8 * fired.cookie;
            let before = self.ended.fetch_add(1 << bit, Ordering::Relaxed);
            assert_eq!(before >> bit & 0xff, 0, "fired twice");
        });
    }

    /// Fires the rest; `fired` sets have ended with that.
    fn end(&self, fired: u32) {
        self.advance(9);
        assert_eq!(self.ended.load(Ordering::Relaxed).count_ones(), fired);
        assert!(!self.pending());
        assert!(self.keys.is_empty());
        assert_eq!(self.world.wheel.live(NUMBERS), 0);
    }
}

/// A key is set again while its timer fires, by moving that timer or, with
/// another function, in its place: each set ends once.
#[test]
fn set_of_a_key_against_fire() {
    for func in [0, 1] {
        for tick in [1, 3] {
            duel(
                Keyed::new,
                move |k| k.set(0, func, 2, tick),
                |k| k.advance(1),
                |k, replaced, ()| k.end(2 - u32::from(replaced)),
            );
        }
    }
}

/// A key is deleted, or moved, while its timer fires.
#[test]
fn delete_and_move_of_a_key_against_fire() {
    duel(
        Keyed::new,
        |k| k.delete(0),
        |k| k.advance(1),
        |k, deleted, ()| k.end(1 - u32::from(deleted)),
    );
    duel(
        Keyed::new,
        |k| k.shift(0, 3),
        |k| k.advance(1),
        |k, moved, ()| {
            assert_eq!(k.pending(), moved);
            k.end(1);
        },
    );
}

/// One thread sets a key, another deletes it, and the driver fires it. At two
/// preemptions.
#[test]
fn set_and_delete_of_a_key_against_fire() {
    report(with_two_others(
        Some(2),
        Keyed::new,
        |k| k.set(0, 1, 2, 2),
        |k| k.delete(1),
        |k| k.advance(2),
        |k, replaced, deleted, ()| k.end(2 - u32::from(replaced) - u32::from(deleted)),
    ));
}
