//! fork: the kernel copied the process's page tables.
//!
//! Signature: the thread was inside `fork`, by the recorder's hooks around it. Or, while another
//! thread was inside `fork`, it was blocked in the kernel (memory maps, page faults, a sleep longer
//! than what it asked for), waited for the GIL or had not begun. Or it waited behind its fork until
//! the child ran its program. Sure: the hooks measure it. The place of the fork is from a sample
//! during it.
//!
//! Quotes: which thread forked, where. Sure: the hooks around it measure begin and end; unsure: no
//! sample saw where it was called.

use analysis::resource::Resource;
use analysis::timeline::{Segment, State};
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::{Blocker, Claim};
use crate::context::Context;
use crate::explain::Inference;

pub const RULE: Rule = Rule { id: "fork", grounds: Grounds::Fork, claim };
pub const ROW: Row = Row { sentence, advice: |_| ADVICE };

const ADVICE: &str = "Fork early, while the process is small; start programs with posix_spawn \
     or vfork (Python: subprocess without preexec_fn), workers with spawn or forkserver.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if cx.forked_ns(segment) * 2 > segment.ns() {
        let stack = cx.forking_stack(segment);
        let own = Claim::of(Cause::Fork, segment);
        return Some(Claim { seen: true, stack, ..own });
    }
    if segment.state == State::Wait && cx.awaits_exec(segment) {
        let own = Claim::of(Cause::Fork, segment);
        return Some(Claim { resource: Some(Resource::ChildProgram), ..own });
    }
    // Python forks with the GIL in hand, and the sampler is blocked as well: it may have seen
    // nothing.
    let kept = matches!(
        segment.wait(),
        WaitKind::Fault | WaitKind::Memory | WaitKind::Gil | WaitKind::Unknown
    );
    if segment.state == State::Wait && (kept || overslept(segment)) {
        elsewhere(cx, segment)
    } else {
        None
    }
}

/// The claim on time in which another thread forked, for most of it.
pub fn elsewhere(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let (tid, stack) = cx.fork_elsewhere(segment)?;
    let blocker = Some(Blocker::thread(tid, stack, true, Inference::ForkRecord));
    Some(Claim { blocker, ..Claim::of(Cause::Fork, segment) })
}

/// Whether a sleep went on for so long that its time was up before: the thread waits for something
/// else in the kernel by then.
fn overslept(segment: &Segment<'_>) -> bool {
    let limit_ns = segment.sample.map_or(0, |s| s.timeout_ns);
    segment.wait() == WaitKind::Sleep && limit_ns > 1 && segment.ns() > 2 * limit_ns
}

fn sentence(d: &Described<'_>) -> String {
    let time = d.time();
    match d.culprit {
        Some(blocker) => {
            let waiter = if d.is_nowhere { "requests".to_owned() } else { rule::at(d.place) };
            format!("{waiter} waited {time} while {} forked", blocker.short())
        }
        None => {
            let exec =
                d.resource.map_or_else(String::new, |what| format!(" and waiting for {what}"));
            format!(
                "{} spent {time} in fork{exec}: the kernel copied page tables",
                rule::at(d.place)
            )
        }
    }
}
