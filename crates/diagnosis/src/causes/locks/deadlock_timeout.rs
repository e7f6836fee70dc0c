//! deadlock-timeout: two threads (or more) each waited for a lock that another of them held, until
//! a time limit ran out.
//!
//! Signature: the holder of the lock waited for a lock itself, and so on, back to the waiting
//! thread. If the chain leads back to another of its threads instead, the waiting thread is behind
//! the deadlock. No wake-up could have come. Where locks do not name their holders: one thread went
//! on when the other gave up (`lock_order`). Without the time limit they would still be blocked.
//!
//! A notice that never comes is the same for its waiter: a Condition, a Barrier, or an Event that
//! others at the same place got notice of, was waited for to its time limit, and no thread ended
//! the wait.
//! A task's Event counts always: its sleep can be interrupted without one.
//! (A pool that hands nothing out in time is pool-wait; a thread's Event as a pause is sleep.)
//!
//! Quotes: both holders, and the threads behind them. Sure: both locks name their holders, or the
//! wait was seen to run to its limit; unsure: crossed waits without owners.

use analysis::resource::{Of, Resource};
use analysis::timeline::{Segment, State};
use format::wait::{AwaitKind, WaitKind};

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::locks::lock_wait;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::ended_by::holder;
use crate::facts::awaits::{self, Awaited};
use crate::facts::waiting;

pub const RULE: Rule = Rule { id: "deadlock-timeout", grounds: Grounds::Circle, claim };
pub const ROW: Row = Row { sentence, advice };

const ADVICE_NOTICE: &str =
    "Find the thread that should have given notice and did not: a notify() or set() that is missing \
     on one way out (an error, an early return), that came before the wait, or whose thread is gone.";

const ADVICE_TASK: &str =
    "Find the task or callback that should have given notice and did not: a set() or notify() that is \
     missing on one way out (an error, a cancellation), that came before the wait, or whose task is \
     gone; if it is meant as a pause, take it off the request's path.";

const ADVICE_BARRIER: &str =
    "Find the thread that should have come to the Barrier and did not (an error, an early return, a \
     thread that is gone), or compare the number of its parties with the threads that come to it.";

const ADVICE: &str =
    "Take these locks in the same order everywhere, or never wait for one while holding the other.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Wait || segment.wait() != WaitKind::Futex {
        return None;
    }
    let own = Claim::of(Cause::DeadlockTimeout, segment);
    if let Some(notice) = waiting::missed_notice(cx, segment) {
        return Some(Claim { resource: Some(notice), ..own });
    }
    let blocker = holder::in_circle(cx, segment)?;
    Some(Claim { blocker: Some(blocker), ..own })
}

/// Of a suspended task: a Condition or an Event whose `wait_for` ran out.
pub fn awaited(cx: &Context<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let resource = match seen.row.kind {
        _ if !seen.timed_out() => return None,
        // A library waits for its peer so.
        AwaitKind::Event if awaits::by_library(cx, seen.row) => return None,
        AwaitKind::Event if cx.frames.is_native_program() => Resource::TaskNotice,
        AwaitKind::Event => Resource::Event(Of::Tasks),
        AwaitKind::Condition => Resource::Condition(Of::Tasks),
        _ => return None,
    };
    let own = Claim::of_await(Cause::DeadlockTimeout, seen.row, segment);
    Some(Claim { resource: Some(resource), ..own })
}

/// Of a notice that did not come the thread counts that was to give it.
fn advice(d: &Described<'_>) -> &'static str {
    match lock_wait::is_notice(d.resource) {
        true if d.resource == Some(&Resource::Barrier) => ADVICE_BARRIER,
        true if matches!(d.resource, Some(Resource::Event(Of::Tasks))) => ADVICE_TASK,
        true => ADVICE_NOTICE,
        false => ADVICE,
    }
}

fn sentence(d: &Described<'_>) -> String {
    if lock_wait::is_notice(d.resource) {
        let waited = lock_wait::noticeless(d);
        let why = match d.resource {
            Some(Resource::Barrier) => "too few threads came to it",
            _ => "nobody gave notice",
        };
        return format!("{waited} until its time limit: {why}");
    }
    let waited = format!("{} waited {} for a lock", rule::at(d.place), d.time());
    let thread = d.culprit_thread.unwrap_or("another thread");
    let of = if d.culprit_measured { " of" } else { ", most likely of" };
    match d.culprit {
        Some(_) => format!(
            "{waited}{of} {} in thread {thread}, and each had what the next one waited for: a \
             deadlock until a time limit ran out",
            d.blamed()
        ),
        None => format!("{waited} in a deadlock until a time limit ran out"),
    }
}
