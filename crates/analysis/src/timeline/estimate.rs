//! A timeline without switch records, from what each sample accounts for.
//!
//! How it works: a sample says how much CPU time and run delay the thread had since its sample
//! before; the rest of the time between the two is put down as waiting for what the samples saw.

use format::record::{flag, Sample};
use format::wait::WaitKind;

use super::segment::{waits_there, Segment, State};
use crate::thresholds;

/// All time: waits may be seen before and behind an interval as well.
pub(super) const ALL: (u64, u64) = (0, u64::MAX);

/// `own`: waits that were seen outside of this time are others.
pub(super) fn estimated<'c>(
    tid: u32,
    samples: &'c [Sample],
    (from_ns, to_ns): (u64, u64),
    own: (u64, u64),
) -> Vec<Segment<'c>> {
    let mut out = Vec::new();
    let first = samples.partition_point(|s| s.t_ns < from_ns);
    let mut at = from_ns;
    let mut before = first.checked_sub(1).map(|i| &samples[i]);
    for (index, sample) in (first..).zip(&samples[first..]) {
        if at >= to_ns {
            break;
        }
        let end = sample.t_ns.min(to_ns);
        if end > at {
            let starved = is_starved(&samples[index..]);
            // A sample behind the end asked for may be at what came next: the one inside is at
            // this.
            let inside = before.is_some_and(|b| b.t_ns >= from_ns);
            let last = inside && sample.t_ns > to_ns;
            let around = Around { before, after: Some(sample), last, own };
            let woken = woken_at(&samples[index..]).map_or(end, |t_ns| t_ns.clamp(at, end));
            if woken > at {
                between(&mut out, tid, at, woken, around, (starved, samples));
            }
            if end > woken {
                let (state, sample) = (State::Ready, Some(sample));
                out.push(Segment {
                    tid,
                    from_ns: woken,
                    to_ns: end,
                    state,
                    sample,
                    sampled: false,
                    exact: false,
                });
            }
            at = end;
        }
        before = Some(sample);
    }
    if at < to_ns {
        let around = Around { before, after: None, last: true, own };
        between(&mut out, tid, at, to_ns, around, (false, samples));
    }
    out
}

/// Whether a sample soon says that the thread was runnable without a CPU for longer than since the
/// sample before it. The kernel adds such time up only when the thread gets a CPU at last.
fn is_starved(from: &[Sample]) -> bool {
    let begin_ns = from.first().map_or(0, |s| s.t_ns);
    let near =
        from.iter().take_while(|s| s.t_ns.saturating_sub(begin_ns) <= thresholds::stale_ns());
    let owes = |s: &Sample| {
        s.flags & flag::TIMES != 0 && s.cpu_ns.saturating_add(s.run_delay_ns) > s.wall_ns
    };
    // The first that got a CPU at all decides.
    near.clone().find(|s| s.run_delay_ns > 0).is_some_and(|s| s.wall_ns > 0 && owes(s))
}

/// Since when a thread was runnable whose samples in `from` begin with repetitions: a sample that
/// repeats the last place of a thread, since it was given no CPU, may be of a thread that was
/// woken. The first sample that is more than a repetition says for how long the thread was runnable
/// by then.
fn woken_at(from: &[Sample]) -> Option<u64> {
    let still_there = |s: &Sample| {
        let carried = flag::REUSED | flag::TIMES;
        s.flags & carried == carried && s.cpu_ns == 0 && s.run_delay_ns == 0
    };
    let next =
        from.iter().find(|s| !still_there(s)).filter(|_| from.first().is_some_and(still_there))?;
    let owed_ns = next.cpu_ns.saturating_add(next.run_delay_ns);
    let owes = next.flags & flag::TIMES != 0 && next.run_delay_ns > 0 && owed_ns > next.wall_ns;
    owes.then(|| next.t_ns.saturating_sub(owed_ns))
}

/// The samples before and after an interval of a thread's time.
#[derive(Clone, Copy)]
struct Around<'c> {
    before: Option<&'c Sample>,
    after: Option<&'c Sample>,
    /// What the one before saw goes before what the one after did.
    last: bool,
    /// Waits that were seen outside of this time are others.
    own: (u64, u64),
}

/// Estimates `[from, to)` from the samples before and after it. `starved`: what neither explains
/// is time without a CPU, if both saw the thread runnable. `samples`: all of the thread.
fn between<'c>(
    out: &mut Vec<Segment<'c>>,
    tid: u32,
    from_ns: u64,
    to_ns: u64,
    Around { before, after, last, own }: Around<'c>,
    (starved, samples): (bool, &'c [Sample]),
) {
    let length = to_ns - from_ns;
    // Two samples that saw the same also account for what lies between them, however short an
    // interval is asked for.
    let target = |s: &Sample| if s.flags & flag::USAGE != 0 { 0 } else { s.target };
    let same = match (before, after) {
        (Some(b), Some(a)) => (b.wait, b.stack, target(b)) == (a.wait, a.stack, target(a)),
        _ => false,
    };
    let mut push = |begin: u64, end: u64, state: State, sample: Option<&'c Sample>| {
        if end > begin {
            // Where in between it ran is not known: a sample at either end saw it.
            let (from, to) = if state == State::Run { (from_ns, to_ns) } else { (begin, end) };
            let inside = |s: &Sample| (from..=to).contains(&s.t_ns);
            let as_both = |s: &Sample| same && before.is_some_and(|b| b.wait == s.wait);
            let sampled = sample.is_some_and(|s| inside(s) || as_both(s) && state != State::Ready);
            let segment =
                Segment { tid, from_ns: begin, to_ns: end, state, sample, sampled, exact: false };
            out.push(segment);
        }
    };
    let fresh = |s: &&Sample| s.t_ns.abs_diff(from_ns) <= thresholds::stale_ns();
    let waiting = |s: &&'c Sample| {
        let waits = !matches!(s.wait, WaitKind::Running | WaitKind::Unknown);
        waits && (own.0..=own.1).contains(&s.t_ns)
    };
    let running = |s: &&'c Sample| s.wait == WaitKind::Running;
    let before = before.filter(fresh);
    let (first, second) = if last { (before, after) } else { (after, before) };
    let wait = first.filter(waiting).or(second.filter(waiting));
    let read = |s: &&'c Sample| running(s) && s.stack != 0;
    let run = first.filter(read).or(second.filter(read));
    let run = run.or(first.filter(running)).or(second.filter(running));
    let (cpu, delay) = match after {
        // The sample's own account of the time since the one before, cut to this interval.
        Some(s) if s.flags & flag::TIMES != 0 && s.wall_ns > 0 => {
            let part = |ns: u64| (ns as u128 * length as u128 / s.wall_ns as u128) as u64;
            let cpu = part(s.cpu_ns).min(length);
            (cpu, part(s.run_delay_ns).min(length - cpu))
        }
        _ => match before.filter(running) {
            Some(_) if length <= thresholds::borrowed_sample_ns() => (length, 0),
            _ => (0, 0),
        },
    };
    push(from_ns, from_ns + cpu, State::Run, run.or(after).or(before));
    push(from_ns + cpu, from_ns + cpu + delay, State::Ready, run.or(after).or(before));
    let runnable = |s: Option<&Sample>| s.is_some_and(|s| s.wait == WaitKind::Running);
    let counted = after.is_some_and(|s| s.flags & flag::TIMES != 0);
    let no_cpu = starved && runnable(before) && runnable(after);
    let there = || run.filter(|_| same && counted && !no_cpu).and_then(|s| waits_there(samples, s));
    let wait = wait.or_else(there);
    let state = match wait {
        Some(_) => State::Wait,
        None if no_cpu => State::Ready,
        None => State::Unknown,
    };
    let of_another = |s: &&'c Sample| !running(s) && !waiting(s);
    let near = after.filter(|s| !of_another(s)).or(before.filter(|s| !of_another(s)));
    push(from_ns + cpu + delay, to_ns, state, wait.or(near));
}
