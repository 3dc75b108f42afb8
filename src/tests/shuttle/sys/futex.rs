//! What the kernel has for sleeping until a word changes, for threads of the
//! model checker: who is not woken sleeps for ever, and the checker says so.

use crate::sync::{AtomicU32, Mutex, Ordering};
use shuttle::thread::{current, park, Thread};

shuttle::lazy_static! {
    /// Who sleeps on which word, the longest first.
    static ref ASLEEP: Mutex<Vec<(usize, Thread)>> = Mutex::new(Vec::new());
}

/// Returns if the word is not `seen`, and on a wake-up.
pub(super) fn wait(word: &AtomicU32, seen: u32) {
    let mut asleep = ASLEEP.lock().unwrap();
    if word.load(Ordering::Relaxed) != seen {
        return;
    }
    asleep.push((std::ptr::from_ref(word).addr(), current()));
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
pub(super) fn wake(word: *const AtomicU32, most: i32) {
    let mut left = most;
    let mut woken = Vec::new();
    ASLEEP.lock().unwrap().retain(|(at, thread)| {
        let wake = *at == word.addr() && left != 0;
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
