//! Time in which a part of a request's work was in an executor's queue.

use analysis::frames::Owner;
use analysis::timeline::{Segment, State};
use capture::read::Frame;

use crate::cause::Cause;
use crate::causes;
use crate::claim::{Blocker, Claim};
use crate::compare::{self, Question};
use crate::context::Context;
use crate::ended_by::holder;
use crate::explain::{Fate, Inference};
use crate::facts::pools;

/// A claim for time in which a part of the request's work was in an executor's queue. `worker` is
/// the thread that took it in the end. If that had nothing else to do, it delayed nothing: then the
/// claim is for what kept that thread from beginning, as far as it was seen.
pub fn claim(cx: &Context<'_>, segment: &Segment<'_>, worker: u32) -> Claim {
    let busy = works_for_others(cx, segment, worker);
    let stack = busy.unwrap_or_else(|| cx.main_stack(worker, segment.from_ns, segment.to_ns));
    if pools::is_idle(cx, stack) {
        let own = cx.timeline(worker, segment.from_ns, segment.to_ns);
        let kept = own.iter().filter(|s| s.state != State::Wait || !pools::is_idle(cx, s.stack()));
        let longest = kept.max_by_key(|s| s.ns()).filter(|s| s.ns() * 2 > segment.ns());
        let claim = longest.map(|s| causes::claim(cx, s));
        let outside = |c: &Claim| {
            use Cause::{CpuStarved, CpuThrottled, GcPause, GilWait, Recorder, Stopped};
            matches!(c.cause, CpuStarved | CpuThrottled | GcPause | GilWait | Recorder | Stopped)
        };
        return match claim.filter(outside) {
            Some(claim) => Claim { stack: segment.stack(), ..claim },
            None => Claim::of(Cause::Unknown, segment),
        };
    }
    let by = Inference::ExecutorRecord;
    let blocker = (stack != 0).then_some(Blocker::thread(worker, stack, true, by));
    if let Some(found) = &blocker {
        compare::keep_one(cx, Question::about(by, segment), found, Fate::Won);
    }
    // A worker that only waits, in the interpreter's own code, hands on what made it wait.
    let own = |f: &Frame<'_>| matches!(cx.frames.owner(f.file), Owner::User | Owner::Library);
    let blocker = blocker.map(|c| match cx.frames.any(c.stack, own) {
        true => c,
        false => holder::behind(cx, c, segment, true),
    });
    let own = Claim::of(Cause::PoolWait, segment).by_rule("executor-queue");
    Claim { blocker, seen: true, ..own }
}

/// Where `worker` was in what it did for other requests meanwhile, if that was most of the time; 0
/// where no sample saw it there.
fn works_for_others(cx: &Context<'_>, segment: &Segment<'_>, worker: u32) -> Option<u32> {
    let work = cx.served_in(worker, segment.from_ns, segment.to_ns);
    let ns = |(begin, end): &(u64, u64)| end - begin;
    if work.iter().map(ns).sum::<u64>() * 2 < segment.ns() {
        return None;
    }
    let seen = work.iter().map(|part| (ns(part), cx.main_stack(worker, part.0, part.1)));
    let seen = seen.filter(|(_, stack)| *stack != 0 && !pools::is_idle(cx, *stack));
    Some(seen.max().map_or(0, |(_, stack)| stack))
}
