//! Live export by OTLP: the requests worth it, with their spans, and the metrics, to a collector.
//!
//! How it works: one thread, `dashcam-otlp`, reads once a second what is new in the box (`scan`)
//! and chooses among the requests that ended (`choose`). A second later, when other threads' spans
//! of them are there too, it copies their records, as a capture does (`gather`). Bodies wait in a
//! queue bounded in bytes (`queue`) and are posted by the same thread.
//!
//! ```text
//!  host's threads > box ....> scan > choose > gather > queue > HTTP
//!           dashcam-capture > windows of metrics > series ^
//! ```
//! What it promises: a thread that records pays nothing for it, and never waits for the network:
//! the decision falls when the request is over (tail sampling), and its records are in the box
//! anyway. Every span and point is accounted for. Requests that were overwritten before we came are
//! counted. A forked child begins anew, with nothing of its parent's.
//!
//! What is missing on purpose: spans outside of requests, and what the recorder saw (waits,
//! awaits): captures have them. docs/otlp.md; docs/decisions/0012 has what was weighed.

mod choose;
mod gather;
mod names;
mod queue;
mod scan;
mod series;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ::metrics::window::Window;
use ::otlp::env::Settings;
use ::otlp::{Attribute, Resource, Scope};
use format::json::Object;
use format::record::Record;
use format::source::SourceState;
use recorder::Recorder;
use sys::cell::StaticRef;

use crate::lock::lock;
use crate::recording::Recording;
use crate::say::say;

use choose::{Chooser, Chosen};
use gather::Gatherer;
use queue::{Item, Queue, Signal};
use scan::Scan;
use series::Series;

/// Between two scans.
const EVERY: Duration = Duration::from_secs(1);
/// The longest that posting keeps us from scanning.
const MOST_POSTING: Duration = Duration::from_secs(5);
/// Spans of one request.
const SPANS: usize = 1000;
/// A collector that is gone is reported after this long, and then at most once in `QUIET`.
const PATIENCE: Duration = Duration::from_secs(3);
const QUIET: Duration = Duration::from_secs(300);
const SCOPE: Scope<'static> = Scope { name: "dashcam", version: env!("CARGO_PKG_VERSION") };

/// What the thread and its callers share. One for each start, never freed.
struct Live {
    settings: Settings,
    resource: Resource<'static>,
    share: f64,
    started_ns: u64,
    recorder: &'static Recorder,
    queue: Mutex<Queue>,
    series: Mutex<(Series, Instant)>,
    /// Something is wanted of the thread; guards nothing.
    came: Condvar,
    /// Flushes asked for and done.
    wanted: AtomicU64,
    done: AtomicU64,
    /// The end, by which all must be over.
    end: Mutex<Option<Instant>>,
    over: AtomicBool,
    counts: Mutex<Counts>,
}

/// For `status`.
#[derive(Clone, Copy, Default)]
struct Counts {
    slow: u64,
    failed: u64,
    share: u64,
    too_many: u64,
    incomplete: u64,
    left_out: u64,
    missed: u64,
    cpu_ns: u64,
}

static LIVE: StaticRef<Live> = StaticRef::empty();

/// At each start: begins to export if the settings or the environment name a collector. Wrong
/// settings are said, and nothing is sent.
pub(crate) fn start(recording: &Recording) {
    let config = recording.config();
    let settings = ::otlp::env::load(&config.otlp, sys::environment::text);
    settings.complaints.iter().for_each(|complaint| say(complaint));
    LIVE.set(None);
    if settings.traces.is_none() && settings.metrics.is_none() {
        return;
    }
    let live: &'static Live = Box::leak(Box::new(Live {
        resource: resource(recording, &settings),
        share: config.otlp_share / 100.0,
        started_ns: sys::clock::now_ns(),
        recorder: recording.recorder,
        queue: Mutex::default(),
        series: Mutex::new((Series::new(settings.temporality), Instant::now())),
        came: Condvar::new(),
        wanted: AtomicU64::new(0),
        done: AtomicU64::new(0),
        end: Mutex::default(),
        over: AtomicBool::new(false),
        counts: Mutex::default(),
        settings,
    }));
    LIVE.set(Some(live));
    if let Err(error) = sys::thread::spawn_quiet("dashcam-otlp", move || guarded(live)) {
        live.over.store(true, Ordering::Release);
        recording.set_source("otlp", SourceState::off(format_args!("no thread: {error}")));
    } else {
        recording.set_source("otlp", SourceState::On);
    }
}

/// Takes a window, on `dashcam-capture`.
pub(crate) fn window(window: &Window) {
    if let Some(live) = LIVE.get() {
        live.window(window);
    }
}

/// In a forked child: nothing of its parent's is used. One store.
pub(crate) fn forget() {
    LIVE.set(None);
}

/// Sends what ended and was counted so far. False: it is not all settled after `timeout`.
pub(crate) fn flush(timeout: Duration) -> bool {
    wait(timeout, true)
}

/// The same for callers that cannot wait: also false once it was tried and nobody took it.
pub(crate) fn flush_if_heard(timeout: Duration) -> bool {
    wait(timeout, false)
}

fn wait(timeout: Duration, unheard: bool) -> bool {
    let Some(live) = LIVE.get() else { return true };
    let deadline = Instant::now() + timeout;
    let wanted = live.wanted.fetch_add(1, Ordering::AcqRel) + 1;
    while live.done.load(Ordering::Acquire) < wanted || !lock(&live.queue).is_empty() {
        let is_tried = live.done.load(Ordering::Acquire) >= wanted;
        let is_vain = !unheard && is_tried && lock(&live.queue).down_since.is_some();
        if Instant::now() >= deadline || is_vain || live.over.load(Ordering::Acquire) {
            return lock(&live.queue).is_empty();
        }
        live.came.notify_all();
        sys::thread::pause(1_000_000);
    }
    true
}

/// Recording stops: what ended goes out, within `timeout`; what does not is counted.
pub(crate) fn stop(timeout: Duration) {
    let Some(live) = LIVE.get() else { return };
    let deadline = Instant::now() + timeout;
    *lock(&live.end) = Some(deadline);
    // A little longer, for the thread to write its accounts.
    let late = deadline + Duration::from_millis(100);
    while !live.over.load(Ordering::Acquire) && Instant::now() < late {
        live.came.notify_all();
        sys::thread::pause(1_000_000);
    }
}

/// For `status`; "off" when there is no collector.
pub(crate) fn json() -> String {
    let Some(live) = LIVE.get() else { return "\"off\"".to_owned() };
    let shown = |endpoint: &Option<::otlp::Endpoint>| {
        endpoint.as_ref().map_or_else(|| "off".to_owned(), ToString::to_string)
    };
    let counts = *lock(&live.counts);
    let chosen = Object::new()
        .int("slow", counts.slow)
        .int("failed", counts.failed)
        .int("share", counts.share)
        .finish();
    let queue = lock(&live.queue);
    let mut out = Object::new()
        .text("traces", &shown(&live.settings.traces))
        .text("metrics", &shown(&live.settings.metrics))
        .number("share_percent", live.share * 100.0)
        .raw("chosen_requests", &chosen)
        .int("requests_over_limit", counts.too_many)
        .int("incomplete_requests", counts.incomplete)
        .int("records_left_out", counts.left_out)
        .int("records_missed", counts.missed);
    for (name, books) in [("spans", queue.books[0]), ("points", queue.books[1])] {
        let counts = Object::new()
            .int("produced", books.produced)
            .int("sent", books.sent)
            .int("refused", books.refused)
            .int("dropped", books.dropped)
            .int("waiting", books.waiting)
            .finish();
        out = out.raw(name, &counts);
    }
    out.int("requests", queue.requests)
        .int("retried", queue.retried)
        .flag("down", queue.down_since.is_some())
        .text("last_error", &queue.last_error)
        .int("cpu_ns", counts.cpu_ns)
        .finish()
}

/// The process, by OpenTelemetry's semantic conventions. What the environment says comes first.
fn resource(recording: &Recording, settings: &Settings) -> Resource<'static> {
    let mut list: Vec<Attribute<'static>> = Vec::new();
    for (key, value) in &settings.resource {
        list.push((key.clone().into(), value.clone().into()));
    }
    let mut put = |key: &'static str, value: String| {
        if !value.is_empty() && !list.iter().any(|(before, _)| before == key) {
            list.push((key.into(), value.into()));
        }
    };
    put("service.name", recording.config().service.clone());
    let instance = format::ids::trace_id(recording.recorder.ids_seed(), ::otlp::traces::INSTANCE);
    put("service.instance.id", ::otlp::uuid(instance));
    put("host.name", crate::recording::meta::host());
    put("os.type", "linux".to_owned());
    if let Some((name, version)) = recording.runtime.name.split_once(' ') {
        put("process.runtime.name", name.to_lowercase());
        put("process.runtime.version", version.to_owned());
    }
    put("telemetry.distro.name", SCOPE.name.to_owned());
    put("telemetry.distro.version", SCOPE.version.to_owned());
    list.push(("process.pid".into(), std::process::id().into()));
    Resource { attributes: list }
}

/// The thread. A panic ends it, and what waits is lost and counted.
fn guarded(live: &'static Live) {
    let life = std::panic::AssertUnwindSafe(|| run(live));
    if std::panic::catch_unwind(life).is_err() {
        lock(&live.queue).last_error = "ended by an internal error; please report it".to_owned();
        say("otlp: ended by an internal error; nothing more is sent");
    }
    lock(&live.queue).drop_all();
    live.over.store(true, Ordering::Release);
}

struct SpanSource {
    scan: Scan,
    chooser: Chooser,
    gatherer: Gatherer,
    /// Chosen at the last scan.
    due: Vec<Chosen>,
    incomplete: u64,
    left_out: u64,
}

fn run(live: &'static Live) {
    recorder::name_thread("dashcam-otlp");
    let settings = &live.settings;
    if [&settings.traces, &settings.metrics]
        .into_iter()
        .flatten()
        .all(::otlp::Endpoint::is_resolved)
    {
        // An error: connections are in the host's table, like all descriptors of ours.
        let _ = sys::ours::move_apart();
    }
    let seed = live.recorder.ids_seed();
    let mut source = SpanSource {
        scan: Scan::default(),
        chooser: Chooser::new(seed, live.share),
        gatherer: Gatherer::default(),
        due: Vec::new(),
        incomplete: 0,
        left_out: 0,
    };
    let has_traces = live.settings.traces.is_some();
    let mut known = [Vec::new(), Vec::new()];
    let mut said = None;
    loop {
        let end = *lock(&live.end);
        let wanted = live.wanted.load(Ordering::Acquire);
        let hurries = end.is_some() || live.done.load(Ordering::Relaxed) < wanted;
        if has_traces {
            source.find(live, hurries);
        }
        live.send_metrics(hurries);
        post(live, &mut known, end, hurries);
        source.note(live);
        live.done.fetch_max(wanted, Ordering::Release);
        if end.is_some() {
            return;
        }
        live.complain(&mut said);
        live.rest(wanted);
    }
}

impl SpanSource {
    /// Finds the requests that ended, and puts the spans of those chosen into the queue. `hurries`:
    /// those chosen now as well; else they wait a scan for other threads' records of them.
    fn find(&mut self, live: &Live, hurries: bool) {
        let recorder = live.recorder;
        let (chooser, limits) = (&mut self.chooser, recorder.limits());
        let now_ns = sys::clock::now_ns();
        self.scan.visit(recorder.region(), now_ns, &mut |_, _, record| match record {
            // Of an earlier start.
            Record::RequestEnd { end_ns, .. } if end_ns < live.started_ns => (),
            record => chooser.see(limits, &record),
        });
        let fresh = std::mem::take(&mut self.chooser.chosen);
        let mut ready = std::mem::take(&mut self.due);
        match hurries {
            true => ready.extend(fresh),
            false => self.due = fresh,
        }
        if ready.is_empty() {
            return;
        }
        let to_epoch_ns = sys::clock::epoch_ns().wrapping_sub(sys::clock::now_ns());
        let (region, seed) = (recorder.region(), recorder.ids_seed());
        let gathered = self.gatherer.gather(region, seed, to_epoch_ns, &ready);
        self.incomplete += gathered.incomplete;
        self.left_out += gathered.left_out;
        for some in gathered.spans.chunks(SPANS) {
            let body = ::otlp::traces::request(&live.resource, &[(SCOPE, some)]).into();
            let (signal, count) = (Signal::Traces, some.len() as u64);
            lock(&live.queue).push(Item { signal, count, body });
        }
    }

    fn note(&self, live: &Live) {
        let [slow, failed, share] = self.chooser.counts;
        *lock(&live.counts) = Counts {
            slow,
            failed,
            share,
            too_many: self.chooser.too_many,
            incomplete: self.incomplete,
            left_out: self.left_out,
            missed: self.scan.missed,
            cpu_ns: sys::clock::thread_cpu_ns(),
        };
    }
}

impl Live {
    /// Takes a lock that is never held for long.
    fn window(&self, window: &Window) {
        if self.settings.metrics.is_some() {
            lock(&self.series).0.add(window);
        }
    }

    /// Puts the metrics into the queue when it is time, or when they are wanted now.
    fn send_metrics(&self, now: bool) {
        if self.settings.metrics.is_none() {
            return;
        }
        let metrics = {
            let mut held = lock(&self.series);
            let (series, last) = &mut *held;
            if !now && last.elapsed() < self.settings.interval {
                return;
            }
            *last = Instant::now();
            series.take()
        };
        let count = metrics.iter().map(|metric| metric.points.len() as u64).sum();
        if count > 0 {
            let body = ::otlp::metrics::request(&self.resource, SCOPE, &metrics).into();
            lock(&self.queue).push(Item { signal: Signal::Metrics, count, body });
        }
    }

    /// Sleeps until the next scan, or until something is wanted.
    fn rest(&self, seen: u64) {
        let until = Instant::now() + EVERY;
        loop {
            let end: MutexGuard<'_, Option<Instant>> = lock(&self.end);
            let left = until.saturating_duration_since(Instant::now());
            let is_wanted = end.is_some() || self.wanted.load(Ordering::Acquire) != seen;
            if is_wanted || left.is_zero() {
                return;
            }
            // A caller that wants something notifies again and again until it is done.
            drop(self.came.wait_timeout(end, left).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Says that nothing goes, when it lasts.
    fn complain(&self, said: &mut Option<Instant>) {
        let queue = lock(&self.queue);
        let is_long = queue.down_since.is_some_and(|since| since.elapsed() >= PATIENCE);
        if !is_long || said.is_some_and(|at| at.elapsed() < QUIET) {
            return;
        }
        let (error, room) = (queue.last_error.clone(), queue::MOST_BYTES >> 20);
        drop(queue);
        *said = Some(Instant::now());
        let to = self.settings.traces.as_ref().or(self.settings.metrics.as_ref());
        let to = to.map_or_else(String::new, ToString::to_string);
        say(&format!(
            "otlp: {to}: {error}; what is to be sent waits, up to {room} MiB, then the oldest is \
             dropped"
        ));
    }
}

/// Posts what waits, for a while. At the end: until the deadline, and not a second time. `known`:
/// the addresses found for traces and metrics.
fn post(live: &Live, known: &mut [Vec<SocketAddr>; 2], end: Option<Instant>, hurries: bool) {
    let until = end.unwrap_or_else(|| Instant::now() + MOST_POSTING);
    if hurries {
        lock(&live.queue).hurry();
    }
    loop {
        let now = Instant::now();
        let left = until.saturating_duration_since(now);
        let Some(item) = (!left.is_zero()).then(|| lock(&live.queue).take(now)).flatten() else {
            return;
        };
        let [for_traces, for_metrics] = &mut *known;
        let (to, headers, known) = match item.signal {
            Signal::Traces => (&live.settings.traces, &live.settings.headers[0], for_traces),
            Signal::Metrics => (&live.settings.metrics, &live.settings.headers[1], for_metrics),
        };
        let Some(to) = to else { return };
        let timeout = match end {
            Some(_) => left.min(live.settings.timeout),
            None => live.settings.timeout,
        };
        let note = sys::ours::note;
        let answer = ::otlp::http::post_noting(to, headers, &item.body, timeout, known, note);
        let mut queue = lock(&live.queue);
        match answer {
            Ok(answer) => queue.answered(&answer, Instant::now()),
            Err(error) => queue.later(error.to_string(), None, Instant::now()),
        }
    }
}
