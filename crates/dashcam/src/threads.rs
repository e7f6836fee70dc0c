//! The threads of ours: which there are, whose descriptors they have, and what a panic in one leaves.

use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::sync::Arc;

use crate::control::{lock, Shared};
use crate::{keeper, remote, sampler_thread, scrape};

/// Starts the threads of ours that there is work for. One that cannot be had is a source that is off.
///
/// Sampler and keeper, who open hundreds of files, share a table of descriptors of their own, where that
/// can be had: a thread that has it starts them, and ends.
pub(crate) fn start(shared: &Arc<Shared>) -> Vec<sys::thread::Quiet> {
    let mut threads = Vec::new();
    let own = shared.clone();
    let (tell, told) = sync_channel(2);
    let starter = sys::thread::spawn_quiet("dashcam-start", move || {
        let apart = sys::ours::move_apart();
        let state = apart.map_or_else(|why| format!("off: {why}"), |()| "on".to_owned());
        own.set_source("own_descriptors", state);
        let bodies =
            [(SAMPLER, sampler_thread::run as fn(Arc<Shared>)), ("dashcam-keeper", keeper::run)];
        for (name, body) in bodies {
            // Its receiver waits for the end of this thread.
            let _ = spawn(&own, name, body).map(|thread| tell.send(thread));
        }
    });
    match starter {
        Ok(starter) => starter.join(),
        Err(error) => lost(shared, SAMPLER, &error),
    }
    threads.extend(told);
    if lock(&shared.listener).is_some() {
        threads.extend(spawn(shared, "dashcam-control", remote::run));
    }
    if shared.endpoint.is_some() {
        threads.extend(spawn(shared, "dashcam-openmetrics", scrape::run));
    }
    threads
}

fn spawn(
    shared: &Arc<Shared>,
    name: &'static str,
    body: fn(Arc<Shared>),
) -> Option<sys::thread::Quiet> {
    let own = shared.clone();
    let started = sys::thread::spawn_quiet(name, move || guarded(name, own, body));
    started.inspect_err(|error| lost(shared, name, error)).ok()
}

/// A thread could not be had. The rest still records; captures by `snap` may be all that is left.
fn lost(shared: &Shared, name: &str, error: &std::io::Error) {
    if name == SAMPLER {
        shared.sampler_left.store(true, Ordering::Release);
    }
    shared.set_source(name, format!("off: {error}"));
}

/// Runs a thread of ours; a panic in it ends the thread, and is told by `status` and captures.
fn guarded(name: &str, shared: Arc<Shared>, body: fn(Arc<Shared>)) {
    let own = shared.clone();
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || body(own)));
    if let Err(why) = ended {
        shared.set_source(name, format!("off: ended by {}", internal_error(&*why)));
    }
    if name == SAMPLER {
        // Release: its last jobs are in the queue before the keeper sees that no more will come.
        shared.sampler_left.store(true, Ordering::Release);
        shared.job_came.notify_all();
    }
}

/// What a panic said, in a line; it may have gone to no stderr (`sys::ours`).
pub(crate) fn internal_error(why: &(dyn std::any::Any + Send)) -> String {
    let text = why.downcast_ref::<&str>().copied();
    let text = text.or(why.downcast_ref::<String>().map(String::as_str)).unwrap_or("");
    format!("an internal error ({text}); please report it")
}

/// Name of the sampler's thread.
const SAMPLER: &str = "dashcam-sampler";
