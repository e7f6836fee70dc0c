//! Time in which a part of a request's work was in a queue: an executor's, or one that a thread of
//! the program's works off.

use analysis::frames::Owner;
use analysis::thresholds;
use analysis::timeline::{Segment, State};
use capture::read::Frame;
use format::record::Sample;
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::causes;
use crate::claim::{Blocker, Claim};
use crate::compare::{self, Question};
use crate::context::Context;
use crate::ended_by::holder;
use crate::explain::{Fate, Inference};
use crate::facts::{pools, threads};

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
    // Of a thread whose Python code was not read (it was being started) the system's library says
    // nothing.
    let python = |f: &Frame<'_>| f.file.ends_with(".py") || f.file.starts_with('<');
    let read = |c: &Blocker| cx.frames.any(c.stack, |f| own(f) || python(f));
    let blocker = blocker.filter(read);
    let own = Claim::of(Cause::PoolWait, segment).by_rule("executor-queue");
    Claim { blocker, seen: true, ..own }
}

/// Whether a wait for a thread's notice was a wait in line: the thread takes its work from a queue,
/// as it was seen to, and what it did for most of the wait it had begun before. So it was not for
/// this request, which the thread served behind it. Where nothing shows that, it may have been.
pub(super) fn is_behind_other_work(
    cx: &Context<'_>,
    request: u64,
    segment: &Segment<'_>,
    found: &Blocker,
) -> bool {
    let takes_work = |s: &Sample| s.wait == WaitKind::Futex && pools::is_idle(cx, s.stack);
    cx.frames.has_user(found.stack)
        && cx.all_samples(found.tid).iter().any(takes_work)
        && (was_there_before(cx, segment, found) || was_at_work_before(cx, request, segment, found))
}

/// Whether a sample shortly before the wait saw the thread in the function that it was in for most
/// of it.
fn was_there_before(cx: &Context<'_>, segment: &Segment<'_>, found: &Blocker) -> bool {
    let (from_ns, _) = cx.whole_wait(segment).times();
    let near_ns = from_ns.saturating_sub(thresholds::samples_apart_ns());
    let place = |stack: u32| cx.frames.innermost_user(stack).map(|p| p.in_function());
    let before = cx.samples_in(found.tid, 0, from_ns).last().filter(|s| {
        let out = threads::off_cpu_until(cx, found.tid, s.t_ns);
        s.t_ns >= near_ns || out.is_some_and(|until_ns| until_ns > from_ns)
    });
    before.is_some_and(|s| !pools::is_idle(cx, s.stack) && place(s.stack) == place(found.stack))
}

/// Whether switch records show that the thread did not wait from before the request began until
/// this wait did: nothing that the request asked for can have been the first it did.
fn was_at_work_before(
    cx: &Context<'_>,
    request: u64,
    segment: &Segment<'_>,
    found: &Blocker,
) -> bool {
    let (from_ns, _) = cx.whole_wait(segment).times();
    let row = cx.capture.requests.iter().find(|row| row.id == request);
    let Some(row) = row.filter(|row| row.begin_ns < from_ns) else { return false };
    let since_ns = row.begin_ns.saturating_sub(thresholds::turn_ns());
    let own = cx.timeline(found.tid, since_ns, from_ns);
    let awake =
        |s: &Segment<'_>| matches!(s.state, State::Run | State::Ready) || s.wait() == WaitKind::Gil;
    !own.is_empty() && own.iter().all(|s| s.exact && awake(s))
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
