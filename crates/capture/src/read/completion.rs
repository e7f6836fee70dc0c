//! What one record alone does not say: rows that are completed when all of them are read.

use format::record::{STILL_OUT, SWITCHES_PAUSED};
use format::trace::TRACESTATE;

use super::capture::Capture;
use super::missing_switches;
use super::quick::QuickMap;
use super::rows::{OffCpu, TaskRow, Text};

/// The pauses in the vital of that name. What lies before its first record is lost: if that record
/// ends a pause, the pause's begin is not known.
pub(super) fn switches_paused(capture: &Capture) -> Vec<(u64, u64)> {
    let Some(name) = capture.name_id(SWITCHES_PAUSED) else { return Vec::new() };
    let (mut out, mut since): (Vec<(u64, u64)>, Option<u64>) = (Vec::new(), None);
    for vital in capture.vitals.iter().filter(|v| v.name == name) {
        if vital.value > 0.0 {
            let begin_ns = vital.t_ns.saturating_sub(vital.value as u64);
            since = Some(since.map_or(begin_ns, |since| since.min(begin_ns)));
        } else {
            let from_ns = match (since.take(), out.last()) {
                (Some(since), _) => since,
                (None, None) => capture.meta.from_ns.min(vital.t_ns),
                (None, Some(_)) => continue,
            };
            let from_ns = from_ns.max(out.last().map_or(0, |(_, to)| *to));
            out.push((from_ns, vital.t_ns));
        }
    }
    out.extend(since.map(|since| (since, u64::MAX)));
    out
}

/// Adds attributes that were recorded apart from a request's end: those of the OpenTelemetry span
/// of the request.
pub(super) fn add_apart_attributes(capture: &mut Capture) {
    let state = capture.name_id(TRACESTATE);
    let apart = capture.traces.iter().filter(|t| !t.record.of_span && !t.attributes.is_empty());
    let mut by_request: QuickMap<u64, Vec<(u32, Text)>> = QuickMap::default();
    for row in apart {
        let own = row.attributes.iter().filter(|(key, _)| Some(*key) != state);
        by_request.entry(row.record.request).or_default().extend(own.cloned());
    }
    for request in &mut capture.requests {
        for attribute in by_request.remove(&request.id).unwrap_or_default() {
            if !request.attributes.contains(&attribute) {
                request.attributes.push(attribute);
            }
        }
    }
}

/// A task has a record at its begin and one at its end; the second stands for both.
pub(super) fn end_tasks(tasks: &mut Vec<TaskRow>, to_ns: u64) {
    let key = |t: &TaskRow| (t.begin_ns, t.tid, t.request);
    tasks.sort_by_key(|t| (key(t), t.end_ns));
    tasks.dedup_by(|later, first| key(later) == key(first));
    let running = tasks.iter_mut().filter(|t| t.end_ns == STILL_OUT);
    running.for_each(|t| t.end_ns = to_ns.max(t.begin_ns));
}

/// Adds off-CPU intervals whose records are lost, as samples prove.
pub(super) fn add_missing_switches(capture: &mut Capture) {
    let mut off = std::mem::take(&mut capture.off_cpu);
    let mut blind = capture.switches_paused.clone();
    blind.extend(capture.excerpt.iter().flat_map(|excerpt| &excerpt.unread));
    for (tid, rows) in &mut off {
        let samples = capture.samples.get(tid).map_or(&[][..], Vec::as_slice);
        let added = missing_switches::off_cpu(rows, samples, &blind);
        // Rows around a part are counted in the part that owns them.
        let own = added.into_iter().filter(|out_ns| capture.owns(*out_ns)).count();
        capture.switches_mended += own as u64;
    }
    capture.off_cpu = off;
}

/// Sorts a thread's off-CPU intervals, closes the last open one, and drops those that a later,
/// complete record of the same interval replaces.
pub(super) fn settle(rows: &mut Vec<OffCpu>, end_ns: u64) {
    rows.sort_by_key(|r| (r.out_ns, r.in_ns));
    rows.dedup_by(|later, kept| later.out_ns == kept.out_ns);
    for i in 0..rows.len() {
        let limit = rows.get(i + 1).map_or(end_ns, |next| next.out_ns);
        if rows[i].in_ns == STILL_OUT || rows[i].in_ns > limit {
            rows[i].in_ns = limit.max(rows[i].out_ns);
        }
    }
}
