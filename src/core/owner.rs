//! A wheel that one thread owns.
//!
//! The *owner* makes, arms, moves, cancels and frees timers, and drives. It takes the steps of a
//! shared wheel, with plain stores: no other thread changes a timer of it. An arm places the entry
//! at once. So there is no note to take, and no second look. A cascade drops or moves the entry of
//! a timer that was cancelled or moved since.
//!
//! ```text
//!   shared   any thread arms; the owner's word is 0
//!   owned    the owner arms                -- disown -->  nobody
//!   nobody   nobody arms                   -- own ----->  owned, by the calling thread
//! ```
//! `own` also takes the wheel of an owner whose thread has ended. In a forked child the kernel has
//! cleared the word, with the rest of the gate.
//!
//! # Messages
//!
//! Other threads send the owner new timers, and nothing else. Such a timer is a *message*. Its
//! handle is known to nobody, so until the owner has taken its note nobody but its sender changes
//! its state. The sender takes the steps of an arm with a note (`arm.rs`), with one difference: it
//! relies on no tick. The memory of the timer may have an entry from the life before, which the
//! owner drops without a second look.
//!
//! So the races of a message are those of a note: 2, against the driver that takes it; 3, against
//! a sleep (`alarm.rs`); 4, against a drain. The owner does not rely on notes: it reads a note in a
//! link as no tick. An arm of the owner leaves the note there until it was taken. So a later message
//! in that node relies on it, and the notes are not more than the nodes, however often these change
//! hands while nobody drives.
//!
//! # What is plain
//!
//! The states, the links, the entries and the counts are plain, while the gate is open. Once a
//! drain has closed it, a sender may take its message back. From then on the owner exchanges
//! states, too.
//!
//! The words of a sleep, the heads of the inboxes and their dirty bits are what they are in a
//! shared wheel, in each drive that finds a note or sleeps. `next_visit` is the senders' word; the
//! owner has one of its own for its next tick. A drive that finds neither writes no word that
//! senders read, except the gate, without a fence: a sender needs the hand only to write a state
//! that reads right, and looks again at the end.

use super::gate::{NOBODY, SHARED};
use super::wheel::{Caller, Wheel};
use super::Error;
use crate::sync::{fence, Ordering};

impl Wheel {
    /// Refuses a thread that does not own a wheel which has an owner, or had one.
    #[inline(always)]
    pub fn permit(&self, caller: &impl Caller) -> Result<(), Error> {
        match !self.gate.is_owned() || self.is_mine(caller) {
            true => Ok(()),
            false => Err(Error::NotOwner),
        }
    }

    /// Whether the calling thread owns the wheel. Not inlined, so that a call on a shared wheel
    /// does not pay for it.
    #[cold]
    #[inline(never)]
    fn is_mine(&self, caller: &impl Caller) -> bool {
        self.gate.owner().is(caller.identity())
    }

    /// Whether the calling thread owns the wheel, and no drain has begun.
    #[inline(always)]
    pub(super) fn is_plainly_mine(&self, caller: &impl Caller) -> bool {
        self.gate.is_plain() && self.is_mine(caller)
    }

    /// The driver has something to do at `tick`. In a shared wheel ends with a fence. Driver only.
    #[inline(always)]
    pub(super) fn set_next(&self, tick: u64) {
        match self.gate.owner() {
            SHARED => self.alarm.lower(tick),
            _ => self.alarm.set_own(tick),
        }
    }

    /// Whether a thread drives.
    pub(super) fn is_driven(&self) -> bool {
        // Relaxed: the owner has written it itself. `own` asks behind a fence.
        self.shared.driving.load(Ordering::Relaxed) & 1 != 0
    }

    /// The calling thread, the owner, gives the wheel up. Not while it drives.
    pub fn disown(&self, caller: &impl Caller) -> Result<(), Error> {
        self.permit(caller)?;
        if self.is_driven() {
            return Err(Error::Inside);
        }
        self.gate.give_up();
        Ok(())
    }

    /// The calling thread takes a wheel that nobody owns. `has_ended` says whether the thread of an
    /// identity has ended.
    pub fn own(
        &self,
        caller: &impl Caller,
        has_ended: impl FnOnce(u64) -> bool,
    ) -> Result<(), Error> {
        caller.thread()?;
        let owner = self.gate.owner();
        if owner.is(caller.identity()) {
            return Ok(());
        }
        let is_free = owner == NOBODY || has_ended(owner.identity());
        // Pairs with `give_up`: the last owner does not drive any more.
        fence(Ordering::Acquire);
        if !is_free || self.is_driven() {
            return Err(Error::Busy);
        }
        self.gate.pass_to(owner, caller.identity())
    }
}
