//! The sampler's memory and policy: which threads a pass samples, and when the next pass is.
//!
//! How it works: crate `sampler` decides: this holds its policies (budget, schedule, age of the
//! list of threads, what is new of each thread, order of a pass), feeds them from the simulated
//! kernel, and carries out what they say. Threads go by their kernel ids, as in the real one.
//!
//! What it promises: no sample has what the real one could not read. What is missing on purpose:
//! native stacks, wakers, pauses of switch records, stacks torn by a concurrent change; a nap that
//! a request's begin ends.

use format::wait::WaitKind;
use sampler::policy::budget::{Budget, Need, PaidBy, Width};
use sampler::policy::choice::{choose, Random as Choice};
use sampler::policy::order::{Order, Turn};
use sampler::policy::overdue::is_overdue;
use sampler::policy::progress::{Progress, Since};
use sampler::policy::schedule::{Next, Schedule, WORK_NS};
use sampler::policy::thread_list::ListAge;
use sampler::policy::tracks::Tracks;
use sampler::world::Clock;

use crate::engine::START_NS;
use crate::program::{MS, US};
use crate::random::Random;

/// A pass is made this often.
pub const PERIOD_NS: u64 = 10 * MS;
/// The sampler's share of a core.
pub const BUDGET_PERCENT: f64 = 1.0;
/// Threads a pass samples, at most.
pub const MOST_THREADS: usize = 16;
/// What a pass costs on one machine or another, mostly waking up with cold caches: measured from
/// 45 us on a quiet one to 150 us on a busy one, ns of CPU.
const PASS_NS: (u64, u64) = (45 * US, 150 * US);

/// The simulated clocks, at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Instant {
    /// The time.
    pub now_ns: u64,
    /// CPU time of the sampler's thread.
    pub cpu_ns: u64,
}

impl Clock for Instant {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn thread_cpu_ns(&self) -> u64 {
        self.cpu_ns
    }

    fn process_cpu_ns(&self) -> u64 {
        self.cpu_ns
    }

    fn yield_cpu(&self) {}
}

/// What was found of a request's task.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When a record was written.
    pub seen_ns: u64,
    /// When the task was followed.
    pub followed_ns: u64,
    /// How often the task had moved.
    pub moves: u64,
}

/// The sampler.
pub struct Sampler {
    /// Its thread.
    pub tid: u32,
    /// Switch records show which threads ran.
    pub exact: bool,
    /// Its budget.
    pub budget: Budget,
    /// What it knows of the threads.
    pub tracks: Tracks,
    /// Whether the pass under way may sample.
    pub paid_by: PaidBy,
    /// Threads of late requests.
    pub urgent: Vec<u32>,
    /// What the pass under way is needed for.
    pub need: Need,
    progress: Progress,
    /// Requests that have begun.
    begun: u64,
    /// Requests whose tasks were found, by index.
    pub tasks: std::collections::BTreeMap<usize, Seen>,
    /// When tasks that work for no request are sampled again, and which then.
    pub around: (u64, usize),
    /// The time planned for the next pass.
    pub next_ns: u64,
    /// When vitals were read; the delay and throttling known then.
    pub vitals: (u64, u64, u64),
    /// CPU time that is booked.
    pub booked_ns: u64,
    /// What a pass costs on this machine, ns of CPU.
    pub pass_ns: u64,
    /// Switch records since the last pass began, and since its end.
    came: Vec<u32>,
    /// See `came`.
    pub drained: u64,
    /// Threads that are alive, in order of their birth.
    alive: Vec<u32>,
    /// Switch records have shown threads that are in no list.
    born: bool,
    width: Width,
    choice: Choice,
    order: Order,
    list: ListAge,
    schedule: Schedule,
    passed_ns: u64,
    others_ns: u64,
    gil_wanted: bool,
    typical_ns: u64,
    due: Vec<u32>,
    chosen: Vec<u32>,
}

impl Sampler {
    /// At the start.
    pub fn new(seed: u64, exact: bool) -> Sampler {
        Sampler {
            tid: 0,
            exact,
            budget: Budget::new(BUDGET_PERCENT, START_NS),
            tracks: Tracks::default(),
            paid_by: PaidBy::Bucket,
            urgent: Vec::new(),
            need: Need::Usual,
            progress: Progress::default(),
            begun: 0,
            tasks: std::collections::BTreeMap::new(),
            around: (0, 0),
            next_ns: START_NS,
            vitals: (0, 0, 0),
            booked_ns: 0,
            pass_ns: Random::of(seed, 4).between(PASS_NS.0, PASS_NS.1),
            came: Vec::new(),
            drained: 0,
            alive: Vec::new(),
            born: false,
            width: Width::default(),
            choice: Choice::new(seed),
            order: Order::default(),
            list: ListAge::default(),
            schedule: Schedule::new(START_NS),
            passed_ns: START_NS,
            others_ns: 0,
            gil_wanted: false,
            typical_ns: 0,
            due: Vec::new(),
            chosen: Vec::new(),
        }
    }

    /// A thread of the service was born.
    pub fn thread_begins(&mut self, tid: u32) {
        self.alive.push(tid);
    }

    /// A thread ended.
    pub fn thread_ends(&mut self, tid: u32) {
        self.alive.retain(|alive| *alive != tid);
    }

    /// A thread came to a CPU.
    pub fn has_run(&mut self, tid: u32) {
        self.came.push(tid);
        self.drained += 1;
    }

    /// A request begins.
    pub fn request_begins(&mut self) {
        self.begun += 1;
    }

    /// The typical time moves by a sixteenth of itself.
    pub fn request_ended(&mut self, took_ns: u64) {
        let step = (self.typical_ns / 16).max(1);
        self.typical_ns = match self.typical_ns {
            0 => took_ns,
            typical if took_ns > typical => typical + step,
            typical => typical.saturating_sub(step),
        };
    }

    /// Whether a request that is open for so long is past its usual time.
    pub fn is_overdue(&self, open_ns: u64, limit_ns: u64) -> bool {
        is_overdue(open_ns, (self.typical_ns, limit_ns))
    }

    /// Takes over what switch records show.
    pub fn drain(&mut self) {
        for tid in self.came.drain(..).filter(|tid| *tid != self.tid) {
            self.born |= self.exact && !self.tracks.ran(tid);
        }
    }

    /// Lists the threads, where that is due.
    pub fn follow_list(&mut self, now: u64) {
        let unknown = self.urgent.iter().any(|tid| !self.tracks.contains(*tid));
        let is_old = || self.tracks.stale || self.born || !self.exact;
        if self.list.is_due(now, self.exact, is_old) || unknown {
            let grew = self.tracks.refresh(&self.alive, &[], &[self.tid]);
            self.born = false;
            self.list.read(now, 0, BUDGET_PERCENT, Some(grew));
        }
    }

    /// Whether anybody works: a request is open, or a thread ran; without switch records by the CPU
    /// time of all other threads, `others_ns`.
    pub fn follow_work(&mut self, now: u64, open: bool, others_ns: u64) {
        let before_ns = std::mem::replace(&mut self.others_ns, others_ns);
        let cpu_ns = others_ns.saturating_sub(before_ns);
        let ran = match self.exact {
            true => self.tracks.anybody_ran(),
            false => cpu_ns > WORK_NS,
        };
        let ns = now.saturating_sub(std::mem::replace(&mut self.passed_ns, now));
        let (begun, gil_wanted) = (self.begun, std::mem::take(&mut self.gil_wanted));
        let since = Since { begun, ns, cpu_ns, gil_wanted };
        self.schedule.note(&since, (open, ran), now);
        self.progress.note(since);
        if self.progress.is_stalled() {
            self.need = self.need.max(Need::Stalled);
        }
    }

    /// How long until the next pass begins.
    pub fn pause_ns(&mut self, now: u64) -> u64 {
        let times = (PERIOD_NS, u64::MAX);
        let next = self.schedule.next(&self.budget, self.need, times, (self.next_ns, now));
        self.next_ns = match next {
            Next::At(next_ns) => next_ns,
            Next::Nap { until_ns, .. } => until_ns,
        };
        self.next_ns.saturating_sub(now)
    }

    /// Chooses the threads of a pass. `rest`: those that may have something new and are not urgent.
    pub fn choose(&mut self, now: u64, rest: &mut [u32]) {
        let low = self.budget.is_low();
        self.tracks.due(&self.urgent, now, (self.exact, low), &mut self.due);
        let few = self.width.threads();
        let narrow = low || self.paid_by == PaidBy::Trickle;
        let most = if narrow { MOST_THREADS.min(self.due.len() + few) } else { MOST_THREADS };
        choose(&self.due, rest, most, &mut self.choice, &mut self.chosen);
        let urgent = (&self.urgent[..], &self.due[..]);
        let nobody = std::iter::empty();
        self.order.begin(MOST_THREADS, urgent, &self.chosen, nobody, &mut self.choice);
    }

    /// What pays for the pass that begins.
    pub fn pay(&mut self, now: u64) {
        self.paid_by = self.budget.may_sample(self.need, now);
        self.width.follow(self.paid_by, &self.budget, PERIOD_NS);
    }

    /// Which thread is sampled now.
    pub fn next_turn(&mut self, at: Instant) -> Option<Turn> {
        self.order.next(&at)
    }

    /// What that showed.
    pub fn sampled(&mut self, sample: &format::record::Sample) {
        self.gil_wanted |= sample.wait == WaitKind::Gil;
        self.order.sampled(sample);
    }
}
