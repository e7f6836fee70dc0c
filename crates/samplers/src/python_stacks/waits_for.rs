//! What a suspended task awaits, and the task or peer that it waits for.
//!
//! How it works: the innermost frames show it when they are asyncio's own (`Lock.acquire` waits for
//! a lock; the class of the frame's `self` separates a `Lock` from a `Semaphore` where names do
//! not). A future that comes from an executor carries asyncio's callback for that. For a peer, the
//! object that awaits is followed to a socket: from attribute to attribute, nearest first.
//!
//! An `asyncio.Lock` does not know its holder, but `async with lock:` has the lock's `__aexit__` on
//! the value stack of the holder's frame (see `exits`), which a suspended coroutine keeps exactly.
//!
//! What it promises: `Future` and no holder rather than a guess; several sockets at the nearest
//! distance count as none. Bounded: `MOST_LOOKED_AT` objects a search. What is missing on purpose:
//! holders that took the lock by `await lock.acquire()`, or that run.

use super::awaits::{Chain, FUTURE_CALLBACK};
use super::frames::RawFrame;
use super::layout::object;
use super::objects::{self, Family, Sort, Type};
use super::task_table::TaskLists;
use super::types::{CodeInfo, Torn};
use super::words::{read_each, word_at};
use super::PythonStacks;
use format::wait::AwaitKind;

/// Objects read in one search, and how far from its start.
const MOST_LOOKED_AT: usize = 160;
const MOST_STEPS: usize = 4;
/// An object's count of references and its type; a weak reference, and what it refers to.
const HEAD_BYTES: usize = 16;
const REFERENCE_BYTES: usize = 24;
/// Tasks that one task may await.
const MOST_CHILDREN: usize = 8;
/// Frames of a chain that are searched for a task group's block.
const MOST_WITHIN: usize = 24;
/// Frames of a chain whose `self` may lead to the socket.
const MOST_OWNERS: usize = 4;

/// Many tasks wait for one pool: an owner of several sockets is not searched again for the first
/// time, one that leads to none (yet: it may be connecting) for the second.
const SEVERAL_NS: u64 = 1_000_000_000;
const NO_SOCKET_NS: u64 = 100_000_000;
const MOST_WITHOUT: usize = 32;

/// In place of a descriptor: a connection, but its number is not known.
pub const UNKNOWN_PEER: i32 = -1;

/// Sockets at the nearest distance from an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Near {
    One(i32),
    Several,
    Nothing,
}

/// An object that does not lead to one socket, and when that was seen.
pub(super) struct WithoutSocket {
    owner: usize,
    seen_ns: u64,
    near: Near,
}

/// What a task awaits.
pub(super) struct Found {
    pub kind: AwaitKind,
    pub lock: usize,
    /// Methods by which another task ends the wait.
    pub by: &'static [&'static str],
    pub fd: Option<i32>,
    pub timeout_ns: u64,
}

/// `tasks.py` of `.../asyncio/tasks.py`.
fn asyncio_file(code: &CodeInfo) -> Option<&str> {
    let (folder, file) = code.file.rsplit_once('/')?;
    folder.ends_with("/asyncio").then_some(file)
}

fn function(code: &CodeInfo) -> &str {
    code.qualname.rsplit('.').next().unwrap_or(&code.qualname)
}

impl PythonStacks {
    pub(super) fn code_of(&self, frame: &RawFrame) -> Option<&CodeInfo> {
        self.code(self.codes.id(frame.code)?)
    }

    /// File and function of a frame in asyncio itself.
    fn asyncio_place(&self, frame: &RawFrame) -> Option<(String, String)> {
        let code = self.code_of(frame)?;
        Some((asyncio_file(code)?.to_owned(), function(code).to_owned()))
    }

    fn type_at(&mut self, address: usize) -> Option<Type> {
        self.objects.type_of(&self.mem, &self.layout, address)
    }

    /// The types of several objects, for the price of a few reads; None for what is no live object.
    pub(super) fn types_at(&mut self, addresses: &[usize]) -> Vec<Option<Type>> {
        let plausible = |address: usize| address >= 4096 && address % 8 == 0;
        let asked: Vec<usize> = addresses.iter().copied().filter(|a| plausible(*a)).collect();
        let mut heads = Vec::new();
        read_each(&self.mem, &asked, HEAD_BYTES, &mut heads);
        let mut heads = heads.chunks_exact(HEAD_BYTES);
        let (objects, mem, layout) = (&mut self.objects, &self.mem, &self.layout);
        let mut kind = |address: &usize| {
            let head = if plausible(*address) { heads.next()? } else { return None };
            objects.type_in(mem, layout, head)
        };
        addresses.iter().map(&mut kind).collect()
    }

    pub(super) fn first_local(&self, frame: &RawFrame) -> usize {
        self.slots(frame, 0, 1).first().copied().unwrap_or(0)
    }

    /// What `chain`, whose code objects are verified, awaits.
    pub(super) fn waits_for(&mut self, chain: &Chain) -> Found {
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
            let own = chain.frames.iter().take(MOST_OWNERS);
            let own = match leaf {
                // A method of the loop's: the socket is its first argument.
                Some(("selector_events.py", _)) => own.flat_map(|f| self.slots(f, 1, 1)).collect(),
                _ => own.map(|f| self.first_local(f)).collect(),
            };
            found.fd = self.only_socket(own, chain.event_loop);
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

    /// File and name of a function of asyncio.
    fn asyncio_function(&mut self, address: usize) -> Option<(String, String)> {
        let kind = self.type_at(address)?;
        if kind.sort != Sort::Function {
            return None;
        }
        let code = self.mem.word(address.wrapping_add(self.layout.function_code)).ok()?;
        let info = self.codes.glance(&self.mem, &self.layout, code)?;
        Some((asyncio_file(&info)?.to_owned(), function(&info).to_owned()))
    }

    /// The tasks not done that `chain` waits for; none of those in `met`.
    pub(super) fn awaited_tasks(&mut self, chain: &Chain, met: &[usize]) -> Vec<usize> {
        if chain.waiter == 0 {
            return Vec::new();
        }
        let kind = self.type_at(chain.waiter);
        if self.is_task(kind) {
            let fresh = !met.contains(&chain.waiter) && self.is_pending(chain.waiter);
            return if fresh { vec![chain.waiter] } else { Vec::new() };
        }
        let Some(kind) = kind else { return Vec::new() };
        // `gather` keeps its children in the future's attributes, `shield` its one in a callback.
        let mut start = Vec::new();
        for word in self.objects.contents(&self.mem, &self.layout, chain.waiter, kind) {
            let sort = self.type_at(word).map(|kind| kind.sort);
            if matches!(sort, Some(Sort::List | Sort::Function | Sort::Task)) {
                start.push(word);
            }
        }
        let leaf = chain.frames.first();
        let place = leaf.and_then(|frame| self.asyncio_place(frame));
        if let (Some(frame), Some((file, name))) = (leaf, place) {
            match (file.as_str(), name.as_str()) {
                ("tasks.py", "wait_for" | "_wait" | "_cancel_and_wait") => {
                    start.extend(self.live_slots(frame));
                }
                ("taskgroups.py", _) => {
                    let group = self.first_local(frame);
                    if let Some(kind) = self.type_at(group).filter(|k| k.sort == Sort::Instance) {
                        let own = self.objects.contents(&self.mem, &self.layout, group, kind);
                        start.extend(own);
                    }
                }
                _ => (),
            }
        }
        let tasks = self.tasks_within(start, met);
        if !tasks.is_empty() || !self.is_for_a_notice(chain) {
            return tasks;
        }
        let groups = self.groups_around(chain);
        self.tasks_within(groups, met)
    }

    /// Whether the innermost code waits for a notice of another task: an Event, an item, a future
    /// without a known source.
    fn is_for_a_notice(&self, chain: &Chain) -> bool {
        let place = chain.frames.first().and_then(|frame| self.asyncio_place(frame));
        match place {
            Some((file, name)) => {
                matches!(file.as_str(), "locks.py" | "queues.py") && name != "acquire"
            }
            None => !chain.frames.is_empty(),
        }
    }

    /// The content of the task groups that the waiting code has opened itself, by its file: one of
    /// their tasks will send the notice. A web framework runs what a middleware wraps in such a
    /// group, and waits for its messages. Code of another file that runs inside of a group's block
    /// waits for something that it started itself.
    fn groups_around(&mut self, chain: &Chain) -> Vec<usize> {
        let file =
            |stacks: &PythonStacks, frame: &RawFrame| stacks.code_of(frame).map(|c| c.file.clone());
        let carries = |file: &str| file.contains("/asyncio/") || file.contains("/anyio/");
        let mut owners = Vec::new();
        let mut own: Option<String> = None;
        for frame in chain.frames.iter().take(MOST_WITHIN) {
            let Some(file) = file(self, frame) else { continue };
            if own.is_none() && carries(&file) {
                // The end of a block waits in a method of the group.
                owners.push(self.first_local(frame));
            } else if *own.get_or_insert_with(|| file.clone()) == file {
                let slots = self.live_slots(frame);
                owners.extend(self.exits(&slots).iter().map(|exit| exit.own));
            }
        }
        let kinds = self.types_at(&owners);
        let mut groups = owners.into_iter().zip(kinds).filter_map(|(o, kind)| Some((o, kind?)));
        let group = groups.find(|(_, kind)| kind.family == Family::TaskGroup);
        let contents = |(owner, kind)| self.objects.contents(&self.mem, &self.layout, owner, kind);
        group.map(contents).unwrap_or_default()
    }

    fn tasks_within(&mut self, start: Vec<usize>, met: &[usize]) -> Vec<usize> {
        let mut tasks = Vec::new();
        let (mut level, mut looked) = (start, 0);
        for _ in 0..MOST_STEPS {
            let mut next = Vec::new();
            for address in level {
                let Some(kind) = self.type_at(address) else { continue };
                looked += 1;
                if looked > MOST_LOOKED_AT || tasks.len() >= MOST_CHILDREN {
                    return tasks;
                }
                match kind.sort {
                    // What callbacks of a program refer to has nothing to do with the await.
                    Sort::Function if self.asyncio_function(address).is_none() => (),
                    Sort::Task => {
                        let fresh = !met.contains(&address) && !tasks.contains(&address);
                        if fresh && self.is_task(Some(kind)) && self.is_pending(address) {
                            tasks.push(address);
                        }
                    }
                    Sort::List | Sort::Tuple | Sort::Set | Sort::Single | Sort::Function => {
                        let own = self.objects.contents(&self.mem, &self.layout, address, kind);
                        next.extend(own);
                    }
                    _ => (),
                }
            }
            level = next;
        }
        tasks
    }

    /// The descriptor of the socket nearest to the first of `owners` that leads to any, if there is
    /// exactly one.
    pub(super) fn only_socket(&mut self, owners: Vec<usize>, event_loop: usize) -> Option<i32> {
        let now = sys::clock::now_ns();
        self.no_socket.retain(|known| {
            let valid_ns = if known.near == Near::Several { SEVERAL_NS } else { NO_SOCKET_NS };
            now.saturating_sub(known.seen_ns) < valid_ns
        });
        for owner in owners {
            let known = self.no_socket.iter().find(|known| known.owner == owner);
            let known = known.map(|known| known.near);
            let near = known.unwrap_or_else(|| self.socket_near(owner, event_loop));
            if let Near::One(fd) = near {
                return Some(fd);
            }
            if known.is_none() && self.no_socket.len() < MOST_WITHOUT {
                self.no_socket.push(WithoutSocket { owner, seen_ns: now, near });
            }
            // Any object that has this owner has no fewer.
            if near == Near::Several {
                return None;
            }
        }
        None
    }

    fn socket_near(&mut self, owner: usize, event_loop: usize) -> Near {
        let mut level = vec![owner];
        let mut seen = vec![event_loop];
        for _ in 0..MOST_STEPS {
            let (mut next, mut found) = (Vec::new(), Vec::new());
            level.retain(|address| !seen.contains(address));
            // What another search found for these holds for this one, which has fewer steps left.
            let known = |address: &usize| self.no_socket.iter().find(|k| k.owner == *address);
            let several = level.iter().filter_map(known).any(|k| k.near == Near::Several);
            level.retain(|address| known(address).is_none());
            let kinds = self.types_at(&level);
            for (address, kind) in level.into_iter().zip(kinds) {
                if seen.len() > MOST_LOOKED_AT {
                    return Near::Nothing;
                }
                let Some(kind) = kind.filter(|_| !seen.contains(&address)) else { continue };
                seen.push(address);
                match kind.sort {
                    Sort::Socket => found.extend(self.descriptor(address)),
                    Sort::Transport => found.push(self.transport(address, kind)),
                    Sort::Instance | Sort::Dict => {
                        let own = self.objects.contents(&self.mem, &self.layout, address, kind);
                        next.extend(own);
                    }
                    _ => (),
                }
            }
            found.sort_unstable();
            found.dedup();
            match found[..] {
                [] if several => return Near::Several,
                [] => level = next,
                [fd] => return Near::One(fd),
                _ => return Near::Several,
            }
        }
        Near::Nothing
    }

    /// uvloop keeps the descriptor in memory of libuv; the socket object exists only if the program
    /// made it or requested it.
    fn transport(&mut self, address: usize, kind: Type) -> i32 {
        let mut body = kind;
        body.sort = Sort::Instance;
        for word in self.objects.contents(&self.mem, &self.layout, address, body) {
            if self.type_at(word).is_some_and(|kind| kind.sort == Sort::Socket) {
                return self.descriptor(word).unwrap_or(UNKNOWN_PEER);
            }
        }
        UNKNOWN_PEER
    }

    fn descriptor(&self, socket: usize) -> Option<i32> {
        let mut bytes = [0u8; 4];
        self.mem.read(socket.wrapping_add(16), &mut bytes).ok()?;
        Some(i32::from_ne_bytes(bytes)).filter(|fd| *fd >= 0)
    }

    /// The tasks in a set of weak references to them, as asyncio keeps it up to 3.13; later those
    /// on its lists, and no set is read.
    pub fn tasks_in(&mut self, set: usize, most: usize, out: &mut Vec<usize>) {
        let tasks = match self.tasks.lists {
            Some(lists) => self.listed(lists, most),
            None => self.referents(set, most),
        };
        let kinds = self.types_at(&tasks);
        for (task, kind) in tasks.into_iter().zip(kinds) {
            if self.is_task(kind) && self.is_pending(task) {
                out.push(task);
            }
        }
    }

    /// What a set of weak references refers to.
    fn referents(&mut self, set: usize, most: usize) -> Vec<usize> {
        let items = objects::set_items(&self.mem, set, most).unwrap_or_default();
        let kinds = self.types_at(&items);
        let is_reference = |kind: &Option<Type>| kind.is_some_and(|kind| kind.sort == Sort::Single);
        let references: Vec<usize> =
            items.into_iter().zip(kinds).filter(|(_, k)| is_reference(k)).map(|(i, _)| i).collect();
        let mut bytes = Vec::new();
        read_each(&self.mem, &references, REFERENCE_BYTES, &mut bytes);
        bytes.chunks_exact(REFERENCE_BYTES).map(|one| word_at(one, object::SIZE)).collect()
    }

    /// What is on the lists of all threads and of the main interpreter: each a ring of nodes, whose
    /// head is no task. One read a task.
    fn listed(&mut self, lists: TaskLists, most: usize) -> Vec<usize> {
        if self.threads.is_old(&self.mem, &self.layout) {
            // A list of threads that is torn is the one before.
            let _ = self.threads.refresh(&self.mem, &self.layout);
        }
        let of_threads = self.threads.seen.iter().map(|thread| thread.state + lists.of_thread);
        let main = self.threads.main_interpreter(&self.mem, &self.layout);
        let heads = of_threads.chain(main.map(|main| main + lists.of_interpreter));
        let mut found = Vec::new();
        for head in heads.collect::<Vec<usize>>() {
            let mut node = self.mem.word(head).unwrap_or(head);
            while node != head && node != 0 && found.len() < most {
                found.push(node.wrapping_sub(lists.node));
                node = self.mem.word(node).unwrap_or(head);
            }
        }
        found
    }

    /// The task among `tasks` that is suspended inside `async with` of `lock`. Costs a walk of
    /// every task: call it once a wait.
    pub fn task_holding(&mut self, lock: usize, tasks: &[usize]) -> Option<usize> {
        tasks.iter().copied().find(|task| self.holds(*task, lock).unwrap_or(false))
    }

    fn holds(&mut self, task: usize, lock: usize) -> Result<bool, Torn> {
        if self.is_greenlet(task) {
            return self.greenlet_holds(task, lock);
        }
        let chain = self.chain_once(task)?;
        let mut inner = 0;
        for frame in &chain.frames {
            // A task that is still entering (or leaving) has the method on its stack as well.
            let entered = inner;
            inner = self.first_local(frame);
            if entered != lock && self.has_exit_of(frame, lock, entered) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a frame is inside `async with` of `lock`, or of an object that
    /// `contextlib.asynccontextmanager` made and that has the lock, unless that is `entered` only
    /// now.
    fn has_exit_of(&mut self, frame: &RawFrame, lock: usize, entered: usize) -> bool {
        let slots = self.live_slots(frame);
        self.exits(&slots).into_iter().any(|exit| match exit.own == lock {
            true => {
                let code = self.asyncio_function(exit.function);
                code.is_some_and(|(_, name)| name == "__aexit__")
            }
            false => {
                let attributes = self.attributes(exit.own);
                exit.own != entered && self.lets_go(exit.function, &attributes, lock)
                    || self.collects(&attributes, lock)
            }
        })
    }
}

/// The methods of the awaited object that wake its waiters. `method`: the one that waits.
pub(super) fn ended_by(kind: AwaitKind, method: &str) -> &'static [&'static str] {
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
