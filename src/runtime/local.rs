//! Which shard the calling thread owns in which wheel.
//!
//! The last wheel that the thread used is found with one comparison ([`at_hand`]),
//! the others in a [`table`]. This calls no allocator. A shard that loses its place
//! in the table goes back to its wheel, for the next thread that needs one there.
//! When the thread ends, all its shards go back.
//!
//! No wheel id is used twice, so a destroyed wheel cannot be confused with a new
//! one at the same address. A shard goes back only to a wheel that is still in the
//! register of living wheels.

mod at_hand;
mod table;

use crate::core::error::Error;
use crate::core::wheel::Token;
use crate::runtime::callbacks::Frame;
use crate::runtime::register::{lock, REGISTER};
use crate::runtime::Host;
use crate::sys::counter::Counter;
use crate::sys::end;
use std::cell::Cell;
use table::{Held, NONE};

/// Enters a wheel into the register. False without keys.
pub(crate) fn enter(host: &Host) -> bool {
    let is_prepared = end::prepare(thread_ends);
    if is_prepared {
        // SAFETY: mapped until after `leave`.
        unsafe { lock(host.register).wheels.add(host) };
    }
    is_prepared
}

/// Takes a wheel out of the register, before it goes.
pub(crate) fn leave(host: &Host) {
    lock(host.register).wheels.remove(host);
}

/// The calling thread's shard in `host`.
#[inline]
pub(crate) fn token(host: &Host) -> Result<Token, Error> {
    last(host).map_or_else(|| look_up(host), Ok)
}

/// The same, if this was the last wheel that the thread has used.
#[inline(always)]
pub(crate) fn last(host: &Host) -> Option<Token> {
    let last = at_hand::last();
    (last.id == host.wheel.gate.id()).then_some(last.token)
}

fn set_last(held: Held) {
    at_hand::with(|mine| mine.last.set(held));
}

/// The time of a coarse clock.
#[inline(always)]
pub(crate) fn coarse_now(counter: &Counter) -> u64 {
    at_hand::with(|mine| counter.now(&mine.base))
}

/// The calling thread's innermost frame, for `callbacks`.
#[inline(always)]
pub(super) fn inside<R>(f: impl FnOnce(&Cell<*const Frame>) -> R) -> R {
    at_hand::with(|mine| f(&mine.inside))
}

#[cold]
fn look_up(host: &Host) -> Result<Token, Error> {
    if !host.is_ours() {
        // A child takes no shard of its parent's wheel: it may have destroyed other wheels of
        // the list that it would go through.
        return Err(Error::Shutdown);
    }
    if let Some(held) = table::find(host.id) {
        set_last(held);
        return Ok(held.token);
    }
    if !end::call_at_end() {
        return Err(Error::Memory);
    }
    let token = host.wheel.attach()?;
    let held = Held { id: host.id, token };
    // Last: the place that is given up may be that of the last wheel.
    table::hold(held, host.register).inspect_err(|_| host.wheel.detach(token))?;
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
mod tests {
    use super::*;
    use crate::api::Wheel;
    use crate::sync::Ordering;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    fn owned(wheel: &Wheel) -> usize {
        let mut n = 0;
        wheel.host().wheel.find_shard(|shard| {
            n += usize::from(shard.owned.load(Ordering::Relaxed) != 0);
            false
        });
        n
    }

    /// As if the thread that holds the lock were stopped.
    #[test]
    fn an_arm_waits_for_no_lock() {
        // Three pages.
        const MANY: usize = 600;
        let wheels: Vec<_> = (0..table::PLACES + MANY)
            .map(|_| Wheel::new().unwrap())
            .collect();
        let one_more = Wheel::new().unwrap();
        let (wheels, one_more) = (&wheels, &one_more);
        let usual = owned(one_more);
        let arm = |wheel: &Wheel| wheel.once(Duration::from_secs(3600), 0).unwrap();
        let (all_armed, wait_for_arms) = channel();
        let (unlocked, wait_for_lock) = channel();
        thread::scope(|s| {
            let locked = lock(REGISTER.get().unwrap());
            let arms = s.spawn(move || {
                for _ in 0..2 {
                    wheels.iter().for_each(|w| _ = arm(w));
                    assert_eq!(table::beyond(), MANY);
                }
                all_armed.send(()).unwrap();
                wait_for_lock.recv().unwrap();
                arm(one_more);
                assert_eq!(table::beyond(), 0);
                // One was given up for that, and all beyond; none else.
                let kept = wheels.iter().filter(|w| owned(w) > usual).count();
                assert_eq!(kept, table::PLACES - 1);
                wheels.iter().for_each(|w| _ = arm(w));
            });
            wait_for_arms.recv().unwrap();
            drop(locked);
            unlocked.send(()).unwrap();
            // Not before the end of the thread, as the scope may be.
            arms.join().unwrap();
        });
        assert!(wheels.iter().all(|w| owned(w) == usual));
        assert_eq!(owned(one_more), usual);
    }
}
