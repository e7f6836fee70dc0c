//! Suspended greenlets (gevent): the stack of a greenlet that switched away, and what it waits for.
//!
//! How it works: a greenlet that is not running keeps the frame in which it switched away, and that
//! frame its callers:
//!
//! ```text
//!   greenlet | ... | its own memory
//!                      `-> vtable, greenlet, exceptions, arguments, C stack, context, frame
//!                                                     frame -> caller -> caller -> ...
//! ```
//!
//! What it waits for is known from gevent's functions that were called last, if they are written in
//! Python. Those written in C (a queue, an Event, a semaphore of gevent's own) leave no frame;
//! their object is on the caller's value stack. The holder of a gevent lock is inside its `with`
//! block, as with threads (`locks`).
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | `greenlet.greenlet` | `Frame` (code id, line), innermost first | greenlet 2 and later |
//! | gevent's locals, value stacks | kind of wait, lock, descriptor, sleep | gevent 22 on |
//!
//! What it promises: as `awaits`: guarded reads, two walks that agree, `Torn` for an object that is
//! no greenlet of the known layout (its memory must point back to it), or has ended. What is
//! missing on purpose: greenlets that work for no open request (nothing lists them); kinds of waits
//! in eventlet (the stack is read).

use super::awaits::{Chain, Mark};
use super::frames::{Link, RawFrame};
use super::layout::object;
use super::objects::{Family, Sort};
use super::types::{CodeInfo, Torn};
use super::waits_for::{ended_by, Found};
use super::words::word_at;
use super::PythonStacks;
use format::wait::AwaitKind;

/// `greenlet.greenlet`: bytes of its body, and where its own memory is. Subclasses have more
/// behind.
const BODY: usize = 40;
const MEMORY: usize = 32;
/// Its own memory, in words: the greenlet again; where its C stack begins, 0 before it starts and
/// behind its end; the frame. Up to CPython 3.10 an exception's state takes two words more.
const ITSELF: usize = 1;
const STACK: usize = 7;
const FRAME: usize = 13;
const MORE_BEFORE_311: usize = 2;
const MEMORY_WORDS: usize = 16;
/// A frame object -> its frame (from 3.11 on; before, it is one).
const OBJECT_FRAME: usize = 24;
const MOST_FRAMES: usize = 512;
const FRAME_HEAD: usize = 128;
/// Innermost frames that are searched for gevent's, and frames whose `self` may lead to a socket.
const MOST_INNER: usize = 8;
const MOST_OWNERS: usize = 3;

impl PythonStacks {
    pub(super) fn is_greenlet(&mut self, address: usize) -> bool {
        let kind = self.objects.type_of(&self.mem, &self.layout, address);
        kind.is_some_and(|kind| kind.sort == Sort::Greenlet && kind.sort_size == BODY)
    }

    /// Whether the greenlet at `mark` certainly moved on since, or has ended. Three guarded reads.
    pub(super) fn greenlet_has_moved(&self, mark: Mark) -> bool {
        let word = |address: usize| self.mem.word(address).unwrap_or(0);
        let place = mark.frame.wrapping_add(self.layout.frame_instruction);
        self.frame_object(mark.task).unwrap_or(0) != mark.waiter
            || mark.frame != 0 && word(place) != mark.instruction
    }

    /// The frame object in which a greenlet switched away; 0 while it runs.
    fn frame_object(&self, greenlet: usize) -> Result<usize, Torn> {
        let memory = self.mem.word(greenlet.wrapping_add(MEMORY)).unwrap_or(0);
        let mut bytes = [0u8; MEMORY_WORDS * 8];
        self.mem.read(memory, &mut bytes).map_err(|_| Torn("greenlet gone"))?;
        let more = if self.layout.has_chunks() { 0 } else { MORE_BEFORE_311 };
        let word = |index: usize| word_at(&bytes, index * 8);
        if word(ITSELF) != greenlet {
            return Err(Torn("greenlet layout"));
        }
        if word(STACK + more) == 0 {
            return Err(Torn("greenlet has ended"));
        }
        Ok(word(FRAME + more))
    }

    /// The frames of a greenlet that switched away; none while it runs.
    pub(super) fn greenlet_once(&mut self, greenlet: usize) -> Result<Chain, Torn> {
        let object = self.frame_object(greenlet)?;
        let mut chain = Chain {
            task: greenlet,
            event_loop: 0,
            waiter: object,
            running: object == 0,
            is_greenlet: true,
            frames: Vec::new(),
        };
        let mut next = match self.layout.has_chunks() && object != 0 {
            true => self.mem.word(object.wrapping_add(OBJECT_FRAME)).unwrap_or(0),
            false => object,
        };
        while next != 0 && chain.frames.len() < MOST_FRAMES {
            let mut head = [0u8; FRAME_HEAD];
            if next % 8 != 0 || self.mem.read(next, &mut head).is_err() {
                return Err(Torn("frame gone"));
            }
            if !self.layout.has_chunks() && word_at(&head, object::REFERENCES) == 0 {
                return Err(Torn("frame freed"));
            }
            chain.frames.extend(Link::parse(&self.layout, next, &head).frame(&self.layout));
            let previous = word_at(&head, self.layout.frame_previous);
            if previous == next {
                return Err(Torn("frame is its own caller"));
            }
            next = previous;
        }
        Ok(chain)
    }

    /// What the greenlet of `chain`, whose code objects are verified, waits for.
    pub(super) fn switched_for(&mut self, chain: &Chain) -> Found {
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

    /// Whether the greenlet switched away inside of the `with` block of `lock`.
    pub(super) fn greenlet_holds(&mut self, greenlet: usize, lock: usize) -> Result<bool, Torn> {
        let chain = self.greenlet_once(greenlet)?;
        self.vouch(&chain.frames);
        let waits = chain.frames.first().map(|frame| self.first_local(frame));
        if waits == Some(lock) {
            return Ok(false);
        }
        for frame in &chain.frames {
            let kept = self.kept_slots(frame);
            if self.exits(&kept).iter().any(|exit| exit.own == lock) {
                return Ok(true);
            }
            let bound = |slot: &usize| self.mem.word(slot.wrapping_add(object::METHOD_SELF)).ok();
            let candidates: Vec<usize> =
                kept.into_iter().filter(|slot| bound(slot) == Some(lock)).collect();
            let is_builtin = |slot: &usize| {
                let kind = self.mem.word(slot.wrapping_add(object::TYPE)).ok();
                kind == Some(self.types.builtin_method)
            };
            if candidates.iter().any(is_builtin) {
                return Ok(true);
            }
        }
        Ok(false)
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
