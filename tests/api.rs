//! The Rust API, as a user has it.

#![cfg(not(checked))]

use hwheel::{
    Bounds, Clock, Error, Event, Missed, Options, Overload, Period, Time, Timer, Wheel, When,
};
use hwheel::{DisownedWheel, Prompt, Sender, Wake};
use std::collections::HashSet;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
const START: Time = Time::from_nanos(0);

fn manual() -> Options {
    Options::new().clock(Clock::Manual)
}

/// A wheel with a handler.
fn handled(options: Options, f: impl Fn(&Wheel, &Event) + Send + Sync + 'static) -> Wheel {
    options.handler(f).create().unwrap()
}

/// A wheel with a handler, which its own thread drives.
fn started(options: Options, f: impl Fn(&Wheel, &Event) + Send + Sync + 'static) -> Wheel {
    let wheel = handled(options, f);
    wheel.start().unwrap();
    wheel
}

/// Drives a manual wheel to its `ms`-th millisecond.
fn advance(wheel: &Wheel, ms: u32) -> Vec<Event> {
    let mut room = [Event::default(); 64];
    wheel.advance(START + ms * MS, &mut room).unwrap().to_vec()
}

#[test]
fn an_event_tells_timer_cookie_and_deadline() {
    let wheel = manual().create().unwrap();
    let timer = wheel.once(5 * MS, u64::MAX).unwrap();
    assert_eq!(advance(&wheel, 4), []);
    let want = Event {
        timer,
        cookie: u64::MAX,
        deadline: START + 5 * MS,
        missed: 0,
        drained: false,
    };
    assert_eq!(advance(&wheel, 5), [want]);
    assert_eq!(advance(&wheel, 6), []);
}

#[test]
fn a_full_batch_means_there_may_be_more() {
    let wheel = manual().create().unwrap();
    for cookie in 0..10 {
        wheel.once(START + cookie as u32 * MS, cookie).unwrap();
    }
    let (mut room, mut seen) = ([Event::default(); 4], Vec::new());
    for want in [4, 4, 2, 0] {
        let due = wheel.advance(START + 20 * MS, &mut room).unwrap();
        assert_eq!(due.len(), want);
        seen.extend(due.iter().map(|e| e.cookie));
    }
    assert!(seen.into_iter().eq(0..10));
}

#[test]
fn missed_periods_are_counted_or_fired_or_move_the_rhythm() {
    for (missed, fired, left_out, next) in [
        (Missed::Skip, 1, 2, 13),
        (Missed::Burst, 3, 0, 13),
        (Missed::Delay, 1, 2, 15),
    ] {
        let wheel = manual().create().unwrap();
        let period = Period::new(4 * MS).missed(missed);
        let timer = wheel.every(MS, period, 0).unwrap();
        let due = advance(&wheel, 11);
        assert_eq!((due.len(), due[0].missed), (fired, left_out));
        assert_eq!(wheel.deadline(timer), Ok(Some(START + next * MS)));
        assert_eq!(wheel.delete(timer), Ok(true));
        assert_eq!(wheel.delete(timer), Err(Error::Stale));
    }
    let wheel = manual().create().unwrap();
    let none = wheel.every(MS, Duration::ZERO, 0);
    assert_eq!(none, Err(Error::Invalid));
}

#[test]
fn a_timer_is_armed_again_and_again() {
    let wheel = manual().create().unwrap();
    let timer = wheel.setup(7).unwrap();
    assert_eq!(wheel.pending(timer), Ok(false));
    assert_eq!(wheel.arm_if_pending(timer, MS), Ok(false));
    assert_eq!(wheel.arm(timer, 10 * MS), Ok(false));
    assert_eq!(wheel.reduce(timer, START + 20 * MS), Ok(true));
    assert_eq!(wheel.deadline(timer), Ok(Some(START + 10 * MS)));
    assert_eq!(wheel.arm(timer, START + 3 * MS), Ok(true));
    assert_eq!(wheel.next_expiry(), Ok(Some(START + 3 * MS)));
    assert_eq!(advance(&wheel, 3)[0].cookie, 7);
    assert_eq!(wheel.arm(timer, Duration::MAX), Ok(false));
    assert_eq!(wheel.deadline(timer), Ok(Some(Time::NEVER)));
    assert_eq!(wheel.next_expiry(), Ok(None));
    wheel.prefetch(timer);
    wheel.prefetch(Timer::default());
    assert_eq!(wheel.shutdown(timer), Ok(true));
    assert_eq!(wheel.arm(timer, MS), Err(Error::Shutdown));
    assert_eq!(wheel.free(timer), Ok(false));
    assert_eq!(wheel.free(timer), Err(Error::Stale));
}

#[test]
fn many_are_armed_and_cancelled_in_one_call() {
    let wheel = manual().create().unwrap();
    let [a, b, c] = [0, 1, 2].map(|cookie| wheel.setup(cookie).unwrap());
    wheel.free(b).unwrap();
    let arms = [
        (a, When::After(MS)),
        (b, When::After(MS)),
        (c, When::At(START + 2 * MS)),
    ];
    assert_eq!(wheel.arm_many(&arms), Ok(2));
    assert_eq!(wheel.deadline(a), Ok(Some(START + MS)));
    assert_eq!(wheel.deadline(c), Ok(Some(START + 2 * MS)));
    assert_eq!(wheel.delete_many(&[a, b, a]), Ok(2));
    assert_eq!(wheel.pending(a), Ok(false));
    assert_eq!(wheel.pending(c), Ok(true));
    assert_eq!(wheel.arm_many(&[]), Ok(0));
}

#[test]
fn a_key_that_is_set_again_moves_its_timer() {
    let wheel = manual().create().unwrap();
    assert_eq!(wheel.key_set(b"a", MS, 1), Ok(false));
    assert_eq!(wheel.key_set(b"b", MS, 2), Ok(false));
    assert_eq!(wheel.key_set(b"a", 2 * MS, 3), Ok(true));
    assert_eq!(wheel.key_mod(b"b", START + 3 * MS), Ok(true));
    assert_eq!(advance(&wheel, 1), []);
    let due = advance(&wheel, 2);
    assert_eq!((due[0].cookie, due[0].timer), (3, Timer::default()));
    assert_eq!(wheel.key_pending(b"a"), Ok(false));
    assert_eq!(wheel.key_mod(b"a", MS), Ok(false));
    assert_eq!(wheel.key_pending(b"b"), Ok(true));
    assert_eq!(wheel.key_delete(b"b"), Ok(true));
    assert_eq!(wheel.key_delete(b"b"), Ok(false));
    for wrong in [&[][..], &[0; 256]] {
        assert_eq!(wheel.key_set(wrong, MS, 0), Err(Error::Invalid));
        assert_eq!(wheel.key_delete(wrong), Err(Error::Invalid));
    }
}

#[test]
fn what_is_armed_is_drained() {
    let wheel = manual().create().unwrap();
    let timers = [1, 2, 3].map(|cookie| wheel.once(MS, cookie).unwrap());
    let (mut room, mut back) = ([Event::default(); 2], HashSet::new());
    assert_eq!(wheel.drain(&mut []), Err(Error::Invalid));
    for want in [2, 1, 0] {
        let drained = wheel.drain(&mut room).unwrap();
        assert_eq!(drained.len(), want);
        assert!(drained.iter().all(|e| e.drained));
        back.extend(drained.iter().map(|e| e.timer));
    }
    assert_eq!(back, HashSet::from(timers));
    assert_eq!(wheel.once(MS, 4), Err(Error::Shutdown));
}

#[test]
fn what_is_out_of_range_is_refused() {
    for options in [
        manual().slots(3),
        manual().levels(9),
        manual().tick(Duration::MAX),
        manual().max_timers(u32::MAX),
        Options::new().start(Time::from_nanos(1)),
    ] {
        assert_eq!(options.create().err(), Some(Error::Invalid));
    }
    let one = manual().max_timers(1).start(START + MS).create().unwrap();
    assert_eq!(one.now(), Ok(START + MS));
    one.once(MS, 0).unwrap();
    assert_eq!(one.once(MS, 0), Err(Error::Limit));
    assert_eq!(one.poll(&mut []), Err(Error::Invalid));
    assert_eq!(one.fd().err(), Some(Error::Invalid));
    assert_eq!(one.start(), Err(Error::Invalid));
    let system = std::io::Error::from(Error::Limit);
    assert_eq!(system.raw_os_error(), Some(Error::Limit.errno()));
}

#[test]
fn a_timer_at_an_instant_is_not_early() {
    let wheel = Wheel::new().unwrap();
    let instant = Instant::now() + 20 * MS;
    wheel.once(wheel.time_of(instant).unwrap(), 0).unwrap();
    let mut room = [Event::default(); 2];
    while wheel.poll(&mut room).unwrap().is_empty() {
        wheel.wait(None).unwrap();
    }
    assert!(Instant::now() >= instant);
    assert_eq!(wheel.wait(Some(MS)), Ok(false));
}

#[test]
fn many_threads_arm_and_none_is_early_lost_or_doubled() {
    const EACH: u64 = 1000;
    let wheel = Wheel::new().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let wheel = &wheel;
            scope.spawn(move || {
                for i in 0..EACH {
                    let delay = (i % 20) as u32 * MS;
                    wheel.once(delay, thread * EACH + i).unwrap();
                    let far = wheel.once(3_600_000 * MS, 0).unwrap();
                    assert_eq!(wheel.delete(far), Ok(true));
                }
            });
        }
        let (mut room, mut seen) = ([Event::default(); 256], HashSet::new());
        while seen.len() < 4 * EACH as usize {
            wheel.wait(None).unwrap();
            let due = wheel.poll(&mut room).unwrap();
            let now = wheel.now().unwrap();
            for event in due {
                assert!(event.deadline <= now);
                assert!(seen.insert(event.cookie));
            }
        }
    });
    assert_eq!(wheel.drain(&mut [Event::default()]), Ok(&[][..]));
}

#[test]
fn the_handler_arms_and_cancels_and_cannot_wait_for_itself() {
    let (tell, told) = mpsc::channel();
    let wheel = handled(manual(), move |wheel, event| {
        let timer = event.timer;
        tell.send((event.cookie, wheel.delete_sync(timer))).unwrap();
        assert_eq!(wheel.advance(START, &mut []), Err(Error::Busy));
        assert_eq!(wheel.stop(), Err(Error::Deadlock));
        if event.cookie > 0 {
            let far = wheel.once(MS, 9).unwrap();
            wheel.once(MS, event.cookie - 1).unwrap();
            assert_eq!(wheel.delete(far), Ok(true));
        }
    });
    wheel.once(MS, 2).unwrap();
    for ms in 1..4 {
        assert_eq!(advance(&wheel, ms), []);
    }
    let want = [2, 1, 0].map(|cookie| (cookie, Err(Error::Deadlock)));
    assert!(told.try_iter().eq(want));
}

#[test]
fn delete_sync_waits_for_the_handler() {
    let at = Arc::new(AtomicU64::new(0));
    let place = at.clone();
    let wheel = started(Options::new(), move |_, _| {
        place.store(1, Ordering::SeqCst);
        std::thread::sleep(50 * MS);
        place.store(2, Ordering::SeqCst);
    });
    assert_eq!(wheel.start(), Err(Error::Busy));
    let timer = wheel.setup(0).unwrap();
    wheel.arm(timer, MS).unwrap();
    while at.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    assert_eq!(wheel.delete_sync(timer), Ok(false));
    assert_eq!(at.load(Ordering::SeqCst), 2);
    wheel.stop().unwrap();
}

#[test]
fn a_panic_of_the_handler_is_resumed_where_the_wheel_is_driven() {
    let wheel = handled(manual(), |_, event| {
        assert!(event.cookie > 1, "cookie {}", event.cookie);
    });
    for cookie in 0..3 {
        wheel.once((1 + cookie as u32) * MS, cookie).unwrap();
    }
    let panic = catch_unwind(|| advance(&wheel, 3)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"cookie 0".to_string()));
    assert_eq!(wheel.next_expiry(), Ok(None));
    assert_eq!(advance(&wheel, 4), []);
}

#[test]
fn a_panic_in_the_wheels_thread_is_resumed_by_stop() {
    let (tell, told) = mpsc::channel();
    let wheel = started(Options::new(), move |_, event| {
        tell.send(event.cookie).unwrap();
        if event.cookie == 1 {
            // As a panic, but prints nothing.
            resume_unwind(Box::new("on purpose"));
        }
    });
    wheel.once(MS, 1).unwrap();
    assert_eq!(told.recv(), Ok(1));
    wheel.once(MS, 2).unwrap();
    assert_eq!(told.recv(), Ok(2));
    assert!(catch_unwind(|| wheel.stop()).is_err());
    assert_eq!(wheel.stop(), Ok(()));
}

#[test]
fn a_slow_handler_does_not_delay_the_rest_if_there_are_workers() {
    let (tell, told) = mpsc::channel();
    let (go_on, wait) = mpsc::channel();
    let wait = Mutex::new(wait);
    let wheel = started(Options::new().workers(2), move |_, event| {
        if event.cookie == 1 {
            wait.lock().unwrap().recv().unwrap();
        }
        let by = std::thread::current().id();
        tell.send((event.cookie, by)).unwrap();
    });
    wheel.once(MS, 1).unwrap();
    wheel.once(2 * MS, 2).unwrap();
    let (second, by) = told.recv().unwrap();
    go_on.send(()).unwrap();
    let (first, other) = told.recv().unwrap();
    assert_eq!((first, second), (1, 2));
    assert_ne!(by, other);
    wheel.stop().unwrap();
    assert_eq!(wheel.stats().unwrap().fired, 2);
}

#[test]
fn what_the_queue_has_no_room_for_is_dropped_if_so_asked() {
    let (go_on, wait) = mpsc::channel();
    let wait = Mutex::new(wait);
    let options = manual().workers(1).queue(2, Overload::Drop);
    let wheel = handled(options, move |_, _| wait.lock().unwrap().recv().unwrap());
    for cookie in 0..10 {
        wheel.once(MS, cookie).unwrap();
    }
    assert_eq!(advance(&wheel, 1), []);
    let stats = wheel.stats().unwrap();
    // One may run, two wait.
    assert!((7..=8).contains(&stats.dropped), "{stats:?}");
    for _ in stats.dropped..10 {
        go_on.send(()).unwrap();
    }
    wheel.stop().unwrap();
    let wrong = manual().workers(1).queue(3, Overload::Run).create();
    assert_eq!(wrong.err(), Some(Error::Invalid));
}

#[test]
fn a_call_stops_at_its_bounds_and_the_next_one_continues() {
    let wheel = manual().create().unwrap();
    for cookie in 0..6 {
        wheel.once(MS, cookie).unwrap();
    }
    let (bounds, mut room) = (Bounds::new().timers(4), [Event::default(); 8]);
    let mut next = || {
        let run = wheel.advance_within(bounds, START + MS, &mut room).unwrap();
        (run.events.len(), run.left)
    };
    assert_eq!(next(), (4, true));
    assert_eq!(next(), (2, false));
    let stats = wheel.stats().unwrap();
    assert_eq!((stats.fired, stats.armed, stats.live), (6, 6, 0));
    assert_eq!(stats.lateness[0], 6);
}

#[test]
fn a_time_is_a_duration_an_instant_or_a_time() {
    let wheel = Wheel::new().unwrap();
    let timer = wheel.setup(1).unwrap();
    let before = wheel.now().unwrap();
    wheel.arm(timer, Instant::now() + 1000 * MS).unwrap();
    let deadline = wheel.deadline(timer).unwrap().unwrap();
    assert!(deadline >= before + 1000 * MS && deadline < before + 60_000 * MS);
    let negative = Time::from_nanos(1 << 63);
    for refused in [
        wheel.arm(timer, negative),
        wheel.reduce(timer, negative),
        wheel.arm_if_pending(timer, negative),
        wheel.arm_range(timer, negative, MS),
        wheel.key_set(b"key", negative, 1),
        wheel.once(negative, 1).map(|_| true),
        wheel.every(negative, MS, 1).map(|_| true),
    ] {
        assert_eq!(refused, Err(Error::Invalid));
    }
    assert_eq!(wheel.arm_many(&[(timer, When::At(negative))]), Ok(0));
    assert_eq!(wheel.deadline(timer), Ok(Some(deadline)));
    let manual = manual().create().unwrap();
    assert_eq!(manual.advance(Time::NEVER, &mut []), Err(Error::Invalid));
}

#[test]
fn a_period_is_set_changed_and_taken_away() {
    let wheel = manual().create().unwrap();
    let timer = wheel.setup(7).unwrap();
    wheel.set_period(timer, 10 * MS).unwrap();
    assert!(!wheel.pending(timer).unwrap());
    wheel.arm(timer, 5 * MS).unwrap();
    assert_eq!(advance(&wheel, 5).len(), 1);
    assert_eq!(wheel.deadline(timer), Ok(Some(START + 15 * MS)));
    wheel.set_period(timer, 20 * MS).unwrap();
    assert_eq!(advance(&wheel, 15).len(), 1);
    for none in [Duration::ZERO, Duration::MAX] {
        wheel.arm(timer, 10 * MS).unwrap();
        wheel.set_period(timer, none).unwrap();
        let now = wheel.now().unwrap().as_nanos() / 1_000_000;
        assert_eq!(advance(&wheel, now as u32 + 10).len(), 1);
        assert_eq!(wheel.deadline(timer), Ok(None));
    }
    wheel.shutdown(timer).unwrap();
    assert_eq!(wheel.set_period(timer, MS), Err(Error::Shutdown));
    wheel.free(timer).unwrap();
    assert_eq!(wheel.set_period(timer, MS), Err(Error::Stale));
}

#[test]
fn pending_timers_are_listed() {
    let wheel = manual().create().unwrap();
    let timers = [1, 2, 3].map(|cookie| wheel.once(MS, cookie).unwrap());
    let mut seen = HashSet::new();
    let two = |event: &Event| seen.insert(event.timer) && seen.len() < 2;
    wheel.list(two).unwrap();
    assert_eq!(seen.len(), 2);
    let delete = |event: &Event| wheel.delete(event.timer).unwrap();
    wheel.list(delete).unwrap();
    let is_gone = |timer: Timer| wheel.pending(timer) == Err(Error::Stale);
    assert!(timers.into_iter().all(is_gone));
}

#[test]
fn errors_have_the_librarys_words() {
    assert_eq!(Error::Stale.to_string(), "the timer no longer exists");
    let other = Error::System(libc::ENOENT).to_string();
    let of_system = std::io::Error::from_raw_os_error(libc::ENOENT);
    assert_eq!(other, of_system.to_string());
}

#[test]
fn options_and_wheels_go_to_other_threads() {
    fn both<T: Send + Sync>() {}
    fn one<T: Send>() {}
    both::<Wheel>();
    one::<Options>();
}

#[test]
fn the_handler_is_dropped_with_its_wheel() {
    let owned = Arc::new(());
    for start in [false, true] {
        let kept = owned.clone();
        let wheel = handled(Options::new(), move |_, _| _ = &kept);
        if start {
            wheel.start().unwrap();
        }
        assert_eq!(Arc::strong_count(&owned), 2);
        drop(wheel);
        assert_eq!(Arc::strong_count(&owned), 1);
    }
    let kept = owned.clone();
    drop(manual().handler(move |_, _| _ = &kept));
    assert_eq!(Arc::strong_count(&owned), 1);
}

/// Fires a timer whose handler gets the wheel itself, which it may drop.
fn fire_with_itself(
    options: Options,
    f: impl Fn(&Wheel, Option<Wheel>, &Event) + Send + Sync + 'static,
) {
    let place = Arc::new(Mutex::new(None::<Wheel>));
    let given = place.clone();
    let wheel = started(options, move |wheel, event| {
        let itself = given.lock().unwrap().take();
        f(wheel, itself, event);
    });
    let mut held = place.lock().unwrap();
    wheel.once(MS, 0).unwrap();
    *held = Some(wheel);
}

#[test]
fn a_wheel_that_its_own_handler_drops_ends_after_that() {
    for workers in [0, 2] {
        let (tell, told) = mpsc::channel();
        fire_with_itself(
            Options::new().workers(workers),
            move |wheel, itself, event| {
                drop(itself);
                let again = wheel.once(MS, event.cookie + 1);
                let deleted = again.and_then(|timer| wheel.delete(timer));
                tell.send(deleted).unwrap();
            },
        );
        assert_eq!(told.recv(), Ok(Ok(true)));
        // The handler is freed, and with it the sender.
        assert!(told.recv().is_err());
    }
}

#[test]
fn a_wheel_that_its_handler_starts_again_ends_with_its_owner() {
    let (tell, told) = mpsc::channel();
    let wheel = started(Options::new().workers(1), move |wheel, event| {
        tell.send(()).unwrap();
        if event.cookie == 0 {
            // As soon as the owner has stopped the tick thread.
            while wheel.start().is_err() {
                std::thread::yield_now();
            }
            wheel.every(MS, MS, 1).unwrap();
        }
    });
    wheel.once(MS, 0).unwrap();
    told.recv().unwrap();
    drop(wheel);
    while told.recv().is_ok() {}
    // A thread that was left would have woken.
    std::thread::sleep(10 * MS);
}

#[test]
fn a_handler_that_never_ends_is_never_freed() {
    let owned = Arc::new(());
    let kept = owned.clone();
    let (tell, told) = mpsc::channel();
    let wheel = started(Options::new(), move |wheel, _| {
        _ = &kept;
        let stop = || tell.send(wheel.stop()).unwrap();
        // The first one waits for this handler, which waits for it.
        std::thread::scope(|scope| _ = (scope.spawn(stop), scope.spawn(stop)));
    });
    wheel.once(MS, 0).unwrap();
    assert_eq!(told.recv(), Ok(Err(Error::Busy)));
    drop(wheel);
    assert_eq!(Arc::strong_count(&owned), 2);
}

#[test]
fn a_child_that_the_handler_forks_keeps_the_handler() {
    let (tell, told) = mpsc::channel();
    fire_with_itself(Options::new(), move |wheel, itself, _| {
        // SAFETY: the child drops the wheel and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(itself);
            std::thread::sleep(20 * MS);
            let refused = wheel.now() == Err(Error::Shutdown);
            // SAFETY: it does not return.
            unsafe { libc::_exit(if refused { 0 } else { 1 }) };
        }
        let mut status = 1;
        // SAFETY: the process is a child of this one.
        unsafe { libc::waitpid(child, &mut status, 0) };
        tell.send(status).unwrap();
    });
    assert_eq!(told.recv(), Ok(0));
}

#[test]
fn another_thread_than_the_owner_is_refused() {
    struct Nothing;
    impl Wake for Nothing {
        fn wake(&self) {}
    }
    let owned = manual().create_owned().unwrap();
    let timer = owned.setup(1).unwrap();
    owned.arm(timer, 5 * MS).unwrap();
    // The way around the compiler.
    let wheel: &Wheel = &owned;
    let refused = |result: Result<bool, Error>| assert_eq!(result, Err(Error::NotPermitted));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            refused(wheel.once(MS, 1).map(|_| true));
            refused(wheel.every(MS, MS, 1).map(|_| true));
            refused(wheel.setup(1).map(|_| true));
            refused(wheel.arm(timer, MS));
            refused(wheel.delete(timer));
            refused(wheel.delete_sync(timer));
            refused(wheel.free(timer));
            refused(wheel.key_set(b"key", MS, 1));
            refused(wheel.advance(START + 9 * MS, &mut []).map(|_| true));
            refused(wheel.drain(&mut [Event::default()]).map(|_| true));
            refused(Prompt::arm(wheel, START + MS, MS, Nothing).map(|_| true));
            assert_eq!(wheel.pending(timer), Ok(true));
        });
    });
    assert_eq!(wheel.stats().unwrap().live, 1);
    assert_eq!(owned.delete(timer), Ok(true));
    let wrong = manual().workers(1).create_owned();
    assert_eq!(wrong.err(), Some(Error::Invalid));
}

#[test]
fn a_sender_sends_timers_to_whoever_owns_the_wheel_until_it_is_dropped() {
    fn is_sent<T: Send>() {}
    fn is_shared<T: Sync>() {}
    is_sent::<DisownedWheel>();
    is_sent::<Sender>();
    is_shared::<Sender>();
    let owned = manual().create_owned().unwrap();
    let sender = owned.sender();
    let other = sender.clone();
    let kept = owned.setup(7).unwrap();
    owned.arm(kept, 2 * MS).unwrap();
    std::thread::spawn(move || other.send(2 * MS, 8))
        .join()
        .unwrap()
        .unwrap();
    let disowned = owned.disown().unwrap();
    sender.send(2 * MS, 9).unwrap();
    let disowned = std::thread::spawn(move || {
        let owned = disowned.own().unwrap();
        let mut seen: Vec<_> = advance(&owned, 3).iter().map(|e| e.cookie).collect();
        seen.sort_unstable();
        assert_eq!(seen, [7, 8, 9]);
        owned.disown().unwrap()
    });
    let disowned = disowned.join().unwrap();
    drop(disowned);
    assert_eq!(sender.send(MS, 1), Err(Error::Shutdown));
}

#[test]
fn an_owned_wheel_is_freed_wherever_it_is_dropped() {
    let fired = Arc::new(());
    let with_handler = |fired: &Arc<()>| {
        let kept = fired.clone();
        manual().handler(move |_, _| _ = &kept)
    };
    let wheel = with_handler(&fired).create_owned().unwrap();
    let sender = wheel.sender();
    wheel.once(MS, 1).unwrap();
    let disowned = wheel.disown().unwrap();
    std::thread::spawn(move || drop(disowned)).join().unwrap();
    assert_eq!(Arc::strong_count(&fired), 1);
    assert_eq!(sender.send(MS, 1), Err(Error::Shutdown));
    let options = with_handler(&fired);
    let end = move || drop(options.create_owned().unwrap());
    std::thread::spawn(end).join().unwrap();
    assert_eq!(Arc::strong_count(&fired), 1);
}
