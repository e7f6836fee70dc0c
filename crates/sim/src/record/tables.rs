//! Names, code and stacks, each once: the tables of a capture, and those of the truth.
//!
//! How it works: what is known is found by a hash, what is new is added behind the others; an id is
//! never changed. The words are those of `format::region`. Native code has its names in a table of
//! its own, as a capture has them that left its host (`format::symbols`): the id of a stack with a
//! native frame innermost has the bit `OWN`.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use format::block::pack_pair;
use format::region::code_flag;
use format::symbols::{self, Symbols, OWN};

use crate::program::lib_frames::Lib;
use crate::program::{FnId, Op, Program, Step, STDLIB};

/// A hash for small keys: stacks are looked up at every switch.
#[derive(Default)]
pub struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

type Map<K> = HashMap<K, u32, BuildHasherDefault<Quick>>;

/// A code entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Qualified function.
    pub function: u32,
    /// File.
    pub file: u32,
    first_line: u32,
    flags: u32,
}

/// The tables.
#[derive(Default)]
pub struct Tables {
    names: Vec<String>,
    name_ids: HashMap<String, u32>,
    codes: Vec<Code>,
    functions: Map<FnId>,
    library: Map<usize>,
    /// Parent, code, line.
    stacks: Vec<(u32, u32, u32)>,
    stack_ids: Map<(u32, u32, u32)>,
    native: Symbols,
}

impl Tables {
    /// With the first name only.
    pub fn new() -> Tables {
        let mut tables = Tables::default();
        tables.name("(refused)");
        tables
    }

    /// The id of a name.
    pub fn name(&mut self, text: &str) -> u32 {
        if let Some(id) = self.name_ids.get(text) {
            return *id;
        }
        let id = self.names.len() as u32;
        self.names.push(text.to_owned());
        self.name_ids.insert(text.to_owned(), id);
        id
    }

    fn code(&mut self, function: &str, file: &str, first_line: u32, flags: u32) -> u32 {
        let (function, file) = (self.name(function), self.name(file));
        self.codes.push(Code { function, file, first_line, flags });
        self.codes.len() as u32
    }

    /// The stack `parent` with a frame of native code above it.
    fn native(&mut self, parent: u32, frame: &Lib) -> u32 {
        let own = &mut self.native;
        let mut name = |text: &str| match own.names.iter().position(|name| name == text) {
            Some(id) => id as u32,
            None => {
                own.names.push(text.to_owned());
                own.names.len() as u32 - 1
            }
        };
        let (function, file) = (name(frame.function), name(frame.file));
        // An interpreter's frame called it, or other native code did.
        let inner = parent != 0 && (parent & OWN == 0 || self.is_inner(parent));
        let code = symbols::Code { function, file, inner };
        let own = &mut self.native;
        let code = own.codes.iter().position(|known| *known == code).unwrap_or_else(|| {
            own.codes.push(code);
            own.codes.len() - 1
        });
        let node = symbols::Node { parent, code: code as u32, line: 0 };
        let node = own.nodes.iter().position(|known| *known == node).unwrap_or_else(|| {
            own.nodes.push(node);
            own.nodes.len() - 1
        });
        OWN | node as u32
    }

    fn is_inner(&self, stack: u32) -> bool {
        let node = self.native.nodes.get((stack & !OWN) as usize);
        node.and_then(|node| self.native.codes.get(node.code as usize)).is_some_and(|c| c.inner)
    }

    /// The stack without its native frames, which is what the interpreter shows.
    pub fn without_native(&self, stack: u32) -> u32 {
        let mut stack = stack;
        while stack & OWN != 0 {
            stack = self.native.nodes.get((stack & !OWN) as usize).map_or(0, |node| node.parent);
        }
        stack
    }

    /// The names of native code, for these samples.
    pub fn symbols(&self, samples: Vec<symbols::Placed>) -> Symbols {
        Symbols { samples, ..self.native.clone() }
    }

    fn stack(&mut self, parent: u32, code: u32, line: u32) -> u32 {
        let key = (parent, code, line);
        if let Some(id) = self.stack_ids.get(&key) {
            return *id;
        }
        self.stacks.push(key);
        let id = self.stacks.len() as u32;
        self.stack_ids.insert(key, id);
        id
    }

    /// The stack `parent` with a frame of the interpreter's library above it.
    pub fn library(&mut self, parent: u32, frame: &'static Lib) -> u32 {
        if frame.is_native() {
            return self.native(parent, frame);
        }
        let key = std::ptr::from_ref(frame) as usize;
        let code = match self.library.get(&key) {
            Some(code) => *code,
            None => {
                let file = match frame.file.starts_with(['<', '/']) {
                    true => frame.file.to_owned(),
                    false => format!("{STDLIB}/{}", frame.file),
                };
                let code = self.code(frame.function, &file, frame.line.saturating_sub(9), 0);
                self.library.insert(key, code);
                code
            }
        };
        self.stack(parent, code, frame.line)
    }

    /// The same with a function of the program's.
    pub fn function(&mut self, parent: u32, program: &Program, function: FnId, line: u32) -> u32 {
        let code = match self.functions.get(&function) {
            Some(code) => *code,
            None => {
                let made = &program.functions[function];
                let flags = if releases(&made.body) { code_flag::RELEASES } else { 0 };
                let code = self.code(&made.name, &made.file, made.first_line, flags);
                self.functions.insert(function, code);
                code
            }
        };
        self.stack(parent, code, line)
    }

    /// The frames of a stack, innermost first: function, file, line.
    pub fn frames(&self, stack: u32) -> impl Iterator<Item = (&str, &str, u32)> {
        let mut next = stack;
        std::iter::from_fn(move || {
            if next & OWN != 0 {
                let node = self.native.nodes.get((next & !OWN) as usize)?;
                let code = self.native.codes.get(node.code as usize)?;
                next = node.parent;
                let text = |id: u32| self.native.names.get(id as usize).map_or("?", String::as_str);
                return Some((text(code.function), text(code.file), node.line));
            }
            let (parent, code, line) = *self.stacks.get((next as usize).checked_sub(1)?)?;
            next = parent;
            let code = self.codes.get((code as usize).checked_sub(1)?)?;
            let text = |id: u32| self.names.get(id as usize).map_or("?", String::as_str);
            Some((text(code.function), text(code.file), line))
        })
    }

    /// Names, codes and stacks as the words of a capture.
    pub fn words(&self) -> [Vec<u64>; 3] {
        let mut bytes = Vec::new();
        for name in &self.names {
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let names = bytes.chunks_exact(8).map(word).collect();
        let code = |c: &Code| [pack_pair(c.function, c.file), pack_pair(c.first_line, c.flags)];
        let codes = self.codes.iter().flat_map(code).collect();
        let node =
            |(parent, code, line): &(u32, u32, u32)| [pack_pair(*parent, *code), u64::from(*line)];
        [names, codes, self.stacks.iter().flat_map(node).collect()]
    }
}

/// Whether code names `release`, as a lock taken by hand makes it.
fn releases(body: &[Step]) -> bool {
    body.iter().any(|step| match &step.op {
        Op::ByHand(..) => true,
        Op::Repeat(_, body) | Op::Forever(body) | Op::Every { body, .. } => releases(body),
        Op::With(_, body) | Op::AsyncWith(_, body) | Op::Inside(_, body) => releases(body),
        Op::Reading(_, body) | Op::Writing(_, body) | Op::Transaction(_, body) => releases(body),
        _ => false,
    })
}
