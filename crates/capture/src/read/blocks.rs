//! From blocks of records to rows: begins and ends are joined, missing records are counted.
//!
//! How it works: blocks are decoded one at a time, in any order; `finish` sorts the rows and
//! completes them. What it promises: the same rows whatever the order of the blocks, and bounded
//! memory where only causes are wanted.

use std::collections::{HashMap, HashSet};

use format::block::{unpack_pair, BLOCK_WORDS, FIRST_SEQ, HEADER_WORDS, OWNER};
use format::metric::Metric;
use format::own_span;
use format::record::{decode, flag, Attributes, Record, Value, STILL_OUT, SWITCHES_PAUSED};
use format::region::OPEN_PLACE_WORDS;
use format::trace::TRACESTATE;

use super::capture::{Capture, Wanted};
use super::mend;
use super::native;
use super::rows::{
    Coverage, EventRow, GcRow, LinkRow, MetricRow, OffCpu, RequestRow, SpanRow, TaskRow, Text,
    ThreadRow, TraceRow, VitalRow,
};
use super::tables::words;
use super::thin;

#[derive(Default)]
struct Run {
    from_ns: u64,
    first: u64,
    read: u64,
    last: u64,
}

/// Adds the spans that were open when the copy was made, except those whose end is in it.
pub fn add_open_spans(capture: &mut Capture, open: &[u8]) {
    let open = words(open);
    if open.is_empty() {
        return;
    }
    let ended: HashSet<(u32, u64)> = capture.spans.iter().map(|s| (s.tid, s.begin_ns)).collect();
    for place in open.chunks_exact(OPEN_PLACE_WORDS) {
        let ((name, tid), begin_ns, request) = (unpack_pair(place[0]), place[1], place[2]);
        if !ended.contains(&(tid, begin_ns)) {
            let end_ns = capture.meta.to_ns.max(begin_ns);
            let (error, attributes) = (false, Vec::new());
            let open = true;
            let row = SpanRow { name, tid, begin_ns, end_ns, request, error, open, attributes };
            capture.spans.push(row);
        }
    }
}

/// The state of a request whose records are read in part.
struct Begun {
    row: RequestRow,
    /// The original record of its begin was read, not the later copy.
    first: bool,
}

impl Begun {
    fn new(id: u64) -> Begun {
        Begun { row: open_request(id), first: false }
    }
}

/// How long before the end of a capture the recorder may have listed the open requests, at most.
const ASKED_BEFORE_NS: u64 = 2_000_000_000;

/// The largest number of sums of spans by request and name, sums of a single span included.
const MOST_SUMS: usize = 1 << 18;

/// Decodes blocks into rows of a capture.
pub struct BlockReader {
    wanted: Wanted,
    /// Name ids of the recorder's own spans, from the tables.
    own: HashSet<u32>,
    /// Requests whose begin or end is not read yet; the others are rows of the capture.
    begun: HashMap<u64, Begun>,
    /// Requests whose present name was recorded at the snapshot.
    renamed: HashSet<u64>,
    runs: HashMap<(u32, u32), Run>,
    native: Vec<native::Row>,
    /// Second copies of records: the thread and the words.
    again: Vec<(u32, Vec<u64>)>,
    /// With more sums of spans than this, some are left out.
    most_sums: usize,
    /// With more requests than this, some rows stand for several.
    most_requests: usize,
    /// Requests that other rows stand for and that may be recorded again as open.
    stood_for: HashSet<u64>,
    bad_blocks: u64,
    /// The words of the present block.
    words: Vec<u64>,
}

impl BlockReader {
    /// For a capture whose tables are read.
    pub fn new(capture: &Capture, wanted: Wanted) -> BlockReader {
        BlockReader {
            wanted,
            own: own_span::ALL.iter().filter_map(|name| capture.name_id(name)).collect(),
            begun: HashMap::new(),
            renamed: HashSet::new(),
            runs: HashMap::new(),
            native: Vec::new(),
            again: Vec::new(),
            most_sums: MOST_SUMS,
            most_requests: thin::MOST,
            stood_for: HashSet::new(),
            bad_blocks: 0,
            words: Vec::new(),
        }
    }

    /// Decodes the blocks of one chunk into rows of `capture`.
    pub fn chunk(&mut self, capture: &mut Capture, chunk: &[u8]) {
        let mut rest = chunk;
        while let Some((head, tail)) = rest.split_at_checked(8) {
            let count = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let Some((block, next)) = tail.split_at_checked(count.min(BLOCK_WORDS) * 8) else {
                self.bad_blocks += 1;
                break;
            };
            let mut words = std::mem::take(&mut self.words);
            words.clear();
            let word = |b: &[u8]| b.try_into().map(u64::from_le_bytes).unwrap_or_default();
            words.extend(block.chunks_exact(8).map(word));
            self.block(capture, &words);
            self.words = words;
            rest = next;
        }
    }

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
            self.row(capture, owner.0, seq, record);
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

    /// Sums are for spans that a request repeats; a million requests with one span of each name
    /// would take hundreds of MiB. A request whose second span comes later starts a new sum.
    fn leave_single_spans_out(&mut self, capture: &mut Capture) {
        if capture.span_sums.len() > self.most_sums {
            capture.span_sums.retain(|_, (times, _)| *times > 1);
            self.most_sums = MOST_SUMS.max(2 * capture.span_sums.len());
        }
    }

    fn row(&mut self, capture: &mut Capture, tid: u32, seq: u64, record: Record<'_>) {
        if self.wanted == Wanted::Causes && self.is_idle(&record) {
            if let Record::Span { name, begin_ns, end_ns, request: request @ 1.., .. } = record {
                let sum = capture.span_sums.entry((request, name)).or_default();
                sum.0 += 1;
                sum.1 += end_ns.saturating_sub(begin_ns);
                self.leave_single_spans_out(capture);
            }
            return;
        }
        match record {
            Record::Event { name, t_ns, request, attributes } => {
                let attributes = list(attributes);
                capture.events.push(EventRow { name, tid, t_ns, request, attributes });
            }
            Record::Span { name, flags, begin_ns, end_ns, request, attributes } => {
                let (attributes, error) = (list(attributes), flags & flag::ERROR != 0);
                let open = false;
                capture.spans.push(SpanRow {
                    name,
                    tid,
                    begin_ns,
                    end_ns,
                    request,
                    error,
                    open,
                    attributes,
                });
            }
            Record::RequestBegin { name, flags, t_ns, request, started_ns, again_tid } => {
                let again = flags & flag::AGAIN != 0;
                if again {
                    capture.open_at_copy.insert(request);
                }
                let begun = RequestRow {
                    name,
                    tid: if again { again_tid } else { tid },
                    begin_ns: t_ns,
                    started_ns: started_ns.max(t_ns),
                    on_loop: flags & flag::ASYNC != 0,
                    ..open_request(request)
                };
                self.request_begins(capture, begun, again);
            }
            Record::RequestEnd { name, flags, begin_ns, end_ns, request, attributes } => {
                let attributes = match self.wanted {
                    Wanted::All => list(attributes),
                    Wanted::Causes => Vec::new(),
                };
                let ended = RequestRow {
                    id: request,
                    name,
                    tid,
                    begin_ns,
                    started_ns: begin_ns,
                    end_ns: Some(end_ns),
                    error: flags & flag::ERROR != 0,
                    on_loop: flags & flag::ASYNC != 0,
                    times: 1,
                    attributes,
                };
                self.request_ends(capture, ended);
            }
            Record::Sample(sample) => {
                capture.samples.entry(sample.tid).or_default().push(sample);
            }
            Record::NativeStack(stack) => self.native.push(native::Row::of(stack)),
            Record::Await(seen) => {
                capture.awaits.entry(seen.request).or_default().push(seen);
            }
            Record::Metric(metric) => {
                let Metric { name, kind, from_ns, to_ns, numbers, tags } = metric;
                let tags = list(tags);
                capture.metrics.push(MetricRow { name, kind, tags, from_ns, to_ns, numbers });
            }
            Record::Trace(told, attributes) => {
                let attributes = list(attributes);
                capture.traces.push(TraceRow { tid, seq, told, attributes });
            }
            Record::Link(link, attributes) => {
                let attributes = list(attributes);
                capture.links.push(LinkRow { tid, link, attributes });
            }
            Record::Wake(wake) => capture.wakes.entry(wake.tid).or_default().push(wake),
            Record::OffCpu { tid, preempted, out_ns, in_ns, cpu } => {
                let row = OffCpu { out_ns, in_ns, preempted, cpu };
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
            Record::Again { tid, record } => self.again.push((tid, record.to_vec())),
            Record::Thread { .. } | Record::Foreign { .. } => (),
        }
    }

    /// Adds the begin of a request; `again`: the copy made at the snapshot, since it was open then.
    fn request_begins(&mut self, capture: &mut Capture, told: RequestRow, again: bool) {
        let id = told.id;
        let begun = self.begun.entry(id).or_insert_with(|| Begun::new(id));
        let open = &mut begun.row;
        if open.end_ns.is_none() && (again || !self.renamed.contains(&id)) {
            open.name = told.name;
        }
        if again {
            self.renamed.insert(id);
        }
        // The end may have been read first (another block), and the copy has neither thread nor
        // start better than the original.
        if !again || open.begin_ns == 0 {
            (open.tid, open.begin_ns, open.started_ns) = (told.tid, told.begin_ns, told.started_ns);
            open.on_loop = told.on_loop;
        }
        begun.first |= !again;
        if begun.first && begun.row.end_ns.is_some() {
            self.request_is_whole(capture, id);
        }
    }

    /// Adds the end of a request. If its begin was read, that is more exact.
    fn request_ends(&mut self, capture: &mut Capture, told: RequestRow) {
        let id = told.id;
        let begun = self.begun.entry(id).or_insert_with(|| Begun::new(id));
        let open = &mut begun.row;
        if open.begin_ns == 0 {
            (open.tid, open.begin_ns, open.started_ns) = (told.tid, told.begin_ns, told.started_ns);
            open.on_loop = told.on_loop;
        }
        open.name = told.name;
        open.end_ns = told.end_ns.map(|end_ns| end_ns.max(open.begin_ns));
        open.error = told.error;
        open.attributes = told.attributes;
        if begun.first {
            self.request_is_whole(capture, id);
        }
    }

    fn request_is_whole(&mut self, capture: &mut Capture, id: u64) {
        capture.requests.extend(self.begun.remove(&id).map(|begun| begun.row));
        if self.wanted == Wanted::Causes && capture.requests.len() >= self.most_requests {
            self.thin_requests(capture);
        }
    }

    fn thin_requests(&mut self, capture: &mut Capture) {
        let asked_ns = capture.meta.to_ns.saturating_sub(ASKED_BEFORE_NS);
        thin::thin(&mut capture.requests, thin::MOST, |row| {
            if row.end_ns >= Some(asked_ns) {
                self.stood_for.insert(row.id);
            }
        });
        // If there are too many names, thinning cannot leave fewer rows: it is then not tried again
        // with each request.
        self.most_requests = thin::MOST.max(capture.requests.len() / 3 * 4);
        if capture.traces.len() >= self.most_requests {
            let known: HashSet<u64> = capture.requests.iter().map(|r| r.id).collect();
            let asked = |id: &u64| known.contains(id) || self.begun.contains_key(id);
            capture.traces.retain(|t| asked(&t.told.request));
        }
    }

    /// Whether no cause can be found by this record.
    fn is_idle(&self, record: &Record<'_>) -> bool {
        match record {
            Record::Event { .. } => true,
            Record::Span { name, .. } => !self.own.contains(name),
            _ => false,
        }
    }

    /// Adds rows for second copies whose original is lost.
    fn add_told_twice(&mut self, capture: &mut Capture) {
        // Second copies are few, originals may be millions.
        let mut twice: HashSet<(u32, u64)> = HashSet::new();
        for (tid, words) in &self.again {
            twice.extend(words.get(1).map(|begin_ns| (*tid, *begin_ns)));
        }
        let gcs = capture.gcs.iter().map(|g| (g.tid, g.begin_ns));
        let gcs: HashSet<(u32, u64)> = gcs.filter(|key| twice.contains(key)).collect();
        let spans = capture.spans.iter().map(|s| (s.tid, s.begin_ns));
        let spans: HashSet<(u32, u64)> = spans.filter(|key| twice.contains(key)).collect();
        for (tid, words) in std::mem::take(&mut self.again) {
            let Some((_, record)) = decode(&words) else { continue };
            let is_lost = match record {
                Record::Gc { begin_ns, .. } => !gcs.contains(&(tid, begin_ns)),
                Record::Span { begin_ns, .. } => !spans.contains(&(tid, begin_ns)),
                Record::RequestBegin { request, .. } => {
                    self.begun.get(&request).is_some_and(|begun| !begun.first)
                }
                // If its begin is lost, too, another row may stand for it.
                Record::RequestEnd { request, .. } => {
                    self.begun.get(&request).is_some_and(|begun| begun.row.end_ns.is_none())
                }
                _ => false,
            };
            if is_lost {
                self.row(capture, tid, 0, record);
            }
        }
    }

    /// Sorts the rows, closes open intervals, and counts what is missing.
    pub fn finish(mut self, capture: &mut Capture) {
        if self.bad_blocks > 0 {
            let text = format!("{} blocks hold words that are no records", self.bad_blocks);
            capture.damage.push(text);
        }
        // Recorded again behind its end (another block).
        for id in capture.requests.iter().map(|row| &row.id).chain(&self.stood_for) {
            self.begun.remove(id);
        }
        self.add_told_twice(capture);
        capture.requests.extend(self.begun.into_values().map(|begun| begun.row));
        capture.requests.sort_unstable_by_key(|r| (r.begin_ns, r.id));
        capture.spans.sort_by_key(|s| s.begin_ns);
        let spans = std::mem::take(&mut capture.spans);
        let is_own = |s: &SpanRow| own_span::ALL.contains(&capture.name(s.name));
        let (own, spans) = spans.into_iter().partition(is_own);
        (capture.own_spans, capture.spans) = (own, spans);
        capture.traces.sort_by_key(|t| (t.told.t_ns, t.seq));
        capture.links.sort_by_key(|l| l.link.t_ns);
        add_told_attributes(capture);
        capture.events.sort_by_key(|e| e.t_ns);
        capture.gcs.sort_by_key(|g| g.begin_ns);
        end_tasks(&mut capture.tasks, capture.meta.to_ns);
        capture.vitals.sort_by_key(|v| v.t_ns);
        capture.switches_paused = switches_paused(capture);
        capture.metrics.sort_by_key(|m| m.to_ns);
        for samples in capture.samples.values_mut() {
            samples.sort_by_key(|s| s.t_ns);
        }
        capture.wakes.values_mut().for_each(|rows| rows.sort_by_key(|w| w.t_ns));
        native::join(capture, std::mem::take(&mut self.native));
        for awaits in capture.awaits.values_mut() {
            awaits.sort_by_key(|a| (a.t_ns, a.task));
        }
        let end_ns = capture.meta.to_ns;
        capture.off_cpu.values_mut().for_each(|rows| settle(rows, end_ns));
        mend_switches(capture);
        for row in &capture.threads {
            // Also threads without any record left: all their records are missing.
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

/// The pauses in the vital of that name. What lies before its first record is lost: if that record
/// ends a pause, the pause's begin is not known.
fn switches_paused(capture: &Capture) -> Vec<(u64, u64)> {
    let Some(name) = capture.name_id(SWITCHES_PAUSED) else { return Vec::new() };
    let (mut out, mut since): (Vec<(u64, u64)>, Option<u64>) = (Vec::new(), None);
    for told in capture.vitals.iter().filter(|v| v.name == name) {
        if told.value > 0.0 {
            let begin_ns = told.t_ns.saturating_sub(told.value as u64);
            since = Some(since.map_or(begin_ns, |since| since.min(begin_ns)));
        } else {
            let from_ns = match (since.take(), out.last()) {
                (Some(since), _) => since,
                (None, None) => capture.meta.from_ns.min(told.t_ns),
                (None, Some(_)) => continue,
            };
            let from_ns = from_ns.max(out.last().map_or(0, |(_, to)| *to));
            out.push((from_ns, told.t_ns));
        }
    }
    out.extend(since.map(|since| (since, u64::MAX)));
    out
}

/// Adds attributes that were recorded apart from a request's end: those of the OpenTelemetry span
/// of the request.
fn add_told_attributes(capture: &mut Capture) {
    let state = capture.name_id(TRACESTATE);
    let told = capture.traces.iter().filter(|t| !t.told.of_span && !t.attributes.is_empty());
    let mut by_request: HashMap<u64, Vec<(u32, Text)>> = HashMap::new();
    for row in told {
        let own = row.attributes.iter().filter(|(key, _)| Some(*key) != state);
        by_request.entry(row.told.request).or_default().extend(own.cloned());
    }
    for request in &mut capture.requests {
        for attribute in by_request.remove(&request.id).unwrap_or_default() {
            if !request.attributes.contains(&attribute) {
                request.attributes.push(attribute);
            }
        }
    }
}

/// A task has a record at its begin and one at its end; the second stands for both.
fn end_tasks(tasks: &mut Vec<TaskRow>, to_ns: u64) {
    let key = |t: &TaskRow| (t.begin_ns, t.tid, t.request);
    tasks.sort_by_key(|t| (key(t), t.end_ns));
    tasks.dedup_by(|later, first| key(later) == key(first));
    let running = tasks.iter_mut().filter(|t| t.end_ns == STILL_OUT);
    running.for_each(|t| t.end_ns = to_ns.max(t.begin_ns));
}

/// Adds off-CPU intervals whose records are lost, as samples prove.
fn mend_switches(capture: &mut Capture) {
    let mut off = std::mem::take(&mut capture.off_cpu);
    let blind = &capture.switches_paused;
    for (tid, rows) in &mut off {
        let looks = capture.samples.get(tid).map_or(&[][..], Vec::as_slice);
        capture.switches_mended += mend::off_cpu(rows, looks, blind);
    }
    capture.off_cpu = off;
}

/// Sorts a thread's off-CPU intervals, closes the last open one, and drops those that a later,
/// complete record of the same interval replaces.
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
        times: 1,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_sums_of_spans_those_of_one_span_are_left_out() {
        let mut capture = Capture::default();
        let mut reader = BlockReader::new(&capture, Wanted::Causes);
        for request in 0..3 * MOST_SUMS as u64 {
            let times = if request % 1000 == 0 { 7 } else { 1 };
            capture.span_sums.insert((request, 1), (times, 50));
            reader.leave_single_spans_out(&mut capture);
            assert!(capture.span_sums.len() <= MOST_SUMS);
        }
        let kept = capture.span_sums.values().filter(|(times, _)| *times == 7).count();
        assert_eq!(kept, 3 * MOST_SUMS / 1000 + 1);
        // Where most are of many spans there is room for as many again.
        capture.span_sums = (0..=MOST_SUMS as u64).map(|id| ((id, 1), (2, 9))).collect();
        reader.leave_single_spans_out(&mut capture);
        assert_eq!(capture.span_sums.len(), MOST_SUMS + 1);
        assert_eq!(reader.most_sums, 2 * (MOST_SUMS + 1));
    }
}
