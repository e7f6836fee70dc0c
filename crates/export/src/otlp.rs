//! OTLP: the traces of a capture as `TracesData`, its metrics as `MetricsData`, in protobuf.
//!
//! The file is the body that an `otlphttp` exporter posts: the bytes of `ExportTraceServiceRequest`
//! and `ExportMetricsServiceRequest`, which are the same messages on the wire. Large captures are
//! several messages, one after the other, which protobuf reads as one. The two signals are two
//! files, as the protocol has no message for both.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use ::otlp::metrics::{Metric, Numbers, Point, Shape, Temporality};
use ::otlp::{Resource, Scope, Value};
use analysis::states::Threads;
use capture::read::Capture;
use format::metric::Numbers as Recorded;

use crate::attributes::{attributes, put};
use crate::part_writer::PartWriter;
use crate::spans::Spans;
use crate::{notes, Progress};

/// Spans of one message; a collector takes 20 MiB at most by default.
const SPANS: usize = 2000;
/// Points of one message.
const POINTS: usize = 10_000;
/// Scope of what the program recorded itself.
pub const SAID: &str = "dashcam";
/// Scope of what the recorder observed.
pub const SEEN: &str = "dashcam.seen";

/// The exported signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Requests, spans, events.
    Traces,
    /// Metrics, and the vitals of process and host.
    Metrics,
}

/// The writer of one signal.
pub(crate) struct Messages<'o> {
    signal: Signal,
    out: &'o mut dyn Write,
}

impl<'o> Messages<'o> {
    pub(crate) fn new(signal: Signal, out: &'o mut dyn Write) -> Messages<'o> {
        Messages { signal, out }
    }
}

impl PartWriter for Messages<'_> {
    fn part(&mut self, capture: &Capture, progress: &mut Progress<'_>) -> io::Result<()> {
        messages(capture, self.signal, progress, &mut |_, body| self.out.write_all(body))
    }

    fn finish(&mut self, _: &Capture, _: &mut Progress<'_>) -> io::Result<()> {
        self.out.flush()
    }
}

/// Called for each message: its number of spans or points, and its bytes.
pub type Each<'e> = dyn FnMut(usize, &[u8]) -> io::Result<()> + 'e;

/// One signal, in messages of a size that a collector takes; of a part of a capture, what is its.
pub fn messages(
    capture: &Capture,
    signal: Signal,
    progress: &mut Progress<'_>,
    each: &mut Each<'_>,
) -> io::Result<()> {
    let threads = Threads::new(capture);
    let resource = resource(&threads);
    match signal {
        Signal::Traces => traces(&threads, &resource, progress, each),
        Signal::Metrics => metrics(capture, &resource, progress, each),
    }
}

fn traces(
    threads: &Threads<'_>,
    resource: &Resource<'_>,
    progress: &mut Progress<'_>,
    each: &mut Each<'_>,
) -> io::Result<()> {
    let spans = Spans::of(threads);
    let all = (spans.said.len() + spans.seen.len()) as u64;
    let mut done = 0;
    for (name, spans) in [(SAID, &spans.said), (SEEN, &spans.seen)] {
        let scope = Scope { name, version: version(threads.capture) };
        for some in spans.chunks(SPANS) {
            progress(done, all);
            each(some.len(), &::otlp::traces::request(resource, &[(scope, some)]))?;
            done += some.len() as u64;
        }
    }
    Ok(())
}

fn metrics(
    capture: &Capture,
    resource: &Resource<'_>,
    progress: &mut Progress<'_>,
    each: &mut Each<'_>,
) -> io::Result<()> {
    let scope = Scope { name: SAID, version: version(capture) };
    let mut all = of_windows(capture);
    all.extend(of_vitals(capture));
    let count = all.len() as u64;
    for (done, metric) in all.into_iter().enumerate() {
        progress(done as u64, count);
        let mut points = metric.points;
        while !points.is_empty() {
            let rest = points.split_off(points.len().min(POINTS));
            let (name, some) = (metric.name.clone(), points.len());
            let one = [Metric { name, points, ..metric }];
            each(some, &::otlp::metrics::request(resource, scope, &one))?;
            points = rest;
        }
    }
    Ok(())
}

fn version(capture: &Capture) -> &str {
    capture.meta.all["version"].as_str().unwrap_or_default()
}

/// The recording process, by OpenTelemetry's semantic conventions; and the notes for readers.
pub fn resource<'c>(threads: &Threads<'c>) -> Resource<'c> {
    let meta = &threads.capture.meta;
    let mut list = Vec::new();
    put(&mut list, "service.name", meta.service.as_str());
    let instance = format::ids::trace_id(meta.ids_seed, ::otlp::traces::INSTANCE);
    put(&mut list, "service.instance.id", ::otlp::uuid(instance));
    put(&mut list, "host.name", meta.host.as_str());
    put(&mut list, "os.type", "linux");
    put(&mut list, "process.pid", meta.pid);
    if let Some((name, version)) = meta.runtime.split_once(' ') {
        put(&mut list, "process.runtime.name", name.to_lowercase());
        put(&mut list, "process.runtime.version", version);
    }
    put(&mut list, "telemetry.distro.name", "dashcam");
    put(&mut list, "telemetry.distro.version", version(threads.capture));
    let lines = notes::of(threads).into_iter().map(Cow::Owned).collect();
    put(&mut list, "dashcam.notes", Value::Texts(lines));
    list.retain(|(_, value)| !matches!(value, Value::Text(text) if text.is_empty()));
    Resource { attributes: list }
}

/// Each window is a point; sums count from the window's begin.
fn of_windows(capture: &Capture) -> Vec<Metric<'_>> {
    let mut all: BTreeMap<(&str, u8, bool), Metric<'_>> = BTreeMap::new();
    for row in &capture.metrics {
        let name = capture.name(row.name);
        let is_delta = matches!(row.numbers, Recorded::Gauge { delta: true, .. });
        let shape = match row.numbers {
            Recorded::Count(_) => Shape::Sum(Temporality::Delta, true),
            Recorded::Gauge { delta: true, .. } => Shape::Sum(Temporality::Delta, false),
            Recorded::Gauge { .. } | Recorded::Members { .. } => Shape::Gauge,
            Recorded::Values { .. } => Shape::Summary,
        };
        let unit = if row.kind == TIMING { "ms" } else { "" };
        let metric = all.entry((name, row.kind, is_delta)).or_insert_with(|| Metric {
            name: Cow::Borrowed(name),
            unit,
            shape,
            points: Vec::new(),
        });
        // A counter that was decremented is not monotonic.
        if matches!(row.numbers, Recorded::Count(sum) if sum < 0.0) {
            metric.shape = Shape::Sum(Temporality::Delta, false);
        }
        let numbers = match row.numbers {
            Recorded::Count(value) | Recorded::Gauge { value, .. } => Numbers::One(value),
            Recorded::Members { members, .. } => Numbers::One(members),
            Recorded::Values { count, sum, min, max, median, p99 } => Numbers::Quantiles {
                count: count.round().max(0.0) as u64,
                sum,
                quantiles: vec![(0.0, min), (0.5, median), (0.99, p99), (1.0, max)],
            },
        };
        metric.points.push(Point {
            attributes: attributes(capture, &row.tags),
            from_ns: capture.meta.epoch_ns(row.from_ns),
            at_ns: capture.meta.epoch_ns(row.to_ns),
            numbers,
        });
    }
    all.into_values().collect()
}

/// Index of `timing` in `format::metric::KINDS`; its values are milliseconds.
const TIMING: u8 = 2;

fn of_vitals(capture: &Capture) -> Vec<Metric<'_>> {
    let metric = |counter: crate::scene::Counter<'_>| {
        let unit = match counter.name.rsplit('_').next() {
            Some("ns") => "ns",
            Some("us") => "us",
            Some("ms") => "ms",
            Some("bytes") => "By",
            Some("percent") => "%",
            _ => "",
        };
        let point = |(t_ns, value)| Point {
            attributes: Vec::new(),
            from_ns: 0,
            at_ns: capture.meta.epoch_ns(t_ns),
            numbers: Numbers::One(value),
        };
        let name = Cow::Owned(format!("dashcam.{}", counter.name));
        let points = counter.points.into_iter().map(point).collect();
        Metric { name, unit, shape: Shape::Gauge, points }
    };
    crate::scene::counters(capture).into_iter().map(metric).collect()
}
