//! Slices of many requests that have one cause and one place.
//!
//! `weigh` gives each slice its part of its request's excess, `divide` makes groups of them,
//! `unattributed` names the blockers of groups without one, `blame` says which threads made a
//! group's requests wait.

pub(crate) mod blame;
pub(crate) mod divide;
pub(crate) mod head_of_line;
pub(crate) mod unattributed;
pub(crate) mod weigh;

use std::collections::BTreeMap;

use analysis::frames::Place;
use analysis::resource::Resource;
use analysis::thresholds;

use crate::cause::Cause;
use crate::claim::Weighed;
use crate::context::Context;
use crate::facts::imports;

/// Claimed segments with one cause and one place.
pub struct Group<'c> {
    /// The cause.
    pub cause: Cause,
    /// Where.
    pub place: Option<Place>,
    /// Where the culprit was.
    pub culprit: Option<Place>,
    /// Its claimed segments.
    pub slices: Vec<Weighed<'c>>,
}

impl<'c> Group<'c> {
    /// Sum of their parts of the excess.
    pub fn excess_ns(&self) -> f64 {
        self.slices.iter().map(|p| p.excess_ns).sum()
    }

    /// Takes up the claimed segments of another group of its cause.
    fn join(&mut self, cx: &Context<'c>, other: Group<'c>) {
        let mut slices = std::mem::take(&mut self.slices);
        slices.extend(other.slices);
        *self = finish(cx, self.cause, slices);
    }

    /// Whether its requests were nowhere that counts: they had not begun, or only a server's code
    /// was there that had no worker for them yet, or did not get the GIL.
    pub fn is_nowhere(&self, cx: &Context<'_>) -> bool {
        self.slices.iter().map(|p| p.slice.claim.stack).all(|stack| {
            let by_chance = matches!(self.cause, Cause::PoolWait | Cause::GilWait);
            stack == 0 || by_chance && !cx.frames.has_user(stack)
        })
    }

    /// The claimed segments at the group's own place; all of them where none is. Small groups of
    /// one cause are joined, and what is reported of the place must be what happened there.
    pub fn at_place(&self, cx: &Context<'_>) -> Vec<&Weighed<'c>> {
        let there = |w: &&Weighed<'c>| {
            let place = place_of(cx, w);
            let both = place.as_ref().zip(self.place.as_ref());
            both.is_some_and(|(a, b)| a.is_in_function_of(b))
        };
        let some: Vec<_> = self.slices.iter().filter(there).collect();
        match some.is_empty() {
            true => self.slices.iter().collect(),
            false => some,
        }
    }

    /// The claimed segment that costs most, of those whose code was seen.
    pub fn heaviest(&self) -> Option<&Weighed<'c>> {
        let seen = self.slices.iter().filter(|p| p.slice.claim.stack != 0);
        seen.max_by(|a, b| a.excess_ns.total_cmp(&b.excess_ns))
    }
}

/// What a library does is what the program's own code asked for: that is what to change. The
/// library's function is reported beside it (`reported::library`).
pub(crate) fn place_of(cx: &Context<'_>, w: &Weighed<'_>) -> Option<Place> {
    cx.frames.innermost_user(w.slice.claim.stack)
}

fn culprit_of(cx: &Context<'_>, w: &Weighed<'_>) -> Option<Place> {
    let culprit = w.slice.claim.blocker?;
    if let Some(importer) = imports::importer(cx, culprit.stack) {
        return cx.frames.innermost_user(importer);
    }
    cx.frames.innermost_user(culprit.stack)
}

pub(crate) fn finish<'c>(cx: &Context<'c>, cause: Cause, slices: Vec<Weighed<'c>>) -> Group<'c> {
    let place = heaviest(slices.iter().map(|w| (place_of(cx, w), w.excess_ns)));
    let culprit = heaviest(slices.iter().map(|w| (culprit_of(cx, w), w.excess_ns)));
    // A culprit of a sliver of it says nothing of the rest.
    let known = |w: &&Weighed<'_>| w.slice.claim.blocker.is_some();
    let blamed_ns: f64 = slices.iter().filter(known).map(|w| w.excess_ns).sum();
    let all: f64 = slices.iter().map(|w| w.excess_ns).sum();
    let culprit = culprit.filter(|_| blamed_ns >= thresholds::small_part() * all);
    // Nor does the waker of one wait say anything of waits that nobody ended.
    let in_vain =
        |w: &&Weighed<'_>| w.slice.claim.resource.as_ref().is_some_and(Resource::is_in_vain);
    let in_vain: f64 = slices.iter().filter(in_vain).map(|w| w.excess_ns).sum();
    let culprit = culprit.filter(|_| blamed_ns >= in_vain);
    // A process that is stopped is so nowhere in particular.
    if cause == Cause::Stopped {
        return Group { cause, place: None, culprit, slices };
    }
    // A request that had not begun was nowhere: the place is the culprit's.
    let place = place.or_else(|| culprit.clone());
    Group { cause, place, culprit, slices }
}

fn heaviest(items: impl Iterator<Item = (Option<Place>, f64)>) -> Option<Place> {
    let mut sums: BTreeMap<Place, f64> = BTreeMap::new();
    for (place, weight) in items {
        if let Some(place) = place {
            *sums.entry(place).or_default() += weight;
        }
    }
    sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(place, _)| place)
}
