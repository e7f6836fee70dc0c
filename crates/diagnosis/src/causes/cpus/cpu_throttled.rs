//! cpu-throttled: the thread was runnable, and the container's CPU quota was used up.
//!
//! Signature: as cpu-starved, while the cgroup's throttled time grew by a like amount: then it is
//! the quota, not the neighbours. Where the recorder's own thread missed its beats as well, the
//! missed beats decide (`stopped`).
//!
//! Quotes: the time without a CPU. Sure: switch records have it, and the kernel counts what it
//! throttles. There is no culprit: a quota is used up by all that ran, also long before.

use analysis::timeline::{Segment, State};

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;

pub const RULE: Rule = Rule { id: "cpu-throttled", grounds: Grounds::Counters, claim };
pub const ROW: Row = Row { sentence, advice: |_| ADVICE };

const ADVICE: &str = "Raise the container's CPU limit, or run fewer threads than it allows.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = || Claim { seen: segment.exact, ..Claim::of(Cause::CpuThrottled, segment) };
    (segment.state == State::Ready && is_throttled(cx, segment)).then(own)
}

/// Whether the cgroup was throttled for most of a segment.
pub fn is_throttled(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    throttled_ns(cx, segment.from_ns, segment.to_ns) * 2 > segment.ns()
}

/// Growth of the cgroup's throttled time over the seconds that contain `[from, to)`.
fn throttled_ns(cx: &Context<'_>, from_ns: u64, to_ns: u64) -> u64 {
    let capture = cx.capture;
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

fn sentence(d: &Described<'_>) -> String {
    let (at, time) = (rule::at(d.place), d.time());
    format!("{at} could have run for {time} but the container's CPU quota was used up")
}
