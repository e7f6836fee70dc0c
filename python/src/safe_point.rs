//! What may run where: the rule for destructors and for callbacks from the garbage collector.
//!
//! CPython runs a destructor wherever the last reference goes, and up to 3.11 it runs the garbage
//! collector inside of any call that allocates a container. Both may happen in the middle of a C
//! function that does not expect to be re-entered. `ContextVar.set`, for one, reads the context's
//! old tree before it allocates the new one: a second `set` inside of that allocation leaves an
//! object with one reference too few, and the heap is damaged.
//!
//! The rule: a destructor, and a callback from the collector, of ours gives references back and
//! writes records, and nothing else. It sets no context variable, allocates no object, and calls no
//! code of the program. The request that ends there is recorded as ended at once; that its context
//! still names it is noticed by who asks for the current request next (`names::open`), and the
//! program's predicate is asked at the next request's begin or end (`recorder::ask_postponed`).
//!
//! | place | when it runs | what it does |
//! | --- | --- | --- |
//! | `moments/object.rs` `dealloc` | last reference to a span or request | takes an open span off its line; the memory goes into the pool |
//! | `moments/object.rs` `clear` | collector | gives the attributes back |
//! | `moments/bound.rs` `unbind` | last reference to `__enter__`, `__exit__` | gives the owner back |
//! | `moments/awaited.rs` `dealloc` | last reference to an awaited application | `request::abandon` |
//! | `moments/asgi.rs` `dealloc` | last reference to a `send` | gives the server's back |
//! | `moments/handed.rs` `dealloc` | last reference to a piece of work for another thread | gives the function back |
//! | `hooks/stand_in.rs` `dealloc` | last reference to a hooked callable | gives the callable and the hook back |
//! | `moments/wsgi.rs` `impl Drop for Ending` | a body that nobody closed | `request::abandon` |
//! | `moments/attributes.rs` `impl Drop for Owned` | end of a scope of ours | gives a str back |
//! | `moments/tasks.rs` `gc_callback` | begin and end of a collection | two stores, or one record |
//! | `metrics/handle.rs` `dealloc` | last reference to a metric's handle | gives a str back |
//! | `moments/mod.rs` `end` (a capsule's) | end of the interpreter | gives the pools and names back |
//!
//! `tools/check_destructors.py` fails for a destructor that has no row here.
//!
//! A generator of the program's that is collected runs its `with` blocks, and so our `__exit__`: that
//! is code of the program, and may allocate as it would without us. Yet it may be inside of a
//! `ContextVar.set`, too; `in_collection` tells, and `names::set_current` does nothing then.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The thread that runs a garbage collection, 0 none. By `pthread_self`, which a fork keeps. Written by
/// that thread, and compared with one's own: a thread finds its own stores, so relaxed is enough. There
/// is one collection at a time: the GIL is held where it begins and CPython refuses a second one.
static COLLECTING: AtomicUsize = AtomicUsize::new(0);

/// The calling thread begins a collection.
pub fn collection_begins() {
    COLLECTING.store(this_thread(), Ordering::Relaxed);
}

/// The collection is over.
pub fn collection_ends() {
    COLLECTING.store(0, Ordering::Relaxed);
}

/// Whether the calling thread is inside of a garbage collection: then the caller may be in the middle of
/// any C function of CPython's. Cost: one load.
#[inline]
pub fn in_collection() -> bool {
    let collecting = COLLECTING.load(Ordering::Relaxed);
    collecting != 0 && collecting == this_thread()
}

fn this_thread() -> usize {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::pthread_self() as usize }
}
