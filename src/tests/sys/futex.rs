//! What the kernel has for sleeping until a word changes, for threads of a model
//! checker: a thread that is not woken never returns, and the checker says so.

use crate::sync::{lock, AtomicU32, Mutex, Ordering};
use crate::tests::checker::{tool, Condvar};
use std::collections::HashMap;
use std::sync::Arc;

tool::lazy_static! {
    /// Where threads sleep, by word.
    static ref ASLEEP: Mutex<HashMap<usize, Arc<Condvar>>> = Mutex::new(HashMap::new());
}

/// Returns if the word is not `seen`, and on a wake-up.
pub(super) fn wait(word: &AtomicU32, seen: u32) {
    let mut asleep = lock(&ASLEEP);
    if word.load(Ordering::Relaxed) == seen {
        let place = asleep.entry(std::ptr::from_ref(word).addr()).or_default();
        let place = place.clone();
        drop(place.wait(asleep).unwrap());
    }
}

/// Wakes one that waits, or all.
pub(super) fn wake(word: *const AtomicU32, most: i32) {
    let place = lock(&ASLEEP).get(&word.addr()).cloned();
    match place {
        Some(place) if most == 1 => place.notify_one(),
        Some(place) => place.notify_all(),
        None => {}
    }
}
