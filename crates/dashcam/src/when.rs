//! The program's own predicate: which requests are worth a capture.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering};

use format::region::losses;
use recorder::Ended;

use crate::control::{say, shared};

/// A predicate that failed this often is asked no more.
const MOST_FAILURES: u32 = 10;

/// Asks `predicate` at the end of each request, on the request's own thread, whether to make a
/// capture: after the post-trigger time and the cooldown, as for a slow one. It should cost
/// microseconds and take no lock that a request may hold. A request that ends inside of it is not
/// asked about. It may fail (`Err`, a panic) ten times, counted in `predicate_failed`; then it is
/// asked no more, and source `when` says why. The one before it is asked no more either, but stays
/// in memory. Holds in forked children too.
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
        match catch_unwind(AssertUnwindSafe(|| predicate(ended))) {
            Ok(Ok(chosen)) => chosen,
            Ok(Err(why)) => failed(&failures, &why),
            Err(_) => failed(&failures, "it panicked"),
        }
    })));
    if let Some(shared) = shared() {
        shared.set_source("when", "on".to_owned());
    }
}

/// Asks no predicate any more.
pub fn when_no_more() {
    recorder::set_predicate(None);
}

#[cold]
fn failed(failures: &AtomicU32, why: &str) -> bool {
    let count = failures.fetch_add(1, Ordering::Relaxed) + 1;
    let Some(shared) = shared() else { return false };
    shared.recorder.region().lose(losses::PREDICATE_FAILED, 1);
    if count == MOST_FAILURES {
        let state = format!("off: failed {MOST_FAILURES} times, the last time: {why}");
        say(&format!("when: {state}"));
        shared.set_source("when", state);
    }
    false
}
