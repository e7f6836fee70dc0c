//! page-fault: the kernel had to find memory first.
//!
//! Signature: blocked in the kernel outside a system call, or inside mmap, munmap, madvise; or on a
//! CPU, but mostly in the kernel, with enough page faults to explain it (memory touched for the
//! first time, or copied after a fork).

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::scene::Scene;
use crate::timeline::{Segment, State};
use format::usage::Usage;
use format::wait::WaitKind;

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str =
    "Look at memory pressure and swap at this time; allocate less in the request, or touch the \
     memory before the request needs it.";

/// A fault of one small page costs 0.3 to 10 us; kernel time beyond this per fault went elsewhere.
const FAULT_US: u64 = 25;

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let found = match segment.state {
        State::Wait => {
            segment.sampled && matches!(segment.wait(), WaitKind::Fault | WaitKind::Memory)
        }
        State::Run => scene.usage_around(segment).is_some_and(|used| {
            is_mostly_kernel(used) && u64::from(used.system_us) <= FAULT_US * u64::from(used.faults)
        }),
        _ => false,
    };
    found.then(|| Claim::of(Cause::PageFault, segment))
}

/// Whether a thread that ran was in the kernel more than half of the time.
pub fn is_mostly_kernel(used: Usage) -> bool {
    used.system_us > used.user_us
}

pub fn sentence(d: &Described<'_>) -> String {
    let time = ms_text(d.mean_ms);
    format!("{} waited {time} for the kernel to provide memory", at(d.place))
}
