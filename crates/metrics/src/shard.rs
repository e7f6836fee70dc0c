//! A shard: one thread's totals and banks of all series, in pages that are made at first use.

use std::sync::atomic::{AtomicU64, Ordering};

use sys::cell::StaticRef;

use crate::bank::{mixed, Bank, Banks};
use crate::cell::Cell;
use crate::refused::Refused;
use crate::series::{Series, MOST_SERIES};
use crate::state::State;
use crate::window::Kind;

/// The number of shards of threads. Further threads count into the shared one.
pub const MOST_SHARDS: usize = 256;
/// Series a page.
pub(crate) const PAGE: usize = 32;
const PAGES: usize = MOST_SERIES.div_ceil(PAGE);

/// On cache lines of its own, since other threads write to its neighbours.
#[repr(align(64))]
struct Page {
    cells: [Cell; PAGE],
    banks: [StaticRef<Banks>; PAGE],
}

/// A shard. One thread at a time counts into it (the *shared* one excepted), the collector reads.
pub struct Shard {
    shared: bool,
    state: State,
    /// State of the random numbers for rates. Relaxed, by its owner.
    random: AtomicU64,
    pages: [StaticRef<Page>; PAGES],
}

impl Page {
    fn new() -> Page {
        Page { cells: [const { Cell::new() }; PAGE], banks: [const { StaticRef::empty() }; PAGE] }
    }
}

impl Shard {
    pub(crate) const fn new(shared: bool) -> Shard {
        Shard {
            shared,
            state: State::new(),
            random: AtomicU64::new(0),
            pages: [const { StaticRef::empty() }; PAGES],
        }
    }

    /// The words of a counter. Allocates at the first use of a page.
    #[inline]
    pub fn cell(&self, series: &Series) -> &'static Cell {
        &self.page(series.slot / PAGE).cells[series.slot % PAGE]
    }

    /// The same of a counter without a rate whose page is there; allocates nothing. For the owner
    /// of a shard that is not shared.
    #[inline]
    pub(crate) fn known(&self, series: &Series) -> Option<&'static Cell> {
        // Past all pages for a series with a rate.
        let page = self.pages.get(series.plain_slot / PAGE)?.get()?;
        Some(&page.cells[series.plain_slot % PAGE])
    }

    #[inline]
    fn page(&self, number: usize) -> &'static Page {
        self.pages[number].get_or_make(Page::new)
    }

    /// Adds to a counter, scaled up by its rate. False: the sum would be infinite.
    #[inline]
    pub fn count(&self, series: &Series, n: i64) -> bool {
        if series.rate < 1.0 {
            return self.count_float(series, n as f64);
        }
        match self.shared {
            false => self.cell(series).add(n),
            true => self.cell(series).add_shared(n),
        }
    }

    /// As `count`, for a fraction.
    pub fn count_float(&self, series: &Series, n: f64) -> bool {
        let n = n / series.rate;
        let whole = n as i64;
        let (exact, cell) = (whole as f64 == n && n.abs() < 9e15, self.cell(series));
        match (self.shared, exact) {
            (false, true) => cell.add(whole),
            (true, true) => cell.add_shared(whole),
            (false, false) => cell.add_float(n),
            (true, false) => cell.add_float_shared(n),
        }
    }

    /// Whether a call of a series with a rate below 1 is let through this time.
    pub fn lets_through(&self, series: &Series) -> bool {
        if series.rate >= 1.0 {
            return true;
        }
        let state = self.random.load(Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.store(state, Ordering::Relaxed);
        ((mixed(state) >> 11) as f64) < series.rate * (1u64 << 53) as f64
    }

    /// A value of a timing, histogram or distribution, finite.
    pub(crate) fn value(&self, banks: &Banks, value: f64) -> Refused {
        let add = |bank: &mut Bank| match bank {
            Bank::Values(values) => values.add(value),
            _ => false,
        };
        banks.with(add).into()
    }

    /// Sets a gauge, finite. The number orders it before later sets and deltas of other threads.
    pub(crate) fn gauge_set(&self, series: &Series, banks: &Banks, value: f64) -> Refused {
        let number = series.sets.fetch_add(1, Ordering::Relaxed) + 1;
        let set = |bank: &mut Bank| match bank {
            Bank::Gauge(gauge) => {
                gauge.set(number, value);
                true
            }
            _ => false,
        };
        banks.with(set).into()
    }

    /// A change of a gauge, finite.
    pub(crate) fn gauge_add(&self, series: &Series, banks: &Banks, delta: f64) -> Refused {
        let number = series.sets.load(Ordering::Relaxed);
        let add = |bank: &mut Bank| match bank {
            Bank::Gauge(gauge) => gauge.add(number, delta),
            _ => false,
        };
        banks.with(add).into()
    }

    /// A member of a set.
    pub(crate) fn member(&self, banks: &Banks, hash: u64, member: &str) -> Refused {
        let add = |bank: &mut Bank| match bank {
            Bank::Members(members) => {
                members.add(hash, member);
                true
            }
            _ => false,
        };
        banks.with(add).into()
    }

    /// The banks of a series; made at the first use, if `take_bytes` grants their bytes.
    pub(crate) fn banks(
        &self,
        take_bytes: impl FnOnce(usize) -> bool,
        series: &Series,
    ) -> Option<&'static Banks> {
        let place = &self.page(series.slot / PAGE).banks[series.slot % PAGE];
        if let Some(banks) = place.get() {
            return Some(banks);
        }
        let kind = series.id.kind;
        if !take_bytes(Banks::bytes(kind, self.shared)) {
            return None;
        }
        let seed = std::ptr::from_ref(place) as u64;
        Some(place.get_or_make(|| Banks::new(kind, self.shared, seed)))
    }

    /// Makes everything that counting a series into this shard needs. False: no bytes left.
    pub(crate) fn prepare(&self, take_bytes: impl FnOnce(usize) -> bool, series: &Series) -> bool {
        self.cell(series);
        series.id.kind == Kind::Counter || self.banks(take_bytes, series).is_some()
    }

    /// Takes the shard for the caller, emptied of a parent process's counts. False: it has an
    /// owner.
    pub(crate) fn claim(&self, generation: u64) -> bool {
        self.state.claim(generation, || self.forget())
    }

    /// Gives the shard back. Its content stays for the next window.
    pub(crate) fn release(&self, generation: u64) {
        self.state.release(generation);
    }

    /// Whether its content was counted by this process.
    pub(crate) fn is_of(&self, generation: u64) -> bool {
        self.state.is_of(generation)
    }

    /// Marks all as taken. False: a bank of it is held for ever.
    pub(crate) fn forget(&self) -> bool {
        let mut clean = true;
        for page in self.pages.iter().filter_map(StaticRef::get) {
            page.cells.iter().for_each(Cell::forget);
            for banks in page.banks.iter().filter_map(StaticRef::get) {
                clean &= banks.clear();
            }
        }
        clean
    }

    /// The words and banks of a page, if it is there.
    pub(crate) fn with_page(
        &self,
        number: usize,
    ) -> Option<(&'static [Cell; PAGE], &'static [StaticRef<Banks>; PAGE])> {
        self.pages[number].get().map(|page| (&page.cells, &page.banks))
    }
}
