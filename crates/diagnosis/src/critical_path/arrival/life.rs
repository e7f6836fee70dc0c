//! What a thread did before a request was taken up, and whether a sample says so.

use analysis::thresholds;
use analysis::timeline::{Segment, State};
use format::record::Sample;

use crate::context::Context;
use crate::facts::imports;

/// What a thread did. Between two times at which others took its CPU it is seldom sampled, or
/// nothing of it can be read: such short runs are taken for the nearest sample that has a stack.
/// Samples of a program that loads cost so much that there may be none for a while: if two samples
/// saw it load, it loaded between them.
pub(super) fn life<'c>(cx: &Context<'c>, tid: u32, from: u64, to: u64) -> Vec<Segment<'c>> {
    let mut own = cx.timeline(tid, from, to);
    for run in own.iter_mut().filter(|s| s.state != State::Wait && is_short(s)) {
        if run.stack() == 0 {
            let (from, to) = (
                run.from_ns.saturating_sub(thresholds::borrowed_sample_ns()),
                run.to_ns + thresholds::borrowed_sample_ns(),
            );
            let samples = cx.samples_in(tid, from, to).iter().filter(|s| s.stack != 0);
            run.sample = samples.min_by_key(|s| s.t_ns.abs_diff(run.from_ns)).or(run.sample);
        }
    }
    for run in own.iter_mut().filter(|s| s.state != State::Wait && s.exact && s.stack() == 0) {
        run.sample = loading_around(cx, run).or(run.sample);
    }
    own
}

/// The sample before `run`, if it and the next saw the thread load modules, or if it did and the
/// process had not taken up any request by then: a program that starts has more to do than to load.
fn loading_around<'c>(cx: &Context<'c>, run: &Segment<'c>) -> Option<&'c Sample> {
    let seen = |from, to| cx.samples_in(run.tid, from, to).iter().filter(|s| s.stack != 0);
    let before = seen(run.from_ns.saturating_sub(thresholds::loading_apart_ns()), run.from_ns)
        .next_back()?;
    let behind =
        seen(run.from_ns, run.from_ns.saturating_add(thresholds::loading_apart_ns())).next()?;
    let loads = |s: &Sample| cx.frames.any(s.stack, imports::is_import);
    let starts = || cx.capture.requests.iter().all(|r| r.started_ns >= run.to_ns);
    (loads(before) && (loads(behind) || starts())).then_some(before)
}

/// Whether both ends are from the kernel's records and near: then it did run, or could have, in
/// between.
fn is_short(segment: &Segment<'_>) -> bool {
    segment.exact && segment.ns() < thresholds::borrowed_sample_ns()
}

/// Whether a sample says what it was: that no switch was recorded of a thread for long does not
/// mean that it ran, unless it was seen to, and where.
pub(super) fn is_known(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    let known = segment.state != State::Unknown && segment.sample.is_some();
    let loads = || segment.exact && cx.frames.any(segment.stack(), imports::is_import);
    let ran = segment.stack() != 0 && (segment.sampled || is_short(segment) || loads());
    known && (segment.state != State::Run || ran)
}
