//! Tracks in plain types: slices, marks, and their values.

use std::borrow::Cow;
use std::io;

use capture::read::{Capture, Text};

/// A value of a slice.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// Whole number.
    Int(i64),
    /// Id or time.
    Count(u64),
    /// Fractional number.
    Float(f64),
    /// True or false.
    Bool(bool),
    /// Text.
    Text(String),
}

impl From<&Text> for Arg {
    fn from(value: &Text) -> Arg {
        match value {
            Text::Int(v) => Arg::Int(*v),
            Text::Float(v) => Arg::Float(*v),
            Text::Bool(v) => Arg::Bool(*v),
            Text::Text(v) => Arg::Text(v.clone()),
        }
    }
}

/// Names and values.
pub type Args<'c> = Vec<(Cow<'c, str>, Arg)>;

/// An interval with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice<'c> {
    /// Begin.
    pub begin_ns: u64,
    /// End, not before the begin.
    pub end_ns: u64,
    /// Its label.
    pub name: Cow<'c, str>,
    /// Its kind: request, queued, handler, task, span, gc, state, state.estimated, await.
    pub category: &'static str,
    /// Further values.
    pub args: Args<'c>,
    /// Its group: slices of one group nest in one track. For requests, the request's id.
    pub group: u64,
    /// The mark at which it was handed over.
    pub flow: Option<u64>,
}

/// An instant with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark<'c> {
    /// When.
    pub t_ns: u64,
    /// Its thread.
    pub tid: u32,
    /// Its label.
    pub name: Cow<'c, str>,
    /// Its kind: event, handed.
    pub category: &'static str,
    /// Further values.
    pub args: Args<'c>,
    /// The slice that continues the work elsewhere.
    pub flow: Option<u64>,
}

/// The position of a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Beside the threads.
    Requests,
    /// Below the requests.
    Awaits,
    /// The thread itself.
    Thread(u32),
    /// Below that thread: slices that did not nest.
    Overflow(u32),
    /// Below that thread: its states.
    States(u32),
}

/// Slices that nest, by begin, outer ones first; and marks by time.
#[derive(Clone, Debug, PartialEq)]
pub struct Track<'c> {
    /// Its position.
    pub subject: Subject,
    /// Its label.
    pub name: String,
    /// Distinguishes tracks at one position.
    pub lane: usize,
    /// Slices.
    pub slices: Vec<Slice<'c>>,
    /// Marks.
    pub marks: Vec<Mark<'c>>,
}

/// Called with each track.
pub type Visit<'v, 'c> = dyn FnMut(Track<'c>) -> io::Result<()> + 'v;

pub(super) fn attributes<'c>(capture: &'c Capture, list: &[(u32, Text)]) -> Args<'c> {
    list.iter().map(|(key, value)| (Cow::Borrowed(capture.name(*key)), value.into())).collect()
}

pub(super) fn arg<'c>(args: &mut Args<'c>, name: &'static str, value: Arg) {
    args.push((Cow::Borrowed(name), value));
}
