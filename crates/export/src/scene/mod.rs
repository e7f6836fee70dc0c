//! The content of timelines: tracks of nested slices, marks and counters; shared by Chrome and
//! Perfetto.
//!
//! | track | slices | marks |
//! | --- | --- | --- |
//! | requests | requests from their arrival, time in the queue, a loop's spans | work handed over |
//! | awaits | what the task of a request awaited, from one sample to the next | |
//! | a thread | handlers of requests, tasks for other requests, spans, collections | events |
//! | its states | running, runnable, waiting and for what: `analysis::timeline` | |
//!
//! Slices of one track nest: slices that overlap without nesting (an event loop's spans, damage) go
//! to a further track of the same name. Only one thread's tracks are in memory at a time.

mod lanes;
mod slices;
mod waits;

use std::borrow::Cow;
use std::io;

use analysis::context;
use analysis::states::Threads;
use capture::read::{Capture, Text};

pub use lanes::nested;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
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
    pub stand: Stand,
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

/// Calls `visit` with every track: requests, awaits, and the threads in the order of their ids.
/// `progress` counts threads.
pub fn tracks<'c>(
    threads: &Threads<'c>,
    progress: &mut crate::Progress<'_>,
    visit: &mut Visit<'_, 'c>,
) -> io::Result<()> {
    let by_id = context::requests_by_id(threads.capture);
    slices::requests(threads, &by_id, visit)?;
    waits::awaits(threads, visit)?;
    let mut rows = slices::ThreadRows::new(threads, &by_id);
    let count = threads.ids().len() as u64;
    for (done, tid) in threads.ids().enumerate() {
        progress(done as u64, count);
        slices::thread(threads, tid, &mut rows, visit)?;
        let slices = waits::states(threads, tid);
        if !slices.is_empty() {
            let (stand, name) = (Stand::States(tid), format!("{} states", threads.name(tid)));
            visit(Track { stand, name, lane: 0, slices, marks: Vec::new() })?;
        }
    }
    Ok(())
}

/// A counter and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter<'c> {
    /// The vital's name, which ends with its unit.
    pub name: &'c str,
    /// Values by time.
    pub points: Vec<(u64, f64)>,
}

/// The vitals, in the order of their names' ids.
pub fn counters(capture: &Capture) -> Vec<Counter<'_>> {
    let mut by_name: std::collections::BTreeMap<u32, Vec<(u64, f64)>> = Default::default();
    for vital in &capture.vitals {
        // JSON has no number for them, and a line chart no place.
        if vital.value.is_finite() {
            by_name.entry(vital.name).or_default().push((vital.t_ns, vital.value));
        }
    }
    let counter = |(name, points)| Counter { name: capture.name(name), points };
    by_name.into_iter().map(counter).collect()
}

fn attributes<'c>(capture: &'c Capture, list: &[(u32, Text)]) -> Args<'c> {
    list.iter().map(|(key, value)| (Cow::Borrowed(capture.name(*key)), value.into())).collect()
}

fn arg<'c>(args: &mut Args<'c>, name: &'static str, value: Arg) {
    args.push((Cow::Borrowed(name), value));
}
