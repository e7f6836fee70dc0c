//! What kept the whole process from taking a request up: it was stopped, in the predicate, in a
//! collection, or its worker got no CPU.
//!
//! Each answers with how much of the time that covers.

use analysis::gaps::Gap;
use analysis::thresholds;
use analysis::timeline::{overlap_ns, Segment};
use capture::read::GcRow;

use crate::cause::Cause;
use crate::causes::cpus::cpu_throttled;
use crate::causes::recorder;
use crate::causes::system::stopped;
use crate::claim::{Blocker, Claim};
use crate::context::Context;
use crate::explain::Inference;
use crate::facts::long_work;

/// How much of the time it covers, and the claim.
pub(super) type Answer = Option<(u64, Claim)>;

/// The longest gap counts, as each has a reason of its own; but a quota that is used up stops the
/// process in each of its periods, again and again.
pub(super) fn still(cx: &Context<'_>, segment: &Segment<'_>) -> Answer {
    let of = |g: &Gap| overlap_ns((g.from_ns, g.to_ns), segment.times());
    let longest = cx.gaps.iter().max_by_key(|gap| of(gap))?;
    let cause = stopped::cause_of(longest);
    let same = |gap: &&Gap| stopped::cause_of(gap) == cause;
    let ns = match cause {
        Cause::CpuThrottled => cx.gaps.iter().filter(same).map(of).sum(),
        _ => of(longest),
    };
    Some((ns, Claim::of(cause, segment)))
}

/// The spans of the predicate are exact, and a thread in there may lack a CPU as well.
pub(super) fn asked(cx: &Context<'_>, segment: &Segment<'_>) -> Answer {
    let stack = cx.main_stack(segment.tid, segment.from_ns, segment.to_ns);
    Some((cx.predicate_ns(segment), Claim { stack, ..recorder::in_predicate(segment) }))
}

pub(super) fn collection(cx: &Context<'_>, segment: &Segment<'_>) -> Answer {
    let most = |g: &&GcRow| overlap_ns((g.begin_ns, g.end_ns), segment.times());
    let gc = cx.gcs_in(segment.from_ns, segment.to_ns).iter().max_by_key(most)?;
    let (from_ns, to_ns) =
        (gc.begin_ns.max(segment.from_ns), gc.end_ns.min(segment.to_ns).max(segment.from_ns));
    // It kept the GIL for as long as it got no CPU: then that is what the request waited for.
    if from_ns < to_ns && long_work::starves(cx, gc.tid, &Segment { from_ns, to_ns, ..*segment }) {
        return Some((most(&gc), Claim::of(Cause::CpuStarved, segment)));
    }
    let stack = cx.main_stack(gc.tid, gc.begin_ns, gc.end_ns);
    let blocker = Some(Blocker::thread(gc.tid, stack, true, Inference::GcRecord));
    Some((most(&gc), Claim { blocker, ..Claim::of(Cause::GcPause, segment) }))
}

/// The worker was runnable without a CPU: its next sample says for how long since the one before,
/// and the cgroup's counter whether the quota was used up then.
pub(super) fn starved(cx: &Context<'_>, segment: &Segment<'_>) -> Answer {
    let after = cx.samples_in(segment.tid, segment.from_ns, segment.to_ns + thresholds::stale_ns());
    let delay_ns = after.iter().map(|s| s.run_delay_ns).sum::<u64>().min(segment.ns());
    let cause = match cpu_throttled::is_throttled(cx, segment) {
        true => Cause::CpuThrottled,
        false => Cause::CpuStarved,
    };
    Some((delay_ns, Claim::of(cause, segment)))
}
