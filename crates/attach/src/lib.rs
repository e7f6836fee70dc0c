//! Starts the recorder in a Python process that runs already.
//!
//! How it works: the process is inspected from outside (`target`, `preflight`), its interpreter is
//! found in its memory (`elf`, `interpreter`), a script is laid down where the process can read it
//! (`script`), and the interpreter is asked to run the script: by the words of `sys.remote_exec`
//! from 3.14 on (`remote`), by an entry in its ring of pending calls before (`ring`). The process
//! is stopped while these words are written, some milliseconds (`sys::tracee`). No code of ours
//! runs in a stopped thread, nothing is allocated there, and no debugger is needed.
//!
//! ```text
//!   inspect > find the interpreter > lay down the script > stop > check again > write > release
//!      > wait for the script's answer and the control socket > remove the script
//! ```
//!
//! What it promises: a process that cannot be attached to is refused before a byte is written, with
//! the reason and a remedy. Where a word is not as expected, it is refused, too. What was stopped
//! runs on, even if this process is killed. The text that is run cannot raise into the program. A
//! request that was not taken in time is withdrawn.
//!
//! What is missing on purpose: processes that are no CPython, free-threaded and debug builds;
//! making a blocked main thread run Python. Which processes are attached to is the command's
//! choice.

mod elf;
mod engine;
mod interpreter;
mod memory;
mod outside;
mod package;
mod preflight;
mod refusal;
mod remote;
mod ring;
mod script;
mod socket;
mod target;
mod tree;

pub use engine::{attach, Attached, Wanted};
pub use outside::Outside;
pub use refusal::{Kind, Refusal};
pub use target::shares_root;
pub use tree::{descendants, is_python};
