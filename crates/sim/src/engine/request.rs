//! A request, the time at which runs begin, and the threads and tasks that work.

use super::actor::Tid;
use crate::program::SECOND;

/// The monotonic clock at the start: a machine that has been up for a while.
pub const START_NS: u64 = 1000 * SECOND;

/// A thread or a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// A thread.
    Thread(Tid),
    /// A task.
    Task(usize),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its id in the capture.
    pub id: u64,
    /// When it arrived.
    pub begin_ns: u64,
    /// The same as far as the recorder knows it, once its handler has begun.
    pub known_ns: u64,
    /// When its handler began.
    pub started_ns: u64,
    /// When it was answered.
    pub end_ns: Option<u64>,
    /// The thread it began on.
    pub tid: Tid,
    /// Its task.
    pub task: Option<usize>,
    /// Threads that work for it.
    pub helpers: Vec<Tid>,
    /// The client sends nothing for so long, and is gone then: no request.
    pub(super) silent_ns: Option<u64>,
    pub(super) client: usize,
    pub(super) number: u64,
}
