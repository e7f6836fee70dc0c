//! Metrics of programs that use the `metrics` facade: `dashcam_metrics_facade::install()?`.
//!
//! How it works: `Recorder` is a `metrics::Recorder` over dashcam's handles. A counter, gauge or
//! histogram of the facade becomes the metric of that kind and name, its labels the tags.
//! Descriptions become the HELP and UNIT lines of the OpenMetrics endpoint.
//!
//! What it promises: each value counted through the facade is in exactly one window
//! (docs/metrics.md), from any thread. Refused values (too many series, over 32 labels, texts over
//! 255 bytes, values that are not finite) are counted in `metrics_refused` and
//! `metric_values_refused`. An increment over 2^63 - 1 counts as 2^63 - 1.
//!
//! Cost: `counter!` looks its series up at each call and allocates a handle; where that matters,
//! keep the `metrics::Counter`: a call then costs what dashcam's own does and allocates nothing.
//!
//! Missing on purpose: a registry of its own, and `metadata` (levels and targets), which
//! dashcam has no use for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use metrics_rs::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata,
    SetRecorderError, SharedString, Unit,
};

/// The recorder for `metrics::set_global_recorder`. Empty: all state is dashcam's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recorder;

/// Makes dashcam the recorder of the `metrics` facade for this process. Metrics used before this
/// call are lost; those before `dashcam::start` are kept. Errors: another recorder is installed
/// already; it remains.
pub fn install() -> Result<(), SetRecorderError<Recorder>> {
    metrics_rs::set_global_recorder(Recorder)
}

fn metric(key: &Key) -> dashcam::Metric<'_> {
    let begun = dashcam::metric(key.name());
    key.labels().fold(begun, |metric, label| metric.tag(label.key(), label.value()))
}

fn describe(key: &KeyName, unit: Option<Unit>, description: &str) {
    let unit = match unit {
        // A count of things is no unit.
        None | Some(Unit::Count) => None,
        Some(unit) => Some(dashcam::Unit::new(unit.as_str())),
    };
    dashcam::describe(key.as_str(), description, unit);
}

impl metrics_rs::Recorder for Recorder {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        describe(&key, unit, &description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        describe(&key, unit, &description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        describe(&key, unit, &description);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let counter = OfCounter { counter: metric(key).counter(), absolute: AtomicU64::new(0) };
        Counter::from_arc(Arc::new(counter))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Arc::new(OfGauge(metric(key).gauge())))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(OfHistogram(metric(key).histogram())))
    }
}

struct OfCounter {
    counter: dashcam::Counter,
    /// The greatest value given to `absolute` through this handle. A counter with absolute values
    /// needs one handle for all: another handle begins from 0.
    absolute: AtomicU64,
}

impl CounterFn for OfCounter {
    fn increment(&self, value: u64) {
        self.counter.add(i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn absolute(&self, value: u64) {
        // Relaxed: the maximum alone decides which difference counts; each is counted once.
        let before = self.absolute.fetch_max(value, Ordering::Relaxed);
        self.increment(value.saturating_sub(before));
    }
}

struct OfGauge(dashcam::Gauge);

impl GaugeFn for OfGauge {
    fn increment(&self, value: f64) {
        self.0.add(value);
    }

    fn decrement(&self, value: f64) {
        self.0.add(-value);
    }

    fn set(&self, value: f64) {
        self.0.set(value);
    }
}

struct OfHistogram(dashcam::Values);

impl HistogramFn for OfHistogram {
    fn record(&self, value: f64) {
        self.0.record(value);
    }
}
