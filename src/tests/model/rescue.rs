//! No memory for a promise: the driver looks at every node instead.

use super::{duel, duel_to};
use crate::core::arm::How;
use crate::core::driver::Fired;
use crate::core::error::Error;
use crate::core::life::Spec;
use crate::core::memory::{Memory, Pages};
use crate::core::state::Handle;
use crate::core::wheel::{Token, Wheel};
use crate::tests::checker::{at, shape};
use crate::tests::{Collect, Heap, Waking};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Memory that is refused from some time on.
struct Scarce(Arc<AtomicBool>);

impl Memory for Scarce {
    fn map(&self, bytes: usize, pages: Pages) -> *mut u8 {
        if self.0.load(Ordering::Relaxed) {
            return std::ptr::null_mut();
        }
        Heap.map(bytes, pages)
    }
    unsafe fn unmap(&self, at: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise; mapped by `Heap`.
        unsafe { Heap.unmap(at, bytes) }
    }
}

/// A wheel without memory, a timer that was armed before, and a shard that has no
/// chunks.
struct Poor {
    wheel: Wheel<Scarce>,
    timer: Handle,
    token: Token,
}

// SAFETY: one thread uses the token.
unsafe impl Send for Poor {}
// SAFETY: as above.
unsafe impl Sync for Poor {}

impl Poor {
    /// Its thread has chunks, and its timer rests. The driver has none for a cascade.
    fn driver() -> Poor {
        let refused = Arc::new(AtomicBool::new(false));
        let memory = Scarce(refused.clone());
        let wheel = Wheel::new(memory, shape(2, 1, 0)).unwrap();
        let token = wheel.attach().unwrap();
        let own = awake(token);
        let timer = wheel.setup(&own, Spec::default(), Some(at(100))).unwrap();
        wheel.free(&own, timer).unwrap();
        let timer = wheel.setup(&own, Spec::default(), None).unwrap();
        refused.store(true, Ordering::Relaxed);
        Poor {
            wheel,
            timer,
            token,
        }
    }

    fn new() -> Poor {
        let refused = Arc::new(AtomicBool::new(false));
        let memory = Scarce(refused.clone());
        let wheel = Wheel::new(memory, shape(1, 1, 0)).unwrap();
        let first = awake(wheel.attach().unwrap());
        let timer = wheel.setup(&first, Spec::default(), Some(at(1))).unwrap();
        let token = wheel.attach().unwrap();
        refused.store(true, Ordering::Relaxed);
        Poor {
            wheel,
            timer,
            token,
        }
    }

    fn advance(&self, target: u64) -> u64 {
        self.count(|take| self.wheel.advance(at(target), take).unwrap())
    }

    fn sweep(&self, target: u64) -> u64 {
        self.count(|take| self.wheel.drive().unwrap().advance(at(target), take))
    }

    fn count(&self, advance: impl FnOnce(Collect<&mut dyn FnMut(&Fired) -> bool>) -> bool) -> u64 {
        let mut fired = 0;
        advance(Collect(&mut |_: &Fired| {
            fired += 1;
            true
        }));
        fired
    }
}

/// A caller whose driver may be called while it is awake.
fn awake(token: Token) -> Waking<impl Fn()> {
    Waking(token, || ())
}

/// A timer is moved later, trusting a promise that is visited meanwhile; neither
/// its thread nor the driver can make another. It is fired in time all the same.
#[test]
fn rescue_against_sweep() {
    duel(
        Poor::new,
        |p| {
            let own = awake(p.token);
            p.wheel.arm(&own, p.timer, at(3), How::Always)
        },
        |p| p.advance(1) + p.advance(3),
        |p, armed, fired| {
            let late = p.advance(4);
            match armed {
                Ok(true) | Err(Error::Memory) => assert_eq!(fired + late, 1, "lost"),
                Ok(false) => assert_eq!(fired + late, 2, "lost"),
                Err(e) => panic!("{e:?}"),
            }
            assert!(p.wheel.due(p.timer).unwrap().is_none());
        },
    );
}

/// A cascade has dropped the entry of a thread that is about to publish. The driver
/// makes all promises good meanwhile, and does not take that one for good. At two
/// preemptions.
#[test]
fn rescue_against_a_thread_that_is_about_to_publish() {
    duel_to(
        Some(2),
        Poor::driver,
        |p| {
            let own = awake(p.token);
            p.wheel.arm(&own, p.timer, at(3), How::Always)
        },
        |p| p.sweep(2) + p.sweep(3),
        |p, armed, fired| {
            assert_eq!(armed, Ok(false));
            assert_eq!(fired + p.sweep(4) + p.sweep(5), 1, "lost");
        },
    );
}
