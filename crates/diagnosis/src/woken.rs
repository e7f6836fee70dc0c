//! The thread that ended a wait, from the kernel's wakeups (source `wakers`).
//!
//! How it works: of some threads a capture has each wakeup. The first one inside of a time off the
//! CPU ended the wait, and the thread that ran then is the waker. A waker that had itself waited
//! for the same most of the while (its turn came before, and it only passed the lock on) is
//! replaced by its own waker, and so on.
//!
//! The waker's stack at the instant of the wakeup is recorded for threads that run native code:
//! that is exactly where it released the lock. What it did until then is known from samples, if
//! they saw it in that function; else they saw something that had nothing to do with the wait.
//!
//! What it promises: this is measured. Where the kernel's records show that no thread of this
//! process ended the wait (a timer, the network, another process), no thread is inferred instead.
//! Where nothing was recorded, or the chain breaks off at a fellow waiter, `wakers` infers.

use analysis::timeline::Segment;
use capture::read::OffCpu;
use format::wait::WaitKind;
use format::wake::Waker;

use crate::causes::Cause;
use crate::culprits;
use crate::explain::trace::Question;
use crate::explain::{Fate, Inference};
use crate::finding::Evidence;
use crate::group::Group;
use crate::scene::{Culprit, Scene};

/// Threads that pass a lock on from one to the next are followed through so many.
const MOST_FELLOWS: usize = 64;

/// What was recorded of the end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing: the source is off, the thread was not followed, it still waits, or the thread that
    /// came before was not followed.
    Nothing,
    /// This thread ended it.
    By(u32),
    /// No thread of this process did.
    Elsewhere,
}

impl Scene<'_> {
    /// The waker of the wait around `segment`, as the kernel recorded it.
    pub fn told_waker(&self, segment: &Segment<'_>) -> Told {
        let (told, stack) = self.told_waker_at(segment);
        if let (Told::By(tid), true) = (told, self.trace.wants(segment.from_ns, segment.to_ns)) {
            let by = Inference::WakeRecord;
            let place = match stack {
                0 => self.main_stack(tid, segment.from_ns, segment.to_ns),
                stack => stack,
            };
            let waker = Culprit::thread(tid, place, true, by);
            self.trace_one(Question::about(by, segment), &waker, Fate::Won);
        }
        told
    }

    /// The same, and the waker's stack at that instant; 0: not recorded.
    fn told_waker_at(&self, segment: &Segment<'_>) -> (Told, u32) {
        let nothing = (Told::Nothing, 0);
        let Some(mut off) = self.off_around(segment) else { return nothing };
        let lock = segment.sample.map_or(0, |s| s.target);
        let half = (segment.from_ns, segment.to_ns);
        let mut passed = vec![segment.tid];
        while passed.len() <= MOST_FELLOWS {
            let tid = passed.last().copied().unwrap_or(segment.tid);
            let by = match self.capture.wake_in(tid, off).map(|wake| wake.by) {
                None => return nothing,
                Some(Waker::Kernel | Waker::Process(_)) => return (Told::Elsewhere, 0),
                Some(Waker::Thread(by)) => by,
            };
            if passed.contains(&by) {
                return nothing;
            }
            let Some(before) = self.waited_too(by, lock, segment.stack(), half) else {
                return (Told::By(by), self.capture.waker_stack_in(tid, off));
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
    pub(crate) fn let_go_at(&self, segment: &Segment<'_>, tid: u32, looked: u32) -> u32 {
        let (told, stack) = self.told_waker_at(segment);
        if told != Told::By(tid) || stack == 0 || !self.frames.has_user(stack) {
            return looked;
        }
        let place = self.frames.innermost_user(stack);
        match place.is_some_and(|place| self.frames.passes(looked, &place)) {
            true => looked,
            false => stack,
        }
    }

    /// The wait of `tid` that took most of `[from, to)`, if it waited for the same or at the same
    /// place.
    fn waited_too(
        &self,
        tid: u32,
        lock: u64,
        stack: u32,
        (from_ns, to_ns): (u64, u64),
    ) -> Option<&OffCpu> {
        let off = self.capture.off_cpu.get(&tid)?;
        let common = |o: &OffCpu| {
            o.in_ns.min(to_ns).saturating_sub(o.out_ns.max(from_ns)) * 2 > to_ns - from_ns
        };
        let until = off.partition_point(|o| o.out_ns < to_ns);
        let most =
            off[..until].iter().rev().take_while(|o| o.in_ns > from_ns).find(|o| common(o))?;
        let mut seen = self.samples_in(tid, most.out_ns, most.in_ns.saturating_add(1)).iter();
        let same = seen.any(|s| {
            let place = self.same_place(s.stack, stack);
            matches!(s.wait, WaitKind::Futex | WaitKind::FileLock)
                && (lock != 0 && s.target == lock || place)
        });
        same.then_some(most)
    }
}

/// The waker of the longest wait of a group, and when, where that was recorded.
pub fn evidence(scene: &Scene<'_>, group: &Group<'_>) -> Option<Evidence> {
    if !matches!(culprits::waits(scene, group), Cause::LockWait | Cause::PoolWait) {
        return None;
    }
    let waits = group.pieces.iter().map(|p| &p.piece.segment);
    let told = waits.filter_map(|segment| {
        let off = scene.off_around(segment)?;
        let wake = scene.capture.wake_in(segment.tid, off)?;
        Some((segment.ns(), segment.tid, wake, scene.capture.waker_stack_in(segment.tid, off)))
    });
    let (_, _, wake, stack) = told.max_by_key(|(ns, tid, wake, _)| (*ns, *tid, wake.t_ns))?;
    let place = scene.frames.innermost_user(stack).filter(|place| !place.is_an_address());
    let place = place.map_or_else(String::new, |place| format!(" in {}", place.short()));
    let who = match wake.by {
        Waker::Thread(tid) => match scene.capture.thread_name(tid) {
            Some(name) => format!("thread {name} ({tid})"),
            None => format!("thread {tid}"),
        },
        Waker::Process(pid) => format!("another process ({pid})"),
        Waker::Kernel => "the kernel (a timer, a device or the network)".to_owned(),
    };
    let since_ns = wake.t_ns.saturating_sub(scene.capture.meta.from_ns);
    let what = format!("the longest wait was ended by {who}{place}, at this time of the capture");
    Some(Evidence { what, value: (since_ns as f64 / 1e4).round() / 100.0, unit: "ms" })
}
