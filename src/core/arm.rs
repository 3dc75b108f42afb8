//! Arming, from any thread: the protocol, the general path, and the short ways.
//!
//! # The invariant
//!
//! A timer that is armed for tick D has a reason that counts until a visit at or before D, or a
//! thread is inside an arm of it and will see to one. The reason is a tick at or before D, for
//! which the driver has an entry, or a note that the driver has yet to take.
//!
//! # The steps
//!
//! ```text
//!   relying on a tick                    relying on a note
//!   arm.read      gate, state, link      arm.read      gate, state, link
//!   arm.exchange  state := armed  (RMW)  arm.exchange  state := armed  (RMW)
//!   --- fence ---                        --- fence ---
//!   arm.check     link as it was?        arm.wake      lower next_visit; alarm later? kick
//!                 gate as it was?        arm.check     link as it was? note not taken?
//!                                                      hand still near? (gate)
//!
//!   with a note
//!   arm.read      gate, state, link
//!   note.append   the node, in the own inbox
//!   arm.exchange  state := armed  (RMW)
//!   --- fence ---
//!   note.dirty    set the bits of the inbox
//!   arm.wake      lower next_visit; alarm later? kick
//!   arm.check     note not taken?
//!   arm.publish   link: as it was -> note  (RMW)
//!   arm.again     note taken? then link: note -> nothing  (RMW)
//!   arm.check     hand still near? (gate)
//! ```
//! If a check fails, the arm goes on with gate and link as they are now, without another exchange
//! of the state. It appends a note if it has none, or if the driver has taken its note. A driver
//! that takes a note which was appended after the exchange sees the state. So that note needs no
//! check, and an arm has few steps, however often the driver passes.
//!
//! Inside of a callback the thread that drives makes the entry itself, without a note
//! (`driver/look.rs`).
//!
//! An arm that leaves the timer where it is exchanges the state with itself, and takes the
//! same steps: the thread that has written that state may be stopped before its own.
//!
//! # Race 1: an arm that relies on a tick, against the visit
//!
//! ```text
//!   arming thread                        driver
//!   arm.exchange  state := D     (RMW)   sweep.announce  gate := goal  (RMW)
//!   --- fence ---                        --- fence ---
//!   arm.check     read gate              visit.read      read state
//! ```
//! The timer would be lost if the thread did not see the goal and the driver did not see D. The
//! fences forbid that. A thread that sees the goal looks for another reason, because the tick may
//! have passed.
//!
//! # Race 1b: the same, against an entry that the driver moves or drops
//!
//! ```text
//!   arming thread                        driver
//!   arm.exchange  state := D     (RMW)   look.point   link := another reason (RMW)
//!   --- fence ---                        --- fence ---
//!   arm.check     read link              visit.read   read state
//! ```
//! The driver moves an entry to an earlier tick, or drops it before a sleep (`driver/sleep.rs`).
//! Either the thread sees another link, or the driver sees D when it comes to the timer.
//!
//! # Race 2: a note, against the driver that takes it
//!
//! ```text
//!   arming thread                        driver
//!   arm.exchange  state := D     (RMW)   take.head    head := past the note
//!   --- fence ---                        --- fence ---
//!   arm.check     read head              look.read    read state
//! ```
//! Either the driver sees D when it looks at the timer for this note, or the thread sees that
//! the note was taken. A thread that relies on another one's note does the same. It also lowers
//! `next_visit`, because its deadline may be earlier.
//!
//! A note that was taken must not stay in a link: places repeat. The thread publishes a note
//! that it has seen in the inbox, and then looks once more (arm.again). The driver
//! replaces the link of a note that it has taken (`driver/look.rs`).
//!
//! # Race 4: an arm against a drain
//!
//! ```text
//!   arming thread                        driver
//!   arm.exchange  state := D     (RMW)   drain.close     gate := closed (RMW)
//!   --- fence ---                        --- fence ---
//!   arm.check     read gate              drain.read      read state
//! ```
//! Either the drain finds the timer and hands it back, or the thread sees that the
//! wheel is closed. The thread then disarms the timer, and the call is refused.
//!
//! # The short ways
//!
//! They take the steps of the general path, for a plain timer with a near deadline that no other
//! thread changes meanwhile. Any other arm takes the general path.
//!
//! With fewer instructions, more calls overlap their cache misses. Each exit is a tail
//! call, so that it costs the short way no register.

use super::gate::View;
use super::record::{self, Hot, Link, Place, Reason};
use super::state::{high_of, index_of, is_well_formed, kept, Handle, StateWord, NEVER, STEP};
use super::ticks::{last_tick, shared_tick, END_OF_TIME, EXACT_BELOW};
use super::wheel::{Caller, Wheel};
use super::{answer, number_of, Answer, Error, Thread};
use crate::sync::{fence, fence_after_rmw, Ordering};

/// The condition and the range of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Always,
    /// If the timer is not pending, or the new deadline is earlier.
    Earlier,
    /// If the timer is pending.
    Pending,
    /// Always, and at most this number of nanoseconds later, at a tick that other
    /// timers with slack share. A timer that is due in this range stays.
    Within(u64),
    /// Always, of a new periodic timer: with the slack of its kind, and exactly.
    Periodic(u16),
}

#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    /// The number of the calling thread.
    pub thread: Thread,
    pub index: u32,
    pub hot: &'a Hot,
}

#[derive(Clone, Copy)]
struct Arm<'a> {
    node: Node<'a>,
    /// The word that the exchange wrote, and its tick.
    word: StateWord,
    tick: u64,
    /// The hand that the word was made for.
    hand: u64,
    /// The link as it was read, before the own note was appended.
    link: Link,
    /// The own note.
    note: Option<Place>,
}

impl Wheel {
    /// Arms a timer: true if it was pending. `ns` is a point in time; one after the
    /// end of time is never. Lock-free; linearizes at the exchange of the state word.
    pub fn arm(
        &self,
        caller: &impl Caller,
        handle: Handle,
        ns: u64,
        how: How,
    ) -> Result<bool, Error> {
        self.permit(caller)?;
        let (index, hot, state) = self.live_node(handle)?;
        let thread = caller.thread()?;
        let node = Node { thread, index, hot };
        self.arm_node(caller, node, state, handle, (ns, how))
    }

    #[inline(always)]
    pub(super) fn arm_node(
        &self,
        caller: &impl Caller,
        node: Node<'_>,
        mut state: StateWord,
        handle: Handle,
        (ns, how): (u64, How),
    ) -> Result<bool, Error> {
        loop {
            let View::Open(hand) = self.gate.view() else {
                return Err(Error::Shutdown);
            };
            if state.is_shut() {
                return Err(Error::Shutdown);
            }
            let (first, last) = self.wish(ns, caller.first_ns(), how, hand);
            let stays = Self::is_left_alone(state, how, (first, last), hand);
            if stays && !state.is_armed() {
                return Ok(false);
            }
            let (word, tick) = if stays {
                (state, state.due(hand))
            } else {
                let tick = shared_tick(first, last);
                let word = state.armed(tick, hand);
                match how {
                    How::Periodic(_) => (self.exact(word, tick, ns, hand, node, handle), tick),
                    _ => (word, tick),
                }
            };
            // Such an arm needs no visit. The timer is never due, or the end of its callback makes
            // the visit: race 6.
            let is_moot = tick == NEVER || stays && tick <= hand && state.is_running();
            if self.is_plainly_mine(caller) {
                let was = state.is_armed();
                if !stays {
                    // Release: for threads that ask about the timer.
                    node.hot.state.store(word.0, Ordering::Release);
                    probe!(start, self, handle, ns, was);
                }
                if !stays || matches!(how, How::Within(_)) {
                    self.inboxes.of(node.thread).count.arm(was);
                }
                if !stays && !is_moot {
                    let placed = self.slab.records(node.index);
                    _ = self.place_owned(caller, placed, tick, was);
                }
                return Ok(was);
            }
            let is_inside = !is_moot && !stays && Self::is_inside(caller);
            let arm = self.with_reason(node, word, tick, hand, is_moot || is_inside)?;
            // arm.exchange
            if self.exchange(node.hot, state, word).is_err() {
                self.publish_in_vain(node.hot, arm.link, arm.note);
                state = self.state_again(handle)?;
                continue;
            }
            fence_after_rmw();
            let was = state.is_armed();
            if !stays {
                probe!(start, self, handle, ns, was);
            }
            if !stays || matches!(how, How::Within(_)) {
                self.inboxes.of(node.thread).count.arm(was);
            }
            if is_inside {
                self.place_inside(node.index, tick);
            } else if !is_moot {
                self.uphold(caller, arm);
            }
            return match stays {
                true => Ok(true),
                false => self.unless_closed(arm, was),
            };
        }
    }

    /// Whether the thread drives the wheel and is inside one of the caller's functions.
    #[inline(never)]
    fn is_inside(caller: &impl Caller) -> bool {
        caller.thread_inside().1
    }

    /// The ticks that the caller allows.
    #[inline(always)]
    fn wish(&self, ns: u64, first_ns: u64, how: How, hand: u64) -> (u64, u64) {
        if ns >= END_OF_TIME {
            return (NEVER, NEVER);
        }
        // A deadline that has passed is the next tick, so that a timer which arms
        // itself in its callback does not fire again and again at one time.
        let soonest = self.ticks.at_or_after(first_ns).max(hand + 1);
        let asked = self.ticks.at_or_after(ns).max(soonest);
        let latest = match how {
            How::Within(slack) => {
                let end = ns.saturating_add(slack).min(END_OF_TIME - 1);
                self.ticks.at_or_before(end).max(asked)
            }
            // A time that has passed means the next tick, without slack. The word may round that
            // tick up. A time at or before the rounded tick may have passed, too.
            How::Periodic(_) if asked <= kept(soonest, hand) => asked,
            How::Periodic(kind) => self.ticks.last_reached(asked, last_tick(asked, kind)),
            _ => asked,
        };
        (asked, latest)
    }

    /// Whether an arm leaves the timer as it is.
    #[inline(always)]
    fn is_left_alone(state: StateWord, how: How, (first, last): (u64, u64), hand: u64) -> bool {
        match how {
            How::Always | How::Periodic(_) => false,
            How::Pending => !state.is_armed(),
            How::Earlier => state.is_armed() && state.deadline(hand) <= first,
            How::Within(_) => state.is_armed() && (first..=last).contains(&state.deadline(hand)),
        }
    }

    /// The word of a periodic timer, which is due at the exact time `ns`.
    fn exact(
        &self,
        word: StateWord,
        tick: u64,
        ns: u64,
        hand: u64,
        node: Node<'_>,
        handle: Handle,
    ) -> StateWord {
        if tick == NEVER {
            return word;
        }
        let (word, early) = self.exactly(word, ns, hand);
        let early = record::tagged(early, word.generation(high_of(handle)));
        // An exchange: the model checker knows no order between a store and the
        // driver's late exchange. Relaxed: published by the exchange of the state.
        let rare = self.slab.rare(node.index);
        rare.early.swap(early, Ordering::Relaxed);
        word
    }

    /// Marks a word as due at the exact time `ns`, and says how long that is before its tick.
    /// The time of the tick counts if that is too long for the rare record. The mark stays:
    /// the periods that were left out count in any case.
    pub(super) fn exactly(&self, word: StateWord, ns: u64, hand: u64) -> (StateWord, u64) {
        let early = self.ticks.ns(word.deadline(hand)).saturating_sub(ns);
        let kept = if early <= record::VALUE { early } else { 0 };
        (word.exactly(), kept)
    }

    /// Whether the driver looks at a timer by `tick` for this reason, as far as it counts. A
    /// message relies on no tick: the owner drops entries without a second look.
    #[inline(always)]
    fn is_reason(&self, link: Link, tick: u64, hand: u64) -> bool {
        match link.reason() {
            Reason::Nothing => false,
            Reason::Tick(k) => hand < k && k <= tick && !self.gate.is_owned(),
            Reason::Note(place) => self.inboxes.holds(place),
        }
    }

    /// An arm with a reason, unless it `needs_none`. The reason is that in the link, or a note that
    /// this thread writes. Only here an arm can lack memory.
    #[inline(always)]
    fn with_reason<'a>(
        &self,
        node: Node<'a>,
        word: StateWord,
        tick: u64,
        hand: u64,
        needs_none: bool,
    ) -> Result<Arm<'a>, Error> {
        // Acquire: pairs with the exchanges of the link.
        let link = Link(node.hot.link.load(Ordering::Acquire));
        let mut arm = Arm {
            node,
            word,
            tick,
            hand,
            link,
            note: None,
        };
        if needs_none {
            return Ok(arm);
        }
        // Also for a reason that is gone after the exchange.
        self.inboxes.reserve(node.thread)?;
        if !self.is_reason(link, tick, hand) {
            arm.note = Some(self.inboxes.append(node.thread, node.index));
        }
        Ok(arm)
    }

    /// Establishes the invariant, after the exchange and a fence.
    #[inline(always)]
    fn uphold(&self, caller: &impl Caller, arm: Arm<'_>) {
        if !self.is_upheld(caller, &arm) {
            self.uphold_again(caller, arm);
        }
    }

    /// Establishes the invariant for a timer whose callback has ended, and which is due: its
    /// deadline is at or before `hand`. Follows the exchange and a fence. A note that the driver
    /// has yet to take serves any number of such ends. So there is at most one, also if a timer
    /// ends again and again within one sweep.
    pub(super) fn uphold_due(&self, caller: &impl Caller, index: u32, word: StateWord, hand: u64) {
        let thread = caller.thread().and_then(|thread| {
            self.inboxes.reserve(thread)?;
            Ok(thread)
        });
        let Ok(thread) = thread else {
            return self.request_look_at_all(caller);
        };
        let hot = self.slab.hot(index);
        let arm = Arm {
            node: Node { thread, index, hot },
            word,
            tick: word.deadline(hand),
            hand,
            link: Link::none(0),
            note: None,
        };
        self.uphold_again(caller, arm);
    }

    /// Steps arm.wake, arm.check and arm.publish. Follows a fence.
    #[inline(always)]
    fn is_upheld(&self, caller: &impl Caller, arm: &Arm<'_>) -> bool {
        let Node { thread, hot, .. } = arm.node;
        if let Some(place) = arm.note {
            self.inboxes.mark(thread);
            self.wake_for(caller, thread, arm.tick);
            return self.inboxes.holds(place) && {
                self.publish(hot, arm.link, place);
                self.is_readable(arm)
            };
        }
        // Acquire: pairs with the exchanges of the link.
        let is_same = || hot.link.load(Ordering::Acquire) == arm.link.0;
        match arm.link.reason() {
            Reason::Nothing => false,
            Reason::Tick(_) => is_same() && self.gate.view() == View::Open(arm.hand),
            Reason::Note(place) => {
                self.wake_for(caller, thread, arm.tick);
                is_same() && self.inboxes.holds(place) && self.is_readable(arm)
            }
        }
    }

    /// Steps arm.publish and arm.again.
    #[inline(always)]
    fn publish(&self, hot: &Hot, link: Link, place: Place) {
        let note = link.with(Reason::Note(place));
        // AcqRel: what the note says; pairs with arm.read. If it fails, another thread has
        // written a reason, or the high part has changed.
        if hot
            .link
            .compare_exchange(link.0, note.0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            fence_after_rmw();
            if !self.inboxes.holds(place) {
                let nothing = link.with(Reason::Nothing);
                // AcqRel: as above.
                _ = hot.link.compare_exchange(
                    note.0,
                    nothing.0,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
            }
        }
    }

    /// After an exchange that has failed: the note was appended, so others can rely on it.
    #[cold]
    fn publish_in_vain(&self, hot: &Hot, link: Link, note: Option<Place>) {
        if let Some(place) = note {
            fence(Ordering::SeqCst);
            self.inboxes.mark(place.thread);
            if self.inboxes.holds(place) {
                self.publish(hot, link, place);
            }
        }
    }

    /// Whether the driver reads the word right, or a drain has the timer.
    #[inline(always)]
    fn is_readable(&self, arm: &Arm<'_>) -> bool {
        match self.gate.view() {
            View::Open(hand) => Self::is_near(arm, hand),
            View::Closed => true,
        }
    }

    #[inline(always)]
    fn is_near(arm: &Arm<'_>, hand: u64) -> bool {
        hand.saturating_sub(arm.tick) <= STEP && hand.saturating_sub(arm.hand) <= STEP
    }

    /// Makes sure of a visit where the first reason may be gone.
    #[cold]
    #[inline(never)]
    fn uphold_again(&self, caller: &impl Caller, mut arm: Arm<'_>) {
        // The word before which the note was appended.
        let mut noted = None;
        loop {
            // A closed wheel leaves the timer to the drain.
            let View::Open(hand) = self.gate.view() else {
                return;
            };
            if !self.make_readable(&mut arm, hand) {
                return;
            }
            arm.hand = hand;
            arm.note = arm.note.filter(|place| self.inboxes.holds(*place));
            if arm.note.is_none() {
                // Acquire: pairs with the exchanges of the link.
                arm.link = Link(arm.node.hot.link.load(Ordering::Acquire));
                if !self.is_reason(arm.link, arm.tick, hand) {
                    arm.note = Some(self.inboxes.append(arm.node.thread, arm.node.index));
                    noted = Some(arm.word);
                }
                fence(Ordering::SeqCst);
            }
            if self.is_upheld(caller, &arm) {
                return;
            }
            // A driver that has taken this note has seen the word. So one that takes each note
            // before the thread goes on does not keep it here.
            if noted == Some(arm.word) && self.is_readable(&arm) {
                return;
            }
        }
    }

    /// Writes the word anew if the hand has moved so far that it no longer reads right. The
    /// timer is due now. False if another thread has changed the deadline since: it sees to
    /// that one.
    fn make_readable(&self, arm: &mut Arm<'_>, hand: u64) -> bool {
        while !Self::is_near(arm, hand) {
            let tick = arm.tick.max(hand);
            let word = arm.word.armed(tick, hand);
            match self.exchange(arm.node.hot, arm.word, word) {
                Ok(_) => {
                    (arm.word, arm.tick, arm.hand) = (word, tick, hand);
                    fence_after_rmw();
                }
                Err(seen) if seen.is_same_arm(arm.word) => arm.word = seen,
                Err(_) => return false,
            }
        }
        true
    }

    /// The result of an arm after its exchange; race 4.
    #[inline(always)]
    fn unless_closed(&self, arm: Arm<'_>, was: bool) -> Result<bool, Error> {
        if was || self.gate.view() != View::Closed {
            return Ok(was);
        }
        let mut word = arm.word;
        loop {
            // Either this thread has the timer, or the drain has.
            match self.exchange(arm.node.hot, word, word.fired()) {
                Ok(_) => {
                    self.count(arm.node.thread, |c| &c.arms, u64::MAX);
                    return Err(Error::Shutdown);
                }
                Err(seen) if seen.is_same_arm(word) => word = seen,
                Err(_) => return Ok(false),
            }
        }
    }
}

// The short ways.

impl Wheel {
    /// Arms a timer for a point in time, not before [`Caller::first_ns`]. Lock-free;
    /// linearizes at the exchange.
    #[inline(always)]
    #[must_use]
    pub fn arm_at(&self, caller: &impl Caller, handle: Handle, ns: u64) -> Answer {
        match self.gate.is_owned() {
            true => self.arm_owned(caller, handle, ns),
            false => self.arm_shared(caller, handle, ns),
        }
    }

    /// The short way to arm in a shared wheel, of a timer whose entry is early enough.
    #[inline(never)]
    fn arm_shared(&self, caller: &impl Caller, handle: Handle, ns: u64) -> Answer {
        let wheel = caller.wheel(self);
        // arm.read
        let gate = wheel.gate.seen();
        let tick = wheel.ticks.at_or_after_exactly(ns);
        let beyond = gate.beyond(tick);
        if ns >= EXACT_BELOW || beyond >= wheel.ticks.near || !is_well_formed(handle) {
            return wheel.arm_slowly(handle, ns, caller);
        }
        let hot = wheel.slab.hot(index_of(handle));
        // Acquire: pairs with the Release of the thread that changed it last.
        let state = StateWord(hot.state.load(Ordering::Acquire));
        if state.differs_from(handle) != 0 {
            return wheel.arm_slowly(handle, ns, caller);
        }
        // Acquire: pairs with the exchanges of the link.
        let link = Link(hot.link.load(Ordering::Acquire));
        if gate.beyond(link.near_tick(handle)) > beyond {
            return wheel.arm_by_note::<false>(handle, tick, hot, state, caller);
        }
        // A thread without a number has no chunk. A thread that arms only inside of callbacks has
        // none either.
        let thread = caller.thread_at_hand();
        if !wheel.inboxes.is_ready(thread) {
            return wheel.arm_by_note::<true>(handle, tick, hot, state, caller);
        }
        let Some(was) = wheel.exchange_armed(hot, state, (handle, tick, ns), thread) else {
            return wheel.arm_slowly(handle, ns, caller);
        };
        // arm.check. Acquire: as above.
        if hot.link.load(Ordering::Acquire) != link.0 || wheel.gate.seen() != gate {
            return wheel.arm_unchecked(handle, tick, was, caller);
        }
        was.into()
    }

    /// The short way of the owner to arm a timer.
    #[inline(never)]
    fn arm_owned(&self, caller: &impl Caller, handle: Handle, ns: u64) -> Answer {
        let wheel = caller.wheel(self);
        let tick = wheel.ticks.at_or_after_exactly(ns);
        let beyond = wheel.gate.seen().beyond(tick);
        let identity = caller.identity();
        if !wheel.gate.owner().is(identity)
            || ns >= EXACT_BELOW
            || beyond >= wheel.ticks.near
            || !is_well_formed(handle)
        {
            return wheel.arm_slowly(handle, ns, caller);
        }
        let node = wheel.slab.named(index_of(handle));
        let hot = node.hot();
        // Relaxed, both: the owner's words.
        let state = StateWord(hot.state.load(Ordering::Relaxed));
        if state.differs_from(handle) != 0 {
            return wheel.arm_slowly_at(handle, tick, caller);
        }
        let link = Link(hot.link.load(Ordering::Relaxed));
        let when = (handle, tick, ns);
        let thread = number_of(identity);
        // The distance from the tick to the entry's tick. The sum is the entry's distance from the hand.
        let later = link.near_tick(handle).wrapping_sub(tick);
        if later.wrapping_add(beyond) <= beyond {
            return wheel.store_armed(hot, state, when, thread).into();
        }
        if link.differs_from(handle) != 0 {
            return wheel.arm_slowly_at(handle, tick, caller);
        }
        let was = wheel.store_armed(hot, state, when, thread);
        wheel.place_owned(caller, node, tick, was)
    }

    /// Step arm.exchange of the owner: whether the timer was pending.
    #[inline(always)]
    fn store_armed(
        &self,
        hot: &Hot,
        state: StateWord,
        (handle, tick, ns): (Handle, u64, u64),
        thread: Thread,
    ) -> bool {
        // Release: for threads that ask about the timer.
        hot.state
            .store(StateWord::plain_armed(handle, tick).0, Ordering::Release);
        self.count_arm(state, (handle, ns), thread)
    }

    /// Counts an arm: whether the timer was pending, by the word before.
    #[inline(always)]
    fn count_arm(&self, before: StateWord, (_handle, _ns): (Handle, u64), thread: Thread) -> bool {
        let was = before.is_armed();
        probe!(start, self, _handle, _ns, was);
        self.inboxes.of(thread).count.arm(was);
        was
    }

    /// Arms a timer whose link has no tick that is early enough: with a note of its `OWN`, or
    /// first without one, if the link has a note to rely on. That this one was taken before the
    /// exchange is rare: the driver takes it out of the link.
    #[inline(never)]
    fn arm_by_note<const OWN: bool>(
        &self,
        handle: Handle,
        tick: u64,
        hot: &Hot,
        state: StateWord,
        caller: &impl Caller,
    ) -> Answer {
        let gate = self.gate.seen();
        // Acquire: pairs with the exchanges of the link.
        let link = Link(hot.link.load(Ordering::Acquire));
        if !OWN && !link.is_near_note(handle) {
            return self.arm_by_note::<true>(handle, tick, hot, state, caller);
        }
        let (thread, is_inside) = caller.thread_inside();
        if gate.beyond(tick) >= self.ticks.near || OWN && link.differs_from(handle) != 0 {
            return self.arm_slowly_at(handle, tick, caller);
        }
        if OWN && is_inside {
            return self.arm_inside(handle, tick, hot, state, caller);
        }
        if !self.inboxes.is_ready(thread) {
            return self.arm_slowly_at(handle, tick, caller);
        }
        let own = OWN.then(|| self.inboxes.append(thread, index_of(handle)));
        let when = (handle, tick, self.ticks.ns(tick));
        let Some(was) = self.exchange_armed(hot, state, when, thread) else {
            return match own {
                Some(place) => self.arm_in_vain(handle, tick, link, place, caller),
                None => self.arm_slowly_at(handle, tick, caller),
            };
        };
        if OWN {
            self.inboxes.mark(thread);
        }
        // arm.wake, if there is nothing to do, and arm.check. Acquire: as above.
        let place = own.unwrap_or_else(|| link.place());
        if !self.alarm.is_early(tick)
            || !OWN && hot.link.load(Ordering::Acquire) != link.0
            || !self.inboxes.holds(place)
        {
            return match OWN {
                true => self.arm_unpublished(handle, tick, link, place, was, caller),
                false => self.arm_unchecked(handle, tick, was, caller),
            };
        }
        if OWN {
            self.publish(hot, link, place);
        }
        if self.gate.seen() != gate {
            return self.arm_unchecked(handle, tick, was, caller);
        }
        was.into()
    }

    /// Arms a timer inside of a callback, on the thread that drives. The thread needs no chunk.
    #[inline(never)]
    fn arm_inside(
        &self,
        handle: Handle,
        tick: u64,
        hot: &Hot,
        state: StateWord,
        caller: &impl Caller,
    ) -> Answer {
        let thread = caller.thread_at_hand();
        if thread == 0 {
            return self.arm_slowly_at(handle, tick, caller);
        }
        let when = (handle, tick, self.ticks.ns(tick));
        let Some(was) = self.exchange_armed(hot, state, when, thread) else {
            return self.arm_slowly_at(handle, tick, caller);
        };
        self.place_inside(index_of(handle), tick);
        was.into()
    }

    /// Step arm.exchange, and the fence: whether the timer was pending; `None` if another thread
    /// has changed the state.
    #[inline(always)]
    fn exchange_armed(
        &self,
        hot: &Hot,
        state: StateWord,
        (handle, tick, ns): (Handle, u64, u64),
        thread: Thread,
    ) -> Option<bool> {
        let word = StateWord::plain_armed(handle, tick);
        let before = self.exchange(hot, state, word).ok()?;
        fence_after_rmw();
        Some(self.count_arm(before, (handle, ns), thread))
    }

    /// The rest of an arm whose exchange has failed behind its note.
    #[cold]
    #[inline(never)]
    fn arm_in_vain(
        &self,
        handle: Handle,
        tick: u64,
        link: Link,
        place: Place,
        caller: &impl Caller,
    ) -> Answer {
        self.publish_in_vain(self.slab.hot(index_of(handle)), link, Some(place));
        self.arm_slowly_at(handle, tick, caller)
    }

    /// The rest of an arm whose reason may be gone. The hand that the word was made for is
    /// no longer known. It was less than a step before the tick: so the word reads right until
    /// the hand is more than a step behind the tick.
    #[cold]
    #[inline(never)]
    fn arm_unchecked(&self, handle: Handle, tick: u64, was: bool, caller: &impl Caller) -> Answer {
        self.arm_again(handle, tick, (Link::none(0), None), was, caller)
    }

    /// The rest of an arm with a note that the link does not name yet, whose reason may be
    /// gone.
    #[cold]
    #[inline(never)]
    fn arm_unpublished(
        &self,
        handle: Handle,
        tick: u64,
        link: Link,
        place: Place,
        was: bool,
        caller: &impl Caller,
    ) -> Answer {
        self.arm_again(handle, tick, (link, Some(place)), was, caller)
    }

    #[inline(always)]
    fn arm_again(
        &self,
        handle: Handle,
        tick: u64,
        (link, note): (Link, Option<Place>),
        was: bool,
        caller: &impl Caller,
    ) -> Answer {
        let index = index_of(handle);
        let arm = Arm {
            node: Node {
                thread: caller.thread_at_hand(),
                index,
                hot: self.slab.hot(index),
            },
            word: StateWord::plain_armed(handle, tick),
            tick,
            hand: tick,
            link,
            note,
        };
        self.uphold_again(caller, arm);
        answer(self.unless_closed(arm, was))
    }

    /// An arm that the short ways do not handle.
    #[inline(never)]
    fn arm_slowly(&self, handle: Handle, ns: u64, caller: &impl Caller) -> Answer {
        answer(self.arm(caller, handle, ns, How::Always))
    }

    /// Arms for a tick. A tick is exact here, because the caller has rounded the time up already.
    #[inline(never)]
    fn arm_slowly_at(&self, handle: Handle, tick: u64, caller: &impl Caller) -> Answer {
        self.arm_slowly(handle, self.ticks.ns(tick), caller)
    }
}
