//! Timers that wake something: what the crate hwheel-async makes futures of.

use super::error::Error;
use super::event::Timer;
use super::time::{nanos, Time};
use super::wake::{Place, Wake};
use super::wheel::Wheel;
use crate::core::arm::How;
use crate::core::life::Spec;
use crate::core::ticks::AUTO;
use crate::runtime::callbacks::PROMPT;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A timer that wakes something when it fires or is drained, for crates that build on a
/// wheel, such as `hwheel-async`.
///
/// The thread that drives or drains the wheel calls [`Wake::wake`], whether the wheel has
/// a handler, workers, or neither. The timer is no event: neither [`Wheel::list`] nor
/// [`Wheel::drain`] shows it. If a prompt is dropped and not cancelled, its timer stays.
///
/// ```
/// use hwheel::{Clock, Options, Prompt, Time, Wake};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::time::Duration;
///
/// struct Count(AtomicU32);
///
/// impl Wake for Count {
///     fn wake(&self) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// let wheel = Options::new().clock(Clock::Manual).create()?;
/// let due = Time::from_nanos(5_000_000);
/// let prompt = Prompt::arm(&wheel, due, Duration::ZERO, Count(AtomicU32::new(0)))?;
/// wheel.advance(due, &mut [])?;
/// assert_eq!(prompt.target().0.load(Ordering::Relaxed), 1);
/// # Ok::<(), hwheel::Error>(())
/// ```
#[must_use = "a timer that is not cancelled stays until its time"]
pub struct Prompt<T> {
    timer: Timer,
    place: Arc<Place<T>>,
}

impl<T: Wake> Prompt<T> {
    /// Arms a timer that wakes `target` at a time, or up to `slack` later.
    ///
    /// # Errors
    /// As [`Wheel::once`].
    pub fn arm(wheel: &Wheel, due: Time, slack: Duration, target: T) -> Result<Prompt<T>, Error> {
        let (due, slack) = (wheel.due(due)?.as_nanos(), nanos(slack));
        let host = wheel.host();
        host.check_mine()?;
        let place = Arc::new(Place::new(target));
        let owned = place.clone();
        let spec = Spec {
            func: PROMPT,
            cookie: Arc::as_ptr(&place).expose_provenance() as u64,
            kind: AUTO,
            ..Spec::default()
        };
        let timer = host.setup(spec, (slack == 0).then_some(due))?;
        if slack != 0 {
            host.arm(timer, due, How::Within(slack))
                .inspect_err(|_| _ = host.wheel.free(host, timer))?;
        }
        // It is the timer's, and `end` may have taken it over already.
        std::mem::forget(owned);
        let timer = Timer::new(host, timer);
        Ok(Prompt { timer, place })
    }
}

// The wheel of these calls is that of `arm`. With another one they find no timer.
impl<T> Prompt<T> {
    /// The thing that the prompt wakes.
    #[inline]
    pub fn target(&self) -> &T {
        &self.place.target
    }

    /// The time at which the timer is due, if it is pending.
    ///
    /// # Errors
    /// [`Error::Stale`] once it has ended; [`Error::Shutdown`] in a forked child.
    #[inline]
    pub fn deadline(&self, wheel: &Wheel) -> Result<Option<Time>, Error> {
        wheel.deadline(self.timer)
    }

    /// Moves the timer if it is pending; false if it is not.
    ///
    /// # Errors
    /// As [`Wheel::arm_if_pending`].
    pub fn reset(&self, wheel: &Wheel, due: Time) -> Result<bool, Error> {
        wheel.arm_if_pending(self.timer, due)
    }

    /// Cancels the timer: true if it was pending, and wakes nothing.
    pub fn cancel(self, wheel: &Wheel) -> bool {
        // A pending timer owns a count.
        let cancelled = Arc::strong_count(&self.place) > 1 && wheel.delete(self.timer) == Ok(true);
        if cancelled {
            // SAFETY: the timer was pending and owned this count.
            unsafe { Arc::decrement_strong_count(Arc::as_ptr(&self.place)) };
        }
        cancelled
    }
}

impl<T> fmt::Debug for Prompt<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt")
            .field("timer", &self.timer)
            .finish_non_exhaustive()
    }
}
