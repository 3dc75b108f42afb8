//! The page: who may ask, what the database is asked, and what is changed.
//!
//! # Whom the page answers
//!
//! 1. *The Host header* is an IP address, localhost, or a name of the command line. A page
//!    of a foreign name that resolves to this address (DNS rebinding) sends its own name.
//! 2. *The token* comes as the password of HTTP's basic authentication. A browser sends that
//!    to this address and port only; it would send a cookie to all ports of the machine.
//! 3. *A change* is a POST with the form token, which stands in the page's forms and which
//!    no foreign page can read. Sec-Fetch-Site and Origin, if the browser sends them, have
//!    to name the page itself.
//!
//! The page has no script, and its Content-Security-Policy forbids any. `page.rs` writes HTML
//! with macros that escape all values.
//!
//! To look is a transaction that is read only and sees one state of the tables.

use crate::args::Web;
use crate::connect::Config;
use crate::db::{self, Client, Error, Failure};
use crate::look::{AFTER, FAILED, JOB, QUEUES, TRIED};
use crate::node::explain;
use crate::page::{self, Overview};
use crate::serve::{self, of_type, plain, Request, Response};
use base64::prelude::{Engine as _, BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use std::net::{IpAddr, TcpListener};
use subtle::ConstantTimeEq as _;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::Row;

/// Jobs in a list of the first page, and in a list of its own.
const FEW: i64 = 10;
const MANY: i64 = 100;

/// The jobs of a list.
#[derive(Clone, Copy, PartialEq)]
pub enum View {
    Late,
    Running,
    Next,
    Blocked,
    Paused,
    Dead,
    Done,
}

/// Which jobs of a list: by their queue, by the beginning of their key, and by a part of their last
/// error.
#[derive(Debug, Default)]
pub struct Which {
    pub queue: Option<String>,
    pub key: Option<String>,
    pub error: Option<String>,
}

impl Which {
    fn of(form: &[u8]) -> Result<Which, Refusal> {
        let text = |name| field(form, name).filter(|text| !text.is_empty());
        let [queue, key, error] = ["queue", "key", "error"].map(text);
        let which = Which { queue, key, error };
        if which.fields().iter().any(|(_, text)| text.contains('\0')) {
            return refuse(StatusCode::BAD_REQUEST, "no text has a zero byte");
        }
        Ok(which)
    }

    /// The names of the fields of a form, and their texts.
    pub fn fields(&self) -> [(&'static str, &str); 3] {
        [
            ("queue", &self.queue),
            ("key", &self.key),
            ("error", &self.error),
        ]
        .map(|(name, text)| (name, text.as_deref().unwrap_or_default()))
    }

    /// The query of a list of these jobs.
    pub fn form(&self, view: View) -> form_urlencoded::Serializer<'static, String> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("view", view.word());
        for (name, text) in self
            .fields()
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
        {
            form.append_pair(name, text);
        }
        form
    }
}

impl View {
    pub const ALL: [View; 7] = [
        View::Late,
        View::Running,
        View::Next,
        View::Blocked,
        View::Paused,
        View::Dead,
        View::Done,
    ];

    pub fn word(self) -> &'static str {
        match self {
            View::Late => "late",
            View::Running => "running",
            View::Next => "next",
            View::Blocked => "blocked",
            View::Paused => "paused",
            View::Dead => "dead",
            View::Done => "done",
        }
    }

    /// Which jobs, and in which order. `now()` lets PostgreSQL use an index.
    fn condition(self) -> &'static str {
        match self {
            View::Late => {
                "j.state IN ('waiting', 'claimed') AND j.due < now() AND isfinite(j.due)
                ORDER BY j.due, j.id"
            }
            View::Running => "j.state = 'running' ORDER BY j.fired_at, j.id",
            View::Next => {
                "j.state IN ('waiting', 'claimed') AND j.paused_due IS NULL AND j.after_key IS NULL
                AND (j.due >= now() OR j.due = '-infinity') ORDER BY j.due, j.id"
            }
            View::Blocked => {
                "j.after_key IS NOT NULL AND j.paused_due IS NULL ORDER BY j.occurrence, j.id"
            }
            View::Paused => {
                "j.state = 'waiting' AND j.paused_due IS NOT NULL ORDER BY j.paused_due, j.id"
            }
            View::Dead => "j.state = 'dead' ORDER BY j.finished_at DESC, j.id DESC",
            View::Done => "j.state = 'done' ORDER BY j.finished_at DESC, j.id DESC",
        }
    }
}

/// Serves the page until the process ends.
pub fn run(config: Config, options: &Web) -> Result<(), String> {
    let given = given_token(options)?;
    let hosts = options.hosts.iter().map(|host| host.to_ascii_lowercase());
    let site = Site {
        config,
        token: given.clone().unwrap_or_else(random),
        form_token: random(),
        hosts: hosts.collect(),
        shows_payloads: options.payloads,
    };
    // A mistake in the command line or the schema ends the program now. A server that
    // cannot be reached does not.
    if let Err(e) = site.overview() {
        if db::failure(&e) == Failure::Statement || db::is_refused(&e) {
            return Err(explain(&e));
        }
        log::error!("{}", db::describe(&e));
    }
    let why = |e| format!("--listen {}: {e}", options.listen);
    let listener = TcpListener::bind(options.listen).map_err(why)?;
    let address = listener.local_addr().map_err(why)?;
    log::info!("the page is on http://{address}/");
    if given.is_none() {
        log::info!("user hwheel, password {}", site.token);
    }
    if !address.ip().is_loopback() {
        log::warn!("other machines reach the page without TLS, and its token can be read");
    }
    serve::serve(listener, move |request| site.answer(request)).map_err(why)
}

/// The token of the file or the environment.
fn given_token(options: &Web) -> Result<Option<String>, String> {
    let token = match &options.token_file {
        Some(file) => std::fs::read_to_string(file)
            .map_err(|e| format!("--token-file {}: {e}", file.display()))?,
        None => match std::env::var("HWHEEL_WEB_TOKEN") {
            Ok(token) => token,
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(e) => return Err(format!("HWHEEL_WEB_TOKEN: {e}")),
        },
    };
    let token = token.trim_end_matches(['\r', '\n']);
    if token.len() < 16 || token.contains(|c: char| c.is_control()) {
        return Err("the token is one line of 16 bytes or more".to_owned());
    }
    Ok(Some(token.to_owned()))
}

fn random() -> String {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn same(given: &str, secret: &str) -> bool {
    given.as_bytes().ct_eq(secret.as_bytes()).into()
}

/// Why there is no page: a status and a text.
type Refusal = (StatusCode, String);

fn refuse<T>(status: StatusCode, why: &str) -> Result<T, Refusal> {
    Err((status, why.to_owned()))
}

struct Site {
    config: Config,
    token: String,
    /// Stands in each form.
    form_token: String,
    hosts: Vec<String>,
    shows_payloads: bool,
}

impl Site {
    fn answer(&self, request: &Request) -> Response {
        let response = self
            .host(request)
            .and_then(|host| {
                self.user(request.headers())?;
                self.respond(request, host)
            })
            .unwrap_or_else(|(status, why)| match status {
                StatusCode::MISDIRECTED_REQUEST | StatusCode::UNAUTHORIZED => {
                    plain(status, why + "\n")
                }
                _ => html(status, page::refusal(status, &why)),
            });
        guarded(response)
    }

    /// The Host header, if it is one of the page's.
    fn host<'r>(&self, request: &'r Request) -> Result<&'r str, Refusal> {
        let wrong = "no page has this name: see --host\n";
        let mut hosts = request.headers().get_all(header::HOST).iter();
        let (Some(host), None, None) = (hosts.next(), hosts.next(), request.uri().authority())
        else {
            return refuse(StatusCode::BAD_REQUEST, "one Host header is needed");
        };
        let host = host.to_str().unwrap_or_default();
        let Ok(authority) = host.parse::<hyper::http::uri::Authority>() else {
            return refuse(StatusCode::MISDIRECTED_REQUEST, wrong);
        };
        let name = authority.host().to_ascii_lowercase();
        let address = name.trim_start_matches('[').trim_end_matches(']');
        let is_known = name == "localhost" || self.hosts.contains(&name);
        if host.contains('@') || !is_known && address.parse::<IpAddr>().is_err() {
            return refuse(StatusCode::MISDIRECTED_REQUEST, wrong);
        }
        Ok(host)
    }

    fn user(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let password = headers.get(header::AUTHORIZATION).and_then(|value| {
            let (scheme, code) = value.to_str().ok()?.split_once(' ')?;
            let text = BASE64_STANDARD.decode(code.trim()).ok()?;
            let text = String::from_utf8(text).ok()?;
            let (_, password) = text.split_once(':')?;
            scheme
                .eq_ignore_ascii_case("basic")
                .then(|| password.to_owned())
        });
        if password.is_some_and(|password| same(&password, &self.token)) {
            return Ok(());
        }
        refuse(
            StatusCode::UNAUTHORIZED,
            "the password is the token of hwheel-jobs web",
        )
    }

    fn respond(&self, request: &Request, host: &str) -> Result<Response, Refusal> {
        let uri = request.uri();
        let query = uri.query().unwrap_or_default();
        let of_query = |name| field(query.as_bytes(), name);
        let id_of = |text: &str| match text.parse::<i64>() {
            Ok(id) => Ok(id),
            Err(_) => refuse(StatusCode::NOT_FOUND, "there is no such job"),
        };
        match (request.method(), uri.path()) {
            (&Method::GET | &Method::HEAD, path) => match path {
                "/" => {
                    let overview = self.overview().map_err(failed)?;
                    let did = of_query("did");
                    Ok(html(
                        StatusCode::OK,
                        page::overview(&overview, did.as_deref(), &self.form_token),
                    ))
                }
                "/jobs" => self.jobs(query),
                "/style.css" => {
                    let kind = "text/css; charset=utf-8";
                    Ok(of_type(kind, StatusCode::OK, page::STYLE))
                }
                _ => match path.strip_prefix("/job/") {
                    Some(id) => self.job(id_of(id)?, of_query("did").as_deref()),
                    None => refuse(StatusCode::NOT_FOUND, "there is no such page"),
                },
            },
            (&Method::POST, "/revive-all") => {
                self.is_own(request, host)?;
                self.revive_all(request.body())
            }
            (&Method::POST, path @ ("/cancel" | "/revive")) => {
                self.is_own(request, host)?;
                let id = field(request.body(), "id").unwrap_or_default();
                self.change(path, id_of(&id)?)
            }
            _ => refuse(StatusCode::METHOD_NOT_ALLOWED, "the page cannot do this"),
        }
    }

    /// Whether a form of this page has sent the request.
    fn is_own(&self, request: &Request, host: &str) -> Result<(), Refusal> {
        let headers = request.headers();
        let text = |name: HeaderName| headers.get(name).map(|v| v.to_str().unwrap_or_default());
        let site = text(HeaderName::from_static("sec-fetch-site"));
        let origin = text(header::ORIGIN);
        // A proxy may speak TLS to the browser.
        let is_here = |origin: &str| {
            let names = ["http://", "https://"].map(|scheme| origin.strip_prefix(scheme));
            names
                .iter()
                .flatten()
                .any(|name| name.eq_ignore_ascii_case(host))
        };
        if site.is_some_and(|site| site != "same-origin") || origin.is_some_and(|o| !is_here(o)) {
            return refuse(StatusCode::FORBIDDEN, "another page has sent this request");
        }
        let kind = text(header::CONTENT_TYPE).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
            return refuse(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "this is not what a form sends",
            );
        }
        let token = field(request.body(), "token").unwrap_or_default();
        if !same(&token, &self.form_token) {
            return refuse(
                StatusCode::FORBIDDEN,
                "the form is not of this page, or the page is old: load it again",
            );
        }
        Ok(())
    }

    fn look(&self) -> Result<Client, Error> {
        let mut client = db::connect(&self.config, "hwheel-jobs web")?;
        client.batch_execute(&format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
            SET LOCAL statement_timeout = '10 s'; SET LOCAL {}",
            db::PATH
        ))?;
        Ok(client)
    }

    fn overview(&self) -> Result<Overview, Error> {
        let mut client = self.look()?;
        let queues = client.query_once(QUEUES, &[])?;
        let nodes = client.query_once(
            "SELECT n.name, n.entered_at, n.left_at IS NULL AS lives, n.failed, n.lateness,
                extract(epoch FROM n.lease_until - now())::float8 AS lease_s,
                extract(epoch FROM n.clock_offset)::float8 AS clock_offset,
                (SELECT count(*) FROM hwheel.job j WHERE j.owner = n.id) AS held
            FROM hwheel.node n ORDER BY n.left_at IS NOT NULL, n.id",
            &[],
        )?;
        let settings = client.query_once(
            "SELECT now() AS now, current_database()::text AS database,
                extract(epoch FROM window_length)::float8 AS window_s FROM hwheel.settings",
            &[],
        )?;
        let mut lists = Vec::new();
        for view in View::ALL {
            if view != View::Done {
                lists.push((view, list(&mut client, view, &Which::default(), 0, FEW)?));
            }
        }
        Ok(Overview {
            queues,
            nodes,
            settings,
            lists,
        })
    }

    fn jobs(&self, query: &str) -> Result<Response, Refusal> {
        let text = |name| field(query.as_bytes(), name).filter(|text| !text.is_empty());
        let word = text("view").unwrap_or_else(|| "next".to_owned());
        let Some(view) = View::ALL.into_iter().find(|view| view.word() == word) else {
            return refuse(StatusCode::NOT_FOUND, "there is no such list");
        };
        let which = Which::of(query.as_bytes())?;
        let from = text("from").and_then(|from| from.parse().ok());
        let from: i64 = from
            .filter(|from| (0..=1_000_000).contains(from))
            .unwrap_or(0);
        let mut client = self.look().map_err(failed)?;
        let mut jobs = list(&mut client, view, &which, from, MANY + 1).map_err(failed)?;
        let next = (jobs.len() as i64 > MANY).then_some(from + MANY);
        jobs.truncate(MANY as usize);
        let filter = page::Filter {
            view,
            which,
            from,
            next,
        };
        let did = text("did");
        let text = page::jobs(&jobs, &filter, did.as_deref(), &self.form_token);
        Ok(html(StatusCode::OK, text))
    }

    fn job(&self, id: i64, did: Option<&str>) -> Result<Response, Refusal> {
        let payload = if self.shows_payloads {
            "x.payload::text"
        } else {
            "'hidden, ' || octet_length(x.payload::text) || ' bytes'"
        };
        let sql = format!(
            "SELECT v.id, v.key, v.state, f.name, f.value FROM (
                SELECT v.*, {payload} AS payload, x.traceparent, x.timeout::text AS timeout,
                    x.backoff::text AS backoff, x.grace::text AS grace, x.alone, x.run_as,
                    x.lease_until, (SELECT min(s.asked_at) FROM hwheel.stop s WHERE s.id = x.id)
                        AS stopping_since, x.tenant, {TRIED}, {AFTER} AS after_keys
                FROM ({JOB}) v JOIN hwheel.all_jobs x USING (id) WHERE v.id = $1
            ) v, LATERAL (SELECT name, value, n FROM json_each_text(to_json(v))
                    WITH ORDINALITY AS e (name, value, n) WHERE name <> 'tried'
                UNION ALL SELECT {FAILED}, 1000 + n FROM jsonb_array_elements(v.tried)
                    WITH ORDINALITY AS t (a, n)) f
            WHERE f.value IS NOT NULL ORDER BY f.n"
        );
        let mut client = self.look().map_err(failed)?;
        let mut ask = |sql: &str| client.query_once(sql, &[(&id, Type::INT8)]).map_err(failed);
        // The history has no index for this.
        let mut rows = ask(&sql.replace("hwheel.all_jobs", "hwheel.job"))?;
        if rows.is_empty() {
            rows = ask(&sql)?;
        }
        if rows.is_empty() {
            return refuse(StatusCode::NOT_FOUND, "there is no such job");
        }
        Ok(html(
            StatusCode::OK,
            page::job(&rows, did, &self.form_token),
        ))
    }

    /// Cancels or revives the job that the user saw, and no later one of its key.
    fn change(&self, path: &str, id: i64) -> Result<Response, Refusal> {
        let (sql, why, place) = match path {
            "/cancel" => (
                "SELECT hwheel._cancel(id), key FROM hwheel.job WHERE id = $1
                    AND state IN ('waiting', 'claimed', 'running')",
                "the job has ended: it cannot be cancelled",
                "/?did=".to_owned(),
            ),
            _ => (
                "WITH seen AS MATERIALIZED (SELECT key FROM hwheel.job j WHERE id = $1
                    AND state = 'dead' AND NOT EXISTS (SELECT FROM hwheel.job n
                        WHERE n.key = j.key AND n.state = 'dead' AND n.id > j.id) FOR UPDATE)
                SELECT CASE WHEN hwheel.revive(key) THEN 'revived' END, key FROM seen",
                "only the last dead job of a key can be revived",
                format!("/job/{id}?did="),
            ),
        };
        let rows = self.act(sql, &[(&id, Type::INT8)])?;
        let row = rows.first();
        let Some(did) = row.and_then(|row| row.get::<_, Option<&str>>(0)) else {
            return refuse(StatusCode::CONFLICT, why);
        };
        let key: &str = rows[0].get(1);
        log::info!("job {id} {key:?}: {}, {did}", &path[1..]);
        Ok(see_other(&(place + did)))
    }

    /// Revives the dead jobs of a list, as many as hwheel.revive_many() does.
    fn revive_all(&self, form: &[u8]) -> Result<Response, Refusal> {
        let which = Which::of(form)?;
        // Nothing in the texts of the list is a pattern.
        let escaped = |text: &str| {
            let escape = |c: char| matches!(c, '\\' | '%' | '_').then_some('\\');
            let chars = text.chars().flat_map(|c| escape(c).into_iter().chain([c]));
            chars.collect::<String>()
        };
        let key = which.key.as_deref().map(|key| escaped(key) + "%");
        let error = which.error.as_deref();
        let error = error.map(|error| format!("%{}%", escaped(error)));
        let rows = self.act(
            "SELECT hwheel.revive_many($1, $2, $3)",
            &[
                (&which.queue, Type::TEXT),
                (&key, Type::TEXT),
                (&error, Type::TEXT),
            ],
        )?;
        let count: i64 = rows[0].get(0);
        log::info!("{count} jobs live again: {which:?}");
        let mut form = which.form(View::Dead);
        Ok(see_other(&format!(
            "/jobs?{}",
            form.append_pair("did", &count.to_string()).finish()
        )))
    }

    /// A call that changes something, in a transaction.
    fn act(
        &self,
        sql: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, Refusal> {
        let mut client = db::connect(&self.config, "hwheel-jobs web").map_err(failed)?;
        let asked = client
            .batch_execute(&format!(
                "BEGIN; SET LOCAL statement_timeout = '10 s'; SET LOCAL {}",
                db::PATH
            ))
            .and_then(|()| client.query_once(sql, parameters))
            .and_then(|rows| client.batch_execute("COMMIT").map(|()| rows));
        asked.map_err(|e| match e.code() {
            Some(&SqlState::UNIQUE_VIOLATION) => (
                StatusCode::CONFLICT,
                "another job with this key is still to run".to_owned(),
            ),
            _ => failed(e),
        })
    }
}

/// Sends the browser to a path of ASCII.
fn see_other(path: &str) -> Response {
    let mut response = plain(StatusCode::SEE_OTHER, "");
    let place = HeaderValue::from_str(path).expect("a path of ASCII");
    response.headers_mut().insert(header::LOCATION, place);
    response
}

fn list(
    client: &mut Client,
    view: View,
    which: &Which,
    from: i64,
    count: i64,
) -> Result<Vec<Row>, Error> {
    let sql = format!(
        "SELECT v.*, now() AS now FROM ({JOB} WHERE ($1::text IS NULL OR j.queue = $1)
            AND ($2::text IS NULL OR starts_with(j.key, $2))
            AND ($3::text IS NULL OR position($3 IN j.last_error) > 0)
            AND {} LIMIT $4 OFFSET $5) v",
        view.condition()
    );
    client.query_once(
        &sql,
        &[
            (&which.queue, Type::TEXT),
            (&which.key, Type::TEXT),
            (&which.error, Type::TEXT),
            (&count, Type::INT8),
            (&from, Type::INT8),
        ],
    )
}

/// The first value of a field of a form or a query.
fn field(form: &[u8], name: &str) -> Option<String> {
    form_urlencoded::parse(form)
        .find(|(field, _)| field == name)
        .map(|(_, value)| value.into_owned())
}

fn failed(error: Error) -> Refusal {
    let status = match error.code() {
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => StatusCode::FORBIDDEN,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, explain(&error))
}

fn html(status: StatusCode, text: String) -> Response {
    of_type("text/html; charset=utf-8", status, text)
}

/// Adds the headers that forbid a browser what the page does not need.
fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (
            "content-security-policy",
            "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; \
             base-uri 'none'",
        ),
        ("x-frame-options", "DENY"),
        ("x-content-type-options", "nosniff"),
        // Without a referrer a browser says that the origin of a form is null.
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    if response.status() == StatusCode::UNAUTHORIZED {
        let realm = HeaderValue::from_static("Basic realm=\"hwheel-jobs\", charset=\"UTF-8\"");
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, realm);
    }
    response
}
