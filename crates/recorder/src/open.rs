//! The table of open requests: begun and not ended.
//!
//! How it works: a fixed table of slots. A request claims a free slot by a compare-and-swap of the
//! slot's id, fills it and publishes the id; its end stores 0. Readers load the id before and after
//! the fields, and skip a slot whose id changed.
//!
//! What it promises: no lock, allocation or wait. A request that finds no free slot is recorded and
//! judged at its end, but not seen before (`requests_untracked`).

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use format::block::{pack_pair, unpack_pair};
use format::record::{flag, header, Kind};
use format::region::losses;
use format::trace::{self, Trace};

use crate::failures::{self, Failed, Question};
use crate::latency::Slow;
use crate::recorder::{current, is_on};
use crate::rollups::Done;
use crate::twice;
use crate::{append, put_span, Attribute};

/// Slots in the table; a power of two. Requests beyond these are judged only when they end.
const SLOTS: usize = 4096;
/// Threads begin their search spread over this many slots, so that the used slots stay low and the
/// sampler's walk short.
const SPREAD: usize = 64;
/// Number of other threads that can be known to work for one request at a time.
pub const HELPERS: usize = 4;
/// Slot number in the id of an untracked request.
const UNTRACKED: u64 = SLOTS as u64 - 1;

/// An open request as its caller holds it. `id` 0: recording was off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Unique in this process: serial number << 12 | slot.
    pub id: u64,
    /// When it began.
    pub begin_ns: u64,
}

/// An open request as the sampler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenRequest {
    /// As in `Request`.
    pub id: u64,
    /// As in `Request`.
    pub begin_ns: u64,
    /// Its present name.
    pub name: ring::Name,
    /// The thread it began on.
    pub tid: u32,
    /// It runs on an event loop.
    pub on_loop: bool,
    /// Address of the task that works for it, 0 unknown. Never to be followed without a guard: the
    /// task may be gone.
    pub task: u64,
    /// Other threads that work for it now, 0 none. Of more than there is room for: those that began
    /// first, and the last.
    pub helpers: [u32; HELPERS],
}

/// One open request. `id` 0 means free. The other fields are stored before the id is published
/// (release). They may be read torn only while a slot changes hands, which readers notice by
/// loading the id twice.
#[derive(Default)]
struct Slot {
    id: AtomicU64,
    begin_ns: AtomicU64,
    name_tid: AtomicU64,
    /// 0: no event loop; `NO_TASK`: its task is not known; else the task's address.
    on_loop: AtomicU64,
    /// 0, or how it failed (`Failed`), if that was known before its end.
    failed: AtomicU64,
    /// 1: the words of `trace` are set.
    traced: AtomicU64,
    /// Ids that came from outside: trace high, trace low, span, parent, flags of the record.
    trace: [AtomicU64; 5],
    /// Other threads that work for it; a hint for the sampler, so nothing depends on their order.
    helpers: [AtomicU32; HELPERS],
}

/// `Slot.on_loop` of a request on an event loop whose task is not known. No task has this address.
const NO_TASK: u64 = 1;

/// The table of open requests.
pub struct OpenTable {
    slots: Box<[Slot]>,
    serial: AtomicU64,
    /// One past the highest slot ever used. Relaxed: a walk that misses a slot entered at this
    /// instant sees it next time.
    high: AtomicUsize,
    /// The slot that was freed last. A search that finds the first `NEAR` slots taken continues
    /// there: an event loop with a thousand open requests begins its search at the same slot each
    /// time. `FULL`: no slot was free and, as far as known, none has been freed since. Relaxed: a
    /// hint.
    freed: AtomicUsize,
}

/// Slots tried before the hint is used.
const NEAR: usize = 8;
const FULL: usize = usize::MAX;

impl OpenTable {
    pub(crate) fn new() -> OpenTable {
        let slots = (0..SLOTS - 1).map(|_| Slot::default()).collect();
        let freed = AtomicUsize::new(0);
        OpenTable { slots, serial: AtomicU64::new(1), high: AtomicUsize::new(0), freed }
    }

    fn enter(&self, begin_ns: u64, name: ring::Name, tid: u32, on_loop: bool) -> Option<u64> {
        // Relaxed: only uniqueness matters.
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        let start = tid as usize % SPREAD;
        let near = (0..NEAR).map(|probe| start + probe);
        let freed = self.freed.load(Ordering::Relaxed);
        let rest = if freed == FULL { 0 } else { self.slots.len() };
        for index in near.chain((0..rest).map(|probe| freed + probe)) {
            let index = index % self.slots.len();
            let slot = &self.slots[index];
            // Claimed with a value that no reader takes for a request; acquire orders our stores
            // after the last owner's.
            if slot.id.load(Ordering::Relaxed) != 0
                || slot
                    .id
                    .compare_exchange(0, CLAIMED, Ordering::Acquire, Ordering::Relaxed)
                    .is_err()
            {
                continue;
            }
            slot.begin_ns.store(begin_ns, Ordering::Relaxed);
            slot.name_tid.store(pack_pair(name, tid), Ordering::Relaxed);
            slot.on_loop.store(u64::from(on_loop), Ordering::Relaxed);
            slot.failed.store(0, Ordering::Relaxed);
            slot.traced.store(0, Ordering::Relaxed);
            slot.helpers.iter().for_each(|word| word.store(0, Ordering::Relaxed));
            self.high.fetch_max(index + 1, Ordering::Relaxed);
            let id = (serial << 12) | index as u64;
            // Release: pairs with the acquire in `each`.
            slot.id.store(id, Ordering::Release);
            if index == freed {
                self.freed.store(index + 1, Ordering::Relaxed);
            }
            return Some(id);
        }
        self.freed.store(FULL, Ordering::Relaxed);
        None
    }

    /// Requests begun so far.
    pub fn begun(&self) -> u64 {
        self.serial.load(Ordering::Relaxed).saturating_sub(1)
    }

    fn untracked(&self) -> u64 {
        (self.serial.fetch_add(1, Ordering::Relaxed) << 12) | UNTRACKED
    }

    fn rename(&self, id: u64, name: ring::Name) {
        let Some(slot) = self.slot(id) else { return };
        let (_, tid) = unpack_pair(slot.name_tid.load(Ordering::Relaxed));
        slot.name_tid.store(pack_pair(name, tid), Ordering::Relaxed);
    }

    fn set_task(&self, id: u64, task: u64) {
        let Some(slot) = self.slot(id) else { return };
        if slot.on_loop.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Relaxed: a reader that misses it sees it at its next walk.
        slot.on_loop.store(task.max(NO_TASK), Ordering::Relaxed);
    }

    /// Stores that the calling thread works for a request, or, with `done`, no longer does.
    pub(crate) fn help(&self, id: u64, done: bool) {
        let Some(slot) = self.slot(id) else { return };
        let own = sys::thread::cached_tid();
        if done {
            let words = slot.helpers.iter().filter(|word| word.load(Ordering::Relaxed) == own);
            words.for_each(|word| word.store(0, Ordering::Relaxed));
            return;
        }
        // Two threads that take the same word at once: one of them is missing until its next task.
        let free = slot.helpers.iter().find(|word| word.load(Ordering::Relaxed) == 0);
        let [.., last] = &slot.helpers;
        free.unwrap_or(last).store(own, Ordering::Relaxed);
    }

    fn set_failed(&self, id: u64, failed: Failed) {
        let Some(slot) = self.slot(id) else { return };
        if failed.has_no_type() && slot.failed.load(Ordering::Relaxed) != 0 {
            return;
        }
        slot.failed.store(failed.word(), Ordering::Relaxed);
    }

    /// Stores ids that came from outside; an id that is 0 leaves the stored one.
    pub(crate) fn set_trace(&self, told: &Trace) {
        let Some(slot) = self.slot(told.request) else { return };
        let was = self.trace(told.request).unwrap_or_default();
        let or = |new: u64, old: u64| if new == 0 { old } else { new };
        let has_trace = told.trace != 0;
        let kept = Trace {
            trace: if has_trace { told.trace } else { was.trace },
            sampled: if has_trace { told.sampled } else { was.sampled },
            span: or(told.span, was.span),
            parent: or(told.parent, was.parent),
            remote: if told.parent != 0 { told.remote } else { was.remote },
            request: told.request,
            ..Trace::default()
        };
        let [_, _, words @ ..] = kept.words();
        for (place, word) in slot.trace.iter().zip(words.into_iter().chain([kept.flags().into()])) {
            // Relaxed: read by the request's own threads, and by the sampler after `traced`.
            place.store(word, Ordering::Relaxed);
        }
        // Release: pairs with the acquire in `trace`.
        slot.traced.store(1, Ordering::Release);
    }

    /// The ids of an open request that came from outside.
    pub fn trace(&self, id: u64) -> Option<Trace> {
        let slot = self.slot(id)?;
        if slot.traced.load(Ordering::Acquire) == 0 {
            return None;
        }
        let word = |index: usize| slot.trace[index].load(Ordering::Relaxed);
        let flags = word(4) as u16;
        let told = Trace {
            request: id,
            trace: (u128::from(word(0)) << 64) | u128::from(word(1)),
            span: word(2),
            parent: word(3),
            sampled: flags & trace::flag::SAMPLED != 0,
            remote: flags & trace::flag::REMOTE != 0,
            ..Trace::default()
        };
        // Acquire fence: the loads above stay before this second load of the id.
        std::sync::atomic::fence(Ordering::Acquire);
        self.is_open(id).then_some(told)
    }

    /// Frees the slot; returns its name, whether it ran on a loop, and how it failed, if it was
    /// tracked.
    fn leave(&self, id: u64) -> Option<(ring::Name, bool, Failed)> {
        let slot = self.slot(id)?;
        let (name, _) = unpack_pair(slot.name_tid.load(Ordering::Relaxed));
        let on_loop = slot.on_loop.load(Ordering::Relaxed) != 0;
        let failed = Failed::from_word(slot.failed.load(Ordering::Relaxed));
        // Release: our reads above stay before the slot's next owner.
        slot.id.store(0, Ordering::Release);
        self.freed.store((id & UNTRACKED) as usize, Ordering::Relaxed);
        Some((name, on_loop, failed))
    }

    fn slot(&self, id: u64) -> Option<&Slot> {
        let slot = self.slots.get((id & UNTRACKED) as usize)?;
        (slot.id.load(Ordering::Relaxed) == id).then_some(slot)
    }

    /// Calls `each` with every open request. Cost: one pass over the slots that were ever in use at
    /// once.
    pub fn each(&self, mut each: impl FnMut(OpenRequest)) {
        for slot in &self.slots[..self.high.load(Ordering::Relaxed)] {
            let id = slot.id.load(Ordering::Acquire);
            if id == 0 || id == CLAIMED {
                continue;
            }
            let begin_ns = slot.begin_ns.load(Ordering::Relaxed);
            let (name, tid) = unpack_pair(slot.name_tid.load(Ordering::Relaxed));
            let task = slot.on_loop.load(Ordering::Relaxed);
            let (on_loop, task) = (task != 0, if task == NO_TASK { 0 } else { task });
            let word = |index: usize| slot.helpers[index].load(Ordering::Relaxed);
            let helpers = std::array::from_fn(word);
            // Acquire: the loads above stay before this second load of the id.
            std::sync::atomic::fence(Ordering::Acquire);
            if slot.id.load(Ordering::Relaxed) == id {
                each(OpenRequest { id, begin_ns, name, tid, on_loop, task, helpers });
            }
        }
    }

    /// An open request by its id; for callers that keep only the id.
    pub fn find(&self, id: u64) -> Option<Request> {
        let slot = self.slot(id)?;
        Some(Request { id, begin_ns: slot.begin_ns.load(Ordering::Relaxed) })
    }

    /// Whether this request was in the table and is no longer. False for a request that the table
    /// had no room for.
    pub fn has_ended(&self, id: u64) -> bool {
        id & UNTRACKED != UNTRACKED && !self.is_open(id)
    }

    /// Whether this request is still open.
    pub fn is_open(&self, id: u64) -> bool {
        self.slot(id).is_some()
    }
}

/// Id of a slot that is being filled.
const CLAIMED: u64 = u64::MAX;

impl Request {
    /// No request: what `begin` gives while recording is off.
    pub const NONE: Request = Request { id: 0, begin_ns: 0 };

    /// Begins a request on the calling thread. `name` comes from `Recorder::request_name`;
    /// `waited_ns` is how long ago it arrived, when it had to wait for its handler.
    pub fn begin(name: ring::Name, on_loop: bool, waited_ns: u64) -> Request {
        let (true, Some(recorder)) = (is_on(), current()) else {
            return Request::NONE;
        };
        let now = sys::clock::now_ns();
        let begin_ns = now.saturating_sub(waited_ns);
        let open = recorder.open_requests();
        let id =
            open.enter(begin_ns, name, sys::thread::cached_tid(), on_loop).unwrap_or_else(|| {
                recorder.region().lose(losses::REQUESTS_UNTRACKED, 1);
                open.untracked()
            });
        recorder.nap().wake();
        let flags = if on_loop { flag::ASYNC } else { 0 };
        let record = [header(Kind::RequestBegin, 4, flags, name), begin_ns, id, now];
        append(&record, now);
        if waited_ns >= twice::LONG_NS {
            recorder.twice.post(record);
        }
        Request { id, begin_ns }
    }

    /// Gives it another name (a route known only later).
    pub fn rename(self, name: ring::Name) {
        if let Some(recorder) = current() {
            recorder.open_requests().rename(self.id, name);
        }
    }

    /// Stores the address of the task that works for it; only for a request on an event loop. Cost:
    /// two loads, one store.
    pub fn set_task(self, task: u64) {
        if let (true, Some(recorder)) = (self.id != 0, current()) {
            recorder.open_requests().set_task(self.id, task);
        }
    }

    /// Stores that it failed, with the name of the error's type ("": none). Its end is an error
    /// then, whatever `end` is called with. A lookup under a lock.
    pub fn fail(self, kind: &str) {
        let (true, Some(recorder)) = (self.id != 0, current()) else {
            return;
        };
        let bits = recorder.failures().bits_of(kind);
        let name = match kind {
            "" => 0,
            _ => recorder.tables().classed(ring::Class::Target, kind),
        };
        recorder.open_requests().set_failed(self.id, Failed::new(name, bits));
    }

    /// Ends it under its present name; `fallback` names a request that the table had no room for.
    /// Posts it to the trigger if it took too long, and calls the program's predicate.
    pub fn end(self, fallback: ring::Name, error: bool, attributes: &[Attribute<'_>]) {
        if let Some((recorder, question)) = self.finish(fallback, error, attributes) {
            failures::ask(recorder, question);
        }
    }

    /// As `end`, for a place where no code of the program may run (a destructor, a garbage
    /// collection): the predicate is called by the next `ask_postponed`.
    pub fn end_unasked(self, fallback: ring::Name, error: bool, attributes: &[Attribute<'_>]) {
        if let Some((recorder, question)) = self.finish(fallback, error, attributes) {
            failures::postpone(recorder, question);
        }
    }

    fn finish(
        self,
        fallback: ring::Name,
        error: bool,
        attributes: &[Attribute<'_>],
    ) -> Option<(&'static crate::Recorder, Question)> {
        let recorder = current().filter(|_| self.id != 0)?;
        // Before its slot is freed, and only if exemplars are shown.
        let told = match recorder.latencies().is_on() {
            true => recorder.open_requests().trace(self.id),
            false => None,
        };
        let left = recorder.open_requests().leave(self.id);
        let (name, on_loop, failed) = left.unwrap_or((fallback, false, Failed::default()));
        let error = error || failed.is();
        let now = sys::clock::now_ns();
        let flags = (u16::from(error) * flag::ERROR) | (u16::from(on_loop) * flag::ASYNC);
        let fixed @ [begin_ns, end_ns, id] = [self.begin_ns, now, self.id];
        if is_on() {
            put_span(Kind::RequestEnd, flags, name, fixed, attributes, now);
        }
        let took_ns = now.saturating_sub(self.begin_ns);
        let (slow, typical_ns) = recorder.limits().ended(self.id, name, took_ns);
        if is_on() {
            let done = Done { took_ns, typical_ns, slow, failed: error };
            recorder.rollups().ended(name, done);
        }
        if slow && is_on() {
            let head = header(Kind::RequestEnd, 4, flags, name);
            recorder.twice.post([head, begin_ns, end_ns, id]);
        }
        let trace = told.map_or(0, |told| told.trace);
        recorder.latencies().ended(name, Slow { id: self.id, took_ns, at_ns: now, trace });
        recorder.failures().ended(self.id, name, error, failed);
        Some((recorder, Question { id: self.id, name, took_ns, error }))
    }
}
