//! The holder of a lock that samples of the wait name: read from the lock's owner field, or the
//! thread inside the lock's `with` block.

use analysis::thresholds;
use analysis::timeline::Segment;
use analysis::waits::Wait;
use format::record::Sample;
use format::wait::{HolderSource, WaitKind};

use crate::claim::Blocker;
use crate::compare::{self, Question};
use crate::context::Context;
use crate::explain::{Dropped, Fact, Inference};
use crate::facts::pools;

/// The holder that samples of the lock name.
pub(crate) fn of(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Blocker> {
    let (from, to) = segment.times();
    // The segment's own samples first; then what any sample of the same wait knows.
    let wait = cx.whole_wait(segment);
    let own = segment.sample.into_iter().chain(cx.samples_in(segment.tid, from, to));
    let whole = cx.samples_of(&wait);
    let known = |s: &&Sample| s.holder_source != HolderSource::None && s.lock_holder != 0;
    let holder = |s: &Sample| s.lock_holder;
    let mut named = counted(own.filter(known).map(holder).filter(|t| *t != segment.tid));
    if named.is_empty() {
        named = counted(whole.filter(known).map(holder).filter(|t| *t != segment.tid));
    }
    let tid = most_common(&named)?;
    let question = Question::about(Inference::NamedHolder, segment);
    let lost = (Some(tid), Dropped::LessEvidence);
    compare::keep_tally(cx, question, (&named, Fact::Samples), lost, &[]);
    // A worker that waits for work has no lock: that sample is from before or behind its work.
    let times = held(cx, &wait, segment, tid);
    let stack = match cx.main_stack(tid, times.0, times.1) {
        idle if pools::has_no_work(cx, idle) => last_work(cx, tid, wait.times()),
        stack => stack,
    };
    Some(Blocker::thread(tid, stack, true, question.by))
}

/// The part of a wait around `segment` in which samples name `tid`: up to halfway to the next one
/// that names another holder.
fn held(cx: &Context<'_>, wait: &Wait<'_>, segment: &Segment<'_>, tid: u32) -> (u64, u64) {
    let known = |s: &&Sample| s.holder_source != HolderSource::None && s.lock_holder != 0;
    let read: Vec<&Sample> = cx.samples_of(wait).filter(known).collect();
    let middle_ns = segment.from_ns.midpoint(segment.to_ns);
    let own = (0..read.len()).filter(|i| read[*i].lock_holder == tid);
    let Some(own) = own.min_by_key(|i| read[*i].t_ns.abs_diff(middle_ns)) else {
        return segment.times();
    };
    let other = |i: &usize| read[*i].lock_holder != tid;
    let halfway = |other: &Sample, beside: &Sample| other.t_ns.midpoint(beside.t_ns);
    let before = (0..own).rev().find(other);
    let after = (own..read.len()).find(other);
    let from_ns = before.map_or(wait.from_ns, |i| halfway(read[i], read[i + 1]));
    let to_ns = after.map_or(wait.to_ns, |i| halfway(read[i], read[i - 1]));
    (from_ns, to_ns)
}

/// The stack of the last sample in a wait, or shortly before, that found a worker at work; 0
/// without one.
fn last_work(cx: &Context<'_>, tid: u32, (from, to): (u64, u64)) -> u32 {
    let samples = cx.samples_in(tid, from.saturating_sub(thresholds::samples_apart_ns()), to);
    let stacks = samples.iter().rev().map(|s| s.stack);
    stacks.filter(|stack| *stack != 0).find(|stack| !pools::has_no_work(cx, *stack)).unwrap_or(0)
}

/// Whether `tid` waited for a lock that samples read to be the waiter's own, during most of the
/// wait of `segment`: it goes on when the waiter does, and made it wait for nothing.
pub(crate) fn is_waited_for_by(cx: &Context<'_>, segment: &Segment<'_>, tid: u32) -> bool {
    let (from, to) = cx.whole_wait(segment).times();
    let samples = cx.samples_in(tid, from, to);
    let waits = |s: &&Sample| {
        s.wait == WaitKind::Futex
            && s.holder_source != HolderSource::None
            && s.lock_holder == segment.tid
    };
    samples.iter().filter(waits).count() * 2 > samples.len()
}

/// How many samples name each thread.
fn counted(tids: impl Iterator<Item = u32>) -> Vec<(u32, u64)> {
    let mut counts: Vec<(u32, u64)> = Vec::new();
    for tid in tids {
        match counts.iter_mut().find(|(t, _)| *t == tid) {
            Some((_, count)) => *count += 1,
            None => counts.push((tid, 1)),
        }
    }
    counts
}

fn most_common(counts: &[(u32, u64)]) -> Option<u32> {
    counts.iter().max_by_key(|(_, count)| *count).map(|(tid, _)| *tid)
}
