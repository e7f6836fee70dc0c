//! The stack of a thread: of one thread state, and of a thread that runs several interpreters.

pub(crate) mod nested;
pub(crate) mod one_stack;
