//! The state word: the whole truth about one timer in 64 bits.
//!
//! ```text
//!  63              26 25        8 7   6 5        0
//! +------------------+-----------+-----+----------+
//! | deadline         | gen, low  | exp |  flags   |
//! +------------------+-----------+-----+----------+
//! ```
//!
//! A thread changes the word by compare-exchange. A thread that has just taken a free node
//! stores it, and so does the owner of an owned wheel (`owner.rs`). Each transition is one
//! method of [`StateWord`].
//!
//! A handle has the high part of the generation, the index of the node in 26 bits, and the
//! low half of the state word of a plain armed timer. So one exclusive or of word and
//! handle checks the low part of the generation and every flag at once. The high part
//! lies next to the word, in the link (`record.rs`).
//!
//! # The deadline
//!
//! A deadline is a 64-bit tick, of which 38 bits fit. The word keeps `mantissa <<
//! (9 * exp)`, the mantissa modulo 2^38. [`StateWord::deadline`] restores the tick
//! from the position of the hand.
//!
//! | exp | unit (ticks) | used for delays (ticks) | rounded up by at most   |
//! |-----|--------------|-------------------------|-------------------------|
//! | 0   | 1            | below 1.5 * 2^36        | nothing                 |
//! | 1   | 2^9          | below 1.5 * 2^45        | 5 * 10^-9 of the delay  |
//! | 2   | 2^18         | below 1.5 * 2^54        | 5 * 10^-9 of the delay  |
//! | 3   | 2^27         | the rest                | 5 * 10^-9 of the delay  |
//!
//! In an armed word, exp 3 with the largest mantissa means "never". No tick has that
//! mantissa. In a word that is not armed, exp is 0, or 2 if the timer was drained, or 3 if it
//! is shut down.
//!
//! The restored tick is exact while the hand is within half the range, 2^37 units,
//! of the deadline. The hand stays that close to a pending timer: a visit is
//! promised at or before the deadline, and the hand moves at most [`STEP`] ticks at
//! once while a timer is armed. A thread may be stopped between its exchange and
//! its check. It repairs its word when it continues (`arm.rs`).
//!
//! # Flags
//!
//! | flag    | the timer                                                      |
//! |---------|----------------------------------------------------------------|
//! | ARMED   | is pending                                                     |
//! | LIVE    | exists: its handle is valid                                    |
//! | AUTO    | frees itself when it has fired for the last time               |
//! | RARE    | has a rare record: a period, or a key                          |
//! | RUNNING | is in its callback, which a worker or an executor runs         |
//! | EXACT   | is due at the exact time that the rare record has              |
//!
//! ```text
//!   setup -> resting -- arm --> ARMED -- visit --> (RUNNING) -- end --> resting
//!               ^                | ^                   |
//!               +---- cancel ----+ +--- arm, period ---+
//!   free: from any of them to the next generation; a RUNNING one loses LIVE,
//!   and the end of its callback frees it
//! ```

const ARMED: u64 = 1;
const LIVE: u64 = 2;
const AUTO: u64 = 4;
const RARE: u64 = 8;
const RUNNING: u64 = 16;
const EXACT: u64 = 32;

const EXP_SHIFT: u32 = 6;
/// The exponent. With all of its bits set, a word that is not armed is shut down.
const EXP: u64 = 3 << EXP_SHIFT;
/// In a word that is not armed: a drain has passed it.
const DRAINED: u64 = 2 << EXP_SHIFT;
/// Flags and exponent fill a byte, so that comparing it takes one instruction.
const GEN_SHIFT: u32 = 8;
/// Bits of a generation in the word, and next to it.
const GEN_LOW_BITS: u32 = 18;
pub(crate) const GEN_HIGH_BITS: u32 = 10;
const LOW_BITS: u32 = GEN_SHIFT + GEN_LOW_BITS;
const LOW: u64 = (1 << LOW_BITS) - 1;
const GEN: u64 = LOW & !((1 << GEN_SHIFT) - 1);
const MANTISSA_BITS: u32 = 64 - LOW_BITS;
/// The exponent and the mantissa that mean "never".
const DUE_NEVER: u64 = !LOW | EXP;
/// Ticks of a unit of the next exponent, as a power of two.
const UNIT_BITS: u32 = 9;

/// Deadlines nearer than this are exact in the word.
const NEAR: u64 = 3 << (MANTISSA_BITS - 3);
/// The maximum step of the hand while a timer is armed. A driver that wakes when it is asked
/// is at most as far behind the clock.
pub(crate) const STEP: u64 = 1 << (MANTISSA_BITS - 3);
/// The tick of a timer that is due never.
pub(crate) const NEVER: u64 = u64::MAX;

/// The number of generations. After these lives a node is not used again.
pub(crate) const GEN_BITS: u32 = GEN_LOW_BITS + GEN_HIGH_BITS;
pub(crate) const GEN_MASK: u32 = (1 << GEN_BITS) - 1;
/// Bits of the index of a node.
pub(crate) const INDEX_BITS: u32 = 26;
/// The bits of a handle between the index and the high part: zeros.
pub(crate) const HANDLE_GAP: u64 = (1 << (64 - GEN_HIGH_BITS)) - (1 << (LOW_BITS + INDEX_BITS));
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;

/// The name of a timer: never 0.
pub(crate) type Handle = u64;

/// The slab index of a handle.
#[inline(always)]
pub(crate) fn index_of(handle: Handle) -> u32 {
    (handle >> LOW_BITS & INDEX_MASK) as u32
}

/// The high part of the generation of a handle.
#[inline(always)]
pub(crate) fn high_of(handle: Handle) -> u64 {
    handle >> (64 - GEN_HIGH_BITS)
}

/// Whether a number has the flags of a handle, and no others: the flags of a state word
/// that is not plain and armed must not match.
#[inline(always)]
pub(crate) fn is_well_formed(handle: Handle) -> bool {
    handle & (((1 << GEN_SHIFT) - 1) | HANDLE_GAP) == LIVE | ARMED
}

/// The handle of a node's generation.
pub(crate) fn handle_of(index: u32, generation: u32) -> Handle {
    StateWord::free(generation).handle(index, high_part(generation))
}

pub(crate) fn high_part(generation: u32) -> u64 {
    u64::from(generation >> GEN_LOW_BITS)
}

/// The state of a timer at a visit of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Found {
    /// Nothing is pending.
    Resting,
    /// It is due later, at this tick, or [`NEVER`].
    Later(u64),
    /// It is due, since this tick.
    Due(u64),
    /// It is due, but its callback still runs.
    Busy(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateWord(pub u64);

impl StateWord {
    /// A free node of a generation. The high part of the generation stands
    /// where a deadline would, so that the words of two lives differ in more
    /// than the 18 bits of the low part.
    pub fn free(generation: u32) -> Self {
        StateWord(high_part(generation) << LOW_BITS | (u64::from(generation) << GEN_SHIFT & GEN))
    }

    /// A timer that rests, in a node that was free.
    pub fn resting(self, is_auto: bool, is_rare: bool) -> Self {
        let auto = if is_auto { AUTO } else { 0 };
        let rare = if is_rare { RARE } else { 0 };
        StateWord(self.0 | LIVE | auto | rare)
    }

    /// The generation, whose high part is `high`.
    pub fn generation(self, high: u64) -> u32 {
        (high << GEN_LOW_BITS) as u32 | ((self.0 & GEN) >> GEN_SHIFT) as u32
    }

    /// Whether the word is of the life that a handle names, as far as its low
    /// part tells, and the timer exists.
    #[inline]
    pub fn is_of(self, handle: Handle) -> bool {
        (self.0 ^ handle) & (GEN | LIVE) == 0 && is_well_formed(handle)
    }

    /// Whether a callback is still to run to its end, for the life that a
    /// handle names, whether or not the timer exists.
    pub fn runs_for(self, handle: Handle) -> bool {
        (self.0 ^ handle) & GEN == 0 && self.0 & RUNNING != 0 && is_well_formed(handle)
    }

    /// 0 if the timer is plain, and armed or resting, as far as the low half of
    /// a handle tells that [`is_well_formed`].
    #[inline(always)]
    pub fn differs_from(self, handle: Handle) -> u64 {
        (self.0 ^ handle) & (LOW & !ARMED)
    }

    /// 0 if the timer is plain, and armed for a deadline that is not far, as far as the low
    /// half of a handle tells that [`is_well_formed`].
    #[inline(always)]
    pub fn differs_from_armed(self, handle: Handle) -> u64 {
        (self.0 ^ handle) & LOW
    }

    #[inline(always)]
    pub fn is_armed(self) -> bool {
        self.0 & ARMED != 0
    }

    /// Whether the node is free: its timer does not exist, and no callback of it runs.
    pub fn is_free(self) -> bool {
        self.0 & (LIVE | RUNNING) == 0
    }

    pub fn is_live(self) -> bool {
        self.0 & LIVE != 0
    }

    pub fn is_shut(self) -> bool {
        self.0 & (ARMED | EXP) == EXP
    }

    pub fn is_auto(self) -> bool {
        self.0 & AUTO != 0
    }

    pub fn is_rare(self) -> bool {
        self.0 & RARE != 0
    }

    pub fn is_exact(self) -> bool {
        self.0 & EXACT != 0
    }

    pub fn is_running(self) -> bool {
        self.0 & RUNNING != 0
    }

    /// The word of a plain timer armed for a tick less than [`NEAR`] ahead.
    #[inline(always)]
    pub fn plain_armed(handle: Handle, tick: u64) -> Self {
        StateWord(tick << LOW_BITS | (handle & LOW))
    }

    /// Armed for `tick`, as seen from the hand; of a timer that is not shut.
    #[inline]
    pub fn armed(self, tick: u64, hand: u64) -> Self {
        let kept = self.0 & (GEN | LIVE | AUTO | RARE | RUNNING);
        StateWord(kept | ARMED | encode(tick, hand))
    }

    pub fn exactly(self) -> Self {
        StateWord(self.0 | EXACT)
    }

    pub fn with_rare(self) -> Self {
        StateWord(self.0 | RARE)
    }

    /// Whether `other` is the word of the same arm. At most, the timer has got a period
    /// in between, or its callback has ended.
    pub fn is_same_arm(self, other: StateWord) -> bool {
        (self.0 ^ other.0) & !(RARE | RUNNING) == 0
    }

    /// The deadline of an armed timer, near the hand.
    #[inline]
    pub fn deadline(self, hand: u64) -> u64 {
        if self.0 & EXP == 0 {
            return complete(self.0 >> LOW_BITS, hand);
        }
        if self.0 | !DUE_NEVER == u64::MAX {
            return NEVER;
        }
        let shift = UNIT_BITS * ((self.0 & EXP) >> EXP_SHIFT) as u32;
        complete(self.0 >> LOW_BITS, hand >> shift) << shift
    }

    /// The deadline of a timer; [`NEVER`] if it is not armed.
    #[inline]
    pub fn due(self, hand: u64) -> u64 {
        match self.is_armed() {
            true => self.deadline(hand),
            false => NEVER,
        }
    }

    /// When a plain timer that rests would have been due, if that lies ahead; otherwise never. Of
    /// a timer that was never armed, this may be the high part of its generation: such a timer
    /// may get one visit for nothing.
    #[inline]
    pub fn was_due(self, hand: u64) -> u64 {
        let due = complete(self.0 >> LOW_BITS, hand);
        let is_plain = self.0 & ((1 << GEN_SHIFT) - 1) == LIVE;
        match is_plain && due > hand && due - hand < STEP {
            true => due,
            false => NEVER,
        }
    }

    /// The state for a visit at `tick`.
    #[inline]
    pub fn found(self, tick: u64) -> Found {
        if !self.is_armed() {
            return Found::Resting;
        }
        let due = self.deadline(tick);
        if due > tick {
            Found::Later(due)
        } else if self.is_running() {
            Found::Busy(due)
        } else {
            Found::Due(due)
        }
    }

    /// The word of a plain timer that is due at `tick`, apart from its generation.
    #[inline(always)]
    pub fn plain_due(tick: u64) -> Self {
        StateWord(tick << LOW_BITS | ARMED | LIVE)
    }

    /// A value that no timer's word has.
    pub const NONE: StateWord = StateWord(u64::MAX);

    /// Whether it equals `word`, apart from the generation.
    #[inline(always)]
    pub fn is_like(self, word: StateWord) -> bool {
        (self.0 ^ word.0) & !GEN == 0
    }

    /// The handle of a timer that exists, of the node at `index`.
    #[inline(always)]
    pub fn handle(self, index: u32, high: u64) -> Handle {
        high << (64 - GEN_HIGH_BITS) | u64::from(index) << LOW_BITS | (self.0 & GEN) | LIVE | ARMED
    }

    /// The handle of a plain armed timer. The word and the handle have the same low half.
    #[inline(always)]
    pub fn plain_handle(self, index: u32, high: u64) -> Handle {
        high << (64 - GEN_HIGH_BITS) | u64::from(index) << LOW_BITS | (self.0 & LOW)
    }

    /// Fired.
    #[inline]
    pub fn fired(self) -> Self {
        StateWord(self.0 & !(ARMED | EXACT | EXP))
    }

    /// The word of a timer whose callback another thread will run.
    pub fn running(self) -> Self {
        StateWord(self.0 | RUNNING)
    }

    /// Cancelled; with `shut` also shut down.
    pub fn cancelled(self, shut: bool) -> Self {
        if self.is_auto() {
            return self.freed();
        }
        let rests = if self.is_armed() { self.fired() } else { self };
        StateWord(rests.0 | if shut { EXP } else { 0 })
    }

    /// Handed back by a drain, or passed by one: it is no longer armed.
    pub fn drained(self) -> Self {
        if self.is_armed() && self.is_auto() {
            return self.freed();
        }
        let rests = if self.is_armed() { self.fired() } else { self };
        StateWord(rests.0 | DRAINED)
    }

    /// The shortest cancel: of a plain armed timer.
    #[inline(always)]
    pub fn plain_cancelled(self) -> Self {
        StateWord(self.0 - ARMED)
    }

    /// Freed; or, while its callback runs, no longer existing.
    pub fn freed(self) -> Self {
        if self.is_running() {
            StateWord(self.fired().0 & !LIVE)
        } else {
            self.next_life()
        }
    }

    /// The callback has ended.
    pub fn finished(self) -> Self {
        if !self.is_live() || (self.is_auto() && !self.is_armed()) {
            self.next_life()
        } else {
            StateWord(self.0 & !RUNNING)
        }
    }

    /// Free, with the low part of the next generation. `give_back` completes the high
    /// part. Not 0, which is the word of a node that was never used.
    fn next_life(self) -> Self {
        StateWord(self.0.wrapping_add(1 << GEN_SHIFT) & GEN | self.0 & !LOW | 1 << LOW_BITS)
    }

    /// Whether the generation of a freed word has just wrapped.
    pub fn has_wrapped(self) -> bool {
        self.0 & GEN == 0
    }
}

/// The value next to `near` that is `low` modulo 2^38.
#[inline(always)]
fn complete(low: u64, near: u64) -> u64 {
    let ahead = (low.wrapping_sub(near) << LOW_BITS) as i64 >> LOW_BITS;
    near.wrapping_add_signed(ahead)
}

/// The deadline that a word keeps of a timer that is armed for `tick`.
pub(crate) fn kept(tick: u64, hand: u64) -> u64 {
    StateWord(encode(tick, hand)).deadline(hand)
}

/// The part of a word that says the deadline: late by less than a unit, never
/// early.
#[inline]
fn encode(tick: u64, hand: u64) -> u64 {
    if tick == NEVER {
        return DUE_NEVER;
    }
    let delay = tick.saturating_sub(hand);
    if delay < NEAR {
        return tick << LOW_BITS;
    }
    let exp = (1..3)
        .find(|e| delay >> (e * UNIT_BITS) < NEAR)
        .unwrap_or(3);
    let shift = exp * UNIT_BITS;
    // Rounded up. A tick is at most 1.5 * 2^63: no overflow, and with exp 3 at most
    // 1.5 * 2^36, which is not the largest mantissa.
    let mantissa = (tick + ((1 << shift) - 1)) >> shift;
    u64::from(exp) << EXP_SHIFT | mantissa << LOW_BITS
}

#[cfg(all(test, not(checked)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn word() -> StateWord {
        StateWord::free(0x1234_5678 & GEN_MASK).resting(false, false)
    }

    fn rounded(tick: u64, hand: u64) -> u64 {
        word().armed(tick, hand).deadline(hand)
    }

    #[test]
    fn a2_near_deadlines_are_exact_next_to_every_wrap() {
        for hand in [
            0,
            1,
            1 << 36,
            (1 << 37) - 1,
            1 << 38,
            (1 << 38) + 1,
            1 << 62,
        ] {
            for delay in [0, 1, 63, 64, STEP, (1 << 36) - 1, 1 << 36, NEAR - 1] {
                assert_eq!(rounded(hand + delay, hand), hand + delay);
            }
        }
    }

    /// A word that is written from where a leap goes is read from where it
    /// began, and the other way round.
    #[test]
    fn a_deadline_is_exact_from_both_ends_of_a_leap() {
        for hand in [STEP, 1 << 40, 1 << 62] {
            for delay in [0, 1, NEAR - 1] {
                let s = word().armed(hand + delay, hand);
                assert_eq!(s.deadline(hand - STEP), hand + delay);
                assert_eq!(s.deadline(hand + STEP), hand + delay);
            }
        }
    }

    #[test]
    fn a1_the_greatest_delays_do_not_wrap() {
        let most = (1 << 63) + (1 << 62) - 1;
        for tick in [most, most - 1, 1 << 63, 1 << 62] {
            assert!(rounded(tick, 1 << 62) >= tick);
        }
        assert_eq!(rounded(NEVER, 5), NEVER);
        assert!(word().armed(NEVER, 5).is_armed());
        assert!(!word().armed(NEVER, 5).is_shut());
    }

    /// The low part of its generation wraps, and all bits above that are set.
    #[test]
    fn a_timer_that_is_due_never_is_freed_in_the_last_generation() {
        let last = StateWord::free((1 << GEN_LOW_BITS) - 1).resting(false, false);
        let freed = last.armed(NEVER, 5).freed();
        assert!(freed.is_free() && freed.has_wrapped());
    }

    proptest! {
        #[test]
        fn never_early_and_late_by_less_than_a_hundred_millionth(
            hand in 0u64..1 << 62, bits in 0u32..63, low: u64,
        ) {
            let delay = (1 << bits) | (low & ((1 << bits) - 1));
            let tick = rounded(hand + delay, hand);
            prop_assert!(tick >= hand + delay);
            let late = tick - (hand + delay);
            prop_assert!(late == 0 || (delay >= 1 << 36 && late <= delay / 100_000_000));
        }

        #[test]
        fn a_handle_has_index_and_generation(index in 0u32..1 << 26, generation in 0..=GEN_MASK) {
            let h = handle_of(index, generation);
            let s = StateWord::free(generation).resting(false, false);
            prop_assert_eq!(index_of(h), index);
            prop_assert_eq!(high_of(h), high_part(generation));
            prop_assert!(s.is_of(h) && s.differs_from(h) == 0 && s.differs_from_armed(h) != 0);
            prop_assert_eq!(s.generation(high_of(h)), generation);
            let armed = s.armed(77, 5);
            prop_assert_eq!(armed, StateWord::plain_armed(h, 77));
            prop_assert!(armed.differs_from_armed(h) == 0 && is_well_formed(h));
            let next = armed.freed();
            prop_assert!(next.is_free() && !next.is_of(h));
        }
    }

    #[test]
    fn flags_do_not_touch_deadline_or_generation() {
        let s = word().armed(5, 0).with_rare().running();
        assert_eq!(s.deadline(0), 5);
        assert_eq!(s.generation(0) & 0x3ffff, 0x1234_5678 & 0x3ffff);
        let shut = s.cancelled(true);
        assert!(shut.is_shut() && !shut.is_armed() && shut.is_running());
        let zombie = shut.freed();
        assert!(!zombie.is_live() && zombie.is_running() && !zombie.is_free());
        assert!(zombie.finished().is_free());
    }
}
