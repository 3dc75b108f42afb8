//! The counts of a wheel.

use super::host::LATENESS;
use super::Host;

/// The counts of a wheel. `struct hwheel_stats` in `hwheel.h` explains each of them.
/// They are exact while no thread uses the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
#[repr(C)]
pub struct Stats {
    pub live: u64,
    pub fired: u64,
    pub missed: u64,
    pub unclaimed: u64,
    pub sweeps: u64,
    pub wakeups: u64,
    pub kicks: u64,
    pub pushes: u64,
    pub repeats: u64,
    pub slab_bytes: u64,
    pub armed: u64,
    pub rearmed: u64,
    pub quiet: u64,
    pub cancelled: u64,
    pub drained: u64,
    pub pending: u64,
    pub entries: u64,
    pub dead: u64,
    pub queued: u64,
    pub lateness: [u64; LATENESS],
    pub dropped: u64,
}

/// Takes the counts together.
pub(crate) fn stats(host: &Host) -> Stats {
    let w = &host.wheel;
    let driven = &w.shared.count;
    let (armed, rearmed) = (w.total(|c| &c.armed[0]), w.total(|c| &c.armed[1]));
    let (pushes, repeats) = (w.total(|c| &c.pushes), w.total(|c| &c.repeats));
    let entries = w.entries();
    let (queued, dropped, revoked) = host.queue();
    Stats {
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
    }
}
