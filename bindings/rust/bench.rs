//! Events per second: by batches, and by a call of the handler for each timer.
//! The best of thirty rounds; a round is a hundred thousand timers over a
//! thousand ticks.

use hwheel::{Clock, Event, Options, Time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TIMERS: u64 = 100_000;
const TICK: u64 = 1_000_000;
const END: Time = Time::from_nanos(1000 * TICK);

static TOTAL: AtomicU64 = AtomicU64::new(0);

/// Counts as one thread does, without a locked instruction.
fn count(cookie: u64) {
    let total = TOTAL.load(Ordering::Relaxed);
    TOTAL.store(total + cookie, Ordering::Relaxed);
}

fn round(options: Options) -> Result<Duration, hwheel::Error> {
    let wheel = options.clock(Clock::Manual).create()?;
    for cookie in 0..TIMERS {
        wheel.once(Time::from_nanos(cookie % 1000 * TICK), cookie)?;
    }
    TOTAL.store(0, Ordering::Relaxed);
    let mut events = [Event::default(); 1024];
    let begin = Instant::now();
    loop {
        let due = wheel.advance(END, &mut events)?;
        due.iter().for_each(|event| count(event.cookie));
        if due.len() < 1024 {
            break;
        }
    }
    let took = begin.elapsed();
    assert_eq!(TOTAL.load(Ordering::Relaxed), TIMERS * (TIMERS - 1) / 2);
    Ok(took)
}

fn rate(options: impl Fn() -> Options) -> Result<u64, hwheel::Error> {
    let mut best = Duration::MAX;
    for _ in 0..30 {
        best = best.min(round(options())?);
    }
    Ok((TIMERS as f64 / best.as_secs_f64()) as u64)
}

fn main() -> Result<(), hwheel::Error> {
    println!("batch {}", rate(Options::new)?);
    let handler = || Options::new().handler(|_, event| count(event.cookie));
    println!("callback {}", rate(handler)?);
    Ok(())
}
