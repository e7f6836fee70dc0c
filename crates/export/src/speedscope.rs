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

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use analysis::requests::{Judged, Requests};
use analysis::states::Threads;
use capture::read::Capture;
use serde_json::json;

use crate::frames::Frames;
use crate::part_writer::PartWriter;
use crate::spool::{Row, Spool};
use crate::weights::{self, Weighted};
use crate::{notes, Progress, Value};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// The writer of the slowest request, and of all threads that have a stack with a value.
pub(crate) struct Profiles<'o> {
    value: Value,
    out: &'o mut dyn Write,
    spool: Spool,
    /// By thread: when its states begin, and its CPU time.
    threads: BTreeMap<u32, (u64, u64)>,
    slowest: Option<Slowest>,
}

/// The slowest request so far.
struct Slowest {
    took_ns: u64,
    tid: u32,
    /// Of its handler.
    begin_ns: u64,
    end_ns: u64,
    name: String,
    rows: Vec<Row>,
}

impl<'o> Profiles<'o> {
    pub(crate) fn new(value: Value, out: &'o mut dyn Write) -> Profiles<'o> {
        let (spool, threads) = (Spool::default(), BTreeMap::new());
        Profiles { value, out, spool, threads, slowest: None }
    }

    /// Whether a request of this part is slower than those before.
    fn find_slowest(&mut self, threads: &Threads<'_>) {
        let capture = threads.capture;
        // Every request is past a limit of 0: all are sorted by time, the slowest first.
        let all = Requests::divide(capture, |_| 0).slow;
        let before_ns = self.slowest.as_ref().map_or(0, |slowest| slowest.took_ns);
        let own = all.iter().filter(|r| capture.owns(r.row.begin_ns));
        let mut slower = own.take_while(|r| before_ns == 0 || r.ns() > before_ns);
        let found = slower.find_map(|request| slow(threads, request, self.value));
        self.slowest = found.or(self.slowest.take());
    }

    /// What the slowest request, which began in an earlier part, did in this one.
    fn go_on(&mut self, threads: &Threads<'_>) {
        let Some(slowest) = &mut self.slowest else { return };
        let from_ns = threads.capture.part.map_or(u64::MAX, |part| part.from_ns);
        if from_ns < slowest.end_ns {
            let rows = rows(threads, slowest.tid, (slowest.begin_ns, slowest.end_ns), self.value);
            slowest.rows.extend(rows);
        }
    }
}

impl PartWriter for Profiles<'_> {
    fn part(&mut self, capture: &Capture, progress: &mut Progress<'_>) -> io::Result<()> {
        let threads = Threads::new(capture);
        self.go_on(&threads);
        self.find_slowest(&threads);
        for (done, tid) in threads.ids().enumerate() {
            progress(done as u64, threads.ids().len() as u64);
            for row in weights::of_thread(&threads, tid) {
                let weight = row.value(self.value);
                if weight > 0 {
                    self.spool.push(tid, (row.stack(), weight))?;
                }
            }
            let begin_ns = threads.bounds(tid).map_or(0, |(from_ns, _)| from_ns);
            let (_, cpu_ns) = self.threads.entry(tid).or_insert((begin_ns, 0));
            let own = capture.samples.get(&tid).into_iter().flatten();
            let own = own.filter(|s| capture.owns(s.t_ns));
            *cpu_ns = own.fold(*cpu_ns, |sum, s| sum.saturating_add(s.cpu_ns));
        }
        Ok(())
    }

    fn finish(&mut self, capture: &Capture, _: &mut Progress<'_>) -> io::Result<()> {
        let threads = Threads::new(capture);
        let frames = Frames::new(capture);
        let mut frames = Known { frames, ids: HashMap::new(), rows: Vec::new() };
        let start = |begin_ns: u64| match self.value {
            Value::Wall => begin_ns.saturating_sub(capture.meta.from_ns),
            _ => 0,
        };
        let unit = if self.value == Value::Samples { "none" } else { "nanoseconds" };
        // Profiles first: the frames in use are known only after them.
        write!(self.out, "{{\"$schema\":\"{SCHEMA}\",\n\"profiles\":[")?;
        let (mut count, mut active, mut most) = (0usize, 0usize, 0u64);
        if let Some(slowest) = self.slowest.take() {
            let mut own = Spool::default();
            slowest.rows.into_iter().try_for_each(|row| own.push(0, row))?;
            let head = Head { name: slowest.name, start: start(slowest.begin_ns), unit };
            profile(&head, &mut own, 0, &mut frames, self.out)?;
            // No thread's CPU time is larger.
            (count, most) = (1, u64::MAX);
        }
        for tid in self.spool.threads() {
            if count > 0 {
                self.out.write_all(b",\n")?;
            }
            // The thread that was busiest is shown first.
            let (begin_ns, cpu_ns) = self.threads.get(&tid).copied().unwrap_or_default();
            if cpu_ns > most {
                (active, most) = (count, cpu_ns);
            }
            let name = format!("{} ({tid})", threads.name(tid));
            let head = Head { name, start: start(begin_ns), unit };
            profile(&head, &mut self.spool, tid, &mut frames, self.out)?;
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
        writeln!(self.out, "],\n{}", rest.strip_prefix('{').unwrap_or(&rest))?;
        self.out.flush()
    }
}

/// The head of a profile.
struct Head {
    name: String,
    start: u64,
    unit: &'static str,
}

/// A request, if its thread has a sample and a value while it ran.
fn slow(threads: &Threads<'_>, request: &Judged<'_>, value: Value) -> Option<Slowest> {
    let (tid, end_ns) = (request.row.tid, request.end_ns);
    let begin_ns = request.row.started_ns.max(request.row.begin_ns);
    let samples = threads.capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
    let next = samples.partition_point(|s| s.t_ns < begin_ns);
    samples.get(next).filter(|s| s.t_ns < end_ns)?;
    let rows = rows(threads, tid, (begin_ns, end_ns), value);
    let name = format!(
        "slowest request: {}, {:.0} ms, id {}, on {} ({tid})",
        threads.capture.name(request.row.name),
        request.ns() as f64 / 1e6,
        request.row.id,
        threads.name(tid)
    );
    (!rows.is_empty()).then_some(Slowest {
        took_ns: request.ns(),
        tid,
        begin_ns,
        end_ns,
        name,
        rows,
    })
}

/// The stacks and weights of a thread that began in `[begin_ns, end_ns)`.
fn rows(threads: &Threads<'_>, tid: u32, (begin_ns, end_ns): (u64, u64), value: Value) -> Vec<Row> {
    let inside = |w: &Weighted<'_>| begin_ns <= w.t_ns && w.t_ns < end_ns;
    let rows = weights::of_thread(threads, tid).into_iter();
    let rows = rows.filter(|w| inside(w) && w.value(value) > 0);
    rows.map(|w| (w.stack(), w.value(value))).collect()
}

fn profile(
    head: &Head,
    spool: &mut Spool,
    tid: u32,
    frames: &mut Known<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut sum = 0u64;
    spool.rows(tid, &mut |(_, weight)| {
        sum = sum.saturating_add(weight);
        Ok(())
    })?;
    let head = json!({
        "type": "sampled",
        "name": head.name,
        "unit": head.unit,
        "startValue": head.start,
        "endValue": head.start.saturating_add(sum),
    })
    .to_string();
    out.write_all(head.strip_suffix('}').unwrap_or(&head).as_bytes())?;
    out.write_all(b",\"samples\":[")?;
    let mut known: HashMap<Option<u32>, String> = HashMap::new();
    let mut comma = "";
    spool.rows(tid, &mut |(stack, _)| {
        let stack = known.entry(stack).or_insert_with(|| frames.stack(stack));
        write!(out, "{comma}{stack}")?;
        comma = ",";
        Ok(())
    })?;
    out.write_all(b"],\"weights\":[")?;
    comma = "";
    spool.rows(tid, &mut |(_, weight)| {
        write!(out, "{comma}{weight}")?;
        comma = ",";
        Ok(())
    })?;
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
