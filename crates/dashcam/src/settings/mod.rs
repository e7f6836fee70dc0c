//! The settings: the environment and the caller's, changes while the process records, and the rules
//! as the recorder asks them.

pub(crate) mod config;
pub(crate) mod judge;
pub(crate) mod live;
