//! The threads of ours: which there are, whose descriptors they have, and what a panic in one
//! leaves.

pub(crate) mod interpreter;
pub(crate) mod keeper;
pub(crate) mod sampler_thread;

use std::sync::mpsc::sync_channel;
use std::sync::Arc;

use crate::control_socket::remote::{self, Asked};
use crate::lock::{internal_error, lock};
use crate::metrics::own::{Before, Own};
use crate::metrics::scrape;
use crate::metrics::windows::Windows;
use crate::recording::Recording;
use crate::running::Running;
use crate::threads::keeper::Keeper;
use crate::triggers::firing::Triggers;

/// Name of the sampler's thread.
const SAMPLER: &str = "dashcam-sampler";

/// Starts the threads of ours that there is work for. A thread that cannot be started is a source
/// that is off. `before`: what was counted before this start.
///
/// `dashcam-sampler` and `dashcam-keeper`, which open hundreds of files, share a table of
/// descriptors of their own, where the kernel gives one: a thread that has it starts them, and
/// ends. `stop` is what the control socket's client may ask for.
pub(crate) fn start(
    parts: &'static Running,
    before: Before,
    stop: fn(),
) -> Vec<sys::thread::Quiet> {
    let recording = &parts.recording;
    let mut threads = Vec::new();
    let (tell, told) = sync_channel(2);
    let starter = sys::thread::spawn_quiet("dashcam-start", move || {
        let apart = sys::ours::move_apart();
        let state = apart.map_or_else(|why| format!("off: {why}"), |()| "on".to_owned());
        recording.set_source("own_descriptors", state);
        let both = [sampler(parts), keeper(parts, before)];
        // Its receiver waits for the end of this thread.
        both.into_iter().flatten().for_each(|thread| drop(tell.send(thread)));
    });
    match starter {
        Ok(starter) => starter.join(),
        Err(error) => {
            parts.queue.sampler_left();
            lost(recording, SAMPLER, &error);
        }
    }
    threads.extend(told);
    if lock(&parts.socket).is_some() {
        let asked = Asked { recording: recording.clone(), queue: parts.queue.clone(), stop };
        let socket = parts.socket.clone();
        threads.extend(spawn(recording, "dashcam-control", move || remote::run(&asked, &socket)));
    }
    if let Some(endpoint) = parts.endpoint.clone() {
        let own = recording.clone();
        let body = move || scrape::run(&own, &endpoint);
        threads.extend(spawn(recording, "dashcam-openmetrics", body));
    }
    threads
}

fn sampler(parts: &Running) -> Option<sys::thread::Quiet> {
    let (recording, queue) = (parts.recording.clone(), parts.queue.clone());
    let (alarms, under_gil) = (parts.alarms.clone(), parts.under_gil.clone());
    let leaves = SaysThatItLeft(queue.clone());
    spawn(&parts.recording, SAMPLER, move || {
        // Dropped at its end, also when that is a panic.
        let _leaves = leaves;
        let (config, now) = (recording.config(), sys::clock::now_ns());
        let triggers = Triggers::new(recording.clone(), queue.clone(), alarms, config, now);
        sampler_thread::run(&recording, queue, under_gil, (triggers, config));
    })
}

/// Of the sampler: `dashcam-keeper` may leave when it has.
struct SaysThatItLeft(Arc<crate::captures::queue::Queue>);

impl Drop for SaysThatItLeft {
    fn drop(&mut self) {
        self.0.sampler_left();
    }
}

fn keeper(parts: &Running, before: Before) -> Option<sys::thread::Quiet> {
    let (recording, queue) = (parts.recording.clone(), parts.queue.clone());
    let (alarms, endpoint) = (parts.alarms.clone(), parts.endpoint.clone());
    let rollups = parts.rollups.clone();
    spawn(&parts.recording, "dashcam-keeper", move || {
        let own = Own::new(recording.clone(), queue.clone(), before);
        let windows = Windows::new(recording.clone(), alarms.clone(), endpoint, own);
        keeper::run(Keeper { recording, queue, alarms, windows, rollups });
    })
}

/// Runs a thread of ours; a panic in it ends the thread, and is reported by `status` and captures.
fn spawn(
    recording: &Arc<Recording>,
    name: &'static str,
    body: impl FnOnce() + Send + 'static,
) -> Option<sys::thread::Quiet> {
    let own = recording.clone();
    let started = sys::thread::spawn_quiet(name, move || {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        if let Err(why) = ended {
            own.set_source(name, format!("off: ended by {}", internal_error(&*why)));
        }
    });
    started.inspect_err(|error| lost(recording, name, error)).ok()
}

/// A thread could not be had. The rest still records; captures by `snap` may be all that is left.
fn lost(recording: &Recording, name: &str, error: &std::io::Error) {
    recording.set_source(name, format!("off: {error}"));
}
