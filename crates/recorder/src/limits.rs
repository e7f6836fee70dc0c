//! How long a request may take, how long it usually takes, and which requests took too long.
//!
//! How it works: one word for each name id holds its limit and another its typical time. A
//! request's end compares with the limit and posts to a mailbox that the sampler reads (`mailbox`).
//!
//! What it promises: no lock, allocation or wait at a request's end. What is missing on purpose:
//! the rules behind the limits and what a slow request triggers (`crates/trigger`).

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

/// Number of groups of requests that a rule judges together; in group 0 each is judged by itself.
pub const GROUPS: usize = 16;

/// The rules' answer for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// How long a request may take, ns; `u64::MAX`: no limit.
    pub ns: u64,
    /// The group it is counted in, 1 to `GROUPS` - 1; 0 none.
    pub group: usize,
}

/// Returns the limit of a name; called once a name, and again when the rules change.
pub type LimitOf = Box<dyn Fn(&str) -> Limit + Send + Sync>;

/// Limits, typical times and the mailbox.
pub struct Limits {
    /// Locked only to clone it, and called without the lock: many threads use new names.
    limit_of: Mutex<Arc<LimitOf>>,
    /// Group by name id. Relaxed, as all of these but `counts`.
    groups: Box<[AtomicU8]>,
    /// Requests that ended and requests past their limit, by group: stored in this order and loaded
    /// in the opposite order.
    counts: [[AtomicU64; 2]; GROUPS],
    /// Limit by name id, ns; 0 not known yet. Relaxed: no word depends on another.
    limits: Box<[AtomicU64]>,
    /// Typical time by name id, ns: a running median that moves by 1/16 of itself a request.
    /// Relaxed: racing updates lose one step, which does no harm.
    typical: Box<[AtomicU64]>,
    /// Text by name id, for names that have an entry of their own.
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

    /// Uses other rules from here on.
    pub(crate) fn replace(&self, limit_of: LimitOf) {
        *self.limit_of.lock().unwrap_or_else(|p| p.into_inner()) = Arc::new(limit_of);
    }

    /// Looks up again the limit of a name that requests have used.
    pub(crate) fn judge_again(&self, name: ring::Name, text: &str) {
        if self.is_request(name) {
            self.judge(name, text);
        }
    }

    /// Whether a request has used the name.
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

    /// Posts the request to the trigger if it took too long; returns whether it did, and what was
    /// typical before it.
    pub(crate) fn ended(&self, id: u64, name: ring::Name, took_ns: u64) -> (bool, u64) {
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
            // Release: a reader that counts this request among those over their limit also counts
            // it among those that ended.
            over.fetch_add(u64::from(is_over), Ordering::Release);
        }
        if is_over {
            self.post(id, name, took_ns);
        }
        (is_over, old)
    }

    /// The group a name is counted in; 0 none.
    pub fn group_of(&self, name: ring::Name) -> usize {
        usize::from(self.groups[entry(name)].load(Ordering::Relaxed)).min(GROUPS - 1)
    }

    /// Requests of a group that ended so far, and how many of them were past their limit. The share
    /// is never larger than it was at some time, since requests may end between the two loads.
    pub fn counts(&self, group: usize) -> (u64, u64) {
        let [ended, over] = &self.counts[group.min(GROUPS - 1)];
        // Acquire: pairs with the release in `ended`, so this load comes first.
        let past = over.load(Ordering::Acquire);
        (ended.load(Ordering::Relaxed), past)
    }

    #[cold]
    fn post(&self, id: u64, name: ring::Name, took_ns: u64) {
        let took_us = u32::try_from(took_ns / 1000).unwrap_or(u32::MAX);
        self.mailbox.post([id, pack_pair(name, took_us)]);
    }

    /// Slow requests posted since the count `seen` (start with 0), oldest first; returns the new
    /// count. Of more than 64 between two calls the oldest are left out; the count includes them.
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

    /// Where every request is past its limit, the share is 100 % at every reading, never more.
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
