//! On captures made by hand: a wait is reported with the statement or request that it was in, if
//! the program's library named it by a span.

use crate::made;

use capture::read::{Capture, SpanRow, Text};
use diagnosis::diagnose;
use format::wait::WaitKind;
use made::{off_row, request, span, stack, BEGIN, MS};

const TID: u32 = 7;
const NAMES: [&str; 5] =
    ["GET /", "call", "select orders where id = ?", "GET api.internal:80", "db.query"];
const SELECT: u32 = 2;
const HTTP: u32 = 3;
const OWN: u32 = 4;

/// One request waits 480 ms for a peer; `spans` are its spans, by ms behind its begin.
fn summary(spans: &[(u32, u64, u64)]) -> String {
    diagnose(&waiting(spans), |_| 300 * MS).findings[0].summary.clone()
}

fn waiting(spans: &[(u32, u64, u64)]) -> Capture {
    let mut made = made::capture(TID, &NAMES);
    let orders = stack(&mut made, &[("orders", "/srv/orders.py", 40)]);
    made.requests.push(request(99, TID, BEGIN, 500));
    made.off_cpu.insert(TID, vec![off_row(10, 490, false)]);
    let seen = (2..49)
        .map(|i| made::sample(TID, BEGIN + i * 10 * MS, WaitKind::SocketRead, orders))
        .collect();
    made.samples.insert(TID, seen);
    made.spans = spans.iter().map(|(name, from, to)| call(*name, *from, *to)).collect();
    made
}

/// A span of the request; but for the program's own it is a call.
fn call(name: u32, from_ms: u64, to_ms: u64) -> SpanRow {
    let kind = (1, Text::Text("sql".to_owned()));
    let attributes = if name == OWN { Vec::new() } else { vec![kind] };
    SpanRow { attributes, ..span(name, TID, 99, BEGIN + from_ms * MS, to_ms - from_ms) }
}

const PLAIN: &str = "orders.py:40 orders() waited 480 ms for a peer";

#[test]
fn the_call_that_most_of_the_wait_was_in_is_quoted() {
    assert_eq!(summary(&[]), PLAIN);
    let quoted = format!("{PLAIN}, in \"select orders where id = ?\"");
    assert_eq!(summary(&[(SELECT, 5, 495)]), quoted);
    assert_eq!(summary(&[(SELECT, 5, 400), (HTTP, 400, 495)]), quoted);
}

#[test]
fn a_call_of_less_than_half_of_it_is_not() {
    assert_eq!(summary(&[(SELECT, 5, 200)]), PLAIN);
}

#[test]
fn of_calls_inside_each_other_the_outer_one_is() {
    let quoted = format!("{PLAIN}, in \"GET api.internal:80\"");
    assert_eq!(summary(&[(HTTP, 5, 495), (SELECT, 6, 494)]), quoted);
    assert_eq!(summary(&[(SELECT, 6, 494), (HTTP, 5, 495)]), quoted);
}

#[test]
fn spans_of_the_program_are_no_calls() {
    assert_eq!(summary(&[(OWN, 5, 495)]), PLAIN);
}

#[test]
fn a_call_that_still_runs_is_known_by_its_name() {
    let mut made = waiting(&[(SELECT, 5, 495)]);
    made.spans[0].open = true;
    made.spans[0].attributes.clear();
    let quoted = |made: &Capture| diagnose(made, |_| 300 * MS).findings[0].summary.clone();
    assert_eq!(quoted(&made), PLAIN);
    let earlier = SpanRow { request: 1, ..call(SELECT, 0, 1) };
    made.spans.push(earlier);
    assert_eq!(quoted(&made), format!("{PLAIN}, in \"select orders where id = ?\""));
}
