//! Addresses of exported symbols, from the image of a library or program in memory.
//!
//! How it works: the file's head, its program headers and its dynamic section are mapped with it;
//! the GNU hash table leads to a symbol in a few reads, as the loader itself finds it. No file is
//! opened: it may lie in a container, or have been replaced since the process began.
//!
//! ```text
//!   head > program headers > dynamic section > GNU hash: bucket > chain > symbol > its name
//! ```
//!
//! What it promises: bounded reads; an image of another form has no symbols. What is missing on
//! purpose: 32 bits, big-endian, the older hash table alone (no Linux has linked so since 2006).

use std::io;

use crate::memory::Memory;

/// Entries that are read of the dynamic section, and steps in a chain of the hash table.
const MAX_ENTRIES: u64 = 512;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const SYMBOL_BYTES: u64 = 24;
const PAGE: u64 = 4096;

/// The symbols that an image exports.
pub struct Exports<'m> {
    memory: &'m dyn Memory,
    /// What is added to the file's addresses.
    bias: u64,
    strings: u64,
    symbols: u64,
    hash: u64,
}

impl<'m> Exports<'m> {
    /// Of the image whose first byte is at `base`. None: it is no such image.
    pub fn of(memory: &'m dyn Memory, base: u64) -> Option<Exports<'m>> {
        let mut head = [0u8; 64];
        memory.read(base, &mut head).ok()?;
        // ELF, 64 bits, little-endian.
        if head[..6] != [0x7f, b'E', b'L', b'F', 2, 1] {
            return None;
        }
        let headers = base + word_in(&head, 32)?;
        let (size, count) = (short_in(&head, 54)?, short_in(&head, 56)?);
        let (mut first, mut dynamic) = (None, None);
        for i in 0..u64::from(count.min(64)) {
            let mut header = [0u8; 56];
            memory.read(headers + i * u64::from(size), &mut header).ok()?;
            let (kind, address) = (int_in(&header, 0)?, word_in(&header, 16)?);
            match kind {
                PT_LOAD if first.is_none() => first = Some(address & !(PAGE - 1)),
                PT_DYNAMIC => dynamic = Some((address, word_in(&header, 40)?)),
                _ => (),
            }
        }
        let bias = base.checked_sub(first?)?;
        let (address, bytes) = dynamic?;
        let entries = (bytes / 16).min(MAX_ENTRIES);
        let found = tables(memory, bias + address, entries).ok()?;
        let [strings, symbols, hash] = found;
        // The C library stores addresses in memory, musl leaves those of the file.
        let place = |at: u64| if at < base { at + bias } else { at };
        if strings == 0 || symbols == 0 || hash == 0 {
            return None;
        }
        let (strings, symbols, hash) = (place(strings), place(symbols), place(hash));
        Some(Exports { memory, bias, strings, symbols, hash })
    }

    /// The address of an exported symbol.
    pub fn find(&self, name: &str) -> Option<u64> {
        self.search(name).ok().flatten()
    }

    fn search(&self, name: &str) -> io::Result<Option<u64>> {
        let int = |at: u64| self.memory.int(at).map(|value| value as u32);
        let (buckets, skipped) = (int(self.hash)?, int(self.hash + 4)?);
        let bloom_words = int(self.hash + 8)?;
        if buckets == 0 {
            return Ok(None);
        }
        let wanted = gnu_hash(name);
        let first_bucket = self.hash + 16 + 8 * u64::from(bloom_words);
        let chains = first_bucket + 4 * u64::from(buckets);
        let first = int(first_bucket + 4 * u64::from(wanted % buckets))?;
        if first < skipped {
            return Ok(None);
        }
        for index in (first..).take(MAX_ENTRIES as usize) {
            let hash = int(chains + 4 * u64::from(index - skipped))?;
            if hash | 1 == wanted | 1 {
                let symbol = self.symbols + SYMBOL_BYTES * u64::from(index);
                let at = self.strings + u64::from(int(symbol)?);
                let mut bytes = vec![0; name.len() + 1];
                self.memory.read(at, &mut bytes)?;
                let defined = (self.memory.word(symbol)? >> 48) as u16 != 0;
                if defined && bytes.strip_suffix(&[0]) == Some(name.as_bytes()) {
                    return Ok(Some(self.bias + self.memory.word(symbol + 8)?));
                }
            }
            if hash & 1 == 1 {
                break;
            }
        }
        Ok(None)
    }
}

/// Strings, symbols, hash; 0 for a missing one.
fn tables(memory: &dyn Memory, dynamic: u64, entries: u64) -> io::Result<[u64; 3]> {
    let mut found = [0; 3];
    for i in 0..entries {
        let (tag, value) = (memory.word(dynamic + 16 * i)?, memory.word(dynamic + 16 * i + 8)?);
        match tag {
            0 => break,
            DT_STRTAB => found[0] = value,
            DT_SYMTAB => found[1] = value,
            DT_GNU_HASH => found[2] = value,
            _ => (),
        }
    }
    Ok(found)
}

fn gnu_hash(name: &str) -> u32 {
    name.bytes().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)))
}

fn word_in(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn int_in(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn short_in(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
