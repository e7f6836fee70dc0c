//! The interpreter: its lock, collector, imports and event loops.

pub(crate) mod event_loop_blocked;
pub(crate) mod gc_pause;
pub(crate) mod gil_wait;
pub(crate) mod import;
