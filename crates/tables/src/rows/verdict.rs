//! The verdict.
//!
//! Costs as much as `dashcam why`, once for both tables.

use diagnosis::{Finding, Place};

use crate::cell::{always, int, maybe, opt, text, Cell, Kind};
use crate::table::Rows;
use crate::{Halt, Sink, Source, Table};

pub(crate) const CAUSES: Table = Table {
    name: "causes",
    about: "A cause of the slow requests, as `dashcam why` names it. By rank.",
    columns: &[
        always("rank", Kind::Int, "1: the largest share"),
        always("cause", Kind::Text, "sleep, lock-wait, gil-wait, cpu, unknown, ..."),
        always("share", Kind::Float, "Part of the slow requests' excess that it explains, 0 to 1"),
        always("confidence", Kind::Text, "`confirmed`, `likely`, `possible`"),
        always("fingerprint", Kind::Text, "Same cause, same place, another day: the same text"),
        always("slow_requests", Kind::Int, "Slow requests that have it"),
        always("normal_requests", Kind::Int, "Normal requests that have as much of it"),
        always("threads", Kind::Int, "Threads that it was seen on"),
        always("summary", Kind::Text, "One sentence"),
        always("request", Kind::Text, "Name of the request that went that way"),
        always("path", Kind::Text, "Own functions on the way to the place, with ` > `"),
        maybe("function", Kind::Text, "Where: the function"),
        maybe("qualified", Kind::Text, "With its class and enclosing functions"),
        maybe("file", Kind::Text, "Its file"),
        maybe("line", Kind::Int, "Its line"),
        maybe("module", Kind::Text, "Its module"),
        maybe("culprit_function", Kind::Text, "Function of the culprit, if it is another one"),
        maybe("culprit_qualified", Kind::Text, "With its class and enclosing functions"),
        maybe("culprit_file", Kind::Text, "Its file"),
        maybe("culprit_line", Kind::Int, "Its line"),
        maybe("culprit_module", Kind::Text, "Its module"),
        maybe("target", Kind::Text, "What was waited for"),
        always("missing", Kind::Text, "What would raise the confidence, separated by `; `"),
        always("advice", Kind::Text, "What to do"),
        maybe("first_seen_ns", Kind::Int, "Begin of the first slow request that has it"),
        maybe("last_seen_ns", Kind::Int, "Begin of the last"),
    ],
    rows: Rows::Judged(causes),
};

fn causes(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    for (i, found) in source.verdict().findings.iter().enumerate() {
        cause(sink, i + 1, found)?;
    }
    Ok(())
}

fn cause(sink: &mut Sink<'_>, rank: usize, found: &Finding) -> Result<(), Halt> {
    let (path, missing) = (found.path.join(" > "), found.missing.join("; "));
    let [function, qualified, file, line, module] = place(found.place.as_ref());
    let [by_function, by_qualified, by_file, by_line, by_module] = place(found.culprit.as_ref());
    let target = found.target();
    sink.row([
        int(rank),
        Cell::Text(found.cause.text()),
        Cell::Float(found.share),
        Cell::Text(found.confidence.text()),
        Cell::Text(&found.fingerprint),
        int(found.slow_requests),
        int(found.normal_requests),
        int(found.threads),
        Cell::Text(&found.summary),
        Cell::Text(&found.request),
        Cell::Text(&path),
        function,
        qualified,
        file,
        line,
        module,
        by_function,
        by_qualified,
        by_file,
        by_line,
        by_module,
        text(target.as_deref()),
        Cell::Text(&missing),
        Cell::Text(found.advice),
        opt(found.seen_ns.first().copied()),
        opt(found.seen_ns.last().copied()),
    ])
}

fn place(place: Option<&Place>) -> [Cell<'_>; 5] {
    let Some(p) = place else { return [Cell::Null; 5] };
    let [function, qualified] = [&p.function, &p.qualified].map(|t| Cell::Text(t));
    [function, qualified, Cell::Text(&p.file), int(p.line), Cell::Text(&p.module)]
}

pub(crate) const EVIDENCE: Table = Table {
    name: "evidence",
    about: "A figure behind a cause. By rank.",
    columns: &[
        always("rank", Kind::Int, "The cause's rank"),
        always("what", Kind::Text, "What was measured"),
        always("value", Kind::Float, "Its value"),
        always("unit", Kind::Text, "Its unit"),
    ],
    rows: Rows::Judged(evidence),
};

fn evidence(source: &Source, sink: &mut Sink<'_>) -> Result<(), Halt> {
    for (i, found) in source.verdict().findings.iter().enumerate() {
        for e in &found.evidence {
            let (rank, value) = (int(i + 1), Cell::Float(e.value));
            sink.row([rank, Cell::Text(&e.what), value, Cell::Text(e.unit.text())])?;
        }
    }
    Ok(())
}
