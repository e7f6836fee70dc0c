//! The frames of one suspended task or greenlet, and a mark by which a move of it is seen.
//!
//! Plain data; `task_chains` and `greenlets` read it.

use crate::python_stacks::frames::frame::RawFrame;

/// One task, as found.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Chain {
    pub task: usize,
    pub event_loop: usize,
    /// The future it waits for, 0 when it waits for none.
    pub waiter: usize,
    pub running: bool,
    /// It is a greenlet: what it waits for is its frame object.
    pub is_greenlet: bool,
    /// Innermost first; the code objects are not verified yet.
    pub frames: Vec<RawFrame>,
}

/// Where a task was, in a form that is cheap to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Mark {
    pub(crate) task: usize,
    pub(crate) waiter: usize,
    pub(crate) frame: usize,
    pub(crate) instruction: usize,
    pub(crate) is_greenlet: bool,
}
