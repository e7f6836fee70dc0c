//! Attributes and tags, one a row.

use capture::read::Text;

use crate::cell::{always, id, int, maybe, Cell, Kind};
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
    rows: attributes,
};

fn attributes(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    for row in &capture.requests {
        list(source, sink, ("request", int(row.id), row.id), &row.attributes)?;
    }
    for (i, row) in capture.spans.iter().chain(&capture.own_spans).enumerate() {
        list(source, sink, ("span", int(i), row.request), &row.attributes)?;
    }
    for (i, row) in capture.events.iter().enumerate() {
        list(source, sink, ("event", int(i), row.request), &row.attributes)?;
    }
    for (i, row) in capture.links.iter().enumerate() {
        list(source, sink, ("link", int(i), row.link.request), &row.attributes)?;
    }
    for (i, row) in capture.metrics.iter().enumerate() {
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
