//! Stacks that greenlet has cut to switch away from them.
//!
//! How it works: to switch, greenlet (3.12 and later) links the frames past the trampolines, whose
//! C stack it is about to overwrite, and takes the outermost frame's link away. Until the next
//! greenlet's frames are in place, the thread state still names the innermost of them:
//!
//! ```text
//!   frame -> frame -> 0
//!     |        `-> frame object: its frame, and the link that was there
//!     `----------> frame object: the same
//! ```
//!
//! What it promises: no frame of the program is missing in a stack that is recognized. A frame
//! that was left, or whose memory another call reuses, has no frame object that names it. What is
//! missing on purpose: a generator's frame as the outermost one. It loses its caller by a `yield`
//! as well, and its object may have the link of an earlier switch.

use crate::python_stacks::frames::frame::{Link, OWNED_BY_THREAD};
use crate::python_stacks::layout::Layout;
use sys::mem::Reader;

/// Whether greenlet took the link of the outermost frame, whose frame object is `object`. Two
/// guarded reads.
pub(crate) fn is_cut_by_greenlet(
    mem: &Reader,
    layout: &Layout,
    outermost: &Link,
    object: usize,
) -> bool {
    let word = |offset: usize| mem.word(object.wrapping_add(offset)).unwrap_or(0);
    outermost.owner == OWNED_BY_THREAD
        && object % 8 == 0
        && word(layout.frame_object_frame) == outermost.address
        && word(layout.frame_object_data) != 0
}
