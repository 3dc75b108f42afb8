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
//! be stale, doubled or early, and nothing breaks: the driver reads the state and
//! decides. The rest follows from this:
//!
//! - A cancel is one compare-exchange. Nothing is unlinked.
//! - A move to a later deadline is one compare-exchange. The earlier promise is
//!   still good. When the driver meets it, the driver makes a new one.
//! - A node that is freed keeps its promise. The next timer in that node may
//!   rely on it.
//! - A cascade moves entries. It reads no timer.
//! - Each thread pushes into buckets of its own, its *shard*, by plain stores.
//! - A thread that is stopped between any two instructions holds up no other
//!   thread: a promise can be seen only when all that it says is true.
//!
//! A timer has three records in three arrays: 16 hot bytes (state and link),
//! which every call reads; 16 fire bytes (function and cookie), which the
//! setup writes and the driver reads; 32 rare bytes, for a period or a key. The
//! *link* names the tick of the latest promise.
//!
//! Every arm compares its deadline with one word, the *gate*. It holds the hand,
//! and says whether the wheel is drained, leaps, or belongs to the parent of
//! this process.
//!
//! One thread at a time drives. Its *sweep* announces a goal in the gate. Then
//! the hand goes from marked slot to marked slot, in order, and never through
//! empty ones. An entry of a later tick goes nearer to the hand. An entry of this
//! tick is a *visit*, which fires the timer if its state says that it is due.
//!
//! The wheels are those of Varghese and Lauck (*Hashed and Hierarchical Timing
//! Wheels*, 1987): with one level the hashed wheel, with more the hierarchical
//! wheel (schemes 6 and 7). One core serves both. No wheel counts rounds: a timer
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
//! A timer fires at the first tick at or after its deadline. Deadlines that are
//! 1.5 * 2^36 ticks from the hand or more are rounded up, by at most 5e-9 of that
//! distance. The hand of a driven wheel is at most 2^35 ticks behind the clock. So a
//! timer less than 2^36 ticks away is exact, and one further away is late by at most
//! 1e-8 of its delay.
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
//! # Where to find what
//!
//! This is the only map of the files. The path is below `src`.
//!
//! The core knows no operating system. It is generic over memory, and the model
//! checkers run it as it is.
//!
//! | file                     | what                                          |
//! |--------------------------|-----------------------------------------------|
//! | `core/mod.rs`            | the parts of the core                         |
//! | `core/state.rs`          | the state word and the handle: bits, transitions |
//! | `core/node.rs`           | the three records of a timer; the link        |
//! | `core/place.rs`          | making a large struct where it is to lie      |
//! | `core/slab.rs`           | where the records lie; free lists             |
//! | `core/gate.rs`           | the word that every arm compares with         |
//! | `core/kick.rs`          | waking a driver that sleeps, once             |
//! | `core/ticks.rs`          | nanoseconds to ticks and back                 |
//! | `core/levels.rs`         | levels and slots as arithmetic                |
//! | `core/entry.rs`          | an entry: which node, which tick              |
//! | `core/queue.rs`          | the queue of a bucket, from one thread to the driver |
//! | `core/shard.rs`          | one thread's queues, free nodes and counts    |
//! | `core/buckets.rs`        | which buckets have entries, in which shards   |
//! | `core/wheel.rs`          | the words that all threads share; getting a shard |
//! | `core/arm.rs`            | arming: the promise, and races 1 to 4         |
//! | `core/arm/near.rs`       | the short way to arm                          |
//! | `core/cancel.rs`         | cancelling; waiting for a callback, race 5    |
//! | `core/life.rs`           | setup, free, generations, the walk over timers |
//! | `core/error.rs`          | why a call is refused                         |
//! | `core/stats.rs`          | counts without a contended cache line         |
//! | `core/memory.rs`         | the interface through which the core takes memory |
//! | `core/tunables.rs`       | sizes, which the model checkers shrink        |
//! | `core/driver/mod.rs`     | the right to drive; one sweep                 |
//! | `core/driver/scan.rs`    | the next marked slot; emptying a bucket       |
//! | `core/driver/visit.rs`   | one timer: fire it or keep its promise; periods; race 6 |
//! | `core/driver/leap.rs`    | long steps over an empty wheel                |
//! | `core/driver/sleep.rs`   | when to wake; race 3                          |
//! | `core/driver/query.rs`   | the next expiry, for a thread that does not drive |
//! | `core/driver/clean.rs`   | dead entries                                  |
//! | `core/driver/rescue.rs`  | promises that found no memory                 |
//! | `core/driver/drain.rs`   | the end of a wheel                            |
//!
//! The runtime puts a wheel on a clock.
//!
//! | file                     | what                                          |
//! |--------------------------|-----------------------------------------------|
//! | `runtime/mod.rs`         | the parts of the runtime; errors as numbers and in words |
//! | `runtime/host.rs`        | a wheel and its surroundings: make, identify, give up |
//! | `runtime/options.rs`     | options: defaults and ranges                  |
//! | `runtime/time.rs`        | which numbers are times                       |
//! | `runtime/timers.rs`      | the calls on timers and keys: check, convert, call |
//! | `runtime/drive.rs`       | advance, poll, drain, the alarm, the next expiry |
//! | `runtime/thread.rs`      | the tick thread and the workers: start, stop  |
//! | `runtime/callbacks.rs`   | running a callback; whether a thread is in one |
//! | `runtime/waits.rs`       | refusing callbacks that wait for each other   |
//! | `runtime/register.rs`    | the wheels of a process; threads that wait    |
//! | `runtime/pool.rs`        | callbacks in workers or an executor           |
//! | `runtime/ring.rs`        | the queue from the driver to them             |
//! | `runtime/keys.rs`        | timers by key: the table from keys to handles |
//! | `runtime/keys/name.rs`   | the bytes of a key                            |
//! | `runtime/local.rs`       | which shard the calling thread owns           |
//! | `runtime/local/at_hand.rs` | the library's thread-local memory           |
//! | `runtime/local/table.rs` | the shards of a thread, by wheel              |
//! | `runtime/stats.rs`       | the counts of a wheel                         |
//! | `sys/mod.rs`             | the operating system, as the library needs it |
//! | `sys/clock.rs`           | clocks in nanoseconds                         |
//! | `sys/counter.rs`         | the coarse clock: the processor's counter     |
//! | `sys/alarm.rs`           | the timerfd; waiting for a descriptor         |
//! | `sys/thread.rs`          | a thread that takes no signals                |
//! | `sys/end.rs`             | a call at the end of a thread                 |
//! | `sys/event.rs`           | sleeping until a condition holds              |
//! | `sys/futex.rs`           | sleeping until a word changes                 |
//! | `sys/fork.rs`            | memory that is clear in a forked child        |
//! | `sys/maps.rs`            | memory from the operating system              |
//!
//! The interfaces, and the files that all parts use.
//!
//! | file                     | what                                          |
//! |--------------------------|-----------------------------------------------|
//! | `capi/mod.rs`            | the C functions: check, call, map the error   |
//! | `capi/options.rs`        | C: making and destroying a wheel              |
//! | `capi/timer.rs`          | C: timers to arm again and again, one or many |
//! | `capi/once.rs`           | C: timers that one call makes and arms        |
//! | `capi/key.rs`            | C: timers by key                              |
//! | `capi/drive.rs`          | C: driving, events, the end                   |
//! | `capi/stats.rs`          | C: the wheel's time, timers and counts        |
//! | `capi/hwheel.h.in`       | C: the order of the header                    |
//! | `api.rs`                 | the same for Rust: [`Wheel`]                  |
//! | `api/options.rs`         | Rust: how a wheel is made                     |
//! | `api/time.rs`            | Rust: times on a wheel's clock                |
//! | `api/event.rs`           | Rust: timers, and events in a batch           |
//! | `api/futures.rs`         | Rust: futures: sleep, timeout, interval       |
//! | `api/handler.rs`         | Rust: the closure, and a panic in it          |
//! | `api/keyed.rs`           | Rust: timers by key                           |
//! | `api/period.rs`          | Rust: how a periodic timer repeats            |
//! | `api/run.rs`             | Rust: bounds of a call that drives, and its result |
//! | `api/error.rs`           | Rust: errors as an enum                       |
//! | `lib.rs`                 | this page                                     |
//! | `layout.rs`              | offsets and sizes of the C structs            |
//! | `probes.rs`              | static probes for tracers, off by default     |
//! | `sync.rs`                | atomics and fences; the one place that knows the model checkers |
//! | `tests/*`                | oracle, simulation, model checkers, stress    |
//!
//! # Progress
//!
//! - **Wait-free**: pending, remaining, now. A few loads, and no loop.
//! - **Lock-free**: setup, arm, cancel, free, list without keys. Each is a loop
//!   on one timer's word. It goes round again only if another thread has changed
//!   that word, or if the hand has leapt meanwhile.
//! - **One at a time**: advance, poll, drain and the tick thread take the right
//!   to drive by a try-lock. A second thread is refused and does not wait.
//!   The next expiry does not need the right to drive.
//! - **Blocking**: calls by key, while another thread works in the same part of
//!   the table; and `_sync` calls, stop and destroy, while a callback runs.
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
#[cfg(all(feature = "capi", not(checked)))]
mod layout;
#[cfg(not(loom))]
mod runtime;
// Of the runtime, the parts that know no system.
#[cfg(loom)]
mod runtime {
    pub(crate) mod keys;
    pub(crate) mod ring;
}
mod sync;
#[cfg(not(loom))]
mod sys;

#[cfg(test)]
mod tests;

#[cfg(not(checked))]
pub use api::{
    error::Error,
    event::{Event, Timer},
    futures::{Interval, Sleep, Timeout},
    options::Options,
    period::{Missed, Period},
    run::{Bounds, Run},
    time::{Time, When},
    Wheel,
};
#[cfg(not(checked))]
pub use runtime::{pool::Overload, stats::Stats};
#[cfg(not(checked))]
pub use sys::clock::Clock;

#[cfg(doctest)]
#[doc = include_str!("../bindings/rust/README.md")]
struct Readme;
