//! The states of threads, as the diagnosis sees them, and the switch records behind them.
//!
//! Costs the states of one thread at a time.

use analysis::context::Contexts;
use analysis::states::Threads;
use analysis::timeline::State;
use format::wake::Waker;

use super::common_cells::{middle, request_at, sorted, Places};
use crate::cell::{always, id, int, maybe, Cell, Kind};
use crate::counts::Of;
use crate::join::Join;
use crate::table::Rows;
use crate::{Halt, Sink, Source, Table};

pub(crate) const STATES: Table = Table {
    name: "states",
    about:
        "A time that a thread spent in one state, as `why` sees it. By thread and time, without \
            gaps from the thread's first sample or switch on.",
    columns: &[
        always("tid", Kind::Int, "Thread"),
        always("begin_ns", Kind::Int, "Begin"),
        always("begin_utc", Kind::Utc, "The same by the wall clock"),
        always("end_ns", Kind::Int, "End"),
        always("duration_ns", Kind::Int, "From begin to end"),
        always("state", Kind::Text, "`run` on a CPU, `ready` without one, `wait`, `unknown`"),
        maybe("wait", Kind::Text, "What a wait waits for: sleep, futex, gil, socket read, ..."),
        maybe("stack_id", Kind::Int, "Where it was, by the sample in it or nearest to it"),
        maybe("request_id", Kind::Int, "The thread's request in the middle of it"),
        always("is_exact", Kind::Bool, "The times are from switch records; else an estimate"),
        always("is_sampled", Kind::Bool, "A sample was taken in it; else the nearest one is used"),
    ],
    rows: Rows::Joined(
        states,
        Join {
            same: &["state", "wait", "stack_id", "is_exact"],
            agree: &[],
            any: &["is_sampled"],
            middle: &["request_id"],
        },
    ),
};

fn states(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let (threads, contexts) = (Threads::new(capture), Contexts::new(capture));
    for tid in threads.ids() {
        sink.key(tid.into());
        for segment in threads.states(tid) {
            let (from_ns, to_ns) = (segment.from_ns, segment.to_ns);
            let wait = match segment.state {
                State::Wait => Cell::Text(segment.wait().text()),
                _ => Cell::Null,
            };
            sink.row([
                int(tid),
                int(from_ns),
                Cell::Int(source.utc_us(from_ns)),
                int(to_ns),
                int(segment.ns()),
                Cell::Text(word(segment.state)),
                wait,
                id(segment.stack()),
                request_at(capture, &contexts, tid, middle(from_ns, to_ns)),
                Cell::Bool(segment.exact),
                Cell::Bool(segment.sampled),
            ])?;
        }
    }
    Ok(())
}

/// A state in a word.
pub(super) fn word(state: State) -> &'static str {
    match state {
        State::Run => "run",
        State::Ready => "ready",
        State::Wait => "wait",
        State::Unknown => "unknown",
    }
}

pub(crate) const SWITCHES: Table = Table {
    name: "switches",
    about: "A time that a thread was off the CPU, as the kernel recorded it (source `switches`; \
            empty without it). By thread and time.",
    columns: &[
        always("tid", Kind::Int, "Thread"),
        always("out_ns", Kind::Int, "It left the CPU"),
        always("out_utc", Kind::Utc, "The same by the wall clock"),
        always("in_ns", Kind::Int, "It came back; the capture's end when it had not"),
        maybe(
            "in_cpu",
            Kind::Int,
            "The CPU it came back to, and ran on until it left the next time",
        ),
        always("off_ns", Kind::Int, "How long it was off the CPU"),
        always("is_preempted", Kind::Bool, "It was preempted: runnable all the time"),
        maybe("stack_id", Kind::Int, "The last stack sampled of it before it came back"),
        maybe(
            "place",
            Kind::Text,
            "Its innermost frame of the user's or a library's code, `file:line function()`",
        ),
        maybe("woken_ns", Kind::Int, "It was woken, if that was recorded (source `wakers`)"),
        maybe(
            "waker",
            Kind::Text,
            "Woken by a `thread` of this process, another `process`, the `kernel`",
        ),
        maybe("waker_id", Kind::Int, "The thread's tid, or the process's pid"),
        maybe(
            "waker_stack_id",
            Kind::Int,
            "The waker's stack at that instant, if it runs no Python",
        ),
    ],
    rows: Rows::Keyed(Of::Switches, switches),
};

fn switches(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let mut places = Places::new(capture);
    for tid in sorted(&capture.off_cpu) {
        let samples = capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
        sink.key(tid.into());
        // In the part in which it ends: the sample before is known there.
        let own = capture.off_cpu.get(&tid).into_iter().flatten();
        for row in own.filter(|row| capture.owns(row.in_ns)) {
            let before = samples.partition_point(|s| s.t_ns < row.in_ns).checked_sub(1);
            let before = before.map(|i| &samples[i]).filter(|s| capture.owns(s.t_ns));
            let stack = before.map_or_else(|| source.stack_before(tid), |s| s.stack);
            let wake = capture.wake_in(tid, row);
            let (waker, waker_id) = match wake.map(|w| w.by) {
                Some(Waker::Thread(tid)) => (Cell::Text("thread"), int(tid)),
                Some(Waker::Process(pid)) => (Cell::Text("process"), int(pid)),
                Some(Waker::Kernel) => (Cell::Text("kernel"), Cell::Null),
                None => (Cell::Null, Cell::Null),
            };
            sink.row([
                int(tid),
                int(row.out_ns),
                Cell::Int(source.utc_us(row.out_ns)),
                int(row.in_ns),
                row.cpu.map_or(Cell::Null, int),
                int(row.in_ns.saturating_sub(row.out_ns)),
                Cell::Bool(row.preempted),
                id(stack),
                places.of(stack),
                wake.map_or(Cell::Null, |w| int(w.t_ns)),
                waker,
                waker_id,
                id(capture.waker_stack_in(tid, row)),
            ])?;
        }
    }
    Ok(())
}
