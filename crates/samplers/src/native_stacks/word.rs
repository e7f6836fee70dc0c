//! A word of a copied stack, and where its value points in the copy.

/// A word that is kept for now.
#[derive(Clone, Copy)]
pub(super) struct Word {
    /// Index from the stack pointer.
    pub(super) position: u32,
    pub(super) address: u64,
    pub(super) link: u32,
    pub(super) pointer: bool,
    pub(super) interrupted: bool,
}

impl Word {
    pub(super) fn code(position: u32, address: u64, link: u32) -> Word {
        Word { position, address, link, pointer: false, interrupted: false }
    }
}

/// Words from the place `from` to where a value points, further up in the copy of the stack at
/// `sp`; 0: nowhere in it.
pub(super) fn up(sp: u64, copied: &[u8], value: u64, from: usize) -> u32 {
    let at = value.wrapping_sub(sp);
    let inside = at < copied.len() as u64 && at % 8 == 0;
    let distance = (at / 8).saturating_sub(from as u64) as u32;
    if inside {
        distance
    } else {
        0
    }
}

pub(super) fn word_at(copied: &[u8], index: usize) -> u64 {
    let word = copied.get(index * 8..index * 8 + 8).and_then(|word| word.try_into().ok());
    word.map(u64::from_le_bytes).unwrap_or_default()
}
