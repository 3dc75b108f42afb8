//! Futures: sleeping, timeouts and intervals, on any executor.
//!
//! A future arms its timer when it is first polled, unless its time has passed by then. The
//! cookie of the timer is the place of the future's waker, and a pending timer owns one
//! reference to that place.
//! The thread that ends the pending timer takes over the reference: a driver, a
//! drain, or the drop of the future. So a drop waits for no thread.
//!
//! The state word of the timer says whether the future is ready.
//!
//! ```text
//!   poll                               driver
//!   register  the waker    (RMW)       visit.claim  state: fired   (RMW)
//!   deadline  pending?                 wake         take the waker (RMW)
//! ```
//! Both work on the same `AtomicWaker`. If `register` comes first, `wake` takes the
//! waker. If `wake` comes first, `deadline` sees what came before it.

use super::error::Error;
use super::event::Timer;
use super::period::{Missed, Period};
use super::time::{nanos, Time, When};
use super::wheel::Wheel;
use crate::core::arm::How;
use crate::core::life::Spec;
use crate::core::period::AUTO;
use crate::runtime::callbacks::PROMPT;
use crate::sys::clock;
use atomic_waker::AtomicWaker;
use std::future::{poll_fn, Future, IntoFuture};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll, Waker};
use std::time::Duration;

/// Futures run on any executor. The driver of the wheel wakes them: the tick thread,
/// [`poll`](Wheel::poll) or [`advance`](Wheel::advance). A future keeps its wheel alive.
///
/// ```
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use hwheel::{Error, Wheel};
/// use std::{sync::Arc, time::Duration};
///
/// let wheel = Arc::new(Wheel::new()?);
/// wheel.start()?;
///
/// wheel.sleep(Duration::from_millis(10)).await?;
///
/// let answer = std::future::pending::<()>();
/// let late = wheel.timeout(Duration::from_millis(10), answer).await;
/// assert_eq!(late, Err(Error::TimedOut));
///
/// let period = Duration::from_millis(10);
/// let mut interval = wheel.interval(period, period)?;
/// for _ in 0..3 {
///     interval.tick().await?;
/// }
/// # Ok(())
/// # }
/// # use std::future::Future;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// #     let mut run = std::pin::pin!(run());
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     loop {
/// #         if let std::task::Poll::Ready(end) = run.as_mut().poll(&mut context) {
/// #             return end;
/// #         }
/// #         std::thread::sleep(std::time::Duration::from_millis(1));
/// #     }
/// # }
/// ```
impl Wheel {
    /// A future that is ready at a time, or after a delay from now. If that time has
    /// passed when the future is first polled, the future is ready at once. Otherwise it
    /// arms its timer then.
    pub fn sleep(self: &Arc<Self>, when: impl Into<When>) -> Sleep {
        Sleep {
            due: self.due(when),
            wheel: self.clone(),
            slack: Duration::ZERO,
            armed: None,
            is_over: false,
        }
    }

    /// Whether a time has passed.
    pub(super) fn has_passed(&self, due: u64) -> bool {
        // The coarse clock is cheap. It is at most one tick of the system behind, and never
        // ahead. If it is further behind, a timer finds out what this does not.
        const BEHIND: u64 = 10_000_000;
        let coarse = libc::CLOCK_MONOTONIC_COARSE;
        let is_monotonic = self.host().clock == Some(libc::CLOCK_MONOTONIC);
        if is_monotonic && due > BEHIND.saturating_add(clock::now(coarse)) {
            return false;
        }
        self.host().now() >= due
    }

    /// Runs a future until a time, or for a delay from now. A future that is ready
    /// when it is first polled needs no timer. If the time has passed by then and the
    /// future is not ready, the output is [`Error::TimedOut`] at once.
    pub fn timeout<F: IntoFuture>(
        self: &Arc<Self>,
        when: impl Into<When>,
        future: F,
    ) -> Timeout<F::IntoFuture> {
        Timeout {
            sleep: self.sleep(when),
            future: future.into_future(),
        }
    }

    /// Ticks at `first`, and then once per period. A period is missed if it passes
    /// before the program waits for its [`tick`](Interval::tick).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the period is zero.
    pub fn interval(
        self: &Arc<Self>,
        first: impl Into<When>,
        period: impl Into<Period>,
    ) -> Result<Interval, Error> {
        let period = period.into();
        if period.length.is_zero() {
            return Err(Error::Invalid);
        }
        let sleep = self.sleep(first);
        Ok(Interval { sleep, period })
    }
}

/// The future of [`Wheel::sleep`].
///
/// # Errors
/// [`Error::Limit`], [`Error::NoMemory`]; [`Error::Invalid`] for a
/// [`Time`](crate::Time) out of range; [`Error::Shutdown`] if the wheel was drained, or
/// in a forked child. While a wheel is stopped, it wakes no future.
#[derive(Debug)]
#[must_use = "a future does nothing until it is polled"]
pub struct Sleep {
    wheel: Arc<Wheel>,
    due: Result<u64, Error>,
    slack: Duration,
    /// The timer, and the place of its waker.
    armed: Option<(Timer, Arc<AtomicWaker>)>,
    /// A poll or a reset has seen that the time has passed.
    is_over: bool,
}

impl Sleep {
    /// The time at which it is ready.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a [`Time`] out of range.
    pub fn deadline(&self) -> Result<Time, Error> {
        Ok(Time::from_nanos(self.due?))
    }

    /// Whether it has been ready, or its timer has fired. It is false before the first
    /// poll, also for a time that has passed.
    pub fn is_elapsed(&self) -> bool {
        let ended = || matches!(self.ended(), Some(Ok(())));
        self.is_over || ended()
    }

    /// Moves it to another time, even if it was ready. The task that waits for it is woken
    /// at that time. If that time has passed, the next poll is ready.
    pub fn reset(&mut self, when: impl Into<When>) {
        self.due = self.wheel.due(when);
        self.is_over = self.due.is_ok_and(|due| self.wheel.has_passed(due));
        let moved = match (&self.armed, self.due) {
            (Some((timer, _)), Ok(due)) => self.wheel.host().arm(timer.handle, due, How::Pending),
            _ => Ok(false),
        };
        if moved != Ok(true) {
            self.cancel();
        }
    }

    /// Wakes the task that waits, before the time.
    pub(super) fn wake(&self) {
        if let Some((_, place)) = &self.armed {
            place.wake();
        }
    }

    fn arm(&self, waker: &Waker) -> Result<(Timer, Arc<AtomicWaker>), Error> {
        let due = self.due?;
        let host = self.wheel.host();
        let place = Arc::new(AtomicWaker::new());
        place.register(waker);
        let owned = place.clone();
        let spec = Spec {
            func: PROMPT,
            cookie: Arc::as_ptr(&place).expose_provenance() as u64,
            kind: AUTO,
            ..Spec::default()
        };
        let slack = nanos(self.slack);
        let timer = host.setup(spec, (slack == 0).then_some(due))?;
        if slack != 0 {
            host.arm(timer, due, How::Within(slack))
                .inspect_err(|_| _ = host.wheel.free(host, timer))?;
        }
        // It is the timer's, and `wake` may have taken it over already.
        std::mem::forget(owned);
        Ok((Timer::new(host, timer), place))
    }

    /// How the timer ended, if it was armed and is not pending.
    fn ended(&self) -> Option<Result<(), Error>> {
        let (timer, _) = self.armed.as_ref()?;
        match self.wheel.deadline(*timer) {
            Ok(Some(_)) => return None,
            Ok(None) | Err(Error::Stale) => {}
            Err(e) => return Some(Err(e)),
        }
        // A timer that ended before its time was drained.
        Some(match (self.wheel.now(), self.due) {
            (Ok(now), Ok(due)) if now.as_nanos() < due => Err(Error::Shutdown),
            (Ok(_), Ok(_)) => Ok(()),
            (Err(e), _) | (_, Err(e)) => Err(e),
        })
    }

    fn cancel(&mut self) {
        if let Some((timer, place)) = self.armed.take() {
            // A pending timer owns a count.
            if Arc::strong_count(&place) > 1 && self.wheel.delete(timer) == Ok(true) {
                // SAFETY: the timer was pending and owned this count.
                unsafe { Arc::decrement_strong_count(Arc::as_ptr(&place)) };
            }
        }
    }
}

impl Future for Sleep {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The tick of the timer may be still to come.
        let latest = self.due?.saturating_add(nanos(self.slack));
        if self.is_over || self.wheel.has_passed(latest) {
            self.wheel.host().check()?;
            self.is_over = true;
            self.cancel();
            return Poll::Ready(Ok(()));
        }
        let Some((_, place)) = &self.armed else {
            self.armed = Some(self.arm(context.waker())?);
            return Poll::Pending;
        };
        let register = AssertUnwindSafe(|| place.register(context.waker()));
        if let Err(panic) = catch_unwind(register) {
            // The waker, or the one before it, panics, and the place takes no other.
            self.cancel();
            resume_unwind(panic);
        }
        self.ended().map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// The future of [`Wheel::timeout`]. Its output is that of the future inside.
///
/// # Errors
/// [`Error::TimedOut`]; and the errors of [`Sleep`], once the future inside was
/// pending.
#[derive(Debug)]
#[must_use = "a future does nothing until it is polled"]
pub struct Timeout<F> {
    sleep: Sleep,
    future: F,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing is moved out.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: pinned as its owner is.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        if let Poll::Ready(value) = future.poll(context) {
            return Poll::Ready(Ok(value));
        }
        let slept = ready!(Pin::new(&mut this.sleep).poll(context));
        Poll::Ready(Err(slept.err().unwrap_or(Error::TimedOut)))
    }
}

impl<F> Timeout<F> {
    /// The time limit.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a [`Time`] out of range.
    pub fn deadline(&self) -> Result<Time, Error> {
        self.sleep.deadline()
    }

    /// The future inside, without its limit.
    pub fn into_inner(self) -> F {
        self.future
    }
}

/// The ticks of [`Wheel::interval`].
#[derive(Debug)]
#[must_use = "an interval does nothing until its tick is waited for"]
pub struct Interval {
    sleep: Sleep,
    period: Period,
}

impl Interval {
    /// Waits for the next tick. Returns the number of periods that were skipped before
    /// it. Dropping a `tick` loses no tick.
    ///
    /// # Errors
    /// As [`Sleep`].
    pub async fn tick(&mut self) -> Result<u32, Error> {
        poll_fn(|context| self.poll_tick(context)).await
    }

    /// The time of the next tick.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a [`Time`] out of range.
    pub fn deadline(&self) -> Result<Time, Error> {
        self.sleep.deadline()
    }

    /// The period.
    pub fn period(&self) -> Period {
        self.period
    }

    /// Moves the next tick to a time, or to a delay from now, such as its period. The others
    /// follow it, each a period later.
    pub fn reset(&mut self, when: impl Into<When>) {
        self.sleep.reset(when);
    }

    /// As `tick`, for a hand-written future.
    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Result<u32, Error>> {
        let (due, now) = (self.sleep.due?, self.sleep.wheel.now()?.as_nanos());
        // A tick that was missed needs no timer.
        if due > now || self.sleep.armed.is_some() {
            ready!(Pin::new(&mut self.sleep).poll(context))?;
        }
        // It may have come meanwhile.
        let now = now.max(due);
        let (length, late) = (nanos(self.period.length), now - due);
        let (next, missed) = match self.period.missed {
            Missed::Skip => (now - late % length, late / length),
            Missed::Delay if late >= length => (now, late / length),
            Missed::Burst | Missed::Delay => (due, 0),
        };
        self.sleep.cancel();
        self.sleep.is_over = false;
        self.sleep.due = Ok(next.saturating_add(length));
        self.sleep.slack = self.period.slack.min(self.period.length);
        Poll::Ready(Ok(u32::try_from(missed).unwrap_or(u32::MAX)))
    }
}
