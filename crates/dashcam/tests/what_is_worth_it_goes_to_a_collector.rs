//! Slow and failed requests, and a share of the others, arrive with all their spans, under the ids
//! that a capture has; what does not arrive is counted.
#![allow(clippy::expect_used, missing_docs)]

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use capture::read::{Capture, Traces};
use dashcam::{Runtime, Value};
use otlp::wire::{fields, Field};

/// Path and body of a request.
type Posted = (String, Vec<u8>);

/// A receiver: keeps what is posted, and gives the answer that it is set to.
struct Receiver {
    address: SocketAddr,
    posts: Arc<Mutex<Vec<Posted>>>,
    /// Answers to give to spans before the usual one.
    answers: Arc<Mutex<Vec<&'static str>>>,
}

const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

impl Receiver {
    fn listen(listener: TcpListener, answers: Vec<&'static str>) -> Receiver {
        let address = listener.local_addr().expect("bound");
        let (posts, answers) = (Arc::default(), Arc::new(Mutex::new(answers)));
        let receiver = Receiver { address, posts, answers };
        let (posts, answers) = (receiver.posts.clone(), receiver.answers.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let (path, body) = read(&mut stream);
                let mut waiting = answers.lock().expect("whole");
                // Metrics are posted when they are due, spans when the tests say so.
                let is_fine = waiting.is_empty() || path == "/v1/metrics";
                let answer = if is_fine { FINE } else { waiting.remove(0) };
                if answer.starts_with("HTTP/1.1 200") {
                    posts.lock().expect("whole").push((path, body));
                }
                stream.write_all(answer.as_bytes()).expect("answered");
            }
        });
        receiver
    }

    fn new(answers: Vec<&'static str>) -> Receiver {
        Receiver::listen(TcpListener::bind("127.0.0.1:0").expect("a port"), answers)
    }

    /// The spans that arrived.
    fn spans(&self) -> Vec<Span> {
        let posts = self.posts.lock().expect("whole");
        posts.iter().filter(|(path, _)| path == "/v1/traces").flat_map(|(_, b)| spans(b)).collect()
    }
}

fn read(stream: &mut impl Read) -> Posted {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
            let length = head.split("Content-Length: ").nth(1).expect("a length");
            let length: usize = length.lines().next().and_then(|l| l.parse().ok()).expect("length");
            if bytes.len() >= at + 4 + length {
                assert!(head.contains("Content-Type: application/x-protobuf"), "{head}");
                let path = head.split(' ').nth(1).expect("a path").to_owned();
                return (path, bytes[at + 4..].to_vec());
            }
        }
        let count = stream.read(&mut buffer).expect("readable");
        assert!(count > 0, "cut off");
        bytes.extend_from_slice(&buffer[..count]);
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Span {
    ids: (u128, u64, u64),
    name: String,
    moments: Vec<String>,
    attributes: Vec<String>,
}

fn messages(bytes: &[u8], wanted: u32) -> impl Iterator<Item = &[u8]> {
    fields(bytes).filter_map(move |(number, field)| match field {
        Field::Bytes(bytes) if number == wanted => Some(bytes),
        _ => None,
    })
}

fn text(bytes: &[u8], wanted: u32) -> String {
    messages(bytes, wanted).next().map_or_else(String::new, |t| String::from_utf8_lossy(t).into())
}

fn id(bytes: &[u8], wanted: u32) -> u128 {
    let id = messages(bytes, wanted).next().unwrap_or_default();
    id.iter().fold(0, |all, byte| all << 8 | u128::from(*byte))
}

fn spans(body: &[u8]) -> Vec<Span> {
    let scopes = messages(body, 1).flat_map(|resource| messages(resource, 2));
    let of = |span: &[u8]| Span {
        ids: (id(span, 1), id(span, 2) as u64, id(span, 4) as u64),
        name: text(span, 5),
        moments: messages(span, 11).map(|moment| text(moment, 2)).collect(),
        attributes: messages(span, 9)
            .map(|pair| {
                let value = messages(pair, 2).next().unwrap_or_default();
                let value = match fields(value).next() {
                    Some((1, Field::Bytes(text))) => String::from_utf8_lossy(text).into_owned(),
                    Some((_, Field::Number(number))) => number.to_string(),
                    other => format!("{other:?}"),
                };
                format!("{}={value}", text(pair, 1))
            })
            .collect(),
    };
    scopes.flat_map(|scope| messages(scope, 2).map(of).collect::<Vec<_>>()).collect()
}

/// Holds the turn; recording stops behind it, however the test ends.
struct Turn(#[allow(dead_code)] MutexGuard<'static, ()>);

impl Drop for Turn {
    fn drop(&mut self) {
        dashcam::stop();
        // Captures of slow requests, if any came to be.
        let _ = std::fs::remove_dir_all(folder());
    }
}

fn folder() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("dashcam-otlp-{}", std::process::id()))
}

/// Starts afresh with an exporter; one recorder a process, so the tests take turns.
fn started(collector: SocketAddr, share: &str) -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let out = folder().display().to_string();
    let url = format!("http://{collector}");
    let given = [
        ("service", "billy"),
        ("memory", "4MiB"),
        ("out", out.as_str()),
        // What is slow is said by the name: the machine may be busy.
        ("slow", "1h, slow*>1ms"),
        ("otlp", url.as_str()),
        ("otlp_share", share),
    ];
    let given: Vec<_> = given.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
    assert!(dashcam::start_with_runtime(&given, Runtime::default()).expect("starts"));
    Turn(turn)
}

fn name(text: &str) -> u32 {
    dashcam::current().expect("recording").tables().name(text)
}

/// A request with two spans, one within the other, an event, and a span on another thread.
fn request(called: &str, error: bool) -> u64 {
    let id = dashcam::current().expect("recording").request_name(called);
    let waited_ns = if called.starts_with("slow") { 5_000_000 } else { 0 };
    let request = dashcam::Request::begin(id, false, waited_ns);
    let (outer_ns, outer, inner) = (dashcam::now_ns(), name("outer"), name("inner"));
    let inner_ns = dashcam::now_ns();
    dashcam::event(name("cache.miss"), request.id, &[]);
    dashcam::span(inner, inner_ns, request.id, false, &[(name("rows"), Value::Int(3))]);
    dashcam::span(outer, outer_ns, request.id, false, &[]);
    let elsewhere = name("elsewhere");
    let there = move || dashcam::span(elsewhere, dashcam::now_ns(), request.id, false, &[]);
    std::thread::spawn(there).join().expect("ends");
    request.end(id, error, &[(name("user"), Value::Text("ann"))]);
    request.id
}

/// What `status` says of the exporter.
fn status() -> serde::Status {
    serde::Status(dashcam::status_json())
}

/// As much of JSON as is needed here.
mod serde {
    pub struct Status(pub String);
    impl Status {
        pub fn number(&self, object: &str, key: &str) -> u64 {
            let reported = self.0.split("\"otlp\":{\"traces\"").nth(1).expect("an exporter");
            let reported = match object {
                "" => reported,
                name => reported.split(&format!("\"{name}\":{{")).nth(1).expect("the object"),
            };
            let value = reported.split(&format!("\"{key}\":")).nth(1).expect("the key");
            let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
            value[..end].parse().unwrap_or_else(|e| panic!("{key}: {value:.20}: {e}"))
        }
        pub fn adds_up(&self) {
            for what in ["spans", "points"] {
                let of = |key| self.number(what, key);
                let sum = of("sent") + of("refused") + of("dropped") + of("waiting");
                assert_eq!(of("produced"), sum, "{}", self.0);
            }
        }
    }
}

fn flushed() {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !dashcam::flush() {
        assert!(Instant::now() < deadline, "{}", dashcam::status_json());
    }
}

#[test]
fn slow_and_failed_requests_arrive_whole_and_the_others_do_not() {
    let receiver = Receiver::new(vec![]);
    let _turn = started(receiver.address, "0");
    let slow = request("slow GET /a", false);
    let failed = request("GET /b", true);
    for _ in 0..50 {
        request("GET /c", false);
    }
    flushed();
    let arrived = receiver.spans();
    let names: Vec<&str> = arrived.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names.len(), 8, "{names:?}");
    let root = |id: u64| {
        let wanted = format!("dashcam.request.id={id}");
        arrived.iter().find(|s| s.attributes.contains(&wanted)).expect("arrived")
    };
    let has = |id: u64, attribute: &str| root(id).attributes.contains(&attribute.to_owned());
    assert!(has(slow, "dashcam.chosen=slow") && has(failed, "dashcam.chosen=failed"));
    assert!(has(slow, "user=ann") && root(slow).ids.2 == 0);
    let below = |outer: &Span| -> HashSet<String> {
        let is = |s: &&Span| s.ids.0 == outer.ids.0 && s.ids.2 == outer.ids.1;
        arrived.iter().filter(is).map(|s| s.name.clone()).collect()
    };
    let wanted: HashSet<String> = ["outer", "elsewhere"].map(str::to_owned).into();
    assert_eq!(below(root(slow)), wanted);
    let is_outer = |s: &&Span| s.name == "outer" && s.ids.0 == root(slow).ids.0;
    let outer = arrived.iter().find(is_outer).expect("arrived");
    assert_eq!(below(outer), HashSet::from(["inner".to_owned()]));
    let inner = arrived.iter().find(|s| s.ids.2 == outer.ids.1).expect("arrived");
    assert_eq!((inner.moments.len(), outer.moments.len()), (1, 0), "the innermost has it");

    let status = status();
    status.adds_up();
    assert_eq!(status.number("spans", "sent"), 8);
    assert_eq!(status.number("chosen_requests", "slow"), 1);
    assert_eq!(status.number("chosen_requests", "failed"), 1);
    assert_eq!(status.number("", "records_missed"), 0);

    // A capture of the same moment has the same ids and parents.
    let path = dashcam::snap("to compare").expect("written");
    let capture = Capture::open(&path).expect("readable");
    let traces = Traces::of(&capture);
    let mut known: HashSet<(u128, u64, u64)> = HashSet::new();
    let ids = |ids: &capture::read::SpanIds| (ids.trace, ids.span, ids.parent);
    known.extend(capture.requests.iter().map(|row| ids(&traces.request(row.id))));
    known.extend((0..capture.spans.len()).filter_map(|i| traces.span(i)).map(ids));
    for span in &arrived {
        assert!(known.contains(&span.ids), "{span:?}");
    }
}

#[test]
fn a_share_of_the_others_arrives_and_is_what_the_books_say() {
    let receiver = Receiver::new(vec![]);
    let _turn = started(receiver.address, "50");
    for _ in 0..200 {
        request("GET /d", false);
    }
    flushed();
    let arrived = receiver.spans();
    let roots = arrived.iter().filter(|span| span.name == "GET /d").count();
    assert!((60..140).contains(&roots), "{roots} of 200 at 50 %");
    assert_eq!(arrived.len(), roots * 4, "each with its spans");
    let status = status();
    status.adds_up();
    assert_eq!(status.number("chosen_requests", "share"), roots as u64);
    assert_eq!(status.number("spans", "sent"), arrived.len() as u64);
}

#[test]
fn what_a_collector_puts_off_comes_later_and_what_it_rejects_is_counted() {
    let busy = "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n";
    // Two spans were rejected: partial_success { rejected_spans: 2 }.
    let partly = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\x0a\x02\x08\x02";
    let bad = "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n";
    let receiver = Receiver::new(vec![busy, busy, partly, bad]);
    let _turn = started(receiver.address, "0");
    request("slow one", false);
    flushed();
    request("slow two", false);
    flushed();
    request("slow three", false);
    flushed();
    let names: HashSet<String> = receiver.spans().into_iter().map(|span| span.name).collect();
    assert!(names.contains("slow one") && names.contains("slow three"), "{names:?}");
    let status = status();
    status.adds_up();
    assert_eq!(status.number("", "retried"), 2);
    assert_eq!(status.number("spans", "sent"), 4 - 2 + 4);
    assert_eq!(status.number("spans", "refused"), 2 + 4);
}

#[test]
fn nobody_listening_costs_nothing_but_what_has_no_room() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let _turn = started(address, "100");
    request("slow GET /e", false);
    assert!(!dashcam::flush(), "there is nobody");
    let before = status();
    before.adds_up();
    assert_eq!((before.number("spans", "waiting"), before.number("spans", "sent")), (4, 0));
    assert!(before.number("", "retried") > 0);
    let receiver = Receiver::listen(TcpListener::bind(address).expect("the port"), vec![]);
    flushed();
    assert_eq!(receiver.spans().len(), 4, "they had waited");
    status().adds_up();
}

#[test]
fn what_came_from_outside_goes_on_under_its_own_ids() {
    use format::record::{Builder, Kind, MAX_WORDS};
    use format::trace::{Link, SpanKind, Status, Trace, TRACESTATE};
    let receiver = Receiver::new(vec![]);
    let _turn = started(receiver.address, "0");
    let called = dashcam::current().expect("recording").request_name("slow GET /f");
    let request = dashcam::Request::begin(called, false, 5_000_000);
    let begin_ns = dashcam::now_ns();
    let reported = Trace {
        t_ns: begin_ns,
        request: request.id,
        trace: 0xabc << 64 | 0xdef,
        parent: 0x123,
        remote: true,
        sampled: true,
        kind: SpanKind::Consumer,
        ..Trace::default()
    };
    let of_span = Trace {
        t_ns: begin_ns,
        request: request.id,
        of_span: true,
        kind: SpanKind::Client,
        status: Status::Error,
        message: name("no route"),
        ..Trace::default()
    };
    for reported in [reported, of_span] {
        let (flags, words) = (reported.flags(), reported.words());
        let mut made = Builder::<MAX_WORDS>::new(Kind::Trace, flags, reported.message, &words);
        made.attribute(name(TRACESTATE), Value::Text("vendor=1"));
        dashcam::append(made.finish().0, begin_ns);
    }
    dashcam::span(name("call"), begin_ns, request.id, false, &[]);
    let seed = dashcam::current().expect("recording").ids_seed();
    let root = format::ids::request_span(seed, request.id);
    let (request_id, to_trace, to_span) = (request.id, 7, 8);
    let t_ns = begin_ns;
    let link = Link { t_ns, request: request_id, span: root, to_trace, to_span, remote: true };
    let mut made = Builder::<MAX_WORDS>::new(Kind::Link, link.flags(), 0, &link.words());
    dashcam::append(made.finish().0, begin_ns);
    request.end(called, false, &[]);
    flushed();
    let posts = receiver.posts.lock().expect("whole");
    let (_, body) = posts.iter().find(|(path, _)| path == "/v1/traces").expect("posted");
    let number = |span: &[u8], wanted: u32| {
        fields(span).find_map(|(number, field)| match field {
            Field::Number(value) if number == wanted => Some(value),
            _ => None,
        })
    };
    let all: Vec<&[u8]> = messages(body, 1)
        .flat_map(|resource| messages(resource, 2))
        .flat_map(|scope| messages(scope, 2))
        .collect();
    let [first, second] = all[..] else { panic!("{} spans", all.len()) };
    assert_eq!((id_of(first), id(first, 4)), ((0xabc << 64 | 0xdef, u128::from(root)), 0x123));
    // Consumer; sampled, and the parent is known to be another process's.
    assert_eq!((number(first, 6), number(first, 16)), (Some(5), Some(0x301)));
    assert_eq!(text(first, 3), "vendor=1");
    let linked: Vec<(u128, u128)> = messages(first, 13).map(id_of).collect();
    assert_eq!(linked, [(7, 8)]);
    assert_eq!((id(second, 1), id(second, 4)), (0xabc << 64 | 0xdef, u128::from(root)));
    let status = messages(second, 15).next().expect("a status");
    assert_eq!((number(second, 6), number(status, 3)), (Some(3), Some(2)));
    assert_eq!(text(status, 2), "no route");
}

#[test]
fn a_call_to_another_service_is_a_clients_span() {
    use format::record::{flag, header, Kind};
    let receiver = Receiver::new(vec![]);
    let _turn = started(receiver.address, "0");
    let called = dashcam::current().expect("recording").request_name("slow GET /c");
    let request = dashcam::Request::begin(called, false, 5_000_000);
    let begin_ns = dashcam::now_ns();
    for (flags, name) in [(flag::CALL, name("select orders")), (0, name("own"))] {
        let end_ns = dashcam::now_ns();
        dashcam::append(
            &[header(Kind::Span, 4, flags, name), begin_ns, end_ns, request.id],
            end_ns,
        );
    }
    request.end(called, false, &[]);
    flushed();
    let posts = receiver.posts.lock().expect("whole");
    let (_, body) = posts.iter().find(|(path, _)| path == "/v1/traces").expect("posted");
    let spans = messages(body, 1)
        .flat_map(|resource| messages(resource, 2))
        .flat_map(|scope| messages(scope, 2));
    let kinds: Vec<(String, Option<u64>)> = spans
        .map(|span| {
            let kind = fields(span).find_map(|(number, field)| match field {
                Field::Number(value) if number == 6 => Some(value),
                _ => None,
            });
            (text(span, 5).to_owned(), kind)
        })
        .collect();
    // Client, internal.
    assert!(kinds.contains(&("select orders".to_owned(), Some(3))), "{kinds:?}");
    assert!(kinds.contains(&("own".to_owned(), Some(1))), "{kinds:?}");
}

/// Trace and span.
fn id_of(bytes: &[u8]) -> (u128, u128) {
    (id(bytes, 1), id(bytes, 2))
}

#[test]
fn what_was_overwritten_before_it_was_seen_is_counted() {
    let receiver = Receiver::new(vec![]);
    let _turn = started(receiver.address, "0");
    let flood = name("flood");
    // Many times what the box holds, within a scan or two.
    for _ in 0..2_000_000 {
        dashcam::event(flood, 0, &[]);
    }
    request("slow at last", false);
    flushed();
    let status = status();
    status.adds_up();
    assert!(status.number("", "records_missed") > 0, "{}", status.0);
    assert_eq!(receiver.spans().iter().filter(|s| s.name == "slow at last").count(), 1);
}

#[test]
fn metrics_arrive_and_the_last_ones_at_the_stop() {
    let receiver = Receiver::new(vec![]);
    let _turn = started(receiver.address, "0");
    dashcam::counter("otlp.orders").inc();
    flushed();
    dashcam::counter("otlp.late").inc();
    request("slow at the end", false);
    dashcam::stop();
    let posts = receiver.posts.lock().expect("whole");
    let metrics = posts.iter().filter(|(path, _)| path == "/v1/metrics");
    let names: HashSet<String> = metrics
        .flat_map(|(_, body)| messages(body, 1))
        .flat_map(|resource| messages(resource, 2))
        .flat_map(|scope| messages(scope, 2))
        .map(|metric| text(metric, 1))
        .collect();
    assert!(names.contains("otlp.orders") && names.contains("otlp.late"), "{names:?}");
    drop(posts);
    assert!(receiver.spans().iter().any(|span| span.name == "slow at the end"));
}
