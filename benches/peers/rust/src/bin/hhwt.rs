//! hierarchical_hash_wheel_timer: the cancellable wheel. A cancelled entry
//! stays in the wheel as a weak reference until its tick, so each arming needs
//! an `Rc` of its own; there is no arming in place.

use hierarchical_hash_wheel_timer::wheels::cancellable::{
    CancellableTimerEntry, QuadWheelWithOverflow,
};
use peers::{Args, Peer};
use std::rc::Rc;
use std::time::Duration;

#[derive(Debug)]
struct Timer {
    cookie: u64,
}

impl CancellableTimerEntry for Timer {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.cookie
    }
}

struct Wheel(QuadWheelWithOverflow<Timer>);

impl Wheel {
    fn arm(&mut self, i: usize, delay: u64) {
        let timer = Rc::new(Timer { cookie: i as u64 });
        self.0
            .insert_ref_with_delay(timer, Duration::from_nanos(delay))
            .expect("a delay of at least a tick");
    }
}

impl Peer for Wheel {
    const MOVES: bool = false;

    fn armed(delays: impl Iterator<Item = u64>) -> Self {
        let mut wheel = Wheel(QuadWheelWithOverflow::new());
        for (i, delay) in delays.enumerate() {
            wheel.arm(i, delay);
        }
        wheel
    }

    fn pair(&mut self, i: usize, delay: u64) {
        self.0.cancel(&(i as u64)).expect("pending");
        self.arm(i, delay);
    }

    fn rearm(&mut self, i: usize, delay: u64) {
        self.pair(i, delay);
    }

    fn tick(&mut self) -> usize {
        self.0.tick().len()
    }
}

fn main() {
    peers::run::<Wheel>(Args::read());
}
