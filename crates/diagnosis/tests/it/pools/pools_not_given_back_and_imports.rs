//! On captures made by hand, after services nobody had seen before: the holder of a pool's
//! connection when there are no switch records, a pool whose time limit ran out, a lock held during
//! an import, a worker that had no work, requests older than what is known.

use capture::read::{Capture, Coverage, RequestRow};
use diagnosis::{diagnose, Confidence, Diagnosis};
use format::wait::{HolderSource, WaitKind};
use made::{code, node, off, BEGIN, MS};
use report::to_text;

use crate::made;

/// Functions and their files, by code id from 1 on.
const CODES: [(&str, &str); 10] = [
    ("view", "/srv/app.py"),
    ("export", "/srv/app.py"),
    ("nightly", "/srv/app.py"),
    ("Condition.wait", "/lib/threading.py"),
    ("Queue.get", "/lib/queue.py"),
    ("_worker", "/lib/concurrent/futures/thread.py"),
    ("_find_and_load", "<frozen importlib._bootstrap>"),
    ("<module>", "/site/frames/core.py"),
    ("engine", "/srv/app.py"),
    ("serve", "/srv/web.py"),
];
/// Stacks, by id.
const VIEW: u32 = 1;
const GET: u32 = 3;
const EXPORT: u32 = 4;
const NIGHTLY: u32 = 5;
const WORKER: u32 = 6;
const IMPORTING: u32 = 9;
const SERVE: u32 = 10;
const CONDITION: u32 = 11;

fn capture(switches: bool) -> Capture {
    let mut made = made::capture(7, &["GET /", "GET /export"]);
    if !switches {
        made.meta.sources = vec![("switches".to_owned(), "off: refused".to_owned())];
    }
    made.meta.site = vec!["/site".to_owned()];
    made.meta.stdlib = vec!["/lib".to_owned()];
    for (function, file) in CODES {
        made.names.extend([function.to_owned(), file.to_owned()]);
        let at = made.names.len() as u32;
        made.codes.push(code(at - 2, at - 1));
    }
    made.stacks = vec![
        node(0, 1, 12),     // 1 view
        node(VIEW, 5, 170), // 2 Queue.get, called by view
        node(2, 4, 320),    // 3 Condition.wait, called by it
        node(0, 2, 40),     // 4 export
        node(0, 3, 50),     // 5 nightly
        node(0, 6, 81),     // 6 _worker
        node(0, 9, 60),     // 7 engine
        node(7, 7, 1176),   // 8 the import system, called by engine
        node(8, 8, 5),      // 9 a library's module
        node(0, 10, 90),    // 10 serve
        node(VIEW, 4, 320), // 11 Condition.wait, called by view
    ];
    made.requests.push(request(99, 0, BEGIN, 500));
    made
}

fn request(id: u64, name: u32, begin_ns: u64, ms: u64) -> RequestRow {
    RequestRow { name, ..made::request(id, 7, begin_ns, ms) }
}

/// Thread `tid` was seen so, at ms after the slow request's begin; each has a lock of its own.
fn seen(made: &mut Capture, tid: u32, samples: &[(u64, WaitKind, u32)]) {
    made::seen(made, tid, samples);
    for look in made.samples.get_mut(&tid).into_iter().flatten() {
        look.target = if look.wait == WaitKind::Futex { u64::from(tid) << 12 } else { 0 };
    }
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

/// Samples of a thread each 100 ms in `[from, to)`.
fn samples(from: u64, to: u64, wait: WaitKind, stack: u32) -> Vec<(u64, WaitKind, u32)> {
    (from..to).step_by(100).map(|at| (at, wait, stack)).collect()
}

/// Without switch records: thread 7 waits in a queue; thread 9 is in `export` until `until`.
fn kept(until: u64) -> Capture {
    let mut made = capture(false);
    seen(&mut made, 7, &samples(5, 490, WaitKind::Futex, GET));
    let mut own = samples(20, until, WaitKind::SocketRead, EXPORT);
    own.extend(samples(until + 20, until + 300, WaitKind::Poll, SERVE));
    seen(&mut made, 9, &own);
    made
}

#[test]
fn a_thread_that_leaves_its_function_with_the_waits_end_had_what_was_waited_for() {
    let made = kept(450);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!((first.cause.text(), first.confidence), ("pool-wait", Confidence::Likely));
    assert_eq!(first.culprit.as_ref().expect("a culprit").function, "export");
    let wanted = "most likely app.py:40 export() had what it waited for, which waited for a peer";
    assert!(first.summary.ends_with(wanted), "{}", first.summary);
}

#[test]
fn nobody_is_named_whose_stay_goes_on_or_when_two_end_then() {
    let made = kept(1500);
    assert!(judge(&made).findings[0].culprit.is_none(), "{}", to_text(&judge(&made)));
    let mut made = kept(450);
    let mut own = samples(30, 450, WaitKind::Sleep, NIGHTLY);
    own.extend(samples(480, 700, WaitKind::Poll, SERVE));
    seen(&mut made, 10, &own);
    assert!(judge(&made).findings[0].culprit.is_none(), "{}", to_text(&judge(&made)));
}

#[test]
fn a_pool_whose_time_limit_ran_out_is_no_sleep_and_says_whether_anybody_was_at_work() {
    for switches in [true, false] {
        let mut made = capture(switches);
        if switches {
            off(&mut made, 7, &[(0, 499)]);
        }
        seen(&mut made, 7, &samples(5, 490, WaitKind::Futex, GET));
        for look in made.samples.get_mut(&7).expect("seen") {
            look.timeout_ns = BEGIN + 499 * MS - look.t_ns;
        }
        seen(&mut made, 8, &samples(10, 900, WaitKind::Poll, SERVE));
        let verdict = judge(&made);
        let first = &verdict.findings[0];
        assert_eq!(first.cause.text(), "pool-wait", "{switches}");
        assert!(first.summary.contains("app.py:12 view() waited"), "{}", first.summary);
        assert!(first.summary.contains("not given back"), "{}", first.summary);
        assert!(first.advice.contains("does not give back"), "{}", first.advice);
        // A thread was at work all the while, and may have had anything.
        seen(&mut made, 8, &samples(10, 900, WaitKind::Sleep, NIGHTLY));
        let verdict = judge(&made);
        let first = &verdict.findings[0];
        assert_eq!(first.cause.text(), "pool-wait", "{switches}");
        let wanted = "for a pool; nothing came before the time limit";
        assert!(first.summary.ends_with(wanted), "{}", first.summary);
    }
}

#[test]
fn code_that_imports_with_a_lock_in_hand_is_named_and_not_the_module() {
    let mut made = capture(true);
    off(&mut made, 7, &[(0, 499)]);
    seen(&mut made, 7, &samples(5, 490, WaitKind::Futex, VIEW));
    for look in made.samples.get_mut(&7).expect("seen") {
        (look.lock_holder, look.holder_source) = (9, HolderSource::OwnerField);
    }
    off(&mut made, 9, &[(499, 600)]);
    let own: Vec<_> = (0..50).map(|i| (i * 10, WaitKind::Running, IMPORTING)).collect();
    seen(&mut made, 9, &own);
    let verdict = judge(&made);
    let culprit = verdict.findings[0].culprit.as_ref().expect("a culprit");
    assert_eq!((culprit.function.as_str(), culprit.line), ("engine", 60));
    let summary = &verdict.findings[0].summary;
    assert!(summary.ends_with("which loaded a module"), "{summary}");
}

#[test]
fn a_worker_without_work_held_nothing() {
    let mut made = capture(true);
    off(&mut made, 7, &[(0, 499)]);
    let waits = WaitKind::Futex;
    seen(&mut made, 7, &[(50, waits, CONDITION), (400, waits, CONDITION)]);
    // Idle for the first part of the wait, then at work until its end.
    off(&mut made, 9, &[(0, 200), (201, 498)]);
    let mut own = samples(10, 200, waits, WORKER);
    own.extend(samples(210, 490, WaitKind::SocketRead, EXPORT));
    own.push((499, WaitKind::Running, EXPORT));
    seen(&mut made, 9, &own);
    let verdict = judge(&made);
    assert_eq!(verdict.findings.len(), 1, "{}", to_text(&verdict));
    assert_eq!(verdict.findings[0].culprit.as_ref().expect("a culprit").function, "export");
}

#[test]
fn slow_requests_older_than_what_is_known_of_threads_are_left_out_and_counted() {
    let mut made = capture(true);
    made.meta.from_ns = BEGIN - 5000 * MS;
    // Nothing is known of these.
    made.requests.extend((0..4).map(|i| request(100 + i, 0, (20_000 + i * 600) * MS, 550)));
    off(&mut made, 7, &[(0, 499)]);
    seen(&mut made, 7, &samples(5, 490, WaitKind::Sleep, EXPORT));
    let verdict = judge(&made);
    assert_eq!((verdict.slow, verdict.older), (1, 4));
    assert_eq!(verdict.findings.len(), 1, "{}", to_text(&verdict));
    assert_eq!(verdict.findings[0].cause.text(), "sleep");
    let reported = "Left out: 4 slow requests older than the time the capture covers.";
    assert!(to_text(&verdict).contains(reported), "{}", to_text(&verdict));
    // Where there are no others they are judged,
    made.requests.retain(|r| r.id != 99);
    assert_eq!((judge(&made).slow, judge(&made).older), (4, 0));
    // unless no record of that time is there of any thread: a snapshot long after a slow request.
    let from_ns = made.meta.from_ns - MS;
    let (tid, serial, read, missing_before) = (7, 1, 10, 500);
    let (missing_between, missing_after, dropped) = (0, 0, 0);
    made.coverage.push(Coverage {
        tid,
        serial,
        from_ns,
        read,
        missing_before,
        missing_between,
        missing_after,
        dropped,
    });
    let verdict = judge(&made);
    assert_eq!((verdict.slow, verdict.older, verdict.findings.len()), (0, 4, 0));
    let text = to_text(&verdict);
    assert!(text.starts_with("Nothing to blame") && text.contains(reported), "{text}");
}
