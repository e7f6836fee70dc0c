//! On captures made by hand: a request puts its work into a queue and waits for an Event, which the
//! one thread sets that works the queue off. Work that the thread had begun before is what the
//! request waits behind; work that it began for the request is the request's own.

use capture::read::Capture;
use diagnosis::{diagnose, Diagnosis};
use format::wait::WaitKind::{Futex, Running};
use made::{also_off, also_seen, off, stack, BEGIN, MS};
use report::to_text;

use crate::made;

const OWN: u32 = 7;
const WORKER: u32 = 9;
const THREADING: &str = "/lib/threading.py";

/// A request waits from 1 to 499 ms. The worker, which waits for work before and behind, computes
/// until 498 ms: from 100 ms before the request came, or from the moment it was asked to.
fn waits(works_before: bool) -> Capture {
    let mut made = made::capture(OWN, &["GET /"]);
    made.meta.stdlib = vec!["/lib".to_owned()];
    made.requests.push(made::request(99, OWN, BEGIN, 500));
    let event = [("view", "/srv/app.py", 12), ("Event.wait", THREADING, 50)];
    let event = stack(&mut made, &[&event[..], &[("Condition.wait", THREADING, 60)]].concat());
    let loops = ("worker", "/srv/app.py", 30);
    let seal = stack(&mut made, &[loops, ("seal", "/srv/app.py", 20)]);
    let get = [loops, ("Queue.get", "/lib/queue.py", 171), ("Condition.wait", THREADING, 60)];
    let get = stack(&mut made, &get);
    off(&mut made, OWN, &[(1, 499)]);
    also_seen(&mut made, OWN, [20, 200, 400].into_iter(), Futex, event);
    let idle_until = if works_before { BEGIN - 100 * MS } else { BEGIN + MS / 2 };
    let rows = made.off_cpu.entry(WORKER).or_default();
    let idle = |out_ns, in_ns| capture::read::OffCpu { out_ns, in_ns, preempted: false, cpu: None };
    rows.push(idle(BEGIN - 9000 * MS, idle_until));
    also_off(&mut made, WORKER, false, &[(498, 9000)]);
    let before = made::sample(WORKER, BEGIN - 8000 * MS, Futex, get);
    made.samples.insert(WORKER, vec![before]);
    also_seen(&mut made, WORKER, (10..490).step_by(40), Running, seal);
    also_seen(&mut made, WORKER, [600].into_iter(), Futex, get);
    made
}

fn judge(made: &Capture) -> Diagnosis<'_> {
    diagnose(made, |_| 300 * MS)
}

fn found(verdict: &Diagnosis<'_>) -> (&'static str, Option<String>, Option<String>) {
    let first = &verdict.findings[0];
    let name = |place: &Option<analysis::frames::Place>| place.clone().map(|p| p.function);
    (first.cause.text(), name(&first.place), name(&first.culprit))
}

#[test]
fn work_that_was_begun_before_the_request_is_in_its_way() {
    let made = waits(true);
    let verdict = judge(&made);
    let wanted = ("pool-wait", Some("view".to_owned()), Some("seal".to_owned()));
    assert_eq!(found(&verdict), wanted, "{}", to_text(&verdict));
    let words = "for a result; most likely app.py:20 seal()";
    assert!(verdict.findings[0].summary.contains(words), "{}", verdict.findings[0].summary);
}

#[test]
fn work_that_was_begun_for_the_request_is_its_own() {
    let made = waits(false);
    let verdict = judge(&made);
    let (cause, place, _) = found(&verdict);
    assert_eq!((cause, place.as_deref()), ("cpu", Some("seal")), "{}", to_text(&verdict));
}
