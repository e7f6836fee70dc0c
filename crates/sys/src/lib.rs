//! The only interface to the operating system: clocks, thread ids, guarded memory, /proc, perf
//! events.
//!
//! How it works: one small module for each kernel facility, in a folder for each kind; the page of
//! a folder lists its modules and states what all of them promise. Each wraps the raw calls in a
//! safe function and returns `std::io::Result`, so the rest of the recorder never sees an errno or
//! a raw pointer. Callers name the module alone: `sys::thread`, not its folder.
//!
//! ```text
//!   clock     one clock for all sources
//!   proc      what the kernel reports of threads, calls, descriptors
//!   perf      context switches and wakeups, as the kernel records them
//!   process   this process and its threads: forks, ends, descriptors, signals
//!   memory    guarded reads, shared mappings, what is left
//!   net       sockets
//!   files     files that exist whole or not at all
//!   forksafe  what threads share without a lock that a fork could leave held
//! ```
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

pub use files::{held, readers, shared_log, turn, whole_file, whole_folder};
pub(crate) use forksafe::latch;
pub use forksafe::{addresses, cell, claim, nap, shelf, turns};
pub use memory::{barrier, map, mapped, mem, own_stack, reserve, room};
pub use net::{connecting, local, send, socket};
pub(crate) use proc::kept;
pub use proc::{
    calls, epoll, fds, file_locks, lock_owners, off_cpu, processes, serving, task, vitals,
};
pub use process::{
    detached, environment, exit, fork, library, ours, own_table, own_threads, random, signal, stay,
    stderr, streams, thread, tracee, waker,
};
