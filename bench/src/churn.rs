//! Threads that start and end: {spawn, 3 events, join} by 1, 8 and 64 spawners; threads per second
//! with the recorder on and off, and the memory that each thread leaves behind.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::machine::cpu_ns;

use crate::calls::SETTLE;
use crate::machine;
use crate::report::Figures;
use crate::rivals::{Rival, Setup};

/// Numbers of spawners.
const SPAWNERS: [usize; 3] = [1, 8, 64];
/// On and off in an order in which a drift of the machine favours neither.
const ORDER: [bool; 8] = [false, true, true, false, true, false, false, true];

/// How long and how often.
pub struct Effort {
    /// One block.
    pub block: Duration,
    /// Turns of the order of eight blocks.
    pub turns: usize,
    /// Threads start and end for this long before the blocks of a turn: a lasting burst is
    /// measured, not its first second.
    pub burst: Duration,
}

/// Threads per second, threads per second of CPU time of this process (which a busy machine changes
/// less), and their number. `silent`: they record nothing, for tools that are always on.
fn block<R: Rival>(rival: R, silent: bool, spawners: usize, length: Duration) -> (f64, f64, u64) {
    let stop = AtomicBool::new(false);
    let count = AtomicU64::new(0);
    let (begin, cpu_before) = (Instant::now(), cpu_ns());
    std::thread::scope(|scope| {
        for _ in 0..spawners {
            scope.spawn(|| {
                let mut done = 0;
                while !stop.load(Ordering::Relaxed) {
                    let child = std::thread::spawn(move || {
                        if !silent {
                            let scope = rival.scope();
                            (0..3).for_each(|i| rival.event(i));
                            drop(scope);
                        }
                    });
                    done += u64::from(child.join().is_ok());
                }
                count.fetch_add(done, Ordering::Relaxed);
            });
        }
        std::thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
    });
    let threads = count.load(Ordering::Relaxed);
    let cpu_seconds = (cpu_ns() - cpu_before) as f64 / 1e9;
    (threads as f64 / begin.elapsed().as_secs_f64(), threads as f64 / cpu_seconds, threads)
}

/// Rates of both states, and growth.
#[derive(Default)]
struct Rates {
    on: Vec<f64>,
    off: Vec<f64>,
    cpu_on: Vec<f64>,
    cpu_off: Vec<f64>,
    grown: u64,
    threads: u64,
}

impl Rates {
    fn add<R: Rival>(&mut self, rival: R, on: bool, spawners: usize, length: Duration) {
        let before = machine::rss_bytes();
        let (rate, a_cpu_second, threads) = block(rival, !on && !R::HAS_OFF, spawners, length);
        if on {
            self.on.push(rate);
            self.cpu_on.push(a_cpu_second);
            self.grown += machine::rss_bytes().saturating_sub(before);
            self.threads += threads;
        } else {
            self.off.push(rate);
            self.cpu_off.push(a_cpu_second);
        }
    }
}

/// All numbers of spawners.
pub fn measure<R: Rival>(setup: &Setup, effort: &Effort, figures: &mut Figures) -> R {
    let off = R::off();
    // Stacks and arenas of the C library, which every program has once.
    block(off, true, 64, effort.block);
    let mut rates: [Rates; 3] = Default::default();
    let round = |rival: R, on: bool, rates: &mut [Rates; 3]| {
        if !effort.burst.is_zero() {
            block(rival, !on && !R::HAS_OFF, 2, effort.burst);
        }
        for (rates, spawners) in rates.iter_mut().zip(SPAWNERS) {
            rates.add(rival, on, spawners, effort.block);
        }
    };
    let half = effort.turns * ORDER.len() / 2;
    let mixed = R::CAN_TOGGLE || !R::HAS_OFF;
    if !mixed {
        (0..half).for_each(|_| round(off, false, &mut rates));
    }
    let on = R::on(setup);
    std::thread::sleep(SETTLE);
    block(on, false, 64, effort.block);
    if mixed {
        for state in ORDER.repeat(effort.turns) {
            on.toggle(state);
            // The cost of a start is another question than the cost of recording.
            std::thread::sleep(SETTLE);
            round(on, state, &mut rates);
        }
        on.toggle(true);
    } else {
        (0..half).for_each(|_| round(on, true, &mut rates));
    }
    for (rates, spawners) in rates.iter().zip(SPAWNERS) {
        figures.list(&format!("on_{spawners}"), &rates.on);
        figures.list(&format!("off_{spawners}"), &rates.off);
        figures.list(&format!("cpu_on_{spawners}"), &rates.cpu_on);
        figures.list(&format!("cpu_off_{spawners}"), &rates.cpu_off);
        let bytes = rates.grown as f64 / rates.threads.max(1) as f64;
        figures.number(&format!("bytes_a_thread_{spawners}"), bytes);
    }
    on
}
