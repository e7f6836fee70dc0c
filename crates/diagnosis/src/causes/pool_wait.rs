//! pool-wait: the request waits for a worker or for something out of a pool.
//!
//! Signature: a piece of its work was handed to an executor and had not begun (the recorder stamps
//! both), or its thread waits in `queue.Queue.get`, the usual shape of a pool of connections. What
//! the pool's workers did the while is the culprit.

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::frames::is_stdlib;
use crate::scene::{Culprit, Scene};
use crate::timeline::{Segment, State};
use format::wait::WaitKind;

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str =
    "Make the pool larger, give its waiters a time limit, or shorten what keeps its workers busy.";

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Wait || segment.wait() != WaitKind::Futex {
        return None;
    }
    let gets = scene.frames.any(segment.stack(), |f| is_stdlib(f, "queue.py", &["get"]));
    gets.then(|| Claim { prefer_user: true, ..Claim::of(Cause::PoolWait, segment) })
}

/// A claim for time in which a piece of the request's work stood in an executor's queue. `worker`
/// is the thread that took it in the end.
pub fn queued(scene: &Scene<'_>, segment: &Segment<'_>, worker: u32) -> Claim {
    let stack = scene.main_stack(worker, segment.from_ns, segment.to_ns);
    let culprit = (stack != 0).then_some(Culprit { tid: worker, stack, measured: true });
    Claim { culprit, prefer_user: true, seen: true, ..Claim::of(Cause::PoolWait, segment) }
}

pub fn sentence(d: &Described<'_>) -> String {
    let waited = format!("{} waited {} for a pool", at(d.place), ms_text(d.mean_ms));
    match d.culprit {
        Some(culprit) => format!("{waited} whose workers were busy in {}", culprit.short()),
        None => waited,
    }
}
