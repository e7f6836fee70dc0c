//! Windows of metrics: one a second, into the black box and to the sinks.
//!
//! How it works: `dashcam-capture` takes the windows: it has nothing else to do but captures, and
//! no other thread waits for it. It writes a record for each series that something came in for,
//! then gives the window to the sinks, which are its own: made when it starts, in a forked child
//! anew.
//!
//! What it promises: each count is in one window. While a capture is being written windows grow
//! longer, and say so by their times; the last one is taken when recording stops. What is counted
//! before the start is in the first window, after a stop in the first one of the next start.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

use ::metrics::registry;
use ::metrics::window::{Kind, Reading, Value, Window};
use format::json::Object;
use format::metric::{encode, Numbers};
use format::record::{self, Builder, MAX_WORDS};
use format::region::losses;
use format::source::SourceState;
use sys::cell::StaticRef;

use crate::exports::otlp;
use crate::metrics::forward;
use crate::metrics::own::Own;
use crate::recording::Recording;
use crate::say::say;
use crate::triggers::alarms::Alarms;
use crate::triggers::excess::Judging;

const EVERY_NS: u64 = 1_000_000_000;
/// Most sinks beside our own.
const SINKS: usize = 8;
/// Ours: StatsD and OTLP, which do nothing where no settings name a server.
const OWN_SINKS: [fn(&Window); 2] = [forward::window, otlp::window];
/// Takes windows. It is called on a thread of ours, must return soon (captures wait for it), and
/// ends with its process: a forked child makes its own.
pub type Sink = Box<dyn FnMut(&Window) + Send>;
type Make = Box<dyn Fn() -> Sink + Send + Sync>;

/// Without holes, whenever a fork comes: a caller that adds a sink takes the first free place.
static MAKERS: [StaticRef<Make>; SINKS] = [const { StaticRef::empty() }; SINKS];

/// Windows asked for and taken, by number. SeqCst with the jobs' condition variable between them is
/// not needed: a caller that asks notifies, and `dashcam-capture` reads again within half a second.
static WANTED: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
/// Windows taken, and readings in the last one; for `status`.
static WINDOWS: AtomicU64 = AtomicU64::new(0);
static READINGS: AtomicU64 = AtomicU64::new(0);

/// Makes every process that records (this one, and children it forks) give its windows to a sink
/// that `make` makes there, once a start. Errors: there are eight already.
pub fn on_window(make: impl Fn() -> Sink + Send + Sync + 'static) -> Result<(), String> {
    let mut make: Make = Box::new(make);
    for place in &MAKERS {
        match place.put(make) {
            Ok(()) => return Ok(()),
            Err(back) => make = back,
        }
    }
    Err(format!("sinks: found {SINKS}, wanted at most {SINKS}"))
}

/// Wants a window to be taken. Whether it was is `is_taken`'s answer to this number.
pub(crate) fn want() -> u64 {
    WANTED.fetch_add(1, Ordering::AcqRel) + 1
}

/// Whether the window of that number was taken, and given to the sinks.
pub(crate) fn is_taken(wanted: u64) -> bool {
    // Acquire: pairs with the release in `tick`, so what the sinks did is seen.
    DONE.load(Ordering::Acquire) >= wanted
}

/// Whether a window is waited for.
pub(crate) fn is_wanted() -> bool {
    DONE.load(Ordering::Relaxed) < WANTED.load(Ordering::Acquire)
}

/// For `status`.
pub(crate) fn json() -> String {
    Object::new()
        .int("series", registry().series() as u64)
        .int("windows", WINDOWS.load(Ordering::Relaxed))
        .int("last_readings", READINGS.load(Ordering::Relaxed))
        .finish()
}

/// What `dashcam-capture` holds.
pub(crate) struct Windows {
    recording: Arc<Recording>,
    alarms: Arc<Alarms>,
    endpoint: Option<Arc<openmetrics::Endpoint>>,
    sinks: Vec<Option<Sink>>,
    own: Own,
    judging: Judging,
    /// Scrapers turned away, as far as they are counted.
    scrapes_refused: u64,
    from_ns: u64,
    from_epoch_ns: u64,
}

impl Windows {
    pub(crate) fn new(
        recording: Arc<Recording>,
        alarms: Arc<Alarms>,
        endpoint: Option<Arc<openmetrics::Endpoint>>,
        own: Own,
    ) -> Windows {
        let (from_ns, from_epoch_ns) = (sys::clock::now_ns(), sys::clock::epoch_ns());
        let judging = Judging::new(&recording.config().on_metric.rules);
        let sinks = OWN_SINKS.map(|sink| Some(Box::new(sink) as Sink));
        Windows {
            recording,
            alarms,
            endpoint,
            sinks: sinks.into(),
            own,
            judging,
            scrapes_refused: 0,
            from_ns,
            from_epoch_ns,
        }
    }

    /// Answers to scrapers, and clients that were turned away.
    fn scrapes(&self) -> (u64, u64) {
        self.endpoint.as_ref().map_or((0, 0), |endpoint| endpoint.counts())
    }

    /// How long until the next window is due.
    pub(crate) fn left(&self) -> Duration {
        let due_ns = self.from_ns + EVERY_NS;
        Duration::from_nanos(due_ns.saturating_sub(sys::clock::now_ns()).max(1_000_000))
    }

    /// Takes a window when one is due or wanted.
    pub(crate) fn tick(&mut self) {
        let wanted = WANTED.load(Ordering::Acquire);
        let is_due = sys::clock::now_ns() >= self.from_ns + EVERY_NS;
        if is_due || DONE.load(Ordering::Relaxed) < wanted {
            self.take();
            DONE.fetch_max(wanted, Ordering::Release);
        }
    }

    /// Takes a window now.
    pub(crate) fn take(&mut self) {
        let (to_ns, to_epoch_ns) = (sys::clock::now_ns(), sys::clock::epoch_ns());
        // None: `dashcam-capture` of an earlier start has not left yet; the next window has it all.
        let Some(mut readings) = registry().take() else { return };
        READINGS.store(readings.len() as u64, Ordering::Relaxed);
        self.own.add(self.scrapes().0, to_ns.saturating_sub(self.from_ns), &mut readings);
        let window = Window { from_ns: self.from_epoch_ns, to_ns: to_epoch_ns, readings };
        window.readings.iter().for_each(|reading| self.record(reading, to_ns));
        self.count_losses(&window);
        let times = (self.from_ns, to_ns);
        let excesses = &self.alarms.excesses;
        self.judging.window(&self.recording, excesses, times, &window.readings);
        if let Some(endpoint) = &self.endpoint {
            endpoint.window(&window);
        }
        self.give(&window);
        (self.from_ns, self.from_epoch_ns) = (to_ns, to_epoch_ns);
        WINDOWS.fetch_add(1, Ordering::Relaxed);
    }

    fn record(&self, reading: &Reading, to_ns: u64) {
        let tables = self.recording.recorder.tables();
        let numbers = numbers(&reading.value);
        let (flags, words, len) = encode(number(reading.id.kind), self.from_ns, to_ns, &numbers);
        let name = tables.name(&reading.id.name);
        let kind = record::Kind::Metric;
        let mut made = Builder::<MAX_WORDS>::new(kind, flags, name, &words[..len]);
        for (key, value) in reading.id.tags.iter() {
            made.attribute(tables.name(key), record::Value::Text(value));
        }
        let (words, cut) = made.finish();
        recorder::append(words, to_ns);
        self.recording.recorder.region().lose(losses::ATTRIBUTES_CUT, u64::from(cut));
    }

    fn count_losses(&mut self, window: &Window) {
        let refused = |reading: &Reading| match reading.value {
            Value::Members { refused, .. } => refused,
            _ => 0,
        };
        let members: u64 = window.readings.iter().map(refused).sum();
        let (series, values) = registry().take_refused();
        let region = self.recording.recorder.region();
        let (_, refused) = self.scrapes();
        region.lose(losses::SCRAPES_REFUSED, refused - self.scrapes_refused);
        self.scrapes_refused = refused;
        region.lose(losses::METRICS_REFUSED, series);
        region.lose(losses::METRIC_VALUES_REFUSED, values);
        region.lose(losses::METRIC_MEMBERS_REFUSED, members);
    }

    /// A sink that panics is not called again.
    fn give(&mut self, window: &Window) {
        let known = self.sinks.len() - OWN_SINKS.len();
        let new = MAKERS.iter().skip(known).map_while(StaticRef::get);
        self.sinks.extend(new.map(|make| catch_unwind(AssertUnwindSafe(make)).ok()));
        for place in &mut self.sinks {
            let call = |sink: &mut Sink| catch_unwind(AssertUnwindSafe(|| sink(window)));
            if place.as_mut().is_some_and(|sink| call(sink).is_err()) {
                *place = None;
                let state = SourceState::off("it ended by a panic");
                self.recording.set_source("metrics_sink", state);
                say("a sink of metrics ended by a panic; it gets no more windows");
            }
        }
    }
}

fn number(kind: Kind) -> u8 {
    match kind {
        Kind::Counter => 0,
        Kind::Gauge => 1,
        Kind::Timing => 2,
        Kind::Histogram => 3,
        Kind::Distribution => 4,
        Kind::Set => 5,
    }
}

fn numbers(value: &Value) -> Numbers {
    match value {
        Value::Count(sum) => Numbers::Count(*sum),
        Value::Gauge { value, set } => Numbers::Gauge { value: *value, delta: !set },
        Value::Members { members, refused } => {
            Numbers::Members { members: members.len() as f64, refused: *refused as f64 }
        }
        Value::Values { kept, count, sum, min, max } => {
            let mut sorted = kept.clone();
            sorted.sort_by(f64::total_cmp);
            // Nearest rank.
            let at = |part: f64| {
                let rank = (part * sorted.len() as f64).ceil() as usize;
                sorted.get(rank.saturating_sub(1)).copied().unwrap_or(*max)
            };
            let (count, sum, min, max) = (*count, *sum, *min, *max);
            Numbers::Values { count, sum, min, max, median: at(0.5), p99: at(0.99) }
        }
    }
}
