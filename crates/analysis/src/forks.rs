//! Which thread was inside `fork`, when, and where. The recorder's hooks around `fork` measure the
//! time, and a sample during it shows the code. A sample before it shows other code, and so does a
//! native thread's sample behind it.

use capture::read::SpanRow;
use format::wait::WaitKind;

use crate::index::Index;
use crate::signatures::Stdlib;
use crate::thresholds;
use crate::timeline::{overlap_ns, Segment};

impl Index<'_> {
    /// The part of `segment` that its thread spent inside `fork`, ns.
    pub fn forked_ns(&self, segment: &Segment<'_>) -> u64 {
        let own = self.forks.iter().filter(|f| f.tid == segment.tid);
        own.map(|f| overlap_ns((f.begin_ns, f.end_ns), segment.times())).sum()
    }

    /// The other thread whose forks, one or several in a row, cover most of `segment`, and its
    /// stack then.
    pub fn fork_elsewhere(&self, segment: &Segment<'_>) -> Option<(u32, u32)> {
        let overlap = |f: &&SpanRow| overlap_ns((f.begin_ns, f.end_ns), segment.times());
        let others = self.forks.iter().copied().filter(|f| f.tid != segment.tid);
        let longest = others.max_by_key(overlap)?;
        let of_it = self.forks.iter().copied().filter(|f| f.tid == longest.tid);
        let forked_ns = of_it.map(|f| overlap(&f)).sum::<u64>();
        (forked_ns * 2 > segment.ns()).then(|| (longest.tid, self.stack_in(longest)))
    }

    /// Whether `segment` waits, behind its thread's own fork, for the child to leave the copy of
    /// this process that it is: `subprocess` reads a pipe until the child runs its program, and to
    /// give up what was copied takes the kernel about as long as to copy it. What takes much longer
    /// is the child's own doing.
    pub fn awaits_exec(&self, segment: &Segment<'_>) -> bool {
        let is_start = self.frames.leaf_at(segment.stack(), Stdlib::SubprocessStart);
        if !is_start || segment.wait() != WaitKind::PipeRead {
            return false;
        }
        let own = self.forks.iter().filter(|f| f.tid == segment.tid);
        let last = own.filter(|f| f.end_ns <= segment.from_ns).max_by_key(|f| f.end_ns);
        last.is_some_and(|fork| {
            let forked_ns = fork.end_ns.saturating_sub(fork.begin_ns);
            segment.to_ns.saturating_sub(fork.end_ns) as f64
                <= thresholds::exec_of_fork() * forked_ns as f64
        })
    }

    /// Where the thread was in `fork` that spent most of `segment` there; 0: nothing was seen of
    /// that.
    pub fn forking_stack(&self, segment: &Segment<'_>) -> u32 {
        let overlap = |f: &&SpanRow| overlap_ns((f.begin_ns, f.end_ns), segment.times());
        let own = self.forks.iter().copied().filter(|f| f.tid == segment.tid);
        own.max_by_key(overlap).map_or(0, |fork| self.stack_in(fork))
    }

    /// The stack seen during a fork. Python forks with the GIL in hand and is hardly ever sampled
    /// then: right behind, while it has waited for nothing else, it is still in the code that
    /// forked.
    fn stack_in(&self, fork: &SpanRow) -> u32 {
        let inside = self.samples_in(fork.tid, fork.begin_ns, fork.end_ns);
        let during = inside.iter().rev().map(|s| s.stack).find(|stack| *stack != 0);
        during.unwrap_or_else(|| {
            let behind =
                self.samples_in(fork.tid, fork.end_ns, fork.end_ns + thresholds::short_wait_ns());
            let next = behind.first().filter(|s| s.wait == WaitKind::Running);
            let next = next.map_or(0, |s| s.stack);
            let is_python = self.frames.of(next).any(|f| !f.native);
            u32::from(is_python) * next
        })
    }
}
