//! The sampler's memory and policy: which threads a pass samples, and when the next pass is.
//!
//! How it works: as crate `sampler`, with its own policies where these are pure: `sampler`'s
//! budget, width and choice. Requests past twice their typical time come first, at most 16 threads
//! a pass; who holds what these wait for is sampled right behind them. A thread that did not run is
//! sampled again after 100 ms; without switch records the CPU clocks of 32 threads a pass tell
//! which ran.
//!
//! What it promises: no sample tells what the real one could not read. What is missing on purpose:
//! native stacks, wakers, pauses of switch records, stacks torn by a concurrent change.

use format::record::Sample;
use sampler::policy::budget::{Budget, Look, Width};
use sampler::policy::choice::{Places, Random as Choice};

use crate::engine::actor::{Counters, Tid};
use crate::engine::START_NS;
use crate::program::MS;

/// A pass is made this often.
pub const PERIOD_NS: u64 = 10 * MS;
/// The sampler's share of a core.
pub const BUDGET_PERCENT: f64 = 1.0;
/// Threads a pass samples, at most.
pub const MOST_THREADS: usize = 16;
/// After so many passes that found nobody at work the next one comes later.
const CALM: u32 = 3;
const NAP_NS: u64 = 50 * MS;
/// A thread that stands is sampled again after this time, later when it has stood for `LONG_NS`.
pub const REPEAT_NS: u64 = 100 * MS;
const MOST_REPEAT_NS: u64 = 250 * MS;
const LONG_NS: u64 = 1000 * MS;
/// The holder of a lock is asked for again after this time.
pub const ASK_HOLDER_NS: u64 = 40 * MS;
/// A request younger than this is never past its usual time.
const YOUNG_NS: u64 = 15 * MS;
/// New threads are found within this time.
pub const LIST_NS: u64 = 100 * MS;

/// What is remembered of a thread.
#[derive(Clone, Debug, Default)]
pub struct Track {
    /// It is in the list of threads.
    pub listed: bool,
    /// It is alive.
    pub alive: bool,
    /// It came to a CPU since the last drain of switch records; as of that, since its last sample.
    pub ran: bool,
    /// See `ran`.
    pub news: bool,
    /// It has a sample.
    pub told: bool,
    /// Its last sample's time, counters, CPU clock.
    pub sampled_ns: u64,
    /// See `sampled_ns`.
    pub times: Option<Counters>,
    /// See `sampled_ns`.
    pub clock_ns: u64,
    /// Since when it was seen in its present wait; 0 if it ran.
    pub waits_since_ns: u64,
    /// Its last sample.
    pub last: Option<Sample>,
    /// When the holder of its lock was asked for.
    pub asked_ns: u64,
}

/// A thread is not where it was, or may not be.
#[derive(Clone, Copy, Debug)]
pub struct Moved;

/// What was found of a request's task.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When a record was written.
    pub seen_ns: u64,
    /// How often the task had moved.
    pub moves: u64,
}

/// The sampler.
pub struct Sampler {
    /// Its thread.
    pub tid: Tid,
    /// Switch records tell who ran.
    pub exact: bool,
    /// Its budget.
    pub budget: Budget,
    /// How many threads a pass samples while savings are low.
    pub width: Width,
    /// Which.
    pub choice: Choice,
    /// The threads.
    pub tracks: Vec<Track>,
    /// The pass under way: whether it may sample, its places, who is urgent, who was sampled.
    pub look: Look,
    /// See `look`.
    pub places: Places,
    /// See `look`.
    pub urgent: Vec<Tid>,
    /// See `look`.
    pub seen: Vec<Tid>,
    /// Requests whose tasks were found, by index.
    pub tasks: std::collections::BTreeMap<usize, Seen>,
    /// When tasks that work for no request are looked at again, and which then.
    pub around: (u64, usize),
    /// The time planned for the next pass.
    pub next_ns: u64,
    /// When vitals were read; the delay and throttling known then.
    pub vitals: (u64, u64, u64),
    /// When threads were listed.
    pub listed_ns: u64,
    /// CPU time that is booked.
    pub booked_ns: u64,
    /// Switch records since the last drain.
    pub drained: u64,
    asked_first: usize,
    calm: u32,
    typical_ns: u64,
}

impl Sampler {
    /// At the start.
    pub fn new(seed: u64, exact: bool) -> Sampler {
        Sampler {
            tid: 0,
            exact,
            budget: Budget::new(BUDGET_PERCENT, START_NS),
            width: Width::default(),
            choice: Choice::new(seed),
            tracks: Vec::new(),
            look: Look::Saved,
            places: Places::new(MOST_THREADS, 0),
            urgent: Vec::new(),
            seen: Vec::new(),
            tasks: std::collections::BTreeMap::new(),
            around: (0, 0),
            next_ns: START_NS,
            vitals: (0, 0, 0),
            listed_ns: 0,
            booked_ns: 0,
            drained: 0,
            asked_first: 0,
            calm: 0,
            typical_ns: 0,
        }
    }

    /// A thread was born.
    pub fn born(&mut self, tid: Tid) {
        self.tracks.resize(tid + 1, Track::default());
        self.tracks[tid].alive = true;
    }

    /// A thread ended.
    pub fn gone(&mut self, tid: Tid) {
        self.tracks[tid].alive = false;
    }

    /// A thread came to a CPU.
    pub fn has_run(&mut self, tid: Tid) {
        self.tracks[tid].ran = true;
        self.drained += 1;
    }

    /// A request's begin ends the long sleep.
    pub fn request_begins(&mut self, _now: u64) {
        self.calm = 0;
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
        open_ns > self.typical_ns.saturating_mul(2).max(YOUNG_NS).min(limit_ns)
    }

    /// Takes over what switch records told.
    pub fn drain(&mut self) {
        for track in &mut self.tracks {
            track.news |= std::mem::take(&mut track.ran);
        }
    }

    /// Whether new threads are to be listed.
    pub fn list_is_due(&self, now: u64, urgent: &[Tid]) -> bool {
        let unknown = urgent.iter().any(|tid| !self.tracks[*tid].listed);
        let is_new = |track: &Track| track.alive && !track.listed;
        unknown || now - self.listed_ns >= LIST_NS && self.tracks.iter().any(is_new)
    }

    /// Whether anybody works, as the pauses between passes go by it.
    pub fn follow_work(&mut self, works: bool) {
        self.calm = if works { 0 } else { self.calm + 1 };
    }

    /// How long until the next pass begins.
    pub fn pause_ns(&mut self, now: u64) -> u64 {
        let period = self.budget.period_ns(PERIOD_NS, !self.urgent.is_empty());
        if self.calm >= CALM {
            self.next_ns = now + NAP_NS.max(period);
        } else {
            self.next_ns = (self.next_ns + period).max(now.saturating_sub(period));
        }
        self.next_ns.saturating_sub(now)
    }

    /// Of the urgent threads those with something new to tell, least lately sampled first.
    pub fn due(&self, now: u64, low: bool) -> Vec<Tid> {
        let is_due = |tid: &&Tid| {
            let track = &self.tracks[**tid];
            let since_ns = now.saturating_sub(track.sampled_ns);
            let Some(last) = track.last.filter(|_| since_ns < REPEAT_NS) else { return true };
            if self.exact {
                let asks = last.wait == format::wait::WaitKind::Futex;
                let asked_ns = now.saturating_sub(track.asked_ns);
                return track.news || asks && asked_ns >= ASK_HOLDER_NS;
            }
            let waited_ns = track.sampled_ns.saturating_sub(track.waits_since_ns);
            !low || track.waits_since_ns == 0 || since_ns >= waited_ns / 2
        };
        let mut due: Vec<Tid> = self.urgent.iter().filter(is_due).copied().collect();
        due.sort_by_key(|tid| self.tracks[*tid].sampled_ns);
        due
    }

    /// The threads that are asked in this pass whether they ran, where no records tell.
    pub fn asked(&mut self, most: usize) -> Vec<Tid> {
        let listed = |(tid, track): (usize, &Track)| {
            (track.alive && track.listed && tid != self.tid).then_some(tid)
        };
        let all: Vec<Tid> = self.tracks.iter().enumerate().filter_map(listed).collect();
        if all.is_empty() {
            return all;
        }
        let first = self.asked_first % all.len();
        let count = most.min(all.len());
        self.asked_first = (first + count) % all.len();
        (0..count).map(|step| all[(first + step) % all.len()]).collect()
    }

    /// What is told of a thread that stands, by its CPU clock: its last sample again, nothing yet
    /// (`Ok(None)`), or that it has to be looked at.
    pub fn stands(&mut self, tid: Tid, clock_ns: u64, now: u64) -> Result<Option<Sample>, Moved> {
        use format::record::flag;
        use format::wait::HolderSource;
        let track = &mut self.tracks[tid];
        let known = track.waits_since_ns != 0 && track.clock_ns == clock_ns;
        let last = track.last.filter(|_| known).ok_or(Moved)?;
        let since_ns = now.saturating_sub(track.sampled_ns);
        match now.saturating_sub(track.waits_since_ns) >= LONG_NS {
            true if since_ns >= MOST_REPEAT_NS => (),
            false if since_ns >= REPEAT_NS => return Err(Moved),
            _ => return Ok(None),
        }
        let sample = Sample {
            t_ns: now,
            wall_ns: since_ns,
            cpu_ns: 0,
            run_delay_ns: 0,
            slices: 0,
            flags: flag::REUSED | flag::TIMES,
            lock_holder: 0,
            holder_source: HolderSource::None,
            gil_holder: 0,
            ..last
        };
        (track.sampled_ns, track.last) = (now, Some(sample));
        Ok(Some(sample))
    }
}
