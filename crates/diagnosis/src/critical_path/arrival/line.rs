//! The worker that took a request up in the end was busy with another one: what the head of its
//! line waited for, or that the pool is short.

use analysis::requests::Judged;
use analysis::timeline::{overlap_ns, Segment, State};
use capture::read::RequestRow;
use format::wait::WaitKind;

use super::kept_process::Answer;
use crate::cause::Cause;
use crate::causes;
use crate::claim::{Blocker, Claim};
use crate::context::Context;
use crate::critical_path::followed::follow;
use crate::explain::Inference;

/// The longest segments of a request that are considered for what it did.
const SEGMENTS_MAX: usize = 512;

/// Its worker had other requests in hand. One of the same name that takes most of the time is the
/// head of a line: what it did is what this one waited for. Otherwise it is the pool that is short.
pub(super) fn busy(cx: &Context<'_>, request: &Judged<'_>, segment: &Segment<'_>) -> Answer {
    let end = |r: &RequestRow| r.end_ns.unwrap_or(cx.capture.meta.to_ns);
    let held = |r: &RequestRow| overlap_ns((r.started_ns, end(r)), segment.times());
    let before: Vec<&RequestRow> = cx
        .capture
        .requests
        .iter()
        .filter(|r| r.tid == segment.tid && r.id != request.row.id && held(r) > 0)
        .collect();
    let covered: u64 = before.iter().map(|r| held(r).saturating_mul(r.times.into())).sum();
    let covered = covered.min(segment.ns());
    let longest = before.into_iter().max_by_key(|r| held(r))?;
    if held(longest) * 2 >= segment.ns() && longest.name == request.row.name {
        let (from, to) = (longest.started_ns, end(longest).min(segment.to_ns));
        let timeline = cx.timeline(segment.tid, from, to);
        return Some((covered, mostly(cx, longest.id, &timeline)?));
    }
    let meanwhile = cx.timeline(segment.tid, segment.from_ns, segment.to_ns);
    let longest = meanwhile.iter().max_by_key(|s| s.ns()).filter(|s| s.ns() * 2 > segment.ns());
    let waits = longest.map(|s| causes::claim(cx, s));
    if let Some(claim) = waits.filter(|c| matches!(c.cause, Cause::PoolWait | Cause::LockWait)) {
        // A thread that waits itself does not delay others by its own work: the thread that it
        // waited for does.
        return Some((covered, claim));
    }
    let stack = cx.main_stack(segment.tid, segment.from_ns, segment.to_ns);
    let blocker =
        (stack != 0).then_some(Blocker::thread(segment.tid, stack, true, Inference::BusyWorker));
    Some((covered, Claim { blocker, ..Claim::of(Cause::PoolWait, segment) }))
}

/// What a request's thread did for most of the time, all segments of one cause together: a long one
/// alone may be the least of it amid hundreds of short ones. The longest of them stands for all.
fn mostly(cx: &Context<'_>, request: u64, timeline: &[Segment<'_>]) -> Option<Claim> {
    let mut longest_first: Vec<&Segment<'_>> = timeline.iter().collect();
    longest_first.sort_by_key(|s| std::cmp::Reverse(s.ns()));
    let mut causes: Vec<(u64, Claim)> = Vec::new();
    for segment in longest_first.into_iter().take(SEGMENTS_MAX) {
        let claim = followed(cx, request, segment);
        match causes.iter_mut().find(|(_, known)| known.cause == claim.cause) {
            Some((ns, _)) => *ns += segment.ns(),
            None => causes.push((segment.ns(), claim)),
        }
    }
    // Of several with the same time the first, whose longest segment is longer.
    causes.into_iter().rev().max_by_key(|(ns, _)| *ns).map(|(_, claim)| claim)
}

/// The claim for a segment of a request's thread; where it waited for another thread's work, for
/// most of what that did.
fn followed(cx: &Context<'_>, request: u64, segment: &Segment<'_>) -> Claim {
    if segment.state != State::Wait || segment.wait() != WaitKind::Futex {
        return causes::claim(cx, segment);
    }
    let (all, mut slices) = (segment.times(), Vec::new());
    follow(cx, request, segment.tid, all, all, 0, &mut slices);
    let longest = slices.into_iter().max_by_key(|slice| slice.segment.ns());
    longest.map_or_else(|| causes::claim(cx, segment), |slice| slice.claim)
}
