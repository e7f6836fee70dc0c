//! The sort of an object: recognised by its type's C name and, for types made by programs, by the
//! types it derives from.
//!
//! What it promises: guarded reads only, `MOST_BASES` types deep. What is missing on purpose:
//! keeping what was learned (`objects`).

use crate::python_stacks::layout::words::word_at;
use crate::python_stacks::layout::Layout;
use sys::mem::Reader;

/// Types a type is followed to that it derives from.
const MOST_BASES: usize = 12;
/// Long enough for the fields of a type read here.
const TYPE_HEAD: usize = 296;
pub(crate) const TYPE_NAME: usize = 24;
const TYPE_SIZE: usize = 32;
const TYPE_DICT_OFFSET: usize = 288;
const FLAG_HEAP_TYPE: usize = 1 << 9;

/// What an object is, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Task,
    Greenlet,
    Future,
    /// Refers to the awaited object in its first word: a future's iterator, an asynchronous
    /// generator's step, `anext()`, a coroutine's wrapper, a wrapper of our hooks.
    Passing,
    Coroutine,
    Generator,
    AsyncGenerator,
    List,
    Tuple,
    Set,
    Dict,
    Deque,
    /// A closure's cell, a weak reference: one reference.
    Single,
    Function,
    Method,
    /// A C type's method that is bound to no object.
    Descriptor,
    Socket,
    /// A queue written in C, with a lock of its own inside.
    SimpleQueue,
    /// A connection whose descriptor is not kept in an object.
    Transport,
    Float,
    Int,
    Text,
    /// Made by a program's class, or by a type of an extension.
    Instance,
    /// An object that is not searched.
    Other,
}

/// The class of an object that tasks wait in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Lock,
    Semaphore,
    Condition,
    Event,
    Queue,
    /// Of asyncio or anyio.
    TaskGroup,
    None,
}

/// What is known of a type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type {
    pub sort: Sort,
    pub family: Family,
    /// Bytes of the body.
    pub size: usize,
    /// The same for the type that gave it its sort: its own, or one it derives from.
    pub sort_size: usize,
    pub flags: usize,
    pub dict_offset: isize,
}

impl Type {
    /// Whether the type exists as long as the process.
    pub fn is_static(&self) -> bool {
        self.flags & FLAG_HEAP_TYPE == 0
    }
}

pub(crate) fn learn(mem: &Reader, layout: &Layout, kind: usize) -> Option<(usize, Type)> {
    let mut first = None;
    let (mut sort, mut family) = (None, Family::None);
    let (mut next, mut sort_size) = (kind, 0);
    for _ in 0..MOST_BASES {
        let mut head = [0u8; TYPE_HEAD];
        if next == 0 || mem.read(next, &mut head).is_err() {
            break;
        }
        let name_at = word_at(&head, TYPE_NAME);
        let flags = word_at(&head, layout.type_flags);
        let name = c_text(mem, name_at)?;
        let made = flags & FLAG_HEAP_TYPE != 0;
        first = first.or(Some((name_at, head)));
        if let (None, Some(found)) = (sort, sort_of(&name, made)) {
            sort = Some(found);
            sort_size = word_at(&head, TYPE_SIZE);
        }
        if family == Family::None {
            family = family_of(&name);
        }
        next = word_at(&head, layout.type_base);
    }
    let (name, head) = first?;
    let flags = word_at(&head, layout.type_flags);
    let foreign = flags & FLAG_HEAP_TYPE != 0 || c_text(mem, name)?.contains('.');
    let rest = if foreign { Sort::Instance } else { Sort::Other };
    let found = Type {
        sort: sort.unwrap_or(rest),
        family,
        size: word_at(&head, TYPE_SIZE),
        sort_size,
        flags,
        dict_offset: word_at(&head, TYPE_DICT_OFFSET) as isize,
    };
    Some((name, found))
}

/// A type of a program (`made`) has a plain name whatever it is; a C type's name includes its
/// module, unless it is the interpreter's own.
fn sort_of(name: &str, made: bool) -> Option<Sort> {
    let dotted = match name {
        "_asyncio.Task" => Some(Sort::Task),
        "_asyncio.Future" => Some(Sort::Future),
        "greenlet.greenlet" => Some(Sort::Greenlet),
        // Our wrapper around an ASGI application: python/src/moments/awaited/passing.rs.
        "_asyncio.FutureIter" | "dashcam._native.Passing" => Some(Sort::Passing),
        "_socket.socket" => Some(Sort::Socket),
        "collections.deque" => Some(Sort::Deque),
        "_queue.SimpleQueue" => Some(Sort::SimpleQueue),
        "uvloop.loop.TCPTransport" | "uvloop.loop.UnixTransport" => Some(Sort::Transport),
        _ => None,
    };
    if dotted.is_some() || made {
        return dotted;
    }
    Some(match name {
        "coroutine" => Sort::Coroutine,
        "generator" => Sort::Generator,
        "async_generator" => Sort::AsyncGenerator,
        "coroutine_wrapper"
        | "async_generator_asend"
        | "async_generator_athrow"
        | "anext_awaitable" => Sort::Passing,
        "list" => Sort::List,
        "tuple" => Sort::Tuple,
        "set" | "frozenset" => Sort::Set,
        "dict" => Sort::Dict,
        "cell" | "weakref" | "weakref.ReferenceType" => Sort::Single,
        "function" => Sort::Function,
        "method" => Sort::Method,
        "method_descriptor" => Sort::Descriptor,
        "float" => Sort::Float,
        "int" => Sort::Int,
        "str" => Sort::Text,
        "type" | "module" | "frame" | "code" | "bytes" => Sort::Other,
        _ => return None,
    })
}

fn family_of(name: &str) -> Family {
    // gevent's names include the module's name too: `gevent._gevent_cqueue.Queue`.
    let own = name.strip_prefix("gevent.").and_then(|rest| rest.rsplit('.').next());
    match own.unwrap_or(name) {
        "Lock" => Family::Lock,
        "Semaphore" | "BoundedSemaphore" => Family::Semaphore,
        "Condition" => Family::Condition,
        "Event" | "Barrier" | "AsyncResult" => Family::Event,
        "Queue" | "SimpleQueue" | "JoinableQueue" | "LifoQueue" | "PriorityQueue" => Family::Queue,
        "TaskGroup" => Family::TaskGroup,
        _ => Family::None,
    }
}

/// The text at `address` up to its zero, at most 63 bytes of it.
pub(crate) fn c_text(mem: &Reader, address: usize) -> Option<String> {
    let mut bytes = [0u8; 64];
    // The text may end shortly before memory that is not mapped.
    if mem.read(address, &mut bytes).is_err() {
        let short = 64 - address % 64;
        mem.read(address, &mut bytes[..short]).ok()?;
    }
    let length = bytes.iter().position(|b| *b == 0)?;
    Some(String::from_utf8_lossy(&bytes[..length]).into_owned())
}
