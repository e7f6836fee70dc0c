//! Banks: what a shard keeps of a series that is not a counter (values, a gauge, members of a set).
//!
//! How it works: a few banks, each behind a lock that every thread only *tries* to take. The owner
//! and the collector use the first free bank, so neither ever waits: while the collector empties
//! one bank, the owner writes the other, and a signal handler inside the owner does the same. The
//! content of a bank is taken exactly once, because the thread that holds the lock has it alone.
//!
//! What it promises: all memory is allocated when the banks are made. Values past a bank's room
//! replace earlier ones at random (Vitter's algorithm R), so the values kept are a fair sample of
//! all; count, sum and extremes are of all.

use std::sync::TryLockError;

use crate::sync::{set, spin_loop, AtomicBool, Mutex, MutexGuard, Ordering};
use crate::window::Kind;

/// Values kept in a shard's first bank: all values of a window while they fit.
pub(crate) const VALUES: usize = 256;
const FEW_VALUES: usize = 16;
/// Members kept in a shard's first bank, and their bytes.
pub(crate) const MEMBERS: usize = 1024;
const FEW_MEMBERS: usize = 32;
const BYTES_A_MEMBER: usize = 32;
/// Rounds over all banks before a value is given up. Only the shared shard can be that busy.
#[cfg(not(loom))]
const ROUNDS: usize = 1000;
#[cfg(loom)]
const ROUNDS: usize = 2;

/// Values that came in since the bank was emptied.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) kept: Vec<f64>,
    most: usize,
    /// Calls that were let through by the rate.
    pub(crate) raw: u64,
    pub(crate) sum: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    random: u64,
}

/// A gauge's last set and the deltas after it.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    /// Number of the set and its value.
    pub(crate) set: Option<(u64, f64)>,
    /// Number of the set they came after, and their sum.
    pub(crate) delta: Option<(u64, f64)>,
}

/// Distinct texts, one behind the other.
#[derive(Debug)]
pub(crate) struct Members {
    text: String,
    /// Hash, begin and end in `text`.
    places: Vec<(u64, u32, u32)>,
    /// Open addressing: index into `places` + 1. Twice as many as places.
    index: Box<[u32]>,
    pub(crate) refused: u64,
}

#[derive(Debug)]
pub(crate) enum Bank {
    Values(Values),
    Gauge(Gauge),
    Members(Members),
}

impl Bank {
    fn new(kind: Kind, first: bool, seed: u64) -> Bank {
        match kind {
            Kind::Gauge | Kind::Counter => Bank::Gauge(Gauge::default()),
            Kind::Set => Bank::Members(Members::new(if first { MEMBERS } else { FEW_MEMBERS })),
            Kind::Timing | Kind::Histogram | Kind::Distribution => {
                Bank::Values(Values::new(if first { VALUES } else { FEW_VALUES }, seed))
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Bank::Values(values) => values.raw == 0,
            Bank::Gauge(gauge) => gauge.set.is_none() && gauge.delta.is_none(),
            Bank::Members(members) => members.places.is_empty() && members.refused == 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Bank::Values(values) => values.clear(),
            Bank::Gauge(gauge) => *gauge = Gauge::default(),
            Bank::Members(members) => members.clear(),
        }
    }
}

impl Values {
    fn new(most: usize, seed: u64) -> Values {
        let mut values = Values {
            kept: Vec::with_capacity(most),
            most,
            raw: 0,
            sum: 0.0,
            min: 0.0,
            max: 0.0,
            random: seed,
        };
        values.clear();
        values
    }

    /// False: the sum would be infinite; nothing was added.
    pub(crate) fn add(&mut self, value: f64) -> bool {
        let sum = self.sum + value;
        if !sum.is_finite() {
            return false;
        }
        (self.raw, self.sum) = (self.raw + 1, sum);
        (self.min, self.max) = (self.min.min(value), self.max.max(value));
        if self.kept.len() < self.most {
            self.kept.push(value);
        } else if let Some(kept) = self.kept.get_mut(next(&mut self.random, self.raw) as usize) {
            *kept = value;
        }
        true
    }

    fn clear(&mut self) {
        self.kept.clear();
        (self.raw, self.sum) = (0, 0.0);
        (self.min, self.max) = (f64::INFINITY, f64::NEG_INFINITY);
    }
}

/// A random number below `below` (splitmix64, then a multiplication instead of a division).
pub(crate) fn next(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    ((u128::from(mixed(*state)) * u128::from(below)) >> 64) as u64
}

pub(crate) fn mixed(state: u64) -> u64 {
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Gauge {
    pub(crate) fn set(&mut self, number: u64, value: f64) {
        (self.set, self.delta) = (Some((number, value)), None);
    }

    /// False: the sum would be infinite; nothing was added.
    pub(crate) fn add(&mut self, number: u64, delta: f64) -> bool {
        let before = self.delta.filter(|(after, _)| *after == number).map_or(0.0, |(_, sum)| sum);
        let sum = before + delta;
        if sum.is_finite() {
            self.delta = Some((number, sum));
        }
        sum.is_finite()
    }
}

impl Members {
    fn new(most: usize) -> Members {
        Members {
            text: String::with_capacity(most * BYTES_A_MEMBER),
            places: Vec::with_capacity(most),
            index: vec![0; most * 2].into_boxed_slice(),
            refused: 0,
        }
    }

    pub(crate) fn add(&mut self, hash: u64, member: &str) {
        let slots = self.index.len();
        let mut at = hash as usize % slots;
        while self.index[at] != 0 {
            let (known, begin, end) = self.places[self.index[at] as usize - 1];
            if known == hash && self.text.get(begin as usize..end as usize) == Some(member) {
                return;
            }
            at = (at + 1) % slots;
        }
        let begin = self.text.len();
        let full = self.places.len() * 2 == slots;
        if full || begin + member.len() > self.text.capacity() {
            self.refused += 1;
            return;
        }
        self.text.push_str(member);
        self.places.push((hash, begin as u32, self.text.len() as u32));
        self.index[at] = self.places.len() as u32;
    }

    pub(crate) fn each(&self, mut each: impl FnMut(&str)) {
        let texts = self.places.iter().map(|(_, begin, end)| (*begin as usize, *end as usize));
        texts.filter_map(|(begin, end)| self.text.get(begin..end)).for_each(&mut each);
    }

    fn clear(&mut self) {
        self.text.clear();
        self.places.clear();
        self.index.fill(0);
        self.refused = 0;
    }
}

/// The banks of one series in one shard.
#[derive(Debug)]
pub(crate) struct Banks {
    /// Whether something may be in them. Set by writers inside a bank, reset by the collector
    /// before it checks the banks; the bank's lock orders it.
    used: AtomicBool,
    banks: Box<[Mutex<Bank>]>,
}

impl Banks {
    pub(crate) fn new(kind: Kind, shared: bool, seed: u64) -> Banks {
        let count = if shared { 4 } else { 2 };
        let bank = |n: u64| Mutex::new(Bank::new(kind, n == 0, mixed(seed ^ n)));
        Banks { used: AtomicBool::new(false), banks: (0..count).map(bank).collect() }
    }

    /// The memory they take, in bytes, at most.
    pub(crate) fn bytes(kind: Kind, shared: bool) -> usize {
        let others = if shared { 3 } else { 1 };
        let each = size_of::<Mutex<Bank>>() * (1 + others) + size_of::<Banks>() + 64;
        each + match kind {
            Kind::Counter | Kind::Gauge => 0,
            Kind::Set => (MEMBERS + others * FEW_MEMBERS) * (BYTES_A_MEMBER + 16 + 8),
            _ => (VALUES + others * FEW_VALUES) * 8,
        }
    }

    /// Passes the first free bank to `change`. None: all were busy, in every round.
    pub(crate) fn with<R>(&self, mut change: impl FnMut(&mut Bank) -> R) -> Option<R> {
        for _ in 0..ROUNDS {
            for bank in &self.banks {
                if let Some(mut bank) = free(bank) {
                    let result = change(&mut bank);
                    if !self.used.load(Ordering::Relaxed) {
                        set(&self.used);
                    }
                    return Some(result);
                }
            }
            spin_loop();
        }
        None
    }

    /// Passes every bank that holds something to `visit` and empties it, the first bank first:
    /// values in the others came while it was being emptied. A bank that is busy now is left for
    /// the next time.
    pub(crate) fn take(&self, mut visit: impl FnMut(&Bank)) {
        if !self.used.swap(false, Ordering::Relaxed) {
            return;
        }
        for bank in &self.banks {
            match (0..ROUNDS).find_map(|_| free(bank)) {
                None => set(&self.used),
                Some(mut bank) if !bank.is_empty() => {
                    visit(&bank);
                    bank.clear();
                }
                Some(_) => (),
            }
        }
    }

    /// Empties all banks, for a caller that is alone with them; false when one is held. Checks each
    /// bank whatever `used` says: a fork may have come after a collector reset `used` and before it
    /// emptied the banks, and then the parent's values are still there.
    pub(crate) fn clear(&self) -> bool {
        self.used.store(false, Ordering::Relaxed);
        let mut done = true;
        for bank in &self.banks {
            match free(bank) {
                Some(mut bank) if !bank.is_empty() => bank.clear(),
                Some(_) => (),
                None => done = false,
            }
        }
        done
    }
}

/// The bank, if its lock is free. A panic inside leaves numbers, at worst one too few.
fn free(bank: &Mutex<Bank>) -> Option<MutexGuard<'_, Bank>> {
    match bank.try_lock() {
        Ok(bank) => Some(bank),
        Err(TryLockError::Poisoned(bank)) => Some(bank.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::set as set_flag;

    #[test]
    fn values_past_the_room_are_a_fair_sample_and_the_sums_are_of_all() {
        let mut values = Values::new(VALUES, 7);
        (0..100_000).for_each(|n| assert!(values.add(f64::from(n))));
        assert_eq!((values.raw, values.min, values.max), (100_000, 0.0, 99_999.0));
        assert_eq!(values.sum, 4_999_950_000.0);
        assert_eq!((values.kept.len(), values.kept.capacity()), (VALUES, VALUES));
        let mean = values.kept.iter().sum::<f64>() / VALUES as f64;
        // The mean of 256 of 100,000 has a standard deviation of 1,804; the seed is fixed.
        assert!((45_000.0..55_000.0).contains(&mean), "{mean}");
        assert!(!Values { sum: f64::MAX, ..Values::new(1, 1) }.add(f64::MAX));
    }

    #[test]
    fn a_bank_of_members_holds_what_fits_and_counts_the_rest() {
        let mut members = Members::new(FEW_MEMBERS);
        let hash = |n: u64| mixed(n) % 4;
        for _ in 0..2 {
            (0..40).for_each(|n| members.add(hash(n), &format!("m{n}")));
        }
        let mut seen = Vec::new();
        members.each(|member| seen.push(member.to_owned()));
        assert_eq!(seen, (0..32).map(|n| format!("m{n}")).collect::<Vec<_>>());
        assert_eq!(members.refused, 16, "eight of them, twice");
        members.clear();
        members.add(1, &"x".repeat(FEW_MEMBERS * BYTES_A_MEMBER + 1));
        assert_eq!((members.places.len(), members.refused), (0, 1));
    }

    #[test]
    fn a_bank_that_is_busy_is_passed_over_and_taken_the_next_time() {
        let banks = Banks::new(Kind::Gauge, false, 1);
        let set = |n: u64| {
            move |bank: &mut Bank| match bank {
                Bank::Gauge(gauge) => {
                    gauge.set(n, 0.5);
                    true
                }
                _ => false,
            }
        };
        assert_eq!(banks.with(set(1)), Some(true));
        let held = free(&banks.banks[0]);
        assert_eq!(banks.with(set(2)), Some(true), "a signal handler, in the other bank");
        let taken = |banks: &Banks| {
            let mut seen = Vec::new();
            banks.take(|bank| {
                if let Bank::Gauge(Gauge { set: Some((number, _)), .. }) = bank {
                    seen.push(*number);
                }
            });
            seen
        };
        assert_eq!(taken(&banks), [2], "the other one");
        assert!(!banks.clear(), "somebody has one");
        drop(held);
        let first = free(&banks.banks[0]);
        assert_eq!(banks.with(set(3)), Some(true));
        drop(first);
        assert_eq!((taken(&banks), taken(&banks)), (vec![1, 3], vec![]));
        assert!(banks.clear());
        assert_eq!(banks.with(set(4)), Some(true));
        // As after a fork in which a collector had reset `used` and not emptied the banks.
        banks.used.store(false, Ordering::Relaxed);
        assert!(banks.clear());
        set_flag(&banks.used);
        assert_eq!(taken(&banks), [], "what the parent had");
    }
}
