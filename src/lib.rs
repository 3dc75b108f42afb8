//! hwheel: a lock-free timing wheel.
//!
//! ```
//! use hwheel::{Event, Wheel};
//! use std::time::Duration;
//!
//! let wheel = Wheel::new()?;
//! wheel.once(Duration::from_millis(50), 1)?;
//! let second = wheel.once(Duration::from_millis(50), 2)?;
//! wheel.delete(second)?; // Request 2 was answered in time.
//!
//! let mut events = [Event::default(); 64];
//! while wheel.next_expiry()?.is_some() {
//!     wheel.wait(None)?;
//!     for event in wheel.poll(&mut events)? {
//!         println!("request {} timed out", event.cookie);
//!     }
//! }
//! # Ok::<(), hwheel::Error>(())
//! ```
//!
//! The caller of [`Wheel::poll`] drives this wheel. [`Wheel::start`] starts a thread that
//! calls a closure instead, an event loop can watch [`Wheel::fd`], and
//! [`Wheel::advance`] takes the time from the caller.
//!
//! # Theory of operation
//!
//! The truth about a timer is one 64-bit word, its *state*. A thread changes the
//! state by compare-exchange. The buckets of the wheel do not hold timers. They
//! hold *entries*: promises that the driver visits a timer at a tick. An entry may
//! be stale, duplicate or early, and nothing breaks: the driver reads the state and
//! decides. The rest follows from this:
//!
//! - A cancel is one compare-exchange. Nothing is unlinked.
//! - A move to a later deadline is one compare-exchange. The earlier promise still
//!   holds. When the driver meets it, the driver makes a new one.
//! - A node that is freed keeps its promise. The next timer in that node may
//!   rely on it.
//! - A cascade moves entries. It reads no timer.
//! - Each thread pushes into its own buckets, its *shard*, by plain stores.
//! - A thread that is stopped between any two instructions holds up no other
//!   thread: a promise becomes visible only when it is true.
//!
//! A timer has three records in three arrays: 16 hot bytes (state and link),
//! which every call reads; 16 fire bytes (function and cookie), which the
//! setup writes and the driver reads; 32 rare bytes, for a period or a key. The
//! *link* names the tick of the latest promise.
//!
//! Every arm compares its deadline with one word, the *gate*. It holds the hand,
//! and says whether the wheel is drained, is leaping, or belongs to the parent of
//! this process.
//!
//! One thread at a time drives. Its *sweep* announces a goal in the gate. Then
//! the hand goes from marked slot to marked slot, in order, and never through
//! empty ones. An entry of a later tick goes nearer to the hand. An entry of this
//! tick is a *visit*, which fires the timer if its state says that it is due.
//!
//! The wheels are those of Varghese and Lauck (*Hashed and Hierarchical Timing
//! Wheels*, 1987): the hashed wheel with one level, the hierarchical wheel with
//! more (schemes 6 and 7). One core serves both. No wheel counts rounds: a timer
//! beyond the last level goes to overflow levels above it.
//!
//! # Levels, by default: four of 256 slots, a tick of 1 ms
//!
//! | level  | slots | a slot spans | holds deadlines up to   |
//! |--------|-------|--------------|-------------------------|
//! | 0      | 256   | 1 ms         | 256 ms                  |
//! | 1      | 256   | 256 ms       | 65.5 s                  |
//! | 2      | 256   | 65.5 s       | 4.66 h                  |
//! | 3      | 256   | 4.66 h       | 49.7 days               |
//! | 4      | 64    | 49.7 days    | 8.7 years               |
//! | 5 to 9 | 64    | 64 times the slot below | the last tick of 64 bits |
//!
//! The caller chooses the levels 0 to 3; those above are the overflow levels. A
//! tick belongs to the level of the highest bit in which it differs from the
//! hand. An entry keeps its own tick on every level, so no level loses
//! granularity.
//!
//! A timer fires at the first tick at or after its deadline. If that is 2^36 ticks from the
//! hand or more, the timer is late by at most 1e-8 of that distance.
//!
//! # Invariants
//!
//! - Promise: a timer that is armed for tick D has an entry that the driver meets
//!   at or before D; or a thread is inside an arm of it and will make one
//!   (`core/arm.rs`).
//! - Never lost, never twice: the exchange that takes ARMED away decides who has
//!   the timer: a cancel, a visit or a drain.
//! - Never early: a deadline is rounded up to a tick, the clock down to one.
//! - Ticks in order: the hand goes from promised tick to promised tick.
//! - A move is atomic: old and new deadline are never both in the state.
//! - A stale handle acts on nothing: 18 bits of the generation are in the state
//!   and 12 in the link, and a node ends after 2^30 lives.
//! - A failure changes nothing: an arm pushes before its exchange.
//! - The driver never sleeps past a deadline (`core/driver/sleep.rs`).
//!
//! # Progress
//!
//! - **Wait-free**: pending, remaining, now. A few loads; `remaining` repeats them if the
//!   hand has leapt meanwhile.
//! - **Lock-free**: setup, arm, cancel, free, list without keys. Each is a loop on
//!   one timer's word. It repeats only if another thread has changed that word, or
//!   if the hand has leapt meanwhile.
//! - **One at a time**: advance, poll, drain and the tick thread take the right
//!   to drive by a try-lock. A second thread is refused and does not wait.
//!   The next expiry does not need the right to drive.
//! - **Blocking**: calls by key, while another thread works in the same part of the
//!   table; so do list, and calls that fire or drain a timer with a key. `_sync` calls,
//!   stop and destroy, while a callback runs; stop also while another thread drives.
// Under the model checkers there are tests and nothing else.
#![cfg(any(test, not(checked)))]
#![warn(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
// The C layer uses all of it. It is a feature, and not built for the model checkers.
#![cfg_attr(any(checked, not(feature = "capi")), allow(dead_code))]

#[macro_use]
mod probes;

#[cfg(not(checked))]
mod api;
#[cfg(all(feature = "capi", not(checked)))]
mod capi;
mod core;
mod runtime;
mod sync;
mod sys;

#[cfg(test)]
mod tests;

#[cfg(not(checked))]
pub use api::{
    delay_queue::{DelayKey, DelayQueue, Expired},
    error::Error,
    event::{Event, Timer},
    futures::{Interval, Sleep, Timeout},
    options::Options,
    period::{Missed, Period},
    run::Run,
    time::{Time, When},
    Wheel,
};
#[cfg(not(checked))]
pub use {
    runtime::{drive::Bounds, pool::Overload, stats::Stats},
    sys::clock::Clock,
};

#[cfg(doctest)]
#[doc = include_str!("../bindings/rust/README.md")]
struct Readme;
