//! subprocess-wait: the request waits for a child process.
//!
//! Signature: wait4/waitid, or reading a pipe or polling inside the `subprocess` module.

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::awaits::Awaited;
use crate::frames::is_stdlib;
use crate::scene::Scene;
use crate::timeline::{Segment, State};
use format::wait::{AwaitKind, WaitKind};

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str =
    "Start the program ahead of time, replace it by a library, or give it a time limit.";

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Wait {
        return None;
    }
    let inside = || scene.frames.any(segment.stack(), |f| is_stdlib(f, "subprocess.py", &[]));
    let child = match segment.wait() {
        WaitKind::ChildWait => true,
        WaitKind::PipeRead | WaitKind::Poll | WaitKind::Sleep => inside(),
        _ => false,
    };
    child.then(|| Claim { prefer_user: true, ..Claim::of(Cause::SubprocessWait, segment) })
}

/// Of a suspended task: `asyncio.subprocess`.
pub fn awaited(_: &Scene<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = Claim::of_await(Cause::SubprocessWait, seen.row, segment);
    (seen.row.kind == AwaitKind::Child).then_some(Claim { prefer_user: true, ..own })
}

pub fn sentence(d: &Described<'_>) -> String {
    format!("{} waited {} for a child process", at(d.place), ms_text(d.mean_ms))
}
