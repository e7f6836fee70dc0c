//! The contents of a capture, as `dashcam show --json` and Python's `summary()` report them.
//!
//! How it works: a `Summary` takes the parts of a capture, one after the other, and keeps of each
//! what the report needs: counts, times of requests by name, windows of metrics, the slowest
//! requests. A capture in memory is one part.
//!
//! What it costs: 8 bytes for each request, and the windows of metrics; not the capture.

use std::collections::BTreeMap;

use capture::read::{Capture, MetricRow, RequestRow, Text, Traces};
use format::metric::{Numbers, KINDS};
use serde_json::{json, Map, Value};

/// Windows of metrics by name, tags and kind.
pub type Series<'c> = BTreeMap<(&'c str, Vec<(&'c str, &'c str)>, u8), Vec<&'c MetricRow>>;

/// At most this many open spans and slowest requests are reported.
const LISTED: usize = 20;

/// Names of `counts`.
const COUNTS: [&str; 13] = [
    "requests",
    "spans",
    "open_spans",
    "traces",
    "links",
    "events",
    "samples",
    "off_cpu",
    "wakes",
    "awaits",
    "gcs",
    "tasks",
    "vitals",
];

/// A metric: name, tags, kind.
type Metric = (String, Vec<(String, String)>, u8);

/// What the parts of a capture have in all.
#[derive(Default)]
pub struct Summary {
    /// Times in ms by name.
    requests: BTreeMap<String, Vec<f64>>,
    open_requests: usize,
    open_spans: Vec<Value>,
    /// With their times in ms, the slowest first.
    slowest: Vec<(f64, Value)>,
    counts: [usize; COUNTS.len()],
    /// Samples by thread.
    samples: BTreeMap<u32, usize>,
    metrics: BTreeMap<Metric, Vec<Value>>,
    switches_mended: u64,
}

/// The summary of a capture in memory, schema 1; `file` is the capture's path.
pub fn to_json(capture: &Capture, file: &str) -> Value {
    let mut summary = Summary::default();
    summary.take(capture);
    summary.to_json(capture, file)
}

impl Summary {
    /// Adds the rows that a part owns.
    pub fn take(&mut self, part: &Capture) {
        self.count(part);
        for request in part.requests.iter().filter(|r| part.owns(r.begin_ns)) {
            let times = self.requests.entry(part.name(request.name).to_owned()).or_default();
            times.push(request_ms(part, request));
            self.open_requests += usize::from(request.end_ns.is_none());
        }
        let open = part.spans.iter().filter(|s| s.open && part.owns(s.begin_ns));
        for span in open.take(LISTED - self.open_spans.len()) {
            let age_ms = span.end_ns.saturating_sub(span.begin_ns) as f64 / 1e6;
            let name = part.name(span.name);
            let row =
                json!({"name": name, "tid": span.tid, "request": span.request, "age_ms": age_ms});
            self.open_spans.push(row);
        }
        self.take_slowest(part);
        for ((name, tags, kind), rows) in series(part) {
            let tags = tags.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
            let windows = self.metrics.entry((name.to_owned(), tags.collect(), kind)).or_default();
            windows.extend(rows.iter().filter(|row| part.owns(row.to_ns)).map(|row| window(row)));
        }
        self.switches_mended += part.switches_mended;
    }

    fn count(&mut self, part: &Capture) {
        fn owned<T>(part: &Capture, rows: &[T], at_ns: impl Fn(&T) -> u64) -> usize {
            rows.iter().filter(|row| part.owns(at_ns(row))).count()
        }
        fn of_all<K, T>(
            part: &Capture,
            rows: &std::collections::HashMap<K, Vec<T>>,
            at_ns: impl Fn(&T) -> u64,
        ) -> usize {
            rows.values().map(|rows| owned(part, rows, &at_ns)).sum()
        }
        for (tid, rows) in &part.samples {
            *self.samples.entry(*tid).or_default() += owned(part, rows, |s| s.t_ns);
        }
        let open_spans = part.spans.iter().filter(|s| s.open && part.owns(s.begin_ns)).count();
        let found = [
            owned(part, &part.requests, |r| r.begin_ns),
            owned(part, &part.spans, |s| s.begin_ns),
            open_spans,
            owned(part, &part.traces, |t| t.record.t_ns),
            owned(part, &part.links, |l| l.link.t_ns),
            owned(part, &part.events, |e| e.t_ns),
            of_all(part, &part.samples, |s| s.t_ns),
            of_all(part, &part.off_cpu, |o| o.out_ns),
            of_all(part, &part.wakes, |w| w.t_ns),
            of_all(part, &part.awaits, |a| a.t_ns),
            owned(part, &part.gcs, |g| g.begin_ns),
            owned(part, &part.tasks, |t| t.begin_ns),
            owned(part, &part.vitals, |v| v.t_ns),
        ];
        self.counts.iter_mut().zip(found).for_each(|(count, more)| *count += more);
    }

    /// The slowest requests with their ids, at most 20.
    fn take_slowest(&mut self, part: &Capture) {
        let mut rows: Vec<(f64, &RequestRow)> = part
            .requests
            .iter()
            .filter(|r| part.owns(r.begin_ns))
            .map(|r| (request_ms(part, r), r))
            .collect();
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        rows.truncate(LISTED);
        let traces = Traces::of(part);
        self.slowest.extend(rows.into_iter().map(|(ms, r)| {
            let ids = traces.request(r.id);
            let row = json!({"name": part.name(r.name), "id": r.id, "ms": ms,
                   "error": r.error, "trace_id": format!("{:032x}", ids.trace),
                   "span_id": format!("{:016x}", ids.span),
                   "parent_id": format!("{:016x}", ids.parent), "status": ids.status.text()});
            (ms, row)
        }));
        // Of equally slow ones the earlier comes first, as it does in the part.
        self.slowest.sort_by(|a, b| b.0.total_cmp(&a.0));
        self.slowest.truncate(LISTED);
    }

    /// The summary, schema 1; `capture` is the last part, which has what all of them share.
    pub fn to_json(mut self, capture: &Capture, file: &str) -> Value {
        self.requests.values_mut().for_each(|times| times.sort_by(f64::total_cmp));
        let requests = self.requests.iter().map(|(name, times)| {
            json!({"name": name, "count": times.len(), "median_ms": median(times),
                   "worst_ms": times.last()})
        });
        let requests: Vec<Value> = requests.collect();
        let threads = capture.coverage.iter().map(|c| {
            json!({"tid": c.tid, "name": capture.thread_name(c.tid), "from_ns": c.from_ns,
                   "read": c.read, "missing_before": c.missing_before,
                   "missing_between": c.missing_between,
                   "missing_after": c.missing_after, "dropped": c.dropped,
                   "samples": self.samples.get(&c.tid).copied().unwrap_or(0)})
        });
        let threads: Vec<Value> = threads.collect();
        let counts: Map<String, Value> = COUNTS
            .iter()
            .zip(self.counts)
            .map(|(name, n)| ((*name).to_owned(), json!(n)))
            .collect();
        let slowest: Vec<Value> = self.slowest.into_iter().map(|(_, row)| row).collect();
        let metrics = self.metrics.into_iter().map(|((name, tags, kind), windows)| {
            let tags: Map<String, Value> =
                tags.into_iter().map(|(key, value)| (key, json!(value))).collect();
            json!({"name": name, "kind": kind_text(kind), "tags": tags, "windows": windows})
        });
        let metrics: Vec<Value> = metrics.collect();
        json!({
            "schema": 1,
            "file": file,
            "common_horizon_ns": capture.common_horizon_ns(),
            "meta": capture.meta.all,
            "requests": requests,
            "open_requests": self.open_requests,
            "open_spans": self.open_spans,
            "slowest": slowest,
            "threads": threads,
            "counts": counts,
            "metrics": metrics,
            "torn_blocks": capture.torn_blocks,
            "switches_mended": self.switches_mended,
            "damage": capture.damage,
        })
    }
}

/// How long a request took, or has taken so far, ms.
pub fn request_ms(capture: &Capture, request: &RequestRow) -> f64 {
    let end = request.end_ns.unwrap_or(capture.meta.to_ns);
    end.saturating_sub(request.begin_ns) as f64 / 1e6
}

/// The median of sorted times; 0 without any.
pub fn median(times: &[f64]) -> f64 {
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}

/// A metric's windows by name, tags and kind, the tags sorted as they are in the capture.
pub fn series(capture: &Capture) -> Series<'_> {
    let mut all: Series<'_> = BTreeMap::new();
    for row in &capture.metrics {
        let mut tags = Vec::new();
        for (key, value) in &row.tags {
            let value = if let Text::Text(value) = value { value.as_str() } else { "?" };
            tags.push((capture.name(*key), value));
        }
        all.entry((capture.name(row.name), tags, row.kind)).or_default().push(row);
    }
    all
}

/// What a metric is, in a word.
pub fn kind_text(kind: u8) -> &'static str {
    KINDS.get(usize::from(kind)).copied().unwrap_or("?")
}

fn window(row: &MetricRow) -> Value {
    let mut numbers = match row.numbers {
        Numbers::Count(sum) => json!({"count": sum}),
        Numbers::Gauge { value, delta } => json!({"value": value, "delta": delta}),
        Numbers::Members { members, refused } => json!({"members": members, "refused": refused}),
        Numbers::Values { count, sum, min, max, median, p99 } => {
            json!({"count": count, "sum": sum, "min": min, "max": max, "median": median, "p99": p99})
        }
    };
    numbers["from_ns"] = json!(row.from_ns);
    numbers["to_ns"] = json!(row.to_ns);
    numbers
}
