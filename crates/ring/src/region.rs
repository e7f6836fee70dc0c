//! The mapped region and the taking of blocks.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use format::block::{Head, BLOCK_WORDS};
use format::region::{losses, word, Layout, MAGIC};

/// Where a region lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this file of a memory file system: survives the process.
    File(PathBuf),
    /// In memory of the process only, and why no file could be used.
    Process(String),
}

/// Half-full blocks left by threads that ended, waiting for a new owner. More than this many at
/// once are simply closed; their free part is lost until they come round again.
const LEFT_BLOCKS: usize = 64;
/// No block: the empty entry of the list of left blocks.
const NONE: u32 = u32::MAX;

/// The black box of this process. Made once; the mapping lives as long as the process.
pub struct Region {
    words: &'static [AtomicU64],
    layout: Layout,
    place: Place,
    /// Block indices, or NONE. Written by ending threads (release), taken by starting ones
    /// (acquire); the head word's CAS decides who really gets the block.
    left: [AtomicU32; LEFT_BLOCKS],
}

impl Region {
    /// Makes a region of `bytes` at `path`; in process memory when that fails. Errors only when
    /// even anonymous memory is refused.
    pub fn create(path: &Path, bytes: usize, pid: u32) -> io::Result<Region> {
        let (words, place) = match sys::map::create(path, bytes) {
            Ok(words) => (words, Place::File(path.to_owned())),
            Err(error) => {
                let why = format!("{}: {error}", path.display());
                (sys::map::anonymous(bytes)?, Place::Process(why))
            }
        };
        Ok(Region::over(words, place, pid))
    }

    /// A region in anonymous memory, for tests and for hosts without a place for files.
    pub fn in_process(bytes: usize, pid: u32, why: &str) -> io::Result<Region> {
        Ok(Region::over(sys::map::anonymous(bytes)?, Place::Process(why.to_owned()), pid))
    }

    fn over(words: &'static [AtomicU64], place: Place, pid: u32) -> Region {
        let bytes = size_of_val(words);
        let region = Region {
            words,
            layout: Layout::of(bytes),
            place,
            left: [const { AtomicU32::new(NONE) }; LEFT_BLOCKS],
        };
        // Relaxed: nobody else knows the region yet; whoever hands it to other threads publishes.
        let set = |index: usize, value: u64| region.words[index].store(value, Ordering::Relaxed);
        set(word::BYTES, bytes as u64);
        set(word::PID, u64::from(pid));
        set(word::START_NS, sys::clock::now_ns());
        set(word::START_EPOCH_NS, sys::clock::epoch_ns());
        set(word::MAGIC, MAGIC);
        region
    }

    /// Where it lies.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Its areas.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Bytes of the whole region.
    pub fn bytes(&self) -> usize {
        size_of_val(self.words)
    }

    /// Adds to a loss counter (an index of `format::region::losses`).
    #[inline]
    pub fn lose(&self, loss: usize, count: u64) {
        // Relaxed: a counter; nothing is ordered by it.
        self.words[word::LOSSES + loss].fetch_add(count, Ordering::Relaxed);
    }

    /// All loss counters, in the order of `losses::NAMES`.
    pub fn losses(&self) -> Vec<u64> {
        let at = |i: usize| self.words[word::LOSSES + i].load(Ordering::Relaxed);
        (0..losses::NAMES.len()).map(at).collect()
    }

    /// A header word (an index of `format::region::word`).
    pub fn header(&self, index: usize) -> &AtomicU64 {
        &self.words[index]
    }

    /// In a child of a fork: gives its parent's mapping back; does nothing in the process that made
    /// the region. The child must have dropped its writers and must not use the region afterwards.
    pub fn release_after_fork(&self) {
        let maker = self.words[word::PID].load(Ordering::Relaxed);
        if maker == u64::from(std::process::id()) {
            return;
        }
        // SAFETY: another process made the region, so this is a forked child, and the thread that
        // forked is the only one that came along; it is here, not in a writer. The recorder that
        // owned the region was uninstalled before, so nothing of ours reaches it any more.
        unsafe { sys::map::release(self.words) }
    }

    pub(crate) fn words(&self) -> &'static [AtomicU64] {
        self.words
    }

    pub(crate) fn block(&self, index: usize) -> &'static [AtomicU64] {
        let at = self.layout.blocks + index * BLOCK_WORDS;
        &self.words[at..at + BLOCK_WORDS]
    }

    /// Takes the oldest closed block for new content: its index and new generation. `None` when
    /// every block tried is owned by somebody.
    pub(crate) fn take_block(&self) -> Option<(usize, u32)> {
        let count = self.layout.block_count;
        // Bounded: one round and no more, so a region pinned by idle owners costs a drop, not a
        // hang.
        for _ in 0..count {
            // Relaxed: the ticket only spreads takers; the CAS below decides.
            let ticket = self.words[word::CURSOR].fetch_add(1, Ordering::Relaxed);
            let index = (ticket % count as u64) as usize;
            let head_word = &self.block(index)[format::block::HEAD];
            // Relaxed: only compared; a stale value makes the CAS fail.
            let seen = head_word.load(Ordering::Relaxed);
            let old = Head::unpack(seen);
            if old.open {
                continue;
            }
            let generation = old.generation.wrapping_add(1);
            let new = Head { generation, committed: 0, open: true }.pack();
            // Acquire: pairs with the release store that closed the block, so our stores come
            // after its last owner's. Failure: somebody else took it, nothing was read.
            if head_word.compare_exchange(seen, new, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                // Release fence: pairs with the acquire fence in `copy`: who sees one of our words
                // also sees the new generation and throws its copy away.
                std::sync::atomic::fence(Ordering::Release);
                return Some((index, generation));
            }
        }
        None
    }

    /// Offers a half-full block to the next thread. The block's head is closed already, so it may
    /// as well be overwritten first; then the taker's CAS fails and nothing is lost but the offer.
    pub(crate) fn leave_block(&self, index: usize) {
        for slot in &self.left {
            // Release: pairs with the acquire in `adopt_block`.
            let set =
                slot.compare_exchange(NONE, index as u32, Ordering::Release, Ordering::Relaxed);
            if set.is_ok() {
                return;
            }
        }
    }

    /// Adopts a block that an ended thread left: its index and head, now open and ours.
    pub(crate) fn adopt_block(&self) -> Option<(usize, Head)> {
        for slot in &self.left {
            // Relaxed peek, to keep the swap off the line while the list is empty.
            if slot.load(Ordering::Relaxed) == NONE {
                continue;
            }
            let index = slot.swap(NONE, Ordering::Acquire);
            if index == NONE {
                continue;
            }
            let head_word = &self.block(index as usize)[format::block::HEAD];
            let seen = head_word.load(Ordering::Relaxed);
            let head = Head::unpack(seen);
            if head.open || head.used() + 64 > BLOCK_WORDS {
                continue;
            }
            let open = Head { open: true, ..head };
            // Acquire: as in `take_block`; the generation stays, since the content stays.
            if head_word
                .compare_exchange(seen, open.pack(), Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return Some((index as usize, open));
            }
        }
        None
    }
}
