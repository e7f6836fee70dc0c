//! Where switch records were paused nobody is said to have run, or to have waited for sure.

use crate::made;

use analysis::timeline::{of_thread, State};
use capture::read::{Capture, OffCpu};
use diagnosis::{diagnose, Confidence};
use format::record::Sample;
use format::wait::WaitKind;
use made::{request, stack, MS};

const TID: u32 = 7;

fn asleep(t_ns: u64) -> Sample {
    Sample { wall_ns: 10 * MS, ..made::sample(TID, t_ns, WaitKind::Sleep, 1) }
}

/// A request of 2 ms each second of fifty, switch records but for the time from 30 s to 40 s, and a
/// request of 500 ms at 35 s.
fn capture(sampled: bool) -> Capture {
    let mut made = made::capture(TID, &["GET /"]);
    let state = "on; paused while more than 1000 threads a second are started";
    made.meta.sources = vec![("switches".to_owned(), state.to_owned())];
    made.meta.to_ns = 50_000 * MS;
    stack(&mut made, &[("nap", "/srv/app.py", 4)]);
    made.requests = (0..50).map(|i| request(i + 1, TID, i * 1000 * MS, 2)).collect();
    made.requests.push(request(99, TID, 35_100 * MS, 500));
    made.switches_paused = vec![(30_000 * MS, 40_000 * MS)];
    let idle = |i: u64| {
        let (out_ns, in_ns) = (i * 1000 * MS + 2 * MS, (i + 1) * 1000 * MS);
        OffCpu { out_ns, in_ns: in_ns.min(50_000 * MS), preempted: false, cpu: None }
    };
    let reported = |i: &u64| !(30..40).contains(i);
    made.off_cpu.insert(TID, (0..50).filter(reported).map(idle).collect());
    if sampled {
        made.samples.insert(TID, (0..51).map(|i| asleep(35_100 * MS + i * 10 * MS)).collect());
    }
    made
}

/// (state, exact, milliseconds) of each segment.
fn segments(capture: &Capture, from_ms: u64, to_ms: u64) -> Vec<(State, bool, u64)> {
    let all = of_thread(capture, TID, from_ms * MS, to_ms * MS);
    all.iter().map(|s| (s.state, s.exact, s.ns() / MS)).collect()
}

#[test]
fn a_time_without_records_is_unknown_and_not_running() {
    let capture = capture(false);
    assert_eq!(segments(&capture, 35_100, 35_600), [(State::Unknown, false, 500)]);
    let verdict = diagnose(&capture, |_| 300 * MS);
    assert_eq!(verdict.findings[0].cause.text(), "unknown");
    assert_eq!(verdict.findings[0].confidence, Confidence::Possible);
}

#[test]
fn what_no_sample_saw_is_reported_in_its_request() {
    let mut capture = capture(false);
    // The first name is that of names that found no room.
    capture.names.insert(0, "(refused)".to_owned());
    capture.codes.iter_mut().for_each(|code| (code.function, code.file) = (2, 3));
    capture.requests.iter_mut().for_each(|request| request.name = 1);
    let verdict = diagnose(&capture, |_| 300 * MS);
    assert_eq!(verdict.findings[0].request, "GET /");
}

#[test]
fn around_it_times_stay_exact() {
    let capture = capture(false);
    assert_eq!(
        segments(&capture, 28_000, 42_000),
        [
            (State::Run, true, 2),
            (State::Wait, true, 998),
            (State::Run, true, 2),
            (State::Wait, true, 998),
            // Until its first record behind the pause, too.
            (State::Unknown, false, 10_002),
            (State::Wait, true, 998),
            (State::Run, true, 2),
            (State::Wait, true, 998),
        ]
    );
    assert!(capture.has_switches(29_000 * MS, 30_000 * MS));
    assert!(!capture.has_switches(29_000 * MS, 30_001 * MS));
    assert!(capture.has_switches(40_000 * MS, 41_000 * MS));
}

#[test]
fn what_was_sampled_in_it_is_likely_and_the_reason_is_given() {
    let capture = capture(true);
    let verdict = diagnose(&capture, |_| 300 * MS);
    let finding = &verdict.findings[0];
    assert_eq!(finding.cause.text(), "sleep");
    assert_eq!(finding.confidence, Confidence::Likely, "{:?}", finding.missing);
    let reported = finding.missing.iter().any(|m| m.contains("switch records were paused"));
    assert!(reported, "{:?}", finding.missing);
}
