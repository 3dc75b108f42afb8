//! One run of a command.

use crate::outside::Run;
use crate::stop::Stop;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long a command has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// How much of the output goes into the error of a command that fails.
const QUOTED: u64 = 500;

/// Runs a command with `/bin/sh -c`, as a process group of its own. The payload is its
/// standard input; HWHEEL_KEY, HWHEEL_DUE, HWHEEL_ATTEMPT and HWHEEL_RUN, which is the
/// same for all attempts at one run and no other, are in its environment, and TRACEPARENT
/// if the job has a trace.
pub fn run(run: &Run, stop: &Stop) -> Result<(), Failed> {
    match spawn(run) {
        Ok((child, output)) => wait(child, output, run, stop).map_err(Failed::Begun),
        Err(e) => Err(Failed::NotBegun(format!("cannot start: {e}"))),
    }
}

/// A command that was no success.
#[derive(Debug, PartialEq)]
pub enum Failed {
    /// The machine lacks something, such as room on its disk.
    NotBegun(String),
    Begun(String),
}

fn wait(mut child: Child, mut output: File, run: &Run, stop: &Stop) -> Result<(), String> {
    let group = Group::of(&child);
    let has_ended = ended_within(&child, run.time_limit, stop);
    if !matches!(has_ended, Ok(true)) {
        // SAFETY: the group is the child's, which has not been waited for.
        unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
        drop(group);
        let _ = child.wait();
        let why = match has_ended {
            Err(e) => format!("killed, because the node cannot wait for it: {e}"),
            _ if stop.is_asked() => format!("killed {GRACE:?} after its job was cancelled"),
            _ => format!("killed after {:?}", run.time_limit),
        };
        return Err(why + &quote(&mut output));
    }
    drop(group);
    let status = child.wait().map_err(|e| format!("cannot wait: {e}"))?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (None, Some(libc::SIGKILL)) if ARE_KILLED.load(Relaxed) => {
            Err(format!("killed: its node ended{}", quote(&mut output)))
        }
        (Some(code), _) => Err(format!("exit status {code}{}", quote(&mut output))),
        (None, signal) => Err(format!(
            "signal {}{}",
            signal.unwrap_or(0),
            quote(&mut output)
        )),
    }
}

/// The process groups of the commands that run. A group is the number of its first process, which
/// has not been waited for as long as the group is here.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// The node ends. No other memory depends on it.
static ARE_KILLED: AtomicBool = AtomicBool::new(false);

struct Group(i32);

impl Group {
    fn of(child: &Child) -> Group {
        let group = child.id() as i32;
        groups().insert(group);
        Group(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        groups().remove(&self.0);
    }
}

fn groups() -> MutexGuard<'static, BTreeSet<i32>> {
    GROUPS.lock().expect("no code panics with the lock")
}

/// Kills the commands that run, with their children, and returns their number.
pub fn kill_all() -> usize {
    ARE_KILLED.store(true, Relaxed);
    let groups = groups();
    for group in groups.iter() {
        // SAFETY: no memory is passed.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
    groups.len()
}

/// The input and the output are files, so that neither side waits for the other.
fn spawn(run: &Run) -> std::io::Result<(Child, File)> {
    let mut input = tempfile::tempfile()?;
    input.write_all(run.payload.as_deref().unwrap_or("").as_bytes())?;
    input.seek(SeekFrom::Start(0))?;
    let output = tempfile::tempfile()?;
    let parent = std::process::id();
    // If the node is killed the shell is, too: the job runs again elsewhere. What the shell has
    // started lives on.
    let with_node = move || {
        // SAFETY: no memory is passed.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            if libc::getppid() as u32 != parent {
                libc::_exit(1);
            }
        }
        Ok(())
    };
    let mut command = Command::new("/bin/sh");
    // SAFETY: the closure makes two system calls, takes no lock and needs no memory.
    unsafe { command.pre_exec(with_node) };
    let child = command
        .args(["-c", &run.target])
        // The output of a command may be stored as the error of its job, so a command that
        // prints its environment must not find a password there.
        .env_remove("DATABASE_URL")
        .env_remove("PGPASSWORD")
        .env_remove("HWHEEL_WEB_TOKEN")
        .env("HWHEEL_KEY", &run.key)
        .env("HWHEEL_DUE", run.occurrence.to_string())
        .env("HWHEEL_ATTEMPT", run.attempt.to_string())
        .env("HWHEEL_RUN", run.name())
        .envs(run.traceparent.iter().map(|trace| ("TRACEPARENT", trace)))
        .stdin(input)
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0)
        .spawn()?;
    Ok((child, output))
}

/// Waits for the end of a process, without taking its status. When it is asked to end it gets
/// SIGTERM with its children, and has a little time.
fn ended_within(child: &Child, limit: Duration, stop: &Stop) -> std::io::Result<bool> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call has just made it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let mut end = Instant::now() + limit;
    // A number below 0 is not looked at.
    let mut event = stop.event();
    loop {
        let left = end.saturating_duration_since(Instant::now()).as_millis();
        let left = i32::try_from(left + 1).unwrap_or(i32::MAX);
        let mut polls = [pidfd.as_raw_fd(), event].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: two entries, which live as long as the call.
        match unsafe { libc::poll(polls.as_mut_ptr(), 2, left) } {
            1.. if polls[0].revents != 0 => return Ok(true),
            1.. => {
                // SAFETY: the group is the child's, which has not been waited for.
                unsafe { libc::kill(-(child.id() as i32), libc::SIGTERM) };
                end = end.min(Instant::now() + GRACE);
                event = -1;
            }
            0 if Instant::now() >= end => return Ok(false),
            -1 if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted => {
                return Err(std::io::Error::last_os_error());
            }
            _ => {}
        }
    }
}

/// The end of the output.
fn quote(output: &mut File) -> String {
    let mut bytes = Vec::new();
    let length = output.seek(SeekFrom::End(0)).unwrap_or(0);
    let _ = output.seek(SeekFrom::Start(length.saturating_sub(QUOTED)));
    let _ = output.read_to_end(&mut bytes);
    // PostgreSQL has no text with a zero byte.
    let text = String::from_utf8_lossy(&bytes).replace('\0', "\u{fffd}");
    match text.trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(command: &str, payload: Option<&str>, limit_ms: u64) -> Result<(), Failed> {
        let run = Run {
            key: "a key".into(),
            occurrence: "2026-01-01T00:00:00.5Z".parse().unwrap(),
            attempt: 2,
            target: command.into(),
            payload: payload.map(str::to_owned),
            headers: Vec::new(),
            traceparent: Some("00-trace".to_owned()),
            time_limit: Duration::from_millis(limit_ms),
        };
        super::run(&run, &Stop::of_command().unwrap())
    }

    #[test]
    fn a_command_gets_its_payload_and_what_it_is_for() {
        let all = r#"test "$(cat)" = '{"a": 1}' && test "$HWHEEL_KEY $HWHEEL_ATTEMPT" = "a key 2" &&
            test "$TRACEPARENT" = 00-trace &&
            test "$HWHEEL_DUE" = 2026-01-01T00:00:00.5Z && test "${HWHEEL_RUN%-*}" = 1767225600500000"#;
        assert_eq!(sh(all, Some(r#"{"a": 1}"#), 5000), Ok(()));
    }

    #[test]
    fn a_command_that_fails_is_quoted() {
        let failed = |why: &str| Err(Failed::Begun(why.to_owned()));
        assert_eq!(
            sh("echo no such file; exit 3", None, 5000),
            failed("exit status 3: no such file")
        );
        assert_eq!(sh("kill -9 $$", None, 5000), failed("signal 9"));
    }

    #[test]
    fn a_command_that_takes_too_long_is_killed_with_its_children() {
        let begin = Instant::now();
        let why = sh("sleep 77.7 & sleep 77.7", None, 200).unwrap_err();
        assert_eq!(why, Failed::Begun("killed after 200ms".to_owned()));
        assert!(begin.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn much_output_holds_up_nobody() {
        assert_eq!(
            sh(
                "head -c 10000000 /dev/zero",
                Some(&"x".repeat(1_000_000)),
                20_000
            ),
            Ok(())
        );
    }
}
