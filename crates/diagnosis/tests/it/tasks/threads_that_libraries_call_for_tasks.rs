//! On captures made by hand: a client library hands its calls to a thread of its own for each
//! connection. A task that awaits such a call waits for what that thread does: for another task's
//! call before, or for a lock of the database, and then for the task that has it.

use capture::read::Capture;
use diagnosis::{diagnose, Confidence, Diagnosis};
use format::record::TARGET_IS_NAME;
use format::wait::AwaitKind::{Future, Socket};
use format::wait::WaitKind::{Poll, Running, Sleep};
use made::{also_seen, awaited, off, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const LOOP: u32 = 7;
const WORKER: u32 = 9;
const APP: &str = "/srv/app.py";

/// A request on an event loop awaits an answer of `library`, whose thread is in `wait`.
fn asks(library: &str, wait: format::wait::WaitKind) -> Capture {
    let mut made = made::capture(LOOP, &["GET /"]);
    made.meta.site = vec!["/site".to_owned()];
    made.requests.push(made::request(99, LOOP, BEGIN, 500));
    made.requests.iter_mut().for_each(|r| r.on_loop = true);
    off(&mut made, LOOP, &[(0, 499)]);
    also_seen(&mut made, LOOP, (5..495).step_by(40), Poll, 0);
    let core = format!("/site/{library}/core.py");
    let view = stack(&mut made, &[("view", APP, 4), ("Connection.execute", &core, 160)]);
    let works = stack(&mut made, &[("_worker_thread", &core, 63)]);
    let rows = (5..495).step_by(40).map(|at| awaited(at, 99, 4096, Future, view)).collect();
    made.awaits.insert(99, rows);
    if wait == Running {
        off(&mut made, WORKER, &[(495, 9000)]);
    } else {
        off(&mut made, WORKER, &[(1, 495)]);
    }
    also_seen(&mut made, WORKER, (5..490).step_by(10), wait, works);
    made
}

/// A task of no request that does this all the while.
fn beside(made: &mut Capture, kind: format::wait::AwaitKind, frames: &[(&str, &str, u32)]) {
    let other = stack(made, frames);
    made.names.push("tcp 10.0.0.7:80".to_owned());
    let peer = TARGET_IS_NAME | (made.names.len() as u64 - 1);
    for at_ms in (5..495).step_by(40) {
        let mut row = awaited(at_ms, 0, 8192, kind, other);
        row.target = if kind == Socket { peer } else { 0 };
        made.awaits.entry(0).or_default().push(row);
    }
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

fn culprit(verdict: &Diagnosis<'_>) -> Option<String> {
    verdict.findings[0].culprit.as_ref().map(|p| p.function.clone())
}

#[test]
fn the_thread_was_at_another_tasks_call() {
    let mut made = asks("aiodb", Running);
    beside(
        &mut made,
        Future,
        &[("roll_up", APP, 9), ("Connection.execute", "/site/aiodb/core.py", 160)],
    );
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "pool-wait", "{}", to_text(&verdict));
    assert_eq!(culprit(&verdict).as_deref(), Some("roll_up"), "{}", to_text(&verdict));
    assert!(first.summary.contains("made it wait, which computed"), "{}", first.summary);
    assert_eq!(first.confidence, Confidence::Likely);
}

#[test]
fn a_task_that_awaits_something_else_had_nothing_called() {
    let mut made = asks("aiodb", Running);
    beside(&mut made, Future, &[("roll_up", APP, 9), ("Client.get", "/site/http/core.py", 160)]);
    let verdict = judge(&made);
    assert_eq!(culprit(&verdict).as_deref(), Some("_worker_thread"), "{}", to_text(&verdict));
}

#[test]
fn a_thread_that_sleeps_in_a_client_of_sqlite_asks_for_its_lock() {
    let mut made = asks("aiosqlite", Sleep);
    beside(&mut made, Socket, &[("reconcile", APP, 30), ("lookup", APP, 20)]);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    assert_eq!(first.place.as_ref().map(|p| p.function.as_str()), Some("view"));
    assert_eq!(culprit(&verdict).as_deref(), Some("lookup"), "{}", to_text(&verdict));
    assert!(first.summary.contains("a lock of a SQLite database"), "{}", first.summary);
    // A sleep in another library is no lock of SQLite's.
    let verdict = asks("aiodb", Sleep);
    assert_ne!(judge(&verdict).findings[0].cause.text(), "lock-wait");
}
