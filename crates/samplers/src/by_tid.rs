//! Maps by thread id, for a look-up at each context switch.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map from kernel thread ids. The kernel gives ids out one after the other, and no attacker can
/// choose them: a multiplication spreads them, at a tenth of the cost of a hash that withstands
/// attacks.
pub type ByTid<T> = HashMap<u32, T, BuildHasherDefault<TidHasher>>;

/// Of a `ByTid`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TidHasher(u64);

impl Hasher for TidHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    fn write_u32(&mut self, tid: u32) {
        // Knuth's multiplier; the map takes its buckets from the low bits and its tags from the
        // high.
        let mixed = (self.0 ^ u64::from(tid)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_a_row_spread() {
        let spread = |ids: &mut dyn Iterator<Item = u32>| {
            let mut buckets = [0u32; 256];
            ids.for_each(|tid| {
                let mut hasher = TidHasher::default();
                hasher.write_u32(tid);
                buckets[hasher.finish() as usize % 256] += 1;
            });
            buckets.into_iter().max()
        };
        assert!(spread(&mut (4000..4256)) < Some(8));
        assert!(spread(&mut (0..256).map(|i| i * 256)) < Some(8));
    }
}
