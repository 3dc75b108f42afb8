//! The page as HTML. The macro escapes all values.

use crate::metrics::{bound_us, percentile, BUCKETS};
use crate::web::{View, Which};
use hyper::StatusCode;
use jiff::Timestamp;
use maud::{html, Markup, DOCTYPE};
use tokio_postgres::Row;

pub struct Overview {
    pub queues: Vec<Row>,
    pub nodes: Vec<Row>,
    /// One row.
    pub settings: Vec<Row>,
    pub lists: Vec<(View, Vec<Row>)>,
}

/// Which jobs a list has.
pub struct Filter {
    pub view: View,
    pub which: Which,
    pub from: i64,
    /// Where the list goes on.
    pub next: Option<i64>,
}

pub const STYLE: &str = "
:root { color-scheme: light dark; --line: #8885; --mark: #2a78b8; --bad: #c8382e; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.3rem; margin: 0; }
h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
header { display: flex; gap: 1rem; align-items: baseline; flex-wrap: wrap; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid var(--line);
	vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 600; white-space: nowrap; }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.t { white-space: nowrap; font-variant-numeric: tabular-nums; }
.bad { color: var(--bad); font-weight: 600; }
.dim { opacity: .65; }
.note { border-left: 4px solid var(--mark); padding: .3rem .8rem; }
button, summary { font: inherit; cursor: pointer; }
details { display: inline-block; }
form { display: inline-block; }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif; fill: currentColor; }
svg .bar { fill: var(--mark); }
svg .axis { stroke: var(--line); }
svg .mark { stroke: var(--bad); stroke-dasharray: 3 3; }
";

fn document(title: &str, body: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) " - hwheel-jobs" }
                link rel="stylesheet" href="/style.css";
                link rel="icon" href="data:,";
            }
            body {
                header {
                    h1 { a href="/" { "hwheel-jobs" } }
                    nav {
                        @for view in View::ALL {
                            a href={ "/jobs?view=" (view.word()) } { (view.word()) } " "
                        }
                    }
                }
                (body)
            }
        }
    };
    page.into_string()
}

pub fn refusal(status: StatusCode, why: &str) -> String {
    let body = html! { p.note { (shown(why)) } p { a href="/" { "Back to the page" } } };
    document(status.canonical_reason().unwrap_or("no page"), body)
}

/// A line that says what the last change has done.
fn news(did: Option<&str>) -> Markup {
    html! {
        @match did {
            Some("cancelled") => p.note { "The job is cancelled." },
            Some("stopping") => p.note { "The run of the job is asked to end." },
            Some("revived") => p.note { "The job lives again." },
            Some(text) => {
                @if let Ok(count) = text.parse::<u32>() { p.note { (count) " jobs live again." } }
            }
            None => {}
        }
    }
}

pub fn overview(overview: &Overview, did: Option<&str>, token: &str) -> String {
    let settings = &overview.settings[0];
    let now: Timestamp = settings.get("now");
    let window: f64 = settings.get("window_s");
    let mut lateness = vec![0; BUCKETS];
    for node in &overview.nodes {
        let buckets: Vec<i64> = node.get("lateness");
        for (sum, count) in lateness.iter_mut().zip(buckets) {
            *sum += count;
        }
    }
    let database: &str = settings.get("database");
    let body = html! {
        (news(did))
        p.dim { "Database " (shown(database)) " at " (format!("{now:.0}")) ". Times are UTC." }
        h2 { "Queues" }
        (queues(&overview.queues, window))
        h2 { "Lateness" }
        (picture(&lateness))
        h2 { "Nodes" }
        (nodes(&overview.nodes))
        @for (view, jobs) in &overview.lists {
            @if !jobs.is_empty() {
                h2 { a href={ "/jobs?view=" (view.word()) } { (title(*view)) } }
                (table(jobs, *view, token))
            }
        }
    };
    document("jobs", body)
}

fn title(view: View) -> &'static str {
    match view {
        View::Late => "Late",
        View::Running => "Running",
        View::Next => "Due next",
        View::Blocked => "Blocked",
        View::Paused => "Paused",
        View::Dead => "Dead",
        View::Done => "Done",
    }
}

fn queues(queues: &[Row], window: f64) -> Markup {
    let link = |queue: &str, view: View, count: i64| {
        let form = form_urlencoded::Serializer::new(String::new())
            .append_pair("view", view.word())
            .append_pair("queue", queue)
            .finish();
        html! {
            @if count == 0 { span.dim { "0" } } @else {
                a.bad[matches!(view, View::Late | View::Dead)] href={ "/jobs?" (form) } { (count) }
            }
        }
    };
    html! {
        table {
            tr {
                th { "Queue" } th { "Limits" }
                @for name in ["Waiting", "Late", "Running", "Blocked", "Paused", "Dead"] { th.n { (name) } }
                th.n { "Due within " (span(window)) }
                th.n { "Late by at most" }
            }
            @for row in queues {
                @let queue = row.get::<_, &str>("queue");
                tr {
                    td { (shown(queue)) @if row.get::<_, Option<Timestamp>>("paused_at").is_some() { " " span.bad { "paused" } } }
                    td {
                        @if let Some(most) = row.get::<_, Option<i32>>("max_running") { (most) " at once" br; }
                        @if let Some(most) = row.get::<_, Option<i32>>("max_running_per") { (most) " at once per tenant" br; }
                        @if let Some(rate) = row.get::<_, Option<f64>>("rate") { (rate) " per second" }
                    }
                    @for (name, view) in [("waiting", View::Next), ("late", View::Late),
                        ("running", View::Running), ("blocked", View::Blocked),
                        ("paused", View::Paused), ("dead", View::Dead)]
                    {
                        td.n { (link(queue, view, row.get(name))) }
                    }
                    td.n { (row.get::<_, i64>("soon")) }
                    td.n { @if let Some(s) = row.get::<_, Option<f64>>("latest_s") { (span(s)) } }
                }
            }
            @if queues.is_empty() { tr { td.dim colspan="10" { "There is no job." } } }
        }
    }
}

/// The histogram of lateness. Both axes are logarithmic.
fn picture(buckets: &[i64]) -> Markup {
    const LEFT: f64 = 10.0;
    const STEP: f64 = 9.0;
    const TOP: f64 = 24.0;
    const BASE: f64 = 150.0;
    let total: i64 = buckets.iter().sum();
    let (Some(half), Some(most), Some(worst)) = (
        percentile(buckets, 0.5),
        percentile(buckets, 0.99),
        percentile(buckets, 1.0),
    ) else {
        return html! { p.dim { "No attempt has started yet." } };
    };
    let highest = buckets.iter().copied().max().unwrap_or(1);
    let height =
        |count: i64| (BASE - TOP) * (1.0 + count as f64).ln() / (1.0 + highest as f64).ln();
    // A bucket ends at its bound.
    let place = |us: f64| LEFT + STEP * (1.0 + 10.0 * (us / 100.0).log10());
    let summary = format!(
        "{total} attempts: half of them late by at most {}, 99 in 100 by {}, all by {}",
        span(half / 1e6),
        span(most / 1e6),
        span(worst / 1e6)
    );
    html! {
        p { (summary) "." }
        svg viewBox="0 0 750 180" role="img" aria-label=(summary) {
            line.axis x1="0" x2="750" y1=(BASE) y2=(BASE) {}
            @for (n, count) in buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
                rect.bar x=(LEFT + STEP * n as f64) width=(STEP - 1.0)
                    y=(format!("{:.1}", BASE - height(*count))) height=(format!("{:.1}", height(*count)))
                {
                    title { "up to " (span(bound_us(n) / 1e6)) ": " (count) " attempts" }
                }
            }
            @for (name, us) in [("50 %", half), ("99 %", most)] {
                @let x = format!("{:.1}", place(us));
                line.mark x1=(x) x2=(x) y1=(TOP) y2=(BASE) {}
                text x=(x) y=(if name == "50 %" { 9 } else { 20 }) text-anchor="middle" { (name) }
            }
            @for power in 0..=8 {
                @let us = 100.0 * 10f64.powi(power);
                @let x = format!("{:.1}", place(us));
                line.axis x1=(x) x2=(x) y1=(BASE) y2=(BASE + 5.0) {}
                text x=(x) y=(BASE + 18.0) text-anchor="middle" { (span(us / 1e6)) }
            }
        }
        p.dim {
            "From the due time of an attempt to its start, of the nodes of the last day. "
            "Both axes are logarithmic."
        }
    }
}

fn nodes(nodes: &[Row]) -> Markup {
    html! {
        table {
            tr {
                th { "Node" } th { "Entered" } th { "Lease" } th.n { "Jobs held" }
                th.n { "Failed attempts" } th.n { "Clock" }
            }
            @for row in nodes {
                @let lease: f64 = row.get("lease_s");
                tr {
                    td { (shown(row.get("name"))) }
                    td.t { (format!("{:.0}", row.get::<_, Timestamp>("entered_at"))) }
                    td {
                        @if !row.get::<_, bool>("lives") { span.dim { "has left" } }
                        @else if lease < 0.0 { span.bad { "silent, over since " (span(-lease)) } }
                        @else { (span(lease)) " left" }
                    }
                    td.n { (row.get::<_, i64>("held")) }
                    td.n { (row.get::<_, i64>("failed")) }
                    td.n {
                        @if let Some(s) = row.get::<_, Option<f64>>("clock_offset") {
                            (format!("{:+.3} ms", s * 1000.0))
                        }
                    }
                }
            }
            @if nodes.is_empty() { tr { td.bad colspan="6" { "No node runs." } } }
        }
    }
}

/// A list of jobs.
fn table(jobs: &[Row], view: View, token: &str) -> Markup {
    let is_over = matches!(view, View::Dead | View::Done);
    let when = match view {
        View::Dead | View::Done => "finished_at",
        View::Running => "fired_at",
        _ => "due",
    };
    html! {
        table {
            tr {
                th { "Key" }
                th { (if is_over { "Ended" } else if view == View::Running { "Started" } else { "Due" }) }
                th { "Queue" } th { "What" } th { "Attempts" } th { "Owner" } th { "Last error" } th {}
            }
            @for row in jobs {
                @let text = |column: &str| row.get::<_, Option<String>>(column).unwrap_or_default();
                @let id: i64 = row.get("id");
                tr {
                    td { a href={ "/job/" (id) } { (shown(&text("key"))) } }
                    td.t {
                        @if let Some(key) = row.get::<_, Option<&str>>("after_key") { "after " (shown(key)) }
                        @else if let Ok(at) = row.try_get(when) { (time(at, row.get("now"))) }
                        @else { span.dim { "cannot be read" } }
                    }
                    td { (shown(&text("queue"))) }
                    td { (text("kind")) " " (shown(&text("target"))) (recurrence(row)) }
                    td.t { (row.get::<_, i32>("attempts")) " of " (row.get::<_, i32>("max_attempts")) }
                    td { (shown(&text("owner"))) }
                    td { (shown(&text("last_error"))) }
                    td { (buttons(id, &text("state"), token)) }
                }
            }
        }
    }
}

fn recurrence(row: &Row) -> Markup {
    let text = |column: &str| row.get::<_, Option<String>>(column);
    html! {
        @if let Some(every) = text("every") { span.dim { ", every " (every) } }
        @if let Some(cron) = text("cron") {
            span.dim { ", cron " (shown(&cron)) " " (shown(&text("zone").unwrap_or_default())) }
        }
    }
}

/// The change that a state allows. To cancel takes two clicks, as it deletes the job.
fn buttons(id: i64, state: &str, token: &str) -> Markup {
    let form = |what: &str, label: &str| {
        html! {
            form method="post" action={ "/" (what) } {
                input type="hidden" name="token" value=(token);
                input type="hidden" name="id" value=(id);
                button { (label) }
            }
        }
    };
    html! {
        @match state {
            "dead" => (form("revive", "Revive")),
            "done" => {}
            _ => details { summary { "Cancel" } (form("cancel", "Cancel this job")) },
        }
    }
}

pub fn jobs(jobs: &[Row], filter: &Filter, did: Option<&str>, token: &str) -> String {
    let link = |from: i64| {
        let mut form = filter.which.form(filter.view);
        format!(
            "/jobs?{}",
            form.append_pair("from", &from.to_string()).finish()
        )
    };
    let is_dead = filter.view == View::Dead;
    let [(_, queue), (_, key), (_, error)] = filter.which.fields();
    let body = html! {
        (news(did))
        h2 { (title(filter.view)) }
        form action="/jobs" {
            input type="hidden" name="view" value=(filter.view.word());
            label { "Queue " input name="queue" value=(queue); } " "
            label { "Key begins with " input name="key" value=(key); } " "
            @if is_dead { label { "Error contains " input name="error" value=(error); } " " }
            button { "Show" }
        }
        @if is_dead && !jobs.is_empty() { (revive_all(&filter.which, token)) }
        (table(jobs, filter.view, token))
        @if jobs.is_empty() { p.dim { "No job is in this list." } }
        p {
            @if filter.from > 0 { a href=(link(0)) { "First" } " " }
            @if let Some(next) = filter.next { a href=(link(next)) { "More" } }
        }
    };
    document(title(filter.view), body)
}

/// Revives all jobs of a list, also those that the page does not show. It takes two clicks.
fn revive_all(which: &Which, token: &str) -> Markup {
    html! {
        p { details {
            summary { "Revive all" }
            form method="post" action="/revive-all" {
                input type="hidden" name="token" value=(token);
                @for (name, text) in which.fields() { input type="hidden" name=(name) value=(text); }
                button { "Revive all jobs of this list, 10000 at most" }
            }
        } }
    }
}

/// All about a job: a row for each field.
pub fn job(rows: &[Row], did: Option<&str>, token: &str) -> String {
    let key: &str = rows[0].get("key");
    let body = html! {
        (news(did))
        h2 { "Job " (shown(key)) }
        table {
            @for row in rows {
                tr {
                    th { (row.get::<_, &str>("name").replace('_', " ")) }
                    td { (shown(row.get("value"))) }
                }
            }
        }
        p { (buttons(rows[0].get("id"), rows[0].get("state"), token)) }
    };
    document("job", body)
}

/// A text of a user. It cannot change the direction of what follows, and what is not
/// visible shows as an escape.
fn shown(text: &str) -> Markup {
    const LONGEST: usize = 2000;
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut visible = String::new();
    for c in text.chars().take(LONGEST) {
        match c {
            '\n' | '\t' => visible.push(' '),
            c if is_hidden(c) => visible.extend(c.escape_unicode()),
            c => visible.push(c),
        }
    }
    if text.chars().nth(LONGEST).is_some() {
        visible.push('…');
    }
    html! { bdi { (visible) } }
}

/// A point in time, and how far it is from now.
fn time(time: Option<Timestamp>, now: Timestamp) -> Markup {
    let Some(time) = time else {
        return html! { span.dim { "to be computed" } };
    };
    let distance = time.duration_since(now).as_secs_f64();
    html! {
        (format!("{time:.3}")) br;
        span.dim {
            @if distance < 0.0 { (span(-distance)) " ago" } @else { "in " (span(distance)) }
        }
    }
}

/// A length of time, rounded to the eye.
fn span(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.1} ms", s * 1e3),
        s if s < 0.9995 => format!("{:.0} ms", s * 1e3),
        s if s < 9.995 => format!("{} s", (s * 10.0).round() / 10.0),
        s if s < 119.5 => format!("{s:.0} s"),
        s if s < 7170.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}
