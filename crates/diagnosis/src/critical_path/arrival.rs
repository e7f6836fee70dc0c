//! Time a request lay in its socket before its handler began.
//!
//! No thread worked for it then, so its own timeline says nothing; what kept the *process* from
//! taking it up does. Eight answers: the process was stopped, its worker
//! was in the predicate that dashcam asks, another thread forked, a collection ran (or its thread
//! got no CPU), its worker got no CPU, threads waited for the GIL, the worker that took the request
//! in the end was busy with another one. Of those that cover half of the time the one on the
//! heaviest grounds is the answer (`causes::grounds`).
//!
//! A worker that waited for a client meanwhile, in the server's own code, was kept by another
//! connection: a client that sends nothing, or takes nothing, keeps it from everybody else.
//!
//! If none does, the time is divided by what the threads did that were to take it up, one after the
//! other. The first is a thread started for this request, from its birth on. Before that (or
//! instead, where the worker is older and idled) it is the one thread that usually waits for
//! connections and did not then: it was still importing the program, starting another thread, or
//! without a CPU. If that explains most of the time it is used, as an inference; else the time is
//! unknown.

use std::cell::RefCell;

use analysis::requests::Judged;
use analysis::resource::Resource;
use analysis::signatures::Stdlib;
use analysis::thresholds;
use analysis::timeline::{overlap_ns, Segment, State};
use capture::read::RequestRow;
use format::record::Sample;
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::causes::cpus::cpu_throttled;
use crate::causes::grounds::Grounds;
use crate::causes::system::{fork, stopped};
use crate::causes::{self, recorder, rule};
use crate::claim::{Blocker, Claim, Slice};
use crate::compare::Question;
use crate::context::Context;
use crate::critical_path::followed::follow;
use crate::critical_path::kept_gil;
use crate::explain::{Candidate, Dropped, Fact, Fate, Inference, Subject, Threshold};
use crate::facts::{imports, long_work, threads};

/// A request that lay in its socket, and when.
struct Lay<'a, 'c> {
    request: &'a Judged<'c>,
    segment: &'a Segment<'a>,
}

/// What may have kept the process from taking a request up.
struct AnswerRule {
    id: &'static str,
    grounds: Grounds,
    ask: fn(&Context<'_>, &Lay<'_, '_>) -> Answer,
}

/// All of them; their order decides nothing.
const ANSWERS: &[AnswerRule] = &[
    AnswerRule {
        id: "arrival-stopped",
        grounds: Grounds::Stopped,
        ask: |cx, lay| still(cx, lay.segment),
    },
    AnswerRule {
        id: "arrival-predicate",
        grounds: Grounds::Recorder,
        ask: |cx, lay| asked(cx, lay.segment),
    },
    AnswerRule {
        id: "arrival-fork",
        grounds: Grounds::Fork,
        ask: |cx, lay| fork::elsewhere(cx, lay.segment).map(|claim| (lay.segment.ns(), claim)),
    },
    AnswerRule {
        id: "arrival-gc",
        grounds: Grounds::Collection,
        ask: |cx, lay| collection(cx, lay.segment),
    },
    AnswerRule {
        id: "arrival-gil-kept-long",
        grounds: Grounds::LongWork,
        ask: |cx, lay| {
            let kept = |(_, claim): &(u64, Claim)| kept_gil::for_long(cx, claim, lay.segment);
            kept_gil::answer(cx, lay.segment).filter(kept)
        },
    },
    AnswerRule {
        id: "arrival-no-cpu",
        grounds: Grounds::Counters,
        ask: |cx, lay| starved(cx, lay.segment),
    },
    AnswerRule {
        id: "arrival-gil",
        grounds: Grounds::Others,
        ask: |cx, lay| kept_gil::answer(cx, lay.segment),
    },
    AnswerRule {
        id: "arrival-worker-busy",
        grounds: Grounds::Line,
        ask: |cx, lay| busy(cx, lay.request, lay.segment),
    },
];

/// The intervals from a request's arrival to its handler's start; none when it was taken up at
/// once.
pub fn slices<'c>(cx: &Context<'c>, request: &Judged<'c>) -> Vec<Slice<'c>> {
    let row = request.row;
    let (from_ns, to_ns) = (row.begin_ns, row.started_ns.min(request.end_ns));
    if to_ns <= from_ns {
        return Vec::new();
    }
    let exact = cx.capture.has_switches(from_ns, to_ns);
    let segment = Segment {
        tid: row.tid,
        from_ns,
        to_ns,
        state: State::Wait,
        sample: None,
        sampled: false,
        exact,
    };
    let asked = Lay { request, segment: &segment };
    let covered_by: RefCell<Vec<(Cause, u64)>> = RefCell::default();
    let ask = |answer: &AnswerRule| {
        let (covered, claim) = (answer.ask)(cx, &asked)?;
        covered_by.borrow_mut().push((claim.cause, covered));
        (covered * 2 >= segment.ns()).then(|| claim.by_rule(answer.id))
    };
    let claim = rule::heaviest(cx, ANSWERS, |a| a.grounds, |a| a.id, ask);
    keep(cx, &segment, &covered_by.take(), claim.is_some());
    let Some(claim) = claim else {
        let slices = taken_up(cx, &segment);
        let known = slices.iter().filter(|p| p.claim.cause != Cause::Unknown);
        return match known.map(|p| p.segment.ns()).sum::<u64>() * 2 >= segment.ns() {
            true => slices,
            false => vec![Slice { claim: Claim::of(Cause::Unknown, &segment), segment }],
        };
    };
    vec![Slice { segment, claim: Claim { seen: true, ..claim } }]
}

/// Keeps, if it is wanted, how much of the time each answer covers that was asked for.
fn keep(cx: &Context<'_>, segment: &Segment<'_>, covered_by: &[(Cause, u64)], found: bool) {
    if covered_by.is_empty() || !cx.trace.wants(segment.from_ns, segment.to_ns) {
        return;
    }
    let candidate = |(at, (cause, ns)): (usize, &(Cause, u64))| {
        let won = found && at + 1 == covered_by.len();
        let fate = if won { Fate::Won } else { Fate::Dropped(Dropped::TooLittle) };
        let weight = (*ns as f64 / segment.ns().max(1) as f64).min(1.0);
        Candidate {
            who: Subject::Cause(*cause),
            place: None,
            evidence: vec![Fact::Time(*ns, segment.ns())],
            weight: Some(weight),
            fate,
            won: usize::from(won),
        }
    };
    let mut candidates: Vec<Candidate> = covered_by.iter().enumerate().map(candidate).collect();
    candidates.reverse();
    let least = Threshold::part("arrival.part-of-wait", thresholds::half());
    let question = Question::about(Inference::Arrival, segment);
    cx.trace.put(question.answered((candidates, 0), vec![least]));
}

/// What the threads did that were to take the request up, in order; all of `segment`, or nothing.
fn taken_up<'c>(cx: &Context<'c>, segment: &Segment<'c>) -> Vec<Slice<'c>> {
    let (from, to) = segment.times();
    if segment.ns() < thresholds::short_wait_ns() {
        return Vec::new();
    }
    let mut out = Vec::new();
    // Before its first record a thread was not there, as far as is known.
    let born = threads::first_seen(cx, segment.tid).map_or(to, |at| at.min(to));
    if born <= from {
        let own = life(cx, segment.tid, from, to);
        let busy = own.iter().filter(|s| is_known(cx, s) && !idles(cx, segment, s));
        if busy.map(Segment::ns).sum::<u64>() * 2 >= segment.ns() {
            own.into_iter().for_each(|s| out.push(claimed(cx, segment, s)));
            return out;
        }
    }
    let born = if born <= from { to } else { born };
    match acceptor(cx, segment, born) {
        Some(tid) => {
            let own = life(cx, tid, from, born).into_iter();
            own.for_each(|s| through_start(cx, segment, s, &mut out));
        }
        None => {
            let before = Segment { to_ns: born, ..*segment };
            out.push(Slice { claim: Claim::of(Cause::Unknown, &before), segment: before });
        }
    }
    let own = life(cx, segment.tid, born, to).into_iter();
    own.for_each(|s| out.push(claimed(cx, segment, s)));
    out
}

/// What a thread did. Between two times at which others took its CPU it is seldom sampled, or
/// nothing of it can be read: such short runs are taken for the nearest sample that has a stack.
/// Samples of a program that loads cost so much that there may be none for a while: if two samples
/// saw it load, it loaded between them.
fn life<'c>(cx: &Context<'c>, tid: u32, from: u64, to: u64) -> Vec<Segment<'c>> {
    let mut own = cx.timeline(tid, from, to);
    for run in own.iter_mut().filter(|s| s.state != State::Wait && is_short(s)) {
        if run.stack() == 0 {
            let (from, to) = (
                run.from_ns.saturating_sub(thresholds::borrowed_sample_ns()),
                run.to_ns + thresholds::borrowed_sample_ns(),
            );
            let samples = cx.samples_in(tid, from, to).iter().filter(|s| s.stack != 0);
            run.sample = samples.min_by_key(|s| s.t_ns.abs_diff(run.from_ns)).or(run.sample);
        }
    }
    for run in own.iter_mut().filter(|s| s.state != State::Wait && s.exact && s.stack() == 0) {
        run.sample = loading_around(cx, run).or(run.sample);
    }
    own
}

/// The sample before `run`, if it and the next saw the thread load modules, or if it did and the
/// process had not taken up any request by then: a program that starts has more to do than to load.
fn loading_around<'c>(cx: &Context<'c>, run: &Segment<'c>) -> Option<&'c Sample> {
    let seen = |from, to| cx.samples_in(run.tid, from, to).iter().filter(|s| s.stack != 0);
    let before = seen(run.from_ns.saturating_sub(thresholds::loading_apart_ns()), run.from_ns)
        .next_back()?;
    let behind =
        seen(run.from_ns, run.from_ns.saturating_add(thresholds::loading_apart_ns())).next()?;
    let loads = |s: &Sample| cx.frames.any(s.stack, imports::is_import);
    let starts = || cx.capture.requests.iter().all(|r| r.started_ns >= run.to_ns);
    (loads(before) && (loads(behind) || starts())).then_some(before)
}

/// Whether both ends are from the kernel's records and near: then it did run, or could have, in
/// between.
fn is_short(segment: &Segment<'_>) -> bool {
    segment.exact && segment.ns() < thresholds::borrowed_sample_ns()
}

/// A segment of a thread that was to take the request up.
fn claimed<'c>(cx: &Context<'c>, lay: &Segment<'_>, segment: Segment<'c>) -> Slice<'c> {
    if let Some(claim) = kept_by_a_client(cx, lay, &segment) {
        return Slice { claim: claim.by_rule("arrival-worker-kept-by-a-client"), segment };
    }
    let claim = match idles(cx, lay, &segment) || !is_known(cx, &segment) {
        true => Claim::of(Cause::Unknown, &segment),
        false => Claim { inferred: true, ..causes::claim(cx, &segment) },
    };
    // Which of its modules a program was at is chance: the line of its own that loads them is the
    // place.
    let claim = match claim.cause {
        Cause::Import => {
            let resource = Some(Resource::WorkerStart);
            Claim { resource, ..claim }
        }
        _ => claim,
    };
    Slice { segment, claim }
}

/// Whether a sample says what it was: that no switch was recorded of a thread for long does not
/// mean that it ran, unless it was seen to, and where.
fn is_known(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    let known = segment.state != State::Unknown && segment.sample.is_some();
    let loads = || segment.exact && cx.frames.any(segment.stack(), imports::is_import);
    let ran = segment.stack() != 0 && (segment.sampled || is_short(segment) || loads());
    known && (segment.state != State::Run || ran)
}

/// Waits for work, as far as a sample shows: for a connection, a job, or, where no code of the
/// program is on the stack, for what comes next over a connection that is kept open.
fn idles(cx: &Context<'_>, lay: &Segment<'_>, segment: &Segment<'_>) -> bool {
    let waits = match segment.wait() {
        WaitKind::Accept | WaitKind::Poll | WaitKind::Futex => true,
        WaitKind::SocketRead => !cx.frames.has_user(segment.stack()),
        _ => false,
    };
    segment.state == State::Wait && waits && kept_by_a_client(cx, lay, segment).is_none()
}

/// The worker that took the request up in the end waited for a client in the server's own code:
/// for another connection's, since over this one the data had come (`lay` begins then), and a wait
/// for them would have been over. By estimates a wait may seem to go on: a sample must have found
/// it there late enough.
fn kept_by_a_client(cx: &Context<'_>, lay: &Segment<'_>, own: &Segment<'_>) -> Option<Claim> {
    let of_one = [Stdlib::Socket, Stdlib::Tls];
    let sends_nothing = match own.wait() {
        WaitKind::SocketRead => true,
        // With a time limit a socket is polled.
        WaitKind::Poll => of_one.iter().any(|code| cx.frames.leaf_at(own.stack(), *code)),
        _ => false,
    };
    let waits = sends_nothing || own.wait() == WaitKind::SocketWrite;
    let waits = own.state == State::Wait && waits && own.tid == lay.tid;
    if !waits || cx.frames.has_user(own.stack()) {
        return None;
    }
    let late_ns = lay.from_ns.saturating_add(thresholds::short_wait_ns());
    let there = |s: &Sample| s.wait == own.wait() && s.stack == own.stack();
    let seen = || cx.samples_in(own.tid, late_ns, lay.to_ns).iter().any(there);
    let kept = if own.exact { own.to_ns > late_ns } else { seen() };
    let by = Inference::BusyWorker;
    let blocker = Some(Blocker::thread(own.tid, own.stack(), true, by));
    let resource = Some(Resource::IdleClient { sends_nothing });
    let claim = Claim { stack: 0, blocker, resource, ..Claim::of(Cause::PoolWait, own) };
    kept.then_some(claim)
}

/// While a thread waits for a thread that it started to come up, the new thread's time counts.
fn through_start<'c>(
    cx: &Context<'c>,
    lay: &Segment<'_>,
    segment: Segment<'c>,
    out: &mut Vec<Slice<'c>>,
) {
    let starts = |f: &capture::read::Frame<'_>| cx.frames.is_at(f, Stdlib::ThreadStart);
    if segment.state == State::Wait && cx.frames.any(segment.stack(), starts) {
        let (from, to) = segment.times();
        let since = from.saturating_sub(thresholds::clock_slack_ns());
        let born =
            |tid: &u32| threads::first_seen(cx, *tid).is_some_and(|at| (since..to).contains(&at));
        if let Some(tid) = cx.others(segment.tid).find(born) {
            life(cx, tid, from, to).into_iter().for_each(|s| out.push(claimed(cx, lay, s)));
            return;
        }
    }
    out.push(claimed(cx, lay, segment));
}

/// The one thread without a request that waits for connections around the wait, but hardly in it;
/// or the main thread while it still loads the program, whether it is seen to wait for any later or
/// not.
fn acceptor(cx: &Context<'_>, segment: &Segment<'_>, until_ns: u64) -> Option<u32> {
    let (from, to) = (segment.from_ns, until_ns);
    let polls = |s: &Sample| matches!(s.wait, WaitKind::Accept | WaitKind::Poll);
    let usually = |tid: u32| {
        let before = cx.samples_in(tid, from.saturating_sub(thresholds::usual_ns()), from);
        let after = cx.samples_in(tid, segment.to_ns, segment.to_ns + thresholds::usual_ns());
        before.last().is_some_and(polls)
            || after.iter().take(thresholds::acceptor_samples()).any(polls)
    };
    let kept = |tid: u32| {
        let own = life(cx, tid, from, to);
        let away = own.iter().filter(|s| {
            is_known(cx, s)
                && !(s.state == State::Wait
                    && matches!(s.wait(), WaitKind::Accept | WaitKind::Poll))
        });
        away.map(Segment::ns).sum::<u64>() * 2 > to.saturating_sub(from)
    };
    let works = |tid: u32| {
        let end = |r: &RequestRow| r.end_ns.unwrap_or(cx.capture.meta.to_ns);
        let rows = cx.capture.requests.iter();
        rows.filter(|r| r.tid == tid).any(|r| r.started_ns < to && end(r) > from)
    };
    let others = cx.others(segment.tid);
    let loads = |tid: u32| {
        let samples = cx.samples_in(tid, from, to).iter().filter(|s| s.stack != 0);
        let (all, loading) = samples.fold((0, 0), |(all, loading), sample| {
            (all + 1, loading + u32::from(cx.frames.any(sample.stack, imports::is_import)))
        });
        tid == cx.capture.meta.pid && loading * 2 > all
    };
    let able = |tid: &u32| (usually(*tid) || loads(*tid)) && kept(*tid) && !works(*tid);
    let mut able = others.filter(able);
    let first = able.next()?;
    able.next().is_none().then_some(first)
}

/// The longest segments of a request that are considered for what it did.
const SEGMENTS_MAX: usize = 512;

type Answer = Option<(u64, Claim)>;

/// The longest gap counts, as each has a reason of its own; but a quota that is used up stops the
/// process in each of its periods, again and again.
fn still(cx: &Context<'_>, segment: &Segment<'_>) -> Answer {
    let of = |g: &analysis::gaps::Gap| overlap_ns((g.from_ns, g.to_ns), segment.times());
    let longest = cx.gaps.iter().max_by_key(|gap| of(gap))?;
    let cause = stopped::cause_of(longest);
    let same = |gap: &&analysis::gaps::Gap| stopped::cause_of(gap) == cause;
    let ns = match cause {
        Cause::CpuThrottled => cx.gaps.iter().filter(same).map(of).sum(),
        _ => of(longest),
    };
    Some((ns, Claim::of(cause, segment)))
}

/// The spans of the predicate are exact, and whoever is in there may lack a CPU as well.
fn asked(cx: &Context<'_>, segment: &Segment<'_>) -> Answer {
    let stack = cx.main_stack(segment.tid, segment.from_ns, segment.to_ns);
    Some((cx.predicate_ns(segment), Claim { stack, ..recorder::in_predicate(segment) }))
}

fn collection(cx: &Context<'_>, segment: &Segment<'_>) -> Answer {
    let most = |g: &&capture::read::GcRow| overlap_ns((g.begin_ns, g.end_ns), segment.times());
    let gc = cx.gcs_in(segment.from_ns, segment.to_ns).iter().max_by_key(most)?;
    let (from_ns, to_ns) =
        (gc.begin_ns.max(segment.from_ns), gc.end_ns.min(segment.to_ns).max(segment.from_ns));
    // It kept the GIL for as long as it got no CPU: then that is what the request waited for.
    if from_ns < to_ns && long_work::starves(cx, gc.tid, &Segment { from_ns, to_ns, ..*segment }) {
        return Some((most(&gc), Claim::of(Cause::CpuStarved, segment)));
    }
    let stack = cx.main_stack(gc.tid, gc.begin_ns, gc.end_ns);
    let blocker = Some(Blocker::thread(gc.tid, stack, true, Inference::GcRecord));
    Some((most(&gc), Claim { blocker, ..Claim::of(Cause::GcPause, segment) }))
}

/// The worker was runnable without a CPU: its next sample says for how long since the one before,
/// and the cgroup's counter whether the quota was used up then.
fn starved(cx: &Context<'_>, segment: &Segment<'_>) -> Answer {
    let after = cx.samples_in(segment.tid, segment.from_ns, segment.to_ns + thresholds::stale_ns());
    let delay_ns = after.iter().map(|s| s.run_delay_ns).sum::<u64>().min(segment.ns());
    let cause = match cpu_throttled::is_throttled(cx, segment) {
        true => Cause::CpuThrottled,
        false => Cause::CpuStarved,
    };
    Some((delay_ns, Claim::of(cause, segment)))
}

/// What a request's thread did for most of the time, all segments of one cause together: a long one
/// alone may be the least of it amid hundreds of short ones. The longest of them stands for all.
fn mostly(cx: &Context<'_>, request: u64, timeline: &[Segment<'_>]) -> Option<Claim> {
    let mut longest_first: Vec<&Segment<'_>> = timeline.iter().collect();
    longest_first.sort_by_key(|s| std::cmp::Reverse(s.ns()));
    let mut causes: Vec<(u64, Claim)> = Vec::new();
    for segment in longest_first.into_iter().take(SEGMENTS_MAX) {
        let claim = followed(cx, request, segment);
        match causes.iter_mut().find(|(_, known)| known.cause == claim.cause) {
            Some((ns, _)) => *ns += segment.ns(),
            None => causes.push((segment.ns(), claim)),
        }
    }
    // Of several with the same time the first, whose longest segment is longer.
    causes.into_iter().rev().max_by_key(|(ns, _)| *ns).map(|(_, claim)| claim)
}

/// The claim for a segment of a request's thread; where it waited for another thread's work, for
/// most of what that did.
fn followed(cx: &Context<'_>, request: u64, segment: &Segment<'_>) -> Claim {
    if segment.state != State::Wait || segment.wait() != WaitKind::Futex {
        return causes::claim(cx, segment);
    }
    let (all, mut slices) = (segment.times(), Vec::new());
    follow(cx, request, segment.tid, all, all, 0, &mut slices);
    let longest = slices.into_iter().max_by_key(|slice| slice.segment.ns());
    longest.map_or_else(|| causes::claim(cx, segment), |slice| slice.claim)
}

/// Its worker had other requests in hand. One of the same name that takes most of the time is the
/// head of a line: what it did is what this one waited for. Otherwise it is the pool that is short.
fn busy(cx: &Context<'_>, request: &Judged<'_>, segment: &Segment<'_>) -> Answer {
    let end = |r: &RequestRow| r.end_ns.unwrap_or(cx.capture.meta.to_ns);
    let held = |r: &RequestRow| overlap_ns((r.started_ns, end(r)), segment.times());
    let before: Vec<&RequestRow> = cx
        .capture
        .requests
        .iter()
        .filter(|r| r.tid == segment.tid && r.id != request.row.id && held(r) > 0)
        .collect();
    let covered: u64 = before.iter().map(|r| held(r).saturating_mul(r.times.into())).sum();
    let covered = covered.min(segment.ns());
    let longest = before.into_iter().max_by_key(|r| held(r))?;
    if held(longest) * 2 >= segment.ns() && longest.name == request.row.name {
        let (from, to) = (longest.started_ns, end(longest).min(segment.to_ns));
        let timeline = cx.timeline(segment.tid, from, to);
        return Some((covered, mostly(cx, longest.id, &timeline)?));
    }
    let meanwhile = cx.timeline(segment.tid, segment.from_ns, segment.to_ns);
    let longest = meanwhile.iter().max_by_key(|s| s.ns()).filter(|s| s.ns() * 2 > segment.ns());
    let waits = longest.map(|s| causes::claim(cx, s));
    if let Some(claim) = waits.filter(|c| matches!(c.cause, Cause::PoolWait | Cause::LockWait)) {
        // A thread that waits itself does not delay others by its own work: the thread that it
        // waited for does.
        return Some((covered, claim));
    }
    let stack = cx.main_stack(segment.tid, segment.from_ns, segment.to_ns);
    let blocker =
        (stack != 0).then_some(Blocker::thread(segment.tid, stack, true, Inference::BusyWorker));
    Some((covered, Claim { blocker, ..Claim::of(Cause::PoolWait, segment) }))
}
