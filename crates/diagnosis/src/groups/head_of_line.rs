//! Requests that waited in line behind a slow one, whatever its name: they waited for what the slow
//! one did.
//!
//! A server with one worker (gunicorn's default) takes up one request after the other. A request
//! that hangs makes all that come meanwhile slow: one event with many victims, reported once, as
//! what the first one did. That holds for a request that is usually quick. One that is slow by
//! nature (a report) takes its worker from others each time: there the pool is too small, and the
//! claim is still pool-wait.

use analysis::requests::{Judged, Requests};
use analysis::timeline::overlap_ns;

use crate::cause::Cause;
use crate::causes;
use crate::claim::{Claim, Slice};
use crate::context::Context;

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
    let timeline = cx.timeline(head.row.tid, head.row.started_ns.max(from), head.end_ns.min(to));
    let Some(longest) = timeline.iter().max_by_key(|s| s.ns()) else { return };
    let claim = causes::claim(cx, longest);
    if claim.cause != Cause::Unknown {
        slice.claim = Claim { seen: slice.claim.seen, rule: "head-of-line", ..claim };
    }
}
