//! `dashcam show --slowest --json`: one request with its spans, events and links, and their
//! identities.

use capture::read::{Capture, RequestRow, SpanIds, Text, Traces};
use serde_json::{json, Map, Value};

/// At most this many spans, events and links are shown, of each.
const MOST: usize = 1000;

/// The request as an object; times in ms from its begin.
pub fn to_json(capture: &Capture, request: &RequestRow) -> Value {
    let traces = Traces::of(capture);
    let ids = traces.request(request.id);
    let since = |t_ns: u64| (t_ns as f64 - request.begin_ns as f64) / 1e6;
    let end_ns = request.end_ns.unwrap_or(capture.meta.to_ns);
    let spans = capture.spans.iter().enumerate().filter(|(_, s)| s.request == request.id);
    let spans = spans.take(MOST).map(|(index, span)| {
        let ids = traces.span(index).cloned().unwrap_or_default();
        let mut made = identity(capture, &ids);
        made.insert("name".into(), json!(capture.name(span.name)));
        made.insert("thread".into(), json!(capture.thread_name(span.tid)));
        made.insert("at_ms".into(), json!(since(span.begin_ns)));
        made.insert("ms".into(), json!(span.end_ns.saturating_sub(span.begin_ns) as f64 / 1e6));
        made.insert("error".into(), json!(span.error));
        made.insert("open".into(), json!(span.open));
        made.insert("attributes".into(), attributes(capture, &span.attributes));
        Value::Object(made)
    });
    let events = capture.events.iter().filter(|e| e.request == request.id).take(MOST);
    let events = events.map(|event| {
        json!({"name": capture.name(event.name), "at_ms": since(event.t_ns),
               "attributes": attributes(capture, &event.attributes)})
    });
    let links = capture.links.iter().filter(|l| l.link.request == request.id).take(MOST);
    let links = links.map(|row| {
        json!({"span_id": format!("{:016x}", row.link.span),
               "to_trace_id": format!("{:032x}", row.link.to_trace),
               "to_span_id": format!("{:016x}", row.link.to_span), "remote": row.link.remote,
               "attributes": attributes(capture, &row.attributes)})
    });
    let mut made = identity(capture, &ids);
    made.insert("name".into(), json!(capture.name(request.name)));
    made.insert("id".into(), json!(request.id));
    made.insert("ms".into(), json!(end_ns.saturating_sub(request.begin_ns) as f64 / 1e6));
    made.insert("error".into(), json!(request.error));
    made.insert("open".into(), json!(request.end_ns.is_none()));
    made.insert("attributes".into(), attributes(capture, &request.attributes));
    made.insert("spans".into(), spans.collect());
    made.insert("events".into(), events.collect());
    made.insert("links".into(), links.collect());
    Value::Object(made)
}

/// Identity, kind, status.
fn identity(capture: &Capture, ids: &SpanIds) -> Map<String, Value> {
    let message = if ids.message == 0 { "" } else { capture.name(ids.message) };
    let mut made = Map::new();
    for (key, value) in [
        ("trace_id", json!(format!("{:032x}", ids.trace))),
        ("span_id", json!(format!("{:016x}", ids.span))),
        ("parent_id", json!(format!("{:016x}", ids.parent))),
        ("remote_parent", json!(ids.remote)),
        ("sampled", json!(ids.sampled)),
        ("kind", json!(ids.kind.text())),
        ("status", json!(ids.status.text())),
        ("message", json!(message)),
        ("tracestate", json!(ids.tracestate)),
    ] {
        made.insert(key.to_owned(), value);
    }
    made
}

fn attributes(capture: &Capture, list: &[(u32, Text)]) -> Value {
    let value = |text: &Text| match text {
        Text::Int(v) => json!(v),
        Text::Float(v) => json!(v),
        Text::Bool(v) => json!(v),
        Text::Text(v) => json!(v),
    };
    let pairs = list.iter().map(|(key, text)| (capture.name(*key).to_owned(), value(text)));
    Value::Object(pairs.collect())
}
