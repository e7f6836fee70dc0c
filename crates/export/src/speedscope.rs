//! speedscope's file format: one sampled profile for each thread, in the order of time.
//!
//! The schema is https://www.speedscope.app/file-format-schema.json. Each sample is a stack, root
//! first, and its weight; with `Value::Wall` the weights follow one another without gaps, so "Time
//! Order" is a timeline. The format has no labels: requests, spans and waits are left out. The
//! notes are in the field `dashcam` beside `exporter`, which viewers skip.

use std::collections::HashMap;
use std::io::{self, Write};

use analysis::states::Threads;
use capture::read::Capture;
use serde_json::json;

use crate::frames::Frames;
use crate::weights::{self, Weighted};
use crate::{notes, Progress, Value};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Writes all threads that have a stack with a value.
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
        profile(&threads, tid, value, &rows, &mut frames, out)?;
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

fn profile(
    threads: &Threads<'_>,
    tid: u32,
    value: Value,
    rows: &[Weighted<'_>],
    frames: &mut Known<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let begin_ns = threads.bounds(tid).filter(|_| value == Value::Wall).map(|(from_ns, _)| from_ns);
    let start = begin_ns.map_or(0, |t| t.saturating_sub(threads.capture.meta.from_ns));
    let sum = rows.iter().map(|w| w.value(value)).fold(0, u64::saturating_add);
    let unit = if value == Value::Samples { "none" } else { "nanoseconds" };
    let head = json!({
        "type": "sampled",
        "name": format!("{} ({tid})", threads.name(tid)),
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
