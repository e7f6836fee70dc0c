//! The settings of the running process: how they change while it records, and the rules as the
//! recorder asks them. Each is declared, and read, in the crate `settings`.

pub(crate) mod judge;
pub(crate) mod live;
