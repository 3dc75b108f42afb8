//! The calls on timers and keys: convert the time, call the core. In a forked child the
//! core refuses calls on a timer; the others check the process.

use super::frames::{Frame, WAKE};
use super::{at_hand, numbers, Errno, Host, Options};
use crate::core::alarm::Kick;
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::life::Spec;
use crate::core::record::VALUE;
use crate::core::state::{self, Handle, NEVER};
use crate::core::ticks::{decode_period, encode_period, slack_in_kind, DELAY, KEYED};
use crate::core::wheel::{Caller, Wheel};
use crate::core::{Error, Thread};
use crate::sync::Ordering;
use crate::sys::{clock, quietly};
use core::cell::Cell;

/// The number of timers of a batch that are fetched ahead.
const AHEAD: usize = 16;
/// The longest slack of a period, in nanoseconds: 39 hours.
const LONGEST_SLACK: u64 = 1 << 47;

impl Caller for Host {
    #[inline(always)]
    fn wheel<'a>(&'a self, called: &'a Wheel) -> &'a Wheel {
        debug_assert!(core::ptr::eq(called, &self.wheel));
        &self.wheel
    }

    #[inline]
    fn thread(&self) -> Result<Thread, Error> {
        numbers::mine()
    }

    #[inline(always)]
    fn thread_at_hand(&self) -> Thread {
        at_hand::thread()
    }

    #[inline(always)]
    fn identity(&self) -> u64 {
        at_hand::identity()
    }

    fn threads(&self) -> Thread {
        numbers::end()
    }

    #[inline(always)]
    fn first_ns(&self) -> u64 {
        self.manual.shows() + 1
    }

    fn wake_driver(&self) -> Kick {
        match self.options.wake {
            None if self.alarm_now() => Kick::Yes,
            None => Kick::No,
            Some(_) => self.call_to_wake(),
        }
    }

    #[inline(always)]
    fn thread_inside(&self) -> (Thread, bool) {
        Frame::thread_in_sweep(self.id)
    }

    fn wakes_owner(&self) -> bool {
        self.options.wake.is_none()
    }
}

/// A host whose driver is not woken yet: for a call that holds the lock of a key.
struct Unwoken<'a> {
    host: &'a Host,
    is_wanted: Cell<bool>,
}

impl Caller for Unwoken<'_> {
    fn thread(&self) -> Result<Thread, Error> {
        self.host.thread()
    }
    fn thread_at_hand(&self) -> Thread {
        self.host.thread_at_hand()
    }
    fn identity(&self) -> u64 {
        self.host.identity()
    }
    fn threads(&self) -> Thread {
        self.host.threads()
    }
    fn first_ns(&self) -> u64 {
        self.host.first_ns()
    }
    fn wake_driver(&self) -> Kick {
        self.is_wanted.set(true);
        // Another thread does not rely on it.
        Kick::No
    }
    fn thread_inside(&self) -> (Thread, bool) {
        self.host.thread_inside()
    }
    fn wakes_owner(&self) -> bool {
        self.host.wakes_owner()
    }
}

impl Host {
    /// Calls the caller's function that wakes the driver, unless this thread is inside it, or
    /// destroys the wheel. The function may change `errno`.
    #[cold]
    fn call_to_wake(&self) -> Kick {
        if Frame::find(self.id, WAKE, |outer| outer.again.set(true)) {
            return Kick::No;
        }
        // Relaxed: see `destroy`.
        if self.ending.load(Ordering::Relaxed) != 0 {
            return Kick::No;
        }
        let call = |frame: &Frame| {
            frame.timer.set(WAKE);
            let Options { wake, wake_arg, .. } = self.options;
            if let Some(wake) = wake {
                // SAFETY: the function came with its argument.
                unsafe { wake(self.in_c(), wake_arg) };
            }
            frame.again.get()
        };
        match quietly(|| Frame::enter(self.id, false, call)) {
            true => Kick::Again,
            false => Kick::Yes,
        }
    }

    /// The wheel's time. If the clock steps back, it stays at the hand.
    #[inline]
    pub fn now(&self) -> u64 {
        match self.clock {
            Some(c) => self.held(clock::now(c)),
            None => self.manual.shows(),
        }
    }

    #[inline(always)]
    fn held(&self, ns: u64) -> u64 {
        ns.max(self.wheel.hand_ns())
    }

    /// The deadline after a delay, which may be never; so is a sum of 2^63 or more.
    #[inline]
    pub fn after(&self, delay: u64) -> u64 {
        match delay {
            NEVER => NEVER,
            _ => self.now() + delay,
        }
    }

    pub fn setup(&self, mut spec: Spec, mut due: Option<u64>) -> Result<Handle, Errno> {
        if let (Some(ns), 1..) = (&mut due, spec.period) {
            spec.left_out = self.leave_out(ns, &spec);
        }
        Ok(self.wheel.setup(self, spec, due)?)
    }

    /// The calling thread, which owns the wheel, gives it up.
    pub fn disown(&self) -> Result<(), Errno> {
        self.check_owned()?;
        Ok(self.wheel.disown(self)?)
    }

    /// The calling thread takes the wheel, if nobody owns it.
    pub fn own(&self) -> Result<(), Errno> {
        self.check_owned()?;
        numbers::owner()?;
        Ok(self.wheel.own(self, numbers::has_ended)?)
    }

    fn check_owned(&self) -> Result<(), Errno> {
        self.check_ours()?;
        (self.options.owned != 0).then_some(()).ok_or(-libc::EINVAL)
    }

    /// If the first deadline of a timer passed long ago, moves it by whole periods towards
    /// the tick at which it fires: its distance from that must fit into the node. Returns
    /// their number.
    fn leave_out(&self, first: &mut u64, spec: &Spec) -> u64 {
        let ticks = &self.wheel.ticks;
        let hand = self.wheel.gate.hand();
        let tick = ticks.at_or_after(self.first_ns()).max(hand + 1);
        let begin = ticks.ns_or_end(state::kept(tick, hand));
        let behind = begin.saturating_sub(*first);
        if behind < LONGEST_SLACK {
            return 0;
        }
        let period = decode_period(encode_period(spec.period));
        let left_out = behind / period;
        if spec.kind & DELAY == 0 {
            *first += left_out * period;
            return left_out;
        }
        // The driver is to see one that was missed. If that is too long ago for the node, the
        // rhythm begins at the tick, and the driver sees none.
        let seen = left_out.min(1);
        *first += (left_out - seen) * period;
        left_out - if begin - *first > VALUE { 0 } else { seen }
    }

    /// Arms for a deadline, the short way if possible. One that has passed is due at the next
    /// tick.
    #[inline(always)]
    pub fn arm_at(&self, timer: Handle, ns: u64) -> i32 {
        self.wheel.arm_at(self, timer, ns.max(self.first_ns()))
    }

    /// Arms for a delay, from 1 to [`LONGEST`](super::times::LONGEST).
    #[inline(always)]
    pub fn arm_after(&self, timer: Handle, delay: u64) -> i32 {
        if self.clock.is_some() {
            return self.arm_after_now(timer, delay);
        }
        // Not before `first_ns`: a delay is at least 1.
        self.wheel.arm_at(self, timer, self.manual.shows() + delay)
    }

    /// Arms for a delay on a system's clock. Apart from the rest, which keeps no register for
    /// the reading of the clock.
    #[inline(never)]
    fn arm_after_now(&self, timer: Handle, delay: u64) -> i32 {
        self.wheel.arm_at(self, timer, self.now() + delay)
    }

    pub fn arm(&self, timer: Handle, ns: u64, how: How) -> Result<bool, Errno> {
        Ok(self.wheel.arm(self, timer, ns, how)?)
    }

    /// The slack of a period as part of a timer's kind. It is short enough that each
    /// period has a tick of its own, and that each deadline, which may lie inside a
    /// tick, has a tick within its slack. The node keeps a deadline as its distance
    /// from the tick, which fits if the slack is at most [`LONGEST_SLACK`].
    pub fn slack(&self, slack: u64, period: u64) -> u16 {
        let tick_ns = self.wheel.ticks.tick_ns;
        let ticks = slack.min(LONGEST_SLACK).saturating_sub(tick_ns - 1) / tick_ns;
        slack_in_kind(ticks.min((period / tick_ns).saturating_sub(1)))
    }

    /// A period of 0, or that never ends, is none.
    pub fn set_period(&self, timer: Handle, period: u64) -> Result<(), Errno> {
        self.check_mine()?;
        let period = if period == NEVER { 0 } else { period };
        Ok(self.wheel.set_period(timer, period)?)
    }

    /// Cancels, the short way if possible.
    #[inline(always)]
    pub fn delete(&self, timer: Handle) -> i32 {
        self.wheel.cancel_plain(self, timer)
    }

    /// Acts on `n` timers in order; returns the number of successes. The memory of
    /// the next timers is fetched ahead.
    pub fn each(
        &self,
        n: usize,
        timer: impl Fn(usize) -> Handle,
        mut act: impl FnMut(usize, Handle) -> i32,
    ) -> Result<usize, Errno> {
        self.check_mine()?;
        let mut done = 0;
        for i in 0..n.min(AHEAD) {
            self.wheel.prefetch(timer(i));
        }
        for i in 0..n {
            if i + AHEAD < n {
                self.wheel.prefetch(timer(i + AHEAD));
            }
            done += usize::from(act(i, timer(i)) >= 0);
        }
        Ok(done)
    }

    // Keyed timers. A lock or the allocator may change errno.

    /// Runs `act`, which takes the lock of a key, and wakes the driver afterwards if that is
    /// wanted: the function that wakes it may take the lock as well.
    fn with_key<R>(&self, act: impl FnOnce(&Unwoken<'_>) -> R) -> R {
        let unwoken = Unwoken {
            host: self,
            is_wanted: Cell::new(false),
        };
        let result = quietly(|| act(&unwoken));
        if unwoken.is_wanted.get() {
            self.wheel.kick(self);
        }
        result
    }

    pub fn key_set(&self, key: &[u8], func: usize, cookie: u64, ns: u64) -> Result<bool, Errno> {
        self.check_mine()?;
        Ok(self.with_key(|by| self.keys.set(&self.wheel, by, key, func, cookie, ns))?)
    }

    pub fn key_move(&self, key: &[u8], ns: u64) -> Result<bool, Errno> {
        self.check_mine()?;
        self.check_open()?;
        Ok(self.with_key(|by| self.keys.shift(&self.wheel, by, key, ns))?)
    }

    pub fn key_delete(&self, key: &[u8]) -> Result<bool, Errno> {
        self.check_mine()?;
        Ok(quietly(|| self.keys.cancel(&self.wheel, self, key)))
    }

    pub fn key_pending(&self, key: &[u8]) -> Result<bool, Errno> {
        self.check_mine()?;
        Ok(quietly(|| self.keys.pending(&self.wheel, key)))
    }

    /// Shows the pending timers from `index` on, as the caller knows them, until
    /// `see` returns false. Returns the index to continue at.
    pub fn list(&self, mut index: u32, mut see: impl FnMut(&Fired) -> bool) -> Result<u32, Errno> {
        self.check_ours()?;
        while let Some((next, pending)) = self.wheel.next_pending(index) {
            index = next;
            let room = match pending.kind & KEYED {
                0 => see(&pending),
                _ => quietly(|| self.keys.peek(&pending)).is_none_or(|named| see(&named)),
            };
            if !room {
                break;
            }
        }
        Ok(index)
    }
}
