//! The C functions: validate, call, map the error. Their documentation is the
//! header's.
//!
//! No panic crosses this boundary: the library is built to abort on one, and
//! nothing here can cause one.

// Names and comments are for readers of C.
#![allow(non_camel_case_types, rustdoc::broken_intra_doc_links)]

use crate::runtime::foreign::{guarded, number_of, pointer_of};
use crate::runtime::keys::{Target, LONGEST};
use crate::runtime::pool::{Crew, Overload, LONGEST_QUEUE, MOST_WORKERS};
use crate::runtime::{number, Budget, Errno, Executor, Host, Options, When};
use crate::slab::{AUTO, BURST, DELAY, MOST};
use crate::state::SHUT;
use crate::sweep::Fired;
use crate::sys::clock::Clock;
use crate::wheel::{How, Spec};
use std::ffi::{c_char, c_int, c_void};

/// Major version: incremented when the ABI breaks.
pub const HWHEEL_VERSION_MAJOR: u32 = 0;
/// Minor version: incremented when something is added.
pub const HWHEEL_VERSION_MINOR: u32 = 1;
/// Patch version.
pub const HWHEEL_VERSION_PATCH: u32 = 0;

/// Clock: CLOCK_MONOTONIC, the default.
pub const HWHEEL_CLOCK_MONOTONIC: u32 = 0;
/// Clock: CLOCK_BOOTTIME, which also counts the time the system is suspended.
pub const HWHEEL_CLOCK_BOOTTIME: u32 = 1;
/// Clock: CLOCK_REALTIME, which follows the wall clock when that is set. Steps back are
/// held at the last time that the wheel has seen, and delays are counted from there: a
/// delay that is armed after a step back takes longer by the step. For delays take
/// HWHEEL_CLOCK_MONOTONIC.
pub const HWHEEL_CLOCK_REALTIME: u32 = 2;
/// Clock: the caller's own, moved by hwheel_advance().
pub const HWHEEL_CLOCK_MANUAL: u32 = 3;

/// Option flag: delays are counted from a time that is cheaper to read: by the
/// processor's counter, from the last time that the thread has read the clock. It is
/// never before CLOCK_MONOTONIC, and less than 0.1 ms after it, so that no timer is
/// early. HWHEEL_CLOCK_MONOTONIC alone; hwheel_create() takes 0.1 ms longer. Where
/// the kernel does not go by such a counter, the clock is read as without the flag.
pub const HWHEEL_COARSE: u32 = 1;

/// Overload: a callback for which the queue has no room runs in the thread that
/// drives. The default.
pub const HWHEEL_OVERLOAD_RUN: u32 = 0;
/// Overload: the thread that drives waits until there is room.
pub const HWHEEL_OVERLOAD_BLOCK: u32 = 1;
/// Overload: the callback is not called; hwheel_stats.dropped counts it.
pub const HWHEEL_OVERLOAD_DROP: u32 = 2;

/// Arm flag: the time is a deadline on the wheel's clock, not a delay.
pub const HWHEEL_ABSTIME: u32 = 1;
/// Periodic flag: missed periods are fired one by one until caught up.
pub const HWHEEL_MISSED_BURST: u32 = 2;
/// Periodic flag: after a miss the next period is counted from now.
pub const HWHEEL_MISSED_DELAY: u32 = 4;

/// Event flag: handed back by hwheel_drain(), not fired.
pub const HWHEEL_EVENT_DRAINED: u32 = 1;

/// A delay or deadline that never comes.
pub const HWHEEL_NEVER: u64 = u64::MAX;

/// The name of a timer: never 0, never used for another timer while anybody
/// could still hold it. A wrong one is an error (-ESTALE), never a danger.
pub type hwheel_timer_t = u64;

/// A timing wheel. Opaque; made by hwheel_create().
pub struct hwheel {
    _opaque: [u8; 0],
}

/// How a wheel is made. A member that is zero takes its default; so a zeroed
/// struct with only @size set is the default wheel.
///
/// @size: sizeof(struct hwheel_options). A shorter struct of an older version
///   is completed with zeros; a longer one, up to 4096, is accepted if its
///   unknown tail is zero.
/// @clock: one of HWHEEL_CLOCK_*.
/// @tick_ns: the length of a tick in nanoseconds, 1 to 3600000000000; default
///   1000000 (1 ms). A timer fires at the first tick at or after its deadline.
/// @levels: 1 for the hashed wheel with rounds, 2 to 8 for the hierarchical
///   wheel; default 4.
/// @slots: slots of each level, a power of two from 2 to 65536; default 256.
///   @levels times log2(@slots) is at most 48.
/// @max_timers: the limit on live timers, 1 to 67108864; default 67108864. A timer that
///   frees itself counts until its callback is over.
/// @flags: HWHEEL_COARSE or zero.
/// @start_ns: where a manual clock starts, below 2^62 ticks; zero for the other
///   clocks.
/// @workers: threads that run callbacks, up to 256, made by hwheel_create(). The
///   default, zero: the thread that drives runs them.
/// @queue: how many fired timers may wait for a worker or the executor, a power
///   of two up to 1048576; default 1024. Unused without @workers or @executor.
/// @overload: what happens to one for which there is no room: HWHEEL_OVERLOAD_*.
///   Unused without @workers or @executor.
/// @budget_items: a sweep stops after so many fired timers, and the next call
///   goes on; zero for no limit. The tick thread goes on at once, after it has
///   seen whether it is to stop.
/// @budget_ns: a sweep stops after so many nanoseconds; zero for no limit. A
///   callback that runs is not interrupted.
/// @executor: called in the thread that drives for each callback that was put
///   into the queue: have some thread call hwheel_work(). Not with @workers.
/// @executor_arg: handed to @executor.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hwheel_options {
    pub size: u32,
    pub clock: u32,
    pub tick_ns: u64,
    pub levels: u32,
    pub slots: u32,
    pub max_timers: u32,
    pub flags: u32,
    pub start_ns: u64,
    pub workers: u32,
    pub queue: u32,
    pub overload: u32,
    pub budget_items: u32,
    pub budget_ns: u64,
    pub executor: hwheel_executor_fn,
    pub executor_arg: *mut c_void,
}

impl hwheel_options {
    // SAFETY: plain old data.
    pub(crate) const DEFAULT: Self = unsafe { std::mem::zeroed() };
}

/// A timer that has fired, or that hwheel_drain() has handed back.
///
/// @timer: its handle. Stale already if the timer was one that frees itself; 0
///   if it was one with a key.
/// @cookie: what the caller gave when it made the timer.
/// @deadline_ns: when it was due.
/// @missed: how many periods were left out: before this one, because the callback
///   was still running; after it, because they had passed as well when it was
///   fired.
/// @flags: HWHEEL_EVENT_*.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hwheel_event {
    pub timer: hwheel_timer_t,
    pub cookie: u64,
    pub deadline_ns: u64,
    pub missed: u32,
    pub flags: u32,
}

/// A callback. It runs in the thread that drives the wheel, or in a worker or
/// the executor's thread if there are such, and may do anything with the wheel
/// except destroy, stop or drain it, or wait for itself. It must return; a C++
/// exception that leaves it ends the process. The callback of one timer never
/// runs in two threads at once: a period that comes due meanwhile is left out
/// and counted as missed, unless it is a HWHEEL_MISSED_BURST; what else comes
/// due meanwhile fires when it is over.
pub type hwheel_fn =
    Option<unsafe extern "C-unwind" fn(wheel: *mut hwheel, event: *const hwheel_event)>;

/// The caller's executor: makes sure that some thread calls hwheel_work() once,
/// soon. Called in the thread that drives, which it must not hold up. The function
/// may call what a callback may call, and hwheel_work(); it must return. An executor
/// that runs nothing any more delays callbacks and nothing else: hwheel_stop() and
/// hwheel_destroy() run what is queued themselves.
pub type hwheel_executor_fn =
    Option<unsafe extern "C-unwind" fn(wheel: *mut hwheel, executor_arg: *mut c_void)>;

/// What a wheel has done. Counts are exact when nobody uses the wheel.
///
/// @size: sizeof(struct hwheel_stats), set by the caller.
/// @reserved: zero.
/// @live: timers that exist, armed or not.
/// @fired: timers fired, periods counted one by one. Callbacks that were taken out of
///   the queue are cancelled, not fired.
/// @missed: periods left out.
/// @unclaimed: timers without a callback that came due where nobody took events.
/// @sweeps: how often the hand was moved.
/// @wakeups: how often the tick thread woke.
/// @kicks: how often an arm woke the driver, being the earliest.
/// @pushes: promises put into buckets by arms. An arm whose timer is looked at
///   early enough anyway pushes none.
/// @repeats: pushes made again because the hand had just passed.
/// @slab_bytes: memory of timers.
/// @armed: arms of timers that rested; each period that follows another is one.
///   Each ends in one way: @armed is @fired + @cancelled + @drained + @pending.
/// @rearmed: arms that moved a pending timer. Where several threads move one
///   timer at the same moment, some may not be counted.
/// @quiet: of these, those that pushed no promise.
/// @cancelled: cancels of pending timers.
/// @drained: pending timers handed back by hwheel_drain().
/// @pending: timers that are pending now.
/// @entries: promises in buckets at present, seven bytes each.
/// @dead: of these, those that nobody waits for any more.
/// @queued: callbacks waiting for a worker.
/// @lateness: how many timers fired how late, from the deadline to the begin of
///   the sweep that fired them: [0] not at all, [i] from 2^(i-1) ns to below
///   2^i ns, the last also what was later.
/// @dropped: callbacks that were not called, because the queue was full.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hwheel_stats {
    pub size: u32,
    pub reserved: u32,
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
    pub lateness: [u64; 40],
    pub dropped: u64,
}

const EINVAL: Errno = -libc::EINVAL;

/// The host behind a pointer.
///
/// # Safety
/// `wheel` is null or came from `hwheel_create` and is not destroyed.
#[inline]
unsafe fn host<'a>(wheel: *mut hwheel) -> Result<&'a Host, Errno> {
    // SAFETY: the caller's promise.
    unsafe { wheel.cast::<Host>().as_ref() }.ok_or(EINVAL)
}

/// Reads an extensible struct the way the kernel does.
///
/// # Safety
/// `from` points to the number of bytes that its first word says.
unsafe fn read_extensible(from: *const hwheel_options) -> Result<hwheel_options, Errno> {
    let ours = size_of::<hwheel_options>();
    // SAFETY: the caller's promise covers at least the first word.
    let size = unsafe { (*from).size } as usize;
    if size < size_of::<u64>() {
        return Err(EINVAL);
    }
    if size > 4096 {
        return Err(-libc::E2BIG);
    }
    let mut options = hwheel_options::DEFAULT;
    // SAFETY: `size` bytes are readable, and at most `ours` are written.
    unsafe {
        let (from, to) = (from.cast::<u8>(), (&raw mut options).cast::<u8>());
        std::ptr::copy_nonoverlapping(from, to, size.min(ours));
        for i in ours..size {
            if *from.add(i) != 0 {
                return Err(-libc::E2BIG);
            }
        }
    }
    Ok(options)
}

/// The options that are meant, if they are in range.
pub(crate) fn options(o: &hwheel_options) -> Result<Options, Errno> {
    let or = |value: u32, default| if value == 0 { default } else { value };
    let clock = match o.clock {
        HWHEEL_CLOCK_MONOTONIC => Clock::System(libc::CLOCK_MONOTONIC),
        HWHEEL_CLOCK_BOOTTIME => Clock::System(libc::CLOCK_BOOTTIME),
        HWHEEL_CLOCK_REALTIME => Clock::System(libc::CLOCK_REALTIME),
        HWHEEL_CLOCK_MANUAL => Clock::Manual,
        _ => return Err(EINVAL),
    };
    let overload = match o.overload {
        HWHEEL_OVERLOAD_RUN => Overload::Run,
        HWHEEL_OVERLOAD_BLOCK => Overload::Block,
        HWHEEL_OVERLOAD_DROP => Overload::Drop,
        _ => return Err(EINVAL),
    };
    let executor = o.executor.map(|f| Executor {
        call: execute,
        func: f as *const (),
        arg: o.executor_arg,
    });
    let crew = Crew {
        workers: o.workers,
        queue: or(o.queue, 1024),
        overload,
    };
    let pooled = o.workers != 0 || executor.is_some();
    if o.workers > MOST_WORKERS
        || (o.workers != 0 && executor.is_some())
        || !crew.queue.is_power_of_two()
        || crew.queue > LONGEST_QUEUE
        || (executor.is_none() && !o.executor_arg.is_null())
    {
        return Err(EINVAL);
    }
    let made = Options {
        clock,
        tick_ns: if o.tick_ns == 0 { 1_000_000 } else { o.tick_ns },
        levels: or(o.levels, 4),
        slots: or(o.slots, 256),
        max_timers: or(o.max_timers, MOST),
        start_ns: o.start_ns,
        coarse: o.flags & HWHEEL_COARSE != 0,
        budget: Budget {
            items: o.budget_items,
            ns: o.budget_ns,
        },
        crew: pooled.then_some(crew),
        executor,
    };
    if made.tick_ns > 3_600_000_000_000
        || made.max_timers > MOST
        || o.flags & !HWHEEL_COARSE != 0
        || (made.coarse && clock != Clock::System(libc::CLOCK_MONOTONIC))
        || (clock != Clock::Manual && o.start_ns != 0)
        || made.slots > 65_536
    {
        return Err(EINVAL);
    }
    Ok(made)
}

/// Calls the C function of an executor.
///
/// # Safety
/// `executor.func` is a `hwheel_executor_fn` that came with the options.
unsafe fn execute(host: &Host, executor: Executor) {
    // SAFETY: the caller's promise; a null one is `None`.
    let func = unsafe { std::mem::transmute::<*const (), hwheel_executor_fn>(executor.func) };
    if let Some(func) = func {
        let wheel = std::ptr::from_ref(host).cast_mut().cast();
        // SAFETY: the contract of `hwheel_executor_fn`.
        guarded(|| unsafe { func(wheel, executor.arg) });
    }
}

/// A callback as the core keeps it.
fn number_of_fn(func: hwheel_fn) -> usize {
    number_of(func.map_or(std::ptr::null(), |f| f as *const ()))
}

fn event(fired: &Fired, flags: u32) -> hwheel_event {
    hwheel_event {
        timer: fired.handle,
        cookie: fired.cookie,
        deadline_ns: fired.due_ns,
        missed: u32::try_from(fired.missed).unwrap_or(u32::MAX),
        flags,
    }
}

/// Calls the C function of a timer.
///
/// # Safety
/// `fired.func` is a `hwheel_fn` that `hwheel_setup` or a like call was given.
unsafe fn call(host: &Host, fired: &Fired) {
    // SAFETY: the caller's promise; a null one is `None`.
    let func = unsafe { std::mem::transmute::<*const (), hwheel_fn>(pointer_of(fired.func)) };
    if let Some(func) = func {
        let event = event(fired, 0);
        let wheel = std::ptr::from_ref(host).cast_mut().cast();
        // SAFETY: the contract of `hwheel_fn`.
        guarded(|| unsafe { func(wheel, &raw const event) });
    }
}

/// A caller's array of events.
struct Batch {
    at: *mut hwheel_event,
    len: u32,
    max: u32,
    flags: u32,
}

impl Batch {
    fn new(at: *mut hwheel_event, max: u32, flags: u32) -> Result<Self, Errno> {
        if (at.is_null() && max != 0) || max > i32::MAX as u32 {
            return Err(EINVAL);
        }
        Ok(Batch {
            at,
            len: 0,
            max,
            flags,
        })
    }

    /// True if there is room for one more.
    fn put(&mut self, fired: &Fired) -> bool {
        // SAFETY: the array has `max` events and is asked for none when full.
        unsafe {
            self.at
                .add(self.len as usize)
                .write(event(fired, self.flags))
        };
        self.len += 1;
        self.len < self.max
    }
}

/// hwheel_version() - The version of the library that is linked.
///
/// Return: major * 65536 + minor * 256 + patch; compare with HWHEEL_VERSION_*.
///
/// Context: any thread, any time. Never blocks.
#[no_mangle]
pub extern "C" fn hwheel_version() -> u32 {
    HWHEEL_VERSION_MAJOR << 16 | HWHEEL_VERSION_MINOR << 8 | HWHEEL_VERSION_PATCH
}

/// hwheel_version_string() - The same for people.
///
/// Return: a string such as "0.1.0" that lives as long as the process.
///
/// Context: any thread, any time. Never blocks.
#[no_mangle]
pub extern "C" fn hwheel_version_string() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// hwheel_create() - Make a wheel.
/// @options: its clock, tick and shape; NULL for the defaults.
/// @flags: zero.
/// @wheel: where the wheel is written; untouched on failure.
///
/// Return:
/// * 0 - @wheel is a wheel with no timers, which nobody drives yet.
/// * -EINVAL - @wheel is NULL, a flag is unknown, a member is out of range, or
///   @size is below 8.
/// * -E2BIG - the options have a tail that this version does not know.
/// * -ENOMEM - no memory or address space; nothing is left behind.
/// * -EAGAIN - no threads for @workers; nothing is left behind.
///
/// Context: any thread. May block in the kernel for memory. No descriptor and
/// no thread but the workers is made before hwheel_fd() or hwheel_start() asks
/// for one.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_create(
    options: *const hwheel_options,
    flags: u32,
    wheel: *mut *mut hwheel,
) -> c_int {
    number((|| {
        if wheel.is_null() || flags != 0 {
            return Err(EINVAL);
        }
        let mut given = hwheel_options::DEFAULT;
        if !options.is_null() {
            // SAFETY: the caller's promise.
            given = unsafe { read_extensible(options) }?;
        }
        let made = Host::create(&self::options(&given)?, call)?;
        // SAFETY: not null.
        unsafe { wheel.write(made.cast()) };
        Ok(0)
    })())
}

/// hwheel_destroy() - Stop and free a wheel.
/// @wheel: the wheel, or NULL for nothing.
///
/// The tick thread is stopped and waited for. Armed timers do not fire; to get
/// them back call hwheel_drain() first. Callbacks that wait in the queue of workers
/// or executor run before, as in hwheel_stop(), in bounded time. A forked child may
/// destroy its copy; nothing runs there.
///
/// Return:
/// * 0 - @wheel is gone.
/// * -EDEADLK - called from one of its own callbacks or from its executor; nothing
///   has changed.
/// * -EBUSY - another thread is in hwheel_stop().
///
/// Context: the caller makes sure that no other thread uses the wheel. Blocks
/// while a callback of the wheel runs. Runs callbacks that are queued.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_destroy(wheel: *mut hwheel) -> c_int {
    if wheel.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise.
    number(unsafe { Host::destroy(wheel.cast()) }.map(|()| 0))
}

/// hwheel_now() - The time on the wheel's clock.
/// @wheel: the wheel.
/// @now_ns: where the time is written, in nanoseconds.
///
/// A clock that steps back is held at the last time the wheel has seen.
///
/// Return:
/// * 0 - @now_ns is set.
/// * -EINVAL - an argument is NULL.
/// * -ESHUTDOWN - a forked child.
///
/// Context: any thread. Never blocks.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_now(wheel: *mut hwheel, now_ns: *mut u64) -> c_int {
    number((|| {
        // SAFETY: the caller's promise.
        let host = unsafe { host(wheel) }?;
        if now_ns.is_null() {
            return Err(EINVAL);
        }
        host.check()?;
        // SAFETY: not null.
        unsafe { now_ns.write(host.now()) };
        Ok(0)
    })())
}

/// hwheel_next_expiry() - When the next timer fires.
/// @wheel: the wheel.
/// @deadline_ns: where the time is written, in nanoseconds on the wheel's
///   clock: the begin of the tick at which the wheel wants to be driven next.
///
/// Never later than the truth. The time may be earlier than the truth where many
/// timers were cancelled, or while another thread drives the wheel. Then it is the
/// begin of a tick that this thread has come to.
///
/// Return:
/// * 1 - @deadline_ns is set.
/// * 0 - no timer is armed, or all are due never; @deadline_ns is untouched.
/// * -EINVAL - an argument is NULL.
/// * -ESHUTDOWN - a forked child.
///
/// Context: any thread, also in a callback. Takes no lock: it neither waits for a
/// thread that drives nor has one get -EBUSY. Does a bounded amount of work.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_next_expiry(wheel: *mut hwheel, deadline_ns: *mut u64) -> c_int {
    number((|| {
        // SAFETY: the caller's promise.
        let host = unsafe { host(wheel) }?;
        if deadline_ns.is_null() {
            return Err(EINVAL);
        }
        let Some(ns) = host.next_expiry()? else {
            return Ok(0);
        };
        // SAFETY: not null.
        unsafe { deadline_ns.write(ns) };
        Ok(1)
    })())
}

/// What a wheel has done so far.
pub(crate) fn stats(host: &Host) -> hwheel_stats {
    let w = host.wheel();
    let driven = &w.driver.count;
    let (pending, moves) = w.survey();
    let armed = w.total(|c| &c.armed[0]) + driven.periods.get();
    let rearmed = w.total(|c| &c.armed[1]) + moves;
    let (queued, dropped, revoked) = host.queue();
    let fired = driven.fired.get().saturating_sub(revoked);
    let ended = fired + driven.drained.get();
    let entries = w.entries();
    hwheel_stats {
        size: size_of::<hwheel_stats>() as u32,
        reserved: 0,
        live: w.live(),
        fired,
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
        dropped,
        lateness: std::array::from_fn(|i| host.lateness[i].get()),
    }
}

/// hwheel_get_stats() - What the wheel has done so far.
/// @wheel: the wheel.
/// @stats: its @size says how much of it may be written.
///
/// Return:
/// * 0 - @stats is filled, as far as its size goes; a part that this version
///   does not know is zeroed.
/// * -EINVAL - an argument is NULL, or the size is below 8.
/// * -E2BIG - the size is above 4096.
/// * -ESHUTDOWN - a forked child.
///
/// Context: any thread. Never blocks. Looks at every timer once: milliseconds
/// for a million.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_get_stats(wheel: *mut hwheel, stats: *mut hwheel_stats) -> c_int {
    number((|| {
        // SAFETY: the caller's promise.
        let host = unsafe { host(wheel) }?;
        if stats.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: not null, and at least the first word is there.
        let size = unsafe { (*stats).size } as usize;
        if size < size_of::<u64>() {
            return Err(EINVAL);
        }
        if size > 4096 {
            return Err(-libc::E2BIG);
        }
        host.check()?;
        let all = hwheel_stats {
            size: size as u32,
            ..self::stats(host)
        };
        // SAFETY: `size` bytes are writable, by the caller's promise.
        unsafe {
            let ours = size_of::<hwheel_stats>().min(size);
            let to = stats.cast::<u8>();
            std::ptr::copy_nonoverlapping((&raw const all).cast::<u8>(), to, ours);
            std::ptr::write_bytes(to.add(ours), 0, size - ours);
        }
        Ok(0)
    })())
}

/// hwheel_setup() - Make a timer that can be armed again and again.
/// @wheel: the wheel.
/// @fn: called when it fires; NULL for a timer that is delivered as an event.
/// @cookie: handed to the callback or the event.
/// @flags: zero.
/// @timer: where the handle is written; untouched on failure.
///
/// The timer is not armed. It exists until hwheel_free().
///
/// Return:
/// * 0 - @timer is a new timer.
/// * -EINVAL - @wheel or @timer is NULL, or a flag is unknown.
/// * -ENOSPC - the limit on live timers is reached.
/// * -ENOMEM - no memory; nothing has changed.
/// * -ESHUTDOWN - the wheel was drained, or this is a forked child.
///
/// Context: any thread, also in a callback. Lock-free; calls no allocator.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_setup(
    wheel: *mut hwheel,
    r#fn: hwheel_fn,
    cookie: u64,
    flags: u32,
    timer: *mut hwheel_timer_t,
) -> c_int {
    number((|| {
        // SAFETY: the caller's promise.
        let host = unsafe { host(wheel) }?;
        if timer.is_null() || flags != 0 {
            return Err(EINVAL);
        }
        let spec = Spec {
            func: number_of_fn(r#fn),
            cookie,
            ..Spec::default()
        };
        let handle = host.setup(spec, None)?;
        // SAFETY: not null.
        unsafe { timer.write(handle) };
        Ok(0)
    })())
}

/// What a time means, with no flag but HWHEEL_ABSTIME.
fn when(ns: u64, flags: u32) -> Result<When, Errno> {
    match flags {
        0 => Ok(When::After(ns)),
        HWHEEL_ABSTIME => Ok(When::At(ns)),
        _ => Err(EINVAL),
    }
}

/// Arms a timer that exists.
///
/// # Safety
/// As `host`.
#[inline]
unsafe fn arm(wheel: *mut hwheel, timer: hwheel_timer_t, ns: u64, flags: u32, how: How) -> i32 {
    // SAFETY: the caller's promise.
    match (unsafe { host(wheel) }, when(ns, flags)) {
        (Ok(host), Ok(when)) => number(host.arm(timer, when, how)),
        _ => EINVAL,
    }
}

/// hwheel_mod() - Arm a timer, or move it if it is armed.
/// @wheel: the wheel.
/// @timer: the timer.
/// @delay_ns: nanoseconds from now; HWHEEL_NEVER is never. With 0 it fires at
///   the next tick, not within this call.
/// @flags: HWHEEL_ABSTIME if the time is a deadline.
///
/// After it has returned the timer does not fire at its old deadline any more.
/// On a periodic timer it sets the next deadline, from which the periods are
/// counted on.
///
/// Return:
/// * 1 - it was armed and has been moved.
/// * 0 - it was not armed and is now.
/// * -EINVAL - @wheel is NULL or a flag is unknown.
/// * -ESTALE - no such timer.
/// * -ENOMEM - no memory; nothing has changed.
/// * -ESHUTDOWN - the timer was shut down, the wheel was drained, or this is a
///   forked child.
///
/// Context: any thread, also in a callback. Lock-free; calls no allocator. Makes
/// a system call only to wake the driver for a deadline that is the earliest,
/// or to map memory.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_mod(
    wheel: *mut hwheel,
    timer: hwheel_timer_t,
    delay_ns: u64,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { host(wheel) } {
        Ok(host) if flags == 0 => match host.arming_now().checked_add(delay_ns) {
            Some(ns) => host.arm_at(timer, ns),
            None => host.arm_at(timer, HWHEEL_NEVER),
        },
        Ok(host) if flags == HWHEEL_ABSTIME => host.arm_at(timer, delay_ns),
        _ => EINVAL,
    }
}

/// hwheel_mod_at() - Arm or move a timer to a deadline.
/// @wheel: the wheel.
/// @timer: the timer.
/// @deadline_ns: nanoseconds on the wheel's clock; HWHEEL_NEVER is never. One
///   that has passed fires at the next tick.
/// @flags: zero.
///
/// The same as hwheel_mod() with HWHEEL_ABSTIME. The clock is not read.
///
/// Return: as hwheel_mod().
///
/// Context: as hwheel_mod().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_mod_at(
    wheel: *mut hwheel,
    timer: hwheel_timer_t,
    deadline_ns: u64,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { host(wheel) } {
        Ok(host) if flags == 0 => host.arm_at(timer, deadline_ns),
        _ => EINVAL,
    }
}

/// hwheel_mod_range() - Arm a timer, or move it, to any time in a range.
/// @wheel: the wheel.
/// @timer: the timer.
/// @delay_ns: nanoseconds from now to the earliest time.
/// @slack_ns: nanoseconds from there to the latest.
/// @flags: HWHEEL_ABSTIME if the earliest time is a deadline.
///
/// Of the ticks in the range that is chosen to which most other timers with slack
/// come as well, so that wake-ups are shared. A timer that is due in the range
/// already stays where it is, which costs next to nothing. The timer never fires
/// after the end of the range, unless no tick that is still to come lies in it: then
/// it fires at the first one after the earliest time.
///
/// Return: as hwheel_mod().
///
/// Context: as hwheel_mod().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_mod_range(
    wheel: *mut hwheel,
    timer: hwheel_timer_t,
    delay_ns: u64,
    slack_ns: u64,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    number(
        unsafe { host(wheel) }.and_then(|h| h.arm_range(timer, when(delay_ns, flags)?, slack_ns)),
    )
}

/// hwheel_reduce() - Arm a timer, or move it, but only to an earlier deadline.
/// @wheel: the wheel.
/// @timer: the timer.
/// @delay_ns: nanoseconds from now.
/// @flags: HWHEEL_ABSTIME if the time is a deadline.
///
/// Return:
/// * 1 - it was armed; it now fires at the earlier of both deadlines.
/// * 0 - it was not armed and is now.
/// * otherwise as hwheel_mod().
///
/// Context: as hwheel_mod().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_reduce(
    wheel: *mut hwheel,
    timer: hwheel_timer_t,
    delay_ns: u64,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { arm(wheel, timer, delay_ns, flags, How::Earlier) }
}

/// hwheel_mod_pending() - Move a timer, but only if it is armed.
/// @wheel: the wheel.
/// @timer: the timer.
/// @delay_ns: nanoseconds from now.
/// @flags: HWHEEL_ABSTIME if the time is a deadline.
///
/// Return:
/// * 1 - it was armed and has been moved.
/// * 0 - it was not armed; nothing has changed.
/// * otherwise as hwheel_mod().
///
/// Context: as hwheel_mod().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_mod_pending(
    wheel: *mut hwheel,
    timer: hwheel_timer_t,
    delay_ns: u64,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { arm(wheel, timer, delay_ns, flags, How::Pending) }
}

/// hwheel_delete() - Cancel a timer.
/// @wheel: the wheel.
/// @timer: the timer.
///
/// A timer of hwheel_setup() can be armed again. One of hwheel_after(),
/// hwheel_at() or hwheel_every() is freed. A callback that has begun goes on.
///
/// Return:
/// * 1 - it was armed and will not fire.
/// * 0 - it was not armed: it has fired, or its callback is running.
/// * -EINVAL - @wheel is NULL.
/// * -ESTALE - no such timer, or not any more.
/// * -ESHUTDOWN - a forked child.
///
/// Context: any thread, also in a callback. Lock-free; calls no allocator.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_delete(wheel: *mut hwheel, timer: hwheel_timer_t) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { host(wheel) } {
        Ok(host) => host.delete(timer),
        Err(e) => e,
    }
}

/// hwheel_delete_sync() - Cancel a timer and wait for its callback.
/// @wheel: the wheel.
/// @timer: the timer.
///
/// When it returns, the callback is not running on any thread and will not
/// start, unless somebody arms the timer again. A callback that waits in the queue
/// of workers or executor is taken out of it and does not run. The call runs no
/// callback itself.
///
/// Callbacks may wait for each other's timers as long as there is no ring of them:
/// the one that would close it is refused, across wheels as well.
///
/// Return:
/// * 1 - it was armed, or had armed itself again in its callback, or its callback
///   was taken out of the queue.
/// * 0 - it was not armed.
/// * -EINVAL - @wheel is NULL.
/// * -EDEADLK - called from the timer's own callback, or from one that this callback
///   waits for in turn; nothing has changed.
/// * -ESTALE - no such timer, or not any more; its callback is over.
/// * -ESHUTDOWN - a forked child.
///
/// Context: any thread, also in the callback of another timer. Blocks while
/// the callback runs, once it has begun.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_delete_sync(wheel: *mut hwheel, timer: hwheel_timer_t) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { host(wheel) }.and_then(|h| h.cancel_sync(timer, 0)))
}

/// hwheel_shutdown() - Cancel a timer for good.
/// @wheel: the wheel.
/// @timer: the timer.
///
/// As hwheel_delete(), and from now on every attempt to arm it is -ESHUTDOWN.
/// It still exists, and is freed by hwheel_free(); but a timer of
/// hwheel_after(), hwheel_at() or hwheel_every() is freed here.
///
/// Return: as hwheel_delete().
///
/// Context: as hwheel_delete().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_shutdown(wheel: *mut hwheel, timer: hwheel_timer_t) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { host(wheel) }.and_then(|h| h.cancel(timer, SHUT)))
}

/// hwheel_shutdown_sync() - Cancel a timer for good and wait for its callback.
/// @wheel: the wheel.
/// @timer: the timer.
///
/// As hwheel_shutdown(); when it returns, the callback is not running on any
/// thread and never starts again.
///
/// Return: as hwheel_delete_sync().
///
/// Context: as hwheel_delete_sync().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_shutdown_sync(wheel: *mut hwheel, timer: hwheel_timer_t) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { host(wheel) }.and_then(|h| h.cancel_sync(timer, SHUT)))
}

/// hwheel_free() - Cancel and free a timer.
/// @wheel: the wheel.
/// @timer: the timer.
///
/// The handle is stale from now on. If the callback is running, it goes on;
/// to wait for it, call hwheel_shutdown_sync() first.
///
/// Return: as hwheel_delete().
///
/// Context: as hwheel_delete(); also in the timer's own callback.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_free(wheel: *mut hwheel, timer: hwheel_timer_t) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { host(wheel) }.and_then(|h| h.free(timer)))
}

/// hwheel_pending() - Whether a timer is armed.
/// @wheel: the wheel.
/// @timer: the timer.
///
/// Return:
/// * 1 - it is armed.
/// * 0 - it is not.
/// * -EINVAL - @wheel is NULL.
/// * -ESTALE - no such timer, or not any more.
/// * -ESHUTDOWN - a forked child.
///
/// Context: any thread, also in a callback. Wait-free.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_pending(wheel: *mut hwheel, timer: hwheel_timer_t) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { host(wheel) }.and_then(|h| Ok(h.deadline(timer)?.is_some().into())))
}

/// hwheel_remaining() - How long until a timer's deadline.
/// @wheel: the wheel.
/// @timer: the timer.
/// @remaining_ns: where the nanoseconds are written: 0 if the deadline has
///   passed, HWHEEL_NEVER if it never comes.
///
/// Return:
/// * 1 - it is armed; @remaining_ns is set.
/// * 0 - it is not armed; @remaining_ns is untouched.
/// * -EINVAL - @wheel or @remaining_ns is NULL.
/// * -ESTALE - no such timer, or not any more.
/// * -ESHUTDOWN - a forked child.
///
/// Context: any thread, also in a callback. Wait-free.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_remaining(
    wheel: *mut hwheel,
    timer: hwheel_timer_t,
    remaining_ns: *mut u64,
) -> c_int {
    number((|| {
        // SAFETY: the caller's promise.
        let host = unsafe { host(wheel) }?;
        if remaining_ns.is_null() {
            return Err(EINVAL);
        }
        let Some(deadline) = host.deadline(timer)? else {
            return Ok(0);
        };
        let left = match deadline {
            u64::MAX => u64::MAX,
            d => d.saturating_sub(host.now()),
        };
        // SAFETY: not null.
        unsafe { remaining_ns.write(left) };
        Ok(1)
    })())
}

/// Makes a timer that frees itself, armed.
///
/// # Safety
/// Pointers as in the functions that call it.
unsafe fn one_call(wheel: *mut hwheel, when: When, spec: Spec, timer: *mut hwheel_timer_t) -> i32 {
    number((|| {
        // SAFETY: the caller's promise.
        let host = unsafe { host(wheel) }?;
        let handle = host.setup(spec, Some(when))?;
        if !timer.is_null() {
            // SAFETY: not null.
            unsafe { timer.write(handle) };
        }
        Ok(0)
    })())
}

/// A timer of one call that fires once.
///
/// # Safety
/// As `one_call`.
unsafe fn once(
    wheel: *mut hwheel,
    when: When,
    r#fn: hwheel_fn,
    cookie: u64,
    flags: u32,
    timer: *mut hwheel_timer_t,
) -> i32 {
    if flags != 0 {
        return EINVAL;
    }
    let spec = Spec {
        func: number_of_fn(r#fn),
        cookie,
        period: 0,
        kind: AUTO,
    };
    // SAFETY: the caller's promise.
    unsafe { one_call(wheel, when, spec, timer) }
}

/// hwheel_after() - Fire once after a delay.
/// @wheel: the wheel.
/// @delay_ns: nanoseconds from now; HWHEEL_NEVER is never.
/// @fn: the callback, or NULL for an event.
/// @cookie: handed to the callback or the event.
/// @flags: zero.
/// @timer: where the handle is written, with which it can be cancelled; may be
///   NULL. It may have fired, and the handle be stale, when this returns.
///
/// The timer frees itself when it has fired.
///
/// Return:
/// * 0 - it is armed.
/// * otherwise as hwheel_setup().
///
/// Context: as hwheel_mod().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_after(
    wheel: *mut hwheel,
    delay_ns: u64,
    r#fn: hwheel_fn,
    cookie: u64,
    flags: u32,
    timer: *mut hwheel_timer_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { once(wheel, When::After(delay_ns), r#fn, cookie, flags, timer) }
}

/// hwheel_at() - Fire once at a deadline.
/// @wheel: the wheel.
/// @deadline_ns: nanoseconds on the wheel's clock; HWHEEL_NEVER is never. One
///   that has passed fires at the next tick.
/// @fn: the callback, or NULL for an event.
/// @cookie: handed to the callback or the event.
/// @flags: zero.
/// @timer: as in hwheel_after().
///
/// Return: as hwheel_after().
///
/// Context: as hwheel_mod().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_at(
    wheel: *mut hwheel,
    deadline_ns: u64,
    r#fn: hwheel_fn,
    cookie: u64,
    flags: u32,
    timer: *mut hwheel_timer_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { once(wheel, When::At(deadline_ns), r#fn, cookie, flags, timer) }
}

/// hwheel_every() - Fire again and again.
/// @wheel: the wheel.
/// @first_ns: nanoseconds from now to the first time.
/// @period_ns: nanoseconds from each deadline to the next, at least 1. A
///   period below a tick is fired once a tick, and the rest counts as missed.
/// @fn: the callback, or NULL for an event.
/// @cookie: handed to the callback or the event.
/// @flags: HWHEEL_ABSTIME if the first time is a deadline; and what to do when
///   a period was missed because the wheel was not driven in time. By default
///   missed periods are left out and counted, and the rhythm is kept. With
///   HWHEEL_MISSED_BURST each is fired, at once, until caught up. With
///   HWHEEL_MISSED_DELAY the next is counted from now.
/// @timer: as in hwheel_after().
///
/// Deadlines do not drift: each is counted from the last one, not from when
/// the callback ran. While the callback runs the timer is armed for the next
/// period, so that it can be cancelled there.
///
/// Return: as hwheel_after(); -EINVAL also if @period_ns is 0.
///
/// Context: as hwheel_mod().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_every(
    wheel: *mut hwheel,
    first_ns: u64,
    period_ns: u64,
    r#fn: hwheel_fn,
    cookie: u64,
    flags: u32,
    timer: *mut hwheel_timer_t,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { hwheel_every_range(wheel, first_ns, period_ns, 0, r#fn, cookie, flags, timer) }
}

/// hwheel_every_range() - Fire again and again, at any time in a range.
/// @wheel: the wheel.
/// @first_ns: as in hwheel_every().
/// @period_ns: as in hwheel_every().
/// @slack_ns: each may be so many nanoseconds later than its deadline, so that it
///   shares a wake-up with others. No more than @period_ns counts, and none below
///   a tick. The rhythm is kept: the next deadline is counted from the last one.
/// @fn: the callback, or NULL for an event.
/// @cookie: handed to the callback or the event.
/// @flags: as in hwheel_every().
/// @timer: as in hwheel_after().
///
/// Return: as hwheel_every().
///
/// Context: as hwheel_mod().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn hwheel_every_range(
    wheel: *mut hwheel,
    first_ns: u64,
    period_ns: u64,
    slack_ns: u64,
    r#fn: hwheel_fn,
    cookie: u64,
    flags: u32,
    timer: *mut hwheel_timer_t,
) -> c_int {
    let missed = flags & (HWHEEL_MISSED_BURST | HWHEEL_MISSED_DELAY);
    let kind = match missed {
        0 => AUTO,
        HWHEEL_MISSED_BURST => AUTO | BURST,
        HWHEEL_MISSED_DELAY => AUTO | DELAY,
        _ => return EINVAL,
    };
    let Ok(when) = when(first_ns, flags & !missed) else {
        return EINVAL;
    };
    if period_ns == 0 {
        return EINVAL;
    }
    // SAFETY: the caller's promise.
    let slack = unsafe { host(wheel) }.map_or(0, |h| h.slack(slack_ns, period_ns));
    let spec = Spec {
        func: number_of_fn(r#fn),
        cookie,
        period: period_ns,
        kind: kind | slack,
    };
    // SAFETY: the caller's promise.
    unsafe { one_call(wheel, when, spec, timer) }
}

/// Acts on each of a caller's timers, and writes what that came to.
///
/// # Safety
/// As `host`; the arrays are null or have `n` members.
unsafe fn many(
    wheel: *mut hwheel,
    timers: *const hwheel_timer_t,
    n: u32,
    results: *mut i32,
    mut act: impl FnMut(&Host, usize, hwheel_timer_t) -> i32,
) -> Result<i32, Errno> {
    // SAFETY: the caller's promise.
    let host = unsafe { host(wheel) }?;
    if (timers.is_null() && n != 0) || n > i32::MAX as u32 {
        return Err(EINVAL);
    }
    let done = host.each(
        n as usize,
        // SAFETY: the caller's promise; asked for below `n`.
        |i| unsafe { timers.add(i).read() },
        |i, timer| {
            let result = act(host, i, timer);
            if !results.is_null() {
                // SAFETY: as above.
                unsafe { results.add(i).write(result) };
            }
            result
        },
    )?;
    Ok(done as i32)
}

/// hwheel_mod_many() - Arm or move many timers.
/// @wheel: the wheel.
/// @timers: the timers; may be NULL if @n is 0.
/// @delays_ns: for each the nanoseconds from now; HWHEEL_NEVER is never. May be
///   NULL if @n is 0.
/// @n: how many, at most 2147483647.
/// @flags: HWHEEL_ABSTIME if the times are deadlines.
/// @results: where it is written for each what hwheel_mod() would have returned;
///   NULL if nobody asks.
///
/// As @n calls of hwheel_mod(), one after another, but faster: the memory of the
/// next timers is fetched while the present one is armed, and the clock is read
/// once. One that fails stops none of the others.
///
/// Return:
/// * n - so many were armed or moved.
/// * -EINVAL - an array is NULL, @wheel is, @n is above 2147483647, or a flag is
///   unknown; no result is written.
/// * -ESHUTDOWN - a forked child; no result is written.
///
/// Context: as hwheel_mod().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_mod_many(
    wheel: *mut hwheel,
    timers: *const hwheel_timer_t,
    delays_ns: *const u64,
    n: u32,
    flags: u32,
    results: *mut i32,
) -> c_int {
    number((|| {
        // SAFETY: the caller's promise.
        let host = unsafe { host(wheel) }?;
        let from = match flags {
            0 => host.arming_now(),
            HWHEEL_ABSTIME => 0,
            _ => return Err(EINVAL),
        };
        if delays_ns.is_null() && n != 0 {
            return Err(EINVAL);
        }
        // SAFETY: the caller's promise.
        unsafe {
            many(wheel, timers, n, results, |host, i, timer| {
                host.arm_at(timer, from.saturating_add(delays_ns.add(i).read()))
            })
        }
    })())
}

/// hwheel_delete_many() - Cancel many timers.
/// @wheel: the wheel.
/// @timers: the timers; may be NULL if @n is 0.
/// @n: how many, at most 2147483647.
/// @results: where it is written for each what hwheel_delete() would have
///   returned; NULL if nobody asks.
///
/// As @n calls of hwheel_delete(), one after another, but faster: the memory of
/// the next timers is fetched while the present one is cancelled. One that fails
/// stops none of the others.
///
/// Return:
/// * n - so many exist, whether they were armed or not: their results are 0 or 1.
/// * -EINVAL - @timers is NULL, @wheel is, or @n is above 2147483647; no result
///   is written.
/// * -ESHUTDOWN - a forked child; no result is written.
///
/// Context: as hwheel_delete().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_delete_many(
    wheel: *mut hwheel,
    timers: *const hwheel_timer_t,
    n: u32,
    results: *mut i32,
) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe {
        many(wheel, timers, n, results, |host, _, timer| {
            host.delete(timer)
        })
    })
}

/// A caller's key.
///
/// # Safety
/// `key` is null or has `len` bytes.
unsafe fn key_of<'a>(key: *const c_void, len: u32) -> Result<&'a [u8], Errno> {
    if key.is_null() || len == 0 || len as usize > LONGEST {
        return Err(EINVAL);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(key.cast(), len as usize) })
}

/// Gives a key a timer.
///
/// # Safety
/// As `host`.
unsafe fn key_set(
    wheel: *mut hwheel,
    key: &[u8],
    ns: u64,
    func: hwheel_fn,
    cookie: u64,
    flags: u32,
) -> Result<i32, Errno> {
    let func = number_of_fn(func);
    // SAFETY: the caller's promise.
    unsafe { host(wheel) }?.key_set(key, Target { func, cookie }, when(ns, flags)?)
}

/// hwheel_key_set() - Give a key a timer that fires once.
/// @wheel: the wheel.
/// @key: any bytes, which are copied. For numbers there is hwheel_id_set().
/// @key_len: how many, 1 to 255.
/// @delay_ns: nanoseconds from now; HWHEEL_NEVER is never.
/// @fn: the callback, or NULL for an event.
/// @cookie: handed to the callback or the event.
/// @flags: HWHEEL_ABSTIME if the time is a deadline.
///
/// If the key has a pending timer, this one takes its place, and that does not
/// fire. If both have the same @fn it is moved, which asks for no memory;
/// otherwise both count as live until this returns.
///
/// A keyed timer has no handle: @timer of its event is 0. When it fires, its key
/// is free before the callback begins, which may set it again. Where this call
/// and a firing meet, one comes first: either the pending timer is replaced and
/// does not fire, or it fires and this is a new one.
///
/// Return:
/// * 1 - a pending timer of that key was replaced.
/// * 0 - the key had none, and has one now.
/// * -EINVAL - @wheel or @key is NULL, @key_len is 0 or above 255, or a flag is
///   unknown.
/// * -ENOSPC - the limit on live timers is reached; nothing has changed.
/// * -ENOMEM - no memory; nothing has changed.
/// * -ESHUTDOWN - the wheel was drained, or this is a forked child.
///
/// Context: any thread, also in a callback. Calls the allocator for a key of more
/// than 30 bytes, and where the table of keys grows. Blocks while another thread
/// is at work on the same sixty-fourth part of all keys; no callback runs
/// meanwhile. The driver blocks likewise when a keyed timer fires.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_key_set(
    wheel: *mut hwheel,
    key: *const c_void,
    key_len: u32,
    delay_ns: u64,
    r#fn: hwheel_fn,
    cookie: u64,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { key_of(key, key_len) }.and_then(|key| {
        // SAFETY: as above.
        unsafe { key_set(wheel, key, delay_ns, r#fn, cookie, flags) }
    }))
}

/// hwheel_key_move() - Move the pending timer of a key.
/// @wheel: the wheel.
/// @key: as in hwheel_key_set().
/// @key_len: as in hwheel_key_set().
/// @delay_ns: nanoseconds from now; HWHEEL_NEVER is never.
/// @flags: HWHEEL_ABSTIME if the time is a deadline.
///
/// Return:
/// * 1 - it was pending and has been moved.
/// * 0 - the key has no pending timer; nothing has changed.
/// * -EINVAL, -ENOMEM, -ESHUTDOWN - as hwheel_key_set().
///
/// Context: as hwheel_key_set(). Calls no allocator.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_key_move(
    wheel: *mut hwheel,
    key: *const c_void,
    key_len: u32,
    delay_ns: u64,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's promise, both.
    number(
        unsafe { host(wheel) }
            .and_then(|h| h.key_move(unsafe { key_of(key, key_len) }?, when(delay_ns, flags)?)),
    )
}

/// hwheel_key_delete() - Cancel the pending timer of a key.
/// @wheel: the wheel.
/// @key: as in hwheel_key_set().
/// @key_len: as in hwheel_key_set().
///
/// Return:
/// * 1 - it was pending and will not fire; it and the key are gone.
/// * 0 - the key has no pending timer: none was set, or it has fired, or its
///   callback is running.
/// * -EINVAL - @wheel or @key is NULL, or @key_len is 0 or above 255.
/// * -ESHUTDOWN - a forked child.
///
/// Context: as hwheel_key_set(). Asks for no memory.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_key_delete(
    wheel: *mut hwheel,
    key: *const c_void,
    key_len: u32,
) -> c_int {
    // SAFETY: the caller's promise, both.
    number(unsafe { host(wheel) }.and_then(|h| h.key_delete(unsafe { key_of(key, key_len) }?)))
}

/// hwheel_key_pending() - Whether a key has a pending timer.
/// @wheel: the wheel.
/// @key: as in hwheel_key_set().
/// @key_len: as in hwheel_key_set().
///
/// Return:
/// * 1 - it has.
/// * 0 - it has not.
/// * otherwise as hwheel_key_delete().
///
/// Context: as hwheel_key_delete().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_key_pending(
    wheel: *mut hwheel,
    key: *const c_void,
    key_len: u32,
) -> c_int {
    // SAFETY: the caller's promise, both.
    number(unsafe { host(wheel) }.and_then(|h| h.key_pending(unsafe { key_of(key, key_len) }?)))
}

/// hwheel_id_set() - Give a number a timer that fires once.
/// @wheel: the wheel.
/// @id: any number.
/// @delay_ns: nanoseconds from now; HWHEEL_NEVER is never.
/// @fn: the callback, or NULL for an event.
/// @cookie: handed to the callback or the event.
/// @flags: HWHEEL_ABSTIME if the time is a deadline.
///
/// As hwheel_key_set(); the key is the eight bytes of the number, as they are in
/// memory.
///
/// Return: as hwheel_key_set().
///
/// Context: as hwheel_key_set().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_id_set(
    wheel: *mut hwheel,
    id: u64,
    delay_ns: u64,
    r#fn: hwheel_fn,
    cookie: u64,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { key_set(wheel, &id.to_ne_bytes(), delay_ns, r#fn, cookie, flags) })
}

/// hwheel_id_move() - Move the pending timer of a number.
/// @wheel: the wheel.
/// @id: as in hwheel_id_set().
/// @delay_ns: nanoseconds from now; HWHEEL_NEVER is never.
/// @flags: HWHEEL_ABSTIME if the time is a deadline.
///
/// Return: as hwheel_key_move().
///
/// Context: as hwheel_key_move().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_id_move(
    wheel: *mut hwheel,
    id: u64,
    delay_ns: u64,
    flags: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    number(
        unsafe { host(wheel) }.and_then(|h| h.key_move(&id.to_ne_bytes(), when(delay_ns, flags)?)),
    )
}

/// hwheel_id_delete() - Cancel the pending timer of a number.
/// @wheel: the wheel.
/// @id: as in hwheel_id_set().
///
/// Return: as hwheel_key_delete().
///
/// Context: as hwheel_key_delete().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_id_delete(wheel: *mut hwheel, id: u64) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { host(wheel) }.and_then(|h| h.key_delete(&id.to_ne_bytes())))
}

/// hwheel_id_pending() - Whether a number has a pending timer.
/// @wheel: the wheel.
/// @id: as in hwheel_id_set().
///
/// Return: as hwheel_key_pending().
///
/// Context: as hwheel_key_pending().
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_id_pending(wheel: *mut hwheel, id: u64) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { host(wheel) }.and_then(|h| h.key_pending(&id.to_ne_bytes())))
}

/// hwheel_advance() - Drive a wheel with a manual clock.
/// @wheel: the wheel.
/// @now_ns: the time now. A step back is held at the last time.
/// @events: where events are written; may be NULL if @max is 0.
/// @max: room for so many events. With 0, timers without a callback are
///   dropped when they come due, and counted as unclaimed.
///
/// Fires every timer due by @now_ns, in the order of their ticks: callbacks
/// are called, the others are written to @events. If @max events were written
/// there may be more: call again with the same time.
///
/// Return:
/// * n - so many events were written; if fewer than @max, all is done.
/// * -EINVAL - @wheel is NULL, @events is NULL and @max is not 0, @max is above
///   2147483647, or the clock is not manual.
/// * -EBUSY - another thread drives, or this is a callback of the wheel.
/// * -ESHUTDOWN - a forked child.
///
/// Context: one thread at a time, the others get -EBUSY. Runs callbacks.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_advance(
    wheel: *mut hwheel,
    now_ns: u64,
    events: *mut hwheel_event,
    max: u32,
) -> c_int {
    number((|| {
        // SAFETY: the caller's promise.
        let host = unsafe { host(wheel) }?;
        let mut batch = Batch::new(events, max, 0)?;
        let mut put = |fired: &Fired| batch.put(fired);
        let room: Option<&mut dyn FnMut(&Fired) -> bool> =
            if max == 0 { None } else { Some(&mut put) };
        host.advance(now_ns, room)?;
        Ok(batch.len as i32)
    })())
}

/// hwheel_poll() - Drive a wheel with a system clock.
/// @wheel: the wheel.
/// @events: where events are written; may be NULL if @max is 0.
/// @max: as in hwheel_advance().
///
/// Fires every timer that is due on the wheel's clock, as hwheel_advance()
/// does, and sets the descriptor of hwheel_fd() for the next one. If @max
/// events were written, the descriptor stays readable.
///
/// Return:
/// * n - so many events were written; if fewer than @max, all is done.
/// * -EINVAL - as in hwheel_advance(); the clock is manual.
/// * -EBUSY - another thread drives, the tick thread is started, or this is a
///   callback of the wheel.
/// * -ESHUTDOWN - a forked child.
///
/// Context: one thread at a time, the others get -EBUSY. Runs callbacks.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_poll(
    wheel: *mut hwheel,
    events: *mut hwheel_event,
    max: u32,
) -> c_int {
    number((|| {
        // SAFETY: the caller's promise.
        let host = unsafe { host(wheel) }?;
        let mut batch = Batch::new(events, max, 0)?;
        let mut put = |fired: &Fired| batch.put(fired);
        let room: Option<&mut dyn FnMut(&Fired) -> bool> =
            if max == 0 { None } else { Some(&mut put) };
        host.poll(room)?;
        Ok(batch.len as i32)
    })())
}

/// hwheel_fd() - A descriptor that becomes readable when a timer is due.
/// @wheel: the wheel.
///
/// For poll, epoll, select or an event loop; when it is readable call
/// hwheel_poll(). It is close-on-exec, belongs to the wheel, and is neither
/// read nor closed by the caller. It is made by the first call.
///
/// Return:
/// * n - the descriptor, 0 or above.
/// * -EINVAL - @wheel is NULL or its clock is manual.
/// * -EMFILE, -ENFILE, -ENOMEM - as the system said; nothing has changed.
/// * -ESHUTDOWN - a forked child.
///
/// Context: any thread. Never blocks.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_fd(wheel: *mut hwheel) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { host(wheel) }.and_then(Host::descriptor))
}

/// hwheel_start() - Start the tick thread.
/// @wheel: the wheel.
/// @flags: zero.
///
/// A thread of the wheel sleeps until timers are due and runs their callbacks.
/// The thread and the workers block all signals but SIGSEGV, SIGBUS, SIGFPE, SIGILL,
/// SIGTRAP, SIGSYS and SIGPROF, which reach the program's handlers from a callback
/// too. A timer without a callback is dropped when it comes due, and counted as
/// unclaimed.
///
/// Return:
/// * 0 - the thread drives the wheel.
/// * -EINVAL - @wheel is NULL, a flag is unknown, or the clock is manual.
/// * -EBUSY - it is started already, or another thread drives.
/// * -EAGAIN, -EMFILE, -ENFILE, -ENOMEM - as the system said; nothing has
///   changed, and the wheel can be driven by hwheel_poll().
/// * -ESHUTDOWN - the wheel was drained, or this is a forked child.
///
/// Context: any thread. Does not wait for the thread.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_start(wheel: *mut hwheel, flags: u32) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { host(wheel) }.and_then(|h| {
        if flags != 0 {
            return Err(EINVAL);
        }
        h.start().map(|()| 0)
    }))
}

/// hwheel_stop() - End the tick thread.
/// @wheel: the wheel.
///
/// When it returns no callback runs and none will start. What waits in the queue
/// of workers or executor has fired: it is run before, by workers, by the executor's
/// threads, or by the calling thread; also where no tick thread was started. Until
/// then nothing is added to the queue: the thread that drives runs callbacks itself.
/// So the call ends in bounded time if callbacks end, whatever the executor does.
/// Timers stay armed: start again, poll, or drain.
///
/// Return:
/// * 0 - no thread drives the wheel.
/// * -EINVAL - @wheel is NULL.
/// * -EDEADLK - called from a callback of the wheel or from its executor; nothing
///   has changed.
/// * -EBUSY - another thread is stopping it.
/// * -ESHUTDOWN - a forked child.
///
/// Context: any thread. Blocks while a callback runs. Runs callbacks that are queued,
/// so the caller holds no lock that they take.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_stop(wheel: *mut hwheel) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { host(wheel) }.and_then(|h| h.stop().map(|()| 0)))
}

/// hwheel_work() - Run a callback that waits in the queue.
/// @wheel: a wheel with workers or an executor.
///
/// What the executor's threads call, once for each time that they were asked.
/// Others may help in the same way. There may be less to do than was asked for,
/// after hwheel_stop() or hwheel_delete_sync().
///
/// Return:
/// * 1 - one was run.
/// * 0 - none was waiting.
/// * -EINVAL - @wheel is NULL, or has neither workers nor an executor.
/// * -ESHUTDOWN - a forked child.
///
/// Context: any thread. Blocks for no other thread; runs as long as the callback.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_work(wheel: *mut hwheel) -> c_int {
    // SAFETY: the caller's promise.
    number(unsafe { host(wheel) }.and_then(|h| Ok(h.work()?.into())))
}

/// hwheel_drain() - Shut the wheel down and get every armed timer back.
/// @wheel: the wheel.
/// @events: where they are written, in no order, with HWHEEL_EVENT_DRAINED.
/// @max: room for so many, at least 1.
///
/// From the first call on every attempt to arm is -ESHUTDOWN. Each timer that
/// was armed and has neither fired nor been cancelled is handed back exactly
/// once, whether or not it has a callback, which is not called. Timers of
/// hwheel_after(), hwheel_at() and hwheel_every() are freed by it. A callback that
/// waits in the queue of workers or executor has fired: it runs.
///
/// Return:
/// * n - so many were written; if fewer than @max, there are no more.
/// * -EINVAL - @wheel or @events is NULL, or @max is 0 or above 2147483647.
/// * -EBUSY - the tick thread is started, or another thread drives.
/// * -EDEADLK - called from a callback of the wheel or from its executor.
/// * -ESHUTDOWN - a forked child.
///
/// Context: one thread at a time. Never blocks; looks at every timer once.
///
/// # Safety
/// Pointers as described.
#[no_mangle]
pub unsafe extern "C" fn hwheel_drain(
    wheel: *mut hwheel,
    events: *mut hwheel_event,
    max: u32,
) -> c_int {
    number((|| {
        // SAFETY: the caller's promise.
        let host = unsafe { host(wheel) }?;
        if max == 0 {
            return Err(EINVAL);
        }
        let mut batch = Batch::new(events, max, HWHEEL_EVENT_DRAINED)?;
        host.drain(|fired| batch.put(fired))?;
        Ok(batch.len as i32)
    })())
}
