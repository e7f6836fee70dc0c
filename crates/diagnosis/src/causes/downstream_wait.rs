//! downstream-wait: the request waits for another process's answer.
//!
//! Signature: read or write on a socket or pipe, or poll on descriptors; the peer's address comes
//! from the descriptor at sampling time.

use super::{at, ms_text, repeats_text, Cause, Claim, Described, Rule};
use crate::awaits::{by_library, target, Awaited};
use crate::repeats::MANY;
use crate::scene::Scene;
use crate::timeline::{Segment, State};
use format::wait::{AwaitKind, WaitKind};

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str =
    "Look at the peer at this time; give the call a time limit, and a cache or a fallback.";

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let waits = matches!(
        segment.wait(),
        WaitKind::SocketRead | WaitKind::SocketWrite | WaitKind::Poll | WaitKind::PipeRead
    );
    if segment.state != State::Wait || !waits {
        return None;
    }
    let target = scene.target_of_wait(segment);
    Some(Claim { target, prefer_user: true, ..Claim::of(Cause::DownstreamWait, segment) })
}

/// Of a suspended task: a stream; or a future behind which a single socket lies, as client
/// libraries wait for an answer. A library's Event likewise.
pub fn awaited(scene: &Scene<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let target = target(scene, seen.row);
    let waits = match seen.row.kind {
        AwaitKind::Socket => true,
        AwaitKind::Future => target.is_some(),
        AwaitKind::Event => target.is_some() && by_library(scene, seen.row),
        _ => false,
    };
    let own = Claim::of_await(Cause::DownstreamWait, seen.row, segment);
    waits.then_some(Claim { target, prefer_user: true, ..own })
}

pub fn sentence(d: &Described<'_>) -> String {
    let peer = d.target.map_or_else(|| "a peer".to_owned(), str::to_owned);
    let waited = format!("{} waited {} for {peer}", at(d.place), ms_text(d.mean_ms));
    match d.times {
        _ if d.repeats.is_some() => format!("{waited}{}", repeats_text(d)),
        times if times >= MANY => format!("{waited} in {times} waits, one after the other"),
        _ => waited,
    }
}
