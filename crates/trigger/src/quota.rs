//! How many captures are enough: a number for each day, and one of the same cause for each period.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

const DAY_NS: u64 = 86_400_000_000_000;

/// At most this many captures in a day, which begins with the first of them.
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

    /// Allows another number from here on; captures already counted stay counted.
    pub fn set_most(&mut self, most: u64) {
        self.most = most;
    }

    /// Whether there may be one more now; if so it is counted.
    pub fn take(&mut self, now_ns: u64) -> bool {
        if self.taken == 0 || now_ns.saturating_sub(self.day_began_ns) >= DAY_NS {
            (self.taken, self.day_began_ns) = (0, now_ns);
        }
        let free = self.taken < self.most;
        self.taken += u64::from(free);
        free
    }

    /// A capture that was counted failed.
    pub fn give_back(&mut self) {
        self.taken = self.taken.saturating_sub(1);
    }
}

/// Causes remembered; the one captured longest ago is forgotten.
const MOST: usize = 1000;

/// When each cause was last captured, and how often it came again. The caller defines a cause: the
/// trigger knows only the request's name and the rule that fired.
#[derive(Debug)]
pub struct Repeats<K> {
    /// 0: every one counts as new.
    within_ns: u64,
    known: HashMap<K, Known>,
}

#[derive(Debug)]
struct Known {
    /// None: its last capture failed.
    captured_ns: Option<u64>,
    /// Since its first capture.
    again: u64,
    text: Box<str>,
}

impl<K: Copy + Eq + Hash> Repeats<K> {
    /// A cause is a repeat within this time after its capture; 0: never.
    pub fn new(within_ns: u64) -> Repeats<K> {
        Repeats { within_ns, known: HashMap::new() }
    }

    /// Uses another time from here on.
    pub fn set_within(&mut self, within_ns: u64) {
        self.within_ns = within_ns;
    }

    /// Whether this cause was captured a short while ago.
    pub fn is_repeat(&self, cause: &K, now_ns: u64) -> bool {
        let at = self.known.get(cause).and_then(|known| known.captured_ns);
        at.is_some_and(|at| now_ns.saturating_sub(at) < self.within_ns)
    }

    /// It came again, and is not captured.
    pub fn count(&mut self, cause: &K) {
        if let Some(known) = self.known.get_mut(cause) {
            known.again += 1;
        }
    }

    /// Its capture failed; the counts stay.
    pub fn forget(&mut self, cause: &K) {
        if let Some(known) = self.known.get_mut(cause) {
            known.captured_ns = None;
        }
    }

    /// It is captured now; `text` is its name in `counts`.
    pub fn captured(&mut self, cause: K, text: &str, now_ns: u64) {
        if self.within_ns == 0 {
            return;
        }
        if self.known.len() >= MOST && !self.known.contains_key(&cause) {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.captured_ns);
            let oldest = oldest.map(|(k, _)| *k);
            oldest.map(|k| self.known.remove(&k));
        }
        let new = || Known { captured_ns: None, again: 0, text: text.into() };
        self.known.entry(cause).or_insert_with(new).captured_ns = Some(now_ns);
    }

    /// How often causes came again and were not captured, most often first, at most `most` of them.
    /// A cause that was forgotten is missing.
    pub fn counts(&self, most: usize) -> Vec<(&str, u64)> {
        let mut by_text: BTreeMap<&str, u64> = BTreeMap::new();
        for known in self.known.values().filter(|known| known.again > 0) {
            *by_text.entry(&known.text).or_default() += known.again;
        }
        let mut counts: Vec<(&str, u64)> = by_text.into_iter().collect();
        counts.sort_by_key(|(_, again)| std::cmp::Reverse(*again));
        counts.truncate(most);
        counts
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
        repeats.captured((1, 0), "a", 10 * HOUR);
        assert!(repeats.is_repeat(&(1, 0), 11 * HOUR - 1));
        repeats.forget(&(1, 0));
        assert!(!repeats.is_repeat(&(1, 0), 10 * HOUR), "nothing holds it");
        repeats.captured((1, 0), "a", 10 * HOUR);
        assert!(!repeats.is_repeat(&(1, 0), 11 * HOUR) && !repeats.is_repeat(&(1, 1), 10 * HOUR));
        for i in 0..2000 {
            repeats.captured((2, i), "b", 10 * HOUR + 1 + i);
        }
        assert_eq!(repeats.known.len(), MOST);
        assert!(!repeats.is_repeat(&(1, 0), 10 * HOUR + 2), "forgotten: it was the oldest");
        let mut never = Repeats::new(0);
        never.captured(1, "a", 1);
        assert!(!never.is_repeat(&1, 1));
    }

    #[test]
    fn how_often_a_cause_came_again_is_counted_from_its_first_capture_on() {
        let mut repeats = Repeats::new(HOUR);
        repeats.count(&1);
        assert_eq!(repeats.counts(9), [], "never captured");
        for (cause, text) in [(1, "slow: a"), (2, "slow: b"), (3, "slow: c"), (4, "slow: b")] {
            repeats.captured(cause, text, HOUR);
        }
        assert_eq!(repeats.counts(9), [], "none came again");
        for cause in [1, 2, 2, 1, 3, 4, 4, 2, 2] {
            repeats.count(&cause);
        }
        let all = [("slow: b", 6), ("slow: a", 2), ("slow: c", 1)];
        assert_eq!(repeats.counts(9), all, "two causes with one text are one");
        assert_eq!(repeats.counts(2), all[..2]);
        repeats.forget(&1);
        repeats.captured(2, "slow: b", 3 * HOUR);
        assert_eq!(repeats.counts(9), all, "whatever becomes of their next captures");
        for cause in 10..9 + MOST as u64 {
            repeats.captured(cause, "others", 4 * HOUR);
        }
        assert_eq!(repeats.counts(9), [("slow: b", 4)], "the oldest are remembered no more");
    }
}
