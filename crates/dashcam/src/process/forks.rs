//! Time inside `fork`, as a span of the thread that forks: with gigabytes in memory it is long.
//!
//! Both hooks run on the forking thread, in the parent. They only read the clock, touch a
//! thread-local, and record: no lock, no allocation.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

use format::own_span;
use format::record::{header, Kind};
use recorder::Recorder;

/// Name id of the span; 0 while nothing records.
static NAME: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static BEGAN_NS: Cell<u64> = const { Cell::new(0) };
}

/// From now on forks are recorded by `recorder`.
pub(crate) fn record_into(recorder: &Recorder) {
    NAME.store(recorder.tables().name(own_span::FORK), Ordering::Relaxed);
}

/// Runs before a fork.
pub(crate) extern "C" fn before() {
    BEGAN_NS.set(sys::clock::now_ns());
}

/// Runs in the parent behind a fork.
pub(crate) extern "C" fn behind() {
    let (name, begin_ns) = (NAME.load(Ordering::Relaxed), BEGAN_NS.replace(0));
    if name != 0 && begin_ns != 0 {
        let end_ns = sys::clock::now_ns();
        recorder::append_interval([header(Kind::Span, 4, 0, name), begin_ns, end_ns, 0], end_ns);
    }
}
