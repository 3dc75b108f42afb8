//! A list of nodes whose owners hold the memory.

use std::cell::Cell;

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
