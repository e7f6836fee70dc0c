//! What the sampler remembers of each thread between passes.

use format::record::{flag, Sample};
use format::wait::{HolderSource, WaitKind};
use samplers::by_tid::ByTid;
use samplers::python_stacks::PyThread;
use sys::ours;
use sys::task::Schedstat;

use crate::world::{Proc, ThreadFiles};

/// A thread that stands is sampled again after this time.
pub(crate) const REPEAT_NS: u64 = 100_000_000;
/// So is one that has stood for `LONG_NS`, after this time and, without switch records, without a look; a reader takes it
/// for one wait still.
const MOST_REPEAT_NS: u64 = 250_000_000;
const LONG_NS: u64 = 1_000_000_000;
/// Who holds the lock that a thread waits for is asked again after this time.
pub(crate) const ASK_HOLDER_NS: u64 = 40_000_000;

/// A thread is not where it was, or may not be.
pub(crate) struct Moved;

/// A thread under observation.
pub(crate) struct Track<F> {
    /// Its interpreter state, if it runs Python.
    pub python: Option<PyThread>,
    /// Its files under /proc; closed when another thread's are wanted more.
    pub files: Option<F>,
    /// When it was last read through them, in looks.
    read: u64,
    /// When it was last sampled, 0 never.
    pub sampled_ns: u64,
    /// Its times then.
    pub times: Option<Schedstat>,
    /// Its CPU clock when the look that its last sample comes from, or goes back to, began; 0: not asked.
    pub clock_ns: u64,
    /// When it was first found in the wait that its last sample saw, as far as its times tell; 0 if it ran then.
    pub waits_since_ns: u64,
    /// It was in the last list of threads.
    pub alive: bool,
    /// Its last sample, for carrying over.
    pub last: Option<Sample>,
    /// That was taken with its interpreter state at hand.
    pub as_python: bool,
    /// When the holder of the lock it waits for was last looked up.
    pub holder_asked_ns: u64,
}

impl<F> Default for Track<F> {
    fn default() -> Track<F> {
        Track {
            python: None,
            files: None,
            read: 0,
            sampled_ns: 0,
            times: None,
            clock_ns: 0,
            waits_since_ns: 0,
            alive: false,
            last: None,
            as_python: false,
            holder_asked_ns: 0,
        }
    }
}

impl<F> Track<F> {
    /// Whether a thread that is urgent has something new to tell, or may have. `ran`: `Tracks::has_run`. `exact`: switch
    /// records tell whether it did; else, where savings are `low`, one that waits is asked again when it has waited half as long
    /// again as at its last sample.
    pub(crate) fn is_due(&self, ran: bool, now: u64, exact: bool, low: bool) -> bool {
        let since_ns = now.saturating_sub(self.sampled_ns);
        let Some(last) = self.last.filter(|_| self.was_whole() && since_ns < REPEAT_NS) else {
            return true;
        };
        if exact {
            let asks = last.wait == WaitKind::Futex;
            let asked_ns = now.saturating_sub(self.holder_asked_ns);
            return ran || asks && asked_ns >= ASK_HOLDER_NS;
        }
        let waited_ns = self.sampled_ns.saturating_sub(self.waits_since_ns);
        !low || self.waits_since_ns == 0 || since_ns >= waited_ns / 2
    }

    /// Whether it still stands where its last sample saw it, by its CPU clock `clock_ns`: the sample of that, or None if it is
    /// too early for one. One that was woken and has no CPU yet stands, too: its next look tells for how long it was
    /// runnable. One that has not stood for long is looked at, therefore. For one that is not urgent, without switch records.
    pub(crate) fn stands(
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

    /// Whether its last sample may be carried over while it stands. A thread may be listed before its
    /// interpreter state is, or while that list was torn: then its stack was read as a native one's.
    pub(crate) fn was_whole(&self) -> bool {
        self.as_python || self.python.is_none()
    }
}

/// What is asked of a thread at each of its switches, and of all threads in each pass. Apart from the rest, of which each
/// thread's lies in lines of memory of its own: with hundreds of threads these were half of what a record cost.
#[derive(Clone, Copy)]
struct News {
    /// It has been on a CPU since its last look, as far as switch records tell.
    ran: bool,
    /// It has a sample.
    told: bool,
}

/// All threads by kernel id.
pub(crate) struct Tracks<F> {
    /// The threads.
    pub by_tid: ByTid<Track<F>>,
    /// Of the same ones.
    news: ByTid<News>,
    /// A thread was found to have ended since the last list.
    pub stale: bool,
    open_files: usize,
    /// Looks at files so far.
    looks: u64,
}

impl<F> Default for Tracks<F> {
    fn default() -> Tracks<F> {
        Tracks {
            by_tid: ByTid::default(),
            news: ByTid::default(),
            stale: false,
            open_files: 0,
            looks: 0,
        }
    }
}

/// Threads whose files are kept open at once, at most. To open them anew takes 10 us, to read through them 2: with fewer than
/// threads that run, a look costs twice as much.
const MOST_OPEN: usize = 1024;
/// Descriptors that a thread's files take for a usual look.
const DESCRIPTORS: usize = 3;

impl<F: ThreadFiles> Tracks<F> {
    /// Threads that run no Python, lately looked at first.
    pub(crate) fn natives(&self) -> impl Iterator<Item = u32> {
        let native = self.by_tid.iter().filter(|(_, track)| track.python.is_none());
        let mut all: Vec<(u64, u32)> = native.map(|(tid, t)| (t.sampled_ns, *tid)).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.into_iter().map(|(_, tid)| tid)
    }

    /// Keeps the threads of the lists, adds new ones; whether there were any.
    pub(crate) fn refresh(&mut self, alive: &[u32], python: &[PyThread], own: &[u32]) -> bool {
        self.stale = false;
        let before = self.by_tid.len();
        for track in self.by_tid.values_mut() {
            (track.python, track.alive) = (None, false);
        }
        for tid in alive.iter().filter(|tid| !own.contains(tid)) {
            self.by_tid.entry(*tid).or_default().alive = true;
            self.news.entry(*tid).or_insert(News { ran: true, told: false });
        }
        let grown = self.by_tid.len() > before;
        self.by_tid.retain(|_, track| track.alive);
        self.news.retain(|tid, _| self.by_tid.contains_key(tid));
        // One that runs code in several interpreters is listed for each; any of its states stands for it.
        for thread in python {
            if let Some(track) = self.by_tid.get_mut(&thread.tid) {
                track.python = Some(*thread);
            }
        }
        self.open_files = self.by_tid.values().filter(|t| t.files.is_some()).count();
        grown
    }

    /// The files of `tid`, opened if need be. Where there is no room for its descriptors, those of the thread
    /// that was not read for the longest time are closed.
    pub(crate) fn files(&mut self, proc: &impl Proc<Files = F>, tid: u32) -> Option<&mut F> {
        let has = self.by_tid.get(&tid)?.files.is_some();
        if !has {
            while self.open_files > 0
                && (self.open_files >= MOST_OPEN || !proc.has_room(DESCRIPTORS))
            {
                self.close_oldest();
            }
            let files = match proc.open(tid) {
                Ok(files) => files,
                Err(error) => {
                    // Without a descriptor left nothing is known of the thread.
                    self.stale |= !ours::is_shortage(&error);
                    return None;
                }
            };
            self.open_files += 1;
            self.by_tid.get_mut(&tid)?.files = Some(files);
        }
        self.looks += 1;
        let track = self.by_tid.get_mut(&tid)?;
        track.read = self.looks;
        track.files.as_mut()
    }

    fn close_oldest(&mut self) {
        let open = self.by_tid.values_mut().filter(|track| track.files.is_some());
        if let Some(oldest) = open.min_by_key(|track| track.read) {
            oldest.files = None;
            ours::count_refused();
        }
        // If none is open after all, that is what is counted.
        self.open_files = self.open_files.saturating_sub(1);
    }

    /// Closes what can be opened anew at the next look.
    pub(crate) fn give_back(&mut self) {
        let open = self.by_tid.values_mut().filter_map(|track| track.files.take());
        ours::count_given_back(open.map(|files| files.descriptors()).sum());
        self.open_files = 0;
    }

    /// The thread has ended, and the list of threads is older than that.
    pub(crate) fn forget(&mut self, tid: u32) {
        self.news.remove(&tid);
        let files = self.by_tid.remove(&tid).and_then(|track| track.files);
        self.open_files -= usize::from(files.is_some());
    }

    /// A switch record brought the thread to a CPU. False: it is not known.
    pub(crate) fn ran(&mut self, tid: u32) -> bool {
        self.news.get_mut(&tid).map(|news| news.ran = true).is_some()
    }

    /// Any thread may have been on a CPU.
    pub(crate) fn all_ran(&mut self) {
        self.news.values_mut().for_each(|news| news.ran = true);
    }

    /// Whether a thread has been on a CPU since its last look, as far as switch records tell; one that is not known may
    /// have been.
    pub(crate) fn has_run(&self, tid: u32) -> bool {
        self.news.get(&tid).is_none_or(|news| news.ran)
    }

    /// Whether any has.
    pub(crate) fn anybody_ran(&self) -> bool {
        self.news.values().any(|news| news.ran)
    }

    /// Those that have, or have no sample yet.
    pub(crate) fn with_news(&self) -> impl Iterator<Item = u32> + '_ {
        self.news.iter().filter(|(_, news)| news.ran || !news.told).map(|(tid, _)| *tid)
    }

    /// A thread is looked at. `runs`: it goes on running, so it has something new to tell next time.
    pub(crate) fn looked_at(&mut self, tid: u32, runs: bool) {
        self.news.entry(tid).and_modify(|news| news.ran = runs);
    }

    /// It has a sample now.
    pub(crate) fn told(&mut self, tid: u32) {
        self.news.entry(tid).and_modify(|news| news.told = true);
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;
    use crate::kernel::tests::Nowhere;
    use crate::kernel::Kernel;
    use sys::task::TaskReader;

    type Tracks = super::Tracks<TaskReader>;
    type Track = super::Track<TaskReader>;

    #[test]
    fn one_that_waits_is_asked_ever_less_often_only_where_nothing_else_tells_and_savings_are_low() {
        let ms = |ms: u64| ms * 1_000_000;
        let last = crate::threads::thread_sampler::blank(7, ms(400), 0);
        let last = Some(format::record::Sample { wait: WaitKind::SocketRead, ..last });
        let new = |track: Track| Track { sampled_ns: ms(400), last, ..track };
        let waits = new(Track { waits_since_ns: ms(360), ..Track::default() });
        assert!(
            !waits.is_due(false, ms(410), false, true) && waits.is_due(false, ms(420), false, true)
        );
        assert!(waits.is_due(false, ms(410), false, false), "there are savings");
        let long = new(Track { waits_since_ns: ms(1), ..Track::default() });
        assert!(
            !long.is_due(false, ms(490), false, true) && long.is_due(false, ms(500), false, true)
        );
        let runs = new(Track::default());
        assert!(runs.is_due(false, ms(401), false, true));
        // Switch records tell that it did not run.
        assert!(
            !waits.is_due(false, ms(499), true, false) && waits.is_due(false, ms(500), true, false)
        );
        assert!(runs.is_due(true, ms(401), true, true));
        assert!(Track::default().is_due(false, ms(1), true, true), "never looked at");
    }

    #[test]
    fn the_files_of_who_was_not_read_for_the_longest_time_are_closed_first() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
        let (tell, told) = std::sync::mpsc::channel();
        let waits = |_| {
            let (wait, tell) = (wait.clone(), tell.clone());
            std::thread::spawn(move || {
                let told = tell.send(sys::thread::tid());
                let _ = wait.lock().map(|wait| wait.recv());
                told
            })
        };
        let threads: Vec<_> = (0..3).map(waits).collect();
        let tids: Vec<u32> = told.iter().take(3).collect();
        let mut tracks = Tracks::default();
        let kernel = Kernel::new(Nowhere).expect("own memory");
        tracks.refresh(&tids, &[], &[]);
        for tid in [tids[0], tids[1], tids[2], tids[0]] {
            assert!(tracks.files(&kernel, tid).is_some());
        }
        let open = |tracks: &Tracks| {
            let has = |tid| tracks.by_tid.get(tid).is_some_and(|track| track.files.is_some());
            tids.iter().map(has).collect::<Vec<bool>>()
        };
        tracks.close_oldest();
        assert_eq!(open(&tracks), [true, false, true]);
        tracks.close_oldest();
        assert_eq!(open(&tracks), [true, false, false]);
        tracks.give_back();
        assert_eq!((open(&tracks), tracks.open_files), (vec![false; 3], 0));
        assert!(tracks.files(&kernel, tids[2]).is_some(), "on demand");
        drop(go);
        threads.into_iter().for_each(|thread| assert!(thread.join().is_ok()));
    }

    #[test]
    fn who_ran_or_was_never_seen_has_news() {
        let mut tracks = Tracks::default();
        tracks.refresh(&[7, 8], &[], &[]);
        assert!(tracks.has_run(7) && tracks.has_run(9), "new, and not known");
        for tid in [7, 8] {
            tracks.looked_at(tid, false);
        }
        tracks.told(7);
        assert!(!tracks.anybody_ran() && tracks.with_news().eq([8]), "8 was looked at in vain");
        assert!(tracks.ran(7) && !tracks.ran(9));
        assert_eq!(tracks.with_news().count(), 2);
        tracks.looked_at(7, true);
        assert!(tracks.has_run(7), "it runs on");
        tracks.forget(7);
        tracks.refresh(&[9], &[], &[]);
        assert!(tracks.with_news().eq([9]), "the others are gone");
    }

    #[test]
    fn a_thread_that_turns_out_to_run_python_is_looked_at_anew() {
        let python = PyThread { state: 4096, tid: 7, ident: 1 };
        let mut tracks = Tracks::default();
        // Listed before its interpreter state was.
        assert!(tracks.refresh(&[7], &[], &[]));
        assert!(tracks.by_tid.get(&7).is_some_and(Track::was_whole));
        assert!(!tracks.refresh(&[7], &[python], &[]));
        assert!(!tracks.by_tid.get(&7).is_some_and(Track::was_whole));
        if let Some(track) = tracks.by_tid.get_mut(&7) {
            track.as_python = true;
        }
        assert!(tracks.by_tid.get(&7).is_some_and(Track::was_whole));
        // A torn list says nothing against what was seen.
        tracks.refresh(&[7], &[], &[]);
        assert!(tracks.by_tid.get(&7).is_some_and(Track::was_whole));
    }
}
