//! disk-io: the request waits for a file system.
//!
//! Signature: blocked in read, write, fsync or a metadata call on a regular file; its path comes
//! from the descriptor.

use super::{at, ms_text, target_text, Cause, Claim, Described, Rule};
use crate::scene::Scene;
use crate::timeline::{Segment, State};
use format::wait::WaitKind;

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str = "Take the file off the request's path, batch the syncs, or look at the \
     device (pressure, latency) at this time.";

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let disk = matches!(
        segment.wait(),
        WaitKind::FileRead | WaitKind::FileWrite | WaitKind::FileSync | WaitKind::FileOpen
    );
    if segment.state != State::Wait || !disk {
        return None;
    }
    let target = segment.sample.and_then(|s| scene.target(s));
    Some(Claim { target, prefer_user: true, ..Claim::of(Cause::DiskIo, segment) })
}

pub fn sentence(d: &Described<'_>) -> String {
    format!("{} waited {} for the disk{}", at(d.place), ms_text(d.mean_ms), target_text(d))
}
