//! import: a module is loaded on the request's path, or the request waits for a thread that loads
//! one.
//!
//! Signature: frames of the import system in the stack. The place is the code that imports. A
//! sleep, a peer or a lock inside the module's own code keeps its own name.

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::scene::Scene;
use crate::timeline::{Segment, State};
use capture::read::Frame;
use format::wait::WaitKind;

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str = "Import it at start-up, before the first request.";

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let stack = segment.stack();
    if stack == 0 || segment.state == State::Unknown || !scene.frames.any(stack, is_import) {
        return None;
    }
    let own_name = match segment.wait() {
        WaitKind::Futex => !scene.frames.of(stack).next().is_some_and(|f| is_import(&f)),
        kind => matches!(
            kind,
            WaitKind::Sleep | WaitKind::Gil | WaitKind::SocketRead | WaitKind::ChildWait
        ),
    };
    (segment.state == State::Run || !own_name).then(|| Claim::of(Cause::Import, segment))
}

/// A frame of the import system.
pub fn is_import(frame: &Frame<'_>) -> bool {
    frame.file.starts_with("<frozen importlib")
}

pub fn sentence(d: &Described<'_>) -> String {
    format!("{} loaded a module for {}", at(d.place), ms_text(d.mean_ms))
}
