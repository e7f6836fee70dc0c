//! What a suspended greenlet of gevent waits for.
//!
//! How it works: gevent's functions that were called last show it, if they are written in Python.
//! Those written in C (a queue, an Event, a semaphore of gevent's own) leave no frame; their object
//! is on the caller's value stack. Up to CPython 3.11 a `with` that enters one has put its way out
//! (`exits`) in the object's place by then.
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | gevent's locals, value stacks | kind of wait, lock, descriptor, sleep | gevent 22 on |
//!
//! What it promises: `Future` rather than a guess. What is missing on purpose: kinds of waits in
//! eventlet (the stack is read).

use crate::python_stacks::awaits::waits_for::{ended_by, Found};
use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::objects::sorts::Family;
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::tasks::chain::Chain;
use crate::python_stacks::types::CodeInfo;
use format::wait::AwaitKind;

/// Innermost frames that are searched for gevent's, and frames whose `self` may lead to a socket.
const MOST_INNER: usize = 8;
const MOST_OWNERS: usize = 3;

impl PythonStacks {
    /// What the greenlet of `chain`, whose code objects are verified, waits for.
    pub(crate) fn switched_for(&mut self, chain: &Chain) -> Found {
        let mut found =
            Found { kind: AwaitKind::Future, lock: 0, by: &[], fd: None, timeout_ns: 0 };
        if chain.running {
            found.kind = AwaitKind::Running;
            return found;
        }
        // Those of gevent and the interpreter that the program's own code called last.
        let places: Vec<(String, String)> =
            chain.frames.iter().take(MOST_INNER).map_while(|f| self.waiting_place(f)).collect();
        let within = |file: &str, names: &[&str]| {
            places.iter().any(|(f, n)| f == file && (names.is_empty() || names.contains(&&**n)))
        };
        let first = |at: usize| chain.frames.get(at).map_or(0, |frame| self.first_local(frame));
        match places.first().map(|(file, name)| (file.as_str(), name.as_str())) {
            _ if within("gevent/subprocess.py", &[]) => found.kind = AwaitKind::Child,
            _ if places.iter().any(|(file, name)| resolves(file, name)) => {
                found.kind = AwaitKind::Resolve;
            }
            Some(("gevent/hub.py" | "gevent/_hub_primitives.py", "sleep")) => {
                found.kind = AwaitKind::Sleep;
                let length = first(0);
                let ns = self.objects.seconds(&self.mem, &self.layout, length);
                found.timeout_ns = ns.unwrap_or(0);
            }
            Some(("gevent/thread.py", "acquire")) => {
                (found.kind, found.lock) = lock(&places, first)
            }
            Some(("gevent/threadpool.py", _)) => found.kind = AwaitKind::Executor,
            Some(("gevent/pool.py", name)) => {
                let takes = matches!(name, "add" | "start" | "spawn" | "wait_available");
                found.kind = if takes { AwaitKind::Semaphore } else { AwaitKind::Executor };
            }
            Some((file, name)) if is_of_sockets(file) => {
                let connects = matches!(name, "connect" | "connect_ex" | "create_connection");
                found.kind = if connects { AwaitKind::Connect } else { AwaitKind::Socket };
                let own = chain.frames.iter().take(MOST_OWNERS).map(|f| self.first_local(f));
                let own = own.collect();
                found.fd = self.only_socket(own, 0);
            }
            _ => (found.kind, found.lock) = self.held_by_hand(chain),
        }
        found.by = match found.kind {
            AwaitKind::Lock => ended_by(found.kind, "acquire"),
            _ => &[],
        };
        found
    }

    /// File, with its folder, and function of a frame of gevent or the interpreter's library.
    fn waiting_place(&self, frame: &RawFrame) -> Option<(String, String)> {
        let CodeInfo { file, qualname, .. } = self.code_of(frame)?;
        let (rest, base) = file.rsplit_once('/')?;
        let (above, folder) = rest.rsplit_once('/').unwrap_or(("", rest));
        let gevent = folder == "gevent" || above.ends_with("/gevent");
        let library = folder.starts_with("python3.") || above.contains("/python3.");
        let own = gevent || library && !rest.contains("-packages");
        let name = qualname.rsplit('.').next().unwrap_or(qualname);
        own.then(|| (format!("{folder}/{base}"), name.to_owned()))
    }

    /// The object that gevent's own C code waits in: the one object of such a class on the value
    /// stack of the innermost frame.
    fn held_by_hand(&mut self, chain: &Chain) -> (AwaitKind, usize) {
        let Some(frame) = chain.frames.first() else { return (AwaitKind::Future, 0) };
        let mut found = self.value_stack(frame);
        // The ways by which it leaves blocks that it is inside of do not show what it waits for.
        let inside = self.kept_slots(frame).len().min(found.len());
        let entered = self.exits(&found[inside..]);
        found.extend(entered.iter().map(|exit| exit.own));
        found.sort_unstable();
        found.dedup();
        let kinds = self.types_at(&found);
        let known = found.into_iter().zip(kinds).filter_map(|(address, kind)| {
            let family = kind?.family;
            (family != Family::None && family != Family::TaskGroup).then_some((family, address))
        });
        let known: Vec<(Family, usize)> = known.collect();
        match known[..] {
            [(Family::Queue, queue)] => (AwaitKind::Queue, queue),
            [(Family::Semaphore, semaphore)] => (AwaitKind::Semaphore, semaphore),
            [(Family::Event, event)] => (AwaitKind::Event, event),
            _ => (AwaitKind::Future, 0),
        }
    }
}

/// The kind of a `gevent.thread` lock, by the function that acquires it, and the object it is in.
fn lock(places: &[(String, String)], first: impl Fn(usize) -> usize) -> (AwaitKind, usize) {
    let at = |index: usize| places.get(index).map(|(file, name)| (file.as_str(), name.as_str()));
    let base = |index: usize| {
        at(index).map(|(file, name)| (file.rsplit('/').next().unwrap_or(file), name))
    };
    match (base(1), base(2)) {
        (Some(("threading.py", "wait")), Some(("threading.py", "acquire"))) => {
            (AwaitKind::Semaphore, first(2))
        }
        (Some(("threading.py", "wait")), Some(("queue.py", _))) => (AwaitKind::Queue, first(2)),
        (Some(("threading.py", "wait")), Some(("_base.py", _))) => (AwaitKind::Executor, 0),
        (Some(("threading.py", "wait")), Some(("threading.py", "wait"))) => {
            (AwaitKind::Event, first(2))
        }
        (Some(("threading.py", "wait")), _) => (AwaitKind::Condition, first(1)),
        (Some(("threading.py", "join" | "_wait_for_tstate_lock")), _) => (AwaitKind::Future, 0),
        // The lock inside of an RLock, which is what the holder's block has.
        (Some(("threading.py", "acquire" | "__enter__")), _) => (AwaitKind::Lock, first(1)),
        _ => (AwaitKind::Lock, first(0)),
    }
}

fn resolves(file: &str, name: &str) -> bool {
    file.starts_with("resolver/")
        || file.starts_with("gevent/")
            && (name.starts_with("getaddrinfo") || name.starts_with("gethostby"))
}

fn is_of_sockets(file: &str) -> bool {
    let (folder, base) = file.rsplit_once('/').unwrap_or(("", file));
    let gevents = [
        "_socketcommon.py",
        "_socket3.py",
        "socket.py",
        "ssl.py",
        "_ssl3.py",
        "select.py",
        "selectors.py",
        "os.py",
    ];
    folder == "gevent" && gevents.contains(&base)
}
