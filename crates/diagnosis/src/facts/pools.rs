//! Code that waits for a pool, by its stack: for an item, for room in a full queue, for a result.
//!
//! What counts: `queue.Queue`, `threading.Semaphore`, executors, multiprocessing's pools and
//! notices, a library's code that hands things out (by the names of its functions and files), and
//! in Rust and C the code of channels and condition variables. `is_idle` is the other side: a
//! worker at its queue, which has no work.

use analysis::frames::{last_part, Owner};
use analysis::resource::Resource;
use analysis::signatures::{self, Pattern, Stdlib};
use capture::read::Frame;

use crate::context::Context;
use crate::doing::Doing;

/// Whether the code of a wait gets an item of a pool: a queue, permits, the result of an executor's
/// or of multiprocessing's pool, or a library's code that hands things out.
pub fn is_of_a_pool(cx: &Context<'_>, stack: u32) -> bool {
    if let Some(known) = cx.pools.borrow().get(&stack) {
        return *known;
    }
    let found = gets_from_a_pool(cx, stack);
    cx.pools.borrow_mut().insert(stack, found);
    found
}

fn gets_from_a_pool(cx: &Context<'_>, stack: u32) -> bool {
    const GETS: [Stdlib; 3] = [Stdlib::QueueGet, Stdlib::ProcessPoolResult, Stdlib::FutureResult];
    const PERMIT: Pattern = Pattern::Inner(&[Stdlib::Wait, Stdlib::SemaphoreAcquire]);
    GETS.iter().any(|code| cx.frames.any_at(stack, *code))
        || cx.frames.fits(stack, PERMIT)
        || puts(cx, stack)
        || is_for_processes(cx, stack)
        || native(cx, stack).is_some()
        || cx.frames.leaf_at(stack, Stdlib::Wait) && hands_out(cx, stack)
}

/// Whether both stacks wait for a pool in the same function of the same library, wherever they came
/// from: neither has what the other waits for.
pub fn is_same_pool(cx: &Context<'_>, a: u32, b: u32) -> bool {
    let asks = |stack: u32| {
        let mut own = cx.frames.of(stack).filter(|f| !cx.frames.is_shared(f));
        let first = own.next().filter(|f| cx.frames.owner(f.file) == Owner::Library);
        first.map(|f| (f.function, f.file)).filter(|_| is_of_a_pool(cx, stack))
    };
    let one = asks(a);
    one.is_some() && one == asks(b)
}

/// The same of two tasks that await what one library hands out.
pub fn is_same_pool_of_tasks(cx: &Context<'_>, a: u32, b: u32) -> bool {
    let asks = |stack: u32| {
        let mut own = cx.frames.of(stack).filter(|f| cx.frames.owner(f.file) == Owner::Library);
        let first = own.next().filter(|_| hands_out(cx, stack));
        first.map(|f| (f.function, f.file))
    };
    let one = asks(a);
    one.is_some() && one == asks(b)
}

/// Whether the code waits for a notice of multiprocessing's that another process is to give: a
/// Condition's, an Event's or a Barrier's, that a JoinableQueue is done, or room in a bounded one.
fn is_for_processes(cx: &Context<'_>, stack: u32) -> bool {
    let codes = [Stdlib::ProcessNotice, Stdlib::ProcessQueueWait];
    codes.iter().any(|code| cx.frames.leaf_at(stack, *code))
}

/// Whether a thread at this place waits for work: an executor's worker, one at a queue, or one of
/// an async runtime's.
pub fn is_idle(cx: &Context<'_>, stack: u32) -> bool {
    if cx.frames.is_parked_worker(stack) {
        return true;
    }
    const QUEUE: Pattern = Pattern::Inner(&[Stdlib::Wait, Stdlib::QueueGet]);
    let codes = [Stdlib::QueueGet, Stdlib::ExecutorWorker];
    codes.iter().any(|code| cx.frames.leaf_at(stack, *code)) || cx.frames.fits(stack, QUEUE)
}

/// Whether it is a worker of the interpreter's or a library's, with no code of the program under
/// it: a sample of it from before or behind its work.
pub fn has_no_work(cx: &Context<'_>, stack: u32) -> bool {
    let user = |f: &Frame<'_>| cx.frames.owner(f.file) == Owner::User;
    is_idle(cx, stack) && !cx.frames.any(stack, user)
}

/// Frames of a library that are searched for its pool.
const LIBRARY_FRAMES_MAX: usize = 4;

/// Whether the innermost code is a library's that hands connections or the like out, as far as its
/// and its file's names say. A client library's own future says nothing else.
pub fn hands_out(cx: &Context<'_>, stack: u32) -> bool {
    let own = cx.frames.of(stack).filter(|f| cx.frames.owner(f.file) != Owner::Runtime);
    let mut library = own.take_while(|f| cx.frames.owner(f.file) == Owner::Library);
    library.by_ref().take(LIBRARY_FRAMES_MAX).any(|f| {
        let name = f.function.rsplit('.').next().unwrap_or(f.function);
        let words = ["acquire", "checkout", "get_connection", "wait_for_connection"];
        words.iter().any(|word| name.contains(word))
            || ["available_connection", "getconn", "borrow"].iter().any(|w| name.contains(w))
            || is_of_a_pools_file(f.file)
    })
}

/// Whether a file is one of a library's pool: `psycopg_pool/pool.py`, `urllib3/connectionpool.py`,
/// `sqlalchemy/pool/impl.py`.
fn is_of_a_pools_file(file: &str) -> bool {
    let mut parts = file.rsplit('/');
    let stem = parts.next().unwrap_or(file).trim_end_matches(".py");
    stem.ends_with("pool") || stem.starts_with("pool") || parts.next() == Some("pool")
}

/// Whether the code of a wait puts something into a bounded queue.
pub fn puts(cx: &Context<'_>, stack: u32) -> bool {
    // `Queue.put` waits in a Condition; a thread that waits for the queue's own lock waits for no
    // room.
    cx.frames.fits(stack, Pattern::Inner(&[Stdlib::Wait, Stdlib::QueuePut]))
}

/// The same of an event loop's task.
pub fn awaits_room(cx: &Context<'_>, stack: u32) -> bool {
    cx.frames.any_at(stack, Stdlib::TaskQueuePut)
}

/// What the code of a wait for a pool waits for, where that has a better word than pool.
pub(crate) fn resource(cx: &Context<'_>, stack: u32) -> Option<Resource> {
    let found = cx.frames.resource(stack, &signatures::POOLS);
    let of_processes = || cx.frames.any_at(stack, Stdlib::Future) && futures_are_of_processes(cx);
    match found {
        Some(Resource::Processes) => found,
        _ if of_processes() => Some(Resource::Processes),
        _ => found.or_else(|| native(cx, stack).filter(|own| !is_in_a_native_pool(cx, stack, own))),
    }
}

/// What a task waits for in the code of a queue. One that a library's code gets from holds what the
/// library hands out.
pub(crate) fn of_queue(cx: &Context<'_>, stack: u32) -> Option<Resource> {
    if !cx.frames.is_native_program() {
        let mut own = cx.frames.of(stack).map(|f| cx.frames.owner(f.file));
        let first = own.find(|owner| *owner != Owner::Runtime);
        let item = (first == Some(Owner::User)).then_some(Resource::Item);
        return resource(cx, stack).or(item);
    }
    // Room in a channel is given by a semaphore.
    let sends = |f: &Frame<'_>| matches!(last_part(f.function), "send" | "reserve" | "feed");
    let of_channel = |f: &Frame<'_>| cx.frames.owner(f.file) != Owner::User;
    let sends = cx.frames.of(stack).take_while(of_channel).any(|f| sends(&f));
    Some(if sends { Resource::Room } else { Resource::Message })
}

/// Whether the condition variable that native code waits at is that of a package's pool, as far as
/// the names of its functions, types and files say: `Condvar::wait_until<r2d2::PoolInternals>`,
/// `rayon_core::thread_pool`.
fn is_in_a_native_pool(cx: &Context<'_>, stack: u32, own: &Resource) -> bool {
    if *own == Resource::NativeCondition && is_of_workers(cx, stack) {
        return true;
    }
    let called = || cx.frames.of(stack).take_while(|f| cx.frames.owner(f.file) != Owner::User);
    if !called().any(|f| cx.frames.owner(f.file) == Owner::Library) {
        return false;
    }
    let mut library = called();
    let names_a_pool = |f: Frame<'_>| {
        let file = f.file.rsplit("/src/").next().unwrap_or(f.file);
        [f.function, file].iter().any(|name| name.to_ascii_lowercase().contains("pool"))
    };
    *own == Resource::NativeCondition && library.any(names_a_pool)
}

/// The package of Rust's in whose code a thread of the program waits, if it did not begin there:
/// one with threads of its own may do what is waited for.
pub(crate) fn package_of_pool<'c>(cx: &Context<'c>, stack: u32) -> Option<&'c str> {
    let runtime = |f: &Frame<'c>| cx.frames.owner(f.file) == Owner::Runtime;
    let first = cx.frames.of(stack).find(|f| !runtime(f))?;
    let package = cx.frames.cargo_package(first.file)?;
    (outermost_package(cx, stack) != Some(package)).then_some(package)
}

/// The package whose code began what a thread with this stack does.
pub(crate) fn outermost_package<'c>(cx: &Context<'c>, stack: u32) -> Option<&'c str> {
    let runtime = |f: &Frame<'c>| cx.frames.owner(f.file) == Owner::Runtime;
    let last = cx.frames.of(stack).filter(|f| !runtime(f)).last()?;
    cx.frames.cargo_package(last.file)
}

/// Whether a package is waited for whose threads work for the program: a pool of workers (rayon's).
fn is_of_workers(cx: &Context<'_>, stack: u32) -> bool {
    let Some(package) = package_of_pool(cx, stack) else { return false };
    let works =
        |stack: u32| cx.frames.has_user(stack) && outermost_package(cx, stack) == Some(package);
    cx.capture.samples.values().flatten().any(|sample| sample.stack != 0 && works(sample.stack))
}

/// Whether results of executors come from other processes: there is a thread that hands them over,
/// and none that works for an executor of threads, but to serve requests.
pub(crate) fn futures_are_of_processes(cx: &Context<'_>) -> bool {
    let mut of_processes = false;
    for (tid, samples) in &cx.capture.samples {
        let Some(sample) = samples.last() else { continue };
        let has = |code: Stdlib| cx.frames.any_at(sample.stack, code);
        let serves = || cx.capture.requests.iter().any(|r| r.tid == *tid);
        if has(Stdlib::ThreadExecutor) && !serves() {
            return false;
        }
        of_processes |= has(Stdlib::ProcessExecutor);
    }
    of_processes
}

/// Where the channels of Rust's library and of its packages are written.
const CHANNELS: [&str; 3] = ["/std/src/sync/mpsc/", "/std/src/sync/mpmc/", "/crossbeam-channel-"];

/// The same for Rust and C: the code of channels and condition variables, as far as it lies under
/// the innermost function of the program's own.
pub(crate) fn native(cx: &Context<'_>, stack: u32) -> Option<Resource> {
    let runtime = |f: &Frame<'_>| cx.frames.owner(f.file) == Owner::Runtime;
    let mut found = None;
    for frame in cx.frames.of(stack).take_while(runtime) {
        let waits = frame.file.ends_with("/condvar.rs") || frame.function.contains("pthread_cond_");
        if CHANNELS.iter().any(|part| frame.file.contains(part)) {
            if last_part(frame.function).starts_with("send") {
                return Some(Resource::Room);
            }
            found = Some(Resource::Message);
        } else if waits && found.is_none() {
            found = Some(Resource::NativeCondition);
        }
    }
    found
}

/// What a thread that waits in a futex with this stack does, if it is of a pool.
pub fn doing(cx: &Context<'_>, stack: u32) -> Option<Doing> {
    match puts(cx, stack) {
        true => Some(Doing::Room),
        false => is_of_a_pool(cx, stack).then_some(Doing::Pool),
    }
}
