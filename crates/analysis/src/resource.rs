//! What a thread or task waited for, or what its time went to.
//!
//! How it works: a rule of the diagnosis that recognises a wait says which `Resource` it was for.
//! What follows from that (who may hold it, what to advise, how a sentence goes) matches on the
//! variant. The words that a person reads are one rendering of it: its `Display`, the `target` of a
//! verdict.
//!
//! What it promises: no decision rests on words, so they can be changed here and nowhere else. The
//! texts inside some variants are names from the capture: a peer's address, a path, a module.
//!
//! Missing on purpose: the holder, and how it is known.

use std::fmt;

use format::wait::HELD_BY;

/// The owner of the primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// `threading`'s.
    Threads,
    /// `asyncio`'s.
    Tasks,
}

/// Which process has a file lock that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockedBy {
    /// This one.
    ThisProcess,
    /// Another, which the kernel named.
    Other,
    /// The kernel did not say.
    Unknown,
}

/// What was waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A lock in static memory, by its name: `CACHE in libfoo.so`.
    Lock(String),
    /// A lock of a file, as the capture names it.
    FileLock {
        /// The path, and which process has it.
        name: String,
        /// The latter.
        by: LockedBy,
    },
    /// A lock of a SQLite database: the waiter asks for it again and again, so no thread wakes it.
    Database,
    /// A lock that a library asks for again and again, with pauses.
    PolledLock,
    /// A lock in the process of a multiprocessing Manager.
    ManagedLock,
    /// The lock under which `functools.cached_property` computes, up to CPython 3.11.
    CachedProperty,
    /// An Event that another thread is to set.
    Event(Of),
    /// A Condition that another thread is to notify.
    Condition(Of),
    /// A notice that another task of a native runtime is to give.
    TaskNotice,
    /// A Barrier that another thread is to reach.
    Barrier,
    /// The end of a thread.
    ThreadEnd,
    /// Nobody ended a wait of `threading`'s before its time limit.
    TimeLimit,
    /// Room in a full queue.
    Room,
    /// An item of a queue.
    Item,
    /// A permit of a Semaphore.
    Permit,
    /// The result of work that another thread or task does.
    Result,
    /// An executor whose work was not recorded.
    Executor,
    /// A message of a channel of Rust's or C's.
    Message,
    /// A condition variable of Rust's or C's.
    NativeCondition,
    /// A pool of processes.
    Processes,
    /// A notice that another process is to give.
    OtherProcess,
    /// An item of a pool that did not come before the time limit.
    NothingInTime {
        /// A thread was at work meanwhile that may have had it; else all was taken and not given
        /// back.
        at_work: bool,
    },
    /// Another process' answer.
    Peer {
        /// The peer's address, or several.
        name: String,
        /// It is the client that sent the request.
        is_client: bool,
    },
    /// A worker, which waits for another request's client.
    IdleClient {
        /// The client sends nothing; else it takes nothing.
        sends_nothing: bool,
    },
    /// What an event loop of the thread's own polls.
    EventLoop(String),
    /// A resolver of names.
    Resolver(String),
    /// What reads a pipe or terminal.
    PipeReader(String),
    /// A file.
    File(String),
    /// A child process, or what it writes.
    Child(String),
    /// A system call for which there is no rule.
    SystemCall(String),
    /// A module that is loaded.
    Module(String),
    /// Several modules, and the first of them.
    Modules {
        /// The one that took most of the time.
        first: String,
        /// How many others.
        others: usize,
    },
    /// A worker that still loads its program.
    WorkerStart,
    /// A forked child that has not run its program yet.
    ChildProgram,
    /// The program's predicate for captures.
    Predicate,
    /// Nothing: a thread without a CPU between runs of microseconds.
    ShortRuns,
    /// What a task of a native async runtime awaits: nothing reads that.
    NativeAwait {
        /// The innermost span that the request was in.
        span: Option<String>,
    },
}

/// How the name of a file lock ends that this process has.
const OURS: &str = ", held by this process";
/// What the name of an epoll descriptor has in it.
const EPOLL: &str = "[eventpoll]";

impl Resource {
    /// The file lock that the capture names so: `/srv/shop/lock, held by this process`.
    pub fn file_lock(name: String) -> Resource {
        let by = match name {
            _ if name.ends_with(OURS) => LockedBy::ThisProcess,
            _ if name.contains(HELD_BY) => LockedBy::Other,
            _ => LockedBy::Unknown,
        };
        Resource::FileLock { name, by }
    }

    /// The peer that the capture names so; of a descriptor of epoll, what that polls.
    pub fn peer(name: String, is_client: bool) -> Resource {
        match (only_registered(&name), is_epoll(&name)) {
            (Some(peer), _) => Resource::Peer { name: peer.to_owned(), is_client },
            (None, true) => Resource::EventLoop(name),
            (None, false) => Resource::Peer { name, is_client },
        }
    }

    /// Whether it is an item of a pool that was waited for in vain: no thread ended that wait.
    pub fn is_in_vain(&self) -> bool {
        matches!(self, Resource::NothingInTime { .. })
    }

    /// Whether nobody of this process ends a wait for it.
    pub fn is_of_nobody_here(&self) -> bool {
        self.is_in_vain() || matches!(self, Resource::Processes | Resource::OtherProcess)
    }

    /// Whether a waiter asks for it again and again: nobody wakes it.
    pub fn is_asked_for_again(&self) -> bool {
        matches!(self, Resource::Database | Resource::PolledLock)
    }

    /// Whether the kernel said which process has it.
    pub fn has_known_process(&self) -> bool {
        let Resource::FileLock { by, .. } = self else { return false };
        *by != LockedBy::Unknown
    }
}

/// The peer of the one socket that is registered with a descriptor of epoll: a client library's
/// selector. An event loop has what wakes it registered, too.
fn only_registered(name: &str) -> Option<&str> {
    let registered = name.strip_prefix("anon_inode:[eventpoll] of ")?;
    let is_peer = registered.starts_with("tcp ") || registered.starts_with("unix /");
    (is_peer && !registered.contains(", ") && !registered.contains(" and ")).then_some(registered)
}

/// Whether a socket's name is that of a name server; of several that are polled the first counts:
/// `udp 10.0.0.2:53, udp 10.0.0.3:53 and 2 more`.
pub fn is_name_server(name: &str) -> bool {
    let one = name.split_once(", ").map_or(name, |(one, _)| one);
    let one = one.split_once(" and ").map_or(one, |(one, _)| one);
    one.starts_with("udp ") && one.ends_with(":53")
}

/// Whether a descriptor's name is that of an epoll: what is polled behind it is not known.
pub fn is_epoll(name: &str) -> bool {
    name.contains(EPOLL)
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Resource::Lock(name)
            | Resource::FileLock { name, .. }
            | Resource::Peer { name, is_client: false }
            | Resource::EventLoop(name)
            | Resource::Resolver(name)
            | Resource::PipeReader(name)
            | Resource::File(name)
            | Resource::Child(name)
            | Resource::SystemCall(name)
            | Resource::Module(name) => name,
            Resource::Peer { name, is_client: true } => {
                return write!(f, "{name}, the request's own client");
            }
            Resource::IdleClient { sends_nothing: true } => "a client that sends nothing",
            Resource::IdleClient { sends_nothing: false } => "a client that takes nothing",
            Resource::Modules { first, others: 1 } => return write!(f, "{first} and another"),
            Resource::Modules { first, others } => return write!(f, "{first} and {others} others"),
            Resource::Database => "a SQLite database",
            Resource::PolledLock => "a lock that is asked for again and again",
            Resource::ManagedLock => "a lock of a multiprocessing Manager",
            Resource::CachedProperty => "functools.cached_property's own lock",
            Resource::Event(Of::Threads) => "threading.Event",
            Resource::Event(Of::Tasks) => "asyncio.Event",
            Resource::Condition(Of::Threads) => "threading.Condition",
            Resource::Condition(Of::Tasks) => "asyncio.Condition",
            Resource::TaskNotice => "a notice",
            Resource::Barrier => "threading.Barrier",
            Resource::ThreadEnd => "a thread's end",
            Resource::TimeLimit => "a time limit",
            Resource::Room => "room in a full queue",
            Resource::Item => "an item of a queue",
            Resource::Permit => "a permit of a Semaphore",
            Resource::Result => "a result",
            Resource::Executor => "an executor",
            Resource::Message => "a message",
            Resource::NativeCondition => "a condition",
            Resource::Processes => "a pool of processes",
            Resource::OtherProcess => "another process",
            Resource::NothingInTime { at_work: true } => "nothing came before the time limit",
            Resource::NothingInTime { at_work: false } => {
                "nothing came before the time limit, and nobody was at work"
            }
            Resource::WorkerStart => "a worker's start",
            Resource::ChildProgram => "the child to run its program",
            Resource::Predicate => "the predicate of when=",
            Resource::ShortRuns => "runs of microseconds",
            Resource::NativeAwait { .. } => "what a suspended task awaits",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_capture_become_what_they_say() {
        let lock = |name: &str| match Resource::file_lock(name.to_owned()) {
            Resource::FileLock { by, .. } => by,
            other => panic!("a file lock, not {other:?}"),
        };
        assert_eq!(lock("/srv/a.lock, held by this process"), LockedBy::ThisProcess);
        assert_eq!(lock("/srv/a.lock, held by python3 (71)"), LockedBy::Other);
        assert_eq!(lock("/srv/a.lock"), LockedBy::Unknown);
        let peer = |name: &str, is_client| Resource::peer(name.to_owned(), is_client);
        let client = peer("tcp 10.0.0.7:443", true);
        assert_eq!(client.to_string(), "tcp 10.0.0.7:443, the request's own client");
        let polled = "anon_inode:[eventpoll]";
        assert_eq!(peer(polled, true), Resource::EventLoop(polled.to_owned()), "whoever serves");
    }

    #[test]
    fn a_wait_that_nobody_here_ends_is_named_by_its_resource() {
        let vain = Resource::NothingInTime { at_work: true };
        assert!(vain.is_in_vain() && vain.is_of_nobody_here());
        assert!(!Resource::Processes.is_in_vain() && Resource::Processes.is_of_nobody_here());
        assert!(!Resource::Item.is_of_nobody_here());
    }
}
