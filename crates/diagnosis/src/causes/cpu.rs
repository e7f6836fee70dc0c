//! cpu: the request's own thread computed.
//!
//! Signature: on a CPU by switch records (or, without them, by the thread's CPU clock), stacks from
//! the samples. Sure: nobody else is needed to explain it.

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::scene::Scene;
use crate::timeline::{Segment, State};

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str =
    "Profile this function with the input of the slow requests; bound the input or cache the result.";

fn claim(_: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    (segment.state == State::Run).then(|| Claim::of(Cause::Cpu, segment))
}

pub fn sentence(d: &Described<'_>) -> String {
    format!("{} computed for {}", at(d.place), ms_text(d.mean_ms))
}
