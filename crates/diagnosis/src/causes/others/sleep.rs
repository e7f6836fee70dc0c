//! sleep: the request's own thread asked the kernel to wake it later.
//!
//! Signature: nanosleep/clock_nanosleep, or select/poll on nothing with a time limit; also a wait
//! of `threading` for an Event whose time limit ran out, the usual shape of a sleep that can be
//! interrupted, where no such wait got its notice (else: deadlock-timeout). On an event loop:
//! `asyncio.sleep` alone, which a cancellation interrupts. Sure when the system call was seen;
//! nobody else is involved, so there is no culprit but the caller.
//!
//! Quotes: the length asked for, what was called between pauses. Unsure: times are estimates, or an
//! await between two samples.

use analysis::frames::Place;
use analysis::resource::Resource;
use analysis::signatures::Stdlib;
use analysis::thresholds;
use analysis::timeline::{Segment, State};
use format::wait::{AwaitKind, WaitKind};

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::facts::awaits::Awaited;
use crate::facts::{children, pools, waiting};

pub const RULE: Rule = Rule { id: "sleep", grounds: Grounds::TimeLimit, claim };
pub const ROW: Row = Row { sentence, advice };

const ADVICE: &str = "Take the pause off the request's path: do the retry or back-off in the \
     background, or give it a deadline shorter than the request's; if it waits for something that \
     is busy, such as a locked database, find what keeps that busy.";

const ADVICE_LIMIT: &str =
    "Find the thread or task that should have ended the wait and did not (a notify that is missing or \
     comes before the wait, a thread that is gone); if it is meant as a pause, take it off the \
     request's path.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Wait {
        return None;
    }
    let own = Claim::of(Cause::Sleep, segment);
    match segment.wait() {
        // It asks for a lock again and again.
        WaitKind::Sleep if cx.frames.asks_for_a_lock(segment.stack()) => None,
        // It asks again and again whether a child process has ended.
        WaitKind::Sleep if children::awaits_child(cx, segment) => None,
        WaitKind::Sleep | WaitKind::Yield => Some(own),
        WaitKind::Futex => {
            let waits = cx.frames.leaf_at(segment.stack(), Stdlib::Wait);
            // A thread that waits for a pool in vain does not rest.
            let waits = waits && !pools::is_of_a_pool(cx, segment.stack());
            let waits = waits && waiting::missed_notice(cx, segment).is_none();
            let resource = Some(Resource::TimeLimit);
            (waits && waiting::ran_out(cx, segment)).then_some(Claim { resource, ..own })
        }
        _ => None,
    }
}

/// Of a wait that no thread ended the thread counts that should have ended it.
fn advice(d: &Described<'_>) -> &'static str {
    match d.resource {
        Some(Resource::TimeLimit) => ADVICE_LIMIT,
        _ => ADVICE,
    }
}

/// Of a suspended task.
pub fn awaited(_: &Context<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let sleeps = seen.row.kind == AwaitKind::Sleep;
    sleeps.then(|| Claim::of_await(Cause::Sleep, seen.row, segment))
}

fn sentence(d: &Described<'_>) -> String {
    let slept = format!("{} slept for {}", rule::at(d.place), d.time());
    let name = |called: &Place| match d.named_retried() {
        Some(elsewhere) => elsewhere.short(),
        None => format!("{}()", called.function),
    };
    match (d.times, d.retried) {
        _ if d.resource == Some(&Resource::TimeLimit) => {
            format!("{slept} in a wait that nobody ended before its time limit")
        }
        (times, Some(called)) if times > 1 => {
            format!("{slept} in {times} pauses between calls of {}", name(called))
        }
        (_, Some(called)) => format!("{slept} between calls of {}", name(called)),
        (times, None) if times >= thresholds::pauses() => {
            format!("{slept} in {times} pauses (it retries, or asks again until something is free)")
        }
        _ => slept,
    }
}
