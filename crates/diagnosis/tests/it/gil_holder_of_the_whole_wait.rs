//! The holder of the GIL is the thread that held it for most of a whole wait, by what all samples
//! of that time read, not the holder that the sample of one segment of 5 ms happened to read.

use crate::made;

use capture::read::Capture;
use diagnosis::{diagnose, to_text};
use format::wait::WaitKind::{Gil, Running, SocketRead};
use made::{also_seen, off, request, stack, BEGIN, MS};

const OWN: u32 = 7;
const WAITER: u32 = 8;
const HOLDER: u32 = 9;
const NEXT: u32 = 10;

/// A request that is taken up after 400 ms, in which `WAITER` asks for the GIL every 5 ms, and
/// `HOLDER` has it; the last sample reads `NEXT`, which gets it then.
fn late() -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    let mut slow = request(99, OWN, BEGIN, 402);
    slow.started_ns = BEGIN + 400 * MS;
    made.requests.push(slow);
    let reads = stack(&mut made, &[("read", "/srv/web.py", 3)]);
    let crunch = stack(&mut made, &[("crunch", "/srv/jobs.py", 8)]);
    let asks: Vec<(u64, u64)> = (0..80).map(|i| (i * 5, i * 5 + 5)).collect();
    off(&mut made, WAITER, &asks);
    off(&mut made, NEXT, &asks);
    off(&mut made, OWN, &[(0, 400)]);
    off(&mut made, HOLDER, &[(401, 9000)]);
    also_seen(&mut made, WAITER, (3..399).step_by(20).chain([398]), Gil, reads);
    also_seen(&mut made, NEXT, [398].into_iter(), SocketRead, reads);
    also_seen(&mut made, HOLDER, (3..400).step_by(20), Running, crunch);
    for sample in made.samples.get_mut(&WAITER).expect("seen") {
        let last = sample.t_ns == BEGIN + 398 * MS;
        sample.gil_holder = if last { NEXT } else { HOLDER };
    }
    made
}

#[test]
fn of_a_request_that_waits_for_the_gil_to_be_taken_up_it_is_who_held_it_longest() {
    let made = late();
    let verdict = diagnose(&made, |_| 300 * MS);
    let first = verdict.findings.first().expect("a finding");
    assert_eq!(first.cause.text(), "gil-wait", "{}", to_text(&verdict));
    let culprit = first.culprit.as_ref().expect("a culprit");
    assert_eq!(culprit.function, "crunch", "{}", to_text(&verdict));
}

#[test]
fn one_reading_at_the_hand_over_says_nothing_of_segments_without_a_sample() {
    let mut made = late();
    // The request itself waits so: its samples are rare, and the last one reads the next holder.
    let slow = made.requests.last_mut().expect("the slow one");
    slow.started_ns = slow.begin_ns;
    let view = stack(&mut made, &[("view", "/srv/app.py", 12)]);
    let asks: Vec<(u64, u64)> = (0..80).map(|i| (i * 5, i * 5 + 5)).collect();
    off(&mut made, OWN, &asks);
    also_seen(&mut made, OWN, [2, 398].into_iter(), Gil, view);
    for sample in made.samples.get_mut(&OWN).expect("seen") {
        sample.gil_holder = NEXT;
    }
    let verdict = diagnose(&made, |_| 300 * MS);
    let first = verdict.findings.first().expect("a finding");
    assert_eq!(first.cause.text(), "gil-wait", "{}", to_text(&verdict));
    let culprit = first.culprit.as_ref().expect("a culprit");
    assert_eq!(culprit.function, "crunch", "{}", to_text(&verdict));
}
