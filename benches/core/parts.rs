//! The parts of the core, each by itself, in ticks: no clock, no C interface.
//!
//! They are private to the library, so this program is made of the same files.

use criterion::{criterion_group, criterion_main, BatchSize, Criterion, Throughput};
use std::alloc::{alloc_zeroed, dealloc, Layout};
use std::hint::black_box;

#[macro_use]
#[path = "../../src/probes.rs"]
mod probes;
#[path = "../../src/bucket.rs"]
mod bucket;
#[path = "../../src/count.rs"]
mod count;
#[path = "../../src/geometry.rs"]
mod geometry;
#[path = "../../src/memory.rs"]
mod memory;
#[path = "../../src/scale.rs"]
mod scale;
#[path = "../../src/shard.rs"]
mod shard;
#[path = "../../src/slab.rs"]
mod slab;
#[path = "../../src/state.rs"]
mod state;
#[path = "../../src/sweep.rs"]
mod sweep;
#[path = "../../src/sync.rs"]
mod sync;
#[path = "../../src/wheel.rs"]
mod wheel;

use bucket::Entry;
use geometry::{At, Geometry};
use memory::Memory;
use sweep::Fired;
use wheel::{Caller, Config, Due, Error, Handle, How, Spec, Token, Wheel};

/// The default shape.
const SHAPE: Geometry = Geometry {
    levels: 4,
    slot_bits: 8,
};
/// Timers of one tick, or re-armed one after the other.
const MANY: u64 = 1_000;
/// Ticks ahead: on the third level.
const FAR: u64 = 100_000;

struct Heap;

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 64).expect("a size")
}

impl Memory for Heap {
    fn map(&self, bytes: usize) -> *mut u8 {
        // SAFETY: nobody asks for nothing.
        unsafe { alloc_zeroed(layout(bytes)) }
    }

    unsafe fn unmap(&self, at: *mut u8, bytes: usize) {
        // SAFETY: of `map`, by the caller's promise.
        unsafe { dealloc(at, layout(bytes)) }
    }
}

/// A thread with a shard, and no driver that sleeps.
struct Own(Token);

impl Caller for Own {
    fn token(&self) -> Result<Token, Error> {
        Ok(self.0)
    }

    fn wake_driver(&self) {}
}

struct Rig {
    wheel: Wheel<Heap>,
    own: Own,
    timers: Vec<Handle>,
}

impl Rig {
    /// A wheel of `n` timers that rest, or are due at `tick`.
    fn new(n: u64, tick: Option<u64>) -> Self {
        let config = Config {
            levels: SHAPE.levels,
            slot_bits: SHAPE.slot_bits,
            limit: u32::MAX,
            tick_ns: 1,
            start: 0,
            salt: 0,
        };
        let wheel = Wheel::new(Heap, config).expect("a wheel");
        let own = Own(wheel.attach().expect("a shard"));
        let timers = (0..n)
            .map(|_| wheel.setup(&own, Spec::default(), tick.map(at)))
            .collect::<Result<_, _>>()
            .expect("timers");
        Rig { wheel, own, timers }
    }

    fn arm(&self, timer: Handle, tick: u64) -> bool {
        let armed = self.wheel.arm(&self.own, timer, at(tick), How::Always);
        armed.expect("armed")
    }

    fn rearm(&self, timer: Handle, tick: u64) -> bool {
        let otherwise = || unreachable!("not the short way");
        let raced = |_| unreachable!("nobody else");
        self.wheel
            .rearm(timer, at(tick), |_| true, otherwise, raced, otherwise)
    }

    fn cancel(&self, timer: Handle) -> bool {
        self.wheel.cancel(&self.own, timer, 0).expect("cancelled")
    }

    fn advance(&self, tick: u64) -> u64 {
        let mut fired = 0;
        let mut drive = self.wheel.drive().expect("the lock");
        drive.advance(tick, |_: &Fired| {
            fired += 1;
            true
        });
        fired
    }
}

fn at(tick: u64) -> Due {
    Due { tick, ns: tick }
}

fn words(c: &mut Criterion) {
    let (hand, tick) = (123_456, 123_456 + FAR);
    let word = state::armed(state::resting(1), state::encode(tick, hand));
    c.bench_function("state: encode", |b| {
        b.iter(|| state::encode(black_box(tick), black_box(hand)))
    });
    c.bench_function("state: decode", |b| {
        b.iter(|| state::decode(black_box(word), black_box(hand)))
    });
    c.bench_function("geometry: place", |b| {
        b.iter(|| SHAPE.place(black_box(tick), black_box(hand)))
    });
}

fn queues(c: &mut Criterion) {
    let rig = Rig::new(0, None);
    let shard = rig.wheel.shard(rig.own.0);
    let place = At { level: 0, slot: 1 };
    c.bench_function("bucket: push and pop", |b| {
        b.iter(|| {
            assert!(shard.push(&Heap, place, Entry::new(black_box(7), 1, 0)));
            let (entry, chunk) = shard.front(place).pop();
            if !chunk.is_null() {
                shard.put_spare(chunk);
            }
            entry
        })
    });
}

fn calls(c: &mut Criterion) {
    let rig = Rig::new(1, Some(FAR));
    let timer = rig.timers[0];
    let mut tick = FAR;
    let mut later = move || {
        tick += 1;
        tick
    };
    c.bench_function("wheel: re-arm later, the short way", |b| {
        b.iter(|| rig.rearm(timer, later()))
    });
    c.bench_function("wheel: re-arm later, the long way", |b| {
        b.iter(|| rig.arm(timer, later()))
    });
    c.bench_function("wheel: cancel, and arm later", |b| {
        b.iter(|| rig.cancel(timer) && rig.arm(timer, later()))
    });
}

fn pushes(c: &mut Criterion) {
    let mut group = c.benchmark_group("wheel");
    group.throughput(Throughput::Elements(MANY));
    let arm_all = |rig: &mut Rig| {
        for &timer in &rig.timers {
            rig.arm(timer, FAR / 2);
        }
    };
    group.bench_function("arm, with a push", |b| {
        b.iter_batched_ref(|| Rig::new(MANY, None), arm_all, BatchSize::PerIteration)
    });
    group.bench_function("re-arm earlier, with a push", |b| {
        b.iter_batched_ref(|| Rig::new(MANY, Some(FAR)), arm_all, BatchSize::PerIteration)
    });
    group.bench_function("sweep of one tick", |b| {
        b.iter_batched_ref(
            || Rig::new(MANY, Some(1)),
            |rig| assert_eq!(rig.advance(1), MANY),
            BatchSize::PerIteration,
        )
    });
    group.bench_function("sweep of one tick, from the third level", |b| {
        b.iter_batched_ref(
            || Rig::new(MANY, Some(FAR)),
            |rig| assert_eq!(rig.advance(FAR), MANY),
            BatchSize::PerIteration,
        )
    });
    group.finish();
}

criterion_group!(parts, words, queues, calls, pushes);
criterion_main!(parts);
