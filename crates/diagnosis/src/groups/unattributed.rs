//! Waits for a lock or a pool, by holder: groups without a known holder, and groups of several
//! places that waited for one and the same.
//!
//! What it promises: a holder it names is likely at most (`ended_by::recurring`,
//! `ended_by::past_acquire_line`), or only possible (`ended_by::inside_during`); what is joined has
//! one culprit.

use std::collections::BTreeMap;

use analysis::frames::Place;
use analysis::thresholds;

use crate::cause::Cause;
use crate::context::Context;
use crate::ended_by::{inside_during, past_acquire_line, recurring};
use crate::groups::{self, Group};

/// Function and file.
type Function = (String, String);

fn function(place: &Option<Place>) -> Option<Function> {
    place.as_ref().map(|p| (p.qualified.clone(), p.file.clone()))
}

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
    for mut group in unheld {
        let inferences = [
            recurring::name_blockers,
            past_acquire_line::name_blockers,
            inside_during::name_blockers,
        ];
        for name in inferences {
            if group.culprit.is_none() {
                name(cx, &mut group.slices);
                group = groups::finish(cx, cause, group.slices);
            }
        }
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
        let key = (place.qualified.clone(), place.file.clone());
        functions.entry(key).or_insert((place, 0.0)).1 += w.excess_ns;
    }
    for reported in [&group.place, &group.culprit] {
        function(reported).map(|own| functions.remove(&own));
    }
    let mut others: Vec<_> = functions.into_values().collect();
    others.sort_by(|a, b| b.1.total_cmp(&a.1));
    others
}
