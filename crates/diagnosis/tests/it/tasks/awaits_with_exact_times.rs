//! On captures made by hand: where the interpreter reported when no code of a request ran, what its
//! task was seen to await then, it awaited for exactly that time.

use capture::read::Capture;
use diagnosis::{diagnose, Confidence, Finding};
use format::record::Await;
use format::suspension::Suspension;
use format::wait::{AwaitKind, WaitKind};
use made::{awaited, BEGIN, MS};
use report::to_text;

use crate::made;

const LOOP: u32 = 7;
const SLOW: [u64; 2] = [900, 901];

/// Two requests of 500 ms that sleep. Samples see each at these times (ms) on line 40, or 50 where
/// `moves`; the interpreter reported these times.
fn capture(sampled: &[u64], moves: &[u64], reported: &[(u64, u64)]) -> Capture {
    let mut made = made::capture(LOOP, &["GET /"]);
    let pair = SLOW.iter().map(|id| made::request(*id, LOOP, BEGIN, 500));
    made.requests.extend(pair);
    made.requests.iter_mut().for_each(|row| row.on_loop = true);
    made::off(&mut made, LOOP, &[(0, 500)]);
    made::also_seen(&mut made, LOOP, (0..500).step_by(50), WaitKind::Poll, 0);
    let sleep = ("sleep", "/usr/lib/python3.11/asyncio/tasks.py", 700);
    let first =
        made::stack(&mut made, &[("view", "/srv/app.py", 20), ("rest", "/srv/app.py", 40), sleep]);
    let next =
        made::stack(&mut made, &[("view", "/srv/app.py", 21), ("nap", "/srv/app.py", 50), sleep]);
    for id in SLOW {
        let sample = |at: &u64| {
            let stack = if moves.contains(at) { next } else { first };
            awaited(*at, id, 4096 + id, AwaitKind::Sleep, stack)
        };
        made.awaits.insert(id, sampled.iter().map(sample).collect::<Vec<Await>>());
        let suspension = |(from, to): &(u64, u64)| Suspension {
            out_ns: BEGIN + from * MS,
            in_ns: BEGIN + to * MS,
            request: id,
        };
        made.suspensions.insert(id, reported.iter().map(suspension).collect());
    }
    made
}

fn judged(made: &Capture) -> (Vec<Finding>, String) {
    let verdict = diagnose(made, |_| 300 * MS);
    let text = to_text(&verdict);
    (verdict.findings, text)
}

#[test]
fn one_sample_in_a_reported_suspension_is_enough_for_a_confirmed_sleep() {
    let (found, text) = judged(&capture(&[250], &[], &[(3, 499)]));
    assert_eq!((found.len(), found[0].cause.text()), (1, "sleep"), "{text}");
    assert_eq!(found[0].confidence, Confidence::Confirmed, "{text}");
    assert!(found[0].share > 0.95, "{text}");
}

#[test]
fn without_a_report_the_same_samples_are_an_estimate() {
    let all: Vec<u64> = (0..500).step_by(25).collect();
    let (found, text) = judged(&capture(&all, &[], &[]));
    assert_eq!(
        (found[0].cause.text(), found[0].confidence),
        ("sleep", Confidence::Likely),
        "{text}"
    );
}

#[test]
fn an_await_ends_where_the_report_says_and_not_between_two_samples() {
    let (found, text) = judged(&capture(&[50, 450], &[450], &[(2, 60), (61, 498)]));
    let place = |finding: &Finding| finding.place.as_ref().map(|p| p.function.clone());
    assert_eq!(
        found.iter().map(place).collect::<Vec<_>>(),
        [Some("nap".into()), Some("rest".into())],
        "{text}"
    );
    assert!((0.86..0.90).contains(&found[0].share), "{} {text}", found[0].share);
}

/// The timer of a limit may be late, but never early.
#[test]
fn an_await_that_ends_a_little_behind_its_limit_was_ended_by_it() {
    let found_of = |until: u64| {
        let mut made = capture(&[100, 300, 480], &[], &[(3, until)]);
        for rows in made.awaits.values_mut() {
            rows.iter_mut().for_each(|row| {
                row.kind = AwaitKind::Event;
                row.timeout_ns = 485 * MS;
            });
        }
        judged(&made).0
    };
    let found = found_of(498);
    let words = "for an Event until its time limit: nobody gave notice";
    assert_eq!(found[0].cause.text(), "deadlock-timeout");
    assert!(found[0].summary.contains(words), "{}", found[0].summary);
    assert!(found[0].advice.starts_with("Find the task or callback"), "{}", found[0].advice);
    assert_eq!(found_of(482)[0].cause.text(), "lock-wait");
}

#[test]
fn samples_that_disagree_in_one_suspension_are_estimates() {
    let (found, text) = judged(&capture(&[50, 450], &[450], &[(2, 498)]));
    assert!(found.iter().all(|finding| finding.confidence < Confidence::Confirmed), "{text}");
}
