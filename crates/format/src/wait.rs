//! What a blocked thread waits for, as one byte in a sample record.
//!
//! The samplers derive it from the system call that the thread is blocked in and its arguments; the
//! diagnosis reads it. The numbers are part of the capture format: never reuse one.

use crate::words::{header, Kind};

/// In a sample's target, between the path of a file whose lock is waited for and its holder:
/// `/run/x.lock, held by process 4711 (spooler)`, `..., held by this process`.
pub const HELD_BY: &str = ", held by ";

/// The begin of a sample's target that is a child process: `child process sleep`.
pub const CHILD: &str = "child process ";
/// A target that is a pidfd, by its name in /proc: of a child whose name is not known, or of a
/// process that is no child.
pub const PIDFD: &str = "anon_inode:[pidfd]";
/// The begin of a target that is a pipe whose other end is a child's.
pub const PIPE_OF_CHILD: &str = "a pipe of child process ";
/// The begin of a target that is a pipe whose other end is the parent's.
pub const PIPE_OF_PARENT: &str = "a pipe of parent process ";

macro_rules! wait_kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// Why a thread is off the CPU, as far as its system call shows.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum WaitKind { $($(#[$doc])* $name = $number,)* }

        impl WaitKind {
            /// All kinds, in the order of their numbers.
            pub const ALL: &'static [WaitKind] = &[$(WaitKind::$name,)*];

            /// The kind with this number; a number from a newer version reads as `Other`.
            pub fn from_u8(number: u8) -> WaitKind {
                match number { $($number => WaitKind::$name,)* _ => WaitKind::Other }
            }

            /// The word used in `dashcam show` and in evidence.
            pub fn text(self) -> &'static str {
                match self { $(WaitKind::$name => $text,)* }
            }
        }
    };
}

wait_kinds! {
    /// Not observed, or the thread ended before it could be observed.
    Unknown = 0, "unknown";
    /// On a CPU, or runnable.
    Running = 1, "running";
    /// nanosleep, clock_nanosleep, or select/poll on nothing with a time limit.
    Sleep = 2, "sleep";
    /// A futex that is not the interpreter's GIL.
    Futex = 3, "futex";
    /// The futex of the interpreter's GIL.
    Gil = 4, "gil";
    /// read/recv on a socket.
    SocketRead = 5, "socket read";
    /// write/send on a socket.
    SocketWrite = 6, "socket write";
    /// connect, or poll for writing on a socket that is not connected yet.
    Connect = 7, "connect";
    /// accept.
    Accept = 8, "accept";
    /// poll/select/epoll_wait on at least one descriptor.
    Poll = 9, "poll";
    /// read of a regular file.
    FileRead = 10, "file read";
    /// write to a regular file.
    FileWrite = 11, "file write";
    /// fsync and relatives.
    FileSync = 12, "file sync";
    /// open, stat, rename, getdents: metadata of a file system.
    FileOpen = 13, "file metadata";
    /// read from a pipe.
    PipeRead = 14, "pipe read";
    /// write to a pipe.
    PipeWrite = 15, "pipe write";
    /// write to a terminal.
    TtyWrite = 16, "terminal write";
    /// flock, fcntl locks.
    FileLock = 17, "file lock";
    /// wait4, waitid.
    ChildWait = 18, "child wait";
    /// sched_yield.
    Yield = 19, "yield";
    /// mmap, munmap, brk, madvise, mprotect.
    Memory = 20, "memory map";
    /// Blocked in the kernel outside a system call: a page fault, a signal stop.
    Fault = 21, "page fault";
    /// Another system call; its number is in the record.
    Other = 22, "system call";
}

macro_rules! await_kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal;)*) => {
        /// What a suspended task of an event loop awaits.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum AwaitKind { $($(#[$doc])* $name = $number,)* }

        impl AwaitKind {
            /// All kinds, in the order of their numbers.
            pub const ALL: &'static [AwaitKind] = &[$(AwaitKind::$name,)*];

            /// The kind with this number; a number from a newer version reads as `Future`.
            pub fn from_u8(number: u8) -> AwaitKind {
                match number { $($number => AwaitKind::$name,)* _ => AwaitKind::Future }
            }

            /// The word used in evidence.
            pub fn text(self) -> &'static str {
                match self { $(AwaitKind::$name => $text,)* }
            }
        }
    };
}

await_kinds! {
    /// A future; it is not known what will complete it.
    Future = 0, "future";
    /// Not suspended: its code runs at this instant.
    Running = 1, "running";
    /// Awaits nothing: it is queued in the event loop.
    Ready = 2, "ready";
    /// `asyncio.sleep`.
    Sleep = 3, "sleep";
    /// `asyncio.Lock`.
    Lock = 4, "lock";
    /// `asyncio.Semaphore`.
    Semaphore = 5, "semaphore";
    /// `asyncio.Condition`.
    Condition = 6, "condition";
    /// `asyncio.Event`, `asyncio.Barrier`.
    Event = 7, "event";
    /// `asyncio.Queue`.
    Queue = 8, "queue";
    /// Work handed to an executor.
    Executor = 9, "executor";
    /// Data from or room in a stream.
    Socket = 10, "socket";
    /// A connection being made.
    Connect = 11, "connect";
    /// A name being resolved.
    Resolve = 12, "resolve";
    /// A child process.
    Child = 13, "child process";
    /// A future of a native async runtime; its stack says what it waits for.
    Native = 14, "native future";
}

/// How the holder of a lock became known; a byte beside the wait kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HolderSource {
    /// Nothing known.
    None = 0,
    /// Read from the lock's owner field: exact at that instant.
    OwnerField = 1,
    /// A frame of that thread holds the lock's `__exit__` inside a `with` block: measured, not
    /// proven.
    WithBlock = 2,
    /// A suspended task refers to what is awaited, and its code names the method that ends the
    /// wait: inferred.
    Refers = 3,
    /// That thread holds nothing: its end is waited for, and the object whose `join` was called
    /// names it. Measured.
    Joined = 4,
    /// What `holder` stands for woke the task: it ended the wait. Measured.
    Woke = 5,
}

impl HolderSource {
    /// The source with this number; an unknown number reads as `None`.
    pub fn from_u8(number: u8) -> HolderSource {
        match number {
            1 => HolderSource::OwnerField,
            2 => HolderSource::WithBlock,
            3 => HolderSource::Refers,
            4 => HolderSource::Joined,
            5 => HolderSource::Woke,
            _ => HolderSource::None,
        }
    }
}

/// The await of a task at one instant: its own frames and those of the tasks that await it, up to
/// the request. A request that awaits several tasks has several records at the same instant.
///
/// With `how` = `Woke` and `request` = 0 it is the thread that woke a task, at that time: `stack`
/// is its stack, `target` its tid, `holder` the request it worked for, 0 none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Await {
    /// When it was observed.
    pub t_ns: u64,
    /// The request; 0 for a task that was sampled because a request's task waits for it.
    pub request: u64,
    /// The task's address: distinguishes tasks that live at the same time.
    pub task: u64,
    /// Stack id, 0 when there is none.
    pub stack: u32,
    /// What it awaits.
    pub kind: AwaitKind,
    /// How `holder` is known.
    pub how: HolderSource,
    /// Address of the task that holds what is awaited, 0 unknown.
    pub holder: u64,
    /// The name id of the peer with `record::TARGET_IS_NAME` set in it, or 0.
    pub target: u64,
    /// Time limit of the await in ns, 0 none or not known.
    pub timeout_ns: u64,
}

impl Await {
    /// As words.
    pub fn encode(&self) -> [u64; 8] {
        [
            header(Kind::Await, 8, 0, self.stack),
            self.t_ns,
            self.request,
            self.task,
            u64::from(self.kind as u8) | (u64::from(self.how as u8) << 8),
            self.holder,
            self.target,
            self.timeout_ns,
        ]
    }

    pub(crate) fn decode(stack: u32, words: &[u64]) -> Option<Await> {
        let &[t_ns, request, task, what, holder, target, timeout_ns] = words else {
            return None;
        };
        let (kind, how) =
            (AwaitKind::from_u8(what as u8), HolderSource::from_u8((what >> 8) as u8));
        Some(Await { t_ns, request, task, stack, kind, how, holder, target, timeout_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{decode, Record};

    #[test]
    fn every_kind_reads_back_from_its_number() {
        for kind in WaitKind::ALL {
            assert_eq!(WaitKind::from_u8(*kind as u8), *kind);
        }
        assert_eq!(WaitKind::from_u8(250), WaitKind::Other);
        for kind in AwaitKind::ALL {
            assert_eq!(AwaitKind::from_u8(*kind as u8), *kind);
        }
    }

    #[test]
    fn an_await_survives_encoding() {
        let seen = Await {
            t_ns: 1,
            request: 2,
            task: 3,
            stack: 4,
            kind: AwaitKind::Semaphore,
            how: HolderSource::WithBlock,
            holder: 5,
            target: 6,
            timeout_ns: 7,
        };
        assert_eq!(decode(&seen.encode()), Some((8, Record::Await(seen))));
    }
}
