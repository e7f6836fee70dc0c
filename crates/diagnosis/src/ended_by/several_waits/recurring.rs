//! The thread that was there each time: it ran just before every one of several waits at a place
//! ended.
//!
//! How it works: at the end of one wait some thread always happens to run, so a thread that shares
//! no code with the waiter is not named for it (`ran_before`). But the chance that a thread was
//! there just before an end is known from how often it came during the wait, and how near to the
//! end; for a thread that was there at the end of every one of several waits these chances are
//! multiplied. The product must be small, and far from what any other thread has. Inferred, so
//! *likely* at most.
//!
//! Without switch records it is not known which thread ran, but samples show about when a thread's
//! *interval* in a function of the program's own ended (`left_place`). The same is then asked of
//! functions, whichever thread was in them: the chance is the time in which the end of the wait and
//! that of the interval may lie, as part of the wait, for each interval there.

use std::collections::{BTreeMap, BTreeSet};

use analysis::frames::{Function, Place};
use analysis::resource::Resource;
use analysis::thresholds::{self, is_part};
use analysis::timeline::{overlap_ns, Segment, State};
use capture::read::{Frame, OffCpu};
use format::wait::WaitKind;

use crate::candidate::OverWaits;
use crate::claim::{Blocker, Weighed};
use crate::compare::Question;
use crate::context::Context;
use crate::ended_by::one_wait::left_place::{self, EndedWait, InFunction};
use crate::explain::{
    Candidate, Dropped, Fact, Fate, Inference, Subject, Threshold, CANDIDATES_MAX,
};
use crate::facts::{threads, waiting};

/// A chance of no more than the first must be left, and the next best's must be so many times
/// larger.
fn records_limits() -> (f64, f64) {
    (thresholds::recurring_chance(), thresholds::recurring_lead())
}

/// Samples say less than records, of which there are more to be mistaken in.
fn exits_limits() -> (f64, f64) {
    (thresholds::exits_chance(), thresholds::exits_lead())
}

/// More ends than these add nothing new.
const ENDS_MAX: usize = 64;

/// A time in which threads waited at the place: from when the first of them to come back had begun
/// to.
#[derive(Clone, Copy)]
struct Ended {
    from_ns: u64,
    to_ns: u64,
}

/// The thread that ended each of the waits of a group, by switch records.
pub(crate) fn by_records(cx: &Context<'_>, slices: &[Weighed<'_>]) -> Option<OverWaits> {
    let asked = !is_of_nobody_here(slices) && !are_estimates(slices);
    asked.then(|| name_by_records(cx, slices)).flatten()
}

/// The function that a thread left at the end of each, by samples.
pub(crate) fn by_exits(cx: &Context<'_>, slices: &[Weighed<'_>]) -> Option<OverWaits> {
    if is_of_nobody_here(slices) {
        return None;
    }
    // By records, a thread that computed all that time ran before the end by chance; samples show
    // that it left the function then.
    let estimates = are_estimates(slices);
    let may = |tid: u32, wait: &EndedWait| estimates || computed(cx, tid, wait);
    let innermost = |tid: u32, wait: &EndedWait| match may(tid, wait) {
        true => left_place::intervals(cx, tid, wait),
        false => Vec::new(),
    };
    let any = |tid: u32, wait: &EndedWait| match may(tid, wait) {
        true => left_place::outer_intervals(cx, tid, wait),
        false => Vec::new(),
    };
    // A thread that calls one function after the other with a lock in hand leaves each of these
    // many times: their caller is known then.
    name_by_exits(cx, slices, innermost).or_else(|| name_by_exits(cx, slices, any))
}

fn is_of_nobody_here(slices: &[Weighed<'_>]) -> bool {
    let elsewhere = |r: &Resource| r.is_of_nobody_here();
    slices.iter().filter_map(|w| w.slice.claim.resource.as_ref()).any(elsewhere)
}

fn are_estimates(slices: &[Weighed<'_>]) -> bool {
    slices.iter().all(|w| !w.slice.segment.exact || is_asked_for_again(w))
}

fn name_by_records(cx: &Context<'_>, slices: &[Weighed<'_>]) -> Option<OverWaits> {
    let waits = slices.iter().map(|w| &w.slice.segment).filter(|s| has_exact_end(s));
    let mut tids: Vec<u32> = waits.clone().map(|s| s.tid).collect();
    tids.sort_unstable();
    tids.dedup();
    let mut ended: Vec<Ended> = waits.filter_map(|s| whole(cx, s)).collect();
    ended.sort_unstable_by_key(|e| e.to_ns);
    let longest_ns = ended.iter().map(|e| e.to_ns - e.from_ns).max().unwrap_or(0);
    ended.retain(|e| is_part(e.to_ns - e.from_ns, thresholds::small_part(), longest_ns));
    let ended = first_of_each(ended, thresholds::sampled_ns(), |e| e.to_ns);
    let found = before_each(cx, &tids, &ended);
    let longest =
        slices.iter().map(|w| &w.slice.segment).filter(|s| has_exact_end(s)).max_by_key(|s| s.ns());
    if let Some(wait) = longest {
        let shown = |tid: &u32| {
            let stack = cx.main_stack(*tid, wait.from_ns, wait.to_ns);
            (Subject::Thread(*tid), cx.frames.innermost(stack))
        };
        keep(cx, (Inference::Recurring, wait), (&found, records_limits()), shown);
    }
    let (chance, tid) = clearly_best(found, records_limits())?;
    let blocker = |w: &Weighed<'_>| {
        if !has_exact_end(&w.slice.segment) {
            return w.slice.claim.blocker;
        }
        let (from, to) = w.slice.segment.times();
        let stack = cx.main_stack(tid, from, to);
        let had = stack != 0 && !threads::is_idle_worker(cx, tid, (from, to), stack);
        had.then(|| Blocker::thread(tid, stack, false, Inference::Recurring))
    };
    let blockers: Vec<Option<Blocker>> = slices.iter().map(blocker).collect();
    let is_it = |b: &Blocker| b.by == Inference::Recurring;
    let any = blockers.iter().flatten().any(is_it);
    any.then(|| OverWaits::weighing(Inference::Recurring, 1.0 / chance, blockers))
}

fn is_asked_for_again(w: &Weighed<'_>) -> bool {
    w.slice.claim.resource.as_ref().is_some_and(Resource::is_asked_for_again)
}

fn has_exact_end(segment: &Segment<'_>) -> bool {
    segment.exact && is_wait(segment)
}

fn is_wait(segment: &Segment<'_>) -> bool {
    segment.state == State::Wait && segment.wait() == WaitKind::Futex
}

/// Whether `tid` ran for most of a wait. Cost: a timeline, of threads that samples saw running
/// then.
fn computed(cx: &Context<'_>, tid: u32, wait: &EndedWait) -> bool {
    let mut samples = cx.samples_in(tid, wait.from, wait.end.1).iter();
    if !samples.any(|s| s.wait == WaitKind::Running) {
        return false;
    }
    let ran_ns = cx.ran_ns(tid, (wait.from, wait.end.1));
    ran_ns * 2 > wait.end.1.saturating_sub(wait.from)
}

/// `exits_of`: of a thread during a wait.
fn name_by_exits(
    cx: &Context<'_>,
    slices: &[Weighed<'_>],
    exits_of: impl Fn(u32, &EndedWait) -> Vec<InFunction>,
) -> Option<OverWaits> {
    let waits = |w: &Weighed<'_>| {
        let own = &w.slice.segment;
        let wait = match is_asked_for_again(w) {
            true => left_place::end_of_asking(cx, own),
            false if is_wait(own) && !waiting::timed_out(cx, own) => left_place::end_of(cx, own),
            false => None,
        };
        Some((own.tid, wait?))
    };
    let ends: Vec<Option<(u32, EndedWait)>> = slices.iter().map(waits).collect();
    let mut all: Vec<(u32, EndedWait)> = ends.iter().flatten().copied().collect();
    all.sort_unstable_by_key(|(tid, wait)| (wait.end.1, wait.from, *tid));
    let waited_ns = |(_, wait): &(u32, EndedWait)| wait.end.1.saturating_sub(wait.from);
    let longest_ns = all.iter().map(waited_ns).max().unwrap_or(0);
    all.retain(|wait| is_part(waited_ns(wait), thresholds::small_part(), longest_ns));
    // A thread that asks again comes late, and may be released by one that asked sooner.
    let apart_ns = if slices.iter().all(is_asked_for_again) {
        thresholds::stale_ns()
    } else {
        thresholds::sampled_ns()
    };
    let first = first_of_each(all, apart_ns, |(_, wait)| wait.end.1);
    let left_at_ends: Vec<LeftAtEnd> =
        first.iter().map(|(tid, wait)| left_at_end(cx, *tid, wait, &exits_of)).collect();
    let found = left_at_each(&left_at_ends);
    if let Some(wait) = slices.iter().map(|w| &w.slice.segment).max_by_key(|s| s.ns()) {
        let shown = |function: &Function| {
            let left = left_at_ends.iter().find_map(|end| end.left.get(function));
            let is_it = |f: &Frame<'_>| f.function == function.0 && f.file == function.1;
            let at = left.and_then(|left| cx.frames.of(left.stack).find(is_it));
            (Subject::Code, at.map(|at| cx.frames.place(&at)))
        };
        keep(cx, (Inference::RecurringExit, wait), (&found, exits_limits()), shown);
    }
    let (chance, function) = clearly_best(found, exits_limits())?;
    let blocker = |wait: Option<(u32, EndedWait)>| {
        // Waits that ended with the first were ended then, or one after the other since.
        let at = wait.map(|(_, wait)| first.partition_point(|(_, f)| f.end.1 <= wait.end.1));
        let left = at.and_then(|at| left_at_ends.get(at.checked_sub(1)?)?.left.get(&function));
        left.map(|left| Blocker::thread(left.tid, left.stack, false, Inference::RecurringExit))
    };
    let blockers = ends.into_iter().map(blocker).collect();
    Some(OverWaits::weighing(Inference::RecurringExit, 1.0 / chance, blockers))
}

/// A wait, by function that a thread left when it ended.
struct LeftAtEnd {
    waited_ns: f64,
    left: BTreeMap<Function, Left>,
}

/// How likely that was by chance, which thread it was, and how many functions that one called had
/// called.
struct Left {
    chance: f64,
    tid: u32,
    stack: u32,
    depth: usize,
}

fn left_at_end(
    cx: &Context<'_>,
    waiter: u32,
    wait: &EndedWait,
    exits_of: &impl Fn(u32, &EndedWait) -> Vec<InFunction>,
) -> LeftAtEnd {
    let mut exits: BTreeMap<Function, Vec<InFunction>> = BTreeMap::new();
    for exit in cx.others(waiter).flat_map(|tid| exits_of(tid, wait)) {
        let function = exit.place.in_function();
        // A thread that waits for a lock itself is released by others.
        if exit.locked {
            continue;
        }
        exits.entry(function).or_default().push(exit);
    }
    let waited_ns = wait.end.1.saturating_sub(wait.from).max(1) as f64;
    let chance = |exits: &[InFunction]| {
        let exit = exits.iter().find(|s| s.ended_with(wait))?;
        let rough_ns = (wait.end.1 - wait.end.0) + exit.gone_ns.saturating_sub(exit.last_ns);
        // Where both left with their requests, it is known how far apart they were.
        let known_ns = |(a, b): (u64, u64)| 2 * a.abs_diff(b).max(thresholds::just_before_ns());
        let may_ns = wait.done_ns.zip(exit.done_ns).map_or(rough_ns, known_ns).min(rough_ns);
        let not_one = (1.0 - may_ns as f64 / waited_ns).max(0.0);
        let is_it = |f: &Frame<'_>| f.function == exit.place.qualified && f.file == exit.place.file;
        let depth = cx.frames.of(exit.stack).take_while(|f| !is_it(f)).count();
        let chance = 1.0 - not_one.powi(exits.len() as i32);
        Some(Left { chance, tid: exit.tid, stack: exit.stack, depth })
    };
    let left = exits.into_iter().filter_map(|(function, s)| Some((function, chance(&s)?)));
    LeftAtEnd { waited_ns, left: left.collect() }
}

/// The functions that a thread left at each end, and how likely that was by chance. Of several that
/// called one another the innermost.
fn left_at_each(ends: &[LeftAtEnd]) -> Vec<(f64, Function)> {
    // An end at which no thread was seen to leave it says nothing, if those waits are a small part
    // of all.
    let all_ns: f64 = ends.iter().map(|end| end.waited_ns).sum();
    let chance = |function: &Function| -> Option<f64> {
        let left = ends.iter().filter_map(|end| Some((end.waited_ns, end.left.get(function)?)));
        let ns: f64 = left.clone().map(|(ns, _)| ns).sum();
        let often = left.clone().count() >= thresholds::repeated()
            && ns >= thresholds::main_part() * all_ns;
        often.then(|| left.map(|(_, left)| left.chance).product())
    };
    let all: BTreeSet<&Function> = ends.iter().flat_map(|end| end.left.keys()).collect();
    let mut found: Vec<(f64, &Function)> =
        all.into_iter().filter_map(|function| Some((chance(function)?, function))).collect();
    // A function that called it in the same thread each time is no other.
    let calls = |outer: &Function, inner: &Function| {
        let both = ends.iter().filter_map(|end| Some((end.left.get(outer)?, end.left.get(inner)?)));
        outer != inner
            && both.clone().count() > 0
            && both
                .clone()
                .all(|(outer, inner)| outer.tid == inner.tid && outer.depth > inner.depth)
    };
    let inner: Vec<&Function> = found.iter().map(|(_, function)| *function).collect();
    found.retain(|(_, function)| !inner.iter().any(|inner| calls(function, inner)));
    found.into_iter().map(|(chance, function)| (chance, function.clone())).collect()
}

/// The function that hardly was left by chance, if that can be said of no other.
fn clearly_best<T: Ord>(mut found: Vec<(f64, T)>, most: (f64, f64)) -> Option<(f64, T)> {
    found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    let mut found = found.into_iter();
    let (best, one) = found.next().filter(|(chance, _)| *chance <= most.0)?;
    found.next().is_none_or(|(next, _)| next >= most.1 * best).then_some((best, one))
}

/// Keeps, if the diagnosis is to be explained, the threads that may have ended the waits of a
/// group, by the chance that each was there by accident.
fn keep<T: Ord + Clone>(
    cx: &Context<'_>,
    about: (Inference, &Segment<'_>),
    (found, most): (&[(f64, T)], (f64, f64)),
    shown: impl Fn(&T) -> (Subject, Option<Place>),
) {
    if !cx.trace.is_on() || found.is_empty() {
        return;
    }
    let won = clearly_best(found.to_vec(), most).map(|(_, one)| one);
    let mut by_chance: Vec<&(f64, T)> = found.iter().collect();
    by_chance.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    let candidate = |(chance, one): &&(f64, T)| {
        let (subject, place) = shown(one);
        let lost = if won.is_some() { Dropped::LessEvidence } else { Dropped::Chance };
        let is_it = won.as_ref() == Some(one);
        let fate = if is_it { Fate::Won } else { Fate::Dropped(lost) };
        let (evidence, weight) = (vec![Fact::Chance(*chance)], Some(1.0 - chance));
        Candidate { subject, place, evidence, weight, fate, won: usize::from(is_it) }
    };
    let candidates = by_chance.iter().take(CANDIDATES_MAX).map(candidate).collect();
    let more = found.len().saturating_sub(CANDIDATES_MAX);
    let (id, wait) = about;
    let thresholds = match id {
        Inference::Recurring => vec![
            Threshold::part("recurring-waker.most-chance", most.0),
            Threshold::count("recurring-waker.least-ends", thresholds::repeated()),
        ],
        _ => vec![
            Threshold::part("recurring-exit.most-chance", most.0),
            Threshold::count("recurring-exit.least-ends", thresholds::repeated()),
        ],
    };
    let comparison = Question::about(id, wait).answered((candidates, more), thresholds);
    cx.trace.put_of_group(comparison);
}

fn whole(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Ended> {
    if waiting::is_still_waiting(cx, segment) || waiting::timed_out(cx, segment) {
        return None;
    }
    segment.sample?;
    let (from_ns, to_ns) = cx.whole_wait(segment).times();
    (from_ns < to_ns).then_some(Ended { from_ns, to_ns })
}

/// The first of the waits that ended together: the others may have been ended by fellow waiters.
/// `all` is in order of `end_ns`.
fn first_of_each<T>(all: Vec<T>, apart_ns: u64, end_ns: impl Fn(&T) -> u64) -> Vec<T> {
    let mut out = Vec::new();
    let mut last_ns: u64 = 0;
    for one in all {
        let ended_ns = end_ns(&one);
        if out.is_empty() || ended_ns > last_ns.saturating_add(apart_ns) {
            out.push(one);
        }
        last_ns = ended_ns;
    }
    out.truncate(ENDS_MAX);
    out
}

/// The threads, none of `waiters`, that ran just before each end, and how likely that was by
/// chance.
fn before_each(cx: &Context<'_>, waiters: &[u32], ended: &[Ended]) -> Vec<(f64, u32)> {
    if ended.len() < thresholds::repeated() {
        return Vec::new();
    }
    let others = cx.threads.iter().copied().filter(|tid| !waiters.contains(tid));
    let chance = |tid: u32| -> Option<f64> {
        ended.iter().try_fold(1.0, |all, end| Some(all * chance_of(cx, tid, *end)?))
    };
    others.filter_map(|tid| Some((chance(tid)?, tid))).collect()
}

/// How likely it was that `tid`, as often as it ran during the wait, ran so shortly before its end
/// by chance; None if it did not run then, or waited for others all that time.
fn chance_of(cx: &Context<'_>, tid: u32, end: Ended) -> Option<f64> {
    let (from, to) = (end.from_ns, end.to_ns);
    if threads::is_parked(cx, tid, from, to) {
        return None;
    }
    let off = cx.off_cpu(tid);
    let during = &off[off.partition_point(|o| o.in_ns <= from)..];
    let during = &during[..during.partition_point(|o| o.out_ns < to)];
    let last = during.last()?;
    // It ran at the end, or so long before.
    let before_ns = if last.in_ns <= to { 0 } else { to - last.out_ns };
    if before_ns > thresholds::just_before_ns() {
        return None;
    }
    let away = |o: &OffCpu| overlap_ns((o.out_ns, o.in_ns), (from, to));
    // A damaged capture may say that it was away twice at once.
    let away_ns = during.iter().map(away).fold(0, u64::saturating_add);
    let ran_ns = (to - from).saturating_sub(away_ns) as f64;
    let near_ns = before_ns.max(thresholds::sampling_cost_ns()) as f64 * during.len() as f64;
    Some(((ran_ns + near_ns) / (to - from) as f64).min(1.0))
}
