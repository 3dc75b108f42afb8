//! How a wheel is made. C has the same struct, and these comments are the header's.

use super::Errno;
use crate::core::slab::MOST;
use crate::sys::clock::Clock;
use core::ffi::c_void;
use core::ptr::NonNull;

const MOST_WORKERS: u32 = 256;
const LONGEST_QUEUE: u32 = 1 << 20;

/// How the wheel calls the handler when the workers' queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overload {
    /// The driving thread calls the handler.
    #[default]
    Run,
    /// The handler is not called. `Stats::dropped` counts this.
    Drop,
}

/// A `struct hwheel`, which is a host.
///
/// cbindgen:ignore
pub(crate) type WheelInC = c_void;

/// The caller's function that wakes the loop which drives the wheel.
///
/// An arm calls it if its timer is due before the time that the last
/// hwheel_poll() or hwheel_advance() has announced in hwheel_run.next_ns. The
/// end of a callback on a worker calls it if the timer has become due again. The
/// calling thread holds no lock of the wheel. One call serves all arms until the
/// next hwheel_poll() or hwheel_advance(), so a loop that was woken calls one of
/// the two before it sleeps again. Threads that arm timers concurrently may each
/// call the function.
///
/// A call may come when the loop does not sleep, also while it drives the wheel.
/// The loop must not lose it: the next sleep then ends at once. A loop that
/// drives a wheel with HWHEEL_CLOCK_REALTIME sleeps on the same clock, or polls
/// when the clock is set, because no function announces that.
///
/// A loop that sleeps until HWHEEL_NEVER is woken by each arm of a timer that
/// ever fires, however far its time, and however long the loop has slept.
///
/// The function must not block, and no exception may leave it. It may call the
/// functions that a callback may call, and may arm timers.
pub(crate) type WakeFn =
    Option<unsafe extern "C-unwind" fn(wheel: *mut WheelInC, wake_arg: Option<NonNull<c_void>>)>;

/// The caller's executor. It arranges that a thread soon calls
/// hwheel_run_queued() once.
///
/// The driving thread calls it once for each callback that it has put into the
/// queue, so it must not block for long. It may refuse or lose a request: the
/// callback then waits until a thread calls hwheel_run_queued(). It may call any
/// function of the wheel that a callback may call. It must return, and no
/// exception may leave it.
///
/// hwheel_stop() and hwheel_destroy() run the callbacks that are still queued,
/// so the executor's threads may end before these calls. An executor that no
/// longer runs anything delays callbacks and nothing else.
pub(crate) type ExecutorFn = Option<
    unsafe extern "C-unwind" fn(wheel: *mut WheelInC, executor_arg: Option<NonNull<c_void>>),
>;

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
///   then return -ENOSPC early: below the limit by up to 64 timers for each
///   thread that is stopped.
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
/// @owned: 1 for a wheel that one thread owns, 0 for one that any thread may
///   use; default 0. The thread that calls hwheel_create() is the owner, until
///   it calls hwheel_disown(). Other threads send the owner timers by
///   hwheel_once() without a handle. @wake or the descriptor wakes the owner
///   for them; without either nobody is woken. An arm of the owner does not
///   call @wake: the owner drives the wheel before it sleeps. Not together with
///   @workers or @executor, and hwheel_start() returns -EINVAL.
///
/// Without workers or an executor, @queue and @overload are checked, but have no
/// effect.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Options {
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
    pub executor: ExecutorFn,
    pub executor_arg: Option<NonNull<c_void>>,
    pub wake: WakeFn,
    pub wake_arg: Option<NonNull<c_void>>,
    pub owned: u32,
}

// SAFETY: numbers, and addresses that only the caller's functions follow.
unsafe impl Send for Options {}
// SAFETY: as above.
unsafe impl Sync for Options {}

impl Options {
    /// Callbacks do not run in the driver's thread.
    pub fn is_pooled(&self) -> bool {
        self.workers != 0 || self.executor.is_some()
    }

    /// Fills in the default values. Refuses values out of range, except those that
    /// `Wheel::make` refuses.
    pub fn check(mut self) -> Result<Options, Errno> {
        fn or<T: Default + PartialEq>(value: &mut T, default: T) {
            if *value == T::default() {
                *value = default;
            }
        }
        or(&mut self.tick_ns, 1_000_000);
        or(&mut self.levels, 4);
        or(&mut self.slots, 256);
        or(&mut self.max_timers, MOST);
        or(&mut self.queue, 1024);
        if self.tick_ns > 3_600_000_000_000
            || !self.slots.is_power_of_two()
            || self.max_timers > MOST
            || self.clock > Clock::Manual as u32
            || (self.clock != Clock::Manual as u32 && self.start_ns != 0)
            || self.workers > MOST_WORKERS
            || (self.workers != 0 && self.executor.is_some())
            || !self.queue.is_power_of_two()
            || self.queue > LONGEST_QUEUE
            || self.overload > Overload::Drop as u32
            || (self.executor.is_none() && self.executor_arg.is_some())
            || (self.wake.is_none() && self.wake_arg.is_some())
            || self.owned > 1
            || (self.owned != 0 && self.is_pooled())
        {
            return Err(-libc::EINVAL);
        }
        Ok(self)
    }
}
