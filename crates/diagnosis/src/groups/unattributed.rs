//! Waits for a lock or a pool, by holder: groups without a known holder, and groups of several
//! places that waited for one and the same.
//!
//! What it promises: a holder it names is likely at most (`recurring` and `past_acquire_line` in
//! `ended_by::several_waits`), or only possible (`inside_during` there); what is joined has one
//! culprit.

use std::collections::BTreeMap;

use analysis::frames::{Function, Place};
use analysis::thresholds;

use crate::candidate::{OverWaits, Source};
use crate::cause::Cause;
use crate::claim::Weighed;
use crate::context::Context;
use crate::ended_by::several_waits::{inside_during, past_acquire_line, recurring};
use crate::explain::Inference;
use crate::groups::{self, Group};

fn function(place: &Option<Place>) -> Option<Function> {
    place.as_ref().map(Place::in_function)
}

/// An inference about several waits at one place.
type Ask = fn(&Context<'_>, &[Weighed<'_>]) -> Option<OverWaits>;

/// Which thread blocked the waits of a group.
const OVER_WAITS: &[Source<Ask>] = &[
    (Inference::Recurring, recurring::by_records),
    (Inference::RecurringExit, recurring::by_exits),
    (Inference::PastTheLine, past_acquire_line::holders),
    (Inference::InsideDuring, inside_during::holder),
];

/// Infers the blocker of waits without a known one. Waits at several places whose culprit turns out
/// to be the same are one matter.
pub(crate) fn name_blockers<'c>(
    cx: &Context<'c>,
    cause: Cause,
    groups: Vec<Group<'c>>,
) -> Vec<Group<'c>> {
    let (mut joined, unheld): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|g| g.culprit.is_some());
    for group in unheld {
        let group = with_blockers(cx, cause, group);
        let own = function(&group.culprit);
        match joined.iter_mut().find(|g| own.is_some() && function(&g.culprit) == own) {
            Some(one) => one.join(cx, group),
            None => joined.push(group),
        }
    }
    joined
}

/// A group with the blockers of the heaviest candidate that gives it a culprit.
fn with_blockers<'c>(cx: &Context<'c>, cause: Cause, group: Group<'c>) -> Group<'c> {
    let found = cx.order.of(OVER_WAITS).filter_map(|(_, ask)| ask(cx, &group.slices));
    let mut found: Vec<OverWaits> = found.collect();
    found.sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.by.cmp(&b.by)));
    let named = |group: &Group<'_>| -> Vec<_> {
        group.slices.iter().map(|w| w.slice.claim.blocker).collect()
    };
    let before = named(&group);
    let mut group = groups::finish(cx, cause, group.slices);
    for blockers in found.into_iter().map(|c| c.blockers).chain([before]) {
        if group.culprit.is_some() {
            break;
        }
        for (w, blocker) in group.slices.iter_mut().zip(blockers) {
            w.slice.claim.blocker = blocker;
        }
        group = groups::finish(cx, cause, group.slices);
    }
    group
}

/// Groups join what one culprit kept at the same place, if that is nearly all that any is known to
/// have kept there: it is the same lock, pool or callback. `joins`: which do. That most of it was
/// not seen is in the group's confidence.
pub(crate) fn join_main<'c>(
    cx: &Context<'c>,
    groups: Vec<Group<'c>>,
    joins: impl Fn(&Group<'c>) -> bool,
) -> Vec<Group<'c>> {
    // Waits at several places for one culprit are one group.
    let at = |w: &Weighed<'_>| function(&groups::place_of(cx, w));
    let mut sums: BTreeMap<Function, f64> = BTreeMap::new();
    for w in groups.iter().filter(|g| g.culprit.is_some()).flat_map(|g| &g.slices) {
        if let Some(spot) = at(w) {
            *sums.entry(spot).or_default() += w.excess_ns;
        }
    }
    let is_main = |g: &Group<'_>, spot: &Function| {
        let own = |w: &&Weighed<'_>| at(w).as_ref() == Some(spot);
        let own: f64 = g.slices.iter().filter(own).map(|w| w.excess_ns).sum();
        let sum = sums.get(spot).copied().unwrap_or_default();
        g.culprit.is_some() && own > 0.0 && own >= thresholds::main_part() * sum
    };
    let is_main_at =
        |g: &Group<'_>, spot: &Option<Function>| spot.as_ref().is_some_and(|spot| is_main(g, spot));
    let (others, mut kept): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|g| joins(g) && !is_main_at(g, &function(&g.place)));
    for group in others {
        let spot = function(&group.place);
        match kept.iter_mut().find(|g| is_main_at(g, &spot)) {
            Some(main) => main.join(cx, group),
            None => kept.push(group),
        }
    }
    kept
}

/// The other functions in which the requests of a group waited, the heaviest first, with their
/// parts of the excess, ns; of waits that have one culprit, where there are several.
pub fn other_places(cx: &Context<'_>, group: &Group<'_>) -> Vec<(Place, f64)> {
    if !matches!(group.cause, Cause::LockWait | Cause::PoolWait) || group.culprit.is_none() {
        return Vec::new();
    }
    let mut functions: BTreeMap<Function, (Place, f64)> = BTreeMap::new();
    for w in &group.slices {
        let Some(place) = groups::place_of(cx, w) else { continue };
        functions.entry(place.in_function()).or_insert((place, 0.0)).1 += w.excess_ns;
    }
    for reported in [&group.place, &group.culprit] {
        function(reported).map(|own| functions.remove(&own));
    }
    let mut others: Vec<_> = functions.into_values().collect();
    others.sort_by(|a, b| b.1.total_cmp(&a.1));
    others
}
