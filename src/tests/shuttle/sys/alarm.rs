//! The alarm of a test: it goes off by the clock that the test moves, or when it is
//! set to a time that has passed; and now and then for nothing, as by a signal.

use crate::tests::shuttle::host::system;
use shuttle::thread;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarm {
    pub fd: libc::c_int,
    pub clock: libc::clockid_t,
}

impl Alarm {
    pub fn new(clock: libc::clockid_t) -> Result<Self, i32> {
        system().refused().map_or(Ok(()), Err)?;
        let mut state = system().lock();
        state.alarms.push(None);
        let fd = state.alarms.len() as libc::c_int - 1;
        Ok(Alarm { fd, clock })
    }

    pub fn set(&self, at_ns: u64) -> Result<(), i32> {
        system().lock().alarms[self.fd as usize] = Some(at_ns);
        system().changed.notify_all();
        Ok(())
    }

    pub fn wait(&self) -> bool {
        // A system is fair to the threads that a driver may wait for.
        thread::yield_now();
        let mut state = system().lock();
        loop {
            let now = state.now;
            // Reading takes it back.
            if state.alarms[self.fd as usize]
                .take_if(|at| *at <= now)
                .is_some()
            {
                return true;
            }
            if system().disturbed() {
                return true;
            }
            state = system().changed.wait(state).unwrap();
        }
    }

    pub fn close(self) {}
}
