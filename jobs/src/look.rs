//! The commands for people: list, show, stats, and those that change one job.

use crate::args::{Key, List, Move, Prune, Queue, Queues, Revive, Show, Stats};
use crate::connect::Config;
use crate::db::{self, Client};
use crate::job::word;
use crate::metrics::{family, histogram, percentile};
use crate::node::explain;
use jiff::Timestamp;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::Row;

/// A connection in a transaction: a pooler keeps nothing of it. Who changes something commits.
fn connect(config: &Config) -> Result<Client, String> {
    let begin = |mut client: Client| {
        client.batch_execute(&format!("BEGIN; SET LOCAL {}", db::PATH))?;
        Ok(client)
    };
    db::connect(config, "hwheel-jobs")
        .and_then(begin)
        .map_err(|e| explain(&e))
}

fn commit(client: &mut Client) -> Result<(), String> {
    client.batch_execute("COMMIT").map_err(|e| explain(&e))
}

/// Writes to the standard output. A reader that has seen enough, such as `head`, is no
/// error.
pub fn print(text: &str) -> Result<(), String> {
    let mut output = std::io::stdout().lock();
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(format!("standard output: {e}")),
        _ => Ok(()),
    }
}

/// The state of a job as users see it: a waiting job may be paused, or blocked by other jobs.
macro_rules! state {
    () => {
        "CASE WHEN paused_due IS NOT NULL AND state = 'waiting' THEN 'paused'
            WHEN after_key IS NOT NULL THEN 'blocked' ELSE state END"
    };
}

/// The columns that users see of a job. A paused job shows the time at which it would be due, and a
/// blocked one the earliest time. A URL may have a password.
pub const JOB: &str = concat!(
    "SELECT j.id, j.key, ",
    state!(),
    " AS state,
        nullif(nullif(CASE WHEN j.after_key IS NOT NULL THEN j.occurrence
            WHEN j.due = 'infinity' THEN j.paused_due ELSE j.due END, '-infinity'), 'infinity') AS due,
        j.after_key,
        j.kind,
        CASE WHEN j.kind = 'http' THEN regexp_replace(j.target, '^(https?://)[^/?#]*@', E'\\\\1***@')
            ELSE j.target END AS target,
        j.every::text AS every, j.cron, j.zone, j.missed, j.attempts, j.max_attempts,
        CASE j.owner WHEN 0 THEN 'an application' ELSE n.name END AS owner, j.queue, j.priority, j.runs, j.skipped, j.created_at, j.fired_at, j.finished_at,
        j.last_error
    FROM hwheel.all_jobs j LEFT JOIN hwheel.node n ON n.id = j.owner"
);

pub fn list(config: &Config, options: &List) -> Result<(), String> {
    let mut client = connect(config)?;
    let state = options.state.map(word);
    let limit = i64::from(options.limit);
    let columns = if options.json {
        "to_json(v)::text"
    } else {
        "v.*"
    };
    let sql = format!(
        "SELECT {columns} FROM ({JOB}) v
        WHERE ($1::text IS NULL OR v.state = $1) AND ($2::text IS NULL OR v.key LIKE $2)
        ORDER BY array_position('{{running,claimed,waiting,blocked,paused,dead,done}}', v.state), v.due, v.id
        LIMIT $3"
    );
    let rows = client.query_once(
        &sql,
        &[
            (&state, Type::TEXT),
            (&options.key, Type::TEXT),
            (&limit, Type::INT8),
        ],
    );
    if options.json {
        return print(&lines(&rows.map_err(|e| explain(&e))?));
    }
    let rows = rows.map_err(|e| explain(&e))?;
    let mut table = vec![[
        "KEY",
        "STATE",
        "DUE",
        "WHAT",
        "RECURRENCE",
        "ATTEMPTS",
        "OWNER",
        "LAST ERROR",
    ]
    .map(str::to_owned)];
    for row in &rows {
        let text = |column: &str| row.get::<_, Option<String>>(column).unwrap_or_default();
        let due = match (
            text("after_key"),
            row.try_get::<_, Option<Timestamp>>("due"),
        ) {
            (key, _) if !key.is_empty() => format!("after {key}"),
            (_, Ok(Some(due))) => format!("{due:.3}"),
            (_, Ok(None)) => "to be computed".to_owned(),
            (_, Err(_)) => "cannot be read".to_owned(),
        };
        let attempts: (i32, i32) = (row.get("attempts"), row.get("max_attempts"));
        let recurrence = match (text("every"), text("cron")) {
            (every, _) if !every.is_empty() => format!("every {every}"),
            (_, cron) if !cron.is_empty() => format!("cron {cron} {}", text("zone")),
            _ => String::new(),
        };
        table.push(
            [
                text("key"),
                text("state"),
                due,
                format!("{} {}", text("kind"), text("target")),
                recurrence,
                format!("{} of {}", attempts.0, attempts.1),
                text("owner"),
                text("last_error"),
            ]
            .map(|cell: String| in_one_line(&cell)),
        );
    }
    print(&as_table(&table))
}

/// The first column of each row.
fn lines(rows: &[Row]) -> String {
    rows.iter()
        .map(|row| row.get::<_, String>(0) + "\n")
        .collect()
}

/// Shows all about the jobs of a key: the live one, and those that have ended.
pub fn show(config: &Config, options: &Show) -> Result<(), String> {
    let mut client = connect(config)?;
    let mut ask = |sql: &str, parameters: &[(&(dyn ToSql + Sync), Type)]| {
        client.query_once(sql, parameters).map_err(|e| explain(&e))
    };
    // Not everybody who may see a job may see its headers, and their texts nobody should.
    let sql = "SELECT has_column_privilege('hwheel.job', 'headers', 'SELECT')";
    let headers = if ask(sql, &[])?[0].get(0) {
        "(SELECT string_agg(h, ', ' ORDER BY h) FROM hwheel.job y, jsonb_object_keys(y.headers) h
            WHERE y.id = x.id)"
    } else {
        "NULL"
    };
    let job = format!(
        "SELECT v.*, x.payload, {headers} AS headers, x.traceparent, x.timeout::text AS timeout,
            x.backoff::text AS backoff, x.grace::text AS grace, x.alone, x.run_as, x.stopping_since, x.tenant, {TRIED},
            {AFTER} AS after_keys
        FROM ({JOB}) v JOIN hwheel.all_jobs x USING (id) WHERE v.key = $1
        ORDER BY v.state IN ('done', 'dead'), v.id DESC LIMIT 20"
    );
    let key: [(&(dyn ToSql + Sync), Type); 1] = [(&options.key, Type::TEXT)];
    if options.json {
        let rows = ask(&format!("SELECT to_json(w)::text FROM ({job}) w"), &key)?;
        print(&lines(&rows))?;
        return found(!rows.is_empty(), &options.key);
    }
    let sql = format!(
        "SELECT f.n, f.key, f.value FROM ({job}) w,
            LATERAL (SELECT n, key, value FROM json_each_text(to_json(w))
                WITH ORDINALITY AS e (key, value, n) WHERE key <> 'tried'
                UNION ALL SELECT 1000 + n, {FAILED} FROM jsonb_array_elements(w.tried)
                    WITH ORDINALITY AS t (a, n)
                ORDER BY n) f"
    );
    let rows = ask(&sql, &key)?;
    let mut text = String::new();
    for row in &rows {
        if row.get::<_, i64>("n") == 1 && !text.is_empty() {
            text.push('\n');
        }
        if let Some(value) = row.get::<_, Option<String>>("value") {
            let value = in_one_line(&value);
            let _ = writeln!(text, "{:12}  {value}", row.get::<_, &str>("key"));
        }
    }
    print(&text)?;
    found(!rows.is_empty(), &options.key)
}

/// A text for a log or a list. A terminal shows what follows a mark of the direction of writing
/// in another order.
pub fn in_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => line.extend(c.escape_unicode()),
            '\u{2028}' | '\u{2029}' => line.push(' '),
            _ if c.is_control() => line.push(' '),
            _ => line.push(c),
        }
    }
    line
}

fn found(is_there: bool, key: &str) -> Result<(), String> {
    if is_there {
        Ok(())
    } else {
        Err(format!("there is no job with the key {key:?}"))
    }
}

/// Calls a function of the interface for a key. It returns whether there was a job, or what it did.
pub fn act(config: &Config, function: &str, options: &Key, outcome: &str) -> Result<(), String> {
    let mut client = connect(config)?;
    let sql = format!("SELECT nullif(hwheel.{function}($1)::text, 'false')");
    let rows = client.query_once(&sql, &[(&options.key, Type::TEXT)]);
    let did: Option<String> = rows.map_err(|e| explain(&e))?[0].get(0);
    commit(&mut client)?;
    let what = match function {
        "revive" => "dead job",
        "resume" => "paused job",
        _ => "job that is still to run",
    };
    match did.as_deref() {
        Some("stopping") => print(&format!("{:?} runs, and is asked to end\n", options.key)),
        Some(_) => print(&format!("{:?} {outcome}\n", options.key)),
        None => Err(format!("no {what} has the key {:?}", options.key)),
    }
}

pub fn move_to(config: &Config, options: &Move) -> Result<(), String> {
    let mut client = connect(config)?;
    let sql = "SELECT hwheel.move($1, time), greatest(time, now())
        FROM (SELECT CASE WHEN $2 LIKE '+%' THEN now() + substr($2, 2)::interval
            ELSE $2::timestamptz END AS time) t";
    let parameters: [(&(dyn ToSql + Sync), Type); 2] =
        [(&options.key, Type::TEXT), (&options.time, Type::TEXT)];
    let rows = client.query_once(sql, &parameters);
    let rows = rows.map_err(|e| explain(&e))?;
    if !rows[0].get::<_, bool>(0) {
        return Err(format!(
            "no job that is still to run has the key {:?}",
            options.key
        ));
    }
    let due: Timestamp = rows[0].get(1);
    commit(&mut client)?;
    print(&format!("{:?} is due at {due:.3}\n", options.key))
}

/// Gives the dead jobs that the options name another life.
pub fn revive(config: &Config, options: &Revive) -> Result<(), String> {
    if let Some(key) = &options.key {
        let key = Key { key: key.clone() };
        return act(config, "revive", &key, "lives again");
    }
    let mut client = connect(config)?;
    let sql = "SELECT hwheel.revive_many($1, $2, $3)";
    let parameters: [(&(dyn ToSql + Sync), Type); 3] = [
        (&options.queue, Type::TEXT),
        (&options.like, Type::TEXT),
        (&options.error, Type::TEXT),
    ];
    let rows = client.query_once(sql, &parameters);
    let count: i64 = rows.map_err(|e| explain(&e))?[0].get(0);
    commit(&mut client)?;
    print(&format!("{count} jobs live again\n"))
}

pub fn prune(config: &Config, options: &Prune) -> Result<(), String> {
    let mut client = connect(config)?;
    let sql = "SELECT hwheel.prune($1::interval)";
    let rows = client.query_once(sql, &[(&options.age, Type::TEXT)]);
    let count: i64 = rows.map_err(|e| explain(&e))?[0].get(0);
    commit(&mut client)?;
    print(&format!("{count} jobs are deleted\n"))
}

/// The keys of the jobs that a job still waits for.
pub const AFTER: &str = "(SELECT string_agg(m.key, ', ' ORDER BY m.key) FROM hwheel.job m
    WHERE m.key = ANY (x.after_keys) AND m.state IN ('waiting', 'claimed', 'running'))";

/// The attempts that failed, of `hwheel.all_jobs x`. No check refuses a row of the history.
pub const TRIED: &str = "CASE jsonb_typeof(x.tried) WHEN 'array' THEN x.tried END AS tried";

/// An attempt that failed, in a line: a name and a text.
pub const FAILED: &str = "'failed', concat(left(a ->> 'began', 23), ' to ',
    left(a ->> 'ended', 23), ': ', a ->> 'said')";

/// The queues that have jobs or limits. Each job that is to run is one of waiting, late, blocked and
/// paused.
pub const QUEUES: &str =
    "SELECT coalesce(q.name, j.queue) AS queue, q.max_running, q.rate, q.max_running_per,
        q.paused_at, n.name AS holder, j.latest_s, coalesce(waiting, 0) AS waiting,
        coalesce(soon, 0) AS soon, coalesce(late, 0) AS late,
        coalesce(running, 0) AS running, coalesce(blocked, 0) AS blocked,
        coalesce(paused, 0) AS paused,
        coalesce(dead, 0) AS dead,
        CASE WHEN (q.max_running IS NOT NULL OR q.rate IS NOT NULL) AND j.kinds IS NOT NULL
            AND NOT EXISTS (SELECT FROM hwheel.node m WHERE m.left_at IS NULL
                AND (m.kinds IS NULL OR j.kinds <@ m.kinds))
            THEN array_to_string(j.kinds, ', ') END AS lacks
    FROM hwheel.queue q FULL JOIN (
        SELECT j.queue, count(*) FILTER (WHERE is_next AND NOT is_late) AS waiting,
            count(*) FILTER (WHERE is_next AND due >= now()
                AND due < now() + window_length) AS soon,
            count(*) FILTER (WHERE is_late) AS late,
            extract(epoch FROM now() - min(due) FILTER (WHERE is_late))::float8 AS latest_s,
            count(*) FILTER (WHERE state = 'running') AS running,
            count(*) FILTER (WHERE after_key IS NOT NULL AND paused_due IS NULL) AS blocked,
            count(*) FILTER (WHERE state = 'waiting' AND paused_due IS NOT NULL) AS paused,
            count(*) FILTER (WHERE state = 'dead') AS dead,
            array_agg(DISTINCT kind) FILTER (WHERE state = 'waiting' AND is_next AND kind <> 'app'
                AND due < now() + window_length) AS kinds
        FROM hwheel.job j, hwheel.settings s,
            LATERAL (SELECT state IN ('waiting', 'claimed') AND paused_due IS NULL
                AND after_key IS NULL AS is_next) n,
            LATERAL (SELECT is_next AND due < now() AND isfinite(due) AS is_late) l
        GROUP BY 1
    ) j ON j.queue = q.name LEFT JOIN hwheel.node n ON n.id = q.holder AND n.left_at IS NULL
    ORDER BY 1";

pub fn queues(config: &Config, options: &Queues) -> Result<(), String> {
    let mut client = connect(config)?;
    let sql = format!(
        "SELECT queue, max_running, rate, max_running_per, paused_at, holder,
            waiting + late + blocked + paused AS waiting,
            late, running, dead, lacks FROM ({QUEUES}) q"
    );
    if options.json {
        let sql = format!("SELECT to_json(v)::text FROM ({sql}) v");
        return print(&lines(
            &client.query_once(&sql, &[]).map_err(|e| explain(&e))?,
        ));
    }
    let rows = client.query_once(&sql, &[]).map_err(|e| explain(&e))?;
    let mut table = vec![[
        "QUEUE", "LIMIT", "RATE", "PAUSED", "HOLDER", "WAITING", "LATE", "RUNNING", "DEAD",
    ]
    .map(str::to_owned)];
    for row in &rows {
        let count = |column: &str| row.get::<_, i64>(column).to_string();
        let max: Option<i32> = row.get("max_running");
        let per: Option<i32> = row.get("max_running_per");
        let rate: Option<f64> = row.get("rate");
        let paused: Option<Timestamp> = row.get("paused_at");
        table.push([
            row.get("queue"),
            match (max, per) {
                (_, None) => max.map_or(String::new(), |max| max.to_string()),
                (None, Some(per)) => format!("{per} each"),
                (Some(max), Some(per)) => format!("{max}, {per} each"),
            },
            rate.map_or(String::new(), |rate| format!("{rate}/s")),
            paused.map_or(String::new(), |at| format!("{at:.0}")),
            match row.get::<_, Option<&str>>("lacks") {
                Some(kinds) => format!("no node runs {kinds}"),
                None => row.get::<_, Option<String>>("holder").unwrap_or_default(),
            },
            count("waiting"),
            count("late"),
            count("running"),
            count("dead"),
        ]);
    }
    print(&as_table(&table))
}

/// Changes what is given of a queue.
pub fn queue(config: &Config, options: &Queue) -> Result<(), String> {
    let mut client = connect(config)?;
    let mut call = |sql: &str, parameters: &[(&(dyn ToSql + Sync), Type)]| {
        let rows = client.query_once(sql, parameters);
        rows.map_err(|e| explain(&e))
    };
    let name = (&options.name as &(dyn ToSql + Sync), Type::TEXT);
    let max = options.max_running.map(i64::from);
    let per = options.max_running_per.map(i64::from);
    if options.unlimited || max.is_some() || per.is_some() || options.rate.is_some() {
        // A limit that is not given stays, unless there is to be none.
        let sql = "SELECT hwheel.set_queue($1,
                coalesce($2::int8, CASE WHEN NOT $4 THEN q.max_running END)::int,
                coalesce($3, CASE WHEN NOT $4 THEN q.rate END),
                coalesce($5::int8, CASE WHEN NOT $4 THEN q.max_running_per END)::int)
            FROM (SELECT) one LEFT JOIN hwheel.queue q ON q.name = $1";
        call(
            sql,
            &[
                name.clone(),
                (&max, Type::INT8),
                (&options.rate, Type::FLOAT8),
                (&options.unlimited, Type::BOOL),
                (&per, Type::INT8),
            ],
        )?;
    }
    if options.pause {
        call("SELECT hwheel.pause_queue($1)", std::slice::from_ref(&name))?;
    }
    if options.resume {
        call(
            "SELECT hwheel.resume_queue($1)",
            std::slice::from_ref(&name),
        )?;
    }
    let rows = call(
        "SELECT concat_ws(', ', CASE WHEN paused_at IS NOT NULL THEN 'paused' END,
            max_running || ' at once', rate || ' per second',
            max_running_per || ' at once per tenant') FROM hwheel.queue WHERE name = $1",
        &[name],
    )?;
    commit(&mut client)?;
    let limits = rows.first().map_or(String::new(), |row| row.get(0));
    let limits = if limits.is_empty() {
        "no limit"
    } else {
        &limits
    };
    print(&format!("{:?}: {limits}\n", options.name))
}

/// Jobs that are not done, by queue, kind and state. Late is one of waiting.
const EACH_QUEUE: &str = concat!(
    "SELECT queue, kind, CASE WHEN shown IN ('waiting', 'claimed') AND due < clock_timestamp()
            AND isfinite(due) THEN 'late' ELSE shown END, count(*)
    FROM hwheel.job, LATERAL (SELECT ",
    state!(),
    " AS shown) s WHERE state <> 'done' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
);

/// The value of a label.
fn plain(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn as_table<const N: usize>(table: &[[String; N]]) -> String {
    let mut text = String::new();
    let width = |column: usize| {
        table
            .iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(|column| width(column).min(60)).collect();
    for row in table {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

const STATES: [&str; 7] = [
    "waiting", "claimed", "running", "blocked", "paused", "done", "dead",
];

pub fn stats(config: &Config, options: &Stats) -> Result<(), String> {
    let mut client = connect(config)?;
    let counts = client
        .query_once(
            concat!(
                "SELECT ",
                state!(),
                ", count(*), count(*) FILTER (WHERE due < clock_timestamp() + window_length
                    AND is_next), count(*) FILTER (WHERE due < clock_timestamp() AND is_next)
                FROM hwheel.all_jobs, hwheel.settings,
                    LATERAL (SELECT state IN ('waiting', 'claimed') AND isfinite(due) AS is_next) n
                GROUP BY 1"
            ),
            &[],
        )
        .map_err(|e| explain(&e))?;
    let count = |state: &str| -> i64 {
        counts
            .iter()
            .find(|row| row.get::<_, &str>(0) == state)
            .map_or(0, |row| row.get(1))
    };
    let sum = |column: usize| -> i64 { counts.iter().map(|row| row.get::<_, i64>(column)).sum() };
    let (due, late) = (sum(2), sum(3));
    let nodes = client
        .query_once(
            "SELECT name, to_json(name)::text AS json, left_at IS NULL AS lives, lateness, failed,
            extract(epoch FROM clock_offset)::float8 AS clock_offset FROM hwheel.node ORDER BY id",
            &[],
        )
        .map_err(|e| explain(&e))?;
    let mut lateness: Vec<i64> = Vec::new();
    let mut failed = 0i64;
    for node in &nodes {
        let buckets: Vec<i64> = node.get("lateness");
        lateness.resize(lateness.len().max(buckets.len()), 0);
        for (sum, count) in lateness.iter_mut().zip(buckets) {
            *sum += count;
        }
        failed += node.get::<_, i64>("failed");
    }
    let living = nodes.iter().filter(|node| node.get("lives"));
    if options.prometheus {
        let mut text = String::new();
        let states = STATES.map(|state| (format!("{{state=\"{state}\"}}"), count(state) as f64));
        family(
            &mut text,
            "hwheel_jobs",
            "gauge",
            "Jobs in the table.",
            &states,
        );
        let one = |value: f64| [(String::new(), value)];
        let each = client
            .query_once(EACH_QUEUE, &[])
            .map_err(|e| explain(&e))?;
        let each = each.iter().map(|row| {
            let (queue, kind, state) = (row.get(0), row.get(1), row.get(2));
            let labels = format!(
                "{{queue=\"{queue}\",kind=\"{kind}\",state=\"{state}\"}}",
                queue = plain(queue),
                kind = plain(kind),
                state = plain(state)
            );
            (labels, row.get::<_, i64>(3) as f64)
        });
        let each: Vec<_> = each.collect();
        let help = "Jobs that are not done, of each queue and kind.";
        family(&mut text, "hwheel_jobs_of_queue", "gauge", help, &each);
        let help = "Jobs due within the window, or late.";
        family(
            &mut text,
            "hwheel_jobs_due",
            "gauge",
            help,
            &one(due as f64),
        );
        let help = "Jobs whose due time has passed and that no node has started.";
        family(
            &mut text,
            "hwheel_jobs_late",
            "gauge",
            help,
            &one(late as f64),
        );
        let help = "Attempts that failed, of nodes seen in the last day.";
        family(
            &mut text,
            "hwheel_jobs_failed_total",
            "counter",
            help,
            &one(failed as f64),
        );
        family(
            &mut text,
            "hwheel_jobs_nodes",
            "gauge",
            "Nodes alive.",
            &one(living.count() as f64),
        );
        histogram(&mut text, &lateness, None);
        return print(&text);
    }
    let ms = |part| percentile(&lateness, part).map(|us| us / 1000.0);
    let mut text = String::new();
    if options.json {
        let states = STATES.map(|state| format!("\"{state}\":{}", count(state)));
        let late_ms =
            [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("worst", 1.0)].map(|(name, part)| {
                let value = ms(part).map_or("null".to_owned(), |ms| format!("{ms:.1}"));
                format!("\"{name}\":{value}")
            });
        let nodes: Vec<String> = living
            .map(|node| {
                let offset: Option<f64> = node.get("clock_offset");
                let offset = offset.map_or("null".to_owned(), |s| format!("{:.3}", s * 1000.0));
                let name: &str = node.get("json");
                format!("{{\"name\":{name},\"clock_offset_ms\":{offset}}}")
            })
            .collect();
        let _ = writeln!(
            text,
            "{{\"jobs\":{{{}}},\"due\":{due},\"late\":{late},\"failed\":{failed},\
             \"lateness_ms\":{{{}}},\"nodes\":[{}]}}",
            states.join(","),
            late_ms.join(","),
            nodes.join(",")
        );
        return print(&text);
    }
    for state in STATES {
        let _ = writeln!(text, "{state:9} {}", count(state));
    }
    let shown = |part| ms(part).map_or("-".to_owned(), |ms| format!("{ms:.1} ms"));
    let _ = writeln!(
        text,
        "due       {due} within the window, or late\nlate      {late}\n\
         failed    {failed} attempts, of nodes seen in the last day\n\
         lateness  p50 {}, p90 {}, p99 {}, worst {}",
        shown(0.5),
        shown(0.9),
        shown(0.99),
        shown(1.0)
    );
    for node in living {
        let offset: Option<f64> = node.get("clock_offset");
        let offset = offset.map_or("unknown".to_owned(), |s| format!("{:+.3} ms", s * 1000.0));
        let name: &str = node.get("name");
        let _ = writeln!(text, "node      {name}: clock {offset}");
    }
    print(&text)
}
