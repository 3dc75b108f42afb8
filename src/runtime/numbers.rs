//! The numbers of threads. A thread takes one at its first call on a timer, and gives it back
//! at its end. The number says which inbox of a wheel is the thread's, in every wheel.
//!
//! A number goes to the next thread with all that its thread has left in the inboxes: the
//! bit map hands it over. So it is given back after the thread's last call. A call after that,
//! in the destructor of another key of the thread, takes a number again, and the system calls
//! the end hook again. After the hook's last round such a call would keep its number when the
//! thread is gone. So it gets none.
//!
//! A forked child has one thread, which keeps its number. A handler of pthread_atfork() makes
//! the other numbers free. In a child that was made without it they stay taken.

use super::at_hand;
use crate::core::error::Error;
use crate::core::inbox::Thread;
use crate::core::tunables::THREADS;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::{end, fork};

const BITS: usize = u64::BITS as usize;
const WORDS: usize = (THREADS - 1).div_ceil(BITS);

/// A bit map of the numbers that are taken, from 1 on: the number 0 is no thread.
pub(super) struct Numbers {
    words: [AtomicU64; WORDS],
    /// More than each number that was ever taken.
    end: AtomicU64,
}

#[cfg(not(checked))]
fn numbers() -> Option<&'static Numbers> {
    static NUMBERS: Numbers = Numbers {
        words: [const { AtomicU64::new(0) }; WORDS],
        end: AtomicU64::new(1),
    };
    Some(&NUMBERS)
}

/// The model checkers' atomics are made anew for each execution.
#[cfg(checked)]
fn numbers() -> Option<&'static Numbers> {
    static NUMBERS: fork::PerProcess<Numbers> = fork::PerProcess::new();
    NUMBERS.get()
}

impl Default for Numbers {
    fn default() -> Self {
        Numbers {
            words: core::array::from_fn(|_| AtomicU64::new(0)),
            end: AtomicU64::new(1),
        }
    }
}

impl Numbers {
    fn take(&self) -> Option<Thread> {
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

/// In place of a number: the thread has ended. As a number it reads 0.
const ENDED: u64 = 1 << 32;

/// The number of the calling thread.
#[inline]
pub(super) fn own() -> Result<Thread, Error> {
    match at_hand::thread() {
        0 => take(),
        number => Ok(number),
    }
}

#[cold]
fn take() -> Result<Thread, Error> {
    let numbers = numbers().ok_or(Error::Memory)?;
    if at_hand::with(|mine| mine.thread.get()) == ENDED {
        return Err(Error::Threads);
    }
    if !end::call_at_end() {
        return Err(Error::Memory);
    }
    let number = numbers.take().ok_or(Error::Threads)?;
    at_hand::with(|mine| mine.thread.set(number.into()));
    Ok(number)
}

/// More than each number that a thread of the process has had.
pub(super) fn end() -> Thread {
    // Relaxed: see `take`.
    numbers().map_or(1, |n| n.end.load(Ordering::Relaxed) as Thread)
}

/// Makes ready for the ends of threads, and for forks. False if the system refuses.
pub(super) fn prepare() -> bool {
    numbers().is_some() && end::prepare(thread_ends) && fork::call_in_child(forked)
}

/// A thread ends.
extern "C" fn thread_ends(round: *mut libc::c_void) {
    let then = if end::call_again(round) { 0 } else { ENDED };
    let number = at_hand::with(|mine| mine.thread.replace(then)) as Thread;
    if let (1.., Some(numbers)) = (number, numbers()) {
        numbers.give_back(number);
    }
}

/// This is the only thread of a forked child.
extern "C" fn forked() {
    let own = (at_hand::thread() as usize).checked_sub(1);
    let Some(numbers) = numbers() else { return };
    for (n, word) in numbers.words.iter().enumerate() {
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
            assert_eq!(numbers.take(), Some(n));
        }
        assert_eq!(numbers.take(), None);
        numbers.give_back(77);
        numbers.give_back(30_000);
        let mut again = [numbers.take(), numbers.take()];
        again.sort_unstable();
        assert_eq!(again, [Some(77), Some(30_000)]);
        assert_eq!(numbers.take(), None);
        assert_eq!(numbers.end.load(Ordering::Relaxed), THREADS as u64);
    }

    #[test]
    fn a_thread_that_calls_after_its_end_takes_another_number() {
        assert!(prepare());
        let first = own().unwrap();
        thread_ends(core::ptr::null_mut());
        assert_eq!(at_hand::thread(), 0);
        // Other threads may have taken it meanwhile.
        let others: Vec<_> = (0..4).map(|_| take_in_a_thread()).collect();
        let again = own().unwrap();
        assert!(first != 0 && others.iter().all(|(other, _)| *other != again));
    }

    /// The number of a thread that lives until the sender is dropped.
    fn take_in_a_thread() -> (Thread, std::sync::mpsc::Sender<()>) {
        let (tell, told) = std::sync::mpsc::channel();
        let (keep, kept) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            tell.send(own().unwrap()).unwrap();
            _ = kept.recv();
        });
        (told.recv().unwrap(), keep)
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
            let number = shared.0.take().unwrap();
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
