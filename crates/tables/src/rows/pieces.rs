//! How the verdict divided the time of the requests that it compared.
//!
//! Costs as much as `dashcam why`.

use analysis::frames::Frames;
use analysis::requests::{Judged, Requests};
use diagnosis::{CriticalPaths, Slice};

use super::states::word;
use crate::cell::{always, id, int, maybe, text, Cell, Kind};
use crate::table::Rows;
use crate::{Halt, Sink, Source, Table};

/// At most this many slow requests, and as many normal ones, are divided: the same number as in
/// `why`.
const MOST: usize = 200;

pub(crate) const SLICES: Table = Table {
    name: "pieces",
    about: "How `why` divided a request's time: intervals that do not overlap and sum to its \
         duration, also of other threads that worked for it. For the 200 slowest slow requests \
         and up to 200 normal ones with the same names, spread over the capture. By request and \
         time.",
    columns: &[
        always("request_id", Kind::Int, "The request"),
        always("is_slow", Kind::Bool, "A slow request; else a normal one to compare with"),
        always("begin_ns", Kind::Int, "Begin"),
        always("begin_utc", Kind::Utc, "The same by the wall clock"),
        always("end_ns", Kind::Int, "End"),
        always("duration_ns", Kind::Int, "From begin to end"),
        maybe("tid", Kind::Int, "Thread whose time it is"),
        always("state", Kind::Text, "`run`, `ready`, `wait`, `unknown`"),
        always("cause", Kind::Text, "Its cause: sleep, lock-wait, gil-wait, cpu, unknown, ..."),
        maybe("stack_id", Kind::Int, "The stack that shows where"),
        maybe("place", Kind::Text, "The frame that the verdict would name"),
        maybe("target", Kind::Text, "What was waited for"),
        maybe("culprit_tid", Kind::Int, "Thread that is to blame, if it is another one"),
        maybe("culprit_stack_id", Kind::Int, "Stack of that thread"),
        maybe("culprit_place", Kind::Text, "Its innermost frame of the user's or a library's code"),
        maybe(
            "is_culprit_measured",
            Kind::Bool,
            "The culprit was read from the lock or the interpreter",
        ),
        always("is_exact", Kind::Bool, "The times are from switch records; else an estimate"),
        always("is_seen", Kind::Bool, "A sample in this interval saw the wait"),
        always(
            "is_inferred",
            Kind::Bool,
            "Time of another thread, inferred because it ran at the end",
        ),
    ],
    rows: Rows::Judged(slices),
};

fn slices(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let mut requests = Requests::divide(capture, |name| source.limit_ns(name));
    let paths = CriticalPaths::judged(capture, requests.threshold_ns);
    requests.slow.truncate(MOST);
    let mut normal = requests.controls(MOST);
    if let Some(excerpt) = &capture.excerpt {
        // What the others did was not read.
        requests.slow.retain(|r| excerpt.requests.contains(&r.row.id));
        normal.retain(|r| excerpt.requests.contains(&r.row.id));
    }
    let slow = requests.slow.iter().map(|r| (true, *r));
    let mut all: Vec<(bool, Judged<'_>)> =
        slow.chain(normal.into_iter().map(|r| (false, r))).collect();
    all.sort_by_key(|(_, r)| (r.row.begin_ns, r.row.id));
    for (is_slow, request) in all {
        let mut own = paths.of(&request);
        own.sort_by_key(|p| (p.segment.from_ns, p.segment.to_ns));
        for slice in own.iter().filter(|p| p.segment.ns() > 0) {
            row(source, sink, (request.row.id, is_slow), paths.frames(), slice)?;
        }
    }
    Ok(())
}

fn row(
    source: &Source,
    sink: &mut Sink<'_>,
    (request, is_slow): (u64, bool),
    frames: &Frames<'_>,
    slice: &Slice<'_>,
) -> Result<(), Halt> {
    let (segment, claim) = (&slice.segment, &slice.claim);
    let target = claim.resource.as_ref().map(ToString::to_string);
    let place = frames.innermost_user(claim.stack).map(|p| p.short());
    // The culprit is a task of an event loop; it runs on the loop's thread.
    let culprit = claim.blocker;
    let blamed = culprit.and_then(|c| frames.innermost_user(c.stack)).map(|p| p.short());
    sink.row([
        int(request),
        Cell::Bool(is_slow),
        int(segment.from_ns),
        Cell::Int(source.utc_us(segment.from_ns)),
        int(segment.to_ns),
        int(segment.ns()),
        id(segment.tid),
        Cell::Text(word(segment.state)),
        Cell::Text(claim.cause.text()),
        source.stack(claim.stack),
        text(place.as_deref()),
        text(target.as_deref()),
        culprit.map_or(Cell::Null, |c| id(c.tid)),
        culprit.map_or(Cell::Null, |c| source.stack(c.stack)),
        text(blamed.as_deref()),
        culprit.map_or(Cell::Null, |c| Cell::Bool(c.measured)),
        Cell::Bool(segment.exact),
        Cell::Bool(claim.seen),
        Cell::Bool(claim.inferred),
    ])
}
