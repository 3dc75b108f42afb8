//! The counts of a wheel.

use super::{Errno, Host};
use crate::core::wheel::Caller;

/// Counts of what a wheel has done. They are exact while no thread uses the
/// wheel.
///
/// The driver keeps at most one entry for each timer, in the bucket of the tick
/// at which the driver looks at the timer. A thread that arms a timer writes a
/// note for the driver if neither the entry nor another note is early enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(C)]
pub struct Stats {
    /// sizeof(struct hwheel_stats), set by the caller, at least 8.
    pub(crate) size: u32,
    /// Receives 0.
    pub(crate) reserved: u32,
    /// Number of timers that exist, pending or not.
    pub live: u64,
    /// Number of timers that have fired; each period counts.
    pub fired: u64,
    /// Number of periods that were skipped.
    pub missed: u64,
    /// Number of timers without a callback that came due in a call
    /// without room for events.
    pub unclaimed: u64,
    /// Number of times that the driver has moved the wheel's hand.
    pub sweeps: u64,
    /// Number of times that the tick thread woke up.
    pub wakeups: u64,
    /// Number of arms that woke the driver for a new earliest time.
    pub kicks: u64,
    /// Number of notes that threads have written for the driver.
    pub notes: u64,
    /// Bytes of memory for timers.
    pub slab_bytes: u64,
    /// Number of arms of timers that were not pending; each further period
    /// counts. It is the sum of fired, cancelled, drained and pending.
    pub armed: u64,
    /// Number of arms that moved a pending timer. When several threads
    /// move one timer at the same time, some of them may not count.
    pub rearmed: u64,
    /// Number of pending timers that were cancelled, and of callbacks
    /// that were taken out of the queue. The timer of such a callback does not
    /// count as fired.
    pub cancelled: u64,
    /// Number of timers that a drain has handed back.
    pub drained: u64,
    /// Number of timers that are pending now.
    pub pending: u64,
    /// Number of entries in buckets, after the last time that the wheel
    /// was driven.
    pub entries: u64,
    /// Number of callbacks that wait for a worker or the executor.
    pub queued: u64,
    /// Number of timers by lateness, from the deadline to the start of
    /// the sweep. Element 0 counts timers that were not late, element i those from
    /// 2^(i-1) ns to below 2^i ns, the last element all later ones. Callbacks that
    /// were taken out of the queue count.
    pub lateness: [u64; 40],
    /// Number of callbacks that did not run because the queue was full.
    pub dropped: u64,
    /// Bytes of memory for notes.
    pub note_bytes: u64,
}

/// Takes the counts together.
pub(crate) fn stats(host: &Host) -> Result<Stats, Errno> {
    host.check_ours()?;
    let w = &host.wheel;
    let driven = &w.shared.count;
    let threads = host.threads();
    let (queued, dropped, revoked) = host.queue();
    Ok(Stats {
        size: size_of::<Stats>() as u32,
        reserved: 0,
        live: w.live(threads),
        fired: driven.fired.get().saturating_sub(revoked),
        missed: driven.missed.get(),
        unclaimed: host.unclaimed.get(),
        sweeps: driven.sweeps.get(),
        wakeups: host.wakeups.get(),
        kicks: w.total(threads, |c| &c.kicks),
        notes: w.total(threads, |c| &c.notes),
        slab_bytes: w.slab.bytes(),
        armed: w.armed(threads) + driven.periods.get(),
        rearmed: w.total(threads, |c| &c.moves),
        cancelled: w.total(threads, |c| &c.cancels) + revoked,
        drained: driven.drained.get(),
        pending: w.pending(threads),
        entries: driven.entries.get(),
        queued,
        lateness: core::array::from_fn(|i| host.lateness[i].get()),
        dropped,
        note_bytes: w.inboxes.bytes(),
    })
}
