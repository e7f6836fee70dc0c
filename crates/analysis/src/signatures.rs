//! What code that waits waits for: the interpreter's functions, and the signatures made of them.
//!
//! How it works: `Stdlib` names the functions of the interpreter's library that say something, each
//! with its file, in one table. A signature is a pattern of a stack and the resource that a thread
//! in a futex waits for there; the first row of a list that fits decides. `threading` waits for
//! everything in a Condition, so most patterns begin there.
//!
//! What it promises: a program's file of the same name as one of the interpreter's matches nothing.
//!
//! Missing on purpose: libraries' pools and the code of Rust and C, which have no fixed names
//! (`pool_wait`).

use capture::read::Frame;

use crate::frames::{Frames, Owner};
use crate::resource::{Of, Resource};

use Pattern::{Any, CalledByUser, Inner, WaitBelow, Within};
use Stdlib::{
    BarrierWait, ProcessNotice, ProcessPool, ProcessQueueWait, QueueGet, QueuePut,
    SemaphoreAcquire, TaskQueuePut, ThreadJoin, Wait,
};

/// Functions of the interpreter's library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Stdlib {
    Threading,
    /// `Condition.wait`, in which `threading` waits for all else; `Event.wait`, too.
    Wait,
    ThreadStart,
    ThreadJoin,
    BarrierWait,
    SemaphoreAcquire,
    QueueGet,
    QueuePut,
    TaskQueuePut,
    ProcessPool,
    ProcessPoolResult,
    Future,
    FutureResult,
    ThreadExecutor,
    ExecutorWorker,
    ProcessExecutor,
    ProcessQueue,
    /// What another process is to do: take from a bounded queue, say that its items are done.
    ProcessQueueWait,
    /// A notice that another process is to give.
    ProcessNotice,
    /// A lock that the process of a Manager has.
    ManagedLock,
    /// Up to CPython 3.11 it computes under a lock: one for all instances of the class.
    CachedProperty,
    LoopRunOnce,
    LoopRun,
    LoopCallback,
    /// Waits for the first of several tasks, or for all.
    TasksWait,
    Socket,
    Tls,
    Resolve,
    Subprocess,
    SubprocessStart,
    SocketServer,
    HttpServer,
    /// gevent's, which stands in for the interpreter's.
    GreenletServer,
}

/// Functions that wait for what comes back from a pool or an executor.
const RESULTS: &[&str] = &["get", "wait", "result", "exception", "as_completed"];

impl Stdlib {
    /// The file, and the functions; none: any.
    const fn code(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Stdlib::Threading => ("threading.py", &[]),
            Stdlib::Wait => ("threading.py", &["wait"]),
            Stdlib::ThreadStart => ("threading.py", &["start"]),
            Stdlib::ThreadJoin => ("threading.py", &["join", "_wait_for_tstate_lock"]),
            Stdlib::BarrierWait => ("threading.py", &["_wait", "_enter"]),
            Stdlib::SemaphoreAcquire => ("threading.py", &["acquire"]),
            Stdlib::QueueGet => ("queue.py", &["get"]),
            Stdlib::QueuePut => ("queue.py", &["put"]),
            Stdlib::TaskQueuePut => ("queues.py", &["put"]),
            Stdlib::ProcessPool => ("multiprocessing/pool.py", &[]),
            Stdlib::ProcessPoolResult => ("multiprocessing/pool.py", RESULTS),
            Stdlib::Future => ("concurrent/futures/_base.py", &[]),
            Stdlib::FutureResult => ("concurrent/futures/_base.py", RESULTS),
            Stdlib::ThreadExecutor => ("concurrent/futures/thread.py", &[]),
            Stdlib::ExecutorWorker => ("concurrent/futures/thread.py", &["_worker"]),
            Stdlib::ProcessExecutor => ("concurrent/futures/process.py", &[]),
            Stdlib::ProcessQueue => ("multiprocessing/queues.py", &[]),
            Stdlib::ProcessQueueWait => ("multiprocessing/queues.py", &["put", "join"]),
            Stdlib::ProcessNotice => ("multiprocessing/synchronize.py", &["wait"]),
            Stdlib::ManagedLock => ("multiprocessing/managers.py", &["acquire", "__enter__"]),
            Stdlib::CachedProperty => ("functools.py", &["__get__"]),
            Stdlib::LoopRunOnce => ("base_events.py", &["_run_once"]),
            Stdlib::LoopRun => ("runners.py", &["run"]),
            Stdlib::LoopCallback => ("events.py", &["_run"]),
            Stdlib::TasksWait => ("asyncio/tasks.py", &["_wait", "wait"]),
            Stdlib::Socket => ("socket.py", &[]),
            Stdlib::Tls => ("ssl.py", &[]),
            Stdlib::Resolve => ("socket.py", &["getaddrinfo", "getfqdn"]),
            Stdlib::Subprocess => ("subprocess.py", &[]),
            Stdlib::SubprocessStart => ("subprocess.py", &["_execute_child"]),
            Stdlib::SocketServer => ("socketserver.py", &[]),
            Stdlib::HttpServer => ("http/server.py", &[]),
            Stdlib::GreenletServer => ("gevent/pywsgi.py", &[]),
        }
    }
}

/// A pattern of a stack, from its innermost frame on.
#[derive(Clone, Copy, Debug)]
pub enum Pattern {
    /// The innermost frames are these, in this order.
    Inner(&'static [Stdlib]),
    /// The same, called by the program's own code at once.
    CalledByUser(&'static [Stdlib]),
    /// One of so many innermost frames is this.
    Within(usize, Stdlib),
    /// A `Wait` that is called within `threading`, of four frames, by this.
    WaitBelow(Stdlib),
    /// Some frame is this.
    Any(Stdlib),
}

/// A pattern, and what a wait is for where it fits.
pub type Signature = (Pattern, Resource);

/// Commands of Redis that wait for what another client puts: an item of a list, a set or a stream.
pub const REDIS_WAITS: [&str; 9] = [
    "BLPOP",
    "BRPOP",
    "BRPOPLPUSH",
    "BLMOVE",
    "BLMPOP",
    "BZPOPMIN",
    "BZPOPMAX",
    "BZMPOP",
    "XREADGROUP",
];

/// What another thread is to give notice of: it has no holder.
pub static NOTICES: [Signature; 4] = [
    (Within(2, ThreadJoin), Resource::ThreadEnd),
    (WaitBelow(BarrierWait), Resource::Barrier),
    (WaitBelow(Wait), Resource::Event(Of::Threads)),
    (Inner(&[Wait]), Resource::Condition(Of::Threads)),
];

/// Pools whose code says more than that they are pools, whatever calls it.
pub static POOLS: [Signature; 5] = [
    (Any(ProcessPool), Resource::Processes),
    (Inner(&[ProcessNotice]), Resource::OtherProcess),
    (Inner(&[ProcessQueueWait]), Resource::OtherProcess),
    (Inner(&[Wait, QueuePut]), Resource::Room),
    (Any(TaskQueuePut), Resource::Room),
];

/// Pools that the program's own code waits for; a library that does hands something else out.
pub static OWN_POOLS: [Signature; 3] = [
    (CalledByUser(&[Wait, SemaphoreAcquire]), Resource::Permit),
    (CalledByUser(&[Wait, QueueGet]), Resource::Item),
    (CalledByUser(&[QueueGet]), Resource::Item),
];

impl Frames<'_> {
    /// Whether the program's event loops are gevent's: its code was seen, and none of asyncio's
    /// loop. Cost: the codes of the capture.
    pub fn has_greenlets(&self) -> bool {
        let (loops, names) = Stdlib::LoopRunOnce.code();
        let codes = || self.capture.codes.iter().map(|c| (c.function, self.capture.name(c.file)));
        let own = |name: u32| self.capture.name(name).rsplit('.').next().unwrap_or_default();
        codes().any(|(_, file)| file.contains("/gevent/"))
            && !codes().any(|(f, file)| file.ends_with(loops) && names.contains(&own(f)))
    }

    /// Whether a frame is in one of these functions.
    pub fn is_at(&self, frame: &Frame<'_>, code: Stdlib) -> bool {
        let (file, names) = code.code();
        self.is_stdlib(frame, file, names)
    }

    /// Whether any frame of a stack is.
    pub fn any_at(&self, stack: u32, code: Stdlib) -> bool {
        self.any(stack, |f| self.is_at(f, code))
    }

    /// Whether the innermost frame of a stack is.
    pub fn leaf_at(&self, stack: u32, code: Stdlib) -> bool {
        self.of(stack).next().is_some_and(|f| self.is_at(&f, code))
    }

    /// What the first of `signatures` says that a wait with this stack fits.
    pub fn resource(&self, stack: u32, signatures: &[Signature]) -> Option<Resource> {
        let first = signatures.iter().find(|(pattern, _)| self.fits(stack, *pattern));
        first.map(|(_, resource)| resource.clone())
    }

    /// Whether a stack fits a pattern.
    pub fn fits(&self, stack: u32, pattern: Pattern) -> bool {
        match pattern {
            Pattern::Inner(codes) => {
                let mut inner = self.of(stack);
                codes.iter().all(|code| inner.next().is_some_and(|f| self.is_at(&f, *code)))
            }
            Pattern::CalledByUser(codes) => {
                let mut inner = self.of(stack).filter(|f| !f.native);
                let fits = |code: &Stdlib| inner.next().is_some_and(|f| self.is_at(&f, *code));
                codes.iter().all(fits)
                    && inner.next().is_some_and(|f| self.owner(f.file) == Owner::User)
            }
            Pattern::Within(most, code) => self.of(stack).take(most).any(|f| self.is_at(&f, code)),
            Pattern::WaitBelow(code) => {
                let inner = self.of(stack).take(4);
                let mut inner = inner.take_while(|f| self.is_at(f, Stdlib::Threading));
                inner.next().is_some_and(|f| self.is_at(&f, Stdlib::Wait))
                    && inner.any(|f| self.is_at(&f, code))
            }
            Pattern::Any(code) => self.any_at(stack, code),
        }
    }
}
