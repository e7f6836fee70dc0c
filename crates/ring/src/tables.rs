//! The append-only tables: names, code locations, stacks.
//!
//! How it works: a lookup table in process memory finds known entries. A miss appends to the area
//! in the region and then raises the area's count (release), so a reader of the region sees
//! complete entries only.
//!
//! What it promises: all under one lock, which is held for a hash lookup and a copy, never for I/O;
//! at times for the system call that makes the next 64 KiB present (`growth`). Off the hot path.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

use format::block::pack_pair;
use format::region::{code_flag, losses, word, CODE_WORDS, STACK_WORDS};

use crate::present::Area;
use crate::sync::Ordering;
use crate::Region;

/// Id of an interned name. 0 is "(refused)": the name area was full.
pub type Name = u32;

/// Writes the tables of one region.
pub struct Tables {
    region: &'static Region,
    /// Called with each new name, under the lock.
    on_name: fn(Name, &str),
    inner: Mutex<Inner>,
}

/// Classes of names that come from outside the program's source and could be new for ever: each
/// class is bounded to a number of distinct names.
#[derive(Clone, Copy, Debug)]
pub enum Class {
    /// Names of threads.
    Thread,
    /// Peers, paths, pipes.
    Target,
    /// Names of asyncio tasks.
    Task,
}

impl Class {
    fn most(self) -> usize {
        match self {
            Class::Thread => 1000,
            Class::Target => 4000,
            Class::Task => 1000,
        }
    }
}

#[derive(Default)]
struct Inner {
    /// Distinct names by class.
    classes: [usize; 3],
    names: HashMap<Box<str>, Name>,
    codes: HashMap<(Name, Name, u32), u32>,
    stacks: HashMap<(u32, u32, u32), u32>,
}

impl Tables {
    /// Tables of a new region; the first name is "(refused)".
    /// `on_name` is called with each new name; it must not call back into the tables.
    pub fn new(region: &'static Region, on_name: fn(Name, &str)) -> Tables {
        let tables = Tables { region, on_name, inner: Mutex::default() };
        tables.name("(refused)");
        tables
    }

    /// The id of `text`, cut at 1000 bytes.
    pub fn name(&self, text: &str) -> Name {
        self.intern(text, 1000)
    }

    /// The id of a text that has one.
    pub fn known(&self, text: &str) -> Option<Name> {
        self.lock().names.get(text).copied()
    }

    /// As `name`, for a settings text of up to 32 KiB.
    pub fn long_text(&self, text: &str) -> Name {
        self.intern(text, 32 * 1024)
    }

    /// As `name`, for names of a class that is bounded. None: there are too many of that class.
    pub fn bounded(&self, class: Class, text: &str) -> Option<Name> {
        let mut inner = self.lock();
        if let Some(id) = inner.names.get(text) {
            return Some(*id);
        }
        let count = &mut inner.classes[class as usize];
        if *count >= class.most() {
            return None;
        }
        *count += 1;
        drop(inner);
        Some(self.name(text))
    }

    /// As `bounded`, for a class where they fall together past that: digits become `#`.
    pub fn classed(&self, class: Class, text: &str) -> Name {
        if let Some(name) = self.bounded(class, text) {
            return name;
        }
        let digit = |c: char| if c.is_ascii_digit() { '#' } else { c };
        self.name(&text.chars().map(digit).collect::<String>())
    }

    fn intern(&self, text: &str, most: usize) -> Name {
        let mut end = text.len().min(most);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = &text[..end];
        let mut inner = self.lock();
        if let Some(id) = inner.names.get(text) {
            return *id;
        }
        let Some(id) = self.append_name(text) else {
            self.region.lose(losses::NAMES_REFUSED, 1);
            return 0;
        };
        inner.names.insert(text.into(), id);
        (self.on_name)(id, text);
        id
    }

    /// Calls `each` with every name, under the lock: none comes in between.
    pub fn each_name(&self, mut each: impl FnMut(Name, &str)) {
        self.lock().names.iter().for_each(|(text, id)| each(*id, text));
    }

    fn append_name(&self, text: &str) -> Option<Name> {
        let layout = self.region.layout();
        // Relaxed: only this writer (under the lock) changes the two counts.
        let at = self.region.header(word::NAME_BYTES).load(Ordering::Relaxed) as usize;
        let id = self.region.header(word::NAMES).load(Ordering::Relaxed);
        let total = (4 + text.len()).next_multiple_of(8);
        if at + total > layout.name_bytes || !self.region.reach(Area::Names, (at + total) / 8) {
            return None;
        }
        let mut bytes = vec![0u8; total];
        bytes[..4].copy_from_slice(&(text.len() as u32).to_le_bytes());
        bytes[4..4 + text.len()].copy_from_slice(text.as_bytes());
        let first = layout.names + at / 8;
        for (slot, part) in self.region.words()[first..].iter().zip(bytes.chunks_exact(8)) {
            let mut word = [0; 8];
            word.copy_from_slice(part);
            slot.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        self.region.header(word::NAME_BYTES).store((at + total) as u64, Ordering::Release);
        self.region.header(word::NAMES).store(id + 1, Ordering::Release);
        Some(id as Name)
    }

    /// The id of a code location's function; 0 when refused. `releases`: its code names `release`.
    pub fn code(&self, function: Name, file: Name, first_line: u32, releases: bool) -> u32 {
        let flags = if releases { code_flag::RELEASES } else { 0 };
        self.code_entry(function, file, first_line, flags)
    }

    /// The id of an address of native code: `offset` names the bytes from the begin of the file, as
    /// `0x1a2b`, `file` the file and its build; 0 when refused.
    pub fn native_code(&self, offset: Name, file: Name) -> u32 {
        self.code_entry(offset, file, 0, code_flag::NATIVE)
    }

    fn code_entry(&self, function: Name, file: Name, first_line: u32, flags: u32) -> u32 {
        let mut inner = self.lock();
        if let Some(id) = inner.codes.get(&(function, file, first_line)) {
            return *id;
        }
        let layout = self.region.layout();
        let entry = [pack_pair(function, file), pack_pair(first_line, flags)];
        let place = (Area::Codes, layout.codes, CODE_WORDS, word::CODES);
        let Some(id) = self.append_entry(&entry, place) else {
            self.region.lose(losses::CODES_REFUSED, 1);
            return 0;
        };
        inner.codes.insert((function, file, first_line), id);
        id
    }

    /// The id of the stack that `parent` (0: none) calls `code` at `line` from. Called root first.
    pub fn stack(&self, parent: u32, code: u32, line: u32) -> u32 {
        let mut inner = self.lock();
        if let Some(id) = inner.stacks.get(&(parent, code, line)) {
            return *id;
        }
        let layout = self.region.layout();
        let entry = [pack_pair(parent, code), u64::from(line)];
        let place = (Area::Stacks, layout.stacks, STACK_WORDS, word::STACKS);
        let Some(id) = self.append_entry(&entry, place) else {
            self.region.lose(losses::STACKS_REFUSED, 1);
            return parent;
        };
        inner.stacks.insert((parent, code, line), id);
        id
    }

    /// Entries are numbered from 1, so that 0 can mean none.
    fn append_entry(
        &self,
        entry: &[u64; 2],
        (area, start, words, counter): (Area, usize, usize, usize),
    ) -> Option<u32> {
        let used = self.region.header(counter).load(Ordering::Relaxed) as usize;
        if !self.region.reach(area, (used + 1) * words) {
            return None;
        }
        for (slot, word) in self.region.words()[start + used * words..].iter().zip(entry) {
            slot.store(*word, Ordering::Relaxed);
        }
        self.region.header(counter).store(used as u64 + 1, Ordering::Release);
        Some(used as u32 + 1)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // A panic while holding the lock leaves the maps usable: at worst an entry is written
        // twice.
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Region {
    /// The names appended since the area held `from` bytes (0 at first), and how many it holds now.
    /// Each is 4 bytes of length and its text, filled up to whole words. Takes no lock.
    pub fn copy_names(&self, from: usize) -> (Vec<u64>, usize) {
        let l = self.layout();
        let used = self.header(word::NAME_BYTES).load(Ordering::Acquire) as usize;
        let used = used.min(l.name_bytes);
        let words = &self.words()[l.names + (from / 8).min(used / 8)..l.names + used / 8];
        (words.iter().map(|w| w.load(Ordering::Relaxed)).collect(), used)
    }

    /// Copies of the four tables as they are now: threads, names, codes, stacks (words in use).
    /// Together they are at most a quarter of the region. Errors: no memory for them.
    pub fn copy_tables(&self) -> io::Result<[Vec<u64>; 4]> {
        let l = self.layout();
        let used = |counter: usize| self.header(counter).load(Ordering::Acquire) as usize;
        let copy = |start: usize, len: usize| {
            let mut copied = Vec::new();
            // Elsewhere a refused allocation ends the process.
            copied.try_reserve_exact(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
            let words = &self.words()[start..start + len];
            copied.extend(words.iter().map(|w| w.load(Ordering::Relaxed)));
            io::Result::Ok(copied)
        };
        // Stacks before codes before names: whatever an entry refers to was appended before it, so
        // copying the referring table first never leaves an id without its entry.
        let stacks = copy(l.stacks, used(word::STACKS).min(l.stack_slots) * STACK_WORDS)?;
        let codes = copy(l.codes, used(word::CODES).min(l.code_slots) * CODE_WORDS)?;
        let names = copy(l.names, used(word::NAME_BYTES).min(l.name_bytes) / 8)?;
        let (threads, _) = self.copy_threads();
        Ok([threads, names, codes, stacks])
    }
}
