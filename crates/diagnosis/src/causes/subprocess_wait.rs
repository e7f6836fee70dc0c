//! subprocess-wait: the request waits for a child process.
//!
//! Signature: wait4/waitid, or reading a pipe or polling inside the `subprocess` module, or reading
//! a pipe whose other end a child has. Which child it is comes from the call or the pipe at
//! sampling time.
//!
//! Quotes: the child's program. Sure: the call was seen and switch records time it.

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::awaits::Awaited;
use crate::scene::Scene;
use analysis::resource::Resource;
use analysis::signatures::Stdlib;
use analysis::timeline::{Segment, State};
use format::wait::{AwaitKind, WaitKind, CHILD, PIPE_OF_CHILD};

pub const RULE: Rule = Rule { id: "subprocess-wait", claim };
pub const ADVICE: &str =
    "Start the program ahead of time, replace it by a library, or give it a time limit.";

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = || Claim::of(Cause::SubprocessWait, segment);
    waits(scene, segment).then(|| Claim {
        resource: child(scene, segment).map(Resource::Child),
        prefer_user: true,
        ..own()
    })
}

/// Whether a child process is waited for, or what it writes.
pub fn waits(scene: &Scene<'_>, segment: &Segment<'_>) -> bool {
    let inside = || scene.frames.any_at(segment.stack(), Stdlib::Subprocess);
    segment.state == State::Wait
        && match segment.wait() {
            WaitKind::ChildWait => true,
            WaitKind::PipeRead | WaitKind::Poll => inside() || child(scene, segment).is_some(),
            WaitKind::Sleep => inside(),
            _ => false,
        }
}

/// The child waited for, or whose pipe is.
fn child(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<String> {
    let target = scene.target_of_wait(segment);
    target.filter(|t| t.starts_with(CHILD) || t.starts_with(PIPE_OF_CHILD))
}

/// Of a suspended task: `asyncio.subprocess`.
pub fn awaited(_: &Scene<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = Claim::of_await(Cause::SubprocessWait, seen.row, segment);
    (seen.row.kind == AwaitKind::Child).then_some(Claim { prefer_user: true, ..own })
}

pub fn sentence(d: &Described<'_>) -> String {
    let what = d.resource.map_or_else(|| "a child process".to_owned(), Resource::to_string);
    format!("{} waited {} for {what}", at(d.place), ms_text(d.mean_ms))
}
