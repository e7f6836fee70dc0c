//! The words of a frame: its locals, and of its value stack the slots that are certainly alive.
//!
//! How it works: slots above the live stack keep their old content. A suspended frame says how many
//! are in use; of a running one only the slots count that the handler around its current
//! instruction keeps (3.11 and later: exception table; before: the block stack).
//!
//! What it promises: at most `MAX_SLOTS` words of a frame, from the walker's copies where these
//! have them; references without their tags.

use crate::python_stacks::frames::blocks::kept_depth;
use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::layout::words::int_at;
use crate::python_stacks::layout::Layout;
use crate::python_stacks::reader::PythonStacks;
use sys::mem::Reader;

/// Slots read of one frame.
const MAX_SLOTS: usize = 512;
/// The size of one `PyTryBlock` and where its stack level is (up to 3.10).
const BLOCK: (usize, usize) = (12, 8);

impl PythonStacks {
    /// What the words of a frame from its first local on refer to; 0 where they refer to nothing.
    pub(crate) fn slots(&self, frame: &RawFrame, first: usize, count: usize) -> Vec<usize> {
        let start = frame.address.wrapping_add(self.layout.frame_locals).wrapping_add(first * 8);
        let count = count.min(MAX_SLOTS);
        let mut words = self.walker.words(&self.mem, start, count).unwrap_or_default();
        if self.layout.has_tags() {
            words.iter_mut().for_each(|word| *word = self.layout.untagged(*word));
        }
        words
    }

    pub(crate) fn first_local(&self, frame: &RawFrame) -> usize {
        self.slots(frame, 0, 1).first().copied().unwrap_or(0)
    }

    /// How many slots lie in front of the value stack.
    pub(crate) fn locals_of(&self, frame: &RawFrame) -> Option<usize> {
        if self.layout.has_chunks() {
            return Some(self.codes.get(self.codes.id(frame.code)?)?.locals);
        }
        let place = frame.address.wrapping_add(self.layout.frame_value_stack);
        let stack = self.mem.word(place).ok()?;
        let locals = stack.wrapping_sub(frame.address.wrapping_add(self.layout.frame_locals)) / 8;
        Some(locals).filter(|locals| *locals < 1 << 16)
    }

    /// All of a frame's value stack, including old content of slots above the live ones.
    pub(crate) fn value_stack(&self, frame: &RawFrame) -> Vec<usize> {
        let locals = self.locals_of(frame).unwrap_or(0);
        let room = match self.codes.id(frame.code).and_then(|id| self.codes.get(id)) {
            Some(code) => code.stack_size,
            None => 0,
        };
        self.slots(frame, locals, room)
    }

    /// The slots of the value stack that live as long as the `with`s that the frame is in.
    pub(crate) fn kept_slots(&self, frame: &RawFrame) -> Vec<usize> {
        match self.depth_kept(frame).unwrap_or(0) {
            0 => Vec::new(),
            depth => self.slots(frame, self.locals_of(frame).unwrap_or(0), depth),
        }
    }

    /// How many slots of the value stack are certainly alive.
    fn depth_kept(&self, frame: &RawFrame) -> Option<usize> {
        if self.layout.has_chunks() {
            let code = self.codes.get(self.codes.id(frame.code)?)?;
            return Some(kept_depth(&code.exceptions, frame.offset).min(MAX_SLOTS));
        }
        let mut count = [0u8; 4];
        let place = frame.address.wrapping_add(self.layout.frame_block_count);
        self.mem.read(place, &mut count).ok()?;
        let innermost = usize::try_from(int_at(&count, 0)).ok()?.checked_sub(1)?;
        let blocks = frame.address.wrapping_add(self.layout.frame_blocks);
        let mut level = [0u8; 4];
        let place = blocks.wrapping_add(innermost.min(19) * BLOCK.0 + BLOCK.1);
        self.mem.read(place, &mut level).ok()?;
        Some(usize::try_from(int_at(&level, 0)).ok()?.min(MAX_SLOTS))
    }

    /// The locals and the live value stack of a suspended frame.
    pub(crate) fn live_slots(&self, frame: &RawFrame) -> Vec<usize> {
        let count = live_count(&self.mem, &self.layout, frame).unwrap_or(0);
        self.slots(frame, 0, count)
    }
}

fn live_count(mem: &Reader, layout: &Layout, frame: &RawFrame) -> Option<usize> {
    let word = |offset: usize| mem.word(frame.address.wrapping_add(offset)).ok();
    let top = word(layout.frame_top)?;
    if layout.has_chunks() && !layout.has_tags() {
        return usize::try_from(top as u32 as i32).ok();
    }
    let locals = frame.address.wrapping_add(layout.frame_locals);
    let end = match layout.instruction_unit {
        1 => top,
        _ if layout.has_tags() => top,
        _ => {
            let values = word(layout.frame_value_stack)?;
            values.wrapping_add(usize::try_from(top as u32 as i32).ok()? * 8)
        }
    };
    let count = end.wrapping_sub(locals) / 8;
    (count < 1 << 16).then_some(count)
}
