//! The `Timer` of async-io that its tests use, on a wheel that a thread drives.

use futures_core::Stream;
use hwheel::{Period, Wheel};
use hwheel_async::WheelExt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

static WHEEL: LazyLock<Arc<Wheel>> = LazyLock::new(|| {
    let wheel = Wheel::new().unwrap();
    wheel.start().unwrap();
    Arc::new(wheel)
});

/// One type is the future and the stream there.
pub enum Timer {
    After(hwheel_async::Sleep),
    Interval(hwheel_async::Interval),
}

impl Timer {
    pub fn after(delay: Duration) -> Timer {
        Timer::After(WHEEL.sleep(delay))
    }

    pub fn interval(period: Duration) -> Timer {
        Timer::Interval(WHEEL.interval(period, Period::new(period)).unwrap())
    }

    pub fn set_after(&mut self, delay: Duration) {
        match self {
            Timer::After(sleep) => sleep.reset(delay),
            Timer::Interval(_) => *self = Timer::after(delay),
        }
    }

    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
        let ended = match self {
            Timer::After(sleep) => Pin::new(sleep).poll(context).map(Result::unwrap),
            Timer::Interval(ticks) => ticks.poll_tick(context).map(|missed| _ = missed.unwrap()),
        };
        ended.map(|()| Instant::now())
    }
}

impl Future for Timer {
    type Output = Instant;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Instant> {
        self.get_mut().poll_timer(context)
    }
}

impl Stream for Timer {
    type Item = Instant;
    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Instant>> {
        self.get_mut().poll_timer(context).map(Some)
    }
}
