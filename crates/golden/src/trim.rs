//! Makes a recorded capture fit for the repository.
//!
//! First the names of its native code are put into it (chunk `SYMS`), and the raw stacks that they
//! replace are removed. While it is still too large, three more steps follow: remove the tables in
//! front of the blocks, which serve files that are cut off; remove records that a diagnosis does
//! not read (events, vitals); remove records from before the first slow request. A step is taken
//! only if the verdict keeps its findings: causes, places, culprits and confidence.

use capture::read::{Capture, RequestRow, Wanted};
use format::chunk;
use format::record::{decode, Record};

use crate::chunks::{filter_blocks, join, split, Chunk};
use crate::store::packed;
use crate::verdict;

/// A capture for the repository, and what was removed from it.
pub struct Trimmed {
    /// Its bytes, unpacked.
    pub bytes: Vec<u8>,
    /// A line for each step, for a person.
    pub steps: Vec<String>,
}

/// Trims the capture in `bytes`, on the machine where it was recorded, until it packs into
/// `bytes_max` or no step remains. Err: the reason why it cannot be stored.
pub fn trimmed(bytes: &[u8], bytes_max: u64) -> Result<Trimmed, String> {
    let said = |error: capture::read::ReadError| error.to_string();
    let mut capture = Capture::parse_for(bytes, Wanted::Causes).map_err(said)?;
    let (symbols, notes) = symbols::resolve(&mut capture);
    let wanted = verdict::of(&capture).findings;
    let mut chunks = split(bytes)?;
    let named = with_symbols(&mut chunks, &symbols);
    let mut steps: Vec<String> = notes.into_iter().chain(named).collect();
    let mut kept = join(&chunks);
    if verdict::judge(&kept).findings != wanted {
        return Err("the verdict is another with its native names inside".to_owned());
    }
    let fits = |kept: &[u8]| packed(kept).is_ok_and(|packed| packed.len() as u64 <= bytes_max);
    let too_large = if fits(&kept) { Vec::new() } else { candidates(&chunks, &capture) };
    for (what, less) in too_large {
        if fits(&kept) {
            break;
        }
        let less = join(&less);
        if verdict::judge(&less).findings == wanted {
            steps.push(format!("left out {what}: {} of {} bytes kept", less.len(), kept.len()));
            kept = less;
        }
    }
    Ok(Trimmed { bytes: kept, steps })
}

/// Puts the names in front of the end mark and removes the raw stacks that they replace.
fn with_symbols(chunks: &mut Vec<Chunk>, symbols: &format::symbols::Symbols) -> Option<String> {
    for chunk in chunks.iter_mut().filter(|chunk| chunk.tag == chunk::BLOCKS) {
        let mut keep = |words: &[u64]| !matches!(decode(words), Some((_, Record::NativeStack(_))));
        chunk.payload = filter_blocks(&chunk.payload, &mut keep);
    }
    if symbols.is_empty() {
        return None;
    }
    let end = chunks.iter().position(|chunk| chunk.tag == chunk::END).unwrap_or(chunks.len());
    chunks.insert(end, Chunk { tag: chunk::SYMBOLS, payload: symbols.encode() });
    let (stacks, names) = (symbols.samples.len() + symbols.wakings.len(), symbols.names.len());
    Some(format!("named {stacks} native stacks by {names} names"))
}

/// The tables behind the blocks are complete; those in front serve files that are cut off.
fn without_first_tables(chunks: &[Chunk]) -> Vec<Chunk> {
    let tables = [chunk::THREADS, chunk::NAMES, chunk::CODES, chunk::STACKS];
    let last = |at: usize| chunks[at + 1..].iter().all(|later| later.tag != chunks[at].tag);
    let keep = |at: usize| !tables.contains(&chunks[at].tag) || last(at);
    (0..chunks.len()).filter(|at| keep(*at)).map(|at| chunks[at].clone()).collect()
}

/// What may be removed, the least first; each step removes also what the steps before it remove.
fn candidates(chunks: &[Chunk], capture: &Capture) -> Vec<(String, Vec<Chunk>)> {
    let chunks = &without_first_tables(chunks)[..];
    let idle = |record: &Record<'_>| matches!(record, Record::Event { .. } | Record::Vital { .. });
    let mut out = vec![
        ("the tables in front".to_owned(), chunks.to_vec()),
        ("events and vitals".to_owned(), filtered(chunks, |record| !idle(record))),
    ];
    let end_ns = |r: &RequestRow| r.end_ns.unwrap_or(capture.meta.to_ns);
    let ns = |r: &RequestRow| end_ns(r).saturating_sub(r.begin_ns);
    let slow_ns = capture.requests.iter().map(ns).max().unwrap_or(0) / 2;
    let slow = capture.requests.iter().filter(|r| r.begin_ns > 0 && ns(r) >= slow_ns);
    let first_ns = slow.map(|r| r.begin_ns).min().unwrap_or(0);
    for margin_ms in [2000, 1000, 500, 200, 50] {
        let from_ns = first_ns.saturating_sub(margin_ms * 1_000_000);
        let late = |record: &Record<'_>| last_ns(record).is_none_or(|t_ns| t_ns >= from_ns);
        let less = filtered(chunks, |record| !idle(record) && late(record));
        out.push((format!("what ended {margin_ms} ms before the first slow request"), less));
    }
    out
}

fn filtered(chunks: &[Chunk], mut keep: impl FnMut(&Record<'_>) -> bool) -> Vec<Chunk> {
    let mut keep = |words: &[u64]| decode(words).is_none_or(|(_, record)| keep(&record));
    let mut filter = |chunk: &Chunk| match chunk.tag == chunk::BLOCKS {
        true => Chunk { tag: chunk.tag, payload: filter_blocks(&chunk.payload, &mut keep) },
        false => chunk.clone(),
    };
    chunks.iter().map(&mut filter).collect()
}

/// The last instant that a record covers; None: the record is always kept.
fn last_ns(record: &Record<'_>) -> Option<u64> {
    match record {
        Record::Sample(sample) => Some(sample.t_ns),
        Record::OffCpu { in_ns, .. } => Some(*in_ns),
        Record::Span { end_ns, .. } | Record::RequestEnd { end_ns, .. } => Some(*end_ns),
        Record::RequestBegin { started_ns, .. } => Some(*started_ns),
        Record::Wake(wake) => Some(wake.t_ns),
        Record::Await(seen) => Some(seen.t_ns),
        Record::Suspension(one) => Some(one.in_ns),
        _ => None,
    }
}
