//! Atomics that dawdle, for `--cfg chaos`: before an access the calling
//! thread may yield its processor or spin for a while, so that others overtake
//! it at every step of a protocol. What an access does is the same.

use std::cell::Cell;
use std::sync::atomic as real;

pub(crate) use real::Ordering;

/// Yields once in this number of accesses, and spins as often.
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

fn hook(order: Ordering, _: usize) -> Ordering {
    dawdle();
    order
}

/// The processors take turns by themselves.
#[derive(Default)]
struct Turns;

impl Turns {
    const fn new() -> Self {
        Turns
    }

    fn take(&self) {}
}

hooked!(const);
