//! A wheel on a clock: nanoseconds instead of ticks, three ways to drive, and
//! the life of the whole. The C functions are a thin layer over this file.
//!
//! # Sleep against arm
//!
//! The driver settles, so that `next_visit` is exact, and dozes: race 3 in
//! `wheel.rs`. The alarm is a timerfd. A thread that arms for before the alarm
//! sets it to *now*; the driver wakes and looks again.

use crate::count::Tally;
use crate::keys::{Keys, Target, Timers};
use crate::local;
use crate::memory::Memory;
use crate::os::alarm::Alarm;
use crate::os::clock::{self, Clock};
use crate::os::counter::Counter;
use crate::os::fork::Process;
use crate::os::futex::Futex;
use crate::os::mmap::Mmap;
use crate::os::thread::{self, Thread};
use crate::os::{quietly, seed};
use crate::pool::{Crew, Offer, Pool};
use crate::slab::{INDEX_BITS, KEYED};
use crate::state::NEVER;
use crate::sweep::{Drive, Fired, Sink, AHEAD, LAG};
use crate::sync::{fence, AtomicI32, AtomicU32, AtomicU64, Ordering};
use crate::wheel::{Caller, Config, Due, Error, Handle, How, Park, Spec, Token, Wheel};
use std::cell::{Cell, UnsafeCell};

/// A negative errno value.
pub(crate) type Errno = i32;

impl From<Error> for i32 {
    fn from(e: Error) -> Errno {
        -match e {
            Error::Stale => libc::ESTALE,
            Error::Limit => libc::ENOSPC,
            Error::Memory => libc::ENOMEM,
            Error::Busy => libc::EBUSY,
            Error::Invalid => libc::EINVAL,
            Error::Shutdown => libc::ESHUTDOWN,
        }
    }
}

/// How a wheel is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub clock: Clock,
    pub tick_ns: u64,
    pub levels: u32,
    pub slots: u32,
    pub max_timers: u32,
    pub start_ns: u64,
    /// Delays are counted from a cheaper reading of CLOCK_MONOTONIC.
    pub coarse: bool,
    /// Callbacks run in threads of their own, or an executor's.
    pub crew: Option<Crew>,
    pub executor: Option<Executor>,
}

/// When a sweep stops that is not done: after so many items, after so many
/// nanoseconds. Zero is no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Budget {
    pub items: u32,
    pub ns: u64,
}

/// Told when a callback was queued: calls the caller's function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executor {
    pub call: unsafe fn(&Host, Executor),
    pub func: usize,
    pub arg: usize,
}

/// A result as C has it. Where all callers of a function ask for no more, its
/// registers hold no more.
#[inline(always)]
pub(crate) fn number(result: Result<i32, Errno>) -> i32 {
    match result {
        Ok(n) | Err(n) => n,
    }
}

/// Calls the function of a timer that has fired.
pub(crate) type Call = unsafe fn(&Host, &Fired);

/// A point or a span of time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    After(u64),
    At(u64),
}

/// Powers of two of nanoseconds that lateness is counted by.
pub(crate) const LATENESS: usize = 40;

/// `thread`: nobody, or the tick thread, drives.
const IDLE: u32 = 0;
const DRIVEN: u32 = 1;
const STOPPING: u32 = 2;

/// A wheel and its surroundings: what `struct hwheel` is.
#[repr(C)]
pub(crate) struct Host {
    wheel: Wheel<Mmap>,
    id: u64,
    process: Process,
    clock: Clock,
    pool: Option<Pool>,
    executor: Option<Executor>,
    /// The caller's time, on a manual clock.
    manual_ns: AtomicU64,
    /// The alarm's descriptor, or -1.
    fd: AtomicI32,
    drive: AtomicU32,
    stop: AtomicU32,
    thread: UnsafeCell<Option<Thread>>,
    /// How the C layer calls a callback.
    call: Call,
    /// The driver's counts.
    pub wakeups: Tally,
    pub unclaimed: Tally,
    /// By powers of two.
    pub lateness: [Tally; LATENESS],
    keys: Keys,
}

// SAFETY: `thread` is used by whoever has moved `drive` to STOPPING or out of
// IDLE, one at a time; the rest is atomic.
unsafe impl Sync for Host {}
// SAFETY: as above.
unsafe impl Send for Host {}

/// A callback that runs on this thread.
struct Frame {
    host: u64,
    index: u32,
    outer: *const Frame,
}

thread_local! {
    static FRAME: Cell<*const Frame> = const { Cell::new(std::ptr::null()) };
}

/// 0 before the first wheel.
static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// A number that no other wheel has. They count on from the time at which the first
/// one began, so that none of a former process had it either.
fn next_id(begin: u64) -> u64 {
    // Half of it: to count on without end. Relaxed, both: only uniqueness matters.
    _ = NEXT_ID.compare_exchange(0, begin / 2 + 1, Ordering::Relaxed, Ordering::Relaxed);
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}

/// Where the generations of a wheel begin, from which its handles count on. That of
/// each wheel of the process is as far from all others as so many can be, for the
/// multiples of the golden ratio are (Knuth, TAOCP 6.4). So a handle of another wheel
/// is stale.
fn salt(id: u64) -> u64 {
    id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> INDEX_BITS
}

impl Caller for Host {
    #[inline]
    fn token(&self) -> Result<Token, Error> {
        local::token(self)
    }

    fn wake_driver(&self) {
        self.alarm_now();
    }
}

impl Timers for Host {
    type When = When;
    type Error = Errno;

    fn make(&self, spec: Spec, when: When) -> Result<Handle, Errno> {
        self.setup(spec, Some(when))
    }

    fn shift(&self, timer: Handle, when: When) -> Result<bool, Errno> {
        match number(self.arm(timer, when, How::Pending)) {
            n if n < 0 => Err(n),
            n => Ok(n == 1),
        }
    }

    fn end(&self, timer: Handle) -> bool {
        number(self.cancel(timer, 0)) == 1
    }

    fn is_pending(&self, timer: Handle) -> bool {
        self.deadline(timer).is_ok_and(|d| d.is_some())
    }
}

impl Host {
    /// A wheel in memory of its own.
    pub fn create(options: &Options, call: Call) -> Result<*mut Host, Errno> {
        let process = Process::current().ok_or(-libc::ENOMEM)?;
        let start = options.clock.id().map_or(options.start_ns, clock::now);
        let id = next_id(start);
        if !options.slots.is_power_of_two() || options.slots < 2 {
            return Err(-libc::EINVAL);
        }
        let wheel = Wheel::new(
            Mmap,
            Config {
                levels: options.levels,
                slot_bits: options.slots.trailing_zeros(),
                limit: options.max_timers,
                tick_ns: options.tick_ns,
                start: crate::scale::Scale::new(options.tick_ns).tick_at_or_before(start),
                salt: salt(id),
            },
        )?;
        let at = Mmap.map(size_of::<Host>()).cast::<Host>();
        if at.is_null() {
            return Err(-libc::ENOMEM);
        }
        let counter = options.coarse.then(Counter::measure).flatten();
        let pool = options.crew.as_ref().map(Pool::new);
        let no_pool = matches!(pool, Some(None));
        // SAFETY: mapped for it, page-aligned.
        unsafe {
            at.write(Host {
                wheel,
                id,
                process,
                clock: counter.map_or(options.clock, Clock::Coarse),
                pool: pool.flatten(),
                executor: options.executor,
                manual_ns: AtomicU64::new(start),
                fd: AtomicI32::new(-1),
                drive: AtomicU32::new(IDLE),
                stop: AtomicU32::new(0),
                thread: UnsafeCell::new(None),
                call,
                wakeups: Tally::default(),
                unclaimed: Tally::default(),
                lateness: std::array::from_fn(|_| Tally::default()),
                keys: Keys::new(seed() ^ id),
            });
        }
        // SAFETY: just written.
        let host = unsafe { &*at };
        let mut made = Ok(());
        if no_pool || !local::enter(host) {
            made = Err(-libc::ENOMEM);
        } else if let (Some(pool), Some(crew)) = (&host.pool, &options.crew) {
            // SAFETY: the first and only time.
            made = unsafe { pool.hire(crew.workers, work, at.cast()) }.map_err(|e| -e);
            if made.is_err() {
                local::leave(host);
            }
        }
        if let Err(e) = made {
            // SAFETY: nobody else has seen it, or the threads have ended.
            unsafe { Host::unmap(at) };
            return Err(e);
        }
        Ok(at)
    }

    /// # Safety
    /// The host is used no more and its thread has ended.
    unsafe fn unmap(at: *mut Host) {
        // SAFETY: the caller's promise.
        unsafe {
            let fd = (*at).fd.load(Ordering::Relaxed);
            if fd >= 0 {
                drop(std::mem::ManuallyDrop::into_inner(Alarm::borrow(fd, 0)));
            }
            if let Some(pool) = &(*at).pool {
                pool.unmap();
            }
            std::ptr::drop_in_place(at);
            Mmap.unmap(at.cast(), size_of::<Host>());
        }
    }

    /// Ends the tick thread and gives everything back.
    ///
    /// # Safety
    /// `at` came from `create` and nobody else uses it.
    pub unsafe fn destroy(at: *mut Host) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let host = unsafe { &*at };
        if host.is_inside(None) {
            return Err(-libc::EDEADLK);
        }
        if host.is_ours() {
            host.stop()?;
            if let Some(pool) = &host.pool {
                pool.dismiss();
            }
            local::leave(host);
        }
        // A child has no tick thread; its copy of the memory goes all the same.
        // SAFETY: the caller's promise, and the thread has ended.
        unsafe { Host::unmap(at) };
        Ok(())
    }

    pub fn wheel(&self) -> &Wheel<Mmap> {
        &self.wheel
    }

    #[inline]
    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn process(&self) -> Process {
        self.process
    }

    /// Not a forked child.
    #[inline]
    pub fn is_ours(&self) -> bool {
        self.process.is_current()
    }

    #[inline]
    pub fn check(&self) -> Result<(), Errno> {
        if self.is_ours() {
            Ok(())
        } else {
            Err(-libc::ESHUTDOWN)
        }
    }

    /// The wheel's time. Steps back are held at what the hand has seen.
    #[inline]
    pub fn now(&self) -> u64 {
        match self.clock.id() {
            Some(c) => self.held(clock::now(c)),
            // Acquire: pairs with the Release in `advance`.
            None => self.manual_ns.load(Ordering::Acquire),
        }
    }

    /// The time that delays are counted from: not before `now`.
    #[inline]
    pub fn arming_now(&self) -> u64 {
        match &self.clock {
            Clock::System(c) => self.held(clock::now(*c)),
            Clock::Coarse(counter) => self.held(local::coarse_now(counter)),
            Clock::Manual => self.now(),
        }
    }

    #[inline(always)]
    fn held(&self, ns: u64) -> u64 {
        // Relaxed: only a bound.
        let hand = self.wheel.current.load(Ordering::Relaxed);
        ns.max(self.wheel.scale.ns(hand))
    }

    /// The deadline that `when` asks for: rounded up to a tick, never early;
    /// out of range is never.
    #[inline]
    fn due(&self, when: When) -> Due {
        let ns = match when {
            When::At(ns) | When::After(ns) if ns == u64::MAX => return Due::NEVER,
            When::At(ns) => ns,
            When::After(delay) => match self.arming_now().checked_add(delay) {
                None | Some(u64::MAX) => return Due::NEVER,
                Some(ns) => ns,
            },
        };
        Due {
            tick: self.wheel.scale.tick_at_or_after(ns),
            ns,
        }
    }

    pub fn setup(&self, spec: Spec, when: Option<When>) -> Result<Handle, Errno> {
        self.check()?;
        let due = when.map(|w| self.due(w));
        Ok(self.wheel.setup(self, spec, due)?)
    }

    /// Arms to a deadline, the short way if that will do.
    #[inline(always)]
    pub fn arm_at(&self, timer: Handle, ns: u64) -> i32 {
        let due = Due {
            tick: self.wheel.scale.tick_at_or_after(ns),
            ns,
        };
        if !self.is_ours() || ns == u64::MAX {
            return self.arm_the_long_way(timer, ns);
        }
        self.wheel.rearm(
            timer,
            due,
            |full| if full { self.count_moves() } else { 1 },
            || self.count_arm(),
            |was| self.arm_raced(timer, ns, was),
            || self.arm_the_long_way(timer, ns),
        )
    }

    #[inline(never)]
    fn count_arm(&self) -> i32 {
        self.wheel.count_arm(self);
        0
    }

    #[inline(never)]
    fn count_moves(&self) -> i32 {
        self.wheel.count_moves(self);
        1
    }

    #[inline(never)]
    fn arm_the_long_way(&self, timer: Handle, ns: u64) -> i32 {
        number(self.arm(timer, When::At(ns), How::Always))
    }

    #[cold]
    #[inline(never)]
    fn arm_raced(&self, timer: Handle, ns: u64, was: bool) -> i32 {
        let tick = self.wheel.scale.tick_at_or_after(ns);
        match self.wheel.rearm_raced(self, timer, tick, was) {
            Ok(was) => was.into(),
            Err(e) => e.into(),
        }
    }

    pub fn arm(&self, timer: Handle, when: When, how: How) -> Result<i32, Errno> {
        self.check()?;
        let due = self.due(when);
        Ok(self.wheel.arm(self, timer, due, how)?.into())
    }

    /// Arms to a deadline or up to `slack` nanoseconds later.
    pub fn arm_range(&self, timer: Handle, when: When, slack: u64) -> Result<i32, Errno> {
        let ticks = self.wheel.scale.tick_at_or_before(slack);
        self.arm(timer, when, How::Within(ticks))
    }

    /// The slack of a period as part of a timer's kind: no more than lets each
    /// period have a tick of its own.
    pub fn slack(&self, slack: u64, period: u64) -> u16 {
        let ticks = self.wheel.scale.tick_at_or_before(slack);
        let most = self.wheel.scale.tick_at_or_before(period);
        crate::slab::slack(ticks.min(most.saturating_sub(1)))
    }

    /// Cancels, the short way if that will do.
    #[inline(always)]
    pub fn delete(&self, timer: Handle) -> i32 {
        if self.is_ours() && self.wheel.disarm(timer).is_some() {
            return 1;
        }
        self.cancel_the_long_way(timer)
    }

    #[inline(never)]
    fn cancel_the_long_way(&self, timer: Handle) -> i32 {
        number(self.cancel(timer, 0))
    }

    /// Acts on `n` timers, one after another; how often that succeeded. The node
    /// of each is fetched while those before it are acted on.
    pub fn each(
        &self,
        n: usize,
        timer: impl Fn(usize) -> Handle,
        mut act: impl FnMut(usize, Handle) -> i32,
    ) -> Result<usize, Errno> {
        self.check()?;
        let mut done = 0;
        for i in 0..n.min(AHEAD) {
            self.wheel.prefetch(timer(i));
        }
        for i in 0..n {
            if i + AHEAD < n {
                self.wheel.prefetch(timer(i + AHEAD));
            }
            done += usize::from(act(i, timer(i)) >= 0);
        }
        Ok(done)
    }

    pub fn cancel(&self, timer: Handle, leave: u64) -> Result<i32, Errno> {
        self.check()?;
        Ok(self.wheel.cancel(self, timer, leave)?.into())
    }

    pub fn cancel_sync(&self, timer: Handle, leave: u64) -> Result<i32, Errno> {
        self.check()?;
        if self.is_inside(Some(timer)) {
            // A stale handle is that first of all.
            self.wheel.due(timer)?;
            return Err(-libc::EDEADLK);
        }
        Ok(self.wheel.cancel_sync(self, timer, leave, self)?.into())
    }

    pub fn free(&self, timer: Handle) -> Result<i32, Errno> {
        self.check()?;
        Ok(self.wheel.free(self, timer)?.into())
    }

    /// The deadline in nanoseconds, if it is armed.
    pub fn deadline(&self, timer: Handle) -> Result<Option<u64>, Errno> {
        self.check()?;
        Ok(self.wheel.due(timer)?.map(|d| d.ns))
    }

    // Keyed timers. A lock or the allocator may change errno.

    pub fn key_set(&self, key: &[u8], target: Target, when: When) -> Result<i32, Errno> {
        self.check()?;
        quietly(|| self.keys.set(self, key, target, when)).map(i32::from)
    }

    pub fn key_move(&self, key: &[u8], when: When) -> Result<i32, Errno> {
        self.check()?;
        quietly(|| self.keys.shift(self, key, when)).map(i32::from)
    }

    pub fn key_delete(&self, key: &[u8]) -> Result<i32, Errno> {
        self.check()?;
        Ok(quietly(|| self.keys.delete(self, key)).into())
    }

    pub fn key_pending(&self, key: &[u8]) -> Result<i32, Errno> {
        self.check()?;
        Ok(quietly(|| self.keys.pending(self, key)).into())
    }

    /// Hands what has fired or was drained on as the caller knows it: a keyed
    /// timer without a handle, and from here on its key is free. Dropped if it
    /// has no key: armed by somebody who guessed its handle.
    fn named(&self, fired: &Fired, take: impl FnOnce(&Fired) -> bool) -> bool {
        if fired.kind & KEYED != 0 {
            return self.fetch(fired).is_none_or(|named| take(&named));
        }
        take(fired)
    }

    /// Shows the pending timers from `index` on, as the caller knows them, until
    /// `see` has enough; where to go on.
    pub fn list(&self, index: u32, mut see: impl FnMut(&Fired) -> bool) -> Result<u32, Errno> {
        self.check()?;
        Ok(self.wheel.list(index, |fired| {
            if fired.kind & KEYED != 0 {
                return quietly(|| self.keys.peek(fired)).is_none_or(|named| see(&named));
            }
            see(fired)
        }))
    }

    /// Not inlined: no part of what a timer without a key costs.
    #[inline(never)]
    fn fetch(&self, fired: &Fired) -> Option<Fired> {
        quietly(|| self.keys.fetch(fired))
    }

    /// Whether this thread is inside a callback of this wheel, or of one timer.
    #[inline(never)]
    fn is_inside(&self, timer: Option<Handle>) -> bool {
        let mut at = FRAME.get();
        while !at.is_null() {
            // SAFETY: frames live on this thread's stack, outer ones longer.
            let frame = unsafe { &*at };
            let index = timer.map(Wheel::<Mmap>::index_of);
            if frame.host == self.id && index.is_none_or(|i| i == frame.index) {
                return true;
            }
            at = frame.outer;
        }
        false
    }

    // Driving.

    /// Runs what is due by `now`. Callbacks are called; the rest goes to
    /// `event`, which says whether there is room for one more, or is dropped
    /// and counted without one. True if all is done.
    fn sweep(
        &self,
        drive: &mut Drive<'_, Mmap>,
        now: u64,
        budget: Budget,
        event: Option<&mut dyn FnMut(&Fired) -> bool>,
    ) -> bool {
        let target = self.wheel.scale.tick_at_or_before(now);
        drive.advance(
            target,
            Firing {
                host: self,
                now,
                event,
                items: 0,
                most: budget.items,
                end: match budget.ns {
                    0 => u64::MAX,
                    ns => clock::now(libc::CLOCK_MONOTONIC).saturating_add(ns),
                },
            },
        )
    }

    /// Calls the callback of a timer in RUNNING, and ends that.
    fn run(&self, fired: &Fired) {
        let frame = Frame {
            host: self.id,
            index: Wheel::<Mmap>::index_of(fired.handle),
            outer: FRAME.get(),
        };
        FRAME.set(&raw const frame);
        if fired.kind & KEYED == 0 {
            // SAFETY: `func` was given to `setup` for this very call.
            unsafe { (self.call)(self, fired) };
        } else {
            // Its handle is not the caller's.
            let shown = Fired {
                handle: 0,
                ..*fired
            };
            // SAFETY: as above.
            unsafe { (self.call)(self, &shown) };
        }
        FRAME.set(frame.outer);
        self.wheel.finish(self, fired.handle, self);
    }

    /// The same for one that was queued.
    fn run_queued(&self, pool: &Pool, fired: &Fired) {
        self.run(fired);
        pool.finished();
    }

    /// Has the callback of a timer run, here or in the pool.
    fn dispatch(&self, fired: &Fired) {
        let Some(pool) = &self.pool else {
            return self.run(fired);
        };
        match pool.offer(fired) {
            Offer::Taken => {
                if let Some(executor) = self.executor {
                    // SAFETY: made together with its `func`.
                    unsafe { (executor.call)(self, executor) };
                }
            }
            Offer::Refused => self.run(fired),
            Offer::Dropped => self.wheel.finish(self, fired.handle, self),
        }
    }

    /// Runs one queued callback; false if there is none.
    pub fn work(&self) -> Result<bool, Errno> {
        self.check()?;
        let pool = self.pool.as_ref().ok_or(-libc::EINVAL)?;
        let fired = pool.take();
        if let Some(fired) = &fired {
            self.run_queued(pool, fired);
        }
        Ok(fired.is_some())
    }

    /// How many callbacks are queued, and how many were dropped.
    pub fn queue(&self) -> (u64, u64) {
        self.pool.as_ref().map_or((0, 0), |pool| {
            // Relaxed: a count.
            (pool.queued(), pool.dropped.load(Ordering::Relaxed))
        })
    }

    fn may_drive(&self) -> Result<(), Errno> {
        self.check()?;
        if self.drive.load(Ordering::Acquire) != IDLE {
            return Err(-libc::EBUSY);
        }
        Ok(())
    }

    /// Whether this is a callback in another thread than the one that drives.
    fn is_elsewhere(&self) -> bool {
        self.pool.is_some() && self.is_inside(None)
    }

    /// The caller's time is now `now`. True if all that was due is done.
    pub fn advance(
        &self,
        now: u64,
        budget: Budget,
        event: Option<&mut dyn FnMut(&Fired) -> bool>,
    ) -> Result<bool, Errno> {
        self.may_drive()?;
        if self.clock.id().is_some() {
            return Err(-libc::EINVAL);
        }
        // A callback, or a thread beside one that drives, is refused before it
        // moves the clock.
        if self.wheel.is_driven() || self.is_elsewhere() {
            return Err(-libc::EBUSY);
        }
        // Steps back are held.
        if now > self.manual_ns.load(Ordering::Relaxed) {
            // Release: pairs with `now`.
            self.manual_ns.store(now, Ordering::Release);
        }
        let now = self.manual_ns.load(Ordering::Relaxed);
        if self
            .wheel
            .nothing_due(self.wheel.scale.tick_at_or_before(now))
        {
            return Ok(true);
        }
        Ok(self.sweep(&mut self.wheel.drive()?, now, budget, event))
    }

    /// Runs what is due on the wheel's clock, and sets the alarm for the next. True
    /// if all that was due is done.
    pub fn poll(
        &self,
        budget: Budget,
        event: Option<&mut dyn FnMut(&Fired) -> bool>,
    ) -> Result<bool, Errno> {
        self.may_drive()?;
        if self.clock.id().is_none() {
            return Err(-libc::EINVAL);
        }
        if self.is_elsewhere() {
            return Err(-libc::EBUSY);
        }
        let mut drive = self.wheel.drive()?;
        self.wheel.awake();
        let done = self.sweep(&mut drive, self.now(), budget, event);
        if self.fd.load(Ordering::Acquire) < 0 {
            return Ok(done);
        }
        if done {
            drive.settle();
            self.sleep_until_next();
        } else {
            self.alarm_now();
        }
        Ok(done)
    }

    /// Sets the alarm for the next visit; false if the system refuses.
    fn sleep_until_next(&self) -> bool {
        let mut set = true;
        self.wheel.doze(LAG, |tick| {
            let at = (tick != NEVER).then(|| self.wheel.scale.ns(tick));
            self.alarm(|a| set = a.set(at).is_ok());
        });
        set
    }

    /// Whoever sleeps on the alarm wakes. If the system refuses, it does not
    /// sleep either.
    fn alarm_now(&self) {
        self.alarm(|a| _ = a.set_now());
    }

    fn alarm(&self, f: impl FnOnce(&Alarm)) {
        // Acquire: pairs with the exchange in `descriptor`.
        let fd = self.fd.load(Ordering::Acquire);
        if let (true, Some(clock)) = (fd >= 0, self.clock.id()) {
            f(&Alarm::borrow(fd, clock));
        }
    }

    /// The alarm's descriptor, made when first asked for.
    pub fn descriptor(&self) -> Result<i32, Errno> {
        self.check()?;
        let Some(clock) = self.clock.id() else {
            return Err(-libc::EINVAL);
        };
        let fd = self.fd.load(Ordering::Acquire);
        if fd >= 0 {
            return Ok(fd);
        }
        let alarm = Alarm::new(clock).map_err(|e| -e)?;
        // What is armed already is found by a first poll.
        alarm.set_now().map_err(|e| -e)?;
        match self
            .fd
            .compare_exchange(-1, alarm.fd(), Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Ok(std::mem::ManuallyDrop::new(alarm).fd()),
            Err(seen) => Ok(seen),
        }
    }

    /// When the next timer fires, if any does; perhaps too early, never late.
    pub fn next_expiry(&self) -> Result<Option<u64>, Errno> {
        self.check()?;
        // The tick thread is not to find the lock taken.
        let driven = self.drive.load(Ordering::Acquire) != IDLE;
        let next = match (!driven).then(|| self.wheel.drive()) {
            Some(Ok(mut drive)) => drive.next(),
            _ => self.wheel.next_while_driven(),
        };
        Ok((next != NEVER).then(|| self.wheel.scale.ns(next)))
    }

    /// Starts the tick thread.
    pub fn start(&self) -> Result<(), Errno> {
        self.check()?;
        self.descriptor()?;
        // Acquire: pairs with the Release in `stop`.
        self.drive
            .compare_exchange(IDLE, DRIVEN, Ordering::AcqRel, Ordering::Acquire)
            .map_err(|_| -libc::EBUSY)?;
        let result = match self.wheel.drive() {
            // Somebody polls or advances at this moment.
            Err(e) => Err(e.into()),
            Ok(drive) => {
                drop(drive);
                self.stop.store(0, Ordering::Release);
                thread::start(run, std::ptr::from_ref(self).cast_mut().cast()).map_err(|e| -e)
            }
        };
        match result {
            Ok(thread) => {
                // SAFETY: this thread has moved `drive` out of IDLE, and `stop`
                // waits for READY.
                unsafe { *self.thread.get() = Some(thread) };
                self.stop.fetch_or(READY, Ordering::AcqRel);
                Ok(())
            }
            Err(e) => {
                self.drive.store(IDLE, Ordering::Release);
                Err(e)
            }
        }
    }

    /// Ends the tick thread; nothing happens without one.
    pub fn stop(&self) -> Result<(), Errno> {
        self.check()?;
        if self.is_inside(None) {
            return Err(-libc::EDEADLK);
        }
        match self
            .drive
            .compare_exchange(DRIVEN, STOPPING, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => self.stop_thread(),
            Err(IDLE) => {}
            Err(_) => return Err(-libc::EBUSY),
        }
        // What is queued has fired: it runs, here if nobody else takes it.
        if let Some(pool) = &self.pool {
            while let Some(fired) = pool.take() {
                self.run_queued(pool, &fired);
            }
            pool.wait_for_rest();
        }
        Ok(())
    }

    fn stop_thread(&self) {
        while self.stop.load(Ordering::Acquire) & READY == 0 {
            std::thread::yield_now();
        }
        self.stop.fetch_or(STOP, Ordering::AcqRel);
        self.alarm_now();
        // SAFETY: READY: it was written, and only one thread is STOPPING.
        if let Some(thread) = unsafe { (*self.thread.get()).take() } {
            thread::join(thread);
        }
        self.stop.store(0, Ordering::Relaxed);
        // What was left is found by a first poll.
        self.alarm_now();
        self.drive.store(IDLE, Ordering::Release);
    }

    /// The tick thread.
    fn tick(&self) {
        while self.stop.load(Ordering::Acquire) & STOP == 0 {
            self.wheel.awake();
            let Ok(mut drive) = self.wheel.drive() else {
                // A next_expiry or drain that was under way: soon over.
                std::thread::yield_now();
                continue;
            };
            if !self.sweep(&mut drive, self.now(), Budget::default(), None) {
                continue;
            }
            drive.settle();
            let mut slept = self.sleep_until_next();
            drop(drive);
            // A stop that came before the alarm was set has set it to now,
            // or is seen here.
            fence(Ordering::SeqCst);
            if self.stop.load(Ordering::Acquire) & STOP != 0 {
                break;
            }
            self.alarm(|a| slept = slept && a.wait());
            if !slept {
                // The descriptor is broken, say closed by mistake, or may not
                // be set: timers still fire, by looking again.
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            self.wakeups.bump(1);
        }
        self.wheel.awake();
    }

    /// Hands back every armed timer; from now on the wheel refuses arms.
    pub fn drain(&self, mut take: impl FnMut(&Fired) -> bool) -> Result<bool, Errno> {
        self.check()?;
        if self.is_inside(None) {
            return Err(-libc::EDEADLK);
        }
        self.may_drive()?;
        let mut drive = self.wheel.drive()?;
        Ok(drive.drain(|fired| self.named(fired, &mut take)))
    }
}

impl Park for Host {
    /// Inside a callback it runs what is queued in the meantime: the callback
    /// waited for may be there, and all workers may wait like this.
    fn wait(&self, word: &AtomicU64, seen: u64) {
        match &self.pool {
            Some(pool) if self.is_inside(None) => {
                pool.wait_or(|| word.load(Ordering::Acquire) != seen);
                if let Some(fired) = pool.take() {
                    self.run_queued(pool, &fired);
                }
            }
            _ => Futex.wait(word, seen),
        }
    }

    fn wake(&self, word: &AtomicU64) {
        Futex.wake(word);
        if let Some(pool) = &self.pool {
            pool.stir();
        }
    }
}

/// What a sweep does with what it fires.
struct Firing<'h, 'e> {
    host: &'h Host,
    /// The time of the sweep.
    now: u64,
    event: Option<&'e mut dyn FnMut(&Fired) -> bool>,
    items: u32,
    /// How many items the budget has; 0 is no limit.
    most: u32,
    /// When the budget is used up.
    end: u64,
}

impl Sink for Firing<'_, '_> {
    fn fire(&mut self, fired: &Fired) -> bool {
        let host = self.host;
        let late = u64::BITS - self.now.saturating_sub(fired.due_ns).leading_zeros();
        host.lateness[(late as usize).min(LATENESS - 1)].bump(1);
        self.items += 1;
        let room = if fired.kind & KEYED == 0 {
            self.hand_over(fired)
        } else {
            self.hand_over_keyed(fired)
        };
        room && self.items != self.most && !self.is_enough()
    }

    fn is_enough(&mut self) -> bool {
        self.end != u64::MAX && clock::now(libc::CLOCK_MONOTONIC) >= self.end
    }
}

impl Firing<'_, '_> {
    fn hand_over(&mut self, fired: &Fired) -> bool {
        let host = self.host;
        if fired.func != 0 {
            host.dispatch(fired);
            // Relaxed: a stop that is seen late is seen by the next one.
            host.stop.load(Ordering::Relaxed) & STOP == 0
        } else if let Some(event) = &mut self.event {
            event(fired)
        } else {
            host.unclaimed.bump(1);
            true
        }
    }

    #[inline(never)]
    fn hand_over_keyed(&mut self, fired: &Fired) -> bool {
        let host = self.host;
        match host.fetch(fired) {
            // It goes on by its handle, until the callback sees it.
            Some(named) if fired.func != 0 => self.hand_over(&Fired {
                handle: fired.handle,
                ..named
            }),
            Some(named) => self.hand_over(&named),
            None => {
                // Armed by somebody who guessed its handle.
                if fired.func != 0 {
                    host.wheel.finish(host, fired.handle, host);
                }
                true
            }
        }
    }
}

/// Bits of `stop`.
const STOP: u32 = 1;
const READY: u32 = 2;

extern "C" fn work(host: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `create` passed its host, which outlives the thread: destroy
    // joins it first.
    let host = unsafe { &*host.cast::<Host>() };
    if let Some(pool) = &host.pool {
        while let Some(fired) = pool.next() {
            host.run_queued(pool, &fired);
        }
    }
    std::ptr::null_mut()
}

extern "C" fn run(host: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `start` passed its host, which outlives the thread: destroy
    // joins it first.
    let host = unsafe { &*host.cast::<Host>() };
    host.tick();
    std::ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wheel::GENERATION_MASK;

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
