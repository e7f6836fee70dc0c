//! Of a wait: whether it ran to its time limit, whether it still goes on, and the name of the lock.
//!
//! How it works: samples of a thread in a futex have the futex. Samples of a blocker of a slow
//! request also have what is behind it (`Sample.lock`): a lock in static memory by its name,
//! Python's by the address of the object.

use analysis::signatures::{Pattern, Stdlib};
use analysis::thresholds;
use analysis::timeline::Segment;
use format::record::{flag, Sample, TARGET_IS_NAME};
use format::wait::WaitKind;

use crate::context::Context;

/// Whether the wait ended because its time was up: nobody ended it.
pub fn timed_out(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    let limited = |s: &&Sample| s.timeout_ns > 1 && s.flags & flag::USAGE == 0;
    let Some(sample) = segment.sample.filter(limited) else { return false };
    let end_ns = cx.whole_wait(segment).to_ns;
    let last = cx.capture.samples.get(&segment.tid).and_then(|s| s.last());
    // By samples alone, of a thread that was not seen again, it lasted up to one more sample
    // longer.
    let slack_ns = match last {
        Some(last) if !segment.exact && last.t_ns <= end_ns => {
            thresholds::sampled_ns() + thresholds::just_before_ns()
        }
        _ => thresholds::just_before_ns(),
    };
    end_ns.saturating_add(slack_ns) >= sample.t_ns.saturating_add(sample.timeout_ns)
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
