//! A block: the unit that one thread owns, fills and leaves behind.
//!
//! ```text
//!  word 0  head: generation (32) | committed words (31) | open (1)
//!  word 1  owner: thread id (32) | thread serial (32)
//!  word 2  sequence number of the owner's first record here
//!  word 3  time of the first record, ns
//!  word 4  time the block was closed, ns; 0 while open
//!  word 5-7 reserved, 0
//!  word 8  records, one behind the other
//! ```
//! Everything a reader must see together (which generation, how many words, who may write) is in
//! the one head word, so a single atomic store publishes a record. A `Thread` record inside the
//! block says that the records behind it belong to another thread (a half-full block of a thread
//! that ended is handed to the next one).

/// Words in a block: 8 KiB. Small enough that an idle thread costs little, large enough that
/// taking a new one is rare (a span is 4 words).
pub const BLOCK_WORDS: usize = 1024;
/// Words before the first record.
pub const HEADER_WORDS: usize = 8;
/// Index of the head word.
pub const HEAD: usize = 0;
/// Index of the owner word.
pub const OWNER: usize = 1;
/// Index of the first sequence number.
pub const FIRST_SEQ: usize = 2;
/// Index of the time of the first record.
pub const FIRST_NS: usize = 3;
/// Index of the closing time.
pub const CLOSED_NS: usize = 4;

/// The head word, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Rises by one each time the block is taken for new content.
    pub generation: u32,
    /// Words in use, header included; 0 while a new owner prepares the header.
    pub committed: u32,
    /// A thread owns the block and may append.
    pub open: bool,
}

impl Head {
    /// Packs into one word.
    #[inline]
    pub fn pack(self) -> u64 {
        (u64::from(self.generation) << 32) | (u64::from(self.committed) << 1) | u64::from(self.open)
    }

    /// Unpacks; any word is accepted, so callers bound `committed` before they use it.
    #[inline]
    pub fn unpack(word: u64) -> Head {
        Head {
            generation: (word >> 32) as u32,
            committed: ((word as u32) >> 1),
            open: word & 1 == 1,
        }
    }

    /// `committed` as an index that is safe to slice a block with.
    pub fn used(self) -> usize {
        (self.committed as usize).min(BLOCK_WORDS)
    }
}

/// Two 32-bit values in one word.
#[inline]
pub fn pack_pair(low: u32, high: u32) -> u64 {
    u64::from(low) | (u64::from(high) << 32)
}

/// The two halves of a word: (low, high).
#[inline]
pub fn unpack_pair(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_back_as_it_was_packed() {
        for generation in [0, 1, u32::MAX] {
            for committed in [0, 8, BLOCK_WORDS as u32] {
                for open in [false, true] {
                    let head = Head { generation, committed, open };
                    assert_eq!(Head::unpack(head.pack()), head);
                }
            }
        }
    }
}
