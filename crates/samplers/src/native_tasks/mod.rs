//! What suspended tasks of native async runtimes await: the stacks in which their wakers were
//! cloned.
//!
//! How it works: a future that is not ready keeps a clone of the waker it is polled with, and makes
//! it in the code that waits: the `poll` of a lock, a socket, a timer, below the async functions
//! that await it. The task's watch (`dashcam::api::watch`) copies the stack then. A task that is
//! suspended has no stack of its own, so this copy is all that shows where it is.
//!
//! ```text
//!  task, polled             TaskCell                      sampler, past the usual time
//!  ---------------------    --------------------------    -----------------------------
//!  poll > handler > lock    awaits: registers, bytes  <-- read: guarded, twice the same
//!       > clone: copied     left_ns: suspended since      names nothing; words as of any stack
//!  wake, by any thread  --> woken: the waker's stack  <-- taken
//! ```
//!
//! | reads | emits | unit | from |
//! | --- | --- | --- | --- |
//! | a task's cell, by its address | `Suspended`: stacks as words | bytes | x86-64 |
//! | the mailbox of wakers | `Woken`: thread, request, stack | bytes | x86-64 |
//!
//! What it promises: a cell that is gone or changes is noticed and not used. Memory is bounded by
//! task (`MOST_BYTES`), by process (`MOST_KEPT_BYTES`) and in the mailbox. Missing on purpose:
//! tasks of no request, and a future that waits without cloning its waker in that poll.

mod cell;
mod woken;

pub use cell::{
    is_full, read, Awaits, Suspended, TaskCell, MOST_AWAITS, MOST_BYTES, MOST_KEPT_BYTES,
};
pub use woken::{post, take, Woken};

/// Set in the address of a task that is a cell of this module.
const IS_CELL: u64 = 2;

/// The word for the task of a request (`recorder::OpenRequest::task`) that is a cell.
pub fn task_word(cell: u64) -> u64 {
    cell | IS_CELL
}

/// The address of the cell that a request's task is; None: it is something else.
pub fn cell_of(task: u64) -> Option<u64> {
    (task & (ALIGNMENT - 1) == IS_CELL).then_some(task & !IS_CELL)
}

/// Cells begin at a multiple of this; so do no other tasks at two bytes behind one.
const ALIGNMENT: u64 = 64;
