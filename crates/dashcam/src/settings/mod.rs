//! The settings: where their values come from, how they change while the process records, and the
//! rules as the recorder asks them.

pub(crate) mod config;
pub(crate) mod judge;
pub(crate) mod live;
