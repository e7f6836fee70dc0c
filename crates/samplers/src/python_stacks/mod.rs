//! Python stacks, read by a thread of ours without the GIL and without signals.
//!
//! How it works: CPython's own structures have the position of every thread. `attach` finds their
//! layout and tries it; `threads` walks the interpreters' thread lists; `stack` copies a thread's
//! frames and turns them into (code, line) pairs, each code object named once. Every read of
//! interpreter memory is guarded (`sys::mem::Reader`): freed memory is an error, never a fault.
//! The folders, each of which imports only those below it:
//!
//! ```text
//!   attach             whether this interpreter can be read, and by which layout; modules by name
//!   awaits             a suspended task: what it awaits, and what is to end that
//!   locks              the lock a thread waits for, and its holder
//!   tasks              tasks and greenlets: all, the running one, the frames of a suspended one
//!   stack, search      a thread's stack; objects found from the words of a frame
//!   reader             the reader's state, to which all above are methods
//!   task_tables        where asyncio keeps its tasks, and which of them ran lately
//!   frames             a thread's frames as raw words: copied, followed, kept for the next sample
//!   codes, objects     what a code object and any other object is
//!   threads, layout    the lists of threads, and the GIL; where each version keeps what is read
//! ```
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | `_PyRuntime`, thread states | `PyThread` (native id, ident) | 3.9-3.15 |
//! | data-stack chunks, generator frames | `Frame` (code id, line), innermost first | 3.11-3.15 |
//! | frame objects | the same | 3.9, 3.10 |
//! | code objects, line tables | `CodeInfo`, exact lines | 3.9-3.15 |
//! | the GIL's state | its holder, the futexes of its own | 3.9-3.15 |
//! | lock objects, value stacks | the holder of the lock a thread waits for | 3.9-3.15 |
//! | greenlets | stack and wait of a suspended one (`greenlets`) | 3.9-3.15 |
//! | asyncio tasks | await of a suspended one (`awaits`), the running one (`running`) | 3.9-3.15 |
//!
//! A stack that was seen before is copied in one call and compared with what it was; see `kept`.
//! What it promises: bounded memory and bounded work. Only the GIL's holder can change its stack,
//! and the GIL's switch counter shows which thread that could have been: of every other thread, a
//! stack that existed at some instant. The stack of one that may have run is read twice and must
//! agree. That proves nothing of a thread that repeats itself: no order of reads can, since any
//! word of its memory may be there at any reading. Up to 3.10, where frames are read one by one,
//! the innermost frame must be that still. docs/accuracy.md has how often a stack was
//! wrong; a caller that needs proof reads while `sys::off_cpu` watches.
//! A thread busy calling small functions never agrees. After `TRIES` its innermost few frames,
//! which are side by side and copied together, are taken as read, and up to 3.10, where they are
//! not, left out: `Outcome::settled` is then false. What cannot be trusted is `Torn`, and counted.
//! A thread that runs code in subinterpreters has its frames on several states: see `nested`.
//! What is missing on purpose: C frames; free-threaded builds; stopping the world.

mod attach;
mod awaits;
#[cfg(test)]
mod by_hand;
mod codes;
mod frames;
mod layout;
mod locks;
mod objects;
mod reader;
mod search;
mod stack;
mod task_tables;
mod tasks;
mod threads;
mod types;

pub use attach::own_memory::own_memory;
pub use attach::unsupported::Unsupported;
pub use awaits::Suspended;
pub use codes::MAX_CODES;
pub use locks::wait_object::{HowKnown, LockHolder, WaitedFor};
pub use reader::PythonStacks;
pub use search::sockets::UNKNOWN_PEER;
pub use task_tables::task_table::find_task_table;
pub use tasks::chain::Mark;
pub use tasks::running::Running;
pub use types::{
    AllTasks, CodeId, CodeInfo, Counters, Frame, Held, Outcome, PyThread, RunningTasks,
    RuntimeInfo, Subject, Torn, TypeAddresses,
};
