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
mod track;
mod waits;

use std::collections::HashMap;
use std::io;

use analysis::context;
use analysis::states::Threads;
use capture::read::Capture;

pub use lanes::{nested, Lanes};
pub use track::{Arg, Args, Mark, Slice, Subject, Track, Visit};

/// What the tracks of one part of a capture need to know of those before.
#[derive(Default)]
pub struct Kept {
    requests: Lanes,
    awaits: Lanes,
    threads: HashMap<u32, Lanes>,
}

/// Calls `visit` with every track: requests, awaits, and the threads in the order of their ids.
/// `progress` counts threads. Of a capture that is read in parts this is done for each part, with
/// the same `kept`: a track then comes again, with the slices that begin in the part.
pub fn tracks<'c>(
    threads: &Threads<'c>,
    kept: &mut Kept,
    progress: &mut crate::Progress<'_>,
    visit: &mut Visit<'_, 'c>,
) -> io::Result<()> {
    let by_id = context::requests_by_id(threads.capture);
    slices::requests(threads, &by_id, &mut kept.requests, visit)?;
    waits::awaits(threads, &mut kept.awaits, visit)?;
    let mut rows = slices::ThreadRows::new(threads, &by_id);
    let count = threads.ids().len() as u64;
    for (done, tid) in threads.ids().enumerate() {
        progress(done as u64, count);
        let lanes = kept.threads.entry(tid).or_default();
        slices::thread(threads, tid, &mut rows, lanes, visit)?;
        let slices = waits::states(threads, tid);
        if !slices.is_empty() {
            let (subject, name) = (Subject::States(tid), format!("{} states", threads.name(tid)));
            visit(Track { subject, name, lane: 0, slices, marks: Vec::new() })?;
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
