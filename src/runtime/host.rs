//! A wheel and its environment.

use super::keys::Keys;
use super::options::WheelInC;
use super::pool::Pool;
use super::times::Manual;
use super::{Errno, Options};
use crate::core::driver::Fired;
use crate::core::stats::Tally;
use crate::core::wheel::Wheel;
use crate::sync::{AtomicI32, AtomicU32, Mutex};
use crate::sys::event::Event;
use crate::sys::thread::Thread;

/// Counts of lateness, one for each power of two of nanoseconds.
pub(crate) const LATENESS: usize = 40;

/// Calls the function of a timer that has fired.
pub(crate) type Call = unsafe fn(&Host, &Fired);

/// A wheel and its environment. This is `struct hwheel`.
#[repr(C)]
pub(crate) struct Host {
    pub wheel: Wheel,
    pub id: u64,
    /// The system's clock that the wheel uses; `None` for the caller's.
    pub clock: Option<libc::clockid_t>,
    /// The caller's time, on a manual clock.
    pub(super) manual: Manual,
    pub(super) pool: Option<Pool>,
    pub(super) options: Options,
    /// The alarm's descriptor, or -1.
    pub(super) fd: AtomicI32,
    pub(super) drive: AtomicU32,
    /// 1 if a poll was refused because another thread drives.
    pub(super) refused: AtomicU32,
    /// 1 while a thread stops the wheel.
    pub(super) stopping: AtomicU32,
    /// 1 while a thread destroys the wheel: nobody wakes its driver any more.
    pub(super) ending: AtomicU32,
    /// The driver's callback is over, in a wheel without a pool.
    pub(super) end: Event,
    /// Locked by a thread that starts or ends the tick thread.
    pub(super) thread: Mutex<Option<Thread>>,
    /// Calls the callback of a timer, of C or of Rust.
    pub(super) call: Call,
    /// The driver's counts.
    pub wakeups: Tally,
    pub unclaimed: Tally,
    pub lateness: [Tally; LATENESS],
    pub(super) keys: Keys,
}

// The wheel is to begin a page.
const _: () = assert!(core::mem::offset_of!(Host, wheel) == 0);

impl Host {
    /// Not a forked child.
    #[inline]
    pub fn is_ours(&self) -> bool {
        self.wheel.gate.id() != 0
    }

    /// The wheel as the caller's functions know it.
    pub(super) fn in_c(&self) -> *mut WheelInC {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    /// An error in a forked child.
    #[inline]
    pub fn check_ours(&self) -> Result<(), Errno> {
        self.is_ours().then_some(()).ok_or(-libc::ESHUTDOWN)
    }

    /// An error in a forked child, and in a thread that does not own the wheel, if one does.
    #[inline]
    pub fn check_mine(&self) -> Result<(), Errno> {
        self.check_ours()?;
        Ok(self.wheel.permit(self)?)
    }

    /// An error in a forked child, and if the wheel was drained.
    pub fn check_open(&self) -> Result<(), Errno> {
        let is_open = self.is_ours() && !self.wheel.gate.is_closed();
        is_open.then_some(()).ok_or(-libc::ESHUTDOWN)
    }
}
