//! Driving: advance, poll and drain, and where fired timers go.

use super::frames::{Frame, ANY};
use super::host::LATENESS;
use super::times::NEVER;
use super::{at_hand, times, Errno, Host};
use crate::core::alarm::Sleeper;
use crate::core::driver::{Drive, Fired, Sink};
use crate::core::stats::Tally;
use crate::core::ticks::KEYED;
use crate::sync::{fence, Ordering};
use crate::sys::timerfd::Alarm;
use crate::sys::{clock, quietly};

// `drive`: there is no tick thread; there is one, or a thread starts it; a thread ends it.
pub(super) const IDLE: u32 = 0;
pub(super) const DRIVEN: u32 = 1;
pub(super) const STOPPING: u32 = 2;

/// How the driver sleeps until the next visit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sleep {
    /// On the alarm, which is set.
    Alarm,
    /// Without the alarm: the system has refused to set it.
    Nap,
    /// Not at all: the next visit is due. The alarm is not set, because a thread that it
    /// wakes now would find the lock taken.
    Not,
}

/// The result of a call that drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Driven {
    /// All due timers have fired.
    pub done: bool,
    /// When the driver wants to be called next; [`NEVER`](super::times::NEVER) if nothing is
    /// armed.
    pub next_ns: u64,
}

/// Bounds for one call that drives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    pub(crate) items: u64,
    pub(crate) ns: u64,
}

impl Bounds {
    /// The bounds of a call that begins now.
    fn begin(self) -> Until {
        let end = match self.ns {
            0 => u64::MAX,
            ns => clock::now(libc::CLOCK_MONOTONIC).saturating_add(ns),
        };
        Until {
            items: self.items,
            end,
        }
    }
}

/// Bounds of a call that has begun: the number of items, or 0, and when the time is up.
#[derive(Clone, Copy)]
pub(super) struct Until {
    items: u64,
    end: u64,
}

impl Until {
    pub const NEVER: Until = Until {
        items: 0,
        end: u64::MAX,
    };

    #[inline]
    fn is_over(end: u64) -> bool {
        end != u64::MAX && clock::now(libc::CLOCK_MONOTONIC) >= end
    }
}

/// A function that gets each event of a call that drives. It returns false if it has no
/// room for another.
pub(crate) type Room<'e> = Option<&'e mut dyn FnMut(&Fired) -> bool>;

impl Host {
    /// Fires the timers that are due by `now`. A timer without a callback goes to
    /// `event`, which says whether there is room for one more. Without `event` it
    /// is dropped and counted. True if all due timers have fired.
    #[inline(never)]
    pub(super) fn sweep(
        &self,
        drive: &mut Drive<'_>,
        now: u64,
        bounds: Until,
        event: Room<'_>,
    ) -> bool {
        Frame::enter(self.id, true, |frame| {
            drive.advance(
                now,
                Firing {
                    host: self,
                    frame,
                    now,
                    event,
                    last: (u64::MAX, &self.lateness[LATENESS - 1]),
                    // Relaxed: the tick thread's own, or under the lock.
                    bounded: bounds.items != 0
                        || bounds.end != u64::MAX
                        || self.drive.load(Ordering::Relaxed) != IDLE,
                    // 0, for no limit, wraps.
                    items: bounds.items,
                    end: bounds.end,
                },
            )
        })
    }

    /// The tick thread is to end.
    pub(super) fn is_stopping(&self) -> bool {
        // Relaxed: `live` says when it is seen.
        self.drive.load(Ordering::Relaxed) == STOPPING
    }

    /// The driver's lock.
    #[inline]
    pub(super) fn right_to_drive(&self) -> Result<Drive<'_>, Errno> {
        Ok(self.wheel.drive(at_hand::thread())?)
    }

    /// Whether a thread that does not drive may be inside one of the caller's functions.
    #[inline]
    fn calls_outside(&self) -> bool {
        self.pool.is_some() || self.options.wake.is_some()
    }

    /// The driver's lock, for a call that is right for the wheel's clock. Fails in a
    /// callback, concurrently with another driver, and while a tick thread is being started: either
    /// this call sees the start, or `start` sees that the lock is taken.
    #[inline]
    fn take_drive(&self, is_right: bool) -> Result<Drive<'_>, Errno> {
        self.check_mine()?;
        if !is_right {
            return Err(-libc::EINVAL);
        }
        // Relaxed: an early refusal; the second look decides. In a callback that the
        // driver runs itself, the lock is taken.
        if self.drive.load(Ordering::Relaxed) != IDLE
            || (self.calls_outside() && self.is_inside(ANY))
        {
            return Err(-libc::EBUSY);
        }
        let drive = self.right_to_drive()?;
        // Relaxed: `start` has the lock after it has set this.
        if self.drive.load(Ordering::Relaxed) != IDLE {
            return Err(-libc::EBUSY);
        }
        Ok(drive)
    }

    /// Checks `now`, and drives to it, or to the caller's time if that is later. A call in a
    /// callback, or concurrently with another driver, fails and does not move the clock.
    #[inline(always)]
    pub fn advance(&self, now: u64, bounds: Bounds, event: Room<'_>) -> Result<Driven, Errno> {
        let mut drive = self.take_drive(self.clock.is_none())?;
        let now = self.manual.raise(times::clock(now)?);
        if self.options.wake.is_none() && drive.nothing_due(now) {
            let next_ns = drive.next_ns();
            drive.leave();
            return Ok(Driven {
                done: true,
                next_ns,
            });
        }
        let bounds = bounds.begin();
        let done = self.sweep(&mut drive, now, bounds, event);
        Ok(self.end_drive(&mut drive, done, bounds).0)
    }

    /// The end of a call that drives, the same in each way to drive: finds the next visit, and
    /// announces it. Returns how to sleep until then.
    #[inline(always)]
    fn end_drive(&self, drive: &mut Drive<'_>, done: bool, bounds: Until) -> (Driven, Sleep) {
        let (driven, sleep) = match (done, self.sleeper()) {
            (false, _) => (None, Sleep::Not),
            (true, None) => (Some(drive.next_ns()), Sleep::Not),
            (true, Some(sleeper)) => self.sleep(drive, sleeper, bounds),
        };
        let next_ns = driven.unwrap_or_else(|| self.now());
        let done = driven.is_some();
        (Driven { done, next_ns }, sleep)
    }

    /// The sleeper that waits for the next visit, if a thread can wake that sleeper.
    #[inline]
    fn sleeper(&self) -> Option<Sleeper> {
        match self.options.wake {
            Some(_) => Some(Sleeper::Loop),
            None => self.alarm().map(|_| Sleeper::System),
        }
    }

    /// Fires the timers that are due on the wheel's clock, and sets the alarm for
    /// the next one.
    ///
    /// The alarm may wake another thread before this one has given the lock back. The other
    /// thread is then refused, but has used up its wake-up. So it sets `refused` and tries
    /// again. This thread finds `refused` set, and sets the alarm again.
    pub fn poll(&self, bounds: Bounds, event: Room<'_>) -> Result<Driven, Errno> {
        let is_right = self.clock.is_some();
        let mut drive = match self.take_drive(is_right) {
            Err(e) if e == -libc::EBUSY => {
                // Release: pairs with the exchange below.
                self.refused.store(1, Ordering::Release);
                fence(Ordering::SeqCst);
                self.take_drive(is_right)?
            }
            taken => taken?,
        };
        let bounds = bounds.begin();
        let done = self.sweep(&mut drive, self.now(), bounds, event);
        let mut driven;
        loop {
            let sleep;
            (driven, sleep) = self.end_drive(&mut drive, done, bounds);
            drop(drive);
            if sleep == Sleep::Not {
                self.alarm_now();
            }
            fence(Ordering::SeqCst);
            // Relaxed: fenced.
            if self.refused.load(Ordering::Relaxed) == 0 {
                break;
            }
            // A thread that has the lock by now comes here itself.
            let Ok(taken) = self.take_drive(is_right) else {
                break;
            };
            drive = taken;
            // Acquire: what the refused thread knew; pairs with the Release above.
            self.refused.swap(0, Ordering::Acquire);
        }
        Ok(driven)
    }

    /// Sets the alarm for the next visit, unless that is due. Returns the time of that visit, or
    /// nothing if the call was to stop before.
    pub(super) fn sleep(
        &self,
        drive: &mut Drive<'_>,
        sleeper: Sleeper,
        bounds: Until,
    ) -> (Option<u64>, Sleep) {
        let (now, mut sleep, mut next_ns) = (self.now(), Sleep::Alarm, NEVER);
        let is_enough = || Until::is_over(bounds.end);
        let done = drive.sleep(sleeper, is_enough, |ns| {
            next_ns = ns;
            sleep = match self.alarm() {
                _ if ns <= now => Sleep::Not,
                Some(alarm) if alarm.set(ns).is_err() => Sleep::Nap,
                _ => Sleep::Alarm,
            };
        });
        if drive.next_ns() == NEVER {
            // The system's timer goes off all the same, with nothing to do.
            next_ns = NEVER;
        }
        (done.then(|| next_ns.max(self.wheel.hand_ns())), sleep)
    }

    /// Wakes the thread that sleeps on the alarm; false if the system refuses. Safe
    /// concurrently with any other setting, because none is earlier.
    pub(super) fn alarm_now(&self) -> bool {
        self.alarm().is_none_or(|a| a.set(0).is_ok())
    }

    /// The alarm, once `descriptor` has made it. None in a child, which shares the
    /// descriptor with its parent.
    pub(super) fn alarm(&self) -> Option<Alarm> {
        // Acquire: pairs with the exchange in `descriptor`.
        let fd = self.fd.load(Ordering::Acquire);
        let clock = self.clock?;
        (fd >= 0 && self.is_ours()).then_some(Alarm { fd, clock })
    }

    /// The alarm's descriptor. The first call makes it.
    pub fn descriptor(&self) -> Result<i32, Errno> {
        self.check_mine()?;
        if self.options.wake.is_some() {
            return Err(-libc::EINVAL);
        }
        let clock = self.clock.ok_or(-libc::EINVAL)?;
        if let Some(alarm) = self.alarm() {
            return Ok(alarm.fd);
        }
        let alarm = Alarm::new(clock)?;
        // A first poll finds the timers that are armed already.
        let made = alarm.set(0).map(|()| {
            self.fd
                .compare_exchange(-1, alarm.fd, Ordering::Release, Ordering::Acquire)
                .map_or_else(|first| first, |_| alarm.fd)
        });
        if made != Ok(alarm.fd) {
            alarm.close();
        }
        made
    }

    /// When the next timer fires, if any does; perhaps too early, never late. Disturbs
    /// no driver.
    pub fn next_expiry(&self) -> Result<Option<u64>, Errno> {
        self.check_ours()?;
        Ok(self.wheel.next_expiry())
    }

    /// Hands back every armed timer. From now on the wheel refuses arms.
    pub fn drain(&self, mut take: impl FnMut(&Fired) -> bool) -> Result<bool, Errno> {
        self.check_mine()?;
        if self.is_inside(ANY) {
            return Err(-libc::EDEADLK);
        }
        let mut drive = self.take_drive(true)?;
        // `take` may call a waker.
        Ok(Frame::enter(self.id, false, |_| {
            drive.drain(|fired| match fired.kind & KEYED {
                0 => take(fired),
                _ => self.fetch(fired).is_none_or(|named| take(&named)),
            })
        }))
    }

    /// A keyed timer that has fired or was drained, as the caller knows it: it has no
    /// handle, and its key is free from now on. None without a key: the caller armed it
    /// by a guessed handle. Not inlined, so that a timer without a key does not pay for
    /// it.
    #[inline(never)]
    fn fetch(&self, fired: &Fired) -> Option<Fired> {
        quietly(|| self.keys.release(fired))
    }
}

/// The receiver of the timers that a sweep fires.
struct Firing<'h, 'e> {
    host: &'h Host,
    frame: &'h Frame,
    /// The time of the sweep.
    now: u64,
    event: Room<'e>,
    /// The deadline of the last one, and the count of its lateness.
    last: (u64, &'h Tally),
    /// It ends when the tick thread is to stop, or has bounds: the number of items
    /// that are left, and when the time is up.
    bounded: bool,
    items: u64,
    end: u64,
}

impl Sink for Firing<'_, '_> {
    #[inline(always)]
    fn fire(&mut self, fired: &Fired) -> bool {
        self.count(fired);
        let room = if fired.kind & KEYED == 0 {
            self.hand_over(fired)
        } else {
            self.hand_over_keyed(fired)
        };
        room && !(self.bounded && self.is_used_up())
    }

    #[inline(always)]
    fn call(&mut self, fired: &Fired) -> bool {
        self.count(fired);
        self.host.show(self.frame, fired.handle, fired);
        !(self.bounded && self.is_used_up())
    }

    fn now_ns(&self) -> u64 {
        self.now
    }

    fn is_enough(&mut self) -> bool {
        Until::is_over(self.end)
    }

    fn settles(&self) -> bool {
        self.host.sleeper().is_none()
    }

    fn wake(&self) {
        self.host.wake();
    }
}

impl Firing<'_, '_> {
    /// Counts how late it is.
    #[inline(always)]
    fn count(&mut self, fired: &Fired) {
        if fired.deadline_ns != self.last.0 {
            let late = u64::BITS - self.now.saturating_sub(fired.deadline_ns).leading_zeros();
            let count = &self.host.lateness[(late as usize).min(LATENESS - 1)];
            self.last = (fired.deadline_ns, count);
        }
        self.last.1.bump(1);
    }

    /// Counts one item.
    #[inline(never)]
    fn is_used_up(&mut self) -> bool {
        self.items = self.items.wrapping_sub(1);
        self.items == 0 || self.host.is_stopping() || self.is_enough()
    }

    #[inline(always)]
    fn hand_over(&mut self, fired: &Fired) -> bool {
        let host = self.host;
        if fired.func != 0 {
            host.dispatch(self.frame, fired);
            true
        } else if let Some(event) = &mut self.event {
            event(fired)
        } else {
            host.unclaimed.bump(1);
            true
        }
    }

    #[inline(never)]
    fn hand_over_keyed(&mut self, fired: &Fired) -> bool {
        let host = self.host;
        match host.fetch(fired) {
            // It keeps its handle until the callback sees it.
            Some(named) if fired.func != 0 => self.hand_over(&Fired {
                handle: fired.handle,
                ..named
            }),
            Some(named) => self.hand_over(&named),
            None => {
                // Armed by somebody who guessed its handle.
                if fired.func != 0 && host.pool.is_some() {
                    host.finish(fired.handle);
                }
                true
            }
        }
    }
}
