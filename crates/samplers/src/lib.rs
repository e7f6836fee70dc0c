//! The samplers: what is read, from outside, about running threads.
//!
//! How it works: one folder a source; each says in a table what it reads and what it emits.
//! What it promises: reads that cannot fault, bounded work, counted losses.
//! What is missing on purpose: when to sample; the recorder's schedule decides that.

pub mod budget;
pub mod by_tid;
pub mod choice;
pub mod native_stacks;
pub mod pace;
pub mod python_stacks;
pub mod storm;
pub mod switches;
