//! Locks that wake nobody: a library asks for one again and again, with pauses; and one in the
//! process of a multiprocessing Manager, which answers when it is free. The holder is a thread
//! here.

use crate::made;

use capture::read::Capture;
use diagnosis::{diagnose, Confidence, Finding};
use format::wait::WaitKind;
use made::{off, request, seen, stack, BEGIN, MS};

const WAITER: u32 = 7;
/// Threads that serve in turn: the first and the third time it is one, then the other.
const HOLDERS: [u32; 2] = [9, 10];
const VIEW: (&str, &str, u32) = ("entry", "/srv/app.py", 12);
const FOUR: [u64; 4] = [0, 2000, 4000, 6000];

/// Four times, 2 s apart, a request waits for 400 ms at `inner`, while another thread, or each of
/// so many in turn, is in `compact()`, which waits for a peer.
fn four_waits(
    inner: &[(&'static str, &'static str, u32)],
    wait: WaitKind,
    turns: usize,
) -> Finding {
    let mut made: Capture = made::capture(WAITER, &["POST /entry"]);
    made.meta.site = vec!["/lib/site-packages".to_owned()];
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.meta.to_ns = BEGIN + 8000 * MS;
    let asks = stack(&mut made, &[&[VIEW], inner].concat());
    let idle = stack(&mut made, &[("run", "/srv/ledger.py", 30)]);
    let holds =
        stack(&mut made, &[("run", "/srv/ledger.py", 31), ("compact", "/srv/ledger.py", 40)]);
    let mut away = Vec::new();
    let (mut waiting, mut holding) = (Vec::new(), [Vec::new(), Vec::new()]);
    for (i, at) in FOUR.into_iter().enumerate() {
        made.requests.push(request(90 + i as u64, WAITER, BEGIN + at * MS, 410));
        // A lock that is polled is many short pauses, an answer is one wait.
        let pause_ms = if wait == WaitKind::Sleep { 50 } else { 399 };
        away.extend((at + 1..at + 400).step_by(pause_ms).map(|t| (t, t + pause_ms as u64 - 1)));
        waiting.extend((at + 21..at + 400).step_by(50).map(|t| (t, wait, asks)));
        for (k, seen) in holding.iter_mut().enumerate() {
            let inner = if k == i % turns { holds } else { idle };
            let wait = if inner == holds { WaitKind::SocketRead } else { WaitKind::Sleep };
            seen.extend((at..at + 400).step_by(20).map(|t| (t, wait, inner)));
            seen.extend((at + 420..at + 1980).step_by(60).map(|t| (t, WaitKind::Sleep, idle)));
        }
    }
    for i in 0..20 {
        made.requests.push(request(200 + i, WAITER, BEGIN + (450 + i * 60) * MS, 2));
    }
    made.requests.sort_by_key(|r| r.begin_ns);
    off(&mut made, WAITER, &away);
    seen(&mut made, WAITER, &waiting);
    if wait == WaitKind::Sleep {
        // As long as its pause still is.
        made.samples
            .get_mut(&WAITER)
            .expect("seen")
            .iter_mut()
            .for_each(|s| s.timeout_ns = 30 * MS);
    }
    HOLDERS.iter().zip(&holding).for_each(|(tid, samples)| seen(&mut made, *tid, samples));
    let verdict = diagnose(&made, |_| 300 * MS);
    verdict.findings.into_iter().next().expect("a finding")
}

fn name(place: Option<&diagnosis::Place>) -> Option<String> {
    place.map(|place| place.short())
}

#[test]
fn a_library_that_pauses_while_it_takes_a_lock_waits_for_the_lock() {
    let inner = [
        ("BaseFileLock.acquire", "/lib/site-packages/filelock/_api.py", 501),
        ("_poll", "/lib/site-packages/filelock/_acquire.py", 177),
    ];
    let reported = four_waits(&inner, WaitKind::Sleep, 1);
    assert_eq!(reported.cause.text(), "lock-wait", "{}", reported.summary);
    assert_eq!(name(reported.place.as_ref()).as_deref(), Some("app.py:12 entry()"));
    assert_eq!(name(reported.culprit.as_ref()).as_deref(), Some("ledger.py:40 compact()"));
    assert!(
        reported.summary.contains("a lock that is asked for again and again, "),
        "{}",
        reported.summary
    );
    // Each pause ran to its end, and the wait to no limit.
    assert!(!reported.summary.contains("time limit"), "{}", reported.summary);
}

/// A request of 410 ms that takes a lock of a service: it reads the answer for 40 ms, pauses for 60
/// if it `pauses`, and so on. The causes of its time, each with its share.
fn of_a_service(pauses: bool) -> Vec<(&'static str, f64)> {
    let mut made: Capture = made::capture(WAITER, &["POST /entry"]);
    made.meta.site = vec!["/lib/site-packages".to_owned()];
    let enter = ("Lock.__enter__", "/lib/site-packages/redis/lock.py", 157);
    let acquire = ("Lock.acquire", "/lib/site-packages/redis/lock.py", 213);
    let read = ("Connection.read_response", "/lib/site-packages/redis/connection.py", 512);
    let rests = stack(&mut made, &[VIEW, enter, acquire]);
    let reads = stack(&mut made, &[VIEW, enter, acquire, read]);
    made.requests.push(request(90, WAITER, BEGIN, 410));
    let at = || (1..400).step_by(100);
    let away: Vec<_> = at().flat_map(|t| [(t, t + 40), (t + 41, t + 99)]).collect();
    let (kind, stack) =
        if pauses { (WaitKind::Sleep, rests) } else { (WaitKind::SocketRead, reads) };
    let samples = at().flat_map(|t| [(t + 20, WaitKind::SocketRead, reads), (t + 70, kind, stack)]);
    off(&mut made, WAITER, &away);
    seen(&mut made, WAITER, &samples.collect::<Vec<_>>());
    let verdict = diagnose(&made, |_| 300 * MS);
    verdict.findings.iter().map(|f| (f.cause.text(), f.share)).collect()
}

#[test]
fn a_service_that_is_asked_for_a_lock_between_pauses_answers_that_it_is_taken() {
    let found = of_a_service(true);
    assert_eq!(found[0].0, "lock-wait", "{found:?}");
    assert!(found[0].1 > 0.8, "the first question alone may have been a slow answer: {found:?}");
    let found = of_a_service(false);
    assert_eq!(found[0].0, "downstream-wait", "without a pause it is slow: {found:?}");
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_library_that_pauses_elsewhere_sleeps() {
    for library in ["/lib/site-packages/blocks/_api.py", "/lib/site-packages/limits/_api.py"] {
        let reported = four_waits(&[("Limiter.acquire", library, 501)], WaitKind::Sleep, 1);
        assert_eq!(reported.cause.text(), "sleep", "{}", reported.summary);
    }
}

#[test]
fn an_answer_of_a_manager_to_acquire_is_a_lock() {
    let inner = [
        ("AcquirerProxy.__enter__", "/lib/multiprocessing/managers.py", 1079),
        ("BaseProxy._callmethod", "/lib/multiprocessing/managers.py", 822),
        ("Connection._recv", "/lib/multiprocessing/connection.py", 395),
    ];
    for turns in [1, 2] {
        let reported = four_waits(&inner, WaitKind::SocketRead, turns);
        assert_eq!(reported.cause.text(), "lock-wait", "{}", reported.summary);
        assert_eq!(name(reported.culprit.as_ref()).as_deref(), Some("ledger.py:40 compact()"));
        assert_eq!(reported.confidence, Confidence::Possible, "{}", reported.summary);
        let words = "a lock of a multiprocessing Manager";
        assert!(reported.summary.contains(words), "{}", reported.summary);
    }
    // Any other call of the Manager's process is answered by that.
    let reported = four_waits(&inner[1..], WaitKind::SocketRead, 1);
    assert_eq!(reported.cause.text(), "downstream-wait", "{}", reported.summary);
}

#[test]
fn a_function_that_is_named_for_taking_a_lock_takes_it() {
    let sessions = "/lib/site-packages/cherrypy/lib/sessions.py";
    for (function, cause) in [("acquire_lock", "lock-wait"), ("release_lock", "sleep")] {
        let inner = [("init", sessions, 701), (function, sessions, 565)];
        let reported = four_waits(&inner, WaitKind::Sleep, 1);
        assert_eq!(reported.cause.text(), cause, "{}", reported.summary);
    }
}
