//! A wait in plain types: its kind, its descriptors or futex, its time limit.
//!
//! How it works: each family of calls builds one from a call's arguments (`super::meaning`).
//! What it promises: plain values; nothing here reads memory or asks the kernel.

use super::timeout::Timeout;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// Time to pass.
    Sleep,
    /// A lock, condition or other word in memory.
    Futex,
    /// Data from a socket.
    SocketRead,
    /// Room to send to a socket.
    SocketWrite,
    /// A connection being made.
    Connect,
    /// A client to connect.
    Accept,
    /// Any of several descriptors to become ready.
    Poll,
    /// Data from a file or directory.
    FileRead,
    /// A file to take data.
    FileWrite,
    /// Data to reach the disk.
    FileSync,
    /// Disk metadata: open, stat, list, rename, unlink, ...
    FileOpen,
    /// Another process or thread to write to a pipe.
    PipeRead,
    /// Another process or thread to read from a pipe.
    PipeWrite,
    /// A terminal to take output.
    TtyWrite,
    /// A lock on a file.
    FileLock,
    /// A child process to end, or after vfork to exec.
    ChildWait,
    /// Its turn, having yielded the CPU.
    Yield,
    /// The memory map of the process: the lock on it, or the work itself.
    Memory,
    /// Another call, by number; `OUTSIDE_CALL` and `RUNNING` for no call at all.
    Other(i64),
}

/// In `WaitKind::Other`: blocked outside any call, by a page fault or a stop signal.
pub const OUTSIDE_CALL: i64 = -1;

/// In `WaitKind::Other`: not blocked.
pub const RUNNING: i64 = -2;

/// The number of descriptors of a set that are listed.
pub const NAMED: usize = 3;

/// A descriptor of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polled {
    /// The descriptor.
    pub fd: i32,
    /// Whether it is waited for until it can be written to, and for nothing else.
    pub writes: bool,
}

/// What a blocked call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The kind.
    pub kind: WaitKind,
    /// The descriptor, or the first of several.
    pub fd: Option<i32>,
    /// How many descriptors are waited for; an epoll instance counts as one.
    pub fds: u32,
    /// The first of those that `poll` or `select` waits for, in the order of the call; none for
    /// other calls.
    pub set: [Option<Polled>; NAMED],
    /// Address of the futex, or the first of several: the identity of the lock.
    pub futex: Option<u64>,
    /// How long it will wait at most: the length that the caller gave, or, where the call takes a
    /// deadline (all futex waits but FUTEX_WAIT, CPython's sleep), the time left until it.
    pub timeout_ns: Option<u64>,
    /// Whether it waits for a limited time, also when its length could not be read.
    pub timed: bool,
}

impl Wait {
    pub(super) fn of(kind: WaitKind) -> Wait {
        let set = [None; NAMED];
        Wait { kind, fd: None, fds: 0, set, futex: None, timeout_ns: None, timed: false }
    }

    pub(super) fn on(kind: WaitKind, fd: i32) -> Wait {
        Wait { fd: Some(fd), fds: 1, ..Wait::of(kind) }
    }

    pub(super) fn limited(self, timeout: Timeout) -> Wait {
        Wait {
            timed: timeout != Timeout::None,
            timeout_ns: match timeout {
                Timeout::Ns(ns) => Some(ns),
                _ => None,
            },
            ..self
        }
    }
}
