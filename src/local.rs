//! Which shard the calling thread owns in which wheel.
//!
//! The last wheel used is found with one comparison ([`at_hand`]), sixteen more in
//! a small table. No allocator is called, ever: a seventeenth wheel takes the place of
//! another, whose shard goes back to its wheel and is found again by the next
//! thread that needs one. When a thread ends, its shards go back.
//!
//! Wheel ids are never used twice, so a destroyed wheel cannot be taken for a
//! new one at the same address; a shard is given back only to a wheel that is
//! still in the register of living wheels.

mod at_hand;

use crate::host::Host;
use crate::os::counter::Counter;
use crate::os::fork::Process;
use crate::wheel::{Error, Token};
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU64, Ordering};

const PLACES: usize = 16;

#[derive(Clone, Copy)]
struct Held {
    /// 0: free.
    id: u64,
    token: Token,
}

const NONE: Held = Held {
    id: 0,
    token: Token(std::ptr::null_mut()),
};

struct Table {
    held: [Cell<Held>; PLACES],
    next: Cell<usize>,
}

thread_local! {
    // No destructor here: registering one calls the allocator. The key does it.
    static TABLE: Table = const {
        Table {
            held: [const { Cell::new(NONE) }; PLACES],
            next: Cell::new(0),
        }
    };
}

/// The living wheels of one process, by id.
struct Register {
    mark: u64,
    wheels: Vec<(u64, *const Host)>,
}

/// A lock that belongs to a process: a child which was forked while a thread
/// of its parent held it finds it free and the register empty.
struct Locked {
    /// The mark of the process whose thread holds it, or 0.
    holder: AtomicU64,
    register: UnsafeCell<Register>,
}
// SAFETY: the register is used by the holder alone.
unsafe impl Sync for Locked {}

static REGISTER: Locked = Locked {
    holder: AtomicU64::new(0),
    register: UnsafeCell::new(Register {
        mark: 0,
        wheels: Vec::new(),
    }),
};

/// Runs `f` on the register of the calling process. Short and rare: wheels
/// made and destroyed, threads that end.
fn with_register<R>(mark: u64, f: impl FnOnce(&mut Vec<(u64, *const Host)>) -> R) -> R {
    let mut seen = 0;
    // Acquire: pairs with the Release below.
    while let Err(holder) =
        REGISTER
            .holder
            .compare_exchange(seen, mark, Ordering::Acquire, Ordering::Relaxed)
    {
        // Another process's mark is a copy of its lock: take it.
        seen = if holder == mark { 0 } else { holder };
        // SAFETY: no arguments.
        unsafe { libc::sched_yield() };
    }
    // SAFETY: this thread holds the lock.
    let register = unsafe { &mut *REGISTER.register.get() };
    if register.mark != mark {
        // A copy of the parent's, perhaps in the middle of a change.
        std::mem::forget(std::mem::take(&mut register.wheels));
        register.mark = mark;
    }
    let result = f(&mut register.wheels);
    REGISTER.holder.store(0, Ordering::Release);
    result
}

/// 1 + the key whose destructor gives a thread's shards back; 0 before it is made.
static KEY: AtomicU64 = AtomicU64::new(0);

fn key() -> Option<libc::pthread_key_t> {
    // Relaxed: the number is all there is to it.
    let made = KEY.load(Ordering::Relaxed).checked_sub(1)?;
    libc::pthread_key_t::try_from(made).ok()
}

/// Makes the key if there is none. False if the system has none left; asked
/// again next time.
fn make_key() -> bool {
    let mut fresh = 0;
    // SAFETY: a valid pointer and a function that lives as long as the library,
    // which is never unloaded.
    if key().is_none() && unsafe { libc::pthread_key_create(&mut fresh, Some(thread_ends)) } == 0 {
        // Relaxed: as above.
        let exchanged = KEY.compare_exchange(
            0,
            u64::from(fresh) + 1,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if exchanged.is_err() {
            // SAFETY: made above, and known to nobody.
            unsafe { libc::pthread_key_delete(fresh) };
        }
    }
    key().is_some()
}

/// Enters a wheel into the register. False without memory or keys.
pub(crate) fn enter(host: &Host) -> bool {
    make_key()
        && with_register(host.process().mark(), |wheels| {
            wheels.try_reserve(1).is_ok() && {
                wheels.push((host.id(), host));
                true
            }
        })
}

/// Takes a wheel out of the register, before it goes.
pub(crate) fn leave(host: &Host) {
    with_register(host.process().mark(), |wheels| {
        wheels.retain(|(id, _)| *id != host.id());
    });
}

/// The calling thread's shard in `host`.
#[inline]
pub(crate) fn token(host: &Host) -> Result<Token, Error> {
    last(host).map_or_else(|| look_up(host), Ok)
}

/// The same, if this was the last wheel that the thread has used.
#[inline(always)]
pub(crate) fn last(host: &Host) -> Option<Token> {
    let last = at_hand::with(|mine| mine.last.get());
    (last.id == host.id()).then_some(last.token)
}

fn set_last(held: Held) {
    at_hand::with(|mine| mine.last.set(held));
}

/// The time of a coarse clock.
#[inline(always)]
pub(crate) fn coarse_now(counter: &Counter) -> u64 {
    at_hand::with(|mine| counter.now(&mine.base))
}

#[cold]
fn look_up(host: &Host) -> Result<Token, Error> {
    TABLE.with(|table| {
        if let Some(cell) = table.held.iter().find(|c| c.get().id == host.id()) {
            set_last(cell.get());
            return Ok(cell.get().token);
        }
        find(table, host)
    })
}

fn find(table: &Table, host: &Host) -> Result<Token, Error> {
    if let Some(key) = key() {
        // SAFETY: our own key. Any value but null makes the destructor run.
        unsafe { libc::pthread_setspecific(key, std::ptr::dangling::<u8>().cast()) };
    }
    let token = host.wheel().attach()?;
    let held = Held {
        id: host.id(),
        token,
    };
    let place = table
        .held
        .iter()
        .position(|c| c.get().id == 0)
        .unwrap_or_else(|| {
            let n = table.next.get();
            table.next.set((n + 1) % PLACES);
            n
        });
    give_back(table.held[place].replace(held));
    set_last(held);
    Ok(token)
}

fn give_back(held: Held) {
    if held.id == 0 {
        return;
    }
    let Some(process) = Process::current() else {
        return;
    };
    with_register(process.mark(), |wheels| {
        if let Some((_, host)) = wheels.iter().find(|(id, _)| *id == held.id) {
            // SAFETY: registered in this process, and the lock keeps it alive.
            unsafe { &**host }.wheel().detach(held.token);
        }
    });
}

extern "C" fn thread_ends(_: *mut libc::c_void) {
    TABLE.with(|table| {
        set_last(NONE);
        for cell in &table.held {
            give_back(cell.replace(NONE));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in a child that was forked while a thread of its parent held it.
    #[test]
    fn a_lock_that_another_process_holds_is_taken() {
        let mark = Process::current().unwrap().mark();
        let of_parent = u64::MAX;
        let held = || {
            REGISTER
                .holder
                .compare_exchange(0, of_parent, Ordering::Relaxed, Ordering::Relaxed)
        };
        while held().is_err() {
            std::thread::yield_now();
        }
        let holder = with_register(mark, |_| REGISTER.holder.load(Ordering::Relaxed));
        assert_eq!(holder, mark);
    }
}
