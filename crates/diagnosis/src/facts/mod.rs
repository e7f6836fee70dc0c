//! What code and threads were at, as records and samples show it: no blame, no inference.
//!
//! `waiting` and `threads` describe a wait and another thread during it; `pools`, `imports`,
//! `children` and `kernel_time` recognise code that waits for a pool, loads modules, waits for a
//! child process, or is busy in the kernel, `library_threads` a library that waits for threads of
//! its own; `transactions` says when threads had something of a database, `long_work` whether work
//! is long by itself;
//! `awaits` is what a suspended task was seen to await; `activity` says what a thread did.

pub(crate) mod activity;
pub(crate) mod awaits;
pub(crate) mod children;
pub(crate) mod imports;
pub(crate) mod kernel_time;
pub(crate) mod library_threads;
pub(crate) mod long_work;
pub(crate) mod pools;
pub(crate) mod threads;
pub(crate) mod transactions;
pub(crate) mod waiting;
