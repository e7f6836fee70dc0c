//! A request's critical path: its time as slices, each a segment of some thread with its claim.
//!
//! How it works: the request's own thread is followed (`followed`); while it waits for work handed
//! to another thread, the slices of that thread replace the wait; once it has handed the request
//! over for good, that thread is followed in its place (`handed_over`). A request on an event loop
//! is cut by what its task was seen to await (`on_loop`), or other requests of its name were
//! (`fellows`), and the time before a handler began by what kept the process from taking the
//! request up (`arrival`). Time without a CPU inside of long work is that work's (`contention`).
//!
//! What it promises: the slices do not overlap, and sum to the request's time.

pub(crate) mod arrival;
pub(crate) mod contention;
pub(crate) mod fellows;
pub(crate) mod followed;
mod handed_over;
pub(crate) mod kept_gil;
pub(crate) mod on_loop;
pub(crate) mod queued;

use analysis::requests::Judged;
use capture::read::Capture;

use crate::cause::Cause;
use crate::claim::Slice;
use crate::context::Context;

/// All claimed segments of a request. Their lengths sum to the request's time.
pub fn of_request<'c>(cx: &Context<'c>, request: &Judged<'c>) -> Vec<Slice<'c>> {
    let row = request.row;
    let mut out;
    if row.on_loop {
        out = on_loop::slices(cx, request);
    } else {
        out = arrival::slices(cx, request);
        let started_ns = row.started_ns.clamp(row.begin_ns, request.end_ns);
        let (handed_ns, rest) = handed_over::slices(cx, request, started_ns);
        let own = (started_ns, handed_ns);
        followed::follow(cx, row.id, row.tid, own, own, 0, &mut out);
        out.extend(rest);
    }
    contention::give_to_work(cx, &mut out);
    contention::doubt_short_runs(&mut out);
    out
}

/// How the time of one request is divided: begin, end and cause of each interval, in order, without
/// gaps. Empty when the capture does not have the request.
pub fn divided(capture: &Capture, id: u64) -> Vec<(u64, u64, Cause)> {
    let Some(row) = capture.requests.iter().find(|r| r.id == id) else { return Vec::new() };
    let end_ns = row.end_ns.unwrap_or(capture.meta.to_ns).max(row.begin_ns);
    let slices = of_request(&Context::new(capture), &Judged { row, end_ns });
    slices.iter().map(|p| (p.segment.from_ns, p.segment.to_ns, p.claim.cause)).collect()
}
