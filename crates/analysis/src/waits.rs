//! One wait of a thread, put together from what records and samples cut it into.
//!
//! How it works: a timeline has a segment for each sample, a request's time one for each cause that
//! claims it; a wait that several samples saw is several of either. `merged` joins them by one of
//! three rules (`Same`). `Index::whole_wait` goes the other way: from any segment of a wait to all
//! of it, by the switch record that covers it, else by the samples that saw it.
//!
//! What it promises: every reader joins waits here, so a table, an export and a verdict count the
//! same waits.
//!
//! Missing on purpose: the waker. A wait knows what samples read of its holder, no more.

use format::record::{flag, Sample};
use format::wait::{HolderSource, WaitKind};

use crate::index::Index;
use crate::timeline::{Segment, State};
use crate::{thresholds, words};

/// A time that a thread waited, without a break as far as known.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'c> {
    /// The thread.
    pub tid: u32,
    /// Begin.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// How much of that was waited: less than all where one lock was waited for again and again
    /// (`Same::Lock`).
    pub waited_ns: u64,
    /// What for.
    pub kind: WaitKind,
    /// Where; 0: not seen.
    pub stack: u32,
    /// The word that names what was waited for (`words::target`), or a futex's address; 0: not
    /// known.
    pub target: u64,
    /// What is behind a futex, by `Sample.lock`; 0: not known.
    pub lock: u64,
    /// Time limit, ns; 0: none.
    pub limit_ns: u64,
    /// Number of the system call.
    pub call: u16,
    /// The thread that held the lock, as it was sampled; 0: not known.
    pub lock_holder: u32,
    /// How that is known.
    pub holder_source: HolderSource,
    /// The thread that held the GIL, as it was sampled; 0: not known.
    pub gil_holder: u32,
    /// The asyncio task that waited; 0: none.
    pub task: u32,
    /// Its times come from switch records.
    pub exact: bool,
    /// A sample saw it.
    pub seen: bool,
    /// Its longest segment.
    pub longest: Segment<'c>,
}

/// What makes a segment part of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Same {
    /// It touches the segment before it. For segments that were chosen as waits for one thing.
    Touching,
    /// It touches it, and nothing that both know contradicts: kind, place, target, lock, task and
    /// the lock's holder.
    NoContradiction,
    /// The same, and a wait for the GIL ends where another thread takes it.
    GilHolder,
    /// It is for the same futex at the same place, with time between.
    Lock,
}

impl<'c> Wait<'c> {
    /// What one segment says.
    pub fn of(segment: &Segment<'c>) -> Wait<'c> {
        let sample: Option<&Sample> = segment.sample;
        let (target, limit_ns) = sample.map_or((0, 0), words::target_and_limit);
        Wait {
            tid: segment.tid,
            from_ns: segment.from_ns,
            to_ns: segment.to_ns,
            waited_ns: segment.ns(),
            kind: segment.wait(),
            stack: segment.stack(),
            target,
            lock: sample.map_or(0, |s| s.lock),
            limit_ns,
            call: sample.map_or(0, |s| s.call),
            lock_holder: sample.map_or(0, |s| s.lock_holder),
            holder_source: sample.map_or(HolderSource::None, |s| s.holder_source),
            gil_holder: sample.map_or(0, |s| s.gil_holder),
            task: sample.map_or(0, |s| s.task),
            exact: segment.exact,
            seen: segment.sampled,
            longest: *segment,
        }
    }

    /// From begin to end.
    pub fn ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }

    /// Begin and end.
    pub fn times(&self) -> (u64, u64) {
        (self.from_ns, self.to_ns)
    }

    /// All of it, with what its longest segment says.
    pub fn segment(&self) -> Segment<'c> {
        Segment { from_ns: self.from_ns, to_ns: self.to_ns, ..self.longest }
    }

    /// Whether a sample saw this wait for a lock, or another one for the same.
    pub fn is_of(&self, sample: &Sample) -> bool {
        sees((self.kind, self.target), sample)
    }

    /// Whether `next`, which begins later, is a part of this wait by the rule `same`.
    fn goes_on(&self, next: &Wait<'_>, same: Same) -> bool {
        let agree = |a: u64, b: u64| a == 0 || b == 0 || a == b;
        let touches = self.tid == next.tid && self.to_ns >= next.from_ns;
        match same {
            Same::Touching => touches,
            Same::NoContradiction | Same::GilHolder => {
                touches
                    && (self.kind, self.exact) == (next.kind, next.exact)
                    && agree(self.stack.into(), next.stack.into())
                    && agree(self.target, next.target)
                    && agree(self.lock, next.lock)
                    && agree(self.task.into(), next.task.into())
                    && agree(self.lock_holder.into(), next.lock_holder.into())
                    && (same != Same::GilHolder
                        || agree(self.gil_holder.into(), next.gil_holder.into()))
            }
            Same::Lock => {
                let key = |w: &Wait<'_>| (w.tid, w.stack, w.target);
                key(self) == key(next)
            }
        }
    }

    /// Whether this wait ran to its time limit. One that no sample saw has none of its own: then to
    /// one of `limits`, those of other waits there.
    fn ran_out(&self, limits: &[u64]) -> bool {
        let reached = |limit_ns: u64| self.ns() + thresholds::turn_ns() >= limit_ns;
        match self.limit_ns {
            0 => limits.iter().any(|limit| {
                reached(*limit) && self.ns() <= limit + limit / 4 + thresholds::clock_slack_ns()
            }),
            limit_ns => is_slice(&limit_ns) && reached(limit_ns),
        }
    }

    /// Whether `next` may be the same thread asking again for the same.
    fn leads_to(&self, next: &Wait<'_>) -> bool {
        let agree = |a: u64, b: u64| a == 0 || b == 0 || a == b;
        next.from_ns.saturating_sub(self.to_ns) <= thresholds::short_wait_ns()
            && agree(self.stack.into(), next.stack.into())
            && agree(self.target, next.target)
    }

    /// Takes up the part `next`. What was known first is not replaced.
    fn take(&mut self, next: &Wait<'c>) {
        self.to_ns = self.to_ns.max(next.to_ns);
        self.waited_ns += next.waited_ns;
        self.seen |= next.seen;
        self.exact &= next.exact;
        self.stack = first(self.stack, next.stack);
        self.target = first(self.target, next.target);
        self.lock = first(self.lock, next.lock);
        self.limit_ns = first(self.limit_ns, next.limit_ns);
        self.call = first(self.call, next.call);
        self.gil_holder = first(self.gil_holder, next.gil_holder);
        self.task = first(self.task, next.task);
        if self.lock_holder == 0 {
            (self.lock_holder, self.holder_source) = (next.lock_holder, next.holder_source);
        }
        if next.longest.ns() > self.longest.ns() {
            self.longest = next.longest;
        }
    }
}

/// Whether a sample saw the wait of this kind for this target. Only of locks: a sample at a sleep
/// or a poll cannot separate one from the next.
fn sees((kind, target): (WaitKind, u64), sample: &Sample) -> bool {
    let is_lock = matches!(kind, WaitKind::Futex | WaitKind::FileLock);
    is_lock && (sample.wait, sample.target) == (kind, target)
}

fn first<T: Default + PartialEq>(a: T, b: T) -> T {
    if a == T::default() {
        b
    } else {
        a
    }
}

/// These parts of waits put together, in their order; they come by thread and time.
pub fn merged<'c>(parts: impl IntoIterator<Item = Wait<'c>>, same: Same) -> Vec<Wait<'c>> {
    let mut out: Vec<Wait<'c>> = Vec::new();
    for next in parts {
        // With time between, it may be any of those before.
        let most = if same == Same::Lock { usize::MAX } else { 1 };
        match out.iter_mut().rev().take(most).find(|wait| wait.goes_on(&next, same)) {
            Some(wait) => wait.take(&next),
            None => out.push(next),
        }
    }
    out
}

/// Parts of waits of several requests, in any order, put together request by request: by request,
/// thread and time.
pub fn merged_by_request<'c>(
    parts: impl IntoIterator<Item = (usize, Wait<'c>)>,
) -> Vec<(usize, Wait<'c>)> {
    let mut parts: Vec<(usize, Wait<'c>)> = parts.into_iter().collect();
    parts.sort_by_key(|(request, wait)| (*request, wait.tid, wait.from_ns, wait.to_ns));
    let of_one = |own: &[(usize, Wait<'c>)]| {
        let (request, waits) = (own[0].0, own.iter().map(|(_, wait)| *wait));
        merged(waits, Same::Touching).into_iter().map(move |wait| (request, wait))
    };
    parts.chunk_by(|a, b| a.0 == b.0).flat_map(of_one).collect()
}

/// Waits of several requests, in any order, put together as by `merged_by_request`, and those that
/// are one wait in slices: each but the last ran to its time limit, and its thread asked again at
/// the same place (a client library that polls its socket every 100 ms). What remains is one for
/// each time that something came, or nothing more was asked.
pub fn ended_by_request<'c>(
    parts: impl IntoIterator<Item = (usize, Wait<'c>)>,
) -> Vec<(usize, Wait<'c>)> {
    let waits = merged_by_request(parts);
    let of_one = |own: &[(usize, Wait<'c>)]| {
        let limits: Vec<u64> = own.iter().map(|(_, wait)| wait.limit_ns).filter(is_slice).collect();
        let mut out: Vec<(usize, Wait<'c>)> = Vec::new();
        let mut before: Option<&Wait<'c>> = None;
        for (request, next) in own {
            match (out.last_mut(), before) {
                (Some((_, whole)), Some(slice))
                    if slice.ran_out(&limits) && slice.leads_to(next) =>
                {
                    whole.take(next);
                }
                _ => out.push((*request, *next)),
            }
            before = Some(next);
        }
        out
    };
    waits.chunk_by(|a, b| (a.0, a.1.tid) == (b.0, b.1.tid)).flat_map(of_one).collect()
}

/// Samples that are searched for the slices of a wait, before and behind one of them.
const SLICES_MAX: usize = 64;

/// The last of the slices of one wait that `samples` lead to. A thread that asks again may be seen
/// on a CPU, or waiting for the GIL, between two of them.
fn reached<'c>(
    from: &'c Sample,
    samples: impl Iterator<Item = &'c Sample>,
    same: impl Fn(&&Sample) -> bool,
    follows: impl Fn(&Sample, &Sample, u64) -> bool,
) -> &'c Sample {
    let (mut last, mut between) = (from, false);
    for sample in samples {
        if !same(&sample) {
            between = matches!(sample.wait, WaitKind::Running | WaitKind::Gil);
            if between {
                continue;
            }
            break;
        }
        let apart_ns = match between {
            true => thresholds::just_before_sampled_ns(),
            false => thresholds::samples_apart_ns(),
        };
        if !follows(last, sample, apart_ns) {
            break;
        }
        (last, between) = (sample, false);
    }
    last
}

/// Whether a time limit is one: 1 says that there was one that could not be read.
fn is_slice(limit_ns: &u64) -> bool {
    *limit_ns > 1
}

/// The lock that a thread waited for longest, all its segments together; there may be more of these
/// than segments of the thread that waits for this one.
pub fn longest_lock<'c>(timeline: &[Segment<'c>]) -> Option<Wait<'c>> {
    let locks = timeline.iter().filter(|s| s.state == State::Wait && s.wait() == WaitKind::Futex);
    merged(locks.map(Wait::of), Same::Lock).into_iter().max_by_key(|wait| wait.waited_ns)
}

impl<'c> Index<'c> {
    /// The first and the last sample of the wait in a futex with a time limit that `own` saw. A
    /// thread that waits in slices asks again at the same place when its time is up: that is one
    /// wait (a library may have two calls of its function that waits, a short one and a long one).
    /// None: it has no time limit.
    pub fn slices(&self, tid: u32, own: &Sample) -> Option<(&'c Sample, &'c Sample)> {
        let request = self.request_end(tid, own.t_ns);
        let same = |s: &&Sample| {
            s.wait == WaitKind::Futex
                && (s.stack == own.stack || self.frames.waits_alike(s.stack, own.stack))
                && s.flags & flag::USAGE == 0
                && is_slice(&s.timeout_ns)
                && self.request_end(tid, s.t_ns) == request
        };
        let samples = self.samples_in(tid, 0, u64::MAX);
        let at = samples.partition_point(|s| s.t_ns < own.t_ns);
        let found = samples.get(at).filter(|s| s.t_ns == own.t_ns).filter(same)?;
        let follows = |a: &Sample, b: &Sample, apart_ns: u64| {
            b.t_ns <= a.t_ns.saturating_add(a.timeout_ns).saturating_add(apart_ns)
        };
        let behind = samples[at..].iter().skip(1).take(SLICES_MAX);
        let last = reached(found, behind, same, follows);
        let before = samples[..at].iter().rev().take(SLICES_MAX);
        let first = reached(found, before, same, |later, earlier, ns| follows(earlier, later, ns));
        Some((first, last))
    }

    /// All of the wait that `segment` is a part of (segments end between samples), with its slices.
    pub fn whole_wait<'s>(&self, segment: &Segment<'s>) -> Wait<'s> {
        let own = self.whole_slice(segment);
        let slices = segment.sample.and_then(|sample| self.slices(segment.tid, sample));
        let Some((first, last)) = slices else { return own };
        let times = |s: &'c Sample| {
            let Segment { tid, state, exact, .. } = *segment;
            let (from_ns, to_ns) = (s.t_ns, s.t_ns);
            let edge =
                Segment { tid, from_ns, to_ns, state, sample: Some(s), sampled: true, exact };
            self.whole_slice(&edge).times()
        };
        let (from_ns, to_ns) = (times(first).0.min(own.from_ns), times(last).1.max(own.to_ns));
        Wait { from_ns, to_ns, ..own }
    }

    /// The same of one slice.
    fn whole_slice<'s>(&self, segment: &Segment<'s>) -> Wait<'s> {
        let own = Wait::of(segment);
        if let Some(around) = self.off_around(segment) {
            return Wait { from_ns: around.out_ns, to_ns: around.in_ns, ..own };
        }
        // Without switch records: as long as samples see the same wait, and what waits is not done.
        let later = self.samples_in(segment.tid, segment.from_ns, u64::MAX).iter();
        let (other, last) = (later.clone().find(|s| !own.is_of(s)), later.last());
        // A thread that ends with its request is not sampled behind its wait: that ended with the
        // request, too.
        let near = |done: &u64| {
            last.is_some_and(|s| done.saturating_sub(s.t_ns) <= 2 * thresholds::sampled_ns())
        };
        let done = self.request_end(segment.tid, segment.from_ns);
        let end = match other {
            Some(other) => other.t_ns.min(done.unwrap_or(u64::MAX)),
            None => done.filter(near).or(last.map(|s| s.t_ns)).unwrap_or(segment.to_ns),
        };
        let (from_ns, to_ns) = (self.waited_since(segment, &own), end.max(segment.to_ns));
        Wait { from_ns, to_ns, ..own }
    }

    /// The samples that saw a wait for a lock, by time.
    pub fn samples_of(
        &self,
        wait: &Wait<'_>,
    ) -> impl DoubleEndedIterator<Item = &'c Sample> + use<'c> {
        let what = (wait.kind, wait.target);
        let inside = self.samples_in(wait.tid, wait.from_ns, wait.to_ns.saturating_add(1)).iter();
        inside.filter(move |s| sees(what, s))
    }

    /// The first of the samples before `segment` that saw the same wait, its thread not having run
    /// since.
    fn waited_since(&self, segment: &Segment<'_>, wait: &Wait<'_>) -> u64 {
        let Some(own) = segment.sample.filter(|s| wait.is_of(s)) else { return segment.from_ns };
        let samples = self.samples_in(segment.tid, 0, own.t_ns + 1);
        let still = |pair: &&[Sample]| {
            let known =
                pair[1].flags & flag::TIMES != 0 && pair[1].cpu_ns < thresholds::sampling_cost_ns();
            known && wait.is_of(&pair[0])
        };
        let first = samples.windows(2).rev().take_while(still).last().map(|pair| pair[0].t_ns);
        first.map_or(segment.from_ns, |t_ns| t_ns.min(segment.from_ns))
    }
}
