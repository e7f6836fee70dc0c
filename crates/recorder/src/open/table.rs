//! The table of open requests: begun and not ended.
//!
//! How it works: a fixed table of slots. A request claims a free slot by a compare-and-swap of the
//! slot's id, fills it and publishes the id; its end stores 0. Readers load the id before and after
//! the fields, and skip a slot whose id changed.
//!
//! What it promises: no lock, allocation or wait. A request that finds no free slot is recorded and
//! judged at its end, but not seen before (`requests_untracked`). A reader never gets a mix of two
//! requests, whichever thread begins and ends them (`models`).

#[cfg(all(loom, test))]
use loom::sync::atomic::{fence, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{fence, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use format::block::{pack_pair, unpack_pair};
use format::trace::{self, Trace};

use crate::failures::Failed;

/// Slots in the table and one more; a power of two. Requests beyond these are judged only when they
/// end.
#[cfg(not(all(loom, test)))]
const SLOTS: usize = 4096;
/// For the models: one slot, which each request takes after another.
#[cfg(all(loom, test))]
const SLOTS: usize = 2;
/// Threads begin their search spread over this many slots, so that the used slots stay low and the
/// sampler's walk short.
const SPREAD: usize = 64;
/// Number of other threads that can be known to work for one request at a time.
#[cfg(not(all(loom, test)))]
pub const HELPERS: usize = 4;
#[cfg(all(loom, test))]
pub const HELPERS: usize = 1;
/// Slot number in the id of an untracked request.
const UNTRACKED: u64 = SLOTS as u64 - 1;

/// An open request as its caller holds it. `id` 0: recording was off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Unique in this process, and for what a forked child takes over from its parent: serial
    /// number << 12 | slot.
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
    /// When its loop's thread left its context last, and when the sampler last wrote what its task
    /// awaits. Relaxed: the first is the loop's thread's own; a sample that is seen late costs one
    /// record.
    left_ns: AtomicU64,
    sampled_ns: AtomicU64,
    /// Other threads that work for it; a hint for the sampler, so nothing depends on their order.
    helpers: [AtomicU32; HELPERS],
}

impl Slot {
    /// Code of its request runs again. Since when none ran, if the task was sampled since.
    fn entered(&self) -> Option<u64> {
        let left_ns = self.left_ns.load(Ordering::Relaxed);
        self.left_ns.store(0, Ordering::Relaxed);
        (left_ns != 0 && self.sampled_ns.load(Ordering::Relaxed) >= left_ns).then_some(left_ns)
    }
}

/// `Slot.on_loop` of a request on an event loop whose task is not known. No task has this address.
const NO_TASK: u64 = 1;

/// The next serial number, of all tables of this process: a child goes on where its parent was, as
/// contexts that it took over have the ids of the parent's requests.
#[cfg(not(all(loom, test)))]
static SERIAL: AtomicU64 = AtomicU64::new(1);
#[cfg(all(loom, test))]
loom::lazy_static! { static ref SERIAL: AtomicU64 = AtomicU64::new(1); }

/// The table of open requests.
pub struct OpenTable {
    slots: Box<[Slot]>,
    /// The serial number of its first request.
    first: u64,
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
        let (first, freed) = (SERIAL.load(Ordering::SeqCst), AtomicUsize::new(0));
        OpenTable { slots, first, high: AtomicUsize::new(0), freed }
    }

    pub(crate) fn enter(
        &self,
        begin_ns: u64,
        name: ring::Name,
        tid: u32,
        on_loop: bool,
    ) -> Option<u64> {
        // SeqCst: a thread that naps until one begins is woken behind this (`sys::nap`).
        let serial = SERIAL.fetch_add(1, Ordering::SeqCst);
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
            // Release fence: pairs with the acquire fences in `each` and `trace`. A reader that
            // sees one of the stores below sees that the slot was claimed, too.
            fence(Ordering::Release);
            slot.begin_ns.store(begin_ns, Ordering::Relaxed);
            slot.name_tid.store(pack_pair(name, tid), Ordering::Relaxed);
            slot.on_loop.store(u64::from(on_loop), Ordering::Relaxed);
            slot.failed.store(0, Ordering::Relaxed);
            slot.traced.store(0, Ordering::Relaxed);
            slot.left_ns.store(0, Ordering::Relaxed);
            slot.sampled_ns.store(0, Ordering::Relaxed);
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
        SERIAL.load(Ordering::SeqCst).saturating_sub(self.first)
    }

    /// Whether a request began after `begun` had.
    pub fn began_after(&self, id: u64, begun: u64) -> bool {
        id >> 12 >= self.first + begun
    }

    pub(crate) fn untracked(&self) -> u64 {
        (SERIAL.fetch_add(1, Ordering::SeqCst) << 12) | UNTRACKED
    }

    pub(crate) fn rename(&self, id: u64, name: ring::Name) {
        let Some(slot) = self.slot(id) else { return };
        let (_, tid) = unpack_pair(slot.name_tid.load(Ordering::Relaxed));
        slot.name_tid.store(pack_pair(name, tid), Ordering::Relaxed);
    }

    pub(crate) fn set_task(&self, id: u64, task: u64) {
        let Some(slot) = self.slot(id) else { return };
        if slot.on_loop.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Relaxed: a reader that misses it sees it at its next walk.
        slot.on_loop.store(task.max(NO_TASK), Ordering::Relaxed);
    }

    /// Stores the task that works for a request on an event loop. False: there is another already,
    /// or the request is on none.
    pub fn take_task(&self, id: u64, task: u64) -> bool {
        let Some(slot) = self.slot(id) else { return false };
        let (was, order) = (NO_TASK, Ordering::Relaxed);
        // Relaxed: as `set_task`.
        slot.on_loop.compare_exchange(was, task.max(NO_TASK), order, order).is_ok()
    }

    /// The task no longer works for the request.
    pub fn give_task_back(&self, id: u64, task: u64) {
        let Some(slot) = self.slot(id) else { return };
        let order = Ordering::Relaxed;
        // Relaxed: as `set_task`. It fails where another task works for the request.
        let _ = slot.on_loop.compare_exchange(task, NO_TASK, order, order);
    }

    /// The task of a request is suspended from `now_ns` on, on whichever thread.
    pub(crate) fn task_left(&self, id: u64, now_ns: u64) {
        if let Some(slot) = self.slot(id) {
            slot.left_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// It is polled again. Since when it was suspended, if it was sampled since.
    pub(crate) fn task_entered(&self, id: u64) -> Option<u64> {
        Slot::entered(self.slot(id)?)
    }

    /// Whether the task of a request is suspended, and was sampled since.
    pub fn is_sampled(&self, id: u64) -> bool {
        let Some(slot) = self.slot(id) else { return false };
        let left_ns = slot.left_ns.load(Ordering::Relaxed);
        left_ns != 0 && slot.sampled_ns.load(Ordering::Relaxed) >= left_ns
    }

    /// Stores that the sampler wrote at `now_ns` what the request's task awaits.
    pub fn task_sampled(&self, id: u64, now_ns: u64) {
        if let Some(slot) = self.slot(id) {
            slot.sampled_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// The calling thread leaves a context of the request.
    pub(crate) fn context_left(&self, id: u64, now_ns: u64) {
        if let Some(slot) = self.on_own_loop(id) {
            slot.left_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// The calling thread enters a context of the request. Since when the request's task was
    /// suspended, if it was sampled since.
    pub(crate) fn context_entered(&self, id: u64) -> Option<u64> {
        Slot::entered(self.on_own_loop(id)?)
    }

    /// The slot of a request on an event loop of the calling thread.
    fn on_own_loop(&self, id: u64) -> Option<&Slot> {
        let slot = self.slot(id)?;
        let (_, tid) = unpack_pair(slot.name_tid.load(Ordering::Relaxed));
        let on_loop = slot.on_loop.load(Ordering::Relaxed) != 0;
        (on_loop && tid == sys::thread::cached_tid()).then_some(slot)
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

    pub(crate) fn set_failed(&self, id: u64, failed: Failed) {
        let Some(slot) = self.slot(id) else { return };
        if failed.has_no_type() && slot.failed.load(Ordering::Relaxed) != 0 {
            return;
        }
        slot.failed.store(failed.word(), Ordering::Relaxed);
    }

    /// Stores ids that came from outside; an id that is 0 leaves the stored one.
    pub(crate) fn set_trace(&self, given: &Trace) {
        let Some(slot) = self.slot(given.request) else { return };
        let was = self.trace(given.request).unwrap_or_default();
        let or = |new: u64, old: u64| if new == 0 { old } else { new };
        let has_trace = given.trace != 0;
        let kept = Trace {
            trace: if has_trace { given.trace } else { was.trace },
            sampled: if has_trace { given.sampled } else { was.sampled },
            span: or(given.span, was.span),
            parent: or(given.parent, was.parent),
            remote: if given.parent != 0 { given.remote } else { was.remote },
            request: given.request,
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
        let ids = Trace {
            request: id,
            trace: (u128::from(word(0)) << 64) | u128::from(word(1)),
            span: word(2),
            parent: word(3),
            sampled: flags & trace::flag::SAMPLED != 0,
            remote: flags & trace::flag::REMOTE != 0,
            ..Trace::default()
        };
        // Acquire fence: the loads above stay before this second load of the id.
        fence(Ordering::Acquire);
        self.is_open(id).then_some(ids)
    }

    /// Frees the slot; returns its name, whether it ran on a loop, and how it failed, if it was
    /// tracked.
    pub(crate) fn leave(&self, id: u64) -> Option<(ring::Name, bool, Failed)> {
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
            fence(Ordering::Acquire);
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::OpenTable;

    #[test]
    fn a_childs_requests_have_other_ids_than_its_parents() {
        let enter = |table: &OpenTable| table.enter(5, 1, 64, false).expect("there is a slot");
        let parents = OpenTable::new();
        let theirs = enter(&parents);
        // A forked child makes a table of its own; its thread searches from the same slot.
        let childs = OpenTable::new();
        assert_eq!(childs.begun(), 0);
        assert!(!childs.began_after(theirs, 0) && !childs.is_open(theirs));
        let own = enter(&childs);
        assert_ne!(own, theirs);
        assert!(childs.is_open(own) && !childs.is_open(theirs));
        assert!(childs.began_after(own, 0) && !childs.began_after(own, 1));
        assert_eq!(childs.begun(), 1);
    }
}
