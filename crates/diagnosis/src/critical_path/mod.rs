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

use analysis::frames::Frames;
use analysis::requests::Judged;
use capture::read::Capture;

use crate::claim::Slice;
use crate::context::Context;

/// The critical paths of a capture's requests, for a reader that shows them.
pub struct CriticalPaths<'c> {
    cx: Context<'c>,
}

impl<'c> CriticalPaths<'c> {
    /// Of requests that nobody judges.
    pub fn new(capture: &'c Capture) -> CriticalPaths<'c> {
        CriticalPaths { cx: Context::new(capture) }
    }

    /// Of requests that are slow from `limit_ns` on: the slices are those of the verdict.
    pub fn judged(capture: &'c Capture, limit_ns: u64) -> CriticalPaths<'c> {
        CriticalPaths { cx: Context::judged(capture, limit_ns) }
    }

    /// All claimed segments of a request. Their lengths sum to the request's time.
    pub fn of(&self, request: &Judged<'c>) -> Vec<Slice<'c>> {
        of_request(&self.cx, request)
    }

    /// The frames that the slices' stacks consist of.
    pub fn frames(&self) -> &Frames<'c> {
        &self.cx.frames
    }
}

/// All claimed segments of a request. Their lengths sum to the request's time.
pub(crate) fn of_request<'c>(cx: &Context<'c>, request: &Judged<'c>) -> Vec<Slice<'c>> {
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
