//! tokio-util's DelayQueue on tokio's paused clock. `remove` and `insert_at`
//! make the pair, `reset_at` arms in place; all take an instant, so that no
//! call reads a clock. Several threads have a mutex around the queue ("locked").

use peers::{Args, Peer, Rng, OPS, SEC, SEED};
use std::sync::{LazyLock, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{advance, Instant};
use tokio_util::time::delay_queue::{DelayQueue, Key};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    builder.build().expect("a runtime")
});

/// Used inside the runtime.
struct Queue {
    queue: DelayQueue<usize>,
    keys: Vec<Key>,
    now: Instant,
}

impl Queue {
    fn insert(&mut self, i: usize, delay: u64) -> Key {
        self.queue
            .insert_at(i, self.now + Duration::from_nanos(delay))
    }
}

impl Peer for Queue {
    const MOVES: bool = true;

    fn armed(delays: impl Iterator<Item = u64>) -> Self {
        let mut queue = Queue {
            queue: DelayQueue::new(),
            keys: Vec::new(),
            now: Instant::now(),
        };
        for (i, delay) in delays.enumerate() {
            let key = queue.insert(i, delay);
            queue.keys.push(key);
        }
        queue
    }

    fn pair(&mut self, i: usize, delay: u64) {
        self.queue.remove(&self.keys[i]);
        self.keys[i] = self.insert(i, delay);
    }

    fn rearm(&mut self, i: usize, delay: u64) {
        self.queue
            .reset_at(&self.keys[i], self.now + Duration::from_nanos(delay));
    }

    fn tick(&mut self) -> usize {
        let queue = &mut self.queue;
        self.now += Duration::from_millis(1);
        RUNTIME.block_on(async move {
            let mut context = Context::from_waker(Waker::noop());
            let mut fired = 0;
            advance(Duration::from_millis(1)).await;
            while let Poll::Ready(Some(_)) = queue.poll_expired(&mut context) {
                fired += 1;
            }
            fired
        })
    }
}

/// Each thread has n timers of the one queue, and takes the lock for each call.
fn locked(n: usize, threads: usize, constant: bool) {
    let mut uniform = Rng(SEED);
    let mut queue = Queue::armed((0..n * threads).map(|_| uniform.delay()));
    let keys = std::mem::take(&mut queue.keys);
    let queue = Mutex::new(queue);
    let insert = |i, delay| queue.lock().expect("not poisoned").insert(i, delay);
    let remove = |key: &Key| queue.lock().expect("not poisoned").queue.remove(key);
    peers::threads(threads, |thread| {
        let _inside = RUNTIME.enter();
        let mut rng = Rng(SEED + thread as u64);
        let mut keys = keys[thread * n..][..n].to_vec();
        for _ in 0..OPS {
            let i = rng.below(n as u64) as usize;
            if constant {
                remove(&insert(i, 30 * SEC));
            } else {
                remove(&keys[i]);
                keys[i] = insert(i, rng.delay());
            }
        }
    });
}

fn main() {
    let args = Args::read();
    let _inside = RUNTIME.enter();
    match args.workload.as_str() {
        "pair" if args.threads > 1 => locked(args.n, args.threads, false),
        "constant" => locked(args.n, args.threads, true),
        _ => peers::run::<Queue>(args),
    }
}
