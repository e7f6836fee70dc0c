//! stopped: the whole process stood still (SIGSTOP, a debugger, a frozen container, a paused VM).
//!
//! Signature: the recorder's own thread, which needs neither the GIL nor any lock, missed its beats
//! for the whole time. It was not runnable either (run delay), else it is cpu-starved, and the
//! cgroup was not throttled, else cpu-throttled. That the recorder got no CPU says nothing of a thread
//! that had one, or wanted none because it waited.

use super::{ms_text, Cause, Claim, Described, Rule};
use crate::scene::{Gap, Scene};
use crate::timeline::{Segment, State};

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str = "Look for who stopped the process: debuggers, container freezers, \
     job control, snapshots or migration of the machine.";

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let gap = scene.gap_over(segment.from_ns, segment.to_ns)?;
    let cause = cause_of(gap);
    let wanted_none = matches!(segment.state, State::Run | State::Wait);
    if cause == Cause::CpuStarved && wanted_none {
        return None;
    }
    Some(Claim { seen: true, ..Claim::of(cause, segment) })
}

/// What kept the recorder's own thread from running.
pub fn cause_of(gap: &Gap) -> Cause {
    let length = gap.to_ns - gap.from_ns;
    if gap.throttled_ns * 2 > length {
        Cause::CpuThrottled
    } else if gap.run_delay_ns * 2 > length {
        Cause::CpuStarved
    } else {
        Cause::Stopped
    }
}

pub fn sentence(d: &Described<'_>) -> String {
    format!("the whole process stood still for {}, dashcam's own thread too", ms_text(d.mean_ms))
}
