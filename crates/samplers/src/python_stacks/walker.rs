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
//! one read. Up to 3.10 every frame is an object of its own and costs a read. A stack that was
//! walked before is copied with one call for all of it, and compared: see `kept`. Freed frame
//! objects are chained through the same pointer in CPython's free list, which looks like a stack at
//! rest: their reference count of zero shows that they are freed. From 3.15 on a stack ends in a
//! sentinel inside the thread state, a greenlet's in the trampoline that it began with: a chain
//! that ends in a frame of the program was read while it changed, unless greenlet cut it there (see
//! `cut_stacks`).
//!
//! What it promises: never a fault, never an endless chain, at most `MAX_COPIED` bytes held. The
//! copy is not atomic; `frame::settle` computes how much of it two walks agree on. What is missing
//! on purpose: frames of suspended generators, which are on no thread's stack: see `awaits`.

use super::cut_stacks::is_cut_by_greenlet;
use super::frame::{Chunk, Link, RawFrame, CHUNK_HEAD, GENERATORS_OBJECT, OWNED_BY_GENERATOR};
use super::kept::{self, Kept, KeptStacks, Shown};
use super::layout::{object, Layout, ABSENT};
use super::types::Torn;
use super::words::word_at;
use std::io;
use sys::mem::{Buffer, Piece, Reader};

/// Chunks come from the arena allocator in this size, or larger for one huge frame.
const USUAL_CHUNK: usize = 16 * 1024;
/// The newest chunk is copied this far beyond its top.
const MARGIN: usize = 2048;
/// The most chunk bytes copied for one stack; a deeper stack is cut and marked as cut.
const MAX_COPIED: usize = 4 << 20;
/// What the buffer has room for: all that was copied before the limit was seen, and one chunk more.
const ROOM: usize = 2 * MAX_COPIED + (64 << 10);
/// The longest chain followed, entry trampolines included.
const MAX_LINKS: usize = 64 * 1024;
/// Longer copies are fast enough by themselves.
const SHORT: usize = 256;
/// Long enough for the thread state's fields we read, in every version.
const THREAD_HEAD: usize = 320;

/// Walks stacks and keeps the copies of the last one for further reads.
pub(super) struct Walker {
    bytes: Buffer,
    used: usize,
    /// The `_PyCFrame` that pointed to the innermost frame, 0 where there is none.
    c_frame: usize,
    /// The sentinel of the thread's stack, 0 where there is none.
    sentinel: usize,
    chunks: Vec<Chunk>,
    links: Vec<Link>,
    kept: KeptStacks,
    /// The last walk found the kept stack unchanged; `frames` is then empty until `spread`.
    same: bool,
    /// How many of the outermost links are the kept stack's.
    tail: usize,
    pub frames: Vec<RawFrame>,
    pub truncated: bool,
}

impl Walker {
    pub fn new() -> io::Result<Walker> {
        Ok(Walker {
            bytes: Buffer::new(ROOM)?,
            used: 0,
            c_frame: 0,
            sentinel: 0,
            chunks: Vec::new(),
            links: Vec::new(),
            kept: KeptStacks::default(),
            same: false,
            tail: 0,
            frames: Vec::new(),
            truncated: false,
        })
    }

    fn begin(&mut self) {
        self.used = 0;
        self.c_frame = 0;
        self.sentinel = 0;
        self.chunks.clear();
        self.links.clear();
        self.frames.clear();
        self.truncated = false;
        self.same = false;
        self.tail = 0;
    }

    /// Walks the stack of the thread state at `state`, innermost frame first, into `self.frames`.
    pub fn walk(
        &mut self,
        mem: &Reader,
        layout: &Layout,
        state: usize,
        max_frames: usize,
    ) -> Result<(), Torn> {
        self.begin();
        let mut head = [0u8; THREAD_HEAD];
        let head = head.get_mut(..thread_head(layout)).ok_or(Torn("thread state layout"))?;
        mem.read(state, head).map_err(|_| Torn("thread state gone"))?;
        self.sentinel = word_at(head, layout.thread_base_frame);
        let mut next = word_at(head, layout.thread_frame);
        if layout.cframe_frame != ABSENT && next != 0 {
            self.c_frame = next;
            let address = next.wrapping_add(layout.cframe_frame);
            next = mem.word(address).map_err(|_| Torn("C frame gone"))?;
        }
        // A thread that runs no Python code may have no chunk, as a greenlet before its first call.
        if layout.has_chunks() && next != 0 && next != self.sentinel {
            let chunk = word_at(head, layout.thread_chunk);
            let top = word_at(head, layout.thread_chunk_top);
            self.copy_newest(mem, chunk, top)?;
        }
        self.follow(mem, layout, next, max_frames, None)
    }

    /// The same as `walk`, in one call of the kernel if the stack was walked before and is still in
    /// the same place: its memory is copied again and compared, and only what differs is parsed.
    pub fn again(
        &mut self,
        mem: &Reader,
        layout: &Layout,
        state: usize,
        max_frames: usize,
    ) -> Result<(), Torn> {
        let Some(kept) = self.kept.take(state) else {
            return self.walk(mem, layout, state, max_frames);
        };
        match self.fetch(mem, layout, &kept, max_frames) {
            None => self.walk(mem, layout, state, max_frames),
            Some(_) if self.same => Ok(()),
            Some(next) => self.follow(mem, layout, next, max_frames, Some(&kept)),
        }
    }

    /// Copies the memory that the kept stack was made from. Returns the innermost frame if the copy
    /// has everything that a walk starts with; `self.same` says that the rest is unchanged, too.
    fn fetch(
        &mut self,
        mem: &Reader,
        layout: &Layout,
        kept: &Kept,
        max_frames: usize,
    ) -> Option<usize> {
        self.begin();
        let bytes = self.bytes.get_mut(..kept.length())?;
        if !layout.has_chunks() {
            sys::mem::prefetch(kept.pieces(), SHORT);
        }
        if kept.limit() != max_frames || mem.read_pieces(kept.pieces(), bytes) < bytes.len() {
            return None;
        }
        let next = kept.innermost(layout, &self.bytes)?;
        self.used = kept.length();
        self.c_frame = kept.c_frame();
        self.sentinel = word_at(&self.bytes, layout.thread_base_frame);
        let (count, after) = kept.compare(layout, &self.bytes, 0, next);
        self.same = kept.is_whole(count, after);
        if self.same {
            self.truncated = after != 0;
            self.tail = count;
        } else {
            self.chunks.extend_from_slice(kept.chunks());
        }
        Some(next)
    }

    fn follow(
        &mut self,
        mem: &Reader,
        layout: &Layout,
        mut next: usize,
        max_frames: usize,
        kept: Option<&Kept>,
    ) -> Result<(), Torn> {
        let mut expected = 0;
        while next != 0 {
            if self.frames.len() >= max_frames || self.used > MAX_COPIED {
                self.truncated = true;
                break;
            }
            if let Some((kept, at)) = kept.and_then(|kept| Some((kept, kept.find(next, expected)?)))
            {
                let (count, after) = kept.compare(layout, &self.bytes, at, next);
                let fits = self.frames.len() + count <= max_frames;
                if count > 0 && fits {
                    for link in kept.links(at, count) {
                        self.links.push(link);
                        self.frames.extend(link.frame(layout));
                    }
                    if after == 0 && kept.is_whole(at + count, after) {
                        self.tail = count;
                    }
                    (expected, next) = (at + count, after);
                    continue;
                }
                expected = at + 1;
            }
            let (link, previous) = self.frame_at(mem, layout, next)?;
            if previous == next {
                return Err(Torn("frame is its own caller"));
            }
            self.links.push(link);
            self.frames.extend(link.frame(layout));
            next = previous;
            if self.links.len() > MAX_LINKS {
                return Err(Torn("chain without an end"));
            }
        }
        let end = self.links.last().filter(|link| link.is_frame() && self.sentinel != 0);
        match end {
            Some(end) if !self.truncated && !self.is_whole(mem, layout, end) => {
                Err(Torn("stack without its end"))
            }
            _ => Ok(()),
        }
    }

    /// Whether nothing is missing outside of `outermost`, a frame of the program without a caller.
    fn is_whole(&self, mem: &Reader, layout: &Layout, outermost: &Link) -> bool {
        let field = outermost.address.wrapping_add(layout.frame_object);
        let object = self.words(mem, field, 1).and_then(|words| words.first().copied());
        object.is_some_and(|object| is_cut_by_greenlet(mem, layout, outermost, object))
    }

    /// The kept stack, when the last walk found it unchanged: then `frames` is empty until
    /// `spread`.
    pub fn same(&self, state: usize) -> Option<&Kept> {
        self.kept.get(state).filter(|_| self.same)
    }

    /// The kept stack and how many of its outermost links the last walk ended in, if in any.
    pub fn tail(&self, state: usize) -> Option<(&Kept, usize)> {
        self.kept.get(state).filter(|_| self.tail > 0).map(|kept| (kept, self.tail))
    }

    /// The generators' frames of the last walk, innermost first; and where the innermost frame of
    /// all is.
    pub fn generators(&self, state: usize, out: &mut Vec<RawFrame>) -> usize {
        if let Some(kept) = self.same(state) {
            out.extend_from_slice(kept.generators());
        } else {
            out.extend(self.frames.iter().filter(|frame| frame.is_generators()));
        }
        self.leaf(state)
    }

    /// Where the innermost frame of the last walk is.
    pub fn leaf(&self, state: usize) -> usize {
        match self.same(state) {
            Some(kept) => kept.leaf(),
            None => self.frames.first().map_or(0, |frame| frame.address),
        }
    }

    /// Makes `frames` independent of the kept stack: it contains all frames afterwards.
    pub fn stand_alone(&mut self, layout: &Layout, state: usize) {
        if self.same {
            let mut frames = std::mem::take(&mut self.frames);
            self.spread(layout, state, &mut frames);
            self.frames = frames;
        }
        self.same = false;
        self.tail = 0;
    }

    /// Writes the frames of the kept stack into `out`.
    pub fn spread(&self, layout: &Layout, state: usize, out: &mut Vec<RawFrame>) {
        out.clear();
        out.extend(self.kept.get(state).into_iter().flat_map(|kept| kept.frames(layout)));
    }

    /// True when the walk ended in a generator's frame: its caller is missing because the generator
    /// yielded meanwhile.
    pub fn lacks_root(&self, state: usize) -> bool {
        let root = match self.same(state) {
            Some(kept) => kept.root_owner(),
            None => self.frames.last().map(|frame| frame.owner),
        };
        !self.truncated && matches!(root, Some(OWNED_BY_GENERATOR | GENERATORS_OBJECT))
    }

    /// The outermost frame of the last walk, and its code.
    pub fn root(&self, layout: &Layout, state: usize) -> Option<(usize, usize)> {
        let root = match self.same(state) {
            Some(kept) => kept.frames(layout).last(),
            None => self.frames.last().copied(),
        };
        root.map(|frame| (frame.address, frame.code))
    }

    pub fn is_same(&self) -> bool {
        self.same
    }

    /// The GIL's state behind the last walk, if that found the stack unchanged.
    pub fn gil_behind(&self, state: usize) -> Option<&[u8]> {
        // With another order of the loads this would be wrong; x86-64 keeps the order.
        let kept = self.same(state).filter(|_| cfg!(target_arch = "x86_64"))?;
        self.bytes.get(kept.gil())
    }

    /// Keeps the stack just walked for `again`; false when there is no room for it.
    pub fn keep(
        &mut self,
        layout: &Layout,
        (state, gil): (usize, Piece),
        limit: usize,
        shown: Shown,
    ) -> bool {
        let outside = frame_head(layout);
        let head = Piece { address: state, length: thread_head(layout) };
        let (c_frame, truncated) = (self.c_frame, self.truncated);
        let start = kept::Start { limit, head, c_frame, truncated, gil };
        let kept = Kept::new(layout, start, &self.chunks, &self.links, outside, shown);
        self.kept.insert(state, kept.filter(|kept| kept.length() + THREAD_HEAD <= ROOM))
    }

    pub fn begin_pass(&mut self) {
        self.kept.begin_pass();
    }

    /// Uses frames found elsewhere in place of a walk's.
    pub fn take(&mut self, frames: &[RawFrame]) {
        self.begin();
        self.frames.extend_from_slice(frames);
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
    ) -> Result<(Link, usize), Torn> {
        if address % 8 != 0 {
            return Err(Torn("frame not aligned"));
        }
        let length = frame_head(layout);
        let mut outside = [0u8; 128];
        let range = match layout.has_chunks() {
            true => self.find(mem, address, length)?,
            false => None,
        };
        let head = match range {
            Some(range) => &self.bytes[range],
            None => {
                let piece = outside.get_mut(..length).ok_or(Torn("frame layout"))?;
                mem.read(address, piece).map_err(|_| Torn("frame gone"))?;
                &*piece
            }
        };
        if !layout.has_chunks() && word_at(head, object::REFERENCES) == 0 {
            return Err(Torn("frame freed"));
        }
        Ok((Link::parse(layout, address, head), word_at(head, layout.frame_previous)))
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
        if let Some(chunk) = self.chunks.iter().rev().find(|chunk| within(chunk)) {
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
        let piece = self.bytes.get_mut(start..end).ok_or(Torn("stack too large"))?;
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

fn thread_head(layout: &Layout) -> usize {
    let last = if layout.has_chunks() { layout.thread_chunk_top } else { layout.thread_frame };
    last + 8
}

fn frame_head(layout: &Layout) -> usize {
    let last = layout.frame_instruction.max(layout.frame_previous).max(layout.frame_code);
    let owner = if layout.has_chunks() { layout.frame_owner + 1 } else { 0 };
    (last + 16).max(owner.next_multiple_of(8))
}

#[cfg(test)]
#[path = "walker_tests.rs"]
mod tests;
