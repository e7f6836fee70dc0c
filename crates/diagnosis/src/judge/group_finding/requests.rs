//! The requests that a group is about: the slow ones, the normal ones that have it too, and the one
//! that is shown.

use std::collections::HashSet;

use analysis::thresholds;

use crate::claim::Weighed;
use crate::groups::weigh::Baseline;
use crate::groups::Group;
use crate::judge::material::Material;

/// Trace ids in the report of a finding.
const IDS_MAX: usize = 3;

/// What the slow requests of a group have.
pub(super) struct OfSlow {
    /// Their begins, in order.
    pub(super) seen_ns: Vec<u64>,
    /// The trace ids of the slowest.
    pub(super) trace_ids: Vec<String>,
    /// The slowest one's came from outside.
    pub(super) trace_is_known: bool,
    /// Threads that they ran on.
    pub(super) threads: usize,
}

impl OfSlow {
    pub(super) fn new(judge: &Material<'_, '_>, slow: &[usize]) -> OfSlow {
        let rows = || slow.iter().map(|i| judge.requests.slow[*i].row);
        let mut seen_ns: Vec<u64> = rows().map(|row| row.begin_ns).collect();
        seen_ns.sort_unstable();
        let traces: Vec<_> = rows().take(IDS_MAX).map(|row| judge.traces.request(row.id)).collect();
        OfSlow {
            seen_ns,
            trace_ids: traces.iter().map(|ids| format!("{:032x}", ids.trace)).collect(),
            trace_is_known: traces.first().is_some_and(|ids| ids.recorded),
            threads: rows().map(|row| row.tid).collect::<HashSet<u32>>().len(),
        }
    }
}

/// Slow requests of which the group takes a tenth of the excess or more; of a group that is
/// less than a fifth of everything, those of which it takes half as much as of everything.
pub(super) fn slow_with(judge: &Material<'_, '_>, group: &Group<'_>, share: f64) -> Vec<usize> {
    let least = (share / 2.0).min(thresholds::small_part());
    let mut sums = vec![0.0; judge.requests.slow.len()];
    group.slices.iter().for_each(|p| sums[p.request] += p.excess_ns);
    let enough = |i: &usize| {
        let request = &judge.requests.slow[*i];
        let typical = judge.requests.typical_of(request.row.name);
        sums[*i] > least * request.ns().saturating_sub(typical) as f64
    };
    (0..sums.len()).filter(enough).collect()
}

/// Those of them whose end is known: of a request that still ran only a part is in the capture, and
/// is no measure of it. All where none had ended.
pub(super) fn ended(judge: &Material<'_, '_>, slow: &[usize]) -> Vec<usize> {
    let ended = |i: &&usize| judge.requests.slow[**i].row.end_ns.is_some();
    let ended: Vec<usize> = slow.iter().filter(ended).copied().collect();
    if ended.is_empty() {
        slow.to_vec()
    } else {
        ended
    }
}

/// Control requests that spend at least a quarter as long on the same cause and place.
pub(super) fn normals_with(judge: &Material<'_, '_>, group: &Group<'_>, mean_ns: f64) -> usize {
    let ns = |spent: &Baseline| spent.get(&group.cause).copied().unwrap_or(0.0);
    judge.spent.iter().filter(|spent| ns(spent) > thresholds::comparable_part() * mean_ns).count()
}

/// The name of the request that the finding shows, and whether it is on an event loop: that of the
/// heaviest slice or, where no stack was seen, of the request that it cost most.
pub(super) fn shown_request(
    judge: &Material<'_, '_>,
    group: &Group<'_>,
    heaviest: Option<&Weighed<'_>>,
) -> (String, bool) {
    let costliest = || group.slices.iter().max_by(|a, b| a.excess_ns.total_cmp(&b.excess_ns));
    let row = heaviest.or_else(costliest).map(|w| judge.requests.slow[w.request].row);
    let name = judge.cx.capture.name(row.map_or(0, |row| row.name));
    (name.to_owned(), row.is_some_and(|row| row.on_loop))
}

/// Requests whose name has no normal one are slow always: nothing was there to compare with,
/// and it may be their nature. Said once there are several of one name, beside normal ones of
/// others.
pub(super) fn alone(judge: &Material<'_, '_>, slow: &[usize]) -> Option<String> {
    let name = |i: &usize| judge.requests.slow[*i].row.name;
    let own = name(slow.first()?);
    let one = slow.len() >= thresholds::few_requests() && slow.iter().all(|i| name(i) == own);
    let normal = &judge.requests.normal;
    if !one || normal.is_empty() || normal.iter().any(|r| r.row.name == own) {
        return None;
    }
    let text = judge.cx.capture.name(own);
    Some(format!(
        "every {text} was over the limit, none was normal to compare with; if that is its \
         nature, give it a limit of its own: slow=\"..., {text}>LIMIT\""
    ))
}
