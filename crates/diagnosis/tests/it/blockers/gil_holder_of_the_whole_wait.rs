//! The holder of the GIL is the thread that held it for most of a whole wait, by what all samples
//! of that time read, not the holder that the sample of one segment of 5 ms happened to read.

use capture::read::Capture;
use diagnosis::diagnose;
use format::wait::WaitKind::{Gil, Running, SocketRead};
use made::{also_seen, off, request, stack, BEGIN, MS};
use report::to_text;

use crate::made;

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

/// On a crowded machine `WAITER` wakes late and asks again at once: in most samples it is about to
/// ask, or none hit the wait. Two found it asking, at the end. `seen`: what all the others saw.
fn crowded(seen: format::wait::WaitKind, run_ms: u64) -> Capture {
    let mut made = late();
    let reads = made.samples[&WAITER][0].stack;
    let asks: Vec<(u64, u64)> = (0..40).map(|i| (i * 10, i * 10 + 10 - run_ms)).collect();
    off(&mut made, WAITER, &asks);
    off(&mut made, NEXT, &[(0, 9000)]);
    made.samples.remove(&WAITER);
    also_seen(&mut made, WAITER, (5..350).step_by(60), seen, reads);
    also_seen(&mut made, WAITER, [365, 385].into_iter(), Gil, reads);
    for sample in made.samples.get_mut(&WAITER).expect("seen") {
        sample.gil_holder = if sample.wait == Gil { HOLDER } else { 0 };
    }
    made
}

#[test]
fn a_thread_that_does_nothing_but_ask_waited_all_the_while() {
    let cause = |made: &Capture| diagnose(made, |_| 300 * MS).findings[0].cause.text();
    let made = crowded(Running, 0);
    assert_eq!(cause(&made), "gil-wait", "{}", to_text(&diagnose(&made, |_| 300 * MS)));
    // It worked in between, or was seen to wait for something else.
    assert_ne!(cause(&crowded(Running, 4)), "gil-wait");
    assert_ne!(cause(&crowded(SocketRead, 0)), "gil-wait");
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
