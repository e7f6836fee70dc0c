//! The threads that are kept, and for which times.
//!
//! How it works: each request with a timeline keeps an interval for each of its threads;
//! overlapping intervals are joined. Inside of them a thread's states, waits and holders become
//! rows, where equal adjacent ones are one; native code inside of a Python frame makes no
//! difference.
//!
//! What it promises: the rows of a thread are in order and do not overlap.

use std::collections::BTreeMap;

use analysis::timeline::{self, Segment, State};
use capture::read::Capture;
use format::wait::{HolderSource, WaitKind};

/// Times to keep, by thread.
#[derive(Default)]
pub struct Windows {
    by_thread: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl Windows {
    /// Keeps `[from, to)` of a thread.
    pub fn keep(&mut self, tid: u32, from_ns: u64, to_ns: u64) {
        if to_ns > from_ns {
            self.by_thread.entry(tid).or_default().push((from_ns, to_ns));
        }
    }

    /// For each thread its times, in order, without overlap.
    pub fn merged(&self) -> impl Iterator<Item = (u32, Vec<(u64, u64)>)> + '_ {
        self.by_thread.iter().map(|(tid, windows)| (*tid, union(windows.clone())))
    }

    /// The times in which any thread is kept, in order, without overlap.
    pub fn any(&self) -> Vec<(u64, u64)> {
        union(self.by_thread.values().flatten().copied().collect())
    }
}

/// Sorted, overlapping ones joined.
fn union(mut windows: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    windows.sort_unstable();
    let mut out: Vec<(u64, u64)> = Vec::new();
    for (from, to) in windows {
        match out.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}

/// Whether `t_ns` is in one of the windows, which are in order.
pub fn inside(windows: &[(u64, u64)], t_ns: u64) -> bool {
    let next = windows.partition_point(|w| w.0 <= t_ns);
    next > 0 && t_ns < windows[next - 1].1
}

/// What a thread did: one row for each interval of the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Begin.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// The rest: two adjacent intervals that agree in it are one.
    pub what: What,
}

/// The state of a thread during an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct What {
    /// Run, ready, wait or unknown.
    pub state: State,
    /// From switch records.
    pub exact: bool,
    /// Kind of wait.
    pub wait: WaitKind,
    /// Stack id.
    pub stack: u32,
    /// The thread that held the resource, 0 none.
    pub holder: u32,
    /// The holder was read, not inferred.
    pub measured: bool,
    /// Target, as in the sample.
    pub target: u64,
}

/// The intervals of a thread in a window.
pub fn stretches(capture: &Capture, tid: u32, from_ns: u64, to_ns: u64) -> Vec<Stretch> {
    let mut out: Vec<Stretch> = Vec::new();
    for segment in timeline::of_thread(capture, tid, from_ns, to_ns) {
        let what = what(&segment);
        let is_more = |last: &Stretch| {
            last.to_ns == segment.from_ns
                && without_native(capture, last.what) == without_native(capture, what)
        };
        match out.last_mut() {
            Some(last) if is_more(last) => last.to_ns = segment.to_ns,
            _ => out.push(Stretch { from_ns: segment.from_ns, to_ns: segment.to_ns, what }),
        }
    }
    out
}

/// For comparing: native frames come and go with each sample of one wait.
fn without_native(capture: &Capture, what: What) -> What {
    What { stack: capture.without_native(what.stack), ..what }
}

fn what(segment: &Segment<'_>) -> What {
    let waits = segment.state == State::Wait;
    let sample = segment.sample.filter(|_| waits);
    let wait = sample.map_or(WaitKind::Unknown, |s| s.wait);
    let (holder, measured) = match sample {
        Some(s) if s.wait == WaitKind::Gil => (s.gil_holder, true),
        Some(s) => (s.lock_holder, s.holder_source != HolderSource::None),
        None => (0, false),
    };
    let holder = if holder == segment.tid { 0 } else { holder };
    What {
        state: segment.state,
        exact: segment.exact,
        wait,
        stack: segment.stack(),
        holder,
        measured: measured && holder != 0,
        target: sample.map_or(0, |s| s.target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_overlap_are_one() {
        let mut windows = Windows::default();
        windows.keep(7, 10, 20);
        windows.keep(7, 15, 30);
        windows.keep(7, 40, 50);
        windows.keep(8, 45, 60);
        windows.keep(8, 5, 5);
        let merged: Vec<_> = windows.merged().collect();
        assert_eq!(merged, [(7, vec![(10, 30), (40, 50)]), (8, vec![(45, 60)])]);
        assert_eq!(windows.any(), [(10, 30), (40, 60)]);
        let found: Vec<bool> =
            [9, 10, 29, 30, 59, 60].iter().map(|t| inside(&windows.any(), *t)).collect();
        assert_eq!(found, [false, true, true, false, true, false]);
    }
}
