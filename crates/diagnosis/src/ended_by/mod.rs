//! Inferences: which thread or task held what was waited for, or ended the wait.
//!
//! Each file is one inference: from a wait to candidates, with the evidence for each and the reason
//! why others were dropped (`compare`). `holder` has the lists of inferences that can answer a
//! question about a thread's wait, `chain` the one about a blocker's own wait, `tasks::task` those
//! about tasks of an event loop, `groups::unattributed` the one about several waits. All of a list
//! are asked and compared by weight (`candidate`, `evidence`). The others do not ask one another;
//! `recurring` reads the intervals of `left_place`.
//!
//! | folder | file | the evidence |
//! | --- | --- | --- |
//! | `read` | `owner` | samples read the owner from the lock, or from the code inside its block |
//! | | `gil` | samples read the holder of the GIL from the interpreter |
//! | | `wakeup_record` | the kernel recorded the wakeup |
//! | | `thread_end` | the thread whose end was waited for |
//! | `one_wait` | `inside_call` | the one thread inside of the call that waits, at something else |
//! | | `ran_before` | ran just before the waiter came back |
//! | | `left_place` | left a function when the wait ended |
//! | | `lock_order` | two waits that ended with one another, for locks in opposite order |
//! | | `queue_reader` | works in the file of the code that waits for room in a full queue or pipe |
//! | | `cpu_user` | had a CPU while the waiter had none |
//! | `several_waits` | `recurring` | was there at the end of each of several waits at one place |
//! | | `past_acquire_line` | was past the line that takes from the pool |
//! | | `inside_during` | was inside one function during the waits, and hardly at other times |
//! | `tasks` | `task` | what other tasks of the event loop awaited meanwhile |
//! | | `task_waker` | woke the task of a native runtime |
//! | | `library_thread` | works for the library whose future a task awaits |
//! | | `package_workers` | works for the package in whose code native code waits |
//!
//! What they promise: what is inferred is never `measured`, and a wrong name is worse than none.

pub(crate) mod chain;
pub(crate) mod holder;
pub(crate) mod one_wait;
pub(crate) mod read;
pub(crate) mod several_waits;
pub(crate) mod tasks;
