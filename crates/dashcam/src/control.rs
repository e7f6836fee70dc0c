//! Starting, stopping, forking; and what the threads share.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::Duration;

use format::json::{texts, Object};
use format::region::losses;
use recorder::Recorder;
use ring::{Place, Region};
use sampler::under_gil::UnderGil;
use samplers::python_stacks::RuntimeInfo;
use sys::cell::StaticRef;
use sys::claim::{Claim, Claimed};
use sys::local::Listener;
use sys::thread::Quiet;
use trigger::Repeats;

use crate::captures_log::Fired;
use crate::config::{check_all, Config};
use crate::excess::Excesses;
use crate::live::{self, Live};
use crate::stats::Stats;
use crate::{
    boxes, firing, forks, forward, meta, names, otlp, own, remote, sampler_thread, scrape, stream,
    threads, traces, windows,
};

/// The language runtime in this process, as its binding knows it.
#[derive(Clone, Default)]
pub struct Runtime {
    /// `CPython 3.11.7`; empty for none.
    pub name: String,
    /// Folders of its own library.
    pub stdlib: Vec<String>,
    /// Folders of installed packages.
    pub site: Vec<String>,
    /// Folders of those installed packages that are the service itself.
    pub application: Vec<String>,
    /// Folder of our own package.
    pub package: String,
    /// What the stack reader needs; None: no Python here, or why not in `no_stacks`.
    pub python: Option<RuntimeInfo>,
    /// Why stacks cannot be read, when they cannot.
    pub no_stacks: String,
}

/// Why recording did not start.
#[derive(Debug)]
pub struct StartError(String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// A capture to be written.
pub(crate) struct Job {
    pub reason: String,
    /// The text of the rules it was made under, where that is not the setting's.
    pub slow: Option<String>,
    /// The request that it is made for.
    pub fired: Option<Fired>,
    /// Who waits for the result.
    pub done: Option<SyncSender<Result<PathBuf, String>>>,
}

/// A capture that was written.
#[derive(Clone)]
pub(crate) struct Made {
    pub path: PathBuf,
    /// The time it reaches over.
    pub from_ns: u64,
    pub to_ns: u64,
}

/// What the host, the sampler and the keeper share.
pub(crate) struct Shared {
    pub live: Live,
    pub runtime: Runtime,
    pub recorder: &'static Recorder,
    /// Set once; both threads leave.
    pub stop: AtomicBool,
    /// The sampler has left (or never came): no more jobs will follow, the keeper may leave too.
    pub sampler_left: AtomicBool,
    pub sources: Mutex<Vec<(String, String)>>,
    pub jobs: Mutex<VecDeque<Job>>,
    pub job_came: Condvar,
    /// Raised by who wants the open states in the ring; answered by the sampler in `flushed`.
    pub flush_wanted: AtomicU64,
    pub flushed: AtomicU64,
    /// A capture is being written.
    pub saving: AtomicBool,
    pub captures: Mutex<Vec<Made>>,
    pub last_error: Mutex<String>,
    pub streams: Mutex<Vec<Weak<stream::Inner>>>,
    pub listener: Mutex<Option<Arc<Listener>>>,
    /// What was in the trigger's mailboxes before this start: slow, failed, chosen.
    pub seen: [u64; 3],
    /// Type of the uncaught exception that ends the program.
    pub crash: Mutex<Option<String>>,
    /// Causes that were captured lately, for `repeat_after`.
    pub repeats: Mutex<Repeats<firing::Cause>>,
    /// To be dropped by the keeper: that takes the kernel up to 50 ms.
    pub retired: Mutex<Option<sys::perf::Wakings>>,
    /// Whether SIGUSR2 was ours at the last look; 2: not looked yet.
    pub signal_is_ours: AtomicU8,
    pub stats: Stats,
    /// Metrics over a limit, on their way to the sampler.
    pub excesses: Excesses,
    pub under_gil: Arc<UnderGil>,
    pub endpoint: Option<Arc<openmetrics::Endpoint>>,
    /// What the recorder had counted before this start.
    pub before: own::Before,
}

/// A lock that a panic elsewhere cannot make unusable: the data behind it are lists and texts that
/// are whole at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Shared {
    /// The settings that hold now.
    pub(crate) fn config(&self) -> &'static Config {
        self.live.get()
    }

    /// Requests begun, and those that ended past their limit.
    pub(crate) fn requests(&self) -> (u64, u64) {
        own::requests(self.recorder)
    }

    /// Answers of the OpenMetrics endpoint, and clients it turned away.
    pub(crate) fn scrapes(&self) -> (u64, u64) {
        self.endpoint.as_ref().map_or((0, 0), |endpoint| endpoint.counts())
    }

    pub(crate) fn set_source(&self, name: &str, state: String) {
        let mut sources = lock(&self.sources);
        match sources.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = state,
            None => sources.push((name.to_owned(), state)),
        }
    }

    pub(crate) fn retire(&self, wakings: Option<sys::perf::Wakings>) {
        *lock(&self.retired) = wakings;
    }

    pub(crate) fn stopping(&self) -> bool {
        // Relaxed: polled; the join that follows orders everything.
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn post(&self, job: Job) {
        lock(&self.jobs).push_back(job);
        self.job_came.notify_one();
    }

    /// Stores what a recovered capture needs to know in the black box itself.
    pub(crate) fn store_settings(&self) {
        let sources = lock(&self.sources).clone();
        let text = meta::standing(self.config(), &self.runtime, &sources).finish();
        let id = self.recorder.tables().long_text(&text);
        let slot = self.recorder.region().header(format::region::word::SETTINGS);
        slot.store(u64::from(id), Ordering::Release);
    }
}

struct Control {
    shared: Arc<Shared>,
    threads: Mutex<Vec<Quiet>>,
    started_ns: u64,
}

/// The running recorder of this process.
static CONTROL: StaticRef<Control> = StaticRef::empty();
/// In a forked child, until it has started afresh: what its parent ran with.
static PARENT: StaticRef<Control> = StaticRef::empty();
/// Whether forked children are told that they are. Written while recording is being started, behind
/// the registration: a child that was forked in between registers again, and our hooks may run
/// twice. Not a `Once`, which such a child would wait for as long as it lives.
static FORK_HOOK: AtomicBool = AtomicBool::new(false);

/// What the running recorder's parts share.
pub(crate) fn shared() -> Option<Arc<Shared>> {
    CONTROL.get().map(|control| control.shared.clone())
}

/// Whether a recorder runs (also while its output is paused).
pub fn is_started() -> bool {
    CONTROL.get().is_some()
}

/// Held while recording is being started. A claim and not a lock: a child forked meanwhile, in which
/// the claimer's thread does not exist, takes it over.
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
/// where it was on already, or no memory; nothing has changed then.
pub fn start_with_runtime(
    given: &[(String, String)],
    runtime: Runtime,
) -> Result<bool, StartError> {
    contained(|| start_now(given, runtime)).unwrap_or_else(|why| Err(StartError(why)))
}

/// What `body` returns, or what an internal error of ours said: none of them reaches the host.
fn contained<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    ended.map_err(|why| threads::internal_error(&*why))
}

fn start_now(given: &[(String, String)], runtime: Runtime) -> Result<bool, StartError> {
    check_settings(given)?;
    let Some(_starting) = Starting::claim() else { return Ok(false) };
    if CONTROL.get().is_some() {
        return Ok(false);
    }
    let config = Config::load(given).map_err(|e| StartError(e.to_string()))?;
    for complaint in &config.complaints {
        say(complaint);
    }
    metrics::registry().set_most(config.metrics_series);
    metrics::registry().turn(config.enabled);
    if !config.enabled {
        PARENT.set(None);
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
    PARENT.set(None);
    Ok(started)
}

/// Refuses what `start` would: names that no setting has, and values that do not fit theirs.
pub fn check_settings(given: &[(String, String)]) -> Result<(), StartError> {
    check_all(given).map_err(|e| StartError(e.to_string()))
}

fn start_with(config: Config, runtime: Runtime) -> Result<bool, StartError> {
    let recorder = match recorder::current() {
        Some(recorder) => {
            live::judge_by(recorder, config.rules.clone());
            recorder
        }
        None => new_recorder(&config)?,
    };
    let endpoint = scrape::endpoint(&config, recorder);
    let shared = Arc::new(Shared {
        repeats: Mutex::new(Repeats::new(config.repeat_after_ns)),
        live: Live::new(config),
        runtime,
        recorder,
        stop: AtomicBool::new(false),
        sampler_left: AtomicBool::new(false),
        sources: Mutex::default(),
        jobs: Mutex::default(),
        job_came: Condvar::new(),
        flush_wanted: AtomicU64::new(0),
        flushed: AtomicU64::new(0),
        saving: AtomicBool::new(false),
        captures: Mutex::default(),
        last_error: Mutex::default(),
        streams: Mutex::default(),
        listener: Mutex::default(),
        seen: firing::seen(recorder),
        crash: Mutex::default(),
        retired: Mutex::default(),
        signal_is_ours: AtomicU8::new(2),
        stats: Stats::default(),
        excesses: Excesses::default(),
        under_gil: Arc::default(),
        endpoint,
        before: own::Before::of(recorder),
    });
    firing::judge_errors(&shared, shared.config().error_rules.clone());
    firing::take_signal(&shared);
    sampler_thread::announce(&shared);
    // Once here, for a process that is killed at once, and again when the sources are known.
    shared.store_settings();
    names::learn_all(recorder);
    forks::record_into(recorder);
    forward::start();
    recorder::install(recorder);
    if !shared.config().enabled {
        // The parent of this forked child had been turned off.
        recorder::pause();
    }
    *lock(&shared.listener) = remote::open(&shared);
    let threads = threads::start(&shared);
    otlp::start(&shared);
    let started_ns = sys::clock::now_ns();
    let control = Control { shared, threads: Mutex::new(threads), started_ns };
    CONTROL.set(Some(Box::leak(Box::new(control))));
    Ok(true)
}

/// A box takes at most this part of the memory that is to be had.
const SHARE_OF_AVAILABLE: u64 = 8;

/// With less address space than this left the program may miss what the box, our stacks and the C library's arenas
/// for our threads take: together some 400 MiB.
const LEAST_ADDRESS_SPACE: u64 = 1 << 30;

fn new_recorder(config: &Config) -> Result<&'static Recorder, StartError> {
    if let Some(left) = sys::room::address_space_left().filter(|left| *left < LEAST_ADDRESS_SPACE) {
        let (found, want) = (left >> 20, LEAST_ADDRESS_SPACE >> 20);
        return Err(StartError(format!(
            "address space: found {found} MiB left, wanted {want}; raise RLIMIT_AS (ulimit -v)"
        )));
    }
    let pid = std::process::id();
    let bytes = affordable(config.memory);
    let region = match boxes::folder() {
        Ok(folder) => {
            boxes::tidy(&folder);
            Region::create(&boxes::path(&folder, &config.service), bytes, pid)
        }
        Err(why) => Region::in_process(bytes, pid, &why),
    };
    let region = region.map_err(|error| {
        let mib = bytes >> 20;
        StartError(format!("memory: found {error}, wanted {mib} MiB; use a smaller memory="))
    })?;
    Ok(Recorder::new(region, live::limit_of(config.rules.clone())))
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

/// One line on stderr. A closed or broken stderr is the host's business, and no reason to fail.
pub(crate) fn say(text: &str) {
    sys::stderr::line(&format!("dashcam: {text}"));
}

/// Stops recording and waits for our threads, at most two seconds, for StatsD's lines, at most
/// half a second, and for what goes out by OTLP, at most two. What was recorded stays in the
/// black box; a later `start` goes on in it.
pub fn stop() {
    // An internal error has been said by whoever panicked.
    let _ = contained(stop_now);
}

fn stop_now() {
    if PARENT.get().is_some() {
        // A forked child that never recorded is not to begin now.
        PARENT.set(None);
        recorder::pause();
    }
    let Some(control) = CONTROL.get() else { return };
    CONTROL.set(None);
    let shared = &control.shared;
    for stream in lock(&shared.streams).drain(..).filter_map(|stream| stream.upgrade()) {
        // A sink that broke has said so.
        let _ = stream.close();
    }
    shared.stop.store(true, Ordering::Relaxed);
    shared.recorder.nap().wake();
    shared.job_came.notify_all();
    if let Some(listener) = lock(&shared.listener).take() {
        listener.remove();
    }
    if let Some(endpoint) = &shared.endpoint {
        endpoint.stop();
    }
    let deadline_ns = sys::clock::now_ns() + 2_000_000_000;
    for thread in lock(&control.threads).drain(..) {
        while !thread.is_finished() && sys::clock::now_ns() < deadline_ns {
            sys::thread::pause_for(Duration::from_millis(2));
            shared.job_came.notify_all();
        }
        if thread.is_finished() {
            thread.join();
        }
    }
    if shared.saving.load(Ordering::Acquire) {
        shared.recorder.region().lose(losses::CAPTURES_FAILED, 1);
        say("a capture is not whole 2 s after the end of recording, and lost if the process ends now; \
             wanted a smaller --memory or a faster disk");
    }
    // A program may end right behind this: the last window is on its way by then.
    forward::flush(Duration::from_millis(500));
    otlp::stop(Duration::from_secs(2));
    recorder::pause();
}

/// An uncaught exception of this type is about to end the program: with `at_exit="crash"` the
/// capture at the end says so. For bindings.
pub fn crashing(kind: &str) {
    if let Some(shared) = shared() {
        *lock(&shared.crash) = Some(kind.to_owned());
    }
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
    if let Some(control) = CONTROL.get() {
        PARENT.set(Some(control));
        CONTROL.set(None);
    }
    otlp::forget();
    forward::forget();
    traces::forget();
    if PARENT.get().is_some() {
        recorder::sleep();
    }
}

/// Whether this is a forked child of a recorded process that has not started afresh yet. One load.
pub fn is_forked() -> bool {
    PARENT.get().is_some()
}

/// Starts the child of a fork afresh, with its parent's settings. Call where allocation and threads
/// are safe again, and not before there is something to record: many children only exec. Does
/// nothing when the parent did not record. Threads that come here at once wait for the first.
pub fn after_fork_child() {
    if PARENT.get().is_none() {
        return;
    }
    if contained(start_in_child).is_err() {
        PARENT.set(None);
        recorder::pause();
    }
}

fn start_in_child() {
    let Some(_starting) = Starting::claim() else { return };
    let Some(parent) = PARENT.get() else { return };
    let (config, runtime) = (parent.shared.config().clone(), parent.shared.runtime.clone());
    if let Err(error) = start_with(config, runtime) {
        say(&format!("not recording in the forked process {}: {error}", std::process::id()));
        recorder::pause();
    }
    // Only now: who comes meanwhile waits above, and finds it started.
    PARENT.set(None);
}

/// Saves a capture now and waits for it. Errors say what could not be written and why.
pub fn snap(reason: &str) -> Result<PathBuf, String> {
    after_fork_child();
    let Some(control) = CONTROL.get() else {
        return Err("dashcam is not recording; call dashcam.start() first".to_owned());
    };
    let (done, result) = sync_channel(1);
    let (reason, done) = (reason.to_owned(), Some(done));
    control.shared.post(Job { reason, slow: None, fired: None, done });
    match result.recv_timeout(Duration::from_secs(30)) {
        Ok(result) => result,
        Err(_) => Err("the capture was not written within 30 s".to_owned()),
    }
}

/// The state of the recorder as JSON.
pub fn status_json() -> String {
    after_fork_child();
    let failed = |why: String| Object::new().flag("on", false).text("last_error", &why).finish();
    contained(status_now).unwrap_or_else(failed)
}

fn status_now() -> String {
    let Some(control) = CONTROL.get() else {
        return Object::new().flag("on", false).finish();
    };
    let shared = &control.shared;
    let region = shared.recorder.region();
    let sources = lock(&shared.sources).clone();
    let captures = lock(&shared.captures);
    let captures: Vec<String> =
        captures.iter().map(|made| made.path.display().to_string()).collect();
    let (place, why) = match region.place() {
        Place::File(path) => (path.display().to_string(), String::new()),
        Place::Process(why) => ("process memory".to_owned(), why.clone()),
    };
    let mut streams = lock(&shared.streams);
    streams.retain(|stream| stream.strong_count() > 0);
    let streams: Vec<String> =
        streams.iter().filter_map(|s| s.upgrade()).map(|s| s.json()).collect();
    let (requests, slow) = shared.requests();
    let mut open = 0;
    shared.recorder.open_requests().each(|_| open += 1);
    Object::new()
        .flag("on", recorder::is_on())
        .text("service", &shared.config().service)
        .int("pid", u64::from(std::process::id()))
        .text("box", &place)
        .text("box_not_in_a_file_because", &why)
        .raw("settings", &meta::settings(shared.config()))
        .raw("sources", &meta::sources(&sources))
        .raw("losses", &meta::loss_counts(region))
        .raw("descriptors", &meta::descriptors())
        .raw("repeated", &firing::repeated(shared))
        .raw("sampler", &shared.stats.json(control.started_ns, shared.config().budget_percent))
        .int("open_requests", open)
        .raw("metrics", &windows::json())
        .raw("statsd", &forward::json())
        .raw("openmetrics", &scrape::json(shared))
        .raw("otlp", &otlp::json())
        .int("requests", requests)
        .int("slow_requests", slow)
        .raw("streams", &format!("[{}]", streams.join(",")))
        .raw("captures", &texts(captures.iter().map(String::as_str)))
        .text("last_error", &lock(&shared.last_error))
        .finish()
}
