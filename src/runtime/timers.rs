//! The calls on timers and keys: is this the wheel's process, which tick is meant,
//! then the core's call.

use super::keys::{Target, Timers};
use super::{local, number, Errno, Host};
use crate::slab::KEYED;
use crate::sweep::{Fired, AHEAD};
use crate::sync::Ordering;
use crate::sys::clock::{self, Clock};
use crate::sys::quietly;
use crate::wheel::{Caller, Due, Error, Handle, How, Spec, Token};

/// How often a free timer is looked for where fewer live than may.
const LOOKS: u32 = 100;

/// A point or a span of time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    After(u64),
    At(u64),
}

impl Caller for Host {
    #[inline]
    fn token(&self) -> Result<Token, Error> {
        local::token(self)
    }

    fn wake_driver(&self) {
        self.alarm_now();
    }
}

impl Timers for Host {
    type When = When;
    type Error = Errno;

    fn make(&self, spec: Spec, when: When) -> Result<Handle, Errno> {
        self.setup(spec, Some(when))
    }

    fn shift(&self, timer: Handle, when: When) -> Result<bool, Errno> {
        match number(self.arm(timer, when, How::Pending)) {
            n if n < 0 => Err(n),
            n => Ok(n == 1),
        }
    }

    fn end(&self, timer: Handle) -> bool {
        number(self.cancel(timer, 0)) == 1
    }

    fn is_pending(&self, timer: Handle) -> bool {
        self.deadline(timer).is_ok_and(|d| d.is_some())
    }
}

impl Host {
    /// The wheel's time. Steps back are held at what the hand has seen.
    #[inline]
    pub fn now(&self) -> u64 {
        match self.clock.id() {
            Some(c) => self.held(clock::now(c)),
            // Acquire: pairs with the Release in `advance`.
            None => self.manual_ns.load(Ordering::Acquire),
        }
    }

    /// The time that delays are counted from: not before `now`.
    #[inline]
    pub fn arming_now(&self) -> u64 {
        match &self.clock {
            Clock::System(c) => self.held(clock::now(*c)),
            Clock::Coarse(counter) => self.held(local::coarse_now(counter)),
            Clock::Manual => self.now(),
        }
    }

    #[inline(always)]
    pub(super) fn held(&self, ns: u64) -> u64 {
        // Relaxed: only a bound.
        let hand = self.wheel.current.load(Ordering::Relaxed);
        ns.max(self.wheel.scale.ns(hand))
    }

    /// The deadline that `when` asks for: rounded up to a tick, never early;
    /// out of range is never.
    #[inline]
    pub(super) fn due(&self, when: When) -> Due {
        let ns = match when {
            When::At(ns) | When::After(ns) if ns == u64::MAX => return Due::NEVER,
            When::At(ns) => ns,
            When::After(delay) => match self.arming_now().checked_add(delay) {
                None | Some(u64::MAX) => return Due::NEVER,
                Some(ns) => ns,
            },
        };
        Due {
            tick: self.tick(ns),
            ns,
        }
    }

    /// The tick in which what is due at `ns` fires: rounded up, and one that the
    /// caller's time has not come to.
    #[inline(always)]
    fn tick(&self, ns: u64) -> u64 {
        // Relaxed: of an advance beside this call either may come first.
        let first = self.first.load(Ordering::Relaxed);
        self.wheel.scale.tick_at_or_after(ns).max(first)
    }

    pub fn setup(&self, spec: Spec, when: Option<When>) -> Result<Handle, Errno> {
        self.check()?;
        let due = when.map(|w| self.due(w));
        match self.wheel.setup(self, spec, due) {
            Err(Error::Limit) => self.setup_again(spec, due),
            made => Ok(made?),
        }
    }

    /// At the limit a timer that was freed may be on its way from the list of one
    /// thread to that of another. There it is found by looking again, unless the
    /// thread that has it is stopped; that is not waited for.
    #[cold]
    fn setup_again(&self, spec: Spec, due: Option<Due>) -> Result<Handle, Errno> {
        for _ in 0..LOOKS {
            if self.wheel.live() >= self.limit {
                break;
            }
            match self.wheel.setup(self, spec, due) {
                Err(Error::Limit) => std::hint::spin_loop(),
                made => return Ok(made?),
            }
        }
        Err(-libc::ENOSPC)
    }

    /// Arms to a deadline, the short way if that will do.
    #[inline(always)]
    pub fn arm_at(&self, timer: Handle, ns: u64) -> i32 {
        let due = Due {
            tick: self.tick(ns),
            ns,
        };
        if !self.is_ours() || ns == u64::MAX {
            return self.arm_the_long_way(timer, ns);
        }
        self.wheel.rearm(
            timer,
            due,
            |full| if full { self.count_moves() } else { 1 },
            || self.count_arm(),
            |was| self.arm_raced(timer, ns, was),
            || self.arm_the_long_way(timer, ns),
        )
    }

    #[inline(never)]
    pub(super) fn count_arm(&self) -> i32 {
        self.wheel.count_arm(self);
        0
    }

    #[inline(never)]
    pub(super) fn count_moves(&self) -> i32 {
        self.wheel.count_moves(self);
        1
    }

    #[inline(never)]
    pub(super) fn arm_the_long_way(&self, timer: Handle, ns: u64) -> i32 {
        number(self.arm(timer, When::At(ns), How::Always))
    }

    #[cold]
    #[inline(never)]
    pub(super) fn arm_raced(&self, timer: Handle, ns: u64, was: bool) -> i32 {
        let tick = self.tick(ns);
        match self.wheel.rearm_raced(self, timer, tick, was) {
            Ok(was) => was.into(),
            Err(e) => e.into(),
        }
    }

    pub fn arm(&self, timer: Handle, when: When, how: How) -> Result<i32, Errno> {
        self.check()?;
        let due = self.due(when);
        Ok(self.wheel.arm(self, timer, due, how)?.into())
    }

    /// Arms to a deadline or up to `slack` nanoseconds later: to a tick in between. If
    /// there is none, to the first one after the deadline.
    pub fn arm_range(&self, timer: Handle, when: When, slack: u64) -> Result<i32, Errno> {
        self.check()?;
        let due = self.due(when);
        let latest = self
            .wheel
            .scale
            .tick_at_or_before(due.ns.saturating_add(slack));
        let how = How::Within(latest.saturating_sub(due.tick));
        Ok(self.wheel.arm(self, timer, due, how)?.into())
    }

    /// The slack of a period as part of a timer's kind: no more than lets each
    /// period have a tick of its own, and each deadline, which need not be the begin
    /// of a tick, one within its slack.
    pub fn slack(&self, slack: u64, period: u64) -> u16 {
        let scale = &self.wheel.scale;
        let ticks = scale.tick_at_or_before(slack.saturating_sub(scale.ns(1) - 1));
        let most = scale.tick_at_or_before(period);
        crate::slab::slack(ticks.min(most.saturating_sub(1)))
    }

    /// Cancels, the short way if that will do.
    #[inline(always)]
    pub fn delete(&self, timer: Handle) -> i32 {
        if self.is_ours() && self.wheel.disarm(timer).is_some() {
            return 1;
        }
        self.cancel_the_long_way(timer)
    }

    #[inline(never)]
    pub(super) fn cancel_the_long_way(&self, timer: Handle) -> i32 {
        number(self.cancel(timer, 0))
    }

    /// Acts on `n` timers, one after another; how often that succeeded. The node
    /// of each is fetched while those before it are acted on.
    pub fn each(
        &self,
        n: usize,
        timer: impl Fn(usize) -> Handle,
        mut act: impl FnMut(usize, Handle) -> i32,
    ) -> Result<usize, Errno> {
        self.check()?;
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

    pub fn cancel(&self, timer: Handle, leave: u64) -> Result<i32, Errno> {
        self.check()?;
        Ok(self.wheel.cancel(self, timer, leave)?.into())
    }

    pub fn free(&self, timer: Handle) -> Result<i32, Errno> {
        self.check()?;
        Ok(self.wheel.free(self, timer)?.into())
    }

    /// The deadline in nanoseconds, if it is armed.
    pub fn deadline(&self, timer: Handle) -> Result<Option<u64>, Errno> {
        self.check()?;
        Ok(self.wheel.due(timer)?.map(|d| d.ns))
    }

    // Keyed timers. A lock or the allocator may change errno.

    pub fn key_set(&self, key: &[u8], target: Target, when: When) -> Result<i32, Errno> {
        self.check()?;
        quietly(|| self.keys.set(self, key, target, when)).map(i32::from)
    }

    pub fn key_move(&self, key: &[u8], when: When) -> Result<i32, Errno> {
        self.check()?;
        if self.is_drained() {
            return Err(-libc::ESHUTDOWN);
        }
        quietly(|| self.keys.shift(self, key, when)).map(i32::from)
    }

    pub fn key_delete(&self, key: &[u8]) -> Result<i32, Errno> {
        self.check()?;
        Ok(quietly(|| self.keys.delete(self, key)).into())
    }

    pub fn key_pending(&self, key: &[u8]) -> Result<i32, Errno> {
        self.check()?;
        Ok(quietly(|| self.keys.pending(self, key)).into())
    }

    /// Hands what has fired or was drained on as the caller knows it: a keyed
    /// timer without a handle, and from here on its key is free. Dropped if it
    /// has no key: armed by somebody who guessed its handle.
    pub(super) fn named(&self, fired: &Fired, take: impl FnOnce(&Fired) -> bool) -> bool {
        if fired.kind & KEYED != 0 {
            return self.fetch(fired).is_none_or(|named| take(&named));
        }
        take(fired)
    }

    /// Not inlined: no part of what a timer without a key costs.
    #[inline(never)]
    pub(super) fn fetch(&self, fired: &Fired) -> Option<Fired> {
        quietly(|| self.keys.fetch(fired))
    }
}
