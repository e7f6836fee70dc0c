//! Counts of all requests by name: what a fleet's captures are a sample of.
//!
//! How it works: each name has a few *stripes* of counters; a thread adds to the stripe of its
//! number. A request's end adds 1 to a bucket of the histogram and its time to a sum; a slow or
//! failed one adds to a counter more. The reader takes what is there (`swap`), so each request is
//! in one reading. A stripe is no thread's own: an add cannot be cut in two, so signal handlers,
//! threads that end and forks need no protocol. Four stripes suffice, since a request's end writes
//! the name's typical time (`limits`), which all threads share, anyway.
//!
//! What it promises: each request that ends while the black box records is counted once. No lock,
//! allocation or wait at a request's end: two relaxed adds. A reading may have the time of a
//! request whose bucket is in another one; over all readings they add up. Memory: 8 KiB a name.
//! Names beyond the first 256 are counted together. A forked child has counts of its own.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::OnceLock;

use crate::limits::{entry, NAMES};

/// Names with counts of their own.
pub const ROLLUP_NAMES: usize = 256;
/// Place of the names beyond these; no name that has an entry of its own in `limits` is there.
const OTHERS: usize = NAMES - 1;
const STRIPES: usize = 4;
/// Requests below 8 us share the first bucket, those of 2.4 hours and more the last. Between are 16
/// buckets an octave: each is at most 6.25 % wide.
const FIRST_OCTAVE: u32 = 13;
const LAST_OCTAVE: u32 = 43;
const PER_OCTAVE: u32 = 16;
/// Buckets of a histogram.
pub const ROLLUP_BUCKETS: usize = 2 + ((LAST_OCTAVE - FIRST_OCTAVE) * PER_OCTAVE) as usize;

/// The bucket of a duration.
#[inline]
pub fn rollup_bucket(ns: u64) -> usize {
    let octave = 63 - (ns | 1).leading_zeros();
    match octave {
        0..FIRST_OCTAVE => 0,
        FIRST_OCTAVE..LAST_OCTAVE => {
            let part = (ns >> (octave - 4)) as u32 & (PER_OCTAVE - 1);
            1 + ((octave - FIRST_OCTAVE) * PER_OCTAVE + part) as usize
        }
        _ => ROLLUP_BUCKETS - 1,
    }
}

/// What became of a slow, failed or chosen request that a rule wanted to capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A capture was made for it.
    Captured,
    /// A cooldown, or an earlier capture of its cause.
    Suppressed,
    /// There had been enough captures that day.
    OverQuota,
}

/// The counts of one name since the last reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollup {
    /// The name; None: all names beyond the first 256.
    pub name: Option<ring::Name>,
    /// Requests by bucket (`rollup_bucket`).
    pub buckets: [u64; ROLLUP_BUCKETS],
    /// Requests past their limit.
    pub slow: u64,
    /// Requests that ended with an error.
    pub failed: u64,
    /// Time of all.
    pub sum_ns: u64,
    /// Time of the slow ones beyond what was typical then.
    pub excess_ns: u64,
    /// By `Fate`.
    pub fates: [u64; 3],
}

impl Rollup {
    /// All requests.
    pub fn total(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Whether nothing was added since the last reading. One may have the time of requests that
    /// were counted in the one before, and no more.
    fn is_empty(&self) -> bool {
        let counts = self.total() + self.slow + self.failed + self.fates.iter().sum::<u64>();
        counts == 0 && self.sum_ns == 0 && self.excess_ns == 0
    }
}

/// A request that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub took_ns: u64,
    pub typical_ns: u64,
    pub slow: bool,
    pub failed: bool,
}

/// All words are relaxed: none depends on another.
#[repr(align(64))]
struct Stripe {
    buckets: [AtomicU32; ROLLUP_BUCKETS],
    slow: AtomicU32,
    failed: AtomicU32,
    sum_ns: AtomicU64,
    excess_ns: AtomicU64,
}

struct Counts {
    stripes: [Stripe; STRIPES],
    fates: [AtomicU64; 3],
}

impl Counts {
    fn new() -> Box<Counts> {
        let stripe = || Stripe {
            buckets: [const { AtomicU32::new(0) }; ROLLUP_BUCKETS],
            slow: AtomicU32::new(0),
            failed: AtomicU32::new(0),
            sum_ns: AtomicU64::new(0),
            excess_ns: AtomicU64::new(0),
        };
        let fates = [const { AtomicU64::new(0) }; 3];
        Box::new(Counts { stripes: std::array::from_fn(|_| stripe()), fates })
    }

    /// Takes what is there.
    fn take(&self, name: Option<ring::Name>) -> Rollup {
        let mut found = Rollup {
            name,
            buckets: [0; ROLLUP_BUCKETS],
            slow: 0,
            failed: 0,
            sum_ns: 0,
            excess_ns: 0,
            fates: std::array::from_fn(|i| take(&self.fates[i])),
        };
        for stripe in &self.stripes {
            for (sum, word) in found.buckets.iter_mut().zip(&stripe.buckets) {
                *sum += take_small(word);
            }
            found.slow += take_small(&stripe.slow);
            found.failed += take_small(&stripe.failed);
            found.sum_ns = found.sum_ns.saturating_add(take(&stripe.sum_ns));
            found.excess_ns = found.excess_ns.saturating_add(take(&stripe.excess_ns));
        }
        found
    }
}

/// Most words are 0, and a load leaves their line to the threads that add.
fn take(word: &AtomicU64) -> u64 {
    match word.load(Ordering::Relaxed) {
        0 => 0,
        _ => word.swap(0, Ordering::Relaxed),
    }
}

fn take_small(word: &AtomicU32) -> u64 {
    match word.load(Ordering::Relaxed) {
        0 => 0,
        _ => u64::from(word.swap(0, Ordering::Relaxed)),
    }
}

/// The counts of all names.
#[derive(Default)]
pub struct Rollups {
    /// Made with the first name of a request, so that a process without requests has none.
    by_name: OnceLock<Box<[OnceLock<Box<Counts>>]>>,
    /// Names that have a place. Relaxed: two new names at once may go one beyond the bound.
    known: AtomicUsize,
}

impl Rollups {
    /// A request's name is used: makes its place, the first time. Allocates then. Returns when the
    /// place is there, also if another thread makes it.
    pub(crate) fn know(&self, name: ring::Name) {
        let all = self.by_name.get_or_init(|| (0..NAMES).map(|_| OnceLock::new()).collect());
        let Some(place) = all.get(entry(name)).filter(|place| place.get().is_none()) else {
            return;
        };
        if self.known.load(Ordering::Relaxed) < ROLLUP_NAMES {
            place.get_or_init(|| {
                self.known.fetch_add(1, Ordering::Relaxed);
                Counts::new()
            });
        } else if let Some(others) = all.get(OTHERS) {
            others.get_or_init(Counts::new);
        }
    }

    #[inline]
    pub(crate) fn ended(&self, name: ring::Name, done: Done) {
        let Some(counts) = self.of(name) else { return };
        let stripe = &counts.stripes[sys::thread::cached_tid() as usize % STRIPES];
        stripe.buckets[rollup_bucket(done.took_ns)].fetch_add(1, Ordering::Relaxed);
        stripe.sum_ns.fetch_add(done.took_ns, Ordering::Relaxed);
        if done.slow {
            let excess_ns = done.took_ns.saturating_sub(done.typical_ns);
            stripe.slow.fetch_add(1, Ordering::Relaxed);
            stripe.excess_ns.fetch_add(excess_ns, Ordering::Relaxed);
        }
        if done.failed {
            stripe.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts what became of a request of this name.
    pub fn note(&self, name: ring::Name, fate: Fate) {
        if let Some(counts) = self.of(name) {
            counts.fates[fate as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    #[inline]
    fn of(&self, name: ring::Name) -> Option<&Counts> {
        let all = self.by_name.get()?;
        let own = all.get(entry(name))?.get();
        own.or_else(|| all.get(OTHERS)?.get()).map(|counts| &**counts)
    }

    /// Takes the counts of every name that has some.
    pub fn take(&self, mut each: impl FnMut(Rollup)) {
        let all = self.by_name.get().into_iter().flatten();
        for (name, counts) in (0..).zip(all) {
            let Some(counts) = counts.get() else { continue };
            let name = (name as usize != OTHERS).then_some(name);
            let found = counts.take(name);
            if !found.is_empty() {
                each(found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(took_ns: u64) -> Done {
        Done { took_ns, typical_ns: 100, slow: false, failed: false }
    }

    fn taken(rollups: &Rollups) -> Vec<Rollup> {
        let mut found = Vec::new();
        rollups.take(|one| found.push(one));
        found
    }

    /// The least duration in a bucket, as readers calculate it.
    fn least_ns(bucket: usize) -> u64 {
        let (octave, part) = ((bucket - 1) as u64 / 16, (bucket - 1) as u64 % 16);
        (16 + part) << (u64::from(FIRST_OCTAVE) - 4 + octave)
    }

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        assert_eq!((rollup_bucket(0), rollup_bucket(8191), rollup_bucket(8192)), (0, 0, 1));
        for bucket in 1..ROLLUP_BUCKETS {
            let least = least_ns(bucket);
            assert_eq!(rollup_bucket(least), bucket);
            assert_eq!(rollup_bucket(least - 1), bucket - 1);
            let next = least_ns(bucket + 1);
            assert!((next - least) as f64 / least as f64 <= 0.0625, "{least} to {next}");
        }
        assert_eq!(rollup_bucket(u64::MAX), ROLLUP_BUCKETS - 1);
    }

    #[test]
    fn a_reading_has_what_came_since_the_last_one() {
        let rollups = Rollups::default();
        rollups.ended(5, done(1));
        rollups.know(5);
        rollups.ended(5, done(20_000));
        rollups.ended(5, Done { slow: true, failed: true, ..done(5_000_100) });
        rollups.note(5, Fate::Suppressed);
        let [one] = &taken(&rollups)[..] else { panic!("one name") };
        assert_eq!((one.name, one.total(), one.slow, one.failed), (Some(5), 2, 1, 1));
        assert_eq!((one.sum_ns, one.excess_ns, one.fates), (5_020_100, 5_000_000, [0, 1, 0]));
        assert_eq!(one.buckets[rollup_bucket(20_000)], 1);
        assert_eq!(taken(&rollups), []);
    }

    #[test]
    fn names_beyond_the_bound_are_counted_together() {
        let rollups = Rollups::default();
        let names = ROLLUP_NAMES as u32 + 50;
        (0..names).for_each(|name| rollups.know(name));
        rollups.know(9000);
        (0..names).chain([9000]).for_each(|name| rollups.ended(name, done(1)));
        let found = taken(&rollups);
        assert_eq!(found.len(), ROLLUP_NAMES + 1);
        let others = found.last().map(|one| (one.name, one.total()));
        assert_eq!(others, Some((None, 51)));
    }

    #[test]
    fn beside_a_reader_that_never_pauses_none_is_lost_or_counted_twice() {
        const EACH: u64 = 50_000;
        let rollups = Rollups::default();
        rollups.know(1);
        let (mut total, mut sum) = (0, 0);
        let mut add = |one: Rollup| {
            total += one.total();
            sum += one.sum_ns;
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| (0..EACH).for_each(|i| rollups.ended(1, done(i)))))
                .collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                rollups.take(&mut add);
            }
        });
        rollups.take(add);
        assert_eq!((total, sum), (3 * EACH, 3 * EACH * (EACH - 1) / 2));
    }
}
