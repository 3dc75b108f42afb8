//! The only place that knows about the model checkers, loom and shuttle:
//! everything concurrent takes its atomics from here, and everything that lives
//! in zeroed memory is brought to life by [`init`]. `checked` is either of them.

#[cfg(any(all(not(checked), feature = "chaos"), all(loom, planted)))]
#[macro_use]
mod hooked;

#[cfg(all(not(checked), feature = "chaos"))]
mod chaos;
#[cfg(all(not(checked), feature = "chaos"))]
pub(crate) use chaos::{
    fence, AtomicI32, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering,
};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
#[cfg(not(checked))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(all(loom, not(planted)))]
pub(crate) use loom::sync::atomic::{
    fence, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering,
};
#[cfg(all(loom, planted))]
mod weak;
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{
    fence, AtomicI32, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering,
};
#[cfg(all(not(checked), not(feature = "chaos")))]
pub(crate) use std::sync::atomic::{
    fence, AtomicI32, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering,
};
#[cfg(all(loom, planted))]
pub(crate) use weak::{
    fence, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering,
};

#[cfg(shuttle)]
pub(crate) use shuttle::thread_local;
#[cfg(not(checked))]
pub(crate) use std::thread_local;

#[cfg(planted)]
mod plant;
#[cfg(planted)]
pub(crate) use plant::planted;

/// Whether the bug of this name is planted, for a test that must catch it:
/// verify/bugs.txt. Never, but in a build for that.
#[cfg(not(planted))]
#[inline(always)]
pub(crate) const fn planted(_: &str) -> bool {
    false
}

/// A static, which the executions of a model checker do not share.
macro_rules! each_execution {
    (static $name:ident: $type:ty = $value:expr;) => {
        #[cfg(not(shuttle))]
        static $name: $type = $value;
        #[cfg(shuttle)]
        shuttle::lazy_static! {
            static ref $name: $type = $value;
        }
    };
}
pub(crate) use each_execution;

/// A sequentially consistent fence that directly follows a read-modify-write
/// of the same thread.
///
/// On x86 a locked instruction is a full barrier already, so only the compiler
/// must be held back: an `mfence` after it would cost ten nanoseconds for
/// nothing. Elsewhere, and under the tools that check orderings, it is a fence.
#[inline(always)]
#[cfg_attr(planted, track_caller)]
pub(crate) fn fence_after_rmw() {
    #[cfg(all(target_arch = "x86_64", not(checked), not(miri)))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(not(all(target_arch = "x86_64", not(checked), not(miri))))]
    fence(Ordering::SeqCst);
}

/// Asks for a cache line that will be written soon.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint; any address will do.
    unsafe {
        std::arch::x86_64::_mm_prefetch(at.cast(), std::arch::x86_64::_MM_HINT_T0);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// A type for which all bytes zero is the fresh value.
pub(crate) trait Fresh: Sized {
    /// The same value, made the long way; the model checkers need it.
    #[cfg(checked)]
    fn fresh() -> Self;
}

impl Fresh for AtomicU64 {
    #[cfg(checked)]
    fn fresh() -> Self {
        AtomicU64::new(0)
    }
}

impl<T> Fresh for AtomicPtr<T> {
    #[cfg(checked)]
    fn fresh() -> Self {
        AtomicPtr::new(std::ptr::null_mut())
    }
}

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
        unsafe { at.add(i).write(T::fresh()) };
    }
    #[cfg(not(checked))]
    let _ = (at, n);
}
