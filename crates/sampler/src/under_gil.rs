//! Stacks of an interpreter whose memory cannot be read: reported by the interpreter itself, under
//! the GIL.
//!
//! How it works: `samplers::python_stacks` knows CPython 3.9 to 3.15 and refuses the rest. There a
//! thread of the program's own language, which its binding starts, comes ten times a second and
//! asks here which threads to sample (`Round::begin`); it walks their frames and hands them in. The
//! sampler never waits for it, nor for the GIL: in its own samples it takes what was handed
//! in, if that is still valid.
//!
//! ```text
//!   sampler, each pass that may sample:
//!       want(threads it chose)    seen(thread) -> stack, if it is still valid
//!                |                       ^
//!                v                       |
//!       begin -> wanted -> frames -> put
//!   the binding's thread, 10 a second
//! ```
//!
//! A stack is valid for a thread that has waited since before it was taken, and once for a thread
//! that runs.
//!
//! What it promises: at most `MOST_THREADS` threads and `MOST_FRAMES` frames a turn. Only threads
//! that the sampler chose are sampled, so the bound of a pass and the budget hold here, too. The
//! cost of a turn is paid from the same token bucket: an expensive one makes the pause longer.
//! Nothing is asked for while nothing is recorded. The source `stacks` says how stacks were read,
//! and why. What is missing on purpose: the holder of the GIL or of a lock, and what tasks await:
//! those are read from memory. Running threads are seen where they could be made to release the
//! GIL: that is the bias of any sample under it, and why it is the last resort.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Most threads of a turn.
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
    /// Why stacks cannot be read otherwise. Set once, by the sampler as it begins; `None` inside:
    /// they can, or are turned off.
    refused: Mutex<Option<Option<String>>>,
    /// The interpreter's own memory, where threads wait for its GIL.
    own: OnceLock<Range<u64>>,
    /// The source says that stacks are handed in. Only the binding's thread uses it.
    is_reported: AtomicBool,
    wanted: Mutex<Vec<u32>>,
    /// The interpreter's threads, and their last stacks.
    stacks: Mutex<HashMap<u32, Option<Seen>>>,
    /// CPU time of turns that is not paid yet: added to by the binding's thread, taken by the
    /// sampler. Relaxed: a sum that orders nothing else.
    unpaid_ns: AtomicU64,
}

impl UnderGil {
    /// The sampler has begun: `refused` says why it cannot read stacks itself.
    pub fn decide(&self, refused: Option<String>) {
        *lock(&self.refused) = Some(refused);
    }

    /// The interpreter whose stacks are refused has this memory of its own.
    pub fn set_own_memory(&self, own: Range<u64>) {
        // It does not move: a second one is the same.
        let _ = self.own.set(own);
    }

    /// Whether a futex is the interpreter's own: its GIL's, whose state cannot be read.
    pub fn is_own_futex(&self, address: u64) -> bool {
        self.own.get().is_some_and(|own| own.contains(&address))
    }

    /// A pass of the sampler samples the threads `chosen`; those of slow requests are `urgent`,
    /// also where they wait and have nothing new. The next turn takes the urgent ones not seen for
    /// longest, and, with a quarter of the places at least, others.
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

    /// What turns cost since the last call.
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

    /// Adds the cost of a turn. Whether it was the first.
    pub fn pay(&self, cost_ns: u64) -> bool {
        self.unpaid_ns.fetch_add(cost_ns, Ordering::Relaxed);
        !self.is_reported.swap(true, Ordering::Relaxed)
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
