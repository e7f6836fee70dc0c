//! One request with its timeline: its claimed segments, and the threads it ran on or waited for.
//!
//! How it works: the diagnosis divides the request's time. Threads get a lane by the time that the
//! request spent on them or waited for them; from each new lane, the holders of its waits are
//! added, so that a blocking chain is followed.
//!
//! What it promises: at most `MOST_LANES` lanes, the request's own thread first; threads without a
//! lane are counted.

use std::collections::HashMap;

use analysis::requests::Judged;
use analysis::timeline::State;
use capture::read::Capture;
use diagnosis::Slice;

use crate::windows::{stretches, Windows};

/// At most this many threads are shown below a request.
const MOST_LANES: usize = 10;
/// A thread gets a lane if the request waited for it during this part of its time.
const LEAST_PART: f64 = 0.01;
/// Time kept before and after a request: a tenth of its duration, within these bounds.
const PAD_NS: (u64, u64) = (2_000_000, 200_000_000);

/// A request and what is known about its time.
pub struct Detail<'c> {
    /// The request.
    pub request: Judged<'c>,
    /// Its time, exclusive.
    pub slices: Vec<Slice<'c>>,
    /// Its threads: its own first, then those that it waited for, the longest wait first.
    pub lanes: Vec<u32>,
    /// Threads that it waited for without a lane.
    pub lanes_left: usize,
    /// The states of all threads are kept.
    pub has_all_threads: bool,
}

impl<'c> Detail<'c> {
    /// Keeps the windows of its threads, and of `others`.
    pub fn of(
        capture: &Capture,
        request: &Judged<'c>,
        slices: Vec<Slice<'c>>,
        others: &[u32],
        windows: &mut Windows,
    ) -> Detail<'c> {
        let pad_ns = (request.ns() / 10).clamp(PAD_NS.0, PAD_NS.1);
        let from_ns = request.row.begin_ns.saturating_sub(pad_ns);
        // Far from the limits of an i64: later code adds to a damaged file's times.
        let to_ns = request.end_ns.saturating_add(pad_ns).min(u64::MAX >> 2);
        let (lanes, lanes_left) = lanes(capture, request, &slices);
        lanes.iter().chain(others).for_each(|tid| windows.keep(*tid, from_ns, to_ns));
        let has_all_threads = !others.is_empty();
        Detail { request: *request, slices, lanes, lanes_left, has_all_threads }
    }
}

/// The request's own thread, those that worked for it, and those they waited for, followed from
/// thread to thread.
fn lanes(capture: &Capture, request: &Judged<'_>, slices: &[Slice<'_>]) -> (Vec<u32>, usize) {
    let mut weights: HashMap<u32, u64> = HashMap::new();
    for slice in slices {
        *weights.entry(slice.segment.tid).or_default() += slice.segment.ns();
        if let Some(culprit) = slice.claim.blocker {
            *weights.entry(culprit.tid).or_default() += slice.segment.ns();
        }
    }
    for task in capture.tasks.iter().filter(|t| t.request == request.row.id) {
        *weights.entry(task.tid).or_default() += task.end_ns.saturating_sub(task.begin_ns);
    }
    let least = (request.ns() as f64 * LEAST_PART) as u64;
    let mut lanes = vec![request.row.tid];
    while lanes.len() < MOST_LANES {
        if let Some(tid) = lanes.last() {
            for s in stretches(capture, *tid, request.row.begin_ns, request.end_ns) {
                if s.what.state == State::Wait && s.what.holder != 0 {
                    *weights.entry(s.what.holder).or_default() += s.to_ns - s.from_ns;
                }
            }
        }
        let open = weights.iter().filter(|(tid, ns)| !lanes.contains(tid) && **ns >= least);
        let Some((next, _)) = open.max_by_key(|(tid, ns)| (**ns, **tid)) else { break };
        lanes.push(*next);
    }
    let left = weights.iter().filter(|(tid, ns)| !lanes.contains(tid) && **ns >= least);
    let left = left.count();
    (lanes, left)
}
