//! Calls in every order and from every thread: none of them ends the process, and none
//! hangs.

use hwheel::{Bounds, Clock, Error, Event, Options, Period, Time, Timer, Wheel, When};
use hwheel_async::{DelayQueue, VirtualTime, WheelExt};
use std::future::{pending, Future};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

fn result<T>(result: Result<T, Error>) -> Result<(), Error> {
    result.map(|_| ())
}

/// Every call of a wheel but those that end it; `see` gets the name and the result of each.
fn every_call(wheel: &Wheel, timer: Timer, mut see: impl FnMut(&str, Result<(), Error>)) {
    let mut events = [Event::default(); 2];
    see("now", result(wheel.now()));
    see("time_of", result(wheel.time_of(Instant::now())));
    see("next_expiry", result(wheel.next_expiry()));
    see("stats", result(wheel.stats()));
    see("list", wheel.list(|_| true));
    see("once", result(wheel.once(MS, 1)));
    see("every", result(wheel.every(MS, MS, 2)));
    see("setup", result(wheel.setup(3)));
    see("arm", result(wheel.arm(timer, MS)));
    see("arm_many", result(wheel.arm_many(&[(timer, MS.into())])));
    see("reduce", result(wheel.reduce(timer, MS)));
    see("arm_if_pending", result(wheel.arm_if_pending(timer, MS)));
    see("arm_range", result(wheel.arm_range(timer, MS, MS)));
    see("set_period", wheel.set_period(timer, MS));
    see("pending", result(wheel.pending(timer)));
    see("deadline", result(wheel.deadline(timer)));
    see("delete", result(wheel.delete(timer)));
    see("delete_many", result(wheel.delete_many(&[timer])));
    see("delete_sync", result(wheel.delete_sync(timer)));
    see("key_set", result(wheel.key_set(b"key", MS, 4)));
    see("key_mod", result(wheel.key_mod(b"key", MS)));
    see("key_pending", result(wheel.key_pending(b"key")));
    see("key_delete", result(wheel.key_delete(b"key")));
    see("poll", result(wheel.poll(&mut events)));
    let bounds = Bounds::new().timers(1);
    see(
        "poll_within",
        result(wheel.poll_within(bounds, &mut events)),
    );
    see(
        "advance",
        result(wheel.advance(Time::default(), &mut events)),
    );
    see(
        "advance_to_next",
        result(wheel.advance_to_next(&mut events)),
    );
    see("fd", result(wheel.fd()));
    see("wait", result(wheel.wait(Some(Duration::ZERO))));
    see("shutdown", result(wheel.shutdown(timer)));
    see("shutdown_sync", result(wheel.shutdown_sync(timer)));
    see("free", result(wheel.free(timer)));
}

/// One poll of each kind of future, which are dropped then.
fn every_future(wheel: &Arc<Wheel>, waker: &Waker, delay: Duration) {
    let mut context = Context::from_waker(waker);
    let mut sleep = wheel.sleep(delay);
    _ = pin!(&mut sleep).poll(&mut context);
    sleep.reset(delay);
    _ = (sleep.is_elapsed(), sleep.deadline());
    _ = pin!(&mut sleep).poll(&mut context);
    _ = pin!(wheel.timeout(delay, pending::<()>())).poll(&mut context);
    if let Ok(mut interval) = wheel.interval(delay, Period::new(delay).slack(delay)) {
        _ = interval.poll_tick(&mut context);
        interval.reset(delay);
        _ = interval.poll_tick(&mut context);
    }
    let mut queue = DelayQueue::new(wheel);
    for n in 0..3 {
        if let Ok(key) = queue.insert(n, delay) {
            _ = queue.poll_next(&mut context);
            _ = queue.reset(key, delay * n);
            if n == 1 {
                _ = queue.remove(key);
            }
        }
    }
    _ = queue.poll_next(&mut context);
}

#[test]
fn the_last_owner_goes_while_threads_use_it_start_stop_and_drain() {
    for round in 0..40_u32 {
        let options = Options::new().tick(Duration::from_micros(100));
        let wheel = match round % 3 {
            0 => options.create(),
            1 => options.handler(|_, _| ()).create(),
            _ => options.handler(|_, _| ()).workers(2).create(),
        };
        let wheel = Arc::new(wheel.unwrap());
        let threads: Vec<_> = (0..4_u32)
            .map(|n| {
                let wheel = wheel.clone();
                thread::spawn(move || {
                    for i in 0..20 * (n + 1) {
                        let timer = wheel.setup(0).unwrap_or_default();
                        every_call(&wheel, timer, |_, _| ());
                        every_future(&wheel, Waker::noop(), Duration::from_micros(i.into()));
                        match n {
                            0 => _ = wheel.start(),
                            1 => _ = wheel.stop(),
                            2 if round % 2 == 1 && i == 40 => {
                                let mut events = [Event::default(); 64];
                                while wheel.drain(&mut events).is_ok_and(|e| e.len() == 64) {}
                            }
                            _ => {}
                        }
                    }
                })
            })
            .collect();
        drop(wheel);
        for thread in threads {
            thread.join().unwrap();
        }
    }
}

#[test]
fn a_handler_calls_everything() {
    let over = Arc::new(AtomicBool::new(false));
    let told = over.clone();
    let wheel = Options::new().handler(move |wheel, event| {
        every_call(wheel, Timer::default(), |_, _| ());
        assert_eq!(wheel.delete_sync(event.timer), Err(Error::Deadlock));
        assert_eq!(wheel.stop(), Err(Error::Deadlock));
        assert_eq!(wheel.drain(&mut [Event::default()]), Err(Error::Deadlock));
        _ = wheel.free(event.timer);
        told.store(true, SeqCst);
    });
    let wheel = wheel.create().unwrap();
    wheel.start().unwrap();
    wheel.arm(wheel.setup(0).unwrap(), Duration::ZERO).unwrap();
    while !over.load(SeqCst) {
        thread::yield_now();
    }
    wheel.stop().unwrap();
}

/// A waker that uses the wheel, makes futures and drops them.
struct Uses(Arc<Wheel>, AtomicU64);

impl Wake for Uses {
    fn wake(self: Arc<Self>) {
        if self.1.fetch_add(1, SeqCst) < 100 {
            every_call(&self.0, Timer::default(), |_, _| ());
            every_future(&self.0, &Waker::from(self.clone()), MS);
        }
    }
}

#[test]
fn a_waker_calls_everything() {
    let wheel = Arc::new(Wheel::new().unwrap());
    wheel.start().unwrap();
    let uses = Arc::new(Uses(wheel.clone(), AtomicU64::new(0)));
    let waker = Waker::from(uses.clone());
    let mut sleep = wheel.sleep(MS);
    while uses.1.load(SeqCst) == 0 {
        _ = pin!(&mut sleep).poll(&mut Context::from_waker(&waker));
        thread::sleep(2 * MS);
        sleep.reset(MS);
    }
    wheel.stop().unwrap();
}

#[test]
fn a_drained_wheel_refuses_to_arm() {
    let wheel = Arc::new(Wheel::new().unwrap());
    let timer = wheel.setup(0).unwrap();
    let mut queue = DelayQueue::new(&wheel);
    queue.insert(1, MS).unwrap();
    wheel.drain(&mut [Event::default(); 8]).unwrap();
    every_call(&wheel, timer, |name, seen| {
        let arms = [
            "once",
            "every",
            "setup",
            "arm",
            "reduce",
            "arm_range",
            "key_set",
        ];
        if arms.contains(&name) {
            assert_eq!(seen, Err(Error::Shutdown), "{name}");
        }
    });
    every_future(&wheel, Waker::noop(), MS);
    let mut context = Context::from_waker(Waker::noop());
    assert!(queue.poll_next(&mut context).is_ready());
    assert_eq!(queue.insert(2, MS), Err(Error::Shutdown));
}

#[test]
fn arguments() {
    let wheel = Options::new().clock(Clock::Manual).create().unwrap();
    let wheel = Arc::new(wheel);
    let other = Options::new().clock(Clock::Manual).create().unwrap();
    for stale in [Timer::default(), other.setup(1).unwrap()] {
        assert_eq!(wheel.arm(stale, MS), Err(Error::Stale));
        assert_eq!(wheel.delete_sync(stale), Err(Error::Stale));
        assert_eq!(wheel.free(stale), Err(Error::Stale));
        assert_eq!(wheel.arm_many(&[(stale, MS.into()); 3]), Ok(0));
    }
    let timer = wheel.setup(1).unwrap();
    for ns in [1 << 63, u64::MAX - 1] {
        let bad = Time::from_nanos(ns);
        assert_eq!(wheel.once(bad, 1), Err(Error::Invalid));
        assert_eq!(wheel.arm(timer, bad), Err(Error::Invalid));
        assert_eq!(wheel.key_set(b"k", bad, 1), Err(Error::Invalid));
        assert_eq!(result(wheel.advance(bad, &mut [])), Err(Error::Invalid));
        assert_eq!(wheel.sleep(bad).deadline(), Err(Error::Invalid));
        let mut queue = DelayQueue::new(&wheel);
        assert_eq!(queue.insert(1, bad), Err(Error::Invalid));
        assert!(queue.is_empty());
    }
    for key in [&b""[..], &[0; 256]] {
        assert_eq!(wheel.key_set(key, MS, 1), Err(Error::Invalid));
    }
    assert_eq!(wheel.every(MS, Duration::ZERO, 1), Err(Error::Invalid));
    assert_eq!(
        wheel.interval(MS, Duration::ZERO).err(),
        Some(Error::Invalid)
    );
    assert_eq!(wheel.drain(&mut []), Err(Error::Invalid));
    for when in [When::After(Duration::MAX), Time::NEVER.into()] {
        assert_eq!(wheel.arm(timer, when), Ok(false));
        assert_eq!(wheel.delete(timer), Ok(true));
    }
    assert_eq!(wheel.pending(timer), Ok(false));
    for wrong in [
        Options::new().tick(Duration::MAX),
        Options::new().levels(9),
        Options::new().slots(3),
        Options::new().max_timers(u32::MAX),
        Options::new().workers(u32::MAX),
    ] {
        assert!(wrong.create().is_err());
    }
}

#[test]
fn a_forked_child_gets_errors() {
    let wheel = Arc::new(Wheel::new().unwrap());
    wheel.start().unwrap();
    let timer = wheel.setup(1).unwrap();
    let mut queue = DelayQueue::new(&wheel);
    queue.insert(1, MS).unwrap();
    // SAFETY: the child makes calls and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut right = true;
        every_call(&wheel, timer, |_, seen| {
            right &= seen == Err(Error::Shutdown)
        });
        right &= wheel.start() == Err(Error::Shutdown) && wheel.stop() == Err(Error::Shutdown);
        every_future(&wheel, Waker::noop(), MS);
        right &= queue.insert(2, MS) == Err(Error::Shutdown);
        drop((queue, wheel));
        // SAFETY: it does not return.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = 1;
    // SAFETY: the process is a child of this one.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(wheel.delete(timer), Ok(false));
}
