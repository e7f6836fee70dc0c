//! Times of requests by name, for sinks that show them as a histogram.
//!
//! How it works: off, a request's end costs one load. On, it adds 1 to a bucket of its name and its
//! time to a sum. If it is the slowest recent request of its bucket, its ids are stored (the
//! bucket's *exemplar*). An exemplar is a few words behind a version that is odd while they change.
//! A reader that finds the version odd or changed skips the exemplar; others will do as well.
//!
//! What it promises: buckets and sums count every request that ended while it is on, once; names
//! beyond the first 4,095 are counted together. Nothing here waits, or allocates at a request's
//! end. Memory: 900 bytes a name.

use std::sync::atomic::{fence, AtomicU64, Ordering};
use std::sync::OnceLock;

use crate::limits::{entry, NAMES};

/// Upper bounds of the buckets, ns; one more bucket behind the last holds all that took longer.
pub const LATENCY_BOUNDS_NS: [u64; 15] = [
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
];
const BUCKETS: usize = LATENCY_BOUNDS_NS.len() + 1;
/// An exemplar older than this is replaced also by a faster request.
const STALE_NS: u64 = 60_000_000_000;

/// The histogram of one name.
#[derive(Clone, Debug)]
pub struct LatencyView {
    /// Requests by bucket.
    pub counts: [u64; BUCKETS],
    /// Time of all, ns. Loaded beside the counts: it may include requests that ended since.
    pub sum_ns: u64,
    /// The slowest recent request of each bucket.
    pub slowest: [Option<Slow>; BUCKETS],
}

/// A request that is the slowest of its bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slow {
    /// Its id.
    pub id: u64,
    /// How long it took, ns.
    pub took_ns: u64,
    /// When it ended, ns of `sys::clock`.
    pub at_ns: u64,
    /// The trace id that came from outside; 0: the one derived from `id` (`format::ids`).
    pub trace: u128,
}

struct Latency {
    /// Relaxed, as the sum: no word depends on another.
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
    slowest: [Slowest; BUCKETS],
}

/// Version, id, duration, end, the halves of the trace id. The version is odd while a thread
/// writes; acquire and release of it, with the fences, order the words between two loads of it.
struct Slowest([AtomicU64; 6]);

impl Latency {
    fn new() -> Latency {
        Latency {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            sum_ns: AtomicU64::new(0),
            slowest: [const { Slowest([const { AtomicU64::new(0) }; 6]) }; BUCKETS],
        }
    }
}

impl Slowest {
    fn offer(&self, slow: Slow) {
        let [version, of, took, at, high, low] = &self.0;
        let is_stale = slow.at_ns.saturating_sub(at.load(Ordering::Relaxed)) > STALE_NS;
        if slow.took_ns <= took.load(Ordering::Relaxed) && !is_stale {
            return;
        }
        let before = version.load(Ordering::Relaxed);
        let take = |v| version.compare_exchange(v, v + 1, Ordering::Acquire, Ordering::Relaxed);
        // Another request is being stored; that will do.
        if before % 2 == 1 || take(before).is_err() {
            return;
        }
        // Pairs with the reader's fence: a reader that sees one of the words also sees the odd
        // version.
        fence(Ordering::Release);
        of.store(slow.id, Ordering::Relaxed);
        took.store(slow.took_ns, Ordering::Relaxed);
        at.store(slow.at_ns, Ordering::Relaxed);
        high.store((slow.trace >> 64) as u64, Ordering::Relaxed);
        low.store(slow.trace as u64, Ordering::Relaxed);
        version.store(before + 2, Ordering::Release);
    }

    fn get(&self) -> Option<Slow> {
        let [version, of, took, at, high, low] = &self.0;
        let before = version.load(Ordering::Acquire);
        let words = [of, took, at, high, low].map(|word| word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let whole = before % 2 == 0 && version.load(Ordering::Relaxed) == before;
        let [id, took_ns, at_ns, high, low] = words;
        let trace = (u128::from(high) << 64) | u128::from(low);
        (whole && before > 0).then_some(Slow { id, took_ns, at_ns, trace })
    }
}

/// The histograms of all names.
#[derive(Default)]
pub struct Latencies {
    /// Made when it is turned on.
    by_name: OnceLock<Box<[OnceLock<Box<Latency>>]>>,
}

impl Latencies {
    /// Turns it on, for good.
    pub fn measure(&self) {
        self.by_name.get_or_init(|| (0..NAMES).map(|_| OnceLock::new()).collect());
    }

    /// Whether it is on.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.by_name.get().is_some()
    }

    /// A request's name is used for the first time: makes its place. Allocates.
    pub(crate) fn know(&self, name: ring::Name) {
        if let Some(place) = self.by_name.get().and_then(|all| all.get(entry(name))) {
            place.get_or_init(|| Box::new(Latency::new()));
        }
    }

    #[inline]
    pub(crate) fn ended(&self, name: ring::Name, slow: Slow) {
        let Some(all) = self.by_name.get() else { return };
        let Some(latency) = all.get(entry(name)).and_then(OnceLock::get) else { return };
        let bucket = LATENCY_BOUNDS_NS.partition_point(|bound| *bound < slow.took_ns);
        latency.counts[bucket].fetch_add(1, Ordering::Relaxed);
        latency.sum_ns.fetch_add(slow.took_ns, Ordering::Relaxed);
        latency.slowest[bucket].offer(slow);
    }

    /// Every name that requests ended under: the name's id (4,095: all names from there on), and
    /// its histogram.
    pub fn each(&self, mut each: impl FnMut(ring::Name, LatencyView)) {
        let all = self.by_name.get().into_iter().flatten();
        for (name, latency) in (0..).zip(all) {
            let Some(latency) = latency.get() else { continue };
            let view = LatencyView {
                counts: std::array::from_fn(|i| latency.counts[i].load(Ordering::Relaxed)),
                sum_ns: latency.sum_ns.load(Ordering::Relaxed),
                slowest: std::array::from_fn(|i| latency.slowest[i].get()),
            };
            if view.counts.iter().any(|count| *count > 0) {
                each(name, view);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn slow(id: u64, took_ns: u64, at_ns: u64) -> Slow {
        let trace = (u128::from(id) << 64) | u128::from(took_ns);
        Slow { id, took_ns, at_ns, trace }
    }

    fn view(latencies: &Latencies, name: ring::Name) -> LatencyView {
        let mut found = None;
        latencies.each(|id, view| {
            if id == name {
                found = Some(view);
            }
        });
        found.expect("requests ended under that name")
    }

    #[test]
    fn requests_are_counted_by_name_and_time_and_the_slowest_is_noted() {
        let latencies = Latencies::default();
        latencies.ended(5, slow(1, MS, 1));
        latencies.measure();
        latencies.know(5);
        latencies.know(9000);
        latencies.ended(5, slow(2, MS, 10));
        latencies.ended(5, slow(3, MS + 1, 20));
        latencies.ended(5, slow(4, 2 * MS, 30));
        latencies.ended(5, slow(5, 2 * MS - 1, 40));
        latencies.ended(5, slow(6, 100_000 * MS, 50));
        latencies.ended(9000, slow(7, 0, 60));
        latencies.ended(6, slow(8, 0, 60));
        let view = view(&latencies, 5);
        assert_eq!((view.counts[0], view.counts[1], view.counts[15]), (1, 3, 1));
        assert_eq!(view.sum_ns, 100_006 * MS);
        assert_eq!(view.slowest[1], Some(slow(4, 2 * MS, 30)));
        assert_eq!((view.slowest[0], view.slowest[2]), (Some(slow(2, MS, 10)), None));
        latencies.ended(5, slow(9, MS + 1, 31 + STALE_NS));
        let later = self::view(&latencies, 5);
        assert_eq!(
            later.slowest[1],
            Some(slow(9, MS + 1, 31 + STALE_NS)),
            "the other one is stale"
        );
        let mut names = Vec::new();
        latencies.each(|name, _| names.push(name));
        assert_eq!(names, [5, NAMES as u32 - 1], "6 was never met");
    }

    #[test]
    fn an_exemplar_is_never_of_two_requests() {
        let latencies = Latencies::default();
        latencies.measure();
        latencies.know(1);
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let latencies = &latencies;
                scope.spawn(move || {
                    for i in 1..50_000u64 {
                        let took = 2 * MS - 100_000 + 3 * i + thread;
                        latencies.ended(1, slow(took * 7, took, took * 3));
                    }
                });
            }
            for _ in 0..20_000 {
                latencies.each(|_, view| {
                    for found in view.slowest.into_iter().flatten() {
                        let took = found.took_ns;
                        assert_eq!(found, slow(took * 7, took, took * 3));
                    }
                });
            }
        });
        let view = view(&latencies, 1);
        assert_eq!(view.counts.iter().sum::<u64>(), 3 * 49_999, "none is lost");
    }
}
