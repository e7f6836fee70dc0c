//! Spans, events, work handed over, awaits.

use capture::read::SpanRow;
use format::record::{Await, TARGET_IS_NAME};

use super::common_cells::{holder_source, sorted, Places};
use crate::cell::{always, id, int, maybe, text, Cell, Kind};
use crate::counts::Of;
use crate::table::Rows;
use crate::{Halt, Sink, Source, Table};

pub(crate) const SPANS: Table = Table {
    name: "spans",
    about: "A span: nested work. By begin; dashcam's own (time inside `fork`, captures being \
            written) after the program's.",
    columns: &[
        always("span_row", Kind::Int, "Its row number in this table, from 0"),
        always("name", Kind::Text, "Its name"),
        maybe("tid", Kind::Int, "Thread"),
        maybe("request_id", Kind::Int, "Request that it belongs to"),
        always("begin_ns", Kind::Int, "Begin"),
        always("begin_utc", Kind::Utc, "The same by the wall clock"),
        always("end_ns", Kind::Int, "End"),
        always("duration_ns", Kind::Int, "From begin to end"),
        always("is_error", Kind::Bool, "It ended by an exception"),
        always("is_own", Kind::Bool, "The recorder wrote it of itself"),
        always("is_open", Kind::Bool, "It had not ended; `end_ns` is the capture's end"),
    ],
    rows: Rows::InTime(&[(Of::Spans, spans), (Of::OwnSpans, own_spans)]),
};

fn spans(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    for (i, row) in capture.spans.iter().enumerate().filter(|(_, s)| capture.owns(s.begin_ns)) {
        span(source, sink, source.span_row(i), row, false)?;
    }
    Ok(())
}

fn own_spans(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let own = capture.own_spans.iter().filter(|row| capture.owns(row.begin_ns));
    for (i, row) in (source.all_spans() + source.before[Of::OwnSpans]..).zip(own) {
        span(source, sink, i, row, true)?;
    }
    Ok(())
}

fn span(
    source: &Source,
    sink: &mut Sink<'_>,
    row_number: usize,
    row: &SpanRow,
    is_own: bool,
) -> Result<(), Halt> {
    sink.row([
        int(row_number),
        Cell::Text(source.capture.name(row.name)),
        id(row.tid),
        id(row.request),
        int(row.begin_ns),
        Cell::Int(source.utc_us(row.begin_ns)),
        int(row.end_ns),
        int(row.end_ns.saturating_sub(row.begin_ns)),
        Cell::Bool(row.error),
        Cell::Bool(is_own),
        Cell::Bool(row.open),
    ])
}

pub(crate) const EVENTS: Table = Table {
    name: "events",
    about: "Something that happened at an instant. By time.",
    columns: &[
        always("event_row", Kind::Int, "Its row number in this table, from 0"),
        always("name", Kind::Text, "Its name"),
        maybe("tid", Kind::Int, "Thread"),
        maybe("request_id", Kind::Int, "Request that it belongs to"),
        always("t_ns", Kind::Int, "When"),
        always("t_utc", Kind::Utc, "The same by the wall clock"),
    ],
    rows: Rows::InTime(&[(Of::Events, events)]),
};

fn events(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let own = capture.events.iter().filter(|row| capture.owns(row.t_ns));
    for (i, row) in (source.before[Of::Events]..).zip(own) {
        sink.row([
            int(i),
            Cell::Text(source.capture.name(row.name)),
            id(row.tid),
            id(row.request),
            int(row.t_ns),
            Cell::Int(source.utc_us(row.t_ns)),
        ])?;
    }
    Ok(())
}

pub(crate) const TASKS: Table = Table {
    name: "tasks",
    about: "Work of a request on another thread (an executor's, a pool's). By begin.",
    columns: &[
        maybe("tid", Kind::Int, "Thread that ran it"),
        maybe("request_id", Kind::Int, "The request"),
        always("queued_ns", Kind::Int, "When it was handed over"),
        always("begin_ns", Kind::Int, "When it began to run"),
        always("end_ns", Kind::Int, "When it was done; the capture's end while it ran"),
        always("queue_ns", Kind::Int, "How long it waited for its thread"),
        always("duration_ns", Kind::Int, "How long it ran"),
    ],
    rows: Rows::InTime(&[(Of::Tasks, tasks)]),
};

fn tasks(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    for row in capture.tasks.iter().filter(|row| capture.owns(row.begin_ns)) {
        sink.row([
            id(row.tid),
            id(row.request),
            int(row.queued_ns),
            int(row.begin_ns),
            int(row.end_ns),
            int(row.begin_ns.saturating_sub(row.queued_ns)),
            int(row.end_ns.saturating_sub(row.begin_ns)),
        ])?;
    }
    Ok(())
}

pub(crate) const AWAITS: Table = Table {
    name: "awaits",
    about: "What a task of an event loop awaited at an instant, while its request was suspended. \
            By request, time and task; tasks that delay a request first.",
    columns: &[
        maybe("request_id", Kind::Int, "The request; NULL: a task that delays a request"),
        always("t_ns", Kind::Int, "When it was sampled"),
        always("t_utc", Kind::Utc, "The same by the wall clock"),
        always("task", Kind::Int, "The task's address: unique among tasks that are alive"),
        maybe("stack_id", Kind::Int, "Where it is suspended, with the tasks that await it"),
        maybe(
            "place",
            Kind::Text,
            "The innermost frame of the user's or a library's code, `file:line function()`",
        ),
        always("kind", Kind::Text, "What it awaits: sleep, lock, queue, socket, executor, ..."),
        maybe("target", Kind::Text, "The peer"),
        maybe("holder_task", Kind::Int, "Address of the task that holds what is awaited"),
        maybe(
            "holder_source",
            Kind::Text,
            "How that is known: `owner field`, `with block`, `refers to it`, or `woke it` (a native \
             task's waker)",
        ),
        maybe("timeout_ns", Kind::Int, "Time limit of the await"),
    ],
    rows: Rows::Keyed(Of::Awaits, awaits),
};

fn awaits(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let mut places = Places::new(capture);
    for request in sorted(&capture.awaits) {
        sink.key(request);
        let own = capture.awaits.get(&request).into_iter().flatten();
        for row in own.filter(|row| capture.owns(row.t_ns)) {
            let row: &Await = row;
            let named = row.target & TARGET_IS_NAME != 0;
            sink.row([
                id(row.request),
                int(row.t_ns),
                Cell::Int(source.utc_us(row.t_ns)),
                int(row.task),
                id(row.stack),
                places.of(row.stack),
                Cell::Text(row.kind.text()),
                text(named.then(|| capture.name(row.target as u32))),
                id(row.holder),
                holder_source(row.how),
                id(row.timeout_ns),
            ])?;
        }
    }
    Ok(())
}
