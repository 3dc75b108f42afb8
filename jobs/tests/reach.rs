//! How the program gets into a database: TLS, passwords, poolers. Real servers, and a real
//! pgbouncer.

mod support;

use std::fs;
use std::os::unix::fs::{chown, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use support::{free_port, program_in, skip, Pooler, Server, Sql as _, PASSWORD};

fn openssl(dir: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "openssl {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A server with TLS on a port of 127.0.0.1. The user `app` has a password and `card` a
/// certificate. Nobody gets in without TLS, except `plain`.
struct Secure {
    server: Server,
    /// Certificates, for clients.
    dir: tempfile::TempDir,
}

impl Secure {
    /// None, and a line that says so, without openssl.
    fn new() -> Option<Secure> {
        if Command::new("openssl").arg("version").output().is_err() {
            skip("no openssl; on Debian: apt-get install openssl");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        for name in ["ca", "other"] {
            openssl(dir.path(), &format!("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.crt"));
        }
        // Its own authority, as in PostgreSQL's manual.
        openssl(dir.path(), "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout own.key -out own.crt");
        fs::write(dir.path().join("names"), "subjectAltName=DNS:localhost").unwrap();
        for name in ["server", "card"] {
            openssl(dir.path(), &format!("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"));
            openssl(dir.path(), &format!("x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {name}.crt"));
        }
        let port = format!("port = {}", free_port());
        let server = Server::start_with(&[&port, "listen_addresses = '127.0.0.1'"], &[]);
        let secure = Secure { server, dir };
        secure.show("server");
        secure.write("pg_hba.conf", "local all all trust\nhostssl all app all scram-sha-256\nhostssl all card all cert\nhostnossl all plain all trust\nhost all all all reject\n");
        secure.server.client().run(&format!(
            "CREATE ROLE app LOGIN SUPERUSER PASSWORD '{PASSWORD}';
            CREATE ROLE card LOGIN SUPERUSER; CREATE ROLE plain LOGIN SUPERUSER"
        ));
        let settings = secure.server.dir().join("data/postgresql.auto.conf");
        let settings = fs::read_to_string(settings).unwrap();
        secure.write(
            "postgresql.auto.conf",
            &format!("{settings}ssl = on\nssl_ca_file = 'ca.crt'\n"),
        );
        secure.server.down("fast");
        secure.server.up();
        Some(secure)
    }

    /// A file of the server.
    fn write(&self, name: &str, text: &str) {
        let file = self.server.dir().join("data").join(name);
        fs::write(&file, text).unwrap();
        let owner = fs::metadata(self.server.dir()).unwrap();
        chown(&file, Some(owner.uid()), Some(owner.gid())).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Gives the server a certificate, which it shows once it has read its settings again.
    fn show(&self, name: &str) {
        let read = |name: String| fs::read_to_string(self.dir.path().join(name)).unwrap();
        self.write("server.crt", &read(format!("{name}.crt")));
        self.write("server.key", &read(format!("{name}.key")));
        self.write("ca.crt", &read("ca.crt".to_owned()));
    }

    fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }
}

/// The error of `hwheel-jobs list`, or nothing.
fn list(env: &[(&str, &str)]) -> String {
    let output = program_in(&["list"], env);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.success(), error.is_empty(), "{error}");
    error
}

#[test]
fn tls_is_as_strict_as_sslmode_says() {
    let Some(secure) = Secure::new() else {
        return;
    };
    let db = secure.server.database();
    let name = db.text("SELECT current_database()");
    let ca = secure.file("ca.crt");
    let (card, key) = (secure.file("card.crt"), secure.file("card.key"));
    let port = secure.server.port;
    let ok = "";
    let try_all = |cases: &[(&str, &str, &str)]| {
        for (host, words, expected) in cases {
            let words = words
                .replace("ca.crt", &ca)
                .replace("other.crt", &secure.file("other.crt"));
            let words = words.replace("own.crt", &secure.file("own.crt"));
            let words = words.replace("CARD", &format!("user=card sslcert={card} sslkey={key}"));
            let user = if words.contains("user=") {
                ""
            } else {
                "user=app"
            };
            let url = format!(
                "host={host} port={port} dbname={name} {user} password='{PASSWORD}' {words}"
            );
            let error = list(&[
                ("DATABASE_URL", &url),
                ("HOME", "/nowhere"),
                ("SSL_CERT_FILE", &ca),
            ]);
            assert_eq!(
                error.is_empty(),
                expected.is_empty(),
                "{host} {words}: {error}"
            );
            assert!(error.contains(expected), "{host} {words}: {error}");
            assert!(!error.contains(PASSWORD), "{error}");
        }
    };
    // The certificate has the name localhost.
    try_all(&[
        ("localhost", "", ok),
        ("localhost", "sslmode=disable", "no encryption"),
        ("localhost", "sslmode=prefer", ok),
        ("localhost", "sslmode=allow", ok),
        ("localhost", "sslmode=require", ok),
        ("127.0.0.1", "sslmode=require", ok),
        (
            "127.0.0.1",
            "sslmode=require sslrootcert=other.crt",
            "UnknownIssuer",
        ),
        ("127.0.0.1", "sslmode=verify-ca sslrootcert=ca.crt", ok),
        (
            "localhost",
            "sslmode=verify-ca sslrootcert=other.crt",
            "UnknownIssuer",
        ),
        ("localhost", "sslmode=verify-full sslrootcert=ca.crt", ok),
        (
            "127.0.0.1",
            "sslmode=verify-full sslrootcert=ca.crt",
            "not valid for name",
        ),
        ("localhost", "sslmode=verify-full sslrootcert=system", ok),
        ("localhost", "sslrootcert=system", ok),
        ("localhost", "sslmode=verify-full", "needs sslrootcert"),
        ("localhost", "channel_binding=require", ok),
        (
            "localhost",
            "sslmode=require ssl_min_protocol_version=TLSv1.3",
            ok,
        ),
        (
            "localhost",
            "sslmode=require ssl_max_protocol_version=TLSv1.2",
            ok,
        ),
        (
            "localhost",
            "CARD sslmode=verify-full sslrootcert=ca.crt",
            ok,
        ),
        ("localhost", "user=card sslmode=require", "certificate"),
        ("localhost", "user=plain sslmode=disable", ok),
        ("localhost", "user=plain sslmode=require", "rejects"),
    ]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    try_all(&[(
        "localhost",
        "CARD sslmode=require",
        "others than its owner may read",
    )]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();

    if db.is("SELECT current_setting('server_version_num')::int >= 170000") {
        let direct = "sslmode=verify-full sslnegotiation=direct sslrootcert=ca.crt";
        try_all(&[("localhost", direct, ok)]);
    } else {
        skip("sslnegotiation=direct needs PostgreSQL 17");
    }

    // The same from variables and from the files of the user.
    let home = tempfile::tempdir().unwrap();
    let files = home.path().join(".postgresql");
    fs::create_dir(&files).unwrap();
    let port = port.to_string();
    let mut env = vec![
        ("HOME", home.path().to_str().unwrap()),
        ("PGHOST", "localhost"),
        ("PGPORT", &port),
        ("PGDATABASE", &name),
        ("PGUSER", "card"),
        ("PGSSLMODE", "verify-full"),
    ];
    assert!(list(&env).contains("needs sslrootcert"));
    fs::copy(&ca, files.join("root.crt")).unwrap();
    assert!(list(&env).contains("certificate"));
    fs::copy(&card, files.join("postgresql.crt")).unwrap();
    fs::copy(&key, files.join("postgresql.key")).unwrap();
    assert_eq!(list(&env), "");
    let other = secure.file("other.crt");
    env.push(("PGSSLROOTCERT", &other));
    assert!(list(&env).contains("UnknownIssuer"));

    // A server that signed its certificate itself.
    secure.show("own");
    secure.server.client().run("SELECT pg_reload_conf()");
    sleep(Duration::from_millis(500));
    try_all(&[
        ("localhost", "sslmode=verify-full sslrootcert=own.crt", ok),
        ("127.0.0.1", "sslmode=verify-ca sslrootcert=own.crt", ok),
        (
            "127.0.0.1",
            "sslmode=verify-full sslrootcert=own.crt",
            "not valid for name",
        ),
        (
            "localhost",
            "sslmode=verify-full sslrootcert=ca.crt",
            "invalid peer certificate",
        ),
    ]);
}

#[test]
fn a_node_works_over_tls_until_its_password_is_wrong_and_shows_it_nowhere() {
    let Some(secure) = Secure::new() else {
        return;
    };
    let db = secure.server.database().with_functions();
    let name = db.text("SELECT current_database()");
    let port = secure.server.port.to_string();
    let passfile = secure.file("pass");
    let pass = |password: &str| {
        fs::write(&passfile, format!("localhost:{port}:*:app:{password}\n")).unwrap();
        fs::set_permissions(&passfile, fs::Permissions::from_mode(0o600)).unwrap();
    };
    pass(PASSWORD);
    let ca = secure.file("ca.crt");
    let env = [
        ("DATABASE_URL", ""),
        ("PGHOST", "localhost"),
        ("PGPORT", &port),
        ("PGDATABASE", &name),
        ("PGUSER", "app"),
        ("PGPASSFILE", &passfile),
        ("PGSSLMODE", "verify-full"),
        ("PGSSLROOTCERT", &ca),
        ("RUST_LOG", "trace"),
    ];
    let mut node = db.spawn_in("a", &["--kinds", "sql"], &env);
    db.spread(50, 1.0);
    db.all_done_once();
    // 4 that fire, one for the others, and the one that claims.
    let all = "SELECT count(*) >= 5 AND bool_and(ssl AND version = 'TLSv1.3') FROM pg_stat_ssl s
        JOIN pg_stat_activity a USING (pid) WHERE application_name LIKE 'hwheel-jobs %'";
    assert!(db.is(all));

    // Its password changes, and the file with it.
    let change = |password: &str| {
        db.execute(&format!("ALTER ROLE app PASSWORD '{password}'"));
        db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'");
    };
    pass("another secret");
    change("another secret");
    db.execute("TRUNCATE run; DELETE FROM hwheel.history; DELETE FROM hwheel.job");
    db.spread(10, 0.5);
    db.all_done_once();

    // It changes without the file.
    change("a third one");
    assert!(!node.ends());
    let log = node.log();
    assert!(
        log.contains("password authentication failed for user \"app\""),
        "{log}"
    );
    for secret in [PASSWORD, "another secret", "a third one"] {
        assert!(!log.contains(secret), "the log has a password");
    }
}

#[test]
fn a_wrong_password_or_name_ends_the_program_with_a_clear_line() {
    let Some(secure) = Secure::new() else {
        return;
    };
    let db = secure.server.database();
    let name = db.text("SELECT current_database()");
    for (words, expected) in [
        (
            "user=app password='not it'",
            "password authentication failed for user \"app\"",
        ),
        ("user=app", "password missing"),
        ("user=nobody password=x sslmode=disable", "no encryption"),
        ("user=card dbname=nothing", "certificate"),
        (
            "user=app password='wrzl prmpft' dbname=nothing",
            "database \"nothing\" does not exist",
        ),
        (
            "user=app password='wrzl prmpft' sslmode=verify-full sslrootcert=/etc/hostname",
            "certificates: /etc/hostname",
        ),
    ] {
        let dbname = if words.contains("dbname") {
            ""
        } else {
            &format!("dbname={name}")
        };
        let url = format!(
            "host=localhost port={} {dbname} {words}",
            secure.server.port
        );
        let home = ("HOME", "/nowhere");
        for command in [&["run"][..], &["list"], &["install"]] {
            let output = program_in(command, &[("DATABASE_URL", &url), home]);
            let error = String::from_utf8(output.stderr).unwrap();
            let last = error.lines().last().unwrap_or_default();
            assert!(!output.status.success(), "{words}");
            assert!(
                last.starts_with("hwheel-jobs: ") && last.contains(expected),
                "{command:?} {words}: {error}"
            );
            assert!(
                !error.contains("not it") && !error.contains(PASSWORD),
                "{error}"
            );
        }
    }
    let url = ("DATABASE_URL", "postgresql://app:wrzl@localhost/app");
    for arguments in [&["--help"][..], &["run", "--help"], &["list", "--no-such"]] {
        let output = program_in(arguments, &[url, ("PGPASSWORD", "prmpft")]);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(text.contains("Usage"), "{text}");
        assert!(!text.contains("wrzl") && !text.contains("prmpft"), "{text}");
    }
}

#[test]
fn a_node_works_through_a_pooler_in_session_mode_and_users_in_transaction_mode() {
    let server = Server::start();
    let db = server.database().with_functions();
    let Some(pooler) = Pooler::new(&db, "") else {
        return;
    };
    let (whole, part) = (pooler.url("whole"), pooler.url("part"));
    let env = [("DATABASE_URL", whole.as_str()), ("PGPASSWORD", PASSWORD)];
    let node = db.spawn_in("a", &["--kinds", "sql,command"], &env);
    node.wait_for_log("node 1 (a)");
    // A command does not get the password of its node.
    db.execute("SELECT hwheel.schedule('c', now(), command => 'test -z \"$DATABASE_URL$PGPASSWORD\"', max_attempts => 1)");
    db.wait("SELECT state = 'done' FROM hwheel.all_jobs");

    // Four users take turns in three sessions.
    let users: Vec<_> = (0..4)
        .map(|user| {
            let part = part.clone();
            std::thread::spawn(move || {
                let mut client = postgres::Client::connect(&part, postgres::NoTls).unwrap();
                for n in 0..50 {
                    client.run(&format!(
                            "BEGIN; SELECT hwheel.schedule('k{user}-{n}', now() + interval '300 ms', sql => 'note');
                            SELECT pg_sleep(0.005); COMMIT"
                        ));
                }
            })
        })
        .collect();
    for _ in 0..5 {
        let list = program_in(&["list"], &[("DATABASE_URL", &part)]);
        assert!(
            list.status.success(),
            "{}",
            String::from_utf8_lossy(&list.stderr)
        );
        let stats = program_in(&["stats"], &[("DATABASE_URL", &part)]);
        assert!(
            stats.status.success(),
            "{}",
            String::from_utf8_lossy(&stats.stderr)
        );
    }
    for user in users {
        user.join().unwrap();
    }
    db.wait("SELECT count(*) = 201 FROM hwheel.all_jobs WHERE state = 'done'");
    db.all_done_once();
    let log = node.log();
    let is_calm = |line: &str| !line.contains("ERROR") && !line.contains("WARN");
    let mut lines = log.lines();
    // The pooler gets in as a superuser.
    assert!(
        lines.all(|line| is_calm(line) || line.contains("is a superuser")),
        "{log}"
    );

    // A node in transaction mode would lose its notifications and prepared statements, and its
    // settings would stay for others.
    let round = Pooler::new(&db, "server_round_robin = 1").expect("as the first one");
    for pooler in [&pooler, &round] {
        pooler.is_as_new();
        let part = pooler.url("part");
        let mut lost = db.spawn_in("b", &[], &[("DATABASE_URL", &part)]);
        assert!(!lost.ends());
        let log = lost.log();
        assert!(log.contains("a pooler in transaction mode is before the database: a node needs session mode, or none"), "{log}");
        assert!(db.is("SELECT NOT EXISTS (SELECT FROM hwheel.node WHERE name = 'b')"));
        pooler.is_as_new();
    }

    // The pooler knows who may come in.
    let wrong = part.replace(PASSWORD, "not it");
    let mut refused = db.spawn_in("c", &[], &[("DATABASE_URL", &wrong)]);
    assert!(!refused.ends());
    assert!(
        refused.log().contains("password authentication failed"),
        "{}",
        refused.log()
    );
}
