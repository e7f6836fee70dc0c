//! Where requests were in time that no cause claims: the best evidence there is, for further
//! reading.

use std::collections::BTreeMap;

use analysis::frames::{last_part, Owner};
use analysis::thresholds;

use crate::cause::Cause;
use crate::context::Context;
use crate::groups::Group;

/// Stacks that are reported, and the calls of one, the innermost.
const PLACES_MAX: usize = 3;

const CALLS_MAX: usize = 6;

/// The heaviest stacks of an unexplained finding, each as `handler() > price() > cache.py:31 get()`
/// with its part of the finding's time, the heaviest first. None of other findings, and of time in
/// which no stack was seen.
pub fn stacks(cx: &Context<'_>, group: &Group<'_>) -> Vec<(String, f64)> {
    if group.cause != Cause::Unknown {
        return Vec::new();
    }
    let all = group.excess_ns().max(1.0);
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for w in group.slices.iter().filter(|w| w.slice.claim.stack != 0) {
        *sums.entry(calls(cx, w.slice.claim.stack)).or_default() += w.excess_ns;
    }
    let mut parts: Vec<_> = sums.into_iter().map(|(calls, ns)| (calls, ns / all)).collect();
    parts.retain(|(calls, part)| !calls.is_empty() && *part >= thresholds::reported_part());
    parts.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    parts.truncate(PLACES_MAX);
    parts
}

/// The program's and libraries' calls; the interpreter's where there are no others.
fn calls(cx: &Context<'_>, stack: u32) -> String {
    let own = |file: &str| matches!(cx.frames.owner(file), Owner::User | Owner::Library);
    let any = cx.frames.any(stack, |f| own(f.file));
    let shown = cx.frames.of(stack).filter(|f| !any || own(f.file));
    let mut shown = shown.filter(|f| !f.is_module_body()).take(CALLS_MAX);
    let Some(innermost) = shown.next() else { return String::new() };
    let mut names: Vec<String> = shown.map(|f| format!("{}()", last_part(f.function))).collect();
    names.reverse();
    names.push(cx.frames.place(&innermost).short());
    names.join(" > ")
}
