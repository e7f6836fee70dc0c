//! The sampler: one thread that looks at the others a hundred times a second.
//!
//! | reads | emits | unit | how often |
//! | --- | --- | --- | --- |
//! | switch records | off-CPU intervals | ns | each pass, all that came |
//! | wakings of waiting threads in slow requests' way | who woke them | | each pass, all that came |
//! | open requests | which of them are past their usual time | | each pass |
//! | at most `threads` threads, who stands in slow requests' way among them: /proc, Python or native stack | samples | | each pass |
//! | where nothing tells of switches, the CPU clocks of 32 threads | the last sample again of one that did not run | ns | each pass, others each time |
//! | at most `threads` tasks of event loops, of requests past their usual time | awaits | | each pass |
//! | counters of process and host, its own wake-ups (`pulse`) | vitals | in the name | once a second; when late |
//!
//! Each pass is paid from a purse (`crate::policy::budget`); while it is empty, threads are not looked
//! at, but switches are still drained, before the kernel's rings are full, and requests still watched. While nobody works there are twenty passes a
//! second, and the next request's begin ends the sleep.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use crate::policy::budget::{Budget, Look, Width};
use crate::policy::choice::{choose, Places, Random};
use format::region::losses;
use format::wait::WaitKind;
use recorder::OpenRequest;
use samplers::python_stacks::{PyThread, PythonStacks};

use crate::policy::allotment::Allotment;
use crate::settings::Settings;
use crate::switches::Switching;
use crate::tasks::Suspensions;
use crate::threads::native::Native;
use crate::threads::thread_sampler::Looker;
use crate::threads::tracks::{Moved, Tracks};
use crate::under_gil::UnderGil;
use crate::vitals::Pulse;
use crate::world::{Sink, World};

/// A request younger than this is never past its usual time.
const YOUNG_NS: u64 = 15_000_000;
/// The list of threads is read this often while something says that it is old, and when a request runs
/// on a thread not known; less often where there are so many that this would cost more than `LIST_SHARE`
/// of the budget. At least each `LIST_AT_LEAST_EVERY_NS` where switch records do not tell of births, and each
/// `LIST_IN_ANY_CASE_NS` where they do.
const LIST_EVERY_NS: u64 = 100_000_000;
const LIST_SHARE: f64 = 0.1;
const LIST_AT_LEAST_EVERY_NS: u64 = 1_000_000_000;
const LIST_IN_ANY_CASE_NS: u64 = 5_000_000_000;
/// So much of a pass's CPU time is for the threads that are urgent, as much for whoever stands in their way, and
/// so much for the others; the first thread of each kind is looked at in any case.
const URGENT_NS: u64 = 4_000_000;
const OTHERS_NS: u64 = 1_000_000;
/// Without switch records so many threads are asked in a pass whether they ran since they were seen waiting, others
/// in the next one.
const ASKED: usize = 32;
/// One in so many of a pass's places is for threads that ended waits of slow requests' threads, more if
/// nobody else takes them.
const WAKERS: usize = 4;
/// After so much of a pass the CPU is offered to whoever waits for it (decision 0015).
const TURN_NS: u64 = 50_000;
/// After so many passes in a row that found nobody at work the next one comes that much later, or when a request
/// begins. Without switch records, who used less CPU time since the last pass than this did not work.
const CALM: u32 = 3;
const NAP_NS: u64 = 50_000_000;
const WORK_NS: u64 = 100_000;

/// When the next pass is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At this time.
    At(u64),
    /// Nobody works: at this time, or `period_ns` behind a request's begin.
    Nap {
        /// The time.
        until_ns: u64,
        /// Whoever has just begun a request is not to be sampled, nor kept from a CPU, at once.
        period_ns: u64,
    },
}

/// Who was looked at in a pass because he stands in a slow request's way.
struct Culprits {
    seen: Vec<u32>,
    time: Allotment,
    exact: bool,
}

/// The sampler, of one process.
pub struct Sampler<W: World> {
    world: W,
    settings: Settings,
    looker: Looker,
    switching: Switching<W::Switches>,
    tracks: Tracks<W::Files>,
    python: Vec<PyThread>,
    alive: Vec<u32>,
    own: Vec<u32>,
    under_gil: Arc<UnderGil>,
    /// When the pass began, or last gave way.
    turn_ns: u64,
    listed_ns: u64,
    /// When it was last asked whether the list is old.
    asked_ns: u64,
    list_every_ns: u64,
    /// The last list had threads that the one before had not, or was torn.
    list_grew: bool,
    /// The interpreter's newest thread before the last list.
    newest: Option<(usize, usize)>,
    budget: Budget,
    width: Width,
    /// What pays for the pass at hand, and the CPU time before it.
    look: Look,
    cpu_before_ns: u64,
    /// CPU time of this thread that is told already.
    booked_ns: u64,
    /// Passes in a row that found nobody at work; the CPU time of all other threads at the last one.
    calm_passes: u32,
    others_ns: u64,
    random: Random,
    open: Vec<OpenRequest>,
    urgent: Vec<u32>,
    /// Those of them that are to be looked at, least lately looked at first.
    due: Vec<u32>,
    /// Indices into `open` of the requests past their usual time.
    overdue: Vec<usize>,
    suspensions: Suspensions,
    rest: Vec<u32>,
    /// With which thread the asking begins, by its place among all.
    asked_first: usize,
    chosen: Vec<u32>,
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
        world.set_source("native_stacks", native.state().to_owned());
        world.set_source("running_stacks", native.running_state());
        let switching = Switching::new(&world, settings, &own);
        world.set_source("threads", "on".to_owned());
        let pulse = Pulse::new(&world, tid);
        Sampler {
            settings,
            looker: Looker::new(world.recorder(), stacks, under_gil.clone(), native),
            switching,
            tracks: Tracks::default(),
            python: Vec::new(),
            alive: Vec::new(),
            own,
            under_gil,
            turn_ns: now,
            listed_ns: 0,
            asked_ns: 0,
            list_every_ns: LIST_EVERY_NS,
            list_grew: true,
            newest: None,
            budget: Budget::new(settings.budget_percent, now),
            width: Width::default(),
            look: Look::No,
            cpu_before_ns: 0,
            booked_ns: 0,
            calm_passes: 0,
            others_ns: 0,
            random: Random::new(now),
            open: Vec::new(),
            urgent: Vec::new(),
            due: Vec::new(),
            overdue: Vec::new(),
            suspensions: Suspensions::default(),
            rest: Vec::new(),
            asked_first: 0,
            chosen: Vec::new(),
            pulse,
            world,
        }
    }

    /// Takes over settings that were changed meanwhile.
    pub fn follow(&mut self, settings: Settings) {
        if settings.budget_percent != self.settings.budget_percent {
            self.budget = Budget::new(settings.budget_percent, self.world.now_ns());
        }
        self.settings = settings;
    }

    /// The requests that were open when the last pass began, oldest first.
    pub fn open(&self) -> &[OpenRequest] {
        &self.open
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
        let usual_ns = self.settings.period_ns;
        // The kernel's rings must not be full at the next pass, as long as that can be paid somehow.
        let longest_ns = self.switching.longest_ns().max(usual_ns);
        let period_ns = self.budget.period_ns(usual_ns, !self.urgent.is_empty());
        let paid = !self.budget.is_overdrawn();
        let period_ns = if paid { period_ns.min(longest_ns) } else { period_ns };
        let now = self.world.now_ns();
        match self.calm_passes >= CALM && longest_ns >= NAP_NS {
            true => Next::Nap { until_ns: now + NAP_NS.max(period_ns), period_ns },
            false => Next::At((planned_ns + period_ns).max(now.saturating_sub(period_ns))),
        }
    }

    /// Writes what threads are doing at this instant: somebody is about to copy the ring.
    pub fn write_open_states(&mut self) {
        let now = self.world.now_ns();
        self.switching.tell_now(&self.world, now);
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
        self.calm_passes = if self.somebody_works() { 0 } else { self.calm_passes + 1 };
        self.look = self.budget.may_look(!self.urgent.is_empty());
        self.width.follow(self.look);
        if self.look != Look::No {
            self.look_at_threads(now, self.look == Look::Trickled);
        } else {
            self.world.lose(losses::PASSES_SKIPPED, 1);
            self.looker.native.rest();
        }
        if self.pulse.is_due(now) {
            self.pulse.read(&self.world, now);
            self.switching.each_second(&self.world, now);
        }
    }

    /// The pass is over, with all that was done on its behalf: it is paid.
    pub fn end_pass(&mut self) {
        let recorder = self.world.recorder();
        let by_others_ns = self.looker.native.settle(recorder) + self.under_gil.unpaid_ns();
        let spent = self.book(by_others_ns);
        self.budget.spend(spent, self.world.now_ns(), self.look);
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

    /// Offers the CPU to the threads of the service, which a pass may have kept from it since they woke
    /// up. Not while a request is slow: what is in its way must be seen in one go.
    fn give_way(&mut self) {
        let is_time = self.world.now_ns().saturating_sub(self.turn_ns) >= TURN_NS;
        if is_time && self.urgent.is_empty() {
            self.world.yield_cpu();
            self.turn_ns = self.world.now_ns();
        }
    }

    /// Gives back what can be opened anew while the program comes near its limit of descriptors.
    fn mind_descriptors(&mut self) {
        self.world.note_descriptors(|| None);
        if self.world.is_tight() {
            self.tracks.give_back();
            self.pulse.give_back();
        }
    }

    fn drain_switches(&mut self, now: u64) {
        self.switching.drain(&self.world, &mut self.tracks, now);
    }

    /// Lists open requests; those past their usual time make their threads urgent, oldest first.
    fn watch_requests(&mut self, now: u64) {
        self.open.clear();
        let open = &mut self.open;
        self.world.open_requests(|request| open.push(request));
        self.open.sort_unstable_by_key(|r| r.begin_ns);
        self.urgent.clear();
        self.overdue.clear();
        for (index, request) in self.open.iter().enumerate() {
            let (typical_ns, limit_ns) = self.world.times_of(request.name);
            let usual_ns = typical_ns.saturating_mul(2).max(YOUNG_NS);
            if now.saturating_sub(request.begin_ns) > usual_ns.min(limit_ns) {
                self.urgent.push(request.tid);
                self.urgent.extend(request.helpers.into_iter().filter(|tid| *tid != 0));
                self.overdue.push(index);
            }
        }
    }

    /// Whether a request is open, or a thread ran since the last look at it.
    fn somebody_works(&mut self) -> bool {
        if !self.open.is_empty() {
            return true;
        }
        if self.switching.records() {
            return self.tracks.anybody_ran();
        }
        let others_ns = self.world.process_cpu_ns().saturating_sub(self.world.thread_cpu_ns());
        let before_ns = std::mem::replace(&mut self.others_ns, others_ns);
        others_ns.saturating_sub(before_ns) > WORK_NS
    }

    fn unknown_thread(&self) -> bool {
        let known = |tid: &u32| self.tracks.by_tid.get(tid).is_some_and(|t| t.python.is_some());
        self.looker.stacks.is_some() && !self.urgent.iter().all(known)
    }

    /// Threads that are new, or have ended, show in what is read anyway: in switch records, in the
    /// interpreter's newest thread, in a look at them.
    fn list_is_due(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.asked_ns) < self.list_every_ns {
            return false;
        }
        self.asked_ns = now;
        let most =
            if self.switching.records() { LIST_IN_ANY_CASE_NS } else { LIST_AT_LEAST_EVERY_NS };
        now.saturating_sub(self.listed_ns) >= most
            || self.list_grew
            || self.tracks.stale
            || self.switching.may_know_more()
            || self.newest != self.newest_now()
    }

    fn newest_now(&self) -> Option<(usize, usize)> {
        self.looker.stacks.as_ref().and_then(|stacks| stacks.newest_thread())
    }

    fn list_threads(&mut self, now: u64) {
        let cpu_before = self.world.thread_cpu_ns();
        self.list_threads_now(now);
        let cost_ns = self.world.thread_cpu_ns().saturating_sub(cpu_before) as f64;
        let share = LIST_SHARE * self.settings.budget_percent / 100.0;
        self.list_every_ns =
            ((cost_ns / share) as u64).clamp(LIST_EVERY_NS, LIST_AT_LEAST_EVERY_NS);
    }

    fn list_threads_now(&mut self, now: u64) {
        (self.listed_ns, self.asked_ns) = (now, now);
        self.newest = self.newest_now();
        if self.world.list(&mut self.alive).is_err() {
            return;
        }
        let mut torn = false;
        if let Some(stacks) = &mut self.looker.stacks {
            // A torn list keeps the one before: its threads are checked again when looked at.
            let mut fresh = Vec::with_capacity(self.python.len() + 8);
            torn = stacks.threads(&mut fresh).is_err();
            if !torn {
                self.python = fresh;
            }
        }
        self.list_grew = self.tracks.refresh(&self.alive, &self.python, &self.own) || torn;
        let tracks = &self.tracks.by_tid;
        self.switching.listed(|tid| tracks.contains_key(&tid));
    }

    /// `poor`: savings are spent, and what trickles in pays for it.
    fn look_at_threads(&mut self, now: u64, poor: bool) {
        let exact = self.switching.records();
        self.find_rest(now, exact);
        let low = self.budget.is_low();
        self.find_due(now, exact, low);
        let threads = self.settings.threads;
        let few = self.width.threads();
        let beside = |urgent: usize| if low { threads.min(urgent + few) } else { threads };
        let (most, places) = (beside(self.urgent.len()), beside(self.due.len()));
        choose(&self.due, &mut self.rest, places, &mut self.random, &mut self.chosen);
        self.looker.begin_pass(now);
        self.switching.tell_waker_stacks(&self.world, &mut self.looker.native, now);
        if self.looker.stacks.is_none() {
            self.under_gil.want(&self.urgent, &self.chosen);
        }
        let culprits = self.look_at_chosen(now, exact);
        let waits = |tid: &u32| {
            let last = self.tracks.by_tid.get(tid).and_then(|track| track.last);
            last.is_some_and(|sample| sample.wait == WaitKind::Futex)
        };
        let waiting = self.urgent.iter().chain(&culprits).copied().filter(waits);
        self.switching.follow(&self.world, &self.tracks, waiting, now);
        // Behind the threads: a task that moved since its thread was seen running says so itself.
        let (world, looker) = (&self.world, &mut self.looker);
        let seen = self.suspensions.look(world, looker, &self.open, &self.overdue, most, poor);
        self.world.figures().samples.fetch_add(seen, Ordering::Relaxed);
        self.looker.tell_torn();
    }

    /// Threads that may have something new to tell. Where no switch records tell who ran, some are asked each
    /// time, and for those that did not their last sample is told again.
    fn find_rest(&mut self, now: u64, exact: bool) {
        self.rest.clear();
        if exact {
            self.rest.extend(self.tracks.with_news());
            return;
        }
        let tracks = &mut self.tracks.by_tid;
        let count = tracks.len();
        let first = self.asked_first.checked_rem(count).unwrap_or(0);
        self.asked_first = first + ASKED.min(count);
        let before = self.asked_first.saturating_sub(count);
        for (index, (tid, track)) in tracks.iter_mut().enumerate() {
            let asked = index < before || (first..self.asked_first).contains(&index);
            if !asked || self.urgent.contains(tid) {
                continue;
            }
            match track.stands(now, || self.world.cpu_ns(*tid)) {
                Err(Moved) => self.rest.push(*tid),
                Ok(sample) => sample.into_iter().for_each(|sample| tell(&self.world, &sample)),
            }
        }
    }

    /// Looks at the urgent threads chosen and, right behind each, at whoever stands in its way; then at the
    /// others. Who stood in the way.
    fn look_at_chosen(&mut self, now: u64, exact: bool) -> Vec<u32> {
        let threads = self.settings.threads;
        let others = self.chosen.iter().filter(|tid| !self.urgent.contains(tid)).count();
        let mut places = Places::new(threads, others);
        let mut for_urgent = Allotment::new(URGENT_NS);
        let mut for_others = Allotment::new(OTHERS_NS);
        let mut culprits = Culprits { seen: Vec::new(), time: Allotment::new(URGENT_NS), exact };
        let mut wakers: Vec<u32> = match self.urgent.is_empty() {
            true => Vec::new(),
            false => self.switching.wakers(now).collect(),
        };
        // Whoever comes last may be left out: another one each time.
        let first = self.random.below(wakers.len());
        wakers.rotate_left(first);
        let (soon, late) = wakers.split_at((threads / WAKERS).max(1).min(wakers.len()));
        self.look_at_culprits(soon, &mut culprits, &mut places);
        let chosen = std::mem::take(&mut self.chosen);
        // Urgent ones are in front.
        let urgent = chosen.iter().take_while(|tid| self.due.contains(tid)).count();
        for tid in &chosen[..urgent] {
            if !for_urgent.is_left(&self.world) || !places.urgent() {
                break;
            }
            if let Some(sample) = self.look(*tid, true, exact) {
                let in_its_way = [sample.lock_holder, sample.gil_holder];
                self.look_at_culprits(&in_its_way, &mut culprits, &mut places);
            }
        }
        self.look_at_culprits(late, &mut culprits, &mut places);
        for tid in &chosen {
            let seen = self.urgent.contains(tid) || culprits.seen.contains(tid);
            if !seen && for_others.is_left(&self.world) && places.other() {
                self.give_way();
                self.look(*tid, false, exact);
            }
        }
        self.chosen = chosen;
        if [for_urgent, for_others, culprits.time].iter().any(|allotment| allotment.cut) {
            self.world.lose(losses::PASSES_CUT, 1);
        }
        culprits.seen
    }

    /// Whoever stands in a slow request's way is looked at in the same pass; bounded as well.
    fn look_at_culprits(&mut self, tids: &[u32], culprits: &mut Culprits, places: &mut Places) {
        for tid in tids {
            let known = *tid == 0 || self.urgent.contains(tid) || culprits.seen.contains(tid);
            if !known && culprits.time.is_left(&self.world) && places.culprit() {
                culprits.seen.push(*tid);
                self.look(*tid, true, culprits.exact);
            }
        }
    }

    /// Of the threads that are urgent, those with something to tell. However many they are, each has its turn.
    fn find_due(&mut self, now: u64, exact: bool, low: bool) {
        let tracks = &self.tracks.by_tid;
        let ran = |tid: u32| self.tracks.has_run(tid);
        let is_due = |tid: &&u32| {
            tracks.get(tid).is_none_or(|track| track.is_due(ran(**tid), now, exact, low))
        };
        self.due.clear();
        self.due.extend(self.urgent.iter().filter(is_due));
        self.due.sort_by_key(|tid| tracks.get(tid).map_or(0, |track| track.sampled_ns));
    }

    fn look(&mut self, tid: u32, close: bool, exact: bool) -> Option<format::record::Sample> {
        let (world, tracks) = (&self.world, &mut self.tracks);
        let sample = self.looker.look(world, tracks, &self.python, tid, close, exact)?;
        tell(world, &sample);
        Some(sample)
    }
}

fn tell(sink: &impl Sink, sample: &format::record::Sample) {
    sink.append(&sample.encode(), sample.t_ns);
    sink.figures().samples.fetch_add(1, Ordering::Relaxed);
}
