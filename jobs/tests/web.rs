//! The page: what it shows, who may see it, forged requests, and a browser.

mod support;

use base64::prelude::{Engine as _, BASE64_STANDARD};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use support::{database, program_in, skip, Database, Server, Sql as _, PROGRAM};

const TOKEN: &str = "a token of the tests";

/// Texts that an attacker could put into a key, an error or a name that the page shows.
const HOSTILE: [&str; 8] = [
    "<script>document.title='taken'</script>",
    "\"><img src=x onerror=\"document.title='taken'\">",
    "'><svg onload='document.title=1'>",
    "</title></style></textarea><iframe src=javascript:alert(1)>",
    "javascript:document.title='taken'",
    "\u{202e}gnp.exe\u{2028}\u{7}\u{1b}[31m",
    "%0d%0aSet-Cookie: a=b\r\nSet-Cookie: a=b",
    "{{7*7}} &lt;b&gt; ${7*7}",
];

/// A process that serves the page.
struct Page {
    child: Child,
    log: PathBuf,
    address: String,
}

impl Page {
    fn new(db: &Database, arguments: &[&str]) -> Page {
        Page::of(&db.url, arguments)
    }

    fn of(url: &str, arguments: &[&str]) -> Page {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = format!("hwheel-web-{}-{count}.log", std::process::id());
        let log = std::env::temp_dir().join(log);
        let child = Command::new(PROGRAM)
            .args(["web", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .env("DATABASE_URL", url)
            .env("HWHEEL_WEB_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stderr(fs::File::create(&log).expect("a log"))
            .spawn()
            .expect(PROGRAM);
        let mut page = Page {
            child,
            log,
            address: String::new(),
        };
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let log = page.log();
            if let Some((_, rest)) = log.split_once("the page is on http://") {
                page.address = rest.split('/').next().unwrap().to_owned();
                return page;
            }
            assert!(Instant::now() < end, "it does not start: {log}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends these bytes, and returns the whole answer.
    fn raw(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // The answer to a request that is too long may come before its end.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).expect("UTF-8")
    }

    fn ask(&self, line: &str, headers: &[&str], body: &str) -> String {
        let mut request = format!("{line} HTTP/1.1\r\n");
        for header in headers {
            request += &format!("{header}\r\n");
        }
        request += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        self.raw(request.as_bytes())
    }

    /// As a browser that knows the token.
    fn get(&self, path: &str) -> String {
        let host = format!("Host: {}", self.address);
        self.ask(&format!("GET {path}"), &[&host, &authorization(TOKEN)], "")
    }

    /// Sends a form as a browser does, with these headers replaced or added.
    fn send(&self, path: &str, form: &str, others: &[&str]) -> String {
        let mut headers = vec![
            format!("Host: {}", self.address),
            authorization(TOKEN),
            format!("Origin: http://{}", self.address),
            "Sec-Fetch-Site: same-origin".to_owned(),
            "Content-Type: application/x-www-form-urlencoded".to_owned(),
        ];
        for other in others {
            let name = other.split(':').next().unwrap();
            headers.retain(|header| !header.starts_with(name));
            headers.push((*other).to_owned());
        }
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        self.ask(&format!("POST {path}"), &headers, form)
    }

    /// The form of the page, for a job.
    fn form(&self, id: i64) -> String {
        let page = self.get("/");
        let (_, rest) = page.split_once("name=\"token\" value=\"").expect("a form");
        format!("token={}&id={id}", rest.split('"').next().unwrap())
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- {}\n{}", self.log.display(), self.log());
        }
        let _ = fs::remove_file(&self.log);
    }
}

fn authorization(token: &str) -> String {
    let code = BASE64_STANDARD.encode(format!("anybody:{token}"));
    format!("Authorization: Basic {code}")
}

fn status(answer: &str) -> u16 {
    answer
        .get(9..12)
        .and_then(|n| n.parse().ok())
        .expect(answer)
}

fn id_of(db: &Database, key: &str) -> i64 {
    db.number(&format!(
        "SELECT max(id) FROM hwheel.job WHERE key = '{key}'"
    ))
}

/// Jobs that are late, running, due, paused and dead, with a hostile text wherever a user
/// can put one.
fn hostile(db: &Database) {
    for (n, text) in HOSTILE.iter().enumerate() {
        let text = text.replace('\'', "''");
        db.execute(&format!(
            "SELECT hwheel.schedule('{n}' || '{text}', now() + interval '1 h' * {n}, http => 'http://u:p@127.0.0.1/' || {n}, payload => to_jsonb('secret-payload {text}'::text));
            SELECT hwheel.schedule('late {n}' || '{text}', now(), command => '{text}', queue => 'mail');
            SELECT hwheel.schedule('dead {n}' || '{text}', now(), sql => 'note');
            UPDATE hwheel.job SET state = 'dead', finished_at = now(), attempts = 5, last_error = '{text}'
                WHERE key LIKE 'dead {n}%';
            INSERT INTO hwheel.node (name, lease_until) VALUES ('{text}', now() + interval '1 h');"
        ));
    }
    db.execute(
        "SELECT hwheel.schedule('running', now(), http => 'http://127.0.0.1/', queue => 'mail');
        UPDATE hwheel.job SET state = 'running', owner = 1, fired_at = now() WHERE key = 'running';
        SELECT hwheel.schedule('blocked', after => ARRAY['<script>alert(6)</script>' || chr(8238)], sql => 'note');
        SELECT hwheel.schedule('paused', now() + interval '1 h', sql => 'note');
        SELECT hwheel.pause('paused');
        UPDATE hwheel.node SET lateness = ARRAY(SELECT (1000 * exp(-((i - 14) ^ 2) / 30.0))::bigint
            FROM generate_series(0, 80) i)",
    );
}

#[test]
fn shows_all_states_without_the_markup_of_a_user() {
    let db = database();
    hostile(&db);
    let page = Page::new(&db, &[]);
    let mut all = page.get("/");
    for text in [
        "HTTP/1.1 200 OK\r\n",
        "content-security-policy: default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'\r\n",
        "x-frame-options: DENY\r\n",
        "x-content-type-options: nosniff\r\n",
        "cache-control: no-store\r\n",
        ">Late<",
        ">Running<",
        ">Due next<",
        ">Blocked<",
        "after <bdi>",
        ">Paused<",
        ">Dead<",
        ">default<",
        ">mail<",
        "<svg viewBox",
        "99 in 100 by",
        "&lt;script&gt;",
        "\\u{202e}gnp.exe\\u{2028}\\u{7}\\u{1b}[31m",
    ] {
        assert!(all.contains(text), "no {text} in {all}");
    }
    for path in [
        "/jobs?view=late",
        "/jobs?view=dead&queue=default",
        "/jobs?view=next&key=%3Cscript%3E&queue=%22%3E%3Cscript%3E",
        "/jobs?view=running",
        "/jobs?view=blocked",
        "/jobs?view=paused",
        "/jobs?view=done",
    ] {
        let answer = page.get(path);
        assert_eq!(status(&answer), 200, "{path}: {answer}");
        all += &answer;
    }
    for row in db.rows("SELECT id FROM hwheel.job") {
        let answer = page.get(&format!("/job/{}", row.get::<_, i64>(0)));
        assert_eq!(status(&answer), 200, "{answer}");
        all += &answer;
    }
    for text in [
        "<script",
        "<img",
        "<iframe",
        "<svg onload",
        "http://u:p@",
        "\nSet-Cookie",
        "\u{202e}",
        "\u{1b}",
    ] {
        assert!(!all.contains(text), "{text} in {all}");
    }
    assert!(!all.contains("secret-payload"), "a payload is visible");
    assert!(all.contains("hidden, "));
    // The filter and what it leaves out.
    let late = page.get("/jobs?view=late&queue=mail&key=late+1");
    assert!(
        late.contains("late 1") && !late.contains("late 2"),
        "{late}"
    );
    assert!(page
        .get("/jobs?view=late&queue=none")
        .contains("No job is in this list"));
    for path in [
        "/jobs?view=all",
        "/job/",
        "/job/x",
        "/job/99999999999999999999",
        "/job/0",
        "/x",
    ] {
        assert_eq!(status(&page.get(path)), 404, "{path}");
    }
    assert_eq!(status(&page.get("/jobs?key=%00")), 400);

    let page = Page::new(&db, &["--payloads"]);
    let id = db.number("SELECT id FROM hwheel.job WHERE payload IS NOT NULL LIMIT 1");
    assert!(page.get(&format!("/job/{id}")).contains("secret-payload"));
}

#[test]
fn lists_go_on_after_a_hundred_jobs_and_show_the_history() {
    let db = database();
    db.execute("SELECT hwheel.schedule('k' || i, now() + i * interval '1 h', sql => 'note') FROM generate_series(1, 150) i");
    let page = Page::new(&db, &[]);
    let first = page.get("/jobs?view=next");
    assert!(first.contains(">k100<") && !first.contains(">k101<"));
    let second = page.get("/jobs?view=next&from=100");
    assert!(second.contains(">k101<") && second.contains(">k150<"));
    assert!(first.contains(">More<") && !second.contains(">More<"));
    let _node = db.node("one");
    db.execute("SELECT hwheel.schedule('soon', now(), sql => 'note')");
    db.wait("SELECT EXISTS (SELECT FROM hwheel.all_jobs WHERE key = 'soon' AND state = 'done')");
    assert!(page.get("/jobs?view=done").contains(">soon<"));
    let id = db.number("SELECT id FROM hwheel.all_jobs WHERE key = 'soon'");
    assert!(page.get(&format!("/job/{id}")).contains("<bdi>done</bdi>"));
    // The node stores its histogram with its next turn.
    db.wait("SELECT 1 = ANY (lateness) FROM hwheel.node");
    assert!(page.get("/").contains("1 attempts: half"));
}

#[test]
fn a_row_of_the_history_that_no_function_writes_is_shown() {
    let db = database();
    let page = Page::new(&db, &[]);
    for (id, tried) in (1..).zip(["5", "\"text\"", "{\"a\": 1}", "[5, {}, null]", "null"]) {
        db.execute(&format!(
            "INSERT INTO hwheel.history (id, key, queue, priority, due, occurrence, kind, target, max_attempts,
                attempts, runs, skipped, created_at, finished_at, slot, tried)
            VALUES ({id}, 'odd', 'default', 0, now(), now(), 'sql', 'note', 1, 0, 1, 0, now(), now(), 0, '{tried}')"
        ));
        assert!(page.get(&format!("/job/{id}")).contains("<bdi>done</bdi>"));
    }
    for arguments in [&["show", "odd"][..], &["show", "odd", "--json"]] {
        let output = db.program(arguments);
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn only_the_token_and_a_known_name_open_the_page() {
    let db = database();
    db.execute("SELECT hwheel.schedule('visible', now() + interval '1 h', sql => 'note')");
    let page = Page::new(&db, &["--host", "Jobs.Example.org"]);
    let (port, right) = (
        page.address.split(':').next_back().unwrap(),
        authorization(TOKEN),
    );
    let ask = |host: &str, authorization: &str| {
        let host = format!("Host: {host}");
        let answer = page.ask("GET /", &[&host, authorization], "");
        assert_eq!(answer.contains("visible"), status(&answer) == 200);
        (status(&answer), answer)
    };
    for host in [
        &page.address,
        "127.0.0.1",
        "[::1]:80",
        "LOCALHOST:9188",
        "jobs.example.org",
        "JOBS.example.org:443",
        "192.0.2.7",
    ] {
        assert_eq!(ask(host, &right).0, 200, "{host}");
    }
    for host in [
        "example.org",
        &format!("attack.example.org:{port}"),
        "jobs.example.org.attack.org",
        "127.0.0.1.attack.org",
        "127.0.0.1@attack.org",
        "attack.org@127.0.0.1",
        "localhost.",
        "",
    ] {
        // Also with the token, which a browser does not send there.
        assert_eq!(ask(host, &right).0, 421, "{host}");
    }
    let code = BASE64_STANDARD.encode(TOKEN);
    for wrong in [
        "X: y".to_owned(),
        authorization(""),
        authorization("a token of the test"),
        authorization("a token of the tests "),
        format!("Authorization: Basic {code}"),
        format!("Authorization: Bearer {TOKEN}"),
        "Authorization: Basic".to_owned(),
        "Authorization: Basic %%%".to_owned(),
        "Authorization: Basic \u{e9}".to_owned(),
    ] {
        let (status, answer) = ask("127.0.0.1", &wrong);
        assert_eq!(status, 401, "{wrong}");
        assert!(
            answer.contains("www-authenticate: Basic realm=\"hwheel-jobs\""),
            "{answer}"
        );
    }
    // No host, two hosts, and the form for a proxy.
    let host = format!("Host: {}", page.address);
    assert_eq!(status(&page.ask("GET /", &[&right], "")), 400);
    assert_eq!(
        status(&page.ask("GET /", &[&host, "Host: a", &right], "")),
        400
    );
    let line = format!("GET http://{}/", page.address);
    assert_eq!(status(&page.ask(&line, &[&host, &right], "")), 400);
    let style = page.ask("GET /style.css", &[&host], "");
    assert_eq!(status(&style), 401);
}

#[test]
fn forged_requests_change_nothing() {
    let db = database();
    db.execute(
        "SELECT hwheel.schedule('k', now() + interval '1 h', sql => 'note');
        SELECT hwheel.schedule('dead', now(), sql => 'note');
        UPDATE hwheel.job SET state = 'dead', finished_at = now() WHERE key = 'dead'",
    );
    let page = Page::new(&db, &[]);
    let (id, dead) = (id_of(&db, "k"), id_of(&db, "dead"));
    let form = page.form(id);
    let no_token = format!("id={id}");
    let wrong_token = format!("id={id}&token=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    for (form, headers, expected) in [
        (&form, &["Origin: http://attack.org"][..], 403),
        (&form, &["Origin: null"], 403),
        (&form, &["Origin: http://127.0.0.1:1"], 403),
        (&form, &["Origin: ftp://127.0.0.1"], 403),
        (&form, &["Sec-Fetch-Site: cross-site"], 403),
        (&form, &["Sec-Fetch-Site: same-site"], 403),
        (&form, &["Sec-Fetch-Site: none"], 403),
        (
            &form,
            &["Host: attack.org", "Origin: http://attack.org"],
            421,
        ),
        (&form, &["Authorization: Basic eDp5"], 401),
        (&form, &["Content-Type: text/plain"], 415),
        (&form, &["Content-Type: application/json"], 415),
        (
            &form,
            &["Content-Type: multipart/form-data; boundary=x"],
            415,
        ),
        (&no_token, &[], 403),
        (&wrong_token, &[], 403),
    ] {
        for path in ["/cancel", "/revive", "/revive-all"] {
            let answer = page.send(path, form, headers);
            assert_eq!(status(&answer), expected, "{headers:?} {form}: {answer}");
        }
    }
    // A link, an image, and methods that a form does not have.
    let host = format!("Host: {}", page.address);
    for method in [
        "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT",
    ] {
        let line = format!("{method} /cancel?{form}");
        let answer = page.ask(&line, &[&host, &authorization(TOKEN)], &form);
        assert!(
            [400, 404, 405].contains(&status(&answer)),
            "{method}: {answer}"
        );
    }
    // Two jobs, none, and what is no number.
    for id in [
        "",
        "0",
        "-1",
        "k",
        "1e3",
        "99999999999999999999",
        "1;DROP TABLE hwheel.job",
    ] {
        let form = format!("{}&id={id}", form.split('&').next().unwrap());
        let answer = page.send("/cancel", &form, &[]);
        assert!([404, 409].contains(&status(&answer)), "{id}: {answer}");
    }
    assert!(
        db.is("SELECT count(*) = 2 AND count(*) FILTER (WHERE state = 'dead') = 1 FROM hwheel.job")
    );
    assert_eq!(id_of(&db, "dead"), dead);
    // The same form from the page itself.
    let answer = page.send("/cancel", &form, &[]);
    assert_eq!(status(&answer), 303, "{answer}");
    // A proxy that ends TLS passes the browser's origin on.
    let form = page.form(dead);
    let origin = format!("Origin: https://{}", page.address);
    assert_eq!(status(&page.send("/revive", &form, &[&origin])), 303);
}

#[test]
fn cancels_and_revives_the_job_that_the_user_saw() {
    let db = database();
    db.execute(
        "SELECT hwheel.schedule('k', now() + interval '1 h', sql => 'note');
        SELECT hwheel.schedule('twice', now(), sql => 'note');
        UPDATE hwheel.job SET state = 'dead', finished_at = now() WHERE key = 'twice';
        SELECT hwheel.schedule('twice', now(), sql => 'note');
        UPDATE hwheel.job SET state = 'dead', finished_at = now() WHERE key = 'twice'",
    );
    let page = Page::new(&db, &[]);
    let id = id_of(&db, "k");
    let form = page.form(id);
    let answer = page.send("/cancel", &form, &[]);
    assert!(answer.contains("location: /?did=cancelled\r\n"), "{answer}");
    assert!(page
        .get("/?did=cancelled")
        .contains("The job is cancelled."));
    assert!(!page.get("/?did=%3Cb%3E").contains("<b>"));
    assert!(db.is("SELECT NOT EXISTS (SELECT FROM hwheel.job WHERE key = 'k')"));
    assert!(page.log().contains(&format!("job {id} \"k\": cancel")));
    // It has ended, and the key has a new job, which the user has not seen.
    db.execute("SELECT hwheel.schedule('k', now() + interval '1 h', sql => 'note')");
    assert_eq!(status(&page.send("/cancel", &form, &[])), 409);
    assert_eq!(
        db.number("SELECT count(*) FROM hwheel.job WHERE key = 'k'"),
        1
    );

    let last = id_of(&db, "twice");
    let answer = page.send("/revive", &page.form(last - 1), &[]);
    assert_eq!(status(&answer), 409, "{answer}");
    let answer = page.send("/revive", &page.form(last), &[]);
    assert!(
        answer.contains(&format!("location: /job/{last}?did=revived\r\n")),
        "{answer}"
    );
    assert!(page
        .get(&format!("/job/{last}?did=revived"))
        .contains("The job lives again."));
    assert_eq!(status(&page.send("/revive", &page.form(last), &[])), 409);
    let _node = db.node("one");
    db.wait("SELECT count(*) = 1 FROM run WHERE key = 'twice'");
    // A dead job and a live one of the same key.
    let first = id_of(&db, "twice");
    db.execute("SELECT hwheel.schedule('twice', now() + interval '1 h', sql => 'note')");
    let answer = page.send("/revive", &page.form(first), &[]);
    assert_eq!(status(&answer), 303, "{answer}");
    db.wait(&format!(
        "SELECT count(*) = 1 FROM run WHERE key = 'twice ({first})'"
    ));
}

#[test]
fn revives_the_dead_jobs_of_a_list() {
    let db = database();
    db.execute(
        "SELECT hwheel.schedule(key, now() + interval '1 h', sql => 'note', queue => queue)
            FROM (VALUES ('a_1', 'q'), ('a_2', 'q'), ('ab1', 'q'), ('a_3', 'r'), ('%', 'q'), ('live', 'q')) v (key, queue);
        UPDATE hwheel.job SET state = 'dead', finished_at = now(), due = now(),
            last_error = 'error 5%0 of <b>' || key WHERE key <> 'live'",
    );
    let page = Page::new(&db, &[]);
    let token = page.form(0).replace("&id=0", "");
    let dead = || db.number("SELECT count(*) FROM hwheel.job WHERE state = 'dead'");
    let revive = |form: &str| page.send("/revive-all", &format!("{token}&{form}"), &[]);
    // The list that has the button names the same jobs. No text is a pattern.
    let list = page.get("/jobs?view=dead&queue=q&key=a_&error=5%250");
    assert!(list.contains("Revive all jobs") && list.contains("value=\"5%0\""));
    assert!(list.contains(">a_2<") && !list.contains(">ab1<") && !list.contains(">a_3<"));
    assert!(!page.get("/jobs?view=next").contains("Revive all"));
    assert!(!page.get("/jobs?view=dead&key=none").contains("Revive all"));
    for form in [
        "error=5_0",
        "key=a%25",
        "queue=q%25",
        "key=%5C",
        "error=5%00",
    ] {
        let answer = revive(form);
        assert!(
            status(&answer) == 400 || answer.contains("did=0\r\n"),
            "{answer}"
        );
        assert_eq!(dead(), 5, "{form}");
    }
    let answer = revive("queue=q&key=a_&error=5%250+of+%3Cb%3E");
    let place = "/jobs?view=dead&queue=q&key=a_&error=5%250+of+%3Cb%3E&did=2";
    assert!(
        answer.contains(&format!("location: {place}\r\n")),
        "{answer}"
    );
    assert!(page.get(place).contains("2 jobs live again."));
    assert!(!page.get("/jobs?view=dead&did=%3Cb%3E").contains("<b>"));
    assert_eq!(dead(), 3);
    // A neighbour holds a job: it stays dead, and nobody waits.
    let mut neighbour = db.client_after("BEGIN; SELECT FROM hwheel.job WHERE key = '%' FOR UPDATE");
    assert!(revive("").contains("did=2\r\n"));
    neighbour.run("ROLLBACK");
    assert!(revive("key=%25").contains("did=1\r\n"));
    assert!(dead() == 0 && page.log().contains("1 jobs live again"));
    let answer = page.send("/revive-all", "key=", &[]);
    assert_eq!(status(&answer), 403, "{answer}");
}

/// Clients that send no more than the head of a request leave room for others.
#[test]
fn slow_clients_keep_nobody_out() {
    let db = database();
    let page = Page::new(&db, &[]);
    let head = format!(
        "POST /cancel HTTP/1.1\r\nHost: {}\r\nContent-Length: 9\r\n\r\n",
        page.address
    );
    let slow: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(&page.address).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            stream
        })
        .collect();
    let begin = Instant::now();
    for _ in 0..5 {
        assert_eq!(status(&page.get("/")), 200);
    }
    let time = begin.elapsed();
    assert!(time < Duration::from_secs(4), "{time:?}");
    drop(slow);
}

#[test]
fn a_reader_looks_and_changes_nothing() {
    let server = Server::start();
    let db = server.database().with_functions();
    let grants = db.program(&["install", "--grants"]);
    db.execute(&String::from_utf8(grants.stdout).unwrap());
    db.execute("CREATE ROLE visitor LOGIN; GRANT hwheel_reader TO visitor");
    db.execute("SELECT hwheel.schedule('k', now() + interval '1 h', sql => 'note')");
    let page = Page::of(&db.url.replace("user=postgres", "user=visitor"), &[]);
    let id = id_of(&db, "k");
    for path in [
        "/",
        "/jobs?view=next",
        "/jobs?view=done",
        &format!("/job/{id}"),
    ] {
        let answer = page.get(path);
        assert_eq!(status(&answer), 200, "{path}: {answer}");
    }
    let answer = page.send("/cancel", &page.form(id), &[]);
    assert!(
        status(&answer) == 403 && answer.contains("permission denied"),
        "{answer}"
    );
    assert_eq!(db.number("SELECT count(*) FROM hwheel.job"), 1);
    // A database that is away, and comes back.
    server.down("immediate");
    assert_eq!(status(&page.get("/")), 503);
    server.up();
    assert_eq!(status(&page.get("/")), 200);
}

#[test]
fn wrong_options_and_bad_clients_are_refused() {
    let db = database();
    let refused = |arguments: &[&str], token: &str, why: &str| {
        let env = [
            ("DATABASE_URL", db.url.as_str()),
            ("HWHEEL_WEB_TOKEN", token),
        ];
        let output = program_in(arguments, &env);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(why), "{error}");
        assert!(!error.contains("panicked"), "{error}");
    };
    refused(&["web"], "too short", "16 bytes or more");
    refused(&["web"], "", "16 bytes or more");
    refused(
        &["web", "--token-file", "/nowhere/x"],
        TOKEN,
        "--token-file /nowhere/x",
    );
    refused(&["web", "--listen", "nowhere"], TOKEN, "--listen");
    refused(
        &["web", "--listen", "192.0.2.1:1"],
        TOKEN,
        "--listen 192.0.2.1:1",
    );
    let env = [("HWHEEL_WEB_TOKEN", TOKEN)];
    let url = format!(
        "{} application_name=x",
        db.url.replace("dbname=db", "dbname=none")
    );
    let output = program_in(&["web", "--db", &url], &env);
    assert!(!output.status.success());

    let file = std::env::temp_dir().join(format!("hwheel-token-{}", std::process::id()));
    fs::write(&file, "another token of the tests\n").unwrap();
    let page = Page::new(&db, &["--token-file", file.to_str().unwrap()]);
    fs::remove_file(&file).unwrap();
    let ask = |token: &str| page.ask("GET /", &["Host: localhost", &authorization(token)], "");
    assert_eq!(status(&ask("another token of the tests")), 200);
    assert_eq!(status(&ask(TOKEN)), 401);

    let page = Page::new(&db, &[]);
    // Clients that are slow, or never finish, keep nobody out.
    let slow: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = TcpStream::connect(&page.address).unwrap();
            stream.write_all(b"POST /cancel HTTP/1.1\r\nHost:").unwrap();
            stream
        })
        .collect();
    assert_eq!(status(&page.get("/")), 200);
    drop(slow);
    let long = "x".repeat(100_000);
    let answer = page.send("/cancel", &long, &[]);
    assert!(answer.is_empty() || status(&answer) == 413, "{answer}");
    let header = format!("X: {long}");
    let answer = page.ask("GET /", &["Host: localhost", &header], "");
    assert!(answer.is_empty() || status(&answer) == 431, "{answer}");
    for garbage in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01",
        b"GET / HTTP/9\r\n\r\n",
    ] {
        let answer = page.raw(garbage);
        assert!(answer.is_empty() || status(&answer) == 400, "{answer}");
    }
    assert_eq!(status(&page.get("/")), 200);
    // Every answer to HEAD is without a body.
    let host = format!("Host: {}", page.address);
    let answer = page.ask("HEAD /", &[&host, &authorization(TOKEN)], "");
    assert!(
        status(&answer) == 200 && answer.ends_with("\r\n\r\n"),
        "{answer}"
    );
}

/// Chromium, by the commands of WebDriver.
struct Browser {
    driver: Child,
    session: String,
    profile: PathBuf,
}

impl Browser {
    fn new() -> Option<Browser> {
        let mut driver = Command::new("chromedriver")
            .args(["--port=0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut output = driver.stdout.take().unwrap();
        let mut text = String::new();
        let mut buffer = [0; 1024];
        let port = loop {
            let length = output.read(&mut buffer).unwrap();
            assert!(length > 0, "chromedriver has ended: {text}");
            text += &String::from_utf8_lossy(&buffer[..length]);
            let port = text
                .split_once("successfully on port ")
                .map(|(_, rest)| rest);
            if let Some((port, _)) = port.and_then(|rest| rest.split_once('.')) {
                break port.to_owned();
            }
        };
        thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        let profile =
            std::env::temp_dir().join(format!("hwheel-browser-{}-{port}", std::process::id()));
        let mut browser = Browser {
            driver,
            session: format!("http://127.0.0.1:{port}/session"),
            profile,
        };
        // Root has no sandbox.
        let options = format!(
            r#"{{"capabilities":{{"alwaysMatch":{{"goog:chromeOptions":{{"args":["--headless=new",
            "--no-sandbox","--disable-dev-shm-usage","--no-proxy-server","--hide-scrollbars",
            "--window-size=1100,1500","--user-data-dir={}"]}}}}}}}}"#,
            browser.profile.display()
        );
        let answer = browser.post("", &options);
        let (_, id) = answer.split_once("\"sessionId\":\"").expect(&answer);
        browser.session += &format!("/{}", id.split('"').next().unwrap());
        Some(browser)
    }

    fn post(&self, command: &str, body: &str) -> String {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(120)))
            .build();
        let url = format!("{}{command}", self.session);
        let mut answer = ureq::Agent::new_with_config(config)
            .post(&url)
            .header("Content-Type", "application/json")
            .send(body)
            .expect(command);
        let limit = 50 << 20;
        let text = answer
            .body_mut()
            .with_config()
            .limit(limit)
            .read_to_string();
        text.unwrap()
    }

    fn open(&self, url: &str) {
        let answer = self.post("/url", &format!("{{\"url\":{url:?}}}"));
        assert!(answer.contains("\"value\":null"), "{answer}");
    }

    /// The value of an expression, which is a text without quotes, or a number.
    fn value(&self, expression: &str) -> String {
        let script = format!("return String({expression})");
        let answer = self.post(
            "/execute/sync",
            &format!("{{\"script\":{script:?},\"args\":[]}}"),
        );
        let (_, value) = answer.split_once("\"value\":\"").expect(&answer);
        value.split('"').next().unwrap().to_owned()
    }

    fn wait(&self, expression: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.value(expression) != "true" {
            let text = self.value("encodeURIComponent(document.body.innerText)");
            assert!(Instant::now() < end, "never true: {expression} in {text}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn screenshot(&self) -> Vec<u8> {
        let config = ureq::get(format!("{}/screenshot", self.session));
        let mut answer = config.call().expect("a screenshot");
        let text = answer
            .body_mut()
            .with_config()
            .limit(50 << 20)
            .read_to_string();
        let text = text.unwrap();
        let (_, code) = text.split_once("\"value\":\"").expect("a picture");
        let code = code.split('"').next().unwrap();
        BASE64_STANDARD.decode(code).expect("base64")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = ureq::delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}

/// A page of somebody else, with a form that it sends by itself.
fn attack(target: &str, form: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let fields: String = form_urlencoded::parse(form.as_bytes())
        .map(|(name, value)| format!("<input name={name} value='{value}'>"))
        .collect();
    let body = format!(
        "<title>attack</title><iframe src=http://{target}/></iframe>
        <form id=f method=post action=http://{target}/cancel>{fields}</form><script>f.submit()</script>"
    );
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
    format!("http://localhost:{port}/")
}

#[test]
fn a_browser_shows_revives_and_runs_no_script_of_a_user() {
    let Some(browser) = Browser::new() else {
        return skip("no chromedriver; on Debian: apt-get install chromium-driver");
    };
    let db = database();
    hostile(&db);
    db.execute(
        "SELECT hwheel.schedule('invoice-17', now(), sql => 'note');
        UPDATE hwheel.job SET state = 'dead', finished_at = now() WHERE key = 'invoice-17';
        SELECT hwheel.schedule('report', now() + interval '1 s', sql => 'note')",
    );
    let page = Page::new(&db, &[]);
    let open = |path: &str| {
        let token = TOKEN.replace(' ', "%20");
        browser.open(&format!("http://hwheel:{token}@{}{path}", page.address));
    };
    open("/");
    // The style has come, and nothing of a user has become an element.
    browser.wait("document.title == 'jobs - hwheel-jobs'");
    assert_eq!(
        browser.value("getComputedStyle(document.querySelector('table')).borderCollapse"),
        "collapse"
    );
    let foreign =
        "document.querySelectorAll('script, img, iframe, object, [onload], [onerror]').length";
    assert_eq!(browser.value(foreign), "0");
    assert_ne!(
        browser.value("document.querySelectorAll('svg rect').length"),
        "0"
    );
    for row in db.rows("SELECT id FROM hwheel.job") {
        open(&format!("/job/{}", row.get::<_, i64>(0)));
        browser.wait("document.title == 'job - hwheel-jobs'");
        assert_eq!(browser.value(foreign), "0");
    }
    // No script runs, also one that got into the page somehow.
    browser.value(
        "(() => { let s = document.createElement('script'); s.textContent = 'document.title = 1'; document.body.append(s); return 1 })()",
    );
    assert_eq!(browser.value("document.title"), "job - hwheel-jobs");

    // To cancel takes two clicks; the browser sends the form.
    let report = id_of(&db, "report");
    open(&format!("/job/{report}"));
    assert_eq!(
        browser.value("document.querySelector('details').open"),
        "false"
    );
    browser.value("document.querySelector('summary').click()");
    browser.value("document.querySelector('details button').click()");
    browser.wait("document.body.innerText.includes('The job is cancelled.')");
    assert!(db.is("SELECT NOT EXISTS (SELECT FROM hwheel.job WHERE key = 'report')"));

    // A page of somebody else, which even has a form's token.
    let id = id_of(&db, "paused");
    browser.open(&attack(&page.address, &page.form(id)));
    browser.wait("document.title == 'Forbidden - hwheel-jobs'");
    assert!(db.is("SELECT EXISTS (SELECT FROM hwheel.job WHERE key = 'paused')"));

    let dead = id_of(&db, "invoice-17");
    open(&format!("/job/{dead}"));
    browser.value("document.querySelector('button').click()");
    browser.wait("document.body.innerText.includes('The job lives again.')");
    assert!(db.is("SELECT state = 'waiting' FROM hwheel.job WHERE key = 'invoice-17'"));
}

/// Writes the picture of the README to the file that HWHEEL_SCREENSHOT names.
#[test]
fn a_picture_of_the_page() {
    let Some(file) = std::env::var_os("HWHEEL_SCREENSHOT") else {
        return skip("HWHEEL_SCREENSHOT names no file for a picture");
    };
    let browser = Browser::new().expect("chromedriver");
    let db = database();
    let _nodes = [db.node("app-1"), db.node("app-2")];
    db.execute(
        "SELECT hwheel.set_queue('mail', max_running => 4, rate => 50);
        CREATE FUNCTION send_mail(key text, due timestamptz, payload jsonb) RETURNS void
            LANGUAGE sql AS 'SELECT pg_sleep(0.001)';
        CREATE FUNCTION charge(key text, due timestamptz, payload jsonb) RETURNS void
            LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the card has expired'; END $$;
        SELECT hwheel.schedule('mail-' || i, now() + i * interval '20 ms', sql => 'send_mail',
            queue => CASE WHEN i % 10 = 0 THEN 'mail' END) FROM generate_series(1, 500) i;
        SELECT hwheel.schedule('invoice-17', now(), sql => 'charge', max_attempts => 1, queue => 'billing');
        SELECT hwheel.schedule('export', now(), command => 'sleep 60');
        SELECT hwheel.schedule('order-' || i, now() - interval '1 s' * i, queue => 'orders') FROM generate_series(1, 3) i",
    );
    db.wait("SELECT count(*) = 500 FROM hwheel.all_jobs WHERE state = 'done'");
    db.execute(
        "SELECT hwheel.schedule('reminder-' || i, now() + i * interval '95 s', sql => 'send_mail', queue => 'mail',
            payload => '{\"to\": 7}') FROM generate_series(1, 6) i;
        SELECT hwheel.schedule('summary', after => '{reminder-1,reminder-6}', sql => 'send_mail', queue => 'mail');
        SELECT hwheel.schedule('report', cron => '30 2 * * MON-FRI', zone => 'Europe/Berlin', sql => 'send_mail')",
    );
    db.wait("SELECT bool_and(lateness <> '{}') FROM hwheel.node");
    db.wait("SELECT bool_and(due > '-infinity') FROM hwheel.job");
    let page = Page::new(&db, &[]);
    let token = TOKEN.replace(' ', "%20");
    browser.open(&format!("http://hwheel:{token}@{}/", page.address));
    browser.wait("document.title == 'jobs - hwheel-jobs'");
    fs::write(&file, browser.screenshot()).expect("a file");
}
