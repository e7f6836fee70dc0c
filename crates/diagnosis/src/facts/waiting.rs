//! Of a wait: whether it ran to its time limit, whether it still goes on, whether another thread
//! polls for it, and the name of the lock.
//!
//! How it works: samples of a thread in a futex have the futex. Samples of a blocker of a slow
//! request also have what is behind it (`Sample.lock`): a lock in static memory by its name,
//! Python's by the address of the object.

use analysis::resource::Resource;
use analysis::signatures::{self, Pattern, Stdlib};
use analysis::thresholds;
use analysis::timeline::{Segment, State};
use format::record::{flag, Sample, TARGET_IS_NAME};
use format::wait::WaitKind;

use crate::context::Context;
use crate::facts::{pools, threads};
use crate::memo::{Asked, LimitedWaits};

/// Whether the wait ended because its time was up: nobody ended it, and its thread did not ask for
/// the same again.
pub fn timed_out(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    let limited = |s: &&Sample| s.timeout_ns > 1 && s.flags & flag::USAGE == 0;
    let Some(sample) = segment.sample.filter(limited) else { return false };
    // A pause between two questions for a lock ends by itself: that is no limit of the wait.
    if sample.wait == WaitKind::Sleep && cx.frames.asks_for_a_lock(sample.stack) {
        return false;
    }
    // Of one in slices the last one counts: before it the thread asked again.
    let sample = cx.slices(segment.tid, sample).map_or(sample, |(_, last)| last);
    let end_ns = cx.whole_wait(segment).to_ns;
    let last = cx.capture.samples.get(&segment.tid).and_then(|s| s.last());
    // By samples alone, of a thread that was not seen again, it lasted up to one more sample
    // longer.
    let slack_ns = match last {
        // No timer is early: the limit is counted from the call, just before the thread went off.
        _ if segment.exact => thresholds::turn_ns(),
        Some(last) if last.t_ns <= end_ns => {
            thresholds::sampled_ns() + thresholds::just_before_ns()
        }
        _ => thresholds::just_before_ns(),
    };
    let ran_out = end_ns.saturating_add(slack_ns) >= sample.t_ns.saturating_add(sample.timeout_ns);
    ran_out && !goes_on_unseen(cx, segment, sample)
}

/// Whether a thread that asks in slices, as waits at this place show, may have asked once more
/// after the slice of `sample`, and got its notice before any sample saw that. By switch records it
/// went off its CPU again at once, for less time than the slice; without them notices come there,
/// or there was time for one before the next sample, or the request's end.
///
/// Or it got its notice just as that slice ran out: another wait there asked on after more time and
/// as many limits, so it is no limit of time or tries that ended this one.
fn goes_on_unseen(cx: &Context<'_>, segment: &Segment<'_>, sample: &Sample) -> bool {
    let others = limited_waits(cx, sample.stack);
    if !others.in_slices {
        return false;
    }
    let (own, longest) = (asked(cx, segment.tid, sample), others.longest_asked);
    if longest.ns > own.ns && longest.limits >= own.limits {
        return true;
    }
    let Some(slice) = cx.off_at(segment.tid, sample.t_ns).filter(|_| segment.exact) else {
        let next = cx.samples_in(segment.tid, sample.t_ns + 1, u64::MAX).first();
        let done_ns = done_ns(cx, segment.tid, sample.t_ns);
        let until_ns = next.map(|s| s.t_ns).into_iter().chain(done_ns).min();
        let limit_ns = sample.t_ns.saturating_add(sample.timeout_ns);
        let had_time = until_ns.is_none_or(|ns| ns > limit_ns + thresholds::just_before_ns());
        return others.noticed || had_time;
    };
    let limit_ns = slice.in_ns - slice.out_ns;
    let off = cx.off_cpu(segment.tid);
    let mut end_ns = slice.in_ns;
    for next in &off[off.partition_point(|o| o.out_ns < slice.in_ns)..] {
        if next.out_ns - end_ns > thresholds::turn_ns() {
            return false;
        }
        let seen = cx.samples_in(segment.tid, next.out_ns, next.in_ns);
        // To ask again it needs the GIL.
        if !seen.is_empty() && seen.iter().all(|s| s.wait == WaitKind::Gil) {
            end_ns = next.in_ns;
            continue;
        }
        let early = next.in_ns - next.out_ns + thresholds::just_before_ns() < limit_ns;
        return early && cx.samples_in(segment.tid, end_ns, next.in_ns).is_empty();
    }
    false
}

/// Of several threads in one call of a library one polls for all, and the others wait until it has
/// something for them, or it is their turn to poll: a sample of one that polls. A lock of C code is
/// waited for without a time limit, such a notice is not.
pub fn polled_by_another<'c>(cx: &Context<'c>, segment: &Segment<'_>) -> Option<&'c Sample> {
    let own = segment.sample.filter(|_| segment.state == State::Wait)?;
    let limited = own.timeout_ns > 1 && own.flags & flag::USAGE == 0;
    let notice = own.wait == WaitKind::Futex && limited;
    notice.then(|| cx.frames.polls_in_same_call(segment.stack())).flatten()
}

/// Whether the wait around `segment` went on when the capture ended: nobody ended it.
pub fn is_still_waiting(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    if let Some(around) = cx.off_around(segment) {
        return around.in_ns >= cx.capture.meta.to_ns;
    }
    let Some(own) = segment.sample else { return false };
    let later = cx.samples_in(segment.tid, own.t_ns, u64::MAX);
    let same = |s: &Sample| s.wait == own.wait && s.target == own.target && s.stack == own.stack;
    let ended = cx.request_end(segment.tid, own.t_ns);
    later.iter().all(same) && ended.is_none_or(|end| end >= cx.capture.meta.to_ns)
}

/// What a wait was for that a thread was to end by notice and that ran to its time limit: nobody
/// gave notice. A Condition is there for that, and a Barrier that too few threads came to. An Event
/// is waited for with a limit as a pause, too: it counts where another wait at the same place did
/// get its notice.
pub fn missed_notice(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Resource> {
    let stack = segment.stack();
    let waits = segment.wait() == WaitKind::Futex && cx.frames.leaf_at(stack, Stdlib::Wait);
    if !waits || pools::is_of_a_pool(cx, stack) {
        return None;
    }
    if !ran_out(cx, segment) {
        return None;
    }
    match cx.frames.resource(stack, &signatures::NOTICES)? {
        Resource::Event(_) if !limited_waits(cx, stack).noticed => None,
        notice @ (Resource::Event(_) | Resource::Condition(_) | Resource::Barrier) => Some(notice),
        _ => None,
    }
}

/// Whether the wait timed out. One that still went on at the capture's end is like those at its
/// place that ended: it counts where some of them timed out, and none asked again then.
pub fn ran_out(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    let limited = || segment.sample.is_some_and(|s| s.timeout_ns > 1);
    let open = || limited() && is_still_waiting(cx, segment);
    let others = || limited_waits(cx, segment.stack());
    timed_out(cx, segment) || open() && others().ran_out && !others().in_slices
}

/// How waits with a time limit at the place of `stack` ended. Cost: one walk over all samples,
/// once for each stack.
fn limited_waits(cx: &Context<'_>, stack: u32) -> LimitedWaits {
    if let Some(known) = cx.limited_waits.borrow().get(&stack) {
        return *known;
    }
    let mut found = LimitedWaits::default();
    let there = |s: &Sample| {
        let limited = s.timeout_ns > 1 && s.flags & flag::USAGE == 0;
        s.wait == WaitKind::Futex && limited && cx.same_place(s.stack, stack)
    };
    for (tid, samples) in &cx.capture.samples {
        for (i, sample) in samples.iter().enumerate().filter(|(_, sample)| there(sample)) {
            let limit_ns = sample.t_ns.saturating_add(sample.timeout_ns);
            if asks_again(cx, *tid, (sample, limit_ns), &samples[i + 1..], there) {
                let asked = asked(cx, *tid, sample);
                found.in_slices = true;
                if asked.ns > found.longest_asked.ns {
                    found.longest_asked = asked;
                }
            }
            let until_ns = cx.off_at(*tid, sample.t_ns).map(|off| off.in_ns);
            let gone = |s: &&Sample| s.wait != sample.wait || s.stack != sample.stack;
            let moved_ns = || samples[i..].iter().find(gone).map(|s| s.t_ns);
            let done_ns = || done_ns(cx, *tid, sample.t_ns);
            let until_ns = until_ns.or_else(|| moved_ns().into_iter().chain(done_ns()).min());
            let Some(until_ns) = until_ns.filter(|ns| *ns < cx.capture.meta.to_ns) else {
                continue;
            };
            let early = until_ns.saturating_add(thresholds::just_before_ns()) < limit_ns;
            found.noticed |= early;
            found.ran_out |=
                !early && until_ns <= limit_ns.saturating_add(thresholds::sampled_ns());
        }
    }
    cx.limited_waits.borrow_mut().insert(stack, found);
    found
}

/// How far a thread has come when the slice of `sample` runs out.
fn asked(cx: &Context<'_>, tid: u32, sample: &Sample) -> Asked {
    let first = cx.slices(tid, sample).map_or(sample, |(first, _)| first);
    let begin_ns = cx.off_at(tid, first.t_ns).map_or(first.t_ns, |off| off.out_ns);
    let (mut limits, mut limit_ns) = (0, 0);
    for seen in cx.samples_in(tid, first.t_ns, sample.t_ns + 1) {
        let limited = seen.timeout_ns > 1 && seen.flags & flag::USAGE == 0;
        if seen.wait == WaitKind::Futex && limited && seen.t_ns >= limit_ns {
            limits += 1;
            limit_ns = seen.t_ns.saturating_add(seen.timeout_ns);
        }
    }
    Asked { ns: limit_ns.saturating_sub(begin_ns), limits }
}

/// When a thread was done with what it was at: the end of its request, or its own.
fn done_ns(cx: &Context<'_>, tid: u32, t_ns: u64) -> Option<u64> {
    cx.request_end(tid, t_ns).or_else(|| threads::end_of(cx, tid, t_ns))
}

/// Whether a thread asks for the same again when its time is up, by its `later` samples. Between
/// two slices it may be seen on a CPU, or waiting for the GIL.
fn asks_again(
    cx: &Context<'_>,
    tid: u32,
    (sample, limit_ns): (&Sample, u64),
    later: &[Sample],
    there: impl Fn(&Sample) -> bool,
) -> bool {
    let waits = |s: &&Sample| !matches!(s.wait, WaitKind::Running | WaitKind::Gil);
    let next = later.iter().filter(waits).find(|s| s.t_ns > limit_ns || !there(s));
    let at_once = |s: &Sample| {
        s.t_ns <= limit_ns.saturating_add(thresholds::samples_apart_ns())
            && cx.request_end(tid, s.t_ns) == cx.request_end(tid, sample.t_ns)
    };
    next.is_some_and(|s| there(s) && at_once(s))
}

/// Whether the code of a wait waits for a thread's end.
pub fn joins(cx: &Context<'_>, stack: u32) -> bool {
    cx.frames.fits(stack, Pattern::Within(2, Stdlib::ThreadJoin))
}

/// What is behind the futex that `segment` waits for, as any sample of that wait has it; 0:
/// nothing known.
pub(crate) fn lock_behind(cx: &Context<'_>, segment: &Segment<'_>) -> u64 {
    let Some(own) = segment.sample.filter(|s| s.wait == WaitKind::Futex) else { return 0 };
    if own.lock != 0 {
        return own.lock;
    }
    let mut seen = cx.samples_of(&cx.whole_wait(segment));
    seen.find_map(|s| (s.lock != 0).then_some(s.lock)).unwrap_or(0)
}

/// The name of the lock that `segment` waits for: `CACHE in libfoo.so`.
pub fn lock_name(cx: &Context<'_>, segment: &Segment<'_>) -> Option<String> {
    let lock = lock_behind(cx, segment);
    let named = lock & TARGET_IS_NAME != 0;
    let name = named.then(|| cx.capture.name(lock as u32).to_owned());
    name.filter(|name| !name.is_empty())
}
