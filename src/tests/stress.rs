//! Many threads on one wheel; the counts must add up.

use super::{at, awake, most_note_bytes, result, shape, Collect, Everywhere, Rng, NUMBERS};
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::life::Spec;
use crate::core::ticks::AUTO;
use crate::core::wheel::Wheel;
use crate::core::Error;
use crate::core::Thread;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What happened, summed over all threads.
#[derive(Default)]
struct Tally {
    armed: AtomicU64,
    cancelled: AtomicU64,
    fired: AtomicU64,
    stale: AtomicU64,
    operations: AtomicU64,
}

/// What the driver does.
#[derive(Clone, Copy, PartialEq)]
enum Driver {
    Drives,
    /// It is stopped for good, in the middle of a sweep.
    Stopped,
}

/// Handles that the threads share.
const SLOTS: u64 = 256;

/// `spread` is in ticks.
fn storm(levels: u32, bits: u32, threads: u64, each: u64, spread: u64, drives: Driver) {
    let w = Everywhere::new(shape(levels, bits, 0)).unwrap();
    let t = Tally::default();
    let stop = AtomicBool::new(drives == Driver::Stopped);
    let add = |word: &AtomicU64, n: u64| _ = word.fetch_add(n, Ordering::Relaxed);
    // Handles shared by all: any thread may find any of them stale.
    let slots: Vec<AtomicU64> = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
    let begin = at(9);
    if drives == Driver::Stopped {
        // One fires and one is left.
        let auto = Spec {
            kind: AUTO,
            ..Spec::default()
        };
        for _ in 0..2 {
            w.setup(&awake(1), auto, Some(at(5))).unwrap();
        }
        let mut drive = w.drive(0).unwrap();
        assert!(!drive.advance(begin, Collect(|_: &Fired| false)));
        add(&t.armed, 2);
        add(&t.fired, 1);
    }
    std::thread::scope(|s| {
        let driver = s.spawn(|| {
            let mut now = begin;
            while !stop.load(Ordering::Acquire) {
                now += at(1);
                let mut n = 0;
                let mut drive = w.drive(0).unwrap();
                if drive.nothing_due(now) {
                    drive.leave();
                    continue;
                }
                let take = |f: &Fired| {
                    assert!(f.deadline_ns <= now, "early");
                    n += 1;
                    n % 64 != 0
                };
                let done = drive.advance(now, Collect(take));
                add(&t.fired, n);
                // It does not stay asleep, but arms must see the alarm.
                if done && now / at(1) % 16 == 0 {
                    drive.fall_asleep(|_| ());
                }
            }
            now
        });
        let workers: Vec<_> = (0..threads)
            .map(|n| {
                let (w, t, slots) = (&w, &t, &slots);
                s.spawn(move || {
                    let mut rng = Rng(0x9876_5432_1234 + n);
                    let own = &awake(n as Thread + 1);
                    let (mut armed, mut cancelled, mut stale) = (0, 0, 0);
                    for _ in 0..each {
                        let slot = &slots[rng.below(SLOTS) as usize];
                        let h = slot.load(Ordering::Acquire);
                        let due = w.hand_ns() + rng.below(at(spread));
                        // What a call has armed and cancelled, by what it says.
                        let arms = |was: bool| (u64::from(!was), 0);
                        let cancels = |was: bool| (0, u64::from(was));
                        let r = match rng.below(16) {
                            0 => {
                                let auto = rng.below(2) == 0;
                                let spec = Spec {
                                    kind: if auto { AUTO } else { 0 },
                                    ..Spec::default()
                                };
                                let fresh = w.setup(own, spec, auto.then_some(due)).unwrap();
                                armed += u64::from(auto);
                                let old = slot.swap(fresh, Ordering::AcqRel);
                                w.free(own, old).map(cancels)
                            }
                            1..=4 => result(w.arm_at(own, h, due)).map(arms),
                            5..=7 => w.arm(own, h, due, How::Always).map(arms),
                            8 => {
                                let how = How::Within(at(spread / 3));
                                w.arm(own, h, due, how).map(arms)
                            }
                            9 => w.arm(own, h, due, How::Earlier).map(arms),
                            10 => w.arm(own, h, due, How::Pending).map(|_| (0, 0)),
                            11..=12 => w.cancel(own, h, false).map(cancels),
                            _ => result(w.cancel_plain(own, h)).map(cancels),
                        };
                        match r {
                            Ok((begun, ended)) => {
                                armed += begun;
                                cancelled += ended;
                            }
                            Err(Error::Stale) => stale += 1,
                            Err(e) => panic!("{e:?}"),
                        }
                    }
                    add(&t.armed, armed);
                    add(&t.cancelled, cancelled);
                    add(&t.stale, stale);
                    add(&t.operations, each);
                })
            })
            .collect();
        let ended: Vec<_> = workers.into_iter().map(|w| w.join()).collect();
        // The driver ends, even if a worker has panicked.
        stop.store(true, Ordering::Release);
        let now = driver.join().unwrap();
        ended.into_iter().for_each(|worker| worker.unwrap());
        let books = check_books(&w, threads);
        let fired = w.drive(0).unwrap().told(now + at(spread) / 2, |_| ());
        add(&t.fired, fired.len() as u64);
        println!("{books}");
    });
    let drained = w.drive(0).unwrap().handed(|_| ()).len() as u64;
    for slot in &slots {
        let h = slot.load(Ordering::Relaxed);
        let r = w.free(&awake(1), h);
        assert!(matches!(r, Ok(false) | Err(Error::Stale)));
    }
    check_books(&w, threads);
    let sum = |word: &AtomicU64| word.load(Ordering::Relaxed);
    println!(
        "{levels} levels: {} operations, armed {}, fired {}, cancelled {}, drained {drained}, stale {}",
        sum(&t.operations), sum(&t.armed), sum(&t.fired), sum(&t.cancelled), sum(&t.stale)
    );
    assert_eq!(sum(&t.armed), sum(&t.fired) + sum(&t.cancelled) + drained);
    assert_eq!(w.live(NUMBERS), 0);
    assert!(sum(&t.stale) > 0 && sum(&t.fired) > 0 && sum(&t.cancelled) > 0);
}

/// The books of memory: it follows from the number of live timers and of threads, whatever
/// was done and whether or not a thread drives.
fn check_books(w: &Wheel, threads: u64) -> String {
    let (nodes, entries) = (w.nodes(), w.entries());
    let bytes = w.inboxes.bytes();
    let books = format!("{nodes} nodes, {entries} entries, {bytes} bytes of notes");
    // Each thread has a timer besides those of the slots, and at most two runs at hand.
    let run = u64::from(crate::core::RUN);
    assert!(nodes <= SLOTS + 2 + threads * (1 + 2 * run), "{books}");
    assert!(entries <= nodes, "{books}");
    assert_eq!(w.slab.bytes(), 48 * nodes);
    assert!(bytes <= most_note_bytes(nodes, threads), "{books}");
    books
}

#[test]
fn two_threads_and_a_driver_and_the_counts_add_up() {
    let each = if cfg!(miri) { 300 } else { 1_000_000 };
    for drives in [Driver::Drives, Driver::Stopped] {
        storm(4, 6, 2, each, 300, drives);
        storm(1, 6, 2, each, 300, drives);
        storm(3, 2, 2, each, 3000, drives);
        storm(4, 6, 2, each, 1 << 20, drives);
    }
}
