//! The call to another service that a finding's requests were in: `select orders where id = ?`.
//!
//! How it works: a span's record says that it is a call (docs/integrations.md); an open span, which
//! has no record yet, is one by its name. The one that most of the finding's time passed in is
//! named, where that is half of it or more. Of calls inside each other (a cloud's API over HTTP)
//! the outer one is.
//!
//! What it promises: a name is what the program's library said of itself, never a guess. Missing on
//! purpose: calls too short to be kept (`capture::read`); `repeats` counts them.

use std::collections::{BTreeMap, HashMap, HashSet};

use analysis::requests::Judged;
use analysis::thresholds;
use analysis::timeline::overlap_ns;
use capture::read::{CallRow, Capture, SpanRow};

use crate::groups::Group;

/// Calls of the slow requests.
pub struct Calls<'c> {
    capture: &'c Capture,
    /// By request; by begin, the longer first.
    of: HashMap<u64, Vec<CallRow>>,
}

impl<'c> Calls<'c> {
    /// Of these requests.
    pub fn of(capture: &'c Capture, slow: &[Judged<'_>]) -> Calls<'c> {
        let mut of: HashMap<u64, Vec<CallRow>> = HashMap::new();
        let names: HashSet<u32> = capture.calls.iter().map(|call| call.name).collect();
        if !names.is_empty() {
            let open = capture.open_spans.iter().chain(capture.spans.iter().filter(|s| s.open));
            let still = open.filter(|s| names.contains(&s.name));
            let ids: HashSet<u64> = slow.iter().map(|r| r.row.id).collect();
            let all = capture.calls.iter().copied().chain(still.map(running));
            for call in all.filter(|call| ids.contains(&call.request)) {
                of.entry(call.request).or_default().push(call);
            }
        }
        of.values_mut().for_each(|calls| calls.sort_by_key(|c| (c.begin_ns, u64::MAX - c.end_ns)));
        Calls { capture, of }
    }

    /// The name of the call that most of a group's time passed in; None: there is none, or it is
    /// less than half.
    pub(crate) fn of_group(&self, group: &Group<'_>, slow: &[Judged<'_>]) -> Option<&'c str> {
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        let mut all = 0;
        for w in &group.slices {
            let segment = &w.slice.segment;
            all += segment.ns();
            let Some(calls) = self.of.get(&slow[w.request].row.id) else { continue };
            let overlap =
                |call: &CallRow| overlap_ns((call.begin_ns, call.end_ns), segment.times());
            // Of those that last as long, the last: the outer ones.
            let longest = calls.iter().rev().max_by_key(|call| overlap(call));
            if let Some(call) = longest.filter(|call| overlap(call) > 0) {
                *sums.entry(call.name).or_default() += overlap(call);
            }
        }
        let (name, ns) = sums.into_iter().max_by_key(|(_, ns)| *ns)?;
        let is_most = ns as f64 >= thresholds::half() * all as f64;
        is_most.then(|| self.capture.name(name))
    }
}

fn running(span: &SpanRow) -> CallRow {
    let SpanRow { name, begin_ns, end_ns, request, .. } = *span;
    CallRow { name, begin_ns, end_ns, request }
}
