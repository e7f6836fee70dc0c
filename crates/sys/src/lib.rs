//! The only interface to the operating system: clocks, thread ids, guarded memory, /proc, perf
//! events.
//!
//! How it works: one small module for each kernel facility. Each wraps the raw calls in a safe
//! function and returns `std::io::Result`, so the rest of the recorder never sees an errno or a raw
//! pointer.
//!
//! What it promises: nothing here blocks for long, allocates on a repeated read, or raises a signal
//! in the host. What is missing on purpose: policy. The sampler decides when to read what.

pub mod barrier;
pub mod calls;
pub mod cell;
pub mod claim;
pub mod clock;
pub mod connecting;
pub mod detached;
pub mod epoll;
pub mod exit;
pub mod fds;
pub mod file_locks;
pub mod fork;
mod kept;
mod latch;
pub mod library;
pub mod local;
pub mod lock_owners;
pub mod map;
pub mod mapped;
pub mod mem;
pub mod nap;
pub mod ours;
pub mod perf;
pub mod processes;
pub mod random;
pub mod reserve;
pub mod room;
pub mod send;
pub mod shared_log;
pub mod shelf;
pub mod signal;
pub mod socket;
pub mod stay;
pub mod stderr;
pub mod streams;
pub mod task;
pub mod thread;
pub mod tracee;
pub mod turns;
pub mod vitals;
pub mod whole_file;
pub mod whole_folder;
