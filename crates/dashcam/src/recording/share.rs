//! The part of its CPU budget that this process's sampler may use.
//!
//! How it works: `budget_percent` is of one core. A container may have less than a core, and a
//! service more workers than there are cores; then a percent of a core for each would be much of
//! what they have. So the samplers of all workers that serve requests share the budgets of the
//! CPUs that the process may use. `dashcam-capture` counts every `EVERY_NS`. A process in which
//! requests have begun since the last count sets the time of its box; boxes whose time is of the
//! last `SERVED` are those of workers that serve.
//!
//! What it promises: the samplers of a user's processes use at most `budget_percent` of the CPU
//! time that is there for these, once each has counted. A process alone, on a core or more, has its
//! whole budget. A killed process counts for `SERVED` longer.
//!
//! Missing on purpose: processes of other users, whose boxes are in other folders.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use ring::Place;

use crate::process::boxes;

/// Between two counts.
const EVERY_NS: u64 = 10_000_000_000;
/// A worker is counted for so long after it set the time of its box.
const SERVED: Duration = Duration::from_secs(30);

/// See above.
pub(crate) struct Share {
    /// Bits of a number between 0 and 1. Relaxed: it orders nothing.
    part: AtomicU64,
    /// When the next count is due, and requests begun by the last one. Of `dashcam-capture` alone.
    due_ns: AtomicU64,
    begun: AtomicU64,
}

impl Share {
    pub(crate) fn new() -> Share {
        let (due_ns, begun) = (AtomicU64::new(0), AtomicU64::new(0));
        Share { part: AtomicU64::new(1f64.to_bits()), due_ns, begun }
    }

    /// The part of the budget that holds now.
    pub(crate) fn part(&self) -> f64 {
        f64::from_bits(self.part.load(Ordering::Relaxed))
    }

    /// Counts, if that is due. `begun`: requests so far. Costs 0.2 ms and a stat for each box.
    pub(crate) fn follow(&self, begun: u64, place: &Place, now_ns: u64) {
        if now_ns < self.due_ns.load(Ordering::Relaxed) {
            return;
        }
        self.due_ns.store(now_ns + EVERY_NS, Ordering::Relaxed);
        let serves = self.begun.swap(begun, Ordering::Relaxed) != begun;
        let workers = match place {
            Place::File(path) => workers(path, serves),
            Place::Process(_) => 1,
        };
        let part = part(sys::vitals::cpus(), workers);
        self.part.store(part.to_bits(), Ordering::Relaxed);
    }
}

/// Processes that serve, by their boxes beside `own`.
fn workers(own: &Path, serves: bool) -> usize {
    let now = SystemTime::now();
    // A box that was removed is not counted; this process is one in any case.
    if serves {
        let _ = std::fs::File::open(own).and_then(|file| file.set_modified(now));
    }
    let is_recent = |time: &SystemTime| now.duration_since(*time).is_ok_and(|age| age <= SERVED);
    boxes::times(own.parent().unwrap_or(own)).filter(is_recent).count()
}

fn part(cpus: f64, workers: usize) -> f64 {
    (cpus / workers.max(1) as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_the_budgets_of_the_cpus_that_are_there() {
        assert_eq!((part(2.0, 0), part(2.0, 1), part(2.0, 2)), (1.0, 1.0, 1.0));
        assert_eq!((part(2.0, 8), part(0.25, 1), part(0.5, 4)), (0.25, 0.25, 0.125));
    }

    #[test]
    fn a_box_counts_while_its_process_serves() {
        let folder = std::env::temp_dir().join(format!("share-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder of the test's own");
        let path = |pid: u32| folder.join(format!("billy-{pid}-1.box"));
        let made = |(pid, ago): (u32, u64)| {
            let file = std::fs::File::create(path(pid)).expect("made");
            let time = SystemTime::now() - Duration::from_secs(ago);
            file.set_modified(time).expect("set");
        };
        [(1, 5), (2, 25), (3, 600), (4, 600)].into_iter().for_each(made);
        assert_eq!(workers(&path(4), false), 2, "two served a while ago");
        assert_eq!(workers(&path(4), true), 3, "and this one");
        assert_eq!(workers(&path(3), false), 3, "as the others see it");
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(workers(&path(3), true), 0);
    }

    #[test]
    fn it_counts_when_that_is_due() {
        let (share, place) = (Share::new(), Place::Process(String::new()));
        assert_eq!(share.part(), 1.0);
        share.follow(0, &place, 5);
        assert_eq!(share.due_ns.load(Ordering::Relaxed), 5 + EVERY_NS);
        share.follow(7, &place, 4 + EVERY_NS);
        assert_eq!(share.begun.load(Ordering::Relaxed), 0, "not yet");
        share.follow(7, &place, 5 + EVERY_NS);
        assert_eq!(share.begun.load(Ordering::Relaxed), 7);
        assert!(share.part() > 0.0 && share.part() <= 1.0);
    }
}
