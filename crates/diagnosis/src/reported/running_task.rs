//! Which task of an event loop ran while its thread was kept.
//!
//! From samples that have it (`format::sample::Sample::task`), weighed by the time that they
//! represent. Where a callback kept the loop there is none.

use std::collections::BTreeMap;

use analysis::{thresholds, words};

use crate::cause::Cause;
use crate::context::Context;
use crate::groups::Group;

/// The task that most of the time passed in, and which part of it did. None: of another cause, or
/// hardly any was seen.
fn most<'c>(cx: &Context<'c>, group: &Group<'_>) -> Option<(&'c str, f64)> {
    if group.cause != Cause::EventLoopBlocked {
        return None;
    }
    // By id, so that other names change nothing.
    let (mut all, mut sums) = (0u64, BTreeMap::<u32, u64>::new());
    for w in &group.slices {
        let segment = &w.slice.segment;
        all += segment.ns();
        if let Some(task) = segment.sample.map(|sample| sample.task).filter(|task| *task != 0) {
            *sums.entry(task).or_default() += segment.ns();
        }
    }
    let (task, ns) = sums.into_iter().max_by_key(|(_, ns)| *ns)?;
    let part = ns as f64 / all.max(1) as f64;
    (part >= thresholds::small_part()).then(|| (cx.capture.name(task), part))
}

/// What the evidence says of it, and the part.
pub fn evidence(cx: &Context<'_>, group: &Group<'_>) -> Option<(String, f64)> {
    most(cx, group).map(|(task, part)| (format!("part of it in the task `{task}`"), part))
}

/// The name that the program gave to the task in which most of the time passed. That of its
/// coroutine says no more than the place does.
pub fn named<'c>(cx: &Context<'c>, group: &Group<'_>) -> Option<&'c str> {
    let (task, part) = most(cx, group)?;
    (part > thresholds::half() && !words::is_a_coroutines(task)).then_some(task)
}
