//! Reads numbers from copied bytes, and strings from the interpreter, without ever panicking.
//!
//! How it works: every accessor takes a slice and an offset and returns 0 where the slice is too
//! short, so a truncated copy reads as null pointers, which every caller already refuses. Strings
//! are read in two guarded reads: the head (length, kind), then at most `MAX_CHARACTERS`.
//!
//! What it promises: bounded reads whatever the length field says; never invalid UTF-8 (lone
//! surrogates become U+FFFD). What is missing on purpose: strings whose characters lie apart from
//! the head (legacy, non-compact): code objects never hold one.

use crate::python_stacks::layout::{object, Layout};
use sys::mem::Reader;

/// Longer names and paths are cut here, with an ellipsis.
pub(crate) const MAX_CHARACTERS: usize = 1024;

/// The pointer-sized number at `offset`, or 0 past the end.
pub(crate) fn word_at(bytes: &[u8], offset: usize) -> usize {
    bytes
        .get(offset..offset.wrapping_add(8))
        .and_then(|extent| extent.try_into().ok())
        .map_or(0, usize::from_ne_bytes)
}

/// The `int` at `offset`, or 0 past the end.
pub(crate) fn int_at(bytes: &[u8], offset: usize) -> i32 {
    bytes
        .get(offset..offset.wrapping_add(4))
        .and_then(|extent| extent.try_into().ok())
        .map_or(0, i32::from_ne_bytes)
}

/// Reads `each_len` bytes from every address, skipping unreadable ones, which stay zero. `out` is
/// resized to fit.
pub(crate) fn read_each(mem: &Reader, addresses: &[usize], each_len: usize, out: &mut Vec<u8>) {
    out.clear();
    out.resize(addresses.len() * each_len, 0);
    let mut done = 0;
    while done < addresses.len() {
        let read = mem.read_many(&addresses[done..], each_len, &mut out[done * each_len..]);
        done += read;
        if read == 0 || (done < addresses.len() && read < sys::mem::EXTENTS_MAX) {
            let bad = done * each_len..(done + 1) * each_len;
            out[bad].fill(0);
            done += 1;
        }
    }
}

/// The text of the `str` at `address`; `None` when it is not a readable compact string.
pub(crate) fn read_string(mem: &Reader, layout: &Layout, address: usize) -> Option<String> {
    let mut head = [0u8; object::STRING_STATE + 4];
    mem.read(address, &mut head).ok()?;
    let length = word_at(&head, object::STRING_LENGTH);
    let state = int_at(&head, object::STRING_STATE) as u32;
    let taken = length.min(MAX_CHARACTERS);
    let (start, bytes) = text_bytes(layout, state, taken)?;
    let kind = kind_of(state);
    let mut bytes = vec![0u8; bytes];
    mem.read(address.wrapping_add(start), &mut bytes).ok()?;
    let mut text = decode(&bytes, kind);
    if taken < length {
        text.push('…');
    }
    Some(text)
}

/// Bytes a character.
pub(crate) fn kind_of(state: u32) -> u32 {
    (state >> 2) & 7
}

/// Where the text of a string of so many characters begins in it, and its bytes; `None` when its
/// state is not that of a compact string.
pub(crate) fn text_bytes(layout: &Layout, state: u32, length: usize) -> Option<(usize, usize)> {
    let (kind, compact, ascii) = (kind_of(state), state & 0x20 != 0, state & 0x40 != 0);
    if !compact || !matches!(kind, 1 | 2 | 4) {
        return None;
    }
    let start = if ascii { layout.ascii_data } else { layout.compact_data };
    Some((start, length.checked_mul(kind as usize)?))
}

pub(crate) fn decode(bytes: &[u8], kind: u32) -> String {
    let character = |value: u32| char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER);
    match kind {
        1 => bytes.iter().map(|b| *b as char).collect(),
        2 => bytes
            .chunks_exact(2)
            .map(|c| character(u32::from(u16::from_ne_bytes([c[0], c[1]]))))
            .collect(),
        _ => bytes
            .chunks_exact(4)
            .map(|c| character(u32::from_ne_bytes([c[0], c[1], c[2], c[3]])))
            .collect(),
    }
}

/// True when the `bytes` object at `address` is a real one longer than `limit`, and its length is
/// not a leftover in reused memory.
pub(crate) fn is_too_long(mem: &Reader, address: usize, limit: usize) -> bool {
    mem.word(address.wrapping_add(object::SIZE))
        .is_ok_and(|length| length > limit && length < 1 << 31)
}

/// The contents of the `bytes` object at `address`, if no longer than `limit`.
pub(crate) fn read_bytes(mem: &Reader, address: usize, limit: usize) -> Option<Vec<u8>> {
    let length = mem.word(address.wrapping_add(object::SIZE)).ok()?;
    if length > limit {
        return None;
    }
    let mut bytes = vec![0u8; length];
    mem.read(address.wrapping_add(object::BYTES_DATA), &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_string_decodes() {
        assert_eq!(decode(&[0x66, 0xfc, 0x72], 1), "für");
        let wide: Vec<u8> = "щи".encode_utf16().flat_map(u16::to_ne_bytes).collect();
        assert_eq!(decode(&wide, 2), "щи");
        let widest: Vec<u8> = "🎥".chars().flat_map(|c| (c as u32).to_ne_bytes()).collect();
        assert_eq!(decode(&widest, 4), "🎥");
        assert_eq!(decode(&0xd800u16.to_ne_bytes(), 2), "\u{fffd}");
    }

    #[test]
    fn an_unreadable_range_is_zero_and_its_neighbours_are_not() {
        let mem = Reader::new().expect("a process may read itself");
        let words = [7usize, 11];
        let at = |i: usize| &raw const words[i] as usize;
        let mut out = Vec::new();
        read_each(&mem, &[8, at(0), 16, at(1)], 8, &mut out);
        let read: Vec<usize> = (0..4).map(|i| word_at(&out, i * 8)).collect();
        assert_eq!(read, [0, 7, 0, 11]);
    }

    #[test]
    fn reading_past_the_end_is_zero() {
        assert_eq!(word_at(&[1; 8], 1), 0);
        assert_eq!(int_at(&[1; 8], usize::MAX), 0);
    }
}
