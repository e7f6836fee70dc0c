//! From a thread state to the chain of its frames, as raw words: no names, no lines yet.
//!
//! How it works, 3.11 and later: frames lie in the thread's data-stack chunks, linked downwards.
//!
//! ```text
//!   thread state: innermost frame, newest chunk, first free word
//!   chunk: | previous | size | top | frame | frame | frame | ... free |
//!                                     code, previous, instruction, owner, locals, value stack
//! ```
//!
//! A chunk is copied with one guarded read, the newest no further than a little above its top, when
//! the walk first enters it; the walk then follows `previous` through the copy. A frame outside the
//! chunks (a generator or coroutine keeps its own; an entry trampoline lies on the C stack) costs
//! one read. Up to 3.10 every frame is an object of its own, see `recall`. Freed frame objects are
//! chained through the same pointer in CPython's free list, which looks like a quiet stack: their
//! reference count of zero gives them away.
//!
//! What it promises: never a fault, never an endless chain, at most `MAX_COPIED` bytes held. The
//! copy is not atomic; `settle` tells how much of it two walks agree on.
//! What is missing on purpose: frames of suspended generators, which are on no thread's stack: see
//! `awaits`.

use super::layout::{object, Layout, ABSENT};
use super::recall::Recall;
use super::words::{int_at, word_at};
use super::Torn;
use sys::mem::Reader;

/// The owner byte of an entry trampoline on the C stack: not a frame of the program (3.12+).
const OWNED_BY_C_STACK: u8 = 3;
/// The owner byte of a generator's frame: complete even before its first instruction.
pub(super) const OWNED_BY_GENERATOR: u8 = 1;

/// Chunks come from the arena allocator in this size, or larger for one huge frame.
const USUAL_CHUNK: usize = 16 * 1024;
const CHUNK_HEAD: usize = 24;
/// The newest chunk is copied this far beyond its top.
const MARGIN: usize = 2048;
/// The most chunk bytes copied for one stack; a deeper stack is cut and says so.
const MAX_COPIED: usize = 4 << 20;
/// Long enough for the thread state's fields we read, in every version.
const THREAD_HEAD: usize = 320;

/// One frame as found: addresses that nobody has vouched for yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawFrame {
    pub address: usize,
    pub code: usize,
    /// Byte offset from the code's first instruction; negative in front of it.
    pub offset: i64,
    pub owner: u8,
}

struct Chunk {
    base: usize,
    size: usize,
    previous: usize,
    copied: std::ops::Range<usize>,
}

/// Walks stacks and keeps the copies of the last one, to be looked into again.
pub(super) struct Walker {
    /// Never shrinks, so that it is cleared once and not at every walk; `used` says what counts.
    bytes: Vec<u8>,
    used: usize,
    recall: Recall,
    chunks: Vec<Chunk>,
    pub frames: Vec<RawFrame>,
    pub truncated: bool,
}

impl Walker {
    pub fn new() -> Walker {
        Walker {
            bytes: Vec::new(),
            used: 0,
            recall: Recall::default(),
            chunks: Vec::new(),
            frames: Vec::new(),
            truncated: false,
        }
    }

    /// Walks the stack of the thread state at `state`, innermost frame first, into `self.frames`.
    pub fn walk(
        &mut self,
        mem: &Reader,
        layout: &Layout,
        state: usize,
        max_frames: usize,
    ) -> Result<(), Torn> {
        self.used = 0;
        self.chunks.clear();
        self.frames.clear();
        self.truncated = false;
        let mut head = [0u8; THREAD_HEAD];
        let wanted =
            if layout.has_chunks() { layout.thread_chunk_top } else { layout.thread_frame };
        let head = head.get_mut(..wanted + 8).ok_or(Torn("thread state layout"))?;
        mem.read(state, head).map_err(|_| Torn("thread state gone"))?;
        let mut next = innermost(mem, layout, head)?;
        if layout.has_chunks() && next != 0 {
            let chunk = word_at(head, layout.thread_chunk);
            let top = word_at(head, layout.thread_chunk_top);
            self.copy_newest(mem, chunk, top)?;
        } else if next != 0 {
            self.recall.read(mem, state);
        }
        while next != 0 {
            if self.frames.len() >= max_frames || self.used > MAX_COPIED {
                self.truncated = true;
                break;
            }
            let (frame, previous) = self.frame_at(mem, layout, next)?;
            if previous == next {
                return Err(Torn("frame is its own caller"));
            }
            if frame.owner != OWNED_BY_C_STACK {
                self.frames.push(frame);
            }
            next = previous;
        }
        if !layout.has_chunks() {
            let length = frame_head(layout);
            self.recall.remember(state, &self.frames, length, self.truncated);
        }
        Ok(())
    }

    /// Takes frames found elsewhere in place of a walk's.
    pub fn take(&mut self, frames: &[RawFrame]) {
        self.used = 0;
        self.chunks.clear();
        self.frames.clear();
        self.frames.extend_from_slice(frames);
        self.truncated = false;
    }

    /// The words at `address`, from the copies when they hold them, else by a guarded read.
    pub fn words(&self, mem: &Reader, address: usize, count: usize) -> Option<Vec<usize>> {
        let length = count * 8;
        let held = self.chunks.iter().find_map(|chunk| {
            let start = address.checked_sub(chunk.base)?;
            self.bytes[chunk.copied.clone()].get(start..start.checked_add(length)?)
        });
        let mut read = Vec::new();
        let bytes = match held {
            Some(bytes) => bytes,
            None => {
                read.resize(length, 0);
                mem.read(address, &mut read).ok()?;
                &read
            }
        };
        Some((0..count).map(|index| word_at(bytes, index * 8)).collect())
    }

    fn frame_at(
        &mut self,
        mem: &Reader,
        layout: &Layout,
        address: usize,
    ) -> Result<(RawFrame, usize), Torn> {
        if address % 8 != 0 {
            return Err(Torn("frame not aligned"));
        }
        let length = frame_head(layout);
        let mut outside = [0u8; 128];
        let held = if layout.has_chunks() {
            let range = self.find(mem, address, length)?;
            range.map(|range| &self.bytes[range])
        } else {
            self.recall.find(address, length)
        };
        let head = match held {
            Some(head) => head,
            None => {
                let piece = outside.get_mut(..length).ok_or(Torn("frame layout"))?;
                mem.read(address, piece).map_err(|_| Torn("frame gone"))?;
                &*piece
            }
        };
        if !layout.has_chunks() && word_at(head, object::REFERENCES) == 0 {
            return Err(Torn("frame freed"));
        }
        Ok((parse_frame(layout, address, head), word_at(head, layout.frame_previous)))
    }

    /// Where in the copies the frame lies, copying the next older chunk if it must be there.
    fn find(
        &mut self,
        mem: &Reader,
        address: usize,
        length: usize,
    ) -> Result<Option<std::ops::Range<usize>>, Torn> {
        let Some(chunk) = self.chunks.last() else {
            return Ok(None);
        };
        let within = |chunk: &Chunk| address.wrapping_sub(chunk.base) < chunk.size;
        let place = |chunk: &Chunk| {
            let start = chunk.copied.start + (address - chunk.base);
            if start + length > chunk.copied.end {
                return Err(Torn("frame above its chunk's top"));
            }
            Ok(Some(start..start + length))
        };
        if within(chunk) {
            return place(chunk);
        }
        let older = chunk.previous;
        if older == 0 || !self.older_chunk_holds(mem, older, address) {
            // Chunks that were left behind hold no caller; a generator's frame is in none.
            return Ok(None);
        }
        let size = self.copy_older(mem, older)?;
        match self.chunks.last() {
            Some(chunk) if address.wrapping_sub(older) < size => place(chunk),
            _ => Ok(None),
        }
    }

    fn older_chunk_holds(&self, mem: &Reader, base: usize, address: usize) -> bool {
        let distance = address.wrapping_sub(base);
        distance < USUAL_CHUNK || mem.word(base.wrapping_add(8)).is_ok_and(|size| distance < size)
    }

    fn copy_newest(&mut self, mem: &Reader, base: usize, top: usize) -> Result<(), Torn> {
        let used = top.wrapping_sub(base);
        if !(CHUNK_HEAD..=MAX_COPIED).contains(&used) {
            return Err(Torn("chunk's top outside the chunk"));
        }
        // The top was read before the innermost frame: leave room for what was called in between.
        // A chunk is always whole multiples of the usual size.
        let used = (used + MARGIN).min(used.next_multiple_of(USUAL_CHUNK));
        self.copy(mem, base, used)?;
        self.admit(base, used)
    }

    /// An older chunk is nearly full, so the usual size is read at once and the rest, if it is a
    /// larger one, behind it. Returns the chunk's size.
    fn copy_older(&mut self, mem: &Reader, base: usize) -> Result<usize, Torn> {
        let start = self.copy(mem, base, USUAL_CHUNK)?;
        let top = word_at(&self.bytes[start..], 16);
        let used = top.wrapping_mul(8).wrapping_add(CHUNK_HEAD);
        if used > MAX_COPIED || top > MAX_COPIED {
            return Err(Torn("older chunk's top outside the chunk"));
        }
        if used > USUAL_CHUNK {
            self.copy(mem, base + USUAL_CHUNK, used - USUAL_CHUNK)?;
        } else {
            self.used = start + used;
        }
        self.admit(base, used)?;
        Ok(self.chunks.last().map_or(0, |chunk| chunk.size))
    }

    fn copy(&mut self, mem: &Reader, address: usize, length: usize) -> Result<usize, Torn> {
        let (start, end) = (self.used, self.used + length);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let piece = &mut self.bytes[start..end];
        mem.read(address, piece).map_err(|_| Torn("chunk gone"))?;
        self.used = end;
        Ok(start)
    }

    /// Takes the last `used` bytes copied as the chunk at `base`, if its head makes sense.
    fn admit(&mut self, base: usize, used: usize) -> Result<(), Torn> {
        let copied = self.used - used..self.used;
        let head = &self.bytes[copied.clone()];
        let (previous, size) = (word_at(head, 0), word_at(head, 8));
        let seen = self.chunks.iter().any(|chunk| chunk.base == previous);
        if size < used || size > MAX_COPIED || previous == base || seen {
            return Err(Torn("chunk head makes no sense"));
        }
        self.chunks.push(Chunk { base, size, previous, copied });
        Ok(())
    }
}

/// The innermost frame now, by a fresh read: has the thread moved since the walk?
pub(super) fn innermost_now(mem: &Reader, layout: &Layout, state: usize) -> Option<usize> {
    let first = mem.word(state.wrapping_add(layout.thread_frame)).ok()?;
    if layout.cframe_frame == ABSENT || first == 0 {
        return Some(first);
    }
    mem.word(first.wrapping_add(layout.cframe_frame)).ok()
}

fn innermost(mem: &Reader, layout: &Layout, head: &[u8]) -> Result<usize, Torn> {
    let first = word_at(head, layout.thread_frame);
    if layout.cframe_frame == ABSENT || first == 0 {
        return Ok(first);
    }
    let address = first.wrapping_add(layout.cframe_frame);
    mem.word(address).map_err(|_| Torn("C frame gone"))
}

fn frame_head(layout: &Layout) -> usize {
    let last = layout.frame_instruction.max(layout.frame_previous).max(layout.frame_code);
    last + 16
}

pub(super) fn parse_frame(layout: &Layout, address: usize, head: &[u8]) -> RawFrame {
    let code = word_at(head, layout.frame_code);
    if layout.has_chunks() {
        let first = code.wrapping_add(layout.code_instructions);
        let instruction = word_at(head, layout.frame_instruction);
        let offset = instruction.wrapping_sub(first) as i64;
        let owner = head.get(layout.frame_owner).copied().unwrap_or(0);
        return RawFrame { address, code, offset, owner };
    }
    let index = i64::from(int_at(head, layout.frame_instruction));
    RawFrame { address, code, offset: index * layout.instruction_unit as i64, owner: 0 }
}

/// How many of the innermost frames of `second` are not confirmed by `first`, an earlier walk of
/// the same stack. Zero means that at one instant between the two walks this was the stack.
/// The innermost frame may have moved on within its code; its callers may not.
pub(super) fn settle(first: &[RawFrame], second: &[RawFrame]) -> usize {
    let (Some(deep_first), Some(deep_second)) = (first.last(), second.last()) else {
        return if first.is_empty() && second.is_empty() { 0 } else { second.len() };
    };
    // Two truncated walks may end at different frames: start where both have one.
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

/// True when the walk ended in a generator's frame: it was resumed by someone, who is missing
/// because it yielded meanwhile.
pub(super) fn lacks_root(frames: &[RawFrame], truncated: bool) -> bool {
    let ends_in = frames.last().map(|frame| frame.owner);
    !truncated && ends_in == Some(OWNED_BY_GENERATOR)
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
