//! A queue whose items come out when their times have come.
//!
//! Each item has a timer of the wheel. When the timer ends, the driver adds a note to a list
//! of the queue ([`Ended`]), and wakes the task that polls. The owner takes the notes. A note
//! names the item and its *turn*, which changes with each time that the item gets. So a note
//! of an earlier time, and one of an item that was removed, mean nothing.

use super::error::Error;
use super::event::Timer;
use super::time::{Time, When};
use super::waker::{self, Ended};
use super::wheel::Wheel;
use crate::core::arm::How;
use crate::core::life::Spec;
use crate::core::period::AUTO;
use crate::runtime::callbacks::PROMPT;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Names an item of a [`DelayQueue`]. No other item of that queue ever has the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DelayKey(u64);

/// An item that has left its [`DelayQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expired<T> {
    /// The key that it had.
    pub key: DelayKey,
    /// Its time.
    pub deadline: Time,
    /// The value that was inserted.
    pub value: T,
}

struct Item<T> {
    value: T,
    due: u64,
    turn: u64,
    /// The timer and its cookie, unless the time had passed already.
    armed: Option<(Timer, u64)>,
}

/// A queue whose items come out when their times have come, in the order of their ticks.
///
/// Each item has a timer of the wheel, so that to insert, to move and to remove an item costs
/// the same with a million others. Like a future, the queue keeps its wheel alive, is woken
/// by the driver of the wheel, and works on any executor.
///
/// ```
/// use hwheel::{Clock, DelayQueue, Error, Options};
/// use std::{sync::Arc, time::Duration};
///
/// let second = Duration::from_secs(1);
/// let wheel = Arc::new(Options::new().clock(Clock::Manual).create()?);
/// let mut sessions = DelayQueue::new(&wheel);
/// let a = sessions.insert("a", second)?;
/// let b = sessions.insert("b", second)?;
/// let c = sessions.insert("c", second)?;
/// sessions.reset(a, 3 * second)?;
/// sessions.remove(b);
/// wheel.block_on(async {
///     for key in [c, a] {
///         assert_eq!(sessions.next().await?.map(|expired| expired.key), Some(key));
///     }
///     assert!(sessions.next().await?.is_none());
///     Ok::<(), Error>(())
/// })??;
/// # Ok::<(), Error>(())
/// ```
pub struct DelayQueue<T> {
    wheel: Arc<Wheel>,
    items: HashMap<u64, Item<T>>,
    /// Key and turn of those whose time has come.
    ready: VecDeque<(u64, u64)>,
    ended: Arc<Ended>,
    /// For keys and turns: none comes twice.
    next: u64,
    is_drained: bool,
}

impl<T> DelayQueue<T> {
    /// An empty queue.
    pub fn new(wheel: &Arc<Wheel>) -> DelayQueue<T> {
        DelayQueue {
            wheel: wheel.clone(),
            items: HashMap::new(),
            ready: VecDeque::new(),
            ended: Ended::new(),
            next: 0,
            is_drained: false,
        }
    }

    /// Adds an item that comes out at a time, or after a delay from now. A time that has
    /// passed comes out at the next poll.
    ///
    /// # Errors
    /// [`Error::Limit`], [`Error::NoMemory`]; [`Error::Invalid`] for a [`Time`] out of
    /// range; [`Error::Shutdown`] if the wheel was drained, or in a forked child. Then the
    /// value is dropped.
    pub fn insert(&mut self, value: T, when: impl Into<When>) -> Result<DelayKey, Error> {
        let due = self.wheel.due(when)?;
        let key = self.number();
        let (turn, armed) = self.arm(key, due)?;
        let item = Item {
            value,
            due,
            turn,
            armed,
        };
        self.items.insert(key, item);
        Ok(DelayKey(key))
    }

    /// Moves an item to another time. False if the queue does not have it.
    ///
    /// # Errors
    /// As [`insert`](DelayQueue::insert). Then the item stays where it was.
    pub fn reset(&mut self, key: DelayKey, when: impl Into<When>) -> Result<bool, Error> {
        let due = self.wheel.due(when)?;
        let Some(item) = self.items.get_mut(&key.0) else {
            return Ok(false);
        };
        if let (Some((timer, _)), false) = (item.armed, self.wheel.has_passed(due)) {
            let host = self.wheel.host();
            match host
                .arm(timer.handle, due, How::Pending)
                .map_err(Error::from)
            {
                Ok(true) => {
                    item.due = due;
                    return Ok(true);
                }
                Ok(false) | Err(Error::Stale) => {}
                Err(e) => return Err(e),
            }
        }
        let (turn, armed) = self.arm(key.0, due)?;
        if let Some(item) = self.items.get_mut(&key.0) {
            let before = std::mem::replace(&mut item.armed, armed);
            (item.due, item.turn) = (due, turn);
            cancel(&self.wheel, before);
        }
        Ok(true)
    }

    /// Takes an item out before its time. `None` if the queue does not have it.
    pub fn remove(&mut self, key: DelayKey) -> Option<Expired<T>> {
        let item = self.items.remove(&key.0)?;
        cancel(&self.wheel, item.armed);
        if self.items.is_empty() {
            // A task that waits for the next one learns that there is none.
            self.ended.waker.wake();
        }
        Some(expired(key.0, item))
    }

    /// Drops all items.
    pub fn clear(&mut self) {
        for (_, item) in self.items.drain() {
            cancel(&self.wheel, item.armed);
        }
        self.ready.clear();
        self.ended.waker.wake();
    }

    /// Waits for the next item whose time has come, and takes it out. `None` if the queue is
    /// empty. Dropping this future loses no item.
    ///
    /// # Errors
    /// [`Error::Shutdown`] if the wheel was drained, or in a forked child. The items stay:
    /// [`remove`](DelayQueue::remove) takes them out.
    pub async fn next(&mut self) -> Result<Option<Expired<T>>, Error> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As `next`, for a hand-written future.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Expired<T>>, Error>> {
        loop {
            self.take_notes()?;
            while let Some((key, turn)) = self.ready.pop_front() {
                if self.items.get(&key).is_some_and(|item| item.turn == turn) {
                    let item = self.items.remove(&key);
                    return Poll::Ready(Ok(item.map(|item| expired(key, item))));
                }
            }
            if self.items.is_empty() {
                return Poll::Ready(Ok(None));
            }
            self.wheel.host().check()?;
            if self.is_drained {
                return Poll::Ready(Err(Error::Shutdown));
            }
            self.ended.waker.register(context.waker());
            // A note that came before the waker did.
            if !self.ended.has_any() {
                return Poll::Pending;
            }
        }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether it has no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether it has this item.
    pub fn contains(&self, key: DelayKey) -> bool {
        self.items.contains_key(&key.0)
    }

    /// The time of an item.
    pub fn deadline(&self, key: DelayKey) -> Option<Time> {
        let item = self.items.get(&key.0)?;
        Some(Time::from_nanos(item.due))
    }

    /// The key of the item that comes out next. It looks at all items.
    pub fn peek(&self) -> Option<DelayKey> {
        let is_there = |(key, turn): &&(u64, u64)| {
            let item = self.items.get(key);
            item.is_some_and(|item| item.turn == *turn)
        };
        if let Some((key, _)) = self.ready.iter().find(is_there) {
            return Some(DelayKey(*key));
        }
        let first = self
            .items
            .iter()
            .min_by_key(|(_, item)| (item.due, item.turn));
        first.map(|(key, _)| DelayKey(*key))
    }

    /// Gives back memory that its items do not need.
    pub fn shrink_to_fit(&mut self) {
        self.items.shrink_to_fit();
        self.ready.shrink_to_fit();
    }

    /// The number of items that fit into its memory.
    pub fn capacity(&self) -> usize {
        self.items.capacity()
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Arms a timer for an item. A time that has passed needs none.
    fn arm(&mut self, key: u64, due: u64) -> Result<(u64, Option<(Timer, u64)>), Error> {
        self.tidy()?;
        let turn = self.number();
        let host = self.wheel.host();
        if self.wheel.has_passed(due) {
            host.check()?;
            self.ready.push_back((key, turn));
            self.ended.waker.wake();
            return Ok((turn, None));
        }
        let cookie = self.ended.note(key, turn);
        let spec = Spec {
            func: PROMPT,
            cookie,
            kind: AUTO,
            ..Spec::default()
        };
        match host.setup(spec, Some(due)) {
            Ok(timer) => Ok((turn, Some((Timer::new(host, timer), cookie)))),
            Err(e) => {
                // SAFETY: the timer was not made.
                unsafe { waker::forget(cookie) };
                Err(e.into())
            }
        }
    }

    /// Drops what is left of earlier times, so that memory follows the number of items even if
    /// nobody polls. Each call that adds to it pays for the room of one.
    fn tidy(&mut self) -> Result<(), Error> {
        if self.ended.has_any() {
            self.take_notes()?;
        }
        if self.ready.len() > 2 * self.items.len() + 32 {
            let items = &self.items;
            self.ready
                .retain(|(key, turn)| items.get(key).is_some_and(|item| item.turn == *turn));
        }
        Ok(())
    }

    fn take_notes(&mut self) -> Result<(), Error> {
        let notes = self.ended.take();
        if notes.is_empty() {
            return Ok(());
        }
        let now = self.wheel.now()?.as_nanos();
        for note in notes {
            match self.items.get(&note.key) {
                Some(item) if item.turn != note.turn => {}
                // It ended before its time.
                Some(item) if now < item.due => self.is_drained = true,
                Some(_) => self.ready.push_back((note.key, note.turn)),
                None => {}
            }
        }
        Ok(())
    }
}

fn expired<T>(key: u64, item: Item<T>) -> Expired<T> {
    Expired {
        key: DelayKey(key),
        deadline: Time::from_nanos(item.due),
        value: item.value,
    }
}

fn cancel(wheel: &Wheel, armed: Option<(Timer, u64)>) {
    if let Some((timer, cookie)) = armed {
        if wheel.delete(timer) == Ok(true) {
            // SAFETY: the timer was pending and owned its note.
            unsafe { waker::forget(cookie) };
        }
    }
}

impl<T> Drop for DelayQueue<T> {
    fn drop(&mut self) {
        for item in self.items.values() {
            cancel(&self.wheel, item.armed);
        }
        self.ended.close();
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut queue = f.debug_struct("DelayQueue");
        queue.field("len", &self.len()).finish_non_exhaustive()
    }
}
