//! event-loop-blocked: a request that runs on an event loop waits because a callback (its own or
//! another request's) keeps the loop's thread.
//!
//! Signature: the loop's thread is not in its poll call but on a CPU or blocked elsewhere, in one
//! place for longer than `thresholds::loop_blocked_ns`. Not its own doing, and so another cause's:
//! a stopped process, a collection, another thread that kept the GIL, no CPU. Time in which the
//! loop polls is the request's own waiting for something it awaits: see `on_loop`. The same holds
//! for gevent's hub and its greenlets. Where its task was not seen the time is unknown.
//!
//! Workers of a native runtime (tokio's) are loops, too. One that waits for work, in epoll or for
//! a fellow's notice, has no code of the program on its stack; nothing reads what its tasks await.
//!
//! Where that code waits for another thread (for a lock, for an item of a pool), the culprit is the
//! blocker that a thread would have had, known the same way: see `lock_wait` and `pool_wait`.
//!
//! Quotes: the blocker, and what it did. Sure: it ran, or one call kept it, by switch records;
//! unsure: hardly any sample found it there.

use analysis::frames::Place;
use analysis::resource::Resource;
use analysis::thresholds;
use analysis::timeline::{Segment, State};
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::locks::lock_wait;
use crate::causes::others::{downstream_wait, pool_wait};
use crate::causes::python::import;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::doing::Doing;
use analysis::readable::ms_text;

pub const RULE: Rule = Rule { id: "event-loop-blocked", grounds: Grounds::Loop, claim };
pub const ROW: Row = Row { sentence, advice };

const ADVICE: &str =
    "Await an asynchronous version of the call, or hand it to a thread: asyncio.to_thread().";

/// The same of a hub of gevent's, whose greenlets await nothing.
const ADVICE_GREENLETS: &str =
    "Hand the call to a thread: the thread pool of gevent's hub; or use a version of it that lets \
     other greenlets run.";

/// The same of a program without an interpreter.
const ADVICE_NATIVE: &str =
    "Await an asynchronous version of the call, or hand it to a thread that serves nobody else: \
     tokio::task::spawn_blocking(), or a pool of your own for long computing.";

/// Of a lock of a program without an interpreter.
const ADVICE_NATIVE_LOCK: &str =
    "Keep no guard of such a lock over an .await, and do little while it is held; or use a lock that \
     tasks await (tokio::sync), which keeps no worker.";

/// Of a loop that writes to a pipe or terminal, or waits for the thread that does.
const ADVICE_PIPE: &str =
    "Write through a queue to a thread of its own, so that the loop never waits for the reader; write \
     less, or make the reader (log collector, terminal) keep up.";

/// Of a loop that waits for another thread.
const ADVICE_WAITS: &str =
    "Let the loop wait for no thread: await instead, or hand the call to a thread \
     (asyncio.to_thread()); and shorten what the other does meanwhile.";

/// The same of gevent's.
const ADVICE_GREENLETS_WAIT: &str =
    "Let no greenlet wait for a thread: hand the call to the thread pool of gevent's hub; and shorten \
     what the other does meanwhile.";

/// Of a loop whose callback got no CPU for most of the time.
const ADVICE_CROWDED: &str =
    "Give the service more CPU, or find what else runs on these CPUs; and hand the work to a thread or \
     process, so that the loop's requests do not wait for it.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if !cx.is_loop(segment) {
        return None;
    }
    let idle = cx.is_idle_loop(segment) || cx.may_poll(segment);
    if cx.frames.is_native_program() && idle {
        // The worker has nothing to do: where it waits says nothing of the task.
        let resource = Some(Resource::NativeAwait { span: None });
        return Some(Claim { resource, stack: 0, ..Claim::of(Cause::Unknown, segment) });
    }
    if idle {
        return Some(Claim::of(Cause::Unknown, segment));
    }
    if segment.state == State::Ready
        || (segment.state == State::Wait && segment.wait() == WaitKind::Gil)
    {
        return None;
    }
    let kept = is_kept(cx, segment);
    let resource = kept.then(|| downstream_wait::peer_of_loop(cx, segment)).flatten();
    let own = Claim { resource, ..Claim::of(Cause::EventLoopBlocked, segment) };
    let waits = || waits(cx, segment).map(|c| Claim { cause: Cause::EventLoopBlocked, ..c });
    kept.then(|| waits().unwrap_or(own))
}

/// What a thread's wait for other threads would be claimed for, if `segment` is one: also one in
/// which it asks for a lock again and again, with pauses.
pub fn waits(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let asks = || segment.wait() == WaitKind::Sleep && cx.frames.asks_for_a_lock(segment.stack());
    if !matches!(segment.wait(), WaitKind::Futex | WaitKind::FileLock) && !asks() {
        return None;
    }
    let rules = [pool_wait::RULE, lock_wait::RULE];
    rule::heaviest(cx, &rules, |r| r.grounds, |r| r.id, |r| (r.claim)(cx, segment))
}

/// Whether code, the GIL or a lack of CPU kept the loop in a segment of its thread.
pub fn is_kept(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    !cx.is_idle_loop(segment)
        && !cx.may_poll(segment)
        && segment.state != State::Unknown
        && cx.busy_around(segment) >= thresholds::loop_blocked_ns()
}

/// Of a loop that loads a module it is the import that counts.
fn advice(d: &Described<'_>) -> &'static str {
    let is_rust = d.place.is_some_and(Place::is_rust);
    match d.culprit_doing {
        Some(Doing::Pipe) => ADVICE_PIPE,
        Some(Doing::Lock) if is_rust => ADVICE_NATIVE_LOCK,
        _ if is_rust && d.waits == Cause::LockWait => ADVICE_NATIVE_LOCK,
        _ if is_rust => ADVICE_NATIVE,
        _ if d.waits != Cause::EventLoopBlocked => match d.has_greenlets {
            true => ADVICE_GREENLETS_WAIT,
            false => ADVICE_WAITS,
        },
        Some(Doing::LoadedModule) => (import::ROW.advice)(d),
        _ if d.starved_ms > thresholds::half() * d.mean_ms => ADVICE_CROWDED,
        _ if d.has_greenlets => ADVICE_GREENLETS,
        _ => ADVICE,
    }
}

fn sentence(d: &Described<'_>) -> String {
    let doing = d.culprit_doing.map_or_else(String::new, |doing| match (doing, d.resource) {
        (Doing::Peer, Some(peer @ Resource::Peer { .. })) => format!("; it waited for {peer}"),
        _ => format!("; it {}", doing.text()),
    });
    let task = d.task.map_or_else(String::new, |task| format!(" in task `{task}`"));
    let kept = format!("{}{task} kept the event loop for {}", rule::at(d.place), d.time());
    match d.waits {
        Cause::LockWait => format!("{kept}; it waited {}", lock_wait::waited_for(d)),
        Cause::PoolWait => format!("{kept}; it waited {}", pool_wait::waited_for(d)),
        _ if d.starved_ms >= thresholds::doubtful_part() * d.mean_ms => {
            format!("{kept}{doing}, and got no CPU for {} of that time", ms_text(d.starved_ms))
        }
        _ => format!("{kept}{doing}"),
    }
}
