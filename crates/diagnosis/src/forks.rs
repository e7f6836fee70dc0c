//! Who was inside `fork` when, and where: the recorder's hooks around it measure the time, and a look
//! during it tells the code. One before it was at other code, and so is a native thread's behind it.

use capture::read::SpanRow;
use format::wait::WaitKind;

use crate::scene::{Culprit, Scene};
use crate::timeline::Segment;

/// So soon behind its fork a thread that runs is still in the code that forked.
const BEHIND_NS: u64 = 20_000_000;

impl Scene<'_> {
    /// The part of `segment` that its thread spent inside `fork`, ns.
    pub fn forked_ns(&self, segment: &Segment<'_>) -> u64 {
        let inside = |begin: u64, end: u64| {
            end.min(segment.to_ns).saturating_sub(begin.max(segment.from_ns))
        };
        let own = self.forks.iter().filter(|f| f.tid == segment.tid);
        own.map(|f| inside(f.begin_ns, f.end_ns)).sum()
    }

    /// The fork of another thread that covers most of `segment`.
    pub fn fork_elsewhere(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let overlap = |f: &&SpanRow| {
            f.end_ns.min(segment.to_ns).saturating_sub(f.begin_ns.max(segment.from_ns))
        };
        let others = self.forks.iter().copied().filter(|f| f.tid != segment.tid);
        let fork = others.max_by_key(overlap).filter(|f| overlap(f) * 2 > segment.ns())?;
        Some(Culprit::thread(fork.tid, self.stack_in(fork), true))
    }

    /// Where the thread was in `fork` that spent most of `segment` there; 0: nothing was seen of that.
    pub fn forking_stack(&self, segment: &Segment<'_>) -> u32 {
        let overlap = |f: &&SpanRow| {
            f.end_ns.min(segment.to_ns).saturating_sub(f.begin_ns.max(segment.from_ns))
        };
        let own = self.forks.iter().copied().filter(|f| f.tid == segment.tid);
        own.max_by_key(overlap).map_or(0, |fork| self.stack_in(fork))
    }

    /// The stack seen during a fork. Python forks with the GIL in hand and is looked at hardly ever then:
    /// right behind, while it has waited for nothing else, it is still in the code that forked.
    fn stack_in(&self, fork: &SpanRow) -> u32 {
        let inside = self.samples_in(fork.tid, fork.begin_ns, fork.end_ns);
        let during = inside.iter().rev().map(|s| s.stack).find(|stack| *stack != 0);
        during.unwrap_or_else(|| {
            let behind = self.samples_in(fork.tid, fork.end_ns, fork.end_ns + BEHIND_NS);
            let next = behind.first().filter(|s| s.wait == WaitKind::Running);
            let next = next.map_or(0, |s| s.stack);
            let is_python = self.frames.of(next).any(|f| !f.native);
            u32::from(is_python) * next
        })
    }
}
