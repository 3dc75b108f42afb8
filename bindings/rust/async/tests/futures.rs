//! Futures of a wheel, polled by hand and by a small executor.

use hwheel::{Clock, Error, Event, Missed, Options, Overload, Period, Time, Wheel, When};
use hwheel_async::{DelayQueue, Interval, Sleep, VirtualTime, WheelExt};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::{pending, ready, Future};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::pin::{pin, Pin};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{mpsc, Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);
const START: Time = Time::from_nanos(0);

fn manual() -> Arc<Wheel> {
    Arc::new(Options::new().clock(Clock::Manual).create().unwrap())
}

fn started(options: Options) -> Arc<Wheel> {
    let wheel = options.create().unwrap();
    wheel.start().unwrap();
    Arc::new(wheel)
}

/// Drives a manual wheel to its `ms`-th millisecond, and says how many events it has.
fn advance(wheel: &Wheel, ms: u32) -> usize {
    let mut room = [Event::default(); 8];
    wheel.advance(START + ms * MS, &mut room).unwrap().len()
}

/// Counts how often it was woken.
#[derive(Default)]
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Count {
    fn woken(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Arc<Count>) -> Poll<F::Output> {
    let waker = Waker::from(waker.clone());
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

fn tick(interval: &mut Interval) -> Poll<Result<u32, Error>> {
    interval.poll_tick(&mut Context::from_waker(Waker::noop()))
}

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Nothing is left of the futures of a wheel, nor of their wakers.
fn assert_none_left(wheel: &Arc<Wheel>, wakers: &[&Arc<Count>]) {
    assert_eq!(wheel.stats().unwrap().live, 0);
    assert_eq!(Arc::strong_count(wheel), 1);
    assert!(wakers.iter().all(|waker| Arc::strong_count(waker) == 1));
}

#[test]
fn a_sleep_ends_at_its_time_and_wakes_once() {
    let (wheel, waker) = (manual(), Arc::<Count>::default());
    let late = START + 7 * MS + Duration::from_nanos(1);
    for (when, ms) in [
        (When::After(5 * MS), 5),
        (When::At(START + 7 * MS), 7),
        (When::At(late), 8),
    ] {
        let mut sleep = wheel.sleep(when);
        let before = waker.woken();
        assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        assert_eq!(advance(&wheel, ms - 1), 0);
        assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        assert_eq!(waker.woken(), before);
        assert_eq!(advance(&wheel, ms), 0);
        assert_eq!(waker.woken(), before + 1);
        for _ in 0..2 {
            assert_eq!(poll(&mut sleep, &waker), Poll::Ready(Ok(())));
        }
        drop(sleep);
        assert_none_left(&wheel, &[&waker]);
    }
}

#[test]
fn a_time_that_has_passed_is_over_at_the_first_poll() {
    for wheel in [manual(), Arc::new(Wheel::new().unwrap())] {
        let waker = Arc::default();
        let over = |sleep: &mut Sleep| {
            assert!(!sleep.is_elapsed());
            for _ in 0..2 {
                assert_eq!(poll(sleep, &waker), Poll::Ready(Ok(())));
                assert!(sleep.is_elapsed());
            }
        };
        if wheel.advance(START, &mut []).is_ok() {
            advance(&wheel, 1000);
        }
        for when in [
            When::After(Duration::ZERO),
            When::At(START),
            When::At(wheel.now().unwrap()),
            When::Instant(Instant::now()),
        ] {
            over(&mut wheel.sleep(when));
            let none = wheel.timeout(when, pending::<()>());
            assert_eq!(
                poll(&mut { none }, &waker),
                Poll::Ready(Err(Error::TimedOut))
            );
            let won = poll(&mut wheel.timeout(when, ready(7)), &waker);
            assert_eq!(won, Poll::Ready(Ok(7)));
        }
        // One that waits, and is moved there.
        let mut sleep = wheel.sleep(Duration::from_secs(60));
        assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        assert!(!sleep.is_elapsed());
        sleep.reset(START);
        assert_eq!(sleep.deadline(), Ok(START));
        assert_eq!(poll(&mut sleep, &waker), Poll::Ready(Ok(())));
        sleep.reset(Duration::from_secs(60));
        over(&mut wheel.sleep(Duration::ZERO));
        assert!(!sleep.is_elapsed());
        assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        drop(sleep);
        assert_none_left(&wheel, &[&waker]);
    }
}

/// A task that does not poll after a reset to the past is woken.
#[test]
fn a_reset_to_the_past_wakes() {
    let (wheel, waker) = (manual(), Arc::default());
    advance(&wheel, 10);
    let mut sleep = wheel.sleep(MS);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    sleep.reset(START);
    advance(&wheel, 11);
    assert_eq!(waker.woken(), 1);
    assert_eq!(poll(&mut sleep, &waker), Poll::Ready(Ok(())));
}

/// A task that does not poll after a reset to a time out of range is woken for the error.
#[test]
fn a_reset_to_no_time_wakes() {
    let none = Time::from_nanos(1 << 63);
    let (wheel, waker) = (manual(), Arc::<Count>::default());
    let mut sleep = wheel.sleep(MS);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    sleep.reset(none);
    assert_eq!(waker.woken(), 1);
    assert_eq!(poll(&mut sleep, &waker), Poll::Ready(Err(Error::Invalid)));

    let mut interval = wheel.interval(MS, MS).unwrap();
    let task = Waker::from(waker.clone());
    let polled = interval.poll_tick(&mut Context::from_waker(&task));
    assert_eq!(polled, Poll::Pending);
    interval.reset(none);
    assert_eq!(waker.woken(), 2);
    assert_eq!(tick(&mut interval), Poll::Ready(Err(Error::Invalid)));
    drop((sleep, interval, task));
    assert_none_left(&wheel, &[&waker]);
}

#[test]
fn a_future_tells_its_deadline() {
    let wheel = manual();
    advance(&wheel, 5);
    let invalid = Time::from_nanos(1 << 63);
    assert_eq!(wheel.sleep(MS).deadline(), Ok(START + 6 * MS));
    assert_eq!(wheel.sleep(Duration::MAX).deadline(), Ok(Time::NEVER));
    assert_eq!(wheel.sleep(invalid).deadline(), Err(Error::Invalid));
    let timeout = wheel.timeout(MS, ready(1));
    assert_eq!(timeout.deadline(), Ok(START + 6 * MS));
    assert_eq!(block_on(timeout.into_inner()), 1);
    let mut interval = wheel.interval(MS, 2 * MS).unwrap();
    assert_eq!(interval.period(), Period::new(2 * MS));
    assert_eq!(interval.deadline(), Ok(START + 6 * MS));
    assert_eq!(tick(&mut interval), Poll::Pending);
    advance(&wheel, 6);
    assert_eq!(tick(&mut interval), Poll::Ready(Ok(0)));
    assert_eq!(interval.deadline(), Ok(START + 8 * MS));
}

#[test]
fn an_interval_is_moved() {
    let wheel = manual();
    for (reset, next) in [
        (When::After(7 * MS), 8),
        (When::After(Duration::ZERO), 1),
        (When::At(START), 0),
        (When::At(START + 100 * MS), 100),
    ] {
        for polled in [false, true] {
            let wheel = manual();
            let mut interval = wheel.interval(5 * MS, 5 * MS).unwrap();
            if polled {
                assert_eq!(tick(&mut interval), Poll::Pending);
            }
            advance(&wheel, 1);
            interval.reset(reset);
            if next > 1 {
                assert_eq!(tick(&mut interval), Poll::Pending);
                advance(&wheel, next - 1);
                assert_eq!(tick(&mut interval), Poll::Pending);
                advance(&wheel, next);
            }
            assert_eq!(tick(&mut interval), Poll::Ready(Ok(0)));
            // The rhythm is that of the new time.
            advance(&wheel, next + 4);
            assert_eq!(tick(&mut interval), Poll::Pending);
            advance(&wheel, next + 5);
            assert_eq!(tick(&mut interval), Poll::Ready(Ok(0)));
            drop(interval);
            assert_none_left(&wheel, &[]);
        }
    }
    let mut interval = wheel.interval(MS, MS).unwrap();
    interval.reset(Time::from_nanos(1 << 63));
    assert_eq!(tick(&mut interval), Poll::Ready(Err(Error::Invalid)));
    interval.reset(Duration::ZERO);
    assert_eq!(tick(&mut interval), Poll::Ready(Ok(0)));
}

fn next<T>(queue: &mut DelayQueue<T>, waker: &Arc<Count>) -> Poll<Option<T>> {
    let waker = Waker::from(waker.clone());
    let seen = queue.poll_next(&mut Context::from_waker(&waker));
    seen.map(|expired| expired.unwrap().map(|expired| expired.value))
}

#[test]
fn items_leave_a_queue_in_the_order_of_their_ticks() {
    let (wheel, waker) = (manual(), Arc::default());
    let mut queue = DelayQueue::new(&wheel);
    assert_eq!(next(&mut queue, &waker), Poll::Ready(None));
    advance(&wheel, 1);
    for ms in [30, 10, 20, 0] {
        queue.insert(ms, START + ms * MS).unwrap();
    }
    assert_eq!((queue.len(), queue.is_empty()), (4, false));
    let first = queue.peek().unwrap();
    assert_eq!(queue.deadline(first), Some(START));
    // A time that has passed.
    assert_eq!(next(&mut queue, &waker), Poll::Ready(Some(0)));
    assert_eq!(next(&mut queue, &waker), Poll::Pending);
    assert!(!queue.contains(first) && queue.deadline(first).is_none());
    assert_eq!(queue.deadline(queue.peek().unwrap()), Some(START + 10 * MS));
    advance(&wheel, 9);
    assert_eq!(
        (next(&mut queue, &waker), waker.woken()),
        (Poll::Pending, 0)
    );
    advance(&wheel, 10);
    assert_eq!(waker.woken(), 1);
    advance(&wheel, 30);
    for want in [Some(10), Some(20), Some(30), None] {
        assert_eq!(next(&mut queue, &waker), Poll::Ready(want));
    }
    drop(queue);
    assert_none_left(&wheel, &[&waker]);
}

#[test]
fn an_item_is_moved_and_removed_at_any_time() {
    let (wheel, waker) = (manual(), Arc::default());
    let mut queue = DelayQueue::new(&wheel);
    let mut now = 0;
    // Before it is due, when it is due, and when an item that comes first has joined it.
    for stage in 0..3 {
        for to in [Some(20), Some(0), None] {
            let key = queue.insert("moved", 10 * MS).unwrap();
            let other = queue.insert("other", 10 * MS).unwrap();
            assert_eq!(next(&mut queue, &waker), Poll::Pending);
            if stage > 0 {
                now += 10;
                advance(&wheel, now);
            }
            if stage > 1 {
                assert_eq!(queue.remove(other).unwrap().value, "other");
                queue.insert("other", Duration::ZERO).unwrap();
            }
            match to {
                Some(ms) => assert_eq!(queue.reset(key, ms * MS), Ok(true)),
                None => {
                    let removed = queue.remove(key).unwrap();
                    assert_eq!((removed.key, removed.value), (key, "moved"));
                    assert_eq!(queue.remove(key), None);
                    assert_eq!(queue.reset(key, MS), Ok(false));
                }
            }
            let mut seen = Vec::new();
            for _ in 0..3 {
                while let Poll::Ready(Some(value)) = next(&mut queue, &waker) {
                    seen.push((value, now));
                }
                now += 10;
                advance(&wheel, now);
            }
            let moved = |&(value, _): &(&str, u32)| value == "moved";
            assert_eq!(seen.iter().filter(|s| moved(s)).count(), to.iter().count());
            assert_eq!(seen.len(), 1 + to.iter().count(), "{stage} {to:?}");
            if to == Some(20) {
                // 20 ms from the reset, which was in the first round.
                assert_eq!(seen.iter().find(|s| moved(s)), Some(&("moved", now - 10)));
            }
        }
    }
    drop(queue);
    assert_none_left(&wheel, &[&waker]);
}

#[test]
fn a_queue_that_becomes_empty_wakes_its_reader() {
    let (wheel, waker) = (manual(), Arc::default());
    let mut queue = DelayQueue::new(&wheel);
    for clear in [false, true] {
        let key = queue.insert(1, MS).unwrap();
        assert_eq!(next(&mut queue, &waker), Poll::Pending);
        let before = waker.woken();
        match clear {
            true => queue.clear(),
            false => assert!(queue.remove(key).is_some()),
        }
        assert_eq!(waker.woken(), before + 1);
        assert_eq!(next(&mut queue, &waker), Poll::Ready(None));
    }
    // An item whose time has passed, too.
    queue.insert(1, 10 * MS).unwrap();
    assert_eq!(next(&mut queue, &waker), Poll::Pending);
    let before = waker.woken();
    queue.insert(2, START).unwrap();
    assert_eq!(waker.woken(), before + 1);
    assert_eq!(next(&mut queue, &waker), Poll::Ready(Some(2)));
    queue.clear();
    queue.shrink_to_fit();
    assert_eq!(queue.capacity(), 0);
}

#[test]
fn a_queue_that_is_dropped_leaves_nothing() {
    let (wheel, waker) = (manual(), Arc::default());
    let value = Arc::new(());
    for fired in [false, true] {
        let mut queue = DelayQueue::new(&wheel);
        for ms in 1..100 {
            queue.insert(value.clone(), ms * MS).unwrap();
        }
        assert!(queue
            .poll_next(&mut Context::from_waker(&Waker::from(Arc::clone(&waker))))
            .is_pending());
        if fired {
            let now = wheel.now().unwrap();
            wheel.advance(now + 50 * MS, &mut []).unwrap();
        }
        drop(queue);
        assert_eq!(Arc::strong_count(&value), 1);
        assert_none_left(&wheel, &[&waker]);
    }
}

#[test]
fn what_a_wheel_refuses_a_queue_refuses() {
    let waker = Arc::default();
    let small = Options::new().clock(Clock::Manual).max_timers(1);
    let wheel = Arc::new(small.create().unwrap());
    let mut queue = DelayQueue::new(&wheel);
    let key = queue.insert(1, 5 * MS).unwrap();
    let other = wheel.once(MS, 2).unwrap();
    let refused = queue.poll_next(&mut Context::from_waker(Waker::noop()));
    assert_eq!(refused, Poll::Ready(Err(Error::Limit)));
    assert_eq!(wheel.delete(other), Ok(true));
    assert_eq!(next(&mut queue, &waker), Poll::Pending);
    assert_eq!(
        queue.insert(2, Time::from_nanos(1 << 63)),
        Err(Error::Invalid)
    );
    assert_eq!(
        queue.reset(key, Time::from_nanos(1 << 63)),
        Err(Error::Invalid)
    );
    assert_eq!(queue.deadline(key), Some(START + 5 * MS));
    assert_eq!(queue.len(), 1);
    let never = queue.reset(key, Duration::MAX);
    assert_eq!((never, queue.deadline(key)), (Ok(true), Some(Time::NEVER)));
    assert_eq!(next(&mut queue, &waker), Poll::Pending);

    assert_eq!(wheel.drain(&mut [Event::default()]), Ok(&[][..]));
    assert_eq!(waker.woken(), 1);
    for _ in 0..2 {
        let drained = queue.poll_next(&mut Context::from_waker(Waker::noop()));
        assert_eq!(drained, Poll::Ready(Err(Error::Shutdown)));
    }
    assert_eq!(queue.insert(2, MS), Err(Error::Shutdown));
    assert_eq!(queue.reset(key, MS), Err(Error::Shutdown));
    assert_eq!(queue.remove(key).map(|item| item.value), Some(1));
    assert_eq!(next(&mut queue, &waker), Poll::Ready(None));
    drop(queue);
    assert_none_left(&wheel, &[&waker]);
}

/// Counts the bytes that a thread has allocated and not freed.
struct Counted;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.with(|held| held.set(held.get() + layout.size() as isize));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.with(|held| held.set(held.get() - layout.size() as isize));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTED: Counted = Counted;

/// A reader may be busy elsewhere while others move its items again and again.
#[test]
fn memory_of_a_queue_follows_its_items_without_a_poll() {
    let (wheel, waker) = (manual(), Arc::default());
    let mut queue = DelayQueue::new(&wheel);
    let keys: Vec<_> = (0..10).map(|i| queue.insert(i, MS).unwrap()).collect();
    let mut now = 0;
    let mut most = [0; 2];
    // The second rounds need no more than the first.
    for (most, rounds) in most.iter_mut().zip([100, 10_000]) {
        for _ in 0..rounds {
            // A time that has passed, a timer that fires, and an item that comes and goes.
            for &key in &keys {
                assert_eq!(queue.reset(key, START), Ok(true));
                assert_eq!(queue.reset(key, MS), Ok(true));
            }
            let passes = queue.insert(0, START).unwrap();
            let fires = queue.insert(0, MS).unwrap();
            now += 2;
            advance(&wheel, now);
            assert!(queue.remove(passes).is_some() && queue.remove(fires).is_some());
            *most = HELD.get().max(*most);
        }
    }
    assert!(most[1] <= most[0], "{most:?} bytes");
    let mut seen = Vec::new();
    while let Poll::Ready(Some(value)) = next(&mut queue, &waker) {
        seen.push(value);
    }
    seen.sort();
    assert_eq!(seen, Vec::from_iter(0..10));
    drop(queue);
    assert_none_left(&wheel, &[&waker]);
}

/// Items that expire while their owner inserts, moves and removes them.
#[test]
fn a_queue_gives_each_item_once_and_none_early() {
    let wheel = started(Options::new().tick(Duration::from_micros(50)));
    let mut queue = DelayQueue::new(&wheel);
    let (mut left, mut keys) = (0, Vec::new());
    let mut seen = std::collections::HashSet::new();
    for round in 0..20_000_u32 {
        let delay = Duration::from_micros(u64::from(round.wrapping_mul(7919) % 500));
        keys.push(queue.insert(round, delay).unwrap());
        left += 1;
        let other = keys[round.wrapping_mul(31) as usize % keys.len()];
        if round % 3 == 0 {
            _ = queue.reset(other, delay).unwrap();
        }
        if round % 5 == 0 {
            left -= usize::from(queue.remove(other).is_some());
        }
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Ok(Some(expired))) = queue.poll_next(&mut context) {
            assert!(expired.deadline <= wheel.now().unwrap());
            assert!(seen.insert(expired.value));
            left -= 1;
        }
    }
    block_on(async {
        while let Some(expired) = queue.next().await.unwrap() {
            assert!(expired.deadline <= wheel.now().unwrap());
            assert!(seen.insert(expired.value));
            left -= 1;
        }
    });
    assert_eq!(left, 0);
    wheel.stop().unwrap();
    drop(queue);
    assert_none_left(&wheel, &[]);
}

/// A cancelled timer, a thousand of them, and one more that never fires.
#[test]
fn virtual_time_stands_still_for_cancelled_timers() {
    let hour = Duration::from_secs(3600);
    for (cancelled, never) in [(1, false), (1000, false), (1, true), (1000, true)] {
        let wheel = manual();
        if never {
            wheel.once(Time::NEVER, 7).unwrap();
        }
        for i in 0..cancelled {
            let timer = wheel.once(hour + i * 7 * MS, 0).unwrap();
            assert!(wheel.delete(timer).unwrap());
        }
        assert_eq!(wheel.advance_to_next(&mut []), Ok(None));
        assert_eq!(
            wheel.now(),
            Ok(START),
            "{cancelled} cancelled, one never: {never}"
        );

        // A timeout that was not needed. Then a reply of another thread.
        let replied = wheel.block_on(async {
            let slept = wheel.timeout(hour, wheel.sleep(1000 * MS)).await;
            assert_eq!(slept, Ok(Ok(())));
            assert_eq!(wheel.now(), Ok(START + 1000 * MS));
            let (replied, mut asked) = (Arc::new(AtomicU64::new(0)), false);
            std::future::poll_fn(|context| {
                if !std::mem::replace(&mut asked, true) {
                    let (waker, replied) = (context.waker().clone(), replied.clone());
                    thread::spawn(move || {
                        thread::sleep(50 * MS);
                        replied.store(1, SeqCst);
                        waker.wake();
                    });
                }
                match replied.load(SeqCst) {
                    0 => Poll::Pending,
                    _ => Poll::Ready(()),
                }
            })
            .await;
        });
        assert_eq!(replied, Ok(()));
        assert_eq!(wheel.now(), Ok(START + 1000 * MS));

        // Those that are left fire at their times.
        wheel.once(2 * hour, 1).unwrap();
        assert!(wheel.advance_to_next(&mut []).unwrap().is_some());
        assert_eq!(wheel.now(), Ok(START + 2 * hour + 1000 * MS));
    }
}

#[test]
fn virtual_time_moves_when_everything_waits() {
    let hour = Duration::from_secs(3600);
    let wheel = manual();
    let late = wheel.block_on(async {
        wheel.sleep(hour).await?;
        let inner = wheel.timeout(3 * hour, wheel.sleep(2 * hour)).await;
        assert_eq!(inner, Ok(Ok(())));
        wheel.timeout(hour, pending::<()>()).await
    });
    assert_eq!(late, Ok(Err(Error::TimedOut)));
    assert_eq!(wheel.now(), Ok(START + 4 * hour));
    // Timers that were cancelled or moved hold it up at no time.
    let begin = wheel.now().unwrap();
    let mut moved = wheel.sleep(MS);
    assert_eq!(poll(&mut moved, &Arc::default()), Poll::Pending);
    moved.reset(2 * hour);
    drop(wheel.sleep(MS));
    assert_eq!(wheel.block_on(wheel.sleep(hour)), Ok(Ok(())));
    assert_eq!(wheel.now(), Ok(begin + hour));
    assert_eq!(wheel.block_on(moved), Ok(Ok(())));
    assert_eq!(wheel.now(), Ok(begin + 2 * hour));
    // Nothing is pending: a thread wakes it.
    let (tell, told) = mpsc::channel();
    let begin = wheel.now().unwrap();
    let waits = std::future::poll_fn(|context| match told.try_recv() {
        Ok(7) => Poll::Ready(()),
        _ => {
            let (waker, tell) = (context.waker().clone(), tell.clone());
            thread::spawn(move || {
                thread::sleep(5 * MS);
                tell.send(7).unwrap();
                waker.wake();
            });
            Poll::Pending
        }
    });
    assert_eq!(wheel.block_on(waits), Ok(()));
    assert_eq!(wheel.now(), Ok(begin));
    let mut room = [Event::default(); 4];
    assert_eq!(wheel.advance_to_next(&mut room), Ok(None));
    wheel.once(hour, 42).unwrap();
    let fired = wheel.advance_to_next(&mut room).unwrap().unwrap();
    assert_eq!((fired.len(), fired[0].cookie), (1, 42));
    assert_eq!(wheel.now(), Ok(begin + hour));
    let system = Arc::new(Wheel::new().unwrap());
    assert_eq!(system.advance_to_next(&mut []), Err(Error::Invalid));
    let refused = system.block_on(pending::<()>());
    assert_eq!(refused, Err(Error::Invalid));
    assert_none_left(&wheel, &[]);
}

#[test]
fn a_delay_counts_from_the_call() {
    let (wheel, waker) = (manual(), Arc::default());
    let mut sleep = wheel.sleep(5 * MS);
    advance(&wheel, 3);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    advance(&wheel, 5);
    assert_eq!(poll(&mut sleep, &waker), Poll::Ready(Ok(())));
}

#[test]
fn another_waker_replaces_the_first() {
    let (wheel, first, second) = (manual(), Arc::default(), Arc::default());
    let mut sleep = wheel.sleep(MS);
    assert_eq!(poll(&mut sleep, &first), Poll::Pending);
    assert_eq!(poll(&mut sleep, &second), Poll::Pending);
    assert_eq!(Arc::strong_count(&first), 1);
    advance(&wheel, 1);
    assert_eq!((first.woken(), second.woken()), (0, 1));
    drop(sleep);
    assert_none_left(&wheel, &[&first, &second]);
}

#[test]
fn a_drop_cancels_at_any_time() {
    let (wheel, waker) = (manual(), Arc::default());
    for polled in 0..3 {
        let mut sleep = wheel.sleep(MS);
        for _ in 0..polled {
            assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        }
        drop(sleep);
        assert_none_left(&wheel, &[&waker]);
    }
    // After it has fired, before it is polled.
    let mut sleep = wheel.sleep(MS);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    advance(&wheel, 10);
    drop(sleep);
    assert_eq!(waker.woken(), 1);
    assert_none_left(&wheel, &[&waker]);
}

#[test]
fn a_reset_moves_it() {
    let (wheel, waker) = (manual(), Arc::default());
    let mut sleep = wheel.sleep(10 * MS);
    sleep.reset(START + 20 * MS);
    for (to, ms) in [(5, 5), (8, 8), (9, 9), (30, 30)] {
        assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        sleep.reset(START + 40 * MS);
        sleep.reset(START + to * MS);
        assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        advance(&wheel, ms - 1);
        assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
        advance(&wheel, ms);
        if to != 8 {
            assert_eq!(poll(&mut sleep, &waker), Poll::Ready(Ok(())));
        }
        sleep.reset(START + 60 * MS);
    }
    assert_eq!(wheel.stats().unwrap().pending, 0);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    sleep.reset(Time::from_nanos(1 << 63));
    assert_eq!(poll(&mut sleep, &waker), Poll::Ready(Err(Error::Invalid)));
    drop(sleep);
    assert_none_left(&wheel, &[&waker]);
}

#[test]
fn what_the_wheel_refuses_is_the_output() {
    let waker = Arc::default();
    let small = Options::new().clock(Clock::Manual).max_timers(1);
    let wheel = Arc::new(small.create().unwrap());
    let mut first = wheel.sleep(MS);
    let mut second = wheel.sleep(MS);
    assert_eq!(poll(&mut first, &waker), Poll::Pending);
    assert_eq!(poll(&mut second, &waker), Poll::Ready(Err(Error::Limit)));
    let mut none = wheel.timeout(MS, pending::<()>());
    let refused = pin!(&mut none).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(refused, Poll::Ready(Err(Error::Limit)));
    // A future that is ready needs no timer.
    assert_eq!(block_on(wheel.timeout(MS, ready(7))), Ok(7));
    advance(&wheel, 1);
    assert_eq!(poll(&mut first, &waker), Poll::Ready(Ok(())));
    // It is not spoilt.
    second.reset(MS);
    assert_eq!(poll(&mut second, &waker), Poll::Pending);
    drop((first, second, none));
    let zero = wheel.interval(MS, Duration::ZERO);
    assert_eq!(zero.err(), Some(Error::Invalid));
    assert_none_left(&wheel, &[&waker]);
}

#[test]
fn a_drained_wheel_ends_them() {
    let (wheel, waker) = (manual(), Arc::default());
    let mut sleeps: Vec<_> = [1, 1000].map(|ms| wheel.sleep(ms * MS)).into();
    sleeps.push(wheel.sleep(Duration::MAX));
    let mut interval = wheel.interval(MS, MS).unwrap();
    for sleep in &mut sleeps {
        assert_eq!(poll(sleep, &waker), Poll::Pending);
    }
    assert_eq!(tick(&mut interval), Poll::Pending);
    wheel.once(5 * MS, 42).unwrap();
    advance(&wheel, 1);
    assert_eq!(tick(&mut interval), Poll::Ready(Ok(0)));
    assert_eq!(tick(&mut interval), Poll::Pending);

    // Neither a list nor a drain shows them.
    wheel
        .list(|event| {
            assert_eq!(event.cookie, 42);
            true
        })
        .unwrap();
    let mut room = [Event::default(); 2];
    let drained = wheel.drain(&mut room).unwrap();
    assert_eq!((drained.len(), drained[0].cookie), (1, 42));

    assert_eq!(waker.woken(), 3);
    sleeps.push(wheel.sleep(MS));
    let ends: Vec<_> = sleeps.iter_mut().map(|s| poll(s, &waker)).collect();
    let refused = Poll::Ready(Err(Error::Shutdown));
    assert_eq!(ends, [Poll::Ready(Ok(())), refused, refused, refused]);
    for _ in 0..2 {
        assert_eq!(tick(&mut interval), Poll::Ready(Err(Error::Shutdown)));
    }
    drop((sleeps, interval));
    assert_none_left(&wheel, &[&waker]);
}

#[test]
fn a_stopped_wheel_lets_them_wait() {
    let (wheel, waker) = (started(Options::new()), Arc::default());
    let mut sleep = wheel.sleep(MS);
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    wheel.stop().unwrap();
    let (mut late, woken) = (wheel.sleep(50 * MS), Arc::default());
    assert_eq!(poll(&mut late, &woken), Poll::Pending);
    thread::sleep(60 * MS);
    // Nothing wakes it. But one that is polled sees that its time has passed.
    assert_eq!(woken.woken(), 0);
    assert_eq!(poll(&mut late, &woken), Poll::Ready(Ok(())));
    wheel.start().unwrap();
    assert_eq!(block_on(sleep), Ok(()));
    assert_eq!(block_on(late), Ok(()));
}

#[test]
fn a_timeout_is_won_or_lost() {
    let wheel = started(Options::new());
    let begin = Instant::now();
    let lost = block_on(wheel.timeout(20 * MS, wheel.sleep(Duration::MAX)));
    assert_eq!(lost, Err(Error::TimedOut));
    assert!(begin.elapsed() >= 20 * MS);
    let system = std::io::Error::from(Error::TimedOut);
    assert_eq!(system.kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(Error::TimedOut.to_string(), "the time is over");
    let hour = Duration::from_secs(3600);
    let won = block_on(wheel.timeout(Instant::now() + hour, wheel.sleep(MS)));
    assert_eq!(won, Ok(Ok(())));
    // It is not `Unpin`, and may borrow.
    let mut n = 0;
    let borrowed = block_on(wheel.timeout(hour, async {
        for _ in 0..3 {
            wheel.sleep(MS).await?;
            n += 1;
        }
        Ok::<_, Error>(())
    }));
    assert_eq!((borrowed, n), (Ok(Ok(())), 3));
    assert_none_left(&wheel, &[]);
}

#[test]
fn an_interval_counts_or_makes_up_for_what_it_has_missed() {
    for (missed, ticks, left_out, next) in [
        (Missed::Skip, 1, 2, 13),
        (Missed::Burst, 3, 0, 13),
        (Missed::Delay, 1, 2, 15),
    ] {
        let wheel = manual();
        let period = Period::new(4 * MS).missed(missed);
        let mut interval = wheel.interval(MS, period).unwrap();
        assert_eq!(tick(&mut interval), Poll::Pending);
        advance(&wheel, 11);
        for _ in 0..ticks {
            assert_eq!(tick(&mut interval), Poll::Ready(Ok(left_out)));
        }
        assert_eq!(tick(&mut interval), Poll::Pending);
        advance(&wheel, next - 1);
        assert_eq!(tick(&mut interval), Poll::Pending, "{missed:?}");
        advance(&wheel, next);
        assert_eq!(tick(&mut interval), Poll::Ready(Ok(0)), "{missed:?}");
        drop(interval);
        assert_none_left(&wheel, &[]);
    }
}

#[test]
fn an_interval_keeps_its_rhythm_while_it_misses_none() {
    for missed in [Missed::Skip, Missed::Burst, Missed::Delay] {
        let wheel = manual();
        let period = Period::new(4 * MS).missed(missed);
        let mut interval = wheel.interval(4 * MS, period).unwrap();
        for ms in (4..40).step_by(4) {
            assert_eq!(tick(&mut interval), Poll::Pending);
            // Every second one comes a little late.
            advance(&wheel, ms + ms / 4 % 2 * 3);
            assert_eq!(tick(&mut interval), Poll::Ready(Ok(0)), "{missed:?}");
        }
    }
}

#[test]
fn a_tick_that_is_dropped_takes_none_away() {
    let wheel = manual();
    let mut interval = wheel.interval(MS, MS).unwrap();
    for ms in 1..5 {
        for _ in 0..2 {
            let tick = &mut pin!(interval.tick());
            let seen = tick.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(seen, Poll::Pending);
        }
        advance(&wheel, ms);
        assert_eq!(block_on(interval.tick()), Ok(0));
    }
}

#[test]
fn intervals_with_slack_share_their_ticks() {
    let wheel = manual();
    let period = Period::new(10 * MS).slack(10 * MS);
    let mut intervals = [1, 3].map(|ms| wheel.interval(ms * MS, period).unwrap());
    let mut ticks = [Vec::new(), Vec::new()];
    for ms in 0..=16 {
        advance(&wheel, ms);
        for (interval, ticks) in intervals.iter_mut().zip(&mut ticks) {
            if tick(interval) == Poll::Ready(Ok(0)) {
                ticks.push(ms);
                assert_eq!(tick(interval), Poll::Pending);
            }
        }
    }
    assert_eq!(ticks, [[1, 16], [3, 16]]);
}

#[test]
fn no_period_is_too_long() {
    let wheel = manual();
    for missed in [Missed::Skip, Missed::Burst, Missed::Delay] {
        let period = Period::new(Duration::MAX).missed(missed);
        let mut interval = wheel.interval(START, period).unwrap();
        assert_eq!(tick(&mut interval), Poll::Ready(Ok(0)));
        assert_eq!(tick(&mut interval), Poll::Pending);
    }
}

#[test]
fn they_do_not_wait_for_workers_or_room() {
    let (go, wait) = mpsc::channel::<()>();
    let (stuck, wait) = (mpsc::channel(), Mutex::new(wait));
    let handler = move |_: &Wheel, _: &Event| {
        stuck.0.send(()).unwrap();
        _ = wait.lock().unwrap().recv();
    };
    let options = Options::new().workers(1).queue(2, Overload::Drop);
    let wheel = started(options.handler(handler));
    for cookie in 0..4 {
        wheel.once(Duration::ZERO, cookie).unwrap();
    }
    stuck.1.recv().unwrap();
    assert_eq!(block_on(wheel.sleep(5 * MS)), Ok(()));
    drop(go);
}

/// A task that only its waker owns, and the future's wheel that only the task owns.
struct Lonely(Mutex<Option<Sleep>>);

impl Wake for Lonely {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_waker_may_drop_the_last_owner_of_the_wheel() {
    let (owned, last) = mpsc::channel::<()>();
    let options = Options::new().handler(move |_, _| _ = &owned);
    let wheel = started(options);
    let task = Arc::new(Lonely(Mutex::new(Some(wheel.sleep(5 * MS)))));
    drop(wheel);
    let waker = Waker::from(task.clone());
    let mut sleep = task.0.lock().unwrap();
    let seen = Pin::new(sleep.as_mut().unwrap()).poll(&mut Context::from_waker(&waker));
    assert_eq!(seen, Poll::Pending);
    drop(sleep);
    drop((task, waker));
    // The handler is freed with its wheel.
    assert!(last.recv().is_err());
}

/// Stops the wheel, and tells the answer.
struct Stops(Arc<Wheel>, mpsc::Sender<Result<(), Error>>);

impl Wake for Stops {
    fn wake(self: Arc<Self>) {
        self.1.send(self.0.stop()).unwrap();
    }
}

#[test]
fn a_waker_cannot_stop_the_wheel_that_calls_it() {
    let (tell, told) = mpsc::channel();
    let wheel = manual();
    let waker = Waker::from(Arc::new(Stops(wheel.clone(), tell)));
    let mut sleeps = [1, 2].map(|ms| wheel.sleep(ms * MS));
    for sleep in &mut sleeps {
        let seen = Pin::new(sleep).poll(&mut Context::from_waker(&waker));
        assert_eq!(seen, Poll::Pending);
    }
    advance(&wheel, 1);
    assert_eq!(wheel.drain(&mut [Event::default()]), Ok(&[][..]));
    assert!(told.try_iter().eq([Err(Error::Deadlock); 2]));
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        // As a panic, but prints nothing.
        resume_unwind(Box::new("a waker does"));
    }
}

#[test]
fn a_waker_that_panics_stops_nothing() {
    let wheel = started(Options::new());
    let mut sleep = wheel.sleep(MS);
    let panics = Waker::from(Arc::new(Panics));
    let seen = Pin::new(&mut sleep).poll(&mut Context::from_waker(&panics));
    assert_eq!(seen, Poll::Pending);
    assert_eq!(block_on(wheel.sleep(5 * MS)), Ok(()));
    assert_eq!(block_on(&mut sleep), Ok(()));
}

struct PanicsAtItsEnd;

impl Wake for PanicsAtItsEnd {
    fn wake(self: Arc<Self>) {}
}

impl Drop for PanicsAtItsEnd {
    fn drop(&mut self) {
        resume_unwind(Box::new("the end of a waker does"));
    }
}

#[test]
fn a_future_outlives_a_waker_whose_end_panics() {
    let (wheel, waker) = (manual(), Arc::default());
    let mut sleep = wheel.sleep(MS);
    let panics = Waker::from(Arc::new(PanicsAtItsEnd));
    let seen = Pin::new(&mut sleep).poll(&mut Context::from_waker(&panics));
    assert_eq!(seen, Poll::Pending);
    // The future has the last one.
    drop(panics);
    let replaced = catch_unwind(AssertUnwindSafe(|| poll(&mut sleep, &waker)));
    assert!(replaced.is_err());
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    advance(&wheel, 1);
    assert_eq!(waker.woken(), 1);
    assert_eq!(poll(&mut sleep, &waker), Poll::Ready(Ok(())));
    drop(sleep);
    assert_none_left(&wheel, &[&waker]);
}

#[test]
fn a_forked_child_gets_an_error() {
    let (wheel, waker) = (started(Options::new()), Arc::default());
    let mut before = wheel.sleep(Duration::from_secs(3600));
    assert_eq!(poll(&mut before, &waker), Poll::Pending);
    // SAFETY: the child polls, drops and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let refused = Poll::Ready(Err(Error::Shutdown));
        // A panic would end the only thread of the child, and so the child, with status 0.
        let right = catch_unwind(AssertUnwindSafe(|| {
            let mut after = wheel.sleep(MS);
            let right = poll(&mut before, &waker) == refused && poll(&mut after, &waker) == refused;
            drop((before, after, wheel));
            right
        }));
        let right = right.unwrap_or(false);
        // SAFETY: it does not return.
        unsafe { libc::_exit(if right { 0 } else { 1 }) };
    }
    let mut status = 1;
    // SAFETY: the process is a child of this one.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!(poll(&mut before, &waker), Poll::Pending);
}

/// Sleeps that fire while threads poll them, hand them over and drop them.
#[test]
fn threads_poll_hand_over_and_drop() {
    const ROUNDS: u64 = 5000;
    let tick = Duration::from_micros(50);
    for workers in [0, 2] {
        let options = Options::new().tick(tick).workers(workers);
        let wheel = started(options.handler(|_, _| ()));
        let wakers: Vec<Arc<Count>> = (0..4).map(|_| Arc::default()).collect();
        let (hand_over, taken) = mpsc::channel::<(Sleep, Instant)>();
        thread::scope(|scope| {
            for (n, waker) in wakers.iter().enumerate() {
                let (wheel, hand_over) = (&wheel, hand_over.clone());
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let delay = tick * ((round * 7 + n as u64) % 5) as u32;
                        let due = Instant::now() + delay;
                        let mut sleep = wheel.sleep(delay);
                        if round % 9 == 0 {
                            assert_eq!(block_on(&mut sleep), Ok(()));
                            assert!(Instant::now() >= due);
                        }
                        _ = poll(&mut sleep, waker);
                        if round % 3 == 0 {
                            sleep.reset(delay);
                        }
                        if round % 2 == 0 {
                            _ = poll(&mut sleep, waker);
                            hand_over.send((sleep, due)).unwrap();
                        }
                    }
                });
            }
            drop(hand_over);
            // With another waker, on another thread.
            for (sleep, due) in taken {
                assert_eq!(block_on(sleep), Ok(()));
                assert!(Instant::now() >= due);
            }
        });
        // The last callbacks have ended.
        wheel.stop().unwrap();
        assert_none_left(&wheel, &wakers.iter().collect::<Vec<_>>());
    }
}
