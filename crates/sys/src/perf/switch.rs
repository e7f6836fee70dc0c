//! A context switch, a wakeup, a gap: what a stream delivers, in plain types.

/// What happened to a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SwitchKind {
    /// It got a CPU.
    In,
    /// It gave its CPU up: it blocked.
    Out,
    /// Its CPU was taken away while it could have gone on.
    Preempted,
    /// It became runnable: its wait was ended. Recorded of threads that are followed.
    Woken {
        /// The waker.
        by: Waker,
    },
    /// Of no thread (`tid` is 0): records of this CPU are missing, or may be, from this time on.
    Lost {
        /// Until then; `u64::MAX`: until the drain that delivers this is over (`released_ns`).
        until_ns: u64,
    },
}

/// What ended a thread's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Waker {
    /// An interrupt: a timer, a device, the network.
    Kernel,
    /// A thread of this process, by its tid.
    Thread(u32),
    /// Another process or a kernel thread, by its pid.
    Process(u32),
}

/// One context switch of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// CLOCK_MONOTONIC, as `clock::now_ns`.
    pub t_ns: u64,
    /// The thread.
    pub tid: u32,
    /// The CPU it came to or left.
    pub cpu: u16,
    /// Which way.
    pub kind: SwitchKind,
}
