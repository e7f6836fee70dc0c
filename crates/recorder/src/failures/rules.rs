//! Requests that ended with an error, and those the program's own predicate chose.
//!
//! How it works: rules are numbered bits. The rules that apply to a name are looked up when the
//! name is first used; the rules that apply to an error's type, when a request fails. A request
//! that ends well and whose name no rule applies to costs one load here; a failed request costs a
//! few loads and additions, and a lookup of its type under a lock.
//!
//! What it promises: the share of failed requests that a reader sees was true at some time or is
//! smaller. What is missing on purpose: the rules (`crates/trigger`) and what follows from them.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use format::block::{pack_pair, unpack_pair};

use crate::limits::{entry, NAMES};
use crate::mailbox::Mailbox;

/// Rules at most: one bit each.
pub const ERROR_RULES: usize = 16;

/// The rules.
pub trait ErrorJudge: Send + Sync {
    /// The rules that apply to requests of this name, a bit each.
    fn of_name(&self, name: &str) -> u16;
    /// The rules that apply to errors of this type ("": an error without a type), a bit each.
    fn of_kind(&self, kind: &str) -> u16;
    /// The rules that judge each failed request by itself, a bit each.
    fn single(&self) -> u16;
}

/// A request that failed or was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its id.
    pub id: u64,
    /// Its name.
    pub name: ring::Name,
    /// A failed request: name of the error's type, 0 none. A chosen request: how long it took, in
    /// microseconds.
    pub detail: u32,
}

/// How a request failed: the name of the error's type, and the rules that apply to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failed(u64);

impl Failed {
    /// Set in every failure, so that none of them is 0, which means "did not fail".
    const MARK: u32 = 1 << 16;

    pub(crate) fn new(kind: ring::Name, bits: u16) -> Failed {
        Failed(pack_pair(kind, u32::from(bits) | Failed::MARK))
    }

    pub(crate) fn from_word(word: u64) -> Failed {
        Failed(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn has_no_type(self) -> bool {
        unpack_pair(self.0).0 == 0
    }

    pub(crate) fn is(self) -> bool {
        self.0 != 0
    }
}

/// Counters by rule, and the mailboxes.
pub struct Failures {
    judge: Mutex<Option<Arc<dyn ErrorJudge>>>,
    /// Rules that apply to any error. Relaxed, as all words here but `counts`: no word depends on
    /// another.
    any: AtomicU16,
    single: AtomicU16,
    /// By name id, the rules that apply to it.
    marks: Box<[AtomicU16]>,
    /// Requests that ended and requests that failed, by rule: stored in this order and loaded in
    /// the opposite order.
    counts: [[AtomicU64; 2]; ERROR_RULES],
    failed: Mailbox,
    chosen: Mailbox,
    /// Requests that ended where the predicate could not be called: id, name and error, duration.
    pub(super) postponed: Mailbox<3>,
    /// How many of `postponed` the predicate was called for. The lock is only ever tried, never
    /// waited for.
    pub(super) asked: Mutex<u64>,
}

impl Failures {
    pub(crate) fn new() -> Failures {
        Failures {
            judge: Mutex::new(None),
            any: AtomicU16::new(0),
            single: AtomicU16::new(0),
            marks: (0..NAMES).map(|_| AtomicU16::new(0)).collect(),
            counts: [const { [const { AtomicU64::new(0) }; 2] }; ERROR_RULES],
            failed: Mailbox::new(),
            chosen: Mailbox::new(),
            postponed: Mailbox::new(),
            asked: Mutex::new(0),
        }
    }

    pub(crate) fn replace(&self, judge: Arc<dyn ErrorJudge>) {
        self.any.store(judge.of_kind(""), Ordering::Relaxed);
        self.single.store(judge.single(), Ordering::Relaxed);
        *self.judge.lock().unwrap_or_else(|p| p.into_inner()) = Some(judge);
    }

    fn judge(&self) -> Option<Arc<dyn ErrorJudge>> {
        self.judge.lock().unwrap_or_else(|p| p.into_inner()).clone()
    }

    pub(crate) fn know(&self, name: ring::Name, text: &str) {
        let bits = self.judge().map_or(0, |judge| judge.of_name(text));
        self.marks[entry(name)].store(bits, Ordering::Relaxed);
    }

    /// The rules that apply to errors of this type.
    pub(crate) fn bits_of(&self, kind: &str) -> u16 {
        self.judge().map_or(0, |judge| judge.of_kind(kind))
    }

    pub(crate) fn ended(&self, id: u64, name: ring::Name, error: bool, failed: Failed) {
        let marks = self.marks[entry(name)].load(Ordering::Relaxed);
        if marks != 0 {
            self.count(id, name, marks, error, failed);
        }
    }

    #[cold]
    fn count(&self, id: u64, name: ring::Name, marks: u16, error: bool, failed: Failed) {
        let (kind, rest) = unpack_pair(failed.0);
        let bits = match (failed.is(), error) {
            (true, _) => rest as u16,
            (false, true) => self.any.load(Ordering::Relaxed),
            (false, false) => 0,
        } & marks;
        for (rule, [ended, fails]) in self.counts.iter().enumerate() {
            if marks & 1 << rule != 0 {
                ended.fetch_add(1, Ordering::Relaxed);
                // Release: a reader that sees this failure also sees its request among those that
                // ended.
                fails.fetch_add(u64::from(bits >> rule & 1), Ordering::Release);
            }
        }
        if bits & self.single.load(Ordering::Relaxed) != 0 {
            self.failed.post([id, pack_pair(name, kind)]);
        }
    }

    /// Requests that a rule applies to that ended so far, and how many of them failed. The share is
    /// never larger than it was at some time, since requests may end between the two loads.
    pub fn counts(&self, rule: usize) -> (u64, u64) {
        let [ended, fails] = &self.counts[rule % ERROR_RULES];
        // Acquire: pairs with the release in `count`, so this load comes first.
        let failed = fails.load(Ordering::Acquire);
        (ended.load(Ordering::Relaxed), failed)
    }

    /// Failed requests for the rules that judge each by itself, as `Limits::take_slow`.
    pub fn take_failed(&self, seen: u64, mut each: impl FnMut(Recorded)) -> u64 {
        self.failed.take(seen, |[id, word], _| {
            let (name, detail) = unpack_pair(word);
            each(Recorded { id, name, detail });
        })
    }

    /// Requests that the predicate chose, as `Limits::take_slow`.
    pub fn take_chosen(&self, seen: u64, mut each: impl FnMut(Recorded)) -> u64 {
        self.chosen.take(seen, |[id, word], _| {
            let (name, detail) = unpack_pair(word);
            each(Recorded { id, name, detail });
        })
    }

    pub(super) fn choose(&self, id: u64, name: ring::Name, took_ns: u64) {
        let took_us = u32::try_from(took_ns / 1000).unwrap_or(u32::MAX);
        self.chosen.post([id, pack_pair(name, took_us)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct All;

    impl ErrorJudge for All {
        fn of_name(&self, _: &str) -> u16 {
            1
        }
        fn of_kind(&self, _: &str) -> u16 {
            1
        }
        fn single(&self) -> u16 {
            0
        }
    }

    /// Where every request fails, the share that failed is 100 % at every reading, never more.
    #[test]
    fn no_share_is_seen_that_never_was() {
        let failures = Failures::new();
        failures.replace(Arc::new(All));
        failures.know(1, "checkout");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..2_000_000).for_each(|id| failures.ended(id, 1, true, Failed::default()));
            });
            let mut seen = 0;
            while seen < 2_000_000 {
                let (ended, failed) = failures.counts(0);
                assert!(failed <= ended, "{failed} of {ended} requests failed");
                seen = failed;
            }
        });
    }
}
