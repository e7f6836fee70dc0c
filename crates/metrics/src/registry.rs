//! The registry: the table of series, the shards, and the bounds of both.
//!
//! How it works: a series is looked up by its hash and gets a slot, its index in every shard.
//! Shards are claimed by threads and read by one collector.
//!
//! What it promises: the tables only grow, up to their bounds, and what is refused is counted. A
//! forked child goes on with the same series and none of the counts. What is missing on purpose:
//! time and I/O.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use sys::cell::StaticRef;
use sys::shelf::Shelf;

use crate::bank::Banks;
use crate::refused::Refused;
use crate::series::{Key, Series, MOST_SERIES};
use crate::shard::{Shard, MOST_SHARDS, PAGE};
use crate::window::{Kind, Reading};
use crate::{merge, own};

/// The number of series by default.
pub const DEFAULT_SERIES: usize = 2000;
/// The largest number of bytes of banks (everything but counters) in all shards.
pub const MOST_BYTES: usize = 32 << 20;
/// This many tags are sorted without allocating.
const FEW_TAGS: usize = 8;
/// At least half empty, so that every probe ends soon.
const SLOTS: usize = 16_384;

/// The large tables; all zero at first, so they take no room in a binary.
pub struct Tables {
    series: Shelf<Series, SLOTS>,
    /// The same by slot.
    by_slot: [StaticRef<Series>; MOST_SERIES],
    shards: [StaticRef<Shard>; MOST_SHARDS],
    /// For threads without a shard, for counts from inside a count, and for threads that end.
    shared: Shard,
}

impl Tables {
    /// Empty tables.
    #[must_use]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Tables {
        Tables {
            series: Shelf::empty(),
            by_slot: [const { StaticRef::empty() }; MOST_SERIES],
            shards: [const { StaticRef::empty() }; MOST_SHARDS],
            shared: Shard::new(true),
        }
    }
}

/// All metrics. The process has one registry, `registry()`; tests make their own.
pub struct Registry {
    tables: &'static Tables,
    /// Slots in use.
    slots: AtomicUsize,
    most: AtomicUsize,
    bytes: AtomicUsize,
    /// Number of this process among its ancestors, from 1. Changed by a child that is alone.
    generation: AtomicU64,
    /// The generation, or 0 while counting is off. Handles compare with it.
    mark: AtomicU64,
    /// The generation that collects now, 0: none. So a parent's collector does not keep a child
    /// out.
    collecting: AtomicU64,
    /// Calls refused since the last collection, by reason. Relaxed counters.
    refused_series: AtomicU64,
    refused_values: AtomicU64,
}

static TABLES: Tables = Tables::new();
static REGISTRY: Registry = Registry::new(&TABLES);
/// Whether the fork hook is registered. Written after the registration: a thread that comes at the
/// same time, or a child forked in between, registers again, and running the hook twice in a child
/// does no harm.
static HOOKED: AtomicBool = AtomicBool::new(false);

/// The registry of this process.
#[inline]
pub fn registry() -> &'static Registry {
    &REGISTRY
}

extern "C" fn on_fork_child() {
    own::forget();
    REGISTRY.after_fork_child();
}

impl Registry {
    /// Without any series.
    #[must_use]
    pub const fn new(tables: &'static Tables) -> Registry {
        Registry {
            tables,
            slots: AtomicUsize::new(0),
            most: AtomicUsize::new(DEFAULT_SERIES),
            bytes: AtomicUsize::new(0),
            generation: AtomicU64::new(1),
            mark: AtomicU64::new(1),
            collecting: AtomicU64::new(0),
            refused_series: AtomicU64::new(0),
            refused_values: AtomicU64::new(0),
        }
    }

    /// The generation of this process; 0 while counting is turned off. One load.
    #[inline]
    pub fn mark(&self) -> u64 {
        self.mark.load(Ordering::Relaxed)
    }

    /// Turns counting on or off. Off, every call is a load and a branch.
    pub fn turn(&self, on: bool) {
        let generation = self.generation();
        self.mark.store(if on { generation } else { 0 }, Ordering::Relaxed);
    }

    /// Sets how many series there may be, at most `MOST_SERIES`. Existing series stay.
    pub fn set_most(&self, series: usize) {
        self.most.store(series.min(MOST_SERIES), Ordering::Relaxed);
    }

    /// How many series there are.
    pub fn series(&self) -> usize {
        self.slots.load(Ordering::Relaxed).min(MOST_SERIES)
    }

    /// The series of that kind, name, tags and rate; a new one is entered, which allocates. Tags
    /// may come in any order. None if there are too many series, a text is too long (255 bytes),
    /// there are more than 32 tags, the name is empty, or the rate is not in (0, 1]; the caller
    /// then counts each call with `refuse_series`.
    pub fn series_of(
        &self,
        kind: Kind,
        name: &str,
        tags: &[(&str, &str)],
        rate: f64,
    ) -> Option<&'static Series> {
        if !tags.is_sorted() {
            return self.series_of_unsorted(kind, name, tags, rate);
        }
        let key = Key { kind, name, tags, rate };
        let hash = key.hash();
        let found = self.tables.series.find(hash, |series| key.is(series));
        let found = found.or_else(|| self.enter(&key, hash));
        if let Some(series) = found {
            // Also for a process that forked while another thread was between the two tables.
            let place = &self.tables.by_slot[series.slot];
            if place.get().is_none() {
                place.set(Some(series));
            }
        }
        found
    }

    /// The series with this number (`Series::number`), if there is one.
    #[inline]
    pub fn numbered(&self, number: u32) -> Option<&'static Series> {
        let slot = (number as usize).checked_sub(1)?;
        self.tables.by_slot.get(slot).and_then(StaticRef::get)
    }

    #[inline(never)]
    fn series_of_unsorted(
        &self,
        kind: Kind,
        name: &str,
        tags: &[(&str, &str)],
        rate: f64,
    ) -> Option<&'static Series> {
        let (mut few, mut many) = ([("", ""); FEW_TAGS], Vec::new());
        let sorted = match few.get_mut(..tags.len()) {
            Some(few) => {
                few.copy_from_slice(tags);
                few
            }
            None => {
                many.extend_from_slice(tags);
                &mut many[..]
            }
        };
        sorted.sort_unstable();
        self.series_of(kind, name, sorted, rate)
    }

    #[cold]
    fn enter(&self, key: &Key<'_>, hash: u64) -> Option<&'static Series> {
        if std::ptr::eq(self, &REGISTRY) && !HOOKED.load(Ordering::Relaxed) {
            // An error (no memory for the hook): a child would send its parent's counts again.
            sys::fork::register(None, None, Some(on_fork_child)).ok()?;
            HOOKED.store(true, Ordering::Relaxed);
        }
        let most = self.most.load(Ordering::Relaxed);
        // Checked before a slot is taken, so that refusals do not use up slots.
        let bytes = Banks::bytes(key.kind, true) + self.bytes.load(Ordering::Relaxed);
        if !key.is_within_bounds() || bytes > MOST_BYTES {
            return None;
        }
        let next = |slot: usize| (slot < most).then_some(slot + 1);
        let slot = self.slots.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        // Two threads that enter the same new series at once use up a slot.
        let made = key.make(slot);
        if !self.tables.shared.prepare(|bytes| self.take_bytes(bytes), &made) {
            return None;
        }
        let (_, series) = self.tables.series.find_or_add(hash, |series| key.is(series), || made)?;
        Some(series)
    }

    /// A shard for the caller alone, until `release`. None: all are taken.
    pub fn claim(&self) -> Option<&'static Shard> {
        let generation = self.generation();
        let mut shards =
            self.tables.shards.iter().map(|place| place.get_or_make(|| Shard::new(false)));
        shards.find(|shard| shard.claim(generation))
    }

    /// Gives back a shard that was claimed in `generation`. Its counts stay. Another generation
    /// than the present one: it was the parent's shard, and nothing is done.
    pub fn release(&self, shard: &Shard, generation: u64) {
        if generation == self.generation() {
            shard.release(generation);
        }
    }

    /// Number of this process among its ancestors, from 1.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// The shard that any thread may count into at any time, at the price of contention.
    #[inline]
    pub fn shared(&self) -> &'static Shard {
        &self.tables.shared
    }

    /// Adds to a counter.
    #[inline]
    pub fn count(&self, shard: &Shard, series: &Series, n: i64) {
        if shard.lets_through(series) && !shard.count(series, n) {
            self.refuse_value();
        }
    }

    /// Adds a fraction to a counter.
    pub fn count_float(&self, shard: &Shard, series: &Series, n: f64) {
        if n.is_finite() && !shard.lets_through(series) {
            return;
        }
        if !n.is_finite() || !shard.count_float(series, n) {
            self.refuse_value();
        }
    }

    /// Adds a value of a timing, histogram or distribution.
    pub fn value(&self, shard: &Shard, series: &Series, value: f64) {
        self.put(shard, series, value, |shard, banks| shard.value(banks, value));
    }

    /// Sets a gauge.
    pub fn gauge_set(&self, shard: &Shard, series: &Series, value: f64) {
        self.put(shard, series, value, |shard, banks| shard.gauge_set(series, banks, value));
    }

    /// Changes a gauge.
    pub fn gauge_add(&self, shard: &Shard, series: &Series, delta: f64) {
        self.put(shard, series, delta, |shard, banks| shard.gauge_add(series, banks, delta));
    }

    /// Adds a member of a set.
    pub fn member(&self, shard: &Shard, series: &Series, member: &str) {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let hash = member.bytes().fold(0xcbf2_9ce4_8422_2325, step);
        self.put(shard, series, 0.0, |shard, banks| shard.member(banks, hash, member));
    }

    #[inline]
    fn put(
        &self,
        shard: &Shard,
        series: &Series,
        value: f64,
        put: impl Fn(&Shard, &Banks) -> Refused,
    ) {
        if !value.is_finite() {
            return self.refuse_value();
        }
        if !shard.lets_through(series) {
            return;
        }
        // Without bytes for banks of its own the thread uses the shared ones, which are there.
        let take_bytes = |bytes| self.take_bytes(bytes);
        let own = shard.banks(take_bytes, series).map(|banks| put(shard, banks));
        let done = own.or_else(|| {
            self.tables.shared.banks(take_bytes, series).map(|b| put(&self.tables.shared, b))
        });
        if done != Some(Refused::No) {
            self.refuse_value();
        }
    }

    fn take_bytes(&self, bytes: usize) -> bool {
        let more = |taken: usize| (taken + bytes <= MOST_BYTES).then_some(taken + bytes);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Counts a call that was refused a series.
    #[cold]
    pub fn refuse_series(&self) {
        self.refused_series.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a value that was no finite number, or found no place.
    #[cold]
    pub fn refuse_value(&self) {
        self.refused_values.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls refused since the last call of this: without a series, and because of their value.
    pub fn take_refused(&self) -> (u64, u64) {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        (take(&self.refused_series), take(&self.refused_values))
    }

    /// Everything that came in since the last call, each series once (and rate). One collector at a
    /// time: None while another one is inside.
    pub fn take(&self) -> Option<Vec<Reading>> {
        let generation = self.generation();
        let holder = self.collecting.load(Ordering::Relaxed);
        // Acquire and release: this collector sees what the previous one has taken.
        let enter = || {
            self.collecting.compare_exchange(
                holder,
                generation,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
        };
        if holder == generation || enter().is_err() {
            return None;
        }
        let mut readings = Vec::new();
        let shards = || self.tables.shards.iter().filter_map(StaticRef::get);
        let shards = || shards().filter(|s| s.is_of(generation)).chain([&self.tables.shared]);
        for page in 0..self.series().div_ceil(PAGE) {
            let parts: Vec<_> = shards().filter_map(|shard| shard.with_page(page)).collect();
            for at in 0..PAGE {
                let slot = page * PAGE + at;
                let Some(series) = self.tables.by_slot.get(slot).and_then(StaticRef::get) else {
                    continue;
                };
                let parts = parts.iter().map(|(cells, banks)| (&cells[at], banks[at].get()));
                if let Some(value) = merge::value(series, parts) {
                    readings.push(Reading { id: series.id.clone(), value });
                }
            }
        }
        self.collecting.store(0, Ordering::Release);
        Some(readings)
    }

    /// In a forked child, alone: nothing counted so far is its own. Atomics only; the content of
    /// shards is skipped, and dropped when they are claimed.
    fn after_fork_child(&self) {
        let generation = self.generation() + 1;
        self.generation.store(generation, Ordering::Relaxed);
        if self.mark() != 0 {
            self.mark.store(generation, Ordering::Relaxed);
        }
        // A bank of the shared shard whose holder is gone is never free again; there are others.
        self.tables.shared.forget();
        self.take_refused();
    }
}
