//! What happens in the middle of a call, at the places where the core calls
//! out of itself: for memory, to wake the driver, to the sink.

use super::{at, config, Heap, Own, Spin, Waking};
use crate::memory::Memory;
use crate::slab::{AUTO, BURST};
use crate::sweep::Fired;
use crate::wheel::{Error, Handle, How, Spec, Wheel, TENTATIVE};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory that may be refused.
#[derive(Default)]
struct Refused(AtomicBool);

impl Memory for &Refused {
    fn map(&self, bytes: usize) -> *mut u8 {
        if self.0.load(Ordering::Relaxed) {
            return std::ptr::null_mut();
        }
        Heap.map(bytes)
    }
    unsafe fn unmap(&self, at: *mut u8, bytes: usize) {
        // SAFETY: as mapped.
        unsafe { Heap.unmap(at, bytes) };
    }
}

/// With a callback, which the test ends by `finish`.
fn called() -> Spec {
    Spec {
        func: 1,
        ..Spec::default()
    }
}

/// The same every ten ticks, each of which is made up for.
fn burst() -> Spec {
    Spec {
        period: 10,
        kind: BURST,
        ..called()
    }
}

/// What an advance to `tick` fires, `most` at the most.
fn fired<M: Memory>(w: &Wheel<M>, tick: u64, most: usize) -> Vec<Handle> {
    let mut all = Vec::new();
    w.drive().unwrap().advance(tick, |f: &Fired| {
        assert!(f.tick <= tick, "early");
        all.push(f.handle);
        all.len() < most
    });
    all
}

fn drained<M: Memory>(w: &Wheel<M>, most: usize) -> Vec<Handle> {
    let mut all = Vec::new();
    w.drive().unwrap().drain(|f| {
        all.push(f.handle);
        all.len() < most
    });
    all
}

/// Race 2: another thread has been stopped before it was sure of its promise, and
/// its entry will not be met.
#[test]
fn a_promise_that_is_not_sure_is_not_counted_on() {
    for theirs in [0, 5, 10, 20] {
        let w = Wheel::new(Heap, config(4, 8, 0)).unwrap();
        let own = &Own(w.attach().unwrap());
        let h = w.setup(own, Spec::default(), None).unwrap();
        let link = &w.slab.get(0).unwrap().link;
        link.store((theirs + 1) | TENTATIVE, Ordering::Relaxed);
        assert_eq!(w.arm(own, h, at(10), How::Always), Ok(false));
        assert_eq!(w.entries(), 1);
        assert_eq!(fired(&w, 9, 9), []);
        assert_eq!(fired(&w, 10, 9), [h]);
    }
}

/// Race 2: the hand passes before the promise is sure, and a third thread arms
/// the timer again or not.
#[test]
fn a_sweep_in_the_middle_of_an_arm() {
    for again in [false, true] {
        let w = Wheel::new(Heap, config(4, 8, 0)).unwrap();
        let token = w.attach().unwrap();
        let third = &Own(w.attach().unwrap());
        let h = w.setup(third, Spec::default(), None).unwrap();
        w.doze(1 << 36, |_| ());
        let sweeps = Waking(token, || {
            w.awake();
            assert_eq!(fired(&w, 12, 9), [h]);
            if again {
                assert_eq!(w.arm(third, h, at(50), How::Always), Ok(false));
            }
        });
        assert_eq!(w.arm(&sweeps, h, at(10), How::Always), Ok(false));
        assert_eq!(w.due(h).unwrap().is_some(), again);
        assert_eq!(fired(&w, 49, 9), []);
        assert_eq!(fired(&w, 50, 9), if again { vec![h] } else { vec![] });
    }
}

/// Race 3: the alarm is set again, to what an arm has lowered meanwhile.
#[test]
fn an_arm_in_the_middle_of_falling_asleep() {
    let w = Wheel::new(Heap, config(4, 8, 0)).unwrap();
    let token = w.attach().unwrap();
    let h = w.setup(&Own(token), Spec::default(), None).unwrap();
    let woken = Cell::new(0);
    let wakes = Waking(token, || woken.set(woken.get() + 1));
    let mut alarms = Vec::new();
    w.doze(1000, |tick| {
        if alarms.is_empty() {
            assert_eq!(w.arm(&wakes, h, at(10), How::Always), Ok(false));
        }
        alarms.push(tick);
    });
    assert_eq!(alarms, [1000, 10]);
    assert_eq!(woken.get(), 1);
}

/// Race 4, in each order: the drain comes between A1 and A3, and stops before
/// the timer or takes it.
#[test]
fn a_drain_in_the_middle_of_an_arm() {
    for (was, reached) in [(false, false), (false, true), (true, false), (true, true)] {
        let w = Wheel::new(Heap, config(4, 8, 0)).unwrap();
        let token = w.attach().unwrap();
        let own = &Own(token);
        let other = w.setup(own, Spec::default(), Some(at(1000))).unwrap();
        let h = w
            .setup(own, Spec::default(), was.then_some(at(900)))
            .unwrap();
        let given = RefCell::new(Vec::new());
        w.doze(1 << 36, |_| ());
        let drains = Waking(token, || {
            w.awake();
            given.replace(drained(&w, if reached { 2 } else { 1 }));
        });
        let answer = w.arm(&drains, h, at(10), How::Always);
        let (want, rest) = match (was, reached) {
            (_, true) => (Ok(was), vec![]),
            (true, false) => (Ok(true), vec![h]),
            (false, false) => (Err(Error::Shutdown), vec![]),
        };
        assert_eq!(answer, want);
        assert_eq!(
            given.take(),
            if reached { vec![other, h] } else { vec![other] }
        );
        assert_eq!(drained(&w, 9), rest);
        assert_eq!(w.due(h).unwrap().map(|due| due.tick), None);
    }
}

#[test]
fn a_drain_in_the_middle_of_a_setup() {
    for reached in [false, true] {
        let w = Wheel::new(Heap, config(4, 8, 0)).unwrap();
        let token = w.attach().unwrap();
        let other = w
            .setup(&Own(token), Spec::default(), Some(at(1000)))
            .unwrap();
        let given = RefCell::new(Vec::new());
        w.doze(1 << 36, |_| ());
        let drains = Waking(token, || {
            w.awake();
            given.replace(drained(&w, if reached { 2 } else { 1 }));
        });
        let answer = w.setup(&drains, Spec::default(), Some(at(10)));
        let given = given.take();
        assert_eq!(given[0], other);
        assert_eq!(answer, given.get(1).copied().ok_or(Error::Shutdown));
        assert_eq!(given.len(), if reached { 2 } else { 1 });
        assert_eq!(drained(&w, 9), []);
        assert_eq!(w.live(), given.len() as u64);
    }
}

/// The same in the short way to arm, which has done its exchange.
#[test]
fn a_drain_in_the_middle_of_a_rearm() {
    let w = Wheel::new(Heap, config(4, 8, 0)).unwrap();
    let own = &Own(w.attach().unwrap());
    let [first, second, gone] = [0; 3].map(|_| w.setup(own, Spec::default(), Some(at(9))).unwrap());
    assert_eq!(w.free(own, gone), Ok(true));
    assert_eq!(drained(&w, 1), [first]);
    let raced = |h, was| w.rearm_raced(own, h, 9, was);
    assert_eq!(raced(gone, false), Ok(false));
    assert_eq!(raced(gone, true), Ok(true));
    assert_eq!(raced(first, false), Ok(false));
    assert_eq!(raced(second, true), Ok(true));
    assert!(w.due(second).unwrap().is_some());
    assert_eq!(raced(second, false), Err(Error::Shutdown));
    assert!(w.due(second).unwrap().is_none());
    assert_eq!(drained(&w, 9), []);
}

/// Race 1: the promise that the short way has seen is not there any more.
#[test]
fn a_visit_in_the_middle_of_a_rearm() {
    let w = Wheel::new(Heap, config(4, 8, 0)).unwrap();
    let own = &Own(w.attach().unwrap());
    let h = w.setup(own, Spec::default(), Some(at(900))).unwrap();
    assert_eq!(w.entries(), 1);
    assert_eq!(w.rearm_raced(own, h, 10, true), Ok(true));
    assert_eq!(w.entries(), 2);
    assert!(!w.nothing_due(10));
    assert_eq!(fired(&w, 899, 9), []);
    assert_eq!(fired(&w, 900, 9), [h]);
}

#[test]
fn a_drain_in_the_middle_of_a_callback() {
    let w = Wheel::new(Heap, config(4, 8, 0)).unwrap();
    let own = &Own(w.attach().unwrap());
    let spec = Spec {
        period: 10,
        kind: AUTO,
        ..called()
    };
    let h = w.setup(own, spec, Some(at(10))).unwrap();
    assert_eq!(fired(&w, 10, 9), [h]);
    assert_eq!(drained(&w, 9), [h]);
    assert_eq!(w.due(h).err(), Some(Error::Stale));
    assert_eq!(w.live(), 1);
    w.finish(own, h, &Spin);
    assert_eq!(w.live(), 0);
}

#[test]
fn a_cancel_in_the_middle_of_a_callback_that_is_due_again() {
    let w = Wheel::new(Heap, config(4, 8, 0)).unwrap();
    let own = &Own(w.attach().unwrap());
    let h = w.setup(own, burst(), Some(at(10))).unwrap();
    assert_eq!(fired(&w, 10, 9), [h]);
    assert_eq!(fired(&w, 20, 9), []);
    assert_eq!(w.cancel(own, h, 0), Ok(true));
    w.finish(own, h, &Spin);
    assert_eq!(fired(&w, 99, 9), []);
    assert_eq!(w.entries(), 0);
}

/// The end of a callback owes a visit, and its thread gets no memory for it.
#[test]
fn no_memory_at_the_end_of_a_callback() {
    let memory = Refused::default();
    let w = Wheel::new(&memory, config(4, 8, 0)).unwrap();
    let own = &Own(w.attach().unwrap());
    let worker = &Own(w.attach().unwrap());
    let h = w.setup(own, burst(), Some(at(10))).unwrap();
    assert_eq!(fired(&w, 10, 9), [h]);
    // Its callback still runs.
    assert_eq!(fired(&w, 20, 9), []);
    memory.0.store(true, Ordering::Relaxed);
    w.finish(worker, h, &Spin);
    assert!(!w.nothing_due(20));
    memory.0.store(false, Ordering::Relaxed);
    assert_eq!(fired(&w, 21, 9), [h]);
    w.finish(worker, h, &Spin);
    assert_eq!(fired(&w, 30, 9), [h]);
}

/// Without memory for promises the driver looks at every timer, and the sink
/// has enough in the middle of that.
#[test]
fn a_full_batch_in_the_middle_of_a_rescue() {
    let memory = Refused::default();
    let w = Wheel::new(&memory, config(4, 6, 0)).unwrap();
    let own = &Own(w.attach().unwrap());
    let all = [0; 3].map(|_| w.setup(own, Spec::default(), Some(at(300))).unwrap());
    memory.0.store(true, Ordering::Relaxed);
    // They cannot be moved to the lowest level.
    assert_eq!(fired(&w, 299, 9), []);
    assert_eq!(fired(&w, 300, 1), all[..1]);
    assert_eq!(fired(&w, 300, 1), all[1..2]);
    assert_eq!(fired(&w, 300, 9), all[2..]);
    memory.0.store(false, Ordering::Relaxed);
    let late = w.setup(own, Spec::default(), Some(at(900))).unwrap();
    assert_eq!(fired(&w, 899, 9), []);
    assert_eq!(fired(&w, 900, 9), [late]);
}

/// Dead entries are left alone until a tick that was left is done.
#[test]
fn a_full_batch_before_a_tidying() {
    let w = Wheel::new(Heap, config(4, 8, 0)).unwrap();
    let own = &Own(w.attach().unwrap());
    let all: Vec<_> = (0..40)
        .map(|_| w.setup(own, Spec::default(), Some(at(5))).unwrap())
        .collect();
    assert_eq!(fired(&w, 5, 1), all[..1]);
    let moved = w.setup(own, Spec::default(), None).unwrap();
    for earlier in 0..20_000 {
        let due = at((1 << 20) - earlier);
        assert_eq!(w.arm(own, moved, due, How::Always), Ok(earlier != 0));
    }
    let untidy = w.entries();
    assert!(untidy > 20_000);
    assert_eq!(fired(&w, 5, 9), all[1..10]);
    assert_eq!(w.entries(), untidy - 9);
    assert_eq!(fired(&w, 5, 99), all[10..]);
    for tick in 6..16 {
        assert_eq!(fired(&w, tick, 9), []);
    }
    assert!(w.entries() < 100, "{}", w.entries());
    assert_eq!(fired(&w, (1 << 20) - 20_000, 9), []);
    assert_eq!(fired(&w, (1 << 20) - 19_999, 9), [moved]);
}

/// How many entries are left of a tidying that so many pushes overtake.
fn left_of_a_tidying(overtaken_by: u64) -> u64 {
    let w = Wheel::new(Heap, config(4, 8, 0)).unwrap();
    let own = &Own(w.attach().unwrap());
    let moved = w.setup(own, Spec::default(), None).unwrap();
    let arm_earlier = |begin: u64, times: u64| {
        for earlier in begin..begin + times {
            let due = at((1 << 24) - earlier);
            w.arm(own, moved, due, How::Always).unwrap();
        }
    };
    arm_earlier(0, 20_000);
    assert_eq!(fired(&w, 1, 9), []);
    assert!(w.entries() < 20_000, "it has begun");
    let asked = w.hot.tidy.load(Ordering::Relaxed);
    arm_earlier(20_000, overtaken_by);
    assert!(w.hot.tidy.load(Ordering::Relaxed) > asked);
    for tick in 2..60 {
        assert_eq!(fired(&w, tick, 9), []);
    }
    assert_eq!(w.hot.tidy.load(Ordering::Relaxed), 0);
    w.entries()
}

/// What is pushed behind a tidying under way is gone through as well, though nobody
/// asks again; unless it is not worth while.
#[test]
fn pushes_that_overtake_a_tidying() {
    assert!(left_of_a_tidying(100_000) < 20_000);
    assert!((8_000..9_000).contains(&left_of_a_tidying(8_000)));
}
