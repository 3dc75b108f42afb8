//! The commands that look: list, stats.

use crate::args::{List, Stats};
use crate::connect::Config;
use crate::db::{self, Client};
use crate::http::shown;
use crate::job::word;
use crate::metrics::{family, histogram, percentile};
use crate::node::explain;
use jiff::Timestamp;
use tokio_postgres::types::Type;

fn connect(config: &Config) -> Result<Client, String> {
    db::connect(config, "hwheel-jobs").map_err(|e| explain(&e))
}

pub fn list(config: &Config, options: &List) -> Result<(), String> {
    let mut client = connect(config)?;
    let state = options.state.map(word);
    let limit = i64::from(options.limit);
    let rows = client.query_once(
        "SELECT j.key, j.state, nullif(j.due, '-infinity') AS due, j.kind, j.target,
            coalesce('every ' || j.every, 'cron ' || j.cron || ' ' || j.zone, '') AS recurrence,
            j.attempts, j.max_attempts, coalesce(n.name, '') AS owner,
            coalesce(j.last_error, '') AS last_error
        FROM hwheel.job j LEFT JOIN hwheel.node n ON n.id = j.owner
        WHERE ($1::text IS NULL OR j.state = $1) AND ($2::text IS NULL OR j.key LIKE $2)
        ORDER BY array_position('{running,claimed,waiting,dead,done}', j.state), j.due
        LIMIT $3",
        &[
            (&state, Type::TEXT),
            (&options.key, Type::TEXT),
            (&limit, Type::INT8),
        ],
    );
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
        let due: Option<Timestamp> = row.get("due");
        let attempts: (i32, i32) = (row.get("attempts"), row.get("max_attempts"));
        table.push(
            [
                row.get("key"),
                row.get("state"),
                due.map_or("to be computed".to_owned(), |due| format!("{due:.3}")),
                format!(
                    "{} {}",
                    row.get::<_, &str>("kind"),
                    shown(row.get("target"))
                ),
                row.get("recurrence"),
                format!("{} of {}", attempts.0, attempts.1),
                row.get("owner"),
                row.get("last_error"),
            ]
            .map(|cell: String| cell.replace(char::is_control, " ")),
        );
    }
    print_table(&table);
    Ok(())
}

fn print_table<const N: usize>(table: &[[String; N]]) {
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
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

const STATES: [&str; 5] = ["waiting", "claimed", "running", "done", "dead"];

pub fn stats(config: &Config, options: &Stats) -> Result<(), String> {
    let mut client = connect(config)?;
    let counts = client
        .query_once(
            "SELECT state, count(*), count(*) FILTER (WHERE due < clock_timestamp() + window_length
                AND is_next), count(*) FILTER (WHERE due < clock_timestamp() AND is_next)
            FROM hwheel.job, hwheel.settings,
                LATERAL (SELECT state IN ('waiting', 'claimed') AND isfinite(due) AS is_next) n
            GROUP BY state",
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
            "SELECT name, left_at IS NULL AS lives, lateness, failed,
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
        print!("{text}");
        return Ok(());
    }
    for state in STATES {
        println!("{state:9} {}", count(state));
    }
    println!("due       {due} within the window, or late");
    println!("late      {late}");
    println!("failed    {failed} attempts, of nodes seen in the last day");
    let ms = |part| {
        percentile(&lateness, part).map_or("-".to_owned(), |us| format!("{:.1} ms", us / 1000.0))
    };
    println!(
        "lateness  p50 {}, p90 {}, p99 {}, worst {}",
        ms(0.5),
        ms(0.9),
        ms(0.99),
        ms(1.0)
    );
    for node in living {
        let offset: Option<f64> = node.get("clock_offset");
        let offset = offset.map_or("unknown".to_owned(), |s| format!("{:+.3} ms", s * 1000.0));
        println!("node      {}: clock {offset}", node.get::<_, &str>("name"));
    }
    Ok(())
}
