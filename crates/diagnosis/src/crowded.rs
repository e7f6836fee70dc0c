//! Work on a machine that has too few CPUs for it: what is the work's, and what is the machine's.
//!
//! How it works: a thread that computes for long on a crowded machine is off the CPU for longer
//! than on it, so that the longest part of a slow request may be time without a CPU although the
//! work is what is wrong. What the CPU was needed *for* decides: if one thread's work without a
//! break (its *burst*: time on a CPU between two waits) reaches the slow requests' limit by itself,
//! it would have been too slow on a free machine as well. A burst is that of one request: many
//! short ones in a row delay nobody for long where there are CPUs. Then time without a CPU within
//! it counts as that work, and a thread that waits for the GIL meanwhile waits for its holder.
//! Otherwise it is cpu-starved.
//!
//! A thread that ran for microseconds at a time, many times over, may have given its CPU away
//! itself (`sched_yield` in a loop: a lock that spins), or others may have preempted it each time
//! they woke: the kernel's records are the same. Such time is nobody's.
//!
//! What it promises: lengths are as before, only their claims change; and of a request whose work
//! alone is within the limit nothing changes.

use std::collections::HashMap;

use capture::read::Capture;

use crate::causes::{Cause, Claim};
use crate::explain::trace::Question;
use crate::explain::{Dropped, Fact, Inference, Threshold};
use crate::pieces::Piece;
use crate::scene::{Culprit, Scene};
use analysis::resource::Resource;
use analysis::timeline::{Segment, State};
use format::wait::WaitKind;

/// How far around a moment a burst is followed, and how far at first: most are short, and a
/// timeline of seconds is expensive.
const SPAN_NS: u64 = 3_000_000_000;
const FIRST_SPAN_NS: u64 = 100_000_000;
/// A wait as short as this does not end a burst.
const BREAK_NS: u64 = 20_000_000;

/// A thread that has just asked for the GIL, or asks for it again, runs for less than this in
/// between.
pub(crate) const ASKING_NS: u64 = 2_000_000;

/// A thread's work without a break.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    pub from_ns: u64,
    pub to_ns: u64,
    /// Time on a CPU in it.
    pub ran_ns: u64,
}

/// Bursts that were searched for.
#[derive(Debug, Default)]
pub(crate) struct Bursts {
    /// The last one of each thread.
    last: HashMap<u32, Burst>,
    /// When requests, and parts of them, ended, by the thread that worked for them, in order.
    ends: Option<HashMap<u32, Vec<u64>>>,
}

impl Bursts {
    /// The burst of `tid` around `[from, to)`. Waits for the GIL are no break: they are part of
    /// working. Cost: a timeline of twice its length, and some more, of 12 s at most, unless it is
    /// the one asked for last.
    pub(crate) fn around(&mut self, scene: &Scene<'_>, tid: u32, from: u64, to: u64) -> Burst {
        let known = self.last.get(&tid).filter(|b| b.from_ns <= from && to <= b.to_ns);
        if let Some(known) = known {
            return *known;
        }
        let ends = self.ends.get_or_insert_with(|| ends_of_work(scene.capture));
        let ends = ends.get(&tid).map_or(&[][..], Vec::as_slice);
        let found = burst(scene, tid, from, to, ends);
        self.last.insert(tid, found);
        found
    }
}

fn ends_of_work(capture: &Capture) -> HashMap<u32, Vec<u64>> {
    let mut ends: HashMap<u32, Vec<u64>> = HashMap::new();
    for request in &capture.requests {
        ends.entry(request.tid).or_default().extend(request.end_ns);
    }
    for task in &capture.tasks {
        ends.entry(task.tid).or_default().push(task.end_ns);
    }
    ends.values_mut().for_each(|ends| ends.sort_unstable());
    ends
}

/// `ends`: where it is cut. On a crowded machine a thread that is done with a request has the next
/// one in hand at once: several short ones in a row are no long work.
fn burst(scene: &Scene<'_>, tid: u32, from_ns: u64, to_ns: u64, ends: &[u64]) -> Burst {
    // Before its first record and behind its last one nobody knows what it did, or whether it was
    // there.
    let (first, last) = known(scene, tid);
    let first =
        first.max(ends[..ends.partition_point(|end| *end <= from_ns)].last().copied().unwrap_or(0));
    let last =
        last.min(ends.get(ends.partition_point(|end| *end < to_ns)).copied().unwrap_or(u64::MAX));
    let mut span_ns = FIRST_SPAN_NS;
    loop {
        let begin = from_ns.saturating_sub(span_ns).max(first).min(from_ns);
        let end = (to_ns + span_ns).min(last).max(begin);
        let found = burst_within(&scene.timeline(tid, begin, end), ends, (from_ns, to_ns));
        // One that reaches an edge goes on behind it, or a wait there was cut to what is no break.
        let whole = (begin == first || found.from_ns > begin) && (end == last || found.to_ns < end);
        if whole || span_ns >= SPAN_NS {
            return found;
        }
        span_ns = (span_ns * 4).min(SPAN_NS);
    }
}

/// The burst around `[from, to)` with most time on a CPU, as far as this timeline shows: cut at
/// `ends`, where the thread was done with something.
fn burst_within(all: &[Segment<'_>], ends: &[u64], (from_ns, to_ns): (u64, u64)) -> Burst {
    // A wait behind which there was no CPU is as long as both.
    let ns = |i: usize| {
        let late = all.get(i + 1).filter(|s| s.state == State::Ready && s.exact);
        all[i].ns() + late.map_or(0, Segment::ns)
    };
    let works = |i: &usize| match all[*i].state {
        State::Run | State::Ready => true,
        State::Wait => all[*i].wait() == WaitKind::Gil || ns(*i) < BREAK_NS,
        State::Unknown => false,
    };
    let before = (0..all.len()).rev().skip_while(|i| all[*i].from_ns >= from_ns);
    let begin_ns = before.take_while(works).last().map_or(from_ns, |i| all[i].from_ns.min(from_ns));
    let behind = (0..all.len()).skip_while(|i| all[*i].to_ns <= to_ns);
    let end_ns = behind.take_while(works).last().map_or(to_ns, |i| all[i].to_ns.max(to_ns));
    let first = ends.partition_point(|end| *end <= from_ns);
    let inside = ends[first..].iter().copied().take_while(|end| *end < to_ns);
    let mut most = Burst { from_ns: begin_ns, to_ns: begin_ns, ran_ns: 0 };
    let mut at = begin_ns;
    for until in inside.chain([end_ns]) {
        let part = |s: &Segment<'_>| s.to_ns.min(until).saturating_sub(s.from_ns.max(at));
        let ran_ns = all.iter().filter(|s| s.state == State::Run).map(part).sum();
        if ran_ns > most.ran_ns || most.to_ns == most.from_ns {
            most = Burst { from_ns: at, to_ns: until, ran_ns };
        }
        at = until;
    }
    most
}

/// When something was recorded of a thread first and last.
fn known(scene: &Scene<'_>, tid: u32) -> (u64, u64) {
    let samples = scene.capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
    let off = scene.capture.off_cpu.get(&tid).map_or(&[][..], Vec::as_slice);
    let first = samples.first().map(|s| s.t_ns).into_iter().chain(off.first().map(|o| o.out_ns));
    let last = samples.last().map(|s| s.t_ns).into_iter().chain(off.last().map(|o| o.in_ns));
    (first.min().unwrap_or(u64::MAX), last.max().unwrap_or(0))
}

/// Gives the time without a CPU inside of long work to that work. Of a request's intervals, in
/// order.
pub(crate) fn settle(scene: &Scene<'_>, pieces: &mut [Piece<'_>]) {
    if !pieces.iter().any(|p| p.claim.cause == Cause::CpuStarved) {
        return;
    }
    let mut ran: HashMap<u32, u64> = HashMap::new();
    for s in pieces.iter().map(|p| &p.segment).filter(|s| s.state == State::Run) {
        *ran.entry(s.tid).or_default() += s.ns();
    }
    let long: Vec<bool> = pieces
        .iter()
        .map(|p| {
            let (s, claim) = (&p.segment, &p.claim);
            match claim.cause {
                // Also its work in parts, with waits between them. What a thread did before or
                // after this request counts on an event loop only.
                Cause::CpuStarved if scene.is_loop(s) => scene.works_long(s.tid, s),
                Cause::CpuStarved => ran.get(&s.tid).is_some_and(|ns| *ns >= scene.limit_ns),
                // A thread that keeps the GIL for long also delays threads that could not even ask
                // for it.
                Cause::GilWait => claim.culprit.is_some_and(|c| scene.works_long(c.tid, s)),
                _ => false,
            }
        })
        .collect();
    let given: Vec<Option<Claim>> = (0..pieces.len())
        .map(|i| {
            let starved = pieces[i].claim.cause == Cause::CpuStarved;
            let ready = starved && pieces[i].segment.state == State::Ready;
            ready.then(|| nearest(pieces, &long, i)).flatten()
        })
        .collect();
    for (piece, claim) in pieces.iter_mut().zip(given) {
        if let Some(claim) = claim {
            let stack = if piece.claim.stack != 0 { piece.claim.stack } else { claim.stack };
            let stack = if claim.culprit.is_some() { claim.stack } else { stack };
            piece.claim = Claim { stack, rule: "cpu-contention", ..claim };
        }
    }
}

/// Intervals shorter than this are a turn of the scheduler's.
const TURN_NS: u64 = 1_000_000;

impl Scene<'_> {
    /// Whether the work that `tid` was at during `segment` takes longer than the limit by itself,
    /// on however free a machine: without a break, or for one request. Cost: a timeline, unless it
    /// is the work asked for last.
    pub fn works_long(&self, tid: u32, segment: &Segment<'_>) -> bool {
        let (from, to) = (segment.from_ns, segment.to_ns);
        let found = self.bursts.borrow_mut().around(self, tid, from, to);
        found.ran_ns >= self.limit_ns || self.serves_long(tid, (from, to))
    }

    /// Whether a request that `tid` worked for in `[from, to)` took more of a CPU than the limit,
    /// with whatever waits in between.
    fn serves_long(&self, tid: u32, (from, to): (u64, u64)) -> bool {
        let all = self.served().get(&tid).map_or(&[][..], Vec::as_slice);
        // A thread works for one after the other.
        let first = all.partition_point(|(_, end)| *end <= from);
        let ended = all[first..].iter().take_while(|(begin, _)| *begin < to).copied();
        // One that still runs is the last.
        let open = self.open_requests().get(&tid).filter(|begin| **begin < to);
        let open = open.map(|begin| (*begin, self.capture.meta.to_ns));
        // A damaged capture may say that one ended before it began.
        ended.chain(open).filter(|(begin, end)| begin < end).any(|(begin, end)| {
            let known = self.request_work.borrow().get(&(tid, begin)).copied();
            let ran_ns = known.unwrap_or_else(|| {
                let own = self.timeline(tid, begin, end);
                own.iter().filter(|s| s.state == State::Run).map(Segment::ns).sum()
            });
            self.request_work.borrow_mut().insert((tid, begin), ran_ns);
            ran_ns >= self.limit_ns
        })
    }

    /// When each thread took up the request that it was at when the capture ended.
    fn open_requests(&self) -> &HashMap<u32, u64> {
        self.open_requests.get_or_init(|| {
            let open = self.capture.requests.iter().filter(|r| !r.on_loop && r.end_ns.is_none());
            open.map(|r| (r.tid, r.started_ns)).collect()
        })
    }

    /// The thread of this process that had a CPU most while `segment` had none, if its threads took
    /// at least half of all that the process may use; None where others of the machine did, or how
    /// many there are is not known. Cost: a timeline of each thread.
    pub fn burner(&self, segment: &Segment<'_>) -> Option<Culprit> {
        let cpus = self.capture.meta.all["cpus"].as_u64().filter(|cpus| *cpus > 0)?;
        let (from, to) = (segment.from_ns, segment.to_ns);
        if segment.ns() < TURN_NS {
            return None;
        }
        let ran = |tid: u32| -> u64 {
            let own = self.timeline(tid, from, to);
            own.iter().filter(|s| s.state == State::Run).map(Segment::ns).sum()
        };
        let others = self.capture.samples.keys().copied().filter(|tid| *tid != segment.tid);
        let all: Vec<(u64, u32)> = others.map(|tid| (ran(tid), tid)).collect();
        let sum = all.iter().fold(0u64, |sum, (ns, _)| sum.saturating_add(*ns));
        // Of two that ran as long always the same: a map has no order.
        let (_, tid) = all.iter().copied().max()?;
        let stack = self.main_stack(tid, from, to);
        let ours = sum.saturating_mul(2) >= cpus.saturating_mul(segment.ns()) && stack != 0;
        let question = Question::about(Inference::CpuUser, segment);
        if self.trace.wants(from, to) {
            let tally: Vec<(u32, u64)> =
                all.iter().filter(|(ns, _)| *ns > 0).map(|(ns, tid)| (*tid, *ns)).collect();
            let lost = if ours { Dropped::LessEvidence } else { Dropped::TooLittle };
            let least = Threshold::part("cpu-user.part-of-all-cpus", 0.5);
            self.trace_tally(question, (&tally, Fact::Time), (ours.then_some(tid), lost), &[least]);
        }
        ours.then(|| Culprit::thread(tid, stack, segment.exact, question.by))
    }
}

/// Whether the thread hardly ran between two of its intervals.
fn hardly_runs(pieces: &[Piece<'_>], a: usize, b: usize) -> bool {
    let between = &pieces[a.min(b) + 1..a.max(b)];
    between.iter().all(|p| p.segment.state != State::Run || p.segment.ns() < ASKING_NS)
}

/// Runs so short, and so many in a row, are no time slices.
const SLIVER_NS: u64 = 50_000;
const MANY: usize = 8;

/// Takes time without a CPU between runs of microseconds from cpu-starved. Of a request's
/// intervals, in order.
pub(crate) fn doubt(pieces: &mut [Piece<'_>]) {
    let joins = |a: &Piece<'_>, b: &Piece<'_>| {
        let awake = |p: &Piece<'_>| matches!(p.segment.state, State::Run | State::Ready);
        a.segment.tid == b.segment.tid && awake(a) && awake(b) && a.segment.exact && b.segment.exact
    };
    for stretch in pieces.chunk_by_mut(joins) {
        let alike = |a: &Piece<'_>, b: &Piece<'_>| a.segment.state == b.segment.state;
        let runs = stretch.chunk_by(alike).filter(|part| part[0].segment.state == State::Run);
        let mut runs: Vec<u64> =
            runs.map(|part| part.iter().map(|p| p.segment.ns()).sum()).collect();
        runs.sort_unstable();
        if runs.len() < MANY || runs[runs.len() / 2] >= SLIVER_NS {
            continue;
        }
        for piece in stretch.iter_mut().filter(|p| p.claim.cause == Cause::CpuStarved) {
            let resource = Some(Resource::ShortRuns);
            let own = Claim::of(Cause::Unknown, &piece.segment);
            piece.claim = Claim { resource, rule: "runs-of-microseconds", ..own };
        }
    }
}

/// The claim of the work, or of the wait for the GIL, that the thread was about before or after it
/// had no CPU; without a wait of another kind in between, nor, up to a wait for the GIL, work: a
/// thread that computes and loses its CPU waits for no GIL.
fn nearest(pieces: &[Piece<'_>], long: &[bool], at: usize) -> Option<Claim> {
    let own = &pieces[at];
    let fits = |i: &usize| {
        let (claim, state) = (&pieces[*i].claim, pieces[*i].segment.state);
        let work = long[at] && state == State::Run;
        work || claim.cause == Cause::GilWait && long[*i] && hardly_runs(pieces, at, *i)
    };
    let passes = |i: &usize| {
        let s = &pieces[*i].segment;
        let awake = matches!(s.state, State::Run | State::Ready) || s.wait() == WaitKind::Gil;
        s.tid == own.segment.tid && awake
    };
    let before = (0..at).rev().take_while(passes).find(fits);
    let after = (at + 1..pieces.len()).take_while(passes).find(fits);
    let away = |i: &usize| at.abs_diff(*i);
    let found = before.into_iter().chain(after).min_by_key(away)?;
    Some(pieces[found].claim.clone())
}
