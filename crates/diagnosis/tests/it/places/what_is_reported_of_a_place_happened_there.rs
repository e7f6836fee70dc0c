//! On captures made by hand: small groups of one cause are joined, and a sentence still reports
//! what happened at the place it names; a wait in a call for which there is no rule is reported by
//! the call.

use capture::read::Capture;
use diagnosis::diagnose;
use format::record::TARGET_IS_NAME;
use format::wait::WaitKind::{Other, SocketRead};
use made::{also_seen, off_row, stack, BEGIN, MS};
use report::to_text;

use crate::made;

/// Each request of 310 ms, on a thread of its own, waits for 300 at a place and for a target of its
/// own.
fn made(requests: &[(&str, &str)], kind: format::wait::WaitKind) -> Capture {
    let mut made = made::capture(7, &["GET /"]);
    for (tid, (function, target)) in (20..).zip(requests) {
        made.requests.push(made::request(u64::from(tid) + 100, tid, BEGIN, 310));
        let at = stack(&mut made, &[("run", "/srv/app.py", 1), (function, "/srv/app.py", tid)]);
        made.off_cpu.insert(tid, vec![off_row(1, 300, false)]);
        also_seen(&mut made, tid, (6..300).step_by(10), kind, at);
        made.names.push((*target).to_owned());
        let word = TARGET_IS_NAME | (made.names.len() as u64 - 1);
        made.samples.get_mut(&tid).into_iter().flatten().for_each(|look| look.target = word);
    }
    made
}

#[test]
fn a_joined_group_reports_the_target_of_its_place() {
    let names: Vec<(String, String)> =
        (0..40).map(|i| (format!("ask_{i}"), format!("tcp 10.0.0.{i}:80"))).collect();
    let pairs: Vec<(&str, &str)> = names.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let made = made(&pairs, SocketRead);
    let verdict = diagnose(&made, |_| 100 * MS);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "downstream-wait", "{}", to_text(&verdict));
    let function = &first.place.as_ref().expect("a place").function;
    let own = pairs.iter().find(|(name, _)| name == function).expect("one of them");
    assert_eq!(first.target().as_deref(), Some(own.1), "{}", to_text(&verdict));
}

#[test]
fn a_call_without_a_rule_is_reported_by_its_name() {
    let made = made(&[("settle", "semtimedop")], Other);
    let verdict = diagnose(&made, |_| 100 * MS);
    let first = &verdict.findings[0];
    assert_eq!(first.cause.text(), "unknown", "{}", to_text(&verdict));
    assert_eq!(first.target().as_deref(), Some("semtimedop"));
    assert!(first.summary.ends_with("settle(), in a system call: semtimedop"), "{}", first.summary);
}
