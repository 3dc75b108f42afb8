//! Asks runs to end, because somebody has cancelled their jobs.
//!
//! A command gets a signal from the thread that waits for it, and the connection of a request is
//! closed. A function of the database is cancelled by the thread that claims, on its own
//! connection: the server must not cancel what that session does next.

use crate::job::{Job, Kind};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use ureq::Agent;

/// A command or request that can be asked to end.
pub struct Stop {
    /// No other memory depends on it.
    is_asked: AtomicBool,
    /// Of a command.
    event: Option<OwnedFd>,
    request: Mutex<Option<Agent>>,
}

impl Stop {
    pub fn of_request() -> Stop {
        Stop {
            is_asked: AtomicBool::new(false),
            event: None,
            request: Mutex::new(None),
        }
    }

    pub fn of_command() -> io::Result<Stop> {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just made it.
        let event = Some(unsafe { OwnedFd::from_raw_fd(fd) });
        Ok(Stop {
            event,
            ..Stop::of_request()
        })
    }

    /// Asks the run to end. False: that was done before.
    fn ask(&self) -> bool {
        let mut request = self.request.lock().expect("no code panics with the lock");
        let is_first = !self.is_asked.swap(true, Relaxed);
        if self.event.is_some() {
            let one = 1u64;
            // SAFETY: eight bytes, which live as long as the call.
            unsafe { libc::write(self.event(), (&raw const one).cast(), 8) };
        }
        if let Some(agent) = request.take() {
            agent.shutdown();
        }
        is_first
    }

    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Relaxed)
    }

    /// Readable when a command is asked to end. Below 0: there is none.
    pub fn event(&self) -> i32 {
        self.event.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    /// The run is a request of this agent, which makes no other.
    pub fn closes(&self, agent: &Agent) {
        let mut request = self.request.lock().expect("no code panics with the lock");
        if self.is_asked() {
            agent.clone().shutdown();
        } else {
            *request = Some(agent.clone());
        }
    }
}

/// The process of the server that runs a function, as long as it does.
pub type Firing = Arc<Mutex<Option<i32>>>;

/// A job and its fence.
type Name = (i64, i64);

/// The runs of this node that can be asked to end.
#[derive(Default)]
pub struct Stops {
    outside: Mutex<HashMap<Name, Arc<Stop>>>,
    firing: Mutex<HashMap<Name, Firing>>,
}

/// How a run is made to end.
pub enum Way {
    /// It was asked now, or before.
    Asked { is_first: bool },
    /// The server can cancel the function.
    Server(Firing),
}

fn lock<T>(map: &Mutex<T>) -> MutexGuard<'_, T> {
    map.lock().expect("no code panics with the lock")
}

impl Stops {
    /// A command or request is about to begin.
    pub fn begins(&self, job: &Job) -> io::Result<Arc<Stop>> {
        let stop = match job.kind {
            Kind::Command => Stop::of_command()?,
            _ => Stop::of_request(),
        };
        let stop = Arc::new(stop);
        lock(&self.outside).insert((job.id, job.fence), stop.clone());
        Ok(stop)
    }

    /// It has ended, or has not begun.
    pub fn ended(&self, job: &Job) {
        lock(&self.outside).remove(&(job.id, job.fence));
    }

    /// The function of a job is about to be called alone.
    pub fn fires(&self, job: &Job) -> Firing {
        let firing = Firing::default();
        lock(&self.firing).insert((job.id, job.fence), firing.clone());
        firing
    }

    pub fn fired(&self, job: &Job) {
        lock(&self.firing).remove(&(job.id, job.fence));
    }

    /// Whether a run is under way here.
    pub fn has(&self, id: i64, fence: i64) -> bool {
        let name = (id, fence);
        lock(&self.outside).contains_key(&name) || lock(&self.firing).contains_key(&name)
    }

    /// Asks a run to end, if it is under way here.
    pub fn ask(&self, id: i64, fence: i64) -> Option<Way> {
        let name = (id, fence);
        if let Some(stop) = lock(&self.outside).get(&name) {
            let is_first = stop.ask();
            return Some(Way::Asked { is_first });
        }
        lock(&self.firing).get(&name).cloned().map(Way::Server)
    }
}
