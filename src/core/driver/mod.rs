//! The driver: one thread at a time moves the hand. At each tick that a sweep comes to,
//! the hand *enters* one slot on every level whose digit has changed, from the top down.

mod clean;
mod drain;
mod leap;
mod query;
mod quiet;
mod rescue;
mod scan;
mod sleep;
mod visit;
pub(super) mod words;

use super::error::Error;
use super::memory::Memory;
use super::node::{Fire, Hot, Link, AUTO};
use super::shard::Producer;
use super::state::{Handle, StateWord, LEAP, NEVER};
use super::ticks::END_OF_TIME;
use super::wheel::{Wheel, NOBODY};
use crate::sync::{fence, fence_after_rmw, Opened, Ordering};
use words::Driver;

/// A timer that has fired, or was handed back by a drain. Begins like the event of the C
/// interface (`capi/event.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Fired {
    pub handle: Handle,
    pub cookie: u64,
    /// The time of its tick; for a periodic timer the exact time.
    pub deadline_ns: u64,
    /// Periods that were skipped; `u32::MAX` stands for that number or more.
    pub missed: u32,
    /// [`DRAINED`], [`LISTED`]; 0 of a timer that has fired.
    pub flags: u32,
    pub func: usize,
    /// AUTO, BURST, DELAY, KEYED.
    pub kind: u16,
}

/// A drain has handed the timer back.
pub(crate) const DRAINED: u32 = 1 << 8;
/// The timer is pending.
pub(crate) const LISTED: u32 = 1 << 9;

impl<M: Memory> Wheel<M> {
    /// The event of an armed timer, without the rare record.
    #[inline(always)]
    pub(super) fn fired<const PLAIN: bool>(
        &self,
        index: u32,
        hot: &Hot,
        fire: &Fire,
        state: StateWord,
        deadline_ns: u64,
    ) -> Fired {
        // Relaxed, all: published by the exchange that visit.read or drain.read
        // has acquired. If the node goes to another life meanwhile, the exchange
        // that ends this one fails.
        let high = Link(hot.link.load(Ordering::Relaxed)).high();
        Fired {
            handle: if PLAIN {
                state.plain_handle(index, high)
            } else {
                state.handle(index, high)
            },
            func: fire.func.load(Ordering::Relaxed),
            cookie: fire.cookie.load(Ordering::Relaxed),
            deadline_ns,
            missed: 0,
            flags: 0,
            kind: if !PLAIN && state.is_auto() { AUTO } else { 0 },
        }
    }
}

/// The receiver of fired timers.
pub(crate) trait Sink {
    /// Takes one; false if the sweep is to stop after it. In a pooled wheel one
    /// with a callback is RUNNING until [`Wheel::finish`] is called for it.
    fn fire(&mut self, fired: &Fired) -> bool;

    /// The same for a plain timer whose callback the driver runs.
    #[inline(always)]
    fn call(&mut self, fired: &Fired) -> bool {
        self.fire(fired)
    }

    /// The clock's time, which may be later than its tick; 0 if it is not known.
    fn now_ns(&self) -> u64 {
        0
    }

    /// Called now and then while no timer fires; true if the sweep is to stop.
    fn is_enough(&mut self) -> bool {
        false
    }

    /// Wakes the threads that wait for the end of a callback.
    fn wake(&self);
}

/// The right to drive.
pub(crate) struct Drive<'a, M: Memory> {
    wheel: &'a Wheel<M>,
    /// The lock's word before it was taken: even.
    free: u32,
}

impl<M: Memory> Drive<'_, M> {
    /// The driver's own state.
    fn state(&mut self) -> Opened<'_, Driver> {
        // SAFETY: the lock is held, and this is its only holder.
        unsafe { self.wheel.driver.open() }
    }

    /// The lock's word after it is given back.
    #[inline(always)]
    fn after(&self, has_swept: bool) -> u32 {
        self.free.wrapping_add(2 * u32::from(has_swept))
    }

    /// Gives the lock back, with an even word.
    #[inline(always)]
    fn give_back(&mut self, word: u32) {
        // Release: pairs with the Acquires in `drive` and of the readers.
        self.wheel.shared.driving.store(word, Ordering::Release);
    }
}

impl<M: Memory> Drop for Drive<'_, M> {
    fn drop(&mut self) {
        // Another word: readers look again.
        self.give_back(self.after(true));
    }
}

impl<M: Memory> Wheel<M> {
    pub fn drive(&self) -> Result<Drive<'_, M>, Error> {
        let driving = &self.shared.driving;
        // Relaxed: the exchange decides.
        let free = driving.load(Ordering::Relaxed) & !1;
        // Acquire: pairs with the Release in `Drive::give_back`.
        driving
            .compare_exchange(
                free,
                free.wrapping_add(1),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .map_err(|_| Error::Busy)?;
        // Before all writes of the driver: pairs with the fence of a reader that
        // checks `driving` afterwards.
        fence(Ordering::Release);
        Ok(Drive { wheel: self, free })
    }
}

impl<'a, M: Memory> Drive<'a, M> {
    /// Gives the lock back after nothing has changed. So it does not disturb a thread
    /// that reads meanwhile.
    #[inline]
    pub fn leave(self) {
        let free = self.free;
        std::mem::ManuallyDrop::new(self).give_back(free);
    }

    /// Moves the hand to `now_ns`, handing every timer due by then to `sink` in
    /// the order of ticks, until that says stop; the next call resumes there.
    /// True if all is done.
    pub fn advance(&mut self, now_ns: u64, sink: impl Sink) -> bool {
        let target = self.wheel.ticks.at_or_before(now_ns.min(END_OF_TIME - 1));
        let wheel = self.wheel;
        let mut state = self.state();
        let mut sweep = Sweep::new(wheel, &mut state, sink, target);
        sweep.run();
        !sweep.stop
    }
}

struct Sweep<'a, M: Memory, S> {
    wheel: &'a Wheel<M>,
    own: Producer<'a>,
    d: &'a mut Driver,
    sink: S,
    /// Where the caller wants the hand.
    target: u64,
    /// When the tick of the visits begins.
    now_ns: u64,
    /// The sweep ends here.
    stop: bool,
}

impl<'a, M: Memory, S: Sink> Sweep<'a, M, S> {
    fn new(wheel: &'a Wheel<M>, d: &'a mut Driver, sink: S, target: u64) -> Self {
        Sweep {
            wheel,
            // It is the driver's under the lock.
            own: wheel.driver_own(),
            d,
            sink,
            target,
            now_ns: 0,
            stop: false,
        }
    }

    fn run(&mut self) {
        let shared = &self.wheel.shared;
        shared.count.sweeps.bump(1);
        // An interrupted sweep has announced its goal, and is finished first.
        let target = self.target.max(self.d.goal);
        self.maintain();
        loop {
            // At or after the last goal, which is at most as far from the hand.
            let goal = target.min(self.d.hand + LEAP);
            debug_assert!(goal >= self.d.goal);
            // sweep.begin. Release: pairs with `is_quiet`.
            shared.next_visit.store(NEVER, Ordering::Release);
            if goal < target && self.leap(target) {
                continue;
            }
            self.announce(goal);
            // At each step: sweep.begin overwrites the value that an arm has lowered
            // during the step before.
            self.empty_urgent();
            let next = self.sweep_to(goal);
            // sweep.end. AcqRel: pairs with arm.wake.
            shared.next_visit.fetch_min(next, Ordering::AcqRel);
            // Also the fence of the last visit.end.
            fence_after_rmw();
            self.stop |= !self.wake_waiters();
            if self.stop {
                break;
            }
            if goal >= target {
                // A clean-up continues at once. Without memory the hand goes through every tick.
                if self.is_maintenance_due() {
                    let again = if self.is_cleaning_due() {
                        goal
                    } else {
                        goal + 1
                    };
                    shared.next_visit.fetch_min(again, Ordering::AcqRel);
                }
                break;
            }
        }
        // Relaxed: handed on by the lock.
        shared.stopped.store(self.stop.into(), Ordering::Relaxed);
    }

    fn announce(&mut self, goal: u64) {
        let shared = &self.wheel.shared;
        self.wheel.gate.announce(goal, &self.wheel.ticks);
        if goal > self.d.goal {
            self.d.suspended = false;
        }
        self.d.goal = goal;
        if self.d.suspended {
            shared.alarm.store(0, Ordering::Relaxed);
        } else if shared.floor.load(Ordering::Relaxed) != 0 {
            // The driver is awake, and promises may be relied upon. Release:
            // the announcement comes before it, see `clean.rs`. If the floor is 0, so is
            // the alarm.
            shared.floor.store(0, Ordering::Release);
            shared.alarm.store(0, Ordering::Relaxed);
        }
    }

    fn move_to(&mut self, tick: u64) {
        self.d.hand = tick;
        // Relaxed: read between two loads of `driving`, or as a bound, which may be
        // old.
        self.wheel.shared.hand.store(tick, Ordering::Relaxed);
    }

    /// Visits everything due up to the goal; the tick of the next visit.
    fn sweep_to(&mut self, goal: u64) -> u64 {
        while !self.stop {
            let from = self.d.hand;
            let mut next = self.wheel.scan(from);
            let rescue = self.is_rescuing();
            if rescue {
                next = next.min(self.earliest_node());
            }
            if next > goal {
                self.move_to(goal);
                return next;
            }
            self.move_to(next);
            if next != from {
                self.enter(from, next);
            }
            if rescue && !self.stop {
                self.look_at_all(next);
            }
        }
        self.d.hand
    }

    /// Wakes the threads that wait for a finished callback: after the fence of visit.end.
    /// False if that callback has forked and this is the child, which fires no more.
    #[inline(always)]
    fn wake_waiters(&self) -> bool {
        // Relaxed: fenced, see above.
        self.wheel.callback.waiters.load(Ordering::Relaxed) == NOBODY || self.wake()
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) -> bool {
        self.sink.wake();
        self.wheel.gate.id() != 0
    }

    /// Work for which promises are suspended, before a new goal is announced.
    fn maintain(&mut self) {
        // What the last sweep has left over is finished first, also of the tick
        // that is its goal: a clean-up drops what is due by then. Relaxed: handed
        // on by the lock.
        let stopped = self.wheel.shared.stopped.load(Ordering::Relaxed) != 0;
        if stopped || !self.is_maintenance_due() {
            return;
        }
        self.suspend();
        self.clean_up();
        self.promise_all();
    }

    fn is_maintenance_due(&self) -> bool {
        self.is_cleaning_due() || self.is_rescuing()
    }

    fn is_cleaning_due(&self) -> bool {
        // Acquire: pairs with the Release of the request.
        self.wheel.shared.clean.load(Ordering::Acquire) != 0
    }

    /// Step drive.suspend: from here on no arm relies on a promise; one that has
    /// relied on one before is seen in its state word.
    fn suspend(&mut self) {
        self.d.suspended = true;
        // Relaxed and a fence: pairs with arm.rely.
        self.wheel.shared.floor.store(NEVER, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}
