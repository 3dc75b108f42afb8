//! Every operation against an ordered map.

use super::{at, may_be_late, most_note_bytes, shape, Collect, Own, Rng};
use crate::core::alarm::Kick;
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::error::Error;
use crate::core::inbox::Thread;
use crate::core::life::Spec;
use crate::core::link::Link;
use crate::core::period::{decode_period, encode_period, AUTO, BURST};
use crate::core::state::{index_of, StateWord, STEP};
use crate::core::ticks::SHORTEST_TICK;
use crate::core::wheel::{Caller, Config, Wheel};
use crate::sync::{AtomicU64, Ordering};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

/// The map's record of one timer. Times are in ticks of the wheel.
#[derive(Clone, Copy, Debug)]
struct Model {
    handle: u64,
    due: Option<u64>,
    /// From where a period is counted.
    base: u64,
    period: u64,
    auto: bool,
}

/// The deadline that the wheel keeps for one that a caller asks for: after the hand, and exact
/// unless it is far away.
fn rounded(asked: u64, hand: u64) -> u64 {
    let want = asked.max(hand + 1);
    let tick = StateWord::free(0)
        .resting(false, false)
        .armed(want, hand)
        .deadline(hand);
    assert!((want..=want + may_be_late(want - hand)).contains(&tick));
    tick
}

/// The deadline that the wheel keeps for the next period. It may be before the hand.
fn late_rounded(asked: u64, hand: u64) -> u64 {
    if asked > hand {
        rounded(asked, hand)
    } else {
        asked
    }
}

struct Pair {
    wheel: Box<Wheel>,
    tick_ns: u64,
    now: u64,
    timers: BTreeMap<u64, Model>,
    made: u64,
    /// When the driver wakes, if it sleeps.
    alarm: Cell<Option<u64>>,
}

impl Caller for Pair {
    fn thread(&self) -> Result<Thread, Error> {
        Ok(1)
    }
    fn thread_at_hand(&self) -> Thread {
        1
    }
    fn threads(&self) -> Thread {
        2
    }
    fn wake_driver(&self) -> Kick {
        assert!(self.alarm.get().is_some(), "it is awake");
        self.alarm.set(Some(0));
        Kick::Yes
    }
}

impl Pair {
    fn new(levels: u32, bits: u32, start: u64, tick_ns: u64) -> Self {
        let config = Config {
            tick_ns,
            start_ns: start * tick_ns,
            ..shape(levels, bits, 0)
        };
        let wheel = Wheel::new(config).unwrap();
        Pair {
            wheel,
            tick_ns,
            now: start,
            timers: BTreeMap::new(),
            made: 0,
            alarm: Cell::new(None),
        }
    }

    fn ns(&self, tick: u64) -> u64 {
        tick * self.tick_ns
    }

    /// A period as it is kept: above 39 hours in units of 65 us.
    fn kept(&self, period: u64) -> u64 {
        decode_period(encode_period(self.ns(period))) / self.tick_ns
    }

    fn hand(&self) -> u64 {
        self.wheel.hand_ns() / self.tick_ns
    }

    /// The tick that a deadline gets now.
    fn due(&self, asked: u64) -> u64 {
        rounded(asked, self.hand())
    }

    fn setup(&mut self, due: Option<u64>, period: u64, auto: bool) {
        self.made += 1;
        let spec = Spec {
            cookie: self.made,
            period: self.ns(period),
            kind: if auto { AUTO } else { 0 } | BURST,
            ..Spec::default()
        };
        let ns = due.map(|d| self.ns(d));
        let handle = self.wheel.setup(self, spec, ns).unwrap();
        let base = due.unwrap_or(0);
        let period = self.kept(period);
        let due = due.map(|d| self.due(d));
        let timer = Model {
            handle,
            due,
            base,
            period,
            auto,
        };
        self.timers.insert(self.made, timer);
        self.check_alarm();
    }

    /// Whatever was armed, the driver does not sleep over it.
    fn check_alarm(&self) {
        let truth = self.timers.values().filter_map(|m| m.due).min();
        if let (Some(alarm), Some(truth)) = (self.alarm.get(), truth) {
            assert!(alarm <= self.ns(truth), "asleep until {alarm}, due {truth}");
        }
    }

    fn fired(&mut self, f: &Fired) {
        let (hand, tick_ns) = (self.hand(), self.tick_ns);
        let m = self
            .timers
            .get_mut(&f.cookie)
            .expect("fired once too often");
        let due = m.due.expect("fired, and was not pending");
        let shown = if m.period != 0 { m.base } else { due };
        assert_eq!((m.handle, shown * tick_ns), (f.handle, f.deadline_ns));
        m.due = None;
        if m.period != 0 {
            // A period below a tick of lateness is skipped.
            let mut next = m.base + m.period;
            if next <= due {
                next += (due - next) / m.period * m.period + m.period;
            }
            m.base = next;
            m.due = Some(late_rounded(next, due.min(hand)));
        } else if m.auto {
            self.timers.remove(&f.cookie);
        }
    }

    fn advance(&mut self, by: u64, budget: usize) {
        self.now += by;
        let goal = self.now;
        let mut last = 0;
        while !self.wheel.nothing_due(self.ns(goal)) {
            self.alarm.set(None);
            let mut fired = Vec::new();
            let goal_ns = self.ns(goal);
            let done = self.wheel.drive(0).unwrap().advance(
                goal_ns,
                Collect(|f: &Fired| {
                    fired.push(*f);
                    fired.len() < budget
                }),
            );
            assert_eq!(done, fired.len() < budget);
            for f in fired {
                let due = self.timers.get(&f.cookie).and_then(|m| m.due).unwrap_or(0);
                assert!(last <= due && due <= goal, "out of order, or early");
                last = due;
                self.fired(&f);
            }
        }
        // A far period is rounded as seen from where the hand was.
        for m in self.timers.values_mut().filter(|m| m.period != 0) {
            let due = self
                .wheel
                .due(m.handle)
                .unwrap()
                .map(|ns| ns / self.tick_ns);
            assert_eq!(due.is_some(), m.due.is_some());
            m.due = due.inspect(|due| assert!((m.base..=m.due.unwrap() + (1 << 27)).contains(due)));
        }
        for m in self.timers.values() {
            assert!(
                m.due.is_none_or(|d| d > goal),
                "late or lost: {m:?} at {goal}"
            );
        }
    }

    /// The driver goes to sleep; and a thread asks when the next timer is due, before and
    /// afterwards.
    fn sleep(&mut self) {
        let truth = self.timers.values().filter_map(|m| m.due).min();
        let is_early = |next: Option<u64>| {
            if let Some(truth) = truth {
                assert!(next.is_some_and(|next| next <= self.ns(truth)));
            }
        };
        is_early(self.wheel.next_expiry());
        let alarm = Cell::new(0);
        self.wheel.drive(0).unwrap().fall_asleep(|ns| alarm.set(ns));
        let alarm = alarm.get();
        let next = self.wheel.next_expiry();
        self.alarm.set(Some(alarm));
        self.check_alarm();
        is_early(next);
        // There are so few timers that the driver finds the first one.
        let Some(truth) = truth else {
            return assert_eq!(next, None, "an idle wheel");
        };
        if truth <= self.hand() + STEP / 2 {
            assert_eq!(next, Some(self.ns(truth)), "a pending timer");
            let longest = self.ns(self.hand() + STEP);
            assert_eq!(alarm, self.ns(truth).min(longest), "alarm");
        }
        self.check_books();
    }

    /// The books of memory.
    fn check_books(&self) {
        let (w, nodes) = (&self.wheel, self.wheel.nodes());
        // At most forty at the same time: one run.
        assert!(nodes <= 64, "{nodes} nodes");
        assert!(w.entries() <= nodes, "{} entries", w.entries());
        assert!(w.inboxes.bytes() <= most_note_bytes(nodes, 1));
    }

    fn pick(&self, rng: &mut Rng) -> Option<(u64, Model)> {
        let n = rng.below(self.timers.len().max(1) as u64) as usize;
        self.timers.iter().nth(n).map(|(&c, &m)| (c, m))
    }

    fn arm(&mut self, cookie: u64, m: Model, asked: u64, how: How) {
        let due = self.due(asked);
        let short = how == How::Always && asked % 2 == 0;
        let was = if short {
            let answer = self.wheel.arm_at(self, m.handle, self.ns(asked));
            assert!(answer >= 0);
            answer == 1
        } else {
            self.wheel.arm(self, m.handle, self.ns(asked), how).unwrap()
        };
        assert_eq!(was, m.due.is_some());
        let applies = match how {
            How::Always => true,
            How::Earlier => m.due.is_none_or(|now| asked.max(self.hand() + 1) < now),
            How::Pending => was,
            How::Within(_) | How::Periodic(_) => unreachable!("not asked for here"),
        };
        if applies {
            let timer = self.timers.get_mut(&cookie).unwrap();
            timer.due = Some(due);
            timer.base = due;
        }
        self.check_alarm();
    }

    /// A range: the deadline is in it, or it has passed.
    fn arm_within(&mut self, cookie: u64, m: Model, asked: u64, slack: u64) {
        let how = How::Within(self.ns(slack));
        let was = self.wheel.arm(self, m.handle, self.ns(asked), how).unwrap();
        assert_eq!(was, m.due.is_some());
        let due = self.wheel.due(m.handle).unwrap().unwrap() / self.tick_ns;
        let (hand, late) = (
            self.hand(),
            may_be_late(asked.saturating_sub(self.hand()) + slack),
        );
        assert!(due >= asked.max(hand + 1) && due <= (asked + slack + late).max(hand + 1));
        let timer = self.timers.get_mut(&cookie).unwrap();
        if timer.due != Some(due) {
            timer.base = due;
        }
        timer.due = Some(due);
        self.check_alarm();
    }

    fn step(&mut self, rng: &mut Rng, longest: u64) {
        let bits = rng.below(longest + 1);
        let delay = rng.below(1 << bits);
        let asked = (self.now + delay).saturating_sub(rng.below(3));
        match (rng.below(17), self.pick(rng)) {
            (0, _) if self.timers.len() < 40 => self.setup(None, 0, false),
            (1, _) if self.timers.len() < 40 => self.setup(Some(asked), 0, true),
            (2, _) if self.timers.len() < 40 => {
                // A period that a step of the clock does not hold too often.
                let period = 1 + (1 << bits.max(longest.saturating_sub(6)));
                self.setup(Some(asked), period, rng.below(2) == 0);
            }
            (3..=6, Some((c, m))) => self.arm(c, m, asked, How::Always),
            (7, Some((c, m))) => self.arm(c, m, asked, How::Earlier),
            (8, Some((c, m))) => self.arm(c, m, asked, How::Pending),
            (9, Some((c, m))) => {
                let was = match rng.below(2) {
                    0 => self.wheel.cancel_plain(self, m.handle) == 1,
                    _ => self.wheel.cancel(self, m.handle, false).unwrap(),
                };
                assert_eq!(was, m.due.is_some());
                self.timers.get_mut(&c).unwrap().due = None;
                if m.auto {
                    self.timers.remove(&c);
                    assert_eq!(self.wheel.cancel(self, m.handle, false), Err(Error::Stale));
                }
            }
            (10, Some((c, m))) => {
                assert_eq!(self.wheel.free(self, m.handle), Ok(m.due.is_some()));
                self.timers.remove(&c);
                assert_eq!(self.wheel.due(m.handle), Err(Error::Stale));
            }
            (11, Some((_, m))) => {
                let due = m.due.map(|due| self.ns(due));
                assert_eq!(self.wheel.due(m.handle), Ok(due));
            }
            (12, _) => self.sleep(),
            (13, Some((c, m))) => self.arm_within(c, m, asked, delay / 3),
            (14, Some((c, m))) if m.period != 0 => {
                let period = m.period / 2 + 1;
                assert_eq!(self.wheel.set_period(m.handle, self.ns(period)), Ok(()));
                self.timers.get_mut(&c).unwrap().period = self.kept(period);
            }
            _ => self.advance(delay, 1 + rng.below(9) as usize),
        }
        assert_eq!(self.wheel.live(2), self.timers.len() as u64);
        let pending = self.timers.values().filter(|m| m.due.is_some()).count();
        assert_eq!(self.wheel.pending(2), pending as u64);
        self.check_books();
    }

    fn finish(mut self) {
        let listed = std::iter::successors(self.wheel.next_pending(0), |(at, _)| {
            self.wheel.next_pending(*at)
        });
        let mut listed: Vec<_> = listed.map(|(_, p)| (p.handle, p.deadline_ns)).collect();
        let pending = self.timers.values().filter(|m| m.due.is_some());
        let mut known: Vec<_> = pending
            .map(|m| (m.handle, self.ns(m.due.unwrap())))
            .collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known, "listed");
        let mut armed: Vec<_> = self
            .timers
            .values()
            .filter_map(|m| m.due.map(|_| m.handle))
            .collect();
        let mut handed = Vec::new();
        while !self.wheel.drive(0).unwrap().drain(|f| {
            handed.push(f.handle);
            handed.len() % 7 != 0
        }) {}
        armed.sort_unstable();
        handed.sort_unstable();
        assert_eq!(armed, handed, "drain");
        self.timers.retain(|_, m| !m.auto);
        assert_eq!(self.wheel.live(2), self.timers.len() as u64);
        assert_eq!(self.wheel.pending(2), 0);
        for m in self.timers.values() {
            let r = self
                .wheel
                .arm(&self, m.handle, self.ns(self.now + 9), How::Always);
            assert_eq!(r, Err(Error::Shutdown));
        }
    }
}

/// Levels and bits of a slot.
const SHAPES: [(u32, u32); 9] = [
    (1, 1),
    (1, 3),
    (1, 9),
    (2, 2),
    (6, 6),
    (4, 8),
    (8, 3),
    (3, 10),
    (2, 1),
];
/// Before a wrap of a level, of an entry, of the state word.
const STARTS: [u64; 9] = [
    0,
    60,
    255,
    65_535,
    (1 << 24) - 1,
    (1 << 32) - 9,
    (1 << 36) - 9,
    (1 << 40) - 9,
    (1 << 48) - 3,
];
/// The longest delay and the longest step of the clock, in bits.
const LONGEST: [u64; 5] = [4, 12, 20, 34, 46];
const RUNS: u64 = (SHAPES.len() * STARTS.len() * LONGEST.len()) as u64;

/// Ticks that leave room for the longest way, or that are no power of two.
fn tick_of(longest: u64) -> u64 {
    if longest > 20 {
        TICK
    } else {
        1000
    }
}
const TICK: u64 = 1 << 10;

/// Runs `steps` operations for every shape, start and range.
fn run(steps: u64, seed: u64) {
    for (levels, bits) in SHAPES {
        for start in STARTS {
            for longest in LONGEST {
                let mut rng =
                    Rng(seed ^ start ^ u64::from(levels * 64 + bits) << 50 ^ longest << 57 | 1);
                let mut pair = Pair::new(levels, bits, start, tick_of(longest));
                for _ in 0..steps {
                    pair.step(&mut rng, longest);
                }
                pair.finish();
            }
        }
    }
}

#[test]
fn every_operation_agrees_with_an_ordered_map() {
    run(400, 0x5eed);
}

/// The long form: `HWHEEL_OPERATIONS` of them, on all processors.
#[test]
#[ignore = "the long form, run by make oracle-long"]
fn every_operation_agrees_with_an_ordered_map_at_length() {
    const STEPS: u64 = 10_000;
    let want: u64 = std::env::var("HWHEEL_OPERATIONS").map_or(10_000_000, |s| s.parse().unwrap());
    let rounds = want.div_ceil(STEPS * RUNS);
    let next = AtomicU64::new(0);
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            s.spawn(|| loop {
                let round = next.fetch_add(1, Ordering::Relaxed);
                if round >= rounds {
                    break;
                }
                run(STEPS, 0x5eed + round);
                println!("round {round} of {rounds}: {} operations", STEPS * RUNS);
            });
        }
    });
    println!(
        "figures: {} operations of {RUNS} settings agree",
        rounds * STEPS * RUNS
    );
}

proptest::proptest! {
    /// One word makes one step, so that a failure shrinks to few and small ones.
    #[test]
    fn a_few_operations_agree_with_an_ordered_map(
        shape in 0..SHAPES.len(),
        start in 0..STARTS.len(),
        longest in 0..LONGEST.len(),
        steps in proptest::collection::vec(0u64..1 << 32, 1..100),
    ) {
        let (levels, bits) = SHAPES[shape];
        let mut pair = Pair::new(levels, bits, STARTS[start], tick_of(LONGEST[longest]));
        for step in steps {
            pair.step(&mut Rng(step << 8 | 1), LONGEST[longest]);
        }
        pair.finish();
    }
}

#[test]
fn c14_a_stale_handle_acts_on_nothing() {
    let p = Pair::new(4, 6, 0, at(1));
    let w = &p.wheel;
    let make = || w.setup(&p, Spec::default(), None).unwrap();
    let a = make();
    assert_eq!(w.arm(&p, a, 5, How::Always), Ok(false));
    assert_eq!(w.free(&p, a), Ok(true));
    // Neither is a name with another flag, index or generation; while the node
    // is free and while it is another timer's.
    let wrongs = [
        vec![a, 0, u64::MAX, 1, 2, 3, 1 << 63],
        (0..64).map(|bit| a ^ 1 << bit).collect(),
    ];
    for again in [false, true] {
        let b = again.then(make).unwrap_or(a);
        for &wrong in wrongs
            .iter()
            .flatten()
            .filter(|&&wrong| !again || wrong != b)
        {
            let stale = Error::Stale as i32;
            assert_eq!(
                w.arm(&p, wrong, 5, How::Always),
                Err(Error::Stale),
                "{wrong:x} {b:x}"
            );
            assert_eq!(w.arm_at(&p, wrong, at(77)), stale);
            assert_eq!(w.cancel(&p, wrong, false), Err(Error::Stale));
            assert_eq!(w.cancel_plain(&p, wrong), stale);
            assert_eq!(w.free(&p, wrong), Err(Error::Stale));
            assert_eq!(w.set_period(wrong, 1), Err(Error::Stale));
        }
        if again {
            assert_eq!(w.due(b), Ok(None));
            assert_eq!(w.free(&p, b), Ok(false));
        }
    }
}

/// A node goes through all its lives: no name comes twice, and then it is not
/// used any more.
#[test]
fn c14_the_generations_of_a_node_are_used_up() {
    const LIVES: u32 = 1 << 19;
    let p = Pair::new(4, 6, 0, at(1));
    let w = &p.wheel;
    let first = w.setup(&p, Spec::default(), None).unwrap();
    let mut last = first;
    for _ in 0..LIVES {
        w.free(&p, last).unwrap();
        let next = w.setup(&p, Spec::default(), Some(at(5))).unwrap();
        assert_eq!(index_of(next), index_of(first));
        assert!(next != last && next != first);
        assert_eq!(w.due(last), Err(Error::Stale));
        last = next;
    }
    // Its low part is that of the first one, as 2^18 divides the number of lives.
    let stale = Error::Stale as i32;
    assert_eq!(w.due(first), Err(Error::Stale));
    assert_eq!(w.arm_at(&p, first, at(9)), stale);
    assert_eq!(w.cancel_plain(&p, first), stale);
    assert_eq!(w.due(last), Ok(Some(at(5))));
    // One note and one entry for all of them.
    assert_eq!(w.total(2, |c| &c.notes), 1);
    w.drive(0).unwrap().fall_asleep(|_| ());
    assert_eq!(w.entries(), 1);
}

/// A node that is used up is no timer: the limit does not count it.
#[test]
fn a_limit_of_one_outlives_its_node() {
    const LIVES: u32 = 1 << 19;
    let config = Config {
        limit: 1,
        ..shape(4, 6, 0)
    };
    let w = Wheel::new(config).unwrap();
    let own = &Own(1);
    let first = w.setup(own, Spec::default(), None).unwrap();
    assert_eq!(w.free(own, first), Ok(false));
    // The last of its high parts.
    let link = &w.slab.hot(index_of(first)).link;
    let last = Link(link.load(Ordering::Relaxed)).high().wrapping_sub(1);
    link.store(Link::none(last).0, Ordering::Relaxed);
    let mut index = index_of(first);
    for _ in 0..LIVES {
        let timer = w.setup(own, Spec::default(), None).unwrap();
        assert_eq!(w.setup(own, Spec::default(), None), Err(Error::Limit));
        index = index_of(timer);
        assert_eq!(w.free(own, timer), Ok(false));
    }
    assert_ne!(index, index_of(first), "its node is used up");
}

#[test]
fn a_step_over_everything_fires_in_order() {
    for (levels, bits) in [(1, 3), (4, 8)] {
        let mut p = Pair::new(levels, bits, 7, TICK);
        for i in 1..200u64 {
            p.setup(Some(7 + i * i * i), 0, true);
        }
        p.advance(1 << 48, 1000);
        assert!(p.timers.is_empty());
    }
}

/// However far away timers are, and however many share a bucket, each is placed
/// anew once for each level at most.
#[test]
fn far_timers_are_placed_a_few_times_only() {
    for (levels, bits) in [(1, 2), (4, 8)] {
        let mut p = Pair::new(levels, bits, 0, TICK);
        let n = 3000;
        for i in 0..n {
            p.setup(Some((i << 44) / n + 100_000), 0, true);
        }
        let begin = cpu_time();
        p.advance(1 << 45, 10_000);
        let took = cpu_time() - begin;
        assert!(p.timers.is_empty());
        assert!(took < Duration::from_millis(200), "{took:?}");
    }
}

/// The time that this thread has run for.
fn cpu_time() -> Duration {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid pointer to a local.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// In steps of 2^35 ticks, the longest.
#[test]
fn a_long_way_over_nothing_takes_no_time() {
    let mut p = Pair::new(4, 8, 0, SHORTEST_TICK);
    p.setup(Some(1 << 52), 0, true);
    let begin = cpu_time();
    p.advance(1 << 51, 10);
    assert_eq!(p.timers.len(), 1);
    p.advance(1 << 51, 10);
    let took = cpu_time() - begin;
    let most = if cfg!(sanitized) { 1000 } else { 100 };
    assert!(took < Duration::from_millis(most), "{took:?}");
    assert!(p.timers.is_empty());
    p.setup(Some(p.now + 5), 0, true);
    p.advance(4, 10);
    assert_eq!(p.timers.len(), 1);
    p.advance(1, 10);
    assert!(p.timers.is_empty());
    assert!(p.wheel.shared.count.sweeps.get() < 9);
}

/// Else a loop that drives and arms would never end.
#[test]
fn d1_a_deadline_that_has_passed_is_the_next_tick() {
    let mut p = Pair::new(4, 8, 0, at(1));
    p.setup(Some(5), 0, true);
    p.advance(10, 9);
    for asked in [0, 8, 10] {
        p.setup(Some(asked), 0, true);
        p.advance(0, 9);
        assert_eq!(p.timers.len(), 1);
        p.advance(1, 9);
        assert!(p.timers.is_empty());
    }
}
