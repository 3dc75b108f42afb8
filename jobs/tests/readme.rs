//! README.md as a reader pastes it: each of its blocks runs, in order.

mod support;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use support::{server_programs, skip, Database, Node, Server, PROGRAM};

/// The language and the text of each block.
fn blocks() -> Vec<(String, String)> {
    let text = fs::read_to_string("README.md").expect("README.md");
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((language.to_owned(), body.join("\n") + "\n"));
        }
    }
    blocks
}

/// Runs one line of a shell. A program that goes on is over when it has said that it works.
fn shell(line: &str, url: &str) {
    let command = line.split(" #").next().unwrap().trim();
    let goes_on = ["hwheel-jobs run", "hwheel-jobs web"]
        .iter()
        .any(|start| command.starts_with(start));
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    let output = fs::File::create(&log).expect("a log");
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).expect("a directory");
    std::os::unix::fs::symlink(PROGRAM, bin.join("hwheel-jobs")).expect("a link");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    // The words of the program, and not a shell that would be stopped instead of it.
    let mut child = Command::new("bash")
        .args(["-c", &format!("exec {command}")])
        .env("PATH", path)
        .env("DATABASE_URL", url)
        .stdin(Stdio::null())
        .stdout(output.try_clone().expect("dup"))
        .stderr(output)
        .spawn()
        .expect("bash");
    let said = || fs::read_to_string(&log).unwrap_or_default();
    if goes_on {
        let end = Instant::now() + Duration::from_secs(30);
        while !(said().contains("window") || said().contains("the page is on")) {
            assert!(Instant::now() < end, "{command}: {}", said());
            sleep(Duration::from_millis(50));
        }
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    } else {
        let status = child.wait().expect("it ends");
        assert!(status.success(), "{command}: {}", said());
    }
}

/// The words of the program of a block. `make jobs-workers` installs what it imports.
fn worker(language: &str, text: &str) -> Option<Vec<PathBuf>> {
    let tools = PathBuf::from(std::env::var_os("HWHEEL_WORKERS")?);
    let (needs, file) = match language {
        "python" => ("venv", "readme.py"),
        "js" => ("program.mjs", "readme.mjs"),
        "rust" => ("program-rust", "rust/src/bin/readme.rs"),
        _ => ("program-go", "go/readme/main.go"),
    };
    if !tools.join(needs).exists() {
        return None;
    }
    let file = tools.join(file);
    fs::create_dir_all(file.parent()?).expect("a directory");
    fs::write(&file, text).expect("a file");
    Some(match language {
        "python" => vec![tools.join("venv/bin/python"), file],
        "js" => vec!["node".into(), file],
        "rust" => {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--target-dir", "target", "--bin", "readme"]);
            let output = build.current_dir(tools.join("rust")).output();
            let output = output.expect("cargo");
            assert!(output.status.success(), "{output:?}");
            vec![tools.join("rust/target/debug/readme")]
        }
        _ => {
            let mut build = Command::new("go");
            build.args(["build", "-o", "../readme-go", "./readme"]);
            let output = build.current_dir(tools.join("go")).output().expect("go");
            assert!(output.status.success(), "{output:?}");
            vec![tools.join("readme-go")]
        }
    })
}

#[test]
fn each_block_of_the_readme_runs() {
    let places = ["psql".into(), server_programs().join("psql")];
    let works = |psql: &PathBuf| Command::new(psql).arg("--version").output().is_ok();
    let Some(psql) = places.into_iter().find(works) else {
        return skip("no psql; on Debian: apt-get install postgresql-client");
    };
    let server = Server::start();
    let owner = server.database();
    owner.execute("CREATE ROLE reader LOGIN");
    owner.execute("CREATE DATABASE app OWNER reader");
    let db = Database {
        server: &server,
        url: format!(
            "host={} port={} user=reader dbname=app",
            server.dir().display(),
            server.port
        ),
    };
    let (mut ran, mut workers, mut left_out) = (0, 0, Vec::new());
    for (language, text) in blocks() {
        match language.as_str() {
            "sh" => {
                for line in text.lines() {
                    match line.split_whitespace().next() {
                        // The role and the database are there, and the demo is another test.
                        Some("sudo" | "make" | "export" | "pip" | "npm" | "go" | "cargo" | "#") => {
                            left_out.push(line.to_owned())
                        }
                        _ => shell(line, &db.url),
                    }
                    ran += 1;
                }
            }
            "sql" => {
                let file = tempfile::NamedTempFile::new().expect("a file");
                fs::write(file.path(), &text).expect("a file");
                let output = Command::new(&psql)
                    .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", &db.url, "-f"])
                    .arg(file.path())
                    .output()
                    .expect("psql");
                let error = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{text}\n{error}");
                ran += 1;
            }
            "ini" => {
                // The file of a unit: the program reads these variables, and finds no such host.
                let mut command = Command::new(PROGRAM);
                command.args(["list"]);
                for line in text.lines() {
                    let (name, value) = line.split_once('=').expect("a variable");
                    command.env(name, value.trim_matches('"'));
                }
                command.env("PGCONNECT_TIMEOUT", "2");
                let output = command.output().expect(PROGRAM);
                assert_eq!(output.status.code(), Some(1), "{output:?}");
                ran += 1;
            }
            // A worker: it runs what is due, and ends when it has to.
            "python" | "js" | "go" | "rust" => {
                let Some(program) = worker(&language, &text) else {
                    left_out.push(format!("a worker in {language}: make jobs-workers"));
                    continue;
                };
                db.execute(
                    "SELECT hwheel.schedule('worker', now(), payload => '{\"to\": 30}', queue => 'mail')",
                );
                let mut command = Command::new(&program[0]);
                command.args(&program[1..]).env("PGHOST", server.dir());
                command
                    .env("PGPORT", server.port.to_string())
                    .env("PGUSER", "reader");
                let mut worker = Node::start(&mut command, &language);
                db.wait("SELECT NOT EXISTS (SELECT FROM hwheel.job WHERE queue = 'mail' AND kind = 'app')");
                assert!(worker.end(), "{}", worker.log());
                ran += 1;
                workers += 1;
            }
            other => panic!("a block in a language that this test does not know: {other:?}"),
        }
    }
    assert!(ran >= 15, "only {ran}");
    for line in left_out {
        skip(&line);
    }
    // What the examples leave.
    let sent = "SELECT count(*) FROM sent WHERE mail";
    if workers > 0 {
        assert_eq!(db.number(&format!("{sent} BETWEEN 21 AND 25")), 5);
    }
    assert_eq!(db.number(&format!("{sent} = 30")), workers);
    assert_eq!(db.number("SELECT count(*) FROM sent WHERE mail = 9"), 1);
    assert!(db.is("SELECT due > now() + interval '110 min' FROM hwheel.job WHERE key = 'mail-7'"));
    assert!(db.is("SELECT NOT rolsuper FROM pg_roles WHERE rolname = current_user"));
}
