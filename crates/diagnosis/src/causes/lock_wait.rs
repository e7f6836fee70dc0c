//! lock-wait: the request's thread waits in a futex (or a file lock) that is not the GIL's.
//!
//! Signature: futex wait; the futex address is the lock's identity. The holder is read from the
//! lock itself where it has an owner field (RLock) or from the thread that sits inside the lock's
//! `with` block; otherwise inferred: the only thread that ran just before the wait ended. Inferred
//! holders make the verdict "likely", never "confirmed".

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::awaits::{by_library, holder, Awaited};
use crate::frames::is_stdlib;
use crate::scene::Scene;
use crate::timeline::{Segment, State};
use format::wait::{AwaitKind, WaitKind};

pub const RULE: Rule = Rule { claim };
pub const ADVICE: &str = "Shorten what is done while the lock is held: move waiting, I/O and long \
     work out of it.";

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Wait {
        return None;
    }
    match segment.wait() {
        // `Thread.start` waits for the new thread to come up: no lock of anybody's.
        WaitKind::Futex
            if scene.frames.any(segment.stack(), |f| is_stdlib(f, "threading.py", &["start"])) =>
        {
            None
        }
        WaitKind::Futex => {
            let culprit = scene.lock_holder(segment);
            Some(Claim { culprit, ..Claim::of(Cause::LockWait, segment) })
        }
        WaitKind::FileLock => {
            let target = segment.sample.and_then(|s| scene.target(s));
            Some(Claim { target, ..Claim::of(Cause::LockWait, segment) })
        }
        _ => None,
    }
}

/// Of a suspended task: a lock, whose holder is the task suspended inside its `async with`; or an
/// Event or Condition that another task is to set, unless a library's: that is its way to wait for
/// a peer or a pool.
pub fn awaited(scene: &Scene<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = Claim::of_await(Cause::LockWait, seen.row, segment);
    match seen.row.kind {
        AwaitKind::Lock => Some(Claim { culprit: holder(scene, seen, segment), ..own }),
        AwaitKind::Condition => Some(own),
        AwaitKind::Event => (!by_library(scene, seen.row)).then_some(own),
        _ => None,
    }
}

pub fn sentence(d: &Described<'_>) -> String {
    let what = match d.target {
        Some(target) => format!("the file lock of {target}"),
        None => "a lock".to_owned(),
    };
    let waited = format!("{} waited {} for {what}", at(d.place), ms_text(d.mean_ms));
    let Some(culprit) = d.culprit else {
        return format!("{waited}; who held it is not known");
    };
    let doing = d.culprit_doing.map_or_else(String::new, |doing| format!(", which {doing}"));
    let known = if d.culprit_measured { "held by" } else { "most likely held by" };
    match d.culprit_threads {
        _ if d.culprit_is_task => {
            format!("{waited}, {known} {} in another task{doing}", culprit.short())
        }
        0 | 1 => {
            let thread = d.culprit_thread.unwrap_or("another thread");
            format!("{waited}, {known} {} in thread {thread}{doing}", culprit.short())
        }
        n => format!("{waited}, {known} {} in {n} threads in turn{doing}", culprit.short()),
    }
}
