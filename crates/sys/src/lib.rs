//! The only interface to the operating system: clocks, thread ids, guarded memory, /proc, perf
//! events.
//!
//! How it works: one small module for each kernel facility. Each wraps the raw calls in a safe
//! function and returns `std::io::Result`, so the rest of the recorder never sees an errno or a raw
//! pointer.
//!
//! What it promises: nothing here blocks for long, allocates on a repeated read, or raises a signal
//! in the host. What is missing on purpose: policy. The sampler decides when to read what.

pub mod clock;
mod files;
mod forksafe;
mod memory;
mod net;
pub mod perf;
mod proc;
mod process;

pub use files::{shared_log, whole_file, whole_folder};
pub(crate) use forksafe::latch;
pub use forksafe::{cell, claim, nap, shelf, turns};
pub use memory::{barrier, map, mapped, mem, reserve, room};
pub use net::{connecting, local, send, socket};
pub(crate) use proc::kept;
pub use proc::{calls, epoll, fds, file_locks, lock_owners, processes, task, vitals};
pub use process::{
    detached, exit, fork, library, ours, random, signal, stay, stderr, streams, thread, tracee,
};
