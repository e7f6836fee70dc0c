//! A thread's time between two instants, cut into exclusive segments that sum to it exactly.
//!
//! Two ways, distinguished by `Segment::exact`: from switch records (`exact`), or estimated from
//! what each sample accounts for (`estimate`).
//!
//! Where switch records were paused or lost (`Capture::switches_paused`) there are estimates, also
//! until the thread's next record. What neither covers, and what lies well before the first that is
//! known of a thread, is `State::Unknown`, and remains visible as such.

mod estimate;
mod exact;
mod late;
mod segment;

use capture::read::Capture;
use format::record::Sample;
use format::wait::WaitKind;

use crate::thresholds;
use estimate::{estimated, ALL};
use exact::exact;
use late::late_ns;
pub use late::{late_of, Late};
pub use segment::{overlap_ns, slice_between, Segment, State};

/// The timeline of `tid` in `[from_ns, to_ns)`.
pub fn of_thread(capture: &Capture, tid: u32, from_ns: u64, to_ns: u64) -> Vec<Segment<'_>> {
    let samples = capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
    by_records(capture, tid, (samples, ALL), None, from_ns, to_ns)
}

/// The same, for callers that ask often: `late` is `late_of` that thread.
pub fn of_thread_with<'c>(
    capture: &'c Capture,
    tid: u32,
    late: &Late,
    (from_ns, to_ns): (u64, u64),
) -> Vec<Segment<'c>> {
    let samples = capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
    by_records(capture, tid, (samples, ALL), Some(late), from_ns, to_ns)
}

/// The same for an interval that is a thing of its own, such as a request: samples of the thread
/// before and behind it say nothing of it, unless there is none inside, or switch records are off.
/// Its begin and its end are code of the thread's own, so a wait that was seen before the one or
/// behind the other is over, or has not begun.
pub fn of_request(capture: &Capture, tid: u32, from_ns: u64, to_ns: u64) -> Vec<Segment<'_>> {
    let samples = capture.samples.get(&tid).map_or(&[][..], Vec::as_slice);
    let inside = slice_between(samples, from_ns, to_ns);
    let exact = capture.has_switches(from_ns, to_ns);
    let samples = match exact {
        true if inside.is_empty() => without_waits_around(samples, from_ns, to_ns),
        true => inside,
        false => samples,
    };
    by_records(capture, tid, (samples, (from_ns, to_ns)), None, from_ns, to_ns)
}

/// The samples from behind the last wait that was seen before `from_ns` to the first one that was
/// behind `to_ns`.
fn without_waits_around(samples: &[Sample], from_ns: u64, to_ns: u64) -> &[Sample] {
    let waits = |s: &Sample| !matches!(s.wait, WaitKind::Running | WaitKind::Unknown);
    let first = samples.partition_point(|s| s.t_ns < from_ns);
    let behind = samples.partition_point(|s| s.t_ns < to_ns);
    let begin = samples[..first].iter().rposition(waits).map_or(0, |last| last + 1);
    let end = samples[behind..].iter().position(waits).map_or(samples.len(), |next| behind + next);
    &samples[begin..end]
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

fn by_records<'c>(
    capture: &'c Capture,
    tid: u32,
    (samples, waits_in): (&'c [Sample], (u64, u64)),
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
        true if !capture.has_blind_times() => exact(from_ns, to_ns),
        true => {
            let (mut out, mut at) = (Vec::new(), from_ns);
            for (from, to) in capture.blind_times(tid) {
                let (from, to) = (from.clamp(at, to_ns), to.clamp(at, to_ns));
                out.append(&mut exact(at, from));
                out.append(&mut estimated(tid, samples, (from, to), waits_in));
                at = to;
            }
            out.append(&mut exact(at, to_ns));
            out
        }
        false => estimated(tid, samples, (from_ns, to_ns), waits_in),
    };
    debug_assert_eq!(out.iter().map(Segment::ns).sum::<u64>(), to_ns.saturating_sub(from_ns));
    out
}
