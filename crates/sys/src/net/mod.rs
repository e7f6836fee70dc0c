//! See the modules.

pub mod connecting;
pub mod local;
pub mod send;
pub mod socket;
