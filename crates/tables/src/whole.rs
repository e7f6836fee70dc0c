//! What rows of one part need to know of all parts of a capture: gathered by one walk over them.

use std::collections::{BTreeMap, BTreeSet};

use analysis::requests::Typical;
use analysis::states::Threads;
use capture::read::Capture;

use crate::counts::Counts;

/// Counts, ids, and what is typical.
#[derive(Default)]
pub(crate) struct Whole {
    pub(crate) counts: Counts,
    pub(crate) typical: Typical,
    /// Ids of threads.
    pub(crate) threads: BTreeSet<u32>,
    /// Samples by thread.
    pub(crate) samples: BTreeMap<u32, usize>,
    pub(crate) stacks: BTreeSet<u32>,
    pub(crate) switches_mended: u64,
    /// Where parts begin.
    pub(crate) borders: BTreeSet<i64>,
    /// The last stack sampled of each thread, in the parts that were read so far.
    pub(crate) last_stacks: BTreeMap<u32, u32>,
}

impl Whole {
    /// Takes a part.
    pub(crate) fn take(&mut self, part: &Capture, limit_ns: impl Fn(&str) -> u64) {
        self.counts.add(part);
        self.typical.take(part, limit_ns);
        self.threads.extend(Threads::new(part).ids());
        for (tid, rows) in &part.samples {
            let own = rows.iter().filter(|s| part.owns(s.t_ns)).count();
            *self.samples.entry(*tid).or_default() += own;
        }
        self.stacks.extend(stacks_in_use(part));
        self.switches_mended += part.switches_mended;
        let from_ns = part.part.map_or(0, |part| part.from_ns);
        self.borders.insert(i64::try_from(from_ns).unwrap_or(i64::MAX));
    }

    /// Notes where threads are when a part ends.
    pub(crate) fn note_stacks(&mut self, part: &Capture) {
        for (tid, rows) in &part.samples {
            if let Some(last) = rows.iter().rev().find(|s| part.owns(s.t_ns)) {
                self.last_stacks.insert(*tid, last.stack);
            }
        }
    }
}

/// The stacks of samples, awaits and wakeups of a capture.
pub(crate) fn stacks_in_use(capture: &Capture) -> BTreeSet<u32> {
    let samples = capture.samples.values().flatten().map(|s| s.stack);
    let awaits = capture.awaits.values().flatten().map(|a| a.stack);
    let wakers = capture.waker_stacks.values().copied();
    samples.chain(awaits).chain(wakers).collect()
}
