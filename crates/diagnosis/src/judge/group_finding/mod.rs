//! The finding that a group of slices becomes.
//!
//! How it works: what the group's requests are (`requests`), what its sentence is made from
//! (`described`), and the numbers beside that (`evidence`).

mod described;
mod evidence;
mod requests;

use analysis::frames::Place;
use analysis::thresholds;

use super::material::Material;
use crate::causes;
use crate::causes::rule::{Counted, Repeats};
use crate::claim::Weighed;
use crate::finding::{Confidence, Finding};
use crate::groups::{unattributed, Group};
use crate::judge::{confidence, explanation};
use crate::reported::{callers, library, repeats, unexplained};
use described::{described, mean_ns, Own};
use evidence::evidence;
use requests::{alone, ended, normals_with, shown_request, slow_with, OfSlow};

/// Other places in the report of a finding.
const ELSEWHERE_MAX: usize = 3;

pub(crate) fn of(judge: &Material<'_, '_>, mut group: Group<'_>) -> Option<Finding> {
    let share = group.excess_ns() / judge.excess.max(1.0);
    if share < thresholds::reported_part() {
        return None;
    }
    group.place = group.place.filter(|place| !place.is_nameless());
    let slow = slow_with(judge, &group, share);
    let repeats = repeats(judge, &group, &slow);
    name_place(judge, &mut group, repeats.as_ref());
    let group = &group;
    let whole = ended(judge, &slow);
    let mean_ns = mean_ns(group, &whole);
    let normal_requests = normals_with(judge, group, mean_ns);
    let library = library::of_group(judge.cx, group);
    let own = Own::of(judge, group, library.as_ref(), repeats);
    let described = described(judge, group, &own, (&slow, &whole), mean_ns);
    let row = causes::row(group.cause);
    let sure = sure(judge, group, (share, normal_requests), &slow);
    let of_slow = OfSlow::new(judge, &slow);
    let heaviest = heaviest(judge, group);
    let waiter = waiter(judge, group);
    let elsewhere = elsewhere(judge, group);
    let passed_in = passed_in(judge, group);
    let caller = callers::of_group(judge.cx, group, library.as_ref(), own.repeats.as_ref());
    let (request, on_loop) = shown_request(judge, group, heaviest);
    let evidence = evidence(judge, group, mean_ns, own.repeats.as_ref(), &elsewhere, &passed_in);
    Some(Finding {
        cause: group.cause,
        share: share.min(1.0),
        confidence: sure.level,
        fingerprint: fingerprint(group),
        slow_requests: slow.len(),
        normal_requests,
        summary: summary(
            in_call(judge, group, (row.sentence)(&described), own.repeats.as_ref()),
            &waiter,
            (&library, &caller),
        ),
        place: group.place.clone(),
        path: path(judge, group, heaviest, waiter.as_ref()),
        // What another thread did is that thread's doing.
        culprit: match &waiter {
            Some(_) => group.culprit.clone().or_else(|| group.place.clone()),
            None => caller.or_else(|| group.culprit.clone()),
        },
        advice: match &own.repeats {
            Some(_) => repeats::ADVICE,
            None => (row.advice)(&described),
        },
        called_by_request: !(on_loop && causes::is_in_everybodys_way(group.cause)),
        request,
        evidence,
        passed_in,
        resource: own.resource,
        elsewhere,
        missing: sure.missing,
        threads: of_slow.threads,
        seen_ns: of_slow.seen_ns,
        trace_is_known: of_slow.trace_is_known,
        explanation: explanation::of(judge, group, sure.checks),
        trace_ids: of_slow.trace_ids,
    })
}

/// Names the group's place where what it claimed is not what is to blame.
fn name_place(judge: &Material<'_, '_>, group: &mut Group<'_>, repeats: Option<&Repeats>) {
    if let Some(repeats) = repeats {
        // The code that loops is to blame, not the library that was called.
        group.place = Some(repeats.place.clone());
    } else if group.is_nowhere(judge.cx) && group.culprit.is_some() {
        group.place.clone_from(&group.culprit);
    }
}

/// How sure the finding is; less where no request of the name is normal.
fn sure(
    judge: &Material<'_, '_>,
    group: &Group<'_>,
    (share, normal_requests): (f64, usize),
    slow: &[usize],
) -> confidence::Sure {
    let mut sure = confidence::of(judge, group, share, slow.len(), normal_requests);
    if let Some(alone) = alone(judge, slow) {
        sure.level = sure.level.min(Confidence::Likely);
        sure.missing.push(alone);
    }
    sure
}

/// The slice at the group's place that costs most, of those whose code was seen.
fn heaviest<'g, 'c>(judge: &Material<'_, '_>, group: &'g Group<'c>) -> Option<&'g Weighed<'c>> {
    let seen = group.at_place(judge.cx).into_iter().filter(|w| w.slice.claim.stack != 0);
    seen.max_by(|a, b| a.excess_ns.total_cmp(&b.excess_ns))
}

/// The functions that led to the place.
fn path(
    judge: &Material<'_, '_>,
    group: &Group<'_>,
    heaviest: Option<&Weighed<'_>>,
    waiter: Option<&(Place, Vec<String>)>,
) -> Vec<String> {
    match (&group.place, heaviest) {
        _ if waiter.is_some() => waiter.map(|w| w.1.clone()).unwrap_or_default(),
        (Some(place), Some(w)) => judge.cx.frames.path(w.slice.claim.stack, place),
        _ => Vec::new(),
    }
}

/// The cause's sentence, with the place that waited, the library's function, or the caller.
fn summary(
    sentence: String,
    waiter: &Option<(Place, Vec<String>)>,
    (library, caller): (&Option<Place>, &Option<Place>),
) -> String {
    match (waiter, library, caller) {
        (Some((place, _)), _, _) => format!("{sentence}; {} waited for that", place.short()),
        (None, Some(library), _) => format!("{sentence}, in {}", library.short()),
        (None, None, Some(caller)) => format!("{sentence}, called by {}", caller.short()),
        _ => sentence,
    }
}

/// The sentence, with the call to another service that it was in, unless it counts such calls.
fn in_call(
    judge: &Material<'_, '_>,
    group: &Group<'_>,
    sentence: String,
    repeats: Option<&Repeats>,
) -> String {
    let counts_spans = repeats.is_some_and(|r| matches!(r.counted, Counted::Spans(_)));
    match judge.calls.of_group(group, &judge.requests.slow) {
        Some(call) if !counts_spans => format!("{sentence}, in \"{call}\""),
        _ => sentence,
    }
}

/// Other places of the group, each with its part of all excess.
fn elsewhere(judge: &Material<'_, '_>, group: &Group<'_>) -> Vec<(Place, f64)> {
    let places = unattributed::other_places(judge.cx, group).into_iter();
    let parts = places.map(|(place, ns)| (place, ns / judge.excess.max(1.0)));
    parts.filter(|p| p.1 >= thresholds::reported_part()).take(ELSEWHERE_MAX).collect()
}

/// The calls that an unexplained group passed in, each with its part in percent.
fn passed_in(judge: &Material<'_, '_>, group: &Group<'_>) -> Vec<(String, f64)> {
    let stacks = unexplained::stacks(judge.cx, group).into_iter();
    stacks.map(|(calls, part)| (calls, (100.0 * part).round())).collect()
}

/// Where the request was while another thread did what the group reports, and how it came
/// there.
fn waiter(judge: &Material<'_, '_>, group: &Group<'_>) -> Option<(Place, Vec<String>)> {
    let waiter = group.heaviest()?.slice.claim.waiter;
    let place = judge.cx.frames.innermost_user(waiter).filter(|_| waiter != 0)?;
    let path = judge.cx.frames.path(waiter, &place);
    Some((place, path))
}

/// What one line called again and again, in most requests that have the group.
fn repeats(judge: &Material<'_, '_>, group: &Group<'_>, slow: &[usize]) -> Option<Repeats> {
    let ids = slow.iter().map(|i| (*i, judge.requests.slow[*i].row.id));
    let ids: Vec<(usize, u64)> = ids.collect();
    repeats::of_group(judge.cx, group, &ids, judge.counts, judge.waits)
}

/// FNV-1a over cause, place and culprit without lines, so that it survives edits elsewhere.
fn fingerprint(group: &Group<'_>) -> String {
    let part = |p: &Option<Place>| {
        p.as_ref().map_or(String::new(), |p| {
            format!("{}:{}", p.file.rsplit('/').next().unwrap_or(""), p.qualified)
        })
    };
    let text = format!("{}|{}|{}", group.cause.text(), part(&group.place), part(&group.culprit));
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
