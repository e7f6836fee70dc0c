//! Names of native code, resolved where the binaries are: the payload of the chunk `SYMS`.
//!
//! A capture stores the file and the offset of native code; a reader opens the file to name it. A
//! capture that leaves its host carries the names in this chunk. All words:
//!
//! ```text
//!  counts   codes | nodes | samples | wakings | renamed                       5 words
//!  codes    name (32) | file (32), flags (`INNER`)                            2 words each
//!  nodes    parent (32) | code (32), line                                     2 words each
//!  samples  tid (32) | stack (32), t: the stack of that thread's sample       2 words each
//!           0   (32) | stack (32), stack of STCK: that of awaits with the latter
//!  wakings  tid (32) | stack (32), t: of the waker of that thread             2 words each
//!  renamed  id in NAME (32) | own name (32): the name is that text            1 word each
//!  names    as in the chunk NAME; codes and `renamed` count in these, from 0
//! ```
//! A parent and a stack are ids of STCK, 0 none, or, with the bit `OWN`, nodes of this chunk that
//! count from 0. A parent of the chunk precedes its child. Codes count from 0.
//!
//! What it promises: decoding accepts any words. What it does not: that ids are in range. The
//! reader of a capture checks them where it uses them.

use crate::block::{pack_pair, unpack_pair};

/// Set in the id of a node of this chunk.
pub const OWN: u32 = 1 << 31;
/// The thread of a sample's row that stands for a stack of the table, whose id is in place of the
/// time: awaits with that stack have the row's.
pub const OF_TABLE: u32 = 0;
/// Flag of a code: native code that an interpreter's frame called.
pub const INNER: u32 = 1;
/// Words in front of the rows.
const COUNTS: usize = 5;

/// A function of native code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Own name of the function.
    pub function: u32,
    /// Own name of the file.
    pub file: u32,
    /// An interpreter's frame called it.
    pub inner: bool,
}

/// A frame and what called it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Stack that called it.
    pub parent: u32,
    /// Code of this chunk.
    pub code: u32,
    /// Line; 0 not known.
    pub line: u32,
}

/// The stack of a thread at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Thread.
    pub tid: u32,
    /// CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// Stack.
    pub stack: u32,
}

/// The chunk's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Symbols {
    pub names: Vec<String>,
    pub codes: Vec<Code>,
    pub nodes: Vec<Node>,
    pub samples: Vec<Placed>,
    pub wakings: Vec<Placed>,
    /// Ids in NAME and the own names that replace them.
    pub renamed: Vec<(u32, u32)>,
}

impl Symbols {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.wakings.is_empty() && self.renamed.is_empty()
    }

    /// As bytes of the chunk.
    pub fn encode(&self) -> Vec<u8> {
        let counts =
            [&self.codes.len(), &self.nodes.len(), &self.samples.len(), &self.wakings.len()];
        let mut words: Vec<u64> = counts.into_iter().map(|n| *n as u64).collect();
        words.push(self.renamed.len() as u64);
        for code in &self.codes {
            let flags = if code.inner { INNER } else { 0 };
            words.extend([pack_pair(code.function, code.file), u64::from(flags)]);
        }
        for node in &self.nodes {
            words.extend([pack_pair(node.parent, node.code), u64::from(node.line)]);
        }
        for placed in self.samples.iter().chain(&self.wakings) {
            words.extend([pack_pair(placed.tid, placed.stack), placed.t_ns]);
        }
        words.extend(self.renamed.iter().map(|(id, own)| pack_pair(*id, *own)));
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        for name in &self.names {
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes
    }

    /// From the bytes of a chunk, whose `names` the caller cuts up; None when the rows are cut off.
    pub fn decode(bytes: &[u8], names: impl Fn(&[u8]) -> Vec<String>) -> Option<Symbols> {
        let word = |b: &[u8]| b.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let (head, mut rest) = bytes.split_at_checked(COUNTS * 8)?;
        let counts: Vec<usize> = head.chunks_exact(8).map(|b| word(b) as usize).collect();
        let mut take = |count: usize, words: usize| -> Option<Vec<u64>> {
            let (area, tail) = rest.split_at_checked(count.checked_mul(words * 8)?)?;
            rest = tail;
            Some(area.chunks_exact(8).map(word).collect())
        };
        let (codes, nodes) = (take(counts[0], 2)?, take(counts[1], 2)?);
        let (samples, wakings) = (take(counts[2], 2)?, take(counts[3], 2)?);
        let renamed = take(counts[4], 1)?;
        Some(Symbols {
            codes: codes.chunks_exact(2).map(code).collect(),
            nodes: nodes.chunks_exact(2).map(node).collect(),
            samples: samples.chunks_exact(2).map(placed).collect(),
            wakings: wakings.chunks_exact(2).map(placed).collect(),
            renamed: renamed.into_iter().map(unpack_pair).collect(),
            names: names(rest),
        })
    }
}

fn code(words: &[u64]) -> Code {
    let (function, file) = unpack_pair(words[0]);
    Code { function, file, inner: words[1] as u32 & INNER != 0 }
}

fn node(words: &[u64]) -> Node {
    let (parent, code) = unpack_pair(words[0]);
    Node { parent, code, line: words[1] as u32 }
}

fn placed(words: &[u64]) -> Placed {
    let (tid, stack) = unpack_pair(words[0]);
    Placed { tid, stack, t_ns: words[1] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the reader of captures cuts them up, for names without padding in them.
    fn names(bytes: &[u8]) -> Vec<String> {
        let mut out = Vec::new();
        let mut rest = bytes;
        while let [a, b, c, d, tail @ ..] = rest {
            let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
            out.push(String::from_utf8_lossy(&tail[..length]).into_owned());
            rest = &rest[(4 + length).next_multiple_of(8)..];
        }
        out
    }

    fn some() -> Symbols {
        Symbols {
            names: ["digest", "/srv/app.c"].map(str::to_owned).to_vec(),
            codes: vec![Code { function: 0, file: 1, inner: true }],
            nodes: vec![
                Node { parent: 7, code: 0, line: 12 },
                Node { parent: OWN, code: 0, line: 3 },
            ],
            samples: vec![Placed { tid: 4, t_ns: u64::MAX, stack: OWN | 1 }],
            wakings: vec![Placed { tid: 5, t_ns: 6, stack: 0 }],
            renamed: vec![(9, 1)],
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let (symbols, none) = (some(), Symbols::default());
        assert_eq!(Symbols::decode(&symbols.encode(), names), Some(symbols));
        assert_eq!(Symbols::decode(&none.encode(), names), Some(none));
    }

    #[test]
    fn rows_that_are_cut_off_or_too_many_are_refused() {
        let symbols = some();
        let rows = symbols.encode();
        let whole = (COUNTS + 2 + 4 + 2 + 2 + 1) * 8;
        for length in 0..whole {
            assert_eq!(Symbols::decode(&rows[..length], names), None, "{length} bytes");
        }
        let mut many = rows;
        many[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(Symbols::decode(&many, names), None);
    }
}
