//! The owner of a frame's code: the user, a library, the interpreter itself, or dashcam.

mod names;
mod owner;
mod place;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use capture::read::{Capture, Frame, MODULE_BODY};
use format::record::Sample;
use format::wait::WaitKind;

pub use names::{is_part_of_a_function, last_part};
pub use owner::Owner;
use owner::{is_generated, is_of, is_sqlite, is_under, is_waiting_package, native_owner};
pub use place::{Function, Place};

/// Knows the folders of a capture.
pub struct Frames<'c> {
    pub(crate) capture: &'c Capture,
    /// Python stacks whose call into SQLite was seen asleep: it asks again for a lock that has a
    /// holder.
    asks_sqlite: HashSet<u32>,
    /// Stacks that were seen asleep in a library's function which takes a lock.
    polls_a_lock: HashSet<u32>,
    /// Python stacks whose call into a library was seen polling descriptors, each with one sample
    /// of that.
    polling: HashMap<u32, &'c Sample>,
    /// Console scripts: their module calls the program, and is nobody's code.
    launchers: HashSet<&'c str>,
    /// The checkout that dashcam was built from, if a native program was built with it.
    checkout: Option<&'c str>,
    /// The owners of the files that were asked about: rules ask for each frame of each sample.
    owners: RefCell<HashMap<String, Owner>>,
    /// Stacks of threads whose requests are on an event loop (`servers`).
    pub(crate) loops: HashSet<u32>,
    /// The outermost server's frame of the stacks that were asked about (`servers`).
    pub(crate) serving: RefCell<HashMap<u32, Option<usize>>>,
}

impl<'c> Frames<'c> {
    /// For one capture.
    pub fn new(capture: &'c Capture) -> Frames<'c> {
        let (asks_sqlite, polls_a_lock) = (HashSet::new(), HashSet::new());
        let owners = RefCell::default();
        let (launchers, checkout) = (launchers(capture), checkout(capture));
        let (loops, serving) = (stacks_of_loops(capture), RefCell::default());
        let polling = HashMap::new();
        let mut frames = Frames {
            capture,
            asks_sqlite,
            polls_a_lock,
            polling,
            launchers,
            checkout,
            owners,
            loops,
            serving,
        };
        let sleeps = |s: &&Sample| s.wait == WaitKind::Sleep;
        let stacks: HashSet<u32> =
            capture.samples.values().flatten().filter(sleeps).map(|s| s.stack).collect();
        for stack in stacks {
            let calls = |f: &Frame<'_>| frames.owner(f.file) != Owner::Runtime;
            let mut native = capture.frames(stack).take_while(|f| f.native).filter(calls);
            let known = native.next().map(|f| is_sqlite(f.file));
            if known.unwrap_or_else(|| frames.is_client_of_sqlite(stack)) {
                frames.asks_sqlite.insert(capture.without_native(stack));
            } else if frames.is_in_taking_a_lock(stack) {
                frames.polls_a_lock.insert(capture.without_native(stack));
            }
        }
        frames.polling = frames.that_poll();
        frames
    }

    /// Whether the innermost code is a package's that carries calls to SQLite, as its name says:
    /// what it calls was not read, as its thread works for no request in particular.
    fn is_client_of_sqlite(&self, stack: u32) -> bool {
        let inner = self.capture.frames(stack).next().filter(|f| !f.native);
        let library = inner.filter(|f| self.owner(f.file) == Owner::Library);
        let package = library.and_then(|f| self.package(f.file));
        package.is_some_and(|package| package.contains("sqlite"))
    }

    /// The Python stacks whose innermost frame is a library's, and that were seen polling. The
    /// sample is the same one in whatever order they are read.
    fn that_poll(&self) -> HashMap<u32, &'c Sample> {
        let mut found: HashMap<u32, &'c Sample> = HashMap::new();
        let polls = |s: &&Sample| s.wait == WaitKind::Poll;
        for sample in self.capture.samples.values().flatten().filter(polls) {
            let stack = self.capture.without_native(sample.stack);
            let last = found.entry(stack).or_insert(sample);
            // Those with a name are the greatest.
            if (sample.target, sample.t_ns) > (last.target, last.t_ns) {
                *last = sample;
            }
        }
        let of_a_library = |stack| {
            let inner = self.capture.frames(stack).next();
            inner.is_some_and(|f| self.owner(f.file) == Owner::Library)
        };
        found.retain(|stack, _| of_a_library(*stack));
        found
    }

    /// A sample of a thread that polled descriptors inside of the same call into a library.
    pub fn polls_in_same_call(&self, stack: u32) -> Option<&'c Sample> {
        match self.polling.is_empty() {
            true => None,
            false => self.polling.get(&self.capture.without_native(stack)).copied(),
        }
    }

    /// Whether a thread that sleeps here does so in SQLite, which waits for a lock of its file by
    /// asking for it again and again. True of all sleeps of this Python code in which no sample saw
    /// what it called.
    pub fn asks_sqlite(&self, stack: u32) -> bool {
        !self.asks_sqlite.is_empty()
            && self.asks_sqlite.contains(&self.capture.without_native(stack))
    }

    /// Whether a thread that sleeps here does so in a library which waits for a lock (of a file, of
    /// another service) by asking for it again and again.
    pub fn polls_a_lock(&self, stack: u32) -> bool {
        !self.polls_a_lock.is_empty()
            && self.polls_a_lock.contains(&self.capture.without_native(stack))
    }

    /// Whether a thread that sleeps here asks for a lock again and again.
    pub fn asks_for_a_lock(&self, stack: u32) -> bool {
        self.asks_sqlite(stack) || self.polls_a_lock(stack)
    }

    /// Whether the innermost code is a library's that takes a lock, as far as its names say: a
    /// function `acquire` or `lock` of something that has a lock's name, or `acquire_lock`.
    pub fn is_in_taking_a_lock(&self, stack: u32) -> bool {
        let own = self.of(stack).skip_while(|f| self.owner(f.file) == Owner::Runtime);
        let mut library = own.take_while(|f| self.owner(f.file) == Owner::Library);
        library.any(|f| {
            let function = last_part(f.function);
            let takes = matches!(function, "acquire" | "lock" | "__enter__" | "__aenter__");
            if takes_by_name(function) {
                return true;
            }
            let package = self.package(f.file).unwrap_or_default();
            let file = f.file.rsplit('/').next().unwrap_or_default();
            takes && [f.function, package, file].into_iter().any(names_a_lock)
        })
    }

    /// Whether one line of a library waits in both stacks, called by the same functions, whichever
    /// of their lines did.
    pub fn waits_alike(&self, a: u32, b: u32) -> bool {
        let (mut one, mut other) = (self.of(a), self.of(b));
        let mut reached = false;
        loop {
            match (one.next(), other.next()) {
                (Some(f), Some(g)) if (f.function, f.file) == (g.function, g.file) => {
                    // The code that waits: what the interpreter's library does for it, it does.
                    let at_the_line = reached || f.line == g.line;
                    let owner = self.owner(f.file);
                    if !at_the_line || !reached && owner == Owner::User {
                        return false;
                    }
                    reached |= owner == Owner::Library;
                }
                (None, None) => return reached,
                _ => return false,
            }
        }
    }

    /// The frames of a stack, innermost first; without the native ones that Python code called, so
    /// that a verdict is the same with and without them.
    pub fn of(&self, stack: u32) -> impl Iterator<Item = Frame<'c>> {
        self.capture.frames(self.capture.without_native(stack))
    }

    /// The innermost native frame that Python code called, rather one of a library than of the C
    /// library that it called; None when there is none, or it has no name.
    pub fn native(&self, stack: u32) -> Option<Frame<'c>> {
        if self.capture.without_native(stack) == stack {
            return None;
        }
        let native = || self.capture.frames(stack).take_while(|f| f.native);
        let library = native().find(|f| self.owner(f.file) != Owner::Runtime);
        library.or_else(|| native().next()).filter(|f| !f.function.starts_with("0x"))
    }

    /// The owner of a file.
    pub fn owner(&self, file: &str) -> Owner {
        if let Some(known) = self.owners.borrow().get(file) {
            return *known;
        }
        let owner = self.find_owner(file);
        self.owners.borrow_mut().insert(file.to_owned(), owner);
        owner
    }

    fn find_owner(&self, file: &str) -> Owner {
        let meta = &self.capture.meta;
        let package = meta.all["package"].as_str().unwrap_or("\0");
        let under = |dirs: &[String]| dirs.iter().any(|dir| is_under(file, dir));
        if is_under(file, package) {
            Owner::Dashcam
        } else if self.checkout.is_some_and(|root| is_source_of(file, root)) {
            // It carries the program's futures, as their runtime does.
            Owner::Runtime
        } else if is_generated(file) || file == "?" {
            Owner::Runtime
        } else if let Some(owner) = native_owner(file) {
            owner
        } else if GREENLETS.iter().any(|folder| file.contains(folder)) {
            Owner::Runtime
        } else if meta.application.iter().any(|of| is_of(file, of)) {
            Owner::User
        } else if self.launchers.contains(file) {
            Owner::Runtime
        } else if under(&meta.site) {
            Owner::Library
        } else if under(&meta.stdlib) {
            Owner::Runtime
        } else {
            Owner::User
        }
    }

    /// The installed package that a file is of: its first folder (or file) under where they are
    /// installed. None for what is no package's.
    pub fn package<'f>(&self, file: &'f str) -> Option<&'f str> {
        let site = self.capture.meta.site.iter().filter(|dir| is_under(file, dir));
        let inside = file.get(site.map(String::len).max()?..)?.trim_start_matches('/');
        inside.split('/').next()
    }

    /// The package of Rust's that a file is of, with its version.
    pub fn cargo_package<'f>(&self, file: &'f str) -> Option<&'f str> {
        owner::cargo_package(file)
    }

    /// The innermost frame of the user's or a library's code; any frame when there is none.
    pub fn innermost(&self, stack: u32) -> Option<Place> {
        let own = |f: &Frame<'_>| match self.owner(f.file) {
            Owner::User => true,
            // A library without symbols: the function that called it has a name to search for.
            Owner::Library => !is_offset(f),
            _ => false,
        };
        let any_own = |f: &Frame<'_>| matches!(self.owner(f.file), Owner::User | Owner::Library);
        let named = self.first_named(stack, own).or_else(|| self.first_named(stack, any_own));
        named.or_else(|| self.first_named(stack, |_| true))
    }

    /// The innermost frame of the user's code; a library's when there is none. For waits in which
    /// client libraries are the messenger (a reply, a connection).
    pub fn innermost_user(&self, stack: u32) -> Option<Place> {
        let user = self.first_named(stack, |f| self.owner(f.file) == Owner::User);
        user.or_else(|| self.innermost(stack))
    }

    /// Whether some frame is the program's own, but a launcher's.
    pub fn has_user(&self, stack: u32) -> bool {
        self.above_launchers(stack).any(|f| self.owner(f.file) == Owner::User)
    }

    /// The files of the program's own functions on a stack, the innermost first, at most
    /// `FILES_MAX`. A module's top level is under everything that its thread does.
    pub fn own_files(&self, stack: u32) -> Vec<&'c str> {
        let mut files = Vec::new();
        let own = |f: &Frame<'c>| self.owner(f.file) == Owner::User && !f.is_module_body();
        for frame in self.above_launchers(stack).filter(own) {
            if !files.contains(&frame.file) {
                files.push(frame.file);
            }
        }
        files.truncate(FILES_MAX);
        files
    }

    /// Whether a function of `file` is on the stack.
    pub fn is_in_file(&self, stack: u32, file: &str) -> bool {
        self.any(stack, |f| f.file == file && !f.is_module_body())
    }

    /// The first frame that `wanted` takes; for a comprehension or generator expression the
    /// function it is written in, when that called it.
    fn first_named(&self, stack: u32, wanted: impl Fn(&Frame<'_>) -> bool) -> Option<Place> {
        let mut frames = self.above_launchers(stack).skip_while(|f| !wanted(f)).peekable();
        let mut first = frames.next()?;
        while is_part_of_a_function(first.function) {
            match frames.next_if(|caller| caller.file == first.file) {
                Some(caller) => first = caller,
                None => break,
            }
        }
        Some(self.place(&first))
    }

    /// The user's frames from the outermost to the innermost, up to `to`.
    pub fn path(&self, stack: u32, to: &Place) -> Vec<String> {
        let user = |f: &Frame<'_>| self.owner(f.file) == Owner::User;
        let ends = self.passes(stack, to);
        let is_it = |f: &Frame<'_>| f.function == to.qualified && f.file == to.file;
        let way = self.above_launchers(stack).skip_while(|f| ends && !is_it(f));
        // A closure has the name of its function, which is on the stack as well or has ended.
        let named = way.filter(|f| user(f) && !f.function.ends_with('}'));
        let mut path: Vec<String> = named.map(|f| last_part(f.function).to_owned()).collect();
        path.reverse();
        // `{closure#0}` is Rust's word for a part of a function.
        let part = |name: &str| is_part_of_a_function(name) || name.starts_with('{');
        path.retain(|name| name != MODULE_BODY && !part(name));
        if path.last() == Some(&to.function) {
            path.pop();
        }
        path
    }

    /// Whether `place`'s function is on the stack.
    pub fn passes(&self, stack: u32, place: &Place) -> bool {
        self.any(stack, |f| f.function == place.qualified && f.file == place.file)
    }

    /// Whether two stacks end in the same call of the same line, whoever's code that is. Native
    /// stacks go on into the C library and Rust's, each its own way: there the call into these is
    /// meant.
    pub fn same_call(&self, a: u32, b: u32) -> bool {
        let inside = |f: &Frame<'_>| f.line == 0 || native_owner(f.file) == Some(Owner::Runtime);
        let call = |stack| {
            let call = self.of(stack).find(|f| !inside(f));
            call.map(|f| (f.function, f.file, f.line))
        };
        a != 0 && b != 0 && call(a).is_some() && call(a) == call(b)
    }

    /// The stack from the caller of the outermost run of frames that satisfy `test`; None when none
    /// does, or nobody called them.
    pub fn caller_of_outermost(
        &self,
        stack: u32,
        test: impl Fn(&Frame<'_>) -> bool,
    ) -> Option<u32> {
        let (mut at, mut inside, mut caller) = (stack, false, None);
        // A parent is always older than its child; anything else is damage and ends the walk.
        while let Some(node) = (at as usize).checked_sub(1).and_then(|i| self.capture.stacks.get(i))
        {
            let fits = self.capture.frames(at).next().is_some_and(|f| test(&f));
            if inside && !fits {
                caller = Some(at);
            }
            inside = fits;
            at = if node.parent < at { node.parent } else { 0 };
        }
        caller
    }

    /// Whether the program has no interpreter.
    pub fn is_native_program(&self) -> bool {
        self.capture.meta.stdlib.is_empty()
    }

    /// Whether a thread of native code with this stack is in nothing but a language's own code and
    /// a package that waits for others, such as an async runtime: its worker, with no task to run.
    pub fn is_parked_worker(&self, stack: u32) -> bool {
        let mut waits = false;
        let own = self.of(stack).all(|f| {
            waits |= is_waiting_package(f.file);
            self.owner(f.file) == Owner::Runtime
        });
        own && waits
    }

    /// Whether any frame's function and file end satisfy `test`.
    pub fn any(&self, stack: u32, test: impl Fn(&Frame<'_>) -> bool) -> bool {
        self.of(stack).any(|f| test(&f))
    }

    /// Whether a frame is the interpreter's library's or a language's own.
    pub fn is_shared(&self, frame: &Frame<'_>) -> bool {
        self.owner(frame.file) == Owner::Runtime
    }

    /// Whether a frame is one of the functions `names` (any, if none is given) of the interpreter's
    /// own module file `file` (`threading.py`, `multiprocessing/pool.py`). A program's file of that
    /// name is not.
    pub(crate) fn is_stdlib(&self, frame: &Frame<'_>, file: &str, names: &[&str]) -> bool {
        let front = frame.file.strip_suffix(file);
        front.is_some_and(|front| front.is_empty() || front.ends_with('/'))
            && (names.is_empty() || names.contains(&last_part(frame.function)))
            && self.owner(frame.file) == Owner::Runtime
    }

    /// A frame as a place.
    pub fn place(&self, frame: &Frame<'_>) -> Place {
        Place {
            function: last_part(frame.function).to_owned(),
            qualified: frame.function.to_owned(),
            file: frame.file.to_owned(),
            line: frame.line,
            module: self.module(frame.file),
        }
    }

    /// `pkg.part` from `/…/site-packages/pkg/part.py`; the file's stem when no folder is known.
    fn module(&self, file: &str) -> String {
        let meta = &self.capture.meta;
        let roots = meta.site.iter().chain(&meta.stdlib);
        let root = roots.filter(|dir| is_under(file, dir)).max_by_key(|dir| dir.len());
        let inside = root.map_or_else(
            || file.rsplit('/').next().unwrap_or(file),
            |dir| file[dir.len()..].trim_start_matches('/'),
        );
        let stem = inside.strip_suffix(".py").unwrap_or(inside);
        stem.strip_suffix("/__init__").unwrap_or(stem).replace('/', ".")
    }
}

/// Whether a name is of a lock: `FileLock.acquire`, `redlock`, `lock.py`; not `block`.
fn names_a_lock(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut at = name.match_indices("lock").map(|(at, _)| at);
    at.any(|at| !name[..at].ends_with(['b', 'c']))
}

/// Whether a function takes a lock, as its own name alone says: `acquire_lock`, `_wait_for_lock`;
/// not `release_lock`.
fn takes_by_name(function: &str) -> bool {
    const TAKES: [&str; 5] = ["acquire", "obtain", "get", "take", "wait"];
    let mut words = function.split('_').skip_while(|word| word.is_empty());
    words.next().is_some_and(|word| TAKES.contains(&word)) && words.any(|word| word == "lock")
}

/// Files of one stack in which others are taken to know what it waits for.
const FILES_MAX: usize = 3;

/// Packages that stand in for the interpreter's own threads, locks and sockets.
const GREENLETS: [&str; 2] = ["/gevent/", "/greenlet/"];

/// The stacks of the threads whose requests are on an event loop, without native frames.
fn stacks_of_loops(capture: &Capture) -> HashSet<u32> {
    let on_loop = capture.requests.iter().filter(|r| r.on_loop);
    let tids: HashSet<u32> = on_loop.map(|r| r.tid).collect();
    let own = tids.iter().filter_map(|tid| capture.samples.get(tid)).flatten();
    own.filter(|s| s.stack != 0).map(|s| capture.without_native(s.stack)).collect()
}

/// Whether a native frame has no better name than where in its file it is: `libfoo_so_1+0x1234`.
fn is_offset(frame: &Frame<'_>) -> bool {
    let hex = frame.function.rsplit_once("+0x").map(|(_, hex)| hex);
    frame.line == 0
        && hex.is_some_and(|hex| !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The checkout of dashcam that a native program was built with: crates that come from a folder
/// have no package's name in their path, and would be the program's own.
fn checkout(capture: &Capture) -> Option<&str> {
    const CRATES: [(&str, &str); 2] = [
        ("dashcam::", "/crates/dashcam/src/"),
        ("dashcam_tracing::", "/crates/tracing-layer/src/"),
    ];
    capture.codes.iter().find_map(|code| {
        let (function, file) = (capture.name(code.function), capture.name(code.file));
        let function = function.trim_start_matches(['<', '&']);
        let mut crates = CRATES.iter().filter(|(name, _)| function.starts_with(name));
        crates.find_map(|(_, folder)| Some(file.split_once(folder)?.0))
    })
}

/// Whether a file is a source of one of the crates in a checkout, not of an example or a test.
fn is_source_of(file: &str, checkout: &str) -> bool {
    let inside = file.strip_prefix(checkout).and_then(|rest| rest.strip_prefix("/crates/"));
    inside.and_then(|rest| rest.split('/').nth(1)) == Some("src")
}

/// Console scripts: installed beside the packages (`/venv/bin/gunicorn`), and nothing but a
/// module's top level was seen of them.
fn launchers(capture: &Capture) -> HashSet<&str> {
    let packages = capture.meta.site.iter().chain(&capture.meta.stdlib);
    let prefixes: HashSet<&str> =
        packages.filter_map(|dir| Some(dir.split_once("/lib")?.0)).collect();
    let is_script = |file: &str| {
        let (folder, name) = file.rsplit_once('/').unwrap_or_default();
        let prefix = folder.strip_suffix("/bin");
        prefix.is_some_and(|prefix| prefixes.contains(prefix)) && !name.ends_with(".py")
    };
    let (modules, functions): (Vec<_>, Vec<_>) = capture
        .codes
        .iter()
        .map(|code| (capture.name(code.function), capture.name(code.file)))
        .filter(|(_, file)| is_script(file))
        .partition(|(function, _)| *function == MODULE_BODY);
    let own: HashSet<&str> = functions.into_iter().map(|(_, file)| file).collect();
    modules.into_iter().map(|(_, file)| file).filter(|file| !own.contains(file)).collect()
}
