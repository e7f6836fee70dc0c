//! Stacks with the time spent in them: the input of flame graphs and pprof.
//!
//! How each value is computed:
//! - samples: 1 for each sample.
//! - wall: the thread's time in the window, cut at every switch; each interval has the stack
//!   sampled in it or nearest to it. Without switch records: the time since the thread's previous
//!   sample, shared by the two samples.
//! - cpu: the CPU time since the thread's previous sample (`schedstat`), shared by the two samples;
//!   with switch records also the intervals on a CPU before the first and after the last sample.
//! - off-cpu: the intervals between leaving the CPU and coming back. Without switch records: wall
//!   minus cpu, an estimate.
//!
//! So the sums of a thread are true whatever the sampling rate was: wall is the time it existed,
//! cpu is what the kernel charged it. Off-CPU counts every reason, also preemption.

use analysis::states::{Long, Threads};
use analysis::timeline::{Segment, State};
use format::record::{flag, Sample};
use format::wait::WaitKind;

use crate::Value;

/// One stack of one thread and the time spent in it.
#[derive(Clone, Copy, Debug)]
pub struct Weighted<'c> {
    /// Thread.
    pub tid: u32,
    /// When the thread was sampled or left the CPU: the request that it worked on then is charged.
    pub t_ns: u64,
    /// The sample with the stack and the wait; None: nothing was sampled near.
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

    /// Adds time between two samples. `timed`: the kernel gave the CPU time; without it, only wall
    /// time is a measurement.
    fn add(&mut self, cpu_ns: u64, off_ns: u64, exact: bool, timed: bool) {
        let wall_ns = if exact { 0 } else { cpu_ns.saturating_add(off_ns) };
        self.cpu_ns = self.cpu_ns.saturating_add(if timed { cpu_ns } else { 0 });
        self.off_cpu_ns = self.off_cpu_ns.saturating_add(off_ns);
        self.wall_ns = self.wall_ns.saturating_add(wall_ns);
    }

    /// The value that was chosen.
    pub fn value(&self, value: Value) -> u64 {
        match value {
            Value::Wall => self.wall_ns,
            Value::Cpu => self.cpu_ns,
            Value::OffCpu => self.off_cpu_ns,
            Value::Samples => self.samples,
        }
    }

    /// The thread's wait, in a word; None while it ran or when that is not known.
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

/// All of one thread, by time; of a part of a capture, what begins in it.
pub fn of_thread<'c>(threads: &Threads<'c>, tid: u32) -> Vec<Weighted<'c>> {
    let exact = threads.is_exact(tid);
    let samples = threads.capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
    let mut out: Vec<Weighted<'c>> = of_samples(samples, threads.long(tid), exact);
    if exact {
        let sampled = sampled_time(samples);
        let out_of = |state: State| matches!(state, State::Wait | State::Ready);
        out.extend(threads.states(tid).into_iter().map(|segment| Weighted {
            tid,
            t_ns: segment.from_ns,
            sample: segment.sample,
            ready: segment.state == State::Ready,
            samples: 0,
            wall_ns: segment.ns(),
            cpu_ns: if segment.state == State::Run { outside(&segment, sampled) } else { 0 },
            off_cpu_ns: if out_of(segment.state) { segment.ns() } else { 0 },
        }));
        out.sort_by_key(|w| w.t_ns);
    }
    out.retain(|w| threads.capture.owns(w.t_ns));
    out
}

/// The time for which samples give the CPU time.
fn sampled_time(samples: &[Sample]) -> Option<(u64, u64)> {
    let (first, last) = (samples.first()?, samples.last()?);
    let before = if first.flags & flag::TIMES != 0 { first.wall_ns } else { 0 };
    Some((first.t_ns.saturating_sub(before), last.t_ns))
}

/// The part of a segment outside of that time.
fn outside(segment: &Segment<'_>, sampled: Option<(u64, u64)>) -> u64 {
    let inside = sampled.map_or(0, |(from_ns, to_ns)| {
        segment.to_ns.min(to_ns).saturating_sub(segment.from_ns.max(from_ns))
    });
    segment.ns() - inside
}

/// One row for each sample. The time since the thread's previous sample lies between two samples.
/// CPU time goes to the sample that saw it run, time off the CPU to the one that saw it wait. Where
/// both saw the same, each gets the time nearer to it; but a sample inside of a long request gets
/// none of the time outside of it, since such a request's thread is sampled more often than others.
/// So the weight of a stack does not grow with its number of samples
/// (`tests/weights_are_unbiased.rs`).
fn of_samples<'c>(samples: &'c [Sample], long: &[Long], exact: bool) -> Vec<Weighted<'c>> {
    let mut out: Vec<Weighted<'c>> = Vec::with_capacity(samples.len());
    for sample in samples {
        let timed = sample.flags & flag::TIMES != 0;
        let runs = sample.wait == WaitKind::Running;
        let cpu_ns = match timed {
            true => sample.cpu_ns,
            false if runs && !exact => sample.wall_ns,
            false => 0,
        };
        let off_ns = if exact { 0 } else { sample.wall_ns.saturating_sub(cpu_ns) };
        // The previous sample may be overwritten; then all of it belongs to this one.
        let begin_ns = sample.t_ns.saturating_sub(sample.wall_ns);
        let before = out.last_mut().filter(|before| before.t_ns >= begin_ns);
        let nearer = before.as_ref().map(|before| nearer(before.t_ns, sample.t_ns, long));
        let ran = before.as_ref().and_then(|b| b.sample).map(|b| b.wait == WaitKind::Running);
        // The part of each that goes to the previous sample.
        let share = |ns: u64, is: bool| match (ran, nearer) {
            (Some(ran), Some(nearer)) if ran == runs => (ns as f64 * nearer) as u64,
            (Some(ran), _) => ns * u64::from(ran == is),
            (None, _) => 0,
        };
        let (cpu_before, off_before) = (share(cpu_ns, true), share(off_ns, false));
        if let Some(before) = before {
            before.add(cpu_before, off_before, exact, timed);
        }
        let mut row = Weighted {
            tid: sample.tid,
            t_ns: sample.t_ns,
            sample: Some(sample),
            ready: false,
            samples: 1,
            wall_ns: 0,
            cpu_ns: 0,
            off_cpu_ns: 0,
        };
        row.add(cpu_ns - cpu_before, off_ns - off_before, exact, timed);
        out.push(row);
    }
    out
}

/// The part, 0 to 1, of the time between two samples that belongs to the first one.
fn nearer(first_ns: u64, second_ns: u64, long: &[Long]) -> f64 {
    let around = |t_ns: u64| {
        let next = long.partition_point(|l| l.begin_ns <= t_ns);
        next.checked_sub(1).map(|i| long[i]).filter(|l| t_ns < l.end_ns)
    };
    let left = around(first_ns).map(|l| l.end_ns).filter(|end| *end < second_ns);
    let entered = around(second_ns).map(|l| l.begin_ns).filter(|begin| *begin > first_ns);
    let from = left.or(entered).unwrap_or(first_ns);
    let to = entered.or(left).unwrap_or(second_ns);
    let cut = from.midpoint(to).saturating_sub(first_ns);
    (cut as f64 / second_ns.saturating_sub(first_ns).max(1) as f64).min(1.0)
}
