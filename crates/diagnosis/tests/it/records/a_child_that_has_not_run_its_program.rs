//! On captures made by hand: what `subprocess` waits behind a fork until the child runs its program
//! is the fork's doing, as long as it takes about as long as the fork did; and a wait for a child
//! with a time limit, in which `subprocess` asks again and again, is no pause; nor is a pidfd a
//! peer.

use diagnosis::{diagnose, Finding};
use format::record::TARGET_IS_NAME;
use format::wait::WaitKind::{PipeRead, Poll, Sleep};
use made::{off, request, seen, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;

/// A request that forks for 100 ms, and then reads the pipe of the child for so long.
fn forks_and_waits(ms: u64) -> (Finding, String) {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    let start = [
        ("start", "/srv/runner.py", 27),
        ("Popen.__init__", "/lib/subprocess.py", 1026),
        ("Popen._execute_child", "/lib/subprocess.py", 1914),
    ];
    let start = stack(&mut made, &start);
    made.requests.push(request(99, OWN, BEGIN, 104 + ms));
    off(&mut made, OWN, &[(102, 102 + ms)]);
    let samples: Vec<_> = (104..102 + ms).step_by(40).map(|at| (at, PipeRead, start)).collect();
    seen(&mut made, OWN, &samples);
    made.names.push(format::own_span::FORK.to_owned());
    let name = made.names.len() as u32 - 1;
    made.own_spans.push(made::span(name, OWN, 0, BEGIN + MS, 100));
    let verdict = diagnose(&made, |_| 150 * MS);
    let text = to_text(&verdict);
    (verdict.findings.into_iter().next().expect("a finding"), text)
}

#[test]
fn the_wait_until_the_program_runs_is_part_of_the_fork() {
    let (finding, text) = forks_and_waits(150);
    assert_eq!(finding.cause.text(), "fork", "{text}");
    assert!(finding.share > 0.95, "{text}");
    assert!(text.contains("in fork and waiting for the child to run its program"), "{text}");
    assert_eq!(finding.place.expect("a place").function, "start", "{text}");
}

#[test]
fn a_child_that_takes_much_longer_than_the_fork_is_waited_for() {
    let (finding, text) = forks_and_waits(900);
    assert_eq!(finding.cause.text(), "subprocess-wait", "{text}");
}

#[test]
fn a_wait_with_a_time_limit_is_for_the_child_though_it_sleeps_between_questions() {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    let wait = [
        ("convert", "/srv/runner.py", 15),
        ("Popen.wait", "/lib/subprocess.py", 1264),
        ("Popen._wait", "/lib/subprocess.py", 2042),
    ];
    let wait = stack(&mut made, &wait);
    made.requests.push(request(99, OWN, BEGIN, 502));
    off(&mut made, OWN, &[(0, 200), (201, 350), (351, 500)]);
    seen(&mut made, OWN, &[(50, Sleep, wait), (250, Sleep, wait), (400, Sleep, wait)]);
    let verdict = diagnose(&made, |_| 150 * MS);
    let text = to_text(&verdict);
    assert_eq!(verdict.findings[0].cause.text(), "subprocess-wait", "{text}");
    assert_eq!(verdict.findings.len(), 1, "{text}");
}

#[test]
fn a_pidfd_that_is_polled_is_a_child_and_no_peer() {
    for (target, named) in [("child process sleep", true), ("anon_inode:[pidfd]", false)] {
        let mut made = made::capture(OWN, &["GET /", target]);
        let library = "/usr/lib/python3.11/site-packages/psutil/_psposix.py";
        let wait = [("scan", "/srv/runner.py", 10), ("wait_pid_pidfd_open", library, 90)];
        let wait = stack(&mut made, &wait);
        made.requests.push(request(99, OWN, BEGIN, 502));
        off(&mut made, OWN, &[(0, 500)]);
        seen(&mut made, OWN, &[(50, Poll, wait), (250, Poll, wait), (400, Poll, wait)]);
        let samples = made.samples.get_mut(&OWN).into_iter().flatten();
        samples.for_each(|look| look.target = TARGET_IS_NAME | 1);
        let verdict = diagnose(&made, |_| 150 * MS);
        let text = to_text(&verdict);
        assert_eq!(verdict.findings[0].cause.text(), "subprocess-wait", "{text}");
        assert_eq!(text.contains("for child process sleep"), named, "{text}");
    }
}
