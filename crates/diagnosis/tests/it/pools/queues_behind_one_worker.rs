//! On captures made by hand: a queue or pipe within the process is full because of what the thread
//! did that is to empty it, in whatever library both are, and for whoever waits behind that.

use capture::read::Capture;
use diagnosis::{diagnose, Confidence, Diagnosis};
use format::wait::{HolderSource, WaitKind};
use made::{off, seen, stack_on, BEGIN, MS};
use report::to_text;

use crate::made;

const LIB: &str = "/usr/lib/python3.11";
const VIEW: (&str, &str, u32) = ("view", "/srv/app.py", 12);
const EMIT: (&str, &str, u32) = ("emit", "/site/log/handler.py", 204);
const WRITER: (&str, &str, u32) = ("_writer", "/site/log/handler.py", 327);
const DELIVER: (&str, &str, u32) = ("deliver", "/srv/wire.py", 14);

/// Threads 7 and 9 with their stacks, 7 in a request of 500 ms.
struct Made {
    capture: Capture,
    writes: u32,
    reads: u32,
    delivers: u32,
}

fn made(inner: &[(&str, &str, u32)]) -> Made {
    let mut capture = made::capture(7, &["GET /"]);
    capture.meta.site = vec!["/site".to_owned()];
    capture.meta.stdlib = vec![LIB.to_owned()];
    capture.requests.push(made::request(99, 7, BEGIN, 500));
    let writes = stack_on(&mut capture, 0, &[VIEW, EMIT]);
    let writes = stack_on(&mut capture, writes, inner);
    let writer = stack_on(&mut capture, 0, &[WRITER]);
    let connection = format!("{LIB}/multiprocessing/connection.py");
    let reads = stack_on(&mut capture, writer, &[("_recv", &connection, 379)]);
    let delivers = stack_on(&mut capture, writer, &[DELIVER]);
    off(&mut capture, 7, &[(0, 499)]);
    off(&mut capture, 9, &[(0, 495)]);
    Made { capture, writes, reads, delivers }
}

fn by_pipe(was_seen_reading: bool) -> Made {
    let queues = format!("{LIB}/multiprocessing/queues.py");
    let connection = format!("{LIB}/multiprocessing/connection.py");
    let mut made = made(&[("SimpleQueue.put", &queues, 377), ("_send", &connection, 368)]);
    let (writes, reads) = (made.writes, made.reads);
    seen(&mut made.capture, 7, &[(20, WaitKind::PipeWrite, writes)]);
    seen(&mut made.capture, 9, &[(0, WaitKind::SocketRead, made.delivers)]);
    if was_seen_reading {
        let before = made::sample(9, BEGIN - 2000 * MS, WaitKind::PipeRead, reads);
        made.capture.samples.get_mut(&9).expect("seen").insert(0, before);
    }
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

fn culprit(verdict: &Diagnosis<'_>) -> Option<String> {
    verdict.findings[0].culprit.as_ref().map(|p| p.function.clone())
}

#[test]
fn a_full_pipe_is_what_its_reader_did() {
    let made = by_pipe(true);
    let verdict = judge(&made.capture);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "pipe-write", "{}", to_text(&verdict));
    assert_eq!(culprit(&verdict).as_deref(), Some("deliver"));
    assert_eq!(first.confidence, Confidence::Likely, "inferred is never confirmed");
    let words = "to write to a pipe, most likely because wire.py:14 deliver() kept its reader, \
                 which waited for a peer";
    assert!(first.summary.contains(words), "{}", first.summary);
}

#[test]
fn a_thread_that_never_read_from_a_pipe_is_no_pipes_reader() {
    let made = by_pipe(false);
    assert_eq!(culprit(&judge(&made.capture)), None);
}

#[test]
fn a_thread_behind_the_writer_waits_for_the_reader() {
    let mut made = by_pipe(true);
    let behind = ("_protected", "/site/log/handler.py", 122);
    let waits = stack_on(&mut made.capture, 0, &[VIEW, EMIT, behind]);
    made.capture.requests.push(made::request(98, 8, BEGIN + 10 * MS, 490));
    off(&mut made.capture, 8, &[(10, 499)]);
    seen(&mut made.capture, 8, &[(30, WaitKind::Futex, waits)]);
    let look = &mut made.capture.samples.get_mut(&8).expect("seen")[0];
    (look.lock_holder, look.holder_source) = (7, HolderSource::OwnerField);
    let verdict = judge(&made.capture);
    let lock = verdict.findings.iter().find(|f| f.cause.text() == "lock-wait").expect("a lock");
    assert_eq!(lock.culprit.as_ref().expect("the reader").function, "deliver");
    let words = "which waited for room that was to be made by wire.py:14 deliver()";
    assert!(lock.summary.contains(words), "{}", lock.summary);
}

#[test]
fn a_queue_inside_a_library_is_emptied_by_a_thread_in_the_librarys_file() {
    let (queue, threading) = (format!("{LIB}/queue.py"), format!("{LIB}/threading.py"));
    let mut made = made(&[("Queue.put", &queue, 140), ("Condition.wait", &threading, 320)]);
    let writes = made.writes;
    seen(&mut made.capture, 7, &[(20, WaitKind::Futex, writes)]);
    seen(&mut made.capture, 9, &[(0, WaitKind::SocketWrite, made.delivers)]);
    let verdict = judge(&made.capture);
    assert_eq!(verdict.findings[0].cause.text(), "pool-wait", "{}", to_text(&verdict));
    assert_eq!(culprit(&verdict).as_deref(), Some("deliver"));
}

#[test]
fn a_thread_that_is_on_its_way_to_put_something_in_is_no_reader() {
    let mut made = by_pipe(true);
    let fellow = stack_on(&mut made.capture, 0, &[VIEW, EMIT, ("wire", "/site/log/handler.py", 3)]);
    made.capture.samples.get_mut(&9).expect("seen")[1].stack = fellow;
    assert_eq!(culprit(&judge(&made.capture)), None);
}
