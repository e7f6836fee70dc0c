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
use std::sync::{Arc, Mutex};
use std::time::Duration;

use recorder::Recorder;

use crate::control::{lock, shared, Shared};

/// Most threads of a look, and most frames of each.
const MOST_THREADS: usize = 16;
/// Most frames of a stack; the innermost ones.
pub const MOST_FRAMES: usize = 128;
/// From one look to the next, at least.
const PAUSE: Duration = Duration::from_millis(100);
/// A look is followed by a pause in which this part of the budget comes in for it.
const SHARE: f64 = 0.5;

/// A stack that was handed in.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub stack: u32,
    pub truncated: bool,
    pub t_ns: u64,
}

/// What the sampler and the binding's thread share.
#[derive(Default)]
pub(crate) struct UnderGil {
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
    pub(crate) fn decide(&self, refused: Option<String>) {
        *lock(&self.refused) = Some(refused);
    }

    /// A pass of the sampler looks at the threads `chosen`; those of slow requests are `urgent`, also where they
    /// stand and have nothing new to tell. The next look is at the urgent ones not seen for longest, and, with
    /// a quarter of the places at least, at others.
    pub(crate) fn want(&self, urgent: &[u32], chosen: &[u32]) {
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
    pub(crate) fn knows(&self, tid: u32) -> bool {
        lock(&self.stacks).contains_key(&tid)
    }

    /// The thread's last stack, if it was taken behind `since_ns`.
    pub(crate) fn seen(&self, tid: u32, since_ns: u64) -> Option<Seen> {
        let seen = lock(&self.stacks).get(&tid).copied().flatten();
        seen.filter(|seen| seen.t_ns >= since_ns)
    }

    /// What looks cost since the last call.
    pub(crate) fn unpaid_ns(&self) -> u64 {
        self.unpaid_ns.swap(0, Ordering::Relaxed)
    }
}

/// One look under the GIL, by a thread that holds it and does not let go until it is over.
pub struct Look {
    shared: Arc<Shared>,
    recorder: &'static Recorder,
    wanted: Vec<u32>,
    t_ns: u64,
    began_ns: u64,
}

/// What a thread that could look is to do.
pub enum Next {
    /// Looks, and then pauses.
    Look(Look),
    /// There is nothing to look at now.
    Pause(Duration),
    /// It ends: stacks are read otherwise, or recording was stopped.
    End,
}

impl Look {
    /// For bindings: whether to look now.
    pub fn begin() -> Next {
        let Some(shared) = shared().filter(|shared| !shared.stopping()) else { return Next::End };
        match &*lock(&shared.under_gil.refused) {
            None => return Next::Pause(PAUSE),
            Some(None) => return Next::End,
            Some(Some(_)) => {}
        }
        let wanted = std::mem::take(&mut *lock(&shared.under_gil.wanted));
        let Some(recorder) = recorder::current().filter(|_| recorder::is_on()) else {
            return Next::Pause(PAUSE);
        };
        let began_ns = sys::clock::thread_cpu_ns();
        Next::Look(Look { shared, recorder, wanted, t_ns: sys::clock::now_ns(), began_ns })
    }

    /// Whom to look at.
    pub fn wanted(&self) -> &[u32] {
        &self.wanted
    }

    /// The kernel ids of all threads that run the interpreter, as far as they are known.
    pub fn threads(&self, tids: &[u32]) {
        let mut stacks = lock(&self.shared.under_gil.stacks);
        stacks.retain(|tid, _| tids.contains(tid));
        for tid in tids {
            stacks.entry(*tid).or_default();
        }
    }

    /// The id of a code object.
    pub fn code(&self, function: &str, file: &str, first_line: u32, releases: bool) -> u32 {
        let tables = self.recorder.tables();
        tables.code(tables.name(function), tables.name(file), first_line, releases)
    }

    /// Hands in a thread's stack: ids of code objects and lines, innermost first.
    pub fn put(&self, tid: u32, frames: &[(u32, u32)], truncated: bool) {
        let tables = self.recorder.tables();
        let inwards = frames.iter().rev();
        let stack = inwards.fold(0, |parent, (code, line)| tables.stack(parent, *code, *line));
        let seen = Seen { stack, truncated, t_ns: self.t_ns };
        if let Some(last) = lock(&self.shared.under_gil.stacks).get_mut(&tid) {
            *last = Some(seen);
        }
    }

    /// The look is over: how long to pause.
    pub fn end(self) -> Duration {
        let under_gil = &self.shared.under_gil;
        if !under_gil.told.swap(true, Ordering::Relaxed) {
            let why = lock(&under_gil.refused).clone().flatten().unwrap_or_default();
            let state = format!("on: under the GIL, up to 10 times a second, since {why}");
            self.shared.set_source("stacks", state);
            self.shared.store_settings();
        }
        let cost_ns = sys::clock::thread_cpu_ns().saturating_sub(self.began_ns);
        under_gil.unpaid_ns.fetch_add(cost_ns, Ordering::Relaxed);
        pause_after(cost_ns, self.shared.config().budget_percent)
    }
}

fn pause_after(cost_ns: u64, budget_percent: f64) -> Duration {
    let earned = Duration::from_nanos((cost_ns as f64 * 100.0 / budget_percent / SHARE) as u64);
    PAUSE.max(earned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dear_look_is_rare_and_a_cheap_one_no_more_often_than_ten_times_a_second() {
        assert_eq!(pause_after(100_000, 1.0), Duration::from_millis(100));
        assert_eq!(pause_after(2_000_000, 1.0), Duration::from_millis(400));
        assert_eq!(pause_after(2_000_000, 100.0), Duration::from_millis(100));
    }

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
