//! sleep: the request's own thread asked the kernel to wake it later.
//!
//! Signature: nanosleep/clock_nanosleep, or select/poll on nothing with a time limit. Sure when the
//! system call was seen; nobody else is involved, so there is no culprit but the caller.

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::scene::Scene;
use crate::timeline::{Segment, State};
use format::wait::WaitKind;

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str = "Take the pause off the request's path: do the retry or back-off in the \
     background, or give it a deadline shorter than the request's.";

fn claim(_: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let sleeps =
        segment.state == State::Wait && matches!(segment.wait(), WaitKind::Sleep | WaitKind::Yield);
    sleeps.then(|| Claim::of(Cause::Sleep, segment))
}

pub fn sentence(d: &Described<'_>) -> String {
    format!("{} slept for {}", at(d.place), ms_text(d.mean_ms))
}
