//! The part of a region that is present: its memory is taken in steps, as it is used.
//!
//! How it works: each area of `format::region` grows from its begin, which is why one number for
//! each says how much of it may be touched. Code that needs more of a table (a name, a thread, a
//! line of open spans; none of them in each record) calls `reach`, which makes a step present, one
//! system call. Blocks are never waited for: a writer uses those that are there (`take::turn`), and
//! the thread `dashcam-capture` adds a step before they are used up, if what would be overwritten
//! is young (`is_short`, `grow`). A writer that takes one of the last blocks ends the sleep of the
//! thread that sees to this, whatever it sleeps for (`hint`). That thread asks `is_short` once more
//! when its sleep has begun, so that no such wake-up is lost (`sys::nap`).
//!
//! What it promises: no store of a writer goes into a page that is not present, so none raises
//! SIGBUS. A step that is refused (a full file system) is counted; the box remains as it is, and
//! works. A process that records little stays small, however long it runs.
//!
//! Missing on purpose: giving memory back.

use std::sync::atomic::Ordering;

use format::block::{Head, State, BLOCK_WORDS, CLOSED_NS, HEAD};
use format::region::{losses, word, CODE_WORDS, STACK_WORDS, THREAD_WORDS};

use sys::nap::Nap;

use crate::present::{Area, BLOCK_STEP, TABLE_STEP};
use crate::Region;

/// A region of this size is present from the start: its owner chose a small one, and there is less
/// to save than the first burst of records may overwrite.
#[cfg(not(loom))]
const WHOLE_BYTES: usize = 8 << 20;
/// The blocks grow when fewer than this part of them is left before the round begins again.
const AHEAD_SHARE: usize = 4;
/// Bounds of that part: half a step, and as many blocks as 64 threads take at once.
const AHEAD_BLOCKS: (usize, usize) = (BLOCK_STEP / BLOCK_WORDS / 2, 1024);
/// Blocks whose age decides whether the next round may overwrite.
const AGED: usize = 16;

impl Region {
    /// Words of an area that are present, from its begin.
    #[inline]
    pub(crate) fn present(&self, area: Area) -> usize {
        self.present.of(area)
    }

    /// Blocks that are present; the others must not be touched.
    #[inline]
    pub(crate) fn present_blocks(&self) -> usize {
        self.present(Area::Blocks) / BLOCK_WORDS
    }

    /// Makes the first `words` of an area present, and a step more. False: it has fewer, or there
    /// is no memory for them. Cost: one load, and a system call where a step is due.
    /// Async-signal-safe.
    #[inline]
    pub(crate) fn reach(&self, area: Area, words: usize) -> bool {
        words <= self.present(area) || self.reach_farther(area, words)
    }

    #[cold]
    fn reach_farther(&self, area: Area, words: usize) -> bool {
        let fits = words <= area.words(self.layout()).len();
        fits && !self.present.is_refused() && self.add_or_count(area, words)
    }

    /// Adds the words up to `words` and the rest of that step. Two threads at once add the same.
    #[cfg(not(loom))]
    fn add(&self, area: Area, words: usize) -> bool {
        let whole = area.words(self.layout());
        let present = self.present(area);
        let wanted = words.next_multiple_of(area.step()).min(whole.len());
        if wanted <= present {
            return true;
        }
        let added = &self.words()[whole.start + present..whole.start + wanted];
        let done = sys::map::populate(added).is_ok();
        self.present.note(area, wanted, done);
        done
    }

    fn add_or_count(&self, area: Area, words: usize) -> bool {
        let done = self.add(area, words);
        if !done {
            self.lose(losses::BOX_STEPS_REFUSED, 1);
        }
        done
    }

    /// A model's region is whole.
    #[cfg(loom)]
    fn add(&self, _: Area, _: usize) -> bool {
        false
    }

    /// Makes the first step of each area present, of a small region all of it. False: there is no
    /// memory for them.
    #[cfg(not(loom))]
    pub(crate) fn begin(&self) -> bool {
        let is_small = size_of_val(self.words()) <= WHOLE_BYTES;
        Area::ALL.iter().all(|area| {
            let all = area.words(self.layout()).len();
            self.add(*area, if is_small { all } else { 1 })
        })
    }

    /// Bytes that are present.
    pub fn present_bytes(&self) -> usize {
        let header = self.layout().threads;
        (Area::ALL.map(|area| self.present(area)).iter().sum::<usize>() + header) * size_of::<u64>()
    }

    /// Whether the next step of blocks is due: those that are there will soon be used up, and the
    /// next round would overwrite records younger than `keep_ns`. Cost: two loads, and some more
    /// when they are nearly used up.
    pub fn is_short(&self, now_ns: u64, keep_ns: u64) -> bool {
        // Relaxed: a hint.
        let next = self.header(word::CURSOR).load(Ordering::Relaxed);
        let next = next % self.layout().block_count as u64;
        self.is_one_of_the_last(next as usize) && self.is_young(now_ns, keep_ns)
    }

    /// Whether this is one of the last blocks that are present, and there could be more.
    #[inline]
    fn is_one_of_the_last(&self, index: usize) -> bool {
        let (blocks, (least, most)) = (self.present_blocks(), AHEAD_BLOCKS);
        let ahead = (blocks / AHEAD_SHARE).clamp(least, most);
        blocks < self.layout().block_count && index + ahead >= blocks
    }

    /// A writer has taken this block, and its turn before: what `is_short` reads is stored. Costs a
    /// few loads, and up to 5 us if it ends a sleep. After a refusal nobody is woken: the box
    /// cannot grow, and the sampler's own passes ask again. Async-signal-safe.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn hint(&self, index: usize) {
        if self.is_one_of_the_last(index) && !self.present.is_refused() {
            self.naps.iter().for_each(Nap::wake_for_due);
        }
    }

    /// Where the sampler sleeps while the host is idle. A request's begin ends it; so does a writer
    /// that takes one of the last blocks.
    #[inline]
    pub fn idle_nap(&self) -> &Nap {
        &self.naps[0]
    }

    /// Where the sampler sleeps between passes; a writer that takes one of the last blocks ends it.
    #[inline]
    pub fn pass_nap(&self) -> &Nap {
        &self.naps[1]
    }

    /// Whether the blocks that the next round begins with were closed less than `keep_ns` ago.
    fn is_young(&self, now_ns: u64, keep_ns: u64) -> bool {
        let closed_ns = |index| {
            let block = self.block(index);
            // Acquire: the time is that of this head, or a later one.
            let head = Head::unpack(block[HEAD].load(Ordering::Acquire));
            let closed_ns = block[CLOSED_NS].load(Ordering::Relaxed);
            (head.state == State::Closed && closed_ns != 0).then_some(closed_ns)
        };
        let oldest = (0..AGED.min(self.present_blocks())).filter_map(closed_ns).min();
        oldest.is_none_or(|closed_ns| now_ns.saturating_sub(closed_ns) < keep_ns)
    }

    /// Makes a step of blocks present: 1 MiB, 0.1 to 1 ms. False: there is none left, or no memory.
    #[cfg(not(loom))]
    pub fn grow(&self) -> bool {
        let present = self.present(Area::Blocks);
        present < Area::Blocks.words(self.layout()).len()
            && self.add_or_count(Area::Blocks, present + 1)
    }

    /// Makes a step of each table present whose last one is more than half used, so that
    /// no thread that enters a name has to. Asks again where the last step was refused.
    #[cfg(not(loom))]
    pub fn prepare(&self) {
        let header = |index: usize| self.header(index).load(Ordering::Relaxed) as usize;
        for (area, used) in [
            (Area::Names, header(word::NAME_BYTES) / 8),
            (Area::Codes, header(word::CODES) * CODE_WORDS),
            (Area::Stacks, header(word::STACKS) * STACK_WORDS),
            (Area::Threads, header(word::THREAD_SERIAL).saturating_mul(THREAD_WORDS)),
        ] {
            let wanted = used.saturating_add(TABLE_STEP / 2).min(area.words(self.layout()).len());
            if wanted > self.present(area) && !self.add_or_count(area, wanted) {
                return;
            }
        }
    }
}
