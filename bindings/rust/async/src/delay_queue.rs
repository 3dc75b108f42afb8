//! A queue whose items come out when their times have come.
//!
//! The items lie in a table. A heap has an *entry* for each of them, with a time at or before
//! the item's own. So it costs nothing in the heap to move an item to a later time, or to
//! remove it. An entry that comes to the top is dropped if its item has another entry or is
//! gone, and is placed again if its item is due later: as the wheel treats its entries.
//!
//! The reader sleeps until the time of the entry at the top. Whatever comes before that wakes it.

use crate::futures::Sleep;
use crate::WheelExt;
use hwheel::{Error, Time, Wheel, When};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap};
use std::fmt;
use std::future::{poll_fn, Future};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{ready, Context, Poll};

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
    /// The time of its entry, at or before `due`.
    entry: u64,
}

/// A queue whose items come out when their times have come, in the order of their times.
///
/// To insert an item, to move it to a later time and to remove it costs the same with a
/// million others. While a task waits for the next item, the queue has one timer of the wheel.
/// Like a future, it keeps its wheel alive, is woken by the driver of the wheel, and works on
/// any executor.
///
/// ```
/// use hwheel::{Clock, Error, Options};
/// use hwheel_async::{DelayQueue, VirtualTime};
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
    /// The time and the key of each entry.
    entries: BinaryHeap<Reverse<(u64, u64)>>,
    /// Until the time of the first entry. The task that waits for the next item waits for this.
    sleep: Sleep,
    /// The last key: none comes twice.
    last: u64,
}

impl<T> DelayQueue<T> {
    /// An empty queue.
    pub fn new(wheel: &Arc<Wheel>) -> DelayQueue<T> {
        DelayQueue {
            wheel: wheel.clone(),
            items: HashMap::new(),
            entries: BinaryHeap::new(),
            sleep: wheel.sleep(Time::NEVER),
            last: 0,
        }
    }

    /// Adds an item that comes out at a time, or after a delay from now. A time that has
    /// passed comes out at the next poll.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a [`Time`] out of range; [`Error::Shutdown`] if the wheel was
    /// drained, or in a forked child. Then the value is dropped.
    pub fn insert(&mut self, value: T, when: impl Into<When>) -> Result<DelayKey, Error> {
        let due = self.wheel.due(when)?.as_nanos();
        self.wheel.check_open()?;
        self.last += 1;
        let (key, entry) = (self.last, due);
        self.items.insert(key, Item { value, due, entry });
        self.enter(due, key);
        Ok(DelayKey(key))
    }

    /// Moves an item to another time. False if the queue does not have it.
    ///
    /// # Errors
    /// As [`insert`](DelayQueue::insert). Then the item stays where it was.
    pub fn reset(&mut self, key: DelayKey, when: impl Into<When>) -> Result<bool, Error> {
        let due = self.wheel.due(when)?.as_nanos();
        let Some(item) = self.items.get_mut(&key.0) else {
            return Ok(false);
        };
        self.wheel.check_open()?;
        item.due = due;
        if due < item.entry {
            item.entry = due;
            self.enter(due, key.0);
        }
        Ok(true)
    }

    /// Takes an item out before its time. `None` if the queue does not have it.
    pub fn remove(&mut self, key: DelayKey) -> Option<Expired<T>> {
        let item = self.items.remove(&key.0)?;
        if self.items.is_empty() {
            self.clear();
        }
        Some(expired(key.0, item))
    }

    /// Drops all items.
    pub fn clear(&mut self) {
        self.items.clear();
        self.entries.clear();
        // A task that waits for the next item learns that there is none.
        self.sleep.wake();
        self.sleep = self.wheel.sleep(Time::NEVER);
    }

    /// Waits for the next item whose time has come, and takes it out. `None` if the queue is
    /// empty. Dropping this future loses no item.
    ///
    /// # Errors
    /// As [`Sleep`], with [`Error::Shutdown`] if the wheel was drained, or in a forked child.
    /// The items stay: [`remove`](DelayQueue::remove) takes them out.
    pub async fn next(&mut self) -> Result<Option<Expired<T>>, Error> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As `next`, for a hand-written future.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Expired<T>>, Error>> {
        let Some((due, key)) = self.first() else {
            return Poll::Ready(Ok(None));
        };
        if !self.wheel.has_passed(Time::from_nanos(due)) {
            if self.sleep.deadline() != Ok(Time::from_nanos(due)) {
                self.sleep.reset(Time::from_nanos(due));
            }
            ready!(Pin::new(&mut self.sleep).poll(context))?;
        }
        self.wheel.now()?; // Or the error of a forked child.
        self.entries.pop();
        let item = self.items.remove(&key);
        Poll::Ready(Ok(item.map(|item| expired(key, item))))
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
        let first = self
            .items
            .iter()
            .min_by_key(|(key, item)| (item.due, **key));
        first.map(|(key, _)| DelayKey(*key))
    }

    /// Gives back memory that its items do not need.
    pub fn shrink_to_fit(&mut self) {
        self.items.shrink_to_fit();
        self.entries.shrink_to_fit();
    }

    /// The number of items that fit into its memory.
    pub fn capacity(&self) -> usize {
        self.items.capacity()
    }

    /// Adds an entry. Drops those that are of no use, if they are most: memory follows the
    /// number of items even if nobody polls.
    fn enter(&mut self, time: u64, key: u64) {
        if self.entries.len() > 2 * self.items.len() + 32 {
            let items = &self.items;
            self.entries
                .retain(|Reverse((time, key))| items.get(key).is_some_and(|i| i.entry == *time));
        }
        self.entries.push(Reverse((time, key)));
        let sleeps = self.sleep.deadline();
        if sleeps.is_ok_and(|until| time < until.as_nanos()) {
            self.sleep.wake();
        }
    }

    /// The time and the key of the item that comes out next, whose entry is at the top then.
    fn first(&mut self) -> Option<(u64, u64)> {
        loop {
            let mut top = self.entries.peek_mut()?;
            let Reverse((time, key)) = *top;
            match self.items.get_mut(&key) {
                Some(item) if item.entry != time => _ = PeekMut::pop(top),
                None => _ = PeekMut::pop(top),
                Some(item) if item.due == time => return Some((time, key)),
                Some(item) => {
                    item.entry = item.due;
                    *top = Reverse((item.due, key));
                }
            }
        }
    }
}

fn expired<T>(key: u64, item: Item<T>) -> Expired<T> {
    Expired {
        key: DelayKey(key),
        deadline: Time::from_nanos(item.due),
        value: item.value,
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut queue = f.debug_struct("DelayQueue");
        queue.field("len", &self.len()).finish_non_exhaustive()
    }
}
