//! The threads of ours: which there are, whose descriptors they have, and what a panic in one
//! leaves.

pub(crate) mod capture_thread;
pub(crate) mod interpreter;
pub(crate) mod sampler_thread;

use format::source::SourceState;
use std::io;
use std::sync::Arc;

use crate::control_socket::remote::{self, Asked};
use crate::lock::{internal_error, lock};
use crate::metrics::own::{Before, Own};
use crate::metrics::scrape;
use crate::metrics::windows::Windows;
use crate::recording::Recording;
use crate::running::Running;
use crate::say::say;
use crate::threads::capture_thread::CaptureThread;
use crate::triggers::firing::Triggers;

/// Name of the sampler's thread.
const SAMPLER: &str = "dashcam-sampler";
/// Of the thread that answers clients of the control socket.
const CONTROL: &str = "dashcam-control";
/// Of the thread that answers scrapers.
const OPENMETRICS: &str = "dashcam-openmetrics";

/// A thread, or why there is none.
type Started = io::Result<sys::thread::Quiet>;

/// Starts the threads of ours that there is work for. A thread that cannot be started is a source
/// that is off, and what it would do is refused at once; one line on stderr names them. `before`:
/// what was counted before this start. They get the table of descriptors of the calling thread.
/// `stop` is what the control socket's client may ask for.
pub(crate) fn start(
    parts: &'static Running,
    before: Before,
    stop: fn(),
) -> Vec<sys::thread::Quiet> {
    let recording = &parts.recording;
    let mut all = vec![(SAMPLER, sampler(parts)), (capture_thread::NAME, captures(parts, before))];
    if lock(&parts.socket).is_some() {
        let asked = Asked { recording: recording.clone(), queue: parts.queue.clone(), stop };
        let socket = parts.socket.clone();
        all.push((CONTROL, spawn(recording, CONTROL, move || remote::run(&asked, &socket))));
    }
    if let Some(endpoint) = parts.endpoint.clone() {
        let own = recording.clone();
        let body = move || scrape::run(&own, &endpoint);
        all.push((OPENMETRICS, spawn(recording, OPENMETRICS, body)));
    }
    let (mut threads, mut missing, mut why) = (Vec::new(), Vec::new(), String::new());
    for (name, started) in all {
        match started {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                why = error.to_string();
                lost(parts, name, &why);
                missing.push(name);
            }
        }
    }
    if !missing.is_empty() {
        let missing = missing.join(", ");
        say(&format!("without {missing}: {why}; what they do is missing, the program runs on"));
    }
    threads
}

fn sampler(parts: &'static Running) -> Started {
    let (recording, queue) = (parts.recording.clone(), parts.queue.clone());
    let (alarms, under_gil) = (parts.alarms.clone(), parts.under_gil.clone());
    let leaves = Leaves(parts);
    spawn(&parts.recording, SAMPLER, move || {
        // Dropped at its end, also when that is a panic.
        let _leaves = leaves;
        let (config, now) = (recording.config(), sys::clock::now_ns());
        let triggers = Triggers::new(recording.clone(), queue.clone(), alarms, config, now);
        sampler_thread::run(&recording, queue, under_gil, (triggers, config));
    })
}

/// The sampler ends, or did not begin: `dashcam-capture` may leave, and the thread that waits for
/// clients stops doing so. Only a thread with the same table can make it: the one that called
/// `stop` is the host's.
struct Leaves(&'static Running);

impl Drop for Leaves {
    fn drop(&mut self) {
        if self.0.recording.stopping() {
            self.0.close_listeners();
        }
        self.0.queue.sampler_left();
    }
}

fn captures(parts: &'static Running, before: Before) -> Started {
    let (recording, queue) = (parts.recording.clone(), parts.queue.clone());
    let (alarms, endpoint) = (parts.alarms.clone(), parts.endpoint.clone());
    let rollups = parts.rollups.clone();
    spawn(&parts.recording, capture_thread::NAME, move || {
        let own = Own::new(recording.clone(), queue.clone(), before);
        let windows = Windows::new(recording.clone(), alarms.clone(), endpoint, own);
        capture_thread::run(CaptureThread { recording, queue, alarms, windows, rollups });
        // Where there was no sampler to do it.
        parts.close_listeners();
    })
}

/// Runs a thread of ours; a panic in it ends the thread, and is reported by `status` and captures.
fn spawn(
    recording: &Arc<Recording>,
    name: &'static str,
    body: impl FnOnce() + Send + 'static,
) -> Started {
    let own = recording.clone();
    sys::thread::spawn_quiet(name, move || {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        if let Err(why) = ended {
            let why = internal_error(&*why);
            own.set_source(name, SourceState::off(format_args!("ended by {why}")));
        }
    })
}

/// A thread could not be had. The rest still records, and nothing waits for it.
fn lost(parts: &Running, name: &str, why: &str) {
    let state = SourceState::off(why);
    parts.recording.set_source(name, state.clone());
    match name {
        capture_thread::NAME => parts.queue.is_unattended(format!("without {name}: {why}")),
        CONTROL => {
            // Nobody would answer its clients.
            if let Some(listener) = lock(&parts.socket).take() {
                listener.remove();
            }
            parts.recording.set_source("control", state);
        }
        _ => {}
    }
}
