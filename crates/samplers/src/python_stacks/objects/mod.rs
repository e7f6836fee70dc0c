//! Objects other than frames: their sort, and the objects they refer to.
//!
//! How it works: an object's type is recognised by its C name and, for types made by programs, by
//! the types it derives from. Types are few, so what was learned about one is kept, and used again
//! only while the name is in the same place. References are found without knowing attributes by
//! name: the words of the object's body, the values of its dict, the items of a container.
//!
//! | version | where an instance keeps its attributes |
//! | --- | --- |
//! | 3.9, 3.10 | a dict, at `tp_dictoffset` in the body |
//! | 3.11 | a dict 24 bytes, or values 32 bytes in front of it |
//! | 3.12 | one word 24 bytes in front of it: a dict, or values (marked in its lowest bit) |
//! | 3.13 | a dict 24 bytes in front of it, or values right behind the body |
//!
//! What it promises: guarded reads only, bounded in number and length. Words that only look like
//! references may be among the answers: callers check the type. What is missing on purpose:
//! attributes of types with a size of their own (subclasses of tuple).

pub(crate) mod searched;
pub(crate) mod sorts;

use crate::python_stacks::layout::words::{int_at, word_at};
use crate::python_stacks::layout::{object, Layout};
use crate::python_stacks::objects::sorts::{learn, Sort, Type, TYPE_NAME};
use std::collections::HashMap;
use sys::mem::Reader;

struct Known {
    name: usize,
    pass: u64,
    found: Type,
}

/// The table of types.
pub(crate) struct Objects {
    minor: u32,
    pass: u64,
    types: HashMap<usize, Known>,
}

/// Types remembered; beyond this number all are forgotten.
const MOST_TYPES: usize = 4096;
/// Bytes of an object's body that are read.
const MOST_BODY: usize = 512;
/// Items of a container that are read.
pub(crate) const MOST_ITEMS: usize = 128;
const FLAG_INLINE_VALUES: usize = 1 << 2;
const FLAG_MANAGED_DICT: usize = 1 << 4;
/// Set -> highest index, table of (item, hash).
pub(crate) const SET_MASK: usize = 32;
pub(crate) const SET_TABLE: usize = 40;
/// Deque -> its first block, and the first item's place there.
const DEQUE_LEFT_BLOCK: usize = 24;
const DEQUE_LEFT_INDEX: usize = 40;
/// Dict -> values in use, keys, values when they lie apart from the keys.
const DICT_USED: usize = 16;
pub(crate) const DICT_KEYS: usize = 32;
/// Keys of a dict: how much of them says where the entries are.
pub(crate) const KEYS_HEAD: usize = 40;
pub(crate) const DICT_VALUES: usize = 40;
/// Float -> its value; int -> its size, and its digits.
pub(crate) const NUMBER: usize = 16;
pub(crate) const DIGITS: usize = 24;

impl Objects {
    pub fn new(version_hex: u32) -> Objects {
        Objects { minor: (version_hex >> 16) & 0xff, pass: 1, types: HashMap::new() }
    }

    /// 3.11 is 11.
    pub fn minor(&self) -> u32 {
        self.minor
    }

    /// Whether waiters for what is written in C sleep on a futex each of their own (3.13).
    pub fn has_parking_lots(&self) -> bool {
        self.minor >= 13
    }

    /// Whether waiters for a lock do so, too (3.14).
    pub fn parks_on_locks(&self) -> bool {
        self.minor >= 14
    }

    /// From here on, every type is verified again at its next use.
    pub fn begin_pass(&mut self) {
        self.pass += 1;
        if self.types.len() > MOST_TYPES {
            self.types.clear();
        }
    }

    /// The type of a live object.
    pub fn type_of(&mut self, mem: &Reader, layout: &Layout, address: usize) -> Option<Type> {
        if address < 4096 || address % 8 != 0 {
            return None;
        }
        let mut head = [0u8; 16];
        mem.read(address, &mut head).ok()?;
        self.type_in(mem, layout, &head)
    }

    /// The type named in an object's first bytes.
    pub fn type_in(&mut self, mem: &Reader, layout: &Layout, head: &[u8]) -> Option<Type> {
        if word_at(head, object::REFERENCES) == 0 {
            return None;
        }
        self.known(mem, layout, word_at(head, object::TYPE))
    }

    fn known(&mut self, mem: &Reader, layout: &Layout, kind: usize) -> Option<Type> {
        let pass = self.pass;
        if let Some(known) = self.types.get_mut(&kind) {
            if known.pass == pass {
                return Some(known.found);
            }
            let name = mem.word(kind.wrapping_add(TYPE_NAME)).ok()?;
            if known.name == name {
                known.pass = pass;
                return Some(known.found);
            }
        }
        let (name, found) = learn(mem, layout, kind)?;
        self.types.insert(kind, Known { name, pass, found });
        Some(found)
    }

    /// What an object of type `kind` refers to.
    pub fn contents(
        &self,
        mem: &Reader,
        layout: &Layout,
        address: usize,
        kind: Type,
    ) -> Vec<usize> {
        self.read_contents(mem, layout, address, kind).unwrap_or_default()
    }

    fn read_contents(
        &self,
        mem: &Reader,
        layout: &Layout,
        address: usize,
        kind: Type,
    ) -> Option<Vec<usize>> {
        let at = |offset: usize| mem.word(address.wrapping_add(offset)).ok();
        match kind.sort {
            Sort::List => words(mem, at(object::LIST_ITEMS)?, at(object::SIZE)?),
            Sort::Tuple => words(mem, address.wrapping_add(layout.tuple_items), at(object::SIZE)?),
            Sort::Set => set_items(mem, address, MOST_ITEMS),
            Sort::Dict => self.dict_values(mem, address),
            Sort::Deque => deque_items(mem, address),
            Sort::Single => Some(vec![at(object::SIZE)?]),
            Sort::Method => Some(vec![at(object::METHOD_SELF)?]),
            Sort::Function => {
                let cells = at(layout.function_closure)?;
                let count = mem.word(cells.wrapping_add(object::SIZE)).ok()?;
                words(mem, cells.wrapping_add(layout.tuple_items), count)
            }
            Sort::Task | Sort::Future | Sort::Instance => {
                let length = kind.size.min(MOST_BODY).saturating_sub(16) / 8;
                let mut found = words(mem, address.wrapping_add(16), length)?;
                found.extend(self.attributes(mem, address, kind).unwrap_or_default());
                Some(found)
            }
            _ => None,
        }
    }

    fn attributes(&self, mem: &Reader, address: usize, kind: Type) -> Option<Vec<usize>> {
        if kind.dict_offset > 0 {
            let dict = mem.word(address.wrapping_add(kind.dict_offset as usize)).ok()?;
            return self.dict_values(mem, dict);
        }
        if kind.flags & FLAG_MANAGED_DICT == 0 {
            return None;
        }
        let front = |distance: usize| mem.word(address.wrapping_sub(distance)).ok();
        let dict = front(24)?;
        match self.minor {
            11 if dict == 0 => counted_values(mem, front(32)?),
            12 if dict & 1 == 1 => counted_values(mem, dict.wrapping_add(1)),
            13.. if dict == 0 && kind.flags & FLAG_INLINE_VALUES != 0 => {
                headed_values(mem, address.wrapping_add(kind.size))
            }
            _ => self.dict_values(mem, dict),
        }
    }

    fn dict_values(&self, mem: &Reader, dict: usize) -> Option<Vec<usize>> {
        let mut head = [0u8; DICT_VALUES + 8];
        mem.read(dict, &mut head).ok()?;
        let (keys, values) = (word_at(&head, DICT_KEYS), word_at(&head, DICT_VALUES));
        if values != 0 {
            let start = if self.minor >= 13 { values.wrapping_add(8) } else { values };
            return words(mem, start, word_at(&head, DICT_USED));
        }
        let mut head = [0u8; KEYS_HEAD];
        mem.read(keys, &mut head).ok()?;
        let (start, entries, step) = dict_entries(self.minor, &head)?;
        let all = words(mem, keys.wrapping_add(start), entries.min(MOST_ITEMS) * step / 8)?;
        Some(all.chunks_exact(step / 8).map(|entry| entry[step / 8 - 1]).collect())
    }
}

/// Of a dict's keys, by the first `KEYS_HEAD` bytes of them: where the entries begin, how many
/// there are, bytes of each. The table of indices lies in front; its width follows from its length.
/// The last word of an entry is the value.
pub(crate) fn dict_entries(minor: u32, head: &[u8]) -> Option<(usize, usize, usize)> {
    if minor >= 11 {
        let bytes = 1usize.checked_shl(u32::from(*head.get(9)?))?;
        let step = if *head.get(10)? == 0 { 24 } else { 16 };
        return Some((32usize.checked_add(bytes)?, word_at(head, 24), step));
    }
    let size = word_at(head, 8);
    let width = match size {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        _ => 4,
    };
    Some((40usize.checked_add(size.checked_mul(width)?)?, word_at(head, 32), 24))
}

/// Values without a head: their count lies two bytes in front.
fn counted_values(mem: &Reader, values: usize) -> Option<Vec<usize>> {
    let mut head = [0u8; 8];
    mem.read(values.wrapping_sub(8), &mut head).ok()?;
    words(mem, values, usize::from(head[6]))
}

/// Values with a head: capacity, count, embedded, valid, a byte each.
fn headed_values(mem: &Reader, head_at: usize) -> Option<Vec<usize>> {
    let mut head = [0u8; 8];
    mem.read(head_at, &mut head).ok()?;
    if head[3] == 0 {
        return None;
    }
    words(mem, head_at.wrapping_add(8), usize::from(head[1]))
}

/// The items of a set, and what else its table holds.
pub(crate) fn set_items(mem: &Reader, set: usize, most: usize) -> Option<Vec<usize>> {
    let mask = mem.word(set.wrapping_add(SET_MASK)).ok()?;
    let table = mem.word(set.wrapping_add(SET_TABLE)).ok()?;
    let slots = mask.checked_add(1)?.min(most.checked_mul(4)?);
    let mut bytes = vec![0u8; slots.checked_mul(16)?];
    mem.read(table, &mut bytes).ok()?;
    let items = (0..slots).map(|i| word_at(&bytes, i * 16));
    Some(items.filter(|item| *item > 4096).take(most).collect())
}

/// The items of a deque, from the left: blocks of 64, each with its left neighbour in front and its
/// right one behind.
fn deque_items(mem: &Reader, deque: usize) -> Option<Vec<usize>> {
    const BLOCK_ITEMS: usize = 64;
    let mut head = [0u8; DEQUE_LEFT_INDEX + 8];
    mem.read(deque, &mut head).ok()?;
    let mut left = word_at(&head, object::SIZE).min(MOST_ITEMS);
    let mut block = word_at(&head, DEQUE_LEFT_BLOCK);
    let mut first = word_at(&head, DEQUE_LEFT_INDEX);
    let mut items = Vec::with_capacity(left);
    while left > 0 {
        let here = BLOCK_ITEMS.checked_sub(first).filter(|here| *here > 0)?.min(left);
        items.extend(words(mem, block.wrapping_add(8 + first * 8), here)?);
        (left, first) = (left - here, 0);
        if left > 0 {
            block = mem.word(block.wrapping_add(8 + BLOCK_ITEMS * 8)).ok()?;
        }
    }
    Some(items)
}

fn words(mem: &Reader, start: usize, count: usize) -> Option<Vec<usize>> {
    let mut bytes = [0u8; MOST_ITEMS * 24];
    let length = count.checked_mul(8)?.min(bytes.len());
    let bytes = &mut bytes[..length];
    mem.read(start, bytes).ok()?;
    Some((0..length / 8).map(|i| word_at(bytes, i * 8)).collect())
}

/// A `float` or a small `int` in seconds, as nanoseconds.
pub(crate) fn seconds(mem: &Reader, address: usize, sort: Sort, minor: u32) -> Option<u64> {
    let mut bytes = [0u8; 32];
    mem.read(address, &mut bytes).ok()?;
    let seconds = match sort {
        Sort::Float => f64::from_bits(word_at(&bytes, NUMBER) as u64),
        Sort::Int => {
            let size = word_at(&bytes, NUMBER);
            let digits = if minor >= 12 { size >> 3 } else { size };
            if digits != 1 {
                return None;
            }
            f64::from(int_at(&bytes, DIGITS))
        }
        _ => return None,
    };
    (seconds > 0.0 && seconds < 1e9).then_some((seconds * 1e9) as u64)
}

impl Objects {
    /// The value of an `int` of up to 60 bits that is not negative.
    pub fn whole_number(&mut self, mem: &Reader, layout: &Layout, address: usize) -> Option<u64> {
        const DIGIT_BITS: u32 = 30;
        if self.type_of(mem, layout, address)?.sort != Sort::Int {
            return None;
        }
        let mut bytes = [0u8; 32];
        mem.read(address, &mut bytes).ok()?;
        let size = word_at(&bytes, NUMBER);
        // Since 3.12 the two lowest bits are the sign: 0 is positive, 1 zero, 2 negative.
        let digits = match self.minor {
            12.. if size & 3 == 0 => size >> 3,
            12.. => return None,
            _ => size,
        };
        let digit = |at: usize| int_at(&bytes, at) as u32 as u64;
        match digits {
            1 => Some(digit(DIGITS)),
            2 => Some(digit(DIGITS) | digit(DIGITS + 4) << DIGIT_BITS),
            _ => None,
        }
    }

    /// The number in an object, read as seconds.
    pub fn seconds(&mut self, mem: &Reader, layout: &Layout, address: usize) -> Option<u64> {
        let kind = self.type_of(mem, layout, address)?;
        seconds(mem, address, kind.sort, self.minor)
    }
}
