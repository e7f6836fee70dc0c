//! The interpreter's lock, as CPython 3.11 hands it on.
//!
//! How it works: a thread that finds it taken waits on its condition for 5 ms at a time. When such
//! a wait runs out and nobody else got it meanwhile, the holder is asked to let go; it does so at
//! its next bytecode, and not before another thread has had it. A thread that releases it for a
//! call wakes the thread that waits longest; the first thread with a CPU takes it.
//!
//! What it promises: never two holders; each wait of 5 ms is a time off the CPU of its own, as the
//! kernel records it. What is missing on purpose: the wait for the other thread's start
//! (`switch_cond`), which is one more wait on the same lock here.

use std::collections::{HashSet, VecDeque};

use super::actor::Tid;
use super::request::Actor;
use crate::program::MS;

/// `sys.getswitchinterval()`.
pub const INTERVAL_NS: u64 = 5 * MS;

/// Its state.
#[derive(Debug, Default)]
pub struct Gil {
    /// The holder.
    pub holder: Option<Tid>,
    /// The waiters, the longest first.
    pub waiters: VecDeque<Tid>,
    /// Waits that ran out.
    pub(super) over: HashSet<Tid>,
    /// The holder is to let go.
    pub(super) asked: bool,
    /// Let go since it was asked: it may not have it before another one had.
    pub(super) yielded: Option<Tid>,
    /// How often it changed hands, and that number as each waiter saw it.
    pub(super) switches: u64,
    pub(super) seen: Vec<u64>,
    /// Holders, and since when.
    pub owners: Vec<(u64, Option<Actor>)>,
}

impl Gil {
    /// A wait of 5 ms ran out.
    pub fn timed_out(&mut self, tid: Tid) {
        self.over.insert(tid);
    }

    /// Whether a thread that runs bytecode has to let go.
    pub fn is_wanted(&self) -> bool {
        self.asked && !self.waiters.is_empty()
    }
}
