//! The driver takes the notes out of the inboxes. `core/inbox.rs` has the steps.
//!
//! A collection makes entries and fires nothing. A sweep to a goal begins only when the notes have
//! been taken that were there when the goal was announced. So timers fire in the order of their
//! ticks.
//!
//! A call with a bound may stop in the middle. The next call goes on there, with the same goal: so
//! a collection ends after a number of calls, also if threads append notes faster than one call
//! takes them. Notes that come later are for ticks after the goal.

use super::words::Driver;
use crate::core::inbox::Pass;
use crate::core::link::Place;
use crate::core::tunables::BATCH;
use crate::core::wheel::Wheel;
use crate::sync::{fence, Ordering};

/// No note has this place: no thread has the number 0.
const NO_PLACE: Place = Place {
    thread: 0,
    number: 0,
};

impl Wheel {
    /// Takes all notes that are there now, or goes on with that where the last call has stopped,
    /// until `is_enough`, which is asked after each batch. False if some are left. Follows a
    /// fence.
    #[inline]
    pub(super) fn collect(&self, d: &Driver, is_enough: &mut impl FnMut() -> bool) -> bool {
        // Relaxed: exchanged below. A request without a note is rare.
        let is_requested = self.shared.look_at_all.load(Ordering::Relaxed) != 0;
        if !d.collects.get() && !is_requested && !self.inboxes.are_dirty() {
            return true;
        }
        self.collect_rest(d, is_enough)
    }

    fn collect_rest(&self, d: &Driver, is_enough: &mut impl FnMut() -> bool) -> bool {
        let mut pass = d.pass.take();
        if !d.collects.replace(true) {
            self.inboxes.begin(&mut pass);
            // Acquire: pairs with the Release in `request_look_at_all`.
            let looks = self.shared.look_at_all.swap(0, Ordering::AcqRel) != 0;
            d.looks_at_all.set(looks);
        }
        while pass.thread != 0 || self.inboxes.go_to_next(&mut pass) {
            if !self.take_notes(d, &pass, is_enough) {
                d.pass.set(pass);
                return false;
            }
            pass.thread = 0;
        }
        if d.looks_at_all.get() && !self.look_at_rest(d, is_enough) {
            return false;
        }
        d.collects.set(false);
        true
    }

    /// Takes the notes of the inbox at which the pass is. False if some may be left.
    fn take_notes(&self, d: &Driver, pass: &Pass, is_enough: &mut impl FnMut() -> bool) -> bool {
        let (thread, end) = (pass.thread, pass.end);
        let mut batch = [0; BATCH];
        loop {
            let (first, n) = self.inboxes.take(thread, end, &mut batch);
            if n == 0 {
                return true;
            }
            for index in &batch[..n] {
                self.slab.records(*index).prefetch();
            }
            for (index, number) in batch[..n].iter().zip(first..) {
                self.look(d, *index, Place { thread, number });
            }
            // Between look.point and the reads of the states: race 1b in `core/arm.rs`.
            fence(Ordering::SeqCst);
            if is_enough() {
                return false;
            }
        }
    }

    /// Looks at every timer: a thread has requested a look without a note.
    #[cold]
    fn look_at_rest(&self, d: &Driver, is_enough: &mut impl FnMut() -> bool) -> bool {
        for index in self.slab.indices(d.looked_at.get()) {
            self.look(d, index, NO_PLACE);
            d.looked_at.set(index + 1);
            if index as usize % BATCH == 0 && is_enough() {
                return false;
            }
        }
        d.looked_at.set(0);
        d.looks_at_all.set(false);
        fence(Ordering::SeqCst);
        true
    }
}
