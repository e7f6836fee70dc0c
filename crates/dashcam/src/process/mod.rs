//! The life of a recording in a process: start, stop, fork, and the black box's place.

pub(crate) mod boxes;
pub(crate) mod builder;
pub(crate) mod control;
pub(crate) mod forks;
