//! Identities of strings of the interpreter: two strings may have the same address, one after the
//! other.
//!
//! How it works: length and hash, which a string carries, in one batched read. CPython computes the
//! hash at its first use and keeps -1 until then: file names of code seldom have one before 3.11.
//! Of such a string the last `TAIL` bytes are read too, each string once a batch, in a second
//! batched read, and hashed here. If all have hashes, nothing more is read.
//!
//! What it promises: two strings of one length that differ in their last `TAIL` bytes differ here.
//! What it does not: strings that differ only before that, without a hash of CPython's, are equal
//! here.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use sys::mem::Reader;

use crate::python_stacks::layout::words::{int_at, read_each, read_string, text_bytes, word_at};
use crate::python_stacks::layout::{object, Layout};

/// Bytes at the end of a string that are read.
const TAIL: usize = 256;
/// CPython's word for a hash that was not computed.
const NO_HASH: usize = usize::MAX;
/// Length, hash, state.
const HEAD: usize = object::STRING_STATE + 4 - object::STRING_LENGTH;

/// Length and hash.
pub(crate) type Text = (usize, usize);

/// Reads them; its room is used again.
#[derive(Default)]
pub(crate) struct Texts {
    addresses: Vec<usize>,
    bytes: Vec<u8>,
    found: Vec<Text>,
    /// Strings without a hash: address and state, once each.
    bare: Vec<(usize, u32)>,
}

impl Texts {
    /// Length and hash of each string; zero where nothing can be read.
    pub(crate) fn read(
        &mut self,
        mem: &Reader,
        layout: &Layout,
        strings: impl Iterator<Item = usize>,
    ) -> &[Text] {
        self.addresses.clear();
        self.addresses.extend(strings.map(|text| text.wrapping_add(object::STRING_LENGTH)));
        read_each(mem, &self.addresses, HEAD, &mut self.bytes);
        self.found.clear();
        self.bare.clear();
        for (address, head) in self.addresses.iter().zip(self.bytes.chunks_exact(HEAD)) {
            let (length, hash) = (word_at(head, 0), word_at(head, 8));
            self.found.push((length, hash));
            if hash == NO_HASH {
                let state = object::STRING_STATE - object::STRING_LENGTH;
                self.bare.push((*address, int_at(head, state) as u32));
            }
        }
        if !self.bare.is_empty() {
            self.hash_bare(mem, layout);
        }
        &self.found
    }

    #[cold]
    fn hash_bare(&mut self, mem: &Reader, layout: &Layout) {
        self.bare.sort_unstable();
        self.bare.dedup();
        let length = |address: usize| {
            let at = self.addresses.iter().position(|known| *known == address);
            at.map_or(0, |at| self.found[at].0)
        };
        // The address of its text, and how many of its last bytes are read.
        let places: Vec<Option<(usize, usize)>> = self
            .bare
            .iter()
            .map(|(address, state)| {
                let (start, bytes) = text_bytes(layout, *state, length(*address))?;
                let string = address.wrapping_sub(object::STRING_LENGTH);
                Some((string.wrapping_add(start).wrapping_add(bytes), bytes.min(TAIL)))
            })
            .collect();
        let begin =
            |place: &Option<(usize, usize)>| place.map_or(0, |(end, _)| end.wrapping_sub(TAIL));
        let begins: Vec<usize> = places.iter().map(begin).collect();
        read_each(mem, &begins, TAIL, &mut self.bytes);
        let hashes: Vec<usize> = (0..self.bare.len())
            .map(|i| {
                let taken = places[i].map_or(0, |(_, taken)| taken);
                let tail = &self.bytes[(i + 1) * TAIL - taken..(i + 1) * TAIL];
                match tail.iter().any(|byte| *byte != 0) {
                    true => hash_of(tail),
                    // Memory in front of a short string may not be readable: then the string alone
                    // is read.
                    false => {
                        let string = self.bare[i].0.wrapping_sub(object::STRING_LENGTH);
                        read_string(mem, layout, string)
                            .map_or(NO_HASH, |text| hash_of(text.as_bytes()))
                    }
                }
            })
            .collect();
        for (address, text) in self.addresses.iter().zip(self.found.iter_mut()) {
            if text.1 == NO_HASH {
                let known = self.bare.binary_search_by_key(address, |(bare, _)| *bare);
                text.1 = known.map_or(NO_HASH, |i| hashes[i]);
            }
        }
    }
}

fn hash_of(bytes: &[u8]) -> usize {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish() as usize
}
