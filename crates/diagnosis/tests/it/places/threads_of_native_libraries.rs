//! On captures made by hand: a native library that waits for threads of its own works, and one in
//! whose call one thread polls for all of them waits for their peer.

use capture::read::Capture;
use diagnosis::{diagnose, Diagnosis};
use format::wait::WaitKind;
use made::{off, seen, stack_on, BEGIN, MS};
use report::to_text;

use crate::made;

const BINARY: &str = "/site/frames/_frames.abi3.so";

/// Thread 7 waits in a library's native code for 499 ms; thread 21 is the library's.
fn collecting(runs: bool) -> Capture {
    let mut made = made::capture(7, &["GET /"]);
    made.meta.site = vec!["/site".to_owned()];
    made.requests.push(made::request(99, 7, BEGIN, 500));
    let frames = [("view", "/srv/app.py", 12), ("collect", "/site/frames/lazy.py", 410)];
    let collect = stack_on(&mut made, 0, &frames);
    let waits = stack_on(&mut made, collect, &[("join", BINARY, 0)]);
    let native = |made: &mut Capture| made.codes.last_mut().expect("a code").native = true;
    native(&mut made);
    let works = stack_on(&mut made, 0, &[("call_mut", BINARY, 0)]);
    native(&mut made);
    off(&mut made, 7, &[(0, 499)]);
    seen(&mut made, 7, &[(50, WaitKind::Futex, waits), (300, WaitKind::Futex, waits)]);
    let (stretch, wait) = match runs {
        true => ((499, 600), WaitKind::Running),
        false => ((0, 600), WaitKind::Futex),
    };
    off(&mut made, 21, &[stretch]);
    let samples: Vec<_> = (0..49).map(|i| (i * 10, wait, works)).collect();
    seen(&mut made, 21, &samples);
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

#[test]
fn their_work_is_the_callers() {
    let made = collecting(true);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!((first.cause.text(), verdict.findings.len()), ("cpu", 1), "{}", to_text(&verdict));
    assert!(first.summary.contains("computed for 500 ms"), "{}", first.summary);
    assert_eq!(first.place.as_ref().expect("a place").function, "view");
    assert!(first.summary.contains(" collect()"), "{}", first.summary);
}

#[test]
fn threads_that_do_not_run_do_nothing_for_it() {
    let made = collecting(false);
    assert_eq!(judge(&made).findings[0].cause.text(), "lock-wait");
}

/// Thread 7 waits in a library's call with this time limit, while thread 8 polls in the same call.
fn calling(limit_ms: u64) -> Capture {
    let mut made = made::capture(7, &["GET /"]);
    made.meta.site = vec!["/site".to_owned()];
    made.requests.push(made::request(99, 7, BEGIN, 500));
    let frames = [("view", "/srv/app.py", 12), ("_blocking", "/site/rpc/_channel.py", 1152)];
    let call = stack_on(&mut made, 0, &frames);
    let mut inside = |function: &str| {
        let stack = stack_on(&mut made, call, &[(function, BINARY, 0)]);
        made.codes.last_mut().expect("a code").native = true;
        stack
    };
    let (waits, polls) = (inside("syscall"), inside("epoll_wait"));
    for (tid, wait, stack) in [(7, WaitKind::Futex, waits), (8, WaitKind::Poll, polls)] {
        off(&mut made, tid, &[(0, 199), (200, 399), (400, 499)]);
        seen(&mut made, tid, &[(50, wait, stack), (250, wait, stack), (450, wait, stack)]);
    }
    let samples = made.samples.get_mut(&7).into_iter().flatten();
    samples.for_each(|look| look.timeout_ns = limit_ms * MS);
    made
}

#[test]
fn one_that_polls_for_all_holds_no_lock() {
    let made = calling(200);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "downstream-wait", "{}", to_text(&verdict));
    assert!(first.culprit.is_none(), "{}", to_text(&verdict));
    assert_eq!(first.place.as_ref().expect("a place").function, "view");
}

#[test]
fn a_lock_of_c_code_is_waited_for_without_a_time_limit() {
    let made = calling(0);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    assert!(first.culprit.is_some(), "{}", to_text(&verdict));
}
