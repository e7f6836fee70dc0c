//! On captures made by hand: what `subprocess` waits behind a fork until the child runs its program
//! is the fork's doing, as long as it takes about as long as the fork did.

use crate::made;

use diagnosis::{diagnose, to_text, Finding};
use format::wait::WaitKind::PipeRead;
use made::{off, request, seen, stack, BEGIN, MS};

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
    let looks: Vec<_> = (104..102 + ms).step_by(40).map(|at| (at, PipeRead, start)).collect();
    seen(&mut made, OWN, &looks);
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
