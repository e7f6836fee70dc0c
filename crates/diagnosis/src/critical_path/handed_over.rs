//! A request that its own thread handed over for good: a thread that takes calls from the network,
//! gives each to a pool, and goes on with the next.
//!
//! How it works: another thread ended the request, in the middle of the part that was handed to it.
//! From the moment that part was put in the queue, the request's own thread was no longer part of
//! it, whatever it did or waited for: the critical path is the time in the queue, and then the
//! other thread. A thread that waits for the result, or goes on with the request while a part of it
//! runs elsewhere, ends the request itself, and is followed as usual (`followed`).
//!
//! What is missing on purpose: requests that have not ended, since nothing says which thread will.

use analysis::requests::Judged;
use analysis::timeline::{Segment, State};
use capture::read::TaskRow;

use crate::claim::Slice;
use crate::context::Context;
use crate::critical_path::followed;

/// Adds the slices from the moment on at which its own thread handed it over. Returns that moment;
/// the request's end if there is none.
pub(super) fn slices<'c>(
    cx: &Context<'c>,
    request: &Judged<'c>,
    from_ns: u64,
) -> (u64, Vec<Slice<'c>>) {
    let (row, mut out) = (request.row, Vec::new());
    let parts = parts(cx, request);
    let queued = parts.iter().map(|part| part.queued_ns.clamp(from_ns, request.end_ns));
    let begins: Vec<u64> = queued.chain([request.end_ns]).collect();
    for (part, times) in parts.iter().zip(begins.windows(2)) {
        let (from_ns, to_ns) = (times[0], times[1]);
        let (state, exact) = (State::Wait, cx.capture.has_switches(from_ns, to_ns));
        let (sample, sampled) = (None, false);
        let gone = Segment { tid: row.tid, from_ns, to_ns, state, sample, sampled, exact };
        if from_ns < to_ns {
            followed::through_task(cx, row.id, gone, part, 0, &mut out);
        }
    }
    (begins[0], out)
}

/// The part in which the request ended, behind the parts that handed it on, in order.
fn parts<'c>(cx: &Context<'c>, request: &Judged<'c>) -> Vec<&'c TaskRow> {
    let row = request.row;
    let within = |t: &TaskRow, at_ns| t.begin_ns <= at_ns && at_ns <= t.end_ns;
    let others = || cx.handed(row.id).filter(|t| t.tid != row.tid);
    let last =
        others().find(|t| t.tid == row.ended_tid && row.end_ns.is_some_and(|end| within(t, end)));
    let mut parts: Vec<&TaskRow> = last.into_iter().collect();
    let before = |next: &TaskRow| {
        others().find(|t| t.queued_ns < next.queued_ns && within(t, next.queued_ns))
    };
    while let Some(earlier) = parts.last().and_then(|next| before(next)) {
        parts.push(earlier);
    }
    parts.reverse();
    parts
}
