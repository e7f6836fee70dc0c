//! Captures: the queue of wanted captures, the file of each, the log of all, the verdict on each
//! and the hook behind it.

pub(crate) mod captures_log;
pub(crate) mod explain;
pub(crate) mod hook;
pub(crate) mod notes;
pub(crate) mod queue;
pub(crate) mod rollups_log;
pub(crate) mod snapshot;
pub(crate) mod stats;
pub(crate) mod verdict;
