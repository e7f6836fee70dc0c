//! The weight of each slice of a slow request: its part of the request's *excess*.
//!
//! How it works: what normal requests of the same name spend on the same cause is subtracted first,
//! and a request's weights never sum to more than its excess.

use std::collections::BTreeMap;

use analysis::requests::{Judged, Requests};
use analysis::timeline::{self, overlap_ns, State};
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::claim::{Claim, Slice, Weighed};
use crate::context::Context;
use crate::groups::head_of_line;
use crate::{causes, critical_path};

/// Time per cause, ns: of one request, or the mean of some.
pub type Baseline = BTreeMap<Cause, f64>;

/// What each of these spends by cause.
pub fn by_cause(cx: &Context<'_>, requests: &[Judged<'_>]) -> Vec<Baseline> {
    let of = |request: &Judged<'_>| {
        let mut sums = Baseline::new();
        for slice in critical_path::of_request(cx, request) {
            *sums.entry(slice.claim.cause).or_default() += slice.segment.ns() as f64;
        }
        sums
    };
    requests.iter().map(of).collect()
}

/// What they spend in the mean.
pub fn baseline(all: &[Baseline]) -> Baseline {
    let mut sums = Baseline::new();
    for (cause, ns) in all.iter().flatten() {
        *sums.entry(*cause).or_default() += ns;
    }
    sums.values_mut().for_each(|sum| *sum /= all.len().max(1) as f64);
    sums
}

/// Weighs the claimed segments of every slow request.
pub fn weigh<'c>(
    cx: &Context<'c>,
    requests: &Requests<'c>,
    baseline: &Baseline,
) -> Vec<Weighed<'c>> {
    let mut out = Vec::new();
    for (index, request) in requests.slow.iter().enumerate() {
        let mut slices = critical_path::of_request(cx, request);
        for slice in &mut slices {
            join_sibling(cx, requests, request, slice);
            head_of_line::join_head(cx, requests, request, slice);
        }
        let excess = request.ns().saturating_sub(requests.typical_of(request.row.name)) as f64;
        // In order: a sum of fractions depends on it, and the same capture has the same verdict.
        let mut totals: BTreeMap<Cause, f64> = BTreeMap::new();
        for slice in &slices {
            *totals.entry(slice.claim.cause).or_default() += slice.segment.ns() as f64;
        }
        let unseen = unseen_part(baseline, totals.get(&Cause::Unknown).copied().unwrap_or(0.0));
        let above = |cause: &Cause| {
            let usual = baseline.get(cause).copied().unwrap_or(0.0);
            let unseen = if may_be_unseen(*cause) { usual * unseen } else { 0.0 };
            (totals[cause] - usual - unseen).max(0.0)
        };
        let sum: f64 = totals.keys().map(above).sum();
        let scale = if sum > excess { excess / sum } else { 1.0 };
        let factor: BTreeMap<Cause, f64> = totals
            .keys()
            .map(|c| (*c, if totals[c] > 0.0 { above(c) / totals[c] * scale } else { 0.0 }))
            .collect();
        out.extend(slices.into_iter().map(|slice| Weighed {
            request: index,
            excess_ns: slice.segment.ns() as f64 * factor[&slice.claim.cause],
            slice,
        }));
    }
    out
}

/// Normal requests are sampled less than slow ones: what no sample saw of their waits is taken to
/// be like what was seen, and at most as much again. The part by which their known waits are longer
/// than they seem, for a slow request of which `unknown` ns are not known.
fn unseen_part(baseline: &Baseline, unknown: f64) -> f64 {
    let usual = baseline.get(&Cause::Unknown).copied().unwrap_or(0.0);
    let known = baseline.iter().filter(|(cause, _)| may_be_unseen(**cause));
    let known: f64 = known.map(|(_, ns)| ns).sum();
    if known > 0.0 {
        ((usual - unknown).max(0.0) / known).min(1.0)
    } else {
        0.0
    }
}

/// Whether time of this cause is known from samples only: a wait.
fn may_be_unseen(cause: Cause) -> bool {
    use Cause::{Cpu, CpuStarved, CpuThrottled, GcPause, GilWait, Recorder, Stopped, Unknown};
    !matches!(
        cause,
        Cpu | CpuStarved | CpuThrottled | GcPause | GilWait | Recorder | Stopped | Unknown
    )
}

/// A request that waited for the GIL while a slow request of the same name kept it is a victim of
/// the other's work: one event with many victims, reported once, as what the other did. A holder
/// that is no such request (a background thread, another route) is the culprit of a gil-wait. If a
/// holder itself waited for a lock for most of the time, in C code that keeps the GIL, it did not
/// delay the others by its own work: all wait for that lock then. A holder that waits for a page
/// keeps the GIL, too: what it did is what took most of its time.
fn join_sibling(
    cx: &Context<'_>,
    requests: &Requests<'_>,
    own: &Judged<'_>,
    slice: &mut Slice<'_>,
) {
    let Some(culprit) = slice.claim.blocker.filter(|_| slice.claim.cause == Cause::GilWait) else {
        return;
    };
    let (from, to) = slice.segment.times();
    let timeline = cx.timeline(culprit.tid, from, to);
    let locked = timeline.iter().filter(|s| s.state == State::Wait && s.wait() == WaitKind::Futex);
    if locked.clone().map(timeline::Segment::ns).sum::<u64>() * 2 > to - from {
        let claim = locked.max_by_key(|s| s.ns()).map(|s| causes::claim(cx, s));
        if let Some(claim) = claim.filter(|c| c.cause == Cause::LockWait) {
            slice.claim = Claim { seen: slice.claim.seen, rule: "lock-of-gil-holder", ..claim };
            return;
        }
    }
    let sibling = requests.slow.iter().filter(|r| r.row.name == own.row.name).any(|r| {
        let half = |begin_ns: u64, end_ns: u64| {
            overlap_ns((begin_ns, end_ns), (from, to)) * 2 >= to - from
        };
        // Its own thread, or one that a part of it was handed to.
        let handed = || cx.handed(r.row.id).filter(|t| t.tid == culprit.tid);
        r.row.tid == culprit.tid && half(r.row.started_ns, r.end_ns)
            || handed().any(|t| half(t.begin_ns, t.end_ns))
    });
    if !sibling {
        return;
    }
    type Kind = fn(&&timeline::Segment<'_>) -> bool;
    let runs: Kind = |s| s.state == State::Run;
    let faults: Kind = |s| s.state == State::Wait && s.wait() == WaitKind::Fault;
    let sum_ns = |did: Kind| timeline.iter().filter(did).map(timeline::Segment::ns).sum::<u64>();
    let did = if sum_ns(faults) > sum_ns(runs) { faults } else { runs };
    let longest = timeline.iter().filter(did).max_by_key(|s| s.ns());
    if let Some(claim) = longest.map(|s| causes::claim(cx, s)) {
        let stack = if claim.stack != 0 { claim.stack } else { culprit.stack };
        slice.claim = Claim { stack, seen: slice.claim.seen, rule: "work-of-gil-holder", ..claim };
    }
}
