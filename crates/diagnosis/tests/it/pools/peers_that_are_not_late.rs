//! On captures made by hand: a server that waits for the request's own client, a thread with an
//! event loop of its own, a task that only watches for the client to go away, a worker that has
//! nothing to do.

use capture::read::{Capture, TaskRow};
use diagnosis::{diagnose, Diagnosis};
use format::record::TARGET_IS_NAME;
use format::wait::AwaitKind;
use format::wait::WaitKind::{Futex, Poll, SocketRead};
use made::{also_seen, awaited, off, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;
const OTHER: u32 = 9;
const VIEW: (&str, &str, u32) = ("view", "/srv/app.py", 5);

fn slow(on_loop: bool) -> Capture {
    let mut made = made::capture(OWN, &["POST /"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.meta.site = vec!["/lib/site-packages".to_owned()];
    let mut row = made::request(99, OWN, BEGIN, 500);
    row.on_loop = on_loop;
    made.requests.push(row);
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 100 * MS)
}

/// The id of a target.
fn target(made: &mut Capture, text: &str) -> u64 {
    made.names.push(text.to_owned());
    TARGET_IS_NAME | (made.names.len() as u64 - 1)
}

/// The request's thread reads from a peer in this code under `view`.
fn reads(inner: (&str, &str, u32)) -> Capture {
    let mut made = slow(false);
    let code = stack(&mut made, &[VIEW, inner]);
    let peer = target(&mut made, "tcp 10.0.0.7:39504");
    off(&mut made, OWN, &[(0, 499)]);
    seen(&mut made, OWN, &[]);
    also_seen(&mut made, OWN, (5..495).step_by(10), SocketRead, code);
    made.samples.get_mut(&OWN).into_iter().flatten().for_each(|look| look.target = peer);
    made
}

#[test]
fn the_sender_of_a_request_is_no_peer_of_it() {
    let made = reads(("read", "/lib/site-packages/gunicorn/http/body.py", 100));
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "downstream-wait", "{}", to_text(&verdict));
    let target = "tcp 10.0.0.7:39504, the request's own client";
    assert_eq!(first.target().as_deref(), Some(target));
    assert!(first.advice.starts_with("The client"), "{}", first.advice);
    // A client library's peer is one.
    let made = reads(("read", "/lib/site-packages/urllib3/response.py", 100));
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].target().as_deref(), Some("tcp 10.0.0.7:39504"));
    assert!(verdict.findings[0].advice.starts_with("Look at the peer"));
}

#[test]
fn what_a_loop_of_ones_own_awaits_is_not_known_for_sure() {
    // What is registered with its instance is no peer of the request's.
    for polled in ["", " of tcp 10.0.0.7:5432, clients of 10.0.0.9:80, unix (unnamed) and 5 more"] {
        let mut made = slow(false);
        let code = stack(&mut made, &[VIEW, ("select", "/lib/selectors.py", 468)]);
        let poll = target(&mut made, &format!("anon_inode:[eventpoll]{polled}"));
        off(&mut made, OWN, &[(0, 499)]);
        seen(&mut made, OWN, &[]);
        also_seen(&mut made, OWN, (5..495).step_by(10), Poll, code);
        made.samples.get_mut(&OWN).into_iter().flatten().for_each(|look| look.target = poll);
        let verdict = judge(&made);
        let first = &verdict.findings[0];
        assert_eq!((first.cause.text(), first.confidence.text()), ("downstream-wait", "likely"));
        assert_eq!(first.place.as_ref().expect("a place").function, "view");
        assert!(
            first.summary.ends_with("for what an event loop of its own awaited"),
            "{}",
            first.summary
        );
    }
}

#[test]
fn a_selector_with_one_socket_waits_for_its_peer() {
    for (registered, known) in [
        (" of tcp 10.0.0.7:5432", true),
        (" of unix /run/db.sock", true),
        (" of unix (unnamed)", false),
        (" of tcp 10.0.0.7:5432 and 2 more", false),
        (" of tcp 10.0.0.7:5432, anon_inode:[eventfd]", false),
    ] {
        let mut made = slow(false);
        let code = stack(&mut made, &[VIEW, ("select", "/lib/selectors.py", 468)]);
        let poll = target(&mut made, &format!("anon_inode:[eventpoll]{registered}"));
        off(&mut made, OWN, &[(0, 499)]);
        seen(&mut made, OWN, &[]);
        also_seen(&mut made, OWN, (5..495).step_by(10), Poll, code);
        made.samples.get_mut(&OWN).into_iter().flatten().for_each(|look| look.target = poll);
        let verdict = judge(&made);
        let found = verdict.findings[0].target();
        assert_eq!(
            found.as_deref() == registered.strip_prefix(" of "),
            known,
            "{}",
            to_text(&verdict)
        );
    }
}

#[test]
fn a_task_that_watches_for_a_disconnect_holds_nothing_up() {
    let receive = ("receive", "/lib/site-packages/uvicorn/protocols/http/h11_impl.py", 532);
    let responses = "/lib/site-packages/starlette/responses.py";
    let watch = ("StreamingResponse.listen_for_disconnect", responses, 250);
    for (code, cause) in [(&[watch, receive][..], "unknown"), (&[receive][..], "downstream-wait")] {
        let mut made = slow(true);
        let code = stack(&mut made, code);
        let samples = (5..495).step_by(10);
        let rows = samples.map(|ms| awaited(ms, 99, 1, AwaitKind::Socket, code)).collect();
        made.awaits.insert(99, rows);
        off(&mut made, OWN, &[(0, 9000)]);
        let verdict = judge(&made);
        assert_eq!(verdict.findings[0].cause.text(), cause, "{}", to_text(&verdict));
    }
}

#[test]
fn a_worker_that_has_nothing_to_do_waits_for_no_pool() {
    let mut made = slow(true);
    let queue = ("get", "/lib/queue.py", 171);
    let idle = [("run", "/lib/site-packages/anyio/_backends/_asyncio.py", 1113), queue];
    let idle = stack(&mut made, &idle);
    let end_ns = BEGIN + 499 * MS;
    made.tasks.push(TaskRow { request: 99, tid: OTHER, queued_ns: BEGIN, begin_ns: BEGIN, end_ns });
    off(&mut made, OTHER, &[(0, 499)]);
    seen(&mut made, OTHER, &[]);
    also_seen(&mut made, OTHER, (5..495).step_by(10), Futex, idle);
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "unknown", "{}", to_text(&verdict));
}
