//! The tables: their columns, and the walk over the capture that fills them; one file for each
//! subject.

mod attributes;
mod books;
mod pieces;
mod requests;
mod samples;
mod series;
mod stacks;
mod states;
mod traces;
mod verdict;
mod waits;
mod work;

use std::collections::HashMap;

use analysis::context::Contexts;
use analysis::frames::Frames;
use capture::read::Capture;
use format::wait::HolderSource;

use crate::cell::{id, Cell};
use crate::Table;

/// All of them, in the order of the documentation.
pub(crate) const ALL: &[Table] = &[
    books::CAPTURE,
    requests::REQUESTS,
    work::SPANS,
    work::EVENTS,
    attributes::ATTRIBUTES,
    work::TASKS,
    work::AWAITS,
    states::STATES,
    states::SWITCHES,
    waits::WAITS,
    waits::GIL,
    pieces::PIECES,
    samples::SAMPLES,
    stacks::STACKS,
    stacks::FRAMES,
    series::GC,
    series::VITALS,
    series::METRICS,
    books::THREADS,
    books::SOURCES,
    books::LOSSES,
    verdict::CAUSES,
    verdict::EVIDENCE,
    traces::TRACES,
    traces::LINKS,
];

/// The places of stacks, as the verdict names them; each is looked up once.
struct Places<'c> {
    frames: Frames<'c>,
    known: HashMap<u32, Option<String>>,
}

impl<'c> Places<'c> {
    fn new(capture: &'c Capture) -> Places<'c> {
        Places { frames: Frames::new(capture), known: HashMap::new() }
    }

    /// The innermost frame of the program's or a package's code: `geocache.py:41 backoff()`.
    fn of(&mut self, stack: u32) -> Cell<'_> {
        let frames = &self.frames;
        let place =
            self.known.entry(stack).or_insert_with(|| frames.innermost(stack).map(|p| p.short()));
        place.as_deref().map_or(Cell::Null, Cell::Text)
    }
}

/// The request that a thread worked on at an instant.
fn request_at<'a>(capture: &Capture, contexts: &Contexts, tid: u32, t_ns: u64) -> Cell<'a> {
    let at = contexts.at(tid, t_ns).request;
    at.and_then(|i| capture.requests.get(i)).map_or(Cell::Null, |r| id(r.id))
}

/// The middle of an interval.
fn middle(from_ns: u64, to_ns: u64) -> u64 {
    from_ns + to_ns.saturating_sub(from_ns) / 2
}

/// How a holder is known, in a word.
fn holder_source<'a>(source: HolderSource) -> Cell<'a> {
    match source {
        HolderSource::None => Cell::Null,
        HolderSource::OwnerField => Cell::Text("owner field"),
        HolderSource::WithBlock => Cell::Text("with block"),
        HolderSource::Refers => Cell::Text("refers to it"),
        HolderSource::Joined => Cell::Text("joined"),
    }
}

/// The keys of a map, in order.
fn sorted<K: Ord + Copy, V>(map: &HashMap<K, V>) -> Vec<K> {
    let mut keys: Vec<K> = map.keys().copied().collect();
    keys.sort_unstable();
    keys
}
