//! The shards that a thread holds, by wheel. The table is in a page of its own,
//! because a library that is loaded late gets little thread-local memory.
//!
//! A thread keeps sixteen shards. A seventeenth wheel takes the place of another
//! one, whose shard goes back. That needs the lock of the register. An arm does not
//! wait for the lock, because the thread that holds it may be stopped. If the lock is
//! taken, the wheel gets an extra place, in another page if need be. The extra places
//! go as soon as the lock is free.

use crate::core::error::Error;
use crate::core::memory::{Memory, Pages};
use crate::runtime::at_hand::{self, Held};
use crate::runtime::list::{List, Node};
use crate::runtime::register::{lock, Living, Register};
use crate::sync::Mutex;
use crate::sys::maps::Mmap;
use std::cell::Cell;

pub(super) const PLACES: usize = 16;
const BYTES: usize = 4096;
const ALL: usize = BYTES / size_of::<Held>() - 1;

/// All zero is an empty page.
pub(super) struct Page {
    next: Cell<*const Page>,
    /// The number of places that are taken: the first ones.
    used: Cell<u32>,
    /// In the first page: the next place to give up.
    turn: Cell<u32>,
    held: [Cell<Held>; ALL],
}

const _: () = assert!(size_of::<Page>() == BYTES);

impl Page {
    /// Lives until this thread unmaps it.
    fn map() -> Option<&'static Page> {
        // SAFETY: null, or mapped for it, and zeros are a page.
        unsafe { Mmap.map(BYTES, Pages::Small).cast::<Page>().as_ref() }
    }

    fn unmap(&'static self) {
        let at = std::ptr::from_ref(self).cast_mut().cast();
        // SAFETY: mapped by `map`, for this thread, whose callers use it no more.
        unsafe { Mmap.unmap(at, BYTES) };
    }

    fn places(&self) -> &[Cell<Held>] {
        &self.held[..self.used.get() as usize]
    }

    /// One more place, if fewer than `limit` are taken.
    fn take(&self, limit: usize) -> Option<&Cell<Held>> {
        let n = self.places().len();
        (n < limit).then(|| {
            self.used.set(n as u32 + 1);
            &self.held[n]
        })
    }

    fn next(&self) -> Option<&'static Page> {
        // SAFETY: null, or what `map` has returned.
        unsafe { self.next.get().as_ref() }
    }

    /// Gives back all but the first `keep` places, and the further pages.
    fn cut(&self, keep: usize, wheels: &List<Living>) {
        for place in self.places().iter().skip(keep) {
            give_back(place.get(), wheels);
        }
        self.used.set(self.used.get().min(keep as u32));
        while let Some(page) = self.next() {
            self.next.set(page.next.get());
            for place in page.places() {
                give_back(place.get(), wheels);
            }
            page.unmap();
        }
    }
}

fn give_back(held: Held, wheels: &List<Living>) {
    // SAFETY: a wheel in the list is mapped.
    let wheel = |living: &Node<Living>| unsafe { &*living.value };
    if let Some(living) = wheels.find(|living| wheel(living).gate.id() == held.id) {
        wheel(living).detach(held.token);
    }
}

fn first() -> Option<&'static Page> {
    let first = at_hand::with(|mine| mine.table.get());
    // SAFETY: null, or what `map` has returned.
    unsafe { first.cast::<Page>().as_ref() }
}

fn pages() -> impl Iterator<Item = &'static Page> {
    std::iter::successors(first(), |page| page.next())
}

/// The calling thread's place for a wheel.
pub(super) fn find(id: u64) -> Option<Held> {
    let mut places = pages().flat_map(Page::places).map(Cell::get);
    places.find(|held| held.id == id)
}

/// Holds one more.
pub(super) fn hold(held: Held, register: &Mutex<Register>) -> Result<(), Error> {
    place(register).ok_or(Error::Memory)?.set(held);
    Ok(())
}

fn place(register: &Mutex<Register>) -> Option<&'static Cell<Held>> {
    let first = match first() {
        Some(page) => page,
        None => {
            let page = Page::map()?;
            at_hand::with(|mine| mine.table.set(std::ptr::from_ref(page).cast()));
            page
        }
    };
    if let Some(place) = first.take(PLACES) {
        return Some(place);
    }
    if let Ok(all) = register.try_lock() {
        let turn = first.turn.get();
        first.turn.set((turn + 1) % PLACES as u32);
        let place = &first.held[turn as usize];
        give_back(place.get(), &all.wheels);
        first.cut(PLACES, &all.wheels);
        return Some(place);
    }
    pages().find_map(|page| page.take(ALL)).or_else(|| {
        let page = Page::map()?;
        page.next.set(first.next.replace(page));
        page.take(ALL)
    })
}

/// Gives back all shards of the calling thread.
pub(super) fn end(register: &Mutex<Register>) {
    if let Some(first) = first() {
        first.cut(0, &lock(register).wheels);
        at_hand::with(|mine| mine.table.set(std::ptr::null()));
        first.unmap();
    }
}

/// The number of extra places that are taken.
#[cfg(test)]
pub(super) fn beyond() -> usize {
    pages().flat_map(Page::places).skip(PLACES).count()
}
