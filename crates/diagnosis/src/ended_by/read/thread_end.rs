//! The thread whose end was waited for.
//!
//! How it works: samples read it from the object that is joined. Else it may be the thread that ran
//! last (`ran_before`), if that is not seen behind the wait.

use analysis::thresholds;
use analysis::timeline::Segment;
use format::record::Sample;
use format::wait::{HolderSource, WaitKind};

use crate::context::Context;
use crate::facts::threads;

/// The thread whose end `segment` waits for, as a sample of that wait read it.
pub fn joined(cx: &Context<'_>, segment: &Segment<'_>) -> Option<u32> {
    let target = segment.sample?.target;
    let (_, to) = cx.whole_wait(segment).times();
    let samples = cx.samples_in(segment.tid, 0, to.saturating_add(1)).iter().rev();
    let same = |s: &&Sample| s.wait == WaitKind::Futex && s.target == target;
    let mut own = samples.skip_while(|s| !same(s)).take_while(same);
    own.find(|s| s.holder_source == HolderSource::Joined).map(|s| s.lock_holder)
}

/// Whether anything was recorded of `tid` later than `t_ns`: a thread that waited for an end
/// until then waited for another thread's.
pub(crate) fn lives_behind(cx: &Context<'_>, tid: u32, t_ns: u64) -> bool {
    let seen = cx.capture.samples.get(&tid).and_then(|s| s.last()).map_or(0, |s| s.t_ns);
    let off = cx.capture.off_cpu.get(&tid).and_then(|o| o.last()).map_or(0, |o| o.out_ns);
    seen.max(off) > t_ns + thresholds::sampled_ns()
}

/// Whether the first that was recorded of `tid` is not much older than `t_ns`.
pub(crate) fn is_born_at(cx: &Context<'_>, tid: u32, t_ns: u64) -> bool {
    threads::first_seen(cx, tid).is_none_or(|first| first + 2 * thresholds::sampled_ns() >= t_ns)
}
