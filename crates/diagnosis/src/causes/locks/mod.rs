//! Locks, and what ends by them.

pub(crate) mod deadlock_timeout;
pub(crate) mod lock_wait;
