//! The cost of one call: spans and events, on and off, around nothing and around real work, on one
//! thread and on two. Every compared tool runs in these loops.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::machine;
use crate::report::Figures;
use crate::rivals::{Rival, Setup};

/// Between a recorder's start and the first loop.
pub const SETTLE: Duration = Duration::from_millis(700);
/// Calls between two `Rival::scope`.
const SCOPE: u64 = 1000;

/// Turns of a loop, and how often each loop runs.
pub struct Effort {
    /// Turns.
    pub turns: u64,
    /// Runs; the median counts.
    pub runs: usize,
}

/// Real computation of about 80 ns: a chain that no compiler shortens.
#[inline(never)]
pub fn work(seed: u64) -> u64 {
    let mut x = seed | 1;
    for _ in 0..WORK_STEPS {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

/// Steps of `work`; the programs in other languages take as many.
const WORK_STEPS: u32 = 68;

/// `turns` calls of `call`, with the tool's scope renewed around every thousand.
#[inline(always)]
pub fn turn<R: Rival>(rival: &R, turns: u64, mut call: impl FnMut(u64)) {
    let mut at = 0;
    while at < turns {
        let scope = rival.scope();
        let end = turns.min(at + SCOPE);
        while at < end {
            call(at);
            at += 1;
        }
        drop(scope);
    }
}

/// The empty loop, with as many turns.
#[inline(never)]
pub fn empty<R: Rival>(rival: &R, turns: u64) {
    turn(rival, turns, |i| {
        black_box(i);
    });
}

/// Spans around nothing.
#[inline(never)]
pub fn spans<R: Rival>(rival: &R, turns: u64) {
    turn(rival, turns, |i| {
        black_box(rival.span(i, || black_box(i)));
    });
}

/// Events.
#[inline(never)]
pub fn events<R: Rival>(rival: &R, turns: u64) {
    turn(rival, turns, |i| rival.event(black_box(i)));
}

#[inline(never)]
fn bare_work<R: Rival>(rival: &R, turns: u64) {
    turn(rival, turns, |i| {
        black_box(work(black_box(i)));
    });
}

#[inline(never)]
fn span_around_work<R: Rival>(rival: &R, turns: u64) {
    turn(rival, turns, |i| {
        black_box(rival.span(i, || work(black_box(i))));
    });
}

/// A loop with a name.
pub type Case<'a> = (&'static str, Box<dyn Fn(u64) + 'a>);

/// Median ns a turn of each case; runs interleaved.
pub fn medians(cases: &[Case<'_>], effort: &Effort, figures: &mut Figures) {
    cases.iter().for_each(|(_, case)| case(effort.turns));
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); cases.len()];
    for _ in 0..effort.runs {
        for ((_, case), times) in cases.iter().zip(&mut times) {
            let begin = Instant::now();
            case(effort.turns);
            times.push(begin.elapsed().as_nanos() as f64 / effort.turns as f64);
        }
    }
    for ((name, _), times) in cases.iter().zip(times) {
        figures.number(name, median(times));
    }
}

/// The median.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Ns for each event on threads pinned to those CPUs, each by its own clock, while all record.
fn events_on<R: Rival>(rival: R, cpus: &[usize], turns: u64) -> Vec<f64> {
    let (barrier, done) = (Barrier::new(cpus.len()), AtomicUsize::new(0));
    let one = |cpu: usize| {
        machine::pin(cpu);
        events(&rival, turns / 10);
        barrier.wait();
        let begin = Instant::now();
        events(&rival, turns);
        let took = begin.elapsed().as_nanos() as f64 / turns as f64;
        // The other one must not be measured alone.
        done.fetch_add(1, Ordering::Relaxed);
        while done.load(Ordering::Relaxed) < cpus.len() {
            events(&rival, SCOPE);
        }
        took
    };
    std::thread::scope(|scope| {
        let one = &one;
        let running: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || one(cpu))).collect();
        running.into_iter().map(|thread| thread.join().unwrap_or(f64::NAN)).collect()
    })
}

/// One thread on either of two CPUs, then both at once, in turn: the CPUs of a shared machine do
/// not remain equally fast. Throughput of both, as a multiple of the mean of the single ones.
fn two_threads<R: Rival>(rival: R, effort: &Effort, figures: &mut Figures) {
    let turns = effort.turns * 3;
    let mut rows: [Vec<f64>; 3] = Default::default();
    for _ in 0..effort.runs * 4 {
        let alone = [events_on(rival, &[0], turns)[0], events_on(rival, &[1], turns)[0]];
        let both = events_on(rival, &[0, 1], turns);
        let rate = |ns: &[f64]| ns.iter().map(|ns| 1.0 / ns).sum::<f64>();
        rows[0].push((alone[0] + alone[1]) / 2.0);
        rows[1].push((both[0] + both[1]) / 2.0);
        rows[2].push(2.0 * rate(&both) / rate(&alone));
    }
    for (name, row) in ["event_1_thread", "event_2_threads", "scaling"].into_iter().zip(rows) {
        figures.number(name, median(row));
    }
}

/// All figures of one tool. `more` names loops of its own beside the common ones.
pub fn measure<R: Rival>(
    setup: &Setup,
    effort: &Effort,
    figures: &mut Figures,
    more: impl Fn(&R, &Effort, &mut Figures),
) -> R {
    let off = R::off();
    machine::pin(0);
    let quick = Effort { turns: effort.turns * 5, runs: effort.runs };
    let mut cases: Vec<Case<'_>> = vec![("empty_off", Box::new(|n| empty(&off, n)))];
    if R::HAS_OFF {
        cases.push(("span_off", Box::new(|n| spans(&off, n))));
    }
    if R::HAS_OFF && R::HAS_EVENTS {
        cases.push(("event_off", Box::new(|n| events(&off, n))));
    }
    medians(&cases, &quick, figures);
    // Threads that a tool starts must not all run on the measured core.
    machine::unpin();
    let on = R::on(setup);
    // For a recorder that is always on, the cost of the first half second is not measured here.
    std::thread::sleep(SETTLE);
    machine::pin(0);
    let mut cases: Vec<Case<'_>> = vec![
        ("empty", Box::new(|n| empty(&on, n))),
        ("two_rdtsc", Box::new(|n| two_rdtsc(&on, n))),
        ("span", Box::new(|n| spans(&on, n))),
        ("work", Box::new(|n| bare_work(&on, n))),
        ("span_work", Box::new(|n| span_around_work(&on, n))),
    ];
    if R::HAS_EVENTS {
        cases.push(("event", Box::new(|n| events(&on, n))));
    }
    medians(&cases, effort, figures);
    more(&on, effort, figures);
    machine::unpin();
    if R::HAS_EVENTS && machine::cpus().len() >= 2 {
        two_threads(on, effort, figures);
    }
    on
}

/// Two raw clock reads: the yardstick that each process measures itself.
#[inline(never)]
pub fn two_rdtsc<R: Rival>(rival: &R, turns: u64) {
    turn(rival, turns, |_| {
        black_box((machine::rdtsc(), machine::rdtsc()));
    });
}
