//! The wheel for Rust.

use super::error::Error;
use super::event::{Event, Run, Timer};
use super::handler::Handler;
use super::period::Period;
use super::time::{nanos, Time, When};
use super::wake;
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::life::Spec;
use crate::core::ticks::AUTO;
use crate::runtime::callbacks::PROMPT;
use crate::runtime::drive::{Bounds, Driven, Room};
use crate::runtime::stats::{stats, Stats};
use crate::runtime::times::{time, NEVER};
use crate::runtime::{Errno, Host};
use crate::sys::clock;
use crate::sys::timerfd::ready;
use std::mem::ManuallyDrop;
use std::os::fd::BorrowedFd;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::{Duration, Instant};

/// A timing wheel.
///
/// The caller arms a timer with a cookie of 64 bits, and receives an [`Event`] when
/// the timer fires. A wheel without a handler writes events into the caller's slice,
/// in [`poll`](Wheel::poll) or [`advance`](Wheel::advance). A wheel with a
/// [`handler`](crate::Options::handler) calls it for each event, on the driving thread.
///
/// Any thread may use a wheel; arming and cancelling take no lock. One thread at a
/// time drives; another one gets [`Error::Busy`].
///
/// In a forked child every call returns [`Error::Shutdown`]. Every call on a timer that
/// no longer exists returns [`Error::Stale`]. A call whose description refers to another
/// call also has the errors and panics of that call.
///
/// A wheel that is dropped stops, waits for a running handler, and frees its timers;
/// pending timers do not fire. If its own handler, or a future that it has woken,
/// drops it, another thread does this once the handler has returned.
#[derive(Debug)]
pub struct Wheel {
    pub(super) host: *mut Host,
    /// Null, or from a `Box`.
    pub(super) handler: *const Handler<Wheel>,
}

// SAFETY: the host is shared by threads, and a handler is `Send` and `Sync`.
unsafe impl Send for Wheel {}
// SAFETY: as above.
unsafe impl Sync for Wheel {}

// A panic of the handler is kept; it leaves nothing half done.
impl UnwindSafe for Wheel {}
impl RefUnwindSafe for Wheel {}

/// An answer of the host: 0, 1 or an error.
#[inline]
fn truth(n: i32) -> Result<bool, Error> {
    match n {
        0.. => Ok(n == 1),
        e => Err(e.into()),
    }
}

impl Wheel {
    /// Resumes the panic of the handler.
    fn resume_panic(&self) {
        // SAFETY: null, or lives as long as the wheel.
        if let Some(handler) = unsafe { self.handler.as_ref() } {
            handler.resume_panic();
        }
    }

    #[inline]
    pub(crate) fn host(&self) -> &Host {
        // SAFETY: from `Host::create`, and destroyed by `drop` alone.
        unsafe { &*self.host }
    }

    /// The deadline in nanoseconds.
    #[inline]
    pub(super) fn due_ns(&self, when: impl Into<When>) -> Result<u64, Error> {
        self.deadline_of(when.into(), || self.host().now())
    }

    /// The deadline in nanoseconds; delays count from `now`.
    #[inline]
    fn deadline_of(&self, when: When, now: impl FnOnce() -> u64) -> Result<u64, Error> {
        Ok(match when {
            When::After(delay) => now().saturating_add(nanos(delay)),
            When::At(at) => time(at.as_nanos())?,
            When::Instant(instant) => self.time_of(instant)?.as_nanos(),
        })
    }

    /// The handle of a timer; 0, which no timer has, for a timer of another wheel.
    #[inline]
    fn handle(&self, timer: Timer) -> u64 {
        match timer.wheel == self.host().id {
            true => timer.handle,
            false => 0,
        }
    }

    fn make(&self, spec: Spec, due: Option<u64>) -> Result<Timer, Error> {
        self.host().check_mine()?;
        Ok(Timer::new(self.host(), self.host().setup(spec, due)?))
    }

    pub(super) fn spec(&self, cookie: u64, period: Duration, kind: u16) -> Spec {
        Spec {
            func: self.handler.expose_provenance(),
            cookie,
            period: nanos(period),
            kind,
            ..Spec::default()
        }
    }

    /// The time on the wheel's clock. If the system clock steps back, this time does not
    /// go below the last tick to which the wheel was driven.
    pub fn now(&self) -> Result<Time, Error> {
        self.host().check_ours()?;
        Ok(Time::from_nanos(self.host().now()))
    }

    /// The time of an [`Instant`] on the wheel's clock; never too early.
    pub fn time_of(&self, instant: Instant) -> Result<Time, Error> {
        // The wheel's clock is read last: whatever passes in between is added.
        let ahead = instant.saturating_duration_since(Instant::now());
        Ok(self.now()? + ahead)
    }

    /// The time on the wheel's clock at which a timer is due that is armed now.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a [`Time`] out of range.
    #[inline]
    pub fn due(&self, when: impl Into<When>) -> Result<Time, Error> {
        Ok(Time::from_nanos(self.due_ns(when)?))
    }

    /// Whether a time on the wheel's clock has passed. It costs less than a look at the
    /// clock if that time is far.
    pub fn has_passed(&self, time: Time) -> bool {
        // The coarse clock is cheap. It is at most one tick of the system behind, and never
        // ahead. If it is further behind, this looks at the other one.
        const BEHIND: u64 = 10_000_000;
        let due = time.as_nanos();
        let is_monotonic = self.host().clock == Some(libc::CLOCK_MONOTONIC);
        let coarse = || clock::now(libc::CLOCK_MONOTONIC_COARSE);
        if is_monotonic && due > BEHIND.saturating_add(coarse()) {
            return false;
        }
        self.host().now() >= due
    }

    /// Whether timers can be armed.
    ///
    /// # Errors
    /// [`Error::Shutdown`] if the wheel was drained, and in a forked child.
    pub fn check_open(&self) -> Result<(), Error> {
        Ok(self.host().check_open()?)
    }

    /// The time at which to drive the wheel next, if a timer is pending. Never later
    /// than the next timer; it may be earlier after timers were cancelled.
    pub fn next_expiry(&self) -> Result<Option<Time>, Error> {
        Ok(self.host().next_expiry()?.map(Time::from_nanos))
    }

    /// The counts of the wheel. Sums the counts of all threads; the cost does not
    /// depend on the number of timers.
    pub fn stats(&self) -> Result<Stats, Error> {
        Ok(stats(self.host())?)
    }

    /// Passes every pending timer to `see`, until `see` returns false. A timer that
    /// is pending during the whole walk is passed exactly once. Timers of futures
    /// are not passed.
    ///
    /// ```
    /// # use hwheel::{Clock, Options};
    /// # use std::time::Duration;
    /// # let wheel = Options::new().clock(Clock::Manual).create()?;
    /// wheel.once(Duration::from_secs(1), 7)?;
    /// wheel.once(Duration::from_secs(2), 8)?;
    /// // Cancel all that match.
    /// wheel.list(|event| {
    ///     if event.cookie == 7 {
    ///         _ = wheel.delete(event.timer);
    ///     }
    ///     true
    /// })?;
    /// # assert_eq!(wheel.stats()?.pending, 1);
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    pub fn list(&self, mut see: impl FnMut(&Event) -> bool) -> Result<(), Error> {
        self.host().list(0, |fired| {
            fired.func == PROMPT || see(&Event::new(self.host(), fired))
        })?;
        Ok(())
    }

    // Timers that one call makes and arms, and that free themselves.

    /// Makes a timer that fires once. When this returns, the timer may have fired,
    /// and its handle may be stale. A time that has passed means the next tick.
    ///
    /// # Errors
    /// [`Error::Limit`], [`Error::NoMemory`]; [`Error::Invalid`] for a [`Time`] out of
    /// range; [`Error::Shutdown`] if the wheel was drained.
    pub fn once(&self, when: impl Into<When>, cookie: u64) -> Result<Timer, Error> {
        let spec = self.spec(cookie, Duration::ZERO, AUTO);
        self.make(spec, Some(self.due_ns(when)?))
    }

    /// Makes a timer that fires at `first`, and then once per period. Deadlines do
    /// not drift: each one is the previous one plus the period.
    ///
    /// ```
    /// # use hwheel::{Clock, Missed, Options, Period};
    /// # use std::time::Duration;
    /// # let wheel = Options::new().clock(Clock::Manual).create()?;
    /// let second = Duration::from_secs(1);
    /// wheel.every(second, second, 1)?;
    /// let period = Period::new(second).missed(Missed::Burst).slack(second / 10);
    /// wheel.every(second, period, 2)?;
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`once`](Wheel::once); [`Error::Invalid`] if the period is zero.
    pub fn every(
        &self,
        first: impl Into<When>,
        period: impl Into<Period>,
        cookie: u64,
    ) -> Result<Timer, Error> {
        let period = period.into();
        if period.length.is_zero() {
            return Err(Error::Invalid);
        }
        let slack = self.host().slack(nanos(period.slack), nanos(period.length));
        let spec = self.spec(cookie, period.length, AUTO | period.missed.kind() | slack);
        self.make(spec, Some(self.due_ns(first)?))
    }

    // Timers to arm again and again.

    /// Makes a timer that is not pending, and exists until [`free`](Wheel::free).
    ///
    /// ```
    /// # use hwheel::{Event, Options, Clock, Time};
    /// # use std::time::Duration;
    /// # let wheel = Options::new().clock(Clock::Manual).create()?;
    /// # let mut events = [Event::default(); 8];
    /// # let connection = 7;
    /// let idle = wheel.setup(connection)?;
    /// wheel.arm(idle, Duration::from_secs(30))?;
    /// // Whenever there is traffic:
    /// assert!(wheel.arm(idle, Duration::from_secs(30))?);
    /// // When the connection is closed:
    /// assert!(wheel.free(idle)?);
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`once`](Wheel::once).
    pub fn setup(&self, cookie: u64) -> Result<Timer, Error> {
        self.make(self.spec(cookie, Duration::ZERO, 0), None)
    }

    /// Arms a timer, or moves it if it is pending. True if it was pending. A delay
    /// of zero means the next tick.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::NoMemory`]; [`Error::Invalid`] for a [`Time`] out of
    /// range; [`Error::Shutdown`] if the timer was shut down or the wheel drained.
    #[inline]
    pub fn arm(&self, timer: Timer, when: impl Into<When>) -> Result<bool, Error> {
        truth(self.host().arm_at(self.handle(timer), self.due_ns(when)?))
    }

    /// Does [`arm`](Wheel::arm) for each timer, in order, but faster: it prefetches
    /// memory and reads the clock once. Returns the number of timers that were armed
    /// or moved. A timer that fails does not stop the others.
    pub fn arm_many(&self, timers: &[(Timer, When)]) -> Result<usize, Error> {
        let host = self.host();
        let now = host.now();
        let arm = |i: usize, timer| match self.deadline_of(timers[i].1, || now) {
            Ok(ns) => host.arm_at(timer, ns),
            Err(e) => -e.errno(),
        };
        Ok(host.each(timers.len(), |i| self.handle(timers[i].0), arm)?)
    }

    /// As [`arm`](Wheel::arm), but a pending timer moves only to an earlier time: it
    /// fires at the earlier of the two.
    pub fn reduce(&self, timer: Timer, when: impl Into<When>) -> Result<bool, Error> {
        self.arm_as(How::Earlier, timer, when)
    }

    /// As [`arm`](Wheel::arm), but only if the timer is pending.
    pub fn arm_if_pending(&self, timer: Timer, when: impl Into<When>) -> Result<bool, Error> {
        self.arm_as(How::Pending, timer, when)
    }

    /// As [`arm`](Wheel::arm), to any time up to `slack` later, so that the timer
    /// shares a wake-up with others. A timer that is already due in that range stays.
    ///
    /// ```
    /// # use hwheel::{Event, Options, Clock, Time};
    /// # use std::time::Duration;
    /// # let wheel = Options::new().clock(Clock::Manual).create()?;
    /// # let mut events = [Event::default(); 8];
    /// let t = wheel.setup(1)?;
    /// let ms = Duration::from_millis;
    /// wheel.arm_range(t, ms(100), ms(100))?;
    /// assert!(wheel.advance(Time::from_nanos(99_999_999), &mut events)?.is_empty());
    /// assert_eq!(wheel.advance(Time::from_nanos(200_000_000), &mut events)?.len(), 1);
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    pub fn arm_range(
        &self,
        timer: Timer,
        when: impl Into<When>,
        slack: Duration,
    ) -> Result<bool, Error> {
        self.arm_as(How::Within(nanos(slack)), timer, when)
    }

    fn arm_as(&self, how: How, timer: Timer, when: impl Into<When>) -> Result<bool, Error> {
        let due = self.due_ns(when)?;
        Ok(self.host().arm(self.handle(timer), due, how)?)
    }

    /// Makes a timer periodic, or changes its period; [`Duration::ZERO`] or
    /// [`Duration::MAX`] for none. This does not arm the timer: the period begins
    /// when the timer next fires.
    ///
    /// ```
    /// # use hwheel::{Clock, Event, Options, Time};
    /// # use std::time::Duration;
    /// # let wheel = Options::new().clock(Clock::Manual).create()?;
    /// # let mut events = [Event::default(); 8];
    /// let second = Duration::from_secs(1);
    /// let beat = wheel.setup(1)?;
    /// wheel.set_period(beat, second)?;
    /// wheel.arm(beat, second)?;
    /// assert_eq!(wheel.advance(Time::default() + second, &mut events)?.len(), 1);
    /// assert!(wheel.pending(beat)?);
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Stale`]; [`Error::Shutdown`] if the timer was shut down.
    pub fn set_period(&self, timer: Timer, period: Duration) -> Result<(), Error> {
        Ok(self.host().set_period(self.handle(timer), nanos(period))?)
    }

    /// Cancels a timer. True: the timer was pending and will not fire. False, or
    /// [`Error::Stale`]: it has fired. A timer of [`once`](Wheel::once) or
    /// [`every`](Wheel::every) is freed.
    #[inline]
    pub fn delete(&self, timer: Timer) -> Result<bool, Error> {
        truth(self.host().delete(self.handle(timer)))
    }

    /// Does [`delete`](Wheel::delete) for each timer, but faster. Returns the
    /// number of timers that existed, pending or not.
    pub fn delete_many(&self, timers: &[Timer]) -> Result<usize, Error> {
        let host = self.host();
        let delete = |_, timer| host.delete(timer);
        Ok(host.each(timers.len(), |i| self.handle(timers[i]), delete)?)
    }

    /// As [`delete`](Wheel::delete). When it returns, the handler is not running for
    /// this timer on any thread. Two calls of handlers that wait for each other never return.
    ///
    /// # Errors
    /// [`Error::Stale`]; [`Error::Deadlock`] if the handler runs for this timer on the
    /// calling thread.
    pub fn delete_sync(&self, timer: Timer) -> Result<bool, Error> {
        Ok(self.host().cancel_sync(self.handle(timer), false)?)
    }

    /// As [`delete`](Wheel::delete). Arming a timer of [`setup`](Wheel::setup) again
    /// returns [`Error::Shutdown`].
    pub fn shutdown(&self, timer: Timer) -> Result<bool, Error> {
        let host = self.host();
        Ok(host.wheel.cancel(host, self.handle(timer), true)?)
    }

    /// As [`shutdown`](Wheel::shutdown), but waits like
    /// [`delete_sync`](Wheel::delete_sync).
    pub fn shutdown_sync(&self, timer: Timer) -> Result<bool, Error> {
        Ok(self.host().cancel_sync(self.handle(timer), true)?)
    }

    /// As [`delete`](Wheel::delete), but also frees the timer.
    pub fn free(&self, timer: Timer) -> Result<bool, Error> {
        Ok(self.host().wheel.free(self.host(), self.handle(timer))?)
    }

    /// Whether a timer is pending.
    pub fn pending(&self, timer: Timer) -> Result<bool, Error> {
        Ok(self.host().wheel.is_pending(self.handle(timer))?)
    }

    /// Fetches a timer's memory ahead of a call on it. A server calls this when it learns
    /// which connection has sent something, before it reads the data.
    #[inline]
    pub fn prefetch(&self, timer: Timer) {
        self.host().wheel.prefetch(self.handle(timer));
    }

    /// The time at which a timer is due, if it is pending.
    pub fn deadline(&self, timer: Timer) -> Result<Option<Time>, Error> {
        let due = self.host().wheel.due(self.handle(timer))?;
        Ok(due.map(Time::from_nanos))
    }

    // Driving.

    /// Drives a wheel with a manual clock. `now` is the current time; a time before
    /// the last one leaves the clock where it is. Fires the timers that are due, in
    /// the order of their ticks, and returns the part of `events` that it has filled.
    /// A full slice means that due timers may be left. With an empty slice, events
    /// are dropped and counted as unclaimed.
    ///
    /// ```
    /// use hwheel::{Clock, Event, Options, Time};
    /// use std::time::Duration;
    ///
    /// let wheel = Options::new().clock(Clock::Manual).create()?;
    /// wheel.once(Duration::from_millis(5), 42)?;
    ///
    /// let mut events = [Event::default(); 64];
    /// assert!(wheel.advance(Time::from_nanos(4_999_999), &mut events)?.is_empty());
    /// let due = wheel.advance(Time::from_nanos(5_000_000), &mut events)?;
    /// assert_eq!(due[0].cookie, 42);
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Busy`]; [`Error::Invalid`] if the clock is not manual, or `now` is 2^63
    /// nanoseconds or more.
    ///
    /// # Panics
    /// If the handler has panicked, in this call or before.
    pub fn advance<'e>(&self, now: Time, events: &'e mut [Event]) -> Result<&'e [Event], Error> {
        Ok(self.advance_within(Bounds::new(), now, events)?.events)
    }

    /// As [`advance`](Wheel::advance), within bounds. The result says whether due
    /// timers may be left.
    pub fn advance_within<'e>(
        &self,
        bounds: Bounds,
        now: Time,
        events: &'e mut [Event],
    ) -> Result<Run<'e>, Error> {
        let run = self.fill(events, |host, put| {
            host.advance(now.as_nanos(), bounds, put)
        })?;
        self.resume_panic();
        Ok(run)
    }

    /// Drives a wheel with a system clock; otherwise like
    /// [`advance`](Wheel::advance). Sets the descriptor for the next timer. The front page of
    /// the crate has a loop with it.
    ///
    /// # Errors
    /// [`Error::Busy`], also while the wheel's own thread drives;
    /// [`Error::Invalid`] if the clock is manual.
    pub fn poll<'e>(&self, events: &'e mut [Event]) -> Result<&'e [Event], Error> {
        Ok(self.poll_within(Bounds::new(), events)?.events)
    }

    /// As [`poll`](Wheel::poll), within bounds. The result says whether due timers
    /// may be left.
    ///
    /// ```
    /// use hwheel::{Bounds, Event, Wheel};
    /// use std::time::Duration;
    ///
    /// let wheel = Wheel::new()?;
    /// let mut events = [Event::default(); 64];
    /// let bounds = Bounds::new().timers(1000).time(Duration::from_millis(1));
    /// let run = wheel.poll_within(bounds, &mut events)?;
    /// assert!(run.events.is_empty() && !run.left);
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    pub fn poll_within<'e>(
        &self,
        bounds: Bounds,
        events: &'e mut [Event],
    ) -> Result<Run<'e>, Error> {
        let run = self.fill(events, |host, put| host.poll(bounds, put))?;
        self.resume_panic();
        Ok(run)
    }

    /// Lets `drive` fill the slice, which has room if it is not empty.
    fn fill<'e>(
        &self,
        events: &'e mut [Event],
        drive: impl FnOnce(&Host, Room<'_>) -> Result<Driven, Errno>,
    ) -> Result<Run<'e>, Error> {
        let host = self.host();
        let size = events.len();
        let mut room = events.iter_mut();
        let mut put = |fired: &Fired| {
            if let Some(event) = room.next() {
                *event = Event::new(host, fired);
            }
            room.len() != 0
        };
        let driven = drive(host, if size == 0 { None } else { Some(&mut put) })?;
        let filled = size - room.len();
        Ok(Run {
            events: &events[..filled],
            left: !driven.done,
            next: Time::from_nanos(driven.next_ns),
        })
    }

    /// A descriptor that becomes readable when a timer is due. The event loop then
    /// calls [`poll`](Wheel::poll), and never reads the descriptor. It may be readable
    /// with nothing due.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the clock is manual; [`Error::System`].
    pub fn fd(&self) -> Result<BorrowedFd<'_>, Error> {
        let fd = self.host().descriptor()?;
        // SAFETY: it is open as long as the wheel lives.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Blocks until the descriptor is readable, or for `timeout`; `None` is no limit.
    /// False after the timeout. May return early, for example after a signal.
    ///
    /// # Errors
    /// As [`fd`](Wheel::fd).
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool, Error> {
        let fd = self.host().descriptor()?;
        Ok(ready(fd, timeout)?)
    }

    /// Starts the tick thread, which sleeps until timers are due, calls the handler and
    /// wakes futures. Without a handler, the events of all timers except those of
    /// futures are dropped and counted as unclaimed.
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
    /// wheel.once(Duration::from_millis(5), 42)?;
    /// assert_eq!(receive.recv(), Ok(42));
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] if the clock is manual;
    /// [`Error::Busy`] if it is started already, or another thread drives;
    /// [`Error::Shutdown`] if the wheel was drained; [`Error::NoMemory`],
    /// [`Error::System`].
    pub fn start(&self) -> Result<(), Error> {
        Ok(self.host().start()?)
    }

    /// Stops the tick thread. When it returns, the handler is not running and will not
    /// be called. Timers stay pending: start again, poll, or drain.
    ///
    /// Two handlers that stop or drop each other's wheels never return.
    ///
    /// # Errors
    /// [`Error::Deadlock`] in the handler; [`Error::Busy`] if another thread is stopping the
    /// wheel.
    ///
    /// # Panics
    /// If the handler has panicked.
    pub fn stop(&self) -> Result<(), Error> {
        self.host().stop()?;
        self.resume_panic();
        Ok(())
    }

    /// Shuts the wheel down and hands every pending timer back, exactly once, in no
    /// particular order. The handler is not called. From the first call on, arming
    /// a timer returns [`Error::Shutdown`]. A result shorter than `events` is the
    /// last one. Futures are woken, and end with [`Error::Shutdown`].
    ///
    /// # Errors
    /// [`Error::Busy`] if another thread drives; [`Error::Deadlock`] in the handler;
    /// [`Error::Invalid`] with an empty slice.
    pub fn drain<'e>(&self, events: &'e mut [Event]) -> Result<&'e [Event], Error> {
        let run = self.fill(events, |host, put| {
            let put = put.ok_or(-libc::EINVAL)?;
            let done = host.drain(|fired| {
                if fired.func != PROMPT {
                    return put(fired);
                }
                // SAFETY: the drain has ended it.
                unsafe { wake::end_prompt(fired.cookie) };
                true
            })?;
            Ok(Driven {
                done,
                next_ns: NEVER,
            })
        })?;
        Ok(run.events)
    }
}

/// Calls the handler for a timer that has fired.
///
/// # Safety
/// `fired.func` is the handler of the wheel around `host`, or PROMPT for a future.
pub(super) unsafe fn call_handler(host: &Host, fired: &Fired) {
    if fired.func == PROMPT {
        // SAFETY: it has fired.
        return unsafe { wake::end_prompt(fired.cookie) };
    }
    let handler = std::ptr::with_exposed_provenance::<Handler<Wheel>>(fired.func);
    // Another name for the wheel, which its owner drops.
    let wheel = ManuallyDrop::new(Wheel {
        host: std::ptr::from_ref(host).cast_mut(),
        handler,
    });
    // SAFETY: it is freed after the wheel was destroyed.
    unsafe { &*handler }.call(&wheel, &Event::new(host, fired));
}

impl Drop for Wheel {
    fn drop(&mut self) {
        let Wheel { host, handler } = *self;
        // If nobody owns an owned wheel; otherwise this changes nothing.
        _ = self.host().own();
        // SAFETY: nobody else has the wheel, but for its own thread.
        match unsafe { Host::destroy(host) } {
            // SAFETY: from a box or null, and the threads that called it have ended.
            Ok(()) if !handler.is_null() => drop(unsafe { Box::from_raw(handler.cast_mut()) }),
            Err(e) if e == -libc::EDEADLK && self.host().is_ours() => {
                let wheel = ManuallyDrop::new(Wheel { host, handler });
                let end = move || drop(ManuallyDrop::into_inner(wheel));
                // If the system starts no thread, the wheel is never freed.
                _ = std::thread::Builder::new().spawn(end);
            }
            // The handler runs, in a child that it has forked, or does not return: it waits for a
            // thread that stops the wheel.
            _ => {}
        }
    }
}
