//! On captures made by hand: what is the work's and what is the machine's where there are too few
//! CPUs, the holder of the GIL then, and times whose switch records are lost.

use capture::read::{Capture, OffCpu, VitalRow};
use diagnosis::{diagnose, Confidence, Diagnosis};
use format::wait::WaitKind::{Futex, Gil, Poll, Running, Sleep};
use made::{also_off, also_seen, capture, off, request, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

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
fn work_that_alone_is_too_slow_is_reported_first_and_what_the_machine_added_beside_it() {
    let made = crowded(20);
    let verdict = judge(&made);
    assert_eq!(verdict.findings.len(), 1, "{}", to_text(&verdict));
    let first = &verdict.findings[0];
    assert_eq!((first.cause.text(), first.confidence), ("cpu", Confidence::Confirmed));
    let wanted =
        "app.py:30 rows() computed for 400 ms, which took 1 s: for 600 ms of that it got no CPU";
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

/// A quota that is used up appears the same from inside: that it was not counted is said, and
/// that of no other vital.
#[test]
fn without_the_cgroups_counters_a_starved_thread_may_have_been_held_back() {
    let said = |each: u64, state: &str, counted: bool| {
        let mut made = crowded(each);
        if counted {
            made.names.push("cgroup_throttled_ns".to_owned());
            let name = made.names.len() as u32 - 1;
            made.vitals.push(VitalRow { t_ns: BEGIN, name, value: 0.0 });
        }
        made.meta.sources.push(("vitals".to_owned(), state.to_owned()));
        let verdict = judge(&made);
        let text = to_text(&verdict);
        let line = text.lines().find_map(|line| line.strip_prefix("Source vitals was "));
        line.map(str::to_owned)
    };
    let cgroup = "on; missing: cgroup throttling (no cpu controller for this cgroup)";
    assert_eq!(said(5, cgroup, false), Some(format!("{cgroup}.")));
    assert_eq!(said(5, "on; missing: pressure of io (not found)", true), None);
    assert_eq!(said(5, "off: no /proc", false).as_deref(), Some("off: no /proc."));
    assert_eq!(said(5, "on", true), None);
    assert_eq!(said(50, cgroup, false), None, "it computed");
}

/// An event loop runs 20 of every 50 ms: for one callback it is kept by that, for a request of its
/// own each time it lacks a CPU.
#[test]
fn many_short_requests_on_a_crowded_machine_do_not_block_their_event_loop() {
    for (others, cause) in [(0, "event-loop-blocked"), (20, "cpu-starved")] {
        let mut made = crowded(20);
        let short = |i: u64| request(200 + i, OWN, BEGIN + (i * 50 + 1) * MS, 45);
        made.requests.extend((0..others).map(short));
        made.requests.iter_mut().for_each(|r| r.on_loop = true);
        let verdict = judge(&made);
        let first = &verdict.findings[0];
        assert_eq!(first.cause.text(), cause, "{others} others: {}", to_text(&verdict));
    }
}

/// A callback that is too long for a loop on a free machine keeps it, however little of the time it
/// had a CPU; the advice follows the larger part.
#[test]
fn a_callback_that_lost_its_cpu_still_keeps_its_loop() {
    let judged = |each: u64| {
        let mut made = crowded(each);
        made.requests.iter_mut().for_each(|r| r.on_loop = true);
        let verdict = judge(&made);
        let first = &verdict.findings[0];
        (first.cause.text(), first.summary.clone(), first.advice)
    };
    let (cause, summary, advice) = judged(5);
    assert_eq!(cause, "event-loop-blocked", "{summary}");
    assert!(summary.contains("and got no CPU for 900 ms of that time"), "{summary}");
    assert!(advice.starts_with("Give the service more CPU"), "{advice}");
    assert_eq!(judged(2).0, "cpu-starved", "40 ms of work is a loop's ordinary business");
}

/// The loop's callback runs 20 of every 50 ms, and waits for the GIL for the rest: `OTHER` has it,
/// which hardly runs, as it gets no CPU.
#[test]
fn a_callback_that_waited_for_a_holder_of_the_gil_without_a_cpu_still_keeps_its_loop() {
    let mut made = slow(1000);
    made.requests.iter_mut().for_each(|r| r.on_loop = true);
    let rows = stack(&mut made, &[("view", "/srv/app.py", 12), ("rows", "/srv/app.py", 30)]);
    let rank = stack(&mut made, &[("rank", "/srv/jobs.py", 8)]);
    let waits: Vec<(u64, u64)> = (0..20).map(|i| (i * 50 + 20, i * 50 + 50)).collect();
    off(&mut made, OWN, &waits);
    also_off(&mut made, OWN, false, &[(1001, 5000)]);
    for i in 0..20 {
        also_off(&mut made, OTHER, false, &[(i * 50, i * 50 + 19)]);
        also_off(&mut made, OTHER, true, &[(i * 50 + 20, i * 50 + 50)]);
        also_seen(&mut made, OWN, [i * 50 + 5].into_iter(), Running, rows);
        also_seen(&mut made, OWN, [i * 50 + 25, i * 50 + 45].into_iter(), Gil, rows);
        also_seen(&mut made, OTHER, [i * 50 + 25, i * 50 + 45].into_iter(), Running, rank);
    }
    also_off(&mut made, OTHER, false, &[(1000, 9000)]);
    for look in made.samples.get_mut(&OWN).expect("seen").iter_mut().filter(|s| s.wait == Gil) {
        look.gil_holder = OTHER;
    }
    let verdict = judge(&made);
    assert_eq!(verdict.findings.len(), 1, "{}", to_text(&verdict));
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "event-loop-blocked", "{}", to_text(&verdict));
    assert!(first.share > 0.95, "{}", first.share);
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
fn a_thread_that_keeps_the_gil_for_long_work_is_to_blame_on_a_crowded_machine_too() {
    let made = kept(20);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "gil-wait", "{}", to_text(&verdict));
    assert_eq!(first.culprit.as_ref().expect("a culprit").function, "rank");
    // Its work is short: it is the machine.
    let made = kept(5);
    assert_eq!(judge(&made).findings[0].cause.text(), "cpu-starved");
}

/// It runs 20 of every 50 ms, 400 in all: for one request, or for one of 50 ms after the other.
#[test]
fn many_short_requests_in_a_row_are_no_long_work_of_the_thread_that_serves_them() {
    for (others, cause) in [(0, "gil-wait"), (20, "cpu-starved")] {
        let mut made = kept(20);
        let short = |i: u64| request(200 + i, OTHER, BEGIN + i * 50 * MS, 50);
        made.requests.extend((0..others).map(short));
        let verdict = judge(&made);
        let first = &verdict.findings[0];
        assert_eq!(first.cause.text(), cause, "{others} others: {}", to_text(&verdict));
    }
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

/// The recorder's own thread got no CPU between these times, ms behind `BEGIN`.
fn late(made: &mut Capture, from_ms: u64, to_ms: u64) {
    let ns = ((to_ms - from_ms) * MS) as f64;
    for name in ["recorder_gap_ns", "recorder_gap_run_delay_ns"] {
        made.names.push(name.to_owned());
        let name = made.names.len() as u32 - 1;
        made.vitals.push(VitalRow { t_ns: BEGIN + to_ms * MS, name, value: ns });
    }
}

#[test]
fn that_the_recorder_got_no_cpu_says_nothing_of_threads_that_waited_for_a_lock_or_computed() {
    let mut made = slow(1000);
    let seat = stack(&mut made, &[("view", "/srv/app.py", 12), ("seat", "/srv/app.py", 40)]);
    let paint = stack(&mut made, &[("repaint", "/srv/app.py", 42)]);
    off(&mut made, OWN, &[(0, 999)]);
    also_seen(&mut made, OWN, (5..999).step_by(50), Futex, seat);
    also_off(&mut made, OTHER, false, &[(1000, 9000)]);
    also_seen(&mut made, OTHER, (5..1000).step_by(50), Running, paint);
    late(&mut made, 0, 998);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "lock-wait", "{}", to_text(&verdict));
    assert_eq!(first.confidence, Confidence::Likely);
    assert_eq!(first.culprit.as_ref().expect("a culprit").function, "repaint");

    let mut made = crowded(50);
    late(&mut made, 0, 998);
    assert_eq!(judge(&made).findings[0].cause.text(), "cpu");
    // Nobody knows better of a time in which a thread could have run.
    let mut made = crowded(5);
    late(&mut made, 0, 998);
    assert_eq!(judge(&made).findings[0].cause.text(), "cpu-starved");
}

/// Of 1,000 ms the thread ran `run_ns` of every 5 ms, and was runnable for the rest.
fn in_slivers(run_ns: u64) -> Capture {
    let mut made = slow(1000);
    let pause = |i: u64| {
        let begin = BEGIN + i * 5 * MS;
        OffCpu { out_ns: begin + run_ns, in_ns: begin + 5 * MS, preempted: true, cpu: None }
    };
    made.off_cpu.insert(OWN, (0..200).map(pause).collect());
    made
}

#[test]
fn a_thread_that_runs_for_microseconds_at_a_time_may_give_the_cpu_away_itself() {
    let made = in_slivers(6_000);
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "unknown", "{}", to_text(&verdict));
    assert!(first.summary.contains("a lock that spins"), "{}", first.summary);
    // What was taken from it in the midst of its work was taken.
    let made = in_slivers(400_000);
    assert_eq!(judge(&made).findings[0].cause.text(), "cpu-starved");
}

/// As `crowded(5)`; meanwhile two threads of the process sort, on `cpus` CPUs, at the line `sorts`.
fn beside_two_that_sort(cpus: u64, sorts: (&str, &str, u32)) -> Capture {
    let mut made = crowded(5);
    made.meta.all = serde_json::json!({ "cpus": cpus });
    let sort = stack(&mut made, &[("worker", "/srv/batch.py", 20), sorts]);
    for tid in [OTHER, 11] {
        off(&mut made, tid, &[(0, 1), (999, 2000)]);
        seen(&mut made, tid, &[]);
        also_seen(&mut made, tid, (5..1000).step_by(10), Running, sort);
    }
    made
}

#[test]
fn the_thread_of_the_process_that_took_the_cpus_is_the_culprit() {
    let made = beside_two_that_sort(2, ("percentiles", "/srv/batch.py", 7));
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "cpu-starved", "{}", to_text(&verdict));
    assert_eq!(first.culprit.as_ref().expect("a culprit").function, "percentiles");
    assert_eq!(first.place.as_ref().expect("a place").function, "rows");
    // Of eight CPUs others of the machine must have had most; and where the number of CPUs is not
    // recorded, nothing is known.
    for cpus in [8, 0] {
        let made = beside_two_that_sort(cpus, ("percentiles", "/srv/batch.py", 7));
        let verdict = judge(&made);
        assert_eq!(verdict.findings[0].cause.text(), "cpu-starved", "{}", to_text(&verdict));
        assert!(verdict.findings[0].culprit.is_none(), "{cpus}: {}", to_text(&verdict));
    }
    // Requests that do the same are in one another's way.
    let made = beside_two_that_sort(2, ("rows", "/srv/app.py", 30));
    assert!(judge(&made).findings[0].culprit.is_none());
}

/// Of 1,000 ms it had no CPU for 45 of every 50 ms, each time in another of so many functions.
fn starved_in(functions: u32) -> Capture {
    let mut made = slow(1000);
    let names = ["load", "check", "render", "send"];
    let at = |i: u32| names[(i % functions) as usize];
    let pauses: Vec<(u64, u64)> = (0..20).map(|i| (i * 50 + 5, i * 50 + 50)).collect();
    also_off(&mut made, OWN, true, &pauses);
    for i in 0..20 {
        let inner = stack(&mut made, &[(at(i), "/srv/app.py", 30)]);
        also_seen(&mut made, OWN, [u64::from(i) * 50 + 3].into_iter(), Running, inner);
    }
    also_off(&mut made, OWN, false, &[(1001, 5000)]);
    made
}

#[test]
fn a_cpu_that_was_missed_everywhere_has_no_place() {
    let place = |functions| {
        let made = starved_in(functions);
        let verdict = judge(&made);
        let starved = verdict.findings.iter().filter(|f| f.cause.text() == "cpu-starved");
        let places: Vec<_> = starved.map(|f| f.place.clone().map(|p| p.function)).collect();
        assert_eq!(places.len(), 1, "no CPU is one matter: {}", to_text(&verdict));
        (places[0].clone(), verdict.findings[0].summary.clone())
    };
    assert_eq!(place(1).0.as_deref(), Some("load"));
    let (none, summary) = place(4);
    assert_eq!(none, None, "{summary}");
    assert!(summary.contains("no CPU was free, wherever they were"), "{summary}");
}

/// Where most of it was lost in a server's code, that is nobody's to change.
#[test]
fn a_cpu_that_was_missed_in_a_servers_code_has_no_place() {
    let mut made = starved_in(1);
    made.meta.site = vec!["/srv".to_owned()];
    let verdict = judge(&made);
    let first = &verdict.findings[0];
    assert_eq!((first.cause.text(), &first.place), ("cpu-starved", &None), "{}", to_text(&verdict));
    assert_eq!(first.confidence, Confidence::Confirmed);
}
