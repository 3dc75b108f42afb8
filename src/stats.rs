//! What a wheel has done so far.

use crate::host::{Host, LATENESS};

/// What a wheel has done. Each count is that of `struct hwheel_stats` in `hwheel.h`,
/// which explains it; they are exact while no thread uses the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)]
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
    let w = host.wheel();
    let driven = &w.driver.count;
    let (pending, moves) = w.survey();
    let armed = w.total(|c| &c.armed[0]) + driven.periods.get();
    let rearmed = w.total(|c| &c.armed[1]) + moves;
    let ended = driven.fired.get() + driven.drained.get();
    let entries = w.entries();
    let (queued, dropped) = host.queue();
    Stats {
        live: w.live(),
        fired: driven.fired.get(),
        missed: driven.missed.get(),
        unclaimed: host.unclaimed.get(),
        sweeps: driven.sweeps.get(),
        wakeups: host.wakeups.get(),
        kicks: w.total(|c| &c.kicks),
        pushes: w.total(|c| &c.pushes),
        repeats: w.total(|c| &c.repeats),
        slab_bytes: w.slab.bytes(),
        armed,
        rearmed,
        quiet: rearmed.saturating_sub(w.total(|c| &c.repushes)),
        cancelled: armed.saturating_sub(ended + pending),
        drained: driven.drained.get(),
        pending,
        entries,
        dead: entries.saturating_sub(w.promises()),
        queued,
        lateness: std::array::from_fn(|i| host.lateness[i].get()),
        dropped,
    }
}
