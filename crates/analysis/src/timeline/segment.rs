//! A segment of a thread's time, and the samples that say what it was.

use std::cmp::Reverse;

use format::record::Sample;
use format::wait::WaitKind;

use crate::thresholds;

/// What the thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// On a CPU.
    Run,
    /// Runnable, no CPU.
    Ready,
    /// Blocked.
    Wait,
    /// Not recorded.
    Unknown,
}

/// An interval of a thread's time in one state.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'c> {
    /// Thread.
    pub tid: u32,
    /// Begin.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// State.
    pub state: State,
    /// The sample that says where and what for.
    pub sample: Option<&'c Sample>,
    /// The sample was taken inside the segment, or the next one on either side saw the same: it is
    /// not carried over from a neighbour.
    pub sampled: bool,
    /// The times come from switch records.
    pub exact: bool,
}

impl Segment<'_> {
    /// Length.
    pub fn ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }

    /// Begin and end.
    pub fn times(&self) -> (u64, u64) {
        (self.from_ns, self.to_ns)
    }

    /// Stack id of its sample, 0 without one.
    pub fn stack(&self) -> u32 {
        self.sample.map_or(0, |s| s.stack)
    }

    /// What it waits for, as far as known.
    pub fn wait(&self) -> WaitKind {
        self.sample.map_or(WaitKind::Unknown, |s| s.wait)
    }
}

/// How long two intervals have in common.
pub fn overlap_ns(a: (u64, u64), b: (u64, u64)) -> u64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

/// Samples with `from <= t < to`.
pub fn slice_between(samples: &[Sample], from_ns: u64, to_ns: u64) -> &[Sample] {
    let start = samples.partition_point(|s| s.t_ns < from_ns);
    let end = samples.partition_point(|s| s.t_ns < to_ns);
    &samples[start..end.max(start)]
}

/// Of many short waits in a row samples see few, and find the thread running in between. Samples
/// near `seen` that found it waiting at the very same place, all its callers included, say what
/// for: the nearest of what most of them saw. One alone may be chance, and behind any call that
/// releases the GIL a thread may wait for that.
pub(super) fn waits_there<'c>(all: &'c [Sample], seen: &Sample) -> Option<&'c Sample> {
    let around = slice_between(
        all,
        seen.t_ns.saturating_sub(thresholds::stale_ns()),
        seen.t_ns + thresholds::stale_ns(),
    );
    let waits = |s: &Sample| {
        !matches!(s.wait, WaitKind::Running | WaitKind::Unknown | WaitKind::Gil)
            && seen.stack != 0
            && s.stack == seen.stack
    };
    let mut counts = [0u16; 256];
    around.iter().filter(|s| waits(s)).for_each(|s| counts[s.wait as usize] += 1);
    let count = |s: &Sample| counts[s.wait as usize];
    let there = around.iter().filter(|s| waits(s) && count(s) > 1);
    there.max_by_key(|s| (count(s), Reverse(s.t_ns.abs_diff(seen.t_ns))))
}
