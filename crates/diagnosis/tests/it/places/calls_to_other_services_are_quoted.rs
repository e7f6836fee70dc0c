//! On captures made by hand: a wait is reported with the statement or request that it was in, if
//! the program's library named it by a span.

use crate::made;

use capture::read::{CallRow, Capture, SpanRow};
use diagnosis::diagnose;
use format::wait::WaitKind;
use made::{off_row, request, span, stack, BEGIN, MS};

const TID: u32 = 7;
const NAMES: [&str; 4] = ["GET /", "select orders where id = ?", "GET api.internal:80", "db.query"];
const SELECT: u32 = 1;
const HTTP: u32 = 2;
const OWN: u32 = 3;

/// One request waits 480 ms for a peer; `calls` are its calls, by ms behind its begin.
fn summary(calls: &[(u32, u64, u64)]) -> String {
    diagnose(&waiting(calls), |_| 300 * MS).findings[0].summary.clone()
}

fn waiting(calls: &[(u32, u64, u64)]) -> Capture {
    let mut made = made::capture(TID, &NAMES);
    let orders = stack(&mut made, &[("orders", "/srv/orders.py", 40)]);
    made.requests.push(request(99, TID, BEGIN, 500));
    made.off_cpu.insert(TID, vec![off_row(10, 490, false)]);
    let seen = (2..49)
        .map(|i| made::sample(TID, BEGIN + i * 10 * MS, WaitKind::SocketRead, orders))
        .collect();
    made.samples.insert(TID, seen);
    made.calls = calls.iter().map(|(name, from, to)| call(*name, *from, *to)).collect();
    made
}

fn call(name: u32, from_ms: u64, to_ms: u64) -> CallRow {
    let (begin_ns, end_ns) = (BEGIN + from_ms * MS, BEGIN + to_ms * MS);
    CallRow { name, begin_ns, end_ns, request: 99 }
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

/// A command that waits for an item of a list waits for another client, not for Redis.
#[test]
fn a_command_that_waits_for_an_item_has_advice_of_its_own() {
    let advice = |name: &str| {
        let mut made = waiting(&[(SELECT, 5, 495)]);
        made.names[SELECT as usize] = name.to_owned();
        diagnose(&made, |_| 300 * MS).findings[0].advice
    };
    assert!(advice("BRPOPLPUSH").contains("who is to put it"), "{}", advice("BRPOPLPUSH"));
    assert!(advice("GET").starts_with("Look at the peer"), "{}", advice("GET"));
}

#[test]
fn spans_of_the_program_are_no_calls() {
    let mut made = waiting(&[]);
    made.spans = vec![span(OWN, TID, 99, BEGIN + 5 * MS, 490)];
    assert_eq!(diagnose(&made, |_| 300 * MS).findings[0].summary, PLAIN);
}

#[test]
fn a_call_that_still_runs_is_known_by_its_name() {
    let mut made = waiting(&[]);
    made.spans = vec![SpanRow { open: true, ..span(SELECT, TID, 99, BEGIN + 5 * MS, 490) }];
    let quoted = |made: &Capture| diagnose(made, |_| 300 * MS).findings[0].summary.clone();
    assert_eq!(quoted(&made), PLAIN);
    made.calls = vec![CallRow { request: 1, ..call(SELECT, 0, 5) }];
    assert_eq!(quoted(&made), format!("{PLAIN}, in \"select orders where id = ?\""));
}
