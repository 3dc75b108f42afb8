//! Tests of the core, in ticks, without an operating system.

#[cfg(checked)]
pub(crate) mod checker;
#[cfg(not(checked))]
mod limits;
#[cfg(not(checked))]
mod meanwhile;
#[cfg(loom)]
mod model;
#[cfg(not(checked))]
mod oracle;
#[cfg(shuttle)]
pub(crate) mod shuttle;
#[cfg(not(checked))]
mod simulation;
#[cfg(not(checked))]
mod stress;
#[cfg(checked)]
pub(crate) mod system;

use crate::core::driver::{Fired, Sink};
use crate::core::error::Error;
use crate::core::memory::{Memory, Pages};
use crate::core::wheel::{Caller, Config, Token, Wheel};
use crate::sync::Ordering;
use std::alloc::Layout;

/// Memory whose bounds the checking tools know.
#[derive(Clone, Copy)]
pub(crate) struct Heap;

impl Memory for Heap {
    fn map(&self, bytes: usize, _: Pages) -> *mut u8 {
        // SAFETY: never of size zero.
        unsafe { std::alloc::alloc_zeroed(Layout::from_size_align(bytes, 256).unwrap()) }
    }
    unsafe fn unmap(&self, at: *mut u8, bytes: usize) {
        // SAFETY: as mapped.
        unsafe { std::alloc::dealloc(at, Layout::from_size_align(bytes, 256).unwrap()) }
    }
}

/// A shape with a tick of 1 ns: nanoseconds are ticks.
fn config(levels: u32, slot_bits: u32, start_ns: u64) -> Config {
    Config {
        levels,
        slot_bits,
        limit: u32::MAX,
        tick_ns: 1,
        start_ns,
        salt: 0x1234_5678,
        id: 1,
        pooled: false,
    }
}

/// Functions of a wheel that only tests call.
impl<M: Memory> Wheel<M> {
    /// As [`Wheel::make`], by value.
    pub fn new(memory: M, config: Config) -> Result<Self, Error> {
        let mut place = std::mem::MaybeUninit::zeroed();
        // SAFETY: zeroed, and made before it is used.
        unsafe {
            Self::make(place.as_mut_ptr(), memory, config)?;
            Ok(place.assume_init())
        }
    }

    /// Whether an advance would find nothing to do.
    pub fn nothing_due(&self, now_ns: u64) -> bool {
        self.drive().is_ok_and(|drive| {
            let nothing = drive.nothing_due(now_ns);
            drive.leave();
            nothing
        })
    }

    /// Advances as a host does: true if all is done.
    #[cfg(checked)]
    pub fn advance(&self, now_ns: u64, sink: impl Sink) -> Result<bool, Error> {
        let mut drive = self.drive()?;
        if drive.nothing_due(now_ns) {
            drive.leave();
            return Ok(true);
        }
        Ok(drive.advance(now_ns, sink))
    }

    /// Whether the driver goes through all nodes, for lack of memory.
    pub fn is_in_rescue(&self) -> bool {
        self.shared.rescue.load(Ordering::Relaxed) != 0
    }

    /// Requests for a clean-up since the last one finished.
    pub fn requests_to_clean(&self) -> u32 {
        self.shared.clean.load(Ordering::Relaxed)
    }
}

/// A sink of events.
struct Collect<F>(F);

impl<F: FnMut(&Fired) -> bool> Sink for Collect<F> {
    fn fire(&mut self, fired: &Fired) -> bool {
        self.0(fired)
    }
    fn wake(&self) {}
}

/// How late a timer may be, in ticks, by its distance when it was armed.
#[cfg(not(checked))]
fn may_be_late(delay: u64) -> u64 {
    if delay < 1 << 36 {
        0
    } else {
        delay / 100_000_000
    }
}

/// A caller that owns a shard and has no driver to wake.
struct Own(Token);

impl Caller for Own {
    fn token(&self) -> Result<Token, Error> {
        Ok(self.0)
    }
    fn token_at_hand(&self) -> Option<Token> {
        Some(self.0)
    }
    fn wake_driver(&self) -> bool {
        // At most in a clean-up: the driver is awake.
        true
    }
}

/// A caller that owns a shard, and how it wakes the driver.
struct Waking<F>(Token, F);

impl<F: Fn()> Caller for Waking<F> {
    fn token(&self) -> Result<Token, Error> {
        Ok(self.0)
    }
    fn token_at_hand(&self) -> Option<Token> {
        Some(self.0)
    }
    fn wake_driver(&self) -> bool {
        self.1();
        true
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
