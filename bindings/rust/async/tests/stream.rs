//! Intervals and delay queues as streams.

use futures_core::Stream;
use hwheel::{Clock, Error, Event, Missed, Options, Period, Time, Wheel};
use hwheel_async::{DelayQueue, VirtualTime, WheelExt};
use std::future::poll_fn;
use std::marker::PhantomPinned;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const START: Time = Time::from_nanos(0);

fn manual() -> Arc<Wheel> {
    Arc::new(Options::new().clock(Clock::Manual).create().unwrap())
}

/// The next item of any stream.
async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

#[test]
fn an_interval_is_a_stream_of_ticks() {
    let wheel = manual();
    let period = Period::from(10 * MS).missed(Missed::Skip);
    let mut interval = wheel.interval(5 * MS, period).unwrap();
    let ticks = wheel.block_on(async {
        for tick in 0..5 {
            assert_eq!(next(&mut interval).await, Some(Ok(0)));
            assert_eq!(wheel.now(), Ok(START + (5 + tick * 10) * MS));
        }
        wheel.sleep(35 * MS).await.unwrap();
        next(&mut interval).await
    });
    assert_eq!(ticks, Ok(Some(Ok(2))));
    assert!(wheel.drain(&mut [Event::default(); 4]).unwrap().is_empty());
    let refused = wheel.block_on(async { next(&mut interval).await });
    assert_eq!(refused, Ok(Some(Err(Error::Shutdown))));
}

#[test]
fn a_delay_queue_is_a_stream_of_items() {
    let wheel = manual();
    // The values need not be Unpin.
    let mut queue: DelayQueue<(char, PhantomPinned)> = DelayQueue::new(&wheel);
    assert_eq!(queue.size_hint(), (0, None));
    let seen = wheel.block_on(async {
        let mut seen = String::new();
        // It ends while it is empty, and goes on afterwards.
        for round in 1..3 {
            queue.insert(('b', PhantomPinned), 2 * MS).unwrap();
            queue.insert(('a', PhantomPinned), MS).unwrap();
            assert_eq!(queue.size_hint(), (2, None));
            while let Some(expired) = next(&mut queue).await {
                seen.push(expired.unwrap().value.0);
            }
            assert_eq!(wheel.now(), Ok(START + round * 2 * MS));
        }
        seen
    });
    assert_eq!(seen.as_deref(), Ok("abab"));
}
