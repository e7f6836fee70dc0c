//! connect: a connection is being set up and the peer does not answer.
//!
//! Signature: connect(), or poll for writing on a socket that has no peer yet.
//!
//! Quotes: the peer's address. Sure: the call was seen and switch records time it; unsure: without
//! these, or where an event loop connects, whose samples are apart.

use super::{at, ms_text, resource_text, Cause, Claim, Described, Rule};
use crate::awaits::{target, Awaited};
use crate::scene::Scene;
use analysis::resource::Resource;
use analysis::timeline::{Segment, State};
use format::wait::{AwaitKind, WaitKind};

pub const RULE: Rule = Rule { id: "connect", claim };
pub const ADVICE: &str =
    "Check the peer's accept queue and the network; keep connections open; set a connect time limit.";

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Wait || segment.wait() != WaitKind::Connect {
        return None;
    }
    let resource =
        segment.sample.and_then(|s| scene.target(s)).map(|name| Resource::peer(name, false));
    Some(Claim { resource, prefer_user: true, ..Claim::of(Cause::Connect, segment) })
}

/// Of a suspended task: `create_connection` and the like.
pub fn awaited(scene: &Scene<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = Claim::of_await(Cause::Connect, seen.row, segment);
    let resource = target(scene, seen.row).map(|name| Resource::peer(name, false));
    (seen.row.kind == AwaitKind::Connect).then_some(Claim { resource, prefer_user: true, ..own })
}

pub fn sentence(d: &Described<'_>) -> String {
    let (place, time) = (at(d.place), ms_text(d.mean_ms));
    format!("{place} waited {time} for a connection to be set up{}", resource_text(d))
}
