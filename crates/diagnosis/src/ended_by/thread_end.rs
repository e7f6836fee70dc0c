//! The thread whose end was waited for.
//!
//! How it works: samples read it from the object that is joined. Else it is a thread that was seen
//! during the wait, in the code of the file that waits, and never behind it.

use analysis::thresholds;
use analysis::timeline::Segment;
use format::record::Sample;
use format::wait::{HolderSource, WaitKind};

use crate::context::Context;
use crate::ended_by::ran_before;
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

/// A thread that was seen during the wait around `segment`, in the code of the file that waits,
/// and never behind it: for waits for a thread's end. None when several fit, at different
/// places.
pub fn ended_at(cx: &Context<'_>, segment: &Segment<'_>) -> Option<u32> {
    segment.sample?;
    let (from, to) = cx.whole_wait(segment).times();
    let file = cx.frames.innermost(segment.stack())?.file;
    let ended = |tid: &u32, samples: &[Sample]| {
        let last = samples.last().map_or(0, |s| s.t_ns);
        let inside = *tid != segment.tid && (from..to).contains(&last);
        inside
            && !lives_behind(cx, *tid, to)
            && lives_until(cx, *tid, to, segment.exact)
            && cx.frames.any(cx.main_stack(*tid, from, to), |f| f.file == file)
    };
    let all = cx.capture.samples.iter().filter(|(tid, samples)| ended(tid, samples));
    let mut able: Vec<u32> = all.map(|(tid, _)| *tid).collect();
    able.sort_unstable();
    // They are started to be waited for.
    able.retain(|tid| is_born_at(cx, *tid, from));
    let one = able.len() == 1 || ran_before::at_one_place(cx, &able, from, to);
    able.last().copied().filter(|_| one)
}

/// Whether `tid` was recorded until shortly before `t_ns`; a thread that ended long before
/// ended nobody's wait then.
fn lives_until(cx: &Context<'_>, tid: u32, t_ns: u64, exact: bool) -> bool {
    let seen = cx.capture.samples.get(&tid).and_then(|s| s.last()).map_or(0, |s| s.t_ns);
    let off = cx.capture.off_cpu.get(&tid).and_then(|o| o.last()).map_or(0, |o| o.in_ns);
    let near_ns = match exact {
        true => thresholds::sample_near_ns(),
        false => thresholds::stale_ns(),
    };
    seen.max(off) + near_ns >= t_ns
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
