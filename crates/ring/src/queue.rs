//! A bounded queue of records from any thread to one reader: what a session streams from.
//!
//! How it works: the queue is cut into slots of eight words. A writer reserves the slots its record
//! needs with one compare-and-swap of the tail, fills them, and publishes by a release store of the
//! first slot's stamp, which holds the position: what an earlier round left there is never taken
//! for this one. The reader copies a record and then moves the head past it; if a writer that
//! overwrites the oldest was faster, the copy is thrown away.
//!
//! What it promises: a full queue makes a writer wait only if it was made so (`OnFull::Block`), and
//! then no longer than the limit. Offered = read + overwritten + dropped + torn + still inside,
//! exactly. Lock-free, no allocation, async-signal-safe. What it does not promise: an order between
//! records of different threads beyond that of their reservations.

use crate::sync::{fence, AtomicU64, Ordering};

/// Words of a slot; the first is its stamp.
const SLOT_WORDS: usize = 8;
const PAYLOAD: usize = SLOT_WORDS - 1;
/// Stamp: position + 1 (48 bits) | slots of the record (8) | words of the record, with the tid (8).
const COMMITTED: u64 = 1 << 63;

/// What happens to a record that finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFull {
    /// The oldest records make room.
    OverwriteOldest,
    /// The new record is given up.
    DropNewest,
    /// The writer waits for the reader at most this many ns, then gives its record up.
    Block {
        /// The limit.
        limit_ns: u64,
    },
}

/// What became of the records offered. All exact; `inside` is the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Records that came.
    pub offered: u64,
    /// Records the reader has got.
    pub read: u64,
    /// Records that made room for newer ones.
    pub overwritten: u64,
    /// Records dropped because there was no room.
    pub dropped: u64,
    /// Records whose thread ended while it wrote them.
    pub torn: u64,
}

/// The queue.
pub struct Queue {
    words: Box<[AtomicU64]>,
    slots: u64,
    on_full: OnFull,
    tail: AtomicU64,
    head: AtomicU64,
    offered: AtomicU64,
    read: AtomicU64,
    overwritten: AtomicU64,
    dropped: AtomicU64,
    torn: AtomicU64,
}

#[derive(Clone, Copy)]
struct Stamp(u64);

impl Stamp {
    fn new(position: u64, slots: usize, words: usize) -> Stamp {
        let round = (position + 1) & ((1 << 47) - 1);
        Stamp((round << 16) | ((slots as u64) << 8) | words as u64)
    }

    fn committed(self) -> Stamp {
        Stamp(self.0 | COMMITTED)
    }

    fn is_committed(self) -> bool {
        self.0 & COMMITTED != 0
    }

    fn is_at(self, position: u64) -> bool {
        (self.0 & !COMMITTED) >> 16 == (position + 1) & ((1 << 47) - 1)
    }

    fn slots(self) -> u64 {
        (self.0 >> 8) & 0xff
    }

    fn words(self) -> usize {
        (self.0 & 0xff) as usize
    }
}

impl Queue {
    /// A queue of about `bytes` (at least 8 KiB).
    pub fn new(bytes: usize, on_full: OnFull) -> Queue {
        let slots = if cfg!(loom) { 2 } else { (bytes / (SLOT_WORDS * 8)).max(128) };
        let zero = || AtomicU64::new(0);
        Queue {
            words: (0..slots * SLOT_WORDS).map(|_| zero()).collect(),
            slots: slots as u64,
            on_full,
            tail: zero(),
            head: zero(),
            offered: zero(),
            read: zero(),
            overwritten: zero(),
            dropped: zero(),
            torn: zero(),
        }
    }

    /// Offers a record of the thread `tid`. False: it was given up.
    pub fn offer(&self, tid: u32, record: &[u64]) -> bool {
        // Relaxed, here and below: counters.
        self.offered.fetch_add(1, Ordering::Relaxed);
        let needed = (record.len() + 1).div_ceil(PAYLOAD);
        let Some(position) = self.reserve(needed as u64) else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        // Release fence: pairs with the acquire fence in `take`: a reader that sees one of our
        // words also sees that the head has moved past the words that were here before.
        fence(Ordering::Release);
        let stamp = Stamp::new(position, needed, record.len() + 1);
        let first = self.slot(position);
        first[1].store(u64::from(tid), Ordering::Relaxed);
        // Release: with the stamp the reader knows which thread's record is missing, if this thread
        // ends here.
        first[0].store(stamp.0, Ordering::Release);
        for (i, word) in record.iter().enumerate() {
            let at = i + 1;
            let slot = self.slot(position + (at / PAYLOAD) as u64);
            slot[1 + at % PAYLOAD].store(*word, Ordering::Relaxed);
        }
        // Release: pairs with the acquire in `take`: the words are whole.
        first[0].store(stamp.committed().0, Ordering::Release);
        true
    }

    /// The oldest record into `out` (cleared first): its thread. None: there is none, or its thread
    /// is still writing it. One reader at a time.
    pub fn take(&self, out: &mut Vec<u64>) -> Option<u32> {
        loop {
            let head = self.head.load(Ordering::Acquire);
            if head == self.tail.load(Ordering::Acquire) {
                return None;
            }
            // Acquire: pairs with the release in `offer`.
            let stamp = Stamp(self.slot(head)[0].load(Ordering::Acquire));
            if !stamp.is_at(head) {
                // Reserved and not stamped yet, or overwritten since we read the head.
                if self.head.load(Ordering::Acquire) == head {
                    return None;
                }
                continue;
            }
            let tid = self.slot(head)[1].load(Ordering::Relaxed) as u32;
            if !stamp.is_committed() {
                if !self.skip_dead(head, stamp, tid) {
                    return None;
                }
                continue;
            }
            out.clear();
            for at in 1..stamp.words() {
                let slot = self.slot(head + (at / PAYLOAD) as u64);
                out.push(slot[1 + at % PAYLOAD].load(Ordering::Relaxed));
            }
            // Acquire fence: pairs with the release fence in `offer`.
            fence(Ordering::Acquire);
            if self.advance(head, stamp.slots()) {
                self.read.fetch_add(1, Ordering::Relaxed);
                return Some(tid);
            }
        }
    }

    /// What became of the records offered.
    pub fn counts(&self) -> QueueCounts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        QueueCounts {
            offered: get(&self.offered),
            read: get(&self.read),
            overwritten: get(&self.overwritten),
            dropped: get(&self.dropped),
            torn: get(&self.torn),
        }
    }

    fn reserve(&self, needed: u64) -> Option<u64> {
        let mut deadline_ns = 0;
        loop {
            let tail = self.tail.load(Ordering::Relaxed);
            // Acquire: pairs with the release in `advance`: the slots are read or given up.
            let head = self.head.load(Ordering::Acquire);
            if tail.wrapping_sub(head) > self.slots {
                // The head has passed the tail we saw.
                continue;
            }
            if tail + needed - head > self.slots {
                let again = match self.on_full {
                    OnFull::OverwriteOldest => self.overwrite(head),
                    OnFull::DropNewest => false,
                    OnFull::Block { limit_ns } => wait(&mut deadline_ns, limit_ns),
                };
                if !again {
                    return None;
                }
                continue;
            }
            let won = self.tail.compare_exchange(
                tail,
                tail + needed,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if won.is_ok() {
                return Some(tail);
            }
        }
    }

    /// Gives the oldest record up. False: its thread is still writing it.
    fn overwrite(&self, head: u64) -> bool {
        let stamp = Stamp(self.slot(head)[0].load(Ordering::Acquire));
        if !stamp.is_at(head) || !stamp.is_committed() {
            let tid = self.slot(head)[1].load(Ordering::Relaxed) as u32;
            // Another thread may have moved the head meanwhile: then there is room.
            return self.head.load(Ordering::Acquire) != head
                || (stamp.is_at(head) && self.skip_dead(head, stamp, tid));
        }
        if self.advance(head, stamp.slots()) {
            self.overwritten.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Skips a record whose thread ended while it wrote it.
    fn skip_dead(&self, head: u64, stamp: Stamp, tid: u32) -> bool {
        if cfg!(loom) || tid == 0 || sys::thread::exists(tid) {
            return false;
        }
        // The thread may have finished its record and ended since we looked.
        let again = Stamp(self.slot(head)[0].load(Ordering::Acquire));
        if again.is_at(head) && !again.is_committed() && self.advance(head, stamp.slots()) {
            self.torn.fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    fn advance(&self, head: u64, slots: u64) -> bool {
        // AcqRel: what was read here stays before, what is written here next comes after.
        let to = head + slots.max(1);
        self.head.compare_exchange(head, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn slot(&self, position: u64) -> &[AtomicU64] {
        let at = (position % self.slots) as usize * SLOT_WORDS;
        &self.words[at..at + SLOT_WORDS]
    }
}

/// Waits a little for room; false when the limit is over.
fn wait(deadline_ns: &mut u64, limit_ns: u64) -> bool {
    let now = sys::clock::now_ns();
    if *deadline_ns == 0 {
        *deadline_ns = now + limit_ns;
    }
    if now >= *deadline_ns {
        return false;
    }
    sys::thread::pause((*deadline_ns - now).min(50_000));
    true
}
