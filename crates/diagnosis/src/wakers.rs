//! The thread that ended a wait: it ran just before the waiter came back.
//!
//! Where the kernel recorded the wakeup (`woken`), that is the answer. Else: switch records say
//! which threads ran, not which thread woke which; so these are inferences, and what rests on them
//! is *likely* at most. A thread that shares no code with the waiter and releases nothing is not
//! named at all.

use analysis::signatures::{Pattern, Stdlib};
use analysis::timeline::{Segment, State};
use format::record::{flag, Sample};
use format::wait::{HolderSource, WaitKind};

use crate::causes::pool_wait;
use crate::explain::trace::{Contest, Question};
use crate::explain::{Dropped, Fact, Inference, Threshold};
use crate::scene::{Culprit, Scene};
use crate::woken::Told;

/// All that wait at a Barrier go on within this time: each takes its lock in turn.
const TOGETHER_NS: u64 = 20_000_000;

/// Thread, end of its wait, lock, and stack.
pub(crate) type WaitKey = (u32, WaitEnd, u64, u32);

/// When a wait ended, as far as that separates it from others of the same thread for the same lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WaitEnd {
    At(u64),
    /// One of many short ones, by the slice of time that it ended in.
    In(u64),
}

/// A convoy at a lock is tens of thousands of waits a second, and each question is one to every
/// thread: of waits shorter than the first that end within the second, one is asked about.
const SHORT_WAIT_NS: u64 = 1_000_000;
const SHORT_WAITS_NS: u64 = 10_000_000;

fn end_of_wait(from_ns: u64, to_ns: u64) -> WaitEnd {
    match to_ns.saturating_sub(from_ns) < SHORT_WAIT_NS {
        true => WaitEnd::In(to_ns / SHORT_WAITS_NS),
        false => WaitEnd::At(to_ns),
    }
}

impl Scene<'_> {
    /// The thread that most likely ended the wait: it ran just before the waiter came back, was
    /// seen during the wait, and was not at the same place for the same lock itself. None when
    /// several fit equally.
    pub fn releaser(&self, segment: &Segment<'_>) -> Option<u32> {
        match self.told_waker(segment) {
            Told::By(tid) => return Some(tid),
            Told::Elsewhere => return None,
            Told::Nothing => (),
        }
        if self.is_still_waiting(segment) {
            return None;
        }
        let lock = segment.sample?.target;
        let (from, to) = self.whole_wait(segment).times();
        let infer = || self.ran_before(segment, from, self.first_let_go(segment, from, to));
        // Between samples a wait is many segments, and each is asked about. Inside of a question
        // about inferred holders there is less of an answer.
        let traced = self.trace.wants(segment.from_ns, segment.to_ns);
        if self.asks_keepers.get() || !segment.exact || traced {
            return infer();
        }
        let key = (segment.tid, end_of_wait(from, to), lock, segment.stack());
        let known = self.releasers.borrow().get(&key).copied();
        known.unwrap_or_else(|| {
            let found = infer();
            self.releasers.borrow_mut().insert(key, found);
            found
        })
    }

    /// As `releaser`, where each waiter is woken by another thread: for an Event or a thread's end.
    pub fn waker(&self, segment: &Segment<'_>) -> Option<u32> {
        match self.told_waker(segment) {
            Told::By(tid) => return Some(tid),
            Told::Elsewhere => return None,
            Told::Nothing => (),
        }
        if self.is_still_waiting(segment) {
            return None;
        }
        let (from, to) = self.whole_wait(segment).times();
        self.ran_before(segment, from, to)
    }

    /// The thread whose end `segment` waits for, as a sample of that wait read it.
    pub fn joined(&self, segment: &Segment<'_>) -> Option<u32> {
        let target = segment.sample?.target;
        let (_, to) = self.whole_wait(segment).times();
        let looks = self.samples_in(segment.tid, 0, to.saturating_add(1)).iter().rev();
        let same = |s: &&Sample| s.wait == WaitKind::Futex && s.target == target;
        let mut own = looks.skip_while(|s| !same(s)).take_while(same);
        own.find(|s| s.holder_source == HolderSource::Joined).map(|s| s.lock_holder)
    }

    /// As `waker`, for the end of a thread: not a thread that was seen later.
    pub fn last_to_run(&self, segment: &Segment<'_>) -> Option<u32> {
        let (from, to) = self.whole_wait(segment).times();
        let ended = |tid: &u32| !self.lives_behind(*tid, to) && self.is_born_at(*tid, from);
        self.waker(segment).filter(ended)
    }

    /// Whether the first that was recorded of `tid` is not much older than `t_ns`.
    fn is_born_at(&self, tid: u32, t_ns: u64) -> bool {
        const BEFORE_NS: u64 = 200_000_000;
        self.first_seen(tid).is_none_or(|first| first + BEFORE_NS >= t_ns)
    }

    /// Whether `tid` was on a CPU at some time in `[from, to)`, by switch records or samples.
    pub fn ran_in(&self, tid: u32, from_ns: u64, to_ns: u64) -> bool {
        let timeline = self.timeline(tid, from_ns, to_ns);
        timeline.iter().any(|s| s.state == State::Run)
    }

    /// When anything was first recorded of `tid` by samples and switches.
    pub fn first_seen(&self, tid: u32) -> Option<u64> {
        let seen = self.capture.samples.get(&tid).and_then(|s| s.first()).map(|s| s.t_ns);
        let off = self.capture.off_cpu.get(&tid).and_then(|o| o.first()).map(|o| o.out_ns);
        seen.into_iter().chain(off).min()
    }

    /// The thread that ran just before `to`; if none did that may have ended the wait, the thread
    /// that ran just before the waiter was woken and was without a CPU until then.
    fn ran_before(&self, segment: &Segment<'_>, from: u64, to: u64) -> Option<u32> {
        let just_before_ns = if segment.exact { 3_000_000 } else { 30_000_000 };
        let found = self.ran_shortly_before(segment, (from, to), just_before_ns);
        found.or_else(|| {
            let late_ns = self.stood_ready_until(segment.tid, to).min((to - from) / 2);
            let before = (from, to - late_ns);
            (late_ns > 0).then(|| self.ran_shortly_before(segment, before, just_before_ns))?
        })
    }

    /// How long `tid` may have been runnable without a CPU before it got one at `t_ns`: the kernel
    /// adds that up, and the next sample has it. A switch record only says when it ran again.
    fn stood_ready_until(&self, tid: u32, t_ns: u64) -> u64 {
        self.ready_at_most(tid, t_ns).unwrap_or(0)
    }

    /// The same; None where no sample has it soon.
    pub fn ready_at_most(&self, tid: u32, t_ns: u64) -> Option<u64> {
        const SOON_NS: u64 = 100_000_000;
        let next = self.samples_in(tid, t_ns, t_ns.saturating_add(SOON_NS)).first();
        next.filter(|s| s.flags & flag::TIMES != 0).map(|s| s.run_delay_ns)
    }

    fn ran_shortly_before(
        &self,
        segment: &Segment<'_>,
        (from, to): (u64, u64),
        just_before_ns: u64,
    ) -> Option<u32> {
        let mut contest = self.ran_then(segment, (from, to), just_before_ns)?;
        self.keep_related(segment, (from, to), &mut contest);
        // A thread that runs all the time ran just before as well, by chance.
        let quiet = |tid: u32| !self.is_always_about(tid, (from, to), just_before_ns);
        let any_quiet = contest.able.iter().any(|tid| quiet(*tid));
        // Of several, the thread that ran last: the wake-up is the last thing before the waiter
        // ran.
        let ran_until = |tid: u32| {
            let begin = to.saturating_sub(just_before_ns);
            let before = self.timeline(tid, begin, to);
            let run = before.iter().filter(|s| s.state == State::Run);
            run.map(|s| s.to_ns).max().unwrap_or(0)
        };
        let mut lost = Dropped::RanEarlier;
        let won = if any_quiet || contest.able.is_empty() {
            contest.prefer(Dropped::AlwaysAbout, quiet);
            let able = contest.able.iter();
            let mut latest: Vec<(u64, u32)> = able.map(|tid| (ran_until(*tid), *tid)).collect();
            latest.sort_unstable();
            match latest.as_slice() {
                [.., (second, _), (first, tid)] if first > second => Some(*tid),
                [(_, only)] => Some(*only),
                // Several of one kind at one place: it does not matter which of them it was.
                [.., (_, any)] if self.stand_together(&contest.able, from, to) => Some(*any),
                _ => {
                    lost = Dropped::Ambiguous;
                    None
                }
            }
        } else {
            lost = Dropped::AlwaysAbout;
            self.keeper(segment).map(|c| c.tid).filter(|tid| contest.able.contains(tid))
        };
        if self.trace.wants(segment.from_ns, segment.to_ns) {
            let evidence = |tid: u32| {
                let before_ns = to.saturating_sub(ran_until(tid));
                let near = 1.0 - before_ns as f64 / just_before_ns as f64;
                (vec![Fact::BeforeEnd(before_ns)], Some(near.clamp(0.0, 1.0)))
            };
            let candidates = contest.candidates(self, (from, to), (won, lost), evidence);
            let window = Threshold::ns("ran-before-wakeup.window", just_before_ns);
            let question = Question::about(Inference::RanBefore, segment);
            self.trace.put(question.answered(candidates, vec![window]));
        }
        won
    }

    /// The threads that ran when a wait ended and may have ended it: seen during it, not at the
    /// same place or for the same lock, and not waiting for others all the while.
    fn ran_then(
        &self,
        segment: &Segment<'_>,
        (from, to): (u64, u64),
        just_before_ns: u64,
    ) -> Option<Contest> {
        let lock = segment.sample.map(|s| s.target)?;
        let place = self.frames.innermost(segment.stack());
        let others = self.capture.samples.keys().copied().filter(|tid| *tid != segment.tid);
        let remembers = self.trace.wants(segment.from_ns, segment.to_ns);
        let mut contest = Contest::of(others, remembers);
        contest.keep(Dropped::DidNotRun, |tid| {
            self.ran_in(tid, to.saturating_sub(just_before_ns), to + 50_000)
        });
        contest.keep(Dropped::WaitsForTheSame, |tid| {
            let mut seen = self.samples_in(tid, from, to).iter();
            !seen.any(|s| s.wait == WaitKind::Futex && s.target == lock)
        });
        contest.keep(Dropped::NotSeen, |tid| self.main_stack(tid, from, to) != 0);
        contest.keep(Dropped::SamePlace, |tid| {
            let stack = self.main_stack(tid, from, to);
            self.frames.innermost(stack) != place
                && !pool_wait::is_same_pool(self, stack, segment.stack())
        });
        contest.keep(Dropped::Parked, |tid| !self.is_parked(tid, from, to));
        Some(contest)
    }

    /// Keeps the candidates that have most to do with the code that waits.
    fn keep_related(&self, segment: &Segment<'_>, (from, to): (u64, u64), contest: &mut Contest) {
        // A thread that idles (accepts, polls) holds nothing; a thread that was in the file of the
        // code that waits knows the lock; a thread whose code says `release` releases one by hand.
        let place = self.frames.innermost(segment.stack());
        let file = place.as_ref().map(|p| p.file.as_str());
        let busy = |tid: u32| {
            let seen = self.sample_near(tid, from + (to - from) / 2);
            !seen.is_some_and(|s| matches!(s.wait, WaitKind::Accept | WaitKind::Poll))
        };
        // A module's top level is under everything its thread does: it knows only its own line.
        // What waits inside an installed package is handed out by it: there, a thread that called
        // the package from the same file of the program's own knows it too.
        let caller = self.frames.innermost_user(segment.stack()).map(|p| p.file);
        let knows = |tid: u32| {
            let mut own = self.frames.of(self.main_stack(tid, from, to)).enumerate();
            let known = |f: &str| Some(f) == file || Some(f) == caller.as_deref();
            own.any(|(i, f)| known(f.file) && (i == 0 || f.function != "<module>"))
        };
        let releases = |tid: u32| {
            let stack = self.main_stack(tid, from, to);
            self.frames.any(stack, |f| f.releases)
        };
        contest.prefer(Dropped::Idle, busy);
        contest.prefer(Dropped::LessRelated, knows);
        contest.prefer(Dropped::LessRelated, releases);
        // A thread that shares no code with the waiter and releases nothing happened to run: no
        // name is better than a wrong one. Where the code that waits is in a file of its own (a
        // lock written by hand), a thread that knows the lock shares the file of the lock's caller.
        let files = self.frames.own_files(segment.stack());
        let shares = |tid: u32| {
            let own = self.main_stack(tid, from, to);
            files.iter().any(|file| self.frames.is_in_file(own, file))
        };
        let related = contest.able.iter().any(|tid| knows(*tid) || releases(*tid));
        contest.keep(Dropped::SharesNoCode, |tid| match related {
            true => knows(tid) || releases(tid),
            false => shares(tid) && busy(tid),
        });
    }

    /// Whether `tid` comes and goes so often in `[from, to)` that it is seen in any slice of
    /// `window_ns` more likely than not.
    fn is_always_about(&self, tid: u32, (from, to): (u64, u64), window_ns: u64) -> bool {
        let until = to.saturating_sub(window_ns);
        let off = self.capture.off_cpu.get(&tid).map_or(&[][..], Vec::as_slice);
        let (begin, end) =
            (off.partition_point(|o| o.in_ns < from), off.partition_point(|o| o.in_ns < until));
        let came = off[begin..end.max(begin)].iter().filter(|o| !o.preempted).count();
        let looks = self.samples_in(tid, from, until);
        // It ran between two samples, and waited for most of the time: not for a CPU, nor for the
        // GIL.
        let some = |s: &&Sample| {
            let awake_ns = s.cpu_ns.saturating_add(s.run_delay_ns);
            s.cpu_ns > 0 && awake_ns.saturating_mul(2) < s.wall_ns && s.wait != WaitKind::Gil
        };
        let came = came.max(looks.iter().filter(some).count());
        came as u64 * window_ns * 2 > to.saturating_sub(from)
    }

    /// Whether the wait around `segment` went on when the capture ended: nobody ended it.
    pub fn is_still_waiting(&self, segment: &Segment<'_>) -> bool {
        if let Some(around) = self.off_around(segment) {
            return around.in_ns >= self.capture.meta.to_ns;
        }
        let Some(own) = segment.sample else { return false };
        let later = self.samples_in(segment.tid, own.t_ns, u64::MAX);
        let same =
            |s: &Sample| s.wait == own.wait && s.target == own.target && s.stack == own.stack;
        let ended = self.request_end(segment.tid, own.t_ns);
        later.iter().all(same) && ended.is_none_or(|end| end >= self.capture.meta.to_ns)
    }

    /// The one thread that was in the very call `segment` waits in for most of the wait, and did
    /// something else there: a lock inside of C code (a buffered file's, a database connection's)
    /// is taken and used by one line. None when several did.
    pub fn inside_of(&self, segment: &Segment<'_>) -> Option<u32> {
        let (from, to) = self.whole_wait(segment).times();
        let inside_ns = |tid: u32| -> u64 {
            let own = self.timeline(tid, from, to);
            let works = own.iter().filter(|s| {
                let waits = matches!(s.wait(), WaitKind::Futex | WaitKind::Gil);
                !(s.state == State::Wait && waits)
                    && self.frames.same_call(s.stack(), segment.stack())
            });
            works.map(Segment::ns).sum()
        };
        let seen = |tid: &u32| *tid != segment.tid && !self.samples_in(*tid, from, to).is_empty();
        let all = self.capture.samples.keys().copied().filter(seen);
        let inside = all.map(|tid| (tid, inside_ns(tid))).filter(|(_, ns)| *ns > 0);
        let tally: Vec<(u32, u64)> = inside.collect();
        let mut most = tally.iter().filter(|(_, ns)| ns * 2 > to - from);
        let first = most.next().map(|(tid, _)| *tid);
        let won = first.filter(|_| most.next().is_none());
        if !tally.is_empty() {
            let question = Question::about(Inference::InsideCall, segment);
            let lost = if first.is_some() { Dropped::Ambiguous } else { Dropped::TooLittle };
            let least = Threshold::part("inside-the-call.part-of-wait", 0.5);
            self.trace_tally(question, (&tally, Fact::Time), (won, lost), &[least]);
        }
        won
    }

    /// The thread of this process that had the file lock that `segment` waits for: the waker, where
    /// the kernel recorded it; else the one thread that was in the function that waits and did
    /// something else there most of the while; else the one that went on just when the wait ended.
    /// None when several did.
    pub fn file_lock_holder(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let (from, to) = (segment.from_ns, segment.to_ns);
        let by = Inference::InsideCall;
        let thread = |tid| Culprit::thread(tid, self.main_stack(tid, from, to), false, by);
        match self.told_waker(segment) {
            Told::By(tid) => {
                let stack = self.let_go_at(segment, tid, self.main_stack(tid, from, to));
                let by = Inference::WakeRecord;
                return (stack != 0).then(|| Culprit::thread(tid, stack, true, by));
            }
            Told::Elsewhere => return None,
            Told::Nothing => (),
        }
        let place = self.frames.innermost_user(segment.stack())?;
        let inside = |tid: &u32| {
            let own = self.timeline(*tid, from, to);
            let works = own.iter().filter(|s| {
                let waits = s.state == State::Wait && s.wait() == WaitKind::FileLock;
                !waits && self.frames.passes(s.stack(), &place)
            });
            works.map(Segment::ns).sum::<u64>() * 2 > to - from
        };
        let others = self.capture.samples.keys().copied().filter(|tid| *tid != segment.tid);
        let mut all = others.filter(inside);
        match (all.next(), all.next()) {
            (Some(only), None) => Some(thread(only)),
            (Some(_), Some(_)) => None,
            _ => self.file_lock_keeper(segment),
        }
    }

    /// When the first of the waiters at the same place was woken, if it waited for most of this
    /// wait too: those behind it are woken by fellow waiters, and the question is which thread woke
    /// the first.
    fn first_let_go(&self, segment: &Segment<'_>, from_ns: u64, to_ns: u64) -> u64 {
        let half = from_ns + (to_ns - from_ns) / 2;
        let fellows = self.capture.samples.keys().filter(|tid| **tid != segment.tid);
        let ends = fellows.filter_map(|tid| {
            let seen = self.samples_in(*tid, from_ns, to_ns);
            let waits = |s: &&Sample| {
                s.wait == WaitKind::Futex && self.same_place(s.stack, segment.stack())
            };
            let last = seen.iter().rev().find(waits)?;
            let off = self.capture.off_cpu.get(tid)?;
            let whole = off[..off.partition_point(|o| o.out_ns <= last.t_ns)].last()?;
            let most = whole.in_ns.min(to_ns).saturating_sub(whole.out_ns.max(from_ns));
            (whole.in_ns > half && whole.in_ns < to_ns && most * 2 > to_ns - from_ns)
                .then_some(whole.in_ns)
        });
        let first = ends.min().unwrap_or(to_ns);
        // Waiters at one Barrier are woken together; others at the same place are at other ones.
        let barrier = Pattern::Within(4, Stdlib::BarrierWait);
        let barrier = self.frames.fits(segment.stack(), barrier);
        if barrier && to_ns - first > TOGETHER_NS {
            to_ns
        } else {
            first
        }
    }

    /// Whether `tid` itself waited for others of the process all the while (a lock, a result, a
    /// queue), as far as switch records show: it delayed nobody by its own work. A thread whose
    /// wait began or ended well within is not meant.
    pub(crate) fn is_parked(&self, tid: u32, from_ns: u64, to_ns: u64) -> bool {
        /// It may have run this long at either end.
        const EDGE_NS: u64 = 2_000_000;
        let Some(off) = self.capture.off_cpu.get(&tid) else { return false };
        let whole = off[..off.partition_point(|o| o.out_ns <= from_ns + EDGE_NS)].last();
        let Some(whole) = whole.filter(|o| o.in_ns + EDGE_NS >= to_ns) else { return false };
        let seen = self.samples_in(tid, whole.out_ns, whole.in_ns);
        to_ns - from_ns > 10 * EDGE_NS && seen.iter().any(|s| s.wait == WaitKind::Futex)
    }

    /// A thread that was seen during the wait around `segment`, in the code of the file that waits,
    /// and never behind it: for waits for a thread's end. None when several fit, at different
    /// places.
    pub fn ended_at(&self, segment: &Segment<'_>) -> Option<u32> {
        segment.sample?;
        let (from, to) = self.whole_wait(segment).times();
        let file = self.frames.innermost(segment.stack())?.file;
        let ended = |tid: &u32, samples: &[Sample]| {
            let last = samples.last().map_or(0, |s| s.t_ns);
            let inside = *tid != segment.tid && (from..to).contains(&last);
            inside
                && !self.lives_behind(*tid, to)
                && self.lives_until(*tid, to, segment.exact)
                && self.frames.any(self.main_stack(*tid, from, to), |f| f.file == file)
        };
        let all = self.capture.samples.iter().filter(|(tid, samples)| ended(tid, samples));
        let mut able: Vec<u32> = all.map(|(tid, _)| *tid).collect();
        able.sort_unstable();
        // They are started to be waited for.
        able.retain(|tid| self.is_born_at(*tid, from));
        let one = able.len() == 1 || self.stand_together(&able, from, to);
        able.last().copied().filter(|_| one)
    }

    /// Whether `tid` was recorded until shortly before `t_ns`; a thread that ended long before
    /// ended nobody's wait then.
    fn lives_until(&self, tid: u32, t_ns: u64, exact: bool) -> bool {
        let seen = self.capture.samples.get(&tid).and_then(|s| s.last()).map_or(0, |s| s.t_ns);
        let off = self.capture.off_cpu.get(&tid).and_then(|o| o.last()).map_or(0, |o| o.in_ns);
        seen.max(off) + if exact { 60_000_000 } else { 300_000_000 } >= t_ns
    }

    /// Whether anything was recorded of `tid` later than `t_ns`: a thread that waited for an end
    /// until then waited for another thread's.
    fn lives_behind(&self, tid: u32, t_ns: u64) -> bool {
        /// What a thread does after it let those go that wait for its end.
        const LAST_NS: u64 = 100_000_000;
        let seen = self.capture.samples.get(&tid).and_then(|s| s.last()).map_or(0, |s| s.t_ns);
        let off = self.capture.off_cpu.get(&tid).and_then(|o| o.last()).map_or(0, |o| o.out_ns);
        seen.max(off) > t_ns + LAST_NS
    }

    /// Whether these threads spent most of `[from, to)` in the same function.
    fn stand_together(&self, tids: &[u32], from_ns: u64, to_ns: u64) -> bool {
        let place = |tid: &u32| {
            let place = self.frames.innermost(self.main_stack(*tid, from_ns, to_ns))?;
            Some((place.qualified, place.file))
        };
        let mut places = tids.iter().map(place);
        let first = places.next().flatten();
        first.is_some() && places.all(|place| place == first)
    }

    /// Whether `tid` computed from well before a wait to well behind it, and at the same things:
    /// nothing that it did had to do with that wait.
    pub(crate) fn computes_on(&self, tid: u32, (begin_ns, end_ns): (u64, u64)) -> bool {
        const WELL_NS: u64 = 30_000_000;
        const FAR_NS: u64 = 250_000_000;
        let looks = self.samples_in(tid, begin_ns.saturating_sub(FAR_NS), end_ns + FAR_NS);
        let (Some(first), Some(last)) = (looks.first(), looks.last()) else { return false };
        let around = first.t_ns + WELL_NS <= begin_ns && last.t_ns >= end_ns + WELL_NS;
        if !around || looks.iter().any(|s| s.wait != WaitKind::Running) {
            return false;
        }
        let own = |stack: u32| self.frames.of(stack).filter(|f| !self.frames.is_shared(f));
        let path = |s: &&Sample| own(s.stack).map(|f| (f.function, f.file)).collect::<Vec<_>>();
        let seen = looks.iter().filter(|s| s.stack != 0);
        let (inside, outside): (Vec<_>, Vec<_>) =
            seen.partition(|s| (begin_ns..end_ns).contains(&s.t_ns));
        let outside: Vec<_> = outside.iter().map(path).collect();
        inside.iter().filter(|s| outside.contains(&path(s))).count() * 2 >= inside.len()
    }
}
