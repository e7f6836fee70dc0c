//! Spans that are open: noted where captures find them, so that an unfinished span is in every one.
//!
//! How it works: `ring::open` has the places; here is the calling thread's line and where in it to
//! look next. A span's holder keeps an `OpenPlace`, four bytes, until the end.
//!
//! What it promises: no lock or allocation; a thread's first span takes a line, once over the lines
//! at worst; if all are taken, and at most once a second, those of dead threads are brought back
//! first. Async-signal-safe.

use std::cell::Cell;

use format::region::losses;
use ring::{OpenLine, OpenPlace};

use crate::recorder::{current, Recorder};

thread_local! {
    /// No destructor: a signal handler and an ending thread may look at it.
    static MINE: Mine = const {
        Mine { line: Cell::new(None), next: Cell::new(OpenLine::FIRST), refused: Cell::new(false) }
    };
}

struct Mine {
    /// None: the thread had no span yet, or all lines were taken.
    line: Cell<Option<OpenLine>>,
    /// The place to try next.
    next: Cell<u32>,
    /// All were taken. Asked once only: a thread without one goes on without.
    refused: Cell<bool>,
}

/// Notes that a span begins on this thread at `begin_ns`; to be given to `end_span`. Call it only
/// while recording is on. Costs four stores to memory of this thread.
#[inline]
pub fn begin_span(name: ring::Name, begin_ns: u64, request: u64) -> OpenPlace {
    MINE.with(|mine| {
        let begun = match mine.line.get() {
            Some(line) => line.begin(mine.next.get(), name, begin_ns, request),
            None => first_span(mine, begin_ns)
                .and_then(|line| line.begin(mine.next.get(), name, begin_ns, request)),
        };
        match begun {
            Some((place, next)) => {
                mine.next.set(next);
                place
            }
            None => untracked(),
        }
    })
}

/// The span that began at `begin_ns` ends, on any thread. Record it with `span` first: a capture
/// that finds both passes the open one over, one that finds neither would miss it.
#[inline]
pub fn end_span(place: OpenPlace, begin_ns: u64) {
    if let (true, Some(recorder)) = (place != OpenPlace::NONE, current()) {
        recorder.region().close_open(place, begin_ns);
    }
}

/// The begin of the span that this thread began last for `request` and that is open.
pub fn innermost_span(request: u64) -> Option<u64> {
    MINE.with(|mine| mine.line.get()?.innermost(request))
}

/// The begins of the open spans of `request` on this thread that began first and last.
pub(crate) fn outermost_and_innermost(request: u64) -> Option<(u64, u64)> {
    let line = MINE.with(|mine| mine.line.get())?;
    Some((line.outermost(request)?, line.innermost(request)?))
}

#[cold]
fn first_span(mine: &Mine, begin_ns: u64) -> Option<OpenLine> {
    if mine.refused.get() {
        return None;
    }
    let tid = sys::thread::cached_tid();
    sys::thread::arm_end();
    let region = current()?.region();
    // The time tells this claim from one that a thread with the same id made before.
    let line = region.open_line(tid, begin_ns as u32).or_else(|| {
        let back = region.bring_back_lines(sys::clock::now_ns());
        (back > 0).then(|| region.open_line(tid, begin_ns as u32)).flatten()
    });
    mine.line.set(line);
    mine.refused.set(line.is_none());
    line
}

#[cold]
fn untracked() -> OpenPlace {
    if let Some(recorder) = current() {
        recorder.region().lose(losses::SPANS_UNTRACKED, 1);
    }
    OpenPlace::NONE
}

/// The calling thread ends.
pub(crate) fn thread_ends(recorder: Option<&Recorder>) {
    let line = MINE.with(|mine| mine.line.take());
    if let (Some(line), Some(recorder)) = (line, recorder) {
        recorder.region().give_open_line(line);
    }
}

/// In a forked child: the line is the parent's.
pub(crate) fn forget() {
    MINE.with(|mine| {
        mine.line.set(None);
        mine.refused.set(false);
        mine.next.set(OpenLine::FIRST);
    });
}
