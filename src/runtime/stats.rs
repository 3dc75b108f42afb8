//! The counts of a wheel.

use super::{Errno, Host};

/// Counts of what a wheel has done. They are exact while no thread uses the
/// wheel.
///
/// The hand is the tick up to which the wheel has been driven. An entry refers
/// to a timer. It lies in the bucket of the tick at which the driver visits the
/// timer. A push puts an entry into a bucket.
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
    /// Number of timers without a callback that came due in a call without room for
    /// events.
    pub unclaimed: u64,
    /// Number of times that the driver has moved the wheel's hand.
    pub sweeps: u64,
    /// Number of times that the tick thread woke up.
    pub wakeups: u64,
    /// Number of arms that woke the driver for a new earliest time.
    pub kicks: u64,
    /// Number of entries that arms have put into buckets. An arm whose timer already
    /// has an early enough entry puts none.
    pub pushes: u64,
    /// Number of pushes that were repeated because the hand had passed the entry.
    pub repeats: u64,
    /// Bytes of memory for timers.
    pub slab_bytes: u64,
    /// Number of arms of timers that were not pending; each further period counts.
    /// It is the sum of fired, cancelled, drained and pending.
    pub armed: u64,
    /// Number of arms that moved a pending timer. When several threads move one timer
    /// at the same time, some of them may not count.
    pub rearmed: u64,
    /// Number of arms that put no entry into a bucket.
    pub quiet: u64,
    /// Number of pending timers that were cancelled, and of callbacks that were taken out
    /// of the queue. The timer of such a callback does not count as fired.
    pub cancelled: u64,
    /// Number of timers that a drain has handed back.
    pub drained: u64,
    /// Number of timers that are pending now.
    pub pending: u64,
    /// Number of entries in buckets now.
    pub entries: u64,
    /// Number of these entries in excess of one for each pending timer.
    pub dead: u64,
    /// Number of callbacks that wait for a worker or the executor.
    pub queued: u64,
    /// Number of timers by lateness, from the deadline to the start of the sweep. Element
    /// 0 counts timers that were not late, element i those from 2^(i-1) ns to below 2^i
    /// ns, the last element all later ones. Callbacks that were taken out of the queue
    /// count.
    pub lateness: [u64; 40],
    /// Number of callbacks that did not run because the queue was full.
    pub dropped: u64,
}

/// Takes the counts together.
pub(crate) fn stats(host: &Host) -> Result<Stats, Errno> {
    host.check()?;
    let w = &host.wheel;
    let driven = &w.shared.count;
    let (armed, rearmed) = (w.armed(), w.total(|c| &c.moves));
    let (pushes, repeats) = (w.total(|c| &c.pushes), w.total(|c| &c.repeats));
    let entries = w.entries();
    let (queued, dropped, revoked) = host.queue();
    Ok(Stats {
        size: size_of::<Stats>() as u32,
        reserved: 0,
        live: w.live(),
        fired: driven.fired.get().saturating_sub(revoked),
        missed: driven.missed.get(),
        unclaimed: host.unclaimed.get(),
        sweeps: driven.sweeps.get(),
        wakeups: host.wakeups.get(),
        kicks: w.total(|c| &c.kicks),
        pushes,
        repeats,
        slab_bytes: w.slab.bytes(),
        armed: armed + driven.periods.get(),
        rearmed,
        quiet: (armed + rearmed + repeats).saturating_sub(pushes),
        cancelled: w.total(|c| &c.cancels) + revoked,
        drained: driven.drained.get(),
        pending: w.pending(),
        entries,
        dead: entries.saturating_sub(w.pending()),
        queued,
        lateness: std::array::from_fn(|i| host.lateness[i].get()),
        dropped,
    })
}
