//! How blocks change hands: taken in the ring's round, left half full, adopted, and taken back from
//! idle owners. PROTOCOL.md beside this crate argues why it is right.

use format::block::{
    pack_overwritten, unpack_pair, Head, State, BLOCK_WORDS, CLOSED_NS, HEAD, HEADER_WORDS,
    OVERWRITTEN, OWNER, OWNER_SLOT, RECORDS,
};
use format::record::Kind;
use format::region::{thread, word};

use crate::region::{LEFT_BLOCKS, NONE};
use crate::sync::{
    can_take_back, fence, fetch_line, heavy_fence, here, AtomicU32, AtomicU64, Ordering,
};
use crate::Region;

/// Places in one cache line of the list of left blocks. A CPU begins at its own line, so a block
/// goes to the next thread where its words are in the cache, and CPUs do not pass one line around.
const SHELF: usize = 16;
/// Words of a cache line.
const LINE_WORDS: usize = 8;
/// Free words that make a half-full block worth adopting: room for a mark and the longest record.
pub(crate) const WORTH_WORDS: usize = if cfg!(loom) { 9 } else { 128 };
/// Turns that a thread which fills block after block takes at once. Blocks in a row suit the CPU's
/// prefetcher; blocks that two threads take in turn do not (10 ns a record against 11.6).
const RUN: u64 = 16;
/// A region has this many blocks for each turn of a run.
const BLOCKS_A_TURN: u64 = 64;
/// Turns taken ahead are used while the ring has not moved on by more than this share of itself. So
/// at most this share waits for threads that have stopped, with its old content.
const HELD_SHARE: u64 = 8;
/// Blocks checked in one taking back, from the one in the way on: one heavy fence for all.
#[cfg(not(loom))]
const BATCH: usize = 32;
#[cfg(loom)]
const BATCH: usize = 1;

/// Turns at the ring's round that a thread has taken and not used yet. If it never uses them, their
/// blocks are skipped for one round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turns {
    next: u64,
    end: u64,
    /// Turns taken the last time.
    run: u64,
}

impl Region {
    /// The caller's next turn: a block, of those that are present. A round ends behind these; the
    /// tickets of the others are passed over, so that a block's place in the round stays the same
    /// while more become present.
    fn turn(&self, turns: &mut Turns, present: usize) -> usize {
        let count = self.layout().block_count as u64;
        loop {
            let ticket = self.ticket(turns, present as u64);
            let index = ticket % count;
            if index < present as u64 {
                return index as usize;
            }
            // Relaxed: as in `ticket`. Only forward: another thread may have begun the next round.
            let next_round = ticket - index + count;
            self.header(word::CURSOR).fetch_max(next_round, Ordering::Relaxed);
            turns.next = turns.end;
        }
    }

    fn ticket(&self, turns: &mut Turns, count: u64) -> u64 {
        let cursor = self.header(word::CURSOR);
        // Relaxed, both: tickets only spread the threads; the CAS on the block decides.
        let passed = cursor.load(Ordering::Relaxed).wrapping_sub(turns.end);
        let fresh = passed <= count / HELD_SHARE;
        if turns.next == turns.end || !fresh {
            // Twice as many as before while few others had a turn in between.
            let most = (count / BLOCKS_A_TURN).clamp(1, RUN);
            let busy = passed <= RUN * RUN;
            turns.run = if busy { (2 * turns.run).clamp(1, most) } else { 1 };
            turns.next = cursor.fetch_add(turns.run, Ordering::Relaxed);
            turns.end = turns.next.wrapping_add(turns.run);
        }
        turns.next = turns.next.wrapping_add(1);
        turns.next.wrapping_sub(1)
    }

    /// Claims the oldest closed block for new content: its index and new head (nothing committed,
    /// `Claimed`). Blocks in the way whose owners have not filled them in a whole round are taken
    /// back for the next round; a `modest` caller, which writes little, gets one of these with its
    /// content. `None` when every block tried, twice, has an owner.
    pub(crate) fn take_block(&self, modest: bool, turns: &mut Turns) -> Option<(usize, Head)> {
        let count = self.present_blocks();
        let mut swept_to = 0;
        // Bounded: two rounds, so that a region pinned by owners costs a drop, not a hang. The
        // second finds what the first took back.
        for step in 0..2 * count {
            let index = self.turn(turns, count);
            let head_word = &self.block(index)[HEAD];
            // Relaxed: only compared; a stale value makes the CAS fail.
            let seen = head_word.load(Ordering::Relaxed);
            let old = Head::unpack(seen);
            if old.state != State::Closed {
                if step >= swept_to {
                    let taken = self.take_back(index, BATCH.min(count));
                    swept_to = step + BATCH;
                    let adopted = (modest && taken > 0).then(|| self.adopt_block()).flatten();
                    if adopted.is_some() {
                        return adopted;
                    }
                }
                continue;
            }
            // Acquire: pairs with the release store that closed the block, so our stores come after
            // its last owner's. Failure: another thread took it, nothing was read.
            let taken = head_word.compare_exchange(
                seen,
                old.with(State::Claimed).pack(),
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            if taken.is_ok() {
                #[cfg(not(loom))]
                self.hint(index);
                return Some((index, self.clear(index, old)));
            }
        }
        None
    }

    /// Prepares a claimed block for new content: counts its records as overwritten, and moves on to
    /// the next generation. In this order, so that the count is right for a reader that finds the
    /// box after a kill at any of these steps.
    fn clear(&self, index: usize, old: Head) -> Head {
        let block = self.block(index);
        let gone = self.records_in(index, old.used());
        // Relaxed: ours alone, and published with the head below.
        block[RECORDS].store(gone, Ordering::Relaxed);
        let before = block[OVERWRITTEN].load(Ordering::Relaxed) >> 16;
        let generation = old.generation.wrapping_add(1);
        // Release, twice: a dead process's memory holds what it stored, in the order it stored it.
        block[OVERWRITTEN].store(pack_overwritten(before + gone, generation), Ordering::Release);
        let new = Head { generation, committed: 0, state: State::Claimed };
        block[HEAD].store(new.pack(), Ordering::Release);
        // Release fence: pairs with the acquire fence in `copy`: a reader that sees one of our
        // words also sees the new generation and throws its copy away.
        fence(Ordering::Release);
        new
    }

    /// Records whose blocks went to new content. Exact while no writer writes. Cost: one load for
    /// each block.
    pub fn overwritten(&self) -> u64 {
        let of = |index: usize| {
            let block = self.block(index);
            let header = std::array::from_fn(|word| block[word].load(Ordering::Acquire));
            format::block::overwritten(&header)
        };
        (0..self.present_blocks()).map(of).sum()
    }

    /// The list of left blocks, from the caller's CPU on.
    fn left_from_here(&self) -> impl Iterator<Item = &AtomicU32> {
        let (before, from) = self.left.0.split_at(SHELF * here() % LEFT_BLOCKS);
        from.iter().chain(before)
    }

    /// Offers a half-full block to the next thread. The block's head is closed already, so it may
    /// as well be overwritten first; then the CAS of the thread that takes the offer fails, and
    /// only the offer is lost.
    pub(crate) fn leave_block(&self, index: usize) {
        for slot in self.left_from_here() {
            // Release: pairs with the acquire in `adopt_block`.
            let set =
                slot.compare_exchange(NONE, index as u32, Ordering::Release, Ordering::Relaxed);
            if set.is_ok() {
                return;
            }
        }
    }

    /// Prefetches the cache lines behind the last record of the block that `adopt_block` would
    /// likely give.
    pub(crate) fn expect_adoption(&self) {
        // Relaxed, both: only chooses lines.
        let left = self.left_from_here().next().map_or(NONE, |slot| slot.load(Ordering::Relaxed));
        if left as usize >= self.layout().block_count {
            return;
        }
        let block = self.block(left as usize);
        let used = Head::unpack(block[HEAD].load(Ordering::Relaxed)).used();
        for at in [used, used + LINE_WORDS] {
            if let Some(word) = block.get(at) {
                fetch_line(word);
            }
        }
    }

    /// Claims a half-full block that another thread left: its index and head, content kept.
    pub(crate) fn adopt_block(&self) -> Option<(usize, Head)> {
        for slot in self.left_from_here() {
            // Relaxed peek, to keep the swap off the line while the list is empty.
            if slot.load(Ordering::Relaxed) == NONE {
                continue;
            }
            let index = slot.swap(NONE, Ordering::Acquire);
            if index == NONE {
                continue;
            }
            let head_word = &self.block(index as usize)[HEAD];
            let seen = head_word.load(Ordering::Relaxed);
            let head = Head::unpack(seen);
            if head.state != State::Closed || head.used() + WORTH_WORDS > BLOCK_WORDS {
                continue;
            }
            let mine = head.with(State::Claimed);
            // Acquire: as in `take_block`; the generation stays, since the content stays.
            let taken =
                head_word.compare_exchange(seen, mine.pack(), Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return Some((index as usize, mine));
            }
        }
        None
    }

    /// Takes blocks back from owners that are not inside an append just now: `many` blocks from
    /// `from` on. They are closed and offered for adoption; their content stays until the ring's
    /// next round. An owner notices at its next append and takes another block. Returns how many.
    ///
    /// Cost: one membarrier (1-10 us) when there is anything to take back. Lock-free: a thread that
    /// finds another thread doing this returns at once. Async-signal-safe.
    pub fn take_back(&self, from: usize, many: usize) -> usize {
        if !can_take_back() || self.sweeping.swap(true, Ordering::Acquire) {
            return 0;
        }
        let count = self.present_blocks();
        let mut claimed = [(0usize, 0u64); BATCH];
        let mut found = 0;
        for step in 0..many.min(BATCH) {
            let index = (from + step) % count;
            let head_word = &self.block(index)[HEAD];
            // Acquire: the owner's slot in the header is that of this head.
            let seen = head_word.load(Ordering::Acquire);
            let head = Head::unpack(seen);
            if head.state != State::Open {
                continue;
            }
            let revoking = head.with(State::Revoking).pack();
            // Acquire, Release: between the owner's words and the next owner of the block.
            let won =
                head_word.compare_exchange(seen, revoking, Ordering::AcqRel, Ordering::Relaxed);
            if won.is_ok() {
                claimed[found] = (index, revoking);
                found += 1;
            }
        }
        // Every owner now either shows that it is inside, or will see `Revoking`.
        let fenced = found > 0 && heavy_fence();
        let mut taken = 0;
        for (index, revoking) in &claimed[..found] {
            if (fenced && self.is_outside(*index)) || self.is_dead(*index) {
                // Relaxed: no owner stores it while the head is `Revoking`; readers believe it only
                // under a closed head.
                self.block(*index)[CLOSED_NS].store(sys::clock::now_ns(), Ordering::Relaxed);
                taken += usize::from(self.close_revoked(*index, *revoking));
            }
        }
        self.sweeping.store(false, Ordering::Release);
        self.header(word::TAKEN_BACK).fetch_add(taken as u64, Ordering::Relaxed);
        taken
    }

    /// Keeps all others from taking blocks back, as where membarrier is refused; for tests. False:
    /// another thread is doing it.
    pub fn hold_taking_back(&self) -> bool {
        !self.sweeping.swap(true, Ordering::Acquire)
    }

    /// Ends the taking back of a block: called by the thread that took it back, or by its owner
    /// that was inside. Only one of them succeeds, and neither if the owner went on appending.
    pub(crate) fn close_revoked(&self, index: usize, revoking: u64) -> bool {
        let closed = Head::unpack(revoking).with(State::Closed);
        let block = self.block(index);
        // Release: the next owner of the block comes after the words in it.
        let won = block[HEAD].compare_exchange(
            revoking,
            closed.pack(),
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if won.is_ok() && closed.used() + WORTH_WORDS <= BLOCK_WORDS {
            self.leave_block(index);
        }
        won.is_ok()
    }

    /// Records in a block that the caller has claimed, `used` words of it.
    pub(crate) fn records_in(&self, index: usize, used: usize) -> u64 {
        let block = self.block(index);
        match block[RECORDS].load(Ordering::Relaxed) {
            0 => count_records(&block[HEADER_WORDS.min(used)..used]),
            known => known,
        }
    }

    /// The block's owner is not inside an append.
    fn is_outside(&self, index: usize) -> bool {
        match self.owner_slot(index) {
            // Acquire: pairs with the release store at the end of an append.
            Some(slot) => self.thread(slot)[thread::PROGRESS].load(Ordering::Acquire) & 1 == 0,
            None => false,
        }
    }

    /// The block's owner ended without closing it (a raw exit system call, inside an append).
    #[cfg(not(loom))]
    fn is_dead(&self, index: usize) -> bool {
        let (tid, _) = unpack_pair(self.block(index)[OWNER].load(Ordering::Relaxed));
        let slot = self.owner_slot(index);
        let ident = slot.map(|s| self.thread(s)[thread::IDENT].load(Ordering::Relaxed));
        let owner = ident.map_or(tid, |ident| unpack_pair(ident).0);
        let mine = self.header(word::PID).load(Ordering::Relaxed);
        // Regions of tests have made-up pids and tids.
        mine == u64::from(std::process::id()) && owner != 0 && !sys::thread::exists(owner)
    }

    #[cfg(loom)]
    fn is_dead(&self, _: usize) -> bool {
        false
    }

    fn owner_slot(&self, index: usize) -> Option<usize> {
        // Relaxed: published with the head that the caller has seen.
        let slot = self.block(index)[OWNER_SLOT].load(Ordering::Relaxed) as usize;
        (1..=self.layout().thread_slots).contains(&slot).then(|| slot - 1)
    }
}

/// Counts records by their lengths, marks of new owners left out.
fn count_records(words: &[AtomicU64]) -> u64 {
    let (mut at, mut count) = (0, 0);
    while let Some(word) = words.get(at) {
        let head = word.load(Ordering::Relaxed);
        count += u64::from(head as u8 != Kind::Thread as u8);
        at += (((head >> 8) & 0xff) as usize).max(1);
    }
    count
}
