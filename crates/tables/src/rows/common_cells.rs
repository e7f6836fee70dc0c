//! Values that several tables have: the place of a stack, the request at an instant, how a holder
//! is known; and the order in which maps are walked.

use std::collections::HashMap;

use analysis::context::Contexts;
use analysis::frames::Frames;
use capture::read::Capture;
use format::wait::HolderSource;

use crate::cell::{id, Cell};

/// The places of stacks, as the verdict names them; each is looked up once.
pub(super) struct Places<'c> {
    frames: Frames<'c>,
    known: HashMap<u32, Option<String>>,
}

impl<'c> Places<'c> {
    pub(super) fn new(capture: &'c Capture) -> Places<'c> {
        Places { frames: Frames::new(capture), known: HashMap::new() }
    }

    /// The innermost frame of the program's or a package's code: `geocache.py:41 backoff()`.
    pub(super) fn of(&mut self, stack: u32) -> Cell<'_> {
        let frames = &self.frames;
        let place =
            self.known.entry(stack).or_insert_with(|| frames.innermost(stack).map(|p| p.short()));
        place.as_deref().map_or(Cell::Null, Cell::Text)
    }
}

/// The request that a thread worked on at an instant.
pub(super) fn request_at<'a>(
    capture: &Capture,
    contexts: &Contexts,
    tid: u32,
    t_ns: u64,
) -> Cell<'a> {
    let at = contexts.at(tid, t_ns).request;
    at.and_then(|i| capture.requests.get(i)).map_or(Cell::Null, |r| id(r.id))
}

/// The middle of an interval.
pub(super) fn middle(from_ns: u64, to_ns: u64) -> u64 {
    from_ns + to_ns.saturating_sub(from_ns) / 2
}

/// How a holder is known, in a word.
pub(super) fn holder_source<'a>(source: HolderSource) -> Cell<'a> {
    match source {
        HolderSource::None => Cell::Null,
        HolderSource::OwnerField => Cell::Text("owner field"),
        HolderSource::WithBlock => Cell::Text("with block"),
        HolderSource::Refers => Cell::Text("refers to it"),
        HolderSource::Joined => Cell::Text("joined"),
        HolderSource::Woke => Cell::Text("woke it"),
    }
}

/// The keys of a map, in order.
pub(super) fn sorted<K: Ord + Copy, V>(map: &HashMap<K, V>) -> Vec<K> {
    let mut keys: Vec<K> = map.keys().copied().collect();
    keys.sort_unstable();
    keys
}
