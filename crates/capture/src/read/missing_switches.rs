//! Adds off-CPU intervals whose single switch record is lost; CPU clocks show the gap.
//!
//! How it works: between two intervals off the CPU a thread ran. A sample has the thread's CPU time
//! since the previous sample, to the microsecond. If samples cover all of a long run and show
//! hardly any CPU time in it, the thread did not run: a record is missing. If the samples within
//! found it in one wait, a row with that time and wait stands for the record. Without the row the
//! time would count as a run, and the thread as one that ran while others waited.
//!
//! What is missing on purpose: losses that the kernel reports itself, or many records in a row:
//! then times are estimates (`Capture::blind_times`).

use format::record::{flag, Sample};
use format::wait::WaitKind;

use super::rows::OffCpu;

/// Shorter runs are not checked: the samples around them are too far apart.
const LONG_NS: u64 = 20_000_000;
/// A thread that had less than this part of a run as CPU time did not run.
const RAN_PART: u64 = 4;

/// Adds rows for missing records; returns when each begins. `off` and `samples` are of one thread,
/// by time; `blind`: times without switch records.
pub fn off_cpu(off: &mut Vec<OffCpu>, samples: &[Sample], blind: &[(u64, u64)]) -> Vec<u64> {
    let missing = |pair: &[OffCpu]| {
        let (from_ns, to_ns) = (pair[0].in_ns, pair[1].out_ns);
        let seen = !blind.iter().any(|(from, to)| *from < to_ns && *to > from_ns);
        (seen && waited(samples, from_ns, to_ns)).then_some(OffCpu {
            out_ns: from_ns,
            in_ns: to_ns,
            preempted: false,
            cpu: None,
        })
    };
    let found: Vec<OffCpu> = off.windows(2).filter_map(missing).collect();
    if !found.is_empty() {
        off.extend_from_slice(&found);
        off.sort_by_key(|o| (o.out_ns, o.in_ns));
    }
    found.into_iter().map(|row| row.out_ns).collect()
}

/// Whether samples show that their thread was in one wait for the whole interval.
fn waited(samples: &[Sample], from_ns: u64, to_ns: u64) -> bool {
    let length = to_ns.saturating_sub(from_ns);
    if length < LONG_NS {
        return false;
    }
    let behind = &samples[samples.partition_point(|s| s.t_ns <= from_ns)..];
    let mut may_have_run = length;
    for sample in behind {
        let since_ns = sample.t_ns.saturating_sub(sample.wall_ns);
        if since_ns >= to_ns {
            break;
        }
        let inside = sample.t_ns.min(to_ns).saturating_sub(since_ns.max(from_ns));
        let measured = sample.flags & flag::TIMES != 0;
        may_have_run -=
            if measured { inside.saturating_sub(sample.cpu_ns).min(may_have_run) } else { 0 };
    }
    let mut inside = behind.iter().take_while(|s| s.t_ns < to_ns);
    let Some(first) = inside.next() else { return false };
    let at_a_wait = !matches!(first.wait, WaitKind::Running | WaitKind::Unknown);
    let same = |s: &Sample| (s.wait, s.stack) == (first.wait, first.stack);
    at_a_wait && inside.all(same) && may_have_run.saturating_mul(RAN_PART) < length
}

#[cfg(test)]
mod tests {
    use format::record::{decode, header, Kind, Record};

    use super::*;

    const MS: u64 = 1_000_000;

    fn sample(at_ms: u64, since_ms: u64, cpu_ms: u64, wait: WaitKind) -> Sample {
        let words = [
            header(Kind::Sample, 9, flag::TIMES, 7),
            at_ms * MS,
            5,
            (at_ms - since_ms) * MS,
            cpu_ms * MS,
            0,
            wait as u64,
            0,
            0,
        ];
        match decode(&words) {
            Some((_, Record::Sample(sample))) => sample,
            other => panic!("{other:?}"),
        }
    }

    fn out(from_ms: u64, to_ms: u64) -> OffCpu {
        OffCpu { out_ns: from_ms * MS, in_ns: to_ms * MS, preempted: false, cpu: Some(0) }
    }

    #[test]
    fn a_run_without_cpu_time_was_a_wait() {
        let (waits, runs) = (WaitKind::Sleep, WaitKind::Running);
        let rows = vec![out(0, 100), out(600, 700)];
        let added = |samples: &[Sample], blind: &[(u64, u64)]| {
            let mut off = rows.clone();
            let count = off_cpu(&mut off, samples, blind).len();
            assert_eq!(off.len(), 2 + count);
            off.get(1).filter(|o| o.cpu.is_none()).map(|o| (o.out_ns / MS, o.in_ns / MS))
        };
        // Sampled behind its run and when it was back.
        let measured = [sample(105, 50, 2, waits), sample(605, 105, 1, runs)];
        assert_eq!(added(&measured, &[]), Some((100, 600)));
        // No row: it had the CPU; no sample covers it; it was in two waits; the kernel lost records
        // then.
        assert_eq!(added(&[sample(105, 50, 2, waits), sample(605, 105, 400, runs)], &[]), None);
        assert_eq!(added(&[sample(605, 50, 2, runs)], &[]), None);
        let two = [
            sample(105, 50, 2, waits),
            sample(300, 105, 1, WaitKind::Futex),
            sample(605, 300, 1, runs),
        ];
        assert_eq!(added(&two, &[]), None);
        assert_eq!(added(&measured, &[(500 * MS, 900 * MS)]), None);
        // Time that no sample covers may have been a run.
        assert_eq!(added(&measured[..1], &[]), None);
    }
}
