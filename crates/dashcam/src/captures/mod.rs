//! Captures: the queue of wanted captures, the file of each, the log of all, the hook behind each.

pub(crate) mod captures_log;
pub(crate) mod hook;
pub(crate) mod notes;
pub(crate) mod queue;
pub(crate) mod rollups_log;
pub(crate) mod snapshot;
pub(crate) mod stats;
