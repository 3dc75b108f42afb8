//! Pairs of cancelling and arming a second, with 10,000 timers pending: the oldest is
//! cancelled and another armed. The sleep of tokio and that of a wheel, each polled once;
//! the wheel with a call for each timer; and with a call for a thousand. It counts the
//! processor time of the whole process: the best of ten rounds.

use hwheel::{Timer, Wheel, When};
use hwheel_async::WheelExt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

const PENDING: usize = 10_000;
const PAIRS: usize = 200_000;
const MANY: usize = 1000;

/// One to two hours, and another for each timer.
fn delay(n: usize) -> Duration {
    Duration::from_millis(3_600_000 + n as u64 * 7919 % PENDING as u64 * 360)
}

/// The processor time of the process, in seconds.
fn spent() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: there is room for one, and zero is one.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn ring(name: &str, mut pair: impl FnMut(usize)) {
    (0..PENDING).for_each(&mut pair);
    let rounds = (0..10).map(|_| {
        let begin = spent();
        (0..PAIRS).for_each(|n| pair(n % PENDING));
        spent() - begin
    });
    let best = rounds.fold(f64::MAX, f64::min);
    println!("{name} {}", (PAIRS as f64 / best) as u64);
}

/// The same for futures. A new one drops the old one in its place.
fn ring_of<F: Future>(name: &str, sleep: impl Fn(Duration) -> F) {
    let mut sleeps: Vec<Pin<Box<Option<F>>>> = (0..PENDING).map(|_| Box::pin(None)).collect();
    let mut context = Context::from_waker(Waker::noop());
    ring(name, |n| {
        sleeps[n].set(Some(sleep(delay(n))));
        let polled = sleeps[n]
            .as_mut()
            .as_pin_mut()
            .map(|s| s.poll(&mut context));
        assert!(polled.is_some_and(|p| p.is_pending()));
    });
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), hwheel::Error> {
    ring_of("own", tokio::time::sleep);

    let wheel = Arc::new(Wheel::new()?);
    wheel.start()?;
    ring_of("form", |delay| wheel.sleep(delay));

    let mut handles = vec![Timer::default(); PENDING];
    ring("one", |n| {
        // Stale at first.
        _ = wheel.delete(handles[n]);
        handles[n] = wheel.once(delay(n), 0).expect("there is room");
    });
    wheel.delete_many(&handles)?;

    for handle in &mut handles {
        *handle = wheel.setup(0)?;
    }
    let times = handles.iter().enumerate();
    let times: Vec<(Timer, When)> = times.map(|(n, timer)| (*timer, delay(n).into())).collect();
    ring("many", |n| {
        if n % MANY == MANY - 1 {
            let these = n + 1 - MANY..=n;
            assert_eq!(wheel.delete_many(&handles[these.clone()]), Ok(MANY));
            assert_eq!(wheel.arm_many(&times[these]), Ok(MANY));
        }
    });
    Ok(())
}
