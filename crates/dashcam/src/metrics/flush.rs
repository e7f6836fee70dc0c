//! Waits until the counts are on their way: at any time, and before the process becomes another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::exports::otlp;
use crate::metrics::forward;
use crate::metrics::windows;
use crate::running::{after_fork_child, is_forked, running};

/// How long a flush waits for its window.
const FLUSH_NS: u64 = 2_000_000_000;
/// How long a leaving process waits, and how long it has left then.
const LEAVE_NS: u64 = 1_000_000_000;
const LEAVE_AGAIN_NS: u64 = 20_000_000;

/// Takes a window now and waits until the sinks have it, StatsD's lines are sent or lost, and what
/// goes by OTLP too, at most two seconds in all. False: nothing records, or it took longer. Not
/// from a sink.
pub fn flush() -> bool {
    after_fork_child();
    let deadline_ns = sys::clock::now_ns() + FLUSH_NS;
    let left = || Duration::from_nanos(deadline_ns.saturating_sub(sys::clock::now_ns()));
    if !is_taken_before(deadline_ns) {
        return false;
    }
    // Both, even if the first takes all the time: the second is asked to hurry then.
    let lines = forward::flush(left());
    otlp::flush(left()) && lines
}

/// Before the process becomes another program, or ends without its exit handlers (`_exit`): as
/// `flush`, but at most one second, and no longer than it takes to know that nobody listens. In a
/// forked child that has recorded nothing it does nothing, nor just behind an earlier call: a
/// search for a program along PATH tries many times. Recording goes on, in case the exec fails.
pub fn leave() -> bool {
    static LAST_NS: AtomicU64 = AtomicU64::new(0);
    let now_ns = sys::clock::now_ns();
    if is_forked() || now_ns < LAST_NS.load(Ordering::Relaxed).saturating_add(LEAVE_AGAIN_NS) {
        return true;
    }
    let deadline_ns = now_ns + LEAVE_NS;
    let left = || Duration::from_nanos(deadline_ns.saturating_sub(sys::clock::now_ns()));
    let done = is_taken_before(deadline_ns) && {
        let lines = forward::flush_if_heard(left());
        otlp::flush_if_heard(left()) && lines
    };
    LAST_NS.store(sys::clock::now_ns(), Ordering::Relaxed);
    done
}

/// Has a window taken. False: nothing records, or it took longer.
fn is_taken_before(deadline_ns: u64) -> bool {
    let Some(parts) = running() else { return false };
    let wanted = windows::want();
    while !windows::is_taken(wanted) {
        if sys::clock::now_ns() > deadline_ns || parts.recording.stopping() {
            return false;
        }
        parts.queue.notify();
        sys::thread::pause(500_000);
    }
    true
}
