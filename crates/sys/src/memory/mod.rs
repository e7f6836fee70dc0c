//! See the modules.

pub mod barrier;
pub mod map;
pub mod mapped;
pub mod mem;
pub mod reserve;
pub mod room;
