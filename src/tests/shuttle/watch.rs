//! What a timer must do that one thread alone uses.

use crate::core::state::Handle;
use crate::core::Error;

/// When a timer is due: the tick that was asked for, or, if the hand came by
/// during the call, at the latest another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deadline {
    pub tick: u64,
    pub latest: u64,
}

/// A timer that one thread uses, which therefore knows when it must fire.
#[derive(Default)]
pub struct Watch {
    pub timer: Handle,
    /// How often a call has begun or ended: odd during one.
    turn: u64,
    due: Option<Deadline>,
    /// The tick that the call under way sets.
    next: Option<u64>,
    /// How often it has ended during this call, by firing or a drain.
    ended: u64,
    /// The driver has it, by what a call said, and has not yet shown it.
    owed: Option<Deadline>,
}

impl Watch {
    pub fn begin(&mut self, next: Option<u64>) {
        self.turn += 1;
        self.next = next;
        self.ended = 0;
    }

    /// The call has returned at `now`, and said whether the timer was pending.
    pub fn end(&mut self, was: Result<bool, Error>, now: u64) {
        self.turn += 1;
        let pending = self.due.is_some();
        match was {
            Ok(was) => {
                assert!(pending || !was, "pending, and was not armed");
                // If it was not pending any more, that has ended first.
                if pending && !was {
                    if self.ended == 0 {
                        assert_eq!(self.owed, None, "lost");
                        self.owed = self.due;
                    } else {
                        self.ended -= 1;
                    }
                }
                let after = self.ended;
                assert!(after <= u64::from(self.next.is_some()), "twice");
                self.due = self.next.filter(|_| after == 0).map(|tick| Deadline {
                    tick,
                    latest: tick.max(now + 1),
                });
            }
            Err(Error::Shutdown) => {
                assert!(self.ended <= u64::from(pending), "refused, and armed");
                self.due = self.due.filter(|_| self.ended == 0);
            }
            Err(e) => panic!("{e:?}"),
        }
    }

    /// It has fired at a tick, or was handed back.
    pub fn ends(&mut self, tick: Option<u64>) {
        let is_due = |due: u64| tick.is_none_or(|tick| due <= tick);
        if let Some(due) = self.owed.take() {
            return assert!(is_due(due.tick), "early");
        }
        let was_due = self.due.is_some_and(|due| is_due(due.tick));
        if self.turn % 2 == 1 {
            self.ended += 1;
            assert!(was_due || self.next.is_some_and(is_due), "early");
        } else {
            assert!(was_due, "early, or twice");
            self.due = None;
        }
    }

    /// Whether it has still to fire, as far as is known.
    pub fn is_open(&self) -> bool {
        self.due.or(self.owed).is_some()
    }

    /// When it must fire, unless a call is under way.
    pub fn promise(&self) -> Option<Promise> {
        let due = self.due.filter(|_| self.turn % 2 == 0)?;
        Some(Promise {
            timer: self.timer,
            turn: self.turn,
            due,
        })
    }
}

/// That a timer will fire, if there is no turn after this.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    pub timer: Handle,
    turn: u64,
    pub due: Deadline,
}
