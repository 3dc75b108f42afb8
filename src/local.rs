//! Which shard the calling thread owns in which wheel.
//!
//! The last wheel used is found with one comparison ([`at_hand`]), sixteen more in
//! a small table. No allocator is called, ever: a seventeenth wheel takes the place of
//! another, whose shard goes back to its wheel and is found again by the next
//! thread that needs one. When a thread ends, its shards go back.
//!
//! Wheel ids are never used twice, so a destroyed wheel cannot be taken for a
//! new one at the same address; a shard is given back only to a wheel that is
//! still in the [`register`] of living wheels. That is locked for moments, but a
//! thread may be stopped in one of them, and an arm does not wait for it: then the
//! wheel gets a place in a page that is mapped for such, until the next time that
//! the lock is free. So there are no more pages than it takes for the wheels that the
//! thread meets while another one is stopped.

mod at_hand;
mod register;

use crate::host::Host;
use crate::memory::Memory;
use crate::os::counter::Counter;
use crate::os::fork::Process;
use crate::os::mmap::Mmap;
use crate::wheel::{Error, Token};
use register::Wheels;
use std::cell::Cell;
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

const PAGE: usize = 4096;

/// More places. Zeros are free ones.
struct Page {
    next: *const Page,
    held: [Cell<Held>; PAGE / size_of::<Held>() - 1],
}

const _: () = assert!(size_of::<Page>() <= PAGE);

struct Table {
    held: [Cell<Held>; PLACES],
    /// The place that is given up next.
    next: Cell<usize>,
    pages: Cell<*const Page>,
}

thread_local! {
    // No destructor here: registering one calls the allocator. The key does it.
    static TABLE: Table = const {
        Table {
            held: [const { Cell::new(NONE) }; PLACES],
            next: Cell::new(0),
            pages: Cell::new(std::ptr::null()),
        }
    };
}

impl Table {
    /// The places in pages.
    fn paged(&self) -> impl Iterator<Item = &Cell<Held>> {
        let mut at = self.pages.get();
        std::iter::from_fn(move || {
            // SAFETY: mapped by `map`, and unmapped by this thread, which does not
            // use an iterator meanwhile.
            let page = unsafe { at.as_ref() }?;
            at = page.next;
            Some(page)
        })
        .flat_map(|page| &page.held)
    }

    /// A free place.
    fn place(&self, mark: u64) -> Result<&Cell<Held>, Error> {
        if let Some(free) = self.held.iter().find(|place| place.get().id == 0) {
            return Ok(free);
        }
        if let Some(mut wheels) = Wheels::try_lock(mark) {
            let n = self.next.get();
            self.next.set((n + 1) % PLACES);
            give_back(&mut wheels, &self.held[n]);
            self.unmap(&mut wheels);
            return Ok(&self.held[n]);
        }
        self.paged()
            .find(|place| place.get().id == 0)
            .or_else(|| self.map())
            .ok_or(Error::Memory)
    }

    /// The first place of a new page.
    fn map(&self) -> Option<&Cell<Held>> {
        let page = Mmap.map(PAGE).cast::<Page>();
        // SAFETY: null, or mapped for it, and zeros are a page.
        unsafe { page.as_mut() }?.next = self.pages.replace(page);
        self.paged().next()
    }

    /// Gives back what is in pages, and these.
    fn unmap(&self, wheels: &mut Wheels) {
        self.paged().for_each(|place| give_back(wheels, place));
        let mut at = self.pages.replace(std::ptr::null());
        // SAFETY: mapped by `map`; nobody else has seen it, and nobody will.
        while let Some(next) = unsafe { at.as_ref() }.map(|page| page.next) {
            // SAFETY: as above.
            unsafe { Mmap.unmap(at.cast_mut().cast(), PAGE) };
            at = next;
        }
    }
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
    make_key() && Wheels::lock(host.process().mark()).add(host)
}

/// Takes a wheel out of the register, before it goes.
pub(crate) fn leave(host: &Host) {
    Wheels::lock(host.process().mark()).remove(host);
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
        let mut places = table.held.iter().chain(table.paged());
        if let Some(place) = places.find(|place| place.get().id == host.id()) {
            set_last(place.get());
            return Ok(place.get().token);
        }
        find(table, host)
    })
}

fn find(table: &Table, host: &Host) -> Result<Token, Error> {
    if let Some(key) = key() {
        // SAFETY: our own key. Any value but null makes the destructor run.
        if unsafe { libc::pthread_setspecific(key, std::ptr::dangling::<u8>().cast()) } != 0 {
            return Err(Error::Memory);
        }
    }
    let token = host.wheel().attach()?;
    let held = Held {
        id: host.id(),
        token,
    };
    // Last: what is given up for it may be what was used last.
    table
        .place(host.process().mark())
        .inspect_err(|_| host.wheel().detach(token))?
        .set(held);
    set_last(held);
    Ok(token)
}

/// Frees a place.
fn give_back(wheels: &mut Wheels, place: &Cell<Held>) {
    let held = place.replace(NONE);
    if held.id != 0 {
        if let Some(host) = wheels.find(held.id) {
            host.wheel().detach(held.token);
        }
    }
}

extern "C" fn thread_ends(_: *mut libc::c_void) {
    TABLE.with(|table| {
        set_last(NONE);
        if let Some(process) = Process::current() {
            let mut wheels = Wheels::lock(process.mark());
            for place in &table.held {
                give_back(&mut wheels, place);
            }
            table.unmap(&mut wheels);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Wheel;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    fn paged() -> usize {
        TABLE.with(|table| table.paged().filter(|place| place.get().id != 0).count())
    }

    fn owned(wheel: &Wheel) -> usize {
        let mut n = 0;
        wheel.host().wheel().find_shard(|shard| {
            n += usize::from(shard.owned.load(Ordering::Relaxed) != 0);
            false
        });
        n
    }

    /// As if the thread that holds the lock were stopped.
    #[test]
    fn an_arm_waits_for_no_lock() {
        const MANY: usize = 2 * PAGE / size_of::<Held>();
        let wheels: Vec<_> = (0..PLACES + MANY).map(|_| Wheel::new().unwrap()).collect();
        let one_more = Wheel::new().unwrap();
        let (wheels, one_more) = (&wheels, &one_more);
        let usual = owned(one_more);
        let arm = |wheel: &Wheel| wheel.after(Duration::from_secs(3600), 0).unwrap();
        let (all_armed, wait_for_arms) = channel();
        let (unlocked, wait_for_lock) = channel();
        thread::scope(|s| {
            let locked = Wheels::lock(Process::current().unwrap().mark());
            let arms = s.spawn(move || {
                for _ in 0..2 {
                    wheels.iter().for_each(|w| _ = arm(w));
                    assert_eq!(paged(), MANY);
                }
                all_armed.send(()).unwrap();
                wait_for_lock.recv().unwrap();
                arm(one_more);
                assert_eq!(paged(), 0);
                // One was given up for that, and all in pages; none else.
                let kept = wheels.iter().filter(|w| owned(w) > usual).count();
                assert_eq!(kept, PLACES - 1);
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
