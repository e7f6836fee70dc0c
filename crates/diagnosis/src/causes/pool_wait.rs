//! pool-wait: the request waits for a worker or for something out of a pool.
//!
//! Signature: a piece of its work was handed to an executor and had not begun (the recorder stamps
//! both), or its thread waits in `queue.Queue.get`, the usual shape of a pool of connections, or for
//! the result of an executor or of multiprocessing's pool; on an
//! event loop its task awaits a Semaphore, a Queue, or a library's code that hands things out. What
//! the pool's workers did the while is the culprit.

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::awaits::{holder, target, Awaited};
use crate::frames::{is_stdlib, last_part, Owner};
use crate::scene::{Culprit, Scene};
use crate::timeline::{Segment, State};
use format::wait::{AwaitKind, WaitKind};

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str =
    "Make the pool larger, give its waiters a time limit, or shorten what keeps its workers busy.";

/// Files of the interpreter's library that hand work to others.
const POOLS: [&str; 2] = ["/multiprocessing/pool.py", "/concurrent/futures/_base.py"];
/// Their functions that wait for what comes back.
const RESULTS: &[&str] = &["get", "wait", "result", "exception", "as_completed"];

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Wait || segment.wait() != WaitKind::Futex {
        return None;
    }
    let gets = scene.frames.any(segment.stack(), |f| {
        is_stdlib(f, "queue.py", &["get"])
            || POOLS.iter().any(|file| f.file.ends_with(file))
                && RESULTS.contains(&last_part(f.function))
    });
    gets.then(|| Claim { prefer_user: true, ..Claim::of(Cause::PoolWait, segment) })
}

/// A claim for time in which a piece of the request's work stood in an executor's queue. `worker`
/// is the thread that took it in the end.
pub fn queued(scene: &Scene<'_>, segment: &Segment<'_>, worker: u32) -> Claim {
    let stack = scene.main_stack(worker, segment.from_ns, segment.to_ns);
    let culprit = (stack != 0).then_some(Culprit::thread(worker, stack, true));
    Claim { culprit, prefer_user: true, seen: true, ..Claim::of(Cause::PoolWait, segment) }
}

/// Of a suspended task: a semaphore, a queue, or a library's Event in code that hands something out.
pub fn awaited(scene: &Scene<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = Claim { prefer_user: true, ..Claim::of_await(Cause::PoolWait, seen.row, segment) };
    match seen.row.kind {
        AwaitKind::Semaphore => Some(Claim { culprit: holder(scene, seen, segment), ..own }),
        AwaitKind::Queue => Some(own),
        AwaitKind::Event | AwaitKind::Future if target(scene, seen.row).is_none() => {
            hands_out(scene, seen.row.stack).then_some(own)
        }
        _ => None,
    }
}

/// Frames of a library that are looked at for its pool.
const MOST_FRAMES: usize = 4;

/// Whether the innermost code is a library's that hands connections or the like out, as far as its
/// names say. A client library's own future tells nothing else.
fn hands_out(scene: &Scene<'_>, stack: u32) -> bool {
    let own = scene.frames.of(stack).filter(|f| scene.frames.owner(f.file) != Owner::Runtime);
    let mut library = own.take_while(|f| scene.frames.owner(f.file) == Owner::Library);
    library.by_ref().take(MOST_FRAMES).any(|f| {
        let name = f.function.rsplit('.').next().unwrap_or(f.function);
        let words = ["acquire", "checkout", "get_connection", "wait_for_connection"];
        words.iter().any(|word| name.contains(word)) || name.contains("available_connection")
    })
}

pub fn sentence(d: &Described<'_>) -> String {
    let waited = format!("{} waited {} for a pool", at(d.place), ms_text(d.mean_ms));
    match d.culprit {
        Some(culprit) if d.culprit_is_task => {
            let doing =
                d.culprit_doing.map_or_else(String::new, |doing| format!(", which {doing}"));
            format!("{waited} that was taken up by {}{doing}", culprit.short())
        }
        Some(culprit) => format!("{waited} whose workers were busy in {}", culprit.short()),
        None => format!("{waited}; what kept it busy is not known"),
    }
}
