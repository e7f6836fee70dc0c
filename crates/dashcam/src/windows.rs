//! Windows of metrics: one a second, into the black box and to the sinks.
//!
//! How it works: the keeper takes the windows, since it has nothing else to do but for captures,
//! and nobody waits for it. It writes a record for each series that something came in for, then
//! gives the window to the sinks, which are its own: made when it starts, in a forked child anew.
//!
//! What it promises: each count is in one window. While a capture is being written windows grow
//! longer, and say so by their times; the last one is taken when recording stops. What is counted
//! before the start is in the first window, after a stop in the first one of the next start.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::metrics::registry;
use ::metrics::window::{Kind, Reading, Value, Window};
use format::json::Object;
use format::metric::{encode, Numbers};
use format::record::{self, Builder, MAX_WORDS};
use format::region::losses;
use sys::cell::StaticRef;

use crate::control::{self, say, Shared};
use crate::excess::Judging;
use crate::own::Own;
use crate::{forward, otlp};

const EVERY_NS: u64 = 1_000_000_000;
/// Most sinks beside our own.
const SINKS: usize = 8;
/// Ours: StatsD and OTLP, which do nothing where no settings name a server.
const OWN_SINKS: [fn(&Window); 2] = [forward::window, otlp::window];
/// How long a flush waits for its window.
const FLUSH_NS: u64 = 2_000_000_000;
/// How long who leaves waits, and for how long it has left then.
const LEAVE_NS: u64 = 1_000_000_000;
const LEAVE_AGAIN_NS: u64 = 20_000_000;

/// Who takes windows. It is called on a thread of ours, must return soon (captures wait for it),
/// and ends with its process: a forked child makes its own.
pub type Sink = Box<dyn FnMut(&Window) + Send>;
type Make = Box<dyn Fn() -> Sink + Send + Sync>;

/// Without holes, whenever a fork comes: who adds one takes the first free place.
static MAKERS: [StaticRef<Make>; SINKS] = [const { StaticRef::empty() }; SINKS];

/// Windows asked for and taken, by number. SeqCst with the jobs' condition variable between them is
/// not needed: who asks notifies, and the keeper looks again within half a second.
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

/// Takes a window now and waits until the sinks have it, StatsD's lines are sent or lost, and what
/// goes by OTLP too, at most two seconds in all. False: nothing
/// records, or it took longer. Not from a sink.
pub fn flush() -> bool {
    control::after_fork_child();
    let deadline_ns = sys::clock::now_ns() + FLUSH_NS;
    let left = || Duration::from_nanos(deadline_ns.saturating_sub(sys::clock::now_ns()));
    if !is_taken_before(deadline_ns) {
        return false;
    }
    // Both, even if the first takes all the time: the second is asked to hurry then.
    let lines = forward::flush(left());
    otlp::flush(left()) && lines
}

/// Before the process becomes another program, or ends without its exit handlers (`_exit`): as
/// `flush`, but at most one second, and no longer than it takes to know that nobody listens. In a
/// forked child that has recorded nothing it does nothing, nor just behind an earlier call: who
/// looks for a program along PATH tries many times. Recording goes on, in case the exec fails.
pub fn leave() -> bool {
    static LAST_NS: AtomicU64 = AtomicU64::new(0);
    let now_ns = sys::clock::now_ns();
    if control::is_forked()
        || now_ns < LAST_NS.load(Ordering::Relaxed).saturating_add(LEAVE_AGAIN_NS)
    {
        return true;
    }
    let deadline_ns = now_ns + LEAVE_NS;
    let left = || Duration::from_nanos(deadline_ns.saturating_sub(sys::clock::now_ns()));
    let done = is_taken_before(deadline_ns) && {
        let lines = forward::flush_if_heard(left());
        otlp::flush_if_heard(left()) && lines
    };
    LAST_NS.store(sys::clock::now_ns(), Ordering::Relaxed);
    done
}

/// Has a window taken. False: nothing records, or it took longer.
fn is_taken_before(deadline_ns: u64) -> bool {
    let Some(shared) = control::shared() else { return false };
    let wanted = WANTED.fetch_add(1, Ordering::AcqRel) + 1;
    // Acquire: pairs with the release in `tick`, so what the sinks did is seen.
    while DONE.load(Ordering::Acquire) < wanted {
        if sys::clock::now_ns() > deadline_ns || shared.stopping() {
            return false;
        }
        shared.job_came.notify_all();
        sys::thread::pause(500_000);
    }
    true
}

/// Whether somebody waits for a window.
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

/// What the keeper holds.
pub(crate) struct Windows<'s> {
    shared: &'s Shared,
    sinks: Vec<Option<Sink>>,
    own: Own,
    judging: Judging,
    /// Scrapers turned away, as far as they are counted.
    scrapes_refused: u64,
    from_ns: u64,
    from_epoch_ns: u64,
}

impl<'s> Windows<'s> {
    pub(crate) fn new(shared: &'s Shared) -> Windows<'s> {
        let (from_ns, from_epoch_ns) = (sys::clock::now_ns(), sys::clock::epoch_ns());
        let judging = Judging::new(&shared.config().metric_rules);
        let own = Own::default();
        let sinks = OWN_SINKS.map(|sink| Some(Box::new(sink) as Sink));
        Windows {
            shared,
            sinks: sinks.into(),
            own,
            judging,
            scrapes_refused: 0,
            from_ns,
            from_epoch_ns,
        }
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
        // None: a keeper of an earlier start has not left yet; the next window has it all.
        let Some(mut readings) = registry().take() else { return };
        READINGS.store(readings.len() as u64, Ordering::Relaxed);
        self.own.add(self.shared, to_ns.saturating_sub(self.from_ns), &mut readings);
        let window = Window { from_ns: self.from_epoch_ns, to_ns: to_epoch_ns, readings };
        window.readings.iter().for_each(|reading| self.record(reading, to_ns));
        self.count_losses(&window);
        self.judging.window(self.shared, self.from_ns, to_ns, &window.readings);
        if let Some(endpoint) = &self.shared.endpoint {
            endpoint.window(&window);
        }
        self.give(&window);
        (self.from_ns, self.from_epoch_ns) = (to_ns, to_epoch_ns);
        WINDOWS.fetch_add(1, Ordering::Relaxed);
    }

    fn record(&self, reading: &Reading, to_ns: u64) {
        let tables = self.shared.recorder.tables();
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
        self.shared.recorder.region().lose(losses::ATTRIBUTES_CUT, u64::from(cut));
    }

    fn count_losses(&mut self, window: &Window) {
        let refused = |reading: &Reading| match reading.value {
            Value::Members { refused, .. } => refused,
            _ => 0,
        };
        let members: u64 = window.readings.iter().map(refused).sum();
        let (series, values) = registry().take_refused();
        let region = self.shared.recorder.region();
        let (_, refused) = self.shared.scrapes();
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
                self.shared.set_source("metrics_sink", "off: it ended by a panic".to_owned());
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
