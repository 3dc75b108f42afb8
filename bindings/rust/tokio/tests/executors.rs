//! The futures of a wheel on tokio and on smol, and virtual time there.

use hwheel::{Clock, Error, Options, Time, Wheel};
use hwheel_async::{DelayQueue, VirtualTime, WheelExt};
use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn started() -> Arc<Wheel> {
    let wheel = Wheel::new().unwrap();
    wheel.start().unwrap();
    Arc::new(wheel)
}

fn live(wheel: &Wheel) -> u64 {
    wheel.stats().unwrap().live
}

/// Delays that spread over a range, in no order.
fn spread(n: u32, most: Duration) -> Duration {
    most * (n.wrapping_mul(0x9e37_79b9) >> 16) / (1 << 16)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_thousand_sleeps_end_and_none_early() {
    let wheel = started();
    let mut tasks = JoinSet::new();
    for n in 0..100_000 {
        let wheel = wheel.clone();
        tasks.spawn(async move {
            let delay = spread(n, 500 * MS);
            let due = Instant::now() + delay;
            wheel.sleep(delay).await.unwrap();
            assert!(Instant::now() >= due);
        });
    }
    let ended = tasks.join_all().await;
    assert_eq!(ended.len(), 100_000);
    // The driver frees a timer after it has woken its future.
    wheel.stop().unwrap();
    assert_eq!((live(&wheel), Arc::strong_count(&wheel)), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn timeouts_are_won_and_lost_at_once() {
    let wheel = started();
    let mut tasks = JoinSet::new();
    for n in 0..10_000 {
        let wheel = wheel.clone();
        tasks.spawn(async move {
            let (inside, limit) = match n % 2 {
                0 => (spread(n, 100 * MS), HOUR),
                _ => (HOUR, spread(n, 100 * MS)),
            };
            let seen = wheel.timeout(limit, wheel.sleep(inside)).await;
            let want = [Ok(Ok(())), Err(Error::TimedOut)];
            assert_eq!(seen, want[n as usize % 2]);
        });
    }
    assert_eq!(tasks.join_all().await.len(), 10_000);
    wheel.stop().unwrap();
    assert_eq!((live(&wheel), Arc::strong_count(&wheel)), (0, 1));
}

#[tokio::test]
async fn a_timeout_ends_a_read() {
    let wheel = started();
    let (mut here, mut there) = UnixStream::pair().unwrap();
    let mut byte = [0];
    let late = wheel.timeout(10 * MS, here.read(&mut byte)).await;
    assert_eq!(late.unwrap_err(), Error::TimedOut);
    there.write_all(b"x").await.unwrap();
    let read = wheel.timeout(HOUR, here.read(&mut byte)).await;
    assert_eq!((read.unwrap().unwrap(), byte), (1, *b"x"));
}

#[tokio::test]
async fn an_interval_keeps_its_rhythm_beside_other_work() {
    let wheel = started();
    let period = 2 * MS;
    let begin = wheel.now().unwrap();
    let mut interval = wheel.interval(begin + period, period).unwrap();
    let mut periods = 0;
    for n in 0..50 {
        tokio::select! {
            biased;
            missed = interval.tick() => periods += 1 + missed.unwrap(),
            // Drops the tick in its middle.
            () = tokio::task::yield_now() => {}
        }
        if n % 10 == 0 {
            thread::sleep(7 * MS);
        }
        periods += 1 + interval.tick().await.unwrap();
        // The deadline of this tick has passed, and the next may have.
        assert!(wheel.now().unwrap() >= begin + period * periods);
    }
    // Three deadlines at least lie in 7 ms: the tick that is awaited, and two missed.
    assert!(periods >= 50 + 5 * 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_that_are_aborted_leave_nothing() {
    let wheel = started();
    let mut tasks = JoinSet::new();
    let mut aborts = Vec::new();
    for n in 0..20_000 {
        let wheel = wheel.clone();
        let abort = tasks.spawn(async move {
            loop {
                // A time that has passed is ready at once, and a task that never waits cannot be
                // aborted.
                wheel.sleep(MS + spread(n, 10 * MS)).await.unwrap();
            }
        });
        aborts.push(abort);
    }
    tokio::task::spawn_blocking(move || {
        for abort in aborts {
            abort.abort();
        }
    });
    while let Some(ended) = tasks.join_next().await {
        assert!(ended.unwrap_err().is_cancelled());
    }
    wheel.stop().unwrap();
    assert_eq!((live(&wheel), Arc::strong_count(&wheel)), (0, 1));
}

#[test]
fn a_runtime_that_ends_drops_its_sleeps() {
    let wheel = started();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for n in 0..1000 {
        let wheel = wheel.clone();
        runtime.spawn(async move { wheel.sleep(n % 10 * MS + n % 2 * HOUR).await });
    }
    thread::sleep(5 * MS);
    drop(runtime);
    wheel.stop().unwrap();
    assert_eq!((live(&wheel), Arc::strong_count(&wheel)), (0, 1));
}

#[tokio::test]
async fn a_drain_ends_them_with_an_error() {
    let wheel = started();
    let mut tasks = JoinSet::new();
    for _ in 0..1000 {
        let wheel = wheel.clone();
        tasks.spawn(async move { wheel.timeout(HOUR, pending::<()>()).await });
    }
    tokio::task::yield_now().await;
    wheel.stop().unwrap();
    let mut room = [Default::default(); 8];
    assert!(wheel.drain(&mut room).unwrap().is_empty());
    let ended = tasks.join_all().await;
    assert_eq!(ended, vec![Err(Error::Shutdown); 1000]);
}

/// Without a thread of the wheel: a task of tokio drives it.
#[tokio::test]
async fn tokio_itself_drives_a_wheel() {
    let wheel = Arc::new(Options::new().create().unwrap());
    let driven = wheel.clone();
    let driver = tokio::spawn(async move {
        // SAFETY: the descriptor is open as long as the wheel, which outlives this.
        let readable = unsafe { AsyncFd::register(driven.fd().unwrap()) }.unwrap();
        loop {
            let mut ready = readable.readable().await.unwrap();
            // First, as the poll sets the descriptor for the next timer.
            ready.clear_ready();
            driven.poll(&mut []).unwrap();
        }
    });
    let begin = Instant::now();
    for _ in 0..20 {
        wheel.sleep(2 * MS).await.unwrap();
    }
    assert!(begin.elapsed() >= 40 * MS);
    driver.abort();
}

/// Tasks on the threads of smol sleep and are woken, as tasks on those of tokio do.
#[test]
fn smol_runs_them() {
    let wheel = started();
    let tasks: Vec<_> = (0..10_000)
        .map(|n| {
            let wheel = wheel.clone();
            smol::spawn(async move {
                let delay = spread(n, 100 * MS);
                let due = Instant::now() + delay;
                wheel.sleep(delay).await.unwrap();
                assert!(Instant::now() >= due);
                let late = wheel.timeout(delay / 4, pending::<()>()).await;
                assert_eq!(late, Err(Error::TimedOut));
            })
        })
        .collect();
    smol::block_on(async {
        for task in tasks {
            task.await;
        }
        let mut interval = wheel.interval(MS, MS).unwrap();
        for _ in 0..10 {
            interval.tick().await.unwrap();
        }
        drop(interval);
        let mut queue = DelayQueue::new(&wheel);
        for n in 0..1000 {
            queue.insert(n, spread(n, 20 * MS)).unwrap();
        }
        let mut seen = 0;
        while let Some(expired) = queue.next().await.unwrap() {
            assert!(expired.deadline <= wheel.now().unwrap());
            seen += 1;
        }
        assert_eq!(seen, 1000);
    });
    wheel.stop().unwrap();
    assert_eq!((live(&wheel), Arc::strong_count(&wheel)), (0, 1));
}

/// Tasks that sleep for hours in turns, in virtual time. Gives the number of their turns.
async fn hours(wheel: Arc<Wheel>, turns: Arc<AtomicU32>) {
    for n in 1..=10 {
        wheel.sleep(n * HOUR).await.unwrap();
        turns.fetch_add(1, Ordering::Relaxed);
    }
}

fn manual() -> Arc<Wheel> {
    Arc::new(Options::new().clock(Clock::Manual).create().unwrap())
}

#[test]
fn virtual_time_on_smol() {
    let (wheel, turns) = (manual(), Arc::<AtomicU32>::default());
    let executor = smol::LocalExecutor::new();
    let tasks: Vec<_> = (0..100)
        .map(|_| executor.spawn(hours(wheel.clone(), turns.clone())))
        .collect();
    wheel
        .block_on(executor.run(async {
            for task in tasks {
                task.await;
            }
        }))
        .unwrap();
    assert_eq!(turns.load(Ordering::Relaxed), 1000);
    assert_eq!(wheel.now().unwrap(), Time::default() + 55 * HOUR);
}

#[test]
fn virtual_time_on_tokio() {
    let (wheel, turns) = (manual(), Arc::<AtomicU32>::default());
    let driven = wheel.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .on_thread_park(move || {
            if driven.advance_to_next(&mut []).unwrap().is_some() {
                tokio::spawn(async {});
            }
        })
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..100 {
            tasks.spawn(hours(wheel.clone(), turns.clone()));
        }
        tasks.join_all().await;
        let late = wheel.timeout(HOUR, pending::<()>()).await;
        assert_eq!(late, Err(Error::TimedOut));
    });
    assert_eq!(turns.load(Ordering::Relaxed), 1000);
    assert_eq!(wheel.now().unwrap(), Time::default() + 56 * HOUR);
}
