//! What a thread of a model checker has at hand. Not in a thread-local value of the
//! checker's: those are dropped in the order in which they were made, and the end of
//! a thread still needs this.

use super::{AtHand, Cell};
use crate::tests::checker::thread::{current, ThreadId};
use std::cell::RefCell;
use std::collections::HashMap;

std::thread_local! {
    static ALL: RefCell<HashMap<ThreadId, &'static AtHand>> = RefCell::default();
}

pub fn with<R>(f: impl FnOnce(&AtHand) -> R) -> R {
    let id = current().id();
    let fresh = || -> &'static AtHand {
        // One for each thread. loom makes new threads in each execution, so each execution leaks
        // some tens of bytes for each thread.
        Box::leak(Box::new(AtHand {
            identity: Cell::new(0),
            inside: Cell::new(std::ptr::null()),
        }))
    };
    f(ALL.with_borrow_mut(|all| *all.entry(id).or_insert_with(fresh)))
}
