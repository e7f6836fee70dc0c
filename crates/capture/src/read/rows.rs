//! The rows of a capture: one type for each kind of record.

use std::collections::HashMap;

use format::metric::Numbers;
use format::record::{Attributes, Value};
use format::trace::{Link, Trace};

use super::quick::QuickSet;

/// An attribute's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Text {
    /// Whole number.
    Int(i64),
    /// Fractional number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text, at most 64 bytes.
    Text(String),
}

/// A thread that recorded something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRow {
    /// Kernel thread id.
    pub tid: u32,
    /// Distinguishes threads with the same id.
    pub serial: u32,
    /// Its name.
    pub name: String,
    /// The name was given by the program; else it is the kernel's.
    pub named: bool,
    /// Not a thread, but the records from inside a thread's records (signal handlers).
    pub nested: bool,
    /// Its first record.
    pub start_ns: u64,
    /// Its end, None while it lives.
    pub end_ns: Option<u64>,
    /// Records it wrote or had to give up until the capture was made.
    pub records: u64,
    /// Of these, dropped.
    pub dropped: u64,
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRow {
    /// Unique in the process.
    pub id: u64,
    /// Name id.
    pub name: u32,
    /// Thread it began on.
    pub tid: u32,
    /// Begin: its arrival, as far as that is known.
    pub begin_ns: u64,
    /// Its handler began; later than `begin_ns` when the request had to wait for it.
    pub started_ns: u64,
    /// End; None: it was still running when the capture was made.
    pub end_ns: Option<u64>,
    /// Thread that ended it; 0: it was still running, or its end was not read.
    pub ended_tid: u32,
    /// It ended by an exception or an error status.
    pub error: bool,
    /// It ran on an event loop.
    pub on_loop: bool,
    /// How many requests of its name it stands for: 1, except for `Wanted::Causes` with very many
    /// requests.
    pub times: u32,
    /// Attributes: key, value.
    pub attributes: Vec<(u32, Text)>,
}

/// A span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanRow {
    /// Name id.
    pub name: u32,
    /// Thread.
    pub tid: u32,
    /// Begin.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Request it belongs to, 0 none.
    pub request: u64,
    /// It ended by an exception.
    pub error: bool,
    /// It was still open when the capture was made; `end_ns` is the capture's end.
    pub open: bool,
    /// A call to another service (docs/integrations.md). Not known of a span that is open.
    pub call: bool,
    /// Attributes: key, value.
    pub attributes: Vec<(u32, Text)>,
}

/// A span of a call to another service (docs/integrations.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRow {
    /// Name id.
    pub name: u32,
    /// Begin.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Request it belongs to, 0 none.
    pub request: u64,
}

/// What a statement does to a database's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// It begins one.
    Begins,
    /// It changes something: in one, which it may have begun.
    Changes,
    /// It ends it.
    Ends,
}

impl StatementKind {
    /// By the name of a call; None: it does nothing to one, or is no statement. `DELETE host` is a
    /// request of HTTP.
    pub fn of(name: &str) -> Option<StatementKind> {
        let mut words = name.split([' ', ';']).map(str::to_ascii_lowercase);
        let (first, second) = (words.next()?, words.next().unwrap_or_default());
        Some(match (first.as_str(), second.as_str()) {
            ("begin", _) | ("start", "transaction") => StatementKind::Begins,
            ("insert" | "replace", "into" | "or") | ("delete", "from") => StatementKind::Changes,
            ("update", _) | ("create" | "drop" | "alter", "table" | "index") => {
                StatementKind::Changes
            }
            ("commit" | "end", _) => StatementKind::Ends,
            ("rollback", second) if second != "to" => StatementKind::Ends,
            _ => return None,
        })
    }
}

/// A statement that begins, changes or ends a transaction, and did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementRow {
    /// Thread that sent it.
    pub tid: u32,
    /// Begin.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
    /// What it does.
    pub kind: StatementKind,
}

/// An instant event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    /// Name id.
    pub name: u32,
    /// Thread.
    pub tid: u32,
    /// When.
    pub t_ns: u64,
    /// Request it belongs to, 0 none.
    pub request: u64,
    /// Attributes: key, value.
    pub attributes: Vec<(u32, Text)>,
}

/// An interval in which a thread was not on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffCpu {
    /// Left the CPU.
    pub out_ns: u64,
    /// Came back; the capture's end when it had not.
    pub in_ns: u64,
    /// It was preempted: runnable all the time.
    pub preempted: bool,
    /// The CPU it came back to and ran on until it left the next time, if it is known.
    pub cpu: Option<u16>,
}

/// A garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcRow {
    /// Thread that collected.
    pub tid: u32,
    /// Generation, 0-2.
    pub generation: u16,
    /// Begin.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Objects collected.
    pub collected: u64,
}

/// A task: work for a request on another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// Thread that ran it.
    pub tid: u32,
    /// Handed over.
    pub queued_ns: u64,
    /// Begun.
    pub begin_ns: u64,
    /// Done; the capture's end while it runs.
    pub end_ns: u64,
    /// The request.
    pub request: u64,
}

/// A counter's value at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VitalRow {
    /// Name id; the unit ends the name.
    pub name: u32,
    /// When.
    pub t_ns: u64,
    /// Value.
    pub value: f64,
}

/// One metric in one window.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricRow {
    /// Name id.
    pub name: u32,
    /// Index into `format::metric::KINDS`.
    pub kind: u8,
    /// Tags: key, value.
    pub tags: Vec<(u32, Text)>,
    /// Begin of the window.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// What came in.
    pub numbers: Numbers,
}

/// How much of one thread's records is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// Thread.
    pub tid: u32,
    /// Its serial.
    pub serial: u32,
    /// Time of its oldest block here.
    pub from_ns: u64,
    /// Records read.
    pub read: u64,
    /// Records before the first one here: overwritten, or older than the capture's window.
    pub missing_before: u64,
    /// Records missing between the first and the last one here: dropped or overwritten in the copy.
    pub missing_between: u64,
    /// Records it wrote after its last one here was copied, or whose block was overwritten.
    pub missing_after: u64,
    /// Records dropped: part of the missing ones.
    pub dropped: u64,
}

/// The ids of a request or span, as recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceRow {
    /// Thread that recorded them: of a span, the thread it ran on.
    pub tid: u32,
    /// Place among the thread's records.
    pub seq: u64,
    /// The record; a field that is 0 was not set.
    pub record: Trace,
    /// Attributes: key, value.
    pub attributes: Vec<(u32, Text)>,
}

/// A link to another span, of another trace perhaps.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkRow {
    /// Thread that recorded it.
    pub tid: u32,
    /// The record.
    pub link: Link,
    /// Attributes: key, value.
    pub attributes: Vec<(u32, Text)>,
}

/// A time that a reader wants, for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The request's id.
    pub request: u64,
    /// Begin.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
}

/// Which part was read of the observations of a capture that has very many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excerpt {
    /// The requests whose wanted time was read in whole.
    pub requests: QuickSet<u64>,
    /// Times (from, to) that were not read, disjoint, in order; nothing is known of any thread.
    pub unread: Vec<(u64, u64)>,
    /// Observations in the file.
    pub all: u64,
    /// Of these, read.
    pub read: u64,
    /// Samples in the file, by thread.
    pub samples: HashMap<u32, u64>,
}

/// The attributes of a record.
pub(super) fn list(attributes: Attributes<'_>) -> Vec<(u32, Text)> {
    let mut out = Vec::new();
    attributes.each(|key, value| {
        let value = match value {
            Value::Int(v) => Text::Int(v),
            Value::Float(v) => Text::Float(v),
            Value::Bool(v) => Text::Bool(v),
            Value::Text(v) => Text::Text(v.to_owned()),
        };
        out.push((key, value));
    });
    out
}
