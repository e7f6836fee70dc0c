//! Frames of CPython 3.11's own library, as samples find them around each kind of wait.
//!
//! Read from stacks that the sampler took of real programs: function, file below the library's
//! folder, line. Outermost first. What is missing on purpose: frames of installed packages, which
//! `draw` makes as functions of the program's own with a file among the packages.

/// A frame of the interpreter's library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lib {
    /// Qualified function.
    pub function: &'static str,
    /// File below the library's folder, or its whole path; one that begins with `<` has no folder.
    pub file: &'static str,
    /// Line.
    pub line: u32,
}

impl Lib {
    /// It is native code.
    pub fn is_native(&self) -> bool {
        self.file.ends_with(".so")
    }
}

const fn lib(function: &'static str, file: &'static str, line: u32) -> Lib {
    Lib { function, file, line }
}

const CONDITION_WAIT: Lib = lib("Condition.wait", "threading.py", 327);

/// Under every thread that `threading` started.
pub const THREAD: &[Lib] = &[
    lib("Thread._bootstrap", "threading.py", 1002),
    lib("Thread._bootstrap_inner", "threading.py", 1045),
    lib("Thread.run", "threading.py", 982),
];
/// A worker of an executor at work.
pub const WORKER: &[Lib] = &[
    lib("Thread._bootstrap", "threading.py", 1002),
    lib("Thread._bootstrap_inner", "threading.py", 1045),
    lib("Thread.run", "threading.py", 982),
    lib("_worker", "concurrent/futures/thread.py", 83),
    lib("_WorkItem.run", "concurrent/futures/thread.py", 58),
];
/// A worker of an executor without work.
pub const IDLE_WORKER: &[Lib] = &[
    lib("Thread._bootstrap", "threading.py", 1002),
    lib("Thread._bootstrap_inner", "threading.py", 1045),
    lib("Thread.run", "threading.py", 982),
    lib("_worker", "concurrent/futures/thread.py", 81),
];
/// A thread that serves one connection.
pub const SERVING: &[Lib] = &[
    lib("Thread._bootstrap", "threading.py", 1002),
    lib("Thread._bootstrap_inner", "threading.py", 1045),
    lib("Thread.run", "threading.py", 982),
    lib("ThreadingMixIn.process_request_thread", "socketserver.py", 691),
    lib("BaseServer.finish_request", "socketserver.py", 361),
    lib("BaseRequestHandler.__init__", "socketserver.py", 755),
    lib("BaseHTTPRequestHandler.handle", "http/server.py", 436),
    lib("BaseHTTPRequestHandler.handle_one_request", "http/server.py", 424),
];
/// Where that waits for the next request.
pub const READ_REQUEST: &[Lib] = &[lib("SocketIO.readinto", "socket.py", 706)];
const GTHREAD: &str = "/srv/venv/lib/python3.11/site-packages/gunicorn/workers/gthread.py";
/// A thread that accepts connections for others.
pub const ACCEPTS: &[Lib] = &[lib("ThreadWorker.run", GTHREAD, 213)];
/// Where that waits for connections.
pub const ACCEPTING: &[Lib] = &[lib("EpollSelector.select", "selectors.py", 468)];
/// An answer of a peer.
pub const READ_ANSWER: &[Lib] = &[
    lib("HTTPConnection.getresponse", "http/client.py", 1395),
    lib("HTTPResponse.begin", "http/client.py", 325),
    lib("HTTPResponse._read_status", "http/client.py", 286),
    lib("SocketIO.readinto", "socket.py", 706),
];
/// A connection being set up.
pub const CONNECT: &[Lib] = &[lib("create_connection", "socket.py", 851)];
/// A name being resolved.
pub const RESOLVE: &[Lib] =
    &[lib("create_connection", "socket.py", 827), lib("getaddrinfo", "socket.py", 962)];
/// The end of a child process.
pub const CHILD: &[Lib] = &[
    lib("run", "subprocess.py", 550),
    lib("Popen.communicate", "subprocess.py", 1199),
    lib("Popen.wait", "subprocess.py", 1262),
    lib("Popen._wait", "subprocess.py", 1997),
    lib("Popen._try_wait", "subprocess.py", 1955),
];
/// An Event.
pub const EVENT_WAIT: &[Lib] = &[lib("Event.wait", "threading.py", 629), CONDITION_WAIT];
/// A Condition.
pub const NOTICE: &[Lib] = &[CONDITION_WAIT];
/// An item of a queue, with a time limit.
pub const QUEUE_GET_LIMITED: &[Lib] = &[lib("Queue.get", "queue.py", 180), CONDITION_WAIT];
/// A permit of a Semaphore.
pub const SEMAPHORE: &[Lib] = &[lib("Semaphore.acquire", "threading.py", 507), CONDITION_WAIT];
/// An item of a queue.
pub const QUEUE_GET: &[Lib] = &[lib("Queue.get", "queue.py", 171), CONDITION_WAIT];
/// Room in a queue.
pub const QUEUE_PUT: &[Lib] = &[lib("Queue.put", "queue.py", 140), CONDITION_WAIT];
/// The result of an executor.
pub const RESULT: &[Lib] =
    &[lib("Future.result", "concurrent/futures/_base.py", 451), CONDITION_WAIT];
/// The end of a thread.
pub const JOIN: &[Lib] = &[
    lib("Thread.join", "threading.py", 1119),
    lib("Thread._wait_for_tstate_lock", "threading.py", 1139),
];
/// A module being loaded by code of the program's own.
pub const IMPORT: &[Lib] = &[
    lib("_find_and_load", "<frozen importlib._bootstrap>", 1178),
    lib("_find_and_load_unlocked", "<frozen importlib._bootstrap>", 1149),
    lib("_load_unlocked", "<frozen importlib._bootstrap>", 690),
    lib("SourceLoader.exec_module", "<frozen importlib._bootstrap_external>", 940),
    lib("_call_with_frames_removed", "<frozen importlib._bootstrap>", 241),
];
const SYNC: &str = "/srv/venv/lib/python3.11/site-packages/gunicorn/workers/sync.py";
const UNREADER: &str = "/srv/venv/lib/python3.11/site-packages/gunicorn/http/unreader.py";
/// A server's one thread.
pub const SYNC_WORKER: &[Lib] = &[lib("SyncWorker.run_for_one", SYNC, 76)];
/// Where that reads what a client sends.
pub const READ_CLIENT: &[Lib] =
    &[lib("SyncWorker.handle", SYNC, 134), lib("SocketUnreader.chunk", UNREADER, 63)];
const FRAMES: &str = "/srv/venv/lib/python3.11/site-packages/frames/lazy.py";
const SQLITE: &str = "/usr/lib/python3.11/lib-dynload/_sqlite3.cpython-311-x86_64-linux-gnu.so";
/// Where an embedded database pauses before it asks for its lock again.
pub const BUSY: &[Lib] = &[lib("unixSleep", SQLITE, 0)];
/// A native library's file: its frames have no lines.
const NATIVE: &str = "/srv/venv/lib/python3.11/site-packages/frames/_frames.abi3.so";
/// Where the caller of a native library waits for the library's own threads.
pub const PARALLEL: &[Lib] = &[lib("LazyFrame.collect", FRAMES, 410), lib("pool_join", NATIVE, 0)];
/// One of these threads at work.
pub const NATIVE_WORK: &[Lib] = &[lib("worker_loop", NATIVE, 0), lib("hash_rows", NATIVE, 0)];
/// One without work.
pub const NATIVE_IDLE: &[Lib] = &[lib("worker_loop", NATIVE, 0), lib("park", NATIVE, 0)];
/// An event loop that runs callbacks.
pub const LOOP: &[Lib] = &[
    lib("run", "asyncio/runners.py", 190),
    lib("Runner.run", "asyncio/runners.py", 118),
    lib("BaseEventLoop.run_until_complete", "asyncio/base_events.py", 640),
    lib("BaseEventLoop.run_forever", "asyncio/base_events.py", 607),
    lib("BaseEventLoop._run_once", "asyncio/base_events.py", 1922),
];
/// A callback of its.
pub const HANDLE: &[Lib] = &[
    lib("run", "asyncio/runners.py", 190),
    lib("Runner.run", "asyncio/runners.py", 118),
    lib("BaseEventLoop.run_until_complete", "asyncio/base_events.py", 640),
    lib("BaseEventLoop.run_forever", "asyncio/base_events.py", 607),
    lib("BaseEventLoop._run_once", "asyncio/base_events.py", 1922),
    lib("Handle._run", "asyncio/events.py", 80),
];
/// Where it waits for something to do.
pub const SELECT: &[Lib] = &[lib("EpollSelector.select", "selectors.py", 468)];
/// Coroutines of asyncio's that a task is suspended in.
pub const TASK_SLEEP: &[Lib] = &[lib("sleep", "asyncio/tasks.py", 639)];
/// An asyncio.Lock.
pub const TASK_LOCK: &[Lib] = &[
    lib("_ContextManagerMixin.__aenter__", "asyncio/locks.py", 15),
    lib("Lock.acquire", "asyncio/locks.py", 114),
];
/// An asyncio.Semaphore.
pub const TASK_SEMAPHORE: &[Lib] = &[
    lib("_ContextManagerMixin.__aenter__", "asyncio/locks.py", 15),
    lib("Semaphore.acquire", "asyncio/locks.py", 387),
];
/// An asyncio.Queue.
pub const TASK_QUEUE: &[Lib] = &[lib("Queue.get", "asyncio/queues.py", 158)];
/// A stream.
pub const TASK_STREAM: &[Lib] = &[
    lib("StreamReader.readline", "asyncio/streams.py", 545),
    lib("StreamReader.readuntil", "asyncio/streams.py", 637),
    lib("StreamReader._wait_for_data", "asyncio/streams.py", 521),
];
/// A connection.
pub const TASK_CONNECT: &[Lib] = &[
    lib("open_connection", "asyncio/streams.py", 48),
    lib("BaseEventLoop.create_connection", "asyncio/base_events.py", 1084),
    lib("BaseEventLoop._connect_sock", "asyncio/base_events.py", 970),
    lib("BaseSelectorEventLoop.sock_connect", "asyncio/selector_events.py", 634),
];
