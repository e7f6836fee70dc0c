//! speedscope's file format: the slowest request, and one sampled profile for each thread, in the
//! order of time.
//!
//! The file opens at the slowest request: a profile of its own, of what its thread did from the
//! start of its handler to its end. An interval belongs to it if it began in that time. The format
//! can name the profile that is shown first, but no time within one. Without samples in any request
//! the thread that was busiest is shown first.
//!
//! The schema is https://www.speedscope.app/file-format-schema.json. Each sample is a stack, root
//! first, and its weight; with `Value::Wall` the weights follow one another without gaps, so "Time
//! Order" is a timeline. The format has no labels: requests, spans and waits are left out. The
//! notes are in the field `dashcam` beside `exporter`, which viewers skip.

use std::collections::HashMap;
use std::io::{self, Write};

use analysis::requests::{Judged, Requests};
use analysis::states::Threads;
use capture::read::Capture;
use serde_json::json;

use crate::frames::Frames;
use crate::weights::{self, Weighted};
use crate::{notes, Progress, Value};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Writes the slowest request, and all threads that have a stack with a value.
pub fn write(
    capture: &Capture,
    value: Value,
    out: &mut dyn Write,
    progress: &mut Progress<'_>,
) -> io::Result<()> {
    let frames = Frames::new(capture);
    let mut frames = Known { frames, ids: HashMap::new(), rows: Vec::new() };
    let threads = Threads::new(capture);
    // Profiles first: the frames in use are known only after them.
    write!(out, "{{\"$schema\":\"{SCHEMA}\",\n\"profiles\":[")?;
    let (mut count, mut active, mut most) = (0usize, 0usize, 0u64);
    if let Some((named, rows)) = slowest(&threads, value) {
        profile(&threads, &named, value, &rows, &mut frames, out)?;
        // No thread's CPU time is larger.
        (count, most) = (1, u64::MAX);
    }
    for (done, tid) in threads.ids().enumerate() {
        progress(done as u64, threads.ids().len() as u64);
        let rows = weights::of_thread(&threads, tid);
        let rows: Vec<_> = rows.into_iter().filter(|w| w.value(value) > 0).collect();
        if rows.is_empty() {
            continue;
        }
        if count > 0 {
            out.write_all(b",\n")?;
        }
        // The thread that was busiest is shown first.
        let cpu_ns = capture
            .samples
            .get(&tid)
            .map_or(0, |samples| samples.iter().fold(0u64, |sum, s| sum.saturating_add(s.cpu_ns)));
        if cpu_ns > most {
            (active, most) = (count, cpu_ns);
        }
        let begin_ns = threads.bounds(tid).map_or(0, |(from_ns, _)| from_ns);
        let named = Named { name: format!("{} ({tid})", threads.name(tid)), begin_ns };
        profile(&threads, &named, value, &rows, &mut frames, out)?;
        count += 1;
    }
    let meta = &capture.meta;
    let rest = json!({
        "name": format!("{} {}", meta.service, meta.reason),
        "exporter": concat!("dashcam@", env!("CARGO_PKG_VERSION")),
        "activeProfileIndex": active,
        "dashcam": notes::of(&threads),
        "shared": {"frames": frames.rows},
    })
    .to_string();
    writeln!(out, "],\n{}", rest.strip_prefix('{').unwrap_or(&rest))?;
    out.flush()
}

/// The head of a profile.
struct Named {
    name: String,
    begin_ns: u64,
}

/// The slowest request whose thread has a value while it ran.
fn slowest<'c>(threads: &Threads<'c>, value: Value) -> Option<(Named, Vec<Weighted<'c>>)> {
    let capture = threads.capture;
    // Every request is past a limit of 0: all are sorted by time, the slowest first.
    let all = Requests::divide(capture, |_| 0).slow;
    let start = |request: &Judged<'_>| request.row.started_ns.max(request.row.begin_ns);
    let sampled = |request: &&Judged<'_>| {
        let samples = capture.samples.get(&request.row.tid).map_or(&[][..], Vec::as_slice);
        let next = samples.partition_point(|s| s.t_ns < start(request));
        samples.get(next).is_some_and(|s| s.t_ns < request.end_ns)
    };
    let request = all.iter().find(sampled)?;
    let (tid, begin_ns) = (request.row.tid, start(request));
    let inside = |w: &Weighted<'_>| begin_ns <= w.t_ns && w.t_ns < request.end_ns;
    let rows = weights::of_thread(threads, tid).into_iter();
    let rows: Vec<_> = rows.filter(|w| inside(w) && w.value(value) > 0).collect();
    let name = format!(
        "slowest request: {}, {:.0} ms, id {}, on {} ({tid})",
        capture.name(request.row.name),
        request.ns() as f64 / 1e6,
        request.row.id,
        threads.name(tid)
    );
    (!rows.is_empty()).then_some((Named { name, begin_ns }, rows))
}

fn profile(
    threads: &Threads<'_>,
    named: &Named,
    value: Value,
    rows: &[Weighted<'_>],
    frames: &mut Known<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let start = match value {
        Value::Wall => named.begin_ns.saturating_sub(threads.capture.meta.from_ns),
        _ => 0,
    };
    let sum = rows.iter().map(|w| w.value(value)).fold(0, u64::saturating_add);
    let unit = if value == Value::Samples { "none" } else { "nanoseconds" };
    let head = json!({
        "type": "sampled",
        "name": named.name,
        "unit": unit,
        "startValue": start,
        "endValue": start.saturating_add(sum),
    })
    .to_string();
    out.write_all(head.strip_suffix('}').unwrap_or(&head).as_bytes())?;
    out.write_all(b",\"samples\":[")?;
    // Adjacent samples with one stack are one sample.
    let runs: Vec<&[Weighted<'_>]> = rows.chunk_by(|a, b| a.stack() == b.stack()).collect();
    let mut known: HashMap<Option<u32>, String> = HashMap::new();
    for (i, run) in runs.iter().enumerate() {
        let stack = run.first().and_then(Weighted::stack);
        let stack = known.entry(stack).or_insert_with(|| frames.stack(stack));
        write!(out, "{}{stack}", if i > 0 { "," } else { "" })?;
    }
    out.write_all(b"],\"weights\":[")?;
    for (i, run) in runs.iter().enumerate() {
        let weight = run.iter().map(|w| w.value(value)).fold(0, u64::saturating_add);
        write!(out, "{}{weight}", if i > 0 { "," } else { "" })?;
    }
    out.write_all(b"]}")
}

/// The frames in use, by code and line.
struct Known<'c> {
    frames: Frames<'c>,
    ids: HashMap<(u32, u32), usize>,
    rows: Vec<serde_json::Value>,
}

impl Known<'_> {
    /// A stack as JSON: indices, root first.
    fn stack(&mut self, stack: Option<u32>) -> String {
        let mut ids: Vec<usize> = Vec::new();
        for frame in self.frames.or_placeholder(stack).iter().rev() {
            let rows = &mut self.rows;
            let id = self.ids.entry((frame.code, frame.line)).or_insert_with(|| {
                rows.push(match frame.line {
                    0 => json!({"name": frame.function}),
                    line => json!({"name": frame.function, "file": frame.file, "line": line}),
                });
                rows.len() - 1
            });
            ids.push(*id);
        }
        json!(ids).to_string()
    }
}
