//! Code objects: from an address that may be stale to a name, a file and lines that are not.
//!
//! How it works: a code object can be freed and its address reused, so an address is never taken
//! for an identity. Once a pass, all addresses that are new in it are verified together: one
//! batched read fetches their heads (type, first line, the pointers to file, name and line table),
//! a second one the length and hash of their names and files (`texts`: a third one where CPython
//! did not compute the hash). Together that is the identity; an address whose identity changed gets
//! a new id, and an id never changes meaning. Names and line tables are read once, when an identity
//! is new, and the head is read again behind them: if it changed in between, the code object is
//! being replaced and the stack counts as torn.
//!
//! Freed memory looks like the code object it was, while its table may already be another object's.
//! So a new meaning of an address is `unsure` until its frame was seen again after the reading, and
//! all of it reads the same after that (`confirm`: another code object may have been made at the
//! address, and its frame at the frame's). What is not confirmed is taken back, one by one, so that
//! each attempt knows more of a thread that runs on while it is read (it imports).
//!
//! What it promises: at most `MAX_CODES` ids and `MAX_TABLE_BYTES` of line tables; past that,
//! frames carry `CodeId(0)` ("?"), and the counters have the number refused. What is missing on
//! purpose: forgetting. Ids are in recordings that outlive the code.

pub(crate) mod code;
pub(crate) mod lines;
pub(crate) mod texts;
pub(crate) mod word_hasher;

use crate::python_stacks::codes::code::Code;
use crate::python_stacks::codes::lines::Encoding;
use crate::python_stacks::codes::texts::Texts;
use crate::python_stacks::codes::word_hasher::WordHasher;
use crate::python_stacks::layout::words::{
    int_at, is_too_long, read_bytes, read_each, read_string, word_at,
};
use crate::python_stacks::layout::{object, Layout, ABSENT};
use crate::python_stacks::types::{CodeId, CodeInfo, Counters};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use sys::mem::Reader;

/// The most distinct code objects known at a time.
pub const MAX_CODES: usize = 64 * 1024;
const MAX_TABLE_BYTES: usize = 64 << 20;
const MAX_LINE_TABLE: usize = 1 << 20;
/// A larger reference count is not valid: the allocator writes an address over the count of an
/// object that was freed. From 3.14 on the count has 32 bits, 16 that are 0 and 16 flags behind it.
const MAX_REFERENCES: usize = 1 << 36;
const COUNT_BITS: u32 = 32;
const FLAGS_FROM: u32 = 48;
/// Heads are read in batches of this many.
const BATCH: usize = 256;

/// What makes a code object the same one as before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Identity {
    pointer: usize,
    first_line: i32,
    size: usize,
    file: usize,
    name: usize,
    lines: usize,
    file_text: (usize, usize),
    name_text: (usize, usize),
}

struct Known {
    id: CodeId,
    identity: Identity,
    pass: u64,
}

/// The table of code objects.
pub(crate) struct Codes {
    encoding: Encoding,
    code_type: usize,
    head_len: usize,
    pass: u64,
    by_pointer: HashMap<usize, Known, BuildHasherDefault<WordHasher>>,
    by_identity: HashMap<Identity, CodeId>,
    all: Vec<Code>,
    table_bytes: usize,
    heads: Vec<u8>,
    texts: Texts,
    /// Addresses that got another meaning since `begin_frames`.
    unsure: Vec<usize>,
    /// Identities first met since then; theirs are the last ids.
    fresh: Vec<Identity>,
}

impl Codes {
    pub fn new(version_hex: u32, code_type: usize, layout: &Layout) -> Codes {
        let encoding = match version_hex >> 16 {
            0x0309 => Encoding::Lnotab,
            0x030a => Encoding::Linetable,
            _ => Encoding::Locations,
        };
        let last = match layout.code_first_traceable {
            ABSENT => layout.code_lines + 8,
            place => place + 4,
        };
        Codes {
            encoding,
            code_type,
            head_len: last,
            pass: 1,
            by_pointer: HashMap::default(),
            by_identity: HashMap::new(),
            all: vec![Code::unknown()],
            table_bytes: 0,
            heads: Vec::new(),
            texts: Texts::default(),
            unsure: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// From here on, every address is verified again at its next use.
    pub fn begin_pass(&mut self) {
        self.pass += 1;
        if self.by_pointer.len() > 2 * MAX_CODES {
            self.by_pointer.clear();
        }
    }

    /// From here on, `unsure` lists the addresses that got another meaning.
    pub fn begin_frames(&mut self) {
        self.unsure.clear();
        self.fresh.clear();
    }

    /// The addresses whose code objects were not known since `begin_frames`.
    pub fn unsure(&self) -> &[usize] {
        &self.unsure
    }

    /// Keeps what was learned since `begin_frames` about addresses that are `still_there` and read
    /// the same now, and takes back the rest: true when there is no rest. Unless this returned
    /// true, no id learned since then may have been passed on. Costs as much as learning it.
    pub fn confirm(
        &mut self,
        mem: &Reader,
        layout: &Layout,
        still_there: impl Fn(usize) -> bool,
    ) -> bool {
        let unsure = std::mem::take(&mut self.unsure);
        let now = self.identities(mem, layout, &unsure);
        let mut gone = Vec::new();
        for (address, now) in unsure.iter().zip(&now) {
            let as_read = self.by_pointer.get(address).is_some_and(|known| known.identity == *now);
            if !as_read || !still_there(*address) {
                gone.push(*address);
            }
        }
        let fresh = std::mem::take(&mut self.fresh);
        let codes = self.all.split_off(self.all.len() - fresh.len());
        for (identity, code) in fresh.iter().zip(codes) {
            self.table_bytes -= code.bytes();
            self.by_identity.remove(identity);
            if gone.contains(&identity.pointer) {
                continue;
            }
            // Its refusals were counted when it was read first.
            let mut uncounted = Counters::default();
            if self.read_code(mem, layout, identity, &mut uncounted).as_ref() != Some(&code) {
                gone.push(identity.pointer);
                continue;
            }
            let id = self.keep(*identity, code);
            if let Some(known) = self.by_pointer.get_mut(&identity.pointer) {
                known.id = id;
            }
        }
        self.fresh.clear();
        for address in &gone {
            self.by_pointer.remove(address);
        }
        gone.is_empty()
    }

    /// Takes back all that was learned since `begin_frames`. No such id may have been passed on.
    pub fn forget_unsure(&mut self) {
        for pointer in self.unsure.drain(..) {
            self.by_pointer.remove(&pointer);
        }
        for identity in self.fresh.drain(..).rev() {
            self.by_identity.remove(&identity);
            if let Some(code) = self.all.pop() {
                self.table_bytes -= code.bytes();
            }
        }
    }

    /// The id of a verified address.
    pub fn id(&self, pointer: usize) -> Option<CodeId> {
        let known = self.by_pointer.get(&pointer)?;
        (known.pass == self.pass).then_some(known.id)
    }

    pub fn get(&self, id: CodeId) -> Option<&Code> {
        self.all.get(id.0 as usize)
    }

    /// Whether the code object at `pointer` uses one of `names`. Costs a read of each of its names.
    pub fn names(&self, mem: &Reader, layout: &Layout, pointer: usize, names: &[&str]) -> bool {
        let kind = mem.word(pointer.wrapping_add(object::TYPE));
        kind.is_ok_and(|kind| kind == self.code_type) && uses_a_name(mem, layout, pointer, names)
    }

    /// Reads a code object that may be freed at any time: nothing of it is kept.
    pub fn glance(&mut self, mem: &Reader, layout: &Layout, pointer: usize) -> Option<CodeInfo> {
        let identity = self.identities(mem, layout, &[pointer]).first().copied()?;
        if identity.name == 0 {
            return None;
        }
        if let Some(id) = self.by_identity.get(&identity) {
            return self.get(*id).map(|code| code.info.clone());
        }
        let qualname = read_string(mem, layout, identity.name)?;
        let file = read_string(mem, layout, identity.file)?;
        let first_line = u32::try_from(identity.first_line).unwrap_or(0);
        let same = self.identities(mem, layout, &[pointer]).first() == Some(&identity);
        same.then_some(CodeInfo { qualname, file, first_line, releases: false })
    }

    /// Verifies every address; an address without a code object (any more) has no id afterwards.
    pub fn verify(
        &mut self,
        mem: &Reader,
        layout: &Layout,
        pointers: &[usize],
        counters: &mut Counters,
    ) {
        for batch in pointers.chunks(BATCH) {
            let identities = self.identities(mem, layout, batch);
            for identity in identities {
                if identity.name == 0 {
                    self.by_pointer.remove(&identity.pointer);
                    continue;
                }
                self.admit(mem, layout, identity, counters);
            }
        }
    }

    fn identities(&mut self, mem: &Reader, layout: &Layout, batch: &[usize]) -> Vec<Identity> {
        read_each(mem, batch, self.head_len, &mut self.heads);
        let heads = self.heads.chunks_exact(self.head_len);
        let mut found: Vec<Identity> = batch
            .iter()
            .zip(heads)
            .map(|(pointer, head)| identity_of(layout, self.code_type, *pointer, head))
            .collect();
        let of_two = found.iter().flat_map(|identity| [identity.file, identity.name]);
        let texts = self.texts.read(mem, layout, of_two);
        for (identity, text) in found.iter_mut().zip(texts.chunks_exact(2)) {
            (identity.file_text, identity.name_text) = (text[0], text[1]);
        }
        found
    }

    fn admit(
        &mut self,
        mem: &Reader,
        layout: &Layout,
        identity: Identity,
        counters: &mut Counters,
    ) {
        let pass = self.pass;
        if let Some(known) = self.by_pointer.get_mut(&identity.pointer) {
            if known.identity == identity {
                known.pass = pass;
                return;
            }
        }
        let id = match self.by_identity.get(&identity) {
            Some(id) => *id,
            None if self.all.len() >= MAX_CODES || self.table_bytes >= MAX_TABLE_BYTES => {
                counters.codes_refused += 1;
                CodeId::UNKNOWN
            }
            None => match self.read_code(mem, layout, &identity, counters) {
                Some(code) => self.keep(identity, code),
                None => {
                    self.by_pointer.remove(&identity.pointer);
                    return;
                }
            },
        };
        self.unsure.push(identity.pointer);
        self.by_pointer.insert(identity.pointer, Known { id, identity, pass });
    }

    fn keep(&mut self, identity: Identity, code: Code) -> CodeId {
        let id = CodeId(self.all.len() as u32);
        self.table_bytes += code.bytes();
        self.all.push(code);
        self.by_identity.insert(identity, id);
        self.fresh.push(identity);
        id
    }

    fn read_code(
        &mut self,
        mem: &Reader,
        layout: &Layout,
        identity: &Identity,
        counters: &mut Counters,
    ) -> Option<Code> {
        let qualname = read_string(mem, layout, identity.name)?;
        let file = read_string(mem, layout, identity.file)?;
        let releases = uses_a_name(mem, layout, identity.pointer, &["release"]);
        let table = read_bytes(mem, identity.lines, MAX_LINE_TABLE);
        let exceptions = match layout.code_exceptions {
            ABSENT => Vec::new(),
            place => {
                let table = mem.word(identity.pointer.wrapping_add(place)).ok()?;
                read_bytes(mem, table, MAX_LINE_TABLE).unwrap_or_default()
            }
        };
        let after = self.identities(mem, layout, &[identity.pointer]);
        if after.first() != Some(identity) {
            return None;
        }
        let table = match table {
            Some(table) => table,
            None if is_too_long(mem, identity.lines, MAX_LINE_TABLE) => {
                counters.line_tables_refused += 1;
                Vec::new()
            }
            // A new code object shows, until it is filled in, what its memory held before.
            None => return None,
        };
        let rows = lines::parse(self.encoding, &table, identity.first_line);
        let first_line = u32::try_from(identity.first_line).unwrap_or(0);
        let int = |offset| int_at(&self.heads, offset);
        let positive = |offset| usize::try_from(int(offset)).unwrap_or(0);
        let mut code = Code {
            info: CodeInfo { qualname, file, first_line, releases },
            rows,
            first_traceable: i64::MIN,
            locals: 0,
            stack_size: positive(layout.code_stack_size),
            exceptions,
        };
        if layout.has_chunks() {
            code.first_traceable = 2 * i64::from(int(layout.code_first_traceable));
            code.locals = positive(layout.code_locals);
        }
        Some(code)
    }
}

/// Most names of a code object that are looked through.
const MAX_NAMES: usize = 128;

/// Whether the code object uses one of `names` as a global or attribute. Four reads, and two for
/// each of its names that is as long as one of `names`.
fn uses_a_name(mem: &Reader, layout: &Layout, code: usize, names: &[&str]) -> bool {
    let Ok(tuple) = mem.word(code.wrapping_add(layout.code_names)) else { return false };
    let Ok(count) = mem.word(tuple.wrapping_add(object::SIZE)) else { return false };
    let mut items = vec![0; count.min(MAX_NAMES) * 8];
    if mem.read(tuple.wrapping_add(layout.tuple_items), &mut items).is_err() {
        return false;
    }
    let texts: Vec<usize> = items.chunks_exact(8).map(|item| word_at(item, 0)).collect();
    let places: Vec<usize> = texts.iter().map(|t| t.wrapping_add(object::STRING_LENGTH)).collect();
    let mut lengths = Vec::new();
    read_each(mem, &places, 8, &mut lengths);
    let fits = |length: usize| names.iter().any(|name| name.len() == length);
    texts.iter().zip(lengths.chunks_exact(8)).any(|(text, length)| {
        fits(word_at(length, 0))
            && read_string(mem, layout, *text).is_some_and(|text| names.contains(&text.as_str()))
    })
}

/// Whether an object's first word is the count of one that is alive.
fn is_count(layout: &Layout, word: usize) -> bool {
    match layout.has_tags() {
        true => word as u32 != 0 && (word & ((1 << FLAGS_FROM) - 1)) >> COUNT_BITS == 0,
        false => (1..MAX_REFERENCES).contains(&word),
    }
}

/// The identity in a head; all zero but the pointer when this is no code object.
fn identity_of(layout: &Layout, code_type: usize, pointer: usize, head: &[u8]) -> Identity {
    let alive = is_count(layout, word_at(head, object::REFERENCES));
    if !alive || word_at(head, object::TYPE) != code_type {
        return Identity { pointer, ..Identity::default() };
    }
    let (name, size) = match layout.code_qualname {
        ABSENT => (layout.code_name, 0),
        qualname => (qualname, word_at(head, object::SIZE)),
    };
    Identity {
        pointer,
        first_line: int_at(head, layout.code_first_line),
        size,
        file: word_at(head, layout.code_file),
        name: word_at(head, name),
        lines: word_at(head, layout.code_lines),
        ..Identity::default()
    }
}

#[cfg(test)]
#[path = "codes_tests.rs"]
mod tests;
