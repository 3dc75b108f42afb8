//! What a tick costs, counted in accesses to shared words: the same however many threads
//! use the wheel.

use super::*;

/// The accesses of a sweep over one tick in which one timer is due. `threads` threads use
/// the wheel, and each has a timer that is due much later.
fn accesses(threads: u64) -> usize {
    let wheel = Wheel::new(shape(3, 2, 0)).unwrap();
    for number in 1..=threads {
        let later = wheel.setup(&awake(number as Thread), called(0), Some(at(40)));
        assert!(later.is_ok());
    }
    let futex = Futex::default();
    let mut counted = 0;
    // The first sweeps may do what later ones need not.
    for tick in 1..4 {
        let due = wheel.setup(&awake(1), called(1), Some(at(tick)));
        let due = due.unwrap();
        let mut fired = 0;
        let before = shuttle::current::context_switches();
        let done = wheel.drive(0).unwrap().advance(
            at(tick),
            Waker(&futex, |_: &Fired| {
                fired += 1;
                true
            }),
        );
        counted = shuttle::current::context_switches() - before;
        assert!(done && fired == 1);
        assert_eq!(wheel.free(&awake(1), due), Ok(false));
    }
    counted
}

#[test]
fn a_tick_costs_what_is_due() {
    // One thread: there is one order.
    let once = RandomScheduler::new(1);
    run(
        once,
        &Arc::new(|| {
            let alone = accesses(1);
            assert!(alone > 0);
            assert_eq!(alone, accesses(7), "more for more threads");
        }),
    );
}
