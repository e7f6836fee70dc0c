//! See the modules.

pub mod cell;
pub mod claim;
pub(crate) mod latch;
pub mod nap;
pub mod shelf;
pub mod turns;
