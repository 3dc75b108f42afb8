//! Futures: sleeping, timeouts and intervals.
//!
//! A future arms its timer when it is first polled, unless its time has passed by then. The
//! timer wakes the future: it is a [`Prompt`] with the future's waker. So a drop waits for no
//! thread.
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

use atomic_waker::AtomicWaker;
use hwheel::{Error, Missed, Period, Prompt, Time, Wheel, When};
use std::future::{poll_fn, Future};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll, Waker};
use std::time::Duration;

/// The waker of a future.
#[derive(Debug)]
struct Place(AtomicWaker);

impl hwheel::Wake for Place {
    fn wake(&self) {
        self.0.wake();
    }
}

/// The future of [`WheelExt::sleep`](crate::WheelExt::sleep).
///
/// # Errors
/// [`Error::Limit`], [`Error::NoMemory`]; [`Error::Invalid`] for a
/// [`Time`] out of range; [`Error::Shutdown`] if the wheel was drained, or
/// in a forked child. While a wheel is stopped, it wakes no future.
#[derive(Debug)]
#[must_use = "a future does nothing until it is polled"]
pub struct Sleep {
    wheel: Arc<Wheel>,
    due: Result<Time, Error>,
    slack: Duration,
    /// The timer, with the waker.
    armed: Option<Prompt<Place>>,
    /// A poll or a reset has seen that the time has passed.
    is_over: bool,
}

impl Sleep {
    pub(crate) fn new(wheel: &Arc<Wheel>, when: When) -> Sleep {
        Sleep {
            due: wheel.due(when),
            wheel: wheel.clone(),
            slack: Duration::ZERO,
            armed: None,
            is_over: false,
        }
    }

    /// The time at which it is ready.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a [`Time`] out of range.
    pub fn deadline(&self) -> Result<Time, Error> {
        self.due
    }

    /// Whether it has been ready, or its timer has fired. It is false before the first
    /// poll, also for a time that has passed.
    pub fn is_elapsed(&self) -> bool {
        let ended = || matches!(self.ended(), Some(Ok(())));
        self.is_over || ended()
    }

    /// Moves it to another time, even if it was ready. The task that waits for it is woken
    /// at that time. If that time has passed, the next poll is ready. A [`Time`] out of range
    /// wakes the task at once, and the next poll returns the error.
    pub fn reset(&mut self, when: impl Into<When>) {
        self.due = self.wheel.due(when);
        self.is_over = self.due.is_ok_and(|due| self.wheel.has_passed(due));
        let moved = match (&self.armed, self.due) {
            (Some(timer), Ok(due)) => timer.reset(&self.wheel, due),
            _ => Ok(false),
        };
        if moved != Ok(true) {
            // The task would wait forever for a timer that has no time.
            self.wake();
            self.cancel();
        }
    }

    /// Wakes the task that waits, before the time.
    pub(crate) fn wake(&self) {
        if let Some(timer) = &self.armed {
            timer.target().0.wake();
        }
    }

    fn arm(&self, waker: &Waker) -> Result<Prompt<Place>, Error> {
        let place = Place(AtomicWaker::new());
        place.0.register(waker);
        Prompt::arm(&self.wheel, self.due?, self.slack, place)
    }

    /// How the timer ended, if it was armed and is not pending.
    fn ended(&self) -> Option<Result<(), Error>> {
        match self.armed.as_ref()?.deadline(&self.wheel) {
            Ok(Some(_)) => return None,
            Ok(None) | Err(Error::Stale) => {}
            Err(e) => return Some(Err(e)),
        }
        // A timer that ended before its time was drained.
        Some(match (self.wheel.now(), self.due) {
            (Ok(now), Ok(due)) if now < due => Err(Error::Shutdown),
            (Ok(_), Ok(_)) => Ok(()),
            (Err(e), _) | (_, Err(e)) => Err(e),
        })
    }

    fn cancel(&mut self) {
        if let Some(timer) = self.armed.take() {
            timer.cancel(&self.wheel);
        }
    }
}

impl Future for Sleep {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // The tick of the timer may be still to come.
        let latest = self.due? + self.slack;
        if self.is_over || self.wheel.has_passed(latest) {
            self.wheel.now()?; // Or the error of a forked child.
            self.is_over = true;
            self.cancel();
            return Poll::Ready(Ok(()));
        }
        let Some(timer) = &self.armed else {
            self.armed = Some(self.arm(context.waker())?);
            return Poll::Pending;
        };
        let register = AssertUnwindSafe(|| timer.target().0.register(context.waker()));
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

/// The future of [`WheelExt::timeout`](crate::WheelExt::timeout). Its output is that of the future inside.
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
    pub(crate) fn new(sleep: Sleep, future: F) -> Timeout<F> {
        Timeout { sleep, future }
    }

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

/// The ticks of [`WheelExt::interval`](crate::WheelExt::interval).
#[derive(Debug)]
#[must_use = "an interval does nothing until its tick is waited for"]
pub struct Interval {
    sleep: Sleep,
    period: Period,
}

impl Interval {
    pub(crate) fn new(sleep: Sleep, period: Period) -> Result<Interval, Error> {
        if period.length.is_zero() {
            return Err(Error::Invalid);
        }
        Ok(Interval { sleep, period })
    }

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
        let due = self.sleep.due?.as_nanos();
        let now = self.sleep.wheel.now()?.as_nanos();
        // A tick that was missed needs no timer.
        if due > now || self.sleep.armed.is_some() {
            ready!(Pin::new(&mut self.sleep).poll(context))?;
        }
        // It may have come meanwhile.
        let now = now.max(due);
        let length = u64::try_from(self.period.length.as_nanos()).unwrap_or(u64::MAX);
        let late = now - due;
        let (next, missed) = match self.period.missed {
            Missed::Skip => (now - late % length, late / length),
            Missed::Delay if late >= length => (now, late / length),
            Missed::Burst | Missed::Delay => (due, 0),
        };
        self.sleep.cancel();
        self.sleep.is_over = false;
        self.sleep.due = Ok(Time::from_nanos(next) + self.period.length);
        self.sleep.slack = self.period.slack.min(self.period.length);
        Poll::Ready(Ok(u32::try_from(missed).unwrap_or(u32::MAX)))
    }
}
