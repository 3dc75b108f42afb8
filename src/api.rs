//! The wheel for Rust: what [`crate::capi`] is for C, over the same host.

pub(crate) mod error;
pub(crate) mod event;
mod handler;
mod keyed;
pub(crate) mod options;
pub(crate) mod time;

use crate::capi::{self, hwheel_stats as Stats};
use crate::runtime::foreign::number_of;
use crate::runtime::{Errno, Host};
use crate::slab::AUTO;
use crate::state::SHUT;
use crate::sweep::Fired;
use crate::sys::ready::ready;
use crate::wheel::{How, Spec};
use error::Error;
use event::{Batch, Event, Timer};
use handler::Handler;
use options::{Missed, Options};
use std::os::fd::BorrowedFd;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};
use time::{nanos, Time, When};

/// A timing wheel.
///
/// A timer is armed with a cookie, 64 bits of the caller's, and comes due as an
/// [`Event`]. A wheel without a handler hands out events in batches, to whoever
/// calls [`poll`](Wheel::poll) or [`advance`](Wheel::advance). A wheel with a
/// [`handler`](Options::handler) calls that for each, in the thread that drives.
///
/// Any thread may use a wheel; arming and cancelling take no lock. One thread at
/// a time drives; another gets [`Error::Busy`]. In the child of a fork every
/// call is [`Error::Shutdown`].
///
/// When it is dropped it stops, waits for a handler that runs, and frees its
/// timers; what is armed does not fire. Dropped by its own handler it cannot wait
/// for that, and goes on for ever instead.
pub struct Wheel {
    host: *mut Host,
    /// Null, or from a `Box`.
    handler: *const Handler,
}

// SAFETY: the host is shared by threads, and a handler is `Send` and `Sync`.
unsafe impl Send for Wheel {}
// SAFETY: as above.
unsafe impl Sync for Wheel {}

// A panic of the handler is kept; it leaves nothing half done.
impl UnwindSafe for Wheel {}
impl RefUnwindSafe for Wheel {}

/// A result of the host that is 0 or 1.
#[inline]
fn truth(n: Result<i32, Errno>) -> Result<bool, Error> {
    match n {
        Ok(n) if n >= 0 => Ok(n == 1),
        Ok(e) | Err(e) => Err(e.into()),
    }
}

impl Wheel {
    /// A wheel with default [`Options`]: the monotonic clock, ticks of 1 ms.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub fn new() -> Result<Wheel, Error> {
        Options::new().create()
    }

    #[inline]
    pub(crate) fn host(&self) -> &Host {
        // SAFETY: from `Host::create`, and destroyed by `drop` alone.
        unsafe { &*self.host }
    }

    fn make(&self, spec: Spec, when: Option<When>) -> Result<Timer, Error> {
        Ok(Timer(self.host().setup(spec, when.map(When::of_host))?))
    }

    fn spec(&self, cookie: u64, period: Duration, kind: u16) -> Spec {
        Spec {
            func: number_of(self.handler),
            cookie,
            period: nanos(period),
            kind,
        }
    }

    /// The time on the wheel's clock. Steps back are held.
    ///
    /// # Errors
    /// [`Error::Shutdown`] in a forked child.
    pub fn now(&self) -> Result<Time, Error> {
        self.host().check()?;
        Ok(Time::from_nanos(self.host().now()))
    }

    /// When an [`Instant`] comes on the wheel's clock; never too early.
    ///
    /// # Errors
    /// As [`now`](Wheel::now).
    pub fn time_of(&self, instant: Instant) -> Result<Time, Error> {
        // The wheel's clock is read last: whatever passes in between is added.
        let ahead = instant.saturating_duration_since(Instant::now());
        Ok(self.now()? + ahead)
    }

    /// When the wheel wants to be driven next, if anything is armed. Never later
    /// than the truth; earlier where many timers were cancelled.
    ///
    /// # Errors
    /// As [`now`](Wheel::now).
    pub fn next_expiry(&self) -> Result<Option<Time>, Error> {
        Ok(self.host().next_expiry()?.map(Time::from_nanos))
    }

    /// What the wheel has done so far. Looks at every timer once: milliseconds
    /// for a million.
    ///
    /// # Errors
    /// As [`now`](Wheel::now).
    pub fn stats(&self) -> Result<Stats, Error> {
        self.host().check()?;
        Ok(capi::stats(self.host()))
    }

    // Timers that free themselves when they have fired for the last time.

    /// Fires once after a delay; [`Duration::MAX`] is never. The timer may have
    /// fired, and its name be stale, when this returns.
    ///
    /// # Errors
    /// [`Error::Limit`], [`Error::NoMemory`]; [`Error::Shutdown`] if the wheel was
    /// drained.
    pub fn after(&self, delay: Duration, cookie: u64) -> Result<Timer, Error> {
        let spec = self.spec(cookie, Duration::ZERO, AUTO);
        self.make(spec, Some(delay.into()))
    }

    /// Fires once at a deadline on the wheel's clock. One that has passed fires
    /// at the next tick.
    ///
    /// # Errors
    /// As [`after`](Wheel::after).
    pub fn at(&self, deadline: Time, cookie: u64) -> Result<Timer, Error> {
        let spec = self.spec(cookie, Duration::ZERO, AUTO);
        self.make(spec, Some(deadline.into()))
    }

    /// Fires again and again. Deadlines do not drift: each is counted from the
    /// last one, not from when that was handled.
    ///
    /// # Errors
    /// As [`after`](Wheel::after); [`Error::Invalid`] if the period is zero.
    pub fn every(
        &self,
        first: impl Into<When>,
        period: Duration,
        missed: Missed,
        cookie: u64,
    ) -> Result<Timer, Error> {
        self.every_range(first, period, Duration::ZERO, missed, cookie)
    }

    /// As [`every`](Wheel::every), each up to `slack` later than its deadline,
    /// so that it shares a wake-up with others. No more than a period counts.
    ///
    /// # Errors
    /// As [`every`](Wheel::every).
    pub fn every_range(
        &self,
        first: impl Into<When>,
        period: Duration,
        slack: Duration,
        missed: Missed,
        cookie: u64,
    ) -> Result<Timer, Error> {
        if period.is_zero() {
            return Err(Error::Invalid);
        }
        let slack = self.host().slack(nanos(slack), nanos(period));
        let spec = self.spec(cookie, period, AUTO | missed.kind() | slack);
        self.make(spec, Some(first.into()))
    }

    // Timers to arm again and again.

    /// Makes a timer that is not armed, and exists until [`free`](Wheel::free).
    ///
    /// ```
    /// # use hwheel::{Event, Options, Clock, Time};
    /// # use std::time::Duration;
    /// # let wheel = Options::new().clock(Clock::Manual).create()?;
    /// # let mut events = [Event::default(); 8];
    /// # let connection = 7;
    /// let idle = wheel.setup(connection)?;
    /// wheel.mod_(idle, Duration::from_secs(30))?;
    /// // Whenever there is traffic:
    /// assert!(wheel.mod_(idle, Duration::from_secs(30))?);
    /// // When the connection is closed:
    /// assert!(wheel.free(idle)?);
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`after`](Wheel::after).
    pub fn setup(&self, cookie: u64) -> Result<Timer, Error> {
        self.make(self.spec(cookie, Duration::ZERO, 0), None)
    }

    /// Arms a timer, or moves it. True if it was armed. With a delay of zero it
    /// fires at the next tick, not within this call.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::NoMemory`]; [`Error::Shutdown`] if the timer was
    /// shut down or the wheel drained.
    #[inline]
    pub fn mod_(&self, timer: Timer, when: impl Into<When>) -> Result<bool, Error> {
        let ns = when.into().deadline(|| self.host().arming_now());
        truth(Ok(self.host().arm_at(timer.0, ns)))
    }

    /// As [`mod_`](Wheel::mod_) for each, one after another, but faster: memory is
    /// fetched ahead and the clock read once. Returns how many were armed or
    /// moved; one that fails stops none of the others.
    ///
    /// # Errors
    /// [`Error::Shutdown`] in a forked child.
    pub fn mod_many(&self, timers: &[(Timer, When)]) -> Result<usize, Error> {
        let now = self.host().arming_now();
        let arm = |i: usize, timer| self.host().arm_at(timer, timers[i].1.deadline(|| now));
        Ok(self.host().each(timers.len(), |i| timers[i].0 .0, arm)?)
    }

    /// As [`mod_`](Wheel::mod_), but only to an earlier deadline: an armed timer
    /// then fires at the earlier of both.
    ///
    /// # Errors
    /// As [`mod_`](Wheel::mod_).
    pub fn reduce(&self, timer: Timer, when: impl Into<When>) -> Result<bool, Error> {
        let when = when.into().of_host();
        truth(self.host().arm(timer.0, when, How::Earlier))
    }

    /// As [`mod_`](Wheel::mod_), to any time up to `slack` later, so that it
    /// shares a wake-up with others. A timer due in that time already stays.
    ///
    /// ```
    /// # use hwheel::{Event, Options, Clock, Time};
    /// # use std::time::Duration;
    /// # let wheel = Options::new().clock(Clock::Manual).create()?;
    /// # let mut events = [Event::default(); 8];
    /// let t = wheel.setup(1)?;
    /// let ms = Duration::from_millis;
    /// wheel.mod_range(t, ms(100), ms(100))?;
    /// assert!(wheel.advance(Time::from_nanos(127_000_000), &mut events)?.is_empty());
    /// assert_eq!(wheel.advance(Time::from_nanos(128_000_000), &mut events)?.len(), 1);
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`mod_`](Wheel::mod_).
    pub fn mod_range(
        &self,
        timer: Timer,
        when: impl Into<When>,
        slack: Duration,
    ) -> Result<bool, Error> {
        let when = when.into().of_host();
        truth(self.host().arm_range(timer.0, when, nanos(slack)))
    }

    /// As [`mod_`](Wheel::mod_), but only if the timer is armed.
    ///
    /// # Errors
    /// As [`mod_`](Wheel::mod_).
    pub fn mod_pending(&self, timer: Timer, when: impl Into<When>) -> Result<bool, Error> {
        let when = when.into().of_host();
        truth(self.host().arm(timer.0, when, How::Pending))
    }

    /// Cancels a timer. True: it was armed and will not fire. False, or
    /// [`Error::Stale`]: too late, it has fired. One of [`after`](Wheel::after),
    /// [`at`](Wheel::at) or [`every`](Wheel::every) is freed.
    ///
    /// # Errors
    /// [`Error::Stale`].
    #[inline]
    pub fn delete(&self, timer: Timer) -> Result<bool, Error> {
        truth(Ok(self.host().delete(timer.0)))
    }

    /// As [`delete`](Wheel::delete) for each, but faster. Returns how many exist,
    /// whether they were armed or not.
    ///
    /// # Errors
    /// [`Error::Shutdown`] in a forked child.
    pub fn delete_many(&self, timers: &[Timer]) -> Result<usize, Error> {
        let delete = |_, timer| self.host().delete(timer);
        Ok(self.host().each(timers.len(), |i| timers[i].0, delete)?)
    }

    /// As [`delete`](Wheel::delete); and when it returns, the handler is not
    /// running for this timer on any thread.
    ///
    /// # Errors
    /// [`Error::Stale`]; [`Error::Deadlock`] if the handler runs for this timer in
    /// the calling thread.
    pub fn delete_sync(&self, timer: Timer) -> Result<bool, Error> {
        truth(self.host().cancel_sync(timer.0, 0))
    }

    /// As [`delete`](Wheel::delete), and arming it again is [`Error::Shutdown`].
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn shutdown(&self, timer: Timer) -> Result<bool, Error> {
        truth(self.host().cancel(timer.0, SHUT))
    }

    /// As [`shutdown`](Wheel::shutdown), and waits as
    /// [`delete_sync`](Wheel::delete_sync) does.
    ///
    /// # Errors
    /// As [`delete_sync`](Wheel::delete_sync).
    pub fn shutdown_sync(&self, timer: Timer) -> Result<bool, Error> {
        truth(self.host().cancel_sync(timer.0, SHUT))
    }

    /// As [`delete`](Wheel::delete), and the timer is no more.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn free(&self, timer: Timer) -> Result<bool, Error> {
        truth(self.host().free(timer.0))
    }

    /// Whether a timer is armed.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn pending(&self, timer: Timer) -> Result<bool, Error> {
        Ok(self.deadline(timer)?.is_some())
    }

    /// When a timer is due, if it is armed.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn deadline(&self, timer: Timer) -> Result<Option<Time>, Error> {
        Ok(self.host().deadline(timer.0)?.map(Time::from_nanos))
    }

    // Driving.

    /// Drives a wheel with a manual clock: the time is now `now`. Fires what is
    /// due, in the order of the ticks, and returns the part of `events` that it
    /// has filled. If that is all of it there may be more. With room for none,
    /// events are dropped, and counted as unclaimed.
    ///
    /// ```
    /// use hwheel::{Clock, Event, Options, Time};
    /// use std::time::Duration;
    ///
    /// let wheel = Options::new().clock(Clock::Manual).create()?;
    /// wheel.after(Duration::from_millis(5), 42)?;
    ///
    /// let mut events = [Event::default(); 64];
    /// assert!(wheel.advance(Time::from_nanos(4_999_999), &mut events)?.is_empty());
    /// let due = wheel.advance(Time::from_nanos(5_000_000), &mut events)?;
    /// assert_eq!(due[0].cookie, 42);
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Invalid`] if the clock is not manual.
    ///
    /// # Panics
    /// If the handler has panicked, in this call or before.
    pub fn advance<'e>(&self, now: Time, events: &'e mut [Event]) -> Result<&'e [Event], Error> {
        self.fill(events, |host, put| host.advance(now.as_nanos(), put))
    }

    /// Drives a wheel with a system clock; otherwise as
    /// [`advance`](Wheel::advance). Sets the descriptor for the next timer.
    ///
    /// ```
    /// use hwheel::{Event, Wheel};
    /// use std::time::Duration;
    ///
    /// let wheel = Wheel::new()?;
    /// wheel.after(Duration::from_millis(5), 42)?;
    ///
    /// let mut events = [Event::default(); 64];
    /// let mut left = 1;
    /// while left > 0 {
    ///     wheel.wait(None)?;
    ///     for event in wheel.poll(&mut events)? {
    ///         assert_eq!(event.cookie, 42);
    ///         left -= 1;
    ///     }
    /// }
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Busy`], also while the wheel's own thread drives;
    /// [`Error::Invalid`] if the clock is manual.
    ///
    /// # Panics
    /// As [`advance`](Wheel::advance).
    pub fn poll<'e>(&self, events: &'e mut [Event]) -> Result<&'e [Event], Error> {
        self.fill(events, Host::poll)
    }

    fn fill<'e>(
        &self,
        events: &'e mut [Event],
        drive: impl FnOnce(&Host, Option<&mut dyn FnMut(&Fired) -> bool>) -> Result<(), Errno>,
    ) -> Result<&'e [Event], Error> {
        let empty = events.is_empty();
        let mut batch = Batch::new(events, false);
        let mut put = |fired: &Fired| batch.put(fired);
        let room: Option<&mut dyn FnMut(&Fired) -> bool> =
            if empty { None } else { Some(&mut put) };
        drive(self.host(), room)?;
        self.resume_panic();
        Ok(batch.filled())
    }

    /// A descriptor that is readable when a timer is due, for an event loop that
    /// then calls [`poll`](Wheel::poll). Not to be read. It may be readable with
    /// nothing due.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the clock is manual; [`Error::System`].
    pub fn fd(&self) -> Result<BorrowedFd<'_>, Error> {
        let fd = self.host().descriptor()?;
        // SAFETY: it is open as long as the wheel lives.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Blocks until the descriptor is readable, or for so long; `None` is no
    /// limit. False if the time was up. May return early, as after a signal.
    ///
    /// # Errors
    /// As [`fd`](Wheel::fd).
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let fd = self.host().descriptor()?;
        ready(fd, timeout).map_err(|e| Error::from(-e))
    }

    /// Starts a thread of the wheel, which sleeps until timers are due and calls
    /// the handler. It blocks all signals.
    ///
    /// ```
    /// use hwheel::Options;
    /// use std::{sync::mpsc, time::Duration};
    ///
    /// let (due, receive) = mpsc::channel();
    /// let wheel = Options::new()
    ///     .handler(move |_, event| due.send(event.cookie).unwrap())
    ///     .create()?;
    /// wheel.start()?;
    /// wheel.after(Duration::from_millis(5), 42)?;
    /// assert_eq!(receive.recv(), Ok(42));
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no handler or the clock is manual;
    /// [`Error::Busy`] if it is started, or somebody polls; [`Error::NoMemory`],
    /// [`Error::System`].
    pub fn start(&self) -> Result<(), Error> {
        if self.handler.is_null() {
            return Err(Error::Invalid);
        }
        Ok(self.host().start()?)
    }

    /// Ends that thread. When it returns the handler is not running and will not
    /// be called. Timers stay armed: start again, poll, or drain.
    ///
    /// # Errors
    /// [`Error::Deadlock`] in the handler; [`Error::Busy`] if another thread is
    /// in this call.
    ///
    /// # Panics
    /// If the handler has panicked.
    pub fn stop(&self) -> Result<(), Error> {
        self.host().stop()?;
        self.resume_panic();
        Ok(())
    }

    /// Shuts the wheel down and hands back every timer that is armed, exactly
    /// once, in no order; the handler is not called. From the first call on,
    /// arming is [`Error::Shutdown`]. Call it again until it returns less than
    /// there was room for.
    ///
    /// # Errors
    /// [`Error::Busy`] if somebody drives; [`Error::Deadlock`] in the handler;
    /// [`Error::Invalid`] with room for none.
    pub fn drain<'e>(&self, events: &'e mut [Event]) -> Result<&'e [Event], Error> {
        if events.is_empty() {
            return Err(Error::Invalid);
        }
        let mut batch = Batch::new(events, true);
        self.host().drain(|fired| batch.put(fired))?;
        Ok(batch.filled())
    }

    fn resume_panic(&self) {
        // SAFETY: null, or lives as long as the wheel.
        if let Some(handler) = unsafe { self.handler.as_ref() } {
            handler.resume_panic();
        }
    }
}

impl Drop for Wheel {
    fn drop(&mut self) {
        // SAFETY: nobody else has the wheel, but for its own thread.
        if unsafe { Host::destroy(self.host) }.is_ok() && !self.handler.is_null() {
            // SAFETY: from a box, and the thread that called it has ended.
            drop(unsafe { Box::from_raw(self.handler.cast_mut()) });
        }
    }
}

impl std::fmt::Debug for Wheel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wheel").finish_non_exhaustive()
    }
}
