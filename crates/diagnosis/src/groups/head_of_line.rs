//! Requests that waited in line behind a slow one, whatever its name: they waited for what the slow
//! one did.
//!
//! A server with one worker (gunicorn's default) takes up one request after the other. A request
//! that hangs makes all that come meanwhile slow: one event with many victims, reported once, as
//! what the first one did. That holds for a request that is usually quick. One that is slow by
//! nature (a report) takes its worker from others each time: there the pool is too small, and the
//! claim is still pool-wait.

use std::collections::BTreeMap;

use analysis::requests::{Judged, Requests};
use analysis::timeline::overlap_ns;

use crate::cause::Cause;
use crate::claim::{Claim, Slice};
use crate::context::Context;
use crate::critical_path::followed;

/// Gives a part of the time before `own` was taken up the claim of what the slow request in front
/// of it did for most of that time, if there was one that had its worker.
pub fn join_head(
    cx: &Context<'_>,
    requests: &Requests<'_>,
    own: &Judged<'_>,
    slice: &mut Slice<'_>,
) {
    let (from, to) = slice.segment.times();
    let queued = to <= own.row.started_ns && slice.segment.tid == own.row.tid && !own.row.on_loop;
    if slice.claim.cause != Cause::PoolWait || !queued {
        return;
    }
    let held = |r: &&Judged<'_>| overlap_ns((r.row.started_ns, r.end_ns), (from, to));
    let others =
        requests.slow.iter().filter(|r| r.row.tid == own.row.tid && r.row.id != own.row.id);
    let Some(head) = others.max_by_key(held).filter(|r| held(r) * 2 >= to - from) else { return };
    if !requests.is_usually_quick(head.row.name) {
        return;
    }
    if let Some(claim) = did(cx, head, (from, to)).filter(|claim| claim.cause != Cause::Unknown) {
        slice.claim = Claim { seen: slice.claim.seen, rule: "head-of-line", ..claim };
    }
}

/// What a request did for most of a time, or the threads that it waited for: the longest part of
/// its largest cause.
fn did(cx: &Context<'_>, head: &Judged<'_>, (from, to): (u64, u64)) -> Option<Claim> {
    let whole = (head.row.started_ns, head.end_ns);
    let part = (whole.0.max(from), whole.1.min(to));
    let mut path = Vec::new();
    followed::follow(cx, head.row.id, head.row.tid, part, whole, 0, &mut path);
    let mut sums: BTreeMap<Cause, u64> = BTreeMap::new();
    path.iter().for_each(|s| *sums.entry(s.claim.cause).or_default() += s.segment.ns());
    let (cause, _) = sums.into_iter().max_by_key(|(_, ns)| *ns)?;
    let own = path.into_iter().filter(|s| s.claim.cause == cause);
    own.max_by_key(|s| s.segment.ns()).map(|s| s.claim)
}
