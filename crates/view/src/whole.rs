//! The page's data, as JSON. Times are ns since `zero`; lists of times hold differences.
//!
//! Rows are stored as columns of equal length. `name`, `text` and the like are indices into
//! `names`, `stack` into `stacks` (0 none), `thread` into `threads`; `holder` and `culprit` are
//! such an index plus 1, 0 none. viewer/src/data.ts is the reader of this format.

use std::collections::HashSet;

use analysis::timeline::State;
use capture::read::Capture;
use diagnosis::{Cause, Diagnosis};
use format::record::TARGET_IS_NAME;
use format::wait::WaitKind;

use crate::choice::{is_open, Chosen};
use crate::detail::Detail;
use crate::intern::Tables;
use crate::json::{self, difference, Object};
use crate::recorded::{Recorded, ROWS_MAX};
use crate::windows::{self, Stretch};

/// A sample of the GIL counts for at most this long, and for this long when no other sample
/// follows.
const GIL_NS: (u64, u64) = (30_000_000, 3_000_000);

/// Flags of a request.
mod flag {
    pub const SLOW: i64 = 1;
    pub const ERROR: i64 = 2;
    pub const OPEN: i64 = 4;
    pub const ON_LOOP: i64 = 8;
}

/// The data of a page.
pub fn data(
    chosen: &Chosen<'_>,
    recorded: &Recorded,
    diagnosis: &Diagnosis<'_>,
    file: &str,
) -> String {
    let capture = chosen.capture;
    let mut tables = Tables::new(capture);
    let mut out = Object::new();
    let verdict = report::to_json(diagnosis, file);
    out.raw("schema", "1");
    out.raw("verdict", &verdict.to_string());
    out.raw("text", &json::text(&report::to_text(diagnosis)));
    out.raw("markdown", &json::text(&report::to_markdown(diagnosis, file)));
    out.raw("members", &members(chosen, diagnosis));
    out.raw("about", &about(chosen));
    let causes = causes(chosen);
    out.texts("cause_names", &causes.iter().map(|c| c.text().to_owned()).collect::<Vec<String>>());
    let waits: Vec<String> = WaitKind::ALL.iter().map(|w| w.text().to_owned()).collect();
    out.texts("wait_names", &waits);
    out.raw("requests", &requests(chosen, &mut tables));
    out.raw(
        "details",
        &json::items(
            chosen.details.iter().map(|d| detail(chosen, recorded, d, &causes, &mut tables)),
        ),
    );
    out.raw("states", &states(chosen, &mut tables));
    let kept = chosen.windows.any();
    let ids: HashSet<u64> = chosen.details.iter().map(|d| d.request.row.id).collect();
    let mut left_out = chosen.left_out.clone();
    out.raw("spans", &spans(chosen, (recorded, &ids), &mut tables, &mut left_out));
    out.raw("events", &events(chosen, (recorded, &ids), &mut tables, &mut left_out));
    out.raw("tasks", &tasks(chosen, &ids, &mut tables));
    out.raw("gcs", &collections(chosen, &mut tables, &mut left_out));
    out.raw("gil", &gil(chosen, &kept, &mut tables));
    out.raw("vitals", &vitals(chosen, &mut left_out));
    out.raw("coverage", &coverage(capture, &mut tables));
    out.texts("damage", &capture.damage);
    out.texts("left_out", &left_out);
    tables.write(&mut out);
    out.end()
}

/// For each finding: its requests, as indices into `requests`.
fn members(chosen: &Chosen<'_>, diagnosis: &Diagnosis<'_>) -> String {
    let of = |seen_ns: &[u64]| {
        let slow = chosen.dots.iter().enumerate().filter(|(_, (_, slow))| *slow);
        let has = slow.filter(|(_, (r, _))| seen_ns.binary_search(&r.row.begin_ns).is_ok());
        json::list(&has.map(|(i, _)| i as i64).collect::<Vec<i64>>())
    };
    json::items(diagnosis.findings.iter().map(|f| of(&f.seen_ns)))
}

fn about(chosen: &Chosen<'_>) -> String {
    let meta = &chosen.capture.meta;
    let at = |t_ns: u64| difference(t_ns, chosen.zero_ns).to_string();
    let zero_ms = meta.epoch_ns(chosen.zero_ns) as f64 / 1e6;
    Object::new()
        .raw("version", &json::text(env!("CARGO_PKG_VERSION")))
        .raw("runtime", &json::text(&meta.runtime))
        .raw("slow_rule", &json::text(&meta.slow))
        .raw("zero_epoch_ms", &json::float(zero_ms))
        .raw("from", &at(meta.from_ns))
        .raw("to", &at(meta.to_ns))
        .raw("horizon", &at(chosen.capture.common_horizon_ns()))
        .raw("torn_blocks", &chosen.capture.torn_blocks.to_string())
        .end()
}

/// The causes in use; `cause` is an index into this list.
fn causes(chosen: &Chosen<'_>) -> Vec<Cause> {
    let slices = chosen.details.iter().flat_map(|d| &d.slices);
    let mut all: Vec<Cause> = slices.map(|p| p.claim.cause).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn requests(chosen: &Chosen<'_>, tables: &mut Tables<'_>) -> String {
    let mut rows: Vec<[i64; 6]> = Vec::new();
    for (request, slow) in &chosen.dots {
        let row = request.row;
        let flags = [
            (flag::SLOW, *slow),
            (flag::ERROR, row.error),
            (flag::OPEN, is_open(row)),
            (flag::ON_LOOP, row.on_loop),
        ];
        rows.push([
            tables.name(row.name),
            tables.thread(row.tid),
            difference(row.begin_ns, chosen.zero_ns),
            difference(row.started_ns.clamp(row.begin_ns, request.end_ns), row.begin_ns),
            difference(request.end_ns, row.begin_ns),
            flags.iter().filter(|(_, on)| *on).map(|(bit, _)| bit).sum(),
        ]);
    }
    let column = |i: usize| -> Vec<i64> { rows.iter().map(|r| r[i]).collect() };
    Object::new()
        .numbers("name", &column(0))
        .numbers("thread", &column(1))
        .times("begin", &column(2))
        .numbers("waited", &column(3))
        .numbers("length", &column(4))
        .numbers("flags", &column(5))
        .end()
}

/// One request with its segments and lanes.
fn detail(
    chosen: &Chosen<'_>,
    recorded: &Recorded,
    detail: &Detail<'_>,
    causes: &[Cause],
    tables: &mut Tables<'_>,
) -> String {
    let cause_of = |cause: Cause| causes.binary_search(&cause).map_or(-1, |i| i as i64);
    let mut rows: Vec<[i64; 11]> = Vec::new();
    for slice in &detail.slices {
        let (segment, claim) = (&slice.segment, &slice.claim);
        let culprit = claim.blocker.map_or((0, 0, false), |by| (by.tid, by.stack, by.measured));
        rows.push([
            difference(segment.from_ns, chosen.zero_ns),
            difference(segment.to_ns, segment.from_ns),
            tables.thread(segment.tid),
            state(segment.state),
            i64::from(segment.exact),
            cause_of(claim.cause),
            tables.stack(claim.stack),
            tables.thread_or_none(culprit.0),
            tables.stack(culprit.1),
            i64::from(culprit.2),
            claim.resource.as_ref().map_or(0, |r| tables.text(&r.to_string())),
        ]);
    }
    let column = |i: usize| -> Vec<i64> { rows.iter().map(|r| r[i]).collect() };
    let names = [
        "length",
        "thread",
        "state",
        "exact",
        "cause",
        "stack",
        "culprit",
        "culprit_stack",
        "measured",
        "target",
    ];
    let mut slices = Object::new();
    slices.times("from", &column(0));
    for (i, name) in names.into_iter().enumerate() {
        slices.numbers(name, &column(i + 1));
    }
    let slices = slices.end();
    let lanes: Vec<i64> = detail.lanes.iter().map(|tid| tables.thread(*tid)).collect();
    let row = detail.request.row;
    let attributes = recorded.attributes.get(&row.id).unwrap_or(&row.attributes);
    // A slow request past the limit of dots is not among them: -1, and the page skips it.
    let place = chosen.place.get(&row.id).map_or(-1, |i| *i as i64);
    Object::new()
        .raw("request", &place.to_string())
        // A text: a JavaScript number does not hold each id.
        .raw("id", &json::text(&row.id.to_string()))
        .raw("has_all_threads", if detail.has_all_threads { "true" } else { "false" })
        .raw("attributes", &tables.attributes(attributes).to_string())
        .numbers("lanes", &lanes)
        .raw("lanes_left", &detail.lanes_left.to_string())
        .raw("slices", &slices)
        .end()
}

fn state(state: State) -> i64 {
    match state {
        State::Run => 0,
        State::Ready => 1,
        State::Wait => 2,
        State::Unknown => 3,
    }
}

fn states(chosen: &Chosen<'_>, tables: &mut Tables<'_>) -> String {
    let kept: Vec<(u32, Vec<(u64, u64)>)> = chosen.windows.merged().collect();
    json::items(kept.into_iter().map(|(tid, kept)| thread_states(chosen, tid, &kept, tables)))
}

fn thread_states(
    chosen: &Chosen<'_>,
    tid: u32,
    kept: &[(u64, u64)],
    tables: &mut Tables<'_>,
) -> String {
    let rows: Vec<Stretch> = kept
        .iter()
        .flat_map(|(from, to)| windows::stretches(chosen.capture, tid, *from, *to))
        .collect();
    let at = |t_ns: u64| difference(t_ns, chosen.zero_ns);
    let covered: Vec<i64> = kept.iter().flat_map(|(from, to)| [at(*from), at(*to)]).collect();
    let column = |value: &dyn Fn(&Stretch) -> i64| -> Vec<i64> { rows.iter().map(value).collect() };
    let stacks: Vec<i64> = rows.iter().map(|s| tables.stack(s.what.stack)).collect();
    let holders: Vec<i64> = rows.iter().map(|s| tables.thread_or_none(s.what.holder)).collect();
    let targets: Vec<i64> = rows.iter().map(|s| target(s.what.target, tables)).collect();
    Object::new()
        .raw("thread", &tables.thread(tid).to_string())
        .times("covered", &covered)
        .times("from", &column(&|s| at(s.from_ns)))
        .numbers("length", &column(&|s| difference(s.to_ns, s.from_ns)))
        .numbers("state", &column(&|s| state(s.what.state)))
        .numbers("exact", &column(&|s| i64::from(s.what.exact)))
        .numbers("wait", &column(&|s| s.what.wait as i64))
        .numbers("stack", &stacks)
        .numbers("holder", &holders)
        .numbers("measured", &column(&|s| i64::from(s.what.measured)))
        .numbers("target", &targets)
        .end()
}

/// A peer or path by name; an address as hexadecimal text.
fn target(target: u64, tables: &mut Tables<'_>) -> i64 {
    match target {
        0 => 0,
        t if t & TARGET_IS_NAME != 0 => tables.name(t as u32),
        t => tables.text(&format!("{t:#x}")),
    }
}

/// Cuts rows to the limit, and notes that.
fn bound<T>(rows: &mut Vec<T>, what: &str, left_out: &mut Vec<String>) {
    left_out_rows(what, rows.len().min(ROWS_MAX), rows.len(), left_out);
    rows.truncate(ROWS_MAX);
}

fn left_out_rows(what: &str, kept: usize, all: usize, left_out: &mut Vec<String>) {
    if kept < all {
        let count = |n: usize| analysis::readable::thousands(n as u64);
        left_out.push(format!("{what}: the first {} of {}.", count(kept), count(all)));
    }
}

fn place(chosen: &Chosen<'_>, request: u64) -> i64 {
    chosen.place.get(&request).map_or(-1, |i| *i as i64)
}

fn spans(
    chosen: &Chosen<'_>,
    (recorded, kept): (&Recorded, &HashSet<u64>),
    tables: &mut Tables<'_>,
    left_out: &mut Vec<String>,
) -> String {
    let near = recorded.spans.iter().filter(|s| kept.contains(&s.request));
    let mut rows: Vec<_> = near.collect();
    rows.sort_by_key(|s| s.begin_ns);
    left_out_rows("Spans", recorded.spans.len(), recorded.counts.0, left_out);
    let names: Vec<i64> = rows.iter().map(|s| tables.name(s.name)).collect();
    let threads: Vec<i64> = rows.iter().map(|s| tables.thread(s.tid)).collect();
    let attributes: Vec<i64> = rows.iter().map(|s| tables.attributes(&s.attributes)).collect();
    let begins: Vec<i64> = rows.iter().map(|s| difference(s.begin_ns, chosen.zero_ns)).collect();
    let lengths: Vec<i64> =
        rows.iter().map(|s| difference(s.end_ns.max(s.begin_ns), s.begin_ns)).collect();
    let requests: Vec<i64> = rows.iter().map(|s| place(chosen, s.request)).collect();
    let errors: Vec<i64> = rows.iter().map(|s| i64::from(s.error)).collect();
    Object::new()
        .numbers("name", &names)
        .numbers("thread", &threads)
        .times("begin", &begins)
        .numbers("length", &lengths)
        .numbers("request", &requests)
        .numbers("error", &errors)
        .numbers("attributes", &attributes)
        .end()
}

fn events(
    chosen: &Chosen<'_>,
    (recorded, kept): (&Recorded, &HashSet<u64>),
    tables: &mut Tables<'_>,
    left_out: &mut Vec<String>,
) -> String {
    let near = recorded.events.iter().filter(|e| kept.contains(&e.request));
    let mut rows: Vec<_> = near.collect();
    rows.sort_by_key(|e| e.t_ns);
    left_out_rows("Events", recorded.events.len(), recorded.counts.1, left_out);
    let names: Vec<i64> = rows.iter().map(|e| tables.name(e.name)).collect();
    let threads: Vec<i64> = rows.iter().map(|e| tables.thread(e.tid)).collect();
    let attributes: Vec<i64> = rows.iter().map(|e| tables.attributes(&e.attributes)).collect();
    let times: Vec<i64> = rows.iter().map(|e| difference(e.t_ns, chosen.zero_ns)).collect();
    let requests: Vec<i64> = rows.iter().map(|e| place(chosen, e.request)).collect();
    Object::new()
        .numbers("name", &names)
        .numbers("thread", &threads)
        .times("at", &times)
        .numbers("request", &requests)
        .numbers("attributes", &attributes)
        .end()
}

/// Work that the chosen requests handed to other threads.
fn tasks(chosen: &Chosen<'_>, kept: &HashSet<u64>, tables: &mut Tables<'_>) -> String {
    let all = chosen.capture.tasks.iter();
    let rows: Vec<_> = all.filter(|t| kept.contains(&t.request)).take(ROWS_MAX).collect();
    let threads: Vec<i64> = rows.iter().map(|t| tables.thread(t.tid)).collect();
    let at = |t_ns: u64| difference(t_ns, chosen.zero_ns);
    Object::new()
        .numbers("thread", &threads)
        .numbers("queued", &rows.iter().map(|t| at(t.queued_ns)).collect::<Vec<i64>>())
        .numbers("begin", &rows.iter().map(|t| at(t.begin_ns)).collect::<Vec<i64>>())
        .numbers("end", &rows.iter().map(|t| at(t.end_ns)).collect::<Vec<i64>>())
        .numbers("request", &rows.iter().map(|t| place(chosen, t.request)).collect::<Vec<i64>>())
        .end()
}

fn collections(chosen: &Chosen<'_>, tables: &mut Tables<'_>, left_out: &mut Vec<String>) -> String {
    let mut rows: Vec<_> = chosen.capture.gcs.iter().collect();
    bound(&mut rows, "Collections", left_out);
    let threads: Vec<i64> = rows.iter().map(|g| tables.thread(g.tid)).collect();
    let at: Vec<i64> = rows.iter().map(|g| difference(g.begin_ns, chosen.zero_ns)).collect();
    let lengths: Vec<i64> =
        rows.iter().map(|g| difference(g.end_ns.max(g.begin_ns), g.begin_ns)).collect();
    let collected: Vec<i64> = rows.iter().map(|g| difference(g.collected, 0)).collect();
    Object::new()
        .numbers("thread", &threads)
        .times("begin", &at)
        .numbers("length", &lengths)
        .numbers("generation", &rows.iter().map(|g| i64::from(g.generation)).collect::<Vec<i64>>())
        .numbers("collected", &collected)
        .end()
}

/// The GIL's holder, as threads that waited for the GIL saw it: estimates, one row as long as
/// samples agree. Nothing is known about a time in which no thread waited.
fn gil(chosen: &Chosen<'_>, kept: &[(u64, u64)], tables: &mut Tables<'_>) -> String {
    let samples = chosen.capture.samples.values().flatten();
    let held = samples.filter(|s| s.gil_holder != 0 && windows::inside(kept, s.t_ns));
    let mut seen: Vec<(u64, u32)> = held.map(|s| (s.t_ns, s.gil_holder)).collect();
    seen.sort_unstable();
    let mut rows: Vec<(u64, u64, u32)> = Vec::new();
    for (i, (t_ns, holder)) in seen.iter().enumerate() {
        let next = seen.get(i + 1).map(|l| l.0).filter(|n| n - t_ns <= GIL_NS.0);
        let end = next.unwrap_or(t_ns.saturating_add(GIL_NS.1));
        match rows.last_mut() {
            Some(last) if last.2 == *holder && last.1 >= *t_ns => last.1 = last.1.max(end),
            _ => rows.push((*t_ns, end, *holder)),
        }
    }
    rows.truncate(ROWS_MAX);
    let threads: Vec<i64> = rows.iter().map(|r| tables.thread(r.2)).collect();
    Object::new()
        .times("from", &rows.iter().map(|r| difference(r.0, chosen.zero_ns)).collect::<Vec<i64>>())
        .numbers("length", &rows.iter().map(|r| difference(r.1, r.0)).collect::<Vec<i64>>())
        .numbers("thread", &threads)
        .end()
}

fn vitals(chosen: &Chosen<'_>, left_out: &mut Vec<String>) -> String {
    let mut rows: Vec<_> = chosen.capture.vitals.iter().collect();
    bound(&mut rows, "Counters", left_out);
    rows.sort_by_key(|v| v.name);
    let by_name = rows.chunk_by(|a, b| a.name == b.name);
    json::items(by_name.map(|rows| {
        let at: Vec<i64> = rows.iter().map(|v| difference(v.t_ns, chosen.zero_ns)).collect();
        let name = rows.first().map_or("", |v| chosen.capture.name(v.name));
        let short: String = name.chars().take(100).collect();
        Object::new()
            .raw("name", &json::text(&short))
            .times("at", &at)
            .raw("value", &json::items(rows.iter().map(|v| json::float(v.value))))
            .end()
    }))
}

/// What the capture has of each thread, for the threads with the most records.
fn coverage(capture: &Capture, tables: &mut Tables<'_>) -> String {
    const MOST_THREADS: usize = 500;
    let mut rows: Vec<_> = capture.coverage.iter().collect();
    rows.sort_by_key(|c| std::cmp::Reverse(c.read));
    let left = rows.len().saturating_sub(MOST_THREADS);
    rows.truncate(MOST_THREADS);
    let threads: Vec<i64> = rows.iter().map(|c| tables.thread(c.tid)).collect();
    let mut out = Object::new();
    out.numbers("thread", &threads).raw("left", &left.to_string());
    let mut put = |name: &str, value: &dyn Fn(&capture::read::Coverage) -> u64| {
        let values: Vec<i64> = rows.iter().map(|c| difference(value(c), 0)).collect();
        out.numbers(name, &values);
    };
    put("read", &|c| c.read);
    put("before", &|c| c.missing_before);
    put("between", &|c| c.missing_between);
    put("after", &|c| c.missing_after);
    put("dropped", &|c| c.dropped);
    out.end()
}
