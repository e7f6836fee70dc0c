//! What a thread in a futex wait waits for: the object that all its waiters share, and the holder.
//!
//! Plain data; `locks` and `joins` fill it in.

/// The file of Python's own Condition, Event and Thread.
pub(crate) const THREADING: &str = "/threading.py";

/// How the holder of a lock is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HowKnown {
    /// The lock itself names its owner (`RLock`).
    OwnerField,
    /// The thread is inside the lock's `with` block (plain `Lock`).
    WithBlock,
    /// Not a lock: the thread is the one whose end `Thread.join` waits for.
    Joined,
}

/// The thread that holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The holder's native id.
    pub tid: u32,
    /// How that is known.
    pub how: HowKnown,
}

/// What a thread in a futex wait waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitedFor {
    /// The address of the object that all waiters for the same have in common: a lock, a Condition,
    /// a queue, the `Thread` that is joined.
    pub object: usize,
    /// The holder, or the thread that is joined, if it is known.
    pub holder: Option<LockHolder>,
}

impl WaitedFor {
    pub(crate) fn held(object: usize, tid: u32, how: HowKnown) -> WaitedFor {
        WaitedFor { object, holder: Some(LockHolder { tid, how }) }
    }
}
