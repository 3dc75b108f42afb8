//! Streams, for the adapters of the crates `futures` and `tokio-stream`.

use crate::{DelayQueue, Expired, Interval};
use futures_core::Stream;
use hwheel::Error;
use std::pin::Pin;
use std::task::{ready, Context, Poll};

/// The ticks, without an end: as [`tick`](Interval::tick). An error comes again at each poll.
impl Stream for Interval {
    type Item = Result<u32, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_tick(context).map(Some)
    }
}

/// The items, as [`next`](DelayQueue::next). The stream ends while the queue is empty: an item
/// that is inserted later comes out of a later poll. An error comes again at each poll.
impl<T> Stream for DelayQueue<T> {
    type Item = Result<Expired<T>, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(ready!(DelayQueue::poll_next(self.get_mut(), context)).transpose())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), None)
    }
}

// Nothing points into a value.
impl<T> Unpin for DelayQueue<T> {}
