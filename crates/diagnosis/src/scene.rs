//! What a rule may read: the capture (`analysis::index`), and inferences about other threads at a
//! given time.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Deref;

use analysis::index::Index;
use analysis::signatures::{Pattern, Stdlib};
use analysis::timeline::{Segment, State};
use analysis::waits;
use capture::read::Capture;
use format::record::{flag, Sample};
use format::wait::{HolderSource, WaitKind};

use crate::causes::pool_wait;
use crate::crowded::Bursts;
use crate::explain::trace::{Question, Trace};
use crate::explain::{Dropped, Fact, Fate, Inference};
use crate::gil::{GilWaits, Readings};
use crate::wakers::WaitKey;
use crate::woken::Told;

/// Threads a chain of waits is followed through.
const MOST_HOPS: usize = 6;
/// A thread that waits is sampled this often.
const LOOKS_NS: u64 = 100_000_000;
/// A wait that ends this close to its time limit ended by it.
const TIMER_SLACK_NS: u64 = 3_000_000;

/// Another thread that is to blame, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// The thread.
    pub tid: u32,
    /// Where it was.
    pub stack: u32,
    /// Read from the lock or the interpreter, not inferred from timing.
    pub measured: bool,
    /// It is a task of an event loop, and this is what it did, in words.
    pub doing: Option<&'static str>,
    /// Where the first thread was that waited for this one: it made the request wait itself. 0
    /// where this thread did.
    pub through: u32,
    /// What the last of those waited for was the GIL, and no lock.
    pub by_gil: bool,
    /// How it was found.
    pub by: Inference,
}

impl Culprit {
    /// A thread.
    pub fn thread(tid: u32, stack: u32, measured: bool, by: Inference) -> Culprit {
        Culprit { tid, stack, measured, doing: None, through: 0, by_gil: false, by }
    }
}

/// A capture and the questions rules ask of it.
pub struct Scene<'c> {
    /// What records and samples say by themselves.
    pub index: Index<'c>,
    /// The limit of the slow requests, ns: work that takes as long by itself is too slow on a free
    /// machine as well. `u64::MAX` where nothing is judged.
    pub limit_ns: u64,
    /// The last burst of work that was searched for of each thread.
    pub(crate) bursts: RefCell<Bursts>,
    /// Time on a CPU of requests that were asked about, by thread and begin.
    pub(crate) request_work: RefCell<HashMap<(u32, u64), u64>>,
    /// When each thread took up the request that it was at when the capture ended.
    pub(crate) open_requests: OnceCell<HashMap<u32, u64>>,
    /// What samples read of the holder of the GIL; built at the first question.
    pub(crate) gil_readings: OnceCell<Readings>,
    /// The last whole wait for the GIL that was searched for of each thread.
    pub(crate) gil_waits: RefCell<GilWaits>,
    /// Whether the code of a stack gets an item of a pool; of stacks that were asked about.
    pub(crate) pools: RefCell<HashMap<u32, bool>>,
    /// Inferred wakers of waits.
    pub(crate) releasers: RefCell<HashMap<WaitKey, Option<u32>>>,
    /// An inference of a holder by the end of an interval is under way.
    pub(crate) asks_keepers: Cell<bool>,
    /// Where inferences put what they compared.
    pub(crate) trace: Trace,
}

impl<'c> Deref for Scene<'c> {
    type Target = Index<'c>;

    fn deref(&self) -> &Index<'c> {
        &self.index
    }
}

impl<'c> Scene<'c> {
    /// Sets a capture up, to judge requests by a limit.
    pub fn judged(capture: &'c Capture, limit_ns: u64) -> Scene<'c> {
        Scene { limit_ns, ..Scene::new(capture) }
    }

    /// Sets a capture up.
    pub fn new(capture: &'c Capture) -> Scene<'c> {
        Scene {
            index: Index::new(capture),
            limit_ns: u64::MAX,
            bursts: RefCell::default(),
            request_work: RefCell::default(),
            open_requests: OnceCell::new(),
            gil_readings: OnceCell::new(),
            gil_waits: RefCell::default(),
            pools: RefCell::default(),
            releasers: RefCell::default(),
            asks_keepers: Cell::new(false),
            trace: Trace::default(),
        }
    }

    /// Whether `tid` was runnable without a CPU for most of `segment`, and not because its work is
    /// long.
    pub fn starves(&self, tid: u32, segment: &Segment<'_>) -> bool {
        let own = self.timeline(tid, segment.from_ns, segment.to_ns);
        let ready = own.iter().filter(|s| s.state == State::Ready).map(Segment::ns).sum::<u64>();
        ready * 2 > segment.ns() && !self.works_long(tid, segment)
    }

    /// The holder of the lock `segment` waited for; when that thread waited for a lock itself, the
    /// holder of that lock, and so on: the last known holder.
    pub fn lock_holder(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let culprit = self.direct_holder(segment)?;
        // A thread's end has no holder: its waker is the thread that ended, or not known.
        if !culprit.measured && self.joins(segment.stack()) {
            return None;
        }
        let culprit = self.behind(culprit, segment, false);
        // A thread that waited for a thread's end ran because that thread ended, not because it
        // released a lock.
        (culprit.measured || !self.joins(culprit.stack)).then_some(culprit)
    }

    /// The blocker of `culprit`, if it waited for a lock or the GIL for most of the time of
    /// `segment`, then the blocker's blocker, and so on; itself if there is none. `measured`:
    /// guesses end the chain.
    pub fn behind(&self, culprit: Culprit, segment: &Segment<'_>, measured: bool) -> Culprit {
        self.behind_with(culprit, segment, measured, true)
    }

    /// As `behind`; with `pools` also the thread that ended a wait for a pool, as far as samples
    /// show.
    pub(crate) fn behind_with(
        &self,
        mut culprit: Culprit,
        segment: &Segment<'_>,
        measured: bool,
        pools: bool,
    ) -> Culprit {
        let mut seen = vec![segment.tid, culprit.tid];
        while seen.len() < MOST_HOPS {
            let (from, to) = (segment.from_ns, segment.to_ns);
            let own = self.timeline(culprit.tid, from, to);
            let longest = waits::longest_lock(&own).filter(|w| w.waited_ns * 2 > segment.ns());
            let longest = longest.as_ref().map(|wait| &wait.longest);
            // Without switch records it is not known which thread ran when a wait for a pool ended.
            let of_pool = |wait: &&Segment<'_>| {
                let asks = pools && !measured && !wait.exact;
                asks && pool_wait::is_of_a_pool(self, wait.stack())
            };
            let keeper = || longest.filter(of_pool).and_then(|wait| self.keeper(wait));
            // Guessed, and it is where the wait began: another waiter.
            let fellow = |next: &Culprit| {
                let stands = || self.same_place(next.stack, segment.stack());
                !next.measured && (seen.contains(&next.tid) || stands())
            };
            let holder = longest.and_then(|wait| self.direct_holder(wait)).filter(|c| !fellow(c));
            let next = holder.or_else(keeper);
            let next = next.or_else(|| longest.and_then(|wait| self.crossed(wait)));
            let Some(next) = next.or_else(|| self.gil_keeper(&own, segment)) else { break };
            if fellow(&next) || measured && !next.measured || seen.contains(&next.tid) {
                break;
            }
            seen.push(next.tid);
            let through = if culprit.through == 0 { culprit.stack } else { culprit.through };
            culprit = Culprit { measured: culprit.measured && next.measured, through, ..next };
        }
        culprit
    }

    /// Whether the code of a wait waits for a thread's end.
    pub fn joins(&self, stack: u32) -> bool {
        self.frames.fits(stack, Pattern::Within(2, Stdlib::ThreadJoin))
    }

    /// The holder of the lock `segment` waits for, in a deadlock: that thread waited most of the
    /// while for a lock that this one held, itself or through others, or is behind some that
    /// blocked each other so.
    pub fn holder_in_a_circle(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let first = self.measured_holder(segment)?;
        let mut met = vec![segment.tid, first.tid];
        let mut at = first;
        for _ in 0..MOST_HOPS {
            let own = self.timeline(at.tid, segment.from_ns, segment.to_ns);
            let waits =
                own.iter().filter(|s| s.state == State::Wait && s.wait() == WaitKind::Futex);
            let longest = waits.max_by_key(|s| s.ns()).filter(|s| s.ns() * 2 > segment.ns())?;
            at = self.measured_holder(longest)?;
            if met.contains(&at.tid) {
                return Some(first);
            }
            met.push(at.tid);
        }
        None
    }

    /// The holder that samples of the lock name.
    fn named_holder(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let (from, to) = (segment.from_ns, segment.to_ns);
        // The segment's own samples first; then what any sample of the same wait knows.
        let wait = self.whole_wait(segment);
        let own = segment.sample.into_iter().chain(self.samples_in(segment.tid, from, to));
        let whole = self.samples_of(&wait);
        let known = |s: &&Sample| s.holder_source != HolderSource::None && s.lock_holder != 0;
        let holder = |s: &Sample| s.lock_holder;
        let mut named = counted(own.filter(known).map(holder).filter(|t| *t != segment.tid));
        if named.is_empty() {
            named = counted(whole.filter(known).map(holder).filter(|t| *t != segment.tid));
        }
        let tid = most_common(&named)?;
        let question = Question::about(Inference::NamedHolder, segment);
        let lost = (Some(tid), Dropped::LessEvidence);
        self.trace_tally(question, (&named, Fact::Samples), lost, &[]);
        Some(Culprit::thread(tid, self.main_stack(tid, from, to), true, question.by))
    }

    /// The holder, if samples or the kernel's records name it.
    fn measured_holder(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let told = || matches!(self.told_waker(segment), Told::By(_));
        let named = self.named_holder(segment);
        let by_kernel = || self.direct_holder(segment).filter(|c| c.measured);
        named.or_else(|| told().then(by_kernel).flatten())
    }

    fn direct_holder(&self, segment: &Segment<'_>) -> Option<Culprit> {
        if let Some(named) = self.named_holder(segment) {
            return Some(named);
        }
        let (from, to) = (segment.from_ns, segment.to_ns);
        let wait = self.whole_wait(segment);
        if self.timed_out(segment) {
            return None;
        }
        let told = self.told_waker(segment);
        let inside = || self.inside_of(segment);
        if let Some(tid) = (told == Told::Nothing).then(inside).flatten() {
            let by = Inference::InsideCall;
            return Some(Culprit::thread(tid, self.main_stack(tid, from, to), false, by));
        }
        let by = match told {
            Told::By(_) => Inference::WakeRecord,
            _ => Inference::RanBefore,
        };
        let question = Question::about(by, segment);
        let thread = |tid: u32| Culprit::thread(tid, self.main_stack(tid, from, to), false, by);
        let busy = |tid: u32| {
            let busy = told != Told::By(tid) && self.computes_on(tid, (wait.from_ns, wait.to_ns));
            if busy {
                self.trace_one(question, &thread(tid), Fate::Dropped(Dropped::ComputesOn));
            }
            busy
        };
        let Some(tid) = self.releaser(segment).filter(|tid| !busy(*tid)) else {
            // Estimates hardly show which thread ran then. Of a Condition the thread counts that
            // did something else until then; a lock of its own kind is held by whichever thread
            // comes next, too.
            let told = self.frames.leaf_at(segment.stack(), Stdlib::Wait);
            let keeper = if told && !segment.exact { self.keeper(segment) } else { None };
            return keeper.filter(|c| !self.same_place(c.stack, segment.stack()));
        };
        let stack = self.main_stack(tid, from, to);
        // A thread that was at the waiter's place most of the while waited as well; a thread that
        // had no work then held nothing.
        let dropped = match self.same_place(stack, segment.stack()) {
            true => Some(Dropped::SamePlace),
            false => pool_wait::is_idle(self, stack).then_some(Dropped::Idle),
        };
        if let Some(why) = dropped {
            self.trace_one(question, &thread(tid), Fate::Dropped(why));
            return None;
        }
        let stack = self.let_go_at(segment, tid, stack);
        // A thread's end is no lock that anybody had.
        let measured = told == Told::By(tid) && stack != 0 && !self.joins(segment.stack());
        Some(Culprit::thread(tid, stack, measured, by))
    }

    /// Whether the wait ended because its time was up: nobody ended it.
    pub fn timed_out(&self, segment: &Segment<'_>) -> bool {
        let limited = |s: &&Sample| s.timeout_ns > 1 && s.flags & flag::USAGE == 0;
        let Some(sample) = segment.sample.filter(limited) else { return false };
        let end_ns = self.whole_wait(segment).to_ns;
        let last = self.capture.samples.get(&segment.tid).and_then(|s| s.last());
        // By samples alone, of a thread that was not seen again, it lasted up to one more sample
        // longer.
        let slack_ns = match last {
            Some(last) if !segment.exact && last.t_ns <= end_ns => LOOKS_NS + TIMER_SLACK_NS,
            _ => TIMER_SLACK_NS,
        };
        end_ns.saturating_add(slack_ns) >= sample.t_ns.saturating_add(sample.timeout_ns)
    }
}

/// How many samples name each thread.
fn counted(tids: impl Iterator<Item = u32>) -> Vec<(u32, u64)> {
    let mut counts: Vec<(u32, u64)> = Vec::new();
    for tid in tids {
        match counts.iter_mut().find(|(t, _)| *t == tid) {
            Some((_, count)) => *count += 1,
            None => counts.push((tid, 1)),
        }
    }
    counts
}

fn most_common(counts: &[(u32, u64)]) -> Option<u32> {
    counts.iter().max_by_key(|(_, count)| *count).map(|(tid, _)| *tid)
}
