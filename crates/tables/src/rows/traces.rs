//! Ids of traces, and links between spans.

use capture::read::{SpanIds, Traces};
use format::trace::Status;

use crate::cell::{always, id, int, maybe, text, Cell, Kind};
use crate::counts::Of;
use crate::table::Rows;
use crate::{Halt, Sink, Source, Table};

pub(crate) const TRACES: Table = Table {
    name: "traces",
    about: "W3C Trace Context ids of a request or span. Requests, then spans of the program, each \
         in the order of its table.",
    columns: &[
        always("owner", Kind::Text, "`request` or `span`"),
        always("owner_id", Kind::Int, "Its `request_id` or `span_row`"),
        maybe("request_id", Kind::Int, "The request that it belongs to"),
        always("trace_id", Kind::Text, "32 hex digits"),
        always("span_id", Kind::Text, "16 hex digits"),
        maybe("parent_span_id", Kind::Text, "16 hex digits; NULL: the root of its trace"),
        always("kind", Kind::Text, "server, client, internal, producer or consumer"),
        maybe("status", Kind::Text, "ok or error, as recorded"),
        maybe("status_message", Kind::Text, "Message recorded with it"),
        always("is_told", Kind::Bool, "The trace id came from outside, so other tools know it"),
        always("is_remote", Kind::Bool, "The parent is another process's span"),
        always("is_sampled", Kind::Bool, "The service that began the trace marked it as sampled"),
        maybe("tracestate", Kind::Text, "W3C's, as far as it was kept"),
    ],
    rows: Rows::InTime(&[(Of::Requests, requests), (Of::Spans, spans)]),
};

fn requests(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let traces = Traces::of(capture);
    for row in capture.requests.iter().filter(|row| capture.owns(row.begin_ns)) {
        identity(source, sink, ("request", int(row.id), row.id), &traces.request(row.id))?;
    }
    Ok(())
}

fn spans(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let traces = Traces::of(capture);
    for (i, row) in capture.spans.iter().enumerate().filter(|(_, s)| capture.owns(s.begin_ns)) {
        if let Some(ids) = traces.span(i) {
            let row_number = int(source.span_row(i));
            identity(source, sink, ("span", row_number, row.request), ids)?;
        }
    }
    Ok(())
}

fn identity(
    source: &Source,
    sink: &mut Sink<'_>,
    (owner, owner_id, request): (&str, Cell<'_>, u64),
    ids: &SpanIds,
) -> Result<(), Halt> {
    let (trace, span, parent) = (format!("{:032x}", ids.trace), hex(ids.span), hex(ids.parent));
    let message = (ids.message != 0).then(|| source.capture.name(ids.message));
    sink.row([
        Cell::Text(owner),
        owner_id,
        id(request),
        Cell::Text(&trace),
        Cell::Text(&span),
        text((ids.parent != 0).then_some(&parent)),
        Cell::Text(ids.kind.text()),
        text((ids.status != Status::Unset).then(|| ids.status.text())),
        text(message),
        Cell::Bool(ids.recorded),
        Cell::Bool(ids.remote),
        Cell::Bool(ids.sampled),
        text(Some(&*ids.tracestate).filter(|t| !t.is_empty())),
    ])
}

pub(crate) const LINKS: Table = Table {
    name: "links",
    about: "A link from a span to another one, of another trace perhaps. By time.",
    columns: &[
        always("link_row", Kind::Int, "Its row number in this table, from 0"),
        maybe("request_id", Kind::Int, "The request that it belongs to"),
        maybe("span_id", Kind::Text, "The span that has the link, 16 hex digits"),
        always("t_ns", Kind::Int, "When it was recorded"),
        always("linked_trace_id", Kind::Text, "The trace that it leads to, 32 hex digits"),
        always("linked_span_id", Kind::Text, "The span that it leads to, 16 hex digits"),
        always("is_remote", Kind::Bool, "That span is another process's"),
    ],
    rows: Rows::InTime(&[(Of::Links, links)]),
};

fn links(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let own = capture.links.iter().filter(|row| capture.owns(row.link.t_ns));
    for (i, row) in (source.before[Of::Links]..).zip(own) {
        let link = &row.link;
        let (span, linked) = (hex(link.span), hex(link.to_span));
        let trace = format!("{:032x}", link.to_trace);
        sink.row([
            int(i),
            id(link.request),
            text((link.span != 0).then_some(&span)),
            int(link.t_ns),
            Cell::Text(&trace),
            Cell::Text(&linked),
            Cell::Bool(link.remote),
        ])?;
    }
    Ok(())
}

fn hex(id: u64) -> String {
    format!("{id:016x}")
}
