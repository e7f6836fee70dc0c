//! event-loop-blocked: a request that runs on an event loop waits because a callback (its own or
//! another request's) keeps the loop's thread.
//!
//! Signature: the loop's thread is not in its poll call but on a CPU or blocked elsewhere, in one
//! place for longer than `BLOCKED_NS`. Not its own doing, and so another cause's: the process stood
//! still, a collection, another thread that kept the GIL, no CPU. Time in which the loop polls is
//! the request's own waiting for something it awaits: see `awaits`. Where its task was not seen it
//! stays unknown.

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::scene::Scene;
use crate::timeline::{Segment, State};
use format::wait::WaitKind;

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str = "Await an asynchronous version of the call, or hand it to a thread with \
     asyncio.to_thread().";

/// Shorter pieces of work are a loop's ordinary business.
const BLOCKED_NS: u64 = 50_000_000;

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if !scene.is_loop(segment) {
        return None;
    }
    if scene.is_idle_loop(segment) || scene.may_poll(segment) {
        return Some(Claim::of(Cause::Unknown, segment));
    }
    if segment.state == State::Ready
        || (segment.state == State::Wait && segment.wait() == WaitKind::Gil)
    {
        return None;
    }
    // A client library that waits for its peer is the messenger: the user's call is what to change.
    let prefer_user = segment.state == State::Wait
        && matches!(
            segment.wait(),
            WaitKind::SocketRead | WaitKind::SocketWrite | WaitKind::Poll | WaitKind::Connect
        );
    let kept = is_kept(scene, segment);
    kept.then(|| Claim { prefer_user, ..Claim::of(Cause::EventLoopBlocked, segment) })
}

/// Whether code, the GIL or a lack of CPU kept the loop in a segment of its thread.
pub fn is_kept(scene: &Scene<'_>, segment: &Segment<'_>) -> bool {
    !scene.is_idle_loop(segment)
        && !scene.may_poll(segment)
        && segment.state != State::Unknown
        && scene.busy_around(segment) >= BLOCKED_NS
}

pub fn sentence(d: &Described<'_>) -> String {
    let doing = d.culprit_doing.map_or_else(String::new, |doing| format!("; it {doing}"));
    format!("{} kept the event loop for {}{doing}", at(d.place), ms_text(d.mean_ms))
}
