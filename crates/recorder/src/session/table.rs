//! The open sessions of this process: their filters and queues.

use std::sync::atomic::{AtomicU64, Ordering};

use format::record::{Kind, STILL_OUT};
use ring::Queue;
use sys::cell::Visited;

/// Sessions at once, the black box included.
pub const SESSIONS: usize = 64;

/// Which records a session takes.
pub struct Filter {
    /// Kinds, a bit each (`1 << Kind as u64`).
    pub kinds: u64,
    /// Spans, requests, tasks, collections, off-CPU times: shorter ones are left out. ns.
    pub min_ns: u64,
    /// Which names; None: all. Called once a name. Records without a name pass.
    pub names: Option<NameFilter>,
}

/// Whether a name passes.
pub type NameFilter = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl Default for Filter {
    fn default() -> Filter {
        Filter { kinds: u64::MAX, min_ns: 0, names: None }
    }
}

/// An entry of the table while a session is open.
pub(super) struct Receiver {
    pub(super) filter: Filter,
    /// Names that pass, a bit each by id.
    pub(super) passing: Box<[AtomicU64]>,
    pub(super) queue: Queue,
    /// Records that its filter left out.
    pub(super) filtered: AtomicU64,
}

pub(super) static TABLE: [Visited<Receiver>; SESSIONS] = [const { Visited::empty() }; SESSIONS];

/// A new name: sessions that choose by name decide about it. Called under the tables' lock.
pub(crate) fn learn_name(id: ring::Name, text: &str) {
    for place in TABLE.iter().filter(|place| !place.is_empty()) {
        place.with(|receiver| receiver.learn(id, text));
    }
}

/// In a forked child: the parent's sessions are not ours.
pub(crate) fn forget_all() {
    TABLE.iter().for_each(Visited::forget);
}

impl Receiver {
    pub(super) fn learn(&self, id: ring::Name, text: &str) {
        let passes = self.filter.names.as_ref().is_some_and(|passes| passes(text));
        if let Some(word) = self.passing.get(id as usize / 64).filter(|_| passes) {
            word.fetch_or(1 << (id % 64), Ordering::Relaxed);
        }
    }

    pub(super) fn wants(&self, record: &[u64]) -> bool {
        let head = record.first().copied().unwrap_or_default();
        let kind = head as u8;
        let of_kind = self.filter.kinds & (1 << (kind & 63)) != 0;
        if !of_kind || duration(kind, record) < self.filter.min_ns {
            return false;
        }
        if self.filter.names.is_none() || !has_name(kind) {
            return true;
        }
        let name = (head >> 32) as usize;
        let word = self.passing.get(name / 64).map_or(0, |word| word.load(Ordering::Relaxed));
        word >> (name % 64) & 1 == 1
    }
}

/// Duration of what the record describes; `u64::MAX` for a record without a duration.
fn duration(kind: u8, record: &[u64]) -> u64 {
    let between = |from: usize, to: usize| match (record.get(from), record.get(to)) {
        (Some(_), Some(&STILL_OUT)) => u64::MAX,
        (Some(begin), Some(end)) => end.saturating_sub(*begin),
        _ => u64::MAX,
    };
    match kind {
        k if k == Kind::Span as u8 || k == Kind::RequestEnd as u8 || k == Kind::Gc as u8 => {
            between(1, 2)
        }
        k if k == Kind::OffCpu as u8 => between(1, 2),
        k if k == Kind::Task as u8 => between(2, 3),
        _ => u64::MAX,
    }
}

fn has_name(kind: u8) -> bool {
    let named = [
        Kind::Event,
        Kind::Span,
        Kind::RequestBegin,
        Kind::RequestEnd,
        Kind::Task,
        Kind::Vital,
        Kind::Metric,
    ];
    named.iter().any(|k| *k as u8 == kind)
}
