//! page-fault: the kernel had to find memory first.
//!
//! Signature: blocked in the kernel outside a system call, or inside mmap, munmap, madvise (or one
//! of many short waits most of whose samples are so, as a mapped file is read page by page); or on
//! a CPU, but mostly in the kernel, with enough page faults, or growth of the process' memory, to
//! explain it (memory touched for the first time, in huge pages at times, or copied after a fork).
//!
//! Quotes: page faults and the kernel's share around the longest interval. Unsure: samples saw few
//! of many short waits.

use analysis::timeline::Segment;

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::facts::kernel_time;

pub const RULE: Rule = Rule { id: "page-fault", grounds: Grounds::Faults, claim };
pub const ROW: Row = Row { sentence, advice: |_| ADVICE };

const ADVICE: &str =
    "Look at memory pressure and swap at this time; allocate less in the request, or touch the \
     memory (or read the mapped file) before the request needs it.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let found = kernel_time::waits_for_memory(cx, segment);
    found.then(|| Claim::of(Cause::PageFault, segment))
}

fn sentence(d: &Described<'_>) -> String {
    let time = d.time();
    format!("{} waited {time} for the kernel to provide memory", rule::at(d.place))
}
