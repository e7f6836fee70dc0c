//! What a thread or a task did while another one waited for it: one value each, and its words.

/// What it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It was on a CPU.
    Computed,
    /// It was runnable, and no CPU was free.
    NoCpu,
    /// It loaded a module.
    LoadedModule,
    /// It was inside the kernel, which had to find memory first.
    Memory,
    /// It waited for a file system.
    Disk,
    /// It slept.
    Slept,
    /// It waited for a lock.
    Lock,
    /// The same, of a blocker: its lock is another one than the lock that is waited for.
    AnotherLock,
    /// It waited for an item of a pool.
    Pool,
    /// It waited for room in a full queue.
    Room,
    /// It waited for the GIL.
    Gil,
    /// It waited for a peer.
    Peer,
    /// It waited at a pipe.
    Pipe,
    /// It waited for a child process.
    Child,
    /// A task that awaited an executor's work.
    Executor,
    /// A task that awaited something of which no more is known.
    Unseen,
    /// No sample shows it.
    NotSeen,
}

impl Doing {
    /// As it is reported, behind "which" or "it".
    pub(crate) fn text(self) -> &'static str {
        match self {
            Doing::Computed => "computed",
            Doing::NoCpu => "got no CPU",
            Doing::LoadedModule => "loaded a module",
            Doing::Memory => "waited for the kernel to provide memory",
            Doing::Disk => "waited for the disk",
            Doing::Slept => "slept",
            Doing::Lock => "waited for a lock",
            Doing::AnotherLock => "waited for another lock",
            Doing::Pool => "waited for a pool",
            Doing::Room => "waited for room in a full queue",
            Doing::Gil => "waited for the GIL",
            Doing::Peer => "waited for a peer",
            Doing::Pipe => "waited on a pipe",
            Doing::Child => "waited for a child process",
            Doing::Executor => "waited for an executor",
            Doing::Unseen => "waited for something that was not seen",
            Doing::NotSeen => "did something that was not seen",
        }
    }
}
