//! This process and its threads: their beginning and end, and what the host must not notice.
//!
//! | module | is |
//! | --- | --- |
//! | thread | ids and names; threads of ours, which the host never notices |
//! | fork, exit, stay | hooks around a fork; at the end; threads that are ended from outside |
//! | ours, own_table | our descriptors: their list, number, and table; work that opens files |
//! | own_threads | how many threads there are, and how many are ours |
//! | signal | SIGUSR2 as a request |
//! | stderr, streams | the process's stderr; which of the three streams it was started without |
//! | environment | the environment as it was when the recording began |
//! | detached, tracee | a command beside the host; another process, stopped for a while |
//! | waker | a waker of async code that reports its clones |
//! | library, random | the file of this code; a number that no other process has |
//!
//! What it promises: signals, children, exit codes, descriptors and stacks of the host are what
//! they would be without us. What is missing on purpose: any policy of when a thread or a command
//! is needed.

pub mod detached;
pub mod environment;
pub mod exit;
pub mod fork;
pub mod library;
pub mod ours;
pub mod own_table;
pub mod own_threads;
pub mod random;
pub mod signal;
pub mod stay;
pub mod stderr;
pub mod streams;
pub mod thread;
pub mod tracee;
pub mod waker;
