//! Limits times to values that a clock can have given, so that sums, differences and doubles of
//! them fit.

use format::record::Sample;

use super::capture::Capture;

/// Times past this are damage (36 years of uptime). The diagnosis adds and doubles.
const LATEST_NS: u64 = 1 << 60;
/// Durations between two samples past this are damage (13 days); their sums fit.
const LONGEST_NS: u64 = 1 << 50;

/// Cuts times to `LATEST_NS`: what the diagnosis computes from them then fits, and an i64 holds it.
/// The order of rows stays.
pub fn tame(capture: &mut Capture) {
    let cut = |t_ns: &mut u64| *t_ns = (*t_ns).min(LATEST_NS);
    let meta = &mut capture.meta;
    [&mut meta.start_ns, &mut meta.from_ns, &mut meta.to_ns].into_iter().for_each(cut);
    for row in &mut capture.requests {
        [&mut row.begin_ns, &mut row.started_ns].into_iter().for_each(cut);
        row.end_ns.iter_mut().for_each(cut);
    }
    for row in capture.spans.iter_mut().chain(&mut capture.own_spans) {
        [&mut row.begin_ns, &mut row.end_ns].into_iter().for_each(cut);
    }
    for row in &mut capture.gcs {
        [&mut row.begin_ns, &mut row.end_ns].into_iter().for_each(cut);
    }
    for row in &mut capture.tasks {
        [&mut row.queued_ns, &mut row.begin_ns, &mut row.end_ns].into_iter().for_each(cut);
    }
    for row in capture.off_cpu.values_mut().flatten() {
        [&mut row.out_ns, &mut row.in_ns].into_iter().for_each(cut);
    }
    capture.wakes.values_mut().flatten().for_each(|row| cut(&mut row.t_ns));
    capture.events.iter_mut().for_each(|row| cut(&mut row.t_ns));
    capture.samples.values_mut().flatten().for_each(tame_sample);
    for row in capture.awaits.values_mut().flatten() {
        [&mut row.t_ns, &mut row.timeout_ns].into_iter().for_each(cut);
    }
    for row in capture.suspensions.values_mut().flatten() {
        [&mut row.out_ns, &mut row.in_ns].into_iter().for_each(cut);
    }
    for row in &mut capture.threads {
        cut(&mut row.start_ns);
        row.end_ns.iter_mut().for_each(cut);
    }
}

fn tame_sample(row: &mut Sample) {
    row.t_ns = row.t_ns.min(LATEST_NS);
    for ns in [&mut row.wall_ns, &mut row.cpu_ns, &mut row.run_delay_ns] {
        *ns = (*ns).min(LONGEST_NS);
    }
    // In a sample of a running thread these words have another meaning.
    if row.usage().is_none() {
        row.timeout_ns = row.timeout_ns.min(LATEST_NS);
    }
}
