//! On captures made by hand: what is the work's and what is the machine's where there are too few
//! CPUs, who keeps the GIL then, and times whose switch records are lost.
#![allow(clippy::expect_used, missing_docs)]

mod made;

use capture::read::Capture;
use diagnosis::{diagnose, to_text, Confidence, Diagnosis};
use format::wait::WaitKind::{Gil, Poll, Running, Sleep};
use made::{also_off, also_seen, capture, off, request, seen, stack, BEGIN, MS};

/// The thread of the slow request, and another one.
const OWN: u32 = 7;
const OTHER: u32 = 9;

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

fn slow(ms: u64) -> Capture {
    let mut made = capture(OWN, &["GET /"]);
    made.requests.push(request(99, OWN, BEGIN, ms));
    made
}

/// Of 1,000 ms the thread ran `each` of every 50 ms, and had no CPU for the rest.
fn crowded(each: u64) -> Capture {
    let mut made = slow(1000);
    let rows = stack(&mut made, &[("view", "/srv/app.py", 12), ("rows", "/srv/app.py", 30)]);
    let pauses: Vec<(u64, u64)> = (0..20).map(|i| (i * 50 + each, i * 50 + 50)).collect();
    also_off(&mut made, OWN, true, &pauses);
    also_seen(&mut made, OWN, (5..1000).step_by(50), Running, rows);
    also_off(&mut made, OWN, false, &[(1001, 5000)]);
    made
}

#[test]
fn work_that_alone_is_too_slow_is_told_first_and_what_the_machine_added_beside_it() {
    let made = crowded(20);
    let verdict = judge(&made);
    assert_eq!(verdict.findings.len(), 1, "{}", to_text(&verdict));
    let first = &verdict.findings[0];
    assert_eq!((first.cause.text(), first.confidence), ("cpu", Confidence::Confirmed));
    let wanted = "app.py:30 rows() computed for 400 ms, and got no CPU for 600 ms of the while";
    assert_eq!(first.summary, wanted);
}

#[test]
fn work_that_is_slow_only_for_want_of_a_cpu_is_starved() {
    let made = crowded(5);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "cpu-starved", "{}", to_text(&verdict));
    assert!(first.share > 0.85, "{}", first.share);
}

/// The request waits 1,000 ms for the GIL that `OTHER` keeps, which runs `each` of every 50 ms.
fn kept(each: u64) -> Capture {
    let mut made = slow(1000);
    let view = stack(&mut made, &[("view", "/srv/app.py", 12)]);
    let rank = stack(&mut made, &[("rank", "/srv/jobs.py", 8)]);
    off(&mut made, OWN, &[(0, 999)]);
    also_seen(&mut made, OWN, (5..999).step_by(50), Gil, view);
    for look in made.samples.get_mut(&OWN).expect("seen") {
        look.gil_holder = OTHER;
    }
    let pauses: Vec<(u64, u64)> = (0..20).map(|i| (i * 50 + each, i * 50 + 50)).collect();
    also_off(&mut made, OTHER, true, &pauses);
    also_off(&mut made, OTHER, false, &[(1000, 9000)]);
    also_seen(&mut made, OTHER, (5..1000).step_by(50), Running, rank);
    made
}

#[test]
fn who_keeps_the_gil_for_long_work_is_to_blame_on_a_crowded_machine_too() {
    let made = kept(20);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "gil-wait", "{}", to_text(&verdict));
    assert_eq!(first.culprit.as_ref().expect("a culprit").function, "rank");
    // Its work is short: it is the machine.
    let made = kept(5);
    assert_eq!(judge(&made).findings[0].cause.text(), "cpu-starved");
}

#[test]
fn no_cpu_between_two_waits_for_the_gil_is_a_wait_for_its_holder() {
    let mut made = kept(20);
    let view = made.samples[&OWN][0].stack;
    // Each wait of 25 ms ends, and the thread gets no CPU to begin the next one.
    made.off_cpu.remove(&OWN);
    let waits: Vec<(u64, u64)> = (0..20).map(|i| (i * 50, i * 50 + 25)).collect();
    let pauses: Vec<(u64, u64)> = (0..20).map(|i| (i * 50 + 26, i * 50 + 50)).collect();
    also_off(&mut made, OWN, false, &waits);
    also_off(&mut made, OWN, true, &pauses);
    made.off_cpu.get_mut(&OWN).expect("off").sort_by_key(|o| o.out_ns);
    also_seen(&mut made, OWN, (30..999).step_by(50), Running, view);
    made.samples.get_mut(&OWN).expect("seen").sort_by_key(|s| s.t_ns);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "gil-wait", "{}", to_text(&verdict));
    assert!(first.share > 0.9, "{}", to_text(&verdict));
}

#[test]
fn work_that_is_a_small_part_of_its_time_is_not_confirmed() {
    let mut made = slow(2000);
    let rows = stack(&mut made, &[("rows", "/srv/app.py", 30)]);
    let pauses: Vec<(u64, u64)> = (0..20).map(|i| (i * 100 + 20, i * 100 + 100)).collect();
    also_off(&mut made, OWN, true, &pauses);
    also_off(&mut made, OWN, false, &[(2001, 9000)]);
    also_seen(&mut made, OWN, (5..2000).step_by(50), Running, rows);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!((first.cause.text(), first.confidence), ("cpu", Confidence::Likely));
    assert!(to_text(&verdict).contains("crowded"), "{}", to_text(&verdict));
}

#[test]
fn where_switch_records_are_lost_a_wait_is_no_computing_and_nothing_is_confirmed() {
    let mut made = slow(1000);
    let (view, settle) = (
        stack(&mut made, &[("view", "/srv/app.py", 12)]),
        stack(&mut made, &[("settle", "/srv/app.py", 40)]),
    );
    // What is left of the records begins behind the request.
    off(&mut made, OWN, &[(1002, 1500), (1600, 9000)]);
    seen(&mut made, OWN, &[(1, Running, view)]);
    also_seen(&mut made, OWN, (50..1000).step_by(100), Sleep, settle);
    also_seen(&mut made, OWN, 1100..1101, Poll, view);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!((first.cause.text(), first.confidence), ("sleep", Confidence::Likely));
    let text = to_text(&verdict);
    assert!(text.contains("switch records of this time are not in the capture"), "{text}");
    // No event loop, no await.
    assert!(!text.contains("await"), "{text}");
}
