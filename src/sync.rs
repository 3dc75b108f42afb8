//! All concurrent code takes its atomics and locks from here: those of the language and of
//! the C library, or of a model checker, loom or shuttle. [`init`] and [`make_at`] initialize
//! everything in zeroed memory. `checked` is either of them.

#[cfg(not(checked))]
mod mutex;
// The atomics of the tests: with a hook before each access.
#[cfg(loom)]
#[macro_use]
#[path = "tests/sync/hooked.rs"]
mod hooked;
#[cfg(all(loom, weakened))]
#[path = "tests/sync/weak.rs"]
mod atomics;
#[cfg(loom)]
#[path = "tests/sync/stopping.rs"]
mod stopping;
#[cfg(not(checked))]
use core::sync::atomic as atomics;
#[cfg(shuttle)]
use shuttle::sync::atomic as atomics;
#[cfg(all(loom, not(weakened)))]
use stopping as atomics;

#[cfg(checked)]
use crate::tests::checker::mutex;
#[cfg(checked)]
pub(crate) use atomics::fence;
pub(crate) use atomics::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(loom)]
#[allow(unused_imports)]
pub(crate) use stopping::stopped_before;

pub(crate) use mutex::{inner, lock, try_lock, Mutex, MutexGuard};

/// A fence. On x86 a locked instruction is a full barrier, too, and takes a seventh of the
/// time of the `mfence` that the language has.
#[cfg(not(checked))]
#[inline(always)]
pub(crate) fn fence(order: Ordering) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if order == Ordering::SeqCst {
        // SAFETY: the word keeps its value.
        return unsafe { core::arch::asm!("lock or dword ptr [rsp], 0") };
    }
    core::sync::atomic::fence(order);
}

/// A sequentially consistent fence that directly follows a read-modify-write
/// of the same thread.
///
/// On x86 that instruction is a full barrier already, so only the compiler must be held back.
/// Elsewhere, and under the tools that check orderings, it is a fence.
#[inline(always)]
#[cfg_attr(weakened, track_caller)]
pub(crate) fn fence_after_rmw() {
    #[cfg(all(target_arch = "x86_64", not(checked), not(miri)))]
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(checked), not(miri))))]
    fence(Ordering::SeqCst);
}

/// A sequentially consistent fence between two loads. x86 keeps loads in order,
/// so there it is for the compiler alone.
#[inline(always)]
#[cfg_attr(weakened, track_caller)]
pub(crate) fn fence_between_loads() {
    fence_after_rmw();
}

/// Something that one thread at a time may open: what it must hold for that,
/// the caller of [`Guarded::open`] says. Loom checks it by a cell of its own.
pub(crate) struct Guarded<T> {
    value: T,
    #[cfg(loom)]
    witness: loom::cell::UnsafeCell<()>,
}

// SAFETY: `open` hands the value to one thread at a time.
unsafe impl<T: Send> Sync for Guarded<T> {}

/// The value of a [`Guarded`], opened.
pub(crate) struct Opened<'a, T> {
    value: &'a T,
    #[cfg(loom)]
    _witness: Option<loom::cell::MutPtr<()>>,
}

impl<T> Guarded<T> {
    pub fn new(value: T) -> Self {
        Guarded {
            value,
            #[cfg(loom)]
            witness: loom::cell::UnsafeCell::new(()),
        }
    }

    /// # Safety
    /// While the result lives no other thread opens it.
    pub unsafe fn open(&self) -> Opened<'_, T> {
        // SAFETY: the caller's promise.
        unsafe { self.open_within(false) }
    }

    /// As `open`. `is_open` says whether this thread has it open already.
    ///
    /// # Safety
    /// As for `open`.
    pub unsafe fn open_within(&self, is_open: bool) -> Opened<'_, T> {
        _ = is_open;
        Opened {
            value: &self.value,
            #[cfg(loom)]
            _witness: (!is_open).then(|| self.witness.get_mut()),
        }
    }
}

impl<T> core::ops::Deref for Opened<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value
    }
}

/// Asks for a cache line that will be written soon.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint; any address will do.
    unsafe {
        core::arch::x86_64::_mm_prefetch(at.cast(), core::arch::x86_64::_MM_HINT_T0);
    }
    _ = at;
}

/// Returns the number, and hides from the compiler how it was computed.
#[inline(always)]
pub(crate) fn opaque(#[allow(unused_mut)] mut number: usize) -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: no instruction.
    unsafe {
        core::arch::asm!("/* {0} */", inout(reg) number, options(pure, nomem, nostack, preserves_flags));
    }
    number
}

/// A type whose default has zeros in all bytes.
pub(crate) trait Fresh: Default {}

impl Fresh for AtomicU64 {}
impl<T> Fresh for AtomicPtr<T> {}

/// Brings `n` values in zeroed memory to life: nothing to do, except under the
/// model checkers, whose atomics are more than bytes.
///
/// # Safety
/// `at` is aligned and has room for `n` zeroed values that nobody else sees.
#[inline(always)]
pub(crate) unsafe fn init<T: Fresh>(at: *mut T, n: usize) {
    #[cfg(checked)]
    for i in 0..n {
        // SAFETY: the caller's promise.
        unsafe { at.add(i).write(T::default()) };
    }
    _ = (at, n);
}

/// Writes the fields of a large struct in place, in an unsafe block: only this thread may write
/// there. By value it would pass through the stack of the calling thread, which may be small, and
/// writing it would touch pages that can keep their zeros. Fields after the semicolon already have
/// their values. The compiler checks that no field is missing.
macro_rules! make_at {
    ($at:expr => $name:ident { $($field:ident: $value:expr,)* $(; $($made:ident),*)? }) => {{
        let at = $at;
        $((&raw mut (*at).$field).write($value);)*
        let $name { $($field: _,)* $($($made: _),*)? } = &*at;
    }};
}
pub(crate) use make_at;
