//! Threads of slow requests are looked at first, yet their stacks weigh what they took.
//!
//! A simulation: 65 threads for a minute, at most 16 looked at in a pass, chosen by the sampler's own
//! rule. What the weights say is compared with what the threads did.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::collections::BTreeMap;

use capture::read::{Capture, Code, StackNode};
use common::{request, sample, text, MS, T0};
use export::{Format, Value};
use format::wait::WaitKind;
use samplers::choice::{choose, Random};

const THREADS: u32 = 65;
const MOST: usize = 16;
const WINDOW_MS: u64 = 60_000;
/// A request that is older is urgent: twice the median of these.
const USUAL_MS: u64 = 56;

/// What a thread does, and until when: idle, then a request of three steps.
#[derive(Clone, Copy)]
struct Doing {
    /// 0 idle, 1 prepares, 2 waits long, 3 finishes.
    step: u32,
    until_ms: u64,
    request_ms: u64,
}

struct Simulation {
    random: Random,
    doing: Vec<Doing>,
    truth: BTreeMap<u32, u64>,
    capture: Capture,
    last_ms: Vec<Option<u64>>,
    chosen: u64,
}

impl Simulation {
    fn new(seed: u64) -> Simulation {
        let mut capture = common::capture(false);
        capture.samples.clear();
        capture.requests.clear();
        capture.spans.clear();
        capture.threads.clear();
        capture.meta.to_ns = T0 + WINDOW_MS * MS;
        let names = ["", "GET /", "idle", "prepares", "waits", "finishes", "a.py"];
        capture.names = names.iter().map(|n| (*n).to_owned()).collect();
        let code = |function| Code {
            function,
            file: 6,
            first_line: 1,
            releases: false,
            native: false,
            inner: false,
        };
        capture.codes = (2..6).map(code).collect();
        capture.stacks = (1..5).map(|code| StackNode { parent: 0, code, line: 1 }).collect();
        let idle = Doing { step: 0, until_ms: 0, request_ms: 0 };
        Simulation {
            random: Random::new(seed),
            doing: vec![idle; THREADS as usize],
            truth: BTreeMap::new(),
            capture,
            last_ms: vec![None; THREADS as usize],
            chosen: 0,
        }
    }

    /// Exponential with this mean, at least a millisecond.
    fn lasts(&mut self, mean_ms: f64) -> u64 {
        let even = (self.random.below(1 << 30) as f64 + 1.0) / f64::from(1 << 30);
        (-even.ln() * mean_ms) as u64 + 1
    }

    fn advance(&mut self, tid: u32, now_ms: u64) {
        while self.doing[tid as usize].until_ms <= now_ms {
            let done = self.doing[tid as usize];
            let step = (done.step + 1) % 4;
            // One request in four waits long; the others are over at once.
            let slow = self.random.below(4) == 0;
            let mean = [300.0, 4.0, if slow { 250.0 } else { 3.0 }, 20.0][step as usize];
            let until_ms = done.until_ms + self.lasts(mean);
            let request_ms = if step == 1 { done.until_ms } else { done.request_ms };
            if step == 0 {
                let id = self.capture.requests.len() as u64 + 1;
                let row = request(id, 1, tid, done.request_ms, done.until_ms);
                self.capture.requests.push(row);
            }
            self.doing[tid as usize] = Doing { step, until_ms, request_ms };
        }
    }

    /// Adds what lies between a thread's first and last sample to the truth.
    fn account(&mut self, tid: u32) {
        if self.last_ms[tid as usize].is_some() {
            *self.truth.entry(self.doing[tid as usize].step).or_default() += MS;
        }
    }

    fn pass(&mut self, now_ms: u64) {
        let late = |d: &Doing| d.step != 0 && now_ms - d.request_ms > USUAL_MS;
        let mut urgent: Vec<u32> =
            (0..THREADS).filter(|t| late(&self.doing[*t as usize])).collect();
        urgent.sort_by_key(|t| self.doing[*t as usize].request_ms);
        let mut rest: Vec<u32> = (0..THREADS).collect();
        let mut chosen = Vec::new();
        choose(&urgent, &mut rest, MOST, &mut self.random, &mut chosen);
        assert!(chosen.len() <= MOST);
        self.chosen += chosen.len() as u64;
        for tid in chosen {
            let last_ms = self.last_ms[tid as usize].replace(now_ms);
            let wall_ms = last_ms.map_or(0, |last| now_ms - last);
            let stack = self.doing[tid as usize].step + 1;
            let seen = sample(tid, now_ms, WaitKind::Futex, stack, wall_ms, 0);
            self.capture.samples.entry(tid).or_default().push(seen);
        }
    }
}

#[test]
fn each_stack_weighs_what_it_took_although_slow_requests_are_looked_at_first() {
    let mut made = Simulation::new(20_261_121);
    for now_ms in 0..WINDOW_MS {
        for tid in 0..THREADS {
            made.advance(tid, now_ms);
            made.account(tid);
        }
        if now_ms % 10 == 0 {
            made.pass(now_ms);
        }
    }
    made.capture.requests.sort_by_key(|r| r.begin_ns);
    let folded = text(&made.capture, Format::Folded, Value::Wall);
    let mut weighs: BTreeMap<&str, f64> = BTreeMap::new();
    for line in folded.lines() {
        let (stack, ns) = line.rsplit_once(' ').expect("a value");
        let step =
            ["idle", "prepares", "waits", "finishes"].into_iter().find(|n| stack.contains(n));
        *weighs.entry(step.expect("one of the steps")).or_default() +=
            ns.parse::<f64>().expect("a number");
    }
    // The sums: 65 threads, a minute each, less the moments before the first and after the last look.
    let all: f64 = weighs.values().sum();
    let minute = f64::from(THREADS) * (WINDOW_MS * MS) as f64;
    assert!((all / minute - 1.0).abs() < 0.005, "sum off by {:.3} %", (all / minute - 1.0) * 100.0);
    // The preference is there: slow requests have far more than their share of the looks.
    let samples = made.capture.samples.values().flatten();
    let in_waits = samples.filter(|s| s.stack == 3).count() as f64 / made.chosen as f64;
    let took: f64 = made.truth.values().map(|ns| *ns as f64).sum();
    let truth = |step: u32| made.truth.get(&step).copied().unwrap_or(0) as f64 / took;
    assert!(in_waits > 1.5 * truth(2), "{in_waits} of the looks, {} of the time", truth(2));
    // What the time since the sample before would say, given to the later sample as a whole.
    let of_later = |stack: u32| {
        let samples = made.capture.samples.values().flatten();
        samples.filter(|s| s.stack == stack).map(|s| s.wall_ns as f64).sum::<f64>() / all
    };
    let naive = (of_later(1) - truth(0)).abs();
    assert!(naive > 0.02, "the simulation would not notice a biased rule: {naive}");
    for (step, name) in [(0, "idle"), (1, "prepares"), (2, "waits"), (3, "finishes")] {
        let weight = weighs.get(name).copied().unwrap_or(0.0) / all;
        let off = (weight - truth(step)).abs();
        assert!(off < 0.01, "{name}: {:.4} of the time, weighs {weight:.4}", truth(step));
    }
}
