//! Timers by key: the caller names a timer by bytes, not by a handle.
//!
//! A table has the handle of each key and the caller's cookie. It has 64 parts, each
//! with a lock. A thread holds the lock for one look-up and one change. No callback runs
//! under it. No thread waits for the driver under it, because the driver may wait for
//! the lock. The table does not say whether the timer is pending. The state word does,
//! and the thread that takes ARMED away has the timer.
//!
//! # An entry goes with its timer
//!
//! - Set, move and delete act on the timer of a key under the lock of its part.
//!   The thread that ends a pending timer there also removes its entry.
//! - After the driver has fired or drained a timer, it takes the lock and removes
//!   the entry by its *handle*. For this the node keeps the hash of the key. Then
//!   the callback runs, and may set the same key again.
//!
//! ```text
//!   set(k)                               driver
//!                                        visit.claim  state of t: fired (RMW)
//!   lock; k is t; move t: not pending
//!   t loses its key; k is u; unlock
//!                                        lock; fetch t, by handle; unlock
//!                                        t's callback, with t's cookie
//! ```
//! Before visit.claim the move of t succeeds instead: k keeps its timer, with
//! another deadline and another cookie. The driver waits for the lock and then sees
//! both. Either way each set ends once: it is fired, deleted, replaced or drained.
//!
//! # Why this table
//!
//! Setting a key changes the table and a timer together, so a lock covers both, whatever
//! the map is. dashmap, hashbrown in parts behind locks, has the same design. But like scc
//! it aborts without memory, where a C library returns -ENOMEM. papaya and flurry are made
//! for many reads and few changes; here each call is a change.
//!
//! # Linearization and progress
//!
//! At the exchange of the state word, under the lock. A call blocks while another
//! thread works in the same part: for one look-up and one change, or until a part that
//! grows or shrinks has moved. The wheel below stays lock-free.

use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::life::Spec;
use crate::core::state::Handle;
use crate::core::ticks::{AUTO, KEYED};
use crate::core::wheel::{Caller, Wheel};
use crate::core::Error;
use crate::sync::{inner, lock, try_lock, Mutex, MutexGuard};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::RangeInclusive;
use core::ptr::null_mut;
// Not those of the model checkers: the first key of a wheel orders nothing else.
use core::sync::atomic::{AtomicPtr, Ordering};
use hashbrown::hash_table::{HashTable, OccupiedEntry};
use siphasher::sip::SipHasher13;

const PARTS: usize = if cfg!(checked) { 1 } else { 64 };
/// A table of at most this number of buckets does not shrink.
const KEPT: usize = 16;
/// The number of bytes of a key.
pub(crate) const LENGTHS: RangeInclusive<usize> = 1..=255;

/// With the tag and the length as large as the other variant, aligned.
const SHORT: usize = 30;

/// The bytes of a key, as the table keeps them: short ones in place, so that a number or a short
/// name costs no allocation, and no cache miss to compare.
enum Name {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Vec<u8>),
}

impl Name {
    /// No key has it: keys are not empty.
    const NONE: Name = Name::Short {
        len: 0,
        bytes: [0; SHORT],
    };

    /// A copy of a key; none without memory.
    fn of(key: &[u8]) -> Option<Name> {
        if key.len() <= SHORT {
            let mut bytes = [0; SHORT];
            bytes[..key.len()].copy_from_slice(key);
            let len = key.len() as u8;
            return Some(Name::Short { len, bytes });
        }
        let mut copy = Vec::new();
        copy.try_reserve_exact(key.len()).ok()?;
        copy.extend_from_slice(key);
        Some(Name::Long(copy))
    }

    fn is(&self, key: &[u8]) -> bool {
        match self {
            Name::Short { len, bytes } => &bytes[..usize::from(*len)] == key,
            Name::Long(bytes) => bytes == key,
        }
    }
}

/// The timer of a key.
struct Entry {
    hash: u64,
    handle: Handle,
    func: usize,
    cookie: u64,
    /// `Name::NONE` once the timer has fired and the key has another timer.
    name: Name,
}

type Table = HashTable<Entry>;

#[repr(align(64))]
struct Part(Mutex<Table>);

type Parts = [Part; PARTS];

/// The keys of a wheel and their timers.
pub(crate) struct Keys {
    hasher: SipHasher13,
    /// Null, or from a `Box`: made when the first key is set, and dropped with the keys.
    parts: AtomicPtr<Parts>,
}

impl Keys {
    /// An empty table. The seed makes it hard to choose keys that collide.
    pub fn new(seed: u64) -> Self {
        Keys {
            hasher: SipHasher13::new_with_keys(seed, !seed),
            parts: AtomicPtr::new(null_mut()),
        }
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key)
    }

    fn parts(&self) -> Option<&Parts> {
        // Acquire: pairs with the Release in `make_parts`.
        // SAFETY: null, or made and not dropped before `self`.
        unsafe { self.parts.load(Ordering::Acquire).as_ref() }
    }

    fn make_parts(&self) -> Result<(), Error> {
        let mut parts = Vec::new();
        let room = parts.try_reserve_exact(PARTS);
        room.map_err(|_| Error::Memory)?;
        parts.resize_with(PARTS, || Part(Mutex::new(Table::new())));
        let fresh = Box::into_raw(parts.into_boxed_slice()).cast();
        // Release: the fresh parts; pairs with the Acquire in `parts`. Relaxed otherwise:
        // `parts` reads it again.
        let (done, refused) = (Ordering::Release, Ordering::Relaxed);
        let exchanged = self
            .parts
            .compare_exchange(null_mut(), fresh, done, refused);
        if exchanged.is_err() {
            // Those of another thread are first.
            // SAFETY: from a box of PARTS parts, above, and known to nobody.
            drop(unsafe { Box::from_raw(fresh) });
        }
        Ok(())
    }

    /// Locks the part of a hash; `None` if there is no key yet.
    fn lock(&self, hash: u64) -> Option<MutexGuard<'_, Table>> {
        // Not by the bits that the table goes by.
        let part = &self.parts()?[(hash >> 40) as usize & (PARTS - 1)];
        Some(lock(&part.0))
    }

    /// Locks the part of a hash, also for the first key.
    fn lock_to_set(&self, hash: u64) -> Result<MutexGuard<'_, Table>, Error> {
        if self.parts().is_none() {
            self.make_parts()?;
        }
        self.lock(hash).ok_or(Error::Memory)
    }

    /// Gives `key` a timer: true if it replaces a pending one. If that has the
    /// same function it is moved, which needs no memory.
    pub fn set(
        &self,
        wheel: &Wheel,
        caller: &impl Caller,
        key: &[u8],
        func: usize,
        cookie: u64,
        ns: u64,
    ) -> Result<bool, Error> {
        let hash = self.hash(key);
        let mut table = self.lock_to_set(hash)?;
        if let Some(old) = table.find_mut(hash, |e| e.name.is(key)) {
            if old.func == func && move_if_pending(wheel, caller, old.handle, ns)? {
                old.cookie = cookie;
                return Ok(true);
            }
        }
        // Reserve before committing. The new timer exists before the old one
        // goes. If it fires at once, the driver waits for this lock.
        table
            .try_reserve(1, |e| e.hash)
            .map_err(|_| Error::Memory)?;
        let name = Name::of(key).ok_or(Error::Memory)?;
        let spec = Spec {
            func,
            cookie: hash,
            kind: AUTO | KEYED,
            ..Spec::default()
        };
        let handle = wheel.setup(caller, spec, Some(ns))?;
        let mut replaced = false;
        if let Ok(mut old) = table.find_entry(hash, |e| e.name.is(key)) {
            replaced = wheel.cancel(caller, old.get().handle, false) == Ok(true);
            if replaced {
                old.remove();
            } else {
                // It has fired: the driver will fetch it.
                old.get_mut().name = Name::NONE;
            }
        }
        let entry = Entry {
            hash,
            handle,
            func,
            cookie,
            name,
        };
        table.insert_unique(hash, entry, |e| e.hash);
        Ok(replaced)
    }

    /// The result of `act`, under the lock of the part, on the entry with this hash for
    /// which `is` holds; `None` if there is no such entry.
    fn with_entry<R>(
        &self,
        hash: u64,
        is: impl Fn(&Entry) -> bool,
        act: impl FnOnce(OccupiedEntry<'_, Entry>) -> R,
    ) -> Option<R> {
        let mut table = self.lock(hash)?;
        table.find_entry(hash, is).ok().map(act)
    }

    /// The result of `act`, under the lock of the part, on the entry of `key`, if there is
    /// one.
    fn named<R>(&self, key: &[u8], act: impl FnOnce(OccupiedEntry<'_, Entry>) -> R) -> Option<R> {
        self.with_entry(self.hash(key), |e| e.name.is(key), act)
    }

    /// Moves the pending timer of `key`; false if there is none.
    pub fn shift(
        &self,
        wheel: &Wheel,
        caller: &impl Caller,
        key: &[u8],
        ns: u64,
    ) -> Result<bool, Error> {
        self.named(key, |e| move_if_pending(wheel, caller, e.get().handle, ns))
            .unwrap_or(Ok(false))
    }

    /// Ends the pending timer of `key`; false if there is none.
    pub fn cancel(&self, wheel: &Wheel, caller: &impl Caller, key: &[u8]) -> bool {
        self.named(key, |entry| {
            // If not, it has fired, and the driver will fetch the entry.
            let deleted = wheel.cancel(caller, entry.get().handle, false) == Ok(true);
            if deleted {
                remove_entry(entry);
            }
            deleted
        })
        .unwrap_or(false)
    }

    pub fn pending(&self, wheel: &Wheel, key: &[u8]) -> bool {
        self.named(key, |e| wheel.is_pending(e.get().handle)) == Some(Ok(true))
    }

    #[cfg(checked)]
    pub fn is_empty(&self) -> bool {
        let empty = |p: &Part| lock(&p.0).is_empty();
        self.parts().is_none_or(|parts| parts.iter().all(empty))
    }

    /// A timer as the caller knows it: without its handle, and with the caller's
    /// cookie in place of the hash.
    pub fn peek(&self, pending: &Fired) -> Option<Fired> {
        self.known(pending, |entry| entry.get().cookie)
    }

    /// A timer that was fired or drained, as the caller knows it. Its entry goes.
    pub fn release(&self, fired: &Fired) -> Option<Fired> {
        self.known(fired, remove_entry)
    }

    fn known(
        &self,
        timer: &Fired,
        cookie: impl FnOnce(OccupiedEntry<'_, Entry>) -> u64,
    ) -> Option<Fired> {
        let cookie = self.with_entry(timer.cookie, |e| e.handle == timer.handle, cookie)?;
        Some(Fired {
            handle: 0,
            cookie,
            ..*timer
        })
    }
}

/// Moves a timer if it is pending; one that has fired may be gone.
fn move_if_pending(
    wheel: &Wheel,
    caller: &impl Caller,
    timer: Handle,
    ns: u64,
) -> Result<bool, Error> {
    match wheel.arm(caller, timer, ns, How::Pending) {
        Err(Error::Stale) => Ok(false),
        other => other,
    }
}

/// Removes an entry, and returns its cookie.
fn remove_entry(entry: OccupiedEntry<'_, Entry>) -> u64 {
    let (entry, vacant) = entry.remove();
    shrink(vacant.into_table());
    entry.cookie
}

/// Moves a table whose buckets are mostly empty to a smaller one.
///
/// Then less than half of the buckets are full, and more than a fifth. So the next move comes
/// after a number of changes in proportion to its cost. Without memory the table stays as it
/// is.
fn shrink(table: &mut Table) {
    let (len, buckets) = (table.len(), table.num_buckets());
    if buckets <= KEPT || len > buckets / 8 {
        return;
    }
    let mut smaller = Table::new();
    if smaller.try_reserve(2 * len, |e| e.hash).is_ok() {
        for entry in table.drain() {
            smaller.insert_unique(entry.hash, entry, |e| e.hash);
        }
        *table = smaller;
    }
}

impl Drop for Keys {
    /// A child may have been forked in the middle of a change: a table stays as it
    /// is if the holder of its lock does not exist in the child.
    fn drop(&mut self) {
        let parts = *self.parts.get_mut();
        if parts.is_null() {
            return;
        }
        // SAFETY: from a box, in `make_parts`, and dropped once.
        let mut parts = unsafe { Box::from_raw(parts) };
        for Part(part) in parts.iter_mut() {
            if try_lock(part).is_none() {
                core::mem::forget(core::mem::take(inner(part)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_length_are_what_they_are_a_copy_of() {
        assert_eq!(size_of::<Name>(), 32);
        let bytes: Vec<u8> = (0..=255).collect();
        for len in 1..256 {
            let name = Name::of(&bytes[..len]).unwrap();
            assert!(name.is(&bytes[..len]));
            assert!(!name.is(&bytes[..len - 1]) && !name.is(&bytes[..len + 1]));
            assert!(!name.is(&bytes[1..=len]) && !Name::NONE.is(&bytes[..len]));
            assert_eq!(matches!(name, Name::Short { .. }), len <= SHORT);
        }
    }
}
