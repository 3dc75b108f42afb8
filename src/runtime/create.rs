//! How a wheel is created, identified and destroyed.

use super::drive::IDLE;
use super::frames::ANY;
use super::host::{Call, Host};
use super::keys::Keys;
use super::pool::Pool;
use super::times::Manual;
use super::{numbers, tick_thread, Errno, Options};
use crate::core::state::GEN_BITS;
use crate::core::stats::Tally;
use crate::core::wheel::{Config, Wheel};
use crate::sync::{make_at, AtomicI32, AtomicU32, Mutex, Ordering};
use crate::sys::clock;
use crate::sys::event::Event;
use crate::sys::fork::{map_to_wipe, unmap_wiped, wipe_in_child};
use crate::sys::timerfd::Alarm;
use crate::sys::{quietly, seed};
// Not that of the model checkers: the number of a wheel orders nothing.
use core::sync::atomic::AtomicU64;

/// The number of the next wheel; 0 before the first one.
#[cfg(not(checked))]
fn unused_id() -> &'static AtomicU64 {
    static NEXT_ID: AtomicU64 = AtomicU64::new(0);
    &NEXT_ID
}

/// The number of the next wheel. It is the same at the beginning of each execution of a model
/// checker. Otherwise, the handles would differ, and the checker could not repeat its steps.
#[cfg(checked)]
fn unused_id() -> &'static AtomicU64 {
    use crate::tests::checker::PerExecution;
    static NEXT_ID: PerExecution<AtomicU64> = PerExecution::new();
    NEXT_ID.get()
}

/// A number that no other wheel of the process has. The first one comes from the first
/// wheel's clock, so that most likely no wheel of an earlier process had it either.
fn next_id(begin: u64) -> u64 {
    // Half of the time: the numbers never wrap. Relaxed, both: only unique.
    _ = unused_id().compare_exchange(0, begin / 2 + 1, Ordering::Relaxed, Ordering::Relaxed);
    unused_id().fetch_add(1, Ordering::Relaxed)
}

/// The first generation of a wheel, which is part of its handles. Multiples of the
/// golden ratio spread evenly (Knuth, TAOCP 6.4). So the generations of two wheels
/// are far apart, and a handle of another wheel is stale for millions of lives of its node.
fn salt(id: u64) -> u64 {
    id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - GEN_BITS)
}

impl Host {
    /// A wheel in its own memory.
    pub fn create(options: Options, call: Call) -> Result<*mut Host, Errno> {
        let options = options.check()?;
        // A thread that owns a wheel has a number.
        if !numbers::prepare() {
            return Err(-libc::ENOMEM);
        }
        quietly(|| Host::make(&options, call))
    }

    fn make(options: &Options, call: Call) -> Result<*mut Host, Errno> {
        let clock = clock::id(options.clock);
        let start = clock.map_or(options.start_ns, clock::now);
        let id = next_id(start);
        let config = Config {
            levels: options.levels,
            slot_bits: options.slots.trailing_zeros(),
            limit: options.max_timers,
            tick_ns: options.tick_ns,
            start_ns: start,
            pooled: options.is_pooled(),
            owner: match options.owned {
                0 => None,
                _ => Some(numbers::owner()?),
            },
            salt: salt(id),
            id,
        };
        let pool = options.is_pooled().then(|| Pool::new(options));
        let pool = pool.map(|made| made.ok_or(-libc::ENOMEM)).transpose()?;
        let at = map_to_wipe(size_of::<Host>()).cast::<Host>();
        if at.is_null() {
            return Err(-libc::ENOMEM);
        }
        // SAFETY: zeroed, page-aligned, and seen by nobody else.
        if let Err(e) = unsafe { Wheel::make(&raw mut (*at).wheel, config) } {
            // SAFETY: as above; nothing was left there.
            unsafe { unmap_wiped(at.cast(), size_of::<Host>()) };
            return Err(e.into());
        }
        // SAFETY: mapped for it, and seen by nobody else.
        unsafe {
            make_at!(at => Host {
                id: id,
                clock: clock,
                pool: pool,
                options: *options,
                manual: Manual::new(start),
                fd: AtomicI32::new(-1),
                drive: AtomicU32::new(IDLE),
                refused: AtomicU32::new(0),
                stopping: AtomicU32::new(0),
                ending: AtomicU32::new(0),
                end: Event::default(),
                thread: Mutex::new(None),
                call: call,
                wakeups: Tally::default(),
                unclaimed: Tally::default(),
                lateness: core::array::from_fn(|_| Tally::default()),
                keys: Keys::new(seed() ^ id),
                ; wheel
            });
        }
        // SAFETY: just written.
        let host = unsafe { &*at };
        let made = if wipe_in_child(at.cast()) {
            let hire = |pool: &Pool| pool.hire(options.workers, tick_thread::worker, at.cast());
            host.pool.as_ref().map_or(Ok(()), hire)
        } else {
            Err(-libc::ENOMEM)
        };
        // SAFETY: nobody else has seen it, or the threads have ended.
        made.map(|()| at)
            .inspect_err(|_| unsafe { Host::unmap(at) })
    }

    /// # Safety
    /// The host is used no more and its thread has ended.
    pub(super) unsafe fn unmap(at: *mut Host) {
        // SAFETY: the caller's promise.
        unsafe {
            // Not in a forked child, where the number may be that of another descriptor by now.
            (*at).alarm().into_iter().for_each(Alarm::close);
            core::ptr::drop_in_place(at);
            unmap_wiped(at.cast(), size_of::<Host>());
        }
    }

    /// Ends the tick thread and frees everything.
    ///
    /// # Safety
    /// `at` came from `create`, and no other thread uses it.
    pub unsafe fn destroy(at: *mut Host) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let host = unsafe { &*at };
        // A forked child may destroy its copy, whoever owned the wheel.
        host.wheel.permit(host)?;
        if host.is_inside(ANY) {
            return Err(-libc::EDEADLK);
        }
        // Relaxed: a worker that still sees the old value began its arm before this call.
        host.ending.store(1, Ordering::Relaxed);
        while host.is_ours() {
            match host.stop() {
                // Not in the child of a callback that the stop has run.
                Err(e) if host.is_ours() => {
                    host.ending.store(0, Ordering::Relaxed);
                    return Err(e);
                }
                // Until the last callback has ended, one may start the tick thread again.
                // Relaxed: the stop has seen what callbacks did.
                _ if host.drive.load(Ordering::Relaxed) == IDLE => break,
                _ => {}
            }
        }
        quietly(|| {
            if host.is_ours() {
                host.pool.iter().for_each(Pool::dismiss);
            }
        });
        // A forked child may keep the descriptor open. Then an epoll that has it would report a
        // wheel that is gone, again and again. In a child it is the parent's.
        host.alarm().iter().for_each(Alarm::clear);
        // A child has no tick thread; its copy of the memory goes all the same. No closure
        // holds a reference to it.
        // SAFETY: the caller's promise, and the thread has ended.
        quietly(|| unsafe { Host::unmap(at) });
        Ok(())
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;
    use crate::core::state::GEN_MASK;

    const GENERATION_MASK: u64 = GEN_MASK as u64;

    #[test]
    fn the_handles_of_wheels_begin_far_from_each_other() {
        const WHEELS: u64 = 10_000;
        let first = next_id(0);
        let ids = (0..WHEELS).map(|n| first.wrapping_add(n));
        let mut begins: Vec<_> = ids.map(|id| salt(id) & GENERATION_MASK).collect();
        begins.sort_unstable();
        begins.push(begins[0] + GENERATION_MASK + 1);
        let nearest = begins.windows(2).map(|two| two[1] - two[0]).min().unwrap();
        assert!(nearest > GENERATION_MASK / WHEELS / 3, "{nearest}");
    }
}
