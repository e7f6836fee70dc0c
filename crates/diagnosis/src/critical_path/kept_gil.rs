//! The GIL, while a request lay in its socket: how long threads waited for it, and its holder.

use analysis::thresholds;
use analysis::timeline::{Segment, State};
use format::record::Sample;
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::claim::Claim;
use crate::context::Context;
use crate::ended_by::read::gil;
use crate::facts::long_work;

/// Threads whose waits for the GIL are considered.
const THREADS_MAX: usize = 32;

/// Whether the holder of the GIL would have kept it too long on a free machine as well: then it
/// does not matter that the waiters got no CPU either.
pub(crate) fn for_long(cx: &Context<'_>, claim: &Claim, segment: &Segment<'_>) -> bool {
    claim.blocker.is_some_and(|c| long_work::works_long(cx, c.tid, segment))
}

/// The thread that waited longest for the GIL stands for all. Each wait for it lasts 5 ms at most,
/// and to begin the next one takes a CPU: time without one in between belongs to it. So do waits of
/// which samples saw only the moments in between (`asks_throughout`).
pub(crate) fn answer(cx: &Context<'_>, segment: &Segment<'_>) -> Option<(u64, Claim)> {
    let (from, to) = segment.times();
    let waits = |tid: u32| -> Vec<Segment<'_>> {
        let all = cx.timeline(tid, from, to);
        let asks = |s: &Segment<'_>| {
            s.state == State::Wait && s.wait() == WaitKind::Gil && is_watched(cx, s)
        };
        if !all.iter().any(asks) {
            return Vec::new();
        }
        let near = |i: usize| all[i].state == State::Ready && is_between_asks(&all, i, &asks);
        let row = asks_throughout(cx, &all, &asks);
        let within = |s: &Segment<'_>| {
            s.state != State::Run && row.iter().any(|(a, b)| *a <= s.from_ns && s.to_ns <= *b)
        };
        let belongs = |i: usize| asks(&all[i]) || near(i) || within(&all[i]);
        (0..all.len()).filter(|i| belongs(*i)).map(|i| all[i]).collect()
    };
    let saw = |tid: &&u32| cx.samples_in(**tid, from, to).iter().any(|s| s.wait == WaitKind::Gil);
    let threads = cx.threads.iter().filter(saw).copied();
    let longest = threads.take(THREADS_MAX).map(waits);
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

/// Stretches in which a thread did nothing but ask for the GIL: waits and times without a CPU, with
/// hardly any running in between, where some sample found it asking, none at another wait, and all
/// at one place. On a crowded machine a thread that asks every 5 ms is mostly found about to ask
/// again, and a wait that no sample hit says nothing by itself. From the first such sample to the
/// last.
fn asks_throughout(
    cx: &Context<'_>,
    all: &[Segment<'_>],
    asks: &impl Fn(&Segment<'_>) -> bool,
) -> Vec<(u64, u64)> {
    let links = |s: &Segment<'_>| match s.state {
        State::Ready => true,
        State::Run => s.exact && s.ns() < thresholds::asking_ns(),
        State::Wait => {
            use WaitKind::{Gil, Running, Unknown};
            s.exact && matches!(s.wait(), Gil | Running | Unknown)
        }
        State::Unknown => false,
    };
    let mut out = Vec::new();
    for row in all.split(|s| !links(s)).filter(|row| row.iter().any(asks)) {
        let (Some(first), Some(last)) = (row.first(), row.last()) else { continue };
        let seen = cx.samples_in(first.tid, first.from_ns, last.to_ns);
        let (Some(from), Some(to)) = (seen.first(), seen.last()) else { continue };
        let alike = |s: &Sample| {
            matches!(s.wait, WaitKind::Gil | WaitKind::Running) && s.stack == from.stack
        };
        if from.stack == 0 || !seen.iter().all(alike) {
            continue;
        }
        let begin = row.iter().rev().find(|s| s.from_ns <= from.t_ns).unwrap_or(first);
        let end = row.iter().find(|s| s.to_ns >= to.t_ns).unwrap_or(last);
        out.push((begin.from_ns, end.to_ns));
    }
    out
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
