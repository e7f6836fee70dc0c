//! What a finding reports beside its cause and place: counts, callers, wakeups, stacks.
//!
//! Each file answers one question about a group. Nothing here changes a claim.

pub(crate) mod callers;
pub(crate) mod calls;
pub(crate) mod library;
pub(crate) mod own_cost;
pub(crate) mod repeats;
pub(crate) mod retries;
pub(crate) mod running_task;
pub(crate) mod unexplained;
pub(crate) mod waiters;
pub(crate) mod wakeups;
