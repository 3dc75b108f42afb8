//! A list of nodes whose owners hold the memory.

use std::cell::Cell;
use std::ptr::null;

pub(super) struct Node<T> {
    pub value: T,
    next: Cell<*const Node<T>>,
}

impl<T> Node<T> {
    pub fn new(value: T) -> Self {
        let next = Cell::new(null());
        Node { value, next }
    }
}

pub(super) struct List<T>(*const Node<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        List(null())
    }
}

impl<T> List<T> {
    /// The first one for which `is` holds.
    pub fn find(&self, is: impl Fn(&Node<T>) -> bool) -> Option<&Node<T>> {
        let mut at = self.0;
        // SAFETY: by `add`.
        while let Some(node) = unsafe { at.as_ref() } {
            if is(node) {
                return Some(node);
            }
            at = node.next.get();
        }
        None
    }

    /// # Safety
    /// The node stays at its address until it is removed.
    pub unsafe fn add(&mut self, node: &Node<T>) {
        node.next.set(self.0);
        self.0 = node;
    }

    pub fn remove(&mut self, node: &Node<T>) {
        match self.find(|before| std::ptr::eq(before.next.get(), node)) {
            Some(before) => before.next.set(node.next.get()),
            None => self.0 = node.next.get(),
        }
    }
}
