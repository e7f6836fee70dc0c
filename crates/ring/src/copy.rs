//! Copies blocks while writers write.
//!
//! How it works: a block's head is read, its words are copied up to the committed length, and the
//! head is read again. If the generation changed in between, the copy is thrown away and counted.
//!
//! What it promises: a copy never stops a writer and has whole records only. What it does not: one
//! instant for all blocks; each is copied at its own time.

use format::block::{Head, State, BLOCK_WORDS, CLOSED_NS, FIRST_NS, HEAD, HEADER_WORDS, OWNER};
use format::region::word;

use crate::sync::{fence, Ordering};
use crate::Region;

/// A copy of one block: consistent up to its committed length.
pub struct BlockCopy {
    words: Box<[u64; BLOCK_WORDS]>,
    used: usize,
}

impl Default for BlockCopy {
    fn default() -> Self {
        BlockCopy { words: Box::new([0; BLOCK_WORDS]), used: 0 }
    }
}

impl BlockCopy {
    /// The block's words: header and whole records.
    pub fn words(&self) -> &[u64] {
        &self.words[..self.used]
    }
}

/// The result of copying one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copied {
    Whole,
    Empty,
    Overwritten,
}

impl Region {
    /// Copies every block whose content reaches past `since_ns` into `buffer`, oldest ticket first,
    /// and hands it to `each`. Never stops a writer: a block that is overwritten during the copy is
    /// skipped. Returns how many blocks were lost that way.
    ///
    /// Cost: one pass over the region; about the speed of memory.
    pub fn copy_blocks<E>(
        &self,
        since_ns: u64,
        buffer: &mut BlockCopy,
        mut each: impl FnMut(&BlockCopy) -> Result<(), E>,
    ) -> Result<u64, E> {
        let count = self.layout().block_count;
        // Relaxed: only chooses where to begin.
        let cursor = self.header(word::CURSOR).load(Ordering::Relaxed);
        let (mut lost, present) = (0, self.present_blocks());
        for step in 0..count {
            let index = ((cursor + step as u64) % count as u64) as usize;
            if index >= present {
                continue;
            }
            match self.copy_block(index, since_ns, buffer) {
                Copied::Whole => each(buffer)?,
                Copied::Empty => (),
                Copied::Overwritten => lost += 1,
            }
        }
        Ok(lost)
    }

    fn copy_block(&self, index: usize, since_ns: u64, buffer: &mut BlockCopy) -> Copied {
        let block = self.block(index);
        // Acquire: pairs with the writer's release store of the head: words below `committed` are
        // visible.
        let head = Head::unpack(block[HEAD].load(Ordering::Acquire));
        let used = head.used();
        if used <= HEADER_WORDS {
            return Copied::Empty;
        }
        let closed_ns = block[CLOSED_NS].load(Ordering::Relaxed);
        if head.state == State::Closed && closed_ns != 0 && closed_ns < since_ns {
            return Copied::Empty;
        }
        // Of the header only what readers need; the other words are the writers' own.
        for range in [OWNER..FIRST_NS + 1, HEADER_WORDS..used] {
            for (to, from) in buffer.words[range.clone()].iter_mut().zip(&block[range]) {
                // Relaxed: checked as a whole below.
                *to = from.load(Ordering::Relaxed);
            }
        }
        // Acquire fence: pairs with the release fence in `take_block`: had any word come from the
        // next generation, the load below would see that generation too.
        fence(Ordering::Acquire);
        let now = Head::unpack(block[HEAD].load(Ordering::Relaxed));
        if now.generation != head.generation {
            return Copied::Overwritten;
        }
        buffer.words[HEAD] = head.pack();
        buffer.used = used;
        Copied::Whole
    }

    /// Time of the oldest record still held, 0 when nothing was recorded.
    pub fn oldest_ns(&self) -> u64 {
        let first = |index| {
            let block = self.block(index);
            let head = Head::unpack(block[HEAD].load(Ordering::Acquire));
            (head.used() > HEADER_WORDS).then(|| block[FIRST_NS].load(Ordering::Relaxed))
        };
        (0..self.present_blocks()).filter_map(first).min().unwrap_or(0)
    }
}
