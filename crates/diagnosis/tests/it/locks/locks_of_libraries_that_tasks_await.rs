//! On captures made by hand: a task awaits a lock of a library's, which waits in a future of its
//! own.

use capture::read::{Capture, RequestRow};
use diagnosis::{diagnose, Diagnosis};
use format::record::{Await, TARGET_IS_NAME};
use format::wait::AwaitKind::{Future, Socket};
use made::{awaited, off, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const TID: u32 = 7;
const OWN: &str = "/srv/board.py";

/// A request that awaits what `library` gives it, while another task of `OWN` awaits a peer.
fn waits(library: (&str, &str, u32)) -> Capture {
    let mut made = made::capture(TID, &["GET /"]);
    made.meta.site = vec!["/site".to_owned()];
    made.requests.push(made::request(99, TID, BEGIN, 500));
    made.requests.iter_mut().for_each(|r| r.on_loop = true);
    let waits = stack(&mut made, &[("read", OWN, 4), library]);
    let holds = stack(&mut made, &[("refresh", OWN, 9)]);
    off(&mut made, TID, &[(0, 499)]);
    made.names.push("tcp 10.0.0.7:80".to_owned());
    let peer = TARGET_IS_NAME | (made.names.len() as u64 - 1);
    for at_ms in (5..495).step_by(40) {
        made.awaits.entry(99).or_default().push(awaited(at_ms, 99, 4096, Future, waits));
        let mut holder = awaited(at_ms, 0, 8192, Socket, holds);
        holder.target = peer;
        made.awaits.entry(0).or_default().push(holder);
    }
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

#[test]
fn a_lock_is_no_pool() {
    let made = waits(("Lock.acquire", "/site/anyio/_backends/_asyncio.py", 1834));
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    assert_eq!(first.place.as_ref().map(|p| p.function.as_str()), Some("read"));
}

#[test]
fn what_is_acquired_of_no_lock_is_a_pools() {
    let made = waits(("Pool.acquire", "/site/asyncpg/pool.py", 190));
    assert_eq!(judge(&made).findings[0].cause.text(), "pool-wait");
}

/// The same, while another request of the program's file awaits a peer until `until_ms`.
fn waits_beside_a_request(until_ms: u64) -> Capture {
    let mut made = waits(("Pool.acquire", "/site/asyncpg/pool.py", 190));
    let rows = made.awaits.remove(&0).into_iter().flatten();
    let row = rows.map(|row| Await { request: 98, ..row }).next().expect("one");
    let at = |ms: u64| Await { t_ns: BEGIN + ms * MS, ..row };
    made.awaits.insert(98, (5..until_ms).step_by(40).map(at).collect());
    let beside = RequestRow { on_loop: true, ..made::request(98, TID, BEGIN, until_ms) };
    made.requests.insert(made.requests.len() - 1, beside);
    made
}

#[test]
fn a_librarys_item_may_be_with_a_request_that_awaits_elsewhere_until_it_comes() {
    let made = waits_beside_a_request(495);
    let verdict = judge(&made);
    let own = verdict.findings.iter().find(|f| f.cause.text() == "pool-wait").expect("pool");
    let culprit = own.culprit.as_ref().map(|p| p.function.as_str());
    assert_eq!(culprit, Some("refresh"), "{}", to_text(&verdict));
    assert_eq!(own.confidence.text(), "likely", "an inference");
}

#[test]
fn a_request_that_goes_on_awaiting_gave_no_item_back() {
    let made = waits_beside_a_request(1200);
    let verdict = judge(&made);
    let own = verdict.findings.iter().find(|f| f.cause.text() == "pool-wait").expect("pool");
    assert_eq!(own.culprit, None, "{}", to_text(&verdict));
}

#[test]
fn a_request_that_fails_at_its_wait_for_a_pool_got_nothing_from_it() {
    let said = |mut made: Capture, fails: bool| {
        made.awaits.remove(&0);
        let own = made.requests.iter_mut().find(|r| r.id == 99).expect("the request");
        own.error = fails;
        let verdict = judge(&made);
        let own = verdict.findings.iter().find(|f| f.cause.text() == "pool-wait").expect("pool");
        own.summary.clone()
    };
    let alone = || waits(("Pool.acquire", "/site/asyncpg/pool.py", 190));
    let leak = "most likely all was taken and not given back (a leak)";
    assert!(said(alone(), true).contains(leak), "{}", said(alone(), true));
    assert!(!said(alone(), false).contains(leak), "{}", said(alone(), false));
    let beside = said(waits_beside_a_request(1200), true);
    assert!(!beside.contains(leak), "another request may have it: {beside}");
    assert!(beside.contains("nothing came before the time limit"), "{beside}");
}
