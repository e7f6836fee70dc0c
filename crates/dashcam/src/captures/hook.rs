//! `hook=`: a command of the user's for each capture, `COMMAND CAPTURE`, with the verdict on it in
//! its environment and, as JSON, in its stdin.
//!
//! How it works: `dashcam-capture` starts the words of the setting, with the capture's path behind
//! them, by `sys::detached`: the service has no child and no signal of it. The words are no shell
//! text: they are split at spaces and passed on as they are. `/bin/sh`, with a fixed text, is the
//! parent of the command, and reports its end through a pipe that the command does not get: while
//! the pipe is open the shell's process id is its own. The shell always ends with 0, for a service
//! that is init of its container: that adopts the shell, and must not take a hook's exit code for a
//! worker's.
//!
//! What it promises: one hook at a time, `LIMIT` for each, at most `WAITING` behind it. Its output
//! goes to the service's stderr; a failure is said there in one line, and counted in `hooks_failed`
//! unless it is an exit code. It has a session of its own, and else what the service has. It is not
//! recorded itself. At the end of the process a running hook is left running.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use format::region::losses;
use sys::detached::{self, Detached, Running};
use sys::ours::Fd;

use crate::captures::verdict::Verdict;
use crate::recording::Recording;
use crate::say::say;

/// The longest that a hook may take.
const LIMIT: Duration = Duration::from_secs(30);
/// Captures whose hook waits for the one before.
const WAITING: usize = 16;
const SHELL: &str = "/bin/sh";
/// `$@`: the user's words and the path. Number 3 is the pipe.
const WRAPPER: &str =
    r#""$@" 3>&- || echo "dashcam: hook $1: ended with exit code $?, wanted 0" >&2; exit 0"#;

/// The hooks that run and wait.
#[derive(Default)]
pub(crate) struct Hooks {
    running: Option<Hook>,
    waiting: VecDeque<Verdict>,
}

/// One that runs.
struct Hook {
    shell: Running,
    /// Ends with the shell; nothing is written to it.
    end: Fd,
    until: Instant,
    is_killed: bool,
}

impl Hook {
    fn is_over(&mut self) -> bool {
        let is_open = || match detached::read(&self.end, &mut [0]) {
            Ok(_) => false,
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
            }
        };
        // Without the shell's end first a service that adopts it would keep a zombie.
        !is_open() && self.shell.reap()
    }
}

impl Hooks {
    /// A capture was written, and judged if that was possible.
    pub(crate) fn captured(&mut self, recording: &Recording, verdict: Verdict) {
        if recording.config().hook.is_empty() {
            return;
        }
        if self.waiting.len() >= WAITING {
            return failed(
                recording,
                &format!("not run for {}: {WAITING} wait", verdict.path.display()),
            );
        }
        self.waiting.push_back(verdict);
        self.check(recording);
    }

    /// Polls the one that runs, and starts the next.
    pub(crate) fn check(&mut self, recording: &Recording) {
        if let Some(hook) = &mut self.running {
            if !hook.is_over() {
                if !hook.is_killed && Instant::now() >= hook.until {
                    hook.is_killed = true;
                    sys::signal::kill_group(hook.shell.pid().unsigned_abs());
                    failed(recording, &format!("found no end after {} s; killed", LIMIT.as_secs()));
                }
                return;
            }
            self.running = None;
        }
        if let Some(verdict) = self.waiting.pop_front() {
            self.running = start(recording, &verdict);
        }
    }

    /// The process ends: hooks that wait are started, none is waited for.
    pub(crate) fn end(&mut self, recording: &Recording) {
        for verdict in self.waiting.drain(..) {
            start(recording, &verdict);
        }
    }
}

fn start(recording: &Recording, verdict: &Verdict) -> Option<Hook> {
    match try_start(recording, verdict) {
        Ok(hook) => Some(hook),
        Err(error) => {
            failed(recording, &format!("{SHELL}: {error}"));
            None
        }
    }
}

fn try_start(recording: &Recording, verdict: &Verdict) -> io::Result<Hook> {
    let config = recording.config();
    let fixed = ["-c", WRAPPER, "dashcam-hook"].into_iter();
    let words = fixed.chain(config.hook.split_whitespace()).map(OsString::from);
    let (end, its_end) = detached::pipe()?;
    let shell = detached::start(Detached {
        program: Path::new(SHELL),
        arguments: words.chain([verdict.path.clone().into()]).collect(),
        environment: environment(recording, verdict),
        // More than a pipe holds, or no pipe: it gets nothing.
        stdin: detached::pipe_with((verdict.json() + "\n").as_bytes()).ok(),
        stdout: sys::ours::own_stderr().ok(),
        stderr: sys::ours::own_stderr().ok(),
        third: Some(its_end),
        limits: None,
    })?;
    Ok(Hook { shell, end, until: Instant::now() + LIMIT, is_killed: false })
}

/// The service's, but for variables of ours.
fn environment(recording: &Recording, verdict: &Verdict) -> Vec<(OsString, OsString)> {
    let service = OsString::from(&recording.config().service);
    let fixed = [("DASHCAM_ENABLED", "off".into()), ("DASHCAM_SERVICE", service)];
    let fixed = fixed.into_iter().map(|(name, value)| (name.to_owned(), value));
    let ours: Vec<(OsString, OsString)> =
        fixed.chain(variables(verdict)).map(|(name, value)| (name.into(), value)).collect();
    let mut all = sys::environment::all();
    all.retain(|(name, _)| ours.iter().all(|(own, _)| own != name));
    all.extend(ours);
    all
}

/// `DASHCAM_CAUSE` and the others.
fn variables(verdict: &Verdict) -> Vec<(String, OsString)> {
    let name = |field: &str| format!("DASHCAM_{}", field.to_uppercase());
    let texts = verdict.fields().map(|(field, text)| (name(field), text.into()));
    std::iter::once((name("file"), verdict.path.clone().into())).chain(texts).collect()
}

fn failed(recording: &Recording, why: &str) {
    recording.recorder.region().lose(losses::HOOKS_FAILED, 1);
    say(&format!("hook {}: {why}", recording.config().hook));
}
