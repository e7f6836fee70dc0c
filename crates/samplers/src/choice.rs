//! Which threads a pass looks at: bounded, preferring those that matter, fair to the rest.
//!
//! Pure: candidates in, choice out. Threads of requests that take longer than usual come first (and
//! whoever stands in their way), then a random choice of the threads that ran since their last
//! sample. A thread that did not run has nothing new to tell and is not chosen.

/// A small, fast random sequence (xorshift64*); quality enough to be fair, no more.
pub struct Random(u64);

impl Random {
    /// From any seed.
    pub fn new(seed: u64) -> Random {
        Random(seed | 1)
    }

    /// A number below `n`; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        (mixed as usize * n) >> 32
    }
}

/// One place in so many is for the others, however many are urgent: nobody is out of sight for long.
const OTHERS: usize = 8;

/// Chooses at most `most` thread ids into `out`: `urgent` ones in their order, then others at random
/// from `rest` (which is shuffled as far as needed), who have an eighth of the places at least. No id
/// twice.
pub fn choose(
    urgent: &[u32],
    rest: &mut [u32],
    most: usize,
    random: &mut Random,
    out: &mut Vec<u32>,
) {
    out.clear();
    let others = (most / OTHERS).min(rest.len());
    for tid in urgent {
        if out.len() < most - others && !out.contains(tid) {
            out.push(*tid);
        }
    }
    let mut left = rest.len();
    while out.len() < most && left > 0 {
        let pick = random.below(left);
        left -= 1;
        rest.swap(pick, left);
        if !out.contains(&rest[left]) {
            out.push(rest[left]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_threads_come_first_and_the_cap_holds() {
        let mut out = Vec::new();
        let mut rest: Vec<u32> = (100..200).collect();
        choose(&[7, 3, 7], &mut rest, 16, &mut Random::new(1), &mut out);
        assert_eq!((out.len(), &out[..2]), (16, &[7, 3][..]));
        choose(&(0..40).collect::<Vec<u32>>(), &mut rest, 16, &mut Random::new(1), &mut out);
        assert_eq!(out[..14], (0..14).collect::<Vec<u32>>());
        assert!(out.len() == 16 && out[14..].iter().all(|tid| *tid >= 100), "{out:?}");
        choose(&(0..40).collect::<Vec<u32>>(), &mut [], 16, &mut Random::new(1), &mut out);
        assert_eq!(out, (0..16).collect::<Vec<u32>>());
    }

    #[test]
    fn the_rest_is_chosen_evenly() {
        let mut counts = [0u32; 64];
        let (mut random, mut out) = (Random::new(42), Vec::new());
        for _ in 0..4000 {
            let mut rest: Vec<u32> = (0..64).collect();
            choose(&[], &mut rest, 16, &mut random, &mut out);
            out.iter().for_each(|tid| counts[*tid as usize] += 1);
        }
        // Expected 1000 each, standard deviation about 27.
        assert!(counts.iter().all(|c| (860..1140).contains(c)), "{counts:?}");
    }
}
