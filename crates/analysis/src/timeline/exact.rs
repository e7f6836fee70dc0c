//! A timeline from switch records: the kernel says when the thread left the CPU and came back.
//!
//! How it works: between two such times it ran. Samples only say where and what for, and how much
//! of a wait was one for a CPU, at its end (`late`). Where samples prove that records are lost, the
//! samples' own accounts are used (`estimate`).

use capture::read::OffCpu;
use format::record::Sample;
use format::wait::WaitKind;

use super::estimate::{estimated, ALL};
use super::late::{off_state, Late};
use super::segment::{slice_between, waits_there, Segment, State};
use crate::thresholds;

pub(super) fn exact<'c>(
    tid: u32,
    (off, late): (&[OffCpu], &Late),
    all: &'c [Sample],
    near: &'c [Sample],
    from_ns: u64,
    to_ns: u64,
) -> Vec<Segment<'c>> {
    let mut out = Vec::new();
    let mut at = unborn_until(off, all).clamp(from_ns, to_ns);
    if at > from_ns {
        let (state, to_ns) = (State::Unknown, at);
        out.push(Segment {
            tid,
            from_ns,
            to_ns,
            state,
            sample: None,
            sampled: false,
            exact: false,
        });
    }
    let first = off.partition_point(|o| o.in_ns <= from_ns);
    for gone in off[first..].iter().take_while(|o| o.out_ns < to_ns) {
        let (begin, end) = (gone.out_ns.max(at), gone.in_ns.min(to_ns));
        if begin > at {
            ran(&mut out, tid, at, begin, all);
        }
        // The end of the wait, when it was over and there was no CPU.
        let tail = gone.in_ns - late.get(&gone.in_ns).copied().unwrap_or(0);
        let (whole_end, end) = (end, end.min(tail.max(begin)));
        if end > begin {
            let whole = slice_between(all, gone.out_ns, gone.in_ns);
            let state = off_state(gone, whole);
            let seen_inside = whole.iter().any(|s| (begin..end).contains(&s.t_ns));
            match whole.iter().min_by_key(|s| s.t_ns.abs_diff(begin)) {
                // Seen, but not in the part asked for: it is one and the same wait.
                Some(sample) if state == State::Wait && !seen_inside => {
                    let sample = Some(sample).filter(|s| s.wait != WaitKind::Running);
                    let (sampled, exact) = (sample.is_some(), true);
                    out.push(Segment {
                        tid,
                        from_ns: begin,
                        to_ns: end,
                        state,
                        sample,
                        sampled,
                        exact,
                    });
                }
                _ => divide(&mut out, tid, state, begin, end, (near, all)),
            }
        }
        if whole_end > end {
            divide(&mut out, tid, State::Ready, end, whole_end, (near, all));
        }
        at = at.max(whole_end);
    }
    if to_ns > at {
        ran(&mut out, tid, at, to_ns, all);
    }
    seen_while_awake(&mut out, all);
    waits_for_the_gil(&mut out, all);
    out
}

/// A wait for the GIL is many waits of 5 ms each in the kernel's records. Those between two samples
/// that both found the thread at it, at one place, are that wait, too.
fn waits_for_the_gil<'c>(segments: &mut [Segment<'c>], all: &'c [Sample]) {
    let gil = |s: &Sample| s.wait == WaitKind::Gil;
    let unseen =
        |s: &&mut Segment<'_>| s.state == State::Wait && !s.sampled && s.sample.is_none_or(gil);
    for segment in segments.iter_mut().filter(unseen) {
        let at = all.partition_point(|s| s.t_ns < segment.from_ns);
        let (Some(before), Some(after)) = (at.checked_sub(1).map(|i| &all[i]), all.get(at)) else {
            continue;
        };
        let waits = |s: &Sample| gil(s) && s.stack == before.stack;
        let near = segment.from_ns - before.t_ns <= thresholds::stale_ns()
            && after.t_ns.saturating_sub(segment.to_ns) <= thresholds::stale_ns();
        if near && before.stack != 0 && waits(before) && waits(after) {
            (segment.sample, segment.sampled) = (Some(before), true);
        }
    }
}

/// Until when nothing is known of a thread.
fn unborn_until(off: &[OffCpu], samples: &[Sample]) -> u64 {
    let first = off.first().map(|o| o.out_ns).into_iter().chain(samples.first().map(|s| s.t_ns));
    first.min().map_or(0, |first| first.saturating_sub(thresholds::sampled_ns()))
}

/// A thread that loses its CPU is at the same place until it has one again, and a sampler on a busy
/// machine takes just that CPU: its samples fall into the pauses. So a run counts as seen by a
/// sample at any pause or run around it, as long as the thread did not block in between. A sample
/// that could not read the stack is read as the nearest one that could.
fn seen_while_awake<'c>(segments: &mut [Segment<'c>], all: &'c [Sample]) {
    let awake = |s: &Segment<'_>| matches!(s.state, State::Run | State::Ready);
    for stretch in segments.chunk_by_mut(|a, b| awake(a) && awake(b)) {
        let (Some(first), Some(last)) = (stretch.first(), stretch.last()) else { continue };
        let whole = first.from_ns..last.to_ns;
        let inside = |s: &Sample| s.wait == WaitKind::Running && whole.contains(&s.t_ns);
        let around = slice_between(all, whole.start, whole.end);
        for run in stretch.iter_mut().filter(|s| s.state == State::Run) {
            if run.sample.is_some_and(|s| s.stack == 0) {
                let from_ns = run.from_ns.saturating_sub(thresholds::stale_ns());
                let near = slice_between(
                    around,
                    from_ns,
                    run.to_ns.saturating_add(thresholds::stale_ns()),
                );
                let away = |s: &&Sample| s.t_ns.abs_diff(run.from_ns.midpoint(run.to_ns));
                let read = near.iter().filter(|s| s.wait == WaitKind::Running && s.stack != 0);
                run.sample = read.min_by_key(away).or(run.sample);
            }
            run.sampled |= run.sample.is_some_and(inside);
        }
    }
}

/// An interval in which no switch record says that the thread was off the CPU: it ran. Unless
/// samples in it found it blocked: then the records of that are lost (overwritten, or not yet
/// written when the capture was made), and the samples' own accounts of the time are all there is.
fn ran<'c>(out: &mut Vec<Segment<'c>>, tid: u32, from_ns: u64, to_ns: u64, all: &'c [Sample]) {
    let inside = slice_between(all, from_ns, to_ns);
    let blocked = |s: &&Sample| !matches!(s.wait, WaitKind::Running | WaitKind::Unknown);
    let count = inside.iter().filter(blocked).count();
    let apart = |s: &Sample| {
        s.t_ns >= from_ns + thresholds::clock_slack_ns()
            && s.t_ns + thresholds::clock_slack_ns() <= to_ns
    };
    let alone = count > 0 && count == inside.len() && inside.iter().any(apart);
    if count >= thresholds::missing_record_samples() || alone {
        out.extend(estimated(tid, all, (from_ns, to_ns), ALL));
    } else {
        divide(out, tid, State::Run, from_ns, to_ns, (all, all));
    }
}

/// Cuts `[from, to)` between the samples taken inside it, so that each slice carries the nearest.
fn divide<'c>(
    out: &mut Vec<Segment<'c>>,
    tid: u32,
    state: State,
    from_ns: u64,
    to_ns: u64,
    (samples, all): (&'c [Sample], &'c [Sample]),
) {
    // No other can be meant; a long interval has many slices, and its samples are many too.
    let samples = slice_between(
        samples,
        from_ns.saturating_sub(thresholds::borrowed_sample_ns()),
        to_ns + thresholds::borrowed_sample_ns(),
    );
    let fits = |s: &&Sample| match state {
        State::Wait => s.wait != WaitKind::Running,
        State::Run => s.wait == WaitKind::Running,
        _ => true,
    };
    let mut inside: Vec<&Sample> =
        slice_between(samples, from_ns, to_ns).iter().filter(fits).collect();
    // A stack that could not be read adds nothing to the one beside it.
    if state == State::Run && inside.iter().any(|s| s.stack != 0) {
        inside.retain(|s| s.stack != 0);
    }
    if inside.is_empty() {
        let distance = |s: &&Sample| s.t_ns.abs_diff(from_ns).min(s.t_ns.abs_diff(to_ns));
        let sample = samples.iter().filter(fits).min_by_key(distance);
        let sample = sample.filter(|s| distance(s) <= thresholds::borrowed_sample_ns());
        // Many short waits, and every sample fell between them: at least where it was is known.
        let any = || samples.iter().min_by_key(distance).filter(|_| state == State::Wait);
        let near = || any().filter(|s| distance(s) <= thresholds::borrowed_sample_ns());
        let sample = sample.or_else(|| near().map(|s| waits_there(all, s).unwrap_or(s)));
        out.push(Segment { tid, from_ns, to_ns, state, sample, sampled: false, exact: true });
        return;
    }
    let mut at = from_ns;
    for (i, sample) in inside.iter().enumerate() {
        let end = inside.get(i + 1).map_or(to_ns, |next| (sample.t_ns + next.t_ns) / 2);
        if end > at {
            let sample = Some(*sample);
            out.push(Segment {
                tid,
                from_ns: at,
                to_ns: end,
                state,
                sample,
                sampled: true,
                exact: true,
            });
            at = end;
        }
    }
}
