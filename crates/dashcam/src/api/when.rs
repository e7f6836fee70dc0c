//! The program's own predicate: which requests are worth a capture.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering};

use format::own_span;
use format::record::{header, Kind};
use format::region::losses;
use format::source::SourceState;
use recorder::Ended;

use crate::running::running;
use crate::say::say;

/// A predicate that failed this often is asked no more.
const MOST_FAILURES: u32 = 10;
/// A predicate that takes as long is recorded, so that a verdict can name it.
const LONG_NS: u64 = 1_000_000;

/// Asks `predicate` at the end of each request, on the request's own thread, whether to make a
/// capture: after the post-trigger time and the cooldown, as for a slow one. It should cost
/// microseconds and take no lock that a request may hold. A request that ends inside of it is not
/// asked about. It may fail (`Err`, a panic) ten times, counted in `predicate_failed`; then it is
/// asked no more, and source `when` says why. A call that takes a millisecond is recorded, and a
/// verdict names it (cause `recorder`). The predicate before this one is asked no more either, but
/// is left in memory. Holds in forked children too.
///
/// ```
/// dashcam::when(|request| Ok(request.error && request.took_ns > 5_000_000));
/// # dashcam::when_no_more();
/// ```
pub fn when(predicate: impl Fn(&Ended<'_>) -> Result<bool, String> + Send + Sync + 'static) {
    let failures = AtomicU32::new(0);
    recorder::set_predicate(Some(Box::new(move |ended| {
        if failures.load(Ordering::Relaxed) >= MOST_FAILURES {
            return false;
        }
        let begin_ns = sys::clock::now_ns();
        let answer = catch_unwind(AssertUnwindSafe(|| predicate(ended)));
        took(begin_ns);
        match answer {
            Ok(Ok(chosen)) => chosen,
            Ok(Err(why)) => failed(&failures, &why),
            Err(_) => failed(&failures, "it panicked"),
        }
    })));
    if let Some(parts) = running() {
        parts.recording.set_source("when", SourceState::On);
    }
}

/// Asks no predicate any more.
pub fn when_no_more() {
    recorder::set_predicate(None);
}

/// A predicate that took long kept its thread from the next request.
fn took(begin_ns: u64) {
    let end_ns = sys::clock::now_ns();
    if end_ns.saturating_sub(begin_ns) < LONG_NS {
        return;
    }
    if let Some(parts) = running() {
        let name = parts.recording.recorder.tables().name(own_span::PREDICATE);
        recorder::append_interval([header(Kind::Span, 4, 0, name), begin_ns, end_ns, 0], end_ns);
    }
}

#[cold]
fn failed(failures: &AtomicU32, why: &str) -> bool {
    let count = failures.fetch_add(1, Ordering::Relaxed) + 1;
    let Some(parts) = running() else { return false };
    parts.recording.recorder.region().lose(losses::PREDICATE_FAILED, 1);
    if count == MOST_FAILURES {
        let why = format!("failed {MOST_FAILURES} times, the last time: {why}");
        let state = SourceState::Off(why);
        say(&format!("when: {state}"));
        parts.recording.set_source("when", state);
    }
    false
}
