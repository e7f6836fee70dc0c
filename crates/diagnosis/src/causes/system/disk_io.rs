//! disk-io: the request waits for a file system.
//!
//! Signature: blocked in read, write, fsync or a metadata call on a regular file; its path comes
//! from the descriptor. Or on a CPU, but mostly in the kernel, moving data from or to storage: fast
//! devices keep a core busy rather than waiting.
//!
//! Quotes: the path, the kernel's share of the CPU time, KiB moved. Sure: the call was seen for
//! most of the time; unsure: many short calls of which samples saw few.

use analysis::resource::Resource;
use analysis::timeline::{Segment, State};
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::facts::kernel_time;

pub const RULE: Rule = Rule { id: "disk-io", grounds: Grounds::Call, claim };
/// Copied from or to storage.
pub const ON_CPU: Rule = Rule { id: "disk-io-on-cpu", grounds: Grounds::Counters, claim: on_cpu };
pub const ROW: Row = Row { sentence, advice: |_| ADVICE };

const ADVICE: &str = "Take the file off the request's path, batch the syncs, or look at the \
     device (pressure, latency) at this time.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let disk = matches!(
        segment.wait(),
        WaitKind::FileRead | WaitKind::FileWrite | WaitKind::FileSync | WaitKind::FileOpen
    );
    if segment.state != State::Wait || !disk {
        return None;
    }
    let resource = segment.sample.and_then(|s| cx.target(s)).map(Resource::File);
    Some(Claim { resource, ..Claim::of(Cause::DiskIo, segment) })
}

fn on_cpu(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let moves = segment.state == State::Run && kernel_time::moves_storage(cx, segment);
    moves.then(|| Claim::of(Cause::DiskIo, segment))
}

fn sentence(d: &Described<'_>) -> String {
    let waited = format!("{} waited {} for the disk", rule::at(d.place), d.time());
    format!("{waited}{}{}", rule::resource_text(d), rule::repeats_text(d))
}
