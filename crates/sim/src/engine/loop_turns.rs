//! An event loop: the turns of its tasks.
//!
//! How it works: the loop's thread mounts the task whose turn it is. The task goes on until it
//! awaits something, which gives the thread back; what is awaited puts the task behind the others
//! that are at their turn, and wakes the loop if that polls. What a task does in between is the
//! thread's: a blocking call keeps the loop.
//!
//! What it promises: turns in order of readiness, as asyncio has it.

use format::wait::AwaitKind;

use super::actor::{Attempt, Awaits, Body, Cpu, Effect, Micro, On, State, Tid};
use super::log::{stack_of, Doing, Entry};
use super::request::Actor;
use super::tasks::{Task, TaskState};
use super::world::{Event, World};
use crate::program::lib_frames::{HANDLE, SELECT};
use crate::program::US;

impl<'p> World<'p> {
    /// A new task, at its turn.
    pub(super) fn new_task(&mut self, function: Option<usize>, request: Option<usize>) -> usize {
        let task = self.tasks.len();
        let mut body = Body { base: HANDLE, request, ..Body::default() };
        body.frames.extend(function.map(|function| self.frame(function)));
        if request.is_some() {
            body.micros.push_back(Micro::Do(Effect::Begin));
        }
        let (state, since) = (TaskState::Queued, self.now);
        self.tasks.push(Task { body, state, epoch: 0, since, moves: 0 });
        self.log.tasks.push(Vec::new());
        self.turn.push_back(task);
        task
    }

    /// The loop's next callback, or its wait for something to do.
    pub(super) fn loop_turn(&mut self, tid: Tid) {
        while let Some(request) = self.arrived[0].pop_front() {
            let left = self.threads[tid].random.between(60 * US, 120 * US);
            self.threads[tid].body.micros.push_back(Micro::Cpu { left, how: Cpu::Bytecode });
            self.new_task(None, Some(request));
        }
        if let Some(task) = self.turn.pop_front() {
            self.threads[tid].body.micros.push_back(Micro::Do(Effect::Mount(task)));
            return;
        }
        let cost = self.call_cost(tid);
        self.put_in_front(
            tid,
            vec![
                Micro::Enter(SELECT),
                Micro::DropGil { asked: false },
                cost,
                Micro::Await(On::Poll),
                Micro::TakeGil,
                Micro::Enter(&[]),
                Micro::Cpu { left: 20 * US, how: Cpu::Bytecode },
            ],
        );
    }

    /// The task is at its turn: the thread goes on with it.
    pub(super) fn mount(&mut self, tid: Tid, task: usize) {
        self.log_until_now(tid);
        self.log_task(task, Doing::Queued);
        let made = &mut self.tasks[task];
        made.state = TaskState::Mounted;
        made.moves += 1;
        std::mem::swap(&mut made.body, &mut self.threads[tid].body);
        self.threads[tid].task = Some(task);
    }

    fn unmount(&mut self, tid: Tid, state: TaskState) {
        let Some(task) = self.threads[tid].task else { return };
        self.log_until_now(tid);
        let made = &mut self.tasks[task];
        std::mem::swap(&mut made.body, &mut self.threads[tid].body);
        made.state = state;
        made.since = self.now;
        made.epoch += 1;
        made.moves += 1;
        self.threads[tid].task = None;
    }

    /// The mounted task gives its thread back.
    pub(super) fn suspend(&mut self, tid: Tid, awaits: Awaits) {
        let Some(task) = self.threads[tid].task else { return };
        let until = awaits.until.map(|length| self.now + length);
        let awaits = Awaits { until, ..awaits };
        self.unmount(tid, TaskState::Suspended(awaits));
        let epoch = self.tasks[task].epoch;
        if let Some(until) = until {
            self.at(until, Event::TaskTimer { task, epoch });
        }
    }

    /// The same, for what other tasks or threads give.
    pub(super) fn suspend_for(&mut self, tid: Tid, task: usize, attempt: Attempt) {
        let kind = match attempt {
            Attempt::Lock { .. } | Attempt::Read(_) | Attempt::Write(_) => AwaitKind::Lock,
            Attempt::Permit(_) => AwaitKind::Semaphore,
            Attempt::Item(_) | Attempt::Room(_) => AwaitKind::Queue,
            Attempt::Event(_) => AwaitKind::Event,
            Attempt::Job(_) | Attempt::End(_) | Attempt::Call(_) => AwaitKind::Executor,
        };
        let on = attempt.on();
        self.stand_in_line(Actor::Task(task), on);
        self.suspend(tid, Awaits { kind, on, until: None, target: None, limited: false });
    }

    /// The same for an executor's result.
    pub(super) fn suspend_for_job(&mut self, tid: Tid, job: usize) {
        if let Some(task) = self.threads[tid].task {
            self.suspend_for(tid, task, Attempt::Job(job));
        }
    }

    /// What the task awaits is there.
    pub(super) fn task_goes_on(&mut self, task: usize, by: Option<Tid>) {
        let TaskState::Suspended(awaits) = self.tasks[task].state else { return };
        self.log_task(task, Doing::Wait(awaits.on));
        if let Some(last) = self.log.tasks[task].last_mut() {
            last.ended_by = by;
        }
        let made = &mut self.tasks[task];
        (made.state, made.since) = (TaskState::Queued, self.now);
        made.epoch += 1;
        made.moves += 1;
        self.turn.push_back(task);
        self.wake_loop(by);
    }

    /// The loop has something to do.
    pub(super) fn wake_loop(&mut self, by: Option<Tid>) {
        let Some(front) = self.front else { return };
        if matches!(&self.threads[front].state, State::Blocked(wait) if wait.on == On::Poll) {
            self.wake(front, by);
        }
    }

    /// The mounted task is through.
    pub(super) fn task_ends(&mut self, tid: Tid) {
        if self.threads[tid].body.request.is_some() {
            let left = self.threads[tid].random.between(60 * US, 120 * US);
            self.put_in_front(
                tid,
                vec![
                    Micro::Cpu { left, how: Cpu::Bytecode },
                    Micro::Do(Effect::Finish),
                    Micro::Do(Effect::TaskEnds),
                ],
            );
            return;
        }
        self.unmount(tid, TaskState::Done);
    }

    fn log_task(&mut self, task: usize, doing: Doing) {
        let from = self.tasks[task].since;
        if from >= self.now {
            return;
        }
        let stack = stack_of(&mut self.known, self.program, &self.tasks[task].body);
        let (to, ended_by) = (self.now, None);
        self.log.tasks[task].push(Entry { from, to, doing, stack, ended_by, task: None });
    }
}
