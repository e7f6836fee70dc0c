//! The writing side: one `Writer` a thread.

use std::sync::atomic::{AtomicU64, Ordering};

use format::block::{
    pack_pair, Head, BLOCK_WORDS, CLOSED_NS, FIRST_NS, FIRST_SEQ, HEAD, HEADER_WORDS, OWNER,
};
use format::record::{header, Kind};
use format::region::losses;

use crate::Region;

/// Appends one thread's records. Not `Sync`: it belongs to its thread.
///
/// Cost of `append`: a bounds check, one relaxed store a word, one release store; every few hundred
/// records a new block (one fetch_add and one compare-and-swap).
pub struct Writer {
    region: &'static Region,
    block: &'static [AtomicU64],
    index: usize,
    generation: u32,
    /// Words in use in `block`; BLOCK_WORDS while there is none, so the fast path has one test.
    used: usize,
    /// Number of the next record of this thread.
    seq: u64,
    tid: u32,
    serial: u32,
}

impl Writer {
    /// A writer for the thread `tid`; `serial` tells threads with a reused tid apart. Takes no
    /// block yet.
    pub fn new(region: &'static Region, tid: u32, serial: u32) -> Writer {
        let block = region.block(0);
        Writer {
            region,
            block,
            index: usize::MAX,
            generation: 0,
            used: BLOCK_WORDS,
            seq: 0,
            tid,
            serial,
        }
    }

    /// Appends a record of at most `format::record::MAX_WORDS` words stamped `now_ns` or earlier.
    /// When no block can be had the record is dropped and counted; its number is used up, so the
    /// gap shows.
    #[inline]
    pub fn append(&mut self, record: &[u64], now_ns: u64) {
        if self.used + record.len() > BLOCK_WORDS && !self.next_block(record.len(), now_ns) {
            self.seq += 1;
            return;
        }
        self.store(record);
        self.seq += 1;
        self.publish(true);
    }

    /// Records written or dropped so far.
    pub fn sequence(&self) -> u64 {
        self.seq
    }

    /// Closes the block and leaves it to the next thread. Call when the thread ends; a later
    /// `append` takes a new block.
    pub fn close(&mut self) {
        if self.close_block(sys::clock::now_ns()) && self.used + 64 <= BLOCK_WORDS {
            self.region.leave_block(self.index);
        }
        self.used = BLOCK_WORDS;
        self.index = usize::MAX;
    }

    #[inline]
    fn store(&mut self, record: &[u64]) {
        // The slice bound is checked once; callers made room.
        for (slot, word) in self.block[self.used..].iter().zip(record) {
            // Relaxed: published by the release store in `publish`; a reader that copies too early
            // stops at the committed length.
            slot.store(*word, Ordering::Relaxed);
        }
        self.used += record.len();
    }

    #[inline]
    fn publish(&self, open: bool) {
        let head = Head { generation: self.generation, committed: self.used as u32, open };
        // Release: pairs with the acquire load in `copy`: the words below `committed` are visible.
        self.block[HEAD].store(head.pack(), Ordering::Release);
    }

    fn close_block(&mut self, now_ns: u64) -> bool {
        if self.index == usize::MAX {
            return false;
        }
        self.block[CLOSED_NS].store(now_ns, Ordering::Relaxed);
        self.publish(false);
        true
    }

    #[cold]
    fn next_block(&mut self, words: usize, now_ns: u64) -> bool {
        self.close_block(now_ns);
        self.index = usize::MAX;
        self.used = BLOCK_WORDS;
        if words + 3 + HEADER_WORDS > BLOCK_WORDS {
            self.region.lose(losses::DROPPED_NO_BLOCK, 1);
            return false;
        }
        if self.seq == 0 && self.adopt(words) {
            return true;
        }
        let Some((index, generation)) = self.region.take_block() else {
            self.region.lose(losses::DROPPED_NO_BLOCK, 1);
            return false;
        };
        self.index = index;
        self.generation = generation;
        self.block = self.region.block(index);
        for (slot, word) in [
            (OWNER, pack_pair(self.tid, self.serial)),
            (FIRST_SEQ, self.seq),
            (FIRST_NS, now_ns),
            (CLOSED_NS, 0),
        ] {
            // Relaxed: published by the first release store of the head.
            self.block[slot].store(word, Ordering::Relaxed);
        }
        self.used = HEADER_WORDS;
        true
    }

    /// Goes on in a block that an ended thread left, behind a record that says who writes now.
    fn adopt(&mut self, words: usize) -> bool {
        let Some((index, head)) = self.region.adopt_block() else {
            return false;
        };
        self.index = index;
        self.generation = head.generation;
        self.block = self.region.block(index);
        self.used = head.used();
        self.block[CLOSED_NS].store(0, Ordering::Relaxed);
        if self.used + words + 3 > BLOCK_WORDS {
            self.publish(false);
            self.index = usize::MAX;
            self.used = BLOCK_WORDS;
            return false;
        }
        self.store(&[header(Kind::Thread, 3, 0, 0), pack_pair(self.tid, self.serial), self.seq]);
        true
    }
}
