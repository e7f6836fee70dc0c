//! Weighed slices -> groups with one place each.
//!
//! How it works: slices of one cause are divided by place: the culprit's function where another
//! thread is to blame, else the innermost one. Computing has many leaves, so it is divided by the
//! deepest function that most of it passes through.

use std::collections::{BTreeMap, HashMap};

use analysis::frames::{is_part_of_a_function, Owner, Place};
use analysis::resource::Resource;
use analysis::signatures::Stdlib;
use analysis::thresholds;
use analysis::timeline::State;
use capture::read::Frame;
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::claim::Weighed;
use crate::context::Context;
use crate::groups::{self, unattributed, Group};

/// Divides the claimed segments into groups, largest first.
pub fn divide<'c>(cx: &Context<'c>, weighed: Vec<Weighed<'c>>) -> Vec<Group<'c>> {
    // What a worker loads at its start is another matter than what a request loads.
    let starting = |w: &Weighed<'_>| w.slice.claim.resource == Some(Resource::WorkerStart);
    let mut by_cause: BTreeMap<(Cause, bool), Vec<Weighed<'c>>> = BTreeMap::new();
    for w in weighed.into_iter().filter(|w| w.excess_ns > 0.0) {
        by_cause.entry((w.slice.claim.cause, starting(&w))).or_default().push(w);
    }
    let mut groups: Vec<Group<'c>> = Vec::new();
    for ((cause, _), slices) in by_cause {
        groups.extend(match cause {
            Cause::Cpu | Cause::Unknown => by_function(cx, cause, slices),
            Cause::CpuStarved => {
                let mut group = where_most_was(cx, cause, by_function(cx, cause, slices));
                group.iter_mut().for_each(|group| group.culprit = cpu_user(cx, group));
                group
            }
            Cause::EventLoopBlocked => {
                // A callback that waits does so in one place; one that computes in many, where it
                // may wait for the GIL as well.
                let waits = |w: &Weighed<'_>| {
                    let s = &w.slice.segment;
                    s.state == State::Wait && s.wait() != WaitKind::Gil
                };
                let (waited, computed) = slices.into_iter().partition(waits);
                let mut both = by_place(cx, cause, waited);
                for group in by_function(cx, cause, computed) {
                    join_same_function(&mut both, group);
                }
                // It is in everybody's way, whichever request or task it is of; unless it was
                // another thread that kept it.
                for group in &mut both {
                    group.culprit = group.culprit.take().or_else(|| group.place.clone());
                }
                both
            }
            Cause::Fork => {
                // Threads that were blocked meanwhile and the one that forked: one event.
                let mut groups = by_place(cx, cause, slices);
                for group in &mut groups {
                    let own = group.slices.iter().filter(|w| w.slice.claim.blocker.is_none());
                    let place =
                        groups::heaviest(own.map(|w| (groups::place_of(cx, w), w.excess_ns)));
                    group.place = group.culprit.clone().or(place);
                }
                groups
            }
            Cause::LockWait | Cause::PoolWait => {
                unattributed::name_blockers(cx, cause, by_place(cx, cause, slices))
            }
            Cause::GcPause => {
                // Collections on requests' own threads are nobody else's doing.
                let mut groups = by_place(cx, cause, slices);
                for group in groups.iter_mut().filter(|group| !is_mostly_blamed(group)) {
                    group.culprit = None;
                }
                groups
            }
            _ => by_place(cx, cause, slices),
        });
    }
    groups.sort_by(|a, b| b.excess_ns().total_cmp(&a.excess_ns()));
    groups
}

/// One group of them all. Where a thread lost its CPU is chance: a place is named only if most of
/// it was lost in one function of the program's own.
fn where_most_was<'c>(
    cx: &Context<'c>,
    cause: Cause,
    mut groups: Vec<Group<'c>>,
) -> Vec<Group<'c>> {
    let total: f64 = groups.iter().map(Group::excess_ns).sum();
    groups.sort_by(|a, b| b.excess_ns().total_cmp(&a.excess_ns()));
    let most = |group: &&Group<'_>| group.excess_ns() * 2.0 >= total;
    let place = groups.first().filter(most).and_then(|group| group.place.clone());
    let place = place.filter(|place| cx.frames.owner(&place.file) == Owner::User);
    let slices: Vec<_> = groups.into_iter().flat_map(|group| group.slices).collect();
    match slices.is_empty() {
        true => Vec::new(),
        false => vec![Group { cause, place, culprit: None, slices }],
    }
}

/// The code that took the CPUs in most of a group's time; none if that is the same work: requests
/// that compute delay one another.
fn cpu_user(cx: &Context<'_>, group: &Group<'_>) -> Option<Place> {
    let blamed = group.slices.iter().filter(|w| w.slice.claim.blocker.is_some());
    let culprit = groups::heaviest(blamed.map(|w| (groups::culprit_of(cx, w), w.excess_ns)))?;
    let same = group.place.as_ref().is_some_and(|p| p.is_in_function_of(&culprit));
    (is_mostly_blamed(group) && !same).then_some(culprit)
}

/// Whether at least half of a group's excess is another thread's doing.
fn is_mostly_blamed(group: &Group<'_>) -> bool {
    let blamed = group.slices.iter().filter(|w| w.slice.claim.blocker.is_some());
    blamed.map(|w| w.excess_ns).sum::<f64>() * 2.0 >= group.excess_ns()
}

/// Adds a group to those of the same function, or to the list: code that waits here and computes
/// there is one callback. It has the line of the heavier part, and the blocker if it waited longer.
fn join_same_function<'c>(groups: &mut Vec<Group<'c>>, mut group: Group<'c>) {
    let function = |g: &Group<'_>| g.place.as_ref().map(Place::in_function);
    let own = function(&group);
    match groups.iter_mut().find(|g| own.is_some() && function(g) == own) {
        Some(same) => {
            if group.excess_ns() > same.excess_ns() {
                same.place = group.place.take();
                same.culprit = None;
            }
            same.slices.append(&mut group.slices);
        }
        None => groups.push(group),
    }
}

/// By culprit function where there is one, else by place; the place and culprit of a group are the
/// heaviest lines in it.
fn by_place<'c>(cx: &Context<'c>, cause: Cause, slices: Vec<Weighed<'c>>) -> Vec<Group<'c>> {
    let key = |w: &Weighed<'_>| -> (String, String) {
        // A stop hits every thread wherever it is: one group.
        if matches!(cause, Cause::Stopped | Cause::CpuThrottled) {
            return Default::default();
        }
        let place = groups::culprit_of(cx, w).or_else(|| groups::place_of(cx, w));
        place.map(|p| (p.function, p.file)).unwrap_or_default()
    };
    let mut parts: BTreeMap<(String, String), Vec<Weighed<'c>>> = BTreeMap::new();
    for w in slices {
        parts.entry(key(&w)).or_default().push(w);
    }
    let mut groups = parts.into_values().map(|slices| groups::finish(cx, cause, slices)).collect();
    groups = match cause {
        // Code that kept a loop at one place is one event: at its ends samples show the next thing
        // that the loop did.
        Cause::EventLoopBlocked => unattributed::join_main(cx, groups, |_| true),
        Cause::LockWait | Cause::PoolWait => {
            unattributed::join_main(cx, groups, |g| g.culprit.is_none())
        }
        Cause::DeadlockTimeout => join_fellows(groups),
        _ => groups,
    };
    join_small(cx, cause, groups)
}

/// Threads that waited behind a deadlock for one that came the same way join those at the same
/// place whose partner came another way: it is one event.
fn join_fellows(groups: Vec<Group<'_>>) -> Vec<Group<'_>> {
    let spot = |p: &Option<Place>| p.as_ref().map(Place::in_function);
    let (fellows, mut kept): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|g| spot(&g.place) == spot(&g.culprit));
    for group in fellows {
        let there = kept.iter_mut().filter(|g| spot(&g.place) == spot(&group.place));
        match there.max_by(|a, b| a.excess_ns().total_cmp(&b.excess_ns())) {
            Some(one) => one.slices.extend(group.slices),
            None => kept.push(group),
        }
    }
    kept
}

fn join_small<'c>(cx: &Context<'c>, cause: Cause, mut groups: Vec<Group<'c>>) -> Vec<Group<'c>> {
    // What no sample saw joins what was seen, however little that was: the group's confidence says
    // so.
    groups.sort_by(|a, b| {
        let by_weight = b.excess_ns().total_cmp(&a.excess_ns());
        a.place.is_none().cmp(&b.place.is_none()).then(by_weight)
    });
    let total: f64 = groups.iter().map(Group::excess_ns).sum();
    let mut kept: Vec<Group<'c>> = Vec::new();
    for group in groups {
        match kept.first_mut() {
            Some(first)
                if group.excess_ns() < thresholds::small_part() * total
                    || group.place.is_none() =>
            {
                first.slices.extend(group.slices);
            }
            _ => kept.push(group),
        }
    }
    // A group without any place that came first takes the place of what joined it.
    for group in kept.iter_mut().filter(|g| g.place.is_none()) {
        let slices = std::mem::take(&mut group.slices);
        *group = groups::finish(cx, cause, slices);
    }
    kept
}

/// By the deepest own function that most of the weight passes through.
fn by_function<'c>(cx: &Context<'c>, cause: Cause, slices: Vec<Weighed<'c>>) -> Vec<Group<'c>> {
    let total: f64 = slices.iter().map(|w| w.excess_ns).sum();
    let computing = matches!(cause, Cause::Cpu | Cause::CpuStarved | Cause::EventLoopBlocked);
    let alike = matches!(cause, Cause::CpuStarved | Cause::EventLoopBlocked);
    let of_loop = cause == Cause::EventLoopBlocked;
    let put_off = |w: &Weighed<'_>| computing && w.slice.claim.stack == 0;
    let (unseen, mut rest): (Vec<_>, Vec<_>) = slices.into_iter().partition(put_off);
    let mut groups: Vec<Group<'c>> = Vec::new();
    while !rest.is_empty() {
        let weight: f64 = rest.iter().map(|w| w.excess_ns).sum();
        let function = deepest_function(cx, &rest);
        let small = weight < thresholds::small_part() * total;
        match (function, groups.first_mut()) {
            (_, Some(first)) if small => {
                first.slices.append(&mut rest);
            }
            // No CPU is no CPU wherever the thread was; and what a loop does between callbacks is
            // for them.
            (None, Some(first)) if alike => first.slices.append(&mut rest),
            (None, _) => {
                // Only the interpreter's code was there, in a thread that a launcher started.
                let seen = rest.iter().filter(|w| w.slice.claim.stack != 0 && !of_loop);
                let at = seen.map(|w| (groups::place_of(cx, w), w.excess_ns));
                let place = groups::heaviest(at);
                let slices = std::mem::take(&mut rest);
                groups.push(Group { cause, place, culprit: None, slices });
            }
            (Some(place), _) => {
                let under = |w: &Weighed<'_>| passes(cx, w.slice.claim.stack, &place);
                let (inside, outside) = rest.into_iter().partition(under);
                groups.push(Group { cause, place: Some(place), culprit: None, slices: inside });
                rest = outside;
            }
        }
    }
    join_unseen(cause, unseen, &mut groups);
    groups
}

/// Computing that no sample saw most likely went on where the samples saw the same request compute:
/// it joins the group that has most of that request. That little was seen, the group's confidence
/// says. What is left is a group without a place.
fn join_unseen<'c>(cause: Cause, unseen: Vec<Weighed<'c>>, groups: &mut Vec<Group<'c>>) {
    let parts: Vec<HashMap<usize, f64>> = groups
        .iter()
        .map(|group| {
            let mut sums = HashMap::new();
            for w in &group.slices {
                *sums.entry(w.request).or_default() += w.excess_ns;
            }
            sums
        })
        .collect();
    let mut left = Vec::new();
    for w in unseen {
        let part = |i: &usize| parts[*i].get(&w.request).copied().unwrap_or(0.0);
        match (0..parts.len()).max_by(|a, b| part(a).total_cmp(&part(b))).filter(|i| part(i) > 0.0)
        {
            Some(most) => groups[most].slices.push(w),
            None => left.push(w),
        }
    }
    // A loop that is kept is kept, wherever no sample saw it.
    let alike = matches!(cause, Cause::CpuStarved | Cause::EventLoopBlocked);
    if let (true, Some(first)) = (alike, groups.first_mut()) {
        first.slices.append(&mut left);
    }
    if !left.is_empty() {
        groups.push(Group { cause, place: None, culprit: None, slices: left });
    }
}

fn passes(cx: &Context<'_>, stack: u32, place: &Place) -> bool {
    cx.frames.passes(stack, place)
}

/// The user's and libraries' functions of a stack, outermost first, from where the work begins:
/// code that runs an event loop, and a server's code around the program's own, is under everything.
/// `on_loop`: of a loop's thread; elsewhere a loop is one that the work itself runs.
fn own_functions(cx: &Context<'_>, stack: u32, on_loop: bool) -> Vec<Place> {
    let owner = |f: &Frame<'_>| cx.frames.owner(f.file);
    // The second is what is left of it to be seen where the loop is not written in Python.
    let runs_the_loop = |f: &Frame<'_>| {
        cx.frames.is_at(f, Stdlib::LoopRunOnce) || cx.frames.is_at(f, Stdlib::LoopRun)
    };
    let own = |f: &Frame<'_>| matches!(owner(f), Owner::User | Owner::Library);
    let work = cx.frames.above_launchers(stack).take_while(|f| !(on_loop && runs_the_loop(f)));
    let mut frames: Vec<Frame<'_>> =
        work.filter(|f| own(f) && !is_part_of_a_function(f.function)).collect();
    let serves = |f: &Frame<'_>| owner(f) == Owner::User && !f.is_module_body();
    if let Some(outermost) = frames.iter().rposition(serves) {
        frames.truncate(outermost + 1);
    }
    frames.iter().rev().map(|f| cx.frames.place(f)).collect()
}

/// The deepest function of the program's own that most of the weight passes through; a library's
/// on stacks without one.
fn deepest_function(cx: &Context<'_>, slices: &[Weighed<'_>]) -> Option<Place> {
    deepest(cx, slices.iter(), |own| {
        let is_user = |place: &Place| cx.frames.owner(&place.file) == Owner::User;
        if own.iter().any(is_user) {
            own.retain(is_user);
        }
    })
}

/// Walks from the root along the heaviest function while it carries most of the weight; the last
/// own one met, at its heaviest line. `narrow` takes functions from a stack that do not count.
pub(crate) fn deepest<'w, 'c: 'w>(
    cx: &Context<'_>,
    slices: impl Iterator<Item = &'w Weighed<'c>>,
    narrow: impl Fn(&mut Vec<Place>),
) -> Option<Place> {
    // Many claimed segments, few stacks.
    let mut weights: BTreeMap<(u32, bool), f64> = BTreeMap::new();
    for w in slices.filter(|w| w.slice.claim.stack != 0) {
        let on_loop = cx.is_loop(&w.slice.segment);
        *weights.entry((w.slice.claim.stack, on_loop)).or_default() += w.excess_ns;
    }
    let mut stacks: Vec<(Vec<Place>, f64)> = Vec::new();
    for ((stack, on_loop), weight) in weights {
        let mut own = own_functions(cx, stack, on_loop);
        narrow(&mut own);
        stacks.push((own, weight));
    }
    let mut total = 0.0;
    let mut found: Option<Place> = None;
    let mut depth = 0;
    loop {
        let mut functions: BTreeMap<(&str, &str), f64> = BTreeMap::new();
        for (frames, weight) in &stacks {
            if let Some(place) = frames.get(depth) {
                *functions.entry((&place.qualified, &place.file)).or_default() += weight;
            }
        }
        let Some(((function, file), weight)) = functions
            .into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|((f, p), w)| ((f.to_owned(), p.to_owned()), w))
        else {
            return found;
        };
        match depth {
            // At the root the heaviest is taken whatever its part: the rest becomes another group.
            0 => total = weight,
            _ if weight < thresholds::main_part() * total => return found,
            _ => {}
        }
        let here = |p: &&Place| p.qualified == function && p.file == file;
        let lines = stacks.iter().map(|(f, w)| (f.get(depth).filter(here).cloned(), *w));
        found = groups::heaviest(lines);
        stacks.retain(|(frames, _)| frames.get(depth).is_some_and(|p| here(&p)));
        depth += 1;
    }
}
