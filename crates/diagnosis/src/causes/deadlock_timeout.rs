//! deadlock-timeout: two threads (or more) each waited for a lock that another of them held, until
//! a time limit ran out.
//!
//! Signature: the holder of the lock waited for a lock itself, and so on, back to the waiting
//! thread. If the chain leads back to another of its threads instead, the waiting thread is behind
//! the deadlock. No wake-up could have come. Where locks do not name their holders: one thread went
//! on when the other gave up (`lock_order`). Without the time limit they would still be blocked.
//!
//! Quotes: both holders, and the threads behind them. Sure: both locks name their holders; unsure:
//! crossed waits without owners.

use analysis::timeline::{Segment, State};
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::ended_by::{holder, lock_order};
use crate::wording::ms_text;

pub const RULE: Rule = Rule { id: "deadlock-timeout", claim };
pub const ROW: Row = Row { sentence, advice: |_| ADVICE };

const ADVICE: &str =
    "Take these locks in the same order everywhere, or never wait for one while holding the other.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Wait || segment.wait() != WaitKind::Futex {
        return None;
    }
    let measured = holder::in_deadlock(cx, segment);
    let blocker = measured.or_else(|| lock_order::inverted(cx, segment))?;
    Some(Claim { blocker: Some(blocker), ..Claim::of(Cause::DeadlockTimeout, segment) })
}

fn sentence(d: &Described<'_>) -> String {
    let waited = format!("{} waited {} for a lock", rule::at(d.place), ms_text(d.mean_ms));
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
