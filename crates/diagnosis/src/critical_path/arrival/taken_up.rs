//! What the threads did that were to take a request up, one after the other.
//!
//! The first is a thread started for this request, from its birth on. Before that (or instead,
//! where the worker is older and idled) it is the one thread that usually waits for connections and
//! did not then. It is an inference.

use analysis::resource::Resource;
use analysis::signatures::Stdlib;
use analysis::thresholds;
use analysis::timeline::{Segment, State};
use capture::read::{Frame, RequestRow};
use format::record::Sample;
use format::wait::WaitKind;

use super::life::{is_known, life};
use crate::cause::Cause;
use crate::causes;
use crate::claim::{Blocker, Claim, Slice};
use crate::context::Context;
use crate::explain::Inference;
use crate::facts::{imports, threads};

/// What the threads did that were to take the request up, in order; all of `segment`, or nothing.
pub(super) fn taken_up<'c>(cx: &Context<'c>, segment: &Segment<'c>) -> Vec<Slice<'c>> {
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
    let starts = |f: &Frame<'_>| cx.frames.is_at(f, Stdlib::ThreadStart);
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
