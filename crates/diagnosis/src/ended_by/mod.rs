//! Inferences: which thread or task held what was waited for, or ended the wait.
//!
//! Each file is one inference: from a wait to candidates, with the evidence for each and the reason
//! why others were dropped (`compare`). `holder` has the lists of inferences that can answer a
//! question about a thread's wait, `chain` the one about a blocker's own wait, `task` those about
//! tasks of an event loop, `groups::unattributed` the one about several waits. All of a list
//! are asked and compared by weight (`candidate`, `evidence`). The others do not ask one another;
//! `recurring` reads the intervals of `left_place`.
//!
//! | file | the evidence |
//! | --- | --- |
//! | `owner` | samples read the owner from the lock, or from the code inside its block |
//! | `wakeup_record` | the kernel recorded the wakeup |
//! | `inside_call` | the one thread inside of the call that waits, at something else |
//! | `ran_before` | ran just before the waiter came back |
//! | `thread_end` | the thread whose end was waited for |
//! | `left_place` | left a function when the wait ended |
//! | `lock_order` | two waits that ended with one another, for locks taken in opposite order |
//! | `gil` | samples read the holder of the GIL from the interpreter |
//! | `queue_reader` | works in the file of the code that waits for room in a full queue or pipe |
//! | `cpu_user` | had a CPU while the waiter had none |
//! | `recurring` | was there at the end of each of several waits at one place |
//! | `past_acquire_line` | was past the line that takes from the pool |
//! | `library_thread` | works for the library whose future a task awaits |
//! | `package_workers` | works for the package in whose code native code waits |
//! | `inside_during` | was inside one function during the waits, and hardly at other times |
//!
//! What they promise: what is inferred is never `measured`, and a wrong name is worse than none.

pub(crate) mod chain;
pub(crate) mod cpu_user;
pub(crate) mod gil;
pub(crate) mod holder;
pub(crate) mod inside_call;
pub(crate) mod inside_during;
pub(crate) mod left_place;
pub(crate) mod library_thread;
pub(crate) mod lock_order;
pub(crate) mod owner;
pub(crate) mod package_workers;
pub(crate) mod past_acquire_line;
pub(crate) mod queue_reader;
pub(crate) mod ran_before;
pub(crate) mod recurring;
pub(crate) mod task;
pub(crate) mod task_waker;
mod tasks_seen;
pub(crate) mod thread_end;
pub(crate) mod wakeup_record;
