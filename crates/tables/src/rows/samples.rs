//! Samples, as they were taken.

use analysis::context::Contexts;
use analysis::words;
use format::record::{flag, Sample};

use super::common_cells::{holder_source, request_at, sorted};
use super::waits::{lock_address, syscall, task, LOCK_NAME, LOCK_OBJECT};
use crate::cell::{always, id, int, maybe, opt, text, Cell, Kind};
use crate::counts::Of;
use crate::table::Rows;
use crate::{Halt, Sink, Source, Table};

pub(crate) const SAMPLES: Table = Table {
    name: "samples",
    about: "What the sampler saw of a thread at an instant. By thread and time.",
    columns: &[
        always("tid", Kind::Int, "Thread"),
        always("t_ns", Kind::Int, "When"),
        always("t_utc", Kind::Utc, "The same by the wall clock"),
        maybe("stack_id", Kind::Int, "Its stack; NULL: none (it runs no Python)"),
        maybe("request_id", Kind::Int, "The thread's request; NULL on an event loop"),
        maybe("span_row", Kind::Int, "The innermost span open on it"),
        always("wait", Kind::Text, "What it waited for; `running`: on a CPU or runnable"),
        always("wall_ns", Kind::Int, "Time since the thread's previous sample"),
        maybe("cpu_ns", Kind::Int, "CPU time since then; NULL: not measured this time"),
        maybe("run_delay_ns", Kind::Int, "Time runnable without a CPU since then"),
        maybe("gil_holder_tid", Kind::Int, "Thread that held the GIL"),
        maybe("lock_holder_tid", Kind::Int, "Thread that held the lock waited for"),
        maybe(
            "holder_source",
            Kind::Text,
            "How that is known: `owner field`, `with block`, `refers to it`, or `joined` (its \
             end is waited for)",
        ),
        maybe("syscall", Kind::Int, "Number of the system call that it was in"),
        maybe(
            "target",
            Kind::Text,
            "The peer, path or pipe waited for; of several: three, and how many more",
        ),
        maybe("lock_address", Kind::Int, "The futex waited for"),
        maybe("timeout_ns", Kind::Int, "Time limit of the wait: what was left of it"),
        maybe("faults", Kind::Int, "Page faults of the thread so far; wraps at 2^32"),
        maybe("storage_kib", Kind::Int, "Read from and written to storage so far; wraps at 2^31"),
        maybe("user_us", Kind::Int, "Time in its own code so far, in steps of 10 ms; wraps"),
        maybe("system_us", Kind::Int, "Time in the kernel so far, in steps of 10 ms; wraps"),
        always(
            "is_reused",
            Kind::Bool,
            "It has not run since its previous sample, which is repeated",
        ),
        always("is_truncated", Kind::Bool, "The stack was cut at the limit of frames"),
        maybe(
            "slices",
            Kind::Int,
            "How often it was given a CPU since its previous sample, at most 1,023",
        ),
        LOCK_OBJECT,
        LOCK_NAME,
        maybe(
            "running_task",
            Kind::Text,
            "asyncio task that ran on it: its name, else its coroutine as `refresh()`",
        ),
    ],
    rows: Rows::Keyed(Of::Samples, samples),
};

fn samples(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let contexts = Contexts::new(capture);
    for tid in sorted(&capture.samples) {
        sink.key(tid.into());
        let own = capture.samples.get(&tid).into_iter().flatten();
        for row in own.filter(|row| capture.owns(row.t_ns)) {
            sample(source, sink, &contexts, row)?;
        }
    }
    Ok(())
}

fn sample(
    source: &Source,
    sink: &mut Sink<'_>,
    contexts: &Contexts,
    row: &Sample,
) -> Result<(), Halt> {
    let capture = &source.capture;
    let has = |bit: u16| row.flags & bit != 0;
    let timed = |ns: u64| if has(flag::TIMES) { int(ns) } else { Cell::Null };
    let used = row.usage();
    let (target, timeout_ns) = words::target_and_limit(row);
    sink.row([
        int(row.tid),
        int(row.t_ns),
        Cell::Int(source.utc_us(row.t_ns)),
        id(row.stack),
        request_at(capture, contexts, row.tid, row.t_ns),
        opt(contexts.at(row.tid, row.t_ns).span.map(|i| source.span_row(i))),
        Cell::Text(row.wait.text()),
        int(row.wall_ns),
        timed(row.cpu_ns),
        timed(row.run_delay_ns),
        id(row.gil_holder),
        id(row.lock_holder),
        holder_source(row.holder_source),
        syscall(row.wait, row.call),
        text(words::target(capture, target)),
        lock_address(target),
        id(timeout_ns),
        opt(used.map(|u| u.faults)),
        opt(used.map(|u| u.storage_kib)),
        opt(used.map(|u| u.user_us)),
        opt(used.map(|u| u.system_us)),
        Cell::Bool(has(flag::REUSED)),
        Cell::Bool(has(flag::TRUNCATED)),
        timed(row.slices.into()),
        id(words::lock_object(row.lock)),
        text(words::lock_name(capture, row.lock)),
        task(capture, row.task),
    ])
}
