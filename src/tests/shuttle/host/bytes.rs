//! Programs of bytes: a fuzzer writes which wheel there is, what two to four threads
//! call, and the order of their steps. So one that is led by the edges that an execution
//! takes looks for programs and for orders at once.
//!
//! ```text
//!   2 bytes         the wheel, its clock and its executor
//!   1 byte          how many threads there are, and how many calls each makes
//!   2 bytes a call  the call and its arguments, thread by thread
//!   the rest        the order, and what the system and callbacks draw
//! ```
//!
//! The first two, and those of a call, are where numbers are drawn from. A byte of the
//! order is a thread and how many steps it makes, unless it has to wait before that. When
//! the bytes are used up, numbers take their place that are always the same: no thread
//! never gets its turn. Any bytes are a program, and the same bytes are the same
//! execution.
//!
//! `make check CHECK=fuzz` lets the fuzzer write (`LLVMFuzzerTestOneInput`). `programs_of_bytes` runs
//! the inputs in verify/fuzz/threads.corpus, and random ones.

use super::super::{iterations, run};
use super::*;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::sync::Arc;

/// Bytes while there are any, then numbers.
struct Tape {
    bytes: std::vec::IntoIter<u8>,
    then: Rng,
}

impl Tape {
    fn new(bytes: &[u8]) -> Tape {
        Tape {
            bytes: Vec::from(bytes).into_iter(),
            then: Rng(0x9e37_79b9_7f4a_7c15),
        }
    }

    fn byte(&mut self) -> u8 {
        // The upper ones are the better ones.
        let drawn = |rng: &mut Rng| (rng.next() >> 56) as u8;
        self.bytes.next().unwrap_or_else(|| drawn(&mut self.then))
    }

    /// The seed of the numbers of a call.
    fn seed(&mut self) -> u64 {
        1 + u64::from(u16::from_le_bytes([self.byte(), self.byte()]))
    }
}

/// The order that the bytes say.
struct Order {
    tape: Tape,
    /// How many more steps the current thread makes.
    left: u32,
    begun: bool,
}

impl Scheduler for Order {
    fn new_execution(&mut self) -> Option<Schedule> {
        (!std::mem::replace(&mut self.begun, true)).then(|| Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        if let [only] = runnable {
            return Some(only.id());
        }
        let here = current.filter(|id| runnable.iter().any(|task| task.id() == *id));
        if !is_yielding && here.is_some() && self.left != 0 {
            self.left -= 1;
            return here;
        }
        let byte = self.tape.byte();
        self.left = (1 << (byte & 7)) - 1;
        let others = runnable.iter().filter(|task| Some(task.id()) != current);
        let others: Vec<_> = others.map(|task| task.id()).collect();
        Some(others[usize::from(byte >> 3) % others.len()])
    }

    fn next_u64(&mut self) -> u64 {
        Rng(1 + u64::from(self.tape.byte())).next() >> 32
    }
}

/// A wheel, and the calls of each thread.
struct Program {
    /// The seed of the numbers that the wheel is made with.
    wheel: u64,
    /// The seed of each call, thread by thread.
    calls: Vec<Vec<u64>>,
}

impl Program {
    fn read(tape: &mut Tape) -> Program {
        let wheel = tape.seed();
        let byte = tape.byte();
        let (threads, calls) = (2 + byte % 3, 1 + byte / 3 % 16);
        let mut thread = || (0..calls).map(|_| tape.seed()).collect();
        let calls = (0..threads).map(|_| thread()).collect();
        Program { wheel, calls }
    }

    /// From the beginning of a wheel to its end. What does not return is a deadlock, or
    /// takes too many steps.
    fn run(&self, tally: &Tally) {
        let rng = &mut Rng(self.wheel);
        let w = World::new(life::clock(rng), crew(rng), manner(rng));
        system().hostile.store(rng.below(2) == 0, Ordering::Relaxed);
        together(&w, rng, self.calls.len(), |n, _| {
            for seed in &self.calls[n] {
                w.call(&mut Rng(*seed));
            }
        });
        w.close(tally, rng);
    }
}

/// Runs the program that the bytes are, in the order that they are.
fn execute(bytes: &[u8], tally: &Arc<Tally>) {
    let mut tape = Tape::new(bytes);
    let program = Program::read(&mut tape);
    let order = Order {
        tape,
        left: 0,
        begun: false,
    };
    add(&tally.executions, 1);
    let tally = tally.clone();
    run(order, &Arc::new(move || program.run(&tally)));
}

/// Every program that the fuzzer has kept, and as many others as there are orders of
/// another test: drawn, but always the same.
#[test]
fn programs_of_bytes() {
    let begin = std::time::Instant::now();
    let tally = Arc::new(Tally::default());
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/verify/fuzz/threads.corpus");
    for line in std::fs::read_to_string(kept).expect("a corpus").lines() {
        let byte = |at| u8::from_str_radix(&line[at..at + 2], 16).expect("two digits");
        let bytes: Vec<u8> = (0..line.len()).step_by(2).map(byte).collect();
        execute(&bytes, &tally);
    }
    assert!(
        tally.executions.load(Ordering::Relaxed) > 0,
        "nothing is kept"
    );
    let mut rng = Rng(1);
    for _ in 0..2 * iterations() {
        let bytes: Vec<u8> = (0..rng.below(400)).map(|_| rng.next() as u8).collect();
        execute(&bytes, &tally);
    }
    tally.say(begin);
}

#[cfg(fuzzed)]
mod fuzzer {
    use super::*;
    use std::sync::OnceLock;

    static TALLY: OnceLock<Arc<Tally>> = OnceLock::new();

    /// For verify/fuzz/run.sh, which adds it up.
    extern "C" fn say() {
        if let Some(tally) = TALLY.get() {
            let [ended, called] = [&tally.ended, &tally.called].map(|n| n.load(Ordering::Relaxed));
            println!("stat::fired: {ended}\nstat::callbacks: {called}");
        }
    }

    /// libFuzzer calls this function with each input.
    ///
    /// # Safety
    /// There are `size` bytes at `bytes`.
    #[no_mangle]
    unsafe extern "C" fn LLVMFuzzerTestOneInput(bytes: *const u8, size: usize) -> libc::c_int {
        let tally = TALLY.get_or_init(|| {
            // SAFETY: a function that may be called at exit.
            unsafe { libc::atexit(say) };
            Arc::default()
        });
        // SAFETY: the caller's promise. Of no bytes the address may be null.
        let bytes = match size {
            0 => &[],
            _ => unsafe { std::slice::from_raw_parts(bytes, size) },
        };
        let ran = std::panic::catch_unwind(|| execute(bytes, tally));
        if ran.is_err() {
            // The fuzzer keeps the input.
            std::process::abort();
        }
        0
    }
}
