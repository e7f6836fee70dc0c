//! The GIL, while a request lay in its socket: how long threads waited for it, and its holder.

use analysis::thresholds;
use analysis::timeline::{Segment, State};
use format::record::Sample;
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::claim::Claim;
use crate::context::Context;
use crate::ended_by::gil;
use crate::facts::long_work;

/// Threads whose waits for the GIL are considered.
const MOST_THREADS: usize = 32;

/// Whether the holder of the GIL would have kept it too long on a free machine as well: then it
/// does not matter that the waiters got no CPU either.
pub(crate) fn for_long(cx: &Context<'_>, claim: &Claim, segment: &Segment<'_>) -> bool {
    claim.blocker.is_some_and(|c| long_work::works_long(cx, c.tid, segment))
}

/// The thread that waited longest for the GIL stands for all. Each wait for it lasts 5 ms at most,
/// and to begin the next one takes a CPU: time without one in between belongs to it.
pub(crate) fn answer(cx: &Context<'_>, segment: &Segment<'_>) -> Option<(u64, Claim)> {
    let (from, to) = (segment.from_ns, segment.to_ns);
    let waits = |tid: u32| -> Vec<Segment<'_>> {
        let all = cx.timeline(tid, from, to);
        let asks = |s: &Segment<'_>| {
            s.state == State::Wait && s.wait() == WaitKind::Gil && is_watched(cx, s)
        };
        if !all.iter().any(asks) {
            return Vec::new();
        }
        let near = |i: usize| all[i].state == State::Ready && is_between_asks(&all, i, &asks);
        (0..all.len()).filter(|i| asks(&all[*i]) || near(*i)).map(|i| all[i]).collect()
    };
    let saw = |tid: &&u32| cx.samples_in(**tid, from, to).iter().any(|s| s.wait == WaitKind::Gil);
    let mut threads: Vec<u32> = cx.capture.samples.keys().filter(saw).copied().collect();
    // A map has no order, and only some are considered.
    threads.sort_unstable();
    let longest = threads.into_iter().take(MOST_THREADS).map(waits);
    let longest = longest.max_by_key(|w| w.iter().map(Segment::ns).sum::<u64>())?;
    let covered = longest.iter().map(Segment::ns).sum();
    let waiter = longest.first()?.tid;
    let asked = longest.iter().filter(|s| s.state == State::Wait);
    let blocker = gil::holder_in(cx, waiter, (from, to));
    let blocker = blocker.or_else(|| asked.max_by_key(|s| s.ns()).and_then(|s| gil::holder(cx, s)));
    // The holder had no CPU: all waited for that.
    if gil::is_starved(cx, &Segment { tid: waiter, ..*segment }) {
        return Some((covered, Claim::of(Cause::CpuStarved, segment)));
    }
    Some((covered, Claim { blocker, ..Claim::of(Cause::GilWait, segment) }))
}

/// Whether samples account for all of a wait for the GIL. The first sample of a thread says nothing
/// of the time long before: the thread may not have been there.
fn is_watched(cx: &Context<'_>, wait: &Segment<'_>) -> bool {
    let gil = |s: &Sample| s.wait == WaitKind::Gil;
    let before = || {
        cx.samples_in(
            wait.tid,
            wait.from_ns.saturating_sub(thresholds::sample_valid_ns()),
            wait.from_ns + 1,
        )
    };
    wait.exact || wait.ns() <= thresholds::sample_valid_ns() || before().last().is_some_and(gil)
}

/// Whether the time without a CPU at `at` lies beside a wait for the GIL, with hardly any running
/// in between: a thread that computes and loses its CPU waits for no GIL.
fn is_between_asks(all: &[Segment<'_>], at: usize, asks: &impl Fn(&Segment<'_>) -> bool) -> bool {
    let passes = |s: &&Segment<'_>| {
        s.state == State::Ready || s.state == State::Run && s.ns() < thresholds::asking_ns()
    };
    let before = all[..at].iter().rev().find(|s| !passes(s));
    let after = all[at + 1..].iter().find(|s| !passes(s));
    before.is_some_and(asks) || after.is_some_and(asks)
}
