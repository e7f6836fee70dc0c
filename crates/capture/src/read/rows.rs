//! Records as rows.

use std::collections::{HashMap, HashSet};

use format::block::{unpack_pair, BLOCK_WORDS, FIRST_SEQ, HEADER_WORDS, OWNER};
use format::metric::{Metric, Numbers};
use format::own_span;
use format::record::{decode, flag, Attributes, Record, Value, STILL_OUT};

use super::tables::words;
use super::Capture;

/// An attribute's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Text {
    /// Whole number.
    Int(i64),
    /// Fractional number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text, at most 64 bytes.
    Text(String),
}

/// A thread that recorded something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRow {
    /// Kernel thread id.
    pub tid: u32,
    /// Tells threads with the same id apart.
    pub serial: u32,
    /// Its name.
    pub name: String,
    /// The name was given by the program; else it is the kernel's.
    pub named: bool,
    /// Not a thread, but the records that came from inside a thread's records (signal handlers).
    pub nested: bool,
    /// Its first record.
    pub start_ns: u64,
    /// Its end, None while it lives.
    pub end_ns: Option<u64>,
    /// Records it wrote or had to give up until the capture was made.
    pub records: u64,
    /// Of these, given up.
    pub dropped: u64,
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRow {
    /// Unique in the process.
    pub id: u64,
    /// Name id.
    pub name: u32,
    /// Thread it began on.
    pub tid: u32,
    /// Begin: its arrival, as far as that is known.
    pub begin_ns: u64,
    /// Its handler began; later than `begin_ns` when the request had to wait for it.
    pub started_ns: u64,
    /// End; None: it was still running when the capture was made.
    pub end_ns: Option<u64>,
    /// It ended by an exception or an error status.
    pub error: bool,
    /// It ran on an event loop.
    pub on_loop: bool,
    /// Attributes: key, value.
    pub attributes: Vec<(u32, Text)>,
}

/// A span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanRow {
    /// Name id.
    pub name: u32,
    /// Thread.
    pub tid: u32,
    /// Begin.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Request it belongs to, 0 none.
    pub request: u64,
    /// It ended by an exception.
    pub error: bool,
    /// Attributes: key, value.
    pub attributes: Vec<(u32, Text)>,
}

/// An instant event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    /// Name id.
    pub name: u32,
    /// Thread.
    pub tid: u32,
    /// When.
    pub t_ns: u64,
    /// Request it belongs to, 0 none.
    pub request: u64,
    /// Attributes: key, value.
    pub attributes: Vec<(u32, Text)>,
}

/// A time a thread was not on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffCpu {
    /// Left the CPU.
    pub out_ns: u64,
    /// Came back; the capture's end when it had not.
    pub in_ns: u64,
    /// It was preempted: runnable all the time.
    pub preempted: bool,
}

/// A garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcRow {
    /// Thread that collected.
    pub tid: u32,
    /// Generation, 0-2.
    pub generation: u16,
    /// Begin.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Objects collected.
    pub collected: u64,
}

/// A piece of a request's work on another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// Thread that ran it.
    pub tid: u32,
    /// Handed over.
    pub queued_ns: u64,
    /// Begun.
    pub begin_ns: u64,
    /// Done; the capture's end while it runs.
    pub end_ns: u64,
    /// The request.
    pub request: u64,
}

/// A counter's value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VitalRow {
    /// Name id; the unit ends the name.
    pub name: u32,
    /// When.
    pub t_ns: u64,
    /// Value.
    pub value: f64,
}

/// What one window told of one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricRow {
    /// Name id.
    pub name: u32,
    /// Index into `format::metric::KINDS`.
    pub kind: u8,
    /// Tags: key, value.
    pub tags: Vec<(u32, Text)>,
    /// Begin of the window.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// What came in.
    pub numbers: Numbers,
}

/// What is there of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// Thread.
    pub tid: u32,
    /// Its serial.
    pub serial: u32,
    /// Time of its oldest block here.
    pub from_ns: u64,
    /// Records read.
    pub read: u64,
    /// Records before the first one here: overwritten, or older than the capture's window.
    pub missing_before: u64,
    /// Records missing between the first and the last one here: dropped or overwritten in the copy.
    pub missing_between: u64,
    /// Records it wrote after its last one here was copied, or whose block was overwritten.
    pub missing_after: u64,
    /// Records given up: part of the missing ones.
    pub dropped: u64,
}

#[derive(Default)]
struct Run {
    from_ns: u64,
    first: u64,
    read: u64,
    last: u64,
}

/// Decodes every block into rows of `capture` and sorts them.
pub fn read_blocks(capture: &mut Capture, chunks: &[&[u8]]) {
    let mut reader = BlockReader {
        begun: HashMap::new(),
        renamed: HashSet::new(),
        runs: HashMap::new(),
        bad_blocks: 0,
    };
    for chunk in chunks {
        let mut rest = *chunk;
        while let Some((head, tail)) = rest.split_at_checked(8) {
            let count = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let Some((block, next)) = tail.split_at_checked(count.min(BLOCK_WORDS) * 8) else {
                reader.bad_blocks += 1;
                break;
            };
            reader.block(capture, &words(block));
            rest = next;
        }
    }
    reader.finish(capture);
}

struct BlockReader {
    /// Requests begun whose end was not met yet.
    begun: HashMap<u64, RequestRow>,
    /// Requests whose present name was told at the snapshot.
    renamed: HashSet<u64>,
    runs: HashMap<(u32, u32), Run>,
    bad_blocks: u64,
}

impl BlockReader {
    fn block(&mut self, capture: &mut Capture, block: &[u64]) {
        if block.len() < HEADER_WORDS {
            self.bad_blocks += 1;
            return;
        }
        let mut owner = unpack_pair(block[OWNER]);
        let mut seq = block[FIRST_SEQ];
        let mut at = HEADER_WORDS;
        while at < block.len() {
            let Some((len, record)) = decode(&block[at..]) else {
                self.bad_blocks += 1;
                return;
            };
            at += len;
            if let Record::Thread { tid, serial, seq: first } = record {
                (owner, seq) = ((tid, serial), first);
                continue;
            }
            self.note(owner, seq, block[format::block::FIRST_NS]);
            seq = seq.wrapping_add(1);
            self.row(capture, owner.0, record);
        }
    }

    fn note(&mut self, owner: (u32, u32), seq: u64, block_ns: u64) {
        let fresh = Run { from_ns: block_ns, first: seq, read: 0, last: seq };
        let run = self.runs.entry(owner).or_insert(fresh);
        run.read += 1;
        run.last = run.last.max(seq);
        if seq < run.first {
            (run.first, run.from_ns) = (seq, block_ns);
        }
    }

    fn row(&mut self, capture: &mut Capture, tid: u32, record: Record<'_>) {
        match record {
            Record::Event { name, t_ns, request, attributes } => {
                let attributes = list(attributes);
                capture.events.push(EventRow { name, tid, t_ns, request, attributes });
            }
            Record::Span { name, flags, begin_ns, end_ns, request, attributes } => {
                let (attributes, error) = (list(attributes), flags & flag::ERROR != 0);
                let row = SpanRow { name, tid, begin_ns, end_ns, request, error, attributes };
                capture.spans.push(row);
            }
            Record::RequestBegin { name, flags, t_ns, request, started_ns, again_tid } => {
                let again = flags & flag::AGAIN != 0;
                let open = self.begun.entry(request).or_insert_with(|| open_request(request));
                if open.end_ns.is_none() && (again || !self.renamed.contains(&request)) {
                    open.name = name;
                }
                if again {
                    self.renamed.insert(request);
                }
                // The end may have been read first (another block), and what is told again knows
                // neither thread nor start better than the first telling.
                if !again || open.begin_ns == 0 {
                    open.tid = if again { again_tid } else { tid };
                    open.begin_ns = t_ns;
                    open.started_ns = started_ns.max(t_ns);
                    open.on_loop = flags & flag::ASYNC != 0;
                }
            }
            Record::RequestEnd { name, flags, begin_ns, end_ns, request, attributes } => {
                let open = self.begun.entry(request).or_insert_with(|| open_request(request));
                if open.begin_ns == 0 {
                    (open.tid, open.begin_ns, open.started_ns) = (tid, begin_ns, begin_ns);
                    open.on_loop = flags & flag::ASYNC != 0;
                }
                open.name = name;
                open.end_ns = Some(end_ns.max(open.begin_ns));
                open.error = flags & flag::ERROR != 0;
                open.attributes = list(attributes);
            }
            Record::Sample(sample) => {
                capture.samples.entry(sample.tid).or_default().push(sample);
            }
            Record::Await(seen) => {
                capture.awaits.entry(seen.request).or_default().push(seen);
            }
            Record::Metric(metric) => {
                let Metric { name, kind, from_ns, to_ns, numbers, tags } = metric;
                let tags = list(tags);
                capture.metrics.push(MetricRow { name, kind, tags, from_ns, to_ns, numbers });
            }
            Record::OffCpu { tid, preempted, out_ns, in_ns } => {
                let row = OffCpu { out_ns, in_ns, preempted };
                capture.off_cpu.entry(tid).or_default().push(row);
            }
            Record::Gc { generation, begin_ns, end_ns, collected } => {
                capture.gcs.push(GcRow { tid, generation, begin_ns, end_ns, collected });
            }
            Record::Task { queued_ns, begin_ns, end_ns, request, .. } => {
                capture.tasks.push(TaskRow { tid, queued_ns, begin_ns, end_ns, request });
            }
            Record::Vital { name, t_ns, value } => {
                capture.vitals.push(VitalRow { name, t_ns, value });
            }
            Record::Thread { .. } | Record::Foreign { .. } => (),
        }
    }

    fn finish(mut self, capture: &mut Capture) {
        if self.bad_blocks > 0 {
            let text = format!("{} blocks hold words that are no records", self.bad_blocks);
            capture.damage.push(text);
        }
        capture.requests.extend(self.begun.into_values());
        capture.requests.sort_by_key(|r| (r.begin_ns, r.id));
        capture.spans.sort_by_key(|s| s.begin_ns);
        let spans = std::mem::take(&mut capture.spans);
        let is_own = |s: &SpanRow| own_span::ALL.contains(&capture.name(s.name));
        let (own, spans) = spans.into_iter().partition(is_own);
        (capture.own_spans, capture.spans) = (own, spans);
        capture.events.sort_by_key(|e| e.t_ns);
        capture.gcs.sort_by_key(|g| g.begin_ns);
        end_tasks(&mut capture.tasks, capture.meta.to_ns);
        capture.vitals.sort_by_key(|v| v.t_ns);
        capture.metrics.sort_by_key(|m| m.to_ns);
        for samples in capture.samples.values_mut() {
            samples.sort_by_key(|s| s.t_ns);
        }
        for awaits in capture.awaits.values_mut() {
            awaits.sort_by_key(|a| (a.t_ns, a.task));
        }
        let end_ns = capture.meta.to_ns;
        capture.off_cpu.values_mut().for_each(|rows| settle(rows, end_ns));
        for row in &capture.threads {
            // Threads of which nothing is left, too: all their records are missing.
            let gone = Run { from_ns: end_ns, first: row.records, read: 0, last: row.records };
            if row.records > 0 {
                self.runs.entry((row.tid, row.serial)).or_insert(gone);
            }
        }
        let rows: HashMap<(u32, u32), &ThreadRow> =
            capture.threads.iter().map(|t| ((t.tid, t.serial), t)).collect();
        let covered = |(who, run)| covered(who, run, rows.get(&who).copied());
        let mut coverage: Vec<Coverage> = self.runs.into_iter().map(covered).collect();
        coverage.sort_by_key(|c| (c.tid, c.serial));
        capture.coverage = coverage;
    }
}

/// A task is told when it begins and when it ends; the second word of it stands for both.
fn end_tasks(tasks: &mut Vec<TaskRow>, to_ns: u64) {
    let key = |t: &TaskRow| (t.begin_ns, t.tid, t.request);
    tasks.sort_by_key(|t| (key(t), t.end_ns));
    tasks.dedup_by(|later, first| key(later) == key(first));
    let running = tasks.iter_mut().filter(|t| t.end_ns == STILL_OUT);
    running.for_each(|t| t.end_ns = to_ns.max(t.begin_ns));
}

/// Sorts a thread's off-CPU times, closes the last open one, and drops what a later, complete
/// record of the same interval makes superfluous.
fn settle(rows: &mut Vec<OffCpu>, end_ns: u64) {
    rows.sort_by_key(|r| (r.out_ns, r.in_ns));
    rows.dedup_by(|later, kept| later.out_ns == kept.out_ns);
    for i in 0..rows.len() {
        let limit = rows.get(i + 1).map_or(end_ns, |next| next.out_ns);
        if rows[i].in_ns == STILL_OUT || rows[i].in_ns > limit {
            rows[i].in_ns = limit.max(rows[i].out_ns);
        }
    }
}

fn covered((tid, serial): (u32, u32), run: Run, row: Option<&ThreadRow>) -> Coverage {
    let next = if run.read == 0 { run.last } else { run.last.wrapping_add(1) };
    let between = next.wrapping_sub(run.first).saturating_sub(run.read);
    Coverage {
        tid,
        serial,
        from_ns: run.from_ns,
        read: run.read,
        missing_before: run.first,
        missing_between: between,
        missing_after: row.map_or(0, |row| row.records.saturating_sub(next)),
        dropped: row.map_or(0, |row| row.dropped),
    }
}

fn open_request(id: u64) -> RequestRow {
    RequestRow {
        id,
        name: 0,
        tid: 0,
        begin_ns: 0,
        started_ns: 0,
        end_ns: None,
        error: false,
        on_loop: false,
        attributes: Vec::new(),
    }
}

fn list(attributes: Attributes<'_>) -> Vec<(u32, Text)> {
    let mut out = Vec::new();
    attributes.each(|key, value| {
        let value = match value {
            Value::Int(v) => Text::Int(v),
            Value::Float(v) => Text::Float(v),
            Value::Bool(v) => Text::Bool(v),
            Value::Text(v) => Text::Text(v.to_owned()),
        };
        out.push((key, value));
    });
    out
}
