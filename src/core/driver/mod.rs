//! The driver: one thread at a time moves the hand, and fires the timers that are due.

mod collect;
mod drain;
pub(crate) mod event;
mod look;
mod periodic;
mod sleep;
mod sweep;
mod visit;
pub(super) mod words;

use super::alarm::Sleeper;
use super::error::Error;
use super::inbox::Thread;
use super::state::{NEVER, STEP};
use super::ticks::END_OF_TIME;
use super::wheel::Wheel;
use crate::sync::{fence, Opened, Ordering};
pub(crate) use event::{Fired, Sink};
use words::Driver;

/// The right to drive.
pub(crate) struct Drive<'a> {
    wheel: &'a Wheel,
    /// The number of this thread, or 0.
    thread: Thread,
    /// The lock's word before it was taken: even.
    free: u32,
}

impl Wheel {
    /// The right to drive, for the calling thread, which has this number or 0. It is given back
    /// when it is dropped.
    pub fn drive(&self, thread: Thread) -> Result<Drive<'_>, Error> {
        let driving = &self.shared.driving;
        // Relaxed: the exchange decides.
        let seen = driving.load(Ordering::Relaxed);
        let free = seen & !1;
        if self.gate.is_owned() {
            // The owner alone drives.
            if seen != free {
                return Err(Error::Busy);
            }
            driving.store(free.wrapping_add(1), Ordering::Relaxed);
            fence(Ordering::Release);
            return Ok(Drive {
                wheel: self,
                thread,
                free,
            });
        }
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
        Ok(Drive {
            wheel: self,
            thread,
            free,
        })
    }
}

impl<'a> Drive<'a> {
    /// The driver's own words.
    fn words(&self) -> Opened<'a, Driver> {
        // SAFETY: the lock is held, and this is its only holder.
        unsafe { self.wheel.driver.open() }
    }

    /// Gives the lock back, with an even word.
    #[inline(always)]
    fn give_back(&mut self, word: u32) {
        // Release: pairs with the Acquires in `drive` and of the readers.
        self.wheel.shared.driving.store(word, Ordering::Release);
    }

    /// Gives the lock back after nothing has changed. So it does not disturb a thread
    /// that reads meanwhile.
    #[inline]
    pub fn leave(self) {
        let free = self.free;
        core::mem::ManuallyDrop::new(self).give_back(free);
    }

    /// Whether an advance to `now_ns` would find nothing to do.
    #[inline]
    pub fn nothing_due(&self, now_ns: u64) -> bool {
        let wheel = self.wheel;
        // Relaxed: the hand moves under the lock.
        let hand = wheel.shared.hand.load(Ordering::Relaxed);
        // A hand that is half a step behind moves, so that what it announces is that far ahead.
        let next = wheel.alarm.next_visit().min(hand + STEP / 2);
        let d = self.words();
        let is_nothing = now_ns < wheel.ticks.ns_or_end(next)
            && !wheel.inboxes.are_dirty()
            && wheel.is_settled(&d);
        if is_nothing {
            d.asked_ns.set(now_ns);
        }
        is_nothing
    }

    /// When the driver has something to do next, in nanoseconds; [`NEVER`] if nothing is armed
    /// that is ever due. For a caller whom nobody wakes: an arm may have come since.
    pub fn next_ns(&self) -> u64 {
        let wheel = self.wheel;
        // Relaxed: the hand moves under the lock.
        let hand = wheel.shared.hand.load(Ordering::Relaxed);
        match wheel.alarm.next_visit() {
            NEVER => NEVER,
            next => wheel.ticks.ns(next.max(hand).min(hand + STEP)),
        }
    }

    /// Moves the hand to `now_ns`, handing every timer due by then to `sink` in
    /// the order of ticks, until that says stop; the next call resumes there.
    /// True if all is done.
    pub fn advance(&mut self, now_ns: u64, sink: impl Sink) -> bool {
        let (wheel, thread) = (self.wheel, self.thread);
        let now_ns = now_ns.min(END_OF_TIME - 1);
        let target = wheel.ticks.at_or_before(now_ns);
        let d = self.words();
        let next = wheel.alarm.next_visit().min(d.goal.get() + STEP);
        let before_ns = d.asked_ns.replace(now_ns);
        d.is_awaited
            .set(target >= next || target == wheel.ticks.at_or_before(before_ns));
        sweep::sweep(wheel, &d, sink, target, thread)
    }

    /// Finds the time at which the driver must wake; see `sleep.rs`. True if all is done: false if
    /// it was to stop before.
    pub fn sleep(
        &mut self,
        sleeper: Sleeper,
        mut is_enough: impl FnMut() -> bool,
        set: impl FnMut(u64),
    ) -> bool {
        let d = self.words();
        self.wheel.sleep(&d, sleeper, &mut is_enough, set)
    }

    /// Hands back every pending timer; see `drain.rs`.
    pub fn drain(&mut self, take: impl FnMut(&Fired) -> bool) -> bool {
        let thread = self.thread;
        self.wheel.drain(&self.words(), thread, take)
    }
}

impl Drop for Drive<'_> {
    fn drop(&mut self) {
        // Another word: readers look again.
        self.give_back(self.free.wrapping_add(2));
    }
}
