//! The slices of a thread, and of the threads that it waited for.

use analysis::frames::Owner;
use analysis::resource::Resource;
use analysis::signatures::Stdlib;
use analysis::timeline::{self, overlap_ns, Segment, State};
use capture::read::{Frame, TaskRow};
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::causes;
use crate::claim::{Blocker, Claim, Slice};
use crate::context::Context;
use crate::critical_path::queued;
use crate::ended_by::holder;
use crate::explain::Inference;
use crate::facts::{pools, waiting};

/// How far work is followed from thread to thread.
const HOPS_MAX: u32 = 4;

/// Claimed segments of `tid` in `[from, to)`; while it waits for work handed to another thread for
/// this request, that thread's segments replace the wait. `all`: the interval that it is a part of,
/// which samples describe as a whole.
pub(crate) fn follow<'c>(
    cx: &Context<'c>,
    request: u64,
    tid: u32,
    (from_ns, to_ns): (u64, u64),
    all: (u64, u64),
    hops: u32,
    out: &mut Vec<Slice<'c>>,
) {
    let own = match hops {
        0 => timeline::of_request(cx.capture, tid, all.0, all.1),
        _ => cx.timeline(tid, all.0, all.1),
    };
    for segment in timeline::within(own, from_ns, to_ns) {
        let waits = segment.state == State::Wait && segment.wait() == WaitKind::Futex;
        let task = if waits && hops < HOPS_MAX { handed(cx, request, &segment) } else { None };
        match task {
            Some(task) => through_task(cx, request, segment, task, hops, out),
            None => match awaited_thread(cx, &segment).filter(|_| waits && hops < HOPS_MAX) {
                Some((found, _)) if queued::is_behind_other_work(cx, request, &segment, &found) => {
                    let (blocker, resource) = (Some(found), Some(Resource::Result));
                    let own = Claim::of(Cause::PoolWait, &segment).by_rule("queue-of-a-thread");
                    out.push(Slice { claim: Claim { blocker, resource, ..own }, segment });
                }
                Some((found, record)) => {
                    let (other, before) = (found.tid, out.len());
                    let part = segment.times();
                    let (begin, end) = cx.whole_wait(&segment).times();
                    let all = (begin.clamp(from_ns, part.0), end.clamp(part.1, to_ns));
                    follow(cx, request, other, part, all, hops + 1, out);
                    // A thread that was not seen explains nothing. One that was, for the most of
                    // the wait, leaves open what it did in the rest, such as before its first
                    // sample.
                    let seen = out[before..].iter().filter(|p| p.claim.stack != 0);
                    let seen_ns = seen.map(|p| p.segment.ns()).sum::<u64>();
                    if seen_ns * 2 < segment.ns() && !is_seen(cx, other, all) {
                        out.truncate(before);
                        out.push(Slice { claim: causes::claim(cx, &segment), segment });
                    }
                    let stack = segment.stack();
                    let others = |p: &&mut Slice<'_>| p.segment.tid != tid && p.claim.waiter == 0;
                    out[before..].iter_mut().filter(others).for_each(|p| p.claim.waiter = stack);
                    if !record {
                        out[before..].iter_mut().for_each(|slice| slice.claim.inferred = true);
                    }
                }
                None => out.push(Slice { claim: causes::claim(cx, &segment), segment }),
            },
        }
    }
}

/// Whether samples saw what a thread did in most of `[from, to)`.
fn is_seen(cx: &Context<'_>, tid: u32, (from_ns, to_ns): (u64, u64)) -> bool {
    cx.ns_of(tid, (from_ns, to_ns), |s| s.stack() != 0) * 2 >= to_ns - from_ns
}

/// The thread whose end or whose `Event.set` the code of `segment` waits for, as far as it is
/// known, and whether that was read: from the object that is joined, or recorded by the kernel.
/// What it did meanwhile is what the request waited for.
fn awaited_thread(cx: &Context<'_>, segment: &Segment<'_>) -> Option<(Blocker, bool)> {
    let mut waits = 0;
    let mut joins = false;
    for frame in cx.frames.of(segment.stack()).take(3) {
        waits += usize::from(cx.frames.is_at(&frame, Stdlib::Wait));
        joins |= cx.frames.is_at(&frame, Stdlib::ThreadJoin);
    }
    // `Event.wait` calls `Condition.wait`; one alone is a condition of the program's own. What a
    // pool hands out comes from no thread in particular.
    let pool = pools::is_of_a_pool(cx, segment.stack());
    if !joins && waits < 2 || pool || waiting::timed_out(cx, segment) {
        return None;
    }
    let found = holder::awaited_thread(cx, segment, joins)?;
    let (other, by) = (found.tid, found.by);
    // A thread in its own accept or poll loop is nobody's worker.
    let seen = cx.sample_near(other, segment.from_ns + segment.ns() / 2);
    let idles = seen.is_some_and(|s| matches!(s.wait, WaitKind::Accept | WaitKind::Poll));
    let read = by == Inference::ThreadEndRead;
    (read || !idles).then_some((found, read || by == Inference::WakeRecord))
}

/// The longest part of this request's work on another thread that `segment` waited for.
fn handed<'c>(cx: &Context<'c>, request: u64, segment: &Segment<'_>) -> Option<&'c TaskRow> {
    let overlap = |t: &&TaskRow| overlap_ns((t.queued_ns, t.end_ns), segment.times());
    let own = cx.handed(request).filter(|t| t.tid != segment.tid);
    own.max_by_key(overlap).filter(|t| overlap(t) * 2 >= segment.ns())
}

pub(crate) fn through_task<'c>(
    cx: &Context<'c>,
    request: u64,
    segment: Segment<'c>,
    task: &TaskRow,
    hops: u32,
    out: &mut Vec<Slice<'c>>,
) {
    let begun = task.begin_ns.clamp(segment.from_ns, segment.to_ns);
    let done = task.end_ns.clamp(begun, segment.to_ns);
    if begun > segment.from_ns {
        let queued = Segment { to_ns: begun, ..segment };
        let claim = queued::claim(cx, &queued, task.tid);
        out.push(Slice { segment: queued, claim });
    }
    if done > begun {
        let before = out.len();
        follow(cx, request, task.tid, (begun, done), (begun, done), hops + 1, out);
        // The work of a thread that has no code of the program's or a library's is reported where
        // that is waited for.
        let program =
            |f: &Frame<'_>| matches!(cx.frames.owner(f.file), Owner::User | Owner::Library);
        for slice in &mut out[before..] {
            let stack = slice.claim.stack;
            if stack != 0 && !cx.frames.any(stack, program) && segment.stack() != 0 {
                slice.claim.stack = segment.stack();
            }
        }
    }
    if segment.to_ns > done {
        let rest = Segment { from_ns: done, ..segment };
        out.push(Slice { claim: causes::claim(cx, &rest), segment: rest });
    }
}
