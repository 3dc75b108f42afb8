//! The closure of a wheel, and a panic in it.
//!
//! A panic must not unwind through a sweep, which it would leave half done, nor out
//! of the wheel's thread. The library catches and keeps it. The next call that
//! drives or stops the wheel resumes it, in the caller's thread.

use super::event::Event;
use crate::sync::{lock, Mutex};
use std::any::Any;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

pub(super) type Function<W> = dyn Fn(&W, &Event) + Send + Sync;

/// A closure that is shown the wheel, which is a `W`.
pub(super) struct Handler<W> {
    function: Box<Function<W>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl<W> Handler<W> {
    pub fn new(function: Box<Function<W>>) -> Self {
        Handler {
            function,
            panic: Mutex::default(),
        }
    }

    pub fn call(&self, wheel: &W, event: &Event) {
        let run = AssertUnwindSafe(|| (self.function)(wheel, event));
        if let Err(panic) = catch_unwind(run) {
            let mut kept = lock(&self.panic);
            match &*kept {
                None => *kept = Some(panic),
                // The first one counts. To drop another could panic again.
                Some(_) => std::mem::forget(panic),
            }
        }
    }

    /// Resumes the panic of the closure.
    pub fn resume_panic(&self) {
        let kept = lock(&self.panic).take();
        if let Some(panic) = kept {
            resume_unwind(panic);
        }
    }
}
