//! On captures made by hand: a request on an event loop whose task no sample saw awaited what other
//! requests of its name were seen at, where these agree.

use capture::read::Capture;
use diagnosis::{diagnose, Confidence, Diagnosis};
use format::record::{Await, TARGET_IS_NAME};
use format::wait::{AwaitKind, WaitKind};
use made::{awaited, BEGIN, MS};
use report::to_text;

use crate::made;

const TID: u32 = 7;
/// Names of requests.
const NAMES: [&str; 2] = ["POST /event", "GET /other"];
const QUEUES: &str = "/usr/lib/python3.11/asyncio/queues.py";

/// Four requests of 500 ms on a loop that has nothing to do. The first `seen` of them were seen to
/// await room in a queue at these lines of the program, the others never.
fn capture(lines: &[u32]) -> Capture {
    let mut made = made::capture(TID, &NAMES);
    for id in 0..4 {
        made.requests.push(made::request(900 + id, TID, BEGIN, 500));
    }
    made.requests.iter_mut().for_each(|row| row.on_loop = true);
    made::off(&mut made, TID, &[(0, 500)]);
    made::also_seen(&mut made, TID, (0..500).step_by(50), WaitKind::Poll, 0);
    for (id, line) in (900..).zip(lines) {
        let function = format!("add_{line}");
        let add = (function.as_str(), "/srv/outbox.py", *line);
        let stack = made::stack(&mut made, &[add, ("Queue.put", QUEUES, 130)]);
        let sample = |i: u64| awaited(i * 50, id, 4096 + id, AwaitKind::Queue, stack);
        let samples: Vec<Await> = (1..10).map(sample).collect();
        made.awaits.insert(id, samples);
    }
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

#[test]
fn a_request_was_where_its_fellows_were() {
    let made = capture(&[40, 40, 40]);
    let verdict = judge(&made);
    let text = to_text(&verdict);
    assert_eq!((verdict.slow, verdict.findings.len()), (4, 1), "{text}");
    let first = &verdict.findings[0];
    assert_eq!((first.cause.text(), first.slow_requests), ("pool-wait", 4), "{text}");
    assert!(first.share > 0.95, "{text}");
    assert_eq!(first.confidence, Confidence::Likely);
    let said = first.missing.iter().any(|why| why.contains("25 % of it the request's task"));
    assert!(said, "{:?}", first.missing);
}

#[test]
fn fellows_at_different_places_say_nothing() {
    let made = capture(&[40, 50, 60]);
    let verdict = judge(&made);
    let unknown = verdict.findings.iter().find(|f| f.cause.text() == "unknown");
    assert!(unknown.is_some_and(|f| f.slow_requests == 1), "{}", to_text(&verdict));
}

#[test]
fn two_fellows_are_too_few() {
    let made = capture(&[40, 40]);
    let verdict = judge(&made);
    let unknown = verdict.findings.iter().find(|f| f.cause.text() == "unknown");
    assert!(unknown.is_some_and(|f| f.slow_requests == 2), "{}", to_text(&verdict));
}

#[test]
fn requests_of_another_name_are_no_fellows() {
    let mut made = capture(&[40, 40, 40]);
    for row in made.requests.iter_mut().filter(|row| (900..903).contains(&row.id)) {
        row.name = 1;
    }
    let verdict = judge(&made);
    let unknown = verdict.findings.iter().find(|f| f.cause.text() == "unknown");
    assert!(unknown.is_some_and(|f| f.slow_requests == 1), "{}", to_text(&verdict));
}

/// A server's task that waits for its client to go away is no work of the request.
#[test]
fn fellows_whose_clients_are_watched_say_nothing() {
    let mut made = capture(&[40, 40, 40]);
    made.meta.site = vec!["/site".to_owned()];
    let watch = ("StreamingResponse.listen_for_disconnect", "/site/web/responses.py", 40);
    let watch = made::stack(&mut made, &[watch, ("receive", "/site/server/h11.py", 9)]);
    made.names.push("tcp 10.0.0.7:80".to_owned());
    let client = TARGET_IS_NAME | (made.names.len() as u64 - 1);
    for row in made.awaits.values_mut().flatten() {
        (row.kind, row.stack, row.target) = (AwaitKind::Event, watch, client);
    }
    let verdict = judge(&made);
    let causes: Vec<&str> = verdict.findings.iter().map(|f| f.cause.text()).collect();
    assert_eq!(causes, ["unknown"], "{}", to_text(&verdict));
}
