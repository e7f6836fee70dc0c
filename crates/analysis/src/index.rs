//! A capture and questions about its threads at a given time.
//!
//! How it works: rows are looked up by thread and time. What takes a walk over many of them (lists
//! by time, the lateness of a thread, the stack that most of a time was spent in) is cached at the
//! first question.
//!
//! What it promises: answers follow from records and samples alone, and are the same however often
//! and in whatever order the questions come. Missing on purpose: blame.

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use capture::read::{Capture, GcRow, OffCpu, QuickMap, SpanRow, TaskRow};
use format::own_span;
use format::record::{Await, Sample, TARGET_IS_NAME};

use crate::frames::{Frames, Function, Place};
use crate::gaps::Gap;
use crate::thresholds::{self, is_part};
use crate::timeline::{self, overlap_ns, slice_between, Late, Segment, State};
use crate::words;

/// Answers that are remembered; beyond, the memory is emptied.
const MAIN_STACKS_MAX: usize = 64 * 1024;

/// Whether it is a thread of dashcam's own, which serves nobody.
pub fn is_of_the_recorder(capture: &Capture, tid: u32) -> bool {
    capture.thread_name(tid).is_some_and(words::is_own_thread)
}

/// A capture and what was found out about it so far.
pub struct Index<'c> {
    /// The capture.
    pub capture: &'c Capture,
    /// Its frames.
    pub frames: Frames<'c>,
    /// Times in which the recorder's own thread did not get to run though it wanted to:
    /// begin, end, and the part it was runnable for.
    pub gaps: Vec<Gap>,
    /// Times inside `fork`.
    pub forks: Vec<&'c SpanRow>,
    /// The threads of which there are samples, by id: the capture's map has no order.
    pub threads: Vec<u32>,
    /// Those of them that are the program's: none of the recorder's own.
    program: Vec<u32>,
    /// Threads that run requests on an event loop.
    pub(crate) loops: HashSet<u32>,
    /// The last time each loop was found busy without a break: its begin and end, and how long that
    /// counts.
    pub(crate) busy: RefCell<HashMap<u32, (u64, u64, u64)>>,
    /// Of each thread asked about.
    late: RefCell<HashMap<u32, Rc<Late>>>,
    /// What threads mostly did, of those asked about lately: many segments ask about one
    /// collection.
    main_stacks: RefCell<HashMap<(u32, u64, u64), u32>>,
    /// Places by stack.
    innermost: RefCell<HashMap<u32, Option<Rc<Place>>>>,
    /// Name ids of the spans in which the recorder writes a capture, and of those in which a thread
    /// was inside the program's predicate.
    writes: Option<u32>,
    predicate: Option<u32>,
    /// Time, request and index of all samples of suspended tasks, by time; built at the first
    /// question.
    await_samples: OnceCell<Vec<(u64, u64, usize)>>,
    /// Begin and end of the requests, and of parts of them, that each thread worked for, by time;
    /// built at the first question.
    served: OnceCell<QuickMap<u32, Vec<(u64, u64)>>>,
    /// Places of the parts of each request that were handed to other threads; built at the first
    /// question.
    handed: OnceCell<HashMap<u64, Vec<usize>>>,
    /// The name of each request; built at the first question.
    request_names: OnceCell<QuickMap<u64, u32>>,
    /// The longest collection.
    longest_gc_ns: u64,
}

impl<'c> Index<'c> {
    /// Sets a capture up.
    pub fn new(capture: &'c Capture) -> Index<'c> {
        let on_loop = capture.requests.iter().filter(|r| r.on_loop);
        let id = |name: &str| capture.name_id(name);
        let fork = id(own_span::FORK);
        let forks = capture.own_spans.iter().filter(|s| Some(s.name) == fork).collect();
        let mut threads: Vec<u32> = capture.samples.keys().copied().collect();
        threads.sort_unstable();
        let mut program = threads.clone();
        program.retain(|tid| !is_of_the_recorder(capture, *tid));
        let gc_ns = capture.gcs.iter().map(|g| g.end_ns.saturating_sub(g.begin_ns));
        Index {
            capture,
            frames: Frames::new(capture),
            gaps: Gap::all(capture),
            forks,
            threads,
            program,
            loops: on_loop.map(|r| r.tid).collect(),
            busy: RefCell::default(),
            late: RefCell::default(),
            main_stacks: RefCell::default(),
            innermost: RefCell::default(),
            writes: id(own_span::CAPTURE),
            predicate: id(own_span::PREDICATE),
            await_samples: OnceCell::new(),
            served: OnceCell::new(),
            handed: OnceCell::new(),
            request_names: OnceCell::new(),
            longest_gc_ns: gc_ns.max().unwrap_or(0),
        }
    }

    /// The garbage collection that covers most of `[from, to)`, on any thread.
    pub fn gc_over(&self, from_ns: u64, to_ns: u64) -> Option<&'c GcRow> {
        let overlap = |g: &&GcRow| overlap_ns((g.begin_ns, g.end_ns), (from_ns, to_ns));
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

    /// The sample that shows where `tid` was at `t_ns`: the last one before, if the thread has not
    /// run since; else the nearest, if it is near.
    pub fn sample_near(&self, tid: u32, t_ns: u64) -> Option<&'c Sample> {
        let samples = self.capture.samples.get(&tid)?;
        let before = samples[..samples.partition_point(|s| s.t_ns <= t_ns)].last();
        if let Some(still) = before.filter(|s| self.is_out(tid, s.t_ns, t_ns)) {
            return Some(still);
        }
        let around = slice_between(
            samples,
            t_ns.saturating_sub(thresholds::sample_near_ns()),
            t_ns + thresholds::sample_near_ns(),
        );
        around.iter().min_by_key(|s| s.t_ns.abs_diff(t_ns))
    }

    /// Whether switch records say that `tid` was off the CPU all of `[from, to)`.
    fn is_out(&self, tid: u32, from_ns: u64, to_ns: u64) -> bool {
        let Some(off) = self.capture.off_cpu.get(&tid) else { return false };
        let last = off[..off.partition_point(|o| o.out_ns <= from_ns)].last();
        last.is_some_and(|o| o.in_ns >= to_ns)
    }

    /// The timeline of `tid` in `[from, to)`. Cost: what lies in it; the first time, all of that
    /// thread.
    pub fn timeline(&self, tid: u32, from_ns: u64, to_ns: u64) -> Vec<Segment<'c>> {
        let all = || Rc::new(timeline::late_of(self.capture, tid));
        let late = self.late.borrow_mut().entry(tid).or_insert_with(all).clone();
        timeline::of_thread_with(self.capture, tid, &late, (from_ns, to_ns))
    }

    /// How long `tid` did in `[from, to)` what `did` says of its segments. Cost: a timeline.
    pub fn ns_of(
        &self,
        tid: u32,
        (from_ns, to_ns): (u64, u64),
        did: impl Fn(&Segment<'_>) -> bool,
    ) -> u64 {
        self.timeline(tid, from_ns, to_ns).iter().filter(|s| did(s)).map(Segment::ns).sum()
    }

    /// How long `tid` was on a CPU in `[from, to)`. Cost: a timeline.
    pub fn ran_ns(&self, tid: u32, times: (u64, u64)) -> u64 {
        self.ns_of(tid, times, |s| s.state == State::Run)
    }

    /// The program's threads but for one. The recorder's own have nothing that these wait for.
    pub fn others(&self, not: u32) -> impl Iterator<Item = u32> + use<'_, 'c> {
        self.program.iter().copied().filter(move |tid| *tid != not)
    }

    /// The samples of `tid` in `[from, to)`.
    pub fn samples_in(&self, tid: u32, from_ns: u64, to_ns: u64) -> &'c [Sample] {
        slice_between(self.all_samples(tid), from_ns, to_ns)
    }

    /// All samples of `tid`.
    pub fn all_samples(&self, tid: u32) -> &'c [Sample] {
        self.capture.samples.get(&tid).map_or(&[][..], Vec::as_slice)
    }

    /// All times off the CPU of `tid`, from switch records.
    pub fn off_cpu(&self, tid: u32) -> &'c [OffCpu] {
        self.capture.off_cpu.get(&tid).map_or(&[][..], Vec::as_slice)
    }

    /// All samples of a request's tasks; of 0 those of tasks that work for no request.
    pub fn awaits_of(&self, request: u64) -> &'c [Await] {
        self.capture.awaits.get(&request).map_or(&[][..], Vec::as_slice)
    }

    /// The stack `tid` spent most of `[from, to)` in; the nearest one to its middle when nothing is
    /// known of it. By time, not by samples: a thread that waits is sampled less often than one
    /// that runs. A stack that covers a sliver of the time says nothing of the rest. Cost: one
    /// timeline, unless it was asked before.
    pub fn main_stack(&self, tid: u32, from_ns: u64, to_ns: u64) -> u32 {
        let key = (tid, from_ns, to_ns);
        if let Some(known) = self.main_stacks.borrow().get(&key) {
            return *known;
        }
        let found = self.find_main_stack(tid, from_ns, to_ns);
        let mut known = self.main_stacks.borrow_mut();
        if known.len() >= MAIN_STACKS_MAX {
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
        let most = most
            .filter(|(_, sum)| is_part(*sum, thresholds::small_part(), to_ns - from_ns))
            .map(|(stack, _)| stack);
        let middle = from_ns + (to_ns - from_ns) / 2;
        most.or_else(|| self.sample_near(tid, middle).map(|s| s.stack)).unwrap_or(0)
    }

    /// One entry for all stacks that end in the same function of the user's or a library's: code
    /// that computes is seen at another place of what it calls each time. The heaviest stack stands
    /// for them; what it has the sum of all.
    fn merge_by_place(&self, sums: &mut Vec<(u32, u64)>) {
        sums.sort_by_key(|(stack, sum)| (std::cmp::Reverse(*sum), *stack));
        let mut places: Vec<Option<Function>> = Vec::new();
        let mut merged: Vec<(u32, u64)> = Vec::new();
        for (stack, sum) in sums.drain(..) {
            let place = self.frames.innermost(stack).map(|p| p.in_function());
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

    /// The samples of any suspended task in `[from, to)`.
    pub fn await_samples_between(
        &self,
        from_ns: u64,
        to_ns: u64,
    ) -> impl Iterator<Item = &'c Await> + use<'_, 'c> {
        let await_samples = self.await_samples.get_or_init(|| {
            let rows = self.capture.awaits.iter();
            let keys = rows.flat_map(|(id, rows)| {
                rows.iter().enumerate().map(|(index, row)| (row.t_ns, *id, index))
            });
            let mut all: Vec<_> = keys.collect();
            all.sort_unstable();
            all
        });
        let begin = await_samples.partition_point(|(t_ns, ..)| *t_ns < from_ns);
        let end = await_samples.partition_point(|(t_ns, ..)| *t_ns < to_ns).max(begin);
        let awaits = &self.capture.awaits;
        await_samples[begin..end].iter().filter_map(|(_, id, index)| awaits.get(id)?.get(*index))
    }

    /// The samples of any suspended task that were taken near enough to `segment` to say what was
    /// awaited in it.
    pub fn await_samples_around(
        &self,
        segment: &Segment<'_>,
    ) -> impl Iterator<Item = &'c Await> + use<'_, 'c> {
        let near_ns = thresholds::await_seen_ns();
        let from_ns = segment.from_ns.saturating_sub(near_ns);
        self.await_samples_between(from_ns, segment.to_ns + near_ns)
    }

    /// The part of `[from, to)` in which a thread of the recorder's wrote a capture, ns.
    pub fn recorder_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let own = self.capture.own_spans.iter().filter(|s| Some(s.name) == self.writes);
        own.map(|s| overlap_ns((s.begin_ns, s.end_ns), (from_ns, to_ns))).sum()
    }

    /// The part of `segment` that its thread spent inside the program's predicate, ns.
    pub fn predicate_ns(&self, segment: &Segment<'_>) -> u64 {
        let name = |s: &&SpanRow| s.tid == segment.tid && Some(s.name) == self.predicate;
        let own = self.capture.own_spans.iter().filter(name);
        own.map(|s| overlap_ns((s.begin_ns, s.end_ns), segment.times())).sum()
    }

    /// What a sample's target says in words: a peer, a path; None for a bare address.
    pub fn target(&self, sample: &Sample) -> Option<String> {
        let named = sample.target & TARGET_IS_NAME != 0;
        let words = named.then(|| self.capture.name(sample.target as u32).to_owned());
        words.filter(|words| !words.is_empty())
    }

    /// What the wait around `segment` was for, as any sample of it says: the first may come too
    /// soon to know.
    pub fn target_of_wait(&self, segment: &Segment<'_>) -> Option<String> {
        let own = segment.sample?;
        if let Some(target) = self.target(own) {
            return Some(target);
        }
        let off = self.off_around(segment)?;
        let samples = self.samples_in(segment.tid, off.out_ns, off.in_ns).iter();
        samples.filter(|s| s.wait == own.wait).find_map(|s| self.target(s))
    }

    /// Whether two stacks have the same known innermost place.
    pub fn same_place(&self, a: u32, b: u32) -> bool {
        let place = self.innermost(a);
        place.is_some() && (a == b || place == self.innermost(b))
    }

    /// `Frames::innermost`, found once a stack: pairs of all samples are compared by it.
    fn innermost(&self, stack: u32) -> Option<Rc<Place>> {
        let found = || self.frames.innermost(stack).map(Rc::new);
        self.innermost.borrow_mut().entry(stack).or_insert_with(found).clone()
    }

    /// The time off the CPU around `segment`, from switch records.
    pub fn off_around(&self, segment: &Segment<'_>) -> Option<&OffCpu> {
        let off = self.capture.off_cpu.get(&segment.tid)?;
        let around = off[..off.partition_point(|o| o.out_ns <= segment.from_ns)].last();
        around.filter(|o| segment.exact && o.in_ns >= segment.to_ns)
    }

    /// The time off the CPU that `tid` was in at `t_ns`, from switch records.
    pub fn off_at(&self, tid: u32, t_ns: u64) -> Option<&'c OffCpu> {
        let off = self.capture.off_cpu.get(&tid)?;
        let last = off[..off.partition_point(|o| o.out_ns <= t_ns)].last()?;
        (last.in_ns >= t_ns).then_some(last)
    }

    /// Parts of a request that were handed to other threads.
    pub fn handed(&self, request: u64) -> impl Iterator<Item = &'c TaskRow> + use<'_, 'c> {
        let tasks = &self.capture.tasks;
        let handed = self.handed.get_or_init(|| {
            let mut handed: HashMap<u64, Vec<usize>> = HashMap::new();
            for (at, task) in tasks.iter().enumerate() {
                handed.entry(task.request).or_default().push(at);
            }
            handed
        });
        handed.get(&request).into_iter().flatten().map(|at| &tasks[*at])
    }

    /// The name of a request, as its id.
    pub fn name_of_request(&self, id: u64) -> Option<u32> {
        let names = self
            .request_names
            .get_or_init(|| self.capture.requests.iter().map(|row| (row.id, row.name)).collect());
        names.get(&id).copied()
    }

    /// When the work of `tid` at `t_ns` for a request ended, not on an event loop: all of the
    /// request, or a part handed to `tid`.
    pub fn request_end(&self, tid: u32, t_ns: u64) -> Option<u64> {
        let own = self.served().get(&tid)?;
        let last = own[..own.partition_point(|(begin, _)| *begin <= t_ns)].last();
        last.map(|(_, end)| *end).filter(|end| *end >= t_ns)
    }

    /// The parts of `[from, to)` in which `tid` did something for a request, not on an event loop.
    pub fn served_in(&self, tid: u32, from_ns: u64, to_ns: u64) -> Vec<(u64, u64)> {
        let own = self.served().get(&tid).map_or(&[][..], Vec::as_slice);
        let first = own.partition_point(|(begin, _)| *begin < from_ns).saturating_sub(1);
        let near = own[first..].iter().take_while(|(begin, _)| *begin < to_ns);
        let inside = near.map(|(begin, end)| (*begin.max(&from_ns), *end.min(&to_ns)));
        inside.filter(|(begin, end)| begin < end).collect()
    }

    /// Begin and end of what each thread did for requests, not on an event loop, by time.
    pub fn served(&self) -> &QuickMap<u32, Vec<(u64, u64)>> {
        self.served.get_or_init(|| {
            let mut served: QuickMap<u32, Vec<(u64, u64)>> = QuickMap::default();
            for row in self.capture.requests.iter().filter(|r| !r.on_loop) {
                let ended = row.end_ns.map(|end_ns| (row.started_ns, end_ns));
                served.entry(row.tid).or_default().extend(ended);
            }
            for task in &self.capture.tasks {
                served.entry(task.tid).or_default().push((task.begin_ns, task.end_ns));
            }
            served.values_mut().for_each(|all| all.sort_unstable());
            served
        })
    }

    /// The heartbeat gap that covers most of `[from, to)`.
    pub fn gap_over(&self, from_ns: u64, to_ns: u64) -> Option<&Gap> {
        let overlap = |g: &&Gap| overlap_ns((g.from_ns, g.to_ns), (from_ns, to_ns));
        let gap = self.gaps.iter().max_by_key(overlap)?;
        (overlap(&gap) * 2 >= to_ns - from_ns).then_some(gap)
    }
}
