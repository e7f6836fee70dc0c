//! A library that waits for its own threads: what they do is its work.
//!
//! How it works: a native library with threads of its own (a pool for each core) hands work to them
//! and waits for the end in a futex, inside of the call that the program made. That is no lock that
//! somebody holds. It shows in the native stacks: the waiter is in the library's file, and so are
//! threads that have no Python code at all, which run meanwhile.
//!
//! What it promises: nothing where no native stack was seen, or its threads hardly ran. Cost: one
//! walk over the native stacks of a capture, and a timeline of each thread of the library's.

use std::collections::{BTreeMap, BTreeSet};

use analysis::frames::Owner;
use analysis::timeline::{Segment, State};
use capture::read::Frame;
use format::wait::WaitKind;

use crate::context::Context;

/// Threads of one library that are considered.
const THREADS_MAX: usize = 64;

/// Whether a thread waits in a library's native code for threads of that library, which run.
pub(crate) fn run_for(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    if segment.state != State::Wait || segment.wait() != WaitKind::Futex {
        return false;
    }
    let Some(native) = cx.frames.native(segment.stack()) else { return false };
    if cx.frames.owner(native.file) != Owner::Library {
        return false;
    }
    let threads = cx.library_threads.get_or_init(|| of_each_file(cx));
    let own = threads.get(native.file).into_iter().flatten().filter(|tid| **tid != segment.tid);
    let ran = own.take(THREADS_MAX).map(|tid| cx.ran_ns(*tid, segment.times()));
    let ran_ns: u64 = ran.sum();
    // All together, for half of the wait.
    ran_ns * 2 >= segment.ns()
}

/// The threads without Python code that were seen in each library's file.
fn of_each_file(cx: &Context<'_>) -> BTreeMap<String, BTreeSet<u32>> {
    let mut found: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for (tid, samples) in &cx.capture.samples {
        let stacks: BTreeSet<u32> = samples.iter().map(|s| s.stack).filter(|s| *s != 0).collect();
        let python = |f: &Frame<'_>| f.file.ends_with(".py") || f.file.starts_with('<');
        let runs_python = |stack: &u32| cx.capture.frames(*stack).any(|f| python(&f));
        if stacks.iter().any(runs_python) {
            continue;
        }
        let frames = stacks.iter().flat_map(|stack| cx.capture.frames(*stack));
        for frame in frames.filter(|f| cx.frames.owner(f.file) == Owner::Library) {
            found.entry(frame.file.to_owned()).or_default().insert(*tid);
        }
    }
    found
}
