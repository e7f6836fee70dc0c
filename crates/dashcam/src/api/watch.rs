//! The watch over a request's task on a native async runtime: what it awaits, since when, and who
//! ends that.
//!
//! How it works: each poll of the task's future goes through `Watch::poll`, which passes on a waker
//! of its own. A future that waits clones it where it waits; then the stack is copied into the
//! task's cell (`samplers::native_tasks`). The clone that is woken says which of several awaits
//! came. If the sampler has seen the task suspended, the waking thread leaves its stack, too.
//!
//! ```text
//!  runtime > poll > Instrumented > Watch::poll > handler > client > lock > clone
//!                                  |------------ copied ----------------------|
//! ```
//!
//! What it promises: the program's futures are polled and woken as without it, once for each time.
//! While nothing records, one load and a branch for each poll. Otherwise two clock reads for each
//! poll, an allocation and a copy of the stack (some kilobytes) for each await; memory is bounded
//! (`MOST_KEPT_BYTES`). No lock that another thread may hold for long. What is missing on purpose:
//! futures inside of a watched one, and other tasks of its request: their awaits are its own, or
//! not what it waits for.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use format::region::losses;
use samplers::native_tasks::{is_full, post, task_word, Awaits, TaskCell, Woken};
use sys::own_stack::{from_here, Base};
use sys::waker::{polled, Clones};

use crate::api::current::{current_in, current_request, door, epoch};

thread_local! {
    /// A watched future is polled on this thread: those inside of it are not watched.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The watch over one future. For bindings: `dashcam_tracing::Instrument` puts it around futures.
#[derive(Default)]
pub struct Watch {
    task: Option<Arc<Task>>,
}

struct Task {
    cell: TaskCell,
    epoch: u32,
    request: u64,
    /// The stacks of the present poll's awaits. Only the thread that polls the task locks it.
    awaits: Mutex<Awaits>,
    /// The version of the cell whose suspension was ended. Relaxed: a number on its own.
    woken: AtomicU64,
}

impl Watch {
    /// Calls `poll`, which polls the future, with a context whose waker is watched, if the calling
    /// thread works for a request on an event loop.
    pub fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<R>,
    ) -> Poll<R> {
        let epoch = door();
        let request = if epoch == 0 { 0 } else { current_in(epoch) };
        if request == 0 || INSIDE.get() {
            self.end();
            return poll(cx);
        }
        let Some(task) = self.task(epoch, request) else { return poll(cx) };
        if task.cell.polled() {
            recorder::task_entered(request);
        }
        if let Ok(mut awaits) = task.awaits.try_lock() {
            awaits.clear();
        }
        let _inside = Inside::enter();
        let out = from_here(|base| {
            let of_poll = OfPoll { task, parent: cx.waker(), base };
            polled(&of_poll, poll)
        });
        match &out {
            Poll::Pending => task.suspended(),
            Poll::Ready(_) => self.end(),
        }
        out
    }

    /// The future is done, or works for another request. Clones of its waker may live on.
    fn end(&mut self) {
        let Some(task) = self.task.take() else { return };
        task.cell.polled();
        if let Ok(mut awaits) = task.awaits.try_lock() {
            *awaits = Awaits::default();
        }
        if let Some(recorder) = recorder::current().filter(|r| r.epoch() == task.epoch) {
            recorder.open_requests().give_task_back(task.request, task_word(task.cell.address()));
        }
    }

    /// The task of this future; None: another one works for the request.
    fn task(&mut self, epoch: u32, request: u64) -> Option<&Arc<Task>> {
        let own = |task: &Arc<Task>| (task.epoch, task.request) == (epoch, request);
        if !self.task.as_ref().is_some_and(own) {
            self.end();
            let cell = TaskCell::new(request);
            let (awaits, woken) = (Mutex::default(), AtomicU64::new(0));
            let task = Arc::new(Task { cell, epoch, request, awaits, woken });
            let word = task_word(task.cell.address());
            let recorder = recorder::current()?;
            self.task = recorder.open_requests().take_task(request, word).then_some(task);
        }
        self.task.as_ref()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end();
    }
}

/// `INSIDE` is set while it lives, also where a poll unwinds.
struct Inside;

impl Inside {
    fn enter() -> Inside {
        INSIDE.set(true);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

impl Task {
    /// The poll has ended, and the task waits.
    fn suspended(&self) {
        let Ok(awaits) = self.awaits.try_lock() else { return };
        let now = sys::clock::now_ns();
        // Before the cell can be read: a sample is of this suspension.
        recorder::task_left(self.request, now);
        self.cell.suspended(&awaits, now);
    }

    /// The await `index` of the poll that ended with `version` came.
    #[inline(never)]
    fn woken(&self, index: usize, version: u64) {
        let is_present = self.cell.version() == version && self.epoch == epoch();
        let Some(recorder) = recorder::current().filter(|_| is_present) else { return };
        let is_sampled = recorder.open_requests().is_sampled(self.request);
        if !is_sampled || self.woken.swap(version, Ordering::Relaxed) == version {
            return;
        }
        let is_posted = post(Woken {
            request: self.request,
            cell: self.cell.address(),
            index,
            t_ns: sys::clock::now_ns(),
            tid: sys::thread::cached_tid(),
            by_request: current_request(),
            ..Woken::default()
        });
        recorder.region().lose(losses::STACKS_REFUSED, u64::from(!is_posted));
    }
}

/// One poll.
struct OfPoll<'a> {
    task: &'a Arc<Task>,
    parent: &'a Waker,
    base: &'a Base<'a>,
}

impl Clones for OfPoll<'_> {
    fn cloned(&self) -> Waker {
        let awaits = self.task.awaits.try_lock();
        let index = awaits.ok().and_then(|mut awaits| awaits.add(self.base));
        if index.is_none() && is_full() {
            if let Some(recorder) = recorder::current() {
                recorder.region().lose(losses::STACKS_REFUSED, 1);
            }
        }
        // The version that the cell has when this poll has ended.
        let version = self.task.cell.version() + 1;
        let (task, parent) = (Arc::clone(self.task), self.parent.clone());
        Waker::from(Arc::new(Clone { task, parent, index, version }))
    }

    fn wake(&self) {
        self.parent.wake_by_ref();
    }
}

/// The clone that a future keeps.
struct Clone {
    task: Arc<Task>,
    parent: Waker,
    /// Which of the poll's awaits it is for, if there was room for that.
    index: Option<usize>,
    version: u64,
}

impl Wake for Clone {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(index) = self.index {
            self.task.woken(index, self.version);
        }
        self.parent.wake_by_ref();
    }
}
