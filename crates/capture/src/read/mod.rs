//! Reading a capture: bytes -> chunks -> tables.
//!
//! How it works: the file is split into chunks, and each is checked. The tables come first, then
//! the blocks, one chunk in memory at a time, decoded record by record into rows. A reader that
//! does not need spans, events and metrics leaves them out (`Wanted`): they are most of a large
//! capture.
//!
//! What it promises: no bytes make it panic; rows are sorted by time within their thread; damage
//! never stops the reading, it is described in `Capture::damage`.

mod blocks;
mod capture;
mod chunks;
mod completion;
mod coverage;
mod error;
mod meta;
mod missing_switches;
mod named;
mod native;
mod native_awaits;
mod observed;
mod parts;
mod quick;
mod requests;
mod rows;
mod survey;
mod tables;
mod tame;
mod thin;
mod trace;

pub use capture::{Capture, Frame, Part, Wanted, MODULE_BODY};
pub use error::ReadError;
pub use meta::{Meta, SavedFor};
pub use observed::Choose;
pub use parts::Parts;
pub use quick::{QuickMap, QuickSet};
pub use rows::{
    CallRow, Coverage, EventRow, Excerpt, GcRow, LinkRow, MetricRow, OffCpu, RequestRow, SpanRow,
    StatementKind, StatementRow, TaskRow, Text, ThreadRow, TraceRow, VitalRow, Wish,
};
pub use tables::{Code, StackNode};
pub use trace::{SpanIds, Traces};

use std::io::{Cursor, Read, Seek};
use std::path::Path;

use chunks::Chunks;

/// Names in a names area given as words; for readers of dead processes' regions.
pub(crate) fn names_of(words: &[u64]) -> Vec<String> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    tables::names(&bytes)
}

impl Capture {
    /// Reads the file at `path`.
    pub fn open(path: &Path) -> Result<Capture, ReadError> {
        Capture::open_for(path, Wanted::All, &mut |_, _| ())
    }

    /// Reads what is wanted from the file at `path`; `tell` is called with the number of chunks
    /// read and of all.
    pub fn open_for(
        path: &Path,
        wanted: Wanted,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Capture, ReadError> {
        Capture::open_with(path, wanted, None, progress)
    }

    /// Reads what a diagnosis needs (`Wanted::Causes`) from the file at `path`, in bounded memory:
    /// of a capture with very many observations only those that `choose` wants (`excerpt`).
    pub fn open_judged(
        path: &Path,
        choose: &Choose<'_>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Capture, ReadError> {
        Capture::open_with(path, Wanted::Causes, Some((choose, observed::MOST_BYTES)), progress)
    }

    fn open_with(
        path: &Path,
        wanted: Wanted,
        choose: Option<(&Choose<'_>, usize)>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Capture, ReadError> {
        let io = |error| ReadError::Io(path.to_owned(), error);
        let mut file = std::fs::File::open(path).map_err(io)?;
        Capture::read(&mut file, wanted, choose, progress).map_err(|error| match error {
            ReadError::Broken(error) => io(error),
            other => other,
        })
    }

    /// Reads a capture from bytes.
    pub fn parse(bytes: &[u8]) -> Result<Capture, ReadError> {
        Capture::parse_for(bytes, Wanted::All)
    }

    /// Reads what is wanted from a capture in `bytes`.
    pub fn parse_for(bytes: &[u8], wanted: Wanted) -> Result<Capture, ReadError> {
        Capture::read(&mut Cursor::new(bytes), wanted, None, &mut |_, _| ())
    }

    /// Reads what a diagnosis needs from a capture in `bytes`, with at most `most` bytes of rows of
    /// observations.
    pub fn parse_judged(
        bytes: &[u8],
        choose: &Choose<'_>,
        most: usize,
    ) -> Result<Capture, ReadError> {
        let choose = Some((choose, most));
        Capture::read(&mut Cursor::new(bytes), Wanted::Causes, choose, &mut |_, _| ())
    }

    fn read(
        source: &mut (impl Read + Seek),
        wanted: Wanted,
        choose: Option<(&Choose<'_>, usize)>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Capture, ReadError> {
        let chunks = chunks::split(source)?;
        Capture::read_chunks(source, chunks, wanted, choose, progress)
    }

    /// The tables of a capture, without rows.
    fn with_tables(chunks: &Chunks) -> Result<Capture, ReadError> {
        let mut capture = Capture {
            damage: chunks.damage.clone(),
            torn_blocks: chunks.overwritten,
            ..Capture::default()
        };
        capture.meta = match &chunks.meta {
            Some(text) => Meta::parse(text, &mut capture.damage),
            None => return Err(ReadError::NothingLeft("no META chunk".to_owned())),
        };
        capture.names = tables::names(&chunks.names);
        capture.codes = tables::codes(&chunks.codes);
        capture.stacks = tables::stacks(&chunks.stacks);
        capture.threads = tables::threads(&chunks.threads, &capture.names);
        capture.source = crate::source::parse(&chunks.source);
        Ok(capture)
    }

    fn read_chunks(
        source: &mut (impl Read + Seek),
        chunks: Chunks,
        wanted: Wanted,
        choose: Option<(&Choose<'_>, usize)>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Capture, ReadError> {
        let mut capture = Capture::with_tables(&chunks)?;
        let most = choose.map(|(_, most)| most);
        let mut reader = blocks::BlockReader::new(&capture, wanted, most);
        let open = blocks::open_spans(&capture, &chunks.open);
        if wanted == Wanted::Causes {
            reader.expect(open.clone());
        }
        let mut payload = Vec::new();
        let all = chunks.blocks.len() as u64;
        for (done, found) in chunks.blocks.into_iter().enumerate() {
            progress(done as u64, all);
            match chunks::load(source, found, &mut payload)? {
                true => reader.chunk(&mut capture, found.payload(), &payload),
                false => chunks::skipped(found, &mut capture.damage),
            }
        }
        if wanted != Wanted::Causes {
            blocks::add_open_spans(&mut capture, open.into_iter());
        }
        let nodes = capture.stacks.len();
        reader.finish(
            &mut capture,
            source,
            choose.map_or(&|_| Vec::new(), |(choose, _)| choose),
        )?;
        if let Some(named) = named::tables(&mut capture, &chunks.symbols, nodes) {
            named::place(&mut capture, &named);
        }
        capture.settle_awaits();
        capture.tame();
        Ok(capture)
    }

    /// Cuts times that can only be damage (past 36 years of uptime). Reading does it; this is for
    /// captures made by hand.
    pub fn tame(&mut self) {
        tame::tame(self);
    }

    /// Says what native tasks await, as far as their stacks have names. Reading does it where the
    /// names are in the capture; this is for the code that names stacks afterwards.
    pub fn settle_awaits(&mut self) {
        native_awaits::settle(self);
    }
}
