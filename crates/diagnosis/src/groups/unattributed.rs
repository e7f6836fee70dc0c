//! Waits for a lock or a pool, by holder: groups without a known holder, and groups of several
//! places that waited for one and the same.
//!
//! What it promises: a holder it names is likely at most (`ended_by::recurring`,
//! `ended_by::past_acquire_line`), or only possible (`ended_by::inside_during`); what is joined has
//! one culprit.

use std::collections::BTreeMap;

use analysis::frames::{Function, Place};
use analysis::thresholds;

use crate::candidate::{OverWaits, Source};
use crate::cause::Cause;
use crate::claim::Weighed;
use crate::context::Context;
use crate::ended_by::{inside_during, past_acquire_line, recurring};
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
    let mut joined: Vec<Group<'c>> = Vec::new();
    let mut unheld: Vec<Group<'c>> = Vec::new();
    for group in groups {
        let to = if group.culprit.is_some() { &mut joined } else { &mut unheld };
        to.push(group);
    }
    for group in unheld {
        let mut group = with_blockers(cx, cause, group);
        let own = function(&group.culprit);
        match joined.iter_mut().find(|g| own.is_some() && function(&g.culprit) == own) {
            Some(one) => {
                one.slices.append(&mut group.slices);
                *one = groups::finish(cx, cause, std::mem::take(&mut one.slices));
            }
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

/// Waits whose holder was not seen join waits at the same place whose holder was, when that is
/// nearly always the same one: it is the same lock or pool. That most of it was not seen is in the
/// group's confidence.
pub(crate) fn join_without_blocker<'c>(
    cx: &Context<'c>,
    cause: Cause,
    groups: Vec<Group<'c>>,
) -> Vec<Group<'c>> {
    let (mut held, unheld): (Vec<_>, Vec<_>) =
        groups.into_iter().partition(|g| g.culprit.is_some());
    for group in unheld {
        let spot = |g: &Group<'_>| function(&g.place);
        let own = spot(&group);
        let there = |g: &&mut Group<'_>| own.is_some() && g.culprit.is_some() && spot(g) == own;
        let sum: f64 = held.iter_mut().filter(there).map(|g| g.excess_ns()).sum();
        let most =
            held.iter_mut().filter(there).find(|g| g.excess_ns() >= thresholds::main_part() * sum);
        match most {
            Some(one) => {
                one.slices.extend(group.slices);
                let slices = std::mem::take(&mut one.slices);
                *one = groups::finish(cx, cause, slices);
            }
            None => held.push(group),
        }
    }
    held
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
