//! Sessions: further consumers of records beside the black box, each with its own filter, its own
//! queue, its own policy when the queue is full, and its own exact counters.
//!
//! How it works: a session is a bit in the word that every record loads anyway, so no session costs
//! nothing. A record that finds bits set is offered to each of these sessions: filter first, then
//! the queue. A session that closes clears its bit and waits until no thread is inside it.
//!
//! What it promises: a slow or dead reader of one session affects neither other sessions, nor the
//! black box, nor the threads that record; only a session made to block does, up to its limit.

use std::sync::atomic::{AtomicU64, Ordering};

use format::record::{Kind, STILL_OUT};
use format::region::losses;
use ring::{OnFull, Queue, QueueCounts};
use sys::cell::Visited;

use crate::recorder::{current, set_takers, BLACK_BOX};

/// Sessions at once, the black box included.
pub const SESSIONS: usize = 64;
/// How long closing waits for a thread that is inside; after that the memory is left to the thread.
const LEAVE_NS: u64 = 1_000_000_000;

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
struct Taker {
    filter: Filter,
    /// Names that pass, a bit each by id.
    passing: Box<[AtomicU64]>,
    queue: Queue,
    /// Records that its filter left out.
    filtered: AtomicU64,
}

/// What became of the records that a session was offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// Records its filter left out.
    pub filtered: u64,
    /// What became of the others.
    pub queue: QueueCounts,
}

static TABLE: [Visited<Taker>; SESSIONS] = [const { Visited::empty() }; SESSIONS];

/// An open session; closed when dropped.
#[derive(Debug)]
pub struct Session {
    /// Its number, 1-63: its bit in the word of consumers.
    bit: usize,
    /// The process that opened it: in a forked child the number may be another session's.
    pid: u32,
}

impl Session {
    /// Opens a session with a queue of `bytes`. Errors: 63 are open already, or no recorder runs.
    pub fn open(filter: Filter, on_full: OnFull, bytes: usize) -> Result<Session, String> {
        let recorder = current().ok_or("dashcam is not recording; start it first")?;
        let names = match filter.names {
            Some(_) => recorder.region().layout().name_bytes / 8 / 64 + 1,
            None => 0,
        };
        let mut taker = Box::new(Taker {
            filter,
            passing: (0..names).map(|_| AtomicU64::new(0)).collect(),
            queue: Queue::new(bytes, on_full),
            filtered: AtomicU64::new(0),
        });
        for (bit, place) in TABLE.iter().enumerate().skip(1) {
            match place.put(taker) {
                Err(back) => taker = back,
                Ok(()) => {
                    // From here on new names are learned as they come; these are the names that
                    // exist already.
                    recorder.tables().each_name(|id, text| {
                        place.with(|taker| taker.learn(id, text));
                    });
                    set_takers(1 << bit, true);
                    return Ok(Session { bit, pid: std::process::id() });
                }
            }
        }
        let most = SESSIONS - 1;
        Err(format!("sessions: found {most} open, wanted at most {most}; close one"))
    }

    /// Its number, 1-63.
    pub fn number(&self) -> usize {
        self.bit
    }

    /// Hands over the records in the queue, oldest first, at most `most`; returns how many. One
    /// reader at a time.
    pub fn read(&self, most: usize, mut each: impl FnMut(u32, &[u64])) -> usize {
        let mut record = Vec::with_capacity(128);
        let read = self.with(|taker| {
            let mut count = 0;
            while count < most {
                let Some(tid) = taker.queue.take(&mut record) else { break };
                each(tid, &record);
                count += 1;
            }
            count
        });
        read.unwrap_or(0)
    }

    /// What became of the records it was offered. At rest: offered = read + overwritten + dropped +
    /// torn + still inside.
    pub fn counts(&self) -> SessionCounts {
        let counts = self.with(|taker| SessionCounts {
            filtered: taker.filtered.load(Ordering::Relaxed),
            queue: taker.queue.counts(),
        });
        counts.unwrap_or_default()
    }

    /// Stops recording; what is in the queue can still be read.
    pub fn pause(&self) {
        if self.is_ours() {
            set_takers(1 << self.bit, false);
        }
    }

    /// False in a forked child of the process that opened it.
    pub fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    fn with<R>(&self, visit: impl FnOnce(&Taker) -> R) -> Option<R> {
        self.is_ours().then(|| TABLE[self.bit].with(visit)).flatten()
    }
}

impl Drop for Session {
    /// Its number is free again, unless a thread ended inside it.
    fn drop(&mut self) {
        self.pause();
        if !self.is_ours() {
            return;
        }
        // A thread that is still inside after the limit keeps the memory and the number.
        let _ = TABLE[self.bit].take(LEAVE_NS);
    }
}

/// A new name: sessions that choose by name decide about it. Called under the tables' lock.
pub(crate) fn learn_name(id: ring::Name, text: &str) {
    for place in TABLE.iter().filter(|place| !place.is_empty()) {
        place.with(|taker| taker.learn(id, text));
    }
}

/// Offers a record to the sessions whose bits are set.
#[cold]
pub(crate) fn offer(takers: u64, record: &[u64]) {
    let mut bits = takers & !BLACK_BOX;
    while bits != 0 {
        TABLE[bits.trailing_zeros() as usize].with(|taker| taker.offer(record));
        bits &= bits - 1;
    }
}

/// In a forked child: the parent's sessions are not ours.
pub(crate) fn forget_all() {
    TABLE.iter().for_each(Visited::forget);
}

impl Taker {
    fn learn(&self, id: ring::Name, text: &str) {
        let passes = self.filter.names.as_ref().is_some_and(|passes| passes(text));
        if let Some(word) = self.passing.get(id as usize / 64).filter(|_| passes) {
            word.fetch_or(1 << (id % 64), Ordering::Relaxed);
        }
    }

    fn offer(&self, record: &[u64]) {
        if self.wants(record) {
            if !self.queue.offer(sys::thread::cached_tid(), record) {
                if let Some(recorder) = current() {
                    recorder.region().lose(losses::SESSIONS_DROPPED, 1);
                }
            }
        } else {
            self.filtered.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn wants(&self, record: &[u64]) -> bool {
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
