//! cpu-starved and cpu-throttled: the thread was runnable and got no CPU.
//!
//! Signature: preempted by switch records, or run delay of schedstat. Throttled when the cgroup's
//! throttled time grew by a like amount; then it is the quota, not the neighbours. Inside of work that is
//! long by itself it is that work's (`crowded`).

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::scene::Scene;
use crate::timeline::{Segment, State};

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str = "Give the service more CPU, or find what else runs on these CPUs.";
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
    Some(Claim { seen: segment.exact, ..Claim::of(cause, segment) })
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
    format!("{} could have run for {} but {why}", at(d.place), ms_text(d.mean_ms))
}
