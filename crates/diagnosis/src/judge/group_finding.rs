//! The finding that a group of slices becomes.

use std::collections::{BTreeMap, HashSet};

use analysis::frames::Place;
use analysis::resource::Resource;
use analysis::thresholds;
use analysis::timeline::State;
use analysis::waits::merged_by_request;
use format::usage::Usage;

use super::material::Material;
use crate::cause::Cause;
use crate::causes;
use crate::causes::rule::{Counted, Described, Repeats, Through};
use crate::claim::Weighed;
use crate::context::Context;
use crate::ended_by::several_waits::inside_during;
use crate::facts::kernel_time;
use crate::finding::{Confidence, Evidence, Finding, Unit};
use crate::groups::weigh::Baseline;
use crate::groups::{blame, unattributed, Group};
use crate::judge::{confidence, explanation};
use crate::reported::{
    callers, library, repeats, retries, running_task, unexplained, waiters, wakeups,
};

/// Other places in the report of a finding.
const ELSEWHERE_MAX: usize = 3;

/// Trace ids in the report of a finding.
const IDS_MAX: usize = 3;

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

/// What the slow requests of a group have.
struct OfSlow {
    /// Their begins, in order.
    seen_ns: Vec<u64>,
    /// The trace ids of the slowest.
    trace_ids: Vec<String>,
    /// The slowest one's came from outside.
    trace_is_known: bool,
    /// Threads that they ran on.
    threads: usize,
}

impl OfSlow {
    fn new(judge: &Material<'_, '_>, slow: &[usize]) -> OfSlow {
        let rows = || slow.iter().map(|i| judge.requests.slow[*i].row);
        let mut seen_ns: Vec<u64> = rows().map(|row| row.begin_ns).collect();
        seen_ns.sort_unstable();
        let traces: Vec<_> = rows().take(IDS_MAX).map(|row| judge.traces.request(row.id)).collect();
        OfSlow {
            seen_ns,
            trace_ids: traces.iter().map(|ids| format!("{:032x}", ids.trace)).collect(),
            trace_is_known: traces.first().is_some_and(|ids| ids.recorded),
            threads: rows().map(|row| row.tid).collect::<HashSet<u32>>().len(),
        }
    }
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

/// The name of the request that the finding shows, and whether it is on an event loop: that of the
/// heaviest slice or, where no stack was seen, of the request that it cost most.
fn shown_request(
    judge: &Material<'_, '_>,
    group: &Group<'_>,
    heaviest: Option<&Weighed<'_>>,
) -> (String, bool) {
    let costliest = || group.slices.iter().max_by(|a, b| a.excess_ns.total_cmp(&b.excess_ns));
    let row = heaviest.or_else(costliest).map(|w| judge.requests.slow[w.request].row);
    let name = judge.cx.capture.name(row.map_or(0, |row| row.name));
    (name.to_owned(), row.is_some_and(|row| row.on_loop))
}

/// Where the request was while another thread did what the group reports, and how it came
/// there.
fn waiter(judge: &Material<'_, '_>, group: &Group<'_>) -> Option<(Place, Vec<String>)> {
    let waiter = group.heaviest()?.slice.claim.waiter;
    let place = judge.cx.frames.innermost_user(waiter).filter(|_| waiter != 0)?;
    let path = judge.cx.frames.path(waiter, &place);
    Some((place, path))
}

/// Requests whose name has no normal one are slow always: nothing was there to compare with,
/// and it may be their nature. Said once there are several of one name, beside normal ones of
/// others.
fn alone(judge: &Material<'_, '_>, slow: &[usize]) -> Option<String> {
    let name = |i: &usize| judge.requests.slow[*i].row.name;
    let own = name(slow.first()?);
    let one = slow.len() >= thresholds::few_requests() && slow.iter().all(|i| name(i) == own);
    let normal = &judge.requests.normal;
    if !one || normal.is_empty() || normal.iter().any(|r| r.row.name == own) {
        return None;
    }
    let text = judge.cx.capture.name(own);
    Some(format!(
        "every {text} was over the limit, none was normal to compare with; if that is its \
         nature, give it a limit of its own: slow=\"..., {text}>LIMIT\""
    ))
}

/// What one line called again and again, in most requests that have the group.
fn repeats(judge: &Material<'_, '_>, group: &Group<'_>, slow: &[usize]) -> Option<Repeats> {
    let ids = slow.iter().map(|i| (*i, judge.requests.slow[*i].row.id));
    let ids: Vec<(usize, u64)> = ids.collect();
    repeats::of_group(judge.cx, group, &ids, judge.counts, judge.waits)
}

/// Slow requests of which the group takes a tenth of the excess or more; of a group that is
/// less than a fifth of everything, those of which it takes half as much as of everything.
fn slow_with(judge: &Material<'_, '_>, group: &Group<'_>, share: f64) -> Vec<usize> {
    let least = (share / 2.0).min(thresholds::small_part());
    let mut sums = vec![0.0; judge.requests.slow.len()];
    group.slices.iter().for_each(|p| sums[p.request] += p.excess_ns);
    let enough = |i: &usize| {
        let request = &judge.requests.slow[*i];
        let typical = judge.requests.typical_of(request.row.name);
        sums[*i] > least * request.ns().saturating_sub(typical) as f64
    };
    (0..sums.len()).filter(enough).collect()
}

/// Those of them whose end is known: of a request that still ran only a part is in the capture, and
/// is no measure of it. All where none had ended.
fn ended(judge: &Material<'_, '_>, slow: &[usize]) -> Vec<usize> {
    let ended = |i: &&usize| judge.requests.slow[**i].row.end_ns.is_some();
    let ended: Vec<usize> = slow.iter().filter(ended).copied().collect();
    if ended.is_empty() {
        slow.to_vec()
    } else {
        ended
    }
}

/// Control requests that spend at least a quarter as long on the same cause and place.
fn normals_with(judge: &Material<'_, '_>, group: &Group<'_>, mean_ns: f64) -> usize {
    let ns = |spent: &Baseline| spent.get(&group.cause).copied().unwrap_or(0.0);
    judge.spent.iter().filter(|spent| ns(spent) > thresholds::comparable_part() * mean_ns).count()
}

/// What the sentence about a group and the advice are made from.
fn described<'a>(
    judge: &'a Material<'_, '_>,
    group: &'a Group<'_>,
    own: &'a Own,
    (slow, of): (&[usize], &[usize]),
    mean_ns: f64,
) -> Described<'a> {
    let tids = blame::tids(judge.cx, group);
    Described {
        place: group.place.as_ref(),
        is_nowhere: group.is_nowhere(judge.cx),
        task: running_task::named(judge.cx, group),
        culprit: group.culprit.as_ref(),
        culprit_path: &own.culprit_path,
        through: own.through.as_ref(),
        culprit_thread: tids.first().and_then(|tid| judge.cx.capture.thread_name(*tid)),
        culprit_doing: blame::doing(judge.cx, group),
        culprit_threads: tids.len(),
        culprit_is_task: blame::is_task(group),
        culprit_measured: blame::is_measured(group),
        culprit_by_overlap: blame::is_by_overlap(group),
        has_greenlets: judge.cx.frames.has_greenlets(),
        resource: own.resource.as_ref(),
        call: judge.calls.of_group(group, &judge.requests.slow),
        timed_out: blame::timed_out(judge.cx, group),
        waits: blame::waits(judge.cx, group),
        repeats: own.repeats.as_ref(),
        times: retries::waits(group) / slow.len().max(1),
        retried: own.retried.as_ref(),
        mean_ms: mean_ns / 1e6,
        still_going_on: of.iter().all(|i| judge.requests.slow[*i].row.end_ns.is_none()),
        kernel_part: kernel_part(judge, group),
        starved_ms: starved_ns(group, of) / of.len().max(1) as f64 / 1e6,
    }
}

/// What a description of a group refers to.
struct Own {
    culprit_path: Vec<String>,
    through: Option<Through>,
    retried: Option<Place>,
    resource: Option<Resource>,
    repeats: Option<Repeats>,
}

impl Own {
    /// `library`: the line of the program's own that called it, if the place is a library's.
    fn of(
        judge: &Material<'_, '_>,
        group: &Group<'_>,
        library: Option<&Place>,
        repeats: Option<Repeats>,
    ) -> Own {
        let paused = library.or(group.place.as_ref());
        let resource = main_resource(judge.cx, group);
        Own {
            culprit_path: blame::path(judge.cx, group),
            through: blame::through(judge.cx, group, resource.as_ref()),
            retried: paused.and_then(|at| retries::called_between(judge.cx, group, at)),
            resource,
            repeats,
        }
    }
}

fn evidence(
    judge: &Material<'_, '_>,
    group: &Group<'_>,
    mean_ns: f64,
    repeats: Option<&Repeats>,
    elsewhere: &[(Place, f64)],
    passed_in: &[(String, f64)],
) -> Vec<Evidence> {
    let seen = group.slices.iter().filter(|p| p.slice.claim.seen).count();
    let number = |what: &str, value: f64, unit| Evidence { what: what.to_owned(), value, unit };
    let waits = merged_by_request(group.slices.iter().map(Weighed::part));
    let longest = waits.iter().map(|(_, wait)| wait.ns()).max();
    let round = |ns: f64| (ns / 1e4).round() / 100.0;
    let mut out = vec![
        number("mean time in a slow request", round(mean_ns), Unit::Ms),
        number("longest single interval", round(longest.unwrap_or(0) as f64), Unit::Ms),
        number("intervals", group.slices.len() as f64, Unit::Count),
        number("intervals seen by a sample or callback", seen as f64, Unit::Count),
    ];
    let exact = group.slices.iter().filter(|p| p.slice.segment.exact).count();
    if exact > 0 {
        let what = "intervals with exact begin and end from switch records";
        out.push(number(what, exact as f64, Unit::Count));
    }
    let suspended = group.slices.iter().filter(|p| p.slice.claim.suspended).count();
    if suspended > 0 {
        let what = "intervals with exact begin and end from the interpreter";
        out.push(number(what, suspended as f64, Unit::Count));
    }
    if let Some(used) = usage(judge, group) {
        let share = (100.0 * share_of_kernel(used)).round();
        out.push(number(
            "kernel's share of the CPU time around the longest interval",
            share,
            Unit::Percent,
        ));
        out.push(number("page faults then", f64::from(used.faults), Unit::Count));
        out.push(number("storage traffic then", f64::from(used.storage_kib), Unit::KiB));
    }
    for (place, part) in elsewhere {
        let what = format!("part of all excess that was waited at {}", place.short());
        out.push(number(&what, (100.0 * part).round(), Unit::Percent));
    }
    out.extend(wakeups::evidence(judge.cx, group));
    out.extend(waiters::evidence(judge.cx, group));
    let odds = inside_during::evidence(judge.cx, &group.slices);
    out.extend(
        odds.into_iter().flatten().map(|(what, percent)| number(what, percent, Unit::Percent)),
    );
    if let Some(repeats) = repeats {
        let shown = repeats.evidence().into_iter();
        out.extend(shown.map(|(what, times)| number(&what, times as f64, Unit::Count)));
    }
    for (calls, percent) in passed_in {
        out.push(number(&format!("part of it passed in {calls}"), *percent, Unit::Percent));
    }
    if let Some((what, part)) = running_task::evidence(judge.cx, group) {
        out.push(number(&what, (100.0 * part).round(), Unit::Percent));
    }
    if let Some((function, part)) = native_part(judge, group) {
        let what = format!("part of it in native code that the place called, most in {function}");
        out.push(number(&what, (100.0 * part).round(), Unit::Percent));
    }
    out
}

/// What the thread used around the longest interval that it ran in.
fn usage(judge: &Material<'_, '_>, group: &Group<'_>) -> Option<Usage> {
    let ran = group.slices.iter().map(|p| &p.slice.segment).filter(|s| s.state == State::Run);
    let kernel = matches!(group.cause, Cause::Cpu | Cause::DiskIo | Cause::PageFault);
    let used = ran.filter(|_| kernel).max_by_key(|s| s.ns())?;
    kernel_time::usage_around(judge.cx, used)
}

fn share_of_kernel(used: Usage) -> f64 {
    let (kernel, user) = (f64::from(used.system_us), f64::from(used.user_us));
    kernel / (kernel + user).max(1.0)
}

fn kernel_part(judge: &Material<'_, '_>, group: &Group<'_>) -> Option<f64> {
    usage(judge, group).map(share_of_kernel)
}

/// The native function that most of a group's time in native code under Python was spent in,
/// `sqlite3_step (libsqlite3.so.0)`, and the part of the group's time that any took. None when
/// hardly any was seen.
fn native_part(judge: &Material<'_, '_>, group: &Group<'_>) -> Option<(String, f64)> {
    let mut sums: std::collections::BTreeMap<String, u64> = Default::default();
    let (mut native, mut all) = (0u64, 0u64);
    for w in &group.slices {
        let ns = w.slice.segment.ns();
        all += ns;
        if let Some(frame) = judge.cx.frames.native(w.slice.segment.stack()) {
            native += ns;
            let base = frame.file.rsplit('/').next().unwrap_or(frame.file);
            *sums.entry(format!("{} ({base})", frame.function)).or_default() += ns;
        }
    }
    let part = native as f64 / all.max(1) as f64;
    let most = sums.into_iter().max_by_key(|(_, ns)| *ns)?.0;
    (part >= thresholds::small_part()).then_some((most, part))
}

/// Of the requests `of`, which are in order.
fn mean_ns(group: &Group<'_>, of: &[usize]) -> f64 {
    let own = group.slices.iter().filter(|p| of.binary_search(&p.request).is_ok());
    own.map(|p| p.slice.segment.ns() as f64).sum::<f64>() / of.len().max(1) as f64
}

/// Time without a CPU that counts as the group's work.
fn starved_ns(group: &Group<'_>, of: &[usize]) -> f64 {
    let own = group.slices.iter().filter(|p| of.binary_search(&p.request).is_ok());
    let ready = own.filter(|p| p.slice.segment.state == State::Ready);
    ready.map(|p| p.slice.segment.ns() as f64).sum()
}

/// What most of the group's time was spent on that is known of it.
fn main_resource(cx: &Context<'_>, group: &Group<'_>) -> Option<Resource> {
    // By their words, so that of two that took as long it is always the same.
    let mut sums: BTreeMap<String, (&Resource, f64)> = BTreeMap::new();
    for w in group.at_place(cx) {
        if let Some(resource) = &w.slice.claim.resource {
            sums.entry(resource.to_string()).or_insert((resource, 0.0)).1 += w.excess_ns;
        }
    }
    if group.cause == Cause::Import {
        return causes::python::import::modules(sums, group.excess_ns());
    }
    let most = sums.into_values().max_by(|a, b| a.1.total_cmp(&b.1));
    most.map(|(resource, _)| resource.clone())
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
