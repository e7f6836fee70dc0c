//! Requests: how they come, which threads take them up, how they end.
//!
//! How it works: a request arrives in its connection's queue (a thread for each connection), or in
//! one for all (a thread that accepts for an executor's workers; an event loop). It counts from its
//! arrival; its handler begins when a thread or a task has taken it up.
//!
//! What it promises: a closed client sends its next request only after its answer. The recorder
//! learns of a request when its handler begins: then the kernel says, in ticks, when the last data
//! came.

use format::wait::WaitKind;

use super::actor::{Cpu, Effect, Micro, On, Role, State, Thread, Tid, Wait};
use super::request::{Actor, Request};
use super::world::{Event, World};
use crate::program::lib_frames::{ACCEPTING, IDLE_WORKER, READ_CLIENT, READ_REQUEST, WORKER};
use crate::program::{Load, Server, MS, US};

/// The kernel's tick, in which a socket remembers when its last data came.
const TICK_NS: u64 = 4 * MS;
/// A request that waited for no longer was taken up at once, as far as the recorder knows
/// (`PROMPT_MS` in python/src/moments/request.rs).
const PROMPT_NS: u64 = 15 * MS;

/// When a request arrived, as its socket says at its begin.
fn known_arrival(arrived_ns: u64, now: u64) -> u64 {
    let ticks = (now / TICK_NS).saturating_sub(arrived_ns / TICK_NS);
    match ticks * TICK_NS {
        waited_ns if waited_ns > PROMPT_NS => now.saturating_sub(waited_ns),
        _ => now,
    }
}

impl<'p> World<'p> {
    /// A client sends a request.
    pub(super) fn arrive(&mut self, client: usize) {
        if let Load::Open { every_ns } = self.program.load {
            let pause = self.chance.pause(every_ns);
            self.at(self.now + pause.max(MS / 10), Event::Arrive { client });
        }
        let index = self.requests.len();
        self.requests.push(Request {
            id: index as u64 + 1,
            begin_ns: self.now,
            known_ns: self.now,
            started_ns: 0,
            end_ns: None,
            tid: 0,
            task: None,
            helpers: Vec::new(),
            silent_ns: None,
            client,
            number: index as u64,
        });
        let line = match (self.program.server, self.program.load) {
            (Server::Threads, Load::Closed { .. }) => client % self.arrived.len(),
            (Server::Threads, Load::Open { .. }) => self.idlest(),
            _ => 0,
        };
        self.arrived[line].push_back(index);
        match self.program.server {
            Server::Threads => self.wake_one_with(|role| role == Role::Serves(line)),
            Server::Workers => self.wake_one_with(|role| role == Role::Accepts),
            Server::Sync => self.wake_one_with(|role| role == Role::Sync),
            Server::Loop => self.wake_loop(None),
        }
    }

    /// A client connects that sends nothing; the next one comes later.
    pub(super) fn visit(&mut self) {
        let Some(silent) = self.program.silent else { return };
        let most = silent.length.mean * silent.length.spread / 100;
        let length = silent.length.mean - most + self.chance.below(2 * most + 1);
        self.at(self.now + silent.every_ns, Event::Visit);
        let index = self.requests.len();
        self.requests.push(Request {
            id: index as u64 + 1,
            begin_ns: self.now,
            known_ns: self.now,
            started_ns: 0,
            end_ns: None,
            tid: 0,
            task: None,
            helpers: Vec::new(),
            silent_ns: Some(length),
            client: 0,
            number: index as u64,
        });
        self.arrived[0].push_back(index);
        self.wake_one_with(|role| role == Role::Sync);
    }

    /// What the one thread of a server does next.
    pub(super) fn sync_next(&mut self, tid: Tid) -> Vec<Micro<'p>> {
        if self.threads[tid].body.request.is_some() {
            return self.answer(tid);
        }
        vec![
            Micro::Enter(ACCEPTING),
            Micro::DropGil { asked: false },
            self.call_cost(tid),
            Micro::Await(On::Poll),
            Micro::TakeGil,
            Micro::Enter(&[]),
            Micro::Cpu { left: 60 * US, how: Cpu::Bytecode },
            Micro::Do(Effect::TakeUp),
        ]
    }

    /// It takes up the next connection: a request, or a client that sends nothing.
    pub(super) fn take_up(&mut self, tid: Tid) {
        let Some(index) = self.arrived[0].pop_front() else { return };
        let Some(length) = self.requests[index].silent_ns else {
            return self.begin_request(tid, Some(index));
        };
        let name = "tcp 127.0.0.1:8000 <- 127.0.0.1:40177";
        let target = Some(self.recorder.tables.name(name));
        let (on, kind, until) = (On::Client, WaitKind::SocketRead, Some(length));
        let wait = Wait { on, kind, until, limited: false, limit_ns: 0, target };
        let cost = self.call_cost(tid);
        self.put_in_front(
            tid,
            vec![
                Micro::Enter(READ_CLIENT),
                Micro::DropGil { asked: false },
                cost,
                Micro::Sleep(wait),
                Micro::TakeGil,
                Micro::Enter(&[]),
            ],
        );
    }

    /// The connection with the fewest requests before it, one at random of several.
    fn idlest(&mut self) -> usize {
        let busy = |line: usize| {
            let works = |t: &Thread<'_>| t.role == Role::Serves(line) && t.body.request.is_some();
            usize::from(self.threads.iter().any(works))
        };
        let load: Vec<usize> =
            (0..self.arrived.len()).map(|line| self.arrived[line].len() + busy(line)).collect();
        let least = load.iter().copied().min().unwrap_or(0);
        let idle: Vec<usize> = (0..load.len()).filter(|line| load[*line] == least).collect();
        *self.chance.pick(&idle)
    }

    fn wake_one_with(&mut self, of: impl Fn(Role) -> bool) {
        let waits = |state: &State| matches!(state, State::Blocked(wait) if matches!(wait.on, On::Request | On::Poll));
        let found = self.threads.iter().position(|t| of(t.role) && waits(&t.state));
        if let Some(tid) = found {
            self.wake(tid, None);
        }
    }

    /// Whether what is awaited without the GIL is there.
    fn is_there(&self, tid: Tid, on: On) -> bool {
        match (on, self.threads[tid].role) {
            (On::Request, Role::Serves(line)) => !self.arrived[line].is_empty(),
            (On::Work(thing), _) => {
                !self.things[thing].jobs.is_empty() || !self.things[thing].shares.is_empty()
            }
            _ => !self.arrived[0].is_empty() || !self.turn.is_empty(),
        }
    }

    /// Waits until there is something to do.
    pub(super) fn await_work(&mut self, tid: Tid, on: On) {
        if self.is_there(tid, on) {
            return;
        }
        self.threads[tid].body.micros.push_front(Micro::Await(on));
        let kind = match on {
            On::Request => WaitKind::SocketRead,
            On::Work(_) => WaitKind::Futex,
            _ => WaitKind::Poll,
        };
        let name = match on {
            On::Request => Some("tcp 127.0.0.1:8000 <- 127.0.0.1:40122"),
            On::Work(_) => None,
            _ => Some("anon_inode:[eventpoll]"),
        };
        let target = name.map(|name| self.recorder.tables.name(name));
        self.stand_in_line(Actor::Thread(tid), on);
        self.block(tid, Wait { on, kind, until: None, limited: false, limit_ns: 0, target });
    }

    /// What a thread of a connection does next: it answers, or waits for the next request.
    pub(super) fn serve_next(&mut self, tid: Tid, _line: usize) -> Vec<Micro<'p>> {
        if self.threads[tid].body.request.is_some() {
            return self.answer(tid);
        }
        vec![
            Micro::Enter(READ_REQUEST),
            Micro::DropGil { asked: false },
            self.call_cost(tid),
            Micro::Await(On::Request),
            Micro::TakeGil,
            Micro::Enter(&[]),
            Micro::Cpu { left: 120 * US, how: Cpu::Bytecode },
            Micro::Do(Effect::Begin),
        ]
    }

    /// The response is written.
    fn answer(&mut self, tid: Tid) -> Vec<Micro<'p>> {
        let left = self.threads[tid].random.between(60 * US, 140 * US);
        vec![Micro::Cpu { left, how: Cpu::Bytecode }, Micro::Do(Effect::Finish)]
    }

    /// What an executor's worker does next.
    pub(super) fn work_next(&mut self, tid: Tid, thing: usize) -> Vec<Micro<'p>> {
        if let Some(job) = self.threads[tid].body.job.take() {
            let mut micros = match self.threads[tid].body.request.is_some() {
                true => self.answer(tid),
                false => vec![Micro::Cpu { left: 10 * US, how: Cpu::Bytecode }],
            };
            micros.push(Micro::Do(Effect::JobEnds(job)));
            return micros;
        }
        if let Some(job) = self.take_job(tid, thing) {
            self.log_until_now(tid);
            let body = &mut self.threads[tid].body;
            (body.job, body.base) = (Some(job), WORKER);
            return vec![
                Micro::Cpu { left: 20 * US, how: Cpu::Bytecode },
                Micro::Do(Effect::JobBegins(job)),
            ];
        }
        self.log_until_now(tid);
        self.threads[tid].body.base = IDLE_WORKER;
        vec![
            Micro::DropGil { asked: false },
            self.call_cost(tid),
            Micro::Await(On::Work(thing)),
            Micro::TakeGil,
        ]
    }

    /// What the thread that accepts does next.
    pub(super) fn accept_next(&mut self, tid: Tid) -> Vec<Micro<'p>> {
        vec![
            Micro::Enter(ACCEPTING),
            Micro::DropGil { asked: false },
            self.call_cost(tid),
            Micro::Await(On::Poll),
            Micro::TakeGil,
            Micro::Enter(&[]),
            Micro::Cpu { left: 60 * US, how: Cpu::Bytecode },
            Micro::Do(Effect::Accept),
        ]
    }

    /// Hands what has arrived to the workers.
    pub(super) fn accept(&mut self, tid: Tid) {
        let Some(crew) = self.crew else { return };
        while let Some(request) = self.arrived[0].pop_front() {
            self.submit(crew, self.program.handler, (Some(request), None), Some(tid));
        }
    }

    /// A handler begins; `given`: the request, where its thread has not to fetch it.
    pub(super) fn begin_request(&mut self, tid: Tid, given: Option<usize>) {
        let line = match self.threads[tid].role {
            Role::Serves(line) => line,
            _ => 0,
        };
        let Some(index) = given.or_else(|| self.arrived[line].pop_front()) else { return };
        let request = &mut self.requests[index];
        (request.started_ns, request.tid) = (self.now, tid);
        request.task = self.threads[tid].task;
        request.known_ns = known_arrival(request.begin_ns, self.now);
        let on_loop = request.task.is_some();
        let request = request.clone();
        self.recorder.request_begins(&request, self.threads[tid].id, on_loop, self.now);
        let frame = self.frame(self.program.handler);
        let body = &mut self.threads[tid].body;
        body.request = Some(index);
        body.frames.push(frame);
        self.sampler.request_begins();
    }

    /// A request is answered.
    pub(super) fn finish_request(&mut self, tid: Tid) {
        let Some(index) = self.threads[tid].body.request.take() else { return };
        self.requests[index].end_ns = Some(self.now);
        let request = self.requests[index].clone();
        let on_loop = request.task.is_some();
        self.recorder.request_ends(&request, self.threads[tid].id, on_loop, self.now);
        self.sampler.request_ended(self.now - request.known_ns);
        if let Load::Closed { think_ns, .. } = self.program.load {
            let pause = think_ns / 2 + self.chance.below(think_ns);
            self.at(self.now + pause, Event::Arrive { client: request.client });
        }
    }

    /// The number of the request at hand, which decides what is rare.
    pub(super) fn number_of(&self, tid: Tid) -> u64 {
        self.threads[tid].body.request.map_or(0, |index| self.requests[index].number)
    }
}
