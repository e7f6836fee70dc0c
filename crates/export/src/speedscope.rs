//! speedscope's file format: one sampled profile a thread, in the order of time.
//!
//! The schema is https://www.speedscope.app/file-format-schema.json. Each sample is a stack, root
//! first, and its weight; with `Value::Wall` the weights follow one another without gaps, so "Time
//! Order" is a timeline. The format has no labels: requests, spans and waits are left out; the notes
//! stand in `exporter`'s neighbour `dashcam`, which viewers skip.

use std::collections::HashMap;
use std::io::{self, Write};

use capture::read::Capture;
use serde_json::json;

use crate::states::Threads;
use crate::weights::{self, Weighted};
use crate::{notes, text, Progress, Value};

/// Writes all threads that have a stack with a value.
pub fn write(
    capture: &Capture,
    value: Value,
    out: &mut dyn Write,
    progress: &mut Progress<'_>,
) -> io::Result<()> {
    let mut frames = Frames { capture, ids: HashMap::new(), rows: Vec::new() };
    let threads = Threads::new(capture);
    // The file says first what the frames are, and they are known last: profiles wait here.
    let (mut profiles, mut active, mut most) = (Vec::new(), 0usize, 0u64);
    let mut count = 0usize;
    for (done, tid) in threads.ids().enumerate() {
        progress(done as u64, threads.ids().len() as u64);
        let rows = weights::of_thread(&threads, tid);
        let rows: Vec<_> = rows.into_iter().filter(|w| w.value(value) > 0).collect();
        if rows.is_empty() {
            continue;
        }
        if count > 0 {
            profiles.write_all(b",\n")?;
        }
        // The thread that was busiest is shown first.
        let cpu_ns = capture
            .samples
            .get(&tid)
            .map_or(0, |samples| samples.iter().fold(0u64, |sum, s| sum.saturating_add(s.cpu_ns)));
        if cpu_ns > most {
            (active, most) = (count, cpu_ns);
        }
        profile(&threads, tid, value, &rows, &mut frames, &mut profiles)?;
        count += 1;
    }
    let meta = &capture.meta;
    let head = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": format!("{} {}", meta.service, meta.reason),
        "exporter": concat!("dashcam@", env!("CARGO_PKG_VERSION")),
        "activeProfileIndex": active,
        "dashcam": notes::of(&threads),
        "shared": {"frames": frames.rows},
    });
    let head = head.to_string();
    // `profiles` last, by hand: they may be large.
    out.write_all(head.strip_suffix('}').unwrap_or(&head).as_bytes())?;
    out.write_all(b",\n\"profiles\":[")?;
    out.write_all(&profiles)?;
    out.write_all(b"]}\n")?;
    out.flush()
}

fn profile(
    threads: &Threads<'_>,
    tid: u32,
    value: Value,
    rows: &[Weighted<'_>],
    frames: &mut Frames<'_>,
    out: &mut Vec<u8>,
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
    let mut known: HashMap<Option<u32>, String> = HashMap::new();
    for (i, row) in rows.iter().enumerate() {
        let stack = known.entry(row.stack()).or_insert_with(|| frames.stack(row.stack()));
        write!(out, "{}{stack}", if i > 0 { "," } else { "" })?;
    }
    out.write_all(b"],\"weights\":[")?;
    for (i, row) in rows.iter().enumerate() {
        write!(out, "{}{}", if i > 0 { "," } else { "" }, row.value(value))?;
    }
    out.write_all(b"]}")
}

/// The frames in use, by code and line.
struct Frames<'c> {
    capture: &'c Capture,
    ids: HashMap<(u32, u32), usize>,
    rows: Vec<serde_json::Value>,
}

impl Frames<'_> {
    /// A stack as JSON: indices, root first.
    fn stack(&mut self, stack: Option<u32>) -> String {
        let capture = self.capture;
        let mut ids: Vec<usize> = Vec::new();
        for frame in capture.frames(stack.unwrap_or(0)) {
            let row = || json!({"name": frame.function, "file": frame.file, "line": frame.line});
            ids.push(self.id((frame.code, frame.line), row));
        }
        if ids.is_empty() {
            let key = (u32::MAX, u32::from(stack.is_some()));
            ids.push(self.id(key, || json!({"name": text::no_frames(stack)})));
        }
        ids.reverse();
        json!(ids).to_string()
    }

    fn id(&mut self, key: (u32, u32), row: impl FnOnce() -> serde_json::Value) -> usize {
        let rows = &mut self.rows;
        *self.ids.entry(key).or_insert_with(|| {
            rows.push(row());
            rows.len() - 1
        })
    }
}
