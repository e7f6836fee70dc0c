//! The writing side: one `Writer` for each thread, and one more for records made from inside its
//! records (in a signal handler).

use format::block::{
    pack_pair, Head, State, BLOCK_WORDS, CLOSED_NS, FIRST_NS, FIRST_SEQ, HEAD, HEADER_WORDS, OWNER,
    OWNER_SLOT, RECORDS,
};
use format::record::{header, Kind};
use format::region::{losses, thread};

use crate::sync::{light_fence, publish, AtomicU64, Ordering};
use crate::take::{Turns, WORTH_WORDS};
use crate::threads::Newcomer;
use crate::Region;

/// Words of a `Thread` record.
const MARK_WORDS: usize = 3;

/// Appends one thread's records. Not `Sync`: it belongs to its thread.
///
/// Cost of `append`: a bounds check, one load of the block's head, one relaxed store for each word
/// and three more; every few hundred records a new block (one fetch_add and one compare-and-swap).
/// No lock, allocation, system call or fence instruction.
pub struct Writer {
    region: &'static Region,
    block: &'static [AtomicU64],
    /// The thread's progress word; `None` when the table was full.
    progress: Option<&'static AtomicU64>,
    index: usize,
    /// The head as this writer stored it last: packed, `Open`.
    head: u64,
    /// Words in use in `block`; BLOCK_WORDS while there is none, so the fast path has one test.
    used: usize,
    /// Number of the next record of this thread.
    seq: u64,
    /// `seq` at its first record in this block, less the records of others in front of it.
    seq_at_begin: u64,
    dropped: u64,
    /// This thread does not fill blocks: it takes blocks that others left half full.
    modest: bool,
    turns: Turns,
    slot: Option<usize>,
    tid: u32,
    serial: u32,
}

impl Writer {
    /// A writer for a thread that begins to record. Takes no block yet.
    pub fn new(region: &'static Region, new: &Newcomer) -> Writer {
        let (slot, serial) = region.thread_begins(new);
        Writer {
            region,
            block: region.block(0),
            progress: slot.map(|slot| &region.thread(slot)[thread::PROGRESS]),
            index: usize::MAX,
            head: 0,
            used: BLOCK_WORDS,
            seq: 0,
            seq_at_begin: 0,
            dropped: 0,
            modest: true,
            turns: Turns::default(),
            slot,
            tid: new.tid,
            serial,
        }
    }

    /// Appends a record of at most `format::record::MAX_WORDS` words stamped `now_ns` or earlier.
    /// Without a free block the record is dropped and counted; its number is used up, so the gap
    /// shows. False: the region is gone, since this is a forked child, and nothing was kept.
    #[inline]
    pub fn append(&mut self, record: &[u64], now_ns: u64) -> bool {
        if self.used + record.len() <= BLOCK_WORDS && self.enter() {
            self.store(record);
            self.publish();
            self.leave();
            return true;
        }
        self.append_slowly(record, now_ns)
    }

    /// Records written or dropped so far.
    pub fn sequence(&self) -> u64 {
        self.seq
    }

    /// The thread's slot in the table.
    pub fn slot(&self) -> Option<usize> {
        self.slot
    }

    /// Lets the numbers begin at `seq`: for tests of their wrap. Before the first record only.
    pub fn begin_at(&mut self, seq: u64) {
        self.seq = seq;
        self.leave_without_record();
    }

    /// Closes the block and leaves it to the next thread. A later `append` takes a new one.
    pub fn close(&mut self) {
        let now_ns = sys::clock::now_ns();
        if self.close_block(now_ns) && self.used + WORTH_WORDS <= BLOCK_WORDS {
            self.region.leave_block(self.index);
        }
        self.forget_block();
    }

    /// The thread ends: closes the block and gives the slot back.
    pub fn end(&mut self, now_ns: u64) {
        self.close();
        match self.slot.take() {
            Some(slot) => self.region.thread_ends(slot, now_ns),
            None => self.region.past(self.seq, self.dropped),
        }
        self.progress = None;
    }

    /// Stores "I am inside" and checks whether the block is still ours.
    #[inline]
    fn enter(&mut self) -> bool {
        self.be_inside();
        // Relaxed: after the light fence, so either the thread that revokes the block sees that we
        // are inside, or its revocation is seen here.
        self.block[HEAD].load(Ordering::Relaxed) == self.head
    }

    #[inline]
    fn be_inside(&self) {
        if let Some(progress) = self.progress {
            progress.store(self.seq.wrapping_mul(2) | 1, Ordering::Relaxed);
            light_fence();
        }
    }

    /// One record more is done; stores "I am outside".
    #[inline]
    fn leave(&mut self) {
        self.seq = self.seq.wrapping_add(1);
        self.leave_without_record();
    }

    #[inline]
    fn leave_without_record(&self) {
        if let Some(progress) = self.progress {
            // Release: pairs with the acquire in `is_outside`: our stores into the block are done.
            progress.store(self.seq.wrapping_mul(2), Ordering::Release);
        }
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
        self.head += record.len() as u64 * Head::ONE_WORD;
    }

    #[inline]
    fn publish(&self) {
        // Release: pairs with the acquire load in `copy`: the words below `committed` are visible.
        publish(&self.block[HEAD], self.head);
    }

    #[cold]
    fn append_slowly(&mut self, record: &[u64], now_ns: u64) -> bool {
        if !self.region.is_there() {
            return false;
        }
        self.be_inside();
        let fits = record.len() + MARK_WORDS <= WORTH_WORDS;
        let has_room = fits && self.next_block(record.len(), now_ns);
        // Giving up the old block marked us as outside.
        self.be_inside();
        if has_room {
            self.store(record);
            self.publish();
        } else {
            self.drop_one();
        }
        self.leave();
        if self.slot.is_none() {
            // Without a slot no thread could take the block back from us. So keep none, and go on
            // in what was left, most likely by ourselves.
            self.close();
            self.modest = true;
        }
        true
    }

    fn drop_one(&mut self) {
        self.region.lose(losses::DROPPED_NO_BLOCK, 1);
        self.dropped += 1;
        if let Some(slot) = self.slot {
            self.region.thread(slot)[thread::DROPPED].store(self.dropped, Ordering::Relaxed);
        }
    }

    /// Gives up the present block, if there is one, and gets another with room for `words`. What is
    /// published next makes it `Open`; until then no other thread touches it.
    fn next_block(&mut self, words: usize, now_ns: u64) -> bool {
        let had_room = self.used + words <= BLOCK_WORDS;
        self.close_block(now_ns);
        // If it was taken back from us, we are a thread that writes little.
        self.modest |= had_room && self.index != usize::MAX;
        self.forget_block();
        let modest = std::mem::take(&mut self.modest);
        let left = if modest { self.region.adopt_block() } else { None };
        let Some((index, head)) = left.or_else(|| self.region.take_block(modest, &mut self.turns))
        else {
            return false;
        };
        if head.committed > 0 {
            self.adopt(index, head);
            return true;
        }
        self.own(index, Head { committed: HEADER_WORDS as u32, ..head }, 0);
        for (slot, word) in
            [(OWNER, pack_pair(self.tid, self.serial)), (FIRST_SEQ, self.seq), (FIRST_NS, now_ns)]
        {
            // Relaxed: published by the first release store of the head.
            self.block[slot].store(word, Ordering::Relaxed);
        }
        true
    }

    /// Goes on in a block that another thread left, behind a record that names the new writer.
    fn adopt(&mut self, index: usize, head: Head) {
        let before = self.region.records_in(index, head.used());
        self.own(index, head, before);
        let pair = pack_pair(self.tid, self.serial);
        self.store(&[header(Kind::Thread, MARK_WORDS, 0, 0), pair, self.seq]);
    }

    fn own(&mut self, index: usize, head: Head, records: u64) {
        self.index = index;
        self.seq_at_begin = self.seq.wrapping_sub(records);
        self.block = self.region.block(index);
        self.used = head.used();
        self.head = head.with(State::Open).pack();
        let slot = self.slot.map_or(0, |slot| slot as u64 + 1);
        // Relaxed: published by the first release store of the head.
        self.block[OWNER_SLOT].store(slot, Ordering::Relaxed);
        self.block[CLOSED_NS].store(0, Ordering::Relaxed);
        self.block[RECORDS].store(0, Ordering::Relaxed);
    }

    fn forget_block(&mut self) {
        self.used = BLOCK_WORDS;
        self.index = usize::MAX;
    }

    /// Closes the block, if there is one and it is still ours.
    fn close_block(&mut self, now_ns: u64) -> bool {
        if self.index == usize::MAX {
            return false;
        }
        if !self.enter() {
            self.leave_without_record();
            let revoking = Head::unpack(self.head).with(State::Revoking).pack();
            self.region.close_revoked(self.index, revoking);
            return false;
        }
        self.block[CLOSED_NS].store(now_ns, Ordering::Relaxed);
        let records = self.seq.wrapping_sub(self.seq_at_begin);
        self.block[RECORDS].store(records, Ordering::Relaxed);
        let closed = Head::unpack(self.head).with(State::Closed).pack();
        // Release: the thread that takes the block comes after all our stores.
        publish(&self.block[HEAD], closed);
        self.leave_without_record();
        true
    }
}
