//! pprof: gzipped `profile.proto`, as `go tool pprof` reads it.
//!
//! The messages are in `proto`. Values are integers: samples/count, wall, cpu, off-cpu/nanoseconds
//! (from `weights`). Labels: `thread`, `thread id`, `request`, `request id`, `slow` (yes or no),
//! `span` (the innermost open one), `wait`, `target` (peer or path), `holder` (thread that had the
//! lock or the GIL), `task` (the running asyncio task), `trace id`. Functions are Python's
//! qualified names; every location is one function at one line, without an address. dashcam's own
//! threads are left out unless the options have them.

mod proto;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use analysis::context::{trace_id, Contexts};
use analysis::states::Threads;
use analysis::words;
use capture::read::{Capture, Frame, Traces};
use flate2::{write::GzEncoder, Compression};
use prost::Message;

use crate::frames::Frames;
use crate::options::{Chosen, Options, Speeds};
use crate::part_writer::PartWriter;
use crate::weights::{self, Weighted};
use crate::{notes, Progress};

pub use proto::{Function, Label, Line, Location, Profile, Sample, ValueType};

/// Bytes of the profile that are gathered before they are packed.
const BUFFER_BYTES: usize = 1 << 16;

/// The writer of the profile of the chosen requests and threads, packed.
pub(crate) struct Packed<'o> {
    options: Options<'o>,
    known: Known,
    out: GzEncoder<&'o mut dyn Write>,
}

impl<'o> Packed<'o> {
    pub(crate) fn new(options: Options<'o>, out: &'o mut dyn Write) -> Packed<'o> {
        let out = GzEncoder::new(out, Compression::default());
        Packed { options, known: Known::new(), out }
    }
}

impl PartWriter for Packed<'_> {
    fn part(&mut self, capture: &Capture, progress: &mut Progress<'_>) -> io::Result<()> {
        part(capture, &self.options, &mut self.known, &mut self.out, progress)
    }

    fn finish(&mut self, capture: &Capture, _: &mut Progress<'_>) -> io::Result<()> {
        self.known.finish(capture, &self.options.notes());
        self.out.write_all(&self.known.bytes)?;
        self.out.try_finish()?;
        self.out.get_mut().flush()
    }
}

/// The profile of a capture in memory, not packed.
pub fn profile(capture: &Capture, options: &Options<'_>, progress: &mut Progress<'_>) -> Profile {
    let (mut known, mut out) = (Known::new(), Vec::new());
    // Writing to memory does not fail, and what is written is a profile.
    let _ = part(capture, options, &mut known, &mut out, progress);
    known.finish(capture, &options.notes());
    out.append(&mut known.bytes);
    Profile::decode(&*out).unwrap_or_default()
}

/// The key of an entry in the profile.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    tid: u32,
    stack: Option<u32>,
    request: Option<usize>,
    span_name: Option<u32>,
    wait: Option<&'static str>,
    target: u64,
    holder: u32,
    /// Name id.
    task: u32,
}

/// Adds the samples of a part to the profile.
fn part(
    capture: &Capture,
    options: &Options<'_>,
    known: &mut Known,
    out: &mut dyn Write,
    progress: &mut Progress<'_>,
) -> io::Result<()> {
    let contexts = Contexts::new(capture);
    let threads = Threads::new(capture);
    let speeds = Speeds::of(capture, options.limit_ns);
    // Time outside of requests is kept only if all is.
    let kept = |key: &Key| match key.request {
        Some(request) => options.has(&speeds, &capture.requests[request]),
        None => options.requests == Chosen::Everything,
    };
    let mut sums: BTreeMap<Key, [u64; 4]> = BTreeMap::new();
    for (done, tid) in threads.ids().enumerate() {
        progress(done as u64, threads.ids().len() as u64);
        if !options.has_thread(&threads, tid) {
            continue;
        }
        for weighted in weights::of_thread(&threads, tid) {
            let key = key(capture, &contexts, &weighted);
            if !kept(&key) {
                continue;
            }
            let sum = sums.entry(key).or_default();
            let Weighted { samples, wall_ns, cpu_ns, off_cpu_ns, .. } = weighted;
            for (sum, more) in sum.iter_mut().zip([samples, wall_ns, cpu_ns, off_cpu_ns]) {
                *sum = sum.saturating_add(more);
            }
        }
    }
    let mut made = Maker::new(&threads, speeds, known);
    for (key, values) in &sums {
        made.sample(key, *values);
        if made.known.bytes.len() >= BUFFER_BYTES {
            out.write_all(&made.known.bytes)?;
            made.known.bytes.clear();
        }
    }
    made.known.frames = made.frames.written();
    Ok(())
}

fn key(capture: &Capture, contexts: &Contexts, weighted: &Weighted<'_>) -> Key {
    let at = contexts.at(weighted.tid, weighted.t_ns);
    let wait = weighted.wait();
    // A thread that waits for a CPU waits for no peer and no lock.
    let sample = weighted.sample.filter(|_| wait.is_some() && !weighted.ready);
    Key {
        tid: weighted.tid,
        stack: weighted.stack(),
        request: at.request,
        span_name: at.span.map(|i| capture.spans[i].name),
        wait,
        // An address is of no use outside of the process: names only.
        target: sample
            .map(words::named_target)
            .filter(|target| words::target(capture, *target).is_some())
            .unwrap_or(0),
        holder: sample.map_or(0, words::holder),
        task: weighted.sample.map_or(0, |sample| sample.task),
    }
}

/// What is in the profile already, of all parts so far. Entries are written when they are needed
/// first, so only their numbers are kept.
struct Known {
    /// What is written next.
    bytes: Vec<u8>,
    strings: HashMap<String, i64>,
    /// Strings in all; some are used once and not kept.
    string_count: i64,
    /// By code and line.
    locations: HashMap<(u32, u32), u64>,
    functions: HashMap<u32, u64>,
    /// Locations of a stack, once resolved.
    stacks: HashMap<Option<u32>, Vec<u64>>,
    /// Frames so far.
    frames: usize,
}

impl Known {
    fn new() -> Known {
        let mut made = Known {
            bytes: Vec::new(),
            strings: HashMap::new(),
            string_count: 0,
            locations: HashMap::new(),
            functions: HashMap::new(),
            stacks: HashMap::new(),
            frames: 0,
        };
        made.string("");
        for (kind, unit) in [
            ("samples", "count"),
            ("wall", "nanoseconds"),
            ("cpu", "nanoseconds"),
            ("off-cpu", "nanoseconds"),
        ] {
            let value_type = ValueType { kind: made.string(kind), unit: made.string(unit) };
            prost::encoding::message::encode(1, &value_type, &mut made.bytes);
        }
        made
    }

    fn string(&mut self, text: &str) -> i64 {
        if let Some(index) = self.strings.get(text) {
            return *index;
        }
        let index = self.lone_string(text);
        self.strings.insert(text.to_owned(), index);
        index
    }

    /// A string that is not looked up again.
    fn lone_string(&mut self, text: &str) -> i64 {
        prost::encoding::string::encode(6, &text.to_owned(), &mut self.bytes);
        self.string_count += 1;
        self.string_count - 1
    }

    fn finish(&mut self, capture: &Capture, left_out: &[String]) {
        let threads = Threads::new(capture);
        let (meta, from_ns) = (&capture.meta, capture.meta.from_ns);
        let wall = ValueType { kind: self.string("wall"), unit: self.string("nanoseconds") };
        let mut comment = Vec::new();
        for line in notes::of(&threads).iter().chain(left_out) {
            comment.push(self.string(line));
        }
        let rest = Profile {
            time_nanos: whole(meta.epoch_ns(from_ns)),
            duration_nanos: whole(threads.end_ns.saturating_sub(from_ns)),
            period: whole(meta.all["settings"]["period_ns"].as_u64().unwrap_or(0)),
            period_type: Some(wall),
            default_sample_type: wall.kind,
            comment,
            ..Profile::default()
        };
        self.bytes.append(&mut rest.encode_to_vec());
    }
}

struct Maker<'t, 'c> {
    threads: &'t Threads<'c>,
    capture: &'c Capture,
    traces: Traces,
    speeds: Speeds,
    frames: Frames<'c>,
    known: &'t mut Known,
    /// Strings of trace ids, by request: each is used in this part only.
    trace_ids: HashMap<usize, i64>,
}

impl<'t, 'c> Maker<'t, 'c> {
    fn new(threads: &'t Threads<'c>, speeds: Speeds, known: &'t mut Known) -> Maker<'t, 'c> {
        Maker {
            threads,
            capture: threads.capture,
            traces: Traces::of(threads.capture),
            speeds,
            frames: Frames::after(threads.capture, known.frames),
            known,
            trace_ids: HashMap::new(),
        }
    }

    fn string(&mut self, text: &str) -> i64 {
        self.known.string(text)
    }

    fn sample(&mut self, key: &Key, values: [u64; 4]) {
        if values == [0; 4] {
            return;
        }
        let location_id = self.stack(key.stack);
        let label = self.labels(key);
        let value = values.map(whole).to_vec();
        let sample = Sample { location_id, value, label };
        prost::encoding::message::encode(2, &sample, &mut self.known.bytes);
    }

    fn labels(&mut self, key: &Key) -> Vec<Label> {
        let capture = self.capture;
        let mut out = vec![
            self.text_label("thread", &self.threads.name(key.tid)),
            self.number_label("thread id", u64::from(key.tid)),
        ];
        if let Some(request) = key.request {
            let row = &capture.requests[request];
            out.push(self.text_label("request", capture.name(row.name)));
            out.push(self.number_label("request id", row.id));
            if let Some(is_slow) = self.speeds.is_slow(row) {
                out.push(self.text_label("slow", if is_slow { "yes" } else { "no" }));
            }
            if let Some(str) = self.trace_id(request) {
                out.push(Label { key: self.string("trace id"), str, num: 0, num_unit: 0 });
            }
        }
        if let Some(name) = key.span_name {
            out.push(self.text_label("span", capture.name(name)));
        }
        if let Some(wait) = key.wait {
            out.push(self.text_label("wait", wait));
        }
        if let Some(target) = words::target(capture, key.target) {
            out.push(self.text_label("target", target));
        }
        if key.holder != 0 {
            out.push(self.text_label("holder", &self.threads.name(key.holder)));
        }
        if let Some(task) = words::task(capture, key.task) {
            out.push(self.text_label("task", task));
        }
        out
    }

    fn trace_id(&mut self, request: usize) -> Option<i64> {
        if let Some(known) = self.trace_ids.get(&request) {
            return Some(*known);
        }
        let id = trace_id(self.capture, &self.traces, request)?;
        let id = self.known.lone_string(if id.is_empty() { "?" } else { &id });
        self.trace_ids.insert(request, id);
        Some(id)
    }

    fn text_label(&mut self, key: &str, text: &str) -> Label {
        // Index 0 would make it a number.
        let text = if text.is_empty() { "?" } else { text };
        Label { key: self.string(key), str: self.string(text), num: 0, num_unit: 0 }
    }

    fn number_label(&mut self, key: &str, number: u64) -> Label {
        let (key, num_unit) = (self.string(key), self.string("id"));
        Label { key, str: 0, num: number as i64, num_unit }
    }

    fn stack(&mut self, stack: Option<u32>) -> Vec<u64> {
        if let Some(known) = self.known.stacks.get(&stack) {
            return known.clone();
        }
        let frames = self.frames.or_placeholder(stack);
        let ids: Vec<u64> = frames.iter().map(|frame| self.location(frame)).collect();
        self.known.stacks.insert(stack, ids.clone());
        ids
    }

    fn location(&mut self, frame: &Frame<'_>) -> u64 {
        if let Some(id) = self.known.locations.get(&(frame.code, frame.line)) {
            return *id;
        }
        let function_id = self.function(frame);
        let id = self.known.locations.len() as u64 + 1;
        self.known.locations.insert((frame.code, frame.line), id);
        let line = vec![Line { function_id, line: i64::from(frame.line) }];
        prost::encoding::message::encode(4, &Location { id, line }, &mut self.known.bytes);
        id
    }

    fn function(&mut self, frame: &Frame<'_>) -> u64 {
        if let Some(id) = self.known.functions.get(&frame.code) {
            return *id;
        }
        let id = self.known.functions.len() as u64 + 1;
        self.known.functions.insert(frame.code, id);
        let code = (frame.code as usize).checked_sub(1).and_then(|i| self.capture.codes.get(i));
        let name = if frame.function.is_empty() { "?" } else { frame.function };
        // Where both names are the same, go tool pprof takes `<locals>` for a C++ template and
        // removes it.
        let system_name = self.string(&format!("{}:{name}", frame.file));
        let name = self.string(name);
        let function = Function {
            id,
            name,
            system_name,
            filename: self.string(frame.file),
            start_line: code.map_or(0, |c| i64::from(c.first_line)),
        };
        prost::encoding::message::encode(5, &function, &mut self.known.bytes);
        id
    }
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
