//! One frame, one step of a chain, one chunk of frames, as raw words: no names, no lines yet.
//!
//! How it works: the words of a frame's head are taken by the layout's offsets; the owner byte
//! separates frames of the program from trampolines, sentinels and generators' frames. `settle`
//! compares two walks of one stack.
//!
//! What it promises: pure functions of the bytes given; no address is verified. What is missing on
//! purpose: reading (`walker`).

use crate::python_stacks::layout::words::{int_at, word_at};
use crate::python_stacks::layout::Layout;

/// The owner byte of a function's frame in the thread's chunks.
pub(crate) const OWNED_BY_THREAD: u8 = 0;
/// The owner byte of an entry trampoline on the C stack, which is not a frame of the program
/// (3.12+), and of the sentinel that ends a stack (3.15+). 3.14 has one more for the C stack.
pub(crate) const OWNED_BY_INTERPRETER: u8 = 3;
const OWNED_BY_C_STACK: u8 = 4;
/// The owner byte of a generator's frame: complete even before its first instruction.
pub(crate) const OWNED_BY_GENERATOR: u8 = 1;
/// In place of an owner byte, up to 3.10: the frame object belongs to a generator.
pub(crate) const GENERATORS_OBJECT: u8 = 16;
pub(crate) const CHUNK_HEAD: usize = 24;

/// One frame as found: its addresses are not verified yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawFrame {
    pub address: usize,
    pub code: usize,
    /// Byte offset from the code's first instruction; negative in front of it.
    pub offset: i64,
    pub owner: u8,
}

impl RawFrame {
    /// Whether it is a generator's or a coroutine's.
    pub fn is_generators(&self) -> bool {
        matches!(self.owner, OWNED_BY_GENERATOR | GENERATORS_OBJECT)
    }
}

/// One step of a chain as found, entry trampolines included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub address: usize,
    pub code: usize,
    /// The instruction pointer, or `f_lasti` up to 3.10.
    pub instruction: usize,
    pub owner: u8,
}

impl Link {
    pub fn parse(layout: &Layout, address: usize, head: &[u8]) -> Link {
        let code = layout.untagged(word_at(head, layout.frame_code));
        if layout.has_chunks() {
            let owner = head.get(layout.frame_owner).copied().unwrap_or(0);
            let instruction = word_at(head, layout.frame_instruction);
            return Link { address, code, instruction, owner };
        }
        let instruction = int_at(head, layout.frame_instruction) as isize as usize;
        let owner = match word_at(head, layout.frame_generator) {
            0 => 0,
            _ => GENERATORS_OBJECT,
        };
        Link { address, code, instruction, owner }
    }

    /// False for an entry trampoline, and for the sentinel.
    pub fn is_frame(&self) -> bool {
        !matches!(self.owner, OWNED_BY_INTERPRETER | OWNED_BY_C_STACK)
    }

    /// None for an entry trampoline, and for the sentinel.
    pub fn frame(&self, layout: &Layout) -> Option<RawFrame> {
        let Link { address, code, instruction, owner } = *self;
        let offset = if layout.has_chunks() {
            instruction.wrapping_sub(code.wrapping_add(layout.code_instructions)) as i64
        } else {
            instruction as i64 * layout.instruction_unit as i64
        };
        self.is_frame().then_some(RawFrame { address, code, offset, owner })
    }
}

#[derive(Clone)]
pub(crate) struct Chunk {
    pub base: usize,
    pub size: usize,
    pub previous: usize,
    pub copied: std::ops::Range<usize>,
}

pub(crate) fn parse_frame(layout: &Layout, address: usize, head: &[u8]) -> RawFrame {
    let link = Link::parse(layout, address, head);
    let nothing = RawFrame { address, code: link.code, offset: 0, owner: link.owner };
    link.frame(layout).unwrap_or(nothing)
}

/// How many of the innermost frames of `second` are not confirmed by `first`, an earlier walk of
/// the same stack. Zero means that at one instant between the two walks this was the stack.
/// The innermost frame may have moved on within its code; its callers may not.
pub(crate) fn settle(first: &[RawFrame], second: &[RawFrame]) -> usize {
    let (Some(deep_first), Some(deep_second)) = (first.last(), second.last()) else {
        return if first.is_empty() && second.is_empty() { 0 } else { second.len() };
    };
    // Two truncated walks may end at different frames: start at a frame that both have.
    let meet = |frames: &[RawFrame], address| frames.iter().rposition(|f| f.address == address);
    let (mut i, mut j) = match meet(first, deep_second.address) {
        Some(i) => (i + 1, second.len()),
        None => match meet(second, deep_first.address) {
            Some(j) => (first.len(), j + 1),
            None => return second.len(),
        },
    };
    while i > 0 && j > 0 {
        let (a, b) = (&first[i - 1], &second[j - 1]);
        let same_place = a.address == b.address && a.code == b.code;
        let both_leaves = i == 1 && j == 1;
        if !same_place || (a.offset != b.offset && !both_leaves) {
            break;
        }
        (i, j) = (i - 1, j - 1);
    }
    j
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(frames: &[(usize, usize, i64)]) -> Vec<RawFrame> {
        let frame = |&(address, code, offset)| RawFrame { address, code, offset, owner: 0 };
        frames.iter().map(frame).collect()
    }

    #[test]
    fn equal_walks_are_settled_and_a_moving_leaf_does_not_matter() {
        let first = stack(&[(30, 3, 8), (20, 2, 4), (10, 1, 2)]);
        let second = stack(&[(30, 3, 10), (20, 2, 4), (10, 1, 2)]);
        assert_eq!(settle(&first, &second), 0);
        assert_eq!(settle(&[], &[]), 0);
    }

    #[test]
    fn a_replaced_leaf_and_a_moved_caller_are_not() {
        let first = stack(&[(30, 3, 8), (20, 2, 4), (10, 1, 2)]);
        assert_eq!(settle(&first, &stack(&[(30, 9, 8), (20, 2, 4), (10, 1, 2)])), 1);
        assert_eq!(settle(&first, &stack(&[(30, 3, 8), (20, 2, 6), (10, 1, 2)])), 2);
        assert_eq!(settle(&first, &stack(&[(77, 7, 0)])), 1);
    }

    #[test]
    fn truncated_walks_meet_where_both_have_frames() {
        let first = stack(&[(30, 3, 8), (20, 2, 4)]);
        let second = stack(&[(40, 4, 0), (30, 3, 8)]);
        assert_eq!(settle(&first, &second), 1);
    }
}
