//! What part of a pass of the sampler one kind of threads may take.

use crate::world::Clock;

/// CPU time of a pass that is for one kind of threads.
pub(crate) struct Allotment {
    most_ns: u64,
    /// When it began, by the wall clock, which costs little to read, and by the CPU's.
    began: Option<(u64, u64)>,
    /// A thread was left out.
    pub(crate) cut: bool,
}

impl Allotment {
    pub(crate) fn new(most_ns: u64) -> Allotment {
        Allotment { most_ns, began: None, cut: false }
    }

    /// Whether one more thread may be sampled.
    pub(crate) fn is_left(&mut self, clock: &impl Clock) -> bool {
        let (now, cpu) = (|| clock.now_ns(), || clock.thread_cpu_ns());
        let (wall_ns, cpu_ns) = *self.began.get_or_insert_with(|| (now(), cpu()));
        let long = now().saturating_sub(wall_ns) > self.most_ns;
        self.cut |= long && cpu().saturating_sub(cpu_ns) > self.most_ns;
        !self.cut
    }
}
