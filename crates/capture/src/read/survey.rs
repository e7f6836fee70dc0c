//! The first pass over a capture that is read in parts (`parts`): what lies where, and what only
//! the whole capture says.
//!
//! What it promises: memory for each block and each open request, not for each record.

use std::collections::{BTreeMap, HashMap};

use format::block::{unpack_pair, FIRST_NS, FIRST_SEQ, HEADER_WORDS, OWNER};
use format::record::{decode, flag, Record, STILL_OUT, SWITCHES_PAUSED};

use super::capture::{Capture, Wanted};
use super::coverage::Runs;
use super::observed::{extent, Ends};
use super::requests::Requests;
use super::rows::VitalRow;

/// The time of every so many words is noted, to find the borders.
pub const STEP_WORDS: usize = 1 << 12;
/// Observations this long before and behind a part are there.
pub const MARGIN_NS: u64 = 300_000_000;

/// A block of the file, and the times of what is in it.
pub struct Block {
    pub at: u64,
    pub words: u32,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// What the first pass gathers.
pub struct Survey {
    pub blocks: Vec<Block>,
    pub times: Vec<u64>,
    words: usize,
    pub runs: Runs,
    pub requests: Requests,
    again: Vec<Vec<u64>>,
    pub ends: HashMap<u32, Ends>,
    /// When the last of the long requests ended that began in each `MARGIN_NS` of time.
    pub long: BTreeMap<u64, u64>,
    pub bad_blocks: u64,
}

impl Survey {
    /// Nothing yet.
    pub fn new() -> Survey {
        Survey {
            blocks: Vec::new(),
            times: Vec::new(),
            words: 0,
            runs: Runs::default(),
            requests: Requests::new(Wanted::All),
            again: Vec::new(),
            ends: HashMap::new(),
            long: BTreeMap::new(),
            bad_blocks: 0,
        }
    }

    /// Notes a block whose words begin at byte `at`.
    pub fn block(&mut self, capture: &mut Capture, at: u64, words: &[u64]) {
        if words.len() < HEADER_WORDS {
            self.bad_blocks += 1;
            return;
        }
        let (mut owner, first_ns) = (unpack_pair(words[OWNER]), words[FIRST_NS]);
        let (mut first, mut seq) = (words[FIRST_SEQ], words[FIRST_SEQ]);
        let mut block = Block { at, words: words.len() as u32, from_ns: u64::MAX, to_ns: 0 };
        let mut next = HEADER_WORDS;
        while next < words.len() {
            let Some((len, record)) = decode(&words[next..]) else {
                self.bad_blocks += 1;
                break;
            };
            if let Record::Thread { tid, serial, seq: number } = record {
                self.runs.note(owner, first, seq.wrapping_sub(first), first_ns);
                (owner, first, seq) = ((tid, serial), number, number);
            } else {
                seq = seq.wrapping_add(1);
                self.record(capture, owner.0, &record, &mut block, len);
            }
            next += len;
        }
        self.runs.note(owner, first, seq.wrapping_sub(first), first_ns);
        self.blocks.push(block);
    }

    fn record(
        &mut self,
        capture: &mut Capture,
        tid: u32,
        record: &Record<'_>,
        block: &mut Block,
        len: usize,
    ) {
        if let Record::Again { record, .. } = record {
            self.again.push(record.to_vec());
            let Some((_, inner)) = decode(record) else { return };
            if !matches!(inner, Record::Again { .. }) {
                self.time(&inner, block, len);
            }
            return;
        }
        self.time(record, block, len);
        match *record {
            Record::RequestBegin { .. } | Record::RequestEnd { .. } => {
                self.request(capture, tid, record);
            }
            Record::Vital { name, t_ns, value } if capture.name(name) == SWITCHES_PAUSED => {
                capture.vitals.push(VitalRow { name, t_ns, value });
            }
            Record::Sample(sample) => self.ends.entry(sample.tid).or_default().take(record),
            Record::OffCpu { tid, .. } => self.ends.entry(tid).or_default().take(record),
            _ => (),
        }
    }

    fn request(&mut self, capture: &mut Capture, tid: u32, record: &Record<'_>) {
        self.requests.take(capture, tid, *record);
        self.requests.forget_whole(capture);
        match *record {
            Record::RequestBegin { flags, t_ns, started_ns, .. }
                if flags & (flag::AGAIN | flag::ASYNC) == 0 =>
            {
                let last = capture.last_begun.entry(tid).or_default();
                *last = (*last).max(started_ns).max(t_ns);
            }
            Record::RequestEnd { flags, begin_ns, end_ns, .. }
                if flags & flag::ASYNC == 0 && end_ns.saturating_sub(begin_ns) > MARGIN_NS =>
            {
                let until = self.long.entry(begin_ns / MARGIN_NS).or_default();
                *until = (*until).max(end_ns);
            }
            _ => (),
        }
    }

    fn time(&mut self, record: &Record<'_>, block: &mut Block, len: usize) {
        let Some((from_ns, to_ns)) = times(record) else { return };
        (block.from_ns, block.to_ns) = (block.from_ns.min(from_ns), block.to_ns.max(to_ns));
        let before = self.words / STEP_WORDS;
        self.words += len;
        if self.words / STEP_WORDS != before {
            self.times.push(from_ns);
        }
    }

    /// Takes second copies of requests' records whose originals are missing.
    pub fn add_lost_originals(&mut self, capture: &mut Capture) {
        for words in std::mem::take(&mut self.again) {
            let Some((_, record)) = decode(&words) else { continue };
            let is_lost = match record {
                Record::RequestBegin { request, .. } => self.requests.lacks_begin(request),
                Record::RequestEnd { request, .. } => self.requests.lacks_end(request),
                _ => false,
            };
            if is_lost {
                self.requests.take(capture, 0, record);
                self.requests.forget_whole(capture);
            }
        }
    }
}

/// Begin and end of what a record says; None: it says nothing of a time.
pub fn times(record: &Record<'_>) -> Option<(u64, u64)> {
    if let Some((from_ns, to_ns, _)) = extent(record) {
        // The block of a thread that is still off the CPU is not one of every later part.
        return Some((from_ns, if to_ns == STILL_OUT { from_ns } else { to_ns }));
    }
    Some(match *record {
        Record::Event { t_ns, .. } | Record::Vital { t_ns, .. } => (t_ns, t_ns),
        Record::Span { begin_ns, end_ns, .. }
        | Record::RequestEnd { begin_ns, end_ns, .. }
        | Record::Gc { begin_ns, end_ns, .. }
        | Record::Task { begin_ns, end_ns, .. } => (begin_ns, end_ns.max(begin_ns)),
        Record::RequestBegin { t_ns, started_ns, .. } => (t_ns, started_ns.max(t_ns)),
        Record::Metric(metric) => (metric.to_ns, metric.to_ns),
        Record::Trace(trace, _) => (trace.t_ns, trace.t_ns),
        Record::Link(link, _) => (link.t_ns, link.t_ns),
        _ => return None,
    })
}
