//! Starting, stopping, forking, asking for a capture.
//!
//! How it works: `start` makes the parts of a recording, passes to each thread those that it needs,
//! and publishes them (`running`). What it promises: a panic of ours does not reach the host.

use std::cell::Cell;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use format::region::losses;
use format::source::SourceState;
use recorder::Recorder;
use ring::{Place, Region};
use settings::{check_all, load, Config, Loaded};
use sys::claim::{Claim, Claimed};

use crate::api::names;
use crate::api::traces;
use crate::captures::queue::{Job, Queue};
use crate::captures::rollups_log::RollupsLog;
use crate::control_socket::remote;
use crate::exports::otlp;
use crate::lock::{contained, lock};
use crate::metrics::forward;
use crate::metrics::own::Before;
use crate::metrics::scrape;
use crate::process::boxes;
use crate::process::forks;
use crate::recording::growth::SHARE_OF_AVAILABLE;
use crate::recording::runtime::Runtime;
use crate::recording::Recording;
use crate::running;
use crate::running::{after_fork_child, is_forked, is_started, running, Running};
use crate::say::say;
use crate::settings::judge::{judge_by, judge_errors, limit_of};
use crate::threads;
use crate::threads::sampler_thread;
use crate::triggers::alarms::Alarms;
use crate::triggers::signal;

/// Why recording did not start.
#[derive(Debug)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// Whether forked children learn that they are forked. Written while recording is being started,
/// behind the registration: a child that was forked in between registers again, and our hooks may
/// run twice. Not a `Once`, which such a child would wait for as long as it lives.
static FORK_HOOK: AtomicBool = AtomicBool::new(false);

/// Held while recording is being started, or stopped. A claim and not a lock: a child forked
/// meanwhile, in which the claimer's thread does not exist, takes it over.
struct Starting(Option<Claimed<'static>>);
thread_local! {
    /// This thread holds it: what it runs meanwhile (a signal handler, an allocator that records)
    /// must not wait for it.
    static STARTS: Cell<bool> = const { Cell::new(false) };
}
static STARTING: Claim = Claim::free();

impl Starting {
    /// None: this thread holds it already.
    fn claim() -> Option<Starting> {
        if STARTS.replace(true) {
            return None;
        }
        loop {
            if let Some(held) = STARTING.take() {
                return Some(Starting(Some(held)));
            }
            sys::thread::pause_for(Duration::from_millis(1));
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        // In this order: a signal handler in between must not wait for its own thread.
        drop(self.0.take());
        STARTS.set(false);
    }
}

/// Starts recording with settings `given` (name, value), for a binding that knows its language's
/// `runtime`. False: it was on already, or is turned off by its settings. In a forked child that
/// has not recorded yet, these settings replace its parent's. Errors: a wrong value or name, also
/// where it was on already, or no memory; nothing has changed then. It reads the environment as it
/// was at the last `sys::environment::copy`, which the binding calls first.
pub fn start_with_runtime(
    given: &[(String, String)],
    runtime: Runtime,
) -> Result<bool, StartError> {
    contained(|| start_now(given, runtime)).unwrap_or_else(|why| Err(StartError(why)))
}

fn start_now(given: &[(String, String)], runtime: Runtime) -> Result<bool, StartError> {
    check_settings(given)?;
    let Some(_starting) = Starting::claim() else { return Ok(false) };
    if is_started() {
        return Ok(false);
    }
    let Loaded { config, complaints } =
        load(given, sys::environment::all()).map_err(|e| StartError(e.to_string()))?;
    for complaint in &complaints {
        say(complaint);
    }
    metrics::registry().set_most(config.metrics_series as usize);
    metrics::registry().turn(config.enabled);
    if !config.enabled {
        running::forget_parent();
        recorder::pause();
        return Ok(false);
    }
    if !FORK_HOOK.load(Ordering::Relaxed) {
        // An error (no memory for the hook) only means that a child does not start by itself.
        let (before, behind) = (forks::before, forks::behind);
        let _ = sys::fork::register(Some(before), Some(behind), Some(on_fork_child));
        FORK_HOOK.store(true, Ordering::Relaxed);
    }
    sys::stderr::note();
    let started = start_with(config, runtime)?;
    running::forget_parent();
    Ok(started)
}

/// Refuses what `start` would: names that no setting has, and values that do not fit theirs.
pub fn check_settings(given: &[(String, String)]) -> Result<(), StartError> {
    check_all(given).map_err(|e| StartError(e.to_string()))
}

/// Starts, with all files that this takes in a table of descriptors of our own.
fn start_with(config: Config, runtime: Runtime) -> Result<bool, StartError> {
    let made = sys::own_table::run("dashcam-start", move |apart| {
        // What this thread runs must not wait for the one that waits for it.
        STARTS.set(true);
        contained(|| make(config, runtime, apart)).unwrap_or_else(|why| Err(StartError(why)))
    });
    let ended = || Err(StartError("ended by an internal error; please report it".to_owned()));
    let parts = made.unwrap_or_else(ended)?;
    // In the host's table: it may resolve names (`sys::ours`).
    otlp::start(&parts.recording);
    const RESTART: &fn() = &(restart as fn());
    running::publish(parts, RESTART);
    Ok(true)
}

/// The parts of a recording, and their threads, which get the calling thread's descriptors.
/// `apart`: whether these are our own.
fn make(
    config: Config,
    runtime: Runtime,
    apart: std::io::Result<()>,
) -> Result<&'static Running, StartError> {
    let recorder = match recorder::current() {
        Some(recorder) => {
            judge_by(recorder, config.slow.rules.clone());
            boxes::rename(recorder.region(), &config.service);
            recorder
        }
        None => new_recorder(&config, apart.is_ok())?,
    };
    if let (Ok(()), Place::File(path)) = (&apart, recorder.region().place()) {
        boxes::hold(path);
    }
    let queue = Arc::new(Queue::default());
    let endpoint = scrape::endpoint(&config, recorder, &queue);
    let alarms = Arc::new(Alarms::new(recorder, config.repeat_after_ns));
    let before = Before::of(recorder);
    let recording = Arc::new(Recording::new(recorder, config, runtime));
    judge_errors(recorder, recording.config().on_error.rules.clone());
    signal::take_signal(&recording, &alarms);
    sampler_thread::announce(&recording);
    // Once here, for a process that is killed at once, and again when the sources are known.
    recording.store_settings();
    names::learn_all(recorder);
    forks::record_into(recorder);
    forward::start();
    recorder::install(recorder);
    if !recording.config().enabled {
        // The parent of this forked child had been turned off.
        recorder::pause();
    }
    let state = apart.map_or_else(SourceState::off, |()| SourceState::On);
    recording.set_source("own_descriptors", state);
    let socket = Mutex::new(remote::open(&recording));
    let parts: &'static Running = Box::leak(Box::new(Running {
        recording,
        queue,
        alarms,
        rollups: Arc::new(RollupsLog::new()),
        under_gil: Arc::default(),
        socket: Arc::new(socket),
        endpoint,
        streams: Mutex::default(),
        threads: Mutex::default(),
        started_ns: sys::clock::now_ns(),
    }));
    *lock(&parts.threads) = threads::start(parts, before, stop);
    Ok(parts)
}

/// With less address space than this left the program may lack what the box, our stacks and the C
/// library's arenas for our threads take: together some 400 MiB.
const LEAST_ADDRESS_SPACE: u64 = 1 << 30;

fn new_recorder(config: &Config, is_apart: bool) -> Result<&'static Recorder, StartError> {
    if let Some(left) = sys::room::address_space_left().filter(|left| *left < LEAST_ADDRESS_SPACE) {
        let (found, want) = (left >> 20, LEAST_ADDRESS_SPACE >> 20);
        return Err(StartError(format!(
            "address space: found {found} MiB left, wanted {want}; raise RLIMIT_AS (ulimit -v)"
        )));
    }
    let pid = std::process::id();
    let bytes = affordable(config.memory_bytes as usize);
    let folder = boxes::folder().inspect(|folder| boxes::tidy(folder));
    let path = folder.map(|folder| boxes::path(&folder, &config.service));
    let hidden = path.as_deref().map(boxes::hidden).map_err(String::clone);
    let region = Region::create(hidden, bytes, pid).map_err(|error| {
        let mib = bytes >> 20;
        StartError(format!("memory: found {error}, wanted {mib} MiB; use a smaller memory="))
    })?;
    if let Ok(path) = path {
        boxes::publish(&region, &path, &config.service, is_apart);
    }
    Ok(Recorder::new(region, limit_of(config.slow.rules.clone())))
}

/// The wanted size, halved until it is a small part of what is left to this process: in a tight
/// container a smaller box beats a killed service.
fn affordable(wanted: usize) -> usize {
    let most = sys::room::available_bytes() / SHARE_OF_AVAILABLE;
    let mut bytes = wanted;
    while bytes as u64 > most && bytes / 2 >= format::region::MIN_BYTES {
        bytes = (bytes / 2) & !4095;
    }
    if bytes < wanted {
        let (found, want) = (bytes >> 20, wanted >> 20);
        say(&format!("memory: taking {found} MiB of the {want} MiB wanted: little is available"));
    }
    bytes
}

/// Stops recording and waits for our threads, at most two seconds, for StatsD's lines, at most half
/// a second, and for what goes out by OTLP, at most two. What was recorded is left in the black
/// box; a later `start` goes on in it.
pub fn stop() {
    // An internal error has been reported by the thread that panicked.
    let _ = contained(stop_now);
}

fn stop_now() {
    // A start meanwhile waits: the end of this would turn it off. None: a signal handler of this
    // thread, which starts just now, stops.
    let _stopping = Starting::claim();
    if is_forked() {
        // A forked child that never recorded is not to begin now.
        running::forget_parent();
        recorder::pause();
    }
    let Some(parts) = running::take_back() else { return };
    for stream in lock(&parts.streams).drain(..).filter_map(|stream| stream.upgrade()) {
        // A sink that broke has said so.
        let _ = stream.close();
    }
    let (recording, queue) = (&parts.recording, &parts.queue);
    recording.stop();
    recording.recorder.nap().wake_for_due();
    queue.notify();
    let deadline_ns = sys::clock::now_ns() + 2_000_000_000;
    let mut have_ended = true;
    for thread in lock(&parts.threads).drain(..) {
        while !thread.is_finished() && sys::clock::now_ns() < deadline_ns {
            sys::thread::pause_for(Duration::from_millis(2));
            queue.notify();
        }
        match thread.is_finished() {
            true => thread.join(),
            false => have_ended = false,
        }
    }
    if queue.is_saving() {
        recording.recorder.region().lose(losses::CAPTURES_FAILED, 1);
        say("a capture is not whole 2 s after the end of recording, and lost if the process ends now; \
             wanted a smaller --memory or a faster disk");
    }
    // A program may end right behind this: the last window is on its way by then.
    forward::flush(Duration::from_millis(500));
    otlp::stop(Duration::from_secs(2));
    recorder::pause();
    if have_ended {
        // Requests that ended since `dashcam-capture` did; it has shown that the folder answers.
        sys::own_table::run("dashcam-end", |_| parts.rollups.end(&parts.recording));
    }
}

/// An uncaught exception of this type is about to end the program: with `at_exit="crash"` the
/// capture at the end says so. For bindings.
pub fn crashing(kind: &str) {
    if let Some(parts) = running() {
        *lock(&parts.alarms.crash) = Some(kind.to_owned());
    }
}

/// Whether slow requests are in no capture yet: `before_exit` would save one. A few loads.
pub fn owes_a_capture() -> bool {
    running().is_some_and(|parts| parts.recording.owes_a_capture())
}

/// Stops, and removes the black box: the process ends in order. Writes a capture that was due.
pub fn before_exit() {
    stop();
    let _ = contained(close);
}

fn close() {
    forward::close();
    if let Some(Place::File(path)) = recorder::current().map(|r| r.region().place()) {
        let _ = std::fs::remove_file(path);
    }
}

/// Runs in every forked child before any code of the host: only atomics and syscalls. Twice does no
/// harm.
extern "C" fn on_fork_child() {
    if let Some(recorder) = recorder::forget_after_fork() {
        recorder.region().release_after_fork();
    }
    sys::ours::close_all();
    let is_recorded = running::note_fork();
    otlp::forget();
    forward::forget();
    traces::forget();
    if is_recorded {
        recorder::sleep();
    }
}

/// `after_fork_child`, where there is something to start.
fn restart() {
    if contained(start_in_child).is_err() {
        running::forget_parent();
        recorder::pause();
    }
}

fn start_in_child() {
    let Some(_starting) = Starting::claim() else { return };
    let Some(parent) = running::parent() else { return };
    let recording = &parent.recording;
    let (config, runtime) = (recording.config().clone(), recording.runtime.clone());
    if let Err(error) = start_with(config, runtime) {
        say(&format!("not recording in the forked process {}: {error}", std::process::id()));
        recorder::pause();
    }
    // Only now: a thread that comes meanwhile waits above, and finds it started.
    running::forget_parent();
}

/// Saves a capture now and waits for it. Errors say what could not be written and why.
pub fn snap(reason: &str) -> Result<PathBuf, String> {
    after_fork_child();
    let Some(parts) = running() else {
        return Err("dashcam is not recording; call dashcam.start() first".to_owned());
    };
    let (done, result) = sync_channel(1);
    let (reason, done) = (reason.to_owned(), Some(done));
    parts.queue.post(Job { reason, slow: None, fired: None, reaches_ns: None, done });
    match result.recv_timeout(Duration::from_secs(30)) {
        Ok(result) => result,
        Err(_) => Err("the capture was not written within 30 s".to_owned()),
    }
}
