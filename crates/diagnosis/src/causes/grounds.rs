//! What a rule's claim rests on: the heavier grounds win where several rules claim a segment.
//!
//! How it works: most rules exclude one another, since a thread is in one state and one system call
//! at a time. Where two fit, the one that says more about the time wins, never the one that is
//! earlier in a list.
//!
//! What it promises: on the same grounds no two rules claim one segment; if they ever do, the same
//! one wins each time (by id).

macro_rules! grounds {
    ($($(#[doc = $why:literal])+ $name:ident,)*) => {
        /// What a claim rests on, the lightest first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Grounds { $($(#[doc = $why])+ $name,)* }

        impl Grounds {
            /// Each, the lightest first.
            pub(crate) const ALL: &'static [Grounds] = &[$(Grounds::$name,)*];
        }
    };
}

grounds! {
    /// A request was in line behind others: true of every line.
    Line,
    /// What other threads were seen to wait for at that time.
    Others,
    /// The thread ran, or was runnable: true of all work.
    State,
    /// The kernel's counters of that time: throttling, run delay, storage traffic.
    Counters,
    /// Page faults: reading a mapped file moves storage too, while a read takes no faults.
    Faults,
    /// The system call that it waits in.
    Call,
    /// The code or peer behind the call: a pool's lock, a resolver's socket, a child's pipe.
    Code,
    /// The task awaits a lock or a permit: whose code does that says less.
    Primitive,
    /// Other threads that work for it, and ran: what is waited for is their work.
    Helpers,
    /// Work that is long by itself on a free machine; a lack of CPUs beside it says less.
    LongWork,
    /// Threads that block each other: what each waits for is only its part of that.
    Circle,
    /// How it ended, with its time limit: no thread is to blame for what it waited for.
    TimeLimit,
    /// It was in the middle of loading a module, whatever that called.
    Import,
    /// Code kept an event loop from all its tasks, whatever it did there.
    Loop,
    /// The recorder's own spans, around code that may do anything.
    Recorder,
    /// The hooks around fork: they may run inside of a predicate.
    Fork,
    /// The interpreter's callbacks: a collection may run inside of hooks, and is timed exactly.
    Collection,
    /// The whole process was stopped: nothing else could go on.
    Stopped,
}
