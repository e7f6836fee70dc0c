//! From blocks of records to rows: begins and ends are joined, missing records are counted.
//!
//! How it works: blocks are decoded one at a time, in any order; `finish` sorts the rows and
//! completes them. What it promises: the same rows whatever the order of the blocks, and bounded
//! memory where only causes are wanted.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Seek};

use format::block::{unpack_pair, BLOCK_WORDS, FIRST_NS, FIRST_SEQ, HEADER_WORDS, OWNER};
use format::metric::Metric;
use format::own_span;
use format::record::{decode, flag, Kind, Record};
use format::region::OPEN_PLACE_WORDS;

use super::capture::{Capture, Wanted};
use super::completion::{
    add_apart_attributes, add_missing_switches, end_tasks, settle, switches_paused,
};
use super::coverage::Runs;
use super::native::{self, Nodes};
use super::observed::{Choose, Ends, Observed};
use super::quick::QuickMap;
use super::requests::Requests;
use super::rows::{
    list, CallRow, EventRow, GcRow, LinkRow, MetricRow, SpanRow, StatementKind, StatementRow,
    TaskRow, TraceRow, VitalRow,
};
use super::tables::{to_words, words};

/// The spans that were open when the copy was made.
pub fn open_spans(capture: &Capture, open: &[u8]) -> Vec<SpanRow> {
    let row = |place: &[u64]| {
        let ((name, tid), begin_ns, request) = (unpack_pair(place[0]), place[1], place[2]);
        let end_ns = capture.meta.to_ns.max(begin_ns);
        let (error, attributes, open, call) = (false, Vec::new(), true, false);
        SpanRow { name, tid, begin_ns, end_ns, request, error, open, call, attributes }
    };
    words(open).chunks_exact(OPEN_PLACE_WORDS).map(row).collect()
}

/// Adds them, except those whose end is in the copy.
pub fn add_open_spans(capture: &mut Capture, open: impl Iterator<Item = SpanRow>) {
    let mut open = open.peekable();
    if open.peek().is_none() {
        return;
    }
    let ended: HashSet<(u32, u64)> = capture.spans.iter().map(|s| (s.tid, s.begin_ns)).collect();
    capture.spans.extend(open.filter(|s| !ended.contains(&(s.tid, s.begin_ns))));
}

/// Calls to other services shorter than this are not kept apart: none of them makes a request slow,
/// and many are counted by the sums of spans.
const LONG_CALL_NS: u64 = 5_000_000;
/// Of more statements none is kept: a transaction whose end is missing would look like one with the
/// next.
const MOST_STATEMENTS: usize = 1 << 18;

/// The largest number of sums of spans by request and name, sums of a single span included.
const MOST_SUMS: usize = 1 << 18;

/// Decodes blocks into rows of a capture.
pub struct BlockReader {
    wanted: Wanted,
    /// Name ids of the recorder's own spans, from the tables.
    own: Vec<u32>,
    requests: Requests,
    runs: Runs,
    observed: Observed,
    /// Second copies of records: the thread and the words.
    again: Vec<(u32, Vec<u64>)>,
    /// With more sums of spans than this, some are left out.
    most_sums: usize,
    /// There were too many: spans are summed up when the requests are known.
    sums_later: bool,
    bad_blocks: u64,
    /// Where only causes are wanted: spans whose end was not read yet.
    open: QuickMap<(u32, u64), SpanRow>,
    /// What the statements do that were seen, by the id of their name.
    kinds: QuickMap<u32, Option<StatementKind>>,
    too_many_statements: bool,
    /// The words of the present block.
    words: Vec<u64>,
}

impl BlockReader {
    /// For a capture whose tables are read; `most`: of bytes of observations, None for all.
    pub fn new(capture: &Capture, wanted: Wanted, most: Option<usize>) -> BlockReader {
        BlockReader {
            wanted,
            own: own_span::ALL.iter().filter_map(|name| capture.name_id(name)).collect(),
            requests: Requests::new(wanted),
            runs: Runs::default(),
            observed: Observed::new(most, capture.meta.from_ns, capture.meta.to_ns),
            again: Vec::new(),
            most_sums: MOST_SUMS,
            sums_later: false,
            bad_blocks: 0,
            open: QuickMap::default(),
            kinds: QuickMap::default(),
            too_many_statements: false,
            words: Vec::new(),
        }
    }

    /// Spans that were open when the copy was made, for a reader of causes, before any block.
    pub fn expect(&mut self, open: Vec<SpanRow>) {
        self.open = open.into_iter().map(|row| ((row.tid, row.begin_ns), row)).collect();
    }

    /// Decodes the blocks of one chunk, which begins at byte `at` of the file, into rows of
    /// `capture`.
    pub fn chunk(&mut self, capture: &mut Capture, at: u64, chunk: &[u8]) {
        let mut rest = chunk;
        while let Some((head, tail)) = rest.split_at_checked(8) {
            let count = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let Some((block, next)) = tail.split_at_checked(count.min(BLOCK_WORDS) * 8) else {
                self.bad_blocks += 1;
                break;
            };
            let mut words = std::mem::take(&mut self.words);
            to_words(block, &mut words);
            self.observed.block(at + (chunk.len() - tail.len()) as u64, &words);
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
        let (mut first, mut seq) = (block[FIRST_SEQ], block[FIRST_SEQ]);
        let first_ns = block[FIRST_NS];
        let mut at = HEADER_WORDS;
        while at < block.len() {
            if let Some(len) = self.idle(capture, owner.0, &block[at..]) {
                at += len;
                seq = seq.wrapping_add(1);
                continue;
            }
            let Some((len, record)) = decode(&block[at..]) else {
                self.bad_blocks += 1;
                self.observed.ends_at(at);
                break;
            };
            at += len;
            if let Record::Thread { tid, serial, seq: next } = record {
                self.runs.note(owner, first, seq.wrapping_sub(first), first_ns);
                (owner, first, seq) = ((tid, serial), next, next);
                continue;
            }
            seq = seq.wrapping_add(1);
            self.row(capture, owner.0, seq, record);
        }
        self.runs.note(owner, first, seq.wrapping_sub(first), first_ns);
    }

    /// The wanted records of a block of which other readers have the rest.
    pub fn block_of_part(
        &mut self,
        capture: &mut Capture,
        block: &[u64],
        wants: &dyn Fn(&Record<'_>) -> bool,
    ) {
        if block.len() < HEADER_WORDS {
            return;
        }
        let (mut tid, mut seq) = (unpack_pair(block[OWNER]).0, block[FIRST_SEQ]);
        let mut at = HEADER_WORDS;
        while let Some((len, record)) = block.get(at..).and_then(decode) {
            at += len;
            if let Record::Thread { tid: next, seq: first, .. } = record {
                (tid, seq) = (next, first);
                continue;
            }
            seq = seq.wrapping_add(1);
            if wants(&record) {
                self.row(capture, tid, seq, record);
            }
        }
    }

    /// Adds what bounds the times of threads, for a part with the observations of this time.
    pub fn add_ends(&mut self, capture: &mut Capture, ends: &HashMap<u32, Ends>, part: (u64, u64)) {
        self.observed.add_ends(capture, ends, part);
    }

    /// The length of a record by which no cause can be found, an event or a span of the program's;
    /// the span is added to the sums of its request. Such records are most of a large capture, so
    /// no more of them is decoded than that.
    fn idle(&mut self, capture: &mut Capture, tid: u32, words: &[u64]) -> Option<usize> {
        if self.wanted != Wanted::Causes {
            return None;
        }
        let head = *words.first()?;
        let len = ((head >> 8) & 0xff) as usize;
        if head as u8 == Kind::Event as u8 {
            return (3..=words.len()).contains(&len).then_some(len);
        }
        if head as u8 != Kind::Span as u8 || self.own.contains(&((head >> 32) as u32)) {
            return None;
        }
        let &[_, begin_ns, end_ns, request, ..] = words.get(..len)? else { return None };
        let name = (head >> 32) as u32;
        self.call(capture, tid, (head >> 16) as u16, CallRow { name, begin_ns, end_ns, request });
        if request != 0 && !self.sums_later {
            let ns = end_ns.saturating_sub(begin_ns);
            self.sum_up(capture, (request, name), ns);
        }
        if !self.open.is_empty() {
            self.open.remove(&(tid, begin_ns));
        }
        Some(len)
    }

    /// Keeps what is needed of a call to another service: a long one, and a statement that begins,
    /// changes or ends a transaction. Others are most of a large capture.
    fn call(&mut self, capture: &mut Capture, tid: u32, flags: u16, call: CallRow) {
        if flags & flag::CALL == 0 {
            return;
        }
        let CallRow { name, begin_ns, end_ns, .. } = call;
        if end_ns.saturating_sub(begin_ns) >= LONG_CALL_NS {
            capture.calls.push(call);
        }
        if flags & flag::ERROR != 0 || self.too_many_statements {
            return;
        }
        let kind = self.kinds.entry(name).or_insert_with(|| StatementKind::of(capture.name(name)));
        if let Some(kind) = *kind {
            capture.statements.push(StatementRow { tid, begin_ns, end_ns, kind });
        }
        if capture.statements.len() > MOST_STATEMENTS {
            self.too_many_statements = true;
            capture.statements = Vec::new();
        }
    }

    /// Sums are for spans that a request repeats; a million requests with one span of each name
    /// would take hundreds of MiB. Then those of the wanted requests are summed up later, if that
    /// is possible; else a request whose second span comes later starts a new sum.
    fn leave_single_spans_out(&mut self, capture: &mut Capture) {
        if capture.span_sums.len() > MOST_SUMS && self.observed.can_read_again() {
            self.sums_later = true;
            capture.span_sums = QuickMap::default();
        }
        if capture.span_sums.len() > self.most_sums {
            capture.span_sums.retain(|_, (times, _)| *times > 1);
            self.most_sums = MOST_SUMS.max(2 * capture.span_sums.len());
        }
    }

    /// Adds a span to the sum of its request's spans of this name.
    fn sum_up(&mut self, capture: &mut Capture, of: (u64, u32), ns: u64) {
        let sum = capture.span_sums.entry(of).or_default();
        sum.0 += 1;
        sum.1 += ns;
        self.leave_single_spans_out(capture);
    }

    /// Adds the row of a record: one arm a kind.
    fn row(&mut self, capture: &mut Capture, tid: u32, seq: u64, record: Record<'_>) {
        if let Record::Span { name, flags, begin_ns, end_ns, request, .. } = record {
            self.call(capture, tid, flags, CallRow { name, begin_ns, end_ns, request });
        }
        let list_of = |attributes| match self.wanted {
            Wanted::Bare => Vec::new(),
            Wanted::All | Wanted::Causes => list(attributes),
        };
        match record {
            Record::Event { name, t_ns, request, attributes } => {
                let attributes = list_of(attributes);
                capture.events.push(EventRow { name, tid, t_ns, request, attributes });
            }
            Record::Span { name, flags, begin_ns, end_ns, request, attributes } => {
                let (attributes, error) = (list_of(attributes), flags & flag::ERROR != 0);
                let (open, call) = (false, flags & flag::CALL != 0);
                capture.spans.push(SpanRow {
                    name,
                    tid,
                    begin_ns,
                    end_ns,
                    request,
                    error,
                    open,
                    call,
                    attributes,
                });
            }
            Record::RequestBegin { .. } | Record::RequestEnd { .. } => {
                self.requests.take(capture, tid, record);
            }
            Record::Sample(_)
            | Record::NativeStack(_)
            | Record::Await(_)
            | Record::Suspension(_)
            | Record::Wake(_)
            | Record::OffCpu { .. } => self.observed.take(capture, record),
            Record::Metric(metric) => {
                let Metric { name, kind, from_ns, to_ns, numbers, tags } = metric;
                let tags = list(tags);
                capture.metrics.push(MetricRow { name, kind, tags, from_ns, to_ns, numbers });
            }
            Record::Trace(record, attributes) => {
                let attributes = list(attributes);
                capture.traces.push(TraceRow { tid, seq, record, attributes });
            }
            Record::Link(link, attributes) => {
                let attributes = list(attributes);
                capture.links.push(LinkRow { tid, link, attributes });
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

    /// Adds rows for second copies whose original is lost.
    fn add_lost_originals(&mut self, capture: &mut Capture) {
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
                Record::RequestBegin { request, .. } => self.requests.lacks_begin(request),
                Record::RequestEnd { request, .. } => self.requests.lacks_end(request),
                _ => false,
            };
            if is_lost && self.idle(capture, tid, &words).is_none() {
                self.row(capture, tid, 0, record);
            }
        }
    }

    /// Reads observations that were left for later, sorts the rows, closes open intervals, and
    /// counts what is missing.
    pub fn finish(
        mut self,
        capture: &mut Capture,
        source: &mut (impl Read + Seek),
        choose: &Choose<'_>,
    ) -> io::Result<()> {
        capture.report_bad_blocks(self.bad_blocks);
        self.requests.drop_whole(capture);
        self.add_lost_originals(capture);
        capture.requests.extend(self.requests.rest());
        capture.requests.sort_unstable_by_key(|r| (r.begin_ns, r.id));
        let sums = self.sums_later.then_some(self.own.as_slice());
        let native = self.observed.finish(capture, source, choose, sums)?;
        capture.open_spans = self.open.into_values().collect();
        capture.open_spans.sort_by_key(|s| (s.begin_ns, s.tid));
        capture.coverage = self.runs.coverage(&capture.threads, capture.meta.to_ns);
        complete(capture, native, &mut Nodes::default(), None);
        Ok(())
    }

    /// The same for a part of a capture; `paused`: the times without switch records, `nodes`: what
    /// the parts before have added to the tables.
    pub fn finish_part(
        mut self,
        capture: &mut Capture,
        nodes: &mut Nodes,
        paused: Vec<(u64, u64)>,
        open: impl Iterator<Item = SpanRow>,
    ) {
        self.requests.drop_whole(capture);
        self.add_lost_originals(capture);
        capture.requests.extend(self.requests.rest());
        add_open_spans(capture, open);
        let native = self.observed.rows(capture);
        complete(capture, native, nodes, Some(paused));
    }
}

/// Sorts the rows, closes open intervals, and puts native stacks into the tables.
fn complete(
    capture: &mut Capture,
    native: Vec<native::Row>,
    nodes: &mut Nodes,
    paused: Option<Vec<(u64, u64)>>,
) {
    capture.statements.sort_by_key(|s| (s.begin_ns, s.tid));
    capture.spans.sort_by_key(|s| s.begin_ns);
    let spans = std::mem::take(&mut capture.spans);
    let is_own = |s: &SpanRow| own_span::ALL.contains(&capture.name(s.name));
    let (own, spans) = spans.into_iter().partition(is_own);
    (capture.own_spans, capture.spans) = (own, spans);
    capture.traces.sort_by_key(|t| (t.record.t_ns, t.seq));
    capture.links.sort_by_key(|l| l.link.t_ns);
    add_apart_attributes(capture);
    capture.events.sort_by_key(|e| e.t_ns);
    capture.gcs.sort_by_key(|g| g.begin_ns);
    end_tasks(&mut capture.tasks, capture.meta.to_ns);
    capture.vitals.sort_by_key(|v| v.t_ns);
    capture.switches_paused = paused.unwrap_or_else(|| switches_paused(capture));
    capture.metrics.sort_by_key(|m| m.to_ns);
    for samples in capture.samples.values_mut() {
        samples.sort_by_key(|s| s.t_ns);
    }
    capture.wakes.values_mut().for_each(|rows| rows.sort_by_key(|w| w.t_ns));
    native::join(capture, native, nodes);
    for awaits in capture.awaits.values_mut() {
        awaits.sort_by_key(|a| (a.t_ns, a.task));
    }
    capture.suspensions.values_mut().for_each(|rows| rows.sort_by_key(|s| s.out_ns));
    let end_ns = capture.meta.to_ns;
    capture.off_cpu.values_mut().for_each(|rows| settle(rows, end_ns));
    add_missing_switches(capture);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_sums_of_spans_those_of_one_span_are_left_out() {
        let mut capture = Capture::default();
        let mut reader = BlockReader::new(&capture, Wanted::Causes, None);
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
