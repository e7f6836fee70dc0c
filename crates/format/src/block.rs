//! A block: the unit of the region's ring. One thread owns it and appends records to it.
//!
//! ```text
//!  word 0  head: generation (32) | committed words (30) | state (2)
//!  word 1  owner: thread id (32) | thread serial (32)
//!  word 2  sequence number of the owner's first record here
//!  word 3  time of the first record, ns
//!  word 4  time the block was closed, ns; 0 while open
//!  word 5  slot of the present owner in the thread table, + 1; 0 none
//!  word 6  number of records, once its owner closed it; 0: not known, count them
//!  word 7  records overwritten here, ever (48) | generation up to which it counts (16)
//!  word 8  records, one behind the other
//! ```
//! Everything that a reader must see together (generation, number of words, state) is in the head
//! word, so one atomic store publishes a record. A half-full block is handed to another thread when
//! its owner ends: a `Thread` record inside the block says that the records behind it belong to
//! another thread.
//!
//! What it promises: any word unpacks without a panic. What is missing on purpose: the order in
//! which words are stored; that is the protocol of the ring (`PROTOCOL.md` in `crates/ring`).

/// Words in a block: 8 KiB. Small enough that an idle thread costs little, large enough that
/// taking a new one is rare (a span is 4 words).
#[cfg(not(loom))]
pub const BLOCK_WORDS: usize = 1024;
/// For the models: room for a few records.
#[cfg(loom)]
pub const BLOCK_WORDS: usize = 20;
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
/// Index of the owner's slot in the thread table, + 1.
pub const OWNER_SLOT: usize = 5;
/// Index of the number of records.
pub const RECORDS: usize = 6;
/// Index of the number of records overwritten.
pub const OVERWRITTEN: usize = 7;

/// The `OVERWRITTEN` word of a block that holds content of `generation`.
#[inline]
pub fn pack_overwritten(records: u64, generation: u32) -> u64 {
    (records << 16) | u64::from(generation as u16)
}

/// Records overwritten in a block so far, from its header. A thread that was killed while it took
/// the block may have counted records that are still there; they are subtracted again.
pub fn overwritten(header: &[u64; HEADER_WORDS]) -> u64 {
    let head = Head::unpack(header[HEAD]);
    let records = header[OVERWRITTEN] >> 16;
    match header[OVERWRITTEN] as u16 == head.generation as u16 {
        true => records,
        false => records.saturating_sub(header[RECORDS]),
    }
}

/// The state of a block, which decides which threads may write to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Nobody's: any thread may take it.
    Closed = 0,
    /// Its owner appends.
    Open = 1,
    /// Being prepared by a new owner; no other thread touches it.
    Claimed = 2,
    /// Being taken back from an idle owner.
    Revoking = 3,
}

/// The head word, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Rises by one each time the block is taken for new content.
    pub generation: u32,
    /// Words in use, header included; 0 while a new owner prepares the header.
    pub committed: u32,
    /// The block's state.
    pub state: State,
}

impl Head {
    /// What one committed word adds to a packed head.
    pub const ONE_WORD: u64 = 4;

    /// Packs into one word.
    #[inline]
    pub fn pack(self) -> u64 {
        (u64::from(self.generation) << 32) | (u64::from(self.committed) << 2) | self.state as u64
    }

    /// Unpacks; any word is accepted, so callers bound `committed` before they use it.
    #[inline]
    pub fn unpack(word: u64) -> Head {
        let state = match word & 3 {
            0 => State::Closed,
            1 => State::Open,
            2 => State::Claimed,
            _ => State::Revoking,
        };
        Head { generation: (word >> 32) as u32, committed: (word as u32) >> 2, state }
    }

    /// The same block in another state.
    #[inline]
    pub fn with(self, state: State) -> Head {
        Head { state, ..self }
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
    fn a_head_survives_packing() {
        for generation in [0, 1, u32::MAX] {
            for committed in [0, 8, BLOCK_WORDS as u32] {
                for state in [State::Closed, State::Open, State::Claimed, State::Revoking] {
                    let head = Head { generation, committed, state };
                    assert_eq!(Head::unpack(head.pack()), head);
                    let more = Head { committed: committed + 3, ..head };
                    assert_eq!(head.pack() + 3 * Head::ONE_WORD, more.pack());
                }
            }
        }
    }
}
