//! What the sentence about a group and its advice are made from.

use std::collections::BTreeMap;

use analysis::frames::Place;
use analysis::resource::Resource;
use analysis::timeline::State;

use super::evidence::kernel_part;
use crate::cause::Cause;
use crate::causes;
use crate::causes::rule::{Described, Repeats, Through};
use crate::context::Context;
use crate::groups::{blame, Group};
use crate::judge::material::Material;
use crate::reported::{retries, running_task};

/// What the sentence about a group and the advice are made from.
pub(super) fn described<'a>(
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
pub(super) struct Own {
    pub(super) culprit_path: Vec<String>,
    pub(super) through: Option<Through>,
    pub(super) retried: Option<Place>,
    pub(super) resource: Option<Resource>,
    pub(super) repeats: Option<Repeats>,
}

impl Own {
    /// `library`: the line of the program's own that called it, if the place is a library's.
    pub(super) fn of(
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

/// Of the requests `of`, which are in order.
pub(super) fn mean_ns(group: &Group<'_>, of: &[usize]) -> f64 {
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
