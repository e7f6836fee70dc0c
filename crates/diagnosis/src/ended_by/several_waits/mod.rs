//! Inferences from several waits: chances that are counted.

pub(crate) mod inside_during;
pub(crate) mod past_acquire_line;
pub(crate) mod recurring;
