//! Stacks with the time spent in them: what flame graphs and pprof are made of.
//!
//! | value | with switch records | without |
//! | --- | --- | --- |
//! | samples | 1 a sample | 1 a sample |
//! | wall | the thread's time in the window, cut at every switch; the stack is the one sampled in or nearest to each piece | time since the thread's own sample before, to the later one's stack |
//! | cpu | CPU time since its own sample before (`schedstat`), to the later one's stack; before the first and after the last sample, the pieces on a CPU | the first half |
//! | off-cpu | the pieces between leaving the CPU and coming back | wall - cpu: an estimate |
//!
//! So the sums of a thread are true whatever the sampling rate was: wall is the time it was there,
//! cpu is what the kernel charged it. Off-CPU counts every reason,
//! being preempted too.

use diagnosis::timeline::{Segment, State};
use format::record::{flag, Sample};
use format::wait::WaitKind;

use crate::states::Threads;
use crate::Value;

/// One stack of one thread and what was spent in it.
#[derive(Clone, Copy, Debug)]
pub struct Weighted<'c> {
    /// Thread.
    pub tid: u32,
    /// When the thread was seen or left the CPU: what it worked on then is what this belongs to.
    pub t_ns: u64,
    /// The sample that tells stack and wait; None: nothing was sampled near.
    pub sample: Option<&'c Sample>,
    /// It was runnable and had no CPU.
    pub ready: bool,
    /// Samples.
    pub samples: u64,
    /// Wall time, ns.
    pub wall_ns: u64,
    /// CPU time, ns.
    pub cpu_ns: u64,
    /// Time off the CPU, ns.
    pub off_cpu_ns: u64,
}

impl Weighted<'_> {
    /// Stack id; 0: sampled without one; None: not sampled.
    pub fn stack(&self) -> Option<u32> {
        self.sample.map(|s| s.stack)
    }

    /// The value asked for.
    pub fn value(&self, value: Value) -> u64 {
        match value {
            Value::Wall => self.wall_ns,
            Value::Cpu => self.cpu_ns,
            Value::OffCpu => self.off_cpu_ns,
            Value::Samples => self.samples,
        }
    }

    /// What the thread waited for, in a word; None while it ran or when that is not known.
    pub fn wait(&self) -> Option<&'static str> {
        match self.sample.map(|s| s.wait) {
            _ if self.ready => Some(NO_CPU),
            None | Some(WaitKind::Running | WaitKind::Unknown) => None,
            Some(kind) => Some(kind.text()),
        }
    }
}

/// The wait of a runnable thread.
pub const NO_CPU: &str = "runnable, no CPU";

/// All of one thread, by time.
pub fn of_thread<'c>(threads: &Threads<'c>, tid: u32) -> Vec<Weighted<'c>> {
    let exact = threads.is_exact(tid);
    let samples = threads.capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
    let mut out: Vec<Weighted<'c>> = samples.iter().map(|s| sampled(s, exact)).collect();
    if exact {
        let told = told(samples);
        let out_of = |state: State| matches!(state, State::Wait | State::Ready);
        out.extend(threads.states(tid).into_iter().map(|segment| Weighted {
            tid,
            t_ns: segment.from_ns,
            sample: segment.sample,
            ready: segment.state == State::Ready,
            samples: 0,
            wall_ns: segment.ns(),
            cpu_ns: if segment.state == State::Run { outside(&segment, told) } else { 0 },
            off_cpu_ns: if out_of(segment.state) { segment.ns() } else { 0 },
        }));
        out.sort_by_key(|w| w.t_ns);
    }
    out
}

/// The time whose CPU time the samples tell.
fn told(samples: &[Sample]) -> Option<(u64, u64)> {
    let (first, last) = (samples.first()?, samples.last()?);
    let before = if first.flags & flag::TIMES != 0 { first.wall_ns } else { 0 };
    Some((first.t_ns.saturating_sub(before), last.t_ns))
}

/// How much of a segment lies outside of that.
fn outside(segment: &Segment<'_>, told: Option<(u64, u64)>) -> u64 {
    let inside = told.map_or(0, |(from_ns, to_ns)| {
        segment.to_ns.min(to_ns).saturating_sub(segment.from_ns.max(from_ns))
    });
    segment.ns() - inside
}

fn sampled(sample: &Sample, exact: bool) -> Weighted<'_> {
    let timed = sample.flags & flag::TIMES != 0;
    let cpu_ns = if timed { sample.cpu_ns } else { 0 };
    let off_cpu_ns = match (exact, timed) {
        (true, _) => 0,
        (false, true) => sample.wall_ns.saturating_sub(cpu_ns),
        (false, false) if sample.wait == WaitKind::Running => 0,
        (false, false) => sample.wall_ns,
    };
    Weighted {
        tid: sample.tid,
        t_ns: sample.t_ns,
        sample: Some(sample),
        ready: false,
        samples: 1,
        wall_ns: if exact { 0 } else { sample.wall_ns },
        cpu_ns,
        off_cpu_ns,
    }
}
