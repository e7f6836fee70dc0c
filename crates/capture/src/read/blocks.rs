//! From blocks of records to rows: begins and ends are joined, missing records are counted.
//!
//! How it works: blocks are decoded one at a time, in any order; `finish` sorts the rows and
//! completes them. What it promises: the same rows whatever the order of the blocks, and bounded
//! memory where only causes are wanted.

use std::collections::HashSet;

use format::block::{unpack_pair, BLOCK_WORDS, FIRST_SEQ, HEADER_WORDS, OWNER};
use format::metric::Metric;
use format::own_span;
use format::record::{decode, flag, Record};
use format::region::OPEN_PLACE_WORDS;

use super::capture::{Capture, Wanted};
use super::completion::{add_apart_attributes, end_tasks, mend_switches, settle, switches_paused};
use super::coverage::Runs;
use super::native;
use super::requests::Requests;
use super::rows::{
    list, CallRow, EventRow, GcRow, LinkRow, MetricRow, OffCpu, SpanRow, TaskRow, TraceRow,
    VitalRow,
};
use super::tables::words;

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

/// Calls to other services shorter than this are not kept apart: none of them makes a request slow,
/// and many are counted by the sums of spans.
const LONG_CALL_NS: u64 = 5_000_000;
/// The largest number of sums of spans by request and name, sums of a single span included.
const MOST_SUMS: usize = 1 << 18;

/// Decodes blocks into rows of a capture.
pub struct BlockReader {
    wanted: Wanted,
    /// Name ids of the recorder's own spans, from the tables.
    own: HashSet<u32>,
    requests: Requests,
    runs: Runs,
    native: Vec<native::Row>,
    /// Second copies of records: the thread and the words.
    again: Vec<(u32, Vec<u64>)>,
    /// With more sums of spans than this, some are left out.
    most_sums: usize,
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
            requests: Requests::new(wanted),
            runs: Runs::default(),
            native: Vec::new(),
            again: Vec::new(),
            most_sums: MOST_SUMS,
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
            self.runs.note(owner, seq, block[format::block::FIRST_NS]);
            seq = seq.wrapping_add(1);
            self.row(capture, owner.0, seq, record);
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

    /// Adds a span to the sum of its request's spans of this name.
    fn sum_up(&mut self, capture: &mut Capture, record: &Record<'_>) {
        if let Record::Span { name, begin_ns, end_ns, request: request @ 1.., .. } = *record {
            let sum = capture.span_sums.entry((request, name)).or_default();
            sum.0 += 1;
            sum.1 += end_ns.saturating_sub(begin_ns);
            self.leave_single_spans_out(capture);
        }
    }

    /// Adds the row of a record: one arm a kind.
    fn row(&mut self, capture: &mut Capture, tid: u32, seq: u64, record: Record<'_>) {
        if let Record::Span { name, flags, begin_ns, end_ns, request, .. } = record {
            if flags & flag::CALL != 0 && end_ns.saturating_sub(begin_ns) >= LONG_CALL_NS {
                capture.calls.push(CallRow { name, begin_ns, end_ns, request });
            }
        }
        if self.wanted == Wanted::Causes && self.is_idle(&record) {
            return self.sum_up(capture, &record);
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
            Record::RequestBegin { .. } | Record::RequestEnd { .. } => {
                self.requests.take(capture, tid, record);
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

    /// Whether no cause can be found by this record.
    fn is_idle(&self, record: &Record<'_>) -> bool {
        match record {
            Record::Event { .. } => true,
            Record::Span { name, .. } => !self.own.contains(name),
            _ => false,
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
        self.requests.drop_whole(capture);
        self.add_lost_originals(capture);
        capture.requests.extend(self.requests.rest());
        capture.requests.sort_unstable_by_key(|r| (r.begin_ns, r.id));
        capture.spans.sort_by_key(|s| s.begin_ns);
        let spans = std::mem::take(&mut capture.spans);
        let is_own = |s: &SpanRow| own_span::ALL.contains(&capture.name(s.name));
        let (own, spans) = spans.into_iter().partition(is_own);
        (capture.own_spans, capture.spans) = (own, spans);
        capture.traces.sort_by_key(|t| (t.told.t_ns, t.seq));
        capture.links.sort_by_key(|l| l.link.t_ns);
        add_apart_attributes(capture);
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
        capture.coverage = self.runs.coverage(&capture.threads, end_ns);
    }
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
