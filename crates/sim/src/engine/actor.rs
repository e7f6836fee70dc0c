//! What carries out steps: a thread, or a task that an event loop's thread mounts.
//!
//! How it works: a `Body` is a stack of frames and a queue of `Micro` operations. The next step of
//! the innermost frame is expanded into micro operations; each of these takes no time, takes CPU
//! time, or blocks. A thread has one body of its own; an event loop's thread exchanges it for a
//! task's while that runs.
//!
//! What it promises: the frames of a body at any instant are what a sampler would read of it.

use std::collections::VecDeque;

use format::wait::{AwaitKind, WaitKind};

use crate::program::lib_frames::Lib;
use crate::program::{FnId, Outside, Span, Step, ThingId};
use crate::random::Random;

/// The period of a container's quota.
pub const PERIOD_NS: u64 = 100 * crate::program::MS;

/// Index of a thread in the world.
pub type Tid = usize;

/// Why a thread uses CPU time, where that has a cause of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// Its work.
    Work,
    /// The garbage collector.
    Collect,
    /// `fork`.
    Fork,
    /// A module being loaded.
    Import,
    /// Memory touched for the first time.
    Touch,
    /// Data moved from or to storage.
    Copy,
}

/// How CPU time is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpu {
    /// Bytecode: needs the GIL and gives it away when asked.
    Bytecode,
    /// C code that keeps the GIL.
    Keeps,
    /// Code without the GIL.
    Free,
}

/// What a blocked thread waits on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum On {
    /// Time, or something outside of the process that takes a given time.
    Outside(Outside),
    /// The interpreter's lock.
    Gil,
    /// A lock.
    Lock(ThingId),
    /// A permit.
    Permit(ThingId),
    /// An item of a queue.
    Item(ThingId),
    /// Room in a queue.
    Room(ThingId),
    /// An event.
    Event(ThingId),
    /// A job of an executor.
    Job(usize),
    /// The end of a thread.
    End(Tid),
    /// The next request of its connection.
    Request,
    /// Connections to accept, or an event loop's next event.
    Poll,
    /// Work for an executor's worker, or for a native library's thread.
    Work(ThingId),
    /// What a native library's threads do for a call.
    Call(usize),
    /// What another client than the request's sends.
    Client,
    /// The sampler's next pass, a neighbour's pause.
    Rest,
}

/// A blocking call.
#[derive(Clone, Debug)]
pub struct Wait {
    /// What is waited on.
    pub on: On,
    /// The call, as samples see it.
    pub kind: WaitKind,
    /// When it ends at the latest.
    pub until: Option<u64>,
    /// Samples see the time limit.
    pub limited: bool,
    /// That limit, where the wait ends before it, ns from its begin; 0: its end is the limit.
    pub limit_ns: u64,
    /// The peer, path or program behind it.
    pub target: Option<u32>,
}

/// What a suspended task awaits.
#[derive(Clone, Copy, Debug)]
pub struct Awaits {
    /// As records have it.
    pub kind: AwaitKind,
    /// What is awaited: a lock, a permit, an item, a job; `Outside` for time and peers.
    pub on: On,
    /// When it ends, where time alone ends it.
    pub until: Option<u64>,
    /// The peer.
    pub target: Option<u32>,
    /// Its time limit is known to samples.
    pub limited: bool,
}

/// What is tried, and blocks where it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// A lock; `by_with`: its holder shows.
    Lock { thing: ThingId, by_with: bool },
    /// A read-write lock, for reading.
    Read(ThingId),
    /// The same for writing.
    Write(ThingId),
    /// A permit.
    Permit(ThingId),
    /// An item of a queue.
    Item(ThingId),
    /// Room in a queue, to put an item there.
    Room(ThingId),
    /// A set event.
    Event(ThingId),
    /// The result of a job.
    Job(usize),
    /// The end of a thread.
    End(Tid),
    /// The end of what a native library's threads do for a call.
    Call(usize),
}

/// An operation that is one of these: timeless, CPU time, a block.
#[derive(Clone, Debug)]
pub enum Micro<'p> {
    /// Uses the CPU.
    Cpu { left: u64, how: Cpu },
    /// Takes the GIL.
    TakeGil,
    /// Releases it; `asked`: since when somebody waits, until the waiter has it.
    DropGil { asked: bool },
    /// Blocks.
    Block(Wait),
    /// Blocks; `until` of it is how long.
    Sleep(Wait),
    /// Tries, and blocks until it succeeds or the time limit is over; `kernel`: the GIL is released
    /// already.
    Try { attempt: Attempt, until: Option<u64>, kernel: bool },
    /// Tries for a database's lock, and where it is taken pauses and tries again: so often yet.
    AskBusy { thing: ThingId, asked: usize },
    /// Waits for a request, a connection or a job, without the GIL.
    Await(On),
    /// As `Push`, unless the last attempt ran into its time limit.
    PushIfHad { steps: &'p [Step], end: End },
    /// Asks anew if the last attempt ran into its time limit.
    AskAgain { attempt: Attempt, limit: Span, frames: &'static [Lib] },
    /// Hands work to a native library's threads and waits for them.
    Parallel { to: ThingId, left: u64 },
    /// Hands a function to an executor; `wait`: for its result.
    Submit { to: ThingId, function: FnId, wait: bool },
    /// Tasks: hands a function to an executor and awaits its result.
    Hand { to: ThingId, function: FnId },
    /// Starts a thread, and may wait for its end.
    Start { function: FnId, join: bool },
    /// Waits for the end of the thread that was started last.
    JoinLast,
    /// Enters library frames.
    Enter(&'static [Lib]),
    /// Begins a block of steps.
    Push { steps: &'p [Step], end: End },
    /// Does something that takes no time.
    Do(Effect),
    /// A task gives its thread back until what it awaits is there.
    Suspend(Awaits),
}

/// Something that takes no time.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// Releases a lock.
    Unlock(ThingId),
    /// Releases a read-write lock.
    UnlockShared(ThingId),
    /// Gives a permit back.
    GiveBack(ThingId),
    /// Sets an event.
    Set(ThingId),
    /// The time from here on has this reason.
    Why(Why),
    /// A collection begins or ends.
    Collection(bool),
    /// A fork begins or ends.
    Fork(bool),
    /// Page faults and storage traffic of the kernel's work that follows.
    Usage { faults: u64, storage_kib: u64, system_ns: u64 },
    /// A module's top level is on the stack.
    Module(Option<FnId>),
    /// The request at hand begins to be handled.
    Begin,
    /// It is answered.
    Finish,
    /// A job of an executor begins.
    JobBegins(usize),
    /// It ends.
    JobEnds(usize),
    /// Hands the accepted request to the workers.
    Accept,
    /// The one thread of a server takes up the next connection.
    TakeUp,
    /// A task starts another one.
    Spawn(FnId),
    /// A native library's thread has done its share of a call.
    ShareDone(usize),
    /// The sampler's pass begins.
    Pass,
    /// It samples the next thread of the pass, if there is one.
    Turn,
    /// It samples tasks, and ends.
    PassEnds,
    /// The event loop goes on.
    LoopTurn,
    /// With this task.
    Mount(usize),
    /// The task ends.
    TaskEnds,
}

/// What happens behind the last step of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing.
    Plain,
    /// So many times more.
    Again(u32),
    /// For ever.
    Forever,
    /// The lock is released.
    Unlock(ThingId),
    /// The read-write lock is.
    UnlockShared(ThingId),
    /// The permit is given back.
    GiveBack(ThingId),
}

/// Steps that are under way.
#[derive(Clone, Debug)]
pub struct Block<'p> {
    /// The steps.
    pub steps: &'p [Step],
    /// The next one.
    pub at: usize,
    /// What comes behind.
    pub end: End,
}

/// A function that is under way.
#[derive(Clone, Debug)]
pub struct Frame<'p> {
    /// The function.
    pub function: FnId,
    /// The line of its present step.
    pub line: u32,
    /// Its blocks, the innermost last.
    pub blocks: Vec<Block<'p>>,
}

/// Frames and operations of a thread or a task.
#[derive(Clone, Debug, Default)]
pub struct Body<'p> {
    /// Library frames under the program's.
    pub base: &'static [Lib],
    /// The program's frames.
    pub frames: Vec<Frame<'p>>,
    /// Library frames above them.
    pub extra: &'static [Lib],
    /// The module that is being loaded, above these.
    pub module: Option<FnId>,
    /// Operations before the next step.
    pub micros: VecDeque<Micro<'p>>,
    /// The request it works for.
    pub request: Option<usize>,
    /// Why it uses CPU time.
    pub why: Option<Why>,
    /// What its present attempt waits for, if it had to.
    pub waits_for: Option<On>,
    /// The last attempt ran into its time limit.
    pub timed_out: bool,
    /// The job that it works on.
    pub job: Option<usize>,
    /// The thread it started last.
    pub child: Option<Tid>,
}

impl Body<'_> {
    /// Whether what it uses CPU time for is done in the kernel.
    pub fn is_in_kernel(&self) -> bool {
        matches!(self.why, Some(Why::Touch | Why::Copy | Why::Fork))
    }
}

/// What a thread does when it has no frames left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Serves the requests of a connection.
    Serves(usize),
    /// Works for an executor.
    Works(ThingId),
    /// Accepts connections for the workers.
    Accepts,
    /// Accepts connections and serves them, one after the other.
    Sync,
    /// Works for a native library.
    Native(ThingId),
    /// Runs the event loop.
    Loops,
    /// Ends.
    Once,
    /// Another process's.
    Neighbour(usize),
    /// The recorder's sampler.
    Sampler,
}

/// Whether a thread has a CPU.
#[derive(Clone, Debug)]
pub enum State {
    /// Blocked.
    Blocked(Wait),
    /// Runnable.
    Ready,
    /// On this CPU.
    Running(usize),
    /// Ended.
    Gone,
}

/// Counters of the kernel's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// CPU time.
    pub cpu_ns: u64,
    /// Time runnable without a CPU, up to the last time it got one.
    pub run_delay_ns: u64,
    /// How often it got one.
    pub slices: u64,
    /// Page faults.
    pub faults: u64,
    /// Read and written.
    pub storage_kib: u64,
    /// Of the CPU time, in the kernel.
    pub system_ns: u64,
}

/// A thread.
pub struct Thread<'p> {
    /// The kernel's id.
    pub id: u32,
    /// What it does when nothing is left to do.
    pub role: Role,
    /// Chance of its own.
    pub random: Random,
    /// What it does.
    pub body: Body<'p>,
    /// The task it has mounted.
    pub task: Option<usize>,
    /// Whether it has a CPU.
    pub state: State,
    /// Since when.
    pub since: u64,
    /// Separates its timers.
    pub epoch: u64,
    /// It runs at this point of the fair scheduler's time.
    pub fair_ns: u64,
    /// It has the GIL.
    pub has_gil: bool,
    /// Left the CPU at; preempted.
    pub out: (u64, bool),
    /// The kernel's counters.
    pub used: Counters,
    /// A delay that has not ended.
    pub owed_delay_ns: u64,
    /// The waker of its last wait.
    pub woken_by: Option<Tid>,
    /// It was born at.
    pub born_ns: u64,
    /// A wake-up came while the process was stopped.
    pub woken_while_stopped: bool,
}

impl Thread<'_> {
    /// Whether it is of the recorded process.
    pub fn is_inside(&self) -> bool {
        !matches!(self.role, Role::Neighbour(_))
    }
}
