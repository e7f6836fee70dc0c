//! On captures made by hand: requests that waited for the one worker behind another one.

use capture::read::{Capture, RequestRow};
use diagnosis::diagnose;
use format::wait::HolderSource;
use format::wait::WaitKind::{Futex, Sleep};
use made::{also_seen, off, request, seen, stack, thread, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;
const HELPER: u32 = 8;

/// `GET /slow` sleeps for half a second; two `GET /quick` lie in the socket meanwhile.
fn line() -> Capture {
    let mut made = made::capture(OWN, &["GET /quick", "GET /slow"]);
    let nap = stack(&mut made, &[("view", "/srv/app.py", 3), ("nap", "/srv/app.py", 30)]);
    made.requests.push(RequestRow { name: 1, ..request(90, OWN, BEGIN, 500) });
    for (id, begin_ms) in [(91, 5), (92, 50)] {
        let row = request(id, OWN, BEGIN + begin_ms * MS, 502 - begin_ms);
        made.requests.push(RequestRow { started_ns: BEGIN + 500 * MS, ..row });
    }
    off(&mut made, OWN, &[(0, 500), (502, 900)]);
    also_seen(&mut made, OWN, (5..500).step_by(10), Sleep, nap);
    made
}

fn reported(made: &Capture) -> Vec<(&'static str, usize)> {
    let verdict = diagnose(made, |_| 300 * MS);
    assert!(to_text(&verdict).contains("nap()"));
    verdict.findings.iter().map(|f| (f.cause.text(), f.slow_requests)).collect()
}

#[test]
fn behind_a_usually_quick_request_all_waited_for_what_it_did() {
    let mut made = line();
    for (i, row) in made.requests.iter_mut().take(10).enumerate() {
        row.name = (i % 2) as u32;
    }
    assert_eq!(reported(&made), [("sleep", 3)]);
}

#[test]
fn behind_one_that_is_always_slow_the_pool_is_short() {
    assert_eq!(reported(&line()), [("pool-wait", 2), ("sleep", 1)]);
}

#[test]
fn behind_one_that_joins_a_thread_all_waited_for_what_that_did() {
    const THREADING: &str = "/usr/lib/python3.11/threading.py";
    let mut made = line();
    for (i, row) in made.requests.iter_mut().take(10).enumerate() {
        row.name = (i % 2) as u32;
    }
    let view = ("view", "/srv/app.py", 3);
    let join = stack(&mut made, &[view, ("Thread.join", THREADING, 1119)]);
    let get =
        [("Queue.get", "/usr/lib/python3.11/queue.py", 171), ("Condition.wait", THREADING, 327)];
    let get = stack(&mut made, &[("nap", "/srv/app.py", 30), get[0], get[1]]);
    made.threads.push(thread(HELPER, "helper"));
    seen(&mut made, OWN, &(5..500).step_by(10).map(|at| (at, Futex, join)).collect::<Vec<_>>());
    for look in made.samples.get_mut(&OWN).expect("seen") {
        (look.lock_holder, look.holder_source) = (HELPER, HolderSource::Joined);
    }
    off(&mut made, HELPER, &[(0, 499)]);
    seen(&mut made, HELPER, &(5..499).step_by(10).map(|at| (at, Futex, get)).collect::<Vec<_>>());
    assert_eq!(reported(&made), [("pool-wait", 3)]);
}
