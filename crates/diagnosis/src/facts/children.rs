//! Waits for child processes, or for what they write.

use analysis::signatures::Stdlib;
use analysis::timeline::{Segment, State};
use format::wait::{WaitKind, CHILD, PIDFD, PIPE_OF_CHILD};

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

/// The child waited for, or whose pipe is. A pidfd is polled for nothing but its process's end.
pub(crate) fn child(cx: &Context<'_>, segment: &Segment<'_>) -> Option<String> {
    let target = cx.target_of_wait(segment)?;
    if target.starts_with(PIDFD) {
        return Some("another process".to_owned());
    }
    (target.starts_with(CHILD) || target.starts_with(PIPE_OF_CHILD)).then_some(target)
}
