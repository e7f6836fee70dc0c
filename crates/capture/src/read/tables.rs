//! The four tables (names, codes, stacks, threads), decoded from bytes.

use format::block::unpack_pair;
use format::region::{code_flag, thread, CODE_WORDS, STACK_WORDS, THREAD_WORDS};

use super::rows::ThreadRow;

/// A function's place in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Name id of the qualified function name.
    pub function: u32,
    /// Name id of the file.
    pub file: u32,
    /// First line of the function.
    pub first_line: u32,
    /// Its code names `release`: it may hold a lock taken by hand.
    pub releases: bool,
    /// It is an address of native code, as `format::region::code_flag::NATIVE` says.
    pub native: bool,
    /// It is native code that an interpreter's frame called, by name: only readers that name
    /// native stacks make such entries.
    pub inner: bool,
}

/// One frame of a stack and the node that called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackNode {
    /// Caller's node id, 0 none.
    pub parent: u32,
    /// Code id.
    pub code: u32,
    /// Line being executed.
    pub line: u32,
}

/// Words of a byte area; a ragged end is dropped.
pub fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |b: &[u8]| b.try_into().map(u64::from_le_bytes).unwrap_or_default();
    bytes.chunks_exact(8).map(word).collect()
}

/// The words of a block, which replace those in `words`.
pub fn to_words(block: &[u8], words: &mut Vec<u64>) {
    words.clear();
    let word = |b: &[u8]| b.try_into().map(u64::from_le_bytes).unwrap_or_default();
    words.extend(block.chunks_exact(8).map(word));
}

/// Names by ordinal.
pub fn names(mut bytes: &[u8]) -> Vec<String> {
    let mut out = Vec::new();
    while let Some((head, rest)) = bytes.split_at_checked(4) {
        let length = head.try_into().map(u32::from_le_bytes).unwrap_or_default() as usize;
        let Some(text) = rest.get(..length) else {
            break;
        };
        out.push(String::from_utf8_lossy(text).into_owned());
        let total = (4 + length).next_multiple_of(8);
        bytes = bytes.get(total..).unwrap_or_default();
    }
    out
}

/// Code entries.
pub fn codes(bytes: &[u8]) -> Vec<Code> {
    let entry = |w: &[u64]| {
        let (function, file) = unpack_pair(w[0]);
        let (first_line, flags) = unpack_pair(w[1]);
        let releases = flags & code_flag::RELEASES != 0;
        let native = flags & code_flag::NATIVE != 0;
        Code { function, file, first_line, releases, native, inner: false }
    };
    words(bytes).chunks_exact(CODE_WORDS).map(entry).collect()
}

/// Stack nodes.
pub fn stacks(bytes: &[u8]) -> Vec<StackNode> {
    let entry = |w: &[u64]| {
        let (parent, code) = unpack_pair(w[0]);
        StackNode { parent, code, line: w[1] as u32 }
    };
    words(bytes).chunks_exact(STACK_WORDS).map(entry).collect()
}

/// Threads; slots never used are left out.
pub fn threads(bytes: &[u8], names: &[String]) -> Vec<ThreadRow> {
    let entry = |w: &[u64]| {
        let (tid, serial) = unpack_pair(w[thread::IDENT]);
        let (name, nested) = unpack_pair(w[thread::NAME]);
        let comm: Vec<u8> = w[thread::COMM..]
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .take_while(|b| *b != 0)
            .collect();
        let given = (name != 0).then(|| names.get(name as usize).cloned()).flatten();
        ThreadRow {
            tid,
            serial,
            named: given.is_some(),
            name: given.unwrap_or_else(|| String::from_utf8_lossy(&comm).into_owned()),
            nested: nested & 1 == 1,
            start_ns: w[thread::START_NS],
            end_ns: (w[thread::END_NS] != 0).then_some(w[thread::END_NS]),
            records: w[thread::PROGRESS] / 2,
            dropped: w[thread::DROPPED],
        }
    };
    let used = |w: &&[u64]| w[thread::IDENT] != 0 && w[thread::IDENT] != thread::CHANGING;
    words(bytes).chunks_exact(THREAD_WORDS).filter(used).map(entry).collect()
}
