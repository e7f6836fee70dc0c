//! Servers: which code takes requests in, and which of the program's frames only started it.
//!
//! How it works: a server is known by its package, the interpreter's own by their modules. On a
//! thread that runs a server the program's `main` is below the server's frames: it called `run`
//! once, and asked for nothing that the server does since. So the program's part of such a stack
//! ends at the outermost frame of a server, or of the event loop where requests of the thread run
//! on one; what lies further out is a launcher.
//!
//! ```text
//!   app.py view()                  the program
//!   gunicorn/workers/sync.py       the server
//!   app.py main()                  a launcher
//! ```
//!
//! What it promises: a stack without a server's frame has no launcher.
//!
//! Missing on purpose: a server that the program wrote itself.

use capture::read::Frame;

use crate::frames::Frames;
use crate::signatures::Stdlib;

/// Packages that serve requests, and which of their files do: packages have clients in them, too.
const SERVERS: [(&str, &str); 11] = [
    ("gunicorn", ""),
    ("uvicorn", ""),
    ("uvicorn_worker", ""),
    ("hypercorn", ""),
    ("daphne", ""),
    ("granian", ""),
    ("waitress", ""),
    ("werkzeug", ""),
    ("cheroot", ""),
    ("aiohttp", "/web"),
    ("tornado", "/httpserver.py"),
];

impl<'c> Frames<'c> {
    /// Whether a frame is a server's: what it reads and writes is a client's.
    pub fn serves(&self, frame: &Frame<'_>) -> bool {
        const OWN: [Stdlib; 3] = [Stdlib::SocketServer, Stdlib::HttpServer, Stdlib::GreenletServer];
        let of_package = |package: &str| {
            SERVERS.iter().any(|(name, part)| *name == package && frame.file.contains(part))
        };
        self.package(frame.file).is_some_and(of_package)
            || OWN.iter().any(|code| self.is_at(frame, *code))
    }

    /// The frames of a stack, innermost first, without launchers and what called them.
    pub fn above_launchers(&self, stack: u32) -> impl Iterator<Item = Frame<'c>> {
        self.of(stack).take(self.outermost_server(stack).map_or(usize::MAX, |at| at + 1))
    }

    /// Which frame of a stack, counted from the innermost, is the outermost of a server or of an
    /// event loop that serves.
    fn outermost_server(&self, stack: u32) -> Option<usize> {
        let stack = self.capture.without_native(stack);
        if let Some(known) = self.serving.borrow().get(&stack) {
            return *known;
        }
        const LOOP: [Stdlib; 2] = [Stdlib::LoopRunOnce, Stdlib::LoopRun];
        let on_loop = self.loops.contains(&stack);
        let of_loop = |f: &Frame<'_>| on_loop && LOOP.iter().any(|code| self.is_at(f, *code));
        let serves = |(_, f): &(usize, Frame<'_>)| self.serves(f) || of_loop(f);
        let found = self.of(stack).enumerate().filter(serves).last().map(|(at, _)| at);
        self.serving.borrow_mut().insert(stack, found);
        found
    }
}
