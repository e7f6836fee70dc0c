//! The frames of a thread as raw words: copied, followed, and kept for the next sample.

pub(crate) mod blocks;
pub(crate) mod chunk_copies;
pub(crate) mod cut_stacks;
pub(crate) mod frame;
pub(crate) mod kept;
pub(crate) mod walker;
