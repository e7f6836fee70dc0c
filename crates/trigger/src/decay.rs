//! A limit that falls while nothing fires: a quiet service yields a capture of its slowest, too.

/// The longest fall, in halvings: to a thousandth.
const LOWEST: f64 = 10.0;
/// Steps a halving: limits are looked up anew at each.
const STEPS: f64 = 4.0;

/// By how much limits are to be multiplied, `quiet_ns` after the last capture (or the start): 1 for
/// the first `decay_ns`, then half as much after each further `decay_ns`, in four steps, down to
/// 1/1024. `decay_ns` 0: always 1.
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
