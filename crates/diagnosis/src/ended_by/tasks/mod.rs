//! Tasks of event loops, and the threads that libraries call for them.

pub(crate) mod library_thread;
pub(crate) mod package_workers;
pub(crate) mod task;
pub(crate) mod task_waker;
mod tasks_seen;
