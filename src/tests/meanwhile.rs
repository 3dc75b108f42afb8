//! What happens in the middle of a call, at the places where the core calls
//! out of itself: for memory, to wake the driver, to the sink.

use super::{
    at, awake, cases, most_note_bytes, result, scarce, shape, Collect, Everywhere, Inside, Waking,
    NUMBERS,
};
use crate::core::alarm::Kick;
use crate::core::arm::How;
use crate::core::driver::{Fired, Sink};
use crate::core::life::first_generation;
use crate::core::life::Spec;
use crate::core::record::VALUE;
use crate::core::state::{index_of, Handle, GEN_BITS, GEN_HIGH_BITS, GEN_MASK, STEP};
use crate::core::ticks::{AUTO, BURST};
use crate::core::wheel::{Caller, Config, Wheel};
use crate::core::Error;
use crate::core::Thread;
use crate::core::{BATCH, LANES, SETTLE};
use std::cell::{Cell, RefCell};

/// A wheel in which callbacks end by `finish`.
fn wheel() -> Everywhere {
    let config = Config {
        pooled: true,
        ..shape(4, 8, 0)
    };
    Everywhere::new(config).unwrap()
}

/// With a callback, which the test ends by `finish`.
fn called() -> Spec {
    Spec {
        func: 1,
        ..Spec::default()
    }
}

/// A wheel that the thread 1 owns.
fn owned() -> Everywhere {
    let config = Config {
        owner: Some(awake(1).identity()),
        ..shape(4, 8, 0)
    };
    Everywhere::new(config).unwrap()
}

/// A timer with a callback at each period of these ticks, each of which is made up for.
fn burst(ticks: u64) -> Spec {
    Spec {
        period: at(ticks),
        kind: BURST,
        ..called()
    }
}

/// The thread 1 makes a timer that is due at a tick.
fn due(w: &Wheel, tick: u64) -> Handle {
    make(w, Spec::default(), Some(tick))
}

/// The thread 1 makes a timer that rests.
fn resting(w: &Wheel) -> Handle {
    make(w, Spec::default(), None)
}

fn make(w: &Wheel, spec: Spec, tick: Option<u64>) -> Handle {
    w.setup(&awake(1), spec, tick.map(at)).unwrap()
}

/// The thread 1 arms a timer: whether that was pending.
fn arm(w: &Wheel, timer: Handle, tick: u64) -> bool {
    w.arm(&awake(1), timer, at(tick), How::Always).unwrap()
}

/// A thread arms a timer by the short way or the long one.
fn arm_either_way(
    w: &Wheel,
    by: &impl Caller,
    timer: Handle,
    tick: u64,
    short: bool,
) -> Result<bool, Error> {
    match short {
        true => result(w.arm_at(by, timer, at(tick))),
        false => w.arm(by, timer, at(tick), How::Always),
    }
}

/// The thread 1 cancels a timer that is pending.
fn cancel(w: &Wheel, timer: Handle) {
    assert_eq!(w.cancel(&awake(1), timer, false), Ok(true));
}

/// The thread 1 ends a callback.
fn finish(w: &Wheel, timer: Handle) {
    w.finish(&awake(1), timer, || ());
}

/// Shows each timer that an advance fires to `take`, which says whether there is room for more.
fn advance(w: &Wheel, now: u64, take: impl FnMut(&Fired) -> bool) {
    w.drive(0).unwrap().advance(now, Collect(take));
}

/// The results of `tell` for the timers that an advance fires, in their order.
fn told<T>(w: &Wheel, now: u64, tell: impl FnMut(&Fired) -> T) -> Vec<T> {
    w.drive(0).unwrap().told(now, tell)
}

/// The timers that an advance to `tick` fires, at most `most`.
fn fired(w: &Wheel, tick: u64, most: usize) -> Vec<Handle> {
    let mut all = Vec::new();
    advance(w, at(tick), |f| {
        assert!(f.deadline_ns <= at(tick), "early");
        all.push(f.handle);
        all.len() < most
    });
    all
}

fn drained(w: &Wheel, most: usize) -> Vec<Handle> {
    let mut all = Vec::new();
    w.drive(0).unwrap().drain(|f| {
        all.push(f.handle);
        all.len() < most
    });
    all
}

/// The driver falls asleep; when it set its alarm to.
fn asleep(w: &Wheel) -> u64 {
    let alarm = Cell::new(0);
    w.drive(0).unwrap().fall_asleep(|ns| alarm.set(ns));
    alarm.get()
}

/// A driver that has stopped in a tick wakes at once for the rest of it, even if the clock
/// has stepped back behind that tick.
#[test]
fn a_sleep_in_the_middle_of_a_tick() {
    let w = wheel();
    let mut all = vec![due(&w, 5), due(&w, 5), due(&w, 5)];
    for left in [2, 1] {
        let first = fired(&w, 5, 1);
        all.retain(|timer| first != [*timer]);
        let pending = all.iter().filter(|t| w.is_pending(**t) == Ok(true));
        assert_eq!(pending.count(), left);
        assert_eq!(asleep(&w), 0);
    }
    assert_eq!(fired(&w, 5, 9), all);
    assert_eq!(asleep(&w), at(5 + STEP));
}

/// Race 2: the hand passes before the promise is sure, and a third thread arms
/// the timer again or not.
#[test]
fn a_sweep_in_the_middle_of_an_arm() {
    for again in [false, true] {
        let w = wheel();
        let third = &awake(2);
        let h = w.setup(third, Spec::default(), None).unwrap();
        asleep(&w);
        let sweeps = Waking(Ok(1), || {
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
    let h = resting(&w);
    let woken = Cell::new(0);
    let wakes = Waking(Ok(1), || woken.set(woken.get() + 1));
    let mut alarms = Vec::new();
    w.drive(0).unwrap().fall_asleep(|ns| {
        if alarms.is_empty() {
            assert_eq!(w.arm(&wakes, h, at(10), How::Always), Ok(false));
        }
        alarms.push(ns);
    });
    assert_eq!(alarms, [at(STEP), at(10)]);
    assert_eq!(woken.get(), 0, "woken, although it looks in any case");
}

/// Calls `arm`, in the middle of which a drain takes `most` timers. The answer, and
/// these timers.
fn drain_during<R>(
    w: &Wheel,
    most: usize,
    arm: impl FnOnce(&Waking<&dyn Fn()>) -> R,
) -> (R, Vec<Handle>) {
    let given = RefCell::new(Vec::new());
    asleep(w);
    let drain = || _ = given.replace(drained(w, most));
    (arm(&Waking(Ok(1), &drain)), given.take())
}

/// Race 4: the drain comes between arm.exchange and arm.check, to a timer that was pending or not,
/// and takes it or not. The short way pushes, and finds the gate closed.
#[test]
fn a_drain_in_the_middle_of_an_arm() {
    for [short, was, reached] in cases() {
        let w = wheel();
        let both = [Some(1000), was.then_some(900)].map(|due| make(&w, Spec::default(), due));
        let (taken, h) = (1 + usize::from(reached), both[1]);
        let (answer, given) = drain_during(&w, taken, |c| arm_either_way(&w, c, h, 10, short));
        let (want, rest) = match (was, reached) {
            (_, true) => (Ok(was), vec![]),
            (true, false) => (Ok(true), vec![h]),
            (false, false) => (Err(Error::Shutdown), vec![]),
        };
        assert_eq!(answer, want);
        assert_eq!(given, both[..taken]);
        assert_eq!(drained(&w, 9), rest);
        assert_eq!((w.due(h), w.pending(NUMBERS)), (Ok(None), 0));
        assert_eq!(w.arm_at(&awake(1), h, at(20)), Error::Shutdown as i32);
    }
}

#[test]
fn a_drain_in_the_middle_of_a_setup() {
    for taken in [1, 2] {
        let w = wheel();
        let pending = due(&w, 1000);
        let (answer, given) =
            drain_during(&w, taken, |c| w.setup(c, Spec::default(), Some(at(10))));
        assert_eq!(given[0], pending);
        assert_eq!(answer, given.get(1).copied().ok_or(Error::Shutdown));
        assert_eq!(given.len(), taken);
        assert_eq!(drained(&w, 9), []);
        assert_eq!(w.live(NUMBERS), given.len() as u64);
    }
}

/// Notes written so far.
fn notes(w: &Wheel) -> u64 {
    w.total(NUMBERS, |c| &c.notes)
}

/// Race 1 and 3b in the short way: it relies on a tick, or the driver has fallen asleep and
/// has dropped that entry, as the timer rested. Nobody is woken for a timer that is due after
/// the alarm.
#[test]
fn an_arm_that_relies_on_a_tick_of_a_timer_that_rested() {
    for (asked, kicks) in [(900, 1), (STEP, 0), (STEP + 5, 0)] {
        for (early, sleeps) in [(0, false), (5, false), (0, true), (5, true)] {
            let w = wheel();
            let h = due(&w, asked - early);
            assert_eq!(fired(&w, 0, 9), []);
            assert_eq!((notes(&w), w.entries()), (1, 1));
            cancel(&w, h);
            if sleeps {
                assert_eq!(asleep(&w), at(STEP));
                assert_eq!((w.next_expiry(), w.entries()), (None, 0));
            }
            let woken = Cell::new(0);
            let wakes = Waking(Ok(1), || woken.set(woken.get() + 1));
            assert_eq!(w.arm_at(&wakes, h, at(asked)), 0);
            assert_eq!(notes(&w), 1 + u64::from(sleeps));
            assert_eq!(woken.get(), if sleeps { kicks } else { 0 });
            let next = w.next_expiry().expect("one is pending");
            assert!(next <= at(asked), "{next} {asked}");
            assert!(!w.nothing_due(at(asked)));
            assert_eq!(fired(&w, asked - 1, 9), []);
            assert_eq!(fired(&w, asked, 9), [h]);
        }
    }
}

/// A timer that is cancelled before the driver takes its note gets an entry all the same. So a
/// request that is answered within a tick leaves no note, but the first one.
#[test]
fn a_timer_that_is_cancelled_at_once_needs_one_note() {
    let w = wheel();
    let own = &awake(1);
    let h = resting(&w);
    for tick in 1..900 {
        assert_eq!(w.arm_at(own, h, at(tick + 1000)), 0);
        assert_eq!(w.cancel_plain(own, h), 1);
        assert_eq!(fired(&w, tick, 9), []);
    }
    assert_eq!((notes(&w), w.entries()), (1, 1));
    // It wakes nobody.
    asleep(&w);
    assert_eq!((w.next_expiry(), w.entries()), (None, 0));
}

/// However often a timer is armed while nobody drives, it has one note; and one entry after
/// that.
#[test]
fn arms_that_rely_on_a_note() {
    let w = wheel();
    let h = resting(&w);
    for n in 0..100_000 {
        let own = &awake(1 + n % 2);
        w.arm(own, h, at(200_000 - u64::from(n)), How::Always)
            .unwrap();
        if n % 3 == 0 {
            assert_eq!(w.cancel(own, h, false), Ok(true));
        }
    }
    assert_eq!(notes(&w), 1);
    for earlier in 0..10_000 {
        arm(&w, h, 100_000 - earlier);
        assert_eq!(fired(&w, 0, 9), []);
        assert_eq!(w.entries(), 1);
    }
    // The chunks go round.
    assert!(w.inboxes.bytes() <= most_note_bytes(1, 1));
    assert_eq!(fired(&w, 90_000, 9), []);
    assert_eq!(fired(&w, 90_001, 9), [h]);
}

/// A thread that gets no number arms nothing. It cancels and frees.
#[test]
fn calls_of_a_thread_without_a_number() {
    let w = wheel();
    let own = &awake(1);
    let h = due(&w, 895);
    assert_eq!(fired(&w, 0, 9), []);
    let stranger = &Waking(Err(Error::Threads), || ());
    let refused = Err(Error::Threads);
    assert_eq!(w.setup(stranger, Spec::default(), None), refused);
    for tick in [5, 895, 900] {
        let answer = w.arm_at(stranger, h, at(tick));
        assert_eq!(answer, Error::Threads as i32);
        assert!(w.arm(stranger, h, at(tick), How::Always) == Err(Error::Threads));
        assert_eq!(w.due(h), Ok(Some(at(895))));
    }
    assert_eq!(w.cancel_plain(stranger, h), 1);
    assert_eq!((w.pending(NUMBERS), w.live(NUMBERS)), (0, 1));
    assert_eq!(w.arm_at(own, h, at(900)), 0);
    assert_eq!(w.free(stranger, h), Ok(true));
    assert_eq!((w.pending(NUMBERS), w.live(NUMBERS)), (0, 0));
    // The node is found again, once the thread has no other.
    let nodes = w.nodes();
    let again = (0..nodes).map(|_| w.setup(own, Spec::default(), None).unwrap());
    assert!(again.map(index_of).any(|index| index == index_of(h)));
    assert_eq!(w.nodes(), nodes);
}

/// The thread 1 inside of an arm. It calls the first function once: after it has read the gate, and
/// before it exchanges the state. It calls the second function each time it wakes the driver, which
/// comes after the exchange.
struct Interrupted<F, G>(Cell<Option<F>>, G);

/// The thread 1, which calls a function before the exchange, and none after it.
fn interrupted<F: FnOnce()>(f: F) -> Interrupted<F, fn()> {
    Interrupted(Cell::new(Some(f)), || ())
}

impl<F: FnOnce(), G: Fn()> Caller for Interrupted<F, G> {
    fn thread(&self) -> Result<Thread, Error> {
        Ok(1)
    }
    fn thread_at_hand(&self) -> Thread {
        1
    }
    fn threads(&self) -> Thread {
        NUMBERS
    }
    fn first_ns(&self) -> u64 {
        if let Some(f) = self.0.take() {
            f();
        }
        0
    }
    fn wake_driver(&self) -> Kick {
        self.1();
        Kick::Yes
    }
}

/// In the middle of an arm the hand moves so far that the word does not read right any more;
/// and the timer gets a period. The timer is due now.
#[test]
fn a_period_and_a_long_step_in_the_middle_of_an_arm() {
    for [gets_period, relies] in cases() {
        let w = wheel();
        let h = make(&w, called(), Some(9));
        if relies {
            assert_eq!(fired(&w, 0, 9), []);
        }
        cancel(&w, h);
        let now = 2 * STEP;
        let steps = || {
            // If the link names a tick, the hand passes it.
            assert_eq!(fired(&w, now, 9), []);
            if !relies {
                asleep(&w);
            }
        };
        let period = || {
            if gets_period {
                w.set_period(h, at(1000)).unwrap();
            }
        };
        let armed = Interrupted(Cell::new(Some(steps)), period);
        assert_eq!(w.arm(&armed, h, at(266), How::Always), Ok(false));
        assert!(w.due(h).unwrap().unwrap() <= at(now));
        assert_eq!(fired(&w, now + 1, 9), [h], "{gets_period} {relies}");
    }
}

/// The promise is met, and the hand goes on, in the middle of an arm that wakes
/// the driver for a deadline before it.
#[test]
fn a_sweep_over_an_earlier_promise_in_the_middle_of_an_arm() {
    let w = wheel();
    let h = due(&w, 100);
    asleep(&w);
    let sweeps = Waking(Ok(1), || assert_eq!(fired(&w, 200, 9), [h]));
    assert_eq!(w.arm_at(&sweeps, h, at(50)), 1);
    assert_eq!(w.due(h), Ok(None));
    // What the sweep has passed is not counted on.
    assert_eq!(w.arm_at(&awake(1), h, at(300)), 0);
    assert_eq!(fired(&w, 299, 9), []);
    assert_eq!(fired(&w, 300, 9), [h]);
}

/// A driver with a higher priority, on the same processor: whenever a thread wakes it, it takes
/// the note, fires and sleeps again before that thread goes on. The arm ends all the same.
#[test]
fn a_driver_that_is_always_faster() {
    for [short, relies] in cases() {
        let w = wheel();
        let h = resting(&w);
        asleep(&w);
        let (wakes, all) = (Cell::new(0), RefCell::new(Vec::new()));
        let drives = || {
            wakes.set(wakes.get() + 1);
            assert!(wakes.get() < 9, "it goes round and round");
            all.borrow_mut().extend(fired(&w, 12, 9));
            asleep(&w);
        };
        if relies {
            // On the note of another thread.
            w.arm(&awake(2), h, at(STEP + 5), How::Always).unwrap();
            assert_eq!(w.cancel(&awake(2), h, false), Ok(true));
        }
        let armed = arm_either_way(&w, &Waking(Ok(1), drives), h, 10, short);
        assert_eq!(armed, Ok(false));
        assert_eq!(all.into_inner(), [h]);
        assert_eq!(w.due(h), Ok(None));
    }
}

/// A refusal to make a timer changes nothing. An arm of one that exists needs no memory.
#[test]
fn no_memory_in_an_arm() {
    let w = wheel();
    let own = &awake(1);
    // For the chunks of notes, for the node.
    for granted in [0, 1] {
        let setup = || w.setup(own, Spec::default(), Some(at(9)));
        assert_eq!(scarce(granted, setup), Err(Error::Memory));
        assert_eq!((w.live(NUMBERS), w.pending(NUMBERS)), (0, 0));
    }
    assert_eq!(fired(&w, 9, 9), []);
    let h = resting(&w);
    scarce(0, || {
        assert_eq!(w.arm_at(own, h, at(13)), 0);
        assert!(arm(&w, h, 12));
        // The chunks of several threads are mapped at once.
        assert_eq!(w.arm_at(&awake(2), h, at(11)), 1);
        assert_eq!(fired(&w, 11, 9), [h]);
    });
}

/// An arm that relies on a reason makes sure of memory, too: behind the exchange the reason may
/// be gone.
#[test]
fn an_arm_that_relies_has_memory_for_a_note() {
    let w = wheel();
    let h = due(&w, 9);
    // The reason is a note, and then an entry.
    for n in [2, 3] {
        assert!(!w.inboxes.is_ready(n));
        assert_eq!(w.arm(&awake(n), h, at(10), How::Always), Ok(true));
        assert!(w.inboxes.is_ready(n));
        assert_eq!(fired(&w, 0, 9), []);
    }
    assert_eq!(notes(&w), 1);
}

/// A thread that arms only inside of callbacks has no chunk for notes, and needs none. The thread
/// takes the short way: for a timer without an entry, with an early one, and with a later one.
#[test]
fn a_callback_takes_the_short_way_without_a_chunk() {
    let w = wheel();
    let t = resting(&w);
    due(&w, 1);
    told(&w, at(1), |_| {
        for (tick, was) in [(300, 0), (400, 1), (200, 1)] {
            assert_eq!(w.arm_at(&Inside::<true>(2), t, at(tick)), was);
        }
    });
    assert!(!w.inboxes.is_ready(2));
    assert_eq!((notes(&w), w.entries()), (1, 1));
    assert_eq!(fired(&w, 199, 9), []);
    assert_eq!(fired(&w, 200, 9), [t]);
}

#[test]
fn a_drain_in_the_middle_of_a_callback() {
    let w = wheel();
    let spec = Spec {
        period: 10,
        kind: AUTO,
        ..called()
    };
    let h = make(&w, spec, Some(10));
    assert_eq!(fired(&w, 10, 9), [h]);
    assert_eq!(drained(&w, 9), [h]);
    assert_eq!(w.due(h).err(), Some(Error::Stale));
    assert_eq!(w.live(NUMBERS), 1);
    finish(&w, h);
    assert_eq!(w.live(NUMBERS), 0);
}

#[test]
fn a_cancel_in_the_middle_of_a_callback_that_is_due_again() {
    let w = wheel();
    let h = make(&w, burst(10), Some(10));
    assert_eq!(fired(&w, 10, 9), [h]);
    assert_eq!(fired(&w, 20, 9), []);
    cancel(&w, h);
    finish(&w, h);
    // The driver would have looked again after a long time.
    assert_eq!(fired(&w, STEP, 9), []);
    assert_eq!(w.entries(), 0);
}

/// A period is delayed by its callback, and the timer is moved or not: what a drain
/// hands back of it.
#[test]
fn a_drain_after_a_period_was_held_up() {
    for moved in [false, true] {
        let w = wheel();
        let spec = Spec {
            kind: 0,
            ..burst(10)
        };
        let h = make(&w, spec, Some(10));
        assert_eq!(fired(&w, 10, 9), [h]);
        assert_eq!(fired(&w, 20, 9), []);
        if moved {
            assert!(arm(&w, h, 25));
        }
        let missed = w.drive(0).unwrap().handed(|f| f.missed);
        assert_eq!(missed, [u32::from(!moved)]);
    }
}

/// A callback arms for a tick after the goal of its sweep. On the lowest level the slot
/// of that tick is behind the hand; it hides no slot of the level above.
#[test]
fn an_arm_in_a_callback_hides_no_slot() {
    let w = wheel();
    let [third, second, first] = [400, 300, 250].map(|tick| due(&w, tick));
    let mut later = None;
    let all = told(&w, at(1000), |f| {
        if f.handle == first {
            later = Some(due(&w, 1008));
        }
        f.handle
    });
    assert_eq!(all, [first, second, third]);
    assert_eq!(fired(&w, 1008, 9), [later.unwrap()]);
}

/// A callback in another thread ends in the first step of a sweep of two, when its timer
/// was passed over: the second step fires that.
#[test]
fn a_callback_that_ends_in_a_step_of_a_long_sweep() {
    let w = wheel();
    let h = make(&w, called(), Some(1));
    assert_eq!(fired(&w, 1, 9), [h]);
    assert!(!arm(&w, h, 2));
    assert_eq!(fired(&w, 3, 9), []);
    // The last tick of the first step.
    let last = due(&w, STEP + 3);
    let all = told(&w, at(STEP + 4), |f| {
        if f.handle == last {
            finish(&w, h);
        }
        f.handle
    });
    assert_eq!(all, [last, h]);
}

/// A callback in another thread ends, when its timer was passed over, between a sweep
/// that has stopped in a tick and the next. That sweep goes on with its tick first: a timer whose
/// tick has passed when its callback ends is due at the next tick.
#[test]
fn a_callback_that_ends_after_a_sweep_that_has_stopped() {
    let w = wheel();
    let h = make(&w, called(), Some(1));
    assert_eq!(fired(&w, 1, 9), [h]);
    assert!(!arm(&w, h, 2));
    let two = [3, 3].map(|tick| due(&w, tick));
    let first = fired(&w, 3, 1);
    let left = two.into_iter().find(|timer| first != [*timer]).unwrap();
    finish(&w, h);
    assert_eq!(fired(&w, 4, 9), [left, h]);
}

/// The end of a callback makes the visit. The entry far ahead is the only one.
#[test]
fn a_burst_that_is_held_up_again_and_again() {
    let w = wheel();
    let h = make(&w, burst(10), Some(10));
    for round in 1..50_000 {
        // It falls behind: its callback takes longer than its period.
        assert_eq!(fired(&w, 21 * round, 9), [h]);
        assert_eq!(fired(&w, 21 * round + 20, 9), []);
        finish(&w, h);
        assert_eq!(w.entries(), 1);
    }
    assert!(w.inboxes.bytes() <= most_note_bytes(1, 1));
}

/// A timer is delayed by its callback. Its deadline stays readable, however long that takes.
#[test]
fn a_callback_that_holds_up_its_timer_for_long() {
    let w = wheel();
    let [h] = held_up(&w, |_| 294);
    assert_eq!(fired(&w, 6 * STEP, 9), []);
    assert_eq!(w.entries(), 1);
    finish(&w, h);
    assert_eq!(fired(&w, 6 * STEP + 1, 9), [h]);
}

/// Timers whose callbacks run, and that are due again at tick 6, or later if `late` says so.
fn held_up<const N: usize>(w: &Wheel, late: impl Fn(usize) -> u64) -> [Handle; N] {
    let all = [5; N].map(|tick| make(w, called(), Some(tick)));
    assert_eq!(fired(w, 5, N + 1).len(), N);
    for (n, timer) in all.iter().enumerate() {
        assert!(!arm(w, *timer, 6 + late(n)));
    }
    assert_eq!(fired(w, 6, N), []);
    all
}

/// A callback ends in a thread that gets no number, and its timer has come due meanwhile. The
/// timer fires at the next call, although the hand does not move. A driver that sleeps is woken,
/// and one that falls asleep before it visits that timer wakes at once.
#[test]
fn a_callback_that_ends_in_a_thread_without_a_number() {
    for (sleeps, falls_asleep) in [(false, false), (true, false), (false, true)] {
        let w = wheel();
        let [h] = held_up(&w, |_| 0);
        let woken = Cell::new(0);
        if sleeps {
            asleep(&w);
        }
        let stranger = Waking(Err(Error::Threads), || woken.set(woken.get() + 1));
        w.finish(&stranger, h, || ());
        assert_eq!(woken.get(), u64::from(sleeps));
        if falls_asleep {
            assert_eq!(asleep(&w), 0);
        }
        assert!(!w.nothing_due(at(6)));
        assert_eq!(w.next_expiry(), Some(at(6)));
        assert_eq!(fired(&w, 6, 9), [h]);
        assert!(w.nothing_due(at(6)), "all is done");
    }
}

/// A sink that has enough at once, while nothing fires.
struct Enough(Cell<u32>);

impl Sink for &Enough {
    fn fire(&mut self, fired: &Fired) -> bool {
        panic!("{fired:?}");
    }
    fn is_enough(&mut self) -> bool {
        self.0.set(self.0.get() + 1);
        true
    }
    fn wake(&self) {}
}

/// Calls that have enough at once, until one is done.
fn advance_in_parts(w: &Wheel, tick: u64) -> u32 {
    let enough = Enough(Cell::new(0));
    for calls in 1.. {
        if w.drive(0).unwrap().advance(at(tick), &enough) {
            return calls;
        }
        assert_eq!(enough.0.get(), calls);
        assert!(!w.nothing_due(at(tick)), "some are left");
        assert!(w.next_expiry().is_some_and(|next| next <= at(tick)));
    }
    unreachable!()
}

/// A call has enough in the middle of a cascade. Then the driver falls asleep, and takes notes of
/// timers that come first in their lists by now, and move to an earlier tick.
#[test]
fn a_cascade_that_stops_and_timers_that_move_meanwhile() {
    const SLOT: u64 = 256;
    let w = wheel();
    let n = 3 * BATCH as u64;
    let all: Vec<_> = (0..n).map(|i| due(&w, 2 * SLOT - 1 - i)).collect();
    assert_eq!(fired(&w, 1, 9), []);
    let enough = Enough(Cell::new(0));
    assert!(!w.drive(0).unwrap().advance(at(SLOT), &enough));
    assert_eq!(enough.0.get(), 1, "it asks behind a batch");
    assert_eq!(w.entries(), n);
    let moved = BATCH..BATCH + 2 * LANES as usize;
    for (timer, tick) in all[moved.clone()].iter().zip(SLOT + 1..) {
        assert!(arm(&w, *timer, tick));
    }
    assert_eq!(asleep(&w), 0, "the cascade is not finished");
    assert_eq!(w.entries(), n);
    assert_eq!(
        fired(&w, SLOT + moved.len() as u64, n as usize),
        all[moved.clone()]
    );
    let mut rest = fired(&w, 2 * SLOT, n as usize);
    rest.reverse();
    assert_eq!(rest, [&all[..moved.start], &all[moved.end..]].concat());
    assert_eq!(w.entries(), 0);
}

/// A call goes on with the goal of the last one, and has enough behind that. It is to be called
/// again at once, whatever the next entry is for.
#[test]
fn a_call_that_stops_between_two_goals() {
    for w in [wheel(), owned()] {
        let (first, last) = (due(&w, 1), due(&w, 100));
        assert_eq!(fired(&w, 0, 9), []);
        cancel(&w, last);
        assert_eq!(fired(&w, 1, 1), [first]);
        assert_eq!(advance_in_parts(&w, 50), 2);
    }
}

/// The timers that were cancelled lie in one bucket with a pending one. With each sleep some of
/// their entries go, until the driver knows when it must wake.
#[test]
fn sleeps_come_to_the_end_of_the_timers_that_were_cancelled() {
    const SLOT: u64 = 1 << 16;
    let w = wheel();
    let n = 15 * SETTLE as u64;
    let all: Vec<_> = (0..n).map(|i| due(&w, SLOT + i)).collect();
    due(&w, 2 * SLOT - 1);
    assert_eq!(asleep(&w), at(SLOT));
    all.iter().for_each(|timer| cancel(&w, *timer));
    for sleeps in 1..=n / SETTLE as u64 {
        assert_eq!(w.entries(), n + 1 - (sleeps - 1) * SETTLE as u64);
        asleep(&w);
    }
    assert_eq!(asleep(&w), at(2 * SLOT - 1));
    assert_eq!(w.entries(), 1);
}

/// Timers of one tick fire in the order in which they were armed, also if there are more of them
/// than lists, and if the bucket was full before.
#[test]
fn timers_of_one_tick_fire_in_the_order_of_their_arms() {
    let w = wheel();
    let mut now = 0;
    for _ in 0..3 {
        for n in [1, LANES - 1, LANES, LANES + 1, 5 * LANES + 3] {
            // The same slot again.
            now += 256;
            assert_eq!(fired(&w, now, 9), []);
            let all: Vec<_> = (0..n).map(|_| due(&w, now + 9)).collect();
            // In two calls.
            let mut order = fired(&w, now + 9, n as usize / 2 + 1);
            order.extend(fired(&w, now + 9, n as usize));
            assert_eq!(order, all);
        }
    }
}

/// For lack of a note the driver looks at every timer, in parts. Another callback ends
/// meanwhile, of a timer that the driver has passed.
#[test]
fn a_look_at_every_timer_in_parts() {
    const MANY: usize = 5 * BATCH;
    let w = wheel();
    let all: [_; MANY] = held_up(&w, |_| 0);
    let stranger = &Waking(Err(Error::Threads), || ());
    w.finish(stranger, all[MANY - 1], || ());
    let enough = Enough(Cell::new(0));
    assert!(!w.drive(0).unwrap().advance(at(6), &enough));
    assert!(!w.drive(0).unwrap().advance(at(6), &enough));
    // As any, and of the first one.
    w.finish(stranger, all[0], || ());
    assert_eq!(asleep(&w), 0);
    let mut both = fired(&w, 6, MANY);
    both.sort_unstable();
    assert_eq!(both, [all[0], all[MANY - 1]]);
    assert!(w.nothing_due(at(6)), "all is done");
    // An entry far ahead for each of the others.
    assert_eq!(w.entries(), MANY as u64 - 2);
    for timer in &all[1..MANY - 1] {
        w.finish(stranger, *timer, || ());
    }
    assert_eq!(fired(&w, 6, MANY).len(), MANY - 2);
    assert_eq!(w.entries(), 0);
}

/// A collection that stops in the middle fires nothing: what comes due first may have the last
/// note. The timers fire in the order of their ticks.
#[test]
fn a_collection_that_stops_and_the_order_of_ticks() {
    let w = wheel();
    let n = 3 * BATCH as u64;
    for cookie in 1..=n {
        // By three threads; the last note is the earliest.
        let own = &awake(1 + (cookie % 3) as Thread);
        let spec = Spec {
            cookie,
            ..Spec::default()
        };
        w.setup(own, spec, Some(at(2 * n - cookie))).unwrap();
    }
    assert!(advance_in_parts(&w, n - 1) > 2);
    let enough = Enough(Cell::new(0));
    let h = due(&w, n);
    assert!(!w.drive(0).unwrap().advance(at(2 * n), &enough));
    // Armed while the rest of the notes is left, and after the goal was announced.
    assert_eq!(w.arm(&awake(2), h, at(n), How::Always), Ok(true));
    let mut last = n - 1;
    let mut cookies = Vec::new();
    for _ in 0..n + 2 {
        advance(&w, at(2 * n), |f| {
            if f.cookie != 0 {
                assert_eq!(f.deadline_ns, at(2 * n - f.cookie));
                assert!(f.deadline_ns > at(last), "out of order");
                last = f.deadline_ns / at(1);
                cookies.push(f.cookie);
            }
            false
        });
    }
    let wanted: Vec<_> = (1..=n).rev().collect();
    assert_eq!(cookies, wanted);
    assert_eq!(w.due(h), Ok(Some(at(2 * n + 1))));
}

/// A burst is delayed for so long that its deadline would no longer read right: the periods
/// are counted, and it keeps its rhythm.
#[test]
fn a_burst_that_is_held_up_for_long() {
    const PERIOD: u64 = STEP / 16 + 1;
    let w = wheel();
    let h = make(&w, burst(PERIOD), Some(10));
    assert_eq!(fired(&w, 10, 9), [h]);
    assert_eq!(fired(&w, 11 + 40 * PERIOD, 9), []);
    finish(&w, h);
    let (mut periods, mut last) = (0, 0);
    for now in 0..50 {
        told(&w, at(11 + 41 * PERIOD + now), |f| {
            periods += 1 + f.missed;
            last = f.deadline_ns;
        });
        finish(&w, h);
    }
    assert_eq!((periods, last), (41, at(10 + 41 * PERIOD)));
}

/// The number of skipped periods stops at the largest value that the record holds.
#[test]
fn more_periods_left_out_than_are_counted() {
    let w = wheel();
    let spec = Spec {
        period: 1,
        ..called()
    };
    let h = make(&w, spec, Some(1));
    assert_eq!(fired(&w, 1, 9), [h]);
    for tick in [1 << 20, 1 << 28] {
        assert_eq!(fired(&w, tick, 9), []);
    }
    assert_eq!(fired(&w, (1 << 28) + 1, 9), []);
    finish(&w, h);
    let missed = told(&w, at((1 << 28) + 2), |f| f.missed);
    assert_eq!(missed, [u32::MAX]);
    assert!(w.shared.count.missed.get() >= VALUE);
}

/// The word and the link of a freed node are not those of one that was never used: its first
/// generations do not come back.
#[test]
fn a_node_whose_generation_is_0() {
    let config = Config {
        salt: u64::from(0_u32.wrapping_sub(first_generation(1, 64)) & GEN_MASK),
        ..shape(4, 8, (1 << 38) - 1)
    };
    let w = Everywhere::new(config).unwrap();
    let first = due(&w, 1 << 38);
    assert_eq!(w.free(&awake(1), first), Ok(true));
    assert_eq!(fired(&w, (1 << 38) + 1, 9), []);
    let second = resting(&w);
    assert_eq!(index_of(first), index_of(second));
    assert_ne!(first, second);
}

/// An arm is stopped until the low part of the node's generation is the same again. It finds
/// its handle stale, and does not touch the timer that the node has now.
#[test]
fn a_stopped_arm_and_a_generation_that_has_wrapped() {
    const LIVES: u32 = 1 << (GEN_BITS - GEN_HIGH_BITS);
    let w = wheel();
    let first = due(&w, 500);
    let last = Cell::new(first);
    let stopped = interrupted(|| {
        for _ in 0..LIVES {
            w.free(&awake(1), last.get()).unwrap();
            last.set(resting(&w));
        }
        assert!(!arm(&w, last.get(), 1000));
    });
    let stale = Err(Error::Stale);
    assert_eq!(w.arm(&stopped, first, at(5), How::Always), stale);
    assert_ne!(first, last.get());
    assert_eq!(index_of(first), index_of(last.get()));
    assert_eq!(w.due(last.get()), Ok(Some(at(1000))));
}

/// The hand passes an arm that relies on a tick, before it looks whether the link stands:
/// the timer keeps its deadline.
#[test]
fn an_arm_that_relies_keeps_its_deadline() {
    let w = wheel();
    let own = &awake(2);
    let t = w.setup(own, Spec::default(), Some(at(5))).unwrap();
    let first = w.setup(own, Spec::default(), None).unwrap();
    assert_eq!(fired(&w, 0, 9), []);
    assert_eq!(w.cancel(own, t, false), Ok(true));
    let relies = interrupted(|| {
        assert_eq!(w.arm(own, first, at(3), How::Always), Ok(false));
        // It stops at tick 3, and its goal is 12.
        assert_eq!(fired(&w, 12, 1), [first]);
    });
    assert_eq!(w.arm(&relies, t, at(10), How::Always), Ok(false));
    assert_eq!(told(&w, at(12), |f| f.deadline_ns), [at(10)]);
}

/// A burst with a period of one tick, whose callback has run from tick 1 to tick 10.
fn burst_that_is_behind(w: &Wheel) -> Handle {
    let t = make(w, burst(1), Some(1));
    assert_eq!(fired(w, 1, 9), [t]);
    assert_eq!(fired(w, 10, 9), []);
    finish(w, t);
    t
}

/// The callback of a burst has delayed several periods. The next sweep fires all of them,
/// or the one that goes on if it stops.
#[test]
fn a_burst_that_its_callback_has_held_up() {
    for most in [1, 4, 99] {
        let w = wheel();
        let other = awake(2);
        let t = burst_that_is_behind(&w);
        let mut left: Vec<_> = (2..=10).map(at).rev().collect();
        while !left.is_empty() {
            let mut room = most;
            advance(&w, at(10), |f| {
                assert_eq!(Some(f.deadline_ns), left.pop());
                // In another thread than that of the arm.
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

/// A burst is behind. In its third callback `by` moves it, and `end` ends each callback. Whether or
/// not the sweep stops there, the timer has one entry, and fires at its new time.
fn moved_in_its_callback(
    w: &Wheel,
    t: Handle,
    by: &impl Caller,
    (most, to): (u32, u64),
    end: impl Fn(),
) {
    let mut n = 0;
    advance(w, at(10), |_| {
        n += 1;
        if n == 3 {
            assert_eq!(w.arm(by, t, at(to), How::Always), Ok(true));
        }
        end();
        n < most
    });
    assert_eq!((n, w.due(t)), (3, Ok(Some(at(to)))));
    assert_eq!(fired(w, to - 1, 9), []);
    assert_eq!(w.entries(), 1);
    assert_eq!(fired(w, to, 9), [t]);
}

/// A burst whose callback has held it up is moved while it is handed over, by the driver.
#[test]
fn a_burst_that_is_behind_and_is_moved() {
    for case in [(3, 11), (3, 300), (99, 11), (99, 300)] {
        let w = wheel();
        let t = burst_that_is_behind(&w);
        moved_in_its_callback(&w, t, &Inside::<false>(1), case, || finish(&w, t));
    }
}

/// The owner moves a burst that is behind, in its callback.
#[test]
fn a_burst_that_its_owner_moves() {
    for case in [(3, 11), (3, 20), (3, 300), (99, 11), (99, 20), (99, 300)] {
        let w = owned();
        let t = make(&w, burst(1), Some(1));
        moved_in_its_callback(&w, t, &awake(1), case, || ());
    }
}
