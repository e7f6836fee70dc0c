//! The key `explain` of a cause in `dashcam why --json`.

use analysis::frames::Place;
use analysis::timeline::State;
use capture::read::Capture;
use diagnosis::explain::{
    BlockerPart, Candidate, Check, Comparison, Example, Explanation, Fact, Fate, Interval, Subject,
    Threshold,
};
use serde_json::{json, Value};

use crate::json_values::{ms, place, round};

/// An explanation. All lists of objects have the shape that docs/verdict-json.md gives.
pub(crate) fn explained(capture: &Capture, e: &Explanation) -> Value {
    let comparison = |c: &Comparison| compared(capture, c);
    let rule = |(rule, part): &(&str, f64)| json!({"rule": rule, "part": round(*part)});
    let thresholds = e.thresholds();
    json!({
        "requests": e.requests.iter().map(|r| example(capture, r)).collect::<Vec<_>>(),
        "more_requests": e.more_requests,
        "rules": e.rules.iter().map(rule).collect::<Vec<_>>(),
        "blockers": e.blockers.iter().map(|b| blocker(capture, b)).collect::<Vec<_>>(),
        "more_blockers": e.more_blockers,
        "comparisons": e.comparisons.iter().map(comparison).collect::<Vec<_>>(),
        "checks": e.checks.iter().map(check).collect::<Vec<_>>(),
        "thresholds": thresholds.iter().map(threshold).collect::<Vec<_>>(),
    })
}

fn example(capture: &Capture, request: &Example) -> Value {
    let (count, ns) = request.more;
    json!({
        "id": request.id,
        "name": request.name,
        "thread": thread(capture, request.tid),
        "ms": ms(request.ns),
        "intervals": request.intervals.iter().map(|i| interval(capture, i)).collect::<Vec<_>>(),
        "more_intervals": count,
        "more_ms": ms(ns),
    })
}

fn interval(capture: &Capture, interval: &Interval) -> Value {
    let found = interval.blocker.as_ref();
    let comparisons = interval.comparisons.iter().map(|c| compared(capture, c));
    json!({
        "thread": thread(capture, interval.tid),
        "from_ms": ms(interval.from_ns),
        "to_ms": ms(interval.to_ns),
        "state": state(interval.state),
        "wait": interval.wait,
        "resource": interval.resource,
        "where": place(interval.place.as_ref()),
        "rule": interval.rule,
        "blocker": found.map(|(by, tid, at)| named(capture, by.id(), *tid, at.as_ref())),
        "exact": interval.exact,
        "seen": interval.seen,
        "comparisons": comparisons.collect::<Vec<_>>(),
    })
}

fn named(capture: &Capture, by: &str, tid: u32, at: Option<&Place>) -> Value {
    json!({"by": by, "thread": thread(capture, tid), "where": place(at)})
}

fn blocker(capture: &Capture, blocker: &BlockerPart) -> Value {
    json!({
        "by": blocker.named.map(|(by, _)| by.id()),
        "thread": blocker.named.map(|(_, tid)| thread(capture, tid)),
        "where": place(blocker.place.as_ref()),
        "part": round(blocker.part),
    })
}

fn compared(capture: &Capture, c: &Comparison) -> Value {
    json!({
        "by": c.by.id(),
        "waiter": thread(capture, c.waiter),
        "times": c.times,
        "candidates": c.candidates.iter().map(|c| candidate(capture, c)).collect::<Vec<_>>(),
        "more_candidates": c.more,
        "thresholds": c.thresholds.iter().map(threshold).collect::<Vec<_>>(),
    })
}

fn candidate(capture: &Capture, c: &Candidate) -> Value {
    let dropped = match c.fate {
        Fate::Won => None,
        Fate::Dropped(why) => Some(why.id()),
    };
    json!({
        "who": subject(capture, &c.subject),
        "where": place(c.place.as_ref()),
        "evidence": c.evidence.iter().map(fact).collect::<Vec<_>>(),
        "weight": c.weight.map(round),
        "won": c.won,
        "dropped": dropped,
    })
}

fn subject(capture: &Capture, one: &Subject) -> Value {
    match one {
        Subject::Thread(tid) => json!(thread(capture, *tid)),
        Subject::Task(id) => json!(format!("task {id:x}")),
        Subject::Code => json!("code"),
        Subject::Cause(cause) => json!(cause.text()),
        Subject::Nobody => Value::Null,
    }
}

/// `rates (4712)`.
fn thread(capture: &Capture, tid: u32) -> String {
    match capture.thread_name(tid) {
        Some(name) => format!("{name} ({tid})"),
        None => format!("{tid}"),
    }
}

fn fact(fact: &Fact) -> Value {
    let part = |what: &str, value: f64, of: Option<f64>, unit: &str| json!({"what": what, "value": value, "of": of, "unit": unit});
    match fact {
        Fact::Samples(n, of) => part("samples", *n as f64, Some(*of as f64), "count"),
        Fact::Time(ns, of) => part("time", ms(*ns), Some(ms(*of)), "ms"),
        Fact::BeforeEnd(ns) => part("ran-until-before-end", ms(*ns), None, "ms"),
        Fact::Chance(chance) => part("chance", *chance, None, "part"),
        Fact::SharesCode => part("shares-code", 1.0, None, "count"),
        Fact::Releases => part("releases-a-lock", 1.0, None, "count"),
        Fact::Named(by, weight) => part(by.id(), *weight, None, "likelihood-ratio"),
    }
}

fn check(check: &Check) -> Value {
    json!({
        "name": check.threshold.name,
        "limit": check.threshold.value,
        "found": round(check.value),
        "passed": check.passed,
    })
}

fn threshold(t: &Threshold) -> Value {
    json!({"name": t.name, "value": t.value, "unit": t.unit.text()})
}

fn state(state: State) -> &'static str {
    match state {
        State::Run => "run",
        State::Ready => "ready",
        State::Wait => "wait",
        State::Unknown => "unknown",
    }
}
