//! The only file that knows the timing wheel: one timer for each job, by its id.

use hwheel::{Clock, Options, Time, Wheel};
use std::io;
use std::time::Duration;

/// Timers on the machine's REALTIME clock. Each fires once.
pub struct Alarms(Wheel);

impl Alarms {
    /// Calls `due` with the id of each timer that expires, in the wheel's own thread.
    /// Dropping the alarms waits for that thread.
    pub fn new(due: impl Fn(i64) + Send + Sync + 'static) -> io::Result<Alarms> {
        let wheel = Options::new()
            .clock(Clock::Realtime)
            .tick(Duration::from_micros(100))
            .handler(move |_, event| due(event.cookie as i64))
            .create()?;
        wheel.start()?;
        Ok(Alarms(wheel))
    }

    /// Arms the timer of a job, or moves it. One in the past fires at once.
    pub fn set(&self, id: i64, at_ns: u64) -> io::Result<()> {
        let key = id.to_ne_bytes();
        self.0.key_set(&key, Time::from_nanos(at_ns), id as u64)?;
        Ok(())
    }

    /// Cancels the timer of a job, if it has one.
    pub fn cancel(&self, id: i64) {
        // The only error is a key of the wrong length.
        let _ = self.0.key_delete(&id.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::SystemTime;

    fn in_ms(ms: u64) -> u64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap().as_nanos() as u64 + ms * 1_000_000
    }

    #[test]
    fn fires_by_id_in_the_order_of_time_and_not_what_is_cancelled() {
        let (send, receive) = mpsc::channel();
        let alarms = Alarms::new(move |id| send.send(id).unwrap()).unwrap();
        alarms.set(1, in_ms(60)).unwrap();
        alarms.set(2, in_ms(20)).unwrap();
        alarms.set(3, in_ms(30)).unwrap();
        alarms.set(-4, in_ms(60_000)).unwrap();
        alarms.set(-4, in_ms(40)).unwrap();
        alarms.cancel(3);
        let ids: Vec<i64> = receive.iter().take(3).collect();
        assert_eq!(ids, [2, -4, 1]);
    }
}
