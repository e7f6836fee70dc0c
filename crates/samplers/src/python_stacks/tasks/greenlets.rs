//! Suspended greenlets (gevent): the stack of a greenlet that switched away, and what it waits for.
//!
//! How it works: a greenlet that is not running keeps the frame in which it switched away, and that
//! frame its callers:
//!
//! ```text
//!   greenlet | ... | its own memory
//!                      `-> vtable, greenlet, exceptions, arguments, C stack, context, frame
//!                                                     frame -> caller -> caller -> ...
//! ```
//!
//! What it waits for is in `greenlet_waits`. The holder of a gevent lock is inside its `with`
//! block, as with threads (`task_holder`).
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | `greenlet.greenlet` | `Frame` (code id, line), innermost first | greenlet 2 and later |
//!
//! What it promises: as `awaits`: guarded reads, two walks that agree, `Torn` for an object that is
//! no greenlet of the known layout (its memory must point back to it), or has ended. What is
//! missing on purpose: greenlets that work for no open request (nothing lists them); kinds of waits
//! in eventlet (the stack is read).

use crate::python_stacks::frames::walker::frame_outside;
use crate::python_stacks::layout::words::word_at;
use crate::python_stacks::objects::sorts::Sort;
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::tasks::chain::{Chain, Mark};
use crate::python_stacks::types::Torn;

/// `greenlet.greenlet`: bytes of its body, and where its own memory is. Subclasses have more
/// behind.
const BODY: usize = 40;
const MEMORY: usize = 32;
/// Its own memory, in words: the greenlet again; where its C stack begins, 0 before it starts and
/// behind its end; the frame. Up to CPython 3.10 an exception's state takes two words more.
const ITSELF: usize = 1;
const STACK: usize = 7;
const FRAME: usize = 13;
const MORE_BEFORE_311: usize = 2;
const MEMORY_WORDS: usize = 16;
const MOST_FRAMES: usize = 512;

impl PythonStacks {
    pub(crate) fn is_greenlet(&mut self, address: usize) -> bool {
        let kind = self.objects.type_of(&self.mem, &self.layout, address);
        kind.is_some_and(|kind| kind.sort == Sort::Greenlet && kind.sort_size == BODY)
    }

    /// Whether the greenlet at `mark` certainly moved on since, or has ended. Three guarded reads.
    pub(crate) fn greenlet_has_moved(&self, mark: Mark) -> bool {
        let word = |address: usize| self.mem.word(address).unwrap_or(0);
        let place = mark.frame.wrapping_add(self.layout.frame_instruction);
        self.frame_object(mark.task).unwrap_or(0) != mark.waiter
            || mark.frame != 0 && word(place) != mark.instruction
    }

    /// The frame object in which a greenlet switched away; 0 while it runs.
    fn frame_object(&self, greenlet: usize) -> Result<usize, Torn> {
        let memory = self.mem.word(greenlet.wrapping_add(MEMORY)).unwrap_or(0);
        let mut bytes = [0u8; MEMORY_WORDS * 8];
        self.mem.read(memory, &mut bytes).map_err(|_| Torn("greenlet gone"))?;
        let more = if self.layout.has_chunks() { 0 } else { MORE_BEFORE_311 };
        let word = |index: usize| word_at(&bytes, index * 8);
        if word(ITSELF) != greenlet {
            return Err(Torn("greenlet layout"));
        }
        if word(STACK + more) == 0 {
            return Err(Torn("greenlet has ended"));
        }
        Ok(word(FRAME + more))
    }

    /// The frames of a greenlet that switched away; none while it runs.
    pub(crate) fn greenlet_once(&mut self, greenlet: usize) -> Result<Chain, Torn> {
        let object = self.frame_object(greenlet)?;
        let mut chain = Chain {
            task: greenlet,
            waiter: object,
            running: object == 0,
            is_greenlet: true,
            ..Chain::default()
        };
        let mut next = match self.layout.has_chunks() && object != 0 {
            true => self.mem.word(object.wrapping_add(self.layout.frame_object_frame)).unwrap_or(0),
            false => object,
        };
        while next != 0 && chain.frames.len() < MOST_FRAMES {
            let (link, previous) = frame_outside(&self.mem, &self.layout, next)?;
            chain.frames.extend(link.frame(&self.layout));
            next = previous;
        }
        Ok(chain)
    }
}
