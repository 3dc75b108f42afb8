//! Virtual time: a manual clock that moves to the next timer when everything waits.

use hwheel::{Error, Event, Time, Wheel};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Unparks a thread, which asks whether it was woken.
struct Woken {
    is_woken: AtomicBool,
    thread: Thread,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: pairs with the swap before a poll.
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Virtual time, for tests: on a manual clock a sleep of an hour takes no time.
pub trait VirtualTime: crate::sealed::Sealed {
    /// Moves a manual clock until a timer fires, and fires all that are due then, as
    /// [`advance`](Wheel::advance). `None` if no timer is pending that ever fires: the clock
    /// stands still then, also where timers were cancelled.
    ///
    /// An executor calls this when all of its tasks wait, as
    /// [`block_on`](VirtualTime::block_on) does. For tokio's current-thread runtime,
    /// `on_thread_park` of its builder is the place. If a timer has fired there, spawn an
    /// empty task, so that the runtime looks again instead of parking.
    ///
    /// # Errors
    /// As [`advance`](Wheel::advance).
    ///
    /// # Panics
    /// As [`advance`](Wheel::advance).
    fn advance_to_next<'e>(&self, events: &'e mut [Event]) -> Result<Option<&'e [Event]>, Error>;

    /// Runs a future to its end on the calling thread. Whenever the future waits, the manual
    /// clock of the wheel moves to the next expiry. With no timer pending, the thread waits
    /// until the future is woken. Timers without a handler and without a future are dropped
    /// and counted as unclaimed.
    ///
    /// ```
    /// use hwheel::{Clock, Error, Options, Time};
    /// use hwheel_async::{VirtualTime, WheelExt};
    /// use std::{future::pending, sync::Arc, time::Duration};
    ///
    /// let hour = Duration::from_secs(3600);
    /// let wheel = Arc::new(Options::new().clock(Clock::Manual).create()?);
    /// let late = wheel.block_on(async {
    ///     wheel.sleep(hour).await?;
    ///     wheel.timeout(hour, pending::<()>()).await
    /// })?;
    /// assert_eq!(late, Err(Error::TimedOut));
    /// assert_eq!(wheel.now()?, Time::default() + 2 * hour);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// The future may be an executor, such as the `run` of smol's `LocalExecutor`. A reply
    /// from another thread or process takes no virtual time: a timeout for it may expire
    /// first.
    ///
    /// # Errors
    /// As [`advance`](Wheel::advance).
    ///
    /// # Panics
    /// As [`advance`](Wheel::advance).
    fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Error>;
}

impl VirtualTime for Wheel {
    fn advance_to_next<'e>(&self, events: &'e mut [Event]) -> Result<Option<&'e [Event]>, Error> {
        let before = self.stats()?.fired;
        loop {
            // Where timers were cancelled or moved, the next expiry may be too early. So this
            // drives where the clock stands, until nothing is left to drop.
            let (mut next, mut entries) = (Some(Time::default()), u64::MAX);
            while next.is_some() {
                let filled = self.advance(self.now()?, events)?.len();
                let stats = self.stats()?;
                if stats.fired != before {
                    return Ok(Some(&events[..filled]));
                }
                let seen = next;
                next = self.next_expiry()?.filter(|_| stats.pending > 0);
                if next == seen && stats.entries >= entries {
                    break;
                }
                entries = stats.entries;
            }
            let Some(next) = next else {
                return Ok(None);
            };
            let filled = self.advance(next, events)?.len();
            if self.stats()?.fired != before {
                return Ok(Some(&events[..filled]));
            }
        }
    }

    fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Error> {
        let woken = Arc::new(Woken {
            is_woken: AtomicBool::new(true),
            thread: thread::current(),
        });
        let waker = Waker::from(woken.clone());
        let mut future = pin!(future);
        loop {
            // Acquire: pairs with the store of a wake.
            if woken.is_woken.swap(false, Ordering::Acquire) {
                let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
                if let Poll::Ready(output) = polled {
                    return Ok(output);
                }
            } else if self.advance_to_next(&mut [])?.is_none()
                && !woken.is_woken.load(Ordering::Acquire)
            {
                thread::park();
            }
        }
    }
}
