//! The shards that the calling thread owns, by wheel.
//!
//! The last wheel that the thread used is found with one comparison ([`at_hand`]),
//! the others in a [`table`]. This calls no allocator. A shard that loses its place
//! in the table goes back to its wheel, for the next thread that needs a shard
//! there. When the thread ends, all its shards go back.
//!
//! No wheel id is used twice, so a destroyed wheel cannot be confused with a new
//! one at the same address. A shard goes back only to a wheel that is still in the
//! register of living wheels.

mod table;

use super::at_hand::{self, Held, NONE};
use super::list::Node;
use super::register::{lock, Living, Register, REGISTER};
use crate::core::error::Error;
use crate::core::wheel::{Token, Wheel};
use crate::sync::Mutex;
use crate::sys::end;
use crate::sys::maps::Mmap;

/// Enters a wheel into the register. False without keys.
pub(super) fn enter(living: &Node<Living>, register: &Mutex<Register>) -> bool {
    let is_prepared = end::prepare(thread_ends);
    if is_prepared {
        // SAFETY: mapped until after `leave`.
        unsafe { lock(register).wheels.add(living) };
    }
    is_prepared
}

/// Takes a wheel out of the register, before it goes.
pub(super) fn leave(living: &Node<Living>, register: &Mutex<Register>) {
    lock(register).wheels.remove(living);
}

/// The calling thread's shard in `wheel`.
#[inline]
pub(super) fn token(wheel: &Wheel<Mmap>, register: &Mutex<Register>) -> Result<Token, Error> {
    last(wheel).map_or_else(|| look_up(wheel, register), Ok)
}

/// The same, if this was the last wheel that the thread has used.
#[inline(always)]
pub(super) fn last(wheel: &Wheel<Mmap>) -> Option<Token> {
    let last = at_hand::last();
    (last.id == wheel.gate.id()).then_some(last.token)
}

fn set_last(held: Held) {
    at_hand::with(|mine| mine.last.set(held));
}

#[cold]
fn look_up(wheel: &Wheel<Mmap>, register: &Mutex<Register>) -> Result<Token, Error> {
    let id = wheel.gate.id();
    if id == 0 {
        // A child takes no shard of its parent's wheel: it may have destroyed other wheels of
        // the list that it would go through.
        return Err(Error::Shutdown);
    }
    if let Some(held) = table::find(id) {
        set_last(held);
        return Ok(held.token);
    }
    if !end::call_at_end() {
        return Err(Error::Memory);
    }
    let token = wheel.attach()?;
    let held = Held { id, token };
    // Last: the place that is given up may be that of the last wheel.
    table::hold(held, register).inspect_err(|_| wheel.detach(token))?;
    set_last(held);
    Ok(token)
}

/// A thread ends.
extern "C" fn thread_ends(_: *mut libc::c_void) {
    set_last(NONE);
    if let Some(register) = REGISTER.get() {
        table::end(register);
    }
}

#[cfg(all(test, not(checked)))]
#[path = "../tests/local.rs"]
mod tests;
