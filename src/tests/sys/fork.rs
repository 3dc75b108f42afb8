//! A value of each execution of a model checker, which does not fork.

use crate::sys::maps::{map, unmap, Pages};
use crate::tests::checker::tool;
use std::any::Any;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Mutex;

pub(crate) fn map_to_wipe(bytes: usize) -> *mut u8 {
    map(bytes, Pages::Small)
}

pub(crate) unsafe fn unmap_wiped(at: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { unmap(at, bytes) };
}

pub(crate) fn wipe_in_child(_: *mut u8) -> bool {
    true
}

pub(crate) fn call_in_child(_: extern "C" fn()) -> bool {
    true
}

/// Not of size zero: its place tells it from others.
pub(crate) struct PerProcess<T>(u8, PhantomData<T>);

// SAFETY: what is there is shared by threads only if it may be.
unsafe impl<T: Sync> Sync for PerProcess<T> {}

struct Values(HashMap<usize, Box<dyn Any>>);
// SAFETY: as above.
unsafe impl Send for Values {}

tool::lazy_static! {
    static ref VALUES: Mutex<Values> = Mutex::new(Values(HashMap::new()));
}

impl<T: Default + 'static> PerProcess<T> {
    pub const fn new() -> Self {
        PerProcess(0, PhantomData)
    }

    pub fn get(&self) -> Option<&T> {
        let mut values = VALUES.lock().unwrap();
        let at = std::ptr::from_ref(self).addr();
        let value = values.0.entry(at).or_insert_with(|| Box::new(T::default()));
        let value: *const T = value.downcast_ref().unwrap();
        // SAFETY: in a box, until the end of the execution.
        Some(unsafe { &*value })
    }
}
