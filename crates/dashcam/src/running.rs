//! What runs in this process: the parts of the recording that was started, and whether this is a
//! forked child that has not started its own.
//!
//! How it works: `start` publishes the parts, `stop` takes them back; each part is passed to the
//! threads that need it, and only calls of the program come here. A forked child finds the parts in
//! `PARENT`, put there by the fork hook; the first call that records starts it afresh, by the
//! function that `start` left here, since what starts a recording lies above all that records.
//!
//! What it promises: one load to know whether this is such a child. Published parts are never
//! freed.

use std::sync::{Arc, Mutex, Weak};

use sampler::under_gil::UnderGil;
use sys::cell::StaticRef;
use sys::local::Listener;
use sys::thread::Quiet;

use crate::captures::queue::Queue;
use crate::captures::rollups_log::RollupsLog;
use crate::lock::lock;
use crate::recording::Recording;
use crate::triggers::alarms::Alarms;

/// The control socket, while it is open.
pub(crate) type Socket = Mutex<Option<Arc<Listener>>>;

/// A live stream, as `stop` and `status` know it.
pub(crate) trait LiveStream: Send + Sync {
    /// Writes what is there and ends it.
    fn close(&self) -> Result<(), String>;
    /// For `status`.
    fn json(&self) -> String;
}

/// The parts.
pub(crate) struct Running {
    pub recording: Arc<Recording>,
    pub queue: Arc<Queue>,
    pub alarms: Arc<Alarms>,
    pub rollups: Arc<RollupsLog>,
    pub under_gil: Arc<UnderGil>,
    pub socket: Arc<Socket>,
    pub endpoint: Option<Arc<openmetrics::Endpoint>>,
    pub streams: Mutex<Vec<Weak<dyn LiveStream>>>,
    pub threads: Mutex<Vec<Quiet>>,
    pub started_ns: u64,
}

impl Running {
    /// At the end of recording, on a thread whose descriptors they are: accepts no more clients,
    /// and wakes the threads that wait for one. Again does no harm.
    pub(crate) fn close_listeners(&self) {
        if let Some(listener) = lock(&self.socket).take() {
            listener.remove();
        }
        if let Some(endpoint) = &self.endpoint {
            endpoint.stop();
        }
    }
}

static RUNNING: StaticRef<Running> = StaticRef::empty();
/// In a forked child, until it has started afresh: what its parent ran with.
static PARENT: StaticRef<Running> = StaticRef::empty();
/// What starts a forked child afresh.
static RESTART: StaticRef<fn()> = StaticRef::empty();

/// The parts, while a recording is started.
pub(crate) fn running() -> Option<&'static Running> {
    RUNNING.get()
}

/// They run from here on, and forked children are started by `restart`.
pub(crate) fn publish(parts: &'static Running, restart: &'static fn()) {
    RESTART.set(Some(restart));
    RUNNING.set(Some(parts));
}

/// They run no more.
pub(crate) fn take_back() -> Option<&'static Running> {
    let parts = RUNNING.get();
    RUNNING.set(None);
    parts
}

/// In the child of a fork: what ran is its parent's. Whether something did. Two stores.
pub(crate) fn note_fork() -> bool {
    if let Some(parts) = take_back() {
        PARENT.set(Some(parts));
    }
    PARENT.get().is_some()
}

/// What this forked child's parent ran with, until `forget_parent`.
pub(crate) fn parent() -> Option<&'static Running> {
    PARENT.get()
}

/// The forked child runs by itself, or is not to.
pub(crate) fn forget_parent() {
    PARENT.set(None);
}

/// Whether a recorder runs (also while its output is paused).
pub fn is_started() -> bool {
    RUNNING.get().is_some()
}

/// Whether this is a forked child of a recorded process that has not started afresh yet. One load.
pub fn is_forked() -> bool {
    PARENT.get().is_some()
}

/// Starts the child of a fork afresh, with its parent's settings. Call where allocation and threads
/// are safe again, and not before there is something to record: many children only exec. Does
/// nothing when the parent did not record. Threads that come here at once wait for the first.
pub fn after_fork_child() {
    if let (Some(_), Some(restart)) = (PARENT.get(), RESTART.get()) {
        restart();
    }
}
