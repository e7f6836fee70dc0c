//! The sampler: one thread that looks at the others a hundred times a second.
//!
//! | reads | emits | unit | how often |
//! | --- | --- | --- | --- |
//! | switch records | off-CPU intervals | ns | each pass, all that came |
//! | wakings of waiting threads in slow requests' way | who woke them | | each pass, all that came |
//! | open requests | firings | | each pass |
//! | at most `threads` threads, who stands in slow requests' way among them: /proc, Python or native stack | samples | | each pass |
//! | where nothing tells of switches, the CPU clocks of 32 threads | the last sample again of one that did not run | ns | each pass, others each time |
//! | at most `threads` tasks of event loops, of requests past their usual time | awaits | | each pass |
//! | counters of process and host, its own wake-ups (`pulse`) | vitals | in the name | once a second; when late |
//!
//! Each pass is paid from a purse (`sampler::policy::budget`); while it is empty, threads are not looked
//! at, but switches are still drained, before the kernel's rings are full, and requests still watched. While nobody works there are twenty passes a
//! second, and the next request's begin ends the sleep.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use format::region::losses;
use format::wait::WaitKind;
use recorder::OpenRequest;
use sampler::policy::budget::{Budget, Look, Width};
use sampler::policy::choice::{choose, Places, Random};
use samplers::python_stacks::PyThread;
use sys::clock::Following;

use crate::allotment::Allotment;
use crate::config::Config;
use crate::control::Shared;
use crate::firing::Triggers;
use crate::interpreter;
use crate::native::Native;
use crate::pulse::Pulse;
use crate::subject::Looker;
use crate::suspended::Suspensions;
use crate::switching::Switching;
use crate::tracks::{Moved, Tracks};

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
const NAP: Duration = Duration::from_millis(50);
const WORK_NS: u64 = 100_000;
/// Between two looks while nothing is recorded.
const IDLE: Duration = Duration::from_millis(50);

/// What is said when an allocation of ours was refused.
pub(crate) const RAN_OUT: &str = "off: memory ran out; recording has ended";
pub(crate) const TURNED_OFF: &str = "off: turned off by settings";

/// What a `status` told before the sampler's first look says of its sources.
pub(crate) fn announce(shared: &Shared) {
    let config = shared.config();
    for (name, wanted) in [
        ("native_stacks", config.stacks),
        ("running_stacks", config.stacks),
        ("switches", config.switches),
        ("threads", true),
        ("vitals", true),
        ("wakers", config.switches),
    ] {
        let state = if wanted { "off: the sampler has not begun" } else { TURNED_OFF };
        shared.set_source(name, state.to_owned());
    }
}

/// The sampler's life.
pub(crate) fn run(shared: Arc<Shared>) {
    recorder::name_thread("dashcam-sampler");
    let Some(mut sampler) = Sampler::new(&shared) else {
        return;
    };
    shared.store_settings();
    // To begin is not what a pass costs.
    sampler.book(0);
    let mut next_ns = sys::clock::now_ns();
    while !shared.stopping() {
        if sys::reserve::ran_out() {
            recorder::pause();
            shared.set_source("memory", RAN_OUT.to_owned());
            break;
        }
        sampler.follow_clock();
        sampler.follow_settings();
        if !recorder::is_on() {
            sampler.idle();
            next_ns = sys::clock::now_ns();
            continue;
        }
        let begin_ns = sys::clock::now_ns();
        if sampler.pulse.beat(&shared, next_ns, begin_ns) {
            sampler.switching.each_second(&shared, begin_ns);
        }
        sampler.pass(begin_ns);
        let usual_ns = sampler.config.period.as_nanos() as u64;
        // The kernel's rings must not be full at the next pass, as long as that can be paid somehow.
        let longest_ns = sampler.switching.longest_ns().max(usual_ns);
        let period_ns = sampler.budget.period_ns(usual_ns, !sampler.urgent.is_empty());
        let paid = !sampler.budget.is_overdrawn();
        let period_ns = if paid { period_ns.min(longest_ns) } else { period_ns };
        let now = sys::clock::now_ns();
        if sampler.calm_passes >= CALM && longest_ns >= NAP.as_nanos() as u64 {
            next_ns = now + (NAP.as_nanos() as u64).max(period_ns);
            if shared.recorder.nap().sleep(Duration::from_nanos(next_ns - now)) {
                // Woken at last: the process may have been stopped while the sampler slept.
                let woken_ns = sys::clock::now_ns();
                sampler.pulse.beat(&shared, next_ns, woken_ns);
                // Who has just begun a request is not to be looked at, nor to be kept from a CPU, at once.
                next_ns = woken_ns + period_ns;
            }
        } else {
            next_ns = (next_ns + period_ns).max(now.saturating_sub(period_ns));
        }
        let pause_ns = next_ns.saturating_sub(sys::clock::now_ns());
        sys::thread::pause_for(Duration::from_nanos(pause_ns));
    }
    sampler.last_words();
}

/// Who was looked at in a pass because he stands in a slow request's way.
struct Culprits {
    seen: Vec<u32>,
    time: Allotment,
    exact: bool,
}

struct Sampler<'s> {
    shared: &'s Shared,
    /// The settings as of the last look.
    config: &'static Config,
    looker: Looker<'s>,
    switching: Switching,
    tracks: Tracks,
    python: Vec<PyThread>,
    alive: Vec<u32>,
    own: Vec<u32>,
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
    /// CPU time of this thread that is told already.
    booked_ns: u64,
    /// Passes in a row that found nobody at work; the CPU time of all other threads at the last one.
    calm_passes: u32,
    others_ns: u64,
    random: Random,
    triggers: Triggers<'s>,
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
    pulse: Pulse,
    clock: Following,
}

impl<'s> Sampler<'s> {
    fn new(shared: &'s Shared) -> Option<Sampler<'s>> {
        let mem = match sys::mem::Reader::new() {
            Ok(mem) => mem,
            Err(error) => {
                shared.set_source("stacks", format!("off: cannot read own memory: {error}"));
                return None;
            }
        };
        let now = sys::clock::now_ns();
        let own = vec![sys::thread::cached_tid()];
        let config = shared.config();
        let stacks = interpreter::attach(shared);
        let native = Native::new(shared.recorder, config.stacks);
        shared.set_source("native_stacks", native.state().to_owned());
        shared.set_source("running_stacks", native.running_state());
        let switching = Switching::new(shared, &own);
        shared.set_source("threads", "on".to_owned());
        Some(Sampler {
            shared,
            config,
            looker: Looker::new(shared, mem, stacks, native),
            switching,
            tracks: Tracks::default(),
            python: Vec::new(),
            alive: Vec::new(),
            own,
            turn_ns: now,
            listed_ns: 0,
            asked_ns: 0,
            list_every_ns: LIST_EVERY_NS,
            list_grew: true,
            newest: None,
            budget: Budget::new(config.budget_percent, now),
            width: Width::default(),
            booked_ns: 0,
            calm_passes: 0,
            others_ns: 0,
            random: Random::new(now),
            triggers: Triggers::new(shared, config, now),
            open: Vec::new(),
            urgent: Vec::new(),
            due: Vec::new(),
            overdue: Vec::new(),
            suspensions: Suspensions::default(),
            rest: Vec::new(),
            asked_first: 0,
            chosen: Vec::new(),
            pulse: Pulse::new(shared, sys::thread::cached_tid()),
            clock: Following::NotYet,
        })
    }

    /// Takes over settings that were changed meanwhile.
    fn follow_settings(&mut self) {
        let config = self.shared.config();
        if std::ptr::eq(config, self.config) {
            return;
        }
        if config.budget_percent != self.config.budget_percent {
            self.budget = Budget::new(config.budget_percent, sys::clock::now_ns());
        }
        self.triggers.follow(config);
        self.config = config;
    }

    /// Nothing is recorded: keeps what must not pile up, and lets captures be made.
    fn idle(&mut self) {
        self.drain_switches(sys::clock::now_ns());
        self.triggers.wishes();
        self.answer_flush();
        self.book(0);
        sys::thread::pause_for(IDLE);
    }

    /// Keeps the fast clock near the kernel's, and says so when its way of reading changes.
    fn follow_clock(&mut self) {
        sys::clock::follow();
        let state = sys::clock::state();
        if state == self.clock {
            return;
        }
        self.clock = state;
        self.shared.set_source(
            "fast_clock",
            match state {
                Following::Counter => "on".to_owned(),
                Following::NotYet => "off: not measured yet".to_owned(),
                Following::Kernel(why) => {
                    format!("off: {why}; times are exact, reading them is slower")
                }
            },
        );
        self.shared.store_settings();
    }

    fn pass(&mut self, now: u64) {
        let cpu_before = sys::clock::thread_cpu_ns();
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
        let look = self.budget.may_look(!self.urgent.is_empty());
        self.width.follow(look);
        if look != Look::No {
            self.look_at_threads(now, look == Look::Trickled);
        } else {
            self.shared.recorder.region().lose(losses::PASSES_SKIPPED, 1);
            self.looker.native.rest();
        }
        if self.pulse.is_due(now) {
            self.pulse.read(self.shared, now);
            self.switching.each_second(self.shared, now);
        }
        self.triggers.look(now, &self.open);
        self.shared.recorder.tell_twice();
        self.answer_flush();
        let by_others_ns =
            self.looker.native.settle(self.shared.recorder) + self.shared.under_gil.unpaid_ns();
        let spent = self.book(by_others_ns);
        self.budget.spend(spent, sys::clock::now_ns(), look);
        self.shared.stats.passes.fetch_add(1, Ordering::Relaxed);
        let pass_ns = self.booked_ns.saturating_sub(cpu_before) + by_others_ns;
        self.shared.stats.longest_pass_ns.fetch_max(pass_ns, Ordering::Relaxed);
    }

    /// Tells all CPU time of this thread since the last call, what it took to sleep and to wake up
    /// included, and `more`, that others spent for it (decision 0017). How much that was.
    fn book(&mut self, more: u64) -> u64 {
        let cpu_ns = sys::clock::thread_cpu_ns();
        let spent = cpu_ns.saturating_sub(self.booked_ns) + more;
        self.booked_ns = cpu_ns;
        self.shared.stats.cpu_ns.fetch_add(spent, Ordering::Relaxed);
        spent
    }

    /// Offers the CPU to the threads of the service, which a pass may have kept from it since they woke
    /// up. Not while a request is slow: what is in its way must be seen in one go.
    fn give_way(&mut self) {
        let is_time = sys::clock::now_ns().saturating_sub(self.turn_ns) >= TURN_NS;
        if is_time && self.urgent.is_empty() {
            std::thread::yield_now();
            self.turn_ns = sys::clock::now_ns();
        }
    }

    /// Gives back what can be opened anew while the program comes near its limit of descriptors.
    fn mind_descriptors(&mut self) {
        if let Some(open) = sys::ours::open_in_all() {
            sys::ours::look_around(open);
        }
        if sys::ours::is_tight() {
            self.tracks.give_back();
            self.pulse.give_back();
        }
    }

    fn drain_switches(&mut self, now: u64) {
        self.switching.drain(self.shared, &mut self.tracks, now);
    }

    /// Lists open requests; those past their usual time make their threads urgent, oldest first.
    fn watch_requests(&mut self, now: u64) {
        self.open.clear();
        let open = &mut self.open;
        self.shared.recorder.open_requests().each(|request| open.push(request));
        self.open.sort_unstable_by_key(|r| r.begin_ns);
        self.urgent.clear();
        self.overdue.clear();
        let limits = self.shared.recorder.limits();
        for (index, request) in self.open.iter().enumerate() {
            let usual = limits.typical_ns(request.name).saturating_mul(2).max(YOUNG_NS);
            if now.saturating_sub(request.begin_ns) > usual.min(limits.limit_ns(request.name)) {
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
        let others_ns = sys::clock::process_cpu_ns().saturating_sub(sys::clock::thread_cpu_ns());
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
        let cpu_before = sys::clock::thread_cpu_ns();
        self.list_threads_now(now);
        let cost_ns = sys::clock::thread_cpu_ns().saturating_sub(cpu_before) as f64;
        let share = LIST_SHARE * self.config.budget_percent / 100.0;
        self.list_every_ns =
            ((cost_ns / share) as u64).clamp(LIST_EVERY_NS, LIST_AT_LEAST_EVERY_NS);
    }

    fn list_threads_now(&mut self, now: u64) {
        (self.listed_ns, self.asked_ns) = (now, now);
        self.newest = self.newest_now();
        if sys::task::list(&mut self.alive).is_err() {
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
        let threads = self.config.threads;
        let few = self.width.threads();
        let beside = |urgent: usize| if low { threads.min(urgent + few) } else { threads };
        let (most, places) = (beside(self.urgent.len()), beside(self.due.len()));
        choose(&self.due, &mut self.rest, places, &mut self.random, &mut self.chosen);
        self.looker.begin_pass(now);
        let (native, mem) = (&mut self.looker.native, &self.looker.mem);
        self.switching.tell_waker_stacks(self.shared, native, mem, now);
        if self.looker.stacks.is_none() {
            self.shared.under_gil.want(&self.urgent, &self.chosen);
        }
        let culprits = self.look_at_chosen(now, exact);
        let waits = |tid: &u32| {
            let last = self.tracks.by_tid.get(tid).and_then(|track| track.last);
            last.is_some_and(|sample| sample.wait == WaitKind::Futex)
        };
        let waiting = self.urgent.iter().chain(&culprits).copied().filter(waits);
        self.switching.follow(self.shared, &self.tracks, waiting, now);
        // Behind the threads: a task that moved since its thread was seen running says so itself.
        let seen = self.suspensions.look(&mut self.looker, &self.open, &self.overdue, most, poor);
        self.shared.stats.samples.fetch_add(seen, Ordering::Relaxed);
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
            match track.stands(*tid, now) {
                Err(Moved) => self.rest.push(*tid),
                Ok(sample) => sample.into_iter().for_each(|sample| tell(self.shared, &sample)),
            }
        }
    }

    /// Looks at the urgent threads chosen and, right behind each, at whoever stands in its way; then at the
    /// others. Who stood in the way.
    fn look_at_chosen(&mut self, now: u64, exact: bool) -> Vec<u32> {
        let threads = self.config.threads;
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
            if !for_urgent.is_left() || !places.urgent() {
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
            if !seen && for_others.is_left() && places.other() {
                self.give_way();
                self.look(*tid, false, exact);
            }
        }
        self.chosen = chosen;
        if [for_urgent, for_others, culprits.time].iter().any(|allotment| allotment.cut) {
            self.shared.recorder.region().lose(losses::PASSES_CUT, 1);
        }
        culprits.seen
    }

    /// Whoever stands in a slow request's way is looked at in the same pass; bounded as well.
    fn look_at_culprits(&mut self, tids: &[u32], culprits: &mut Culprits, places: &mut Places) {
        for tid in tids {
            let known = *tid == 0 || self.urgent.contains(tid) || culprits.seen.contains(tid);
            if !known && culprits.time.is_left() && places.culprit() {
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
        let sample = self.looker.look(&mut self.tracks, &self.python, tid, close, exact)?;
        tell(self.shared, &sample);
        Some(sample)
    }

    /// Writes what threads are doing at this instant, when somebody is about to copy the ring.
    fn answer_flush(&mut self) {
        let wanted = self.shared.flush_wanted.load(Ordering::Acquire);
        if self.shared.flushed.load(Ordering::Relaxed) == wanted {
            return;
        }
        let now = sys::clock::now_ns();
        self.switching.tell_now(self.shared, now);
        // Release: what was appended above is in the ring before the keeper goes on.
        self.shared.flushed.store(wanted, Ordering::Release);
    }

    /// The end: captures that are due are made now.
    fn last_words(&mut self) {
        self.drain_switches(sys::clock::now_ns());
        self.triggers.last_words();
        self.answer_flush();
    }
}

fn tell(shared: &Shared, sample: &format::record::Sample) {
    recorder::append(&sample.encode(), sample.t_ns);
    shared.stats.samples.fetch_add(1, Ordering::Relaxed);
}
