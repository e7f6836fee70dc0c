//! The slices of a request on an event loop: its time, cut by what its task was seen to await.
//!
//! The loop's thread comes first where it was kept from its poll call, by code in one place or by a
//! stopped process: then the task could not have gone on whatever it awaited. Unless it awaited a
//! peer and went on doing so for as long after that: then it was not the loop that it waited for.
//!
//! ```text
//!   loop's thread:  poll | callback | poll          | blocked by other code | poll
//!   task, seen:        . sleep   .  sleep  . sleep      .  sleep     .          . lock
//!   reported:       sleep ........................... | loop-blocked          | lock-wait
//! ```

use analysis::frames::Owner;
use analysis::requests::Judged;
use analysis::resource::Resource;
use analysis::timeline::{overlap_ns, Segment, State};
use capture::read::{Frame, TaskRow};
use format::record::Await;
use format::wait::{AwaitKind, WaitKind};

use crate::cause::Cause;
use crate::causes;
use crate::claim::{Claim, Slice};
use crate::context::Context;
use crate::critical_path::{fellows, followed};
use crate::facts::awaits::{AwaitTimeline, Awaited};
use crate::facts::pools;

/// Claimed segments of a request on an event loop. While a part of its work is with another thread,
/// they are that thread's, unless its task was seen to await something else or the loop itself
/// waited for a result. Otherwise they are what the loop did and what the task was seen to await.
/// They begin at its arrival: what the loop did instead of taking it up is part of it.
pub(crate) fn slices<'c>(cx: &Context<'c>, request: &Judged<'c>) -> Vec<Slice<'c>> {
    let (row, mut out, mut at) = (request.row, Vec::new(), request.row.begin_ns);
    let line = AwaitTimeline::of(cx, request);
    let handed = cx.handed(row.id);
    let mut tasks: Vec<&TaskRow> = handed.filter(|t| t.tid != row.tid).collect();
    tasks.sort_by_key(|t| t.queued_ns);
    let alone = |from_ns: u64, to_ns: u64, out: &mut Vec<Slice<'c>>| {
        for segment in cx.timeline(row.tid, from_ns, to_ns) {
            of_segment(cx, request, &line, segment, out);
        }
    };
    for task in tasks {
        let (from_ns, to_ns) = (task.queued_ns.max(at), task.end_ns.min(request.end_ns));
        let apart =
            |from, to| line.awaits_else(from, to) || waits_for_result(cx, row.tid, from, to);
        if from_ns < to_ns && !apart(from_ns, to_ns) {
            alone(at, from_ns, &mut out);
            let (state, exact) = (State::Wait, cx.capture.has_switches(from_ns, to_ns));
            let (sample, sampled) = (None, false);
            let handed = Segment { tid: row.tid, from_ns, to_ns, state, sample, sampled, exact };
            // A native runtime's task was suspended, and another of its workers went on with it: it
            // was in nobody's queue until then.
            let on_worker = || cx.is_loop(&Segment { tid: task.tid, ..handed });
            if cx.frames.is_native_program() && (on_worker() || is_poll(cx, task)) {
                for segment in cx.timeline(task.tid, from_ns, to_ns) {
                    of_segment(cx, request, &line, segment, &mut out);
                }
                at = to_ns;
                continue;
            }
            let before = out.len();
            followed::through_task(cx, row.id, handed, task, 0, &mut out);
            // Time in the executor's queue belongs to the code that awaits, not to the loop's.
            let stack = line.stack_in(from_ns, to_ns);
            // So does the work of a thread without code of its own.
            let own =
                |f: &Frame<'_>| matches!(cx.frames.owner(f.file), Owner::User | Owner::Library);
            let nobodys =
                |p: &&mut Slice<'_>| p.segment.tid == row.tid || !cx.frames.any(p.claim.stack, own);
            out[before..].iter_mut().filter(nobodys).for_each(|p| p.claim.stack = stack);
            at = to_ns;
        }
    }
    alone(at, request.end_ns, &mut out);
    blame_who_kept_all_from_polling(cx, request, &line, &mut out);
    name_spans(cx, request, &mut out);
    out
}

/// Whether what another thread did for a request is a poll of its native task: a suspension ended
/// in it.
fn is_poll(cx: &Context<'_>, task: &TaskRow) -> bool {
    let own = cx.capture.suspensions.get(&task.request).map_or(&[][..], Vec::as_slice);
    own.iter().any(|s| (task.begin_ns..=task.end_ns).contains(&s.in_ns))
}

/// While a worker of a native runtime was kept, and nobody polled, no task went on that awaited
/// something from outside: whatever it awaited may have been there.
fn blame_who_kept_all_from_polling<'c>(
    cx: &Context<'c>,
    request: &Judged<'c>,
    line: &AwaitTimeline<'c>,
    slices: &mut [Slice<'c>],
) {
    use Cause::{Connect, DownstreamWait, Sleep, Unknown};
    let needs_polling = |slice: &&mut Slice<'_>| {
        matches!(slice.claim.cause, Connect | DownstreamWait | Sleep | Unknown)
            && cx.is_parked_worker(&slice.segment)
    };
    if !cx.frames.is_native_program() || !slices.iter_mut().any(|s| needs_polling(&s)) {
        return;
    }
    let mut kept = cx.kept_while_nobody_polled((request.row.begin_ns, request.end_ns));
    kept.retain(|one| !line.outlasts(cx, one));
    for slice in slices.iter_mut().filter(needs_polling) {
        let times = slice.segment.times();
        let covers = |one: &&Segment<'_>| overlap_ns(one.times(), times) * 2 > slice.segment.ns();
        let Some(one) = kept.iter().find(covers) else { continue };
        if let Some(claim) = causes::of_the_loop(cx, one) {
            // It is what the worker that was kept did.
            let (from_ns, to_ns) = times;
            *slice = Slice { segment: Segment { from_ns, to_ns, ..*one }, claim };
        }
    }
}

/// Time in which a native runtime's task was suspended passed in the innermost span that was open
/// all that time.
fn name_spans(cx: &Context<'_>, request: &Judged<'_>, slices: &mut [Slice<'_>]) {
    let unread = |slice: &&mut Slice<'_>| {
        matches!(slice.claim.resource, Some(Resource::NativeAwait { span: None }))
    };
    let mut unread = slices.iter_mut().filter(unread).peekable();
    if unread.peek().is_none() {
        return;
    }
    let own = cx.capture.spans.iter().filter(|s| s.request == request.row.id);
    let own: Vec<_> = own.collect();
    for slice in unread {
        let (from_ns, to_ns) = slice.segment.times();
        let around = own.iter().filter(|s| s.begin_ns <= from_ns && s.end_ns >= to_ns);
        let span = around.max_by_key(|s| s.begin_ns).map(|s| cx.capture.name(s.name).to_owned());
        slice.claim.resource = Some(Resource::NativeAwait { span });
    }
}

/// Whether a loop's thread waited for the result of a pool most of the time, as no task does that
/// awaits it: that stops all its requests.
fn waits_for_result(cx: &Context<'_>, tid: u32, from_ns: u64, to_ns: u64) -> bool {
    let waits = |s: &Segment<'_>| {
        s.state == State::Wait && s.wait() == WaitKind::Futex && pools::is_of_a_pool(cx, s.stack())
    };
    cx.ns_of(tid, (from_ns, to_ns), waits) * 2 > to_ns - from_ns
}

/// The intervals of a segment of the loop's thread, for a request whose task was seen in `line`.
pub fn of_segment<'c>(
    cx: &Context<'c>,
    request: &Judged<'_>,
    line: &AwaitTimeline<'c>,
    segment: Segment<'c>,
    out: &mut Vec<Slice<'c>>,
) {
    let kept = causes::of_the_loop(cx, &segment);
    if let Some(claim) = kept.filter(|_| !line.outlasts(cx, &segment)) {
        out.push(Slice { segment, claim });
        return;
    }
    for (part, row, is_exact) in line.cut(&segment) {
        let suspended = |row: &&Await| !matches!(row.kind, AwaitKind::Running | AwaitKind::Ready);
        let unseen = row.is_none();
        let Some(row) = row.filter(suspended) else {
            let claim = causes::claim(cx, &part);
            let is_open = unseen && claim.cause == Cause::Unknown;
            let likely = is_open.then(|| of_fellows(cx, request, &part)).flatten();
            out.push(likely.unwrap_or(Slice { claim, segment: part }));
            continue;
        };
        let estimate = Segment { exact: false, state: State::Wait, ..part };
        let claim = causes::awaited(cx, &line.whole(row), &estimate);
        // One sample of a task that did not move since, and until then, is enough.
        let claim = Claim { suspended: is_exact, seen: claim.seen || is_exact, ..claim };
        out.push(Slice { claim, segment: estimate });
    }
}

/// The same of a part in which the request's task was not seen and the loop had nothing to do.
fn of_fellows<'c>(cx: &Context<'c>, request: &Judged<'_>, part: &Segment<'c>) -> Option<Slice<'c>> {
    let row = fellows::of(cx, request, part)?;
    let estimate = Segment { exact: false, state: State::Wait, ..*part };
    let claim = causes::awaited(cx, &Awaited::over(row, part), &estimate);
    let claim = Claim { seen: false, by_fellows: true, ..claim };
    (claim.cause != Cause::Unknown).then_some(Slice { claim, segment: estimate })
}
