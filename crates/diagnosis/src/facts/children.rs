//! Waits for child processes, or for what they write.

use analysis::signatures::Stdlib;
use analysis::timeline::{Segment, State};
use format::wait::{WaitKind, CHILD, PIPE_OF_CHILD};

use crate::context::Context;

/// Whether a child process is waited for, or what it writes.
pub fn awaits_child(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    let inside = || cx.frames.any_at(segment.stack(), Stdlib::Subprocess);
    segment.state == State::Wait
        && match segment.wait() {
            WaitKind::ChildWait => true,
            WaitKind::PipeRead | WaitKind::Poll => inside() || child(cx, segment).is_some(),
            WaitKind::Sleep => inside(),
            _ => false,
        }
}

/// The child waited for, or whose pipe is.
pub(crate) fn child(cx: &Context<'_>, segment: &Segment<'_>) -> Option<String> {
    let target = cx.target_of_wait(segment);
    target.filter(|t| t.starts_with(CHILD) || t.starts_with(PIPE_OF_CHILD))
}
