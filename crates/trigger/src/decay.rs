//! Limits fall while nothing fires, so that a quiet service yields a capture of its slowest
//! requests, too.

/// The lowest limit, in halvings: about a thousandth.
const LOWEST: f64 = 10.0;
/// Steps for each halving; limits are looked up again at each step.
const STEPS: f64 = 4.0;

/// The factor for limits, `quiet_ns` after the last capture (or the start): 1 for the first
/// `decay_ns`, then halved in each further `decay_ns`, in four steps, down to 1/1024. `decay_ns` 0:
/// always 1.
pub fn decayed(quiet_ns: u64, decay_ns: u64) -> f64 {
    if decay_ns == 0 || quiet_ns < decay_ns {
        return 1.0;
    }
    let halvings = (quiet_ns - decay_ns) as f64 / decay_ns as f64;
    0.5f64.powf(((halvings * STEPS).floor() / STEPS).min(LOWEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_for_a_while_and_then_halve() {
        let at = |quiet| decayed(quiet, 100);
        assert_eq!([at(0), at(99), at(100), at(124)], [1.0; 4]);
        assert!((at(125) - 0.8409).abs() < 1e-4);
        assert_eq!([at(200), at(300)], [0.5, 0.25]);
        assert_eq!(at(u64::MAX), 1.0 / 1024.0);
        assert_eq!(decayed(u64::MAX, 0), 1.0);
    }
}
