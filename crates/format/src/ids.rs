//! Ids of traces and spans, as W3C Trace Context has them: derived, not stored.
//!
//! How it works: a recorder draws one random number, its *seed* (`ids_seed` in META, a word of the
//! region's header). A request's trace id and the id of its root span are mixed from the seed and
//! the request's number; a span's id from the seed, its thread and the instant it began. So ids
//! cost nothing while a service runs, every reader finds the same ones, and the process itself
//! gives them out (`traceparent`). Ids that came from outside are in records of kind `Trace`.
//!
//! The mixer is a bijection of 64 bits (the finaliser of SplitMix64: Steele, Lea, Flood, "Fast
//! splittable pseudorandom number generators", with Stafford's constants, mix 13). For one seed no
//! two requests share a root span's id, and no two spans of one thread that began at different
//! instants share one; between threads ids meet as rarely as random numbers do. Two spans of a
//! thread that begin in the same nanosecond have the same id.

/// Odd constants that keep the kinds of ids apart: digits of pi.
const TRACE: u64 = 0x2437_54a0_8d31_3199;
const ROOT: u64 = 0xa409_3822_299f_31d1;
const SPAN: u64 = 0x452a_21e6_3852_8ab7;

/// SplitMix64's finaliser.
#[inline]
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// 0 is no id: the one word that would become it becomes another.
#[inline]
fn never_zero(word: u64, instead: u64) -> u64 {
    if word == 0 {
        instead
    } else {
        word
    }
}

/// The trace id of a request that began its trace; also, given the id of a span instead, of the
/// trace that a span outside of any request began. Never 0.
pub fn trace_id(seed: u64, request: u64) -> u128 {
    let low = mix(mix(seed ^ TRACE) ^ request);
    let high = mix(low ^ seed.rotate_left(32));
    (u128::from(high) << 64) | u128::from(never_zero(low, TRACE))
}

/// The id of a request's root span. Never 0.
pub fn request_span(seed: u64, request: u64) -> u64 {
    never_zero(mix(mix(seed ^ ROOT) ^ request), ROOT)
}

/// The id of the span that began on thread `tid` at `begin_ns`. Never 0.
#[inline]
pub fn span(seed: u64, tid: u32, begin_ns: u64) -> u64 {
    let thread = u64::from(tid).wrapping_mul(SPAN);
    never_zero(mix(mix(seed.wrapping_add(thread)) ^ begin_ns), SPAN)
}

/// The seed for a capture that has none, made from what distinguishes processes.
pub fn seed_of(start_epoch_ns: u64, pid: u32) -> u64 {
    never_zero(mix(mix(start_epoch_ns) ^ u64::from(pid)), SPAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_those_of_the_first_version() {
        // Part of the format: another reader, of another version, must find the same.
        let seed = 0x0123_4567_89ab_cdef;
        assert_eq!(format!("{:032x}", trace_id(seed, 4097)), TRACE_4097);
        assert_eq!(format!("{:016x}", request_span(seed, 4097)), ROOT_4097);
        assert_eq!(format!("{:016x}", span(seed, 77, 1_000_000_007)), SPAN_77);
    }

    const TRACE_4097: &str = "fadbbfa5c2f88e43924d1b930ef77f7b";
    const ROOT_4097: &str = "1e43c5b1a784c141";
    const SPAN_77: &str = "f9383b2390b3a087";

    #[test]
    fn ids_depend_on_each_input_and_are_never_zero() {
        let mut seen = HashSet::new();
        for seed in [0, 1, u64::MAX, 0x5eed] {
            for n in 0..2000u64 {
                assert!(seen.insert(request_span(seed, n)));
                assert!(seen.insert(trace_id(seed, n) as u64));
                assert!(seen.insert((trace_id(seed, n) >> 64) as u64));
                assert!(seen.insert(span(seed, 4000, n)));
                assert!(seen.insert(span(seed, 4001, n)));
            }
        }
        assert!(!seen.contains(&0));
        // The words whose mixture is 0.
        assert_eq!(request_span(9, mix(9 ^ ROOT)), ROOT);
        assert_eq!(span(9, 1, mix(SPAN + 9)), SPAN);
        assert_eq!(trace_id(9, mix(9 ^ TRACE)) as u64, TRACE);
    }

    #[test]
    fn one_bit_of_input_changes_half_of_the_bits() {
        let mut changed = 0;
        for bit in 0..64 {
            changed += (request_span(1, 7) ^ request_span(1, 7 ^ (1 << bit))).count_ones();
            changed += (span(1, 7, 9) ^ span(1, 7, 9 ^ (1 << bit))).count_ones();
        }
        assert!((3700..4500).contains(&changed), "{changed} of 8192, wanted about half");
    }
}
