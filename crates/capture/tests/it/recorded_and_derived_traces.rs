//! Ids are derived from the seed unless a record has others; parents come from nesting in time.
#![cfg(feature = "read")]

use capture::read::{Capture, SpanIds, Traces};
use capture::write::CaptureWriter;
use format::block::{pack_pair, FIRST_NS, HEADER_WORDS, OWNER};
use format::ids;
use format::record::{header, Builder, Kind, Value, MAX_WORDS};
use format::trace::{Link, SpanKind, Status, Trace};

const SEED: u64 = 0x5eed;
const REMOTE_TRACE: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;
const REMOTE_SPAN: u64 = 0x00f0_67aa_0ba9_02b7;
const WORKER: u32 = 11;
const HELPER: u32 = 12;

fn names() -> Vec<u64> {
    let mut bytes: Vec<u8> = Vec::new();
    for text in ["(refused)", "GET /", "db.query", "tracestate", "timed out"] {
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes.chunks(8).map(|b| u64::from_le_bytes(b.try_into().expect("8"))).collect()
}

fn capture(meta: &str, threads: &[(u32, Vec<Vec<u64>>)]) -> Capture {
    let mut writer = CaptureWriter::new(Vec::new(), meta).expect("memory");
    writer.tables(&[vec![], names(), vec![], vec![]]).expect("memory");
    for (tid, records) in threads {
        let mut words = vec![0; HEADER_WORDS];
        (words[OWNER], words[FIRST_NS]) = (pack_pair(*tid, *tid), 1);
        words.extend(records.concat());
        writer.block(&words).expect("memory");
    }
    let read = Capture::parse(&writer.finish(0).expect("memory")).expect("whole");
    assert_eq!(read.damage, Vec::<String>::new());
    read
}

fn span(begin: u64, end: u64, request: u64) -> Vec<u64> {
    vec![header(Kind::Span, 4, 0, 2), begin, end, request]
}

fn request(id: u64, begin: u64, end: u64) -> [Vec<u64>; 2] {
    [
        vec![header(Kind::RequestBegin, 4, 0, 1), begin, id, begin],
        vec![header(Kind::RequestEnd, 4, 0, 1), begin, end, id],
    ]
}

fn reported(trace: Trace, state: &str) -> Vec<u64> {
    let mut made =
        Builder::<MAX_WORDS>::new(Kind::Trace, trace.flags(), trace.message, &trace.words());
    if !state.is_empty() {
        made.attribute(3, Value::Text(state));
    }
    made.finish().0.to_vec()
}

fn of(traces: &Traces, capture: &Capture, begin_ns: u64) -> SpanIds {
    let index = capture.spans.iter().position(|s| s.begin_ns == begin_ns).expect("the span");
    traces.span(index).expect("its ids").clone()
}

const META: &str = r#"{"service":"billy","pid":7,"to_ns":9000,"ids_seed":"0000000000005eed"}"#;

#[test]
fn ids_without_a_record_are_derived_and_nested_by_time() {
    let [begin, end] = request(64, 1000, 2000);
    let worker = vec![
        begin,
        span(1200, 1300, 64),
        span(1100, 1400, 64),
        span(1500, 1600, 64),
        end,
        span(3100, 3200, 0),
        span(3000, 3300, 0),
    ];
    let made = capture(META, &[(WORKER, worker), (HELPER, vec![span(1250, 1260, 64)])]);
    let traces = Traces::of(&made);
    let root = traces.request(64);
    assert_eq!((root.trace, root.span), (ids::trace_id(SEED, 64), ids::request_span(SEED, 64)));
    assert_eq!((root.parent, root.kind, root.sampled), (0, SpanKind::Server, false));
    let outer = of(&traces, &made, 1100);
    assert_eq!((outer.trace, outer.parent), (root.trace, root.span));
    assert_eq!(outer.span, ids::span(SEED, WORKER, 1100));
    assert_eq!(of(&traces, &made, 1200).parent, outer.span);
    assert_eq!(of(&traces, &made, 1500).parent, root.span);
    let helped = of(&traces, &made, 1250);
    assert_eq!((helped.trace, helped.parent), (root.trace, root.span), "on another thread");
    // Outside of any request the outermost span begins a trace.
    let (alone, inside) = (of(&traces, &made, 3000), of(&traces, &made, 3100));
    assert_eq!((alone.trace, alone.parent), (ids::trace_id(SEED, alone.span), 0));
    assert_eq!((inside.trace, inside.parent), (alone.trace, alone.span));
    // A request that is not in the capture any more.
    assert_eq!(traces.request(65).trace, ids::trace_id(SEED, 65));
}

#[test]
fn recorded_ids_win_and_the_later_record_counts() {
    let [begin, end] = request(64, 1000, 2000);
    let remote = Trace {
        t_ns: 1001,
        request: 64,
        trace: REMOTE_TRACE,
        parent: REMOTE_SPAN,
        sampled: true,
        remote: true,
        ..Trace::default()
    };
    let failed = Trace {
        t_ns: 1900,
        request: 64,
        status: Status::Error,
        message: 4,
        kind: SpanKind::Consumer,
        ..Trace::default()
    };
    let client = Trace {
        t_ns: 1100,
        request: 64,
        of_span: true,
        span: 0xabc,
        kind: SpanKind::Client,
        ..Trace::default()
    };
    let link = Link { t_ns: 1150, request: 64, span: 0xabc, to_trace: 5, to_span: 6, remote: true };
    let mut linked = Builder::<MAX_WORDS>::new(Kind::Link, link.flags(), 0, &link.words());
    let worker = vec![
        reported(failed, ""),
        begin,
        reported(remote, "vendor=1"),
        linked.finish().0.to_vec(),
        span(1200, 1300, 64),
        span(1100, 1400, 64),
        reported(client, ""),
        end,
    ];
    let made = capture(META, &[(WORKER, worker)]);
    let traces = Traces::of(&made);
    let root = traces.request(64);
    assert_eq!((root.trace, root.span), (REMOTE_TRACE, ids::request_span(SEED, 64)));
    assert_eq!((root.parent, root.remote, root.sampled), (REMOTE_SPAN, true, true));
    assert_eq!((root.kind, root.status, root.message), (SpanKind::Consumer, Status::Error, 4));
    assert_eq!(root.tracestate, "vendor=1");
    let outer = of(&traces, &made, 1100);
    assert_eq!((outer.trace, outer.span, outer.parent), (REMOTE_TRACE, 0xabc, root.span));
    assert_eq!(outer.kind, SpanKind::Client);
    let inner = of(&traces, &made, 1200);
    assert_eq!((inner.trace, inner.parent, inner.sampled), (REMOTE_TRACE, 0xabc, true));
    assert_eq!(made.links.len(), 1);
    assert_eq!(made.links[0].link, link);
}

#[test]
fn a_capture_without_a_seed_has_ids_of_its_own() {
    let meta = |pid: u32| format!(r#"{{"service":"billy","pid":{pid},"start_epoch_ns":5}}"#);
    let ids_of = |pid| Traces::of(&capture(&meta(pid), &[])).request(64).trace;
    assert_eq!(ids_of(7), ids_of(7));
    assert_ne!(ids_of(7), ids_of(8));
}
