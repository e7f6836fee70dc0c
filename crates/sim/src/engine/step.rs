//! Going on: what a thread on a CPU does until it needs time or blocks.
//!
//! How it works: operations at the front of the body's queue are carried out one by one; where
//! there is none, the next step of the innermost frame is expanded into some (`ops.rs`).
//!
//! What it promises: it returns with the CPU's next event planned, or with the CPU free.

use super::actor::{
    Attempt, Block, Body, Cpu, Effect, End, Frame, Micro, On, Role, State, Tid, Wait,
};
use super::ops;
use super::request::Actor;
use super::world::{Event, World};
use crate::program::{lib_frames, FnId, Span, Thing, ThingId, US};

impl<'p> World<'p> {
    /// Lets the thread on `cpu` go on.
    pub(super) fn go_on(&mut self, cpu: usize) {
        self.charge(cpu);
        while let Some(tid) = self.cpus[cpu].running {
            match self.threads[tid].body.micros.front() {
                None => {
                    if !self.expand(tid) {
                        return;
                    }
                }
                Some(Micro::Cpu { left: 0, .. }) => {
                    self.threads[tid].body.micros.pop_front();
                }
                Some(Micro::Cpu { left, how }) => {
                    let (left, how) = (*left, *how);
                    if how == Cpu::Bytecode && self.gil.is_wanted() && self.threads[tid].has_gil {
                        let micros = &mut self.threads[tid].body.micros;
                        micros.push_front(Micro::TakeGil);
                        micros.push_front(Micro::DropGil { asked: true });
                        continue;
                    }
                    self.burst(cpu, tid, left);
                    return;
                }
                Some(_) => self.carry_out(tid),
            }
        }
    }

    /// The user of a thing: the mounted task where it is one of asyncio's, else the thread.
    pub(super) fn actor_for(&self, tid: Tid, thing: ThingId) -> Actor {
        let made = self.program.things.get(thing);
        let of_tasks =
            matches!(made, Some(Thing::TaskLock | Thing::TaskSemaphore(_) | Thing::TaskQueue(_)));
        let task = self.threads[tid].task.filter(|_| of_tasks);
        task.map_or(Actor::Thread(tid), Actor::Task)
    }

    /// Carries the front operation out.
    fn carry_out(&mut self, tid: Tid) {
        let Some(micro) = self.threads[tid].body.micros.pop_front() else { return };
        match micro {
            Micro::Cpu { .. } => (),
            Micro::TakeGil => {
                if !self.threads[tid].has_gil {
                    self.threads[tid].body.micros.push_front(Micro::TakeGil);
                    if self.take_gil(tid) {
                        self.threads[tid].body.micros.pop_front();
                    }
                }
            }
            Micro::DropGil { asked } => self.drop_gil(tid, asked),
            Micro::Block(wait) => self.block(tid, wait),
            Micro::Sleep(wait) => {
                // Timers of the kernel's are 50 us late, so that several may share an interrupt.
                let late = self.threads[tid].random.between(20 * US, 80 * US);
                let until = wait.until.map(|length| self.now + length + late);
                self.block(tid, Wait { until, ..wait });
            }
            Micro::Try { attempt, until, kernel } => self.try_it(tid, (attempt, until, kernel)),
            Micro::Await(on) => self.await_work(tid, on),
            Micro::Enter(frames) => self.enter(tid, frames),
            Micro::Push { steps, end } => self.push(tid, steps, end),
            Micro::PushIfHad { steps, end } => {
                if !std::mem::take(&mut self.threads[tid].body.timed_out) {
                    self.push(tid, steps, end);
                }
            }
            Micro::AskAgain { attempt, limit, frames } => {
                self.ask_again(tid, attempt, limit, frames);
            }
            Micro::AskBusy { thing, asked } => self.ask_busy(tid, thing, asked),
            Micro::Parallel { to, left } => {
                let call = self.share_out(to, left, tid);
                let attempt = Attempt::Call(call);
                self.put_in_front(tid, ops::attempt_with(attempt, None, lib_frames::PARALLEL));
            }
            Micro::Submit { to, function, wait } => {
                let request = self.threads[tid].body.request;
                let job = self.submit(to, function, (None, request), Some(tid));
                if wait {
                    let micros = ops::attempt_with(Attempt::Job(job), None, lib_frames::RESULT);
                    self.put_in_front(tid, micros);
                }
            }
            Micro::Hand { to, function } => {
                let request = self.threads[tid].body.request;
                let job = self.submit(to, function, (None, request), Some(tid));
                self.suspend_for_job(tid, job);
            }
            Micro::Start { function, join } => {
                let name = format!("Thread-{} ({})", self.threads.len(), self.name_of(function));
                let child = self.spawn(&name, Role::Once, lib_frames::THREAD, Some(function));
                self.threads[tid].body.child = Some(child);
                if join {
                    self.threads[tid].body.micros.push_front(Micro::JoinLast);
                }
            }
            Micro::JoinLast => {
                if let Some(child) = self.threads[tid].body.child.take() {
                    let attempt = Attempt::End(child);
                    self.put_in_front(tid, ops::attempt_with(attempt, None, lib_frames::JOIN));
                }
            }
            Micro::Suspend(awaits) => self.suspend(tid, awaits),
            Micro::Do(effect) => self.take_effect(tid, effect),
        }
    }

    /// Asks anew if the last attempt ran into its time limit.
    fn ask_again(
        &mut self,
        tid: Tid,
        attempt: Attempt,
        limit: Span,
        frames: &'static [lib_frames::Lib],
    ) {
        if std::mem::take(&mut self.threads[tid].body.timed_out) {
            let until = self.now + self.drawn(tid, limit);
            let mut micros = vec![Micro::Cpu { left: 15 * US, how: Cpu::Bytecode }];
            micros.extend(ops::attempt_with(attempt, Some(until), frames));
            micros.push(Micro::AskAgain { attempt, limit, frames });
            self.put_in_front(tid, micros);
        }
    }

    /// Asks for a database's lock, and pauses where it is taken.
    fn ask_busy(&mut self, tid: Tid, thing: ThingId, asked: usize) {
        let lock = Attempt::Lock { thing, by_with: false };
        if !self.attempt(Actor::Thread(tid), lock) {
            let again = Micro::AskBusy { thing, asked: asked + 1 };
            let pause = Micro::Sleep(ops::busy_pause(thing, asked));
            let cost = self.call_cost(tid);
            self.put_in_front(tid, vec![pause, cost, again]);
        }
    }

    fn name_of(&self, function: FnId) -> &'p str {
        &self.program.functions[function].name
    }

    pub(super) fn put_in_front(&mut self, tid: Tid, micros: Vec<Micro<'p>>) {
        for micro in micros.into_iter().rev() {
            self.threads[tid].body.micros.push_front(micro);
        }
    }

    /// Other frames of libraries are on the stack from now on.
    pub(super) fn enter(&mut self, tid: Tid, frames: &'static [lib_frames::Lib]) {
        self.log_until_now(tid);
        self.threads[tid].body.extra = frames;
    }

    fn push(&mut self, tid: Tid, steps: &'p [crate::program::Step], end: End) {
        if let Some(frame) = self.threads[tid].body.frames.last_mut() {
            frame.blocks.push(Block { steps, at: 0, end });
        }
    }

    /// A frame of a function that begins.
    pub(super) fn frame(&self, function: FnId) -> Frame<'p> {
        let made = &self.program.functions[function];
        let line = made.first_line + 1;
        let blocks = vec![Block { steps: &made.body, at: 0, end: End::Plain }];
        Frame { function, line, blocks }
    }

    /// The thread leaves its CPU until it is woken.
    pub(super) fn block(&mut self, tid: Tid, wait: Wait) {
        let State::Running(cpu) = self.threads[tid].state else { return };
        let until = wait.until;
        self.log_until_now(tid);
        self.switch_out(cpu, State::Blocked(wait), false);
        let thread = &mut self.threads[tid];
        thread.epoch += 1;
        thread.woken_by = None;
        let epoch = thread.epoch;
        if let Some(until) = until {
            self.at(until, Event::Timer { tid, epoch });
        }
    }

    fn try_it(&mut self, tid: Tid, (attempt, until, kernel): (Attempt, Option<u64>, bool)) {
        let actor = match attempt.thing() {
            Some(thing) => self.actor_for(tid, thing),
            None => Actor::Thread(tid),
        };
        if self.attempt(actor, attempt) {
            let body = &mut self.threads[tid].body;
            (body.waits_for, body.timed_out) = (None, false);
            return;
        }
        if let Actor::Task(task) = actor {
            self.suspend_for(tid, task, attempt);
            return;
        }
        let over = until.is_some_and(|until| until <= self.now);
        let on = attempt.on();
        if over {
            let body = &mut self.threads[tid].body;
            (body.waits_for, body.timed_out) = (None, true);
            return;
        }
        if !kernel && self.threads[tid].has_gil {
            let cost = self.call_cost(tid);
            let again = Micro::Try { attempt, until, kernel: true };
            self.put_in_front(
                tid,
                vec![Micro::DropGil { asked: false }, cost, again, Micro::TakeGil],
            );
            return;
        }
        self.threads[tid].body.micros.push_front(Micro::Try { attempt, until, kernel });
        self.threads[tid].body.waits_for = Some(on);
        self.stand_in_line(actor, on);
        let kind = format::wait::WaitKind::Futex;
        self.block(
            tid,
            Wait { on, kind, until, limited: until.is_some(), limit_ns: 0, target: None },
        );
    }

    /// Expands the next step; false when the thread is gone.
    fn expand(&mut self, tid: Tid) -> bool {
        let thread = &mut self.threads[tid];
        let Some(frame) = thread.body.frames.last_mut() else { return self.nothing_left(tid) };
        let Some(block) = frame.blocks.last_mut() else {
            thread.body.frames.pop();
            return true;
        };
        if let Some(step) = block.steps.get(block.at) {
            block.at += 1;
            if frame.line != step.line {
                self.log_until_now(tid);
            }
            if let Some(frame) = self.threads[tid].body.frames.last_mut() {
                frame.line = step.line;
            }
            let micros = self.begin(tid, &step.op);
            self.put_in_front(tid, micros);
            return true;
        }
        match block.end {
            End::Plain => drop(frame.blocks.pop()),
            End::Again(0) => drop(frame.blocks.pop()),
            End::Again(times) => (block.at, block.end) = (0, End::Again(times - 1)),
            End::Forever => block.at = 0,
            End::Unlock(thing) => {
                frame.blocks.pop();
                thread.body.micros.push_back(Micro::Do(Effect::Unlock(thing)));
            }
            End::UnlockShared(thing) => {
                frame.blocks.pop();
                thread.body.micros.push_back(Micro::Do(Effect::UnlockShared(thing)));
            }
            End::GiveBack(thing) => {
                frame.blocks.pop();
                thread.body.micros.push_back(Micro::Do(Effect::GiveBack(thing)));
            }
        }
        // No loop of steps that take no time holds the clock still.
        thread.body.micros.push_back(Micro::Cpu { left: US, how: Cpu::Bytecode });
        true
    }

    /// All frames have returned: what a thread of its role does next.
    fn nothing_left(&mut self, tid: Tid) -> bool {
        if self.threads[tid].task.is_some() {
            self.threads[tid].body.micros.push_back(Micro::Do(Effect::TaskEnds));
            return true;
        }
        let micros = match self.threads[tid].role {
            Role::Serves(connection) => self.serve_next(tid, connection),
            Role::Works(thing) => self.work_next(tid, thing),
            Role::Accepts => self.accept_next(tid),
            Role::Sync => self.sync_next(tid),
            Role::Native(thing) => self.native_next(tid, thing),
            Role::Loops => vec![Micro::Do(Effect::LoopTurn)],
            Role::Neighbour(index) => self.neighbour(tid, index),
            Role::Sampler => self.rest_of_sampler(),
            Role::Once => {
                self.exit(tid);
                return false;
            }
        };
        self.put_in_front(tid, micros);
        true
    }

    fn neighbour(&mut self, tid: Tid, index: usize) -> Vec<Micro<'p>> {
        let made = &self.program.host.neighbours[index];
        let (busy, idle) = (made.busy, made.idle);
        let left = self.drawn(tid, busy);
        let pause = self.drawn(tid, idle);
        self.threads[tid].body.request = None;
        let kind = format::wait::WaitKind::Sleep;
        // It begins with its pause, so that the others have begun.
        let until = Some(self.now + pause);
        let wait = Wait { on: On::Rest, kind, until, limited: true, limit_ns: 0, target: None };
        vec![Micro::Block(wait), Micro::Cpu { left, how: Cpu::Free }]
    }

    fn exit(&mut self, tid: Tid) {
        let State::Running(cpu) = self.threads[tid].state else { return };
        self.drop_gil(tid, false);
        self.switch_out(cpu, State::Gone, false);
        let id = self.threads[tid].id;
        self.recorder.thread_ends(id, self.now);
        self.sampler.thread_ends(id);
        self.threads[tid].body = Body::default();
        for other in 0..self.threads.len() {
            let joins = |wait: &Wait| wait.on == On::End(tid);
            if matches!(&self.threads[other].state, State::Blocked(wait) if joins(wait)) {
                self.wake(other, Some(tid));
            }
        }
    }

    fn take_effect(&mut self, tid: Tid, effect: Effect) {
        match effect {
            Effect::Unlock(thing) => self.unlock(thing, self.actor_for(tid, thing)),
            Effect::UnlockShared(thing) => self.unlock_shared(thing, Actor::Thread(tid)),
            Effect::GiveBack(thing) => self.give_back(thing, self.actor_for(tid, thing)),
            Effect::Set(thing) => self.set(thing, Actor::Thread(tid)),
            Effect::Why(why) => {
                self.log_until_now(tid);
                self.threads[tid].body.why = Some(why);
            }
            Effect::Module(module) => {
                self.log_until_now(tid);
                self.threads[tid].body.module = module;
            }
            Effect::Collection(begins) => {
                self.recorder.collection(self.threads[tid].id, begins, self.now);
            }
            Effect::Fork(begins) => self.recorder.fork(self.threads[tid].id, begins, self.now),
            Effect::Usage { faults, storage_kib, system_ns } => {
                let used = &mut self.threads[tid].used;
                used.faults += faults;
                used.storage_kib += storage_kib;
                used.system_ns += system_ns;
            }
            Effect::Begin => {
                let request = self.threads[tid].body.request;
                self.begin_request(tid, request);
            }
            Effect::Finish => self.finish_request(tid),
            Effect::JobBegins(job) => self.job_begins(tid, job),
            Effect::JobEnds(job) => self.job_ends(tid, job),
            Effect::Accept => self.accept(tid),
            Effect::TakeUp => self.take_up(tid),
            Effect::Spawn(function) => drop(self.new_task(Some(function), None)),
            Effect::ShareDone(call) => self.share_done(tid, call),
            Effect::Pass => self.pass(tid),
            Effect::Turn => self.turn(tid),
            Effect::PassEnds => self.pass_ends(tid),
            Effect::LoopTurn => self.loop_turn(tid),
            Effect::Mount(task) => self.mount(tid, task),
            Effect::TaskEnds => self.task_ends(tid),
        }
    }
}
