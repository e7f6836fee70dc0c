//! Slices of work on a machine that has too few CPUs for it: what is the work's, and what is the
//! machine's.
//!
//! How it works: time without a CPU within work that is long by itself (`facts::long_work`), or
//! long for the event loop that it keeps, counts as that work, and a thread that waits for the GIL
//! meanwhile waits for its holder. So does time in which work that keeps a loop waited for the GIL,
//! whose holder had no CPU. Otherwise it is cpu-starved.
//!
//! A thread that ran for microseconds at a time, many times over, may have given its CPU away
//! itself (`sched_yield` in a loop: a lock that spins), or others may have preempted it each time
//! they woke: the kernel's records are the same. Such time is nobody's.
//!
//! What it promises: lengths are as before, only their claims change; and of a request whose work
//! alone is within the limit nothing changes.

use std::collections::HashMap;

use analysis::resource::Resource;
use analysis::thresholds;
use analysis::timeline::State;
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::claim::{Claim, Slice};
use crate::context::Context;
use crate::facts::long_work;

/// Gives the time without a CPU inside of long work to that work. Of a request's intervals, in
/// order.
pub(crate) fn give_to_work(cx: &Context<'_>, slices: &mut [Slice<'_>]) {
    if !slices.iter().any(|p| p.claim.cause == Cause::CpuStarved) {
        return;
    }
    let mut ran: HashMap<u32, u64> = HashMap::new();
    for s in slices.iter().map(|p| &p.segment).filter(|s| s.state == State::Run) {
        *ran.entry(s.tid).or_default() += s.ns();
    }
    let long: Vec<bool> = slices
        .iter()
        .map(|p| {
            let (s, claim) = (&p.segment, &p.claim);
            match claim.cause {
                // Also its work in parts, with waits between them. What a thread did before or
                // after this request counts on an event loop only.
                Cause::CpuStarved if cx.is_loop(s) => long_work::keeps_loop(cx, s),
                Cause::CpuStarved => ran.get(&s.tid).is_some_and(|ns| *ns >= cx.limit_ns),
                // A thread that keeps the GIL for long also delays threads that could not even ask
                // for it.
                Cause::GilWait => {
                    claim.blocker.is_some_and(|c| long_work::works_long(cx, c.tid, s))
                }
                _ => false,
            }
        })
        .collect();
    let given: Vec<Option<Claim>> = (0..slices.len())
        .map(|i| {
            let segment = &slices[i].segment;
            let starved = slices[i].claim.cause == Cause::CpuStarved;
            // What keeps a loop keeps it while it waits for the GIL, too.
            let own = segment.state == State::Ready || cx.is_loop(segment);
            (starved && own).then(|| nearest(slices, &long, i)).flatten()
        })
        .collect();
    for (slice, claim) in slices.iter_mut().zip(given) {
        if let Some(claim) = claim {
            let stack = if slice.claim.stack != 0 { slice.claim.stack } else { claim.stack };
            let stack = if claim.blocker.is_some() { claim.stack } else { stack };
            slice.claim = Claim { stack, rule: "cpu-contention", ..claim };
        }
    }
}

/// The claim of the work, or of the wait for the GIL, that the thread was about before or after it
/// had no CPU; without a wait of another kind in between, nor, up to a wait for the GIL, work: a
/// thread that computes and loses its CPU waits for no GIL.
fn nearest(slices: &[Slice<'_>], long: &[bool], at: usize) -> Option<Claim> {
    let own = &slices[at];
    let fits = |i: &usize| {
        let (claim, state) = (&slices[*i].claim, slices[*i].segment.state);
        let work = long[at] && state == State::Run;
        work || claim.cause == Cause::GilWait && long[*i] && hardly_runs(slices, at, *i)
    };
    let passes = |i: &usize| {
        let s = &slices[*i].segment;
        let awake = matches!(s.state, State::Run | State::Ready) || s.wait() == WaitKind::Gil;
        s.tid == own.segment.tid && awake
    };
    let before = (0..at).rev().take_while(passes).find(fits);
    let after = (at + 1..slices.len()).take_while(passes).find(fits);
    let away = |i: &usize| at.abs_diff(*i);
    let found = before.into_iter().chain(after).min_by_key(away)?;
    Some(slices[found].claim.clone())
}

/// Whether the thread hardly ran between two of its intervals.
fn hardly_runs(slices: &[Slice<'_>], a: usize, b: usize) -> bool {
    let between = &slices[a.min(b) + 1..a.max(b)];
    between
        .iter()
        .all(|p| p.segment.state != State::Run || p.segment.ns() < thresholds::asking_ns())
}

/// Takes time without a CPU between runs of microseconds from cpu-starved. Of a request's
/// intervals, in order.
pub(crate) fn doubt_short_runs(slices: &mut [Slice<'_>]) {
    let joins = |a: &Slice<'_>, b: &Slice<'_>| {
        let awake = |p: &Slice<'_>| matches!(p.segment.state, State::Run | State::Ready);
        a.segment.tid == b.segment.tid && awake(a) && awake(b) && a.segment.exact && b.segment.exact
    };
    for stretch in slices.chunk_by_mut(joins) {
        let alike = |a: &Slice<'_>, b: &Slice<'_>| a.segment.state == b.segment.state;
        let runs = stretch.chunk_by(alike).filter(|part| part[0].segment.state == State::Run);
        let mut runs: Vec<u64> =
            runs.map(|part| part.iter().map(|p| p.segment.ns()).sum()).collect();
        runs.sort_unstable();
        if runs.len() < thresholds::short_runs() || runs[runs.len() / 2] >= thresholds::sliver_ns()
        {
            continue;
        }
        for slice in stretch.iter_mut().filter(|p| p.claim.cause == Cause::CpuStarved) {
            let resource = Some(Resource::ShortRuns);
            let own = Claim::of(Cause::Unknown, &slice.segment);
            slice.claim = Claim { resource, rule: "runs-of-microseconds", ..own };
        }
    }
}
