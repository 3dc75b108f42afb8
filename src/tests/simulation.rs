//! A machine in one thread: the core, threads that come and go, memory that
//! fails, a clock that stalls, jumps and steps back, and a driver that sleeps
//! on an alarm as the tick thread does. One seed is one run:
//!
//! `HWHEEL_SEED=n` runs seed n alone, `HWHEEL_SEEDS=n` the first n.
//!
//! The oracle is in nanoseconds: a timer fires in a tick that begins at its
//! deadline or less than a tick later, in the first sweep of a clock that has
//! passed it; and whenever the driver sleeps, its alarm is early enough.

use super::memory::{mapped, scarce};
use super::{may_be_late, most_note_bytes, shape, Collect, Rng};
use crate::core::alarm::Kick;
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::error::Error;
use crate::core::inbox;
use crate::core::life::Spec;
use crate::core::period::{decode_period, encode_period, AUTO, BURST, DELAY};
use crate::core::state::{NEVER, STEP};
use crate::core::wheel::{Caller, Config, Wheel};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The oracle's record of a timer.
#[derive(Clone, Copy, Debug)]
struct Timer {
    handle: u64,
    /// The tick in which it fires, if it is armed.
    tick: Option<u64>,
    /// The deadline that it fires with.
    shown_ns: u64,
    period: u64,
    kind: u16,
}

/// A simulated thread, inside one call.
struct Thread<'a> {
    machine: &'a Machine<'a>,
    n: usize,
}

impl Caller for Thread<'_> {
    fn thread(&self) -> Result<inbox::Thread, Error> {
        let Thread { machine: m, n } = self;
        if m.numbers[*n].get() == 0 {
            m.refused_now()?;
            let is_free = |number| m.numbers.iter().all(|taken| taken.get() != number);
            m.numbers[*n].set((1..).find(|number| is_free(*number)).unwrap());
        }
        Ok(m.numbers[*n].get())
    }
    fn thread_at_hand(&self) -> inbox::Thread {
        self.machine.numbers[self.n].get()
    }
    fn threads(&self) -> inbox::Thread {
        THREADS as inbox::Thread + 1
    }
    fn wake_driver(&self) -> Kick {
        self.machine.alarm_ns.set(0);
        Kick::Yes
    }
}

#[derive(Default)]
struct Tally {
    seeds: Cell<u64>,
    operations: Cell<u64>,
    fired: Cell<u64>,
    refused: Cell<u64>,
    pieces: Cell<u64>,
    drained: Cell<u64>,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        let add = |word: &Cell<u64>, more: &Cell<u64>| word.set(word.get() + more.get());
        add(&self.seeds, &other.seeds);
        add(&self.operations, &other.operations);
        add(&self.fired, &other.fired);
        add(&self.refused, &other.refused);
        add(&self.pieces, &other.pieces);
        add(&self.drained, &other.drained);
    }
}

fn count(word: &Cell<u64>) {
    word.set(word.get() + 1);
}

const THREADS: usize = 3;
const MOST: usize = 50;

struct Machine<'m> {
    wheel: Box<Wheel>,
    /// Of this number of requests for memory or for the number of a thread one is refused; 0 for none.
    odds: Cell<u64>,
    rng: RefCell<Rng>,
    clock_ns: Cell<u64>,
    alarm_ns: Cell<u64>,
    numbers: [Cell<inbox::Thread>; THREADS],
    timers: RefCell<BTreeMap<u64, Timer>>,
    made: Cell<u64>,
    /// The timer whose callback runs.
    running: Cell<u64>,
    /// The longest delay, in bits of a tick: below two weeks.
    longest: u64,
    tick_ns: u64,
    pooled: bool,
    tally: &'m Tally,
}

impl<'m> Machine<'m> {
    fn new(seed: u64, tally: &'m Tally) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let tick_ns =
            [1000, 1024, 7777, 1_000_000, 1 << 20, 3_600_000_000_000][rng.below(6) as usize];
        let (levels, slot_bits) = [
            (1, 1),
            (1, 3),
            (1, 9),
            (2, 2),
            (6, 6),
            (4, 8),
            (8, 3),
            (2, 1),
        ][rng.below(8) as usize];
        // Just before a wrap of anything, as far as the clock can name it.
        let start = ((1 << rng.below(50)) - rng.below(9).min(1)).min((u64::MAX / tick_ns) >> 4);
        let config = Config {
            limit: MOST as u32 + rng.below(2) as u32 * 1000,
            tick_ns,
            start_ns: start * tick_ns,
            salt: seed,
            pooled: rng.below(2) == 0,
            ..shape(levels, slot_bits, 0)
        };
        let before = mapped();
        for granted in 0..2 {
            let made = scarce(granted, || Wheel::new(config).err());
            assert_eq!(made, Some(Error::Memory));
            assert_eq!(mapped(), before, "a leak");
        }
        let wheel = Wheel::new(config).unwrap();
        Machine {
            wheel,
            // The weather of the memory.
            odds: Cell::new(seed % 4),
            longest: [6, 12, 20, 34, 46][rng.below(5) as usize]
                .min(50 - u64::from(tick_ns.ilog2())),
            rng: RefCell::new(rng),
            clock_ns: Cell::new(config.start_ns),
            alarm_ns: Cell::new(0),
            numbers: Default::default(),
            timers: RefCell::default(),
            made: Cell::new(0),
            running: Cell::new(0),
            tick_ns,
            pooled: config.pooled,
            tally,
        }
    }

    fn dice(&self, n: u64) -> u64 {
        self.rng.borrow_mut().below(n)
    }

    /// Any number of nanoseconds, as often short as long.
    fn some_span(&self) -> u64 {
        let ticks = self.dice(1 << self.dice(self.longest + 1));
        (ticks * self.tick_ns).saturating_add(self.dice(self.tick_ns))
    }

    fn thread(&self) -> Thread<'_> {
        let n = self.dice(THREADS as u64) as usize;
        Thread { machine: self, n }
    }

    /// Refuses now and then.
    fn refused_now(&self) -> Result<(), Error> {
        match self.odds.get() {
            0 => Ok(()),
            odds if self.dice(odds) != 0 => Ok(()),
            _ => {
                count(&self.tally.pieces);
                Err(Error::Memory)
            }
        }
    }

    /// Calls the wheel, with little memory now and then.
    fn call<R>(&self, f: impl FnOnce(&Wheel, &Thread<'_>) -> R) -> R {
        let granted = match self.refused_now() {
            Ok(()) => u64::MAX,
            Err(_) => self.dice(2),
        };
        scarce(granted, || f(&self.wheel, &self.thread()))
    }

    fn hand(&self) -> u64 {
        self.tick_before(self.wheel.hand_ns())
    }

    /// The wheel's clock: steps back are held at what the hand has seen.
    fn now(&self) -> u64 {
        self.clock_ns.get().max(self.wheel.hand_ns())
    }

    fn ns(&self, tick: u64) -> u64 {
        self.wheel.ticks.ns(tick)
    }

    fn tick_before(&self, ns: u64) -> u64 {
        self.wheel.ticks.at_or_before(ns)
    }

    /// The tick of a deadline.
    fn tick(&self, ns: u64) -> u64 {
        match ns {
            NEVER => NEVER,
            ns => self.wheel.ticks.at_or_after(ns),
        }
    }

    /// The tick of a timer that is armed.
    fn tick_of(&self, handle: u64) -> u64 {
        let due = self.wheel.due(handle).unwrap().expect("not armed");
        let tick = self.tick(due);
        assert_eq!(self.ns(tick), due, "the time of a tick");
        tick
    }

    /// When the first timer is due.
    fn first(&self) -> Option<u64> {
        let timers = self.timers.borrow();
        let ticks = timers.values().filter_map(|t| t.tick);
        ticks.filter(|&tick| tick != NEVER).min()
    }

    /// Where a deadline must have come to lie.
    fn check_place(&self, handle: u64, ns: u64, hand: u64) -> u64 {
        let got = self.tick_of(handle);
        let want = self.tick(ns);
        if want == NEVER {
            assert_eq!(got, NEVER);
            return got;
        }
        let want = want.max(hand + 1);
        let late = may_be_late(want - hand);
        assert!((want..=want + late).contains(&got), "{want} {got}");
        got
    }

    fn setup(&self, ns: Option<u64>, period: u64, mut kind: u16) {
        count(&self.made);
        let cookie = self.made.get();
        if self.dice(2) == 0 && ns.is_some() {
            kind |= AUTO;
        }
        let spec = Spec {
            func: self.dice(2) as usize,
            cookie,
            period,
            kind,
            ..Spec::default()
        };
        let (live, hand) = (self.wheel.live(THREADS as inbox::Thread + 1), self.hand());
        match self.call(|w, thread| w.setup(thread, spec, ns)) {
            Ok(handle) => {
                let tick = ns.map(|ns| self.check_place(handle, ns, hand));
                // Only a period has an exact time.
                let shown_ns = match (ns, tick) {
                    (Some(ns), Some(_)) if period != 0 => ns,
                    _ => tick.map_or(0, |tick| self.ns(tick)),
                };
                let timer = Timer {
                    handle,
                    tick,
                    shown_ns,
                    period: decode_period(encode_period(period)),
                    kind,
                };
                self.timers.borrow_mut().insert(cookie, timer);
            }
            Err(e) => {
                assert_eq!(e, Error::Memory);
                assert_eq!(self.wheel.live(THREADS as inbox::Thread + 1), live);
                count(&self.tally.refused);
            }
        }
    }

    fn arm(&self, cookie: u64, mut t: Timer, how: How) {
        let ns = match self.dice(20) {
            0 => NEVER,
            1 => self.dice(self.now() + 1),
            _ => self.now().saturating_add(self.some_span()),
        };
        let hand = self.hand();
        let want = self.tick(ns).max(hand + 1);
        let was = t.tick.is_some();
        let answer = if how == How::Always && self.dice(2) == 0 {
            let answer = self.call(|w, thread| w.arm_at(thread, t.handle, ns));
            assert!((0..=1).contains(&answer) || answer == Error::Memory as i32);
            u64::try_from(answer)
                .map(|was| was == 1)
                .map_err(|_| Error::Memory)
        } else {
            self.call(|w, thread| w.arm(thread, t.handle, ns, how))
        };
        match answer {
            Ok(answer) => assert_eq!(answer, was),
            Err(e) => {
                assert_eq!(e, Error::Memory);
                let due = self.wheel.due(t.handle).unwrap();
                let tick = due.map(|due| self.tick(due));
                assert_eq!(tick, t.tick, "a refusal changes nothing");
                return count(&self.tally.refused);
            }
        }
        let moves = match how {
            How::Always | How::Periodic(_) => true,
            How::Earlier => t.tick.is_none_or(|old| want < old),
            How::Pending => was,
            How::Within(slack) => {
                let last = self.last_within(ns, slack, want);
                let kept = |old| old != NEVER && (want..=last).contains(&old);
                !t.tick.is_some_and(kept)
            }
        };
        if moves {
            let tick = match how {
                How::Within(slack) => self.check_range(t.handle, slack, ns, hand),
                _ => self.check_place(t.handle, ns, hand),
            };
            t.tick = Some(tick);
            t.shown_ns = self.ns(tick);
            self.timers.borrow_mut().insert(cookie, t);
        } else if was {
            assert_eq!(self.tick_of(t.handle), t.tick.unwrap(), "left alone");
        }
    }

    /// The last tick of a range, whose first is `want`.
    fn last_within(&self, ns: u64, slack: u64, want: u64) -> u64 {
        match ns {
            NEVER => NEVER,
            ns => self.tick_before(ns + slack).max(want),
        }
    }

    fn check_range(&self, handle: u64, slack: u64, ns: u64, hand: u64) -> u64 {
        let got = self.tick_of(handle);
        let want = self.tick(ns).max(hand + 1);
        let last = self.last_within(ns, slack, want);
        let late = if last == NEVER {
            0
        } else {
            may_be_late(last - hand)
        };
        assert!((want..=last + late).contains(&got), "{want} {last} {got}");
        got
    }

    /// A timer at random, but not the one whose callback runs.
    fn pick(&self) -> Option<(u64, Timer)> {
        let timers = self.timers.borrow();
        let n = self.dice(timers.len().max(1) as u64) as usize;
        let (&cookie, &timer) = timers.iter().nth(n)?;
        (cookie != self.running.get()).then_some((cookie, timer))
    }

    fn cancel(&self, handle: u64) -> bool {
        if self.dice(2) == 0 {
            return self.wheel.cancel(&self.thread(), handle, false).unwrap();
        }
        let answer = self.wheel.cancel_plain(&self.thread(), handle);
        assert!((0..=1).contains(&answer), "{answer}");
        answer == 1
    }

    fn operate(&self) {
        count(&self.tally.operations);
        let room = self.timers.borrow().len() < MOST;
        match (self.dice(14), self.pick()) {
            (0, _) if room => self.setup(None, 0, 0),
            (1, _) if room => self.setup(Some(self.now() + self.some_span()), 0, 0),
            (2, _) if room => {
                let kind = [0, BURST, DELAY][self.dice(3) as usize];
                // A period that no jump of the clock holds too often.
                let period = match kind {
                    BURST => self.tick_ns << self.longest,
                    _ => self.some_span() + 1,
                };
                self.setup(Some(self.now() + self.some_span()), period, kind);
            }
            (3..=6, Some((cookie, t))) => self.arm(cookie, t, How::Always),
            (7, Some((cookie, t))) => self.arm(cookie, t, How::Earlier),
            (8, Some((cookie, t))) => self.arm(cookie, t, How::Pending),
            (9, Some((cookie, t))) => {
                assert_eq!(self.cancel(t.handle), t.tick.is_some());
                let mut timers = self.timers.borrow_mut();
                timers.get_mut(&cookie).unwrap().tick = None;
                if t.kind & AUTO != 0 {
                    timers.remove(&cookie);
                }
            }
            (10, Some((cookie, t))) => {
                let armed = self.wheel.free(&self.thread(), t.handle);
                assert_eq!(armed, Ok(t.tick.is_some()));
                self.timers.borrow_mut().remove(&cookie);
                let gone = self.wheel.cancel(&self.thread(), t.handle, false);
                assert_eq!(gone, Err(Error::Stale));
            }
            (11, _) => {
                // A thread ends; another one takes its number, with its notes.
                self.numbers[self.dice(THREADS as u64) as usize].set(0);
            }
            (12, Some((cookie, t))) => {
                self.arm(cookie, t, How::Within(self.some_span()));
            }
            _ => {}
        }
    }

    /// A timer fires in a sweep to the tick `target`.
    fn fired(&self, f: &Fired, last: &Cell<u64>, target: u64) {
        count(&self.tally.fired);
        let mut t = *self.timers.borrow().get(&f.cookie).expect("fired twice");
        assert_eq!((t.handle, t.shown_ns), (f.handle, f.deadline_ns));
        let due = t.tick.take().expect("fired, and was not armed");
        assert!(due >= last.replace(due), "out of order");
        assert!(due <= target && self.ns(due) >= t.shown_ns, "early");
        if t.period == 0 {
            assert_eq!(f.missed, 0);
        } else {
            t.shown_ns = self.check_period(&t, f, due, target);
            let tick = self.tick_of(f.handle);
            let want = self.tick(t.shown_ns);
            assert!((want..=want + may_be_late(want.saturating_sub(due))).contains(&tick));
            t.tick = Some(tick);
        }
        self.timers.borrow_mut().insert(f.cookie, t);
        if f.func != 0 {
            self.running.set(f.cookie);
            match self.dice(8) {
                0 => self.arm(f.cookie, t, How::Always),
                1..=2 => self.operate(),
                _ => {}
            }
            self.running.set(0);
            if self.pooled {
                self.call(|w, thread| w.finish(thread, f.handle, || ()));
            }
        }
        let mut timers = self.timers.borrow_mut();
        if t.kind & AUTO != 0 && timers[&f.cookie].tick.is_none() {
            timers.remove(&f.cookie);
        }
    }

    /// The deadline after one that was in the tick `due`.
    fn check_period(&self, t: &Timer, f: &Fired, due: u64, target: u64) -> u64 {
        let burst = t.kind & BURST != 0;
        let now = self.ns(if burst { due } else { target });
        let missed = now.saturating_sub(f.deadline_ns) / t.period;
        assert_eq!(f.missed, u32::try_from(missed).unwrap_or(u32::MAX));
        if t.kind & DELAY != 0 && missed != 0 {
            return now + t.period;
        }
        f.deadline_ns + (missed + 1) * t.period
    }

    /// The tick thread, awake; or asleep, if its alarm is later than the clock.
    fn drive(&self) {
        if self.alarm_ns.get() > self.now() {
            return;
        }
        let now = self.now();
        let target = self.tick_before(now);
        if self.wheel.nothing_due(now) {
            assert!(self.first().is_none_or(|t| t > target), "something is due");
        }
        let last = Cell::new(0);
        let mut budget = 1 + self.dice(30);
        let thread = self.thread().thread_at_hand();
        let mut drive = self.wheel.drive(thread).unwrap();
        let done = drive.advance(
            now,
            Collect(|f: &Fired| {
                self.fired(f, &last, target);
                budget -= 1;
                budget != 0
            }),
        );
        if !done {
            return self.alarm_ns.set(0);
        }
        drive.fall_asleep(|ns| self.alarm_ns.set(ns));
        drop(drive);
        let first = self.first();
        let late = first.filter(|&t| t <= target);
        assert_eq!(late, None, "late or lost: {target}, {:?}", self.timers);
        // Asleep past a deadline?
        assert!(first.is_none_or(|t| self.alarm_ns.get() <= self.ns(t)));
        // There are so few timers that the driver finds the first one.
        match first {
            Some(t) if t <= target + STEP / 2 => {
                assert_eq!(
                    self.wheel.next_expiry(),
                    Some(self.ns(t)),
                    "woken for nothing"
                );
                assert_eq!(self.alarm_ns.get(), self.ns(t));
            }
            Some(_) => {}
            None => assert_eq!(self.wheel.next_expiry(), None),
        }
    }

    fn pass_time(&self) {
        let clock = self.clock_ns.get();
        let alarm = self.alarm_ns.get();
        let bound = self.tick_ns << self.longest;
        self.clock_ns.set(match self.dice(16) {
            // A step back, or to before the beginning.
            0 => clock.saturating_sub(self.some_span()),
            // A jump: a suspend, or a wall clock that was set.
            1 => clock + self.dice(bound * 16),
            2..=5 => clock + self.some_span(),
            _ => alarm.min(clock + bound).max(clock),
        });
    }

    fn step(&self) {
        match self.dice(16) {
            0 => {
                // The weather of the memory.
                let odds = [0, 0, 0, 1, 2, 8][self.dice(6) as usize];
                self.odds.set(odds);
            }
            // A burst.
            1 => (0..self.dice(40)).for_each(|_| self.operate()),
            2..=8 => self.operate(),
            _ => self.pass_time(),
        }
        // Not always at once: a stall.
        if self.dice(8) != 0 {
            self.drive();
        }
        let timers = self.timers.borrow();
        assert_eq!(
            self.wheel.live(THREADS as inbox::Thread + 1),
            timers.len() as u64
        );
        let pending = timers.values().filter(|t| t.tick.is_some()).count();
        assert_eq!(
            self.wheel.pending(THREADS as inbox::Thread + 1),
            pending as u64
        );
        let (first, next) = (self.first(), self.wheel.next_expiry());
        assert!(
            first.is_none_or(|t| next.is_some_and(|next| next <= self.ns(t))),
            "the next expiry is late: {next:?}, {:?}",
            first.map(|t| self.ns(t)),
        );
        drop(timers);
        self.check_books();
    }

    /// The books of memory.
    fn check_books(&self) {
        let (w, nodes) = (&self.wheel, self.wheel.nodes());
        let most = MOST as u64 + 64 * THREADS as u64;
        assert!(nodes <= most, "{nodes} nodes");
        assert!(w.entries() <= nodes, "{} entries", w.entries());
        let bytes = w.inboxes.bytes();
        assert!(
            bytes <= most_note_bytes(nodes, THREADS as u64),
            "{bytes} bytes of notes"
        );
    }

    /// The driver is stopped for good.
    fn stop_driver(&self) {
        for _ in 0..1000 {
            self.operate();
            if self.dice(4) == 0 {
                self.pass_time();
            }
        }
        self.check_books();
    }

    /// Hands back what is armed, and gives everything back.
    fn finish(self) {
        let mut timers = self.timers.take();
        let mut room = 0u64;
        while !self.wheel.drive(0).unwrap().drain(|f| {
            let t = timers.get_mut(&f.cookie).expect("drained twice");
            assert!(t.tick.take().is_some(), "was not armed");
            assert_eq!((t.handle, t.shown_ns), (f.handle, f.deadline_ns));
            count(&self.tally.drained);
            room += 1;
            room % 7 != 0
        }) {}
        for t in timers.values() {
            assert_eq!(t.tick, None, "not handed back");
            let gone = self.wheel.free(&self.thread(), t.handle);
            assert_eq!(gone.is_ok(), t.kind & AUTO == 0);
        }
        assert_eq!(self.wheel.live(THREADS as inbox::Thread + 1), 0);
    }
}

/// Says which seed it was.
struct Repro(u64);

impl Drop for Repro {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("again with: HWHEEL_SEED={} cargo test simulation", self.0);
        }
    }
}

fn simulate(seeds: impl Iterator<Item = u64>) -> Tally {
    let tally = Tally::default();
    for seed in seeds {
        let repro = Repro(seed);
        let before = mapped();
        let machine = Machine::new(seed, &tally);
        for _ in 0..400 {
            machine.step();
        }
        if seed % 8 == 0 {
            machine.stop_driver();
        }
        machine.finish();
        assert_eq!(mapped(), before, "a leak");
        drop(repro);
        count(&tally.seeds);
    }
    tally
}

/// One seed is one run in one thread; many are shared among the processors.
#[test]
fn a_simulated_machine_loses_nothing() {
    let number = |name| std::env::var(name).ok().map(|s| s.parse().unwrap());
    if let Some(seed) = number("HWHEEL_SEED") {
        simulate(std::iter::once(seed));
        return;
    }
    let last = number("HWHEEL_SEEDS").unwrap_or(2000);
    let mut tally = Tally::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|s| {
        let part = |k| s.spawn(move || simulate((1..=last).skip(k).step_by(threads)));
        for part in (0..threads).map(part).collect::<Vec<_>>() {
            tally.add(&part.join().expect("a seed has failed"));
        }
    });
    println!(
        "{} seeds: {} operations, {} refused for lack of memory ({} pieces), {} fired, {} drained",
        tally.seeds.get(),
        tally.operations.get(),
        tally.refused.get(),
        tally.pieces.get(),
        tally.fired.get(),
        tally.drained.get()
    );
    assert!(tally.refused.get() > 0 && tally.fired.get() > 0 && tally.drained.get() > 0);
}
