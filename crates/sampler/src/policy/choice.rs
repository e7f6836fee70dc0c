//! Which threads a pass samples: bounded, preferring those that matter, fair to the rest.
//!
//! Pure: candidates in, choice out. Threads of requests that take longer than usual come first,
//! with their blockers; then a random choice of the threads that ran since their last sample. A
//! thread that did not run has nothing new and is not chosen.

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

/// One place in this many is for the others, however many are urgent: no thread goes unseen for
/// long.
const OTHERS: usize = 8;

/// Chooses at most `most` thread ids into `out`: `urgent` ones in their order, then others at
/// random from `rest` (which is shuffled as far as needed). The others have an eighth of the places
/// at least. No id twice.
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

/// The places of one pass. The chosen threads take them, and the threads in their way, which are
/// known only after the chosen ones were sampled. At most half of the places go to threads in the
/// way, so that a crowd of slow requests, each in another's way, has its turn, too.
pub struct Places {
    left: usize,
    /// Of them, the others' own.
    others: usize,
    culprits: usize,
}

impl Places {
    /// `most` of them, of which `choose` gave `others` to threads that are not urgent.
    pub fn new(most: usize, others: usize) -> Places {
        Places { left: most, others: others.min(most / OTHERS), culprits: most / 2 }
    }

    /// Takes one for an urgent thread, if there is one.
    pub fn urgent(&mut self) -> bool {
        let free = self.left > self.others;
        self.left -= usize::from(free);
        free
    }

    /// Takes one for a thread in an urgent one's way.
    pub fn culprit(&mut self) -> bool {
        let taken = self.culprits > 0 && self.urgent();
        self.culprits -= usize::from(taken);
        taken
    }

    /// Takes one for any other thread. These come last.
    pub fn other(&mut self) -> bool {
        self.others = 0;
        self.urgent()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples as many threads as there is room for; each urgent thread has `culprits` of its own
    /// in its way. Returns how many urgent ones, culprits and others were sampled.
    fn pass(most: usize, urgent: u32, culprits: u32, rest: u32) -> [usize; 3] {
        let (urgent, mut rest): (Vec<u32>, Vec<u32>) =
            ((0..urgent).collect(), (1000..1000 + rest).collect());
        let mut chosen = Vec::new();
        choose(&urgent, &mut rest, most, &mut Random::new(1), &mut chosen);
        let others = chosen.iter().filter(|tid| **tid >= 1000).count();
        let mut places = Places::new(most, others);
        let mut seen = [0; 3];
        for tid in chosen {
            if tid >= 1000 {
                seen[2] += usize::from(places.other());
            } else if places.urgent() {
                seen[0] += 1;
                seen[1] += (0..culprits).filter(|_| places.culprit()).count();
            }
        }
        seen
    }

    #[test]
    fn no_pass_looks_at_more_threads_than_it_may() {
        // One or a few slow requests: each with all that is in its way.
        assert_eq!(pass(16, 1, 2, 100), [1, 2, 13]);
        assert_eq!(pass(16, 4, 2, 100), [4, 8, 4]);
        assert_eq!(pass(16, 2, 2, 0), [2, 4, 0]);
        // A crowd: half of the places for those in their way, and an eighth for others.
        assert_eq!(pass(16, 40, 1, 100), [7, 7, 2]);
        assert_eq!(pass(16, 40, 2, 100), [6, 8, 2]);
        assert_eq!(pass(16, 40, 0, 100), [14, 0, 2]);
        for most in 1..40 {
            for (urgent, culprits, rest) in [(0, 0, 99), (1, 1, 99), (9, 2, 5), (99, 3, 99)] {
                let seen = pass(most, urgent, culprits, rest);
                assert!(seen.iter().sum::<usize>() <= most && seen[1] <= most / 2, "{seen:?}");
                let wanted =
                    (urgent.min(1) as usize + (rest as usize).min(most / OTHERS)).min(most);
                assert!(seen[0] + seen[2] >= wanted, "{most} {urgent} {rest}: {seen:?}");
            }
        }
    }

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
