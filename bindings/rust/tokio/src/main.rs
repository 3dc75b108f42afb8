//! Pairs of arming and cancelling a second, with 10,000 other timers pending: the sleep
//! of tokio, the sleep of a wheel, both polled once and dropped, and the wheel with a
//! call for a thousand timers. The best of ten rounds.

use hwheel::{Timer, Wheel, When};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

const PENDING: u64 = 10_000;
const PAIRS: usize = 100_000;
const MANY: usize = 1000;
const HOUR: Duration = Duration::from_secs(3600);

fn best(name: &str, mut way: impl FnMut()) {
    let round = |_| {
        let begin = Instant::now();
        way();
        begin.elapsed()
    };
    let best = (0..10).map(round).min().unwrap_or_default();
    println!("{name} {}", (PAIRS as f64 / best.as_secs_f64()) as u64);
}

fn poll_once(future: impl Future) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(future).poll(&mut context).is_pending());
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), hwheel::Error> {
    let mut others: Vec<_> = (0..PENDING)
        .map(|_| Box::pin(tokio::time::sleep(HOUR)))
        .collect();
    others.iter_mut().for_each(poll_once);
    best("own", || {
        for _ in 0..PAIRS {
            poll_once(tokio::time::sleep(HOUR));
        }
    });
    drop(others);

    let wheel = Arc::new(Wheel::new()?);
    wheel.start()?;
    let mut others: Vec<_> = (0..PENDING).map(|_| wheel.sleep(HOUR)).collect();
    others.iter_mut().for_each(poll_once);
    best("one", || {
        for _ in 0..PAIRS {
            poll_once(wheel.sleep(HOUR));
        }
    });

    let timers = (0..MANY).map(|_| wheel.setup(0));
    let timers: Vec<Timer> = timers.collect::<Result<_, _>>()?;
    let times: Vec<(Timer, When)> = timers.iter().map(|timer| (*timer, HOUR.into())).collect();
    best("many", || {
        for _ in 0..PAIRS / MANY {
            assert_eq!(wheel.arm_many(&times), Ok(MANY));
            assert_eq!(wheel.delete_many(&timers), Ok(MANY));
        }
    });
    Ok(())
}
