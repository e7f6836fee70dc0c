//! lock-wait: the request's thread waits in a futex (or a file lock) that is not the GIL's.
//!
//! Signature: futex wait; the futex address is the lock's identity. The holder is read from the
//! lock itself where it has an owner field (RLock) or from the thread that sits inside the lock's
//! `with` block; otherwise inferred: the one thread that stands in the very call that waits and does
//! something else there (a lock inside of C code: a buffered file, a database connection), or the
//! only thread that ran just before the wait ended. Inferred holders make the verdict "likely", never
//! "confirmed".

use super::pool_wait::hands_out;
use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::awaits::{by_library, holder_of_any, likely_holder, Awaited};
use crate::frames::{is_stdlib, last_part};
use crate::scene::Scene;
use crate::timeline::{Segment, State};
use capture::read::Frame;
use format::wait::{AwaitKind, WaitKind, HELD_BY};

pub const RULE: Rule = Rule { claim };
const ADVICE: &str = "Shorten what is done while the lock is held: move waiting, I/O and long \
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
        // Nor does an executor's worker wait for one that has nothing to do: a look at it from before
        // its work began.
        WaitKind::Futex if idles(scene, segment) => None,
        WaitKind::Futex => {
            let culprit = scene.lock_holder(segment);
            if culprit.is_none() && scene.joins(segment.stack()) {
                // The end of a thread that nobody saw: no lock, and nobody held one.
                return None;
            }
            let target = told_by(scene, segment).map(str::to_owned);
            Some(Claim { culprit, target, ..Claim::of(Cause::LockWait, segment) })
        }
        WaitKind::FileLock => {
            let target = segment.sample.and_then(|s| scene.target(s));
            Some(Claim { target, ..Claim::of(Cause::LockWait, segment) })
        }
        _ => None,
    }
}

/// Of what others are to tell it is what they do first that counts.
pub fn advice(target: Option<&str>) -> &'static str {
    match target {
        Some(EVENT) => {
            "Look at what the thread that sets the Event does before; give the wait a time limit."
        }
        Some(BARRIER) => {
            "Look at what the thread that comes to the barrier last does before; give the wait a time \
             limit."
        }
        Some(CONDITION) => {
            "Look at what the thread that notifies does before; give the wait a time limit."
        }
        _ => ADVICE,
    }
}

/// What the target says of a `threading.Event`, which has a setter and no holder.
const EVENT: &str = "threading.Event";
/// The same of a `threading.Barrier`, which waits for who comes last, and of a `threading.Condition`,
/// whose waiter is notified, and then wants its lock back.
const BARRIER: &str = "threading.Barrier";
const CONDITION: &str = "threading.Condition";

/// Whether the kernel told who has the file lock that is waited for.
pub fn is_told(target: Option<&str>) -> bool {
    target.is_some_and(|target| target.contains(HELD_BY))
}

/// What is no lock although its code waits in one: `Event.wait` and `Barrier.wait` call `Condition.wait`.
fn told_by(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<&'static str> {
    let is = |f: &Frame<'_>, names: &[&str]| is_stdlib(f, "threading.py", names);
    let mut frames = scene.frames.of(segment.stack());
    if !frames.next().is_some_and(|f| is(&f, &["wait"])) {
        return None;
    }
    match (frames.next(), frames.next()) {
        (Some(f), _) if is(&f, &["wait"]) => Some(EVENT),
        (Some(f), Some(g)) if is(&f, &["wait_for"]) && is(&g, &["_wait", "_enter"]) => {
            Some(BARRIER)
        }
        _ => Some(CONDITION),
    }
}

fn idles(scene: &Scene<'_>, segment: &Segment<'_>) -> bool {
    let leaf = scene.frames.of(segment.stack()).next();
    leaf.is_some_and(|f| {
        f.file.ends_with("/concurrent/futures/thread.py") && last_part(f.function) == "_worker"
    })
}

/// Of a suspended task: a lock, whose holder is the task suspended inside its `async with`; or an
/// Event or Condition that another task is to set, unless a library's: that is its way to wait for
/// a peer or a pool.
pub fn awaited(scene: &Scene<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = Claim::of_await(Cause::LockWait, seen.row, segment);
    match seen.row.kind {
        AwaitKind::Lock => {
            let known = holder_of_any(scene, seen, segment);
            let culprit = known.or_else(|| likely_holder(scene, seen, segment));
            Some(Claim { culprit, ..own })
        }
        AwaitKind::Condition | AwaitKind::Event => {
            let library = by_library(scene, seen.row);
            // A library that hands something out waits in a Condition of its own.
            let pool = library && hands_out(scene, seen.row.stack);
            if pool || library && seen.row.kind == AwaitKind::Event {
                return None;
            }
            Some(Claim { culprit: holder_of_any(scene, seen, segment), ..own })
        }
        _ => None,
    }
}

pub fn sentence(d: &Described<'_>) -> String {
    let (held, unknown) = match d.target {
        Some(EVENT) => ("set", "was to set it"),
        Some(BARRIER) => ("held up", "came last"),
        Some(CONDITION) => ("let go", "was to notify it"),
        _ => ("held", "held it"),
    };
    let what = match d.target {
        Some(EVENT) => "an Event".to_owned(),
        Some(BARRIER) => "the others at a barrier".to_owned(),
        Some(CONDITION) => "a condition".to_owned(),
        Some(target) => format!("the file lock of {target}"),
        None => "a lock".to_owned(),
    };
    let waited = format!("{} waited {} for {what}", at(d.place), ms_text(d.mean_ms));
    if d.culprit.is_none() {
        return match is_told(d.target) {
            true => waited,
            false => format!("{waited}; who {unknown} is not known"),
        };
    }
    let doing = d.culprit_doing.map_or_else(String::new, |doing| format!(", which {doing}"));
    let known = match d.culprit_measured {
        true => format!("{held} by"),
        false => format!("most likely {held} by"),
    };
    match d.culprit_threads {
        _ if d.culprit_is_task => {
            format!("{waited}, {known} {} in another task{doing}", d.blamed())
        }
        0 | 1 => {
            let thread = match d.culprit_thread {
                Some(name) => format!("thread {name}"),
                None => "another thread".to_owned(),
            };
            format!("{waited}, {known} {} in {thread}{doing}", d.blamed())
        }
        n => format!("{waited}, {known} {} in {n} threads in turn{doing}", d.blamed()),
    }
}
