//! Samples of suspended tasks: where the tasks of late requests are, and their blockers.
//!
//! How it works: as `sampler::tasks`. A task that moved is followed, three a pass; one that did not
//! is written again after 100 ms. The task inside the lock that is awaited is written as well; of a
//! queue the one that is to fill it; where none is known, six a time of those that work for no
//! request.

use std::collections::HashSet;

use format::record::{Await, TARGET_IS_NAME};
use format::wait::{AwaitKind, HolderSource};

use sampler::policy::task_due::{due, Due, AROUND_NS, FOLLOW_AGAIN_NS, MOST_AROUND, MOST_FOLLOWED};

use super::sampler::Seen;
use crate::engine::actor::{Body, Frame, On};
use crate::engine::log::stack_of;
use crate::engine::{Actor, TaskState, World};
use crate::program::{Op, Step};

impl World<'_> {
    /// Tasks of requests past their usual time, and others around them.
    pub(super) fn look_at_tasks(&mut self) {
        let now = self.now;
        let with_task = |index: &usize| self.requests[*index].task.is_some();
        let mut late: Vec<usize> = self.overdue().into_iter().filter(with_task).collect();
        let count = late.len() as u64;
        let seen_ns = |index: &usize| self.sampler.tasks.get(index).map_or(0, |s| s.seen_ns);
        late.sort_by_key(seen_ns);
        let (mut left, mut unheld) = (MOST_FOLLOWED, false);
        for (place, index) in late.into_iter().enumerate() {
            let Some(task) = self.requests[index].task else { continue };
            let moves = self.tasks[task].moves;
            let followed = Seen { seen_ns: now, followed_ns: now, moves };
            let seen = match self.sampler.tasks.get(&index).copied() {
                None => followed,
                Some(seen) => {
                    let moved = seen.moves != moves;
                    let fresh = now - seen.followed_ns < FOLLOW_AGAIN_NS;
                    let often = (count, place < super::sampler::MOST_THREADS);
                    match due((1, now - seen.seen_ns), often, || moved, || !moved && fresh) {
                        Due::No => continue,
                        Due::Repeat => Seen { seen_ns: now, ..seen },
                        Due::Follow => followed,
                    }
                }
            };
            let follows = seen.followed_ns == now;
            if follows && left == 0 {
                continue;
            }
            left -= usize::from(follows);
            self.sampler.tasks.insert(index, seen);
            unheld |= self.write_await(self.requests[index].id, task);
        }
        if unheld && now >= self.sampler.around.0 {
            self.sampler.around.0 = now + AROUND_NS;
            let open: HashSet<usize> = self
                .requests
                .iter()
                .rev()
                .take(512)
                .filter(|r| r.end_ns.is_none())
                .filter_map(|r| r.task)
                .collect();
            let idle = |task: &usize| {
                !open.contains(task) && !matches!(self.tasks[*task].state, TaskState::Done)
            };
            let others: Vec<usize> = (0..self.tasks.len()).filter(idle).collect();
            for step in 0..others.len().min(MOST_AROUND) {
                let at = (self.sampler.around.1 + step) % others.len();
                self.write_await(0, others[at]);
            }
            self.sampler.around.1 += MOST_AROUND;
        }
    }

    /// A record of where a task is, and of the holder of what it awaits; whether none is known.
    fn write_await(&mut self, request: u64, task: usize) -> bool {
        let state = self.tasks[task].state;
        let (kind, target) = match state {
            TaskState::Suspended(awaits) => (awaits.kind, awaits.target),
            TaskState::Queued => (AwaitKind::Ready, None),
            TaskState::Mounted => (AwaitKind::Running, None),
            TaskState::Done => return false,
        };
        let holder = match state {
            TaskState::Suspended(awaits) => self.task_in_the_way(task, awaits.on),
            _ => None,
        };
        let how = holder.map_or(HolderSource::None, |(_, how)| how);
        let holder = holder.map(|(task, _)| task);
        let stack = self.stack_of_task(task);
        let record = Await {
            t_ns: self.now,
            request,
            task: address_of(task),
            stack,
            kind,
            how,
            holder: holder.map_or(0, address_of),
            target: target.map_or(0, |name| TARGET_IS_NAME | u64::from(name)),
            timeout_ns: 0,
        };
        let sampler = self.sampler.tid;
        self.recorder.append(sampler, &record.encode(), self.now);
        if let Some(holder) = holder.filter(|_| request != 0) {
            self.write_await(0, holder);
        }
        let gives = matches!(
            kind,
            AwaitKind::Queue | AwaitKind::Lock | AwaitKind::Semaphore | AwaitKind::Event
        );
        gives && holder.is_none()
    }

    /// The task inside of what is awaited; of a queue one that is to put something there.
    fn task_in_the_way(&self, task: usize, on: On) -> Option<(usize, HolderSource)> {
        match on {
            On::Lock(thing) | On::Permit(thing) => match self.things[thing].owner {
                Some(Actor::Task(task)) => Some((task, HolderSource::WithBlock)),
                _ => None,
            },
            On::Item(thing) => {
                let to_put = |other: &usize| {
                    let waits = matches!(&self.tasks[*other].state,
                        TaskState::Suspended(awaits) if awaits.on == on);
                    let frames = &self.tasks[*other].body.frames;
                    let puts = |frame: &Frame<'_>| {
                        puts(&self.program.functions[frame.function].body, thing)
                    };
                    *other != task && !waits && frames.iter().any(puts)
                };
                let found = (0..self.tasks.len()).find(to_put);
                found.map(|task| (task, HolderSource::Refers))
            }
            _ => None,
        }
    }

    /// The coroutines of a task, without the loop's frames.
    fn stack_of_task(&mut self, task: usize) -> u32 {
        let mounted = self.threads.iter().position(|t| t.task == Some(task));
        let body = match mounted {
            Some(tid) => &self.threads[tid].body,
            None => &self.tasks[task].body,
        };
        let (frames, extra) = (body.frames.clone(), body.extra);
        let bare = Body { frames, extra, ..Body::default() };
        stack_of(&mut self.recorder.tables, self.program, &bare)
    }
}

/// Whether steps put something into a queue.
fn puts(body: &[Step], queue: usize) -> bool {
    body.iter().any(|step| match &step.op {
        Op::Put(thing) => *thing == queue,
        Op::Repeat(_, body) | Op::Forever(body) | Op::Every { body, .. } => puts(body, queue),
        _ => false,
    })
}

/// The address of a task.
fn address_of(task: usize) -> u64 {
    0x7f50_0000_0000 + task as u64 * 1024
}
