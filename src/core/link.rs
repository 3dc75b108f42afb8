//! The link: the second word of a timer. It says why the driver looks at the timer in time.
//!
//! ```text
//!  63        54 53                                            0
//! +-----------+------------------------------------------------+
//! | gen, high | value                                          |
//! +-----------+------------------------------------------------+
//! ```
//!
//! | value         | meaning                                | counts while              |
//! |---------------|----------------------------------------|---------------------------|
//! | 0             | nothing                                | never                     |
//! | below `NOTES` | *tick k*: the driver has an entry for exactly k | the hand is before k |
//! | from `NOTES`  | *note (t, p)*: place p of thread t's inbox | the driver has not taken it |
//!
//! Each thread can tell whether a reason still counts. So no thread has to take one back.
//! The driver alone writes ticks. Threads write notes, each of them places of the thread's
//! own inbox.
//!
//! A tick of a microsecond or more fits: the clock's last tick is below 2^53.6. The 36 bits of
//! a place repeat, but a link does not name a place that was taken, except while its thread is
//! inside the arm that wrote it (`arm.rs`). That thread fills no other place meanwhile.
//!
//! Next to the value the link has the high part of the node's generation. It changes when a
//! node is freed and the low part wraps (`timer.rs`).

use super::state::{Handle, GEN_HIGH_BITS, HANDLE_GAP};

const VALUE_BITS: u32 = 64 - GEN_HIGH_BITS;
const VALUE: u64 = (1 << VALUE_BITS) - 1;
const PLACE_BITS: u32 = 36;
const PLACE: u64 = (1 << PLACE_BITS) - 1;
/// Bits of the number of a thread.
const THREAD_BITS: u32 = 15;
const _: () = assert!(super::tunables::THREADS <= 1 << THREAD_BITS);
/// The first value that is a note: no tick of a clock comes so far.
pub(super) const NOTES: u64 = (1 << VALUE_BITS) - (1 << (THREAD_BITS + PLACE_BITS));

/// A place of an inbox: the number of its thread, and how many places come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub thread: u32,
    /// Of the whole number, the low 36 bits count.
    pub number: u64,
}

impl Place {
    /// Whether a driver that has taken `head` notes has left this one.
    #[inline(always)]
    pub fn is_left(self, head: u64) -> bool {
        // Half of the range of places lies on either side.
        (self.number.wrapping_sub(head) << (64 - PLACE_BITS)) as i64 >= 0
    }
}

/// A reason for a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Nothing,
    Tick(u64),
    Note(Place),
}

/// A link as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link(pub u64);

impl Link {
    /// No reason, in a generation with this high part.
    pub fn none(high: u64) -> Self {
        Link(high << VALUE_BITS)
    }

    #[inline(always)]
    pub fn high(self) -> u64 {
        self.0 >> VALUE_BITS
    }

    /// 0 if the high part is that of a handle.
    #[inline(always)]
    pub fn differs_from(self, handle: Handle) -> u64 {
        (self.0 ^ handle) >> VALUE_BITS
    }

    /// This link with a tick, or 0 for no reason: what the driver writes.
    #[inline(always)]
    pub fn with_tick(self, tick: u64) -> Self {
        Link(self.0 & !VALUE | tick)
    }

    /// This link with another high part.
    pub fn with_high(self, high: u64) -> Self {
        Link(self.0 & VALUE | high << VALUE_BITS)
    }

    /// Another reason with the same high part.
    #[inline]
    pub fn with(self, reason: Reason) -> Self {
        self.with_tick(match reason {
            Reason::Nothing => 0,
            Reason::Tick(tick) => tick,
            Reason::Note(place) => {
                NOTES + (u64::from(place.thread) << PLACE_BITS | place.number & PLACE)
            }
        })
    }

    #[inline]
    pub fn reason(self) -> Reason {
        match self.0 & VALUE {
            0 => Reason::Nothing,
            NOTES.. => Reason::Note(self.place()),
            tick => Reason::Tick(tick),
        }
    }

    /// Whether the reason is a note, and the high part is that of the handle.
    #[inline(always)]
    pub fn is_near_note(self, handle: Handle) -> bool {
        let note = (self.0 ^ (handle & !VALUE)).wrapping_sub(NOTES);
        note >> (THREAD_BITS + PLACE_BITS) == 0
    }

    #[inline(always)]
    pub fn is_note(self) -> bool {
        self.0 & VALUE >= NOTES
    }

    /// The place of a note.
    #[inline(always)]
    pub fn place(self) -> Place {
        let note = (self.0 & VALUE) - NOTES;
        Place {
            thread: (note >> PLACE_BITS) as u32,
            number: note & PLACE,
        }
    }

    /// The tick. The result is no tick near the hand if the reason is a note, or if the high
    /// part is not that of the handle.
    #[inline(always)]
    pub fn near_tick(self, handle: Handle) -> u64 {
        const { assert!(HANDLE_GAP & !VALUE == 0) };
        self.0 ^ (handle & !VALUE)
    }
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;

    #[test]
    fn a_link_keeps_its_reason_and_its_high_part() {
        let place = |thread, number| Reason::Note(Place { thread, number });
        let last = Reason::Tick(NOTES - 1);
        for reason in [
            Reason::Nothing,
            Reason::Tick(1),
            last,
            place(0, 0),
            place((1 << THREAD_BITS) - 1, PLACE),
        ] {
            let link = Link::none(0x2ab).with(reason);
            assert_eq!((link.high(), link.reason()), (0x2ab, reason));
            assert_eq!(link.with_high(0x155).reason(), reason);
            assert_eq!(link.with_high(0x155).high(), 0x155);
        }
    }

    #[test]
    fn a_place_is_taken_when_the_head_is_past_it_also_over_the_wrap() {
        for first in [0, PLACE - 1, PLACE, u64::MAX >> 8] {
            let number = first + 1;
            for number in [number, number & PLACE] {
                let place = Place { thread: 1, number };
                assert!(place.is_left(first) && place.is_left(first + 1));
                assert!(!place.is_left(first + 2));
            }
        }
    }
}
