//! A wheel that one thread owns. The compiler checks what the host checks at run time.

use super::error::Error;
use super::options::Options;
use super::time::When;
use super::wheel::Wheel;
use crate::core::ticks::AUTO;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A wheel that one thread owns, from [`Options::create_owned`]. Its calls are those of
/// [`Wheel`], and need no locked instruction.
///
/// No other thread gets a reference to it. It goes to another thread by
/// [`disown`](OwnedWheel::disown) and [`own`](DisownedWheel::own). Other threads send it timers
/// with a [`Sender`].
///
/// ```
/// use hwheel::{Event, Options};
/// use std::time::Duration;
///
/// let wheel = Options::new().create_owned()?;
/// let timer = wheel.setup(1)?;
/// wheel.arm(timer, Duration::from_secs(30))?;
/// let sender = wheel.sender();
/// std::thread::spawn(move || sender.send(Duration::ZERO, 2)).join().unwrap()?;
///
/// let mut events = [Event::default(); 64];
/// wheel.wait(None)?;
/// let due = wheel.poll(&mut events)?;
/// # let due = if due.is_empty() { wheel.wait(None)?; wheel.poll(&mut events)? } else { due };
/// assert_eq!(due[0].cookie, 2);
/// # Ok::<(), hwheel::Error>(())
/// ```
///
/// Neither the wheel nor a reference to it can be sent:
///
/// ```compile_fail,E0277
/// let wheel = hwheel::Options::new().create_owned().unwrap();
/// std::thread::spawn(move || wheel.once(std::time::Duration::ZERO, 1));
/// ```
///
/// ```compile_fail,E0277
/// let wheel = hwheel::Options::new().create_owned().unwrap();
/// std::thread::scope(|scope| {
///     scope.spawn(|| wheel.once(std::time::Duration::ZERO, 1));
/// });
/// ```
///
/// A `&Wheel` that it is dereferenced to can be sent. Calls of another thread return
/// [`Error::NotPermitted`] then. If the wheel's own handler drops it, it is never freed.
#[derive(Debug)]
pub struct OwnedWheel {
    wheel: Arc<Wheel>,
    /// Neither `Send` nor `Sync`.
    owner: PhantomData<*const ()>,
}

/// A wheel that no thread owns: it waits for the next owner. Timers stay pending, and a
/// [`Sender`] may send more.
#[derive(Debug)]
pub struct DisownedWheel(Arc<Wheel>);

/// Sends timers to an [`OwnedWheel`], from any thread.
#[derive(Clone)]
pub struct Sender(Weak<Wheel>);

impl Options {
    /// Makes a wheel that the calling thread owns. It has no workers, and no tick thread.
    ///
    /// # Errors
    /// As [`create`](Options::create).
    pub fn create_owned(mut self) -> Result<OwnedWheel, Error> {
        self.set_owned();
        Ok(OwnedWheel::new(Arc::new(self.create()?)))
    }
}

impl OwnedWheel {
    fn new(wheel: Arc<Wheel>) -> OwnedWheel {
        let owner = PhantomData;
        OwnedWheel { wheel, owner }
    }

    /// Something that other threads send timers with.
    pub fn sender(&self) -> Sender {
        Sender(Arc::downgrade(&self.wheel))
    }

    /// Gives the wheel up, for another thread.
    ///
    /// ```
    /// let wheel = hwheel::Options::new().create_owned()?;
    /// let wheel = wheel.disown()?;
    /// let thread = std::thread::spawn(move || {
    ///     let wheel = wheel.own()?;
    ///     wheel.once(std::time::Duration::ZERO, 1)
    /// });
    /// thread.join().unwrap()?;
    /// # Ok::<(), hwheel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Deadlock`] in the handler; [`Error::Shutdown`] in a forked child. The wheel is
    /// dropped then.
    pub fn disown(self) -> Result<DisownedWheel, Error> {
        self.wheel.host().disown()?;
        // The second call, when `self` is dropped, finds that nobody owns it.
        Ok(DisownedWheel(self.wheel.clone()))
    }
}

impl Deref for OwnedWheel {
    type Target = Wheel;

    #[inline]
    fn deref(&self) -> &Wheel {
        &self.wheel
    }
}

/// A sender may hold the wheel for a moment. So nobody owns it, and who drops it last takes it.
impl Drop for OwnedWheel {
    fn drop(&mut self) {
        _ = self.wheel.host().disown();
    }
}

impl DisownedWheel {
    /// Takes the wheel. The new owner drives it before it sleeps, because a timer that was sent
    /// meanwhile may be due.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; [`Error::System`] if too many threads use timers;
    /// [`Error::Shutdown`] in a forked child. The wheel is dropped then.
    pub fn own(self) -> Result<OwnedWheel, Error> {
        self.0.host().own()?;
        Ok(OwnedWheel::new(self.0))
    }
}

impl Sender {
    /// Makes a timer that fires once. Its event or handler comes to the owner, which is woken
    /// for it if it waits for the descriptor. Nobody can cancel the timer.
    ///
    /// # Errors
    /// As [`Wheel::once`]; [`Error::Shutdown`] also if the wheel was dropped.
    pub fn send(&self, when: impl Into<When>, cookie: u64) -> Result<(), Error> {
        let wheel = self.0.upgrade().ok_or(Error::Shutdown)?;
        let spec = wheel.spec(cookie, Duration::ZERO, AUTO);
        // Nobody may know the handle.
        wheel.host().setup(spec, Some(wheel.due_ns(when)?))?;
        Ok(())
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}
