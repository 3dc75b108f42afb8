//! A call at the end of each thread that has requested it.

use super::quietly;
use core::sync::atomic::{AtomicU64, Ordering};

/// 1 + the key whose destructor calls; 0 before it is made.
static KEY: AtomicU64 = AtomicU64::new(0);

fn key() -> Option<libc::pthread_key_t> {
    // Acquire: what the C library has written about the key; pairs with `prepare`.
    let made = KEY.load(Ordering::Acquire).checked_sub(1)?;
    libc::pthread_key_t::try_from(made).ok()
}

/// Makes ready to call `f` at the end of threads; one function in the whole library.
/// False if the system has no key left; asked again next time.
pub(crate) fn prepare(f: extern "C" fn(*mut libc::c_void)) -> bool {
    if key().is_some() {
        return true;
    }
    let mut fresh = 0;
    // SAFETY: a valid pointer and a function that lives as long as the library,
    // which is never unloaded.
    if quietly(|| unsafe { libc::pthread_key_create(&mut fresh, Some(f)) }) == 0 {
        // Release: pairs with `key`. Relaxed otherwise: `key` reads it again.
        let made = u64::from(fresh) + 1;
        let exchanged = KEY.compare_exchange(0, made, Ordering::Release, Ordering::Relaxed);
        if exchanged.is_err() {
            // SAFETY: made above, and known to nobody.
            unsafe { libc::pthread_key_delete(fresh) };
        }
    }
    key().is_some()
}

/// The rounds in which the system calls the destructors of a thread's keys
/// (`PTHREAD_DESTRUCTOR_ITERATIONS` of glibc and musl). The value of the key counts them. In the
/// last one ThreadSanitizer forgets the thread, so code with the tool in it no longer runs there.
const ROUNDS: usize = if cfg!(sanitized) { 3 } else { 4 };

/// Makes the calling thread call the function at its end. False without memory.
pub(crate) fn call_at_end() -> bool {
    let Some(key) = key() else { return false };
    // SAFETY: our own key.
    let is_set = unsafe { !libc::pthread_getspecific(key).is_null() };
    is_set || call_in_round(key, 1)
}

fn call_in_round(key: libc::pthread_key_t, round: usize) -> bool {
    let value = core::ptr::without_provenance::<libc::c_void>(round);
    // SAFETY: our own key. Any value but null makes the destructor run.
    quietly(|| unsafe { libc::pthread_setspecific(key, value) }) == 0
}

/// Makes the function be called in the next round, too; it has got this value in this one.
/// False if no round follows.
pub(crate) fn call_again(value: *mut libc::c_void) -> bool {
    let round = value.addr() + 1;
    round <= ROUNDS && key().is_some_and(|key| call_in_round(key, round))
}
