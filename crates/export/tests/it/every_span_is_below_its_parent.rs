//! Every request and span is in the traces once, below its parent; what the recorder observed is
//! below the request or span it belongs to.

use crate::common;

use std::collections::HashSet;

use analysis::states::Threads;
use capture::read::{Capture, EventRow, LinkRow, SpanRow, Text, TraceRow};
use common::{capture, request, span, HOSTILE, MS, T0, WORKER};
use export::spans::Spans;
use format::trace::{Link, SpanKind, Status, Trace};
use otlp::{Kind, Span, Value};

/// One line for each span: depth, name, milliseconds since the window began, length; its moments
/// behind it.
fn tree(capture: &Capture) -> String {
    let threads = Threads::new(capture);
    let spans = Spans::of(&threads);
    let mut all: Vec<&Span<'_>> = spans.said.iter().chain(&spans.seen).collect();
    all.sort_by_key(|s| (s.begin_ns, std::cmp::Reverse(s.end_ns)));
    let ids: HashSet<(u128, u64)> = all.iter().map(|s| (s.trace, s.id)).collect();
    assert_eq!(ids.len(), all.len(), "ids are unique");
    let mut out = String::new();
    for root in all.iter().filter(|s| s.parent == 0) {
        branch(&all, root, 0, capture, &mut out);
    }
    assert_eq!(out.lines().count(), all.len(), "every span hangs below a root:\n{out}");
    out
}

fn branch(all: &[&Span<'_>], span: &Span<'_>, deep: usize, capture: &Capture, out: &mut String) {
    let ms = |ns: u64| (ns.wrapping_sub(capture.meta.epoch_ns(T0)) as i64) / MS as i64;
    let moments: Vec<&str> = span.moments.iter().map(|m| m.name.as_ref()).collect();
    let name = if span.name == HOSTILE { "(hostile)" } else { span.name.as_ref() };
    out.push_str(&format!(
        "{}{name} {}+{} {}\n",
        "  ".repeat(deep),
        ms(span.begin_ns),
        (span.end_ns - span.begin_ns) / MS,
        moments.join(",")
    ));
    for below in all.iter().filter(|s| s.trace == span.trace && s.parent == span.id) {
        branch(all, below, deep + 1, capture, out);
    }
}

/// Empty, but for names.
fn named() -> Capture {
    let names = common::NAMES.iter().map(|n| (*n).to_owned()).collect();
    Capture { names, ..Capture::default() }
}

#[test]
fn a_capture_with_everything_is_this_forest() {
    let wanted = "\
GET /work 0+2000 
  burn 0+1000 cache.miss
    GC generation 2 100+20 
  (hostile) 1000+1000 
    wait: socket read 1000+1000 
GET /async 100+800 
  queued 100+20 
  db.query 150+740 
    awaits lock 200+100 
    awaits executor 300+300 
  work on helper \"<b>\" 450+250 
GET /async 300+900 
  queued 300+20 
  db.query 350+840 
GET /async 1500+600 
";
    assert_eq!(tree(&capture(true)), wanted);
}

#[test]
fn what_is_too_short_for_a_span_is_summed_up_in_the_root() {
    let made = capture(true);
    let threads = Threads::new(&made);
    let spans = Spans::of(&threads);
    let root = spans.said.iter().find(|s| s.name == "GET /work").expect("there");
    let value = |key: &str| root.attributes.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
    // Preempted for 10 ms of 2 s.
    assert_eq!(value("dashcam.waits.short"), Some(Value::Int(1)));
    assert_eq!(value("dashcam.waits.short_ns"), Some(Value::Int(10 * MS as i64)));
    assert_eq!(value("http.route"), Some(Value::from("/work")));
    let wait = spans.seen.iter().find(|s| s.name.starts_with("wait")).expect("there");
    let value = |key: &str| wait.attributes.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
    assert_eq!(value("dashcam.wait.target"), Some(Value::from("tcp 10.0.0.1:5432")));
    assert_eq!(value("code.function.name"), Some(Value::from("nap")));
    assert_eq!(value("code.line.number"), Some(Value::Int(9)));
    assert_eq!(value("dashcam.exact"), Some(Value::Bool(true)));
}

#[test]
fn recorded_ids_kinds_and_statuses_are_exported() {
    let mut made = capture(true);
    let record = Trace {
        t_ns: T0,
        request: 64,
        trace: 0xabc,
        span: 0xdef,
        parent: 0x123,
        remote: true,
        sampled: true,
        kind: SpanKind::Consumer,
        status: Status::Error,
        message: 14,
        ..Trace::default()
    };
    made.traces.push(TraceRow { tid: WORKER, seq: 1, record, attributes: Vec::new() });
    let link = Link { t_ns: T0, request: 64, span: 0xdef, to_trace: 7, to_span: 8, remote: true };
    let attributes = vec![(10, Text::Int(1))];
    made.links.push(LinkRow { tid: WORKER, link, attributes });
    let threads = Threads::new(&made);
    let spans = Spans::of(&threads);
    let root = spans.said.iter().find(|s| s.name == "GET /work").expect("there");
    assert_eq!((root.trace, root.id, root.parent), (0xabc, 0xdef, 0x123));
    assert_eq!((root.kind, root.status), (otlp::Kind::Consumer, otlp::Status::Error));
    assert_eq!((root.message.as_ref(), root.flags), ("cache.miss", 0x301));
    assert_eq!((root.links[0].trace, root.links[0].span, root.links.len()), (7, 8, 1));
    let inner = spans.said.iter().find(|s| s.name == "burn").expect("there");
    assert_eq!((inner.trace, inner.parent), (0xabc, 0xdef));
}

#[test]
fn an_event_without_a_span_is_a_span_without_length() {
    let mut made = named();
    let event = |request, t_ms: u64| EventRow {
        name: 14,
        tid: WORKER,
        t_ns: T0 + t_ms * MS,
        request,
        attributes: Vec::new(),
    };
    made.meta.from_ns = T0;
    made.requests.push(request(64, 1, WORKER, 10, 20));
    made.spans.push(span(2, WORKER, 0, 30, 40));
    // Outside of everything; of a request that is not here; in a request; in a span without a
    // request.
    made.events = vec![event(0, 5), event(99, 6), event(64, 15), event(0, 35)];
    let threads = Threads::new(&made);
    let spans = Spans::of(&threads);
    let found: Vec<String> = spans
        .said
        .iter()
        .map(|s| {
            format!("{} {} {} {}", s.name, s.end_ns - s.begin_ns, s.moments.len(), s.parent != 0)
        })
        .collect();
    let wanted = [
        "cache.miss 0 0 false",
        "cache.miss 0 0 true",
        "GET /work 10000000 1 false",
        "burn 10000000 1 false",
    ];
    assert_eq!(found, wanted);
}

#[test]
fn moments_past_the_limit_are_counted() {
    let mut made = named();
    made.requests.push(request(64, 1, WORKER, 0, 2000));
    for t_ms in 0..1500 {
        let (t_ns, attributes) = (T0 + t_ms * MS, Vec::new());
        made.events.push(EventRow { name: 14, tid: WORKER, t_ns, request: 64, attributes });
    }
    let threads = Threads::new(&made);
    let spans = Spans::of(&threads);
    assert_eq!((spans.said[0].moments.len(), spans.said[0].dropped_moments), (1000, 500));
}

#[test]
fn a_call_to_another_service_is_a_clients_span() {
    let mut made = named();
    made.requests.push(request(1, 64, WORKER, 0, 100));
    made.spans.push(SpanRow { call: true, ..span(2, WORKER, 64, 10, 50) });
    made.spans.push(span(2, WORKER, 64, 70, 10));
    let threads = Threads::new(&made);
    let kinds: Vec<Kind> = Spans::of(&threads).said.iter().map(|s| s.kind).collect();
    assert_eq!(kinds, [Kind::Server, Kind::Client, Kind::Internal]);
}
