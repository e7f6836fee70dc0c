//! Reading the black box that a killed process left behind, and making a capture of it; and what a
//! running one wrote last (`BlackBox::since`).
//!
//! How it works: the region file is what `ring` mapped: every record whose head word was stored is
//! in it. No process writes to a dead one any more, so a plain copy is consistent; a block with an
//! invalid head is left out. Of a running one each block is read with its generation before and
//! behind it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;

use format::block::{
    pack_pair, unpack_pair, Head, BLOCK_WORDS, CLOSED_NS, FIRST_NS, HEAD, HEADER_WORDS,
};
use format::json::Object;
use format::region::{
    losses, word, Layout, CODE_WORDS, MAGIC, MAX_BYTES, MIN_BYTES, OPEN_CHANGING, OPEN_HEAD_WORDS,
    OPEN_LINE_WORDS, OPEN_PLACE_WORDS, STACK_WORDS, THREAD_WORDS,
};
use format::schema::SCHEMA_JSON;

use crate::read::ReadError;
use crate::write::CaptureWriter;

/// A black box as it was in its file.
pub struct BlackBox {
    words: Vec<u64>,
    layout: Layout,
}

impl BlackBox {
    /// Checks that `bytes` are a region.
    pub fn parse(bytes: &[u8]) -> Result<BlackBox, ReadError> {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(8)]).into_owned();
        if bytes.len() < MIN_BYTES || bytes.len() > MAX_BYTES || bytes.len() % 8 != 0 {
            return Err(ReadError::NotABox(start));
        }
        let word = |b: &[u8]| b.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let words: Vec<u64> = bytes.chunks_exact(8).map(word).collect();
        if words[word::MAGIC] != MAGIC || words[word::BYTES] != bytes.len() as u64 {
            return Err(ReadError::NotABox(start));
        }
        Ok(BlackBox { layout: Layout::of(bytes.len()), words })
    }

    /// What a running process has written since `since_ns`, in at most `blocks_max` blocks, the
    /// newest: the other blocks are empty here. Costs the process nothing.
    ///
    /// A block may be taken for new content while it is read; then its generation has changed, and
    /// it is left out. Words that its head counts are not written again, and tables only grow, so
    /// they are read behind the blocks.
    pub fn since(file: &File, since_ns: u64, blocks_max: usize) -> Result<BlackBox, ReadError> {
        let mut first = [0; 2];
        read_words(file, 0, &mut first)?;
        let bytes = first[word::BYTES] as usize;
        if first[word::MAGIC] != MAGIC || !(MIN_BYTES..=MAX_BYTES).contains(&bytes) {
            return Err(ReadError::NotABox(format!("{:x}", first[word::MAGIC])));
        }
        let layout = Layout::of(bytes);
        // Pages that nothing is written to take no memory.
        let mut words = vec![0; bytes / 8];
        for at in newest_blocks(file, &layout, since_ns, blocks_max)? {
            let block = &mut words[at..at + BLOCK_WORDS];
            read_words(file, at, block)?;
            let mut again = [0];
            read_words(file, at + HEAD, &mut again)?;
            if Head::unpack(again[0]).generation != Head::unpack(block[HEAD]).generation {
                block.fill(0);
            }
        }
        read_words(file, 0, &mut words[..layout.open])?;
        Ok(BlackBox { words, layout })
    }

    /// Process that recorded here.
    pub fn pid(&self) -> u32 {
        self.words[word::PID] as u32
    }

    /// The last instant anything was recorded, Unix epoch ns.
    pub fn reaches_epoch_ns(&self) -> u64 {
        let since_start = self.newest_ns().saturating_sub(self.words[word::START_NS]);
        self.words[word::START_EPOCH_NS].wrapping_add(since_start)
    }

    /// Writes all of it as a capture; returns the number of blocks.
    pub fn write_capture<W: Write>(&self, out: W) -> io::Result<u64> {
        let mut writer = CaptureWriter::new(out, &self.meta())?;
        writer.tables(&self.tables())?;
        writer.open_spans(&self.open_spans())?;
        let mut count = 0;
        for block in self.words[self.layout.blocks..].chunks_exact(BLOCK_WORDS) {
            let used = Head::unpack(block[HEAD]).used();
            if used > HEADER_WORDS {
                writer.block(&block[..used])?;
                count += 1;
            }
        }
        writer.finish(0)?;
        Ok(count)
    }

    /// Spans that were open when the process died.
    fn open_spans(&self) -> Vec<u64> {
        let l = &self.layout;
        let lines =
            self.words[l.open..][..l.open_lines * OPEN_LINE_WORDS].chunks_exact(OPEN_LINE_WORDS);
        let mut out = Vec::new();
        for line in lines.filter(|line| ![0, OPEN_CHANGING].contains(&line[0])) {
            let (tid, _) = unpack_pair(line[0]);
            for place in line[OPEN_HEAD_WORDS..].chunks_exact(OPEN_PLACE_WORDS) {
                if place[0] != 0 {
                    out.extend([pack_pair(place[1] as u32, tid), place[0], place[2], 0]);
                }
            }
        }
        out
    }

    fn tables(&self) -> [Vec<u64>; 4] {
        let l = &self.layout;
        let area = |start: usize, len: usize| {
            self.words.get(start..start.saturating_add(len)).unwrap_or_default().to_vec()
        };
        let count = |index: usize, most: usize| (self.words[index] as usize).min(most);
        let threads = count(word::THREAD_SERIAL, l.thread_slots);
        [
            area(l.threads, threads * THREAD_WORDS),
            area(l.names, count(word::NAME_BYTES, l.name_bytes) / 8),
            area(l.codes, count(word::CODES, l.code_slots) * CODE_WORDS),
            area(l.stacks, count(word::STACKS, l.stack_slots) * STACK_WORDS),
        ]
    }

    /// The settings stored in the region, with the reason of this capture in front.
    fn meta(&self) -> String {
        let names = crate::read::names_of(&self.tables()[1]);
        let settings = names.get(self.words[word::SETTINGS] as usize);
        let stored = settings.filter(|text| text.starts_with('{')).map_or("{}", String::as_str);
        let counters = losses::NAMES.iter().enumerate().fold(Object::new(), |object, (i, name)| {
            object.int(name, self.words[word::LOSSES + i])
        });
        let books = Object::new()
            .int("records_of_past_threads", self.words[word::PAST_RECORDS])
            .int("dropped_by_past_threads", self.words[word::PAST_DROPPED])
            .int("overwritten", self.overwritten())
            .int("blocks_taken_back", self.words[word::TAKEN_BACK]);
        let own = Object::new()
            .text("reason", "recovered from the black box of a process that ended")
            .int("pid", u64::from(self.pid()))
            .int("start_ns", self.words[word::START_NS])
            .int("start_epoch_ns", self.words[word::START_EPOCH_NS])
            .text("ids_seed", &format!("{:016x}", self.words[word::IDS_SEED]))
            .int("from_ns", self.words[word::START_NS])
            .int("to_ns", self.newest_ns())
            .raw("losses", &counters.finish())
            .raw("books", &books.finish())
            // Open requests were not recorded again: a request without an end was running when the
            // process ended.
            .flag("open_told", false)
            .raw("schema", SCHEMA_JSON)
            .finish();
        join_objects(&own, stored)
    }

    fn overwritten(&self) -> u64 {
        let blocks = self.words[self.layout.blocks..].chunks_exact(BLOCK_WORDS);
        let headers = blocks.filter_map(|block| block[..HEADER_WORDS].try_into().ok());
        headers.fold(0, |sum, header| sum.wrapping_add(format::block::overwritten(header)))
    }

    /// Latest time in any block header; the capture reaches at least that far.
    fn newest_ns(&self) -> u64 {
        let blocks = self.words[self.layout.blocks..].chunks_exact(BLOCK_WORDS);
        let used = blocks.filter(|b| Head::unpack(b[HEAD]).used() > HEADER_WORDS);
        used.map(newest_in_block).max().unwrap_or(self.words[word::START_NS])
    }
}

fn read_words(file: &File, at: usize, words: &mut [u64]) -> Result<(), ReadError> {
    let mut bytes = vec![0; words.len() * 8];
    file.read_exact_at(&mut bytes, at as u64 * 8).map_err(ReadError::Broken)?;
    let read = bytes.chunks_exact(8).map(|b| b.try_into().map(u64::from_le_bytes));
    words.iter_mut().zip(read).for_each(|(word, read)| *word = read.unwrap_or_default());
    Ok(())
}

/// Where blocks begin whose content reaches beyond `since_ns`.
fn newest_blocks(
    file: &File,
    layout: &Layout,
    since_ns: u64,
    blocks_max: usize,
) -> Result<Vec<usize>, ReadError> {
    let mut found = Vec::new();
    for number in 0..layout.block_count {
        let at = layout.blocks + number * BLOCK_WORDS;
        let mut header = [0; HEADER_WORDS];
        read_words(file, at, &mut header)?;
        let is_open = header[CLOSED_NS] == 0;
        let is_used = Head::unpack(header[HEAD]).used() > HEADER_WORDS;
        if is_used && (is_open || header[CLOSED_NS] >= since_ns) {
            found.push((header[FIRST_NS], at));
        }
    }
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.truncate(blocks_max);
    Ok(found.into_iter().map(|(_, at)| at).collect())
}

fn newest_in_block(block: &[u64]) -> u64 {
    use format::record::{decode, Record, STILL_OUT};
    let used = Head::unpack(block[HEAD]).used();
    let (mut at, mut newest) = (HEADER_WORDS, block[format::block::FIRST_NS]);
    while let Some((len, record)) = decode(&block[at..used]).filter(|(len, _)| *len > 0) {
        let t_ns = match record {
            Record::Event { t_ns, .. } | Record::Vital { t_ns, .. } => t_ns,
            Record::RequestBegin { t_ns, .. } => t_ns,
            Record::Span { end_ns, .. } | Record::RequestEnd { end_ns, .. } => end_ns,
            Record::Task { begin_ns, end_ns: STILL_OUT, .. } => begin_ns,
            Record::Gc { end_ns, .. } | Record::Task { end_ns, .. } => end_ns,
            Record::Sample(sample) => sample.t_ns,
            Record::Wake(wake) => wake.t_ns,
            Record::Suspension(one) => one.in_ns,
            Record::OffCpu { in_ns, .. } if in_ns != STILL_OUT => in_ns,
            _ => 0,
        };
        newest = newest.max(t_ns);
        at += len;
        if at >= used {
            break;
        }
    }
    newest
}

/// The fields of `base` followed by those of `over`: JSON readers keep the last of two equal keys.
fn join_objects(over: &str, base: &str) -> String {
    let fields = |text: &str| -> String {
        let inner = text.trim().strip_prefix('{').and_then(|t| t.strip_suffix('}'));
        inner.unwrap_or_default().to_owned()
    };
    match fields(base).as_str() {
        "" => over.to_owned(),
        base => format!("{{{base},{}}}", fields(over)),
    }
}
