//! On captures made by hand: a request's task awaits a peer while other code keeps its event loop.
//! If it goes on awaiting that for as long afterwards, the loop delayed nothing. And what a library
//! hands to a thread of its own is that thread's work.

use capture::read::Capture;
use diagnosis::diagnose;
use format::wait::AwaitKind;
use format::wait::WaitKind::{Futex, Poll, Running};
use made::{also_seen, awaited, off, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const LOOP: u32 = 7;

/// A request of 800 ms that awaits a peer until `until_ms`; its loop is kept from 100 ms on for
/// 200 ms.
fn kept_meanwhile(until_ms: u64) -> Capture {
    let mut made = made::capture(LOOP, &["GET /"]);
    made.requests.push(made::request(99, LOOP, BEGIN, 800));
    made.requests.iter_mut().for_each(|request| request.on_loop = true);
    let asks = stack(&mut made, &[("view", "/srv/app.py", 22), ("offer", "/srv/app.py", 19)]);
    let other = stack(&mut made, &[("report", "/srv/app.py", 40)]);
    off(&mut made, LOOP, &[(0, 100), (300, 799)]);
    also_seen(&mut made, LOOP, (10..100).step_by(20), Poll, 0);
    also_seen(&mut made, LOOP, (110..300).step_by(20), Running, other);
    also_seen(&mut made, LOOP, (310..800).step_by(20), Poll, 0);
    let sample = |at| awaited(at, 99, 4096, AwaitKind::Socket, asks);
    made.awaits.insert(99, (0..until_ms).step_by(25).map(sample).collect());
    made
}

#[test]
fn a_peer_that_answers_much_later_is_what_was_waited_for() {
    let made = kept_meanwhile(800);
    let verdict = diagnose(&made, |_| 250 * MS);
    let causes: Vec<_> = verdict.findings.iter().map(|f| f.cause.text()).collect();
    assert_eq!(causes, ["downstream-wait"], "{}", to_text(&verdict));
}

#[test]
fn a_peer_that_answered_meanwhile_waited_for_the_loop() {
    let made = kept_meanwhile(350);
    let verdict = diagnose(&made, |_| 250 * MS);
    let kept = verdict.findings.iter().any(|f| f.cause.text() == "event-loop-blocked");
    assert!(kept, "{}", to_text(&verdict));
}

/// A task awaits a library's future for 500 ms, while a thread in the same library's code computes,
/// or has nothing to do.
fn handed_to_a_librarys_thread(works: bool) -> Capture {
    let mut made = made::capture(LOOP, &["GET /"]);
    made.meta.site = vec!["/lib/site-packages".to_owned()];
    made.requests.push(made::request(99, LOOP, BEGIN, 500));
    made.requests.iter_mut().for_each(|request| request.on_loop = true);
    let core = "/lib/site-packages/aiodb/core.py";
    let asks = stack(&mut made, &[("ticket", "/srv/desk.py", 11), ("_execute", core, 160)]);
    let thread = stack(&mut made, &[("_worker", core, 63)]);
    off(&mut made, LOOP, &[(0, 499)]);
    also_seen(&mut made, LOOP, (10..500).step_by(20), Poll, 0);
    let sample = |at| awaited(at, 99, 4096, AwaitKind::Future, asks);
    made.awaits.insert(99, (0..500).step_by(25).map(sample).collect());
    if !works {
        off(&mut made, 9, &[(0, 499)]);
    }
    let wait = if works { Running } else { Futex };
    also_seen(&mut made, 9, (0..500).step_by(20), wait, thread);
    made
}

#[test]
fn a_librarys_future_waits_for_the_librarys_thread() {
    let made = handed_to_a_librarys_thread(true);
    let verdict = diagnose(&made, |_| 250 * MS);
    let (first, text) = (&verdict.findings[0], to_text(&verdict));
    assert_eq!(first.cause.text(), "pool-wait", "{text}");
    assert_eq!(first.place.as_ref().map(|p| p.function.as_str()), Some("ticket"), "{text}");
    assert_eq!(first.culprit.as_ref().map(|p| p.function.as_str()), Some("_worker"), "{text}");
    let made = handed_to_a_librarys_thread(false);
    let verdict = diagnose(&made, |_| 250 * MS);
    assert_eq!(verdict.findings[0].cause.text(), "unknown", "{}", to_text(&verdict));
}
