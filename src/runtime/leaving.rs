//! The polls that have given the driver's lock back and have not returned. A stop waits for
//! those that had begun before it, and for no later one.

use crate::sync::{AtomicU32, Ordering};

/// Two counts, which take turns. A poll belongs to the turn that runs while it has the
/// lock. The next turn begins when no poll of the turn before is left, so each count
/// reaches zero, even if other threads poll all the time. When two more turns have begun,
/// the polls that a stop has met are over.
#[derive(Default)]
pub(crate) struct Leaving {
    turn: AtomicU32,
    polls: [AtomicU32; 2],
}

impl Leaving {
    fn polls(&self, turn: u32) -> &AtomicU32 {
        &self.polls[(turn % 2) as usize]
    }

    /// A poll is about to give the lock back. Returns its turn.
    pub fn begin(&self) -> u32 {
        // Relaxed: written under the lock.
        let mut turn = self.turn.load(Ordering::Relaxed);
        let next = turn.wrapping_add(1);
        // Acquire: passes on what those polls did; pairs with the Release in `end`.
        if self.polls(next).load(Ordering::Acquire) == 0 {
            // Release: pairs with the Acquire in `wait`.
            self.turn.store(next, Ordering::Release);
            turn = next;
        }
        // Relaxed: a stop that finds the lock free sees it.
        self.polls(turn).fetch_add(1, Ordering::Relaxed);
        turn
    }

    /// The last use of the wheel by a poll of that turn.
    pub fn end(&self, turn: u32) {
        // Release: pairs with the Acquires in `begin` and `wait`.
        self.polls(turn).fetch_sub(1, Ordering::Release);
    }

    /// Waits until the polls have ended whose locks this thread has seen free.
    pub fn wait(&self, nap: impl Fn()) {
        // Relaxed: not before the turns of those polls.
        let first = self.turn.load(Ordering::Relaxed);
        // Acquire, both: pair with the Releases above.
        let some = |polls: &AtomicU32| polls.load(Ordering::Acquire) != 0;
        while self.polls.iter().any(some)
            && self.turn.load(Ordering::Acquire).wrapping_sub(first) < 2
        {
            nap();
        }
    }
}
