//! The sink that inferences put their comparisons into.
//!
//! How it works: while `during` runs, an inference that asks `wants` about a wait inside of one of
//! its windows puts its comparison here.
//!
//! What it promises: nothing is kept while nobody asks; at most `COMPARISONS_MAX` are.

use std::cell::{Cell, RefCell};

use super::Comparison;

/// Comparisons kept of one example.
const COMPARISONS_MAX: usize = 2048;

/// Where comparisons go.
#[derive(Default)]
pub(crate) struct Trace {
    /// Comparisons over several waits are wanted.
    over_groups: Cell<bool>,
    windows: RefCell<Vec<(u64, u64)>>,
    found: RefCell<Vec<Comparison>>,
    groups: RefCell<Vec<Comparison>>,
}

impl Trace {
    /// A sink for a diagnosis that is to be explained.
    pub(crate) fn on() -> Trace {
        Trace { over_groups: Cell::new(true), ..Trace::default() }
    }

    /// Whether the diagnosis is to be explained.
    pub(crate) fn is_on(&self) -> bool {
        self.over_groups.get()
    }

    /// Whether a comparison about `[from_ns, to_ns)` is asked for.
    pub(crate) fn wants(&self, from_ns: u64, to_ns: u64) -> bool {
        let windows = self.windows.borrow();
        windows.iter().any(|(from, to)| *from < to_ns && from_ns < *to)
    }

    /// Keeps a comparison.
    pub(crate) fn put(&self, comparison: Comparison) {
        let mut found = self.found.borrow_mut();
        if found.len() < COMPARISONS_MAX {
            found.push(comparison);
        }
    }

    /// Keeps a comparison over several waits.
    pub(crate) fn put_of_group(&self, comparison: Comparison) {
        let mut groups = self.groups.borrow_mut();
        if self.is_on() && groups.len() < COMPARISONS_MAX {
            groups.push(comparison);
        }
    }

    /// The comparisons over several waits.
    pub(crate) fn of_groups(&self) -> Vec<Comparison> {
        self.groups.borrow().clone()
    }

    /// The comparisons about `windows` that `work` makes.
    pub(crate) fn during(&self, windows: Vec<(u64, u64)>, work: impl FnOnce()) -> Vec<Comparison> {
        self.windows.replace(windows);
        self.found.take();
        work();
        self.windows.take();
        self.found.take()
    }
}
