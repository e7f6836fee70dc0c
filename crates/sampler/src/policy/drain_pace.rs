//! How soon the rings of switch records must be drained again.
//!
//! Pure: the caller passes how full the fullest ring was. The next drain is to find it half full at
//! most, if switches come as fast as they did lately. A full ring loses records, and with them what
//! is known of every thread (decision 0020).

/// Of the fullest ring.
#[derive(Default)]
pub struct Pace {
    drained_ns: u64,
    /// Of a ring, a nanosecond.
    filling: f64,
    hurries: bool,
}

/// No drain should find more.
const FULL_ENOUGH: f64 = 0.5;
/// The pace of a burst is forgotten by this factor a drain.
const FORGOTTEN: f64 = 0.9;
/// Two drains nearer to each other than this say nothing of the pace.
const APART_NS: u64 = 1_000_000;

impl Pace {
    /// A drain at `now_ns` found the fullest ring this full: 0 to 1.
    pub fn drained(&mut self, filled: f64, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.drained_ns).max(APART_NS);
        self.drained_ns = now_ns;
        self.filling = (filled / passed_ns as f64).max(self.filling * FORGOTTEN);
        self.hurries = filled > FULL_ENOUGH;
    }

    /// The next drain must come within this time; 0: as soon as it usually does.
    pub fn longest_ns(&self) -> u64 {
        match self.hurries {
            true => 0,
            // Nothing came: saturates.
            false => (FULL_ENOUGH / self.filling) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_ring_that_fills_slowly_leaves_all_the_time() {
        let mut pace = Pace::default();
        assert_eq!(pace.longest_ns(), u64::MAX);
        (1..10).for_each(|i| pace.drained(0.01, i * 10 * MS));
        assert!(pace.longest_ns().abs_diff(500 * MS) < MS, "{}", pace.longest_ns());
    }

    #[test]
    fn after_a_drain_that_found_it_half_full_there_is_no_time() {
        let mut pace = Pace::default();
        pace.drained(0.0, 100 * MS);
        pace.drained(0.6, 200 * MS);
        assert_eq!(pace.longest_ns(), 0);
    }

    #[test]
    fn the_next_drain_comes_before_the_ring_is_full() {
        let mut pace = Pace::default();
        (1..10).for_each(|i| pace.drained(0.2, i * 10 * MS));
        assert!(pace.longest_ns().abs_diff(25 * MS) < MS, "{}", pace.longest_ns());
        // One quiet pass is no calm.
        pace.drained(0.0, 100 * MS);
        assert!(pace.longest_ns() < 30 * MS);
        (11..100).for_each(|i| pace.drained(0.0, i * 10 * MS));
        assert!(pace.longest_ns() > 1_000 * MS);
    }
}
