//! page-fault: the kernel had to find memory first.
//!
//! Signature: blocked in the kernel outside a system call, or inside mmap, munmap, madvise.

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::scene::Scene;
use crate::timeline::{Segment, State};
use format::wait::WaitKind;

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str =
    "Look at memory pressure and swap at this time; touch the memory before the request needs it.";

fn claim(_: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let faults = matches!(segment.wait(), WaitKind::Fault | WaitKind::Memory);
    let found = segment.state == State::Wait && faults && segment.sampled;
    found.then(|| Claim::of(Cause::PageFault, segment))
}

pub fn sentence(d: &Described<'_>) -> String {
    format!("{} waited {} for memory", at(d.place), ms_text(d.mean_ms))
}
