//! From a capture to a verdict: the requests are divided, their critical paths weighed and grouped,
//! and each group becomes a finding.

pub(crate) mod confidence;
pub(crate) mod explanation;
pub(crate) mod group_finding;
pub(crate) mod material;
mod wanted;

use analysis::requests::{count, Judged, Requests};
use capture::read::{Capture, Traces};

use crate::cause::Cause;
use crate::causes;
use crate::claim::Weighed;
use crate::context::Context;
use crate::explain::trace::Trace;
use crate::finding::{Diagnosis, Finding, Suspect};
use crate::groups::{divide, weigh};
use crate::judge::material::Material;
use crate::order::Order;
use crate::reported::{calls, own_cost, repeats};

use wanted::{CONTROLS_MAX, SLOW_MAX};

pub use wanted::wanted;

/// Most findings reported.
const FINDINGS_MAX: usize = 5;

/// Judges a capture by `limit_ns`, the time a request of that name may take.
pub fn diagnose<'c>(capture: &'c Capture, limit_ns: impl Fn(&str) -> u64) -> Diagnosis<'c> {
    judged(capture, limit_ns, Trace::default(), Order::default())
}

/// The same verdict: for a test that rules and inferences may be asked in any order.
pub fn diagnose_in_order<'c>(
    capture: &'c Capture,
    limit_ns: impl Fn(&str) -> u64,
    order: Order,
) -> Diagnosis<'c> {
    judged(capture, limit_ns, Trace::default(), order)
}

/// The same verdict, and why each finding says what it says. Cost: a few requests of each finding
/// are judged once more.
pub fn diagnose_explained<'c>(
    capture: &'c Capture,
    limit_ns: impl Fn(&str) -> u64,
) -> Diagnosis<'c> {
    judged(capture, limit_ns, Trace::on(), Order::default())
}

fn judged<'c>(
    capture: &'c Capture,
    limit_ns: impl Fn(&str) -> u64,
    trace: Trace,
    order: Order,
) -> Diagnosis<'c> {
    let mut requests = Requests::divide(capture, limit_ns);
    let mut cx = Context::judged(capture, requests.threshold_ns);
    (cx.trace, cx.order) = (trace, order);
    let slow = count(&requests.slow);
    let worst_ns = requests.slow.first().map_or(0, Judged::ns);
    let excess_ns = requests.excess_ns();
    let failures = failures(&requests);
    let failures: Vec<_> = failures.into_iter().map(|(id, n)| (capture.name(id), n)).collect();
    requests.slow.truncate(SLOW_MAX);
    let mut controls = requests.controls(CONTROLS_MAX);
    if let Some(excerpt) = &capture.excerpt {
        // What the others did was not read.
        requests.slow.retain(|r| excerpt.requests.contains(&r.row.id));
        controls.retain(|r| excerpt.requests.contains(&r.row.id));
    }
    let examined = (requests.slow.len(), controls.len());
    let spent = weigh::by_cause(&cx, &controls);
    let baseline = weigh::baseline(&spent);
    let weighed = weigh::weigh(&cx, &requests, &baseline);
    let mut suspects = suspects(&weighed, requests.slow.len());
    suspects.extend(own_cost::mean_ms(&cx, &requests.slow).map(|ms| (Suspect::Dashcam, ms)));
    let groups = divide::divide(&cx, weighed);
    let counts = repeats::Counts::of(capture, &requests.slow, &controls);
    let calls = &calls::Calls::of(capture, &requests.slow);
    let waits = repeats::waits(&cx, &groups);
    let excess: f64 = requests.slow.iter().map(|r| requests.excess_ns_of(r) as f64).sum();
    let traces = Traces::of(capture);
    let (controls, spent, traces) = (&controls[..], &spent[..], &traces);
    let (counts, waits) = (&counts, &waits);
    let (cx, requests) = (&cx, &requests);
    let judge = Material { cx, requests, controls, spent, traces, counts, calls, waits, excess };
    let mut findings: Vec<Finding> =
        groups.into_iter().filter_map(|g| group_finding::of(&judge, g)).collect();
    put_start_behind(&mut findings);
    findings.truncate(FINDINGS_MAX);
    let named = findings.iter().filter(|f| f.cause != Cause::Unknown).map(|f| f.share);
    let unexplained_share = if slow == 0 { 0.0 } else { (1.0 - named.sum::<f64>()).max(0.0) };
    Diagnosis {
        capture,
        total: slow + count(&requests.normal),
        slow,
        threshold_ns: requests.threshold_ns,
        limits_ns: requests.limits_ns,
        typical_ns: (!requests.normal.is_empty()).then_some(requests.typical_ns),
        failed: failures.iter().map(|(_, n)| n).sum(),
        failures,
        endless: requests.endless,
        older: requests.older,
        examined,
        worst_ns,
        excess_ns,
        findings,
        unexplained_share,
        suspects,
    }
}

/// A program starts once. The requests that came before it was ready explain nothing of those that
/// were slow later: they come behind these, if these are more, however long that took.
fn put_start_behind(findings: &mut [Finding]) {
    let starts = |f: &Finding| causes::python::import::is_a_start(f.cause, f.resource.as_ref());
    let Some(at) = findings.iter().position(starts) else { return };
    let start = &findings[at];
    let later = |f: &Finding| {
        let known = f.cause != Cause::Unknown && !starts(f);
        known && f.slow_requests > start.slow_requests && f.seen_ns.first() > start.seen_ns.last()
    };
    if let Some(behind) = findings.iter().rposition(later).filter(|behind| *behind > at) {
        findings[at..=behind].rotate_left(1);
    }
}

/// Failed requests by name id, most first.
fn failures(requests: &Requests<'_>) -> Vec<(u32, usize)> {
    let mut counts: std::collections::BTreeMap<u32, usize> = Default::default();
    for request in requests.slow.iter().chain(&requests.normal).filter(|r| r.row.error) {
        *counts.entry(request.row.name).or_default() += request.row.times as usize;
    }
    let mut counts: Vec<(u32, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    counts
}

/// The causes an operator asks about first, whether found or not.
fn suspects(weighed: &[Weighed<'_>], slow: usize) -> Vec<(Suspect, f64)> {
    let named = [
        (Suspect::RunDelay, Cause::CpuStarved),
        (Suspect::Gc, Cause::GcPause),
        (Suspect::Gil, Cause::GilWait),
        (Suspect::Locks, Cause::LockWait),
    ];
    let ms = |cause: Cause| {
        let own = weighed.iter().filter(|w| w.slice.claim.cause == cause);
        // Not `sum()`, whose empty sum is -0.0 and printed so; `max(0.0)` may leave it.
        let ns = own.map(|w| w.slice.segment.ns() as f64).fold(0.0, |sum, ns| sum + ns);
        ns / 1e6 / slow.max(1) as f64
    };
    named.into_iter().map(|(suspect, cause)| (suspect, ms(cause))).collect()
}
