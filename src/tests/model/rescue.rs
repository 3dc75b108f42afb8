//! No memory for a promise: the driver looks at every node instead.

use super::duel;
use crate::memory::Memory;
use crate::sweep::Fired;
use crate::tests::{at, config, Heap, Own};
use crate::wheel::{Error, Handle, How, Spec, Token, Wheel};
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory that is refused from some time on.
struct Scarce(AtomicBool);

impl Memory for Scarce {
    fn map(&self, bytes: usize) -> *mut u8 {
        if self.0.load(Ordering::Relaxed) {
            return std::ptr::null_mut();
        }
        Heap.map(bytes)
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
    fn new() -> Poor {
        let memory = Scarce(AtomicBool::new(false));
        let wheel = Wheel::new(memory, config(1, 1, 0)).unwrap();
        let first = Own(wheel.attach().unwrap());
        let timer = wheel.setup(&first, Spec::default(), Some(at(1))).unwrap();
        let token = wheel.attach().unwrap();
        wheel.memory.0.store(true, Ordering::Relaxed);
        Poor {
            wheel,
            timer,
            token,
        }
    }

    fn advance(&self, target: u64) -> u64 {
        let mut fired = 0;
        if !self.wheel.nothing_due(target) {
            self.wheel.drive().unwrap().advance(target, |_: &Fired| {
                fired += 1;
                true
            });
        }
        fired
    }
}

/// A timer is moved later, trusting a promise that is visited meanwhile; neither
/// its thread nor the driver can make another. It is fired in time all the same.
#[test]
fn rescue_against_sweep() {
    duel(
        Poor::new,
        |p| {
            let own = Own(p.token);
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
