//! Infers which thread had what a request waited for from a pool, or fulfilled its future: the
//! thread that left a function at the moment the wait ended.
//!
//! A thread that gives back a connection goes on to something else: its *interval* in one function
//! ends just when the wait does. The time of that end is known only to lie between two samples; so
//! this is an inference, and what rests on it is *likely* at most. Only threads that share a file
//! of the program's own with the waiter are asked, or, where none does, with the waiter's caller;
//! and none is named when intervals in several functions end then. With switch records a thread
//! that is off the CPU is not sampled again: it was there until it came back.

use std::collections::HashMap;

use analysis::frames::{Owner, Place};
use analysis::timeline::{Segment, State};
use capture::read::Frame;
use format::record::Sample;
use format::wait::WaitKind;

use crate::causes::pool_wait;
use crate::explain::trace::{Contest, Question};
use crate::explain::{Dropped, Fact, Inference, Threshold};
use crate::scene::{Culprit, Scene};

/// Samples further apart than this say nothing of when an interval in a function ended.
const APART_NS: u64 = 250_000_000;
/// What the clocks of two threads' samples may differ by.
const SLACK_NS: u64 = 5_000_000;
/// An interval in a function takes at least this part of the wait.
const LEAST_PART: u64 = 4;

/// A thread's interval in one function, and whether it waited for a lock there.
pub(crate) struct Stay {
    pub(crate) place: Place,
    pub(crate) tid: u32,
    pub(crate) stack: u32,
    pub(crate) locked: bool,
    first_ns: u64,
    /// When it was there last, and when it was not any more.
    pub(crate) last_ns: u64,
    pub(crate) gone_ns: u64,
    /// When what it did for a request ended, if it left with that.
    pub(crate) done_ns: Option<u64>,
}

impl Stay {
    /// Whether it took part of the wait and ended when that did.
    pub(crate) fn ended_with(&self, wait: &Ended) -> bool {
        let ends_then = self.gone_ns >= wait.end.0 && self.last_ns <= wait.end.1;
        let stayed_ns = self.gone_ns.saturating_sub(self.first_ns.max(wait.from));
        ends_then && stayed_ns * LEAST_PART >= wait.end.1 - wait.from
    }
}

/// A wait, and when it ended.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    /// The code that waited, and for what; 0: for no lock.
    stack: u32,
    lock: u64,
    /// When it began, and the interval in which it ended.
    pub(crate) from: u64,
    pub(crate) end: (u64, u64),
    /// When the request that waited ended, if no sample saw the thread between the two.
    pub(crate) done_ns: Option<u64>,
    /// Only a thread that was in the file of the code that waited may have ended it.
    knows: bool,
}

impl<'c> Scene<'c> {
    /// The thread of this process that most likely had the file lock that `segment` waits for: its
    /// interval in one function of the program's own ended when the wait did, whatever file that is
    /// in; None when several fit, in different functions.
    pub fn file_lock_keeper(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let own = segment.sample?;
        let wait = self.whole_wait(segment);
        let (from, until) = wait.times();
        let last = self.samples_of(&wait).next_back().map_or(from, |s| s.t_ns);
        let last = if segment.exact { until } else { last };
        if self.is_still_waiting(segment) || until.saturating_sub(last) > APART_NS {
            return None;
        }
        let end = (last.saturating_sub(SLACK_NS), until.saturating_add(SLACK_NS));
        let (stack, lock) = (segment.stack(), own.target);
        let done_ns = None;
        self.who_ended(segment, &Ended { stack, lock, from, end, done_ns, knows: false })
    }

    /// The thread whose interval in the program's own code ended when this wait did, as far as
    /// samples show; None when several fit, in different functions. Cost: the samples of all
    /// threads during the wait.
    pub fn keeper(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let wait =
            self.ended(segment).filter(|wait| wait.end.1 - wait.end.0 <= APART_NS + 2 * SLACK_NS);
        self.who_ended(segment, &wait?)
    }

    /// When a wait for a lock or a pool ended, as far as samples show; None when that is too rough
    /// and it did not end with what it was for.
    pub(crate) fn ended(&self, segment: &Segment<'_>) -> Option<Ended> {
        if self.is_still_waiting(segment) {
            return None;
        }
        let lock = segment.sample?.target;
        let wait = self.whole_wait(segment);
        let (from, until) = wait.times();
        let last = self.samples_of(&wait).next_back().map_or(from, |s| s.t_ns);
        // Switch records say when it came back.
        let last = if segment.exact { until } else { last };
        let done_ns = self.request_end(segment.tid, last).filter(|done| *done <= until);
        let until = done_ns.unwrap_or(until);
        let end = (last.saturating_sub(SLACK_NS), until + SLACK_NS);
        let known = done_ns.is_some() || until.saturating_sub(last) <= APART_NS;
        let stack = segment.stack();
        known.then_some(Ended { stack, lock, from, end, done_ns, knows: true })
    }

    /// When a wait for a lock of SQLite's ended: the waiter asks again and again, so the holder
    /// released the lock between the last time it asked in vain and the end.
    pub(crate) fn ended_asking(&self, segment: &Segment<'_>) -> Option<Ended> {
        let own = segment.sample.filter(|s| self.asks(s))?;
        let looks = self.samples_in(segment.tid, 0, u64::MAX);
        let at = looks.partition_point(|s| s.t_ns < own.t_ns);
        let near =
            |pair: &&[Sample]| self.asks(&pair[1]) && pair[1].t_ns - pair[0].t_ns <= APART_NS;
        let back = looks[..=at].windows(2).rev().take_while(|p| near(p) && self.asks(&p[0]));
        let first = back.last().map_or(own, |pair| &pair[0]);
        let later = looks[at..].windows(2).take_while(near).last();
        let last = later.map_or(own, |pair| &pair[1]);
        let after = looks[looks.partition_point(|s| s.t_ns <= last.t_ns)..].first();
        let asked = self.off_at(segment.tid, last.t_ns);
        let done_ns = self.request_end(segment.tid, last.t_ns);
        let seen_ns = after.map(|s| s.t_ns).into_iter().chain(done_ns).min();
        let until = asked.map(|off| off.in_ns).or(seen_ns)?;
        let in_vain = asked.map_or(last.t_ns, |off| off.out_ns);
        let end = (in_vain.saturating_sub(SLACK_NS), until.saturating_add(SLACK_NS));
        let known = until.saturating_sub(in_vain) <= APART_NS && first.t_ns < until;
        let (stack, lock, from) = (segment.stack(), 0, first.t_ns);
        known.then_some(Ended { stack, lock, from, end, done_ns: None, knows: false })
    }

    fn asks(&self, look: &Sample) -> bool {
        look.wait == WaitKind::Sleep && self.frames.asks_sqlite(look.stack)
    }

    /// The thread whose interval in a function ended when a task's await of `segment` did, as
    /// `keeper`: one that fulfils a future with `call_soon_threadsafe`. `looks_ns`: when the task
    /// was seen there first and last; `until_ns`: when it was not any more. `knows`: only a thread
    /// that shares a file with the task.
    pub fn fulfiller(
        &self,
        segment: &Segment<'_>,
        stack: u32,
        looks_ns: (u64, u64),
        until_ns: u64,
        knows: bool,
    ) -> Option<Culprit> {
        if until_ns.saturating_sub(looks_ns.1) > APART_NS {
            return None;
        }
        let end = (looks_ns.1.saturating_sub(SLACK_NS), until_ns + SLACK_NS);
        let (from, done_ns) = (looks_ns.0, None);
        self.who_ended(segment, &Ended { stack, lock: 0, from, end, done_ns, knows })
    }

    /// A thread that waited for a lock for most of that time and was released when the task's await
    /// ended: most likely it works for the future that was awaited. Its wait. None where several
    /// fit, in different functions.
    pub fn locked_worker(
        &self,
        segment: &Segment<'_>,
        stack: u32,
        looks_ns: (u64, u64),
        until_ns: u64,
    ) -> Option<Segment<'c>> {
        if until_ns.saturating_sub(looks_ns.1) > APART_NS {
            return None;
        }
        let end = (looks_ns.1.saturating_sub(SLACK_NS), until_ns + SLACK_NS);
        let wait = Ended { stack, lock: 0, from: looks_ns.0, end, done_ns: None, knows: false };
        let mut stays = self.stays_that_ended(segment.tid, &wait);
        stays.retain(|s| s.locked);
        stays.sort_by(|a, b| (&a.place, a.tid).cmp(&(&b.place, b.tid)));
        let first = stays.first()?;
        let function = |p: &Place| (p.qualified.clone(), p.file.clone());
        if stays.iter().any(|s| function(&s.place) != function(&first.place)) {
            return None;
        }
        let own = self.timeline(first.tid, segment.from_ns, segment.to_ns);
        let locked = |s: &&Segment<'_>| s.state == State::Wait && s.wait() == WaitKind::Futex;
        let longest = own.into_iter().filter(|s| locked(&s)).max_by_key(Segment::ns)?;
        (longest.ns() * 2 > segment.ns()).then_some(longest)
    }

    /// The thread whose interval in a function took part of the wait and ended with it, or its own
    /// blocker; None where it may be one or another. Asked about one wait at a time: the blocker of
    /// an inferred holder is known from locks, not from ends of intervals again, which might lead
    /// in a circle.
    fn who_ended(&self, segment: &Segment<'_>, wait: &Ended) -> Option<Culprit> {
        if self.asks_keepers.replace(true) {
            return None;
        }
        let found = self.whose_stay_ended(segment, wait);
        self.asks_keepers.set(false);
        found
    }

    fn whose_stay_ended(&self, segment: &Segment<'_>, wait: &Ended) -> Option<Culprit> {
        let Ended { from, end, .. } = *wait;
        let mut stays = self.stays_that_ended(segment.tid, wait);
        let wants = self.trace.wants(segment.from_ns, segment.to_ns);
        let mut contest = Contest::of(stays.iter().map(|s| s.tid), wants);
        // A thread that waited for a lock until then was released as well, by one that did
        // something else.
        if stays.iter().any(|s| !s.locked) {
            stays.retain(|s| !s.locked);
            contest.keep(Dropped::Locked, |tid| stays.iter().any(|s| s.tid == tid));
        }
        let held = |s: &Stay| (s.tid, s.gone_ns.saturating_sub(s.first_ns.max(from)));
        let held: Vec<(u32, u64)> = stays.iter().filter(|_| wants).map(held).collect();
        let whole = Segment { from_ns: from, to_ns: end.1.max(from), ..*segment };
        let mut found: Vec<(Place, Culprit)> = stays
            .into_iter()
            .map(|Stay { place, tid, stack, .. }| {
                // One of them may have waited for another: that is one and the same end.
                let first = Culprit::thread(tid, stack, false, Inference::LeftPlace);
                let last = self.behind_with(first, &whole, true, false);
                let behind = self.frames.innermost_user(last.stack).filter(|_| last.tid != tid);
                (behind.unwrap_or(place), Culprit { measured: false, ..last })
            })
            .collect();
        // A map has no order.
        found.sort_by(|a, b| (&a.0, a.1.tid).cmp(&(&b.0, b.1.tid)));
        let (first, culprit) = found.first()?;
        let same = |p: &Place| (&p.qualified, &p.file) == (&first.qualified, &first.file);
        let one = found.iter().all(|(place, _)| same(place));
        if wants {
            let of_ns = whole.ns();
            let evidence = |tid: u32| {
                let ns: u64 = held.iter().filter(|(t, _)| *t == tid).map(|(_, ns)| ns).sum();
                (vec![Fact::Time(ns, of_ns)], Some((ns as f64 / of_ns.max(1) as f64).min(1.0)))
            };
            // If the thread waited for another thread, the other is named.
            let won = held.iter().map(|(tid, _)| *tid).find(|tid| *tid == culprit.tid);
            let won = won.or(held.first().map(|(tid, _)| *tid)).filter(|_| one);
            let lost = if one { Dropped::LessEvidence } else { Dropped::Ambiguous };
            let times = (whole.from_ns, whole.to_ns);
            let candidates = contest.candidates(self, times, (won, lost), evidence);
            let least =
                Threshold::part("left-when-wait-ended.part-of-wait", 1.0 / LEAST_PART as f64);
            let apart = Threshold::ns("left-when-wait-ended.samples-apart", APART_NS);
            let question = Question::about(Inference::LeftPlace, segment);
            self.trace.put(question.answered(candidates, vec![least, apart]));
        }
        one.then_some(*culprit)
    }

    /// The last interval of each other thread that ended with the wait. Where the waiter shares its
    /// file with others, only theirs; else of those that share the file of its caller, and so on.
    fn stays_that_ended(&self, not: u32, wait: &Ended) -> Vec<Stay> {
        let others = self.capture.samples.keys().copied().filter(|tid| *tid != not);
        let last = |tid: u32| {
            let own = self.stays(tid, wait).into_iter().rev();
            let mut ended = own.filter(|s| s.ended_with(wait) && s.gone_ns - s.last_ns <= APART_NS);
            ended.next()
        };
        let mut all: Vec<Stay> = others.filter_map(last).collect();
        if !wait.knows {
            return all;
        }
        for file in self.frames.own_files(wait.stack) {
            let knows = |s: &Stay| self.frames.is_in_file(s.stack, file);
            if all.iter().any(knows) {
                all.retain(knows);
                return all;
            }
        }
        Vec::new()
    }

    /// Whether `place` is of code that led to `stack`, which waits for room in a full queue: a
    /// thread there is to put something into it as well, and empties nothing.
    fn is_behind(&self, stack: u32, place: &Place) -> bool {
        let own = self.frames.of(stack).filter(|f| self.frames.owner(f.file) == Owner::User);
        let mut callers = own.skip(1);
        pool_wait::puts(self, stack)
            && callers.any(|f| f.file == place.file && f.function == place.qualified)
    }

    /// The intervals of `tid` during and just after a wait, each in one function of the program's
    /// own, except where it waited for the same.
    pub(crate) fn stays(&self, tid: u32, wait: &Ended) -> Vec<Stay> {
        self.stays_at(tid, wait, |look| self.frames.innermost_user(look.stack))
    }

    /// The intervals of `tid` in any of the program's own functions, whatever that called
    /// meanwhile.
    pub(crate) fn outer_stays(&self, tid: u32, wait: &Ended) -> Vec<Stay> {
        let user =
            |f: &Frame<'_>| self.frames.owner(f.file) == Owner::User && f.function != "<module>";
        let looks = self.samples_in(tid, wait.from, wait.end.1 + APART_NS);
        let mut stacks: Vec<u32> = looks.iter().map(|s| s.stack).collect();
        stacks.sort_unstable();
        stacks.dedup();
        let mut functions: Vec<(String, String)> = Vec::new();
        for frame in stacks.iter().flat_map(|stack| self.frames.of(*stack)).filter(user) {
            let function = (frame.function.to_owned(), frame.file.to_owned());
            if !functions.contains(&function) {
                functions.push(function);
            }
        }
        let stays = |(function, file): &(String, String)| {
            let is_it = |f: &Frame<'_>| f.function == *function && f.file == *file;
            self.stays_at(tid, wait, |look| {
                let at = self.frames.of(look.stack).find(is_it)?;
                Some(self.frames.place(&at))
            })
        };
        functions.iter().flat_map(stays).collect()
    }

    /// The intervals of `tid` where `place_of` says that it was.
    fn stays_at(
        &self,
        tid: u32,
        wait: &Ended,
        place_of: impl Fn(&Sample) -> Option<Place>,
    ) -> Vec<Stay> {
        let Ended { stack, lock, from, end, .. } = *wait;
        let before = self.samples_in(tid, 0, from).last();
        let stands = before.filter(|s| self.out_until(tid, s.t_ns).is_some_and(|t| t > from));
        let begin_ns = stands.map_or(from, |s| s.t_ns);
        let looks = self.samples_in(tid, begin_ns, end.1 + APART_NS);
        let works = |s: &Sample| {
            let parked = self.rests(tid, s);
            let waits = s.wait == WaitKind::Futex;
            // A fellow that waits for the same keeps nobody.
            let fellow = s.target == lock || pool_wait::is_of_a_pool(self, s.stack);
            let file = s.wait == WaitKind::FileLock && s.target == lock;
            let file = file || self.asks(s) && self.frames.asks_sqlite(stack);
            !(parked || waits && fellow || file)
        };
        let place = |s: &Sample| place_of(s).filter(|_| works(s));
        let key = |s: &Sample| place(s).map(|p| (p.qualified, p.file));
        let mut found = Vec::new();
        let mut runs = looks.chunk_by(|a, b| key(a) == key(b)).peekable();
        while let Some(run) = runs.next() {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let next = runs.peek().and_then(|run| run.first()).map(|s| s.t_ns);
            let done = self.request_end(tid, last.t_ns);
            let gone = done.into_iter().chain(next).min();
            // With switch records a thread that does not run is not sampled: it was there until it
            // came back.
            let out = self.out_until(tid, last.t_ns);
            let last_ns = out.map_or(last.t_ns, |t| t.max(last.t_ns));
            let gone = gone.or(out).map(|t| t.max(last_ns));
            let gone = gone.filter(|t| done == Some(*t) || t.saturating_sub(last_ns) <= APART_NS);
            let (Some(gone_ns), Some(place)) = (gone, place(last)) else { continue };
            if !self.is_behind(stack, &place) {
                let (first_ns, locked) = (first.t_ns, last.wait == WaitKind::Futex);
                let done_ns = done.filter(|done| *done == gone_ns);
                found.push(Stay {
                    place,
                    tid,
                    stack: last.stack,
                    locked,
                    first_ns,
                    last_ns,
                    gone_ns,
                    done_ns,
                });
            }
        }
        found
    }

    /// Whether a sample found `tid` waiting for something to do: for connections, or for any of
    /// several descriptors, but in a request. With a time limit a socket's answer is waited for in
    /// `poll` as well.
    pub(crate) fn rests(&self, tid: u32, look: &Sample) -> bool {
        let asks = || {
            let leaf = self.frames.of(look.stack).find(|f| !f.native);
            let is = |name: &str| leaf.is_some_and(|f| f.file.ends_with(name));
            let one = || self.target(look).is_some_and(|target| !target.contains("[eventpoll]"));
            is("/socket.py") || is("/ssl.py") || !is("/selectors.py") && one()
        };
        match look.wait {
            WaitKind::Accept => true,
            WaitKind::Poll => self.request_end(tid, look.t_ns).is_none() && !asks(),
            _ => false,
        }
    }

    /// Whether `tid`, of which `stack` is what it mostly did in that time, waited for something to
    /// do, in code that is not the program's: a server's worker that gave back what it had, and has
    /// had nothing since.
    pub(crate) fn idles(&self, tid: u32, (from_ns, to_ns): (u64, u64), stack: u32) -> bool {
        let waits =
            |s: &Sample| matches!(s.wait, WaitKind::Futex | WaitKind::Poll | WaitKind::Accept);
        let mut looks = self.samples_in(tid, from_ns, to_ns).iter().filter(|s| s.stack == stack);
        !self.frames.has_user(stack) && looks.all(waits)
    }

    /// Until when switch records say that `tid` was off the CPU, if it was so at `t_ns`.
    pub(crate) fn out_until(&self, tid: u32, t_ns: u64) -> Option<u64> {
        self.off_at(tid, t_ns).map(|off| off.in_ns)
    }

    /// The holder of the GIL while the thread of this timeline waited for it most of the time of
    /// `segment`; none where several took turns.
    pub(crate) fn gil_keeper(&self, own: &[Segment<'_>], segment: &Segment<'_>) -> Option<Culprit> {
        let waits = |s: &&Segment<'_>| s.state == State::Wait && s.wait() == WaitKind::Gil;
        let all = own.iter().filter(waits).map(Segment::ns).sum::<u64>();
        if all * 2 <= segment.ns() {
            return None;
        }
        let mut had: HashMap<u32, u64> = HashMap::new();
        for wait in own.iter().filter(waits) {
            let holder = self.gil_holder(wait).filter(|holder| holder.measured);
            *had.entry(holder.map_or(0, |holder| holder.tid)).or_default() += wait.ns();
        }
        let (tid, ns) = had.into_iter().max_by_key(|(tid, ns)| (*ns, *tid))?;
        let stack = self.main_stack(tid, segment.from_ns, segment.to_ns);
        let by = Inference::GilHolder;
        let found = Culprit { by_gil: true, ..Culprit::thread(tid, stack, true, by) };
        (tid != 0 && ns * 2 > all).then_some(found)
    }
}
