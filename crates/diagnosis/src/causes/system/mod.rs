//! The operating system: files, memory, processes.

pub(crate) mod disk_io;
pub(crate) mod fork;
pub(crate) mod page_fault;
pub(crate) mod pipe_write;
pub(crate) mod stopped;
