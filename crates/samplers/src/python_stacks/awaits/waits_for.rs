//! What a suspended task awaits, and the task or peer that it waits for.
//!
//! How it works: the innermost frames show it when they are asyncio's own (`Lock.acquire` waits for
//! a lock; the class of the frame's `self` separates a `Lock` from a `Semaphore` where names do
//! not). A future that comes from an executor carries asyncio's callback for that. For a peer, the
//! objects of the code that awaits (a library's, and the program's function that called it) are
//! followed to a socket: from attribute to attribute, nearest first.
//!
//! An `asyncio.Lock` does not know its holder, but `async with lock:` has the lock's `__aexit__` on
//! the value stack of the holder's frame (see `exits`), which a suspended coroutine keeps exactly.
//!
//! What it promises: `Future` and no holder rather than a guess; several sockets at the nearest
//! distance count as none. Bounded: `OBJECTS_MAX` objects a search. What is missing on purpose:
//! holders that took the lock by `await lock.acquire()`, or that run.

use crate::python_stacks::frames::frame::RawFrame;
use crate::python_stacks::objects::sorts::Family;
use crate::python_stacks::reader::PythonStacks;
use crate::python_stacks::task_tables::task_layout::FUTURE_CALLBACK;
use crate::python_stacks::tasks::chain::Chain;
use format::wait::AwaitKind;

/// Frames of a chain whose `self` may lead to the socket.
const MOST_OWNERS: usize = 4;

/// What a task awaits.
pub(crate) struct Found {
    pub kind: AwaitKind,
    pub lock: usize,
    /// Methods by which another task ends the wait.
    pub by: &'static [&'static str],
    pub fd: Option<i32>,
    pub timeout_ns: u64,
}

impl PythonStacks {
    /// What `chain`, whose code objects are verified, awaits.
    pub(crate) fn waits_for(&mut self, chain: &Chain) -> Found {
        let mut found =
            Found { kind: AwaitKind::Future, lock: 0, by: &[], fd: None, timeout_ns: 0 };
        if chain.running || chain.waiter == 0 {
            found.kind = if chain.running { AwaitKind::Running } else { AwaitKind::Ready };
            return found;
        }
        // The frames of asyncio that the program's own code called last.
        let places: Vec<(String, String)> =
            chain.frames.iter().map_while(|frame| self.asyncio_place(frame)).collect();
        let within = |file: &str, names: &[&str]| {
            places.iter().any(|(f, n)| f == file && (names.is_empty() || names.contains(&&**n)))
        };
        let leaf = places.first().map(|(file, name)| (file.as_str(), name.as_str()));
        found.kind = match leaf {
            _ if within("subprocess.py", &[]) || within("base_subprocess.py", &["_wait"]) => {
                AwaitKind::Child
            }
            _ if within("base_events.py", &["getaddrinfo", "getnameinfo"]) => AwaitKind::Resolve,
            _ if connects(&within) => AwaitKind::Connect,
            Some(("tasks.py", "sleep")) => AwaitKind::Sleep,
            Some(("locks.py" | "queues.py", _)) => {
                let own = chain.frames.first().map_or(0, |frame| self.first_local(frame));
                let family = self.type_at(own).map_or(Family::None, |kind| kind.family);
                found.lock = own;
                kind_of(family)
            }
            Some(("streams.py", _)) => AwaitKind::Socket,
            Some((_, "sock_recv" | "sock_recv_into" | "sock_recvfrom" | "sock_sendall")) => {
                AwaitKind::Socket
            }
            _ if self.is_from_executor(chain.waiter) => AwaitKind::Executor,
            _ => AwaitKind::Future,
        };
        if found.kind == AwaitKind::Future {
            found.lock = chain.waiter;
        }
        found.by = ended_by(found.kind, leaf.map_or("", |(_, name)| name));
        found.timeout_ns = self.time_limit(chain, &places);
        let about_a_peer = [AwaitKind::Socket, AwaitKind::Future, AwaitKind::Event];
        if about_a_peer.contains(&found.kind) {
            let own = self.awaiting(chain).into_iter().take(MOST_OWNERS);
            let own = match leaf {
                // A method of the loop's: the socket is its first argument.
                Some(("selector_events.py", _)) => own.flat_map(|f| self.slots(f, 1, 1)).collect(),
                _ => own.map(|f| self.first_local(f)).collect(),
            };
            found.fd = self.only_socket(own, chain.event_loop);
        }
        found
    }

    /// The innermost frames, down to the first one of the program's own: what its callers have (the
    /// request, with its client's socket) says nothing of what that awaits.
    fn awaiting<'c>(&self, chain: &'c Chain) -> Vec<&'c RawFrame> {
        let mut found = Vec::new();
        for frame in &chain.frames {
            found.push(frame);
            if !self.code_of(frame).is_some_and(|code| is_library(&code.file)) {
                break;
            }
        }
        found
    }

    /// The delay of a `sleep`, or the limit of a `wait_for`: their first and second argument.
    fn time_limit(&mut self, chain: &Chain, places: &[(String, String)]) -> u64 {
        for (frame, (file, name)) in chain.frames.iter().zip(places) {
            let argument = match (file.as_str(), name.as_str()) {
                ("tasks.py", "sleep") => 0,
                ("tasks.py", "wait_for") => 1,
                _ => continue,
            };
            let value = self.slots(frame, argument, 1).first().copied().unwrap_or(0);
            return self.objects.seconds(&self.mem, &self.layout, value).unwrap_or(0);
        }
        0
    }

    /// A future chained to one of `concurrent.futures` has asyncio's check for that as its first
    /// callback.
    fn is_from_executor(&mut self, future: usize) -> bool {
        let callback = self.mem.word(future.wrapping_add(FUTURE_CALLBACK)).unwrap_or(0);
        let code = self.asyncio_function(callback);
        code.is_some_and(|(file, name)| file == "futures.py" && name == "_call_check_cancel")
    }
}

/// Whether a file is the interpreter's or of an installed package.
fn is_library(file: &str) -> bool {
    file.contains("-packages/") || file.contains("/python3.")
}

/// The methods of the awaited object that wake its waiters. `method`: the one that waits.
pub(crate) fn ended_by(kind: AwaitKind, method: &str) -> &'static [&'static str] {
    match kind {
        AwaitKind::Queue if method == "put" => &["get", "get_nowait"],
        AwaitKind::Queue if method == "get" => &["put", "put_nowait"],
        AwaitKind::Queue => &["task_done"],
        AwaitKind::Lock | AwaitKind::Semaphore => &["release"],
        AwaitKind::Condition => &["notify", "notify_all"],
        AwaitKind::Event => &["set"],
        AwaitKind::Future => &["set_result", "set_exception"],
        _ => &[],
    }
}

fn connects(within: &dyn Fn(&str, &[&str]) -> bool) -> bool {
    let makers = [
        "create_connection",
        "create_unix_connection",
        "create_datagram_endpoint",
        "_connect_sock",
        "start_tls",
    ];
    within("base_events.py", &makers)
        || within("unix_events.py", &makers)
        || within("selector_events.py", &["sock_connect"])
}

fn kind_of(family: Family) -> AwaitKind {
    match family {
        Family::Lock => AwaitKind::Lock,
        Family::Semaphore => AwaitKind::Semaphore,
        Family::Condition => AwaitKind::Condition,
        Family::Event => AwaitKind::Event,
        Family::Queue => AwaitKind::Queue,
        Family::TaskGroup | Family::None => AwaitKind::Future,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_no_library() {
        assert!(is_library("/usr/lib/python3.11/asyncio/streams.py"));
        assert!(is_library("/usr/lib/python3/dist-packages/redis/client.py"));
        assert!(!is_library("/srv/shop/bridge.py"));
    }
}
