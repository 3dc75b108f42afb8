//! Futures on a timing wheel: sleeping, timeouts, intervals, a delay queue, and virtual time for
//! tests. They run on any executor.
//!
//! A wheel is a [`hwheel::Wheel`] in an `Arc`; [`WheelExt`] gives it the calls below, and
//! [`VirtualTime`] makes a manual clock move by itself. The driver
//! of the wheel wakes the futures: the tick thread, [`poll`](hwheel::Wheel::poll) or
//! [`advance`](hwheel::Wheel::advance). A future keeps its wheel alive.
//!
//! ```
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use hwheel::{Error, Wheel};
//! use hwheel_async::WheelExt;
//! use std::{sync::Arc, time::Duration};
//!
//! let wheel = Arc::new(Wheel::new()?);
//! wheel.start()?;
//!
//! wheel.sleep(Duration::from_millis(10)).await?;
//!
//! let answer = std::future::pending::<()>();
//! let late = wheel.timeout(Duration::from_millis(10), answer).await;
//! assert_eq!(late, Err(Error::TimedOut));
//!
//! let period = Duration::from_millis(10);
//! let mut interval = wheel.interval(period, period)?;
//! for _ in 0..3 {
//!     interval.tick().await?;
//! }
//! # Ok(())
//! # }
//! # use std::future::Future;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! #     let mut run = std::pin::pin!(run());
//! #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! #     loop {
//! #         if let std::task::Poll::Ready(end) = run.as_mut().poll(&mut context) {
//! #             return end;
//! #         }
//! #         std::thread::sleep(std::time::Duration::from_millis(1));
//! #     }
//! # }
//! ```

#![warn(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]

mod delay_queue;
mod futures;
mod stream;
mod virtual_time;

pub use delay_queue::{DelayKey, DelayQueue, Expired};
pub use futures::{Interval, Sleep, Timeout};
pub use virtual_time::VirtualTime;

use hwheel::{Error, Period, Wheel, When};
use std::future::IntoFuture;
use std::sync::Arc;

mod sealed {
    pub trait Sealed {}
    impl Sealed for hwheel::Wheel {}
    impl Sealed for std::sync::Arc<hwheel::Wheel> {}
}

/// The functions for futures of a wheel in an `Arc`.
pub trait WheelExt: sealed::Sealed {
    /// A future that is ready at a time, or after a delay from now. If that time has
    /// passed when the future is first polled, the future is ready at once. Otherwise it
    /// arms its timer then.
    fn sleep(&self, when: impl Into<When>) -> Sleep;

    /// Runs a future until a time, or for a delay from now. A future that is ready
    /// when it is first polled needs no timer. If the time has passed by then and the
    /// future is not ready, the output is [`Error::TimedOut`] at once.
    fn timeout<F: IntoFuture>(&self, when: impl Into<When>, future: F) -> Timeout<F::IntoFuture>;

    /// Ticks at `first`, and then once per period. A period is missed if it passes
    /// before the program waits for its [`tick`](Interval::tick).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the period is zero.
    fn interval(
        &self,
        first: impl Into<When>,
        period: impl Into<Period>,
    ) -> Result<Interval, Error>;
}

impl WheelExt for Arc<Wheel> {
    fn sleep(&self, when: impl Into<When>) -> Sleep {
        Sleep::new(self, when.into())
    }

    fn timeout<F: IntoFuture>(&self, when: impl Into<When>, future: F) -> Timeout<F::IntoFuture> {
        Timeout::new(self.sleep(when), future.into_future())
    }

    fn interval(
        &self,
        first: impl Into<When>,
        period: impl Into<Period>,
    ) -> Result<Interval, Error> {
        Interval::new(self.sleep(first), period.into())
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
