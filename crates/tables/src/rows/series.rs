//! Collections, vitals, metrics.

use format::metric::{Numbers, KINDS};

use crate::cell::{always, id, int, maybe, Cell, Kind};
use crate::counts::Of;
use crate::table::Rows;
use crate::{Halt, Sink, Source, Table};

pub(crate) const GC: Table = Table {
    name: "gc",
    about: "A garbage collection. By begin.",
    columns: &[
        maybe("tid", Kind::Int, "Thread that collected"),
        always("generation", Kind::Int, "0, 1 or 2"),
        always("begin_ns", Kind::Int, "Begin"),
        always("begin_utc", Kind::Utc, "The same by the wall clock"),
        always("end_ns", Kind::Int, "End"),
        always("duration_ns", Kind::Int, "From begin to end"),
        always("collected", Kind::Int, "Objects collected"),
    ],
    rows: Rows::InTime(&[(Of::Gcs, gc)]),
};

fn gc(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    for row in capture.gcs.iter().filter(|row| capture.owns(row.begin_ns)) {
        sink.row([
            id(row.tid),
            int(row.generation),
            int(row.begin_ns),
            Cell::Int(source.utc_us(row.begin_ns)),
            int(row.end_ns),
            int(row.end_ns.saturating_sub(row.begin_ns)),
            int(row.collected),
        ])?;
    }
    Ok(())
}

pub(crate) const VITALS: Table = Table {
    name: "vitals",
    about: "A counter of the host, the cgroup or the process, read once a second: docs/vitals.md \
            lists them. By time. A gap in the sampler's heartbeat (`recorder_gap_ns` and two more) \
            is recorded when it is over, twice, because nothing else shows that a process was \
            stopped.",
    columns: &[
        always("name", Kind::Text, "Which; its unit ends it"),
        always("t_ns", Kind::Int, "When"),
        always("t_utc", Kind::Utc, "The same by the wall clock"),
        always("value", Kind::Float, "Its value"),
    ],
    rows: Rows::InTime(&[(Of::Vitals, vitals)]),
};

fn vitals(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    for row in capture.vitals.iter().filter(|row| capture.owns(row.t_ns)) {
        sink.row([
            Cell::Text(source.capture.name(row.name)),
            int(row.t_ns),
            Cell::Int(source.utc_us(row.t_ns)),
            Cell::Float(row.value),
        ])?;
    }
    Ok(())
}

pub(crate) const METRICS: Table = Table {
    name: "metrics",
    about: "One window (a second) of one metric; its tags are also in `attributes`. By the \
            window's end.",
    columns: &[
        always("metric_row", Kind::Int, "Its row number in this table, from 0"),
        always("name", Kind::Text, "The metric"),
        always("kind", Kind::Text, "counter, gauge, timing, histogram, distribution, set"),
        always("tags", Kind::Text, "`key=value`, with commas; empty without tags"),
        always("from_ns", Kind::Int, "Begin of the window"),
        always("to_ns", Kind::Int, "Its end"),
        always("to_utc", Kind::Utc, "The same by the wall clock"),
        maybe("value", Kind::Float, "Sum of a counter, value of a gauge, members of a set"),
        maybe("is_delta", Kind::Bool, "The gauge was only changed, not set: `value` is the sum"),
        maybe("count", Kind::Float, "Number of values"),
        maybe("sum", Kind::Float, "Their sum"),
        maybe("min", Kind::Float, "The least"),
        maybe("max", Kind::Float, "The greatest"),
        maybe("median", Kind::Float, "Half of the values kept are not greater"),
        maybe("p99", Kind::Float, "99 of 100 of the values kept are not greater"),
        maybe("refused", Kind::Float, "Members of a set for which there was no room"),
    ],
    rows: Rows::InTime(&[(Of::Metrics, metrics)]),
};

fn metrics(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    let capture = &source.capture;
    let own = capture.metrics.iter().filter(|row| capture.owns(row.to_ns));
    for (i, row) in (source.before[Of::Metrics]..).zip(own) {
        let mut tags = String::new();
        for (key, value) in &row.tags {
            let comma = if tags.is_empty() { "" } else { "," };
            let (key, value) = (capture.name(*key), analysis::words::value(value));
            let equals = if value.is_empty() { "" } else { "=" };
            tags += &format!("{comma}{key}{equals}{value}");
        }
        let null = Cell::Null;
        let (mut value, mut delta, mut refused, mut values) = (null, null, null, [null; 6]);
        match row.numbers {
            Numbers::Count(sum) => value = Cell::Float(sum),
            Numbers::Gauge { value: level, delta: only } => {
                (value, delta) = (Cell::Float(level), Cell::Bool(only));
            }
            Numbers::Members { members, refused: n } => {
                (value, refused) = (Cell::Float(members), Cell::Float(n));
            }
            Numbers::Values { .. } => values = row.numbers.floats().0.map(Cell::Float),
        }
        let [count, sum, min, max, median, p99] = values;
        sink.row([
            int(i),
            Cell::Text(capture.name(row.name)),
            Cell::Text(KINDS.get(usize::from(row.kind)).copied().unwrap_or("?")),
            Cell::Text(&tags),
            int(row.from_ns),
            int(row.to_ns),
            Cell::Int(source.utc_us(row.to_ns)),
            value,
            delta,
            count,
            sum,
            min,
            max,
            median,
            p99,
            refused,
        ])?;
    }
    Ok(())
}
