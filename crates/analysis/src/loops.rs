//! Whether an event loop's thread waits for something to do, or was kept by something.
//!
//! How it works: a loop waits in one call, its epoll or its selector; anything else that its thread
//! waits for is a callback's. Most samples have what is polled. Samples of a thread that nothing
//! asked about do not, and then the code that polls decides.

use format::wait::WaitKind;

use crate::cost::{self, Step};
use crate::index::Index;
use crate::resource::is_epoll;
use crate::signatures::Stdlib;
use crate::thresholds;
use crate::timeline::{Segment, State};

impl<'c> Index<'c> {
    /// Whether the segment's thread runs an event loop.
    pub fn is_loop(&self, segment: &Segment<'_>) -> bool {
        self.loops.contains(&segment.tid)
    }

    /// Whether a loop's thread waits for something to do: in its own epoll or its selector, not in
    /// a call that polls a peer (a blocking client's). A native runtime's worker waits without any
    /// code of the program, in epoll or for a fellow worker's notice.
    pub fn is_idle_loop(&self, segment: &Segment<'_>) -> bool {
        if self.is_parked_worker(segment) {
            return true;
        }
        if segment.state != State::Wait || segment.wait() != WaitKind::Poll {
            return false;
        }
        // A task of the loop's ran: its code polls, and be it an epoll of its own.
        if segment.sample.is_some_and(|s| s.task != 0) {
            return false;
        }
        match segment.sample.and_then(|s| self.target(s)) {
            Some(target) if is_epoll(&target) => true,
            Some(_) => {
                let caller = self.frames.of(segment.stack()).nth(1);
                caller.is_some_and(|f| self.frames.is_at(&f, Stdlib::LoopRunOnce))
            }
            // Nobody asked what it polls: its loop's epoll, unless a callback is at it.
            None => !self.is_in_a_callback(segment.stack()),
        }
    }

    /// Whether a native runtime's worker waits, with no task to run.
    pub fn is_parked_worker(&self, segment: &Segment<'_>) -> bool {
        let waits = matches!(segment.wait(), WaitKind::Futex | WaitKind::Poll);
        segment.state == State::Wait && waits && self.frames.is_parked_worker(segment.stack())
    }

    /// Whether a loop's thread is in code that a callback called, or in a call that waits for one
    /// peer.
    fn is_in_a_callback(&self, stack: u32) -> bool {
        let peers = [Stdlib::Socket, Stdlib::Tls];
        peers.iter().any(|code| self.frames.leaf_at(stack, *code))
            || self.frames.any_at(stack, Stdlib::LoopCallback)
    }

    /// Whether a loop's thread was off the CPU for long and no sample shows where: in its poll call
    /// most likely, since that is where a loop waits. Short waits between samples are a callback's.
    pub fn may_poll(&self, segment: &Segment<'_>) -> bool {
        let unseen = segment.sample.is_none_or(|s| s.wait == WaitKind::Running);
        segment.state == State::Wait && unseen && segment.ns() >= thresholds::short_wait_ns()
    }

    /// How long the loop's thread was away from its poll call around `segment`, without a break; as
    /// far as 2 s before and behind it. 0 where it mostly waited and no sample of all that time
    /// found it at anything: it may have polled again and again. Cost: a timeline, unless it lies
    /// in the interval asked for last.
    pub fn busy_around(&self, segment: &Segment<'_>) -> u64 {
        if let Some((begin, end, busy_ns)) = self.busy.borrow().get(&segment.tid) {
            if *begin <= segment.from_ns && segment.to_ns <= *end {
                return *busy_ns;
            }
        }
        let near = cost::LOOP_POLLS
            .map(Step::ns)
            .iter()
            .find_map(|reach_ns| self.busy_between_polls(segment, *reach_ns));
        let busy = near.unwrap_or_else(|| self.busy_within(segment, thresholds::usual_ns()).times);
        self.busy.borrow_mut().insert(segment.tid, busy);
        busy.2
    }

    /// What a longer reach gives, too. None: it may give another answer.
    fn busy_between_polls(&self, segment: &Segment<'_>, reach_ns: u64) -> Option<(u64, u64, u64)> {
        let busy = self.busy_within(segment, reach_ns);
        busy.is_closed.then_some(busy.times)
    }

    /// As far as `reach_ns` before and behind the segment.
    fn busy_within(&self, segment: &Segment<'_>, reach_ns: u64) -> Busy {
        let (from, to) = (segment.from_ns.saturating_sub(reach_ns), segment.to_ns + reach_ns);
        let around = self.timeline(segment.tid, from, to);
        let polls = |s: &Segment<'_>| self.is_idle_loop(s) || self.may_poll(s);
        let (mut begin, mut end) = segment.times();
        let (mut before, mut behind) = (None, None);
        for s in around.iter().rev().skip_while(|s| s.to_ns > segment.from_ns) {
            if polls(s) {
                before = Some(s.from_ns);
                break;
            }
            begin = s.from_ns;
        }
        for s in around.iter().skip_while(|s| s.from_ns < segment.to_ns) {
            if polls(s) {
                behind = Some(s.to_ns);
                break;
            }
            end = s.to_ns;
        }
        let inside = || around.iter().filter(|s| s.from_ns >= begin && s.to_ns <= end);
        let found = |s: &Segment<'_>| {
            let seen = s.state != State::Wait || s.wait() != WaitKind::Running;
            s.sample.is_some() && s.stack() != 0 && seen
        };
        let waits = inside().filter(|s| s.state == State::Wait).map(Segment::ns).sum::<u64>();
        let unknown = waits * 2 > end - begin && !inside().any(found);
        let is_closed = before.zip(behind).is_some_and(|(before, behind)| {
            let mut all = around.iter().filter(|s| s.from_ns >= before && s.to_ns <= behind);
            before > from && behind < to && all.all(|s| s.exact)
        });
        Busy { times: (begin, end, if unknown { 0 } else { end - begin }), is_closed }
    }

    /// The intervals in `[from, to)` in which code kept a worker of a native runtime while no other
    /// one polled: nobody saw what became ready. Workers share one poll call, and while one of them
    /// is kept the others may wait for its notice. Without those in which a worker ran or was not
    /// seen: it may have polled. Cost: a timeline for each worker; of each interval, for each
    /// thread.
    pub fn kept_while_nobody_polled(&self, (from_ns, to_ns): (u64, u64)) -> Vec<Segment<'c>> {
        let mut kept: Vec<Segment<'c>> = Vec::new();
        let mut workers: Vec<u32> = self.loops.iter().copied().collect();
        workers.sort_unstable();
        for tid in workers {
            let mut last: Option<Segment<'c>> = None;
            for s in self.timeline(tid, from_ns, to_ns) {
                let waits = s.state == State::Wait && s.stack() != 0 && !self.may_poll(&s);
                let idle = !waits || self.is_parked_worker(&s);
                last = match last {
                    Some(one) if !idle && one.stack() == s.stack() => {
                        Some(Segment { to_ns: s.to_ns, ..one })
                    }
                    other => {
                        kept.extend(other);
                        (!idle).then_some(s)
                    }
                };
            }
            kept.extend(last);
        }
        kept.retain(|s| s.ns() >= thresholds::loop_blocked_ns() && !self.may_be_polled(s));
        kept
    }

    /// Whether a worker may have polled for more than a small part of `segment`.
    fn may_be_polled(&self, segment: &Segment<'_>) -> bool {
        let mut ns = 0;
        for tid in self.others(0) {
            let is_worker = self.loops.contains(&tid) || self.is_named_like_a_loop(tid);
            for s in self.timeline(tid, segment.from_ns, segment.to_ns) {
                let idle = self.is_parked_worker(&s);
                let polls = s.wait() == WaitKind::Poll && (idle || s.stack() == 0);
                let may_poll = polls || s.state != State::Wait || self.may_poll(&s);
                ns += if may_poll && (is_worker || idle) { s.ns() } else { 0 };
            }
        }
        ns as f64 >= thresholds::small_part() * segment.ns() as f64
    }

    /// Whether a thread that began no request has the name of one that runs an event loop: a worker
    /// of the same runtime.
    fn is_named_like_a_loop(&self, tid: u32) -> bool {
        let name = self.capture.thread_name(tid);
        name.is_some() && self.loops.iter().any(|of| self.capture.thread_name(*of) == name)
    }
}

/// How long a loop was away from its poll call.
struct Busy {
    /// Begin, end, and how long that counts.
    times: (u64, u64, u64),
    /// Switch records alone give the time from a whole wait at the poll call before it to one
    /// behind it: a timeline that reaches further has the same segments there.
    is_closed: bool,
}
