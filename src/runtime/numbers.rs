//! The numbers of threads. A thread takes one at its first call on a timer, and gives it back
//! at its end. The number says which inbox of a wheel is the thread's, in every wheel.
//!
//! A number goes to the next thread with all that its thread has left in the inboxes: the
//! bit map hands it over. At the end of a thread, the system calls the end hook in several rounds,
//! with the destructors of the thread's other keys, which may use timers. Each round gives the
//! number back, and a later call takes another one. A call after the last round would keep its
//! number when the thread is gone. So it gets none.
//!
//! An *identity* is a number and how many were given out before. No other thread has it, before or
//! after. A table has the identities that keep their numbers from round to round: of the threads
//! that have come to own a wheel, and of those that have come back behind a round.
//!
//! The hook counts its own calls. If the first call of a thread comes in such a destructor, some
//! rounds have passed, and the hook does not come to the last one. So it is not enough to give the
//! number back there. A thread that asks for the wheel of an owner, or comes back behind a round,
//! also asks the kernel for the threads in the table. It gives the numbers of those back that are
//! gone.
//!
//! A forked child has one thread, which keeps its number. A handler of pthread_atfork() makes
//! the other numbers free, and leaves the table: its threads are those of the parent. In a child
//! that was made without the handler they stay taken.

use super::at_hand;
use crate::core::{number_of, Error, Thread, NUMBER_BITS, THREADS};
use crate::sync::{AtomicU64, Ordering};
use crate::sys::maps::{map, unmap, Pages};
use crate::sys::{end, fork, thread};
// Not those of the model checkers: their wheels change hands without it.
use core::sync::atomic::{AtomicPtr, AtomicU64 as Word};

const BITS: usize = u64::BITS as usize;
const WORDS: usize = (THREADS - 1).div_ceil(BITS);

/// A bit map of the numbers that are taken, from 1 on: the number 0 is no thread.
pub(super) struct Numbers {
    words: [AtomicU64; WORDS],
    /// More than each number that was ever taken.
    end: AtomicU64,
    /// How often one was taken.
    taken: AtomicU64,
}

#[cfg(not(checked))]
fn numbers() -> &'static Numbers {
    static NUMBERS: Numbers = Numbers {
        words: [const { AtomicU64::new(0) }; WORDS],
        end: AtomicU64::new(1),
        taken: AtomicU64::new(0),
    };
    &NUMBERS
}

/// The model checkers' atomics are made anew for each execution.
#[cfg(checked)]
fn numbers() -> &'static Numbers {
    use crate::tests::checker::PerExecution;
    static NUMBERS: PerExecution<Numbers> = PerExecution::new();
    NUMBERS.get()
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers {
            words: core::array::from_fn(|_| AtomicU64::new(0)),
            end: AtomicU64::new(1),
            taken: AtomicU64::new(0),
        }
    }
}

impl Numbers {
    fn take_number(&self) -> Option<Thread> {
        let taken = (0..WORDS).find_map(|word| self.take_of(word))?;
        // Relaxed: a thread that reads counts of this number has seen them otherwise.
        self.end.fetch_max(taken as u64 + 1, Ordering::Relaxed);
        Some(taken as Thread)
    }

    fn take_of(&self, word: usize) -> Option<usize> {
        let bit = |bits: u64| bits.trailing_ones() as usize;
        let number = |bits| 1 + word * BITS + bit(bits);
        let with_one_more = |bits| {
            let is_free = bits != u64::MAX && number(bits) < THREADS;
            is_free.then(|| bits | 1 << bit(bits))
        };
        // Acquire: what the number's last thread has left; pairs with `give_back`.
        self.words[word]
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, with_one_more)
            .ok()
            .map(number)
    }

    fn give_back(&self, number: Thread) {
        let bit = number as usize - 1;
        // Release: what this thread has left; pairs with `take_of`.
        self.words[bit / BITS].fetch_and(!(1 << (bit % BITS)), Ordering::Release);
    }
}

/// In place of an identity: the thread has ended. Its number reads 0. A model checker gives its
/// words to a thread of the next execution.
const ENDED: u64 = if cfg!(checked) { 0 } else { 1 << NUMBER_BITS };

/// In place of an identity: the thread has given its number back in a round before the last one.
const ENDING: u64 = 2 << NUMBER_BITS;

/// The number of the calling thread.
#[inline]
pub(super) fn mine() -> Result<Thread, Error> {
    match at_hand::thread() {
        0 => register(),
        number => Ok(number),
    }
}

#[cold]
fn register() -> Result<Thread, Error> {
    let numbers = numbers();
    let was = at_hand::identity();
    if !cfg!(checked) && was == ENDED {
        return Err(Error::Threads);
    }
    if !end::call_at_end() {
        return Err(Error::Memory);
    }
    if was == ENDING {
        forget_the_gone();
    }
    let number = numbers.take_number().ok_or(Error::Threads)?;
    // Relaxed: only unique. 48 bits do not wrap.
    let before = numbers.taken.fetch_add(1, Ordering::Relaxed);
    let identity = before << NUMBER_BITS | u64::from(number);
    at_hand::with(|mine| mine.identity.set(identity));
    if was == ENDING {
        // The hook may not come again. Then the number is lost if the table lacks memory.
        _ = owner();
    }
    Ok(number)
}

/// More than each number that a thread of the process has had.
pub(super) fn end() -> Thread {
    // Relaxed: see `take_number`.
    numbers().end.load(Ordering::Relaxed) as Thread
}

/// Makes ready for the ends of threads, and for forks. False if the system refuses.
pub(super) fn prepare() -> bool {
    end::prepare(thread_ends) && fork::call_in_child(forked)
}

/// A thread ends: one of the rounds.
extern "C" fn thread_ends(round: *mut libc::c_void) {
    let is_last = !end::call_again(round);
    let identity = at_hand::identity();
    let owner = owner_of(identity);
    if !is_last && owner.is_some() {
        return;
    }
    at_hand::with(|mine| mine.identity.set(if is_last { ENDED } else { ENDING }));
    if let Some(owner) = owner {
        // Release: all that the owner wrote; pairs with `owner_of`.
        owner.identity.store(0, Ordering::Release);
    }
    let number = number_of(identity);
    if number != 0 {
        numbers().give_back(number);
    }
}

/// A thread of the table.
struct Owner {
    /// 0 once the thread has ended.
    identity: Word,
    /// The kernel's number of the thread, written before the identity.
    thread: Word,
}

type Owners = [Owner; THREADS];

/// The table, by number.
static OWNERS: AtomicPtr<Owners> = AtomicPtr::new(core::ptr::null_mut());

fn owners() -> Option<&'static Owners> {
    // Acquire: pairs with `owner`.
    // SAFETY: null, or mapped by `owner` and never unmapped.
    unsafe { OWNERS.load(Ordering::Acquire).as_ref() }
}

/// The identity of the calling thread, which is about to own a wheel.
pub(super) fn owner() -> Result<u64, Error> {
    let number = mine()? as usize;
    if owners().is_none() {
        let fresh = map(size_of::<Owners>(), Pages::Small).cast::<Owners>();
        if fresh.is_null() {
            return Err(Error::Memory);
        }
        let null = core::ptr::null_mut();
        // Release: pairs with `owners`.
        if OWNERS
            .compare_exchange(null, fresh, Ordering::Release, Ordering::Relaxed)
            .is_err()
        {
            // SAFETY: nobody has seen `fresh`.
            unsafe { unmap(fresh.cast(), size_of::<Owners>()) };
        }
    }
    let identity = at_hand::identity();
    let owner = &owners().ok_or(Error::Memory)?[number];
    // Relaxed: published by the identity.
    owner.thread.store(thread::tid(), Ordering::Relaxed);
    // Release: what the thread that had the number before wrote, too; pairs with `owner_of`.
    owner.identity.store(identity, Ordering::Release);
    Ok(identity)
}

/// The thread with this identity, if it stands in the table.
#[inline(never)]
fn owner_of(identity: u64) -> Option<&'static Owner> {
    let owner = owners()?.get(number_of(identity) as usize)?;
    // Acquire: pairs with the end of the thread.
    (owner.identity.load(Ordering::Acquire) == identity).then_some(owner)
}

/// Whether the thread with this identity, which owns a wheel, has ended.
#[inline(never)]
pub(super) fn has_ended(identity: u64) -> bool {
    owner_of(identity).is_none_or(|owner| {
        // Relaxed: behind the identity. A later thread of the number comes only after this one.
        let is_gone = thread::is_gone(owner.thread.load(Ordering::Relaxed));
        // Release: as at the end of the thread. One gives the number back.
        if is_gone
            && owner
                .identity
                .compare_exchange(identity, 0, Ordering::Release, Ordering::Relaxed)
                .is_ok()
        {
            numbers().give_back(number_of(identity));
        }
        is_gone
    })
}

/// Gives the numbers of threads back whose last round the hook has missed.
fn forget_the_gone() {
    let Some(owners) = owners() else { return };
    for owner in owners.iter().take(end() as usize) {
        // Relaxed: `has_ended` looks again.
        let identity = owner.identity.load(Ordering::Relaxed);
        _ = identity == 0 || has_ended(identity);
    }
}

/// This is the only thread of a forked child.
extern "C" fn forked() {
    // Relaxed: no other thread is there.
    OWNERS.store(core::ptr::null_mut(), Ordering::Relaxed);
    let own = (at_hand::thread() as usize).checked_sub(1);
    for (n, word) in numbers().words.iter().enumerate() {
        let bit = own.filter(|own| own / BITS == n);
        // Relaxed: no other thread is there.
        word.store(bit.map_or(0, |own| 1 << (own % BITS)), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_taken_once_and_the_next_one_is_refused() {
        let numbers = Box::new(Numbers::default());
        for n in 1..THREADS as Thread {
            assert_eq!(numbers.take_number(), Some(n));
        }
        assert_eq!(numbers.take_number(), None);
        numbers.give_back(77);
        numbers.give_back(30_000);
        let mut again = [numbers.take_number(), numbers.take_number()];
        again.sort_unstable();
        assert_eq!(again, [Some(77), Some(30_000)]);
        assert_eq!(numbers.take_number(), None);
        assert_eq!(numbers.end.load(Ordering::Relaxed), THREADS as u64);
    }

    #[test]
    fn a_thread_keeps_its_number_until_the_last_round_of_its_end() {
        assert!(prepare());
        let ended = std::thread::spawn(|| {
            let identity = owner().unwrap();
            let rounds = (1..).map(core::ptr::without_provenance_mut::<libc::c_void>);
            for round in rounds.take_while(|round| end::call_again(*round)) {
                thread_ends(round);
                assert_eq!(at_hand::identity(), identity);
                assert!(!has_ended(identity));
            }
            thread_ends(core::ptr::without_provenance_mut(usize::MAX - 1));
            assert_eq!(mine(), Err(Error::Threads));
            assert!(has_ended(identity));
            identity
        });
        let ended = ended.join().unwrap();
        assert!(owner().unwrap() != ended && has_ended(ended));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// Two threads have the same number, one after the other, or two numbers. What a number
    /// stands for is plain memory.
    #[test]
    fn number_hands_over_what_its_last_thread_has_left() {
        #[derive(Default)]
        struct Shared(Numbers, [UnsafeCell<u32>; THREADS]);
        // SAFETY: the checker watches each access.
        unsafe impl Sync for Shared {}
        let call = |shared: &Shared| {
            let number = shared.0.take_number().unwrap();
            // SAFETY: as above.
            shared.1[number as usize].with_mut(|left| unsafe { *left += 1 });
            shared.0.give_back(number);
        };
        loom::model(move || {
            let shared = Arc::new(Shared::default());
            let other = shared.clone();
            let thread = thread::spawn(move || call(&other));
            call(&shared);
            thread.join().unwrap();
        });
    }
}
