//! Kept stacks: the next sample copies a known stack in one call and parses only what is new.
//!
//! How it works: most of a stack is still there at the next sample. For each thread state the
//! memory areas of its last walk are kept, and the content of every frame:
//!
//! ```text
//!   areas:  | thread state | C frame (3.11, 3.12) | chunk | ... | frames outside of chunks | GIL |
//!   links:  (address, code, instruction, owner), where in the copy, which shown frame   a frame
//! ```
//!
//! The next sample copies all areas by one call into one buffer, and follows the chain through the
//! copy by comparing each frame with its kept content. The kept addresses lead, so that nothing
//! waits for a pointer; the pointers must agree. A stack that agrees to its root is the same one,
//! and its rows are shown again. Otherwise frames are parsed until the chain meets a kept one, from
//! there on compared again, and the outer frames that agree to the root keep their rows. The thread
//! state, the heads of chunks and their tops are compared first: if one of them moved, the areas
//! are not the stack's any more and it is walked as if new. Up to 3.10 frames are objects of their
//! own: those that lie close together are one area, and an area costs 10 to 50 ns, where one alone
//! costs 400.
//!
//! What it promises: exactly the frames that a walk would have given. Nothing is trusted because it
//! is known: every frame's words are read again, a code object's identity is verified in every
//! pass, and a row is a function of (code, instruction). At most `MAX_STACKS` stacks and
//! `MAX_BYTES` are kept, 50 to 70 bytes a frame; `Counters::stacks_not_kept` counts stacks without
//! room. Such a stack is walked, which costs more and gives the same. What is missing on purpose:
//! stacks that moved at every try; the previous version is kept.

use crate::python_stacks::codes::word_hasher::WordHasher;
use crate::python_stacks::frames::frame::{Chunk, Link, RawFrame, CHUNK_HEAD};
use crate::python_stacks::layout::words::word_at;
use crate::python_stacks::layout::{object, Layout, ABSENT};
use crate::python_stacks::types::{CodeId, Frame};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use sys::mem::Extent;

const MAX_STACKS: usize = 1024;
const MAX_BYTES: usize = 8 << 20;
/// A stack that was not sampled in this many passes makes room for others.
const STALE_PASSES: u64 = 100;
/// How many kept links are searched for the present frame.
const WINDOW: usize = 64;
/// One area more costs as much as copying this many bytes between two areas.
const CLOSE: usize = 512;
/// No frame's head is longer than this.
const HEAD: usize = 128;

/// The word at `offset`, a multiple of eight, of a frame's head: without a check that costs.
fn word_in(head: &[u8; HEAD], offset: usize) -> usize {
    let offset = offset & (HEAD - 8);
    let mut word = [0u8; 8];
    word.copy_from_slice(&head[offset..offset + 8]);
    usize::from_ne_bytes(word)
}

/// What a walk begins with.
#[derive(Clone, Copy)]
pub(crate) struct Start {
    /// The most frames the walk would have taken.
    pub limit: usize,
    /// The thread state's fields.
    pub head: Extent,
    /// The `_PyCFrame`, or 0.
    pub c_frame: usize,
    /// The chain went on beyond the limit.
    pub truncated: bool,
    /// The GIL's state, copied behind all of the stack.
    pub gil: Extent,
}

/// The rows of a stack.
#[derive(Default)]
pub(crate) struct Shown {
    pub frames: Vec<Frame>,
    /// For each frame walked, the number of rows before it.
    pub at: Vec<u32>,
    /// All code objects of the stack, each once; perhaps some it had before.
    pub codes: Vec<(usize, CodeId)>,
    /// Outer frames are missing from `frames`.
    pub cut: bool,
}

/// One link of a kept stack; two of them fill a cache line.
struct Step {
    address: usize,
    code: usize,
    instruction: usize,
    /// Where in the copy, below `OWNER`, and the owner byte above it.
    place_and_owner: u32,
    shown: u32,
}

const OWNER: u32 = 24;

impl Step {
    /// None: too far behind in the copy for its field.
    fn new(link: Link, place: usize, shown: u32) -> Option<Step> {
        let place = u32::try_from(place).ok().filter(|place| *place < 1 << OWNER)?;
        let Link { address, code, instruction, owner } = link;
        let place_and_owner = place | u32::from(owner) << OWNER;
        Some(Step { address, code, instruction, place_and_owner, shown })
    }

    fn place(&self) -> usize {
        (self.place_and_owner & ((1 << OWNER) - 1)) as usize
    }

    fn link(&self) -> Link {
        let Step { address, code, instruction, .. } = *self;
        Link { address, code, instruction, owner: (self.place_and_owner >> OWNER) as u8 }
    }
}

/// One stack.
pub(crate) struct Kept {
    start: Start,
    extents: Vec<Extent>,
    length: usize,
    chunks: Vec<Chunk>,
    steps: Vec<Step>,
    /// Frames of generators, innermost first.
    generators: Vec<RawFrame>,
    shown: Shown,
}

impl Kept {
    /// `outside`: how much is read of a frame that lies in no chunk. None: too large for its
    /// fields.
    pub fn new(
        layout: &Layout,
        start: Start,
        chunks: &[Chunk],
        links: &[Link],
        outside: usize,
        shown: Shown,
    ) -> Option<Kept> {
        let mut kept = Kept {
            start,
            extents: Vec::with_capacity(2 + chunks.len()),
            length: 0,
            chunks: Vec::with_capacity(chunks.len()),
            steps: Vec::with_capacity(links.len()),
            generators: Vec::new(),
            shown,
        };
        kept.push(start.head);
        if start.c_frame != 0 {
            let address = start.c_frame.wrapping_add(layout.cframe_frame);
            kept.push(Extent { address, length: 8 });
        }
        for chunk in chunks {
            let at = kept.push(Extent { address: chunk.base, length: chunk.copied.len() });
            kept.chunks.push(Chunk { copied: at..kept.length, ..chunk.clone() });
        }
        let mut current = 0;
        let mut in_chunk = |link: &Link| kept.place_in_chunk(link.address, outside, &mut current);
        let mut places: Vec<Option<usize>> = links.iter().map(&mut in_chunk).collect();
        kept.push_outside(links, outside, &mut places);
        kept.push(start.gil);
        let mut walked = 0;
        for (link, place) in links.iter().zip(places) {
            let shown = kept.shown.at.get(walked).copied();
            let shown = shown.unwrap_or(kept.shown.frames.len() as u32);
            walked += usize::from(link.is_frame());
            kept.steps.push(Step::new(*link, place?, shown)?);
        }
        let frames = links.iter().filter_map(|link| link.frame(layout));
        kept.generators = frames.filter(RawFrame::is_generators).collect();
        kept.shown.at = Vec::new();
        kept.extents.shrink_to_fit();
        Some(kept)
    }

    fn push(&mut self, extent: Extent) -> usize {
        let at = self.length;
        self.extents.push(extent);
        self.length += extent.length;
        at
    }

    /// Places the links that have no area yet: one area for all that lie close together, as frame
    /// objects of one call chain often do.
    fn push_outside(&mut self, links: &[Link], length: usize, places: &mut [Option<usize>]) {
        let without = |index: &usize| places[*index].is_none();
        let mut order: Vec<usize> = (0..links.len()).filter(without).collect();
        order.sort_unstable_by_key(|index| links[*index].address);
        for index in order {
            let address = links[index].address;
            let last = self.extents.last_mut();
            let end = |extent: &Extent| extent.address.wrapping_add(extent.length);
            let joined = last.filter(|extent| {
                extent.length >= length && address.wrapping_sub(end(extent)) <= CLOSE
            });
            let place = match joined {
                Some(extent) => {
                    let longer = address.wrapping_sub(end(extent)) + length;
                    extent.length += longer;
                    self.length += longer;
                    self.length - length
                }
                None => self.push(Extent { address, length }),
            };
            places[index] = Some(place);
        }
    }

    fn place_in_chunk(&self, address: usize, length: usize, current: &mut usize) -> Option<usize> {
        let place = |chunk: &Chunk| {
            let inside = address.checked_sub(chunk.base)?;
            let fits = inside.checked_add(length)? <= chunk.copied.len();
            fits.then_some(chunk.copied.start + inside)
        };
        // Chunks and frames come in the same order; the first chunk to look in is the last one
        // used.
        let at = (*current..self.chunks.len()).find(|i| place(&self.chunks[*i]).is_some())?;
        *current = at;
        place(&self.chunks[at])
    }

    pub fn limit(&self) -> usize {
        self.start.limit
    }

    pub fn c_frame(&self) -> usize {
        self.start.c_frame
    }

    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Where in the copy the GIL's state lies.
    pub fn gil(&self) -> std::ops::Range<usize> {
        self.length - self.start.gil.length..self.length
    }

    /// Bytes of all areas.
    pub fn length(&self) -> usize {
        self.length
    }

    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// The rows of the whole stack.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// The `count` outermost links.
    fn outermost(&self, count: usize) -> &[Step] {
        self.steps.get(self.steps.len().saturating_sub(count)..).unwrap_or_default()
    }

    /// How many frames the `count` outermost links are.
    pub fn tail_frames(&self, count: usize) -> usize {
        self.outermost(count).iter().filter(|step| step.link().is_frame()).count()
    }

    /// The rows of the `count` outermost links.
    pub fn tail_shown(&self, count: usize) -> &[Frame] {
        let first = self.outermost(count).first();
        first.and_then(|step| self.shown.frames.get(step.shown as usize..)).unwrap_or_default()
    }

    /// For each frame of the `count` outermost links, the number of their rows before it.
    pub fn tail_shown_at(&self, count: usize) -> impl Iterator<Item = u32> + '_ {
        let steps = self.outermost(count);
        let first = steps.first().map_or(0, |step| step.shown);
        steps.iter().filter(|step| step.link().is_frame()).map(move |step| step.shown - first)
    }

    pub fn frames(&self, layout: &Layout) -> impl Iterator<Item = RawFrame> + '_ {
        let layout = *layout;
        self.steps.iter().filter_map(move |step| step.link().frame(&layout))
    }

    /// Where the innermost frame is.
    pub fn leaf(&self) -> usize {
        let frame = self.steps.iter().find(|step| step.link().is_frame());
        frame.map_or(0, |step| step.address)
    }

    pub fn generators(&self) -> &[RawFrame] {
        &self.generators
    }

    pub fn links(&self, at: usize, count: usize) -> impl Iterator<Item = Link> + '_ {
        self.steps.iter().skip(at).take(count).map(Step::link)
    }

    /// The innermost frame, if the fresh copies still are of this thread's chunks, to their tops.
    pub fn innermost(&self, layout: &Layout, bytes: &[u8]) -> Option<usize> {
        let first = word_at(bytes, layout.thread_frame);
        let innermost = match self.start.c_frame {
            0 if layout.cframe_frame == ABSENT => first,
            c_frame if c_frame == first && c_frame != 0 => word_at(bytes, self.start.head.length),
            _ => return None,
        };
        for (index, chunk) in self.chunks.iter().enumerate() {
            let head = bytes.get(chunk.copied.clone())?;
            let top = match index {
                0 if word_at(bytes, layout.thread_chunk) != chunk.base => return None,
                0 => word_at(bytes, layout.thread_chunk_top).wrapping_sub(chunk.base),
                _ => word_at(head, 16).wrapping_mul(8).wrapping_add(CHUNK_HEAD),
            };
            let same = word_at(head, 0) == chunk.previous && word_at(head, 8) == chunk.size;
            if !same || top > head.len() {
                return None;
            }
        }
        (layout.has_chunks() != self.chunks.is_empty()).then_some(innermost)
    }

    /// How many links from `at` on have in the fresh copies their kept content, if the chain comes
    /// to `next` there; and where it leads behind them.
    pub fn compare(&self, layout: &Layout, bytes: &[u8], at: usize, next: usize) -> (usize, usize) {
        if !layout.has_chunks() {
            return self.compare_by(layout, bytes, at, next, |head, step| {
                let freed = word_at(head, object::REFERENCES) == 0;
                !freed && Link::parse(layout, step.address, head) == step.link()
            });
        }
        let (code, instruction) = (layout.frame_code, layout.frame_instruction);
        let owner = layout.frame_owner % HEAD;
        self.compare_by(layout, bytes, at, next, |head, step| {
            let differs = (layout.untagged(word_in(head, code)) ^ step.code)
                | (word_in(head, instruction) ^ step.instruction)
                | (u32::from(head[owner]) ^ (step.place_and_owner >> OWNER)) as usize;
            differs == 0
        })
    }

    fn compare_by(
        &self,
        layout: &Layout,
        bytes: &[u8],
        at: usize,
        mut next: usize,
        says_the_same: impl Fn(&[u8; HEAD], &Step) -> bool,
    ) -> (usize, usize) {
        let mut count = 0;
        for step in self.steps.get(at..).unwrap_or_default() {
            let head = bytes.get(step.place()..).and_then(|rest| rest.first_chunk::<HEAD>());
            let Some(head) = head.filter(|_| step.address == next) else { break };
            let previous = word_in(head, layout.frame_previous);
            if previous == next || !says_the_same(head, step) {
                break;
            }
            (next, count) = (previous, count + 1);
        }
        (count, next)
    }

    /// Whether a comparison that came as far as `count` links and led on to `after` covered all of
    /// it.
    pub fn is_whole(&self, count: usize, after: usize) -> bool {
        count == self.steps.len() && (after != 0) == self.start.truncated
    }

    /// The link for the frame at `address`, among the next few from `expected` on.
    pub fn find(&self, address: usize, expected: usize) -> Option<usize> {
        let near = self.steps.iter().skip(expected).take(WINDOW);
        near.map(|step| step.address).position(|known| known == address).map(|i| i + expected)
    }

    /// What the oldest link is, by its owner byte.
    pub fn root_owner(&self) -> Option<u8> {
        self.steps.last().map(|step| step.link().owner)
    }

    fn bytes(&self) -> usize {
        size_of::<Kept>()
            + self.extents.capacity() * size_of::<Extent>()
            + self.chunks.capacity() * size_of::<Chunk>()
            + self.steps.capacity() * size_of::<Step>()
            + self.generators.capacity() * size_of::<RawFrame>()
            + self.shown.frames.capacity() * size_of::<Frame>()
            + self.shown.codes.capacity() * size_of::<(usize, CodeId)>()
    }
}

/// All of them, by thread state.
#[derive(Default)]
pub(crate) struct KeptStacks {
    stacks: HashMap<usize, (Arc<Kept>, u64), BuildHasherDefault<WordHasher>>,
    bytes: usize,
    pass: u64,
    swept: u64,
}

impl KeptStacks {
    pub fn begin_pass(&mut self) {
        self.pass += 1;
    }

    /// The stack of a thread state, to be compared.
    pub fn take(&mut self, state: usize) -> Option<Arc<Kept>> {
        let (kept, pass) = self.stacks.get_mut(&state)?;
        *pass = self.pass;
        Some(Arc::clone(kept))
    }

    pub fn get(&self, state: usize) -> Option<&Kept> {
        self.stacks.get(&state).map(|(kept, _)| &**kept)
    }

    /// Keeps a stack in place of the one before; false when there is no room for it.
    pub fn insert(&mut self, state: usize, kept: Option<Kept>) -> bool {
        if let Some((old, _)) = self.stacks.remove(&state) {
            self.bytes -= old.bytes();
        }
        let Some(kept) = kept else { return false };
        let needed = kept.bytes();
        if !self.has_room(needed) {
            self.sweep();
        }
        if !self.has_room(needed) {
            return false;
        }
        self.bytes += needed;
        self.stacks.insert(state, (Arc::new(kept), self.pass));
        true
    }

    fn has_room(&self, needed: usize) -> bool {
        self.stacks.len() < MAX_STACKS && self.bytes + needed <= MAX_BYTES
    }

    /// Drops stacks that were not sampled for long; once in that many passes.
    fn sweep(&mut self) {
        let oldest = self.pass.saturating_sub(STALE_PASSES);
        if self.swept != 0 && self.swept > oldest {
            return;
        }
        self.swept = self.pass;
        self.stacks.retain(|_, (_, pass)| *pass >= oldest);
        self.bytes = self.stacks.values().map(|(kept, _)| kept.bytes()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(frames: usize) -> Option<Kept> {
        let start = Start {
            limit: 513,
            head: Extent { address: 8, length: 8 },
            c_frame: 0,
            truncated: false,
            gil: Extent { address: 16, length: 8 },
        };
        let layout = Layout::of(0x030d_00f0).expect("3.13 is known");
        let link = |i| Link { address: 16 + 8 * i, code: 1, instruction: 2, owner: 0 };
        let links: Vec<Link> = (0..frames).map(link).collect();
        Kept::new(&layout, start, &[], &links, 96, Shown::default())
    }

    #[test]
    fn kept_stacks_are_bounded_and_make_room_for_sampled_ones() {
        let mut stacks = KeptStacks::default();
        stacks.begin_pass();
        let held = (1..=2000).filter(|state| stacks.insert(*state, kept(500))).count();
        assert!(held > 64, "{held}");
        assert!(held < 2000 && stacks.bytes <= MAX_BYTES, "{held}: {}", stacks.bytes);
        assert!(!stacks.insert(5000, kept(500)));
        for _ in 0..=STALE_PASSES {
            stacks.begin_pass();
            assert!(stacks.take(1).is_some());
        }
        assert!(stacks.insert(5000, kept(500)));
        assert!(stacks.get(1).is_some() && stacks.get(2).is_none());
        assert!(!stacks.insert(1, None));
        assert!(stacks.get(1).is_none());
        assert!(stacks.insert(5000, kept(1)));
        assert_eq!(stacks.bytes, stacks.get(5000).map_or(0, Kept::bytes));
    }
}
