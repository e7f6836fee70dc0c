//! See the modules.

pub mod detached;
pub mod exit;
pub mod fork;
pub mod library;
pub mod ours;
pub mod random;
pub mod signal;
pub mod stay;
pub mod stderr;
pub mod streams;
pub mod thread;
pub mod tracee;
