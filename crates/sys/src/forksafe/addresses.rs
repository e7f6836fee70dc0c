//! A table from addresses that are never used again to words, read and written by any thread.
//!
//! How it works: an address hashes to a place and the `PROBES - 1` behind it, and takes the first
//! free one by compare-and-swap. A place keeps its address for ever, so word and address cannot be
//! of two; the word may be replaced at any time.
//!
//! ```text
//!  place   address, 0 free | word, 0 none yet
//! ```
//! What it promises: a word that is found was put for that very address. No lock, no allocation.
//! Missing on purpose: removing an address; an address that finds its places taken is not entered.

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Places tried for an address.
const PROBES: usize = 4;

struct Place {
    /// Relaxed: it decides which word is read, and orders nothing.
    address: AtomicUsize,
    /// Release when it is put, Acquire when it is found: what its putter did before is seen.
    word: AtomicU64,
}

/// The table. `N` is a power of two.
pub struct Addresses<const N: usize> {
    places: [Place; N],
}

impl<const N: usize> Addresses<N> {
    /// Empty.
    #[cfg(not(all(loom, test)))]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Addresses<N> {
        assert!(N.is_power_of_two());
        let places = [const { Place { address: AtomicUsize::new(0), word: AtomicU64::new(0) } }; N];
        Addresses { places }
    }

    #[cfg(all(loom, test))]
    fn new() -> Addresses<N> {
        let place = |_| Place { address: AtomicUsize::new(0), word: AtomicU64::new(0) };
        Addresses { places: std::array::from_fn(place) }
    }

    #[inline]
    fn probes(&self, address: usize) -> impl Iterator<Item = &Place> {
        // Objects lie 16 bytes apart; Fibonacci's multiplier spreads the other bits.
        let mixed = (address as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let first = mixed.checked_shr(64 - N.trailing_zeros()).unwrap_or(0) as usize;
        (0..PROBES.min(N)).map(move |step| &self.places[(first + step) % N])
    }

    /// The word of an address; 0: it has none.
    #[inline]
    pub fn find(&self, address: usize) -> u64 {
        for place in self.probes(address) {
            match place.address.load(Ordering::Relaxed) {
                found if found == address => return place.word.load(Ordering::Acquire),
                0 => return 0,
                _ => {}
            }
        }
        0
    }

    /// Gives an address, which is not 0, a word. False: there is no place for it.
    pub fn put(&self, address: usize, word: u64) -> bool {
        for place in self.probes(address) {
            let won = Ordering::Relaxed;
            let there = match place.address.load(Ordering::Relaxed) {
                0 => place.address.compare_exchange(0, address, won, won).unwrap_or_else(|it| it),
                there => there,
            };
            if there == 0 || there == address {
                place.word.store(word, Ordering::Release);
                return true;
            }
        }
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const COUNT: usize = 40;

    /// Address and word of a number; which thread puts it makes no difference.
    fn pair(number: usize) -> (usize, u64) {
        (0x1000 + number * 16, number as u64 + 1)
    }

    #[test]
    fn a_word_that_is_found_is_of_its_address() {
        static TABLE: Addresses<64> = Addresses::new();
        let work = || {
            for _ in 0..testkit::count("DASHCAM_ADDRESSES", 200) {
                for (address, word) in (0..COUNT).map(pair) {
                    let found = TABLE.find(address);
                    assert!(found == 0 || found == word, "{address:#x}: {found}, wanted {word}");
                    TABLE.put(address, word);
                }
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
        let all = (0..COUNT).map(pair);
        let kept = all.filter(|(address, word)| TABLE.find(*address) == *word).count();
        assert!(kept > COUNT / 2, "{kept}");
    }

    #[test]
    fn an_address_without_a_place_is_not_entered_and_a_word_can_be_replaced() {
        let table: Addresses<2> = Addresses::new();
        assert!(table.put(16, 1) && table.put(32, 2) && !table.put(48, 3));
        assert!(table.put(16, 4) && table.put(32, 5));
        let words = [16, 32, 48].map(|address| table.find(address));
        assert_eq!(words, [4, 5, 0]);
    }
}

#[cfg(all(loom, test))]
mod models {
    use std::sync::Arc;

    use super::*;

    /// Three threads around two places: two want the same one first, the third looks.
    #[test]
    fn a_word_is_never_found_under_another_address() {
        loom::model(|| {
            let table: Arc<Addresses<2>> = Arc::new(Addresses::new());
            let put = |address: usize| {
                let table = table.clone();
                loom::thread::spawn(move || assert!(table.put(address, address as u64)))
            };
            let threads = [put(16), put(32)];
            for address in [16, 32] {
                let found = table.find(address);
                assert!(found == 0 || found == address as u64, "{address}: {found}");
            }
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            assert_eq!([16, 32].map(|address| table.find(address)), [16, 32]);
        });
    }

    /// Two threads give one address a word, as they do that meet a new name at once.
    #[test]
    fn an_address_takes_one_place() {
        loom::model(|| {
            let table: Arc<Addresses<2>> = Arc::new(Addresses::new());
            let put = |word: u64| {
                let table = table.clone();
                loom::thread::spawn(move || assert!(table.put(16, word)))
            };
            let threads = [put(1), put(2)];
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            assert!(matches!(table.find(16), 1 | 2));
            assert!(table.put(32, 3), "the other place is free");
        });
    }
}
