//! A fired timer, and its receiver.

use crate::core::link::Link;
use crate::core::period::AUTO;
use crate::core::slab::Records;
use crate::core::state::{Handle, StateWord};
use crate::sync::Ordering;

/// A timer that has fired, or was handed back by a drain. Begins like the event of the C
/// interface (`capi/event.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Fired {
    pub handle: Handle,
    pub cookie: u64,
    /// The time of its tick; for a periodic timer the exact time.
    pub deadline_ns: u64,
    /// Periods that were skipped; `u32::MAX` stands for that number or more.
    pub missed: u32,
    /// [`DRAINED`], [`LISTED`]; 0 of a timer that has fired.
    pub flags: u32,
    pub func: usize,
    /// AUTO, BURST, DELAY, KEYED.
    pub kind: u16,
}

/// A drain has handed the timer back.
pub(crate) const DRAINED: u32 = 1 << 8;
/// The timer is pending.
pub(crate) const LISTED: u32 = 1 << 9;

impl Fired {
    /// The event of an armed timer, without the rare record.
    #[inline(always)]
    pub(in crate::core) fn of<const PLAIN: bool>(
        node: Records<'_>,
        state: StateWord,
        deadline_ns: u64,
    ) -> Fired {
        // Relaxed, all: published by the exchange that visit.read or drain.read
        // has acquired. If the node goes to another life meanwhile, the exchange
        // that ends this one fails.
        let high = Link(node.hot().link.load(Ordering::Relaxed)).high();
        let (index, fire) = (node.index, node.fire());
        Fired {
            handle: if PLAIN {
                state.plain_handle(index, high)
            } else {
                state.handle(index, high)
            },
            func: fire.func.load(Ordering::Relaxed),
            cookie: fire.cookie.load(Ordering::Relaxed),
            deadline_ns,
            missed: 0,
            flags: 0,
            kind: if !PLAIN && state.is_auto() { AUTO } else { 0 },
        }
    }
}

/// A number of periods as an event shows it.
pub(super) fn shown(missed: u64) -> u32 {
    u32::try_from(missed).unwrap_or(u32::MAX)
}

/// The receiver of fired timers.
pub(crate) trait Sink {
    /// Takes one; false if the sweep is to stop after it. In a pooled wheel one
    /// with a callback is RUNNING until `Wheel::finish` is called for it.
    fn fire(&mut self, fired: &Fired) -> bool;

    /// Takes a plain timer whose callback the driver runs; false if the sweep is to stop.
    #[inline(always)]
    fn call(&mut self, fired: &Fired) -> bool {
        self.fire(fired)
    }

    /// The clock's time, which may be later than its tick; 0 if it is not known.
    fn now_ns(&self) -> u64 {
        0
    }

    /// Called now and then while no timer fires; true if the sweep is to stop.
    fn is_enough(&mut self) -> bool {
        false
    }

    /// Whether nobody sleeps until the alarm. Then the sweep itself finds the next visit.
    fn settles(&self) -> bool {
        false
    }

    /// Wakes the threads that wait for the end of a callback.
    fn wake(&self);
}
