//! On captures made by hand: a wait for notice that ran to its time limit, with and without switch
//! records.

use capture::read::{Capture, ThreadRow};
use diagnosis::{diagnose, Diagnosis};
use format::wait::WaitKind;
use made::{off, seen, stack_on, BEGIN, MS};
use report::to_text;

use crate::made;

const THREADING: &str = "/usr/lib/python3.11/threading.py";
const VIEW: (&str, &str, u32) = ("view", "/srv/app.py", 12);
const CONDITION: (&str, &str, u32) = ("Condition.wait", THREADING, 331);
const EVENT: (&str, &str, u32) = ("Event.wait", THREADING, 629);

/// Thread 7 waits 499 ms in a request of 500 ms, with a limit of as much.
fn limited(switches: bool, frames: &[(&str, &str, u32)]) -> (Capture, u32) {
    let mut made = made::capture(7, &["GET /"]);
    let stack = stack_on(&mut made, 0, frames);
    made.requests.push(made::request(99, 7, BEGIN, 500));
    if !switches {
        made.meta.sources = vec![("switches".to_owned(), "off: refused".to_owned())];
    }
    waits(&mut made, switches, 7, (0, 499), 499, stack);
    (made, stack)
}

/// Thread `tid` waits so, with this limit.
fn waits(made: &mut Capture, switches: bool, tid: u32, (from, to): (u64, u64), limit: u64, s: u32) {
    if switches {
        off(made, tid, &[(from, to)]);
    }
    let samples: Vec<_> = (from..to).step_by(50).map(|at| (at + 5, WaitKind::Futex, s)).collect();
    seen(made, tid, &samples);
    for look in made.samples.get_mut(&tid).expect("seen") {
        look.timeout_ns = BEGIN + (from + limit) * MS - look.t_ns;
        look.target = 4096;
    }
    made::also_seen(made, tid, std::iter::once(to + 2), WaitKind::Running, 0);
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

#[test]
fn a_condition_that_nobody_notified_is_no_sleep() {
    for switches in [true, false] {
        let (made, _) = limited(switches, &[VIEW, CONDITION]);
        let verdict = judge(&made);
        let first = &verdict.findings[0];
        assert_eq!(first.cause.text(), "deadlock-timeout", "{}", to_text(&verdict));
        let words = "for a Condition until its time limit: nobody gave notice";
        assert!(first.summary.contains(words), "{}", first.summary);
        assert!(first.advice.contains("notify()"), "{}", first.advice);
        assert!(first.culprit.is_none());
    }
}

#[test]
fn a_barrier_that_too_few_threads_came_to_is_no_sleep() {
    const BARRIER: (&str, &str, u32) = ("Barrier.wait", THREADING, 701);
    const ENTERS: (&str, &str, u32) = ("Barrier._wait", THREADING, 739);
    const WAIT_FOR: (&str, &str, u32) = ("Condition.wait_for", THREADING, 362);
    for switches in [true, false] {
        let (made, _) = limited(switches, &[VIEW, BARRIER, ENTERS, WAIT_FOR, CONDITION]);
        let verdict = judge(&made);
        let first = &verdict.findings[0];
        assert_eq!(first.cause.text(), "deadlock-timeout", "{}", to_text(&verdict));
        let words = "for a Barrier until its time limit: too few threads came to it";
        assert!(first.summary.contains(words), "{}", first.summary);
        assert!(first.advice.contains("Barrier"), "{}", first.advice);
        assert!(first.culprit.is_none());
    }
}

#[test]
fn an_event_is_a_pause_unless_another_wait_there_got_its_notice() {
    for switches in [true, false] {
        let (mut made, stack) = limited(switches, &[VIEW, EVENT, CONDITION]);
        assert_eq!(judge(&made).findings[0].cause.text(), "sleep", "{switches}");
        // Thread 8 had a limit of 5 s there, and went on after 100 ms.
        waits(&mut made, switches, 8, (1000, 1100), 5000, stack);
        let verdict = judge(&made);
        assert_eq!(verdict.findings[0].cause.text(), "deadlock-timeout", "{}", to_text(&verdict));
    }
}

#[test]
fn a_thread_that_ended_before_its_time_limit_got_its_notice() {
    let (mut made, stack) = limited(false, &[VIEW, EVENT, CONDITION]);
    // Thread 8 had a limit of 5 s there, and was seen no more: a helper of some request.
    waits(&mut made, false, 8, (1000, 1100), 5000, stack);
    made.samples.get_mut(&8).expect("seen").pop();
    assert_eq!(judge(&made).findings[0].cause.text(), "sleep");
    let ended = made::thread(8, "Thread-8 (look)");
    let end_ns = Some(BEGIN + 1102 * MS);
    made.threads.push(ThreadRow { start_ns: BEGIN + 999 * MS, end_ns, ..ended });
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "deadlock-timeout", "{}", to_text(&verdict));
}

#[test]
fn a_wait_that_ended_just_before_its_time_limit_by_switch_records_got_its_notice() {
    for (ended, cause) in [(497, "lock-wait"), (499, "deadlock-timeout")] {
        let (mut made, stack) = limited(true, &[VIEW, CONDITION]);
        waits(&mut made, true, 7, (0, ended), 499, stack);
        let verdict = judge(&made);
        assert_eq!(verdict.findings[0].cause.text(), cause, "{}", to_text(&verdict));
    }
}

#[test]
fn one_that_still_waits_at_the_end_is_like_those_that_ran_out_there() {
    let places: [(&[_], _); 2] =
        [(&[VIEW, CONDITION], "deadlock-timeout"), (&[VIEW, EVENT, CONDITION], "sleep")];
    let kernels = |(frames, cause)| [(frames, cause, true), (frames, cause, false)];
    for (frames, cause, switches) in places.into_iter().flat_map(kernels) {
        let (mut made, stack) = limited(switches, frames);
        made.meta.to_ns = BEGIN + 2000 * MS;
        let mut open = made::request(98, 8, BEGIN + 1600 * MS, 0);
        open.end_ns = None;
        made.requests.push(open);
        if switches {
            off(&mut made, 8, &[(1600, 2000)]);
        }
        seen(&mut made, 8, &[(1650, WaitKind::Futex, stack), (1950, WaitKind::Futex, stack)]);
        for look in made.samples.get_mut(&8).expect("seen") {
            (look.timeout_ns, look.target) = (BEGIN + 2100 * MS - look.t_ns, 8192);
        }
        let verdict = judge(&made);
        assert_eq!((verdict.slow, verdict.findings.len()), (2, 1), "{}", to_text(&verdict));
        assert_eq!(verdict.findings[0].cause.text(), cause, "{}", to_text(&verdict));
    }
}

/// Thread 7 waits 499 ms for notice in five slices of at most 100 ms; the last ends after 99 ms if
/// notice came.
fn in_slices(switches: bool, noticed: bool) -> Capture {
    let mut made = made::capture(7, &["GET /"]);
    let stack = stack_on(&mut made, 0, &[VIEW, EVENT, CONDITION]);
    made.requests.push(made::request(99, 7, BEGIN, 500));
    let slices: Vec<(u64, u64)> = (0..5).map(|i| (i * 100, i * 100 + 99)).collect();
    match switches {
        true => off(&mut made, 7, &slices),
        false => made.meta.sources = vec![("switches".to_owned(), "off: refused".to_owned())],
    }
    let samples: Vec<_> = (0..25).map(|i| (i * 20 + 5, WaitKind::Futex, stack)).collect();
    seen(&mut made, 7, &samples);
    for look in made.samples.get_mut(&7).expect("seen") {
        let at = (look.t_ns - BEGIN) / MS;
        let limit = if noticed && at > 400 { 300 } else { 99 };
        look.timeout_ns = BEGIN + (at / 100 * 100 + limit) * MS - look.t_ns;
        look.target = 4096;
    }
    made::also_seen(&mut made, 7, std::iter::once(500), WaitKind::Running, 0);
    made
}

#[test]
fn a_thread_that_asks_again_when_its_time_is_up_waits_once() {
    for switches in [true, false] {
        let made = in_slices(switches, true);
        let verdict = judge(&made);
        assert_eq!(verdict.findings[0].cause.text(), "lock-wait", "{}", to_text(&verdict));
        // The last slice ran out as well: nobody ended any of them.
        let made = in_slices(switches, false);
        let verdict = judge(&made);
        assert_eq!(verdict.findings[0].cause.text(), "sleep", "{}", to_text(&verdict));
    }
}

/// Thread 8 asks in as many slices of 99 ms at the place of thread 7, and gets its notice 50 ms
/// into the last.
fn asks(made: &mut Capture, switches: bool, slices: u64) {
    let stack = made.samples[&7][0].stack;
    let begin = |at: u64| at / 100 * 100;
    let end = 2000 + slices * 100 - 50;
    if switches {
        let times = (20..20 + slices).map(|i| (i * 100, (i * 100 + 99).min(end)));
        off(made, 8, &times.collect::<Vec<_>>());
    }
    let samples: Vec<_> = (2005..end).step_by(20).map(|at| (at, WaitKind::Futex, stack)).collect();
    seen(made, 8, &samples);
    for look in made.samples.get_mut(&8).expect("seen") {
        let at = (look.t_ns - BEGIN) / MS;
        (look.timeout_ns, look.target) = (BEGIN + (begin(at) + 99) * MS - look.t_ns, 8192);
    }
    made::also_seen(made, 8, std::iter::once(end + 2), WaitKind::Running, 0);
}

#[test]
fn code_that_asked_on_for_longer_elsewhere_gave_up_on_no_time_limit() {
    // All slices of thread 7 ran out, the last one, too: its notice came just then.
    for switches in [true, false] {
        let mut made = in_slices(switches, false);
        asks(&mut made, switches, 7);
        let verdict = judge(&made);
        assert_eq!(verdict.findings[0].cause.text(), "lock-wait", "{}", to_text(&verdict));
    }
    // As far as is known, such code gives up after four or five.
    let mut made = in_slices(true, false);
    asks(&mut made, true, 4);
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "deadlock-timeout", "{}", to_text(&verdict));
}

#[test]
fn one_that_waited_for_the_gil_before_it_asked_again_waits_once() {
    // The last slice ends after 45 of its 99 ms, and no sample saw it.
    let mut made = in_slices(true, false);
    let stack = made.samples[&7][0].stack;
    off(&mut made, 7, &[(0, 99), (100, 199), (200, 299), (300, 399), (399, 409), (410, 455)]);
    made.samples.get_mut(&7).expect("seen").retain(|s| s.t_ns < BEGIN + 399 * MS);
    made::also_seen(&mut made, 7, std::iter::once(404), WaitKind::Gil, stack);
    made::also_seen(&mut made, 7, std::iter::once(470), WaitKind::Running, 0);
    let verdict = judge(&made);
    assert_eq!(verdict.findings[0].cause.text(), "lock-wait", "{}", to_text(&verdict));
}

#[test]
fn one_that_still_asks_in_slices_at_the_end_may_yet_get_its_notice() {
    let mut made = in_slices(true, true);
    made.meta.to_ns = BEGIN + 1950 * MS;
    let stack = made.samples[&7][0].stack;
    let mut open = made::request(98, 8, BEGIN + 1600 * MS, 0);
    open.end_ns = None;
    made.requests.push(open);
    let slices: Vec<(u64, u64)> = (16..19).map(|i| (i * 100, i * 100 + 99)).collect();
    off(&mut made, 8, &[&slices[..], &[(1900, 1950)]].concat());
    let samples: Vec<_> = (80..97).map(|i| (i * 20 + 5, WaitKind::Futex, stack)).collect();
    seen(&mut made, 8, &samples);
    for look in made.samples.get_mut(&8).expect("seen") {
        let at = (look.t_ns - BEGIN) / MS;
        look.timeout_ns = BEGIN + (at / 100 * 100 + 99) * MS - look.t_ns;
        look.target = 8192;
    }
    let verdict = judge(&made);
    let causes: Vec<_> = verdict.findings.iter().map(|f| f.cause.text()).collect();
    assert_eq!((verdict.slow, &causes[..]), (2, &["lock-wait"][..]), "{}", to_text(&verdict));
}

/// Thread 7 waits 99 ms in vain in a library, and then 380 ms until notice comes: in another line
/// of its function that waits, if `elsewhere`.
fn in_two_calls(switches: bool, elsewhere: bool) -> Capture {
    const WORKER: &str = "/usr/lib/python3.11/site-packages/sender/worker.py";
    let mut made = made::capture(7, &["GET /"]);
    made.meta.site = vec!["/usr/lib/python3.11/site-packages".to_owned()];
    made.meta.stdlib = vec!["/usr/lib/python3.11".to_owned()];
    made.requests.push(made::request(99, 7, BEGIN, 500));
    let mut calls = |line: u32, waits: u32| {
        let join = ("Worker._timed_join", WORKER, waits);
        stack_on(&mut made, 0, &[VIEW, ("Worker.flush", WORKER, line), join, CONDITION])
    };
    let (short, long) = (calls(130, 80), calls(136, if elsewhere { 81 } else { 80 }));
    match switches {
        true => off(&mut made, 7, &[(0, 99), (100, 480)]),
        false => made.meta.sources = vec![("switches".to_owned(), "off: refused".to_owned())],
    }
    let samples =
        (5..480).step_by(20).map(|at| (at, WaitKind::Futex, if at < 100 { short } else { long }));
    seen(&mut made, 7, &samples.collect::<Vec<_>>());
    for look in made.samples.get_mut(&7).expect("seen") {
        let at = (look.t_ns - BEGIN) / MS;
        let (limit, lock) = if at < 100 { (99, 4096) } else { (5100, 8192) };
        (look.timeout_ns, look.target) = (BEGIN + limit * MS - look.t_ns, lock);
    }
    made::also_seen(&mut made, 7, std::iter::once(482), WaitKind::Running, 0);
    made
}

#[test]
fn a_library_that_asks_again_in_another_call_waits_once() {
    for switches in [true, false] {
        let causes = |elsewhere: bool| {
            let made = in_two_calls(switches, elsewhere);
            let verdict = judge(&made);
            verdict.findings.iter().map(|f| f.cause.text()).collect::<Vec<_>>()
        };
        assert_eq!(causes(false), ["lock-wait"], "{switches}");
        assert_eq!(causes(true), ["lock-wait", "deadlock-timeout"], "{switches}");
    }
}
