//! hwheel: a lock-free timing wheel.
//!
#![cfg_attr(feature = "std", doc = "```")]
#![cfg_attr(not(feature = "std"), doc = "```ignore")]
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
//! [`Wheel::advance`] takes the time from the caller. The crate hwheel-async has futures, a delay
//! queue and virtual time on a wheel.
//!
//! # Why it is built this way
//!
//! Most timers are timeouts, and most timeouts never fire: the answer comes in time, the connection
//! speaks again. So a program arms, moves and cancels far more often than a timer fires, from all
//! of its threads, and mostly it moves a timer to a later time.
//!
//! - Lists of timers under a lock make each of these calls wait for every other one.
//! - A message to one thread for each call is as cheap as a queue. But a timer that is cancelled
//!   and armed for each request sends two messages for each request, and the queue grows while
//!   the thread sleeps.
//! - Lists that threads change without a lock need a way to reclaim memory, such as
//!   read-copy-update, and an unlink for each cancel.
//!
//! # Theory of operation
//!
//! The truth about a timer is one 64-bit word, its *state*. A thread changes it by
//! compare-exchange. If the driver has no entry that is early enough, the thread that arms the
//! timer leaves a *note* in its own *inbox*. One thread at a time drives: it takes the notes out
//! of the inboxes, and keeps *buckets*, lists that no other thread reads, with at most one
//! *entry* of each timer. The timer's second word, the *link*, says why the driver will look at
//! the timer in time: a note that it has not taken yet, or an entry.
//!
//! The rest follows from this:
//!
//! - A cancel is one compare-exchange. The entry stays. A later arm of the timer may rely on it.
//! - A move to a later time is one compare-exchange. The entry is early enough. When the driver
//!   comes to it, the driver reads the state, and places the entry again.
//! - A move to an earlier time is a note. Until the driver takes that note, further moves of the
//!   timer rely on it.
//! - A freed timer leaves its entry behind. The next timer in that memory may rely on it.
//! - Memory is bounded. The entry of a timer is one of its records. So the driver never needs
//!   memory. A timer that was armed since the driver looked at it has at most one note, and more
//!   only if several threads arm it at the same moment.
//! - A thread that is stopped between any two instructions stops no other thread: the link names a
//!   note only when the driver is sure to find it.
//!
//! From Netty comes the hand-over: a queue of new timeouts, and one worker that owns the buckets.
//! From Kafka's purgatory comes the jump over empty buckets. Here no lock guards the truth about a
//! timer, and a cancel takes constant time.
//!
//! A timer is a *node*: four records in four arrays. They are 16 hot bytes (state and link), which
//! every call reads; 16 bytes of the entry, the driver's alone; 16 bytes to fire (function and
//! cookie), which the setup writes and the driver reads; 32 rare bytes, for a period or a key.
//!
//! A bucket is eight doubly linked lists, its *lanes*. A sweep walks them side by side. So it
//! waits for the memory of eight timers at once, and needs no array of entries for that.
//!
//! Every arm compares its deadline with one word, the *gate*. It holds the *hand*, a tick.
//! The gate also says whether the wheel is drained, or belongs to the parent of this process.
//! A driver announces a *goal* in the gate: for arms the hand is there from now on. Then it takes
//! the notes, and moves its own hand to the goal, from one slot that is not empty to the next. An
//! entry on a higher level goes nearer to the hand. An entry on the lowest level is a *visit*,
//! which fires the timer if its state says that it is due.
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
//! - Reason: a timer that is armed for tick D has a reason that counts until the driver looks at
//!   it at or before D; or a thread is inside an arm of it and will see to one (`core/arm.rs`).
//! - One entry: a tick in a link that the hand has not reached is the tick of the timer's one
//!   entry (`core/driver/look.rs`).
//! - Never lost, never twice: the exchange that takes ARMED away decides who has
//!   the timer: a cancel, a visit or a drain.
//! - Never early: a deadline is rounded up to a tick, the clock down to one.
//! - Ticks in order: the hand goes from slot to slot, and starts only when all notes are taken that
//!   were there when the goal was announced.
//! - A move is atomic: old and new deadline are never both in the state.
//! - A stale handle is an error: 18 bits of the generation are in the state
//!   and 10 in the link, and a node ends after 2^28 lives.
//! - A failure changes nothing: an arm reserves its note before its exchange, and the driver needs
//!   no memory.
//! - The driver never sleeps past a deadline (`core/alarm.rs`, `core/driver/sleep.rs`).
//!
//! # Progress
//!
//! - **Wait-free**: pending, remaining, now, the next expiry. A few loads; `remaining` repeats
//!   them if the hand has moved 2^35 ticks meanwhile.
//! - **Lock-free**: setup, arm, cancel, free, list without keys. Each is a loop on
//!   one timer's words. It repeats only if another thread has changed them, or if the driver has
//!   come to the timer.
//! - **One at a time**: advance, poll, drain and the tick thread take the right
//!   to drive by a try-lock. A second thread is refused and does not wait.
//! - **Blocking**: calls by key, while another thread works in the same part of the
//!   table; so do list, and calls that fire or drain a timer with a key. `_sync` calls,
//!   stop and destroy, while a callback runs; stop also while another thread drives.
//!
//! # Glossary
//!
//! | term | meaning | file |
//! |------|---------|------|
//! | alarm | the tick until which the driver sleeps | core/alarm.rs |
//! | armed | pending: the timer has a deadline | core/state.rs |
//! | block | the memory of 131,072 nodes | core/slab.rs |
//! | bucket | the entries of a slot, in eight lists | core/buckets.rs |
//! | caller | the calling thread, as the core needs it | core/wheel.rs |
//! | cascade | to place the entries of a higher level again | core/driver/mod.rs |
//! | chunk | 256 bytes of notes | core/inbox.rs |
//! | claim | the exchange by which a visit fires a timer | core/driver/visit.rs |
//! | collect | to take all notes | core/driver/look.rs |
//! | dirty | an inbox that may have notes | core/inbox.rs |
//! | drain | to hand back all pending timers, and end the wheel | core/driver/mod.rs |
//! | driver | the thread that has the right to drive | core/driver/mod.rs |
//! | entry | the tick of a visit, and the place of a node in a list | core/record.rs |
//! | gate | the word with the hand that arms compare with | core/gate.rs |
//! | generation | the number of a node's life | core/state.rs |
//! | goal | the tick that a sweep goes to | core/driver/mod.rs |
//! | hand | the last goal that was announced; the driver's own hand follows it | core/gate.rs |
//! | head, tail | the places behind the last note that was taken, and written | core/inbox.rs |
//! | identity | a thread's number, and how many were given out before | runtime/numbers.rs |
//! | inbox | the notes of a thread for a wheel | core/inbox.rs |
//! | kick | to wake the driver before its alarm | core/alarm.rs |
//! | lane | one of the lists of a bucket | core/buckets.rs |
//! | level | slots of one length | core/buckets.rs |
//! | life | from setup to free | core/life.rs |
//! | link | a timer's reason for a visit | core/record.rs |
//! | look | to make sure of a timer's entry | core/driver/look.rs |
//! | mark | the bit of a bucket that may have entries | core/buckets.rs |
//! | message | a new timer that another thread sends the owner | core/owner.rs |
//! | moot | an arm that needs no visit: the driver need not come to the timer | core/arm.rs |
//! | next visit | the tick before which the driver has nothing to do | core/alarm.rs |
//! | node | the records of a timer | core/record.rs |
//! | note | the index of a node, in an inbox | core/inbox.rs |
//! | number | that of a thread, as long as it uses timers | runtime/numbers.rs |
//! | overdue | due before its note was taken | core/buckets.rs |
//! | owner | the one thread that arms timers of an owned wheel | core/owner.rs |
//! | place | of a note in an inbox; to place an entry is to put it into a bucket | core/record.rs |
//! | plain | of a timer: only LIVE, or LIVE and ARMED, of the flags | core/state.rs |
//! | reason | why the driver looks at a timer in time | core/record.rs |
//! | resting | not armed | core/state.rs |
//! | run | nodes that a thread takes at once | core/slab.rs |
//! | settle | to drop the next entries if their timers rest | core/driver/sleep.rs |
//! | sink | the receiver of timers that fire | core/driver/visit.rs |
//! | slot | the ticks of a bucket | core/buckets.rs |
//! | spare | a chunk in reserve; a kick that is not needed | core/inbox.rs, core/alarm.rs |
//! | state | the word with the truth about a timer | core/state.rs |
//! | step | an access with a name in a drawing; `STEP`: the most ticks of a move | core/state.rs |
//! | sweep | a move of the hand to a goal | core/driver/mod.rs |
//! | tick | the unit of the wheel's time | core/ticks.rs |
//! | visit | to look at a timer whose entry is due | core/driver/visit.rs |
// The C library is built without the standard library; tests are not.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
// Under the model checkers there are tests and nothing else.
#![cfg(any(test, not(checked)))]
#![warn(unsafe_op_in_unsafe_fn, clippy::undocumented_unsafe_blocks)]
// The C layer uses all of it. It is a feature, and not built for the model checkers.
#![cfg_attr(any(checked, not(feature = "capi")), allow(dead_code))]

extern crate alloc;

#[macro_use]
mod probes;

#[cfg(all(alone, not(feature = "std")))]
mod alone;
#[cfg(all(feature = "std", not(checked)))]
mod api;
#[cfg(all(feature = "capi", not(checked)))]
mod capi;
mod core;
mod runtime;
mod sync;
mod sys;

#[cfg(test)]
mod tests;

#[cfg(all(feature = "std", not(checked)))]
pub use api::{
    error::Error,
    event::{Event, Run, Timer},
    options::Options,
    owned::{DisownedWheel, OwnedWheel, Sender},
    period::{Missed, Period},
    prompt::Prompt,
    time::{Time, When},
    wake::Wake,
    Wheel,
};
#[cfg(all(feature = "std", not(checked)))]
pub use {
    runtime::{drive::Bounds, options::Overload, stats::Stats},
    sys::clock::Clock,
};
