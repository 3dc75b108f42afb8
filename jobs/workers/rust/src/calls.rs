//! The calls of a worker.

use crate::database::{Link, Name, Shared, PATIENCE};
use crate::Failure;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::Row;

/// A statement, and the types of its values.
pub(crate) type Statement = (&'static str, &'static [Type]);

pub(crate) const CHECK: Statement = (
    "SELECT hwheel._check_queue(name) FROM unnest($1) name",
    &[Type::TEXT_ARRAY],
);
pub(crate) const TAKE: Statement = (
    "SELECT id, lease, key, due, payload::text, attempt, traceparent, timeout
    FROM hwheel._take_for_worker($1, $2, make_interval(secs => $3))",
    &[Type::TEXT, Type::INT4, Type::FLOAT8],
);
const EXTEND: Statement = (
    "SELECT id, outcome FROM hwheel.extend_many($1, $2, make_interval(secs => $3))",
    &[Type::INT8_ARRAY, Type::INT8_ARRAY, Type::FLOAT8],
);
pub(crate) const DONE: Statement = (
    "SELECT id FROM hwheel.done_many($1, $2) id",
    &[Type::INT8_ARRAY, Type::INT8_ARRAY],
);
pub(crate) const DONE_ONE: Statement = (
    "SELECT 'done' FROM hwheel.done_many(ARRAY[$1], ARRAY[$2])",
    &[Type::INT8, Type::INT8],
);
pub(crate) const SNOOZE: Statement = (
    "SELECT hwheel.snooze($1, $2, make_interval(secs => $3))",
    &[Type::INT8, Type::INT8, Type::FLOAT8],
);
pub(crate) const FAIL: Statement = (
    "SELECT hwheel.fail($1, $2, $3, make_interval(secs => $4), $5)",
    &[Type::INT8, Type::INT8, Type::TEXT, Type::FLOAT8, Type::BOOL],
);
pub(crate) const STALE: &str = "HW003";
pub(crate) const LOCKED: &str = "55P03";

/// The connection that makes the calls.
pub(crate) struct Control<'w> {
    shared: &'w Shared,
    link: Option<Link>,
}

impl<'w> Control<'w> {
    pub fn new(shared: &'w Shared) -> Control<'w> {
        Control { shared, link: None }
    }

    pub async fn start(&mut self) -> Result<(), Failure> {
        self.link = Some(self.shared.first_link().await?);
        Ok(())
    }

    pub async fn call(
        &mut self,
        (text, types): Statement,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let link = match self.link.take() {
            Some(link) if !link.client.is_closed() => link,
            _ => self.shared.link(Arc::new(|_| ())).await?,
        };
        let values: Vec<_> = values.iter().copied().zip(types.iter().cloned()).collect();
        let Ok(rows) = timeout(PATIENCE, link.client.query_typed(text, &values)).await else {
            return Err("the database does not answer".into());
        };
        let rows = rows.map_err(Failure::from);
        let is_well = |error| is(error, STALE) || is(error, LOCKED);
        if rows.as_ref().err().is_none_or(is_well) {
            self.link = Some(link);
        } // Otherwise another server may be the right one.
        rows
    }

    pub async fn extend(&mut self, names: &[Name]) -> Result<HashMap<i64, String>, Failure> {
        let (ids, leases): (Vec<i64>, Vec<i64>) = names.iter().copied().unzip();
        let lease = self.shared.options.lease.as_secs_f64();
        let rows = self.call(EXTEND, &[&ids, &leases, &lease]).await?;
        let outcome = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
        rows.iter().map(outcome).collect()
    }
}

/// The database may lack any other character.
pub(crate) fn to_ascii(text: &str) -> String {
    let escape = |c: char| match c.is_ascii() {
        true => c.to_string(),
        false => c.escape_unicode().to_string(),
    };
    text.chars().map(escape).collect()
}

pub(crate) fn is(error: &Failure, code: &str) -> bool {
    let error = error.downcast_ref::<tokio_postgres::Error>();
    let state = error.and_then(tokio_postgres::Error::code);
    state.is_some_and(|state| state.code().starts_with(code))
}

/// Whether the database works, and refuses what the call wants for one of its jobs.
pub(crate) fn is_refusal(error: &Failure) -> bool {
    let troubles = ["08", "25", "28", "3D", "53", "57", "58", "XX"];
    is(error, "") && !troubles.iter().any(|class| is(error, class))
}
