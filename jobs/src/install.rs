//! The schema hwheel: its numbered migrations, its functions, and rights for roles.
//!
//! A migration changes tables, and never changes itself once it is released. `install`
//! runs those that the database has not seen, in order. It replaces the functions each
//! time and drops none that is not its own, so that grants and functions of users stay.
//!
//! A superuser installs as the role `hwheel_owner`, which can do nothing else: whoever gets at
//! the schema does not get at the server. Others install as themselves.
//!
//! A migration must suit the nodes that run meanwhile: they have another version, and
//! they call functions while the tables change. It adds columns with defaults, and
//! leaves what old nodes read. When old nodes cannot go on, it raises
//! `settings.oldest_node`. A function that nothing calls any more stays until the next
//! migration: a call that is under way may be about to call it.

use crate::connect::Config;
use crate::db::{self, describe, Client, Error};
use std::io::Write as _;
use std::thread;
use std::time::{Duration, Instant};
use tokio_postgres::error::{DbError, SqlState};

const MIGRATIONS: [&str; 10] = [
    include_str!("../sql/1.sql"),
    include_str!("../sql/2.sql"),
    include_str!("../sql/3.sql"),
    include_str!("../sql/4.sql"),
    include_str!("../sql/5.sql"),
    include_str!("../sql/6.sql"),
    include_str!("../sql/7.sql"),
    include_str!("../sql/8.sql"),
    include_str!("../sql/9.sql"),
    include_str!("../sql/10.sql"),
];

const FUNCTIONS: [&str; 3] = [
    include_str!("../sql/interface.sql"),
    include_str!("../sql/node.sql"),
    include_str!("../sql/turn.sql"),
];

/// The version of the schema that this program works with.
pub const SCHEMA: i32 = MIGRATIONS.len() as i32;

/// How long the program tries to get its locks, as while a backup reads the tables.
const PATIENCE: Duration = Duration::from_secs(600);

/// Creates or updates the schema, in one transaction.
pub fn install(config: &Config) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    let mut tries = 0u32;
    loop {
        match attempt(config) {
            Ok(None) => {
                let _ = crate::look::print("the schema hwheel is installed\n");
                return Ok(());
            }
            Ok(Some(refusal)) => return Err(refusal),
            Err(e) if is_contention(&e) && Instant::now() < end => {
                tries += 1;
                if tries % 8 == 1 {
                    // Nobody has to read it.
                    let _ = writeln!(
                        std::io::stderr(),
                        "hwheel-jobs: others use the schema: {}; again",
                        describe(&e)
                    );
                }
                // Others get through before the next try, and two programs do not
                // keep step.
                let share = (tries + std::process::id()) % 8;
                thread::sleep(Duration::from_millis(250 + 50 * u64::from(share)));
            }
            Err(e) => return Err(describe_with_place(&e)),
        }
    }
}

/// The error, and the function that it comes from, which may be that of an event trigger of somebody else.
fn describe_with_place(error: &Error) -> String {
    let place = match error {
        Error::Postgres(e) => e.as_db_error().and_then(DbError::where_),
        Error::Silent(_) | Error::Crowded(_) => None,
    };
    let line = place.and_then(|place| place.lines().next());
    describe(error) + &line.map_or(String::new(), |line| format!(": {line}"))
}

/// Whether a lock was not to be had, or another transaction was in the way, such as one that
/// has made the schema or the role at the same time.
fn is_contention(error: &Error) -> bool {
    if let Error::Postgres(e) = error {
        let is_made = |db: &DbError| {
            db.code() == &SqlState::UNIQUE_VIOLATION && db.schema() == Some("pg_catalog")
                // "tuple concurrently updated", in the language of the server.
                || db.routine().is_some_and(|routine| routine.starts_with("simple_heap_"))
        };
        if e.as_db_error().is_some_and(is_made) {
            return true;
        }
    }
    matches!(
        error.code(),
        Some(
            &SqlState::LOCK_NOT_AVAILABLE
                | &SqlState::DUPLICATE_SCHEMA
                | &SqlState::T_R_DEADLOCK_DETECTED
                | &SqlState::T_R_SERIALIZATION_FAILURE
        )
    )
}

/// Returns why this program must not change the schema, or nothing.
fn attempt(config: &Config) -> Result<Option<String>, Error> {
    let mut client = db::connect(config, "hwheel-jobs install")?;
    // A migration may take its time; waiting for a lock may not: whoever uses the
    // table after it waits as well.
    client.allow(PATIENCE);
    client.batch_execute(&format!("BEGIN; SET LOCAL {}; {SETTINGS}", db::PATH))?;
    client.batch_execute(OWNER)?;
    client.batch_execute(PLACE)?;
    client.batch_execute(LOCK)?;
    let version = version(&mut client)?;
    if version > SCHEMA {
        return Ok(Some(format!(
            "the schema has version {version}, newer than {SCHEMA}, which this program installs"
        )));
    }
    if any_bytes(&mut client)? {
        return Ok(Some(ANY_BYTES.to_owned()));
    }
    let missing = &MIGRATIONS[usize::try_from(version).unwrap_or(0)..];
    client.batch_execute(&format!("SET LOCAL hwheel.version_before = {version}"))?;
    for sql in missing.iter().chain(&FUNCTIONS) {
        client.batch_execute(sql)?;
    }
    client.batch_execute(DISOWN)?;
    client.batch_execute("COMMIT")?;
    Ok(None)
}

/// Settings of the database or of the user change neither the meaning of these statements nor their time.
/// PostgreSQL 17 has one limit more.
const SETTINGS: &str = "
SET LOCAL lock_timeout = '500 ms';
SET LOCAL client_min_messages = warning;
SET LOCAL standard_conforming_strings = on;
SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;
DO $do$
BEGIN
    PERFORM set_config(name, '0', true) FROM pg_settings WHERE name = 'transaction_timeout';
END $do$";

/// PostgreSQL makes no partitioned table while `default_tablespace` names the tablespace of the database.
/// The owner of the schema may have no right to another one.
const PLACE: &str = "
DO $do$
BEGIN
    IF EXISTS (SELECT FROM pg_tablespace t WHERE t.spcname = current_setting('default_tablespace')
        AND (NOT has_tablespace_privilege(t.oid, 'CREATE')
            OR t.oid = (SELECT dattablespace FROM pg_database WHERE datname = current_database()))) THEN
        SET LOCAL default_tablespace = '';
    END IF;
END $do$";

/// Makes the role of the schema, if the user is a superuser, and goes on as it. A schema that
/// belongs to a superuser passes to it, with what is in it; another owner keeps the schema. 1.sql
/// needs the right to create schemas. Functions of users that run with the rights of their owner
/// keep their owner. A superuser owns all after the restore of a backup without its roles.
const OWNER: &str = "
DO $do$
DECLARE
    old pg_roles := (SELECT r FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner
        WHERE n.nspname = 'hwheel');
    command text;
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RETURN;
    ELSIF old.rolsuper IS false THEN
        EXECUTE format('SET LOCAL ROLE %I', old.rolname);
        RETURN;
    END IF;
    IF to_regrole('hwheel_owner') IS NULL THEN
        BEGIN
            CREATE ROLE hwheel_owner NOLOGIN;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN -- At the same time.
        END;
    END IF;
    CREATE SCHEMA IF NOT EXISTS hwheel;
    ALTER SCHEMA hwheel OWNER TO hwheel_owner;
    FOR command IN
        SELECT format('ALTER TABLE %s OWNER TO hwheel_owner', oid::regclass) FROM pg_class
        WHERE relnamespace = 'hwheel'::regnamespace AND relowner = old.oid
            AND relkind IN ('r', 'p', 'v')
        UNION ALL
        SELECT format('ALTER TYPE %s OWNER TO hwheel_owner', oid::regtype) FROM pg_type t
        WHERE typnamespace = 'hwheel'::regnamespace AND typowner = old.oid AND typtype = 'c'
            AND (SELECT relkind = 'c' FROM pg_class c WHERE c.oid = t.typrelid)
        UNION ALL
        SELECT format('ALTER FUNCTION %s OWNER TO hwheel_owner', oid::regprocedure) FROM pg_proc
        WHERE pronamespace = 'hwheel'::regnamespace AND proowner = old.oid AND prokind = 'f'
            AND (NOT prosecdef OR proname IN ('_tend', '_follow', '_runs_as', '_command'))
    LOOP
        EXECUTE command;
    END LOOP;
    IF to_regclass('hwheel.settings') IS NULL THEN
        EXECUTE format('GRANT CREATE ON DATABASE %I TO hwheel_owner', current_database());
        PERFORM set_config('hwheel.may_create', 'true', true);
    END IF;
    SET LOCAL ROLE hwheel_owner;
END $do$";

/// Lets one installation at a time go on: a comment locks the schema until the transaction ends. Only
/// the owner of the schema may write one, and anybody may take an advisory lock.
const LOCK: &str = "
DO $do$
BEGIN
    IF to_regnamespace('hwheel') IS NULL THEN
        CREATE SCHEMA hwheel;
    END IF;
END $do$;
COMMENT ON SCHEMA hwheel IS 'hwheel-jobs: durable timers'";

/// Takes the right to create schemas back.
const DISOWN: &str = "
RESET ROLE;
DO $do$
BEGIN
    IF current_setting('hwheel.may_create', true) = 'true' THEN
        EXECUTE format('REVOKE CREATE ON DATABASE %I FROM hwheel_owner', current_database());
    END IF;
END $do$";
/// Why a database is refused.
pub const ANY_BYTES: &str =
    "the database has the encoding SQL_ASCII, which stores any bytes, also \
    some that nobody can read again: create it with ENCODING 'UTF8' TEMPLATE template0";

/// Whether the database takes any bytes for text.
pub fn any_bytes(client: &mut Client) -> Result<bool, Error> {
    let sql =
        "SELECT pg_catalog.current_setting('server_encoding') OPERATOR(pg_catalog.=) 'SQL_ASCII'";
    Ok(client.query_once(sql, &[])?[0].get(0))
}

/// The number of migrations that the database has seen.
fn version(client: &mut Client) -> Result<i32, Error> {
    let exists = client.query_once("SELECT to_regclass('hwheel.settings') IS NOT NULL", &[])?;
    if !exists[0].get::<_, bool>(0) {
        return Ok(0);
    }
    let rows = client.query_once("SELECT version FROM hwheel.settings", &[])?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

/// SQL that creates three roles, each with the rights that it needs.
pub const GRANTS: &str = "\
-- hwheel_app schedules, moves and cancels jobs. hwheel_node runs them: hwheel-jobs run.
-- hwheel_reader looks at them: hwheel-jobs list, stats.
--
-- A job's function runs with the rights of hwheel_node, unless the job names a role
-- (run_as). So grant hwheel_node nothing but what such functions need. Who may write
-- the table of jobs may have the nodes call any function that they may call.
CREATE ROLE hwheel_app NOLOGIN;
CREATE ROLE hwheel_node NOLOGIN;
CREATE ROLE hwheel_reader NOLOGIN;
GRANT USAGE ON SCHEMA hwheel TO hwheel_app, hwheel_node, hwheel_reader;
GRANT SELECT ON hwheel.settings, hwheel.node, hwheel.queue, hwheel.gate, hwheel.stop, hwheel.history,
	hwheel.all_jobs
	TO hwheel_app, hwheel_node, hwheel_reader;
GRANT SELECT ON hwheel.job TO hwheel_app, hwheel_node;
-- Not headers, which may be secrets.
GRANT SELECT (id, key, state, due, occurrence, every, cron, zone, missed, grace, kind, target,
	payload, max_attempts, backoff, timeout, owner, fence, attempts, runs, skipped, created_at,
	fired_at, finished_at, last_error, alone, run_as, losses, traceparent, paused_due,
	queue, priority, lease_until, tenant, tried, after_keys, after_key)
	ON hwheel.job TO hwheel_reader;
GRANT INSERT, UPDATE, DELETE ON hwheel.job, hwheel.stop, hwheel.queue, hwheel.gate, hwheel.history
	TO hwheel_app, hwheel_node;
GRANT EXECUTE ON FUNCTION hwheel._tend() TO hwheel_node;
GRANT INSERT, UPDATE, DELETE ON hwheel.node TO hwheel_node;

-- GRANT hwheel_app TO your_application;
-- GRANT hwheel_node TO your_node;
-- GRANT hwheel_reader TO your_monitoring;
-- Lets jobs run with the rights of your_application instead (run_as => 'your_application'):
-- SELECT hwheel.allow_role('your_application', node => 'hwheel_node');
";
