//! A value of each execution of the model checker, which does not fork.

use crate::sync::Fresh;

pub(crate) fn wipe_in_child(_: *mut u8) {}

pub(crate) struct PerProcess<T>(T);

impl<T: Fresh> PerProcess<T> {
    pub fn new() -> Self {
        PerProcess(T::fresh())
    }

    pub fn get(&self) -> Option<&T> {
        Some(&self.0)
    }
}
