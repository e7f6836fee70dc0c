//! Attributes and tags, one a row.

use capture::read::Text;

use crate::cell::{always, id, int, maybe, Cell, Kind};
use crate::counts::Of;
use crate::table::Rows;
use crate::{Halt, Sink, Source, Table};

pub(crate) const ATTRIBUTES: Table = Table {
    name: "attributes",
    about:
        "One attribute of a request, span, event or link, or one tag of a metric's window. In the \
            order of these tables.",
    columns: &[
        always("owner", Kind::Text, "`request`, `span`, `event`, `link` or `metric`"),
        always(
            "owner_id",
            Kind::Int,
            "Its `request_id`, `span_row`, `event_row`, `link_row` or `metric_row`",
        ),
        maybe("request_id", Kind::Int, "The request that it belongs to"),
        always("key", Kind::Text, "Name of the attribute"),
        always("type", Kind::Text, "`int`, `float`, `bool` or `text`"),
        always("value", Kind::Text, "The value as text, whatever its type"),
        maybe("int_value", Kind::Int, "The value of an int"),
        maybe("float_value", Kind::Float, "The value of a float"),
        maybe("bool_value", Kind::Bool, "The value of a bool"),
    ],
    rows: Rows::Attributes(&[
        (Of::Requests, requests),
        (Of::Spans, spans),
        (Of::OwnSpans, own_spans),
        (Of::Events, events),
        (Of::Links, links),
        (Of::Metrics, metrics),
    ]),
};

fn requests(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    for row in capture.requests.iter().filter(|row| capture.owns(row.begin_ns)) {
        list(source, sink, ("request", int(row.id), row.id), &row.attributes)?;
    }
    Ok(())
}

fn spans(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    for (i, row) in capture.spans.iter().enumerate().filter(|(_, s)| capture.owns(s.begin_ns)) {
        let row_number = int(source.span_row(i));
        list(source, sink, ("span", row_number, row.request), &row.attributes)?;
    }
    Ok(())
}

fn own_spans(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let own = capture.own_spans.iter().filter(|row| capture.owns(row.begin_ns));
    for (i, row) in (source.all_spans() + source.before[Of::OwnSpans]..).zip(own) {
        list(source, sink, ("span", int(i), row.request), &row.attributes)?;
    }
    Ok(())
}

fn events(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let own = capture.events.iter().filter(|row| capture.owns(row.t_ns));
    for (i, row) in (source.before[Of::Events]..).zip(own) {
        list(source, sink, ("event", int(i), row.request), &row.attributes)?;
    }
    Ok(())
}

fn links(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let own = capture.links.iter().filter(|row| capture.owns(row.link.t_ns));
    for (i, row) in (source.before[Of::Links]..).zip(own) {
        list(source, sink, ("link", int(i), row.link.request), &row.attributes)?;
    }
    Ok(())
}

fn metrics(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let own = capture.metrics.iter().filter(|row| capture.owns(row.to_ns));
    for (i, row) in (source.before[Of::Metrics]..).zip(own) {
        list(source, sink, ("metric", int(i), 0), &row.tags)?;
    }
    Ok(())
}

fn list(
    source: &Source,
    sink: &mut Sink<'_>,
    (owner, owner_id, request): (&str, Cell<'_>, u64),
    attributes: &[(u32, Text)],
) -> Result<(), Halt> {
    for (key, value) in attributes {
        let key = source.capture.name(*key);
        let null = Cell::Null;
        let shown = analysis::words::value(value);
        let (kind, ints, floats, bools) = match value {
            Text::Int(v) => ("int", Cell::Int(*v), null, null),
            Text::Float(v) => ("float", null, Cell::Float(*v), null),
            Text::Bool(v) => ("bool", null, null, Cell::Bool(*v)),
            Text::Text(_) => ("text", null, null, null),
        };
        sink.row([
            Cell::Text(owner),
            owner_id,
            id(request),
            Cell::Text(key),
            Cell::Text(kind),
            Cell::Text(&shown),
            ints,
            floats,
            bools,
        ])?;
    }
    Ok(())
}
