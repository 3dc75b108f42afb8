//! The operating system of the tests of whole wheels under a model checker: its clock,
//! alarms and threads. It may refuse what it is asked for.

use super::checker::{thread, tool};
use crate::core::state::NEVER;
use crate::sync::AtomicU64;
// Of the standard library: to keep books is no step of an order, and orders nothing.
use std::sync::atomic::{AtomicBool, AtomicU64 as Count, Ordering};
use std::sync::{Arc, Mutex};

/// The time at first.
pub(crate) const BEGIN: u64 = 1 << 20;

/// An alarm with a lock, like the kernel's: a thread that sets it, or that it wakes, sees
/// what the threads that set it earlier had done before.
pub(crate) struct Bell {
    at: AtomicU64,
    /// Its edge was reported.
    is_seen: AtomicBool,
    made: AtomicU64,
    #[cfg(loom)]
    closed: loom::cell::UnsafeCell<bool>,
}

// SAFETY: the checker watches each access to `closed`; the rest is atomic.
#[cfg(loom)]
unsafe impl Sync for Bell {}

impl Bell {
    fn new() -> Self {
        let bell = Bell {
            at: AtomicU64::new(NEVER),
            is_seen: AtomicBool::new(false),
            made: AtomicU64::new(0),
            #[cfg(loom)]
            closed: loom::cell::UnsafeCell::new(false),
        };
        bell.made.store(1, Ordering::Relaxed);
        bell
    }

    pub fn set(&self, at_ns: u64) {
        self.check();
        // An exchange, so that all of them have one order.
        self.at.swap(at_ns, Ordering::AcqRel);
        self.is_seen.store(false, Ordering::Relaxed);
        system().wake();
    }

    /// Its wheel is gone. Fails if another use of it does not come before this call.
    pub fn close(&self) {
        #[cfg(loom)]
        // SAFETY: the checker watches.
        self.closed.with_mut(|closed| unsafe { *closed = true });
    }

    fn check(&self) {
        #[cfg(loom)]
        // SAFETY: as above.
        self.closed
            .with(|closed| assert!(!unsafe { *closed }, "closed"));
    }

    /// When it goes off, if it has gone off.
    fn due(&self) -> Option<u64> {
        // An exchange: the latest.
        let at = self.at.fetch_or(0, Ordering::Acquire);
        (at <= now()).then_some(at)
    }

    /// Takes back that it has gone off.
    fn read(&self) -> bool {
        self.due().is_some_and(|at| {
            let read = self
                .at
                .compare_exchange(at, NEVER, Ordering::Acquire, Ordering::Relaxed);
            read.is_ok()
        })
    }

    /// Sleeps until it goes off, or is disturbed.
    pub fn wait(&self) {
        let me = thread::current();
        let sleepers = || system().sleepers.lock().unwrap();
        sleepers().push(me.clone());
        while !self.read() && !system().disturbed() {
            system().looks.fetch_add(1, Ordering::Relaxed);
            thread::park();
            sleepers().push(me.clone());
        }
        system().looks.store(0, Ordering::Relaxed);
        sleepers().retain(|sleeper| sleeper.id() != me.id());
    }

    #[cfg(shuttle)]
    pub fn seen(&self) -> u64 {
        self.at.load(Ordering::Relaxed)
    }

    /// Whether it has gone off, once for each time.
    #[cfg(loom)]
    pub fn edge(&self) -> bool {
        self.due().is_some() && !self.is_seen.swap(true, Ordering::Relaxed)
    }
}

pub(crate) struct System {
    bells: Mutex<Vec<Arc<Bell>>>,
    sleepers: Mutex<Vec<thread::Thread>>,
    pub threads: Mutex<Vec<Option<thread::JoinHandle<()>>>>,
    now: Count,
    /// The latest time that there ever was.
    latest: Count,
    /// How often a thread has looked at the clock in its sleep, and slept on.
    looks: Count,
    /// It may refuse what it is asked for.
    pub hostile: AtomicBool,
}

tool::lazy_static! {
    static ref SYSTEM: System = System {
        bells: Mutex::default(),
        sleepers: Mutex::default(),
        threads: Mutex::default(),
        now: Count::new(BEGIN),
        latest: Count::new(BEGIN),
        looks: Count::new(0),
        hostile: AtomicBool::new(false),
    };
}

pub(crate) fn system() -> &'static System {
    &SYSTEM
}

/// The time.
pub(crate) fn now() -> u64 {
    system().now.load(Ordering::Relaxed)
}

impl System {
    /// A new alarm; its number.
    pub fn make_bell(&self) -> usize {
        let bell = Arc::new(Bell::new());
        let mut bells = self.bells.lock().unwrap();
        bells.push(bell);
        bells.len() - 1
    }

    /// The alarm with a number. Fails if its making does not come before this call.
    pub fn bell(&self, number: usize) -> Arc<Bell> {
        let bell = self.bells.lock().unwrap()[number].clone();
        assert_eq!(bell.made.load(Ordering::Relaxed), 1, "not known");
        bell
    }

    fn wake(&self) {
        let sleepers = std::mem::take(&mut *self.sleepers.lock().unwrap());
        sleepers.iter().for_each(thread::Thread::unpark);
    }

    /// Time passes.
    pub fn pass(&self, ns: u64) {
        let now = self.now.fetch_add(ns, Ordering::Relaxed) + ns;
        self.latest.fetch_max(now, Ordering::Relaxed);
        self.wake();
    }

    /// A wake-up for nothing.
    fn disturbed(&self) -> bool {
        self.hostile.load(Ordering::Relaxed) && one_in(8)
    }

    /// Says no, now and then.
    pub fn refused(&self) -> Option<i32> {
        self.disturbed().then_some(-libc::EAGAIN)
    }
}

#[cfg(shuttle)]
impl System {
    pub fn latest(&self) -> u64 {
        self.latest.load(Ordering::Relaxed)
    }

    /// Of the one thread that sleeps on an alarm.
    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// The clock is set back.
    pub fn step_back(&self, ns: u64) {
        self.now.fetch_sub(ns, Ordering::Relaxed);
    }
}

#[cfg(shuttle)]
pub(crate) fn one_in(n: u64) -> bool {
    use shuttle::rand::RngCore;
    shuttle::rand::thread_rng().next_u64() % n == 0
}

/// There are no dice under loom.
#[cfg(loom)]
fn one_in(_: u64) -> bool {
    false
}
