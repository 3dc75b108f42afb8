//! How a wheel is made, and its end.

use super::args::{extensible, hwheel, EINVAL};
use super::drive::{hwheel_executor_fn, hwheel_wake_fn};
use super::event::call;
use crate::runtime::options::Function;
use crate::runtime::pool::{Crew, Overload};
use crate::runtime::{number, Errno, Executor, Host, Options};
use crate::sys::clock::Clock;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

/// Clock: CLOCK_MONOTONIC. The default.
pub const HWHEEL_CLOCK_MONOTONIC: u32 = 0;
/// Clock: CLOCK_BOOTTIME, which also counts time spent in suspend.
pub const HWHEEL_CLOCK_BOOTTIME: u32 = 1;
/// Clock: CLOCK_REALTIME, the wall clock. Timers follow when it is set.
pub const HWHEEL_CLOCK_REALTIME: u32 = 2;
/// Clock: the caller's own. hwheel_advance() moves it.
pub const HWHEEL_CLOCK_MANUAL: u32 = 3;

/// Overload: the driving thread runs the callback itself. The default.
pub const HWHEEL_OVERLOAD_RUN: u32 = 0;
/// Overload: the callback does not run. hwheel_stats.dropped counts it, and
/// hwheel_stats.fired counts its timer.
pub const HWHEEL_OVERLOAD_DROP: u32 = 1;

/// How to make a wheel. A member that is zero has its default value.
///
/// @size: sizeof(struct hwheel_options), at least 8. Zeros complete a shorter
///   struct. A longer one, up to 4096 bytes, is valid if all bytes beyond the
///   members that the library knows are zero.
/// @clock: one of HWHEEL_CLOCK_*.
/// @tick_ns: length of a tick in nanoseconds, 1000 to one hour; default
///   HWHEEL_MSEC. A timer fires at the first tick at or after its deadline.
/// @levels: 1 for a hashed wheel, 2 to 8 for a hierarchical wheel; default 4.
///   Timers beyond the last level go to levels that the wheel adds.
/// @slots: number of slots of each level, a power of two from 2 to 65536;
///   default 256. @levels times log2(@slots) is at most 48.
/// @max_timers: maximum number of live timers, 1 to 67000000; default 67000000.
///   A timer is live from its creation until it is freed. A timer that frees
///   itself is live until its callback has returned. A thread that is stopped
///   inside a call may hold freed timers back. A call that makes a timer may
///   then return -ENOSPC early: below the limit by up to the number of timers
///   that one thread has freed.
/// @workers: number of threads that run callbacks, 0 to 256; default 0, which
///   means that the driving thread runs them. hwheel_create() starts the
///   threads.
/// @start_ns: initial time of a manual clock, below 2^63 ns; 0 for the other
///   clocks.
/// @queue: maximum number of expired timers that wait for a worker or the
///   executor, a power of two up to 1048576; default 1024.
/// @overload: what happens to a callback when the queue is full: one of
///   HWHEEL_OVERLOAD_*.
/// @executor: the caller's own way to run callbacks, or NULL. Not together with
///   @workers.
/// @executor_arg: the second argument of @executor. Without @executor it is
///   NULL; any other value is -EINVAL.
/// @wake: the function that wakes the loop which drives the wheel, or NULL. It
///   serves loops that sleep in their own call instead of watching a
///   descriptor, with any clock. hwheel_poll() or hwheel_advance() announces the
///   next call in hwheel_run.next_ns, and the library makes no system call for
///   timers.
///   hwheel_start() and hwheel_fd() return -EINVAL for such a wheel. A forked
///   child never calls @wake, and neither does hwheel_destroy().
/// @wake_arg: the second argument of @wake. Without @wake it is NULL; any other
///   value is -EINVAL.
///
/// Without workers or an executor, @queue and @overload are checked, but have no
/// effect.
#[repr(C)]
pub struct hwheel_options {
    pub size: u32,
    pub clock: u32,
    pub tick_ns: u64,
    pub levels: u32,
    pub slots: u32,
    pub max_timers: u32,
    pub workers: u32,
    pub start_ns: u64,
    pub queue: u32,
    pub overload: u32,
    pub executor: hwheel_executor_fn,
    pub executor_arg: *mut c_void,
    pub wake: hwheel_wake_fn,
    pub wake_arg: *mut c_void,
}

/// The same options as the core has them.
fn translate(o: &hwheel_options) -> Result<Options, Errno> {
    if (o.executor.is_none() && !o.executor_arg.is_null())
        || (o.wake.is_none() && !o.wake_arg.is_null())
    {
        return Err(EINVAL);
    }
    // SAFETY: a `hwheel` is a host.
    let executor: Option<Function> = unsafe { std::mem::transmute(o.executor) };
    // SAFETY: as above.
    let wake: Option<Function> = unsafe { std::mem::transmute(o.wake) };
    Ok(Options {
        clock: match o.clock {
            HWHEEL_CLOCK_MONOTONIC => Clock::Monotonic,
            HWHEEL_CLOCK_BOOTTIME => Clock::Boottime,
            HWHEEL_CLOCK_REALTIME => Clock::Realtime,
            HWHEEL_CLOCK_MANUAL => Clock::Manual,
            _ => return Err(EINVAL),
        },
        tick_ns: o.tick_ns,
        levels: o.levels,
        slots: o.slots,
        max_timers: o.max_timers,
        start_ns: o.start_ns,
        crew: Crew {
            workers: o.workers,
            queue: o.queue,
            overload: match o.overload {
                HWHEEL_OVERLOAD_RUN => Overload::Run,
                HWHEEL_OVERLOAD_DROP => Overload::Drop,
                _ => return Err(EINVAL),
            },
        },
        executor: executor.map(|func| Executor {
            func,
            arg: o.executor_arg.expose_provenance(),
        }),
        wake: wake.map(|func| Executor {
            func,
            arg: o.wake_arg.expose_provenance(),
        }),
    })
}

/// hwheel_create() - Make a wheel.
/// @options: how to make it; NULL for the defaults.
/// @wheel: receives the wheel.
///
/// The new wheel has no timers, and no thread drives it yet. Apart from its
/// workers it has no threads, and it has no descriptor: hwheel_fd() makes the
/// descriptor, hwheel_start() the tick thread and the descriptor.
///
/// Return:
/// * 0 - @wheel is set.
/// * -EINVAL - @wheel is NULL, or an option is out of range.
/// * -E2BIG - the options have members that this version does not know, or @size
///   is above 4096.
/// * -ENOMEM - no memory, no address space, or no key of pthread_key_create().
/// * -EAGAIN - the system cannot start the workers.
///
/// Context: any thread. May block in the kernel for memory.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn hwheel_create(
    options: *const hwheel_options,
    wheel: Option<&mut MaybeUninit<*mut hwheel>>,
) -> c_int {
    number((|| {
        let wheel = wheel.ok_or(EINVAL)?;
        // SAFETY: the caller's promise.
        let options = translate(&unsafe { extensible(options) }?)?;
        wheel.write(Host::create(options, call)?.cast());
        Ok(0)
    })())
}

/// hwheel_destroy() - Stop and free a wheel.
/// @wheel: the wheel; NULL is allowed.
///
/// Stops the wheel like hwheel_stop(), then frees it with all its timers and its
/// descriptor. Pending timers do not fire. Call hwheel_drain() first to get them
/// back. All handles of the wheel become invalid.
///
/// A forked child may destroy its copy of the wheel. That frees memory only. In
/// a child that a callback has forked, this call returns -EDEADLK until the
/// callback returns.
///
/// Return:
/// * 0 - the wheel is gone.
/// * -EDEADLK - the caller is a callback or the executor of this wheel, or a
///   callback that another callback waits for; nothing has changed.
/// * -EBUSY - another thread is in hwheel_stop().
///
/// Context: no other thread may use the wheel during or after this call. May run
/// queued callbacks on the caller's stack. Blocks until every running callback
/// has returned.
#[no_mangle]
pub unsafe extern "C" fn hwheel_destroy(wheel: *mut hwheel) -> c_int {
    if wheel.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    number(unsafe { Host::destroy(wheel.cast()) }.map(|()| 0))
}
