//! Open spans of the calling thread: stored where captures find them, so that an unfinished span is
//! in every capture.
//!
//! How it works: `ring::open` has the places; this module has the calling thread's line and the
//! place to try next. The holder of a span keeps an `OpenPlace`, four bytes, until its end.
//!
//! What it promises: no lock or allocation. A thread's first span takes a line, with one pass over
//! the lines at worst. If all are taken, lines of dead threads are freed first, at most once a
//! second. Async-signal-safe.

use std::cell::Cell;

use format::region::losses;
use ring::{OpenLine, OpenPlace};

use crate::current::current;
use crate::recorder::Recorder;

thread_local! {
    /// No destructor: a signal handler and an ending thread may use it.
    static MINE: Mine = const {
        Mine { line: Cell::new(None), next: Cell::new(OpenLine::FIRST), refused: Cell::new(false) }
    };
}

struct Mine {
    /// None: the thread had no span yet, or all lines were taken.
    line: Cell<Option<OpenLine>>,
    /// The place to try next.
    next: Cell<u32>,
    /// All were taken. Tried once only: a thread without a line goes on without.
    refused: Cell<bool>,
}

/// Stores that a span begins on this thread at `begin_ns`; the result is for `end_span`. Call it
/// only while recording is on. Costs four stores to memory of this thread.
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
/// that finds both ignores the open one; if the order were reversed, a capture could find neither.
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

/// The begins of the first and of the last open span of `request` on this thread.
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
    // The time distinguishes this claim from one by an earlier thread with the same id.
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
