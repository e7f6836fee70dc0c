//! The thread that ended a wait, from the kernel's wakeups (source `wakers`).
//!
//! How it works: of some threads a capture has each wakeup. The first one inside of a time off the
//! CPU ended the wait, and the thread that ran then is the waker. A waker that had itself waited
//! for the same most of the time (its turn came before, and it only passed the lock on) is
//! replaced by its own waker, and so on.
//!
//! The waker's stack at the instant of the wakeup is recorded for threads that run native code:
//! that is exactly where it released the lock. What it did until then is known from samples, if
//! they saw it in that function; else they saw something that had nothing to do with the wait.
//!
//! What it promises: this is measured. Where the kernel's records show that no thread of this
//! process ended the wait (a timer, the network, another process), no thread is inferred instead.
//! Where nothing was recorded, or the chain breaks off at a fellow waiter, `ran_before` infers.

use analysis::timeline::{overlap_ns, Segment};
use capture::read::OffCpu;
use format::wait::WaitKind;
use format::wake::Waker;

use crate::claim::Blocker;
use crate::compare::{self, Question};
use crate::context::Context;
use crate::explain::{Fate, Inference};

/// Threads that pass a lock on from one to the next are followed through so many.
const FELLOWS_MAX: usize = 64;

/// What was recorded of the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeRecord {
    /// Nothing: the source is off, the thread was not followed, it still waits, or the thread that
    /// came before was not followed.
    Nothing,
    /// This thread ended it.
    By(u32),
    /// No thread of this process did.
    Elsewhere,
}

/// The waker of the wait around `segment`, as the kernel recorded it.
pub fn of(cx: &Context<'_>, segment: &Segment<'_>) -> WakeRecord {
    let (record, stack) = with_stack(cx, segment);
    if let (WakeRecord::By(tid), true) = (record, cx.trace.wants(segment.from_ns, segment.to_ns)) {
        let by = Inference::WakeRecord;
        let place = match stack {
            0 => cx.main_stack(tid, segment.from_ns, segment.to_ns),
            stack => stack,
        };
        let waker = Blocker::thread(tid, place, true, by);
        compare::keep_one(cx, Question::about(by, segment), &waker, Fate::Won);
    }
    record
}

/// The same, and the waker's stack at that instant; 0: not recorded.
fn with_stack(cx: &Context<'_>, segment: &Segment<'_>) -> (WakeRecord, u32) {
    let nothing = (WakeRecord::Nothing, 0);
    let Some(mut off) = cx.off_around(segment) else { return nothing };
    let lock = segment.sample.map_or(0, |s| s.target);
    let half = segment.times();
    let mut passed = vec![segment.tid];
    while passed.len() <= FELLOWS_MAX {
        let tid = passed.last().copied().unwrap_or(segment.tid);
        let by = match cx.capture.wake_in(tid, off).map(|wake| wake.by) {
            None => return nothing,
            Some(Waker::Kernel | Waker::Process(_)) => return (WakeRecord::Elsewhere, 0),
            Some(Waker::Thread(by)) => by,
        };
        if passed.contains(&by) {
            return nothing;
        }
        let Some(before) = waited_too(cx, by, lock, segment.stack(), half) else {
            return (WakeRecord::By(by), cx.capture.waker_stack_in(tid, off));
        };
        passed.push(by);
        off = before;
    }
    nothing
}

/// The stack to name `tid` by, which ended the wait around `segment` and was mostly seen in the
/// stack `looked` meanwhile (0: not at all). It is `looked`, if the function that released is
/// on it. Else it is where the thread released, if that was recorded and is in the program's
/// own code.
pub(crate) fn release_stack(cx: &Context<'_>, segment: &Segment<'_>, tid: u32, looked: u32) -> u32 {
    let (record, stack) = with_stack(cx, segment);
    if record != WakeRecord::By(tid) || stack == 0 || !cx.frames.has_user(stack) {
        return looked;
    }
    let place = cx.frames.innermost_user(stack);
    match place.is_some_and(|place| cx.frames.passes(looked, &place)) {
        true => looked,
        false => stack,
    }
}

/// The wait of `tid` that took most of `[from, to)`, if it waited for the same or at the same
/// place.
fn waited_too<'s>(
    cx: &'s Context<'_>,
    tid: u32,
    lock: u64,
    stack: u32,
    (from_ns, to_ns): (u64, u64),
) -> Option<&'s OffCpu> {
    let off = cx.capture.off_cpu.get(&tid)?;
    let common =
        |o: &OffCpu| overlap_ns((o.out_ns, o.in_ns), (from_ns, to_ns)) * 2 > to_ns - from_ns;
    let until = off.partition_point(|o| o.out_ns < to_ns);
    let most = off[..until].iter().rev().take_while(|o| o.in_ns > from_ns).find(|o| common(o))?;
    let mut seen = cx.samples_in(tid, most.out_ns, most.in_ns.saturating_add(1)).iter();
    let same = seen.any(|s| {
        let place = cx.same_place(s.stack, stack);
        matches!(s.wait, WaitKind::Futex | WaitKind::FileLock)
            && (lock != 0 && s.target == lock || place)
    });
    same.then_some(most)
}
