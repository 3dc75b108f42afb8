//! What happens in the middle of a call, at the places where the core calls
//! out of itself: for memory, to wake the driver, to the sink.

use super::{config, Collect, Heap, Own, Waking};
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::error::Error;
use crate::core::life::{first_generation, Spec};
use crate::core::memory::{Memory, Pages};
use crate::core::node::{AUTO, BURST, VALUE};
use crate::core::state::{index_of, Handle, GEN_BITS, GEN_HIGH_BITS, GEN_MASK, LEAP, NEVER};
use crate::core::wheel::{Caller, Config, Token, Wheel, DROPPED};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Long enough that a promise is for one tick.
const TICK: u64 = 1 << 20;

/// A wheel in which callbacks end by `finish`.
fn wheel_of<M: Memory>(memory: M, slot_bits: u32) -> Wheel<M> {
    let config = Config {
        tick_ns: TICK,
        pooled: true,
        ..config(4, slot_bits, 0)
    };
    Wheel::new(memory, config).unwrap()
}

fn wheel() -> Wheel<Heap> {
    wheel_of(Heap, 8)
}

/// The time of a tick.
fn at(tick: u64) -> u64 {
    tick * TICK
}

/// Memory that may be refused, and how often it was.
#[derive(Default)]
struct Refused(AtomicBool, AtomicU32);

impl Refused {
    fn refuse(&self, refuse: bool) {
        self.0.store(refuse, Ordering::Relaxed);
    }
    fn times(&self) -> u32 {
        self.1.load(Ordering::Relaxed)
    }
}

impl Memory for &Refused {
    fn map(&self, bytes: usize, pages: Pages) -> *mut u8 {
        if self.0.load(Ordering::Relaxed) {
            self.1.fetch_add(1, Ordering::Relaxed);
            return std::ptr::null_mut();
        }
        Heap.map(bytes, pages)
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
        period: at(10),
        kind: BURST,
        ..called()
    }
}

/// Shows each timer that an advance fires to `take`, which says whether there is room for more.
fn advance<M: Memory>(w: &Wheel<M>, now: u64, take: impl FnMut(&Fired) -> bool) {
    w.drive().unwrap().advance(now, Collect(take));
}

/// What an advance to `tick` fires, `most` at the most.
fn fired<M: Memory>(w: &Wheel<M>, tick: u64, most: usize) -> Vec<Handle> {
    let mut all = Vec::new();
    advance(w, at(tick), |f| {
        assert!(f.deadline_ns <= at(tick), "early");
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

/// The driver falls asleep; when it set its alarm to.
fn asleep<M: Memory>(w: &Wheel<M>) -> u64 {
    let alarm = Cell::new(0);
    w.drive().unwrap().sleep(|ns| alarm.set(ns));
    alarm.get()
}

/// A driver that has stopped in a tick wakes at once for the rest of it, even if the clock
/// has stepped back behind that tick.
#[test]
fn a_sleep_in_the_middle_of_a_tick() {
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let mut all: Vec<_> = (0..3)
        .map(|_| w.setup(own, Spec::default(), Some(at(5))).unwrap())
        .collect();
    for left in [2, 1] {
        assert_eq!(fired(&w, 5, 1), [all.remove(0)]);
        let pending = all.iter().filter(|t| w.is_pending(**t) == Ok(true));
        assert_eq!(pending.count(), left);
        assert_eq!(asleep(&w), 0);
    }
    assert_eq!(fired(&w, 5, 9), all);
    assert_eq!(asleep(&w), at(5 + LEAP));
}

/// Race 2: the hand passes before the promise is sure, and a third thread arms
/// the timer again or not.
#[test]
fn a_sweep_in_the_middle_of_an_arm() {
    for again in [false, true] {
        let w = wheel();
        let token = w.attach().unwrap();
        let third = &Own(w.attach().unwrap());
        let h = w.setup(third, Spec::default(), None).unwrap();
        asleep(&w);
        let sweeps = Waking(token, || {
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
    let w = wheel();
    let token = w.attach().unwrap();
    let h = w.setup(&Own(token), Spec::default(), None).unwrap();
    let woken = Cell::new(0);
    let wakes = Waking(token, || woken.set(woken.get() + 1));
    let mut alarms = Vec::new();
    w.drive().unwrap().sleep(|ns| {
        if alarms.is_empty() {
            assert_eq!(w.arm(&wakes, h, at(10), How::Always), Ok(false));
        }
        alarms.push(ns);
    });
    assert_eq!(alarms, [at(LEAP), at(10)]);
    assert_eq!(woken.get(), 0, "woken, although it looks in any case");
}

/// Each order of a drain in the middle of an arm: whether the timer was pending, and
/// whether the drain has come to it.
const ORDERS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

/// A wheel with two timers: one is pending, the other one if `was` says so.
fn two_timers(was: bool) -> (Wheel<Heap>, Token, [Handle; 2]) {
    let w = wheel();
    let token = w.attach().unwrap();
    let timers = [Some(at(1000)), was.then_some(at(900))]
        .map(|due| w.setup(&Own(token), Spec::default(), due).unwrap());
    (w, token, timers)
}

/// Calls `arm`, in the middle of which a drain takes `most` timers. The answer, and
/// these timers.
fn drain_during<R>(
    w: &Wheel<Heap>,
    token: Token,
    most: usize,
    arm: impl FnOnce(&Waking<&dyn Fn()>) -> R,
) -> (R, Vec<Handle>) {
    let given = RefCell::new(Vec::new());
    asleep(w);
    let drain = || _ = given.replace(drained(w, most));
    (arm(&Waking(token, &drain)), given.take())
}

/// Race 4: the drain comes between arm.exchange and arm.check.
#[test]
fn a_drain_in_the_middle_of_an_arm() {
    for (was, reached) in ORDERS {
        let (w, token, both) = two_timers(was);
        let (taken, h) = (1 + usize::from(reached), both[1]);
        let (answer, given) = drain_during(&w, token, taken, |c| w.arm(c, h, at(10), How::Always));
        let (want, rest) = match (was, reached) {
            (_, true) => (Ok(was), vec![]),
            (true, false) => (Ok(true), vec![h]),
            (false, false) => (Err(Error::Shutdown), vec![]),
        };
        assert_eq!(answer, want);
        assert_eq!(given, both[..taken]);
        assert_eq!(drained(&w, 9), rest);
        assert_eq!(w.due(h).unwrap(), None);
    }
}

#[test]
fn a_drain_in_the_middle_of_a_setup() {
    for taken in [1, 2] {
        let w = wheel();
        let token = w.attach().unwrap();
        let pending = w
            .setup(&Own(token), Spec::default(), Some(at(1000)))
            .unwrap();
        let (answer, given) = drain_during(&w, token, taken, |c| {
            w.setup(c, Spec::default(), Some(at(10)))
        });
        assert_eq!(given[0], pending);
        assert_eq!(answer, given.get(1).copied().ok_or(Error::Shutdown));
        assert_eq!(given.len(), taken);
        assert_eq!(drained(&w, 9), []);
        assert_eq!(w.live(), given.len() as u64);
    }
}

/// Race 4 in the short way to arm, which pushes, and finds the gate closed.
#[test]
fn a_drain_in_the_middle_of_a_short_arm() {
    for (was, reached) in ORDERS {
        let (w, token, both) = two_timers(was);
        let (taken, h) = (1 + usize::from(reached), both[1]);
        let (answer, given) = drain_during(&w, token, taken, |c| w.arm_at(c, h, at(10)));
        let taken_back = !was && !reached;
        let shutdown = Error::Shutdown as i32;
        assert_eq!(answer, if taken_back { shutdown } else { was.into() });
        assert_eq!(given, both[..taken]);
        let rest = if was && !reached { vec![h] } else { vec![] };
        assert_eq!(drained(&w, 9), rest);
        assert_eq!((w.due(h), w.pending()), (Ok(None), 0));
        assert_eq!(w.arm_at(&Own(token), h, at(20)), shutdown);
    }
}

/// Race 1 and 3 in the short way: it relies on a promise, while the driver
/// sleeps longer than that, as the timer rested. Nobody is woken for one that
/// is after the alarm.
#[test]
fn an_arm_that_relies_on_a_promise_of_a_timer_that_rested() {
    for (asked, kicks) in [(900, 1), (LEAP, 0), (LEAP + 5, 0)] {
        for early in [0, 5] {
            let w = wheel();
            let token = w.attach().unwrap();
            let promised = asked - early;
            let h = w
                .setup(&Own(token), Spec::default(), Some(at(promised)))
                .unwrap();
            assert_eq!(w.cancel(&Own(token), h, false), Ok(true));
            assert_eq!(asleep(&w), at(LEAP));
            assert_eq!(w.next_expiry(), None);
            let woken = Cell::new(0);
            let wakes = Waking(token, || woken.set(woken.get() + 1));
            assert_eq!(w.arm_at(&wakes, h, at(asked)), 0);
            let pushes = u64::from(promised < LEAP);
            assert_eq!((woken.get(), w.entries()), (kicks, 1 + pushes));
            let next = w.next_expiry().expect("one is pending");
            assert!(next <= at(asked), "{next} {asked}");
            assert!(!w.nothing_due(at(asked)));
            assert_eq!(fired(&w, asked - 1, 9), []);
            assert_eq!(fired(&w, asked, 9), [h]);
        }
    }
}

/// A thread that gets no shard.
struct Stranger<F>(F);

impl<F: Fn()> Caller for Stranger<F> {
    fn token(&self) -> Result<Token, Error> {
        Err(Error::Memory)
    }
    fn token_at_hand(&self) -> Option<Token> {
        None
    }
    fn wake_driver(&self) -> bool {
        self.0();
        true
    }
}

/// The same in a thread that gets no shard. It may rely on a promise; if that does not
/// stand, the driver looks at all timers.
#[test]
fn an_arm_without_a_shard() {
    for sleeps in [false, true] {
        let w = wheel();
        let own = &Own(w.attach().unwrap());
        let h = w.setup(own, Spec::default(), Some(at(895))).unwrap();
        assert_eq!(w.cancel(own, h, false), Ok(true));
        if sleeps {
            assert_eq!(asleep(&w), at(LEAP));
        }
        let woken = Cell::new(0);
        let stranger = Stranger(|| woken.set(woken.get() + 1));
        for (tick, was) in [(900, 0), (901, 1)] {
            assert_eq!(w.arm_at(&stranger, h, at(tick)), was);
            assert_eq!(w.pending(), 1);
        }
        assert_eq!(w.cancel_plain(&stranger, h), 1);
        assert_eq!(w.arm_at(&stranger, h, at(900)), 0);
        assert_eq!(woken.get() > 0, sleeps);
        let refused = w.arm_at(&stranger, h, at(894));
        assert_eq!(refused, Error::Memory as i32);
        assert!(!w.nothing_due(at(900)));
        assert_eq!(fired(&w, 899, 9), []);
        assert_eq!(fired(&w, 900, 9), [h]);
        assert_eq!((w.pending(), w.live()), (0, 1));
    }
}

/// A thread whose shard is looked up in the middle of an arm, and what happens then.
struct LooksUp<F>(Token, F);

impl<F: Fn()> Caller for LooksUp<F> {
    fn token(&self) -> Result<Token, Error> {
        self.1();
        Ok(self.0)
    }
    fn token_at_hand(&self) -> Option<Token> {
        Some(self.0)
    }
    fn wake_driver(&self) -> bool {
        true
    }
}

/// Between arm.exchange and arm.mark the timer gets a period, and the hand leaps. So its
/// word changes, and nothing is promised.
#[test]
fn a_period_and_a_leap_in_the_middle_of_an_arm() {
    for gets_period in [false, true] {
        let w = wheel();
        let token = w.attach().unwrap();
        let h = w.setup(&Own(token), called(), None).unwrap();
        // The thread has room for a push.
        let other = w.setup(&Own(token), called(), Some(at(10))).unwrap();
        assert_eq!(fired(&w, 10, 9), [other]);
        let now = 2 * LEAP;
        let armed = LooksUp(token, || {
            if w.due(h) == Ok(Some(at(266))) {
                if gets_period {
                    w.set_period(h, at(1000)).unwrap();
                }
                assert_eq!(fired(&w, now, 9), []);
            }
        });
        assert_eq!(w.arm_at(&armed, h, at(266)), 0);
        assert_eq!(fired(&w, now + 1, 9), [h], "{gets_period}");
    }
}

/// The promise is met, and the hand goes on, in the middle of an arm that wakes
/// the driver for a deadline before it.
#[test]
fn a_sweep_over_an_earlier_promise_in_the_middle_of_an_arm() {
    let w = wheel();
    let token = w.attach().unwrap();
    let own = &Own(token);
    let h = w.setup(own, Spec::default(), Some(at(100))).unwrap();
    asleep(&w);
    let sweeps = Waking(token, || assert_eq!(fired(&w, 200, 9), [h]));
    assert_eq!(w.arm_at(&sweeps, h, at(50)), 1);
    assert_eq!(w.due(h), Ok(None));
    // What the sweep has passed is not counted on.
    assert_eq!(w.arm_at(own, h, at(300)), 0);
    assert_eq!(fired(&w, 299, 9), []);
    assert_eq!(fired(&w, 300, 9), [h]);
}

/// A refusal in every way to arm changes nothing.
#[test]
fn no_memory_in_an_arm() {
    let memory = Refused::default();
    let w = wheel_of(&memory, 8);
    let own = &Own(w.attach().unwrap());
    let rests = w.setup(own, Spec::default(), None).unwrap();
    let armed = w.setup(own, Spec::default(), Some(at(900))).unwrap();
    memory.refuse(true);
    // The shard has some room at hand.
    let mut spare = 0;
    while w.arm_at(own, armed, at(899 - spare)) == 1 {
        spare += 1;
        assert!(spare < 800, "memory is refused");
    }
    let due = w.due(armed);
    assert_eq!(due, Ok(Some(at(900 - spare))));
    for (h, was) in [(rests, Ok(None)), (armed, due)] {
        let short = w.arm_at(own, h, at(9));
        assert_eq!(short, Error::Memory as i32);
        assert_eq!(w.arm(own, h, at(9), How::Always), Err(Error::Memory));
        assert_eq!(w.due(h), was);
    }
    let live = w.live();
    assert_eq!(
        w.setup(own, Spec::default(), Some(at(9))),
        Err(Error::Memory)
    );
    assert_eq!((w.live(), w.pending()), (live, 1));
    // A promise needs none, nor does never.
    assert_eq!(w.arm_at(own, armed, at(950)), 1);
    assert_eq!(w.arm(own, rests, NEVER, How::Always), Ok(false));
    assert_eq!(fired(&w, 949, 9), []);
    memory.refuse(false);
    assert_eq!(fired(&w, 950, 9), [armed]);
}

#[test]
fn a_drain_in_the_middle_of_a_callback() {
    let w = wheel();
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
    w.finish(own, h, || ());
    assert_eq!(w.live(), 0);
}

#[test]
fn a_cancel_in_the_middle_of_a_callback_that_is_due_again() {
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let h = w.setup(own, burst(), Some(at(10))).unwrap();
    assert_eq!(fired(&w, 10, 9), [h]);
    assert_eq!(fired(&w, 20, 9), []);
    assert_eq!(w.cancel(own, h, false), Ok(true));
    w.finish(own, h, || ());
    // The driver would have looked again after a long time.
    assert_eq!(fired(&w, LEAP, 9), []);
    assert_eq!(w.entries(), 0);
}

/// A period is held up by its callback, and the timer is moved or not: what a drain
/// hands back of it.
#[test]
fn a_drain_after_a_period_was_held_up() {
    for moved in [false, true] {
        let w = wheel();
        let own = &Own(w.attach().unwrap());
        let spec = Spec { kind: 0, ..burst() };
        let h = w.setup(own, spec, Some(at(10))).unwrap();
        assert_eq!(fired(&w, 10, 9), [h]);
        assert_eq!(fired(&w, 20, 9), []);
        if moved {
            assert_eq!(w.arm(own, h, at(25), How::Always), Ok(true));
        }
        let mut missed = Vec::new();
        w.drive().unwrap().drain(|f| {
            missed.push(f.missed);
            true
        });
        assert_eq!(missed, [u32::from(!moved)]);
    }
}

/// A callback arms for a tick after the goal of its sweep. On the lowest level the slot
/// of that tick is behind the hand; it hides no slot of the level above.
#[test]
fn an_arm_in_a_callback_hides_no_slot() {
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let make = |tick| w.setup(own, Spec::default(), Some(at(tick))).unwrap();
    let [third, second, first] = [400, 300, 250].map(make);
    let (mut all, mut later) = (Vec::new(), None);
    advance(&w, at(1000), |f| {
        if f.handle == first {
            later = Some(make(1008));
        }
        all.push(f.handle);
        true
    });
    assert_eq!(all, [first, second, third]);
    assert_eq!(fired(&w, 1008, 9), [later.unwrap()]);
}

/// A callback in another thread ends in the first step of a sweep of two, when its timer
/// was passed over: the second step fires that.
#[test]
fn a_callback_that_ends_in_a_step_of_a_long_sweep() {
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let h = w.setup(own, called(), Some(at(1))).unwrap();
    assert_eq!(fired(&w, 1, 9), [h]);
    assert_eq!(w.arm(own, h, at(2), How::Always), Ok(false));
    assert_eq!(fired(&w, 3, 9), []);
    // The last tick of the first step.
    let last = w.setup(own, Spec::default(), Some(at(LEAP + 3))).unwrap();
    let mut all = Vec::new();
    advance(&w, at(LEAP + 4), |f| {
        if f.handle == last {
            w.finish(own, h, || ());
        }
        all.push(f.handle);
        true
    });
    assert_eq!(all, [last, h]);
}

/// A callback in another thread ends, when its timer was passed over, between a sweep
/// that has stopped in a tick and the next: that fires both.
#[test]
fn a_callback_that_ends_after_a_sweep_that_has_stopped() {
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let h = w.setup(own, called(), Some(at(1))).unwrap();
    assert_eq!(fired(&w, 1, 9), [h]);
    assert_eq!(w.arm(own, h, at(2), How::Always), Ok(false));
    let two = [0; 2].map(|_| w.setup(own, Spec::default(), Some(at(3))).unwrap());
    assert_eq!(fired(&w, 3, 1), two[..1]);
    w.finish(own, h, || ());
    assert_eq!(fired(&w, 4, 9), [two[1], h]);
}

/// The end of a callback owes a visit, and its thread gets no memory for it.
#[test]
fn no_memory_at_the_end_of_a_callback() {
    let memory = Refused::default();
    let w = wheel_of(&memory, 8);
    let own = &Own(w.attach().unwrap());
    let worker = &Own(w.attach().unwrap());
    let h = w.setup(own, burst(), Some(at(10))).unwrap();
    assert_eq!(fired(&w, 10, 9), [h]);
    // Its callback still runs.
    assert_eq!(fired(&w, 20, 9), []);
    memory.refuse(true);
    w.finish(worker, h, || ());
    assert!(!w.nothing_due(20));
    memory.refuse(false);
    assert_eq!(fired(&w, 21, 9), [h]);
    w.finish(worker, h, || ());
    assert_eq!(fired(&w, 30, 9), [h]);
}

/// Without memory for promises the driver looks at every timer, and the sink
/// has enough in the middle of that.
#[test]
fn a_full_batch_in_the_middle_of_a_rescue() {
    let memory = Refused::default();
    let w = wheel_of(&memory, 6);
    let own = &Own(w.attach().unwrap());
    let all = [0; 3].map(|_| w.setup(own, Spec::default(), Some(at(300))).unwrap());
    memory.refuse(true);
    // They cannot be moved to the lowest level.
    assert_eq!(fired(&w, 299, 9), []);
    assert_eq!(fired(&w, 300, 1), all[..1]);
    assert_eq!(fired(&w, 300, 1), all[1..2]);
    assert_eq!(fired(&w, 300, 9), all[2..]);
    memory.refuse(false);
    let late = w.setup(own, Spec::default(), Some(at(900))).unwrap();
    assert_eq!(fired(&w, 899, 9), []);
    assert_eq!(fired(&w, 900, 9), [late]);
}

/// Dead entries are left alone until a tick that was left is done.
#[test]
fn a_full_batch_before_a_clean_up() {
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let all: Vec<_> = (0..100)
        .map(|_| w.setup(own, Spec::default(), Some(at(5))).unwrap())
        .collect();
    assert_eq!(fired(&w, 5, 1), all[..1]);
    let moved = w.setup(own, Spec::default(), None).unwrap();
    for earlier in 0..20_000 {
        let due = at((1 << 20) - earlier);
        assert_eq!(w.arm(own, moved, due, How::Always), Ok(earlier != 0));
    }
    assert_eq!(fired(&w, 5, 9), all[1..10]);
    assert!(w.entries() > 20_000);
    assert_eq!(fired(&w, 5, 99), all[10..]);
    for tick in 6..16 {
        assert_eq!(fired(&w, tick, 9), []);
    }
    assert!(w.entries() < 100, "{}", w.entries());
    assert_eq!(fired(&w, (1 << 20) - 20_000, 9), []);
    assert_eq!(fired(&w, (1 << 20) - 19_999, 9), [moved]);
}

/// The number of entries that are left after a clean-up with pushes behind it, each so
/// often ten sweeps after those before.
fn left_of_a_clean_up(overtaken_by: &[u64]) -> u64 {
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let moved = w.setup(own, Spec::default(), None).unwrap();
    let mut due = 1 << 24;
    let mut arm_earlier = |times| {
        // In another bucket, which a clean-up that has begun has passed.
        due -= 1 << 16;
        for _ in 0..times {
            due -= 1;
            w.arm(own, moved, at(due), How::Always).unwrap();
        }
    };
    arm_earlier(20_000);
    assert_eq!(fired(&w, 1, 9), []);
    assert!(w.entries() < 20_000, "it has begun");
    let mut tick = 1;
    for times in overtaken_by {
        let asked = w.requests_to_clean();
        arm_earlier(*times);
        assert!(w.requests_to_clean() > asked);
        for _ in 0..10 {
            tick += 1;
            assert_eq!(fired(&w, tick, 9), []);
        }
    }
    for tick in tick..150 {
        assert_eq!(fired(&w, tick, 9), []);
    }
    assert_eq!(w.requests_to_clean(), 0);
    w.entries()
}

/// A further clean-up takes the entries that were pushed behind one under way, though
/// no thread requests it; unless it is not worth it.
#[test]
fn pushes_that_overtake_a_clean_up() {
    assert!(left_of_a_clean_up(&[100_000]) < 20_000);
    assert!(left_of_a_clean_up(&[100_000, 100_000]) < 20_000);
    assert!((7_500..9_000).contains(&left_of_a_clean_up(&[8_000])));
}

/// A clean-up is requested although the push that was to do so was the first of two of an
/// arm.
#[test]
fn an_arm_with_two_pushes_requests_a_clean_up() {
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let moved = w.setup(own, Spec::default(), None).unwrap();
    let mut due = 1 << 30;
    for round in 1..3 {
        let t = w.setup(own, Spec::default(), None).unwrap();
        while w.total(|c| &c.pushes) < round * 8192 - 1 {
            due -= 1;
            w.arm(own, moved, at(due), How::Always).unwrap();
        }
        assert_eq!(w.requests_to_clean(), 0);
        asleep(&w);
        // The hand enters the slot of the first entry before the timer is due.
        let passes = Waking(own.0, || assert_eq!(fired(&w, round << 24, 9), []));
        w.arm(&passes, t, at((round << 24) + 9), How::Always)
            .unwrap();
        assert_eq!(w.total(|c| &c.pushes), round * 8192 + 1);
        assert_eq!(w.cancel(own, t, false), Ok(true));
    }
    assert_eq!(w.requests_to_clean(), 1);
}

/// Of a timer that is due so soon that no earlier promise can be made, a clean-up drops
/// nothing.
#[test]
fn a_clean_up_next_to_the_hand() {
    const SHORT: u64 = 1024;
    let config = Config {
        tick_ns: SHORT,
        ..config(4, 8, 0)
    };
    for tick in [1, 3, 5] {
        let w = Wheel::new(Heap, config).unwrap();
        let own = &Own(w.attach().unwrap());
        let t = w.setup(own, Spec::default(), None).unwrap();
        for _ in 0..20_000 {
            w.arm(own, t, tick * SHORT, How::Always).unwrap();
        }
        for _ in 0..20 {
            assert_eq!(fired(&w, 0, 9), []);
        }
        assert_eq!((w.entries(), w.requests_to_clean()), (20_000, 0));
        let mut n = 0;
        for now in [tick * SHORT - 1, tick * SHORT] {
            assert_eq!(n, 0, "early");
            advance(&w, now, |_| {
                n += 1;
                true
            });
        }
        assert_eq!((n, w.entries()), (1, 0));
    }
}

/// A timer is due while its callback runs. A clean-up leaves the entry that keeps its
/// deadline readable, however long that takes.
#[test]
fn a_clean_up_while_a_callback_holds_up_its_timer() {
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let t = w.setup(own, called(), Some(at(5))).unwrap();
    assert_eq!(fired(&w, 5, 9), [t]);
    w.arm(own, t, at(6), How::Always).unwrap();
    assert_eq!(fired(&w, 6, 9), []);
    let moved = w.setup(own, Spec::default(), None).unwrap();
    for earlier in 0..20_000 {
        w.arm(own, moved, at((1 << 20) - earlier), How::Always)
            .unwrap();
    }
    assert_eq!(w.cancel(own, moved, false), Ok(true));
    for tick in 7..20 {
        assert_eq!(fired(&w, tick, 9), []);
    }
    assert!(w.entries() < 100, "{}", w.entries());
    assert_eq!(w.requests_to_clean(), 0);
    assert_eq!(fired(&w, 1 << 38, 9), []);
    w.finish(own, t, || ());
    assert_eq!(fired(&w, 1 << 38, 9), [t]);
}

/// A clean-up goes on behind the number of a shard for which there was no memory.
#[test]
fn a_clean_up_behind_a_shard_without_memory() {
    let memory = Refused::default();
    let w = wheel_of(&memory, 8);
    memory.refuse(true);
    assert_eq!(w.attach(), Err(Error::Memory));
    memory.refuse(false);
    let own = &Own(w.attach().unwrap());
    let moved = w.setup(own, Spec::default(), None).unwrap();
    for earlier in 0..20_000 {
        w.arm(own, moved, at((1 << 20) - earlier), How::Always)
            .unwrap();
    }
    for tick in 1..10 {
        assert_eq!(fired(&w, tick, 9), []);
    }
    assert!(w.entries() < 100, "{}", w.entries());
}

/// The end of a callback makes the visit, so the entry far ahead is not needed. The driver
/// requests a clean-up, as no thread arms a timer.
#[test]
fn a_burst_that_is_held_up_again_and_again() {
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let h = w.setup(own, burst(), Some(at(10))).unwrap();
    for round in 1..50_000 {
        // It falls behind: its callback takes longer than its period.
        assert_eq!(fired(&w, 21 * round, 9), [h]);
        assert_eq!(fired(&w, 21 * round + 20, 9), []);
        w.finish(own, h, || ());
    }
    assert!(w.entries() < 20_000, "{}", w.entries());
}

/// A thread is stopped before it publishes. Until it continues, the driver goes through all
/// timers, and makes no entries.
#[test]
fn a_stopped_thread_and_a_rescue() {
    let memory = Refused::default();
    let w = wheel_of(&memory, 6);
    let own = &Own(w.attach().unwrap());
    let all = [0; 50].map(|_| w.setup(own, Spec::default(), Some(at(2000))).unwrap());
    let stopped = w.producer(w.attach().unwrap());
    stopped
        .publishing
        .store(index_of(all[0]), Ordering::Relaxed);
    memory.refuse(true);
    assert_eq!(fired(&w, 1990, 9), []);
    memory.refuse(false);
    assert!(w.is_in_rescue());
    for tick in 1991..2000 {
        assert_eq!(fired(&w, tick, 9), []);
    }
    assert!(w.is_in_rescue() && w.entries() <= 50, "{}", w.entries());
    stopped.publishing.store(0, Ordering::Relaxed);
    // Some entries have found memory, and come first.
    let mut all_fired = fired(&w, 2000, 99);
    all_fired.sort_by_key(|timer| all.iter().position(|t| t == timer));
    assert_eq!(all_fired, all);
    assert!(!w.is_in_rescue());
}

/// Without memory the driver wakes at each tick, and not all the time.
#[test]
fn a_driver_sleeps_in_a_rescue() {
    let memory = Refused::default();
    let w = wheel_of(&memory, 6);
    let own = &Own(w.attach().unwrap());
    let h = w.setup(own, Spec::default(), Some(at(2000))).unwrap();
    memory.refuse(true);
    assert_eq!(fired(&w, 1990, 9), []);
    for tick in 1990..1999 {
        assert_eq!(fired(&w, tick, 9), []);
        let alarm = Cell::new(0);
        w.drive().unwrap().sleep(|ns| alarm.set(ns));
        assert!(w.is_in_rescue());
        assert_eq!(alarm.get(), at(tick + 1));
    }
    assert_eq!(fired(&w, 2000, 9), [h]);
}

/// Without memory a rescue asks for it once in a sweep, not once for each timer. What it has
/// found room for it does not place again.
#[test]
fn a_rescue_without_memory() {
    const SWEEPS: u32 = 9;
    let memory = Refused::default();
    let w = wheel_of(&memory, 6);
    let own = &Own(w.attach().unwrap());
    let all = [0; 500].map(|_| w.setup(own, Spec::default(), Some(at(2000))).unwrap());
    memory.refuse(true);
    assert_eq!(fired(&w, 1990, 9), []);
    let times = memory.times();
    assert!(w.is_in_rescue());
    for tick in 1991..1991 + u64::from(SWEEPS) {
        assert_eq!(fired(&w, tick, 9), []);
    }
    assert!(memory.times() - times <= SWEEPS);
    assert!(w.entries() <= 2 * all.len() as u64, "{}", w.entries());
    memory.refuse(false);
    assert_eq!(fired(&w, 2000, all.len()).len(), all.len());
    assert!(!w.is_in_rescue());
}

/// A timer is held up by its callback, and its promise has found no memory. Its deadline
/// stays readable, however long that takes.
#[test]
fn a_callback_that_holds_up_its_timer_in_a_rescue() {
    let memory = Refused::default();
    let w = wheel_of(&memory, 6);
    let own = &Own(w.attach().unwrap());
    let h = w.setup(own, called(), Some(at(1))).unwrap();
    assert_eq!(fired(&w, 1, 9), [h]);
    w.arm(own, h, at(300), How::Always).unwrap();
    memory.refuse(true);
    assert_eq!(fired(&w, 6 * LEAP, 9), []);
    memory.refuse(false);
    w.finish(own, h, || ());
    assert_eq!(fired(&w, 6 * LEAP + 1, 9), [h]);
}

/// A callback ends in a thread that gets no shard, and its timer has come due meanwhile. The
/// timer fires at the next call, although the hand does not move.
#[test]
fn a_callback_that_ends_in_a_thread_without_a_shard() {
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let h = w.setup(own, called(), Some(at(5))).unwrap();
    assert_eq!(fired(&w, 5, 9), [h]);
    w.arm(own, h, at(6), How::Always).unwrap();
    assert_eq!(fired(&w, 6, 9), []);
    w.finish(&Stranger(|| ()), h, || ());
    assert!(!w.nothing_due(at(6)));
    assert_eq!(w.next_expiry(), Some(at(6)));
    assert_eq!(fired(&w, 6, 9), [h]);
    assert!(!w.is_in_rescue());
}

/// The same, and the driver falls asleep before it has made that visit.
#[test]
fn a_sleep_after_a_callback_has_ended_in_a_thread_without_a_shard() {
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let h = w.setup(own, called(), Some(at(5))).unwrap();
    assert_eq!(fired(&w, 5, 9), [h]);
    w.arm(own, h, at(6), How::Always).unwrap();
    assert_eq!(fired(&w, 6, 9), []);
    w.finish(&Stranger(|| ()), h, || ());
    assert_eq!(asleep(&w), 0);
    assert!(!w.nothing_due(at(6)));
    assert_eq!(fired(&w, 6, 9), [h]);
}

/// A burst is held up for so long that its deadline would no longer read right: the periods
/// are counted, and it keeps its rhythm.
#[test]
fn a_burst_that_is_held_up_for_long() {
    const PERIOD: u64 = LEAP / 16 + 1;
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let spec = Spec {
        period: at(PERIOD),
        ..burst()
    };
    let h = w.setup(own, spec, Some(at(10))).unwrap();
    assert_eq!(fired(&w, 10, 9), [h]);
    assert_eq!(fired(&w, 11 + 40 * PERIOD, 9), []);
    w.finish(own, h, || ());
    let (mut periods, mut last) = (0, 0);
    for now in 0..50 {
        advance(&w, at(11 + 41 * PERIOD + now), |f| {
            periods += 1 + f.missed;
            last = f.deadline_ns;
            true
        });
        w.finish(own, h, || ());
    }
    assert_eq!((periods, last), (41, at(10 + 41 * PERIOD)));
}

/// The number of skipped periods stops at the largest value that the record holds.
#[test]
fn more_periods_left_out_than_are_counted() {
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let spec = Spec {
        period: 1,
        ..called()
    };
    let h = w.setup(own, spec, Some(at(1))).unwrap();
    assert_eq!(fired(&w, 1, 9), [h]);
    for tick in [1 << 20, 1 << 28] {
        assert_eq!(fired(&w, tick, 9), []);
    }
    assert_eq!(fired(&w, (1 << 28) + 1, 9), []);
    w.finish(own, h, || ());
    let mut missed = 0;
    advance(&w, at((1 << 28) + 2), |f| {
        missed = f.missed;
        true
    });
    assert_eq!(missed, u32::MAX);
    assert!(w.shared.count.missed.get() >= VALUE);
}

/// The word and the link of a freed node are not those of one that was never used: its first
/// generations do not come back.
#[test]
fn a_node_whose_generation_is_0() {
    let config = Config {
        tick_ns: TICK,
        salt: u64::from(0_u32.wrapping_sub(first_generation(1, 64)) & GEN_MASK),
        ..config(4, 8, at((1 << 38) - 1))
    };
    let w = Wheel::new(Heap, config).unwrap();
    let own = &Own(w.attach().unwrap());
    let first = w.setup(own, Spec::default(), Some(at(1 << 38))).unwrap();
    assert_eq!(w.free(own, first), Ok(true));
    w.shared
        .rescue
        .store(DROPPED, crate::sync::Ordering::Relaxed);
    assert_eq!(fired(&w, (1 << 38) + 1, 9), []);
    let second = w.setup(own, Spec::default(), None).unwrap();
    assert_eq!(index_of(first), index_of(second));
    assert_ne!(first, second);
}

/// A thread that stops before it gets its shard.
struct Stopped<F>(Token, F);

impl<F: Fn()> Caller for Stopped<F> {
    fn token(&self) -> Result<Token, Error> {
        self.1();
        Ok(self.0)
    }
    fn token_at_hand(&self) -> Option<Token> {
        None
    }
    fn wake_driver(&self) -> bool {
        true
    }
}

/// An arm is stopped until the low part of the node's generation is the same again. It finds
/// its handle stale, and does not touch the timer that the node has now.
#[test]
fn a_stopped_arm_and_a_generation_that_has_wrapped() {
    const LIVES: u32 = 1 << (GEN_BITS - GEN_HIGH_BITS);
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let first = w.setup(own, Spec::default(), Some(at(500))).unwrap();
    let last = Cell::new(first);
    let stopped = Stopped(w.attach().unwrap(), || {
        for _ in 0..LIVES {
            w.free(own, last.get()).unwrap();
            last.set(w.setup(own, Spec::default(), None).unwrap());
        }
        assert_eq!(w.arm(own, last.get(), at(1000), How::Always), Ok(false));
    });
    let stale = Err(Error::Stale);
    assert_eq!(w.arm(&stopped, first, at(5), How::Always), stale);
    assert_ne!(first, last.get());
    assert_eq!(index_of(first), index_of(last.get()));
    assert_eq!(w.due(last.get()), Ok(Some(at(1000))));
}

/// The hand passes an arm that relies on a promise, before it looks whether the promise
/// stands: the timer keeps its deadline.
#[test]
fn an_arm_that_relies_keeps_its_deadline() {
    let w = wheel();
    let own = &Own(w.attach().unwrap());
    let t = w.setup(own, Spec::default(), Some(at(5))).unwrap();
    let first = w.setup(own, Spec::default(), None).unwrap();
    assert_eq!(w.cancel(own, t, false), Ok(true));
    asleep(&w);
    let once = Cell::new(true);
    let relies = LooksUp(w.attach().unwrap(), || {
        if once.replace(false) {
            assert_eq!(w.arm(own, first, at(3), How::Always), Ok(false));
            assert_eq!(fired(&w, 12, 1), [first]);
        }
    });
    assert_eq!(w.arm_at(&relies, t, at(10)), 0);
    assert!(!once.get(), "the middle of the arm was not reached");
    let mut due = None;
    advance(&w, at(12), |f| {
        due = Some(f.deadline_ns);
        true
    });
    assert_eq!(due, Some(at(10)));
}

/// The callback of a burst has held up several periods. The next sweep fires all of them,
/// or the one that goes on if it stops.
#[test]
fn a_burst_that_its_callback_has_held_up() {
    for most in [1, 4, 99] {
        let w = wheel();
        let [own, other] = [&w, &w].map(|w| Own(w.attach().unwrap()));
        let own = &own;
        let spec = Spec {
            period: TICK,
            kind: BURST,
            ..called()
        };
        let t = w.setup(own, spec, Some(at(1))).unwrap();
        assert_eq!(fired(&w, 1, 9), [t]);
        assert_eq!(fired(&w, 10, 9), []);
        w.finish(own, t, || ());
        let mut left: Vec<_> = (2..=10).map(at).rev().collect();
        while !left.is_empty() {
            let mut room = most;
            advance(&w, at(10), |f| {
                assert_eq!(Some(f.deadline_ns), left.pop());
                // In a thread whose shard the sweep has passed.
                w.finish(&other, f.handle, || ());
                room -= 1;
                room != 0
            });
            assert!(room == 0 || left.is_empty(), "some are left");
        }
        assert_eq!(w.due(t), Ok(Some(at(11))));
        assert_eq!(fired(&w, 11, 9), [t]);
    }
}
