//! Timers by name.

use super::error::Error;
use super::time::When;
use super::{truth, Wheel};
use crate::runtime::foreign::number_of;
use crate::runtime::keys::{Target, LONGEST};

fn key(bytes: &[u8]) -> Result<&[u8], Error> {
    if bytes.is_empty() || bytes.len() > LONGEST {
        return Err(Error::Invalid);
    }
    Ok(bytes)
}

/// Keyed timers fire once and are named by any 1 to 255 bytes. Their events
/// carry no [`Timer`](super::Timer) but the default one. These calls block while
/// another thread is at work on the same sixty-fourth part of all keys.
impl Wheel {
    /// Gives a key a timer. True: its pending timer was replaced, and does not
    /// fire. When the new one fires, its key is free before the handler begins.
    ///
    /// ```
    /// # use hwheel::{Clock, Event, Options, Time};
    /// # use std::time::Duration;
    /// # let wheel = Options::new().clock(Clock::Manual).create()?;
    /// wheel.key_set(b"session 7", Duration::from_secs(60), 7)?;
    /// // The session was used: what is set already, moves.
    /// assert!(wheel.key_set(b"session 7", Duration::from_secs(60), 7)?);
    /// assert!(wheel.key_delete(b"session 7")?);
    /// // A number is the bytes of it.
    /// wheel.key_set(&7u64.to_ne_bytes(), Duration::from_secs(60), 7)?;
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] if the key has no byte or more than 255;
    /// [`Error::Limit`], [`Error::NoMemory`]; [`Error::Shutdown`] if the wheel was
    /// drained.
    pub fn key_set(&self, bytes: &[u8], when: impl Into<When>, cookie: u64) -> Result<bool, Error> {
        let func = number_of(self.handler);
        let when = when.into().of_host();
        let target = Target { func, cookie };
        truth(self.host().key_set(key(bytes)?, target, when))
    }

    /// Moves the pending timer of a key, which keeps its cookie. False if it has
    /// none.
    ///
    /// # Errors
    /// As [`key_set`](Wheel::key_set), but for [`Error::Limit`].
    pub fn key_move(&self, bytes: &[u8], when: impl Into<When>) -> Result<bool, Error> {
        let when = when.into().of_host();
        truth(self.host().key_move(key(bytes)?, when))
    }

    /// Cancels the pending timer of a key. False if it has none, or not any more.
    ///
    /// # Errors
    /// [`Error::Invalid`] as [`key_set`](Wheel::key_set).
    pub fn key_delete(&self, bytes: &[u8]) -> Result<bool, Error> {
        truth(self.host().key_delete(key(bytes)?))
    }

    /// Whether a key has a pending timer.
    ///
    /// # Errors
    /// [`Error::Invalid`] as [`key_set`](Wheel::key_set).
    pub fn key_pending(&self, bytes: &[u8]) -> Result<bool, Error> {
        truth(self.host().key_pending(key(bytes)?))
    }
}
