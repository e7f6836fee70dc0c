//! dashcam's own numbers as metrics: in every window, so in captures and at every sink.
//!
//! | metric | kind | unit |
//! | --- | --- | --- |
//! | `dashcam.sampler.budget_used` | gauge | part of the CPU budget spent in it; 1: all of it |
//! | `dashcam.sampler.cpu_seconds` | counter | CPU of the sampler, s |
//! | `dashcam.sampler.passes`, `.samples` | counter | |
//! | `dashcam.captures` | counter | captures written |
//! | `dashcam.requests`, `.slow` | counter | requests begun; requests that ended past their limit |
//! | `dashcam.losses`, tag `what` | counter | every counter of docs/losses.md that grew |
//! | `dashcam.openmetrics.scrapes` | counter | answers to scrapers |
//!
//! What it promises: a counter appears in the windows in which it grew, and adds up to what
//! `status()` says. Nothing is reported while recording is paused; it is in the window after that.
//! These series are not in the program's bound of series. They cost `dashcam-capture` some
//! microseconds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use ::metrics::window::{Id, Kind, Reading, Value};
use format::region::losses;

use recorder::Recorder;

use crate::captures::queue::Queue;
use crate::recording::{requests, Recording};

/// What all names of ours begin with.
pub(crate) const PREFIX: &str = "dashcam.";

/// What the recorder has counted before recording starts: an earlier start reported it.
pub(crate) struct Before {
    requests: (u64, u64),
    losses: Vec<u64>,
}

impl Before {
    pub(crate) fn of(recorder: &Recorder) -> Before {
        Before { requests: requests(recorder), losses: recorder.region().losses().to_vec() }
    }
}

/// What was reported so far.
pub(crate) struct Own {
    recording: Arc<Recording>,
    queue: Arc<Queue>,
    before: Before,
    reported: Vec<(Id, u64)>,
    cpu_ns: u64,
}

impl Own {
    pub(crate) fn new(recording: Arc<Recording>, queue: Arc<Queue>, before: Before) -> Own {
        Own { recording, queue, before, reported: Vec::new(), cpu_ns: 0 }
    }

    /// Adds what happened since the last call, `passed_ns` ago. `scrapes`: answers to scrapers so
    /// far.
    pub(crate) fn add(&mut self, scrapes: u64, passed_ns: u64, readings: &mut Vec<Reading>) {
        if !recorder::is_on() {
            return;
        }
        let cpu_ns = load(&self.recording.sampler.cpu_ns);
        let spent_ns = cpu_ns.saturating_sub(self.cpu_ns);
        self.cpu_ns = cpu_ns;
        let income_ns = passed_ns as f64 * self.recording.budget_percent() / 100.0;
        let used = spent_ns as f64 / income_ns.max(1.0);
        let value = Value::Gauge { value: (used * 1e4).round() / 1e4, set: true };
        readings.push(Reading { id: id(Kind::Gauge, "sampler.budget_used", None), value });
        if spent_ns > 0 {
            let value = Value::Count(spent_ns as f64 / 1e9);
            readings.push(Reading { id: id(Kind::Counter, "sampler.cpu_seconds", None), value });
        }
        self.counts(scrapes, readings);
    }

    fn counts(&mut self, scrapes: u64, readings: &mut Vec<Reading>) {
        let (requests, slow) = self.recording.requests();
        let (sampler, before) = (&self.recording.sampler, &self.before);
        let plain = [
            ("sampler.passes", load(&sampler.passes), 0),
            ("sampler.samples", load(&sampler.samples), 0),
            ("captures", load(&self.queue.count), 0),
            ("requests", requests, before.requests.0),
            ("requests.slow", slow, before.requests.1),
            ("openmetrics.scrapes", scrapes, 0),
        ];
        let lost = losses::NAMES.iter().zip(self.recording.recorder.region().losses());
        let lost = lost.zip(&before.losses).map(|((what, n), b)| ("losses", Some(*what), n, *b));
        let all = plain.into_iter().map(|(name, n, before)| (name, None, n, before)).chain(lost);
        for (at, (name, what, count, before)) in all.enumerate() {
            if at == self.reported.len() {
                self.reported.push((id(Kind::Counter, name, what), before));
            }
            let Some((id, reported)) = self.reported.get_mut(at) else { continue };
            if count > *reported {
                let value = Value::Count((count - *reported) as f64);
                readings.push(Reading { id: id.clone(), value });
                *reported = count;
            }
        }
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn id(kind: Kind, name: &str, what: Option<&str>) -> Id {
    let tags: Vec<(Box<str>, Box<str>)> =
        what.iter().map(|w| ("what".into(), (*w).into())).collect();
    Id { kind, name: Arc::from(format!("{PREFIX}{name}")), tags: tags.into() }
}
