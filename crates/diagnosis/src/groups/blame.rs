//! The threads that made a group's requests wait, for the sentence: which threads, called by which
//! functions, doing what.
//!
//! What it promises: nothing here names a blocker; that was decided with the claims.

use std::collections::BTreeMap;

use analysis::resource::Resource;
use analysis::thresholds;
use analysis::timeline::State;

use crate::cause::Cause;
use crate::causes::locks::lock_wait;
use crate::causes::python::event_loop_blocked;
use crate::causes::rule::Through;
use crate::claim::{Blocker, Link, Weighed};
use crate::context::Context;
use crate::doing::Doing;
use crate::explain::Inference;
use crate::facts::{activity, long_work, waiting};
use crate::groups::Group;

/// Callers of a culprit that are reported.
const CALLERS_MAX: usize = 2;

/// The last of the program's own functions that called the culprit's, where it mattered most;
/// none if the slow request goes the same way: it is one of its kind then.
pub fn path(cx: &Context<'_>, group: &Group<'_>) -> Vec<String> {
    let Some(place) = &group.culprit else { return Vec::new() };
    let stack = |w: &Weighed<'_>| w.slice.claim.blocker.map_or(0, |c| c.stack);
    let own = group.slices.iter().filter(|w| cx.frames.passes(stack(w), place));
    // A thread of a deadlock is a slow request at times, and then blocks the one that is reported.
    let blamed = group.heaviest().map_or(0, |w| w.slice.claim.stack);
    let circle = group.cause == Cause::DeadlockTimeout;
    let own = own.filter(|w| !circle || w.slice.claim.stack == blamed);
    let heaviest = own.max_by(|a, b| a.excess_ns.total_cmp(&b.excess_ns));
    let path = heaviest.map(|w| cx.frames.path(stack(w), place)).unwrap_or_default();
    let victim = match (&group.place, group.heaviest()) {
        (Some(own), Some(w)) => cx.frames.path(w.slice.claim.stack, own),
        _ => Vec::new(),
    };
    let at = group.place.as_ref().map(|p| &p.function);
    if path.iter().all(|name| victim.contains(name) || Some(name) == at) {
        return Vec::new();
    }
    path[path.len().saturating_sub(CALLERS_MAX)..].to_vec()
}

/// Where the thread was that waited for the culprit and made the request wait itself, in the time
/// that mattered most; none if that was the culprit. Where notice is waited for, as `resource` says
/// that is reported, a thread that kept others from a lock meanwhile gave none.
pub fn through(
    cx: &Context<'_>,
    group: &Group<'_>,
    resource: Option<&Resource>,
) -> Option<Through> {
    let culprit = group.culprit.as_ref()?;
    let ours = |w: &&Weighed<'_>| {
        let claim = &w.slice.claim;
        claim.blocker.is_some_and(|c| cx.frames.passes(c.stack, culprit))
            && (!lock_wait::is_notice(resource) || claim.resource.as_ref() == resource)
    };
    let own = group.slices.iter().filter(ours);
    let heaviest = own.max_by(|a, b| a.excess_ns.total_cmp(&b.excess_ns))?;
    let last = heaviest.slice.claim.blocker?;
    let place = cx.frames.innermost_user(last.through)?;
    let waited_for = match last.link {
        Link::Lock => "another lock, held by",
        Link::Gil => "the GIL, held by",
        Link::Room => "room that was to be made by",
        Link::Notice => "notice from",
    };
    // In the waiter's own function it may be at the next call of a library's.
    let elsewhere = Some(&place) != group.place.as_ref()
        || cx.frames.innermost(last.through) != cx.frames.innermost(heaviest.slice.claim.stack);
    let other = elsewhere && place != *culprit;
    other.then_some(Through { place, waited_for })
}

/// The kind of wait that a group is: its cause, or, of an event loop that waits for its culprit,
/// what that wait would be of any other thread.
pub fn waits(cx: &Context<'_>, group: &Group<'_>) -> Cause {
    if group.cause != Cause::EventLoopBlocked {
        return group.cause;
    }
    let blamed = group.slices.iter().filter(|w| w.slice.claim.blocker.is_some());
    let heaviest = blamed.max_by(|a, b| a.excess_ns.total_cmp(&b.excess_ns));
    // A loop that is its own culprit waits for nobody, unless both threads are at that line.
    let waits_there = |w: &Weighed<'_>| {
        let claim = &w.slice.claim;
        let stacks = [claim.stack, claim.blocker.map_or(0, |c| c.stack)];
        let both = |place| stacks.iter().all(|stack| cx.frames.passes(*stack, place));
        group.culprit != group.place || group.place.as_ref().is_some_and(both)
    };
    let wait = heaviest.filter(|w| waits_there(w));
    let wait = wait.and_then(|w| event_loop_blocked::waits(cx, &w.slice.segment));
    wait.map_or(group.cause, |claim| claim.cause)
}

/// What the culprit's threads did during the waits, mostly.
pub fn doing(cx: &Context<'_>, group: &Group<'_>) -> Option<Doing> {
    let waits = waits(cx, group);
    let itself = waits == Cause::EventLoopBlocked;
    let of_others = matches!(waits, Cause::LockWait | Cause::PoolWait | Cause::PipeWrite);
    if !of_others && !is_task(group) && !itself {
        return None;
    }
    // By their words, so that of two that took as long it is always the same.
    let mut sums: BTreeMap<&'static str, (Doing, u64)> = BTreeMap::new();
    let mut add = |doing: Doing, ns: u64| sums.entry(doing.text()).or_insert((doing, 0)).1 += ns;
    for w in &group.slices {
        let segment = &w.slice.segment;
        if itself {
            add(of_the_loop(activity::of(cx, segment)), segment.ns());
            continue;
        }
        let Some(blocker) = w.slice.claim.blocker else { continue };
        if let Some(doing) = blocker.doing {
            add(doing, segment.ns());
            continue;
        }
        // Of work that is long by itself it counts what work it is, and not how crowded the
        // machine.
        let own = cx.timeline(blocker.tid, segment.from_ns, segment.to_ns);
        let ready = own.iter().any(|s| s.state == State::Ready);
        let long = ready && long_work::works_long(cx, blocker.tid, segment);
        for s in own.into_iter().filter(|s| !(long && s.state == State::Ready)) {
            add(activity::of(cx, &s), s.ns());
        }
    }
    let most = sums.into_values().max_by_key(|(_, ns)| *ns).map(|(doing, _)| doing);
    most.filter(|doing| !itself || *doing != Doing::NotSeen)
}

/// What an event loop's own thread did. It waits for a lock, and not for another one; no CPU in the
/// middle of work that is long by itself counts as that work.
fn of_the_loop(doing: Doing) -> Doing {
    match doing {
        Doing::AnotherLock => Doing::Lock,
        Doing::NoCpu => Doing::Computed,
        doing => doing,
    }
}

/// The culprit's threads, the heaviest first, without those that are to blame for less than a tenth
/// of what the heaviest is: waiters who held the lock for a moment when their turn came. Where most
/// of it was measured, guesses add nobody. Only those that were seen at the culprit's place, if any
/// was.
pub fn tids(cx: &Context<'_>, group: &Group<'_>) -> Vec<u32> {
    let culprit = |w: &Weighed<'_>| w.slice.claim.blocker;
    let known =
        is_measured(group) && group.slices.iter().any(|w| culprit(w).is_some_and(|c| c.measured));
    let there =
        |c: &Blocker| group.culprit.as_ref().is_some_and(|place| cx.frames.passes(c.stack, place));
    let any = group.slices.iter().filter_map(culprit).any(|c| there(&c));
    let mut sums: BTreeMap<u32, f64> = Default::default();
    for w in &group.slices {
        let culprit = culprit(w).filter(|c| c.measured || !known);
        if let Some(culprit) = culprit.filter(|c| there(c) || !any) {
            *sums.entry(culprit.tid).or_default() += w.excess_ns;
        }
    }
    let mut tids: Vec<(u32, f64)> = sums.into_iter().collect();
    tids.sort_by(|a, b| b.1.total_cmp(&a.1));
    let most = tids.first().map_or(0.0, |(_, sum)| *sum);
    tids.retain(|(_, sum)| *sum >= thresholds::small_part() * most);
    tids.into_iter().map(|(tid, _)| tid).collect()
}

/// Whether at least half of the excess has a culprit that was measured, or recorded by the kernel.
pub fn is_measured(group: &Group<'_>) -> bool {
    measured_part(group) >= thresholds::half()
}

/// Whether most of the excess with a culprit has one that was only found where the waits were
/// (`inside_during`).
pub fn is_by_overlap(group: &Group<'_>) -> bool {
    let culprits = group.slices.iter().filter_map(|w| Some((w.slice.claim.blocker?, w.excess_ns)));
    let all: f64 = culprits.clone().map(|(_, ns)| ns).sum();
    let overlap = culprits.filter(|(culprit, _)| culprit.by == Inference::InsideDuring);
    let overlap: f64 = overlap.map(|(_, ns)| ns).sum();
    overlap > 0.0 && overlap * 2.0 >= all
}

/// The part of the excess with a culprit that was measured, or recorded by the kernel.
pub fn measured_part(group: &Group<'_>) -> f64 {
    let measured = |p: &&Weighed<'_>| {
        let claim = &p.slice.claim;
        let blamed = || lock_wait::has_known_process(claim.resource.as_ref());
        claim.blocker.map_or_else(blamed, |c| c.measured)
    };
    let known: f64 = group.slices.iter().filter(measured).map(|p| p.excess_ns).sum();
    known / group.excess_ns().max(1.0)
}

/// Whether most of the group's waits ended by their time limit: nobody ended them.
pub fn timed_out(cx: &Context<'_>, group: &Group<'_>) -> bool {
    let by_limit = group.slices.iter().filter(|p| {
        let segment = &p.slice.segment;
        segment.state == State::Wait && waiting::timed_out(cx, segment)
    });
    by_limit.map(|p| p.excess_ns).sum::<f64>() * 2.0 > group.excess_ns()
}

/// Whether what a task of an event loop awaited was to blame for some of it.
pub fn is_task(group: &Group<'_>) -> bool {
    group.slices.iter().any(|p| p.slice.claim.blocker.is_some_and(|c| c.doing.is_some()))
}
