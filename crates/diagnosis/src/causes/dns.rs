//! dns: a name is being resolved.
//!
//! Signature: waiting on a datagram socket whose peer is port 53, or on anything inside
//! `socket.getaddrinfo`.

use super::{at, ms_text, target_text, Cause, Claim, Described, Rule};
use crate::awaits::{target, Awaited};
use crate::frames::is_stdlib;
use crate::scene::Scene;
use crate::timeline::{Segment, State};
use format::wait::{AwaitKind, WaitKind};

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str =
    "Check the resolvers in /etc/resolv.conf; cache names, or lower the resolver's time limit.";

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let waits = matches!(
        segment.wait(),
        WaitKind::SocketRead | WaitKind::SocketWrite | WaitKind::Poll | WaitKind::Connect
    );
    if segment.state != State::Wait || !waits {
        return None;
    }
    let target = segment.sample.and_then(|s| scene.target(s));
    let port_53 = target.as_ref().is_some_and(|t| t.starts_with("udp") && t.ends_with(":53"));
    let resolves = || {
        let leaf = scene.frames.of(segment.stack()).next();
        leaf.is_some_and(|f| is_stdlib(&f, "socket.py", &["getaddrinfo", "getfqdn"]))
    };
    let found = port_53 || resolves();
    found.then(|| Claim { target, prefer_user: true, ..Claim::of(Cause::Dns, segment) })
}

/// Of a suspended task: `getaddrinfo` of the event loop.
pub fn awaited(scene: &Scene<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = Claim::of_await(Cause::Dns, seen.row, segment);
    let target = target(scene, seen.row);
    (seen.row.kind == AwaitKind::Resolve).then_some(Claim { target, prefer_user: true, ..own })
}

pub fn sentence(d: &Described<'_>) -> String {
    let (place, time) = (at(d.place), ms_text(d.mean_ms));
    format!("{place} waited {time} for a name to be resolved{}", target_text(d))
}
