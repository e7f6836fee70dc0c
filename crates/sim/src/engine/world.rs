//! A program under way: the clock, its events, and the state of everything there is.
//!
//! How it works: events lie in a heap by time. Handling one may make threads ready; `settle` then
//! gives them CPUs and lets each that got one go on.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::actor::{self, Body, Micro, Role, State, Thread, Tid};
use super::request::{Actor, Request, START_NS};
use super::tasks::Task;
use super::{gil, log};

use crate::program::{lib_frames, Load, Program, Server, Thing};
use crate::random::Random;
use crate::record::sampler::Sampler;
use crate::record::tables::Tables;
use crate::record::{Label, Recorder};

/// Something that happens at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A burst on a CPU ends; void if the CPU's epoch is another one.
    Burst { cpu: usize, epoch: u64 },
    /// A ready thread may be due for a CPU.
    Share,
    /// A blocked thread's time is over.
    Timer { tid: Tid, epoch: u64 },
    /// A suspended task's is.
    TaskTimer { task: usize, epoch: u64 },
    /// A request comes, of this client.
    Arrive { client: usize },
    /// The container's next period.
    Period,
    /// The process is stopped, or goes on.
    Stop(bool),
    /// A client connects that sends nothing.
    Visit,
}

/// A CPU.
#[derive(Debug, Default)]
pub(super) struct CpuState {
    pub(super) running: Option<Tid>,
    /// Since when it runs there, and up to when that is accounted for.
    pub(super) since: u64,
    pub(super) at: u64,
    pub(super) epoch: u64,
}

/// A thing that is shared, as it is now.
#[derive(Debug, Default)]
pub struct ThingState {
    pub(super) waiters: VecDeque<Actor>,
    /// Those that wait for room in a queue.
    pub(super) putters: VecDeque<Actor>,
    /// The holder.
    pub owner: Option<Actor>,
    /// That shows in a `with` block.
    pub by_with: bool,
    /// Of a read-write lock: its readers, its writer, and those that wait to write.
    pub(super) readers: Vec<Actor>,
    pub(super) writer: Option<Actor>,
    pub(super) writers: Vec<Actor>,
    /// Items, permits.
    pub(super) count: u32,
    pub(super) room: Option<u32>,
    /// Jobs of an executor.
    pub(super) jobs: VecDeque<usize>,
    /// Work for a native library's threads: ns of each share, and the call it is of.
    pub(super) shares: VecDeque<(u64, usize)>,
    /// Holders, and since when.
    pub owners: Vec<(u64, Option<Actor>)>,
}

/// Work that was handed to an executor.
#[derive(Debug)]
pub struct Job {
    pub(super) function: usize,
    /// The request that it is (of a server's workers), or that it is for.
    pub(super) serves: Option<usize>,
    pub(super) request: Option<usize>,
    pub(super) queued_ns: u64,
    pub(super) begun_ns: u64,
    /// The worker that took it up.
    pub worker: Option<Tid>,
    pub(super) done: bool,
    pub(super) waiter: Option<Actor>,
}

impl Job {
    /// When a worker began it.
    pub fn begun_ns(&self) -> Option<u64> {
        (self.begun_ns > 0).then_some(self.begun_ns)
    }
}

/// A call of a native library.
#[derive(Debug)]
pub struct Call {
    /// Shares that are not done.
    pub(super) left: usize,
    /// The thread that waits for the last of them.
    pub(super) waiter: Option<Actor>,
}

/// A program under way.
pub struct World<'p> {
    pub(crate) program: &'p Program,
    pub(crate) now: u64,
    pub(super) events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pub(super) order: u64,
    pub(crate) threads: Vec<Thread<'p>>,
    pub(super) cpus: Vec<CpuState>,
    pub(super) ready: Vec<Tid>,
    pub(super) to_run: Vec<usize>,
    pub(super) share_due: bool,
    pub(super) least_fair_ns: u64,
    pub(crate) gil: gil::Gil,
    pub(crate) things: Vec<ThingState>,
    pub(crate) jobs: Vec<Job>,
    pub(super) calls: Vec<Call>,
    pub(crate) requests: Vec<Request>,
    /// Requests that nobody has taken up, of each connection; of the workers and the loop in the
    /// first.
    pub(super) arrived: Vec<VecDeque<usize>>,
    /// The executor of the server's workers, its loop's thread, or the thread that accepts.
    pub(super) crew: Option<usize>,
    pub(super) front: Option<Tid>,
    pub(crate) tasks: Vec<Task<'p>>,
    pub(super) turn: VecDeque<usize>,
    pub(super) chance: Random,
    pub(super) quota_used_ns: u64,
    pub(super) throttled_since: Option<u64>,
    pub(crate) throttled_ns: u64,
    pub(super) stopped_since: Option<u64>,
    /// Times in which the process was stopped.
    pub(crate) stops: Vec<(u64, u64)>,
    pub(crate) log: log::Logs,
    pub(crate) known: Tables,
    pub(crate) recorder: Recorder,
    pub(crate) sampler: Sampler,
}

impl<'p> World<'p> {
    /// A program about to begin; `switches`: the kernel records context switches.
    pub fn new(program: &'p Program, switches: bool) -> World<'p> {
        let mut world = World {
            program,
            now: START_NS,
            events: BinaryHeap::new(),
            order: 0,
            threads: Vec::new(),
            cpus: (0..program.host.cpus).map(|_| CpuState::default()).collect(),
            ready: Vec::new(),
            to_run: Vec::new(),
            share_due: false,
            least_fair_ns: 0,
            gil: gil::Gil::default(),
            things: program.things.iter().map(ThingState::of).collect(),
            jobs: Vec::new(),
            calls: Vec::new(),
            requests: Vec::new(),
            arrived: vec![VecDeque::new()],
            crew: None,
            front: None,
            tasks: Vec::new(),
            turn: VecDeque::new(),
            chance: Random::of(program.seed, 1),
            quota_used_ns: 0,
            throttled_since: None,
            throttled_ns: 0,
            stopped_since: None,
            stops: Vec::new(),
            log: log::Logs::default(),
            known: Tables::new(),
            recorder: Recorder::new(program, switches),
            sampler: Sampler::new(program.seed, switches),
        };
        world.populate();
        world.begin_load();
        world
    }

    /// The thread of the event loop.
    pub fn loop_thread(&self) -> Option<Tid> {
        self.front.filter(|_| self.program.server == Server::Loop)
    }

    /// The thread that accepts connections for the workers.
    pub(crate) fn acceptor(&self) -> Option<Tid> {
        self.front.filter(|_| self.program.server == Server::Workers)
    }

    /// The kernel's id of a thread.
    pub fn id_of(&self, tid: Tid) -> u32 {
        self.threads.get(tid).map_or(0, |thread| thread.id)
    }

    /// The innermost two frames of a stack of the truth's.
    pub fn place_of(&self, stack: u32) -> String {
        let frames = self.known.frames(stack).take(2);
        let named: Vec<&str> = frames.map(|(function, _, _)| function).collect();
        named.join(" < ")
    }

    /// CPU time of the sampler, % of a core.
    pub fn sampler_percent(&self) -> f64 {
        self.sampler.booked_ns as f64 * 100.0 / (self.now - START_NS).max(1) as f64
    }

    /// The requests there were.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The capture of the run, as bytes of a file.
    pub fn capture(&self) -> std::io::Result<Vec<u8>> {
        self.capture_as(&Label::default())
    }

    /// The same as of a given host.
    pub fn capture_as(&self, label: &Label) -> std::io::Result<Vec<u8>> {
        self.recorder.capture(self.program, label)
    }

    /// Runs the program to its end.
    pub fn run(&mut self) {
        let end_ns = START_NS + self.program.length_ns;
        while let Some(Reverse((t_ns, _, event))) = self.events.pop() {
            if t_ns > end_ns {
                break;
            }
            self.now = t_ns;
            self.handle(event);
            self.settle();
        }
        self.now = end_ns;
        self.close();
    }

    pub(super) fn at(&mut self, t_ns: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((t_ns.max(self.now), self.order, event)));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Burst { cpu, epoch } if self.cpus[cpu].epoch == epoch => {
                self.charge(cpu);
                self.to_run.push(cpu);
            }
            Event::Share => self.share(),
            Event::Timer { tid, epoch } if self.threads[tid].epoch == epoch => {
                self.time_is_over(tid);
            }
            Event::TaskTimer { task, epoch } if self.tasks[task].epoch == epoch => {
                self.task_goes_on(task, None);
            }
            Event::Arrive { client } => self.arrive(client),
            Event::Period => self.next_period(),
            Event::Stop(stops) => self.stop_or_go_on(stops),
            Event::Visit => self.visit(),
            Event::Burst { .. } | Event::Timer { .. } | Event::TaskTimer { .. } => (),
        }
    }

    fn settle(&mut self) {
        loop {
            if let Some(cpu) = self.to_run.pop() {
                self.go_on(cpu);
            } else if !self.dispatch() {
                break;
            }
        }
    }

    /// The threads there are at the start.
    fn populate(&mut self) {
        let program = self.program;
        let sampler = self.spawn("dashcam-sampler", Role::Sampler, &[], None);
        self.sampler.tid = self.threads[sampler].id;
        for index in 0..program.host.neighbours.len() {
            self.spawn("neighbour", Role::Neighbour(index), &[], None);
        }
        for (thing, made) in program.things.iter().enumerate() {
            if let Thing::Executor(workers) = made {
                self.hire(thing, *workers);
            }
            if let Thing::Library(threads) = made {
                for thread in 0..*threads {
                    let (name, role) = (format!("frames-{thread}"), Role::Native(thing));
                    self.spawn(&name, role, lib_frames::NATIVE_IDLE, None);
                }
            }
        }
        match program.server {
            Server::Threads => {
                for connection in 0..program.serving as usize {
                    let name = format!("Thread-{} (process_request_thread)", connection + 1);
                    self.spawn(&name, Role::Serves(connection), lib_frames::SERVING, None);
                }
                self.arrived.resize(program.serving as usize, VecDeque::new());
            }
            Server::Workers => {
                let crew = self.things.len();
                self.things.push(ThingState::default());
                self.crew = Some(crew);
                self.hire(crew, program.serving);
                self.front =
                    Some(self.spawn("MainThread", Role::Accepts, lib_frames::ACCEPTS, None));
            }
            Server::Sync => {
                self.spawn("MainThread", Role::Sync, lib_frames::SYNC_WORKER, None);
            }
            Server::Loop => {
                self.front = Some(self.spawn("MainThread", Role::Loops, lib_frames::LOOP, None));
            }
        }
        for beside in &program.beside {
            if program.functions[beside.function].is_task {
                self.new_task(Some(beside.function), None);
            } else {
                let base = lib_frames::THREAD;
                self.spawn(&beside.name, Role::Once, base, Some(beside.function));
            }
        }
        for (from, length) in &program.host.stops {
            self.at(START_NS + from, Event::Stop(true));
            self.at(START_NS + from + length, Event::Stop(false));
        }
        if program.host.quota_ns.is_some() {
            self.at(START_NS + actor::PERIOD_NS, Event::Period);
        }
    }

    /// The workers of an executor.
    fn hire(&mut self, thing: usize, workers: u32) {
        for worker in 0..workers {
            let name = format!("ThreadPoolExecutor-{thing}_{worker}");
            self.spawn(&name, Role::Works(thing), lib_frames::IDLE_WORKER, None);
        }
    }

    /// A new thread.
    pub(super) fn spawn(
        &mut self,
        name: &str,
        role: Role,
        base: &'static [lib_frames::Lib],
        function: Option<usize>,
    ) -> Tid {
        let tid = self.threads.len();
        let id = 4000 + tid as u32;
        let mut body = Body { base, ..Body::default() };
        body.frames.extend(function.map(|function| self.frame(function)));
        if !matches!(role, Role::Neighbour(_) | Role::Sampler | Role::Native(_)) {
            body.micros.push_back(Micro::TakeGil);
        }
        self.threads.push(Thread {
            id,
            role,
            random: Random::of(self.program.seed, 100 + tid as u64),
            body,
            task: None,
            state: State::Ready,
            since: self.now,
            epoch: 0,
            fair_ns: self.least_fair_ns,
            has_gil: false,
            out: (self.now, false),
            used: actor::Counters::default(),
            owed_delay_ns: 0,
            woken_by: None,
            born_ns: self.now,
            woken_while_stopped: false,
        });
        self.ready.push(tid);
        self.log.threads.push(Vec::new());
        if self.threads[tid].is_inside() {
            self.sampler.thread_begins(id);
            self.recorder.thread_begins(id, name, self.now);
        }
        tid
    }

    fn begin_load(&mut self) {
        if let Some(silent) = self.program.silent {
            self.at(self.now + silent.every_ns, Event::Visit);
        }
        let clients = match self.program.load {
            Load::Closed { clients, .. } => clients as usize,
            Load::Open { .. } => 1,
        };
        for client in 0..clients {
            let first = self.chance.below(200_000_000);
            self.at(self.now + 50_000_000 + first, Event::Arrive { client });
        }
    }

    /// The end: what is under way is written as far as it is known.
    fn close(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.charge(cpu);
        }
        for tid in 0..self.threads.len() {
            self.log_until_now(tid);
            let thread = &self.threads[tid];
            if thread.is_inside() && matches!(thread.state, State::Blocked(_) | State::Ready) {
                self.recorder.still_out(thread.id, thread.out, self.now);
            }
        }
        for request in self.requests.iter().filter(|r| r.end_ns.is_none() && r.started_ns > 0) {
            let tid = self.threads[request.tid].id;
            let on_loop = request.task.is_some();
            self.recorder.still_open(request, tid, on_loop, self.now);
        }
        self.recorder.finish(self.now);
    }
}

impl ThingState {
    fn of(thing: &Thing) -> ThingState {
        let (count, room) = match thing {
            Thing::Semaphore(permits) | Thing::TaskSemaphore(permits) => (*permits, None),
            Thing::Queue { items, room } => (*items, *room),
            Thing::TaskQueue(items) => (*items, None),
            _ => (0, None),
        };
        ThingState { count, room, ..ThingState::default() }
    }
}
