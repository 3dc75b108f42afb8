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
//! A timer is a 64-byte node in a slab that never moves. Its whole truth is one
//! 64-bit state word, changed by compare-exchange alone. The buckets of the
//! wheel do not hold timers; they hold seven-byte *entries*, each a promise that
//! the driver will look at a node at a tick. A promise may be stale, doubled or
//! early, and nothing breaks: the driver looks, decides, and moves on. From that
//! one relaxation the rest follows:
//!
//! - to cancel is one compare-exchange; nothing is unlinked;
//! - to move a deadline later is one compare-exchange; the earlier promise is
//!   still a good one;
//! - a node that is freed keeps its promise, and its next user inherits it;
//! - a cascade streams entries and touches no node;
//! - each thread pushes into buckets of its own, with plain stores.
//!
//! The wheels are those of Varghese and Lauck (*Hashed and Hierarchical Timing
//! Wheels*, 1987): with one level the hashed wheel with rounds (scheme 6), with
//! more the hierarchical wheel (scheme 7). One core serves both.
//!
//! # Levels, by default: four of 256 slots, a tick of 1 ms
//!
//! | level | a slot spans  | holds deadlines up to | a turn takes |
//! |-------|---------------|-----------------------|--------------|
//! | 0     | 1 ms          | 256 ms                | 256 ms       |
//! | 1     | 256 ms        | 65.5 s                | 65.5 s       |
//! | 2     | 65.5 s        | 4.66 h                | 4.66 h       |
//! | 3     | 4.66 h        | 49.7 days, and rounds | 49.7 days    |
//!
//! A timer fires at the first tick at or after its deadline, whatever its level:
//! granularity is lost on no level, because an entry keeps its tick and is
//! placed again, nearer, when its slot is entered. There is no greatest delay:
//! the top level counts rounds, and an entry further away than 2^27 ticks is a
//! promise to look again, at most 2^24 ticks before its time.
//!
//! # Invariants
//!
//! - *Promise*: ARMED(D) implies a live entry that will be met at a tick <= D,
//!   or a thread that is about to push one (module `wheel`).
//! - None lost, none twice: the exchange that takes ARMED away decides who has
//!   the timer: a cancel, a visit, a drain.
//! - None early: a deadline is rounded up to a tick, the clock down to one.
//! - Ticks in order: the hand goes from promised tick to promised tick.
//! - Re-arming is atomic: old and new deadline are never both in the word.
//! - A stale handle acts on nothing: the generation is in the handle, beside the
//!   word, and its low bits in the word.
//! - Failure changes nothing: memory is reserved before the word is exchanged.
//!
//! # Where to find what
//!
//! | file       | what                                                        |
//! |------------|-------------------------------------------------------------|
//! | `state`    | the state word: bits, flags, transitions                    |
//! | `slab`     | nodes, generations, free lists                              |
//! | `bucket`   | entries and the queue that holds them                       |
//! | `shard`    | one thread's levels, slots and occupancy bitmap             |
//! | `geometry` | levels and slots as arithmetic                              |
//! | `scale`    | nanoseconds and ticks                                       |
//! | `wheel`    | arm, cancel, free: the threads' half, and the races drawn   |
//! | `sweep`    | the driver's half: visits, cascades, periods, drain         |
//! | `memory`   | the one interface through which the core takes memory       |
//! | `count`    | statistics                                                  |
//! | `probes`   | static probes for tracers, which expand to nothing          |
//! | `sync`     | atomics, and the one place that knows the model checkers    |
//! | `host`     | a wheel on a clock: the three ways to drive                 |
//! | `keys`     | timers by name: the table from keys to handles              |
//! | `list`     | a walk over the pending timers                              |
//! | `local`    | which shard the calling thread owns                         |
//! | `os/*`     | clock, alarm (timerfd), thread, futex, fork, memory maps    |
//! | `options`  | the options of a wheel: defaults and ranges                 |
//! | `time`     | which numbers are times                                     |
//! | `words`    | errors in words                                             |
//! | `stats`    | the counts of a wheel, taken together                       |
//! | `capi/*`   | the C functions; their documentation is the header's        |
//! | `api`      | the same for Rust: [`Wheel`]                                |
//!
//! # Progress
//!
//! Setup, arm, cancel, free and pending are lock-free: a thread stopped anywhere
//! holds up nobody else. Each is a loop on one node's word, and goes round again
//! only if another thread has changed that word, or if the hand has passed a
//! bucket while it was pushed into. Pending and remaining are wait-free. One
//! thread drives at a time, by a try-lock that nobody waits for. The functions
//! that end in `_sync`, stop and destroy block, while a callback runs. Calls by
//! key block while another thread works in the same part of the table.
#![warn(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
// The C layer uses all of it. It is a feature, and not built for the model checkers.
#![cfg_attr(any(checked, not(feature = "capi")), allow(dead_code))]

#[macro_use]
mod probes;

#[cfg(not(checked))]
mod api;
mod bucket;
#[cfg(all(feature = "capi", not(checked)))]
mod capi;
mod count;
mod geometry;
#[cfg(not(checked))]
mod host;
mod keys;
#[cfg(all(feature = "capi", not(checked)))]
mod layout;
mod list;
#[cfg(not(checked))]
mod local;
mod memory;
#[cfg(not(checked))]
mod options;
#[cfg(not(loom))]
mod os;
#[cfg(not(loom))]
mod pool;
mod ring;
mod scale;
mod shard;
mod slab;
mod state;
#[cfg(not(checked))]
mod stats;
mod sweep;
mod sync;
#[cfg(not(checked))]
mod time;
mod wheel;
#[cfg(not(checked))]
mod words;

#[cfg(test)]
mod tests;

#[cfg(not(checked))]
pub use api::{
    error::Error,
    event::{Event, Timer},
    options::{Clock, Missed, Options, Overload},
    period::Period,
    run::{Bounds, Run},
    time::{Time, When},
    Wheel,
};
#[cfg(not(checked))]
pub use stats::Stats;

#[cfg(doctest)]
#[doc = include_str!("../bindings/rust/README.md")]
struct Readme;
