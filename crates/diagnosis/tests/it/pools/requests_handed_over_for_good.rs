//! On captures made by hand: once a thread has handed a request over and another one ends it, what
//! the first one does is no part of the request.

use capture::read::{Capture, RequestRow, TaskRow};
use diagnosis::diagnose;
use format::wait::WaitKind::{Poll, Running, SocketRead};
use made::{off, request, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

/// The thread that takes calls from the network, and two of its pool.
const TAKES: u32 = 7;
const WORKER: u32 = 9;
const SECOND: u32 = 10;

/// A part of the request: in the queue from `queued` on, on `tid` from `begin` to `end`.
fn part(tid: u32, queued: u64, begin: u64, end: u64) -> TaskRow {
    let at = |ms: u64| BEGIN + ms * MS;
    TaskRow { request: 99, tid, queued_ns: at(queued), begin_ns: at(begin), end_ns: at(end) }
}

/// A request of 500 ms that `TAKES` puts in the pool's queue at once, and which `ended_tid` ends.
/// `TAKES` then waits for its peers, `WORKER` reads a socket for another call until `begins`.
fn taken(ended_tid: u32, begins: u64) -> Capture {
    let mut made = made::capture(TAKES, &["/shop.Desk/Quote"]);
    made.requests.push(RequestRow { ended_tid, ..request(99, TAKES, BEGIN, 500) });
    made.tasks.push(part(WORKER, 0, begins, 501));
    let library = "/usr/lib/python3.11/site-packages/grpc/_server.py";
    let serve = stack(&mut made, &[("_serve", library, 1314)]);
    let watch = stack(&mut made, &[("watch", "/srv/desk.py", 12)]);
    off(&mut made, TAKES, &[(1, 499)]);
    seen(&mut made, TAKES, &[(50, Poll, serve), (300, Poll, serve)]);
    off(&mut made, WORKER, &[(0, 499)]);
    seen(&mut made, WORKER, &[(50, SocketRead, watch), (300, SocketRead, watch)]);
    made
}

/// Cause, place and culprit of the first finding.
fn first(made: &Capture) -> (&'static str, Option<String>, Option<String>) {
    let verdict = diagnose(made, |_| 300 * MS);
    let found = verdict.findings.first().unwrap_or_else(|| panic!("{}", to_text(&verdict)));
    assert!(found.share > 0.9, "{}", to_text(&verdict));
    let function = |place: &Option<diagnosis::Place>| place.as_ref().map(|p| p.function.clone());
    (found.cause.text(), function(&found.place), function(&found.culprit))
}

#[test]
fn its_time_in_the_queue_is_the_pools() {
    let (cause, _, culprit) = first(&taken(WORKER, 490));
    assert_eq!((cause, culprit.as_deref()), ("pool-wait", Some("watch")));
}

#[test]
fn its_time_on_the_other_thread_is_that_threads() {
    let (cause, place, _) = first(&taken(WORKER, 1));
    assert_eq!((cause, place.as_deref()), ("downstream-wait", Some("watch")));
}

#[test]
fn a_request_that_its_own_thread_ends_was_only_shared() {
    let (_, place, _) = first(&taken(TAKES, 490));
    assert_eq!(place.as_deref(), Some("_serve"), "it went on with it");
}

#[test]
fn a_part_that_hands_the_request_on_is_followed_to_the_next() {
    let mut made = taken(SECOND, 1);
    made.tasks = vec![part(WORKER, 0, 1, 3), part(SECOND, 2, 490, 501)];
    let nightly = stack(&mut made, &[("nightly", "/srv/desk.py", 40)]);
    off(&mut made, SECOND, &[(0, 490)]);
    seen(
        &mut made,
        SECOND,
        &[(50, SocketRead, nightly), (300, SocketRead, nightly), (495, Running, nightly)],
    );
    let (cause, _, culprit) = first(&made);
    assert_eq!((cause, culprit.as_deref()), ("pool-wait", Some("nightly")));
}
