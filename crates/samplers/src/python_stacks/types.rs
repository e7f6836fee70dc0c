//! What the reader is given and what it gives: facts of the interpreter, threads, frames, counts.
//!
//! How it works: plain data, no method but text for an error. What it promises: no address in it
//! has to be valid. What is missing on purpose: what one kind of reading alone gives is beside it.

use std::fmt;

/// What the caller knows about the interpreter in this process.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeInfo {
    /// `PY_VERSION_HEX` of the running interpreter (`sys.hexversion`).
    pub version_hex: u32,
    /// The address of `_PyRuntime`.
    pub runtime: usize,
    /// The addresses of a few types.
    pub types: TypeAddresses,
}

/// The process whose interpreter it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Subject {
    /// This one.
    #[default]
    Own,
    /// Another one.
    Other {
        /// Its number, as it sees itself.
        pid: u32,
        /// Its threads' numbers, as it sees them.
        threads: Vec<u32>,
    },
}

impl Subject {
    /// Its number, as it sees itself: also that of its main thread.
    pub fn pid(&self) -> u32 {
        match self {
            Subject::Own => std::process::id(),
            Subject::Other { pid, .. } => *pid,
        }
    }

    /// Whether the kernel knows a thread of this number in it.
    pub(crate) fn has(&self, tid: u32) -> bool {
        match self {
            Subject::Own => std::path::Path::new(&format!("/proc/self/task/{tid}")).exists(),
            Subject::Other { threads, .. } => threads.contains(&tid),
        }
    }
}

/// Addresses of the types by which objects are recognised.
#[derive(Clone, Copy, Debug)]
pub struct TypeAddresses {
    /// `types.CodeType`.
    pub code: usize,
    /// `_thread.lock`; 0: not known.
    pub lock: usize,
    /// `_thread.RLock`; 0: not known.
    pub rlock: usize,
    /// `types.BuiltinMethodType`.
    pub builtin_method: usize,
}

/// One Python thread, as its interpreter lists it. A thread that runs code in subinterpreters has
/// an entry in each, with the same native id and stack: any of them stands for the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PyThread {
    /// The address of its `PyThreadState`.
    pub state: usize,
    /// The kernel's thread id.
    pub tid: u32,
    /// Its `pthread_t`, as `threading.get_ident()` gives it.
    pub ident: u64,
}

/// The number of a code object for the life of the reader; dense, from 1. 0 is "not known".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodeId(pub u32);

impl CodeId {
    /// Stands for code objects past the table's limit.
    pub const UNKNOWN: CodeId = CodeId(0);
}

/// One frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The code that runs in it.
    pub code: CodeId,
    /// The source line it is on; 0 where the compiler gave none.
    pub line: u32,
}

/// What is known of a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeInfo {
    /// The qualified name; up to 3.10, which keep none, the plain name.
    pub qualname: String,
    /// The file, as given to the compiler.
    pub file: String,
    /// The line of its definition.
    pub first_line: u32,
    /// It uses the name `release`: it may hold a lock taken by hand.
    pub releases: bool,
}

/// The result of reading a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Outer frames are missing, beyond the limit.
    pub truncated: bool,
    /// False when the innermost few frames moved at every try: from 3.11 on they were taken as
    /// last read, before that they are missing.
    pub settled: bool,
}

/// A lock that a thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The address of the lock.
    pub lock: usize,
    /// It is an `RLock`.
    pub recursive: bool,
    /// Where the `with` is; its line is the one that runs now.
    pub at: Frame,
}

/// The addresses of asyncio's running tasks. Both objects must never be freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunningTasks {
    /// The dict of event loop -> running task, from 3.14 on the table that `find_task_table` found;
    /// 0: there is none.
    pub by_loop: usize,
    /// The type of tasks.
    pub kind: usize,
}

/// Where asyncio has its tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllTasks {
    /// Those that run.
    pub running: RunningTasks,
    /// The set of all; 0: they are on lists.
    pub set: usize,
}

/// What was read changed during the read, or cannot be valid; the text says where that showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn(pub &'static str);

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "torn read: {}", self.0)
    }
}

impl std::error::Error for Torn {}

/// What was refused or lost, since attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Stacks read.
    pub stacks: u64,
    /// Stacks given up as torn.
    pub torn_stacks: u64,
    /// Stacks whose innermost frames were never confirmed.
    pub unsettled_stacks: u64,
    /// Thread lists given up as torn.
    pub torn_thread_lists: u64,
    /// Code objects that were needed while the table was full, once a pass each.
    pub codes_refused: u64,
    /// Line tables over 1 MiB: their frames have line 0.
    pub line_tables_refused: u64,
    /// Stacks that were the same as in the sample before, from end to end.
    pub same_stacks: u64,
    /// Stacks there was no room to keep, so that their next sample costs more.
    pub stacks_not_kept: u64,
}
