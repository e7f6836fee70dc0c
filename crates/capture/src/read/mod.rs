//! Reading a capture: bytes -> chunks -> tables.
//!
//! How it works: the whole file is read into memory (a capture is bounded by the region it came
//! from), cut into chunks, each checked; blocks are decoded record by record into rows. Damage
//! never stops the reading: what is whole is read, what is not is described in `Capture::damage`.
//!
//! What it promises: no bytes make it panic; rows are sorted by time within their thread.

mod chunks;
mod meta;
mod rows;
mod tables;

pub use meta::Meta;
pub use rows::{
    Coverage, EventRow, GcRow, MetricRow, OffCpu, RequestRow, SpanRow, TaskRow, Text, ThreadRow,
    VitalRow,
};
pub use tables::{Code, StackNode};

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use format::record::{Await, Sample};

/// Names in a names area given as words; for readers of dead regions.
pub(crate) fn names_of(words: &[u64]) -> Vec<String> {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    tables::names(&bytes)
}

/// Why a file cannot be read at all.
#[derive(Debug)]
pub enum ReadError {
    /// The file could not be opened or read.
    Io(std::path::PathBuf, std::io::Error),
    /// It is no capture: what was found at its start.
    NotACapture(String),
    /// It is a capture of another version of the format: its number.
    OtherVersion(u64),
    /// It is a capture without the parts nothing can be said without.
    NothingLeft(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(path, error) => write!(f, "{}: {error}", path.display()),
            ReadError::NotACapture(found) => write!(
                f,
                "not a dashcam capture: begins with {found}, wanted \"DASHCAM 2\"; \
                 captures end in .dashcam, black boxes of killed processes need `dashcam recover`"
            ),
            ReadError::OtherVersion(version) => write!(
                f,
                "a dashcam capture of format {version}, this dashcam reads format 2; \
                 read it with the dashcam that made it"
            ),
            ReadError::NothingLeft(what) => write!(f, "capture is damaged beyond reading: {what}"),
        }
    }
}

impl std::error::Error for ReadError {}

/// A capture in memory.
#[derive(Debug, Default)]
pub struct Capture {
    /// Who, when, why, settings, sources, losses.
    pub meta: Meta,
    /// Interned names by id.
    pub names: Vec<String>,
    /// Code locations; ids count from 1.
    pub codes: Vec<Code>,
    /// Stack nodes; ids count from 1.
    pub stacks: Vec<StackNode>,
    /// Threads that recorded.
    pub threads: Vec<ThreadRow>,
    /// Requests, by begin; open ones have no end.
    pub requests: Vec<RequestRow>,
    /// Spans, by begin.
    pub spans: Vec<SpanRow>,
    /// Spans of the recorder itself, by begin: time inside `fork`, captures being written; see
    /// `format::own_span`.
    pub own_spans: Vec<SpanRow>,
    /// Events, by time.
    pub events: Vec<EventRow>,
    /// Samples by thread id, by time.
    pub samples: HashMap<u32, Vec<Sample>>,
    /// What tasks of event loops awaited, by request id, by time; 0: tasks in a request's way.
    pub awaits: HashMap<u64, Vec<Await>>,
    /// Off-CPU intervals by thread id, by time.
    pub off_cpu: HashMap<u32, Vec<OffCpu>>,
    /// Garbage collections, by begin.
    pub gcs: Vec<GcRow>,
    /// Pieces of requests run on other threads, by begin.
    pub tasks: Vec<TaskRow>,
    /// Counters of the host and the process, by time.
    pub vitals: Vec<VitalRow>,
    /// What windows told of metrics, by time.
    pub metrics: Vec<MetricRow>,
    /// What is there of each thread, and what is missing.
    pub coverage: Vec<Coverage>,
    /// Blocks that were overwritten while they were copied: their records are missing.
    pub torn_blocks: u64,
    /// What is wrong with the file; empty for a whole one.
    pub damage: Vec<String>,
}

impl Capture {
    /// Reads the file at `path`.
    pub fn open(path: &Path) -> Result<Capture, ReadError> {
        let bytes = std::fs::read(path).map_err(|e| ReadError::Io(path.to_owned(), e))?;
        Capture::parse(&bytes)
    }

    /// Reads a capture from bytes.
    pub fn parse(bytes: &[u8]) -> Result<Capture, ReadError> {
        let chunks = chunks::split(bytes)?;
        let mut capture = Capture {
            damage: chunks.damage,
            torn_blocks: chunks.overwritten,
            ..Capture::default()
        };
        capture.meta = match chunks.meta {
            Some(text) => Meta::parse(text, &mut capture.damage),
            None => return Err(ReadError::NothingLeft("no META chunk".to_owned())),
        };
        capture.names = tables::names(chunks.names);
        capture.codes = tables::codes(chunks.codes);
        capture.stacks = tables::stacks(chunks.stacks);
        capture.threads = tables::threads(chunks.threads, &capture.names);
        rows::read_blocks(&mut capture, &chunks.blocks);
        Ok(capture)
    }

    /// A name by id; "?" when the table does not reach that far.
    pub fn name(&self, id: u32) -> &str {
        self.names.get(id as usize).map_or("?", String::as_str)
    }

    /// The id of a name, if anything recorded has it. Cost: one look at each name.
    pub fn name_id(&self, name: &str) -> Option<u32> {
        self.names.iter().position(|n| n == name).map(|id| id as u32)
    }

    /// The frames of a stack, innermost first, at most 4096.
    pub fn frames(&self, stack: u32) -> impl Iterator<Item = Frame<'_>> {
        let mut next = stack;
        let step = move || {
            let node = self.stacks.get((next as usize).checked_sub(1)?)?;
            let code = self.codes.get((node.code as usize).checked_sub(1)?);
            // A parent is always older than its child; anything else is damage and ends the walk.
            next = if node.parent < next { node.parent } else { 0 };
            Some(Frame {
                function: code.map_or("?", |c| self.name(c.function)),
                file: code.map_or("?", |c| self.name(c.file)),
                line: node.line,
                code: node.code,
                releases: code.is_some_and(|c| c.releases),
            })
        };
        std::iter::from_fn(step).take(4096)
    }

    /// The time from which every thread's records are complete: the latest of the threads' oldest
    /// records, over threads that lost older ones.
    pub fn common_horizon_ns(&self) -> u64 {
        let cut = self.coverage.iter().filter(|c| c.missing_before > 0);
        cut.map(|c| c.from_ns).max().unwrap_or(self.meta.start_ns)
    }

    /// A thread's name, by kernel id: of the last thread that had it, and rather the one the
    /// program gave than the kernel's.
    pub fn thread_name(&self, tid: u32) -> Option<&str> {
        let its = || self.threads.iter().filter(|t| t.tid == tid).rev();
        let alive = |t: &&ThreadRow| t.named && t.end_ns.is_none();
        its().find(alive).or_else(|| its().next()).map(|t| t.name.as_str())
    }
}

/// A resolved stack frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Qualified name of the function.
    pub function: &'a str,
    /// Its file, as the interpreter knows it.
    pub file: &'a str,
    /// The line being executed.
    pub line: u32,
    /// Id of the code object's entry.
    pub code: u32,
    /// Its code names `release`.
    pub releases: bool,
}
