//! A program of the simulator: functions of steps, the things they share, and the host they run on.
//!
//! How it works: a program is data. `draw` makes one from a seed, `show` prints it as a script, the
//! engine carries it out, `judge::shrink` takes parts of it away. A function has a name, a file and
//! steps, each with its line; a step computes, waits, or calls another function.
//!
//! What it promises: a program says nothing of time but lengths, so that the same program gives the
//! same run for the same seed. What is missing on purpose: data, branches on data, exceptions.

pub mod defects;
pub mod draw;
pub mod lib_frames;
pub mod maker;
pub mod show;

use lib_frames::Lib;

/// Index of a function in `Program::functions`.
pub type FnId = usize;
/// Index of a shared thing in `Program::things`.
pub type ThingId = usize;

/// One microsecond and one millisecond, in ns.
pub const US: u64 = 1_000;
/// One millisecond, ns.
pub const MS: u64 = 1_000_000;
/// One second, ns.
pub const SECOND: u64 = 1_000_000_000;

/// A length that is drawn anew each time: `mean` plus or minus up to `spread` parts of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Middle, ns.
    pub mean: u64,
    /// Largest part of it that is added or taken off, percent.
    pub spread: u64,
}

/// A length that varies by a tenth.
pub const fn about(mean: u64) -> Span {
    Span { mean, spread: 10 }
}

/// How a call into C treats the interpreter's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Native {
    /// It keeps the GIL to its end: sorting, regular expressions, `json.dumps`.
    Keeps,
    /// It releases the GIL: hashes, compression, a database.
    Releases,
    /// It reads from a device and keeps the GIL meanwhile.
    Blocks,
}

/// What a thread waits for outside of the process; decides the system call that samples see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outside {
    /// `time.sleep`.
    Sleep,
    /// `threading.Event().wait(limit)` that nobody sets.
    Nap,
    /// An answer on a socket.
    Answer,
    /// A connection being set up.
    Connect,
    /// A name being resolved.
    Resolve,
    /// Room in a pipe.
    PipeRoom,
    /// `fsync`.
    Sync,
    /// `read` of a regular file that is not cached.
    Read,
    /// The end of a child process.
    Child,
    /// A lock on a file that another process has.
    FileLock,
    /// Memory to be read from storage.
    MajorFault,
}

/// One thing a function does.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Op {
    /// Calls a function.
    Call(FnId),
    /// Does the same again.
    Repeat(u32, Vec<Step>),
    /// Does the same until the end.
    Forever(Vec<Step>),
    /// Only in requests whose number, divided by `of`, leaves `at`.
    Every { of: u64, at: u64, body: Vec<Step> },
    /// Runs bytecode.
    Compute(Span),
    /// Runs C code.
    Native(Span, Native),
    /// Waits for something outside of the process; the text names it (peer, path, program).
    Wait(Outside, Span, String),
    /// `with lock:`
    With(ThingId, Vec<Step>),
    /// `acquire(timeout=limit)` of a lock or a semaphore without `with`; the body runs only if it
    /// was had.
    ByHand(ThingId, Option<Span>, Vec<Step>),
    /// Takes an item from a queue; a limit of 0 is none.
    Get(ThingId),
    /// Puts an item into a queue, and waits for room if it is bounded.
    Put(ThingId),
    /// Hands a function to an executor; `wait` for its result.
    Submit { to: ThingId, function: FnId, wait: bool },
    /// Starts a thread with this function and waits for its end.
    Join(FnId),
    /// Starts a thread with this function; `JoinLast` waits for the one started last.
    Start(FnId),
    /// Waits for the end of the thread that was started last.
    JoinLast,
    /// Waits until the event is set.
    EventWait(ThingId),
    /// Sets the event; its waiters go on, and it is clear again.
    EventSet(ThingId),
    /// A garbage collection.
    Collect(Span),
    /// A fork whose page tables take this long to copy.
    Fork(Span),
    /// Loads the module whose top level is this function.
    Import(Span, FnId),
    /// Touches fresh memory: so long in the kernel.
    Touch(Span),
    /// Reads and writes so much that a core is busy in the kernel.
    Copy(Span),
    /// Asks with a time limit; `again`: whenever that ran out it asks anew at the same place.
    Ask { of: Asked, limit: Span, again: bool },
    /// Takes a permit or an item, to be given back by another function.
    Take(ThingId),
    /// Gives back what `Take` took.
    GiveBack(ThingId),
    /// Has a lock inside of C code, which names no owner.
    Inside(ThingId, Vec<Step>),
    /// Has a read-write lock of C code for reading.
    Reading(ThingId, Vec<Step>),
    /// Has it for writing.
    Writing(ThingId, Vec<Step>),
    /// A transaction of an embedded database: its lock is asked for again and again, with pauses.
    Transaction(ThingId, Vec<Step>),
    /// A native library's own threads work for so long, all together; the caller waits for them.
    Parallel(ThingId, Span),
    /// Tasks only: starts another task.
    Spawn(FnId),
    /// Tasks only: awaits something, as `Wait` and the like do for threads.
    Await(Awaiting),
    /// Tasks only: `async with lock:`
    AsyncWith(ThingId, Vec<Step>),
}

/// What is asked for with a time limit.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// An item of a queue.
    Item(ThingId),
    /// An Event or a Condition.
    Notice(ThingId),
    /// An answer of this peer, which comes after so long, however often its socket is polled.
    Answer(Span, String),
}

/// What a task awaits.
#[derive(Clone, Debug, PartialEq)]
pub enum Awaiting {
    /// `asyncio.sleep`.
    Sleep(Span),
    /// An answer on a stream of this peer.
    Answer(Span, String),
    /// A connection to this peer.
    Connect(Span, String),
    /// An item of a queue of tasks.
    Get(ThingId),
    /// A function that an executor's thread runs.
    Executor(ThingId, FnId),
}

/// A step and its line.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Line in the function's file.
    pub line: u32,
    /// What is done.
    pub op: Op,
}

/// A function of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its qualified name.
    pub name: String,
    /// Its file, with its folder.
    pub file: String,
    /// Its first line.
    pub first_line: u32,
    /// It is a coroutine.
    pub is_task: bool,
    /// What it does.
    pub body: Vec<Step>,
}

/// What threads or tasks share.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Thing {
    /// `threading.Lock`, whose holder shows inside `with` only.
    Lock,
    /// `threading.RLock` or a Condition's lock: names its owner.
    RLock,
    /// `threading.Semaphore` with so many permits.
    Semaphore(u32),
    /// `queue.Queue` with so many items in it, and room for so many.
    Queue { items: u32, room: Option<u32> },
    /// `ThreadPoolExecutor` with so many workers.
    Executor(u32),
    /// `threading.Event`.
    Event,
    /// `threading.Condition`.
    Condition,
    /// A lock of C code: nothing shows its holder.
    Hidden,
    /// A read-write lock of C code: readers wait while a writer has it or waits for it.
    ReadWrite,
    /// The lock of an embedded database, which nobody is woken for.
    Database,
    /// A native library with so many threads of its own.
    Library(u32),
    /// `asyncio.Lock`.
    TaskLock,
    /// `asyncio.Semaphore` with so many permits.
    TaskSemaphore(u32),
    /// `asyncio.Queue` with so many items.
    TaskQueue(u32),
}

/// Work of other processes on the same CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbour {
    /// How long it computes at a time.
    pub busy: Span,
    /// How long it pauses between.
    pub idle: Span,
}

/// The machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// CPUs.
    pub cpus: u32,
    /// Other processes.
    pub neighbours: Vec<Neighbour>,
    /// CPU time the container may use in each 100 ms.
    pub quota_ns: Option<u64>,
    /// The process is stopped: from when, for how long.
    pub stops: Vec<(u64, u64)>,
}

/// How requests reach functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// A thread for each connection (`http.server`).
    Threads,
    /// A thread accepts, workers of an executor serve (gunicorn's `gthread`).
    Workers,
    /// An event loop (uvicorn).
    Loop,
    /// One thread that accepts a connection and serves it before it takes the next one (gunicorn's
    /// `sync`).
    Sync,
}

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Load {
    /// Clients that wait for their answer, and think for so long.
    Closed { clients: u32, think_ns: u64 },
    /// So often on average, whatever becomes of the others.
    Open { every_ns: u64 },
}

/// Clients that connect and send nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Silent {
    /// The first comes then, and the next ones so far apart.
    pub every_ns: u64,
    /// How long each says nothing before it is gone.
    pub length: Span,
}

/// A thread that runs beside those of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// Its name.
    pub name: String,
    /// What it runs; on an event loop, a coroutine of a task of its own.
    pub function: FnId,
}

/// The right answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The cause; empty for a healthy program.
    pub cause: String,
    /// Other causes that are right as well.
    pub accept: Vec<String>,
    /// Functions that are right as the place; none: it is not judged.
    pub places: Vec<String>,
    /// Functions that are right as the culprit; none: it is not judged.
    pub culprits: Vec<String>,
    /// Answers that are as right, of a program with several defects.
    pub also: Vec<Answer>,
}

/// A program, its host and its load.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The seed that what happens in it is drawn from.
    pub seed: u64,
    /// What is wrong with it, by the name of the defect.
    pub defect: String,
    /// Its functions.
    pub functions: Vec<Function>,
    /// What they share.
    pub things: Vec<Thing>,
    /// The function that answers requests.
    pub handler: FnId,
    /// Threads (or tasks) beside.
    pub beside: Vec<Beside>,
    /// How requests reach it.
    pub server: Server,
    /// Threads (or workers) that serve.
    pub serving: u32,
    /// How requests come.
    pub load: Load,
    /// Clients that keep a worker of `Server::Sync`.
    pub silent: Option<Silent>,
    /// The machine.
    pub host: Host,
    /// How long a request may take, ns.
    pub slow_ns: u64,
    /// How long it runs, ns.
    pub length_ns: u64,
    /// Part of the blocks of records that are lost, percent.
    pub loss_percent: u64,
    /// The right answer.
    pub answer: Answer,
}

/// The folder of the program, of installed packages and of the interpreter's library.
pub const HOME: &str = "/srv/app";
/// Installed packages.
pub const SITE: &str = "/srv/venv/lib/python3.11/site-packages";
/// The interpreter's library.
pub const STDLIB: &str = "/usr/lib/python3.11";

impl Outside {
    /// The frames of the interpreter's library inside which a thread waits, outermost first.
    pub fn frames(self) -> &'static [Lib] {
        match self {
            Outside::Nap => lib_frames::EVENT_WAIT,
            Outside::Answer => lib_frames::READ_ANSWER,
            Outside::Connect => lib_frames::CONNECT,
            Outside::Resolve => lib_frames::RESOLVE,
            Outside::Child => lib_frames::CHILD,
            _ => &[],
        }
    }
}
