//! `hook=`: a command of the user's for each capture, `COMMAND CAPTURE`, with the verdict on it in
//! its environment and, as JSON, in its stdin.
//!
//! How it works: `dashcam-keeper` starts the words of the setting, with the capture's path behind
//! them, in a process group of its own, and polls it between captures. The words are no shell text:
//! they are split at spaces and passed on as they are. `/bin/sh` is the parent of the command, with
//! a fixed text, for one reason: it always ends with 0. A host that waits for all of its children
//! (gunicorn's master) meets ours too, and must not take the hook's exit code for a worker's.
//!
//! What it promises: one hook at a time, `LIMIT` for each, at most `WAITING` behind it. Its output
//! goes to the service's stderr; a failure is said there in one line and counted in `hooks_failed`.
//! It is not recorded itself. At the end of the process a running hook is left running.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use format::region::losses;

use crate::captures::verdict::Verdict;
use crate::recording::Recording;
use crate::say::say;

/// The longest that a hook may take.
const LIMIT: Duration = Duration::from_secs(30);
/// Captures whose hook waits for the one before.
const WAITING: usize = 16;
/// `$@`: the user's words and the path.
const WRAPPER: &str =
    r#""$@" || echo "dashcam: hook $1: ended with exit code $?, wanted 0" >&2; exit 0"#;

/// The hooks that run and wait.
#[derive(Default)]
pub(crate) struct Hooks {
    running: Option<(Child, Instant)>,
    waiting: VecDeque<Verdict>,
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
        self.look(recording);
    }

    /// Polls the one that runs, and starts the next.
    pub(crate) fn look(&mut self, recording: &Recording) {
        if let Some((child, until)) = &mut self.running {
            match child.try_wait() {
                Ok(None) if Instant::now() < *until => return,
                Ok(None) => {
                    sys::signal::kill_group(child.id());
                    // It is dead or dying; an error means that the host has waited for it.
                    let _ = child.wait();
                    failed(recording, &format!("found no end after {} s; killed", LIMIT.as_secs()));
                }
                // An error: the host has waited for it.
                Ok(Some(_)) | Err(_) => (),
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

fn start(recording: &Recording, verdict: &Verdict) -> Option<(Child, Instant)> {
    let hook = &recording.config().hook;
    let stdin = verdict.json() + "\n";
    let started = Command::new("/bin/sh")
        .args(["-c", WRAPPER, "dashcam-hook"])
        .args(hook.split_whitespace())
        .arg(&verdict.path)
        .env("DASHCAM_ENABLED", "off")
        .env("DASHCAM_SERVICE", &recording.config().service)
        .envs(variables(verdict))
        .stdin(
            sys::detached::pipe_with(stdin.as_bytes()).map_or_else(|_| Stdio::null(), Stdio::from),
        )
        .stdout(stderr())
        .stderr(stderr())
        .process_group(0)
        .spawn();
    match started {
        Ok(child) => Some((child, Instant::now() + LIMIT)),
        Err(error) => {
            failed(recording, &format!("/bin/sh: {error}"));
            None
        }
    }
}

/// `DASHCAM_CAUSE` and the others.
fn variables(verdict: &Verdict) -> Vec<(String, OsString)> {
    let name = |field: &str| format!("DASHCAM_{}", field.to_uppercase());
    let texts = verdict.fields().map(|(field, text)| (name(field), text.into()));
    std::iter::once((name("file"), verdict.path.clone().into())).chain(texts).collect()
}

/// The process's own; nothing where it is closed.
fn stderr() -> Stdio {
    sys::ours::own_stderr().map_or_else(|_| Stdio::null(), Stdio::from)
}

fn failed(recording: &Recording, why: &str) {
    recording.recorder.region().lose(losses::HOOKS_FAILED, 1);
    say(&format!("hook {}: {why}", recording.config().hook));
}
