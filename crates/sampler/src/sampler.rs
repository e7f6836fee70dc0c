//! The sampler: one thread that samples the others a hundred times a second.
//!
//! | reads | emits | unit | how often |
//! | --- | --- | --- | --- |
//! | switch records | off-CPU intervals | ns | each pass, all that came |
//! | wakeups of threads in slow requests' way | their wakers | | each pass, all that came |
//! | open requests | which of them are past their usual time | | each pass |
//! | at most `threads` threads: /proc, Python or native stack | samples | | each pass |
//! | CPU clocks of 32 threads, without switch records | samples, repeated | ns | each pass |
//! | at most `threads` tasks of event loops | awaits | | each pass |
//! | counters of process and host | vitals | in the name | once a second |
//! | its own wake-ups (`pulse`) | vitals | ns | when late |
//!
//! Blockers of slow requests are among the threads that are sampled. Of the CPU clocks, others are
//! read each time, and the last sample of a thread that did not run is repeated. Tasks are those of
//! requests past their usual time.
//!
//! Passes while a request comes near its limit are paid from a token bucket, and so are those while
//! threads work and no request is taken up (`crate::policy::progress`); all others from half of
//! what fills it (`crate::policy::budget`). Where neither pays, threads are not sampled, but
//! switches are still drained before the kernel's rings are full, and requests are still watched.
//! While no thread works there are twenty passes a second, four in a process that had no request
//! for a minute, and the next request's begin ends the sleep.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use format::region::losses;
use format::source::SourceState;
use format::wait::WaitKind;
use recorder::OpenRequest;
use samplers::python_stacks::{PyThread, PythonStacks};

use crate::native_tasks::NativeTasks;
use crate::policy::budget::{Budget, Need, PaidBy, Width};
use crate::policy::choice::{choose, Random};
use crate::policy::order::Order;
use crate::policy::overdue::{is_near_its_limit, is_overdue};
use crate::policy::progress::{Progress, Since};
use crate::policy::schedule::{Next, Schedule, WORK_NS};
use crate::policy::thread_list::ListAge;
use crate::policy::tracks::Tracks;
use crate::settings::Settings;
use crate::switches::Switching;
use crate::tasks::Suspensions;
use crate::threads::native::Native;
use crate::threads::thread_sampler::ThreadSampler;
use crate::under_gil::UnderGil;
use crate::vitals::Pulse;
use crate::world::{Sink, World};

/// After this much of a pass the CPU is offered to the threads that wait for it (decision 0015). A
/// pass that samples four threads is over before that, as a rule: to give way and to come back
/// costs two switches and what the caches held.
const TURN_NS: u64 = 150_000;

/// The sampler, of one process.
pub struct Sampler<W: World> {
    world: W,
    settings: Settings,
    thread_sampler: ThreadSampler<W::Files>,
    switching: Switching<W::Switches>,
    tracks: Tracks,
    python: Vec<PyThread>,
    alive: Vec<u32>,
    own: Vec<u32>,
    under_gil: Arc<UnderGil>,
    /// When the pass began, or last gave way.
    turn_ns: u64,
    list: ListAge,
    /// The interpreter's newest thread before the last list.
    newest: Option<(usize, usize)>,
    budget: Budget,
    width: Width,
    /// What pays for the pass at hand, and the CPU time before it.
    paid_by: PaidBy,
    cpu_before_ns: u64,
    /// CPU time of this thread that is reported already.
    booked_ns: u64,
    schedule: Schedule,
    /// The last pass, and the CPU time of all other threads until then.
    passed_ns: u64,
    others_ns: u64,
    random: Random,
    open: Vec<OpenRequest>,
    /// Requests that had begun before `open` was read.
    begun: u64,
    urgent: Vec<u32>,
    need: Need,
    progress: Progress,
    /// A thread was seen waiting for the GIL in this pass.
    gil_wanted: bool,
    /// Those of them that are to be sampled, least lately sampled first.
    due: Vec<u32>,
    /// Indices into `open` of the requests past their usual time.
    overdue: Vec<usize>,
    suspensions: Suspensions,
    native_tasks: NativeTasks,
    rest: Vec<u32>,
    chosen: Vec<u32>,
    order: Order,
    pulse: Pulse<W::Vitals>,
}

impl<W: World> Sampler<W> {
    /// On the thread `tid`. `stacks`: the reader of the interpreter's stacks, if there is one.
    pub fn new(
        world: W,
        settings: Settings,
        tid: u32,
        stacks: Option<PythonStacks>,
        under_gil: Arc<UnderGil>,
    ) -> Sampler<W> {
        let now = world.now_ns();
        let own = vec![tid];
        let native = Native::new(world.recorder(), settings.stacks);
        world.set_source("native_stacks", native.state().owned());
        world.set_source("running_stacks", native.running_state());
        let switching = Switching::new(&world, settings, &own);
        world.set_source("threads", SourceState::On);
        let pulse = Pulse::new(&world, tid);
        Sampler {
            settings,
            thread_sampler: ThreadSampler::new(world.recorder(), stacks, under_gil.clone(), native),
            switching,
            tracks: Tracks::default(),
            python: Vec::new(),
            alive: Vec::new(),
            own,
            under_gil,
            turn_ns: now,
            list: ListAge::default(),
            newest: None,
            budget: Budget::new(settings.budget_percent, now),
            width: Width::default(),
            paid_by: PaidBy::Nothing,
            cpu_before_ns: 0,
            booked_ns: 0,
            schedule: Schedule::new(now),
            passed_ns: now,
            others_ns: 0,
            random: Random::new(now),
            open: Vec::new(),
            begun: 0,
            urgent: Vec::new(),
            need: Need::Usual,
            progress: Progress::default(),
            gil_wanted: false,
            due: Vec::new(),
            overdue: Vec::new(),
            suspensions: Suspensions::default(),
            native_tasks: NativeTasks::default(),
            rest: Vec::new(),
            chosen: Vec::new(),
            order: Order::default(),
            pulse,
            world,
        }
    }

    /// Takes over settings that were changed meanwhile.
    pub fn follow(&mut self, settings: Settings) {
        self.budget.follow(settings.budget_percent, self.world.now_ns());
        self.settings = settings;
    }

    /// The requests that were open when the last pass began, oldest first.
    pub fn open(&self) -> &[OpenRequest] {
        &self.open
    }

    /// How many had begun in all, before these were read.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Nothing is recorded: keeps what must not pile up.
    pub fn idle(&mut self) {
        self.drain_switches(self.world.now_ns());
        self.book(0);
    }

    /// A pass that was planned for `planned_ns` begins: notes it where that is late.
    pub fn beat(&mut self, planned_ns: u64, now: u64) {
        if self.pulse.beat(&self.world, planned_ns, now) {
            self.switching.each_second(&self.world, now);
        }
    }

    /// When the next pass begins, the last one having been planned for `planned_ns`.
    pub fn next(&self, planned_ns: u64) -> Next {
        let times = (self.settings.period_ns, self.switching.longest_ns());
        self.schedule.next(&self.budget, self.need, times, (planned_ns, self.world.now_ns()))
    }

    /// Writes what threads are doing at this instant, for a copy of the ring that is about to be
    /// made.
    pub fn write_open_states(&mut self) {
        let now = self.world.now_ns();
        self.switching.record_now(&self.world, now);
    }

    /// A pass: drains, samples, reads what is due. `end_pass` follows.
    pub fn pass(&mut self, now: u64) {
        self.cpu_before_ns = self.world.thread_cpu_ns();
        self.turn_ns = now;
        self.drain_switches(now);
        self.watch_requests(now);
        self.mind_descriptors();
        self.give_way();
        if self.list_is_due(now) || self.unknown_thread() {
            self.list_threads(now);
            self.give_way();
        }
        self.follow_work(now);
        self.paid_by = self.budget.may_sample(self.need, now);
        self.width.follow(self.paid_by, &self.budget, self.settings.period_ns);
        if self.paid_by != PaidBy::Nothing {
            self.sample_threads(now, self.paid_by == PaidBy::Trickle);
        } else {
            // While no request is slow, later passes sample the same at random.
            self.world.lose(losses::PASSES_SKIPPED, u64::from(self.need == Need::Slow));
            self.thread_sampler.native.rest();
        }
        if self.pulse.is_due(now) {
            self.pulse.read(&self.world, now);
            self.switching.each_second(&self.world, now);
        }
    }

    /// The pass is over, with all that was done on its behalf: it is paid.
    pub fn end_pass(&mut self) {
        let recorder = self.world.recorder();
        let by_others_ns = self.thread_sampler.native.settle(recorder) + self.under_gil.unpaid_ns();
        let spent = self.book(by_others_ns);
        self.budget.spend(spent, self.world.now_ns(), self.paid_by);
        let figures = self.world.figures();
        figures.passes.fetch_add(1, Ordering::Relaxed);
        let pass_ns = self.booked_ns.saturating_sub(self.cpu_before_ns) + by_others_ns;
        figures.longest_pass_ns.fetch_max(pass_ns, Ordering::Relaxed);
    }

    /// Counts all CPU time of this thread since the last call, what it took to sleep and to wake up
    /// included, and `more`, that others spent for it (decision 0017). How much that was.
    pub fn book(&mut self, more: u64) -> u64 {
        let cpu_ns = self.world.thread_cpu_ns();
        let spent = cpu_ns.saturating_sub(self.booked_ns) + more;
        self.booked_ns = cpu_ns;
        self.world.figures().cpu_ns.fetch_add(spent, Ordering::Relaxed);
        spent
    }

    /// Offers the CPU to the threads of the service, which a pass may have kept from it since they
    /// woke up. Not while a request comes near its limit: what is in its way must be seen in one
    /// go.
    fn give_way(&mut self) {
        let is_time = self.world.now_ns().saturating_sub(self.turn_ns) >= TURN_NS;
        if is_time && self.need != Need::Slow {
            self.world.yield_cpu();
            self.turn_ns = self.world.now_ns();
        }
    }

    /// Gives back what can be opened anew while the program comes near its limit of descriptors.
    fn mind_descriptors(&mut self) {
        self.world.note_descriptors(|| None);
        if self.world.is_tight() {
            self.thread_sampler.files.give_back();
            self.pulse.give_back();
        }
    }

    fn drain_switches(&mut self, now: u64) {
        self.switching.drain(&self.world, &mut self.tracks, now);
    }

    /// Lists open requests; those past their usual time make their threads urgent, oldest first.
    fn watch_requests(&mut self, now: u64) {
        self.open.clear();
        self.begun = self.world.requests_begun();
        let open = &mut self.open;
        self.world.open_requests(|request| open.push(request));
        self.open.sort_unstable_by_key(|r| r.begin_ns);
        self.urgent.clear();
        let exact = self.switching.records();
        self.need = Need::Usual;
        self.overdue.clear();
        for (index, request) in self.open.iter().enumerate() {
            let open_ns = now.saturating_sub(request.begin_ns);
            let times = self.world.times_of(request.name);
            if is_overdue(open_ns, times) {
                // Without switch records, samples are all that is known of where its time goes.
                if !exact || is_near_its_limit(open_ns, times.1) {
                    self.need = Need::Slow;
                }
                self.urgent.push(request.tid);
                self.urgent.extend(request.helpers.into_iter().filter(|tid| *tid != 0));
                self.overdue.push(index);
            }
        }
    }

    /// Whether anybody works, which decides when the next pass comes, and whether requests are
    /// taken up meanwhile.
    fn follow_work(&mut self, now: u64) {
        let others_ns = self.world.process_cpu_ns().saturating_sub(self.cpu_before_ns);
        let before_ns = std::mem::replace(&mut self.others_ns, others_ns);
        let cpu_ns = others_ns.saturating_sub(before_ns);
        let ran = match self.switching.records() {
            true => self.tracks.anybody_ran(),
            false => cpu_ns > WORK_NS,
        };
        let ns = now.saturating_sub(std::mem::replace(&mut self.passed_ns, now));
        let gil_wanted = std::mem::take(&mut self.gil_wanted);
        let since = Since { begun: self.begun, ns, cpu_ns, gil_wanted };
        self.schedule.note(&since, (!self.open.is_empty(), ran), now);
        self.progress.note(since);
        if self.progress.is_stalled() {
            self.need = self.need.max(Need::Stalled);
        }
    }

    fn unknown_thread(&self) -> bool {
        let known = |tid: &u32| self.tracks.get(*tid).is_some_and(|t| t.python.is_some());
        self.thread_sampler.stacks.is_some() && !self.urgent.iter().all(known)
    }

    fn list_is_due(&mut self, now: u64) -> bool {
        let (tracks, switching, thread_sampler) =
            (&self.tracks, &self.switching, &self.thread_sampler);
        let newest = || thread_sampler.stacks.as_ref().and_then(PythonStacks::newest_thread);
        let is_old = || tracks.stale || switching.may_know_more() || self.newest != newest();
        self.list.is_due(now, switching.records(), is_old)
    }

    fn list_threads(&mut self, now: u64) {
        let cpu_before = self.world.thread_cpu_ns();
        self.newest = self.thread_sampler.stacks.as_ref().and_then(PythonStacks::newest_thread);
        let grew = self.read_list();
        let cost_ns = self.world.thread_cpu_ns().saturating_sub(cpu_before);
        self.list.read(now, cost_ns, self.settings.budget_percent, grew);
    }

    /// Whether there were new threads, or the interpreter's list was torn. None: /proc cannot be
    /// read.
    fn read_list(&mut self) -> Option<bool> {
        self.world.list(&mut self.alive).ok()?;
        let mut torn = false;
        if let Some(stacks) = &mut self.thread_sampler.stacks {
            // A torn list leaves the one before in use: its threads are checked again when they are
            // sampled.
            let mut fresh = Vec::with_capacity(self.python.len() + 8);
            torn = stacks.threads(&mut fresh).is_err();
            if !torn {
                self.python = fresh;
            }
        }
        let grew = self.tracks.refresh(&self.alive, &self.python, &self.own);
        let tracks = &self.tracks;
        self.thread_sampler.files.retain(|tid| tracks.contains(tid));
        self.switching.listed(|tid| tracks.contains(tid));
        Some(grew || torn)
    }

    /// `poor`: the bucket is low, and the trickle pays for it.
    fn sample_threads(&mut self, now: u64, poor: bool) {
        let exact = self.switching.records();
        self.find_rest(now, exact);
        let low = self.budget.is_low();
        let narrow = low || self.paid_by == PaidBy::Trickle;
        self.tracks.due(&self.urgent, now, (exact, low), &mut self.due);
        let threads = self.settings.threads;
        let few = self.width.threads();
        let beside = |urgent: usize| if narrow { threads.min(urgent + few) } else { threads };
        let (most, places) = (beside(self.urgent.len()), beside(self.due.len()));
        choose(&self.due, &mut self.rest, places, &mut self.random, &mut self.chosen);
        self.thread_sampler.begin_pass(now);
        self.switching.record_waker_stacks(&self.world, &mut self.thread_sampler.native, now);
        if self.thread_sampler.stacks.is_none() {
            self.under_gil.want(&self.urgent, &self.chosen);
        }
        self.sample_chosen(now, exact);
        let waits = |tid: &u32| {
            let last = self.tracks.get(*tid).and_then(|track| track.last);
            last.is_some_and(|sample| sample.wait == WaitKind::Futex)
        };
        let waiting = self.urgent.iter().chain(self.order.seen()).copied().filter(waits);
        self.switching.follow(&self.world, &self.tracks, waiting, now);
        // Behind the threads: a task that moved since its thread was seen running says so itself.
        let (world, thread_sampler) = (&self.world, &mut self.thread_sampler);
        let seen =
            self.suspensions.sample(world, thread_sampler, &self.open, &self.overdue, most, poor);
        let requests = (&self.open[..], &self.overdue[..]);
        let native = self.native_tasks.sample(world, thread_sampler, requests, (most, poor));
        self.world.figures().samples.fetch_add(seen + native, Ordering::Relaxed);
        self.thread_sampler.count_torn();
    }

    /// Threads that may have something new. Where no switch records show which threads ran, some
    /// are asked each time, and for those that did not run the last sample is repeated.
    fn find_rest(&mut self, now: u64, exact: bool) {
        self.rest.clear();
        if exact {
            self.rest.extend(self.tracks.with_news());
            return;
        }
        let world = &self.world;
        let clock_ns = |tid| world.cpu_ns(tid);
        let repeat = |sample: &_| record(world, sample);
        self.tracks.ask_some(&self.urgent, now, clock_ns, &mut self.rest, repeat);
    }

    /// Samples the chosen urgent threads and, right behind each, the threads in its way; then the
    /// others.
    fn sample_chosen(&mut self, now: u64, exact: bool) {
        let threads = self.settings.threads;
        let urgent = (&self.urgent[..], &self.due[..]);
        let wakers = self.switching.wakers(now).filter(|_| !urgent.0.is_empty());
        self.order.begin(threads, urgent, &self.chosen, wakers, &mut self.random);
        while let Some(turn) = self.order.next(&self.world) {
            if !turn.close {
                self.give_way();
            }
            if let Some(sample) = self.sample(turn.tid, turn.close, exact) {
                self.gil_wanted |= sample.wait == WaitKind::Gil;
                self.order.sampled(&sample);
            }
        }
        if self.order.was_cut() {
            self.world.lose(losses::PASSES_CUT, 1);
        }
    }

    fn sample(&mut self, tid: u32, close: bool, exact: bool) -> Option<format::record::Sample> {
        let (world, tracks) = (&self.world, &mut self.tracks);
        let sample = self.thread_sampler.sample(world, tracks, &self.python, tid, close, exact)?;
        record(world, &sample);
        Some(sample)
    }
}

fn record(sink: &impl Sink, sample: &format::record::Sample) {
    sink.append(&sample.encode(), sample.t_ns);
    sink.figures().samples.fetch_add(1, Ordering::Relaxed);
}
