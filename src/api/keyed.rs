//! Timers by name.

use super::error::Error;
use super::time::When;
use super::wheel::Wheel;
use crate::runtime::keys::LENGTHS;

fn key(bytes: &[u8]) -> Result<&[u8], Error> {
    let is_key = LENGTHS.contains(&bytes.len());
    is_key.then_some(bytes).ok_or(Error::Invalid)
}

/// A keyed timer fires once. Its key is any 1 to 255 bytes; other lengths are
/// [`Error::Invalid`]. Its event carries the default
/// [`Timer`](crate::Timer). Each call briefly takes one of 64 locks, chosen by the
/// key.
impl Wheel {
    /// Gives a key a timer. True if it replaces a pending timer, which then does not
    /// fire. The key is free before the handler starts for the new timer.
    ///
    /// ```
    /// # use hwheel::{Clock, Event, Options, Time};
    /// # use std::time::Duration;
    /// # let wheel = Options::new().clock(Clock::Manual).create()?;
    /// wheel.key_set(b"session 7", Duration::from_secs(60), 7)?;
    /// // The session was used: its timer moves.
    /// assert!(wheel.key_set(b"session 7", Duration::from_secs(60), 7)?);
    /// assert!(wheel.key_delete(b"session 7")?);
    /// // A number is the bytes of it.
    /// wheel.key_set(&7u64.to_ne_bytes(), Duration::from_secs(60), 7)?;
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] if the key is empty or longer than 255 bytes;
    /// [`Error::Limit`], [`Error::NoMemory`]; [`Error::Shutdown`] if the wheel was
    /// drained.
    pub fn key_set(&self, bytes: &[u8], when: impl Into<When>, cookie: u64) -> Result<bool, Error> {
        let func = self.handler.expose_provenance();
        let due = self.due_ns(when)?;
        Ok(self.host().key_set(key(bytes)?, func, cookie, due)?)
    }

    /// Moves the pending timer of a key, which keeps its cookie. False if the key has
    /// no pending timer.
    ///
    /// # Errors
    /// As [`key_set`](Wheel::key_set), except [`Error::Limit`].
    pub fn key_mod(&self, bytes: &[u8], when: impl Into<When>) -> Result<bool, Error> {
        Ok(self.host().key_move(key(bytes)?, self.due_ns(when)?)?)
    }

    /// Cancels the pending timer of a key. False if the key has no pending timer.
    pub fn key_delete(&self, bytes: &[u8]) -> Result<bool, Error> {
        Ok(self.host().key_delete(key(bytes)?)?)
    }

    /// Whether a key has a pending timer.
    pub fn key_pending(&self, bytes: &[u8]) -> Result<bool, Error> {
        Ok(self.host().key_pending(key(bytes)?)?)
    }
}
