//! On captures made by hand: workers of a native runtime share one poll call. While one of them is
//! kept and the others wait for its notice, nobody polls, and no task goes on.

use crate::made;

use capture::read::Capture;
use diagnosis::{diagnose, Finding};
use format::suspension::Suspension;
use format::wait::{AwaitKind, WaitKind};
use made::{also_seen, awaited, off, seen, stack, BEGIN, MS};
use report::to_text;

const PARKED: u32 = 7;
const KEPT: u32 = 8;
const POLLS: u32 = 9;
const TOKIO: &str = "/h/.cargo/registry/src/index-1/tokio-1.54.1/src";
const MIO: &str = "/h/.cargo/registry/src/index-1/mio-1.2.5/src/sys/unix/mod.rs";
const LOT: &str =
    "/h/.cargo/registry/src/index-1/parking_lot_core-0.9.12/src/thread_parker/linux.rs";
const CONDVAR: &str = "/rustc/5980/library/std/src/sys/sync/condvar/futex.rs";

fn worker(made: &mut Capture, inner: &[(&str, &str, u32)]) -> u32 {
    let file = format!("{TOKIO}/runtime/scheduler/multi_thread/worker.rs");
    let mut frames = vec![("run", file.as_str(), 560)];
    frames.extend(inner);
    stack(made, &frames)
}

fn waits(made: &mut Capture, tid: u32, wait: WaitKind, stack: u32) {
    off(made, tid, &[(0, 499)]);
    seen(made, tid, &[]);
    also_seen(made, tid, (5..495).step_by(10), wait, stack);
}

/// A request of 500 ms, suspended in ask(), which a peer is to answer. Its worker waits for notice,
/// and another one waits for a lock in send().
fn capture() -> Capture {
    let mut made = made::capture(PARKED, &["GET /refresh", "GET /send"]);
    made.meta.stdlib.clear();
    made.requests.push(made::request(99, PARKED, BEGIN, 500));
    made.requests.push(made::request(100, KEPT, BEGIN, 2));
    made.requests.iter_mut().for_each(|r| r.on_loop = true);
    let idle = worker(&mut made, &[("wait", CONDVAR, 49)]);
    waits(&mut made, PARKED, WaitKind::Futex, idle);
    let blocked = worker(&mut made, &[("send", "/srv/relay/main.rs", 16), ("futex_wait", LOT, 1)]);
    waits(&mut made, KEPT, WaitKind::Futex, blocked);
    let stream = format!("{TOKIO}/net/tcp/stream.rs");
    let asks = [("ask::{async_fn#0}", "/srv/relay/lib.rs", 20), ("poll_read", &*stream, 40)];
    let asks = stack(&mut made, &asks);
    let sample = |at: u64| awaited(at, 99, 4096, AwaitKind::Native, asks);
    made.awaits.insert(99, [50, 250, 450].map(sample).to_vec());
    let (out_ns, in_ns) = (BEGIN + 3 * MS, BEGIN + 498 * MS);
    made.suspensions.insert(99, vec![Suspension { out_ns, in_ns, request: 99 }]);
    made
}

fn judged(made: &mut Capture) -> (Finding, String) {
    made.settle_awaits();
    let verdict = diagnose(made, |_| 300 * MS);
    let text = to_text(&verdict);
    (verdict.findings.into_iter().next().expect("a finding"), text)
}

fn place(finding: &Finding) -> &str {
    finding.place.as_ref().map_or("", |place| &place.function)
}

#[test]
fn a_task_whose_answer_nobody_polls_for_waits_for_the_worker_that_is_kept() {
    let (found, text) = judged(&mut capture());
    assert_eq!((found.cause.text(), place(&found)), ("event-loop-blocked", "send"), "{text}");
    assert!(found.summary.contains("it waited for a lock"), "{text}");
    assert!(found.advice.contains("over an .await"), "{text}");
}

#[test]
fn while_another_worker_polls_a_task_waits_for_its_peer() {
    let mut made = capture();
    let polls = worker(&mut made, &[("select", MIO, 8)]);
    waits(&mut made, POLLS, WaitKind::Poll, polls);
    let (found, text) = judged(&mut made);
    assert_eq!((found.cause.text(), place(&found)), ("downstream-wait", "ask"), "{text}");
}

/// It was not sampled: it may be the one that polls.
#[test]
fn a_worker_that_was_not_seen_may_poll() {
    let mut made = capture();
    for (tid, name) in [(PARKED, "runtime"), (KEPT, "runtime"), (POLLS, "runtime")] {
        made.threads.push(made::thread(tid, name));
    }
    waits(&mut made, POLLS, WaitKind::Running, 0);
    let (found, text) = judged(&mut made);
    assert_eq!((found.cause.text(), place(&found)), ("downstream-wait", "ask"), "{text}");
}
