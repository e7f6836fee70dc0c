//! How much more of something a side has, and how probable that is by chance.
//!
//! What it promises: slow requests count by episodes (`side`), times by Mood's median test; what
//! cannot be compared has the ratio 1 and the chance 1.

use super::chance;
use super::times::Times;

/// One comparison: how much more there is on the second side, and how probable that is by chance.
#[derive(Clone, Copy)]
pub struct Tested {
    /// The second side, in parts of the first.
    pub ratio: f64,
    /// The chance of at least as much more.
    pub chance_more: f64,
    /// The chance of at least as much less.
    pub chance_less: f64,
}

/// Of each side: slow requests, their episodes, all requests. What comes in bursts counts as so
/// many observations as it has episodes; all requests are thinned by as much, on both sides: had
/// the other one been as slow, it would have been in bursts, too.
pub fn rates(a: (u64, u64, u64), b: (u64, u64, u64)) -> Tested {
    let part = (a.1 + b.1) as f64 / (a.0 + b.0).max(1) as f64;
    let thinned = |(_, episodes, all): (u64, u64, u64)| {
        (episodes, ((all as f64 * part).round() as u64).max(episodes))
    };
    let rate = |(slow, _, all): (u64, u64, u64)| slow as f64 / all.max(1) as f64;
    let (x, y) = (thinned(a), thinned(b));
    Tested {
        ratio: ratio(rate(a), rate(b)),
        chance_more: chance::more(x, y),
        chance_less: chance::more(y, x),
    }
}

/// The second in parts of the first.
pub fn ratio(a: f64, b: f64) -> f64 {
    match (a > 0.0, b > 0.0) {
        (false, false) => 1.0,
        (false, true) => f64::INFINITY,
        _ => b / a,
    }
}

/// Nothing to compare.
pub const NOTHING: Tested = Tested { ratio: 1.0, chance_more: 1.0, chance_less: 1.0 };

/// Mood's test: how many of each side took longer than the middle between both medians.
pub fn medians(a: &Times, b: &Times, count_min: u64) -> Tested {
    let (Some(a_ns), Some(b_ns)) = (a.quantile(0.5), b.quantile(0.5)) else { return NOTHING };
    if a.count() < count_min || b.count() < count_min {
        return NOTHING;
    }
    let between_ns = a_ns / 2 + b_ns / 2;
    let above = |times: &Times| (times.above(between_ns), times.count());
    Tested {
        ratio: ratio(a_ns as f64, b_ns as f64),
        chance_more: chance::more(above(a), above(b)),
        chance_less: chance::more(above(b), above(a)),
    }
}
