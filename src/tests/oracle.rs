//! Every operation against an ordered map.

use super::{at, config, may_be_late, Heap, Own, Rng};
use crate::slab::{AUTO, BURST};
use crate::state;
use crate::sweep::Fired;
use crate::sync::{AtomicU64, Ordering};
use crate::wheel::{Due, Error, How, Spec, Wheel};
use std::collections::BTreeMap;

/// What the map knows of one timer.
#[derive(Clone, Copy, Debug)]
struct Model {
    handle: u64,
    due: Option<u64>,
    /// What was asked for; `due` is after the hand.
    asked: u64,
    period: u64,
    auto: bool,
}

impl Model {
    fn set(&mut self, asked: u64, due: u64) {
        self.asked = asked;
        self.due = Some(due);
    }
}

/// What a deadline becomes as seen from the hand: after it, and exact unless it
/// is far away.
fn rounded(asked: u64, hand: u64) -> u64 {
    let want = asked.max(hand + 1);
    let tick = state::decode(state::encode(want, hand), hand);
    let late = may_be_late(want - hand);
    assert!((want..=want + late).contains(&tick));
    tick
}

struct Pair {
    wheel: Wheel<Heap>,
    token: crate::wheel::Token,
    now: u64,
    timers: BTreeMap<u64, Model>,
    made: u64,
}

impl Pair {
    fn new(levels: u32, bits: u32, start: u64) -> Self {
        let wheel = Wheel::new(Heap, config(levels, bits, start)).unwrap();
        let token = wheel.attach().unwrap();
        Pair {
            wheel,
            token,
            now: start,
            timers: BTreeMap::new(),
            made: 0,
        }
    }

    fn hand(&self) -> u64 {
        self.wheel.current.load(Ordering::Relaxed)
    }

    /// The tick that a deadline gets now.
    fn due(&self, asked: u64) -> u64 {
        rounded(asked, self.hand())
    }

    fn setup(&mut self, due: Option<u64>, period: u64, auto: bool) {
        self.made += 1;
        let spec = Spec {
            func: 0,
            cookie: self.made,
            period,
            kind: if auto { AUTO } else { 0 } | BURST,
        };
        let handle = self
            .wheel
            .setup(&Own(self.token), spec, due.map(at))
            .unwrap();
        let asked = due.unwrap_or(0);
        let due = due.map(|d| self.due(d));
        self.timers.insert(
            self.made,
            Model {
                handle,
                due,
                asked,
                period,
                auto,
            },
        );
    }

    fn advance(&mut self, by: u64, budget: usize) {
        self.now += by;
        let goal = self.now;
        let mut last = 0;
        loop {
            if self.wheel.nothing_due(goal) {
                break;
            }
            let mut fired: Vec<Fired> = Vec::new();
            let done = self.wheel.drive().unwrap().advance(goal, |f: &Fired| {
                fired.push(*f);
                fired.len() < budget
            });
            assert_eq!(done, fired.len() < budget);
            for f in fired {
                assert!(f.tick >= last && f.tick <= goal, "out of order");
                last = f.tick;
                let m = self
                    .timers
                    .get_mut(&f.cookie)
                    .expect("fired once too often");
                assert_eq!(m.due, Some(f.tick));
                assert_eq!((m.handle, m.asked), (f.handle, f.due_ns));
                m.asked += m.period;
                m.due = (m.period != 0).then(|| rounded(m.asked, f.tick));
                if m.auto && m.due.is_none() {
                    self.timers.remove(&f.cookie);
                }
            }
            if done {
                break;
            }
        }
        for m in self.timers.values() {
            assert!(
                m.due.is_none_or(|d| d > goal),
                "late or lost: {m:?} at {goal}"
            );
        }
    }

    fn settle(&mut self) {
        self.wheel.drive().unwrap().settle();
        let next = self.wheel.hot.next_visit.load(Ordering::Relaxed);
        let truth = self.timers.values().filter_map(|m| m.due).min();
        assert!(truth.is_none_or(|t| next <= t), "a sleep past a deadline");
        // More in one bucket are not looked at before a sleep: the driver may
        // wake for a dead one.
        if truth.is_none() && self.wheel.entries() <= 64 {
            assert_eq!(next, u64::MAX, "an idle wheel wakes");
        }
    }

    fn pick(&self, rng: &mut Rng) -> Option<(u64, Model)> {
        let n = rng.below(self.timers.len().max(1) as u64) as usize;
        self.timers.iter().nth(n).map(|(&c, &m)| (c, m))
    }

    fn step(&mut self, rng: &mut Rng, longest: u64) {
        let bits = rng.below(longest + 1);
        let delay = rng.below(1 << bits);
        let token = self.token;
        let own = &Own(token);
        let asked = self.now + delay;
        let due = self.due(asked);
        match (rng.below(16), self.pick(rng)) {
            (0, _) if self.timers.len() < 40 => self.setup(None, 0, false),
            (1, _) if self.timers.len() < 40 => self.setup(Some(self.now + delay), 0, true),
            (2, _) if self.timers.len() < 40 => {
                // A period that a step of the clock does not hold too often.
                let period = 1 + (1 << bits.max(longest.saturating_sub(6)));
                self.setup(Some(self.now + delay), period, rng.below(2) == 0);
            }
            (3..=6, Some((c, m))) => {
                assert_eq!(
                    self.wheel.arm(own, m.handle, at(asked), How::Always),
                    Ok(m.due.is_some())
                );
                self.timers.get_mut(&c).unwrap().set(asked, due);
            }
            (7, Some((c, m))) => {
                let sooner = m.due.is_none_or(|d| asked.max(self.hand() + 1) < d);
                assert_eq!(
                    self.wheel.arm(own, m.handle, at(asked), How::Earlier),
                    Ok(m.due.is_some())
                );
                if sooner {
                    self.timers.get_mut(&c).unwrap().set(asked, due);
                }
            }
            (8, Some((c, m))) => {
                assert_eq!(
                    self.wheel.arm(own, m.handle, at(asked), How::Pending),
                    Ok(m.due.is_some())
                );
                if m.due.is_some() {
                    self.timers.get_mut(&c).unwrap().set(asked, due);
                }
            }
            (9, Some((c, m))) => {
                assert_eq!(self.wheel.cancel(own, m.handle, 0), Ok(m.due.is_some()));
                self.timers.get_mut(&c).unwrap().due = None;
                if m.auto {
                    self.timers.remove(&c);
                    assert_eq!(self.wheel.cancel(own, m.handle, 0), Err(Error::Stale));
                }
            }
            (10, Some((c, m))) => {
                assert_eq!(self.wheel.free(own, m.handle), Ok(m.due.is_some()));
                self.timers.remove(&c);
                assert_eq!(self.wheel.due(m.handle).map(|_| ()), Err(Error::Stale));
            }
            (11, Some((_, m))) => {
                let tick = self.wheel.due(m.handle).unwrap().map(|d: Due| d.tick);
                assert_eq!(tick, m.due);
            }
            (12, _) => self.settle(),
            _ => self.advance(delay, 1 + rng.below(9) as usize),
        }
        assert_eq!(self.wheel.live(), self.timers.len() as u64);
    }

    fn finish(mut self) {
        let mut armed: Vec<_> = self.timers.values().filter_map(|m| m.due).collect();
        let mut handed = Vec::new();
        while !self.wheel.drive().unwrap().drain(|f| {
            handed.push(f.tick);
            handed.len() % 7 != 0
        }) {}
        armed.sort_unstable();
        handed.sort_unstable();
        assert_eq!(armed, handed, "drain");
        self.timers.retain(|_, m| !m.auto);
        assert_eq!(self.wheel.live(), self.timers.len() as u64);
        let token = self.token;
        for m in self.timers.values() {
            let r = self
                .wheel
                .arm(&Own(token), m.handle, at(self.now + 9), How::Always);
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
const LONGEST: [u64; 5] = [4, 12, 20, 34, 48];
const RUNS: u64 = (SHAPES.len() * STARTS.len() * LONGEST.len()) as u64;

/// Runs `steps` operations for every shape, start and range.
fn run(steps: u64, seed: u64) {
    for (levels, bits) in SHAPES {
        for start in STARTS {
            for longest in LONGEST {
                let mut rng =
                    Rng(seed ^ start ^ u64::from(levels * 64 + bits) << 50 ^ longest << 57 | 1);
                let mut pair = Pair::new(levels, bits, start);
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
        let mut pair = Pair::new(levels, bits, STARTS[start]);
        for step in steps {
            pair.step(&mut Rng(step << 8 | 1), LONGEST[longest]);
        }
        pair.finish();
    }
}

#[test]
fn a_stale_handle_acts_on_nothing() {
    let p = Pair::new(4, 6, 0);
    let token = p.token;
    let own = &Own(token);
    let w = &p.wheel;
    let make = || w.setup(&Own(token), Spec::default(), None).unwrap();
    let a = make();
    assert_eq!(w.arm(own, a, at(5), How::Always), Ok(false));
    assert_eq!(w.free(own, a), Ok(true));
    // The next generation's name is nobody's while the node is free.
    for wrong in [
        a,
        a + (1 << 26),
        a - (1 << 26),
        a + (2 << 26),
        0,
        u64::MAX,
        1,
        1 << 63,
    ] {
        assert_eq!(w.arm(own, wrong, at(5), How::Always), Err(Error::Stale));
        assert_eq!(w.cancel(own, wrong, 0), Err(Error::Stale));
        assert_eq!(w.free(own, wrong), Err(Error::Stale));
    }
    let b = make();
    assert_eq!(b, a + (2 << 26));
    assert_eq!(w.arm(own, b, at(5), How::Always), Ok(false));
    assert_eq!(w.cancel(own, a, 0), Err(Error::Stale));
    assert_eq!(w.due(b).unwrap().unwrap().tick, 5);
}

#[test]
fn a_step_over_everything_fires_in_order() {
    for (levels, bits) in [(1, 3), (4, 8)] {
        let mut p = Pair::new(levels, bits, 7);
        for i in 1..200u64 {
            p.setup(Some(7 + i * i * i), 0, true);
        }
        p.advance(1 << 48, 1000);
        assert!(p.timers.is_empty());
    }
}

/// However many timers share a bucket: where it is entered first they are placed
/// in the driver's shard, and again if that has its turn after; then no more.
#[test]
fn rounds_of_full_buckets_are_leapt_over() {
    let mut p = Pair::new(1, 2, 0);
    let n = 300;
    for i in 0..n {
        p.setup(Some(100_000 + i % 4), 0, true);
    }
    p.advance(200_000, 1000);
    assert!(p.timers.is_empty());
    assert!(p.wheel.driver.count.placed.get() <= 2 * n);
}
