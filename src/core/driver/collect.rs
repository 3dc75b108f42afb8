//! The driver takes the notes out of the inboxes. `core/inbox.rs` has the steps.
//!
//! A collection makes entries and fires nothing. A sweep begins only when all notes have been
//! taken that were there when it announced its goal. So timers fire in the order of their ticks,
//! also if a collection stops in the middle.

use super::words::Driver;
use crate::core::inbox::Thread;
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
    /// Takes all notes that are there now, until `is_enough`, which is asked after each batch.
    /// False if some are left. Follows a fence.
    pub(super) fn collect(&self, d: &mut Driver, is_enough: &mut impl FnMut() -> bool) -> bool {
        if self.inboxes.are_dirty()
            && !self
                .inboxes
                .each_dirty(|thread| self.take_notes(d, thread, is_enough))
        {
            return false;
        }
        self.look_at_all(d, is_enough)
    }

    /// Takes the notes of one inbox. False if some may be left.
    fn take_notes(
        &self,
        d: &mut Driver,
        thread: Thread,
        is_enough: &mut impl FnMut() -> bool,
    ) -> bool {
        let end = self.inboxes.written(thread);
        let mut batch = [0; BATCH];
        loop {
            let (first, n) = self.inboxes.take(thread, end, &mut batch);
            if n == 0 {
                return true;
            }
            for index in &batch[..n] {
                self.slab.records(*index).prefetch_hot_and_spot();
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

    /// Looks at every timer, if a thread has requested a look without a note.
    #[inline]
    fn look_at_all(&self, d: &mut Driver, is_enough: &mut impl FnMut() -> bool) -> bool {
        let request = &self.shared.look_at_all;
        // Relaxed: read again below. A request without a note is rare.
        if request.load(Ordering::Relaxed) == 0 && d.looked_at == 0 {
            return true;
        }
        self.look_at_rest(d, is_enough)
    }

    #[cold]
    fn look_at_rest(&self, d: &mut Driver, is_enough: &mut impl FnMut() -> bool) -> bool {
        // Acquire: pairs with the Release in `request_look_at_all`.
        if self.shared.look_at_all.swap(0, Ordering::AcqRel) != 0 {
            d.looked_at = 0;
        }
        for index in self.slab.indices(d.looked_at) {
            self.look(d, index, NO_PLACE);
            d.looked_at = index + 1;
            if index as usize % BATCH == 0 && is_enough() {
                return false;
            }
        }
        d.looked_at = 0;
        fence(Ordering::SeqCst);
        true
    }
}
