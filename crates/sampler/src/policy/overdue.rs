//! Which open requests are past their usual time: their threads are urgent.

/// A request younger than this is never past its usual time.
pub const YOUNG_NS: u64 = 15_000_000;

/// Whether a request that is open for `open_ns` is past its usual time. `typical_ns`: how long
/// requests of its name take as a rule; `limit_ns`: how long they may.
pub fn is_overdue(open_ns: u64, (typical_ns, limit_ns): (u64, u64)) -> bool {
    open_ns > typical_ns.saturating_mul(2).max(YOUNG_NS).min(limit_ns)
}

#[cfg(test)]
mod tests {
    use super::is_overdue;

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
