//! The names of tokio that its tests of time use: tokio's own, but for `time` and
//! `DelayQueue`, which are on a wheel.
//!
//! A runtime has a wheel that a thread drives. `pause` gives it another one, with virtual
//! time: when every task waits, the clock moves to the next expiry.

pub use real::{io, join, pin, select, spawn, sync, task, test};

pub mod runtime {
    use super::time;
    use std::future::Future;

    /// What `#[tokio::test]` calls.
    pub struct Builder {
        is_paused: bool,
    }

    pub struct Runtime(real::runtime::Runtime, bool);

    impl Builder {
        pub fn new_current_thread() -> Builder {
            Builder { is_paused: false }
        }

        pub fn enable_all(&mut self) -> &mut Builder {
            self
        }

        pub fn start_paused(&mut self, is_paused: bool) -> &mut Builder {
            self.is_paused = is_paused;
            self
        }

        pub fn build(&mut self) -> std::io::Result<Runtime> {
            let mut builder = real::runtime::Builder::new_current_thread();
            let runtime = builder
                .enable_io()
                .on_thread_park(time::when_all_wait)
                .build()?;
            Ok(Runtime(runtime, self.is_paused))
        }
    }

    impl Runtime {
        pub fn block_on<F: Future>(&self, future: F) -> F::Output {
            let _end = time::begin();
            if self.1 {
                time::pause();
            }
            self.0.block_on(future)
        }
    }
}

pub mod time {
    use hwheel::{Clock, Missed, Options, Period, Time, Wheel};
    use hwheel_async::{VirtualTime, WheelExt};
    use std::cell::RefCell;
    use std::future::{Future, IntoFuture};
    use std::ops::{Add, AddAssign, Sub};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{ready, Context, Poll};

    pub use std::time::Duration;

    thread_local! {
        static WHEEL: RefCell<Option<(Arc<Wheel>, bool)>> = const { RefCell::new(None) };
    }

    fn current() -> (Arc<Wheel>, bool) {
        let current = WHEEL.with_borrow(Option::clone);
        current.expect("there is no wheel outside of a runtime")
    }

    fn wheel() -> Arc<Wheel> {
        current().0
    }

    /// Ends the wheel of a runtime.
    pub(crate) struct End;

    impl Drop for End {
        fn drop(&mut self) {
            WHEEL.set(None);
        }
    }

    pub(crate) fn begin() -> End {
        let wheel = Wheel::new().unwrap();
        wheel.start().unwrap();
        WHEEL.set(Some((Arc::new(wheel), false)));
        End
    }

    pub(crate) fn when_all_wait() {
        if let Some((wheel, true)) = WHEEL.with_borrow(Option::clone) {
            if wheel.advance_to_next(&mut []).unwrap().is_some() {
                // The runtime looks again whether all wait, instead of parking.
                real::spawn(async {});
            }
        }
    }

    pub fn pause() {
        let now = wheel().now().unwrap();
        let wheel = Options::new().clock(Clock::Manual).start(now).create();
        WHEEL.set(Some((Arc::new(wheel.unwrap()), true)));
    }

    pub async fn advance(by: Duration) {
        let wheel = wheel();
        wheel.advance(wheel.now().unwrap() + by, &mut []).unwrap();
        real::task::yield_now().await;
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Instant(Time);

    impl Instant {
        pub fn now() -> Instant {
            Instant(wheel().now().unwrap())
        }

        pub fn elapsed(self) -> Duration {
            Instant::now() - self
        }

        /// As tokio's: `None` if an `Instant` cannot show it.
        pub fn checked_add(self, span: Duration) -> Option<Instant> {
            let sum = self.0 + span;
            (sum != Time::NEVER).then_some(Instant(sum))
        }

        /// The time that tokio uses in place of a time that is too late for an `Instant`.
        fn far_future() -> Instant {
            Instant::now() + Duration::from_secs(86400 * 365 * 30)
        }
    }

    impl Add<Duration> for Instant {
        type Output = Instant;
        fn add(self, span: Duration) -> Instant {
            self.checked_add(span).expect("overflow of an instant")
        }
    }

    impl AddAssign<Duration> for Instant {
        fn add_assign(&mut self, span: Duration) {
            *self = *self + span;
        }
    }

    impl Sub<Duration> for Instant {
        type Output = Instant;
        fn sub(self, span: Duration) -> Instant {
            let ns = self.0.as_nanos() - span.as_nanos() as u64;
            Instant(Time::from_nanos(ns))
        }
    }

    impl Sub for Instant {
        type Output = Duration;
        fn sub(self, earlier: Instant) -> Duration {
            self.0 - earlier.0
        }
    }

    /// tokio's must be pinned, and has no errors.
    #[derive(Debug)]
    pub struct Sleep(hwheel_async::Sleep, std::marker::PhantomPinned);

    impl Sleep {
        pub fn deadline(&self) -> Instant {
            Instant(self.0.deadline().unwrap())
        }

        pub fn is_elapsed(&self) -> bool {
            self.0.is_elapsed()
        }

        fn inner(self: Pin<&mut Self>) -> &mut hwheel_async::Sleep {
            // SAFETY: the sleep inside may move.
            unsafe { &mut self.get_unchecked_mut().0 }
        }

        pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
            self.inner().reset(deadline.0);
        }
    }

    impl Future for Sleep {
        type Output = ();
        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            Pin::new(self.inner()).poll(context).map(Result::unwrap)
        }
    }

    fn until(delay: Duration) -> Instant {
        let at = Instant::now().checked_add(delay);
        at.unwrap_or_else(Instant::far_future)
    }

    pub fn sleep(delay: Duration) -> Sleep {
        sleep_until(until(delay))
    }

    pub fn sleep_until(deadline: Instant) -> Sleep {
        Sleep(wheel().sleep(deadline.0), std::marker::PhantomPinned)
    }

    pub mod error {
        #[derive(Debug, PartialEq, Eq)]
        pub struct Elapsed(pub(super) ());
    }

    #[derive(Debug)]
    pub struct Timeout<F>(hwheel_async::Timeout<F>);

    impl<F: Future> Future for Timeout<F> {
        type Output = Result<F::Output, error::Elapsed>;
        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            // SAFETY: pinned as this one is.
            let inner = unsafe { self.map_unchecked_mut(|this| &mut this.0) };
            Poll::Ready(match ready!(inner.poll(context)) {
                Ok(output) => Ok(output),
                Err(hwheel::Error::TimedOut) => Err(error::Elapsed(())),
                Err(e) => panic!("{e}"),
            })
        }
    }

    pub fn timeout<F: IntoFuture>(limit: Duration, future: F) -> Timeout<F::IntoFuture> {
        timeout_at(until(limit), future)
    }

    pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
        Timeout(wheel().timeout(deadline.0, future))
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum MissedTickBehavior {
        Burst,
        Delay,
        Skip,
    }

    impl MissedTickBehavior {
        fn missed(self) -> Missed {
            match self {
                MissedTickBehavior::Burst => Missed::Burst,
                MissedTickBehavior::Delay => Missed::Delay,
                MissedTickBehavior::Skip => Missed::Skip,
            }
        }
    }

    /// An interval of ours chooses what happens to missed ticks when it is made.
    #[derive(Debug)]
    pub struct Interval(hwheel_async::Interval, Duration);

    pub fn interval(period: Duration) -> Interval {
        interval_at(Instant::now(), period)
    }

    pub fn interval_at(first: Instant, period: Duration) -> Interval {
        let burst = Period::new(period).missed(Missed::Burst);
        let interval = wheel().interval(first.0, burst);
        Interval(interval.expect("a period of zero"), period)
    }

    impl Interval {
        /// tokio's gives the time of the tick.
        pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<Instant> {
            let due = self.0.deadline().unwrap();
            self.0.poll_tick(context).map(|missed| {
                missed.unwrap();
                Instant(due)
            })
        }

        pub async fn tick(&mut self) -> Instant {
            std::future::poll_fn(|context| self.poll_tick(context)).await
        }

        pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
            let period = Period::new(self.1).missed(behavior.missed());
            let first = self.0.deadline().unwrap();
            self.0 = wheel().interval(first, period).unwrap();
        }

        pub fn reset(&mut self) {
            self.0.reset(self.1);
        }

        pub fn reset_immediately(&mut self) {
            self.0.reset(Duration::ZERO);
        }

        pub fn reset_after(&mut self, delay: Duration) {
            self.0.reset(delay);
        }

        pub fn reset_at(&mut self, deadline: Instant) {
            self.0.reset(deadline.0);
        }
    }

    // Of tokio_util.

    /// tokio's panics where ours has an error, or none.
    #[derive(Debug)]
    pub struct DelayQueue<T>(hwheel_async::DelayQueue<T>);

    pub type Key = hwheel_async::DelayKey;

    #[derive(Debug)]
    pub struct Expired<T>(hwheel_async::Expired<T>);

    impl<T> Expired<T> {
        pub fn get_ref(&self) -> &T {
            &self.0.value
        }

        pub fn into_inner(self) -> T {
            self.0.value
        }

        pub fn key(&self) -> Key {
            self.0.key
        }
    }

    impl<T> DelayQueue<T> {
        #[allow(clippy::new_without_default)]
        pub fn new() -> Self {
            DelayQueue(hwheel_async::DelayQueue::new(&wheel()))
        }

        pub fn insert(&mut self, value: T, delay: Duration) -> Key {
            self.0.insert(value, delay).unwrap()
        }

        pub fn insert_at(&mut self, value: T, deadline: Instant) -> Key {
            self.0.insert(value, deadline.0).unwrap()
        }

        pub fn reset_at(&mut self, key: &Key, deadline: Instant) {
            assert!(self.0.reset(*key, deadline.0).unwrap(), "no such key");
        }

        pub fn remove(&mut self, key: &Key) -> Expired<T> {
            Expired(self.0.remove(*key).expect("no such key"))
        }

        pub fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
            let next = self.0.poll_next(context);
            next.map(|expired| expired.unwrap().map(Expired))
        }

        pub fn peek(&self) -> Option<Key> {
            self.0.peek()
        }

        pub fn clear(&mut self) {
            self.0.clear();
        }

        pub fn compact(&mut self) {
            self.0.shrink_to_fit();
        }

        pub fn len(&self) -> usize {
            self.0.len()
        }

        pub fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        pub fn capacity(&self) -> usize {
            self.0.capacity()
        }
    }

    impl<T> Unpin for DelayQueue<T> {}

    impl<T> futures_core::Stream for DelayQueue<T> {
        type Item = Expired<T>;
        fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.get_mut().poll_expired(context)
        }
    }
}
