//! Connections to the database: statements, errors, back-off.

use postgres::error::Severity;
use postgres::types::ToSql;
use postgres::{Client, Config, Error, NoTls, Row, Statement};
use std::collections::HashMap;
use std::error::Error as _;
use std::fmt::Write as _;
use std::thread;
use std::time::Duration;

/// From the text on the command line.
pub fn configure(text: &str) -> Result<Config, String> {
    let mut config: Config = text.parse().map_err(|e: Error| describe(&e))?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(5));
    }
    // A connection that leads nowhere ends within seconds.
    config.keepalives_idle(Duration::from_secs(5));
    config.keepalives_interval(Duration::from_secs(2));
    config.keepalives_retries(3);
    config.tcp_user_timeout(Duration::from_secs(10));
    // The protocol needs statements that see what others have committed.
    let ours = r"-c default_transaction_isolation=read\ committed -c statement_timeout=0";
    let options = match config.get_options() {
        Some(theirs) => format!("{theirs} {ours}"),
        None => ours.to_owned(),
    };
    config.options(&options);
    Ok(config)
}

pub fn connect(config: &Config, name: &str) -> Result<Client, Error> {
    config.clone().application_name(name).connect(NoTls)
}

/// An error with its causes, in one line.
pub fn describe(error: &Error) -> String {
    if let Some(db) = error.as_db_error() {
        return format!("{}: {} ({})", db.severity(), db.message(), db.code().code());
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            let _ = write!(text, ": {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// How to treat an error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Failure {
    /// The connection is lost, and the answer may be too.
    Connection,
    /// The server cannot work now, as with a full disk, or has broken a deadlock.
    Server,
    /// The statement is wrong.
    Statement,
}

pub fn failure(error: &Error) -> Failure {
    let Some(db) = error.as_db_error() else {
        return Failure::Connection;
    };
    // After a fatal error the server closes the connection.
    if matches!(
        db.parsed_severity(),
        Some(Severity::Fatal | Severity::Panic)
    ) {
        return Failure::Connection;
    }
    match &db.code().code()[..2] {
        // Resources; errors of the system; a standby; deadlocks.
        "53" | "58" | "25" | "40" => Failure::Server,
        _ => Failure::Statement,
    }
}

/// Waits longer each time, up to five seconds.
pub struct Backoff(Duration);

impl Backoff {
    const SHORTEST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(5);

    pub fn new() -> Backoff {
        Backoff(Backoff::SHORTEST)
    }

    pub fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(Backoff::LONGEST);
        now
    }

    pub fn reset(&mut self) {
        self.0 = Backoff::SHORTEST;
    }
}

/// A connection with the statements that it has prepared.
pub struct Session {
    pub client: Client,
    statements: HashMap<&'static str, Statement>,
    limit_ms: i64,
}

impl Session {
    /// Limits the time of each statement; 0 is no limit.
    pub fn limit(&mut self, ms: i64) -> Result<(), Error> {
        if self.limit_ms != ms {
            self.client
                .batch_execute(&format!("SET statement_timeout = {ms}"))?;
            self.limit_ms = ms;
        }
        Ok(())
    }

    pub fn query(
        &mut self,
        sql: &'static str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let statement = match self.statements.get(sql) {
            Some(prepared) => prepared.clone(),
            None => {
                let prepared = self.client.prepare(sql)?;
                self.statements.insert(sql, prepared.clone());
                prepared
            }
        };
        self.client.query(&statement, parameters)
    }
}

/// A connection that is made when it is needed, and again when it is lost.
pub struct Link {
    config: Config,
    name: String,
    /// The SQL that every new connection runs first.
    preparation: String,
    session: Option<Session>,
    backoff: Backoff,
}

impl Link {
    pub fn new(config: &Config, name: String) -> Link {
        let config = config.clone();
        Link {
            config,
            name,
            preparation: String::new(),
            session: None,
            backoff: Backoff::new(),
        }
    }

    /// Executes statements on this connection and on those that follow it.
    pub fn prepare(&mut self, statements: String) -> Result<(), Error> {
        self.preparation = statements.clone();
        self.ask(|session| session.client.batch_execute(&statements))
    }

    /// Calls `ask` with a session. After an error of the connection the next call
    /// makes a new one.
    pub fn ask<T>(
        &mut self,
        mut ask: impl FnMut(&mut Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let is_new = self.session.is_none();
        if is_new {
            let mut client = connect(&self.config, &self.name)?;
            client.batch_execute(&self.preparation)?;
            self.session = Some(Session {
                client,
                statements: HashMap::new(),
                limit_ms: 0,
            });
        }
        let session = self.session.as_mut().expect("just made");
        let answer = ask(session);
        match &answer {
            // The connection was the trouble, and it works again.
            Ok(_) if is_new => self.backoff.reset(),
            Err(e) if failure(e) == Failure::Connection => self.session = None,
            _ => {}
        }
        answer
    }

    /// The link does its work: the next wait is short again.
    pub fn works(&mut self) {
        self.backoff.reset();
    }

    /// Logs an error and waits, longer each time until the link works.
    pub fn back_off(&mut self, error: &Error) {
        let pause = self.backoff.next();
        log::error!("{}: {}; again in {pause:?}", self.name, describe(error));
        thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_limit_and_starts_again() {
        let mut backoff = Backoff::new();
        let waits: Vec<u128> = (0..8).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        backoff.reset();
        assert_eq!(backoff.next().as_millis(), 100);
    }

    #[test]
    fn a_refused_connection_is_named_with_its_cause() {
        let config = configure("host=127.0.0.1 port=1 user=nobody").unwrap();
        let error = connect(&config, "test").err().unwrap();
        assert_eq!(failure(&error), Failure::Connection);
        assert!(describe(&error).contains("refused"), "{}", describe(&error));
    }

    #[test]
    fn the_options_of_the_user_are_kept() {
        let config = configure("host=/tmp user=me options='-c search_path=app'").unwrap();
        assert!(config
            .get_options()
            .unwrap()
            .starts_with("-c search_path=app -c default"));
    }
}
