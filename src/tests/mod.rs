//! Tests of the core, in ticks, without an operating system.

#[cfg(checked)]
pub(crate) mod checker;
#[cfg(not(checked))]
mod limits;
#[cfg(not(checked))]
mod meanwhile;
#[cfg(loom)]
mod model;
#[cfg(shuttle)]
pub(crate) mod shuttle;
#[cfg(not(checked))]
mod stress;
#[cfg(checked)]
pub(crate) mod sys;
#[cfg(checked)]
pub(crate) mod system;

use crate::core::alarm::{Kick, Sleeper};
use crate::core::driver::{Drive, Fired, Sink};
use crate::core::wheel::{Caller, Config, Wheel};
use crate::core::Thread;
use crate::core::{Answer, Error};
use std::cell::Cell;

/// A tick is 2^20 ns.
pub(crate) const TICK_BITS: u32 = 20;

/// When a tick begins, in nanoseconds.
pub(crate) const fn at(tick: u64) -> u64 {
    tick << TICK_BITS
}

/// A shape whose hand starts at a tick.
pub(crate) fn shape(levels: u32, slot_bits: u32, start: u64) -> Config {
    Config {
        levels,
        slot_bits,
        limit: u32::MAX,
        tick_ns: at(1),
        start_ns: at(start),
        salt: 0x1234_5678,
        id: 1,
        pooled: false,
        owner: None,
    }
}

impl Drive<'_> {
    /// Sleeps on a timer of the system, without a bound.
    pub fn fall_asleep(&mut self, set: impl FnMut(u64)) {
        self.sleep(Sleeper::System, || false, set);
    }

    /// The results of `tell` for the timers that an advance fires, in their order.
    pub fn told<T>(&mut self, now_ns: u64, mut tell: impl FnMut(&Fired) -> T) -> Vec<T> {
        let mut all = Vec::new();
        let take = |f: &Fired| {
            all.push(tell(f));
            true
        };
        assert!(self.advance(now_ns, Collect(take)));
        all
    }

    /// The results of `tell` for the timers that a drain hands back, in their order.
    pub fn handed<T>(&mut self, mut tell: impl FnMut(&Fired) -> T) -> Vec<T> {
        let mut all = Vec::new();
        assert!(self.drain(|f| {
            all.push(tell(f));
            true
        }));
        all
    }
}

/// A wheel that all threads use. In a box: the stacks of the model checkers' threads are small.
pub(crate) struct Everywhere(Box<Wheel>);

// SAFETY: each thread has a number of its own.
unsafe impl Send for Everywhere {}
// SAFETY: as above.
unsafe impl Sync for Everywhere {}

impl Everywhere {
    /// As [`Wheel::make`].
    pub fn new(config: Config) -> Result<Self, Error> {
        let mut place = Box::<Wheel>::new_uninit();
        // SAFETY: zeroed, and made before it is used.
        unsafe {
            place.as_mut_ptr().write_bytes(0, 1);
            Wheel::make(place.as_mut_ptr(), config)?;
            Ok(Everywhere(place.assume_init()))
        }
    }
}

impl std::ops::Deref for Everywhere {
    type Target = Wheel;
    fn deref(&self) -> &Wheel {
        &self.0
    }
}

/// Functions of a wheel that only tests call.
impl Wheel {
    /// Whether an advance would find nothing to do.
    pub fn nothing_due(&self, now_ns: u64) -> bool {
        self.drive(0).is_ok_and(|drive| {
            let nothing = drive.nothing_due(now_ns);
            drive.leave();
            nothing
        })
    }

    /// The right to drive, as a host takes it; `None` if an advance would find nothing to do.
    #[cfg(checked)]
    fn drive_if_due(&self, now_ns: u64) -> Result<Option<Drive<'_>>, Error> {
        let drive = self.drive(0)?;
        if drive.nothing_due(now_ns) {
            drive.leave();
            return Ok(None);
        }
        Ok(Some(drive))
    }

    /// Advances as a host does: true if all is done.
    #[cfg(checked)]
    pub fn advance(&self, now_ns: u64, sink: impl Sink) -> Result<bool, Error> {
        let drive = self.drive_if_due(now_ns)?;
        Ok(drive.is_none_or(|mut drive| drive.advance(now_ns, sink)))
    }

    /// The results of `tell` for the timers that such an advance fires, in their order.
    #[cfg(loom)]
    pub fn told<T>(&self, now_ns: u64, tell: impl FnMut(&Fired) -> T) -> Vec<T> {
        let drive = self.drive_if_due(now_ns).unwrap();
        drive.map_or_else(Vec::new, |mut drive| drive.told(now_ns, tell))
    }

    /// Entries in buckets, as of the last sweep or sleep.
    pub fn entries(&self) -> u64 {
        self.shared.count.entries.get()
    }

    /// Timers for which there is a node, whether or not they exist.
    pub fn nodes(&self) -> u64 {
        self.slab.indices(0).count() as u64
    }
}

/// All answers to a number of questions.
pub(crate) fn cases<const N: usize>() -> impl Iterator<Item = [bool; N]> {
    (0..1_u32 << N).map(|bits| std::array::from_fn(|n| bits >> (N - 1 - n) & 1 != 0))
}

/// A sink of events.
struct Collect<F>(F);

impl<F: FnMut(&Fired) -> bool> Sink for Collect<F> {
    fn fire(&mut self, fired: &Fired) -> bool {
        self.0(fired)
    }
    fn wake(&self) {}
}

/// The bytes of notes that are enough: each thread may have written a note for each node
/// before it saw that of another thread. And each has a chunk that is not full, on either side
/// of its inbox, and a spare one.
#[cfg(not(checked))]
fn most_note_bytes(nodes: u64, threads: u64) -> u64 {
    let chunks = (nodes * threads).div_ceil(crate::core::NOTES as u64);
    (chunks + 3 * threads) * 256
}

/// More than each number of a thread in a test.
pub(crate) const NUMBERS: Thread = if cfg!(loom) {
    4
} else if cfg!(shuttle) {
    crate::core::THREADS as Thread
} else {
    8
};

/// The thread that drives, inside of a callback. `SHORT`: the thread must not take the long way to
/// arm, which alone asks for the number in this way.
#[cfg(not(shuttle))]
struct Inside<const SHORT: bool>(Thread);

#[cfg(not(shuttle))]
impl<const SHORT: bool> Caller for Inside<SHORT> {
    fn thread(&self) -> Result<Thread, Error> {
        assert!(!SHORT, "the long way");
        Ok(self.0)
    }
    fn thread_at_hand(&self) -> Thread {
        self.0
    }
    fn threads(&self) -> Thread {
        NUMBERS
    }
    fn thread_inside(&self) -> (Thread, bool) {
        (self.0, true)
    }
    fn wake_driver(&self) -> Kick {
        panic!("it is awake")
    }
}

/// A thread with a number, or why it gets none; and how it wakes the driver.
struct Waking<F>(Result<Thread, Error>, F);

impl<F: Fn()> Caller for Waking<F> {
    fn thread(&self) -> Result<Thread, Error> {
        self.0
    }
    fn thread_at_hand(&self) -> Thread {
        self.0.unwrap_or(0)
    }
    fn threads(&self) -> Thread {
        NUMBERS
    }
    fn wake_driver(&self) -> Kick {
        self.1();
        Kick::Yes
    }
}

/// A thread with a number, whose driver does not sleep.
fn awake(number: Thread) -> Waking<fn()> {
    Waking(Ok(number), || ())
}

/// The answer of a short call, in the form in which the long calls answer.
fn result(answer: Answer) -> Result<bool, Error> {
    let refusals = [Error::Stale, Error::Shutdown];
    match refusals.into_iter().find(|e| *e as i32 == answer) {
        Some(refused) => Err(refused),
        None if (0..=1).contains(&answer) => Ok(answer == 1),
        None => panic!("refused: {answer}"),
    }
}

#[cfg(not(loom))]
struct Rng(u64);

#[cfg(not(loom))]
impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

thread_local! {
    /// How many mappings are still granted; then memory is refused. The model checkers run all threads of an execution
    /// in one of the system's.
    static GRANTED: Cell<u64> = const { Cell::new(u64::MAX) };
}

pub(crate) fn is_refused() -> bool {
    GRANTED.with(|granted| match granted.get() {
        u64::MAX => false,
        0 => true,
        left => {
            granted.set(left - 1);
            false
        }
    })
}

/// Runs `f` with `granted` mappings, and refuses more.
pub(crate) fn scarce<R>(granted: u64, f: impl FnOnce() -> R) -> R {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            GRANTED.set(u64::MAX);
        }
    }
    let _reset = Reset;
    GRANTED.set(granted);
    f()
}
