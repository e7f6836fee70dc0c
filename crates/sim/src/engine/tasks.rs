//! A task of an event loop: a body that the loop's thread mounts when it is the task's turn.

use super::actor::{Awaits, Body};

/// Where a task is.
#[derive(Clone, Copy, Debug)]
pub enum TaskState {
    /// Behind others, at its turn.
    Queued,
    /// Mounted.
    Mounted,
    /// Suspended.
    Suspended(Awaits),
    /// Ended.
    Done,
}

/// A task.
pub struct Task<'p> {
    pub(crate) body: Body<'p>,
    /// Where it is.
    pub state: TaskState,
    pub(super) epoch: u64,
    /// Since when it is there.
    pub since: u64,
    /// How often it moved.
    pub moves: u64,
}
