//! An id of a name, together with its recorder.

/// Places of a table by address; a power of two.
pub(super) const PLACES: usize = 512;

/// An id with its recorder's epoch, which is never 0.
pub(super) fn packed(epoch: u32, id: u32) -> u64 {
    u64::from(epoch) << 32 | u64::from(id)
}

/// The id, if it is of this epoch.
#[inline]
pub(super) fn unpacked(word: u64, epoch: u32) -> Option<u32> {
    ((word >> 32) as u32 == epoch).then_some(word as u32)
}
