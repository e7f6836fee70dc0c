//! The contents of a capture, as `dashcam show --json` and Python's `summary()` report them.

use std::collections::BTreeMap;

use capture::read::{Capture, MetricRow, RequestRow, Text, Traces};
use format::metric::{Numbers, KINDS};
use serde_json::{json, Map, Value};

/// Windows of metrics by name, tags and kind.
pub type Series<'c> = BTreeMap<(&'c str, Vec<(&'c str, &'c str)>, u8), Vec<&'c MetricRow>>;

/// At most this many open spans and slowest requests are reported.
const LISTED: usize = 20;

/// The summary, schema 1; `file` is the capture's path.
pub fn to_json(capture: &Capture, file: &str) -> Value {
    let requests: Vec<Value> = by_name(capture)
        .into_iter()
        .map(|(name, times)| {
            json!({"name": name, "count": times.len(), "median_ms": median(&times),
                   "worst_ms": times.last()})
        })
        .collect();
    let threads: Vec<Value> = capture
        .coverage
        .iter()
        .map(|c| {
            json!({"tid": c.tid, "name": capture.thread_name(c.tid), "from_ns": c.from_ns,
                   "read": c.read, "missing_before": c.missing_before,
                   "missing_between": c.missing_between,
                   "missing_after": c.missing_after, "dropped": c.dropped,
                   "samples": capture.samples.get(&c.tid).map_or(0, Vec::len)})
        })
        .collect();
    let open = capture.requests.iter().filter(|r| r.end_ns.is_none()).count();
    json!({
        "schema": 1,
        "file": file,
        "common_horizon_ns": capture.common_horizon_ns(),
        "meta": capture.meta.all,
        "requests": requests,
        "open_requests": open,
        "open_spans": open_spans(capture),
        "slowest": slowest(capture),
        "threads": threads,
        "counts": counts(capture),
        "metrics": metrics(capture),
        "torn_blocks": capture.torn_blocks,
        "switches_mended": capture.switches_mended,
        "damage": capture.damage,
    })
}

fn counts(capture: &Capture) -> Value {
    json!({
        "requests": capture.requests.len(),
        "spans": capture.spans.len(),
        "open_spans": capture.spans.iter().filter(|s| s.open).count(),
        "traces": capture.traces.len(),
        "links": capture.links.len(),
        "events": capture.events.len(),
        "samples": capture.samples.values().map(Vec::len).sum::<usize>(),
        "off_cpu": capture.off_cpu.values().map(Vec::len).sum::<usize>(),
        "wakes": capture.wakes.values().map(Vec::len).sum::<usize>(),
        "awaits": capture.awaits.values().map(Vec::len).sum::<usize>(),
        "gcs": capture.gcs.len(),
        "tasks": capture.tasks.len(),
        "vitals": capture.vitals.len(),
    })
}

/// Spans that had not ended, at most 20.
fn open_spans(capture: &Capture) -> Vec<Value> {
    let open = capture.spans.iter().filter(|s| s.open).take(LISTED);
    let listed = open.map(|s| {
        json!({"name": capture.name(s.name), "tid": s.tid, "request": s.request,
               "age_ms": s.end_ns.saturating_sub(s.begin_ns) as f64 / 1e6})
    });
    listed.collect()
}

/// The slowest requests with their ids, at most 20.
fn slowest(capture: &Capture) -> Vec<Value> {
    let traces = Traces::of(capture);
    let mut rows: Vec<&RequestRow> = capture.requests.iter().collect();
    rows.sort_by(|a, b| request_ms(capture, b).total_cmp(&request_ms(capture, a)));
    let listed = rows.iter().take(LISTED).map(|r| {
        let ids = traces.request(r.id);
        json!({"name": capture.name(r.name), "id": r.id, "ms": request_ms(capture, r),
               "error": r.error, "trace_id": format!("{:032x}", ids.trace),
               "span_id": format!("{:016x}", ids.span),
               "parent_id": format!("{:016x}", ids.parent), "status": ids.status.text()})
    });
    listed.collect()
}

/// Times of requests in ms, sorted, by name; of open ones so far.
pub fn by_name(capture: &Capture) -> BTreeMap<&str, Vec<f64>> {
    let mut names: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for request in &capture.requests {
        let ms = request_ms(capture, request);
        names.entry(capture.name(request.name)).or_default().push(ms);
    }
    names.values_mut().for_each(|times| times.sort_by(f64::total_cmp));
    names
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

/// All series with all their windows.
fn metrics(capture: &Capture) -> Value {
    let all = series(capture);
    let list = all.iter().map(|((name, tags, kind), rows)| {
        let tags: Map<String, Value> =
            tags.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let windows: Vec<Value> = rows.iter().map(|row| window(row)).collect();
        json!({"name": name, "kind": kind_text(*kind), "tags": tags, "windows": windows})
    });
    list.collect()
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
