//! Requests, spans and events from Rust: the guards behind `request!`, `span!` and `event!`.
//!
//! How it works: a guard holds when it began and its attributes, and writes one record when it is
//! dropped. The request that a thread works for is in a thread-local word, beside the epoch of the
//! recorder it belongs to: a forked child does not work for its parent's request.
//!
//! What it promises: off, one load and a branch, and no attribute is evaluated. On, no lock,
//! allocation or syscall after the first use of a call site and the first record of a thread. A
//! guard that outlives its recorder (a fork came between) records nothing. In a child that has not
//! recorded since its fork the first use starts the recorder, which takes locks: not in a signal
//! handler.
//!
//! Missing on purpose: guards across `await`. They belong to a thread and are not `Send`; futures
//! are the business of the `tracing` layer.

use std::marker::PhantomData;

use format::record::Value;
use format::region::losses;
use recorder::{Attribute, OpenPlace, Request};
use ring::Name;

use crate::api::current::{current_in, current_request, door, epoch, swap_current_request};
use crate::api::held::Held;
use crate::api::names::{self, Site};
use crate::api::traces;

/// Of a guard that must stay on its thread.
type OneThread = PhantomData<*const ()>;

/// What a guard has for attributes: the keys of its call site, and values.
struct Attributes<const N: usize> {
    keys: &'static [Site],
    values: [Held; N],
}

impl<const N: usize> Attributes<N> {
    fn set(&mut self, key: &str, value: Held) {
        match self.keys.iter().zip(&mut self.values).find(|(site, _)| site.text() == key) {
            Some((_, place)) => *place = value,
            None => lost_attribute(),
        }
    }

    /// Calls `with` with those that are known.
    #[inline]
    fn list<R>(&self, epoch: u32, with: impl FnOnce(&[Attribute<'_>]) -> R) -> R {
        let mut list: [Attribute<'_>; N] = [(0, Value::Bool(false)); N];
        let mut known = 0;
        for (key, held) in self.keys.iter().zip(&self.values) {
            if held.is_cut() {
                lost_attribute();
            }
            if let Some(value) = held.value() {
                list[known] = (key.id(epoch), value);
                known += 1;
            }
        }
        with(&list[..known])
    }
}

/// Counts an attribute that was left out, in `attributes_cut`. For bindings.
#[cold]
pub fn lost_attribute() {
    if let Some(recorder) = recorder::current() {
        recorder.region().lose(losses::ATTRIBUTES_CUT, 1);
    }
}

/// Nested work; recorded when dropped, as failed when a panic drops it. Made by `span!`.
#[must_use = "the span ends when this is dropped: bind it to a name, `let _span = ...`"]
pub struct SpanGuard<const N: usize> {
    /// 0: recording was off, nothing to do.
    epoch: u32,
    name: Name,
    begin_ns: u64,
    request: u64,
    /// Where captures find it while it is open.
    place: OpenPlace,
    failed: bool,
    panicking: bool,
    held: Attributes<N>,
    one_thread: OneThread,
}

impl<const N: usize> SpanGuard<N> {
    /// The guard of a span that is not recorded.
    #[inline]
    #[doc(hidden)]
    pub fn off() -> Self {
        Self::made(0, 0, 0, &[], [const { Held::Later }; N])
    }

    #[inline]
    #[doc(hidden)]
    pub fn begin(epoch: u32, name: Name, keys: &'static [Site], values: [Held; N]) -> Self {
        Self::made(epoch, name, sys::clock::now_ns(), keys, values)
    }

    #[inline]
    fn made(
        epoch: u32,
        name: Name,
        begin_ns: u64,
        keys: &'static [Site],
        values: [Held; N],
    ) -> Self {
        let on = epoch != 0;
        let request = if on { current_in(epoch) } else { 0 };
        let place = match on {
            true => recorder::begin_span(name, begin_ns, request),
            false => OpenPlace::NONE,
        };
        SpanGuard {
            epoch,
            name,
            begin_ns,
            request,
            place,
            failed: false,
            panicking: on && std::thread::panicking(),
            held: Attributes { keys, values },
            one_thread: PhantomData,
        }
    }

    /// Gives an attribute that the macro named (`rows = dashcam::Later`) its value. Another key is
    /// left out and counted in `attributes_cut`.
    pub fn set(&mut self, key: &str, value: impl Into<Held>) {
        if self.epoch != 0 {
            self.held.set(key, value.into());
        }
    }

    /// Marks it as failed.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    fn record(&self) {
        if recorder::on_epoch() != self.epoch {
            return;
        }
        let failed = self.failed || (std::thread::panicking() && !self.panicking);
        let (name, begin_ns, request) = (self.name, self.begin_ns, self.request);
        self.held.list(self.epoch, |list| recorder::span(name, begin_ns, request, failed, list));
    }
}

impl<const N: usize> Drop for SpanGuard<N> {
    #[inline]
    fn drop(&mut self) {
        if self.epoch != 0 {
            self.record();
            recorder::end_span(self.place, self.begin_ns);
        }
    }
}

/// A unit of work whose latency is judged; ends when dropped, as failed when a panic drops it. Made
/// by `request!`.
#[must_use = "the request ends when this is dropped: bind it to a name, `let _request = ...`"]
pub struct RequestGuard<const N: usize> {
    /// 0: recording was off, nothing to do.
    epoch: u32,
    name: Name,
    open: Request,
    outer: u64,
    failed: bool,
    panicking: bool,
    held: Attributes<N>,
    one_thread: OneThread,
}

impl<const N: usize> RequestGuard<N> {
    /// The guard of a request that is not recorded.
    #[inline]
    #[doc(hidden)]
    pub fn off() -> Self {
        let held = Attributes { keys: &[], values: [const { Held::Later }; N] };
        let (failed, panicking) = (false, false);
        let (open, outer, one_thread) = (Request::NONE, 0, PhantomData);
        RequestGuard { epoch: 0, name: 0, open, outer, failed, panicking, held, one_thread }
    }

    #[doc(hidden)]
    pub fn begin(epoch: u32, name: Name, keys: &'static [Site], values: [Held; N]) -> Self {
        let open = Request::begin(name, false, 0);
        let outer = swap_current_request(open.id);
        let panicking = std::thread::panicking();
        let held = Attributes { keys, values };
        let one_thread = PhantomData;
        RequestGuard { epoch, name, open, outer, failed: false, panicking, held, one_thread }
    }

    /// Its id, unique in this process; 0: it is not recorded. Give it to `in_request`.
    pub fn id(&self) -> u64 {
        self.open.id
    }

    /// Makes it part of its caller's trace; see `continue_trace`.
    pub fn continue_trace(&self, traceparent: &str, tracestate: &str) -> bool {
        self.epoch != 0 && traces::continue_trace(self.open.id, traceparent, tracestate)
    }

    /// As `SpanGuard::set`.
    pub fn set(&mut self, key: &str, value: impl Into<Held>) {
        if self.epoch != 0 {
            self.held.set(key, value.into());
        }
    }

    /// Gives it another name: a route known only later. A lookup under a lock.
    pub fn rename(&mut self, name: &str) {
        if self.epoch != 0 && recorder::on_epoch() == self.epoch {
            self.name = names::dynamic_request(self.epoch, name);
            self.open.rename(self.name);
        }
    }

    /// Marks it as failed.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// Marks it as failed with an error of this type, for rules like `on_error="Timeout"`. A lookup
    /// under a lock.
    pub fn fail_as(&mut self, kind: &str) {
        self.failed = true;
        if self.epoch != 0 && recorder::on_epoch() == self.epoch {
            self.open.fail(kind);
        }
    }

    fn end(&self) {
        if self.epoch != epoch() {
            return;
        }
        if current_request() == self.open.id {
            swap_current_request(self.outer);
        }
        let failed = self.failed || (std::thread::panicking() && !self.panicking);
        self.held.list(self.epoch, |list| self.open.end(self.name, failed, list));
    }
}

impl<const N: usize> Drop for RequestGuard<N> {
    #[inline]
    fn drop(&mut self) {
        if self.epoch != 0 {
            self.end();
        }
    }
}

/// The body of `event!`.
#[doc(hidden)]
pub fn event_now<const N: usize>(epoch: u32, name: Name, keys: &'static [Site], values: [Held; N]) {
    let request = current_request();
    Attributes { keys, values }.list(epoch, |list| recorder::event(name, request, list));
}

/// The request that `carry` was called in, to be continued on another thread.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    epoch: u32,
    request: u64,
    queued_ns: u64,
}

/// Takes the current request along to another thread. The time from here until `run` or `enter`
/// there counts as waiting for that thread (in a pool's queue, say).
///
/// ```
/// let carried = dashcam::carry();
/// let resized = std::thread::spawn(move || carried.run(|| 2 + 2));
/// assert_eq!(resized.join().unwrap(), 4);
/// ```
pub fn carry() -> Carried {
    let epoch = door();
    let (request, queued_ns) = match epoch {
        0 => (0, 0),
        _ => (current_request(), sys::clock::now_ns()),
    };
    Carried { epoch, request, queued_ns }
}

impl Carried {
    /// Works for the request until the guard is dropped.
    pub fn enter(self) -> TaskGuard {
        TaskGuard::begin(self.epoch, self.request, self.queued_ns)
    }

    /// Works for the request in `work`.
    pub fn run<R>(self, work: impl FnOnce() -> R) -> R {
        let _task = self.enter();
        work()
    }
}

/// Works for request `id` (of `RequestGuard::id`) on this thread in `work`. `carry` also records
/// how long the work was in a queue before.
pub fn in_request<R>(id: u64, work: impl FnOnce() -> R) -> R {
    let _task = TaskGuard::begin(recorder::on_epoch(), id, 0);
    work()
}

/// Work for a request on another thread than its own; recorded when dropped.
#[must_use = "the work ends when this is dropped: bind it to a name, `let _task = ...`"]
pub struct TaskGuard {
    epoch: u32,
    request: u64,
    queued_ns: u64,
    begin_ns: u64,
    outer: u64,
    one_thread: OneThread,
}

impl TaskGuard {
    /// `queued_ns` 0: it lay in no queue.
    fn begin(epoch: u32, request: u64, queued_ns: u64) -> TaskGuard {
        let one_thread = PhantomData;
        if request == 0 || epoch == 0 || recorder::on_epoch() != epoch {
            let (request, queued_ns) = (0, 0);
            return TaskGuard { epoch: 0, request, queued_ns, begin_ns: 0, outer: 0, one_thread };
        }
        let begin_ns = sys::clock::now_ns();
        let queued_ns = if queued_ns == 0 { begin_ns } else { queued_ns };
        let outer = swap_current_request(request);
        TaskGuard { epoch, request, queued_ns, begin_ns, outer, one_thread }
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        static TASK: Site = Site::new("task");
        if self.epoch == 0 || self.epoch != epoch() {
            return;
        }
        recorder::task(TASK.id(self.epoch), self.queued_ns, self.begin_ns, self.request);
        if current_request() == self.request {
            swap_current_request(self.outer);
        }
    }
}
