//! Pauses in a loop: how many, and what the code that pauses calls between them.
//!
//! How it works: the claimed segments of a finding that touch are one wait. A wait without a sample
//! is counted only if it is as long as those that were seen: a short wait for something else, next
//! to a pause, borrows the pause's sample. What is between two pauses of one request is known from
//! samples whose stack passes through the function that pauses: what that function had called then
//! is what it tries again.
//!
//! What it promises: counts are of switch records, never of samples; a name is of code that was
//! seen between two pauses. Whether the call failed is not known. Cost: one walk over the samples
//! of the threads of the slow requests that have the finding.

use std::collections::BTreeMap;

use analysis::frames::{Function, Owner, Place};
use analysis::thresholds::{self, is_part};
use analysis::waits::{ended_by_request, merged_by_request};
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::claim::Weighed;
use crate::context::Context;
use crate::groups::Group;

/// How many waits the claimed segments of a group are. 0 when not all of the times are exact, as
/// estimates have no such edges.
pub fn waits(group: &Group<'_>) -> usize {
    if !group.slices.iter().all(|p| p.slice.segment.exact) {
        return 0;
    }
    let parts = group.slices.iter().map(Weighed::part);
    // A pause is one each time, whatever its time limit: a retry sleeps in a loop. Others wait for
    // something.
    let all = match group.cause {
        Cause::Sleep => merged_by_request(parts),
        _ => ended_by_request(parts),
    };
    let seen = all.iter().filter(|(_, w)| w.seen);
    let least = seen.map(|(_, w)| w.ns()).min().unwrap_or(0);
    all.iter().filter(|(_, w)| w.seen || w.ns() * 2 >= least).count()
}

/// The function that the code of a sleep calls between its pauses, where samples show one most of
/// the time: `call_stock`. `place`: the function that pauses.
pub fn called_between(cx: &Context<'_>, group: &Group<'_>, place: &Place) -> Option<Place> {
    if group.cause != Cause::Sleep {
        return None;
    }
    let all = merged_by_request(group.slices.iter().map(Weighed::part));
    let mut found: BTreeMap<Function, (usize, Place)> = BTreeMap::new();
    for own in all.chunk_by(|a, b| (a.0, a.1.tid) == (b.0, b.1.tid)) {
        // By estimates, a sliver of the next wait is at the end of a request at times: no pause.
        let most = own.iter().map(|(_, w)| w.ns()).max().unwrap_or(0);
        let mut pauses =
            own.iter().map(|(_, w)| w).filter(|w| is_part(w.ns(), thresholds::small_part(), most));
        let Some(first) = pauses.next() else { continue };
        let last = pauses.next_back().unwrap_or(first);
        // A library that tries again calls it once more behind its last pause.
        let end_ns = match cx.frames.package(&place.file) {
            Some(_) => cx.request_end(last.tid, last.to_ns).unwrap_or(last.to_ns),
            None => last.from_ns,
        };
        for sample in cx.samples_in(first.tid, first.to_ns, end_ns) {
            if sample.wait != WaitKind::Sleep {
                if let Some(callee) = callee(cx, sample.stack, place) {
                    found.entry(callee.in_function()).or_insert((0, callee)).0 += 1;
                }
            }
        }
    }
    let seen: usize = found.values().map(|(times, _)| times).sum();
    let (times, callee) = found.into_values().max_by_key(|(times, _)| *times)?;
    (times * 2 > seen).then_some(callee)
}

/// The function of the program's own or a library's that `place`'s function had called; of a pause
/// in an installed library, what any function of that library had.
fn callee(cx: &Context<'_>, stack: u32, place: &Place) -> Option<Place> {
    let own = |f: &capture::read::Frame<'_>| {
        matches!(cx.frames.owner(f.file), Owner::User | Owner::Library)
    };
    let library = cx.frames.package(&place.file);
    let is_its = |f: &capture::read::Frame<'_>| match library {
        Some(_) => cx.frames.package(f.file) == library,
        None => f.function == place.qualified && f.file == place.file,
    };
    let mut called = None;
    for frame in cx.frames.of(stack).filter(own) {
        if is_its(&frame) {
            return called.map(|f| cx.frames.place(&f));
        }
        called = Some(frame);
    }
    None
}
