//! Waits: intervals of the same wait joined, with the resource and the blocker.
//!
//! Costs the states of one thread at a time.

use analysis::context::Contexts;
use analysis::index::Index;
use analysis::states::Threads;
use analysis::timeline::State;
use analysis::waits::{merged, Same, Wait};
use analysis::words;
use capture::read::Capture;
use format::record::TARGET_IS_NAME;
use format::wait::WaitKind;

use super::common_cells::{holder_source, middle, request_at, Places};
use crate::cell::{always, id, int, maybe, text, Cell, Kind};
use crate::join::Join;
use crate::table::Rows;
use crate::{Column, Halt, Sink, Source, Table};

pub(super) const LOCK_OBJECT: Column = maybe(
    "lock_object",
    Kind::Int,
    "Address of the Python object behind it, the same for all its waiters: a lock, a \
             Condition, an Event, a queue, a joined Thread",
);
pub(super) const LOCK_NAME: Column = maybe(
    "lock_name",
    Kind::Text,
    "Of a lock in static memory: its variable, `CACHE in libfoo.so`",
);

pub(crate) const WAITS: Table = Table {
    name: "waits",
    about: "A time that a thread was blocked: neighbouring `wait` states that do not contradict \
            each other, joined. By thread and time.",
    columns: &[
        always("tid", Kind::Int, "Thread"),
        always("begin_ns", Kind::Int, "Begin"),
        always("begin_utc", Kind::Utc, "The same by the wall clock"),
        always("end_ns", Kind::Int, "End"),
        always("duration_ns", Kind::Int, "From begin to end"),
        always("kind", Kind::Text, "What for: sleep, futex, gil, socket read, poll, ..."),
        maybe("request_id", Kind::Int, "The thread's request in the middle of it"),
        maybe("stack_id", Kind::Int, "Where it waited"),
        maybe(
            "place",
            Kind::Text,
            "The innermost frame of the user's or a library's code, `file:line function()`",
        ),
        maybe(
            "target",
            Kind::Text,
            "The peer, path or pipe waited for; of several: three, and how many more",
        ),
        maybe("lock_address", Kind::Int, "The futex waited for: the identity of a lock"),
        maybe("lock_holder_tid", Kind::Int, "Thread that held the lock, as sampled"),
        maybe(
            "holder_source",
            Kind::Text,
            "How that is known: `owner field`, `with block`, `refers to it`, or `joined` (its \
             end is waited for)",
        ),
        maybe("gil_holder_tid", Kind::Int, "Thread that held the GIL, as sampled"),
        maybe("syscall", Kind::Int, "Number of the system call that it was in"),
        maybe("timeout_ns", Kind::Int, "Time limit of the wait, as it was first seen"),
        always("is_exact", Kind::Bool, "The times are from switch records; else an estimate"),
        always("is_sampled", Kind::Bool, "A sample was taken in it; else the nearest one is used"),
        LOCK_OBJECT,
        LOCK_NAME,
        maybe(
            "running_task",
            Kind::Text,
            "asyncio task that waited, with its loop: its name, else its coroutine as `refresh()`",
        ),
    ],
    rows: Rows::Joined(
        waits,
        Join {
            same: &["kind", "is_exact"],
            agree: &[
                "stack_id",
                "place",
                "target",
                "lock_address",
                "lock_holder_tid",
                "lock_object",
                "lock_name",
                "running_task",
            ],
            any: &["is_sampled"],
            middle: &["request_id"],
        },
    ),
};

/// A thread's waits of the kinds that `wanted` takes.
fn of_thread<'c>(
    threads: &Threads<'c>,
    tid: u32,
    same: Same,
    wanted: fn(WaitKind) -> bool,
) -> Vec<Wait<'c>> {
    let states = threads.states(tid);
    let waiting = states.iter().filter(|s| s.state == State::Wait && wanted(s.wait()));
    merged(waiting.map(Wait::of), same)
}

fn waits(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let (threads, contexts) = (Threads::new(capture), Contexts::new(capture));
    let mut places = Places::new(capture);
    for tid in threads.ids() {
        sink.key(tid.into());
        for wait in of_thread(&threads, tid, Same::NoContradiction, |_| true) {
            let request = request_at(capture, &contexts, tid, middle(wait.from_ns, wait.to_ns));
            sink.row([
                int(tid),
                int(wait.from_ns),
                Cell::Int(source.utc_us(wait.from_ns)),
                int(wait.to_ns),
                int(wait.to_ns - wait.from_ns),
                Cell::Text(wait.kind.text()),
                request,
                id(wait.stack),
                places.of(wait.stack),
                text(words::target(capture, wait.target)),
                lock_address(wait.target),
                id(wait.lock_holder),
                holder_source(wait.holder_source),
                id(wait.gil_holder),
                syscall(wait.kind, wait.call),
                id(wait.limit_ns),
                Cell::Bool(wait.exact),
                Cell::Bool(wait.seen),
                id(words::lock_object(wait.lock)),
                text(words::lock_name(capture, wait.lock)),
                task(capture, wait.task),
            ])?;
        }
    }
    Ok(())
}

/// The name of an asyncio task.
pub(super) fn task(capture: &Capture, task: u32) -> Cell<'_> {
    text(words::task(capture, task))
}

/// The target of a wait without a name: the number of its system call. `read` is 0 on x86-64, and 0
/// also means that there is no call.
pub(super) fn syscall<'a>(kind: WaitKind, call: u16) -> Cell<'a> {
    use WaitKind::{FileRead, Other, PipeRead, SocketRead};
    let reads = matches!(kind, FileRead | Other | PipeRead | SocketRead);
    if call != 0 || reads {
        int(call)
    } else {
        Cell::Null
    }
}

pub(super) fn lock_address<'a>(target: u64) -> Cell<'a> {
    if target & TARGET_IS_NAME == 0 {
        id(target)
    } else {
        Cell::Null
    }
}

pub(crate) const GIL: Table = Table {
    name: "gil",
    about: "A time that a thread waited for the GIL, and the thread that held it; divided where \
            another thread took it. By waiting thread and time.",
    columns: &[
        always("begin_ns", Kind::Int, "Begin"),
        always("begin_utc", Kind::Utc, "The same by the wall clock"),
        always("end_ns", Kind::Int, "End"),
        always("duration_ns", Kind::Int, "From begin to end"),
        always("waiter_tid", Kind::Int, "Thread that waited"),
        maybe("waiter_request_id", Kind::Int, "Its request in the middle of it"),
        maybe("waiter_stack_id", Kind::Int, "Where it waited"),
        maybe("waiter_place", Kind::Text, "Its innermost frame of the user's or a library's code"),
        maybe("holder_tid", Kind::Int, "Thread that held the GIL; NULL: not seen"),
        maybe("holder_request_id", Kind::Int, "Its request in the middle of it"),
        maybe("holder_stack_id", Kind::Int, "Where it was, by the sample nearest to the middle"),
        maybe("holder_place", Kind::Text, "Its innermost frame of the user's or a library's code"),
        always("is_exact", Kind::Bool, "The times are from switch records; else an estimate"),
    ],
    rows: Rows::Joined(
        gil,
        Join {
            same: &["is_exact"],
            agree: &["waiter_stack_id", "waiter_place", "holder_tid"],
            any: &[],
            middle: &["waiter_request_id", "holder_request_id", "holder_stack_id", "holder_place"],
        },
    ),
};

fn gil(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture: &Capture = &source.capture;
    let (threads, contexts) = (Threads::new(capture), Contexts::new(capture));
    let index = Index::new(capture);
    let (mut waiting, mut holding) = (Places::new(capture), Places::new(capture));
    for tid in threads.ids() {
        sink.key(tid.into());
        for wait in of_thread(&threads, tid, Same::GilHolder, |kind| kind == WaitKind::Gil) {
            let at = middle(wait.from_ns, wait.to_ns);
            let holder = if wait.gil_holder == tid { 0 } else { wait.gil_holder };
            let stack = match holder {
                0 => 0,
                holder => index.sample_near(holder, at).map_or(0, |s| s.stack),
            };
            sink.row([
                int(wait.from_ns),
                Cell::Int(source.utc_us(wait.from_ns)),
                int(wait.to_ns),
                int(wait.to_ns - wait.from_ns),
                int(tid),
                request_at(capture, &contexts, tid, at),
                id(wait.stack),
                waiting.of(wait.stack),
                id(holder),
                request_at(capture, &contexts, holder, at),
                id(stack),
                holding.of(stack),
                Cell::Bool(wait.exact),
            ])?;
        }
    }
    Ok(())
}
