//! What is remembered of each thread between passes, and whether a sample of it would say something
//! new.
//!
//! How it works: a thread that waits is not read again. Switch records say that it did not run, or,
//! where there are none, its CPU clock. Its last sample is repeated now and then, so that a reader
//! knows that it still waits.
//!
//! ```text
//!   is_worth -> begin(what was read) -> stack, target, holder -> keep
//!                                                           \-> put_back, with nothing to report
//! ```
//! Pure: what was read of a thread is passed in.

use format::record::{flag, Sample};
use format::wait::{HolderSource, WaitKind};
use samplers::by_tid::ByTid;
use samplers::python_stacks::PyThread;
use sys::task::Schedstat;

/// A thread that waits is sampled again after this time.
pub const REPEAT_NS: u64 = 100_000_000;
/// A thread that has waited for `LONG_NS` is repeated after this time, too; without switch records,
/// without being read. A reader takes it for one continued wait.
const MOST_REPEAT_NS: u64 = 250_000_000;
const LONG_NS: u64 = 1_000_000_000;
/// The holder of the lock that a thread waits for is asked again after this time.
pub const ASK_HOLDER_NS: u64 = 40_000_000;
/// Without switch records this many threads are asked in a pass whether they ran since they were
/// seen waiting, others in the next one.
const ASKED: usize = 32;

/// A thread is not where it was, or may not be.
struct Moved;

/// What was read of a thread at one instant.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// When.
    pub t_ns: u64,
    /// Its CPU clock, read before all else.
    pub clock_ns: Option<u64>,
    /// Its times, if they could be read.
    pub times: Option<Schedstat>,
    /// It waits: it is in a call, or stopped outside of one.
    pub blocked: bool,
}

/// A sample that was begun.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    /// Its times are set; what it waits for and its stack are not.
    pub sample: Sample,
    /// Its last sample, if it has waited there since.
    pub carry: Option<Sample>,
    /// Its last sample, and when that was; 0 never.
    pub last: Option<Sample>,
    /// See `last`.
    pub since_ns: u64,
    /// The thread has been where it is since then: a waiting one since it was first found in this
    /// wait, a running one since its last sample.
    pub there_since_ns: u64,
    /// Its times at its last sample.
    times: Option<Schedstat>,
}

/// What is remembered of one thread.
#[derive(Default)]
pub struct Track {
    /// Its interpreter state, if it runs Python.
    pub python: Option<PyThread>,
    /// When it was last sampled, 0 never.
    pub sampled_ns: u64,
    /// Its last sample, for carrying over.
    pub last: Option<Sample>,
    /// Its times then.
    times: Option<Schedstat>,
    /// Its CPU clock at the begin of the reading that its last sample comes from, or goes back to;
    /// 0: not asked.
    clock_ns: u64,
    /// When it was first found in the wait that its last sample saw, as far as its times show; 0 if
    /// it ran then.
    waits_since_ns: u64,
    /// It was in the last list of threads.
    alive: bool,
    /// Its last sample was taken with its interpreter state at hand.
    as_python: bool,
    /// When the holder of the lock it waits for was last looked up.
    holder_asked_ns: u64,
}

impl Track {
    /// Whether an urgent thread has something new, or may have. `ran`: `Tracks::has_run`. `exact`:
    /// switch records show whether it did; else, where the budget is `low`, a waiting thread is
    /// asked again when it has waited half as long again as at its last sample.
    fn is_due(&self, ran: bool, now: u64, exact: bool, low: bool) -> bool {
        let since_ns = now.saturating_sub(self.sampled_ns);
        if self.last.is_none() || !self.was_whole() || since_ns >= REPEAT_NS {
            return true;
        }
        if exact {
            return ran || self.asks_again(now);
        }
        let waited_ns = self.sampled_ns.saturating_sub(self.waits_since_ns);
        !low || self.waits_since_ns == 0 || since_ns >= waited_ns / 2
    }

    /// Whether it waits for a lock whose holder is to be looked up again.
    fn asks_again(&self, now: u64) -> bool {
        let waits = self.last.is_some_and(|last| last.wait == WaitKind::Futex);
        waits && now.saturating_sub(self.holder_asked_ns) >= ASK_HOLDER_NS
    }

    /// Whether it still waits where its last sample saw it, by its CPU clock `clock_ns`: that
    /// sample, carried over, or None if it is too early for one. A thread that was woken and has no
    /// CPU yet waits, too, and its next sample says for how long it was runnable: so a thread that
    /// has not waited for long is read. For threads that are not urgent, without switch records.
    fn repeats(
        &mut self,
        now: u64,
        clock_ns: impl FnOnce() -> Option<u64>,
    ) -> Result<Option<Sample>, Moved> {
        let known = self.was_whole() && self.waits_since_ns != 0 && self.clock_ns != 0;
        let last = self.last.filter(|_| known).ok_or(Moved)?;
        if clock_ns() != Some(self.clock_ns) {
            return Err(Moved);
        }
        let since_ns = now.saturating_sub(self.sampled_ns);
        match now.saturating_sub(self.waits_since_ns) >= LONG_NS {
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
            flags: last.flags & flag::TRUNCATED | flag::REUSED | flag::TIMES,
            lock_holder: 0,
            holder_source: HolderSource::None,
            gil_holder: 0,
            ..last
        };
        (self.sampled_ns, self.last) = (now, Some(sample));
        Ok(Some(sample))
    }

    /// Whether its last sample may be carried over while it waits. A thread may be listed before
    /// its interpreter state is, or while that list was torn: then its stack was read as a native
    /// one's.
    fn was_whole(&self) -> bool {
        self.as_python || self.python.is_none()
    }
}

/// What is asked of a thread at each of its switches, and of all threads in each pass. Apart from
/// the rest, which lies in lines of memory of its own for each thread: with hundreds of threads
/// these were half of a record's cost.
#[derive(Clone, Copy)]
struct News {
    /// It has been on a CPU since it was read last, as far as switch records show.
    ran: bool,
    /// It has a sample.
    is_recorded: bool,
}

/// All threads by kernel id.
#[derive(Default)]
pub struct Tracks {
    by_tid: ByTid<Track>,
    /// Of the same ones.
    news: ByTid<News>,
    /// A thread was found to have ended since the last list.
    pub stale: bool,
    /// With which thread the asking begins, by its place among all.
    asked_first: usize,
}

impl Tracks {
    /// A thread.
    pub fn get(&self, tid: u32) -> Option<&Track> {
        self.by_tid.get(&tid)
    }

    /// Whether it is in the list.
    pub fn contains(&self, tid: u32) -> bool {
        self.by_tid.contains_key(&tid)
    }

    /// The ids of all.
    pub fn tids(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_tid.keys().copied()
    }

    /// Threads that run no Python, lately sampled first.
    pub fn natives(&self) -> impl Iterator<Item = u32> {
        let native = self.by_tid.iter().filter(|(_, track)| track.python.is_none());
        let mut all: Vec<(u64, u32)> = native.map(|(tid, t)| (t.sampled_ns, *tid)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().map(|(_, tid)| tid)
    }

    /// Keeps the threads of the lists, adds new ones; whether there were any.
    pub fn refresh(&mut self, alive: &[u32], python: &[PyThread], own: &[u32]) -> bool {
        self.stale = false;
        let before = self.by_tid.len();
        for track in self.by_tid.values_mut() {
            (track.python, track.alive) = (None, false);
        }
        for tid in alive.iter().filter(|tid| !own.contains(tid)) {
            self.by_tid.entry(*tid).or_default().alive = true;
            self.news.entry(*tid).or_insert(News { ran: true, is_recorded: false });
        }
        let grown = self.by_tid.len() > before;
        self.by_tid.retain(|_, track| track.alive);
        self.news.retain(|tid, _| self.by_tid.contains_key(tid));
        // A thread that runs code in several interpreters is listed for each; any of its states
        // stands for it.
        for thread in python {
            if let Some(track) = self.by_tid.get_mut(&thread.tid) {
                track.python = Some(*thread);
            }
        }
        grown
    }

    /// The thread has ended, and the list of threads is older than that.
    pub fn forget(&mut self, tid: u32) {
        self.news.remove(&tid);
        self.by_tid.remove(&tid);
    }

    /// A switch record brought the thread to a CPU. False: it is not known.
    pub fn ran(&mut self, tid: u32) -> bool {
        self.news.get_mut(&tid).map(|news| news.ran = true).is_some()
    }

    /// Any thread may have been on a CPU.
    pub fn all_ran(&mut self) {
        self.news.values_mut().for_each(|news| news.ran = true);
    }

    /// Whether a thread has been on a CPU since it was read last, as far as switch records show; an
    /// unknown thread may have been.
    pub fn has_run(&self, tid: u32) -> bool {
        self.news.get(&tid).is_none_or(|news| news.ran)
    }

    /// Whether any has.
    pub fn anybody_ran(&self) -> bool {
        self.news.values().any(|news| news.ran)
    }

    /// Those that have, or have no sample yet.
    pub fn with_news(&self) -> impl Iterator<Item = u32> + '_ {
        self.news.iter().filter(|(_, news)| news.ran || !news.is_recorded).map(|(tid, _)| *tid)
    }

    /// Whether a sample of a thread would say something new. `close`: it is urgent, or in an urgent
    /// one's way. `exact`: switch records say whether it ran. False: it waits where it did, or is
    /// in no list.
    pub fn is_worth(&self, tid: u32, now: u64, (close, exact): (bool, bool)) -> bool {
        let Some(track) = self.by_tid.get(&tid) else { return false };
        !self.is_still(track, tid, exact)
            || now.saturating_sub(track.sampled_ns) >= REPEAT_NS
            || close && track.asks_again(now)
    }

    /// It was off the CPU when it was read last, and has been since.
    fn is_still(&self, track: &Track, tid: u32, exact: bool) -> bool {
        exact && track.was_whole() && track.last.is_some() && !self.has_run(tid)
    }

    /// Begins a sample of a thread. None: it is in no list.
    pub fn begin(&mut self, tid: u32, exact: bool, reading: Reading) -> Option<Begun> {
        let Reading { t_ns, clock_ns, times, blocked } = reading;
        let still = self.is_still(self.by_tid.get(&tid)?, tid, exact);
        // A thread on a CPU goes on running, so it has something new next time.
        self.news.entry(tid).and_modify(|news| news.ran = !blocked);
        let track = self.by_tid.get_mut(&tid)?;
        // Without switch records: it was given no CPU since, nor has it used any.
        let both = times.zip(track.times).filter(|_| track.was_whole());
        let unmoved =
            both.is_some_and(|(new, old)| new.slices == old.slices && new.run_ns == old.run_ns);
        track.clock_ns = clock_ns.unwrap_or(0);
        track.waits_since_ns = match (blocked, unmoved && track.waits_since_ns != 0) {
            (false, _) => 0,
            (true, true) => track.waits_since_ns,
            (true, false) => t_ns,
        };
        let last = track.last;
        let mut sample = blank(tid, t_ns, track.sampled_ns);
        if let Some((new, old)) = both {
            sample.cpu_ns = new.run_ns.saturating_sub(old.run_ns);
            sample.run_delay_ns = new.run_delay_ns.saturating_sub(old.run_delay_ns);
            sample.slices =
                u16::try_from(new.slices.saturating_sub(old.slices)).unwrap_or(u16::MAX);
            sample.flags |= flag::TIMES;
        }
        let times = std::mem::replace(&mut track.times, times);
        let since_ns = std::mem::replace(&mut track.sampled_ns, t_ns);
        let there_since_ns = if blocked { track.waits_since_ns } else { since_ns };
        let carry = last.filter(|_| blocked && (still || unmoved));
        Some(Begun { sample, carry, last, since_ns, there_since_ns, times })
    }

    /// A sample that was begun has nothing to report yet: the next one covers the time since the
    /// last.
    pub fn put_back(&mut self, begun: &Begun) {
        if let Some(track) = self.by_tid.get_mut(&begun.sample.tid) {
            (track.times, track.sampled_ns, track.clock_ns) = (begun.times, begun.since_ns, 0);
        }
    }

    /// A sample is written.
    pub fn keep(&mut self, sample: Sample) {
        let Some(track) = self.by_tid.get_mut(&sample.tid) else { return };
        // A running thread's sample is of the time it was seen at.
        track.sampled_ns = sample.t_ns;
        (track.last, track.as_python) = (Some(sample), track.python.is_some());
        self.news.entry(sample.tid).and_modify(|news| news.is_recorded = true);
    }

    /// The holder of the lock that a thread waits for was looked up.
    pub fn holder_asked(&mut self, tid: u32, now: u64) {
        if let Some(track) = self.by_tid.get_mut(&tid) {
            track.holder_asked_ns = now;
        }
    }

    /// Whether a thread waits in that futex, as far as its last sample says and nothing since.
    pub fn waits_in(&self, tid: u32, futex: u64) -> bool {
        let last = self.by_tid.get(&tid).and_then(|track| track.last);
        !self.has_run(tid) && last.is_some_and(|s| s.wait == WaitKind::Futex && s.target == futex)
    }

    /// The urgent threads that have something new, those not sampled for longest first. However
    /// many they are, each has its turn. `low`: the budget is.
    pub fn due(&self, urgent: &[u32], now: u64, (exact, low): (bool, bool), due: &mut Vec<u32>) {
        let is_due = |tid: &&u32| {
            let track = self.by_tid.get(tid);
            track.is_none_or(|track| track.is_due(self.has_run(**tid), now, exact, low))
        };
        due.clear();
        due.extend(urgent.iter().filter(is_due));
        due.sort_by_key(|tid| self.by_tid.get(tid).map_or(0, |track| track.sampled_ns));
    }

    /// Where no switch records say which threads ran: asks the CPU clocks of some threads, of
    /// others the next time. Those that ran go to `moved`; of those that did not, the last sample
    /// goes to `repeat` when that is due.
    pub fn ask_some(
        &mut self,
        urgent: &[u32],
        now: u64,
        clock_ns: impl Fn(u32) -> Option<u64>,
        moved: &mut Vec<u32>,
        mut repeat: impl FnMut(&Sample),
    ) {
        let count = self.by_tid.len();
        let first = self.asked_first.checked_rem(count).unwrap_or(0);
        self.asked_first = first + ASKED.min(count);
        let before = self.asked_first.saturating_sub(count);
        for (index, (tid, track)) in self.by_tid.iter_mut().enumerate() {
            let asked = index < before || (first..self.asked_first).contains(&index);
            if !asked || urgent.contains(tid) {
                continue;
            }
            match track.repeats(now, || clock_ns(*tid)) {
                Err(Moved) => moved.push(*tid),
                Ok(sample) => sample.iter().for_each(&mut repeat),
            }
        }
    }
}

/// A sample that says nothing yet. `sampled_ns`: when the one before was, 0 never.
pub fn blank(tid: u32, now: u64, sampled_ns: u64) -> Sample {
    Sample {
        t_ns: now,
        tid,
        stack: 0,
        flags: 0,
        gil_holder: 0,
        wall_ns: if sampled_ns == 0 { 0 } else { now.saturating_sub(sampled_ns) },
        cpu_ns: 0,
        run_delay_ns: 0,
        wait: WaitKind::Unknown,
        holder_source: HolderSource::None,
        call: 0,
        lock_holder: 0,
        slices: 0,
        target: 0,
        timeout_ns: 0,
        task: 0,
        lock: 0,
    }
}

/// A thread that waits since its last sample is where that saw it.
pub fn carry_over(last: &Sample, sample: &mut Sample) {
    (sample.stack, sample.task) = (last.stack, last.task);
    sample.flags |= flag::REUSED | (last.flags & flag::TRUNCATED);
    if sample.target == 0 {
        sample.target = last.target;
    }
}

#[cfg(test)]
#[path = "tracks_tests.rs"]
mod tests;
