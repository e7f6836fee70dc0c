//! Which open requests are past their usual time: their threads are urgent; and which of them come
//! near their limit: these may use what the sampler's token bucket holds.

use format::sample::YOUNG_REQUEST_NS;

/// Whether a request that is open for `open_ns` is past its usual time. `typical_ns`: how long
/// requests of its name take as a rule; `limit_ns`: how long they may.
pub fn is_overdue(open_ns: u64, (typical_ns, limit_ns): (u64, u64)) -> bool {
    open_ns > typical_ns.saturating_mul(2).max(YOUNG_REQUEST_NS).min(limit_ns)
}

/// The part of its limit from which on a request comes near it. On a busy machine many requests
/// take twice their usual time, and few of them become slow.
const PART: u64 = 8;
/// From here on it does, whatever its limit: captures have other reasons than a limit, too.
const LONG_NS: u64 = 500_000_000;

/// Whether a request that is past its usual time comes near its limit.
pub fn is_near_its_limit(open_ns: u64, limit_ns: u64) -> bool {
    open_ns >= (limit_ns / PART).min(LONG_NS)
}

#[cfg(test)]
mod tests {
    use super::{is_near_its_limit, is_overdue};

    #[test]
    fn an_eighth_of_its_limit_is_near_it() {
        let near = |open: u64, limit: u64| is_near_its_limit(open * 1_000_000, limit * 1_000_000);
        assert!(!near(62, 500) && near(63, 500));
        assert!(near(15, 50), "past its usual time already");
        assert!(!near(499, 10_000) && near(500, 10_000), "a long time in any case");
    }

    #[test]
    fn twice_the_usual_time_is_too_long_but_never_a_few_milliseconds_nor_more_than_the_limit() {
        let ms = |open: u64, typical: u64, limit: u64| {
            is_overdue(open * 1_000_000, (typical * 1_000_000, limit * 1_000_000))
        };
        assert!(!ms(15, 1, 500) && ms(16, 1, 500), "young");
        assert!(!ms(80, 40, 500) && ms(81, 40, 500), "twice as long as usual");
        assert!(!ms(500, 400, 500) && ms(501, 400, 500), "the limit");
        assert!(ms(11, 400, 10), "a limit below all that");
    }
}
