//! Loops that sleep in their own call, and the function that wakes them.

use super::*;

/// A loop, and the threads that arm for it.
struct Looping {
    w: World,
    /// Callbacks run in other threads.
    pooled: bool,
    /// The loop was woken since it last took that, like the count of an eventfd. The function
    /// holds it as long as the loop does that decides to sleep.
    woken: Mutex<bool>,
    wakes: Condvar,
    /// The loop has driven; held by whoever looks whether a timer has fired, until it sleeps.
    driven: Mutex<()>,
    drives: Condvar,
    /// The timer of each thread, and how often an arm of it has begun or returned. No step of
    /// an order.
    own: [(AtomicU64, AtomicU64); ARMING],
    is_over: AtomicBool,
}

/// Threads that arm; another one is the loop.
const ARMING: usize = 3;

std::thread_local! {
    static LOOPING: Cell<*const Looping> = const { Cell::new(std::ptr::null()) };
}

/// The wake function, which may be slow at either end.
unsafe extern "C-unwind" fn wake(_: *mut WheelInC, _: Option<NonNull<WheelInC>>) {
    // SAFETY: set for as long as there are threads.
    let l = unsafe { &*LOOPING.get() };
    let mut rng = numbers();
    dawdle(&mut rng);
    *l.woken.lock().unwrap() = true;
    l.wakes.notify_all();
    dawdle(&mut rng);
}

fn dawdle(rng: &mut Rng) {
    for _ in 0..rng.below(4) * rng.below(8) {
        thread::yield_now();
    }
}

impl Looping {
    fn new(clock: Clock, crew: Option<Options>) -> Looping {
        Looping {
            pooled: crew.is_some(),
            w: World::of(clock, crew, Manner::Inside, Some(wake)),
            woken: Mutex::new(false),
            wakes: Condvar::new(),
            driven: Mutex::new(()),
            drives: Condvar::new(),
            own: Default::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// The loop: polls, and sleeps until the time that the poll has announced, unless it is
    /// woken. Time leaps while it sleeps.
    fn turn(&self, rng: &mut Rng) {
        let host = &self.w.host;
        let mut now = host.now();
        while !self.is_over.load(Ordering::Relaxed) {
            // Before the poll, which serves all that had woken it.
            *self.woken.lock().unwrap() = false;
            let bounds = Bounds {
                items: rng.below(4),
                ns: 0,
            };
            let run = match self.w.is_manual() {
                true => host.advance(now, bounds, None),
                false => host.poll(bounds, None),
            };
            let next = run.unwrap().next_ns;
            drop(self.driven.lock().unwrap());
            self.drives.notify_all();
            dawdle(rng);
            let mut woken = self.woken.lock().unwrap();
            loop {
                now = now.max(host.now());
                if *woken || next <= now {
                    break;
                }
                self.oversleeps_nothing(next, now);
                if next == crate::core::state::NEVER {
                    woken = self.wakes.wait(woken).unwrap();
                } else if rng.below(4) != 0 {
                    drop(woken);
                    thread::yield_now();
                    woken = self.woken.lock().unwrap();
                } else {
                    system().pass(next - now);
                    now = next;
                }
            }
        }
    }

    /// No arm that has returned is for a tick before `next`, or was late and could fire in the
    /// tick after `now`. The loop was not woken. A worker that has yet to end a callback has
    /// yet to wake it.
    fn oversleeps_nothing(&self, next: u64, now: u64) {
        if self.pooled {
            return;
        }
        for (timer, arms) in &self.own {
            let before = arms.load(Ordering::Relaxed);
            let due = self.w.host.wheel.due(timer.load(Ordering::Relaxed));
            if before % 2 == 1 || arms.load(Ordering::Relaxed) != before {
                continue;
            }
            if let Ok(Some(due)) = due {
                let first = (now / TICK + 1) * TICK;
                assert!(
                    next <= due.max(first),
                    "sleeps until {next}, not {due}: {}",
                    self.w.describe()
                );
            }
        }
    }

    /// Arms a timer, often for earlier and earlier times, and waits until it has fired.
    fn arm_and_wait(&self, n: usize, rng: &mut Rng) {
        let (w, host) = (&self.w, &self.w.host);
        let (timer, arms) = &self.own[n];
        let timer = timer.load(Ordering::Relaxed);
        let mut delay = SOON;
        for _ in 0..=rng.below(4) {
            w.book(1);
            add(arms, 1);
            let was = host.arm(timer, host.after(delay), How::Always).unwrap();
            add(arms, 1);
            w.book(-i64::from(was));
            delay = rng.below(delay + 1);
        }
        let mut driven = self.driven.lock().unwrap();
        while host.wheel.due(timer).unwrap().is_some() {
            driven = self.drives.wait(driven).unwrap();
        }
    }
}

/// A loop sleeps past no timer of three threads that arm earlier and earlier while it polls,
/// sleeps, and is woken, by a function that takes its time. A lost wake is a sleep that is too
/// long, or one that nobody ends.
#[test]
fn a_loop_that_is_woken_sleeps_past_nothing() {
    check(|rng, tally| {
        let crew = (rng.below(3) == 0).then(|| crew_that_drops_none(rng));
        let l = Looping::new(life::clock(rng), crew);
        LOOPING.set(&l);
        for (timer, _) in &l.own {
            let made = l.w.host.setup(kept(), None).unwrap();
            timer.store(made, Ordering::Relaxed);
        }
        let left = AtomicU64::new(ARMING as u64);
        together(&l.w, rng, ARMING + 1, |n, rng| {
            if n == ARMING {
                return l.turn(rng);
            }
            for _ in 0..3 {
                l.arm_and_wait(n, rng);
            }
            if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                l.is_over.store(true, Ordering::Relaxed);
                *l.woken.lock().unwrap() = true;
                l.wakes.notify_all();
            }
        });
        l.w.close(tally, rng);
    });
}
