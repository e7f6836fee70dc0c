//! Reads a capture in parts, one time after the other, so that only one part's rows are in memory.
//!
//! How it works: a first pass goes over the records once and notes what lies where: the times of
//! each block, borders between parts of about equally many words, and what only the whole capture
//! says (which records are missing, which requests have no end, the first and the last observation
//! of each thread). Then each part is read from the blocks that have something of its time. A row
//! belongs to the part in which it begins (`Capture::owns`); what is still under way at the end of
//! a part is carried into the next. Observations of threads are there for a while before and behind
//! the part as well, since states follow from their neighbours.
//!
//! What it promises: each row is owned by exactly one part, ids of names, code and stacks are those
//! of one table that only grows, and a capture of one part is read as `Capture::open` reads it.
//! What is missing on purpose: attributes and links that a request or span was given after the end
//! of the part in which it began.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use format::block::BLOCK_WORDS;
use format::record::{decode, flag, Record};

use super::blocks::{open_spans, BlockReader};
use super::capture::{Capture, Part, Wanted};
use super::chunks::{self, Chunks, Found};
use super::completion::switches_paused;
use super::error::ReadError;
use super::named::{self, Named};
use super::native::Nodes;
use super::observed::{extent, Ends};
use super::rows::{RequestRow, SpanRow};
use super::survey::{times, Block, Survey, MARGIN_NS, STEP_WORDS};
use super::tables::to_words;

/// Words of records of one part: its rows, and what an export makes of them, need about ten times
/// as many bytes.
const PART_WORDS: usize = 1 << 20;

/// A capture that is read in parts.
pub struct Parts<R> {
    source: R,
    /// None: the capture is one part.
    divided: Option<Divided>,
    chunks: Chunks,
    next: usize,
    wanted: Wanted,
    own_stacks: usize,
}

struct Divided {
    blocks: Vec<Block>,
    /// Where a part begins, but the first.
    borders: Vec<u64>,
    ends: HashMap<u32, Ends>,
    long: BTreeMap<u64, u64>,
    /// Requests without an end.
    open: HashMap<u64, RequestRow>,
    open_spans: Vec<SpanRow>,
    named: Option<Named>,
    nodes: Nodes,
}

impl Parts<std::fs::File> {
    /// Opens the file at `path`; returns a capture that has no rows yet but what all parts share.
    /// `tell` is called with the number of chunks read and of all.
    pub fn open(
        path: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(Parts<std::fs::File>, Capture), ReadError> {
        let io = |error| ReadError::Io(path.to_owned(), error);
        let file = std::fs::File::open(path).map_err(io)?;
        Parts::new(file, PART_WORDS, progress).map_err(|error| match error {
            ReadError::Broken(error) => io(error),
            other => other,
        })
    }
}

impl<'b> Parts<Cursor<&'b [u8]>> {
    /// The same of a capture in `bytes`, in parts of at most about `words` words.
    pub fn parse(bytes: &'b [u8], words: usize) -> Result<(Self, Capture), ReadError> {
        Parts::new(Cursor::new(bytes), words, &mut |_, _| ())
    }
}

impl<R: Read + Seek> Parts<R> {
    fn new(
        mut source: R,
        most_words: usize,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(Parts<R>, Capture), ReadError> {
        let chunks = chunks::split(&mut source)?;
        let mut capture = Capture::with_tables(&chunks)?;
        let own_stacks = capture.stacks.len();
        let bytes: usize = chunks.blocks.iter().map(Found::length).sum();
        let divided = match bytes / 8 > most_words {
            true => Some(Divided::new(&mut source, &chunks, &mut capture, most_words, progress)?),
            false => None,
        };
        let wanted = Wanted::All;
        Ok((Parts { source, divided, chunks, next: 0, wanted, own_stacks }, capture))
    }

    /// How many parts there are.
    pub fn count(&self) -> usize {
        self.divided.as_ref().map_or(1, |divided| divided.borders.len() + 1)
    }

    /// Ids of stacks up to this one are those of the file's table. Past it are native stacks, in
    /// the order in which they are read: another way of reading gives them other ids.
    pub fn own_stacks(&self) -> u32 {
        self.own_stacks.try_into().unwrap_or(u32::MAX)
    }

    /// Reads the next part in the place of the one before; false: there is no further one.
    pub fn next(&mut self, capture: &mut Capture) -> Result<bool, ReadError> {
        if self.next == self.count() {
            return Ok(false);
        }
        self.next += 1;
        match &mut self.divided {
            Some(divided) => {
                divided.read(&mut self.source, capture, self.next - 1, self.wanted)?;
            }
            None => {
                let chunks = std::mem::take(&mut self.chunks);
                *capture = Capture::read_chunks(
                    &mut self.source,
                    chunks,
                    Wanted::All,
                    None,
                    &mut |_, _| (),
                )?;
            }
        }
        Ok(true)
    }

    /// Reads everything that lies in a time, also if it began earlier or ends later, in the place
    /// of the part before; of a capture of one part, all of it. After it `again` begins anew.
    pub fn between(
        &mut self,
        capture: &mut Capture,
        from_ns: u64,
        to_ns: u64,
    ) -> Result<(), ReadError> {
        self.again()?;
        let Some(divided) = &mut self.divided else { return self.next(capture).map(drop) };
        Carried::take(capture, 0, false);
        let part = Part { from_ns, to_ns, number: 0 };
        divided.load(&mut self.source, capture, part, Wanted::All, true)
    }

    /// Begins anew with the first part, with attributes.
    pub fn again(&mut self) -> Result<(), ReadError> {
        self.again_for(Wanted::All)
    }

    /// Begins anew with the first part. Of a capture of one part, all rows are read.
    pub fn again_for(&mut self, wanted: Wanted) -> Result<(), ReadError> {
        self.next = 0;
        self.wanted = wanted;
        if self.divided.is_none() {
            self.chunks = chunks::split(&mut self.source)?;
        }
        Ok(())
    }
}

impl Divided {
    fn new(
        source: &mut (impl Read + Seek),
        chunks: &Chunks,
        capture: &mut Capture,
        most_words: usize,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Divided, ReadError> {
        let mut survey = Survey::new();
        let (mut payload, mut words) = (Vec::new(), Vec::new());
        let all = chunks.blocks.len() as u64;
        for (done, found) in (0..).zip(&chunks.blocks) {
            progress(done, all);
            if !chunks::load(source, *found, &mut payload)? {
                chunks::skipped(*found, &mut capture.damage);
                continue;
            }
            let mut at = 0;
            while let Some(head) = payload.get(at..at + 8) {
                let count = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
                let bytes = count.min(BLOCK_WORDS) * 8;
                let Some(block) = payload.get(at + 8..at + 8 + bytes) else {
                    survey.bad_blocks += 1;
                    break;
                };
                to_words(block, &mut words);
                survey.block(capture, found.payload() + at as u64 + 8, &words);
                at += 8 + bytes;
            }
        }
        survey.add_lost_originals(capture);
        capture.report_bad_blocks(survey.bad_blocks);
        survey.requests.drop_whole(capture);
        let open = survey.requests.rest().filter(|row| row.end_ns.is_none() && row.begin_ns != 0);
        capture.coverage = survey.runs.coverage(&capture.threads, capture.meta.to_ns);
        capture.switches_paused = switches_paused(capture);
        let nodes = capture.stacks.len();
        let named = named::tables(capture, &chunks.symbols, nodes);
        Ok(Divided {
            blocks: survey.blocks,
            borders: borders(survey.times, most_words),
            ends: survey.ends,
            long: survey.long,
            open: open.map(|row| (row.id, row)).collect(),
            open_spans: open_spans(capture, &chunks.open),
            named,
            nodes: Nodes::default(),
        })
    }

    /// From when to when observations are wanted of a part: also until the end of each request that
    /// began in it.
    fn margins(&self, part: Part) -> (u64, u64) {
        let begun = part.from_ns / MARGIN_NS..=part.to_ns / MARGIN_NS;
        let until = self.long.range(begun).map(|(_, end_ns)| *end_ns).max().unwrap_or(0);
        let far_ns = part.to_ns.max(until).saturating_add(MARGIN_NS);
        (part.from_ns.saturating_sub(MARGIN_NS), far_ns)
    }

    /// Reads part `at` in the place of the one before it.
    fn read(
        &mut self,
        source: &mut (impl Read + Seek),
        capture: &mut Capture,
        at: usize,
        wanted: Wanted,
    ) -> Result<(), ReadError> {
        let from_ns = at.checked_sub(1).map_or(0, |before| self.borders[before]);
        let to_ns = self.borders.get(at).copied().unwrap_or(u64::MAX);
        let part = Part { from_ns, to_ns, number: at as u64 };
        let carried = Carried::take(capture, from_ns, at > 0);
        self.load(source, capture, part, wanted, false)?;
        carried.give_back(capture);
        Ok(())
    }

    /// Reads the rows that begin in a time; `around`: also those that reach into it.
    fn load(
        &mut self,
        source: &mut (impl Read + Seek),
        capture: &mut Capture,
        part: Part,
        wanted: Wanted,
        around: bool,
    ) -> Result<(), ReadError> {
        capture.part = Some(part);
        let mut reader = BlockReader::new(capture, wanted, None);
        let (mut bytes, mut words) = (Vec::new(), Vec::new());
        let near = self.margins(part);
        let own = |begin_ns: u64, end_ns: u64| match around {
            true => begin_ns < part.to_ns && end_ns >= part.from_ns,
            false => part.owns(begin_ns),
        };
        for block in self.blocks.iter().filter(|b| b.from_ns < near.1 && b.to_ns >= near.0) {
            source.seek(SeekFrom::Start(block.at))?;
            bytes.resize(block.words as usize * 8, 0);
            source.read_exact(&mut bytes)?;
            to_words(&bytes, &mut words);
            reader.block_of_part(capture, &words, &|record| wants(record, near, &own));
        }
        reader.add_ends(capture, &self.ends, near);
        let open = self.open_spans.iter().filter(|s| own(s.begin_ns, s.end_ns)).cloned();
        let paused = std::mem::take(&mut capture.switches_paused);
        reader.finish_part(capture, &mut self.nodes, paused, open);
        // A request without an end in this time has one that is lost, or none: then it is known.
        capture.requests.retain(|row| row.end_ns.is_some_and(|end_ns| own(row.begin_ns, end_ns)));
        let open = self.open.values().filter(|row| own(row.begin_ns, u64::MAX));
        capture.requests.extend(open.cloned());
        capture.requests.sort_by_key(|r| (r.begin_ns, r.id));
        if let Some(named) = &self.named {
            named::place(capture, named);
            capture.settle_awaits();
        }
        capture.tame();
        Ok(())
    }
}

/// Where each part but the first begins.
fn borders(mut times: Vec<u64>, most_words: usize) -> Vec<u64> {
    times.sort_unstable();
    let mut borders: Vec<u64> =
        times.into_iter().step_by((most_words / STEP_WORDS).max(1)).collect();
    borders.dedup();
    // What is before the first step belongs to the first part.
    borders.drain(..1.min(borders.len()));
    borders
}

/// Whether a record is wanted: an observation between these times, or what `own` says of its begin
/// and end.
fn wants(
    record: &Record<'_>,
    (near_ns, far_ns): (u64, u64),
    own: &impl Fn(u64, u64) -> bool,
) -> bool {
    if let Some((from_ns, to_ns, _)) = extent(record) {
        return from_ns < far_ns && to_ns >= near_ns;
    }
    match record {
        // Of a request that is open at the end, which is known (`Divided::open`).
        Record::RequestBegin { flags, .. } if flags & flag::AGAIN != 0 => false,
        Record::Again { record, .. } => decode(record).is_some_and(|(_, inner)| {
            let is_one = !matches!(inner, Record::Again { .. });
            is_one && wants(&inner, (near_ns, far_ns), own)
        }),
        _ => times(record).is_some_and(|(from_ns, to_ns)| own(from_ns, to_ns)),
    }
}

/// Rows that are still under way when a part begins.
#[derive(Default)]
struct Carried(Capture);

impl Carried {
    /// Takes them from the rows of the part before, and drops all others.
    fn take(capture: &mut Capture, from_ns: u64, any: bool) -> Carried {
        let rest = capture.without_rows();
        let mut old = std::mem::replace(capture, rest);
        if !any {
            return Carried::default();
        }
        let goes_on = |end_ns: u64| end_ns >= from_ns;
        old.requests.retain(|row| row.end_ns.is_none_or(goes_on));
        old.spans.retain(|row| goes_on(row.end_ns));
        old.own_spans.retain(|row| goes_on(row.end_ns));
        old.gcs.retain(|row| goes_on(row.end_ns));
        old.tasks.retain(|row| goes_on(row.end_ns));
        let requests: HashSet<u64> = old.requests.iter().map(|row| row.id).collect();
        let spans: HashSet<(u32, u64)> = old.spans.iter().map(|s| (s.tid, s.begin_ns)).collect();
        old.traces.retain(|row| match row.record.of_span {
            true => spans.contains(&(row.tid, row.record.t_ns)),
            false => requests.contains(&row.record.request),
        });
        Carried(old)
    }

    /// Puts them before the rows of the part, which begin later.
    fn give_back(self, capture: &mut Capture) {
        fn before<T>(rows: &mut Vec<T>, mut carried: Vec<T>) {
            if !carried.is_empty() {
                carried.append(rows);
                *rows = carried;
            }
        }
        let old = self.0;
        before(&mut capture.requests, old.requests);
        before(&mut capture.spans, old.spans);
        before(&mut capture.own_spans, old.own_spans);
        before(&mut capture.gcs, old.gcs);
        before(&mut capture.tasks, old.tasks);
        before(&mut capture.traces, old.traces);
        capture.requests.sort_by_key(|r| (r.begin_ns, r.id));
        capture.spans.sort_by_key(|s| s.begin_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_part_the_times_evenly() {
        let times: Vec<u64> = (0..100).rev().collect();
        assert_eq!(borders(times, STEP_WORDS * 25), [25, 50, 75]);
        assert_eq!(borders(vec![7; 100], STEP_WORDS * 25), [] as [u64; 0]);
        assert_eq!(borders(Vec::new(), 1), [] as [u64; 0]);
    }
}
