//! A hash for numbers: a large capture looks up millions of ids, and the standard hash costs more
//! than the rest of reading them.
//!
//! How it works: each word is multiplied by a number that differs from process to process, and the
//! halves of the product are folded. What it promises: a file cannot be made so that its ids
//! collide. Missing on purpose: an order; what a map gives is sorted where it matters.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};

/// A map by numbers.
pub type QuickMap<K, V> = HashMap<K, V, Quick>;

/// A set of numbers.
pub type QuickSet<K> = HashSet<K, Quick>;

/// Makes hashers with one secret.
#[derive(Clone, Copy)]
pub struct Quick(u64);

impl Default for Quick {
    fn default() -> Quick {
        Quick(RandomState::new().build_hasher().finish() | 1)
    }
}

impl BuildHasher for Quick {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded { secret: self.0, hash: self.0 }
    }
}

/// The hash of the words so far.
pub struct Folded {
    secret: u64,
    hash: u64,
}

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        // The golden ratio's bits: a word that equals the hash so far does not give 0.
        let mixed = u128::from(self.hash ^ word ^ 0x9E37_79B9_7F4A_7C15)
            * u128::from(self.secret ^ 0xD6E8_FEB8_6659_FD93);
        self.hash = mixed as u64 ^ (mixed >> 64) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_count_up_or_differ_in_high_bits_only_spread_well() {
        for shift in [0, 7, 32, 52] {
            let quick = Quick::default();
            let mut low: QuickMap<u64, u32> = QuickMap::default();
            for id in 0..4096u64 {
                *low.entry(quick.hash_one(id << shift) & 0xfff).or_default() += 1;
            }
            // Of balls thrown by chance, the fullest of as many bins has about seven.
            assert!(low.values().all(|n| *n < 24), "{shift}: {:?}", low.values().max());
        }
    }
}
