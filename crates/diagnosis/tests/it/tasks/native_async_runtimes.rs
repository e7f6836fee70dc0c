//! On captures made by hand: requests on an async runtime of Rust's. A worker without work is to
//! blame for nothing; a worker that a task keeps is.

use capture::read::{Capture, TaskRow};
use diagnosis::{diagnose, Diagnosis};
use format::wait::WaitKind::{Futex, Poll, SocketRead};
use made::{also_seen, off, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const TID: u32 = 7;
/// Another worker of the same runtime.
const OTHER: u32 = 8;
const TOKIO: &str = "/h/.cargo/registry/src/index-1/tokio-1.54.1/src/runtime/scheduler";
const MIO: &str = "/h/.cargo/registry/src/index-1/mio-1.2.5/src/sys/unix/mod.rs";
const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";
const CONDVAR: &str = "/rustc/5980/library/std/src/sys/sync/condvar/futex.rs";

/// Fifty requests of 2 ms and one of 500 ms, all on a loop.
fn capture() -> Capture {
    let mut made = made::capture(TID, &["GET /", "forecast"]);
    made.meta.stdlib.clear();
    made.requests.push(made::request(99, TID, BEGIN, 500));
    made.requests.iter_mut().for_each(|r| r.on_loop = true);
    made
}

fn worker(made: &mut Capture, inner: &[(&str, &str, u32)]) -> u32 {
    let file = format!("{TOKIO}/multi_thread/worker.rs");
    let mut frames = vec![("run", file.as_str(), 560)];
    frames.extend(inner);
    stack(made, &frames)
}

/// One worker waits in epoll, the other for its notice.
fn suspended() -> Capture {
    let mut made = capture();
    let polls = worker(&mut made, &[("select", MIO, 8), ("epoll_wait", LIBC, 0)]);
    let waits = worker(&mut made, &[("wait", CONDVAR, 49), ("syscall", LIBC, 0)]);
    for (tid, wait, stack) in [(TID, Futex, waits), (OTHER, Poll, polls)] {
        off(&mut made, tid, &[(0, 499)]);
        seen(&mut made, tid, &[]);
        also_seen(&mut made, tid, (5..495).step_by(10), wait, stack);
    }
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

#[test]
fn a_suspended_request_is_said_to_be_that() {
    let made = suspended();
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!((first.cause.text(), verdict.findings.len()), ("unknown", 1));
    assert_eq!(first.place, None, "where a worker waits says nothing: {}", to_text(&verdict));
    let words = "requests were suspended for 499 ms; what a task of this runtime awaits is not";
    assert!(first.summary.starts_with(words), "{}", first.summary);
}

#[test]
fn it_is_in_the_innermost_span_that_was_open() {
    let mut made = suspended();
    made.spans.push(made::span(1, TID, 99, BEGIN, 500));
    let verdict = judge(&made);
    let summary = &verdict.findings[0].summary;
    assert!(summary.contains("suspended for 499 ms in span forecast;"), "{summary}");
}

#[test]
fn a_worker_that_goes_on_with_it_had_no_queue_for_it() {
    let mut made = suspended();
    let (queued_ns, begin_ns) = (BEGIN + MS, BEGIN + 498 * MS);
    let end_ns = begin_ns + MS / 10;
    made.tasks.push(TaskRow { tid: OTHER, queued_ns, begin_ns, end_ns, request: 99 });
    let verdict = judge(&made);
    let causes: Vec<_> = verdict.findings.iter().map(|f| f.cause.text()).collect();
    assert_eq!(causes, ["unknown"], "{}", to_text(&verdict));
}

#[test]
fn a_task_that_calls_a_peer_keeps_its_worker() {
    let mut made = suspended();
    let blocks = worker(&mut made, &[("fetch", "/srv/billy/src/rates.rs", 9)]);
    seen(&mut made, TID, &[]);
    also_seen(&mut made, TID, (5..495).step_by(10), SocketRead, blocks);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "event-loop-blocked", "{}", to_text(&verdict));
    assert!(first.summary.starts_with("rates.rs:9 fetch() kept the event loop for 499 ms"));
    assert!(first.advice.contains("spawn_blocking"), "{}", first.advice);
}

/// Where such a call is reached from, if a future of dashcam's carries the task; `sources`: where
/// its crates were built from.
fn reached_from(sources: &str) -> Vec<String> {
    let mut made = suspended();
    let poll = "<dashcam_tracing::instrument::Watched<F> as core::future::future::Future>::poll";
    let carries = format!("{sources}/crates/tracing-layer/src/instrument.rs");
    let polls = format!("{sources}/crates/sys/src/process/waker.rs");
    let view = ("view", "/srv/billy/src/main.rs", 4);
    let fetch = ("fetch", "/srv/billy/src/rates.rs", 9);
    let inner =
        [(poll, carries.as_str(), 80), ("sys::process::polled", polls.as_str(), 24), view, fetch];
    let blocks = worker(&mut made, &inner);
    seen(&mut made, TID, &[]);
    also_seen(&mut made, TID, (5..495).step_by(10), SocketRead, blocks);
    judge(&made).findings[0].path.clone()
}

#[test]
fn crates_of_dashcam_that_come_from_a_checkout_are_nobodys_code() {
    let path = reached_from("/srv/vendor/dashcam");
    assert!(path.iter().any(|call| call.contains("view")), "{path:?}");
    assert!(!path.iter().any(|call| call.contains("poll")), "{path:?}");
}
