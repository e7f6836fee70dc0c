//! The samplers: what is read from outside about running threads.
//!
//! How it works: one folder for each source; each has a table of what it reads and what it emits.
//! What it promises: reads that cannot fault, bounded work, counted losses. What is missing on
//! purpose: when to sample; crate `sampler` decides that.

pub mod by_tid;
pub mod native_stacks;
pub mod native_tasks;
pub mod python_stacks;
pub mod switches;
