//! Threads of slow requests are sampled first, yet the weights of their stacks are their times.
//!
//! Simulations: 65 threads for a minute, at most 16 sampled in a pass, chosen by the sampler's own
//! rule. The weights are compared with what the threads did, step by step, over 30 seeds: with and
//! without switch records, and for a step that takes a thousandth of the time.
//!
//! A sample gets the time that is nearer to it than to the next, and samples come more often inside
//! of slow requests: so a short step in front of a long one gets a little too little, and the error
//! does not vanish with the number of seeds. Without switch records, CPU time between two samples
//! that both saw the thread wait is charged to where it waited: steps of some milliseconds lose the
//! most. The test bounds both errors.

use crate::common;

use capture::read::{Capture, Code, OffCpu, StackNode};
use common::{request, sample, text, MS, T0};
use export::{Format, Value};
use format::wait::WaitKind;
use sampler::policy::choice::{choose, Random};

const SEEDS: u64 = 30;
const THREADS: u32 = 65;
const MOST: usize = 16;
const WINDOW_MS: u64 = 60_000;
/// A request that is older is urgent: twice the median of these.
const USUAL_MS: u64 = 56;
/// A waiting thread is due again after this.
const REPEAT_MS: u64 = 100;

/// The steps of a thread, in turn; all but the first are a request's.
const STEPS: [&str; 5] = ["idles", "prepares", "waits", "seldom", "finishes"];
const WAITS: usize = 2;
const SELDOM: usize = 3;

/// A kind of program, and the sources of its recording.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// No thread computes; no switch records.
    AllWait,
    /// A thread leaves the CPU only to idle or wait.
    Computes {
        /// Switch records are on.
        exact: bool,
    },
}

impl Kind {
    fn runs(self, step: usize) -> bool {
        matches!(self, Kind::Computes { .. }) && step != 0 && step != WAITS
    }

    fn is_exact(self) -> bool {
        matches!(self, Kind::Computes { exact: true })
    }

    /// Bounds of a step's error over all seeds: as part of all time, and of its own time.
    fn most_off(self) -> (f64, f64) {
        match self {
            Kind::AllWait => (0.005, 0.25),
            Kind::Computes { exact: true } => (0.005, 0.30),
            Kind::Computes { exact: false } => (0.020, 0.75),
        }
    }
}

/// A thread, and what is known about it.
#[derive(Clone, Copy, Default)]
struct Thread {
    /// Index in `STEPS`, and when it began and will end.
    step: usize,
    since_ms: u64,
    until_ms: u64,
    request_ms: u64,
    /// CPU time so far, and at the last sample.
    cpu_ms: u64,
    cpu_recorded_ms: u64,
    sampled_ms: Option<u64>,
    /// It was on a CPU since then.
    ran: bool,
}

struct Simulation {
    kind: Kind,
    random: Random,
    threads: Vec<Thread>,
    truth_ms: [u64; STEPS.len()],
    capture: Capture,
}

impl Simulation {
    /// Simulates a minute.
    fn run(kind: Kind, seed: u64) -> Simulation {
        let thread = Thread { ran: true, ..Thread::default() };
        let mut made = Simulation {
            kind,
            random: Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            threads: vec![thread; THREADS as usize],
            truth_ms: Default::default(),
            capture: empty(kind.is_exact()),
        };
        for now_ms in 0..WINDOW_MS {
            for tid in 0..THREADS {
                made.advance(tid, now_ms);
                made.account(tid);
            }
            if now_ms % 10 == 0 {
                made.pass(now_ms);
            }
        }
        for tid in 0..THREADS {
            if !kind.runs(made.at(tid).step) {
                made.left(tid, WINDOW_MS);
            }
        }
        made.capture.requests.sort_by_key(|r| r.begin_ns);
        made
    }

    fn at(&mut self, tid: u32) -> &mut Thread {
        &mut self.threads[tid as usize]
    }

    /// Exponential with this mean, at least a millisecond.
    fn lasts(&mut self, mean_ms: f64) -> u64 {
        let even = (self.random.below(1 << 30) as f64 + 1.0) / f64::from(1 << 30);
        (-even.ln() * mean_ms) as u64 + 1
    }

    fn advance(&mut self, tid: u32, now_ms: u64) {
        while self.at(tid).until_ms <= now_ms {
            let done = *self.at(tid);
            let mut step = (done.step + 1) % STEPS.len();
            // One request in four waits long, and one in sixty takes another way; the others end at
            // once.
            if step == SELDOM && self.random.below(60) != 0 {
                step += 1;
            }
            let slow = step == WAITS && self.random.below(4) == 0;
            let mean = [300.0, 4.0, if slow { 250.0 } else { 3.0 }, 25.0, 20.0][step];
            let until_ms = done.until_ms + self.lasts(mean);
            if step == 0 {
                let id = self.capture.requests.len() as u64 + 1;
                let row = request(id, 1, tid, done.request_ms, done.until_ms);
                self.capture.requests.push(row);
            }
            if !self.kind.runs(done.step) && self.kind.runs(step) {
                self.left(tid, done.until_ms);
                self.at(tid).ran = true;
            }
            let request_ms = if step == 1 { done.until_ms } else { done.request_ms };
            let since_ms = done.until_ms;
            *self.at(tid) = Thread { step, since_ms, until_ms, request_ms, ..*self.at(tid) };
        }
    }

    /// It was off the CPU since its step began, and comes back.
    fn left(&mut self, tid: u32, in_ms: u64) {
        let (out_ns, in_ns) = (T0 + self.at(tid).since_ms * MS, T0 + in_ms * MS);
        if self.kind.is_exact() {
            let row = OffCpu { out_ns, in_ns, preempted: false, cpu: None };
            self.capture.off_cpu.entry(tid).or_default().push(row);
        }
    }

    /// Adds to the truth: all of it with switch records, else the time after a thread's first
    /// sample.
    fn account(&mut self, tid: u32) {
        let kind = self.kind;
        let thread = self.at(tid);
        let (step, runs) = (thread.step, kind.runs(thread.step));
        thread.cpu_ms += u64::from(runs);
        thread.ran |= runs;
        if kind.is_exact() || thread.sampled_ms.is_some() {
            self.truth_ms[step] += 1;
        }
    }

    fn pass(&mut self, now_ms: u64) {
        let all = &self.threads;
        let of = |tid: &u32| all[*tid as usize];
        let news = |t: &Thread| t.ran || !self.kind.is_exact() || t.sampled_ms.is_none();
        let is_due = |t: &Thread| news(t) || t.sampled_ms.is_none_or(|ms| now_ms - ms >= REPEAT_MS);
        let late = |t: &Thread| t.step != 0 && now_ms - t.request_ms > USUAL_MS;
        let mut due: Vec<u32> =
            (0..THREADS).filter(|tid| late(&of(tid)) && is_due(&of(tid))).collect();
        due.sort_by_key(|tid| of(tid).request_ms);
        let mut rest: Vec<u32> = (0..THREADS).filter(|tid| news(&of(tid))).collect();
        let mut chosen = Vec::new();
        choose(&due, &mut rest, MOST, &mut self.random, &mut chosen);
        assert!(chosen.len() <= MOST);
        chosen.into_iter().for_each(|tid| self.sample(tid, now_ms));
    }

    fn sample(&mut self, tid: u32, now_ms: u64) {
        let runs = self.kind.runs(self.at(tid).step);
        let thread = self.at(tid);
        let wall_ms = thread.sampled_ms.replace(now_ms).map_or(0, |last_ms| now_ms - last_ms);
        let cpu_ms = thread.cpu_ms - std::mem::replace(&mut thread.cpu_recorded_ms, thread.cpu_ms);
        thread.ran = runs;
        let stack = thread.step as u32 + 1;
        let wait = if runs { WaitKind::Running } else { WaitKind::Futex };
        let seen = sample(tid, now_ms, wait, stack, wall_ms, if wall_ms == 0 { 0 } else { cpu_ms });
        self.capture.samples.entry(tid).or_default().push(seen);
    }

    /// A step's part of the time.
    fn truth(&self) -> [f64; STEPS.len()] {
        parts(self.truth_ms.map(|ms| ms as f64))
    }

    /// The weight of a step, and the sum of all weights: time without a sample near belongs to no
    /// step.
    fn weighs(&self, value: Value) -> ([f64; STEPS.len()], f64) {
        let folded = text(&self.capture, Format::Folded, value);
        let (mut weighs, mut all) = ([0.0; STEPS.len()], 0.0);
        for line in folded.lines() {
            let (stack, weight) = line.rsplit_once(' ').expect("a value");
            let weight: f64 = weight.parse().expect("a number");
            all += weight;
            match STEPS.iter().position(|name| stack.contains(name)) {
                Some(step) => weighs[step] += weight,
                None => assert!(stack.contains("[not sampled]"), "{line}"),
            }
        }
        (weighs, all)
    }

    /// A biased rule for comparison: the time since the previous sample goes to the later sample as
    /// a whole.
    fn of_later(&self) -> [f64; STEPS.len()] {
        let mut weighs = [0.0; STEPS.len()];
        for sample in self.capture.samples.values().flatten() {
            weighs[sample.stack as usize - 1] += sample.wall_ns as f64;
        }
        weighs
    }
}

/// An empty recording; names, code and a stack for each step.
fn empty(exact: bool) -> Capture {
    let mut capture = common::capture(exact);
    capture.samples.clear();
    capture.off_cpu.clear();
    capture.requests.clear();
    capture.spans.clear();
    capture.threads.clear();
    capture.meta.to_ns = T0 + WINDOW_MS * MS;
    capture.names = ["", "GET /", "a.py"].iter().chain(&STEPS).map(|n| (*n).to_owned()).collect();
    let code = |function| Code {
        function,
        file: 2,
        first_line: 1,
        releases: false,
        native: false,
        inner: false,
    };
    capture.codes = (0..STEPS.len() as u32).map(|step| code(3 + step)).collect();
    let stack = |code| StackNode { parent: 0, code, line: 1 };
    capture.stacks = (1..=STEPS.len() as u32).map(stack).collect();
    capture
}

fn parts(weighs: [f64; STEPS.len()]) -> [f64; STEPS.len()] {
    let all: f64 = weighs.iter().sum();
    weighs.map(|weight| weight / all)
}

/// One step over all seeds: its part of the time, and its error.
struct Errors {
    name: &'static str,
    truth: f64,
    mean: f64,
    standard_error: f64,
}

impl Errors {
    /// For each step, by the rule `by`.
    fn of(all: &[Simulation], by: impl Fn(&Simulation) -> [f64; STEPS.len()]) -> Vec<Errors> {
        let count = all.len() as f64;
        let runs: Vec<_> = all.iter().map(|made| (made.truth(), parts(by(made)))).collect();
        let of_step = |step: usize| {
            let truth = runs.iter().map(|(truth, _)| truth[step]).sum::<f64>() / count;
            let errors = runs.iter().map(|(truth, found)| found[step] - truth[step]);
            let mean = errors.clone().sum::<f64>() / count;
            let square = errors.map(|e| (e - mean).powi(2)).sum::<f64>() / (count - 1.0);
            Errors { name: STEPS[step], truth, mean, standard_error: (square / count).sqrt() }
        };
        (0..STEPS.len()).map(of_step).collect()
    }

    /// Whether the error is over its bound by more than chance explains.
    fn is_off(&self, (of_all, of_itself): (f64, f64)) -> bool {
        let sure = (self.mean.abs() - 3.0 * self.standard_error).max(0.0);
        sure > of_all || sure > of_itself * self.truth
    }
}

impl std::fmt::Display for Errors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Errors { name, truth, mean, standard_error } = self;
        let (truth, mean) = (truth * 100.0, mean * 100.0);
        let (of_itself, errors) = (mean / truth * 100.0, mean / 100.0 / standard_error);
        write!(f, "{name}: {truth:.3} % of the time, found {mean:+.3} % off, ")?;
        write!(f, "{of_itself:+.1} % of itself, {errors:+.1} standard errors")
    }
}

fn check(kind: Kind) {
    let all: Vec<Simulation> = (1..=SEEDS).map(|seed| Simulation::run(kind, seed)).collect();
    let errors = Errors::of(&all, |made| made.weighs(Value::Wall).0);
    errors.iter().for_each(|errors| println!("{kind:?}: {errors}"));
    for errors in &errors {
        assert!(
            !errors.is_off(kind.most_off()),
            "{kind:?}: {errors}; wanted {:?}",
            kind.most_off()
        );
    }
    // The sums: 65 threads, a minute each, less the moments before the first and after the last
    // sample.
    let minute = f64::from(THREADS) * (WINDOW_MS * MS) as f64;
    for (seed, made) in (1..).zip(&all) {
        let off = made.weighs(Value::Wall).1 / minute - 1.0;
        assert!(off.abs() < 0.005, "{kind:?}, seed {seed}: sum off by {:.3} %", off * 100.0);
    }
    // The test would find a bias: slow requests have far more than their share of the samples, and
    // of the time before samples.
    let counted = Errors::of(&all, |made| made.weighs(Value::Samples).0);
    let later = Errors::of(&all, Simulation::of_later);
    for (what, errors) in [("samples are counted", counted), ("the later sample has it all", later)]
    {
        let seen = errors.iter().filter(|errors| errors.is_off(kind.most_off())).count();
        assert!(seen >= 2, "{kind:?}: nobody would notice if {what}");
    }
}

#[test]
fn weights_are_true_although_slow_requests_are_sampled_first() {
    check(Kind::AllWait);
}

#[test]
fn weights_are_true_with_switch_records() {
    check(Kind::Computes { exact: true });
}

#[test]
fn without_switch_records_short_steps_between_waits_lose_little() {
    check(Kind::Computes { exact: false });
}
