//! What chance explains: tests of two counts, and which of many tests count.
//!
//! How it works: Fisher's exact test, one-sided: how probable so many of the hits are on one side
//! if both sides have the same rate. Of many tests, those of Benjamini and Hochberg's rule count,
//! as in the fleet's `diff` (`python/dashcam/_fleet/ask/statistics.py`).

/// So many of the differences that are reported may be chance, on average.
pub const FALSE_DISCOVERIES: f64 = 0.05;

/// The chance of at least `hits` of `all` on the second side, if the first has `other_hits` of
/// `other_all` at the same rate.
pub fn more((other_hits, other_all): (u64, u64), (hits, all): (u64, u64)) -> f64 {
    let (total_hits, total) = (other_hits + hits, other_all + all);
    if total_hits == 0 || other_all == 0 || all == 0 {
        return 1.0;
    }
    // The hypergeometric distribution, from `hits` up.
    let ln =
        |x| ln_choose(all, x) + ln_choose(other_all, total_hits - x) - ln_choose(total, total_hits);
    (hits..=total_hits.min(all)).map(|x| ln(x).exp()).sum::<f64>().min(1.0)
}

/// Which tests count as discoveries.
pub fn discoveries(chances: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let limit = |nth: usize| FALSE_DISCOVERIES * nth as f64 / chances.len() as f64;
    let last = (1..=order.len()).rev().find(|nth| chances[order[nth - 1]] <= limit(*nth));
    let mut found = vec![false; chances.len()];
    order.iter().take(last.unwrap_or(0)).for_each(|at| found[*at] = true);
    found
}

fn ln_choose(n: u64, k: u64) -> f64 {
    if k > n {
        return f64::NEG_INFINITY;
    }
    ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
}

/// Summed for small numbers, Stirling's series above: off by less than 1e-9.
fn ln_factorial(n: u64) -> f64 {
    if n < 32 {
        return (2..=n).map(|i| (i as f64).ln()).sum();
    }
    let x = n as f64;
    x * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI * x).ln() + 1.0 / (12.0 * x)
        - 1.0 / (360.0 * x * x * x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_those_of_fishers_exact_test() {
        // Sums of products of binomial coefficients, in whole numbers.
        for (a, b, wanted) in [
            ((1, 10), (9, 10), 0.000_546_667),
            ((2, 100), (3, 100), 0.5),
            ((0, 4000), (10, 4812), 0.002_347_826),
            ((5, 5), (5, 5), 1.0),
        ] {
            let found = more(a, b);
            assert!((found - wanted).abs() < 1e-8, "{a:?} {b:?}: {found}");
        }
        assert_eq!((more((0, 10), (0, 10)), more((0, 0), (3, 3))), (1.0, 1.0));
    }

    #[test]
    fn of_many_tests_fewer_count() {
        assert_eq!(discoveries(&[0.04]), [true]);
        assert_eq!(discoveries(&[0.04, 0.9, 0.8]), [false, false, false]);
        assert_eq!(discoveries(&[0.03, 0.001, 0.9]), [true, true, false]);
        assert!(discoveries(&[]).is_empty());
    }
}
