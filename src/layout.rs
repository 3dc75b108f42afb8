//! The layout of the C structs, which never changes: offsets and sizes in bytes.
//! Structs that begin with their size may grow at the end, so only their minimum
//! size is here. `c-tests/layout.c` checks the same in the header.

use crate::capi::drive::{hwheel_event, hwheel_run};
use crate::capi::options::hwheel_options;
use crate::capi::timer::{hwheel_fn, hwheel_timer_t};
use crate::core::driver::Fired;
use crate::runtime::stats::Stats;
use std::mem::offset_of;

macro_rules! offsets {
    ($type:ty, $($member:ident: $at:literal,)*) => {
        $(const _: () = assert!(offset_of!($type, $member) == $at);)*
        const _: () = assert!(align_of::<$type>() == 8);
    };
}

offsets!(hwheel_event, timer: 0, cookie: 8, deadline_ns: 16, missed: 24, flags: 28,);
const _: () = assert!(size_of::<hwheel_event>() == 32);
// A callback is passed the core's record as its event.
offsets!(Fired, handle: 0, cookie: 8, deadline_ns: 16, missed: 24,);

offsets! {
    hwheel_options,
    size: 0, clock: 4, tick_ns: 8, levels: 16, slots: 20, max_timers: 24, flags: 28,
    start_ns: 32, workers: 40, queue: 44, overload: 48, executor: 56, executor_arg: 64,
}
const _: () = assert!(size_of::<hwheel_options>() >= 72);

offsets!(hwheel_run, size: 0, left: 4, max_fired: 8, max_ns: 16,);
const _: () = assert!(size_of::<hwheel_run>() >= 24);

offsets! {
    Stats,
    size: 0, reserved: 4,
    live: 8, fired: 16, missed: 24, unclaimed: 32, sweeps: 40,
    wakeups: 48, kicks: 56, pushes: 64, repeats: 72, slab_bytes: 80,
    armed: 88, rearmed: 96, quiet: 104, cancelled: 112, drained: 120, pending: 128,
    entries: 136, dead: 144, queued: 152, lateness: 160, dropped: 480,
}
const _: () = assert!(size_of::<Stats>() >= 488);

const _: () = assert!(size_of::<hwheel_timer_t>() == 8);
const _: () = assert!(size_of::<hwheel_fn>() == size_of::<*const ()>());
