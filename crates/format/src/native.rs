//! The stack of a thread that was running native code, as one record.
//!
//! ```text
//!  NativeStack  t | tid | offset | words, innermost first      header's name: file, `path TAB tag`
//!  word         code id (32) | line of a stack node (32)       as in `region::code_flag::NATIVE`
//! ```
//! It belongs to the `Sample` of the same thread and time: its words lie inside (are called by) the
//! stack that the sample names, or are the whole stack where that is 0. The first word is the
//! instruction pointer: file and offset give its place, and its code id is 0. Unlike the stacks of
//! blocked threads these seldom repeat, so they lie in the ring, which is overwritten, and take no
//! room in the tables.
//!
//! With the flag `OF_WAKING` it belongs to the `Wake` of the thread `tid` at that time, and is the
//! waker's stack. A reader that does not know the flag finds no sample for it and ignores it.

use crate::block::{pack_pair, unpack_pair};
use crate::words::{header, Kind, MAX_WORDS};

/// Words of the record in front of the stack's.
const FIXED: usize = 4;
/// Most words of a stack.
pub const MOST: usize = MAX_WORDS - FIXED;

/// A flag of the record: see above.
pub const OF_WAKING: u16 = 1;

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeStack<'a> {
    /// The time of the sample or of the wakeup.
    pub t_ns: u64,
    /// The sample's thread; of a wakeup, the woken thread.
    pub tid: u32,
    /// It is the stack of the thread that woke `tid`.
    pub of_waking: bool,
    /// Name id of the file that the instruction pointer lies in, `path TAB tag`; 0: in no file.
    pub file: u32,
    /// Where in that file, bytes.
    pub offset: u64,
    words: &'a [u64],
}

impl<'a> NativeStack<'a> {
    pub(crate) fn decode(file: u32, flags: u16, body: &'a [u64]) -> Option<NativeStack<'a>> {
        let [t_ns, tid, offset, words @ ..] = body else { return None };
        let (t_ns, tid, offset) = (*t_ns, *tid as u32, *offset);
        let of_waking = flags & OF_WAKING != 0;
        Some(NativeStack { t_ns, tid, of_waking, file, offset, words })
    }

    /// Code id and line of each word, innermost first.
    pub fn words(&self) -> impl DoubleEndedIterator<Item = (u32, u32)> + 'a {
        self.words.iter().map(|word| unpack_pair(*word))
    }
}

/// A record under construction, on the stack: no allocation.
pub struct Builder {
    words: [u64; MAX_WORDS],
    len: usize,
}

impl Builder {
    /// A stack of the thread `tid`; `file` and `offset` are the place of its instruction pointer.
    pub fn new(tid: u32, file: u32, offset: u64) -> Builder {
        let mut words = [0; MAX_WORDS];
        words[..FIXED].copy_from_slice(&[u64::from(file), 0, u64::from(tid), offset]);
        Builder { words, len: FIXED }
    }

    /// Appends the next outer word; false: there is no room.
    pub fn push(&mut self, code: u32, line: u32) -> bool {
        let Some(slot) = self.words.get_mut(self.len) else { return false };
        *slot = pack_pair(code, line);
        self.len += 1;
        true
    }

    /// The record, of the sample at `t_ns`.
    pub fn finish(&mut self, t_ns: u64) -> &[u64] {
        self.finish_as(0, t_ns)
    }

    /// The record of the wakeup at `t_ns`.
    pub fn finish_of_waking(&mut self, t_ns: u64) -> &[u64] {
        self.finish_as(OF_WAKING, t_ns)
    }

    fn finish_as(&mut self, flags: u16, t_ns: u64) -> &[u64] {
        let file = self.words[0] as u32;
        self.words[0] = header(Kind::NativeStack, self.len, flags, file);
        self.words[1] = t_ns;
        &self.words[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{decode, Record};

    #[test]
    fn a_native_stack_survives_encoding_and_is_bounded() {
        let mut made = Builder::new(2, 3, 0x1234_5678_9abc);
        for i in 0..MOST as u32 {
            assert!(made.push(i, i << 12 | 7));
        }
        assert!(!made.push(1, 1));
        let words = made.finish(1);
        let Some((MAX_WORDS, Record::NativeStack(stack))) = decode(words) else {
            panic!("not a stack: {words:?}");
        };
        assert_eq!((stack.t_ns, stack.tid, stack.file, stack.of_waking), (1, 2, 3, false));
        assert_eq!(stack.offset, 0x1234_5678_9abc);
        assert!(stack.words().eq((0..MOST as u32).map(|i| (i, i << 12 | 7))));
        let waking = Builder::new(2, 3, 4).finish_of_waking(9).to_vec();
        let is_of_waking = |record| matches!(record, Record::NativeStack(s) if s.of_waking);
        assert!(decode(&waking).is_some_and(|(_, record)| is_of_waking(record)));
        assert_eq!(decode(&[header(Kind::NativeStack, 3, 0, 0), 1, 2]), None);
    }
}
