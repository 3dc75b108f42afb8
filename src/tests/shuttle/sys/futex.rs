//! What the kernel has for sleeping until a word changes, for threads of the
//! model checker: who is not woken sleeps for ever, and the checker says so.

use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering};
use shuttle::thread::{current, park, Thread};

shuttle::lazy_static! {
    /// Who sleeps on which word, the longest first.
    static ref ASLEEP: Mutex<Vec<(usize, Thread)>> = Mutex::new(Vec::new());
}

/// Returns if the word is not `seen`, and on a wake-up.
///
/// # Safety
/// `word` lies in an atomic word of the model checker.
pub(super) unsafe fn wait(word: *const u32, seen: u32) {
    // SAFETY: the caller's promise.
    let is = || unsafe { &*word.cast::<AtomicU32>() }.load(Ordering::Relaxed) == seen;
    sleep(word.addr(), is);
}

fn sleep(word: usize, is_seen: impl Fn() -> bool) {
    let mut asleep = ASLEEP.lock().unwrap();
    if !is_seen() {
        return;
    }
    asleep.push((word, current()));
    drop(asleep);
    let here = || {
        ASLEEP
            .lock()
            .unwrap()
            .iter()
            .any(|(_, t)| t.id() == current().id())
    };
    while here() {
        park();
    }
}

/// Wakes up to `most` that wait.
pub(super) fn wake(word: *const u32, most: i32) {
    rouse(word.addr(), most);
}

fn rouse(word: usize, most: i32) {
    let mut left = most;
    let mut woken = Vec::new();
    ASLEEP.lock().unwrap().retain(|(at, thread)| {
        let wake = *at == word && left != 0;
        if wake {
            left -= 1;
            woken.push(thread.clone());
        }
        !wake
    });
    for thread in woken {
        thread.unpark();
    }
}

pub(crate) fn wait_for_state(word: &AtomicU64, seen: u64) {
    let is = || word.load(Ordering::Relaxed) as u32 == seen as u32;
    sleep(std::ptr::from_ref(word).addr(), is);
}

pub(crate) fn wake_for_state(word: &AtomicU64) {
    rouse(std::ptr::from_ref(word).addr(), i32::MAX);
}
