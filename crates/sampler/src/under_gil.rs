//! Stacks of an interpreter whose memory cannot be read: told by the interpreter itself, under the GIL.
//!
//! How it works: `samplers::python_stacks` knows CPython 3.9 to 3.13 and refuses the rest. There a thread of the
//! program's own language, which its binding starts, comes ten times a second and asks here for whom to look
//! (`Look::begin`); it walks those threads' frames and hands them in. The sampler never waits for
//! it, nor for the GIL: at its own looks it takes what was handed in, if it still holds.
//!
//! ```text
//!   sampler, each pass it may look:   want(threads it chose)        seen(thread) -> stack, if it still holds
//!                                        |                              ^
//!   the binding's thread, 10 a second:   begin -> wanted -> frames -> put
//! ```
//!
//! A stack holds for a thread that has waited since before it was taken, and once for one that runs.
//!
//! What it promises: at most `MOST_THREADS` threads and `MOST_FRAMES` frames a look; nobody is looked at but who the
//! sampler chose, so the bound of a pass and the budget hold here, too, and what a look costs is paid from
//! the same purse: a dear one makes the pause longer. Nothing is asked for while nothing is recorded. The source
//! `stacks` says how stacks were read, and why.
//! What is missing on purpose: who holds the GIL or a lock, and what tasks await: those are read
//! from memory. Threads that run are seen where they could be made to let go of the GIL: that is the bias
//! of any look under it, and why it is the last resort.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Most threads of a look.
const MOST_THREADS: usize = 16;

/// A stack that was handed in.
#[derive(Clone, Copy)]
pub struct Seen {
    /// Its id.
    pub stack: u32,
    /// Outer frames are missing.
    pub truncated: bool,
    /// When it was taken.
    pub t_ns: u64,
}

/// What the sampler and the binding's thread share.
#[derive(Default)]
pub struct UnderGil {
    /// Why stacks cannot be read otherwise. Set once, by the sampler as it begins; `None` inside: they can, or are
    /// turned off.
    refused: Mutex<Option<Option<String>>>,
    /// The source says that looks come. Only the binding's thread uses it.
    told: AtomicBool,
    wanted: Mutex<Vec<u32>>,
    /// The interpreter's threads, and their last stacks.
    stacks: Mutex<HashMap<u32, Option<Seen>>>,
    /// CPU time of looks that is not paid yet: added to by the binding's thread, taken by the
    /// sampler. Relaxed: a sum, nothing else hangs on it.
    unpaid_ns: AtomicU64,
}

impl UnderGil {
    /// The sampler has begun: `refused` says why it cannot read stacks itself.
    pub fn decide(&self, refused: Option<String>) {
        *lock(&self.refused) = Some(refused);
    }

    /// A pass of the sampler looks at the threads `chosen`; those of slow requests are `urgent`, also where they
    /// stand and have nothing new to tell. The next look is at the urgent ones not seen for longest, and, with
    /// a quarter of the places at least, at others.
    pub fn want(&self, urgent: &[u32], chosen: &[u32]) {
        let mut first: Vec<(u64, u32)> = {
            let stacks = lock(&self.stacks);
            let seen_ns = |tid: &u32| stacks.get(tid).copied().flatten().map_or(0, |s| s.t_ns);
            urgent.iter().map(|tid| (seen_ns(tid), *tid)).collect()
        };
        first.sort_unstable();
        first.dedup();
        let others = || chosen.iter().filter(|tid| !urgent.contains(tid));
        first.truncate(MOST_THREADS - others().count().min(MOST_THREADS / 4));
        let mut wanted = lock(&self.wanted);
        wanted.clear();
        wanted.extend(first.into_iter().map(|(_, tid)| tid).chain(others().copied()));
        wanted.truncate(MOST_THREADS);
    }

    /// Whether the thread runs the interpreter.
    pub fn knows(&self, tid: u32) -> bool {
        lock(&self.stacks).contains_key(&tid)
    }

    /// The thread's last stack, if it was taken behind `since_ns`.
    pub fn seen(&self, tid: u32, since_ns: u64) -> Option<Seen> {
        let seen = lock(&self.stacks).get(&tid).copied().flatten();
        seen.filter(|seen| seen.t_ns >= since_ns)
    }

    /// What looks cost since the last call.
    pub fn unpaid_ns(&self) -> u64 {
        self.unpaid_ns.swap(0, Ordering::Relaxed)
    }

    /// For the binding's thread: why stacks cannot be read otherwise. None: not decided yet, or
    /// `Some(None)`: they can.
    pub fn refused(&self) -> Option<Option<String>> {
        lock(&self.refused).clone()
    }

    /// Takes the threads that are wanted.
    pub fn take_wanted(&self) -> Vec<u32> {
        std::mem::take(&mut *lock(&self.wanted))
    }

    /// These are all threads that run the interpreter.
    pub fn keep_threads(&self, tids: &[u32]) {
        let mut stacks = lock(&self.stacks);
        stacks.retain(|tid, _| tids.contains(tid));
        for tid in tids {
            stacks.entry(*tid).or_default();
        }
    }

    /// Hands in a thread's stack, if it is one of those that run the interpreter.
    pub fn put(&self, tid: u32, seen: Seen) {
        if let Some(last) = lock(&self.stacks).get_mut(&tid) {
            *last = Some(seen);
        }
    }

    /// Adds what a look cost. Whether it was the first.
    pub fn pay(&self, cost_ns: u64) -> bool {
        self.unpaid_ns.fetch_add(cost_ns, Ordering::Relaxed);
        !self.told.swap(true, Ordering::Relaxed)
    }
}

/// A lock that a panic elsewhere cannot make unusable: what is behind it is whole at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_believed_only_if_it_is_new_enough_and_few_are_asked_for() {
        let under_gil = UnderGil::default();
        let seen = Seen { stack: 7, truncated: false, t_ns: 100 };
        lock(&under_gil.stacks).insert(1, Some(seen));
        lock(&under_gil.stacks).insert(2, None);
        assert!(under_gil.knows(2) && !under_gil.knows(3));
        assert_eq!(under_gil.seen(1, 100).map(|seen| seen.stack), Some(7));
        assert!(under_gil.seen(1, 101).is_none() && under_gil.seen(2, 0).is_none());
        let wanted = |urgent: &[u32], chosen: &[u32]| {
            under_gil.want(urgent, chosen);
            lock(&under_gil.wanted).clone()
        };
        let many: Vec<u32> = (50..100).collect();
        assert_eq!(wanted(&[], &many), many[..MOST_THREADS]);
        assert_eq!(wanted(&[1, 2], &[2, 50]), [2, 1, 50], "2 was never seen");
        let crowd = wanted(&many, &[1, 2, 3, 4, 5]);
        assert_eq!((crowd.len(), &crowd[12..]), (MOST_THREADS, &[1, 2, 3, 4][..]));
    }
}
