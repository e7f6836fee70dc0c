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
mod mend;
mod meta;
mod named;
mod native;
mod requests;
mod rows;
mod tables;
mod tame;
mod thin;
mod trace;

pub use capture::{Capture, Frame, Wanted};
pub use error::ReadError;
pub use meta::Meta;
pub use rows::{
    CallRow, Coverage, EventRow, GcRow, LinkRow, MetricRow, OffCpu, RequestRow, SpanRow, TaskRow,
    Text, ThreadRow, TraceRow, VitalRow,
};
pub use tables::{Code, StackNode};
pub use trace::{SpanIds, Traces};

use std::io::{Cursor, Read, Seek};
use std::path::Path;

use format::symbols::Symbols;

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
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<Capture, ReadError> {
        let io = |error| ReadError::Io(path.to_owned(), error);
        let mut file = std::fs::File::open(path).map_err(io)?;
        Capture::read(&mut file, wanted, tell).map_err(|error| match error {
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
        Capture::read(&mut Cursor::new(bytes), wanted, &mut |_, _| ())
    }

    fn read(
        source: &mut (impl Read + Seek),
        wanted: Wanted,
        tell: &mut dyn FnMut(u64, u64),
    ) -> Result<Capture, ReadError> {
        let chunks = chunks::split(source)?;
        let mut capture = Capture {
            damage: chunks.damage,
            torn_blocks: chunks.overwritten,
            ..Capture::default()
        };
        capture.meta = match chunks.meta {
            Some(text) => Meta::parse(&text, &mut capture.damage),
            None => return Err(ReadError::NothingLeft("no META chunk".to_owned())),
        };
        capture.names = tables::names(&chunks.names);
        capture.codes = tables::codes(&chunks.codes);
        capture.stacks = tables::stacks(&chunks.stacks);
        capture.threads = tables::threads(&chunks.threads, &capture.names);
        let mut reader = blocks::BlockReader::new(&capture, wanted);
        let mut payload = Vec::new();
        let all = chunks.blocks.len() as u64;
        for (done, found) in chunks.blocks.into_iter().enumerate() {
            tell(done as u64, all);
            match chunks::load(source, found, &mut payload)? {
                true => reader.chunk(&mut capture, &payload),
                false => capture.damage.push(chunks::wrong_sum(found)),
            }
        }
        if wanted == Wanted::All {
            blocks::add_open_spans(&mut capture, &chunks.open);
        }
        let nodes = capture.stacks.len();
        reader.finish(&mut capture);
        match Symbols::decode(&chunks.symbols, tables::names) {
            Some(symbols) => named::apply(&mut capture, &symbols, nodes),
            None if chunks.symbols.is_empty() => (),
            None => capture.damage.push("chunk \"SYMS\": cut off, left out".to_owned()),
        }
        capture.tame();
        Ok(capture)
    }

    /// Cuts times that can only be damage (past 36 years of uptime). Reading does it; this is for
    /// captures made by hand.
    pub fn tame(&mut self) {
        tame::tame(self);
    }
}
