//! The call to another service that a finding's requests were in: `select orders where id = ?`.
//!
//! How it works: spans with the attribute `call` are calls (docs/integrations.md), and so is an
//! open span by such a name, whose attributes are not written yet. The one that most of the
//! finding's time passed in is named, where that is half of it or more. Of calls inside each other
//! (a cloud's API over HTTP) the outer one is.
//!
//! What it promises: a name is what the program's library said of itself, never a guess. Cost: one
//! pass over the spans, in captures that have such spans.

use std::collections::{BTreeMap, HashMap, HashSet};

use analysis::requests::Judged;
use analysis::thresholds;
use capture::read::{Capture, SpanRow};

use crate::groups::Group;

/// Calls of the slow requests.
pub struct Calls<'c> {
    capture: &'c Capture,
    /// By request; by begin.
    of: HashMap<u64, Vec<&'c SpanRow>>,
}

impl<'c> Calls<'c> {
    /// Of these requests.
    pub fn of(capture: &'c Capture, slow: &[Judged<'_>]) -> Calls<'c> {
        let mut of: HashMap<u64, Vec<&SpanRow>> = HashMap::new();
        if let Some(key) = capture.name_id("call") {
            let is_call = |s: &&SpanRow| s.attributes.iter().any(|(k, _)| *k == key);
            let names: HashSet<u32> =
                capture.spans.iter().filter(is_call).map(|s| s.name).collect();
            let ids: HashSet<u64> = slow.iter().map(|r| r.row.id).collect();
            let own = |s: &&SpanRow| {
                ids.contains(&s.request) && (is_call(s) || s.open && names.contains(&s.name))
            };
            for span in capture.spans.iter().filter(own) {
                of.entry(span.request).or_default().push(span);
            }
        }
        of.values_mut().for_each(|spans| spans.sort_by_key(|s| (s.begin_ns, u64::MAX - s.end_ns)));
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
            let overlap = |s: &SpanRow| {
                let (begin, end) = (s.begin_ns.max(segment.from_ns), s.end_ns.min(segment.to_ns));
                end.saturating_sub(begin)
            };
            // Outer calls come first.
            let longest = calls.iter().rev().max_by_key(|s| overlap(s));
            if let Some(span) = longest.filter(|s| overlap(s) > 0) {
                *sums.entry(span.name).or_default() += overlap(span);
            }
        }
        let (name, ns) = sums.into_iter().max_by_key(|(_, ns)| *ns)?;
        let is_most = ns as f64 >= thresholds::half() * all as f64;
        is_most.then(|| self.capture.name(name))
    }
}
