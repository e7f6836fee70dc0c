//! recorder: dashcam itself took the CPU.
//!
//! Signature: the thread was runnable without a CPU while a thread of the recorder's wrote a
//! capture, by the span it leaves.

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::scene::Scene;
use crate::timeline::{Segment, State};

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str = "Captures are written too often or too large for this machine: a longer \
     cooldown, a smaller memory; please report it.";

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let took = segment.state == State::Ready
        && scene.recorder_ns(segment.from_ns, segment.to_ns) * 2 > segment.ns();
    took.then(|| Claim { seen: segment.exact, ..Claim::of(Cause::Recorder, segment) })
}

pub fn sentence(d: &Described<'_>) -> String {
    let time = ms_text(d.mean_ms);
    format!("{} had no CPU for {time} while dashcam wrote a capture", at(d.place))
}
