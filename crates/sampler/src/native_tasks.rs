//! Samples of requests whose task of a native async runtime is suspended.
//!
//! How it works: the open request remembers its task's cell (`samplers::native_tasks`). Past the
//! request's usual time the cell is read: the stacks in which the task waits become ids, and an
//! `Await` record is written for each. While the version is the same, the same records are written
//! again now and then, after one guarded read. What ended an await is taken from the mailbox of
//! wakers: a last record of that await, at that time, and one of the waker's stack.
//!
//! What it promises: of `MOST_ASKED` requests a pass, those not seen for longest first, the stacks
//! of `MOST_READ` are read (a few tens of microseconds each), of one while the bucket is low. What
//! is missing on purpose: tasks of no request. Nobody says where they are.

use std::collections::{HashMap, HashSet};

use format::record::Await;
use format::wait::{AwaitKind, HolderSource};
use recorder::OpenRequest;
use samplers::native_tasks::{cell_of, read, take, Woken};

use crate::policy::task_due::{due, Due};
use crate::threads::thread_sampler::ThreadSampler;
use crate::world::{Clock, Proc, Sink, ThreadFiles};

/// Requests that are asked in one pass.
const MOST_ASKED: usize = 64;
/// Requests whose stacks are read in one pass.
const MOST_READ: usize = 4;
/// Set in the numbers of wakers, so that none is a task's address.
const WAKER: u64 = 1 << 63;

/// Where a request's task was, and when that was last recorded.
struct Seen {
    seen_ns: u64,
    cell: u64,
    version: u64,
    /// The stack of each await.
    stacks: Vec<u32>,
}

/// What is remembered of native tasks between passes.
#[derive(Default)]
pub(crate) struct NativeTasks {
    seen: HashMap<u64, Seen>,
    woken: Vec<Woken>,
    wakers: u64,
}

impl NativeTasks {
    /// Samples those of `open` that are in `urgent` (by index) and have a cell, at `most` of them
    /// as soon as they move; `poor`: one of them is read. Returns the number of records written.
    pub(crate) fn sample(
        &mut self,
        world: &(impl Clock + Proc + Sink),
        thread_sampler: &mut ThreadSampler<impl ThreadFiles>,
        (open, urgent): (&[OpenRequest], &[usize]),
        (most, poor): (usize, bool),
    ) -> u64 {
        let mut written = self.record_wakers(world, thread_sampler);
        let late = urgent.iter().filter_map(|i| open.get(*i));
        let late = late.filter_map(|r| Some((r.id, cell_of(r.task)?)));
        let mut late: Vec<(u64, u64, u64)> = late
            .map(|(id, cell)| (self.seen.get(&id).map_or(0, |seen| seen.seen_ns), id, cell))
            .collect();
        if late.is_empty() {
            self.seen.clear();
            return written;
        }
        let count = late.len() as u64;
        late.sort_unstable();
        late.truncate(MOST_ASKED);
        if self.seen.len() > open.len() {
            let ids: HashSet<u64> = open.iter().map(|request| request.id).collect();
            self.seen.retain(|id, _| ids.contains(id));
        }
        let mut left = if poor { 1 } else { MOST_READ };
        for (place, (seen_ns, id, cell)) in late.into_iter().enumerate() {
            let now = world.now_ns();
            let known = self.seen.get(&id).filter(|seen| seen.cell == cell);
            let known = known.map_or(0, |seen| seen.version);
            let version = || read(world.memory(), cell, id, known).map_or(0, |s| s.version);
            let (moved, still) = (|| version() != known, || version() == known);
            let tasks = u64::from(known != 0);
            match due((tasks, now.saturating_sub(seen_ns)), (count, place < most), moved, still) {
                Due::No => (),
                Due::Repeat => written += self.record(world, id, now),
                Due::Follow if left > 0 => {
                    left -= 1;
                    written += self.read(world, thread_sampler, (id, cell), now);
                }
                Due::Follow => (),
            }
        }
        written
    }

    /// Reads the cell of a request's task, and records what it awaits.
    fn read(
        &mut self,
        world: &(impl Clock + Proc + Sink),
        thread_sampler: &mut ThreadSampler<impl ThreadFiles>,
        (id, cell): (u64, u64),
        now: u64,
    ) -> u64 {
        let mut seen = Seen { seen_ns: now, cell, version: 0, stacks: Vec::new() };
        // One that is polled at this instant is not the first to be asked in the next pass.
        if let Some(found) = read(world.memory(), cell, id, 0) {
            seen.version = found.version;
            seen.stacks = found
                .awaits
                .iter()
                .map(|(at, bytes)| {
                    thread_sampler.native.copied(
                        world.recorder(),
                        world.memory(),
                        (*at, now),
                        bytes,
                    )
                })
                .collect();
        }
        self.seen.insert(id, seen);
        self.record(world, id, now)
    }

    /// A record for each await of a request's task.
    fn record(&mut self, sink: &impl Sink, id: u64, now: u64) -> u64 {
        let Some(seen) = self.seen.get_mut(&id).filter(|seen| !seen.stacks.is_empty()) else {
            return 0;
        };
        seen.seen_ns = now;
        for (index, stack) in seen.stacks.iter().enumerate() {
            let task = seen.cell + index as u64;
            sink.append(&of_native(now, id, (task, *stack)).encode(), now);
        }
        sink.recorder().open_requests().task_sampled(id, now);
        seen.stacks.len() as u64
    }

    /// Records what ended awaits that were sampled.
    fn record_wakers(
        &mut self,
        world: &(impl Clock + Proc + Sink),
        thread_sampler: &mut ThreadSampler<impl ThreadFiles>,
    ) -> u64 {
        let mut woken = std::mem::take(&mut self.woken);
        take(&mut woken);
        let mut written = 0;
        for one in woken.drain(..) {
            let seen = self.seen.get(&one.request).filter(|seen| seen.cell == one.cell);
            let Some(stack) = seen.and_then(|seen| seen.stacks.get(one.index)) else { continue };
            let (now, task) = (one.t_ns, (one.cell + one.index as u64, *stack));
            self.wakers += 1;
            let waker = WAKER | self.wakers;
            let (recorder, at) = (world.recorder(), (one.at, now));
            let stack = thread_sampler.native.copied(recorder, world.memory(), at, &one.stack);
            let by = Await {
                kind: AwaitKind::Running,
                how: HolderSource::Woke,
                holder: one.by_request,
                target: u64::from(one.tid),
                ..of_native(now, 0, (waker, stack))
            };
            let row = of_native(now, one.request, task);
            let row = Await { how: HolderSource::Woke, holder: waker, ..row };
            world.append(&by.encode(), world.now_ns());
            world.append(&row.encode(), world.now_ns());
            written += 2;
        }
        self.woken = woken;
        written
    }
}

fn of_native(t_ns: u64, request: u64, (task, stack): (u64, u32)) -> Await {
    let (kind, how) = (AwaitKind::Native, HolderSource::None);
    Await { t_ns, request, task, stack, kind, how, holder: 0, target: 0, timeout_ns: 0 }
}
