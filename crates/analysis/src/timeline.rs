//! A thread's time between two instants, cut into exclusive segments that sum to it exactly.
//!
//! Two ways, distinguished by `Segment::exact`:
//! - *switch records*: the kernel said when the thread left the CPU and came back, and whether it
//!   was preempted. Between two such times it ran. Samples only say where and what for, and how
//!   much of a wait was one for a CPU, at its end.
//! - *estimates*: a sample says how much CPU time and run delay the thread had since its sample
//!   before; the rest of the time between the two is put down as waiting for what the samples saw.
//!
//! Where switch records were paused or lost (`Capture::switches_paused`) there are estimates, also
//! until the thread's next record. What neither covers, and what lies well before the first that is
//! known of a thread, is `State::Unknown`, and remains visible as such.

use std::cmp::Reverse;
use std::collections::HashMap;

use capture::read::{Capture, OffCpu};
use format::record::{flag, Sample};
use format::wait::WaitKind;

use crate::thresholds;

/// What the thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// On a CPU.
    Run,
    /// Runnable, no CPU.
    Ready,
    /// Blocked.
    Wait,
    /// Not recorded.
    Unknown,
}

/// An interval of a thread's time in one state.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'c> {
    /// Thread.
    pub tid: u32,
    /// Begin.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// State.
    pub state: State,
    /// The sample that says where and what for.
    pub sample: Option<&'c Sample>,
    /// The sample was taken inside the segment, or the next one on either side saw the same: it is
    /// not carried over from a neighbour.
    pub sampled: bool,
    /// The times come from switch records.
    pub exact: bool,
}

impl Segment<'_> {
    /// Length.
    pub fn ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }

    /// Stack id of its sample, 0 without one.
    pub fn stack(&self) -> u32 {
        self.sample.map_or(0, |s| s.stack)
    }

    /// What it waits for, as far as known.
    pub fn wait(&self) -> WaitKind {
        self.sample.map_or(WaitKind::Unknown, |s| s.wait)
    }
}

/// By the end of an interval off the CPU: how long before that the thread could have run again.
pub type Late = HashMap<u64, u64>;

/// The timeline of `tid` in `[from_ns, to_ns)`.
pub fn of_thread(capture: &Capture, tid: u32, from_ns: u64, to_ns: u64) -> Vec<Segment<'_>> {
    let samples = capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
    told_by(capture, tid, samples, None, from_ns, to_ns)
}

/// The same, for callers that ask often: `late` is `late_of` that thread.
pub fn of_thread_with<'c>(
    capture: &'c Capture,
    tid: u32,
    late: &Late,
    (from_ns, to_ns): (u64, u64),
) -> Vec<Segment<'c>> {
    let samples = capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
    told_by(capture, tid, samples, Some(late), from_ns, to_ns)
}

/// All of a thread. Cost: its switch records once, or twice.
pub fn late_of(capture: &Capture, tid: u32) -> Late {
    let samples = capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
    let off = capture.off_cpu.get(&tid).map_or(&[][..], Vec::as_slice);
    late_ns(off, samples, 0, u64::MAX)
}

/// The same for an interval that is a thing of its own, such as a request: samples of the thread
/// before and behind it say nothing of it, unless there is none inside, or switch records are off.
pub fn of_request(capture: &Capture, tid: u32, from_ns: u64, to_ns: u64) -> Vec<Segment<'_>> {
    let samples = capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
    let inside = slice_between(samples, from_ns, to_ns);
    let exact = capture.has_switches(from_ns, to_ns);
    let samples = if inside.is_empty() || !exact { samples } else { inside };
    told_by(capture, tid, samples, None, from_ns, to_ns)
}

/// The part of a timeline that lies in `[from_ns, to_ns)`.
pub fn within<'c>(
    segments: Vec<Segment<'c>>,
    from_ns: u64,
    to_ns: u64,
) -> impl Iterator<Item = Segment<'c>> {
    let clamp = move |s: Segment<'c>| Segment {
        from_ns: s.from_ns.max(from_ns),
        to_ns: s.to_ns.min(to_ns),
        ..s
    };
    segments.into_iter().filter(move |s| s.from_ns < to_ns && s.to_ns > from_ns).map(clamp)
}

fn told_by<'c>(
    capture: &'c Capture,
    tid: u32,
    samples: &'c [Sample],
    late: Option<&Late>,
    from_ns: u64,
    to_ns: u64,
) -> Vec<Segment<'c>> {
    let near = slice_between(
        samples,
        from_ns.saturating_sub(thresholds::borrowed_sample_ns()),
        to_ns + thresholds::borrowed_sample_ns(),
    );
    let off = capture.off_cpu.get(&tid).map_or(&[][..], Vec::as_slice);
    let covered = capture.meta.source_on("switches") && !off.is_empty();
    let own;
    let late = match late {
        Some(late) => late,
        None => {
            own = late_ns(off, samples, from_ns, to_ns);
            &own
        }
    };
    let exact = |from_ns, to_ns| exact(tid, (off, late), samples, near, from_ns, to_ns);
    let out = match covered {
        true if capture.switches_paused.is_empty() => exact(from_ns, to_ns),
        true => {
            let (mut out, mut at) = (Vec::new(), from_ns);
            for (from, to) in capture.blind_times(tid) {
                let (from, to) = (from.clamp(at, to_ns), to.clamp(at, to_ns));
                out.append(&mut exact(at, from));
                out.append(&mut estimated(tid, samples, from, to));
                at = to;
            }
            out.append(&mut exact(at, to_ns));
            out
        }
        false => estimated(tid, samples, from_ns, to_ns),
    };
    debug_assert_eq!(out.iter().map(Segment::ns).sum::<u64>(), to_ns.saturating_sub(from_ns));
    out
}

/// Samples with `from <= t < to`.
pub fn slice_between(samples: &[Sample], from_ns: u64, to_ns: u64) -> &[Sample] {
    let start = samples.partition_point(|s| s.t_ns < from_ns);
    let end = samples.partition_point(|s| s.t_ns < to_ns);
    &samples[start..end.max(start)]
}

fn exact<'c>(
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

/// How long a thread was without a CPU when its wait was over, by the end of the time off the CPU.
/// Switch records do not have that, but samples do: the kernel adds up how long a thread was
/// runnable without a CPU, and the part of it that is not behind a preemption is behind the waits.
/// Where several waits ended between two samples, each has the same part, as far as it is that
/// long.
fn late_ns(off: &[OffCpu], all: &[Sample], from_ns: u64, to_ns: u64) -> Late {
    let mut late = Late::new();
    let around = &all[all.partition_point(|s| s.t_ns < from_ns)..];
    for sample in around.iter().take_while(|s| s.t_ns.saturating_sub(s.wall_ns) < to_ns) {
        if sample.flags & flag::TIMES == 0 || sample.run_delay_ns < thresholds::turn_ns() {
            continue;
        }
        let since = sample.t_ns.saturating_sub(sample.wall_ns);
        let begin = off.partition_point(|o| o.in_ns <= since);
        let end = off.partition_point(|o| o.in_ns <= sample.t_ns).max(begin);
        let ns = |o: &OffCpu| o.in_ns.saturating_sub(o.out_ns);
        let ready =
            |o: &&OffCpu| off_state(o, slice_between(all, o.out_ns, o.in_ns)) == State::Ready;
        let (ready, mut waits): (Vec<_>, Vec<_>) = off[begin..end].iter().partition(ready);
        let sum = |ns: u64, more: u64| ns.saturating_add(more);
        let ready_ns = ready.into_iter().map(ns).fold(0, sum);
        let mut left = sample.run_delay_ns.saturating_sub(ready_ns);
        let waited = waits.iter().map(|o| ns(o)).fold(0, sum);
        if left < thresholds::turn_ns() || (left as f64) * thresholds::late_in() < waited as f64 {
            continue;
        }
        waits.sort_unstable_by_key(|o| ns(o));
        let count = waits.len() as u64;
        for (at, wait) in (0..).zip(waits) {
            let part = (left / (count - at)).min(ns(wait));
            if part >= thresholds::turn_ns() {
                late.insert(wait.in_ns, part);
            }
            left -= part;
        }
    }
    late
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
        out.extend(estimated(tid, all, from_ns, to_ns));
    } else {
        divide(out, tid, State::Run, from_ns, to_ns, (all, all));
    }
}

/// Preempted means runnable; so does a thread that left by itself but was seen runnable all along.
fn off_state(gone: &OffCpu, inside: &[Sample]) -> State {
    let runnable = |s: &Sample| s.wait == WaitKind::Running;
    match gone.preempted || (!inside.is_empty() && inside.iter().all(runnable)) {
        true => State::Ready,
        false => State::Wait,
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

/// Of many short waits in a row samples see few, and find the thread running in between. Samples
/// near `seen` that found it waiting at the very same place, all its callers included, say what
/// for: the nearest of what most of them saw. One alone may be chance, and behind any call that
/// releases the GIL a thread may wait for that.
fn waits_there<'c>(all: &'c [Sample], seen: &Sample) -> Option<&'c Sample> {
    let around = slice_between(
        all,
        seen.t_ns.saturating_sub(thresholds::stale_ns()),
        seen.t_ns + thresholds::stale_ns(),
    );
    let waits = |s: &Sample| {
        !matches!(s.wait, WaitKind::Running | WaitKind::Unknown | WaitKind::Gil)
            && seen.stack != 0
            && s.stack == seen.stack
    };
    let mut counts = [0u16; 256];
    around.iter().filter(|s| waits(s)).for_each(|s| counts[s.wait as usize] += 1);
    let count = |s: &Sample| counts[s.wait as usize];
    let there = around.iter().filter(|s| waits(s) && count(s) > 1);
    there.max_by_key(|s| (count(s), Reverse(s.t_ns.abs_diff(seen.t_ns))))
}

fn estimated<'c>(tid: u32, samples: &'c [Sample], from_ns: u64, to_ns: u64) -> Vec<Segment<'c>> {
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
            let starved = told_later(&samples[index..]);
            // A sample behind the end asked for may be at what came next: the one inside is at
            // this.
            let inside = before.is_some_and(|b| b.t_ns >= from_ns);
            let around =
                Around { before, after: Some(sample), last: inside && sample.t_ns > to_ns };
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
        let around = Around { before, after: None, last: true };
        between(&mut out, tid, at, to_ns, around, (false, samples));
    }
    out
}

/// Whether a sample soon says that the thread was runnable without a CPU for longer than since the
/// sample before it. The kernel adds such time up only when the thread gets a CPU at last.
fn told_later(from: &[Sample]) -> bool {
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
}

/// Estimates `[from, to)` from the samples before and after it. `starved`: what neither explains
/// is time without a CPU, if both saw the thread runnable. `samples`: all of the thread.
fn between<'c>(
    out: &mut Vec<Segment<'c>>,
    tid: u32,
    from_ns: u64,
    to_ns: u64,
    Around { before, after, last }: Around<'c>,
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
    let waiting = |s: &&'c Sample| !matches!(s.wait, WaitKind::Running | WaitKind::Unknown);
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
    push(from_ns + cpu + delay, to_ns, state, wait.or(after).or(before));
}
