//! Requests: which answers are a success, what is followed, headers, https, traces.

mod support;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::{database, skip, Database};

/// A request, as it came, and when.
type Seen = Arc<Mutex<Vec<(Instant, String)>>>;

/// A server on a port of this machine.
struct Web {
    port: u16,
    seen: Seen,
}

impl Web {
    /// It answers each request with the head and the body that the function returns for
    /// the request's path and number.
    fn new(answer: impl Fn(&str, usize) -> String + Send + 'static) -> Web {
        Web::over(None, answer)
    }

    fn over(
        tls: Option<rustls::ServerConfig>,
        answer: impl Fn(&str, usize) -> String + Send + 'static,
    ) -> Web {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Seen::default();
        let tls = tls.map(Arc::new);
        std::thread::spawn({
            let seen = seen.clone();
            move || {
                for mut stream in listener.incoming().map(Result::unwrap) {
                    stream
                        .set_read_timeout(Some(Duration::from_secs(5)))
                        .unwrap();
                    match &tls {
                        None => serve(&mut stream, &seen, &answer),
                        Some(tls) => {
                            let session = rustls::ServerConnection::new(tls.clone()).unwrap();
                            let mut stream = rustls::StreamOwned::new(session, stream);
                            serve(&mut stream, &seen, &answer);
                            stream.conn.send_close_notify();
                            let _ = stream.flush();
                        }
                    }
                }
            }
        });
        Web { port, seen }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn requests(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|(_, request)| request.clone()).collect()
    }
}

fn serve(stream: &mut (impl Read + Write), seen: &Seen, answer: &impl Fn(&str, usize) -> String) {
    let (mut request, mut buffer) = (String::new(), [0; 4096]);
    loop {
        let Ok(length) = stream.read(&mut buffer) else {
            return;
        };
        request += &String::from_utf8_lossy(&buffer[..length]);
        let Some((head, body)) = request.split_once("\r\n\r\n") else {
            if length == 0 {
                return; // A connection without a request.
            }
            continue;
        };
        let wanted = header(head, "content-length").map_or(0, |n| n.parse().unwrap());
        if body.len() >= wanted || length == 0 {
            break;
        }
    }
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    let number = seen.lock().unwrap().len();
    seen.lock().unwrap().push((Instant::now(), request));
    let _ = stream.write_all(answer(&path, number).as_bytes());
}

/// The value of a header.
fn header(request: &str, name: &str) -> Option<String> {
    let head = request.split("\r\n\r\n").next()?;
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.to_owned())
}

fn answer(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}")
}

/// Schedules a request with one attempt, and returns its state and error when it is over.
fn outcome(db: &Database, url: &str, more: &str) -> (String, String) {
    db.execute("DELETE FROM hwheel.history; DELETE FROM hwheel.job");
    db.execute(&format!("SELECT hwheel.schedule('web', now(), http => '{url}', payload => '[1, 2]', max_attempts => 1 {more})"));
    db.wait("SELECT state IN ('done', 'dead') FROM hwheel.all_jobs");
    let row = &db.rows("SELECT state, coalesce(last_error, '') FROM hwheel.all_jobs")[0];
    (row.get(0), row.get(1))
}

const HTTP: &[&str] = &["--kinds", "sql,http"];

#[test]
fn a_request_is_retried_with_the_same_key() {
    let db = database();
    let _node = db.node_with("one", HTTP);
    let web = Web::new(|_, n| answer([503, 204][n], "", ""));
    let url = web.url("/hook?a=b");
    db.execute(&format!(
        "SELECT hwheel.schedule('web', now(), http => '{url}', payload => '[1, 2]', backoff => '50 ms')"
    ));
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs");
    let [first, second] = &web.requests()[..] else {
        panic!("{:?}", web.requests());
    };
    assert!(first.starts_with("POST /hook?a=b HTTP/1.1\r\n"), "{first}");
    assert!(first.ends_with("\r\n\r\n[1, 2]"), "{first}");
    let key = |request: &str| header(request, "idempotency-key").unwrap();
    assert_eq!(key(first), key(second));
    assert_eq!(header(first, "hwheel-attempt").unwrap(), "1");
    assert_eq!(header(second, "hwheel-attempt").unwrap(), "2");
    assert_eq!(header(first, "content-type").unwrap(), "application/json");
    assert!(header(first, "user-agent")
        .unwrap()
        .starts_with("hwheel-jobs/"));
}

/// The key names the run: the job, the time and the content.
#[test]
fn another_content_has_another_key() {
    let db = database();
    let _node = db.node_with("one", HTTP);
    let web = Web::new(|_, n| answer([500, 200, 200][n], "", ""));
    let url = web.url("/pay");
    let schedule = |amount: i32, how: &str| {
        format!(
            "SELECT hwheel.schedule('pay', '2026-01-01', http => '{url}', payload => '{amount}',
                backoff => '1 s' {how})"
        )
    };
    db.execute(&schedule(10, ""));
    db.wait("SELECT attempts = 1 AND state <> 'running' FROM hwheel.job");
    db.execute(&schedule(99, ", if_exists => 'keep_time'"));
    db.wait("SELECT count(*) = 1 FROM hwheel.history");
    // The application has not seen the answer to its first call.
    db.execute("UPDATE hwheel.history SET key = 'old'");
    db.execute(&schedule(99, ""));
    db.wait("SELECT count(*) = 2 FROM hwheel.history");
    let keys: Vec<String> = web
        .requests()
        .iter()
        .map(|request| header(request, "idempotency-key").unwrap().to_owned())
        .collect();
    assert_eq!(keys.len(), 3);
    assert_ne!(keys[0], keys[1]);
}

/// A page that tells a person that something went wrong is longer than what is quoted.
#[test]
fn the_beginning_of_a_long_answer_is_quoted() {
    let db = database();
    let _node = db.node_with("one", HTTP);
    let web = Web::new(|_, _| answer(502, "", &format!("no upstream{}", " ".repeat(100_000))));
    let (state, error) = outcome(&db, &web.url("/"), "");
    assert_eq!(
        (state.as_str(), error.as_str()),
        ("dead", "status 502: no upstream")
    );
    // A port that does not exist is not the port of the scheme.
    for (port, is_right) in [
        ("65536", false),
        ("99999", false),
        ("0", false),
        ("x", false),
        ("", true),
        ("00080", true),
    ] {
        let sql = format!("SELECT hwheel.schedule('p', now() + interval '1 h', http => 'http://u:p@[::1]:{port}/')");
        let answer = db.client().batch_execute(&sql);
        assert_eq!(answer.is_ok(), is_right, "{port}");
    }
    let wrong = "http://127.0.0.1:1/";
    db.execute(&format!("SELECT hwheel.cancel('p'); SELECT hwheel.schedule('q', now() + interval '500 ms', http => '{wrong}', max_attempts => 1)"));
    db.execute("UPDATE hwheel.job SET target = 'http://127.0.0.1:65617/' WHERE key = 'q'");
    db.wait(
        "SELECT last_error IS NOT DISTINCT FROM 'this is no URL' FROM hwheel.job WHERE key = 'q'",
    );
}

#[test]
fn a_request_that_nobody_answers_is_dead() {
    let db = database();
    let _node = db.node_with("one", HTTP);
    let (state, error) = outcome(&db, "http://127.0.0.1:1/", "");
    assert_eq!(state, "dead");
    assert!(error.to_lowercase().contains("refused"), "{error}");
}

#[test]
fn only_2xx_is_a_success_and_only_307_and_308_are_followed() {
    let db = database();
    let _node = db.node_with("one", HTTP);
    let web = Web::new(|path, _| match path {
        "/loop" => answer(307, "Location: /loop\r\n", ""),
        "/ftp" => answer(308, "Location: ftp://127.0.0.1/\r\n", ""),
        "/lost" => answer(307, "", ""),
        "/slow" => {
            sleep(Duration::from_millis(600));
            answer(307, "Location: /slow\r\n", "")
        }
        "/cut" => "HTTP/1.1 200 OK".to_owned(),
        "/final" => answer(200, "", "ok"),
        path => answer(path[1..].parse().unwrap(), "Location: final\r\n", "why"),
    });
    for (path, expected) in [
        ("/200", ""),
        ("/201", ""),
        ("/202", ""),
        ("/204", ""),
        ("/307", ""),
        ("/308", ""),
        (
            "/300",
            "status 300 to http://127.0.0.1:PORT/final: only 307 and 308 are followed",
        ),
        (
            "/301",
            "status 301 to http://127.0.0.1:PORT/final: only 307 and 308 are followed",
        ),
        ("/302", "status 302 to"),
        ("/303", "status 303 to"),
        ("/304", "status 304"),
        ("/400", "status 400: why"),
        ("/401", "status 401: why"),
        ("/404", "status 404: why"),
        ("/429", "status 429: why"),
        ("/500", "status 500: why"),
        ("/503", "status 503: why"),
        ("/loop", "more than 5 redirects"),
        ("/ftp", "status 308 to no URL"),
        ("/lost", "status 307"),
        ("/cut", "io: Peer disconnected"),
    ] {
        web.seen.lock().unwrap().clear();
        let (state, error) = outcome(&db, &web.url(path), "");
        let expected = expected.replace("PORT", &web.port.to_string());
        assert_eq!(state == "done", expected.is_empty(), "{path}: {error}");
        assert!(error.starts_with(&expected), "{path}: {error}");
        let requests = web.requests();
        let followed = match path {
            "/307" | "/308" => 1,
            "/loop" => 5,
            _ => 0,
        };
        assert_eq!(requests.len(), 1 + followed, "{path}");
        for request in &requests {
            assert!(request.starts_with("POST "), "{request}");
            assert!(request.ends_with("[1, 2]"), "{request}");
        }
    }
    // The time limit is that of all together.
    let begin = Instant::now();
    let (_, error) = outcome(&db, &web.url("/slow"), ", timeout => '1 s'");
    assert!(error.contains("timeout"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(4));
}

#[test]
fn retry_after_is_honoured() {
    let db = database();
    let _node = db.node_with("one", HTTP);
    let web = Web::new(|path, n| match (path, n) {
        (_, 1) => answer(200, "", ""),
        ("/seconds", _) => answer(429, "Retry-After: 2\r\n", ""),
        _ => {
            let date = jiff::Timestamp::now() + Duration::from_secs(3);
            let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT");
            answer(503, &format!("Retry-After: {date}\r\n"), "")
        }
    });
    for path in ["/seconds", "/date"] {
        web.seen.lock().unwrap().clear();
        db.execute("DELETE FROM hwheel.history; DELETE FROM hwheel.job");
        let url = web.url(path);
        db.execute(&format!(
            "SELECT hwheel.schedule('web', now(), http => '{url}', backoff => '10 ms')"
        ));
        db.wait("SELECT state = 'done' FROM hwheel.all_jobs");
        let seen = web.seen.lock().unwrap();
        let waited = seen[1].0 - seen[0].0;
        assert!(waited > Duration::from_millis(1900), "{path}: {waited:?}");
        assert!(waited < Duration::from_secs(8), "{path}: {waited:?}");
    }
}

#[test]
fn headers_are_sent_to_their_place_and_shown_nowhere() {
    let db = database();
    let node = db.spawn_in("one", HTTP, &[("RUST_LOG", "trace")]);
    let other = Web::new(|_, _| answer(400, "", "no authorization"));
    let there = other.url("/there");
    // It repeats what it gets.
    let web = Web::new(move |path, n| match path {
        "/away" => answer(307, &format!("Location: {there}\r\n"), ""),
        "/x" => answer(403, "", "not wrzlprmpft"),
        "/here" if n == 0 => answer(308, "Location: /here?x\r\n", ""),
        _ => answer(
            403,
            "",
            "Bearer wrzlprmpft is no good, nor is wrzlprmpft, nor x9x9x9",
        ),
    });
    let headers = r#", headers => '{"Authorization": "Bearer wrzlprmpft", "X-Api-Key": "x9x9x9", "Content-Type": "text/json"}'"#;
    let (_, error) = outcome(&db, &web.url("/here"), headers);
    assert_eq!(error, "status 403: *** is no good, nor is ***, nor ***");
    let list = |arguments: &[&str]| String::from_utf8(db.program(arguments).stdout).unwrap();
    let mut shown = list(&["list"]) + &list(&["stats"]);
    let requests = web.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        assert_eq!(
            header(&request, "authorization").unwrap(),
            "Bearer wrzlprmpft"
        );
        assert_eq!(header(&request, "x-api-key").unwrap(), "x9x9x9");
        assert_eq!(header(&request, "content-type").unwrap(), "text/json");
    }
    // Another server does not get them. It gets the body, and the name of the run.
    let (_, error) = outcome(&db, &web.url("/away"), headers);
    assert_eq!(error, "status 400: no authorization");
    let request = &other.requests()[0];
    assert!(request.ends_with("[1, 2]"), "{request}");
    assert!(header(request, "idempotency-key").is_some());
    for name in ["authorization", "x-api-key"] {
        assert_eq!(header(request, name), None);
    }
    // Neither is the password of a URL shown.
    let url = web.url("/x").replace("127", "app:wrzlprmpft@127");
    assert_eq!(outcome(&db, &url, "").1, "status 403: not ***");
    shown += &list(&["list"]);
    assert!(shown.contains("http://***@127.0.0.1"), "{shown}");
    assert_eq!(
        header(web.requests().last().unwrap(), "authorization").unwrap(),
        "Basic YXBwOndyemxwcm1wZnQ="
    );
    shown += &node.log();
    for secret in ["wrzlprmpft", "x9x9x9", "YXBwOndyemxwcm1wZnQ"] {
        assert!(!shown.contains(secret), "{secret} is shown: {shown}");
    }
}

#[test]
fn wrong_headers_and_traces_are_refused_without_their_text() {
    let db = database();
    for (arguments, message) in [
        ("sql => 'note', headers => '{}'", "headers need http"),
        ("http => 'http://x/', headers => '[]'", "headers are an object"),
        ("http => 'http://x/', headers => '{\"a b\": \"secret\"}'", "\"a b\" is no name of a header"),
        ("http => 'http://x/', headers => '{\"a\": 1}'", "the header \"a\" is no text"),
        ("http => 'http://x/', headers => '{\"a\": \"secret\\r\\nb: c\"}'", "the header \"a\" is no text"),
        ("http => 'http://x/', headers => '{\"a\": \"secret\", \"A\": \"b\"}'", "a header has two texts"),
        ("http => 'http://x/', headers => '{\"Host\": \"secret\"}'", "the header \"Host\" is set by the node"),
        ("http => 'http://x/', headers => jsonb_build_object('a', repeat('secret', 2000))", "more than 8192 bytes"),
        ("sql => 'note', traceparent => 'x'", "\"x\" is no traceparent"),
        ("sql => 'note', traceparent => '00-00000000000000000000000000000000-00f067aa0ba902b7-01'", "is no traceparent"),
    ] {
        let refusal = db.refusal(&format!("SELECT hwheel.schedule('a', now(), {arguments})"));
        assert!(refusal.contains(message), "{arguments}: {refusal}");
        assert!(!refusal.contains("secret"), "{refusal}");
    }
    assert_eq!(db.number("SELECT count(*) FROM hwheel.all_jobs"), 0);
    // The setting may be one of the database.
    db.execute(
        "SET hwheel.traceparent = 'junk';
        SELECT hwheel.schedule('a', now() + interval '1 h', sql => 'note');
        SELECT hwheel.schedule_many('{b,c}', ARRAY[now() + interval '1 h'], sql => 'note')",
    );
    let without = "SELECT count(*) = 3 FROM hwheel.job WHERE traceparent IS NULL";
    assert!(db.is(without));
}

#[test]
fn a_trace_is_kept_and_passed_on() {
    let db = database();
    let _node = db.node_with("one", &["--kinds", "sql,command,http"]);
    let web = Web::new(|_, _| answer(200, "", ""));
    let dir = tempfile::tempdir().unwrap();
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    // A function that schedules a request and a command, in a transaction with a trace.
    db.execute(&format!(
        "CREATE FUNCTION chain(key text, due timestamptz, payload jsonb) RETURNS void
        LANGUAGE sql AS $$ SELECT note(current_setting('hwheel.traceparent'), due, payload),
            hwheel.schedule('web', now(), http => '{}'),
            hwheel.schedule('c', now(), command => 'echo $TRACEPARENT > {}/trace') $$;
        BEGIN; SET LOCAL hwheel.traceparent = '{trace}';
        SELECT hwheel.schedule('chain', now(), sql => 'chain'); COMMIT;
        CREATE FUNCTION plain(key text, due timestamptz, payload jsonb) RETURNS void LANGUAGE sql
        AS $$ SELECT note(coalesce(nullif(current_setting('hwheel.traceparent', true), ''), 'none'), due, payload) $$;
        SELECT hwheel.schedule('plain', now(), sql => 'plain')",
        web.url("/"),
        dir.path().display()
    ));
    db.wait("SELECT count(*) = 4 FROM hwheel.all_jobs WHERE state = 'done'");
    let seen = db.rows("SELECT key FROM run ORDER BY key");
    let seen: Vec<&str> = seen.iter().map(|row| row.get(0)).collect();
    assert_eq!(seen, [trace, "none"]);
    assert_eq!(header(&web.requests()[0], "traceparent").unwrap(), trace);
    let command = fs::read_to_string(dir.path().join("trace")).unwrap();
    assert_eq!(command.trim(), trace);
}

#[test]
fn https_trusts_the_authorities_of_the_system() {
    let dir = tempfile::tempdir().unwrap();
    let openssl = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ])
        .args([
            "-days",
            "2",
            "-subj",
            "/CN=x",
            "-addext",
            "subjectAltName=DNS:localhost",
        ])
        .args([
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-keyout",
            "key",
            "-out",
            "crt",
        ])
        .current_dir(dir.path())
        .output();
    if openssl.is_err() {
        skip("no openssl; on Debian: apt-get install openssl");
        return;
    }
    let file = dir.path().join("crt");
    let chain = vec![CertificateDer::from_pem_file(&file).unwrap()];
    let key = PrivateKeyDer::from_pem_file(dir.path().join("key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let web = Web::over(Some(tls), |path, _| match path {
        "/down" => answer(307, "Location: http://localhost:1/\r\n", ""),
        _ => answer(200, "", ""),
    });
    let url = |host: &str, path: &str| format!("https://{host}:{}{path}", web.port);

    let db = database();
    let env = [("SSL_CERT_FILE", file.to_str().unwrap())];
    let mut node = db.spawn_in("one", HTTP, &env);
    assert_eq!(outcome(&db, &url("localhost", "/"), "").0, "done");
    let (_, error) = outcome(&db, &url("127.0.0.1", "/"), "");
    assert!(error.contains("not valid for name"), "{error}");
    let (_, error) = outcome(&db, &url("localhost", "/down"), "");
    assert_eq!(error, "status 307 from https to http");
    node.kill();

    let _node = db.node_with("two", HTTP);
    let (_, error) = outcome(&db, &url("localhost", "/"), "");
    assert!(
        error.contains("UnknownIssuer") || error.contains("certificate"),
        "{error}"
    );
}
