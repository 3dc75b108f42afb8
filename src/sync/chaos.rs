//! Atomics that dawdle, for the feature `chaos`: before an access the calling
//! thread may yield its processor or spin for a while, so that others overtake
//! it at every step of a protocol. What an access does is the same.

use std::cell::Cell;
use std::sync::atomic as real;

pub(crate) use real::Ordering;

/// Yields once in so many accesses, and spins as often.
const YIELD: u64 = 64;
/// The longest spin, in rounds: some microseconds.
const SPIN: u64 = 256;

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(0) };
}

fn dawdle() {
    let x = SEED.with(|seed| {
        // Every thread has a seed of its own: where its word lies.
        let mut x = seed.get() ^ std::ptr::from_ref(seed).addr() as u64;
        x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        seed.set(x);
        x >> 8
    });
    match x % YIELD {
        // SAFETY: no arguments; `errno` is left alone, it cannot fail.
        0 => _ = unsafe { libc::sched_yield() },
        1 => (0..x / YIELD % SPIN).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}

pub(crate) fn fence(order: Ordering) {
    dawdle();
    real::fence(order);
}

/// An atomic of the standard library, behind a `dawdle`.
macro_rules! atomic {
    ($name:ident $([$t:ident])?, $value:ty $(, $fetch:ident)*) => {
        #[repr(transparent)]
        pub(crate) struct $name $(<$t>)? (real::$name $(<$t>)?);

        // Not each is used with every type.
        #[allow(dead_code)]
        impl $(<$t>)? $name $(<$t>)? {
            pub const fn new(value: $value) -> Self {
                Self(real::$name::new(value))
            }
            pub fn load(&self, order: Ordering) -> $value {
                dawdle();
                self.0.load(order)
            }
            pub fn store(&self, value: $value, order: Ordering) {
                dawdle();
                self.0.store(value, order);
            }
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                dawdle();
                self.0.swap(value, order)
            }
            pub fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                dawdle();
                self.0.compare_exchange(old, new, success, failure)
            }
            pub fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                dawdle();
                self.0.compare_exchange_weak(old, new, success, failure)
            }
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                dawdle();
                self.0.fetch_update(success, failure, f)
            }
            $(pub fn $fetch(&self, value: $value, order: Ordering) -> $value {
                dawdle();
                self.0.$fetch(value, order)
            })*
        }
    };
}

atomic!(AtomicPtr[T], *mut T);
atomic!(AtomicU8, u8);
atomic!(AtomicU16, u16);
atomic!(AtomicI32, i32);
atomic!(AtomicU32, u32, fetch_add, fetch_and, fetch_or);
atomic!(AtomicU64, u64, fetch_add, fetch_and, fetch_min, fetch_or);
atomic!(AtomicUsize, usize);
