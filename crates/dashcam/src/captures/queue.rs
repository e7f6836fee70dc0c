//! The queue of captures: any thread posts a job; `dashcam-capture` makes it and says how that
//! ended.
//!
//! ```text
//!  snap, the trigger, the control socket > jobs > dashcam-capture > file, `made`, the job's `done`
//!                                 flush_wanted > sampler > flushed, before each copy
//! ```
//! What it promises: jobs are made in the order in which they came, also those that were posted
//! just before the sampler left. Where `dashcam-capture` could not be started, none waits.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use format::region::losses;

use crate::captures::verdict::Verdicts;
use crate::lock::lock;

/// Captures whose path is in `status`.
const REMEMBERED: usize = 50;

/// A capture to be written.
pub(crate) struct Job {
    pub reason: String,
    /// The text of the rules it was made under, where that is not the setting's.
    pub slow: Option<String>,
    /// The request that it is made for.
    pub fired: Option<Fired>,
    /// It reaches back to here, if that is longer ago than the setting `window`.
    pub reaches_ns: Option<u64>,
    /// The receiver waits for the result.
    pub done: Option<SyncSender<Result<PathBuf, String>>>,
}

/// The request that a capture is made for.
pub(crate) struct Fired {
    pub id: ring::Name,
    pub name: String,
    /// 0: not known.
    pub took_ns: u64,
}

/// A capture that was written.
#[derive(Clone)]
pub(crate) struct Made {
    pub path: PathBuf,
    /// The time it reaches over.
    pub from_ns: u64,
    pub to_ns: u64,
}

/// The queue, and what came of its jobs.
#[derive(Default)]
pub(crate) struct Queue {
    jobs: Mutex<VecDeque<Job>>,
    came: Condvar,
    /// The sampler has left (or never came): no more jobs will follow, and `dashcam-capture` may
    /// leave, too. Release and acquire: the sampler's last jobs are in the queue before
    /// `dashcam-capture` sees that.
    sampler_left: AtomicBool,
    /// Raised to get the open states into the ring; answered by the sampler in `flushed`.
    flush_wanted: AtomicU64,
    flushed: AtomicU64,
    /// A capture is being written.
    saving: AtomicBool,
    made: Mutex<Vec<Made>>,
    /// Why there is no `dashcam-capture`; empty while there is.
    unattended: Mutex<String>,
    /// Captures written; how long the last one took. Relaxed counters.
    pub count: AtomicU64,
    pub last_took_ns: AtomicU64,
    last_error: Mutex<String>,
    /// What was said of captures.
    pub verdicts: Mutex<Verdicts>,
    /// To be dropped by `dashcam-capture`: that takes the kernel up to 50 ms.
    retired: Mutex<Option<sys::perf::Wakings>>,
}

/// What `dashcam-capture` is to do.
pub(crate) enum Next {
    Job(Job),
    /// None came in time.
    Idle,
    /// Nobody will post another.
    End,
}

impl Queue {
    pub(crate) fn post(&self, job: Job) {
        let why = lock(&self.unattended).clone();
        if !why.is_empty() {
            return self.refuse(job, why);
        }
        lock(&self.jobs).push_back(job);
        self.came.notify_one();
    }

    /// `dashcam-capture` could not be started: each job fails at once.
    pub(crate) fn is_unattended(&self, why: String) {
        *lock(&self.unattended) = why;
    }

    fn refuse(&self, job: Job, why: String) {
        if let Some(recorder) = recorder::current() {
            recorder.region().lose(losses::CAPTURES_FAILED, 1);
        }
        self.failed(&why);
        // An error: nobody waits for it.
        let _ = job.done.map(|done| done.try_send(Err(why)));
    }

    /// Wakes `dashcam-capture`: something else is wanted of it.
    pub(crate) fn notify(&self) {
        self.came.notify_all();
    }

    /// The next job, for which it waits twice `idle` at most. `wanted`: something else is;
    /// `stopping`: recording is to stop.
    pub(crate) fn next(
        &self,
        idle: Duration,
        wanted: impl Fn() -> bool,
        stopping: impl Fn() -> bool,
    ) -> Next {
        let mut jobs = lock(&self.jobs);
        for _ in 0..2 {
            if let Some(job) = jobs.pop_front() {
                return Next::Job(job);
            }
            if stopping() && self.sampler_left.load(Ordering::Acquire) {
                return Next::End;
            }
            if wanted() {
                return Next::Idle;
            }
            let waited = self.came.wait_timeout(jobs, idle);
            jobs = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        Next::Idle
    }

    /// No more jobs will follow but by `snap`.
    pub(crate) fn sampler_left(&self) {
        self.sampler_left.store(true, Ordering::Release);
        self.came.notify_all();
    }

    /// Wants the open states in the ring. Whether they are there is `is_flushed`'s answer to this
    /// number.
    pub(crate) fn want_flush(&self) -> u64 {
        self.flush_wanted.fetch_add(1, Ordering::AcqRel) + 1
    }

    pub(crate) fn is_flushed(&self, wanted: u64) -> bool {
        // Acquire: pairs with the sampler's release after it wrote.
        self.flushed.load(Ordering::Acquire) >= wanted
    }

    /// For the sampler: whether the open states are wanted.
    pub(crate) fn wants_flush(&self) -> bool {
        // Relaxed: `answer_flush` follows.
        self.flushed.load(Ordering::Relaxed) != self.flush_wanted.load(Ordering::Relaxed)
    }

    /// For the sampler: calls `write` if the open states are wanted.
    pub(crate) fn answer_flush(&self, write: impl FnOnce()) {
        let wanted = self.flush_wanted.load(Ordering::Acquire);
        if self.flushed.load(Ordering::Relaxed) == wanted {
            return;
        }
        write();
        // Release: what was appended is in the ring before `dashcam-capture` goes on.
        self.flushed.store(wanted, Ordering::Release);
    }

    /// What `write` returns, which writes a capture.
    pub(crate) fn saving<T>(&self, write: impl FnOnce() -> T) -> T {
        self.saving.store(true, Ordering::Release);
        let written = write();
        self.saving.store(false, Ordering::Release);
        written
    }

    pub(crate) fn is_saving(&self) -> bool {
        self.saving.load(Ordering::Acquire)
    }

    /// A capture was written.
    pub(crate) fn captured(&self, made: Made) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut list = lock(&self.made);
        list.push(made);
        if list.len() > REMEMBERED {
            list.remove(0);
        }
    }

    /// The last captures, oldest first.
    pub(crate) fn made(&self) -> Vec<Made> {
        lock(&self.made).clone()
    }

    /// A capture could not be written. False: the one before failed alike.
    pub(crate) fn failed(&self, error: &str) -> bool {
        let mut last = lock(&self.last_error);
        let new = *last != *error;
        if new {
            last.replace_range(.., error);
        }
        new
    }

    pub(crate) fn last_error(&self) -> String {
        lock(&self.last_error).clone()
    }

    /// Gives `dashcam-capture` something to drop.
    pub(crate) fn retire(&self, wakings: Option<sys::perf::Wakings>) {
        *lock(&self.retired) = wakings;
    }

    pub(crate) fn drop_retired(&self) {
        let retired = lock(&self.retired).take();
        drop(retired);
    }
}
