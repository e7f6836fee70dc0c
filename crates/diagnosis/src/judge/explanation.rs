//! Picks what explains a finding: example requests, their longest intervals, and what was compared
//! about these.
//!
//! How it works: a finding's group has its intervals. The requests with most of it are examples;
//! each is judged once more with the trace on, and the comparisons that this yields are put to the
//! interval that they are about. Comparisons of one kind for waits on one another are summed up: a
//! wait for the GIL is hundreds of them.

use std::collections::BTreeMap;

use analysis::frames::Place;
use analysis::readable::is_under_a_percent;
use analysis::timeline::overlap_ns;

use super::material::Material;
use crate::claim::Weighed;
use crate::critical_path;
use crate::explain::trace::Trace;
use crate::explain::{
    BlockerPart, Candidate, Check, Comparison, Example, Explanation, Fact, Fate, Inference,
    Interval, BLOCKERS_MAX, CANDIDATES_MAX, EXAMPLES_MAX, INTERVALS_MAX,
};
use crate::groups::{self, Group};

/// Why the group's finding says what it says; None if nobody asked.
pub(crate) fn of(
    judge: &Material<'_, '_>,
    group: &Group<'_>,
    checks: Vec<Check>,
) -> Option<Explanation> {
    if !judge.cx.trace.is_on() {
        return None;
    }
    let mut by_request: BTreeMap<usize, (f64, Vec<&Weighed<'_>>)> = BTreeMap::new();
    for w in &group.slices {
        let own = by_request.entry(w.request).or_default();
        own.0 += w.excess_ns;
        own.1.push(w);
    }
    let mut requests: Vec<(usize, f64, Vec<&Weighed<'_>>)> =
        by_request.into_iter().map(|(index, (ns, slices))| (index, ns, slices)).collect();
    requests.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let more_requests = requests.len().saturating_sub(EXAMPLES_MAX);
    let requests = requests.into_iter().take(EXAMPLES_MAX);
    let (blockers, more_blockers) = blockers(judge, group);
    Some(Explanation {
        requests: requests.map(|(index, _, slices)| example(judge, index, slices)).collect(),
        more_requests,
        rules: rules(group),
        blockers,
        more_blockers,
        comparisons: over_waits(judge, group),
        checks,
    })
}

/// The comparisons over several waits that were about intervals of the group.
fn over_waits(judge: &Material<'_, '_>, group: &Group<'_>) -> Vec<Comparison> {
    let mut found: Vec<Comparison> = Vec::new();
    let own = |c: &Comparison| {
        let is_it = |w: &Weighed<'_>| {
            let s = &w.slice.segment;
            (s.tid, s.from_ns, s.to_ns) == (c.waiter, c.from_ns, c.to_ns)
        };
        group.slices.iter().any(is_it)
    };
    for comparison in judge.cx.trace.of_groups().into_iter().filter(own) {
        match found.iter_mut().find(|known| known.by == comparison.by) {
            Some(known) => add(known, comparison),
            None => found.push(comparison),
        }
    }
    found
}

fn blockers(judge: &Material<'_, '_>, group: &Group<'_>) -> (Vec<BlockerPart>, usize) {
    type Key = (Option<(Inference, u32)>, Option<Place>);
    let mut sums: BTreeMap<Key, f64> = BTreeMap::new();
    for w in &group.slices {
        let culprit = w.slice.claim.blocker;
        let place = culprit.and_then(|c| judge.cx.frames.innermost(c.stack));
        let key = (culprit.map(|c| (c.by, c.tid)), place);
        *sums.entry(key).or_default() += w.excess_ns;
    }
    if sums.keys().all(|(named, _)| named.is_none()) {
        return (Vec::new(), 0);
    }
    let all = group.excess_ns().max(1.0);
    let blocker = |((named, place), ns): (Key, f64)| BlockerPart { named, place, part: ns / all };
    let mut found: Vec<BlockerPart> = sums.into_iter().map(blocker).collect();
    found.sort_by(|a, b| b.part.total_cmp(&a.part));
    let small = |b: &BlockerPart| is_under_a_percent(b.part);
    let shown = found.iter().take_while(|b| !small(b)).count().clamp(1, BLOCKERS_MAX);
    let more = found.len() - shown;
    found.truncate(shown);
    (found, more)
}

fn example(judge: &Material<'_, '_>, index: usize, mut slices: Vec<&Weighed<'_>>) -> Example {
    let request = &judge.requests.slow[index];
    let begin_ns = request.row.begin_ns;
    slices.sort_by_key(|w| (w.slice.segment.from_ns, w.slice.segment.tid));
    let mut intervals: Vec<Interval> = Vec::new();
    for w in slices {
        let next = interval(judge, w);
        match intervals.last_mut() {
            Some(last) if is_one(last, &next) => last.to_ns = next.to_ns,
            _ => intervals.push(next),
        }
    }
    let ns = |i: &Interval| i.to_ns - i.from_ns;
    intervals.sort_by_key(|i| (std::cmp::Reverse(ns(i)), i.from_ns));
    let all: u64 = intervals.iter().map(ns).sum();
    let small = |i: &Interval| is_under_a_percent(ns(i) as f64 / all.max(1) as f64);
    let shown = intervals.iter().take_while(|i| !small(i)).count().min(INTERVALS_MAX);
    let left = intervals.split_off(shown);
    let more = (left.len(), left.iter().map(ns).sum());
    intervals.sort_by_key(|i| i.from_ns);
    let windows = intervals.iter().map(|i| (i.from_ns, i.to_ns)).collect();
    let trace: &Trace = &judge.cx.trace;
    let found = trace.during(windows, || drop(critical_path::of_request(judge.cx, request)));
    for comparison in found {
        let about = (comparison.from_ns, comparison.to_ns);
        let overlap = |i: &Interval| overlap_ns((i.from_ns, i.to_ns), about);
        if let Some(interval) = intervals.iter_mut().max_by_key(|i| overlap(i)) {
            let mut known = interval.comparisons.iter_mut();
            let is_kind = |c: &Comparison| (c.by, c.waiter) == (comparison.by, comparison.waiter);
            match known.find(|c| is_kind(c)) {
                Some(known) => add(known, comparison),
                None => interval.comparisons.push(comparison),
            }
        }
    }
    for interval in &mut intervals {
        interval.from_ns = interval.from_ns.saturating_sub(begin_ns);
        interval.to_ns = interval.to_ns.saturating_sub(begin_ns);
    }
    let name = judge.cx.capture.name(request.row.name).to_owned();
    let (id, tid, ns) = (request.row.id, request.row.tid, request.ns());
    Example { id, name, tid, ns, intervals, more }
}

/// Of a claimed segment, on the capture's clock.
fn interval(judge: &Material<'_, '_>, w: &Weighed<'_>) -> Interval {
    let (segment, claim) = (&w.slice.segment, &w.slice.claim);
    let place = |stack| judge.cx.frames.innermost(stack);
    let own = segment.sample.and_then(|s| judge.cx.target(s));
    Interval {
        tid: segment.tid,
        from_ns: segment.from_ns,
        to_ns: segment.to_ns,
        state: segment.state,
        wait: segment.wait().text(),
        resource: claim.resource.as_ref().map(ToString::to_string).or(own),
        place: groups::place_of(judge.cx, w).or_else(|| place(segment.stack())),
        rule: claim.rule,
        blocker: claim.blocker.map(|c| (c.by, c.tid, place(c.stack))),
        exact: w.slice.is_exact(),
        seen: claim.seen,
        comparisons: Vec::new(),
    }
}

/// The rules that claimed a group's intervals, with their parts of its excess.
fn rules(group: &Group<'_>) -> Vec<(&'static str, f64)> {
    let mut sums: BTreeMap<&'static str, f64> = BTreeMap::new();
    for w in &group.slices {
        *sums.entry(w.slice.claim.rule).or_default() += w.excess_ns;
    }
    let all = group.excess_ns().max(1.0);
    let mut rules: Vec<_> = sums.into_iter().map(|(rule, ns)| (rule, ns / all)).collect();
    rules.sort_by(|a, b| b.1.total_cmp(&a.1));
    rules
}

/// Whether the second goes on where the first ends, with nothing new about it.
fn is_one(first: &Interval, next: &Interval) -> bool {
    let what = |i: &Interval| (i.tid, i.state, i.wait, i.rule, i.exact, i.blocker.clone());
    let same = what(first) == what(next) && first.place == next.place;
    same && first.to_ns == next.from_ns && first.resource == next.resource
}

/// Sums a comparison up with others of its kind.
fn add(known: &mut Comparison, other: Comparison) {
    known.times += other.times;
    known.from_ns = known.from_ns.min(other.from_ns);
    known.to_ns = known.to_ns.max(other.to_ns);
    for candidate in other.candidates {
        match known
            .candidates
            .iter_mut()
            .find(|c| c.subject == candidate.subject && same_place(c, &candidate))
        {
            Some(same) => {
                same.won += candidate.won;
                let weights = same.weight.into_iter().chain(candidate.weight);
                same.weight = weights.reduce(f64::max);
                if candidate.fate == Fate::Won {
                    same.fate = Fate::Won;
                }
                for fact in candidate.evidence {
                    add_fact(&mut same.evidence, fact);
                }
                let part = |fact: &Fact| match *fact {
                    Fact::Samples(n, of) | Fact::Time(n, of) if of > 0 => {
                        Some(n as f64 / of as f64)
                    }
                    _ => None,
                };
                same.weight = same.evidence.iter().find_map(part).or(same.weight);
            }
            None => known.candidates.push(candidate),
        }
    }
    known.candidates.sort_by_key(|c| std::cmp::Reverse(c.won));
    known.more = known.more.max(other.more) + known.candidates.len().saturating_sub(CANDIDATES_MAX);
    known.candidates.truncate(CANDIDATES_MAX);
    for threshold in other.thresholds {
        if !known.thresholds.contains(&threshold) {
            known.thresholds.push(threshold);
        }
    }
}

fn same_place(a: &Candidate, b: &Candidate) -> bool {
    let function = |c: &Candidate| c.place.as_ref().map(Place::in_function);
    function(a) == function(b)
}

fn add_fact(known: &mut Vec<Fact>, fact: Fact) {
    for same in known.iter_mut() {
        match (same, fact) {
            (Fact::Samples(n, of), Fact::Samples(m, all))
            | (Fact::Time(n, of), Fact::Time(m, all)) => {
                (*n, *of) = (*n + m, *of + all);
                return;
            }
            (Fact::BeforeEnd(ns), Fact::BeforeEnd(other)) => {
                *ns = (*ns).min(other);
                return;
            }
            (same, fact) if *same == fact => return,
            _ => {}
        }
    }
    known.push(fact);
}
