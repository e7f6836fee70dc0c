//! Which other threads wait for the same lock.
//!
//! How it works: waiters for one Condition or queue sleep on a futex of their own each; the object
//! behind it (`Sample.lock`) shows that they wait for the same.
//!
//! What it promises: a thread that was seen waiting did wait; one that waited too shortly to be
//! sampled is not among them.

use std::collections::BTreeSet;

use analysis::timeline::State;
use analysis::unit::Unit;
use capture::read::Capture;
use format::record::Sample;
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::context::Context;
use crate::facts::waiting;
use crate::finding::Evidence;
use crate::groups::{blame, Group};

/// How many threads were seen waiting for the same during the group's longest wait for a lock or a
/// pool, if it was not alone.
pub fn evidence(cx: &Context<'_>, group: &Group<'_>) -> Option<Evidence> {
    if !matches!(blame::waits(cx, group), Cause::LockWait | Cause::PoolWait) {
        return None;
    }
    let waits = group.slices.iter().map(|p| &p.slice.segment);
    let locks = waits.filter(|s| s.state == State::Wait && s.wait() == WaitKind::Futex);
    let longest = locks.max_by_key(|s| (s.ns(), s.tid, s.from_ns))?;
    let (futex, lock) = (longest.sample?.target, waiting::lock_behind(cx, longest));
    let (from_ns, to_ns) = cx.whole_wait(longest).times();
    let same = |s: &Sample| {
        s.wait == WaitKind::Futex && (s.target == futex || lock != 0 && s.lock == lock)
    };
    let waited = |tid: &u32| cx.samples_in(*tid, from_ns, to_ns.saturating_add(1)).iter().any(same);
    let capture: &Capture = cx.capture;
    let mut tids: BTreeSet<u32> = capture.samples.keys().copied().filter(waited).collect();
    tids.insert(longest.tid);
    let what = "threads seen waiting for the same during the longest wait".to_owned();
    (tids.len() > 1).then_some(Evidence { what, value: tids.len() as f64, unit: Unit::Threads })
}
