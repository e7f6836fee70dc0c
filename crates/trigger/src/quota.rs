//! How many captures are enough: so many a day, and one of the same cause in a while.

use std::collections::HashMap;
use std::hash::Hash;

const DAY_NS: u64 = 86_400_000_000_000;

/// At most so many captures in a day, which begins with the first of them.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    most: u64,
    taken: u64,
    day_began_ns: u64,
}

impl Quota {
    /// `most` a day.
    pub fn new(most: u64) -> Quota {
        Quota { most, taken: 0, day_began_ns: 0 }
    }

    /// Allows another number from here on; what was taken stays taken.
    pub fn set_most(&mut self, most: u64) {
        self.most = most;
    }

    /// Whether there may be one more now; if so it is taken.
    pub fn take(&mut self, now_ns: u64) -> bool {
        if self.taken == 0 || now_ns.saturating_sub(self.day_began_ns) >= DAY_NS {
            (self.taken, self.day_began_ns) = (0, now_ns);
        }
        let free = self.taken < self.most;
        self.taken += u64::from(free);
        free
    }

    /// One that was taken came to nothing.
    pub fn give_back(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }
}

/// Causes remembered; the one captured longest ago is forgotten.
const MOST: usize = 1000;

/// When each cause was last captured. What a cause is the caller says: the trigger knows no more
/// of it than the request's name and the rule that fired.
#[derive(Debug)]
pub struct Repeats<K> {
    /// 0: every one counts as new.
    within_ns: u64,
    captured_ns: HashMap<K, u64>,
}

impl<K: Copy + Eq + Hash> Repeats<K> {
    /// A cause is a repeat within this time after its capture; 0: never.
    pub fn new(within_ns: u64) -> Repeats<K> {
        Repeats { within_ns, captured_ns: HashMap::new() }
    }

    /// Works with another time from here on.
    pub fn set_within(&mut self, within_ns: u64) {
        self.within_ns = within_ns;
    }

    /// Whether this cause was captured a short while ago.
    pub fn is_repeat(&self, cause: &K, now_ns: u64) -> bool {
        let at = self.captured_ns.get(cause);
        at.is_some_and(|at| now_ns.saturating_sub(*at) < self.within_ns)
    }

    /// Its capture came to nothing.
    pub fn forget(&mut self, cause: &K) {
        self.captured_ns.remove(cause);
    }

    /// It is captured now.
    pub fn captured(&mut self, cause: K, now_ns: u64) {
        if self.within_ns == 0 {
            return;
        }
        if self.captured_ns.len() >= MOST && !self.captured_ns.contains_key(&cause) {
            let oldest = self.captured_ns.iter().min_by_key(|(_, at)| **at).map(|(k, _)| *k);
            oldest.map(|k| self.captured_ns.remove(&k));
        }
        self.captured_ns.insert(cause, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;

    #[test]
    fn a_day_has_so_many_and_the_next_one_as_many_again() {
        let mut quota = Quota::new(2);
        let at = [5, 6, 7, 28, 29, 30].map(|h| quota.take(h * HOUR));
        assert_eq!(at, [true, true, false, false, true, true]);
        quota.set_most(3);
        assert!(quota.take(31 * HOUR) && !quota.take(32 * HOUR));
        quota.give_back();
        assert!(quota.take(33 * HOUR) && !quota.take(34 * HOUR));
        assert!(!Quota::new(0).take(1));
    }

    #[test]
    fn a_cause_repeats_for_a_while_after_its_capture_and_others_do_not() {
        let mut repeats = Repeats::new(HOUR);
        assert!(!repeats.is_repeat(&(1, 0), 10 * HOUR));
        repeats.captured((1, 0), 10 * HOUR);
        assert!(repeats.is_repeat(&(1, 0), 11 * HOUR - 1));
        repeats.forget(&(1, 0));
        assert!(!repeats.is_repeat(&(1, 0), 10 * HOUR), "nothing holds it");
        repeats.captured((1, 0), 10 * HOUR);
        assert!(!repeats.is_repeat(&(1, 0), 11 * HOUR) && !repeats.is_repeat(&(1, 1), 10 * HOUR));
        for i in 0..2000 {
            repeats.captured((2, i), 10 * HOUR + 1 + i);
        }
        assert_eq!(repeats.captured_ns.len(), MOST);
        assert!(!repeats.is_repeat(&(1, 0), 10 * HOUR + 2), "forgotten: it was the oldest");
        let mut never = Repeats::new(0);
        never.captured(1, 1);
        assert!(!never.is_repeat(&1, 1));
    }
}
