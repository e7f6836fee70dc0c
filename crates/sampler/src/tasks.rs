//! Samples of requests whose task is suspended on an event loop: no thread executes them.
//!
//! How it works: the open request remembers its task. Past its usual time the task is followed to
//! its innermost await, and a record is written when that is another than before. While it does not
//! move the same record is written again now and then (`policy::task_due`), without following it.
//! For a lock or semaphore, all of asyncio's tasks are searched for the one inside its
//! `async with`, which is recorded as well; so is, for an item of a pool that is entered by
//! `async with`, a task inside of such a block of the same pool. Where there is none, and for a
//! queue, an Event, a Condition or a plain future, the task that is to end the wait is recorded.
//! While a request waits and nothing is known to be in its way, tasks that work for no request are
//! sampled, too, some at a time.
//!
//! What it promises: of `MOST_REPEATS` requests a pass, those not seen for longest first, tasks of
//! `MOST_FOLLOWED` are followed; one that did not move costs three guarded reads. The search for a
//! holder walks a few hundred tasks at most, once in `ASK_HOLDER_NS` for each of `MOST_LOCKS`
//! locks, and ends after `SEARCH_NS`. What is missing on purpose: requests begun outside of any
//! task (in a protocol's callback) until a task enters them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use format::record::{Await, TARGET_IS_NAME};
use format::wait::{AwaitKind, HolderSource};
use recorder::OpenRequest;
use samplers::native_tasks::cell_of;
use samplers::python_stacks::{PythonStacks, Suspended, UNKNOWN_PEER};
use sys::fds::FdKind;

use crate::policy::task_due::{due, Due, AROUND_NS, FOLLOW_AGAIN_NS, MOST_AROUND, MOST_FOLLOWED};
use crate::threads::thread_sampler::ThreadSampler;
use crate::world::{Clock, Sink, ThreadFiles};

/// While the bucket is low, samples of tasks take this part of the time: with the default budget
/// half of the income that is for samples; the other half is for threads. Each is followed by a
/// pause of this many times its length, but no longer than that.
const POOR_PART: u64 = 400;
const POOR_PAUSE_NS: u64 = 400_000_000;
/// Requests that are asked in one pass.
const MOST_REPEATS: usize = 64;
/// Tasks that are followed of a request that awaits several, and while the bucket is low.
const CHAINS: usize = 12;
const CHAINS_POOR: usize = 2;
/// The holder of a lock is searched for at most this often; other waiters for it get the same
/// answer meanwhile.
const ASK_HOLDER_NS: u64 = 25_000_000;
/// Locks whose holder is searched for within that time.
const MOST_LOCKS: usize = 4;
/// Where a wait has no holder, the task that is to end it is searched for again after this time
/// for each task there is: walking one costs some microseconds.
const ASK_ENDER_NS: u64 = 500_000;
/// Searches for a holder, or for the task that is to end a wait, take at most this part of the
/// time, and each is followed by a pause of this many times its length. Where all requests are slow
/// all the time they would leave nothing of the budget for samples of the requests themselves.
const SEARCH_PART: u64 = 200;
/// The same while the bucket is low and the trickle pays for samples.
const SEARCH_PART_POOR: u64 = 1000;
/// CPU time of one search, but for a few tasks; the next one goes on where it ended.
const SEARCH_NS: u64 = 3_000_000;
const TASKS_AT_ONCE: usize = 4;
/// Tasks that work for no request are sampled for this part of the time at most; not while the
/// bucket is low.
const AROUND_PART: u64 = 60;
/// Tasks that are searched for a holder.
const MOST_TASKS: usize = 256;

/// Address of asyncio's set of weak references to its tasks; 0 while asyncio was not seen. Written
/// by the binding, read by the sampler: a number on its own, so Relaxed.
static TASKS: AtomicUsize = AtomicUsize::new(0);

/// Says where asyncio keeps its tasks. The address must be one of an object that is never freed.
pub fn set_asyncio_tasks(address: usize) {
    TASKS.store(address, Ordering::Relaxed);
}

/// Where the tasks of a request were, and when that was last recorded.
struct Seen {
    seen_ns: u64,
    followed: Vec<Followed>,
}

/// A task as it was when it was followed, and what a record says of it. Its frames are in `stack`
/// only.
struct Followed {
    followed_ns: u64,
    one: Suspended,
    stack: u32,
    target: u64,
}

/// What is remembered of suspended requests between passes.
#[derive(Default)]
pub(crate) struct Suspensions {
    seen: HashMap<u64, Seen>,
    found: Vec<Suspended>,
    tasks: Vec<usize>,
    /// Lock, when its holder was searched for, the answer.
    asked: Vec<(usize, u64, Holder)>,
    /// No search for a task that is to end a wait before that.
    enders_from_ns: u64,
    /// No search at all before that; the task at which a search begins.
    search_from_ns: u64,
    search_at: usize,
    /// The bucket is low; then no task is sampled before that time.
    poor: bool,
    poor_from_ns: u64,
    /// Before that time tasks that work for no request are not sampled; how many have been, and
    /// where they were.
    around_from_ns: u64,
    around: usize,
    followed_around: HashMap<usize, Followed>,
}

/// A task that is in the way, and how that is known. 0: none.
#[derive(Clone, Copy)]
struct Holder {
    task: usize,
    how: HolderSource,
}

impl Holder {
    fn of(found: Option<usize>, how: HolderSource) -> Holder {
        found.map_or(NOBODY, |task| Holder { task, how })
    }
}

const NOBODY: Holder = Holder { task: 0, how: HolderSource::None };

impl Suspensions {
    /// Samples those of `open` that are in `urgent` (by index) and have a task, at `most` of them
    /// as soon as they move; `poor`: one of them is followed. Returns the number of records
    /// written.
    pub(crate) fn sample(
        &mut self,
        world: &(impl Clock + Sink),
        thread_sampler: &mut ThreadSampler<impl ThreadFiles>,
        open: &[OpenRequest],
        urgent: &[usize],
        most: usize,
        poor: bool,
    ) -> u64 {
        self.poor = poor;
        let with_task = urgent.iter().filter_map(|i| open.get(*i)).filter(|r| is_of_python(r.task));
        let mut late: Vec<(u64, OpenRequest)> = with_task
            .map(|request| (self.seen.get(&request.id).map_or(0, |s| s.seen_ns), *request))
            .collect();
        if late.is_empty() {
            self.seen.clear();
            self.followed_around.clear();
            return 0;
        }
        let count = late.len() as u64;
        if late.len() > MOST_REPEATS {
            late.select_nth_unstable_by_key(MOST_REPEATS, |(seen_ns, _)| *seen_ns);
            late.truncate(MOST_REPEATS);
        }
        late.sort_by_key(|(seen_ns, _)| *seen_ns);
        if self.seen.len() > open.len() {
            let ids: HashSet<u64> = open.iter().map(|request| request.id).collect();
            self.seen.retain(|id, _| ids.contains(id));
        }
        let mut left = match poor {
            true => usize::from(world.now_ns() >= self.poor_from_ns),
            false => MOST_FOLLOWED,
        };
        let (mut written, mut took_ns) = (0, 0);
        for (place, (_, request)) in late.into_iter().enumerate() {
            match self.what_is_due(
                thread_sampler,
                world.now_ns(),
                (request.id, count),
                place < most,
            ) {
                Due::Repeat => written += self.repeat(world, thread_sampler, open, &request),
                Due::Follow if left > 0 => {
                    let began_ns = world.thread_cpu_ns();
                    let (tasks, records) = self.follow(world, thread_sampler, open, &request);
                    took_ns += world.thread_cpu_ns().saturating_sub(began_ns);
                    written += records;
                    left = left.saturating_sub(tasks.max(1));
                }
                Due::Follow | Due::No => (),
            }
        }
        if took_ns > 0 {
            let pause_ns = took_ns.saturating_mul(POOR_PART).min(POOR_PAUSE_NS);
            self.poor_from_ns = world.now_ns().saturating_add(pause_ns);
        }
        written
    }

    /// `count`: of requests that are late. `often`: whether one task moved is asked at any time.
    fn what_is_due(
        &self,
        thread_sampler: &ThreadSampler<impl ThreadFiles>,
        now: u64,
        (request, count): (u64, u64),
        often: bool,
    ) -> Due {
        let Some(seen) = self.seen.get(&request) else { return Due::Follow };
        let Some(stacks) = &thread_sampler.stacks else { return Due::No };
        let found = (seen.followed.len() as u64, now.saturating_sub(seen.seen_ns));
        let moved = || seen.followed.iter().any(|followed| stacks.has_moved(followed.one.mark));
        let still = || seen.followed.iter().all(|followed| followed.is_still(thread_sampler, now));
        due(found, (count, often), moved, still)
    }

    /// Writes what was found of `request` again.
    fn repeat(
        &mut self,
        world: &(impl Clock + Sink),
        thread_sampler: &mut ThreadSampler<impl ThreadFiles>,
        open: &[OpenRequest],
        request: &OpenRequest,
    ) -> u64 {
        let Some(mut seen) = self.seen.remove(&request.id) else { return 0 };
        seen.seen_ns = world.now_ns();
        let written = self.write(world, thread_sampler, open, request, &seen);
        self.seen.insert(request.id, seen);
        written
    }

    /// Follows the tasks of `request`: how many, and records written.
    fn follow(
        &mut self,
        world: &(impl Clock + Sink),
        thread_sampler: &mut ThreadSampler<impl ThreadFiles>,
        open: &[OpenRequest],
        request: &OpenRequest,
    ) -> (usize, u64) {
        let Some(stacks) = &mut thread_sampler.stacks else { return (0, 0) };
        let now = world.now_ns();
        let mut found = std::mem::take(&mut self.found);
        let most = if self.poor { CHAINS_POOR } else { CHAINS };
        if stacks.suspended(request.task as usize, most, &mut found).is_err() {
            found.clear();
        }
        let followed = found.drain(..).map(|one| Followed::of(thread_sampler, one, now)).collect();
        self.found = found;
        // Also one whose task is gone, or it would be the first to be sampled each pass.
        let seen = Seen { seen_ns: now, followed };
        let written = self.write(world, thread_sampler, open, request, &seen);
        let tasks = seen.followed.len();
        self.seen.insert(request.id, seen);
        (tasks, written)
    }

    /// A record for each task of `request`, and for the tasks in their way.
    fn write(
        &mut self,
        world: &(impl Clock + Sink),
        thread_sampler: &mut ThreadSampler<impl ThreadFiles>,
        open: &[OpenRequest],
        request: &OpenRequest,
        seen: &Seen,
    ) -> u64 {
        let now = seen.seen_ns;
        let (mut written, mut unheld) = (0, false);
        for followed in &seen.followed {
            let holder =
                self.find_holder(world, thread_sampler, open, (request, &followed.one), now);
            append(world, request.id, followed, holder, now);
            written += 1;
            let one = &followed.one;
            unheld |= holder.task == 0 && one.fd.is_none() && !one.ended_by.is_empty();
        }
        if unheld && !self.poor && now >= self.around_from_ns {
            let began_ns = world.thread_cpu_ns();
            written += self.sample_others(world, thread_sampler, open, now);
            let took_ns = world.thread_cpu_ns().saturating_sub(began_ns);
            self.around_from_ns = now + AROUND_NS.max(took_ns.saturating_mul(AROUND_PART));
        }
        written
    }

    /// Samples the next few tasks that work for no open request.
    fn sample_others(
        &mut self,
        sink: &impl Sink,
        thread_sampler: &mut ThreadSampler<impl ThreadFiles>,
        open: &[OpenRequest],
        now: u64,
    ) -> u64 {
        self.tasks.clear();
        let (set, Some(stacks)) = (TASKS.load(Ordering::Relaxed), &mut thread_sampler.stacks)
        else {
            return 0;
        };
        if set == 0 {
            return 0;
        }
        stacks.tasks_in(set, MOST_TASKS, &mut self.tasks);
        self.tasks.retain(|task| open.iter().all(|r| r.task as usize != *task));
        let (count, mut written, mut found) = (self.tasks.len(), 0, Vec::new());
        self.followed_around.retain(|_, followed| followed.is_fresh(now));
        for step in 0..count.min(MOST_AROUND) {
            let task = self.tasks[(self.around + step) % count];
            let mut followed =
                self.followed_around.remove(&task).filter(|s| s.is_still(thread_sampler, now));
            if let (None, Some(stacks)) = (&followed, &mut thread_sampler.stacks) {
                if stacks.suspended(task, 1, &mut found).is_ok() {
                    // One that awaits a request's task (a connection's) works for that.
                    let works = |one: &Suspended| open.iter().any(|r| r.task as usize == one.task);
                    let one = found.pop().filter(|one| !works(one));
                    let one = one.map(|one| Suspended { task, ..one });
                    followed = one.map(|one| Followed::of(thread_sampler, one, now));
                }
            }
            if let Some(followed) = followed {
                append(sink, 0, &followed, NOBODY, now);
                written += 1;
                self.followed_around.insert(task, followed);
            }
        }
        self.around = self.around.wrapping_add(MOST_AROUND);
        written
    }

    /// What `find` finds first among a few tasks at a time, while there is time.
    fn first_of(
        &mut self,
        world: &impl Clock,
        mut find: impl FnMut(&[usize]) -> Option<usize>,
    ) -> Option<usize> {
        let began_ns = world.thread_cpu_ns();
        for (count, some) in self.tasks.chunks(TASKS_AT_ONCE).enumerate() {
            if let Some(task) = find(some) {
                return Some(task);
            }
            if world.thread_cpu_ns().saturating_sub(began_ns) > SEARCH_NS {
                self.search_at = self.search_at.wrapping_add((count + 1) * TASKS_AT_ONCE);
                break;
            }
        }
        None
    }

    /// Lists the tasks that are searched, from where the last search ended. Those of open requests
    /// first: they are the likely ones, and known without the set.
    fn list(&mut self, stacks: &mut PythonStacks, open: &[OpenRequest]) {
        self.tasks.clear();
        let own = open.iter().map(|r| r.task).filter(|task| is_of_python(*task));
        self.tasks.extend(own.map(|task| task as usize));
        self.tasks.truncate(MOST_TASKS);
        let set = TASKS.load(Ordering::Relaxed);
        if set != 0 {
            stacks.tasks_in(set, MOST_TASKS, &mut self.tasks);
        }
        self.tasks.truncate(2 * MOST_TASKS);
        let first = self.search_at % self.tasks.len().max(1);
        self.tasks.rotate_left(first);
    }

    /// The task that holds what `waiter` awaits or is to end its wait; recorded itself. `NOBODY`:
    /// not known, or not asked now.
    fn find_holder(
        &mut self,
        world: &(impl Clock + Sink),
        thread_sampler: &mut ThreadSampler<impl ThreadFiles>,
        open: &[OpenRequest],
        (request, waiter): (&OpenRequest, &Suspended),
        now: u64,
    ) -> Holder {
        let ends = !waiter.ended_by.is_empty() && waiter.fd.is_none();
        let (true, Some(stacks)) = (ends, &mut thread_sampler.stacks) else { return NOBODY };
        self.asked.retain(|(_, asked_ns, _)| now.saturating_sub(*asked_ns) < ASK_HOLDER_NS);
        if let Some((_, _, holder)) = self.asked.iter().find(|(lock, ..)| *lock == waiter.lock) {
            return *holder;
        }
        let held = matches!(waiter.kind, AwaitKind::Lock | AwaitKind::Semaphore);
        let may_end = now >= self.enders_from_ns;
        let enters = waiter.entered != 0;
        let may_search = held || enters || may_end;
        if now < self.search_from_ns || self.asked.len() >= MOST_LOCKS || !may_search {
            return NOBODY;
        }
        let began_ns = world.thread_cpu_ns();
        self.list(stacks, open);
        let own = [waiter.task, request.task as usize];
        let (lock, by) = (waiter.lock, waiter.ended_by);
        let mut holder = NOBODY;
        if held {
            let found = self.first_of(world, |some| stacks.task_holding(lock, some));
            holder = Holder::of(found, HolderSource::WithBlock);
        }
        if holder.task == 0 && enters {
            // One of several that have an item: which of them the wait is for is not known.
            let found =
                self.first_of(world, |some| stacks.task_with_item(waiter.entered, lock, some));
            holder = Holder::of(found, HolderSource::Refers);
        }
        if holder.task == 0 && may_end {
            let found = self.first_of(world, |some| stacks.task_to_end(lock, by, &own, some));
            holder = Holder::of(found, HolderSource::Refers);
        }
        if holder.how != HolderSource::WithBlock && may_end {
            self.enders_from_ns = now + ASK_ENDER_NS * self.tasks.len() as u64;
        }
        let took_ns = world.thread_cpu_ns().saturating_sub(began_ns);
        let part = if self.poor { SEARCH_PART_POOR } else { SEARCH_PART };
        self.search_from_ns = now.saturating_add(took_ns.saturating_mul(part));
        self.asked.push((waiter.lock, now, holder));
        if holder.task == 0 {
            return NOBODY;
        }
        let mut found = Vec::new();
        if stacks.suspended(holder.task, 1, &mut found).is_ok() {
            if let Some(one) = found.pop() {
                // Under the holder's address, though its innermost await may be in a task that it
                // awaits.
                let one = Suspended { task: holder.task, ..one };
                append(world, 0, &Followed::of(thread_sampler, one, now), NOBODY, now);
            }
        }
        holder
    }
}

impl Followed {
    fn of(
        thread_sampler: &mut ThreadSampler<impl ThreadFiles>,
        mut one: Suspended,
        now: u64,
    ) -> Followed {
        let frames = std::mem::take(&mut one.frames);
        let stack = if frames.is_empty() { 0 } else { thread_sampler.stack_of(&frames) };
        let peer = match one.fd {
            Some(UNKNOWN_PEER) => Some("a peer".to_owned()),
            Some(fd) => sys::fds::describe(fd).filter(|i| is_socket(i.kind)).map(|info| info.text),
            None => None,
        };
        let target =
            peer.map_or(0, |text| TARGET_IS_NAME | u64::from(thread_sampler.target(&text)));
        Followed { followed_ns: now, one, stack, target }
    }

    fn is_fresh(&self, now: u64) -> bool {
        now.saturating_sub(self.followed_ns) < FOLLOW_AGAIN_NS
    }

    /// Whether it is still there, as far as three guarded reads show.
    fn is_still(&self, thread_sampler: &ThreadSampler<impl ThreadFiles>, now: u64) -> bool {
        let moved = |stacks: &PythonStacks| stacks.has_moved(self.one.mark);
        self.one.kind != AwaitKind::Running
            && self.is_fresh(now)
            && !thread_sampler.stacks.as_ref().is_none_or(moved)
    }
}

fn append(sink: &impl Sink, request: u64, followed: &Followed, holder: Holder, now: u64) {
    let Followed { one, stack, target, .. } = followed;
    let record = Await {
        t_ns: now,
        request,
        task: one.task as u64,
        stack: *stack,
        kind: one.kind,
        how: holder.how,
        holder: holder.task as u64,
        target: *target,
        timeout_ns: one.timeout_ns,
    };
    sink.append(&record.encode(), now);
    sink.recorder().open_requests().task_sampled(request, now);
}

/// Whether a request's task is an object of the interpreter's.
fn is_of_python(task: u64) -> bool {
    task != 0 && cell_of(task).is_none()
}

fn is_socket(kind: FdKind) -> bool {
    matches!(kind, FdKind::TcpSocket | FdKind::UdpSocket | FdKind::UnixSocket)
}
