//! cpu-starved and cpu-throttled: the thread was runnable and got no CPU.
//!
//! Signature: preempted by switch records, or run delay of schedstat. Throttled when the cgroup's
//! throttled time grew by a like amount; then it is the quota, not the neighbours. Inside of work that is
//! long by itself it is that work's (`crowded`). The culprit is the thread of this process that ran instead,
//! where its threads took most of the CPUs.

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::scene::Scene;
use crate::timeline::{Segment, State};

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str = "Give the service more CPU, or find what else runs on these CPUs.";
/// Where it was this process that took the CPUs.
pub const ADVICE_OWN: &str =
    "Do that work in another process, at a lower priority, or in fewer threads than there are CPUs.";
pub const ADVICE_THROTTLED: &str =
    "Raise the container's CPU limit, or run fewer threads than it allows.";

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Ready {
        return None;
    }
    let throttled = throttled_ns(scene, segment.from_ns, segment.to_ns);
    let cause = match throttled * 2 > segment.ns() {
        true => Cause::CpuThrottled,
        false => Cause::CpuStarved,
    };
    // A quota is used up by whoever ran, also long before.
    let culprit = if cause == Cause::CpuStarved { scene.burner(segment) } else { None };
    let prefer_user = culprit.is_some();
    Some(Claim { seen: segment.exact, culprit, prefer_user, ..Claim::of(cause, segment) })
}

/// Growth of the cgroup's throttled time over the seconds that contain `[from, to)`.
fn throttled_ns(scene: &Scene<'_>, from_ns: u64, to_ns: u64) -> u64 {
    let capture = scene.capture;
    let rows = capture.vitals.iter().filter(|v| capture.name(v.name) == "cgroup_throttled_ns");
    let (mut before, mut after) = (None, None);
    for row in rows {
        if row.t_ns <= from_ns {
            before = Some(row.value);
        } else if row.t_ns >= to_ns && after.is_none() {
            after = Some(row.value);
        }
    }
    match (before, after) {
        (Some(before), Some(after)) if after > before => (after - before) as u64,
        _ => 0,
    }
}

pub fn sentence(cause: Cause, d: &Described<'_>) -> String {
    let why = match cause {
        Cause::CpuThrottled => "the container's CPU quota was used up",
        _ => "no CPU was free",
    };
    let told = format!("{} could have run for {} but {why}", at(d.place), ms_text(d.mean_ms));
    match (d.culprit, d.culprit_threads) {
        (Some(_), 2..) => format!("{told}: {} ran in {} threads", d.blamed(), d.culprit_threads),
        (Some(_), _) => format!("{told}: {} ran in another thread", d.blamed()),
        (None, _) => told,
    }
}
