//! The model checker's atomics, one of whose orderings can be weakened: the
//! environment says which, by file, line, column and number among the
//! arguments, and to what. A fence that becomes relaxed is left out.

use super::stopping::Turns;
use loom::sync::atomic as real;
use std::panic::Location;
use std::sync::{Once, OnceLock};

pub(crate) use real::Ordering;

struct Weakening {
    file: String,
    line: u32,
    column: u32,
    argument: usize,
    to: Ordering,
}

/// Reads "file:line:column:argument:ordering".
fn read() -> Option<Weakening> {
    let said = std::env::var("HWHEEL_WEAKEN").ok()?;
    let parts: Vec<&str> = said.split(':').collect();
    let number = |i: usize| parts[i].parse::<u32>().expect("a number");
    Some(Weakening {
        file: parts[0].to_string(),
        line: number(1),
        column: number(2),
        argument: number(3) as usize,
        to: match parts[4] {
            "Relaxed" => Ordering::Relaxed,
            "Acquire" => Ordering::Acquire,
            "Release" => Ordering::Release,
            "AcqRel" => Ordering::AcqRel,
            other => panic!("no ordering: {other}"),
        },
    })
}

static WEAKENING: OnceLock<Option<Weakening>> = OnceLock::new();
static SAID: Once = Once::new();

#[track_caller]
fn hook(order: Ordering, argument: usize) -> Ordering {
    if argument == 0 {
        super::stopping::access();
    }
    let at = Location::caller();
    match WEAKENING.get_or_init(read) {
        Some(w)
            if (w.line, w.column, w.argument) == (at.line(), at.column(), argument)
                && w.file == at.file() =>
        {
            SAID.call_once(|| println!("weakened {order:?} to {:?}", w.to));
            w.to
        }
        _ => order,
    }
}

#[track_caller]
pub(crate) fn fence(order: Ordering) {
    match hook(order, 0) {
        Ordering::Relaxed => {}
        order => real::fence(order),
    }
}

hooked!();
