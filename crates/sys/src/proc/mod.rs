//! What the kernel reports of a thread, its call, its descriptors, and the process: /proc.
//!
//! | module | reports |
//! | --- | --- |
//! | task | one thread: its state, times, system call |
//! | off_cpu | proof that a thread did not run while something was read |
//! | calls | what a blocked system call waits for |
//! | fds, epoll | what a descriptor leads to; the members of an epoll instance |
//! | file_locks, lock_owners | the process with a file's lock; the thread with a C library's lock |
//! | processes | other processes that a thread waits for |
//! | serving | processes below this one, and what they listen on |
//! | vitals | counters of the process and its host, once a second |
//! | kept | a file of /proc that stays open: each further read is one `pread` |
//!
//! What it promises: no privilege, no signal, no allocation on a repeated read; a thread or process
//! that is gone is an error, and never another one's answer. What is missing on purpose: when to
//! read what (crate `sampler`).

pub mod calls;
pub mod epoll;
pub mod fds;
pub mod file_locks;
pub(crate) mod kept;
pub mod lock_owners;
pub mod off_cpu;
pub mod processes;
pub mod serving;
pub mod task;
pub mod vitals;
