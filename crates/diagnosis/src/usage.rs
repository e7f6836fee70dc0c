//! What a thread used around an interval: CPU time in the kernel and outside, page faults, storage
//! traffic.
//!
//! Samples carry readings of these counters. What it promises: the difference of two readings
//! around the interval, far enough apart to say something, or nothing.

use analysis::timeline::Segment;
use format::record::Sample;
use format::usage::Usage;

use crate::scene::Scene;

impl Scene<'_> {
    /// What the thread of `segment` used around it, by the readings of its samples; None when these
    /// cover too little. Cost: a walk over the samples within a quarter of a second.
    pub fn usage_around(&self, segment: &Segment<'_>) -> Option<Usage> {
        /// Kernel and user time come in steps of 10 ms: a shorter interval says nothing.
        const LEAST_NS: u64 = 80_000_000;
        const AROUND_NS: u64 = 250_000_000;
        let middle = segment.from_ns + segment.ns() / 2;
        let read = |s: &Sample| s.usage().map(|usage| (s.t_ns, usage));
        let near = self.samples_in(
            segment.tid,
            segment.from_ns.saturating_sub(AROUND_NS),
            segment.to_ns + AROUND_NS,
        );
        let readings: Vec<(u64, Usage)> = near.iter().filter_map(read).collect();
        let (mut first, mut last) = {
            let at = readings.partition_point(|(t, _)| *t <= middle);
            (at.saturating_sub(1), at)
        };
        // Outwards from the segment, until the interval is long enough.
        loop {
            let (begin, end) = (readings.get(first)?, readings.get(last.min(readings.len() - 1))?);
            if end.0.saturating_sub(begin.0) >= LEAST_NS {
                return Some(end.1.since(begin.1));
            }
            let (before, after) = (first > 0, last + 1 < readings.len());
            match (before, after) {
                (false, false) => return None,
                (true, false) => first -= 1,
                (false, true) => last += 1,
                (true, true) => {
                    let left = begin.0 - readings[first - 1].0;
                    let right = readings[last + 1].0 - end.0;
                    if left <= right {
                        first -= 1;
                    } else {
                        last += 1;
                    }
                }
            }
        }
    }
}
