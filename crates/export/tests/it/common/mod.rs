//! A capture made by hand: a worker thread that runs 1 s and sleeps 1 s inside of a request, an
//! event loop with two requests at once, work handed to an executor, and hostile names.
#![allow(dead_code)]

use std::collections::HashMap;

use capture::read::{
    Capture, Code, EventRow, GcRow, OffCpu, RequestRow, SpanRow, StackNode, TaskRow, Text,
    ThreadRow, VitalRow,
};
use export::{Format, Value};
use format::record::{flag, Await, Sample, TARGET_IS_NAME};
use format::wait::{AwaitKind, HolderSource, WaitKind};

pub const MS: u64 = 1_000_000;
/// The window begins here.
pub const T0: u64 = 5_000 * MS;
/// Threads.
pub const WORKER: u32 = 7;
pub const LOOP: u32 = 8;
pub const HELPER: u32 = 9;

/// Names that break careless writers: quotes, tags, line breaks, separators, control characters.
pub const HOSTILE: &str = "a\"b;c</script><script>\n\r\t\u{0}\u{1b}\u{2028}\\ d;";

pub const NAMES: [&str; 16] = [
    "",
    "GET /work",
    "burn",
    HOSTILE,
    "main",
    "busy.<locals>.inner",
    "nap",
    "/srv/app.py",
    "/usr/lib/python3/threading.py",
    "tcp 10.0.0.1:5432",
    "trace_id",
    "rss_bytes",
    "GET /async",
    "db.query",
    "cache.miss",
    "process_cpu_ns",
];

pub fn sample(
    tid: u32,
    t_ms: u64,
    wait: WaitKind,
    stack: u32,
    wall_ms: u64,
    cpu_ms: u64,
) -> Sample {
    Sample {
        t_ns: T0 + t_ms * MS,
        tid,
        stack,
        flags: flag::TIMES,
        gil_holder: 0,
        wall_ns: wall_ms * MS,
        cpu_ns: cpu_ms * MS,
        run_delay_ns: 0,
        wait,
        holder_source: HolderSource::None,
        call: 230,
        lock_holder: 0,
        slices: 0,
        target: 0,
        timeout_ns: 0,
        task: 0,
        lock: 0,
    }
}

pub fn request(id: u64, name: u32, tid: u32, from_ms: u64, to_ms: u64) -> RequestRow {
    RequestRow {
        id,
        name,
        tid,
        begin_ns: T0 + from_ms * MS,
        started_ns: T0 + from_ms * MS,
        end_ns: Some(T0 + to_ms * MS),
        ended_tid: tid,
        error: false,
        on_loop: false,
        times: 1,
        attributes: Vec::new(),
    }
}

pub fn span(name: u32, tid: u32, request: u64, from_ms: u64, to_ms: u64) -> SpanRow {
    let (begin_ns, end_ns) = (T0 + from_ms * MS, T0 + to_ms * MS);
    let (error, open, call, attributes) = (false, false, false, Vec::new());
    SpanRow { name, tid, begin_ns, end_ns, request, error, open, call, attributes }
}

fn thread(tid: u32, name: &str) -> ThreadRow {
    ThreadRow {
        tid,
        serial: tid,
        name: name.to_owned(),
        named: true,
        nested: false,
        start_ns: T0,
        end_ns: None,
        records: 10,
        dropped: 0,
    }
}

/// The window is 2.1 s. `exact`: with switch records.
pub fn capture(exact: bool) -> Capture {
    let mut made = Capture::default();
    made.meta.service = "billy".to_owned();
    made.meta.reason = "GET /work took 2,000 ms".to_owned();
    made.meta.pid = 4711;
    made.meta.start_ns = T0 - 1000 * MS;
    made.meta.start_epoch_ns = 1_700_000_000_000 * MS;
    made.meta.from_ns = T0;
    made.meta.to_ns = T0 + 2100 * MS;
    made.meta.all = serde_json::json!({"settings": {"period_ns": 10_000_000}});
    made.meta.stdlib = vec!["/usr/lib/python3".to_owned()];
    let switches = if exact { "on" } else { "off: paranoid" };
    made.meta.sources = vec![("switches".to_owned(), switches.to_owned())];
    made.meta.losses = vec![("stacks_torn".to_owned(), 3), ("names_refused".to_owned(), 0)];
    made.names = NAMES.iter().map(|n| (*n).to_owned()).collect();
    let code = |function, file| Code {
        function,
        file,
        first_line: 3,
        releases: false,
        native: false,
        inner: false,
    };
    made.codes = vec![code(4, 8), code(5, 7), code(6, 7), code(3, 7)];
    let node = |parent, code, line| StackNode { parent, code, line };
    // 2: main > busy; 3: main > nap; 4: main > hostile.
    made.stacks = vec![node(0, 1, 100), node(1, 2, 5), node(1, 3, 9), node(1, 4, 77)];
    made.threads =
        vec![thread(WORKER, "worker"), thread(LOOP, "loop"), thread(HELPER, "helper \"<b>\"")];
    worker(&mut made, exact);
    event_loop(&mut made);
    made.spans.sort_by_key(|s| s.begin_ns);
    made
}

/// Runs from 0 to 1000 (10 ms of it preempted), sleeps to 2000, runs to 2100.
fn worker(made: &mut Capture, exact: bool) {
    let mut row = request(64, 1, WORKER, 0, 2000);
    row.attributes = vec![(10, Text::Text("abc123".to_owned())), (3, Text::Int(-4))];
    made.requests.push(row);
    made.spans.push(span(2, WORKER, 64, 0, 1000));
    made.spans.push(span(3, WORKER, 64, 1000, 2000));
    let run = |i: u64| {
        // Not quite all of the first second is CPU time.
        let cpu_ms = if i == 50 { 0 } else { 10 };
        sample(WORKER, i * 10, WaitKind::Running, 2, if i == 0 { 0 } else { 10 }, cpu_ms)
    };
    let mut samples: Vec<Sample> = (0..=100).map(run).collect();
    samples[0].flags = 0;
    samples[0].cpu_ns = 0;
    let mut asleep = sample(WORKER, 1010, WaitKind::SocketRead, 3, 10, 0);
    asleep.target = TARGET_IS_NAME | 9;
    samples.push(asleep);
    samples.push(Sample { t_ns: T0 + 1990 * MS, wall_ns: 980 * MS, ..asleep });
    made.samples.insert(WORKER, samples);
    if exact {
        let off = |out_ms, in_ms, preempted| OffCpu {
            out_ns: T0 + out_ms * MS,
            in_ns: T0 + in_ms * MS,
            preempted,
            cpu: None,
        };
        made.off_cpu.insert(WORKER, vec![off(490, 500, true), off(1000, 2000, false)]);
    }
    made.events.push(EventRow {
        name: 14,
        tid: WORKER,
        t_ns: T0 + 500 * MS,
        request: 64,
        attributes: vec![(3, Text::Float(f64::NAN)), (10, Text::Bool(true))],
    });
    let (begin_ns, end_ns) = (T0 + 100 * MS, T0 + 120 * MS);
    made.gcs.push(GcRow { tid: WORKER, generation: 2, begin_ns, end_ns, collected: 17 });
}

/// Two requests at once on the loop, whose spans overlap; one hands work to the helper.
fn event_loop(made: &mut Capture) {
    for (id, from_ms, to_ms) in [(65, 100, 900), (66, 300, 1200)] {
        let mut row = request(id, 12, LOOP, from_ms, to_ms);
        row.on_loop = true;
        row.started_ns += 20 * MS;
        made.requests.push(row);
        made.spans.push(span(13, LOOP, id, from_ms + 50, to_ms - 10));
    }
    let mut open = request(67, 12, LOOP, 1500, 1600);
    open.end_ns = None;
    made.requests.push(open);
    made.tasks.push(TaskRow {
        tid: HELPER,
        queued_ns: T0 + 400 * MS,
        begin_ns: T0 + 450 * MS,
        end_ns: T0 + 700 * MS,
        request: 65,
    });
    let observation = |t_ms: u64, kind| Await {
        t_ns: T0 + t_ms * MS,
        request: 65,
        task: 0xabc,
        stack: 4,
        kind,
        how: HolderSource::WithBlock,
        holder: 0xdef,
        target: 0,
        timeout_ns: 0,
    };
    let observations =
        vec![observation(200, AwaitKind::Lock), observation(300, AwaitKind::Executor)];
    made.awaits = HashMap::from([(65, observations)]);
    for (name, value) in [(11, 5e6), (15, f64::INFINITY), (15, 7.0)] {
        made.vitals.push(VitalRow { name, t_ns: T0 + 1000 * MS, value });
    }
}

/// All of a capture, whose requests may take half a second.
pub fn options(value: Value) -> export::Options<'static> {
    let requests = export::Chosen::Everything;
    export::Options { value, requests, all_threads: false, limit_ns: &|_| 500 * MS }
}

pub fn export(capture: &Capture, format: Format, value: Value) -> Vec<u8> {
    let (mut out, mut read) = (Vec::new(), 0);
    let mut progress = |done: u64, all: u64| {
        assert!(done <= all);
        read += 1;
    };
    export::write(capture, format, &options(value), &mut out, &mut progress)
        .expect("memory takes it");
    out
}

pub fn text(capture: &Capture, format: Format, value: Value) -> String {
    String::from_utf8(export(capture, format, value)).expect("UTF-8")
}

/// Every byte belongs to a field, also in nested messages.
pub fn check_otlp(bytes: &[u8]) {
    use otlp::wire::{fields, Field};
    let mut read = 0;
    for (number, resource) in fields(bytes) {
        let Field::Bytes(resource) = resource else { panic!("no message: {resource:?}") };
        assert_eq!(number, 1, "only resources");
        read += resource.len() + length_of_length(resource.len()) + 1;
        for (number, field) in fields(resource) {
            assert!(matches!((number, field), (1 | 2, Field::Bytes(_))), "{number} {field:?}");
        }
    }
    assert_eq!(read, bytes.len(), "nothing is left over");
}

fn length_of_length(length: usize) -> usize {
    (1..).find(|n| length >> (7 * n) == 0).unwrap_or(10)
}

/// The rules of Zipkin's API description for each span.
pub fn check_zipkin(bytes: &[u8]) {
    let all: Vec<serde_json::Value> = serde_json::from_slice(bytes).expect("a list");
    let hex = |value: &serde_json::Value, length: usize| {
        let text = value.as_str().unwrap_or_default();
        let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        text.len() == length && text.chars().all(is_hex) && text.chars().any(|c| c != '0')
    };
    for span in all {
        assert!(hex(&span["traceId"], 32) && hex(&span["id"], 16), "{span}");
        assert!(span["parentId"].is_null() || hex(&span["parentId"], 16), "{span}");
        let kind = span["kind"].as_str();
        let kinds = ["CLIENT", "SERVER", "PRODUCER", "CONSUMER"];
        assert!(kind.is_none_or(|kind| kinds.contains(&kind)), "{span}");
        assert!(span["timestamp"].as_u64() > Some(0) && span["duration"].as_u64() > Some(0));
        let tags = span["tags"].as_object().expect("tags");
        assert!(tags.values().all(serde_json::Value::is_string), "{span}");
    }
}
