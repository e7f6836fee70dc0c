//! See the modules.

pub mod calls;
pub mod epoll;
pub mod fds;
pub mod file_locks;
pub(crate) mod kept;
pub mod lock_owners;
pub mod processes;
pub mod task;
pub mod vitals;
