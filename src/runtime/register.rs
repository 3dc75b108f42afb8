//! The living wheels of the process, and its threads that wait inside a callback: two
//! lists, under one lock. While a thread holds the lock, no wheel in the list is destroyed.
//!
//! Four things wait for the lock: making a wheel, destroying one, the end of a thread, and
//! a wait inside a callback.

use super::waits::Wait;
use super::Host;
use crate::sync::{self, Mutex, MutexGuard};
use crate::sys::fork::PerProcess;
use crate::sys::quietly;
use std::cell::Cell;

#[derive(Default)]
pub(super) struct Register {
    pub wheels: List<Host>,
    pub waits: List<Wait>,
}

// SAFETY: used under the lock. A wheel may be used from any thread, and of a thread that
// waits the others read what it does not change.
unsafe impl Send for Register {}

pub(super) static REGISTER: PerProcess<Mutex<Register>> = PerProcess::new();

/// Whether a register is that of the calling process.
pub(super) fn is_own(register: &Mutex<Register>) -> bool {
    REGISTER
        .get()
        .is_some_and(|own| std::ptr::eq(own, register))
}

/// Waits for the lock.
pub(super) fn lock(register: &Mutex<Register>) -> MutexGuard<'_, Register> {
    quietly(|| sync::lock(register))
}

/// A list of nodes. Their owners hold the memory.
pub(super) struct List<N>(*const N);

impl<N> Default for List<N> {
    fn default() -> Self {
        List(std::ptr::null())
    }
}

pub(super) trait Listed {
    fn next(&self) -> &Cell<*const Self>;
}

impl<N: Listed> List<N> {
    /// The first one for which `is` holds.
    pub fn find(&self, is: impl Fn(&N) -> bool) -> Option<&N> {
        let mut at = self.0;
        // SAFETY: by `add`.
        while let Some(node) = unsafe { at.as_ref() } {
            if is(node) {
                return Some(node);
            }
            at = node.next().get();
        }
        None
    }

    /// # Safety
    /// The node stays at its address until it is removed.
    pub unsafe fn add(&mut self, node: &N) {
        node.next().set(self.0);
        self.0 = node;
    }

    /// Removes a node of the list.
    pub fn remove(&mut self, node: &N) {
        match self.find(|before| std::ptr::eq(before.next().get(), node)) {
            Some(before) => before.next().set(node.next().get()),
            None => self.0 = node.next().get(),
        }
    }
}
