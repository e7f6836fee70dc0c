//! Locks, semaphores, queues, events, executors: their holders, their waiters, and which of them
//! goes on.
//!
//! How it works: a thread tries; where it fails it is put behind the other waiters, blocks in a
//! futex without the GIL, and tries again when it was woken, as a semaphore of the C library does:
//! a thread that comes by in between may be faster. For tasks the thing is handed to the one that
//! waits longest.
//!
//! What it promises: each change of a lock's owner is in `owners`, which the truth is read from.

use super::actor::{Attempt, Cpu, Effect, Micro, On, State, Tid};
use super::request::Actor;
use super::world::{Call, Job, ThingState, World};
use crate::program::{lib_frames, Thing, ThingId};

impl ThingState {
    fn give(&mut self, now: u64, owner: Option<Actor>) {
        self.owner = owner;
        self.owners.push((now, owner));
    }
}

impl World<'_> {
    /// Tries once; whether it was had.
    pub(super) fn attempt(&mut self, actor: Actor, attempt: Attempt) -> bool {
        let now = self.now;
        match attempt {
            Attempt::Lock { thing, by_with } => {
                let state = &mut self.things[thing];
                let free = state.owner.is_none() || state.owner == Some(actor);
                if free {
                    state.give(now, Some(actor));
                    state.by_with = by_with;
                }
                free
            }
            Attempt::Read(thing) => {
                let state = &mut self.things[thing];
                let free = state.writer.is_none() && state.writers.is_empty();
                if free {
                    state.readers.push(actor);
                    state.give(now, state.readers.first().copied());
                }
                free
            }
            Attempt::Write(thing) => {
                let state = &mut self.things[thing];
                let free = state.writer.is_none() && state.readers.is_empty();
                match free {
                    true => {
                        state.writers.retain(|writer| *writer != actor);
                        state.writer = Some(actor);
                        state.give(now, Some(actor));
                    }
                    false if !state.writers.contains(&actor) => state.writers.push(actor),
                    false => (),
                }
                free
            }
            Attempt::Permit(thing) => {
                let state = &mut self.things[thing];
                let free = state.count > 0;
                if free {
                    state.count -= 1;
                    state.give(now, Some(actor));
                }
                free
            }
            Attempt::Item(thing) => {
                let state = &mut self.things[thing];
                let free = state.count > 0;
                if free {
                    state.count -= 1;
                    state.give(now, Some(actor));
                    self.wake_one_for_room(thing, actor);
                }
                free
            }
            Attempt::Room(thing) => {
                let state = &mut self.things[thing];
                let free = state.room.is_none_or(|room| state.count < room);
                if free {
                    self.put(thing, actor);
                }
                free
            }
            Attempt::Event(thing) => self.take_notice(thing, actor),
            Attempt::Job(job) => self.jobs[job].done,
            Attempt::Call(call) => self.calls[call].left == 0,
            Attempt::End(tid) => matches!(self.threads[tid].state, State::Gone),
        }
    }

    /// An Event's waiters go on when it was set behind their begin: it is clear again at once.
    fn take_notice(&mut self, thing: ThingId, actor: Actor) -> bool {
        let Actor::Thread(tid) = actor else { return true };
        let notified = self.threads[tid].woken_by.is_some();
        let waited = matches!(self.threads[tid].body.waits_for, Some(On::Event(t)) if t == thing);
        notified && waited
    }

    /// An item comes into a queue.
    fn put(&mut self, thing: ThingId, actor: Actor) {
        self.things[thing].count += 1;
        self.wake_one(thing, actor);
    }

    /// The one that waits longest for the thing goes on; a task has it at once.
    fn wake_one(&mut self, thing: ThingId, by: Actor) {
        let Some(next) = self.things[thing].waiters.pop_front() else { return };
        let by = self.thread_of(by);
        match next {
            Actor::Thread(tid) => self.wake(tid, by),
            Actor::Task(task) => {
                let now = self.now;
                let state = &mut self.things[thing];
                state.count = state.count.saturating_sub(1);
                state.give(now, Some(next));
                self.task_goes_on(task, by);
            }
        }
    }

    /// A queue has room: the actor that waits longest to put something there tries again.
    /// `queue.Queue` has a Condition for putting and one for taking: a wake-up of the one is none
    /// of the other.
    fn wake_one_for_room(&mut self, thing: ThingId, by: Actor) {
        let Some(Actor::Thread(next)) = self.things[thing].putters.pop_front() else { return };
        let by = self.thread_of(by);
        self.wake(next, by);
    }

    /// A lock is released.
    pub(super) fn unlock(&mut self, thing: ThingId, by: Actor) {
        let now = self.now;
        self.things[thing].give(now, None);
        self.wake_one(thing, by);
    }

    /// A read-write lock is released: all that wait for it try again. The reader that has it for
    /// longest is the one that others wait for.
    pub(super) fn unlock_shared(&mut self, thing: ThingId, by: Actor) {
        let now = self.now;
        let state = &mut self.things[thing];
        match state.writer == Some(by) {
            true => state.writer = None,
            false => state.readers.retain(|reader| *reader != by),
        }
        state.give(now, state.readers.first().copied());
        self.set(thing, by);
    }

    /// A permit, or an item, is given back.
    pub(super) fn give_back(&mut self, thing: ThingId, by: Actor) {
        let now = self.now;
        self.things[thing].give(now, None);
        self.put(thing, by);
    }

    /// All that wait for the event go on.
    pub(super) fn set(&mut self, thing: ThingId, by: Actor) {
        let by = self.thread_of(by);
        for actor in std::mem::take(&mut self.things[thing].waiters) {
            match actor {
                Actor::Thread(tid) => self.wake(tid, by),
                Actor::Task(task) => self.task_goes_on(task, by),
            }
        }
    }

    /// The thread that carries out what `actor` does.
    pub(crate) fn thread_of(&self, actor: Actor) -> Option<Tid> {
        match actor {
            Actor::Thread(tid) => Some(tid),
            Actor::Task(_) => self.front,
        }
    }

    /// Hands a function, or a request, to an executor.
    pub(super) fn submit(
        &mut self,
        thing: ThingId,
        function: usize,
        (serves, request): (Option<usize>, Option<usize>),
        by: Option<Tid>,
    ) -> usize {
        let job = self.jobs.len();
        self.jobs.push(Job {
            function,
            serves,
            request,
            queued_ns: self.now,
            begun_ns: 0,
            worker: None,
            done: false,
            waiter: None,
        });
        self.things[thing].jobs.push_back(job);
        if let Some(Actor::Thread(worker)) = self.things[thing].waiters.pop_front() {
            self.wake(worker, by);
        }
        job
    }

    /// A worker takes the next job up; whether there is one.
    pub(super) fn take_job(&mut self, tid: Tid, thing: ThingId) -> Option<usize> {
        let job = self.things[thing].jobs.pop_front()?;
        self.jobs[job].worker = Some(tid);
        Some(job)
    }

    /// A worker begins a job.
    pub(super) fn job_begins(&mut self, tid: Tid, job: usize) {
        let now = self.now;
        self.jobs[job].begun_ns = now;
        let (serves, request) = (self.jobs[job].serves, self.jobs[job].request);
        let function = self.jobs[job].function;
        match serves {
            Some(_) => self.begin_request(tid, serves),
            None => {
                let frame = self.frame(function);
                self.threads[tid].body.frames.push(frame);
                if let Some(request) = request {
                    self.requests[request].helpers.push(tid);
                    self.record_job(tid, job, None);
                }
            }
        }
    }

    /// A worker is through with a job.
    pub(super) fn job_ends(&mut self, tid: Tid, job: usize) {
        let now = self.now;
        self.jobs[job].done = true;
        if let Some(request) = self.jobs[job].request {
            self.requests[request].helpers.retain(|helper| *helper != tid);
            self.record_job(tid, job, Some(now));
        }
        match self.jobs[job].waiter.take() {
            Some(Actor::Thread(waiter)) => self.wake(waiter, Some(tid)),
            Some(Actor::Task(task)) => self.task_goes_on(task, Some(tid)),
            None => (),
        }
    }

    /// Hands work to a native library's threads, in equal shares.
    pub(super) fn share_out(&mut self, thing: ThingId, ns: u64, by: Tid) -> usize {
        let call = self.calls.len();
        let threads = match self.program.things[thing] {
            Thing::Library(threads) => u64::from(threads.max(1)),
            _ => 1,
        };
        // Smaller than one for each, so that the last to end is not late.
        let shares = 4 * threads;
        self.calls.push(Call { left: shares as usize, waiter: None });
        for _ in 0..shares {
            self.things[thing].shares.push_back((ns / shares, call));
        }
        for actor in std::mem::take(&mut self.things[thing].waiters) {
            if let Actor::Thread(worker) = actor {
                self.wake(worker, Some(by));
            }
        }
        call
    }

    /// A native library's thread has done its share of a call.
    pub(super) fn share_done(&mut self, tid: Tid, call: usize) {
        self.calls[call].left -= 1;
        if self.calls[call].left == 0 {
            if let Some(Actor::Thread(waiter)) = self.calls[call].waiter.take() {
                self.wake(waiter, Some(tid));
            }
        }
    }

    /// What a native library's thread does next.
    pub(super) fn native_next(&mut self, tid: Tid, thing: ThingId) -> Vec<Micro<'static>> {
        self.log_until_now(tid);
        if let Some((left, call)) = self.things[thing].shares.pop_front() {
            self.threads[tid].body.base = lib_frames::NATIVE_WORK;
            let done = Micro::Do(Effect::ShareDone(call));
            return vec![Micro::Cpu { left, how: Cpu::Free }, done];
        }
        self.threads[tid].body.base = lib_frames::NATIVE_IDLE;
        vec![self.call_cost(tid), Micro::Await(On::Work(thing))]
    }

    fn record_job(&mut self, tid: Tid, job: usize, end_ns: Option<u64>) {
        let (id, job) = (self.threads[tid].id, &self.jobs[job]);
        let Some(request) = job.request else { return };
        let request = self.requests[request].id;
        let times = (job.queued_ns, job.begun_ns, end_ns);
        self.recorder.task(id, times, request, self.now);
    }

    /// Puts a waiter into the line of what it waits for.
    pub(super) fn stand_in_line(&mut self, actor: Actor, on: On) {
        match on {
            On::Lock(thing)
            | On::Permit(thing)
            | On::Item(thing)
            | On::Event(thing)
            | On::Work(thing) => self.things[thing].waiters.push_back(actor),
            On::Room(thing) => self.things[thing].putters.push_back(actor),
            On::Job(job) => self.jobs[job].waiter = Some(actor),
            On::Call(call) => self.calls[call].waiter = Some(actor),
            _ => (),
        }
    }
}
