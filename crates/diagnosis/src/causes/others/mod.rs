//! Waits for others: pools, peers, processes, time.

pub(crate) mod connect;
pub(crate) mod dns;
pub(crate) mod downstream_wait;
pub(crate) mod pool_wait;
pub(crate) mod sleep;
pub(crate) mod subprocess_wait;
