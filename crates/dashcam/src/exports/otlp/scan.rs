//! What is new in the box since the last scan, each record once.
//!
//! How it works: blocks that were written to since the last scan are copied, as a capture does it,
//! and decoded. Each writer (thread id, serial) numbers its records, so what was met before is
//! passed over, and a gap is what was overwritten or dropped before we came: counted, never
//! guessed.
//!
//! What it costs: nothing to the writers; a pass over the blocks of the last seconds on our own
//! thread.

use std::collections::HashMap;

use format::block::{unpack_pair, FIRST_SEQ, HEADER_WORDS, OWNER};
use format::record::{decode, Record};
use format::region::{thread, THREAD_WORDS};
use ring::{BlockCopy, Region};

/// A block closed this long before the last scan may yet have got a record behind it: its writer
/// read the clock and was kept from its CPU.
const MARGIN_NS: u64 = 1_000_000_000;
/// Writers that are remembered before those that are gone are forgotten.
const WRITERS: usize = 4096;

/// Called with each record: its writer (thread id, serial), its place among the writer's records,
/// the record itself.
pub(super) type Each<'e> = dyn FnMut((u32, u32), u64, Record<'_>) + 'e;

/// Where we are with each writer.
#[derive(Default)]
pub(super) struct Scan {
    /// The next record's number, by writer.
    next: HashMap<(u32, u32), u64>,
    /// The last scan began then; 0: none was.
    visited_ns: u64,
    /// Records that were gone before we came.
    pub missed: u64,
    buffer: BlockCopy,
}

/// What one scan met of one writer.
#[derive(Clone, Copy)]
struct Met {
    expected: u64,
    first: u64,
    last: u64,
    count: u64,
}

impl Scan {
    /// Calls `each` with every new record. The first scan meets all that is there; what was gone by
    /// then is not counted.
    pub(super) fn visit(&mut self, region: &Region, now_ns: u64, each: &mut Each<'_>) {
        let since_ns = self.visited_ns.saturating_sub(MARGIN_NS);
        let is_first = self.visited_ns == 0;
        if is_first {
            // Before the blocks: what a thread wrote meanwhile is met, or follows on.
            self.next_of_table(region);
        }
        let mut met: HashMap<(u32, u32), Met> = HashMap::new();
        let next = &self.next;
        walk(region, since_ns, &mut self.buffer, &mut |writer, seq, record| {
            let known = next.get(&writer).copied();
            if known.is_some_and(|next| seq < next && !is_first) {
                return;
            }
            // Of a writer that was forgotten: its records are old, and were met.
            if known.is_none() && !is_first && instant(&record).is_some_and(|t| t < since_ns) {
                return;
            }
            // A writer that was not there at the first scan has begun since, with number 0.
            let expected = if is_first { seq } else { known.unwrap_or(0) };
            let fresh = Met { expected, first: seq, last: seq, count: 0 };
            let met = met.entry(writer).or_insert(fresh);
            (met.first, met.last) = (met.first.min(seq), met.last.max(seq));
            met.count += 1;
            each(writer, seq, record);
        });
        for (writer, met) in met {
            let from = met.expected.min(met.first);
            let all = met.last.wrapping_add(1).saturating_sub(from);
            self.missed += all.saturating_sub(met.count);
            self.next.insert(writer, met.last.wrapping_add(1));
        }
        self.visited_ns = now_ns;
        if self.next.len() > WRITERS {
            self.forget(region);
        }
    }

    /// What each thread of the table wrote so far: of some nothing may be left in the blocks.
    fn next_of_table(&mut self, region: &Region) {
        let (rows, _) = region.copy_threads();
        for row in rows.chunks_exact(THREAD_WORDS) {
            self.next.insert(unpack_pair(row[thread::IDENT]), row[thread::PROGRESS] / 2);
        }
    }

    /// Forgets writers that are in the thread table no more.
    fn forget(&mut self, region: &Region) {
        let (rows, _) = region.copy_threads();
        let live: std::collections::HashSet<(u32, u32)> =
            rows.chunks_exact(THREAD_WORDS).map(|row| unpack_pair(row[thread::IDENT])).collect();
        self.next.retain(|writer, _| live.contains(writer));
    }
}

/// The last instant that a record of ours is about.
fn instant(record: &Record<'_>) -> Option<u64> {
    match record {
        Record::RequestEnd { end_ns, .. } | Record::Span { end_ns, .. } => Some(*end_ns),
        // The other time is when it arrived, perhaps long before.
        Record::RequestBegin { started_ns, .. } => Some(*started_ns),
        Record::Event { t_ns, .. } => Some(*t_ns),
        Record::Trace(trace, _) => Some(trace.t_ns),
        _ => None,
    }
}

/// Calls `each` with every record (writer, number, record) of the blocks written to since
/// `since_ns`, without stopping any thread.
pub(super) fn walk(region: &Region, since_ns: u64, buffer: &mut BlockCopy, each: &mut Each<'_>) {
    let decoded = |block: &BlockCopy| {
        let words = block.words();
        let (mut owner, mut seq) = (unpack_pair(words[OWNER]), words[FIRST_SEQ]);
        let mut at = HEADER_WORDS;
        while let Some((len, record)) = words.get(at..).and_then(decode) {
            at += len;
            if let Record::Thread { tid, serial, seq: first } = record {
                (owner, seq) = ((tid, serial), first);
                continue;
            }
            each(owner, seq, record);
            seq = seq.wrapping_add(1);
        }
        Ok::<(), std::convert::Infallible>(())
    };
    // Blocks overwritten meanwhile show as gaps.
    let _ = region.copy_blocks(since_ns, buffer, decoded);
}
