//! What a rule may look at: the capture, and questions about other threads at a given time.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use analysis::frames::Frames;
use analysis::timeline::{self, slice_between, Late, Segment, State};
use capture::read::{Capture, GcRow, SpanRow};
use format::own_span;
use format::record::{flag, Await, Sample, TARGET_IS_NAME};
use format::usage::Usage;
use format::wait::{HolderSource, WaitKind};

use crate::causes::pool_wait;
use crate::crowded::Bursts;
use crate::gaps::Gap;
use crate::wakers::WaitKey;
use crate::woken::Told;

/// How far a sample of another thread may lie from the moment asked about.
const NEAR_NS: u64 = 60_000_000;

/// A stretch shorter than this part of a time is a sliver of it.
const SLIVERS: u64 = 10;
/// Answers that are remembered; beyond, the memory is emptied.
const MOST_MAIN_STACKS: usize = 64 * 1024;
/// Threads a chain of waits is followed through.
const MOST_HOPS: usize = 6;
/// A thread that waits is looked at this often.
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
    /// Where the first of those stood that waited for this one: who made the request wait itself. 0
    /// where this one did.
    pub through: u32,
    /// What the last of those waited for was the GIL, and no lock.
    pub by_gil: bool,
}

impl Culprit {
    /// A thread.
    pub fn thread(tid: u32, stack: u32, measured: bool) -> Culprit {
        Culprit { tid, stack, measured, doing: None, through: 0, by_gil: false }
    }
}

/// A capture and the questions rules ask of it.
pub struct Scene<'c> {
    /// The capture.
    pub capture: &'c Capture,
    /// Its frames.
    pub frames: Frames<'c>,
    /// Times in which the recorder's own thread did not get to run though it wanted to:
    /// begin, end, and the part it was runnable for.
    pub gaps: Vec<Gap>,
    /// The limit of the slow requests, ns: work that takes as long by itself is too slow on a free
    /// machine as well. `u64::MAX` where nothing is judged.
    pub limit_ns: u64,
    /// Threads that run requests on an event loop.
    pub(crate) loops: HashSet<u32>,
    /// Times inside `fork`.
    pub(crate) forks: Vec<&'c SpanRow>,
    /// The last burst of work that was looked for of each thread.
    bursts: RefCell<Bursts>,
    /// The last time each loop was found busy without a break: its begin and end, and how long that counts.
    pub(crate) busy: RefCell<HashMap<u32, (u64, u64, u64)>>,
    /// Of each thread asked about.
    late: RefCell<HashMap<u32, Rc<Late>>>,
    /// What threads mostly did, of those asked about lately: many pieces ask about one collection.
    main_stacks: RefCell<HashMap<(u32, u64, u64), u32>>,
    /// Whether the code of a stack gets something out of a pool; of stacks that were asked about.
    pub(crate) pools: RefCell<HashMap<u32, bool>>,
    /// Who let go of what was waited for, as inferred.
    pub(crate) releasers: RefCell<HashMap<WaitKey, Option<u32>>>,
    /// Name ids of the spans in which the recorder writes a capture, and of those in which a thread
    /// was inside the program's predicate.
    writes: Option<u32>,
    predicate: Option<u32>,
    /// Time, request and index of all looks at suspended tasks, by time; put together when somebody
    /// asks.
    looks: OnceCell<Vec<(u64, u64, usize)>>,
    /// Begin and end of the requests, and of pieces of them, that each thread worked for, by time; put
    /// together when somebody asks.
    pub(crate) served: OnceCell<HashMap<u32, Vec<(u64, u64)>>>,
    /// Places of the pieces of each request that were handed to other threads; put together when somebody
    /// asks.
    pub(crate) handed: OnceCell<HashMap<u64, Vec<usize>>>,
    /// The longest collection.
    longest_gc_ns: u64,
    /// It is being found out whose stay ended a wait.
    pub(crate) asks_keepers: Cell<bool>,
}

impl<'c> Scene<'c> {
    /// Sets a capture up, to judge requests by a limit.
    pub fn judged(capture: &'c Capture, limit_ns: u64) -> Scene<'c> {
        Scene { limit_ns, ..Scene::new(capture) }
    }

    /// Sets a capture up.
    pub fn new(capture: &'c Capture) -> Scene<'c> {
        let on_loop = capture.requests.iter().filter(|r| r.on_loop);
        let loops = on_loop.map(|r| r.tid).collect();
        let id = |name: &str| capture.name_id(name);
        let fork = id(own_span::FORK);
        let forks = capture.own_spans.iter().filter(|s| Some(s.name) == fork).collect();
        let (writes, predicate) = (id(own_span::CAPTURE), id(own_span::PREDICATE));
        let (frames, gaps, busy) = (Frames::new(capture), Gap::all(capture), RefCell::default());
        let (looks, served, handed) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        let gc_ns = capture.gcs.iter().map(|g| g.end_ns.saturating_sub(g.begin_ns));
        let longest_gc_ns = gc_ns.max().unwrap_or(0);
        let (limit_ns, bursts) = (u64::MAX, RefCell::default());
        Scene {
            capture,
            frames,
            gaps,
            limit_ns,
            loops,
            forks,
            bursts,
            busy,
            late: RefCell::default(),
            main_stacks: RefCell::default(),
            pools: RefCell::default(),
            releasers: RefCell::default(),
            writes,
            predicate,
            looks,
            served,
            handed,
            longest_gc_ns,
            asks_keepers: Cell::new(false),
        }
    }

    /// The garbage collection that covers most of `[from, to)`, on any thread.
    pub fn gc_over(&self, from_ns: u64, to_ns: u64) -> Option<&'c GcRow> {
        let overlap = |g: &&GcRow| g.end_ns.min(to_ns).saturating_sub(g.begin_ns.max(from_ns));
        let gc = self.gcs_in(from_ns, to_ns).iter().max_by_key(overlap)?;
        (overlap(&gc) * 2 >= to_ns - from_ns).then_some(gc)
    }

    /// Collections that may have been under way in `[from, to)`, by their begin.
    pub fn gcs_in(&self, from_ns: u64, to_ns: u64) -> &'c [GcRow] {
        let gcs = &self.capture.gcs;
        let begin =
            gcs.partition_point(|g| g.begin_ns.saturating_add(self.longest_gc_ns) < from_ns);
        let end = gcs.partition_point(|g| g.begin_ns < to_ns);
        &gcs[begin..end.max(begin)]
    }

    /// The sample that tells where `tid` was at `t_ns`: the last one before, if the thread has not
    /// run since; else the nearest, if it is near.
    pub fn sample_near(&self, tid: u32, t_ns: u64) -> Option<&'c Sample> {
        let samples = self.capture.samples.get(&tid)?;
        let before = samples[..samples.partition_point(|s| s.t_ns <= t_ns)].last();
        if let Some(still) = before.filter(|s| self.is_out(tid, s.t_ns, t_ns)) {
            return Some(still);
        }
        let around = slice_between(samples, t_ns.saturating_sub(NEAR_NS), t_ns + NEAR_NS);
        around.iter().min_by_key(|s| s.t_ns.abs_diff(t_ns))
    }

    /// Whether switch records say that `tid` was off the CPU all of `[from, to)`.
    fn is_out(&self, tid: u32, from_ns: u64, to_ns: u64) -> bool {
        let Some(off) = self.capture.off_cpu.get(&tid) else { return false };
        let last = off[..off.partition_point(|o| o.out_ns <= from_ns)].last();
        last.is_some_and(|o| o.in_ns >= to_ns)
    }

    /// The timeline of `tid` in `[from, to)`. Cost: what lies in it; the first time, all of that thread.
    pub fn timeline(&self, tid: u32, from_ns: u64, to_ns: u64) -> Vec<Segment<'c>> {
        let all = || Rc::new(timeline::late_of(self.capture, tid));
        let late = self.late.borrow_mut().entry(tid).or_insert_with(all).clone();
        timeline::of_thread_with(self.capture, tid, &late, (from_ns, to_ns))
    }

    /// The samples of `tid` in `[from, to)`.
    pub fn samples_in(&self, tid: u32, from_ns: u64, to_ns: u64) -> &'c [Sample] {
        let samples = self.capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
        slice_between(samples, from_ns, to_ns)
    }

    /// The stack `tid` spent most of `[from, to)` in; the nearest one to its middle when nothing is
    /// known of it. By time, not by samples: a thread that waits is sampled less often than one that
    /// runs. A stack that it spent a sliver of the time in tells nothing of the rest. Cost: one
    /// timeline, unless it was asked before.
    pub fn main_stack(&self, tid: u32, from_ns: u64, to_ns: u64) -> u32 {
        let key = (tid, from_ns, to_ns);
        if let Some(known) = self.main_stacks.borrow().get(&key) {
            return *known;
        }
        let found = self.find_main_stack(tid, from_ns, to_ns);
        let mut known = self.main_stacks.borrow_mut();
        if known.len() >= MOST_MAIN_STACKS {
            known.clear();
        }
        known.insert(key, found);
        found
    }

    fn find_main_stack(&self, tid: u32, from_ns: u64, to_ns: u64) -> u32 {
        let mut sums: Vec<(u32, u64)> = Vec::new();
        let own = self.timeline(tid, from_ns, to_ns);
        for segment in own.iter().filter(|s| s.stack() != 0) {
            match sums.iter_mut().find(|(stack, _)| *stack == segment.stack()) {
                Some((_, sum)) => *sum += segment.ns(),
                None => sums.push((segment.stack(), segment.ns())),
            }
        }
        if sums.iter().all(|(_, sum)| sum * 2 <= to_ns - from_ns) {
            self.merge_by_place(&mut sums);
        }
        let most = sums.into_iter().max_by_key(|(_, sum)| *sum);
        let most = most.filter(|(_, sum)| sum * SLIVERS >= to_ns - from_ns).map(|(stack, _)| stack);
        let middle = from_ns + (to_ns - from_ns) / 2;
        most.or_else(|| self.sample_near(tid, middle).map(|s| s.stack)).unwrap_or(0)
    }

    /// One entry for all stacks that end in the same function of the user's or a library's: code that
    /// computes is seen at another place of what it calls each time. The heaviest stack stands for
    /// them; what it has the sum of all.
    fn merge_by_place(&self, sums: &mut Vec<(u32, u64)>) {
        sums.sort_by_key(|(stack, sum)| (std::cmp::Reverse(*sum), *stack));
        let mut places: Vec<Option<(String, String)>> = Vec::new();
        let mut merged: Vec<(u32, u64)> = Vec::new();
        for (stack, sum) in sums.drain(..) {
            let place = self.frames.innermost(stack).map(|p| (p.qualified, p.file));
            match places.iter().position(|known| *known == place && place.is_some()) {
                Some(at) => merged[at].1 += sum,
                None => {
                    places.push(place);
                    merged.push((stack, sum));
                }
            }
        }
        *sums = merged;
    }

    /// What the thread of `segment` used around it, by the readings of its samples; None when these
    /// cover too little. Cost: one look at each sample within a quarter of a second.
    pub fn usage_around(&self, segment: &Segment<'_>) -> Option<Usage> {
        /// Kernel and user time come in steps of 10 ms: a shorter stretch says nothing.
        const LEAST_NS: u64 = 80_000_000;
        const AROUND_NS: u64 = 250_000_000;
        let middle = segment.from_ns + segment.ns() / 2;
        let read = |s: &Sample| s.usage().map(|usage| (s.t_ns, usage));
        let near = self.samples_in(
            segment.tid,
            segment.from_ns.saturating_sub(AROUND_NS),
            segment.to_ns + AROUND_NS,
        );
        let readings: Vec<(u64, Usage)> = near.iter().filter_map(read).collect();
        let (mut first, mut last) = {
            let at = readings.partition_point(|(t, _)| *t <= middle);
            (at.saturating_sub(1), at)
        };
        // Outwards from the segment, until the stretch is long enough.
        loop {
            let (begin, end) = (readings.get(first)?, readings.get(last.min(readings.len() - 1))?);
            if end.0.saturating_sub(begin.0) >= LEAST_NS {
                return Some(end.1.since(begin.1));
            }
            let (before, after) = (first > 0, last + 1 < readings.len());
            match (before, after) {
                (false, false) => return None,
                (true, false) => first -= 1,
                (false, true) => last += 1,
                (true, true) => {
                    let left = begin.0 - readings[first - 1].0;
                    let right = readings[last + 1].0 - end.0;
                    if left <= right {
                        first -= 1;
                    } else {
                        last += 1;
                    }
                }
            }
        }
    }

    /// The looks at any suspended task in `[from, to)`.
    pub fn looks_between(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = &'c Await> + '_ {
        let looks = self.looks.get_or_init(|| {
            let rows = self.capture.awaits.iter();
            let keys = rows.flat_map(|(id, rows)| {
                rows.iter().enumerate().map(|(index, row)| (row.t_ns, *id, index))
            });
            let mut all: Vec<_> = keys.collect();
            all.sort_unstable();
            all
        });
        let begin = looks.partition_point(|(t_ns, ..)| *t_ns < from_ns);
        let end = looks.partition_point(|(t_ns, ..)| *t_ns < to_ns).max(begin);
        let awaits = &self.capture.awaits;
        looks[begin..end].iter().filter_map(|(_, id, index)| awaits.get(id)?.get(*index))
    }

    /// The part of `[from, to)` in which a thread of the recorder's wrote a capture, ns.
    pub fn recorder_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let own = self.capture.own_spans.iter().filter(|s| Some(s.name) == self.writes);
        own.map(|s| s.end_ns.min(to_ns).saturating_sub(s.begin_ns.max(from_ns))).sum()
    }

    /// The part of `segment` that its thread spent inside the program's predicate, ns.
    pub fn predicate_ns(&self, segment: &Segment<'_>) -> u64 {
        let name = |s: &&SpanRow| s.tid == segment.tid && Some(s.name) == self.predicate;
        let own = self.capture.own_spans.iter().filter(name);
        let inside = |s: &SpanRow| {
            s.end_ns.min(segment.to_ns).saturating_sub(s.begin_ns.max(segment.from_ns))
        };
        own.map(inside).sum()
    }

    /// What a sample's target says in words: a peer, a path; None for a bare address.
    pub fn target(&self, sample: &Sample) -> Option<String> {
        let named = sample.target & TARGET_IS_NAME != 0;
        let words = named.then(|| self.capture.name(sample.target as u32).to_owned());
        words.filter(|words| !words.is_empty())
    }

    /// What the wait that `segment` is a piece of was for, as any look at it told: the first may come too
    /// soon to tell.
    pub fn target_of_wait(&self, segment: &Segment<'_>) -> Option<String> {
        let own = segment.sample?;
        if let Some(target) = self.target(own) {
            return Some(target);
        }
        let off = self.off_around(segment)?;
        let looks = self.samples_in(segment.tid, off.out_ns, off.in_ns).iter();
        looks.filter(|s| s.wait == own.wait).find_map(|s| self.target(s))
    }

    /// Who held the GIL while `segment` waited for it: the thread most samples of the wait name;
    /// without one, the only other thread that ran Python then.
    pub fn gil_holder(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let (from, to) = (segment.from_ns, segment.to_ns);
        let inside = self.samples_in(segment.tid, from, to.max(from + 1));
        let own = segment.sample.into_iter().chain(inside);
        let named = own.filter(|s| s.wait == WaitKind::Gil && s.gil_holder != 0);
        if let Some(tid) = most_common(named.map(|s| s.gil_holder).filter(|t| *t != segment.tid)) {
            return Some(Culprit::thread(tid, self.main_stack(tid, from, to), true));
        }
        let tid = self.busiest(segment.tid, from, to)?;
        Some(Culprit::thread(tid, self.main_stack(tid, from, to), false))
    }

    /// Whether the work that `tid` was at during `segment` takes longer than the limit by itself, on
    /// however free a machine. Cost: a timeline, unless it is the work asked for last.
    pub fn works_long(&self, tid: u32, segment: &Segment<'_>) -> bool {
        let (from, to) = (segment.from_ns, segment.to_ns);
        let found = self.bursts.borrow_mut().around(self, tid, from, to);
        found.ran_ns >= self.limit_ns
    }

    /// Whether `tid` was runnable without a CPU for most of `segment`, and not because its work is
    /// long.
    pub fn starves(&self, tid: u32, segment: &Segment<'_>) -> bool {
        let own = self.timeline(tid, segment.from_ns, segment.to_ns);
        let ready = own.iter().filter(|s| s.state == State::Ready).map(Segment::ns).sum::<u64>();
        ready * 2 > segment.ns() && !self.works_long(tid, segment)
    }

    /// Who held the lock `segment` waited for; when that thread waited for a lock itself, who held
    /// that one, and so on: the last that is known.
    pub fn lock_holder(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let culprit = self.direct_holder(segment)?;
        // A thread's end has no holder: who ran then is told by who ended, or not at all.
        if !culprit.measured && self.joins(segment.stack()) {
            return None;
        }
        let culprit = self.behind(culprit, segment, false);
        // One that waited for a thread's end ran because that thread ended, not because it let go.
        (culprit.measured || !self.joins(culprit.stack)).then_some(culprit)
    }

    /// Who kept `culprit` waiting for a lock, or for the GIL, if it waited for most of the time of `segment`, and who
    /// that one; itself if nobody. `measured`: guesses end the chain.
    pub fn behind(&self, culprit: Culprit, segment: &Segment<'_>, measured: bool) -> Culprit {
        self.behind_with(culprit, segment, measured, true)
    }

    /// As `behind`; with `pools` also who ended a wait for a pool, as far as looks tell.
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
            let longest = timeline::longest_lock_wait(&own).filter(|(ns, _)| ns * 2 > segment.ns());
            let longest = longest.map(|(_, wait)| wait);
            // Without switch records nobody is known who ran when a wait for a pool ended.
            let of_pool = |wait: &&Segment<'_>| {
                let asks = pools && !measured && !wait.exact;
                asks && pool_wait::is_of_a_pool(self, wait.stack())
            };
            let keeper = || longest.filter(of_pool).and_then(|wait| self.keeper(wait));
            // Guessed, and it stands where the wait began: another of those that wait.
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
        let mut inner = self.frames.of(stack).take(2);
        inner.any(|f| self.frames.is_stdlib(&f, "threading.py", &["join", "_wait_for_tstate_lock"]))
    }

    /// The holder of the lock `segment` waits for, when nobody could go on: that thread waited most of the while for a
    /// lock that this one held, itself or through others, or stands behind some that kept each other waiting so.
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

    /// The holder that looks at the lock named.
    fn named_holder(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let (from, to) = (segment.from_ns, segment.to_ns);
        // The piece's own samples first; then what any sample of the same wait knows.
        let lock = segment.sample.map_or(0, |s| s.target);
        let (begin, end) = self.whole_wait(segment, lock);
        let own = segment.sample.into_iter().chain(self.samples_in(segment.tid, from, to));
        let whole = self.samples_in(segment.tid, begin, end).iter().filter(|s| s.target == lock);
        let known = |s: &&Sample| s.holder_source != HolderSource::None && s.lock_holder != 0;
        let holder = |s: &Sample| s.lock_holder;
        let named = most_common(own.filter(known).map(holder).filter(|t| *t != segment.tid));
        let named = named
            .or_else(|| most_common(whole.filter(known).map(holder).filter(|t| *t != segment.tid)));
        named.map(|tid| Culprit::thread(tid, self.main_stack(tid, from, to), true))
    }

    /// The holder, if looks or the kernel told who it is.
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
        let (begin, end) = self.whole_wait(segment, segment.sample.map_or(0, |s| s.target));
        if self.timed_out(segment) {
            return None;
        }
        let told = self.told_waker(segment);
        let inside = || self.inside_of(segment);
        if let Some(tid) = (told == Told::Nothing).then(inside).flatten() {
            return Some(Culprit::thread(tid, self.main_stack(tid, from, to), false));
        }
        let busy = |tid: u32| told != Told::By(tid) && self.computes_on(tid, (begin, end));
        let Some(tid) = self.releaser(segment).filter(|tid| !busy(*tid)) else {
            // Estimates hardly tell who ran then. Of a Condition it is who did something else until then
            // that counts; a lock of its own kind is held by whoever comes next, too.
            let leaf = self.frames.of(segment.stack()).next();
            let told = leaf.is_some_and(|f| self.frames.is_stdlib(&f, "threading.py", &["wait"]));
            let keeper = if told && !segment.exact { self.keeper(segment) } else { None };
            return keeper.filter(|c| !self.same_place(c.stack, segment.stack()));
        };
        let stack = self.main_stack(tid, from, to);
        // One that stood where we stand most of the while waited as we did; one that had no work then
        // held nothing.
        if self.same_place(stack, segment.stack()) || pool_wait::is_idle(self, stack) {
            return None;
        }
        let stack = self.let_go_at(segment, tid, stack);
        // A thread's end is no lock that anybody had.
        let measured = told == Told::By(tid) && stack != 0 && !self.joins(segment.stack());
        Some(Culprit::thread(tid, stack, measured))
    }

    /// Whether two stacks have the same known innermost place.
    pub fn same_place(&self, a: u32, b: u32) -> bool {
        let place = self.frames.innermost(a);
        place.is_some() && place == self.frames.innermost(b)
    }

    /// Whether the wait ended because its time was up: nobody ended it.
    pub fn timed_out(&self, segment: &Segment<'_>) -> bool {
        let limited = |s: &&Sample| s.timeout_ns > 1 && s.flags & flag::USAGE == 0;
        let Some(sample) = segment.sample.filter(limited) else { return false };
        let (_, end_ns) = self.whole_wait(segment, sample.target);
        let last = self.capture.samples.get(&segment.tid).and_then(|s| s.last());
        // By looks alone, of a thread that was not seen again, it lasted up to one more look longer.
        let slack_ns = match last {
            Some(last) if !segment.exact && last.t_ns <= end_ns => LOOKS_NS + TIMER_SLACK_NS,
            _ => TIMER_SLACK_NS,
        };
        end_ns.saturating_add(slack_ns) >= sample.t_ns.saturating_add(sample.timeout_ns)
    }

    /// Begin and end of the wait that `segment` is a piece of (pieces end between samples).
    pub(crate) fn whole_wait(&self, segment: &Segment<'_>, lock: u64) -> (u64, u64) {
        if let Some(around) = self.off_around(segment) {
            return (around.out_ns, around.in_ns);
        }
        // Without switch records: as long as samples see the same wait, and what waits is not done.
        let later = self.samples_in(segment.tid, segment.from_ns, u64::MAX).iter();
        let same = |s: &&Sample| s.wait == WaitKind::Futex && s.target == lock;
        let (other, last) = (later.clone().find(|s| !same(s)), later.last());
        // A thread that ends with its request is not looked at behind its wait: that ended with the request, too.
        let near = |done: &u64| last.is_some_and(|s| done.saturating_sub(s.t_ns) <= 2 * LOOKS_NS);
        let done = self.request_end(segment.tid, segment.from_ns);
        let end = match other {
            Some(other) => other.t_ns.min(done.unwrap_or(u64::MAX)),
            None => done.filter(near).or(last.map(|s| s.t_ns)).unwrap_or(segment.to_ns),
        };
        (self.waited_since(segment, same), end.max(segment.to_ns))
    }

    /// The first of the looks before `segment` that saw the same wait, its thread not having run since.
    fn waited_since(&self, segment: &Segment<'_>, same: impl Fn(&&Sample) -> bool) -> u64 {
        /// CPU time of less than this between two looks is what looks take it for.
        const STILL_NS: u64 = 200_000;
        let Some(own) = segment.sample.filter(|s| same(s)) else { return segment.from_ns };
        let looks = self.samples_in(segment.tid, 0, own.t_ns + 1);
        let still = |pair: &&[Sample]| {
            let told = pair[1].flags & flag::TIMES != 0 && pair[1].cpu_ns < STILL_NS;
            told && same(&&pair[0])
        };
        let first = looks.windows(2).rev().take_while(still).last().map(|pair| pair[0].t_ns);
        first.map_or(segment.from_ns, |t_ns| t_ns.min(segment.from_ns))
    }

    /// The thread with Python code that ran longest in `[from, to)`, besides `not`.
    pub fn busiest(&self, not: u32, from_ns: u64, to_ns: u64) -> Option<u32> {
        let run_ns = |tid: u32| -> u64 {
            let timeline = self.timeline(tid, from_ns, to_ns);
            timeline.iter().filter(|s| s.state == State::Run).map(Segment::ns).sum()
        };
        // Who never stood in Python code (the recorder's threads, a library's own) has no GIL.
        let python = |tid: u32| {
            let looks = self.samples_in(tid, from_ns.saturating_sub(NEAR_NS), to_ns + NEAR_NS);
            looks.iter().any(|s| self.frames.of(s.stack).any(|f| !f.native))
        };
        let others = self.capture.samples.keys().filter(|tid| **tid != not && python(**tid));
        // Of two that ran as long always the same: a map has no order.
        let (ns, tid) = others.map(|tid| (run_ns(*tid), *tid)).max()?;
        (ns * 2 > to_ns - from_ns).then_some(tid)
    }
}

fn most_common(tids: impl Iterator<Item = u32>) -> Option<u32> {
    let mut counts: Vec<(u32, usize)> = Vec::new();
    for tid in tids {
        match counts.iter_mut().find(|(t, _)| *t == tid) {
            Some((_, count)) => *count += 1,
            None => counts.push((tid, 1)),
        }
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(tid, _)| tid)
}
