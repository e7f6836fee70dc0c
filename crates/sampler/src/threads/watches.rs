//! Watches over running threads: over which threads, for how long, and what they saw last.
//!
//! A watch is opened when a thread in a slow request's way is seen computing, so a service none of
//! whose requests is slow pays for none; one more goes round among the other native threads that
//! compute, a second each. A watch that is not asked for is first stopped, then closed. Each costs
//! locked memory and a descriptor, so there are few; threads that found none are counted.

use format::source::SourceState;
use sys::perf::{Refused, Seen, Watch};

/// Watches over threads in a slow request's way, at once.
const MOST: usize = 8;
/// A thread's time on a CPU between two sights, for the first two threads watched, ...
const PERIOD_NS: u64 = 6_000_000;
/// ... and for the others: more threads do not cost more in sum than a few.
const LONG_PERIOD_NS: u64 = 16_000_000;
/// A watch is stopped, and later closed, when it was not asked for during this time.
const STOP_NS: u64 = 100_000_000;
const CLOSE_NS: u64 = 3_000_000_000;
/// How long the watch that goes round is over one thread.
const ROUND_NS: u64 = 1_000_000_000;
/// What was seen earlier than this is no news: the watch was stopped since.
const FRESH_NS: u64 = 300_000_000;
/// Sights taken in one sample: as many as the ring holds, and what came meanwhile.
const MOST_AT_ONCE: usize = 6;
/// What a sample costs the thread that is watched: measured 20 us under KVM, of which 3 us are for
/// the copy and the rest for the timer's interrupt (`sys/examples/watch_cost.rs`).
const SAMPLE_COST_NS: u64 = 20_000;
/// After this many sights in a row that showed nothing a watch pauses for a while: the thread runs
/// Python.
const DULL_SIGHTS: u32 = 6;
const PAUSE_NS: u64 = 500_000_000;

/// All watches of this process.
pub(crate) struct Running {
    watches: Vec<Watched>,
    /// None: watches can be opened here.
    off: Option<String>,
    /// The stack of the last sight.
    pub(crate) stack: Vec<u8>,
    counts: Counts,
}

struct Watched {
    tid: u32,
    watch: Watch,
    close: bool,
    opened_ns: u64,
    asked_ns: u64,
    /// Sights in a row that showed nothing, and until when it pauses therefore.
    dull: u32,
    paused_ns: u64,
    /// Of `Watch::lost`, what was counted.
    lost: u64,
}

/// A watch that may have seen something.
pub(crate) struct Asked {
    index: usize,
    left: usize,
}

/// What happened since it was last taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// CPU time of the threads that were watched, spent on being watched.
    pub(crate) cost_ns: u64,
    /// Sights for which the kernel had no room.
    pub(crate) lost: u64,
    /// Times a thread in a slow request's way found no watch.
    pub(crate) unwatched: u64,
}

impl Running {
    /// Tries whether the kernel lets us. `on`: native stacks are read at all.
    pub(crate) fn new(on: bool) -> Running {
        let tried = on.then(|| Watch::open(sys::thread::cached_tid(), PERIOD_NS));
        let off = match tried {
            None => Some("as native_stacks".to_owned()),
            Some(Err(refused)) => Some(refused.to_string()),
            Some(Ok(_)) => None,
        };
        Running { watches: Vec::new(), off, stack: Vec::new(), counts: Counts::default() }
    }

    /// The source's state, as captures and `status()` report it.
    pub(crate) fn state(&self) -> SourceState {
        self.off.clone().map_or(SourceState::On, SourceState::Off)
    }

    /// Asks for the watch over a thread, which is opened if need be. `close`: it is in a slow
    /// request's way. `computes`: it is to be watched from now on; else a watch that is there is
    /// asked only.
    pub(crate) fn ask(&mut self, tid: u32, now: u64, close: bool, computes: bool) -> Option<Asked> {
        if self.off.is_some() {
            return None;
        }
        let known = self.watches.iter().position(|w| w.tid == tid);
        let Some(index) = known else {
            if computes && self.room(now, close) {
                self.open(tid, now, close);
            }
            return None;
        };
        let watched = &mut self.watches[index];
        watched.close |= close;
        if computes {
            watched.asked_ns = now;
            watched.watch.enable(now >= watched.paused_ns);
        }
        Some(Asked { index, left: MOST_AT_ONCE })
    }

    /// The next sight of the thread, oldest first, its stack in `stack`: those after `since_ns` and
    /// until `now`.
    pub(crate) fn next(&mut self, asked: &mut Asked, since_ns: u64, now: u64) -> Option<Seen> {
        let watched = self.watches.get_mut(asked.index)?;
        let since_ns = since_ns.max(now.saturating_sub(FRESH_NS));
        while asked.left > 0 {
            asked.left -= 1;
            let seen = watched.watch.next(&mut self.stack)?;
            self.counts.cost_ns += SAMPLE_COST_NS;
            if seen.t_ns > since_ns && seen.t_ns <= now {
                return Some(seen);
            }
        }
        self.counts.lost += watched.watch.lost() - watched.lost;
        watched.lost = watched.watch.lost();
        None
    }

    /// Whether the last sight showed something.
    pub(crate) fn outcome(&mut self, asked: &Asked, something: bool, now: u64) {
        let Some(watched) = self.watches.get_mut(asked.index) else { return };
        watched.dull = if something { 0 } else { watched.dull + 1 };
        if watched.dull >= DULL_SIGHTS {
            watched.dull = 0;
            watched.paused_ns = now + PAUSE_NS;
            watched.watch.enable(false);
        }
    }

    /// Stops and closes the watches that were not asked for.
    pub(crate) fn tidy(&mut self, now: u64) {
        self.watches.retain_mut(|w| {
            let age_ns = now.saturating_sub(w.asked_ns);
            if age_ns >= STOP_NS {
                w.watch.enable(false);
            }
            let round_over = !w.close && now.saturating_sub(w.opened_ns) >= ROUND_NS;
            age_ns < CLOSE_NS && !round_over
        });
    }

    /// Stops all: there is nothing left to pay them from.
    pub(crate) fn rest(&mut self) {
        self.watches.iter_mut().for_each(|w| w.watch.enable(false));
    }

    /// The counts since the last call.
    pub(crate) fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// Whether one more may be opened; closes one that is not asked for any more, or whose thread
    /// has ended.
    fn room(&mut self, now: u64, close: bool) -> bool {
        if !close {
            return !self.watches.iter().any(|w| !w.close);
        }
        if self.watches.iter().filter(|w| w.close).count() < MOST {
            return true;
        }
        let old = |w: &Watched| now.saturating_sub(w.asked_ns) >= STOP_NS;
        let idle = |w: &Watched| w.close && (old(w) || w.watch.ended());
        match self.watches.iter().position(idle) {
            Some(index) => {
                self.watches.swap_remove(index);
                true
            }
            None => {
                self.counts.unwatched += 1;
                false
            }
        }
    }

    fn open(&mut self, tid: u32, now: u64, close: bool) {
        let few = close && self.watches.len() < 2;
        match Watch::open(tid, if few { PERIOD_NS } else { LONG_PERIOD_NS }) {
            Ok(mut watch) => {
                watch.enable(true);
                self.watches.push(Watched {
                    tid,
                    watch,
                    close,
                    opened_ns: now,
                    asked_ns: now,
                    dull: 0,
                    paused_ns: 0,
                    lost: 0,
                });
            }
            // It ended meanwhile.
            Err(Refused { errno: sys::perf::GONE, .. }) => (),
            Err(_) => self.counts.unwatched += u64::from(close),
        }
    }
}
