//! Percentiles over a window without storing a single time: the p99 of the last 30 s is over a
//! limit exactly when more than 1 % of the requests were.
//!
//! How it works: counts of requests and of requests over the limit, at up to 64 points in time; the
//! difference between now and the begin of the window decides.

use std::collections::VecDeque;

/// A window with fewer requests than this has no percentile.
const FEWEST: u64 = 10;
/// Points kept for each window: a window's length is exact to one part in this many.
const POINTS: u64 = 64;

/// Counts of one rule over its window.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// Requests that may be over the limit, parts per million.
    allowed_ppm: u64,
    window_ns: u64,
    /// (time, requests until then, of these over the limit), oldest first. The oldest is the last
    /// point before the window.
    points: VecDeque<(u64, u64, u64)>,
}

impl Crowd {
    /// For the quantile that leaves `allowed_ppm` parts per million over the limit.
    pub fn new(allowed_ppm: u64, window_ns: u64) -> Crowd {
        Crowd { allowed_ppm, window_ns, points: VecDeque::new() }
    }

    /// Adds the counts so far; both only grow. May be called at any rate.
    pub fn note(&mut self, now_ns: u64, total: u64, over: u64) {
        let step = self.window_ns / POINTS;
        // The newest point moves on until it is one step later than the point before it.
        let begun = self.points.iter().rev().nth(1).map(|before| before.0);
        if begun.is_some_and(|before| now_ns.saturating_sub(before) < step) {
            self.points.pop_back();
        }
        self.points.push_back((now_ns, total, over));
        while self.points.get(1).is_some_and(|p| p.0 + self.window_ns <= now_ns) {
            self.points.pop_front();
        }
    }

    /// Whether the percentile is over the limit now: (requests in the window, of these over it).
    pub fn is_over(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.points.front()?, self.points.back()?);
        let (total, over) = (last.1 - first.1, last.2 - first.2);
        let share_is_over =
            u128::from(over) * 1_000_000 > u128::from(total) * u128::from(self.allowed_ppm);
        (total >= FEWEST && share_is_over).then_some((total, over))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_percentile_is_over_when_more_than_its_share_is() {
        let mut crowd = Crowd::new(10_000, 30 * SECOND);
        crowd.note(0, 0, 0);
        crowd.note(SECOND, 1000, 10);
        assert_eq!(crowd.is_over(), None, "1 % may be over a p99");
        crowd.note(2 * SECOND, 1000, 11);
        assert_eq!(crowd.is_over(), Some((1000, 11)));
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let mut crowd = Crowd::new(10_000, 10 * SECOND);
        crowd.note(0, 0, 0);
        crowd.note(SECOND, 100, 50);
        for t in 2..40 {
            crowd.note(t * SECOND, 100 + t * 100, 50);
        }
        assert_eq!(crowd.is_over(), None);
        crowd.note(40 * SECOND, 4100, 80);
        let (total, over) = crowd.is_over().expect("30 of some thousand");
        assert!((900..=1300).contains(&total) && over == 30, "{total} {over}");
    }

    #[test]
    fn a_handful_of_requests_has_no_percentile() {
        let mut crowd = Crowd::new(10_000, 10 * SECOND);
        crowd.note(0, 0, 0);
        crowd.note(SECOND, 9, 9);
        assert_eq!(crowd.is_over(), None);
    }

    #[test]
    fn memory_is_bounded_at_any_rate_of_updates() {
        let mut crowd = Crowd::new(10_000, 10 * SECOND);
        for i in 0..100_000u64 {
            crowd.note(i * 1_000_000, i, 0);
        }
        assert!(crowd.points.len() < 2 * POINTS as usize + 4, "{}", crowd.points.len());
    }
}
