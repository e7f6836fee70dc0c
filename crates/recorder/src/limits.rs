//! How long a request may take, how long it usually takes, and which took too long.

use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use format::block::{pack_pair, unpack_pair};

use crate::mailbox::Mailbox;

/// Names with an id below this have their own entry; later names share the last.
pub(crate) const NAMES: usize = 4096;

/// A request that ended past its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// Its id.
    pub id: u64,
    /// Its name.
    pub name: ring::Name,
    /// How long it took, in microseconds.
    pub took_us: u32,
}

/// Rules that judge a group of requests; 0 means each is judged by itself.
pub const GROUPS: usize = 16;

/// What the rules say of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How long a request may take, ns; `u64::MAX`: as long as it likes.
    pub ns: u64,
    /// The group it is counted in, 1 to `GROUPS` - 1; 0 none.
    pub group: usize,
}

/// Answers the limit of a name; asked once a name, and again when the rules change.
pub type LimitOf = Box<dyn Fn(&str) -> Limit + Send + Sync>;

/// Limits, typical times and the mailbox.
pub struct Limits {
    /// Locked for a moment, to be called without the lock: names are met on many threads.
    limit_of: Mutex<Arc<LimitOf>>,
    /// Group by name id. Relaxed, as all of these but `counts`.
    groups: Box<[AtomicU8]>,
    /// Requests that ended, and those of them past their limit, by group: written in this order and
    /// read in the other one.
    counts: [[AtomicU64; 2]; GROUPS],
    /// Limit by name id, ns; 0 not known yet. Relaxed: each word stands for itself.
    limits: Box<[AtomicU64]>,
    /// Typical time by name id, ns: a running median that moves by 1/16 of itself a request.
    /// Relaxed: racing updates lose one step, which does no harm.
    typical: Box<[AtomicU64]>,
    /// Text by name id, for those that have an entry of their own.
    texts: Box<[OnceLock<Box<str>>]>,
    mailbox: Mailbox,
}

impl Limits {
    pub(crate) fn new(limit_of: LimitOf) -> Limits {
        let zeros = || (0..NAMES).map(|_| AtomicU64::new(0)).collect();
        Limits {
            limit_of: Mutex::new(Arc::new(limit_of)),
            groups: (0..NAMES).map(|_| AtomicU8::new(0)).collect(),
            counts: [const { [const { AtomicU64::new(0) }; 2] }; GROUPS],
            limits: zeros(),
            typical: zeros(),
            texts: (0..NAMES - 1).map(|_| OnceLock::new()).collect(),
            mailbox: Mailbox::new(),
        }
    }

    /// False: the name was known already.
    pub(crate) fn know(&self, name: ring::Name, text: &str) -> bool {
        let is_new = self.limits[entry(name)].load(Ordering::Relaxed) == 0;
        if is_new {
            if let Some(place) = self.texts.get(name as usize) {
                place.get_or_init(|| text.into());
            }
            self.judge(name, text);
        }
        is_new
    }

    fn judge(&self, name: ring::Name, text: &str) {
        let limit_of = self.limit_of.lock().unwrap_or_else(|p| p.into_inner()).clone();
        let limit = limit_of(text);
        self.groups[entry(name)].store(limit.group.min(GROUPS - 1) as u8, Ordering::Relaxed);
        self.limits[entry(name)].store(limit.ns.max(1), Ordering::Relaxed);
    }

    /// Judges by other rules from here on.
    pub(crate) fn replace(&self, limit_of: LimitOf) {
        *self.limit_of.lock().unwrap_or_else(|p| p.into_inner()) = Arc::new(limit_of);
    }

    /// Looks up anew the limit of a name that was met as a request's.
    pub(crate) fn judge_again(&self, name: ring::Name, text: &str) {
        if self.is_request(name) {
            self.judge(name, text);
        }
    }

    /// Whether the name was met as a request's.
    pub(crate) fn is_request(&self, name: ring::Name) -> bool {
        self.limits[entry(name)].load(Ordering::Relaxed) != 0
    }

    /// Requests that ended past their limit so far.
    pub fn slow_count(&self) -> u64 {
        self.mailbox.posted()
    }

    /// The limit of a name, ns; `u64::MAX` when there is none.
    pub fn limit_ns(&self, name: ring::Name) -> u64 {
        match self.limits[entry(name)].load(Ordering::Relaxed) {
            0 => u64::MAX,
            limit => limit,
        }
    }

    /// The typical time of a name, ns; 0 before the first request ended.
    pub fn typical_ns(&self, name: ring::Name) -> u64 {
        self.typical[entry(name)].load(Ordering::Relaxed)
    }

    /// Tells the trigger when it took too long; returns whether it did.
    pub(crate) fn ended(&self, id: u64, name: ring::Name, took_ns: u64) -> bool {
        let slot = &self.typical[entry(name)];
        let old = slot.load(Ordering::Relaxed);
        let new = match old {
            0 => took_ns.max(1),
            _ if took_ns > old => old + (old / 16).max(1),
            _ => old - old / 16,
        };
        slot.store(new, Ordering::Relaxed);
        let is_over = took_ns >= self.limit_ns(name);
        let group = self.group_of(name);
        if group > 0 {
            let [ended, over] = &self.counts[group];
            ended.fetch_add(1, Ordering::Relaxed);
            // Release: who sees it among those over their limit sees it among those that ended.
            over.fetch_add(u64::from(is_over), Ordering::Release);
        }
        if is_over {
            self.post(id, name, took_ns);
        }
        is_over
    }

    /// The group a name is counted in; 0 none.
    pub fn group_of(&self, name: ring::Name) -> usize {
        usize::from(self.groups[entry(name)].load(Ordering::Relaxed)).min(GROUPS - 1)
    }

    /// Requests of a group that ended so far, and those of them past their limit: never more than a
    /// share of them that was true, since requests may end in between.
    pub fn counts(&self, group: usize) -> (u64, u64) {
        let [ended, over] = &self.counts[group.min(GROUPS - 1)];
        // Acquire: pairs with the release in `ended`; so this one first.
        let past = over.load(Ordering::Acquire);
        (ended.load(Ordering::Relaxed), past)
    }

    #[cold]
    fn post(&self, id: u64, name: ring::Name, took_ns: u64) {
        let took_us = u32::try_from(took_ns / 1000).unwrap_or(u32::MAX);
        self.mailbox.post([id, pack_pair(name, took_us)]);
    }

    /// Slow requests posted since the count `seen` (start with 0), oldest first; returns the new
    /// count. More than 64 between two calls: the oldest are not told, their number is in the
    /// count.
    pub fn take_slow(&self, seen: u64, mut each: impl FnMut(SlowRequest)) -> u64 {
        self.mailbox.take(seen, |[id, word], _| {
            let (name, took_us) = unpack_pair(word);
            each(SlowRequest { id, name, took_us });
        })
    }

    /// The text of a request's name, of the first 4,095 names.
    pub fn name_text(&self, name: ring::Name) -> Option<&str> {
        self.texts.get(name as usize)?.get().map(|text| &**text)
    }
}

pub(crate) fn entry(name: ring::Name) -> usize {
    (name as usize).min(NAMES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where every request is past its limit, all are whenever one looks, not more than all.
    #[test]
    fn no_share_is_seen_that_never_was() {
        let limits = Limits::new(Box::new(|_| Limit { ns: 1, group: 1 }));
        limits.know(1, "checkout");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..2_000_000).for_each(|id| {
                    limits.ended(id, 1, 1000);
                })
            });
            let mut seen = 0;
            while seen < 2_000_000 {
                let (ended, past) = limits.counts(1);
                assert!(past <= ended, "{past} of {ended} requests took too long");
                seen = past;
            }
        });
    }
}
