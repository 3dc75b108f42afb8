//! A stack of numbers, from which every thread takes.
//!
//! The caller keeps the link of each number: the one below it, or 0 (R. K. Treiber, *Systems
//! Programming: Coping with Parallelism*, 1986). A thread that reads `head -> a` and `a -> b`
//! may be stopped before it exchanges `a` for `b`. Meanwhile other threads can take both and put
//! `a` back. So the head counts its changes in the 38 bits next to the number: the exchange
//! succeeds with a wrong `b` only if the thread is stopped for exactly a multiple of 2^38
//! changes.
//!
//! A link must stay readable while the number is not in the stack: a thread may read it late.

use crate::sync::{AtomicU64, Ordering};

const NUMBER_BITS: u32 = 26;
/// The largest number in a stack. 0 stands for none.
pub(super) const NUMBER: u64 = (1 << NUMBER_BITS) - 1;

#[derive(Default)]
pub(super) struct Stack(AtomicU64);

impl Stack {
    /// Takes a number; `None` if the stack is empty. Lock-free.
    pub fn take(&self, link: impl Fn(u32) -> u32) -> Option<u32> {
        // Acquire: the number's memory and its link; pairs with the Release in `put`.
        let mut head = self.0.load(Ordering::Acquire);
        while head & NUMBER != 0 {
            let number = (head & NUMBER) as u32;
            match self.exchange(head, link(number)) {
                Ok(_) => return Some(number),
                Err(seen) => head = seen,
            }
        }
        None
    }

    /// Puts a number that the caller owns into the stack. Lock-free.
    pub fn put(&self, number: u32, set_link: impl Fn(u32)) {
        // Relaxed: only compared; the exchange publishes.
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            set_link((head & NUMBER) as u32);
            match self.exchange(head, number) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    fn exchange(&self, head: u64, number: u32) -> Result<u64, u64> {
        let next = (head & !NUMBER).wrapping_add(1 << NUMBER_BITS) | u64::from(number);
        // Release: the link; pairs with the Acquires of `take`.
        self.0
            .compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire)
    }
}
