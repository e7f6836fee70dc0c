//! How long a thread was without a CPU when its wait was over.
//!
//! How it works: switch records do not have that, but samples do: the kernel adds up how long a
//! thread was runnable without a CPU, and the part of it that is not behind a preemption is behind
//! the waits.

use std::collections::HashMap;

use capture::read::{Capture, OffCpu};
use format::record::{flag, Sample};
use format::wait::WaitKind;

use super::segment::{slice_between, State};
use crate::thresholds;

/// By the end of an interval off the CPU: how long before that the thread could have run again.
pub type Late = HashMap<u64, u64>;

/// All of a thread. Cost: its switch records once, or twice.
pub fn late_of(capture: &Capture, tid: u32) -> Late {
    let samples = capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
    let off = capture.off_cpu.get(&tid).map_or(&[][..], Vec::as_slice);
    late_ns(off, samples, 0, u64::MAX)
}

/// How long a thread was without a CPU when its wait was over, by the end of the time off the CPU.
/// Switch records do not have that, but samples do: the kernel adds up how long a thread was
/// runnable without a CPU, and the part of it that is not behind a preemption is behind the waits.
/// Where several waits ended between two samples, each has the same part, as far as it is that
/// long.
pub(super) fn late_ns(off: &[OffCpu], all: &[Sample], from_ns: u64, to_ns: u64) -> Late {
    let mut late = Late::new();
    let around = &all[all.partition_point(|s| s.t_ns < from_ns)..];
    for sample in around.iter().take_while(|s| s.t_ns.saturating_sub(s.wall_ns) < to_ns) {
        if sample.flags & flag::TIMES == 0 || sample.run_delay_ns < thresholds::turn_ns() {
            continue;
        }
        let since = sample.t_ns.saturating_sub(sample.wall_ns);
        let begin = off.partition_point(|o| o.in_ns <= since);
        let end = off.partition_point(|o| o.in_ns <= sample.t_ns).max(begin);
        let ns = |o: &OffCpu| o.in_ns.saturating_sub(o.out_ns);
        let ready =
            |o: &&OffCpu| off_state(o, slice_between(all, o.out_ns, o.in_ns)) == State::Ready;
        let (ready, mut waits): (Vec<_>, Vec<_>) = off[begin..end].iter().partition(ready);
        let sum = |ns: u64, more: u64| ns.saturating_add(more);
        let ready_ns = ready.into_iter().map(ns).fold(0, sum);
        let mut left = sample.run_delay_ns.saturating_sub(ready_ns);
        let waited = waits.iter().map(|o| ns(o)).fold(0, sum);
        if left < thresholds::turn_ns() || (left as f64) * thresholds::late_in() < waited as f64 {
            continue;
        }
        waits.sort_unstable_by_key(|o| ns(o));
        let count = waits.len() as u64;
        for (at, wait) in (0..).zip(waits) {
            let part = (left / (count - at)).min(ns(wait));
            if part >= thresholds::turn_ns() {
                late.insert(wait.in_ns, part);
            }
            left -= part;
        }
    }
    late
}

/// Preempted means runnable; so does a thread that left by itself but was seen runnable all along.
pub(super) fn off_state(gone: &OffCpu, inside: &[Sample]) -> State {
    let runnable = |s: &Sample| s.wait == WaitKind::Running;
    match gone.preempted || (!inside.is_empty() && inside.iter().all(runnable)) {
        true => State::Ready,
        false => State::Wait,
    }
}
