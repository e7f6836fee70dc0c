//! Samples of threads: what each does, what it waits for, what is in its way.

pub mod files;
pub mod native;
pub mod poll_sets;
pub mod task_names;
pub mod thread_sampler;
pub mod wait_names;
pub mod watches;
