//! The frames of one suspended task or greenlet, and a mark by which a move of it is seen.
//!
//! Plain data; `task_chains` and `greenlets` read it.

use super::frame::RawFrame;

/// One task, as found.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Chain {
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
    pub(super) task: usize,
    pub(super) waiter: usize,
    pub(super) frame: usize,
    pub(super) instruction: usize,
    pub(super) is_greenlet: bool,
}
