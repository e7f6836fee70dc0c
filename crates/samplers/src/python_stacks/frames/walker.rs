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
//! A chunk is copied when the walk first enters it (`chunk_copies`); the walk then follows
//! `previous` through the copy. A frame outside the chunks (a generator or coroutine keeps its own;
//! an entry trampoline lies on the C stack) costs one read. Up to 3.10 every frame is an object of
//! its own and costs a read. A stack that was walked before is copied with one call for all of it,
//! and compared: see `kept`. Freed frame objects are chained through the same pointer in CPython's
//! free list, which looks like a stack at rest: their reference count of zero shows that they are
//! freed. From 3.15 on a stack ends in a sentinel inside the thread state, a greenlet's in the
//! trampoline that it began with: a chain that ends in a frame of the program was read while it
//! changed, unless greenlet cut it there (see `cut_stacks`).
//!
//! What it promises: never a fault, never an endless chain, bounded copies. They are not atomic;
//! `frame::settle` computes how much of them two walks agree on. What is missing on purpose: frames
//! of suspended generators, which are on no thread's stack: see `awaits`.

use crate::python_stacks::frames::chunk_copies::{Copies, ROOM};
use crate::python_stacks::frames::cut_stacks::is_cut_by_greenlet;
use crate::python_stacks::frames::frame::{Link, RawFrame, GENERATORS_OBJECT, OWNED_BY_GENERATOR};
use crate::python_stacks::frames::kept::{self, Kept, KeptStacks, Shown};
use crate::python_stacks::layout::words::word_at;
use crate::python_stacks::layout::{object, Layout, ABSENT};
use crate::python_stacks::types::Torn;
use std::io;
use sys::mem::{Extent, Reader};

/// The longest chain followed, entry trampolines included.
const MAX_LINKS: usize = 64 * 1024;
/// Longer copies are fast enough by themselves.
const SHORT: usize = 256;
/// Long enough for a frame's fields, in every version.
const FRAME_HEAD: usize = 128;
/// Long enough for the thread state's fields we read, in every version.
const THREAD_HEAD: usize = 320;

/// Walks stacks and keeps the copies of the last one for further reads.
pub(crate) struct Walker {
    copies: Copies,
    /// The `_PyCFrame` that pointed to the innermost frame, 0 where there is none.
    c_frame: usize,
    /// The sentinel of the thread's stack, 0 where there is none.
    sentinel: usize,
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
            copies: Copies::new()?,
            c_frame: 0,
            sentinel: 0,
            links: Vec::new(),
            kept: KeptStacks::default(),
            same: false,
            tail: 0,
            frames: Vec::new(),
            truncated: false,
        })
    }

    fn begin(&mut self) {
        self.copies.clear();
        self.c_frame = 0;
        self.sentinel = 0;
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
            self.copies.take_newest(mem, chunk, top)?;
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
        let bytes = self.copies.room_for(kept.length())?;
        if !layout.has_chunks() {
            sys::mem::prefetch(kept.extents(), SHORT);
        }
        if kept.limit() != max_frames || mem.read_extents(kept.extents(), bytes) < bytes.len() {
            return None;
        }
        let next = kept.innermost(layout, self.copies.bytes())?;
        self.c_frame = kept.c_frame();
        self.sentinel = word_at(self.copies.bytes(), layout.thread_base_frame);
        let (count, after) = kept.compare(layout, self.copies.bytes(), 0, next);
        self.same = kept.is_whole(count, after);
        if self.same {
            self.truncated = after != 0;
            self.tail = count;
        } else {
            self.copies.are_of(kept.chunks());
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
            if self.frames.len() >= max_frames || self.copies.are_too_many() {
                self.truncated = true;
                break;
            }
            if let Some((kept, at)) = kept.and_then(|kept| Some((kept, kept.find(next, expected)?)))
            {
                let (count, after) = kept.compare(layout, self.copies.bytes(), at, next);
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
        let object = self.copies.words(mem, field, 1).and_then(|words| words.first().copied());
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
    pub fn standalone(&mut self, layout: &Layout, state: usize) {
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
        self.copies.bytes().get(kept.gil())
    }

    /// Keeps the stack just walked for `again`; false when there is no room for it.
    pub fn keep(
        &mut self,
        layout: &Layout,
        (state, gil): (usize, Extent),
        limit: usize,
        shown: Shown,
    ) -> bool {
        let outside = frame_head(layout);
        let head = Extent { address: state, length: thread_head(layout) };
        let (c_frame, truncated) = (self.c_frame, self.truncated);
        let start = kept::Start { limit, head, c_frame, truncated, gil };
        let kept = Kept::new(layout, start, self.copies.chunks(), &self.links, outside, shown);
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
        self.copies.words(mem, address, count)
    }

    fn frame_at(
        &mut self,
        mem: &Reader,
        layout: &Layout,
        address: usize,
    ) -> Result<(Link, usize), Torn> {
        if layout.has_chunks() && address % 8 == 0 {
            if let Some(range) = self.copies.find(mem, address, frame_head(layout))? {
                let head = &self.copies.bytes()[range];
                return Ok((
                    Link::parse(layout, address, head),
                    word_at(head, layout.frame_previous),
                ));
            }
        }
        frame_outside(mem, layout, address)
    }
}

/// A frame that lies in no chunk, and its caller: a generator's, an entry trampoline, or, up to
/// 3.10, any. One guarded read.
pub(crate) fn frame_outside(
    mem: &Reader,
    layout: &Layout,
    address: usize,
) -> Result<(Link, usize), Torn> {
    if address % 8 != 0 {
        return Err(Torn("frame not aligned"));
    }
    let mut bytes = [0u8; FRAME_HEAD];
    let head = bytes.get_mut(..frame_head(layout)).ok_or(Torn("frame layout"))?;
    mem.read(address, head).map_err(|_| Torn("frame gone"))?;
    if !layout.has_chunks() && word_at(head, object::REFERENCES) == 0 {
        return Err(Torn("frame freed"));
    }
    let previous = word_at(head, layout.frame_previous);
    match previous == address {
        true => Err(Torn("frame is its own caller")),
        false => Ok((Link::parse(layout, address, head), previous)),
    }
}

/// The innermost frame now, by a fresh read: has the thread moved since the walk?
pub(crate) fn innermost_now(mem: &Reader, layout: &Layout, state: usize) -> Option<usize> {
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
