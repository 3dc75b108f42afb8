//! The closure of a wheel, and a panic in it.
//!
//! A panic must not unwind through a sweep, which it would leave half done, nor out
//! of the wheel's thread. The library catches and keeps it. The next call that
//! drives or stops the wheel resumes it, in the caller's thread.

use super::event::Event;
use super::{futures, Wheel};
use crate::core::driver::Fired;
use crate::runtime::callbacks::PROMPT;
use crate::runtime::Host;
use crate::sync::{lock, Mutex};
use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

type Function = dyn Fn(&Wheel, &Event) + Send + Sync;

pub(crate) struct Handler {
    pub function: Box<Function>,
    pub panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Handler {
    fn call(&self, wheel: &Wheel, event: &Event) {
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
}

impl Wheel {
    /// Resumes the panic of the handler.
    pub(super) fn resume_panic(&self) {
        // SAFETY: null, or lives as long as the wheel.
        let handler = unsafe { self.handler.as_ref() };
        if let Some(panic) = handler.and_then(|h| lock(&h.panic).take()) {
            resume_unwind(panic);
        }
    }
}

/// Calls the handler for a timer that has fired.
///
/// # Safety
/// `fired.func` is the handler of the wheel around `host`, or PROMPT for a future.
pub(crate) unsafe fn call(host: &Host, fired: &Fired) {
    if fired.func == PROMPT {
        // SAFETY: it has fired.
        return unsafe { futures::wake(fired.cookie) };
    }
    let handler = std::ptr::with_exposed_provenance::<Handler>(fired.func);
    // Another name for the wheel, which its owner drops.
    let wheel = ManuallyDrop::new(Wheel {
        host: std::ptr::from_ref(host).cast_mut(),
        handler,
    });
    // SAFETY: it is freed after the wheel was destroyed.
    unsafe { &*handler }.call(&wheel, &Event::new(host, fired, false));
}
