//! The words of a counter in one shard.
//!
//! How it works: totals that only the owner changes, and beside them the totals that the collector
//! has seen. A window gets the difference. Whole numbers and fractions have a word each, and every
//! increment changes one word, so it is in a window whole or not at all.

use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Whole numbers beyond this are added as fractions.
pub(crate) const MOST_EXACT: u64 = 1 << 53;

/// The words. All relaxed: nothing else depends on them. The shard's state orders its owners.
#[derive(Debug)]
pub struct Cell {
    /// Sum of all whole increments, wrapping. Written by the shard's owner.
    whole: AtomicU64,
    /// Sum of the other increments, bits of an f64; always finite. Written by the shard's owner.
    fraction: AtomicU64,
    /// What the collector has taken. Written by it, or by a thread that claims a shard of the
    /// parent process.
    whole_seen: AtomicU64,
    fraction_seen: AtomicU64,
}

impl Cell {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Cell {
        Cell {
            whole: AtomicU64::new(0),
            fraction: AtomicU64::new(0),
            whole_seen: AtomicU64::new(0),
            fraction_seen: AtomicU64::new(0),
        }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Cell {
        Cell {
            whole: AtomicU64::new(0),
            fraction: AtomicU64::new(0),
            whole_seen: AtomicU64::new(0),
            fraction_seen: AtomicU64::new(0),
        }
    }

    /// Adds `n`; for the only thread that does so at this time, and not from inside itself (a
    /// signal handler). Cost: a load and a store.
    #[inline]
    pub fn add(&self, n: i64) -> bool {
        if n.unsigned_abs() > MOST_EXACT {
            return self.add_float(n as f64);
        }
        self.add_whole(n);
        true
    }

    /// As `add`, for what is at most `MOST_EXACT`.
    #[inline]
    pub(crate) fn add_whole(&self, n: i64) {
        self.whole.store(self.whole.load(Relaxed).wrapping_add(n as u64), Relaxed);
    }

    /// As `add`, for a fraction. False: the sum would be infinite, nothing was added.
    pub fn add_float(&self, n: f64) -> bool {
        let sum = f64::from_bits(self.fraction.load(Relaxed)) + n;
        if sum.is_finite() {
            self.fraction.store(sum.to_bits(), Relaxed);
        }
        sum.is_finite()
    }

    /// As `add`, from any thread at any time.
    pub(crate) fn add_shared(&self, n: i64) -> bool {
        if n.unsigned_abs() > MOST_EXACT {
            return self.add_float_shared(n as f64);
        }
        self.whole.fetch_add(n as u64, Relaxed);
        true
    }

    /// As `add_float`, from any thread at any time.
    pub(crate) fn add_float_shared(&self, n: f64) -> bool {
        let add = |bits| {
            let sum = f64::from_bits(bits) + n;
            sum.is_finite().then(|| sum.to_bits())
        };
        self.fraction.fetch_update(Relaxed, Relaxed, add).is_ok()
    }

    /// Marks all as taken.
    pub(crate) fn forget(&self) {
        self.whole_seen.store(self.whole.load(Relaxed), Relaxed);
        self.fraction_seen.store(self.fraction.load(Relaxed), Relaxed);
    }

    /// What came in since the last call. For the collector. None: nothing.
    pub(crate) fn take(&self) -> Option<(i64, f64)> {
        let (whole, fraction) = (self.whole.load(Relaxed), self.fraction.load(Relaxed));
        let (seen, fraction_seen) =
            (self.whole_seen.load(Relaxed), self.fraction_seen.load(Relaxed));
        if whole == seen && fraction == fraction_seen {
            return None;
        }
        self.whole_seen.store(whole, Relaxed);
        self.fraction_seen.store(fraction, Relaxed);
        let difference = f64::from_bits(fraction) - f64::from_bits(fraction_seen);
        Some((whole.wrapping_sub(seen) as i64, difference))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_stay_exact_beside_fractions_and_past_the_words_end() {
        let cell = Cell::new();
        cell.whole.store(u64::MAX - 1, Relaxed);
        cell.whole_seen.store(u64::MAX - 1, Relaxed);
        assert_eq!(cell.take(), None);
        assert!(cell.add(5) && cell.add(-2) && cell.add_float(0.25));
        assert_eq!(cell.take(), Some((3, 0.25)));
        assert!(cell.add_shared((1 << 53) - 1) && cell.add_float_shared(-0.5));
        assert_eq!(cell.take(), Some(((1 << 53) - 1, -0.5)));
        assert!(cell.add(i64::MIN));
        assert_eq!(cell.take().map(|(whole, fraction)| (whole, fraction < -9e18)), Some((0, true)));
        assert_eq!(cell.take(), None);
    }

    #[test]
    fn a_sum_never_becomes_infinite() {
        let cell = Cell::new();
        assert!(cell.add_float(f64::MAX) && !cell.add_float(f64::MAX));
        assert!(!cell.add_float_shared(f64::MAX));
        assert_eq!(cell.take(), Some((0, f64::MAX)));
    }
}
