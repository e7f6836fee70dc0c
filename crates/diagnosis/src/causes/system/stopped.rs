//! stopped: the whole process was stopped (SIGSTOP, a debugger, a frozen container, a paused VM).
//!
//! Signature: the recorder's own thread, which needs neither the GIL nor any lock, missed its beats
//! for the whole time. It was not runnable either (run delay), else it is cpu-starved, and the
//! cgroup was not throttled, else cpu-throttled. That the recorder got no CPU says nothing of a
//! thread that had one, or wanted none because it waited.
//!
//! Quotes: the gap. Sure: the beats are a source of their own. There is no place: all threads were
//! stopped.

use analysis::gaps::Gap;
use analysis::timeline::{Segment, State};
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::facts::threads;

pub const RULE: Rule = Rule { id: "stopped", grounds: Grounds::Stopped, claim };
pub const ROW: Row = Row { sentence, advice: |_| ADVICE };

const ADVICE: &str = "Find what stopped the process: debuggers, container freezers, \
     job control, snapshots or migration of the machine.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let gap = cx.gap_over(segment.from_ns, segment.to_ns)?;
    let cause = cause_of(gap);
    // Too few CPUs delay the threads that want one.
    let ran = segment.state == State::Run && segment.exact;
    let rested = cause == Cause::CpuStarved && (ran || is_known_to_block(cx, segment));
    (!rested).then(|| Claim { seen: true, ..Claim::of(cause, segment) })
}

/// Whether the thread was blocked for most of the segment by its own records, whatever CPU the
/// recorder's thread got. A switch record does not have the time of the wakeup. So it was blocked
/// if the next account of its time has less of waiting for a CPU than half of it, or, without such
/// an account, if the last sample of that wait which found it blocked lies behind half of it.
fn is_known_to_block(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    let is_blocked = |wait| !matches!(wait, WaitKind::Running | WaitKind::Unknown);
    if segment.state != State::Wait {
        return false;
    }
    if !segment.exact {
        return segment.sampled && is_blocked(segment.wait());
    }
    if let Some(ready_ns) = threads::ready_at_most(cx, segment.tid, segment.to_ns) {
        return ready_ns * 2 < segment.ns();
    }
    let Some(off) = cx.off_around(segment) else { return false };
    let samples = cx.samples_in(segment.tid, segment.from_ns, off.in_ns);
    let last = samples.iter().rev().find(|s| is_blocked(s.wait));
    last.is_some_and(|s| (s.t_ns - segment.from_ns) * 2 > segment.ns())
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

fn sentence(d: &Described<'_>) -> String {
    format!("the whole process was stopped for {}, dashcam's own thread too", d.time())
}
