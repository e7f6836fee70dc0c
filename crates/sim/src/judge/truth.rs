//! The truth of a run: each request's critical path, and what the slow ones have that others do
//! not.
//!
//! How it works: a request's time is its thread's log from its arrival to its end. Time in which
//! the thread waited for another one is replaced by what the other did: the GIL's and a lock's
//! holder, the worker of a job, a thread that was joined. On an event loop it is the task's log,
//! and while the task was ready or running the loop's.
//!
//! A wait for notice (an Event) is the same time seen from two sides: the waiter's lock-wait, or
//! what the thread did that then gave notice (`through_notices`).
//!
//! What it promises: the slices of a path follow each other and sum to the request's time. Causes
//! are named as the diagnosis names them, so that the two can be compared.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::actor::{On, Tid, Why};
use crate::engine::log::{Doing, Entry};
use crate::engine::{Actor, Request, World};
use crate::program::{Outside, MS};

/// A slice of a critical path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// Begin.
    pub from: u64,
    /// End.
    pub to: u64,
    /// Its cause.
    pub cause: &'static str,
    /// Where, as a stack of the truth's tables.
    pub stack: u32,
    /// The holder, and where it was.
    pub by: Option<(Tid, u32)>,
}

/// Threads that a path is followed through.
const MOST_HOPS: usize = 6;
/// A thread that asks anew does so within this time.
const AT_ONCE_NS: u64 = 20 * MS;
/// An event loop that is away from its poll for so long is blocked.
const BLOCKED_NS: u64 = 50 * MS;

/// The truth of a run.
pub struct Truth<'w, 'p> {
    world: &'w World<'p>,
    /// Times in which the event loop was away from its poll.
    busy: Vec<(u64, u64)>,
    through_notices: bool,
}

/// How much of each cause requests had, ns.
pub type Sums = BTreeMap<&'static str, u64>;

impl<'w, 'p> Truth<'w, 'p> {
    /// Of a run that has ended.
    pub fn of(world: &'w World<'p>) -> Truth<'w, 'p> {
        let mut busy: Vec<(u64, u64)> = Vec::new();
        if let Some(front) = world.loop_thread() {
            for entry in &world.log.threads[front] {
                if entry.doing == Doing::Wait(On::Poll) {
                    continue;
                }
                match busy.last_mut().filter(|last| last.1 == entry.from) {
                    Some(last) => last.1 = entry.to,
                    None => busy.push((entry.from, entry.to)),
                }
            }
        }
        Truth { world, busy, through_notices: false }
    }

    /// Of the same run, with waits for notice as what the thread did that gave it.
    pub fn through_notices(world: &'w World<'p>) -> Truth<'w, 'p> {
        Truth { through_notices: true, ..Truth::of(world) }
    }

    /// The critical path of a request that was taken up and answered.
    pub fn path(&self, request: &Request) -> Vec<Slice> {
        let Some(end) = self.end_of(request) else { return Vec::new() };
        let mut out = Vec::new();
        match request.task {
            Some(task) => self.of_task(&mut out, task, request.begin_ns, end),
            None => {
                self.of_thread(&mut out, request.tid, (request.begin_ns, end), MOST_HOPS);
            }
        }
        out
    }

    /// How many threads the program has.
    pub fn threads(&self) -> usize {
        self.world.log.threads.len()
    }

    /// The threads, by the kernel's ids, that a thread's waits of this time were for: owners of
    /// what it waited for, and those that ended a wait. Empty where no thread of the program was.
    pub fn blockers(&self, waiter: u32, (from, to): (u64, u64)) -> BTreeSet<u32> {
        let mut all: BTreeSet<Tid> = BTreeSet::new();
        let threads = 0..self.threads();
        let Some(own) = threads.into_iter().find(|tid| self.world.id_of(*tid) == waiter) else {
            return BTreeSet::new();
        };
        for entry in within(&self.world.log.threads[own], from, to) {
            let Doing::Wait(on) = entry.doing else { continue };
            match on {
                On::Gil => all.extend(self.owners(&self.world.gil.owners, entry)),
                On::Lock(thing) => {
                    all.extend(self.owners(&self.world.things[thing].owners, entry));
                }
                On::Job(job) => all.extend(self.world.jobs[job].worker),
                On::End(other) => all.extend([other]),
                _ => {}
            }
            all.extend(entry.ended_by);
        }
        all.remove(&own);
        all.into_iter().map(|tid| self.world.id_of(tid)).collect()
    }

    /// The threads that had it during a wait.
    fn owners(&self, owners: &[(u64, Option<Actor>)], entry: &Entry) -> Vec<Tid> {
        let first = owners.partition_point(|(t, _)| *t <= entry.from).saturating_sub(1);
        let during = owners[first..].iter().take_while(|(t, _)| *t < entry.to);
        during
            .filter_map(|(_, owner)| owner.and_then(|actor| self.world.thread_of(actor)))
            .collect()
    }

    /// When a request was answered, or the run ended; None: nobody had taken it up.
    fn end_of(&self, request: &Request) -> Option<u64> {
        request.end_ns.or_else(|| (request.started_ns > 0).then_some(self.world.now))
    }

    /// The time of each cause in a request.
    pub fn sums(&self, request: &Request) -> Sums {
        let mut sums = Sums::new();
        for slice in self.path(request) {
            *sums.entry(slice.cause).or_default() += slice.to - slice.from;
        }
        sums
    }

    /// The part of each cause in what slow requests took longer than normal ones, 0 to 1.
    ///
    /// Request by request: what a request took longer belongs to the causes of which it had more
    /// than usual, in proportion. Means over all slow ones would take from a cause that a few of
    /// them have what the others lack of it.
    pub fn excess(&self, slow_ns: u64) -> BTreeMap<&'static str, f64> {
        let (mut slow, mut normal) = (Vec::new(), Sums::new());
        let (mut normal_count, mut normal_ns) = (0u64, 0u64);
        for request in &self.world.requests {
            let Some(end) = self.end_of(request) else { continue };
            let took = end - request.begin_ns;
            // Of one that is open it is not known whether it would be slow.
            if request.end_ns.is_none() && took < slow_ns {
                continue;
            }
            let sums = self.sums(request);
            if took >= slow_ns {
                slow.push((took, sums));
                continue;
            }
            (normal_count, normal_ns) = (normal_count + 1, normal_ns + took);
            for (cause, ns) in sums {
                *normal.entry(cause).or_default() += ns;
            }
        }
        let usual = |ns: u64| ns as f64 / normal_count.max(1) as f64;
        let more = |cause: &str, ns: u64| {
            let usual = usual(normal.get(cause).copied().unwrap_or(0));
            (ns as f64 - usual).max(0.0)
        };
        let mut parts: BTreeMap<&'static str, f64> = BTreeMap::new();
        for (took, sums) in &slow {
            let longer = (*took as f64 - usual(normal_ns)).max(0.0);
            let all: f64 = sums.iter().map(|(cause, ns)| more(cause, *ns)).sum();
            for (cause, ns) in sums {
                let part = more(cause, *ns) / all.max(1.0);
                *parts.entry(*cause).or_default() += longer * part;
            }
        }
        let all = parts.values().sum::<f64>().max(1.0);
        parts.into_iter().map(|(cause, ns)| (cause, ns / all)).collect()
    }

    /// What a thread did, as slices; waits for others are what those did.
    fn of_thread(&self, out: &mut Vec<Slice>, tid: Tid, (from, to): (u64, u64), hops: usize) {
        let mut at = from;
        for entry in within(&self.world.log.threads[tid], from, to) {
            let (begin, end) = (entry.from.max(from), entry.to.min(to));
            fill(out, at, begin);
            let ran_out = self.nobody_came(tid, entry);
            self.of_entry(out, tid, &Entry { from: begin, to: end, ..*entry }, (hops, ran_out));
            at = end;
        }
        fill(out, at, to);
    }

    /// Whether a wait with a time limit ran to it, and the thread did not ask for the same anew: no
    /// notice came.
    fn nobody_came(&self, tid: Tid, entry: &Entry) -> bool {
        let Doing::Wait(On::Event(thing)) = entry.doing else { return false };
        let log = &self.world.log.threads[tid];
        let first = log.partition_point(|later| later.from < entry.from);
        let same = |later: &&Entry| {
            matches!(later.doing, Doing::Wait(On::Gil))
                || !matches!(later.doing, Doing::Wait(_))
                || later.doing == entry.doing
        };
        let own = log[first..].iter().take_while(same);
        let near = own.filter(|later| later.doing == Doing::Wait(On::Event(thing)));
        // The slices of one wait follow each other at once.
        let mut end = entry.from;
        let whole = near.take_while(|later| {
            let at_once = later.from <= end + AT_ONCE_NS;
            end = later.to;
            at_once
        });
        whole.last().is_some_and(|last| last.ended_by.is_none() && last.to < self.world.now)
    }

    fn of_entry(
        &self,
        out: &mut Vec<Slice>,
        tid: Tid,
        entry: &Entry,
        (hops, ran_out): (usize, bool),
    ) {
        let whole = (entry.from, entry.to);
        let plain = |cause| Slice {
            from: entry.from,
            to: entry.to,
            cause,
            stack: entry.stack,
            by: entry.ended_by.map(|by| (by, self.stack_at(by, entry.to))),
        };
        let Doing::Wait(on) = entry.doing else {
            out.push(plain(cause_of(entry.doing)));
            return;
        };
        match on {
            On::Event(_) if ran_out => out.push(plain("deadlock-timeout")),
            On::Event(_) if self.through_notices && hops > 0 => match entry.ended_by {
                Some(by) => self.of_thread(out, by, whole, hops - 1),
                None => out.push(plain(cause_of(entry.doing))),
            },
            On::Gil => self.of_owners(out, tid, entry, &self.world.gil.owners, hops),
            On::Lock(thing) => {
                self.of_owners(out, tid, entry, &self.world.things[thing].owners, hops);
            }
            On::Job(job) if hops > 0 => {
                let begun = self.world.jobs[job].begun_ns();
                let begun = begun.unwrap_or(entry.to).clamp(entry.from, entry.to);
                if begun > entry.from {
                    out.push(Slice { to: begun, ..plain("pool-wait") });
                }
                if let Some(worker) = self.world.jobs[job].worker.filter(|_| begun < entry.to) {
                    self.of_thread(out, worker, (begun, entry.to), hops - 1);
                }
            }
            On::End(other) if hops > 0 => self.of_thread(out, other, whole, hops - 1),
            On::Work(_) if hops > 0 && self.world.acceptor().is_some_and(|front| front != tid) => {
                // A worker without work: the thread that hands it on has not yet.
                if let Some(front) = self.world.acceptor() {
                    self.of_thread(out, front, whole, hops - 1);
                }
            }
            On::Request | On::Poll | On::Work(_) => self.of_idle(out, entry),
            _ => out.push(plain(cause_of(entry.doing))),
        }
    }

    /// A thread without work, for a request that has come: the process was stopped, or nothing is
    /// known.
    fn of_idle(&self, out: &mut Vec<Slice>, entry: &Entry) {
        let (mut at, to, stack) = (entry.from, entry.to, entry.stack);
        let mut push = |from: u64, to: u64, cause| {
            if from < to {
                out.push(Slice { from, to, cause, stack, by: None });
            }
        };
        for (begin, end) in &self.world.stops {
            let (begin, end) = ((*begin).clamp(at, to), (*end).clamp(at, to));
            push(at, begin, "unknown");
            push(begin, end, "stopped");
            at = end;
        }
        push(at, to, "unknown");
    }

    /// A wait for what has one owner at a time: cut where the owner changes.
    fn of_owners(
        &self,
        out: &mut Vec<Slice>,
        tid: Tid,
        entry: &Entry,
        owners: &[(u64, Option<Actor>)],
        hops: usize,
    ) {
        let first = owners.partition_point(|(t, _)| *t <= entry.from).saturating_sub(1);
        let mut at = entry.from;
        for (index, (_, owner)) in owners.iter().enumerate().skip(first) {
            if at >= entry.to {
                break;
            }
            let end = owners.get(index + 1).map_or(entry.to, |next| next.0).clamp(at, entry.to);
            if end > at {
                self.behind(out, tid, &Entry { from: at, to: end, ..*entry }, *owner, hops);
                at = end;
            }
        }
        if at < entry.to {
            self.behind(out, tid, &Entry { from: at, ..*entry }, None, hops);
        }
    }

    /// A wait behind this owner.
    fn behind(
        &self,
        out: &mut Vec<Slice>,
        tid: Tid,
        entry: &Entry,
        owner: Option<Actor>,
        hops: usize,
    ) {
        let gil = entry.doing == Doing::Wait(On::Gil);
        let cause = if gil { "gil-wait" } else { "lock-wait" };
        let (from, to, stack) = (entry.from, entry.to, entry.stack);
        let holder = owner.and_then(|actor| self.world.thread_of(actor));
        let Some(holder) = holder.filter(|holder| *holder != tid && hops > 0) else {
            out.push(Slice { from, to, cause, stack, by: None });
            return;
        };
        for held in within(&self.world.log.threads[holder], from, to) {
            let by = Some((holder, held.stack));
            let cause = match held.doing {
                Doing::Run(Why::Collect) if gil => "gc-pause",
                Doing::Run(Why::Fork) if gil => "fork",
                Doing::Ready if gil => "cpu-starved",
                Doing::Throttled => "cpu-throttled",
                Doing::Stopped => "stopped",
                Doing::Wait(On::Lock(thing)) if !gil && self.had(thing, tid, held.from) => {
                    "deadlock-timeout"
                }
                _ => cause,
            };
            let (from, to) = (held.from.max(from), held.to.min(to));
            out.push(Slice { from, to, cause, stack, by });
        }
    }

    /// Whether the thread had the lock then.
    fn had(&self, thing: usize, tid: Tid, at: u64) -> bool {
        let owners = &self.world.things[thing].owners;
        let now = owners[..owners.partition_point(|(t, _)| *t <= at)].last();
        now.is_some_and(|(_, owner)| *owner == Some(Actor::Thread(tid)))
    }

    /// What a task did; while it was ready or mounted its loop's thread.
    fn of_task(&self, out: &mut Vec<Slice>, task: usize, from: u64, to: u64) {
        let mut at = from;
        for entry in within(&self.world.log.tasks[task], from, to) {
            let (begin, end) = (entry.from.max(from), entry.to.min(to));
            self.of_loop(out, at, begin);
            match entry.doing {
                Doing::Wait(on) => {
                    self.of_await(out, &Entry { from: begin, to: end, ..*entry }, on)
                }
                _ => self.of_loop(out, begin, end),
            }
            at = end;
        }
        self.of_loop(out, at, to);
    }

    fn of_await(&self, out: &mut Vec<Slice>, entry: &Entry, on: On) {
        let by = entry.ended_by.map(|by| (by, self.stack_at(by, entry.to)));
        let plain = |cause| Slice { from: entry.from, to: entry.to, cause, stack: entry.stack, by };
        let On::Job(job) = on else {
            out.push(plain(cause_of(entry.doing)));
            return;
        };
        let begun = self.world.jobs[job].begun_ns();
        let begun = begun.unwrap_or(entry.to).clamp(entry.from, entry.to);
        if begun > entry.from {
            out.push(Slice { to: begun, ..plain("pool-wait") });
        }
        if let Some(worker) = self.world.jobs[job].worker.filter(|_| begun < entry.to) {
            self.of_thread(out, worker, (begun, entry.to), MOST_HOPS - 1);
        }
    }

    /// The loop's thread, for a task that could go on.
    fn of_loop(&self, out: &mut Vec<Slice>, from: u64, to: u64) {
        let Some(front) = self.world.loop_thread().filter(|_| from < to) else { return };
        let first = out.len();
        self.of_thread(out, front, (from, to), MOST_HOPS);
        for slice in &mut out[first..] {
            let kept = self.busy.iter().any(|(begin, end)| {
                *begin < slice.to && *end > slice.from && end - begin >= BLOCKED_NS
            });
            let own = match slice.cause {
                // It belongs to work that would have kept the loop for long with a CPU as well.
                "cpu-starved" => self.works_long(front, (slice.from, slice.to)),
                "cpu-throttled" | "stopped" | "gc-pause" | "fork" | "gil-wait" => false,
                _ => true,
            };
            if kept && own {
                slice.cause = "event-loop-blocked";
            }
        }
    }

    /// Whether the loop's thread computed for so long without a poll around this time.
    fn works_long(&self, front: Tid, (from, to): (u64, u64)) -> bool {
        let around = self.busy.iter().find(|(begin, end)| *begin < to && *end > from);
        let Some((begin, end)) = around else { return false };
        let all = within(&self.world.log.threads[front], *begin, *end);
        let runs = all.iter().filter(|entry| entry.doing == Doing::Run(Why::Work));
        runs.map(|entry| entry.to - entry.from).sum::<u64>() >= BLOCKED_NS
    }

    /// Where a thread was.
    fn stack_at(&self, tid: Tid, at: u64) -> u32 {
        let log = &self.world.log.threads[tid];
        log[..log.partition_point(|e| e.from < at)].last().map_or(0, |entry| entry.stack)
    }
}

/// The entries that overlap a time.
fn within(log: &[Entry], from: u64, to: u64) -> &[Entry] {
    let first = log.partition_point(|entry| entry.to <= from);
    let last = log.partition_point(|entry| entry.from < to).max(first);
    &log[first..last]
}

/// Time that no log has: before a thread was born.
fn fill(out: &mut Vec<Slice>, from: u64, to: u64) {
    if from < to {
        out.push(Slice { from, to, cause: "unknown", stack: 0, by: None });
    }
}

/// The cause of what a thread did by itself.
fn cause_of(doing: Doing) -> &'static str {
    match doing {
        Doing::Run(Why::Work) => "cpu",
        Doing::Run(Why::Collect) => "gc-pause",
        Doing::Run(Why::Fork) => "fork",
        Doing::Run(Why::Import) => "import",
        Doing::Run(Why::Touch) => "page-fault",
        Doing::Run(Why::Copy) => "disk-io",
        Doing::Ready => "cpu-starved",
        Doing::Throttled => "cpu-throttled",
        Doing::Stopped => "stopped",
        Doing::Queued | Doing::Gone => "unknown",
        Doing::Wait(on) => match on {
            On::Outside(Outside::Sleep | Outside::Nap) => "sleep",
            On::Outside(Outside::Answer) => "downstream-wait",
            On::Outside(Outside::Connect) => "connect",
            On::Outside(Outside::Resolve) => "dns",
            On::Outside(Outside::PipeRoom) => "pipe-write",
            On::Outside(Outside::Sync | Outside::Read) => "disk-io",
            On::Outside(Outside::Child) => "subprocess-wait",
            On::Outside(Outside::FileLock) => "lock-wait",
            On::Outside(Outside::MajorFault) => "page-fault",
            On::Gil => "gil-wait",
            On::Lock(_) | On::Event(_) => "lock-wait",
            On::Permit(_) | On::Item(_) | On::Room(_) | On::Job(_) | On::Client => "pool-wait",
            // What a library's threads do is its work.
            On::Call(_) => "cpu",
            On::End(_) | On::Request | On::Poll | On::Work(_) | On::Rest => "unknown",
        },
    }
}
